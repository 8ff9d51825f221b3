"""Validation of the arguments of plots."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from slce_xp import Model, _backend
from slce_xp._data.matrix import as_matrix
from slce_xp._errors import invalid, wrong_type
from slce_xp.plot._looks import short


def is_model(value: Any) -> bool:
    """Return whether it is a model or a fitted estimator."""
    return isinstance(getattr(value, "model_", value), Model)


def as_model(model: Any) -> Model:
    """Return the model, or that of a fitted estimator, if it has components."""
    if not is_model(model):
        raise wrong_type(
            "model",
            f"model must be a Model or a fitted SLCE; got {type(model).__name__}. "
            "Fit one: slce_xp.fit(X, y)",
        )
    found: Model = getattr(model, "model_", model)
    if found.n_components == 0:
        raise invalid(
            "model",
            "model must have components to draw; got one without any, because no direction lowers "
            "the loss: the classes overlap. Fit with n_components=2 to see the directions anyway",
        )
    return found


def embed(model: Model, X: Any) -> np.ndarray:
    """Return the embedding of samples, on the host."""
    return _on_host(model.transform(X))


def _on_host(Z: Any) -> np.ndarray:
    return _backend.to_host(Z.compute() if _backend.is_dask(Z) else Z)


def as_points(Z: Any, name: str, width: int | None = None) -> np.ndarray:
    """Return an embedding on the host, in double precision."""
    matrix = as_matrix(Z, name=name)
    if isinstance(matrix, _backend.Sparse):
        raise wrong_type(
            name, f"{name} must be dense, as transform returns it; got a sparse matrix"
        )
    if not _backend.is_array(matrix) and not _backend.is_dask(matrix):  # a file that is read
        matrix = np.asarray(Z[:])
    values = _on_host(matrix).astype(np.float64)
    if width is not None and values.shape[1] != width:
        raise invalid(
            name,
            f"{name} must have {width} columns, as many as Z; got shape {values.shape}. "
            "Embed both with the same model",
        )
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        message = f"{name} must be finite; got {values[row]} in row {row}. Drop such rows"
        raise invalid(name, message)
    return values


def as_components(components: Any, k: int, *, most: int | None = 3, default: int = 2) -> list[int]:
    """Return the indices of the components to draw; the first ones by default."""
    if k == 0:
        raise invalid("Z", "Z must have at least one column, a component to draw; got none")
    if components is None:
        return list(range(min(k, default)))
    rule = f"components must be {f'1 to {most} ' if most else ''}indices from 0 to {k - 1}"
    try:
        chosen = [operator.index(i) for i in components]
    except TypeError:
        raise wrong_type("components", f"{rule}; got {components!r}") from None
    if not 0 < len(chosen) <= (most or k) or not all(0 <= i < k for i in chosen):
        raise invalid("components", f"{rule}; got {components!r}")
    return chosen


def feature_names(names: Iterable[Any] | None, found: Any, d: int) -> list[str]:
    """Return shortened names of d features; those of a model or other result by default."""
    if names is None:
        names = found.feature_names
    if names is None:
        return [f"feature {j + 1}" for j in range(d)]
    listed = list(names)
    if len(listed) != d:
        message = f"names must name each feature, {d} in all; got {len(listed)}"
        raise invalid("names", message)
    return short(listed)
