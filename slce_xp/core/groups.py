"""How samples are grouped: class codes, weights and signs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


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

    @property
    def is_supervised(self) -> bool:
        """True if every sample has a label."""
        return self.n_groups == self.n_classes

    @property
    def totals(self) -> np.ndarray:
        """The weight of each group, shape (n_groups,)."""
        return np.bincount(self.codes, self.weights, minlength=self.n_groups).astype(np.float64)

    @property
    def signs(self) -> np.ndarray | None:
        """The sign of each sample's scatter in S_t: 1, or −λ without a label; None for ones."""
        if self.is_supervised:
            return None
        return np.where(self.codes < self.n_classes, 1.0, -self.unlabeled_weight)

    @property
    def scatter_weights(self) -> np.ndarray | None:
        """Sign times weight of each sample; None for ones."""
        signs, weights = self.signs, self.weights
        if signs is None or weights is None:
            return weights if signs is None else signs
        return np.asarray(signs * weights)

    @property
    def unlabeled_weights(self) -> np.ndarray | None:
        """The weight of each sample without a label, zero for the others; None if all have one."""
        if self.is_supervised:
            return None
        others = self.codes == self.n_classes
        return np.asarray(others * (1.0 if self.weights is None else self.weights))
