"""Checks of parameters: each returns the value to use, or raises an error."""

from __future__ import annotations

import operator
from types import ModuleType
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, Place


def as_component_count(
    n_components: Any, n_classes: int, n_features: int, supervised: bool = True
) -> int:
    """How many components to compute at most; `"positive"` is cut down after the solve."""
    default = min(n_classes - 1, n_features)
    if n_components is None:
        return default
    if isinstance(n_components, str) and n_components == "positive":
        return default if supervised else n_features  # samples without a label lift the bound
    rule = f"n_components must be an integer from 1 to {n_features} (the number of features)"
    other = "None (number of classes − 1) or 'positive'"
    if isinstance(n_components, (bool, np.bool, str)):  # NumPy 2.2 takes its own for an index
        raise TypeError(f"{rule}, {other}; got {n_components!r}")
    try:
        count = operator.index(n_components)
    except TypeError:
        raise TypeError(f"{rule}, {other}; got {n_components!r}") from None
    if not 1 <= count <= n_features:
        raise ValueError(f"{rule}, {other}; got {count}")
    return count


def as_count(value: Any, name: str, least: int, most: int | None = None) -> int:
    """An integer of at least `least` and at most `most`."""
    limit = f" and at most {most}" if most is not None else ""
    rule = f"{name} must be an integer of at least {least}{limit}"
    if isinstance(value, (bool, np.bool)):
        raise TypeError(f"{rule}; got {value!r}")
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{rule}; got {value!r}") from None
    if count < least or (most is not None and count > most):
        raise ValueError(f"{rule}; got {count}")
    return count


def as_tolerance(tol: Any, eps: float) -> float:
    """The relative residual to reach; None is what the dtype can reach with ease."""
    if tol is None:
        return max(1e-8, 32.0 * eps)
    rule = "tol must be a number between 0 and 1, the residual relative to ‖M‖, or None"
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.floating)):
        raise TypeError(f"{rule}; got {tol!r}")
    if not 0.0 < tol < 1.0:
        raise ValueError(f"{rule}; got {tol!r}")
    return float(tol)


def as_seed(random_state: Any) -> int:
    """Return a non-negative integer seed."""
    try:
        seed = -1 if isinstance(random_state, (bool, np.bool)) else operator.index(random_state)
    except TypeError:
        seed = -1
    if seed < 0:
        raise ValueError(f"random_state must be an integer ≥ 0, such as 0; got {random_state!r}")
    return seed


def find_place(X: Array, backend: str | ModuleType | None, device: Any) -> Place:
    """Where to compute: what the caller named, else where X is."""
    here = _backend.place_of(X)
    if _backend.is_dask(X) and not (backend is None and device is None):
        raise ValueError(
            f"backend and device must be None for a Dask array, which is computed with where its "
            f"chunks are ({here}); got backend={backend!r}, device={device!r}. Move the chunks: "
            "X.map_blocks(cupy.asarray)"
        )
    if backend is None:
        if device is not None:
            there = _backend.find_place(here.xp, device)
            if there.device != here.device:
                name = _backend.backend_name(here.xp)
                raise ValueError(
                    f"X is on {here.device} and device={device!r} asks for another; nothing is "
                    f"moved unasked. Move X first, or pass backend={name!r} with that device"
                )
        return here
    there = _backend.find_place(backend, device)
    # X already in that library stays on its device unless another one was named.
    return here if device is None and there.xp is here.xp else there


def check_same_place(array: Array, place: Place, name: str) -> None:
    """A fitted model works where it lives: nothing is moved unasked."""
    here = _backend.place_of(array)
    if here.xp is not place.xp or here.device != place.device:
        backend, device = _backend.backend_name(here.xp), _backend.device_name(here.device)
        raise ValueError(
            f"{name} must be where the model is ({place}); got {here}. Move {name} there, "
            f"or the model: model.to({backend!r}, device={device!r})"
        )
