"""A table of samples, independent of its file format, and errors for unusable files.

Messages are one sentence, with the remedy.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._data.labels import array_of


class TableError(ValueError):
    """A file that cannot be used as it is."""


@dataclasses.dataclass(frozen=True)
class Chosen:
    """What to read from a file.

    Attributes
    ----------
    label, ids : str or None
        The columns, arrays or other files with classes and names of samples.
    drop : tuple of str
        Columns that are not features; an entry may hold several, separated by commas.
    features : numpy.ndarray of str or None
        The features, in this order; None: all other columns.
    data : str or None
        Which matrix of a file that holds several: a dataset, an array, a layer.
    stream : bool
        Whether to read blocks of rows as needed, even if the file fits into memory.
    """

    label: str | None = None
    ids: str | None = None
    drop: tuple[str, ...] = ()
    features: np.ndarray | None = None
    data: str | None = None
    stream: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """Samples in rows.

    Attributes
    ----------
    X : array, sparse matrix or row-sliceable object, shape (n, d)
    names : numpy.ndarray of str, shape (d,), or None
    labels : numpy.ndarray, shape (n,), or None
        Objects with None for missing labels, otherwise of one kind.
    ids : numpy.ndarray of str, shape (n,), or None
    passed_over : tuple of str
        Columns that are not used.
    other_data : tuple of str
        Further matrices of the file, if none was chosen.
    """

    X: Any
    names: np.ndarray | None = None
    labels: np.ndarray | None = None
    ids: np.ndarray | None = None
    passed_over: tuple[str, ...] = ()
    other_data: tuple[str, ...] = ()

    @property
    def in_memory(self) -> bool:
        """Whether X is in memory, not read as needed."""
        return type(self.X) is np.ndarray or _backend.is_sparse(self.X)

    @property
    def is_labelled(self) -> np.ndarray:
        """Mask of samples with a label, shape (n,)."""
        assert self.labels is not None
        return np.array([label is not None for label in self.labels])

    def rows(self, chosen: np.ndarray) -> Table:
        """Return some of the samples, in memory; the table itself if all are chosen."""
        if chosen.all():
            return self
        return dataclasses.replace(
            self,
            X=self.X[chosen],
            labels=None if self.labels is None else as_labels(list(self.labels[chosen])),
            ids=None if self.ids is None else self.ids[chosen],
        )


# ---------------------------------------------------------------- kinds of files


def kind_of(path: Path) -> str:
    """Return the suffix that gives the file format, without .gz."""
    return (path.with_suffix("") if is_packed(path) else path).suffix.lower()


def is_packed(path: Path) -> bool:
    """Whether a file is compressed by gzip, by its name."""
    return path.suffix.lower() == ".gz"


def is_read_in_blocks(path: Path, chosen: Chosen) -> bool:
    """Whether to read a file in blocks: on request, or if it is larger than half of memory."""
    memory = machine_memory()
    return chosen.stream or (memory is not None and path.stat().st_size > memory // 2)


def machine_memory() -> int | None:
    """Return the bytes of memory of this machine; None if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def damaged(path: Path, kind: str, error: Exception) -> TableError:
    """Return the error for a file that does not have the format of its suffix."""
    detail = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    if "pickle" in detail:  # NumPy suggests to load it unsafely
        detail = "it holds Python objects or something else; save numbers, or text as strings"
    return TableError(f"{path} is damaged or not in {kind} format ({detail}); write it again")


def library(name: str, who: str) -> Any:
    """Import a library that only some files or outputs need."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = "anndata" if name in ("anndata", "h5py") else "cli"
        raise TableError(
            f"{who} {name.partition('.')[0]}, which cannot be imported here ({error}); install it "
            f"with: pip install 'slce-xp[{extra}]'"
        ) from error


# ---------------------------------------------------------------- names and labels


def as_names(names: Iterable[Any]) -> np.ndarray:
    """Convert names to text, from bytes in HDF5."""
    return np.array(
        [name.decode() if isinstance(name, bytes) else str(name) for name in names], dtype=np.str_
    )


def as_labels(values: list[Any]) -> np.ndarray:
    """Convert labels to an array, with None for missing ones; of one kind if none is missing."""
    there = [v for v in values if v is not None]
    if there and all(isinstance(v, (float, np.floating)) and v == v // 1 for v in there):
        values = [v if v is None else int(v) for v in values]  # floats because of missing ones
    array = array_of(values)
    return array.astype(np.str_) if all(isinstance(v, str) for v in values) else array


def features(names: Sequence[str], chosen: Chosen, path: Path) -> tuple[list[str], tuple]:
    """Return the columns that are features, and those not used."""
    others = {chosen.label, chosen.ids, *_dropped(chosen.drop, names, path)}
    if chosen.features is None:
        return [name for name in names if name not in others], ()
    wanted = [str(name) for name in chosen.features]
    there = set(names)
    absent = [name for name in wanted if name not in there]
    if absent:
        raise TableError(
            f"{path} must have the {len(wanted)} columns that the model was fitted to; it has no "
            f"{some(absent)}{nearest(absent[0], names)}"
        )
    for name in others.intersection(wanted):
        raise TableError(
            f"{path}: {name!r} is a feature of the model; name another --id or --label"
        )
    used = {*wanted, *others}
    return wanted, tuple(name for name in names if name not in used)


def _dropped(drop: Iterable[str], names: Sequence[str], path: Path) -> list[str]:
    """Return the column names in options, each of which may hold several separated by commas."""
    found = []
    for entry in drop:
        parts = [entry] if entry in names else [part.strip() for part in entry.split(",")]
        found += [find(part, names, "--drop", path) for part in parts if part]
    return found


def drop_option(names: Sequence[str]) -> str:
    """Return the options that drop columns, for a message."""
    lists = names if any("," in name for name in names) else [",".join(names)]
    return " ".join(f"--drop {shlex.quote(entry)}" for entry in lists)


def check_distinct(names: Sequence[str], path: Path) -> None:
    """Raise TableError if two columns have the same name."""
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise TableError(
            f"{path} must have different names for its columns; {some(twice)} "
            f"appear{'s' * (len(twice) == 1)} more than once. Rename or remove them"
        )


def find(name: str, names: Sequence[str], option: str, path: Path) -> str:
    """Return a name if it exists; otherwise raise TableError with the nearest one."""
    if name in names:
        return name
    raise TableError(f"{option}: {path} has no {name!r}{nearest(name, names)}")


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a suggestion for the end of a message."""
    lower = {str(other).lower(): str(other) for other in names}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; it has {some(names, 8)}" if len(names) else "; it has nothing of the kind"


def some(names: Sequence[Any], most: int = 5) -> str:
    """Format names for a message: all, or the first few and the number of others."""
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
