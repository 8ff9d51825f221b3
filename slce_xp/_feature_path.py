"""The result of `slce_xp.feature_path`."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np

from slce_xp import _backend, _fit, _parameters
from slce_xp._backend import Array
from slce_xp._data import matrix as _matrix
from slce_xp._data.open import open_rows
from slce_xp._errors import ConvergenceWarning, invalid, shown, warn
from slce_xp._model import Model
from slce_xp.core._centred import columns_term
from slce_xp.core._lasso import norms

# The features that a path goes to by default: as many as a person reads.
DEFAULT_FEATURES = 50


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class FeaturePath:
    r"""Features that a falling penalty selects; see `slce_xp.feature_path`.

    All arrays are of NumPy, on the host, in double precision.

    Attributes
    ----------
    lambdas : numpy.ndarray, shape (L,)
        λ, falling, in the units of X, squared for targets "centroids".
    supports : tuple of numpy.ndarray of int
        The features that each λ selects, ascending.
    coefficients : tuple of numpy.ndarray, shape (s, r)
        The coefficients of these features: rows of W.
    gaps : numpy.ndarray, shape (L,)
        Duality gaps, relative to the objective without any feature: a proved bound of how far each
        solution is from the optimum, rounding included.
    targets : {"centroids", "scores"}
        What features are to reconstruct.
    class_targets : numpy.ndarray, shape (K, r)
        The row of Y of each class: (x − mean)·W approximates it.
    ridge : float
    classes : numpy.ndarray, shape (K,)
        The labels, sorted.
    n_samples, n_features : int
        The samples that were used, and the features of X.
    feature_names : numpy.ndarray of str, shape (d,), or None
        The names of the columns, if X was a data frame with names.
    place : str
        Where it was computed, and in which dtype.
    passes : int
        Passes over X.

    See Also
    --------
    slce_xp.feature_path : Computes a path.

    Notes
    -----
    A path keeps a reference to X and y, without a copy, for `refit`; a pickle of it does not.

    Examples
    --------
    >>> import numpy as np, slce_xp
    >>> X = np.random.default_rng(0).normal(size=(60, 30))
    >>> y = np.repeat([0, 1], 30)
    >>> X[y == 1, 4] += 5
    >>> X[y == 1, 20] += 3
    >>> path = slce_xp.feature_path(X, y, n_features=2)
    >>> path.supports[0], path.supports[-1]
    (array([], dtype=int64), array([ 4, 20]))
    >>> bool(path.gaps.max() < 1e-5)
    True
    """

    lambdas: np.ndarray
    supports: tuple[np.ndarray, ...]
    coefficients: tuple[np.ndarray, ...]
    gaps: np.ndarray
    targets: str
    class_targets: np.ndarray
    ridge: float
    classes: np.ndarray
    n_samples: int
    n_features: int
    feature_names: np.ndarray | None
    place: str
    passes: int
    _data: tuple[Any, Any, dict[str, Any]] | None

    def __getstate__(self) -> dict[str, Any]:
        """Without X and y, which a pickle need not have."""
        return {**self.__dict__, "_data": None}

    @property
    def entered(self) -> np.ndarray:
        """All features that some λ selects, in the order in which they enter, shape (e,).

        Those that enter together are in the order of the norms of their coefficients.
        """
        order: dict[int, None] = {}
        for support, rows in zip(self.supports, self.coefficients, strict=True):
            for feature in support[_by_norm(rows)]:
                order.setdefault(int(feature))
        return np.array(list(order), dtype=np.int64)

    @property
    def norms(self) -> np.ndarray:
        """The norm of the coefficients of each feature of `entered` at each λ, shape (L, e)."""
        entered = self.entered
        column = np.zeros(self.n_features, dtype=np.int64)
        column[entered] = np.arange(len(entered))
        found = np.zeros((len(self.lambdas), len(entered)))
        for row, support, weights in zip(found, self.supports, self.coefficients, strict=True):
            row[column[support]] = norms(weights)
        return found

    def ranked(self, n_features: int | None = None) -> np.ndarray:
        """The selected features by descending norm of their coefficients.

        Parameters
        ----------
        n_features : int, optional
            See `select`.

        Returns
        -------
        numpy.ndarray of int, shape (n_features,)

        Examples
        --------
        >>> import slce_xp
        >>> X = [[0.0, 5.0, 1.0], [1.0, 4.0, 2.0], [8.0, 5.0, 4.0], [9.0, 4.0, 5.0]]
        >>> path = slce_xp.feature_path(X, [0, 0, 1, 1], n_features=2)
        >>> path.ranked(2)
        array([0, 1])
        """
        step, count = self._step_with(n_features)
        return np.asarray(self.supports[step][_by_norm(self.coefficients[step])[:count]])

    def select(self, n_features: int | None = None) -> np.ndarray:
        """Select a number of features.

        Parameters
        ----------
        n_features : int, optional
            They are taken from the largest λ that selects at least so many. If it selects more,
            those with the largest norms of coefficients are kept. None: all features of the
            smallest λ.

        Returns
        -------
        numpy.ndarray of int, shape (n_features,)
            Positions of columns, ascending.

        Examples
        --------
        >>> import slce_xp
        >>> X = [[0.0, 5.0, 1.0], [1.0, 4.0, 2.0], [8.0, 5.0, 4.0], [9.0, 4.0, 5.0]]
        >>> path = slce_xp.feature_path(X, [0, 0, 1, 1], n_features=2)
        >>> path.select(1)
        array([0])
        """
        return np.sort(self.ranked(n_features))

    def features(self, names: Any = None, n_features: int | None = None) -> np.ndarray:
        """The names of selected features.

        Parameters
        ----------
        names : list or array of str, shape (d,), optional
            The names of all columns; by default those of the data frame that the path is of.
        n_features : int, optional
            See `select`.

        Returns
        -------
        numpy.ndarray, shape (n_features,)
            In the order of the columns.

        Examples
        --------
        >>> import slce_xp
        >>> X = [[0.0, 5.0, 1.0], [1.0, 4.0, 2.0], [8.0, 5.0, 4.0], [9.0, 4.0, 5.0]]
        >>> path = slce_xp.feature_path(X, [0, 0, 1, 1], n_features=2)
        >>> path.features(["length", "weight", "age"], 1)
        array(['length'], dtype='<U6')
        """
        names = self.feature_names if names is None else names
        if names is None:
            raise invalid("names", "names must be given: X was not a data frame with names")
        listed = np.asarray(names)
        if listed.shape != (self.n_features,):
            raise invalid(
                "names",
                f"names must have one name for each of {self.n_features} features; got shape "
                f"{listed.shape}",
            )
        return np.asarray(listed[self.select(n_features)])

    def refit(
        self,
        n_features: int | None = None,
        n_components: int | float | str | None = None,
        *,
        criterion: str = "centroid",
        **options: Any,
    ) -> Model:
        """Fit a model to selected features only, without a penalty.

        Parameters
        ----------
        n_features : int, optional
            See `select`.
        n_components : int, float, "positive" or None
            As for `slce_xp.fit`.
        criterion : {"centroid", "separation"}
            "centroid" is plain SLCE.
        **options
            Further parameters of `slce_xp.fit`.

        Returns
        -------
        Model
            Of ``X[:, path.select(n_features)]`` and the samples of the path, with their weights:
            those without a label are left out. These columns are held in memory.

        Examples
        --------
        >>> import slce_xp
        >>> X = [[0.0, 5.0, 1.0], [1.0, 4.0, 2.0], [8.0, 5.0, 4.0], [9.0, 4.0, 5.0]]
        >>> path = slce_xp.feature_path(X, [0, 0, 1, 1], n_features=2)
        >>> path.refit(1).components
        array([[1.]])
        """
        chosen = self.select(n_features)
        if not len(chosen):
            raise invalid("n_features", "n_features must be at least 1 to fit a model; got none")
        if self._data is None:
            raise invalid(
                "path",
                "path must keep X and y to be fitted again; that of a pickle or an SLCESelector "
                "does not. Fit the selected columns: slce_xp.fit(X[:, path.select()], y)",
            )
        X, y, weights = self._data
        columns = columns_at(_matrix.as_values(X), chosen)
        model = _fit.fit(columns, y, n_components, criterion=criterion, **{**weights, **options})
        if self.feature_names is None:
            return model
        return dataclasses.replace(model, feature_names=self.feature_names[chosen])

    def _step_with(self, n_features: int | None) -> tuple[int, int]:
        """The position of the first λ with so many features, and how many of them to keep."""
        if n_features is None:
            return len(self.lambdas) - 1, len(self.supports[-1])
        sizes = np.array([len(support) for support in self.supports])
        if not sizes.any():
            raise invalid(
                "n_features",
                f"n_features must be at most the features of the path, which has none; got "
                f"{shown(n_features)}. Compute a path to smaller penalties",
            )
        count = _parameters.as_count(n_features, "n_features", 1, int(sizes.max()))
        return int(np.argmax(sizes >= count)), count

    def __str__(self) -> str:
        counts = ", ".join(str(len(support)) for support in _spread_out(self.supports))
        ridge = f", ridge {self.ridge:g}" if self.ridge else ""
        return "\n".join(
            [
                f"Feature path: {len(self.supports[-1])} of {self.n_features} features, "
                f"{len(self.lambdas)} values of lambda",
                f"  fitted on    {self.n_samples} samples of {len(self.classes)} classes",
                f"  targets      {self.targets}{ridge}",
                f"  solved by    {self.passes} passes, {self.place}",
                f"  lambda       {self.lambdas[0]:.4g} … {self.lambdas[-1]:.4g}",
                f"  features     {counts} as lambda falls",
                f"  accuracy     duality gaps: within {self.gaps.max():.0e} of the optimum",
            ]
        )


def warn_of_limits(path: FeaturePath, n_features: int | None, gap: float) -> None:
    """Warn if a path ends with fewer features than asked for, or a gap is not proved."""
    wanted = default_count(path.n_features) if n_features is None else n_features
    found = max(map(len, path.supports))
    if found < wanted:
        warn(
            f"n_features={wanted} was asked for, but no λ down to {path.lambdas[-1]:.3g} "
            f"selects more than {found}. Ask for fewer; slce_xp.feature_path also takes smaller "
            "lambdas, and ridge > 0",
        )
    if path.gaps.max() > gap:
        warn(
            f"the relative duality gap is proved to {path.gaps.max():.1e} only, not to "
            f"gap={gap:g}: by rounding in {path.place}, or by features that are nearly "
            "combinations of others. Use float64, ridge > 0, or a larger gap",
            ConvergenceWarning,
        )


def default_count(d: int) -> int:
    """The features that a path goes to by default."""
    return min(DEFAULT_FEATURES, d)


def _by_norm(coefficients: np.ndarray) -> np.ndarray:
    """The order of descending norms; of equal ones, the first column first."""
    return np.argsort(-norms(coefficients), kind="stable")


def _spread_out(supports: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """At most six entries, the first and the last among them."""
    positions = np.unique(np.linspace(0, len(supports) - 1, 6).astype(int))
    return [supports[i] for i in positions]


def columns_at(x: Array, positions: np.ndarray) -> Array:
    """Some columns of a matrix of any kind, dense, (n, m); of a Dask array, in chunks."""
    if _backend.is_dask(x):
        return x[:, positions]
    rows = open_rows(x)
    with _backend.computing(rows.place):
        index = _backend.from_host(positions, rows.place)
        return rows.join(partial(columns_term, index), len(positions))
