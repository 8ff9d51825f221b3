r"""How far the covariance within classes is shrunk, and how unseen samples spread in the result.

In units of each feature's spread, :math:`N = (1 - \rho) R + \rho I` with the correlation matrix
within classes, :math:`R`. Both questions are answered by the eigenvalues :math:`\lambda` of R and
the energy of the class means along its eigenvectors: a sample that is left out is
:math:`\kappa = 1 / (1 - (1 - \rho) \operatorname{tr}(R N^{-1}) / (n - K))` times as far from its
class as it was, which is generalised cross-validation. All arrays are on the host.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

LARGEST_LOG_ODDS = 12.0  # of ρ that are tried
TRIED = 33


class Spectrum(NamedTuple):
    """The covariance within classes and the class means in its eigenvectors.

    Attributes
    ----------
    values : numpy.ndarray, shape (r,)
        Eigenvalues of R; the others are zero.
    energy : numpy.ndarray, shape (r,)
        The variance of the class means along each eigenvector.
    rest : float
        Their variance outside the span of these eigenvectors.
    n_features : int
        Features that vary.
    """

    values: np.ndarray
    energy: np.ndarray
    rest: float
    n_features: int

    def rank(self, eps: float) -> int:
        """How many eigenvalues are more than rounding."""
        return int((self.values > len(self.values) * eps * self.values.max(initial=0.0)).sum())


class Shrinkage(NamedTuple):
    """What is made of the covariance within classes.

    Attributes
    ----------
    weight : float
        ρ.
    inflation : float
        τ: within classes, unseen samples have τ times the variance along discriminants that N says.
    """

    weight: float
    inflation: float


def oas(spectrum: Spectrum, n: float) -> float:
    """The weight that estimates a Gaussian's covariance best, by Chen et al. (2010)."""
    d = max(spectrum.n_features, 1)
    square, trace = float((spectrum.values**2).sum()), float(spectrum.values.sum())
    above = (1.0 - 2.0 / d) * square + trace**2
    below = (n + 1.0 - 2.0 / d) * (square - trace**2 / d)
    return above / below if 0.0 < above < below else 1.0


def best_shrinkage(spectrum: Spectrum, n: float, n_classes: int, least: float) -> Shrinkage:
    """The weight that separates the classes of unseen samples best, at least that of OAS.

    Parameters
    ----------
    spectrum : Spectrum
    n : float
        The weight of all samples.
    n_classes : int
    least : float
        A positive weight that rounding needs.
    """
    least = max(oas(spectrum, n), least)
    if n <= n_classes or least >= 1.0:  # the spread within classes is not known
        return Shrinkage(1.0, 1.0)
    lowest = math.log(least) - math.log1p(-least)
    odds = np.linspace(lowest, max(lowest, LARGEST_LOG_ODDS), TRIED)
    scores = separation_of_unseen(spectrum, n, n_classes, odds)[0]
    best = int(scores.argmax())
    if 0 < best < TRIED - 1 and np.isfinite(scores[best - 1 : best + 2]).all():
        # The vertex of a parabola: a maximum that does not jump from one trial to the next.
        before, here, after = scores[best - 1 : best + 2]
        bend = before - 2.0 * here + after
        move = 0.5 * (before - after) / bend if bend < 0.0 else 0.0
        chosen = float(odds[best] + move * (odds[1] - odds[0]))
    else:
        chosen = float(odds[best])
    weight = max(least, 1.0 / (1.0 + math.exp(-chosen)))
    score, total = separation_of_unseen(spectrum, n, n_classes, np.array([chosen]))
    known = 0.0 < score[0] < math.inf and total[0] > 0.0
    return Shrinkage(weight, float(total[0] / score[0] ** 2) if known else 1.0)


def separation_of_unseen(
    spectrum: Spectrum, n: float, n_classes: int, odds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distances of class means over the spread of unseen samples, shape (j,), for log-odds of ρ.

    The second array is the variance of the class means in the metric N, which is what the square of
    the first would be if unseen samples spread as N says and means were exact. A distance of −∞
    means that nothing but noise separates the classes.
    """
    weights = 1.0 / (1.0 + np.exp(-odds))
    rest, freedom = 1.0 / (1.0 + np.exp(odds)), n - n_classes  # rest: 1 − ρ
    values, energy = np.maximum(spectrum.values, 0.0), spectrum.energy
    inverse = 1.0 / (rest[:, None] * values + weights[:, None])  # of N
    leverage = rest * (inverse @ values) / freedom
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.where(leverage < 1.0, 1.0 / (1.0 - leverage), math.inf)
        total = inverse @ energy + spectrum.rest / weights
        # Class means are off by 1 / √n_j themselves: that part of their distance is noise.
        noise = (n_classes - 1.0) / freedom * growth * (inverse @ values)
        spread = growth**2 * ((inverse * inverse) @ (values * energy)) * (n / freedom)
        distances = (total - noise) / np.sqrt(spread)
    return np.where((total > noise) & (spread > 0.0), distances, -math.inf), total
