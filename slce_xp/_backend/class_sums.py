"""Sums of rows by class: a library's own scatter-add where it is deterministic.

That is so on a CPU. On an accelerator they add by atomic operations, in any order: there, and for
libraries with the standard only, few classes are summed by products with one-hot matrices and many
by a scan of the sorted rows.
"""

from __future__ import annotations

import importlib
from functools import cache, partial
from typing import Any

import array_api_compat as compat
import numpy as np

from .linalg import add
from .places import NUMPY, Array, Place, is_accelerated, jax, place_of
from .precision import itemsize
from .sparse import Sparse, compressed_views
from .tracing import is_traced

# Classes of one product with a one-hot matrix, and classes up to which products are used: they
# take 2·K flops for each number, the scan some log₂(n) readings.
ONE_HOT_CLASSES, MOST_ONE_HOT = 256, 1024
# Rows times codes up to which SciPy's own checks take longer than a product with a one-hot matrix.
SMALLEST_SUM = 2**14
# Rows that are added one after the other: in float32 a million of them would lose three digits.
RUN = 2048


def one_hot(codes: Array, height: int, like: Array) -> Array:
    """Column j marks the samples of code j: (m, height), of the dtype of `like`."""
    xp, device = place_of(codes)
    marks = codes[:, None] == xp.arange(height, dtype=codes.dtype, device=device)[None, :]
    return xp.astype(marks, like.dtype)


def made_by_sums(
    place: Place, width: int, height: int, *, is_sparse: bool, is_copied: bool = False
) -> int:
    """Numbers per row that `sums_by_code` allocates.

    Parameters
    ----------
    is_sparse : bool
        Whether rows are sparse.
    is_copied : bool
        Whether it multiplies or converts the rows.
    """
    if _loops(place):
        return 0
    made = 3 + width * is_copied
    if place == NUMPY or (_adds_rows(place) and not is_sparse):
        return made
    if is_sparse:
        return 3 + min(height, ONE_HOT_CLASSES)
    return made + (min(height, ONE_HOT_CLASSES) if height <= MOST_ONE_HOT else 3 * width)


def sums_by_code(
    rows: Array,
    codes: Array,
    height: int,
    weights: Array | None = None,
    dtype: Any = None,
    *,
    total: Array | None = None,
    confined: bool = False,
) -> Array:
    """Sum rows by code, times weights, with the same bits on every call.

    Parameters
    ----------
    rows : array or Sparse, shape (m, d)
    codes : array of int, shape (m,)
        From 0 to height − 1.
    height : int
    weights : array, shape (m,), optional
    dtype : optional
        Of the sums; that of `rows` by default.
    total : array, shape (height, d), optional
        What the sums are added to, in place if the library can.
    confined : bool
        Whether a NaN or infinity in a row must reach the sums of its own code only.

    Returns
    -------
    array, shape (height, d)
    """
    if dtype is not None and not isinstance(rows, Sparse) and not _loops(place_of(rows)):
        rows = place_of(rows).xp.astype(rows, dtype, copy=False)
    if _adds_rows(place_of(rows)) and not isinstance(rows, Sparse):
        return _add_rows(rows, codes, height, weights, total)
    sums = _sums(rows, codes, height, weights, dtype, confined)
    return sums if total is None else add(total, sums)


def _sums(
    rows: Array, codes: Array, height: int, weights: Array | None, dtype: Any, confined: bool
) -> Array:
    xp, _ = place = place_of(rows)
    if compat.is_jax_namespace(xp) and any(map(is_traced, (rows, codes, weights))):
        # JAX may compile it for any device.
        rows = xp.astype(rows, dtype or rows.dtype)
        cpu, default = (partial(way, height=height) for way in (_loop_of_jax(), _by_standard))
        return jax().lax.platform_dependent(rows, codes, weights, cpu=cpu, default=default)
    if _loops(place):
        return _loop_of_jax()(rows, codes, weights, height, dtype)
    if place == NUMPY and not confined:
        if isinstance(rows, Sparse):
            return rows.sums_by_code(codes, height, weights)
        if len(codes) * height > SMALLEST_SUM:
            values = np.ones(len(codes), rows.dtype) if weights is None else weights
            return np.asarray(_marks(codes, height, values) @ rows)
    if confined and rows.shape[0]:
        return _by_scan(rows, codes, weights, height)
    return _by_standard(rows, codes, weights, height)


# ---------------------------------------------------------------- of libraries


def _marks(codes: np.ndarray, height: int, values: np.ndarray) -> Any:
    """A sparse matrix with one value in each column, in the row of its code: (height, m)."""
    kind = importlib.import_module("scipy.sparse").csc_array
    pointers = np.arange(len(codes) + 1, dtype=np.int32)
    return compressed_views(kind, (values, codes.astype(np.int32), pointers), (height, len(codes)))


def _adds_rows(place: Place) -> bool:
    """Whether torch adds the rows on a CPU, one after the other."""
    return compat.is_torch_namespace(place.xp) and place.device.type == "cpu"


def _add_rows(rows: Any, codes: Any, height: int, weights: Any, total: Any) -> Any:
    xp, device = place_of(rows)
    rows = rows if weights is None else rows * weights[:, None]
    if total is None:
        total = xp.zeros((height, rows.shape[1]), dtype=rows.dtype, device=device)
    if any(map(is_traced, (rows, codes, total))):  # nothing may change in place
        return total.index_add(0, codes, rows)
    return total.index_add_(0, codes, rows)


def _loops(place: Place) -> bool:
    """Whether XLA adds the rows on a CPU."""
    return compat.is_jax_namespace(place.xp) and not is_accelerated(place)


@cache
def _loop_of_jax() -> Any:
    """The sums of blocks of rows, added up: nothing as large as `rows` is allocated."""
    lax, jnp = jax().lax, jax().numpy

    def loop(rows: Any, codes: Any, weights: Any, height: int, dtype: Any = None) -> Any:
        dtype = dtype or rows.dtype
        # Sums of blocks are a small share.
        step = min(max(RUN, 8 * height), rows.shape[0])
        zeros = jnp.zeros((height, rows.shape[1]), dtype)

        def add(total: Any, start: Any, length: int) -> Any:
            part, at = (lax.dynamic_slice_in_dim(a, start, length) for a in (rows, codes))
            part = part.astype(dtype)
            if weights is not None:
                part *= lax.dynamic_slice_in_dim(weights, start, length)[:, None]
            if itemsize(dtype) == 8:
                return total.at[at].add(part)
            # The barrier keeps XLA from adding the rows to the total one by one.
            return total + lax.optimization_barrier(zeros.at[at].add(part))

        whole = rows.shape[0] // max(1, step)
        total = lax.fori_loop(0, whole, lambda i, total: add(total, i * step, step), zeros)
        return add(total, whole * step, rows.shape[0] - whole * step)

    return jax().jit(loop, static_argnames=("height", "dtype"))


# ---------------------------------------------------------------- by the standard


def _by_standard(rows: Array, codes: Array, weights: Array | None, height: int) -> Array:
    is_scanned = height > MOST_ONE_HOT and not isinstance(rows, Sparse) and rows.shape[0]
    return (_by_scan if is_scanned else _by_products)(rows, codes, weights, height)


def _by_products(rows: Array, codes: Array, weights: Array | None, height: int) -> Array:
    """Products with one-hot matrices of some classes at a time."""
    xp, _ = place_of(codes)
    parts = []
    for start in range(0, height, ONE_HOT_CLASSES):
        part = codes - start if start else codes
        marks = one_hot(part, min(ONE_HOT_CLASSES, height - start), rows)
        marks = marks if weights is None else marks * weights[:, None]
        parts.append(rows.adjoint(marks).T if isinstance(rows, Sparse) else marks.T @ rows)
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def _by_scan(rows: Array, codes: Array, weights: Array | None, height: int) -> Array:
    """Sums of 1, 2, 4, … rows up to each one of its class, in the order of classes."""
    xp, device = place_of(codes)
    rows = rows.dense() if isinstance(rows, Sparse) else rows
    rows = rows if weights is None else rows * weights[:, None]
    order = xp.argsort(codes)
    codes, rows = xp.take(codes, order), xp.take(rows, order, axis=0)
    zero, step = xp.zeros((), dtype=rows.dtype, device=device), 1
    while step < rows.shape[0]:
        is_same = (codes[step:] == codes[:-step])[:, None]
        added = rows[step:, :] + xp.where(is_same, rows[:-step, :], zero)
        rows, step = xp.concat([rows[:step, :], added], axis=0), 2 * step
    every = xp.arange(height, dtype=codes.dtype, device=device)
    last = xp.searchsorted(codes, every, side="right") - 1
    last = xp.where(last < 0, xp.zeros_like(last), last)
    has_rows = (xp.take(codes, last) == every)[:, None]
    return xp.where(has_rows, xp.take(rows, last, axis=0), zero)
