"""Predictions of fits on a GPU against what they take: ``python -m benchmarks.predictions``.

Predicted seconds and bytes are those of the plan, by the profile of the device, host waits those of
the tests' budgets, launches those on the simulated device of the tests. Prints Markdown. Without
a GPU (``--rehearse``) that device, or emulated CuPy, is measured instead, and no time is given.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.memory import available_on_gpu, is_emulated, synchronise
from slce_xp._planning.sizes import format_bytes

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
import budgets
from conftest import make_backend

SIMULATED = "torch-device"
# solver, samples, features, classes, near the origin or far from it
PROBLEMS = [
    *((*shape, "near") for shape in budgets.SHAPES),
    ("auto", 801, 20_531, 5, "far"),
    ("auto", 900, 4_000, 5, "near"),
    ("auto", 900, 4_000, 5, "far"),
]
SMALL = [
    ("scatter", 600, 60, 4, "near"),
    ("gram", 60, 600, 4, "far"),
    ("krylov", 600, 90, 4, "near"),
]
HEADS = ["problem", "form", "seconds", "launches", "host waits", "bytes in addition to X"]


def measure(backend: Any, problem: tuple) -> dict[str, Any]:
    """Predictions of one fit, and what it takes: of each quantity a pair, or None if not known."""
    solver, n, d, n_classes, where = problem
    X, y = budgets.samples(n, d, n_classes)
    if where == "far":
        X += 1e3
    x = backend.array(X)
    options = {"solver": solver, "floor": budgets.coordinates.FLOOR_EPS}
    budgets.fit(x, y, **options)  # compiles what there is to compile
    with budgets.metered(backend) as found:
        model = budgets.fit(x, y, **options)
    plan = model.plan
    far = plan.block_bytes if where == "far" else 0
    return {
        "form": plan.form,
        "device": plan.device,
        "seconds": (plan.seconds, _seconds(backend.label, x, y, options)),
        "launches": (None, found.launches),
        "host waits": (budgets.FIT_READS[plan.form] + model.passes, found.reads),
        "bytes in addition to X": (plan.bytes + far, found.peak),
    }


def _seconds(label: str, x: Any, y: Any, options: dict[str, Any]) -> float | None:
    """The median of five fits; None for what is no GPU."""
    if label == SIMULATED or (label == "cupy" and is_emulated()):
        return None
    times = []
    for _ in range(5):
        synchronise(label)
        begin = time.perf_counter()
        budgets.fit(x, y, **options)
        synchronise(label)
        times.append(time.perf_counter() - begin)
    return sorted(times)[2]


def with_simulated_launches(found: dict[str, Any], problem: tuple) -> dict[str, Any]:
    """The same with the launches of the simulated device as the prediction."""
    with make_backend(SIMULATED) as backend:
        launches, _ = budgets.launches_of(backend, *problem)
    return {**found, "launches": (launches, found["launches"][1])}


def cell(name: str, pair: tuple) -> str:
    """Predicted → measured, and their ratio."""
    write = {
        "seconds": lambda value: f"{value:.4f}",
        "bytes in addition to X": format_bytes,
    }.get(name, str)
    predicted, measured = pair
    texts = ["–" if value is None else write(value) for value in pair]
    ratio = f" ({measured / predicted:.2f} ×)" if predicted and measured is not None else ""
    return " → ".join(texts) + ratio


def table(label: str, problems: list[tuple]) -> Iterator[str]:
    """Lines of Markdown for one device."""
    names = HEADS[2:]
    for i, problem in enumerate(problems):
        with make_backend(label) as backend:
            found = measure(backend, problem)
        found = with_simulated_launches(found, problem)
        if i == 0:
            yield f"**{label}**, profile: {found['device']}. Predicted → measured (ratio):"
            yield ""
            yield "| " + " | ".join(HEADS) + " |"
            yield "|---" * len(HEADS) + "|"
        solver, n, d, n_classes, where = problem
        text = f"{solver}, {n} × {d}, {n_classes}" + ", far from the origin" * (where == "far")
        cells = [text, found["form"], *(cell(name, found[name]) for name in names)]
        yield "| " + " | ".join(cells) + " |"
    yield ""


def main() -> None:
    """Print a table for each device that is here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="small problems, without a GPU")
    options = parser.parse_args()
    labels = available_on_gpu()
    if options.rehearse and not labels:
        labels = [SIMULATED]
    if not labels:
        raise SystemExit("neither CuPy nor Torch finds a CUDA device")
    for label in labels:
        for line in table(label, SMALL if options.rehearse else PROBLEMS):
            print(line, flush=True)


if __name__ == "__main__":
    main()
