"""Systems (M + s)X = V with a symmetric M and many shifts s, after one reduction of M.

Eigenvectors of M make all of them diagonal. NumPy arrays are reduced to a tridiagonal matrix
instead, by LAPACK: that is the first step to eigenvectors, and a quarter of their cost.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import numpy as np

from slce_xp._backend.linalg import largest_eigenpairs
from slce_xp._backend.places import Array, namespace_of
from slce_xp._backend.threads import few_threads, scipy_linalg
from slce_xp._backend.transfer import read

# A reduction and tridiagonal systems for 20 shifts cost less than eigenvectors if M has this
# many rows, and so many more for each column of V.
LEAST_ROWS, ROWS_PER_COLUMN = 60, 3
BLOCK_NUMBERS = 2**18  # of solutions for several shifts that are allocated at a time
MOST_REFLECTORS = 64  # that LAPACK may apply at a time
ROWS_PER_REFLECTOR = 6  # fewer of a small matrix


class ShiftedSystems(Protocol):
    """A symmetric M, shape (r, r), and V, shape (r, m), in coordinates where (M + s)⁻¹ is easy.

    Attributes
    ----------
    right : array, shape (r, m)
        V in these coordinates.
    """

    right: Array

    def norms(self) -> tuple[float, float]:
        """The sums of the eigenvalues of M, and of their squares."""

    def eigenvalues(self) -> np.ndarray:
        """The eigenvalues of M, shape (r,), on the host."""

    def traces(self, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Traces of Vᵀ(M + s)⁻¹V, of Vᵀ(M + s)⁻²V and of (M + s)⁻¹: (j,) ↦ (j,), on the host."""

    def solve(self, factor: float, shift: float) -> Array:
        """(f·M + s)⁻¹V in these coordinates, shape (r, m)."""

    def whiten(self, factor: float, shift: float) -> Array:
        """W with WᵀW = Vᵀ(f·M + s)⁻¹V, shape (r, m)."""

    def restore(self, columns: Array) -> Array:
        """Columns in the coordinates of M, (r, p) ↦ (r, p)."""


def shifted_systems(matrix: Array, right: Array) -> ShiftedSystems:
    """Reduce a symmetric matrix, positive semi-definite but for rounding; it is overwritten.

    Parameters
    ----------
    matrix : array, shape (r, r)
    right : array, shape (r, m)
    """
    size, columns = right.shape
    is_large = size >= LEAST_ROWS + ROWS_PER_COLUMN * columns
    if isinstance(matrix, np.ndarray) and is_large:
        return _Tridiagonal(matrix, right)
    return _Diagonal(matrix, right)


class _Diagonal:
    def __init__(self, matrix: Array, right: Array) -> None:
        xp = namespace_of(matrix)
        values, self._vectors = largest_eigenpairs(matrix, matrix.shape[0])
        self.right = self._vectors.T @ right
        self._values = xp.clip(values, 0.0)
        energy = xp.sum(self.right * self.right, axis=1)
        self._host, self._energy = read(self._values, energy)

    def norms(self) -> tuple[float, float]:
        return float(self._host.sum()), float((self._host**2).sum())

    def eigenvalues(self) -> np.ndarray:
        return self._host

    def traces(self, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        inverse = 1.0 / (self._host + shifts[:, None])
        return inverse @ self._energy, (inverse * inverse) @ self._energy, inverse.sum(axis=1)

    def solve(self, factor: float, shift: float) -> Array:
        return self.right / (factor * self._values + shift)[:, None]

    def whiten(self, factor: float, shift: float) -> Array:
        xp = namespace_of(self._values)
        return self.right / xp.sqrt(factor * self._values + shift)[:, None]

    def restore(self, columns: Array) -> Array:
        return self._vectors @ columns


class _Tridiagonal:
    def __init__(self, matrix: np.ndarray, right: np.ndarray) -> None:
        self._dtype = matrix.dtype
        size, kind = len(matrix), self._dtype.char  # "d" or "f"
        prefix = {"d": "d", "f": "s"}[kind]
        self._lapack: Any = importlib.import_module("scipy.linalg.lapack")
        self._apply = getattr(self._lapack, f"{prefix}ormqr")
        reduce = getattr(self._lapack, f"{prefix}sytrd")
        self._block = max(1, min(MOST_REFLECTORS, size // ROWS_PER_REFLECTOR))
        # The transpose, which is in the order of Fortran, is overwritten, not copied.
        with few_threads(size):
            reflectors, diagonal, beside, self._factors, _ = reduce(
                matrix.T, lower=1, lwork=self._block * size, overwrite_a=1
            )
        # Below the diagonal they are those of a QR decomposition of all rows but the first: a view
        # that begins one number later, and has a row too many.
        flat = reflectors.T.reshape(-1)
        self._reflectors = flat[1 : 1 + size * (size - 1)].reshape(size - 1, size).T
        self._diagonal = diagonal.astype(np.float64)
        self._beside = beside.astype(np.float64)
        self.right = self._rotate(right, "T")

    def _rotate(self, columns: np.ndarray, trans: str) -> np.ndarray:
        """Qᵀ or Q times columns, in double precision."""
        rotated = np.array(columns, dtype=self._dtype, order="F")
        if len(rotated) > 1 and rotated.shape[1]:
            rest = np.asfortranarray(rotated[1:])
            work = self._block * (MOST_REFLECTORS + rotated.shape[1])
            with few_threads(len(rotated)):
                rotated[1:], _, _ = self._apply(
                    "L", trans, self._reflectors, self._factors, rest, work, overwrite_c=1
                )
        return rotated.astype(np.float64, copy=False)

    def norms(self) -> tuple[float, float]:
        square = self._diagonal @ self._diagonal + 2.0 * (self._beside @ self._beside)
        return float(self._diagonal.sum()), float(square)

    def eigenvalues(self) -> np.ndarray:
        return np.asarray(scipy_linalg().eigvalsh_tridiagonal(self._diagonal, self._beside))

    def _factored(
        self, shifts: np.ndarray, factor: float = 1.0, *, order: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """LDLᵀ of f·T + s for all shifts, one below the other; of its rows in reverse if −1."""
        # All systems in one, with nothing that couples them.
        diagonal = (factor * self._diagonal[::order] + shifts[:, None]).reshape(-1)
        beside = np.tile(np.append(factor * self._beside[::order], 0.0), len(shifts))[:-1]
        pivots, below, info = self._lapack.dpttrf(diagonal, beside)
        if info:  # the shift is smaller than what rounding subtracted from M
            diagonal -= 2.0 * factor * min(0.0, float(self.eigenvalues().min()))
            pivots, below, _ = self._lapack.dpttrf(diagonal, beside)
        return pivots, below

    def traces(self, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        step = max(1, BLOCK_NUMBERS // max(1, self.right.size))
        parts = [self._some_traces(shifts[i : i + step]) for i in range(0, len(shifts), step)]
        once, twice, inverse = np.concatenate(parts, axis=1)
        return once, twice, inverse

    def _some_traces(self, shifts: np.ndarray) -> np.ndarray:
        count, size = len(shifts), len(self._diagonal)
        pivots, below = self._factored(shifts)
        # In the order of Fortran, which is overwritten, not copied.
        right = self.right.T
        solved, _ = self._lapack.dpttrs(pivots, below, np.tile(right, count).T, overwrite_b=1)
        solved = solved.T.reshape(-1, count, size)
        # The diagonal of the inverse, by the pivots of an elimination from either end.
        others = self._factored(shifts, order=-1)[0].reshape(count, size)[:, ::-1]
        inverse = 1.0 / (pivots.reshape(count, size) + others - self._diagonal - shifts[:, None])
        return np.stack(
            [
                np.einsum("mjr,mr->j", solved, right),
                np.einsum("mjr,mjr->j", solved, solved),
                inverse.sum(axis=1),
            ]
        )

    def solve(self, factor: float, shift: float) -> np.ndarray:
        pivots, below = self._factored(np.array([shift]), factor)
        return np.asarray(self._lapack.dpttrs(pivots, below, self.right)[0])

    def whiten(self, factor: float, shift: float) -> np.ndarray:
        pivots, below = self._factored(np.array([shift]), factor)
        bands = np.stack([np.ones_like(pivots), np.append(below, 0.0)])
        lower = scipy_linalg().solve_banded((1, 0), bands, self.right, check_finite=False)
        return np.asarray(lower / np.sqrt(pivots)[:, None])

    def restore(self, columns: np.ndarray) -> np.ndarray:
        return self._rotate(columns, "N").astype(self._dtype, copy=False)
