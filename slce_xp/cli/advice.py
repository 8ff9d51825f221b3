"""What to do about a table that cannot be used: errors with the options that help."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from slce_xp.cli import numbers
from slce_xp.cli.names import drop_values, nearest, nearest_name, some
from slce_xp.cli.sheet import Sheet
from slce_xp.cli.table import Chosen, TableError

MOST_FILES = 200  # of a folder that are searched for a column
MOST_WORDS = 6  # different words for missing values that are taken for such

# ---------------------------------------------------------------- labels


def check_label(sheet: Sheet, chosen: Chosen, path: Path) -> None:
    """Raise TableError for a label that is not there, with the reason that is most likely."""
    label, names = chosen.label, sheet.names
    assert label is not None
    if label in names:
        return
    first = sheet.row_names if sheet.row_names is not None else sheet.frame[0]
    if not chosen.transpose and (first.astype(str).str.strip() == label).any():
        raise TableError(
            f"--label: {label!r} is a row of {path}, and samples must be in rows",
            {"--transpose": ""},
        )
    likely = likely_label(sheet)
    figures = [name for name in names if numbers.is_number(name)]
    if chosen.header and 2 * len(figures) > len(names):
        column = len(names) if likely is None else likely + 1
        raise TableError(
            f"{path} must name its columns in the first line, which holds numbers "
            f"({some(figures, 3)}); add a line of names, or name columns by their number",
            {"--no-header": "", "--label": f"column_{column}"},
        )
    changes: dict[str, Any] = {}
    message = f"--label: {path} has no {label!r}{nearest(label, names)}"
    close = nearest_name(label, names)
    if not chosen.transpose and _has_samples_in_columns(sheet):
        samples = names[sheet.row_names is None :]
        message += f". Its columns look like samples ({some(samples, 3)}): --transpose"
        changes["--transpose"] = ""
    elsewhere = _files_with(label, path)
    if elsewhere:
        message += f". Labels may be in another file: --labels {elsewhere[0]}:{label}"
        changes |= {"--label": None, "--labels": f"{elsewhere[0]}:{label}"}
    elif changes:
        message += ", with labels of another file: --labels FILE:COLUMN"
    elif close or likely is not None:
        changes["--label"] = close or names[likely or 0]
    raise TableError(message, changes)


def _has_samples_in_columns(sheet: Sheet) -> bool:
    """Whether rows are named by text, and hold nothing else but numbers: genes, not samples."""
    named = sheet.row_names is not None
    first = sheet.row_names if named else sheet.frame[0]
    texts = [i for i in numbers.text_columns(sheet.frame) if i > 0 or named]
    return not texts and not numbers.as_numbers(first, None).notna().any()


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


def refuse_text(
    frame: Any, names: list[str], has_ids: bool, sheet: Sheet, chosen: Chosen, path: Path
) -> None:
    """Raise TableError for features that hold text, with the options that help."""
    text = numbers.text_columns(frame)
    if not text:
        return
    # A column with a few words among its numbers, and one that is text altogether.
    wrong = {i: _no_numbers(frame[i], sheet.decimal) for i in text}
    spoilt = [i for i in text if numbers.are_mostly_numbers(wrong[i], frame[i].notna().sum())]
    if chosen.features is not None:  # of a model: none of them can be left out
        spoilt = text
    whole = [i for i in text if i not in spoilt]
    words = list(dict.fromkeys(str(cell) for i in spoilt for cell in wrong[i]))
    changes, remedies = _for_words(words, chosen) if spoilt else ({}, [])
    ids = [i for i in whole if frame[i].is_unique and not has_ids and frame[i].notna().all()][:1]
    if ids:
        name = names[ids[0]]
        changes["--id"] = name
        remedies.append(f"use {name!r} as sample names (--id {shlex.quote(name)})")
    dropped = [names[i] for i in whole if i not in ids]
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
    raise TableError(
        f"{path}: {sheet.what}{'s' * (not one)} {some([names[i] for i in text])} "
        f"hold{'s' * one} text ({where}), and features must be numbers; " + ", ".join(remedies),
        changes,
    )


def _for_words(words: list[str], chosen: Chosen) -> tuple[dict[str, Any], list[str]]:
    """Return options and remedies for words among numbers."""
    if numbers.is_ambiguous(words):
        remedy = "say whether commas group thousands (--decimal .) or are decimal (--decimal ,)"
        return {"--decimal": "."}, [remedy]
    if len(words) > MOST_WORDS or any("," in w or numbers.is_like_number(w) for w in words):
        return {}, ["correct these cells"]
    stand = f"{some(words)} stand{'s' * (len(words) == 1)}"
    missing = ",".join([*chosen.missing, *words])
    return {"--missing": missing, "--impute": "mean"}, [f"if {stand} for missing values, say so"]


def _no_numbers(column: Any, decimal: str | None) -> Any:
    """Return the cells of a column that are not numbers."""
    values = numbers.as_numbers(column.reset_index(drop=True), decimal)
    return column.reset_index(drop=True)[values.isna() & column.notna().to_numpy()]
