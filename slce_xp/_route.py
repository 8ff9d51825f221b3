"""The way from a plan to eigenpairs: an iteration, a dense form that may follow, its precision."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend, _parameters
from slce_xp._backend import Place, Sparse
from slce_xp._data.open import open_rows
from slce_xp._data.row_reader import RowReader
from slce_xp._planning import plan as _plan
from slce_xp._planning.costs import smaller_form
from slce_xp._planning.memory import Limits
from slce_xp._planning.plan import Plan
from slce_xp._planning.problem import ITEMSIZES, MEMORY
from slce_xp._planning.profile import Profile
from slce_xp._progress import Progress
from slce_xp.core import krylov, mixed
from slce_xp.core.groups import Groups
from slce_xp.core.operators import CentroidOperator
from slce_xp.core.rows import Rows
from slce_xp.core.solution import Costs, Request, Solution
from slce_xp.core.solve import finish, operator_of

# The largest X of which a copy may be made, to bring extreme units into the range of the dtype.
COPY_BYTES = 2**28
# A smaller angle is hardly ever proved in mixed precision, which "auto" then does not try.
LEAST_MIXED_TOLERANCE = 1e-10
# The angle by default of a dense form that computes float32 data in float64, in units of rounding:
# as small as that of other forms in float32.
ROUNDED_ANGLE = 100.0
# Why a form took over from another.
FEWER = "fewer eigenvalues are positive than asked for"
LONG = "passes over X had cost as much as forming the matrix"
NEAR_ZERO = "eigenvalues are within rounding of zero in float32"


@dataclass(frozen=True)
class Given:
    """What the steps of a fit have in common.

    Attributes
    ----------
    matrix : array, Sparse, RowReader or Dask array, shape (n, d)
        X, at the place or to be read there.
    place : Place
    groups : Groups
        The classes of the samples that count.
    kept : numpy.ndarray of int, or None
        Positions of these samples; None for all.
    limits : Limits
    profile : Profile
        Of the device.
    solver : str
        The form that was asked for, or "auto".
    tol : float or None
        The angle that was asked for.
    seed : int
    progress : Progress
    """

    matrix: Any
    place: Place
    groups: Groups
    kept: np.ndarray | None
    limits: Limits
    profile: Profile
    solver: str
    tol: float | None
    seed: int
    progress: Progress

    def open(self, plan: Plan, following: Plan | None = None) -> Rows:
        """X as a plan has it, in blocks that suit the one that may follow, too."""
        rows = open_planned(self.matrix, self.place, plan, self.progress, self.kept, self.limits)
        _use_planned_blocks(rows, [plan, following or plan])
        return rows

    def operator(self, rows: Rows, form: str) -> CentroidOperator:
        """The class statistics of rows."""
        return operator_of(rows, self.groups, form, self.seed)


class Solved(NamedTuple):
    """Eigenpairs, with the operator that they are those of and the plan that was followed."""

    operator: CentroidOperator
    solution: Solution
    plan: Plan


def solve(given: Given, plan: Plan, request: Request, precision: str) -> Solved:
    """Follow a plan, and turn to another one if that has to be.

    Parameters
    ----------
    given : Given
    plan : Plan
    request : Request
        Its `k`, `tol`, `max_iter`, `positive_only` and `report`; the rest is up to the plan.
    precision : {"auto", "full", "mixed"}
    """
    limits, solver = given.limits, given.solver
    dense = _dense_plan(plan, limits, given.profile)
    costs = _costs(plan, dense, solver)
    request = dataclasses.replace(_in_form(request, plan, limits), costs=costs, fill=dense is None)
    rows = given.open(plan, dense)
    swift = _swift_plan(given, plan, request.tol, precision)
    operator = given.operator(rows, plan.form if swift is None else "krylov")
    # Asked only if C may be formed in mid-course: of a sparse X it takes a pass.
    may_form = plan.form == "krylov" and math.isfinite(costs.forming)
    if may_form and dense is not None and not _serves(operator, dense.form):
        request = dataclasses.replace(request, costs=costs._replace(forming=math.inf))
    solution = None
    if swift is not None:
        brief = _in_form(request, swift, limits)
        brief = dataclasses.replace(brief, costs=_to_the_end(swift), fill=False)
        solution = mixed.solve(operator, given.matrix, given.kept, given.groups, brief, given.seed)
    if solution is not None and swift is not None:
        plan = swift
    elif not plan.width:
        solution = finish(operator, plan.form, _in_precision(request, given.tol, plan))
    else:
        solution = krylov.solve(operator, request)
        if dense is not None and _needs_dense_form(solution, request, solver):
            if not solution.formed:  # nothing to go on with, so that it may be in float64
                dense = _plan.choose(plan.problem, limits, dense.form, given.profile)
            passes, fewer = solution.passes, solution.eigenvalues.shape[0] < request.k
            del solution  # it is as large as what follows
            is_wider = dense.computed_dtype != plan.computed_dtype
            is_another = plan.where != MEMORY or is_wider or not _serves(operator, dense.form)
            if plan.form == "krylov" and is_another:
                del operator
                operator = given.operator(given.open(dense), dense.form)
            plan = _after(plan, dense, FEWER if fewer else LONG)
            solution = finish(operator, dense.form, _in_precision(request, given.tol, dense))
            solution = dataclasses.replace(solution, passes=passes)
        elif dense is not None and solution.formed:
            plan = _after(plan, dense, LONG if plan.form == "krylov" else plan.reason)
    if solution.needs_double:
        passes, wide = solution.passes, _wide_plan(plan, limits, given.profile)
        del solution
        if wide is not None:
            del operator  # it has sums in single precision
            operator, plan = given.operator(given.open(wide), wide.form), wide
        precise = dataclasses.replace(_in_precision(request, given.tol, plan), may_widen=False)
        solution = finish(operator, plan.form, precise)
        solution = dataclasses.replace(solution, passes=passes)
    return Solved(operator, solution, plan)


def open_planned(
    matrix: Any,
    place: Place,
    plan: Plan,
    progress: Progress,
    kept: np.ndarray | None,
    limits: Limits,
) -> Rows:
    """X as the plan has it, of which some rows are kept: it is in place, or read there."""
    size = plan.n_samples * plan.n_features * ITEMSIZES[plan.dtype]
    is_double = plan.computed_dtype != plan.dtype
    rows = open_rows(
        matrix,
        dtype=_backend.longest_float(place) if is_double else None,
        place=place,
        progress=progress,
        read_rows=plan.read_rows,
        panel_rows=plan.panel_rows,
        whole_rows=plan.form == "scatter",
        kept=kept,
    )
    rows.has_room_for_copy = size <= min(limits.spare(plan.memory), COPY_BYTES)
    return rows


def _in_precision(request: Request, tol: Any, plan: Plan) -> Request:
    """The same, with the accuracy of a dense form that may compute in another dtype than X has."""
    tolerance = _parameters.as_tolerance(tol, plan.computed_dtype)
    eps = float(np.finfo(plan.dtype).eps)
    if tol is None and plan.computed_dtype != plan.dtype:
        tolerance = max(tolerance, ROUNDED_ANGLE * eps)
    may_widen = plan.form == "scatter" and plan.problem.may_widen
    return dataclasses.replace(request, tol=tolerance, eps=eps, may_widen=may_widen)


def _swift_plan(given: Given, plan: Plan, tol: float, precision: str) -> Plan | None:
    """The plan in mixed precision, if X is an array of float64 and weights are harmless."""
    if precision == "auto" and tol < LEAST_MIXED_TOLERANCE:
        precision = "full"
    matrix = given.matrix
    is_dense = isinstance(matrix, np.ndarray) or not isinstance(matrix, (Sparse, RowReader))
    is_dense = is_dense and not _backend.is_dask(matrix)
    is_double = is_dense and _backend.dtype_name(matrix.dtype) == "float64"
    if not (is_double and mixed.has_mild_weights(given.groups)):
        return None
    return _plan.in_mixed_precision(plan, precision, given.limits, given.solver, given.profile)


def _to_the_end(plan: Plan) -> Costs:
    """Costs of an iteration that never turns to another form."""
    return plan.costs._replace(forming=math.inf, dense=math.inf)


def _in_form(request: Request, plan: Plan, limits: Limits) -> Request:
    """The request for an iteration in the form of a plan."""
    return dataclasses.replace(
        request,
        width=plan.width,
        wide_passes=plan.wide_passes,
        form=plan.form,
        rows=plan.schedule.rows(plan.problem, plan.form),
        max_rows=_plan.most_rows(plan, limits),
    )


def _use_planned_blocks(rows: Rows, plans: list[Plan]) -> None:
    """Read X in memory in blocks for which all plans have room."""
    if plans[0].where == MEMORY:
        if plans[0].problem.accelerated:
            rows.block_bytes = min(plan.memory.temporaries for plan in plans)
        rows.copy_bytes = max(rows.block_bytes, min(plan.block_bytes for plan in plans))


def _dense_plan(plan: Plan, limits: Limits, profile: Profile) -> Plan | None:
    """The plan for what an iteration leaves; None if no dense form fits into memory."""
    if plan.form != "krylov":
        return plan
    try:
        # Not in float64: a matrix that is formed in mid-course must suit the iteration.
        form = smaller_form(plan.problem)
        return _plan.choose(plan.problem, limits, form, profile, widens=False)
    except MemoryError:
        return None


def _wide_plan(plan: Plan, limits: Limits, profile: Profile) -> Plan | None:
    """The plan for S_t in double precision; None if it does not fit into memory."""
    problem = dataclasses.replace(plan.problem, wide=True)
    try:
        return _after(plan, _plan.choose(problem, limits, "scatter", profile), NEAR_ZERO)
    except MemoryError:
        return None


def _can_form(plan: Plan, dense: Plan | None) -> bool:
    """Whether a matrix-free iteration can form C and go on with it."""
    if dense is None or plan.where != MEMORY or plan.computed_dtype != dense.computed_dtype:
        return False
    problem = plan.problem
    by_samples = problem.n < problem.d and problem.supervised
    return dense.form == ("gram" if by_samples else "scatter")


def _serves(operator: CentroidOperator, form: str) -> bool:
    """Whether a dense form can use the rows of an iteration, which are not shifted if sparse."""
    return form != "gram" or operator.is_near


def _costs(plan: Plan, dense: Plan | None, solver: str) -> Costs:
    if solver != "auto":
        return _to_the_end(plan)
    if plan.form == "krylov" and not _can_form(plan, dense):
        anew = math.inf if dense is None else dense.seconds
        return plan.costs._replace(forming=math.inf, dense=anew)
    return plan.costs


def _after(begun: Plan, dense: Plan, reason: str) -> Plan:
    """The plan of a form that took over from another: with the larger peak of the two."""
    memory = dense.memory._replace(
        device=max(begun.bytes, dense.bytes),
        blocks=max(begun.block_bytes, dense.block_bytes),
        host=max(begun.host_bytes, dense.host_bytes),
    )
    return dataclasses.replace(dense, reason=reason, memory=memory, costs=begun.costs)


def _needs_dense_form(solution: Solution, request: Request, solver: str) -> bool:
    if solution.eigenvalues.shape[0] < request.k and not request.positive_only:
        return True
    # Someone who limits the passes, or asks for this form, wants what it found.
    low, high = solution.n_positive
    unsure = not solution.is_complete or low < high
    return unsure and solver == "auto" and solution.passes < request.max_iter
