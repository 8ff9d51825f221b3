"""The model of what was computed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from slce_xp import _backend, _errors, _parameters, _warnings
from slce_xp._backend import Array
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import Labels
from slce_xp._model import Model
from slce_xp._planning.plan import Plan
from slce_xp.core import _eigen
from slce_xp.core._groups import Groups
from slce_xp.core._problem import Problem
from slce_xp.core._rows import Rows
from slce_xp.core._separation import Separation
from slce_xp.core._solution import Solution
from slce_xp.core._solve import rounded_angles
from slce_xp.core._spread import measured_spread


def make_model(
    problem: Problem,
    solution: Solution,
    labels: Labels,
    plan: Plan,
    n_components: int | float | str | None,
    X: Any = None,
    samples: tuple[Rows, Groups] | None = None,
) -> Model:
    """The model of a solution, in the dtype of X; warns of what is of no use in it.

    Parameters
    ----------
    X : optional
        What was fitted, for the names of its columns.
    samples : tuple of Rows and Groups, optional
        Its rows, for the spread of the embedding if some have no label.
    """
    moments, (low, high) = problem.moments, solution.n_positive
    xp, dtype = problem.place.xp, getattr(problem.place.xp, plan.dtype)
    kept = plan.n_components
    if isinstance(n_components, str):  # "positive"
        kept = low
    elif (share := _parameters.as_share(n_components)) is not None:
        kept = components_for(share, solution.values[:low])
    (loss,) = _backend.read(moments.total_loss)
    is_iterated = plan.form == "krylov"
    is_hidden = high == 0 and _warnings.is_hidden(problem, solution, float(loss))
    _warnings.warn_if_useless(
        n_components, kept, low, high, is_iterated=is_iterated, is_hidden=is_hidden
    )
    exponent, names = moments.unit_exponent, _matrix.feature_names(X)
    note = _warnings.note_on_units(problem, solution.rounding, names)
    total_loss, zero_level, residual = _eigen.scaled_numbers(
        [float(loss), solution.zero_level, solution.residual], exponent, "total_loss"
    )
    spread = None
    if samples is not None and not moments.is_supervised:
        spread = measured_spread(problem, solution.vectors[:, :kept], *samples)
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
        log_odds=_log_odds(labels, problem, dtype),
        _spread=spread,
        passes=solution.passes,
        feature_names=names,
        note=note,
    )


def components_for(share: float, values: np.ndarray) -> int:
    """The fewest components that remove a share of the loss that all of them remove."""
    removed = np.cumsum(values)
    return min(int(np.searchsorted(removed, share * removed[-1:].sum())) + 1, len(values))


def _log_odds(labels: Labels, problem: Problem, dtype: Any) -> Array | None:
    """What a dict of class weights adds to the scores of classes; None without one."""
    if labels.odds is None:
        return None
    return _backend.from_host(np.log(labels.odds / labels.odds.max()), problem.place, dtype)


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
    problem: Problem,
    found: Separation,
    labels: Labels,
    plan: Plan,
    n_components: int | float | str | None,
    X: Any = None,
) -> Model:
    """The model of criterion="separation", in the dtype of X."""
    xp, moments = problem.place.xp, problem.moments
    dtype = getattr(xp, plan.dtype)
    k = int(found.components.shape[0])
    as_found = n_components == "positive" or _parameters.as_share(n_components) is not None
    if k < plan.n_components and not as_found:
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


def with_batches(model: Model, problem: Problem, batches: np.ndarray) -> Model:
    """The model with the shifts of batches along its components, whose labels are given."""
    assert problem.effects is not None
    shifts = problem.effects.shifts / problem.moments.scale
    components = problem.place.xp.astype(model.components, shifts.dtype, copy=False)
    shifts = problem.place.xp.astype(shifts @ components.T, model.mean.dtype, copy=False)
    return replace(model, batches=batches, batch_shifts=shifts)
