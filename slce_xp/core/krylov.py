r"""The matrix-free form: block Lanczos from the class centroids. For everything large.

For μ > 0, M a = μ a rewrites to a = 2 (S_t + μI)⁻¹ Bᵀ(B a), so every positive eigenvector lies
in the block Krylov space of S_t that starts at the class centroids. With fewer samples than
features the same space is built in sample coordinates, a = Xᵀu, from the class indicators and
G = X Xᵀ, in which vectors are short.

Blocks are stored as rows: products with a row-major X are fastest that way.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp.core import eigen
from slce_xp.core.eigen import gram_of
from slce_xp.core.krylov_space import KrylovSpace
from slce_xp.core.operators import CentroidOperator
from slce_xp.core.refine import LARGEST_RESIDUAL, KnownPairs, refine
from slce_xp.core.resolve import Resolved, resolve
from slce_xp.core.solution import Request, Solution

# The start block for data in memory, which are cheap to pass over: narrow, and soon reduced to the
# residuals.
NARROW, NARROW_PASSES = 32, 3
# Rounding of products with C, in eps of its norm: Ritz values are no better than that.
ROUNDING_EPS = 32.0
# Eigenvalues can be counted above so many times that.
FLOOR = 3.0
# Random rows beyond the components that are asked for, if some samples have no label; for more
# components than these, equal eigenvalues may be missed.
RANDOM_ROWS, MOST_RANDOM = 8, 64
# Levels between Ritz values at which eigenvalues are counted, at most so many after a pass.
MOST_LEVELS = 4


def solve(operator: CentroidOperator, request: Request) -> Solution:
    """Positive eigenpairs of M by Rayleigh–Ritz in a growing block Krylov space.

    A Ritz value is never above the eigenvalue of its rank, so positive ones prove as many positive
    eigenvalues. That none was missed is proved by counting eigenvalues above a level. The iteration
    goes on until the residuals are small and the numbers agree.

    Returns fewer than k eigenpairs if fewer eigenvalues are positive: what comes then lies in the
    bulk of the spectrum or in the null space of X, and is the business of a dense form.
    """
    # In sample coordinates M is D·G, and only with labels for all is D known on the space.
    # They take two readings of X per pass if only row slicing is supported.
    samples = operator.n < operator.d and operator.is_supervised and not operator.by_rows
    side = _Samples(operator) if samples else _Features(operator)
    width = request.width
    if not operator.is_supervised:
        # Eigenvectors may be anywhere: as many random rows as there may be equal eigenvalues.
        width = max(width, operator.n_classes + min(request.k, MOST_RANDOM) + RANDOM_ROWS)
    space = KrylovSpace(side.apply, side.start(width), side.classes)
    counter = _Counter(operator, request.k)
    history: list[float] = []
    directions = None
    while True:
        space.grow(directions)
        values, coordinates, size = side.ritz(space, min(counter.watched, space.size))
        norm = max(size, np.finfo(float).tiny)  # of M on the space
        largest = max(norm, space.norm)  # of M and C
        # What centring subtracts is rounded relative to itself.
        eps = space.eps * (1.0 + math.sqrt(operator.centring / largest))
        rounding = ROUNDING_EPS * eps * largest
        error = rounding * side.growth(values)
        outside = space.outside(coordinates)
        residuals = side.lengths(space, outside) / norm
        wanted = values > error
        wanted[request.k :] = False
        history.append(float(residuals[wanted].max(initial=0.0)))
        request.report(history[-1])
        target = _target(values[wanted] / norm, request.tol, space.eps)
        full = space.size + request.width > request.max_rows
        last = space.exhausted or len(history) >= request.max_iter or full
        enough = history[-1] <= target
        count = _Count()
        if enough or last:
            late = residuals > target
            count = counter.count(side, space, values, error, rounding, late, outside)
        # Once it is proved that too few are positive, a dense form is due.
        hopeless = count.high < request.k and not (request.positive_only or request.fill)
        if (enough and count.proven) or last or hopeless:
            # What did not converge stays, and is reported.
            filled = request.fill and not request.positive_only and count.low < request.k
            wanted[: request.k] |= filled
            vectors, exact = side.vectors(space, coordinates[:, wanted])
            # Rounding is always there.
            residuals[wanted] = np.maximum(exact / norm, 4.0 * eps)
            worst = float(residuals[wanted].max(initial=0.0))
            history[-1] = worst
            if worst <= target or last or hopeless or filled:
                break
        behind = [outside[wanted & (residuals > target)]]
        if enough and count.rows is not None:
            behind.append(count.rows)
        rows = np.concatenate(behind)
        narrow = len(history) >= request.wide_passes and rows.shape[0] > 0
        directions = _span(rows) if narrow else None
    found, residuals, bounds = values[wanted], residuals[wanted], (count.low, count.high)
    near = (values <= error) & (values >= -FLOOR * error)
    near &= count.proven and count.low < count.high and not filled
    is_long = isinstance(side, _Samples) and side.is_long(
        values, wanted, largest, eps, norm * request.tol
    )
    if (near.any() or is_long) and not filled:
        span = side.span(space, coordinates, near)
        lost = int(near.sum()) - span.shape[1]  # too inexact to be found in X
        pairs = Resolved.certain(found, vectors)
        if isinstance(side, _Samples):
            both = vectors if not near.any() else _joined(vectors, span)
            refined = refine(operator, side.known(space), both, largest)
            gap = FLOOR * rounding if near.any() else None
            pairs = resolve(operator, refined.vectors, largest, gap)
            pairs = pairs.or_known(found, found >= math.sqrt(space.eps) * largest)
        else:
            span = _orthogonal(span, vectors)
            pairs = pairs.followed_by(resolve(operator, span, largest, gap=FLOOR * rounding))
        pairs = pairs.real()
        lengths = np.zeros(0)
        if pairs.values.size:
            lengths = _residual_lengths(operator, pairs.vectors)
            lengths = np.maximum(lengths - LARGEST_RESIDUAL * eps * largest, 0.0)
        low, high = pairs.or_inexact(lengths).bounds()
        high = max(high + lost, low) if count.proven else max(count.high, low)
        bounds = min(low, request.k), min(high, request.k)
        found, vectors = pairs.values[: bounds[0]], pairs.vectors[:, : bounds[0]]
        residuals = np.maximum(lengths[: bounds[0]] / norm, 4.0 * eps)
        worst = float(residuals.max(initial=worst))
    return Solution(
        eigenvalues=_backend.from_host(found, operator.place, vectors.dtype),
        vectors=vectors,
        n_positive=bounds,
        passes=len(history),
        residuals=residuals,
        history=tuple(history),
        converged=worst <= request.tol and count.proven and not filled,
    )


def _residual_lengths(operator: CentroidOperator, vectors: Array) -> np.ndarray:
    """‖M a − μ a‖ with the Rayleigh quotient μ of each column a, with its rounding: one pass."""
    xp, _ = operator.place
    rows = _backend.copied(vectors.T)
    image = operator.apply(rows)
    residual = image - xp.sum(rows * image, axis=1)[:, None] * rows
    return _lengths(residual)


def _joined(vectors: Array, others: Array) -> Array:
    """Orthonormal columns spanning both, the first of them as they are."""
    xp, _ = _backend.place_of(vectors)
    return xp.concat([vectors, _orthogonal(others, vectors)], axis=1)


def _orthogonal(vectors: Array, others: Array) -> Array:
    """Orthonormal columns, orthogonal to others."""
    if vectors.shape[1] == 0:
        return vectors
    for _ in range(2):
        vectors = eigen.orthonormal_columns(vectors - others @ (others.T @ vectors))
    return vectors


class _Count(NamedTuple):
    """How many of the first k eigenvalues are positive.

    Attributes
    ----------
    low, high : int
        At least and at most so many.
    proven : bool
        Whether no eigenvalue was missed but for some within rounding of zero.
    rows : numpy.ndarray, shape (K, r), or None
        What to add to the space to know more, in the coordinates of its pool.
    """

    low: int = 0
    high: int = sys.maxsize
    proven: bool = False
    rows: np.ndarray | None = None


class _Counter:
    """Counts positive eigenvalues from Ritz values and a bound of what they may have missed."""

    def __init__(self, operator: CentroidOperator, k: int) -> None:
        self._k = k
        self._d = operator.d
        self._is_supervised = operator.is_supervised
        # With labels for all, no more eigenvalues than these can be positive.
        self._most = min(operator.n_classes - 1, operator.d)
        self.watched = max(k, self._most) if self._is_supervised else k
        self._before = -1  # how many were found when this was asked before

    def count(
        self,
        side: _Features | _Samples,
        space: KrylovSpace,
        values: np.ndarray,
        error: np.ndarray,
        rounding: float,
        late: np.ndarray,
        outside: np.ndarray,
    ) -> _Count:
        k = self._k
        found = int((values > error).sum())
        if not self._is_supervised:
            # C is indefinite, and nothing bounds what the space has not seen. Another pass that
            # changes nothing must do.
            again, self._before = found == self._before, found
            high = int((values >= -FLOOR * error).sum()) if space.exhausted else k
            whole = space.size >= self._d
            proven = whole or (k <= MOST_RANDOM and (space.exhausted or (found >= k and again)))
            return _Count(min(found, k), max(min(found, k), min(high, k)), proven)
        if found >= k == self._most:
            return _Count(k, k, True)
        floor = FLOOR * rounding
        near = int((values >= -FLOOR * error).sum())
        if space.exhausted:  # it holds all eigenvectors of positive eigenvalues
            return _Count(min(found, k), min(near, k), True)
        most, rows = self._most, None
        for level in self._levels(values, floor):
            seen = int((values > np.maximum(level, error)).sum())
            above, rows = side.count_above(space, level, rounding, seen)
            if level == floor:
                most = min(most, max(above, found))
            if above <= seen and seen >= k:
                # Any of these may turn out to be among the first k, until it has converged.
                if seen == k or not late[:seen].any():
                    return _Count(k, k, True)
                rows = np.concatenate([rows, outside[:seen][late[:seen]]])
            elif above <= seen:
                # What is within rounding of zero may be positive, or not.
                return _Count(min(found, k), min(near, k), True, rows)
        return _Count(min(found, k), min(most, k), False, rows)

    def _levels(self, values: np.ndarray, floor: float) -> list[float]:
        """Where to count: in the widest gaps below the k-th Ritz value, or just above zero."""
        below = values[self._k - 1 :]
        below = np.append(below[below > floor], floor)
        if len(values) < self._k or len(below) < 2:
            return [floor]
        gaps = below[:-1] - below[1:]
        widest = np.sort(np.argsort(-gaps, kind="stable")[:MOST_LEVELS])
        return [float(0.5 * (below[i] + below[i + 1])) for i in widest]


def _target(values: np.ndarray, tol: float, eps: float) -> float:
    """The residual to reach: the tolerance, or less if the gap below the positive values is small.

    The angle to the exact subspace is about the residual over that gap, which is the smallest
    positive eigenvalue or more. It should be at most 100·tol if a residual of 0.01·tol suffices for
    that and is not rounding.
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

    def count_above(
        self, space: KrylovSpace, level: float, rounding: float, seen: int
    ) -> tuple[int, np.ndarray]:
        """An upper bound of the number of eigenvalues of M above a level, and what would lower it.

        As many eigenvalues of M are above σ as of 2·B(C + σI)⁻¹Bᵀ above 1. With Y the solution of
        (T + σI)Y = b on the space, b = QᵀBᵀ, and R what it leaves outside of it, that matrix is
        at most 2·(bᵀY + RᵀR / σ), for C is positive semi-definite.
        """
        level -= rounding
        known = _class_columns(space)
        solved = _solve_shifted(space.matrix, level, known)
        outside = space.outside(solved)
        inner = known.T @ solved + 11.0 * rounding**2 / level * (solved.T @ solved)

        def count(residual: np.ndarray) -> int:
            return _count_above_one(2.0 * (inner + 1.1 / level * residual), space.eps)

        above = count(outside @ outside.T)
        if above <= seen:  # now with what the pool does not show
            rows = space.combine_outside(solved)
            above = count(read(rows @ rows.T)[0])
        return above, outside

    def growth(self, values: np.ndarray) -> np.ndarray:
        """How much more inexact than M each Ritz value is."""
        return np.ones_like(values)

    def lengths(self, space: KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖M a − μ a‖ as far as it lies in the pool. An estimate: `vectors` measures it."""
        return np.asarray(np.linalg.norm(outside, axis=1))

    def span(self, space: KrylovSpace, coordinates: np.ndarray, which: np.ndarray) -> Array:
        """Orthonormal columns spanning some Ritz vectors, whatever their values, shape (d, q)."""
        if not which.any():
            xp, device = self._operator.place
            return xp.zeros((self._operator.d, 0), dtype=self.classes.dtype, device=device)
        return space.combine(coordinates[:, which]).T

    def vectors(self, space: KrylovSpace, coordinates: np.ndarray) -> tuple[Array, np.ndarray]:
        """Eigenvectors, shape (d, k), and the lengths of their residuals."""
        return space.combine(coordinates).T, _lengths(space.combine_outside(coordinates))


class _Samples:
    """Sample coordinates: rows u of length n stand for a = Xᵀu, C = G."""

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.indicators()
        self.apply = operator.apply_gram
        self._factor = self._weights = np.zeros((0, 0))  # of the last Ritz problem

    def start(self, width: int) -> Array:
        return _padded(self.classes, self._operator.draw_samples, width)

    def ritz(self, space: KrylovSpace, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Leading eigenpairs of D·G on the space, with D = 2P − I, by way of T = L·Lᵀ."""
        factor = _factor(space.matrix)
        first = space.between.shape[0]
        upper = factor[:first]
        values, weights, norm = _largest(upper.T @ (space.between @ upper) - factor.T @ factor, k)
        self._factor, self._weights = factor, weights
        return (
            values,
            space.signed(factor @ weights) / np.maximum(np.abs(values), np.finfo(float).tiny),
            norm,
        )

    def count_above(
        self, space: KrylovSpace, level: float, rounding: float, seen: int
    ) -> tuple[int, np.ndarray]:
        """An upper bound of the number of eigenvalues of M above a level, and what would lower it.

        For B = N·X the matrix to be bounded is 2·(NNᵀ − σ·N(G + σI)⁻¹Nᵀ), and what the space
        knows of the inverse is too small.
        """
        known = _class_columns(space)
        solved = _solve_shifted(space.matrix, level + rounding, known)
        matrix = 2.0 * (known.T @ known - level * (known.T @ solved))
        return _count_above_one(matrix, space.eps), space.outside(solved)

    def known(self, space: KrylovSpace) -> KnownPairs:
        """All Ritz pairs of the space, for a refinement."""
        small = self._factor.T @ (space.signed(self._factor))
        values, weights = np.linalg.eigh(0.5 * (small + small.T))
        left = self._factor @ weights
        return KnownPairs(values, partial(space.project, left), partial(space.combine_on, left))

    def is_long(
        self, values: np.ndarray, wanted: np.ndarray, largest: float, eps: float, limit: float
    ) -> bool:
        """Whether rounding of a = Xᵀu, relative to ‖X‖·‖u‖, may exceed a limit."""
        if not wanted.any():
            return False
        longest = largest * float((self.growth(values)[wanted] / values[wanted]).max())
        return eps * largest * math.sqrt(longest) > limit

    def growth(self, values: np.ndarray) -> np.ndarray:
        """How much more inexact than M each Ritz value is: the scatter of its scores over itself.

        D·G is not symmetric, and that is the condition of its eigenvalues.
        """
        scatter = np.square(self._factor @ self._weights[:, : len(values)]).sum(axis=0)
        tiny = np.finfo(float).tiny
        return np.asarray(np.maximum(1.0, scatter / np.maximum(np.abs(values), tiny)))

    def lengths(self, space: KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖Xᵀr‖ for rows r outside the space, by the length of the last rows that joined it.

        An estimate: `vectors` measures it.
        """
        return np.asarray(np.sqrt(space.quotient) * np.linalg.norm(outside, axis=1))

    def span(self, space: KrylovSpace, coordinates: np.ndarray, which: np.ndarray) -> Array:
        """Orthonormal columns spanning some Ritz vectors, whatever their values, shape (d, q).

        XᵀL⁻ᵀw is as long as w, but for what is not there in X.
        """
        if not which.any():
            xp, device = self._operator.place
            return xp.zeros((self._operator.d, 0), dtype=self.classes.dtype, device=device)
        factor = self._factor
        solved = np.linalg.lstsq(factor.T, self._weights[:, which], rcond=space.eps)[0]
        vectors = self._operator.combine_rows(space.combine(solved)).T
        squares, axes = np.linalg.eigh(read(gram_of(vectors))[0])
        axes = _backend.from_host(axes[:, squares > 0.5], self._operator.place, vectors.dtype)
        return vectors @ axes

    def vectors(self, space: KrylovSpace, coordinates: np.ndarray) -> tuple[Array, np.ndarray]:
        """Eigenvectors a = Xᵀu, shape (d, k), and with the same product their residuals Xᵀr."""
        xp, _ = self._operator.place
        k = coordinates.shape[1]
        rows = xp.concat([space.combine(coordinates), space.combine_outside(coordinates)], axis=0)
        features = self._operator.combine_rows(rows)
        return eigen.orthonormal_columns(features[:k, :].T), _lengths(features[k:, :])


def _class_columns(space: KrylovSpace) -> np.ndarray:
    """The class rows in the coordinates of the space, shape (size, K)."""
    n_classes, first = space.classes.shape
    columns = np.zeros((space.size, n_classes))
    columns[:first] = space.classes.T
    return columns


def _solve_shifted(matrix: np.ndarray, shift: float, right: np.ndarray) -> np.ndarray:
    """(T + shift·I)⁻¹·right."""
    shifted = matrix + shift * np.eye(matrix.shape[0])
    return np.linalg.solve(shifted, right)


def _count_above_one(matrix: np.ndarray, eps: float) -> int:
    return int((np.linalg.eigvalsh(matrix) > 1.0 - ROUNDING_EPS * eps).sum())


def _lengths(rows: Array) -> np.ndarray:
    xp, _ = _backend.place_of(rows)
    return read(xp.linalg.vector_norm(rows, axis=1, keepdims=True))[0][:, 0]


def _padded(classes: Array, draw: Callable[[int], Array], width: int) -> Array:
    """Class rows, and seeded rows up to the width: they catch the large eigenvalues of S_t."""
    n_classes, length = classes.shape
    xp, device = _backend.place_of(classes)
    if max(n_classes, width) >= length:
        return xp.eye(length, dtype=classes.dtype, device=device)
    # One at least: the classes may be the same, and their rows zero.
    return xp.concat([classes, draw(max(1, width - n_classes)).T], axis=0)
