"""Moments for other libraries: class statistics that add up over shards, and can be solved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import _backend
from .._backend import Array
from .._errors import invalid
from .._parameters import as_count, as_unlabeled_weight, named_place
from . import _dense, _given
from ._eigen import scaled
from ._groups import Groups
from ._moments import GroupMoments, moments_of
from ._problem import Problem
from ._rows import rows_of
from ._solve import Eigenpairs, eigenpairs_of


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Class statistics of samples, which add up: ``a + b``, or ``sum(parts)``.

    They can be pickled, and so be sent between processes.

    Attributes
    ----------
    n_classes : int
        K.
    counts : numpy.ndarray, shape (K,)
        The samples of each class; the sum of their weights, if there are any.
    mean : array, shape (d,)
        The mean of all samples.
    class_means : array, shape (K, d)
        NaN for a class without samples.
    """

    _moments: GroupMoments
    _dtype: Any

    def __repr__(self) -> str:
        """Return the shape and the counts."""
        counts, d = [*map(float, self.counts)], self._moments.n_features
        return f"Moments(n_classes={self.n_classes}, n_features={d}, counts={counts})"

    @property
    def n_classes(self) -> int:
        """K."""
        return self._moments.n_classes

    @property
    def counts(self) -> np.ndarray:
        """The samples of each class, or the sum of their weights, shape (K,)."""
        return scaled(self._moments.totals[: self.n_classes], self._moments.weight_exponent)

    @property
    def mean(self) -> Array:
        """The mean of all samples, shape (d,)."""
        return self._returned(self._moments.mean)

    @property
    def class_means(self) -> Array:
        """The class means, shape (K, d)."""
        with _backend.computing(_backend.place_of(self._moments.sums)):
            return self._returned(self._moments.centroids)

    def _returned(self, values: Array) -> Array:
        return _backend.namespace_of(values).astype(values, self._dtype, copy=False)

    def __add__(self, other: Moments) -> Moments:
        """The moments of both sets of samples."""
        if not isinstance(other, Moments):
            return NotImplemented
        mine, others = (_backend.place_of(m._moments.sums) for m in (self, other))
        if mine != others:
            raise invalid(
                "other", f"other must be on {mine}, as the first one; got {others}. Move the data"
            )
        with _backend.computing(mine):
            return replace(self, _moments=self._moments + other._moments)

    def __radd__(self, other: object) -> Moments:
        """Begin a `sum`."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def to(self, device: Any, /) -> Moments:
        """The same on another device of the library, such as "cpu" or "cuda:1"."""
        here = _backend.place_of(self._moments.sums)
        return replace(self, _moments=self._moments.move(named_place(here.xp, device)))

    def eigenpairs(self, k: int, /) -> Eigenpairs:
        """Leading eigenpairs of SLCE's matrix, by the d × d form.

        Parameters
        ----------
        k : int
            From 1 to d.

        Returns
        -------
        Eigenpairs
            As of `slce_xp.core.eigenpairs` with the form "scatter", for classes that have samples.
        """
        moments = self._moments
        if moments.second is None:
            raise invalid(
                "second", "second must be True to solve moments; got False. Compute them with it"
            )
        seen = np.flatnonzero(moments.totals[: self.n_classes])
        if len(seen) < 2:
            raise invalid(
                "codes",
                f"codes must have samples of 2 classes at least; got {len(seen)}. Add other parts",
            )
        k = as_count(k, "k", 1, moments.n_features)
        with _backend.computing(_backend.place_of(moments.sums)):
            problem = Problem(moments.only(seen))
            return eigenpairs_of(problem, _dense.scatter(problem, k), "scatter", self._dtype)


def class_moments(
    x: Any,
    codes: Any,
    n_classes: int,
    /,
    *,
    weights: Any = None,
    unlabeled_weight: float = 1.0,
    second: bool = True,
) -> Moments:
    """Class statistics of an array, which can be added to those of other samples and solved.

    Parameters
    ----------
    x : array, or sparse matrix of SciPy, CuPy or torch, shape (n, d)
        Without gradients: moments are not differentiated.
    codes : array of int, shape (n,)
        The class of each row, from 0 to K − 1. K marks a row without a label. Classes need not
        have a row.
    n_classes : int
        K, at least 2.
    weights : array, shape (n,), optional
        Positive weight of each row; ones by default.
    unlabeled_weight : float
        λ of rows without a label, as for `eigenpairs`.
    second : bool
        Whether to compute the (d, d) second moment, too, which eigenpairs need.

    Returns
    -------
    Moments

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from slce_xp.core import class_moments
    >>> x = xp.asarray([[0.0, 1.0], [1.0, 0.0], [8.0, 1.0], [9.0, 0.0]])
    >>> shards = [class_moments(x[:3, :], [0, 0, 1], 2), class_moments(x[3:, :], [1], 2)]
    >>> both = sum(shards)
    >>> both
    Moments(n_classes=2, n_features=2, counts=[2.0, 2.0])
    >>> both.mean
    Array([4.5, 0.5], dtype=array_api_strict.float64)
    >>> xp.round(both.eigenpairs(1).values)
    Array([63.], dtype=array_api_strict.float64)
    """
    _given.check_plain(x, weights)
    x, n_classes = _given.as_matrix(x), as_count(n_classes, "n_classes", 2)
    rows = rows_of(x)
    if not rows.n:
        raise invalid(
            "x", f"x must have at least one row; got shape {tuple(x.shape)}. Leave such parts out"
        )
    codes = _given.as_codes(codes, rows.n, n_classes)
    weight = as_unlabeled_weight(unlabeled_weight)
    groups = Groups.of(codes, n_classes, weights, weight, may_be_empty=True)
    if second:  # so that blocks add to a sum of this size
        rows.block_bytes = max(rows.block_bytes, rows.d * rows.d * rows.itemsize)
    with _backend.computing(rows.place):
        return Moments(moments_of(rows, groups, second=second), _backend.working_dtype(x))
