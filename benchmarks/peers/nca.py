"""Neighbourhood components: Goldberger, Roweis, Hinton & Salakhutdinov (2004)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from benchmarks.peers.base import Peer, standardisation


class NCA(Peer):
    """scikit-learn's NeighborhoodComponentsAnalysis of standardised data.

    Its soft neighbours are those within a distance of about one, whence the standardisation. Time
    and memory are of the order n², so that it is for small data.

    Parameters
    ----------
    n_components : int
    random_state : int
    """

    def __init__(self, n_components: int = 2, *, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any) -> NCA:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        self.mean_, self.scale_ = standardisation(X)
        nca = NeighborhoodComponentsAnalysis(self.n_components, random_state=self.random_state)
        self.components_ = nca.fit((X - self.mean_) / self.scale_, labels.codes).components_
        return self
