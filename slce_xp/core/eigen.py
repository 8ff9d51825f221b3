"""Small linear algebra on arrays of any library: it knows matrices, not labels."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from slce_xp import _backend, _errors
from slce_xp._backend import Array, read

# An eigenvalue of M = 2·BᵀB − S_t below this many eps of the trace of S_t may be rounding: the
# sums behind it carry a relative error of a few eps, and the trace bounds their norm.
ZERO_EPS = 32.0

# Powers of two that eigenvalues can be multiplied by within the range of the dtype.
MODERATE_EXPONENT = {"float32": 40, "float64": 600}


def add(total: Array | None, term: Array) -> Array:
    """A sum that starts at nothing and takes its terms in place: both belong to the caller."""
    if total is None:
        return term
    total += term
    return total


def gram_of(rows: Array) -> Array:
    """RᵀR, (m, j) ↦ (j, j)."""
    return rows.T @ rows  # one array twice: NumPy calls SYRK, half the work


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
    unscaled = read(values)[0] if host is None else host
    scaled = _scaled(unscaled, exponent)
    if _holds(dtype, scaled, unscaled):
        if host is not None and abs(exponent) <= MODERATE_EXPONENT[_backend.dtype_name(dtype)]:
            return place.xp.astype(values, dtype, copy=False) * 2.0**exponent
        return _backend.from_host(scaled, place, dtype)
    longest = _backend.longest_float(place)
    if not _holds(longest, scaled, unscaled):
        _warn_of_range(name, _backend.dtype_name(longest))
    return _backend.from_host(scaled, place, longest)


def scaled_number(value: float, exponent: int, name: str) -> float:
    """A number times a power of two; warns if float64 cannot hold it."""
    unscaled = np.asarray([value])
    scaled = _scaled(unscaled, exponent)
    if not _holds(np.float64, scaled, unscaled):
        _warn_of_range(name, "float64")
    return float(scaled[0])


def _scaled(values: np.ndarray, exponent: int) -> np.ndarray:
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


def fix_signs(vectors: Array) -> Array:
    """Make the entry of largest magnitude in each column positive.

    Of several entries that are largest but for rounding the first decides, so that
    backends which round differently agree.
    """
    xp, device = _backend.place_of(vectors)
    size = xp.abs(vectors)
    nearly = 1.0 - float(xp.finfo(vectors.dtype).eps) ** 0.5
    largest = size >= nearly * xp.max(size, axis=0)
    first = xp.argmax(xp.astype(largest, xp.int8), axis=0)
    is_first = xp.arange(vectors.shape[0], device=device)[:, None] == first[None, :]
    leading = xp.sum(xp.where(is_first, vectors, xp.zeros_like(vectors)), axis=0)
    return xp.where(leading < 0, -vectors, vectors)


def orthonormal_columns(vectors: Array, /) -> Array:
    """Orthonormal columns by QR, each with the direction of the column it came from."""
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
        raise np.linalg.LinAlgError(
            "the array library could not factor the problem: its eigenvalues are not finite. "
            "Use another solver=, float64 or backend='numpy'"
        )
    return found
