"""The model of what was computed."""

from __future__ import annotations

from typing import Any

from slce_xp import _backend, _errors, _parameters, _warnings
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import Labels
from slce_xp._model import Model
from slce_xp._planning.plan import Plan
from slce_xp.core import _eigen
from slce_xp.core._problem import Problem
from slce_xp.core._separation import Separation
from slce_xp.core._solution import Solution
from slce_xp.core._solve import rounded_angles


def make_model(
    problem: Problem,
    solution: Solution,
    labels: Labels,
    plan: Plan,
    n_components: int | float | str | None,
    X: Any = None,
) -> Model:
    """The model of a solution, in the dtype of X; warns of what is of no use in it.

    Parameters
    ----------
    X : optional
        What was fitted, for the names of its columns.
    """
    moments, (low, high) = problem.moments, solution.n_positive
    xp, dtype = problem.place.xp, getattr(problem.place.xp, plan.dtype)
    (loss,) = _backend.read(moments.total_loss)
    kept = plan.n_components
    if isinstance(n_components, str):  # "positive"
        kept = low
    elif _parameters.is_share(n_components):
        kept = _warnings.components_for(n_components, solution.values[:low], float(loss))
    _warnings.warn_if_useless(n_components, kept, low, high)
    exponent, names = moments.unit_exponent, _matrix.feature_names(X)
    note = _warnings.note_on_units(problem, solution.rounding, names)
    total_loss, zero_level, residual = _eigen.scaled_numbers(
        [float(loss), solution.zero_level, solution.residual], exponent, "total_loss"
    )
    vectors = _eigen.with_fixed_signs(solution.vectors[:, :kept])
    return Model(
        components=xp.astype(vectors.T, dtype, copy=False),
        eigenvalues=_eigen.in_units(
            solution.values[:kept], exponent, problem.place, dtype, "eigenvalues"
        ),
        **_statistics(problem, labels, plan),
        n_unlabeled=labels.n_unlabeled,
        n_positive=min(low, kept),
        n_positive_bounds=(kept, kept) if kept < low else (low, high),
        zero_level=zero_level,
        residual=residual,
        angle_bounds=rounded_angles(solution, dtype)[:kept],
        total_loss=total_loss,
        passes=solution.passes,
        feature_names=names,
        note=note,
    )


def _statistics(problem: Problem, labels: Labels, plan: Plan) -> dict[str, Any]:
    """What models of both criteria have."""
    moments, xp = problem.moments, problem.place.xp
    dtype = getattr(xp, plan.dtype)
    return {
        "mean": xp.astype(moments.mean, dtype, copy=False),
        "centroids": xp.astype(moments.centroids, dtype, copy=False),
        "weights": _eigen.in_units(
            moments.totals[: moments.n_classes],
            moments.weight_exponent,
            problem.place,
            dtype,
            "weights",
        ),
        "classes": labels.classes,
        "counts": _backend.from_host(labels.counts, problem.place),
        "plan": plan,
    }


def make_separating_model(
    problem: Problem, found: Separation, labels: Labels, plan: Plan, X: Any = None
) -> Model:
    """The model of criterion="separation", in the dtype of X."""
    xp, moments = problem.place.xp, problem.moments
    dtype = getattr(xp, plan.dtype)
    k = int(found.components.shape[0])
    if k < plan.n_components:
        _errors.warn(
            f"n_components={plan.n_components} was asked for, but the class means differ in {k} "
            "dimensions only; these are kept",
        )
    (loss,) = _backend.read(moments.total_loss)
    (total_loss,) = _eigen.scaled_numbers([float(loss)], moments.unit_exponent, "total_loss")
    return Model(
        components=xp.astype(found.components, dtype, copy=False),
        patterns=xp.astype(found.patterns, dtype, copy=False),
        eigenvalues=xp.astype(found.ratios, dtype, copy=False),
        **_statistics(problem, labels, plan),
        n_unlabeled=0,
        n_positive=k,
        total_loss=total_loss,
        criterion="separation",
        shrinkage=found.shrinkage,
        separation=found.separation,
        feature_names=_matrix.feature_names(X),
        _gap=found.plane,
    )
