"""The methods that are compared: how each is fitted, its limits, and what a fit costs.

scikit-learn is imported when a method of it is fitted, which takes a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend, _fit

# Operations of a fit from which on a method is compared only if it is named: some seconds.
MOST_WORK = 4e10
NCA_ITERATIONS = 50  # scikit-learn's default; its solutions rarely improve afterwards


class Sizes(NamedTuple):
    """What a fold asks for: training and test samples, features, classes, whether X is sparse."""

    n: int
    n_test: int
    d: int
    n_classes: int
    is_sparse: bool


class Method(NamedTuple):
    """A method of dimensionality reduction.

    Attributes
    ----------
    name : str
    fit : callable
        ``fit(X, codes, n_components, seed)`` returns an object with ``transform(X)``.
    limit : callable
        ``limit(sizes)`` returns the largest number of components and what sets it.
    work : callable
        ``work(sizes)`` returns the operations of a fit, roughly; 0 for those of SLCE and below.
    is_nested : bool
        Whether the first components of many are those of a fit with few.
    takes_sparse : bool
    unit : {"component", "feature"}
        What is counted.
    """

    name: str
    fit: Callable[[Any, np.ndarray, int, int], Any]
    limit: Callable[[Sizes], tuple[int, str]]
    work: Callable[[Sizes], float] = lambda sizes: 0.0
    is_nested: bool = True
    takes_sparse: bool = True
    unit: str = "component"

    def counts(self, components: tuple[int, ...], sizes: Sizes) -> tuple[tuple[int, ...], str]:
        """Return the numbers of components that exist, and why others do not."""
        most, why = self.limit(sizes)
        if self.name == ALL_FEATURES:
            return (most,), ""
        found = tuple(sorted({min(k, most) for k in components}))
        short = max(components) > most
        return found, f"at most {most} {self.unit}{'s' * (most != 1)}: {why}" * short

    def fits(self, counts: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """Return the fits to do: components of a fit, and the counts that are taken from it."""
        return {counts[-1]: counts} if self.is_nested else {k: (k,) for k in counts}

    def refusal(self, sizes: Sizes, most_work: float) -> str:
        """Return why the method is not run; empty if it is."""
        if sizes.is_sparse and not self.takes_sparse:
            return "scikit-learn's needs a dense X"
        work = self.work(sizes)
        return f"a fit takes about {work:.0e} operations" if work > most_work else ""


# ---------------------------------------------------------------- fits


def _slce(X: Any, y: np.ndarray, n_components: int, seed: int) -> Any:
    return _fit.fit(X, y, n_components, random_state=seed).to("numpy")


def _separation(X: Any, y: np.ndarray, n_components: int, seed: int) -> Any:
    model = _fit.fit(X, y, n_components, criterion="separation", random_state=seed)
    return model.to("numpy")


def _pca(X: Any, y: np.ndarray, n_components: int, seed: int) -> Any:
    from sklearn.decomposition import PCA

    solver = "arpack" if _backend.is_sparse(X) else "auto"
    return PCA(n_components, svd_solver=solver, random_state=seed).fit(X)


def _lda(X: Any, y: np.ndarray, n_components: int, seed: int) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis(n_components=n_components).fit(X, y)


def _shrinkage_lda(X: Any, y: np.ndarray, n_components: int, seed: int) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    method = LinearDiscriminantAnalysis("eigen", shrinkage="auto", n_components=n_components)
    return method.fit(X, y)


def _nca(X: Any, y: np.ndarray, n_components: int, seed: int) -> Any:
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    method = NeighborhoodComponentsAnalysis(
        n_components, max_iter=NCA_ITERATIONS, random_state=seed
    )
    return method.fit(X, y)


class Columns:
    """Some of the features, or all of them."""

    def __init__(self, chosen: Any = slice(None)) -> None:
        self._chosen = chosen

    def transform(self, X: Any) -> Any:
        """Return these columns of X."""
        return X[:, self._chosen]


# ---------------------------------------------------------------- limits and costs


def features(sizes: Sizes) -> tuple[int, str]:
    """Return the number of features as a limit."""
    return sizes.d, "the number of features"


def _rank(sizes: Sizes) -> tuple[int, str]:
    if sizes.n < sizes.d:
        return sizes.n - sizes.is_sparse, "the samples of a fold"
    return sizes.d - sizes.is_sparse, "the number of features"


def _classes(sizes: Sizes) -> tuple[int, str]:
    most = min(sizes.n_classes - 1, sizes.d)
    return most, "number of classes − 1" if most == sizes.n_classes - 1 else "number of features"


def _factorizations(sizes: Sizes) -> float:
    """Two singular value decompositions of X."""
    return 8.0 * sizes.n * sizes.d * min(sizes.n, sizes.d)


def _covariances(sizes: Sizes) -> float:
    """Two shrunk covariances, and their eigenvectors."""
    return 4.0 * sizes.n * sizes.d**2 + 10.0 * sizes.d**3


def _pairs(sizes: Sizes) -> float:
    """LDA to start with, and iterations over all pairs of samples."""
    return _factorizations(sizes) + NCA_ITERATIONS * 400.0 * sizes.n**2


def _distances(sizes: Sizes) -> float:
    return 2.0 * sizes.n * sizes.n_test * sizes.d


ALL_FEATURES = "all features"
METHODS = {
    "pca": Method("PCA", _pca, _rank),
    "lda": Method("LDA", _lda, _classes, _factorizations, takes_sparse=False),
    "shrinkage-lda": Method(
        "shrinkage LDA", _shrinkage_lda, _classes, _covariances, takes_sparse=False
    ),
    "slce": Method("SLCE", _slce, features),
    "separation": Method("SLCE separation", _separation, _classes, is_nested=False),
    "nca": Method("NCA", _nca, features, _pairs, is_nested=False, takes_sparse=False),
    "all": Method(ALL_FEATURES, lambda X, y, n_components, seed: Columns(), features, _distances),
}
