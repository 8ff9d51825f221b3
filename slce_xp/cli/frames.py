"""Tables from sheets: labels, names of samples and features."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp._data.label_values import label_values
from slce_xp.cli.advice import check_label, refuse_text
from slce_xp.cli.names import as_names, features, find
from slce_xp.cli.sheet import Sheet
from slce_xp.cli.sheets import read_sheet
from slce_xp.cli.table import Chosen, Table, TableError, as_labels


def read_frame(path: Path, chosen: Chosen) -> Table:
    """Read a table from a file with named columns."""
    sheet = read_sheet(path, chosen)
    if not len(sheet.frame):
        raise TableError(f"{path} has a header but no rows; a table has a row for each sample")
    labels = ids = None
    others = []
    if chosen.ids is not None:
        others.append(_position(sheet, chosen.ids, "--id", path))
        ids = sample_names(sheet.frame[others[-1]])
    elif sheet.row_names is not None:
        ids = sample_names(sheet.row_names)
    if chosen.label is not None:
        check_label(sheet, chosen, path)
        others.append(_position(sheet, chosen.label, "--label", path))
        labels = class_labels(whole_numbers(sheet.frame[others[-1]]))
    found = features(sheet.names, dataclasses.replace(chosen, drop=()), path, others)
    frame = sheet.frame[found.positions].set_axis(range(len(found.names)), axis=1)
    refuse_text(frame, found.names, ids is not None, sheet, chosen, path)
    single = all(str(kind).lower() == "float32" for kind in frame.dtypes)
    X = frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    place = _first_infinite(X)
    if place is not None:
        raise TableError(
            f"{path}: {sheet.what} {found.names[place[1]]!r} is infinite in "
            f"{sheet.count(place[0])}; correct it, or leave it empty if it is missing"
        )
    return Table(
        np.ascontiguousarray(X), as_names(found.names), labels, ids, found.passed_over,
        sheet.data, sheet.other_data if chosen.data is None else (),
    )  # fmt: skip


def _position(sheet: Sheet, name: str, option: str, path: Path) -> int:
    """Return where a column is, which must be unique."""
    find(name, sheet.names, option, path)
    if sheet.names.count(name) > 1:
        raise TableError(
            f"{option}: {path} has {sheet.names.count(name)} {sheet.what}s of the name {name!r}; "
            "rename them"
        )
    return sheet.names.index(name)


# ---------------------------------------------------------------- labels and names of samples


def whole_numbers(labels: Any) -> Any:
    """Convert text to integers if that is lossless: not 01, which may be another class than 1."""
    there = labels.dropna()
    if not len(there) or not all(isinstance(label, str) for label in there):
        return labels
    if not there.str.strip().str.fullmatch(r"0|-?[1-9]\d{0,17}").all():
        return labels
    return labels.astype(object).str.strip().astype("Int64")


def sample_names(series: Any) -> np.ndarray:
    """Return names as text, empty if missing."""
    names: np.ndarray = series.astype(str).to_numpy(dtype=object)
    return np.where(series.isna(), "", names)


def class_labels(series: Any) -> np.ndarray:
    """Return labels as numbers or stripped text, None for missing ones."""
    missing = series.isna().to_numpy(dtype=bool)
    plain = (bool, int, float, np.number, np.bool)
    exact = label_values(series)  # a Series converts categories of integers to floats
    found = exact if exact.dtype == object else series
    values = [v if isinstance(v, plain) else str(v).strip() or None for v in found]
    return as_labels([None if m else v for m, v in zip(missing, values, strict=True)])


def _first_infinite(X: np.ndarray) -> tuple[int, int] | None:
    """Return row and column of the first infinite entry, if any."""
    for start in range(0, X.shape[0], 1024):
        found = np.argwhere(np.isinf(X[start : start + 1024]))
        if found.size:
            return int(found[0, 0]) + start, int(found[0, 1])
    return None
