"""The paper's eigenproblem, implemented naively with C̃ itself: the reference for every form."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr


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
    return descending(matrix(X, y))


def weighted_parts(X, y, weights=None, labelled=None):
    """Mean, S_b, S_t of the labelled and S_t of the unlabelled samples, row by row.

    Parameters
    ----------
    X : (n, d), y : (n,)
    weights : (n,), optional
        Ones by default.
    labelled : (n,) of bool, optional
        Rows whose label counts: all by default.
    """
    X, y = np.asarray(X, np.float64), np.asarray(y)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    labelled = np.ones(len(X), bool) if labelled is None else np.asarray(labelled)
    mean = np.average(X, axis=0, weights=weights)
    X = X - mean

    def scatter(rows):
        return X[rows].T @ (weights[rows, None] * X[rows])

    between = np.zeros((X.shape[1], X.shape[1]))
    for label in set(y[labelled].tolist()):
        rows = labelled & (y == label)
        total = weights[rows].sum()
        if total > 0:
            centroid = weights[rows] @ X[rows] / total
            between += total * np.outer(centroid, centroid)
    return mean, between, scatter(labelled), scatter(~labelled)


def weighted_matrix(X, y, weights=None, labelled=None, unlabeled_weight=1.0):
    """M = 2·S_b − S_t(labelled) + λ·S_t(unlabelled), all about the weighted mean of all rows."""
    _, between, known, unknown = weighted_parts(X, y, weights, labelled)
    return 2 * between - known + unlabeled_weight * unknown


def descending(matrix):
    """All eigenpairs of a symmetric matrix: values (d,), vectors as rows (d, d)."""
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], vectors[:, ::-1].T


def gapped_count(values, k, level):
    """The largest count up to k with a gap below its last eigenvalue."""
    scale = np.abs(values).max()
    for count in range(min(k, len(values) - 1), 0, -1):
        if values[count - 1] - values[count] > level * scale:
            return count
    return 0


def assert_leading(model, backend, matrix, dtype, k):
    """The model's k components are the leading eigenvectors of the matrix, as rounding allows."""
    components, eigenvalues = backend.numpy(model.components), backend.numpy(model.eigenvalues)
    assert components.shape == (k, len(matrix))
    assert components.dtype == eigenvalues.dtype == dtype
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(components @ components.T, np.eye(k), atol=100 * eps)
    values, vectors = descending(matrix)
    scale = np.abs(values).max()
    np.testing.assert_allclose(eigenvalues, values[:k], atol=200 * eps * scale)
    # Angles are determined to eps over the gap; this gap allows the tolerance.
    angle = {"float64": 1e-8, "float32": 1e-3}[dtype]
    count = gapped_count(values, k, 300 * eps / angle)
    assert count > 0
    assert largest_angle(components[:count], vectors[:count]) <= angle


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
    # Centred rows span at most n − 1 dimensions; ignore what rounding leaves of the last one.
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


# ---------------------------------------------------------------- criterion="separation"


def within_covariance(X, y, weights=None):
    """S_w / W, shape (d, d), row by row; the centred class means and the class shares."""
    X, y = np.asarray(X, np.float64), np.asarray(y)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    mean = np.average(X, axis=0, weights=weights)
    residuals, means, shares = np.empty_like(X), [], []
    for label in np.unique(y[weights > 0]):
        rows = y == label
        means.append(np.average(X[rows], axis=0, weights=weights[rows]))
        shares.append(weights[rows].sum() / weights.sum())
        residuals[rows] = X[rows] - means[-1]
    counted = weights > 0
    covariance = residuals[counted].T @ (weights[counted, None] * residuals[counted])
    return covariance / weights.sum(), np.array(means) - mean, np.array(shares)


def oas(covariance, n):
    """The weight of the identity by Chen et al. (2010), equation 23."""
    d = len(covariance)
    square, trace = np.trace(covariance @ covariance), np.trace(covariance)
    left = square - trace**2 / d
    return min(1.0, ((1 - 2 / d) * square + trace**2) / ((n + 1 - 2 / d) * left))


def unseen_distance(covariance, means, shares, n, shrinkage):
    """Distance of class means over the spread of unseen samples, and the distance in the metric.

    With the metric N = (1 − ρ)·R + ρI, R the covariance (d, d) of n samples within classes. By
    dense inverses: a sample that is left out is 1 / (1 − leverage) times as far from its class.
    """
    n_classes, d = means.shape
    freedom = n - n_classes
    inverse = np.linalg.inv((1 - shrinkage) * covariance + shrinkage * np.eye(d))
    leverage = (1 - shrinkage) * np.trace(covariance @ inverse) / freedom
    between = means.T @ (shares[:, None] * means)
    unbiased = covariance * n / freedom
    total = np.trace(between @ inverse)
    signal = total - (n_classes - 1) / n * np.trace(unbiased @ inverse) / (1 - leverage)
    spread = np.trace(between @ inverse @ unbiased @ inverse) / (1 - leverage) ** 2
    return (signal / np.sqrt(spread) if signal > 0 else -np.inf), np.sqrt(total)


def best_shrinkage(covariance, means, shares, n):
    """The weight ρ ≥ OAS with the largest distance of unseen samples, and the inflation of N."""
    least = oas(covariance, n)
    odds = np.linspace(np.log(least / (1 - least)), 12.0, 33)

    def distances(odds):
        return unseen_distance(covariance, means, shares, n, 1 / (1 + np.exp(-odds)))

    found = np.array([distances(value)[0] for value in odds])
    best = int(found.argmax())
    chosen = odds[best]
    if 0 < best < len(odds) - 1:
        a, b, _ = np.polyfit(odds[best - 1 : best + 2] - chosen, found[best - 1 : best + 2], 2)
        chosen = chosen - b / (2 * a)
    unseen, seen = distances(chosen)
    return 1 / (1 + np.exp(-chosen)), (seen / unseen) ** 2


def doubt(X, weights=None):
    """1 + 100 / n_j for the samples n_j that the spread of each feature rests on, relative."""
    X = np.asarray(X, np.float64)
    weights = np.ones(len(X)) if weights is None else weights
    squares = (X - np.average(X, axis=0, weights=weights)) ** 2
    supports = (weights @ squares) ** 2 / (weights @ squares**2)
    return (1 + 100 / supports) * np.mean(1 / (1 + 100 / supports))


def separation(means, shares):
    """The mean accuracy of telling two classes apart: unit Gaussians about rows of `means`."""
    i, j = np.triu_indices(len(means), 1)
    distances = np.linalg.norm(means[i] - means[j], axis=1)
    return float(np.average(ndtr(distances / 2), weights=shares[i] * shares[j]))


def separating_plane(means, shares, p, starts=6, seed=0):
    """Orthonormal W, shape (k, p), with the largest `separation` of means @ W.

    By the general optimiser of SciPy from many starts: nothing of the package's own method.
    """
    k, rng = means.shape[1], np.random.default_rng(seed)

    def value(flat):
        return -separation(means @ np.linalg.qr(flat.reshape(k, p))[0], shares)

    leading = np.linalg.eigh(means.T @ (shares[:, None] * means))[1][:, ::-1][:, :p]
    guesses = [leading, *rng.standard_normal((starts, k, p))]
    found = min((minimize(value, g.ravel(), options={"gtol": 1e-9}) for g in guesses),
                key=lambda result: result.fun)  # fmt: skip
    return np.linalg.qr(found.x.reshape(k, p))[0]


def separating(X, y, p, weights=None, shrinkage=None):
    """Components (p, d) of criterion="separation", their metric N (d, d), shrinkage, separation."""
    covariance, means, shares = within_covariance(X, y, weights)
    n = len(X) if weights is None else np.sum(weights)
    spread, inflation = np.sqrt(np.diag(covariance) * doubt(X, weights)), 1.0
    if shrinkage is None:
        correlation = covariance / np.outer(spread, spread)
        shrinkage, inflation = best_shrinkage(correlation, means / spread, shares, n)
    metric = inflation * ((1 - shrinkage) * covariance + shrinkage * np.diag(spread**2))
    # Whitened coordinates: the square root of the metric, not a factor of it.
    values, vectors = np.linalg.eigh(metric)
    whiten = vectors / np.sqrt(values) @ vectors.T
    _, s, vt = np.linalg.svd(np.sqrt(shares)[:, None] * means @ whiten, full_matrices=False)
    rank = int((s > s[0] * 1e-10).sum())
    basis = vt[:rank].T
    white = means @ whiten @ basis
    plane = np.eye(rank) if p >= rank else separating_plane(white, shares, p)
    return (whiten @ basis @ plane).T, metric, shrinkage, separation(white @ plane, shares)
