r"""The lasso of groups of coefficients, given a Gram matrix: a small problem, solved on the host.

.. math:: \min_W \tfrac12 \langle W, G W \rangle - \langle C, W \rangle
    + \lambda \sum_j \lVert W_j \rVert_2 , \qquad W \in \mathbb R^{m \times r}

FISTA with restarts finds which rows are zero; Newton steps on the others make them exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

# Steps of FISTA before Newton steps are tried, and how often both are repeated.
FIRST_STEPS, MORE_STEPS = 20, 50
MOST_ROUNDS = 400
MOST_STALLED = 20
# Rows that enter at a time, at least; otherwise as many as there are already.
LEAST_ENTERING = 8
NEWTON_STEPS, SHORTER_STEPS = 10, 6
# Rows of a Newton step; more of them are left to FISTA.
MOST_ROWS = 1200
# Added to the diagonal of a Newton step, relative to it: columns of X may be copies of others.
REGULARIZATION = 1e-12


class Lasso(NamedTuple):
    """A problem.

    Attributes
    ----------
    gram : numpy.ndarray, shape (m, m)
        G, positive semi-definite.
    linear : numpy.ndarray, shape (m, r)
        C.
    penalty : float
        λ.
    square : float
        ‖Y‖² of the least squares that the problem stands for, ½‖Y − XW‖²: G = XᵀX, C = XᵀY.
    """

    gram: np.ndarray
    linear: np.ndarray
    penalty: float
    square: float

    def value(self, weights: np.ndarray) -> float:
        """The objective, without its constant ½‖Y‖²."""
        smooth = 0.5 * np.vdot(weights, self.gram @ weights) - np.vdot(self.linear, weights)
        return float(smooth + self.penalty * norms(weights).sum())

    def gap(self, weights: np.ndarray) -> float:
        """The duality gap."""
        product = self.gram @ weights
        largest = float(norms(self.linear - product).max(initial=0.0))
        return duality_gap(self, weights, product, largest)[0]

    def only(self, rows: np.ndarray) -> Lasso:
        """The problem with some rows, the others zero."""
        return self._replace(gram=self.gram[np.ix_(rows, rows)], linear=self.linear[rows])


def duality_gap(
    problem: Lasso, weights: np.ndarray, product: np.ndarray, largest: float
) -> tuple[float, float]:
    """The duality gap, and the factor that makes the residuals feasible for the dual.

    Parameters
    ----------
    problem : Lasso
    weights, product : numpy.ndarray, shape (m, r)
        W and GW.
    largest : float
        The largest norm of a row of XᵀR with the residuals R = Y − XW, over all features.
    """
    cross = float(np.vdot(problem.linear, weights))
    along = problem.square - cross  # ⟨Y, R⟩
    rest = max(along - cross + float(np.vdot(weights, product)), 0.0)  # ‖R‖²
    primal = 0.5 * rest + problem.penalty * float(norms(weights).sum())
    factor = problem.penalty / max(largest, problem.penalty)
    if along < factor * rest:  # the dual is largest before
        factor = max(along / rest, 0.0)
    return max(primal - factor * along + 0.5 * factor * factor * rest, 0.0), factor


def solve(problem: Lasso, start: np.ndarray, accuracy: float) -> np.ndarray:
    """Solve until the duality gap is at most `accuracy`, or rounding lets nothing improve.

    Parameters
    ----------
    problem : Lasso
    start : numpy.ndarray, shape (m, r)
    accuracy : float

    Returns
    -------
    numpy.ndarray, shape (m, r)
    """
    weights, best, stalled, inner = start, np.inf, 0, accuracy
    for _ in range(MOST_ROUNDS):
        active = weights.any(axis=1)
        product = problem.gram[:, active] @ weights[active]
        sizes = norms(problem.linear - product)
        gap, _ = duality_gap(problem, weights, product, float(sizes.max(initial=0.0)))
        if gap <= accuracy:
            break
        stalled = 0 if gap < 0.9 * best else stalled + 1
        best = min(gap, best)
        if stalled > MOST_STALLED:
            break
        # Rows that are not zero, and those that enter.
        entering = np.flatnonzero(~active & (sizes > problem.penalty))
        most = max(LEAST_ENTERING, int(active.sum()))
        entering = entering[np.argsort(-sizes[entering], kind="stable")[:most]]
        inner = inner if len(entering) else 0.1 * inner
        rows = np.sort(np.concatenate([np.flatnonzero(active), entering]))
        weights = np.zeros_like(weights)
        weights[rows] = _solve_all(problem.only(rows), start[rows], inner)
        start = weights
    return weights


def _solve_all(problem: Lasso, weights: np.ndarray, accuracy: float) -> np.ndarray:
    """Solve a problem most of whose rows are not zero."""
    steps, gap = _step_lengths(problem.gram), np.inf
    for count in range(MOST_ROUNDS):
        weights = _fista(problem, weights, steps, MORE_STEPS if count else FIRST_STEPS)
        weights = _newton(problem, weights)
        before, gap = gap, problem.gap(weights)
        if gap <= accuracy or gap > 0.9 * before:
            break
    return weights


def norms(weights: np.ndarray) -> np.ndarray:
    """The Euclidean norm of each row."""
    return np.asarray(np.sqrt(np.einsum("jr,jr->j", weights, weights)))


def _step_lengths(gram: np.ndarray) -> np.ndarray:
    """The step of each row: 1 / (L·G_jj), with G at most L times its diagonal; shape (m, 1)."""
    diagonal = np.diag(gram).copy()
    diagonal[diagonal <= 0.0] = 1.0
    root = np.sqrt(diagonal)
    scaled = gram / root[:, None] / root
    largest = float(np.linalg.eigvalsh(scaled)[-1]) if len(gram) else 1.0
    return np.asarray(1.0 / (1.01 * max(largest, 1.0) * diagonal))[:, None]


def _shrunk(weights: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Rows shortened by a length, shape (m, 1), or zero."""
    size = norms(weights)[:, None]
    return np.asarray(weights * np.maximum(1.0 - by / np.maximum(size, by), 0.0))


def _fista(problem: Lasso, weights: np.ndarray, steps: np.ndarray, count: int) -> np.ndarray:
    """Accelerated proximal gradient steps, which begin anew when they turn around."""
    by = problem.penalty * steps
    ahead, momentum = weights, 1.0
    for _ in range(count):
        moved = _shrunk(ahead + steps * (problem.linear - problem.gram @ ahead), by)
        change = moved - weights
        if np.vdot((ahead - moved) / steps, change) > 0.0:
            ahead, momentum = moved, 1.0
        else:
            larger = 0.5 + np.sqrt(0.25 + momentum * momentum)
            ahead = moved + ((momentum - 1.0) / larger) * change
            momentum = larger
        weights = moved
    return weights


def _newton(problem: Lasso, weights: np.ndarray) -> np.ndarray:
    """Newton steps on the rows that are not zero, never uphill but for rounding."""
    for _ in range(NEWTON_STEPS):
        active = np.flatnonzero(weights.any(axis=1))
        if not 0 < active.size <= MOST_ROWS:
            break
        inner, found = problem.only(active), weights[active]
        value = inner.value(found)
        trials = _trials(inner, found)
        whole = next(trials)
        lower = next((t for t in chain([whole], trials) if inner.value(t) < value), None)
        if lower is None and inner.gap(whole) < inner.gap(found):
            lower = whole  # near the optimum values differ by rounding only, gaps do not
        if lower is None:
            break
        weights = np.zeros_like(weights)
        weights[active] = lower
    return weights


def _trials(problem: Lasso, weights: np.ndarray) -> Iterator[np.ndarray]:
    """Coefficients after Newton's step, and after shorter ones."""
    step = _newton_step(problem, weights)
    if weights.shape[1] == 1:
        yield _up_to_zero(weights, step)
        return
    yield weights + step
    # Rows that are nearly zero turn around in steps that are good for the others: they are held.
    turned = np.einsum("jr,jr->j", weights, weights + step) <= 0.0
    if turned.any():
        held, free = np.flatnonzero(turned), np.flatnonzero(~turned)
        given = problem.linear - problem.gram[:, held] @ weights[held]
        step = np.zeros_like(weights)
        step[free] = _newton_step(problem._replace(linear=given).only(free), weights[free])
        yield weights + step
    for i in range(1, SHORTER_STEPS):
        yield weights + 0.5**i * step


def _up_to_zero(weights: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Coefficients after a step, (a, 1), which ends where the first of them is zero.

    As long as no sign changes, the objective is the parabola that the step minimizes.
    """
    crossing = np.flatnonzero(weights * (weights + step) < 0.0)
    if not len(crossing):
        return np.asarray(weights + step)
    lengths = -weights[crossing, 0] / step[crossing, 0]
    moved = weights + lengths.min() * step
    moved[crossing[np.argmin(lengths)]] = 0.0
    return np.asarray(moved)


def _newton_step(problem: Lasso, weights: np.ndarray) -> np.ndarray:
    r"""The step to the minimum of the quadratic model, (a, r).

    Its matrix is :math:`G \otimes I + \Lambda \otimes (I - u u^T)` with :math:`\Lambda` the
    penalty over the length of each row and :math:`u` its direction: P ⊗ I with P = G + Λ, less a
    matrix of rank a. Woodbury's formula takes two factorizations of a × a, not one of ar × ar.
    """
    size = norms(weights)
    unit = weights / size[:, None]
    downhill = problem.linear - problem.gram @ weights - problem.penalty * unit
    regular = problem.gram + REGULARIZATION * np.diag(np.diag(problem.gram))
    try:
        if weights.shape[1] == 1:
            return np.asarray(np.linalg.solve(regular, downhill))
        bend = problem.penalty / size
        inverse = np.linalg.inv(regular + np.diag(bend))
        # Λ⁻¹ − P⁻¹ = P⁻¹ G Λ⁻¹, without cancellation.
        inner = (inverse @ regular / bend) * (unit @ unit.T)
        step = inverse @ downhill
        along = np.linalg.solve(inner, np.einsum("jr,jr->j", unit, step))
    except np.linalg.LinAlgError:
        return np.zeros_like(weights)
    return np.asarray(step + inverse @ (unit * along[:, None]))
