"""Measure what the plan's cost model needs: ``python -m benchmarks.calibrate``.

Prints the constants of ``slce_xp/_planning/plan.py`` as this machine has them, and checks the
choice that they lead to against the forms' own times on shapes around the crossings.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.datasets import load
from benchmarks.problems import DATA_SETS, synthetic
from benchmarks.timing import environment, interleaved
from slce_xp import _backend
from slce_xp._data import labels as _labels
from slce_xp._planning import plan as _plan
from slce_xp.core.rows import DenseRows
from slce_xp.core.solution import Request
from slce_xp.core.solve import solve


def constants(m: int = 1000) -> dict[str, float]:
    """The cost of each step, in flops of a large matrix product."""
    rng = np.random.default_rng(0)
    square = rng.standard_normal((m, m))
    tall = rng.standard_normal((20 * m, m))
    scatter = tall.T @ tall
    block = rng.standard_normal((8, m))

    def narrow() -> None:
        (block @ tall.T) @ tall

    times = interleaved(
        {
            "product": lambda: square @ square,
            "syrk": lambda: tall.T @ tall,
            "eigh": lambda: _backend.largest_eigenpairs(scatter, 10),
            "factor": lambda: (np.linalg.cholesky(scatter), scatter.T @ scatter),
            "narrow": narrow,
        },
        rounds=7,
    )
    # The unit: what a SYRK takes for n·d² of its n·d² flops, the dense forms' main work.
    rate = 20 * m * m * m / times["syrk"]
    entries = tall.size
    return {
        "EIGH_FLOPS": times["eigh"] * rate / m**3,
        "FACTOR_FLOPS": times["factor"] * rate / m**3,
        "READ_FLOPS": (times["narrow"] * rate - 4.0 * entries * 8) / entries,
        "GEMM GFLOP/s": 2 * m**3 / times["product"] / 1e9,
        "SYRK GFLOP/s": rate / 1e9,
    }


SHAPES = [
    (400, 8000, 5),
    (800, 16000, 5),
    (1600, 8000, 5),
    (3000, 6000, 5),
    (8000, 400, 5),
    (16000, 800, 10),
    (12000, 1600, 10),
    (8000, 3000, 10),
    (2000, 2000, 10),
]


def widths(X: np.ndarray, y: np.ndarray) -> None:
    """Passes and seconds of the matrix-free form, by width and number of wide passes."""
    labels = _labels.as_labels(y, X.shape[0])
    n_classes = len(labels.classes)
    problem = _plan.Problem(*X.shape, n_classes, n_classes - 1, X.dtype.name)
    plan = _plan._estimate("krylov", problem, "auto", _plan.Limits())
    for width in (16, 32, 64, 128):
        cells = []
        for wide_passes in (2, 3, _plan.WIDE_WIDE_PASSES):
            request = Request(n_classes - 1, 1e-8, 50, width, wide_passes)

            def run(request: Request = request) -> int:
                return solve(DenseRows(X), labels.counted()[0], plan.form, request, seed=0)[
                    1
                ].passes

            seconds = interleaved({"krylov": run}, rounds=1)["krylov"]
            cells.append(f"{run():>3} passes {seconds:7.3f} s")
        print(f"  width {width:>3}, wide for 2 / 3 / all passes: " + " | ".join(cells), flush=True)


def main() -> None:
    """Print constants, then measured times of each form beside the plan's choice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="measure widths on this folder's data sets")
    parser.add_argument("--only", nargs="*", default=DATA_SETS, help="names of data sets")
    options = parser.parse_args()
    print(environment())
    if options.data:
        for name in options.only:
            X, y = load(name, options.data)
            print(f"{name}: {X.shape[0]} × {X.shape[1]}")
            widths(X, y)
        return
    for name, value in constants().items():
        print(f"  {name} = {value:.3g}")
    print(f"\n{'shape':>20} {'scatter':>9} {'gram':>9} {'krylov':>9}  plan    regret")
    for n, d, n_classes in SHAPES:
        X, y = synthetic(n, d, n_classes)
        contenders = {}
        problem = _plan.Problem(n, d, n_classes, n_classes - 1, "float64")
        plan = _plan.choose(problem, _plan.Limits(), "auto")
        for form in _plan.FORMS:
            cost = _plan._estimate(form, problem, "auto", _plan.Limits()).flops
            if cost < 12 * plan.flops:
                contenders[form] = by_form(X, y, form)
        times = interleaved(contenders, rounds=3)
        cells = [f"{times[form]:9.3f}" if form in times else f"{'-':>9}" for form in _plan.FORMS]
        regret = times[plan.form] / min(times.values())
        print(f"{n:>9} × {d:<8} {' '.join(cells)}  {plan.form:7} {regret:.2f}", flush=True)


def by_form(X: np.ndarray, y: np.ndarray, form: str) -> Callable[[], object]:
    """A solve by one form, with the schedule that "auto" would give it."""
    labels = _labels.as_labels(y, X.shape[0])
    n_classes = len(labels.classes)
    k = n_classes - 1
    problem = _plan.Problem(*X.shape, n_classes, k, X.dtype.name)
    plan = _plan._estimate(form, problem, "auto", _plan.Limits())
    request = Request(k, 1e-8, 50, plan.width, plan.wide_passes)
    return lambda: solve(DenseRows(X), labels.counted()[0], plan.form, request, seed=0)


if __name__ == "__main__":
    main()
