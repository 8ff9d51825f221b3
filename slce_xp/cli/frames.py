"""Data frames from files: text tables, workbooks, Parquet."""

from __future__ import annotations

import csv
import gzip
import itertools
import warnings
import zlib
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from slce_xp.cli import numbers, tables
from slce_xp.cli.tables import TableError

KINDS = (".csv", ".tsv", ".txt", ".xlsx", ".parquet")
MARKS = "#!"  # begin comment lines, of R and of the Gene Expression Omnibus
TEXT = 0.9  # share of cells that are text from which on a column is no sample
SOME_ROWS = 20  # in which the line of names of a sheet is


class _Cells(NamedTuple):
    """The cells of a file, in columns 0, 1 and so on: `read` takes the decimal separator."""

    names: list[str]
    read: Callable[[str], Any]
    separator: str = ","


def read_frame(path: Path, arguments: Namespace) -> Any:
    """Read a frame with samples in rows; its names are texts.

    The index of the frame names the samples if it has a name, which is "".
    """
    try:
        try:
            return _frame(path, arguments, "utf-8-sig")
        except UnicodeError:
            tables.note(f"{path} is not in UTF-8, and is read as Latin-1")
            return _frame(path, arguments, "latin-1")
    except (gzip.BadGzipFile, EOFError, zlib.error, csv.Error, PermissionError) as error:
        raise tables.damaged(path, error) from error


def _frame(path: Path, arguments: Namespace, encoding: str) -> Any:
    read = {".parquet": _parquet, ".xlsx": _workbook}.get(tables.kind_of(path), _text)
    cells = read(path, arguments, encoding)
    frame, text = _read(cells, arguments.decimal or ".", arguments)
    words = numbers.words(frame, text)
    decimal = arguments.decimal or numbers.decimal_of(words, cells.separator)
    if decimal == "," != arguments.decimal:  # 1.234 may be a thousand
        frame, text = _read(cells, decimal, arguments)
    frame = _named(numbers.with_numbers(frame, text, decimal), cells.names, path)
    frame.attrs["decimal"] = decimal
    return _transposed(frame, path) if arguments.transpose else frame


def _read(cells: _Cells, decimal: str, arguments: Namespace) -> tuple[Any, list[Any]]:
    """Return the cells, and those of their columns in which text may be numbers."""
    frame = cells.read(decimal)
    kept = _kept(cells.names, arguments)
    text: list[Any] = numbers.text_columns(frame)
    return frame, [i for i in text if i not in kept]


def _kept(names: Sequence[str], arguments: Namespace) -> list[int]:
    """Return the columns that stay text: in names and classes 01 is not 1."""
    if arguments.transpose:
        return [0]
    roles = tables.roles_of(arguments).values()
    return [i for i, name in enumerate(names) if name in roles or not name]


# ---------------------------------------------------------------- text


def _text(path: Path, arguments: Namespace, encoding: str) -> _Cells:
    """Return the cells of a table by a spreadsheet, R or the Gene Expression Omnibus."""
    with _opened(path, "rb") as file:
        start = file.read(1000)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif b"\0" in start:
        raise TableError(f"{path} is not a text file, despite its name; export the table as CSV")
    skipped, separator, names, sample = _first_lines(path, encoding)
    # R does not name the column of row names.
    has_names_of_rows = len(sample) == len(names) + 1 and bool(names[0])
    names = [""] * has_names_of_rows + names
    pandas = tables.library("pandas", f"{path} needs")
    kept = dict.fromkeys(_kept(names, arguments), str)

    def read(decimal: str) -> Any:
        try:
            with warnings.catch_warnings():  # for columns that pandas would drop
                warnings.simplefilter("error", pandas.errors.ParserWarning)
                # Every column has a number and none is an index: pandas would guess.
                frame = pandas.read_csv(
                    path, sep=r"\s+" if separator == " " else separator, skiprows=skipped,
                    header=0, names=range(len(names)), index_col=False,
                    dtype=kept, decimal=decimal, na_values=arguments.na,
                    skipinitialspace=True, encoding=encoding,
                )  # fmt: skip
        except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
            raise TableError(
                f"{path} is not a table ({str(error).strip().rpartition('C error: ')[2]}). Give "
                "every line as many fields as the first, and quote text that has separators"
            ) from error
        last = frame[len(names) - 1]
        if has_names_of_rows and (last.isna().all() or not frame[0].is_unique):
            raise TableError(
                f"{path} has more fields in its lines than names; name every column, and remove "
                "separators at the ends of lines"
            )
        return _without_comments(frame, path)

    return _Cells(names, read, separator)


def _first_lines(path: Path, encoding: str) -> tuple[int, str, list[str], list[str]]:
    """Return the number of comments on top, the separator, and the first two lines in fields."""
    with _opened(path, "rt", encoding=encoding, newline="") as file:
        comments, first = 0, ""
        for line in file:
            if line.strip() and line[0] not in MARKS and not line.startswith("sep="):  # Excel's
                first = line
                break
            comments += 1
        if not first:
            raise TableError(f"{path} holds only empty lines; it must hold a table")
        separator = "\t" if tables.kind_of(path) == ".tsv" else max(",;\t", key=first.count)
        separator = separator if separator in first else " "
        lines = itertools.chain([first], file)
        # Blanks at the end of a line are not separators.
        both = (line.strip() + "\n" for line in lines) if separator == " " else lines
        rows = csv.reader(both, delimiter=separator, skipinitialspace=True)
        names = [name.strip() for name in next(rows)]
        return comments, separator, names, next((row for row in rows if any(row)), [])


def _opened(path: Path, *how: Any, **more: Any) -> Any:
    return gzip.open(path, *how, **more) if tables.is_packed(path) else path.open(*how, **more)


def _without_comments(frame: Any, path: Path) -> Any:
    """Return the frame without comment lines, which begin with a mark and have a single field."""
    if frame.shape[1] < 2 or frame[0].dtype.kind in "iuf":
        return frame
    marked = frame[0].astype(str).str[:1].isin(list(MARKS)) & frame[1].isna()
    marked &= frame.loc[:, 1:].isna().all(axis=1) if marked.any() else False
    if marked.any():
        tables.note(f"left out {int(marked.sum())} comment lines of {path}")
        return frame[~marked].reset_index(drop=True)
    return frame


# ---------------------------------------------------------------- other formats


def _workbook(path: Path, arguments: Namespace, _: str) -> _Cells:
    """Return the cells of a sheet of a workbook: the first, or the one chosen."""
    pandas = tables.library("pandas", f"{path} needs")
    tables.library("openpyxl", f"{path} needs")
    try:
        with pandas.ExcelFile(path, engine="openpyxl") as book:
            sheets = [str(name) for name in book.sheet_names]
            _check_sheet(book, sheets, path, arguments)
            cells = _without_words(_sheet(book, arguments.data or sheets[0]), arguments.na)
    except Exception as error:  # depends on the contents
        raise tables.damaged(path, error) from error
    names = ["" if cell != cell else str(cell).strip() for cell in cells.iloc[0]]
    cells = cells.iloc[1:].reset_index(drop=True)
    for i in _kept(names, arguments):
        cells[i] = cells[i].map(lambda cell: str(cell).strip(), na_action="ignore")
    return _Cells(names, lambda decimal: cells.infer_objects())


def _sheet(book: Any, sheet: str, rows: int | None = None) -> Any:
    """Return the cells of a sheet, without empty rows and columns."""
    cells = book.parse(sheet, header=None, dtype=object, nrows=rows)
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    return cells.set_axis(range(cells.shape[1]), axis=1).reset_index(drop=True)


def _check_sheet(book: Any, sheets: list[str], path: Path, arguments: Namespace) -> None:
    """Raise TableError if the first sheet has no table, or not the label that another one has."""
    if arguments.data is not None and arguments.data not in sheets:
        raise tables.no_such(arguments.data, sheets, "--data", path)
    if arguments.data is not None or len(sheets) < 2:
        return
    tops = {sheet: _sheet(book, sheet, SOME_ROWS) for sheet in sheets}
    has_label = [name for name, top in tops.items() if top.isin([arguments.label]).any(axis=None)]
    first, listed = sheets[0], f"its sheets are {tables.some(sheets, 8)}"
    if tops[first].shape[1] < 2 or (has_label and first not in has_label):
        lacks = f"has no {arguments.label!r}" if arguments.label else "holds no table"
        raise TableError(
            f"{path}: its first sheet {first!r} {lacks}; {listed}: choose one with --data",
            {"--data": has_label[0]} if has_label else {},
        )
    tables.note(f"{path}: sheet {first!r} was used; {listed}, and --data chooses one")


def _parquet(path: Path, arguments: Namespace, _: str) -> _Cells:
    parquet = tables.library("pyarrow.parquet", f"{path} needs")
    try:  # integers stay integers if some are missing
        frame = parquet.read_table(path).to_pandas(integer_object_nulls=True)
    except Exception as error:  # depends on the contents
        raise tables.damaged(path, error) from error
    names = [str(name) for name in frame.columns]
    if type(frame.index).__name__ != "RangeIndex":  # names, and not a count
        index = str(frame.index.name)
        names = [index if index in tables.roles_of(arguments).values() else "", *names]
        frame = frame.reset_index()
    frame = _without_words(frame.set_axis(range(len(names)), axis=1), arguments.na)
    return _Cells(names, lambda decimal: frame)


def _without_words(frame: Any, words: Sequence[str]) -> Any:
    """Return the frame without words, or numbers, that stand for missing values."""
    if not words:
        return frame
    codes = [float(word) for word in words if word.lstrip("-").replace(".", "", 1).isdigit()]
    return frame.mask(frame.isin([*words, *codes]))


# ---------------------------------------------------------------- all of them


def _named(frame: Any, names: Sequence[str], path: Path) -> Any:
    """Name the columns, make names distinct, and put a first column without a name in the index."""
    # Not by drop or set_axis, which copy.
    index = frame.pop(0) if not names[0] and len(names) > 1 else None
    unnamed = [i for i in frame.columns if not names[i]]
    full = [i for i in unnamed if frame[i].notna().any()]
    if full:
        raise TableError(
            f"{path}: column {full[0] + 1} has no name in the first line; name it, or remove "
            "separators at the ends of lines"
        )
    if unnamed:
        frame = frame.drop(columns=unnamed)
    frame.columns = _distinct([name for name in names if name], path)
    if index is not None:
        frame.index = index.rename("").astype(object)
    return frame


def _distinct(names: Sequence[str], path: Path) -> list[str]:
    """Append .1, .2 and so on to names that appear again, as R and pandas do."""
    count, found = Counter[str](), []
    for name in names:
        found.append(f"{name}.{count[name]}" if count[name] else name)
        count[name] += 1
    twice = [name for name in count if count[name] > 1]
    if twice:
        tables.note(f"{path}: {tables.some(twice)} appear again, and are named {twice[0]}.1, …")
    return found


def _transposed(frame: Any, path: Path) -> Any:
    """Return the frame of a table with samples in columns, whose first column names the rows."""
    pandas = tables.library("pandas", f"{path} needs")
    decimal = frame.attrs["decimal"]
    features = frame.pop(frame.columns[0]) if frame.index.name is None else frame.index
    frame.index = _distinct(["" if n != n else str(n).strip() for n in features], path)
    text, texts = numbers.text_columns(frame), None
    if text:
        values = frame[text].apply(numbers.as_numbers, decimal=decimal)
        words = values.isna() & frame[text].notna()
        described = [name for name in text if words[name].mean() > TEXT and len(frame) > 1]
        if described:
            tables.note(f"{path}: {tables.some(described)} left out, for text is not a sample")
        is_text = words.drop(columns=described).any(axis=1).to_numpy()
        texts = frame.loc[is_text].drop(columns=described).astype(object).T
        frame = frame.assign(**values).loc[~is_text].drop(columns=described)
    table = pandas.DataFrame(frame.to_numpy(float).T, frame.columns.astype(str), frame.index)
    if texts is not None and texts.shape[1]:
        table = pandas.concat([table, texts.set_axis(table.index)], axis=1)
    table.index.name = ""
    table.attrs["decimal"] = decimal
    return table
