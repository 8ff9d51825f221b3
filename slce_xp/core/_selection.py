r"""Sparse paths: which features reconstruct the class centroids, for a falling penalty.

A lasso whose Gram matrix is S_t / n,

.. math:: \min_W \tfrac1{2n} \lVert Y - X W \rVert_F^2 + \lambda \sum_j \lVert W_j \rVert_2
    + \tfrac\rho2 \lVert W \rVert_F^2 .

A few features, the working set, are fetched with their Gram matrix; the small problem is solved on
the host by `core.lasso`; one product over all features gives the duality gap and the features that
may still enter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from .. import _backend
from .._backend import Array, read
from .._errors import invalid
from . import _eigen
from ._centred import Centred
from ._lasso import Lasso, norms, solve
from ._problem import Problem, no_difference

# Features that are fetched at a time, at least; otherwise as many as are selected.
LEAST_FETCHED = 16
# The gap to which the working set is solved, relative to the gap asked for: the rest of it is for
# features outside. If none of them enters, the working set is solved more exactly.
FIRST_INNER_GAP, LAST_INNER_GAP = 0.3, 1e-4
# Rounding of a product, in units of eps and the lengths of its factors.
ROUNDING = 2.0
# A variance may be rounding up to so many eps of the square that centring subtracts, and features
# may be copies up to so many eps of their variance.
VARIANCE_ROUNDING = 64.0


class Targets(NamedTuple):
    """Targets that features reconstruct.

    Attributes
    ----------
    linear : array, shape (r, d)
        YᵀX / n.
    square : float
        ‖Y‖² / n.
    between : float
        tr(S_b) / n.
    of_classes : numpy.ndarray, shape (K, r)
        The row of Y of the samples of each class.
    """

    linear: Array
    square: float
    between: float
    of_classes: np.ndarray


class Step(NamedTuple):
    """The solution for one λ.

    Attributes
    ----------
    penalty : float
        λ.
    support : numpy.ndarray of int, shape (s,)
        Features with coefficients, ascending.
    coefficients : numpy.ndarray, shape (s, r)
    gap : float
        The duality gap relative to the objective without features, rounding included.
    """

    penalty: float
    support: np.ndarray
    coefficients: np.ndarray
    gap: float


def class_targets(problem: Problem, orthonormal: bool) -> Targets:
    """Y of K − 1 columns or fewer: C̃ in a basis of its span, or class scores with YᵀY = n·I."""
    moments, weight = problem.moments, problem.moments.weight
    between = problem.between / math.sqrt(weight)
    matrix, weights = _eigen.read_finite(between @ between.T, moments.class_weights)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values, vectors = values[::-1], vectors[:, ::-1]
    level = 16.0 * len(values) * _eigen.eps_of(between) * max(0.0, float(values[0]))
    rank = min(int((values > level).sum()), len(values) - 1)
    if not rank:
        raise no_difference("y")
    vectors = _eigen.fix_signs(vectors[:, :rank].copy())
    lengths = np.ones(rank) if orthonormal else np.sqrt(values[:rank])
    mixture = _backend.from_host((vectors * lengths).T, problem.place, between.dtype)
    return Targets(
        linear=mixture @ between,
        square=float(lengths @ lengths),
        between=float(values[:rank].sum()),
        of_classes=vectors * lengths / np.sqrt(weights[:, None] / weight),
    )


def _too_far() -> ValueError:
    return invalid(
        "X",
        "X must have class means that differ by more than the rounding of its columns' means; "
        "it is too far from the origin, or y says nothing about it. Subtract a constant from "
        "columns with large means, use float64 and, if X is sparse, a dense X",
    )


# ---------------------------------------------------------------- products with S_t


class _Columns:
    """Features as columns of X, (m, n): a product with S_t is a pass over X.

    For fewer samples than features.
    """

    def __init__(self, samples: Centred) -> None:
        self._samples = samples

    def fetch(self, positions: np.ndarray) -> Array:
        """The columns at some positions."""
        return self._samples.columns(positions).T

    def scatter(self, new: Array, fetched: Array, positions: Array) -> Array:
        """S_t between new features and all that were fetched, (b, m)."""
        return new @ fetched.T

    def apply(self, mixture: Array, fetched: Array) -> Array:
        """V·S_t for mixtures V of fetched features, (r, m) ↦ (r, d)."""
        return self._samples.combine((mixture @ fetched).T).T


class _ScatterRows:
    """Features as rows of S_t, (m, d): a pass over X to fetch them, none for a product."""

    def __init__(self, samples: Centred) -> None:
        self._samples = samples

    def fetch(self, positions: np.ndarray) -> Array:
        """The rows at some positions."""
        return self._samples.scatter_columns(positions).T

    def scatter(self, new: Array, fetched: Array, positions: Array) -> Array:
        """S_t between new features and all that were fetched, (b, m)."""
        return _backend.place_of(new).xp.take(new, positions, axis=1)

    def apply(self, mixture: Array, fetched: Array) -> Array:
        """V·S_t for mixtures V of fetched features, (r, m) ↦ (r, d)."""
        return mixture @ fetched


# ---------------------------------------------------------------- the path


class SparsePath:
    """The lasso of one data set, for any λ.

    Parameters
    ----------
    problem : Problem
        Of samples that all have a label.
    targets : Targets
    ridge : float
        ρ of a further penalty ½ρ‖W‖².
    in_memory : bool
        Whether a pass over X is cheap.

    Attributes
    ----------
    largest : float
        The λ from which on no feature is selected, in units of `problem`.
    """

    def __init__(self, problem: Problem, targets: Targets, ridge: float, in_memory: bool) -> None:
        samples, moments = problem.samples, problem.moments
        self._place, self._weight = problem.place, moments.weight
        self._targets, self._ridge = targets, ridge
        by_columns = in_memory and samples.n <= samples.d
        self._source = _Columns(samples) if by_columns else _ScatterRows(samples)
        xp = problem.place.xp
        self._eps = _eigen.eps_of(moments.sums)
        squares, rounding, self._sizes = _eigen.read_finite(
            moments.column_squares / self._weight,
            moments.rounding_squares(self._eps),
            xp.sqrt(xp.sum(targets.linear * targets.linear, axis=0)),
        )
        # Sparse rows are not shifted: what centring subtracts is rounded relative to itself.
        centring = problem.sizes.means**2 * samples.shifts_products
        # A feature that may be constant is never selected, whatever rounding makes of it, but it
        # counts for the gap: if it varies after all, nothing is proved without it.
        level = VARIANCE_ROUNDING * self._eps
        self._enters = squares > np.maximum(rounding, level * centring)
        squares = np.maximum(squares, 0.0)
        self._spread = np.sqrt(squares + ridge)
        self._lengths = np.sqrt(squares + centring + ridge)
        self.largest = float(self._sizes[self._enters].max(initial=0.0))
        # Class means that are equal but for rounding say nothing.
        if not (self.largest > 0.0 and targets.between > level**2 * (squares + centring).sum()):
            raise _too_far() if (centring > squares).any() else no_difference("y")
        # The working set: positions, S_t / n + ρ between them, and what the source fetched.
        self._positions = np.zeros(0, dtype=np.int64)
        self._gram = np.zeros((0, 0))
        self._linear = self._weights = np.zeros((0, targets.linear.shape[0]))
        self._fetched: Array = None

    def steps(self, penalties: Iterable[float], gap: float, most: int) -> Iterator[Step]:
        """The solutions for falling λ, each from the one before, up to `most` features."""
        for penalty in penalties:
            step = self._step(float(penalty), gap)
            yield step
            if len(step.support) >= most:
                break

    def _step(self, penalty: float, gap: float) -> Step:
        objective = 0.5 * self._targets.square  # without features
        inner = FIRST_INNER_GAP
        while True:
            problem = Lasso(self._gram, self._linear, penalty, self._targets.square)
            self._weights = solve(problem, self._weights, inner * gap * objective)
            sizes = self._correlation_sizes(problem)
            found, factor = problem.gap_and_factor(self._weights, sizes.max())
            if found <= gap * objective or inner < LAST_INNER_GAP:
                break
            entering = self._entering(penalty, factor * sizes, found)
            if len(entering):
                self._fetch(entering)
            else:
                inner *= 0.1
        proved, _ = problem.gap_and_factor(self._weights, (sizes + self._size_errors()).max())
        chosen = np.flatnonzero(self._weights.any(axis=1))
        chosen = chosen[np.argsort(self._positions[chosen])]
        return Step(
            penalty,
            self._positions[chosen],
            self._weights[chosen],
            proved / objective + 8.0 * self._eps,
        )

    def _correlation_sizes(self, problem: Lasso) -> np.ndarray:
        """The norms of the rows of XᵀR / n with the residuals R, of all features, shape (d,)."""
        if not self._weights.any():
            return self._sizes
        xp, _ = place = self._place
        mixture = self._weights.T / self._weight
        mixture = _backend.from_host(mixture, place, self._fetched.dtype)
        rows = self._targets.linear - self._source.apply(mixture, self._fetched)
        (sizes,) = read(xp.sqrt(xp.sum(rows * rows, axis=0)))
        # Those of the working set with more digits, and with the ridge.
        sizes[self._positions] = norms(problem.correlations(self._weights))
        return sizes

    def _size_errors(self) -> np.ndarray:
        """Bounds of the rounding errors of these norms, shape (d,)."""
        parts = self._lengths[self._positions] * norms(self._weights)
        length = math.sqrt(self._targets.square) + float(np.linalg.norm(parts))
        return np.asarray(ROUNDING * self._eps * length * self._lengths)

    def _entering(self, penalty: float, sizes: np.ndarray, gap: float) -> np.ndarray:
        """Features to fetch: those nearest to entering, unless the gap proves that none may."""
        distance = penalty - sizes
        is_open = self._enters & (distance <= math.sqrt(2.0 * gap) * self._spread)
        is_open[self._positions] = False
        candidates = np.flatnonzero(is_open)
        count = max(LEAST_FETCHED, int(self._weights.any(axis=1).sum()))
        # Without the last digits: of copies of a column, the first comes first.
        nearest = np.round(distance[candidates] / (self._spread[candidates] * penalty), 10)
        return np.sort(candidates[np.argsort(nearest, kind="stable")[:count]])

    def _fetch(self, positions: np.ndarray) -> None:
        """Add features to the working set."""
        xp, _ = place = self._place
        known = len(self._positions)
        self._positions = np.concatenate([self._positions, positions])
        new = self._source.fetch(positions)
        self._fetched = xp.concat([self._fetched, new], axis=0) if known else new
        index = _backend.from_host(self._positions, place)
        (rows,) = read(self._source.scatter(new, self._fetched, index) / self._weight)
        rows[:, known:] += self._ridge * np.eye(len(positions))
        gram = np.block([[self._gram, rows[:, :known].T], [rows[:, :known], rows[:, known:]]])
        self._gram = 0.5 * (gram + gram.T)
        self._linear = read(xp.take(self._targets.linear, index, axis=1))[0].T
        self._weights = np.pad(self._weights, ((0, len(positions)), (0, 0)))
        if not self._ridge:
            self._drop_copies()

    def _drop_copies(self) -> None:
        """Drop copies of features that were fetched before: one of them says it all.

        Solutions with a copy are as good, but select more features. A ridge makes them share.
        """
        squares = np.diag(self._gram)
        apart = np.abs(squares + squares[:, None] - 2.0 * self._gram)
        # The first row that is the same as this one.
        first = np.argmax(apart <= VARIANCE_ROUNDING * self._eps * squares, axis=1)
        length = np.sqrt(squares * self._targets.square)
        same = norms(self._linear - self._linear[first]) <= 16.0 * self._eps * length
        copies = (first < np.arange(len(first))) & same
        if not copies.any():
            return
        self._enters[self._positions[copies]] = False
        rows, place = np.flatnonzero(~copies), self._place
        self._positions, self._gram = self._positions[rows], self._gram[np.ix_(rows, rows)]
        self._linear, self._weights = self._linear[rows], self._weights[rows]
        self._fetched = place.xp.take(self._fetched, _backend.from_host(rows, place), axis=0)
