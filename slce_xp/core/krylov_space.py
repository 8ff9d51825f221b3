"""A growing block Krylov space of a symmetric matrix that is known by its products only."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read

# Newton–Schulz iterations that make rows orthonormal, at most.
MOST_ITERATIONS = 5


class KrylovSpace:
    """Orthonormal rows Q of which C·Q is known: C·Q = T·Q + K·P + L, with a pool P of more rows.

    C is S_t or G, T is symmetric, and P is orthonormal and orthogonal to Q. To grow, some or
    all of the pool join Q: that costs one product with C and one read from the device. Q and P
    are consecutive rows of one array, so that each product with them is one operation. All else on
    the host is no larger than T and K. L is what the Gram matrix of the last remainder could
    not separate from rounding; it joins the pool in the next growth.

    Parameters
    ----------
    apply : function
        Products with C, (b, m) ↦ (b, m).
    start : array, shape (b, m)
        Rows that span the first pool.
    classes : array, shape (K, m)
        Rows in the span of `start`, whose coordinates are kept.
    capacity : int
        Rows of Q and P to allocate at first; there is more if need be.
    """

    def __init__(
        self, apply: Callable[[Array], Array], start: Array, classes: Array, capacity: int
    ) -> None:
        self._apply = apply
        self._place = _backend.place_of(start)
        self._dtype = start.dtype
        self.eps = float(self._place.xp.finfo(start.dtype).eps)
        self.matrix = np.zeros((0, 0))  # T
        self.norm = 0.0  # a lower bound of ‖C‖
        self.quotient = 0.0  # the largest eigenvalue of C seen in the last block
        # A power of two that brings products with C near one, so that their squares are in range.
        self.unit = 1.0
        self._last_unit: Array = None
        pool = self._orthonormal_start(start)
        self._classes_in_pool = classes @ pool.T
        self.classes = self.between = np.zeros((0, 0))  # the classes in the first block, and 2·BᵀB
        self.pooled: int = pool.shape[0]  # rows of P
        self.coupling = np.zeros((0, self.pooled))  # K
        xp, device = self._place
        shape = (min(max(capacity, 2 * self.pooled), start.shape[1]), start.shape[1])
        self._basis = xp.zeros(shape, dtype=self._dtype, device=device)
        self._put_rows(0, pool)
        # What the last growth left over: how many of the pool's rows are older than it, the rows
        # that the newer ones were made of, whose images these are, their exact coordinates, L.
        self._rest = self.pooled
        self._rows: Array = None
        self._owners = np.zeros(0, dtype=int)
        self._exact: Array = None
        self._loose: Array = None

    @property
    def size(self) -> int:
        """How many rows Q has."""
        return self.matrix.shape[0]

    @property
    def exhausted(self) -> bool:
        """Whether the space is invariant: nothing is left to add."""
        return self.pooled == 0

    def grow(self, directions: np.ndarray | None = None) -> None:
        """Move pool rows to Q: all, or the span of `directions`, orthonormal, shape (r, b)."""
        xp, _ = self._place
        old, known = self.size, self.size + self.pooled
        width = self.pooled if directions is None else directions.shape[1]
        rotation = np.eye(self.pooled)
        if directions is not None and width < self.pooled:
            rotation = np.linalg.qr(directions, mode="complete")[0]
            self._put_rows(old, self._put(rotation.T) @ self._basis[old:known, :])
        size = old + width
        image = self._apply(self._basis[old:size, :])
        if old == 0:
            self._start_units(image)
        coefficients, remainder = self._split(image * self.unit, self._basis[:known, :])
        rows, owners = remainder, np.arange(old, size)
        if self._loose is not None:
            rows = xp.concat([remainder, self._loose], axis=0)
            owners = np.concatenate([owners, self._owners[: self._loose.shape[0]]])
        parts = [coefficients, rows @ rows.T]
        if self._exact is not None:
            parts.append(self._exact)
        report, gram, *exact = read(*parts)  # the one read of a pass
        report, gram = report / self.unit, gram / self.unit**2

        coupling = self.coupling
        if exact:
            coupling[self._owners, coupling.shape[1] - exact[0].shape[1] :] = exact[0] / self.unit
        coupling = (coupling @ rotation)[:, width:]
        matrix = np.zeros((size, size))
        matrix[:old, :old] = self.matrix
        matrix[old:, :] = report[:, :size]
        matrix[:old, old:] = report[:, :old].T
        matrix[old:, old:] = 0.5 * (matrix[old:, old:] + matrix[old:, old:].T)
        self.matrix = matrix
        quotients = np.linalg.eigvalsh(matrix[old:, old:])
        self.quotient = max(float(quotients[-1]), 0.0)
        self.norm = max(self.norm, float(np.abs(quotients).max()))

        noise = self._noise(gram, self.norm)
        fresh, axes, complete = self._orthonormal(rows, gram, noise, self._basis[:known, :])
        images = np.zeros((size, axes.shape[1]))
        images[owners] = np.sqrt(np.diagonal(gram))[:, None] * axes
        coupling = np.concatenate([coupling, report[:, size:]])
        self.coupling = np.concatenate([coupling, images], axis=1)
        self._rest, self._rows, self._owners = known - size, rows, owners
        self._exact = self._loose = None
        self.pooled = self._rest
        if fresh is not None:
            self._put_rows(known, fresh)
            self.pooled += fresh.shape[0]
            self._exact = rows @ fresh.T
            if not complete:
                _, self._loose = self._split(remainder, fresh)

    def outside(self, coordinates: np.ndarray) -> np.ndarray:
        """What C makes of rows of the space beyond the space, in the pool: (size, k) ↦ (k, r)."""
        return coordinates.T @ self.coupling

    def combine(self, coordinates: np.ndarray) -> Array:
        """Rows of the space with the given coordinates, (size, k) ↦ (k, m)."""
        return self._put(coordinates.T) @ self._basis[: self.size, :]

    def signed(self, columns: np.ndarray) -> np.ndarray:
        """D·Q, with D = 2P − I, in the coordinates of the space: (size, k) ↦ (size, k)."""
        first = self.between.shape[0]
        image = -columns
        image[:first] += self.between @ columns[:first]
        return image

    def project(self, left: np.ndarray, columns: Array) -> Array:
        """Products of combinations `left` of Q, (size, m), with columns: (n, k) ↦ (m, k)."""
        return self._put(left.T) @ (self._basis[: self.size, :] @ columns)

    def combine_on(self, left: np.ndarray, coordinates: Array) -> Array:
        """Combinations of combinations `left` of Q, by device coordinates: (m, k) ↦ (n, k)."""
        return self._basis[: self.size, :].T @ (self._put(left) @ coordinates)

    def combine_outside(self, coordinates: np.ndarray) -> Array:
        """What C makes of such rows beyond the space, to rounding, times `unit`.

        (size, k) ↦ (k, m).
        """
        total = self._put(coordinates[self._owners].T) @ self._rows
        if not self._rest:
            return total
        older = self.unit * self.outside(coordinates)[:, : self._rest]
        return total + self._put(older) @ self._basis[self.size : self.size + self._rest, :]

    def _put(self, values: np.ndarray) -> Array:
        return _backend.from_host(np.ascontiguousarray(values), self._place, self._dtype)

    def _put_rows(self, start: int, rows: Array) -> None:
        """Write rows into the array of Q and P, which grows if it is full."""
        capacity, length = self._basis.shape
        if start + rows.shape[0] > capacity:
            xp, device = self._place
            capacity = max(start + rows.shape[0], capacity + capacity // 2)
            larger = xp.zeros((capacity, length), dtype=self._dtype, device=device)
            self._basis = _backend.put_rows(larger, 0, self._basis)
        self._basis = _backend.put_rows(self._basis, start, rows)

    def _split(self, rows: Array, known: Array) -> tuple[Array, Array]:
        """Coefficients of rows in known ones, and what is left of them, orthogonal to those."""
        first = rows @ known.T
        rows = rows - first @ known
        second = rows @ known.T  # for what rounding left
        return first + second, rows - second @ known

    def _unit_matrix(self, size: int) -> Array:
        """1.5·I, kept for the blocks that follow."""
        if self._last_unit is None or self._last_unit.shape[0] != size:
            xp, device = self._place
            self._last_unit = 1.5 * xp.eye(size, dtype=self._dtype, device=device)
        return self._last_unit

    def _noise(self, gram: np.ndarray, size: float) -> np.ndarray:
        """Rounding in rows that are differences of rows of a given size, over their lengths."""
        lengths = np.maximum(np.sqrt(np.diagonal(gram)), np.finfo(float).tiny)
        return np.asarray(8.0 * self.eps * size / lengths)

    def _start_units(self, image: Array) -> None:
        """Read the classes in the first block, and the size of its products with C."""
        xp, _ = self._place
        (size,), self.classes = read(xp.reshape(xp.max(xp.abs(image)), (1,)), self._classes_in_pool)
        self.between = 2.0 * (self.classes.T @ self.classes)
        if size > 0.0 and math.isfinite(size):
            self.unit = math.ldexp(1.0, -math.frexp(size)[1])

    def _orthonormal_start(self, rows: Array) -> Array:
        xp, _ = self._place
        # By the largest entry first, so that squares are in range.
        size = xp.max(xp.abs(rows), axis=1, keepdims=True)
        one = xp.ones_like(size)
        rows = rows / xp.where(size > 0, size, one)
        norms = xp.linalg.vector_norm(rows, axis=1, keepdims=True)
        rows = rows / xp.where(norms > 0, norms, one)
        basis: Array = None
        for _ in range(4):  # each sweep finds what was too small for the one before
            rest = rows if basis is None else self._split(rows, basis)[1]
            gram = read(rest @ rest.T)[0]
            more, _, complete = self._orthonormal(rest, gram, self._noise(gram, 1.0), basis)
            if more is not None:
                basis = more if basis is None else xp.concat([basis, more], axis=0)
            if more is None or complete:
                break
        return basis

    def _orthonormal(
        self, rows: Array, gram: np.ndarray, noise: np.ndarray, known: Array | None
    ) -> tuple[Array | None, np.ndarray, bool]:
        """Orthonormal rows spanning `rows`, and whether that is all of them.

        Also returned, in the middle: the coordinates in them of `rows` divided by their lengths.
        All products on the device are matrix products; the factor comes from the host. A Gram
        matrix shows lengths down to the root of eps only: what is shorter, but longer than
        `noise`, the rounding in each row relative to its length, is left for a second sweep.
        """
        lengths = np.sqrt(np.diagonal(gram))
        inverse = np.where(lengths > 0.0, 1.0 / np.where(lengths > 0.0, lengths, 1.0), 0.0)
        rows_kept = noise < 1.0
        # Noisy rows are made short: what they say must not hide what clean ones do.
        scale = rows_kept * np.minimum(1.0, np.sqrt(self.eps) / np.maximum(noise, self.eps))
        squares, axes = _backend.eigh(gram * np.outer(inverse * scale, inverse * scale))
        rounding = np.square(noise * scale) @ np.square(axes)
        visible = 4.0 * gram.shape[0] * self.eps * float(squares[-1])
        kept = (squares > visible) & (squares > rounding)
        # An eigenvalue below `visible` may be anything up to it.
        complete = not bool((~kept & (rounding < visible) & _touches(axes, rows_kept)).any())
        axes, squares, rounding = axes[:, kept], squares[kept], rounding[kept]
        if squares.shape[0] == 0:
            return None, axes, True
        roots = np.sqrt(squares)
        fresh = self._put((axes / roots).T * (scale * inverse / self.unit)) @ rows
        coordinates = axes * roots / np.where(rows_kept, scale, 1.0)[:, None]
        if known is not None:  # of which short rows have the most
            fresh = fresh - (fresh @ known.T) @ known
        # Newton–Schulz: the factor is as inexact as the Gram matrix it came from, and as the rows.
        error = 2.0 * visible / float(squares[0]) + float((rounding / squares).max())
        unit = self._unit_matrix(fresh.shape[0])
        for _ in range(_iterations(min(0.5, error), self.eps)):
            fresh = (unit - 0.5 * (fresh @ fresh.T)) @ fresh
        return fresh, coordinates, complete


def _iterations(error: float, eps: float) -> int:
    """How often an error must be squared until it is rounding; once at least."""
    count = math.ceil(math.log2(max(2.0, math.log(eps) / math.log(error))))
    return min(count, MOST_ITERATIONS)


def _touches(axes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Which columns of an orthogonal matrix have a part in the given rows."""
    return np.asarray(np.square(axes[rows]).sum(axis=0) > 0.5)
