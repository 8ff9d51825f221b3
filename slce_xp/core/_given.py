"""Validation of what the functions of the core are given: each returns what to use, or raises."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _backend
from .._backend import Array, Place, Sparse
from .._errors import invalid, traced, wrong_type
from ._rows import Rows


def check_plain(*arrays: Any) -> None:
    """Raise TypeError for arrays without values, or whose derivatives would be lost."""
    for array, name in zip(arrays, ("x", "weights"), strict=False):
        if _backend.is_traced(array):
            raise traced(name, "Only class_sums and largest_eigenpairs can be traced")
        if _backend.requires_grad(array):
            raise wrong_type(
                name,
                f"{name} must not require a gradient, which would be lost. Pass {name}.detach(); "
                "class_sums, largest_eigenpairs and eigenpairs have derivatives",
            )


def as_matrix(x: Any, name: str = "x", *, dense: bool = False, stacked: bool = False) -> Array:
    """A matrix of real numbers, or a stack: an array, or a `Sparse` unless it has to be dense."""
    sparse = "" if dense else ", or a sparse matrix of SciPy, CuPy or torch"
    stack = ", or a stack of such arrays" if stacked else ""
    rule = f"{name} must be a two-dimensional array of real numbers{sparse}{stack}"
    check_not_masked(x, name)
    is_sparse = _backend.is_sparse(x) and not dense
    if not is_sparse and (_backend.is_sparse(x) or not _backend.is_array(x)):
        raise wrong_type(name, f"{rule}; got {type(x).__name__}. Convert it to such an array")
    if len(x.shape) < 2 or (len(x.shape) > 2 and not stacked):
        raise invalid(name, f"{rule}; got shape {tuple(x.shape)}. Reshape it to rows and columns")
    if is_sparse:
        check_plain(x)
        x = Sparse(x)
    if _backend.working_dtype(x) is None:
        dtype = _backend.dtype_name(x.dtype)
        raise wrong_type(name, f"{rule}; got dtype {dtype}. Convert it to floating point")
    return x


def as_floats(x: Any, name: str, *, stacked: bool = False) -> Array:
    """A dense matrix, or a stack of them, in the floating dtype that it is computed in."""
    x = as_matrix(x, name, dense=True, stacked=stacked)
    xp, _ = _backend.place_of(x)
    return xp.astype(x, _backend.working_dtype(x), copy=False)


def as_codes(codes: Any, n: int, n_classes: int) -> np.ndarray:
    """Class codes on the host."""
    check_not_masked(codes, "codes")
    host = np.asarray(_on_host(codes))
    rule = f"codes must be integers from 0 to n_classes = {n_classes}"
    check_length(host, n, "codes")
    if host.dtype.kind not in "iu":
        raise invalid("codes", f"{rule}; got dtype {host.dtype}. Convert them to integers")
    low, high = host.min(initial=0), host.max(initial=0)
    if low < 0 or high > n_classes:
        raise invalid("codes", f"{rule}; got codes from {low} to {high}. Number the classes from 0")
    return host.astype(np.int64, copy=False)


def as_weights(weights: Any, n: int) -> np.ndarray | None:
    """Weights of rows on the host, finite and in double precision; None stays None."""
    if weights is None:
        return None
    check_not_masked(weights, "weights")
    host = np.asarray(_on_host(weights))
    check_length(host, n, "weights")
    if host.dtype.kind not in "biuf":
        raise wrong_type(
            "weights", f"weights must be real numbers; got dtype {host.dtype}. Convert them"
        )
    if not np.isfinite(host).all():
        first = int(np.argmin(np.isfinite(host)))
        raise invalid(
            "weights",
            f"weights must be finite; got {host[first]} at position {first}. Leave out such rows",
        )
    return host.astype(np.float64, copy=False)


def put_weights(weights: Any, host: np.ndarray | None, rows: Rows) -> Array | None:
    """Weights where passes compute; with their history of derivatives if they are there already."""
    if _backend.is_array(weights) and _backend.place_of(weights) == rows.place:
        return rows.place.xp.astype(weights, rows.dtype, copy=False)
    return rows.put(host)


def as_traced(values: Any, name: str, n: int, place: Place) -> Array:
    """Values of rows, with or without values that can be read, at a place."""
    if not (_backend.is_array(values) and _backend.namespace_of(values) is place.xp):
        values = _backend.from_host(np.asarray(values), place)
    check_length(values, n, name)
    return values


def check_length(values: Array, n: int, name: str) -> None:
    """Raise ValueError unless there is one value for each of n rows."""
    if tuple(values.shape) != (n,):
        raise invalid(
            name,
            f"{name} must have shape ({n},), one for each row; got shape {tuple(values.shape)}",
        )


def check_not_masked(values: Any, name: str) -> None:
    """Raise TypeError for a masked array: nothing here would see its mask."""
    if isinstance(values, np.ma.MaskedArray):
        raise wrong_type(
            name,
            f"{name} must not be a masked array, its mask would be lost. Leave out those rows, "
            f"or fill it: {name}.filled(value)",
        )


def _on_host(values: Any) -> Any:
    """An array of any library on the host; anything else as it is."""
    return _backend.to_host(values) if _backend.is_array(values) else values
