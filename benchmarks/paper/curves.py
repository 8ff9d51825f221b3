"""Simulated curves, for the method of the paper's related work that needs them (SFPCA).

No package that this one depends on ships a set of real curves with labels. In both sets a curve is
a bump on a slow wave, which is unrelated to the class, with noise at every point. In the one the
classes differ in the bump's place (phase), in the other in its height (amplitude); what does not
tell the classes varies at random.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.datasets import DataSet, Samples

POINTS = np.linspace(0.0, 1.0, 101)
N_CLASSES, PER_CLASS = 4, 100
WIDTH, WAVE, NOISE = 0.08, 0.5, 0.3


def simulate(differs: str) -> Samples:
    """Curves as rows, shape (400, 101), and labels 0 to 3.

    Parameters
    ----------
    differs
        "phase" or "amplitude".
    """
    rng = np.random.default_rng(2018)
    y = np.repeat(np.arange(N_CLASSES), PER_CLASS)
    n = len(y)
    step = y - (N_CLASSES - 1) / 2
    jitter, swell = rng.standard_normal((2, n))
    place, height = 0.5 + 0.03 * jitter, 2.0 + 0.4 * swell
    if differs == "phase":
        place = place + 0.1 * step
    else:
        height = height + 0.8 * step
    bump = height[:, None] * np.exp(-0.5 * ((POINTS - place[:, None]) / WIDTH) ** 2)
    waves = np.array([np.sin(2 * np.pi * POINTS), np.cos(2 * np.pi * POINTS)])
    wave = WAVE * rng.standard_normal((n, 2)) @ waves
    return bump + wave + NOISE * rng.standard_normal((n, len(POINTS))), y


SIMULATED = {
    f"curves_{differs}": DataSet(
        f"Curves, {differs}",
        (N_CLASSES * PER_CLASS, len(POINTS)),
        (PER_CLASS,) * N_CLASSES,
        "simulated",
        "none",
        (),
        partial(simulate, differs),
    )
    for differs in ("phase", "amplitude")
}
