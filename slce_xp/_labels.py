"""Class labels and the weights of samples: turned into codes and numbers, or refused.

All of it happens on the host, and nothing here changes what the caller handed in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slce_xp import _xp
from slce_xp._validate import is_missing


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


def as_labels(
    y: Any,
    n_samples: int,
    sample_weight: Any = None,
    class_weight: Any = None,
    unlabeled: Any = None,
    unlabeled_weight: float = 1.0,
    in_part: bool = False,
) -> Labels:
    """Code class labels as integers; any hashable, sortable values will do.

    Labels of a part of the data may be of one class only, or miss some that have a weight.
    """
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
    weights = _as_weights(sample_weight, n_samples, in_part)
    present = _present(without, weights)
    try:
        classes, codes, counts = _unique(values if present is None else values[present])
    except TypeError as error:
        raise TypeError(
            f"y must hold labels of one kind that can be sorted ({error}); "
            "make them all strings or all numbers"
        ) from error
    if not in_part:
        check_class_count(classes, weights is not None)
        _check_not_continuous(classes, len(codes))
    elif isinstance(class_weight, dict):
        class_weight = {k: v for k, v in class_weight.items() if k in list(classes)}
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


def _check_not_continuous(classes: np.ndarray, n_samples: int) -> None:
    """Refuse measurements: each would be a class of its own, and the fit a PCA."""
    if classes.dtype.kind != "f" or not 10 < len(classes) > n_samples / 2:
        return
    if (classes != np.trunc(classes)).any():
        raise ValueError(
            f"y must hold class labels; got a continuous target, {len(classes)} different numbers "
            f"for {n_samples} samples. Bin them into classes first, for example with numpy.digitize"
        )


def check_class_count(classes: np.ndarray, weighted: bool = False) -> None:
    """Refuse fewer than two classes."""
    if classes.shape[0] < 2:
        only = f", all {classes[0]!r}" if classes.shape[0] else ""
        raise ValueError(
            f"y must hold at least two classes{' of positive weight' * weighted}; "
            f"got {classes.shape[0]}{only}. With one class there is nothing to tell apart: use PCA"
        )


def as_classes(classes: Any, found: np.ndarray) -> np.ndarray:
    """All labels that may come, sorted; those that were found must be among them."""
    known = np.unique(_label_values(classes))
    strange = [label for label in found if label not in list(known)]
    if strange:
        raise ValueError(
            f"classes must hold all labels of y; got {list(known)[:10]}, and y has {strange[:10]}. "
            "Name them, too, or leave classes out"
        )
    return known


def _unique(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """np.unique with codes and counts, without sorting all values where a few show all classes."""
    # An odd step: labels often come in turns.
    sample = np.unique(values[:: values.shape[0] // 1024 | 1])
    if sample.shape[0]:
        codes = np.searchsorted(sample, values)
        np.minimum(codes, sample.shape[0] - 1, out=codes)
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
    if _xp.is_dask(y):
        return _label_values(y.compute())
    if _xp.is_array(y):
        return _xp.to_host(_xp.detached(y))
    if hasattr(y, "columns") and hasattr(y, "to_numpy"):  # a frame of one column
        return np.asarray(y.to_numpy())
    if isinstance(y, (list, tuple)):
        # np.asarray(["a", None]) would make strings of everything.
        values = np.empty(len(y), dtype=object)
        values[:] = y
        return values if any(isinstance(v, str) or is_missing(v) for v in y) else np.asarray(y)
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
        return np.fromiter((is_missing(v) or v == "" for v in values), bool, len(values))
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


def _as_weights(sample_weight: Any, n_samples: int, in_part: bool) -> np.ndarray | None:
    """One non-negative number per sample; of a part of the data, all may be zero."""
    if sample_weight is None:
        return None
    rule = "sample_weight must hold one finite number ≥ 0 per sample"
    if _xp.is_dask(sample_weight):
        sample_weight = sample_weight.compute()
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
    if not in_part and not (weights > 0).any():
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
