"""Fits on a GPU against the host and cuML, with their residuals: ``python -m benchmarks.gpu``.

All contenders of a problem run in turn in one process, X already where it is needed; the device
is waited for before every reading of the clock. Prints Markdown. Where CuPy runs on a CPU
emulation, everything runs and no times are told.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import slce_xp
from benchmarks.memory import NAMES, available_on_gpu, devices, is_emulated, synchronise
from benchmarks.problems import synthetic
from benchmarks.speed import RESIDUAL, Reference
from benchmarks.timing import environment, interleaved
from slce_xp import _backend
from slce_xp._planning import plan as _plan
from slce_xp._planning.problem import Problem
from slce_xp.core._solution import FORMS

PLACES = {"cupy": ("cupy", None), "torch-cuda": ("torch", "cuda")}
SIZES = [
    (801, 20_531, 5, "float32"),
    (6000, 6000, 10, "float32"),
    (6000, 6000, 10, "float64"),
    (100_000, 2000, 20, "float32"),
    (20_000, 20_000, 50, "float32"),
]
SMALL_SIZES = [(300, 1000, 5, "float32"), (1000, 300, 5, "float64")]
FLOPS = 4e13  # forms that would take more are left out
HOST = "NumPy on the host, auto"


def contenders(
    host: np.ndarray, y: np.ndarray, backends: list[str]
) -> tuple[dict[str, Callable[[], None]], dict[str, slce_xp.Model]]:
    """What to run, and where the models go."""
    models: dict[str, slce_xp.Model] = {}

    def ours(name: str, X: Any, solver: str) -> Callable[[], None]:
        def run() -> None:
            models[name] = slce_xp.fit(X, y, solver=solver)

        return run

    n, d = host.shape
    n_classes = len(np.unique(y))
    runs = {HOST: ours(HOST, host, "auto")}
    for backend in backends:
        X = _backend.move(host, _backend.find_place(*PLACES[backend]))
        for solver in ("auto", *FORMS):
            dtype = host.dtype.name
            problem = Problem(n, d, n_classes, n_classes - 1, dtype, sums=dtype, accelerated=True)
            plan = _plan.choose(problem, _plan.Limits(), solver)
            if plan.flops <= FLOPS:
                name = f"{NAMES[backend]}, {solver}"
                runs[name] = ours(name, X, solver)
        if backend == "cupy" and importlib.util.find_spec("cuml"):
            cuml = importlib.import_module("cuml")
            runs["cuML PCA"] = lambda X=X, cuml=cuml: cuml.PCA(n_components=n_classes - 1).fit(X)
    return runs, models


def without_failing(
    runs: dict[str, Callable[[], None]],
) -> tuple[dict[str, Callable[[], None]], dict[str, str]]:
    """Those that run through once, and what the others said."""
    failed = {}
    for name, run in runs.items():
        try:
            run()
        except Exception as error:  # out of memory has another type in each library
            failed[name] = f"{type(error).__name__}: {error}".splitlines()[0][:120]
    return {name: run for name, run in runs.items() if name not in failed}, failed


def race(size: tuple, backends: list[str], rounds: int) -> list[str]:
    """One problem as rows of Markdown."""
    n, d, n_classes, dtype = size
    host, y = synthetic(*size)
    runs, models = contenders(host, y, backends)
    runs, failed = without_failing(runs)

    def wait() -> None:
        for backend in backends:
            synchronise(backend)

    times = {} if is_emulated() else interleaved(runs, rounds, wait)
    reference = Reference(host, y)
    rows = []
    for name in runs:
        form, residual, fine = "–", "–", True
        if name in models:
            model = models[name].to("numpy")
            values = model.eigenvalues.astype(np.float64)
            largest = reference.residual(model.components.astype(np.float64), values)
            form, residual, fine = model.solver, f"{largest:.0e}", largest <= RESIDUAL[dtype]
        seconds = f"{times[name]:.4f}" if name in times else "emulated, no time"
        if not fine:
            seconds = "no time: residual too large"
        ratio = f"{times[HOST] / times[name]:.2f}" if fine and {HOST, name} <= set(times) else "–"
        rows.append([name, form, seconds, ratio, residual])
    rows += [[name, "–", f"failed: {message}", "–", "–"] for name, message in failed.items()]
    heads = ["contender", "form", "seconds", "× faster than host", "largest residual"]
    return [
        f"**{n} × {d}, {n_classes} classes, {dtype}**",
        "",
        "| " + " | ".join(heads) + " |",
        "|---" * len(heads) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]


def main() -> None:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="small sizes, for a rehearsal")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (%(default)s)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    backends = available_on_gpu()
    if not backends:
        raise SystemExit("neither CuPy nor Torch finds a CUDA device")
    print(environment() + "\n")
    for backend, where in devices(backends).items():
        print(f"- {NAMES[backend]}: {where}")
    print()
    begin = time.perf_counter()
    for size in SMALL_SIZES if options.small else SIZES:
        print("\n".join(race(size, backends, options.rounds)), flush=True)
    if not is_emulated():
        print(f"All of it took {time.perf_counter() - begin:.0f} s.")


if __name__ == "__main__":
    main()
