r"""How often pairs of classes are confused, and how that changes with the plane they are seen in.

Classes are Gaussians of unit covariance about their means :math:`u_i`, with shares :math:`\pi_i`.
Two of them are confused with the probability :math:`\Phi(-\delta_{ij} / 2)`, with :math:`\delta`
the distance of their means in the plane. The logarithm of the weighted mean of that over pairs is a
convex function of the projector :math:`P = W W^T`. All arrays are on the host.

Thousands of classes have too many pairs to look at in every step: `drawn_pairs` takes the near ones
and draws from the others, `error_of_all` sums over all of them, once, in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from slce_xp import _backend

MOST_PAIRS = 50_000  # in a list; more are drawn from
LEAST_PARTNERS = 8  # of a class in a list that is drawn
DENSE_NUMBERS = 500_000  # of differences of means that are kept as a matrix
FEW_CLASSES = 16  # of which differences are summed faster than their Laplacian is made
BLOCK_NUMBERS = 2**19  # that are allocated at a time
# Half the distance of two projected means that counts as zero: the slope is infinite there.
NO_DISTANCE = 1e-9
# Squared distances below this share of the largest are zero: the classes have the same mean.
SAME_MEAN = 1e-12
LOG_ROOT_2_PI = 0.5 * math.log(2.0 * math.pi)
ROOT_PI, ROOT_8 = math.sqrt(math.pi), math.sqrt(0.125)
LEAST_ROOT = 2.0 * NO_DISTANCE * ROOT_8
LEAST_SUM = 1e-250  # of errors, which is far from underflow


class Pairs:
    """The mean error of a list of pairs, and its derivatives.

    Parameters
    ----------
    means : numpy.ndarray, shape (K, k)
        Class means, in units of the spread within classes.
    shares : numpy.ndarray, shape (K,)
        The weight of each class.
    first, second : numpy.ndarray of int, shape (P,)
    weights : numpy.ndarray, shape (P,)
        What each pair counts.

    Attributes
    ----------
    differences : numpy.ndarray, shape (P, k), or None
        Those of the means; None if they are too large.
    full_squares : numpy.ndarray, shape (P,)
        Squared distances of the means in all dimensions.
    """

    def __init__(
        self,
        means: np.ndarray,
        shares: np.ndarray,
        first: np.ndarray,
        second: np.ndarray,
        weights: np.ndarray,
    ) -> None:
        self.means, self.shares = means, shares
        self._first, self._second = first, second
        self._weights = weights / weights.sum()
        is_small = first.shape[0] * means.shape[1] <= DENSE_NUMBERS
        self.differences: Any = means[first] - means[second] if is_small else None
        self._incidence: Any = None if is_small else _backend.incidence(first, second, len(means))
        # Classes with the same mean are confused in every plane: nothing pulls them apart.
        self.full_squares = self.distances()
        self._moves = self.full_squares > SAME_MEAN * self.full_squares.max(initial=0.0)
        self._all_move = bool(self._moves.all())

    @cached_property
    def _log_weights(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._weights))

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._first)

    def squares(self, points: np.ndarray) -> np.ndarray:
        """Squared distances of the pairs for classes at points, (K, r) ↦ (P,)."""
        found = np.empty(len(self))
        step = max(1, BLOCK_NUMBERS // max(1, points.shape[1]))
        for start in range(0, len(self), step):
            block = slice(start, start + step)
            differences = points[self._first[block]] - points[self._second[block]]
            np.sum(differences * differences, axis=1, out=found[block])
        return found

    def distances(self, factor: np.ndarray | None = None) -> np.ndarray:
        """Squared distances of the pairs at P = F Fᵀ, (k, r) ↦ (P,); at P = I by default."""
        if self.differences is None:
            return self.squares(self.means if factor is None else self.means @ factor)
        differences = self.differences if factor is None else self.differences @ factor
        return np.asarray(np.einsum("ir,ir->i", differences, differences))

    def project(self, rows: np.ndarray) -> np.ndarray:
        """Differences of the means along rows, (m, k) ↦ (m, P)."""
        if self.differences is not None:
            return np.asarray(rows @ self.differences.T)
        points = rows @ self.means.T
        return np.asarray(points[:, self._first] - points[:, self._second])

    def lift(self, values: np.ndarray) -> np.ndarray:
        """Σ value × difference of the means, (m, P) ↦ (m, k)."""
        if self.differences is not None:
            return np.asarray(values @ self.differences)
        return np.asarray((values @ self._incidence) @ self.means)

    def errors_and_pulls(self, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The logarithm of the mean error, (…), and −∂ / ∂ squares, (…, P), of distances (…, P)."""
        roots = np.sqrt(squares)
        roots *= ROOT_8  # h / √2 with h = δ / 2, the distance of the boundary
        sums = _backend.erfc(roots) @ self._weights
        if sums.min() > LEAST_SUM:
            errors = np.log(0.5 * sums)
            densities = np.exp(-0.125 * squares)
            densities *= self._weights
        else:  # all errors of a plane may underflow: in units of its largest density
            logs = self._log_weights - 0.125 * squares
            largest = logs.max(axis=-1, keepdims=True)
            densities = np.exp(logs - largest)
            sums = (densities * _backend.erfcx(roots)).sum(axis=-1)
            errors = largest[..., 0] + np.log(0.5 * sums)
        pulls = densities
        pulls /= np.maximum(roots, LEAST_ROOT, out=roots)
        pulls /= (8.0 * ROOT_PI * sums)[..., None]
        return errors, pulls if self._all_move else pulls * self._moves

    @property
    def slack(self) -> float:
        """What pairs that count as having the same mean could take off the error."""
        still = ~self._moves
        return float(_separated(self.full_squares[still]) @ self._weights[still])

    def are_apart(self, squares: np.ndarray) -> bool:
        """Whether no two means coincide at some distances, so that their pulls are exact."""
        near = squares <= (2.0 * NO_DISTANCE) ** 2
        return not bool((near & self._moves & (self._weights > 0.0)).any())

    def gradient(self, pulls: np.ndarray) -> np.ndarray:
        """−∂ log_error / ∂P, shape (k, k): Σ c (u_i − u_j)(u_i − u_j)ᵀ."""
        n_classes = len(self.means)
        if self.differences is not None and n_classes <= FEW_CLASSES:
            return np.asarray((self.differences.T * pulls) @ self.differences)
        if self.differences is None:
            laplacian = self._incidence.T @ (self._incidence.multiply(pulls[:, None]).tocsr())
        else:
            laplacian = np.zeros((n_classes, n_classes))
            laplacian[self._first, self._second] = -pulls
            laplacian += laplacian.T
            laplacian[np.diag_indices(n_classes)] = -laplacian.sum(axis=1)
        return np.asarray(self.means.T @ (laplacian @ self.means))


def has_few_pairs(n_classes: int) -> bool:
    """Whether all pairs of classes can be listed."""
    return n_classes * (n_classes - 1) // 2 <= MOST_PAIRS


def pairs_of(means: np.ndarray, shares: np.ndarray, p: int) -> tuple[Pairs, bool]:
    """All pairs of classes, or those that planes of p dimensions are chosen by; whether all."""
    n_classes = len(means)
    if has_few_pairs(n_classes):
        first, second = np.triu_indices(n_classes, 1)
        return Pairs(means, shares, first, second, shares[first] * shares[second]), True
    return drawn_pairs(means, shares, p), False


def drawn_pairs(means: np.ndarray, shares: np.ndarray, p: int) -> Pairs:
    """Near pairs, and some of the others in place of all of them.

    Each class gets partners with a probability of up to 1 that grows with what the pair adds to
    the error at the mean distance in a plane of p dimensions; weights are divided by it, so that
    the mean error is estimated without bias. The seed is fixed.
    """
    n_classes, k = means.shape
    partners = max(LEAST_PARTNERS, MOST_PAIRS // n_classes)
    draw, chosen = np.random.default_rng(0), []
    for rows, squares in _blocks(means):
        weights = shares[rows, None] * shares[None, :]
        weights[np.arange(len(weights)), np.arange(rows.start, rows.stop)] = 0.0
        half = 0.5 * np.sqrt(squares * (p / k))
        # In units of the row's largest: errors of classes that are far apart underflow.
        logs = _backend.log_normal_cdf(-half)
        errors = weights * np.exp(logs - logs.max(axis=1, keepdims=True))
        odds = _share_of_row(errors) + _share_of_row(weights)
        odds = np.minimum(1.0, 0.5 * partners * odds)
        first, second = np.nonzero(draw.random(odds.shape) < odds)
        chosen.append((first + rows.start, second, (weights / odds.clip(1e-300))[first, second]))
    return Pairs(means, shares, *(np.concatenate(parts) for parts in zip(*chosen, strict=True)))


def _share_of_row(values: np.ndarray) -> np.ndarray:
    total = values.sum(axis=1, keepdims=True)
    return np.asarray(values / np.where(total > 0.0, total, 1.0))


def error_of_all(
    points: np.ndarray, means: np.ndarray, shares: np.ndarray, with_gradient: bool
) -> tuple[float, np.ndarray, float, bool]:
    """The logarithm of the mean error of all pairs, for classes at points; and its derivatives.

    Parameters
    ----------
    points : numpy.ndarray, shape (K, r)
        U·F for P = F Fᵀ.

    Returns
    -------
    log_error : float
    gradient : numpy.ndarray, shape (k, k)
        −∂ log_error / ∂P.
    inner : float
        Its inner product with P.
    is_exact : bool
        Whether the gradient is.
    """
    with np.errstate(divide="ignore"):
        log_shares = np.log(shares)
    parts = []
    for rows, squares in _blocks(points):
        logs = _all_log_weights(rows, log_shares)
        parts.append(
            [
                _log_sum(logs.ravel()),
                _log_sum((logs + _backend.log_normal_cdf(-0.5 * np.sqrt(squares))).ravel()),
            ]
        )
    log_total, log_error = _log_sum(np.array(parts).T)
    log_error -= log_total
    gradient = np.zeros((means.shape[1],) * 2)
    inner, is_exact = 0.0, True
    if with_gradient:
        largest = max(float(squares.max()) for _, squares in _blocks(means))
        for (rows, squares), (_, full) in zip(_blocks(points), _blocks(means), strict=True):
            logs = _all_log_weights(rows, log_shares) - log_total
            pulls, exact = _pulls(logs, squares, log_error, full > SAME_MEAN * largest)
            is_exact = is_exact and exact
            inner += float((pulls * squares).sum())
            # Half of Σ c (u_i − u_j)(u_i − u_j)ᵀ over ordered pairs, twice for the other half.
            left = pulls.sum(axis=1)[:, None] * means[rows] - pulls @ means
            gradient += 2.0 * (means[rows].T @ left)
    return float(log_error), 0.5 * (gradient + gradient.T), inner, is_exact


def error_in_all_dimensions(means: np.ndarray, shares: np.ndarray) -> float:
    """The logarithm of the mean error of all pairs; of differences, if these are few."""
    if not has_few_pairs(len(means)):
        return error_of_all(means, means, shares, with_gradient=False)[0]
    listed, _ = pairs_of(means, shares, means.shape[1])
    return float(listed.errors_and_pulls(listed.full_squares)[0])


def slack_of_all(means: np.ndarray, shares: np.ndarray) -> float:
    """What those of all pairs that count as having the same mean could take off the error."""
    largest = max(float(squares.max()) for _, squares in _blocks(means))
    slack = 0.0
    for rows, squares in _blocks(means):
        still = np.where(squares > SAME_MEAN * largest, 0.0, _separated(squares))
        still[np.arange(len(still)), np.arange(rows.start, rows.stop)] = 0.0
        slack += float(shares[rows] @ (still @ shares))
    return slack / float(shares.sum() ** 2 - shares @ shares)


def _separated(squares: np.ndarray) -> np.ndarray:
    """How much less than half of the time pairs at squared distances are confused."""
    return np.asarray(0.5 - 0.5 * _backend.erfc(ROOT_8 * np.sqrt(squares)))


def _all_log_weights(rows: slice, log_shares: np.ndarray) -> np.ndarray:
    logs = log_shares[rows, None] + log_shares[None, :]
    logs[np.arange(len(logs)), np.arange(rows.start, rows.stop)] = -math.inf
    return np.asarray(logs)


def _pulls(
    log_weights: np.ndarray, squares: np.ndarray, log_error: np.ndarray | float, moves: np.ndarray
) -> tuple[np.ndarray, bool]:
    half = 0.5 * np.sqrt(squares)
    logs = log_weights - 0.5 * half * half - (LOG_ROOT_2_PI + log_error)
    pulls = np.where(moves, np.exp(logs) / (8.0 * np.maximum(half, NO_DISTANCE)), 0.0)
    return pulls, not bool(((half <= NO_DISTANCE) & moves & (log_weights > -math.inf)).any())


def confused_most(points: np.ndarray, count: int) -> list[tuple[int, int, float]]:
    """The pairs of classes at points that are confused most, and the probability of that."""
    found = np.empty((3, 0))  # squared distance, first, second
    for rows, squares in _blocks(points):
        first, second = np.nonzero(
            np.arange(rows.start, rows.stop)[:, None] < np.arange(len(points))[None, :]
        )
        found = np.hstack([found, [squares[first, second], first + rows.start, second]])
        found = found[:, np.lexsort(found[::-1])[:count]]
    first, second = found[1:].astype(np.int64)  # once more, of which nothing cancels
    squares = np.sum((points[first] - points[second]) ** 2, axis=1)
    errors = np.exp(_backend.log_normal_cdf(-0.5 * np.sqrt(squares)))
    return [(int(i), int(j), float(e)) for i, j, e in zip(*found[1:], errors, strict=True)]


def _blocks(points: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Squared distances of some rows of points to all points, block by block."""
    norms = np.sum(points * points, axis=1)
    step = max(1, BLOCK_NUMBERS // max(1, len(points)))
    for start in range(0, len(points), step):
        rows = slice(start, min(start + step, len(points)))
        squares = norms[rows, None] + norms[None, :] - 2.0 * (points[rows] @ points.T)
        yield rows, np.maximum(squares, 0.0)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """The logarithm of Σ exp over the last axis."""
    largest = logs.max(axis=-1, keepdims=True)
    return np.asarray(largest[..., 0] + np.log(np.exp(logs - largest).sum(axis=-1)))
