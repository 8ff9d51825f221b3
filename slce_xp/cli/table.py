"""A table of samples, independent of its file format, and errors for unusable files.

Messages are one sentence, with the remedy.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._data.label_values import array_of
from slce_xp._errors import pip_install

Changes = Mapping[str, str | list[str] | None]


class TableError(ValueError):
    """A file that cannot be used as it is.

    Parameters
    ----------
    message : str
        What is wrong, and the remedy.
    changes : dict, optional
        Options that the call should have: their values, "" for a flag, several for one that is
        repeated, None for one to leave out. The command appends the corrected call to the message.
    """

    def __init__(self, message: str, changes: Changes | None = None) -> None:
        super().__init__(message)
        self.changes = dict(changes or {})


@dataclasses.dataclass(frozen=True)
class Chosen:
    """What to read from a file.

    Attributes
    ----------
    label, ids : str or None
        The columns, arrays or other files with classes and names of samples.
    drop, only : tuple of str
        Columns that are not features, and the only ones that are: names or patterns; an entry may
        hold several, separated by commas.
    features : numpy.ndarray of str or None
        The features of a model, in this order; None: all other columns.
    data : str or None
        Which matrix of a file that holds several: a dataset, an array, a layer, a sheet.
    stream : bool
        Whether to read blocks of rows as needed, even if the file fits into memory.
    labels : str or None
        FILE:COLUMN of a file with a line for each sample, joined by the names of samples.
    transpose : bool
        Whether samples are columns of the file.
    header : bool
        Whether the first line names the columns.
    missing : tuple of str
        Further values that stand for a missing one.
    decimal : {".", ","} or None
        The decimal separator of numbers in text; None: found out.
    duplicates : {"refuse", "suffix"}
        What to do with columns of the same name.
    unlabeled : {"drop", "use"} or None
        What to do with samples that have no label.
    as_text : bool
        Whether all columns are text.
    """

    label: str | None = None
    ids: str | None = None
    drop: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    features: np.ndarray | None = None
    data: str | None = None
    stream: bool = False
    labels: str | None = None
    transpose: bool = False
    header: bool = True
    missing: tuple[str, ...] = ()
    decimal: str | None = None
    duplicates: str = "refuse"
    unlabeled: str | None = None
    as_text: bool = False


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
    data : str
        The matrix that was read, of a file that may hold several.
    other_data : tuple of str
        Further matrices of the file, if none was chosen.
    """

    X: Any
    names: np.ndarray | None = None
    labels: np.ndarray | None = None
    ids: np.ndarray | None = None
    passed_over: tuple[str, ...] = ()
    data: str = ""
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


def note(text: str) -> None:
    """Report something that the user should know, in a line of the standard error."""
    warnings.warn(text, stacklevel=2)


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
        package = name.partition(".")[0]
        raise TableError(
            f"{who} {package}, which cannot be imported here ({error}); install it with: "
            f"{pip_install(package)}"
        ) from error


# ---------------------------------------------------------------- labels


def as_labels(values: list[Any]) -> np.ndarray:
    """Convert labels to an array, with None for missing ones; of one kind if none is missing."""
    there = [v for v in values if v is not None]
    if there and all(isinstance(v, (float, np.floating)) and v == v // 1 for v in there):
        values = [v if v is None else int(v) for v in values]  # floats because of missing ones
    array = array_of(values)
    return array.astype(np.str_) if all(isinstance(v, str) for v in values) else array
