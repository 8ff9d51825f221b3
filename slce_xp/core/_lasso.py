r"""The lasso of groups of coefficients, given a Gram matrix: a small problem, solved on the host.

.. math:: \min_W \tfrac12 \langle W, G W \rangle - \langle C, W \rangle
    + \lambda \sum_j \lVert W_j \rVert_2 , \qquad W \in \mathbb R^{m \times r}

FISTA with restarts finds which rows are zero; Newton steps on the others make them exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# A round is so many steps of FISTA, enough to find most zeros, and at most so many of Newton, which
# converges sooner if the zeros are right.
FISTA_STEPS, NEWTON_STEPS = 50, 10
# Halvings of a Newton step that raises the objective; FISTA does better than shorter steps.
MOST_HALVINGS = 6
# Rounds in which the duality gap hardly falls, until only rounding is left.
MOST_STALLED = 20
# Added to the diagonal of a Newton step, relative to it: columns of X may be copies of others.
REGULARIZATION = 1e-12


class Lasso(NamedTuple):
    """A problem: the least squares ½‖Y − XW‖² with a penalty, given G = XᵀX and C = XᵀY.

    Attributes
    ----------
    gram : numpy.ndarray, shape (m, m)
        G, positive semi-definite.
    linear : numpy.ndarray, shape (m, r)
        C.
    penalty : float
        λ.
    square : float
        ‖Y‖².
    """

    gram: np.ndarray
    linear: np.ndarray
    penalty: float
    square: float

    def value(self, weights: np.ndarray) -> float:
        """The objective, without its constant ½‖Y‖²."""
        smooth = 0.5 * np.vdot(weights, self.gram @ weights) - np.vdot(self.linear, weights)
        return float(smooth + self.penalty * norms(weights).sum())

    def correlations(self, weights: np.ndarray) -> np.ndarray:
        """XᵀR = C − GW with the residuals R = Y − XW: minus the gradient of the least squares."""
        return np.asarray(self.linear - self.gram @ weights)

    def gap(self, weights: np.ndarray) -> float:
        """The duality gap."""
        return self.gap_and_factor(weights, norms(self.correlations(weights)).max(initial=0.0))[0]

    def gap_and_factor(self, weights: np.ndarray, largest: float) -> tuple[float, float]:
        """The duality gap, and the factor that makes the residuals feasible for the dual.

        Parameters
        ----------
        weights : numpy.ndarray, shape (m, r)
        largest : float
            The largest norm of a row of XᵀR, over all features that W may have.
        """
        along = self.square - float(np.vdot(self.linear, weights))  # ⟨Y, R⟩
        rest = max(along - float(np.vdot(weights, self.correlations(weights))), 0.0)  # ‖R‖²
        primal = 0.5 * rest + self.penalty * float(norms(weights).sum())
        factor = self.penalty / max(largest, self.penalty)
        if along < factor * rest:  # the dual is largest before
            factor = max(along / rest, 0.0)
        return max(primal - factor * along + 0.5 * factor * factor * rest, 0.0), factor

    def only(self, rows: np.ndarray) -> Lasso:
        """The problem with some rows, the others zero."""
        return self._replace(gram=self.gram[np.ix_(rows, rows)], linear=self.linear[rows])


def norms(weights: np.ndarray) -> np.ndarray:
    """The Euclidean norm of each row."""
    return np.asarray(np.sqrt(np.einsum("jr,jr->j", weights, weights)))


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
    weights, best, stalled = start, np.inf, 0
    while True:
        sizes = norms(problem.correlations(weights))
        gap, _ = problem.gap_and_factor(weights, sizes.max(initial=0.0))
        stalled = 0 if gap < 0.9 * best else stalled + 1
        if gap <= accuracy or stalled > MOST_STALLED:
            return weights
        best = min(gap, best)
        # Rows that are not zero, and those that enter.
        rows = np.flatnonzero(weights.any(axis=1) | (sizes > problem.penalty))
        small, found = problem.only(rows), np.zeros_like(weights)
        found[rows] = _newton(small, _fista(small, weights[rows]))
        weights = found


def _fista(problem: Lasso, weights: np.ndarray) -> np.ndarray:
    """Accelerated proximal gradient steps, restarted when they turn around."""
    steps = _step_lengths(problem.gram)
    shrinkage = problem.penalty * steps
    ahead, momentum = weights, 1.0
    for _ in range(FISTA_STEPS):
        moved = ahead + steps * problem.correlations(ahead)
        moved *= 1.0 - shrinkage / np.maximum(norms(moved)[:, None], shrinkage)
        change = moved - weights
        if np.vdot((ahead - moved) / steps, change) > 0.0:
            ahead, momentum = moved, 1.0
        else:
            larger = 0.5 + np.sqrt(0.25 + momentum * momentum)
            ahead = moved + ((momentum - 1.0) / larger) * change
            momentum = larger
        weights = moved
    return weights


def _step_lengths(gram: np.ndarray) -> np.ndarray:
    """The step of each row: 1 / (L·G_jj), with G at most L times its diagonal; shape (m, 1)."""
    diagonal = np.diag(gram).copy()
    diagonal[diagonal <= 0.0] = 1.0
    root = np.sqrt(diagonal)
    largest = np.linalg.eigvalsh(gram / root[:, None] / root).max(initial=1.0)
    return np.asarray(1.0 / (1.01 * largest * diagonal))[:, None]


def _newton(problem: Lasso, weights: np.ndarray) -> np.ndarray:
    """Newton steps on the rows that are not zero, as long as they improve."""
    for _ in range(NEWTON_STEPS):
        active = np.flatnonzero(weights.any(axis=1))
        improved = _newton_step(problem.only(active), weights[active])
        if improved is None:
            break
        weights = np.zeros_like(weights)
        weights[active] = improved
    return weights


def _newton_step(problem: Lasso, weights: np.ndarray) -> np.ndarray | None:
    """Rows after a Newton step, or a shorter one, that lowers the objective; None if none does.

    Rows that turn around on the way become zero.
    """
    step = _newton_direction(problem, weights)
    value = problem.value(weights)
    for halvings in range(MOST_HALVINGS):
        moved = weights + 0.5**halvings * step
        moved[np.einsum("jr,jr->j", weights, moved) <= 0.0] = 0.0
        if problem.value(moved) < value:
            return np.asarray(moved)
        # Near the optimum values differ by rounding only, gaps do not.
        if not halvings and problem.gap(moved) < problem.gap(weights):
            return np.asarray(moved)
    return None


def _newton_direction(problem: Lasso, weights: np.ndarray) -> np.ndarray:
    r"""The step to the minimum of the quadratic model, (a, r).

    Its matrix is :math:`G \otimes I + \Lambda \otimes (I - u u^T)` with :math:`\Lambda` the
    penalty over the length of each row and :math:`u` its direction: P ⊗ I with P = G + Λ, less a
    matrix of rank a. Woodbury's formula takes two factorizations of a × a, not one of ar × ar.
    """
    lengths = norms(weights)
    unit = weights / lengths[:, None]
    downhill = problem.correlations(weights) - problem.penalty * unit
    regular = problem.gram + REGULARIZATION * np.diag(np.diag(problem.gram))
    curvature = problem.penalty / lengths  # the diagonal of Λ
    try:
        if weights.shape[1] == 1:  # then I − uuᵀ is zero
            return np.asarray(np.linalg.solve(regular, downhill))
        inverse = np.linalg.inv(regular + np.diag(curvature))
        # Λ⁻¹ − P⁻¹ = P⁻¹ G Λ⁻¹, without cancellation.
        inner = (inverse @ regular / curvature) * (unit @ unit.T)
        step = inverse @ downhill
        along = np.linalg.solve(inner, np.einsum("jr,jr->j", unit, step))
    except np.linalg.LinAlgError:
        return np.zeros_like(weights)
    return np.asarray(step + inverse @ (unit * along[:, None]))
