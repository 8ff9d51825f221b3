"""The methods that are compared: how each is fitted, its limits, and what a fit costs.

scikit-learn is imported when a method of it is fitted, which takes a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend, _fit

FLOPS_PER_SECOND = 1e10  # of one core; costs are predicted to within a factor of about three
NCA_ITERATIONS = 50


class OutOfTimeError(Exception):
    """A fit that noticed that its time is up."""


class Sizes(NamedTuple):
    """What a fold asks for: training and test samples, features, classes, whether X is sparse."""

    n: int
    n_test: int
    d: int
    n_classes: int
    is_sparse: bool


class Task(NamedTuple):
    """What a method is fitted with, in addition to X and the codes of the classes."""

    n_components: int
    seed: int = 0
    deadline: float = np.inf  # of time.perf_counter


class Method(NamedTuple):
    """A method of dimensionality reduction.

    Attributes
    ----------
    name : str
    fit : callable
        ``fit(X, codes, task)`` returns an object with ``transform(X)``.
    limit : callable
        ``limit(sizes)`` returns the largest number of components and what sets it.
    flops : callable
        ``flops(sizes, n_components)`` predicts the work of a fit, roughly.
    is_nested : bool
        Whether the first components of many are those of a fit with few.
    takes_sparse : bool
    unit : {"component", "feature"}
        What is counted.
    """

    name: str
    fit: Callable[[Any, np.ndarray, Task], Any]
    limit: Callable[[Sizes], tuple[int, str]]
    flops: Callable[[Sizes, int], float]
    is_nested: bool = True
    takes_sparse: bool = True
    unit: str = "component"

    def counts(self, components: tuple[int, ...], sizes: Sizes) -> tuple[tuple[int, ...], str]:
        """Return the numbers of components that exist, and why others do not."""
        most, why = self.limit(sizes)
        found = tuple(sorted({min(k, most) for k in components}))
        short = max(components) > most and self.name != ALL_FEATURES
        return found, f"at most {most} {self.unit}{'s' * (most != 1)}: {why}" * short

    def fits(self, counts: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """Return the fits to do: components of a fit, and the counts that are taken from it."""
        return {counts[-1]: counts} if self.is_nested else {k: (k,) for k in counts}

    def refusal(
        self, counts: tuple[int, ...], sizes: Sizes, folds: int, time_limit: float | None
    ) -> str:
        """Return why the method cannot run; empty if it can."""
        if sizes.is_sparse and not self.takes_sparse:
            return "scikit-learn's needs a dense X"
        work = sum(self.flops(sizes, k) for k in self.fits(counts))
        seconds = folds * work / FLOPS_PER_SECOND
        if time_limit is not None and seconds > time_limit:
            return f"needs about {in_words(seconds)}; the time limit is {in_words(time_limit)}"
        return ""


def in_words(seconds: float) -> str:
    """Return a duration for a message: "45 s", "12 min", "3 h"."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


# ---------------------------------------------------------------- fits


def slce(**how: Any) -> Callable[[Any, np.ndarray, Task], Any]:
    """Return a function that fits SLCE with further parameters of `slce_xp.fit`."""

    def fit(X: Any, y: np.ndarray, task: Task) -> Any:
        model = _fit.fit(X, y, task.n_components, random_state=task.seed, **how)
        return model.to("numpy")

    return fit


def _pca(X: Any, y: np.ndarray, task: Task) -> Any:
    from sklearn.decomposition import PCA

    solver = "arpack" if _backend.is_sparse(X) else "auto"
    return PCA(task.n_components, svd_solver=solver, random_state=task.seed).fit(X)


def _lda(X: Any, y: np.ndarray, task: Task) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis(n_components=task.n_components).fit(X, y)


def _shrinkage_lda(X: Any, y: np.ndarray, task: Task) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    k = task.n_components
    return LinearDiscriminantAnalysis("eigen", shrinkage="auto", n_components=k).fit(X, y)


def _nca(X: Any, y: np.ndarray, task: Task) -> Any:
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    def watch(*_: Any) -> None:
        if time.perf_counter() > task.deadline:
            raise OutOfTimeError

    return NeighborhoodComponentsAnalysis(
        task.n_components, max_iter=NCA_ITERATIONS, callback=watch, random_state=task.seed
    ).fit(X, y)


class _AllFeatures:
    """No reduction at all."""

    def transform(self, X: Any) -> Any:
        """Return the samples as they are."""
        return X


# ---------------------------------------------------------------- limits and costs


def _features(sizes: Sizes) -> tuple[int, str]:
    return sizes.d, "the number of features"


def _rank(sizes: Sizes) -> tuple[int, str]:
    if sizes.n < sizes.d:
        return sizes.n - sizes.is_sparse, "the samples of a fold"
    return sizes.d - sizes.is_sparse, "the number of features"


def _classes(sizes: Sizes) -> tuple[int, str]:
    most = min(sizes.n_classes - 1, sizes.d)
    return most, "number of classes − 1" if most == sizes.n_classes - 1 else "number of features"


def _factorization(sizes: Sizes, k: int) -> float:
    """Two singular value decompositions of X."""
    return 8.0 * sizes.n * sizes.d * min(sizes.n, sizes.d)


def _covariance(sizes: Sizes, k: int) -> float:
    """Two shrunk covariances, and their eigenvectors."""
    return 4.0 * sizes.n * sizes.d**2 + 10.0 * sizes.d**3


def _pairs(sizes: Sizes, k: int) -> float:
    """LDA to start with, and iterations over all pairs of samples."""
    step = 400.0 * sizes.n**2 + 6.0 * sizes.n * sizes.d * k
    return _factorization(sizes, k) + NCA_ITERATIONS * step


def _smaller_matrix(sizes: Sizes, k: int) -> float:
    """The scatter or the Gram matrix of X."""
    small = min(sizes.n, sizes.d)
    return 2.0 * sizes.n * sizes.d * small + 10.0 * small**3


def _passes(sizes: Sizes, k: int) -> float:
    return 20.0 * sizes.n * sizes.d * (k + 10)


def _distances(sizes: Sizes, k: int) -> float:
    return 2.0 * sizes.n * sizes.n_test * sizes.d


ALL_FEATURES = "all features"
METHODS = {
    "pca": Method("PCA", _pca, _rank, _passes),
    "lda": Method("LDA", _lda, _classes, _factorization, takes_sparse=False),
    "shrinkage-lda": Method(
        "shrinkage LDA", _shrinkage_lda, _classes, _covariance, takes_sparse=False
    ),
    "slce": Method("SLCE", slce(), _features, _passes),
    "separation": Method(
        "SLCE separation", slce(criterion="separation"), _classes, _smaller_matrix, is_nested=False
    ),
    "nca": Method("NCA", _nca, _features, _pairs, is_nested=False, takes_sparse=False),
    "all": Method(ALL_FEATURES, lambda X, y, task: _AllFeatures(), _features, _distances),
}
