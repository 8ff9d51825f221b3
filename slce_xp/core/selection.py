r"""Sparse paths: which features reconstruct the class centroids, for a falling penalty.

Two convex problems, both a lasso whose Gram matrix is made of S_t:

.. math:: \min_W \tfrac1{2n} \lVert Y - X W \rVert_F^2 + \lambda \sum_j \lVert W_j \rVert_2
    \qquad \text{and} \qquad
    \min_b \tfrac1{2n} \lVert \tilde C - X \operatorname{diag}(b) A A^T \rVert_F^2
    + \lambda \lVert b \rVert_1 .

A few features, the working set, are fetched with their Gram matrix; the small problem is solved on
the host by `core.lasso`; one product over all features gives the duality gap and the features that
may still enter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp._errors import invalid
from slce_xp.core import eigen, lasso
from slce_xp.core.lasso import Lasso
from slce_xp.core.operators import CentroidOperator

# Features that are fetched at a time, at least; otherwise as many as are selected.
LEAST_FETCHED = 16
# The share of the gap that the problem of the working set may have.
INNER_SHARE = 0.3
MOST_CHECKS = 60
# Rounding of a product, in units of eps and the lengths of its factors.
ROUNDING = 2.0


class Targets(NamedTuple):
    """What features are to reconstruct.

    Attributes
    ----------
    linear : array, shape (r, d)
        YᵀX / n.
    square : float
        ‖Y‖² / n.
    between : float
        tr(S_b) / n, of what is to be reconstructed.
    of_classes : numpy.ndarray, shape (K, r)
        The row of Y of the samples of each class; without rows for the centroid-encoder.
    directions : array, shape (k, d), or None
        Aᵀ of the centroid-encoder.
    """

    linear: Array
    square: float
    between: float
    of_classes: np.ndarray
    directions: Array | None = None


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


# ---------------------------------------------------------------- targets


def class_targets(operator: CentroidOperator, orthonormal: bool) -> Targets:
    """Y of K − 1 columns or fewer: C̃ in a basis of its span, or class scores with YᵀY = n·I."""
    xp, _ = operator.place
    between = operator.between / math.sqrt(operator.weight)
    (matrix, weights) = eigen.read_finite(between @ between.T, operator.class_weights)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    level = 16.0 * len(values) * eigen.eps_of(between) * max(0.0, float(values[-1]))
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = min(int((values > level).sum()), len(values) - 1)
    vectors = eigen.fix_signs(vectors[:, :rank].copy())
    size = np.ones(rank) if orthonormal else np.sqrt(values[:rank])
    if not rank:
        raise _no_difference()
    mixture = _backend.from_host((vectors * size).T, operator.place, operator.dtype)
    shares = weights.astype(np.float64)[:, None] / operator.weight
    return Targets(
        xp.matmul(mixture, between),
        float(size @ size),
        float(values[:rank].sum()),
        vectors * size / np.sqrt(shares),
    )


def encoder_targets(operator: CentroidOperator, directions: Array) -> Targets:
    """The linear centroid-encoder with the orthonormal rows of Aᵀ, shape (k, d)."""
    xp, _ = operator.place
    between = operator.between / math.sqrt(operator.weight)
    projected = between @ directions.T
    linear = xp.sum((projected.T @ between) * directions, axis=0)
    (square,) = eigen.read_finite(xp.sum(projected * projected))
    if not float(square) > 0.0:
        raise _no_difference()
    return Targets(linear[None, :], float(square), float(square), np.zeros((0, 1)), directions)


def _no_difference() -> ValueError:
    return invalid(
        "y", "y must hold classes whose means differ; they agree in all features. Check y"
    )


def _too_far() -> ValueError:
    return invalid(
        "X",
        "X must have class means that differ by more than the rounding of its columns' means; "
        "it is too far from the origin, or y says nothing about it. Subtract a constant from "
        "columns with large means, use float64 and, if X is sparse, a dense X",
    )


# ---------------------------------------------------------------- products with S_t


class _Fetched:
    """Features that were fetched: their positions, and S_t / n between them, on the host."""

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.positions = np.zeros(0, dtype=np.int64)
        self.scatter = np.zeros((0, 0))
        self._parts: Array = None

    def fetch(self, positions: np.ndarray) -> None:
        """Add features."""
        xp, _ = self._operator.place
        parts = self._read(positions)
        old, self.positions = self.positions, np.concatenate([self.positions, positions])
        self._parts = parts if self._parts is None else xp.concat([self._parts, parts], axis=0)
        new = self._products(parts)
        both = np.zeros((len(self.positions),) * 2)
        both[: len(old), : len(old)] = self.scatter
        both[len(old) :, :] = new
        both[: len(old), len(old) :] = new[:, : len(old)].T
        both[len(old) :, len(old) :] = 0.5 * (new[:, len(old) :] + new[:, len(old) :].T)
        self.scatter = both

    def keep(self, rows: np.ndarray) -> None:
        """Keep some of them."""
        place = self._operator.place
        self.positions, self.scatter = self.positions[rows], self.scatter[np.ix_(rows, rows)]
        self._parts = place.xp.take(self._parts, _backend.from_host(rows, place), axis=0)

    def apply(self, mixture: np.ndarray) -> Array:
        """VᵀS_t / n for a mixture V of fetched features, (m, k) ↦ (k, d)."""
        operator = self._operator
        return self._combined(
            _backend.from_host(mixture.T / operator.weight, operator.place, operator.dtype)
        )

    def _read(self, positions: np.ndarray) -> Array:
        raise NotImplementedError

    def _products(self, parts: Array) -> np.ndarray:
        raise NotImplementedError

    def _combined(self, mixture: Array) -> Array:
        raise NotImplementedError


class _Columns(_Fetched):
    """By columns of X, (m, n), if X has fewer samples than features: a check is a pass over X."""

    def _read(self, positions: np.ndarray) -> Array:
        operator, xp = self._operator, self._operator.place.xp
        # A sparse X is read by products with unit vectors, which are longer than a column.
        length = max(LEAST_FETCHED, operator.n * len(positions) // (2 * operator.d))
        count = -(-len(positions) // length)
        return xp.concat([operator.columns_at(p) for p in np.array_split(positions, count)], axis=0)

    def _products(self, parts: Array) -> np.ndarray:
        products = _backend.to_host(parts @ self._parts.T).astype(np.float64)
        return np.asarray(products / self._operator.weight)

    def _combined(self, mixture: Array) -> Array:
        return self._operator.combine_rows(mixture @ self._parts)


class _ScatterRows(_Fetched):
    """By rows of S_t, (m, d): a pass over X to fetch features, none to check."""

    def _read(self, positions: np.ndarray) -> Array:
        return self._operator.scatter_rows(positions)

    def _products(self, parts: Array) -> np.ndarray:
        place = self._operator.place
        index = _backend.from_host(self.positions, place)
        products = _backend.to_host(place.xp.take(parts, index, axis=1)).astype(np.float64)
        return np.asarray(products / self._operator.weight)

    def _combined(self, mixture: Array) -> Array:
        return mixture @ self._parts


# ---------------------------------------------------------------- the path


class SparsePath:
    """The lasso of one data set, for any λ.

    Parameters
    ----------
    operator : CentroidOperator
        Of samples that all have a label.
    targets : Targets
    ridge : float
        ρ of a further penalty ½ρ‖W‖².
    in_memory : bool
        Whether a pass over X is cheap.

    Attributes
    ----------
    largest : float
        The λ from which on no feature is selected, in units of `operator`.
    """

    def __init__(
        self, operator: CentroidOperator, targets: Targets, ridge: float, in_memory: bool
    ) -> None:
        self._operator, self._targets, self._ridge = operator, targets, ridge
        by_columns = in_memory and operator.n <= operator.d
        self._fetched: _Fetched = (_Columns if by_columns else _ScatterRows)(operator)
        xp, _ = operator.place
        self._eps = float(np.finfo(_backend.dtype_name(operator.precision)).eps)
        squares = operator.feature_squares() / operator.weight
        centring = operator.centring_squares / operator.weight
        factors = xp.ones_like(squares)
        if targets.directions is not None:
            factors = xp.sum(targets.directions * targets.directions, axis=0)
        linear = xp.sqrt(xp.sum(targets.linear * targets.linear, axis=0))
        rounding = operator.rounding_squares(self._eps)
        found = eigen.read_finite(squares, centring, factors, linear, rounding)
        squares, centring, factors, sizes, rounding = found
        # A feature that may be constant is never selected, whatever rounding makes of it, but it
        # counts for the gap: if it varies after all, nothing is proved without it.
        self._enters = squares > np.maximum(rounding, 64.0 * self._eps * centring)
        squares = np.maximum(squares, 0.0)
        self._spread = np.sqrt(squares * factors + ridge)
        self._lengths = np.sqrt((squares + centring) * factors + ridge)
        self._sizes = sizes
        self.largest = float(sizes[self._enters].max(initial=0.0))
        width = targets.linear.shape[0]
        self._weights = np.zeros((0, width))
        self._linear = np.zeros((0, width))
        self._directions = np.zeros((0, factors.shape[0]))
        # Class means that are equal but for rounding say nothing.
        rounding = (64.0 * self._eps) ** 2 * float((squares + centring).sum())
        if not (self.largest > 0.0 and targets.between > rounding):
            raise _too_far() if (centring > squares).any() else _no_difference()

    def steps(self, penalties: Iterable[float], gap: float) -> Iterator[Step]:
        """The solutions for falling λ, each from the one before."""
        for penalty in penalties:
            yield self._step(penalty, gap)

    def _step(self, penalty: float, gap: float) -> Step:
        half = 0.5 * self._targets.square
        inner, best, worse = INNER_SHARE * gap * half, math.inf, 0
        for _ in range(MOST_CHECKS):
            problem = self._problem(penalty)
            self._weights = lasso.solve(problem, self._weights, inner)
            sizes = self._gradient_sizes(problem)
            largest = float(sizes.max(initial=0.0))
            product = problem.gram @ self._weights
            found, factor = lasso.duality_gap(problem, self._weights, product, largest)
            if found <= gap * half:
                break
            entering = self._entering(penalty, sizes, factor, found)
            if len(entering):
                self._fetch(entering)
                continue
            inner *= 0.1
            worse = worse + 1 if found > 0.9 * best else 0
            best = min(best, found)
            if worse > 2:  # rounding
                break
        errors = self._rounding()
        largest = float((sizes + errors).max(initial=0.0))
        found, _ = lasso.duality_gap(problem, self._weights, product, largest)
        chosen = self._weights.any(axis=1)
        positions = self._fetched.positions[chosen]
        order = np.argsort(positions)
        return Step(
            penalty,
            positions[order],
            self._weights[chosen][order],
            found / half + 8.0 * self._eps,
        )

    def _problem(self, penalty: float) -> Lasso:
        gram = self._fetched.scatter
        if self._targets.directions is not None:
            gram = gram * (self._directions @ self._directions.T)
        gram = gram + self._ridge * np.eye(len(gram))
        return Lasso(gram, self._linear, penalty, self._targets.square)

    def _gradient_sizes(self, problem: Lasso) -> np.ndarray:
        """The norm of the gradient of each feature, without the penalty, shape (d,)."""
        targets, xp = self._targets, self._operator.place.xp
        active = self._weights.any(axis=1)
        if not active.any():
            return self._sizes
        if targets.directions is None:
            product = self._fetched.apply(self._weights)
        else:
            product = self._fetched.apply(self._weights * self._directions)
            product = xp.sum(product * targets.directions, axis=0)[None, :]
        gradient = targets.linear - product
        sizes = np.array(read(xp.sqrt(xp.sum(gradient * gradient, axis=0)))[0], dtype=np.float64)
        # Those of the working set with more digits, and with the ridge.
        inside = problem.linear - problem.gram @ self._weights
        sizes[self._fetched.positions] = lasso.norms(inside)
        return sizes

    def _entering(self, penalty: float, sizes: np.ndarray, factor: float, gap: float) -> np.ndarray:
        """Features to fetch: those nearest to entering, unless the gap proves that none may."""
        distance = penalty - factor * sizes
        open_ = self._enters & (distance <= math.sqrt(2.0 * gap) * self._spread)
        open_[self._fetched.positions] = False
        candidates = np.flatnonzero(open_)
        count = max(LEAST_FETCHED, int(self._weights.any(axis=1).sum()))
        # Without the last digits: of copies of a column, the first comes first.
        nearest = np.round(distance[candidates] / (self._spread[candidates] * penalty), 10)
        order = np.argsort(nearest, kind="stable")
        return np.sort(candidates[order[:count]])

    def _fetch(self, positions: np.ndarray) -> None:
        self._fetched.fetch(positions)
        xp, _ = place = self._operator.place
        index = _backend.from_host(positions, place)

        def columns(rows: Array) -> np.ndarray:
            return _backend.to_host(xp.take(rows, index, axis=1)).astype(np.float64).T

        self._linear = np.concatenate([self._linear, columns(self._targets.linear)])
        none = np.zeros((len(positions), self._weights.shape[1]))
        self._weights = np.concatenate([self._weights, none])
        if self._targets.directions is not None:
            new = columns(self._targets.directions)
            old = self._directions if self._directions.size else new[:0]
            self._directions = np.concatenate([old, new])
        if not self._ridge:
            self._drop_copies()

    def _drop_copies(self) -> None:
        """Drop copies of features that were fetched before: one of them says it all.

        Solutions with a copy are as good, but select more features. A ridge makes them share.
        """
        gram, linear = self._problem(0.0).gram, self._linear
        squares = np.diag(gram)
        level = 64.0 * self._eps * squares
        apart = np.abs(squares + squares[:, None] - 2.0 * gram)
        first = np.argmax(apart <= level, axis=1)  # the first row that is the same as this one
        length = np.sqrt(squares * self._targets.square)
        same = lasso.norms(linear - linear[first]) <= 16.0 * self._eps * length
        copies = (first < np.arange(len(first))) & same
        if not copies.any():
            return
        self._enters = self._enters.copy()
        self._enters[self._fetched.positions[copies]] = False
        rows = np.flatnonzero(~copies)
        self._fetched.keep(rows)
        self._linear, self._weights = self._linear[rows], self._weights[rows]
        if self._targets.directions is not None:
            self._directions = self._directions[rows]

    def _rounding(self) -> np.ndarray:
        """Bounds of the errors of the gradient's sizes, shape (d,)."""
        lengths = self._lengths[self._fetched.positions]
        size = math.sqrt(self._targets.square)
        size += float(np.linalg.norm(lengths * lasso.norms(self._weights)))
        return np.asarray(ROUNDING * self._eps * size * self._lengths)
