r"""The matrix-free form: block Lanczos from the class centroids. For everything large.

For μ > 0, M a = μ a rewrites to a = 2 (S_t + μI)⁻¹ Bᵀ(B a), so every positive eigenvector lies
in the block Krylov space of S_t that starts at the class centroids. With fewer samples than
features the same space is built in sample coordinates, a = Xᵀu, from the class indicators and
G = X Xᵀ, in which vectors are short.

Blocks are stored as rows: products with a row-major X are fastest that way.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp.core import eigen
from slce_xp.core.certificate import (
    FLOOR,
    MOST_RANDOM,
    Count,
    Counter,
    angle_bound,
)
from slce_xp.core.coordinates import Features, Ritz, Samples, lengths_of
from slce_xp.core.krylov_space import KrylovSpace
from slce_xp.core.operators import CentroidOperator
from slce_xp.core.refine import LARGEST_RESIDUAL, refine
from slce_xp.core.resolve import Resolved, resolve
from slce_xp.core.solution import Request, Solution

# The start block for data in memory, which are cheap to pass over: narrow, and soon reduced to the
# residuals.
NARROW, NARROW_PASSES = 32, 3
# Random rows beyond the components that are asked for, if some samples have no label.
RANDOM_ROWS = 8
# Growth of the space after which the small problem is solved in any case.
RITZ_GROWTH = 1.3
# Residuals that tell how fast they decrease. That mostly goes on as in the last step, so that as
# many products are needed as it calls for, or some fewer.
LEAST_HISTORY, OPTIMISM = 3, 0.8
# Ritz values whose rounding exceeds that of M by this factor are measured on X instead.
LARGEST_GROWTH = 512.0
# Once residuals are rounding, the angle may exceed the tolerance by this factor.
ROUNDING_SLACK = 10.0


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
    space = KrylovSpace(side.apply, side.start(width), side.classes, request.rows + width)
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
        spent = meter.is_spent
        last = space.exhausted or full or spent or meter.is_at_limit
        if not (last or meter.starts_ritz(space.size)):
            directions = None
            continue
        ritz = Ritz.of(side, space, operator, min(counter.watched, space.size))
        outside = space.outside(ritz.coordinates)
        lengths = side.lengths(space, outside)
        wanted = ritz.values > ritz.error
        wanted[request.k :] = False
        history.append(float(lengths[wanted].max(initial=0.0) / ritz.norm))
        request.report(history[-1])
        target = ritz.target(request, int(wanted.sum()), below)
        enough = bool((lengths[wanted] <= target).all())
        fewer = int(wanted.sum()) < request.k and not request.positive_only
        meter.expect(history, target / ritz.norm, space.size, fewer=fewer)
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
            vectors, exact, values = side.vectors(space, ritz, wanted)
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
    operator.warn_if_far(ritz.largest)
    # What is within rounding of zero is not counted above a level.
    bounds = (count.low, count.high if count.proven else counter.most)
    rounding = ritz.rounding + side.rounding(ritz, wanted)
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
        residuals=np.minimum(found.lengths / _least_norm(side, ritz, found.values), 2.0),
        history=tuple(history),
        converged=is_exact and is_proven,
        formed=meter.is_formed,
        is_complete=not (hopeless or (spent and not (enough and count.proven))),
        below=found.below + found.rounding if is_proven else math.inf,
    )


class _Meter:
    """What the steps of an iteration have cost, and which kind of step that makes due."""

    def __init__(self, request: Request) -> None:
        self._costs = request.costs
        self._max_iter = request.max_iter
        self.is_formed = request.form != "krylov"
        self.products = self.passes = 0
        self._since_ritz, self._ritz_size = 0.0, 0
        self._spent = 0.0  # on what a dense eigensolver, or form, would take instead
        self._expected: tuple[int, int] = 0, 0  # products and rows when `expect` was called last
        self._needed = self._needed_ritz = 0.0

    def add_product(self) -> None:
        self.products += 1
        cost = self._costs.formed if self.is_formed else self._costs.implicit
        self._since_ritz += cost
        self._spent += cost
        self.passes += not self.is_formed

    def add_forming(self) -> None:
        self.passes += 1
        self.is_formed, self._spent = True, 0.0

    def starts_ritz(self, size: int) -> bool:
        """Whether to solve the small problem: if that costs no more than the products since.

        Or if the space has grown so much that all small problems together cost little more than
        the last.
        """
        cost = self._costs.ritz * size**3
        if self._since_ritz < cost and size < RITZ_GROWTH * self._ritz_size:
            return False
        self._since_ritz, self._ritz_size = 0.0, size
        self._spent += cost
        return True

    def expect(self, history: list[float], goal: float, size: int, *, fewer: bool) -> None:
        """Predict how many more products it takes until residuals are as short as the goal.

        If fewer values are positive than are asked for, that is likely to remain so.
        """
        products, rows = self.products - self._expected[0], size - self._expected[1]
        self._expected = self.products, size
        if len(history) < LEAST_HISTORY:
            return
        self._needed = math.inf if fewer else 0.0
        if not fewer and 0.0 < goal < history[-1]:
            rate = math.log(max(history[-2], goal) / history[-1]) / products
            more = math.log(history[-1] / goal)
            self._needed = OPTIMISM * more / rate if rate > 0.0 else math.inf
        # Sizes of small problems grow by a factor, so that all cost a multiple of the last.
        ending = (size + self._needed * rows / products) ** 3
        self._needed_ritz = self._costs.ritz * (ending - size**3) / (1.0 - RITZ_GROWTH**-3)

    @property
    def is_forming_due(self) -> bool:
        costs = self._costs
        if self.is_formed or math.isinf(costs.forming):
            return False
        passes = self._needed * costs.implicit + self._needed_ritz
        products = self._needed * costs.formed + self._needed_ritz
        is_slow = passes > costs.forming + min(costs.dense, products)
        return is_slow or self.passes * costs.implicit >= costs.forming

    @property
    def is_spent(self) -> bool:
        """Whether a dense form costs less than what was spent, or than what is needed still.

        That is its eigensolver once C is formed, and all of it if C cannot be formed from here.
        """
        costs = self._costs
        if math.isinf(costs.dense):  # nothing is left to turn to
            return False
        if not self.is_formed and (math.isfinite(costs.forming) or self.passes < LEAST_HISTORY):
            return False
        each = costs.formed if self.is_formed else costs.implicit
        return max(self._spent, self._needed * each + self._needed_ritz) >= costs.dense

    @property
    def is_at_limit(self) -> bool:
        return not self.is_formed and self.passes >= self._max_iter


def _side_of(operator: CentroidOperator, request: Request) -> Features | Samples:
    if request.form != "krylov":
        return Samples(operator) if request.form == "gram" else Features(operator)
    # In sample coordinates M is D·G, and only with labels for all is D known on the space.
    # They take two readings of X per pass if only row slicing is supported.
    samples = operator.n < operator.d and operator.is_supervised and not operator.by_rows
    return Samples(operator) if samples else Features(operator)


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
    side: Features | Samples,
    space: KrylovSpace,
    ritz: Ritz,
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
    is_long = isinstance(side, Samples) and found.rounding - ritz.rounding > target
    is_long |= bool((side.growth(ritz.values)[: len(found.values)] > LARGEST_GROWTH).any())
    if not (near.any() or is_long):
        return found
    span = side.span(space, ritz.coordinates, near)
    lost = int(near.sum()) - span.shape[1]  # too inexact to be found in X
    gap = FLOOR * ritz.rounding if near.any() else None
    pairs = Resolved.certain(found.values, found.vectors)
    if isinstance(side, Samples):
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
        span = _orthogonal(span, found.vectors)
        # With labels for all, it is known how many can be positive.
        is_open = not operator.is_supervised
        variances = operator.feature_squares if is_open else None
        resolved = resolve(operator, span, ritz.largest, gap, variances=variances, doubts=is_open)
        lost += int(np.isinf(resolved.error[resolved.is_null]).sum())
        pairs = pairs.followed_by(resolved).real()
        lengths = np.zeros(0)
        if pairs.values.size:
            lengths = _residual_lengths(operator, pairs.vectors)
    rounding = LARGEST_RESIDUAL * ritz.eps * ritz.largest + operator.mean_rounding(ritz.largest)
    beyond = np.maximum(lengths - rounding, 0.0)
    # The space need not hold eigenvectors near zero: an eigenvalue may be above a negative value by
    # as much as the residual is long.
    low, high = pairs.or_inexact(lengths).bounds()
    # Vectors that have not converged say nothing of the eigenvalues they are to become.
    is_known = count.proven and not beyond.any()
    high = max(high + lost if is_known else found.bounds[1], low, count.low + count.hidden)
    low, high = min(low, k), min(high, k)
    beyond = np.maximum(beyond[:low], 4.0 * ritz.eps * ritz.norm)
    below = found.below
    if low < len(pairs.values):
        below = max(float(pairs.values[low] + pairs.error[low]), 0.0)
    values, vectors = pairs.values[:low], pairs.vectors[:, :low]
    return _Found(values, vectors, beyond, (low, high), below, rounding)


def _least_norm(side: Features | Samples, ritz: Ritz, values: np.ndarray) -> float:
    """The norm of M less its rounding, so that residuals do not seem smaller than they are."""
    growth = max(1.0, ritz.largest / ritz.norm) if isinstance(side, Samples) else 1.0
    known = float(np.abs(values).max(initial=np.finfo(float).tiny))
    return max(ritz.norm - growth * ritz.rounding, known)


def _residual_lengths(operator: CentroidOperator, vectors: Array) -> np.ndarray:
    """‖M a − μ a‖ with the Rayleigh quotient μ of each column a, rounding included: one pass."""
    xp, _ = operator.place
    rows = _backend.copied(vectors.T)
    image = operator.apply(rows)
    return lengths_of(image - xp.sum(rows * image, axis=1)[:, None] * rows)


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
