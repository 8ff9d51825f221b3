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

# A negative Ritz value only grows. It is given up as not positive once this many times its
# last growth would not lift it above zero, twice in a row.
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
        values, coordinates = side.ritz(space, min(request.k, space.size))
        norm = max(space.norm, float(abs(values[0])))
        outside = space.outside(coordinates)
        residuals = side.lengths(space, outside) / norm
        wanted = doubts.wanted(values, residuals * norm)
        history.append(float(residuals[wanted].max(initial=0.0)))
        target = _target(values[wanted] / norm, request.tol)
        enough = values.shape[0] == request.k and history[-1] <= target
        last = space.exhausted or len(history) >= request.max_iter
        if enough or last:
            # What did not converge stays, and is reported; what is known not to be positive goes.
            kept = wanted & (values > request.tol * norm) if enough or space.exhausted else wanted
            vectors, exact = side.vectors(space, coordinates[:, kept], outside[kept])
            residuals[kept] = exact / norm
            worst = residuals[kept].max(initial=0.0)
            converged = bool(worst <= request.tol)
            if worst <= target or last:
                break
        unconverged = wanted & (residuals > target)
        narrow = len(history) >= request.wide_passes and bool(unconverged.any())
        directions = _span(outside[unconverged]) if narrow else None
    return Solution(
        eigenvalues=_xp.from_host(values[kept], operator.place, vectors.dtype),
        vectors=vectors,
        zero=request.tol * norm,
        passes=len(history),
        residuals=residuals[kept],
        history=tuple(history),
        converged=converged,
    )


def _target(values: np.ndarray, tol: float) -> float:
    """The residual to reach: the tolerance, or less where the gap below the positive ones is small.

    The angle to the exact subspace is about the residual over that gap, which is the smallest
    positive eigenvalue or more; it shall be 100·tol at most where 0.01·tol suffices for that.
    """
    positive = values[values > 0.0]
    gap = float(positive.min(initial=np.inf))
    return float(np.clip(100.0 * tol * gap, 0.01 * tol, tol))


def _span(rows: np.ndarray) -> np.ndarray:
    """Orthonormal columns spanning the given rows, but for nearly dependent ones."""
    _, lengths, axes = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return axes[: int((lengths > 1e-3).sum())].T


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
    """Orthonormal rows Q of which C·Q is known: C·Q = T·Q + K·P, with a pool P of more rows.

    C is S_t or G, T is symmetric, and P is orthonormal and orthogonal to Q. To grow, some or
    all of the pool join Q: that costs one product with C, one pass over X, and one read from
    the device. All else on the host is no larger than T and K.
    """

    def __init__(self, apply: Callable[[Array], Array], start: Array, classes: Array) -> None:
        self._apply = apply
        self._place = _xp.place_of(start)
        self._dtype = start.dtype
        self._eps = float(self._place.xp.finfo(start.dtype).eps)
        self.blocks: list[Array] = []
        self.matrix = np.zeros((0, 0))  # T
        self.norm = 0.0  # a lower bound of ‖C‖
        self.quotient = 0.0  # the largest eigenvalue of C seen in the last block
        self.pool: Array = self._orthonormal_start(start)  # None where the space is invariant
        self.coupling = np.zeros((0, self.pool.shape[0]))  # K
        weights = classes @ self.pool.T
        self.between = _read(2.0 * (weights.T @ weights))  # 2·BᵀB, on the first block

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
        old, pool, coupling, rest = self.size, self.pool, self.coupling, None
        if directions is None or directions.shape[1] == pool.shape[0]:
            block, coupling = pool, np.zeros((old, 0))
        else:
            width = directions.shape[1]
            rotation = np.linalg.qr(directions, mode="complete")[0]
            pool = self._put(rotation.T) @ pool
            block, rest = pool[:width, :], pool[width:, :]
            coupling = (coupling @ rotation)[:, width:]
        width = block.shape[0]
        self.blocks.append(block)
        known = self.blocks if rest is None else [*self.blocks, rest]
        coefficients, remainder = self._split(self._apply(block), known)
        gram = remainder @ remainder.T
        report = _read(xp.concat([coefficients, gram], axis=1))  # the one read of a pass

        size = old + width
        matrix = np.zeros((size, size))
        matrix[:old, :old] = self.matrix
        matrix[old:, :] = report[:, :size]
        matrix[:old, old:] = report[:, :old].T
        matrix[old:, old:] = 0.5 * (matrix[old:, old:] + matrix[old:, old:].T)
        self.matrix = matrix
        self.quotient = max(float(np.linalg.eigvalsh(matrix[old:, old:])[-1]), 0.0)
        self.norm = max(self.norm, self.quotient)

        fresh, lengths = self._orthonormal(remainder, report[:, -width:], self.norm, known)
        coupling = np.concatenate([coupling, report[:, size:-width]])
        lengths = np.concatenate([np.zeros((old, lengths.shape[1])), lengths])
        self.coupling = np.concatenate([coupling, lengths], axis=1)
        parts = [part for part in (rest, fresh) if part is not None]
        self.pool = xp.concat(parts, axis=0) if parts else None

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

    def combine_pool(self, coordinates: np.ndarray) -> Array:
        """Rows of the pool with the given coordinates, (k, r) ↦ (k, m)."""
        return self._put(coordinates) @ self.pool

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
        first, _ = self._orthonormal(rows, _read(rows @ rows.T), 1.0, [])
        # Once more, for directions that were small in the first sweep.
        _, rest = self._split(rows, [first])
        second, _ = self._orthonormal(rest, _read(rest @ rest.T), 1.0, [first])
        return first if second is None else xp.concat([first, second], axis=0)

    def _orthonormal(
        self, rows: Array, gram: np.ndarray, scale: float, known: list[Array]
    ) -> tuple[Array | None, np.ndarray]:
        """Orthonormal rows spanning `rows` but for rounding, and the coordinates of `rows` in them.

        All products on the device are matrix products; the factor comes from the host.
        """
        squares, axes = np.linalg.eigh(gram)
        rounding = 8.0 * self._eps * scale
        floor = max(4.0 * gram.shape[0] * self._eps * float(squares[-1]), rounding * rounding)
        axes, lengths = axes[:, squares > floor], np.sqrt(squares[squares > floor])
        if lengths.shape[0] == 0:
            return None, axes
        rows = self._put((axes / lengths).T) @ rows
        if known:
            _, rows = self._split(rows, known)
        # Newton–Schulz: the factor is as inexact as the Gram matrix it came from.
        for _ in range(4):
            rows = 1.5 * rows - 0.5 * ((rows @ rows.T) @ rows)
        return rows, axes * lengths


def _largest(matrix: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenpairs on the host.

    By NumPy: SciPy brings threads of its own, which would go on to spin for a while and slow
    down NumPy's in the next pass by half.
    """
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1][:k].copy(), vectors[:, ::-1][:, :k].copy()


def _read(matrix: Array) -> np.ndarray:
    return _xp.to_host(matrix).astype(np.float64)


class _Features:
    """Feature coordinates: rows of length d, C = S_t."""

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.between
        self.apply = operator.apply_scatter

    def start(self, width: int) -> Array:
        return _padded(self.classes, self._operator.draw, width)

    def ritz(self, space: _KrylovSpace, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Leading eigenpairs of the projection of M, on the host."""
        matrix = -space.matrix
        first = space.between.shape[0]
        matrix[:first, :first] += space.between
        return _largest(matrix, k)

    def lengths(self, space: _KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖M a − μ a‖ but for rounding: all of it lies in the pool."""
        return np.asarray(np.linalg.norm(outside, axis=1))

    def vectors(
        self, space: _KrylovSpace, coordinates: np.ndarray, outside: np.ndarray
    ) -> tuple[Array, np.ndarray]:
        """Eigenvectors, shape (d, k), and the lengths of their residuals."""
        return space.combine(coordinates).T, self.lengths(space, outside)


class _Samples:
    """Sample coordinates: rows u of length n stand for a = Xᵀu, C = G."""

    def __init__(self, operator: CentroidOperator) -> None:
        self._operator = operator
        self.classes = operator.indicators()
        self.apply = operator.apply_gram

    def start(self, width: int) -> Array:
        return _padded(self.classes, self._operator.draw_samples, width)

    def ritz(self, space: _KrylovSpace, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Leading eigenpairs of D·G on the space, with D = 2P − I, by way of T = L·Lᵀ."""
        # T is positive definite but for rounding, which the ridge covers.
        ridge = space.size * np.finfo(float).eps * space.norm
        factor = np.linalg.cholesky(space.matrix + ridge * np.eye(space.size))
        first = space.between.shape[0]
        upper = factor[:first]
        values, weights = _largest(upper.T @ (space.between @ upper) - factor.T @ factor, k)
        left = factor @ weights
        reflected = -left
        reflected[:first] += space.between @ left[:first]
        return values, reflected / np.maximum(np.abs(values), np.finfo(float).tiny)

    def lengths(self, space: _KrylovSpace, outside: np.ndarray) -> np.ndarray:
        """‖Xᵀr‖ for rows r outside the space, by the length of the last rows that joined it.

        An estimate: `vectors` measures it.
        """
        return np.asarray(np.sqrt(space.quotient) * np.linalg.norm(outside, axis=1))

    def vectors(
        self, space: _KrylovSpace, coordinates: np.ndarray, outside: np.ndarray
    ) -> tuple[Array, np.ndarray]:
        """Eigenvectors a = Xᵀu, shape (d, k), and with the same product their residuals Xᵀr."""
        xp, _ = self._operator.place
        rows, k = space.combine(coordinates), coordinates.shape[1]
        if space.exhausted:
            return _linalg.orthonormal(self._operator.combine_rows(rows).T), np.zeros(k)
        rows = xp.concat([rows, space.combine_pool(outside)], axis=0)
        features = self._operator.combine_rows(rows)
        residuals = _read(xp.linalg.vector_norm(features[k:, :], axis=1))
        return _linalg.orthonormal(features[:k, :].T), residuals


def _padded(classes: Array, draw: Callable[[int], Array], width: int) -> Array:
    """Class rows, and seeded rows up to the width: they catch the large eigenvalues of S_t."""
    n_classes, length = classes.shape
    xp, device = _xp.place_of(classes)
    if n_classes >= length:
        return xp.eye(length, dtype=classes.dtype, device=device)
    missing = min(width, length) - n_classes
    return classes if missing <= 0 else xp.concat([classes, draw(missing).T], axis=0)
