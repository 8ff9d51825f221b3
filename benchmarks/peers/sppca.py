"""Supervised probabilistic PCA: Yu, Yu, Tresp, Kriegel & Wu (2006)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from benchmarks.peers.base import Peer, contrasts, in_row_space

# Of the mean variance of X or Y: the least that a variance of noise may be.
LEAST_NOISE = 1e-8


class SPPCA(Peer):
    """Supervised probabilistic PCA: samples and labels come from the same few latent numbers.

    x = W_x z + μ_x + ε_x and y = W_y z + μ_y + ε_y, with z standard normal in k dimensions and
    noise of variance σ_x² in every feature and σ_y² in every entry of the label (`contrasts`). EM
    maximises the joint likelihood of X and Y. It starts from the W that is optimal for the noise
    that PCA leaves. A sample is embedded as E[z | x], since the labels of new samples are unknown.

    Every entry of x and of y has the same weight in the likelihood. With many features the labels
    hardly matter, and the answer is close to that of PCA.

    Parameters
    ----------
    n_components : int
    max_iter : int
        Steps of EM.
    tol : float
        EM ends when a step adds less than this to the mean log-likelihood of an entry.

    Attributes
    ----------
    components_ : numpy.ndarray, shape (k, d)
        Orthogonal rows, by descending variance that the latent numbers give to X.
    noise_ : tuple of float
        σ_x² and σ_y².
    log_likelihoods_ : numpy.ndarray, shape (steps + 1,)
        Mean of a sample, before each step and after the last.
    """

    def __init__(self, n_components: int = 2, *, max_iter: int = 2000, tol: float = 1e-9) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: np.ndarray, y: Any) -> SPPCA:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        self.mean_, self.scale_ = X.mean(axis=0), 1.0
        # W_x lies in the row space, whose complement has nothing but noise.
        Z, axes = in_row_space(X - self.mean_)
        Y = contrasts(labels.codes, len(labels.classes))
        moments = _Moments(Z, Y, X.shape[1])
        W, noise = moments.start(self.n_components)
        enough = self.tol * (moments.sizes.sum())
        likelihoods: list[float] = []
        for _ in range(self.max_iter + 1):
            likelihood, after = moments.step(W, noise)
            likelihoods.append(likelihood)
            if len(likelihoods) > 1 and likelihood - likelihoods[-2] < enough:
                break
            W, noise = after
        self.log_likelihoods_ = np.array(likelihoods)
        self.noise_ = float(noise[0]), float(noise[1])
        # Axes of z are arbitrary: those in which the columns of W_x are orthogonal.
        U, values, _ = np.linalg.svd(W[: Z.shape[1]], full_matrices=False)
        components = (U * (values / (values**2 + noise[0]))).T
        self.components_ = components if axes is None else components @ axes.T
        return self


class _Moments:
    """Second moments of features and labels together: all that EM needs of the data."""

    def __init__(self, X: np.ndarray, Y: np.ndarray, d: int) -> None:
        joint = np.concatenate([X, Y], axis=1)
        self.matrix = joint.T @ joint / len(joint)
        self.parts = slice(0, X.shape[1]), slice(X.shape[1], None)
        self.widths = X.shape[1], Y.shape[1]
        self.sizes = np.array([d, Y.shape[1]])  # entries of a sample: X may be in its row space
        self.variances = np.array([np.trace(self.matrix[part, part]) for part in self.parts])
        self.least = LEAST_NOISE * self.variances / self.sizes

    def start(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The W that is optimal for the noise that PCA and a regression on its scores leave."""
        features, labels = self.parts
        values, vectors = scipy.linalg.eigh(self.matrix[features, features])
        values, axes = values[-k:], vectors[:, -k:]
        explained = (axes.T @ self.matrix[features, labels]) ** 2
        kept = values > 1e-12 * values[-1]
        captured = np.array([values.sum(), (explained[kept] / values[kept, None]).sum()])
        freedom = np.maximum(self.sizes - np.array([k, 0]), 1)
        noise = np.maximum((self.variances - captured) / freedom, self.least)
        return self.best_weights(noise, k), noise

    def best_weights(self, noise: np.ndarray, k: int) -> np.ndarray:
        """The W, shape (r + q, k), of largest likelihood for this noise: PCA of scaled data."""
        scale = np.sqrt(np.repeat(noise, self.widths))
        scaled = self.matrix / scale / scale[:, None]
        m = len(scaled)
        values, vectors = scipy.linalg.eigh(scaled, subset_by_index=(max(m - k, 0), m - 1))
        return scale[:, None] * vectors * np.sqrt(np.maximum(values - 1.0, 0.0))

    def step(self, W: np.ndarray, noise: np.ndarray) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
        """The mean log-likelihood of a sample, and W and noise after a step of EM."""
        over_noise = W / np.repeat(noise, self.widths)[:, None]
        G = np.eye(W.shape[1]) + W.T @ over_noise  # precision of z for a sample
        covariance = np.linalg.inv(G)
        to_latent = over_noise @ covariance  # E[z] = to_latentᵀ (x, y)
        cross = self.matrix @ to_latent  # mean of (x, y) zᵀ
        likelihood = -0.5 * float(
            self.sizes @ np.log(2 * np.pi * noise)
            + np.linalg.slogdet(G)[1]
            + (self.variances / noise).sum()
            - (over_noise * cross).sum()
        )
        second = covariance + to_latent.T @ cross  # mean of z zᵀ
        W = np.linalg.solve(second, cross.T).T
        explained = [(W[part] * cross[part]).sum() for part in self.parts]
        noise = np.maximum((self.variances - explained) / self.sizes, self.least)
        return likelihood, (W, noise)
