"""Dask arrays: chunks are not moved. The only file that imports Dask.

A pass is one graph: a term of each chunk, added up in a tree. Nothing comes to the client but sums
of the size of its vectors.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from dask import config
from dask.base import compute
from dask.delayed import delayed

from slce_xp import _backend
from slce_xp._backend import Array, Sparse
from slce_xp._progress import Progress
from slce_xp.core._rows import MemoryRows, Rows, Term

# Terms that one task adds up.
FAN_IN = 8
# Rows that must be probed to see whether data lie far from the origin.
LEAST_PROBE = 8
# Vectors and labels travel with the graph: what a worker loses when it dies can be made again.
# Dask warns of graphs above 10 MB, which ours may well be.
LARGE_GRAPH = {"distributed.admin.large-graph-warning-threshold": "10 GB"}


class DaskRows(Rows):
    """A Dask array: chunks are processed where they are.

    Parameters
    ----------
    x : dask.array.Array, shape (n, d)
        In chunks of known sizes, of rows, columns or both; columns are joined.
    dtype : optional
        What to convert chunks to.
    progress : Progress, optional
    kept : numpy.ndarray of int, optional
        Positions of the rows to read, ascending; all by default.
    """

    is_chunked = True

    def __init__(
        self,
        x: Any,
        dtype: Any = None,
        progress: Progress | None = None,
        kept: np.ndarray | None = None,
    ) -> None:
        x = x if kept is None else x[kept]
        dtype = dtype or _backend.working_dtype(_backend.without_rows(x))
        super().__init__(x.shape, _backend.place_of(x), dtype, progress, kept)
        self.is_sparse = _backend.is_sparse(x._meta)
        self._given = x
        self._x = x if x.numblocks[1] == 1 else x.rechunk({0: "auto", 1: -1})

    def prepare_for_second_moment(self) -> None:
        """Join chunks of fewer than d rows, and take blocks of as many: each adds a matrix."""
        self.block_bytes = max(self.block_bytes, self.d * self.d * self.itemsize)
        rows = max(self.d, self.n // self._x.numblocks[0])
        if rows > self.n // self._x.numblocks[0] and self._x.numblocks[0] > 1:
            self._x = self._x.rechunk({0: rows})

    def probe(self, count: int) -> Array:
        """Rows of the first chunk, and of more only if it has very few: each costs one."""
        ends = np.cumsum(self._given.chunks[0])
        few = int(ends[np.searchsorted(ends, min(LEAST_PROBE, self.n))])
        (rows,) = self._compute(self._given[: min(count, few)])
        if _backend.is_sparse(rows) != self.is_sparse:
            raise _other_kind(rows, self._x)
        rows = _rows_of(rows, self.dtype)
        if _backend.place_of(rows) != self.place:
            raise _other_kind(rows, self._x)
        rows = rows.dense() if isinstance(rows, Sparse) else rows
        return self.place.xp.astype(rows, self.dtype, copy=False)

    def sum(self, term: Term, made: int, *per_sample: Array | None) -> tuple[Array, ...]:
        """Sum a term over all chunks: one graph, in which terms are added up in a tree."""
        terms = self._terms("sum", term, made, per_sample)
        return self._pass(_tree_sum(terms))[0]  # type: ignore[no-any-return]

    def join(self, term: Term, made: int, *per_sample: Array | None) -> Array:
        """Join what a term returns for all chunks: one graph."""
        pieces = self._pass(*self._terms("join", term, made, per_sample))
        return pieces[0] if len(pieces) == 1 else self.place.xp.concat(pieces, axis=0)

    def _terms(
        self,
        method: str,
        term: Term,
        made: int,
        per_sample: tuple[Array | None, ...],
    ) -> list[Any]:
        sizes, chunks, call = self._x.chunks[0], self._x.to_delayed()[:, 0], delayed(_on_blocks)
        parts = [None if a is None else _cut(a, sizes) for a in per_sample]
        return [
            call(method, term, made, chunks[i], self.dtype, self.is_sparse, self.block_bytes,
                 *(None if p is None else p[i] for p in parts))
            for i in np.flatnonzero(sizes)
        ]  # fmt: skip

    def map(self, function: Callable[[Array], Array], width: int) -> Any:
        """A Dask array of what a function makes of the rows of each chunk, (m, d) ↦ (m, width)."""
        xp, device = self.place
        return self._x.map_blocks(
            _mapped,
            function,
            self.dtype,
            self.is_sparse,
            chunks=(self._x.chunks[0], (width,)),
            dtype=self.dtype,
            meta=xp.empty((0, 0), dtype=self.dtype, device=device),
        )

    def outer(self, prepare: Callable[[Array, slice], Array]) -> Array:
        """R·Rᵀ of columns R, shape (n, n), summed over chunks of columns: one graph."""
        x = self._x.rechunk({0: -1, 1: "auto" if self._x.numblocks[0] > 1 else None})
        edges, one = np.cumsum([0, *x.chunks[1]]), delayed(_outer_product)
        columns = [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]
        terms = [one(prepare, c, self.dtype, part)
                 for c, part in zip(x.to_delayed()[0], columns, strict=True)]  # fmt: skip
        return self._pass(_tree_sum(terms))[0]

    def raise_if_not_finite(self) -> None:
        """Raise ValueError for the first NaN or infinity: each chunk reports its own."""
        found = self._compute(*map(delayed(_first_not_finite), self._x.to_delayed()[:, 0]))
        starts = np.cumsum([0, *self._x.chunks[0]])
        for start, at in zip(starts[:-1], found, strict=True):
            if at is not None:
                raise self._not_finite(int(start) + at[0], *at[1:])

    def _pass(self, *lazy: Any) -> tuple[Any, ...]:
        self.progress.begin_pass(self.n)
        computed = self._compute(*lazy)
        self.progress.read(self.n, 1, 1)
        return computed

    def _compute(self, *lazy: Any) -> tuple[Any, ...]:
        # Without `distributed` there is no such setting, and to make one would hide its defaults.
        with config.set(LARGE_GRAPH if "distributed" in sys.modules else {}):
            return tuple(compute(*lazy))


# ---------------------------------------------------------------- pieces of vectors


def _cut(array: Array, sizes: tuple[int, ...]) -> list[Array]:
    edges = np.cumsum([0, *sizes])
    return [array[int(a) : int(b), ...] for a, b in itertools.pairwise(edges)]


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


def _mixed_kinds(chunk: Any, is_sparse: bool) -> TypeError:
    return TypeError(
        f"X must have {'sparse' if is_sparse else 'dense'} chunks throughout, as it declares; got "
        f"{type(chunk).__name__}. Make them alike with X.map_blocks, or declare them by its meta="
    )


# ---------------------------------------------------------------- what workers do


def _rows_of(chunk: Any, dtype: Any) -> Array:
    """A chunk to compute with: dense as it is, or Sparse."""
    return Sparse(chunk).astype(dtype) if _backend.is_sparse(chunk) else chunk


def _outer_product(
    prepare: Callable[[Array, slice], Array], chunk: Any, dtype: Any, columns: slice
) -> Array:
    return _backend.gram(prepare(_rows_of(chunk, dtype), columns).T)


def _mapped(chunk: Any, function: Callable[[Array], Array], dtype: Any, is_sparse: bool) -> Array:
    _check_kind(chunk, is_sparse)
    return function(_rows_of(chunk, dtype))


def _on_blocks(
    method: str,
    term: Term,
    made: int,
    chunk: Any,
    dtype: Any,
    is_sparse: bool,
    block_bytes: int,
    *per_sample: Array | None,
) -> Any:
    """Sum or join a term over the blocks of a chunk, by the `method` of that name."""
    rows = _opened(chunk, dtype, is_sparse, block_bytes)
    return getattr(rows, method)(term, made, *per_sample)


def _opened(chunk: Any, dtype: Any, is_sparse: bool, block_bytes: int) -> MemoryRows:
    """A chunk in blocks: sparse ones may be made dense, one at a time."""
    _check_kind(chunk, is_sparse)
    rows = MemoryRows(Sparse(chunk) if is_sparse else chunk, dtype)
    rows.block_bytes = block_bytes
    return rows


def _check_kind(chunk: Any, is_sparse: bool) -> None:
    if _backend.is_sparse(chunk) != is_sparse:  # whose sums would be about another centre
        raise _mixed_kinds(chunk, is_sparse)


def _sum_terms(terms: list[Any]) -> Any:
    # Not in place: a worker may still need what it was given, for another try.
    if not isinstance(terms[0], tuple):
        return sum(terms[1:], terms[0])
    return tuple(
        None if group[0] is None else sum(group[1:], group[0]) for group in zip(*terms, strict=True)
    )


def _first_not_finite(chunk: Any) -> tuple[int, int, float] | None:
    if _backend.is_sparse(chunk):
        return Sparse(chunk).first_not_finite()
    numbers = _backend.to_host(chunk)
    at = np.argwhere(~np.isfinite(numbers))
    if not at.shape[0]:
        return None
    row, column = map(int, at[0])
    return row, column, float(numbers[row, column])
