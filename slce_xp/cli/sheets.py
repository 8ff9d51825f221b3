"""Reading of sheets from files of every kind, with samples in rows or in columns."""

from __future__ import annotations

import dataclasses
import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp.cli import numbers
from slce_xp.cli.names import check_distinct, drop_values, find, matching, some
from slce_xp.cli.sheet import Count, Sheet, as_sheet, kept_as_text, numbered
from slce_xp.cli.table import Chosen, TableError, damaged, kind_of, library
from slce_xp.cli.text import opened, read_text

KINDS = (".csv", ".tsv", ".txt", ".gct", ".parquet", ".xlsx")


def read_sheet(path: Path, chosen: Chosen) -> Sheet:
    """Read the sheet in a file, with samples in rows, without columns that are to be dropped."""
    kind = kind_of(path)
    if kind == ".gct":
        return _transposed(_read_gct(path, chosen), path, chosen)
    read = {".parquet": _read_parquet, ".xlsx": _read_excel}.get(kind, read_text)
    sheet = read(path, chosen)
    if chosen.transpose:
        return _transposed(sheet, path, chosen)
    if chosen.drop:
        dropped = matching(chosen.drop, sheet.names, "--drop", path)
        sheet = _without(sheet, dropped, chosen)
    return sheet if chosen.as_text else _with_numbers(sheet, chosen)


def _without_words(frame: Any, missing: tuple[str, ...]) -> Any:
    """Return the frame without words, or numbers, that stand for missing values."""
    if not missing:
        return frame
    codes = [float(word) for word in missing if numbers.is_number(word)]
    return frame.mask(frame.isin([*missing, *codes]))


def _read_excel(path: Path, chosen: Chosen) -> Sheet:
    """Read a sheet of a workbook."""
    pandas = library("pandas", f"{path} needs")
    library("openpyxl", f"{path} needs")
    try:
        with pandas.ExcelFile(path, engine="openpyxl") as book:
            sheets = [str(name) for name in book.sheet_names]
            name = sheets[0] if chosen.data is None else find(chosen.data, sheets, "--data", path)
            cells = _without_words(book.parse(name, header=None, dtype=object), chosen.missing)
    except Exception as error:  # depends on the contents
        if isinstance(error, (PermissionError, MemoryError, TableError)):
            raise
        raise damaged(path, ".xlsx", error) from error
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    first = int(cells.index[0]) if len(cells) else 0
    cells = cells.set_axis(range(cells.shape[1]), axis=1).reset_index(drop=True)
    names = numbered(cells.shape[1])
    if chosen.header and len(cells):
        names = ["" if cell != cell else str(cell).strip() for cell in cells.iloc[0]]
        cells = cells.iloc[1:].reset_index(drop=True)
    kept = kept_as_text(names, chosen)
    for i in cells.columns:
        column = cells[i]
        if i in kept or chosen.transpose or chosen.as_text:
            cells[i] = column.map(lambda cell: str(cell).strip(), na_action="ignore")
        else:
            cells[i] = column.infer_objects()
    count = Count("row", first + 1 + chosen.header)
    text = [i for i in numbers.text_columns(cells) if i not in kept]
    decimal = chosen.decimal or numbers.decimal_of(numbers.words(cells, text), "")
    sheet = as_sheet(cells, names, count, path, decimal)
    return dataclasses.replace(
        sheet, data=name, other_data=tuple(other for other in sheets if other != name)
    )


def _read_parquet(path: Path, chosen: Chosen) -> Sheet:
    pandas = library("pandas", f"{path} needs")
    parquet = library("pyarrow.parquet", f"{path} needs")
    try:
        schema = parquet.read_schema(path)
        check_distinct(schema.names, path)
        frame = _without_words(pandas.read_parquet(path, engine="pyarrow"), chosen.missing)
        if chosen.label in frame.columns and frame[chosen.label].dtype.kind == "f":
            # pandas converts integers with missing values to floats.
            column = parquet.read_table(path, columns=[chosen.label]).column(chosen.label)
            frame[chosen.label] = column.to_pandas(integer_object_nulls=True).to_numpy()
    except Exception as error:  # depends on the contents
        if isinstance(error, (PermissionError, MemoryError, TableError)):
            raise
        raise damaged(path, ".parquet", error) from error
    # An index is a column of the file, a row count is not. The frame does not distinguish them:
    # pandas 3 may hold an index 1, 2, ... as a count.
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    row_names = None
    if frame.index.name in {chosen.ids, chosen.label} - {None}:
        frame = frame.reset_index()
    elif any(isinstance(column, str) for column in index):
        row_names = frame.index.to_series().reset_index(drop=True)
    names = [str(name) for name in frame.columns]
    frame = frame.set_axis(range(len(names)), axis=1).reset_index(drop=True)
    return Sheet(frame, names, row_names, Count("row", 1))


def _read_gct(path: Path, chosen: Chosen) -> Sheet:
    """Read the Broad Institute's format: genes × samples, behind two lines of sizes."""
    try:
        with opened(path) as file:
            version, sizes = next(file, "").strip(), next(file, "").split()
        n_meta = [int(size) for size in sizes[2:4]] if version == "#1.3" else [1, 0]
        if version not in ("#1.2", "#1.3") or len(n_meta) != 2:
            raise ValueError(f"its first line is {version!r}, and not #1.2 or #1.3")
    except (ValueError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged(path, "GCT", error) from error
    columns, rows = n_meta
    sheet = read_text(path, dataclasses.replace(chosen, header=True), skipped=2)
    # Metadata of genes are columns behind their names, metadata of samples the first rows.
    genes = sheet.row_names if sheet.row_names is not None else sheet.frame[0]
    kept = [i for i in sheet.frame.columns if sheet.row_names is not None or i > 0][columns:]
    wanted = {chosen.label, chosen.ids}
    used = [i for i in range(len(sheet.frame)) if i >= rows or genes[i] in wanted]
    return dataclasses.replace(
        sheet,
        frame=sheet.frame.iloc[used][kept].reset_index(drop=True),
        names=[sheet.names[i] for i in kept],
        row_names=genes.iloc[used].reset_index(drop=True),
    )


# ---------------------------------------------------------------- all of them


def _without(sheet: Sheet, dropped: set[int], chosen: Chosen) -> Sheet:
    """Return the sheet without some columns; labels and names of samples stay."""
    wanted = {chosen.label, chosen.ids}
    kept = [i for i, name in enumerate(sheet.names) if i not in dropped or name in wanted]
    frame = sheet.frame[kept].set_axis(range(len(kept)), axis=1)
    return dataclasses.replace(sheet, frame=frame, names=[sheet.names[i] for i in kept])


def _with_numbers(sheet: Sheet, chosen: Chosen) -> Sheet:
    """Return the sheet with columns of numbers that have separators as numbers."""
    converted = {}
    kept = kept_as_text(sheet.names, chosen)
    for i in [i for i in numbers.text_columns(sheet.frame) if i not in kept]:
        values = numbers.as_numbers(sheet.frame[i], sheet.decimal)
        if (values.notna() | sheet.frame[i].isna()).all():
            converted[i] = values
    if not converted:
        return sheet
    frame = sheet.frame.copy()
    for i, values in converted.items():
        frame[i] = values
    return dataclasses.replace(sheet, frame=frame)


def _transposed(sheet: Sheet, path: Path, chosen: Chosen) -> Sheet:
    """Return the sheet of a table with samples in columns.

    Its first column names the features; --drop may name samples, too.
    """
    pandas = library("pandas", f"{path} needs")
    frame, samples, features = sheet.frame, sheet.names, sheet.row_names
    if features is None:
        features, frame, samples = frame[0], frame.iloc[:, 1:], samples[1:]
    names = ["" if name != name else str(name).strip() for name in features]
    n_columns = len(samples)
    dropped = matching(chosen.drop, [*samples, *names], "--drop", path)
    kept = [i for i in range(len(samples)) if i not in dropped]
    frame, samples = frame.iloc[:, kept], [samples[i] for i in kept]
    values = frame.apply(numbers.as_numbers, decimal=sheet.decimal)
    is_text = values.isna().to_numpy() & ~frame.isna().to_numpy()
    notes = np.flatnonzero(is_text.mean(axis=0) > 0.9) if len(frame) > 1 else np.array([], int)
    if 0 < notes.size < len(samples):
        described = [samples[i] for i in notes]
        raise TableError(
            f"{path}: {some(described)} hold{'s' * (len(described) == 1)} text, so it is no sample "
            "but describes the rows; leave it out",
            {"--drop": drop_values(described)},
        )
    wanted = {chosen.label, chosen.ids}
    kept_text = is_text.any(axis=1) | np.array([name in wanted for name in names], dtype=bool)
    parts = [
        pandas.DataFrame(values.to_numpy()[~kept_text].T, columns=np.flatnonzero(~kept_text)),
        pandas.DataFrame(
            frame.to_numpy(dtype=object)[kept_text].T, columns=np.flatnonzero(kept_text)
        ),
    ]
    table = pandas.concat(parts, axis=1)[list(range(len(names)))]
    sheet = dataclasses.replace(
        sheet,
        frame=table,
        names=names,
        row_names=pandas.Series(samples, dtype=object),
        count=Count("sample", 1),
        what="row",
    )
    return _without(sheet, {i - n_columns for i in dropped}, chosen)
