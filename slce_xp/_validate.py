"""The only checker: what comes in is turned into arrays, codes and numbers, or refused.

Nothing here computes, and nothing here changes what the caller handed in.
"""

from __future__ import annotations

import operator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _xp
from slce_xp._xp import Array, Place


class Labels(NamedTuple):
    """Class labels as codes, and how much each sample counts.

    Attributes
    ----------
    codes : numpy.ndarray of int64, shape (n,)
        The position in `classes` of each sample's label; K for samples of no class.
    classes : numpy.ndarray, shape (K,)
        The distinct labels, sorted, in the caller's own values.
    counts : numpy.ndarray of int64, shape (K,)
        Samples of each class, those of weight zero not counted.
    weights : numpy.ndarray, shape (n,), or None
        None stands for ones.
    has_others : bool
        Whether some samples are of no class: without a label, or of weight zero.
    n_unlabeled : int
        Samples without a label, those of weight zero not counted.
    unlabeled_weight : float
        What the reconstruction of those counts beside that of the classes.
    """

    codes: np.ndarray
    classes: np.ndarray
    counts: np.ndarray
    weights: np.ndarray | None = None
    has_others: bool = False
    n_unlabeled: int = 0
    unlabeled_weight: float = 1.0

    @property
    def height(self) -> int:
        """How many codes there are: K, and one more where samples of no class are among them."""
        return len(self.classes) + self.has_others

    @property
    def signs(self) -> np.ndarray | None:
        """What each sample's scatter counts in S_t, shape (n,): 1, or −λ without a label."""
        if not self.n_unlabeled:
            return None
        return np.where(self.codes < len(self.classes), 1.0, -self.unlabeled_weight)

    @property
    def scatter_weights(self) -> np.ndarray | None:
        """The same times the weight of each sample; None stands for ones."""
        signs, weights = self.signs, self.weights
        if signs is None or weights is None:
            return weights if signs is None else signs
        return np.asarray(signs * weights)

    @property
    def rest_weights(self) -> np.ndarray:
        """The weight of each sample of no class, and zero for the others, shape (n,)."""
        others = self.codes == len(self.classes)
        return np.asarray(others * (1.0 if self.weights is None else self.weights))


# ---------------------------------------------------------------- X


def as_matrix(X: Any, *, name: str = "X") -> Array:
    """`X` as a two-dimensional array, or sparse matrix, of real numbers, of its own library."""
    array = _as_array(X, name)
    shape = tuple(array.shape)
    if len(shape) != 2:
        remedy = f"{name}.reshape(-1, 1)" if len(shape) == 1 else f"{name}.reshape(n, -1)"
        raise ValueError(
            f"{name} must be two-dimensional (samples × features); got shape {shape}. "
            f"For one feature per sample or for images, reshape: {remedy}"
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
        return np.asarray(X)  # np.matrix has another `*`
    # Frames first: a column may be called "nnz". A lazy frame has no `to_numpy`, and warns where it
    # is asked for its columns.
    if hasattr(X, "to_numpy") and hasattr(X, "columns"):
        return _frame_to_numpy(X, name)
    if hasattr(X, "column_names") and hasattr(X, "columns"):
        return _table_to_numpy(X, name)
    if _xp.is_sparse(X):
        return _xp.Sparse.of(X) if len(X.shape) == 2 else X
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
    if hasattr(X, "__array__") or hasattr(X, "__len__"):
        try:
            return np.asarray(X)
        except ValueError as error:
            raise ValueError(
                f"{name} must be rectangular; its rows have different lengths or kinds ({error}). "
                "Make each row hold as many numbers"
            ) from error
    raise TypeError(
        f"{name} must be an array, a list of rows or a data frame; got {type(X).__name__}"
    )


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
    return float("nan") if _is_missing(value) else float(value)


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


# ---------------------------------------------------------------- y


def as_labels(
    y: Any,
    n_samples: int,
    sample_weight: Any = None,
    class_weight: Any = None,
    unlabeled: Any = None,
    unlabeled_weight: float = 1.0,
) -> Labels:
    """Code class labels as integers; any hashable, sortable values will do."""
    values = _label_values(y)
    if values.ndim != 1:
        raise ValueError(
            f"y must be one-dimensional, one label per sample; got shape {values.shape}. "
            "Flatten a column with y.ravel(), turn one-hot rows into labels with y.argmax(axis=1)"
        )
    if values.shape[0] != n_samples:
        raise ValueError(
            f"X and y must have the same number of samples; "
            f"got {n_samples} rows in X and {values.shape[0]} labels in y. Pass one label per row"
        )
    without = _without_label(values, unlabeled)
    _check_no_missing(values, without)
    weights = _as_weights(sample_weight, n_samples)
    present = _present(without, weights)
    try:
        classes, codes, counts = _unique(values if present is None else values[present])
    except TypeError as error:
        raise TypeError(
            f"y must hold labels of one kind that can be sorted ({error}); "
            "make them all strings or all numbers"
        ) from error
    if classes.shape[0] < 2:
        only = f", all {classes[0]!r}" if classes.shape[0] else ""
        raise ValueError(
            f"y must hold at least two classes{' of positive weight' * (weights is not None)}; "
            f"got {classes.shape[0]}{only}. With one class there is nothing to tell apart: use PCA"
        )
    if present is not None:
        everyone = np.full(n_samples, classes.shape[0], dtype=np.int64)
        everyone[present] = codes
        codes = everyone
    n_unlabeled = 0
    if without is not None:
        n_unlabeled = int((without if weights is None else without & (weights > 0)).sum())
    return Labels(
        codes.astype(np.int64, copy=False),
        classes,
        counts.astype(np.int64, copy=False),
        _class_weighted(weights, codes, classes, class_weight),
        int(counts.sum()) < n_samples,
        n_unlabeled,
        _as_unlabeled_weight(unlabeled_weight),
    )


def _unique(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """np.unique with codes and counts, without sorting all values where a few show all classes."""
    sample = np.unique(values[:: max(1, values.shape[0] // 256)])
    if sample.shape[0]:
        codes = np.minimum(np.searchsorted(sample, values), sample.shape[0] - 1)
        if (sample[codes] == values).all():
            return sample, codes, np.bincount(codes)
    return np.unique(values, return_inverse=True, return_counts=True)


def _label_values(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError("y must be given: SLCE is supervised; got None. Use PCA without labels")
    if isinstance(y, np.ma.MaskedArray):
        raise TypeError("y must not be a masked array, its mask would be lost; drop those samples")
    if isinstance(y, np.ndarray):
        return np.asarray(y)
    if _xp.is_array(y):
        return _xp.to_host(_xp.detached(y))
    if hasattr(y, "columns") and hasattr(y, "to_numpy"):  # a frame of one column
        return np.asarray(y.to_numpy())
    if isinstance(y, (list, tuple)):
        # np.asarray(["a", None]) would make strings of everything.
        values = np.empty(len(y), dtype=object)
        values[:] = y
        return values if any(isinstance(v, str) or _is_missing(v) for v in y) else np.asarray(y)
    values = np.asarray(y)
    if values.ndim == 0:
        raise TypeError(f"y must be a vector of labels; got {type(y).__name__}")
    return values


def _missing(values: np.ndarray) -> np.ndarray | None:
    """Which labels are missing: NaN, None, NaT or empty; None where the dtype has no such value."""
    if values.dtype.kind in "fc":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values))
    if values.dtype.kind in "UT":
        return np.asarray(values == "")
    if values.dtype.kind == "S":
        return np.asarray(values == b"")
    if values.dtype == object:
        return np.fromiter((_is_missing(v) or v == "" for v in values), bool, len(values))
    return None


def _check_no_missing(values: np.ndarray, without: np.ndarray | None) -> None:
    missing = _missing(values)
    if missing is not None and without is not None:
        missing = missing & ~without
    if missing is not None and missing.any():
        first = int(np.argmax(missing))
        raise ValueError(
            f"y must have a label for every sample; got {values[first]!r} at position {first}. "
            "Drop those samples, label them, or let them count as unlabelled: unlabeled='missing'"
        )


def _without_label(values: np.ndarray, unlabeled: Any) -> np.ndarray | None:
    """Which samples the caller marks as unlabelled; None for none of them."""
    if unlabeled is None:
        return None
    if isinstance(unlabeled, str) and unlabeled == "missing":
        mask = _missing(values)
    elif values.dtype == object:
        mask = np.fromiter((type(v) is not bool and v == unlabeled for v in values), bool)
    else:
        same_kind = isinstance(unlabeled, (str, bytes)) == (values.dtype.kind in "UST")
        mask = np.asarray(values == unlabeled) if same_kind else None
    return mask if mask is not None and mask.any() else None


def _present(without: np.ndarray | None, weights: np.ndarray | None) -> np.ndarray | None:
    """Which samples belong to a class; None for all of them."""
    if weights is None:
        return None if without is None else ~without
    return weights > 0 if without is None else ~without & (weights > 0)


def _as_weights(sample_weight: Any, n_samples: int) -> np.ndarray | None:
    """One non-negative number per sample."""
    if sample_weight is None:
        return None
    rule = "sample_weight must hold one finite number ≥ 0 per sample"
    on_device = _xp.is_array(sample_weight) and not isinstance(sample_weight, np.ndarray)
    host = _xp.to_host(_xp.detached(sample_weight)) if on_device else sample_weight
    try:
        weights = np.asarray(host, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{rule}; got {type(sample_weight).__name__} ({error})") from None
    if weights.shape != (n_samples,):
        raise ValueError(f"{rule}, {n_samples} in all; got shape {weights.shape}")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ValueError(
            f"{rule}; got {weights[first]} at position {first}. Zero leaves a sample out"
        )
    if not (weights > 0).any():
        raise ValueError(f"{rule}, some of them above 0; got only zeros. Leave it out for ones")
    return weights


def _class_weighted(
    weights: np.ndarray | None, codes: np.ndarray, classes: np.ndarray, class_weight: Any
) -> np.ndarray | None:
    """Weights of the samples times those of their classes; the unlabelled keep theirs."""
    if class_weight is None:
        return weights
    n_classes = classes.shape[0]
    single = np.ones(codes.shape[0]) if weights is None else weights
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(codes, single, minlength=n_classes)[:n_classes]
        factors = totals.sum() / (n_classes * totals)
    elif isinstance(class_weight, dict):
        known = list(classes)
        unknown = [label for label in class_weight if label not in known]
        try:
            factors = np.array([float(class_weight.get(label, 1.0)) for label in known])
        except (TypeError, ValueError):
            factors = np.full(n_classes, np.nan)
        if unknown or not (np.isfinite(factors) & (factors > 0)).all():
            raise ValueError(
                f"class_weight must give labels of y a finite weight > 0; got {class_weight!r}, "
                f"and y has {known[:10]}{' …' * (n_classes > 10)}. Name labels as y does"
            )
    else:
        raise ValueError(
            "class_weight must be None, 'balanced' or a dict of weights by label; "
            f"got {class_weight!r}"
        )
    weighted: np.ndarray = single * np.append(factors, 1.0)[codes]
    return weighted


def _as_unlabeled_weight(value: Any) -> float:
    rule = "unlabeled_weight must be a finite number ≥ 0, what a sample without a label counts"
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise TypeError(f"{rule}; got {value!r}")
    if not (np.isfinite(value) and value >= 0):
        raise ValueError(f"{rule}; got {value!r}")
    return float(value)


def _is_missing(value: Any) -> bool:
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
    if isinstance(n_components, (bool, str)):
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
    if isinstance(value, bool):
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
        seed = operator.index(random_state)
    except TypeError:
        seed = -1
    if seed < 0 or isinstance(random_state, bool):
        raise ValueError(f"random_state must be an integer ≥ 0, such as 0; got {random_state!r}")
    return seed


def find_place(X: Array, backend: str | ModuleType | None, device: Any) -> Place:
    """Where to compute: what the caller named, else where X is."""
    here = _xp.place_of(X)
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
