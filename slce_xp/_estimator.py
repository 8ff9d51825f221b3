"""SLCE as a scikit-learn classifier that transforms."""

from __future__ import annotations

import dataclasses
import numbers
import os
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from slce_xp import _backend, _fit, _parameters
from slce_xp._backend import Array
from slce_xp._data import marks, matrix, row_reader, sample_weights
from slce_xp._errors import invalid, warn
from slce_xp._model import Model
from slce_xp._partial import Statistics, add_up, merge, solve
from slce_xp.core._given import check_not_masked

# The method's paper, as long as the documentation of the package has no address of its own.
DOCUMENTATION = "https://arxiv.org/abs/2306.04622"
# Other SciPy formats are converted to the first of these.
_SPARSE = ("csr", "csc", "coo")
# Fitted attributes that are those of the model.
_OF_MODEL = {f"{name}_" for name in (
    "components", "eigenvalues", "mean", "centroids", "classes", "n_components", "n_positive",
    "solver", "loss", "loss_shares",
)}  # fmt: skip
# Parameters that `fit` and `partial_fit` share, and those of `fit` alone.
_SHARED = ("backend", "device", "max_memory", "class_weight", "unlabeled", "unlabeled_weight")
_OF_FIT = ("solver", "tol", "max_iter", "criterion", "shrinkage", "missing", "calibrate",
           "progress")  # fmt: skip


class SLCE(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    r"""Supervised Linear Centroid-Encoder: a scikit-learn classifier that transforms.

    Embeds samples by the orthonormal :math:`A`, of shape (d, k), that best reconstructs the
    centroid of each sample's class,

    .. math:: \min_{A^T A = I} \lVert \tilde C - X A A^T \rVert_F^2 .

    Fitted attributes and embeddings are in the library and on the device of X, whether or not
    scikit-learn's `array_api_dispatch` is set. See `slce_xp.fit`, which does the computation, for
    the method and for details of the parameters.

    As LinearDiscriminantAnalysis it embeds samples and classifies them: in the last place of a
    pipeline it predicts, scores are accuracies, and folds are stratified.

    Parameters
    ----------
    n_components : int, float, "positive" or None
        Components to keep, from 1 to d, or to K − 1 for "separation". None: K − 1, the number of
        classes − 1. "positive": those that lower the loss, or all in which class means differ. A
        fraction: the fewest that remove this share of the loss that those remove, or that reach
        this share of their separation; see `slce_xp.fit`.
    solver : {"auto", "scatter", "gram", "krylov"}
        The form of the eigenproblem; all give the same result.
    backend : {"numpy", "cupy", "torch", "jax", "dpnp"} or None
        The array library that computes; None: that of X. The result is moved back to the library
        and device of X, for the other steps of a pipeline.
    device : optional
        A device of the backend, such as "cuda:1".
    tol : float
        Residual at which the matrix-free form stops, relative to the scatter of X.
    max_iter : int
        Passes over X that the matrix-free form may take.
    max_memory : int or str, optional
        Bytes that a fit may allocate in addition to X, such as "2GB".
    class_weight : "balanced", dict or None
        Weights of the classes. Those of a dict multiply their odds in `predict`, too.
    unlabeled : optional
        The label in y that marks samples without one, such as -1. None: all are labelled.
    unlabeled_weight : float
        The weight of a sample without a label, relative to one with a label.
    criterion : {"centroid", "separation"}
        "separation": components in which pairs of classes overlap least, at most K − 1 of them.
    shrinkage : float or "auto"
        For "separation", the weight of the diagonal in the covariance within classes.
    missing : "mean" or None
        What NaN becomes: the mean of its column, or an error.
    calibrate : bool
        Whether `fit` finds the temperature of `predict_proba` from samples that are held out;
        not with `partial_fit`.
    random_state : int, RandomState instance or None
        Seed for directions that are arbitrary. A RandomState, or None for NumPy's global one, draws
        another seed for each fit.
    progress : bool
        Whether `fit` shows a progress bar (needs tqdm).

    Attributes
    ----------
    components_ : array, shape (k, d)
        Orthonormal rows, by descending eigenvalue.
    eigenvalues_ : array, shape (k,)
    mean_ : array, shape (d,)
    centroids_ : array, shape (K, d)
        The class means.
    classes_ : numpy.ndarray, shape (K,)
        The labels, sorted, on the host.
    n_components_ : int
        The number of components, k.
    n_positive_ : int
        How many of them lower the loss.
    loss_ : float
        The loss with all components.
    loss_shares_ : array, shape (k,)
        The share of the loss that each component removes, as `explained_variance_ratio_` of PCA
        is the share of the variance; negative for one that raises the loss.
    solver_ : str
        The form that was solved.
    n_iter_ : int
        Passes over X of the matrix-free form; 1 for the dense forms.
    model_ : Model
        The fitted model, with all its attributes and methods.
    n_samples_seen_ : int
        Samples of positive weight in all batches; only after `partial_fit`.
    statistics_ : object
        The accumulated statistics of all batches; only after `partial_fit`.
    n_features_in_ : int
        The number of features, d.
    feature_names_in_ : numpy.ndarray, shape (d,)
        Only if X had column names that are strings.

    See Also
    --------
    slce_xp.fit : The same without scikit-learn.

    Notes
    -----
    `fit_transform`, `get_feature_names_out`, `set_output`, `get_params`, `set_params` and metadata
    routing are those of scikit-learn. What users of PCA and LDA may look for:

    - `explained_variance_ratio_` is `loss_shares_`, `means_` is `centroids_`, and `scalings_` is
      the transpose of `components_`.
    - There is no `whiten`: components are orthonormal directions, in which distances are those of
      X; add a StandardScaler behind it.
    - There is no `get_covariance`: SLCE is not a model of densities.
    - There are no `priors`: ``class_weight={...}`` multiplies the odds of the classes. They are
      equal for ``criterion="centroid"`` and the shares of the classes for "separation".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from slce_xp import SLCE
    >>> X, y = load_iris(return_X_y=True)
    >>> slce = SLCE(n_components=1).fit(X, y)
    >>> slce.transform(X).shape
    (150, 1)
    >>> slce.get_feature_names_out()
    array(['slce0'], dtype=object)
    """

    # The link of the HTML representation.
    _doc_link_module = "slce_xp"
    _doc_link_template = DOCUMENTATION

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        solver: str = "auto",
        backend: str | None = None,
        device: Any = None,
        tol: float = 1e-6,
        max_iter: int = 50,
        max_memory: int | str | None = None,
        class_weight: Any = None,
        unlabeled: Any = None,
        unlabeled_weight: float = 1.0,
        criterion: str = "centroid",
        shrinkage: float | str = "auto",
        missing: str | None = None,
        calibrate: bool = False,
        random_state: Any = 0,
        progress: bool = False,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.backend = backend
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.unlabeled_weight = unlabeled_weight
        self.criterion = criterion
        self.shrinkage = shrinkage
        self.missing = missing
        self.calibrate = calibrate
        self.random_state = random_state
        self.progress = progress

    # ------------------------------------------------------------ fit

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        batch: Any = None,
    ) -> SLCE:
        """Fit to labelled samples.

        Parameters
        ----------
        X : array, sparse matrix, list of rows or data frame of numbers, shape (n, d)
        y : array, list, Series or Categorical, shape (n,)
            Class labels, on any device or on the host.
        sample_weight : array, shape (n,), optional
            The weight of each sample.
        groups : array, shape (n,), optional
            With `calibrate`: the subject, or the like, of each sample; its samples are held out
            together.
        batch : array, shape (n,), optional
            The batch of each sample, whose effect is removed; other methods then need it, too.

        Returns
        -------
        SLCE
            The estimator itself.

        Examples
        --------
        >>> from slce_xp import SLCE
        >>> SLCE().fit([[0.0], [1.0], [5.0], [6.0]], [7, 7, 8, 8]).classes_
        array([7, 8])
        """
        check_given(self, y)
        # The fit reports the position of NaN and infinity.
        X = checked(self, X, reset=True, ensure_all_finite=False)
        model = _fit.fit(
            X,
            one_column(y),
            self.n_components,
            random_state=seed_of(self.random_state),
            sample_weight=sample_weight,
            groups=groups,
            batch=batch,
            **self._options(*_SHARED, *_OF_FIT),
        )
        if self.backend is not None:
            model = model.to(*_backend.place_of(matrix.as_matrix(X)))
        for name in ("statistics_", "n_samples_seen_"):
            self.__dict__.pop(name, None)
        return self._adopt(model)

    def _options(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> SLCE:
        """Add a batch of samples, exactly.

        After the last batch the estimator equals one fitted to all samples at once, in any order.
        The eigenproblem is solved when a fitted attribute is first used, not for every batch. One
        d × d matrix of double precision is kept; up to six are allocated while a batch is added or
        the eigenproblem is solved. The estimator can be pickled between batches, and estimators of
        several jobs can be merged. The first batch after `fit` starts anew.

        Parameters
        ----------
        X : array, sparse matrix, list of rows or data frame of numbers, shape (n, d)
        y : array, list, Series or Categorical, shape (n,)
            A batch may have one class only, or only samples without a label.
        classes : array or list, optional
            All expected labels; others raise ValueError. Inferred from the batches by default.
        sample_weight : array, shape (n,), optional
            The weight of each sample.

        Returns
        -------
        SLCE
            The estimator itself.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from slce_xp import SLCE
        >>> X, y = load_iris(return_X_y=True)
        >>> slce = SLCE(n_components=1)
        >>> for start in range(0, 150, 40):
        ...     slce = slce.partial_fit(X[start : start + 40], y[start : start + 40])
        >>> slce.n_samples_seen_, slce.transform(X).shape
        (150, (150, 1))
        """
        if self.missing is not None:
            raise invalid(
                "missing",
                "missing must be None for partial_fit: means of columns are known only after the "
                f"last batch; got {self.missing!r}. Fill X yourself, or fit all samples at once",
            )
        if self.calibrate:
            raise invalid(
                "calibrate",
                "calibrate must be False for partial_fit, which keeps no samples to hold out; got "
                f"{self.calibrate!r}. Leave it out, or fit all samples at once",
            )
        before: Statistics | None = self.__dict__.get("statistics_")
        X = checked(self, X, reset=before is None, ensure_all_finite=False)
        if classes is None and before is not None and before.are_all:
            classes = before.classes
        batch = add_up(
            X,
            one_column(y),
            classes=classes,
            sample_weight=sample_weight,
            **self._options(*_SHARED),
        )
        if batch is None:
            return self
        return self._keep(batch if before is None else merge(before, batch))

    def merge(self, other: SLCE) -> SLCE:
        """Add the batches of another estimator, such as one of a parallel job.

        Parameters
        ----------
        other : SLCE
            An estimator with batches of `partial_fit`. Not changed.

        Returns
        -------
        SLCE
            The estimator itself.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from slce_xp import SLCE
        >>> X, y = load_iris(return_X_y=True)
        >>> jobs = [SLCE().partial_fit(X[i::3], y[i::3]) for i in range(3)]
        >>> jobs[0].merge(jobs[1]).merge(jobs[2]).n_samples_seen_
        150
        """
        for name, estimator in (("the estimator", self), ("other", other)):
            if not isinstance(estimator, SLCE) or "statistics_" not in estimator.__dict__:
                raise invalid(
                    "other",
                    f"{name} must be an SLCE that has seen batches by partial_fit; got "
                    f"{type(estimator).__name__}. The result of fit() cannot be merged",
                )
        mine, theirs = (getattr(e, "feature_names_in_", None) for e in (self, other))
        if mine is not None and theirs is not None and not np.array_equal(mine, theirs):
            raise invalid(
                "other",
                "other must have seen the same features; its feature names, or their order, are "
                "not those of the estimator. Give both the same columns",
            )
        return self._keep(merge(self.statistics_, other.statistics_))

    def _keep(self, statistics: Statistics) -> SLCE:
        """Keep the statistics, and discard what was solved from earlier ones."""
        self.statistics_ = statistics
        self.n_samples_seen_ = statistics.n_samples
        self.__dict__.pop("model_", None)
        return self

    def __getattr__(self, name: str) -> Any:
        # Called for missing attributes. Batches are solved when one of a model is first used.
        if name in _OF_MODEL:
            return getattr(self.model_, name[:-1])
        if name == "n_iter_":
            return max(1, self.model_.passes)
        statistics = self.__dict__.get("statistics_")
        if name != "model_" or statistics is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        seen = int((statistics.counts > 0).sum())
        if seen < 2:
            raise NotFittedError(
                f"y must hold two classes before an SLCE can be solved; {seen} came so far. "
                "Call partial_fit with more batches"
            )
        if statistics.n_unlabeled == 0:
            marks.warn_if_unmarked(self.unlabeled)
        sample_weights.warn_if_unknown(self.class_weight, statistics.classes[statistics.counts > 0])
        model = solve(
            statistics, self.n_components, self.criterion, self.shrinkage, self.class_weight
        )
        return self._adopt(model.to(*_backend.place_of(statistics.home))).model_

    def _adopt(self, model: Model) -> SLCE:
        names = getattr(self, "feature_names_in_", None)
        if names is not None:  # the model was fitted to the bare numbers
            model = dataclasses.replace(model, feature_names=np.array(names, dtype=np.str_))
        self.model_ = model
        return self

    # ------------------------------------------------------------ embedding

    def fit_transform(self, X: Any, y: Any = None, batch: Any = None, **fit_params: Any) -> Array:
        """Fit to labelled samples, and embed them.

        Parameters
        ----------
        X, y, batch, **fit_params
            As for `fit`.

        Returns
        -------
        array, shape (n, k)

        Examples
        --------
        >>> from slce_xp import SLCE
        >>> X, y = [[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1]
        >>> SLCE().fit_transform(X, y).shape
        (4, 1)
        """
        if batch is None:
            return super().fit_transform(X, y, **fit_params)
        return self.fit(X, y, batch=batch, **fit_params).transform(X, batch=batch)

    def transform(self, X: Any, batch: Any = None) -> Array:
        r"""Embed samples.

        .. math:: Z = (X - 1 m^T)\, A , \qquad A = \text{components}^T , \; m = \text{mean}

        Parameters
        ----------
        X : array, sparse matrix, list of rows or data frame, shape (n, d)
            In the library and on the device of the fit. NumPy arrays must be finite; on other
            libraries NaN is propagated, because a check would synchronize the device.
        batch : array, shape (n,), optional
            The batch of each sample, if the fit had batches.

        Returns
        -------
        array, shape (n, k)

        Examples
        --------
        >>> from slce_xp import SLCE
        >>> slce = SLCE().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
        >>> slce.transform([[3.0], [4.0]])
        array([[0.],
               [1.]])
        """
        X = self._given(X, "transform")
        return self.model_.transform(X, batch=batch)

    def inverse_transform(self, X: Any) -> Array:
        r"""Map embedded samples back to input coordinates.

        .. math:: Z A^T + 1 m^T

        Parameters
        ----------
        X : array or data frame, shape (n, k)
            The output of `transform`, :math:`Z`.

        Returns
        -------
        array, shape (n, d)

        Examples
        --------
        >>> from slce_xp import SLCE
        >>> slce = SLCE().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
        >>> slce.inverse_transform([[0.0]])  # the mean of all samples
        array([[3.]])
        """
        check_is_fitted(self)
        check_not_masked(X, "X")
        if not is_of_another_library(X):
            X = check_array(X, input_name="X", estimator=self)
        self._check_same_place(X, "inverse_transform")
        if len(X.shape) == 2 and X.shape[1] != self.n_components_:
            raise invalid(
                "X",
                f"X must have {self.n_components_} columns, one for each component; got shape "
                f"{tuple(X.shape)}. Pass the output of transform()",
            )
        return self.model_.inverse_transform(X)

    # ------------------------------------------------------------ classes

    def predict(self, X: Any, batch: Any = None) -> Array:
        """Classify samples: the most probable class.

        For ``criterion="centroid"``, that of the nearest centroid in the embedding, unless
        `class_weight` is a dict.

        Parameters
        ----------
        X : array, sparse matrix, list of rows or data frame, shape (n, d)
            In the library and on the device of the fit.
        batch : array, shape (n,), optional
            The batch of each sample, if the fit had batches.

        Returns
        -------
        array, shape (n,)
            Labels, of `classes_`. Numbers are in the library and on the device of X, text and dates
            on the host.

        Examples
        --------
        >>> from slce_xp import SLCE
        >>> slce = SLCE().fit([[0.0], [1.0], [5.0], [6.0]], ["low", "low", "high", "high"])
        >>> slce.predict([[0.7], [4.0]]).tolist()
        ['low', 'high']
        """
        X = self._given(X, "predict")
        predicted = self.model_.predict(X, batch)
        if predicted.dtype.kind not in "biuf" or not _backend.is_array(X):
            return predicted
        moved = _backend.from_host(predicted, _backend.place_of(X))
        # JAX has no 64-bit numbers by default: labels that it would change stay on the host.
        return moved if np.array_equal(_backend.to_host(moved), predicted) else predicted

    def predict_proba(self, X: Any, batch: Any = None) -> Array:
        """The probability of each class, if classes are Gaussians of one spread in the embedding.

        See `slce_xp.Model.predict_proba`.

        Parameters
        ----------
        X : array, sparse matrix, list of rows or data frame, shape (n, d)
            In the library and on the device of the fit.
        batch : array, shape (n,), optional
            The batch of each sample, if the fit had batches.

        Returns
        -------
        array, shape (n, K)
            Columns are those of `classes_`; in the library and on the device of X.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from slce_xp import SLCE
        >>> X, y = load_iris(return_X_y=True)
        >>> SLCE().fit(X, y).predict_proba(X[:1]).round(3)
        array([[1., 0., 0.]])
        """
        X = self._given(X, "predict_proba")
        return self.model_.predict_proba(X, batch)

    def score(self, X: Any, y: Any, sample_weight: Any = None, batch: Any = None) -> float:
        """The share of samples that `predict` classifies rightly.

        Parameters
        ----------
        X : array, sparse matrix, list of rows or data frame, shape (n, d)
        y : array, list or Series, shape (n,)
            The true labels.
        sample_weight : array, shape (n,), optional
            The weight of each sample.
        batch : array, shape (n,), optional
            The batch of each sample, if the fit had batches.

        Returns
        -------
        float

        Examples
        --------
        >>> from slce_xp import SLCE
        >>> X, y = [[0.0], [1.0], [5.0], [6.0]], ["low", "low", "high", "high"]
        >>> SLCE().fit(X, y).score([[2.0], [2.5], [3.5]], ["low", "high", "high"])
        0.6666666666666666
        """
        y, predicted, sample_weight = (
            _backend.to_host(values) if _backend.is_array(values) else values
            for values in (one_column(y), self.predict(X, batch), sample_weight)
        )
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _given(self, X: Any, method: str) -> Any:
        check_is_fitted(self)
        finite = True if self.missing is None else "allow-nan"
        X = checked(self, X, reset=False, ensure_all_finite=finite)
        self._check_same_place(X, method)
        return X

    def _check_same_place(self, X: Any, method: str) -> None:
        if not _backend.is_array(X):
            return  # sparse: checked by the model
        place = _backend.place_of(self.mean_)
        try:
            _parameters.check_same_place(X, place, "X")
        except ValueError as error:
            # As worded by scikit-learn's own estimators, with the remedy.
            raise invalid(
                "X",
                f"Inputs passed to SLCE.{method}() must use the same namespace and the same device "
                f"as those passed to fit(). {error}",
            ) from None

    @property
    def _n_features_out(self) -> int:
        """The number of names that `get_feature_names_out` returns."""
        return int(self.n_components_)

    # ------------------------------------------------------------ library and file

    def to(self, backend: str | ModuleType, device: Any = None) -> SLCE:
        """Return the fitted estimator in another array library or on another device.

        Parameters
        ----------
        backend : str or namespace
            'numpy', 'cupy', 'torch', 'jax', ...
        device : optional
            A device of that library; None: its default.

        Returns
        -------
        SLCE
            A new estimator with the same parameters.

        Examples
        --------
        >>> from slce_xp import SLCE
        >>> slce = SLCE().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
        >>> slce.to("numpy").components_
        array([[1.]])
        """
        check_is_fitted(self)
        moved: SLCE = clone(self)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(moved, name, getattr(self, name))
        return moved._adopt(self.model_.to(backend, device))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to an .npz file of plain arrays; `slce_xp.load` loads it.

        Parameters
        ----------
        path : path
            Replaced if it exists.

        Examples
        --------
        >>> import os, tempfile, slce_xp
        >>> slce = slce_xp.SLCE().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     slce.save(os.path.join(folder, "slce.npz"))
        ...     slce_xp.load(os.path.join(folder, "slce.npz")).n_components
        1
        """
        check_is_fitted(self)
        self.model_.save(path)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing is not None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = True
        return tags


def checked(estimator: Any, X: Any, *, reset: bool, ensure_all_finite: bool | str) -> Any:
    """Return `X` for a fit or a model, after scikit-learn's checks of names, numbers and shape."""
    matrix.refuse_unreadable(X)
    check_not_masked(X, "X")  # scikit-learn would drop the mask
    if is_of_another_library(X):
        # Checked by the fit and the model: scikit-learn would require `array_api_dispatch`.
        return validate_data(estimator, X=X, reset=reset, skip_check_array=True)
    options = {"accept_sparse": _SPARSE, "ensure_all_finite": ensure_all_finite}
    if not hasattr(X, "columns"):
        return validate_data(estimator, X=X, reset=reset, **options)
    validate_data(estimator, X=X, reset=reset, skip_check_array=True)  # the names of a frame
    values = matrix.as_matrix(X)  # raises an error that names a column without numbers
    return check_array(values, input_name="X", estimator=estimator, **options)


def is_of_another_library(X: Any) -> bool:
    """Whether scikit-learn would convert `X` to NumPy, or fail to."""
    if isinstance(X, np.ndarray):
        return row_reader.is_row_sliceable(X)
    if _backend.is_dask(X) or _backend.is_array(X):
        return True
    if hasattr(X, "nnz"):
        return not type(X).__module__.startswith("scipy.")
    return row_reader.is_row_sliceable(X)


def check_given(estimator: Any, y: Any) -> None:
    """Raise ValueError, in scikit-learn's words, if there are no labels."""
    if y is None:
        raise invalid(
            "y",
            f"{type(estimator).__name__} requires y to be passed, but the target y is None. It is "
            "supervised: pass one label per sample, or use PCA",
        )


def one_column(y: Any) -> Any:
    """Return y of shape (n,), with scikit-learn's warning for a column of shape (n, 1)."""
    shape: tuple = np.shape(y) if isinstance(y, (list, tuple)) else getattr(y, "shape", ())
    if len(shape) != 2 or shape[1] != 1:
        return y
    warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y "
        "to (n_samples, ), for example using ravel().",
        DataConversionWarning,
    )
    values = y if _backend.is_array(y) else np.asarray(y)
    return values[:, 0]


def seed_of(random_state: Any) -> Any:
    """Return an integer seed for the fit, drawn from a RandomState if one is given."""
    if isinstance(random_state, numbers.Integral):
        return random_state
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
