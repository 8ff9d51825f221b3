"""Cross-validation of several methods on the same folds."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._comparison.methods import ALL_FEATURES, Method, Sizes
from slce_xp._data import columns

NEIGHBOURS = 5
Split = tuple[np.ndarray, np.ndarray]


class Entry(NamedTuple):
    """How the samples of all folds were classified in one embedding.

    Attributes
    ----------
    n_components : int
    predicted : numpy.ndarray of int, shape (classifiers, held-out samples)
        Class codes, in the order of the folds.
    seconds : float
        Median over the folds of the time of a fit; NaN for all features.
    """

    n_components: int
    predicted: np.ndarray
    seconds: float


class Outcome(NamedTuple):
    """The entries of a method, and why there are not more."""

    entries: tuple[Entry, ...] = ()
    note: str = ""


def cross_validate(
    X: Any,
    y: np.ndarray,
    splits: Sequence[Split],
    methods: Mapping[str, Method],
    components: tuple[int, ...],
    *,
    scale: bool = False,
    impute: bool = False,
    seed: int = 0,
    most_work: float = np.inf,
    report: Callable[[str], None] = lambda name: None,
) -> dict[str, Outcome]:
    """Classify the held-out samples of each fold in the embedding of each method.

    Parameters
    ----------
    X : numpy.ndarray or matrix of compressed rows, shape (n, d)
    y : numpy.ndarray of int, shape (n,)
    splits : sequence of (train, test)
    methods : mapping of names to methods
    components : tuple of int
        Reduced, for each method, to what it can have.
    scale, impute : bool
        Whether to divide columns by their standard deviations, and to fill missing values with the
        means, of the training samples.
    most_work : float
        Operations of a fit; methods that need more are not run.
    report : callable
        Called with its name before each method of each fold.
    """
    # Those of the smallest training set, so that all folds have the same components.
    n = min(len(train) for train, _ in splits)
    n_classes = min(len(np.unique(y[train])) for train, _ in splits)
    sizes = Sizes(n, X.shape[0] - n, X.shape[1], n_classes, bool(_backend.is_sparse(X)))
    runs = {name: _Run(method, sizes, components, most_work) for name, method in methods.items()}
    for train, test in splits:
        parts = _prepared(X[train], X[test], scale, impute)
        for name, run in runs.items():
            report(name)
            run.add_fold(parts, y[train], seed)
    return {name: run.outcome() for name, run in runs.items()}


def _prepared(seen: Any, unseen: Any, scale: bool, impute: bool) -> tuple[Any, Any]:
    if not (scale or impute):
        dtype = columns.float_of(seen.dtype)
        return seen.astype(dtype, copy=False), unseen.astype(dtype, copy=False)
    facts = columns.statistics(seen)
    change = facts.mean if impute else None, columns.spread(facts.std) if scale else None
    return columns.prepared(seen, *change), columns.prepared(unseen, *change)


class _Run:
    """A method on its way through the folds."""

    def __init__(
        self, method: Method, sizes: Sizes, components: tuple[int, ...], most_work: float
    ) -> None:
        self._method = method
        counts, self._note = method.counts(components, sizes)
        refusal = method.refusal(sizes, most_work)
        self._stop = f"not run: {refusal}" if refusal else ""
        self._fits = method.fits(counts)
        self._predicted: dict[int, list[np.ndarray]] = {k: [] for k in counts}
        self._seconds: dict[int, list[float]] = {k: [] for k in counts}

    def add_fold(self, parts: tuple[Any, Any], y: np.ndarray, seed: int) -> None:
        """Fit and classify one fold, unless the method was stopped."""
        if self._stop:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a fit to a part of the samples
                self._classify(parts, y, seed)
        except MemoryError:
            self._stop = "failed: it needs more memory than there is"
        except (ValueError, IndexError, np.linalg.LinAlgError) as error:
            if hasattr(error, "parameter"):  # of slce_xp: of the data, whatever the method
                raise
            self._stop = f"failed: {' '.join(str(error).split())}"

    def _classify(self, parts: tuple[Any, Any], y: np.ndarray, seed: int) -> None:
        for most, counts in self._fits.items():
            before = time.perf_counter()
            fitted = self._method.fit(parts[0], y, most, seed)
            seconds = time.perf_counter() - before
            seen, unseen = _in_reach(*(fitted.transform(part) for part in parts))
            if seen.shape[1] < counts[-1]:
                unit = self._method.unit + "s"
                self._note = f"in some folds there are only {seen.shape[1]} {unit}"
            for k in counts:
                found = [f(seen[:, :k], y, unseen[:, :k]) for f in CLASSIFIERS.values()]
                self._predicted[k].append(np.stack(found))
                self._seconds[k].append(seconds)

    def outcome(self) -> Outcome:
        """Return what all folds gave."""
        if self._stop:
            return Outcome(note=self._stop)
        is_fitted = self._method.name != ALL_FEATURES
        entries = tuple(
            Entry(
                k,
                np.concatenate(predicted, axis=1),
                float(np.median(self._seconds[k])) if is_fitted else math.nan,
            )
            for k, predicted in self._predicted.items()
        )
        return Outcome(entries, self._note)


# ---------------------------------------------------------------- classifiers


def _in_reach(seen: Any, unseen: Any) -> tuple[Any, Any]:
    """Move samples to the origin, unless they are sparse, and make the largest about one.

    Squares of numbers that are far from the origin lose digits; those of large ones overflow.
    """
    if not _backend.is_sparse(seen):
        centre = seen.mean(axis=0)
        seen, unseen = seen - centre, unseen - centre
    unit = math.ldexp(1.0, math.frexp(float(abs(seen).max()))[1] - 1)
    return seen / unit, unseen / unit


def _nearest_neighbours(seen: Any, y: np.ndarray, unseen: Any) -> np.ndarray:
    from sklearn.neighbors import KNeighborsClassifier

    found = KNeighborsClassifier(min(NEIGHBOURS, len(y))).fit(seen, y).predict(unseen)
    return np.asarray(found)


def _nearest_centroid(seen: Any, y: np.ndarray, unseen: Any) -> np.ndarray:
    """Classify by the nearest class mean; scikit-learn's would make a sparse X dense."""
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    members = np.equal.outer(np.arange(len(classes)), codes) / counts[:, None]
    centroids = members @ seen
    # About the mean of all samples: |x − c|² loses digits far from the origin.
    mean = counts @ centroids / len(y)
    centroids = centroids - mean
    half = (centroids * (centroids / 2 + mean)).sum(axis=1)
    return np.asarray(classes[np.argmax(unseen @ centroids.T - half, axis=1)])


CLASSIFIERS = {"5-NN": _nearest_neighbours, "nearest centroid": _nearest_centroid}
