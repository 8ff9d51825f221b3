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

from .._backend import Array, largest_eigenpairs, namespace_of, read

LARGEST_LOG_ODDS = 12.0  # of ρ that are tried
TRIED = 33


class Spectrum:
    """The covariance within classes and the class means, as functions of ρ, by eigenvectors of R.

    Parameters
    ----------
    matrix : array, shape (r, r)
        R, positive semi-definite but for rounding. In samples coordinates G = ZZᵀ for R = ZᵀZ.
    right : array, shape (r, m)
        The class means U in units of the spread, times the roots of their shares. In samples
        coordinates Z·U.
    n_features : int
        Features that vary.
    between : float, optional
        In samples coordinates, the variance tr(UᵀU) of the class means.

    Attributes
    ----------
    right : array, shape (r, m)
        Along the eigenvectors.
    values : numpy.ndarray, shape (r,)
        The eigenvalues, on the host.
    vectors : array, shape (r, r)
        The eigenvectors.
    """

    def __init__(
        self, matrix: Array, right: Array, n_features: int, between: float | None = None
    ) -> None:
        xp = namespace_of(matrix)
        values, self.vectors = largest_eigenpairs(matrix, matrix.shape[0])
        self.right = self.vectors.T @ right
        self._values = xp.clip(values, 0.0)
        self.values, self._energies = read(self._values, xp.sum(self.right * self.right, axis=1))
        self.n_features, self._between = n_features, between

    def rank(self, eps: float) -> int:
        """How many eigenvalues of R are more than rounding."""
        level = len(self.values) * eps * self.values.max(initial=0.0)
        return int((self.values > level).sum())

    def traces(self, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Traces of R(R + s)⁻¹, of Uᵀ(R + s)⁻¹U and of Uᵀ(R + s)⁻¹R(R + s)⁻¹U: (j,) ↦ (j,)."""
        inverse = 1.0 / (self.values + shifts[:, None])
        energies = inverse * self._energies
        once, twice = energies.sum(axis=1), energies * inverse
        leverage = inverse @ self.values
        if self._between is None:
            return leverage, once, twice @ self.values
        return leverage, (self._between - once) / shifts, twice.sum(axis=1)

    def metric(self, weight: float) -> Array:
        """The eigenvalues of N = (1 − ρ)R + ρ, shape (r, 1)."""
        return ((1.0 - weight) * self._values + weight)[:, None]


class Shrinkage(NamedTuple):
    """How the covariance within classes is shrunk and scaled.

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
    trace, square = float(spectrum.values.sum()), float((spectrum.values**2).sum())
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
    scores, _ = separation_of_unseen(spectrum, n, n_classes, odds)
    best = int(scores.argmax())
    chosen = float(odds[best])
    before, here, after = np.pad(scores, 1, constant_values=-math.inf)[best : best + 3]
    bend = float(before + after) - 2.0 * float(here)
    if -math.inf < bend < 0.0:
        # The vertex of a parabola: a maximum that does not jump from one trial to the next.
        chosen += 0.5 * float((before - after) * (odds[1] - odds[0])) / bend
    weight = max(least, 1.0 / (1.0 + math.exp(-chosen)))
    score, total = separation_of_unseen(spectrum, n, n_classes, np.array([chosen]))
    is_known = 0.0 < score[0] < math.inf
    return Shrinkage(weight, float(total[0] / score[0] ** 2) if is_known else 1.0)


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
