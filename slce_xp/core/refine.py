"""Refinement of eigenvectors a = Xᵀu that were found in sample coordinates.

Such a vector is rounded relative to ‖X‖·‖u‖, which is much larger than ‖a‖ if its eigenvalue is
small. Residuals that are measured on X show that, and what is known of M in sample coordinates
corrects it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array
from slce_xp.core import eigen
from slce_xp.core.operators import CentroidOperator

# Residuals are rounding up to so many eps of the size of S_t.
LARGEST_RESIDUAL = 64.0
MOST_REFINEMENTS = 3


class KnownPairs(NamedTuple):
    """Eigenpairs (μ, XᵀDl / μ) of M, as far as they are known.

    Attributes
    ----------
    values : numpy.ndarray, shape (m,)
        μ.
    project : function
        Products with the vectors l, (n, k) ↦ (m, k).
    combine : function
        Combinations of the vectors l, (m, k) ↦ (n, k).
    """

    values: np.ndarray
    project: Callable[[Array], Array]
    combine: Callable[[Array], Array]


class Refined(NamedTuple):
    """Eigenpairs with measured residuals.

    Attributes
    ----------
    values : array, shape (q,)
    vectors : array, shape (d, q)
    lengths : numpy.ndarray, shape (q,)
        Lengths of the residuals M a − μ a.
    converged : bool
        True if they are short enough.
    """

    values: Array
    vectors: Array
    lengths: np.ndarray
    converged: bool


def refine(
    operator: CentroidOperator,
    known: Callable[[], KnownPairs],
    vectors: Array,
    square: float,
    target: float = 0.0,
) -> Refined:
    """Eigenpairs near orthonormal columns, corrected until their residuals are short enough.

    The correction is of first order, (θ − M)⁻¹·r with what is known of M: some eigenvectors with
    their eigenvalues, and zero for all other directions.

    Parameters
    ----------
    operator : CentroidOperator
    known : function
        Returns what is known of M; called only if residuals are too long.
    vectors : array, shape (d, q)
    square : float
        The size of S_t, which rounding is relative to.
    target : float
        The residuals are short enough if all together are no longer than this, or if each one is
        rounding.
    """
    xp, _ = operator.place
    limit = LARGEST_RESIDUAL * eigen.eps_of(vectors) * square
    rows = _backend.copied(vectors.T)  # contiguous: products of strided rows round differently
    pairs: KnownPairs | None = None
    for trial in range(1 + MOST_REFINEMENTS):
        image = operator.apply(rows)
        small = rows @ image.T
        values, rotation = _backend.largest_eigenpairs(0.5 * (small + small.T), rows.shape[0])
        rows, image = rotation.T @ rows, rotation.T @ image
        residual = image - values[:, None] * rows
        host, lengths = eigen.read_finite(values, xp.linalg.vector_norm(residual, axis=1))
        is_short = bool((lengths <= limit).all() or np.linalg.norm(lengths) <= target)
        if is_short or trial == MOST_REFINEMENTS:
            break
        pairs = pairs or known()
        rows = rows + _correction(operator, pairs, residual, host, lengths, square)
        rows = eigen.orthonormal_columns(rows.T).T
    return Refined(values, rows.T, lengths, is_short)


def refine_null(
    operator: CentroidOperator, known: Callable[[], KnownPairs], vectors: Array, square: float
) -> Array:
    """Directions near the null space of M, corrected in the same way for θ = 0."""
    xp, _ = operator.place
    limit = LARGEST_RESIDUAL * eigen.eps_of(vectors) * square
    rows, zeros = _backend.copied(vectors.T), np.zeros(vectors.shape[1])
    for _ in range(MOST_REFINEMENTS if rows.shape[0] else 0):
        residual = operator.apply(rows)
        (lengths,) = eigen.read_finite(xp.linalg.vector_norm(residual, axis=1))
        if (lengths <= limit).all():
            break
        rows = rows + _correction(operator, known(), residual, zeros, lengths, square)
        rows = eigen.orthonormal_columns(rows.T).T
    return rows.T


def _correction(
    operator: CentroidOperator,
    known: KnownPairs,
    residual: Array,
    values: np.ndarray,
    lengths: np.ndarray,
    square: float,
) -> Array:
    """(θ − M)⁻¹·r for each row r, without eigenvalues that cannot be separated from θ."""
    mu = known.values[:, None]
    distance = values[None, :] - mu
    tiny = 2.0**8 * operator.zero_level(square)  # never zero, even if all samples are the same
    apart = (np.abs(distance) > 4.0 * lengths) & (np.abs(mu) > tiny)
    # All directions begin with the eigenvalue zero: 1 / (θ − μ) = 1 / θ + μ / (θ·(θ − μ)). If θ
    # itself is zero, only known eigenvectors are corrected for.
    large = np.abs(values) > tiny
    reciprocal = np.where(large, 1.0 / np.where(large, values, 1.0), 0.0)
    share = np.where(large, mu * reciprocal, 1.0)
    share = np.where(apart, share / np.where(apart, distance, 1.0), 0.0)
    inverse = np.where(np.abs(mu) > tiny, 1.0 / np.where(mu == 0.0, 1.0, mu), 0.0)
    factors = [
        _backend.from_host(part, operator.place, residual.dtype)
        for part in (inverse, share, reciprocal[:, None])
    ]
    scores = known.project(operator.reflect(operator.project_rows(residual).T))
    # One factor after the other keeps all in range.
    scores = scores * factors[0] * factors[1] * factors[0]
    inside = operator.combine_rows(operator.reflect(known.combine(scores)).T)
    return inside + factors[2] * residual
