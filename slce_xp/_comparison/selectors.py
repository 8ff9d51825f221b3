"""Feature selections that are compared: those of feature paths and of the analysis of variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from slce_xp._comparison.folds import Split, cross_validate
from slce_xp._comparison.methods import METHODS, Columns, Method, Sizes, features
from slce_xp._comparison.table import Comparison, summarised
from slce_xp._selection import feature_path


def anova_order(X: Any, y: np.ndarray) -> np.ndarray:
    """Return all features by descending F of the analysis of variance, shape (d,)."""
    from sklearn.feature_selection import f_classif

    values, _ = f_classif(X, y)
    return np.argsort(-np.nan_to_num(values, nan=-1.0), kind="stable")  # constants last


def _anova(X: Any, y: np.ndarray, n_features: int, seed: int) -> Columns:
    return Columns(anova_order(X, y)[:n_features])


def _slce(X: Any, y: np.ndarray, n_features: int, seed: int) -> Columns:
    path = feature_path(X, y, n_features=n_features)
    return Columns(path.ranked(min(n_features, max(map(len, path.supports)))))


def _of_a_lasso(sizes: Sizes) -> tuple[int, str]:
    """A lasso without a ridge has no more coefficients than centred targets."""
    most = (sizes.n - 1) * (sizes.n_classes - 1)
    return min(sizes.d, most), "as many as a lasso of so few samples can have"


SELECTORS = {
    method.name: method
    for method in (
        Method("SLCE selection", _slce, _of_a_lasso, is_nested=False, unit="feature"),
        Method("ANOVA", _anova, features, unit="feature"),
        METHODS["all"],
    )
}


def compare_selections(
    X: Any, y: np.ndarray, splits: list[Split], counts: tuple[int, ...], **options: Any
) -> Comparison:
    """Cross-validate classifiers on selected features, with the selection inside the folds.

    Parameters
    ----------
    X : numpy.ndarray or matrix of compressed rows, shape (n, d)
    y : numpy.ndarray of int, shape (n,)
    splits : sequence of (train, test)
    counts : tuple of int
        Numbers of features.
    **options
        As for `cross_validate`.
    """
    outcomes = cross_validate(X, y, splits, SELECTORS, counts, **options)
    return summarised(
        outcomes, X, y, np.unique(y), splits, ", features selected in each fold", "features"
    )
