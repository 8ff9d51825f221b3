"""How times are taken: warm-up, contenders in turn, medians, the machine named."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Mapping

import numpy as np

# BLAS threads spin for a tenth of a second after their work; the next contender must not pay for
# that.
SETTLE_SECONDS = 0.15


def interleaved(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    synchronise: Callable[[], None] = lambda: None,
    warm_ups: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    settle: float = SETTLE_SECONDS,
) -> dict[str, float]:
    """Median seconds of each contender, run in turn after one warm-up each.

    Every lap begins with another one, so that none always follows the same one. The processor time
    of one thread, ``clock=time.process_time``, is worth more than the time on the wall if other
    programs use the machine. `settle` are seconds before each run.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders.items())
    for lap in range(warm_ups + rounds):
        first = lap % max(1, len(order))
        for name, run in order[first:] + order[:first]:
            time.sleep(settle)
            synchronise()
            start = clock()
            run()
            synchronise()
            if lap >= warm_ups:
                seconds[name].append(clock() - start)
    return {name: float(np.median(times)) for name, times in seconds.items()}


def versions() -> dict[str, str]:
    """Versions of what takes part."""
    found = {"python": platform.python_version()}
    names = ["slce-xp", "numpy", "scipy", "scikit-learn", "torch", "jax", "memray"]
    names += ["cupy", "cupy-cuda12x", "cupy-cuda13x", "cuml-cu12", "cuml-cu13"]
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def threads() -> str:
    """How many threads the BLAS libraries use."""
    try:
        pools = importlib.import_module("threadpoolctl").threadpool_info()
    except ImportError:
        return f"{os.cpu_count()} cores"
    return ", ".join(sorted({f"{p['internal_api']} {p['num_threads']}" for p in pools}))


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def environment() -> str:
    """One line on machine, versions and threads."""
    parts = [f"{name} {version}" for name, version in versions().items()]
    return f"{platform.machine()}, {os.cpu_count()} cores; threads: {threads()}; " + ", ".join(
        parts
    )
