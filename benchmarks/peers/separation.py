"""SLCE with the criterion "separation", which the paper leaves for the future."""

from __future__ import annotations

from typing import Any

import numpy as np

import slce_xp
from benchmarks.peers.base import Peer


class Separation(Peer):
    """``slce_xp.fit(criterion="separation")``, capped as LDA is: K classes give K − 1 components.

    Parameters
    ----------
    n_components : int
    """

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def fit(self, X: np.ndarray, y: Any) -> Separation:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        k = min(self.n_components, len(labels.classes) - 1)
        model = slce_xp.fit(X, labels.codes, k, criterion="separation")
        self.mean_, self.scale_, self.components_ = model.mean, 1.0, model.components
        return self
