"""Conversion of class labels to codes, and validation of sample weights.

All of it happens on the host, and nothing here changes what the caller passed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._data import marks
from slce_xp._data.matrix import check_values, is_missing
from slce_xp._errors import invalid, wrong_type
from slce_xp._parameters import as_unlabeled_weight
from slce_xp.core.given import check_not_masked
from slce_xp.core.groups import Groups, in_units


class Labels(NamedTuple):
    """Class labels as codes, and the weights of samples.

    Attributes
    ----------
    codes : numpy.ndarray of int64, shape (n,)
        The position in `classes` of each sample's label; K for samples of no class.
    classes : numpy.ndarray, shape (K,)
        The distinct labels, sorted, in the caller's own values.
    counts : numpy.ndarray of int64, shape (K,)
        Samples of each class, without those of weight zero.
    weights : numpy.ndarray, shape (n,), or None
        In units of `weight_unit`, so that the largest is between 1 and 4; None: all ones.
    n_unlabeled : int
        Samples without a label, without those of weight zero.
    unlabeled_weight : float
        λ, the weight of their own reconstruction in the loss.
    weight_unit : float
        A power of four, whose root is a power of two: scaling by it does not round.
    """

    codes: np.ndarray
    classes: np.ndarray
    counts: np.ndarray
    weights: np.ndarray | None = None
    n_unlabeled: int = 0
    unlabeled_weight: float = 1.0
    weight_unit: float = 1.0

    def counted(self) -> tuple[Groups, np.ndarray | None]:
        """Return the groups of samples of positive weight, and their positions; None for all.

        A weight of zero drops a sample, whatever its values.
        """
        codes, weights, kept = self.codes, self.weights, None
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            codes, weights = codes[kept], weights[kept]
        n_classes = len(self.classes)
        n_groups = n_classes + (self.n_unlabeled > 0)
        groups = Groups(
            codes, n_classes, n_groups, weights, self.unlabeled_weight, self.weight_unit
        )
        return groups, kept


def as_labels(
    y: Any,
    n_samples: int,
    sample_weight: Any = None,
    class_weight: Any = None,
    unlabeled: Any = None,
    unlabeled_weight: float = 1.0,
    in_part: bool = False,
) -> Labels:
    """Encode class labels, which may be any hashable, sortable values, as integers.

    Labels of a part of the data may be of one class only, or lack classes that have a weight.
    """
    values = label_values(y)
    if values.ndim != 1:
        raise invalid(
            "y",
            f"y must be one-dimensional, one label per sample; got shape {values.shape}. "
            "Flatten a column with y.ravel(), turn one-hot rows into labels with y.argmax(axis=1)",
        )
    if values.shape[0] != n_samples:
        raise invalid(
            "y",
            f"X and y must have the same number of samples; "
            f"got {n_samples} rows in X and {values.shape[0]} labels in y. Pass one label per row",
        )
    without = marks.without_label(values, unlabeled)
    if without is None and not in_part:
        marks.warn_if_unmarked(unlabeled)
    _check_no_missing(values, without)
    weights, unit = in_units(_as_weights(sample_weight, n_samples, in_part))
    present, n_unlabeled = None, 0
    if without is not None or weights is not None:
        positive: Any = np.True_ if weights is None else weights > 0
        present = positive if without is None else positive & ~without
        n_unlabeled = 0 if without is None else int((positive & without).sum())
    try:
        there = _comparable(values if present is None else values[present], y)
        classes, codes, counts = _unique(there)
    except TypeError as error:
        raise wrong_type(
            "y",
            f"y must hold labels of one kind that can be sorted ({error}); "
            "make them all strings or all numbers",
        ) from error
    if not in_part:
        check_class_count(classes, weights is not None)
        _check_not_continuous(classes, len(codes))
        check_class_weight(class_weight, classes)
    if present is not None:
        everyone = np.full(n_samples, classes.shape[0], dtype=np.int64)
        everyone[present] = codes
        codes = everyone
    weights, class_unit = in_units(_class_weighted(weights, codes, classes, class_weight))
    return Labels(
        codes.astype(np.int64, copy=False),
        classes,
        counts.astype(np.int64, copy=False),
        weights,
        n_unlabeled,
        as_unlabeled_weight(unlabeled_weight),
        unit * class_unit,
    )


def _check_not_continuous(classes: np.ndarray, n_samples: int) -> None:
    """Raise ValueError for continuous targets: each would be a class, and the fit a PCA."""
    if classes.dtype.kind != "f" or not 10 < len(classes) > n_samples / 2:
        return
    if (classes != np.trunc(classes)).any():
        raise invalid(
            "y",
            f"y must hold class labels; got a continuous target, {len(classes)} different numbers "
            f"for {n_samples} samples. Bin them into classes first, for example with "
            "numpy.digitize",
        )


def check_class_count(classes: np.ndarray, weighted: bool = False) -> None:
    """Raise ValueError for fewer than two classes."""
    if classes.shape[0] < 2:
        only = f", all {classes[0]!r}" if classes.shape[0] else ""
        raise invalid(
            "y",
            f"y must hold at least two classes{' of positive weight' * weighted}; "
            f"got {classes.shape[0]}{only}. With one class, use PCA",
        )


def as_classes(classes: Any, found: np.ndarray) -> np.ndarray:
    """Return all expected labels, sorted; those found must be among them."""
    known = np.unique(_comparable(label_values(classes), classes))
    listed = plain(known)
    strange = [label for label in plain(found) if label not in listed]
    if strange:
        raise invalid(
            "classes",
            f"classes must hold all labels of y; got {listed[:10]}, and y has {strange[:10]}. "
            "Add them, or leave classes out",
        )
    return known


# ---------------------------------------------------------------- numbers of several kinds

# NumPy compares int64, uint64 and float64 as float64, which merges integers above 2⁵³. Labels of
# different kinds are compared as Python numbers, which is exact.


def plain(labels: np.ndarray) -> list[Any]:
    """Return labels as a list, with numbers as Python numbers."""
    return list(labels.astype(object) if labels.dtype.kind in "biuf" else labels)


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


def array_of(labels: list[Any]) -> np.ndarray:
    """Convert a list of labels to an array: of objects, if NumPy would change any of them."""
    # np.asarray(["a", None]) would convert everything to strings.
    if any(isinstance(label, str) or is_missing(label) for label in labels):
        return _objects(labels)
    values = np.asarray(labels)
    if values.ndim == 1 and values.dtype.kind in "iufc" and _count_booleans(labels):
        return _objects(_own(labels))
    if values.ndim != 1 or values.dtype.kind not in "fcS":
        return values
    own = _own(labels)
    if own and all(type(label) is int for label in own):  # some of them above 2⁶³
        return np.array(own, np.uint64) if min(own) >= 0 else _objects(own)
    return values if list(values.astype(object)) == own else _objects(own)


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


def _comparable(values: np.ndarray, y: Any) -> np.ndarray:
    """Return labels, none of them missing, that compare exactly."""
    numbers = (int, float, np.number, np.bool)
    _check_not_both(values)
    if values.dtype != object or not any(isinstance(v, numbers) for v in values):
        return values
    if isinstance(y, np.ndarray):  # of objects: keep them
        return _objects(_own(values))
    narrow = array_of(list(values))  # as if none were missing
    return narrow if narrow.ndim == 1 else values


def _unique(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def label_values(y: Any) -> np.ndarray:
    """Convert labels in any container to an array; missing ones stay None, NaN or similar."""
    if y is None:
        raise invalid("y", "y must be given: SLCE is supervised; got None. Use PCA without labels")
    check_not_masked(y, "y")
    if isinstance(y, np.ndarray):
        # Strings that may be missing compare with others as if they were any of them.
        return y.astype(object) if hasattr(y.dtype, "na_object") else np.asarray(y)
    if _backend.is_dask(y):
        return label_values(y.compute())
    if _backend.is_array(y):
        check_values(y, "y")
        return _backend.to_host(_backend.detached(y))
    if hasattr(y, "columns") and hasattr(y, "to_numpy"):  # a frame of one column
        return np.asarray(y.to_numpy())
    if isinstance(y, (list, tuple)):
        return array_of(list(y))
    values = np.asarray(y)
    if values.ndim == 0:
        raise wrong_type("y", f"y must be a vector of labels; got {type(y).__name__}")
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


def _check_no_missing(values: np.ndarray, without: np.ndarray | None) -> None:
    missing = marks.missing(values)
    if missing is not None and without is not None:
        missing = missing & ~without
    if missing is not None and missing.any():
        first = int(np.argmax(missing))
        raise invalid(
            "y",
            f"y must have a label for every sample; got {values[first]!r} at position {first}. "
            "Drop those samples, label them, or, in a fit, use them without a label: "
            "unlabeled='missing'",
        )


def _as_weights(sample_weight: Any, n_samples: int, in_part: bool) -> np.ndarray | None:
    """Return one number ≥ 0 per sample; in a part of the data, all may be zero."""
    if sample_weight is None:
        return None
    rule = "sample_weight must hold one finite number ≥ 0 per sample"
    if _backend.is_dask(sample_weight):
        sample_weight = sample_weight.compute()
    check_not_masked(sample_weight, "sample_weight")
    check_values(sample_weight, "sample_weight")
    on_device = _backend.is_array(sample_weight) and not isinstance(sample_weight, np.ndarray)
    host = _backend.to_host(_backend.detached(sample_weight)) if on_device else sample_weight
    try:
        found = np.asarray(host)
        if found.dtype.kind not in "biufO":  # NumPy would make numbers of dates and texts
            raise TypeError(f"dtype {found.dtype}")
        weights = found.astype(np.float64)
    except (TypeError, ValueError) as error:
        got = f"{type(sample_weight).__name__} ({error})"
        raise wrong_type("sample_weight", f"{rule}; got {got}") from None
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    problem = ""
    if weights.shape != (n_samples,):
        problem = f", {n_samples} in all; got shape {weights.shape}"
    elif wrong.any():
        first = int(np.argmax(wrong))
        problem = f"; got {weights[first]} at position {first}. Zero leaves a sample out"
    elif not in_part and not weights.any():
        problem = ", some of them above 0; got only zeros. Leave it out for ones"
    if problem:
        raise invalid("sample_weight", rule + problem)
    return weights


def _class_weighted(
    weights: np.ndarray | None, codes: np.ndarray, classes: np.ndarray, class_weight: Any
) -> np.ndarray | None:
    """Return sample weights times class weights; samples without a label keep theirs."""
    if class_weight is None:
        return weights
    n_classes = classes.shape[0]
    single = np.ones(codes.shape[0]) if weights is None else weights
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(codes, single, minlength=n_classes)[:n_classes]
        factors = totals.sum() / (n_classes * totals)
    elif isinstance(class_weight, dict):
        try:
            values = {label: float(value) for label, value in class_weight.items()}
            is_valid = all(0.0 < value < np.inf for value in values.values())
        except (TypeError, ValueError):
            is_valid = False
        if not is_valid:
            raise invalid(
                "class_weight",
                f"class_weight must give labels of y a finite weight > 0; got {class_weight!r}",
            )
        factors = np.array([values.get(label, 1.0) for label in plain(classes)])
    else:
        raise invalid(
            "class_weight",
            "class_weight must be None, 'balanced' or a dict of weights by label; "
            f"got {class_weight!r}",
        )
    weighted: np.ndarray = single * np.append(factors, 1.0)[codes]
    weighted[(weighted == 0) & (single > 0)] = np.finfo(np.float64).smallest_subnormal
    if not np.isfinite(weighted).all():
        raise invalid(
            "class_weight",
            f"class_weight times sample_weight must be finite; got class_weight={class_weight!r}. "
            "Use smaller weights: only their ratios change the components",
        )
    return weighted


def unknown_keys(class_weight: Any, classes: np.ndarray) -> list[Any]:
    """Return the labels of a dict of class weights that are not among the classes."""
    known = plain(classes)
    labels = class_weight if isinstance(class_weight, dict) else ()
    return [label for label in labels if label not in known]


def check_class_weight(class_weight: Any, classes: np.ndarray) -> None:
    """Raise ValueError for weights of labels that y does not have."""
    unknown = unknown_keys(class_weight, classes)
    if unknown:
        raise invalid(
            "class_weight",
            f"class_weight must have labels of y as keys; got {unknown[:10]}, and y has "
            f"{plain(classes)[:10]}{' …' * (len(classes) > 10)}. Use the labels of y as keys",
        )


def warn_if_unknown(class_weight: Any, classes: np.ndarray) -> None:
    """Warn of weights of labels that no batch had: they may be misspelt, or still come."""
    unknown = unknown_keys(class_weight, classes)
    if unknown:
        warnings.warn(
            f"class_weight has keys that are labels of no batch so far: {unknown[:10]}, and y had "
            f"{plain(classes)[:10]}{' …' * (len(classes) > 10)}. Use the labels of y as keys",
            stacklevel=3,
        )
