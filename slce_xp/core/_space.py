"""A growing block Krylov space of a symmetric matrix that is known by its products only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import _backend
from .._backend import Array, read
from ._eigen import eps_of

# Rows are orthogonalised again if less of one than this was outside of the known ones: errors would
# grow from pass to pass.
LEAST_OUTSIDE = 0.9


class KrylovSpace:
    """Orthonormal rows Q of which C·Q is known: C·Q = T·Q + K·P, with a pool P of more rows.

    To grow, rows of the pool join Q: that costs one product with C and one read from the device.
    Q and P are consecutive rows of one array. All else on the host is no larger than T and K.

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

    Attributes
    ----------
    matrix : numpy.ndarray, shape (s, s)
        T.
    coupling : numpy.ndarray, shape (s, r)
        K.
    pooled, fresh, joined : int
        Rows of P, how many of them, the first ones, are from the last growth, and how many joined Q
        in it.
    """

    def __init__(
        self, apply: Callable[[Array], Array], start: Array, classes: Array, capacity: int
    ) -> None:
        self._apply, self._place, self._dtype = apply, _backend.place_of(start), start.dtype
        xp, device = self._place
        pool = start
        if start.shape[0] < start.shape[1]:  # otherwise it is the identity
            pool = _backend.qr(start.T)[0].T
        self._known = classes @ pool.T
        self._host_known = np.zeros((0, 0))
        self._width = self.pooled = self.fresh = int(pool.shape[0])
        self.joined = 0
        self.matrix, self.coupling = np.zeros((0, 0)), np.zeros((0, self.pooled))
        shape = (min(max(capacity, 2 * self.pooled), start.shape[1]), start.shape[1])
        self._basis = xp.zeros(shape, dtype=self._dtype, device=device)
        self._put_rows(0, pool)

    @property
    def size(self) -> int:
        """How many rows Q has."""
        return self.matrix.shape[0]

    @property
    def is_exhausted(self) -> bool:
        """Whether the space is invariant: nothing is left to add."""
        return self.pooled == 0

    @property
    def known(self) -> np.ndarray:
        """The class rows in the coordinates of the space, shape (s, K)."""
        return np.pad(self._host_known.T, ((0, self.size - self._host_known.shape[1]), (0, 0)))

    def grow(self, directions: np.ndarray | None = None) -> None:
        """Move pool rows to Q: the fresh ones, or the span of `directions`, columns of (r, b).

        All of them, if there was no room for fresh ones.
        """
        old, known = self.size, self.size + self.pooled
        width = self.fresh or min(self.pooled, self._width)  # all rows of the space are known
        if directions is not None:
            rotation = np.linalg.qr(directions, mode="complete")[0]
            self._put_rows(old, self._put(rotation.T) @ self._basis[old:known, :])
            self.coupling, width = self.coupling @ rotation, directions.shape[1]
        size, self.joined = old + width, width
        image = self._apply(self._basis[old:size, :])
        report, lengths, fresh = self._split(image, self._basis[:known, :])
        matrix = np.zeros((size, size))
        matrix[:old, :old] = self.matrix
        matrix[old:, :] = report[:, :size]
        matrix[:old, old:] = report[:, :old].T
        matrix[old:, old:] = 0.5 * (matrix[old:, old:] + matrix[old:, old:].T)
        # Fresh rows come first in the pool: they are the ones to join next.
        left = np.concatenate([self.coupling[:, width:], report[:, size:]])
        fresh_part = np.concatenate([np.zeros((old, lengths.shape[1])), lengths])
        self.matrix, self.coupling = matrix, np.concatenate([fresh_part, left], axis=1)
        self.fresh = lengths.shape[1]
        self.pooled = self.fresh + known - size
        if fresh is not None:
            xp = self._place.xp
            self._put_rows(size, xp.concat([fresh, self._basis[size:known, :]], axis=0))

    def combine(self, coordinates: np.ndarray) -> Array:
        """Rows of the space with the given coordinates, (s, k) ↦ (k, m)."""
        return self._put(coordinates.T) @ self._basis[: self.size, :]

    def _split(self, rows: Array, known: Array) -> tuple[np.ndarray, np.ndarray, Array | None]:
        """Coefficients of rows in known ones, and the rest as lengths times orthonormal rows."""
        first = rows @ known.T
        rest = rows - first @ known
        room = known.shape[1] - known.shape[0]
        if room < rows.shape[0]:
            return self._split_all(first, rest, known, room)
        directions, lengths = self._orthonormal(rest)
        again = directions @ known.T  # what rounding left, which short rows have most of
        directions, shorter = self._orthonormal(directions - again @ known)
        report, lengths, again, shorter = self._read(first, lengths, again, shorter)
        report, lengths = report + lengths @ again, lengths @ shorter
        while np.abs(np.diagonal(shorter)).min() < LEAST_OUTSIDE:
            # A row of zeros has become a unit vector, of which nothing may be outside.
            noise = _backend.draw_normal(0, tuple(rows.shape), self._place, self._dtype)
            directions = directions + eps_of(rows) * noise
            again = directions @ known.T
            directions, shorter = self._orthonormal(directions - again @ known)
            again, shorter = read(again, shorter)
            report, lengths = report + lengths @ again, lengths @ shorter
        return report, lengths, directions

    def _split_all(
        self, first: Array, rest: Array, known: Array, room: int
    ) -> tuple[np.ndarray, np.ndarray, Array | None]:
        """The same if known rows leave room for fewer rows: all that there are."""
        if not room:
            return self._read(first)[0], np.zeros((rest.shape[0], 0)), None
        others = _backend.draw_normal(0, (room, known.shape[1]), self._place, self._dtype)
        for _ in range(3):
            others, _ = self._orthonormal(others - (others @ known.T) @ known)
        report, lengths = self._read(first, rest @ others.T)
        return report, lengths, others

    def _read(self, *arrays: Array) -> list[np.ndarray]:
        """The one read of a pass, in the first one with the class rows."""
        if self._host_known.size:
            return read(*arrays)
        *found, self._host_known = read(*arrays, self._known)
        return found

    @staticmethod
    def _orthonormal(rows: Array) -> tuple[Array, Array]:
        """Orthonormal rows Q and a triangular L with rows = L·Q."""
        q, r = _backend.qr(rows.T)
        return q.T, r.T

    def _put(self, values: np.ndarray) -> Array:
        return _backend.from_host(np.ascontiguousarray(values), self._place, self._dtype)

    def _put_rows(self, start: int, rows: Array) -> None:
        """Write rows into the array of Q and P, which grows if it is full."""
        capacity, length = self._basis.shape
        if start + rows.shape[0] > capacity:
            xp, device = self._place
            capacity = max(start + rows.shape[0], min(capacity + capacity // 2, length))
            larger = xp.zeros((capacity, length), dtype=self._dtype, device=device)
            self._basis = _backend.put_rows(larger, 0, self._basis)
        self._basis = _backend.put_rows(self._basis, start, rows)
