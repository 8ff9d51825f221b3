"""Sums of rows by class, as a library does them best."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from .places import NUMPY, Array, place_of
from .sparse import Sparse, compressed_views

# Rows times codes up to which SciPy's own checks take longer than a product with a one-hot matrix.
SMALLEST_SUM = 2**14


def one_hot(codes: Array, height: int, like: Array) -> Array:
    """Column j marks the samples of code j: (m, height), of the dtype of `like`."""
    xp, device = place_of(codes)
    marks = codes[:, None] == xp.arange(height, dtype=codes.dtype, device=device)[None, :]
    return xp.astype(marks, like.dtype)


def sums_by_code(rows: Array, codes: Array, height: int, weights: Array | None) -> Array | None:
    """Sum rows by code, times weights, in one reading of them.

    Parameters
    ----------
    rows : array or Sparse, shape (m, d)
    codes : array of int, shape (m,)
        From 0 to height − 1.
    height : int
    weights : array, shape (m,), optional

    Returns
    -------
    array, shape (height, d), or None
        None if the library has no deterministic routine for it, or if a product with a one-hot
        matrix is faster.
    """
    if place_of(rows) != NUMPY:
        return None
    if isinstance(rows, Sparse):
        return rows.sums_by_code(codes, height, weights)
    if len(codes) * height <= SMALLEST_SUM:
        return None
    values = np.ones(len(codes), rows.dtype) if weights is None else weights
    return np.asarray(_marks(codes, height, values) @ rows)


def _marks(codes: np.ndarray, height: int, values: np.ndarray) -> Any:
    """A sparse matrix with one value in each column, in the row of its code: (height, m)."""
    kind = importlib.import_module("scipy.sparse").csc_array
    pointers = np.arange(len(codes) + 1, dtype=np.int32)
    return compressed_views(kind, (values, codes.astype(np.int32), pointers), (height, len(codes)))
