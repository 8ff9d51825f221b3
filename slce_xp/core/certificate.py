"""The certificate: how many eigenvalues of M are positive, and that none was missed.

For σ > 0 as many eigenvalues of M = 2·BᵀB − C are above σ as of the K × K matrix
2·B(C + σI)⁻¹Bᵀ above 1 (Schur complement and Sylvester's law of inertia). A Krylov space that
contains B bounds that matrix from above with what is known of the space anyway.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slce_xp._backend import read
from slce_xp.core.krylov_space import KrylovSpace
from slce_xp.core.operators import CentroidOperator

# Rounding of products with C, in eps of its norm: Ritz values are no better than that.
ROUNDING_EPS = 32.0
# Eigenvalues can be counted above so many times that.
FLOOR = 3.0
# C is small where it is below so many times the level at which eigenvalues of M can be counted.
SMALL = 16.0
# Rounding of the class rows in the coordinates of a space, in eps of the rows and for each row of
# the space. By trial: null directions of real data reach 1/8, drawn ones that hide more exceed
# this.
PART_EPS = 1.0 / 6.0
# With samples without a label, and more components than these, equal eigenvalues may be missed.
MOST_RANDOM = 64
# Levels between Ritz values at which eigenvalues are counted, at most so many after a pass.
MOST_LEVELS = 4

# Space, level, rounding and Ritz values above the level ↦ an upper bound of the number of
# eigenvalues above it, and rows that would lower the bound, in the coordinates of the pool.
CountAbove = Callable[[KrylovSpace, float, float, int], tuple[int, np.ndarray]]


class Count(NamedTuple):
    """How many of the first k eigenvalues are positive.

    Attributes
    ----------
    low, high : int
        At least and at most so many.
    proven : bool
        Whether no eigenvalue was missed but for some within rounding of zero.
    rows : numpy.ndarray, shape (K, r), or None
        What to add to the space to know more, in the coordinates of its pool.
    below : float
        No eigenvalue but the first `low` is larger than this; infinite if that is not proved.
    hidden : int
        How many more may be positive, and so small that no Ritz value need stand for them.
    """

    low: int = 0
    high: int = sys.maxsize
    proven: bool = False
    rows: np.ndarray | None = None
    below: float = math.inf
    hidden: int = 0


def angle_bound(residual: float, rounding: float, least: float, below: float) -> float:
    """A bound of the largest angle to an exact subspace, by the theorem of Davis and Kahan.

    Parameters
    ----------
    residual : float
        The norm of M·V − V·Θ for orthonormal columns V and their Ritz values Θ.
    rounding : float
        What may be missing from it, and from eigenvalues.
    least : float
        The smallest of Θ.
    below : float
        No other eigenvalue of M is larger than this.

    Returns
    -------
    float
        In radians; infinite if the bound says nothing.
    """
    gap = least - below - rounding
    sine = (residual + rounding) / gap if gap > 0.0 else math.inf
    return math.asin(sine) if sine < 1.0 else math.inf


class Counter:
    """Counts positive eigenvalues from Ritz values and a bound of what they may have missed."""

    def __init__(self, operator: CentroidOperator, k: int) -> None:
        self._k = k
        self._d = operator.d
        self._is_supervised = operator.is_supervised
        # With labels for all, no more eigenvalues than these can be positive.
        self._most = min(operator.n_classes - 1, operator.d)
        self.most = min(k, self._most) if self._is_supervised else k
        self.watched = max(k, self._most) if self._is_supervised else k + 1
        self._before = -1  # how many were found when this was asked before

    def count(
        self,
        count_above: CountAbove,
        space: KrylovSpace,
        values: np.ndarray,
        error: np.ndarray,
        rounding: float,
        lengths: np.ndarray,
        late: np.ndarray,
        outside: np.ndarray,
    ) -> Count:
        """Bounds of the number of positive eigenvalues among the first k.

        Parameters
        ----------
        count_above : function
        space : KrylovSpace
        values, error : numpy.ndarray, shape (q,)
            Ritz values, and the rounding of each.
        rounding : float
            Of an eigenvalue of M.
        lengths : numpy.ndarray, shape (q,)
            Lengths of the residuals of Ritz pairs.
        late : numpy.ndarray of bool, shape (q,)
            Which Ritz pairs have not converged.
        outside : numpy.ndarray, shape (q, r)
            Their residuals, in the coordinates of the pool.
        """
        k = self._k
        found = int((values > error).sum())
        low, floor = min(found, k), FLOOR * rounding
        near = int((values >= -FLOOR * error).sum())

        def after(seen: int, level: float = 0.0) -> float:
            """A bound of eigenvalue k + 1, if as many are above a level as Ritz values: `seen`."""
            if seen > k:
                length = float(np.linalg.norm(lengths[:seen]))
                # What M is outside their span may exceed the level by what couples it to them.
                outside = level + length**2 / (values[seen - 1] - level)
                return float(max(values[k] + error[k], outside) + length)
            return float(max(floor, FLOOR * error[found:].max(initial=0.0)))

        if not self._is_supervised:
            # C is indefinite, and nothing bounds what the space has not seen. Another pass that
            # changes nothing must do.
            again, self._before = found == self._before, found
            whole = space.size >= self._d
            high = near if space.exhausted else k
            proven = whole or (k <= MOST_RANDOM and (space.exhausted or (found >= k and again)))
            below = after(found) if whole else math.inf
            return Count(low, max(low, min(high, k)), proven, below=below)
        if found >= k == self._most:
            return Count(k, k, True, below=0.0)

        def within_rounding(seen: int, rows: np.ndarray | None = None) -> Count:
            """What is within rounding of zero may be positive, or not."""
            hidden = max(0, min(_hidden(space, floor), self._most - found))
            high = min(max(near, found + hidden), k)
            return Count(low, high, True, rows, after(seen), hidden)

        if space.exhausted:  # it holds all eigenvectors of positive eigenvalues
            return within_rounding(found)
        most, rows = self._most, None
        for level in self._levels(values, floor):
            seen = int((values > np.maximum(level, error)).sum())
            above, rows = count_above(space, level, rounding, seen)
            if level == floor:
                most = min(most, max(above, found))
            if above <= seen and seen >= k:
                # Any of these may turn out to be among the first k, until it has converged.
                if seen == k:
                    return Count(k, k, True, below=level)
                if not late[:seen].any():
                    return Count(k, k, True, below=after(seen, level))
                rows = np.concatenate([rows, outside[:seen][late[:seen]]])
            elif above <= seen:
                return within_rounding(seen, rows)
        return Count(low, min(most, k), False, rows)

    def _levels(self, values: np.ndarray, floor: float) -> list[float]:
        """Where to count: in the widest gaps below the k-th Ritz value, or just above zero."""
        below = values[self._k - 1 :]
        below = np.append(below[below > floor], floor)
        if len(values) < self._k or len(below) < 2:
            return [floor]
        gaps = below[:-1] - below[1:]
        widest = np.sort(np.argsort(-gaps, kind="stable")[:MOST_LEVELS])
        return [float(0.5 * (below[i] + below[i + 1])) for i in widest]


def count_above_by_features(
    space: KrylovSpace, level: float, rounding: float, seen: int
) -> tuple[int, np.ndarray]:
    """An upper bound of the number of eigenvalues of M above a level, for C = S_t.

    With Y the solution of (T + σI)Y = b on the space, b = QᵀBᵀ, and R what it leaves outside of
    it, B(C + σI)⁻¹Bᵀ is at most bᵀY + RᵀR / σ, for C is positive semi-definite.
    """
    level -= rounding
    known = _class_columns(space)
    solved = _solve_shifted(space.matrix, level, known)
    outside = space.outside(solved)
    inner = known.T @ solved + 11.0 * rounding**2 / level * (solved.T @ solved)

    def count(residual: np.ndarray) -> int:
        return _count_above_one(2.0 * (inner + 1.1 / level * residual), space.eps)

    above = count(outside @ outside.T)
    if above <= seen:  # now with what the pool does not show
        rows = space.combine_outside(solved)
        above = count(read(rows @ rows.T)[0] / space.unit**2)
    return above, outside


def count_above_by_samples(
    space: KrylovSpace, level: float, rounding: float, seen: int
) -> tuple[int, np.ndarray]:
    """The same for C = G = X·Xᵀ and the class indicators N, with B = N·X.

    B(S_t + σI)⁻¹Bᵀ is NNᵀ − σ·N(G + σI)⁻¹Nᵀ, and what the space knows of the inverse is too small.
    """
    known = _class_columns(space)
    solved = _solve_shifted(space.matrix, level + rounding, known)
    matrix = 2.0 * (known.T @ known - level * (known.T @ solved))
    return _count_above_one(matrix, space.eps), space.outside(solved)


def _hidden(space: KrylovSpace, level: float) -> int:
    """How many eigenvalues of M may lie between zero and a level, where they cannot be counted.

    C + σI hides what C is where it is below the level. If class rows reach into that part of the
    space, as many eigenvalues may be positive, for all that is known.
    """
    values, vectors = np.linalg.eigh(space.matrix)
    known = _class_columns(space)
    parts = np.linalg.svd(vectors[:, values <= SMALL * level].T @ known, compute_uv=False)
    rounding = PART_EPS * space.size * space.eps * np.linalg.norm(known)
    return int((parts > rounding).sum())


def _class_columns(space: KrylovSpace) -> np.ndarray:
    """The class rows in the coordinates of the space, shape (size, K)."""
    n_classes, first = space.classes.shape
    columns = np.zeros((space.size, n_classes))
    columns[:first] = space.classes.T
    return columns


def _solve_shifted(matrix: np.ndarray, shift: float, right: np.ndarray) -> np.ndarray:
    """(T + shift·I)⁻¹·right."""
    shifted = matrix + shift * np.eye(matrix.shape[0])
    return np.linalg.solve(shifted, right)


def _count_above_one(matrix: np.ndarray, eps: float) -> int:
    return int((np.linalg.eigvalsh(matrix) > 1.0 - ROUNDING_EPS * eps).sum())
