"""Tables of samples in files: read whole or in blocks, written whole or not at all.

Knows names of columns and kinds of files, and no model. What is wrong with a table is said in one
sentence, with what to do about it.
"""

from __future__ import annotations

import bz2
import csv
import dataclasses
import difflib
import gzip
import importlib
import lzma
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp import _files, _xp
from slce_xp.cli import columns
from slce_xp.cli.columns import some


class TableError(ValueError):
    """A file that cannot be used as it is: the message names it, and the remedy."""


@dataclasses.dataclass(frozen=True)
class Chosen:
    """What is wanted of a file.

    Attributes
    ----------
    label, ids : str or None
        The columns (or arrays, or a file beside an array) with classes and names of samples.
    drop : tuple of str
        Columns that are no features; several may stand in one, with commas between them.
    features : numpy.ndarray of str or None
        The features, in this order; None: all columns that are nothing else.
    data : str or None
        Which matrix of a file that holds several: a dataset, an array, a layer.
    stream : bool
        Whether to read blocks of rows as they are needed, also of a file that fits into memory.
    """

    label: str | None = None
    ids: str | None = None
    drop: tuple[str, ...] = ()
    features: np.ndarray | None = None
    data: str | None = None
    stream: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """Samples in rows.

    Attributes
    ----------
    X : array, sparse matrix or object with rows, shape (n, d)
    names : numpy.ndarray of str, shape (d,), or None
    labels : numpy.ndarray, shape (n,), or None
        Objects with None where a label is missing, otherwise of one kind.
    ids : numpy.ndarray of str, shape (n,), or None
    passed_over : tuple of str
        Columns of which nothing was asked.
    """

    X: Any
    names: np.ndarray | None = None
    labels: np.ndarray | None = None
    ids: np.ndarray | None = None
    passed_over: tuple[str, ...] = ()

    @property
    def in_memory(self) -> bool:
        """Whether X is here, and not read when it is needed."""
        return type(self.X) is np.ndarray or _xp.is_sparse(self.X)

    def rows(self, chosen: np.ndarray) -> Table:
        """Some of the samples, in memory."""
        return dataclasses.replace(
            self,
            X=self.X[chosen],
            labels=None if self.labels is None else _typed(list(self.labels[chosen])),
            ids=None if self.ids is None else self.ids[chosen],
        )


# ---------------------------------------------------------------- reading


def read(path: Path, chosen: Chosen) -> Table:
    """The table in a file, by the ending of its name."""
    kind = kind_of(path)
    if kind not in _READERS:
        raise TableError(
            f"{path} must end in {', '.join(_READERS)} (or .csv.gz, .tsv.gz); convert the table"
        )
    if not path.exists():
        raise TableError(f"there is no file {path}{_nearest_file(path)}")
    if path.is_dir():
        raise TableError(f"{path} is a folder; name the table in it")
    if path.stat().st_size == 0:
        raise TableError(f"{path} is empty; it must hold a table")
    try:
        table = _READERS[kind](path, chosen)
    except PermissionError as error:
        raise TableError(f"{path} may not be read ({error.strerror})") from error
    n, d = table.X.shape
    if n == 0:
        raise TableError(f"{path} has no rows; a table has a row for each sample")
    if d == 0:
        raise TableError(f"{path} has no columns left to be features; drop fewer")
    return table


def kind_of(path: Path) -> str:
    """The ending that says what a file holds, below that of a compression."""
    endings = [ending.lower() for ending in path.suffixes]
    packed = bool(endings) and endings[-1] in _OPENERS
    return endings[-2] if packed and len(endings) > 1 else endings[-1] if endings else ""


_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def _read_text(path: Path, chosen: Chosen) -> Table:
    _refuse_streaming(path, chosen)
    pandas = library("pandas", f"{path} needs")
    opener = _OPENERS.get(path.suffix.lower(), open)
    try:
        # A byte-order mark and ends of lines of any system are no part of the table.
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            separator, header = _header(file, path)
        own = None if header[0] else 0  # the index of a frame, or row names of R
        _check_header(header[own is not None :], path)
        frame = pandas.read_csv(
            path, sep=separator, encoding="utf-8-sig", low_memory=False, skipinitialspace=True,
            dtype={chosen.ids: str} if chosen.ids in header else None, index_col=own,
        )  # fmt: skip
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, lzma.LZMAError, csv.Error) as error:
        raise TableError(f"{path} is damaged or no text in UTF-8 ({error}); convert it") from error
    except pandas.errors.ParserError as error:
        detail = str(error).strip().rpartition("C error: ")[2]
        raise TableError(
            f"{path} is no table: {detail[:1].lower()}{detail[1:]}. Give every line as many fields "
            "as the first, and text with separators or quotes in it quotes"
        ) from error
    if not isinstance(frame.index, pandas.RangeIndex) and own is None:
        _check_row_names(frame, path)
    return _from_frame(frame, path, chosen, first_line=2)


def _header(file: Any, path: Path) -> tuple[str, list[str]]:
    """The separator, and the names in the first line that is not empty."""
    start = file.tell()
    line = next((line for line in file if line.strip()), "")
    if not line:
        raise TableError(f"{path} holds empty lines only; it must hold a table")
    file.seek(start)
    separator = "\t" if kind_of(path) == ".tsv" else max(",;\t", key=line.count)
    header = next(row for row in csv.reader(file, delimiter=separator) if any(row))
    return separator, [name.strip() for name in header]


def _check_header(header: Sequence[str], path: Path) -> None:
    _check_distinct(header, path)
    if "" in header:
        raise TableError(
            f"{path}: column {header.index('') + 1} has no name in the first line; name it"
        )
    if header and all(_is_number(name) for name in header):
        raise TableError(
            f"{path} must name its columns in the first line, which holds numbers "
            f"({some(header, 3)}); put names there"
        )


def _check_distinct(names: Sequence[str], path: Path) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise TableError(
            f"{path} must have different names for its columns; {some(twice)} "
            f"appear{'s' * (len(twice) == 1)} more than once. Rename or remove them"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_row_names(frame: Any, path: Path) -> None:
    """Where lines have one more field than the header, the first is taken for a name."""
    names = frame.index
    if names.nlevels > 1 or not names.is_unique or frame.iloc[:, -1].isna().all():
        raise TableError(
            f"{path} has more fields in its lines than names in the first line; name every column, "
            "and end no line with a separator"
        )


def _read_parquet(path: Path, chosen: Chosen) -> Table:
    _refuse_streaming(path, chosen)
    pandas = library("pandas", f"{path} needs")
    parquet = library("pyarrow.parquet", f"{path} needs")
    try:
        _check_distinct(parquet.read_schema(path).names, path)
        frame = pandas.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError) as error:
        if isinstance(error, (PermissionError, TableError)):
            raise
        raise _damaged(path, "Parquet", error) from error
    frame.columns = [str(name) for name in frame.columns]
    return _from_frame(frame, path, chosen, first_line=1)


def _from_frame(frame: Any, path: Path, chosen: Chosen, first_line: int) -> Table:
    names = [str(name) for name in frame.columns]
    if not len(frame):
        raise TableError(f"{path} has a header and no rows; a table has a row for each sample")
    if frame.index.name in (chosen.ids, chosen.label) and frame.index.name is not None:
        frame = frame.reset_index()
        names = [str(name) for name in frame.columns]
    ids = labels = None
    is_numbered = type(frame.index).__name__ == "RangeIndex"
    if chosen.ids is not None:
        ids = frame[find(chosen.ids, names, "--id", path)].astype(str).to_numpy(dtype=object)
    elif not is_numbered:
        ids = frame.index.astype(str).to_numpy(dtype=object)
    if chosen.label is not None:
        labels = _from_series(frame[find(chosen.label, names, "--label", path)])
    features, passed_over = _features(names, chosen, path)
    chosen_columns = frame[features]
    _refuse_text(chosen_columns, path, first_line)
    single = len(features) and all(str(kind).lower() == "float32" for kind in chosen_columns.dtypes)
    X = chosen_columns.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    place = columns.first_infinite(X)
    if place is not None:
        raise TableError(
            f"{path}: column {features[place[1]]!r} is infinite in line {place[0] + first_line}; "
            "correct it, leave it empty for a missing value, or drop the column"
        )
    return Table(np.ascontiguousarray(X), _as_names(features), labels, ids, passed_over)


def _features(names: Sequence[str], chosen: Chosen, path: Path) -> tuple[list[str], tuple]:
    """Which columns are features, and which are nothing at all."""
    others = {chosen.label, chosen.ids, *dropped(chosen.drop, names, path)}
    if chosen.features is None:
        return [name for name in names if name not in others], ()
    wanted = [str(name) for name in chosen.features]
    there = set(names)
    absent = [name for name in wanted if name not in there]
    if absent:
        raise TableError(
            f"{path} must have the {len(wanted)} columns that the model was fitted to; it has no "
            f"{some(absent)}{_nearest(absent[0], names)}"
        )
    used = {*wanted, *others}
    return wanted, tuple(name for name in names if name not in used)


def _refuse_text(frame: Any, path: Path, first_line: int) -> None:
    pandas = library("pandas", f"{path} needs")
    is_number = pandas.api.types.is_numeric_dtype
    text = [name for name in frame.columns if not is_number(frame[name].dtype)]
    text = [name for name in text if not frame[name].isna().all()]
    if not text:
        return
    name = text[0]
    column = frame[name].reset_index(drop=True)
    number = pandas.to_numeric(column.astype(str), errors="coerce")
    wrong = column[number.isna() & column.notna()]
    if not len(wrong):  # numbers as text, or dates
        wrong = column.dropna()
    where = f"{str(wrong.iloc[0])!r} in line {int(wrong.index[0]) + first_line}"
    few = 2 * len(wrong) < len(column)
    correct = "correct these entries, or " if few else ""
    count = f" in {len(wrong)} of {len(column)} rows" if few else ""
    listed = ",".join(text[:5])
    if " " in listed:
        listed = f'"{listed}"'
    more = f" and so on for {len(text) - 5} more" if len(text) > 5 else ""
    one = len(text) == 1
    ids = [name for name in text if frame[name].is_unique]
    as_names = f", or let it name the samples: --id {_quoted(ids[0])}" if ids else ""
    raise TableError(
        f"{path}: column{'s' * (not one)} {some(text)} hold{'s' * one} text{count} ({where}), and "
        f"features must be numbers; {correct}leave {'it' if one else 'them'} out with "
        f"--drop {listed}{more}{as_names}"
    )


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _from_series(series: Any) -> np.ndarray:
    missing = series.isna().to_numpy(dtype=bool)
    return _labels([None if m else v for m, v in zip(missing, series, strict=True)])


def _labels(values: list[Any]) -> np.ndarray:
    there = [v for v in values if v is not None]
    if there and all(isinstance(v, (float, np.floating)) and v == v // 1 for v in there):
        values = [v if v is None else int(v) for v in values]  # missing ones made floats of them
    return _typed(values)


def _typed(values: list[Any]) -> np.ndarray:
    """Objects only where some are missing."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array if None in values else np.array(values)


def _as_names(names: Iterable[Any]) -> np.ndarray:
    return np.array([str(name) for name in names], dtype=np.str_)


# ---------------------------------------------------------------- arrays, HDF5, AnnData


def _read_npy(path: Path, chosen: Chosen) -> Table:
    try:
        X = np.load(path, mmap_mode="r" if _in_blocks(path, chosen) else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, PermissionError):
            raise
        raise _damaged(path, "NumPy's .npy", error) from error
    return _from_arrays(path, chosen, X, {})


def _read_npz(path: Path, chosen: Chosen) -> Table:
    _refuse_streaming(path, chosen)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, PermissionError):
            raise
        raise _damaged(path, "NumPy's .npz", error) from error
    return _from_arrays(path, chosen, _matrix(arrays, chosen, path), arrays)


def _read_hdf5(path: Path, chosen: Chosen) -> Table:
    h5py = library("h5py", f"{path} needs")
    try:
        file = h5py.File(path, "r")  # stays open: rows are read when they are needed
    except OSError as error:
        if isinstance(error, PermissionError):
            raise
        raise _damaged(path, "HDF5", error) from error
    sets: dict[str, Any] = {}
    file.visititems(lambda name, item: sets.update({name: item}) if hasattr(item, "dtype") else 0)
    X = _matrix(sets, chosen, path)
    # Vectors hold labels and names; what is wider stays in the file.
    vectors = {
        name: item.asstr()[()] if h5py.check_string_dtype(item.dtype) else item[()]
        for name, item in sets.items()
        if len(item.shape) == 1
    }
    return _from_arrays(path, chosen, X if _in_blocks(path, chosen) else X[()], vectors)


def _matrix(arrays: dict[str, Any], chosen: Chosen, path: Path) -> Any:
    wide = [name for name, array in arrays.items() if len(array.shape) == 2]
    if chosen.data is not None:
        return arrays[find(chosen.data, wide, "--data", path)]
    if "X" in wide or len(wide) == 1:
        return arrays["X" if "X" in wide else wide[0]]
    if not wide:
        raise TableError(f"{path} must hold a two-dimensional array; it has {some(list(arrays))}")
    raise TableError(f"{path} holds several matrices; choose one with --data: {some(wide)}")


def _from_arrays(path: Path, chosen: Chosen, X: Any, others: dict[str, Any]) -> Table:
    if len(X.shape) != 2:
        raise TableError(
            f"{path} must hold a matrix, samples in rows; it has shape {tuple(X.shape)}. Reshape it"
        )
    if np.dtype(X.dtype).kind not in "biuf":
        raise TableError(f"{path} must hold real numbers; it has {X.dtype}. Convert it")
    n, d = X.shape
    names = others.get("feature_names")
    if names is not None and names.shape != (d,):
        raise TableError(
            f"{path}: feature_names must have one name for each of {d} columns; it has shape "
            f"{names.shape}. Correct or remove it"
        )
    if names is not None:
        names = _as_names(names)
        _check_distinct(list(names), path)
    vectors = {name: a for name, a in others.items() if a.shape == (n,)}
    found = [
        None if name is None else _vector(name, vectors, n, option, path)
        for name, option in ((chosen.label, "--label"), (chosen.ids, "--id"))
    ]
    X, names, passed_over = _choose(X, names, chosen, path)
    labels = None if found[0] is None else _labels(found[0])
    ids = None if found[1] is None else np.array([str(v) for v in found[1]], dtype=object)
    return Table(X, names, labels, ids, passed_over)


def _vector(name: str, vectors: dict[str, Any], n: int, option: str, path: Path) -> list[Any]:
    """An array of the same file, or a file of its own; None for what is missing."""
    values = vectors[name] if name in vectors else _beside(name, list(vectors), n, option, path)
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    return [None if v in ("", None) or v != v else v for v in values]


def _beside(name: str, inside: list[str], n: int, option: str, path: Path) -> np.ndarray:
    beside = Path(name)
    if not beside.is_file():
        there = f"; vectors of {n} values in it: {some(inside)}" if inside else ""
        raise TableError(
            f"{option} {name} must name a vector in {path}, or a file with one value for each row "
            f"(.npy, or text with a line for each){there}"
        )
    if beside.suffix == ".npy":
        values: np.ndarray = np.load(beside, allow_pickle=False)
    else:
        text = beside.read_text(encoding="utf-8-sig").splitlines()
        while text and not text[-1].strip():
            text.pop()
        values = np.array([line.strip() for line in text], dtype=object)
    if values.shape != (n,):
        hint = "; leave out its first line, if that is a name" * (values.shape == (n + 1,))
        raise TableError(
            f"{option} {name} must have one value for each of {n} rows of {path}; it has shape "
            f"{values.shape}{hint}"
        )
    return values


def _choose(X: Any, names: Any, chosen: Chosen, path: Path) -> tuple[Any, Any, tuple]:
    """The columns that are features."""
    if names is None:
        if chosen.drop:
            raise TableError(f"{path} has no names of columns, so none can be dropped by --drop")
        return X, None, ()
    features, passed_over = _features(list(names), chosen, path)
    position = {name: i for i, name in enumerate(map(str, names))}
    indices = np.array([position[name] for name in features], dtype=np.int64)
    if np.array_equal(indices, np.arange(len(names))):
        return X, names, passed_over
    return columns.only(X, indices), _as_names(features), passed_over


def _read_h5ad(path: Path, chosen: Chosen) -> Table:
    anndata = library("anndata", f"{path} needs")
    in_blocks = _in_blocks(path, chosen)
    try:
        adata = anndata.read_h5ad(path, backed="r" if in_blocks else None)
    except Exception as error:  # of whatever is inside
        if isinstance(error, PermissionError):
            raise
        raise _damaged(path, "AnnData's", error) from error
    obs = [str(name) for name in adata.obs.columns]
    labels = ids = None
    if chosen.label is not None:
        labels = _from_series(adata.obs[find(chosen.label, obs, "--label", path)])
    ids = adata.obs_names
    if chosen.ids is not None:
        ids = adata.obs[find(chosen.ids, obs, "--id", path)]
    X = adata.X
    if chosen.data is not None:
        layers = list(adata.layers)
        X = adata.layers[find(chosen.data, layers, "--data", path)]
    if X is None:
        raise TableError(f"{path} has no X; choose a layer with --data: {some(list(adata.layers))}")
    kind = getattr(X, "format", "csr")
    if in_blocks and kind != "csr":
        raise TableError(
            f"{path} is stored by columns and cannot be read in blocks; store it as CSR"
        )
    if not in_blocks and kind != "csr":
        X = X.tocsr()
    names = _as_names(adata.var_names)
    _check_distinct(list(names), path)
    X, names, passed_over = _choose(X, names, chosen, path)
    return Table(X, names, labels, ids.astype(str).to_numpy(dtype=object), passed_over)


_READERS: dict[str, Callable[[Path, Chosen], Table]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".h5ad": _read_h5ad,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
}


def _in_blocks(path: Path, chosen: Chosen) -> bool:
    memory = machine_memory()
    return chosen.stream or (memory is not None and path.stat().st_size > memory // 2)


def machine_memory() -> int | None:
    """Bytes of memory that this machine has, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _refuse_streaming(path: Path, chosen: Chosen) -> None:
    if chosen.stream:
        raise TableError(
            f"{path} cannot be read in blocks (--stream): convert it to .npy, .h5 or .h5ad"
        )


def _damaged(path: Path, kind: str, error: Exception) -> TableError:
    detail = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return TableError(f"{path} is damaged or no {kind} file ({detail}); write it again")


# ---------------------------------------------------------------- names


def find(name: str, names: Sequence[str], option: str, path: Path) -> str:
    """A name that is there, or an error that suggests the nearest."""
    if name in names:
        return name
    raise TableError(f"{option}: {path} has no {name!r}{_nearest(name, names)}")


def dropped(drop: Iterable[str], names: Sequence[str], path: Path) -> list[str]:
    """Names from options: one each, or several with commas between them."""
    found = []
    for entry in drop:
        parts = [entry] if entry in names else [part.strip() for part in entry.split(",")]
        found += [find(part, names, "--drop", path) for part in parts if part]
    return found


def _nearest(name: str, names: Sequence[str]) -> str:
    lower = {str(other).lower(): str(other) for other in names}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; it has {some(list(names), 8)}" if len(names) else "; it has nothing of the kind"


def _nearest_file(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f", and no folder {folder}"
    close = difflib.get_close_matches(path.name, [p.name for p in folder.iterdir()], n=1)
    return f"; did you mean {folder / close[0]}?" if close else ""


def library(name: str, who: str) -> Any:
    """A library that only some files or outputs need."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise TableError(
            f"{who} {name.partition('.')[0]}, which cannot be imported here ({error}); install it "
            "with: pip install 'slce-xp[cli]'"
        ) from error


# ---------------------------------------------------------------- writing

TABLES = (".csv", ".tsv", ".parquet")
EMBEDDINGS = (*TABLES, ".npy")


def write(path: Path, frame_columns: dict[str, np.ndarray]) -> None:
    """A table of columns, whole or not at all."""
    pandas = library("pandas", f"{path} needs")
    frame = pandas.DataFrame(frame_columns, copy=False)
    kind = kind_of(path)
    if kind == ".parquet":
        library("pyarrow", f"{path} needs")
    with _files.whole_or_not_at_all(path) as temporary:
        if kind == ".parquet":
            frame.to_parquet(temporary, index=False, engine="pyarrow")
        else:
            opener = _OPENERS.get(path.suffix.lower(), open)
            with opener(temporary, "wt", encoding="utf-8", newline="") as file:
                separator = "\t" if kind == ".tsv" else ","
                frame.to_csv(file, sep=separator, index=False, lineterminator="\n")


def components(count: int) -> Iterator[str]:
    """What the columns of an embedding are called."""
    return (f"component_{i + 1}" for i in range(count))
