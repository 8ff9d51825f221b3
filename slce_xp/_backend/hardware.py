"""Which processor or GPU a device is."""

from __future__ import annotations

import importlib
import platform
from functools import cache

import array_api_compat as compat

from slce_xp._backend.places import Place


def accelerator_model(place: Place) -> str | None:
    """The model of a GPU or another accelerator, such as "NVIDIA L4"; None for a CPU."""
    xp, device = place
    if compat.is_cupy_namespace(xp):
        properties = importlib.import_module("cupy").cuda.runtime.getDeviceProperties(device.id)
        return str(properties["name"].decode())
    if compat.is_torch_namespace(xp) and device.type != "cpu":
        if device.type != "cuda":
            return str(device.type)
        return str(importlib.import_module("torch").cuda.get_device_name(device))
    if compat.is_jax_namespace(xp) and device.platform != "cpu":
        return str(device.device_kind)
    return None


@cache
def processor_model() -> str:
    """The model of the CPU, as far as the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "CPU"
