"""Supervised principal components: Bair, Hastie, Paul & Tibshirani (2006)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.peers.base import (
    NEIGHBOURS,
    Peer,
    as_number,
    correlations,
    folds,
    one_hot,
    principal_axes,
    thinned,
)


class BairSPCA(Peer):
    """Supervised principal components of Bair et al.: PCA on the features that tell classes.

    A feature's score is the size of its standardised regression coefficient on the label, which
    is its correlation; with several classes, the largest of those with each class against the
    rest. PCA is done on the features that score at least a threshold. With "cv" the threshold is
    the one whose embedding a 5-nearest-neighbour classifier predicts held-out labels best from;
    of equals, the one that keeps most features. The SLCE paper says neither how it scored several
    classes nor what its cross-validation measured, and both matter.

    Parameters
    ----------
    n_components : int
    threshold : "cv" or float
        From 0, which keeps all features and is PCA, to 1. At least k features are kept.
    n_thresholds : int
        Candidates of the cross-validation: they keep numbers of features in a geometric row,
        from k to d.
    n_folds : int
    max_samples : int
        The threshold is chosen on a stratified subsample of at most so many.
    random_state : int

    Attributes
    ----------
    threshold_ : float
    scores_ : numpy.ndarray, shape (d,)
    kept_ : numpy.ndarray of bool, shape (d,)
    """

    def __init__(
        self,
        n_components: int = 2,
        threshold: float | str = "cv",
        *,
        n_thresholds: int = 12,
        n_folds: int = 5,
        max_samples: int = 4000,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.threshold = threshold
        self.n_thresholds = n_thresholds
        self.n_folds = n_folds
        self.max_samples = max_samples
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any) -> BairSPCA:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        codes, k = labels.codes, self.n_components
        self.scores_ = _label_scores(X, codes)
        if self.threshold == "cv":
            self.threshold_ = self._cross_validated(X, codes)
        else:
            self.threshold_ = as_number(self.threshold, "threshold", "'cv'", 1.0)
        self.kept_ = _keep(self.scores_, self.threshold_, k)
        self.mean_ = X.mean(axis=0)
        self.scale_ = 1.0
        self.components_ = np.zeros((k, X.shape[1]))
        kept = X[:, self.kept_] - self.mean_[self.kept_]
        self.components_[:, self.kept_] = principal_axes(kept, k).T
        return self

    def _cross_validated(self, X: np.ndarray, codes: np.ndarray) -> float:
        d = X.shape[1]
        counts = np.geomspace(d, self.n_components, self.n_thresholds).round().astype(int)
        thresholds = np.sort(self.scores_)[::-1][np.unique(counts)[::-1] - 1]
        rows = thinned(codes, self.max_samples, self.random_state)
        correct = np.zeros(len(thresholds))
        for inside, outside in folds(codes[rows], self.n_folds, self.random_state):
            inside, outside = rows[inside], rows[outside]
            scores = _label_scores(X[inside], codes[inside])
            centred, mean = X[inside] - X[inside].mean(axis=0), X[inside].mean(axis=0)
            for i, threshold in enumerate(thresholds):
                kept = _keep(scores, threshold, self.n_components)
                axes = principal_axes(centred[:, kept], self.n_components)
                classifier = KNeighborsClassifier(NEIGHBOURS).fit(
                    centred[:, kept] @ axes, codes[inside]
                )
                found = classifier.predict((X[outside][:, kept] - mean[kept]) @ axes)
                correct[i] += (found == codes[outside]).sum()
        return float(thresholds[np.argmax(correct)])


def _label_scores(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Largest |correlation| of each feature with a class against the rest, shape (d,)."""
    return correlations(X, one_hot(codes, codes.max() + 1)).max(axis=0)


def _keep(scores: np.ndarray, threshold: float, least: int) -> np.ndarray:
    """Features that reach the threshold; the best `least` where fewer do."""
    return scores >= min(threshold, np.partition(scores, -least)[-least])
