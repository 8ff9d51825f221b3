"""Coordinates of the Krylov space: features (vectors of length d) or samples (of length n)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp.core import eigen
from slce_xp.core.certificate import (
    ROUNDING_EPS,
    count_above_by_features,
    count_above_by_samples,
)
from slce_xp.core.eigen import gram_of
from slce_xp.core.krylov_space import KrylovSpace
from slce_xp.core.operators import CentroidOperator
from slce_xp.core.refine import KnownPairs
from slce_xp.core.solution import Request

# Residuals of an iteration that is left to rounding, in eps of the norm of M.
FLOOR_EPS = 32.0


class Ritz(NamedTuple):
    """Ritz pairs after a pass, and their rounding.

    Attributes
    ----------
    values : numpy.ndarray, shape (q,)
    coordinates : numpy.ndarray, shape (size, q)
    norm, largest : float
        The norm of M on the space, and the larger of that and of the norm of C.
    eps : float
        Rounding of products with C relative to their size, centring included.
    rounding : float
        Rounding of an eigenvalue of M.
    error : numpy.ndarray, shape (q,)
        Rounding of each Ritz value.
    floor : float
        Residuals cannot be expected to become shorter than this.
    """

    values: np.ndarray
    coordinates: np.ndarray
    norm: float
    largest: float
    eps: float
    rounding: float
    error: np.ndarray
    floor: float

    @classmethod
    def of(
        cls, side: Features | Samples, space: KrylovSpace, operator: CentroidOperator, count: int
    ) -> Ritz:
        """At most `count` leading pairs of the space."""
        values, coordinates, size = side.ritz(space, count)
        norm = max(size, np.finfo(float).tiny)
        largest = max(norm, space.norm)
        # What centring subtracts is rounded relative to itself.
        eps = space.eps * (1.0 + math.sqrt(operator.centring / largest))
        rounding = ROUNDING_EPS * eps * largest + operator.mean_rounding(largest)
        error = rounding * side.growth(values)
        floor = FLOOR_EPS * space.eps * norm
        return cls(values, coordinates, norm, largest, eps, rounding, error, floor)

    def target(self, request: Request, count: int, below: float) -> float:
        """Length of a residual with which `count` eigenpairs are within the tolerated angle.

        `below` is what is proved to be above all other eigenvalues; the next Ritz value may be
        larger.
        """
        if count == 0:
            return self.floor
        following = float(self.values[count]) if count < len(self.values) else 0.0
        below = following if math.isinf(below) else max(below, following)
        gap = max(0.0, float(self.values[count - 1]) - below)
        return max(self.floor, request.tol * gap / (2.0 * math.sqrt(count)))


class Features:
    """Feature coordinates: rows of length d, C = S_t."""

    count_above = staticmethod(count_above_by_features)

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.between
        self.apply = operator.apply_scatter
        self.form = operator.scatter

    def start(self, width: int) -> Array:
        """The rows at which the space begins."""
        return _padded(self.classes, self._operator.draw, width)

    def ritz(self, space: KrylovSpace, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Leading eigenpairs of the projection of M, on the host, and its norm."""
        matrix = -space.matrix
        first = space.between.shape[0]
        matrix[:first, :first] += space.between
        return _largest(matrix, k)

    def growth(self, values: np.ndarray) -> np.ndarray:
        """How much more inexact than M each Ritz value is."""
        return np.ones_like(values)

    def rounding(self, ritz: Ritz, wanted: np.ndarray) -> float:
        """Rounding of vectors, in the units of residuals: that of products with C."""
        return 0.0

    def lengths(self, space: KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖M a − μ a‖ as far as it lies in the pool. An estimate: `vectors` measures it."""
        return np.asarray(np.linalg.norm(outside, axis=1))

    def span(self, space: KrylovSpace, coordinates: np.ndarray, which: np.ndarray) -> Array:
        """Orthonormal columns spanning some Ritz vectors, whatever their values, shape (d, q)."""
        if not which.any():
            xp, device = self._operator.place
            return xp.zeros((self._operator.d, 0), dtype=self.classes.dtype, device=device)
        return space.combine(coordinates[:, which]).T

    def vectors(
        self, space: KrylovSpace, ritz: Ritz, wanted: np.ndarray
    ) -> tuple[Array, np.ndarray, np.ndarray]:
        """Some eigenvectors, shape (d, k), the lengths of their residuals, and eigenvalues."""
        coordinates = ritz.coordinates[:, wanted]
        lengths = lengths_of(space.combine_outside(coordinates)) / space.unit
        return space.combine(coordinates).T, lengths, ritz.values[wanted]


class Samples:
    """Sample coordinates: rows u of length n stand for a = Xᵀu, C = G."""

    count_above = staticmethod(count_above_by_samples)

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.indicators()
        self.apply = operator.apply_gram
        self.form = operator.gram
        self._factor = self._weights = np.zeros((0, 0))  # of the last Ritz problem

    def start(self, width: int) -> Array:
        """The rows at which the space begins."""
        return _padded(self.classes, self._operator.draw_samples, width)

    def ritz(self, space: KrylovSpace, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Leading eigenpairs of D·G on the space, with D = 2P − I, by way of T = L·Lᵀ."""
        factor = _factor(space.matrix)
        first = space.between.shape[0]
        upper = factor[:first]
        values, weights, norm = _largest(upper.T @ (space.between @ upper) - factor.T @ factor, k)
        self._factor, self._weights = factor, weights
        return (
            values,
            space.signed(factor @ weights) / np.maximum(np.abs(values), np.finfo(float).tiny),
            norm,
        )

    def known(self, space: KrylovSpace) -> KnownPairs:
        """All Ritz pairs of the space, for a refinement."""
        small = self._factor.T @ (space.signed(self._factor))
        values, weights = _backend.eigh(0.5 * (small + small.T))
        left = self._factor @ weights
        return KnownPairs(values, partial(space.project, left), partial(space.combine_on, left))

    def rounding(self, ritz: Ritz, wanted: np.ndarray) -> float:
        """Rounding of vectors a = Xᵀu, relative to ‖X‖·‖u‖, in the units of residuals."""
        if not wanted.any():
            return 0.0
        values = np.maximum(ritz.values[wanted], np.finfo(float).tiny)
        growth = self.growth(ritz.values)[wanted] / values
        return ritz.eps * ritz.largest * math.sqrt(ritz.largest * float(growth.max()))

    def growth(self, values: np.ndarray) -> np.ndarray:
        """How much more inexact than M each Ritz value is: the scatter of its scores over itself.

        D·G is not symmetric, and that is the condition of its eigenvalues.
        """
        scatter = np.square(self._factor @ self._weights[:, : len(values)]).sum(axis=0)
        tiny = np.finfo(float).tiny
        return np.asarray(np.maximum(1.0, scatter / np.maximum(np.abs(values), tiny)))

    def lengths(self, space: KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖Xᵀr‖ for rows r outside the space, by the length of the last rows that joined it.

        An estimate: `vectors` measures it.
        """
        return np.asarray(np.sqrt(space.quotient) * np.linalg.norm(outside, axis=1))

    def span(self, space: KrylovSpace, coordinates: np.ndarray, which: np.ndarray) -> Array:
        """Orthonormal columns spanning some Ritz vectors, whatever their values, shape (d, q).

        XᵀL⁻ᵀw is as long as w, but for what is not there in X.
        """
        if not which.any():
            xp, device = self._operator.place
            return xp.zeros((self._operator.d, 0), dtype=self.classes.dtype, device=device)
        factor = self._factor
        solved = np.linalg.lstsq(factor.T, self._weights[:, which], rcond=space.eps)[0]
        vectors = self._operator.combine_rows(space.combine(solved)).T
        squares, axes = _backend.eigh(read(gram_of(vectors))[0])
        axes = _backend.from_host(axes[:, squares > 0.5], self._operator.place, vectors.dtype)
        return vectors @ axes

    def vectors(
        self, space: KrylovSpace, ritz: Ritz, wanted: np.ndarray
    ) -> tuple[Array, np.ndarray, np.ndarray]:
        """Eigenvectors a = Xᵀu, shape (d, k), and with the same product r = Xᵀv outside the space.

        M·a is θ·a − r, so the Rayleigh quotient is smaller than the Ritz value θ by aᵀr. If
        rounding of G, E, is large compared with M, ‖a‖² = uᵀ(G + E)u is not quite 1, and the
        quotient aᵀMa / aᵀa, with aᵀMa = uᵀ(G + E)·D·(G + E)u and DGu = θu, is θ·‖a‖² to first
        order.
        """
        xp, _ = self._operator.place
        coordinates, values = ritz.coordinates[:, wanted], ritz.values[wanted]
        k = coordinates.shape[1]
        rows = xp.concat([space.combine(coordinates), space.combine_outside(coordinates)], axis=0)
        features = self._operator.combine_rows(rows)
        vectors, residuals = features[:k, :], features[k:, :]
        norms, products = read(
            xp.linalg.vector_norm(features, axis=1), xp.sum(vectors * residuals, axis=1)
        )
        # Of values within rounding of zero nothing is known.
        squares = np.where(values > ritz.error[wanted], norms[:k] ** 2, 1.0)
        vectors = eigen.orthonormal_columns(vectors.T)
        return vectors, norms[k:] / space.unit, values * squares - products / space.unit


def _padded(classes: Array, draw: Callable[[int], Array], width: int) -> Array:
    """Class rows, and seeded rows up to the width: they catch the large eigenvalues of S_t."""
    n_classes, length = classes.shape
    xp, device = _backend.place_of(classes)
    if max(n_classes, width) >= length:
        return xp.eye(length, dtype=classes.dtype, device=device)
    # One at least: the classes may be the same, and their rows zero.
    return xp.concat([classes, draw(max(1, width - n_classes)).T], axis=0)


def _largest(matrix: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The k largest eigenpairs on the host, and the norm, which the smallest may determine."""
    values, vectors = _backend.eigh(matrix)
    norm = float(np.abs(values).max())
    return values[::-1][:k].copy(), vectors[:, ::-1][:, :k].copy(), norm


def _factor(matrix: np.ndarray) -> np.ndarray:
    """L with L·Lᵀ equal to a matrix that is positive semi-definite but for rounding."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = _backend.eigh(matrix)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def lengths_of(rows: Array) -> np.ndarray:
    """The length of each row, on the host."""
    xp, _ = _backend.place_of(rows)
    return read(xp.linalg.vector_norm(rows, axis=1, keepdims=True))[0][:, 0]
