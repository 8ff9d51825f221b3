"""Matrices from files of arrays, NumPy, HDF5, and AnnData, with names and columns."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slce_xp.cli import tables
from slce_xp.cli.tables import TableError

CONVERT = "convert it in Python: scanpy.{}('{}').write('counts.h5ad')"
BLOCKS = 0.5  # share of memory from which on a file is read in blocks


class Matrix(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    X : array, sparse matrix or row-sliceable object, shape (n, d), or None
        None if `columns` holds the features, too.
    names : list of str or None
        The features.
    columns : pandas.DataFrame
        A row for each sample; its index names them if the index has a name.
    marked : set of str or None
        The features that are used by default: highly variable genes, if these are marked.
    """

    X: Any
    names: list[str] | None
    columns: Any
    marked: set[str] | None = None


def read_npy(path: Path, arguments: Namespace) -> Matrix:
    """Read a matrix; columns are in other files."""
    return _matrix(path, arguments, _load(path, mmap_mode="r" if _in_blocks(path) else None), {})


def read_npz(path: Path, arguments: Namespace) -> Matrix:
    """Read a matrix, with vectors in the same file."""
    arrays = _load(path)
    if {"header", "components"} <= arrays.keys():
        raise TableError(f"{path} is a model, not a table: name the table with the samples")
    return _matrix(path, arguments, _chosen(arrays, arguments), arrays)


def read_hdf5(path: Path, arguments: Namespace) -> Matrix:
    """Read a matrix and vectors, which may be in groups."""
    h5py = tables.library("h5py", f"{path} needs")
    try:
        file = h5py.File(path, "r")  # stays open: rows are read as needed
    except OSError as error:
        raise tables.damaged(path, error) from error
    sets: dict[str, Any] = {}
    file.visititems(lambda name, item: sets.update({name: item} if hasattr(item, "dtype") else {}))
    if "matrix/barcodes" in sets:
        raise TableError(f"{path} is of 10x Genomics; {CONVERT.format('read_10x_h5', path)}")
    X = _chosen(sets, arguments)
    vectors = {}  # the others are not read
    for name in {"feature_names", *tables.roles_of(arguments).values()} & sets.keys():
        is_text = h5py.check_string_dtype(sets[name].dtype)
        vectors[name] = (sets[name].asstr() if is_text else sets[name])[()]
    return _matrix(path, arguments, X if _in_blocks(path) else X[()], vectors)


def read_h5ad(path: Path, arguments: Namespace) -> Matrix:
    """Read cells × genes, by default those that are highly variable; columns are those of obs."""
    anndata = tables.library("anndata", f"{path} needs")
    if arguments.transpose:
        raise TableError(f"{path} has cells in rows, as its format has it; leave out --transpose")
    try:
        adata = anndata.read_h5ad(path, backed="r" if _in_blocks(path) else None)
        X = _chosen({"X": adata.X, **adata.layers}, arguments)
        if hasattr(X, "check_format"):
            X.check_format()  # invalid indices would crash the process
    except Exception as error:  # depends on the contents
        raise tables.damaged(path, error) from error
    if getattr(X, "format", "csr") != "csr":
        if _in_blocks(path):
            raise TableError(f"{path} is stored by columns, and only rows can be read in blocks; "
                             "store X as CSR")  # fmt: skip
        X = X.tocsr()
    names, marked = [str(name) for name in adata.var_names], None
    if "highly_variable" in adata.var:
        marks = adata.var["highly_variable"].to_numpy(dtype=bool)
        marked = {name for name, mark in zip(names, marks, strict=True) if mark}
    return Matrix(X, names, adata.obs.rename_axis(index=""), marked)


def _in_blocks(path: Path) -> bool:
    """Whether a file is read in blocks, for it would take most of the memory."""
    memory = tables.machine_memory()
    return memory is not None and path.stat().st_size > BLOCKS * memory


def _load(path: Path, mmap_mode: Any = None) -> Any:
    """Load the array of an .npy file, or those of an .npz file by name."""
    try:
        found = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
        arrays = isinstance(found, np.lib.npyio.NpzFile)
        if arrays != (path.suffix.lower() == ".npz"):
            raise ValueError("rename it to .npz, for several arrays, or .npy, for one")
        return dict(found) if arrays else found
    except Exception as error:  # depends on the contents
        raise tables.damaged(path, error) from error


def _chosen(arrays: Mapping[str, Any], arguments: Namespace) -> Any:
    """Return the matrix to read: the one chosen, X, or the only one."""
    path, name = arguments.table, arguments.data
    wide = [key for key, array in arrays.items() if len(getattr(array, "shape", ())) == 2]
    if name is not None:
        if name not in wide:
            raise tables.no_such(name, wide, "--data", path)
        return arrays[name]
    if "X" not in wide and len(wide) != 1:
        raise TableError(
            f"{path} must hold one matrix X; choose one with --data: {tables.some(wide)}"
        )
    name = "X" if "X" in wide else wide[0]
    others = [key for key in wide if key != name]
    if others:
        tables.note(f"{path}: {name} was used; --data chooses another: {tables.some(others)}")
    return arrays[name]


def _matrix(path: Path, arguments: Namespace, X: Any, vectors: Mapping[str, Any]) -> Matrix:
    """Return a matrix with the vectors that have an entry for each of its rows."""
    if len(X.shape) != 2 or np.dtype(X.dtype).kind not in "biuf":
        given = f"{X.dtype} of shape {tuple(X.shape)}"
        raise TableError(f"{path} must hold a matrix of real numbers; it has {given}. Convert it")
    if arguments.transpose:
        if type(X) is not np.ndarray:
            raise TableError(f"{path} is read in blocks of rows and cannot be transposed")
        X = np.ascontiguousarray(X.T)
    n, d = X.shape
    names = vectors.get("feature_names")
    if names is not None and names.shape != (d,):
        shape = names.shape
        raise TableError(f"{path}: feature_names must name {d} columns; it has shape {shape}")
    columns = {name: _text(array) for name, array in vectors.items() if array.shape == (n,)}
    frame = tables.library("pandas", f"{path} needs").DataFrame(columns, index=range(n))
    return Matrix(X, None if names is None else list(map(str, _text(names))), frame)


def _text(values: np.ndarray) -> np.ndarray:
    """Decode bytes, which HDF5 and older files have for text."""
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values


def vector_in_file(name: str, n: int, option: str) -> Any:
    """Read a vector with a value for each row of a matrix: .npy, or text with a line for each."""
    if Path(name).suffix.lower() == ".npy":
        values = _text(_load(Path(name)))
    else:
        lines = Path(name).read_text(encoding="utf-8", errors="replace").rstrip().splitlines()
        values = np.array([line.strip() for line in lines], dtype=object)
    if values.shape != (n,):
        raise TableError(
            f"{option} {name} must have one value for each of {n} rows of the matrix, and no line "
            f"of names; it has shape {values.shape}"
        )
    return tables.library("pandas", f"{option} needs").Series(values)
