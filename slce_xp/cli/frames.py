"""Tables from sheets: labels, names of samples and features, or an error with the remedy."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp._data.labels import label_values
from slce_xp.cli import numbers
from slce_xp.cli.names import as_names, drop_values, features, find, nearest, some
from slce_xp.cli.sheet import Sheet
from slce_xp.cli.sheets import read_sheet
from slce_xp.cli.table import Chosen, Table, TableError, as_labels

MOST_FILES = 200  # of a folder that are searched for a column
MOST_WORDS = 6  # different words for missing values that are taken for such


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
        _check_label(sheet, chosen, path)
        others.append(_position(sheet, chosen.label, "--label", path))
        labels = class_labels(whole_numbers(sheet.frame[others[-1]]))
    error = None
    try:
        found = features(sheet.names, dataclasses.replace(chosen, drop=()), path, others)
    except TableError as twice:
        if "--duplicates" not in twice.changes:
            raise
        error = twice  # what else the call needs is found with names that differ
        found = features(
            sheet.names, dataclasses.replace(chosen, drop=(), duplicates="suffix"), path, others
        )
    frame = sheet.frame[found.positions].set_axis(range(len(found.names)), axis=1)
    text = _text_error(frame, found.names, ids is not None, sheet, chosen, path)
    if error or text:
        first = error or text
        assert first is not None
        changes = {**(error.changes if error else {}), **(text.changes if text else {})}
        numeric = frame.drop(columns=numbers.text_columns(frame))
        raise TableError(str(first), changes | _ahead(numeric, labels, chosen))
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


def _check_label(sheet: Sheet, chosen: Chosen, path: Path) -> None:
    """Raise TableError for a label that is not there, with the reason that is most likely."""
    label, names, frame = chosen.label, sheet.names, sheet.frame
    assert label is not None
    if label in names:
        return
    likely = likely_label(sheet)
    first = sheet.row_names if sheet.row_names is not None else frame[0]
    # Genes in rows: rows are named by text, and hold nothing else but numbers.
    samples = names[sheet.row_names is None :]
    texts = [i for i in numbers.text_columns(frame) if i > 0 or sheet.row_names is not None]
    is_wide = not (chosen.transpose or texts or numbers.as_numbers(first, None).notna().any())
    changes: dict[str, Any] = {} if likely is None else {"--label": names[likely]}
    if is_wide or (not chosen.transpose and (first.astype(str).str.strip() == label).any()):
        changes = {"--transpose": ""}
        if first.duplicated().any() and chosen.duplicates == "refuse":
            changes["--duplicates"] = "suffix"
    if not chosen.transpose and (first.astype(str).str.strip() == label).any():
        message = f"--label: {label!r} is a row of {path}, and samples must be in rows"
        raise TableError(message, changes | _ahead(frame, None, chosen))
    if chosen.header and 2 * sum(map(numbers.is_number, names)) > len(names):
        column = len(names) if likely is None else likely + 1
        shown = some([name for name in names if numbers.is_number(name)], 3)
        raise TableError(
            f"{path} must name its columns in the first line, which holds numbers ({shown}); add a "
            "line of names, or name columns by their number",
            {"--no-header": "", "--label": f"column_{column}"},
        )
    message = f"--label: {path} has no {label!r}{nearest(label, names)}"
    if is_wide:
        message += f". Its columns look like samples ({some(samples, 3)}): --transpose"
    elsewhere = _files_with(label, path)
    if elsewhere:
        message += f". {some([str(file) for file in elsewhere])} has it: --labels FILE:COLUMN"
        changes = {"--label": None, "--labels": f"{elsewhere[0]}:{label}", **changes}
        changes |= _ahead(frame, None, chosen)
    elif is_wide:
        raise TableError(f"{message}, with labels of another file: --labels FILE:COLUMN")
    elif "did you mean" in message:
        find(label, names, "--label", path)
    raise TableError(message, changes)


def _files_with(label: str, path: Path) -> list[Path]:
    """Return other text tables in the same folder that have such a column."""
    found = []
    for file in sorted(path.parent.iterdir())[:MOST_FILES]:
        if file.suffix.lower() in (".csv", ".tsv", ".txt") and file != path and file.is_file():
            with file.open(encoding="utf-8-sig", errors="replace") as lines:
                first = next((line for line in lines if line.strip() and line[0] not in "#!"), "")
            if label in (field.strip().strip('"') for field in re.split("[,;\t]", first)):
                found.append(file)
    return found


def likely_label(sheet: Sheet) -> int | None:
    """Return the column that alone has words, each several times."""
    found = [
        i for i in numbers.text_columns(sheet.frame)
        if 2 <= sheet.frame[i].nunique() <= len(sheet.frame) // 2
    ]  # fmt: skip
    return int(found[0]) if len(found) == 1 else None


# ---------------------------------------------------------------- features


def _first_infinite(X: np.ndarray) -> tuple[int, int] | None:
    """Return row and column of the first infinite entry, if any."""
    for start in range(0, X.shape[0], 1024):
        found = np.argwhere(np.isinf(X[start : start + 1024]))
        if found.size:
            return int(found[0, 0]) + start, int(found[0, 1])
    return None


def _text_error(
    frame: Any, names: list[str], has_ids: bool, sheet: Sheet, chosen: Chosen, path: Path
) -> TableError | None:
    """Return the error for features that hold text, with the options that help."""
    text = numbers.text_columns(frame)
    if not text:
        return None
    # A column with a few words among its numbers, and one that is text altogether.
    wrong = {i: _no_numbers(frame[i], sheet.decimal) for i in text}
    spoilt = [i for i in text if numbers.are_mostly_numbers(wrong[i], frame[i].notna().sum())]
    whole = [i for i in text if i not in spoilt]
    words = list(dict.fromkeys(str(cell) for i in spoilt for cell in wrong[i]))
    changes: dict[str, Any] = {}
    remedies = []
    is_word = not any("," in word or numbers.is_like_number(word) for word in words)
    if spoilt and len(words) <= MOST_WORDS and is_word:
        changes["--missing"] = ",".join([*chosen.missing, *words])
        changes["--impute"] = "mean"
        remedies.append(
            f"if {some(words)} stand{'s' * (len(words) == 1)} for missing values, say so"
        )
    elif spoilt:
        both = numbers.is_ambiguous(words)
        remedies.append(
            "say whether commas group thousands (--decimal .) or are decimal (--decimal ,)"
            if both
            else "correct these cells"
        )
        if both:
            changes["--decimal"] = "."
    ids = [i for i in whole if frame[i].is_unique and not has_ids and frame[i].notna().all()]
    if ids:
        changes["--id"] = names[ids[0]]
        remedies.append(
            f"use {names[ids[0]]!r} as sample names (--id {shlex.quote(names[ids[0]])})"
        )
    dropped = [names[i] for i in whole if i not in ids[:1]]
    if dropped:
        changes["--drop"] = drop_values(dropped)
        remedies.append(f"leave {some(dropped)} out")
    first = text[0]
    cell = wrong[first].iloc[0] if len(wrong[first]) else frame[first].dropna().iloc[0]
    at = int(wrong[first].index[0]) if len(wrong[first]) else 0
    where = f"{str(cell)!r} in {sheet.count(at)}"
    if first in spoilt:
        where = f"{len(wrong[first])} of {len(frame)} rows, {where}"
    one = len(text) == 1
    return TableError(
        f"{path}: {sheet.what}{'s' * (not one)} {some([names[i] for i in text])} "
        f"hold{'s' * one} text ({where}), and features must be numbers; {', '.join(remedies)}",
        changes,
    )


def _no_numbers(column: Any, decimal: str | None) -> Any:
    """Return the cells of a column that are not numbers."""
    values = numbers.as_numbers(column.reset_index(drop=True), decimal)
    return column.reset_index(drop=True)[values.isna() & column.notna().to_numpy()]


def _ahead(frame: Any, labels: Any, chosen: Chosen) -> dict[str, str]:
    """Return options that the call will need besides, because values or labels are missing."""
    changes = {}
    if not chosen.impute and frame.isna().any(axis=None):
        changes["--impute"] = "mean"
    if not chosen.unlabeled and labels is not None and any(label is None for label in labels):
        changes["--unlabeled"] = "drop"
    return changes
