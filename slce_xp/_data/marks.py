"""Samples without a label: which of them a mark in y, or a missing label, stands for."""

from __future__ import annotations

import datetime
import numbers
from typing import Any

import numpy as np

from slce_xp._data.matrix import is_missing
from slce_xp._errors import shown, warn, wrong_type

# Of dtypes, by NumPy's letter, and of single labels.
KINDS = {
    "b": "boolean",
    **dict.fromkeys("iufc", "number"),
    **dict.fromkeys("UT", "text"),
    "S": "bytes",
    "M": "date",
    "m": "duration",
}
TYPES: dict[str, Any] = {
    "boolean": (bool, np.bool),  # before numbers, as bool is an int
    "duration": (datetime.timedelta, np.timedelta64),  # likewise
    "number": numbers.Number,
    "text": str,
    "bytes": bytes,
    "date": (datetime.date, np.datetime64),
}


def missing(values: np.ndarray) -> np.ndarray | None:
    """Return a mask of missing labels (NaN, None, NaT, empty); None if the dtype has none."""
    if values.dtype.kind in "fc":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values))
    if values.dtype.kind in "UT":
        return np.asarray(values == "")
    if values.dtype.kind == "S":
        return np.asarray(values == b"")
    if values.dtype == object:
        return np.fromiter((is_missing(v) or v == "" for v in values), bool, len(values))
    return None


def marks_missing(unlabeled: Any) -> bool:
    """Whether missing labels mark samples without one: "missing", NaN, NA or NaT."""
    if isinstance(unlabeled, str):
        return unlabeled == "missing"
    return unlabeled is not None and is_missing(unlabeled)


def without_label(values: np.ndarray, unlabeled: Any) -> np.ndarray | None:
    """Return a mask of samples marked as unlabelled; None if there are none."""
    if unlabeled is None:
        return None
    if marks_missing(unlabeled):
        mask = missing(values)
    elif values.dtype == object:  # which may hold labels of one kind and a mark of another
        kind = _kind(unlabeled)
        marked = (not is_missing(v) and bool(v == unlabeled) and _kind(v) == kind for v in values)
        mask = np.fromiter(marked, bool)
    else:
        kind, own = _kind(unlabeled), KINDS.get(values.dtype.kind, "other")
        if kind != own:
            raise wrong_type(
                "unlabeled",
                f"unlabeled must be of the kind of the labels in y ({own}, dtype {values.dtype}), "
                f"or 'missing' for labels that are missing; got {shown(unlabeled)} ({kind}). "
                "Pass the value that marks samples without a label in y, or None if all have one",
            )
        mark = _as_mark(unlabeled, values.dtype)
        mask = None if mark is None else np.asarray(values == mark)
    return mask if mask is not None and mask.any() else None


def warn_if_unmarked(unlabeled: Any) -> None:
    """Warn of a mark that no sample has: it may be misspelt."""
    if unlabeled is not None and not marks_missing(unlabeled):
        warn(
            f"unlabeled={shown(unlabeled)} marks no sample of positive weight, so all labels in y "
            "are classes. Check the mark, or leave it out if every sample has a label",
        )


def _kind(label: Any) -> str:
    """The kind of a label: those of different kinds are different, even if 1 == True."""
    if isinstance(label, np.ndarray) and label.ndim == 0:
        label = label[()]
    return next((kind for kind, types in TYPES.items() if isinstance(label, types)), "other")


def _as_mark(mark: Any, dtype: np.dtype) -> Any:
    """Return the mark as a value of the labels' dtype; None if it would be rounded."""
    if dtype.kind in "mM":
        mark = mark.to_numpy() if hasattr(mark, "to_numpy") else mark  # with its nanoseconds
        return (np.datetime64 if dtype.kind == "M" else np.timedelta64)(mark)
    if dtype.kind in "iu" and isinstance(mark, (float, np.floating)):
        return int(mark) if float(mark).is_integer() else None
    if dtype.kind == "f" and isinstance(mark, (int, np.integer)):
        with np.errstate(over="ignore"):
            return mark if dtype.type(mark).astype(object) == int(mark) else None
    return mark
