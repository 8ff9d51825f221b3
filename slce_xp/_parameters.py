"""Validation of parameters: each function returns the value to use, or raises an error."""

from __future__ import annotations

import operator
from types import ModuleType
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, Place
from slce_xp._errors import invalid, naming, wrong_type


def as_component_count(
    n_components: Any, n_classes: int, n_features: int, supervised: bool = True
) -> int:
    """Return how many components to compute at most; the solve may leave fewer: `is_reduced`."""
    default = min(n_classes - 1, n_features)
    if n_components is None:
        return default
    if is_reduced(n_components):
        return default if supervised else n_features  # the bound K − 1 needs all labels
    rule = (
        f"n_components must be an integer from 1 to {n_features} (the number of features), a share "
        "of the loss between 0 and 1, None (number of classes − 1) or 'positive'"
    )
    return _as_integer(n_components, "n_components", rule, 1, n_features)


def is_reduced(n_components: Any) -> bool:
    """Whether eigenvalues decide how many are kept: "positive", or a share of the loss."""
    if isinstance(n_components, str):
        return n_components == "positive"
    return isinstance(n_components, (float, np.floating)) and 0.0 < float(n_components) < 1.0


def as_count(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Return an integer of at least `least` and at most `most`."""
    limit = f" and at most {most}" if most is not None else ""
    return _as_integer(
        value, name, f"{name} must be an integer of at least {least}{limit}", least, most
    )


def _as_integer(value: Any, name: str, rule: str, least: int, most: int | None) -> int:
    try:
        if isinstance(value, (bool, np.bool)):  # NumPy 2.2 accepts its own as an index
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise wrong_type(name, f"{rule}; got {value!r}") from None
    if count < least or (most is not None and count > most):
        raise invalid(name, f"{rule}; got {count}")
    return count


def as_tolerance(tol: Any, eps: float) -> float:
    """Return the relative residual to reach; None: one that the dtype reaches easily."""
    if tol is None:
        return max(1e-8, 32.0 * eps)
    rule = "tol must be a number between 0 and 1, the residual relative to ‖M‖, or None"
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.floating)):
        raise wrong_type("tol", f"{rule}; got {tol!r}")
    if not 0.0 < tol < 1.0:
        raise invalid("tol", f"{rule}; got {tol!r}")
    return float(tol)


def as_seed(random_state: Any) -> int:
    """Return a non-negative integer seed."""
    try:
        seed = -1 if isinstance(random_state, (bool, np.bool)) else operator.index(random_state)
    except TypeError:
        seed = -1
    if seed < 0:
        raise invalid(
            "random_state",
            f"random_state must be an integer ≥ 0, such as 0; got {random_state!r}",
        )
    return seed


def named_place(backend: str | ModuleType, device: Any) -> Place:
    """Return the place that a backend and a device name."""
    try:
        return _backend.find_place(backend, device)
    except Exception as error:
        naming("device" if str(error).startswith("device") else "backend", error)
        raise


def find_place(X: Array, backend: str | ModuleType | None, device: Any) -> Place:
    """Return where to compute: the place that the caller named, or else where X is."""
    here = _backend.place_of(X)
    if _backend.is_dask(X) and not (backend is None and device is None):
        raise invalid(
            "device" if backend is None else "backend",
            f"backend and device must be None for a Dask array, which is computed where its "
            f"chunks are ({here}); got backend={backend!r}, device={device!r}. Move the chunks: "
            "X.map_blocks(cupy.asarray)",
        )
    if backend is None:
        if device is not None and named_place(here.xp, device).device != here.device:
            raise invalid(
                "device",
                f"X is on {here.device} and device={device!r} asks for another; nothing is moved "
                f"implicitly. Move X first, or pass backend={_backend.backend_name(here.xp)!r} "
                "with that device",
            )
        return here
    there = named_place(backend, device)
    # X in that library stays on its device unless another one was named.
    return here if device is None and there.xp is here.xp else there


def check_same_place(array: Array, place: Place, name: str) -> None:
    """Raise ValueError if an array is not where the model is: nothing is moved implicitly."""
    here = _backend.place_of(array)
    if here.xp is not place.xp or here.device != place.device:
        backend, device = _backend.backend_name(here.xp), _backend.device_name(here.device)
        raise invalid(
            name,
            f"{name} must be where the model is ({place}); got {here}. Move {name} there, "
            f"or the model: model.to({backend!r}, device={device!r})",
        )
