"""Numbers as people write them: decimal commas, thousands separators, words for missing values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from slce_xp.cli.table import library, note

_OTHER = {".": ",", ",": "."}  # the usual thousands separator, by the decimal one
_SIGN, _EXPONENT = r"\s*[+-]?", r"(?:[eE][+-]?\d+)?\s*"


def _grouped(decimal: str) -> str:
    """Return the pattern of numbers with thousands separators: 1,234.5 or 1 234.5 or 1'234.5."""
    groups = "|".join(rf"(?:{mark}\d{{3}})+" for mark in (re.escape(_OTHER[decimal]), " ", "'"))
    return rf"{_SIGN}\d{{1,3}}(?:{groups})(?:{re.escape(decimal)}\d*)?{_EXPONENT}"


_GROUPED = {decimal: re.compile(_grouped(decimal)) for decimal in _OTHER}
_PLAIN = re.compile(rf"{_SIGN}(?:\d+\.?\d*|\.\d+){_EXPONENT}")
_COMMA = re.compile(rf"{_SIGN}(?:\d+,\d*|,\d+){_EXPONENT}")


def is_number(text: str) -> bool:
    """Whether a word is a plain number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def decimal_of(cells: Iterable[str], separator: str) -> str | None:
    """Return the decimal separator of numbers among words; None if there is none to be known.

    "1,234" alone may be both, unless `separator`, that of the columns, is a semicolon: files with
    these come from places where commas are decimal.
    """
    seen = {"comma": "", "point": "", "either": ""}
    for cell in cells:
        if _PLAIN.fullmatch(cell):
            continue
        comma = bool(_COMMA.fullmatch(cell) or _GROUPED[","].fullmatch(cell))
        point = bool(_GROUPED["."].fullmatch(cell))
        if comma and point and "," not in cell:  # 1 234
            seen["point"] = seen["point"] or cell
        elif comma or point:
            kind = "either" if comma and point else "comma" if comma else "point"
            seen[kind] = seen[kind] or cell
    if seen["comma"] and seen["point"]:
        return None
    found = "," if seen["comma"] else "." if seen["point"] else None
    if found is None and seen["either"] and separator == ";":
        found = ","
    if found is not None:
        cell = seen["comma"] or seen["point"] or seen["either"]
        note(
            f"{cell!r} is read as {_value(cell, found):.15g}; if that is wrong: "
            f"--decimal {_OTHER[found]!r}"
        )
    return found


def _value(cell: str, decimal: str) -> float:
    digits = re.sub(f"[{_OTHER[decimal]}' ]", "", cell)
    return float(digits.replace(",", "."))


def as_numbers(column: Any, decimal: str | None) -> Any:
    """Return a column as numbers, NaN for text that is not a number.

    Without a decimal separator, numbers with thousands separators are text.
    """
    pandas = library("pandas", "the table needs")
    if pandas.api.types.is_numeric_dtype(column):
        return column.astype(float)
    plain = column
    if decimal == ",":  # 1.234 is not a plain number then
        plain = column.mask(column.map(lambda cell: isinstance(cell, str)).astype(bool), np.nan)
    values = pandas.to_numeric(plain, errors="coerce").astype(float)
    left = column[values.isna() & column.notna()]
    if not len(left) or decimal is None:
        return values
    left = left.astype(str)
    grouped = left.str.fullmatch(_GROUPED[decimal].pattern)
    plain = left.where(~grouped, left.str.replace(f"[{_OTHER[decimal]}' ]", "", regex=True))
    if decimal == ",":
        plain = plain[~plain.str.contains(".", regex=False)].str.replace(",", ".", regex=False)
    values[plain.index] = pandas.to_numeric(plain, errors="coerce").astype(float)
    return values


def text_columns(frame: Any) -> list[Any]:
    """Return the columns that are neither numbers nor empty."""
    is_number = library("pandas", "the table needs").api.types.is_numeric_dtype
    text = [name for name, kind in frame.dtypes.items() if not is_number(kind)]
    return [name for name in text if not frame[name].isna().all()]


def words(frame: Any, columns: Iterable[Any]) -> list[str]:
    """Return the different cells of some columns that are text, and not plain numbers."""
    to_numeric = library("pandas", "the table needs").to_numeric
    found: dict[str, None] = {}
    for name in columns:
        left = frame[name][to_numeric(frame[name], errors="coerce").isna()]
        found.update(dict.fromkeys(cell for cell in left.unique() if isinstance(cell, str)))
    return list(found)


def is_ambiguous(cells: Iterable[str]) -> bool:
    """Whether all words are numbers such as 1,234, in which a comma may mean two things."""
    return all(_COMMA.fullmatch(cell) and _GROUPED["."].fullmatch(cell) for cell in cells)


def are_mostly_numbers(wrong: Any, count: int) -> bool:
    """Whether a column of `count` cells, of which some are not plain numbers, means numbers."""
    words = sum(not is_like_number(str(cell)) for cell in wrong)
    return 2 * words < count


def is_like_number(cell: str) -> bool:
    """Whether a word is a number in some place of the world."""
    return any(pattern.fullmatch(cell) for pattern in (_PLAIN, _COMMA, *_GROUPED.values()))
