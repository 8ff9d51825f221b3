"""Feature selection as a scikit-learn selector, with stability selection."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from slce_xp import _backend, _parameters
from slce_xp._backend import Array
from slce_xp._data import matrix
from slce_xp._data.labels import as_labels
from slce_xp._errors import invalid, shown
from slce_xp._estimator import (
    DOCUMENTATION,
    check_given,
    checked,
    is_of_another_library,
    one_column,
    seed_of,
)
from slce_xp._feature_path import FeaturePath, columns_at, default_count, warn_of_limits
from slce_xp._selection import compute_path
from slce_xp._stability import stability


class SLCESelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Select the features that reconstruct the class centroids, as a scikit-learn selector.

    Features are those of `slce_xp.feature_path`, an exact lasso, or those that it selects most
    often in resamples of the data (stability selection).

    Parameters
    ----------
    n_features_to_select : int, float or None
        Features to select, from 1 to d, or a share of them between 0 and 1. None: half of them, at
        most 50.
    targets : {"centroids", "scores"}
        See `slce_xp.feature_path`, also for the next two.
    ridge : float
    gap : float
    n_resamples : int
        Resamples for stability selection; 0: none, features are those of all samples.
    subsample : float
        The share of the samples of each class in a resample, drawn without replacement.
    class_weight : "balanced", dict or None
    backend : {"numpy", "cupy", "torch", "jax", "dpnp"} or None
    device : optional
    max_memory : int or str, optional
    random_state : int, RandomState instance or None
        Seed of the resamples.
    n_jobs : int or None
        Resamples that are computed at the same time, by joblib, in threads unless
        ``joblib.parallel_config`` says otherwise. Results do not depend on it.

    Attributes
    ----------
    support_ : numpy.ndarray of bool, shape (d,)
        The selected features. Fewer than asked for, with a warning, if the path ends before.
    n_features_ : int
        How many they are.
    path_ : FeaturePath
        The path of all samples.
    frequencies_ : numpy.ndarray, shape (d,)
        The share of the resamples in which each feature is selected. Those with the highest are
        selected; among equals, those with the larger coefficients in `path_`. Only with
        resamples, as the following.
    stability_ : float
        How much the selections agree: 1 if all are the same, about 0 if they are random
        (Nogueira, Sechidis and Brown, JMLR 2018).
    stability_interval_ : tuple of float
        Its confidence interval of 95 %; only with two resamples or more.
    n_features_in_ : int
        The number of features, d.
    feature_names_in_ : numpy.ndarray, shape (d,)
        Only if X had column names that are strings.

    See Also
    --------
    slce_xp.feature_path : The same without scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from slce_xp import SLCESelector
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> select = make_pipeline(StandardScaler(), SLCESelector(3)).fit(X, y)
    >>> list(select.get_feature_names_out())
    ['worst radius', 'worst perimeter', 'worst concave points']
    """

    # The link of the HTML representation.
    _doc_link_module = "slce_xp"
    _doc_link_template = DOCUMENTATION

    def __init__(
        self,
        n_features_to_select: int | float | None = None,
        *,
        targets: str = "centroids",
        ridge: float = 0.0,
        gap: float = 1e-5,
        n_resamples: int = 0,
        subsample: float = 0.5,
        class_weight: Any = None,
        backend: str | None = None,
        device: Any = None,
        max_memory: int | str | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.targets = targets
        self.ridge = ridge
        self.gap = gap
        self.n_resamples = n_resamples
        self.subsample = subsample
        self.class_weight = class_weight
        self.backend = backend
        self.device = device
        self.max_memory = max_memory
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SLCESelector:
        """Select features.

        Parameters
        ----------
        X : array, sparse matrix, list of rows or data frame of numbers, shape (n, d)
        y : array, list, Series or Categorical, shape (n,)
            Class labels.
        sample_weight : array, shape (n,), optional
            The weight of each sample.

        Returns
        -------
        SLCESelector
            The selector itself.

        Examples
        --------
        >>> from slce_xp import SLCESelector
        >>> X = [[0.0, 5.0], [1.0, 4.0], [8.0, 5.0], [9.0, 4.0]]
        >>> SLCESelector(1).fit(X, [0, 0, 1, 1]).support_
        array([ True, False])
        """
        check_given(self, y)
        X = checked(self, X, reset=True, ensure_all_finite=False)
        y = one_column(y)
        d = self.n_features_in_
        count = _as_feature_count(self.n_features_to_select, d)
        n_resamples = _parameters.as_count(self.n_resamples, "n_resamples", 0)
        share = _parameters.as_number(self.subsample, "subsample", 0.0, 1.0, above=True)
        self.path_ = dataclasses.replace(self._path(X, y, count, sample_weight), _data=None)
        warn_of_limits(self.path_, count, self.gap)
        chosen = _chosen(self.path_, count)
        for name in ("frequencies_", "stability_", "stability_interval_"):
            self.__dict__.pop(name, None)
        if n_resamples:
            labels = as_labels(y, X.shape[0], sample_weight)
            weights = np.ones(X.shape[0]) if labels.weights is None else labels.weights
            codes = np.where(weights > 0, labels.codes, -1)
            rng = np.random.default_rng(seed_of(self.random_state))
            kept = [_subsample(codes, share, rng) for _ in range(n_resamples)]
            # Entered here once, so that threads do not restore settings that others need.
            with _backend.computing(_backend.place_of(matrix.as_matrix(X))):
                selected = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                    delayed(self._selected)(X, y, count, weights * rows) for rows in kept
                )
            chosen = self._most_frequent(np.array(selected), chosen, count)
        self.support_ = np.zeros(d, dtype=bool)
        self.support_[chosen] = True
        self.n_features_ = int(self.support_.sum())
        return self

    def _path(self, X: Any, y: Any, count: int, sample_weight: Any) -> FeaturePath:
        names = "targets ridge gap class_weight backend device max_memory"
        options = {name: getattr(self, name) for name in names.split()}
        return compute_path(X, y, n_features=count, sample_weight=sample_weight, **options)

    def _selected(self, X: Any, y: Any, count: int, weights: np.ndarray) -> np.ndarray:
        """A mask of the features that a resample selects."""
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[_chosen(self._path(X, y, count, weights), count)] = True
        return mask

    def _most_frequent(self, selected: np.ndarray, ranked: np.ndarray, count: int) -> np.ndarray:
        """The features that are selected most often; `ranked` decides among equals."""
        self.frequencies_ = selected.mean(axis=0)
        if len(selected) > 1:
            self.stability_, *interval = stability(selected)
            self.stability_interval_ = tuple(interval)
        rank = np.full(self.n_features_in_, len(ranked))
        rank[ranked] = np.arange(len(ranked))
        order = np.lexsort((rank, -self.frequencies_))[:count]
        return np.asarray(order[self.frequencies_[order] > 0.0])

    def transform(self, X: Any) -> Array:
        """Reduce X to the selected features.

        Parameters
        ----------
        X : array, sparse matrix, list of rows or data frame, shape (n, d)
            Of any library; what is read in blocks, or sparse and not of SciPy, becomes a dense
            array of the selected columns.

        Returns
        -------
        array, shape (n, m)

        Examples
        --------
        >>> from slce_xp import SLCESelector
        >>> X = [[0.0, 5.0], [1.0, 4.0], [8.0, 5.0], [9.0, 4.0]]
        >>> SLCESelector(1).fit(X, [0, 0, 1, 1]).transform(X)
        array([[0.],
               [1.],
               [8.],
               [9.]])
        """
        check_is_fitted(self)
        if not is_of_another_library(X):
            return super().transform(X)
        X = validate_data(self, X=X, reset=False, skip_check_array=True)
        return columns_at(matrix.as_matrix(X), self.get_support(indices=True))

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _as_feature_count(wanted: Any, d: int) -> int:
    """The number of features to select."""
    if wanted is None:
        return max(1, min(d // 2, default_count(d)))
    if (share := _parameters.as_share(wanted)) is not None:
        return max(1, int(share * d))
    if isinstance(wanted, (float, np.floating)):
        raise invalid(
            "n_features_to_select",
            "n_features_to_select must be an integer, a share between 0 and 1, or None; got "
            f"{shown(wanted)}",
        )
    return _parameters.as_count(wanted, "n_features_to_select", 1, d)


def _chosen(path: FeaturePath, count: int) -> np.ndarray:
    """As many features of a path as there are, ranked."""
    return path.ranked(min(count, max(map(len, path.supports))))


def _subsample(codes: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """A mask of a share of the samples of each class, at least one of each."""
    kept = np.zeros(len(codes), dtype=bool)
    for code in range(codes.max() + 1):
        members = np.flatnonzero(codes == code)
        kept[rng.permutation(members)[: max(1, int(share * len(members)))]] = True
    return kept
