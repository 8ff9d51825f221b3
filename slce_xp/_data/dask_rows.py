"""Dask arrays: chunks are not moved. The only file that imports Dask.

A pass is one graph. The operator's own expressions build it, for `Chunked` answers to the few
operations that they use on rows; nothing comes to the client but sums of the size of its vectors.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from dask import config
from dask.base import compute
from dask.delayed import delayed

from slce_xp import _backend
from slce_xp._backend import Array, Matrix, Place, Sparse
from slce_xp._progress import Progress
from slce_xp.core.eigen import gram_of
from slce_xp.core.rows import Kernel, Rows, Term, largest_magnitude

# Terms that one task adds up.
FAN_IN = 8
# Rows that must be probed to see whether data lie far from the origin.
LEAST_PROBE = 8
# Vectors and labels travel with the graph: what a worker loses when it dies can be made again.
# Dask warns of graphs above 10 MB, which ours may well be.
LARGE_GRAPH = {"distributed.admin.large-graph-warning-threshold": "10 GB"}


class Chunked(Matrix):
    """A matrix in chunks, minus some rows: dense @ chunked is a Dask array of dense chunks.

    Parameters
    ----------
    x : dask.array.Array, shape (n, d)
        Chunks of any library, dense or sparse.
    dtype
        What to compute in.
    shifts : tuple of arrays, shape (d,)
        Subtracted one after the other from each row, chunk by chunk.
    transposed : bool
    scale : float
        What rows are multiplied by after that; for `outer` alone.
    """

    __array_ufunc__ = None  # NumPy, CuPy and Dask leave ``array @ chunked`` to us
    __array_priority__ = 1000.0

    def __init__(
        self,
        x: Any,
        dtype: Any,
        shifts: tuple[Array, ...] = (),
        transposed: bool = False,
        scale: float = 1.0,
    ) -> None:
        self._scale = scale
        self._x = x
        self._dtype = dtype
        self._shifts = shifts
        self._transposed = transposed
        self.shape = x.shape[::-1] if transposed else x.shape

    @property
    def dtype(self) -> Any:
        """Of the products."""
        return self._dtype

    @property
    def place(self) -> Place:
        """Where chunks are."""
        return _backend.place_of(self._x)

    @property
    def T(self) -> Chunked:  # noqa: N802 -- as arrays call it
        """The transpose: the same chunks."""
        return Chunked(self._x, self._dtype, self._shifts, not self._transposed)

    def __sub__(self, shift: Array) -> Chunked:
        """Rows minus one row."""
        return Chunked(self._x, self._dtype, (*self._shifts, shift), self._transposed)

    def __mul__(self, scale: float) -> Chunked:
        """Rows times a number."""
        return Chunked(self._x, self._dtype, self._shifts, self._transposed, scale)

    def __rmatmul__(self, left: Array) -> Any:
        """Multiply (b, n) by (n, d): products of chunks, added up in a tree."""
        along, across = ("j", "i") if self._transposed else ("i", "j")
        axis = "ij".index(along)
        left = _cut(left, self._x.chunks[axis], axis=1)
        shifts = [_cut(shift, self._x.chunks[1], axis=0) for shift in self._shifts]
        xp, device = self.place
        products = da.blockwise(
            _product,
            ("b", along, across),
            left,
            ("b", along),
            self._x,
            ("i", "j"),
            *(part for shift in shifts for part in (shift, ("j",))),
            adjust_chunks={along: lambda _: 1},
            concatenate=True,
            dtype=self._dtype,
            meta=xp.empty((0, 0, 0), dtype=self._dtype, device=device),
            work_dtype=self._dtype,
            transposed=self._transposed,
        )
        return products.sum(axis=1, dtype=self._dtype)

    def __matmul__(self, right: Array) -> Any:
        """Multiply (n, d) by (d, k)."""
        return (right.T @ self.T).T

    def outer(self) -> Any:
        """R·Rᵀ of the rows R, shape (n, n), summed over chunks of columns."""
        x = self._x.rechunk({0: -1, 1: "auto" if self._x.numblocks[0] > 1 else None})
        parts = [_cut_on_host(shift, x.chunks[1]) for shift in self._shifts]
        chunks = x.to_delayed()[0]
        one = delayed(_outer_product)
        return _tree_sum(
            [one(c, self._dtype, self._scale, *(p[j] for p in parts)) for j, c in enumerate(chunks)]
        )


class DaskRows(Rows):
    """A Dask array: chunks are processed where they are.

    Parameters
    ----------
    x : dask.array.Array, shape (n, d)
        In chunks of known sizes, of rows, columns or both.
    dtype : optional
        What to convert chunks to.
    whole_rows : bool
        Whether chunks must hold whole rows, as second moments want them.
    """

    def __init__(
        self,
        x: Any,
        dtype: Any = None,
        progress: Progress | None = None,
        whole_rows: bool = False,
        kept: np.ndarray | None = None,
    ) -> None:
        x = x if kept is None else x[kept]
        dtype = dtype or _backend.working_dtype(_backend.without_rows(x))
        super().__init__(x.shape, _backend.place_of(x), dtype, progress, kept)
        self._given = x
        if whole_rows and x.npartitions > 1:
            # Chunks as large as they are; or of d rows, for second moments are larger than fewer.
            n, d = x.shape
            rows = max(d, n // x.npartitions)
            if x.numblocks[1] > 1 or rows > n // x.numblocks[0]:
                x = x.rechunk({0: rows, 1: -1})
        self._chunks = x
        self.is_sparse = _backend.is_sparse(x._meta)
        self.by_rows = x.numblocks[1] == 1

    def whole(self) -> Chunked:
        """All rows, as chunks that are never read here."""
        return Chunked(self._chunks, self.dtype)

    def probe(self, count: int) -> Array:
        """Rows of the first chunk, and of more only if it has very few: each costs one."""
        ends = np.cumsum(self._given.chunks[0])
        few = int(ends[np.searchsorted(ends, min(LEAST_PROBE, self.n))])
        (rows,) = self._compute(self._given[: min(count, few)])
        if _backend.is_sparse(rows) or _backend.place_of(rows) != self.place:
            raise _other_kind(rows, self._given)
        return self.place.xp.astype(rows, self.dtype, copy=False)

    def probe_size(self) -> float:
        """The largest magnitude in the first chunks of a sparse X."""
        x = self._given
        first = next(i for i, size in enumerate(x.chunks[0]) if size)
        find = delayed(_largest_stored)
        found = self._compute(*(find(chunk, self.dtype) for chunk in x.to_delayed()[first]))
        if None in found:
            raise _other_kind("a dense array", x)
        return float(max(found))

    def largest_deviation(self, shift: Array | None) -> float:
        """The largest magnitude in X − shift: each chunk returns its own."""
        x = self._given
        shifts = [None] * x.numblocks[1]
        if shift is not None:
            shifts = _cut_on_host(shift, x.chunks[1])
        find = delayed(_largest_deviation)
        chunks = x.to_delayed()
        found = (find(chunks[at], self.dtype, shifts[at[1]]) for at in np.ndindex(*chunks.shape))
        return float(max(self._compute(*found)))

    def sum_rows(self, term: Term, made: int) -> tuple[Array, ...]:
        """One graph of what `term` makes of all rows."""
        return self._pass(*term(slice(0, self.n), self.whole()))

    def sum_columns(self, term: Term, made: int) -> tuple[Array, ...]:
        """One graph of what `term` makes of all columns."""
        return self._pass(*term(slice(0, self.d), self.whole()))

    def join_rows(self, piece: Callable[[Array], Array], made: int) -> Array:
        """One graph of what `piece` makes of all rows."""
        return self._pass(piece(self.whole()))[0]

    def map_rows(self, kernel: Kernel, made: int, *per_sample: Array | None) -> tuple[Array, ...]:
        """Call `kernel` for each chunk, with the parts of the arrays that belong to its rows.

        What it makes with a column for each of a chunk's is joined, all else added up.
        """
        x = self._chunks
        parts = [a if a is None else _cut_on_host(a, x.chunks[0]) for a in per_sample]
        edges = np.cumsum([0, *x.chunks[1]])
        chunks = x.to_delayed()
        call = delayed(_call)
        totals = []
        for j in np.flatnonzero(x.chunks[1]):
            mine = kernel.of_columns(slice(int(edges[j]), int(edges[j + 1])))  # type: ignore[attr-defined]
            terms = [
                call(
                    mine,
                    chunks[i, j],
                    self.dtype,
                    self.is_sparse,
                    *(None if p is None else p[i] for p in parts),
                )
                for i in np.flatnonzero(x.chunks[0])
            ]
            totals.append(_tree_sum(terms))
        return _joined(self._pass(*totals), self.place)

    def outer(self, centred: Callable[[Array], Array]) -> Array:
        """R·Rᵀ of rows R = centred(rows), shape (n, n): one graph."""
        return self._pass(centred(self.whole()).outer())[0]

    def raise_if_not_finite(self) -> None:
        """Raise ValueError for the first NaN or infinity: each chunk reports its own."""
        grid = self._chunks.to_delayed()
        find = delayed(_first_not_finite)
        found = self._compute(*(find(chunk) for chunk in grid.ravel()))
        rows, columns = (np.cumsum([0, *sizes]) for sizes in self._chunks.chunks)
        wrong = [
            (rows[i] + row, columns[j] + column, value)
            for (i, j), at in zip(np.ndindex(*grid.shape), found, strict=True)
            if at is not None
            for row, column, value in [at]
        ]
        if wrong:
            row, column, value = min(wrong, key=lambda at: at[:2])
            raise self._not_finite(int(row), int(column), value)

    def _pass(self, *lazy: Any) -> tuple[Array, ...]:
        self.progress.begin_pass(self.n)
        computed = self._compute(*lazy)
        self.progress.read(self.n, 1, 1)
        return computed

    def _compute(self, *lazy: Any) -> tuple[Any, ...]:
        # Without `distributed` there is no such setting, and to make one would hide its defaults.
        with config.set(LARGE_GRAPH if "distributed" in sys.modules else {}):
            return tuple(compute(*lazy))


# ---------------------------------------------------------------- pieces of vectors


def _cut(array: Array, sizes: tuple[int, ...], axis: int) -> Any:
    """An array of the client's, or a Dask array, in chunks of these sizes along one axis."""
    if _backend.is_dask(array):
        return array.rechunk({axis: sizes})
    chunks = tuple(sizes if i == axis else (size,) for i, size in enumerate(array.shape))
    # Without a name of its own: that would be a hash, for which a device's array is copied here.
    return da.from_array(array, chunks=chunks, asarray=False, name=False)


def _cut_on_host(array: Array, sizes: tuple[int, ...]) -> list[Array]:
    edges = np.cumsum([0, *sizes])
    return [array[int(a) : int(b)] for a, b in itertools.pairwise(edges)]


def _tree_sum(terms: list[Any]) -> Any:
    add = delayed(_sum_terms)
    while len(terms) > 1:
        terms = [add(terms[i : i + FAN_IN]) for i in range(0, len(terms), FAN_IN)]
    return terms[0]


def _other_kind(chunk: Any, x: Any) -> TypeError:
    got = chunk if isinstance(chunk, str) else type(chunk).__name__
    return TypeError(
        f"X must have chunks of the kind that it declares, {type(x._meta).__name__}; got {got}. "
        "Declare the right one: X.map_blocks(lambda chunk: chunk, meta=a chunk without rows)"
    )


def _mixed_kinds() -> TypeError:
    return TypeError(
        "X must have dense chunks, or sparse ones, throughout; it has both. Make them alike with "
        "X.map_blocks"
    )


# ---------------------------------------------------------------- what workers do


def _rows_of(chunk: Any, dtype: Any, shifts: tuple[Array, ...] = ()) -> Array:
    """A chunk to compute with: dense and shifted, or Sparse."""
    if _backend.is_sparse(chunk):
        if shifts:  # which would fill it
            raise _mixed_kinds()
        return Sparse(chunk).astype(dtype)
    rows = _backend.place_of(chunk).xp.astype(chunk, dtype, copy=False)
    for shift in shifts:
        rows = rows - shift
    return rows


def _product(left: Array, chunk: Any, *shifts: Array, work_dtype: Any, transposed: bool) -> Array:
    rows = _rows_of(chunk, work_dtype, shifts)
    return (left @ (rows.T if transposed else rows))[:, None, :]


def _outer_product(chunk: Any, dtype: Any, scale: float, *shifts: Array) -> Array:
    rows = _rows_of(chunk, dtype, shifts)
    return gram_of((rows if scale == 1.0 else rows * scale).T)


def _call(
    kernel: Kernel, chunk: Any, dtype: Any, is_sparse: bool, *per_sample: Array | None
) -> Any:
    if _backend.is_sparse(chunk) != is_sparse:  # whose sums would be about another shift
        raise _mixed_kinds()
    return kernel(_rows_of(chunk, dtype), *per_sample)


def _sum_terms(terms: list[Any]) -> Any:
    # Not in place: a worker may still need what it was given, for another try.
    if not isinstance(terms[0], tuple):
        return sum(terms[1:], terms[0])
    return tuple(
        None if group[0] is None else sum(group[1:], group[0]) for group in zip(*terms, strict=True)
    )


def _joined(columns: tuple[Any, ...], place: Place) -> tuple[Array, ...]:
    if len(columns) == 1:
        return columns[0]  # type: ignore[no-any-return]
    groups = zip(*columns, strict=True)
    return tuple(
        None
        if group[0] is None
        else place.xp.concat(group, axis=1)
        if group[0].ndim == 2
        else sum(group[1:], group[0])
        for group in groups
    )


def _largest_stored(chunk: Any, dtype: Any) -> float | None:
    return largest_magnitude(_rows_of(chunk, dtype)) if _backend.is_sparse(chunk) else None


def _largest_deviation(chunk: Any, dtype: Any, shift: Array | None) -> float:
    return largest_magnitude(_rows_of(chunk, dtype, () if shift is None else (shift,)))


def _first_not_finite(chunk: Any) -> tuple[int, int, float] | None:
    if _backend.is_sparse(chunk):
        return Sparse(chunk).first_not_finite()
    numbers = _backend.to_host(chunk)
    at = np.argwhere(~np.isfinite(numbers))
    if not at.shape[0]:
        return None
    row, column = map(int, at[0])
    return row, column, float(numbers[row, column])
