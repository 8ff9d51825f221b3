"""Supervised functional PCA: Nie, Wang, Liu & Cao (2018)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.interpolate import BSpline
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.peers.base import NEIGHBOURS, Peer, as_number, folds, one_hot

DEGREE = 3
# What cross-validation chooses from. On [0, 1] a sine of f periods has a squared second derivative
# of (2πf)⁴ ≈ 1600 f⁴ times its square: 1e-8 halves what has 16 periods, 1e-4 what has 1.6.
THETAS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
LAMBDAS = (0.0, 1e-8, 1e-6, 1e-4)
LARGEST_LAMBDA = 1e6


class SFPCA(Peer):
    """Supervised functional PCA: principal functions of curves, drawn towards the class means.

    Maximises (θ ⟨ξ, Σξ⟩ + (1 − θ) ⟨ξ, Σ_b ξ⟩) / (‖ξ‖² + λ ∫ξ″²) over functions ξ, with Σ the
    covariance of the curves and Σ_b that of the class means, weighted by the sizes of the classes.
    Curves are smoothed by least squares on cubic B-splines first. θ = 1 and λ = 0 give functional
    PCA.

    The authors' R code for two classes (fpca_binary.R) divides the second term by n once more, so
    that labels count less the more curves there are; this is left out here.

    Parameters
    ----------
    n_components : int
    theta : "cv" or float
        From 0, the labels alone, to 1. "cv": the one of `THETAS` whose scores predict held-out
        labels best by 5 nearest neighbours; of equals the largest.
    lam : "cv" or float
        The weight λ of the roughness. "cv": one of `LAMBDAS`, chosen together with θ; of equals
        the smallest.
    n_basis : int or None
        Splines, with knots at equal distances; None: 30, or fewer for curves of fewer points.
    points : sequence of float or None
        Where the curves were sampled; None: at equal distances in [0, 1].
    n_folds : int
    random_state : int
        Of the folds.

    Attributes
    ----------
    components_ : numpy.ndarray, shape (k, d)
        What sampled curves are multiplied by to get ⟨x, ξ⟩.
    coefficients_ : numpy.ndarray, shape (k, n_basis)
        The functions ξ in the basis, orthonormal in the norm of the denominator.
    theta_, lam_ : float
    """

    def __init__(
        self,
        n_components: int = 2,
        theta: float | str = "cv",
        lam: float | str = "cv",
        *,
        n_basis: int | None = None,
        points: Sequence[float] | None = None,
        n_folds: int = 5,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.theta = theta
        self.lam = lam
        self.n_basis = n_basis
        self.points = points
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any) -> SFPCA:
        """Fit to curves, shape (n, points), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        self.basis_ = splines(self._points(X.shape[1]), self.n_basis)
        thetas = self._candidates("theta", THETAS[::-1], 1.0)
        lams = self._candidates("lam", LAMBDAS, LARGEST_LAMBDA)
        self.mean_, self.scale_ = X.mean(axis=0), 1.0
        S = (X - self.mean_) @ self.basis_.smoother
        choices = list(itertools.product(thetas, lams))
        self.theta_, self.lam_ = choices[0]
        if len(choices) > 1:
            self.theta_, self.lam_ = self._cross_validated(S, labels.codes, choices)
        self.coefficients_ = self._functions(S, labels.codes, self.theta_, self.lam_)
        self.components_ = self.coefficients_ @ self.basis_.products @ self.basis_.smoother.T
        return self

    def _points(self, d: int) -> np.ndarray:
        if self.points is None:
            return np.linspace(0.0, 1.0, d)
        points = np.asarray(self.points, dtype=np.float64)
        if points.shape != (d,) or not np.all(np.diff(points) > 0):
            raise ValueError(f"points must be {d} ascending numbers, one for each column of X")
        return points

    def _candidates(self, name: str, grid: tuple[float, ...], most: float) -> tuple[float, ...]:
        value = getattr(self, name)
        return grid if value == "cv" else (as_number(value, name, "'cv'", most),)

    def _functions(self, S: np.ndarray, codes: np.ndarray, theta: float, lam: float) -> np.ndarray:
        """Coefficients of the functions, shape (k, n_basis), for centred coefficients of curves."""
        counts = np.bincount(codes)
        present = counts > 0
        sums = one_hot(codes, len(counts)).T @ S
        means = sums[present] / np.sqrt(counts[present] * len(S))[:, None]
        W = self.basis_.products
        Q = W @ (theta / len(S) * S.T @ S + (1.0 - theta) * means.T @ means) @ W
        G = W + lam * self.basis_.roughness
        m = len(W)
        vectors = scipy.linalg.eigh(Q, G, subset_by_index=(m - self.n_components, m - 1))[1]
        return vectors[:, ::-1].T

    def _cross_validated(
        self, S: np.ndarray, codes: np.ndarray, choices: list[tuple[float, float]]
    ) -> tuple[float, float]:
        right = np.zeros(len(choices))
        for inside, outside in folds(codes, self.n_folds, self.random_state):
            mean = S[inside].mean(axis=0)
            for i, choice in enumerate(choices):
                functions = self._functions(S[inside] - mean, codes[inside], *choice)
                scores = S @ (self.basis_.products @ functions.T)
                classifier = KNeighborsClassifier(NEIGHBOURS).fit(scores[inside], codes[inside])
                right[i] += (classifier.predict(scores[outside]) == codes[outside]).sum()
        return choices[int(np.argmax(right))]


class Splines(NamedTuple):
    """Cubic B-splines on the points where curves were sampled."""

    smoother: np.ndarray  # (points, m): a sampled curve times it is its coefficients
    products: np.ndarray  # (m, m): ∫ φ_i φ_j
    roughness: np.ndarray  # (m, m): ∫ φ_i″ φ_j″
    knots: np.ndarray


def splines(points: np.ndarray, n_basis: int | None) -> Splines:
    """The basis for curves sampled at these ascending points."""
    most = len(points)
    if n_basis is None:
        n_basis = min(30, most)
    if not DEGREE < n_basis <= most:
        raise ValueError(
            f"n_basis must be from {DEGREE + 1} to the number of points, {most}; got {n_basis}"
        )
    breaks = np.linspace(points[0], points[-1], n_basis - DEGREE + 1)
    knots = np.concatenate([[breaks[0]] * DEGREE, breaks, [breaks[-1]] * DEGREE])
    basis = BSpline(knots, np.eye(n_basis), DEGREE)
    # Four nodes in each interval are exact for polynomials up to degree 7; products have 6.
    nodes, weights = np.polynomial.legendre.leggauss(DEGREE + 1)
    half = np.diff(breaks)[:, None] / 2
    at = (breaks[:-1, None] + half * (nodes + 1)).ravel()
    weights = np.sqrt((half * weights).ravel())[:, None]
    values, curvatures = weights * basis(at), weights * basis(at, 2)
    smoother = np.linalg.pinv(basis(points)).T
    return Splines(smoother, values.T @ values, curvatures.T @ curvatures, knots)
