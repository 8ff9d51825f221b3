"""The checker of data and parameters: they are turned into arrays and numbers, or refused.

Nothing here computes, and nothing here changes what the caller handed in.
"""

from __future__ import annotations

import operator
from types import ModuleType
from typing import Any

import numpy as np

from slce_xp import _rows, _xp
from slce_xp._xp import Array, Place

# ---------------------------------------------------------------- X


def as_matrix(X: Any, *, name: str = "X") -> Array:
    """`X` as a two-dimensional array, or sparse matrix, of real numbers, of its own library."""
    array = _as_array(X, name)
    shape = tuple(array.shape)
    if len(shape) != 2:
        remedy = f"images into rows: {name}.reshape(n, -1)"
        if len(shape) == 1:
            remedy = f"one sample: {name}.reshape(1, -1), or one feature: {name}.reshape(-1, 1)"
        raise ValueError(
            f"{name} must be two-dimensional (samples × features); got shape {shape}. "
            f"Reshape {remedy}"
        )
    if _xp.working_dtype(array) is None:
        raise TypeError(_no_numbers(array, name))
    return _xp.detached(array)


def _as_array(X: Any, name: str) -> Array:
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must not be a masked array, its mask would be lost; "
            f"fill it first: {name}.filled(value)"
        )
    if isinstance(X, np.ndarray):
        # np.matrix has another `*`
        return _rows.RowReader(X, name) if _rows.gives_rows(X) else np.asarray(X)
    if _xp.is_dask(X):
        return _checked_dask(X, name)
    if hasattr(X, "to_dask_array"):
        raise TypeError(
            f"{name} must be a Dask array; got a Dask {type(X).__name__}, all of which would come "
            f"here. Make it one: {name}.to_dask_array(lengths=True)"
        )
    # Frames first: a column may be called "nnz". A lazy frame has no `to_numpy`, and warns where it
    # is asked for its columns.
    if hasattr(X, "to_numpy") and hasattr(X, "columns"):
        return _frame_to_numpy(X, name)
    if hasattr(X, "column_names") and hasattr(X, "columns"):
        return _table_to_numpy(X, name)
    if hasattr(X, "obs") and hasattr(X, "var"):
        raise TypeError(
            f"{name} must be a matrix; got an {type(X).__name__} of cells, which has several. Pass "
            f"one, such as {name}.X, or fit with slce_xp.anndata.slce"
        )
    if _xp.is_sparse(X):
        return _xp.Sparse(X) if len(X.shape) == 2 else X
    if _is_sparse(X):
        ways = ("toarray", "to_dense", "todense")
        way = next((way for way in ways if hasattr(X, way)), ways[0])
        raise TypeError(
            f"{name} must be dense, or a sparse matrix of SciPy, CuPy or torch; got a sparse "
            f"{type(X).__name__}. "
            f"Where memory allows: {name}.{way}()"
        )
    if _xp.is_array(X):
        return X
    if _rows.gives_rows(X):
        return _rows.RowReader(X, name)
    if len(getattr(X, "shape", (0, 0))) != 2:
        return X  # refused for its shape, before all of it is loaded
    if hasattr(X, "__array__") or hasattr(X, "__len__"):
        try:
            return np.asarray(X)
        except ValueError as error:
            raise ValueError(
                f"{name} must be rectangular; its rows have different lengths or kinds ({error}). "
                "Make each row hold as many numbers"
            ) from error
    raise TypeError(
        f"{name} must be an array, a list of rows, a data frame or something with a shape, a dtype "
        f"and rows {name}[i:j]; got {type(X).__name__}"
    )


def feature_names(X: Any) -> np.ndarray | None:
    """The names of a frame's or an Arrow table's columns, where all are text."""
    if _xp.is_dask(X) or not (hasattr(X, "to_numpy") or hasattr(X, "column_names")):
        return None
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    return np.array(names, dtype=np.str_) if names and all(type(n) is str for n in names) else None


def _checked_dask(X: Any, name: str) -> Any:
    if isinstance(X._meta, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must not be a masked array, its mask would be lost; "
            f"fill it first: dask.array.ma.filled({name}, value)"
        )
    if any(np.isnan(size) for size in X.shape):
        raise ValueError(
            f"{name} must have chunks of known sizes; got a Dask array of shape {X.shape}. Let "
            f"Dask find them: {name}.compute_chunk_sizes()"
        )
    return X


def _is_sparse(X: Any) -> bool:
    """Whether it is of another library than those that can be computed with."""
    packed = str(getattr(X, "layout", "")) == "torch._mkldnn"
    return hasattr(X, "nnz") or hasattr(X, "nse") or packed


def _frame_to_numpy(frame: Any, name: str) -> np.ndarray:
    for column, kind in zip(frame.columns, frame.dtypes, strict=True):
        if hasattr(kind, "is_temporal") and kind.is_temporal():
            raise _no_number_column(column, name)  # polars makes numbers of dates in silence
    values: np.ndarray = np.asarray(frame.to_numpy())
    if values.dtype != object:
        return values
    # Mixed columns: find the one that is to blame, by name. Nullable numbers are fine.
    columns = [_numbers(values[:, i], column, name) for i, column in enumerate(frame.columns)]
    # pandas' nullable types name the NumPy type behind them; text and objects do not come here.
    kinds = [getattr(kind, "numpy_dtype", kind) for kind in frame.dtypes]
    single = all(isinstance(kind, np.dtype) and kind == np.float32 for kind in kinds)
    return np.stack(columns, axis=1).astype(np.float32 if single else np.float64, copy=False)


def _table_to_numpy(table: Any, name: str) -> np.ndarray:
    """An Arrow table: columns in pieces, of types that NumPy need not have."""
    names, columns = table.column_names, table.columns
    if not columns:
        return np.empty((table.num_rows, 0))
    numbers = [_numbers(np.asarray(c), n, name) for n, c in zip(names, columns, strict=True)]
    return np.stack(numbers, axis=1)


def _numbers(values: np.ndarray, column: Any, name: str) -> np.ndarray:
    """One column of a frame."""
    if values.dtype.kind in "biuf":
        return values
    if values.dtype != object:
        raise _no_number_column(column, name)
    try:
        return np.asarray([_as_float(value) for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        raise _no_number_column(column, name) from None


def _no_number_column(column: Any, name: str) -> TypeError:
    return TypeError(
        f"{name} must hold numbers only; column {column!r} does not. "
        f"Encode it as numbers or leave it out: {name}.drop(columns=[{column!r}])"
    )


def _as_float(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError
    return float("nan") if is_missing(value) else float(value)


def _no_numbers(array: Array, name: str) -> str:
    dtype = _xp.dtype_name(array.dtype)
    if "complex" in dtype:
        remedy = f"take {name}.real, or stack real and imaginary parts as features"
    else:
        remedy = f"convert it first, for example {name}.astype(float)"
    return f"{name} must hold real numbers; got dtype {dtype}: {remedy}"


def check_sizes(X: Array) -> None:
    """Refuse a matrix without rows or columns."""
    n, d = X.shape
    if n == 0:
        raise ValueError(
            f"X must have at least one row (sample); got shape ({n}, {d}). Check what selects them"
        )
    if d == 0:
        raise ValueError(
            f"X must have at least one column (feature); got shape ({n}, {d}). "
            "Check what selects them"
        )


def not_finite(row: int, column: int, value: float) -> ValueError:
    """The error for NaN or infinity in X."""
    kind = "NaN" if np.isnan(value) else "infinity"
    return ValueError(
        f"X must be finite; the first {kind} stands in row {row}, column {column}. "
        "Remove those rows or columns, or impute them first"
    )


def too_large(dtype: str) -> ValueError:
    """The error for finite numbers whose squares are not."""
    return ValueError(
        f"X must be small enough to be squared and summed: that overflows {dtype}. Scale X down"
    )


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN or what pandas has for them."""
    # NaN is the float unequal to itself; pandas' NA and NaT are known by their types' names,
    # so that pandas need not be imported.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


# ---------------------------------------------------------------- parameters


def as_component_count(
    n_components: Any, n_classes: int, n_features: int, supervised: bool = True
) -> int:
    """How many components to compute at most; `"positive"` is cut down after the solve."""
    default = min(n_classes - 1, n_features)
    if n_components is None:
        return default
    if isinstance(n_components, str) and n_components == "positive":
        return default if supervised else n_features  # samples without a label lift the bound
    rule = f"n_components must be an integer from 1 to {n_features} (the number of features)"
    other = "None (number of classes − 1) or 'positive'"
    if isinstance(n_components, (bool, np.bool, str)):  # NumPy 2.2 takes its own for an index
        raise TypeError(f"{rule}, {other}; got {n_components!r}")
    try:
        count = operator.index(n_components)
    except TypeError:
        raise TypeError(f"{rule}, {other}; got {n_components!r}") from None
    if not 1 <= count <= n_features:
        raise ValueError(f"{rule}, {other}; got {count}")
    return count


def as_count(value: Any, name: str, least: int, most: int | None = None) -> int:
    """An integer of at least `least` and at most `most`."""
    limit = f" and at most {most}" if most is not None else ""
    rule = f"{name} must be an integer of at least {least}{limit}"
    if isinstance(value, (bool, np.bool)):
        raise TypeError(f"{rule}; got {value!r}")
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{rule}; got {value!r}") from None
    if count < least or (most is not None and count > most):
        raise ValueError(f"{rule}; got {count}")
    return count


def as_tolerance(tol: Any, eps: float) -> float:
    """The relative residual to reach; None is what the dtype can reach with ease."""
    if tol is None:
        return max(1e-8, 32.0 * eps)
    rule = "tol must be a number between 0 and 1, the residual relative to ‖M‖, or None"
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.floating)):
        raise TypeError(f"{rule}; got {tol!r}")
    if not 0.0 < tol < 1.0:
        raise ValueError(f"{rule}; got {tol!r}")
    return float(tol)


def as_seed(random_state: Any) -> int:
    """Return a non-negative integer seed."""
    try:
        seed = -1 if isinstance(random_state, (bool, np.bool)) else operator.index(random_state)
    except TypeError:
        seed = -1
    if seed < 0:
        raise ValueError(f"random_state must be an integer ≥ 0, such as 0; got {random_state!r}")
    return seed


def find_place(X: Array, backend: str | ModuleType | None, device: Any) -> Place:
    """Where to compute: what the caller named, else where X is."""
    here = _xp.place_of(X)
    if _xp.is_dask(X) and not (backend is None and device is None):
        raise ValueError(
            f"backend and device must be None for a Dask array, which is computed with where its "
            f"chunks are ({here}); got backend={backend!r}, device={device!r}. Move the chunks: "
            "X.map_blocks(cupy.asarray)"
        )
    if backend is None:
        if device is not None:
            there = _xp.find_place(here.xp, device)
            if there.device != here.device:
                raise ValueError(
                    f"X is on {here.device} and device={device!r} asks for another; nothing is "
                    f"moved unasked. Move X first, or pass backend={_xp.backend_name(here.xp)!r} "
                    "with that device"
                )
        return here
    there = _xp.find_place(backend, device)
    # X already in that library stays on its device unless another one was named.
    return here if device is None and there.xp is here.xp else there


def check_same_place(array: Array, place: Place, name: str) -> None:
    """A fitted model works where it lives: nothing is moved unasked."""
    here = _xp.place_of(array)
    if here.xp is not place.xp or here.device != place.device:
        backend, device = _xp.backend_name(here.xp), _xp.device_name(here.device)
        raise ValueError(
            f"{name} must be where the model is ({place}); got {here}. Move {name} there, "
            f"or the model: model.to({backend!r}, device={device!r})"
        )
