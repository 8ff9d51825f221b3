"""Class statistics of the data, as sums over rows.

One pass gives the counts, the K × d class sums (the centroid scatter-add) and, where
the plan calls for it, the d × d second moment. All three are taken about a shift, so
that data far from the origin lose no digits when they are centred afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slce_xp import _validate, _xp
from slce_xp._labels import Labels
from slce_xp._linalg import gram_of, read
from slce_xp._plan import ONE_HOT_CLASSES
from slce_xp._source import ArraySource, SparseSource
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
        Σ w ‖x − shift‖² over samples without a label.
    """

    weight: float
    weights: Array
    shift: Array | None
    sums: Array
    rest: Array | None
    second: Array | None
    mean_square: float
    rest_square: Array | None

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

    def rest_scatter(self, rest_weight: float) -> Array:
        """Σ w ‖x − m‖² over the samples without a label, whose weight that is."""
        xp, _ = _xp.place_of(self.sums)
        cross = xp.sum(self.rest * self.offset)
        return self.rest_square - 2.0 * cross + rest_weight * xp.sum(self.offset * self.offset)


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
    )


def sum_by_class(source: ArraySource, labels: Labels, weights: np.ndarray | None) -> Array:
    """Sum the rows of each class, times their weights, (n, d) ↦ (K, d)."""
    return _sums(source, labels, weights, None, second=False)[0][: len(labels.classes), :]


def _find_shift(source: ArraySource, second: bool) -> tuple[Array | None, float]:
    """A point near the data if they lie far from the origin, else None; and how far they lie."""
    xp, _ = source.place
    if isinstance(source, SparseSource):  # a shift would fill it; no mean is longer than the rows
        squares = xp.sum(source.values * source.values)
        return None, float(read(squares)[0]) / source.n
    rows = min(PROBE_ROWS, source.block_length(2 * source.d))  # the rows and their squares
    probe = source.probe(rows)
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
    xp, _ = source.place
    # A one-hot product costs more with every class; sparse rows cannot be gathered everywhere,
    # and columns, which can, cost more with every feature.
    most = max(ONE_HOT_CLASSES + 1, source.d if source.is_sparse else 0)
    few = labels.height <= most
    squared = labels.n_unlabeled > 0 and weights is labels.weights
    if few:
        codes = _xp.from_host(labels.codes, source.place)
    row_weights = source.put(weights)
    scale = source.put(labels.scatter_weights) if second else None
    rest = source.put(labels.rest_weights) if squared else None

    def term(block: slice, rows: Array) -> tuple[Array | None, ...]:
        rows = _shifted(rows, shift)
        sums = total = squares = None
        if few:
            hot = one_hot(codes[block], labels.height, source)
            sums = (hot if row_weights is None else hot * row_weights[block]) @ rows
            del hot
        if second:
            total = _weighted_gram(rows, None if scale is None else scale[block], source)
        if rest is not None:
            squares = xp.sum(_row_squares(rows) * rest[block])
        return sums, total, squares

    made = labels.height + -(-labels.height // 4) if few else 0  # one-hot rows, a mask of bytes
    made += source.d * ((shift is not None) + squared + (scale is not None))
    sums = total = squares = None
    if few or second or squared:
        sums, total, squares = source.sum_rows(term, made)
    if not few:
        counts = np.bincount(labels.codes, minlength=labels.height)
        if isinstance(source, SparseSource):
            sums = _sum_columns(source, labels.codes, counts, weights)
        else:
            sums = _sum_in_class_order(source, labels.codes, counts, shift, weights)
    return sums, total, squares


def _row_squares(rows: Array) -> Array:
    if isinstance(rows, Sparse):
        return rows.row_squares()
    return _xp.place_of(rows).xp.sum(rows * rows, axis=1)


def _weighted_gram(rows: Array, weights: Array | None, source: ArraySource) -> Array:
    if isinstance(rows, Sparse):
        return rows.gram(weights, source.block_length(rows.shape[0]))
    return gram_of(rows) if weights is None else rows.T @ (rows * weights[:, None])


def one_hot(codes: Array, height: int, source: ArraySource) -> Array:
    """Row j marks the samples of code j, shape (height, n)."""
    xp, device = source.place
    return xp.astype(xp.arange(height, device=device)[:, None] == codes[None, :], source.dtype)


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
        marks = one_hot(_xp.from_host(local, source.place), width, source)
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
