"""X as rows: the protocol by which passes read data, for arrays in memory.

A pass is a sum of terms over row blocks. A term is a function of a block and of what belongs to its
samples; each kind of data decides how its terms are computed and summed. No temporary as large as X
is allocated. Files and clusters implement the same protocol in `slce_xp._data`.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

import numpy as np

from .. import _backend, _errors
from .._backend import Array, Place, Sparse
from .._progress import Progress

# Bytes of temporaries that a pass may allocate at a time: a small share of X, between what a CPU's
# cache holds and what is enough for fast products.
BLOCK_SHARE, LEAST_BLOCK, LARGEST_BLOCK = 48, 2**21, 2**24
# On an accelerator, where each operation costs a launch: larger shares, if memory allows.
DEVICE_SHARE, LARGEST_DEVICE_BLOCK = 1.75, 2**28

# A block of rows, dense or `Sparse`, and the parts of per-sample arrays that belong to them ↦
# arrays to be summed or joined. Its arrays may be changed in place.
Term = Callable[..., tuple[Array | None, ...]]


class Rows(ABC):
    """A matrix that can be read in passes.

    Parameters
    ----------
    shape : tuple of int
        n samples, d features.
    place : Place
        Namespace and device of the arrays that a pass returns.
    dtype : dtype
        Floating dtype that numbers are computed in.
    progress : Progress, optional
    row_numbers : numpy.ndarray of int, shape (n,), optional
        Positions of the rows in the caller's X, for error messages; 0, 1, … by default.

    Attributes
    ----------
    name : str
        What the caller calls it: "x" in functions of the core.
    is_sparse : bool
        True if blocks are `Sparse`.
    in_memory : bool
        True if X is an array in memory, of which columns can be read, too.
    is_chunked : bool
        True if X is in chunks on a cluster.
    block_bytes : int
        Bytes of temporaries that a pass may allocate at a time.
    """

    name = "X"
    is_sparse = False
    in_memory = False
    is_chunked = False

    def __init__(
        self,
        shape: tuple[int, int],
        place: Place,
        dtype: Any,
        progress: Progress | None = None,
        row_numbers: np.ndarray | None = None,
    ) -> None:
        self.n, self.d = shape
        self.place = place
        self.dtype = dtype
        self.progress = progress or Progress()
        self.row_numbers = row_numbers
        self.itemsize = _backend.itemsize(dtype)
        self.block_bytes = block_bytes(self.n, self.d, self.itemsize)
        self.fill: Array | None = None

    def filled(self, block: Array, columns: slice = slice(None)) -> Array:
        """A dense block with the numbers of `fill`, shape (d,), for missing ones, if it is set."""
        if self.fill is None:
            return block
        xp = self.place.xp
        return xp.where(xp.isnan(block), xp.astype(self.fill[columns], block.dtype), block)

    @abstractmethod
    def sum(self, term: Term, made: int, *per_sample: Array | None) -> tuple[Array, ...]:
        """Sum a term over all row blocks: one pass over X.

        Parameters
        ----------
        term : function of a block and the parts of `per_sample` for its rows
        made : int
            Numbers that it allocates per row.
        per_sample : arrays, shape (n, …), or None
        """

    @abstractmethod
    def join(self, term: Term, made: int, *per_sample: Array | None) -> Array:
        """Join the first array that a term returns for each block, (m, …) ↦ (n, …)."""

    @abstractmethod
    def probe(self, count: int) -> Array:
        """At most `count` dense rows, spread over X if that is cheap."""

    @abstractmethod
    def raise_if_not_finite(self) -> None:
        """Raise ValueError for the first NaN or infinity: a slow scan after a sum has shown one."""

    def outer(self, prepare: Callable[[Array, slice], Array]) -> Array:
        """R·Rᵀ, shape (n, n), of columns R[:, columns] = prepare(X[:, columns], columns)."""
        raise NotImplementedError

    @property
    def is_ready(self) -> bool:
        """True if rows can be multiplied as they are, on a CPU: `outer` needs no `prepare`."""
        return False

    @property
    def has_outer(self) -> bool:
        """True if `outer` is supported: not of sparse rows, which are not shifted."""
        return not self.is_sparse

    def prepare_for_second_moment(self) -> None:  # noqa: B027 -- for those that have chunks
        """Join small chunks: each makes a second moment, which is as large as d²."""

    def put(self, values: np.ndarray | None) -> Array | None:
        """Host numbers in the working dtype, where passes compute; None stays None."""
        return None if values is None else _backend.from_host(values, self.place, self.dtype)

    def put_codes(self, codes: np.ndarray) -> Array:
        """Class codes, where passes compute."""
        return _backend.from_host(codes, self.place)

    def block_length(self, width: int) -> int:
        """How many lines of `width` numbers fit into a block."""
        return max(1, self.block_bytes // max(1, width * self.itemsize))

    def _not_finite(self, row: int, column: int, value: float) -> ValueError:
        row = row if self.row_numbers is None else int(self.row_numbers[row])
        return _errors.not_finite(row, column, value, self.name)


class BlockRows(Rows):
    """Rows that are visited block by block, in order."""

    @abstractmethod
    def rows(self, index: slice) -> Array:
        """The rows of a slice: sparse ones in the working dtype, dense ones as they are."""

    @abstractmethod
    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows for which `made` numbers per row fit into the bytes of a block."""

    def sum(self, term: Term, made: int, *per_sample: Array | None) -> tuple[Array, ...]:
        """Sum a term over all row blocks."""
        totals: tuple[Array | None, ...] = ()
        with self.reading(made) as blocks:
            for block, rows in blocks:
                terms = term(rows, *_parts(per_sample, block, self.n))
                del rows  # before the next block is read, not after
                totals = _added(totals, terms) if totals else terms
                del terms
        return totals

    def join(self, term: Term, made: int, *per_sample: Array | None) -> Array:
        """Join what a term returns for all row blocks."""
        with self.reading(made) as blocks:
            pieces = [term(rows, *_parts(per_sample, block, self.n))[0] for block, rows in blocks]
        return pieces[0] if len(pieces) == 1 else self.place.xp.concat(pieces, axis=0)

    def whole(self) -> Array:
        """All rows in one block."""
        return self.rows(slice(0, self.n))

    def reading(self, made: int) -> contextlib.closing[Generator[tuple[slice, Array]]]:
        """Slices and row blocks, for a ``with`` statement that closes any reader."""
        return contextlib.closing(self._read(list(self.row_blocks(made))))

    def _read(self, blocks: list[slice]) -> Generator[tuple[slice, Array]]:
        self.progress.begin_pass(self.n)
        for count, block in enumerate(blocks, 1):
            yield block, self.rows(block)
            self.progress.read(block.stop - block.start, count, len(blocks))

    def raise_if_not_finite(self) -> None:
        """Raise ValueError for the first NaN or infinity."""
        with self.reading(self.d) as blocks:
            for block, rows in blocks:
                found = first_not_finite(rows)
                if found is not None:
                    raise self._not_finite(block.start + found[0], *found[1:])


class MemoryRows(BlockRows):
    """An array or a sparse matrix in memory.

    Parameters
    ----------
    x : array or Sparse, shape (n, d)
        Neither copied as a whole nor written to: blocks are converted one by one.
    dtype : optional
        Dtype to compute in; chosen by the dtype of `x` by default.
    progress : Progress, optional
    kept : numpy.ndarray of int, optional
        Positions of the rows to read, ascending; all by default.
    """

    in_memory = True

    def __init__(
        self,
        x: Array,
        dtype: Any = None,
        progress: Progress | None = None,
        kept: np.ndarray | None = None,
    ) -> None:
        self.is_sparse = isinstance(x, Sparse)
        if self.is_sparse and kept is not None:
            x = x.only(kept)
        n, d = x.shape
        place = _backend.place_of(x)
        shape = (n if kept is None else len(kept), d)
        super().__init__(shape, place, dtype or _backend.working_dtype(x), progress, kept)
        self._x = x
        # Positions in `x`, on its device; sparse rows are taken above.
        self._kept = None
        if kept is not None and not self.is_sparse:
            self._kept = _backend.from_host(kept, place)

    def rows(self, index: slice) -> Array:
        """The rows of a slice: of a dense array a view, unless some rows are left out."""
        x, is_all = self._x, index == slice(0, self.n)
        if self.is_sparse:
            return (x if is_all else x.rows(index)).astype(self.dtype)
        if self._kept is not None:
            x = self.place.xp.take(x, self._kept[index], axis=0)
        elif not is_all:
            x = x[index, :]
        return self.filled(x)

    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows, of which a term makes the only copies."""
        if not self.is_sparse:
            return even_slices(self.n, self.block_length(made))
        # Of sparse rows, values and their column numbers.
        if self._x.has_columns:  # rows may be sorted by how full they are, so entries are counted
            starts = self._x.parts()[2]
            return _slices_of_even_size(
                self.n, lambda i: made * i + 2 * int(starts[i]), self.block_length(1)
            )
        copied = 2 * self._x.stored // max(1, self.n)
        return even_slices(self.n, self.block_length(made + copied))

    def columns(self, made: int) -> Iterator[tuple[slice, Array]]:
        """Blocks of dense columns and where they are: one pass over X.

        Parameters
        ----------
        made : int
            Numbers that are allocated per column.
        """
        self.progress.begin_pass(self.n)
        read = self._x.column_reader(self.dtype) if self.is_sparse else self._dense_columns
        blocks = list(even_slices(self.d, self.block_length(made + self.n * self._is_converted)))
        for count, block in enumerate(blocks, 1):
            yield block, self.filled(read(block), block)
            done = [self.n * i // len(blocks) for i in (count - 1, count)]
            self.progress.read(done[1] - done[0], count, len(blocks))

    @property
    def _is_converted(self) -> bool:
        """True if rows and columns are copies."""
        is_same = self._x.dtype == self.dtype and self._kept is None
        return not is_same or self.is_sparse or not _backend.row_slices_are_views(self.place.xp)

    def _dense_columns(self, index: slice) -> Array:
        xp = self.place.xp
        x = self._x if index == slice(0, self.d) else self._x[:, index]
        return x if self._kept is None else xp.take(x, self._kept, axis=0)

    @property
    def has_outer(self) -> bool:
        """True if `columns` and `outer` are supported: of sparse matrices, SciPy's have columns."""
        return not self.is_sparse or bool(self._x.has_columns)

    @property
    def is_ready(self) -> bool:
        """True if no copy is needed; on an accelerator, fewer launches are worth one."""
        return not (self._is_converted or _backend.is_accelerated(self.place))

    def outer(self, prepare: Callable[[Array, slice], Array] | None = None) -> Array:
        """R·Rᵀ, a sum over column blocks; of X as it is by default."""
        total = None
        for block, columns in self.columns(0 if prepare is None else self.n):
            prepared = columns if prepare is None else prepare(columns, block)
            del columns
            total = _backend.add_gram(total, prepared.T)
            del prepared  # before the next block is copied
        return _backend.mirrored(total)

    def probe(self, count: int) -> Array:
        """Rows at even distances."""
        step = -(-self.n // min(count, self.block_length(2 * self.d)))
        xp = self.place.xp
        if self.is_sparse:
            return self._x.take(np.arange(0, self.n, step)).astype(self.dtype).dense()
        kept = self._kept
        chosen = self._x[::step, :] if kept is None else xp.take(self._x, kept[::step], axis=0)
        return xp.astype(self.filled(chosen), self.dtype, copy=False)


def rows_of(x: Array) -> MemoryRows:
    """The argument ``x`` of a function of the core as rows, in the dtype of sums."""
    rows = MemoryRows(x, _backend.sums_dtype(x))
    rows.name = "x"
    return rows


def check_gram(form: str, rows: Rows) -> None:
    """Raise ValueError for the Gram form of rows that have none."""
    if form == "gram" and not rows.has_outer:
        raise _errors.invalid(
            "form",
            "form must not be 'gram' for a sparse x, unless it is a matrix of SciPy; this one is on"
            f" {rows.place}. Leave it out",
        )


def block_bytes(n: int, d: int, itemsize: int) -> int:
    """Bytes that a pass over X may allocate at a time."""
    return min(max(n * d * itemsize // BLOCK_SHARE, LEAST_BLOCK), LARGEST_BLOCK)


def device_block_bytes(n: int, d: int, itemsize: int, most: float) -> int:
    """The same on an accelerator that has `most` bytes for it."""
    size = min(n * d * itemsize / DEVICE_SHARE, most, LARGEST_DEVICE_BLOCK)
    return max(block_bytes(n, d, itemsize), int(size))


def first_not_finite(rows: Array) -> tuple[int, int, float] | None:
    """Row, column and value of the first NaN or infinity in a dense or sparse block."""
    if isinstance(rows, Sparse):
        return rows.first_not_finite()
    xp, _ = _backend.place_of(rows)
    bad = ~xp.isfinite(rows)
    if not bool(_backend.to_host(xp.any(bad))):
        return None
    position = int(_backend.to_host(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int8))))
    row, column = divmod(position, rows.shape[1])
    return row, column, float(_backend.to_host(rows[row, column]))


def largest_magnitude(rows: Rows) -> float:
    """The largest magnitude in X: one pass."""
    largest = rows.join(partial(_largest_of, rows.dtype), 2 * rows.d)
    return float(_backend.read(rows.place.xp.max(largest))[0])


def _largest_of(dtype: Any, block: Array) -> tuple[Array]:
    xp, device = _backend.place_of(block)
    values = block.values if isinstance(block, Sparse) else block
    if not values.shape[0]:
        return (xp.zeros(1, dtype=dtype, device=device),)
    return (xp.reshape(xp.max(xp.abs(xp.astype(values, dtype))), (1,)),)


def even_slices(length: int, step: int) -> Iterator[slice]:
    """Slices of at most `step`, as even as can be: a sliver costs a product its speed."""
    parts = max(1, -(-length // step))
    edges = [length * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in itertools.pairwise(edges))


def _slices_of_even_size(n: int, size: Callable[[int], int], most: int) -> Iterator[slice]:
    """Slices of n rows, each of at most `most` and one row more; `size` is that of the first i."""
    parts = max(1, -(-size(n) // most))
    if parts == 1:
        return iter((slice(0, n),))
    targets = (size(n) * i // parts for i in range(1, parts))
    edges = sorted({0, n, *(bisect.bisect_left(range(n), t, key=size) for t in targets)})
    return (slice(a, b) for a, b in itertools.pairwise(edges))


def _parts(
    per_sample: tuple[Array | None, ...], block: slice, n: int
) -> tuple[Array | None, ...] | list[Array | None]:
    if block.stop - block.start == n:
        return per_sample
    return [None if a is None else a[block, ...] for a in per_sample]


def _added(
    totals: tuple[Array | None, ...], terms: tuple[Array | None, ...]
) -> tuple[Array | None, ...]:
    pairs = zip(totals, terms, strict=True)
    return tuple(None if total is None else _backend.add(total, term) for total, term in pairs)
