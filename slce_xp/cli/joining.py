"""Labels in a file of their own, joined by the names of samples."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp.cli.advice import likely_label
from slce_xp.cli.frames import class_labels, whole_numbers
from slce_xp.cli.names import find, some
from slce_xp.cli.sheet import Sheet
from slce_xp.cli.sheets import KINDS, read_sheet
from slce_xp.cli.table import Chosen, Table, TableError, as_labels, kind_of, note


def with_labels(table: Table, path: Path, chosen: Chosen) -> Table:
    """Return the table with the labels of another file; samples that it lacks are left out.

    They stay, without a label, if samples without a label are to be used.
    """
    assert chosen.labels is not None
    file, column = _file_and_column(chosen.labels)
    if table.ids is None:
        raise TableError(
            f"--labels {file} is joined by the names of samples, and {path} has none; name the "
            "column with --id, or give labels in the order of the rows: --label FILE"
        )
    sheet = read_sheet(file, Chosen(label=column, missing=chosen.missing, as_text=True))
    if column not in sheet.names:
        likely = likely_label(sheet)
        changes = {} if likely is None else {"--labels": f"{file}:{sheet.names[likely]}"}
        if not column:
            raise TableError(
                f"--labels {file} must be FILE:COLUMN; it has {some(sheet.names, 8)}", changes
            )
        find(column, sheet.names, "--labels", file)
    names = [str(name).strip() for name in table.ids]
    _check_distinct(names, path)
    by, keys = _key(sheet, column, names, file, path)
    known = set(names)
    _check_distinct([key for key in keys if key in known], file)
    labels = class_labels(whole_numbers(sheet.frame[sheet.names.index(column)]))
    label_of = dict(zip(keys, labels, strict=True))
    there = np.array([name in label_of for name in names])
    absent = [name for name in names if name not in label_of]
    extra = len(set(label_of) - known)
    parts = []
    if absent:
        gone = "have no label" if chosen.unlabeled == "use" else "are left out"
        parts.append(f"{len(absent)} of {len(names)} samples are not in {file} and {gone}: ")
        parts[0] += some(absent, 3)
    if extra:
        parts.append(f"{extra} of {len(label_of)} lines of {file} name no sample of {path}")
    if parts:
        note(f"labels joined by {by}; {'; '.join(parts)}")
    table = dataclasses.replace(table, labels=as_labels([label_of.get(name) for name in names]))
    if chosen.unlabeled == "use" or not table.in_memory:
        return table
    return table.rows(there)


def _file_and_column(text: str) -> tuple[Path, str]:
    name, _, column = text.rpartition(":")
    file = Path(name)
    if not name or not file.is_file():
        if Path(text).is_file():
            file, column = Path(text), ""
        else:
            raise TableError(
                f"--labels {text} must be FILE:COLUMN, such as meta.tsv:diagnosis; there is no "
                f"file {name or text}"
            )
    if kind_of(file) not in KINDS:
        raise TableError(f"--labels {file} must end in {', '.join(KINDS)}; save it as one of these")
    return file, column


def _key(
    sheet: Sheet, column: str, names: list[str], file: Path, path: Path
) -> tuple[str, list[str]]:
    """Return the column that names the samples, which has most of their names, and its values."""
    columns: dict[str, Any] = {} if sheet.row_names is None else {"row names": sheet.row_names}
    columns |= {repr(name): sheet.frame[i] for i, name in enumerate(sheet.names) if name != column}
    known = set(names)
    texts = {name: [str(cell).strip() for cell in cells] for name, cells in columns.items()}
    best = max(texts, key=lambda name: len(known.intersection(texts[name])), default="")
    if not best or not known.intersection(texts[best]):
        first = next(iter(texts.values()), [])
        raise TableError(
            f"no column of {file} has the names of samples of {path}, such as {some(names, 3)}; "
            f"the first has {some(first, 3)}. Give both files the same names"
        )
    return best, texts[best]


def _check_distinct(names: list[str], path: Path) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(
            f"{path} must name each sample once to be joined with labels; {some(twice)} "
            f"appear{'s' * (len(twice) == 1)} more than once. Remove or rename the others"
        )
