"""The Gram form: an n × n problem. For data with more features than samples."""

from __future__ import annotations

import math

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp.core import eigen
from slce_xp.core.certificate import angle_bound
from slce_xp.core.eigen import gram_of
from slce_xp.core.operators import CentroidOperator
from slce_xp.core.refine import LARGEST_RESIDUAL, KnownPairs, refine, refine_null
from slce_xp.core.resolve import Resolved, leading, most_positive, resolve
from slce_xp.core.solution import Request, Solution

# Eigenvalues of T that the ridge adds no more of itself to are as good as Rayleigh quotients, which
# cost another pass.
TRUSTED_GROWTH = 16.0
# Negative eigenvalues of largest magnitude whose eigenvectors are separated from small ones.
MOST_LARGEST = 32
# A vector a = Xᵀu is rounded relative to ‖X‖·‖u‖: if that exceeds this bound, its residual is
# measured, and it is refined unless that proves the tolerated angle, and an exact eigenvalue.
LONGEST = 32.0
# The ridge with which G is factored if the first one does not suffice, relative to that.
LARGER_RIDGE = 8.0


def solve(operator: CentroidOperator, request: Request) -> Solution:
    r"""Leading eigenpairs of M by way of G = X Xᵀ.

    With P averaging over classes and D = 2P − I, M = XᵀDX; samples without a label have −1 for
    their 1 in I, and rows of X are times √w, or √(λw) without a label. For G = L·Lᵀ the n × n
    matrix T = LᵀDL has the same non-zero eigenvalues, and T·w = μ·w gives M's eigenvector
    a = XᵀDL·w / μ, or XᵀL⁻ᵀw if μ is small. Small eigenvalues are Rayleigh quotients of those
    vectors: what squaring the condition number of X in G costs them is of second order.
    """
    xp, _ = operator.place
    n, d, k = operator.n, operator.d, request.k
    gram = operator.take_gram()
    diagonal = xp.linalg.diagonal(gram)
    square = float(read(xp.sum(diagonal))[0])
    del diagonal  # it may be a view, which would keep all of G
    # The factor of G is less exact than G: by n·eps, in the worst case.
    level = max(8.0, n / 16.0) * operator.zero_level(square) + operator.mean_rounding(square)
    # G is singular, for centred rows sum to zero. A ridge below the level of rounding lets
    # it be factored.
    ridge = 0.25 * operator.zero_level(square)
    factor = _factor(gram, ridge)
    if factor is None:  # many samples that are alike are rounded alike, which adds up
        ridge *= LARGER_RIDGE
        factor = _factor(gram, (1.0 - 1.0 / LARGER_RIDGE) * ridge)
    if factor is None:
        raise np.linalg.LinAlgError(eigen.NOT_FACTORED)
    del gram
    matrix = gram_of(math.sqrt(2.0) * operator.class_sums(factor))
    matrix -= operator.signed_gram(factor)
    # One more than is asked for: the gap below the last one bounds the angle.
    values, weights = _backend.largest_eigenpairs(matrix, min(k + 1, n))
    images = _Images(operator, factor, values, weights)
    if k < min(operator.n_classes, n):  # then all of them are likely to be positive
        part = slice(0, k)
        vectors = images.vectors(part)
        known, growth, lengths, following = eigen.read_finite(
            *images.values_without(ridge, part), xp.sum(vectors * vectors, axis=0),
            values[k : min(k + 1, n)],
        )  # fmt: skip
        below = max(0.0, float(following.max(initial=0.0)))
        trusted = growth <= TRUSTED_GROWTH
        # With more samples than features G is singular, and small values are those of the ridge.
        eps = eigen.eps_of(values)
        least = level if n <= d else max(level, math.sqrt(eps) * square)
        if known.min() > least and lengths.min() > 0.5 and (n <= d or trusted.all()):
            found = Resolved.certain(known, eigen.orthonormal_columns(vectors))
            if not trusted.all():
                found = resolve(operator, found.vectors, square).or_known(known, trusted)
            if found.bounds()[0] == k:
                if square * float(np.max(growth / known)) <= LONGEST**2:
                    values = _backend.from_host(found.values, operator.place, values.dtype)
                    angle = angle_bound(0.0, level, float(known[-1]), below)
                    return Solution(values, found.vectors, (k, k), angle, below=below + level)

                def known_pairs(matrix: Array = matrix) -> KnownPairs:
                    values, weights = _backend.largest_eigenpairs(matrix, n)
                    return _Images(operator, factor, values, weights).known()

                gap = max(0.0, float(known[-1]) - below - level)
                rounding = max(eps, request.eps) * square
                target = min(0.5 * request.tol * gap, math.sqrt(rounding * gap))
                refined = refine(operator, known_pairs, found.vectors, square, target)
                (measured,) = read(refined.values)
                # A vector that is too inexact may have become that of another eigenvalue: then
                # those of all are needed.
                if (np.abs(measured - known) <= level).all():
                    known = np.where(trusted & refined.converged, known, measured)
                    values = _backend.from_host(known, operator.place, values.dtype)
                    low = k if refined.converged else int((known > level).sum())
                    length = float(np.linalg.norm(refined.lengths))
                    angle = angle_bound(length, level, float(known[-1]), below)
                    return Solution(
                        values,
                        refined.vectors,
                        (low, k),
                        angle,
                        converged=refined.converged,
                        below=below + level,
                    )
        del vectors

    # Fewer than k are positive beyond rounding. Of those near zero some may be positive yet, most
    # are in the null space of X, or come from the ridge.
    if values.shape[0] < n:
        values, weights = _backend.largest_eigenpairs(matrix, n)
        images = _Images(operator, factor, values, weights)
    del matrix
    (host,) = eigen.read_finite(values)
    positive, negative = int((host > level).sum()), int((host < -level).sum())
    # With more samples than features only the whole row space will do. Otherwise the next ones, and
    # those of largest magnitude: what vectors have of them through rounding weighs most.
    nearest = negative if n > d else min(negative, k + 1)
    largest = min(negative - nearest, MOST_LARGEST)
    used = nearest + largest
    beyond = [
        slice(0, positive), slice(n - negative, n - negative + nearest), slice(n - largest, n)
    ]  # fmt: skip
    spans = [images.beyond_rounding(part) for part in beyond]
    solid = spans[0].shape[1]  # others come from the ridge
    vectors = xp.concat(spans, axis=1)
    del spans
    unused = slice(n - negative + nearest, n - largest)
    near = images.near_zero(slice(positive, n - negative), vectors, unused)
    vectors = eigen.orthonormal_columns(xp.concat([vectors, near], axis=1))
    eps = eigen.eps_of(values)
    apart = float(np.abs(host[unused]).min(initial=square))
    gap = max(apart, math.sqrt(eps) * square)
    found = resolve(operator, vectors, square, gap, variances=operator.feature_squares)
    if positive:
        known, growth = read(*images.values_without(ridge, slice(0, positive)))
        found = found.or_known(known, growth <= TRUSTED_GROWTH)
    rank = found.values.shape[0] + negative - used
    wanted = 0 if request.positive_only else max(0, k - found.before_zero)
    # With samples that count nothing, M has a larger null space than X.
    null = found.null()
    null = null[:, : min(wanted, null.shape[1])]
    missing = min(wanted - null.shape[1], d - rank)
    if missing > 0:
        outside = _off_row_space(operator, factor @ factor.T, operator.draw(missing))
        null = xp.concat([null, outside], axis=1) if null.shape[1] else outside
    is_known = request.positive_only or not (wanted and found.has_unknown)
    high = found.bounds()[1]  # with those that only seem to be in the null space
    found, converged = found.real(), True
    if found.values.size:
        count = min(k, found.values.size)
        refined = refine(operator, images.known, found.vectors[:, :count], square)
        # Fewer than T has: one of its vectors is too inexact.
        is_whole = int((found.values > 0.0).sum()) >= min(k, solid)
        converged = refined.converged and is_whole
        if refined.converged:
            before = found.values[:count]
            found = found.replaced(read(refined.values)[0], refined.vectors)
            same = np.ones(count, dtype=bool)
            found = found.or_known(before, same, LARGEST_RESIDUAL * eps * square)
            lengths = np.zeros(found.values.size)
            lengths[:count] = refined.lengths
            found = found.or_inexact(lengths)
        else:  # eigenvalues are those of the vectors that are returned
            last = resolve(operator, refined.vectors, square)
            found = found.replaced(last.values, last.vectors, last.error)
    if null.shape[1]:
        # Some of what was found may be shorter than the ridge, and in the span of these.
        for _ in range(2):
            null = eigen.orthonormal_columns(null - found.vectors @ (found.vectors.T @ null))
        count = min(null.shape[1], max(0, k - found.before_zero))
        null = refine_null(operator, images.known, null[:, :count], square)
    values, vectors, bounds = leading(operator, k, found, null)
    bounds = bounds[0], max(bounds[1], min(high, most_positive(operator, k)))
    angle = math.inf
    if converged and is_known:
        kept = k - min(null.shape[1], max(0, k - found.before_zero))
        angle = found.angle_bound(bounds[0] if request.positive_only else kept, level, d)
    elif not converged:
        bounds = bounds[0], k
    return Solution(values, vectors, bounds, angle, converged=converged)


class _Images:
    """What eigenvectors w of T stand for in X."""

    def __init__(
        self, operator: CentroidOperator, factor: Array, values: Array, weights: Array
    ) -> None:
        self._operator = operator
        self._factor = factor
        self._values = values
        self._weights = weights
        self._last: tuple[slice, Array, Array] | None = None

    def _scores(self, part: slice) -> tuple[Array, Array]:
        """L·w, shape (n, j), and eigenvalues to divide by; those of few are kept."""
        if self._last is not None and self._last[0] == part:
            return self._last[1:]
        xp, _ = self._operator.place
        values = self._values[part]
        # Zero is exact if samples without a label count nothing.
        safe = xp.where(values == 0, xp.ones_like(values), values)
        left = self._factor @ self._weights[:, part]
        self._last = (part, left, safe) if left.shape[1] <= self._operator.n_classes else None
        return left, safe

    def vectors(self, part: slice) -> Array:
        """XᵀDLw / μ, shape (d, j), orthonormal columns: not divided by singular values."""
        left, values = self._scores(part)
        return self._operator.combine_rows((self._operator.reflect(left) / values).T).T

    def values_without(self, ridge: float, part: slice) -> tuple[Array, Array]:
        """Eigenvalues of T without what the ridge adds to them, to first order; that in ridges."""
        xp, _ = self._operator.place
        left, values = self._scores(part)
        # With labels for all D is orthogonal, and need not be applied.
        image = left if self._operator.is_supervised else self._operator.reflect(left)
        growth = xp.sum(image * image, axis=0) / values
        return self._values[part] - ridge * growth, growth

    def known(self) -> KnownPairs:
        """All eigenpairs of T, for a refinement."""
        left = self._factor @ self._weights
        return KnownPairs(read(self._values)[0], lambda v: left.T @ v, lambda c: left @ c)

    def beyond_rounding(self, part: slice) -> Array:
        """Orthonormal columns spanning `vectors`."""
        return self._nothing() if part.start >= part.stop else self._span(self.vectors(part))[0]

    def near_zero(self, part: slice, others: Array, unused: slice) -> Array:
        """Orthonormal columns spanning XᵀL⁻ᵀw, orthogonal to others, shape (d, j).

        The eigenvectors of `unused` eigenvalues, beyond rounding, are not among the others.
        """
        if part.start >= part.stop:
            return self._nothing()
        xp, _ = self._operator.place
        rows = _backend.solve_upper(self._factor.T, self._weights[:, part]).T
        span, short = self._span(self._operator.combine_rows(rows).T, others)
        # What is shorter than the ridge lets it be is inexact by what is longer: without that, it
        # may be nothing.
        if short.shape[1] and unused.start < unused.stop:
            short = self._without(unused, short)
        more, _ = self._span(short, xp.concat([others, span], axis=1), 1.0)
        return xp.concat([span, more], axis=1)

    def _without(self, part: slice, vectors: Array) -> Array:
        """Columns without what they have of some eigenvectors, which are not formed."""
        left, values = self._factor @ self._weights[:, part], self._values[part][:, None]
        scores = self._operator.reflect(self._operator.project_rows(vectors.T).T)
        inside = left @ (left.T @ scores / values / values)
        return vectors - self._operator.combine_rows(self._operator.reflect(inside).T).T

    def _span(
        self, vectors: Array, others: Array | None = None, power: float = 0.25
    ) -> tuple[Array, Array]:
        """Orthonormal columns spanning combinations of samples that should be orthonormal.

        What the ridge added to G is not there in X, and shows by its length: that is left out, and
        returned, too.
        """
        if others is not None and others.shape[1]:
            for _ in range(2):
                vectors = vectors - others @ (others.T @ vectors)
        if not vectors.shape[1]:
            return vectors, vectors
        squares, axes = _backend.largest_eigenpairs(gram_of(vectors), vectors.shape[1])
        eps = eigen.eps_of(vectors)
        count = int((eigen.read_finite(squares)[0] > eps**power).sum())
        left = vectors @ axes[:, count:]
        if count == 0:
            return self._nothing(), left
        if count < vectors.shape[1]:
            vectors = vectors @ axes[:, :count]
        return eigen.orthonormal_columns(vectors), left

    def _nothing(self) -> Array:
        xp, device = self._operator.place
        return xp.zeros((self._operator.d, 0), dtype=self._weights.dtype, device=device)


def _factor(gram: Array, ridge: float) -> Array | None:
    """The Cholesky factor of G with a ridge, which is added in place; None if there is none."""
    xp, device = _backend.place_of(gram)
    ridges = xp.eye(gram.shape[0], dtype=gram.dtype, device=device)
    ridges *= ridge
    gram += ridges
    del ridges  # each is as large as what follows
    return _backend.cholesky(gram)


def _off_row_space(operator: CentroidOperator, gram: Array, vectors: Array) -> Array:
    """Remove from vectors what lies in the span of the samples."""
    xp, _ = operator.place
    # Each round shrinks the part along a singular direction by ridge / (s² + ridge).
    for _ in range(3):
        inside = xp.linalg.solve(gram, operator.project_rows(vectors.T).T)
        vectors = eigen.orthonormal_columns(vectors - operator.combine_rows(inside.T).T)
    return vectors
