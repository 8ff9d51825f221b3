"""Dtypes, and full precision while numbers are worked with."""

from __future__ import annotations

import contextlib
import importlib
import traceback
from collections.abc import Hashable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any

import array_api_compat as compat
import numpy as np

from .places import Array, Place, first_line, is_accelerated, jax, place_of


def dtype_name(dtype: Hashable) -> str:
    """'float32' for any library's float32."""
    return _dtype_name(type(dtype), dtype)


@lru_cache(maxsize=256)
def _dtype_name(kind: Hashable, dtype: Hashable) -> str:
    # The kind comes first, so that dtypes of two libraries are never compared.
    if isinstance(dtype, (type, np.dtype)):  # np.float32 is a class, not a dtype
        return np.dtype(dtype).name
    return str(dtype).rpartition(".")[2]


def working_dtype(x: Array) -> Any:
    """The dtype to compute in, or None if `x` does not hold real numbers.

    float32 and float64 stay, shorter floats become float32, longer ones float64,
    integers and booleans the library's default.
    """
    xp, device = place_of(x)
    name = dtype_name(x.dtype)
    if name in ("float32", "float64"):
        # A Dask array may be of another byte order.
        return x.dtype if getattr(x.dtype, "isnative", True) else x.dtype.newbyteorder("=")
    if name in ("float16", "bfloat16") or name.startswith("float8"):
        return xp.float32
    if name.startswith("float") or name == "longdouble":
        return xp.float64
    if xp.isdtype(x.dtype, ("bool", "integral")):
        return xp.__array_namespace_info__().default_dtypes(device=device)["real floating"]
    return None


def is_floating(x: Array) -> bool:
    """Whether an array of real numbers holds floats, also of dtypes that its library does not know.

    NumPy holds bfloat16 by another package.
    """
    name = dtype_name(x.dtype)
    return "float" in name or name == "longdouble"


def longest_float(place: Place) -> Any:
    """float64, or what a device has that cannot hold it."""
    return real_dtypes(place).get("float64", place.xp.float32)


def sums_dtype(x: Array) -> Any:
    """The dtype of sums over `x`: float64 on a CPU, that of `x` on an accelerator.

    Many accelerators compute float64 at 1/32 or 1/64 of the speed.
    """
    place = place_of(x)
    return working_dtype(x) if is_accelerated(place) else longest_float(place)


def itemsize(dtype: Hashable) -> int:
    """Bytes of a number."""
    return 4 if dtype_name(dtype) == "float32" else 8


def real_dtypes(place: Place) -> dict[str, Any]:
    """The real floating dtypes of a device, by name."""
    info = place.xp.__array_namespace_info__()
    return dict(info.dtypes(device=place.device, kind="real floating"))


@contextlib.contextmanager
def computing(place: Place) -> Iterator[None]:
    """What holds while numbers are worked with: full precision, and errors that say what to do.

    Products keep the precision of their dtype: JAX by default, and torch and CuPy if allowed
    to, multiply float32 in TF32 on GPUs that have it, which keeps three digits and makes a
    Gram matrix useless. NumPy is quiet about overflow and infinity, which are reported as
    errors of X. A library that runs out of memory raises MemoryError, whatever its own error is.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"), _full_precision(place.xp):
            yield
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # which would hold on to arrays
        raise MemoryError(
            f"{place} ran out of memory ({first_line(error)}). Free some, use float32 or set "
            "max_memory, which is kept to from the start"
        ) from None


def _is_out_of_memory(error: Exception) -> bool:
    # By name, so that no library need be imported; a plain MemoryError is our own.
    return (
        (isinstance(error, MemoryError) and type(error) is not MemoryError)
        or type(error).__name__ in ("OutOfMemoryError", "USMAllocationError")
        or "RESOURCE_EXHAUSTED" in str(error)
    )


@contextlib.contextmanager
def _full_precision(xp: ModuleType) -> Iterator[None]:
    if compat.is_jax_namespace(xp):
        with jax().default_matmul_precision("highest"):
            yield
    elif compat.is_torch_namespace(xp):
        backends = importlib.import_module("torch").backends
        with contextlib.ExitStack() as restore:
            for products in (backends.cuda.matmul, getattr(backends.mkldnn, "matmul", None)):
                if hasattr(products, "fp32_precision"):
                    _set_for_now(restore, products, "fp32_precision", "ieee")
                elif hasattr(products, "allow_tf32"):  # torch before 2.9
                    _set_for_now(restore, products, "allow_tf32", False)
            yield
    elif compat.is_cupy_namespace(xp):
        compute = importlib.import_module("cupy._core._routines_linalg")
        before = compute.get_compute_type("float32")  # CUPY_TF32=1 included
        compute.set_compute_type("float32", compute.COMPUTE_TYPE_DEFAULT)
        try:
            yield
        finally:
            compute.set_compute_type("float32", before)
    else:
        yield


def _set_for_now(restore: contextlib.ExitStack, owner: object, name: str, value: object) -> None:
    before = getattr(owner, name)
    if before != value:
        restore.callback(setattr, owner, name, before)
        setattr(owner, name, value)
