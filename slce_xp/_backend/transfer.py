"""How values move: to the host, from it, and between libraries and devices."""

from __future__ import annotations

import math
from functools import partial
from types import ModuleType
from typing import Any

import array_api_compat as compat
import numpy as np

from .places import (
    BACKENDS,
    NUMPY,
    Array,
    Matrix,
    Place,
    backend_name,
    first_line,
    place_of,
)
from .precision import dtype_name, real_dtypes

_DLPACK_CPU = 1  # kDLCPU


def to_host(x: Array) -> np.ndarray:
    """Read an array as NumPy: the one way values leave a device.

    Every call waits for the device, so the number of calls is the number of host
    synchronisations of a computation.
    """
    if isinstance(x, np.ndarray):
        return x
    if compat.is_cupy_array(x):
        return x.get()  # type: ignore[no-any-return]
    if compat.is_torch_array(x):
        return _torch_to_host(x)
    if compat.is_jax_array(x):
        return np.asarray(x)
    return _any_to_host(x)


def _any_to_host(x: Array) -> np.ndarray:
    """Copy an array of any library to the host: by the standard's protocol, or its own way."""
    refusals = []
    for way in (_by_dlpack, _by_own_method, np.asarray):
        try:
            values = way(x)
        except Exception as error:  # each library raises its own kind
            refusals.append(error)
        else:
            if isinstance(values, np.ndarray) and values.dtype != object:
                return values
    raise TypeError(
        f"the values of an array of {place_of(x)} cannot be read "
        f"({first_line(refusals[0]) if refusals else 'as numbers'}). Convert it to NumPy first, in "
        "that library's own way"
    )


def _by_dlpack(x: Array) -> Any:
    on_host = x.__dlpack_device__()[0] == _DLPACK_CPU
    # A copy is asked for: without, some libraries refuse to leave a device.
    return np.from_dlpack(x, device="cpu", copy=None if on_host else True)


def _by_own_method(x: Array) -> Any:
    for name in ("asnumpy", "numpy", "get"):
        if hasattr(x, name):
            return getattr(x, name)()
    return None


_COPY = partial(np.array, dtype=np.float64)


def read(*arrays: Array) -> list[np.ndarray]:
    """Arrays of one dtype on the host, in double precision: all of them in one transfer."""
    if isinstance(arrays[0], (np.ndarray, np.generic)):
        return list(map(_COPY, arrays))
    xp, _ = place_of(arrays[0])
    parts = [xp.reshape(a, (-1,)) for a in arrays]
    flat = to_host(parts[0] if len(parts) == 1 else xp.concat(parts)).astype(np.float64)
    stops = np.cumsum([math.prod(a.shape) for a in arrays])
    parts = np.split(flat, stops[:-1])
    return [part.reshape(a.shape) for part, a in zip(parts, arrays, strict=True)]


def _torch_to_host(x: Array) -> np.ndarray:
    x = x.detach().cpu()
    if str(x.dtype) == "torch.bfloat16":  # NumPy has no such type; float32 holds it exactly
        x = x.float()
    return x.numpy()  # type: ignore[no-any-return]


def from_host(values: np.ndarray, place: Place, dtype: Any = None) -> Array:
    """A NumPy array at `place`; shares memory if the library can."""
    xp, device = place
    if xp is NUMPY.xp:
        return np.asarray(values, dtype=dtype)
    # No other library has a foreign byte order or floats longer than float64.
    native = (
        np.dtype(np.float64) if values.dtype == np.longdouble else values.dtype.newbyteorder("=")
    )
    # Converted here, not over there: the device never holds both.
    values = values.astype(native if dtype is None else dtype_name(dtype), copy=False)
    is_known = backend_name(xp) in BACKENDS
    if (compat.is_torch_namespace(xp) or not is_known) and (
        not values.flags.writeable or any(stride < 0 for stride in values.strides)
    ):
        # Torch refuses negative strides and warns that it could write to read-only memory; others
        # refuse either.
        values = values.copy()
    if not is_known:
        return _any_from_host(values, place)
    try:
        return xp.asarray(values, dtype=dtype, device=device)
    except (TypeError, ValueError) as error:
        if values.dtype != np.float64:
            raise
        raise _no_float64(place, error) from error


def _any_from_host(values: np.ndarray, place: Place) -> Array:
    """A NumPy array in a library that is known by the standard only.

    Its asarray need not know NumPy's arrays; its from_dlpack does.
    """
    refusals = []
    for way in (place.xp.from_dlpack, place.xp.asarray):
        try:
            return way(values, device=place.device)
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            refusals.append(error)
    if values.dtype == np.float64 and "float64" not in real_dtypes(place):
        raise _no_float64(place, refusals[0]) from refusals[0]
    raise TypeError(
        f"{place} does not take {values.dtype} arrays of NumPy: neither from_dlpack(x, device=...) "
        f"works ({first_line(refusals[0])}) nor asarray(x, device=...) "
        f"({first_line(refusals[1])}). Convert X to a dtype that it has, or to another library"
    ) from refusals[0]


def _no_float64(place: Place, error: Exception) -> TypeError:
    return TypeError(
        f"{place} cannot hold float64 ({first_line(error)}); fit in single precision there, "
        "with X.astype('float32')"
    )


def move(x: Array, place: Place) -> Array:
    """Bring an array of any library to `place`."""
    if isinstance(x, Matrix):
        return x.move(place)
    here = place_of(x)
    if here.xp is place.xp:
        if here.device == place.device:
            return x
        return compat.to_device(x, place.device)
    if _on_accelerator(x) and _is_accelerator(place):
        # From one GPU library to another without a way through the host.
        return compat.to_device(place.xp.from_dlpack(x), place.device)
    return from_host(to_host(x), place)


def _on_accelerator(x: Array) -> bool:
    # CUDA's own and its managed memory: no other device's can be handed over.
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] in (2, 13)


def _is_accelerator(place: Place) -> bool:
    return compat.is_cupy_namespace(place.xp) or "cuda" in str(place.device).lower()


def row_slices_are_views(xp: ModuleType) -> bool:
    """Whether some rows of a matrix can be multiplied without a copy: XLA may make one."""
    return not compat.is_jax_namespace(xp)


def detached(x: Array) -> Array:
    """`x` without its autograd history: a fit is not differentiated."""
    return x.detach() if not isinstance(x, Matrix) and compat.is_torch_array(x) else x


def put_rows(target: Array, start: int, rows: Array) -> Array:
    """`target` with some rows replaced: in place if the library can, otherwise a copy."""
    stop = start + rows.shape[0]
    xp, _ = place_of(target)
    if compat.is_jax_namespace(xp):
        return xp.concat([target[:start, :], rows, target[stop:, :]], axis=0)
    target[start:stop, :] = rows
    return target


def without_rows(x: Array) -> Array:
    """An array like `x` without rows, to find its dtype elsewhere."""
    xp, device = place_of(x)
    return xp.empty((0, x.shape[1]), dtype=x.dtype, device=device)


def draw_normal(seed: int, shape: tuple[int, ...], place: Place, dtype: Any) -> Array:
    """Standard normal numbers, the same for every backend: drawn by NumPy and moved."""
    return from_host(np.random.default_rng(seed).standard_normal(shape), place, dtype)
