"""The plane in which pairs of classes are confused least, and how far it is from any other.

The error is convex over the relaxed projectors 0 ⪯ P ⪯ I, tr P = p, of which planes are the extreme
points: projected gradient steps there bound its minimum.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from slce_xp.core import plane_search
from slce_xp.core.pairs import (
    Pairs,
    error_in_all_dimensions,
    error_of_all,
    pairs_of,
    slack_of_all,
)

MOST_RELAXED = 12  # steps of the relaxed problem
# They end if the bound can rise by no more than this: a difference of logarithms of the error, or a
# share of what the plane is above the bound.
SMALL_GAP, SHARE_OF_GAP = 1e-3, 0.2
MOST_WORK = 1e10  # flops of their eigenproblems and products; large problems get fewer steps
SUFFICIENT = 1e-4  # share of the predicted descent that a step must reach
REMEMBERED = 4  # errors of earlier steps that a step may be compared with
TINY, LARGEST_EXPONENT = 1e-300, 700.0


class Plane:
    """A plane, and how well classes are told apart in it.

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
        """Return what tells planes apart; compiled functions of a model depend on it."""
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
        """A proved bound of what any other plane of as many dimensions could take off `error`."""
        return self.error - math.exp(self.log_bound)

    @cached_property
    def log_bound(self) -> float:
        """A proved lower bound of `log_error` for all planes, computed when it is asked for."""
        means, shares = self._problem
        k, p = self.basis.shape
        if p >= k:
            return self.log_error
        pairs, are_all = pairs_of(means, shares, p)
        factor, bound = _relax(pairs, p, self.log_error)
        if not are_all:
            bound = _bound_of_all(means, shares, factor, p)
        # Pairs that count as having the same mean stand still there, but may not in a plane.
        slack = pairs.slack if are_all else slack_of_all(means, shares)
        share = slack * math.exp(min(-bound, LARGEST_EXPONENT)) if slack else 0.0
        bound = bound + math.log1p(-share) if share < 1.0 else -math.inf
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
        return Plane(np.eye(k), error_in_all_dimensions(means, shares), means, shares)
    pairs, are_all = pairs_of(means, shares, p)
    basis, error = plane_search.search(pairs, p, is_exact=are_all)
    if not are_all:  # the list chose the plane; all pairs say what it and the axes are worth
        error, basis = min(
            (
                (error_of_all(means @ plane.T, means, shares, with_gradient=False)[0], plane)
                for plane in (basis, np.eye(p, k))
            ),
            key=lambda found: found[0],
        )
    return Plane(basis.T, error, means, shares)


def _relax(pairs: Pairs, p: int, reached: float) -> tuple[np.ndarray, float]:
    """Projected gradient steps with the lengths of Barzilai and Borwein.

    Parameters
    ----------
    reached : float
        The logarithm of the error of a plane.

    Returns
    -------
    factor : numpy.ndarray, shape (k, r)
        F with a relaxed projector P = F Fᵀ, more or less that of the minimum.
    bound : float
        A proved lower bound of the logarithm of the error.
    """
    k = pairs.means.shape[1]
    factor = np.eye(k) * math.sqrt(p / k)
    error, gradient, inner, exact = _evaluate(pairs, factor)
    projector, length, bound = factor @ factor.T, 0.0, -math.inf
    errors = [error]
    work = 30.0 * k**3 + 10.0 * len(pairs) * k
    for step in range(max(2, min(MOST_RELAXED, int(MOST_WORK / work))) + 1):
        values = np.linalg.eigvalsh(gradient)
        gap = float(values[k - p :].sum()) - inner
        bound = max(bound, error - max(gap, 0.0)) if exact else bound
        enough = max(SMALL_GAP, SHARE_OF_GAP * (reached - bound))
        if error - bound <= enough or step == MOST_RELAXED:
            break
        length = length or 1.0 / max(float(values[-1]), TINY)
        while True:
            factor = _nearest_relaxed(projector + length * gradient, p)
            moved = factor @ factor.T
            found, slopes, inner, exact = _evaluate(pairs, factor)
            change = moved - projector
            promised = float((change * gradient).sum())
            if (
                found <= max(errors[-REMEMBERED:]) - SUFFICIENT * promised
                or promised < SMALL_GAP**2
            ):
                break
            length *= 0.25
        bent = float((change * (gradient - slopes)).sum())
        length = float((change * change).sum()) / bent if bent > TINY else 4.0 * length
        projector, error, gradient = moved, found, slopes
        errors.append(error)
    return factor, bound


def _evaluate(pairs: Pairs, factor: np.ndarray) -> tuple[float, np.ndarray, float, bool]:
    """The logarithm of the error at P = F Fᵀ, −∂/∂P, its inner product with P, if it is exact."""
    squares = pairs.distances(factor)
    error, pulls = pairs.errors_and_pulls(squares)
    inner = float(pulls @ squares)
    return float(error), pairs.gradient(pulls), inner, pairs.are_apart(squares)


def _nearest_relaxed(matrix: np.ndarray, p: int) -> np.ndarray:
    """F for the nearest F Fᵀ with eigenvalues from 0 to 1 and trace p."""
    values, vectors = np.linalg.eigh(matrix)
    levels = np.sort(np.concatenate([values, values - 1.0]))
    traces = _between_0_and_1(values - levels[:, None]).sum(axis=1)
    kept = _between_0_and_1(values - np.interp(-p, -traces, levels))
    some = kept > 0.0
    return np.asarray(vectors[:, some] * np.sqrt(kept[some]))


def _between_0_and_1(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(values, 0.0), 1.0))


def _bound_of_all(means: np.ndarray, shares: np.ndarray, factor: np.ndarray, p: int) -> float:
    """What no plane is below, by the tangent of the error of all pairs at P = F Fᵀ."""
    error, gradient, inner, is_exact = error_of_all(means @ factor, means, shares, True)
    gap = float(np.linalg.eigvalsh(gradient)[-p:].sum()) - inner
    return error - max(gap, 0.0) if is_exact else -math.inf
