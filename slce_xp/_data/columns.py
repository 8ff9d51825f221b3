"""Imputation and scaling of columns.

For arrays, sparse matrices in compressed rows, and row-sliceable objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend

_BLOCK_BYTES = 2**24


class Statistics(NamedTuple):
    """Statistics of the columns of a matrix, all of shape (d,).

    Attributes
    ----------
    missing : numpy.ndarray of int
        The number of missing values.
    mean, std : numpy.ndarray
        Mean of the present values, and standard deviation with the mean for missing ones: 0 for
        constants, and infinite for numbers too large to be squared.
    """

    missing: np.ndarray
    mean: np.ndarray
    std: np.ndarray


@np.errstate(over="ignore", invalid="ignore")
def statistics(X: Any) -> Statistics:
    """Compute statistics in two passes, so that columns far from zero keep their digits."""
    n, d = X.shape
    missing, total = np.zeros(d, dtype=np.int64), np.zeros(d)
    for block in _blocks(X):
        count, part = _present_sums(block, lambda values, _: values)
        missing += block.shape[0] - count
        total += part
    mean = total / np.maximum(n - missing, 1)
    squares = np.zeros(d)
    for block in _blocks(X):
        squares += _present_sums(block, lambda values, centre: (values - centre) ** 2, mean)[1]
    std = np.sqrt(squares / max(n, 1))
    # Rounding of the mean leaves a residue of constants.
    return Statistics(missing, mean, np.where(std < n * np.finfo(float).eps * abs(mean), 0.0, std))


def prepared(X: Any, fill: np.ndarray | None = None, scale: np.ndarray | None = None) -> Any:
    """Return X with missing values replaced by `fill`, divided by `scale`; X itself for neither.

    The result is of the same kind; rows that are read in blocks are changed as they are read.
    """
    if fill is None and scale is None:
        return X
    if _backend.is_sparse(X):
        values = _ready(X.data, X.indices, fill, scale)
        return type(X)((values, X.indices, X.indptr), shape=X.shape)
    if type(X) is np.ndarray:
        return _ready(X, slice(None), fill, scale)
    return _PreparedRows(X, fill, scale)


def only(X: Any, columns: np.ndarray) -> Any:
    """Return some columns of X, by position and in this order."""
    is_sliceable = any(is_of(X) for is_of in (_backend.is_sparse, _backend.is_array))
    return X[:, columns] if is_sliceable or _backend.is_dask(X) else _ChosenRows(X, columns)


def spread(std: np.ndarray) -> np.ndarray:
    """Return divisors that give unit standard deviations; 1 for constant columns."""
    return np.where(std > 0, std, 1.0)


class _Rows:
    """Row-sliceable object whose rows are changed as they are read."""

    def __init__(self, rows: Any, shape: tuple[int, int], dtype: np.dtype) -> None:
        self._rows = rows
        self.shape = shape
        self.dtype = dtype
        if isinstance(getattr(rows, "chunks", None), tuple):
            self.chunks = rows.chunks


class _PreparedRows(_Rows):
    def __init__(self, rows: Any, fill: np.ndarray | None, scale: np.ndarray | None) -> None:
        super().__init__(rows, rows.shape, float_of(np.dtype(rows.dtype)))
        self._change = (fill, scale)

    def __getitem__(self, rows: slice) -> Any:
        block = self._rows[rows]
        return prepared(block if _backend.is_sparse(block) else np.asarray(block), *self._change)


class _ChosenRows(_Rows):
    def __init__(self, rows: Any, columns: np.ndarray) -> None:
        super().__init__(rows, (int(rows.shape[0]), len(columns)), np.dtype(rows.dtype))
        self._columns = columns

    def __getitem__(self, index: slice) -> Any:
        # In small pieces: who counts bytes counts those of the chosen columns only.
        count, chunk = index.stop - index.start, getattr(self, "chunks", (1,))[0]
        step = max(1, count * self.shape[1] // self._rows.shape[1], chunk)
        block = np.empty((count, self.shape[1]), dtype=self.dtype)
        for i in range(0, count, step):
            rows = self._rows[index.start + i : min(index.start + i + step, index.stop)]
            if _backend.is_sparse(rows):
                return self._rows[index][:, self._columns]
            block[i : i + step] = np.asarray(rows)[:, self._columns]
        return block


def float_of(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which a fit computes such numbers."""
    return np.result_type(dtype, np.float32 if dtype.kind == "f" else np.float64)


def _ready(
    values: np.ndarray, columns: Any, fill: np.ndarray | None, scale: np.ndarray | None
) -> np.ndarray:
    """Impute and scale values of these columns, along the last axis."""
    out: np.ndarray = values.astype(float_of(values.dtype))  # a copy, always
    if fill is not None:
        np.copyto(out, fill[columns].astype(out.dtype), where=np.isnan(out))
    if scale is not None:
        out /= scale[columns].astype(out.dtype)
    return out


def _blocks(X: Any) -> Iterator[Any]:
    n, d = X.shape
    rows = max(1, _BLOCK_BYTES // max(1, 8 * d))
    if _backend.is_sparse(X):
        rows = n or 1  # its sums need no temporary larger than its values
    for start in range(0, n, rows):
        block = X[start : start + rows]
        if _backend.is_sparse(block):
            if not block.has_canonical_format:  # an entry may be the sum of several stored ones
                block = block.copy()
                block.sum_duplicates()
            yield block
        else:
            yield np.asarray(block)


def _present_sums(block: Any, term: Any, centre: np.ndarray | None = None) -> tuple[Any, Any]:
    """Return the number of present values in each column, and the sums of a term over them."""
    n, d = block.shape
    if centre is None:
        centre = np.zeros(d)
    if not _backend.is_sparse(block):
        there = ~np.isnan(block)
        return there.sum(axis=0), np.where(there, term(block.astype(float), centre), 0.0).sum(0)
    there = ~np.isnan(block.data)
    columns = block.indices[there]
    values = term(block.data[there].astype(float), centre[columns])
    stored = np.bincount(block.indices, minlength=d)
    missing = stored - np.bincount(columns, minlength=d)
    # Entries that are not stored are zero.
    sums = np.bincount(columns, weights=values, minlength=d)
    return n - missing, sums + (n - stored) * term(np.zeros(d), centre)
