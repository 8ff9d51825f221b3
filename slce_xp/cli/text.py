"""Sheets in text files, as spreadsheets, R and the Gene Expression Omnibus write them."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
import shlex
import warnings
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slce_xp.cli import numbers
from slce_xp.cli.sheet import Count, Sheet, as_sheet, kept_as_text, numbered
from slce_xp.cli.table import Chosen, TableError, damaged, is_packed, kind_of, library, note

MARKS = "#!"  # begin comment lines, of R and of the Gene Expression Omnibus


class _Head(NamedTuple):
    """What the first lines of a text file say."""

    comments: int  # lines in front of the table
    has_header: bool  # in a line of its own, behind them
    separator: str
    header: list[str]
    n_fields: int  # of the first sample, 0 if there is none


def read_text(path: Path, chosen: Chosen, skipped: int = 0) -> Sheet:
    """Read a text table as written by spreadsheets, R and the Gene Expression Omnibus."""
    pandas = library("pandas", f"{path} needs")
    try:
        with opened(path) as file:
            head = _first_lines(itertools.islice(file, skipped, None), path, chosen)
        names = _row_names_first(head, path)
        frame, decimal = _parse(path, names, head, chosen, skipped)
    except UnicodeDecodeError as error:
        raise _no_utf8(path, error) from error
    except (gzip.BadGzipFile, EOFError, zlib.error, csv.Error) as error:
        raise damaged(path, kind_of(path), error) from error
    except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
        detail = str(error).strip().rpartition("C error: ")[2]
        raise TableError(
            f"{path} is not a table: {detail[:1].lower()}{detail[1:]}. Give every line as many "
            "fields as the first, and quote text that contains separators or quotes"
        ) from error
    header_is_comment = chosen.header and not head.has_header
    frame, gaps = _without_comments(frame, path, head.comments - header_is_comment)
    count = Count("line", 1 + skipped + head.comments + head.has_header, gaps)
    if head.n_fields > len(head.header) and not (
        frame[0].is_unique and frame.iloc[:, -1].notna().any()
    ):
        raise _too_many_fields(path)  # a first column or an empty last one, not names
    return as_sheet(frame, names, count, path, decimal)


def opened(path: Path) -> Any:
    """Open text; a byte-order mark and line ends of any system are not part of the table."""
    opener: Any = gzip.open if is_packed(path) else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


def _first_lines(lines: Iterable[str], path: Path, chosen: Chosen) -> _Head:
    """Return what the first lines say; empty ones do not count."""
    comments: list[str] = []

    def behind_comments() -> Iterator[str]:
        for line in lines:
            is_hint = re.fullmatch(r"sep=.\s*", line)  # Excel's, for itself
            if line.strip() and line[0] not in MARKS and not is_hint:
                yield line
                break
            comments.append(line)
        yield from lines

    behind = behind_comments()
    first = next(behind, "")
    if not first:
        raise TableError(f"{path} holds only empty lines; it must hold a table")
    separator = "\t" if kind_of(path) in (".tsv", ".gct") else max(",;\t", key=first.count)
    if separator not in first:
        separator = " "

    def fields(some_lines: Iterable[str]) -> Iterator[list[str]]:
        if separator == " ":  # blanks at the end of a line are not separators
            some_lines = (line.rstrip() + "\n" for line in some_lines)
        rows = csv.reader(some_lines, delimiter=separator, skipinitialspace=True)
        return ([field.strip() for field in row] for row in rows)

    rows = fields(itertools.chain([first], behind))
    header = next(rows)
    while comments and not comments[-1].strip():
        comments.pop()
    if not chosen.header:
        return _Head(len(comments), False, separator, numbered(len(header)), len(header))
    # The names of the columns may be a comment.
    marked = next(fields([comments[-1].lstrip(MARKS)])) if comments else []
    if len(marked) == len(header) > 1 and sum(map(numbers.is_number, header)) > sum(
        map(numbers.is_number, marked)
    ):
        return _Head(len(comments), False, separator, marked, len(header))
    n_fields = next((len(row) for row in rows if len(row) > 1 or any(row)), 0)
    return _Head(len(comments), True, separator, header, n_fields)


def _row_names_first(head: _Head, path: Path) -> list[str]:
    """Return a name for every column, "" for that of row names, which R does not name."""
    unnamed = head.n_fields - len(head.header)
    if unnamed > 1 or (unnamed == 1 and not head.header[0]):
        raise _too_many_fields(path)
    return ["", *head.header] if unnamed == 1 else head.header


def _parse(
    path: Path, names: list[str], head: _Head, chosen: Chosen, skipped: int
) -> tuple[Any, str | None]:
    """Return the frame, and the decimal separator if it is known."""
    pandas = library("pandas", f"{path} needs")
    kept = kept_as_text(names, chosen)
    # A row of labels is text, in which 01 is not 1.
    in_columns = chosen.transpose or kind_of(path) == ".gct"
    all_text = chosen.as_text or (in_columns and bool(chosen.label or chosen.ids))

    def read(decimal: str) -> Any:
        with warnings.catch_warnings():  # for columns that pandas would drop
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            # Every column has a number and none is an index: versions of pandas guess differently.
            return pandas.read_csv(
                path, sep=r"\s+" if head.separator == " " else head.separator,
                skiprows=skipped + head.comments, header=0 if head.has_header else None,
                names=range(len(names)), index_col=False, low_memory=False, decimal=decimal,
                dtype=str if all_text else dict.fromkeys(kept, str), na_values=[*chosen.missing],
                encoding="utf-8-sig", skipinitialspace=True,
            )  # fmt: skip

    decimal = chosen.decimal
    frame = read(decimal or ".")
    if decimal is None and not chosen.as_text:
        columns = [i for i in numbers.text_columns(frame) if i not in kept]
        decimal = numbers.decimal_of(numbers.words(frame, columns), head.separator)
        if decimal == "," and not all_text:
            frame = read(decimal)  # 1.234 among them would be a thousand
    return frame, decimal


def _without_comments(frame: Any, path: Path, before: int) -> tuple[Any, tuple[int, ...]]:
    """Return the frame without comment lines, and where they were.

    They begin with a mark and have a single field.
    """
    marked = np.array([isinstance(cell, str) and cell[:1] in (*MARKS,) for cell in frame[0]])
    gaps: tuple[int, ...] = ()
    if marked.any() and frame.shape[1] > 1:
        inside = marked & frame.iloc[:, 1:].isna().all(axis=1).to_numpy()
        gaps = tuple(int(row) for row in np.flatnonzero(inside))
        frame = frame[~inside].reset_index(drop=True)
    count = before + len(gaps)
    if count:
        note(f"left out {count} comment line{'s' * (count != 1)} of {path}")
    return frame, gaps


def _no_utf8(path: Path, error: UnicodeDecodeError) -> TableError:
    start = error.object[:1000]
    is_utf16 = start[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\0" in start and not is_utf16:
        return TableError(f"{path} is not a text file, despite its name; export the table as CSV")
    return TableError(
        f"{path} must be text in UTF-8 ({error.reason} at byte {error.start}); save it as such, or "
        f"convert it, perhaps with: iconv -f {'UTF-16' if is_utf16 else 'LATIN1'} -t UTF-8 "
        f"{shlex.quote(str(path))} > new.csv"
    )


def _too_many_fields(path: Path) -> TableError:
    return TableError(
        f"{path} has more fields in its lines than names in the first line; name every column, "
        "and remove separators at the ends of lines"
    )
