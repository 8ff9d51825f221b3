"""Errors with the name of the parameter at fault as their attribute ``parameter``."""

from __future__ import annotations

import math
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
        f"install it with: pip install {package}"
    )


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
