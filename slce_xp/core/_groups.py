"""How samples are grouped: class codes, weights and signs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._errors import invalid
from . import _given


class Groups(NamedTuple):
    """The group of each sample: its class, or the samples without a label.

    Attributes
    ----------
    codes : numpy.ndarray of int, shape (n,)
        0 to K − 1 for the classes, K for samples without a label.
    n_classes : int
        K.
    n_groups : int
        K, or K + 1 if some samples have no label.
    weights : numpy.ndarray, shape (n,), or None
        Positive, in multiples of `weight_unit`. None stands for ones.
    unlabeled_weight : float
        λ, the weight of the unlabelled samples' own reconstruction in the loss.
    weight_unit : float
        A power of four.
    """

    codes: np.ndarray
    n_classes: int
    n_groups: int
    weights: np.ndarray | None = None
    unlabeled_weight: float = 1.0
    weight_unit: float = 1.0

    @classmethod
    def of(
        cls,
        codes: np.ndarray,
        n_classes: int,
        weights: Any = None,
        unlabeled_weight: float = 1.0,
        *,
        may_be_empty: bool = False,
    ) -> Groups:
        """Groups of codes from 0 to K, with weights in units."""
        counts = np.bincount(codes, minlength=n_classes)
        if (counts[:n_classes] == 0).any() and not may_be_empty:
            raise invalid(
                "codes",
                f"codes must have samples of each of the {n_classes} classes; got counts "
                f"{counts[:n_classes]}. Number only classes that have samples",
            )
        weights = _given.as_weights(weights, len(codes))
        if weights is not None and not (weights > 0).all():
            raise invalid(
                "weights",
                f"weights must be positive; got {weights.min()}. Leave out rows with a weight of "
                "zero",
            )
        weights, unit = in_units(weights)
        n_groups = n_classes + bool(counts[n_classes:].sum())
        return cls(codes, n_classes, n_groups, weights, unlabeled_weight, unit)

    @property
    def is_supervised(self) -> bool:
        """True if every sample has a label."""
        return self.n_groups == self.n_classes

    @property
    def totals(self) -> np.ndarray:
        """The weight of each group, shape (n_groups,)."""
        return np.bincount(self.codes, self.weights, minlength=self.n_groups).astype(np.float64)

    @property
    def shares(self) -> np.ndarray:
        """The weight of each sample over that of all, shape (n,)."""
        n = len(self.codes)
        return np.full(n, 1.0 / n) if self.weights is None else self.weights / self.weights.sum()

    @property
    def root(self) -> np.ndarray | None:
        """√(w·|s|) of each sample, with s = 1, or −λ without a label; None for ones."""
        if self.is_supervised:
            return None if self.weights is None else np.sqrt(self.weights)
        factor = np.where(self.codes < self.n_classes, 1.0, math.sqrt(self.unlabeled_weight))
        return factor if self.weights is None else np.asarray(factor * np.sqrt(self.weights))

    @property
    def sign(self) -> np.ndarray | None:
        """1, or −1 for a sample without a label; None for ones."""
        return None if self.is_supervised else np.where(self.codes < self.n_classes, 1.0, -1.0)


def in_units(weights: np.ndarray | None) -> tuple[np.ndarray | None, float]:
    """Weights divided by a power of four near the largest of them, and that power."""
    if weights is None or not weights.any():
        return weights, 1.0
    exponent = (math.frexp(float(weights.max()))[1] - 1) // 2 * 2
    if exponent == 0:
        return weights, 1.0
    scaled = np.ldexp(weights, -exponent)
    # What vanishes must stay above zero, to be refused for it.
    scaled[(scaled == 0) & (weights > 0)] = np.finfo(np.float64).smallest_subnormal
    return scaled, math.ldexp(1.0, exponent)
