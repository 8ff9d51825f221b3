"""The printed summary of a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from slce_xp import _backend


def summary(model: Any) -> str:
    """What was fitted, how, and what came out, in about seven lines."""
    k = model.n_components
    eigenvalues = _backend.to_host(model.eigenvalues)
    place = _backend.place_of(model.mean)
    return "\n".join(
        [
            f"SLCE model: {model.n_features} features → {k} component{'s' * (k != 1)}"
            + (", of scaled columns" if model.scale is not None else ""),
            f"  fitted on    {model.n_samples} samples of {len(model.classes)} classes"
            + (f", {model.n_unlabeled} without a label" if model.n_unlabeled else ""),
            f"  solved by    {model.solver} form{_effort(model)}, {place}, "
            f"{_backend.dtype_name(model.mean.dtype)}",
            *_changes(model),
            f"  eigenvalues  {_listed(f'{v:.4g}' for v in eigenvalues)}",
            *(_separation(model) if model.criterion == "separation" else _loss(model, eigenvalues)),
            *_calibration(model),
        ]
    )


def _calibration(model: Any) -> list[str]:
    if model.temperature is None:
        return []
    return [f"  probability  calibrated out of fold, temperature {model.temperature:.3g}"]


def _changes(model: Any) -> list[str]:
    """What was done to X before the fit."""
    lines = []
    if model.batches is not None:
        lines.append(f"  batches      effects of {len(model.batches)} removed")
    if model.filled is not None:
        lines.append(f"  missing      {100 * model.filled:.2g} % of X, filled with column means")
    return lines


def _loss(model: Any, eigenvalues: np.ndarray) -> list[str]:
    angle = "no bound of the angle to the exact subspace is proved"
    bounds = np.zeros(0) if model.angle_bounds is None else model.angle_bounds
    finite = np.flatnonzero(np.isfinite(bounds))
    if len(finite):
        proved = int(finite[-1]) + 1  # equal eigenvalues before it leave bounds infinite
        which = "" if proved == model.n_components else f" for the first {proved}"
        angle = f"within {bounds[proved - 1]:.0e} rad of the exact subspace{which}"
    lines = [
        f"  loss         {_removed(model, eigenvalues)}",
        f"  components   {_use(model)}",
        *[f"  error        numerical: {angle}"] * bool(model.n_components),
    ]
    return lines + [f"  units        {model.note}"] * bool(model.note)


def _separation(model: Any) -> list[str]:
    first, second, overlap = model.confusions[0]
    return [
        f"  separation   {100 * (model.separation or 0.0):.2f} % of pairs, at most "
        f"{100 * (model.separation_gap or 0.0):.1g} % below the best, proved",
        f"  shrinkage    {model.shrinkage:.3g}",
        f"  confused     most: {first} and {second}, {100 * overlap:.2g} %",
    ]


def _effort(model: Any) -> str:
    return f" ({model.passes} passes)" if model.passes else ""


def _removed(model: Any, eigenvalues: np.ndarray) -> str:
    """How much of the loss is left by components that lower it, and by all."""
    total, positive = model.total_loss, model.n_positive
    if not positive or not total > 0:
        return f"{total:.4g}, of which nothing is removed"
    shares = eigenvalues[:positive].astype(np.float64) / total
    least = total - float(eigenvalues[:positive].sum(dtype=np.float64))
    text = f"{least:.4g} of {total:.4g}, {100 * (1 - least / total):.1f} % removed"
    if positive < model.n_components:
        text += f" by the first{f' {positive}' * (positive > 1)}"
    if positive > 1:
        text += f" ({_listed(f'{100 * share:.1f}' for share in shares)} % of class structure)"
    return text


def _use(model: Any) -> str:
    k, positive = model.n_components, model.n_positive
    if not k:
        return "none: no direction lowers the loss by more than zero_level"
    if not positive:
        return "none of them lowers the loss by more than zero_level"
    if positive == k:
        return "all of them lower the loss"
    return f"{positive} of them lower{'s' * (positive == 1)} the loss"


def _listed(values: Iterable[str]) -> str:
    """Join the first few values of a list."""
    texts = list(values)
    return ", ".join(texts[:6]) + ", …" * (len(texts) > 6) if texts else "none"
