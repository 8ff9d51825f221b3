"""Matrix factorisations, by whichever routine of a library is best."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, partial
from types import ModuleType
from typing import Any

import array_api_compat as compat
import numpy as np

from slce_xp._backend.places import Array, place_of
from slce_xp._backend.tracing import is_traced

# Size from which SciPy's full eigensolver beats NumPy's: SciPy has a BLAS of its own, whose threads
# compete with NumPy's for a while, so small problems lose by it.
SUBSET_FROM = 400
# Size from which SciPy's driver for some eigenpairs beats both, and the share of all eigenpairs
# from which on it does not: its eigenvectors are found one by one.
SOME_FROM, LARGEST_SHARE = 100, 1 / 6
# Sizes from which CuPy computes half of a symmetric matrix, and torch leaves out a block of it: a
# smaller one costs less than the launches that mirror the rest.
SYRK_FROM, TRIANGLES_FROM = 512, 4096


def gram(rows: Array) -> Array:
    """RᵀR, (m, j) ↦ (j, j)."""
    xp, _ = place_of(rows)
    if rows.shape[1] >= SYRK_FROM and _leaves_out(xp, rows.shape[1]):
        return mirrored(add_gram(None, rows))
    return rows.T @ rows  # one array twice: NumPy calls SYRK, half the work


def adds_in_place(xp: ModuleType) -> bool:
    """Whether `add_gram` allocates nothing in addition to the total."""
    return compat.is_cupy_namespace(xp) or compat.is_torch_namespace(xp)


def add_gram(total: Array | None, rows: Array) -> Array:
    """Add RᵀR to a total in place, (m, j) ↦ (j, j).

    What lies above the diagonal of the total is complete after `mirrored` only.
    """
    xp, device = place_of(rows)
    if not adds_in_place(xp):
        product = gram(rows)
        if total is None:
            return product
        total += product
        return total
    if total is None:
        size = rows.shape[1]
        total = xp.zeros((size, size), dtype=rows.dtype, device=device)
    if compat.is_torch_namespace(xp):
        _add_triangle(total, rows)
    else:
        kind, rows = ("N", rows.T) if rows.T.flags.c_contiguous else ("T", rows)
        blas: Any = importlib.import_module("cupy.cublas")
        blas.syrk(kind, rows, out=total, beta=1.0, lower=True)
    return total


def mirrored(matrix: Array) -> Array:
    """What `add_gram` made, complete; in place."""
    xp, _ = place_of(matrix)
    size = matrix.shape[0]
    if compat.is_torch_namespace(xp):
        _mirror_triangle(matrix)
    elif compat.is_cupy_namespace(xp):
        _mirror_kernel()(size, matrix, size=size * size)
    return matrix


def _leaves_out(xp: ModuleType, size: int) -> bool:
    """Whether `add_gram` leaves out some of a symmetric matrix of this size."""
    if compat.is_torch_namespace(xp):
        return size >= TRIANGLES_FROM
    return compat.is_cupy_namespace(xp)


def _add_triangle(total: Any, rows: Any) -> None:
    """The same by torch, which has no SYRK: blocks on and below the diagonal."""
    size = total.shape[0]
    if size < TRIANGLES_FROM:
        total.addmm_(rows.T, rows)
        return
    half = size // 2
    left, right = rows[:, :half], rows[:, half:]
    _add_triangle(total[:half, :half], left)
    _add_triangle(total[half:, half:], right)
    total[half:, :half].addmm_(right.T, left)


def _mirror_triangle(total: Any) -> None:
    size = total.shape[0]
    if size >= TRIANGLES_FROM:
        half = size // 2
        _mirror_triangle(total[:half, :half])
        _mirror_triangle(total[half:, half:])
        total[:half, half:] = total[half:, :half].T


@cache
def _mirror_kernel() -> Any:
    cupy = importlib.import_module("cupy")
    return cupy.ElementwiseKernel(
        "int64 size",
        "raw T matrix",
        "ptrdiff_t row = i / size, column = i % size;"
        "if (row < column) matrix[i] = matrix[column * size + row];",
        "slce_xp_mirror",
    )


def cholesky(matrix: Array) -> Array | None:
    """The lower factor of a positive definite matrix; None, or NaN on a GPU, if it is not that."""
    try:
        if _is_large_for_numpy(matrix) and matrix.dtype == np.float32:
            linalg = importlib.import_module("scipy.linalg")
            return linalg.cholesky(matrix, lower=True, check_finite=False)
        return place_of(matrix).xp.linalg.cholesky(matrix)
    except Exception as error:
        if not _is_linalg_error(error):
            raise
        return None


def solve_upper(factor: Array, right: Array) -> Array:
    """Solve an upper triangular system, (n, n) and (n, k) ↦ (n, k)."""
    if isinstance(factor, np.ndarray):
        linalg = importlib.import_module("scipy.linalg")
        return linalg.solve_triangular(factor, right, check_finite=False)
    return place_of(factor).xp.linalg.solve(factor, right)


def qr(matrix: Array) -> tuple[Array, Array]:
    """Orthonormal columns Q, shape (m, k), and triangular R, shape (k, k), of a tall matrix."""
    # Some SciPys refuse a matrix without columns.
    if _is_large_for_numpy(matrix) and matrix.dtype == np.float32 and matrix.shape[1]:
        linalg = importlib.import_module("scipy.linalg")
        q, r = linalg.qr(matrix, mode="economic", check_finite=False)
        return q, r
    q, r = place_of(matrix).xp.linalg.qr(matrix)
    return q, r


def _is_large_for_numpy(matrix: Array) -> bool:
    """Whether SciPy is better than NumPy.

    It can compute some eigenpairs only, and all of them with three matrices instead of four. NumPy
    factors float32 in double precision, in two to three times the memory.
    """
    return isinstance(matrix, np.ndarray) and matrix.shape[0] > SUBSET_FROM


def eigh(matrix: Array, solve: Callable[..., Any] | None = None) -> tuple[Array, Array]:
    """All eigenpairs of a symmetric matrix, in ascending order, by the library or by `solve`.

    LAPACK's divide and conquer fails for a few matrices, most of whose eigenvalues are zero but for
    rounding, and Torch's then returns NaN; with rows and columns in the reverse order it does not.
    """
    xp, _ = place_of(matrix)
    solve = solve or xp.linalg.eigh
    try:
        values, vectors = solve(matrix)
        if not _has_nan_of_torch(values):
            return values, vectors
    except Exception as error:
        if not _is_linalg_error(error):
            raise
    values, vectors = solve(xp.flip(matrix))
    return values, xp.flip(vectors, axis=0)


def _has_nan_of_torch(values: Array) -> bool:
    """Whether Torch on a CPU, where that is read at no cost, returned NaN without an error."""
    if is_traced(values):
        return False
    xp, device = place_of(values)
    return compat.is_torch_namespace(xp) and device.type == "cpu" and bool(xp.any(xp.isnan(values)))


def _is_linalg_error(error: Exception) -> bool:
    return type(error).__name__.endswith("LinAlgError")  # each library has its own


def largest_eigenpairs(matrix: Array, k: int) -> tuple[Array, Array]:
    """The algebraically largest eigenpairs of a symmetric matrix, in descending order.

    Parameters
    ----------
    matrix : array, shape (m, m)
    k : int

    Returns
    -------
    eigenvalues : array, shape (j,)
        j = k if only those are computed, j = m if the library computes all anyway.
    eigenvectors : array, shape (m, j)
    """
    xp, device = place_of(matrix)
    m = matrix.shape[0]
    solve = None
    chosen: dict[str, Any] = {}
    if isinstance(matrix, np.ndarray) and m > SOME_FROM and 0 < k < LARGEST_SHARE * m:
        chosen = {"subset_by_index": (m - k, m - 1)}
    elif _is_large_for_numpy(matrix):
        chosen = {"driver": "evd"}
    if chosen:
        linalg = importlib.import_module("scipy.linalg")
        solve = partial(linalg.eigh, check_finite=False, **chosen)
    values, vectors = eigh(matrix, solve)
    # take, not a flipped view: negative strides abort torch when they reach it by DLPack.
    descending = xp.arange(values.shape[0] - 1, -1, -1, device=device)
    return xp.take(values, descending, axis=0), xp.take(vectors, descending, axis=1)


def solve_positive(matrix: Array, right: Array) -> Array:
    """Solve a system with a positive definite matrix, (n, n) and (n, k) ↦ (n, k)."""
    if isinstance(matrix, np.ndarray):
        linalg = importlib.import_module("scipy.linalg")
        return linalg.solve(matrix, right, assume_a="pos", check_finite=False)
    return place_of(matrix).xp.linalg.solve(matrix, right)


def log_normal_cdf(values: np.ndarray) -> np.ndarray:
    """Logarithm of the standard normal distribution function, on the host; exact in its tail."""
    return np.asarray(importlib.import_module("scipy.special").log_ndtr(values))


def incidence(first: np.ndarray, second: np.ndarray, count: int) -> Any:
    """The sparse matrix that subtracts pairs of rows, on the host: (P,), (P,) ↦ (P, count)."""
    sparse = importlib.import_module("scipy.sparse")
    pairs = np.arange(len(first))
    values = np.repeat([1.0, -1.0], len(pairs))
    where = (np.tile(pairs, 2), np.concatenate([first, second]))
    return sparse.csr_array((values, where), shape=(len(pairs), count))
