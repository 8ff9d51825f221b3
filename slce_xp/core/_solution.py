"""The leading eigenpairs of M, and what is proved of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._backend import Array

FORMS = ("scatter", "gram", "krylov")
# Gaps between eigenvalues, from below, at which the number of eigenvalues above is bounded.
MOST_LEVELS = 4


@dataclass(frozen=True)
class Solution:
    """Leading eigenpairs, descending.

    Attributes
    ----------
    values : numpy.ndarray, shape (k,)
    vectors : array, shape (d, k)
        Orthonormal columns.
    n_positive : tuple of int
        Bounds of the number of eigenvalues above `zero_level` among the first k.
    zero_level : float
        Eigenvalues up to this count as zero.
    residual : float
        ‖M·V − V·diag(values)‖ of those above it, beyond rounding.
    rounding : float
        ρ₀, which rounding may add to that and to values.
    angle_bounds : numpy.ndarray, shape (k,)
        Bounds of the largest angle between the span of the first 1, 2, … vectors and the exact one,
        in radians; infinite if none is proved.
    passes : int
        Passes over X of an iteration.
    converged : bool
        False if an iteration ended before its residual was small enough and its count proved.
    """

    values: np.ndarray
    vectors: Array
    n_positive: tuple[int, int]
    zero_level: float
    residual: float
    rounding: float
    angle_bounds: np.ndarray
    passes: int = 0
    converged: bool = True


def of_whole_spectrum(
    values: np.ndarray, vectors: Array, rounding: float, most: int, following: float
) -> Solution:
    """The solution of a formed M, whose eigenvalues are all known to rounding.

    Parameters
    ----------
    values, vectors, rounding
        As in `Solution`.
    most : int
        No more eigenvalues are positive.
    following : float
        The next eigenvalue; −∞ if there is none.
    """
    zero_level = 2.0 * rounding
    low = min(int((values > zero_level + rounding).sum()), most)
    high = min(int((values > zero_level - rounding).sum()), most)
    below = np.append(values[1:], following) + rounding
    angles = _angles(values, np.zeros(len(values)), rounding, below)
    return Solution(values, vectors, (low, high), zero_level, 0.0, rounding, angles)


def of_leading_part(
    values: np.ndarray,
    vectors: Array,
    lengths: np.ndarray,
    found: int,
    rounding: float,
    zero_level: float,
    most: int,
    following: float,
    count_above: Callable[[float], int] | None,
) -> Solution:
    """The solution of a form that knows the leading part of the spectrum only.

    Parameters
    ----------
    values, vectors, rounding, zero_level
        As in `Solution`.
    lengths : numpy.ndarray, shape (k,)
        Of the residuals of all vectors, beyond rounding.
    found : int
        How many of them are above the zero level.
    most : int
        No more eigenvalues are positive.
    following : float
        The next eigenvalue, as far as it is known.
    count_above : function, or None
        A level ↦ an upper bound of the number of eigenvalues of M above it.
    """
    k = len(values)
    residual = float(np.linalg.norm(lengths[:found]))
    error = rounding + residual
    low = min(int((values[:found] > zero_level + error).sum()), most)
    high, level, proved = min(k, most), math.inf, 0
    if low == most:
        high, level, proved = low, 0.0, low
    elif count_above is not None:
        if low < high:
            high = max(low, min(high, count_above(zero_level)))
        ends = np.append(values, following)
        level, proved = _proved_level(ends, low, error, zero_level, count_above)
    below = np.full(k, math.inf)
    below[:proved] = np.append(values[1:proved] + error, level)[:proved]
    angles = _angles(values, lengths, rounding, below)
    return Solution(values, vectors, (low, high), zero_level, residual, rounding, angles)


def found_above(
    values: np.ndarray, lengths: np.ndarray, level_of: Callable[[float], float]
) -> tuple[int, float]:
    """How many leading values are above the level that their own residual sets, and the level."""
    count = len(values)
    while True:
        level = level_of(float(np.linalg.norm(lengths[:count])))
        if not count or values[count - 1] > level:
            return count, level
        count -= 1


def _proved_level(
    ends: np.ndarray,
    low: int,
    error: float,
    zero_level: float,
    count_above: Callable[[float], int],
) -> tuple[float, int]:
    """Return a level and m: at most m eigenvalues exceed the level, and the m-th one does.

    `ends` are the known eigenvalues and the next one; the first `low` are above the zero level.
    """
    for m in range(low, max(0, low - MOST_LEVELS), -1):
        level = zero_level if ends[m] <= zero_level else float(0.5 * (ends[m - 1] + ends[m]))
        if ends[m - 1] > level + error and count_above(level) <= m:
            return level, m
    return math.inf, 0


def _angles(
    values: np.ndarray, lengths: np.ndarray, rounding: float, below: np.ndarray
) -> np.ndarray:
    """Bounds by the theorem of Davis and Kahan, for the spans of the first 1, 2, … vectors.

    Parameters
    ----------
    lengths : numpy.ndarray, shape (k,)
        Of the residuals.
    below : numpy.ndarray, shape (k,)
        No other eigenvalue is larger than this.
    """
    gaps = values - below
    residuals = np.sqrt(np.cumsum(np.square(lengths))) + rounding
    sines = np.where(gaps > 0.0, residuals / np.where(gaps > 0.0, gaps, 1.0), math.inf)
    return np.where(sines < 1.0, np.arcsin(np.minimum(sines, 1.0)), math.inf)
