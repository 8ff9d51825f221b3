"""Parse and format byte sizes."""

from __future__ import annotations

import math
import re
from numbers import Real

from slce_xp._errors import invalid

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parse_bytes(size: int | str | None, name: str = "max_memory") -> int | None:
    """2_000_000_000, "2GB" or "1.5 GiB" as bytes."""
    if size is None:
        return None
    number = 0
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", size)
        if match is not None:
            number = int(float(match[1]) * _UNITS.get(match[2].upper(), 0))
    elif isinstance(size, Real) and not isinstance(size, bool) and math.isfinite(size):
        number = int(size)
    if number <= 0:
        rule = f'{name} must be a positive number of bytes, or a size such as "2GB" or "512MiB"'
        raise invalid(name, f"{rule}; got {size!r}")
    return number


def format_bytes(size: float) -> str:
    """A size with its unit, such as "225 MB"."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"
