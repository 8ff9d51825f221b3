"""The scatter form: M itself, d × d. For data with more samples than features."""

from __future__ import annotations

from slce_xp import _linalg, _xp
from slce_xp._operator import CentroidOperator
from slce_xp._solvers._solution import Request, Solution

# Up to this size all eigenpairs are computed at once: a null space would need them anyway, and
# a second eigensolver would cost more than the first one saved.
ALL_AT_ONCE = 900


def solve(operator: CentroidOperator, request: Request) -> Solution:
    """Leading eigenpairs of M = 2·BᵀB − S_t."""
    xp, _ = operator.place
    k, d = request.k, operator.d
    matrix, trace = operator.take_matrix()
    zero = operator.zero_level(float(_linalg.read(trace)[0]))
    values, vectors = _xp.largest_eigenpairs(matrix, d if d <= ALL_AT_ONCE else k)
    if _linalg.count(xp.abs(values[:k]) <= zero, values) == 0:
        return Solution(values[:k], vectors[:, :k], zero)

    # Zero eigenvalues: the data do not span R^d. Any mixture of the null space would do, so
    # the whole of it is taken and seeded directions are projected onto it.
    if values.shape[0] < d:
        del vectors
        values, vectors = _xp.largest_eigenpairs(matrix, d)
    positive = _linalg.count(values > zero, values)
    null = _linalg.count(xp.abs(values) <= zero, values)
    wanted = min(null, k - positive)
    basis = vectors[:, positive : positive + null]
    others = xp.concat([vectors[:, :positive], vectors[:, positive + null :]], axis=1)
    values = xp.concat([values[:positive], values[positive + null :]])
    kept = k - wanted
    values, vectors = _linalg.splice_null_space(
        values[:kept], others[:, :kept], positive, basis @ (basis.T @ operator.draw(wanted))
    )
    return Solution(values, vectors, zero)
