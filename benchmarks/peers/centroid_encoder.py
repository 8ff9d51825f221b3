"""Centroid-Encoder: Ghosh & Kirby (2022)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from benchmarks.peers.base import Peer, in_row_space, one_hot, standardisation


class CentroidEncoder(Peer):
    """Centroid-Encoder of Ghosh & Kirby: an autoencoder that maps a sample to its class's centroid.

    The encoder d → hidden → k and the decoder back, with tanh between, are trained by Adam on the
    mean square distance to the centroid, on standardised data. Small, as a point of reference:
    one fixed number of steps for every data set, no layer-wise pre-training and no tuning, both
    of which the authors do. Data wider than tall are first rotated into their row space, which
    keeps all distances.

    Parameters
    ----------
    n_components : int
    hidden : tuple of int
        Widths of the encoder's layers; () gives a linear network.
    n_steps : int
        Steps of Adam, whose rate falls to zero along a half cosine.
    batch_size : int
    learning_rate : float
    random_state : int
        The same bits for the same seed, machine and number of threads.

    Attributes
    ----------
    loss_ : float
        Mean square distance to the centroids of the training data, per feature of unit variance.
    initial_loss_ : float
        The same before training.
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        hidden: tuple[int, ...] = (100, 50),
        n_steps: int = 1000,
        batch_size: int = 256,
        learning_rate: float = 3e-3,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.hidden = hidden
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any) -> CentroidEncoder:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        self.mean_, self.scale_ = standardisation(X)
        Z, self.axes_ = in_row_space((X - self.mean_) / self.scale_)
        self.unit_ = np.sqrt((Z**2).mean())  # rotated data have fewer and larger entries
        Z /= self.unit_
        counts = np.bincount(labels.codes)[:, None]
        centroids = one_hot(labels.codes, len(counts)).T @ Z / counts
        inputs = torch.asarray(Z, dtype=torch.float32)
        targets = torch.asarray(centroids, dtype=torch.float32)[torch.asarray(labels.codes)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            self._train(inputs, targets)
        return self

    def _train(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        n, width = inputs.shape
        self.encoder_ = _network([width, *self.hidden, self.n_components])
        decoder = _network([self.n_components, *reversed(self.hidden), width])
        network = torch.nn.Sequential(self.encoder_, decoder)
        measure = torch.nn.functional.mse_loss
        with torch.no_grad():
            self.initial_loss_ = float(measure(network(inputs), targets))
        optimiser = torch.optim.Adam(network.parameters(), self.learning_rate, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.n_steps)
        order = torch.randperm(n)
        at = 0
        for _ in range(self.n_steps):
            if at >= n:
                order, at = torch.randperm(n), 0
            batch = order[at : at + self.batch_size]
            at += self.batch_size
            optimiser.zero_grad()
            measure(network(inputs[batch]), targets[batch]).backward()
            optimiser.step()
            schedule.step()
        with torch.no_grad():
            self.loss_ = float(measure(network(inputs), targets))

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Embed samples, shape (n, d), in k dimensions, shape (n, k)."""
        check_is_fitted(self)
        Z = (X - self.mean_) / self.scale_
        if self.axes_ is not None:
            Z = Z @ self.axes_
        with torch.no_grad():
            return self.encoder_(torch.asarray(Z / self.unit_, dtype=torch.float32)).numpy()


def _network(widths: list[int]) -> torch.nn.Sequential:
    """Layers of these widths, with tanh between: the last is linear."""
    layers: list[torch.nn.Module] = []
    for i, (before, after) in enumerate(itertools.pairwise(widths)):
        layers += [torch.nn.Tanh()] if i else []
        layers += [torch.nn.Linear(before, after)]
    return torch.nn.Sequential(*layers)
