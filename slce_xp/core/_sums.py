"""The centroid scatter-add: sums of rows by class."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import _backend
from .._backend import Array, Sparse
from .._parameters import as_count
from . import _given
from ._rows import Rows, open_array

# Classes of one product with a one-hot matrix; more of them are summed in several products.
ONE_HOT_CLASSES = 256


def class_sums(x: Any, codes: Any, n_classes: int, /, *, weights: Any = None) -> Array:
    r"""Sum the rows of each class.

    .. math:: s_j = \sum_{i:\, c_i = j} w_i x_i

    The result is deterministic on every device: no atomic additions. Sums are taken in float64 on a
    CPU. Neither an (n, K) matrix nor a copy of `x` is allocated.

    Parameters
    ----------
    x : array, or sparse matrix of SciPy, CuPy or torch, shape (n, d)
    codes : array of int, shape (n,)
        The class of each row, from 0 to K − 1. Rows with the code K are left out.
    n_classes : int
        K.
    weights : array, shape (n,), optional
        Weight of each row; ones by default.

    Returns
    -------
    array, shape (K, d)
        In the library, on the device and of the floating dtype of `x`. Integers become the
        library's default floating dtype.

    Notes
    -----
    A NaN or infinity in a row of `x` reaches the sums of its own class only, and so does a weight
    that the dtype of the sums cannot hold.

    Works under ``jax.jit`` (with `n_classes` static) and ``torch.compile``: values of `codes` are
    then not checked, and a NaN or infinity reaches its column of the sums of every class.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from slce_xp.core import class_sums
    >>> x = xp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> class_sums(x, xp.asarray([1, 0, 1]), 2)
    Array([[3., 4.],
           [6., 8.]], dtype=array_api_strict.float64)
    """
    x, n_classes = _given.as_matrix(x), as_count(n_classes, "n_classes", 1)
    if _backend.is_traced(x) or _backend.is_traced(codes):
        return _traced_sums(x, codes, n_classes, weights)
    rows = open_array(x, _backend.sums_dtype(x))
    host, weights = _given.as_codes(codes, rows.n, n_classes), _given.as_weights(weights, rows.n)
    xp = rows.place.xp
    with _backend.computing(rows.place):
        sums = _sums_of(rows, host, n_classes, weights)
        if not bool(_backend.to_host(xp.all(xp.isfinite(sums)))):
            sums = _sums_beside_not_finite(x, host, n_classes, weights)
        return xp.astype(sums, _backend.working_dtype(x), copy=False)


def _sums_of(rows: Rows, codes: np.ndarray, n_classes: int, weights: np.ndarray | None) -> Array:
    height = n_classes + bool((codes == n_classes).any())
    term = partial(_sum_term, height, rows.dtype)
    made = rows.d + made_per_row(height)
    return rows.sum(term, made, rows.put_codes(codes), rows.put(weights))[0][:n_classes, :]


def _sum_term(
    height: int, dtype: Any, block: Array, codes: Array, weights: Array | None
) -> tuple[Array]:
    if not isinstance(block, Sparse):
        block = _backend.namespace_of(block).astype(block, dtype, copy=False)
    return (sum_block(block, codes, height, weights),)


def _sums_beside_not_finite(
    x: Array, codes: np.ndarray, n_classes: int, weights: np.ndarray | None
) -> Array:
    """Class sums of which some are NaN or infinite: rows that are not finite are added apart.

    In a product with a one-hot matrix they would reach every class, as 0·NaN is NaN.
    """
    dtype = _backend.sums_dtype(x)
    rows, weights = open_array(x, dtype), np.ones(len(codes)) if weights is None else weights
    with np.errstate(over="ignore"):  # a weight that the dtype of x cannot hold is infinite
        held = weights.astype(_backend.dtype_name(_backend.working_dtype(x)))
    finite = _backend.to_host(rows.join(_finite_term, 2 * rows.d)) & np.isfinite(held)
    kept = np.flatnonzero(finite)
    sums = _sums_of(open_array(x, dtype, kept=kept), codes[kept], n_classes, weights[kept])
    apart = np.zeros((n_classes, rows.d), dtype=_backend.dtype_name(dtype))
    for position in np.flatnonzero(~finite & (codes < n_classes)):
        row = rows.rows(slice(int(position), int(position) + 1))
        row = _backend.to_host(row.dense() if isinstance(row, Sparse) else row)[0]
        row = row.astype(apart.dtype)
        # Infinities of both signs, or times a zero.
        with np.errstate(invalid="ignore", over="ignore"):
            apart[codes[position]] += row * held[position]
    return sums + _backend.from_host(apart, rows.place)


def _finite_term(block: Array) -> tuple[Array]:
    xp = _backend.namespace_of(block)
    block = block.dense() if isinstance(block, Sparse) else block
    return (xp.all(xp.isfinite(block), axis=1),)


def made_per_row(height: int) -> int:
    """Numbers per row that `sum_block` allocates."""
    return 3 + min(height, ONE_HOT_CLASSES)


def sum_block(rows: Array, codes: Array, height: int, weights: Array | None) -> Array:
    """Sum the rows of a block by code, times weights, (m, d) ↦ (height, d)."""
    sums = _backend.sums_by_code(rows, codes, height, weights)
    return _one_hot_sums(rows, codes, height, weights) if sums is None else sums


def _one_hot_sums(rows: Array, codes: Array, height: int, weights: Array | None) -> Array:
    """The same by products with one-hot matrices of some classes at a time."""
    xp, _ = _backend.place_of(codes)
    parts = []
    for start in range(0, height, ONE_HOT_CLASSES):
        part = codes - start if start else codes
        marks = _backend.one_hot(part, min(ONE_HOT_CLASSES, height - start), rows)
        marks = marks if weights is None else marks * weights[:, None]
        parts.append(rows.adjoint(marks).T if isinstance(rows, Sparse) else marks.T @ rows)
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def _traced_sums(x: Array, codes: Array, n_classes: int, weights: Any) -> Array:
    """Class sums with static shapes, whose values cannot be read."""
    xp, _ = _backend.place_of(x)
    _given.check_length(codes, x.shape[0], "codes")
    if weights is not None:
        _given.check_length(weights, x.shape[0], "weights")
    x = xp.astype(x, _backend.working_dtype(x), copy=False)
    return _one_hot_sums(x, codes, n_classes, weights)
