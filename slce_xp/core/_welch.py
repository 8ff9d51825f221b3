"""Differences between classes for many labellings at a time, as products of matrices.

Units are rows of `scores`, samples or means of groups of them. A labelling is a permutation of
units; indices of arrays are (class, permutation, …).
"""

from __future__ import annotations

import numpy as np

from .. import _backend
from .._backend import Array
from . import _eigen


def permuted_sums(marks: Array, permutations: Array, values: Array) -> Array:
    """Sums by class for permuted classes, (K, u), (B, u), (u, r) ↦ (K, B, r): one product."""
    xp = _backend.namespace_of(values)
    n_classes, (count, units) = marks.shape[0], permutations.shape
    taken = xp.take(marks, xp.reshape(permutations, (-1,)), axis=1)
    sums = xp.reshape(taken, (n_classes * count, units)) @ values
    return xp.reshape(sums, (n_classes, count, values.shape[1]))


def welch(marks: Array, permutations: Array, scores: Array, weights: Array) -> tuple[Array, Array]:
    r"""Welch's statistic of differences between class means, for several weightings of axes.

    .. math:: T = \sum_j w_j \lVert c_j - \bar c \rVert_h^2 , \qquad w_j = n_j / V_j , \quad
        V_j = \frac{1}{n_j - 1} \sum_{i \in j} \lVert x_i - c_j \rVert_h^2

    with the mean :math:`\bar c` of class means by these weights. The pooled spread replaces
    :math:`V_j` for classes of one unit, or if it is zero.

    Parameters
    ----------
    marks : array, shape (K, u)
        1 for the units of each class, 0 for others.
    permutations : array of int, shape (B, u)
    scores : array, shape (u, r)
    weights : array, shape (r, W)
        What the square of each column counts.

    Returns
    -------
    statistics : array, shape (B, W)
    spreads : array, shape (K, B, W)
        :math:`V_j`.
    """
    xp = _backend.namespace_of(scores)
    r, sizes = scores.shape[1], xp.sum(marks, axis=1)[:, None, None]
    squares = (scores * scores) @ weights
    sums = permuted_sums(marks, permutations, xp.concat([scores, squares], axis=1))
    means, squares = sums[:, :, :r] / sizes, sums[:, :, r:]
    lengths = (means * means) @ weights
    rest = squares - sizes * lengths
    total = xp.sum(squares, axis=0)
    least = _eigen.eps_of(scores) * total
    pooled = xp.sum(rest, axis=0) / xp.sum(sizes - 1.0)
    pooled = xp.maximum(pooled, least + xp.where(least > 0.0, 0.0 * least, least + 1.0))
    spreads = rest / xp.maximum(sizes - 1.0, xp.ones_like(sizes))
    is_known = (sizes > 1.0) & (spreads > least)
    spreads = xp.where(is_known, spreads, pooled + xp.zeros_like(spreads))
    factors = sizes / spreads
    between = xp.sum(factors * lengths, axis=0)
    shares = factors / xp.sum(factors, axis=0)
    columns = []
    for i in range(weights.shape[1]):
        mean = xp.sum(shares[:, :, i : i + 1] * means, axis=0)
        centre = (mean * mean) @ weights[:, i]
        columns.append(between[:, i] - xp.sum(factors[:, :, i], axis=0) * centre)
    return xp.stack(columns, axis=1), spreads


def largest_ratios(marks: Array, permutations: Array, scores: Array, squares: Array) -> Array:
    r"""The largest eigenvalue of :math:`2 b D^{-1} b^T` with class rows b, shape (B,).

    With μ ≥ 0 added to D it is at least 1 if and only if the largest eigenvalue of
    :math:`2 b^T b - D` is at least μ: so a positive one is compared with others at no more cost
    than this.

    Parameters
    ----------
    marks : array, shape (K, u)
        Any rows, of which b are the products with permuted scores.
    squares : array, shape (r,)
        D, positive.
    """
    xp = _backend.namespace_of(scores)
    rows = permuted_sums(marks, permutations, scores / xp.sqrt(squares))
    rows = xp.permute_dims(rows, (1, 0, 2))
    small = 2.0 * (rows @ xp.matrix_transpose(rows))
    return xp.linalg.eigvalsh(small)[:, -1]


def leading(marks: Array, scores: Array, squares: Array) -> tuple[float, Array]:
    """The largest eigenvalue of M and its vector, (r,), in the basis of scores."""
    rows = marks @ scores
    matrix = 2.0 * _backend.gram(rows)
    xp, device = _backend.place_of(scores)
    matrix = matrix - squares * xp.eye(squares.shape[0], dtype=squares.dtype, device=device)
    values, vectors = _backend.largest_eigenpairs(matrix, 1)
    return float(_eigen.read_finite(values)[0][0]), vectors[:, 0]


def deflated(marks: Array, scores: Array, axis: Array) -> tuple[Array, Array, Array]:
    """Marks, scores and their squares without what a component explains.

    The projector onto the class marks loses the fitted scores; the samples lose the component.
    """
    xp = _backend.namespace_of(scores)
    score = scores @ axis
    fitted = marks.T @ (marks @ score)
    fitted = fitted / xp.sqrt(xp.sum(fitted * fitted))
    marks = marks - (marks @ fitted)[:, None] * fitted
    scores = scores - score[:, None] * axis
    values, vectors = _backend.eigh(_backend.gram(scores))
    return marks, scores @ vectors, xp.clip(values, 0.0)


def as_marks(codes: np.ndarray, n_classes: int, like: Array) -> Array:
    """Class marks, (K, u), where `like` is."""
    place = _backend.place_of(like)
    marks = _backend.one_hot(_backend.from_host(codes, place), n_classes, like)
    return place.xp.asarray(marks.T, copy=True)
