"""Free memory of a device."""

from __future__ import annotations

import importlib
from typing import Any

import array_api_compat as compat

from .places import Place, is_dpnp


def free_bytes(place: Place) -> int | None:
    """Free bytes of a device, or None if unknown, as on the host."""
    xp, device = place
    if compat.is_cupy_namespace(xp):
        return _free_for_cupy(device)
    if compat.is_jax_namespace(xp):
        stats = device.memory_stats() or {}
        return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None
    if compat.is_torch_namespace(xp):
        # torch.cuda, torch.xpu and the like
        kind: Any = getattr(importlib.import_module("torch"), device.type, None)
        if not hasattr(kind, "mem_get_info"):
            return None
        free = int(kind.mem_get_info(device)[0])
        if hasattr(kind, "memory_reserved"):  # kept by torch for its next tensors
            free += kind.memory_reserved(device) - kind.memory_allocated(device)
        return free
    if is_dpnp(xp):
        # Of Intel's GPUs, if the driver reports it.
        utilities = importlib.import_module("dpctl.utils")
        known: dict[str, int] = utilities.intel_device_info(device.sycl_device)
        return known.get("free_memory")
    return None


def _free_for_cupy(device: Any) -> int | None:
    cupy = importlib.import_module("cupy")
    pool = cupy.get_default_memory_pool()
    if cupy.cuda.get_allocator() != pool.malloc:
        return None  # another allocator holds memory of its own, which CUDA counts as taken
    with device:
        free = cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
        limit = pool.get_limit()
        return int(min(free, limit - pool.used_bytes()) if limit else free)
