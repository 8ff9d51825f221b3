"""Tables with column names: text and Parquet, read by pandas."""

from __future__ import annotations

import csv
import functools
import gzip
import itertools
import shlex
import warnings
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slce_xp._data.labels import label_values
from slce_xp.cli.table import (
    Chosen,
    Table,
    TableError,
    as_labels,
    as_names,
    check_distinct,
    damaged,
    drop_option,
    features,
    find,
    is_packed,
    kind_of,
    library,
    some,
)


class _Count(NamedTuple):
    """How rows of a file are numbered in messages."""

    word: str
    first: int

    def __call__(self, row: int) -> str:
        return f"{self.word} {row + self.first}"


# ---------------------------------------------------------------- text


def read_text(path: Path, chosen: Chosen) -> Table:
    """Read a text table as written by spreadsheets and R."""
    pandas = library("pandas", f"{path} needs")
    try:
        # A byte-order mark and line ends of any system are not part of the table.
        opener: Any = gzip.open if is_packed(path) else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            separator, header, n_fields = _first_lines(file, path)
        _check_header(header if header[0] else header[1:], chosen, path)
        # The index of a frame is an unnamed column; R omits it from the header.
        unnamed = n_fields - len(header)
        if unnamed > 1 or (unnamed == 1 and not header[0]):
            raise _too_many_fields(path)
        names = ["", *header] if unnamed == 1 else header
        # Every column is named and none is an index: versions of pandas guess differently.
        read = functools.partial(
            pandas.read_csv, path, sep=r"\s+" if separator == " " else separator, header=0,
            names=names, index_col=False, low_memory=False,
            dtype=dict.fromkeys({chosen.label, chosen.ids, ""}.intersection(names), str),
            encoding="utf-8-sig", skipinitialspace=True,
        )  # fmt: skip
        with warnings.catch_warnings():  # for columns that pandas would drop
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = read()
        if separator == ";" and _text(frame):  # the decimal separator may be a comma
            frame = min(frame, read(decimal=","), key=lambda frame: len(_text(frame)))
        if chosen.label in header:
            frame[chosen.label] = _whole_numbers(frame[chosen.label])
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
    if unnamed == 1 and not (frame[""].is_unique and frame.iloc[:, -1].notna().any()):
        raise _too_many_fields(path)  # a first column or an empty last one, not names
    has_row_names = not names[0]
    if has_row_names:
        frame = frame.set_index("").rename_axis(None)
    return _from_frame(frame, has_row_names, path, chosen, _Count("line", 2))


def _whole_numbers(labels: Any) -> Any:
    """Convert text to integers if that is lossless: not 01, which may be another class than 1."""
    text = labels.dropna().str.strip()
    if not text.str.fullmatch(r"0|-?[1-9]\d{0,17}").all():
        return labels
    return labels.str.strip().astype("Int64")


def _first_lines(lines: Iterable[str], path: Path) -> tuple[str, list[str], int]:
    """Return the separator, the names in the first line, and the number of fields in the second.

    Empty lines do not count; 0 fields if there is no second line.
    """
    lines = itertools.dropwhile(lambda line: not line.strip(), lines)
    first = next(lines, "")
    if not first:
        raise TableError(f"{path} holds only empty lines; it must hold a table")
    separator = "\t" if kind_of(path) == ".tsv" else max(",;\t", key=first.count)
    if separator not in first:
        separator = " "
    lines = itertools.chain([first], lines)
    if separator == " ":  # blanks at the end of a line are not separators
        lines = (line.rstrip() + "\n" for line in lines)
    rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    header = [name.strip() for name in next(rows)]
    n_fields = (len(row) for row in rows if len(row) > 1 or any(map(str.strip, row)))
    return separator, header, next(n_fields, 0)


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


def _check_header(header: Sequence[str], chosen: Chosen, path: Path) -> None:
    check_distinct(header, path)
    if "" in header:
        raise TableError(
            f"{path}: column {header.index('') + 1} has no name in the first line; name it, or "
            "remove separators at the ends of lines"
        )
    numbers = [name for name in header if _is_number(name)]
    if chosen.label not in (None, *header) and 2 * len(numbers) > len(header):
        raise TableError(
            f"{path} must name its columns in the first line, which holds numbers "
            f"({some(numbers, 3)}); add a line of names"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _too_many_fields(path: Path) -> TableError:
    return TableError(
        f"{path} has more fields in its lines than names in the first line; name every column, "
        "and remove separators at the ends of lines"
    )


# ---------------------------------------------------------------- Parquet


def read_parquet(path: Path, chosen: Chosen) -> Table:
    """Read a Parquet table."""
    pandas = library("pandas", f"{path} needs")
    parquet = library("pyarrow.parquet", f"{path} needs")
    try:
        schema = parquet.read_schema(path)
        check_distinct(schema.names, path)
        frame = pandas.read_parquet(path, engine="pyarrow")
        if chosen.label in frame.columns and frame[chosen.label].dtype.kind == "f":
            # pandas converts integers with missing values to floats.
            column = parquet.read_table(path, columns=[chosen.label]).column(chosen.label)
            frame[chosen.label] = column.to_pandas(integer_object_nulls=True).to_numpy()
    except Exception as error:  # depends on the contents
        if isinstance(error, (PermissionError, MemoryError, TableError)):
            raise
        raise damaged(path, ".parquet", error) from error
    frame.columns = [str(name) for name in frame.columns]
    # An index is a column of the file, a row count is not. The frame does not distinguish them:
    # pandas 3 may hold an index 1, 2, ... as a count.
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    has_row_names = any(isinstance(column, str) for column in index)
    return _from_frame(frame, has_row_names, path, chosen, _Count("row", 1))


# ---------------------------------------------------------------- both


def _from_frame(
    frame: Any, has_row_names: bool, path: Path, chosen: Chosen, count: _Count
) -> Table:
    if not len(frame):
        raise TableError(f"{path} has a header but no rows; a table has a row for each sample")
    if frame.index.name in {chosen.ids, chosen.label} - {None}:
        frame, has_row_names = frame.reset_index(), False
    names = [str(name) for name in frame.columns]
    ids = labels = None
    if chosen.ids is not None:
        ids = sample_names(frame[find(chosen.ids, names, "--id", path)])
    elif has_row_names:
        ids = sample_names(frame.index.to_series())
    if chosen.label is not None:
        _refuse_transposed(frame, chosen.label, path)
        labels = class_labels(frame[find(chosen.label, names, "--label", path)])
    chosen_names, passed_over = features(names, chosen, path)
    chosen_columns = frame[chosen_names]
    _refuse_text(chosen_columns, path, count)
    single = all(str(kind).lower() == "float32" for kind in chosen_columns.dtypes)
    X = chosen_columns.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    place = _first_infinite(X)
    if place is not None:
        raise TableError(
            f"{path}: column {chosen_names[place[1]]!r} is infinite in {count(place[0])}; "
            "correct it, leave it empty if it is missing, or drop the column"
        )
    return Table(np.ascontiguousarray(X), as_names(chosen_names), labels, ids, passed_over)


def _refuse_transposed(frame: Any, label: str, path: Path) -> None:
    """Raise TableError for genes in rows and samples in columns, as is common in biology."""
    if label not in frame.columns and (label in frame.index or (frame.iloc[:, 0] == label).any()):
        raise TableError(
            f"--label: {label!r} is a row of {path}, and samples must be in rows; transpose the "
            "table"
        )


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


def _text(frame: Any) -> list[str]:
    """Return the columns that are neither numbers nor empty."""
    is_number = library("pandas", "the table needs").api.types.is_numeric_dtype
    text = [name for name, kind in frame.dtypes.items() if not is_number(kind)]
    return [name for name in text if not frame[name].isna().all()]


def _refuse_text(frame: Any, path: Path, count: _Count) -> None:
    text = _text(frame)
    if not text:
        return
    pandas = library("pandas", f"{path} needs")
    column = frame[text[0]].reset_index(drop=True)
    wrong = column[pandas.to_numeric(column.astype(str), errors="coerce").isna() & column.notna()]
    are_numbers = not len(wrong)  # stored as text or as decimals
    if are_numbers:
        wrong = column.dropna()
    where = f"{str(wrong.iloc[0])!r} in {count(int(wrong.index[0]))}"
    few = 2 * len(wrong) < len(column)
    if few:
        where = f"{len(wrong)} of {len(column)} rows, {where}"
    correct = "store them as floats, or " if are_numbers else "correct these, or " if few else ""
    more = f" and {len(text) - 5} more" if len(text) > 5 else ""
    one = len(text) == 1
    ids = [name for name in text if frame[name].is_unique]
    as_ids = f", or use {ids[0]!r} as sample names: --id {shlex.quote(ids[0])}" if ids else ""
    kind = f"numbers as {column.dtype}" if are_numbers else "text"
    raise TableError(
        f"{path}: column{'s' * (not one)} {some(text)} hold{'s' * one} {kind} ({where}), and "
        f"features must be numbers; {correct}leave {'it' if one else 'them'} out with "
        f"{drop_option(text[:5])}{more}{as_ids}"
    )
