"""The centroid scatter-add: sums of rows by class."""

from __future__ import annotations

import math
from typing import Any

from .. import _backend
from .._backend import Array
from .._parameters import as_count
from . import _given
from ._rows import BlockRows, rows_of


def class_sums(x: Any, codes: Any, n_classes: int, /, *, weights: Any = None) -> Array:
    r"""Sum the rows of each class.

    .. math:: s_j = \sum_{i:\, c_i = j} w_i x_i

    Each library's own scatter-add is used where it is deterministic: the same call returns the same
    bits on every device. Sums are taken in float64 on a CPU. Neither an (n, K) matrix nor a copy of
    `x` is allocated.

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
    A NaN or infinity in a row of `x` reaches the sums of its own class only.

    Differentiable in `x` and `weights`, and works under ``jax.jit``, ``jax.vmap`` (with `n_classes`
    static), ``torch.compile`` and ``torch.func``. Values of `codes` and `weights` are not checked
    then, `x` may be copied, and on an accelerator a NaN reaches its column of every class.

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
    dtype = _backend.sums_dtype(x)
    if any(map(_backend.is_traced, (x, codes, weights))):
        return _traced_sums(x, codes, n_classes, weights, dtype)
    rows = rows_of(x)
    host = _given.as_codes(codes, rows.n, n_classes)
    height = n_classes + bool(host.max(initial=0) == n_classes)
    host_weights = _given.as_weights(weights, rows.n)
    xp = rows.place.xp
    made = _backend.made_by_sums(
        rows.place,
        rows.d,
        height,
        is_sparse=rows.is_sparse,
        is_copied=weights is not None or x.dtype != dtype,
    )
    with _backend.computing(rows.place):
        given = rows.put_codes(host), _given.put_weights(weights, host_weights, rows)
        sums = _sums_of(rows, made, height, *given)
        if not math.isfinite(_backend.to_host(xp.sum(sums))):  # once more, each class apart
            sums = _sums_of(rows, made + 4 * rows.d, height, *given, confined=True)
        return xp.astype(sums[:n_classes, :], _backend.working_dtype(x), copy=False)


def _sums_of(
    rows: BlockRows,
    made: int,
    height: int,
    codes: Array,
    weights: Array | None,
    *,
    confined: bool = False,
) -> Array:
    total = None
    with rows.reading(made) as blocks:
        for block, part in blocks:
            of_block = None if weights is None else weights[block]
            total = _backend.sums_by_code(
                part, codes[block], height, of_block, rows.dtype, total=total, confined=confined
            )
    return total


def _traced_sums(x: Array, codes: Any, n_classes: int, weights: Any, dtype: Any) -> Array:
    """Class sums of arrays whose values cannot be read."""
    xp, _ = place = _backend.place_of(x)
    codes = _given.as_traced(codes, "codes", x.shape[0], place)
    if weights is not None:
        weights = _given.as_traced(weights, "weights", x.shape[0], place)
        weights = xp.astype(weights, dtype, copy=False)

    def function() -> Array:
        sums = _backend.sums_by_code(x, codes, n_classes + 1, weights, dtype)
        return xp.astype(sums[:n_classes, :], _backend.working_dtype(x), copy=False)

    return _backend.call_traced(function, x, codes, weights)
