"""Linear algebra on arrays of any library: eigenpairs, signs, orthonormal columns, units."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from slce_xp import _backend, _errors
from slce_xp._backend import Array, read
from slce_xp._parameters import as_count
from slce_xp.core import given

# An eigenvalue of M = 2·BᵀB − S_t below this many eps of the trace of S_t may be rounding: the
# sums behind it carry a relative error of a few eps, and the trace bounds their norm.
ZERO_EPS = 32.0

# Powers of two that eigenvalues can be multiplied by within the range of the dtype.
MODERATE_EXPONENT = {"float32": 40, "float64": 600}

NOT_FACTORED = (
    "the array library could not factor the problem: its eigenvalues are not finite. "
    "Use another solver=, float64 or backend='numpy'"
)


def add(total: Array | None, term: Array) -> Array:
    """A sum that starts at nothing and takes its terms in place: both belong to the caller."""
    if total is None:
        return term
    total += term
    return total


def gram_of(rows: Array) -> Array:
    """RᵀR, (m, j) ↦ (j, j)."""
    return _backend.gram(rows)


def eps_of(x: Array) -> float:
    """The spacing of the floating dtype of an array at 1."""
    return float(np.finfo(_backend.dtype_name(x.dtype)).eps)


def zero_level(square: float, dtype: Any) -> float:
    """Magnitude up to which an eigenvalue of M may be nothing but rounding.

    Parameters
    ----------
    square : float
        The sum of the squares that M was made of: Σ w ‖z‖².
    dtype : dtype
        Of the array library.
    """
    info = np.finfo(_backend.dtype_name(dtype))
    level = ZERO_EPS * float(info.eps) * square
    if not math.isfinite(level):
        raise _errors.too_large(_backend.dtype_name(dtype))
    # Never zero itself: the Gram form factors with a ridge of this size.
    return max(level, float(info.smallest_normal) / float(info.eps))


def in_units(
    values: Array, exponent: int, dtype: Any, name: str, host: np.ndarray | None = None
) -> Array:
    """Numbers times a power of two: of a dtype, or of a longer one if that cannot hold them.

    Warns if no dtype can; `name` says of what. Values that are known on the host need not be read.
    """
    place = _backend.place_of(values)
    if host is None and abs(exponent) <= MODERATE_EXPONENT[_backend.dtype_name(dtype)]:
        return place.xp.astype(values, dtype, copy=False) * 2.0**exponent
    # Rounded first, as without a large exponent: the unit changes no bit.
    unscaled = read(place.xp.astype(values, dtype, copy=False))[0] if host is None else host
    numbers = scaled(unscaled, exponent)
    if _holds(dtype, numbers, unscaled):
        if host is not None and abs(exponent) <= MODERATE_EXPONENT[_backend.dtype_name(dtype)]:
            return place.xp.astype(values, dtype, copy=False) * 2.0**exponent
        return _backend.from_host(numbers, place, dtype)
    longest = _backend.longest_float(place)
    if not _holds(longest, numbers, unscaled):
        _warn_of_range(name, _backend.dtype_name(longest))
    return _backend.from_host(numbers, place, longest)


def scaled_number(value: float, exponent: int, name: str) -> float:
    """A number times a power of two; warns if float64 cannot hold it."""
    unscaled = np.asarray([value])
    numbers = scaled(unscaled, exponent)
    if not _holds(np.float64, numbers, unscaled):
        _warn_of_range(name, "float64")
    return float(numbers[0])


def scaled(values: np.ndarray, exponent: int) -> np.ndarray:
    """Numbers on the host times a power of two, infinite or zero if that is out of range."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(values, exponent))


def _holds(dtype: Any, scaled: np.ndarray, unscaled: np.ndarray) -> bool:
    """Whether a dtype can represent all numbers that were not zero before they were scaled."""
    info = np.finfo(_backend.dtype_name(dtype))
    sizes = np.abs(scaled[unscaled != 0.0])
    return bool(((sizes >= float(info.smallest_normal)) & (sizes <= float(info.max))).all())


def _warn_of_range(name: str, dtype: str) -> None:
    warnings.warn(
        f"{name} must be within the range of {dtype} to be returned; some are zero or infinite "
        "instead. Components are not affected. Scale X or the weights",
        stacklevel=5,
    )


def largest_eigenpairs(matrix: Array, k: int, /) -> tuple[Array, Array]:
    r"""The algebraically largest eigenpairs of a symmetric matrix.

    .. math:: A v_i = \mu_i v_i, \qquad \mu_1 \ge \dots \ge \mu_k

    Parameters
    ----------
    matrix : array, shape (m, m)
        Symmetric, which is not checked.
    k : int
        From 1 to m.

    Returns
    -------
    values : array, shape (k,)
        In descending order.
    vectors : array, shape (m, k)
        Orthonormal columns.

    Notes
    -----
    A few eigenpairs of a NumPy array are found by LAPACK's driver for some of them, all others by
    the library's ``eigh``. Works under ``jax.jit`` (with `k` static) and ``torch.compile``.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from slce_xp.core import largest_eigenpairs
    >>> values, vectors = largest_eigenpairs(xp.asarray([[2.0, 0.0], [0.0, -5.0]]), 1)
    >>> values
    Array([2.], dtype=array_api_strict.float64)
    """
    matrix = given.as_floats(matrix, "matrix")
    if matrix.shape[0] != matrix.shape[1]:
        raise _errors.invalid("matrix", f"matrix must be square; got shape {tuple(matrix.shape)}")
    k = as_count(k, "k", 1, matrix.shape[0])
    # LAPACK's drivers return NaN, fewer eigenpairs or an error, as it happens.
    if isinstance(matrix, np.ndarray) and not np.isfinite(matrix).all():
        raise np.linalg.LinAlgError("matrix must be finite; it has NaN or infinity")
    values, vectors = _backend.largest_eigenpairs(matrix, k)
    return values[:k], vectors[:, :k]


def fix_signs(vectors: Array, /) -> Array:
    """Make the entry of largest magnitude in each column positive.

    If several entries have the largest magnitude up to rounding, the first decides, so that
    libraries that round differently agree.

    Parameters
    ----------
    vectors : array, shape (m, k)

    Returns
    -------
    array, shape (m, k)

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from slce_xp.core import fix_signs
    >>> fix_signs(xp.asarray([[1.0, 0.5], [-3.0, 2.0]]))
    Array([[-1. ,  0.5],
           [ 3. ,  2. ]], dtype=array_api_strict.float64)
    """
    vectors = given.as_floats(vectors, "vectors")
    xp, device = _backend.place_of(vectors)
    size = xp.abs(vectors)
    nearly = 1.0 - float(xp.finfo(vectors.dtype).eps) ** 0.5
    largest = size >= nearly * xp.max(size, axis=0)
    first = xp.argmax(xp.astype(largest, xp.int8), axis=0)
    is_first = xp.arange(vectors.shape[0], device=device)[:, None] == first[None, :]
    leading = xp.sum(xp.where(is_first, vectors, xp.zeros_like(vectors)), axis=0)
    return xp.where(leading < 0, -vectors, vectors)


def orthonormal_columns(vectors: Array, /) -> Array:
    r"""Orthonormal columns with the same span, by a QR decomposition.

    .. math:: V = Q R, \qquad Q^T Q = I, \quad R_{ii} \ge 0

    Parameters
    ----------
    vectors : array, shape (m, k)
        Linearly independent columns; those beyond the first m are not used.

    Returns
    -------
    array, shape (m, min(m, k))
        Q. Its first column has the direction of the first column of `vectors`, and so on.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from slce_xp.core import orthonormal_columns
    >>> q = orthonormal_columns(xp.asarray([[3.0], [4.0]]))
    >>> xp.round(10 * q)
    Array([[6.],
           [8.]], dtype=array_api_strict.float64)
    """
    vectors = given.as_floats(vectors, "vectors")
    xp, _ = _backend.place_of(vectors)
    q, r = _backend.qr(vectors)
    return xp.where(xp.linalg.diagonal(r) < 0, -q, q)


def splice_null_space(
    values: Array, vectors: Array, positive: int, null: Array
) -> tuple[Array, Array]:
    """Put null-space directions between the positive and the negative eigenpairs.

    Parameters
    ----------
    values : array, shape (j,)
        Eigenvalues beyond rounding, in descending order.
    vectors : array, shape (d, j)
        Their orthonormal eigenvectors.
    positive : int
        How many of them are positive.
    null : array, shape (d, q)
        Directions orthogonal to all samples. Their eigenvalue is zero.

    Returns
    -------
    values : array, shape (j + q,)
    vectors : array, shape (d, j + q)
    """
    xp, device = _backend.place_of(values)
    # Twice is enough: once for the projection, once for what rounding left of it.
    for _ in range(2):
        null = orthonormal_columns(null - vectors @ (vectors.T @ null))
    zeros = xp.zeros(null.shape[1], dtype=values.dtype, device=device)
    return (
        xp.concat([values[:positive], zeros, values[positive:]]),
        xp.concat([vectors[:, :positive], null, vectors[:, positive:]], axis=1),
    )


def read_finite(*arrays: Array) -> list[np.ndarray]:
    """Like `read`, of eigenvalues and the like; refuses what is not finite.

    Where NumPy raises, a GPU library returns NaN: from the factor of a matrix that is not
    positive definite, from an eigensolver that did not converge.
    """
    found = read(*arrays)
    if not all(np.isfinite(part).all() for part in found):
        raise np.linalg.LinAlgError(NOT_FACTORED)
    return found
