"""Conversion of class labels to codes.

All of it happens on the host, and nothing here changes what the caller passed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slce_xp._data import marks
from slce_xp._data.label_values import comparable, label_values, plain, unique, unsortable
from slce_xp._data.sample_weights import (
    as_weights,
    check_class_weight,
    class_odds,
    class_weighted,
)
from slce_xp._errors import invalid, shown
from slce_xp._parameters import as_unlabeled_weight
from slce_xp.core._batches import Batches
from slce_xp.core._groups import Groups, in_units


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
    odds : numpy.ndarray, shape (K,), or None
        The weights that a dict gives the classes; None: equal ones.
    """

    codes: np.ndarray
    classes: np.ndarray
    counts: np.ndarray
    weights: np.ndarray | None = None
    n_unlabeled: int = 0
    unlabeled_weight: float = 1.0
    weight_unit: float = 1.0
    odds: np.ndarray | None = None

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
    _check_shape(values, n_samples)
    without = None if unlabeled is None else marks.without_label(values, unlabeled)
    if without is None and unlabeled is not None and not in_part:
        marks.warn_if_unmarked(unlabeled)
    _check_no_missing(values, without)
    weights, unit = None, 1.0
    if sample_weight is not None:
        weights, unit = in_units(as_weights(sample_weight, n_samples, in_part))
    present, n_unlabeled = _present(without, weights)
    try:
        there = comparable(values if present is None else values[present], y)
        classes, codes, counts = unique(there)
    except TypeError as error:
        raise unsortable("y", error) from error
    if not in_part:
        check_class_count(classes, weights is not None)
        _check_not_continuous(classes, len(codes))
    if present is not None:
        everyone = np.full(n_samples, classes.shape[0], dtype=np.int64)
        everyone[present] = codes
        codes = everyone
    if class_weight is not None:
        if not in_part:
            check_class_weight(class_weight, classes)
        weighted = class_weighted(weights, codes, classes, class_weight)
        weights, class_unit = in_units(weighted)
        unit *= class_unit
    return Labels(
        codes.astype(np.int64, copy=False),
        classes,
        counts.astype(np.int64, copy=False),
        weights,
        n_unlabeled,
        as_unlabeled_weight(unlabeled_weight),
        unit,
        class_odds(class_weight, classes),
    )


class BatchCodes(NamedTuple):
    """The batch of each sample, shape (n,), as positions in the distinct labels, shape (B,)."""

    codes: np.ndarray
    labels: np.ndarray


def as_batch(batch: Any, n_samples: int) -> BatchCodes:
    """Encode what each sample has in common with others of its batch: labels of any kind."""
    values = np.asarray(label_values(batch, "batch"))
    if values.shape != (n_samples,):
        raise invalid(
            "batch",
            f"batch must have one label for each of {n_samples} samples; got shape {values.shape}. "
            "Pass the column that names the batch",
        )
    missing = marks.missing(values)
    if missing is not None and missing.any():
        raise invalid(
            "batch",
            f"batch must have a label for every sample; got {values[missing][0]!r} at position "
            f"{int(np.argmax(missing))}. Give such samples a batch of their own, or drop them",
        )
    try:
        labels, codes, _ = unique(comparable(values, batch))
    except TypeError as error:
        raise unsortable("batch", error) from error
    return BatchCodes(codes.astype(np.int64, copy=False), labels)


def check_batches(found: Batches, batches: np.ndarray, classes: np.ndarray) -> None:
    """Raise ValueError unless effects of classes and of batches can be distinguished."""
    with_first = found.joined
    if all(mask.all() for mask in with_first):
        return
    sides = []
    for chosen in (with_first, tuple(~mask for mask in with_first)):
        parts = [labels[mask][:10] for labels, mask in zip((classes, batches), chosen, strict=True)]
        some, others = (", ".join(map(str, part)) for part in parts)
        sides.append(f"classes {some} are in batches {others} only")
    raise invalid(
        "batch",
        "batch must be distinguishable from the classes: batches need classes in common; "
        f"{', and '.join(sides)}, so that a difference between these may be one or the other. "
        "Leave batch out, or leave out these batches",
    )


def _check_shape(values: np.ndarray, n_samples: int) -> None:
    """Raise ValueError unless there is one label for each sample."""
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


def _present(
    without: np.ndarray | None, weights: np.ndarray | None
) -> tuple[np.ndarray | None, int]:
    """A mask of samples with a label and a positive weight, None for all; and the unlabelled."""
    if without is None:
        return (None if weights is None else weights > 0), 0
    positive = np.ones(len(without), dtype=bool) if weights is None else weights > 0
    return positive & ~without, int((positive & without).sum())


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
        only = f", all {shown(classes[0])}" if classes.shape[0] else ""
        raise invalid(
            "y",
            f"y must hold at least two classes{' of positive weight' * weighted}; "
            f"got {classes.shape[0]}{only}. With one class, use PCA",
        )


def as_classes(classes: Any, found: np.ndarray) -> np.ndarray:
    """Return all expected labels, sorted; those found must be among them."""
    known = np.unique(comparable(label_values(classes), classes))
    listed = plain(known)
    strange = [label for label in plain(found) if label not in listed]
    if strange:
        raise invalid(
            "classes",
            f"classes must hold all labels of y; got {shown(listed[:10])}, and y has "
            f"{shown(strange[:10])}. Add them, or leave classes out",
        )
    return known


# ---------------------------------------------------------------- numbers of several kinds

# NumPy compares int64, uint64 and float64 as float64, which merges integers above 2⁵³. Labels of
# different kinds are compared as Python numbers, which is exact.


def _check_no_missing(values: np.ndarray, without: np.ndarray | None) -> None:
    if values.dtype.kind in "biu":
        return
    missing = marks.missing(values)
    if missing is not None and without is not None:
        missing = missing & ~without
    if missing is not None and missing.any():
        first = int(np.argmax(missing))
        raise invalid(
            "y",
            f"y must have a label for every sample; got {shown(values[first])} at position "
            f"{first}. Drop those samples, label them, or, in a fit, use them without a label: "
            "unlabeled='missing'",
        )
