"""A table of samples, whatever the format of its file, and errors for files that cannot be used."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import importlib
import os
import warnings
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._errors import pip_install

Changes = Mapping[str, str | None]
# Options that name a column with something else than a feature.
ROLES = ("label", "id", "groups", "strata", "batch")


class TableError(ValueError):
    """A file that cannot be used as it is.

    Parameters
    ----------
    message : str
        What is wrong, and the remedy.
    changes : dict, optional
        Options that the call should have: their values, "" for a flag, None for one to leave out.
        The command appends the corrected call to the message.
    """

    def __init__(self, message: str, changes: Changes | None = None) -> None:
        super().__init__(message)
        self.changes = dict(changes or {})


@dataclasses.dataclass(frozen=True)
class Table:
    """Samples in rows.

    Attributes
    ----------
    X : array, sparse matrix or row-sliceable object, shape (n, d)
    names : numpy.ndarray of str, shape (d,), or None
    ids : numpy.ndarray of str, shape (n,), or None
        The names of the samples.
    columns : dict of str to numpy.ndarray, shape (n,)
        What options such as ``label`` name, by option; objects with None for missing values,
        otherwise of one kind.
    others : dict of str to array, shape (n,)
        Columns that are no features, by name.
    """

    X: Any
    names: np.ndarray | None = None
    ids: np.ndarray | None = None
    columns: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    others: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def labels(self) -> Any:
        """The classes of the samples, or None."""
        return self.columns.get("label")

    @property
    def in_memory(self) -> bool:
        """Whether X is in memory, not read as needed."""
        return type(self.X) is np.ndarray or _backend.is_sparse(self.X)

    @property
    def is_sparse(self) -> bool:
        """Whether X is sparse, in memory or in a file: then a model fills no missing values."""
        return _backend.is_sparse(self.X[:1])

    def rows(self, chosen: np.ndarray) -> Table:
        """Return some of the samples, in memory; the table itself if all are chosen."""
        if chosen.all():
            return self
        columns = {role: values[chosen] for role, values in self.columns.items()}
        ids = None if self.ids is None else self.ids[chosen]
        others = {name: np.asarray(values)[chosen] for name, values in self.others.items()}
        return dataclasses.replace(self, X=self.X[chosen], ids=ids, columns=columns, others=others)


def is_known(values: np.ndarray) -> np.ndarray:
    """Mask of values that are not missing."""
    return np.array([value is not None for value in values], dtype=bool)


def roles_of(arguments: Namespace) -> dict[str, str]:
    """Return the columns that a call gives a role, by role."""
    named = {role: getattr(arguments, role, None) for role in ROLES}
    return {role: name for role, name in named.items() if name is not None}


def as_text(values: np.ndarray) -> np.ndarray:
    """Return names as text, empty if missing."""
    return np.array(["" if value is None else str(value) for value in values], dtype=object)


def note(text: str) -> None:
    """Report something that the user should know, in a line of the standard error."""
    warnings.warn(text, stacklevel=2)


# ---------------------------------------------------------------- names


def plural(count: int, word: str) -> str:
    """Return a count with its word: 1 sample, 2 samples."""
    return f"{count} {word}{'s' * (count != 1)}"


def some(names: Sequence[Any], most: int = 5) -> str:
    """Format names for a message: all, or the first few and the number of others."""
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def nearest(name: str, names: Iterable[Any]) -> str:
    """Return the name that is most like another one; "" if none is."""
    lower = {str(other).lower(): str(other) for other in names}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    return lower[close[0]] if close else ""


def no_such(name: str, names: Sequence[Any], option: str, where: Any) -> TableError:
    """Return the error for a name that is not there, with the nearest one."""
    close = nearest(name, names)
    there = f"it has {some(names, 8)}" if len(names) else "it has nothing of the kind"
    hint = f"did you mean {close!r}?" if close else there
    return TableError(
        f"{option}: {where} has no {name!r}; {hint}", {option: close} if close else {}
    )


def matching(entries: Iterable[str], names: Sequence[str], option: str, where: Any) -> set[str]:
    """Return the names that an option lists, separated by commas; some may be patterns."""
    found: set[str] = set()
    there = set(names)
    for entry in entries:
        for part in [entry] if entry in there else filter(None, map(str.strip, entry.split(","))):
            hits = {part} & there or {name for name in there if fnmatch.fnmatchcase(name, part)}
            if not hits:
                raise no_such(part, names, option, where)
            found |= hits
    return found


# ---------------------------------------------------------------- files


def kind_of(path: Path) -> str:
    """Return the suffix that gives the file format, without .gz."""
    return (path.with_suffix("") if is_packed(path) else path).suffix.lower()


def is_packed(path: Path) -> bool:
    """Whether a file is compressed by gzip, by its name."""
    return path.suffix.lower() == ".gz"


def machine_memory() -> int | None:
    """Return the bytes of memory of this machine; None if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def damaged(path: Path, error: Exception) -> Exception:
    """Return the error for a file that does not have the format of its suffix."""
    if isinstance(error, (TableError, MemoryError)):
        return error
    if isinstance(error, PermissionError):
        return TableError(f"{path} cannot be read ({error.strerror})")
    detail = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    if "pickle" in detail:  # NumPy suggests to load it unsafely
        detail = "it holds Python objects or something else; save numbers, or text as strings"
    return TableError(
        f"{path} is damaged or not in {kind_of(path)} format ({detail}); write it again"
    )


def library(name: str, who: str) -> Any:
    """Import a library that only some files or outputs need."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise TableError(
            f"{who} {package}, which cannot be imported here ({error}); install it with: "
            f"{pip_install(package)}"
        ) from error
