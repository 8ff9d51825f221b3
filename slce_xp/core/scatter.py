"""The scatter form: M itself, d × d. For data with more samples than features."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp.core import eigen
from slce_xp.core.certificate import angle_bound
from slce_xp.core.operators import CentroidOperator, ScatterOperator
from slce_xp.core.resolve import Resolved, hidden_features, leading, most_positive, resolve
from slce_xp.core.solution import Request, Solution

# Eigenvalues within rounding of zero of which X is first asked for the signs alone: so many, or
# this share of all.
FEW, FEW_SHARE = 16, 1 / 8
# Neighbours of eigenvalues within rounding of zero that are resolved with them, by a pass over X.
MOST_NEIGHBOURS = 64
# The share of all eigenvectors from which on that takes longer than S_t in double precision.
LARGEST_RESOLVED = 0.6


def solve(operator: ScatterOperator, request: Request) -> Solution:
    """Leading eigenpairs of M = 2·BᵀB − S_t."""
    xp, _ = operator.place
    k, d = request.k, operator.d
    matrix, trace = operator.take_matrix()
    # One more than is asked for: the gap below the last one bounds the angle.
    values, vectors = _backend.largest_eigenpairs(matrix, min(k + 1, d))
    (square,), host = eigen.read_finite(xp.reshape(trace, (1,)), values[: min(k + 1, d)])
    # Sparse rows are not shifted: what centring subtracts is rounded relative to itself.
    level = operator.zero_level(
        max(float(square), math.sqrt(max(0.0, float(square)) * operator.centring))
    )
    rounding = operator.zero_level(max(float(square), operator.centring))
    of_mean = operator.mean_rounding(float(square))
    level, rounding = level + of_mean, rounding + of_mean
    if (np.abs(host[:k]) > level).all():
        positive = int((host[:k] > 0.0).sum())
        kept = positive if request.positive_only else k
        following = np.append(host, -math.inf)[kept]
        angle = angle_bound(0.0, rounding, host[kept - 1], following) if kept else 0.0
        below = float(following) + rounding
        return Solution(values[:k], vectors[:, :k], (positive, positive), angle, below=below)

    found, variances = None, _variances(operator, matrix)
    if operator.has_samples:
        last = _count_above(matrix, values, -level)
        near = last - int((host > level).sum())
        count = min(max(k, last) + 1, d)
        if near <= max(FEW, FEW_SHARE * d):
            if values.shape[0] < count:
                del vectors
                values, vectors = _backend.largest_eigenpairs(matrix, count)
            parts = values[:count], vectors[:, :count]
            found = _few_resolved(operator, *parts, level, float(square))
        is_long = near + MOST_NEIGHBOURS > LARGEST_RESOLVED * d
        if found is None and request.may_widen:
            apart = max(math.sqrt(eigen.eps_of(values)) * float(square), level)
            noise = near * (level / 8.0) ** 2 / apart  # that of `resolve`, or more
            hides = variances is not None and hidden_features(operator, variances(), noise) > 0
            if is_long or hides:
                return Solution(values, vectors, (0, k), needs_double=True)
    if found is None:
        # All of them are needed, to separate the null space of X from the others.
        if values.shape[0] < d:
            del vectors
            values, vectors = _backend.largest_eigenpairs(matrix, d)
        del matrix
        found = _resolved(operator, values, vectors, level, float(square), variances)
    null, wanted = None, min(int(found.is_null.sum()), k - found.before_zero)
    if request.positive_only:  # they are not kept
        wanted = 0
    if wanted > 0:  # any basis will do: seeded directions, projected
        basis = found.null()
        null = basis @ (basis.T @ operator.draw(wanted))
    values, vectors, _ = leading(operator, k, found.real(), null)
    if found.is_cleaned:
        vectors = _orthonormal(vectors, read(values)[0])
    low, high = found.bounds()
    kept = min(low, k) if request.positive_only else k - max(wanted, 0)
    angle = found.angle_bound(kept, rounding, len(found.values))
    if found.has_unknown and wanted > 0 and not request.positive_only:
        angle = math.inf
    high = max(low, min(high, most_positive(operator, k)))
    return Solution(values, vectors, (min(low, k), min(high, k)), angle)


def _count_above(matrix: Array, values: Array, level: float) -> int:
    """How many eigenvalues exceed a level, given the leading ones."""
    (host,) = read(values)
    if len(host) == matrix.shape[0] or host[-1] <= level:
        return int((host > level).sum())
    return _backend.count_above(matrix, level)


def _few_resolved(
    operator: ScatterOperator, values: Array, vectors: Array, level: float, square: float
) -> Resolved | None:
    """Leading eigenpairs, if X shows the signs of those within rounding of zero; otherwise None.

    One of the values is beyond them, or there are no others.
    """
    (host,) = eigen.read_finite(values)
    is_near = np.abs(host) <= level
    first, last = int((host > level).sum()), int((host >= -level).sum())
    if last == len(host) < operator.d:  # the count was rounded, too
        return None
    apart = float(np.abs(host[~is_near]).min(initial=square))
    few = resolve(operator, vectors[:, first:last], square, apart)
    if few.is_null.any() or not (np.abs(few.values) > few.error).all():
        return None
    return few.between(values, vectors, first, last).descending()


def _variances(operator: ScatterOperator, matrix: Array) -> Callable[[], Array] | None:
    """A function that returns the diagonal of S_t, shape (d,); None if that is not known."""
    if not operator.is_supervised:  # then M does not tell
        return operator.feature_squares if isinstance(operator, CentroidOperator) else None
    xp, _ = operator.place
    between = operator.between
    total = 2.0 * xp.sum(between * between, axis=0) - xp.linalg.diagonal(matrix)
    return lambda: total


def _resolved(
    operator: ScatterOperator,
    values: Array,
    vectors: Array,
    level: float,
    square: float,
    variances: Callable[[], Array] | None,
) -> Resolved:
    """All eigenpairs, given as a dense eigensolver found them."""
    (host,) = eigen.read_finite(values)
    gap = level
    if operator.has_samples:  # with their neighbours, which they may be mixed with
        eps = float(np.finfo(_backend.dtype_name(operator.dtype)).eps)
        gap = max(level, min(math.sqrt(eps) * square, _reach(np.abs(host), level)))
    is_near = np.abs(host) <= gap
    first, last = int((host > gap).sum()), int((host >= -gap).sum())
    apart = float(np.abs(host[~is_near]).min(initial=square))  # may be far above the gap
    others = None
    if isinstance(operator, CentroidOperator):
        inverse = np.where(is_near, 0.0, 1.0 / np.where(is_near, 1.0, host))
        others = partial(_known_part, operator, vectors, inverse)
    doubtful = resolve(operator, vectors[:, first:last], square, apart, others, variances)
    found = doubtful.between(values, vectors, first, last)
    return found._replace(is_cleaned=doubtful.is_cleaned)


def _orthonormal(vectors: Array, values: np.ndarray) -> Array:
    """Nearly orthonormal columns made so; those of eigenvalues near zero change the least.

    What was measured on X is exact, and not orthogonal to eigenvectors that are less exact.
    """
    place = _backend.place_of(vectors)
    order = np.argsort(np.abs(values), kind="stable")
    by_size = place.xp.take(vectors, _backend.from_host(order, place), axis=1)
    back = _backend.from_host(np.argsort(order), place)
    return place.xp.take(eigen.orthonormal_columns(by_size), back, axis=1)


def _known_part(
    operator: CentroidOperator, known: Array, inverse: np.ndarray, vectors: Array
) -> Array:
    """What nearly null columns have of eigenvectors u, given 1 / μ, or 0 for those to leave out.

    If a column v has c of u, uᵀMv is c·μ: a pass over X shows it to rounding relative to X·v, which
    is short.
    """
    image = operator.apply(_backend.copied(vectors.T))
    shares = (image @ known) * _backend.from_host(inverse, operator.place, known.dtype)
    return known @ shares.T


def _reach(sizes: np.ndarray, level: float) -> float:
    """Magnitude up to which eigenvalues are few, apart from those within rounding of zero."""
    sizes = np.sort(sizes)
    most = int((sizes <= level).sum()) + MOST_NEIGHBOURS
    return float(sizes[most]) if most < len(sizes) else math.inf
