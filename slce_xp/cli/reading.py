"""The table of a call: a file, with columns of another one, and what each column is for."""

from __future__ import annotations

import dataclasses
import re
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp._data import columns
from slce_xp._data.label_values import array_of, label_values
from slce_xp.cli import arrays, numbers, tables
from slce_xp.cli.arrays import Matrix
from slce_xp.cli.frames import KINDS, read_frame
from slce_xp.cli.tables import Table, TableError

_MATRICES = {
    ".npy": arrays.read_npy, ".npz": arrays.read_npz, ".h5ad": arrays.read_h5ad,
    ".h5": arrays.read_hdf5, ".hdf5": arrays.read_hdf5,
}  # fmt: skip
_PACKED = (".csv", ".tsv", ".txt")
Wanted = np.ndarray | None  # the features of a model
MOST_ABSENT = 0.2  # share of a model's features that a table may lack, as in slce_xp.anndata
_WITH_SEVERAL = (".xlsx", ".npz", ".h5ad", ".h5", ".hdf5")


def read_table(arguments: Namespace, features: Wanted = None) -> Table:
    """Read the table of a call; `features` are those of a model, in its order."""
    path = arguments.table
    kind = _check_file(path, arguments)
    if kind in KINDS:
        frame = read_frame(path, arguments)
        matrix = Matrix(None, [str(name) for name in frame.columns], frame)
    else:
        matrix = _MATRICES[kind](path, arguments)
    own = matrix.columns
    if not len(own):
        raise TableError(f"{path} has no rows; a table has a row for each sample")
    more = own[[]] if arguments.metadata is None else _joined(own, path, arguments)
    found = {
        role: values_of(_column(name, f"--{role}", more, matrix, arguments))
        for role, name in tables.roles_of(arguments).items()
    }
    ids = found.pop("id") if "id" in found else _row_names(own)
    table = Table(matrix.X, None, None if ids is None else tables.as_text(ids), found)
    table = (_of_frame if matrix.X is None else _of_matrix)(matrix, table, arguments, features)
    if not table.X.shape[1]:
        raise TableError(f"{path} has no columns of numbers left as features; drop fewer")
    return dataclasses.replace(table, others=_others(table, arguments, own, more))


def _others(table: Table, arguments: Namespace, *frames: Any) -> dict[str, Any]:
    """Return the columns that are neither features nor named by an option."""
    used = {*tables.roles_of(arguments).values()}
    used |= set() if table.names is None else {str(name) for name in table.names}
    return {name: frame[name] for frame in frames for name in frame.columns if name not in used}


def _check_file(path: Path, arguments: Namespace) -> str:
    """Return the kind of a file, after checking that it can be read with these options."""
    check_exists(path)
    if path.is_dir():
        convert = arrays.CONVERT.format("read_10x_mtx", path)
        raise TableError(
            f"{path} is a folder; name a file, or, if it is of 10x Genomics, {convert}"
        )
    kind, kinds = tables.kind_of(path), (*KINDS, *_MATRICES)
    if kind not in kinds or (tables.is_packed(path) and kind not in _PACKED):
        raise TableError(f"{path} must end in {', '.join(kinds)}; save the table as one of these")
    if path.stat().st_size == 0:
        raise TableError(f"{path} is empty; it must hold a table")
    for option, allowed in {"data": _WITH_SEVERAL, "na": KINDS, "decimal": KINDS}.items():
        if getattr(arguments, option) and kind not in allowed:
            raise TableError(f"--{option} is for {', '.join(allowed)}, not {path}; leave it out")
    return kind


def check_exists(path: Path) -> None:
    """Raise TableError for a file that is not there, with the nearest one."""
    if path.exists():
        return
    if not path.parent.is_dir():
        raise TableError(f"there is no file {path}, and no folder {path.parent}")
    close = tables.nearest(path.name, [other.name for other in path.parent.iterdir()])
    hint = f"; did you mean {path.parent / close}?" if close else ""
    raise TableError(f"there is no file {path}{hint}")


# ---------------------------------------------------------------- what columns are for


def _row_names(frame: Any) -> Any:
    """Return the names of the samples, if they have some."""
    return None if frame.index.name is None else values_of(frame.index.to_series())


def _column(name: str, option: str, more: Any, matrix: Matrix, arguments: Namespace) -> Any:
    """Return the column that an option names, of another file or of the table."""
    own = matrix.columns
    for frame in (more, own):
        if name in frame.columns:
            return frame[name]
    if matrix.X is not None and Path(name).is_file():
        return arrays.vector_in_file(name, len(own), option)
    if matrix.X is None and not arguments.transpose and not tables.nearest(name, more.columns):
        _check_orientation(name, option, own, arguments)
    file, colon, column = name.rpartition(":")
    if colon and Path(file).is_file():
        text = f"{option} {name}: the file of a column is named by --metadata"
        raise TableError(text, {"--metadata": file, option: column})
    also = "" if arguments.metadata is None else f" or {arguments.metadata}"
    names = [str(other) for other in [*more.columns, *own.columns]]
    raise tables.no_such(name, names, option, f"{arguments.table}{also}")


def _check_orientation(name: str, option: str, frame: Any, arguments: Namespace) -> None:
    """Raise TableError if a column is not there for want of --transpose, or of names."""
    path, names = arguments.table, [str(column) for column in frame.columns]
    is_named = frame.index.name is not None
    first = frame.index.to_series() if is_named else frame.iloc[:, 0]
    if (first.astype(str).str.strip() == name).any():
        raise TableError(
            f"{option}: {name!r} is a row of {path}, and samples must be in rows; transpose it",
            {"--transpose": ""},
        )
    if tables.nearest(name, names):
        return
    figures = [column for column in names if column.replace(".", "").lstrip("-").isdigit()]
    if 2 * len(figures) > len(names):
        raise TableError(
            f"{path} must name its columns in the first line, which holds numbers "
            f"({tables.some(figures, 3)}); add a line of names"
        )
    samples = names if is_named else names[1:]
    if numbers.as_numbers(first).isna().all() and not set(numbers.text_columns(frame)) & {*samples}:
        raise TableError(
            f"{option}: {path} has no {name!r}, and its columns look like samples "
            f"({tables.some(samples, 3)}); read it with --transpose, and columns of samples from "
            "another table: --metadata FILE"
        )


def values_of(series: Any) -> np.ndarray:
    """Return labels and the like: integers if all of them are, otherwise text; None if missing."""
    missing = series.isna().to_numpy(dtype=bool)
    exact = label_values(series)  # a Series converts categories of integers to floats
    values = [_value(value) for value in (exact if exact.dtype == object else series)]
    values = _whole([None if gone else value for value, gone in zip(values, missing, strict=True)])
    array = array_of(values)
    return array.astype(np.str_) if {type(value) for value in values} == {str} else array


def _whole(values: list[Any]) -> list[Any]:
    """Convert to integers if that changes nothing: text such as 01 may be another class than 1."""
    there = [value for value in values if value is not None]
    are_floats = all(isinstance(value, (float, np.floating)) for value in there)
    texts = [str(value).removesuffix(".0" * are_floats) for value in there]
    if there and all(re.fullmatch(r"0|-?[1-9]\d{0,17}", text) for text in texts):
        return [None if value is None else int(value) for value in values]
    return values


def _value(value: Any) -> Any:
    """Return a number, or stripped text; None for empty text."""
    plain = (bool, int, float, np.number, np.bool)
    return value if isinstance(value, plain) else str(value).strip() or None


# ---------------------------------------------------------------- columns of another file


def _joined(own: Any, path: Path, arguments: Namespace) -> Any:
    """Return the columns of another file, with a row for each sample of a table by its name."""
    file = arguments.metadata
    check_exists(file)
    if tables.kind_of(file) not in KINDS:
        raise TableError(f"--metadata {file} must end in {', '.join(KINDS)}; save it as such")
    plain = {"transpose": False, "data": None, "decimal": None}
    more = read_frame(file, Namespace(**vars(arguments) | plain))
    names = _names_to_join(own, path, arguments)
    by, keys = _key(more, names, own, arguments)
    known, there = set(names), set(keys)
    for given, where in ((names, path), ([key for key in keys if key in known], file)):
        twice = [name for name, count in Counter(given).items() if count > 1]
        if twice:
            raise TableError(
                f"{where} must name each sample once to be joined, and does not: "
                f"{tables.some(twice)}. Remove or rename the others"
            )
    absent, extra = [name for name in names if name not in there], len(there - known)
    text = f"; {len(absent)} of {len(names)} samples are not there: {tables.some(absent, 3)}"
    lines = f"; {extra} of {len(keys)} lines name no sample of {path}"
    tables.note(f"{file} is joined by {by}{text * bool(absent)}{lines * bool(extra)}")
    return more.set_axis(keys).reindex(names).set_axis(own.index)


def _names_to_join(own: Any, path: Path, arguments: Namespace) -> list[str]:
    """Return the names of the samples of a table."""
    text = [name for name in numbers.text_columns(own) if own[name].is_unique]
    if arguments.id in own.columns:
        found = own[arguments.id]
    elif own.index.name is not None:
        found = own.index
    elif text:
        found = own[text[0]]
    else:
        raise TableError(
            f"--metadata is joined by the names of samples, and {path} has none; name the column "
            "with --id"
        )
    return [str(name).strip() for name in found]


def _key(more: Any, names: list[str], own: Any, arguments: Namespace) -> tuple[str, list[str]]:
    """Return the column that names the samples, which has most of their names, and its values."""
    cells = {"row names": more.index} if more.index.name is not None else {}
    cells |= {repr(name): more[name] for name in more.columns}
    texts = {name: [str(cell).strip() for cell in column] for name, column in cells.items()}
    known, across = set(names), set(map(str, own.columns))
    best = max(texts, key=lambda name: len(known.intersection(texts[name])))
    if known.intersection(texts[best]):
        return best, texts[best]
    file, path = arguments.metadata, arguments.table
    if not arguments.transpose and any(across.intersection(text) for text in texts.values()):
        raise TableError(
            f"the samples of {file} are columns of {path}, and must be its rows; transpose it",
            {"--transpose": ""},
        )
    first = next(iter(texts.values()))
    raise TableError(
        f"no column of {file} has the names of samples of {path}, such as {tables.some(names, 3)}; "
        f"the first has {tables.some(first, 3)}. Give both files the same names"
    )


# ---------------------------------------------------------------- features


def _of_matrix(matrix: Matrix, table: Table, arguments: Namespace, features: Wanted) -> Table:
    """Return the table of a matrix, with those of its columns that are features."""
    path, names = arguments.table, matrix.names
    if names is None:
        if arguments.drop or arguments.features:
            raise TableError(f"{path} has no names of columns, so --drop cannot be used")
        return table
    free = names
    if matrix.marked is not None and features is None and not arguments.features:
        free = [name for name in names if name in matrix.marked]
        tables.note(
            f"{path}: {len(free)} of {len(names)} genes, those that are highly variable, are used, "
            "as by scanpy; --features '*' uses all"
        )
    kept = _features(free, arguments, features)
    X = matrix.X
    if kept != names:
        position = {name: i for i, name in enumerate(names)}
        X = columns.only(X, np.array([position[name] for name in kept], dtype=np.int64))
    return Table(X, np.array(kept, dtype=np.str_), table.ids, table.columns)


def _of_frame(matrix: Matrix, table: Table, arguments: Namespace, features: Wanted) -> Table:
    """Return the table of a frame, with its columns of numbers that have no other role."""
    frame, roles, ids = matrix.columns, tables.roles_of(arguments).values(), table.ids
    text = [name for name in numbers.text_columns(frame) if name not in roles]
    words = {name for name in text if not numbers.are_mostly_numbers(frame[name])}
    free = [str(name) for name in frame if name not in roles]
    unique = [name for name in text if name in words and frame[name].is_unique]
    if ids is None and unique:
        ids = tables.as_text(values_of(frame[unique[0]]))
        free.remove(unique[0])
        tables.note(f"{arguments.table}: {unique[0]!r} names the samples, for each has its own")
    kept = _features(free, arguments, features)
    if features is None:
        words |= set(frame.columns[frame.isna().all()]) if frame.isna().any(axis=None) else set()
        kept = _without(words, kept, arguments)
    numbers.refuse_words(frame, [name for name in text if name in set(kept)], arguments)
    names = np.array(kept, dtype=np.str_)
    return Table(_values(frame, kept), names, ids, table.columns)


def _values(frame: Any, names: list[str]) -> np.ndarray:
    """Return columns of a frame as a matrix."""
    frame = frame[names] if len(names) < frame.shape[1] else frame
    single = {str(kind).lower() for kind in frame.dtypes} == {"float32"}
    dtype = np.float32 if single else np.float64
    return np.ascontiguousarray(frame.to_numpy(dtype=dtype, na_value=np.nan))


def _without(words: set[str], names: list[str], arguments: Namespace) -> list[str]:
    """Return the names without columns of words or of nothing, which are reported."""
    gone = [name for name in names if name in words]
    if gone:
        tables.note(f"{arguments.table}: columns without numbers are left out: {tables.some(gone)}")
    return [name for name in names if name not in words]


def _features(names: list[str], arguments: Namespace, features: Wanted) -> list[str]:
    """Return the names of the features: all, those chosen, or those of a model, in its order."""
    path = arguments.table
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(f"{path} has columns of one name, {tables.some(twice)}; rename them")
    if features is not None:
        return _features_of_model(names, arguments, features)
    dropped = tables.matching(arguments.drop, names, "--drop", path)
    names = [name for name in names if name not in dropped]
    chosen = tables.matching(arguments.features, names, "--features", path)
    return [name for name in names if name in chosen] if chosen else names


def _features_of_model(names: list[str], arguments: Namespace, features: np.ndarray) -> list[str]:
    path, there, wanted = arguments.table, set(names), [str(name) for name in features]
    absent = [name for name in wanted if name not in there]
    for role, name in tables.roles_of(arguments).items():
        if name in absent:
            raise TableError(f"{path}: {name!r} is a feature of the model; name another --{role}")
    if len(absent) > MOST_ABSENT * len(wanted):
        hint = str(tables.no_such(absent[0], names, "", path)).partition("; ")[2]
        raise TableError(
            f"{path} must have at least {1 - MOST_ABSENT:.0%} of the {len(wanted)} columns of the "
            f"model, and lacks {len(absent)}: {tables.some(absent)}; {hint} "
            "Rename columns as in the table of the fit"
        )
    return [name for name in wanted if name in there]
