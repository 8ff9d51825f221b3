"""Supervised singular value decomposition: Li, Yang, Nobel & Shen (2016)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from benchmarks.peers.base import Peer, contrasts, in_row_space

# Of the mean variance of X: the least that the variance of its noise may be.
LEAST_NOISE = 1e-8


class SupSVD(Peer):
    """Supervised SVD: X = UVᵀ + E with scores U = YB + F that the labels drive.

    V has orthonormal columns, E has variance σ² in every entry, and the rows of F have the diagonal
    covariance S_f. Y are the labels (`contrasts`). EM maximises the likelihood of X given Y. A
    sample is embedded as XV, since the scores that EM estimates need the label.

    Two things differ from the authors' MATLAB code (SupPCA.m). Nothing is divided by S_f, which
    may be singular. And V is brought into its normal form by its QR decomposition and the
    eigenvectors of the small R S_f Rᵀ: those of V S_f Vᵀ would lose directions in which S_f is
    zero.

    Parameters
    ----------
    n_components : int
    max_iter : int
        Steps of EM.
    tol : float
        EM ends when a step adds less than this to the mean log-likelihood of an entry of X.

    Attributes
    ----------
    components_ : numpy.ndarray, shape (k, d)
        The rows of Vᵀ, by descending variance of XV.
    coefficients_ : numpy.ndarray, shape (K − 1, k)
        B.
    score_variances_ : numpy.ndarray, shape (k,)
        The diagonal of S_f.
    noise_ : float
        σ².
    log_likelihoods_ : numpy.ndarray, shape (steps + 1,)
        Mean of a sample, before each step and after the last.
    """

    def __init__(self, n_components: int = 2, *, max_iter: int = 2000, tol: float = 1e-9) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: np.ndarray, y: Any) -> SupSVD:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        self.mean_, self.scale_ = X.mean(axis=0), 1.0
        # V lies in the row space, whose complement has nothing but noise.
        Z, axes = in_row_space(X - self.mean_)
        moments = _Moments(Z, contrasts(labels.codes, len(labels.classes)), X.shape[1])
        state = moments.start(self.n_components)
        likelihoods = [moments.log_likelihood(state)]
        for _ in range(self.max_iter):
            state = moments.step(state)
            likelihoods.append(moments.log_likelihood(state))
            if likelihoods[-1] - likelihoods[-2] < self.tol * moments.d:
                break
        self.log_likelihoods_ = np.array(likelihoods)
        order = np.argsort(-np.einsum("ij,ij->j", state.V, moments.XX @ state.V), kind="stable")
        components = state.V[:, order].T
        self.components_ = components if axes is None else components @ axes.T
        self.coefficients_ = state.B[:, order]
        self.score_variances_ = state.variances[order]
        self.noise_ = state.noise
        return self


class _State(NamedTuple):
    """The parameters in their normal form."""

    V: np.ndarray  # (r, k), orthonormal columns
    B: np.ndarray  # (q, k)
    variances: np.ndarray  # (k,), of F
    noise: float


class _Moments:
    """Second moments of X and Y: all that EM needs of the data."""

    def __init__(self, X: np.ndarray, Y: np.ndarray, d: int) -> None:
        n = len(X)
        self.XX, self.XY, self.YY = X.T @ X / n, X.T @ Y / n, Y.T @ Y / n
        self.d = d  # of X before it was brought into its row space
        self.variance = float(np.trace(self.XX))
        self.least = LEAST_NOISE * self.variance / d

    def start(self, k: int) -> _State:
        """PCA, and a regression of its scores on the labels."""
        r = len(self.XX)
        values, V = scipy.linalg.eigh(self.XX, subset_by_index=(r - k, r - 1))
        B = np.linalg.solve(self.YY, self.XY.T @ V)
        variances = np.maximum(values - (B * (self.XY.T @ V)).sum(axis=0), 0.0)
        noise = max((self.variance - values.sum()) / max(self.d - k, 1), self.least)
        return _State(V, B, variances, noise)

    def step(self, state: _State) -> _State:
        """A step of EM."""
        V, B, variances, noise = state
        # Scores given X and Y: mean XA + YC, covariance σ² S_f (S_f + σ²)⁻¹.
        share = variances / (variances + noise)
        A, C = V * share, B * (1.0 - share)
        XU, YU = self.XX @ A + self.XY @ C, self.XY.T @ A + self.YY @ C
        second = np.diag(noise * share) + A.T @ XU + C.T @ YU
        V = np.linalg.solve(second, XU.T).T
        noise = max((self.variance - (V * XU).sum()) / self.d, self.least)
        B = np.linalg.solve(self.YY, YU)
        covariance = second - B.T @ YU
        # The normal form: the same VBᵀ and V S_f Vᵀ, which are all that the likelihood sees.
        V, R = np.linalg.qr(V)
        variances, axes = np.linalg.eigh(R @ covariance @ R.T)
        return _State(V @ axes, B @ R.T @ axes, np.maximum(variances, 0.0), noise)

    def log_likelihood(self, state: _State) -> float:
        """Mean of a sample of X, given its label."""
        V, B, variances, noise = state
        predicted = np.einsum("ij,ij->j", B, self.YY @ B)
        both = np.einsum("ij,ij->j", V, self.XY @ B)
        along = np.einsum("ij,ij->j", V, self.XX @ V) - 2.0 * both + predicted
        across = self.variance - 2.0 * both.sum() + predicted.sum() - along.sum()
        return -0.5 * float(
            self.d * np.log(2 * np.pi)
            + (self.d - len(variances)) * np.log(noise)
            + np.log(variances + noise).sum()
            + across / noise
            + (along / (variances + noise)).sum()
        )
