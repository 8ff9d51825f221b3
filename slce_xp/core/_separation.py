r"""Components that separate classes: shrinkage discriminants for pairs of classes.

The metric :math:`N` is the covariance within classes, shrunk towards a diagonal (`shrinkage`).
Only :math:`N^{-1} C^T` for the K centred class means :math:`C` is as long as the data; the rest,
`planes` of `pairs`, is K × K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _backend
from .._backend import Array, namespace_of, read
from .._errors import invalid, warn
from .._parameters import as_count, as_shrinkage
from . import _eigen, _given
from ._groups import Groups
from ._moments import GroupMoments
from ._planes import Plane, best_plane, least_plane
from ._problem import Problem, no_difference, problem_of
from ._rows import check_gram, rows_of
from ._shrinkage import Shrinkage, Spectrum, best_shrinkage

# Samples on which the spread of a feature must rest for the metric to take half of it as known.
# Set on simulated counts and on public sets that are in none of the tables of the documentation:
# from 30 to 100 accuracies are level; at 100 no rare gene of worm neurons has a large loading.
SUPPORT = 100.0


@dataclass(frozen=True, eq=False)
class Separation:
    """Components that separate classes, and how well they do.

    Attributes
    ----------
    components : array, shape (p, d)
        Rows of Aᵀ with AᵀNA = I, by descending `ratios`. The entry of largest magnitude in each is
        positive.
    patterns : array, shape (p, d)
        Rows of AᵀN: what one unit of each component looks like in the features.
    ratios : array, shape (p,)
        Variance of the class means along each component; that within classes is 1.
    mean : array, shape (d,)
        The mean of all samples, which components are relative to.
    shrinkage : float
        The weight ρ of the diagonal in N.
    inflation : float
        τ, the factor of N; 1 if `shrinkage` was given.
    plane : Plane
        What the components span among all discriminants.
    """

    components: Array
    patterns: Array
    ratios: Array
    mean: Array
    shrinkage: float
    inflation: float
    plane: Plane

    @property
    def separation(self) -> float:
        """How often a sample of one of two classes is distinguished from the other one.

        A probability; the two are drawn by their shares, and classes are Gaussians with the
        covariance N.
        """
        return 1.0 - self.plane.error

    @property
    def gap(self) -> float:
        """A proved bound of what any other p components could add to `separation`."""
        return self.plane.gap


def separating_components(
    x: Any,
    codes: Any,
    n_classes: int,
    k: int,
    /,
    *,
    form: str = "auto",
    shrinkage: float | str = "auto",
    weights: Any = None,
) -> Separation:
    r"""Components in which pairs of classes overlap least.

    .. math:: \max_{A^T N A = I} \sum_{i < j} \pi_i \pi_j \,
        \Phi\bigl(\tfrac12 \lVert A^T (c_i - c_j) \rVert\bigr), \qquad
        N = \tau \bigl((1 - \rho) \tfrac1n S_w + \rho D\bigr)

    with class means :math:`c_i` and class shares :math:`\pi_i`. D is the diagonal of
    :math:`S_w / n`, relatively larger for features whose variance rests on few samples.

    Parameters
    ----------
    x : array, or sparse matrix of SciPy, CuPy or torch, shape (n, d)
    codes : array of int, shape (n,)
        The class of each row, from 0 to K − 1; each class must have a row.
    n_classes : int
        K, at least 2.
    k : int
        Components to return, from 1 to min(K − 1, d). Fewer are returned if class means span fewer
        dimensions.
    form : {"auto", "scatter", "gram"}
        "scatter" builds the d × d matrix S_w, "gram" an n × n matrix; "auto" the smaller one.
    shrinkage : float or "auto"
        ρ, from 0 to 1. "auto": the weight that separates unseen samples best, by generalised
        cross-validation, and τ such that N is their spread; a number: τ = 1. At least the 4·d·eps
        that rounding needs is used; in the "gram" form, or if S_w is singular, √eps, with a
        warning.
    weights : array, shape (n,), optional
        Positive weight of each row; ones by default.

    Returns
    -------
    Separation

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from slce_xp.core import separating_components
    >>> x = xp.asarray([[0.0, 90.0], [1.0, 10.0], [8.0, 20.0], [9.0, 80.0]])
    >>> found = separating_components(x, xp.asarray([0, 0, 1, 1]), 2, 1)
    >>> xp.abs(xp.round(found.components))  # the second feature does not matter
    Array([[2., 0.]], dtype=array_api_strict.float64)
    """
    _given.check_plain(x, weights)
    x, n_classes = _given.as_matrix(x), as_count(n_classes, "n_classes", 2)
    rows = rows_of(x)
    groups = Groups.of(_given.as_codes(codes, rows.n, n_classes), n_classes, weights)
    if not groups.is_supervised:
        raise invalid("codes", f"codes must be below n_classes = {n_classes}; got {n_classes}")
    k = as_count(k, "k", 1, min(n_classes - 1, rows.d))
    given_shrinkage = as_shrinkage(shrinkage)
    if form not in ("auto", "scatter", "gram"):
        raise invalid("form", f"form must be 'auto', 'scatter' or 'gram'; got {form!r}")
    check_gram(form, rows)
    if form == "auto":
        form = "gram" if rows.n < rows.d and rows.has_outer else "scatter"
    with _backend.computing(rows.place):
        problem = problem_of(rows, groups, form, powers=True)
        return solve(problem, form, k, given_shrinkage, labels="codes")


def solve(
    problem: Problem,
    form: str,
    k: int,
    shrinkage: float | None,
    share: float | None = None,
    labels: str = "y",
) -> Separation:
    """The components of class statistics, in features or samples coordinates.

    Parameters
    ----------
    problem : Problem
        With samples for the form "gram".
    form : {"scatter", "gram"}
    k : int
        Components, at most K − 1.
    shrinkage : float or None
        None: the one that separates unseen samples best.
    share : float, optional
        Only the fewest components that reach this share of the separation of all, beyond chance.
    labels : str
        What the caller calls classes, for errors.
    """
    xp, moments = problem.place.xp, problem.moments
    solver = _Samples(problem) if form == "gram" else _Features(problem)
    n_features, eps = solver.spectrum.n_features, _eigen.eps_of(moments.sums)
    used = _chosen(moments, solver.spectrum, shrinkage, divides=form == "gram")
    products = solver.discriminate(used.weight)
    matrix, class_weights = _eigen.read_finite(products, moments.class_weights)
    shares = class_weights.astype(np.float64)
    shares /= shares.sum()
    noise = solver.rounding * n_features / used.weight
    mixture, means = _whitened(matrix, shares, n_features, noise, eps)
    means /= math.sqrt(used.inflation)
    if not means.shape[1]:
        raise no_difference(labels)
    plane = best_plane(means, shares, k) if share is None else least_plane(means, shares, share)
    # By descending variance of the class means, as for eigenvalues.
    inside = means @ plane.basis
    ratios, axes = np.linalg.eigh(inside.T @ (shares[:, None] * inside))
    mixture = mixture @ (plane.basis @ axes[:, ::-1]) / math.sqrt(used.inflation)
    mixture = _backend.from_host(mixture, problem.place, moments.sums.dtype)
    components = solver.combined(mixture)
    patterns = mixture.T @ problem.between * (used.inflation / math.sqrt(moments.weight))
    signs = xp.sum(_eigen.fix_signs(components.T).T * components, axis=1)
    signs = xp.where(signs < 0, -xp.ones_like(signs), xp.ones_like(signs))[:, None]
    (size,) = _eigen.read_finite(xp.max(xp.abs(components)) * moments.scale)
    if not float(np.finfo(size.dtype).tiny) < float(size):
        raise invalid(
            "x",
            "x must have features whose inverse spread is within the range of its dtype; "
            f"the largest is {float(size):.1e}. Scale them, or use float64",
        )
    return Separation(
        signs * components * moments.scale,
        signs * patterns / moments.scale,
        _backend.from_host(ratios[::-1], problem.place, moments.sums.dtype),
        moments.mean,
        used.weight,
        used.inflation,
        plane,
    )


def _chosen(
    moments: GroupMoments, spectrum: Spectrum, shrinkage: float | None, *, divides: bool
) -> Shrinkage:
    """The shrinkage that was asked for, or the best.

    Parameters
    ----------
    divides : bool
        Whether all is divided by it, also if the covariance within classes is not singular.
    """
    eps = _eigen.eps_of(moments.sums)
    least, root = 4.0 * max(spectrum.n_features, 1) * eps, math.sqrt(eps)
    if shrinkage is None:
        n = math.ldexp(moments.weight, moments.weight_exponent)  # a weight of 2 duplicates
        return best_shrinkage(spectrum, n, moments.n_classes, max(least, root * divides))
    is_singular = shrinkage < root and spectrum.rank(eps) < spectrum.n_features
    if is_singular or (shrinkage < root and divides):
        least = max(least, root)
        reason, remedy = "is less than the Gram form can divide by", "solver='scatter', or "
        if is_singular:
            reason, remedy = "leaves the covariance within classes singular: along some ", ""
            reason += "components these samples do not vary, but others will"
        warn(
            f"shrinkage={shrinkage:.1g} {reason}; {least:.1g} is used. "
            f"Use {remedy}shrinkage='auto'",
        )
    return Shrinkage(min(1.0, max(shrinkage, least)), 1.0)


def _whitened(
    matrix: np.ndarray, shares: np.ndarray, most: int, noise: float, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """Factors that turn class means into discriminants, (K, k), and the means in these, (K, k).

    Parameters
    ----------
    matrix : numpy.ndarray, shape (K, K) or (K, d)
        √π C N⁻¹ Cᵀ √π, or F with F Fᵀ equal to that if d < K.
    most : int
        Features that vary, and so dimensions that there can be.
    noise : float
        What rounding adds to the matrix, in units of eps.
    eps : float
        Of the dtype of the data.
    """
    is_factored = matrix.shape[1] < matrix.shape[0]
    root = np.sqrt(shares)
    # Centred means: √π is in the null space, whatever rounding leaves there.
    matrix = matrix.astype(np.float64)
    matrix -= np.outer(root, root @ matrix)
    if is_factored:
        values, vectors = np.linalg.eigh(matrix.T @ matrix)
    else:
        matrix -= np.outer(matrix @ root, root)
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values, vectors = values[::-1], vectors[:, ::-1]
    level = 16.0 * len(root) * eps * max(noise, float(values[0]))
    rank = min(int((values > level).sum()), len(root) - 1, most)
    scale, vectors = np.sqrt(values[:rank]), vectors[:, :rank]
    if is_factored:
        vectors = matrix @ vectors / scale
    return vectors / scale, vectors * scale / root[:, None]


class _Features:
    """N and N⁻¹Cᵀ by the d × d covariance within classes.

    Attributes
    ----------
    spectrum : Spectrum
    rounding : float
        Of a class mean's square in units of the spread, in units of eps.
    """

    def __init__(self, problem: Problem) -> None:
        moments = problem.moments
        self.rounding = _eigen.eps_of(moments.sums)
        self._unit, n_varying = _inverse_spread(problem)
        within = moments.scatter()
        within -= _backend.gram(problem.between)
        within *= (self._unit / moments.weight)[:, None]
        within *= self._unit
        means = (problem.between * self._unit).T / math.sqrt(moments.weight)
        self.spectrum = Spectrum(within, means, n_varying)

    def discriminate(self, shrinkage: float) -> Array:
        """√π C N⁻¹ Cᵀ √π, shape (K, K), or F with F Fᵀ equal to that, shape (K, d), if d < K."""
        right, metric = self.spectrum.right, self.spectrum.metric(shrinkage)
        self._solved = right / metric
        if right.shape[0] < right.shape[1]:
            return (right / namespace_of(metric).sqrt(metric)).T
        return right.T @ self._solved

    def combined(self, mixture: Array) -> Array:
        """N⁻¹ Cᵀ √π times a mixture of classes, (K, p) ↦ (p, d)."""
        return (self.spectrum.vectors @ (self._solved @ mixture)).T * self._unit


class _Samples:
    """The same by n × n matrices: N⁻¹ is that of ρI plus a matrix of the rank of the samples."""

    rounding = 1.0  # squares of class means are differences of products of samples

    def __init__(self, problem: Problem) -> None:
        xp, weight = problem.place.xp, problem.moments.weight
        self._samples, self._weight = problem.samples, weight
        self._unit, n_varying = _inverse_spread(problem)
        gram = problem.samples.outer(self._unit)
        self._indicators = problem.samples.indicators / math.sqrt(weight)
        right = gram @ self._indicators  # X·Cᵀ√π
        self._between = self._indicators.T @ right
        # Without class means, on both sides: what is left of `right` is orthogonal to them.
        means = self._indicators @ (weight * self._between)
        means = (right - 0.5 * means) @ self._indicators.T
        gram /= weight
        gram -= means
        gram -= means.T
        right = self._within_classes(right) / math.sqrt(weight)
        (total,) = read(xp.linalg.trace(self._between))
        self.spectrum = Spectrum(gram, right, n_varying, float(total))

    def _within_classes(self, values: Array) -> Array:
        """Values per sample minus their class means: (n, j) ↦ (n, j)."""
        return values - self._weight * (self._indicators @ (self._indicators.T @ values))

    def discriminate(self, shrinkage: float) -> Array:
        """√π C N⁻¹ Cᵀ √π, shape (K, K), by Woodbury's identity."""
        spectrum, rest = self.spectrum, 1.0 - shrinkage
        solved = spectrum.right / spectrum.metric(shrinkage)
        within = self._within_classes(spectrum.vectors @ solved)
        share = rest / math.sqrt(self._weight)
        self._solved = (self._indicators - share * within) / shrinkage
        return (self._between - rest * (spectrum.right.T @ solved)) / shrinkage

    def combined(self, mixture: Array) -> Array:
        """N⁻¹ Cᵀ √π times a mixture of classes, (K, p) ↦ (p, d)."""
        return self._samples.combine(self._solved @ mixture).T * (self._unit * self._unit)


def _inverse_spread(problem: Problem) -> tuple[Array, int]:
    """1 / the standard deviation of each feature within classes, and how many features vary."""
    moments, xp = problem.moments, problem.place.xp
    eps, total = _eigen.eps_of(moments.sums), moments.column_squares
    within = total - xp.sum(problem.between * problem.between, axis=0)
    rounding = moments.weight * moments.rounding_squares(eps)
    varies = total > rounding
    known = within > xp.maximum(64.0 * eps * total, rounding)
    # A feature that does not vary within classes is measured by how it varies between them.
    square = xp.where(known, within, total) / moments.weight
    ones = xp.ones_like(square)
    # A spread that rests on few samples is known little, and may be tiny by chance. Relative to
    # the others, so that it changes nothing if all are known equally well.
    trust = xp.where(varies, moments.supports / (moments.supports + SUPPORT), 0.0 * ones)
    mean = xp.sum(trust) / xp.maximum(xp.sum(xp.astype(varies, trust.dtype)), ones[0])
    square = square * xp.where(varies, mean / xp.where(varies, trust, ones), ones)
    inverse = xp.where(varies, 1.0 / xp.sqrt(xp.where(varies, square, ones)), 0.0 * ones)
    host, unknown = read(varies, varies & ~known)
    if unknown.any():
        first = int(unknown.argmax())
        warn(
            f"{int(unknown.sum())} of {len(unknown)} features (the first is number {first}) vary "
            "within classes by less than rounding of such values leaves, or not at all; they are "
            "measured by how class means differ. Use float64, or leave out features that tell "
            "the class by themselves",
        )
    return inverse, int(host.sum())
