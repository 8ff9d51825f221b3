"""Class statistics of the data, as sums over rows.

One pass gives the counts, the K × d class sums (the centroid scatter-add) and, where
the plan calls for it, the d × d second moment. All three are taken about a shift, so
that data far from the origin lose no digits when they are centred afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from slce_xp import _validate, _xp
from slce_xp._labels import Labels
from slce_xp._linalg import gram_of, placed, read
from slce_xp._plan import ONE_HOT_CLASSES
from slce_xp._source import ArraySource, SparseSource, open_source
from slce_xp._xp import Array, Sparse

# Rows per piece of the ordered scatter-add: its one-hot matrices are this size squared.
PIECE_ROWS = 512
# A mean much larger than the spread costs accuracy when it is subtracted after the sums; then
# it is subtracted from each block before. The ratio of their squares that is still harmless:
# for second moments, where it is the loss itself, and for float64 sums, where its root is.
SAFE_OFFSET_SQUARES = 4.0
SAFE_OFFSET_SUMS = 1e4
# Rows looked at to decide that.
PROBE_ROWS = 64


@dataclass(frozen=True)
class Moments:
    """Additive statistics about a shift.

    Attributes
    ----------
    weight : float
        Σ w over all samples: their number where none has a weight.
    weights : array, shape (K,), floating
        The same for each class.
    shift : array, shape (d,), or None
        None stands for zero.
    sums : array, shape (K, d)
        Σ w (x − shift) over the samples of each class.
    rest : array, shape (d,), or None
        The same over samples of no class.
    second : array, shape (d, d), or None
        Σ s w (x − shift)(x − shift)ᵀ over all samples, with s = 1, or −λ without a label.
    mean_square : float
        About ‖mean‖²: subtracting the mean rounds even where the data are constant.
    rest_square : array, shape (), or None
        Σ w ‖x − shift‖² over samples without a label; None where all have one.
    rest_weight : float
        Σ w over samples of no class.
    unlabeled_weight : float
        λ, what the reconstruction of samples without a label counts.
    """

    weight: float
    weights: Array
    shift: Array | None
    sums: Array
    rest: Array | None
    second: Array | None
    mean_square: float
    rest_square: Array | None = None
    rest_weight: float = 0.0
    unlabeled_weight: float = 1.0

    @cached_property
    def offset(self) -> Array:
        """The mean, seen from the shift."""
        xp, _ = _xp.place_of(self.sums)
        total = xp.sum(self.sums, axis=0)
        return (total if self.rest is None else total + self.rest) / self.weight

    def shifted(self, rows: Array) -> Array:
        """Rows seen from the shift."""
        return _shifted(rows, self.shift)

    @cached_property
    def mean(self) -> Array:
        """The mean of all samples, shape (d,)."""
        return self.offset if self.shift is None else self.shift + self.offset

    @property
    def centroids(self) -> Array:
        """The class means, shape (K, d)."""
        centroids = self.sums / self.weights[:, None]
        return centroids if self.shift is None else self.shift + centroids

    @property
    def between(self) -> Array:
        """B, shape (K, d), rows √W_j (c_j − m): the between-class scatter is BᵀB."""
        xp, _ = _xp.place_of(self.sums)
        root = xp.sqrt(self.weights)[:, None]
        return self.sums / root - root * self.offset

    @property
    def rest_scatter(self) -> Array:
        """Σ w ‖x − m‖² over the samples without a label."""
        xp, _ = _xp.place_of(self.sums)
        cross = xp.sum(self.rest * self.offset)
        square = xp.sum(self.offset * self.offset)
        return self.rest_square - 2.0 * cross + self.rest_weight * square


def class_moments(source: ArraySource, labels: Labels, *, second: bool = False) -> Moments:
    """One pass over X."""
    xp, _ = source.place
    n_classes = len(labels.classes)
    shift, mean_square = _find_shift(source, second)
    sums, total, rest_square = _sums(source, labels, labels.weights, shift, second)
    # Any NaN or infinity in X reaches the sums, so finite sums prove a finite X.
    if not bool(_xp.to_host(xp.all(xp.isfinite(sums)))):
        source.raise_if_not_finite()
        raise _validate.too_large(_xp.dtype_name(source.dtype))
    weights = labels.counts
    if labels.has_others or labels.weights is not None:
        weights = np.bincount(labels.codes, labels.weights, minlength=labels.height)
    return Moments(
        float(weights.sum()),
        _xp.from_host(weights[:n_classes], source.place, source.dtype),
        shift,
        sums if labels.height == n_classes else sums[:n_classes, :],
        None if labels.height == n_classes else sums[n_classes, :],
        total,
        mean_square,
        rest_square,
        float(labels.rest_weights.sum()) if labels.has_others else 0.0,
        labels.unlabeled_weight,
    )


def sum_by_class(source: ArraySource, labels: Labels, weights: np.ndarray | None) -> Array:
    """Sum the rows of each class, times their weights, (n, d) ↦ (K, d)."""
    return _sums(source, labels, weights, None, second=False)[0][: len(labels.classes), :]


def _find_shift(source: ArraySource, second: bool) -> tuple[Array | None, float]:
    """A point near the data if they lie far from the origin, else None; and how far they lie."""
    xp, _ = source.place
    if source.is_sparse:  # a shift would fill it
        return None, source.mean_square()
    probe = source.probe(PROBE_ROWS)
    mean = xp.mean(probe, axis=0)
    squares = read(xp.sum(mean * mean), xp.sum(probe * probe) / probe.shape[0])
    offset, square = map(float, squares)
    # NaN compares false: such data are reported by the sums.
    double = _xp.dtype_name(source.dtype) == "float64"
    safe = SAFE_OFFSET_SUMS if double and not second else SAFE_OFFSET_SQUARES
    return (mean if offset > safe * (square - offset) else None), offset


def _shifted(rows: Array, shift: Array | None) -> Array:
    return rows if shift is None else rows - shift


def _sums(
    source: ArraySource,
    labels: Labels,
    weights: np.ndarray | None,
    shift: Array | None,
    second: bool,
) -> tuple[Array, Array | None, Array | None]:
    """Sums by code, the second moment, and the squares of samples without a label."""
    squared = labels.n_unlabeled > 0 and weights is labels.weights
    # In memory the rows of very many classes are gathered from all over X.
    few = _is_few(labels.height, source.d, source.is_sparse)
    apart = source.in_memory and not few
    scale = source.put(labels.scatter_weights) if second else None
    rest = source.put(labels.rest_weights) if squared else None
    kernel = _BlockSums(0 if apart else labels.height, shift, second, source.block_length(1))
    made = source.d * ((shift is not None) + squared + (scale is not None))
    sums = total = squares = None
    if not apart or second or squared:
        # Very many codes are sorted on the host, block by block: they need not travel.
        codes, row_weights = (None, None) if apart else (labels.codes, weights)
        if few:
            codes, row_weights = source.put_codes(labels.codes), source.put(weights)
        made += 0 if apart else labels.height + -(-labels.height // 4)  # one-hot rows and a mask
        sums, total, squares = source.map_rows(kernel, made, codes, row_weights, scale, rest)
    if apart:
        sums = _sums_by_code(source, labels.codes, labels.height, shift, weights)
    return sums, total, squares


def _is_few(height: int, d: int, is_sparse: bool) -> bool:
    # A one-hot product costs more with every class; sparse rows cannot be gathered everywhere,
    # and columns, which can, cost more with every feature.
    return height <= max(ONE_HOT_CLASSES + 1, d if is_sparse else 0)


@dataclass(frozen=True)
class _BlockSums:
    """What a block of rows adds to the statistics; a class, for it may be sent to a worker.

    Attributes
    ----------
    height : int
        Codes to sum by; 0 for none.
    shift : array, shape (d,), or None
    second : bool
        Whether to add up the second moment.
    made : int
        Numbers that may be made of sparse rows at a time, which that takes as dense columns.
    """

    height: int
    shift: Array | None
    second: bool
    made: int

    def of_columns(self, columns: slice) -> _BlockSums:
        """The same for rows that have some of the columns only."""
        return self if self.shift is None else replace(self, shift=self.shift[columns])

    def __call__(
        self,
        rows: Array,
        codes: Array | None,
        weights: Array | None,
        scale: Array | None,
        rest: Array | None,
    ) -> tuple[Array | None, Array | None, Array | None]:
        rows = _shifted(rows, self.shift)
        sums = total = squares = None
        if self.height:
            sums = self._sum_codes(rows, codes, weights)
        if self.second:
            total = _weighted_gram(rows, scale, self.made)
        if rest is not None:
            squares = _xp.place_of(rows).xp.sum(_row_squares(rows) * rest)
        return sums, total, squares

    def _sum_codes(self, rows: Array, codes: Array, weights: Array | None) -> Array:
        is_sparse = isinstance(rows, Sparse)
        if _is_few(self.height, rows.shape[1], is_sparse):
            hot = one_hot(codes, self.height, rows)
            return (hot if weights is None else hot * weights) @ rows
        # The classes that this block has, then zeros for all others.
        present, local = np.unique(_xp.to_host(codes), return_inverse=True)
        host = None if weights is None else _xp.to_host(weights)
        sums = _sums_by_code(open_source(rows), local, present.shape[0], None, host)
        return placed(sums, present, self.height)


def _sums_by_code(
    source: ArraySource,
    codes: np.ndarray,
    height: int,
    shift: Array | None,
    weights: np.ndarray | None,
) -> Array:
    """The same for very many codes, from rows in memory."""
    counts = np.bincount(codes, minlength=height)
    if isinstance(source, SparseSource):
        return _sum_columns(source, codes, counts, weights)
    return _sum_in_class_order(source, codes, counts, shift, weights)


def _row_squares(rows: Array) -> Array:
    if isinstance(rows, Sparse):
        return rows.row_squares()
    return _xp.place_of(rows).xp.sum(rows * rows, axis=1)


def _weighted_gram(rows: Array, weights: Array | None, made: int) -> Array:
    if isinstance(rows, Sparse):
        return rows.gram(weights, max(1, made // max(1, rows.shape[0])))
    return gram_of(rows) if weights is None else rows.T @ (rows * weights[:, None])


def one_hot(codes: Array, height: int, like: Array) -> Array:
    """Row j marks the samples of code j, shape (height, n), where and of the dtype of `like`."""
    xp, device = _xp.place_of(like)
    return xp.astype(xp.arange(height, device=device)[:, None] == codes[None, :], like.dtype)


# ---------------------------------------------------------------- many classes


def _sum_in_class_order(
    source: ArraySource,
    codes: np.ndarray,
    counts: np.ndarray,
    shift: Array | None,
    weights: np.ndarray | None,
) -> Array:
    """Class sums without an n × K matrix: rows are gathered class by class.

    A piece is a run of whole classes with at most `length` rows, or a part of one larger
    class; its one-hot matrix is no larger than length × length whatever K is. Pieces are
    padded to few distinct shapes, which spares compiling backends a program per piece.
    """
    xp, _ = source.place
    length = max(2, min(PIECE_ROWS, source.block_length(source.d)))  # 1 would never end
    order = np.argsort(codes, kind="stable")
    partial_sums = []
    owners = []  # the class of each useful row of the partial sums
    useful = []  # and where it stands among them all
    height = 0
    for start, stop in _pieces(counts, length):
        members = order[start:stop]
        first = codes[members[0]]
        n_classes = int(codes[members[-1]] - first) + 1
        width = 1 << (n_classes - 1).bit_length()
        padding = (0, length - members.shape[0])
        rows = _shifted(source.gather(_xp.from_host(np.pad(members, padding), source.place)), shift)
        local = np.pad(codes[members] - first, padding, constant_values=length)  # no such row
        marks = one_hot(_xp.from_host(local, source.place), width, rows)
        if weights is not None:
            marks = marks * source.put(np.pad(weights[members], padding))
        partial_sums.append(marks @ rows)
        owners.append(np.arange(first, first + n_classes))
        useful.append(np.arange(height, height + n_classes))
        height += width
    index = _xp.from_host(np.concatenate(useful), source.place)
    sums = xp.take(xp.concat(partial_sums, axis=0), index, axis=0)
    owner = np.concatenate(owners)
    if owner.shape[0] == counts.shape[0]:
        return sums
    # Large classes came in parts: sum the parts, which are far fewer than the rows.
    return _sum_in_class_order(ArraySource(sums), owner, np.bincount(owner), None, None)


def _sum_columns(
    source: SparseSource, codes: np.ndarray, counts: np.ndarray, weights: np.ndarray | None
) -> Array:
    """The same for sparse data with more classes than features: some dense columns at a time."""
    xp, _ = source.place
    rows, width = source.rows(slice(0, source.n)), source.block_length(source.n)
    parts = [
        _sum_in_class_order(ArraySource(rows.columns(start, width).T), codes, counts, None, weights)
        for start in range(0, source.d, width)
    ]
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
