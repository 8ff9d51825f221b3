"""The model of what was computed."""

from __future__ import annotations

import math
import warnings
from typing import Any

from slce_xp import _backend, _warnings
from slce_xp._data.labels import Labels
from slce_xp._model import Model
from slce_xp._planning.plan import Plan
from slce_xp.core import eigen
from slce_xp.core.operators import ScatterOperator
from slce_xp.core.separation import Separation
from slce_xp.core.solution import Solution


def make_model(
    operator: ScatterOperator,
    solution: Solution,
    labels: Labels,
    plan: Plan,
    n_components: int | float | str | None,
    dtype: Any = None,
) -> Model:
    """The model of a solution, in another dtype if need be; says what is of no use in it."""
    xp, _ = operator.place
    vectors = eigen.fix_signs(solution.vectors)
    low, high = solution.n_positive
    angle = solution.angle_bound
    _warnings.warn_if_useless(n_components, plan.n_components, low, high)
    kept = slice(None, low if n_components == "positive" else plan.n_components)
    if dtype is not None and dtype != vectors.dtype:
        angle += float(xp.finfo(dtype).eps) * math.sqrt(vectors.shape[1])  # of rounding
    dtype = dtype or vectors.dtype
    arrays = {
        "components": vectors[:, kept].T,
        "mean": operator.mean,
        "centroids": operator.centroids,
    }
    arrays = {name: xp.astype(a, dtype, copy=False) for name, a in arrays.items()}
    exponent = operator.unit_exponent
    eigenvalues, loss = solution.eigenvalues[kept], operator.total_loss()
    host = _backend.read(eigenvalues, xp.reshape(loss, (1,)))
    return Model(
        **arrays,
        eigenvalues=eigen.in_units(eigenvalues, exponent, dtype, "eigenvalues", host[0]),
        weights=eigen.in_units(operator.class_weights, operator.weight_exponent, dtype, "weights"),
        classes=labels.classes,
        counts=_backend.from_host(labels.counts, operator.place),
        n_unlabeled=labels.n_unlabeled,
        n_positive=low,
        n_positive_bounds=(low, high),
        angle_bound=angle,
        total_loss=eigen.scaled_number(host[1][0], exponent, "total_loss"),
        plan=plan,
        passes=solution.passes,
        residuals=None if solution.residuals is None else solution.residuals[kept],
        history=solution.history,
    )


def make_separating_model(
    operator: ScatterOperator, found: Separation, labels: Labels, plan: Plan, dtype: Any = None
) -> Model:
    """The model of criterion="separation", in another dtype if need be."""
    xp, _ = operator.place
    dtype = dtype or found.components.dtype
    arrays = {
        "components": found.components,
        "patterns": found.patterns,
        "eigenvalues": found.ratios,
        "mean": operator.mean,
        "centroids": operator.centroids,
    }
    arrays = {name: xp.astype(a, dtype, copy=False) for name, a in arrays.items()}
    k = int(found.components.shape[0])
    if k < plan.n_components:
        warnings.warn(
            f"n_components={plan.n_components} was asked for, but the class means differ in {k} "
            "dimensions only; these are kept",
            stacklevel=3,
        )
    (loss,) = _backend.read(xp.reshape(operator.total_loss(), (1,)))
    return Model(
        **arrays,
        weights=eigen.in_units(operator.class_weights, operator.weight_exponent, dtype, "weights"),
        classes=labels.classes,
        counts=_backend.from_host(labels.counts, operator.place),
        n_unlabeled=0,
        n_positive=k,
        total_loss=eigen.scaled_number(loss[0], operator.unit_exponent, "total_loss"),
        plan=plan,
        criterion="separation",
        shrinkage=found.shrinkage,
        separation=found.separation,
        _gap=found.plane,
    )
