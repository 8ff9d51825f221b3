"""Packages whose names are imported when they are first asked for (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def attach(
    package: str, homes: dict[str, str], modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : dict of str
        The module within the package that has each of its names.
    modules : tuple of str
        Modules that are attributes of the package without an import of their own.
    """
    attributes = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        attributes[name] = found  # and never asked for again
        return found

    def names() -> list[str]:
        return sorted({*attributes, *attributes["__all__"]})

    return get, names
