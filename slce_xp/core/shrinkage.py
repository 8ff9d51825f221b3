r"""How far the covariance within classes is shrunk, and how unseen samples spread in the result.

In units of each feature's spread, :math:`N = (1 - \rho) R + \rho I` with the correlation matrix
within classes, :math:`R`. Both questions are answered by traces of :math:`N^{-1}` and of the class
means in it: a sample that is left out is
:math:`\kappa = 1 / (1 - (1 - \rho) \operatorname{tr}(R N^{-1}) / (n - K))` times as far from its
class as it was, which is generalised cross-validation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slce_xp import _backend

LARGEST_LOG_ODDS = 12.0  # of ρ that are tried
TRIED = 33  # an odd number: large systems try every other one, and the neighbours of the best
FEW_NUMBERS = 1000  # of class means, up to which it takes less time to try all at once


class Spectrum(NamedTuple):
    """The covariance within classes and the class means, as functions of the shift s = ρ / (1 − ρ).

    With N = (1 − ρ)(R + s).

    Attributes
    ----------
    systems : ShiftedSystems
        Those of R with the class means U in units of the spread, times the roots of their shares.
        In samples coordinates those of G = ZZᵀ with Z·U, for R = ZᵀZ.
    n_features : int
        Features that vary.
    between : float or None
        In samples coordinates, the variance tr(UᵀU) of the class means.
    """

    systems: _backend.ShiftedSystems
    n_features: int
    between: float | None = None

    def rank(self, eps: float) -> int:
        """How many eigenvalues of R are more than rounding."""
        values = self.systems.eigenvalues()
        return int((values > len(values) * eps * values.max(initial=0.0)).sum())

    def traces(self, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Traces of R(R + s)⁻¹, of Uᵀ(R + s)⁻¹U and of Uᵀ(R + s)⁻¹R(R + s)⁻¹U: (j,) ↦ (j,)."""
        once, twice, inverse = self.systems.traces(shifts)
        leverage = self.systems.right.shape[0] - shifts * inverse
        if self.between is None:
            return leverage, once, once - shifts * twice
        return leverage, (self.between - once) / shifts, twice


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
    trace, square = spectrum.systems.norms()
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
    scores = np.full(TRIED, -math.inf)
    stride = 2 if math.prod(spectrum.systems.right.shape) > FEW_NUMBERS else 1
    scores[::stride] = separation_of_unseen(spectrum, n, n_classes, odds[::stride])[0]
    best = int(scores.argmax())
    if stride > 1:
        near = [i for i in (best - 1, best + 1) if 0 <= i < TRIED]
        scores[near] = separation_of_unseen(spectrum, n, n_classes, odds[near])[0]
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
    shifts, freedom = np.exp(odds), n - n_classes
    leverage, total, spread = spectrum.traces(shifts)
    scale = 1.0 + shifts  # 1 / (1 − ρ)
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.where(leverage < freedom, freedom / (freedom - leverage), math.inf)
        total = scale * total
        # Class means are off by 1 / √n_j themselves: that part of their distance is noise.
        noise = (n_classes - 1.0) / freedom * growth * scale * leverage
        spread = growth**2 * scale**2 * spread * (n / freedom)
        distances = (total - noise) / np.sqrt(spread)
    return np.where((total > noise) & (spread > 0.0), distances, -math.inf), total
