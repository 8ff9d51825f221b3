"""The profile that a fit uses: measured on this machine and stored, or a built-in one.

Stored profiles are JSON in the user's cache, or in the file that the environment variable
SLCE_XP_PROFILE names; with SLCE_XP_PROFILE=builtin none is read, and plans are the same on every
machine. A file that cannot be read, is not of this format and version, or has a number that is not
positive and finite is ignored as a whole: a profile changes how fast a fit is, not its result.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from functools import lru_cache
from types import ModuleType
from typing import Any

from slce_xp import _backend
from slce_xp._backend import Place
from slce_xp._planning.devices import PROFILES, built_in
from slce_xp._planning.profile import Profile

__all__ = ["PROFILES", "Profile", "load", "path", "store", "stored", "threads"]

VARIABLE = "SLCE_XP_PROFILE"
FORMAT, VERSION = "slce_xp profiles", 2
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def load(backend: str | ModuleType = "numpy", device: Any = None) -> Profile:
    """Return the profile of a device: the stored one, or else a built-in one. Never fails.

    Parameters
    ----------
    backend : str or namespace
    device : device or str, optional
        The backend's default device by default.
    """
    chosen = os.environ.get(VARIABLE)
    try:
        model = _accelerator(backend, device)
    except Exception:  # a library that is not there, or cannot tell: fits raise their own errors
        return PROFILES["cpu"]
    if chosen == "builtin":
        return built_in(model)
    return stored().get(_key(_name(backend), model)) or _default(model, threads())


def stored() -> dict[str, Profile]:
    """All stored profiles."""
    return _read(path())


def store(profile: Profile, place: Place) -> str:
    """Write the profile of a place completely or not at all; return the path of the file."""
    target = path()
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(errno.EINVAL, "it is not a regular file", target)
    profiles = {**stored(), _key(_name(place.xp), _backend.accelerator_model(place)): profile}
    contents = {
        "format": FORMAT,
        "version": VERSION,
        "profiles": {key: value.to_dict() for key, value in profiles.items()},
    }
    folder = os.path.dirname(os.path.abspath(target))
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(suffix=".tmp", prefix=".profiles.", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(contents, file, indent=1)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return target


def path() -> str:
    """The file of stored profiles."""
    chosen = os.environ.get(VARIABLE)
    if chosen and chosen != "builtin":
        return chosen
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{cache}/slce_xp/profiles.json"


def describe(place: Place) -> str:
    """The name of a device in its measured profile."""
    model = _backend.accelerator_model(place)
    if model is not None:
        return f"{_name(place.xp)} on {model}"
    count = threads()
    plural = "s" * (count != 1)
    return f"{_name(place.xp)} on {_backend.processor_model()}, {count} thread{plural}"


def _name(backend: str | ModuleType) -> str:
    return backend if isinstance(backend, str) else _backend.backend_name(backend)


def _key(backend: str, model: str | None) -> str:
    """What a profile holds for: library and GPU, or library, CPU and number of threads.

    By model, not by machine: the nodes of a cluster share a home folder.
    """
    return f"{backend}|{model or f'{_backend.processor_model()}|{threads()} threads'}"


@lru_cache(maxsize=256)
def _accelerator(backend: str | ModuleType, device: Any) -> str | None:
    if device is None or isinstance(backend, str):
        return _backend.accelerator_model(_backend.find_place(backend, device))
    return _backend.accelerator_model(Place(backend, device))


@lru_cache(maxsize=256)
def _default(model: str | None, threads: int) -> Profile:
    return built_in(model, threads)


def threads() -> int:
    """Threads of the BLAS, as far as the environment tells."""
    for name in _THREADS:
        value = os.environ.get(name, "")
        if value.isdecimal() and int(value):
            return int(value)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_last: tuple[Any, dict[str, Profile]] = (None, {})  # the file last read, and what it has


def _read(file: str) -> dict[str, Profile]:
    """Profiles in a file, by key; none if it is not a valid one."""
    global _last
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return {}
    version = (file, status.st_mtime_ns, status.st_size, status.st_ino)
    if _last[0] != version:
        _last = (version, _parse(file))
    return _last[1]


def _parse(file: str) -> dict[str, Profile]:
    try:
        with open(file, encoding="utf-8") as stream:
            contents = json.load(stream)
        if (contents["format"], contents["version"]) != (FORMAT, VERSION):
            return {}
        return {key: Profile.from_dict(facts) for key, facts in contents["profiles"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
