"""A growing block Krylov space of a symmetric matrix that is known by its products only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp.core.eigen import add


class KrylovSpace:
    """Orthonormal rows Q of which C·Q is known: C·Q = T·Q + K·P + L, with a pool P of more rows.

    C is S_t or G, T is symmetric, and P is orthonormal and orthogonal to Q. To grow, some or
    all of the pool join Q: that costs one product with C, one pass over X, and one read from
    the device. All else on the host is no larger than T and K. L is what the Gram matrix of the
    last remainder could not separate from rounding; it joins the pool in the next growth.
    """

    def __init__(self, apply: Callable[[Array], Array], start: Array, classes: Array) -> None:
        self._apply = apply
        self._place = _backend.place_of(start)
        self._dtype = start.dtype
        self.eps = float(self._place.xp.finfo(start.dtype).eps)
        self.blocks: list[Array] = []
        self.matrix = np.zeros((0, 0))  # T
        self.norm = 0.0  # a lower bound of ‖C‖
        self.quotient = 0.0  # the largest eigenvalue of C seen in the last block
        self.pool: Array = self._orthonormal_start(start)  # None if the space is invariant
        self.coupling = np.zeros((0, self.pool.shape[0]))  # K
        # The rows of `classes` in the first block, and 2·BᵀB there.
        self.classes = read(classes @ self.pool.T)[0]
        self.between = 2.0 * (self.classes.T @ self.classes)
        # What the last growth left over: the pool's older rows, the rows that the newer ones
        # were made of, whose images these are, their exact coordinates, and L.
        self._rest: Array = None
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
        return self.pool is None

    def grow(self, directions: np.ndarray | None = None) -> None:
        """Move pool rows to Q: all, or the span of `directions`, orthonormal, shape (r, b)."""
        xp, _ = self._place
        old, pool, rest, rotation = self.size, self.pool, None, None
        if directions is None or directions.shape[1] == pool.shape[0]:
            block = pool
        else:
            width = directions.shape[1]
            rotation = np.linalg.qr(directions, mode="complete")[0]
            # Two products: a slice of one would keep all of it alive for as long as the block.
            block = self._put(rotation.T[:width]) @ pool
            rest = self._put(rotation.T[width:]) @ pool
        width = block.shape[0]
        self.blocks.append(block)
        known = self.blocks if rest is None else [*self.blocks, rest]
        coefficients, remainder = self._split(self._apply(block), known)
        rows, owners = remainder, np.arange(old, old + width)
        if self._loose is not None:
            rows = xp.concat([remainder, self._loose], axis=0)
            owners = np.concatenate([owners, self._owners[: self._loose.shape[0]]])
        lengths = xp.linalg.vector_norm(rows, axis=1, keepdims=True)
        units = rows / xp.where(lengths > 0, lengths, xp.ones_like(lengths))
        parts = [coefficients, lengths, units @ units.T]
        if self._exact is not None:
            parts.append(self._exact)
        report, lengths, gram, *exact = read(*parts)  # the one read of a pass

        coupling = self.coupling
        if exact:
            coupling[self._owners, coupling.shape[1] - exact[0].shape[1] :] = exact[0]
        coupling = np.zeros((old, 0)) if rotation is None else (coupling @ rotation)[:, width:]
        size = old + width
        matrix = np.zeros((size, size))
        matrix[:old, :old] = self.matrix
        matrix[old:, :] = report[:, :size]
        matrix[:old, old:] = report[:, :old].T
        matrix[old:, old:] = 0.5 * (matrix[old:, old:] + matrix[old:, old:].T)
        self.matrix = matrix
        quotients = np.linalg.eigvalsh(matrix[old:, old:])
        self.quotient = max(float(quotients[-1]), 0.0)
        self.norm = max(self.norm, float(np.abs(quotients).max()))

        noise = 8.0 * self.eps * self.norm / np.maximum(lengths[:, 0], np.finfo(float).tiny)
        fresh, axes, complete = self._orthonormal(units, gram, noise, known)
        images = np.zeros((size, axes.shape[1]))
        images[owners] = lengths * axes
        coupling = np.concatenate([coupling, report[:, size:]])
        self.coupling = np.concatenate([coupling, images], axis=1)
        parts = [part for part in (rest, fresh) if part is not None]
        self.pool = xp.concat(parts, axis=0) if parts else None
        self._rest, self._rows, self._owners = rest, rows, owners
        self._exact = None if fresh is None else rows @ fresh.T
        self._loose = None
        if fresh is not None and not complete:
            _, self._loose = self._split(remainder, [fresh])

    def outside(self, coordinates: np.ndarray) -> np.ndarray:
        """What C makes of rows of the space beyond the space, in the pool: (size, k) ↦ (k, r)."""
        return coordinates.T @ self.coupling

    def combine(self, coordinates: np.ndarray) -> Array:
        """Rows of the space with the given coordinates, (size, k) ↦ (k, m)."""
        total, start = None, 0
        for block in self.blocks:
            stop = start + block.shape[0]
            total = add(total, self._put(coordinates[start:stop].T) @ block)
            start = stop
        return total

    def signed(self, columns: np.ndarray) -> np.ndarray:
        """D·Q, with D = 2P − I, in the coordinates of the space: (size, k) ↦ (size, k)."""
        first = self.between.shape[0]
        image = -columns
        image[:first] += self.between @ columns[:first]
        return image

    def project(self, left: np.ndarray, columns: Array) -> Array:
        """Products of combinations `left` of Q, (size, m), with columns: (n, k) ↦ (m, k)."""
        xp, _ = self._place
        inside = xp.concat([block @ columns for block in self.blocks], axis=0)
        return self._put(left.T) @ inside

    def combine_on(self, left: np.ndarray, coordinates: Array) -> Array:
        """Combinations of combinations `left` of Q, by device coordinates: (m, k) ↦ (n, k)."""
        inside = self._put(left) @ coordinates
        total, start = None, 0
        for block in self.blocks:
            stop = start + block.shape[0]
            total = add(total, block.T @ inside[start:stop, :])
            start = stop
        return total

    def combine_outside(self, coordinates: np.ndarray) -> Array:
        """What C makes of such rows beyond the space, to rounding: (size, k) ↦ (k, m)."""
        total = self._put(coordinates[self._owners].T) @ self._rows
        if self._rest is None:
            return total
        older = self.outside(coordinates)[:, : self._rest.shape[0]]
        return total + self._put(older) @ self._rest

    def _put(self, values: np.ndarray) -> Array:
        return _backend.from_host(np.ascontiguousarray(values), self._place, self._dtype)

    def _split(self, rows: Array, known: list[Array]) -> tuple[Array, Array]:
        """Coefficients of rows in known blocks, and what is left of them, orthogonal to those."""
        xp, _ = self._place
        total = None
        for _ in range(2):  # the second time for what rounding left
            coefficients = [rows @ block.T for block in known]
            for coefficient, block in zip(coefficients, known, strict=True):
                rows = rows - coefficient @ block
            total = add(total, xp.concat(coefficients, axis=1))
        return total, rows

    def _orthonormal_start(self, rows: Array) -> Array:
        xp, _ = self._place
        norms = xp.linalg.vector_norm(rows, axis=1, keepdims=True)
        rows = rows / xp.where(norms > 0, norms, xp.ones_like(norms))
        noise = np.full(rows.shape[0], 8.0 * self.eps)
        basis: list[Array] = []
        for _ in range(4):  # each sweep finds what was too small for the one before
            _, rest = self._split(rows, basis) if basis else (None, rows)
            more, _, complete = self._orthonormal(rest, read(rest @ rest.T)[0], noise, basis)
            if more is not None:
                basis.append(more)
            if more is None or complete:
                break
        return xp.concat(basis, axis=0)

    def _orthonormal(
        self, rows: Array, gram: np.ndarray, noise: np.ndarray, known: list[Array]
    ) -> tuple[Array | None, np.ndarray, bool]:
        """Orthonormal rows spanning `rows`, the coordinates of `rows` in them, whether that is all.

        All products on the device are matrix products; the factor comes from the host. A Gram
        matrix shows lengths down to the root of eps only: what is shorter, but longer than
        `noise`, the rounding in each row, is left for a second sweep.
        """
        rows_kept = noise < 1.0
        # Noisy rows are made short: what they say must not hide what clean ones do.
        scale = rows_kept * np.minimum(1.0, np.sqrt(self.eps) / np.maximum(noise, self.eps))
        squares, axes = np.linalg.eigh(gram * np.outer(scale, scale))
        rounding = np.square(noise * scale) @ np.square(axes)
        visible = 4.0 * gram.shape[0] * self.eps * float(squares[-1])
        kept = (squares > visible) & (squares > rounding)
        # An eigenvalue below `visible` may be anything up to it.
        complete = not bool((~kept & (rounding < visible) & _touches(axes, rows_kept)).any())
        axes, lengths = axes[:, kept], np.sqrt(squares[kept])
        if lengths.shape[0] == 0:
            return None, axes, True
        rows = self._put((axes / lengths).T * scale) @ rows
        coordinates = axes * lengths / np.where(rows_kept, scale, 1.0)[:, None]
        if known:
            _, rows = self._split(rows, known)
        # Newton–Schulz: the factor is as inexact as the Gram matrix it came from.
        xp, device = self._place
        unit = 1.5 * xp.eye(rows.shape[0], dtype=self._dtype, device=device)
        for _ in range(4):
            rows = (unit - 0.5 * (rows @ rows.T)) @ rows
        return rows, coordinates, complete


def _touches(axes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Which columns of an orthogonal matrix have a part in the given rows."""
    return np.asarray(np.square(axes[rows]).sum(axis=0) > 0.5)
