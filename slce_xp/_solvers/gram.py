"""The Gram form: an n × n problem. For data with more features than samples."""

from __future__ import annotations

import math

import numpy as np

from slce_xp import _linalg, _xp
from slce_xp._linalg import gram_of
from slce_xp._operator import CentroidOperator
from slce_xp._solvers._solution import Request, Solution
from slce_xp._xp import Array


def solve(operator: CentroidOperator, request: Request) -> Solution:
    r"""Leading eigenpairs of M by way of G = X Xᵀ.

    With P averaging over classes and D = 2P − I, M = XᵀDX; samples without a label have −λ for
    their 1 in I, and rows of X are times √w. For G = L·Lᵀ the n × n matrix T = LᵀDL has the
    same non-zero eigenvalues, and T·w = μ·w gives M's eigenvector a = XᵀDL·w / \|μ\|. Nothing is
    divided by a small singular value of X, so squaring its condition number in G costs no more
    than rounding M would.
    """
    xp, device = operator.place
    n, d, k = operator.n, operator.d, request.k
    gram = operator.gram()
    zero = operator.zero_level(float(_linalg.read(xp.linalg.trace(gram))[0]))
    # G is singular, for centred rows sum to zero. A ridge below the level of rounding lets
    # it be factored.
    ridge = 0.25 * zero
    diagonal = xp.eye(n, dtype=gram.dtype, device=device)
    diagonal *= ridge
    gram += diagonal
    del diagonal  # each is as large as what follows
    factor = _xp.cholesky(gram)
    del gram
    matrix = gram_of(math.sqrt(2.0) * operator.class_sums(factor))
    matrix -= operator.signed_gram(factor)
    # With fewer features than samples T has zero eigenvalues to be sorted out: all are needed.
    values, left = _eigenpairs(operator, matrix, factor, ridge, min(k, n) if n <= d else n)
    positive = _linalg.count(values > zero, values)
    if k - positive <= d - n:  # so many directions of the null space there must be
        wanted = k - positive
        values, left = values[:positive], left[:, :positive]
    else:
        if values.shape[0] < n:
            values, left = _eigenpairs(operator, matrix, factor, ridge, n)
        host = _xp.to_host(values)
        # No more than the rank can be other than zero, whatever rounding made of the rest.
        nonzero = np.sort(np.argsort(-np.abs(host), kind="stable")[: min(n - 1, d)])
        nonzero = nonzero[np.abs(host[nonzero]) > zero]
        positive = int((host[nonzero] > 0.0).sum())
        wanted = min(max(0, k - positive), d - nonzero.shape[0])
        kept = nonzero[: k - wanted]
        if kept.shape[0] == 0:  # of no indices JAX forgets the device
            values, left = values[:0], left[:, :0]
        else:
            index = _xp.from_host(kept, operator.place)
            values, left = xp.take(values, index, axis=0), xp.take(left, index, axis=1)
    rows = (operator.reflect(left) / xp.abs(values)).T
    vectors = _linalg.orthonormal(operator.combine_rows(rows).T)
    if wanted:
        null = _off_row_space(operator, factor @ factor.T, operator.draw(wanted))
        values, vectors = _linalg.splice_null_space(values, vectors, positive, null)
    return Solution(values, vectors, zero)


def _eigenpairs(
    operator: CentroidOperator, matrix: Array, factor: Array, ridge: float, k: int
) -> tuple[Array, Array]:
    """Leading eigenvalues μ of T without what the ridge adds to them, and L·w, shape (n, k)."""
    xp, _ = _xp.place_of(matrix)
    values, weights = _xp.largest_eigenpairs(matrix, k)
    values, left = values[:k], factor @ weights[:, :k]
    # To first order the ridge adds ridge·‖D·L·w‖² / μ, which is all of μ where G is singular.
    # With labels for all D is orthogonal, and need not be applied.
    image = left if operator.is_supervised else operator.reflect(left)
    # Zero is exact where samples without a label count nothing.
    divisor = xp.where(values == 0, xp.ones_like(values), values)
    return values - ridge * xp.sum(image * image, axis=0) / divisor, left


def _off_row_space(operator: CentroidOperator, gram: Array, vectors: Array) -> Array:
    """Remove from vectors what lies in the span of the samples."""
    xp, _ = operator.place
    # Each round shrinks the part along a singular direction by ridge / (s² + ridge).
    for _ in range(3):
        inside = xp.linalg.solve(gram, operator.project_rows(vectors.T).T)
        vectors = _linalg.orthonormal(vectors - operator.combine_rows(inside.T).T)
    return vectors
