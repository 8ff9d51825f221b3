"""Errors with the name of the parameter at fault as their attribute ``parameter``."""

from __future__ import annotations

import importlib.metadata
import math
import re
import shlex
import sys
from types import FrameType
from typing import TypeVar

E = TypeVar("E", bound=Exception)


def naming(parameter: str, error: E) -> E:
    """Set the attribute ``parameter`` of an error, and return the error."""
    error.parameter = parameter  # type: ignore[attr-defined]
    return error


def invalid(parameter: str, message: str) -> ValueError:
    """A ValueError that names a parameter."""
    return naming(parameter, ValueError(message))


def wrong_type(parameter: str, message: str) -> TypeError:
    """A TypeError that names a parameter."""
    return naming(parameter, TypeError(message))


def not_installed(user: str, library: str, error: ImportError, package: str) -> ImportError:
    """The error for a library that some feature needs."""
    return ImportError(
        f"{user} needs {library}, which cannot be imported here ({error}); "
        f"install it with: {pip_install(package)}"
    )


def pip_install(*packages: str) -> str:
    """The command that installs libraries, of the versions that this package declares.

    It names the libraries and not an extra, so that it works wherever this package came from.
    """
    try:
        declared = importlib.metadata.requires("slce-xp") or []
    except importlib.metadata.PackageNotFoundError:  # run from its source
        declared = []
    versions = {
        name: next((r for r in declared if re.split(r"[^\w.-]", r)[0] == name), name)
        for name in packages
    }
    return shlex.join(["pip", "install", *(r.partition(";")[0].strip() for r in versions.values())])


def not_finite(row: int, column: int, value: float) -> ValueError:
    """The error for NaN or infinity in X."""
    kind = "NaN" if math.isnan(value) else "infinity"
    return invalid(
        "X",
        f"X must be finite; found {kind} at row {row}, column {column}. "
        "Remove such rows or columns, or impute them first",
    )


def too_large(dtype: str) -> ValueError:
    """The error for finite numbers whose squares overflow."""
    return invalid("X", f"X must be small enough for sums of squares in {dtype}. Scale X down")


def caller_level() -> int:
    """The `stacklevel` with which a warning, given where this is called, names the user's line.

    The command is a user, too.
    """
    package = __name__.partition(".")[0]
    frame: FrameType | None = sys._getframe(1)
    level = 0
    while frame is not None:
        name, _, module = str(frame.f_globals.get("__name__")).partition(".")
        if name != package or module.partition(".")[0] == "cli":
            break
        frame, level = frame.f_back, level + 1
    return level + 1
