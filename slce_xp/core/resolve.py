"""Eigenvalues within rounding of zero, resolved by Rayleigh quotients.

What a dense eigensolver returns is exact to rounding relative to the norm of M. Scores of the
data, X·V, show much smaller eigenvalues: to rounding relative to the scatter of those scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp.core import eigen
from slce_xp.core.certificate import angle_bound
from slce_xp.core.operators import CentroidOperator, ScatterOperator

# Noise of nearly null columns that may hide eigenvalues, relative to rounding of M.
HIDDEN = 2.0**-9
# Rounding of a score in units of that of a sum, relative to the magnitudes that it is a sum of.
SCORE_ROUNDING = 2.0


class Resolved(NamedTuple):
    """Eigenpairs of M inside a subspace, by descending eigenvalue.

    Attributes
    ----------
    values : numpy.ndarray, shape (q,)
    vectors : array, shape (d, q)
        Orthonormal columns.
    is_null : numpy.ndarray of bool, shape (q,)
        Which of them are orthogonal to all samples.
    error : numpy.ndarray, shape (q,)
        Rounding of each value; infinite if nothing is known of it.
    is_cleaned : bool
        Whether some columns were corrected on X, and may not be orthogonal to eigenvectors that a
        dense eigensolver found.
    """

    values: np.ndarray
    vectors: Array
    is_null: np.ndarray
    error: np.ndarray
    is_cleaned: bool = False

    @classmethod
    def certain(cls, values: np.ndarray, vectors: Array) -> Resolved:
        """Eigenpairs beyond rounding."""
        nothing = np.zeros(len(values))
        return cls(values, vectors, nothing > 0, nothing)

    def or_known(self, values: np.ndarray, trusted: np.ndarray, rounding: float = 0.0) -> Resolved:
        """With given values for the leading ones, if they are trusted and nearly the same."""
        count = min(len(values), len(self.values))
        given, chosen = values[:count], self.values.copy()
        same = np.abs(given - chosen[:count]) <= 0.01 * np.abs(given) + rounding
        chosen[:count] = np.where(trusted[:count] & same, given, chosen[:count])
        return self._replace(values=chosen)

    def or_inexact(self, lengths: np.ndarray) -> Resolved:
        """With what residuals say of negative values: an eigenvalue is as near as they are long."""
        error = np.where(self.values < 0.0, np.maximum(self.error, lengths), self.error)
        return self._replace(error=error)

    def bounds(self) -> tuple[int, int]:
        """The least and the largest possible number of positive eigenvalues."""
        low = int((~self.is_null & (self.values > self.error)).sum())
        possible = (self.values > -self.error) & (~self.is_null | np.isinf(self.error))
        return low, int(possible.sum())

    @property
    def has_unknown(self) -> bool:
        """Whether some only seem to be in the null space, and may be any directions."""
        return bool((self.is_null & np.isinf(self.error)).any())

    def angle_bound(self, count: int, rounding: float, d: int) -> float:
        """A bound of the angle of the first `count` that are not in the null space.

        `d` is the number of features: eigenvalues that are missing here are zero.
        """
        if count == 0:
            return 0.0
        real = self.values[~self.is_null]
        below = float(real[count]) if count < len(real) else -np.inf
        if len(real) < d and count <= self.before_zero:
            below = max(below, 0.0)
        return angle_bound(0.0, rounding, float(real[count - 1]), below)

    @property
    def before_zero(self) -> int:
        """How many come before the null space."""
        return int((~self.is_null & (self.values > 0.0)).sum())

    def between(self, values: Array, vectors: Array, first: int, last: int) -> Resolved:
        """These in place of some of the given eigenpairs, which are known beyond rounding."""
        host = read(values)[0]
        before = Resolved.certain(host[:first], vectors[:, :first])
        after = Resolved.certain(host[last:], vectors[:, last:])
        return before.followed_by(self).followed_by(after)

    def replaced(
        self, values: np.ndarray, vectors: Array, error: np.ndarray | None = None
    ) -> Resolved:
        """With other eigenpairs in place of the leading ones, of the same rounding by default."""
        xp, _ = _backend.place_of(vectors)
        count = len(values)
        error = self.error[:count] if error is None else error
        return self._replace(
            values=np.concatenate([values, self.values[count:]]),
            vectors=xp.concat([vectors, self.vectors[:, count:]], axis=1),
            error=np.concatenate([error, self.error[count:]]),
        )

    def followed_by(self, other: Resolved) -> Resolved:
        """These, and others after them."""
        xp, _ = _backend.place_of(self.vectors)
        return Resolved(
            np.concatenate([self.values, other.values]),
            xp.concat([self.vectors, other.vectors], axis=1),
            np.concatenate([self.is_null, other.is_null]),
            np.concatenate([self.error, other.error]),
        )

    def real(self) -> Resolved:
        """Without what is in the null space."""
        if not self.is_null.any():
            return self
        return self.chosen(~self.is_null)

    def null(self) -> Array:
        """What is in the null space, shape (d, q)."""
        return self.chosen(self.is_null).vectors

    def descending(self) -> Resolved:
        """In the order of their values."""
        return self._at(np.argsort(-self.values, kind="stable"))

    def chosen(self, which: np.ndarray) -> Resolved:
        """Those that a mask has."""
        return self._at(np.flatnonzero(which))

    def _at(self, positions: np.ndarray) -> Resolved:
        if not positions.size:  # of no indices JAX forgets the device
            vectors = self.vectors[:, :0]
        else:
            place = _backend.place_of(self.vectors)
            vectors = place.xp.take(self.vectors, _backend.from_host(positions, place), axis=1)
        return Resolved(
            self.values[positions], vectors, self.is_null[positions], self.error[positions]
        )


def resolve(
    operator: ScatterOperator,
    vectors: Array,
    square: float,
    gap: float | None = None,
    others: Callable[[Array], Array] | None = None,
    variances: Callable[[], Array] | None = None,
    *,
    doubts: bool = False,
) -> Resolved:
    """Rayleigh–Ritz in the span of orthonormal columns, by one pass over X.

    Parameters
    ----------
    operator : ScatterOperator
    vectors : array, shape (d, q)
    square : float
        Σ |s| w ‖z‖² of all samples.
    gap : float, optional
        Magnitude that all other eigenvalues exceed; `square` by default.
    others : function, optional
        Returns what columns have of other eigenvectors, (d, j) ↦ (d, j), by another pass. It is
        called for columns that may be in the null space of X but for that.
    variances : function, optional
        Returns the diagonal of S_t, shape (d,). Features that vary by less than what columns have
        of others through rounding cannot be told from the null space: as many columns may be
        anything.
    doubts : bool
        Whether columns may be anything, too, if they have scores beyond rounding of X that others
        may have left in them.
    """
    level = operator.zero_level(square)
    count = vectors.shape[1]
    if count == 0:
        return Resolved(np.zeros(0), vectors, np.zeros(0, dtype=bool), np.zeros(0))
    measured = _measured(operator, vectors)
    if measured is None:  # sums alone: what they cannot resolve counts as zero
        return Resolved(
            np.zeros(count), vectors, np.ones(count, dtype=bool), np.full(count, np.inf)
        )
    rounding = operator.zero_level(1.0)
    if measured.is_mixed(rounding):  # of columns that are no mixtures it is more exact
        measured = _measured(operator, eigen.orthonormal_columns(measured.vectors)) or measured
    vectors, host, scatters, squares, mixed = measured
    # Columns are inexact by eps over the gap to other eigenvectors, which adds that squared times
    # the gap to the scatter of their scores.
    noise = (level / 8.0) ** 2 / max(square if gap is None else gap, level)
    # So are scores, relative to the mean that is subtracted from them.
    lost = rounding**2 * operator.centring
    is_null = scatters + squares <= count * noise + lost  # all may have gone to one of them
    error = rounding * mixed + noise
    error += lost + 2.0 * np.sqrt(lost * np.abs(scatters)) + operator.mean_rounding(scatters)
    # Nor are scores more exact than the products that they are sums of.
    of_sums = 2.0 * SCORE_ROUNDING * rounding * np.sqrt(np.abs(scatters) + 2.0 * squares)
    is_near = ~is_null & (np.abs(host) <= error + of_sums * np.sqrt(square + operator.centring))
    if isinstance(operator, CentroidOperator) and is_near.any():
        error += of_sums * _score_sizes(operator, vectors)
    if lost > level:  # then what seems to be null may be as large as others
        error = np.where(is_null, np.inf, error)
    elif is_null.any():
        if doubts:
            is_unknown = is_null & (scatters + squares > rounding**2 * square + lost)
            error = np.where(is_unknown, np.inf, error)
        if variances is not None:
            hidden = hidden_features(operator, variances(), count * noise + lost)
            error[np.flatnonzero(is_null & np.isfinite(error))[:hidden]] = np.inf
    found = Resolved(host, vectors, is_null, error)
    unclear = is_null & (scatters + squares > noise + lost)
    if others is None or count * noise < HIDDEN * level or not unclear.any():
        return found
    columns = found.chosen(unclear).vectors
    columns = eigen.orthonormal_columns(columns - others(columns))
    again = resolve(operator, columns, square, variances=variances)
    return found.chosen(~unclear).followed_by(again).descending()._replace(is_cleaned=True)


class _Measured(NamedTuple):
    """Rayleigh quotients inside a subspace, by descending value.

    Attributes
    ----------
    vectors : array, shape (d, q)
    values, scatters, squares : numpy.ndarray, shape (q,)
        vᵀMv, the scatter of X·v with absolute signs, and ‖Bv‖².
    mixed : numpy.ndarray, shape (q,)
        What these are rounded relative to: the same of the columns that were measured, of which
        the vectors are mixtures.
    """

    vectors: Array
    values: np.ndarray
    scatters: np.ndarray
    squares: np.ndarray
    mixed: np.ndarray

    def is_mixed(self, rounding: float) -> bool:
        """Whether some are within rounding of zero, but may not be if they are measured again."""
        own = np.abs(self.scatters) + 2.0 * self.squares
        return bool(((np.abs(self.values) <= rounding * self.mixed) & (self.mixed > 4 * own)).any())


def _measured(operator: ScatterOperator, vectors: Array) -> _Measured | None:
    """Rayleigh–Ritz in the span of orthonormal columns; None without X."""
    known = operator.rayleigh(vectors)
    if known is None:
        return None
    xp, _ = operator.place
    matrix, scatter = known
    _, rotation = _backend.largest_eigenpairs(matrix, vectors.shape[1])
    between = operator.between @ vectors
    sizes = xp.sqrt(xp.abs(xp.linalg.diagonal(scatter)) + 2.0 * xp.sum(between * between, axis=0))
    between = between @ rotation
    values, *others = read(
        # Quotients: what an eigensolver returns is exact relative to the largest of them only.
        xp.sum(rotation * (matrix @ rotation), axis=0),
        xp.sum(rotation * (scatter @ rotation), axis=0),
        xp.sum(between * between, axis=0),
        (sizes @ xp.abs(rotation)) ** 2,
    )
    vectors = vectors @ rotation
    order = np.argsort(-values, kind="stable")
    if (order[1:] > order[:-1]).all():
        return _Measured(vectors, values, *others)
    vectors = xp.take(vectors, _backend.from_host(order, operator.place), axis=1)
    return _Measured(vectors, values[order], *(array[order] for array in others))


def _score_sizes(operator: CentroidOperator, vectors: Array) -> np.ndarray:
    """√(Σ_i w_i (Σ_j |x_ij v_j|)²) of columns v, or more: (d, q) ↦ (q,)."""
    xp, _ = operator.place
    squares = operator.feature_squares() + operator.centring_squares
    sizes = xp.sqrt(xp.maximum(squares, xp.zeros_like(squares)))
    return read(sizes @ xp.abs(vectors))[0]


def hidden_features(operator: ScatterOperator, variances: Array, level: float) -> int:
    """How many features vary beyond their own rounding, but by no more than a level.

    Parameters
    ----------
    operator : ScatterOperator
    variances : array, shape (d,)
        The diagonal of S_t.
    level : float
    """
    eps = float(np.finfo(_backend.dtype_name(operator.precision)).eps)
    varies = variances > operator.weight * operator.rounding_squares(eps)
    (found,) = read(varies & (variances <= float(level)))
    return int(found.sum())


def most_positive(operator: ScatterOperator, k: int) -> int:
    """How many of k eigenvalues can be positive: with labels for all, fewer than classes."""
    return min(k, int(operator.between.shape[0]) - 1) if operator.is_supervised else k


def leading(
    operator: ScatterOperator, k: int, found: Resolved, null: Array | None
) -> tuple[Array, Array, tuple[int, int]]:
    """The first k eigenpairs by the contract: positive, null space, negative.

    Parameters
    ----------
    operator : ScatterOperator
    k : int
    found : Resolved
        Without null space.
    null : array, shape (d, q), or None
        Directions orthogonal to all samples.

    Returns
    -------
    values : array, shape (k,)
    vectors : array, shape (d, k)
    bounds : tuple of int
        The least and the largest possible number of positive values among them.
    """
    low, high = found.bounds()
    before = found.before_zero
    wanted = 0 if null is None else min(null.shape[1], max(0, k - before))
    values = _backend.from_host(found.values[: k - wanted], operator.place, found.vectors.dtype)
    vectors = found.vectors[:, : min(k - wanted, found.vectors.shape[1])]
    if null is not None and wanted:
        values, vectors = eigen.splice_null_space(values, vectors, before, null[:, :wanted])
    return values, vectors, (min(low, k), min(high, k))
