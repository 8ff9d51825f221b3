r"""The matrix-free form: block Lanczos from the class centroids. For everything large.

For μ > 0, M a = μ a rewrites to a = 2 (S_t + μI)⁻¹ Bᵀ(B a), so every positive eigenvector lies
in the block Krylov space of S_t that starts at the class centroids. With fewer samples than
features the same space is built in sample coordinates, a = Xᵀu, from the class indicators and
G = X Xᵀ, where vectors are short.

Blocks are stored as rows: products with a row-major X are fastest that way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slce_xp import _linalg, _xp
from slce_xp._moments import add
from slce_xp._operator import CentroidOperator
from slce_xp._solvers._solution import Request, Solution
from slce_xp._xp import Array

# In feature coordinates a negative Ritz value only grows. It is given up as not positive once
# this many times its last growth would not lift it above zero, twice in a row.
GROWTH = 4.0


def solve(operator: CentroidOperator, request: Request) -> Solution:
    """Positive eigenpairs of M by Rayleigh–Ritz in a growing block Krylov space.

    Returns fewer than k eigenpairs where fewer eigenvalues are positive: what comes then lies
    in the bulk of the spectrum or in the null space of X, and is the business of a dense form.
    """
    side = _Samples(operator) if operator.n < operator.d else _Features(operator)
    space = _KrylovSpace(side.apply, side.start(request.width), side.classes)
    doubts = _Doubts()
    history: list[float] = []
    directions = None
    while True:
        space.grow(directions)
        values, coordinates, size = side.ritz(space, min(request.k, space.size))
        norm = max(size, np.finfo(float).tiny)  # of M on the space
        outside = space.outside(coordinates)
        residuals = side.lengths(space, outside) / norm
        wanted = doubts.wanted(values, residuals * norm)
        history.append(float(residuals[wanted].max(initial=0.0)))
        target = _target(values[wanted] / norm, request.tol, space.eps)
        enough = values.shape[0] == request.k and history[-1] <= target
        full = space.size + request.width > request.max_rows
        last = space.exhausted or len(history) >= request.max_iter or full
        if enough or last:
            # What did not converge stays, and is reported; what is known not to be positive goes.
            zero = request.tol * max(norm, space.norm)  # rounding is relative to S_t
            kept = wanted & (values > zero) if enough or space.exhausted else wanted
            vectors, exact = side.vectors(space, coordinates[:, kept])
            residuals[kept] = exact / norm
            worst = float(residuals[kept].max(initial=0.0))
            history[-1], converged = worst, worst <= request.tol
            if worst <= target or last:
                break
        unconverged = wanted & (residuals > target)
        narrow = len(history) >= request.wide_passes and bool(unconverged.any())
        directions = _span(outside[unconverged]) if narrow else None
    return Solution(
        eigenvalues=_xp.from_host(values[kept], operator.place, vectors.dtype),
        vectors=vectors,
        zero=zero,
        passes=len(history),
        residuals=np.maximum(residuals[kept], 4.0 * space.eps),  # rounding is always there
        history=tuple(history),
        converged=converged,
    )


def _target(values: np.ndarray, tol: float, eps: float) -> float:
    """The residual to reach: the tolerance, or less where the gap below the positive ones is small.

    The angle to the exact subspace is about the residual over that gap, which is the smallest
    positive eigenvalue or more; it shall be 100·tol at most where 0.01·tol suffices for that
    and is not rounding.
    """
    positive = values[values > 0.0]
    gap = float(positive.min(initial=np.inf))
    least = min(tol, max(0.01 * tol, 32.0 * eps))
    return float(np.clip(100.0 * tol * gap, least, tol))


def _span(rows: np.ndarray) -> np.ndarray | None:
    """Orthonormal columns spanning the given rows, but for nearly dependent ones; None for none."""
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    _, lengths, axes = np.linalg.svd(rows / np.maximum(sizes, np.finfo(float).tiny))
    count = int((lengths > 1e-3).sum())
    return axes[:count].T if count else None


class _Doubts:
    """Which Ritz pairs are, or may yet become, positive."""

    def __init__(self) -> None:
        self._last: np.ndarray | None = None
        self._hopeless: np.ndarray | None = None

    def wanted(self, values: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        doubtful = values + residuals > 0.0
        hopeless = np.zeros(values.shape, dtype=bool)
        if self._last is not None and self._last.shape == values.shape:
            growth = np.maximum(values - self._last, 0.0)
            hopeless = values + GROWTH * growth < 0.0
            if self._hopeless is not None and self._hopeless.shape == values.shape:
                doubtful &= ~(hopeless & self._hopeless)
        self._last, self._hopeless = values, hopeless
        wanted: np.ndarray = (values > 0.0) | doubtful
        return wanted


class _KrylovSpace:
    """Orthonormal rows Q of which C·Q is known: C·Q = T·Q + K·P + L, with a pool P of more rows.

    C is S_t or G, T is symmetric, and P is orthonormal and orthogonal to Q. To grow, some or
    all of the pool join Q: that costs one product with C, one pass over X, and one read from
    the device. All else on the host is no larger than T and K. L is what the Gram matrix of the
    last remainder could not tell from rounding; it joins the pool in the next growth.
    """

    def __init__(self, apply: Callable[[Array], Array], start: Array, classes: Array) -> None:
        self._apply = apply
        self._place = _xp.place_of(start)
        self._dtype = start.dtype
        self.eps = float(self._place.xp.finfo(start.dtype).eps)
        self.blocks: list[Array] = []
        self.matrix = np.zeros((0, 0))  # T
        self.norm = 0.0  # a lower bound of ‖C‖
        self.quotient = 0.0  # the largest eigenvalue of C seen in the last block
        self.pool: Array = self._orthonormal_start(start)  # None where the space is invariant
        self.coupling = np.zeros((0, self.pool.shape[0]))  # K
        weights = classes @ self.pool.T
        self.between = _read(2.0 * (weights.T @ weights))[0]  # 2·BᵀB, on the first block
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
            pool = self._put(rotation.T) @ pool
            block, rest = pool[:width, :], pool[width:, :]
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
        report, lengths, gram, *exact = _read(*parts)  # the one read of a pass

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
        self.quotient = max(float(np.linalg.eigvalsh(matrix[old:, old:])[-1]), 0.0)
        self.norm = max(self.norm, self.quotient)

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

    def combine_outside(self, coordinates: np.ndarray) -> Array:
        """What C makes of such rows beyond the space, to rounding: (size, k) ↦ (k, m)."""
        total = self._put(coordinates[self._owners].T) @ self._rows
        if self._rest is None:
            return total
        older = self.outside(coordinates)[:, : self._rest.shape[0]]
        return total + self._put(older) @ self._rest

    def _put(self, values: np.ndarray) -> Array:
        return _xp.from_host(np.ascontiguousarray(values), self._place, self._dtype)

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
            more, _, complete = self._orthonormal(rest, _read(rest @ rest.T)[0], noise, basis)
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
        squares, axes = np.linalg.eigh(gram * np.outer(rows_kept, rows_kept))
        rounding = np.square(noise * rows_kept) @ np.square(axes)
        visible = 4.0 * gram.shape[0] * self.eps * float(squares[-1])
        kept = (squares > visible) & (squares > rounding)
        # An eigenvalue below `visible` tells nothing but that: it may be anything up to it.
        complete = not bool((~kept & (rounding < visible) & _touches(axes, rows_kept)).any())
        axes, lengths = axes[:, kept], np.sqrt(squares[kept])
        if lengths.shape[0] == 0:
            return None, axes, True
        rows = self._put((axes / lengths).T) @ rows
        if known:
            _, rows = self._split(rows, known)
        # Newton–Schulz: the factor is as inexact as the Gram matrix it came from.
        for _ in range(4):
            rows = 1.5 * rows - 0.5 * ((rows @ rows.T) @ rows)
        return rows, axes * lengths, complete


def _touches(axes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Which columns of an orthogonal matrix have a part in the given rows."""
    return np.asarray(np.square(axes[rows]).sum(axis=0) > 0.5)


def _largest(matrix: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The k largest eigenpairs on the host, and the norm.

    By NumPy: SciPy brings threads of its own, which would go on to spin for a while and slow
    down NumPy's in the next pass by half.
    """
    values, vectors = np.linalg.eigh(matrix)
    norm = float(np.abs(values).max())
    return values[::-1][:k].copy(), vectors[:, ::-1][:, :k].copy(), norm


def _read(*matrices: Array) -> list[np.ndarray]:
    """All of them in one transfer."""
    xp, _ = _xp.place_of(matrices[0])
    flat = _xp.to_host(xp.concat([xp.reshape(m, (-1,)) for m in matrices])).astype(np.float64)
    stops = np.cumsum([m.shape[0] * m.shape[1] for m in matrices])
    parts = np.split(flat, stops[:-1])
    return [part.reshape(m.shape) for part, m in zip(parts, matrices, strict=True)]


def _factor(matrix: np.ndarray) -> np.ndarray:
    """L with L·Lᵀ equal to a matrix that is positive semi-definite but for rounding."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


class _Features:
    """Feature coordinates: rows of length d, C = S_t."""

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.between
        self.apply = operator.apply_scatter

    def start(self, width: int) -> Array:
        return _padded(self.classes, self._operator.draw, width)

    def ritz(self, space: _KrylovSpace, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Leading eigenpairs of the projection of M, on the host, and its norm."""
        matrix = -space.matrix
        first = space.between.shape[0]
        matrix[:first, :first] += space.between
        return _largest(matrix, k)

    def lengths(self, space: _KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖M a − μ a‖ as far as it lies in the pool. An estimate: `vectors` measures it."""
        return np.asarray(np.linalg.norm(outside, axis=1))

    def vectors(self, space: _KrylovSpace, coordinates: np.ndarray) -> tuple[Array, np.ndarray]:
        """Eigenvectors, shape (d, k), and the lengths of their residuals."""
        return space.combine(coordinates).T, _lengths(space.combine_outside(coordinates))


class _Samples:
    """Sample coordinates: rows u of length n stand for a = Xᵀu, C = G."""

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.indicators()
        self.apply = operator.apply_gram

    def start(self, width: int) -> Array:
        return _padded(self.classes, self._operator.draw_samples, width)

    def ritz(self, space: _KrylovSpace, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Leading eigenpairs of D·G on the space, with D = 2P − I, by way of T = L·Lᵀ."""
        factor = _factor(space.matrix)
        first = space.between.shape[0]
        upper = factor[:first]
        values, weights, norm = _largest(upper.T @ (space.between @ upper) - factor.T @ factor, k)
        left = factor @ weights
        reflected = -left
        reflected[:first] += space.between @ left[:first]
        return values, reflected / np.maximum(np.abs(values), np.finfo(float).tiny), norm

    def lengths(self, space: _KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖Xᵀr‖ for rows r outside the space, by the length of the last rows that joined it.

        An estimate: `vectors` measures it.
        """
        return np.asarray(np.sqrt(space.quotient) * np.linalg.norm(outside, axis=1))

    def vectors(self, space: _KrylovSpace, coordinates: np.ndarray) -> tuple[Array, np.ndarray]:
        """Eigenvectors a = Xᵀu, shape (d, k), and with the same product their residuals Xᵀr."""
        xp, _ = self._operator.place
        k = coordinates.shape[1]
        rows = xp.concat([space.combine(coordinates), space.combine_outside(coordinates)], axis=0)
        features = self._operator.combine_rows(rows)
        return _linalg.orthonormal(features[:k, :].T), _lengths(features[k:, :])


def _lengths(rows: Array) -> np.ndarray:
    xp, _ = _xp.place_of(rows)
    return _read(xp.linalg.vector_norm(rows, axis=1, keepdims=True))[0][:, 0]


def _padded(classes: Array, draw: Callable[[int], Array], width: int) -> Array:
    """Class rows, and seeded rows up to the width: they catch the large eigenvalues of S_t."""
    n_classes, length = classes.shape
    xp, device = _xp.place_of(classes)
    if n_classes >= length:
        return xp.eye(length, dtype=classes.dtype, device=device)
    missing = min(width, length) - n_classes
    return classes if missing <= 0 else xp.concat([classes, draw(missing).T], axis=0)
