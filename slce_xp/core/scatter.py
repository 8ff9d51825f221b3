"""The scatter form: M itself, d × d. For data with more samples than features."""

from __future__ import annotations

import math

import numpy as np

from slce_xp import _backend
from slce_xp.core import eigen
from slce_xp.core.certificate import angle_bound
from slce_xp.core.operators import ScatterOperator
from slce_xp.core.resolve import leading, resolve
from slce_xp.core.solution import Request, Solution

# Neighbours of eigenvalues within rounding of zero that are resolved with them, by a pass over X.
MOST_NEIGHBOURS = 64


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
    if (np.abs(host[:k]) > level).all():
        positive = int((host[:k] > 0.0).sum())
        kept = positive if request.positive_only else k
        following = np.append(host, -math.inf)[kept]
        angle = angle_bound(0.0, rounding, host[kept - 1], following) if kept else 0.0
        below = float(following) + rounding
        return Solution(values[:k], vectors[:, :k], (positive, positive), angle, below=below)

    # Some are within rounding of zero: all of those are needed, to separate the null space of X
    # from the others. Any basis of the former would do, so seeded directions are projected onto
    # it.
    if values.shape[0] < d:
        del vectors
        values, vectors = _backend.largest_eigenpairs(matrix, d)
    del matrix
    (host,) = eigen.read_finite(values)
    gap = level
    if operator.has_samples:  # with their neighbours, which they may be mixed with
        eps = float(np.finfo(_backend.dtype_name(operator.dtype)).eps)
        gap = max(level, min(math.sqrt(eps) * float(square), _reach(np.abs(host), level)))
    first, last = int((host > gap).sum()), int((host >= -gap).sum())
    others = np.abs(np.concatenate([host[:first], host[last:]]))
    apart = float(others.min(initial=float(square)))  # all others may be much larger than the gap
    doubtful = resolve(operator, vectors[:, first:last], float(square), apart)
    found = doubtful.between(values, vectors, first, last)
    null, wanted = None, min(int(found.is_null.sum()), k - found.before_zero)
    if wanted > 0:
        basis = found.null()
        null = basis @ (basis.T @ operator.draw(wanted))
    values, vectors, _ = leading(operator, k, found.real(), null)
    low, high = found.bounds()
    kept = min(low, k) if request.positive_only else k - max(wanted, 0)
    angle = found.angle_bound(kept, rounding, d)
    return Solution(values, vectors, (min(low, k), min(high, k)), angle)


def _reach(sizes: np.ndarray, level: float) -> float:
    """Magnitude up to which eigenvalues are few, apart from those within rounding of zero."""
    sizes = np.sort(sizes)
    most = int((sizes <= level).sum()) + MOST_NEIGHBOURS
    return float(sizes[most]) if most < len(sizes) else math.inf
