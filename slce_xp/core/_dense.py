"""The forms with a matrix: "scatter" forms M, d × d, and "gram" forms X·Xᵀ, n × n."""

from __future__ import annotations

import numpy as np

from .. import _backend
from .._backend import Array, read
from . import _eigen
from ._coordinates import Samples, solved_shifted
from ._problem import FORMED, MULTIPLIED, Problem
from ._solution import Solution, found_above, of_leading_part, of_whole_spectrum

# The factor of G does not see singular values of X below the root of rounding: eigenvalues up to so
# many times ρ count as zero.
GRAM_LEVEL = 64.0


def scatter(problem: Problem, k: int) -> Solution:
    """Leading eigenpairs of M = 2·BᵀB − C, formed."""
    d = problem.d
    values, vectors = _backend.largest_eigenpairs(problem.matrix(), min(k + 1, d))
    (host,) = _eigen.read_finite(values)
    following = float(host[k]) if k < d else -np.inf
    rounding = problem.rounding(FORMED, problem.moments.summed)
    return of_whole_spectrum(host[:k], vectors[:, :k], rounding, problem.most_positive, following)


def gram(problem: Problem, k: int, seed: int) -> Solution:
    """Leading eigenpairs of M by way of G = X·Xᵀ, for n + k ≤ d.

    Positive ones come from D·G, then directions of the null space of X, of which there are enough.
    One pass over X measures what was found.
    """
    samples, n = problem.samples, problem.samples.n
    rounding = problem.rounding(MULTIPLIED)
    matrix, known = samples.outer(), samples.indicators
    side = Samples(problem, rounding)
    count = min(k + 1, n)
    pairs = side.leading(matrix, known, count)
    (host,) = _eigen.read_finite(pairs.values)
    found = min(int((host > GRAM_LEVEL * rounding).sum()), k)
    vectors = side.vectors(pairs.coordinates[:, :found].T)
    values, vectors, lengths = rayleigh_ritz(problem, vectors)
    found, level = found_above(values, lengths, lambda r: GRAM_LEVEL * (rounding + r))
    following = float(host[found]) if found < count else 0.0
    values, vectors, lengths = values[:found], vectors[:, :found], lengths[:found]
    if found < k:
        null = _null_directions(problem, matrix, vectors, k - found, seed, rounding)
        vectors = problem.place.xp.concat([vectors, null], axis=1)
        values, lengths = (np.append(a, np.zeros(k - found)) for a in (values, lengths))

    def count_above(level: float) -> int:
        if problem.is_supervised:
            return side.count_above(matrix, known, np.zeros(0), level, rounding)[0]
        return _count_with_unlabeled(problem, matrix, known, level, rounding)

    return of_leading_part(
        values,
        vectors,
        lengths,
        found,
        rounding,
        level,
        problem.most_positive,
        following,
        count_above,
    )


def rayleigh_ritz(problem: Problem, vectors: Array) -> tuple[np.ndarray, Array, np.ndarray]:
    """Eigenpairs of M on the span of columns, and the lengths of their residuals: one pass."""
    if not vectors.shape[1]:
        return np.zeros(0), vectors, np.zeros(0)
    vectors = _eigen.orthonormal_columns(vectors)
    image = problem.times(vectors)
    inner = vectors.T @ image
    outside = image - vectors @ inner
    inner, outside = _eigen.read_finite(inner, outside.T @ outside)
    values, axes = np.linalg.eigh(0.5 * (inner + inner.T))
    values, axes = values[::-1], axes[:, ::-1]
    lengths = np.sqrt(np.maximum(np.einsum("ij,ij->j", axes, outside @ axes), 0.0))
    rotation = _backend.from_host(np.ascontiguousarray(axes), problem.place, vectors.dtype)
    return values, vectors @ rotation, lengths


def _null_directions(
    problem: Problem, matrix: Array, others: Array, count: int, seed: int, rounding: float
) -> Array:
    """Seeded directions orthogonal to all samples and to others, (d, count)."""
    samples = problem.samples
    null = samples.draw(seed, problem.d, count)
    # Each round shrinks the part along a singular direction by ρ₀ / (s² + ρ₀).
    for _ in range(3):
        inside = solved_shifted(matrix, rounding, samples.times(null))
        null = null - samples.combine(inside)
        null = _eigen.orthonormal_columns(null - others @ (others.T @ null))
    return null


def _count_with_unlabeled(
    problem: Problem, matrix: Array, known: Array, level: float, rounding: float
) -> int:
    """An upper bound of the eigenvalues above a level: those of FᵀDF + τFᵀF, with G = F·Fᵀ."""
    share = 2.0 * rounding / level
    values, vectors = _backend.eigh(matrix)
    xp = problem.place.xp
    factor = vectors * xp.sqrt(xp.clip(values, 0.0))
    means = known.T @ factor
    small = 2.0 * (means.T @ means) - factor.T @ problem.samples.signed(factor)
    found = _backend.eigh(small + share * (factor.T @ factor))[0]
    return int((read(found)[0] > level * (1.0 - share * share)).sum())
