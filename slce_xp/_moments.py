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
from slce_xp._linalg import add, gram_of, read
from slce_xp._plan import ONE_HOT_CLASSES
from slce_xp._source import ArraySource
from slce_xp._validate import Labels
from slce_xp._xp import Array

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
    n : int
    counts : array, shape (K,), floating
    shift : array, shape (d,), or None
        None stands for zero.
    sums : array, shape (K, d)
        Σ (x − shift) over the samples of each class.
    second : array, shape (d, d), or None
        Σ (x − shift)(x − shift)ᵀ over all samples.
    mean_square : float
        About ‖mean‖²: subtracting the mean rounds even where the data are constant.
    """

    n: int
    counts: Array
    shift: Array | None
    sums: Array
    second: Array | None
    mean_square: float

    @cached_property
    def offset(self) -> Array:
        """The mean, seen from the shift."""
        xp, _ = _xp.place_of(self.sums)
        return xp.sum(self.sums, axis=0) / self.n

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
        centroids = self.sums / self.counts[:, None]
        return centroids if self.shift is None else self.shift + centroids

    @property
    def between(self) -> Array:
        """B, shape (K, d), rows √n_j (c_j − m): the between-class scatter is BᵀB."""
        xp, _ = _xp.place_of(self.sums)
        root = xp.sqrt(self.counts)[:, None]
        return self.sums / root - root * self.offset


def class_moments(source: ArraySource, labels: Labels, *, second: bool = False) -> Moments:
    """One pass over X."""
    xp, _ = source.place
    shift, mean_square = _find_shift(source, second)
    sums, total = _sums(source, labels, shift, second)
    # Any NaN or infinity in X reaches the sums, so finite sums prove a finite X.
    if not bool(_xp.to_host(xp.all(xp.isfinite(sums)))):
        source.raise_if_not_finite()
        raise _validate.too_large(_xp.dtype_name(source.dtype))
    counts = _xp.from_host(labels.counts, source.place, source.dtype)
    return Moments(source.n, counts, shift, sums, total, mean_square)


def sum_by_class(source: ArraySource, labels: Labels) -> Array:
    """Sum the rows of each class, (n, d) ↦ (K, d)."""
    return _sums(source, labels, None, second=False)[0]


def _find_shift(source: ArraySource, second: bool) -> tuple[Array | None, float]:
    """A point near the data if they lie far from the origin, else None; and how far they lie."""
    xp, _ = source.place
    rows = min(PROBE_ROWS, source.block_length(2 * source.d))  # the rows and their squares
    probe = source.rows(slice(None, None, -(-source.n // rows)))
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
    source: ArraySource, labels: Labels, shift: Array | None, second: bool
) -> tuple[Array, Array | None]:
    n_classes = labels.counts.shape[0]
    if n_classes > ONE_HOT_CLASSES:  # a one-hot product would cost more with every class
        sums = _sum_in_class_order(source, labels.codes, labels.counts, shift)
        return sums, _second_moment(source, shift) if second else None
    codes = _xp.from_host(labels.codes, source.place)
    sums = total = None
    # One-hot rows, and the mask of bytes that they are made from.
    hot = n_classes + -(-n_classes // 4)
    for block in source.row_blocks(hot + _copied(source, shift)):
        rows = _shifted(source.rows(block), shift)
        sums = add(sums, one_hot(codes[block], n_classes, source) @ rows)
        if second:
            total = add(total, gram_of(rows))
        del rows  # before the next block is made, not after
    return sums, total


def _second_moment(source: ArraySource, shift: Array | None) -> Array:
    total = None
    for block in source.row_blocks(_copied(source, shift)):
        total = add(total, gram_of(_shifted(source.rows(block), shift)))
    return total


def _copied(source: ArraySource, shift: Array | None) -> int:
    """Numbers per row that shifting makes."""
    return 0 if shift is None else source.d


def one_hot(codes: Array, height: int, source: ArraySource) -> Array:
    """Row j marks the samples of code j, shape (height, n)."""
    xp, device = source.place
    return xp.astype(xp.arange(height, device=device)[:, None] == codes[None, :], source.dtype)


# ---------------------------------------------------------------- many classes


def _sum_in_class_order(
    source: ArraySource, codes: np.ndarray, counts: np.ndarray, shift: Array | None
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
    return _sum_in_class_order(ArraySource(sums), owner, np.bincount(owner), None)


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
