"""How the plane is found in which pairs of classes are confused least.

Planes may have several local minima: the best of many that are drawn are descended from at once,
and the best of those goes on to its minimum, the last digits by Newton's method.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slce_xp.core.pairs import BLOCK_NUMBERS, DENSE_NUMBERS, MOST_PAIRS, Pairs

FLATTEST = 0.1  # share of the largest spread of class means that drawn planes have along an axis
DRAWN_NUMBERS = 2**15  # of differences of means, projected onto planes; many pairs get fewer planes
LONGEST_STEP = 0.6  # along a tangent, before it is projected back
LEAST_DESCENT = 1e-10  # of the logarithm of the error that is worth a step
LEAST_OF_DRAWN = 1e-5  # if pairs are drawn, which is less exact than that
# Below this logarithm, errors are too small to be seen in any data: a coarser descent will do.
NO_ERROR, COARSE_DESCENT = -20.0, 1e-3
MOST_QUASI_NEWTON_STEPS = 200
REMEMBERED_STEPS = 6  # from which curvature is estimated
NEAR_MINIMUM = 1e-2  # what is left to descend if Newton's method takes over
MOST_NEWTON_WORK = 1e7  # products of a matrix of second derivatives, up to which it is worth it
MOST_NEWTON_STEPS = 40
FLAT = 1e-8  # share of the largest curvature that counts as none
SUFFICIENT = 1e-4  # share of the predicted descent that a step must reach
TINY = 1e-300


class Effort(NamedTuple):
    """What is done to find the best of several minima.

    Attributes
    ----------
    drawn : int
        Planes that are drawn.
    descents : int
        Planes that are descended from: the best of those.
    steps : int
        Steps down from each, after which the best plane goes on alone.
    """

    drawn: int
    descents: int
    steps: int

    @classmethod
    def of(cls, n_classes: int) -> Effort:
        """Return that for some classes: few have few minima."""
        return cls(32, 4, 3) if n_classes <= 10 else cls(64, 8, 5)


def search(pairs: Pairs, p: int, *, is_exact: bool) -> tuple[np.ndarray, float]:
    """The best plane of p dimensions that is found, shape (p, k), and its error.

    Parameters
    ----------
    is_exact : bool
        Whether these are all pairs, so that the last digits of the plane matter.
    """
    least = LEAST_DESCENT if is_exact else LEAST_OF_DRAWN
    size = p * pairs.means.shape[1]
    has_curvature = pairs.differences is not None and size**2 * len(pairs) <= MOST_NEWTON_WORK
    effort = Effort.of(len(pairs.means))
    basis = _descend(pairs, _starts(pairs, p, effort), effort.steps)
    if has_curvature:
        basis, _ = _quasi_newton(pairs, basis, NEAR_MINIMUM)
        basis, error, is_done = _newton(pairs, basis, least)
        if is_done:
            return basis, error
    return _quasi_newton(pairs, basis, least)


def search_numbers(n_classes: int, k: int, p: int) -> int:
    """At least as many numbers as the pairs and `search` allocate."""
    every = n_classes * (n_classes - 1) // 2
    pairs = min(every, MOST_PAIRS)
    numbers = 12 * pairs + (6 * BLOCK_NUMBERS if every > pairs else 0)
    if p >= k:  # nothing to search
        return numbers
    numbers += 3 * min(pairs * k, DENSE_NUMBERS) + 18 * pairs
    effort = Effort.of(n_classes)
    numbers += 3 * max(effort.descents * p * pairs, min(effort.drawn * p * pairs, DRAWN_NUMBERS))
    size = p * k
    return numbers + (3 * size * pairs + 4 * size**2) * (size**2 * pairs <= MOST_NEWTON_WORK)


def _starts(pairs: Pairs, p: int, effort: Effort) -> np.ndarray:
    """Planes to descend from, shape (S, p, k): the best of many."""
    k = pairs.means.shape[1]
    count = max(effort.descents, min(effort.drawn, DRAWN_NUMBERS // (p * len(pairs))))
    # Spanned by mixtures of classes, so that neither signs nor turns of the axes matter.
    mixtures = np.random.default_rng(0).standard_normal((count, p, len(pairs.means)))
    rooted = pairs.means * np.sqrt(pairs.shares)[:, None]
    spread = np.sqrt(np.sum(rooted * rooted, axis=0))
    stretch = np.maximum(spread, FLATTEST * spread.max()) / np.maximum(spread, TINY)
    drawn = (mixtures @ rooted) * stretch
    planes = np.linalg.qr(drawn.transpose(0, 2, 1))[0].transpose(0, 2, 1)
    planes[0] = np.eye(p, k)
    # Of all planes, the one that the error of all axes, seen equally, falls towards.
    _, pulls = pairs.errors_and_pulls(pairs.full_squares * (p / k))
    planes[1] = np.linalg.eigh(pairs.gradient(pulls))[1][:, k - p :].T
    errors, _ = pairs.errors_and_pulls(_project(pairs, planes)[1])
    return np.asarray(planes[np.argsort(errors, kind="stable")[: effort.descents]])


def _descend(pairs: Pairs, bases: np.ndarray, steps: int) -> np.ndarray:
    """Descend from many planes at once, with the step lengths of Barzilai and Borwein.

    Parameters
    ----------
    bases : numpy.ndarray, shape (S, p, k)
    steps : int

    Returns
    -------
    basis : numpy.ndarray, shape (p, k)
        The best plane that was met.
    """
    errors, slopes = _errors_and_slopes(pairs, bases)
    before, steep = errors, _inner(slopes, slopes) + TINY
    length = LONGEST_STEP / np.sqrt(steep)
    for _ in range(steps):
        length = np.minimum(length, LONGEST_STEP / np.sqrt(steep))
        moved = _orthonormal(bases - length[:, None, None] * slopes)
        found, found_slopes = _errors_and_slopes(pairs, moved)
        taken = found <= np.maximum(before, errors)
        bent = np.abs(steep - _inner(slopes, found_slopes)) + TINY
        length *= np.where(taken, steep / bent, 0.25)
        before = errors
        errors = np.where(taken, found, errors)
        bases = np.where(taken[:, None, None], moved, bases)
        slopes = np.where(taken[:, None, None], found_slopes, slopes)
        steep = _inner(slopes, slopes) + TINY
    return np.asarray(bases[errors.argmin()])


def _quasi_newton(pairs: Pairs, basis: np.ndarray, least: float) -> tuple[np.ndarray, float]:
    """Descend to the minimum near a plane, (p, k) ↦ (p, k); and its error.

    The method of Broyden, Fletcher, Goldfarb and Shanno with a limited memory; tangents are carried
    from plane to plane by projection.
    """
    (error,), (slope,) = _errors_and_slopes(pairs, basis[None])
    steps = bends = np.empty((0, *basis.shape))
    for _ in range(MOST_QUASI_NEWTON_STEPS):
        step = _tangent(_bfgs_step(slope, steps, bends), basis)
        promised = -float((step * slope).sum())
        if promised <= 0.0 and len(steps):  # what is remembered is of no use here
            steps = bends = steps[:0]
            continue
        if 0.5 * promised < _worth(least, error):
            break
        length = min(1.0, LONGEST_STEP / math.sqrt(float((step * step).sum())))
        while True:
            moved = _orthonormal(basis + length * step)
            (found,), (found_slope,) = _errors_and_slopes(pairs, moved[None])
            if found <= error - SUFFICIENT * length * promised:
                break
            length *= 0.25
            if length * promised < least:
                return basis, float(error)
        kept = slice(1 - REMEMBERED_STEPS, None)
        steps = _tangent(np.concatenate([steps[kept], length * step[None]]), moved)
        bends = _tangent(np.concatenate([bends[kept], -slope[None]]), moved)
        bends[-1] += found_slope
        if float((steps[-1] * bends[-1]).sum()) <= 0.0:
            steps, bends = steps[:-1], bends[:-1]
        basis, error, slope = moved, found, found_slope
    return basis, float(error)


def _worth(least: float, error: float) -> float:
    """The descent that is worth another step."""
    return least if error > NO_ERROR else max(least, COARSE_DESCENT)


def _bfgs_step(slope: np.ndarray, steps: np.ndarray, bends: np.ndarray) -> np.ndarray:
    """−H·slope, (p, k), with the inverse curvature H that explains how steps bent the slope."""
    if not len(steps):
        return -slope * (LONGEST_STEP / (2.0 * math.sqrt(float((slope * slope).sum()) + TINY)))
    v, s, y = slope.ravel(), steps.reshape(len(steps), -1), bends.reshape(len(bends), -1)
    sy, yy = s @ y.T, y @ y.T
    curved = np.diagonal(sy)
    scale = curved[-1] / yy[-1, -1]
    upper = np.linalg.inv(np.triu(sy))
    along = upper @ (s @ v)
    across = upper.T @ (curved * along + scale * (yy @ along - y @ v))
    return np.asarray(-(scale * v + across @ s - scale * (along @ y)).reshape(slope.shape))


def _project(pairs: Pairs, bases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Differences of means along bases (S, p, k): shape (S, p, P); their squares, shape (S, P)."""
    count, p, k = bases.shape
    differences = pairs.project(bases.reshape(count * p, k)).reshape(count, p, -1)
    return differences, np.einsum("spi,spi->si", differences, differences)


def _errors_and_slopes(pairs: Pairs, bases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logarithm of the error of each plane, (S,), and its gradient, (S, p, k)."""
    count, p, k = bases.shape
    differences, squares = _project(pairs, bases)
    errors, pulls = pairs.errors_and_pulls(squares)
    pulls *= -2.0
    differences *= pulls[:, None, :]
    slopes = pairs.lift(differences.reshape(count * p, -1)).reshape(count, p, k)
    return errors, _tangent(slopes, bases)


def _tangent(vectors: np.ndarray, bases: np.ndarray) -> np.ndarray:
    """The part of (…, p, k) that is orthogonal to the planes of bases (…, p, k)."""
    return np.asarray(vectors - (vectors @ bases.swapaxes(-1, -2)) @ bases)


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("spk,spk->s", a, b))


def _orthonormal(bases: np.ndarray) -> np.ndarray:
    """Orthonormal bases of the same planes, near the given ones, (…, p, k)."""
    # A step along a tangent leaves the Gram matrix well conditioned: its factor will do.
    gram = bases @ bases.swapaxes(-1, -2)
    return np.asarray(np.linalg.inv(np.linalg.cholesky(gram)) @ bases)


def _newton(pairs: Pairs, basis: np.ndarray, least: float) -> tuple[np.ndarray, float, bool]:
    """Newton's method from a plane to the minimum near it, (p, k) ↦ (p, k).

    Also returns its error, and whether it is the minimum.
    """
    error, trial, step, promised, is_whole = math.inf, basis, basis, 0.0, True
    for _ in range(MOST_NEWTON_STEPS):
        found, slopes, curvature = _curvature(pairs, trial)
        is_whole = found < error
        if is_whole:
            basis, error = trial, found
            step = _newton_step(slopes, curvature)
            promised = -0.5 * float((slopes * step).sum())
        else:
            step, promised = 0.25 * step, 0.25 * promised
        if promised < _worth(least, error):
            return basis, error, is_whole
        trial = _orthonormal(basis + step)
    return basis, error, False


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
