"""The plane in which pairs of classes are confused least.

Planes may have several local minima: descents from many planes at once find a good one, Newton's
method its last digits. The error is convex over the relaxed projectors 0 ⪯ P ⪯ I, tr P = p, of
which planes are the extreme points: projected gradient steps there bound its minimum.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from slce_xp.core.pairs import (
    BLOCK_NUMBERS,
    DENSE_NUMBERS,
    MOST_PAIRS,
    Pairs,
    error_of_all,
    pairs_of,
)

MOST_STARTS, LEAST_STARTS = 16, 4
START_NUMBERS = 2**14  # of projected differences of all starts; many pairs get fewer starts
KEPT = {6: 4, 10: 1}  # planes that are descended from after so many steps: the best
MOST_DESCENTS = 200
LONGEST_STEP = 0.6  # along a tangent, before it is projected back
LEAST_DESCENT = 1e-10  # of the logarithm of the error that is worth a step
LEAST_OF_DRAWN = 1e-5  # if pairs are drawn, which is less exact than that
PATIENCE = 3  # steps of less than that, after which descents end
# Below this logarithm, errors are too small to be seen in any data: a coarser descent will do.
NO_ERROR, COARSE_DESCENT = -20.0, 1e-3
NEAR_MINIMUM = 1e-3  # what is left to descend if Newton's method takes over
MOST_NEWTON_WORK = 1e7  # products of a matrix of second derivatives, up to which it is worth it
MOST_NEWTON_STEPS = 20
FLAT = 1e-8  # share of the largest curvature that counts as none

MOST_RELAXED = 12  # steps of the relaxed problem
# They end if the bound can rise by no more than this: a difference of logarithms of the error, or a
# share of what the plane is above the bound.
SMALL_GAP, SHARE_OF_GAP = 1e-3, 0.2
MOST_WORK = 1e10  # flops of their eigenproblems and products; large problems get fewer steps
SUFFICIENT = 1e-4  # share of the predicted descent that a step must reach
REMEMBERED = 4  # errors of earlier steps that a step may be compared with
TINY = 1e-300


class Plane:
    """A plane, and how well classes are told apart in it.

    Parameters
    ----------
    basis : numpy.ndarray, shape (k, p)
        W, with orthonormal columns.
    log_error : float
        Logarithm of the mean probability that two classes are confused.
    means : numpy.ndarray, shape (K, k)
    shares : numpy.ndarray, shape (K,)
    """

    def __init__(
        self, basis: np.ndarray, log_error: float, means: np.ndarray, shares: np.ndarray
    ) -> None:
        self.basis, self.log_error = basis, log_error
        self._problem = (means, shares)

    def __repr__(self) -> str:
        """Return what tells planes apart; compiled functions of a model depend on it."""
        return f"Plane(log_error={self.log_error!r})"

    def __getstate__(self) -> dict[str, Any]:
        """With the bound instead of what it is computed from, which is larger."""
        return {**vars(self), "log_bound": self.log_bound, "_problem": None}

    @property
    def error(self) -> float:
        """The mean probability that two classes are confused."""
        return math.exp(self.log_error)

    @property
    def gap(self) -> float:
        """A proved bound of what any other plane of as many dimensions could take off `error`."""
        return self.error - math.exp(self.log_bound)

    @cached_property
    def log_bound(self) -> float:
        """A proved lower bound of `log_error` for all planes, computed when it is asked for."""
        means, shares = self._problem
        k, p = self.basis.shape
        if p >= k:
            return self.log_error
        pairs, are_all = pairs_of(means, shares, p)
        factor, bound = _relax(pairs, p, self.log_error)
        if not are_all:
            bound = _bound_of_all(means, shares, factor, p)
        return min(bound, self.log_error)


def search_numbers(n_classes: int, k: int, p: int) -> int:
    """Numbers that `best_plane` allocates, or more."""
    every = n_classes * (n_classes - 1) // 2
    pairs = min(every, MOST_PAIRS)
    numbers = 12 * pairs + (6 * BLOCK_NUMBERS if every > pairs else 0)
    if p >= k:  # nothing to search
        return numbers
    numbers += 3 * min(pairs * k, DENSE_NUMBERS) + 18 * pairs
    numbers += 3 * max(LEAST_STARTS * p * pairs, min(MOST_STARTS * p * pairs, START_NUMBERS))
    size = p * k
    return numbers + (3 * size * pairs + 4 * size**2) * (size**2 * pairs <= MOST_NEWTON_WORK)


def best_plane(means: np.ndarray, shares: np.ndarray, p: int) -> Plane:
    """The plane of p dimensions in which classes are confused least.

    Parameters
    ----------
    means : numpy.ndarray, shape (K, k)
        Class means, in units of the spread within classes, along axes of descending variance.
    shares : numpy.ndarray, shape (K,)
        The weight of each class.
    p : int
        At most k.
    """
    k = means.shape[1]
    if p >= k:
        error = error_of_all(means, means, shares, with_gradient=False)[0]
        return Plane(np.eye(k), error, means, shares)
    pairs, are_all = pairs_of(means, shares, p)
    least = LEAST_DESCENT if are_all else LEAST_OF_DRAWN
    has_curvature = pairs.differences is not None and (p * k) ** 2 * len(pairs) <= MOST_NEWTON_WORK
    basis, error = _descend(pairs, _starts(pairs, p), NEAR_MINIMUM if has_curvature else least)
    if has_curvature and error > NO_ERROR:
        basis, error = _newton(pairs, basis, least)
    if not are_all:  # the list chose the plane; all pairs say what it is worth
        error = error_of_all(means @ basis.T, means, shares, with_gradient=False)[0]
    return Plane(basis.T, error, means, shares)


# ---------------------------------------------------------------- planes


def _starts(pairs: Pairs, p: int) -> np.ndarray:
    """Planes to descend from, shape (S, p, k)."""
    k = pairs.means.shape[1]
    count = max(LEAST_STARTS, min(MOST_STARTS, START_NUMBERS // (p * len(pairs))))
    planes = _orthonormal(np.random.default_rng(0).standard_normal((count, p, k)))
    planes[0] = np.eye(p, k)
    # Of all planes, the one that the error of all axes, seen equally, falls towards.
    _, pulls = pairs.errors_and_pulls(pairs.full_squares * (p / k))
    planes[1] = np.linalg.eigh(pairs.gradient(pulls))[1][:, k - p :].T
    return planes


def _descend(pairs: Pairs, bases: np.ndarray, least: float) -> tuple[np.ndarray, float]:
    """Descend from many planes at once, with the step lengths of Barzilai and Borwein.

    Parameters
    ----------
    bases : numpy.ndarray, shape (S, p, k)
    least : float
        A descent that is worth a step.

    Returns
    -------
    basis : numpy.ndarray, shape (p, k)
        The best plane that was met.
    error : float
        The logarithm of its error.
    """
    errors, slopes = _errors_and_slopes(pairs, bases)
    before, steep, idle = errors, _inner(slopes, slopes) + TINY, 0
    length = LONGEST_STEP / np.sqrt(steep)
    for step in range(MOST_DESCENTS):
        if step in KEPT:
            kept = np.argsort(errors, kind="stable")[: KEPT[step]]
            bases, slopes, errors = bases[kept], slopes[kept], errors[kept]
            before, steep, length = before[kept], steep[kept], length[kept]
        length = np.minimum(length, LONGEST_STEP / np.sqrt(steep))
        if len(errors) == 1:
            worth = least if errors[0] > NO_ERROR else max(least, COARSE_DESCENT)
            idle = idle + 1 if length[0] * steep[0] < worth else 0
            if idle >= (PATIENCE if worth < NEAR_MINIMUM else 1):
                break
        moved = _orthonormal(bases - length[:, None, None] * slopes)
        found, found_slopes = _errors_and_slopes(pairs, moved)
        taken = found <= np.maximum(before, errors)
        bent = np.abs(steep - _inner(slopes, found_slopes)) + TINY
        before = errors
        if taken.all():
            bases, slopes, errors = moved, found_slopes, found
            length *= steep / bent
        else:
            bases = np.where(taken[:, None, None], moved, bases)
            slopes = np.where(taken[:, None, None], found_slopes, slopes)
            errors = np.where(taken, found, errors)
            length *= np.where(taken, steep / bent, 0.25)
        steep = _inner(slopes, slopes) + TINY
    best = int(errors.argmin())
    return bases[best], float(errors[best])


def _errors_and_slopes(pairs: Pairs, bases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logarithm of the error of each plane, (S,), and its gradient, (S, p, k)."""
    count, p, k = bases.shape
    differences = pairs.project(bases.reshape(count * p, k)).reshape(count, p, -1)
    errors, pulls = pairs.errors_and_pulls(np.einsum("spi,spi->si", differences, differences))
    pulls *= -2.0
    differences *= pulls[:, None, :]
    slopes = pairs.lift(differences.reshape(count * p, -1)).reshape(count, p, k)
    slopes -= (slopes @ bases.transpose(0, 2, 1)) @ bases
    return errors, slopes


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("spk,spk->s", a, b))


def _orthonormal(bases: np.ndarray) -> np.ndarray:
    """Orthonormal bases of the same planes, near the given ones, (…, p, k)."""
    # A step along a tangent leaves the Gram matrix well conditioned: its factor will do.
    gram = bases @ bases.swapaxes(-1, -2)
    return np.asarray(np.linalg.inv(np.linalg.cholesky(gram)) @ bases)


def _newton(pairs: Pairs, basis: np.ndarray, least: float) -> tuple[np.ndarray, float]:
    """Newton's method from a plane to the minimum near it, (p, k) ↦ (p, k); and its error."""
    error, trial, step, promised = math.inf, basis, basis, 0.0
    for _ in range(MOST_NEWTON_STEPS):
        found, slopes, curvature = _curvature(pairs, trial)
        if found < error:
            basis, error = trial, found
            step = _newton_step(slopes, curvature)
            promised = -0.5 * float((slopes * step).sum())
        else:
            step, promised = 0.25 * step, 0.25 * promised
        if promised < least:
            break
        trial = _orthonormal(basis + step)
    return basis, error


def _newton_step(slopes: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """The step to the minimum of a parabola, or away from a saddle: (p, k), (p·k, p·k) ↦ (p, k)."""
    try:
        np.linalg.cholesky(curvature)  # is it positive definite?
        step = np.linalg.solve(curvature, slopes.ravel())
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(curvature)
        values = np.abs(values)
        values = np.maximum(values, FLAT * values.max() + TINY)
        step = vectors @ ((slopes.ravel() @ vectors) / values)
    length = math.sqrt(float(step @ step))
    return -step.reshape(slopes.shape) * min(1.0, LONGEST_STEP / max(length, TINY))


def _curvature(pairs: Pairs, basis: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    r"""The logarithm of the error, its gradient, (p, k), and second derivatives, (p·k, p·k).

    With a and b the parts of a difference of means within the plane and orthogonal to it, a tangent
    B turns the squared distance :math:`\lVert a \rVert^2` by
    :math:`2 a^T B b + \lVert B b \rVert^2 - \lVert B^T a \rVert^2`, to the second order.
    """
    p, k = basis.shape
    inside = pairs.project(basis)  # (p, P)
    outside = pairs.differences.T - basis.T @ inside  # (k, P)
    squares = np.einsum("pi,pi->i", inside, inside)
    error, pulls = pairs.errors_and_pulls(squares)
    both = (inside[:, None, :] * outside).reshape(p * k, -1)
    slopes = both @ (-2.0 * pulls)
    # −∂ pull / ∂ square = pull × (1/8 + 1 / (2 square)).
    both *= np.sqrt(pulls * (0.5 + 2.0 / np.maximum(squares, TINY)))
    curvature = both @ both.T
    curvature -= np.outer(slopes, slopes)
    blocks = curvature.reshape(p, k, p, k)
    pulls *= 2.0
    within = np.einsum("iaib->iab", blocks)  # views of the diagonals
    within -= (outside * pulls) @ outside.T
    across = np.einsum("iaja->ija", blocks)
    across += ((inside * pulls) @ inside.T)[:, :, None]
    return float(error), slopes.reshape(p, k), curvature


# ---------------------------------------------------------------- the bound


def _relax(pairs: Pairs, p: int, reached: float) -> tuple[np.ndarray, float]:
    """Projected gradient steps with the lengths of Barzilai and Borwein.

    Parameters
    ----------
    reached : float
        The logarithm of the error of a plane.

    Returns
    -------
    factor : numpy.ndarray, shape (k, r)
        F with a relaxed projector P = F Fᵀ, more or less that of the minimum.
    bound : float
        A proved lower bound of the logarithm of the error.
    """
    k = pairs.means.shape[1]
    factor = np.eye(k) * math.sqrt(p / k)
    error, gradient, inner, exact = _evaluate(pairs, factor)
    projector, length, bound = factor @ factor.T, 0.0, -math.inf
    errors = [error]
    work = 30.0 * k**3 + 10.0 * len(pairs) * k
    for step in range(max(2, min(MOST_RELAXED, int(MOST_WORK / work))) + 1):
        values = np.linalg.eigvalsh(gradient)
        gap = float(values[k - p :].sum()) - inner
        bound = max(bound, error - max(gap, 0.0)) if exact else bound
        enough = max(SMALL_GAP, SHARE_OF_GAP * (reached - bound))
        if error - bound <= enough or step == MOST_RELAXED:
            break
        length = length or 1.0 / max(float(values[-1]), TINY)
        while True:
            factor = _nearest_relaxed(projector + length * gradient, p)
            moved = factor @ factor.T
            found, slopes, inner, exact = _evaluate(pairs, factor)
            change = moved - projector
            promised = float((change * gradient).sum())
            if (
                found <= max(errors[-REMEMBERED:]) - SUFFICIENT * promised
                or promised < SMALL_GAP**2
            ):
                break
            length *= 0.25
        bent = float((change * (gradient - slopes)).sum())
        length = float((change * change).sum()) / bent if bent > TINY else 4.0 * length
        projector, error, gradient = moved, found, slopes
        errors.append(error)
    return factor, bound


def _evaluate(pairs: Pairs, factor: np.ndarray) -> tuple[float, np.ndarray, float, bool]:
    """The logarithm of the error at P = F Fᵀ, −∂/∂P, its inner product with P, if it is exact."""
    squares = pairs.distances(factor)
    error, pulls = pairs.errors_and_pulls(squares)
    inner = float(pulls @ squares)
    return float(error), pairs.gradient(pulls), inner, pairs.are_apart(squares)


def _nearest_relaxed(matrix: np.ndarray, p: int) -> np.ndarray:
    """F for the nearest F Fᵀ with eigenvalues from 0 to 1 and trace p."""
    values, vectors = np.linalg.eigh(matrix)
    levels = np.sort(np.concatenate([values, values - 1.0]))
    traces = _between_0_and_1(values - levels[:, None]).sum(axis=1)
    kept = _between_0_and_1(values - np.interp(-p, -traces, levels))
    some = kept > 0.0
    return np.asarray(vectors[:, some] * np.sqrt(kept[some]))


def _between_0_and_1(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(values, 0.0), 1.0))


def _bound_of_all(means: np.ndarray, shares: np.ndarray, factor: np.ndarray, p: int) -> float:
    """What no plane is below, by the tangent of the error of all pairs at P = F Fᵀ."""
    error, gradient, inner, is_exact = error_of_all(means @ factor, means, shares, True)
    gap = float(np.linalg.eigvalsh(gradient)[-p:].sum()) - inner
    return error - max(gap, 0.0) if is_exact else -math.inf
