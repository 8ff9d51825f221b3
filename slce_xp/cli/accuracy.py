"""Cross-validated accuracy of 5 nearest neighbours in the embeddings of SLCE, PCA and LDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from slce_xp._comparison.folds import Outcome, cross_validate, sizes_of
from slce_xp._comparison.methods import METHODS, MOST_WORK
from slce_xp._comparison.methods import slce as slce_with
from slce_xp._folds import make_folds


class Accuracy(NamedTuple):
    """Share of held-out samples that are classified correctly."""

    slce: float
    pca: float
    lda: str  # with the number of components if there are fewer, or why there is none
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
    """Accuracy of nearest neighbours in the embeddings of SLCE, PCA and LDA.

    There are fewer folds if the smallest class has fewer samples. Missing values are filled with
    the means, and columns divided by the standard deviations, of the training samples of each fold.
    `report` is called before each fold, with its number and that of all. Further parameters are
    those of `slce_xp.fit`. Returns a reason if there is no accuracy.
    """
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    smallest, least = str(classes[counts.argmin()]), int(counts.min())
    if least < 2:
        return f"class {smallest!r} has only one sample"
    why = f": class {smallest!r} has {least} samples" if least < folds else ""
    folds = min(folds, least)
    if n_components == 0:
        return "there are no components"
    splits = make_folds(codes, folds, 0, classes).splits()
    refusal = METHODS["lda"].refusal(sizes_of(X, codes, splits), MOST_WORK)
    methods = {"SLCE": METHODS["slce"]._replace(fit=slce_with(**how)), "PCA": METHODS["pca"]}
    found = cross_validate(
        X,
        codes,
        splits,
        methods if refusal else methods | {"LDA": METHODS["lda"]},
        (n_components,),
        impute=impute,
        scale=scale,
        report=lambda fold, name: report(fold + 1, folds) if name == "SLCE" else None,
    )
    for name in methods:
        if not found[name].entries:
            return f"{name} {found[name].note}"
    truth = codes[np.concatenate([test for _, test in splits])]
    lda = f"not run ({refusal})" if refusal else _in_words(found["LDA"], n_components, truth)
    largest = float(counts.max() / len(y))
    slce, pca = (_share(found[name], truth) for name in ("SLCE", "PCA"))
    return Accuracy(slce, pca, lda, largest, folds, why)


def _share(outcome: Outcome, truth: np.ndarray) -> float:
    return float((outcome.entries[0].predicted[0] == truth).mean())


def _in_words(outcome: Outcome, n_components: int, truth: np.ndarray) -> str:
    if not outcome.entries:
        return outcome.note
    fewer = outcome.entries[0].n_components
    return f"{100 * _share(outcome, truth):.1f} %" + f" in {fewer}" * (fewer < n_components)
