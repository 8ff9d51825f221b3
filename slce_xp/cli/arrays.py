"""Tables in files of arrays: NumPy, HDF5, AnnData, 10x Genomics."""

from __future__ import annotations

import dataclasses
import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._data import columns
from slce_xp.cli.frames import class_labels, sample_names
from slce_xp.cli.names import as_names, features, find, some
from slce_xp.cli.table import (
    Chosen,
    Table,
    TableError,
    as_labels,
    damaged,
    is_read_in_blocks,
    library,
    note,
)


def read_npy(path: Path, chosen: Chosen) -> Table:
    """Read a matrix; labels and names of samples are in other files."""
    return _from_arrays(path, chosen, _load(path, is_read_in_blocks(path, chosen)), {})


def read_npz(path: Path, chosen: Chosen) -> Table:
    """Read a matrix, with vectors of labels and names in the same file."""
    arrays = _load(path)
    if {"header", "components"} <= arrays.keys():
        raise TableError(f"{path} is a model, not a table: name the table with the samples")
    name = _matrix(arrays, chosen, path)
    return _from_arrays(path, chosen, arrays[name], arrays, name, _other_data(arrays, name, chosen))


def read_hdf5(path: Path, chosen: Chosen) -> Table:
    """Read a matrix and vectors, which may be in groups."""
    h5py = library("h5py", f"{path} needs")
    try:
        file = h5py.File(path, "r")  # stays open: rows are read as needed
    except OSError as error:
        if isinstance(error, (PermissionError, MemoryError)):
            raise
        raise damaged(path, "HDF5", error) from error
    sets: dict[str, Any] = {}
    file.visititems(lambda name, item: sets.update({name: item} if hasattr(item, "dtype") else {}))
    if {"matrix/indptr", "matrix/barcodes"} <= sets.keys():
        raise TableError(
            f"{path} is an HDF5 file of 10x Genomics; name the folder with matrix.mtx, or convert "
            f"it in Python: scanpy.read_10x_h5({str(path)!r}).write('counts.h5ad')"
        )
    name = _matrix(sets, chosen, path)
    X = sets[name]
    # Only vectors of labels and names are read.
    wanted = (chosen.label, chosen.ids, "feature_names")
    vectors = {
        key: item
        if key not in wanted
        else item.asstr()[()]
        if h5py.check_string_dtype(item.dtype)
        else item[()]
        for key, item in sets.items()
        if len(item.shape) == 1
    }
    X = X if is_read_in_blocks(path, chosen) else X[()]
    return _from_arrays(path, chosen, X, vectors, name, _other_data(sets, name, chosen))


def read_h5ad(path: Path, chosen: Chosen) -> Table:
    """Read cells × genes; labels are columns of obs."""
    anndata = library("anndata", f"{path} needs")
    if chosen.transpose:
        raise TableError(f"{path} has cells in rows, as its format has it; leave out --transpose")
    in_blocks = is_read_in_blocks(path, chosen)
    try:
        adata = anndata.read_h5ad(path, backed="r" if in_blocks else None)
    except Exception as error:  # depends on the contents
        if isinstance(error, (PermissionError, MemoryError)):
            raise
        raise damaged(path, ".h5ad", error) from error
    obs = [str(name) for name in adata.obs.columns]
    labels, ids = None, adata.obs_names.to_series()
    if chosen.label is not None:
        labels = class_labels(adata.obs[find(chosen.label, obs, "--label", path)])
    if chosen.ids is not None:
        ids = adata.obs[find(chosen.ids, obs, "--id", path)]
    names = as_names(adata.var_names)
    X, names, passed_over = _choose(_layer(adata, chosen, path, in_blocks), names, chosen, path)
    others = tuple(adata.layers) if chosen.data is None else ()
    data = "X" if chosen.data is None else chosen.data
    return Table(X, names, labels, sample_names(ids), passed_over, data, others)


def _layer(adata: Any, chosen: Chosen, path: Path, in_blocks: bool) -> Any:
    layers = list(adata.layers)
    if chosen.data is not None:
        if chosen.stream:
            raise TableError(f"{path}: only X can be read in blocks (--stream), not --data")
        X = adata.layers[find(chosen.data, layers, "--data", path)]
    elif adata.X is None:
        raise TableError(f"{path} has no X; choose a layer with --data: {some(layers)}")
    else:
        X = adata.X
    if hasattr(X, "check_format"):
        try:
            X.check_format()  # invalid indices would crash the process
        except ValueError as error:
            raise damaged(path, ".h5ad", error) from error
    if getattr(X, "format", "csr") == "csr":
        return X
    if in_blocks:
        raise TableError(
            f"{path} is stored by columns and cannot be read in blocks; store it as CSR"
        )
    return X.tocsr()


def _load(path: Path, in_blocks: bool = False) -> Any:
    """Load the array of an .npy file, or those of an .npz file by name."""
    try:
        found = np.load(path, mmap_mode="r" if in_blocks else None, allow_pickle=False)
        if isinstance(found, np.lib.npyio.NpzFile):
            with found:
                return dict(found)
    except Exception as error:  # depends on the contents
        if isinstance(error, (PermissionError, MemoryError)):
            raise
        raise damaged(path, path.suffix.lower(), error) from error
    if path.suffix.lower() == ".npz":
        raise TableError(f"{path} holds a single array; rename it to end in .npy")
    return found


def _matrix(arrays: dict[str, Any], chosen: Chosen, path: Path) -> str:
    """Return the name of the matrix to read."""
    wide = [name for name, array in arrays.items() if len(array.shape) == 2]
    if chosen.data is not None:
        return find(chosen.data, wide, "--data", path)
    if "X" in wide or len(wide) == 1:
        return "X" if "X" in wide else wide[0]
    if not wide:
        there = some(list(arrays)) if arrays else "nothing"
        raise TableError(f"{path} must hold a two-dimensional array; it has {there}")
    raise TableError(f"{path} holds several matrices; choose one with --data: {some(wide)}")


def _other_data(arrays: dict[str, Any], name: str, chosen: Chosen) -> tuple[str, ...]:
    if chosen.data is not None:
        return ()
    return tuple(key for key, array in arrays.items() if len(array.shape) == 2 and key != name)


def _from_arrays(
    path: Path,
    chosen: Chosen,
    X: Any,
    others: dict[str, Any],
    data: str = "",
    other_data: tuple[str, ...] = (),
) -> Table:
    if isinstance(X, dict):
        raise TableError(f"{path} holds several arrays; rename it to end in .npz")
    if len(X.shape) != 2:
        raise TableError(
            f"{path} must hold a matrix, samples in rows; it has shape {tuple(X.shape)}. Reshape it"
        )
    if np.dtype(X.dtype).kind not in "biuf":
        raise TableError(f"{path} must hold real numbers; it has {X.dtype}. Convert it")
    if chosen.transpose:
        if type(X) is not np.ndarray:
            raise TableError(f"{path} is read in blocks of rows and cannot be transposed")
        X = np.ascontiguousarray(X.T)
    n, d = X.shape
    names = others.get("feature_names")
    if names is not None and names.shape != (d,):
        raise TableError(
            f"{path}: feature_names must have one name for each of {d} columns; it has shape "
            f"{names.shape}. Correct or remove it"
        )
    if names is not None:
        names = as_names(names)
    vectors = {name: array for name, array in others.items() if array.shape == (n,)}
    labels = ids = None
    if chosen.label is not None:
        labels = as_labels(_vector(chosen.label, vectors, n, "--label", path))
    if chosen.ids is not None:
        found = _vector(chosen.ids, vectors, n, "--id", path)
        ids = np.array(["" if v is None else str(v) for v in found], dtype=object)
    X, names, passed_over = _choose(X, names, chosen, path)
    return Table(X, names, labels, ids, passed_over, data if other_data else "", other_data)


def _vector(name: str, vectors: dict[str, Any], n: int, option: str, path: Path) -> list[Any]:
    """Return a vector of the same file or of another one; None for missing values."""
    values = vectors[name] if name in vectors else _from_file(name, list(vectors), n, option, path)
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    return [None if v in ("", None) or v != v else v for v in values]


def _from_file(name: str, inside: list[str], n: int, option: str, path: Path) -> np.ndarray:
    other = Path(name)
    if not other.is_file():
        there = f"; vectors of {n} values in it: {some(inside)}" if inside else ""
        raise TableError(
            f"{option} {name} must name a vector in {path}, or a file with one value for each row "
            f"(.npy, or text with a line for each){there}"
        )
    if other.suffix.lower() == ".npy":
        values: np.ndarray = _load(other)
    else:
        try:
            text = other.read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise TableError(
                f"{option} {name} must be an .npy file, or text in UTF-8 ({error.reason} at byte "
                f"{error.start}); convert it"
            ) from error
        while text and not text[-1].strip():
            text.pop()
        values = np.array([line.strip() for line in text], dtype=object)
    if values.shape != (n,):
        hint = "; remove its first line if that is a header" * (values.shape == (n + 1,))
        raise TableError(
            f"{option} {name} must have one value for each of {n} rows of {path}; it has shape "
            f"{values.shape}{hint}"
        )
    return values


def _choose(X: Any, names: Any, chosen: Chosen, path: Path) -> tuple[Any, Any, tuple]:
    """Return the columns that are features, their names, and the columns not used."""
    if names is None:
        if chosen.drop:
            raise TableError(f"{path} has no column names, so --drop cannot be used")
        return X, None, ()
    # Labels and ids are separate vectors, which may have the name of a column.
    found = features([str(name) for name in names], chosen, path)
    if found.positions == list(range(len(names))):
        return X, as_names(found.names), found.passed_over
    X = columns.only(X, np.array(found.positions, dtype=np.int64))
    return X, as_names(found.names), found.passed_over


# ---------------------------------------------------------------- 10x Genomics


def is_10x(path: Path) -> bool:
    """Whether a path is a folder of 10x Genomics, or the matrix in it."""
    if path.is_dir():
        return len([*path.glob("*matrix.mtx*")]) == 1
    return path.name.endswith((".mtx", ".mtx.gz"))


def read_10x(path: Path, chosen: Chosen) -> Table:
    """Read counts of genes × cells, which stay sparse, with the names of both."""
    folder = path if path.is_dir() else path.parent
    matrix = next(path.glob("*matrix.mtx*")) if path.is_dir() else path
    prefix = matrix.name.partition("matrix.mtx")[0] if "matrix.mtx" in matrix.name else ""
    genes = _lines_of(folder, f"{prefix}features.tsv", f"{prefix}genes.tsv")
    cells = [fields[0] for fields in _lines_of(folder, f"{prefix}barcodes.tsv")]
    try:
        X = library("scipy.io", f"{path} needs").mmread(matrix, spmatrix=False)
    except Exception as error:  # depends on the contents
        if isinstance(error, (PermissionError, MemoryError)):
            raise
        raise damaged(matrix, "Matrix Market", error) from error
    if X.shape != (len(genes), len(cells)) or not _backend.is_sparse(X):
        raise TableError(
            f"{matrix} must be a sparse matrix of {len(genes)} genes × {len(cells)} cells, as many "
            f"as its folder names; it has shape {X.shape}. Write all files again"
        )
    kinds = {fields[2] for fields in genes if len(fields) > 2}
    if len(kinds) > 1:
        note(f"{path} has features of several kinds, all of which are used: {some(sorted(kinds))}")
    symbols = [fields[1] if len(fields) > 1 else fields[0] for fields in genes]
    count = Counter(symbols)
    # Some genes share a symbol, but no identifier.
    names = [s if count[s] == 1 else fields[0] for s, fields in zip(symbols, genes, strict=True)]
    others = {"feature_names": np.array(names), "barcodes": np.array(cells)}
    chosen = dataclasses.replace(chosen, transpose=False, ids=chosen.ids or "barcodes")
    return _from_arrays(path, chosen, X.T.tocsr(), others)


def _lines_of(folder: Path, *names: str) -> list[list[str]]:
    """Return the fields of a file of names, which may be packed."""
    for name in names:
        for file, opener in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
            if file.is_file():
                with opener(file, "rt", encoding="utf-8") as lines:
                    return [line.rstrip("\r\n").split("\t") for line in lines if line.strip()]
    raise TableError(f"{folder} must hold {' or '.join(names)} (or .gz), as 10x Genomics writes it")
