"""Weights of samples and of classes, as numbers on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._data.label_values import plain
from slce_xp._data.matrix import check_values
from slce_xp._errors import invalid, shown, warn, wrong_type
from slce_xp.core._given import check_not_masked


def as_weights(sample_weight: Any, n_samples: int, in_part: bool) -> np.ndarray | None:
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


def class_weighted(
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
    else:
        factors = class_odds(class_weight, classes)
    weighted: np.ndarray = single * np.append(factors, 1.0)[codes]
    weighted[(weighted == 0) & (single > 0)] = np.finfo(np.float64).smallest_subnormal
    if not np.isfinite(weighted).all():
        raise invalid(
            "class_weight",
            f"class_weight times sample_weight must be finite; got class_weight={class_weight!r}. "
            "Use smaller weights: only their ratios change the components",
        )
    return weighted


def class_odds(class_weight: Any, classes: np.ndarray) -> np.ndarray | None:
    """Return the weight of each class, shape (K,); None without a dict of them."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return None
    if not isinstance(class_weight, dict):
        raise invalid(
            "class_weight",
            "class_weight must be None, 'balanced' or a dict of weights by label; "
            f"got {class_weight!r}",
        )
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
    return np.array([values.get(label, 1.0) for label in plain(classes)])


def _unknown_keys(class_weight: Any, classes: np.ndarray) -> list[Any]:
    """Return the labels of a dict of class weights that are not among the classes."""
    known = plain(classes)
    labels = class_weight if isinstance(class_weight, dict) else ()
    return [label for label in labels if label not in known]


def check_class_weight(class_weight: Any, classes: np.ndarray) -> None:
    """Raise ValueError for weights of labels that y does not have."""
    unknown = _unknown_keys(class_weight, classes)
    if unknown:
        raise invalid(
            "class_weight",
            f"class_weight must have labels of y as keys; got {shown(unknown[:10])}, and y has "
            f"{shown(plain(classes)[:10])}{' …' * (len(classes) > 10)}. Use the labels "
            "of y as keys",
        )


def warn_if_unknown(class_weight: Any, classes: np.ndarray) -> None:
    """Warn of weights of labels that no batch had: they may be misspelt, or still come."""
    unknown = _unknown_keys(class_weight, classes)
    if unknown:
        warn(
            f"class_weight has keys that are labels of no batch so far: {shown(unknown[:10])}, and "
            f"y had {shown(plain(classes)[:10])}{' …' * (len(classes) > 10)}. Use the labels "
            "of y as keys",
        )
