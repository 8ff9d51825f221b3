"""Seconds that plans predict for fits that were made, beside those that they took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.drawn import REAL, REGIONS, SPECTRA
from slce_xp import Model
from slce_xp._planning import plan as planning
from slce_xp._planning import profiles
from slce_xp._planning.memory import Limits
from slce_xp._planning.schedule import TYPICAL_PASSES
from slce_xp.core.solution import FORMS

FACTOR = 1.5  # within which a prediction counts as right


def predict(model: Model, form: str) -> dict[str, float]:
    """Predicted seconds of a fit by a requested form: as planned, and at the passes it took.

    How many passes the matrix-free form takes depends on the spectrum, which a plan does not know.
    If it found too few positive eigenvalues, forming the matrix and a dense eigensolver followed.
    """
    profile = profiles.load()
    plan = model.plan
    if plan.form != form:
        plan = planning.choose(plan.problem, Limits(), form, profile)
    if form != "krylov":
        return {"planned": plan.seconds, "taken": plan.seconds}
    steps = planning.steps_of(form, plan.problem, profile)
    seconds, costs = steps.solve(form, plan.schedule, max(1, model.passes))
    if model.solver != form:
        seconds += costs.forming + costs.dense
    return {"planned": plan.seconds, "taken": seconds}


def within(ratios: Iterable[float]) -> float:
    """The share of predictions that are within the factor."""
    return float(np.mean([1 / FACTOR <= value <= FACTOR for value in ratios]))


def predictions(
    results: dict[str, dict[str, Any]],
    form: str | None = None,
    region: str | None = None,
    spectrum: str | None = None,
) -> list[float]:
    """Predicted over measured seconds of requested forms; of some of the problems only."""
    return [
        seconds["taken"] / r["seconds"][name]
        for r in results.values()
        if region in (None, r["region"]) and spectrum in (None, r["spectrum"])
        for name, seconds in r["predicted"].items()
        if name not in r["notes"] and form in (None, name)
    ]


def prediction_rows(results: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """Shape, spectrum, and for each form the median and how many are within 1.5 × of all."""
    for region in (*REGIONS, REAL):
        for spectrum in (*SPECTRA, REAL):
            cells = []
            for form in FORMS:
                found = predictions(results, form, region, spectrum)
                hits = round(within(found) * len(found)) if found else 0
                cells.append(f"{np.median(found):.2f}, {hits} of {len(found)}" if found else "–")
            if any(cell != "–" for cell in cells):
                yield [region, spectrum, *cells]


def sentence_on_passes(results: Iterable[dict[str, Any]]) -> str:
    """How the number of passes that was planned compares with those taken, as a sentence."""
    found = list(results)
    passes = [r["passes_taken"] for r in found if r.get("passes_taken")]
    if not passes:
        return ""
    ratios = [
        r["predicted"]["krylov"]["planned"] / r["seconds"]["krylov"]
        for r in found
        if "krylov" in r["predicted"] and "krylov" not in r["notes"]
    ]
    return (
        "The matrix-free form is predicted at the number of passes that it took, which depends on "
        f"the spectrum: {np.median(passes):.0f} in the median, {min(passes)} to {max(passes)}. "
        f"A plan, which knows the shape alone, assumes {TYPICAL_PASSES}; with these, "
        f"{100 * within(ratios):.0f} % of its predictions are within {FACTOR} ×."
    )
