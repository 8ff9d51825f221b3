"""Cross-validated accuracy of 5 nearest neighbours in the embeddings of SLCE and PCA."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import slce_xp
from slce_xp import _backend
from slce_xp._data import columns

NEIGHBOURS = 5


class Accuracy(NamedTuple):
    """Share of held-out samples that are classified correctly."""

    slce: float
    pca: float
    largest: float  # of always predicting the largest class
    folds: int
    why: str = ""  # there are fewer folds than requested


def cross_validated(
    X: Any,
    y: np.ndarray,
    n_components: int,
    folds: int,
    *,
    impute: bool = False,
    scale: bool = False,
    report: Callable[[int, int], None] = lambda fold, folds: None,
    **how: Any,
) -> Accuracy | str:
    """Accuracy of nearest neighbours in the embeddings of SLCE and PCA.

    There are fewer folds if the smallest class has fewer samples. Missing values are filled with
    the means, and columns divided by the standard deviations, of the training samples of each fold.
    `report` is called before each fold, with its number and that of all. Further parameters are
    those of `slce_xp.fit`. Returns a reason if there is no accuracy.
    """
    classes, counts = np.unique(y, return_counts=True)
    smallest, least = str(classes[counts.argmin()]), int(counts.min())
    if least < 2:
        return f"class {smallest!r} has only one sample"
    why = f": class {smallest!r} has {least} samples" if least < folds else ""
    folds = min(folds, least)
    if n_components == 0:
        return "there are no components"
    from sklearn.model_selection import StratifiedKFold  # takes a second to import

    right = np.zeros(2)
    splits = StratifiedKFold(folds, shuffle=True, random_state=0).split(np.zeros(len(y)), y)
    for fold, (train, test) in enumerate(splits, 1):
        report(fold, folds)
        seen, unseen = X[train], X[test]
        if impute or scale:
            facts = columns.statistics(seen)
            change = facts.mean if impute else None, columns.spread(facts.std) if scale else None
            seen, unseen = (columns.prepared(part, *change) for part in (seen, unseen))
        for i, embed in enumerate((_slce, _pca)):
            embedded, others = embed(seen, y[train], unseen, n_components, how)
            right[i] += _neighbours(embedded, y[train], others, y[test])
    slce, pca = right / len(y)
    return Accuracy(float(slce), float(pca), float(counts.max() / len(y)), folds, why)


def _slce(seen: Any, y: np.ndarray, unseen: Any, k: int, how: dict[str, Any]) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all samples warns already
        model = slce_xp.fit(seen, y, k, **how).to("numpy")
    return model.transform(seen), model.transform(unseen)


def _pca(seen: Any, y: np.ndarray, unseen: Any, k: int, how: dict[str, Any]) -> tuple[Any, Any]:
    from sklearn.decomposition import PCA

    most = min(seen.shape)
    if _backend.is_sparse(seen):  # the solver for these finds at most all but one
        pca = PCA(min(k, most - 1), svd_solver="arpack", random_state=0)
    else:
        pca = PCA(min(k, most), random_state=0)
    return pca.fit_transform(seen), pca.transform(unseen)


def _neighbours(seen: Any, y: np.ndarray, unseen: Any, truth: np.ndarray) -> int:
    from sklearn.neighbors import KNeighborsClassifier

    found = KNeighborsClassifier(min(NEIGHBOURS, len(y))).fit(seen, y).predict(unseen)
    return int((found == truth).sum())
