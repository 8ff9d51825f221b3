"""The plane in which pairs of classes are confused least.

The error is convex over the relaxed projectors 0 ⪯ P ⪯ I, tr P = p: projected gradient steps bound
its minimum. Planes, which are the extreme points, may have several local minima: descents from many
planes at once find one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slce_xp.core.pairs import Pairs, error_of_all, pairs_of

MOST_RELAXED = 12  # steps of the relaxed problem
SMALL_GAP = 1e-3  # of the logarithm of the error at which they end
MOST_WORK = 1e10  # flops of their eigenproblems and products; large problems get fewer steps
DRAWN_STARTS = 6
MANY_PAIRS = 10_000  # from which fewer starts are drawn
FIRST_DESCENTS = 10  # from each start, before the best of them are followed
MOST_FOLLOWED = 2
MOST_DESCENTS = 200
LEAST_DESCENT = 1e-9  # of the logarithm of the error; descents end after PATIENCE steps of less
LEAST_OF_DRAWN = 1e-5  # if pairs are drawn, which is less exact than that
PATIENCE = 3
# Below this logarithm, errors are too small to be seen in any data: a coarser descent will do.
NO_ERROR, COARSE_DESCENT = -20.0, 1e-3
SUFFICIENT = 1e-4  # share of the predicted descent that a step must reach
REMEMBERED = 4  # errors of earlier steps that a step may be compared with
TINY = 1e-300


class Plane(NamedTuple):
    """A plane, and how well classes are told apart in it.

    Attributes
    ----------
    basis : numpy.ndarray, shape (k, p)
        W, with orthonormal columns.
    log_error : float
        Logarithm of the mean probability that two classes are confused.
    log_bound : float
        A proved lower bound of it for all planes.
    """

    basis: np.ndarray
    log_error: float
    log_bound: float


def best_plane(means: np.ndarray, shares: np.ndarray, p: int) -> Plane:
    """The plane of p dimensions in which classes are confused least.

    Parameters
    ----------
    means : numpy.ndarray, shape (K, k)
        Class means, in units of the spread within classes.
    shares : numpy.ndarray, shape (K,)
        The weight of each class.
    p : int
        At most k.
    """
    k = means.shape[1]
    if p >= k:
        error = error_of_all(means, means, shares, with_gradient=False)[0]
        return Plane(np.eye(k), error, error)
    pairs, are_all = pairs_of(means, shares, p)
    relaxed = _relax(pairs, p)
    starts = np.stack([relaxed.rounded, *relaxed.vertices, *_other_starts(pairs, p)], axis=1)
    # The error has several minima among planes: the most promising starts are followed to the end.
    least = LEAST_DESCENT if are_all else LEAST_OF_DRAWN
    begun, errors = _descend(pairs, starts.transpose(2, 1, 0), FIRST_DESCENTS, least)
    best = np.argsort(errors, kind="stable")[:MOST_FOLLOWED]
    found, errors = _descend(pairs, begun[:, best], MOST_DESCENTS, least)
    basis, error, bound = found[:, errors.argmin()].T, float(errors.min()), relaxed.bound
    if not are_all:  # the list chose the plane; all pairs say what it is worth
        error = error_of_all(means @ basis, means, shares, with_gradient=False)[0]
        bound = _bound_of_all(means, shares, relaxed.factor, p)
    return Plane(basis, error, min(bound, error))


def _bound_of_all(means: np.ndarray, shares: np.ndarray, factor: np.ndarray, p: int) -> float:
    """What no plane is below, by the tangent of the error of all pairs at P = F Fᵀ."""
    error, gradient, inner, is_exact = error_of_all(means @ factor, means, shares, True)
    gap = float(np.linalg.eigvalsh(gradient)[-p:].sum()) - inner
    return error - max(gap, 0.0) if is_exact else -math.inf


# ---------------------------------------------------------------- the relaxed problem


class _Relaxed(NamedTuple):
    """The minimum over relaxed projectors P, more or less.

    Attributes
    ----------
    factor : numpy.ndarray, shape (k, r)
        F with P = F Fᵀ.
    bound : float
        A proved lower bound of the logarithm of the error.
    vertices : list of numpy.ndarray, shape (k, p)
        The planes that the first and the last gradient point to.
    """

    factor: np.ndarray
    bound: float
    rounded: np.ndarray
    vertices: list[np.ndarray]


def _relax(pairs: Pairs, p: int) -> _Relaxed:
    """Projected gradient steps with the lengths of Barzilai and Borwein."""
    k = pairs.means.shape[1]
    factor = np.eye(k) * math.sqrt(p / k)
    error, gradient, inner, exact = _evaluate(pairs, factor)
    projector, length, bound = factor @ factor.T, 0.0, -math.inf
    vertices: list[np.ndarray] = []
    errors = [error]
    work = 30.0 * k**3 + 10.0 * len(pairs) * k
    for step in range(max(2, min(MOST_RELAXED, int(MOST_WORK / work))) + 1):
        values, vectors = np.linalg.eigh(gradient)
        gap = float(values[k - p :].sum()) - inner
        bound = max(bound, error - max(gap, 0.0)) if exact else bound
        vertices = [*vertices[:1], vectors[:, k - p :]]
        if error - bound <= SMALL_GAP or step == MOST_RELAXED:
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
    rounded = np.linalg.eigh(projector)[1][:, k - p :]
    return _Relaxed(factor, bound, rounded, vertices)


def _evaluate(pairs: Pairs, factor: np.ndarray) -> tuple[float, np.ndarray, float, bool]:
    """The logarithm of the error at P = F Fᵀ, −∂/∂P, its inner product with P, if it is exact."""
    squares = pairs.squares(pairs.means @ factor)
    error = pairs.log_error(squares)
    pulls, is_exact = pairs.pulls(squares, error)
    return float(error), pairs.gradient(pulls), float(pulls @ squares), is_exact


def _nearest_relaxed(matrix: np.ndarray, p: int) -> np.ndarray:
    """F for the nearest F Fᵀ with eigenvalues from 0 to 1 and trace p."""
    values, vectors = np.linalg.eigh(matrix)
    levels = np.sort(np.concatenate([values, values - 1.0]))
    traces = np.clip(values - levels[:, None], 0.0, 1.0).sum(axis=1)
    level = np.interp(-p, -traces, levels)
    kept = np.clip(values - level, 0.0, 1.0)
    return np.asarray(vectors[:, kept > 0.0] * np.sqrt(kept[kept > 0.0]))


def _other_starts(pairs: Pairs, p: int) -> list[np.ndarray]:
    """The leading axes of the means, and planes drawn with a fixed seed."""
    k = pairs.means.shape[1]
    centred = pairs.means - pairs.means.mean(axis=0)
    leading = np.linalg.eigh(centred.T @ centred)[1][:, k - p :]
    count = DRAWN_STARTS if len(pairs) < MANY_PAIRS else 1
    drawn = np.random.default_rng(0).standard_normal((count, k, p))
    return [leading, *np.linalg.qr(drawn)[0]]


# ---------------------------------------------------------------- planes


def _descend(
    pairs: Pairs, bases: np.ndarray, steps: int, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """Descend from many planes at once, with the step lengths of Barzilai and Borwein.

    Parameters
    ----------
    bases : numpy.ndarray, shape (p, S, k)
    steps : int
    least : float
        A descent that is worth a step.

    Returns
    -------
    bases : numpy.ndarray, shape (p, S, k)
        The best plane that was met from each start.
    errors : numpy.ndarray, shape (S,)
    """
    errors, slopes = _errors_and_slopes(pairs, bases)
    best, lowest = bases, errors
    steep = _inner(slopes, slopes)
    lengths = 0.1 / np.sqrt(np.maximum(steep, TINY))
    earlier, idle = [errors], 0
    for _ in range(steps):
        moved = _orthonormal(bases - lengths[:, None] * slopes)
        found, found_slopes = _errors_and_slopes(pairs, moved)
        allowed = np.maximum.reduce(earlier[-REMEMBERED:])
        taken = found <= allowed - SUFFICIENT * lengths * steep
        change = moved - bases
        bent = np.maximum(np.abs(_inner(change, found_slopes - slopes)), TINY)
        lengths = np.where(taken, _inner(change, change) / bent, 0.25 * lengths)
        lengths = np.minimum(np.maximum(lengths, 1e-12), 1e12)
        bases = np.where(taken[:, None], moved, bases)
        slopes = np.where(taken[:, None], found_slopes, slopes)
        errors = np.where(taken, found, errors)
        steep = _inner(slopes, slopes)
        earlier.append(errors)
        worth = np.where(lowest > NO_ERROR, least, COARSE_DESCENT)
        idle = 0 if (errors < lowest - worth).any() else idle + 1
        best = np.where((errors < lowest)[:, None], bases, best)
        lowest = np.minimum(errors, lowest)
        if idle >= PATIENCE:
            break
    return best, lowest


def _errors_and_slopes(pairs: Pairs, bases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logarithm of the error of each plane, (S,), and its gradient, (p, S, k)."""
    p, count, k = bases.shape
    differences = pairs.project(bases.reshape(p * count, k)).reshape(p, count, -1)
    squares = np.einsum("psi,psi->si", differences, differences)
    errors = pairs.log_error(squares)
    pulls, _ = pairs.pulls(squares, errors)
    differences *= -2.0 * pulls
    slopes = pairs.lift(differences.reshape(p * count, -1)).reshape(p, count, k)
    inside = np.einsum("psk,qsk->pqs", bases, slopes)
    return errors, slopes - np.einsum("psk,pqs->qsk", bases, inside)


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("psk,psk->s", a, b))


def _orthonormal(bases: np.ndarray) -> np.ndarray:
    """Orthonormal bases of the same planes, near the given ones, (p, S, k)."""
    q, r = np.linalg.qr(bases.transpose(1, 2, 0))
    signs = np.where(np.diagonal(r, axis1=1, axis2=2) < 0.0, -1.0, 1.0)
    return np.ascontiguousarray((q * signs[:, None, :]).transpose(2, 0, 1))
