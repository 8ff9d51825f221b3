"""The plane in which pairs of classes are confused least, and how far it is from any other.

The error is convex over the relaxed projectors 0 ⪯ P ⪯ I, tr P = p, of which planes are the extreme
points: projected gradient steps there bound its minimum.
"""

from __future__ import annotations

import math
from functools import cached_property, reduce
from typing import Any

import numpy as np

from . import _plane_search
from ._pairs import TINY, Pairs, Tangent, error_of_all, every_pair, pairs_of

MOST_RELAXED = 12  # steps of the relaxed problem
SMALL_GAP = 1e-3  # of logarithms of the error: they end if the bound can rise by no more
MOST_WORK = 1e10  # flops of their eigenproblems and products; large problems get fewer steps


class Plane:
    """A plane, and how well it separates classes.

    Parameters
    ----------
    basis : numpy.ndarray, shape (k, p)
        W, with orthonormal columns.
    log_error : float
        Logarithm of the mean probability that two classes are confused.
    means : numpy.ndarray, shape (K, k)
    shares : numpy.ndarray, shape (K,)
    """

    def __init__(
        self, basis: np.ndarray, log_error: float, means: np.ndarray, shares: np.ndarray
    ) -> None:
        self.basis, self.log_error = basis, log_error
        self._problem = (means, shares)

    def __repr__(self) -> str:
        """Return what identifies a plane; compiled functions of a model depend on it."""
        return f"Plane(log_error={self.log_error!r})"

    def __getstate__(self) -> dict[str, Any]:
        """With the bound instead of what it is computed from, which is larger."""
        return {**vars(self), "log_bound": self.log_bound, "_problem": None}

    @property
    def error(self) -> float:
        """The mean probability that two classes are confused."""
        return math.exp(self.log_error)

    @property
    def gap(self) -> float:
        """A proved bound of how much smaller the `error` of any other such plane can be."""
        return self.error - math.exp(self.log_bound)

    @cached_property
    def log_bound(self) -> float:
        """A proved lower bound of `log_error` for all planes, computed when it is asked for."""
        means, shares = self._problem
        k, p = self.basis.shape
        if p >= k:
            return self.log_error
        pairs, are_all = pairs_of(means, shares, p)
        factor, bound = _relax(pairs, p)
        if not are_all:
            tangents = (block.tangent(factor) for block in every_pair(means, shares))
            bound = reduce(Tangent.joined, tangents).bound(p)
        return min(bound, self.log_error)


def best_plane(means: np.ndarray, shares: np.ndarray, p: int) -> Plane:
    """The plane of p dimensions in which classes are confused least.

    Parameters
    ----------
    means : numpy.ndarray, shape (K, k)
        Class means, in units of the spread within classes, along axes of descending variance.
    shares : numpy.ndarray, shape (K,)
        The weight of each class.
    p : int
        At most k.
    """
    k = means.shape[1]
    if p >= k:
        return Plane(np.eye(k), error_of_all(means, shares), means, shares)
    pairs, are_all = pairs_of(means, shares, p)
    planes = [_plane_search.search(pairs, shares, p)]
    if not are_all:  # drawn pairs may mislead: it must not be worse than the leading axes
        planes.append(np.eye(k, p))
    errors = [error_of_all(means @ plane, shares) for plane in planes]
    return Plane(planes[int(np.argmin(errors))], min(errors), means, shares)


def least_plane(means: np.ndarray, shares: np.ndarray, share: float) -> Plane:
    """The best plane of the fewest dimensions that reach a share of what all of them separate.

    Parameters
    ----------
    means, shares
        As in `best_plane`.
    share : float
        Of the probability beyond chance, ½, that two classes are distinguished.
    """
    plane = best_plane(means, shares, means.shape[1])
    most = 0.5 - share * (0.5 - plane.error)
    low, high = 1, means.shape[1]
    while low < high:  # more dimensions never separate less
        middle = (low + high) // 2
        found = best_plane(means, shares, middle)
        if found.error <= most:
            plane, high = found, middle
        else:
            low = middle + 1
    return plane


def _relax(pairs: Pairs, p: int) -> tuple[np.ndarray, float]:
    """Projected gradient steps with the lengths of Barzilai and Borwein.

    A step may raise the error, but not above that of the first point.

    Returns
    -------
    factor : numpy.ndarray, shape (k, r)
        F with a relaxed projector P = F Fᵀ, near that of the minimum.
    bound : float
        A proved lower bound of the logarithm of the error: the highest of all steps.
    """
    k = pairs.means.shape[1]
    factor = np.eye(k) * math.sqrt(p / k)
    tangent = pairs.tangent(factor)
    best, highest = (tangent.bound(p), factor), tangent.log_error
    length = 1.0 / max(float(np.linalg.norm(tangent.gradient, 2)), TINY)
    work = 30.0 * k**3 + 10.0 * len(pairs) * k
    for _ in range(max(2, min(MOST_RELAXED, int(MOST_WORK / work)))):
        if tangent.log_error - best[0] <= SMALL_GAP:
            break
        projector = factor @ factor.T
        while True:
            factor = _nearest_relaxed(projector + length * tangent.gradient, p)
            found = pairs.tangent(factor)
            change = factor @ factor.T - projector
            if found.log_error <= highest or np.linalg.norm(change) < SMALL_GAP**2:
                break
            length *= 0.25
        bent = float((change * (tangent.gradient - found.gradient)).sum())
        length = float((change * change).sum()) / bent if bent > TINY else 4.0 * length
        tangent = found
        best = max(best, (tangent.bound(p), factor), key=lambda pair: pair[0])
    return best[1], best[0]


def _nearest_relaxed(matrix: np.ndarray, p: int) -> np.ndarray:
    """F for the nearest F Fᵀ with eigenvalues from 0 to 1 and trace p."""
    values, vectors = np.linalg.eigh(matrix)
    levels = np.sort(np.concatenate([values, values - 1.0]))
    traces = np.clip(values - levels[:, None], 0.0, 1.0).sum(axis=1)
    kept = np.clip(values - np.interp(-p, -traces, levels), 0.0, 1.0)
    some = kept > 0.0
    return np.asarray(vectors[:, some] * np.sqrt(kept[some]))
