"""Feature selections that are compared: those of feature paths and of the analysis of variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from slce_xp._comparison.folds import Split, cross_validate
from slce_xp._comparison.methods import METHODS, Method, Sizes, Task
from slce_xp._comparison.table import Comparison, make_confusions, make_scores
from slce_xp._selection import feature_path


class _Columns:
    """The selected features."""

    def __init__(self, chosen: np.ndarray) -> None:
        self._chosen = chosen

    def transform(self, X: Any) -> Any:
        """Return these columns of X, the most important one first."""
        return X[:, self._chosen]


def anova_order(X: Any, y: np.ndarray) -> np.ndarray:
    """Return all features by descending F of the analysis of variance, shape (d,)."""
    from sklearn.feature_selection import f_classif

    values, _ = f_classif(X, y)
    return np.argsort(-np.nan_to_num(values, nan=-1.0), kind="stable")  # constants last


def _anova(X: Any, y: np.ndarray, task: Task) -> _Columns:
    return _Columns(anova_order(X, y)[: task.n_components])


def _slce(X: Any, y: np.ndarray, task: Task) -> _Columns:
    path = feature_path(X, y, n_features=task.n_components)
    return _Columns(path.ranked(min(task.n_components, max(map(len, path.supports)))))


def _features(sizes: Sizes) -> tuple[int, str]:
    return sizes.d, "the number of features"


def _of_a_lasso(sizes: Sizes) -> tuple[int, str]:
    """A lasso without a ridge has no more coefficients than centred targets."""
    most = (sizes.n - 1) * (sizes.n_classes - 1)
    return min(sizes.d, most), "as many as a lasso of so few samples can have"


def _no_limit(sizes: Sizes, k: int) -> float:
    return 0.0


SELECTORS = {
    method.name: method
    for method in (
        Method("SLCE selection", _slce, _of_a_lasso, _no_limit, is_nested=False, unit="feature"),
        Method("ANOVA", _anova, _features, _no_limit, unit="feature"),
        METHODS["all"],
    )
}


def compare_selections(
    X: Any,
    y: np.ndarray,
    splits: list[Split],
    counts: tuple[int, ...],
    *,
    scale: bool = False,
    impute: bool = False,
    report: Any = lambda fold, name: None,
) -> Comparison:
    """Cross-validate classifiers on selected features, with the selection inside the folds.

    Parameters
    ----------
    X : numpy.ndarray or matrix of compressed rows, shape (n, d)
    y : numpy.ndarray of int, shape (n,)
    splits, scale, impute, report
        As for `cross_validate`.
    counts : tuple of int
        Numbers of features.
    """
    outcomes = cross_validate(
        X, y, splits, SELECTORS, counts, scale=scale, impute=impute, report=report
    )
    sizes = np.bincount(y)
    return Comparison(
        methods=tuple(outcomes),
        scores=make_scores(outcomes, splits, y),
        notes={name: outcome.note for name, outcome in outcomes.items() if outcome.note},
        n_samples=X.shape[0],
        n_features=X.shape[1],
        n_classes=int((sizes > 0).sum()),
        n_folds=len(splits),
        largest=float(sizes.max() / sizes.sum()),
        classes=np.arange(len(sizes)),
        confusions=make_confusions(outcomes, splits, y),
        preparation=", features selected in each fold",
        unit="features",
    )
