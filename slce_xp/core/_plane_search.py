"""How the plane is found in which pairs of classes are confused least.

Planes may have several local minima: some steps down from the best of many that are drawn show
which of these goes on to its minimum.
"""

from __future__ import annotations

import math

import numpy as np

from .. import _backend
from ._pairs import TINY, Pairs

# Planes that are drawn, and the best of these, which are descended from. Half as many miss the best
# minimum in twice as many problems of 3 to 32 classes.
DRAWN, DESCENTS = 64, 8
DRAWN_NUMBERS = 2**15  # of pairs in planes that are drawn: many pairs get fewer planes
FIRST_STEPS, MOST_STEPS = 8, 200  # from these, and from the one that is best then
FLATTEST = 0.1  # share of the largest spread of class means that drawn planes have along an axis


def search(pairs: Pairs, shares: np.ndarray, p: int) -> np.ndarray:
    """The best plane of p dimensions that is found, shape (k, p).

    Parameters
    ----------
    shares : numpy.ndarray, shape (K,)
        The weight of each class.
    """
    planes = _best(pairs, _starts(pairs, shares, p), DESCENTS)
    planes = _best(pairs, _descended(pairs, planes, FIRST_STEPS), 1)
    return np.asarray(_descended(pairs, planes, MOST_STEPS)[0])


def _best(pairs: Pairs, planes: np.ndarray, count: int) -> np.ndarray:
    """Those of some planes with the least errors, (S, k, p) ↦ (count, k, p)."""
    errors, _ = pairs.errors_and_pulls(pairs.squares(_points(pairs, planes)))
    return np.asarray(planes[np.argsort(errors, kind="stable")[:count]])


def _points(pairs: Pairs, bases: np.ndarray) -> np.ndarray:
    """The class means in planes with orthonormal bases, (S, k, p) ↦ (K, S, p)."""
    return np.asarray((pairs.means @ bases).swapaxes(0, 1))


def _starts(pairs: Pairs, shares: np.ndarray, p: int) -> np.ndarray:
    """Planes that may be near a minimum, shape (S, k, p); fewer if there are many pairs."""
    k = pairs.means.shape[1]
    count = max(DESCENTS, min(DRAWN, DRAWN_NUMBERS // len(pairs)))
    # Spanned by mixtures of classes, so that neither signs nor turns of the axes matter.
    mixtures = np.random.default_rng(0).standard_normal((count, p, len(shares)))
    rooted = pairs.means * np.sqrt(shares)[:, None]
    spread = np.sqrt(np.sum(rooted * rooted, axis=0))
    least = FLATTEST * spread.max()
    stretch = np.maximum(spread, least) / np.maximum(spread, TINY)
    planes = np.linalg.qr(((mixtures @ rooted) * stretch).swapaxes(1, 2))[0]
    planes[0] = np.eye(k, p)
    # Of all planes, the one that the error of all axes, seen equally, falls towards.
    gradient = pairs.tangent(np.eye(k) * math.sqrt(p / k)).gradient
    planes[1] = np.linalg.eigh(gradient)[1][:, k - p :]
    return planes


def _descended(pairs: Pairs, planes: np.ndarray, steps: int) -> np.ndarray:
    """Descend from several planes at once, by the sum of the logarithms of their errors."""

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        errors, slopes = _errors_and_slopes(pairs, flat.reshape(planes.shape))
        return float(errors.sum()), slopes.ravel()

    flat = _backend.minimize(value_and_gradient, planes.ravel(), steps)
    return np.linalg.qr(flat.reshape(planes.shape))[0]


def _errors_and_slopes(pairs: Pairs, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logarithm of the error of each plane, (S,), and its gradient, (S, k, p).

    Parameters
    ----------
    columns : numpy.ndarray, shape (S, k, p)
        What spans the planes; steps along a gradient leave them far from dependent.
    """
    inverse = np.linalg.inv(np.linalg.cholesky(columns.swapaxes(1, 2) @ columns))
    bases = columns @ inverse.swapaxes(1, 2)
    points = _points(pairs, bases)
    errors, pulls = pairs.errors_and_pulls(pairs.squares(points))
    slopes = -2.0 * (pairs.means.T @ pairs.pulled(pulls, points).swapaxes(0, 1))
    slopes -= bases @ (bases.swapaxes(1, 2) @ slopes)  # turns within a plane do not change it
    return errors, slopes @ inverse
