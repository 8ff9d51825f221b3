"""Conversion of X to a matrix: arrays, frames, lists and files become one of a few kinds.

Nothing here computes, and nothing here changes what the caller passed.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array
from slce_xp._data import row_reader
from slce_xp._errors import invalid, traced, wrong_type


def refuse_unreadable(X: Any, name: str = "X") -> None:
    """Raise TypeError for the path of a file, which the command reads, and for batches."""
    # Not `columns`, which warn on a lazy frame.
    is_sized = any(hasattr(X, one) for one in ("shape", "__array__", "__getitem__"))
    if hasattr(X, "__iter__") and not is_sized:
        raise wrong_type(
            name,
            f"{name} must be a matrix; got {type(X).__name__}, which can only be iterated over. "
            f"Add its batches up: slce = SLCE(), then slce.partial_fit({name}, y) for each of them",
        )
    if isinstance(X, (str, os.PathLike)):
        path = os.fspath(X)
        raise wrong_type(
            name,
            f"{name} must be a matrix; got the path {path!r}. Read the file first, for example "
            f"with pandas.read_csv, or let the command do it: slce-xp fit {shlex.quote(str(path))} "
            "--label COLUMN",
        )


def as_matrix(X: Any, *, name: str = "X") -> Array:
    """Return `X` as a 2-D array or sparse matrix of real numbers, in its own library."""
    refuse_unreadable(X, name)
    array = _as_array(X, name)
    check_is_matrix(array, name)
    if _backend.working_dtype(array) is None:
        dtype = _backend.dtype_name(array.dtype)
        remedy = f"convert it first, for example {name}.astype(float)"
        if "complex" in dtype:
            remedy = f"take {name}.real, or stack real and imaginary parts as features"
        raise wrong_type(name, f"{name} must hold real numbers; got dtype {dtype}: {remedy}")
    return array


def check_is_matrix(array: Array, name: str) -> None:
    """Raise ValueError for an array that is not two-dimensional."""
    shape = tuple(array.shape)
    if len(shape) != 2:
        remedy = f"images into rows: {name}.reshape(n, -1)"
        if len(shape) == 1:
            remedy = f"one sample: {name}.reshape(1, -1), or one feature: {name}.reshape(-1, 1)"
        raise invalid(
            name,
            f"{name} must be two-dimensional (samples × features); got shape {shape}. "
            f"Reshape {remedy}",
        )


def as_values(X: Any) -> Array:
    """Return `X` as a matrix whose values can be read, for a fit, which is not differentiated."""
    check_values(X, "X")
    return _backend.detached(as_matrix(X))


def check_values(x: Any, name: str) -> None:
    """Raise TypeError for an array without values, as under ``jax.jit``."""
    if _backend.is_traced(x):
        raise traced(
            name,
            "A fit reads values to choose its form and to know when to stop. Fit outside, and use "
            "the model inside: transform, inverse_transform and reconstruct work there",
        )


def _as_array(X: Any, name: str) -> Array:
    if isinstance(X, np.ndarray):
        return _of_numpy(X, name)
    if _backend.is_dask(X):
        return _of_dask(X, name)
    # Frames first: a column may be called "nnz". A lazy frame has no `to_numpy`, and its `columns`
    # warn.
    for convert in (_of_frame, _of_sparse, _of_library, _of_rows):
        found = convert(X, name)
        if found is not None:
            return found
    raise wrong_type(
        name,
        f"{name} must be an array, a list of rows, a data frame or an object with a shape, a dtype "
        f"and rows {name}[i:j]; got {type(X).__name__}"
        + (f". Convert it: {name}.numpy()" if hasattr(X, "numpy") else ""),
    )


def _of_numpy(X: np.ndarray, name: str) -> Array:
    if isinstance(X, np.ma.MaskedArray):
        raise _masked(name, f"{name}.filled(value)")
    if isinstance(X, np.memmap) and row_reader.is_row_sliceable(X):
        return row_reader.RowReader(X, name)
    return np.asarray(X)  # np.matrix has another `*`


def _of_dask(X: Any, name: str) -> Any:
    if isinstance(X._meta, np.ma.MaskedArray):
        raise _masked(name, f"dask.array.ma.filled({name}, value)")
    if any(np.isnan(size) for size in X.shape):
        raise invalid(
            name,
            f"{name} must have chunks of known sizes; got a Dask array of shape {X.shape}. Let "
            f"Dask find them: {name}.compute_chunk_sizes()",
        )
    return X


def _of_frame(X: Any, name: str) -> np.ndarray | None:
    """The numbers of a frame or an Arrow table; None for anything else."""
    if hasattr(X, "to_dask_array"):
        raise wrong_type(
            name,
            f"{name} must be a Dask array; got a Dask {type(X).__name__}, all of which would be "
            f"loaded. Convert it: {name}.to_dask_array(lengths=True)",
        )
    if hasattr(X, "to_numpy") and hasattr(X, "columns"):
        return _frame_to_numpy(X, name)
    if hasattr(X, "column_names") and hasattr(X, "columns"):
        return _table_to_numpy(X, name)
    if hasattr(X, "obs") and hasattr(X, "var"):
        raise wrong_type(
            name,
            f"{name} must be a matrix; got an {type(X).__name__} of cells, which has several. Pass "
            f"one, such as {name}.X, or fit with slce_xp.anndata.slce",
        )
    return None


def _of_sparse(X: Any, name: str) -> Any:
    """A sparse matrix; None for anything else."""
    if _backend.is_sparse(X):
        return _backend.Sparse(X) if len(X.shape) == 2 else X
    if _is_unknown_sparse(X):
        ways = ("toarray", "to_dense", "todense")
        way = next((way for way in ways if hasattr(X, way)), ways[0])
        raise wrong_type(
            name,
            f"{name} must be dense, or a sparse matrix of SciPy, CuPy or torch; got a sparse "
            f"{type(X).__name__}. If memory allows: {name}.{way}()",
        )
    return None


def _of_library(X: Any, name: str) -> Array | None:
    """An array of another library, or what is read by its rows; None for anything else."""
    if _backend.is_array(X):
        _check_library(X, name)
        return X
    return row_reader.RowReader(X, name) if row_reader.is_row_sliceable(X) else None


def _of_rows(X: Any, name: str) -> Any:
    """Lists of rows and what NumPy can convert; None for anything else."""
    if len(getattr(X, "shape", (0, 0))) != 2:
        return X  # the caller checks its shape before all of it is loaded
    # Not a tensor by its items: they are arrays again, without end.
    if not (hasattr(X, "__array__") or (hasattr(X, "__len__") and not hasattr(X, "shape"))):
        return None
    try:
        return np.asarray(X)
    except ValueError as error:
        raise invalid(
            name,
            f"{name} must be rectangular; its rows have different lengths or kinds ({error}). "
            "Give all rows the same number of numbers",
        ) from error


def _is_unknown_sparse(X: Any) -> bool:
    """Whether `X` is sparse in a way that cannot be computed with."""
    if str(getattr(X, "layout", "")) == "torch._mkldnn":
        return True
    if callable(getattr(X, "is_sparse", None)):  # of Paddle, whose dense tensors count nnz, too
        return bool(X.is_sparse())
    return hasattr(X, "nnz") or hasattr(X, "nse")


def _check_library(X: Array, name: str) -> None:
    """Raise TypeError for an array of a library that lacks what a fit needs."""
    if hasattr(X, "mask") and hasattr(X, "data"):  # of marray
        raise _masked(name, f"xp.where({name}.mask, value, {name}.data)")
    if hasattr(X, "unit"):  # of unxt
        raise wrong_type(
            name,
            f"{name} must hold plain numbers; got a {type(X).__name__} in units of {X.unit}, which "
            f"would be lost. Take its values: {name}.value",
        )
    namespace = _backend.namespace_of(X)
    missing = _backend.missing_functions(namespace) if hasattr(X, "device") else "array.device"
    if missing:
        raise wrong_type(
            name,
            f"{name} must be of a library that offers the array API standard; "
            f"{_backend.backend_name(namespace)} lacks {missing}. Convert {name}, for example to "
            "NumPy",
        )


def feature_names(X: Any) -> np.ndarray | None:
    """Return the column names of a frame or an Arrow table, if all are strings."""
    if _backend.is_dask(X) or not (hasattr(X, "to_numpy") or hasattr(X, "column_names")):
        return None
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    return np.array(names, dtype=np.str_) if names and all(type(n) is str for n in names) else None


def _masked(name: str, remedy: str) -> TypeError:
    return wrong_type(
        name, f"{name} must not be a masked array, its mask would be lost; fill it first: {remedy}"
    )


def _frame_to_numpy(frame: Any, name: str) -> np.ndarray:
    for column, kind in zip(frame.columns, frame.dtypes, strict=True):
        if hasattr(kind, "is_temporal") and kind.is_temporal():
            raise _no_number_column(column, name)  # polars converts dates to numbers silently
    values: np.ndarray = np.asarray(frame.to_numpy())
    if values.dtype != object:
        return values
    # Mixed columns: find the one at fault. Nullable numbers are fine.
    columns = [_numbers(values[:, i], column, name) for i, column in enumerate(frame.columns)]
    # pandas' nullable types name the NumPy type that they wrap.
    kinds = [getattr(kind, "numpy_dtype", kind) for kind in frame.dtypes]
    single = all(isinstance(kind, np.dtype) and kind == np.float32 for kind in kinds)
    return np.stack(columns, axis=1).astype(np.float32 if single else np.float64, copy=False)


def _table_to_numpy(table: Any, name: str) -> np.ndarray:
    """Convert an Arrow table, whose columns are chunked and of Arrow types."""
    names, columns = table.column_names, table.columns
    if not columns:
        return np.empty((table.num_rows, 0))
    numbers = [_numbers(np.asarray(c), n, name) for n, c in zip(names, columns, strict=True)]
    return np.stack(numbers, axis=1)


def _numbers(values: np.ndarray, column: Any, name: str) -> np.ndarray:
    """Convert one column of a frame."""
    if values.dtype.kind in "biuf":
        return values
    if values.dtype == object and not any(isinstance(value, str) for value in values):
        with contextlib.suppress(TypeError, ValueError):
            return np.array([math.nan if is_missing(v) else float(v) for v in values])
    raise _no_number_column(column, name)


def _no_number_column(column: Any, name: str) -> TypeError:
    return wrong_type(
        name,
        f"{name} must hold numbers only; column {column!r} does not. "
        f"Encode it as numbers or leave it out: {name}.drop(columns=[{column!r}])",
    )


def check_sizes(X: Array) -> None:
    """Raise ValueError for a matrix without rows or columns."""
    for size, what in zip(X.shape, ("row (sample)", "column (feature)"), strict=True):
        if size == 0:
            raise invalid(
                "X",
                f"X must have at least one {what}; got shape {tuple(X.shape)}. "
                "Check how rows and columns are selected",
            )


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT, recognized without importing pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
