"""The fitted model."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from slce_xp import _backend, _features, _files, _html, _methods, _parameters, _summary
from slce_xp._backend import Array, Place, Sparse
from slce_xp._data import matrix as _matrix
from slce_xp._data.label_values import plain
from slce_xp._data.labels import as_batch
from slce_xp._data.missing import warn_if_many
from slce_xp._data.open import open_rows
from slce_xp._data.row_reader import RowReader
from slce_xp._errors import invalid, warn, wrong_type
from slce_xp._planning.plan import Plan
from slce_xp.core import _eigen, _pairs
from slce_xp.core._given import check_not_masked
from slce_xp.core._planes import Plane
from slce_xp.core._rows import BlockRows, Rows

ARRAYS = ("components", "eigenvalues", "mean", "centroids", "counts", "weights")
_OPTIONAL_ARRAYS = ("scale", "patterns", "log_odds", "batch_shifts")
# Fields of a model by their names in files, and those with labels.
NAMES_IN_FILES = {"_gap": "separation_gap", "_spread": "spread"}
LABELS = {"classes", "batches"}
MOST_CONFUSIONS = 100  # pairs of classes that `Model.confusions` has


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Model:
    r"""A fitted Supervised Linear Centroid-Encoder.

    The rows of `components` span the subspace that best reconstructs the class centroids,

    .. math:: \min_{A^T A = I} \lVert \tilde C - X A A^T \rVert_F^2 ,

    and are eigenvectors of :math:`M = S_b - S_w` for its algebraically largest eigenvalues. Here
    :math:`A`, of shape (d, k), is the transpose of `components`, and :math:`X` and
    :math:`\tilde C` are centred. Arrays are of the library and on the device that the fit used.
    Models are returned by `slce_xp.fit` and `slce_xp.load`.

    Attributes
    ----------
    components : array, shape (k, d)
        Orthonormal rows, by descending eigenvalue; the entry of largest magnitude in each
        is positive.
    eigenvalues : array, shape (k,)
        Descending. Only positive ones lower the loss. In float64 if the dtype of the fit cannot
        represent them.
    mean : array, shape (d,)
        The mean of all samples.
    centroids : array, shape (K, d)
        The class means, in input coordinates.
    classes : numpy.ndarray, shape (K,)
        The labels, sorted, on the host.
    counts : array of integers, shape (K,)
        Samples per class.
    weights : array, shape (K,)
        The weight of each class: its count if samples have no weights.
    n_unlabeled : int
        Samples without a label.
    n_positive : int
        How many of the returned eigenvalues are known to be positive, that is above `zero_level`.
    n_positive_bounds : tuple of int
        Lower and upper bound of the number of exact eigenvalues above `zero_level` among those
        requested; `n_positive` is the lower one.
    zero_level : float or None
        Eigenvalues up to this count as zero: it is a small multiple of rounding and, after an
        iteration, of its tolerance. None in models of criterion "separation" and in files of
        earlier versions.
    residual : float or None
        ‖M Aᵀ − Aᵀ diag(μ)‖ of the positive components, beyond rounding, in the units of
        eigenvalues; 0 for the scatter form.
    angle_bounds : numpy.ndarray, shape (k,), or None
        Bounds of the largest angle between the span of the first 1, 2, … components and the exact
        one, in radians; infinite if none is proved. See :doc:`/promise`.
    total_loss : float
        The loss without components, ‖C̃‖² = tr(S_b), and λ·tr(S_t) of samples without a label.
    plan : Plan
        How it was computed; `plan.form` is the form of the eigenproblem.
    passes : int
        Passes over X of an iteration; 0 for the dense forms.
    scale : array, shape (d,), or None
        Divisors of the columns, applied before `components`; None: not scaled. See `unscaled`.
    feature_names : numpy.ndarray of str, shape (d,), or None
        The names of the columns, if X was a data frame with names.
    note : str
        What a column of much larger units than the others did to the fit; empty if nothing.
    criterion : {"centroid", "separation"}
        The criterion that components optimise; see `slce_xp.fit`. For "separation" they satisfy
        AᵀNA = I instead of AᵀA = I, with the metric N of the spread within classes, `eigenvalues`
        are variances of the class means along them, and there is no loss.
    patterns : array, shape (k, d), or None
        Rows of AᵀN, for "separation": what one unit of each component looks like in the features.
    shrinkage : float or None
        The weight of the diagonal in N.
    log_odds : array, shape (K,), or None
        For criterion "centroid", the logarithms of the weights that a dict of `class_weight` gave
        the classes, up to a constant, which `predict` adds to their log-likelihoods if `spread` is
        known.
    separation : float or None
        The probability that a sample of one of two classes is distinguished from the other class: a
        mean over pairs of classes by their shares, if classes are Gaussians with the covariance N.
    filled : float or None
        The share of X that was missing, if the fit filled it with the means of columns; missing
        values are filled in `transform` and `predict`, too.
    batches : numpy.ndarray, shape (B,), or None
        The labels of the batches whose effects were removed, sorted.
    batch_shifts : array, shape (B, k), or None
        What is subtracted from the embedding of a batch's samples; their mean over all samples of
        the fit is zero.
    temperature : float or None
        What logarithms of probabilities are divided by, so that those of held-out samples are
        right; above 1 if they would be too extreme. None: `predict_proba` is not calibrated.

    See Also
    --------
    slce_xp.fit : Fits a model.
    slce_xp.load : Loads one from a file.

    Examples
    --------
    >>> import numpy as np, slce_xp
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0], [1.0, 5.0]])
    >>> model = slce_xp.fit(X, ["low", "low", "high", "high"])
    >>> print(np.round(model.components, 6) + 0.0)
    [[0. 1.]]
    >>> model.transform(X).shape
    (4, 1)
    >>> print(f"{model.total_loss:.6g} before, {abs(model.loss):.6f} after")
    25 before, 0.000000 after
    """

    components: Array
    eigenvalues: Array
    mean: Array
    centroids: Array
    classes: np.ndarray
    counts: Array
    weights: Array
    n_unlabeled: int
    n_positive: int
    total_loss: float
    plan: Plan
    passes: int = 0
    zero_level: float | None = None
    residual: float | None = None
    angle_bounds: np.ndarray | None = None
    scale: Array | None = None
    feature_names: np.ndarray | None = None
    n_positive_bounds: tuple[int, int] | None = None
    note: str = ""
    criterion: str = "centroid"
    patterns: Array | None = None
    shrinkage: float | None = None
    separation: float | None = None
    log_odds: Array | None = None
    temperature: float | None = None
    _spread: float | None = None  # see `spread`
    filled: float | None = None
    batches: np.ndarray | None = None
    batch_shifts: Array | None = None
    _gap: Plane | float | None = None  # see `separation_gap`

    def __post_init__(self) -> None:
        """Set missing bounds to `n_positive`, and let JAX know the class if it is JAX's."""
        if self.n_positive_bounds is None:
            object.__setattr__(self, "n_positive_bounds", (self.n_positive, self.n_positive))
        _backend.register_pytree(self, (*ARRAYS, *_OPTIONAL_ARRAYS))

    # ------------------------------------------------------------ results of the fit

    @property
    def solver(self) -> str:
        """The form of the eigenproblem that was solved."""
        return self.plan.form

    @property
    def angle_bound(self) -> float:
        """A bound of the largest angle between the subspace and the exact one, in radians.

        The last of `angle_bounds`: infinite if none is proved, 0 without components.
        """
        if self.angle_bounds is None:
            return math.inf
        return float(self.angle_bounds[-1]) if len(self.angle_bounds) else 0.0

    @property
    def n_components(self) -> int:
        """The number of components, k."""
        return int(self.components.shape[0])

    @property
    def n_features(self) -> int:
        """The number of features, d."""
        return int(self.mean.shape[0])

    @property
    def n_samples(self) -> int:
        """The number of samples the model was fitted on."""
        return int(self.plan.n_samples)

    @property
    def loss(self) -> float:
        r"""The loss of all components (Property 5 of the paper), a float.

        .. math:: \lVert \tilde C - X A A^T \rVert_F^2
            = \operatorname{tr} S_b - \sum_{i \le k} \mu_i
        """
        self._check_has_loss("loss")
        eigenvalues = _backend.to_host(self.eigenvalues)
        return self.total_loss - float(eigenvalues.sum(dtype=np.float64))

    def _check_has_loss(self, name: str) -> None:
        if self.criterion != "centroid":
            raise invalid(
                "criterion",
                f"{name} needs criterion='centroid'; this model has {self.criterion!r}, see its "
                "separation and confusions",
            )

    @property
    def loss_curve(self) -> Array:
        r"""The loss after 1 to k components, shape (k,): lowest after `n_positive` of them.

        Its j-th entry is :math:`\operatorname{tr} S_b - \sum_{i \le j} \mu_i`.

        Examples
        --------
        >>> import slce_xp
        >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 5.0], [1.0, 5.0]]
        >>> model = slce_xp.fit(X, [0, 0, 1, 1], n_components=1)
        >>> model.loss_curve.shape
        (1,)
        """
        self._check_has_loss("loss_curve")
        return self.total_loss - self._place.xp.cumulative_sum(self.eigenvalues)

    @property
    def loss_shares(self) -> Array:
        r"""The share of the loss that each component removes, shape (k,).

        .. math:: \frac{\mu_i}{\operatorname{tr} S_b}
            = 1 - \frac{\lVert \tilde C - X a_i a_i^T \rVert_F^2}{\lVert \tilde C \rVert_F^2}

        What `explained_variance_ratio_` of PCA is for the variance: shares add up to the part of
        `total_loss` that all components remove, at most 1. A component that raises the loss has
        a negative share.

        Examples
        --------
        >>> import numpy as np, slce_xp
        >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 5.0], [1.0, 5.0], [9.0, 0.0], [8.0, 0.0]]
        >>> model = slce_xp.fit(X, [0, 0, 1, 1, 2, 2])
        >>> print(np.round(model.loss_shares, 3))
        [0.803 0.184]
        """
        self._check_has_loss("loss_shares")
        if self.total_loss == 0.0:
            return self._place.xp.zeros_like(self.eigenvalues)
        return self.eigenvalues / self.total_loss

    @property
    def importance(self) -> Array:
        r"""How much each feature takes part in the loss that components remove, shape (d,).

        .. math:: v_j = \sqrt{d \, \frac{\sum_i \mu_i^+ a_{ij}^2}{\sum_i \mu_i^+}}

        The mean of :math:`v_j^2` is 1; for PLS it is known as VIP. Their scale is that of the
        columns: standardise these if their units differ. No value of it means that a feature is
        important: without any signal a third of all features exceed 1. See
        `slce_xp.importance_interval`. All are 0 if no component lowers the loss.

        Examples
        --------
        >>> import numpy as np, slce_xp
        >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 5.0], [1.0, 5.0], [9.0, 0.0], [8.0, 0.0]]
        >>> print(np.round(slce_xp.fit(X, [0, 0, 1, 1, 2, 2]).importance, 3))
        [1.196 0.754]
        """
        self._check_has_loss("importance")
        largest = float(_backend.to_host(self.eigenvalues).max(initial=0.0))
        if self.n_positive and not np.finfo(np.float64).tiny <= largest < math.inf:
            raise invalid(
                "X",
                "X must be scaled for importance, which is a ratio of eigenvalues: these must be "
                f"within the range of float64; the largest is {largest}. Fit X in other units",
            )
        return _features.importance(self.components, self.eigenvalues)

    @property
    def highest_class(self) -> np.ndarray:
        """The label of the class in which each feature is highest in the mean, shape (d,)."""
        highest = self._place.xp.argmax(self.centroids, axis=0)
        return np.asarray(self.classes[_backend.to_host(highest)])

    def structure(self, X: Any, batch: Any = None) -> Array:
        """The correlation of each feature with each component, shape (d, k).

        What a component stands for: unlike `components` it does not depend on the units of the
        features, nor on which of several correlated features got the weight.

        Parameters
        ----------
        X : array, sparse matrix, data frame or row-sliceable object, shape (n, d)
            Samples, such as those of the fit. Read three times.
        batch : array, shape (n,)
            As for `transform`.

        Returns
        -------
        array, shape (d, k)
            0 for features that do not vary, and for components along which X does not vary.

        Examples
        --------
        >>> import numpy as np, slce_xp
        >>> X = [[0.0, 0.0], [1.0, 3.0], [0.0, 5.0], [1.0, 8.0]]
        >>> model = slce_xp.fit(X, [0, 0, 1, 1])
        >>> print(np.round(model.structure(X), 2))
        [[0.49]
         [1.  ]]
        """
        self._check_names(X)
        source = self._source(X, self.n_features, "X")
        source.fill = None if self.filled is None else self.mean
        shifted = self._shifts_of(batch, source.n)
        with _backend.computing(self._place):
            axes, _ = self._axes(self._place.xp, source.dtype)
            eps = _eigen.eps_of(self.components)
            return _features.structure(source, axes, shifted, self.scale, eps)

    def methods(self) -> str:
        """Sentences for the methods section of a paper, with the numbers of the model.

        Add how samples were chosen and preprocessed, and the accuracy on samples that were held
        out: see :doc:`/reporting`.

        Examples
        --------
        >>> import slce_xp
        >>> model = slce_xp.fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
        >>> print(model.methods()[:63])
        4 samples of 2 classes with 1 features were embedded in 1 dimen
        """
        return _methods.methods(self)

    @property
    def component_losses(self) -> Array:
        r"""The loss of each component alone (Property 4), shape (k,).

        .. math:: \lVert \tilde C - X a a^T \rVert_F^2 = \operatorname{tr} S_b - \mu
        """
        self._check_has_loss("component_losses")
        return self.total_loss - self.eigenvalues

    @property
    def eigenvalue_bounds(self) -> Array:
        r"""The leading eigenvalues of 2·S_b, shape (k,): upper bounds of `eigenvalues`.

        .. math:: \mu_i = \lambda_i(2 S_b - S_t) \le \lambda_i(2 S_b)

        2·S_b is positive semi-definite of rank at most K − 1 (Properties 1 and 2), so from
        the K-th on the bound is zero and no eigenvalue is positive (Property 3). With unlabelled
        samples there is no such bound, and ValueError is raised.

        Examples
        --------
        >>> import slce_xp
        >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 5.0], [1.0, 5.0]]
        >>> model = slce_xp.fit(X, [0, 0, 1, 1])
        >>> print(f"{model.eigenvalues[0]:.6g} ≤ {model.eigenvalue_bounds[0]:.6g}")
        25 ≤ 50
        """
        self._check_has_loss("eigenvalue_bounds")
        if self.n_unlabeled:
            raise invalid(
                "unlabeled",
                f"eigenvalue_bounds hold if every sample has a label; {self.n_unlabeled} of this "
                "fit had none. Fit without unlabeled=",
            )
        xp = self._place.xp
        between = xp.sqrt(self.weights)[:, None] * (self.centroids - self.mean)
        if self.scale is not None:
            between = between / self.scale
        # In units of a power of two, so that squares are within the range of the dtype.
        known = 0.0 < self.total_loss < math.inf
        exponent = math.frexp(self.total_loss)[1] // 2 if known else 0
        between = between * 2.0 ** -(exponent // 2) * 2.0 ** -(exponent - exponent // 2)
        n_classes, d = between.shape
        gram = between @ between.T if n_classes <= d else between.T @ between
        k = min(self.n_components, gram.shape[0])
        values, _ = _backend.largest_eigenpairs(2.0 * gram, k)
        bounds = np.append(_backend.read(values[:k])[0], np.zeros(self.n_components - k))
        name = "eigenvalue_bounds"
        return _eigen.in_units(bounds, 2 * exponent, self._place, values.dtype, name)

    def __str__(self) -> str:
        return _summary.summary(self)

    @functools.cached_property
    def spread(self) -> float | None:
        r"""The standard deviation of samples about the centroids of their classes, a float.

        In the embedding, pooled over classes and the q = min(k, K − 1) first components,

        .. math:: \sigma^2 = \frac1{nq} \sum_{i \le q} a_i^T S_w a_i
            = \frac1{nq} \sum_{i \le q} (a_i^T S_b a_i - \mu_i)

        and at least what rounding leaves: what `predict_proba` takes for that of a Gaussian. For
        criterion "separation" it is 1, by the scale of its components. None, for it is not known,
        if some samples of batches had no label.

        Examples
        --------
        >>> import slce_xp
        >>> round(slce_xp.fit([[0.0], [4.0], [5.0], [9.0]], [0, 0, 1, 1]).spread, 6)
        2.0
        """
        if not self._has_spread:
            return None
        with _backend.computing(self._place):
            means, unit = self._class_means(self._place.xp, _backend.longest_float(self._place))
            variance, length = map(float, _backend.read(self._variance(means, unit), unit))
        # Eigenvalues beyond the range of numbers are infinite or zero.
        info = np.finfo(_backend.dtype_name(means.dtype))
        in_range = info.tiny < length**2 < info.max / self.n_samples
        return length * math.sqrt(variance) if in_range else math.nan

    @property
    def _has_spread(self) -> bool:
        return self.criterion == "separation" or self._spread is not None or not self.n_unlabeled

    def _repr_html_(self) -> str:
        return _html.table(str(self))

    @property
    def separation_gap(self) -> float | None:
        """A proved bound of what any other k components could add to `separation`.

        Computed when it is first asked for, or saved, from class means that the model keeps. None
        for criterion "centroid".

        Examples
        --------
        >>> import slce_xp
        >>> X = [[0.0, 0.0], [1.0, 0.0], [2.0, 3.0], [3.0, 3.0], [9.0, 0.0], [10.0, 1.0]]
        >>> model = slce_xp.fit(X, [0, 0, 1, 1, 2, 2], 1, criterion="separation")
        >>> 0 <= model.separation_gap < 0.01
        True
        """
        return self._gap.gap if isinstance(self._gap, Plane) else self._gap

    @property
    def confusions(self) -> tuple[tuple[Any, Any, float], ...]:
        """Pairs of classes that the embedding separates least: both labels and a probability.

        At most 100 pairs, the most overlapping first. The probability is that of mistaking
        a sample of one for the other, if classes are Gaussians with the covariance N: 0.5 for
        classes with the same mean. ValueError is raised for criterion "centroid", which has no N.

        Examples
        --------
        >>> import slce_xp
        >>> X = [[0.0], [1.0], [2.0], [3.0], [9.0], [10.0]]
        >>> model = slce_xp.fit(X, ["a", "a", "b", "b", "c", "c"], criterion="separation")
        >>> [(str(i), str(j), round(p, 3)) for i, j, p in model.confusions]
        [('a', 'b', 0.023), ('b', 'c', 0.0), ('a', 'c', 0.0)]
        """
        self._check_has_metric("confusions")
        with _backend.computing(self._place):
            means = _backend.to_host(self._embedded(self._place.xp, self.centroids))
        found = _pairs.confused_most(means.astype(np.float64), MOST_CONFUSIONS)
        return tuple((self.classes[i], self.classes[j], overlap) for i, j, overlap in found)

    def _check_has_metric(self, name: str) -> None:
        if self.criterion != "separation":
            raise invalid(
                "criterion",
                f"{name} needs criterion='separation', which has a metric of the spread within "
                f"classes; this model has {self.criterion!r}. Fit with that criterion",
            )

    def __repr__(self) -> str:
        return (
            f"<slce_xp.Model: {self.n_features} features → {self.n_components} components, "
            f"{len(self.classes)} classes, {self._place}>"
        )

    # ------------------------------------------------------------ embedding

    def transform(self, X: Any, out: Any = None, batch: Any = None) -> Any:
        r"""Embed samples.

        .. math:: Z = (X - 1 m^T)\, A , \qquad A = \text{components}^T , \; m = \text{mean}

        Columns are divided by `scale` first, if the model has one. The embedding of a sample with
        a missing value is NaN. Torch and JAX differentiate it with respect to X, and compile it.

        Parameters
        ----------
        X : array, sparse matrix, list of rows, data frame or row-sliceable object, shape (n, d)
            In the model's library and on its device. Row-sliceable objects, such as a memmap or an
            HDF5 dataset, are read and moved there in blocks. A Dask array gives a Dask array.
        out : path or array, optional
            Where to write the embedding, in blocks: a path that ends in .npy or .zarr, which is
            written completely or not at all, or an array on the host of shape (n, k), such as one
            of zarr or h5py.
        batch : array, list or Series, shape (n,)
            The batch of each sample, for a model that was fitted with batches, and only for such.
            Samples of a batch that the fit did not have are not corrected, with a warning.

        Returns
        -------
        array, shape (n, k)
            Or `out`; for a path, the file, opened for reading.

        Examples
        --------
        >>> import os, tempfile, numpy as np, slce_xp
        >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [5.0, 0.0], [6.0, 0.0]])
        >>> model = slce_xp.fit(X, [0, 0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(os.path.join(folder, "X.npy"), X)
        ...     rows = np.load(os.path.join(folder, "X.npy"), mmap_mode="r")
        ...     model.transform(rows, out=os.path.join(folder, "Z.npy")).shape
        (4, 1)
        """
        if self._is_traced(X):
            embedded = self._call_traced(self._embedded, X, self.n_features, "X")
            return self._shifts_of(batch, X.shape[0])(embedded)
        self._check_names(X)
        source = self._source(X, self.n_features, "X")
        shifted = self._shifts_of(batch, source.n)
        with _backend.computing(self._place):
            if _backend.is_dask(X):
                if out is not None:
                    raise invalid(
                        "out",
                        "out must be None for a Dask array, whose embedding is a Dask array; got "
                        f"{out!r}. Store that: model.transform(X).to_zarr(path)",
                    )
                embed = self._embedding(source.dtype, source.is_sparse)
                return shifted(source.map(embed, self.n_components))  # type: ignore[attr-defined]
            made = self.n_components if source.is_sparse else source.d
            embed = self._embedding(source.dtype, source.is_sparse)
            assert isinstance(source, BlockRows)
            counts: list[Array] = []
            if self.filled is not None and not source.is_sparse:
                embed = partial(self._embed_counting, embed, counts)
            with source.reading(made) as blocks:
                if out is None:
                    pieces = [shifted(embed(rows), block) for block, rows in blocks]
                    found = self._place.xp.concat(pieces, axis=0) if len(pieces) > 1 else pieces[0]
                else:
                    shape = (source.n, self.n_components)
                    dtype = np.dtype(_backend.dtype_name(source.dtype))
                    embedded = (
                        (block, _backend.to_host(shifted(embed(rows), block)))
                        for block, rows in blocks
                    )
                    found = _files.write_rows(out, shape, dtype, embedded)
            if counts:
                missing = sum(map(float, _backend.read(*counts)))
                warn_if_many(missing / (source.n * source.d))
        return found

    def _embed_counting(
        self, embed: Callable[[Array], Array], counts: list[Array], rows: Array
    ) -> Array:
        """Embed rows, and add how many of their numbers are missing to the counts."""
        if _backend.is_floating(rows):
            xp = self._place.xp
            counts.append(xp.sum(xp.astype(xp.isnan(rows), self.mean.dtype)))
        return embed(rows)

    def _shifts_of(self, batch: Any, n: int) -> Callable[..., Array]:
        """The function that corrects the embedding of a block of n samples for their batches."""
        if self.batches is None or self.batch_shifts is None:
            if batch is not None:
                raise invalid(
                    "batch", "batch must be left out: the model was fitted without batches"
                )
            return lambda embedded, block=None: embedded
        if batch is None:
            raise invalid(
                "batch",
                "batch must name the batch of each sample, as in the fit, which had "
                f"{len(self.batches)} batches; got None. Pass batch=",
            )
        xp, _ = self._place
        codes, labels = as_batch(batch, n)
        known = {label: i for i, label in enumerate(plain(self.batches))}
        found = np.array([known.get(label, len(known)) for label in plain(labels)])
        if (found == len(known)).any():
            strange = [label for label in plain(labels) if label not in known]
            warn(f"the fit had no batches {strange[:10]}: their samples are not corrected")
        table = xp.concat([self.batch_shifts, 0.0 * self.batch_shifts[:1, :]], axis=0)
        codes = _backend.from_host(found[codes], self._place)

        def shifted(embedded: Array, block: slice = slice(None)) -> Array:
            return embedded - xp.take(table, codes[block], axis=0)

        return shifted

    def affine(self) -> tuple[Array, Array]:
        r"""Return the embedding as one affine map, for use without this package.

        .. math:: z = x W^T + b

        Columns need not be scaled first: `scale` is part of W. Far from the origin `transform`,
        which subtracts the mean first, has more digits. If the model has `batches`, subtract the
        row of `batch_shifts` of the batch of x.

        Returns
        -------
        W : array, shape (k, d)
        b : array, shape (k,)

        Examples
        --------
        >>> import numpy as np, slce_xp
        >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [5.0, 0.0], [6.0, 0.0]])
        >>> model = slce_xp.fit(X, [0, 0, 1, 1])
        >>> W, b = model.affine()
        >>> np.allclose(X @ W.T + b, model.transform(X))
        True
        """
        with _backend.computing(self._place):
            axes, mean = self._axes(self._place.xp, self.mean.dtype)
            return axes.T, -(mean @ axes)

    def _embedding(self, dtype: Any, is_sparse: bool) -> Callable[[Array], Array]:
        """Return the function that embeds rows of X of a dtype."""
        xp, _ = self._place
        axes, mean = self._axes(xp, dtype)
        if is_sparse:
            return partial(_embed_sparse, axes, mean)
        return partial(_embed_any, axes, mean, self.filled is not None)

    def _axes(self, xp: Any, dtype: Any) -> tuple[Array, Array]:
        """What samples are multiplied by, shape (d, k), and the mean, in a dtype."""
        axes = self.components.T
        if self.scale is not None:
            axes = axes / self.scale[:, None]
        return xp.astype(axes, dtype, copy=False), xp.astype(self.mean, dtype, copy=False)

    def _embedded(self, xp: Any, rows: Array) -> Array:
        return _embed(*self._axes(xp, rows.dtype), self.filled is not None, rows)

    def _restored(self, xp: Any, rows: Array) -> Array:
        """Rows of an embedding in input coordinates."""
        axes = self.components if self.patterns is None else self.patterns
        axes = axes if self.scale is None else axes * self.scale
        restored = rows @ xp.astype(axes, rows.dtype)
        restored += xp.astype(self.mean, rows.dtype)
        return restored

    # ------------------------------------------------------------ without values

    def _is_traced(self, X: Any) -> bool:
        return _backend.is_traced(X) or _backend.is_traced(self.mean)

    def _call_traced(
        self, method: Callable[[Any, Array], Array], X: Any, width: int, name: str
    ) -> Array:
        """Call a method on rows that ``jax.jit``, ``torch.compile`` or the like traces."""
        is_known = not _backend.is_traced(X)
        traced = self.mean if is_known else X
        xp = _backend.traced_namespace(traced)
        X = xp.asarray(X, device=None) if is_known else X
        _matrix.check_is_matrix(X, name)
        self._check_width(X, width, name)
        dtype = xp.float64 if X.dtype == xp.float64 else self.mean.dtype
        return _backend.call_traced(lambda: method(xp, xp.astype(X, dtype, copy=False)), traced)

    def inverse_transform(self, Z: Any) -> Array:
        r"""Map embedded samples back to input coordinates.

        .. math:: Z A^T + 1 m^T

        For criterion "separation" it is :math:`Z A^T N + 1 m^T`, the expected sample of a Gaussian
        with the covariance N that has this embedding. Columns are multiplied by `scale`, if the
        model has one. Either way, `transform` of the result is `Z`.

        Parameters
        ----------
        Z : array, shape (n, k)
            The output of `transform`.

        Returns
        -------
        array, shape (n, d)

        Examples
        --------
        >>> import slce_xp
        >>> model = slce_xp.fit([[0.0, 1.0], [1.0, 1.0], [5.0, 0.0], [6.0, 0.0]], [0, 0, 1, 1])
        >>> model.inverse_transform([[0.0]])  # the mean of all samples
        array([[3. , 0.5]])
        """
        if self._is_traced(Z):
            return self._call_traced(self._restored, Z, self.n_components, "Z")
        source = self._source(Z, self.n_components, "Z")
        if source.is_sparse:
            raise wrong_type("Z", "Z must be dense, as transform returns it; got a sparse matrix")
        with _backend.computing(self._place):
            if not isinstance(source, BlockRows):
                return source.map(partial(self._restored, self._place.xp), self.n_features)  # type: ignore[attr-defined]
            xp = self._place.xp
            return self._restored(xp, xp.astype(source.whole(), source.dtype, copy=False))

    def reconstruct(self, X: Any, batch: Any = None) -> Array:
        r"""Project samples onto the subspace, in input coordinates.

        .. math:: (X - 1 m^T) A A^T + 1 m^T

        The projection is one of scaled columns if the model has a `scale`. For criterion
        "separation" it is :math:`(X - 1 m^T) A A^T N + 1 m^T`, a projection as well; with all K − 1
        components the centroid of each class is its own reconstruction.

        Parameters
        ----------
        X : array, list of rows or data frame, shape (n, d)
        batch : array, shape (n,)
            As for `transform`.

        Returns
        -------
        array, shape (n, d)
            The reconstruction of each sample's class centroid.

        Examples
        --------
        >>> import numpy as np, slce_xp
        >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0], [1.0, 5.0]])
        >>> model = slce_xp.fit(X, [0, 0, 1, 1])
        >>> print(np.round(model.reconstruct(X), 6) + 0.0)  # each sample's centroid
        [[0.5 0. ]
         [0.5 0. ]
         [0.5 5. ]
         [0.5 5. ]]
        """
        return self.inverse_transform(self.transform(X, batch=batch))

    # ------------------------------------------------------------ classes

    def predict(self, X: Any, batch: Any = None) -> Any:
        """Classify samples.

        The most probable class, see `predict_proba`: for criterion "centroid" that of the nearest
        centroid in the embedding, unless `class_weight` was a dict.

        Parameters
        ----------
        X : array, sparse matrix, list of rows, data frame or row-sliceable object, shape (n, d)
            As for `transform`, but for a Dask array.
        batch : array, shape (n,)
            As for `transform`.

        Returns
        -------
        numpy.ndarray, shape (n,)
            Labels, of `classes`. Compiled, by ``torch.export`` or ``jax.jit``, an array of labels,
        which must be numbers; values of X are not checked.

        Examples
        --------
        >>> import slce_xp
        >>> model = slce_xp.fit([[0.0], [1.0], [5.0], [6.0]], ["low", "low", "high", "high"])
        >>> model.predict([[0.7], [4.0]]).tolist()
        ['low', 'high']
        """
        if self._is_traced(X):
            if self.classes.dtype.kind not in "biuf":
                raise wrong_type(
                    "X",
                    "X must have values for labels that are not numbers; it is traced. Compile "
                    "predict_proba, and take model.classes[probabilities.argmax(axis=1)] outside",
                )
            embedded = self.transform(X, batch=batch)
            return self._call_traced(self._traced_labels, embedded, self.n_components, "Z")
        scores = self._scores(self._embedded_to_classify(X, batch))
        with _backend.computing(self._place):
            best = self._place.xp.argmax(scores, axis=1)
            return np.asarray(self.classes[_backend.to_host(best)])

    def _traced_labels(self, xp: Any, embedded: Array) -> Array:
        best = xp.argmax(self._likelihoods(xp, embedded), axis=1)
        return _backend.constant(list(self.classes.astype(object)), best)[best]

    def predict_proba(self, X: Any, batch: Any = None) -> Array:
        r"""The probability of each class, if classes are Gaussians of one spread in the embedding.

        .. math:: p_j \propto \pi_j \exp\Bigl(
            -\frac{\lVert A^T (x - c_j) \rVert^2}{2 \sigma^2}\Bigr)

        with the standard deviation σ = `spread`. For criterion "separation", σ = 1 and π are the
        shares of the classes; for "centroid", π are equal, or the weights of a `class_weight`.
        Classes that are not Gaussian make these probabilities too extreme: if the model was fitted
        with ``calibrate=True``, their logarithms are divided by `temperature`.

        Parameters
        ----------
        X : array, sparse matrix, list of rows, data frame or row-sliceable object, shape (n, d)
            As for `transform`, but for a Dask array.
        batch : array, shape (n,)
            As for `transform`.

        Returns
        -------
        array, shape (n, K)
            Rows sum to 1; columns are those of `classes`. Torch and JAX compile it; values of X are
            not checked then.

        Examples
        --------
        >>> import slce_xp
        >>> model = slce_xp.fit([[0.0], [4.0], [5.0], [9.0]], ["low", "low", "high", "high"])
        >>> print(model.classes, model.predict_proba([[4.5], [0.0]]).round(3))
        ['high' 'low'] [[0.5   0.5  ]
         [0.004 0.996]]
        """
        if self._is_traced(X):
            self._check_spread(self._has_spread)
            embedded = self.transform(X, batch=batch)
            return self._call_traced(self._traced_shares, embedded, self.n_components, "Z")
        return self._probabilities(self._embedded_to_classify(X, batch))

    def _probabilities(self, embedded: Array) -> Array:
        """The probability of each class for embedded samples, (n, k) ↦ (n, K)."""
        scores = self._scores(embedded)
        self._check_spread(self.spread is not None and not math.isnan(self.spread))
        with _backend.computing(self._place):
            return self._shares(self._place.xp, scores, embedded.dtype)

    @staticmethod
    def _check_spread(is_known: bool) -> None:
        if not is_known:
            raise invalid(
                "spread",
                "the spread within classes must be known for probabilities, which it is not after "
                "batches with samples without a label, nor if squares of X are out of the range of "
                "its dtype. Fit all samples at once, or scale X",
            )

    def _traced_shares(self, xp: Any, embedded: Array) -> Array:
        return self._shares(xp, self._likelihoods(xp, embedded), embedded.dtype)

    def _shares(self, xp: Any, scores: Array, dtype: Any) -> Array:
        odds = xp.exp(self._log_odds(xp, scores))
        return xp.astype(odds / xp.sum(odds, axis=1, keepdims=True), dtype, copy=False)

    def _log_odds(self, xp: Any, scores: Array) -> Array:
        """Logarithms of the probabilities of classes relative to the most probable, (n, K)."""
        scores = scores - xp.max(scores, axis=1, keepdims=True)
        return scores / (self.temperature or 1.0)

    def _embedded_to_classify(self, X: Any, batch: Any) -> Array:
        if _backend.is_dask(X):
            raise wrong_type(
                "X",
                "X must not be a Dask array to be classified; got one. Classify its chunks: "
                "X.rechunk({1: -1}).map_blocks(model.predict, dtype=model.classes.dtype, "
                "drop_axis=1)",
            )
        return self.transform(X, batch=batch)

    def _scores(self, embedded: Array) -> Array:
        """Log-likelihoods of classes as in `_likelihoods`, of samples that must be finite."""
        xp, longest = self._place.xp, _backend.longest_float(self._place)
        with _backend.computing(self._place):
            # In float32, squares of far classes would leave no digits to tell near ones apart.
            scores = self._likelihoods(xp, xp.astype(embedded, longest, copy=False))
            (finite,) = _backend.read(xp.all(xp.isfinite(scores), axis=1))
        if not finite.all():
            raise invalid(
                "X",
                "X must be finite to be classified; found a missing or infinite value in row "
                f"{int(np.argmin(finite))}, or one that is too far from all classes. Fill it, or "
                "drop the row",
            )
        return scores

    def _likelihoods(self, xp: Any, embedded: Array) -> Array:
        """Log-likelihoods of classes, up to a constant per sample, shape (n, K)."""
        means, unit = self._class_means(xp, embedded.dtype)
        scores = (embedded / unit) @ means.T - 0.5 * xp.sum(means * means, axis=1)
        if self._has_spread:
            scores = scores / self._variance(means, unit)
        if self.criterion == "separation":
            weights = xp.astype(self.weights, scores.dtype, copy=False)
            scores = scores + xp.log(weights / xp.max(weights, axis=0))
        elif self.log_odds is not None and self._has_spread:
            scores = scores + xp.astype(self.log_odds, scores.dtype, copy=False)
        return scores

    def _class_means(self, xp: Any, dtype: Any) -> tuple[Array, Array]:
        """The embedded centroids, shape (K, k), in a unit in which squares are in range; it."""
        means = self._embedded(xp, xp.astype(self.centroids, dtype, copy=False))
        unit = xp.ones_like(xp.sum(means))
        if self.criterion == "separation" or not self.n_components:
            return means, unit
        size = xp.max(xp.reshape(xp.abs(means), (-1,)), axis=0)
        unit = xp.where(size > 0.0, size, unit)
        return means / unit, unit

    def _variance(self, means: Array, unit: Array) -> Array:
        """The square of `spread`, from what `_class_means` returns and in its unit."""
        xp = _backend.namespace_of(means)
        if self.criterion == "separation":
            return xp.ones_like(unit)
        if self._spread is not None:
            return (self._spread / unit) ** 2
        weights, values = (
            xp.astype(a, means.dtype, copy=False) for a in (self.weights, self.eigenvalues)
        )
        # Others, asked for beyond them, may be null directions of X.
        count = max(1, min(self.n_components, len(self.classes) - 1))
        means = means[:, :count]
        between = xp.sum(weights * xp.sum(means * means, axis=1))
        within = between - xp.sum(values[:count] / unit / unit)
        least = xp.finfo(self.eigenvalues.dtype).eps * between
        variance = xp.maximum(within, least) / (xp.sum(weights) * count)
        return xp.where(variance > 0.0, variance, xp.ones_like(variance))

    def _check_names(self, X: Any) -> None:
        """Raise ValueError for a frame with other columns, or with columns in another order."""
        names = _matrix.feature_names(X)
        if names is None or self.feature_names is None or names.shape != self.feature_names.shape:
            return
        differ = np.flatnonzero(names != self.feature_names)
        if differ.size:
            first = differ[0]
            raise invalid(
                "X",
                f"X must have the columns that the model was fitted to, in their order; column "
                f"{first} is {str(names[first])!r}, not {str(self.feature_names[first])!r}. "
                "Choose them: X[list(model.feature_names)]",
            )

    def _source(self, X: Any, width: int, name: str) -> Rows:
        matrix = _matrix.as_matrix(X, name=name)
        if not isinstance(matrix, RowReader):  # not yet read, so on no device
            _parameters.check_same_place(matrix, self._place, name)
        self._check_width(matrix, width, name)
        xp, _ = self._place
        dtype = self.mean.dtype  # also for integers: not the library's default float
        like = _backend.move(_backend.without_rows(matrix), self._place)
        if _backend.is_floating(like):
            dtype = xp.result_type(_backend.working_dtype(like), dtype)
        return open_rows(matrix, dtype, self._place)

    @staticmethod
    def _check_width(matrix: Array, width: int, name: str) -> None:
        if matrix.shape[1] != width:
            raise invalid(
                name,
                f"{name} must have {width} columns, as many as the model's "
                f"{'features' if name == 'X' else 'components'}; got shape {tuple(matrix.shape)}",
            )

    # ------------------------------------------------------------ library, scale and file

    @property
    def _place(self) -> Place:
        return _backend.place_of(self.mean)

    def to(self, backend: str | ModuleType, device: Any = None) -> Model:
        """Return the model in another array library or on another device.

        Parameters
        ----------
        backend : str or namespace
            'numpy', 'cupy', 'torch', 'jax', ...
        device : optional
            A device of that library; None: its default.

        Returns
        -------
        Model

        Examples
        --------
        >>> import slce_xp
        >>> model = slce_xp.fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
        >>> model.to("numpy").components
        array([[1.]])
        """
        place = _parameters.named_place(backend, device)
        moved = {name: _backend.move(array, place) for name, array in self._arrays().items()}
        return dataclasses.replace(self, **moved)

    def unscaled(self, scale: Array) -> Model:
        """Return the model for X, from this one that was fitted to X / scale.

        Components, eigenvalues and losses remain those of the scaled columns; mean, centroids, the
        input of `transform` and the output of `inverse_transform` are unscaled.

        Parameters
        ----------
        scale : array, shape (d,)
            Positive, in the model's library and on its device.

        Returns
        -------
        Model

        Examples
        --------
        >>> import numpy as np, slce_xp
        >>> X = np.array([[0.0, 100.0], [1.0, 300.0], [5.0, 200.0], [6.0, 400.0]])
        >>> scale = X.std(axis=0)
        >>> scaled = slce_xp.fit(X / scale, [0, 0, 1, 1])
        >>> model = scaled.unscaled(scale)
        >>> np.allclose(model.transform(X), scaled.transform(X / scale))
        True
        """
        if self.scale is not None:
            raise invalid("scale", "the model has a scale already; unscale the one that was fitted")
        check_not_masked(scale, "scale")
        if not _backend.is_array(scale) or _backend.working_dtype(scale) is None:
            raise wrong_type(
                "scale",
                f"scale must be an array of real numbers; got {type(scale).__name__}"
                f"{f' of dtype {scale.dtype}' if hasattr(scale, 'dtype') else ''}. Convert it, as "
                "with numpy.asarray(scale, dtype=float)",
            )
        _parameters.check_same_place(scale, self._place, "scale")
        if tuple(scale.shape) != (self.n_features,):
            raise invalid(
                "scale",
                f"scale must have one number for each of {self.n_features} features; got shape "
                f"{tuple(scale.shape)}",
            )
        scale = self._place.xp.astype(scale, self.mean.dtype, copy=False)
        values = _backend.to_host(scale)
        wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if wrong.size:
            raise invalid(
                "scale",
                f"scale must be positive and finite; got {values[wrong[0]]} for feature "
                f"{wrong[0]}. Use 1 for a constant column",
            )
        return dataclasses.replace(
            self, mean=self.mean * scale, centroids=self.centroids * scale, scale=scale
        )

    def _arrays(self) -> dict[str, Array]:
        """Return all arrays on the device of the model."""
        arrays = {name: getattr(self, name) for name in (*ARRAYS, *_OPTIONAL_ARRAYS)}
        return {name: array for name, array in arrays.items() if array is not None}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to an .npz file of plain arrays, completely or not at all.

        Parameters
        ----------
        path : path
            Replaced if it exists.

        See Also
        --------
        slce_xp.load : Loads it, with an example.
        """
        _files.write(path, contents_of(self))


def contents_of(model: Model) -> dict[str, np.ndarray]:
    """Arrays without objects, of which `slce_xp._load.from_contents` makes the model again."""
    facts: dict[str, Any] = {}
    arrays = {}
    for field in dataclasses.fields(model):
        name = NAMES_IN_FILES.get(field.name, field.name)
        value = getattr(model, name if name == "separation_gap" else field.name)
        if name in LABELS and value is not None:
            arrays[name], facts[name] = _files.pack_labels(value)
        elif name == "plan":
            facts[name] = value.to_facts()
        elif name == "angle_bounds":
            facts[name] = None if value is None else list(map(float, value))
        elif value is None or isinstance(value, (bool, int, float, str, tuple)):
            facts[name] = value
        else:
            arrays[name] = _backend.to_host(value)
    return {"header": _files.header(facts), **arrays}


def _embed(axes: Array, mean: Array, fills: bool, rows: Array) -> Array:
    # Centred first: X·Aᵀ − mean·Aᵀ would lose digits far from the origin.
    rows = rows - mean
    if fills:
        xp = _backend.namespace_of(rows)
        rows = xp.where(xp.isnan(rows), xp.zeros_like(rows), rows)
    return rows @ axes


def _embed_any(axes: Array, mean: Array, fills: bool, rows: Array) -> Array:
    rows = _backend.namespace_of(mean).astype(rows, mean.dtype, copy=False)
    return _embed(axes, mean, fills, rows)


def _embed_sparse(axes: Array, mean: Array, rows: Sparse) -> Array:
    return rows.times(axes) - mean @ axes
