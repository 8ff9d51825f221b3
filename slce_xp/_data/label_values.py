"""Labels as arrays on the host, in the caller's own values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._data.matrix import check_values, is_missing
from slce_xp._errors import invalid, wrong_type
from slce_xp.core._given import check_not_masked


def label_values(y: Any, name: str = "y") -> np.ndarray:
    """Convert labels in any container to an array; missing ones stay None, NaN or similar."""
    if y is None:
        raise invalid("y", "y must be given: SLCE is supervised; got None. Use PCA without labels")
    check_not_masked(y, name)
    if isinstance(y, np.ndarray):
        # Strings that may be missing compare with others as if they were any of them.
        return y.astype(object) if hasattr(y.dtype, "na_object") else np.asarray(y)
    if _backend.is_dask(y):
        return label_values(y.compute(), name)
    if _backend.is_array(y):
        check_values(y, name)
        return _backend.to_host(_backend.detached(y))
    if hasattr(y, "columns") and hasattr(y, "to_numpy"):  # a frame of one column
        return np.asarray(y.to_numpy())
    if isinstance(y, (list, tuple)):
        return array_of(list(y))
    values = np.asarray(y)
    if values.ndim == 0:
        raise wrong_type(
            name,
            f"{name} must be a vector of labels, one per sample; got {type(y).__name__}. Pass the "
            "column, not its name",
        )
    if values.dtype.kind == "f" and not isinstance(getattr(y, "dtype", None), np.dtype):
        return _exact_values(y, values)
    return values


def _exact_values(y: Any, values: np.ndarray) -> np.ndarray:
    """Return labels that NumPy converts to floats, perhaps because some integers are missing."""
    categories = getattr(y, "cat", y)  # a Series, or the Categorical itself
    if hasattr(categories, "codes") and hasattr(categories, "categories"):
        known = [
            *plain(label_values(categories.categories)),
            None,
        ]  # code −1, missing, takes the last
        return np.asarray(_objects(known)[np.asarray(categories.codes)])
    # pyarrow; polars and pandas; pandas' arrays
    way = next((way for way in ("to_pylist", "to_list", "tolist") if hasattr(y, way)), None)
    labels = [] if way is None else getattr(y, way)()
    return array_of(labels) if any(isinstance(label, int) for label in labels) else values


def array_of(labels: list[Any]) -> np.ndarray:
    """Convert a list of labels to an array: of objects, if NumPy would change any of them."""
    # np.asarray(["a", None]) would convert everything to strings.
    if any(isinstance(label, str) or is_missing(label) for label in labels):
        return _objects(labels)
    values = np.asarray(labels)
    if values.ndim != 1:
        return values
    return _exact_numbers(labels, values)


def _exact_numbers(labels: list[Any], values: np.ndarray) -> np.ndarray:
    """Labels that NumPy made `values` of: objects if it rounded numbers, or took True for 1."""
    if values.dtype.kind in "iufc" and _count_booleans(labels):
        return _objects(_own(labels))
    if values.dtype.kind not in "fcS":
        return values
    own = _own(labels)
    if own and all(type(label) is int for label in own):  # some of them above 2⁶³
        return np.array(own, np.uint64) if min(own) >= 0 else _objects(own)
    return values if list(values.astype(object)) == own else _objects(own)


def plain(labels: np.ndarray) -> list[Any]:
    """Return labels as a list, with numbers and texts as those of Python."""
    return list(labels.astype(object) if labels.dtype.kind in "biufUS" else labels)


def union(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the distinct labels of both, sorted."""
    if a.dtype == b.dtype or not {a.dtype.kind, b.dtype.kind} <= set("biufO"):
        return np.unique(np.concatenate([a, b]))
    both = array_of([*plain(a), *plain(b)])
    _check_not_both(both)
    return np.unique(both)


def positions(labels: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return the position of each label in a sorted array that holds all of them."""
    if labels.dtype != among.dtype and labels.dtype.kind in "biufO":
        labels, among = labels.astype(object), among.astype(object)
    return np.asarray(np.searchsorted(among, labels))


def comparable(values: np.ndarray, y: Any) -> np.ndarray:
    """Return labels, none of them missing, that compare exactly."""
    numbers = (int, float, np.number, np.bool)
    _check_not_both(values)
    if values.dtype != object or not any(isinstance(v, numbers) for v in values):
        return values
    if isinstance(y, np.ndarray):  # of objects: keep them
        return _objects(_own(values))
    narrow = array_of(list(values))  # as if none were missing
    return narrow if narrow.ndim == 1 else values


def unique(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """np.unique with codes and counts, without a sort if a sample has all classes."""
    if values.dtype.kind in "iu" and values.size:
        low, high = int(values.min()), int(values.max())
        if high - low < values.size and max(-low, high) < 2**62:  # counted, not searched
            codes = values.astype(np.int64) - low
            counts = np.bincount(codes)
            present = np.flatnonzero(counts)
            if present.shape[0] < counts.shape[0]:
                codes, counts = (np.cumsum(counts > 0) - 1)[codes], counts[present]
            return (present + low).astype(values.dtype), codes, counts
    # An odd step, because labels often alternate.
    sample = np.unique(values[:: values.shape[0] // 1024 | 1])
    if sample.shape[0]:
        codes = np.searchsorted(sample, values)
        np.minimum(codes, sample.shape[0] - 1, out=codes)
        if (sample[codes] == values).all():
            return sample, codes, np.bincount(codes)
    return np.unique(values, return_inverse=True, return_counts=True)


def unsortable(name: str, error: TypeError) -> TypeError:
    """The error for labels of several kinds."""
    return wrong_type(
        name,
        f"{name} must hold labels of one kind that can be sorted ({error}); "
        "make them all strings or all numbers",
    )


def _count_booleans(labels: Iterable[Any]) -> int:
    return sum(isinstance(label, (bool, np.bool)) for label in labels)


def _check_not_both(labels: np.ndarray) -> None:
    """Raise TypeError for booleans among numbers: True and 1 would be one class."""
    if labels.dtype == object and 0 < _count_booleans(labels) < len(labels):
        raise TypeError("booleans and others, of which True equals 1")


def _own(labels: Iterable[Any]) -> list[Any]:
    """Convert NumPy numbers to Python numbers."""
    numbers = (np.bool, np.number)
    return [label.astype(object) if isinstance(label, numbers) else label for label in labels]


def _objects(labels: list[Any]) -> np.ndarray:
    values = np.empty(len(labels), dtype=object)
    values[:] = labels
    return values
