"""Validation of parameters: each function returns the value to use, or raises an error."""

from __future__ import annotations

import math
import operator
import secrets
from numbers import Real
from types import ModuleType
from typing import Any

import numpy as np

from . import _backend
from ._backend import Array, Place
from ._errors import invalid, naming, shown, wrong_type

# Beyond it, labelled samples of a similar scatter are lost in rounding, and squares of it overflow.
MOST_UNLABELED_WEIGHT = 1e15
CRITERIA = ("centroid", "separation")


def as_component_count(
    n_components: Any,
    n_classes: int,
    n_features: int,
    unsupervised: int | None = None,
    *,
    separates: bool = False,
) -> int:
    """Return how many components to compute at most: "positive" and shares are reduced later.

    Parameters
    ----------
    n_components, n_classes, n_features
    unsupervised : int, optional
        The number of samples, if some have no label: the bound K − 1 needs all labels.
    separates : bool
        True for criterion="separation": class means span no more than K − 1 dimensions.
    """
    default = min(n_classes - 1, n_features)
    if n_components is None:
        return default
    is_positive = isinstance(n_components, str) and n_components == "positive"
    if is_positive or as_share(n_components) is not None:
        return default if unsupervised is None else min(unsupervised, n_features)
    most, of = n_features, "number of features"
    if separates:
        most, of = default, "most that criterion='separation' has: number of classes − 1"
    rule = (
        f"n_components must be an integer from 1 to {most} (the {of}), a share between 0 and 1, "
        "None (number of classes − 1) or 'positive'"
    )
    return _as_integer(n_components, "n_components", rule, 1, most)


def as_criterion(criterion: Any) -> str:
    """Return the criterion that components optimise: "centroid" or "separation"."""
    if not isinstance(criterion, str) or criterion not in CRITERIA:
        valid = " or ".join(map(repr, CRITERIA))
        raise invalid("criterion", f"criterion must be {valid}; got {criterion!r}")
    return criterion


def check_separable(n_unlabeled: int) -> None:
    """Refuse samples without a label, which say nothing about the spread within classes."""
    if n_unlabeled:
        raise invalid(
            "unlabeled",
            f"unlabeled must mark no sample for criterion='separation'; it marks {n_unlabeled}. "
            "Leave these samples out, or use criterion='centroid'",
        )


def as_share(n_components: Any) -> float | None:
    """Return a share between 0 and 1; None if it is not one, such as a number of components."""
    is_float = isinstance(n_components, (float, np.floating))
    return float(n_components) if is_float and 0.0 < n_components < 1.0 else None


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
        raise wrong_type(name, f"{rule}; got {shown(value)}") from None
    if count < least or (most is not None and count > most):
        raise invalid(name, f"{rule}; got {count}")
    return count


def as_flag(value: Any, name: str) -> bool:
    """Return a boolean; anything else would count as true."""
    if not isinstance(value, (bool, np.bool)):
        raise wrong_type(name, f"{name} must be True or False; got {shown(value)}")
    return bool(value)


def as_number(
    value: Any, name: str, least: float, most: float, *, above: bool = False, rule: str = ""
) -> float:
    """Return a finite number from `least`, or above it, to `most`; `rule` says so."""
    is_real = isinstance(value, Real) and not isinstance(value, (bool, np.bool))
    number = float(value) if is_real else math.nan  # NaN compares false
    if math.isfinite(number) and least <= number <= most and not (above and number == least):
        return number
    limit = f" and at most {most:g}" if math.isfinite(most) else ""
    least_is = "above" if above else "of at least"
    message = f"{rule or f'{name} must be a finite number {least_is} {least:g}{limit}'}; got "
    message += shown(value)
    raise invalid(name, message) if is_real else wrong_type(name, message)


def as_missing(missing: Any) -> str | None:
    """Return what missing values become: None, an error, or "mean"."""
    if missing is not None and not (isinstance(missing, str) and missing == "mean"):
        raise invalid("missing", f"missing must be None or 'mean'; got {missing!r}")
    return missing


def as_tolerance(tol: Any) -> float:
    """Return the backward error at which an iteration stops, relative to T."""
    rule = "tol must be a number between 0 and 1, the residual relative to the scatter of X"
    return as_number(tol, "tol", 0.0, math.nextafter(1.0, 0.0), above=True, rule=rule)


def as_shrinkage(shrinkage: Any) -> float | None:
    """Return the weight of the diagonal in the metric; None: to be found."""
    if isinstance(shrinkage, str) and shrinkage == "auto":
        return None
    rule = "shrinkage must be 'auto' or a number from 0 to 1"
    return as_number(shrinkage, "shrinkage", 0.0, 1.0, rule=rule)


def as_unlabeled_weight(value: Any) -> float:
    """Return λ, the weight of samples without a label."""
    return as_number(value, "unlabeled_weight", 0.0, MOST_UNLABELED_WEIGHT)


def as_seed(value: Any) -> int:
    """Return a non-negative integer seed; of None, another one each time."""
    if value is None:
        return secrets.randbits(31)
    try:
        seed = -1 if isinstance(value, (bool, np.bool)) else operator.index(value)
    except TypeError:
        seed = -1
    if seed < 0:
        rule = "random_state must be None or an integer ≥ 0, such as 0"
        raise invalid("random_state", f"{rule}; got {shown(value)}")
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
                f"implicitly. Move X first, or pass backend={_backend.backend_argument(here.xp)} "
                "with that device",
            )
        return here
    there = named_place(backend, device)
    # X in that library stays on its device unless another one was named.
    return here if device is None and there.xp is here.xp else there


def check_same_place(array: Array, place: Place, name: str) -> None:
    """Raise ValueError if an array is not where the model is: nothing is moved implicitly."""
    here = _backend.place_of(array)
    is_known = None not in (here.device, place.device)  # of a traced array it is not
    if here.xp is not place.xp or (is_known and here.device != place.device):
        backend, device = _backend.backend_argument(here.xp), _backend.device_name(here.device)
        raise invalid(
            name,
            f"{name} must be where the model is ({place}); got {here}. Move {name} there, "
            f"or the model: model.to({backend}, device={device!r})",
        )
