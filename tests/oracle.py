"""The paper's eigenproblem written naively, C̃ and all: what every form is measured against."""

import numpy as np


def centred(X):
    X = np.asarray(X, dtype=np.float64)
    return X - X.mean(axis=0)


def centroid_rows(X, y):
    """C̃: for each sample the centroid of its class, as the paper defines it."""
    X, y = centred(X), np.asarray(y)
    C = np.empty_like(X)
    for label in set(y.tolist()):
        C[y == label] = X[y == label].mean(axis=0)
    return C


def matrix(X, y):
    """M = XᵀC̃ + C̃ᵀX − XᵀX."""
    C, X = centroid_rows(X, y), centred(X)
    return X.T @ C + C.T @ X - X.T @ X


def eigenpairs(X, y):
    """All eigenpairs of M in descending order: values (d,), vectors as rows (d, d)."""
    values, vectors = np.linalg.eigh(matrix(X, y))
    return values[::-1], vectors[:, ::-1].T


def loss(X, y, components):
    """‖C̃ − X A Aᵀ‖² computed directly."""
    A = np.asarray(components, dtype=np.float64)
    return float(((centroid_rows(X, y) - centred(X) @ A.T @ A) ** 2).sum())


def largest_angle(A, B):
    """The largest principal angle between the row spaces of two orthonormal matrices."""
    A, B = np.asarray(A, np.float64), np.asarray(B, np.float64)
    # The sine, not the cosine: arccos cannot see angles below 1e-8.
    outside = A - (A @ B.T) @ B
    return float(np.arcsin(min(1.0, np.linalg.norm(outside, 2)))) if A.size else 0.0


def canonical_correlations(X, y):
    """LDA's ρ², by QR: the squared cosines between the column space of X and the classes."""
    X = centred(X)
    u, s, _ = np.linalg.svd(X, full_matrices=False)
    # Centred rows span n − 1 dimensions at most, whatever rounding leaves of the last one.
    rank = min(len(X) - 1, int((s > s[0] * 10 * max(X.shape) * np.finfo(float).eps).sum()))
    u = u[:, :rank]
    classes, codes = np.unique(y, return_inverse=True)
    hot = np.eye(len(classes))[codes]
    q, _ = np.linalg.qr(hot)
    return np.linalg.svd(q.T @ u, compute_uv=False) ** 2


def blobs(n, d, n_classes, seed=0, separation=3.0, decay=0.7):
    """Gaussian classes with a decaying spectrum and sizes that differ."""
    rng = np.random.default_rng(seed)
    y = np.sort(np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]))
    y = rng.permutation(y)
    means = separation * rng.standard_normal((n_classes, d))
    scale = np.arange(1, d + 1) ** -decay
    return means[y] * scale + rng.standard_normal((n, d)) * scale, y
