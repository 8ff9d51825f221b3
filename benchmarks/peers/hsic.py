"""Supervised PCA by dependence: Barshan, Ghodsi, Azimifar & Zolghadri Jahromi (2011)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.base import Peer, one_hot, principal_axes
from slce_xp import _backend
from slce_xp._data import labels as _labels


class HSICSPCA(Peer):
    """Supervised PCA of Barshan et al.: the directions that depend most on the label.

    Dependence is the Hilbert–Schmidt independence criterion with a linear kernel on the
    embedding: the components are the leading eigenvectors of Q = Xᵀ H L H X, with L the kernel
    matrix of the labels and H the centring matrix. L = T Tᵀ has few columns T, so that the left
    singular vectors of XᵀHT, d × K, are the answer for any n and d: neither Q nor L is formed.

    Q has a rank of at most number of classes − 1. Components beyond it are eigenvectors of
    eigenvalue zero, which the criterion does not tell apart; those of largest variance are taken.

    Runs on the array library and the device of X.

    Parameters
    ----------
    n_components : int
    label_kernel : {"delta", "linear"}
        "delta": 1 for two samples of one class, else 0, the linear kernel on one-hot labels.
        "linear": the product of the labels, which must be numbers; Q is then of rank 1.

    Attributes
    ----------
    components_ : array, shape (k, d)
        Orthonormal rows.
    rank_ : int
        How many of them the labels determine.
    """

    def __init__(self, n_components: int = 2, label_kernel: str = "delta") -> None:
        self.n_components = n_components
        self.label_kernel = label_kernel

    def fit(self, X: Any, y: Any) -> HSICSPCA:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        xp, _ = place = _backend.place_of(X)
        k = self.n_components
        T = self._label_features(labels)
        T = _backend.from_host(T - T.mean(axis=0), place, X.dtype)
        U, values, _ = xp.linalg.svd(X.T @ T, full_matrices=False)
        values = _backend.to_host(values)
        eps = float(xp.finfo(X.dtype).eps)
        self.rank_ = min(k, int((values > 100 * eps * values[0]).sum()))
        U = U[:, : self.rank_]
        self.mean_ = xp.mean(X, axis=0)
        self.scale_ = 1.0
        if self.rank_ < k:
            rest = X - self.mean_
            rest = rest - (rest @ U) @ U.T
            U = xp.concat([U, principal_axes(rest, k - self.rank_)], axis=1)
            U = xp.linalg.qr(U)[0]  # orthogonal already, but for the rounding of `rest`
        self.components_ = U.T
        return self

    def _label_features(self, labels: _labels.Labels) -> np.ndarray:
        """T, shape (n, q), such that T Tᵀ is the kernel matrix of the labels."""
        match self.label_kernel:
            case "delta":
                return one_hot(labels.codes, len(labels.classes))
            case "linear":
                if labels.classes.dtype.kind not in "biuf":
                    raise TypeError(
                        "y must hold numbers for label_kernel='linear'; got "
                        f"{labels.classes[0]!r}. Use label_kernel='delta' for names"
                    )
                return labels.classes.astype(np.float64)[labels.codes][:, None]
        raise ValueError(
            f"label_kernel must be 'delta' or 'linear'; got {self.label_kernel!r}. "
            "Use 'delta' for classes"
        )
