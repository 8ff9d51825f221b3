"""Fits of dpnp on a SYCL device against NumPy on the same CPU: ``python -m benchmarks.sycl``.

Run it in the environment of ``make test-sycl``: ``make bench-sycl`` does. Data are on the device,
and each fit ends with its components on the host. Both libraries compute with the threads that
they choose by themselves, unless the environment says otherwise.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import Any

import numpy as np

import slce_xp
from benchmarks.report import largest_angle, write_between_markers
from benchmarks.timing import interleaved
from slce_xp import _backend

# samples, features, classes, form
SHAPES = [
    (20_000, 500, 10, "scatter"),
    (801, 20_531, 5, "gram"),
    (20_000, 2_000, 20, "krylov"),
]
ROUNDS = 5
DTYPE = "float32"


def fitted(x: Any, y: np.ndarray, solver: str) -> np.ndarray:
    """The components on the host: a fit that has really ended."""
    return _backend.to_host(slce_xp.fit(x, y, solver=solver).components)


def measure(n: int, d: int, n_classes: int, solver: str, rounds: int) -> list[str]:
    """Cells of one row of the table."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d), dtype=DTYPE)
    X[np.arange(n), y % d] += 30.0
    there = _backend.from_host(X, _backend.find_place("dpnp"))
    data = {"numpy": X, "dpnp": there}
    fits = {name: functools.partial(fitted, x, y, solver) for name, x in data.items()}
    seconds = interleaved(fits, rounds)
    angle = largest_angle(fits["numpy"](), fits["dpnp"]())
    ratio = seconds["dpnp"] / seconds["numpy"]
    times = [f"{1e3 * seconds[name]:.3g} ms" for name in data]
    return [solver, f"{n} × {d}, {n_classes}", *times, f"{ratio:.2f}", f"{angle:.0e}"]


def main() -> None:
    """Print the table, or write it to a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="a file with markers for the table")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each fit (%(default)s)")
    options = parser.parse_args()
    device = _backend.find_place("dpnp").device.sycl_device
    lines = [
        "| form | n × d, classes | NumPy | dpnp | dpnp / NumPy | angle between them |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(measure(*shape, options.rounds))} |" for shape in SHAPES]
    lines += ["", f"{DTYPE}, medians of {options.rounds} fits in turn; {device.name}."]
    text = "\n".join(lines)
    print(text)
    if options.write:
        write_between_markers(options.write, "sycl", text)


if __name__ == "__main__":
    main()
