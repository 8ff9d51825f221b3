"""Fisher's discriminants, plain and shrunk, by scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.validation import check_is_fitted

from benchmarks.peers.base import Peer


class LDA(Peer):
    """Fisher's discriminants: scikit-learn's LinearDiscriminantAnalysis, capped.

    There are only number of classes − 1 discriminants. Asked for more, this gives those there
    are, as the paper does ("the LDA classification occurs in 1-dimensional space").

    Parameters
    ----------
    n_components : int
    shrinkage : None or "auto"
        "auto" shrinks covariances by Ledoit and Wolf's formula, with the solver "eigen", which
        takes time of the order d³.
    """

    def __init__(self, n_components: int = 2, shrinkage: str | None = None) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage

    def fit(self, X: np.ndarray, y: Any) -> LDA:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        k = min(self.n_components, len(labels.classes) - 1)
        solver = "svd" if self.shrinkage is None else "eigen"
        self.lda_ = LinearDiscriminantAnalysis(solver, self.shrinkage, n_components=k)
        self.lda_.fit(X, labels.codes)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Embed samples, shape (n, d), in at most k dimensions."""
        check_is_fitted(self)
        return self.lda_.transform(X)
