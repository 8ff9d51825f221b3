"""Coordinates of an eigenproblem: vectors of features, of length d, or of samples, of length n.

In either, C is known on a space with orthonormal basis Q, the whole one or a Krylov space:
T = QᵀCQ, and the class rows b = QᵀN. The algebra is the same on the host and on a device.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import _backend
from .._backend import Array
from ._problem import Problem

# The ridge with which G is factored, in units of ρ₀: below the rounding of eigenvalues.
RIDGE = 0.25


class Pairs(NamedTuple):
    """Leading eigenpairs of M on a space.

    Attributes
    ----------
    values : array, shape (q,)
        Descending.
    coordinates : array, shape (s, q)
        In the basis of the space.
    """

    values: Array
    coordinates: Array


class Features:
    """Vectors of features: C = Σ s w (x − m)(x − m)ᵀ and M = 2·BᵀB − C."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.length = problem.d
        self.classes = problem.between  # rows, (K, d)

    def apply(self, rows: Array) -> Array:
        """V·C for rows V, (b, d) ↦ (b, d): one pass over X."""
        return self._problem.samples.scatter_times(rows.T).T

    @staticmethod
    def leading(matrix: Array, known: Array, count: int) -> Pairs:
        """The `count` leading eigenpairs of 2·bbᵀ − T."""
        small = 2.0 * (known @ known.T) - matrix
        return Pairs(*_backend.largest_eigenpairs(small, count))

    @staticmethod
    def count_above(
        matrix: np.ndarray, known: np.ndarray, coupling: np.ndarray, level: float, rounding: float
    ) -> tuple[int, int]:
        """An upper bound of the number of eigenvalues of M above a level.

        As many as of 2·B(C + σI)⁻¹Bᵀ are above 1 (Schur complement and Sylvester's law of inertia).
        With Y the solution of (T + σI)Y = b on the space, and R what C makes of it beyond the
        space, B(C + σI)⁻¹Bᵀ is at most bᵀY + RᵀR / σ, for C is positive semi-definite.

        Returns
        -------
        bound : int
        least : int
            What the bound cannot fall below, whatever joins the space.
        """
        level -= rounding
        if not level > 0.0:  # nothing is known
            return known.shape[1], 0
        solved = np.linalg.solve(matrix + level * np.eye(len(matrix)), known)
        outside = coupling.T @ solved
        inner = known.T @ solved
        residual = 1.1 * (outside.T @ outside) + 11.0 * rounding**2 * (solved.T @ solved)
        return _above_one(inner + residual / level), _above_one(inner)

    def vectors(self, rows: Array) -> Array:
        """Columns of features for rows in these coordinates, (b, d) ↦ (d, b)."""
        return rows.T


class Samples:
    """Vectors of samples: u stands for a = Xᵀu, and C for G = X·Xᵀ. M·a is Xᵀ·D·G·u, D = 2NNᵀ − S.

    S are the signs of samples, 1 if all have a label, and N their indicators with B = NᵀX.
    """

    def __init__(self, problem: Problem, rounding: float) -> None:
        self._samples = problem.samples
        self._ridge = RIDGE * rounding or 1.0  # all samples may be the same
        self.length = problem.samples.n
        self.classes = problem.samples.indicators.T

    def apply(self, rows: Array) -> Array:
        """U·G for rows U, (b, n) ↦ (b, n)."""
        return self._samples.gram_times(rows.T).T

    def leading(self, matrix: Array, known: Array, count: int) -> Pairs:
        """The `count` leading eigenpairs of D·T.

        With T = L·Lᵀ they are those of LᵀDL: its eigenvector w gives u = L⁻ᵀw, for which Xᵀu has
        unit length.
        """
        factor = factored(matrix, self._ridge)
        means = known.T @ factor
        small = 2.0 * (means.T @ means) - factor.T @ self._samples.signed(factor)
        values, vectors = _backend.largest_eigenpairs(small, count)
        return Pairs(values, _backend.solve_upper(factor.T, vectors))

    @staticmethod
    def count_above(
        matrix: Any, known: Any, coupling: np.ndarray, level: float, rounding: float
    ) -> tuple[int, int]:
        """The same as for `Features`.

        B(S_t + σI)⁻¹Bᵀ is NᵀN − σ·Nᵀ(G + σI)⁻¹N, and what a space knows of the inverse is too
        small.
        """
        solved = solved_shifted(matrix, level + rounding, known)
        inner, inverse = _backend.read(known.T @ known, known.T @ solved)
        return _above_one(inner - level * inverse), 0

    def vectors(self, rows: Array) -> Array:
        """Columns of features for rows in these coordinates, (b, n) ↦ (d, b): one pass over X."""
        return self._samples.combine(rows.T)


def factored(matrix: Array, ridge: float) -> Array:
    """Lower triangular L with L·Lᵀ = T + ridge·I, for a T that is positive but for rounding."""
    xp = _backend.namespace_of(matrix)
    factor = _backend.cholesky(matrix + ridge * identity(matrix))
    # Where NumPy raises, a GPU library returns NaN.
    if factor is not None and np.isfinite(_backend.read(xp.linalg.trace(factor))[0]):
        return factor
    values, vectors = _backend.eigh(matrix)
    root = vectors * xp.sqrt(xp.clip(values, 0.0) + ridge)
    return _backend.qr(root.T)[1].T


def solved_shifted(matrix: Array, shift: float, right: Array) -> Array:
    """(T + shift·I)⁻¹·V."""
    return _backend.solve_positive(matrix + shift * identity(matrix), right)


def identity(matrix: Array) -> Array:
    """The identity like a square matrix."""
    xp, device = _backend.place_of(matrix)
    return xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device)


def _above_one(matrix: np.ndarray) -> int:
    """How many eigenvalues of twice a symmetric matrix exceed 1."""
    values = np.linalg.eigvalsh(matrix + matrix.T)
    return int((values > 1.0 - 1e-12).sum())
