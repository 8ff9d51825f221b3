r"""The matrix-free form: block Lanczos from the class centroids. For everything large.

For μ > 0, M a = μ a rewrites to a = 2 (S_t + μI)⁻¹ Bᵀ(B a), so every positive eigenvector lies
in the block Krylov space of S_t that starts at the class centroids. With fewer samples than
features the same space is built in sample coordinates, a = Xᵀu, from the class indicators and
G = X Xᵀ, where vectors are short.

Blocks are stored as rows: products with a row-major X are fastest that way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slce_xp import _linalg, _xp
from slce_xp._linalg import read
from slce_xp._operator import CentroidOperator
from slce_xp._solvers._solution import Request, Solution
from slce_xp._solvers._space import KrylovSpace
from slce_xp._xp import Array

# In feature coordinates a negative Ritz value only grows. It is given up as not positive once
# this many times its last growth would not lift it above zero, twice in a row.
GROWTH = 4.0


def solve(operator: CentroidOperator, request: Request) -> Solution:
    """Positive eigenpairs of M by Rayleigh–Ritz in a growing block Krylov space.

    Returns fewer than k eigenpairs where fewer eigenvalues are positive: what comes then lies
    in the bulk of the spectrum or in the null space of X, and is the business of a dense form.
    """
    # In sample coordinates M is D·G, and only with labels for all is D known on the space.
    # They take two readings of rows per pass, where rows are all that can be had.
    samples = operator.n < operator.d and operator.is_supervised and not operator.by_rows
    side = _Samples(operator) if samples else _Features(operator)
    space = KrylovSpace(side.apply, side.start(request.width), side.classes)
    doubts = _Doubts()
    history: list[float] = []
    directions = None
    while True:
        space.grow(directions)
        values, coordinates, size = side.ritz(space, min(request.k, space.size))
        norm = max(size, np.finfo(float).tiny)  # of M on the space
        outside = space.outside(coordinates)
        residuals = side.lengths(space, outside) / norm
        wanted = doubts.wanted(values, residuals * norm)
        history.append(float(residuals[wanted].max(initial=0.0)))
        request.tell(history[-1])
        target = _target(values[wanted] / norm, request.tol, space.eps)
        enough = values.shape[0] == request.k and history[-1] <= target
        full = space.size + request.width > request.max_rows
        last = space.exhausted or len(history) >= request.max_iter or full
        if enough or last:
            # What did not converge stays, and is reported; what is known not to be positive goes.
            # Rounding is relative to S_t, and to the mean where the data are constant.
            zero = max(request.tol * max(norm, space.norm), operator.zero_level(0.0))
            kept = wanted & (values > zero) if enough or space.exhausted else wanted
            vectors, exact = side.vectors(space, coordinates[:, kept])
            residuals[kept] = exact / norm
            worst = float(residuals[kept].max(initial=0.0))
            history[-1], converged = worst, worst <= request.tol
            if worst <= target or last:
                break
        unconverged = wanted & (residuals > target)
        narrow = len(history) >= request.wide_passes and bool(unconverged.any())
        directions = _span(outside[unconverged]) if narrow else None
    return Solution(
        eigenvalues=_xp.from_host(values[kept], operator.place, vectors.dtype),
        vectors=vectors,
        zero=zero,
        passes=len(history),
        residuals=np.maximum(residuals[kept], 4.0 * space.eps),  # rounding is always there
        history=tuple(history),
        converged=converged,
    )


def _target(values: np.ndarray, tol: float, eps: float) -> float:
    """The residual to reach: the tolerance, or less where the gap below the positive ones is small.

    The angle to the exact subspace is about the residual over that gap, which is the smallest
    positive eigenvalue or more; it shall be 100·tol at most where 0.01·tol suffices for that
    and is not rounding.
    """
    positive = values[values > 0.0]
    gap = float(positive.min(initial=np.inf))
    least = min(tol, max(0.01 * tol, 32.0 * eps))
    return float(np.clip(100.0 * tol * gap, least, tol))


def _span(rows: np.ndarray) -> np.ndarray | None:
    """Orthonormal columns spanning the given rows, but for nearly dependent ones; None for none."""
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    _, lengths, axes = np.linalg.svd(rows / np.maximum(sizes, np.finfo(float).tiny))
    count = int((lengths > 1e-3).sum())
    return axes[:count].T if count else None


class _Doubts:
    """Which Ritz pairs are, or may yet become, positive."""

    def __init__(self) -> None:
        self._last: np.ndarray | None = None
        self._hopeless: np.ndarray | None = None

    def wanted(self, values: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        doubtful = values + residuals > 0.0
        hopeless = np.zeros(values.shape, dtype=bool)
        if self._last is not None and self._last.shape == values.shape:
            growth = np.maximum(values - self._last, 0.0)
            hopeless = values + GROWTH * growth < 0.0
            if self._hopeless is not None and self._hopeless.shape == values.shape:
                doubtful &= ~(hopeless & self._hopeless)
        self._last, self._hopeless = values, hopeless
        wanted: np.ndarray = (values > 0.0) | doubtful
        return wanted


def _largest(matrix: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The k largest eigenpairs on the host, and the norm.

    By NumPy: SciPy brings threads of its own, which would go on to spin for a while and slow
    down NumPy's in the next pass by half.
    """
    values, vectors = np.linalg.eigh(matrix)
    norm = float(np.abs(values).max())
    return values[::-1][:k].copy(), vectors[:, ::-1][:, :k].copy(), norm


def _factor(matrix: np.ndarray) -> np.ndarray:
    """L with L·Lᵀ equal to a matrix that is positive semi-definite but for rounding."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


class _Features:
    """Feature coordinates: rows of length d, C = S_t."""

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.between
        self.apply = operator.apply_scatter

    def start(self, width: int) -> Array:
        return _padded(self.classes, self._operator.draw, width)

    def ritz(self, space: KrylovSpace, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Leading eigenpairs of the projection of M, on the host, and its norm."""
        matrix = -space.matrix
        first = space.between.shape[0]
        matrix[:first, :first] += space.between
        return _largest(matrix, k)

    def lengths(self, space: KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖M a − μ a‖ as far as it lies in the pool. An estimate: `vectors` measures it."""
        return np.asarray(np.linalg.norm(outside, axis=1))

    def vectors(self, space: KrylovSpace, coordinates: np.ndarray) -> tuple[Array, np.ndarray]:
        """Eigenvectors, shape (d, k), and the lengths of their residuals."""
        return space.combine(coordinates).T, _lengths(space.combine_outside(coordinates))


class _Samples:
    """Sample coordinates: rows u of length n stand for a = Xᵀu, C = G."""

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.indicators()
        self.apply = operator.apply_gram

    def start(self, width: int) -> Array:
        return _padded(self.classes, self._operator.draw_samples, width)

    def ritz(self, space: KrylovSpace, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Leading eigenpairs of D·G on the space, with D = 2P − I, by way of T = L·Lᵀ."""
        factor = _factor(space.matrix)
        first = space.between.shape[0]
        upper = factor[:first]
        values, weights, norm = _largest(upper.T @ (space.between @ upper) - factor.T @ factor, k)
        left = factor @ weights
        reflected = -left
        reflected[:first] += space.between @ left[:first]
        return values, reflected / np.maximum(np.abs(values), np.finfo(float).tiny), norm

    def lengths(self, space: KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖Xᵀr‖ for rows r outside the space, by the length of the last rows that joined it.

        An estimate: `vectors` measures it.
        """
        return np.asarray(np.sqrt(space.quotient) * np.linalg.norm(outside, axis=1))

    def vectors(self, space: KrylovSpace, coordinates: np.ndarray) -> tuple[Array, np.ndarray]:
        """Eigenvectors a = Xᵀu, shape (d, k), and with the same product their residuals Xᵀr."""
        xp, _ = self._operator.place
        k = coordinates.shape[1]
        rows = xp.concat([space.combine(coordinates), space.combine_outside(coordinates)], axis=0)
        features = self._operator.combine_rows(rows)
        return _linalg.orthonormal(features[:k, :].T), _lengths(features[k:, :])


def _lengths(rows: Array) -> np.ndarray:
    xp, _ = _xp.place_of(rows)
    return read(xp.linalg.vector_norm(rows, axis=1, keepdims=True))[0][:, 0]


def _padded(classes: Array, draw: Callable[[int], Array], width: int) -> Array:
    """Class rows, and seeded rows up to the width: they catch the large eigenvalues of S_t."""
    n_classes, length = classes.shape
    xp, device = _xp.place_of(classes)
    if n_classes >= length:
        return xp.eye(length, dtype=classes.dtype, device=device)
    missing = min(width, length) - n_classes
    return classes if missing <= 0 else xp.concat([classes, draw(missing).T], axis=0)
