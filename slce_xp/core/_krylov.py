r"""The matrix-free form: block Lanczos from the class centroids. For everything large.

For μ > 0, M a = μ a rewrites to a = 2 (S_t + μI)⁻¹ Bᵀ(B a), so every positive eigenvector lies
in the block Krylov space of S_t that starts at the class centroids. With fewer samples than
features the same space is built in sample coordinates, a = Xᵀu, from the class indicators and
G = X Xᵀ, in which vectors are short.

Blocks are stored as rows: those of one array can be added to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .._backend import Array
from ._coordinates import Features, Pairs, Samples
from ._dense import rayleigh_ritz
from ._problem import MULTIPLIED, Problem
from ._solution import Solution, found_above, of_leading_part
from ._space import KrylovSpace

# With samples without a label eigenvectors may be anywhere: random rows for as many equal
# eigenvalues, and some more.
MOST_RANDOM, MORE_RANDOM = 64, 8
# The small problem is solved whenever the space has grown by this factor, so that all of them cost
# little more than the last, or while it is no larger than this.
RITZ_GROWTH, SMALL_SPACE = 1.2, 128
# Directions shorter than this, relative to the longest, do not join the space yet.
SHORT = 1e-3


@dataclass(frozen=True)
class Request:
    """Parameters of an iteration.

    Attributes
    ----------
    k : int
        Number of eigenpairs.
    tol : float
        The residual at which it stops, relative to T.
    max_iter : int
        Passes over X that it may take.
    width : int
        Rows of its start block.
    wide_passes : int
        Passes with the whole block, before only residuals join the space.
    rows, max_rows : int
        Rows of its space that are allocated at first, and that memory has room for.
    seed : int
    report : function
        Called with the residual, relative to T, whenever it is known.
    """

    k: int
    tol: float = 1e-6
    max_iter: int = 50
    width: int = 16
    wide_passes: int = 3
    rows: int = 0
    max_rows: int = 2**62
    seed: int = 0
    report: Callable[[float], None] = lambda residual: None


def krylov(problem: Problem, request: Request) -> Solution:
    """Leading eigenpairs of M by Rayleigh–Ritz in a growing block Krylov space.

    The iteration goes on until the residual of pairs above the zero level is at most tol·T, and the
    number of eigenvalues above some level below them is proved. The level is fixed before the first
    pass: one that follows the residual would chase itself.
    """
    search = _Search(problem, request)
    while not search.is_done:
        search.step()
    return search.solution()


class _Search:
    """State of an iteration: its space, and the result of the last small problem."""

    def __init__(self, problem: Problem, request: Request) -> None:
        self._problem, self._request = problem, request
        self._rounding = problem.rounding(MULTIPLIED)
        self._goal = max(request.tol * problem.total, self._rounding)
        self._level = 2.0 * (self._rounding + self._goal)
        self._side: Features | Samples = Features(problem)
        if problem.samples.prefers_samples:
            self._side = Samples(problem, self._rounding)
        width = max(request.width, problem.n_classes)
        if not problem.is_supervised:
            width = max(width, problem.n_classes + min(request.k, MOST_RANDOM) + MORE_RANDOM)
        self._space = KrylovSpace(
            self._side.apply, self._start(width), self._side.classes, request.rows + width
        )
        self._passes = self._solved_size = 0
        self._directions: np.ndarray | None = None
        self._pairs = Pairs(np.zeros(0), np.zeros((0, 0)))
        self._lengths = np.zeros(0)
        self.is_done = self._converged = False

    def _start(self, width: int) -> Array:
        """Class rows, and seeded rows up to the width: they catch large eigenvalues of C."""
        side, problem = self._side, self._problem
        xp, device = problem.place
        classes, length = side.classes, side.length
        # One at least: the classes may be the same, and their rows zero.
        count = max(1, width - problem.n_classes)
        if problem.n_classes + count >= length:
            return xp.eye(length, dtype=classes.dtype, device=device)
        drawn = problem.samples.draw(self._request.seed, length, count)
        return xp.concat([classes, drawn.T], axis=0)

    @property
    def _watched(self) -> int:
        """Ritz pairs to look at: one more than wanted, or all that can be positive."""
        problem, k = self._problem, self._request.k
        most = max(k, problem.most_positive) if problem.is_supervised else k
        return min(most + 1, self._space.size)

    def step(self) -> None:
        """Grow the space by one pass; solve the small problem if it has grown enough."""
        space, request = self._space, self._request
        space.grow(self._directions)
        self._directions = None
        self._passes += 1
        is_full = space.size + space.fresh > request.max_rows
        is_last = space.is_exhausted or is_full or self._passes >= request.max_iter
        is_due = space.size <= SMALL_SPACE or space.size >= RITZ_GROWTH * self._solved_size
        if is_last or is_due:
            self._solve(is_last)

    def _solve(self, is_last: bool) -> None:
        space, request = self._space, self._request
        self._solved_size = space.size
        self._pairs = self._side.leading(space.matrix, space.known, self._watched)
        outside = space.coupling.T @ self._pairs.coordinates
        self._lengths = np.linalg.norm(outside, axis=0) * self._factor()
        wanted = self._wanted()
        outside, lengths = outside[:, wanted], self._lengths[wanted]
        residual = float(np.linalg.norm(lengths))
        request.report(residual / max(self._problem.total, np.finfo(float).tiny))
        if residual <= self._goal and space.size >= request.k:
            is_proved, is_hopeless = self._prove()
            self.is_done = self._converged = is_proved or is_hopeless
        self.is_done |= is_last
        # With all pairs that there can be, only their residuals have to join the space.
        if self._passes >= request.wide_passes and self._found >= self._problem.most_positive:
            late = lengths > self._goal / math.sqrt(max(1, len(lengths)))
            self._directions = _span(outside[:, late])

    @property
    def _found(self) -> int:
        """Pairs above the zero level, also beyond the first k."""
        return int((self._pairs.values > self._level).sum())

    def _wanted(self) -> np.ndarray:
        """Pairs above the zero level among the first k.

        If some samples have no label, nothing is proved of others: also those that may rise to it.
        """
        values = self._pairs.values
        if not self._problem.is_supervised:
            values = values + self._lengths
        wanted = values > self._level
        wanted[self._request.k :] = False
        return np.asarray(wanted)

    def _factor(self) -> float:
        """The length of Xᵀr over that of r, if vectors are those of samples.

        An estimate, by the rows that joined the space last: the solution measures it.
        """
        if isinstance(self._side, Features):
            return 1.0
        newest = self._space.matrix[-self._space.joined :, -self._space.joined :]
        return math.sqrt(max(0.0, float(np.linalg.eigvalsh(newest)[-1])))

    def _prove(self) -> tuple[bool, bool]:
        """Whether no eigenvalue was missed, and whether that can never be shown."""
        problem, k, values, found = self._problem, self._request.k, self._pairs.values, self._found
        if not problem.is_supervised or found >= problem.most_positive:
            return True, False
        if found > k and self._count(0.5 * float(values[k - 1] + values[k]))[0] <= k:
            return True, False
        bound, least = self._count(self._level)
        return bound <= found, least > found

    def _count(self, level: float) -> tuple[int, int]:
        space = self._space
        return self._side.count_above(
            space.matrix, space.known, space.coupling, level, self._rounding
        )

    def _counter(self) -> Callable[[float], int] | None:
        """A level ↦ an upper bound of the number of eigenvalues above it; None if none is known."""
        space = self._space
        if self._problem.is_supervised:
            return lambda level: self._count(level)[0]
        if not space.is_exhausted or isinstance(self._side, Samples):
            return None
        every = self._side.leading(space.matrix, space.known, space.size).values
        return lambda level: int((every > level - self._rounding).sum())

    def solution(self) -> Solution:
        """The solution in the space; vectors of samples are measured by one more pass."""
        problem, k = self._problem, min(self._request.k, len(self._pairs.values))
        values, lengths = self._pairs.values[:k], self._lengths[:k]
        following = float(self._pairs.values[k]) if k < len(self._pairs.values) else -math.inf
        vectors = self._side.vectors(self._space.combine(self._pairs.coordinates[:, :k]))
        if isinstance(self._side, Samples):
            values, vectors, lengths = rayleigh_ritz(problem, vectors)
        above = int((values > self._level).sum())
        above, level = found_above(
            values[:above],
            lengths[:above],
            lambda residual: 2.0 * (self._rounding + max(residual, self._goal)),
        )
        found = of_leading_part(
            values, vectors, lengths, above, self._rounding, level, problem.most_positive,
            following, self._counter(),
        )  # fmt: skip
        # Vectors of samples are measured, and rounding may have left more than was estimated.
        converged = self._converged and found.residual <= 2.0 * self._goal
        return replace(found, passes=self._passes, converged=converged)


def _span(columns: np.ndarray) -> np.ndarray | None:
    """Orthonormal columns spanning given ones, but for nearly dependent ones; None for none."""
    if not columns.size:
        return None
    sizes = np.linalg.norm(columns, axis=0)
    axes, lengths, _ = np.linalg.svd(
        columns / np.maximum(sizes, np.finfo(float).tiny), full_matrices=False
    )
    count = int((lengths > SHORT).sum())
    return np.asarray(axes[:, :count]) if count else None
