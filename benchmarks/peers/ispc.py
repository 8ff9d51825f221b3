"""Iterative supervised principal components: Piironen & Vehtari (2018)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from benchmarks.peers.base import Peer, correlations, one_hot, principal_axes, standardisation

# So many permutations at a time. If none of the first ones reaches the score, no more are drawn: if
# the p-value were uniform, it would be above 0.1 after that in 3 of 10 000 cases.
PERMUTATIONS_AT_ONCE = 40
# A residual feature of so small a standard deviation has nothing but rounding; it began with one.
ROUNDING = 1e-9
# Matrices of at most this size have their first eigenvector found by LAPACK, larger by Lanczos.
DENSE = 60


class ISPC(Peer):
    """Iterative supervised principal components: screening, one component, deflation, again.

    In each round the features are scored by their correlation with a class against the rest. For
    every class and a number of thresholds the first principal component of the features that reach
    the threshold is computed, and the one that correlates most with its class becomes the next
    component. Its scores are then regressed out of all features. Rounds end when the best feature
    correlates no more with a class than it does with permuted labels; components that are still
    wanted are the principal components of what is left. The data are standardised.

    Parameters
    ----------
    n_components : int
    n_thresholds : int
        From the least to the largest score of the features in the window; every number of features
        if there are no more of them than thresholds.
    window : int
        Features of the largest scores that a component may be made of.
    alpha : float
        Level of the permutation test.
    n_permutations : int
        The authors' R package has 500; the p-value has a standard error of 0.02 at 0.1 with 200.
    random_state : int
        Of the permutations.

    Attributes
    ----------
    components_ : numpy.ndarray, shape (k, d)
        Rows apply to standardised data. They are not orthogonal; the scores of the training data
        are uncorrelated.
    directions_ : numpy.ndarray, shape (k, d)
        Unit rows that apply to the data from which components before have been regressed out.
    n_supervised_ : int
        How many components the labels chose.
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_thresholds: int = 10,
        window: int = 500,
        alpha: float = 0.1,
        n_permutations: int = 200,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_thresholds = n_thresholds
        self.window = window
        self.alpha = alpha
        self.n_permutations = n_permutations
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any) -> ISPC:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        self.mean_, self.scale_ = standardisation(X)
        left = (X - self.mean_) / self.scale_
        Y = one_hot(labels.codes, len(labels.classes))
        if Y.shape[1] == 2:  # one class against the other is all there is
            Y = Y[:, :1]
        rng = np.random.default_rng(self.random_state)
        directions, loadings = [], []
        while len(directions) < self.n_components:
            scores = correlations(left, Y)
            if not self._significant(left, Y, scores.max(), rng):
                break
            # Few features: their products serve all classes.
            products = left.T @ left if left.shape[1] <= self.window else None
            found = max(
                (self._best(left, products, Y[:, c], scores[c]) for c in range(Y.shape[1])),
                key=lambda component: component.score,
            )
            loading = found.values @ left / (found.values @ found.values)
            left -= np.outer(found.values, loading)
            left[:, left.std(axis=0) < ROUNDING] = 0.0
            directions.append(found.direction)
            loadings.append(loading)
        self.n_supervised_ = len(directions)
        if len(directions) < self.n_components:
            directions += list(principal_axes(left, self.n_components - len(directions)).T)
        self.directions_ = np.array(directions)
        self.components_ = np.array(
            [_undeflated(v, directions, loadings[:j]) for j, v in enumerate(directions)]
        )
        return self

    def _significant(
        self, X: np.ndarray, Y: np.ndarray, best: float, rng: np.random.Generator
    ) -> bool:
        """Whether permuted labels reach the best score less often than alpha."""
        if best < ROUNDING:
            return False
        Y = (Y - Y.mean(axis=0)) / np.linalg.norm(Y - Y.mean(axis=0), axis=0)
        lengths = np.linalg.norm(X, axis=0)
        unit = X / np.where(lengths > 0, lengths, np.inf)
        reached, most = 0, self.alpha * self.n_permutations
        for done in range(0, self.n_permutations, PERMUTATIONS_AT_ONCE):
            count = min(PERMUTATIONS_AT_ONCE, self.n_permutations - done)
            permuted = np.concatenate([Y[rng.permutation(len(Y))] for _ in range(count)], axis=1)
            scores = np.abs(permuted.T @ unit).max(axis=1).reshape(count, -1).max(axis=1)
            reached += int((scores >= best).sum())
            if reached >= most or not reached:
                return not reached
        return True

    def _best(
        self, X: np.ndarray, products: np.ndarray | None, y: np.ndarray, scores: np.ndarray
    ) -> _Component:
        """Over thresholds, the first component of the features that reach it, for one class."""
        order = np.argsort(-scores, kind="stable")[: self.window]
        order = order[scores[order] > ROUNDING]
        if not len(order):
            return _Component(0.0, np.zeros(X.shape[1]), X[:, 0])
        window, ranked = X[:, order], scores[order]
        if products is not None:
            products = products[np.ix_(order, order)]
        if len(order) <= self.n_thresholds:
            sizes = np.arange(1, len(order) + 1)
        else:
            thresholds = np.linspace(ranked[-1], ranked[0], self.n_thresholds)
            sizes = np.unique((ranked >= thresholds[:, None]).sum(axis=1))
        best, best_size, best_axis, best_values = -1.0, 0, np.empty(0), np.empty(0)
        for size in sizes:
            axis = _first_axis(
                window[:, :size], None if products is None else products[:size, :size]
            )
            values = window[:, :size] @ axis
            score = float(correlations(values[:, None], y[:, None])[0, 0])
            if score > best:
                best, best_size, best_axis, best_values = score, size, axis, values
        direction = np.zeros(X.shape[1])
        direction[order[:best_size]] = best_axis
        return _Component(best, direction, best_values)


class _Component(NamedTuple):
    score: float  # |correlation| with a class
    direction: np.ndarray  # (d,)
    values: np.ndarray  # (n,), of the samples


def _first_axis(X: np.ndarray, products: np.ndarray | None) -> np.ndarray:
    """The direction of largest variance of centred X, shape (d,), of length one.

    From XᵀX, if it is known or the smaller matrix, and from XXᵀ otherwise.
    """
    n, d = X.shape
    if d == 1:
        return np.ones(1)
    if products is None and d <= n:
        products = X.T @ X
    matrix = X @ X.T if products is None else products
    m = len(matrix)
    if m <= DENSE:
        vector = scipy.linalg.eigh(matrix, subset_by_index=(m - 1, m - 1))[1][:, 0]
    else:
        start = np.random.default_rng(0).standard_normal(m)
        vector = scipy.sparse.linalg.eigsh(matrix, 1, which="LA", v0=start, tol=1e-6)[1][:, 0]
    axis = X.T @ vector if products is None else vector
    return axis / np.linalg.norm(axis)


def _undeflated(
    direction: np.ndarray, directions: list[np.ndarray], loadings: list[np.ndarray]
) -> np.ndarray:
    """The direction that gives the same scores from data that nothing was regressed out of."""
    for before, loading in reversed(list(zip(directions, loadings, strict=False))):
        direction = direction - (loading @ direction) * before
    return direction
