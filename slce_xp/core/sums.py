"""The centroid scatter-add: sums of rows by class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, Sparse
from slce_xp._parameters import as_count
from slce_xp.core import given
from slce_xp.core.rows import DenseRows, Rows, SparseRows, open_array

# Up to so many classes are summed by one product with a one-hot matrix.
ONE_HOT_CLASSES = 64
# Sums of so many classes are better not made of each block, most of which has few of them.
MANY_CLASSES = 1024
# More classes are summed in pieces of so many rows in class order.
PIECE_ROWS = 512
# Pieces whose positions go to the device together, in at most 256 KiB.
STAGED_PIECES = 32
# Under a tracing compiler: classes per one-hot product.
TRACED_CLASSES = 256


def class_sums(x: Any, codes: Any, n_classes: int, /, *, weights: Any = None) -> Array:
    r"""Sum the rows of each class.

    .. math:: s_j = \sum_{i:\, c_i = j} w_i x_i

    The result is deterministic on every device: no atomic additions. NumPy's rows are added one
    after the other; elsewhere sums are products with one-hot matrices, of blocks of rows if there
    are few classes and of rows in class order if there are many. Neither an (n, K) matrix nor a
    copy of `x` is allocated.

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
    then not checked, a NaN or infinity reaches its column of the sums of every class, and more
    than 64 classes take time proportional to n·d·K.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from slce_xp.core import class_sums
    >>> x = xp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> class_sums(x, xp.asarray([1, 0, 1]), 2)
    Array([[3., 4.],
           [6., 8.]], dtype=array_api_strict.float64)
    """
    x, n_classes = given.as_matrix(x), as_count(n_classes, "n_classes", 1)
    if _backend.is_traced(x) or _backend.is_traced(codes):
        return _traced_sums(x, codes, n_classes, weights)
    rows = open_array(x)
    host, weights = given.as_codes(codes, rows.n, n_classes), given.as_weights(weights, rows.n)
    with _backend.computing(rows.place):
        sums = _sums_of(rows, host, n_classes, weights)
        xp, _ = rows.place
        if bool(_backend.to_host(xp.all(xp.isfinite(sums)))):
            return sums
        return _sums_beside_not_finite(x, host, n_classes, weights)


def _sums_of(
    rows: DenseRows | SparseRows, codes: np.ndarray, n_classes: int, weights: np.ndarray | None
) -> Array:
    height = n_classes + bool((codes == n_classes).any())
    return sum_rows_by_code(rows, codes, height, weights)[:n_classes, :]


def _sums_beside_not_finite(
    x: Array, codes: np.ndarray, n_classes: int, weights: np.ndarray | None
) -> Array:
    """Class sums of which some are NaN or infinite: rows that are not finite are added apart.

    In a product with a one-hot matrix they would reach every class, as 0·NaN is NaN.
    """
    rows = open_array(x)
    weights = np.ones(rows.n) if weights is None else weights
    with np.errstate(over="ignore"):  # a weight that the dtype of x cannot hold is infinite
        finite = rows.finite_rows() & np.isfinite(
            weights.astype(_backend.dtype_name(rows.dtype), copy=False)
        )
    kept = np.flatnonzero(finite)
    sums = _sums_of(open_array(x, kept=kept), codes[kept], n_classes, weights[kept])
    apart = np.zeros((n_classes, rows.d), dtype=_backend.dtype_name(rows.dtype))
    others = np.flatnonzero(~finite & (codes < n_classes))
    length = rows.block_length(rows.d)
    for part in np.array_split(others, -(-len(others) // length) or 1):
        values = rows.dense_on_host(part)
        # Infinities of both signs, or times a zero; weights as above.
        with np.errstate(invalid="ignore", over="ignore"):
            np.add.at(apart, codes[part], values * weights[part, None].astype(values.dtype))
    return sums + _backend.from_host(apart, rows.place)


def sum_rows_by_code(
    rows: DenseRows | SparseRows, codes: np.ndarray, height: int, weights: np.ndarray | None
) -> Array:
    """Sum the rows of each code, times their weights, (n, d) ↦ (height, d)."""
    if is_by_block(rows, height):
        on_device = rows.put_codes(codes), rows.put(weights)

        def kernel(block: Array, codes: Array, weights: Array | None) -> tuple[Array]:
            return (sum_block(block, codes, height, weights),)

        return rows.map_rows(kernel, made_per_row(rows, height), *on_device)[0]
    return sum_many(rows, codes, height, weights)


def is_by_block(rows: Rows, height: int) -> bool:
    """Whether codes are summed block by block, with all else that a pass adds up."""
    if _is_apart(rows, height):
        return False
    return _backend.adds_by_code(rows.place) or _is_few(height, rows.d, rows.is_sparse)


def _is_apart(rows: Rows, height: int) -> bool:
    """Whether there are so many codes that a block should add to the sums of its own only."""
    is_dense = isinstance(rows, DenseRows) and _backend.adds_by_code(rows.place)
    return is_dense and MANY_CLASSES <= height <= rows.n


def _is_few(height: int, d: int, is_sparse: bool) -> bool:
    """Whether codes are summed by a one-hot product.

    It costs more with every class. Sparse rows cannot be gathered everywhere; columns, which can,
    cost more with every feature.
    """
    return height <= max(ONE_HOT_CLASSES + 1, d if is_sparse else 0)


def made_per_row(rows: Rows, height: int) -> int:
    """Numbers per row that `sum_block` allocates."""
    if _backend.adds_by_code(rows.place):
        # Codes, pointers and values, and a one-hot matrix of the few classes that may be summed so.
        return 3 + (2 * height if height <= _backend.FEW_CODES else 0)
    # A one-hot matrix, its mask and its copy.
    return height * (2 if rows.is_sparse else 1) + -(-height // 4)


def one_hot(codes: Array, height: int, like: Array) -> Array:
    """Row j marks the samples of code j: (height, n), on the device and of the dtype of `like`."""
    xp, device = _backend.place_of(like)
    return xp.astype(xp.arange(height, device=device)[:, None] == codes[None, :], like.dtype)


def sum_block(
    rows: Array, codes: Array, height: int, weights: Array | None, scale: float = 1.0
) -> Array:
    """Sum the rows of a block by code, times weights and scale, (m, d) ↦ (height, d)."""
    before, after = larger_first(scale)
    sums = _backend.sums_by_code(rows, codes, height, weights, before)
    if sums is not None:
        return scaled(sums, after)
    if _is_few(height, rows.shape[1], isinstance(rows, Sparse)):
        marks = one_hot(codes, height, rows)
        return scaled_product(marks if weights is None else marks * weights, rows, scale)
    host = None if weights is None else _backend.to_host(weights)
    return sum_many(open_array(rows), _backend.to_host(codes), height, host, scale=scale)


def sum_many(
    rows: DenseRows | SparseRows,
    codes: np.ndarray,
    height: int,
    weights: np.ndarray | None,
    shift: Array | None = None,
    scale: float = 1.0,
) -> Array:
    """Sum scale·(rows − shift) by very many codes; sparse rows are not shifted."""
    if isinstance(rows, DenseRows) and _is_apart(rows, height):
        return _sum_codes_of_blocks(rows, codes, height, weights, shift, scale)
    # The codes that there are, then zeros for all others.
    present, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    if isinstance(rows, SparseRows):
        sums = _sum_columns(rows, codes, counts, weights, scale)
    else:
        sums = _sum_in_class_order(rows, codes, counts, shift, weights, scale)
    return sums if len(present) == height else placed(sums, present, height)


def scaled_product(left: Array, rows: Array, scale: float) -> Array:
    """Multiply left by scale·rows, a factor before and one after: neither overflows."""
    before, after = larger_first(scale)
    return scaled(times(left, before) @ rows, after)


def larger_first(scale: float) -> tuple[float, float]:
    """Factors before and after a product with weights: small ones of them do not underflow."""
    factors = _backend.factors_of(scale)
    return max(factors), min(factors)


def times(values: Array, factor: float) -> Array:
    """Values times a factor: a copy, unless it is 1."""
    return values if factor == 1.0 else values * factor


def scaled(values: Array, factor: float) -> Array:
    """The same in place: values belong to the caller."""
    if factor != 1.0:
        values *= factor
    return values


def placed(rows: Array, positions: np.ndarray, height: int) -> Array:
    """Rows at their positions among `height` rows, zeros elsewhere: (j, ...) ↦ (height, ...)."""
    place = _backend.place_of(rows)
    xp, device = place
    nothing = xp.zeros((1, *rows.shape[1:]), dtype=rows.dtype, device=device)
    index = np.full(height, rows.shape[0])
    index[positions] = np.arange(rows.shape[0])
    return xp.take(xp.concat([rows, nothing], axis=0), _backend.from_host(index, place), axis=0)


def _sum_codes_of_blocks(
    rows: DenseRows,
    codes: np.ndarray,
    height: int,
    weights: np.ndarray | None,
    shift: Array | None,
    scale: float,
) -> Array:
    """Class sums by blocks of rows, each of which adds to the sums of the codes it has."""
    xp, device = rows.place
    if shift is None and rows.are_views:
        return sum_block(rows.whole(), codes, height, rows.put(weights), scale)
    total = xp.zeros((height, rows.d), dtype=rows.dtype, device=device)
    with rows.reading(0 if shift is None else rows.d) as blocks:
        for block, data in blocks:
            present, local = np.unique(codes[block], return_inverse=True)
            weighted = None if weights is None else rows.put(weights[block])
            data = data if shift is None else data - shift
            _backend.add_rows(total, present, sum_block(data, local, len(present), weighted, scale))
    return total


def _sum_in_class_order(
    rows: DenseRows,
    codes: np.ndarray,
    counts: np.ndarray,
    shift: Array | None,
    weights: np.ndarray | None,
    scale: float,
) -> Array:
    """Class sums without an n × K matrix: rows are gathered class by class.

    A piece is a run of whole classes with at most `length` rows, or a part of one larger
    class; its one-hot matrix is no larger than length × length whatever K is. Pieces are
    padded to few distinct shapes, which spares compiling backends a program per piece.
    """
    xp, _ = rows.place
    length = max(2, min(PIECE_ROWS, rows.block_length(rows.d)))  # 1 would never end
    order = np.argsort(codes, kind="stable")
    partial_sums = []
    owners = []  # the class of each useful row of the partial sums
    useful = []  # and its position among them all
    height = 0
    pieces = [order[start:stop] for start, stop in _pieces(counts, length)]
    for i, members in enumerate(pieces):
        if i % STAGED_PIECES == 0:  # one upload for many, each of which a GPU would wait for
            staged = _staged(pieces[i : i + STAGED_PIECES], length, codes, weights, rows)
        positions, local, weighted = (x if x is None else x[i % STAGED_PIECES, :] for x in staged)
        first = codes[members[0]]
        n_classes = int(codes[members[-1]] - first) + 1
        width = 1 << (n_classes - 1).bit_length()
        block = rows.gather(positions)
        block = block if shift is None else block - shift
        marks = one_hot(local, width, block)
        if weighted is not None:
            marks = marks * weighted
        partial_sums.append(scaled_product(marks, block, scale))
        owners.append(np.arange(first, first + n_classes))
        useful.append(np.arange(height, height + n_classes))
        height += width
    index = _backend.from_host(np.concatenate(useful), rows.place)
    sums = xp.take(xp.concat(partial_sums, axis=0), index, axis=0)
    owner = np.concatenate(owners)
    if owner.shape[0] == counts.shape[0]:
        return sums
    # Large classes came in parts: sum the parts, which are far fewer than the rows.
    return _sum_in_class_order(DenseRows(sums), owner, np.bincount(owner), None, None, 1.0)


def _staged(
    pieces: list[np.ndarray],
    length: int,
    codes: np.ndarray,
    weights: np.ndarray | None,
    rows: DenseRows,
) -> tuple[Array, Array, Array | None]:
    """Rows of each piece, their classes within it and their weights, on the device.

    Each of shape (pieces, length), padded by the first row with a class that there is not.
    """
    index = np.zeros((2, len(pieces), length), dtype=np.int64)
    index[1] = length
    weighted = None if weights is None else np.zeros((len(pieces), length))
    for i, members in enumerate(pieces):
        index[:, i, : len(members)] = members, codes[members] - codes[members[0]]
        if weights is not None and weighted is not None:
            weighted[i, : len(members)] = weights[members]
    there = _backend.from_host(index, rows.place)
    return there[0, ...], there[1, ...], None if weighted is None else rows.put(weighted)


def _sum_columns(
    rows: SparseRows,
    codes: np.ndarray,
    counts: np.ndarray,
    weights: np.ndarray | None,
    scale: float,
) -> Array:
    """The same for sparse data with more classes than features: some dense columns at a time."""
    xp, _ = rows.place
    whole, width = rows.rows(slice(0, rows.n)), rows.block_length(rows.n)
    parts = []
    for start in range(0, rows.d, width):
        columns = DenseRows(whole.columns(start, width).T)
        parts.append(_sum_in_class_order(columns, codes, counts, None, weights, scale))
    return xp.concat(parts, axis=1)


def _pieces(counts: np.ndarray, length: int) -> Iterator[tuple[int, int]]:
    """Cut the rows in class order: whole classes up to `length` rows, or parts of one."""
    ends = np.cumsum(counts)
    start = 0
    while start < ends[-1]:
        whole = np.searchsorted(ends, start + length, side="right")  # classes that end in reach
        if whole and ends[whole - 1] > start:
            stop = int(ends[whole - 1])
        else:
            stop = start + length  # the class at `start` is larger than a piece
        yield start, stop
        start = stop


def _traced_sums(x: Array, codes: Array, n_classes: int, weights: Any) -> Array:
    """Class sums with static shapes, whose values cannot be read."""
    xp, device = _backend.place_of(x)
    given.check_length(codes, x.shape[0], "codes")
    if weights is not None:
        given.check_length(weights, x.shape[0], "weights")
    x = xp.astype(x, _backend.working_dtype(x), copy=False)
    parts = []
    for start in range(0, n_classes, TRACED_CLASSES):
        labels = xp.arange(start, min(start + TRACED_CLASSES, n_classes), device=device)
        marks = xp.astype(labels[:, None] == codes[None, :], x.dtype)
        parts.append((marks if weights is None else marks * weights) @ x)
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


@dataclass(frozen=True)
class ColumnSquares:
    """Σ w z² of each column over a block of rows, shape (1, d); a worker may be sent it.

    Attributes
    ----------
    shift : array, shape (d,), or None
    offset : array, shape (d,)
        The mean after the shift. Sparse rows are neither shifted nor centred.
    scale : float
        Factor of the rows: a power of two.
    """

    shift: Array | None
    offset: Array
    scale: float

    def of_columns(self, columns: slice) -> ColumnSquares:
        """The same for rows that have some of the columns only."""
        shift = None if self.shift is None else self.shift[columns]
        return replace(self, shift=shift, offset=self.offset[columns])

    def __call__(self, rows: Array, weights: Array | None) -> tuple[Array]:
        """Sum over a block of rows, with their weights."""
        xp, device = _backend.place_of(rows)
        if isinstance(rows, Sparse):
            squares = (rows if self.scale == 1.0 else rows * self.scale).squared()
            if weights is None:
                weights = xp.ones(rows.shape[0], dtype=rows.dtype, device=device)
            return (weights[None, :] @ squares,)
        rows = (rows if self.shift is None else rows - self.shift) - self.offset
        if self.scale != 1.0:
            rows *= self.scale
        rows *= rows
        total = xp.sum(rows, axis=0) if weights is None else weights @ rows
        return (total[None, :],)
