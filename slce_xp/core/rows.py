"""X as rows: the protocol by which the solvers read data, for arrays in memory.

A pass over the data is a sum of terms over row blocks. A term is a function of a block; each kind
of data decides how its terms are computed and summed. No temporary as large as X is allocated.
Files and clusters implement the same protocol in `slce_xp._data`.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from slce_xp import _backend, _errors
from slce_xp._backend import Array, Matrix, Place, Sparse, read
from slce_xp._progress import Progress
from slce_xp.core.eigen import add

# Bytes of temporaries that a pass may allocate at a time: large enough for fast products, and a
# small share of X. Of a small X it is a larger share, up to a block that a CPU's cache holds.
BLOCK_SHARE, SMALL_SHARE = 48, 4
LEAST_BLOCK, CACHED_BLOCK, LARGEST_BLOCK = 2**18, 2**21, 2**24
# On an accelerator, where each operation costs a launch: larger shares, if memory allows. Rows are
# converted and shifted in two blocks, with some room for one-hot codes.
DEVICE_SHARE, DEVICE_COPY_SHARE = 8, 1.8
LARGEST_DEVICE_BLOCK = 2**28
# Blocks whose sums are added up before they join the others, in single precision.
BLOCKS_PER_SUM = 32

# A term: the slice of a block and its rows (or columns) ↦ arrays to be summed.
Term = Callable[[slice, Array], tuple[Array | None, ...]]
# A kernel: rows, and the parts of per-sample arrays that belong to them ↦ arrays to be summed.
Kernel = Callable[..., tuple[Array | None, ...]]


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
    is_sparse : bool
        True if rows are `Sparse`.
    by_rows : bool
        True if only row slicing is supported: `sum_columns` is missing.
    in_memory : bool
        True if X is an array in memory: rows can be gathered from anywhere.
    has_outer : bool
        True if `outer` is supported.
    has_room_for_copy : bool
        True if memory allows a temporary as large as X.
    block_bytes : int
        Bytes of temporaries that a pass may allocate at a time.
    copy_bytes : int
        The same for passes that convert, shift or weight rows.
    """

    is_sparse = False
    by_rows = False
    in_memory = False
    has_outer = True
    has_room_for_copy = False

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
        self._itemsize = int(place.xp.finfo(dtype).bits) // 8
        self.block_bytes = self.copy_bytes = block_bytes(self.n, self.d, self._itemsize)

    @abstractmethod
    def sum_rows(self, term: Term, made: int) -> tuple[Array, ...]:
        """Sum a term over all row blocks: one pass over X.

        Parameters
        ----------
        term : function of a slice and the rows there
            The arrays that it returns may be changed in place.
        made : int
            Numbers that it allocates per row.
        """

    @abstractmethod
    def map_rows(self, kernel: Kernel, made: int, *per_sample: Array | None) -> tuple[Array, ...]:
        """Sum a kernel over all row blocks, with the parts of per-sample arrays for each."""

    @abstractmethod
    def join_rows(self, piece: Callable[[Array], Array], made: int) -> Array:
        """Join what `piece` returns for the rows of each block, (m, d) ↦ (b, m), to (b, n)."""

    @abstractmethod
    def probe(self, count: int) -> Array:
        """At most `count` dense rows, spread over X if that is cheap."""

    @abstractmethod
    def probe_size(self) -> float:
        """The largest magnitude in X, or in a part of it; not finite if that part is not."""

    @abstractmethod
    def largest_deviation(self, shift: Array | None) -> float:
        """The largest magnitude in X − shift: one pass over X."""

    @abstractmethod
    def raise_if_not_finite(self) -> None:
        """Raise ValueError for the first NaN or infinity: a slow scan after a sum has shown one."""

    @abstractmethod
    def whole(self) -> Array:
        """All rows at once, for a product."""

    # Optional: what not every kind of data supports.

    def sum_columns(self, term: Term, made: int) -> tuple[Array, ...]:
        """Sum a term over all column blocks: one pass over X."""
        raise NotImplementedError

    def outer(self, centred: Callable[..., Array]) -> Array:
        """R·Rᵀ of rows R = centred(rows), or of columns centred(columns, slice): shape (n, n)."""
        raise NotImplementedError

    def put(self, values: np.ndarray | None) -> Array | None:
        """Host numbers in the working dtype, where passes compute; None stays None."""
        return None if values is None else _backend.from_host(values, self.place, self.dtype)

    def put_codes(self, codes: np.ndarray) -> Array:
        """Class codes, where passes compute."""
        return _backend.from_host(codes, self.place)

    def block_length(self, width: int) -> int:
        """How many lines of `width` numbers fit into a block."""
        return max(1, self.block_bytes // max(1, width * self._itemsize))

    @property
    def _most_rows(self) -> int:
        """Rows of a block for which rounding of their sums stays small."""
        most = _backend.longest_sum(self.place, self.is_sparse) if self._itemsize == 4 else None
        return most or self.n

    def _not_finite(self, row: int, column: int, value: float) -> ValueError:
        row = row if self.row_numbers is None else int(self.row_numbers[row])
        return _errors.not_finite(row, column, value)


class BlockRows(Rows):
    """Rows that are visited block by block, in order."""

    @abstractmethod
    def rows(self, index: slice) -> Array:
        """The rows of a slice, as floats."""

    @abstractmethod
    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows for which `made` numbers per row fit into the bytes of a block."""

    def sum_rows(self, term: Term, made: int) -> tuple[Array, ...]:
        """Sum a term over all row blocks."""
        totals: tuple[Array, ...] = ()
        part: tuple[Array, ...] = ()
        with self.reading(made) as blocks:
            count = 0
            for block, rows in blocks:  # `enumerate` would keep a block while the next is made
                count += 1  # noqa: SIM113
                terms = term(block, rows)
                del rows  # before the next block is made, not after
                part = _added(part, terms)
                del terms
                if self._most_rows < self.n and count % BLOCKS_PER_SUM == 0:
                    totals, part = _added(totals, part), ()
        return _added(totals, part) if part else totals

    def map_rows(self, kernel: Kernel, made: int, *per_sample: Array | None) -> tuple[Array, ...]:
        """Sum a kernel over all row blocks."""

        def term(block: slice, rows: Array) -> tuple[Array | None, ...]:
            return kernel(rows, *(None if a is None else a[block] for a in per_sample))

        return self.sum_rows(term, made)

    def join_rows(self, piece: Callable[[Array], Array], made: int) -> Array:
        """Join pieces of all row blocks."""
        with self.reading(made) as blocks:
            pieces = [piece(rows) for _, rows in blocks]
        return self.place.xp.concat(pieces, axis=1) if len(pieces) > 1 else pieces[0]

    def probe_size(self) -> float:
        """The largest magnitude in the first block."""
        return largest_magnitude(self.rows(next(iter(self.row_blocks(self.d)))))

    def largest_deviation(self, shift: Array | None) -> float:
        """The largest magnitude in X − shift."""
        largest = 0.0
        with self.reading(0 if shift is None else self.d) as blocks:
            for _, rows in blocks:
                largest = max(largest, largest_magnitude(rows if shift is None else rows - shift))
        return largest

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


class MemoryRows(BlockRows):
    """Rows in memory, of which columns can be read, too."""

    in_memory = True

    @abstractmethod
    def _column_reader(self) -> Callable[[slice], Array]:
        """A function from a slice to the dense columns there, as floats."""

    @property
    @abstractmethod
    def _converts(self) -> bool:
        """Whether blocks of rows or columns are converted, and so copies."""

    def outer(self, centred: Callable[..., Array]) -> Array:
        """R·Rᵀ, a sum over column blocks."""
        # A few times as large as the result is no loss: an eigensolver will take more than that,
        # and the result is added to less often.
        least = (4 if _backend.adds_in_place(self.place.xp) else 2) * self.n
        is_copied = self._converts or not _backend.row_slices_are_views(self.place.xp)
        made = self.n if is_copied else 0
        length = max(least * self.n // (made + self.n), self.block_length(made + self.n))
        total = None
        for block, columns in self._read_columns(list(even_slices(self.d, length))):
            total = _backend.add_gram(total, centred(columns, block).T)
            del columns  # before the next block is made, not after
        return _backend.mirrored(total)

    def _read_columns(self, blocks: list[slice]) -> Iterator[tuple[slice, Array]]:
        self.progress.begin_pass(self.n)
        read_block = self._column_reader()
        for count, block in enumerate(blocks, 1):
            yield block, read_block(block)
            done = [self.n * i // len(blocks) for i in (count - 1, count)]
            self.progress.read(done[1] - done[0], count, len(blocks))


class DenseRows(MemoryRows):
    """A dense array in memory.

    Parameters
    ----------
    x : array, shape (n, d)
        Neither copied as a whole nor written to. Integers are converted block by block.
    dtype : optional
        Dtype to compute in; chosen by the dtype of `x` by default.
    progress : Progress, optional
    kept : numpy.ndarray of int, optional
        Positions of the rows to read, ascending; all by default.
    """

    conversion_copies = 1  # of a block that is converted, as it is made

    def __init__(
        self,
        x: Array,
        dtype: Any = None,
        progress: Progress | None = None,
        kept: np.ndarray | None = None,
    ) -> None:
        n, d = x.shape
        shape = (n if kept is None else len(kept), d)
        dtype = dtype or _backend.working_dtype(x)
        super().__init__(shape, _backend.place_of(x), dtype, progress, kept)
        self._x = x
        self._kept = kept

    def rows(self, index: slice) -> Array:
        """The rows of a slice: a view if `x` has the working dtype and all rows are kept."""
        if self._kept is not None:
            return self.gather(_backend.from_host(np.arange(self.n)[index], self.place))
        return self._converted(self._x if index == slice(0, self.n) else self._x[index, :])

    def _converted(self, values: Array, columns: slice = slice(None)) -> Array:
        """Some rows, or columns, in the dtype to compute in."""
        return self.place.xp.astype(values, self.dtype, copy=False)

    def gather(self, index: Array) -> Array:
        """The rows at given positions, as floats."""
        xp = self.place.xp
        if self._kept is not None:
            index = xp.take(self._kept_index, index)
        return self._converted(xp.take(self._x, index, axis=0))

    def columns(self, index: slice) -> Array:
        """The columns of a slice, as floats."""
        columns = self._x if index == slice(0, self.d) else self._x[:, index]
        if self._kept is not None:
            columns = self.place.xp.take(columns, self._kept_index, axis=0)
        return self._converted(columns, index)

    def _column_reader(self) -> Callable[[slice], Array]:
        return self.columns

    def finite_rows(self) -> np.ndarray:
        """A mask of rows without NaN or infinity, on the host, shape (n,)."""
        xp = self.place.xp
        with self.reading(1) as blocks:
            parts = [_backend.to_host(xp.all(xp.isfinite(rows), axis=1)) for _, rows in blocks]
        return np.concatenate(parts)

    def dense_on_host(self, positions: np.ndarray) -> np.ndarray:
        """The rows at some positions, as floats."""
        return _backend.to_host(self.gather(_backend.from_host(positions, self.place)))

    @cached_property
    def _kept_index(self) -> Array:
        return _backend.from_host(self._kept, self.place)  # type: ignore[arg-type]

    def probe(self, count: int) -> Array:
        """Rows at even distances, no more than fit into a block with their squares."""
        count = min(count, self.block_length(2 * self.d))
        return self.rows(slice(None, None, -(-self.n // count)))

    def sum_columns(self, term: Term, made: int) -> tuple[Array, ...]:
        """Sum a term over all column blocks: one pass over X."""
        totals: tuple[Array, ...] = ()
        for block, columns in self._read_columns(list(self.column_blocks(made))):
            terms = term(block, columns)
            del columns  # before the next block is made, not after
            totals = _added(totals, terms)
            del terms
        return totals

    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows; converted rows count as well."""
        are_views = _backend.row_slices_are_views(self.place.xp)
        return self._blocks(self.n, self.d, made, are_views, self._most_rows)

    def column_blocks(self, made: int) -> Iterator[slice]:
        """Slices of columns, likewise."""
        xp = self.place.xp
        are_views = _backend.column_slices_are_views(xp)
        if made >= self.n:  # columns are shifted, not multiplied
            are_views = _backend.row_slices_are_views(xp)
        return self._blocks(self.d, self.n, made, are_views, self.d)

    def _blocks(
        self, count: int, width: int, made: int, are_views: bool, most: int
    ) -> Iterator[slice]:
        # What a library copies if it is a slice is not copied as a whole.
        are_views |= most >= count and self.block_length(made) >= count
        made += self.conversion_copies * width if self._converts or not are_views else 0
        size = self.copy_bytes if made >= width else self.block_bytes
        length = size // max(1, made * self._itemsize)
        return even_slices(count, max(1, min(length, most)))

    @property
    def are_views(self) -> bool:
        """True if rows are read without a copy, all at once or not."""
        return not self._converts

    @property
    def _converts(self) -> bool:
        return self._kept is not None or self._x.dtype != self.dtype

    def raise_if_not_finite(self) -> None:
        """Raise ValueError for the first NaN or infinity."""
        for block in self.row_blocks(self.d):
            found = first_not_finite(self.rows(block))
            if found is not None:
                row, column, value = found
                raise self._not_finite(block.start + row, column, value)


class SparseRows(MemoryRows):
    """A sparse matrix in memory, read as sparse blocks of rows, which are not shifted.

    Only blocks of its columns are made dense, by SciPy.

    Parameters
    ----------
    x : Sparse, shape (n, d)
    dtype : optional
        Dtype to compute in; chosen by the dtype of `x` by default.
    progress : Progress, optional
    kept : numpy.ndarray of int, optional
        Positions of the rows to read, ascending; all by default.
    """

    is_sparse = True

    def __init__(
        self,
        x: Sparse,
        dtype: Any = None,
        progress: Progress | None = None,
        kept: np.ndarray | None = None,
    ) -> None:
        x = x if kept is None else x.only(kept)
        dtype = dtype or _backend.working_dtype(x)
        super().__init__(x.shape, x.place, dtype, progress, kept)
        self._x = x if x.can_slice else x.astype(dtype)
        self.has_outer = x.has_columns

    def unpacked(self) -> UnpackedRows:
        """The same, to be read as dense blocks of rows."""
        rows = UnpackedRows(self._x, self.dtype, self.progress, self.row_numbers)
        rows.has_room_for_copy = self.has_room_for_copy
        return rows

    def own_outer(self, factors: Array | None, scale: float) -> Array | None:
        """R·Rᵀ of R = scale·X, columns times factors, not centred; None if `outer` is faster."""
        return self._x.astype(self.dtype).outer(factors, scale)

    def _column_reader(self) -> Callable[[slice], Array]:
        read_columns = self._x.column_reader(self.dtype)
        return lambda index: read_columns(index).T

    @property
    def _converts(self) -> bool:
        return True

    def rows(self, index: slice) -> Sparse:
        """The rows of a slice, as a sparse block."""
        rows = self._x if index == slice(0, self.n) else self._x.rows(index)
        return rows.astype(self.dtype)

    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows, or one for a library that cannot slice sparse matrices."""
        if not self._x.can_slice:
            return iter([slice(0, self.n)])
        if self._x.dtype == self.dtype:
            return even_slices(self.n, max(1, min(self.block_length(made), self._most_rows)))
        # Rows may be sorted by how full they are, so entries are counted.
        starts = _backend.to_host(self._x.parts()[2])
        most_rows = max(1, min(self.block_length(2 * made), self._most_rows))
        return _within_stored(starts, self.block_length(2), most_rows)

    def finite_rows(self) -> np.ndarray:
        """A mask of rows without NaN or infinity, on the host, shape (n,)."""
        values, _, pointers = map(_backend.to_host, self._x.parts())
        wrong = np.flatnonzero(~np.isfinite(values))
        finite = np.ones(self.n, dtype=bool)
        finite[np.searchsorted(pointers, wrong, side="right") - 1] = False
        return finite

    def dense_on_host(self, positions: np.ndarray) -> np.ndarray:
        """The rows at some positions, as floats."""
        values, columns, pointers = map(_backend.to_host, self._x.parts())
        rows = np.zeros((len(positions), self.d), dtype=_backend.dtype_name(self.dtype))
        for row, i in enumerate(positions):
            stored = slice(pointers[i], pointers[i + 1])
            np.add.at(rows[row], columns[stored], values[stored].astype(rows.dtype))
        return rows

    def probe(self, count: int) -> Array:
        """Not available: sparse rows are not shifted."""
        raise NotImplementedError

    def probe_size(self) -> float:
        """The largest magnitude in X."""
        return largest_magnitude(self._x)

    def raise_if_not_finite(self) -> None:
        """Raise ValueError for the first NaN or infinity among the stored values."""
        found = self._x.first_not_finite()
        if found is not None:
            raise self._not_finite(*found)


class UnpackedRows(DenseRows):
    """A sparse matrix of SciPy, read as dense blocks, which are shifted if they have to be.

    Parameters
    ----------
    x : Sparse, shape (n, d)
    dtype : dtype
    progress : Progress
    row_numbers : numpy.ndarray of int, or None
    """

    def __init__(
        self, x: Sparse, dtype: Any, progress: Progress, row_numbers: np.ndarray | None
    ) -> None:
        super().__init__(x, dtype, progress)
        self.row_numbers = row_numbers

    @property
    def _converts(self) -> bool:
        return True

    def rows(self, index: slice) -> Array:
        """The rows of a slice."""
        start, stop, step = index.indices(self.n)
        if step > 1:
            return self.gather(np.arange(start, stop, step))
        return self._x.rows(slice(start, stop)).dense(self.dtype)

    def gather(self, index: Array) -> Array:
        """The rows at given positions."""
        return self._x.take(index).dense(self.dtype)

    def _column_reader(self) -> Callable[[slice], Array]:
        read_columns = self._x.column_reader(self.dtype)
        return lambda index: read_columns(index).T


def open_array(
    x: Array, dtype: Any = None, progress: Progress | None = None, kept: np.ndarray | None = None
) -> DenseRows | SparseRows:
    """Rows of a dense array or a `Sparse`."""
    return (SparseRows if isinstance(x, Sparse) else DenseRows)(x, dtype, progress, kept)


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
    size = n * d * itemsize
    cached = min(size // SMALL_SHARE, CACHED_BLOCK)
    return min(max(size // BLOCK_SHARE, cached, LEAST_BLOCK), LARGEST_BLOCK)


def device_block_bytes(n: int, d: int, itemsize: int, most: float) -> tuple[int, int]:
    """The same on an accelerator that has `most` bytes for it: of temporaries, of copied rows."""
    least = block_bytes(n, d, itemsize)
    most = min(most, LARGEST_DEVICE_BLOCK)
    size = n * d * itemsize
    shares = (DEVICE_SHARE, DEVICE_COPY_SHARE)
    block, copied = (max(least, int(min(size / share, most))) for share in shares)
    return block, copied


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


def columns_of(rows: Array, index: Array) -> Array:
    """Some columns of a block of rows, (n, d) ↦ (m, n), as the rows of a dense array: a copy."""
    xp, device = _backend.place_of(index)
    if not isinstance(rows, Matrix):
        return _backend.take_columns(rows, index).T
    # Sparse and chunked matrices know no more than products.
    every = xp.arange(rows.shape[1], device=device)
    units = xp.astype(index[:, None] == every[None, :], rows.dtype)
    return units @ rows.T  # type: ignore[attr-defined]  # both kinds have it


def largest_magnitude(rows: Array) -> float:
    """The largest magnitude in a dense or sparse block, without a temporary of its size."""
    xp, _ = _backend.place_of(rows)
    values = rows.values if isinstance(rows, Sparse) else rows
    if 0 in values.shape or xp.isdtype(values.dtype, "bool"):
        return 1.0
    low, high = map(float, read(xp.min(values), xp.max(values)))
    return max(-low, high)


def even_slices(length: int, step: int) -> Iterator[slice]:
    """Slices of at most `step`, as even as can be: a sliver costs a product its speed."""
    parts = max(1, -(-length // step))
    edges = [length * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in itertools.pairwise(edges))


def _within_stored(starts: np.ndarray, most: int, most_rows: int) -> Iterator[slice]:
    """Slices of rows with at most `most` stored entries, or of one row."""
    n, start = starts.shape[0] - 1, 0
    while start < n:
        end = int(np.searchsorted(starts, starts[start] + most, side="right")) - 1
        stop = max(start + 1, min(end, start + most_rows, n))
        yield slice(start, stop)
        start = stop


def _added(totals: tuple[Array, ...], terms: tuple[Array | None, ...]) -> tuple[Array, ...]:
    if not totals:
        return terms
    pairs = zip(totals, terms, strict=True)
    return tuple(None if term is None else add(total, term) for total, term in pairs)
