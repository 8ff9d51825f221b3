"""What the methods share: checked data, standardisation, principal axes, subsamples and folds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from slce_xp import _backend, _parameters
from slce_xp._data import labels as _labels
from slce_xp._data import matrix as _matrix

NEIGHBOURS = 5  # of the classifier that the paper judges every embedding by


class Peer(TransformerMixin, BaseEstimator):
    """A transformer whose fit begins with checked data.

    Linear ones leave `mean_`, `scale_` and `components_`, and need no transform of their own.
    """

    def _start(self, X: Any, y: Any) -> tuple[Any, _labels.Labels]:
        X = as_floats(X)
        n, d = X.shape
        xp, _ = _backend.place_of(X)
        if not bool(xp.all(xp.isfinite(X))):
            raise ValueError("X must be finite; got NaN or infinity. Impute or remove them first")
        labels = _labels.as_labels(y, n)
        _parameters.as_count(self.n_components, "n_components", 1, min(n - 1, d))
        self.classes_ = labels.classes
        self.n_features_in_ = d
        return X, labels

    def transform(self, X: Any) -> Any:
        """Embed samples, shape (n, d), in k dimensions, shape (n, k)."""
        check_is_fitted(self)
        # The mean is taken off in k dimensions: no copy of X in d.
        axes = (self.components_ / self.scale_).T
        return as_floats(X) @ axes - self.mean_ @ axes


def as_floats(X: Any) -> Any:
    """X as a matrix of its own library that can be computed with: pixels are often integers."""
    X = _matrix.as_matrix(X)
    xp, _ = _backend.place_of(X)
    return xp.astype(X, _backend.working_dtype(X), copy=False)


def standardisation(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature; 1 for a constant one, which stays zero."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    constant = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    return mean, np.where(constant, 1.0, deviation)


def one_hot(codes: np.ndarray, n_classes: int) -> np.ndarray:
    return (codes[:, None] == np.arange(n_classes)).astype(np.float64)


def contrasts(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Labels as K − 1 centred numbers, shape (n, K − 1).

    They are the one-hot labels in an orthonormal basis of what these span once centred: their sum
    is constant, and a model of their noise would find that one entry has none.
    """
    Y = one_hot(codes, n_classes) @ scipy.linalg.helmert(n_classes).T
    return Y - Y.mean(axis=0)


def correlations(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """|correlation| of each column of Y with each feature, shape (q, d); 0 for a constant one."""
    Y = Y - Y.mean(axis=0)
    lengths = np.sqrt(X.shape[0]) * X.std(axis=0)
    # Y is centred, X need not be.
    products = np.abs(Y.T @ X) / np.maximum(np.linalg.norm(Y, axis=0), 1e-300)[:, None]
    return products / np.where(lengths > 0, lengths, np.inf)


def principal_axes(X: Any, k: int) -> Any:
    """The k directions of largest variance of centred X, shape (d, k), by its smaller side."""
    xp, _ = _backend.place_of(X)
    n, d = X.shape
    if d <= n:
        return _backend.largest_eigenpairs(X.T @ X, k)[1][:, :k]
    samples = _backend.largest_eigenpairs(X @ X.T, k)[1][:, :k]
    # The columns are orthogonal but for rounding: QR gives them length one.
    return xp.linalg.qr(X.T @ samples)[0]


def in_row_space(X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Coordinates of X that lose nothing, and their axes: X = Z Aᵀ with orthonormal columns A.

    Shapes (n, n) and (d, n) where X is wider than tall; X itself and None where it is not.
    """
    n, d = X.shape
    if d <= n:
        return X, None
    axes, triangle = scipy.linalg.qr(X.T, mode="economic", check_finite=False)
    return np.ascontiguousarray(triangle.T), axes


def by_class(codes: np.ndarray, seed: int) -> np.ndarray:
    """Positions of the samples, class after class, within each in random order."""
    order = np.random.default_rng(seed).permutation(len(codes))
    return order[np.argsort(codes[order], kind="stable")]


def thinned(codes: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Positions of at most `most` samples, each class in its proportion."""
    if len(codes) <= most:
        return np.arange(len(codes))
    even = np.linspace(0, len(codes) - 1, most).round().astype(int)
    return np.sort(by_class(codes, seed)[even])


def folds(codes: np.ndarray, n_folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Positions inside and outside of each fold, classes in proportion, of one sample too."""
    fold = np.empty(len(codes), dtype=int)
    fold[by_class(codes, seed)] = np.arange(len(codes)) % n_folds
    for i in range(n_folds):
        yield np.flatnonzero(fold != i), np.flatnonzero(fold == i)


def as_number(value: Any, name: str, words: str, most: float) -> float:
    rule = f"{name} must be {words} or a number from 0 to {most:g}"
    if isinstance(value, (bool, str)) or not np.isscalar(value):
        raise TypeError(f"{rule}; got {value!r}")
    if not 0.0 <= value <= most:
        raise ValueError(f"{rule}; got {value!r}")
    return float(value)
