r"""The plane in which pairs of classes overlap least.

Classes are Gaussians of unit covariance about their means :math:`u_i`, with shares :math:`\pi_i`.
Two of them are confused with the probability :math:`\Phi(-\delta_{ij} / 2)`, with :math:`\delta`
the distance of their means in the plane. The weighted mean of that over all pairs, or rather its
logarithm, is a convex function of the projector :math:`P = W W^T`: Frank–Wolfe steps bound its
minimum, and a descent with a line search from there finds a plane. All arrays are K × K, on the
host.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slce_xp import _backend

MOST_STEPS = 25  # of Frank–Wolfe
MOST_WORK = 2e10  # flops of their eigenproblems; very many classes get fewer steps
SMALL_GAP = 1e-3  # of the logarithm of the error at which they end
DRAWN_STARTS = 6
MOST_VERTICES = 3  # planes met on the way that a descent begins from, besides the rounded one
HALVINGS = 8  # of the interval of a line search
FIRST_DESCENTS = 8  # from each start, before the best of them are followed
MOST_FOLLOWED = 2
MOST_DESCENTS = 200
LEAST_DESCENT = 1e-8  # of the logarithm of the error, at which a descent ends
# Below this logarithm, errors are too small to be seen in any data: a coarser descent will do.
NO_ERROR, COARSE_DESCENT = -20.0, 1e-3
# Half the distance of two projected means that counts as zero: the slope is infinite there.
NO_DISTANCE = 1e-9


class Plane(NamedTuple):
    """A plane, and how well classes are told apart in it.

    Attributes
    ----------
    basis : numpy.ndarray, shape (k, p)
        W, with orthonormal columns.
    log_error : float
        Logarithm of the mean probability that two classes are confused.
    log_bound : float
        A proved lower bound of it for all planes.
    """

    basis: np.ndarray
    log_error: float
    log_bound: float


def best_plane(means: np.ndarray, shares: np.ndarray, p: int) -> Plane:
    """The plane of p dimensions in which classes are confused least.

    Parameters
    ----------
    means : numpy.ndarray, shape (K, k)
        Class means, in units of the spread within classes.
    shares : numpy.ndarray, shape (K,)
        The weight of each class.
    p : int
        At most k.
    """
    pairs = _Pairs(means, shares)
    k = means.shape[1]
    if p >= k:
        basis = np.eye(k)
        error = pairs.log_error(pairs.squares(basis))
        return Plane(basis, error, error)
    starts, bound = _relaxed(pairs, p)
    # The error has several minima among planes: the most promising starts are followed to the end.
    begun = sorted((_descend(pairs, start, FIRST_DESCENTS) for start in starts), key=_error_of)
    planes = [_descend(pairs, start, MOST_DESCENTS) for start, _ in begun[:MOST_FOLLOWED]]
    basis, error = min(planes, key=_error_of)
    return Plane(basis, error, min(bound, error))


def _error_of(found: tuple[np.ndarray, float]) -> float:
    return found[1]


def confusions(means: np.ndarray) -> np.ndarray:
    """The probability that each pair of classes is confused, shape (K, K); 0 on the diagonal."""
    overlaps = np.exp(_backend.log_normal_cdf(-0.5 * np.sqrt(_squared_distances(means))))
    np.fill_diagonal(overlaps, 0.0)
    return np.asarray(overlaps)


def _squared_distances(means: np.ndarray) -> np.ndarray:
    norms = np.sum(means * means, axis=1)
    squares = norms[:, None] + norms[None, :] - 2.0 * (means @ means.T)
    np.fill_diagonal(squares, 0.0)
    return np.asarray(np.maximum(squares, 0.0))


class _Pairs:
    """The mean error of all pairs of classes, and its derivatives."""

    def __init__(self, means: np.ndarray, shares: np.ndarray) -> None:
        self.means = means
        with np.errstate(divide="ignore"):
            weights = np.log(shares[:, None]) + np.log(shares[None, :])
        np.fill_diagonal(weights, -math.inf)
        self._log_weights = weights - _log_sum(weights)
        # Classes with the same mean are confused in every plane: nothing pulls them apart.
        full = _squared_distances(means)
        self._moves = full > 1e-12 * full.max(initial=0.0)

    def squares(self, basis: np.ndarray) -> np.ndarray:
        """Squared distances in a plane, shape (K, K)."""
        return _squared_distances(self.means @ basis)

    def log_error(self, squares: np.ndarray) -> float:
        """The logarithm of the mean error, for squared distances."""
        return _log_sum(self._log_weights + _backend.log_normal_cdf(-0.5 * np.sqrt(squares)))

    def pulls(self, squares: np.ndarray, log_error: float) -> tuple[np.ndarray, bool]:
        """−∂ log_error / ∂ squares, shape (K, K), and whether all are exact."""
        half = 0.5 * np.sqrt(squares)
        safe = np.maximum(half, NO_DISTANCE)
        logs = self._log_weights - 0.5 * half * half - 0.5 * math.log(2.0 * math.pi) - log_error
        pulls = np.where(self._moves, np.exp(logs) / (8.0 * safe), 0.0)
        return pulls, bool((half > NO_DISTANCE)[self._moves].all())

    def gradient(self, pulls: np.ndarray) -> np.ndarray:
        """−∂ log_error / ∂P, shape (k, k): Σ c (u_i − u_j)(u_i − u_j)ᵀ."""
        laplacian = np.diag(pulls.sum(axis=1)) - pulls
        return np.asarray(2.0 * (self.means.T @ laplacian @ self.means))


def _log_sum(logs: np.ndarray) -> float:
    largest = float(logs.max())
    return largest + math.log(float(np.exp(logs - largest).sum()))


def _relaxed(pairs: _Pairs, p: int) -> tuple[list[np.ndarray], float]:
    """Frank–Wolfe over 0 ⪯ P ⪯ I, tr P = p: planes to start from, and the bound."""
    n_classes, k = pairs.means.shape
    projector = np.eye(k) * (p / k)
    squares = pairs.squares(np.eye(k)) * (p / k)
    bound, starts = -math.inf, []
    steps = max(3, min(MOST_STEPS, int(MOST_WORK / n_classes**3)))
    for _ in range(steps):
        error = pairs.log_error(squares)
        pulls, exact = pairs.pulls(squares, error)
        values, vectors = np.linalg.eigh(pairs.gradient(pulls))
        vertex = vectors[:, k - p :]
        gap = float(values[k - p :].sum() - (pulls * squares).sum())
        if exact:
            bound = max(bound, error - max(gap, 0.0))
        other = pairs.squares(vertex)
        starts.append((vertex, pairs.log_error(other)))
        if gap <= SMALL_GAP:
            break
        share = _step(pairs, squares, other - squares)
        projector = (1.0 - share) * projector + share * (vertex @ vertex.T)
        squares = (1.0 - share) * squares + share * other
    rounded = np.linalg.eigh(projector)[1][:, k - p :]
    best = sorted(starts, key=_error_of)[:MOST_VERTICES]
    return [rounded, *(vertex for vertex, _ in best), *_other_starts(pairs, p)], bound


def _other_starts(pairs: _Pairs, p: int) -> list[np.ndarray]:
    """The leading axes of the means, and planes drawn with a fixed seed."""
    k = pairs.means.shape[1]
    centred = pairs.means - pairs.means.mean(axis=0)
    leading = np.linalg.eigh(centred.T @ centred)[1][:, k - p :]
    drawn = np.random.default_rng(0).standard_normal((DRAWN_STARTS, k, p))
    return [leading, *np.linalg.qr(drawn)[0]]


def _step(pairs: _Pairs, squares: np.ndarray, change: np.ndarray) -> float:
    """The share of a change that lowers the error most, by bisection of its slope."""

    def falls(share: float) -> bool:
        there = np.maximum(squares + share * change, 0.0)
        pulls, _ = pairs.pulls(there, pairs.log_error(there))
        return float((pulls * change).sum()) > 0.0

    if falls(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falls(middle) else (low, middle)
    return low


def _descend(pairs: _Pairs, basis: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
    """Descend along the Grassmannian with a line search, at most to a stationary plane."""
    squares = pairs.squares(basis)
    error, length = pairs.log_error(squares), 1.0
    for _ in range(steps):
        least = LEAST_DESCENT if error > NO_ERROR else COARSE_DESCENT
        direction = pairs.gradient(pairs.pulls(squares, error)[0]) @ basis
        direction -= basis @ (basis.T @ direction)
        slope = float((direction * direction).sum())
        length *= 4.0
        while True:
            moved = np.linalg.qr(basis + length * direction)[0]
            squares = pairs.squares(moved)
            found = pairs.log_error(squares)
            if found <= error - 1e-4 * length * slope or length * slope < least:
                break
            length *= 0.5
        if found >= error:
            break
        descent, basis, error = error - found, moved, found
        if descent < least:
            break
    return basis, error
