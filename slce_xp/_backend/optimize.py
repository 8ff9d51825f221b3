"""Minimisation of functions on the host, by SciPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

# A step that gains less, relative to the value or to 1 if that is less, is the last one.
LEAST_GAIN = 1e-10
LEAST_SLOPE = 1e-6  # derivatives at a minimum, at most


def minimize(
    value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    most_steps: int,
) -> np.ndarray:
    """A local minimum near a start, (m,) ↦ (m,), or where the last step ended."""
    optimize: Any = importlib.import_module("scipy.optimize")
    options = {"maxiter": most_steps, "ftol": LEAST_GAIN, "gtol": LEAST_SLOPE}
    found = optimize.minimize(
        value_and_gradient, start, jac=True, method="L-BFGS-B", options=options
    )
    return np.asarray(found.x)
