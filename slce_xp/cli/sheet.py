"""A sheet: named columns of any kind, as a file has them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from slce_xp.cli.table import Chosen, TableError, note


class Count(NamedTuple):
    """How rows of a file are numbered in messages: from a first number, with gaps."""

    word: str
    first: int
    gaps: tuple[int, ...] = ()

    def __call__(self, row: int) -> str:
        """Return the place of a row."""
        for gap in self.gaps:
            row += gap <= row
        return f"{self.word} {row + self.first}"


@dataclasses.dataclass(frozen=True)
class Sheet:
    """Samples in rows, with columns of any kind.

    Attributes
    ----------
    frame : pandas.DataFrame
        Columns and rows have numbers from 0; columns of numbers are numbers.
    names : list of str
        The names of the columns, in which some may appear twice.
    row_names : pandas.Series or None
    count : Count
    what : str
        What a feature is in the file: a column, or a row.
    decimal : str or None
        The decimal separator of numbers that are still text, if known.
    data, other_data
        As in `Table`.
    """

    frame: Any
    names: list[str]
    row_names: Any
    count: Count
    what: str = "column"
    decimal: str | None = None
    data: str = ""
    other_data: tuple[str, ...] = ()


def as_sheet(frame: Any, names: list[str], count: Count, path: Path, decimal: str | None) -> Sheet:
    """Return the sheet of a frame: row names apart, and no columns that are wholly empty."""
    row_names = None
    if not names[0] and len(names) > 1:
        row_names, frame, names = frame[0], frame.iloc[:, 1:], names[1:]
    unnamed = [i for i, name in enumerate(names) if not name]
    full = [i for i in unnamed if frame.iloc[:, i].notna().any() or not len(frame)]
    if full:
        raise TableError(
            f"{path}: column {full[0] + 1 + (row_names is not None)} has no name in the first "
            "line; name it, or remove separators at the ends of lines"
        )
    if unnamed:
        note(f"{path}: columns without names and values are left out")
        frame = frame.drop(columns=frame.columns[unnamed])
    frame = frame.set_axis(range(frame.shape[1]), axis=1)
    return Sheet(frame, [name for name in names if name], row_names, count, decimal=decimal)


def kept_as_text(names: list[str], chosen: Chosen) -> set[int]:
    """Return columns in which 01 is not 1: labels and names of samples."""
    wanted = {chosen.label, chosen.ids, ""}
    return {i for i, name in enumerate(names) if name in wanted and (name or i == 0)}


def numbered(count: int) -> list[str]:
    """Return names of columns that have none."""
    return [f"column_{i + 1}" for i in range(count)]
