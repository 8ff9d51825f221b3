r"""How often pairs of classes are confused, and how that changes with the plane they are seen in.

Classes are Gaussians of unit covariance about their means :math:`u_i`, with shares :math:`\pi_i`.
Two of them are confused with the probability :math:`\Phi(-\delta_{ij} / 2)`, with :math:`\delta`
the distance of their means in the plane. The logarithm of the weighted mean of that over pairs is a
convex function of the projector :math:`P = W W^T`. All arrays are on the host.

Thousands of classes have too many pairs to look at in every step: `pairs_of` takes the near ones
and draws from the others, `every_pair` lists all of them in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .. import _backend

MOST_PAIRS = 50_000  # in a list; more are drawn from
LEAST_PARTNERS = 8  # of a class in a list that is drawn
BLOCK_NUMBERS = 150_000  # that are allocated at a time; all of a complete list, K² of them, fit
# Up to this δ / √8 two projected means coincide: the slope of the error is infinite there.
NO_DISTANCE = 1e-9
LARGEST_EXPONENT = 700.0  # whose exponential is finite
TINY = 1e-300  # which stands for a weight of zero


class Tangent(NamedTuple):
    """The logarithm of an error at a relaxed projector P, and its derivatives.

    Attributes
    ----------
    log_error : float
    gradient : numpy.ndarray, shape (k, k)
        −∂ log_error / ∂P.
    inner : float
        The inner product of `gradient` and P.
    slack : float
        What pairs whose projected means coincide could take off the error in a plane: elsewhere
        they count as a constant.
    """

    log_error: float
    gradient: np.ndarray
    inner: float
    slack: float

    def joined(self, other: Tangent) -> Tangent:
        """That of the sum of two errors."""
        log_error = float(np.logaddexp(self.log_error, other.log_error))
        mine, others = math.exp(self.log_error - log_error), math.exp(other.log_error - log_error)
        return Tangent(
            log_error,
            mine * self.gradient + others * other.gradient,
            mine * self.inner + others * other.inner,
            self.slack + other.slack,
        )

    def bound(self, p: int) -> float:
        """A lower bound of `log_error` in all planes of p dimensions: it is convex in P."""
        descent = float(np.linalg.eigvalsh(self.gradient)[-p:].sum()) - self.inner
        bound = self.log_error - max(descent, 0.0)
        share = self.slack * math.exp(min(-bound, LARGEST_EXPONENT))
        return bound + math.log1p(-share) if share < 1.0 else -math.inf


class Pairs:
    """The mean error of a list of pairs, and its derivatives.

    Parameters
    ----------
    means : numpy.ndarray, shape (K, k)
        Class means, in units of the spread within classes.
    first, second : numpy.ndarray of int, shape (P,)
    weights : numpy.ndarray, shape (P,)
        What each pair counts.
    """

    def __init__(
        self, means: np.ndarray, first: np.ndarray, second: np.ndarray, weights: np.ndarray
    ) -> None:
        self.means = means
        # Products with them: values of the classes ↦ their differences, and the adjoint.
        self._subtract = _backend.incidence(first, second, len(means))
        self._gather = self._subtract.T
        self._log_weights = np.log(np.maximum(weights, TINY))

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._log_weights)

    def _differences(self, points: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Those of points (K, …, r), shape (P, …, r), some of the r columns at a time."""
        *rest, columns = points.shape[1:]
        step = max(1, BLOCK_NUMBERS // (len(self) * math.prod(rest)))
        for start in range(0, columns, step):
            block = slice(start, start + step)
            some = points[..., block]
            flat = self._subtract @ some.reshape(len(points), -1)
            yield block, flat.reshape(len(self), *some.shape[1:])

    def squares(self, points: np.ndarray) -> np.ndarray:
        """Squared distances of the pairs for classes at points, (K, …, r) ↦ (P, …)."""
        blocks = self._differences(points)
        return np.asarray(sum(np.einsum("...r,...r->...", d, d) for _, d in blocks))

    def pulled(self, pulls: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Σ_j c_ij (x_i − x_j) of each class i at points x, (P, …), (K, …, r) ↦ (K, …, r)."""
        found = np.empty(points.shape)
        for block, differences in self._differences(points):
            flat = (pulls[..., None] * differences).reshape(len(self), -1)
            found[..., block] = (self._gather @ flat).reshape(found[..., block].shape)
        return found

    def errors_and_pulls(self, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The logarithm of the mean error, (…), and −∂ / ∂ squares, (P, …), of distances (P, …)."""
        roots = np.sqrt(0.125 * squares)  # errors are erfc(δ / √8) / 2
        logs = (self._log_weights - 0.125 * squares.T).T
        largest = logs.max(axis=0)
        logs -= largest  # all errors may underflow: in units of the largest density
        pulls = np.exp(logs, out=logs)
        total = np.einsum("i...,i...->...", pulls, _backend.special().erfcx(roots))
        roots[roots <= NO_DISTANCE] = math.inf
        pulls /= roots
        pulls /= 8.0 * math.sqrt(math.pi) * total
        return largest + np.log(0.5 * total), pulls

    def tangent(self, factor: np.ndarray) -> Tangent:
        """The tangent of the mean error at P = F Fᵀ, (k, r)."""
        squares = self.squares(self.means @ factor)
        error, pulls = self.errors_and_pulls(squares)
        gradient = self.means.T @ self.pulled(pulls, self.means)
        slack, coincide = 0.0, squares <= 8.0 * NO_DISTANCE**2
        if coincide.any():
            apart = np.sqrt(self.squares(self.means)[coincide])
            errors = np.exp(_backend.special().log_ndtr(-0.5 * apart))
            slack = float(np.exp(self._log_weights[coincide]) @ (0.5 - errors))
        return Tangent(float(error), gradient, float(pulls @ squares), slack)


def pairs_of(means: np.ndarray, shares: np.ndarray, p: int) -> tuple[Pairs, bool]:
    """All pairs of classes, or those that planes of p dimensions are chosen by; whether all.

    If there are too many, each class gets partners with a probability of up to 1 that grows with
    what the pair adds to the error at the mean distance in a plane of p dimensions; weights are
    divided by it, so that the mean error is estimated without bias. The seed is fixed.
    """
    n_classes, k = means.shape
    if n_classes * (n_classes - 1) // 2 <= MOST_PAIRS:
        (pairs,) = every_pair(means, shares)
        return pairs, True
    partners = max(LEAST_PARTNERS, MOST_PAIRS // n_classes)
    draw, chosen = np.random.default_rng(0), []
    norms = np.sum(means * means, axis=1)
    step = max(1, BLOCK_NUMBERS // n_classes)
    for rows in (slice(i, i + step) for i in range(0, n_classes, step)):
        squares = norms[rows, None] + norms - 2.0 * (means[rows] @ means.T)
        weights = shares[rows, None] * shares
        itself = np.arange(len(weights)), np.arange(n_classes)[rows]
        weights[itself] = 0.0
        # In units of the row's largest: errors of classes that are far apart underflow.
        logs = _backend.special().log_ndtr(-0.5 * np.sqrt(squares.clip(0.0) * (p / k)))
        errors = weights * np.exp(logs - logs.max(axis=1, keepdims=True))
        total = np.maximum(errors.sum(axis=1, keepdims=True), TINY)
        odds = errors / total + weights / weights.sum(axis=1, keepdims=True)
        odds = np.minimum(1.0, 0.5 * partners * odds)
        first, second = np.nonzero(draw.random(odds.shape) < odds)
        drawn = weights[first, second] / odds[first, second]
        chosen.append((itself[1][first], second, drawn))
    first, second, weights = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
    return Pairs(means, first, second, weights / weights.sum()), False


def every_pair(means: np.ndarray, shares: np.ndarray) -> Iterator[Pairs]:
    """All pairs with their shares as weights, in blocks."""
    later = np.append(np.cumsum(shares[:0:-1])[::-1], 0.0)
    total = shares @ later  # nothing cancels if one class has nearly all samples
    for first, second in _blocks(len(means)):
        yield Pairs(means, first, second, shares[first] * shares[second] / total)


def _blocks(n_classes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs of classes: some first ones with all later ones at a time."""
    step = max(1, BLOCK_NUMBERS // n_classes)
    for start in range(0, n_classes - 1, step):
        first, second = np.triu_indices(min(step, n_classes - start), 1, n_classes - start)
        yield first + start, second + start


def error_of_all(points: np.ndarray, shares: np.ndarray) -> float:
    """The logarithm of the mean error of all pairs, for classes at points (K, r)."""
    blocks = every_pair(points, shares)
    return float(np.logaddexp.reduce([b.errors_and_pulls(b.squares(points))[0] for b in blocks]))


def confused_most(points: np.ndarray, count: int) -> list[tuple[int, int, float]]:
    """The pairs of classes at points that are confused most, and the probability of that."""
    found = np.empty((3, 0))  # squared distance, first, second
    for first, second in _blocks(len(points)):
        squares = Pairs(points, first, second, np.ones(len(first))).squares(points)
        found = np.hstack([found, [squares, first, second]])
        found = found[:, np.lexsort(found[::-1])[:count]]
    errors = np.exp(_backend.special().log_ndtr(-0.5 * np.sqrt(found[0])))
    return [(int(i), int(j), float(e)) for i, j, e in zip(*found[1:], errors, strict=True)]
