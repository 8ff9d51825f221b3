"""Matrix factorisations, by whichever routine of a library is best."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from slce_xp._backend.places import Array, place_of

# Size from which SciPy's subset driver beats NumPy's full eigensolver: SciPy has a BLAS of its
# own, whose threads compete with NumPy's for a while, so small problems lose by it.
SUBSET_FROM = 400


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
    rounding; with rows and columns in the reverse order it does not.
    """
    xp, _ = place_of(matrix)
    solve = solve or xp.linalg.eigh
    try:
        values, vectors = solve(matrix)
    except Exception as error:
        if not _is_linalg_error(error):
            raise
        values, vectors = solve(xp.flip(matrix))
        vectors = xp.flip(vectors, axis=0)
    return values, vectors


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
    some, solve = 0 < 2 * k < m, None
    if _is_large_for_numpy(matrix):
        chosen = {"subset_by_index": (m - k, m - 1)} if some else {"driver": "evd"}
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
