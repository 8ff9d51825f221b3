"""Matrix factorisations, by whichever routine of a library is best."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import array_api_compat as compat
import numpy as np

from .places import Array, place_of
from .threads import LARGE_MATRIX, few_threads, scipy_linalg
from .tracing import is_traced

# The share of all eigenpairs from which on SciPy's driver for some of them is slower than NumPy's
# for all: its eigenvectors are found one by one.
LARGEST_SHARE = 1 / 8
# Rows from which on float32 is factored in float32, by SciPy: NumPy computes in double precision,
# in two to three times the memory.
SINGLE_ROWS = 700
# How much the trace of the inverse of a Gram matrix with a unit diagonal may exceed the number of
# columns, which it has at least: its condition is then below 4.
NEARLY_ORTHOGONAL = 1.0
# Sizes from which CuPy computes half of a symmetric matrix, and torch leaves out a block of it: a
# smaller one costs less than the launches that mirror the rest.
SYRK_FROM, TRIANGLES_FROM = 512, 4096


def add(total: Array | None, term: Array) -> Array:
    """A sum that starts at nothing and takes its terms in place: both belong to the caller."""
    if total is None:
        return term
    total += term
    return total


def gram(rows: Array) -> Array:
    """RᵀR, (m, j) ↦ (j, j)."""
    xp, _ = place_of(rows)
    if rows.shape[1] >= SYRK_FROM and _leaves_out(xp, rows.shape[1]):
        return mirrored(add_gram(None, rows))
    return rows.T @ rows  # one array twice: NumPy calls SYRK, half the work


def column_squares(rows: Array, *, is_own: bool) -> Array:
    """Σ x² of each column, (m, d) ↦ (d,); its own rows may be changed."""
    if isinstance(rows, np.ndarray):
        return np.einsum("ij,ij->j", rows, rows)  # nothing is allocated
    if not is_own:
        rows = rows * rows
    else:
        rows *= rows
    return place_of(rows).xp.sum(rows, axis=0)


def add_gram(total: Array | None, rows: Array) -> Array:
    """Add RᵀR to a total in place, (m, j) ↦ (j, j).

    What lies above the diagonal of the total is complete after `mirrored` only.
    """
    xp, device = place_of(rows)
    is_torch = compat.is_torch_namespace(xp)
    if not (is_torch or compat.is_cupy_namespace(xp)):
        return add(total, gram(rows))
    if total is None:
        size = rows.shape[1]
        total = xp.zeros((size, size), dtype=rows.dtype, device=device)
    if is_torch:
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
        if _is_factored_by_scipy(matrix):
            with few_threads(matrix.shape[0]):
                return scipy_linalg().cholesky(matrix, lower=True, check_finite=False)
        return place_of(matrix).xp.linalg.cholesky(matrix)
    except Exception as error:
        if not _is_linalg_error(error):
            raise
        return None


def solve_upper(factor: Array, right: Array) -> Array:
    """Solve an upper triangular system, (n, n) and (n, k) ↦ (n, k)."""
    if isinstance(factor, np.ndarray):
        with few_threads(factor.shape[0]):
            return scipy_linalg().solve_triangular(factor, right, check_finite=False)
    return place_of(factor).xp.linalg.solve(factor, right)


def qr(matrix: Array) -> tuple[Array, Array]:
    """Orthonormal columns Q, shape (m, k), and triangular R, shape (k, k), of a tall matrix."""
    is_double = isinstance(matrix, np.ndarray) and matrix.dtype == np.float64
    if is_double and matrix.shape[0] > matrix.shape[1] > 1:
        found = _qr_by_gram(matrix)
        if found is not None:
            return found
    # Some SciPys refuse a matrix without columns.
    if _is_factored_by_scipy(matrix) and matrix.shape[1]:
        with few_threads(matrix.shape[1]):
            q, r = scipy_linalg().qr(matrix, mode="economic", check_finite=False)
        return q, r
    q, r = place_of(matrix).xp.linalg.qr(matrix)
    return q, r


def _qr_by_gram(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The same by the Cholesky factor of the Gram matrix, many times as fast; None if inexact.

    Columns that are nearly orthogonal become orthonormal to rounding.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        gram = matrix.T @ matrix
    squares = gram.diagonal()
    info = np.finfo(matrix.dtype)
    if not (info.tiny / info.eps < squares.min() <= squares.max() < np.inf):
        return None
    sizes = np.sqrt(squares)
    try:
        lower = np.linalg.cholesky(gram / np.outer(sizes, sizes))
    except np.linalg.LinAlgError:
        return None
    inverse = np.linalg.inv(lower)
    if not np.square(inverse).sum() <= len(sizes) + NEARLY_ORTHOGONAL:
        return None
    return matrix @ (inverse.T / sizes[:, None]), lower.T * sizes


def _is_factored_by_scipy(matrix: Array) -> bool:
    is_single = isinstance(matrix, np.ndarray) and matrix.dtype == np.float32
    return is_single and matrix.shape[0] > SINGLE_ROWS


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
    eigenvalues : array, shape (k,)
    eigenvectors : array, shape (m, k)
    """
    xp, device = place_of(matrix)
    solve = _eigh_of_numpy(matrix.shape[0], k) if isinstance(matrix, np.ndarray) else None
    values, vectors = eigh(matrix, solve)
    first = values.shape[0] - k
    values, vectors = values[first:], vectors[:, first:]
    if isinstance(matrix, np.ndarray):
        return values[::-1].copy(), vectors[:, ::-1].copy()
    if compat.is_torch_namespace(xp):
        return xp.flip(values), xp.flip(vectors, axis=1)
    # take, not a flipped view: negative strides abort torch when they reach it by DLPack.
    descending = xp.arange(k - 1, -1, -1, device=device)
    return xp.take(values, descending, axis=0), xp.take(vectors, descending, axis=1)


def _eigh_of_numpy(size: int, k: int) -> Callable[..., Any] | None:
    """The fastest eigensolver for the k largest eigenpairs; None for NumPy's."""
    is_some = 0 < k < LARGEST_SHARE * size
    if not is_some and size <= LARGE_MATRIX:
        return None
    # All of them take SciPy three matrices, NumPy four, which are large.
    chosen = {"subset_by_index": (size - k, size - 1)} if is_some else {"driver": "evd"}

    def solve(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with few_threads(size):
            # As exact as NumPy's, which computes in double precision, too.
            exact = matrix.astype(np.float64 if size <= LARGE_MATRIX else matrix.dtype)
            # Near one: LAPACK's driver for some eigenpairs rounds differently in other units.
            exponent = int(np.frexp(np.abs(exact.diagonal()).max())[1])
            np.ldexp(exact, -exponent, out=exact)
            values, vectors = scipy_linalg().eigh(
                exact.T, overwrite_a=True, check_finite=False, **chosen
            )
            values = np.ldexp(values, exponent)
        if is_some and values.shape[0] < k:  # without an error, for NaN
            raise np.linalg.LinAlgError("the eigensolver did not converge")
        return values.astype(matrix.dtype, copy=False), vectors.astype(matrix.dtype, copy=False)

    return solve


def solve_positive(matrix: Array, right: Array) -> Array:
    """Solve a system with a positive definite matrix, (n, n) and (n, k) ↦ (n, k)."""
    if isinstance(matrix, np.ndarray):
        with few_threads(matrix.shape[0]):
            return scipy_linalg().solve(matrix, right, assume_a="pos", check_finite=False)
    return place_of(matrix).xp.linalg.solve(matrix, right)
