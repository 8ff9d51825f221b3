"""Numbers as people write them: decimal commas, thousands separators, words among numbers."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

from slce_xp.cli import tables
from slce_xp.cli.tables import TableError

# 1,5 and 1.234,5 and 1 234 with a decimal comma; 1,234.5 and 1'234 with a decimal point.
_WRITTEN = {
    ",": re.compile(r"\s*[+-]?(?=,?\d)(\d+|\d{1,3}([.' ]\d{3})+)?(,\d*)?([eE][+-]?\d+)?\s*"),
    ".": re.compile(r"\s*[+-]?\d{1,3}([,' ]\d{3})+(\.\d*)?([eE][+-]?\d+)?\s*"),
}
_LIKE = re.compile(r"^[+-]?[\d.,' ]*\d[\d.,' ]*([eE][+-]?\d+)?$|,")  # somewhere in the world
MOST_WORDS = 6  # different words in columns of numbers that are taken for missing values


def text_columns(frame: Any) -> list[str]:
    """Return the columns that are neither numbers nor empty."""
    is_number = tables.library("pandas", "the table needs").api.types.is_numeric_dtype
    text = [name for name, kind in frame.dtypes.items() if not is_number(kind)]
    return [name for name in text if not frame[name].isna().all()]


def as_numbers(column: Any, decimal: str | None = None) -> Any:
    """Return a column as numbers, NaN for cells that are none."""
    to_numeric = tables.library("pandas", "the table needs").to_numeric
    if column.dtype.kind in "mM":  # dates, which would become numbers
        column = column.astype(str)
    if decimal is not None:
        column = column.map(lambda cell: _plain(cell, decimal) if isinstance(cell, str) else cell)
    return to_numeric(column, errors="coerce")


def no_numbers(column: Any, decimal: str | None = None) -> Any:
    """Return the cells of a column that are neither numbers nor missing."""
    return column[as_numbers(column, decimal).isna() & column.notna()].astype(str)


def words(frame: Any, names: Iterable[str]) -> list[str]:
    """Return the different cells of columns of text that are not numbers."""
    return list(dict.fromkeys(cell for name in names for cell in no_numbers(frame[name]).unique()))


def decimal_of(cells: Iterable[str], separator: str = ",") -> str | None:
    """Return, and report, the decimal separator of numbers among cells; None if unknown.

    "1,234" alone may be both, unless `separator`, that of the columns, is a semicolon: files with
    these come from places where commas are decimal.
    """
    comma, point = (set(filter(form.fullmatch, cells)) for form in _WRITTEN.values())
    both = comma & point
    if comma - both and point - both:
        return None
    if comma - both or (both and separator == ";"):
        decimal, other, known = ",", ".", comma - both or both
    elif point - both or not all("," in cell for cell in both):  # 1 234
        decimal, other, known = ".", ",", point - both or both
    else:
        return None
    value = float(_plain(min(known), decimal))
    tables.note(f"{min(known)!r} is read as {value:.15g}; if that is wrong: --decimal {other!r}")
    return decimal


def _plain(cell: str, decimal: str) -> str:
    """Return a number as Python writes it; with a decimal comma, 1.5 is none."""
    if not _WRITTEN[decimal].fullmatch(cell):
        return cell if decimal == "." else ""
    return re.sub("[.' ]" if decimal == "," else "[,' ]", "", cell).replace(",", ".")


def with_numbers(frame: Any, text: Iterable[str], decimal: str | None) -> Any:
    """Return the frame with numbers in those columns of text in which every cell is one."""
    for name in text:
        values = as_numbers(frame[name], decimal)
        if (values.notna() | frame[name].isna()).all():
            frame[name] = values.astype(float)
    return frame


def refuse_words(frame: Any, names: Iterable[str], arguments: Namespace) -> None:
    """Raise TableError if columns that should be numbers hold words."""
    decimal = frame.attrs.get("decimal")
    found = {name: no_numbers(frame[name], decimal) for name in names}
    wrong = {name: cells for name, cells in found.items() if len(cells)}
    if not wrong:
        return
    different = list(dict.fromkeys(cell for cells in wrong.values() for cell in cells))
    changes: dict[str, str | None] = {}
    remedy = "correct these cells"
    if all(form.fullmatch(word) for word in different for form in _WRITTEN.values()):
        changes = {"--decimal": "."}
        remedy = "say whether commas group thousands (--decimal .) or are decimal (--decimal ,)"
    elif len(different) <= MOST_WORDS and not any(map(_LIKE.search, different)):
        changes = {"--na": ",".join([*arguments.na, *different]), "--missing": "mean"}
        remedy = "if they stand for missing values, name them with --na"
    name, cells = next(iter(wrong.items()))
    row = frame.index.get_loc(cells.index[0]) + 1
    raise TableError(
        f"{arguments.table}: words among the numbers of {tables.some(list(wrong))}: "
        f"{tables.some(different)} ({cells.iloc[0]!r} in row {row} of {name!r}); {remedy}",
        changes,
    )


def are_mostly_numbers(column: Any) -> bool:
    """Whether a column of text means numbers, for more than half of its cells are some."""
    words = sum(not _LIKE.search(cell) for cell in no_numbers(column))
    return 2 * words < int(column.notna().sum())
