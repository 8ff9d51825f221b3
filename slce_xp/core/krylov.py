r"""The matrix-free form: block Lanczos from the class centroids. For everything large.

For μ > 0, M a = μ a rewrites to a = 2 (S_t + μI)⁻¹ Bᵀ(B a), so every positive eigenvector lies
in the block Krylov space of S_t that starts at the class centroids. With fewer samples than
features the same space is built in sample coordinates, a = Xᵀu, from the class indicators and
G = X Xᵀ, in which vectors are short.

Blocks are stored as rows: products with a row-major X are fastest that way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp.core import eigen
from slce_xp.core.certificate import (
    FLOOR,
    MOST_RANDOM,
    ROUNDING_EPS,
    Count,
    Counter,
    angle_bound,
    count_above_by_features,
    count_above_by_samples,
)
from slce_xp.core.eigen import gram_of
from slce_xp.core.krylov_space import KrylovSpace
from slce_xp.core.operators import CentroidOperator
from slce_xp.core.refine import LARGEST_RESIDUAL, KnownPairs, refine
from slce_xp.core.resolve import Resolved, resolve
from slce_xp.core.solution import Request, Solution

# The start block for data in memory, which are cheap to pass over: narrow, and soon reduced to the
# residuals.
NARROW, NARROW_PASSES = 32, 3
# Random rows beyond the components that are asked for, if some samples have no label.
RANDOM_ROWS = 8
# Residuals of an iteration that is left to rounding, in eps of the norm of M.
FLOOR_EPS = 32.0
# Growth of the space after which the small problem is solved in any case.
RITZ_GROWTH = 1.3
# Once residuals are rounding, the angle may exceed the tolerance by this factor.
ROUNDING_SLACK = 10.0
# Rows of the space to allocate at first, in start blocks.
CAPACITY = 4


def solve(operator: CentroidOperator, request: Request) -> Solution:
    """Positive eigenpairs of M by Rayleigh–Ritz in a growing block Krylov space.

    A Ritz value is never above the eigenvalue of its rank, so positive ones prove as many positive
    eigenvalues. That none was missed is proved by counting eigenvalues above a level. The iteration
    goes on until the numbers agree and the angle to the exact subspace is within the tolerance.
    Once its passes have cost as much as forming C, C is formed, in the same space.

    Returns fewer than k eigenpairs if fewer eigenvalues are positive: what comes then lies in the
    bulk of the spectrum or in the null space of X, and is the business of a dense form.
    """
    side = _side_of(operator, request)
    width = request.width
    if not operator.is_supervised:
        # Eigenvectors may be anywhere: as many random rows as there may be equal eigenvalues.
        width = max(width, operator.n_classes + min(request.k, MOST_RANDOM) + RANDOM_ROWS)
    space = KrylovSpace(side.apply, side.start(width), side.classes, CAPACITY * width)
    counter = Counter(operator, request.k)
    meter = _Meter(request)
    if meter.is_formed:
        side.form()
    history: list[float] = []
    directions = None
    below = 0.0 if operator.is_supervised else math.inf  # a bound of what comes after the wanted
    while True:
        space.grow(directions)
        meter.add_product()
        full = space.size + request.width > request.max_rows
        last = space.exhausted or full or meter.is_spent
        if not (last or meter.starts_ritz(space.size)):
            directions = None
            continue
        ritz = _Ritz.of(side, space, operator, min(counter.watched, space.size))
        outside = space.outside(ritz.coordinates)
        lengths = side.lengths(space, outside)
        wanted = ritz.values > ritz.error
        wanted[request.k :] = False
        history.append(float(lengths[wanted].max(initial=0.0) / ritz.norm))
        request.report(history[-1])
        target = ritz.target(request, int(wanted.sum()), below)
        enough = bool((lengths[wanted] <= target).all())
        count = Count()
        if enough or last:
            late = lengths > target
            count = counter.count(
                side.count_above, space, ritz.values, ritz.error, ritz.rounding, lengths, late,
                outside,
            )  # fmt: skip
        # Once it is proved that too few are positive, a dense form is due.
        hopeless = count.high < request.k and not (request.positive_only or request.fill)
        filled = False
        if (enough and count.proven) or last or hopeless:
            # What did not converge stays, and is reported.
            filled = request.fill and not request.positive_only and count.low < request.k
            wanted[: request.k] |= filled
            vectors, exact, correction = side.vectors(space, ritz.coordinates[:, wanted])
            # Rounding is always there.
            exact = np.maximum(exact, 4.0 * ritz.eps * ritz.norm)
            lengths[wanted] = exact
            history[-1] = float(lengths[wanted].max(initial=0.0) / ritz.norm)
            # A level that is proved may be farther from the last value than the next value is.
            below = count.below if operator.is_supervised else below
            target = ritz.target(request, int(wanted.sum()), below)
            enough = bool((lengths[wanted] <= target).all())
            if enough or last or hopeless or filled:
                break
        behind = [outside[wanted & (lengths > target)]]
        if count.rows is not None:
            behind.append(count.rows)
        rows = np.concatenate(behind)
        narrow = meter.products >= request.wide_passes and rows.shape[0] > 0
        directions = _span(rows) if narrow else None
        if meter.is_forming_due:
            side.form()
            meter.add_forming()
    # What is within rounding of zero is not counted above a level.
    bounds = (count.low, count.high if count.proven else counter.most)
    rounding = ritz.rounding + side.rounding(ritz, wanted)
    values = ritz.values[wanted] + correction
    found = _Found(values, vectors, lengths[wanted], bounds, count.below, rounding)
    if not filled:
        found = _settled(operator, side, space, ritz, count, found, target, request.k)
    # Vectors that are too inexact may become those of other eigenvalues.
    is_proven = count.proven and not filled and found.bounds[0] >= count.low
    angle = found.angle_bound() if is_proven else math.inf
    is_exact = bool((found.lengths <= target).all())
    if request.tol and operator.is_supervised:
        is_exact &= angle <= ROUNDING_SLACK * request.tol
    return Solution(
        eigenvalues=_backend.from_host(found.values, operator.place, vectors.dtype),
        vectors=found.vectors,
        n_positive=found.bounds,
        angle_bound=angle,
        passes=meter.passes,
        residuals=found.lengths / ritz.norm,
        history=tuple(history),
        converged=is_exact and is_proven,
        formed=meter.is_formed,
        is_complete=not (hopeless or (meter.is_spent_on_formed and not (enough and count.proven))),
    )


class _Meter:
    """What the steps of an iteration have cost, and which kind of step that makes due."""

    def __init__(self, request: Request) -> None:
        self._costs = request.costs
        self._max_iter = request.max_iter
        self.is_formed = request.form != "krylov"
        self.products = self.passes = 0
        self._since_ritz, self._ritz_size = 0.0, 0
        self._on_formed = 0.0

    def add_product(self) -> None:
        self.products += 1
        cost = self._costs.formed if self.is_formed else self._costs.implicit
        self._since_ritz += cost
        if self.is_formed:
            self._on_formed += cost
        else:
            self.passes += 1

    def add_forming(self) -> None:
        self.passes += 1
        self.is_formed = True

    def starts_ritz(self, size: int) -> bool:
        """Whether to solve the small problem: if that costs no more than the products since.

        Or if the space has grown so much that all small problems together cost little more than
        the last.
        """
        cost = self._costs.ritz * size**3
        if self._since_ritz < cost and size < RITZ_GROWTH * self._ritz_size:
            return False
        self._since_ritz, self._ritz_size = 0.0, size
        if self.is_formed:
            self._on_formed += cost
        return True

    @property
    def is_forming_due(self) -> bool:
        return not self.is_formed and self.passes * self._costs.implicit >= self._costs.forming

    @property
    def is_spent_on_formed(self) -> bool:
        return self.is_formed and self._on_formed >= self._costs.dense

    @property
    def is_spent(self) -> bool:
        """Whether another product is not worth its cost, or not allowed."""
        if self.is_formed:
            return self.is_spent_on_formed
        return self.passes >= self._max_iter


def _side_of(operator: CentroidOperator, request: Request) -> _Features | _Samples:
    if request.form != "krylov":
        return _Samples(operator) if request.form == "gram" else _Features(operator)
    # In sample coordinates M is D·G, and only with labels for all is D known on the space.
    # They take two readings of X per pass if only row slicing is supported.
    samples = operator.n < operator.d and operator.is_supervised and not operator.by_rows
    return _Samples(operator) if samples else _Features(operator)


class _Ritz(NamedTuple):
    """Ritz pairs after a pass, and their rounding.

    Attributes
    ----------
    values : numpy.ndarray, shape (q,)
    coordinates : numpy.ndarray, shape (size, q)
    norm, largest : float
        The norm of M on the space, and the larger of that and of the norm of C.
    eps : float
        Rounding of products with C relative to their size, centring included.
    rounding : float
        Rounding of an eigenvalue of M.
    error : numpy.ndarray, shape (q,)
        Rounding of each Ritz value.
    floor : float
        Residuals cannot be expected to become shorter than this.
    """

    values: np.ndarray
    coordinates: np.ndarray
    norm: float
    largest: float
    eps: float
    rounding: float
    error: np.ndarray
    floor: float

    @classmethod
    def of(
        cls, side: _Features | _Samples, space: KrylovSpace, operator: CentroidOperator, count: int
    ) -> _Ritz:
        values, coordinates, size = side.ritz(space, count)
        norm = max(size, np.finfo(float).tiny)
        largest = max(norm, space.norm)
        # What centring subtracts is rounded relative to itself.
        eps = space.eps * (1.0 + math.sqrt(operator.centring / largest))
        rounding = ROUNDING_EPS * eps * largest
        error = rounding * side.growth(values)
        floor = FLOOR_EPS * space.eps * norm
        return cls(values, coordinates, norm, largest, eps, rounding, error, floor)

    def target(self, request: Request, count: int, below: float) -> float:
        """Length of a residual with which `count` eigenpairs are within the tolerated angle.

        `below` is what is proved to be above all other eigenvalues; the next Ritz value may be
        larger.
        """
        if count == 0:
            return self.floor
        following = float(self.values[count]) if count < len(self.values) else 0.0
        below = following if math.isinf(below) else max(below, following)
        gap = max(0.0, float(self.values[count - 1]) - below)
        return max(self.floor, request.tol * gap / (2.0 * math.sqrt(count)))


class _Found(NamedTuple):
    """Eigenpairs and what is known of them.

    Attributes
    ----------
    values : numpy.ndarray, shape (q,)
    vectors : array, shape (d, q)
    lengths : numpy.ndarray, shape (q,)
        Of the residuals, beyond rounding.
    bounds : tuple of int
        The least and the largest possible number of positive eigenvalues.
    below : float
        No other eigenvalue is larger than this.
    rounding : float
        Of residuals and eigenvalues.
    """

    values: np.ndarray
    vectors: Array
    lengths: np.ndarray
    bounds: tuple[int, int]
    below: float
    rounding: float

    def angle_bound(self) -> float:
        if not len(self.values):
            return 0.0
        length = float(np.linalg.norm(self.lengths))
        return angle_bound(length, self.rounding, float(self.values[-1]), self.below)


def _settled(
    operator: CentroidOperator,
    side: _Features | _Samples,
    space: KrylovSpace,
    ritz: _Ritz,
    count: Count,
    found: _Found,
    target: float,
    k: int,
) -> _Found:
    """The same, with Ritz values near zero resolved and inexact vectors refined, if there are any.

    Both take more passes over X, and residuals are then measured on X.
    """
    near = (ritz.values <= ritz.error) & (ritz.values >= -FLOOR * ritz.error)
    near &= count.proven and count.low < count.high
    is_long = isinstance(side, _Samples) and found.rounding - ritz.rounding > target
    if not (near.any() or is_long):
        return found
    span = side.span(space, ritz.coordinates, near)
    lost = int(near.sum()) - span.shape[1]  # too inexact to be found in X
    gap = FLOOR * ritz.rounding if near.any() else None
    pairs = Resolved.certain(found.values, found.vectors)
    if isinstance(side, _Samples):
        both = _joined(found.vectors, span) if near.any() else found.vectors
        refined = refine(operator, partial(side.known, space), both, ritz.largest)
        is_large = found.values >= math.sqrt(space.eps) * ritz.largest
        values = read(refined.values)[0]
        if near.any() or not is_large.all():
            pairs = resolve(operator, refined.vectors, ritz.largest, gap)
            pairs = pairs.or_known(values[: len(is_large)], is_large).real()
        else:
            pairs = Resolved.certain(values, refined.vectors)
        lengths = np.full(len(pairs.values), refined.lengths.max(initial=0.0))
    else:
        resolved = resolve(operator, _orthogonal(span, found.vectors), ritz.largest, gap)
        pairs = pairs.followed_by(resolved).real()
        lengths = np.zeros(0)
        if pairs.values.size:
            lengths = _residual_lengths(operator, pairs.vectors)
    rounding = LARGEST_RESIDUAL * ritz.eps * ritz.largest
    beyond = np.maximum(lengths - rounding, 0.0)
    low, high = pairs.or_inexact(beyond).bounds()
    # Vectors that have not converged say nothing of the eigenvalues they are to become.
    is_known = count.proven and not beyond.any()
    high = max(high + lost if is_known else found.bounds[1], low, count.low)
    low, high = min(low, k), min(high, k)
    beyond = np.maximum(beyond[:low], 4.0 * ritz.eps * ritz.norm)
    below = found.below
    if low < len(pairs.values):
        below = max(float(pairs.values[low] + pairs.error[low]), 0.0)
    values, vectors = pairs.values[:low], pairs.vectors[:, :low]
    return _Found(values, vectors, beyond, (low, high), below, rounding)


def _residual_lengths(operator: CentroidOperator, vectors: Array) -> np.ndarray:
    """‖M a − μ a‖ with the Rayleigh quotient μ of each column a, rounding included: one pass."""
    xp, _ = operator.place
    rows = _backend.copied(vectors.T)
    image = operator.apply(rows)
    return _lengths(image - xp.sum(rows * image, axis=1)[:, None] * rows)


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
    values, vectors = _backend.eigh(matrix)
    norm = float(np.abs(values).max())
    return values[::-1][:k].copy(), vectors[:, ::-1][:, :k].copy(), norm


def _factor(matrix: np.ndarray) -> np.ndarray:
    """L with L·Lᵀ equal to a matrix that is positive semi-definite but for rounding."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = _backend.eigh(matrix)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


class _Features:
    """Feature coordinates: rows of length d, C = S_t."""

    count_above = staticmethod(count_above_by_features)

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.between
        self.apply = operator.apply_scatter
        self.form = operator.scatter

    def start(self, width: int) -> Array:
        return _padded(self.classes, self._operator.draw, width)

    def ritz(self, space: KrylovSpace, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Leading eigenpairs of the projection of M, on the host, and its norm."""
        matrix = -space.matrix
        first = space.between.shape[0]
        matrix[:first, :first] += space.between
        return _largest(matrix, k)

    def growth(self, values: np.ndarray) -> np.ndarray:
        """How much more inexact than M each Ritz value is."""
        return np.ones_like(values)

    def rounding(self, ritz: _Ritz, wanted: np.ndarray) -> float:
        """Rounding of vectors, in the units of residuals: that of products with C."""
        return 0.0

    def lengths(self, space: KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖M a − μ a‖ as far as it lies in the pool. An estimate: `vectors` measures it."""
        return np.asarray(np.linalg.norm(outside, axis=1))

    def span(self, space: KrylovSpace, coordinates: np.ndarray, which: np.ndarray) -> Array:
        """Orthonormal columns spanning some Ritz vectors, whatever their values, shape (d, q)."""
        if not which.any():
            xp, device = self._operator.place
            return xp.zeros((self._operator.d, 0), dtype=self.classes.dtype, device=device)
        return space.combine(coordinates[:, which]).T

    def vectors(
        self, space: KrylovSpace, coordinates: np.ndarray
    ) -> tuple[Array, np.ndarray, np.ndarray]:
        """Eigenvectors, shape (d, k), the lengths of their residuals, and corrections of values."""
        lengths = _lengths(space.combine_outside(coordinates)) / space.unit
        return space.combine(coordinates).T, lengths, np.zeros_like(lengths)


class _Samples:
    """Sample coordinates: rows u of length n stand for a = Xᵀu, C = G."""

    count_above = staticmethod(count_above_by_samples)

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.indicators()
        self.apply = operator.apply_gram
        self.form = operator.gram
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

    def known(self, space: KrylovSpace) -> KnownPairs:
        """All Ritz pairs of the space, for a refinement."""
        small = self._factor.T @ (space.signed(self._factor))
        values, weights = _backend.eigh(0.5 * (small + small.T))
        left = self._factor @ weights
        return KnownPairs(values, partial(space.project, left), partial(space.combine_on, left))

    def rounding(self, ritz: _Ritz, wanted: np.ndarray) -> float:
        """Rounding of vectors a = Xᵀu, relative to ‖X‖·‖u‖, in the units of residuals."""
        if not wanted.any():
            return 0.0
        values = np.maximum(ritz.values[wanted], np.finfo(float).tiny)
        growth = self.growth(ritz.values)[wanted] / values
        return ritz.eps * ritz.largest * math.sqrt(ritz.largest * float(growth.max()))

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
        squares, axes = _backend.eigh(read(gram_of(vectors))[0])
        axes = _backend.from_host(axes[:, squares > 0.5], self._operator.place, vectors.dtype)
        return vectors @ axes

    def vectors(
        self, space: KrylovSpace, coordinates: np.ndarray
    ) -> tuple[Array, np.ndarray, np.ndarray]:
        """Eigenvectors a = Xᵀu, shape (d, k), and with the same product r = Xᵀv outside the space.

        M·a is θ·a − r, so the Rayleigh quotient is smaller than the Ritz value θ by aᵀr.
        """
        xp, _ = self._operator.place
        k = coordinates.shape[1]
        rows = xp.concat([space.combine(coordinates), space.combine_outside(coordinates)], axis=0)
        features = self._operator.combine_rows(rows)
        vectors, residuals = features[:k, :], features[k:, :]
        lengths, products = read(
            xp.linalg.vector_norm(residuals, axis=1), xp.sum(vectors * residuals, axis=1)
        )
        vectors = eigen.orthonormal_columns(vectors.T)
        return vectors, lengths / space.unit, -products / space.unit


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
