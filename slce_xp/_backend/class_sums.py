"""Sums of rows by class, in one reading of them, on the host."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from slce_xp._backend.places import NUMPY, Array, Place, place_of
from slce_xp._backend.sparse import LARGEST_COPY, Sparse, compressed_views

LONGEST_RUN = 512  # rows that are added one after another in single precision
# Rows times codes up to which SciPy's own checks take longer than a product with a one-hot matrix.
SMALLEST_SUM = 2**12
# Codes of columns that lie together, up to which that product is faster than a copy of the rows.
FEW_CODES = 16


def adds_by_code(place: Place) -> bool:
    """Whether `sums_by_code` has a routine for dense and sparse matrices at a place."""
    return place == NUMPY


def sums_by_code(
    x: Array, codes: Array, height: int, weights: Array | None, factor: float
) -> Array | None:
    """Sum rows by code, times weights and a factor, in one reading of them.

    Parameters
    ----------
    x : array or Sparse, shape (n, d)
    codes : array of int, shape (n,)
        From 0 to height − 1.
    height : int
    weights : array, shape (n,), optional
    factor : float

    Returns
    -------
    array, shape (height, d), or None
        None if the library has no routine for it, some codes are outside of the range, or codes
        are so few that a product with a one-hot matrix is faster.
    """
    place = x.place if isinstance(x, Sparse) else place_of(x)
    if not adds_by_code(place) or len(codes) * height <= SMALLEST_SUM:
        return None
    is_copied = isinstance(x, np.ndarray) and not x.flags.c_contiguous  # by SciPy, in parts
    if is_copied and height <= FEW_CODES:
        return None
    if codes.min() < 0 or codes.max() >= height:
        return None
    values = np.full(len(codes), factor, x.dtype)
    if weights is not None:
        values *= weights
    if isinstance(x, Sparse):
        return x.sums_by_code(codes, height, values)
    runs: dict[int, slice] = {}
    if x.dtype.itemsize <= 4:
        codes, runs = _with_short_runs(codes, height)
    added = max((run.stop for run in runs.values()), default=height)
    length = max(1, LARGEST_COPY // x.shape[1], height) if is_copied else len(codes)
    total = None
    for start in range(0, len(codes), length):
        part = slice(start, start + length)
        marks = _marks(codes[part], added, values[part])
        total = marks @ x[part] if total is None else np.add(total, marks @ x[part], out=total)
    if total is not None and runs:
        for code, run in runs.items():
            total[code] += total[run].sum(axis=0)
        total = total[:height]
    return total


def add_rows(total: np.ndarray, positions: np.ndarray, rows: np.ndarray) -> None:
    """Add rows to those of a total at different positions, by NumPy and in place."""
    total[positions] += rows


def _with_short_runs(codes: np.ndarray, height: int) -> tuple[np.ndarray, dict[int, slice]]:
    """Codes that no more than `LONGEST_RUN` rows have, and which are added to those of others."""
    runs: dict[int, slice] = {}
    for code in np.flatnonzero(np.bincount(codes) > LONGEST_RUN).tolist():
        codes = codes if runs else codes.copy()
        rest = np.flatnonzero(codes == code)[LONGEST_RUN:]
        codes[rest] = height + np.arange(len(rest)) // LONGEST_RUN
        runs[code] = slice(height, height + -(-len(rest) // LONGEST_RUN))
        height = runs[code].stop
    return codes, runs


def _marks(codes: np.ndarray, height: int, values: np.ndarray) -> Any:
    """A sparse matrix with one value in each column, in the row of its code: (height, m)."""
    kind = importlib.import_module("scipy.sparse").csc_array
    pointers = np.arange(len(codes) + 1, dtype=np.int32)
    return compressed_views(kind, (values, codes.astype(np.int32), pointers), (height, len(codes)))
