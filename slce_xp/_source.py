"""Where X lives, read in pieces: a pass over the data is a sum over its row blocks.

No one above this file takes more of X at a time than a block, so nothing of the size
of X is ever made beside it. What is done with a block is a function, its *term*: how the
terms are summed is the source's own affair.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np

from slce_xp import _validate, _xp
from slce_xp._linalg import add, read
from slce_xp._plan import READ_BLOCK, block_bytes
from slce_xp._progress import Progress
from slce_xp._rows import RowReader
from slce_xp._xp import Array, Place, Sparse

# Places in X that rows are taken from to see how far they lie from the origin.
PROBE_SPOTS = 8

# What a pass makes of a block: its slice and its lines in, arrays to be summed out.
Term = Callable[[slice, Array], tuple[Array | None, ...]]
# The same of rows and what belongs to each of them.
Kernel = Callable[..., tuple[Array | None, ...]]


class ArraySource:
    """A matrix in memory, read as floating-point blocks.

    Parameters
    ----------
    x : array, shape (n, d)
        Never copied as a whole nor written to. Integers are converted block by block.
    dtype : optional
        What to convert blocks to; by default what `x` is best computed in.
    kept : numpy.ndarray of int, optional
        Positions of the rows to read, if not all.
    """

    is_sparse = False
    by_rows = False  # whether only rows can be had, and columns not
    in_memory = True  # whether rows from all over X can be had at once
    has_room_for_copy = False  # whether memory allows a temporary as large as X

    def __init__(
        self,
        x: Array,
        dtype: Any = None,
        progress: Progress | None = None,
        kept: np.ndarray | None = None,
    ) -> None:
        self._x = x
        self._kept = kept
        self.row_numbers = kept  # of the caller's X
        self.progress = progress or Progress()
        self.n, self.d = x.shape
        self.n = self.n if kept is None else len(kept)
        self.place: Place = _xp.place_of(x)
        self.dtype: Any = dtype or _xp.working_dtype(x)
        xp = self.place.xp
        self._itemsize = int(xp.finfo(self.dtype).bits) // 8
        self._block_bytes = block_bytes(self.n, self.d, self._itemsize)
        self._read_rows = self._panel_rows = max(1, self.block_length(self.d))

    def rows(self, index: slice) -> Array:
        """Rows as floats: a view if X has the working dtype, and all rows are kept."""
        if self._kept is not None:
            return self.gather(_xp.from_host(np.arange(self.n)[index], self.place))
        rows = self._x if index == slice(0, self.n) else self._x[index, :]
        return self.place.xp.astype(rows, self.dtype, copy=False)

    def gather(self, index: Array) -> Array:
        """Rows at the given positions, as floats."""
        xp = self.place.xp
        if self._kept is not None:
            index = xp.take(self._kept_index, index)
        return xp.astype(xp.take(self._x, index, axis=0), self.dtype, copy=False)

    def columns(self, index: slice) -> Array:
        """Columns as floats."""
        columns = self._x if index == slice(0, self.d) else self._x[:, index]
        if self._kept is not None:
            columns = self.place.xp.take(columns, self._kept_index, axis=0)
        return self.place.xp.astype(columns, self.dtype, copy=False)

    @cached_property
    def _kept_index(self) -> Array:
        return _xp.from_host(self._kept, self.place)  # type: ignore[arg-type]

    def probe(self, count: int) -> Array:
        """At most `count` rows from all over X, as floats, within a block with their squares."""
        count = min(count, self.block_length(2 * self.d))
        return self.rows(slice(None, None, -(-self.n // count)))

    def probe_size(self) -> float:
        """The largest magnitude in a sparse X, or in a part of it: not finite if X is not."""
        return largest_magnitude(self.rows(next(iter(self.row_blocks(self.d)))))

    def largest_deviation(self, shift: Array | None) -> float:
        """The largest magnitude in X − shift, by a pass over X."""
        largest = 0.0
        with self.reading(0 if shift is None else self.d) as blocks:
            for _, rows in blocks:
                largest = max(largest, largest_magnitude(rows if shift is None else rows - shift))
        return largest

    def sum_rows(self, term: Term, made: int) -> tuple[Array, ...]:
        """Sum what `term` makes of each row block: one pass over X.

        Parameters
        ----------
        term : function of a slice and the rows there
            Its arrays belong to the sum, which is taken in place.
        made : int
            Numbers that it makes per row.
        """
        totals: tuple[Array, ...] = ()
        with self.reading(made) as blocks:
            for block, rows in blocks:
                terms = term(block, rows)
                del rows  # before the next block is made, not after
                totals = _added(totals, terms)
        return totals

    def join_rows(self, piece: Callable[[Array], Array], made: int) -> Array:
        """Join what `piece` makes of the rows of each block, (m, d) ↦ (b, m), to (b, n)."""
        with self.reading(made) as blocks:
            pieces = [piece(rows) for _, rows in blocks]
        return self.place.xp.concat(pieces, axis=1) if len(pieces) > 1 else pieces[0]

    def map_rows(self, kernel: Kernel, made: int, *per_sample: Array | None) -> tuple[Array, ...]:
        """Sum what `kernel` makes of the rows of each block and of the arrays' parts for them."""
        return self.sum_rows(_Parts(kernel, per_sample), made)

    def reading(self, made: int) -> contextlib.closing[Generator[tuple[slice, Array]]]:
        """Row blocks, one after the other, for a ``with``: at its end no reader is left."""
        return contextlib.closing(self._read(list(self.row_blocks(made))))

    def _read(self, blocks: list[slice]) -> Generator[tuple[slice, Array]]:
        self.progress.begin_pass(self.n)
        for count, block in enumerate(blocks, 1):
            yield block, self.rows(block)
            self.progress.read(block.stop - block.start, count, len(blocks))

    def sum_columns(self, term: Term, made: int, least: int = 1) -> tuple[Array, ...]:
        """Sum what `term` makes of each column block, of `least` columns or more."""
        totals: tuple[Array, ...] = ()
        blocks = list(self.column_blocks(made, least))
        self.progress.begin_pass(self.n)
        for count, block in enumerate(blocks, 1):
            totals = _added(totals, term(block, self.columns(block)))
            done = [self.n * i // len(blocks) for i in (count - 1, count)]
            self.progress.read(done[1] - done[0], count, len(blocks))
        return totals

    def outer(self, centred: Callable[[Array], Array]) -> Array:
        """R·Rᵀ of rows R = centred(rows), shape (n, n).

        Some rows are held while all after them are read: with p such panels p / 2 passes over X.
        """
        panels = []  # products of each panel with the rows from its own on
        for panel in _within(slice(0, self.n), self._panel_rows):
            held: list[Array] = []  # as they were read: joined they would be there twice
            with contextlib.closing(self._read(_within(panel, self._read_rows))) as blocks:
                for _, rows in blocks:
                    held.append(centred(rows))
                    del rows
            strips = [[left @ right.T for right in held[i:]] for i, left in enumerate(held)]
            rest = _within(slice(panel.stop, self.n), self._read_rows)
            if rest:
                with contextlib.closing(self._read(rest)) as blocks:
                    for _, rows in blocks:
                        right = centred(rows)
                        del rows
                        for left, strip in zip(held, strips, strict=True):
                            strip.append(left @ right.T)
                        del right
            joined = [self.place.xp.concat(strip, axis=1) for strip in strips]
            panels.append(_mirrored(joined, self.place))
        return _mirrored(panels, self.place)

    def put(self, values: np.ndarray | None) -> Array | None:
        """Numbers of the host where X is, in its working dtype; None stays None."""
        return None if values is None else _xp.from_host(values, self.place, self.dtype)

    def put_codes(self, codes: np.ndarray) -> Array:
        """Codes of the samples, where X is."""
        return _xp.from_host(codes, self.place)

    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows, as long as what is made of them stays within the bytes of a block.

        Parameters
        ----------
        made : int
            Numbers that the caller makes per row. Rows themselves are views where X has the
            working dtype, and count where they are not.
        """
        return self._blocks(self.n, self.d, made, _xp.row_slices_are_views)

    def column_blocks(self, made: int, least: int = 1) -> Iterator[slice]:
        """Slices of columns, likewise, or of `least` where that is more."""
        return self._blocks(self.d, self.n, made, _xp.column_slices_are_views, least)

    def _blocks(
        self,
        count: int,
        width: int,
        made: int,
        are_views: Callable[[Any], bool],
        least: int = 1,
    ) -> Iterator[slice]:
        if self._kept is not None or self._x.dtype != self.dtype or not are_views(self.place.xp):
            made, least = made + width, least // 2
        return _blocks(count, max(least, self.block_length(made)))

    def block_length(self, width: int) -> int:
        """How many lines of `width` numbers make a block."""
        return max(1, self._block_bytes // max(1, width * self._itemsize))

    def raise_if_not_finite(self, first_row: int = 0) -> None:
        """Find the first NaN or infinity: a slow scan for when a sum has shown there is one."""
        xp = self.place.xp
        for block in self.row_blocks(self.d):
            values = self.rows(block)
            bad = ~xp.isfinite(values)
            if bool(_xp.to_host(xp.any(bad))):
                position = int(_xp.to_host(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int8))))
                row, column = divmod(position, self.d)
                value = float(_xp.to_host(values[row, column]))
                raise self._not_finite(first_row + block.start + row, column, value)

    def _not_finite(self, row: int, column: int, value: float) -> ValueError:
        row = row if self.row_numbers is None else int(self.row_numbers[row])
        return _validate.not_finite(row, column, value)


class SparseSource(ArraySource):
    """A sparse matrix, read as sparse blocks: never densified, nor shifted.

    Parameters
    ----------
    x : Sparse, shape (n, d)
    dtype : optional
        What to convert values to; by default what they are best computed in.
    """

    is_sparse = True

    def __init__(self, x: Sparse, dtype: Any = None, progress: Progress | None = None) -> None:
        super().__init__(x, dtype or _xp.working_dtype(x), progress)
        if not x.can_slice:
            self._x = x.astype(self.dtype)

    def probe_size(self) -> float:
        """The largest magnitude in X."""
        return largest_magnitude(self._x)

    def rows(self, index: slice) -> Sparse:
        """Rows as a sparse block."""
        whole: Sparse = self._x
        return (whole if index == slice(0, self.n) else whole.rows(index)).astype(self.dtype)

    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows, as long as what is made of them stays within the bytes of a block."""
        if not self._x.can_slice:
            return iter([slice(0, self.n)])
        if self._x.dtype == self.dtype:
            return _blocks(self.n, self.block_length(made))
        # Rows may be sorted by how full they are: entries are counted, not taken by their mean.
        starts = _xp.to_host(self._x.parts()[2])
        return _within_stored(starts, self.block_length(2), self.block_length(2 * made))

    def raise_if_not_finite(self, first_row: int = 0) -> None:
        """Find the first NaN or infinity among the stored values."""
        found = self._x.first_not_finite()
        if found is not None:
            row, column, value = found
            raise self._not_finite(first_row + row, column, value)


class StreamSource(ArraySource):
    """Rows that are read block by block, the next block while this one is worked on.

    Parameters
    ----------
    reader : RowReader, shape (n, d)
    place : Place
        Where to compute: blocks are moved there, one at a time.
    read_rows : int
        Rows of a block.
    panel_rows : int
        Rows that the Gram form may hold.
    dtype : optional
        What to convert blocks to; by default what they are best computed in at that place.
    """

    by_rows = True
    in_memory = False

    def __init__(
        self,
        reader: RowReader,
        place: Place,
        read_rows: int,
        panel_rows: int = 1,
        dtype: Any = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(_xp.move(_xp.without_rows(reader), place), dtype, progress)
        self._reader = reader
        self.n, self.d = reader.shape
        self.is_sparse = reader.is_sparse
        chunk = reader.chunk_rows
        self._read_rows = read_rows // chunk * chunk if chunk <= read_rows else read_rows
        self._panel_rows = max(panel_rows, read_rows)

    def rows(self, index: slice) -> Array:
        """Rows as floats, read just now."""
        return self._put(self._reader.read(index))

    def _put(self, rows: Array) -> Array:
        if isinstance(rows, Sparse):
            return rows.move(self.place).astype(self.dtype)
        rows = _xp.from_host(rows, self.place) if isinstance(rows, np.ndarray) else rows
        return self.place.xp.astype(_xp.move(rows, self.place), self.dtype, copy=False)

    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows as they are read, whatever is made of them."""
        return iter(_within(slice(0, self.n), self._read_rows) or [slice(0, 0)])

    def probe(self, count: int) -> Array:
        """At most `count` rows, and no more than a block, a few from each of several spots."""
        count = min(count, self._read_rows)
        spots = max(1, min(PROBE_SPOTS, count))
        length = min(max(1, count // spots), max(1, self.n // spots))
        starts = [(self.n - length) * i // max(1, spots - 1) for i in range(min(spots, self.n))]
        runs = [self.rows(slice(start, start + length)) for start in starts]
        return self.place.xp.concat(runs, axis=0)

    def _read(self, blocks: list[slice]) -> Generator[tuple[slice, Array]]:
        self.progress.begin_pass(blocks[-1].stop - blocks[0].start, self.n)
        # Its end, by whatever way, waits for the one read that may be under way.
        with ThreadPoolExecutor(1, "slce_xp-reader") as reader:
            coming = reader.submit(self._reader.read, blocks[0])
            for count, block in enumerate(blocks, 1):
                rows = coming.result()
                if count < len(blocks):
                    coming = reader.submit(self._reader.read, blocks[count])
                else:
                    del coming  # it holds the rows, too
                held = [self._put(rows)]
                del rows
                yield block, held.pop()
                self.progress.read(block.stop - block.start, count, len(blocks))

    def raise_if_not_finite(self, first_row: int = 0) -> None:
        """Find the first NaN or infinity, with the same search in each block."""
        with self.reading(0) as blocks:
            for block, rows in blocks:
                part = open_source(rows)
                numbers = self.row_numbers
                part.row_numbers = numbers if numbers is None else numbers[block]
                part.raise_if_not_finite(first_row + block.start if numbers is None else 0)


def open_source(
    x: Array,
    dtype: Any = None,
    place: Place | None = None,
    progress: Progress | None = None,
    read_rows: int = 0,
    panel_rows: int = 1,
    whole_rows: bool = False,
    kept: np.ndarray | None = None,
    has_room_for_copy: bool = False,
) -> ArraySource:
    """The source for a matrix of any kind.

    Parameters
    ----------
    x : array, Sparse, RowReader or Dask array, shape (n, d)
    dtype : optional
        What to convert its numbers to.
    place : Place, optional
        Where blocks are to go that are read; others are there.
    progress : Progress, optional
        Whom to tell.
    read_rows, panel_rows : int
        Rows of a block that is read, by default as many as suit a disk; rows that the Gram form
        may hold.
    whole_rows : bool
        Whether chunks of a Dask array must hold whole rows.
    kept : numpy.ndarray of int, optional
        Positions of the rows to read, ascending; all by default.
    has_room_for_copy : bool
        Whether memory allows a temporary as large as X.
    """
    if _xp.is_dask(x):
        # By name: Dask is imported only by those who use it.
        dask_source = importlib.import_module("slce_xp._dask").DaskSource
        source: ArraySource = dask_source(
            x if kept is None else x[kept], dtype, progress, whole_rows
        )
    elif isinstance(x, RowReader):
        rows = read_rows or max(1, READ_BLOCK // max(1, 8 * x.shape[1]))
        reader = x if kept is None else x.only(kept)
        source = StreamSource(reader, place or x.place, rows, panel_rows, dtype, progress)
    elif isinstance(x, Sparse):
        source = SparseSource(x if kept is None else x.only(kept), dtype, progress)
    else:
        source = ArraySource(x, dtype, progress, kept)
    source.row_numbers = kept
    source.has_room_for_copy = has_room_for_copy
    return source


def largest_magnitude(rows: Array) -> float:
    """The largest magnitude in a dense or sparse block of rows, without a temporary of its size."""
    xp, _ = _xp.place_of(rows)
    values = rows.values if isinstance(rows, Sparse) else rows
    if 0 in values.shape or xp.isdtype(values.dtype, "bool"):
        return 1.0
    low, high = map(float, read(xp.min(values), xp.max(values)))
    return max(-low, high)


class _Parts:
    """A term that hands a kernel the parts of arrays that belong to a block."""

    def __init__(self, kernel: Kernel, per_sample: tuple[Array | None, ...]) -> None:
        self._kernel = kernel
        self._per_sample = per_sample

    def __call__(self, block: slice, rows: Array) -> tuple[Array | None, ...]:
        return self._kernel(rows, *(None if a is None else a[block] for a in self._per_sample))


def _within(rows: slice, step: int) -> list[slice]:
    return [slice(i, min(i + step, rows.stop)) for i in range(rows.start, rows.stop, step)]


def _within_stored(starts: np.ndarray, most: int, most_rows: int) -> Iterator[slice]:
    """Slices of rows of which so many entries are stored, or of one row."""
    n, start = starts.shape[0] - 1, 0
    while start < n:
        end = int(np.searchsorted(starts, starts[start] + most, side="right")) - 1
        stop = max(start + 1, min(end, start + most_rows, n))
        yield slice(start, stop)
        start = stop


def _mirrored(strips: list[Array], place: Place) -> Array:
    """A symmetric matrix of strips of its rows, each from its own diagonal block on.

    What comes to the right of the last strip's block is no part of the symmetry.
    """
    lines = []
    start = 0
    for i, strip in enumerate(strips):
        stop = start + strip.shape[0]
        line, above = [strip], start
        for other in reversed(strips[:i]):
            above -= other.shape[0]
            line.insert(0, other[:, start - above : stop - above].T)
        lines.append(place.xp.concat(line, axis=1))
        start = stop
    return place.xp.concat(lines, axis=0)


def _added(totals: tuple[Array, ...], terms: tuple[Array | None, ...]) -> tuple[Array, ...]:
    if not totals:
        return terms
    pairs = zip(totals, terms, strict=True)
    return tuple(None if term is None else add(total, term) for total, term in pairs)


def _blocks(length: int, step: int) -> Iterator[slice]:
    # Even parts rather than a ragged tail: a sliver costs a product its speed.
    parts = max(1, -(-length // step))
    edges = [length * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in itertools.pairwise(edges))
