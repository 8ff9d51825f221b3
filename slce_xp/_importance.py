"""How much each feature takes part in what components remove, and how sure that is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend, _parameters
from slce_xp._backend import Array, Sparse
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import as_labels
from slce_xp._data.open import open_rows
from slce_xp._data.row_reader import RowReader
from slce_xp._errors import invalid
from slce_xp._features import centred_samples, importance
from slce_xp._fit import fit
from slce_xp._folds import as_group_codes
from slce_xp.core import _eigen

SHOWN = 10  # features that are printed


class ImportanceInterval(NamedTuple):
    """The importance of features, and bounds of it by a bootstrap; arrays on the host.

    An importance cannot be negative, and resampling adds noise to it: the interval of a small one
    may lie above the importance itself. Printed are the features of the largest lower limits.

    Attributes
    ----------
    importance : numpy.ndarray, shape (d,)
        `Model.importance` of a fit to all samples.
    lower, upper : numpy.ndarray, shape (d,)
        Quantiles of the importance over the resamples.
    highest_class : numpy.ndarray, shape (d,)
        The label of the class whose mean is highest.
    level : float
        The share of the resamples between the bounds.
    feature_names : numpy.ndarray of str, shape (d,), or None
    """

    importance: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    highest_class: np.ndarray
    level: float
    feature_names: np.ndarray | None

    def __str__(self) -> str:
        d = len(self.importance)
        shown = np.argsort(-self.lower, kind="stable")[:SHOWN]
        listed = self.feature_names
        names = [f"feature {j + 1}" if listed is None else str(listed[j]) for j in shown]
        width = max(map(len, names))
        lines = [f"Importance of {d} features, with {100 * self.level:g} % bootstrap intervals"]
        for name, j in zip(names, shown, strict=True):
            limits = f"({self.lower[j]:.2f} to {self.upper[j]:.2f})"
            highest = self.highest_class[j]
            lines.append(
                f"  {name:<{width}}  {self.importance[j]:.2f} {limits}, highest in {highest}"
            )
        if d > SHOWN:
            lines.append(f"  and {d - SHOWN} more with smaller lower limits")
        return "\n".join(lines)


def importance_interval(
    X: Any,
    y: Any,
    n_components: int | float | str | None = None,
    *,
    groups: Any = None,
    n_resamples: int = 200,
    level: float = 0.95,
    random_state: int | None = 0,
    sample_weight: Any = None,
    **fit_options: Any,
) -> ImportanceInterval:
    """Bootstrap `Model.importance`: how much it depends on the samples that happen to be there.

    Samples are drawn with replacement within classes. Samples that depend on each other, such as
    the cells of a donor, are drawn together if `groups` names what they have in common; without it
    the intervals are far too narrow.

    Parameters
    ----------
    X : array, sparse matrix, data frame or row-sliceable object, shape (n, d)
        If d > n it is reduced once to n coordinates, by its Gram matrix.
    y : array, shape (n,)
        Class labels.
    n_components : int, float, "positive" or None
        As for `slce_xp.fit`.
    groups : array, shape (n,), optional
        The group of each sample. Groups are drawn among those with the same classes.
    n_resamples : int
    level : float
        The share of the resamples between the bounds, between 0 and 1.
    random_state : int or None
        Seed of the resamples.
    sample_weight : array, shape (n,), optional
    **fit_options
        Passed to `slce_xp.fit`.

    Returns
    -------
    ImportanceInterval

    See Also
    --------
    slce_xp.Model.importance : The importance, without an interval.

    Examples
    --------
    >>> import numpy as np, slce_xp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 8))
    >>> y = np.repeat(["a", "b"], 30)
    >>> X[y == "b", 3] += 3
    >>> found = slce_xp.importance_interval(X, y, n_resamples=50)
    >>> np.flatnonzero(found.lower > 1), str(found.highest_class[3])
    (array([3]), 'b')
    """
    n_resamples = _parameters.as_count(n_resamples, "n_resamples", 2)
    if not (isinstance(level, float) and 0.0 < level < 1.0):
        raise invalid("level", f"level must be a number between 0 and 1; got {level!r}")
    options = {"random_state": random_state, **fit_options}
    model = fit(X, y, n_components, sample_weight=sample_weight, **options)
    observed = _backend.to_host(model.importance)
    n = model.n_samples
    labels = as_labels(y, n, sample_weight, None, fit_options.get("unlabeled"))
    counted, kept = labels.counted()
    weights = np.ones(n) if labels.weights is None else labels.weights
    units = np.arange(n) if groups is None else as_group_codes(groups, n)
    there = slice(None) if kept is None else kept
    Z, restored = _reduced(X, model.n_features, kept, fit_options)
    if not isinstance(n_components, (str, float, np.floating, type(None))) and Z is not X:
        n_components = min(n_components, Z.shape[1])  # beyond them, eigenvalues are zero
    found = np.empty((n_resamples, model.n_features))
    counts = np.zeros(n)
    for i, times in enumerate(_resamples(counted.codes, units[there], n_resamples, random_state)):
        counts[there] = times
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some resamples have fewer components
            drawn = fit(Z, y, n_components, sample_weight=counts * weights, **options)
        components = restored(drawn.components.T)
        found[i] = _backend.to_host(importance(components.T, drawn.eigenvalues))
    lower, upper = np.quantile(found, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    return ImportanceInterval(
        observed, lower, upper, model.highest_class, level, model.feature_names
    )


def _reduced(
    X: Any, d: int, kept: np.ndarray | None, options: dict[str, Any]
) -> tuple[Any, Callable[[Array], Array]]:
    """X in n coordinates if it has more features, and what turns components in these back.

    With X·Xᵀ = U·D·Uᵀ of the rows that are kept they are U·√D, and a component c is
    Xᵀ·U·D^(−½)·c. Those of other rows, of weight zero, are zeros.
    """
    matrix = _matrix.as_values(X)
    place = _parameters.find_place(matrix, options.get("backend"), options.get("device"))
    n = matrix.shape[0]
    if (
        d <= n
        or options.get("missing")
        or isinstance(matrix, RowReader)
        or _backend.is_dask(matrix)
    ):
        return X, lambda components: components
    matrix = _backend.move(matrix, place)
    if isinstance(matrix, Sparse) and not matrix.has_columns:
        return X, lambda components: components
    dtype = _backend.sums_dtype(matrix)
    with _backend.computing(place):
        rows = open_rows(matrix, dtype, place, kept=kept)
        _, samples = centred_samples(rows)
        values, vectors = _backend.largest_eigenpairs(samples.outer(), rows.n)
        (host,) = _backend.read(values)
        rank = int((host > rows.n * _eigen.eps_of(values) * host[0]).sum())
        root, basis = place.xp.sqrt(values[:rank]), vectors[:, :rank]

    def restored(components: Array) -> Array:
        components = place.xp.astype(components, dtype, copy=False)
        with _backend.computing(place):
            return samples.combine((basis / root) @ components)

    reduced = basis * root
    if kept is not None:
        nothing = place.xp.zeros_like(reduced[:1, :])
        index = np.full(n, len(kept))
        index[kept] = np.arange(len(kept))
        with_nothing = place.xp.concat([reduced, nothing], axis=0)
        reduced = place.xp.take(with_nothing, _backend.from_host(index, place), axis=0)
    return reduced, restored


def _resamples(
    codes: np.ndarray, members: np.ndarray, count: int, seed: int | None
) -> Iterator[np.ndarray]:
    """How often each sample is drawn, shape (n,), with all samples of a group or none."""
    # Samples of weight zero may have been all of a group.
    members = np.unique(members, return_inverse=True)[1]
    pairs = np.unique(np.stack([members, codes]), axis=1)
    # Groups are exchanged for others that have the same classes.
    of_group = np.split(pairs[1], np.flatnonzero(np.diff(pairs[0])) + 1)
    strata: dict[bytes, list[int]] = {}
    for group, present in enumerate(of_group):
        strata.setdefault(present.tobytes(), []).append(group)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        drawn = np.zeros(len(of_group))
        for stratum in strata.values():
            drawn[stratum] = rng.multinomial(len(stratum), np.full(len(stratum), 1 / len(stratum)))
        yield drawn[members]
