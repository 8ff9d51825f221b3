"""Errors whose attribute ``parameter`` names the parameter at fault, and warnings."""

from __future__ import annotations

import importlib.metadata
import math
import re
import shlex
import sys
import warnings
from types import FrameType
from typing import Any, TypeVar

import numpy as np

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


def shown(value: Any) -> str:
    """The repr of a value, in which numbers and texts of NumPy look as those of Python do."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, (np.datetime64, np.timedelta64)):
        value = str(value)
    return repr(value.astype(object) if isinstance(value, np.generic) else value)


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


def not_finite(row: int, column: int, value: float, name: str = "X") -> ValueError:
    """The error for NaN or infinity in X."""
    kind = "NaN" if math.isnan(value) else "infinity"
    return invalid(
        name,
        f"{name} must be finite; found {kind} at row {row}, column {column}. "
        "Remove such rows or columns, or impute them first",
    )


def traced(name: str, remedy: str) -> TypeError:
    """The error for an array that has no values yet."""
    return wrong_type(
        name,
        f"{name} must have values; got an array that jax.jit, torch.compile or the like traces. "
        f"{remedy}",
    )


def too_large(dtype: str, name: str = "X") -> ValueError:
    """The error for finite numbers whose squares overflow."""
    return invalid(
        name, f"{name} must be small enough for sums of squares in {dtype}. Scale {name} down"
    )


class SLCEWarning(UserWarning):
    """Base class of the warnings that slce_xp issues, at the line that called it.

    Examples
    --------
    >>> import warnings, slce_xp
    >>> warnings.simplefilter("ignore", slce_xp.SLCEWarning)  # silences all of them
    """


class ConvergenceWarning(SLCEWarning):
    """Warning that an iteration stopped before its residual reached the tolerance.

    The model can be used; `Model.residual` says how far it got. More passes (`max_iter`), more
    memory, a larger `tol` or a dense solver help.

    Examples
    --------
    >>> import warnings, numpy as np, slce_xp
    >>> X = np.random.default_rng(0).normal(size=(300, 200))
    >>> X[:150, :3] += 3
    >>> y = np.repeat([0, 1], 150)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = slce_xp.fit(X, y, solver="krylov", max_iter=1)
    >>> caught[0].category.__name__
    'ConvergenceWarning'
    """


# Packages between the line that a warning is about and the one that issues it. Without
# scikit-learn's, each warning of a cross-validation would name a line of scikit-learn.
_BETWEEN = ("slce_xp", "sklearn", "joblib")


def warn(message: str, category: type[Warning] = SLCEWarning) -> None:
    """Issue a warning at the line of the user, which may be one of the command."""
    # `skip_file_prefixes` of `warnings.warn` would do from Python 3.12 on.
    frame: FrameType | None = sys._getframe()
    level = 1
    while frame is not None and _is_between(str(frame.f_globals.get("__name__"))):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_between(module: str) -> bool:
    package, _, rest = module.partition(".")
    return package in _BETWEEN and not rest.startswith("cli")
