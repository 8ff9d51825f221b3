"""What SciPy computes on the host, whichever library X is of."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np


def special() -> Any:
    """SciPy's special functions."""
    return importlib.import_module("scipy.special")


def minimize(
    value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    most_steps: int,
) -> np.ndarray:
    """A local minimum near a start, (m,) ↦ (m,), or where the last step ended."""
    optimize: Any = importlib.import_module("scipy.optimize")
    how = {"method": "L-BFGS-B", "options": {"maxiter": most_steps}}
    found = optimize.minimize(value_and_gradient, start, jac=True, **how)
    return np.asarray(found.x)


def incidence(first: np.ndarray, second: np.ndarray, count: int) -> Any:
    """The sparse matrix that subtracts pairs of rows: (P,), (P,) ↦ (P, count)."""
    sparse: Any = importlib.import_module("scipy.sparse")
    size = 2 * len(first)
    ends = np.stack([first, second], axis=1).reshape(size)
    values = np.tile([1.0, -1.0], len(first))
    return sparse.csr_array((values, ends, np.arange(0, size + 1, 2)), shape=(len(first), count))
