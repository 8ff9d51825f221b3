"""Linear algebra on arrays of any library: eigenpairs, signs, orthonormal columns, units."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import _backend, _errors
from .._backend import Array, Place, read
from .._parameters import as_count
from . import _given

EPS = {name: float(np.finfo(name).eps) for name in ("float32", "float64")}
NOT_FACTORED = (
    "the array library could not factor the problem: its eigenvalues are not finite. "
    "Use another form, float64 or NumPy"
)


def eps_of(x: Array) -> float:
    """The spacing of the floating dtype of an array at 1."""
    return EPS[_backend.dtype_name(x.dtype)]


def in_units(values: np.ndarray, exponent: int, place: Place, dtype: Any, name: str) -> Array:
    """Numbers of the host times a power of two, at a place.

    Of a dtype, or of a longer one if that cannot hold them; warns if no dtype can. `name` says of
    what.
    """
    if not exponent and _backend.dtype_name(dtype) == "float64":
        return _backend.from_host(values, place, dtype)
    numbers = scaled(values, exponent)
    if not _holds(dtype, numbers, values):
        dtype = _backend.longest_float(place)
        if not _holds(dtype, numbers, values):
            _warn_of_range(name, _backend.dtype_name(dtype))
    return _backend.from_host(numbers, place, dtype)


def scaled_numbers(values: list[float], exponent: int, name: str) -> list[float]:
    """Numbers times a power of two; warns if float64 cannot hold one."""
    if not exponent:
        return values
    unscaled = np.asarray(values)
    numbers = scaled(unscaled, exponent)
    if not _holds(np.float64, numbers, unscaled):
        _warn_of_range(name, "float64")
    return list(map(float, numbers))


def scaled(values: np.ndarray, exponent: int) -> np.ndarray:
    """Numbers on the host times a power of two, infinite or zero if that is out of range."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(values, exponent))


def _holds(dtype: Any, scaled: np.ndarray, unscaled: np.ndarray) -> bool:
    """Whether a dtype can represent all numbers that were more than rounding of the largest."""
    info, sizes = np.finfo(_backend.dtype_name(dtype)), np.abs(unscaled)
    sizes = np.abs(scaled[sizes > np.finfo(np.float64).eps * sizes.max(initial=0.0)])
    return bool(((sizes >= float(info.smallest_normal)) & (sizes <= float(info.max))).all())


def _warn_of_range(name: str, dtype: str) -> None:
    _errors.warn(
        f"{name} must be within the range of {dtype} to be returned; some are zero or infinite "
        "instead. Components are not affected. Scale X or the weights",
    )


class LargestEigenpairs(NamedTuple):
    """What `largest_eigenpairs` returns, as the standard's ``eigh`` does.

    Attributes
    ----------
    values : array, shape (..., k)
        In descending order.
    vectors : array, shape (..., m, k)
        Orthonormal columns.
    """

    values: Array
    vectors: Array


def largest_eigenpairs(matrix: Array, k: int, /) -> LargestEigenpairs:
    r"""The algebraically largest eigenpairs of a symmetric matrix, or of a stack of matrices.

    .. math:: A v_i = \mu_i v_i, \qquad \mu_1 \ge \dots \ge \mu_k

    Parameters
    ----------
    matrix : array, shape (..., m, m)
        Symmetric, which is not checked.
    k : int
        From 1 to m.

    Returns
    -------
    values : array, shape (..., k)
        In descending order.
    vectors : array, shape (..., m, k)
        Orthonormal columns.

    Notes
    -----
    A few eigenpairs of a NumPy array are found by LAPACK's driver for some of them, all others by
    the library's ``eigh``, whose derivatives they have: NaN or infinite for equal eigenvalues.
    Works under ``jax.jit`` (with `k` static) and ``torch.compile``.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from slce_xp.core import largest_eigenpairs
    >>> values, vectors = largest_eigenpairs(xp.asarray([[2.0, 0.0], [0.0, -5.0]]), 1)
    >>> values
    Array([2.], dtype=array_api_strict.float64)
    """
    matrix = _given.as_floats(matrix, "matrix", stacked=True)
    if matrix.shape[-2] != matrix.shape[-1]:
        raise _errors.invalid("matrix", f"matrix must be square; got shape {tuple(matrix.shape)}")
    k = as_count(k, "k", 1, matrix.shape[-1])
    # LAPACK's drivers return NaN, fewer eigenpairs or an error, as it happens.
    if isinstance(matrix, np.ndarray) and not np.isfinite(matrix).all():
        raise np.linalg.LinAlgError("matrix must be finite; it has NaN or infinity")
    if len(matrix.shape) == 2:
        return LargestEigenpairs(*_backend.largest_eigenpairs(matrix, k))
    xp = _backend.namespace_of(matrix)
    values, vectors = (xp.flip(part, axis=-1) for part in xp.linalg.eigh(matrix))
    return LargestEigenpairs(values[..., :k], vectors[..., :k])


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
    return with_fixed_signs(_given.as_floats(vectors, "vectors"))


def with_fixed_signs(vectors: Array) -> Array:
    """`fix_signs` of floats."""
    xp, device = _backend.place_of(vectors)
    size = xp.abs(vectors)
    nearly = 1.0 - float(xp.finfo(vectors.dtype).eps) ** 0.5
    largest = size >= nearly * xp.max(size, axis=0)
    del size
    first = xp.argmax(xp.astype(largest, xp.int8), axis=0)
    count = vectors.shape[1]
    position = first * count + xp.arange(count, dtype=first.dtype, device=device)
    leading = xp.take(xp.reshape(vectors, (-1,)), position)
    return vectors * (1.0 - 2.0 * xp.astype(leading < 0, vectors.dtype))


def orthonormal_columns(vectors: Array) -> Array:
    """Q of V = Q·R with R_ii ≥ 0: orthonormal columns with the same span, (m, k) ↦ (m, min(m, k)).

    The first column has the direction of the first column of `vectors`, and so on.
    """
    q, r = _backend.qr(vectors)
    xp = _backend.namespace_of(q)
    return xp.where(xp.linalg.diagonal(r) < 0, -q, q)


def read_finite(*arrays: Array) -> list[np.ndarray]:
    """Like `read`, but raise an error for values that are not finite.

    Where NumPy raises, a GPU library returns NaN: from the factor of a matrix that is not
    positive definite, from an eigensolver that did not converge.
    """
    found = read(*arrays)
    for part in found:
        if not np.isfinite(part).all():
            raise np.linalg.LinAlgError(NOT_FACTORED)
    return found
