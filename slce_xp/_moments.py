"""Class statistics of the data, as sums over rows.

One pass gives the counts, the K × d class sums (the centroid scatter-add) and, if the plan
calls for it, the d × d second moment. All three are taken about a shift, so that data far
from the origin lose no digits when they are centred afterwards, and of rows multiplied by a
power of two, so that neither squares nor fourth powers of X leave the range of its dtype.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from slce_xp import _validate, _xp
from slce_xp._labels import Labels
from slce_xp._linalg import gram_of, placed, read
from slce_xp._plan import ONE_HOT_CLASSES, PIECE_ROWS
from slce_xp._source import ArraySource, SparseSource, open_source
from slce_xp._xp import Array, Sparse

# A mean much larger than the spread costs accuracy when it is subtracted after the sums; then
# it is subtracted from each block before. The ratio of their squares that is still harmless:
# for second moments, where it is the loss itself, and for float64 sums, where its root is.
SAFE_OFFSET_SQUARES = 4.0
SAFE_OFFSET_SUMS = 256.0
SAFE_OFFSET_SPARSE = 64.0
# From this ratio on, a warning says that digits are lost.
FAR = {"float32": 1e2, "float64": 1e8}
# Rows looked at to decide that.
PROBE_ROWS = 64
# Exponents of two up to which rows are squared as they are, and scaled afterwards.
SAFE_EXPONENT = {"float32": 30, "float64": 300}
# Sums this much larger than the rows that were probed show that those were not typical.
LARGE_SUM = 2.0**40


@dataclass(frozen=True)
class Moments:
    """Additive statistics about a shift.

    Attributes
    ----------
    class_weight : float
        Σ w over all samples of a class: their number if none has a weight.
    weights : array, shape (K,), floating
        The same for each class.
    shift : array, shape (d,), or None
        None stands for zero.
    sums : array, shape (K, d)
        Σ w z over the samples of each class, with z = scale·(x − shift).
    rest : array, shape (d,), or None
        The same over samples of no class.
    second : array, shape (d, d), or None
        Σ s w z zᵀ over all samples, with s = 1, or −λ without a label.
    rest_square : array, shape (), or None
        Σ w ‖z‖² over samples without a label; None if all have one.
    rest_weight : float
        Σ w over samples of no class.
    unlabeled_weight : float
        λ, what the reconstruction of samples without a label counts.
    scale : float
        What rows are multiplied by after the shift, a power of two.
    weight_unit : float
        What weights are multiples of, a power of two.
    centring : float
        W·‖offset‖², which centring subtracts from Σ w ‖z‖²: it shows how many digits are lost.
    """

    class_weight: float
    weights: Array
    shift: Array | None
    sums: Array
    rest: Array | None
    second: Array | None
    rest_square: Array | None = None
    rest_weight: float = 0.0
    unlabeled_weight: float = 1.0
    scale: float = 1.0
    weight_unit: float = 1.0
    centring: float = 0.0

    @property
    def weight(self) -> float:
        """Σ w over all samples."""
        return self.class_weight + self.rest_weight

    @property
    def unit_exponent(self) -> int:
        """The power of two that scatters, eigenvalues and losses are multiples of."""
        return math.frexp(self.weight_unit)[1] - 1 - 2 * (math.frexp(self.scale)[1] - 1)

    @cached_property
    def offset(self) -> Array:
        """The mean of z, scale·(mean − shift)."""
        xp, _ = _xp.place_of(self.sums)
        total = xp.sum(self.sums, axis=0)
        return (total if self.rest is None else total + self.rest) / self.weight

    def shifted(self, rows: Array) -> Array:
        """Dense rows minus the shift, not yet scaled."""
        return rows if isinstance(rows, Sparse) else _shifted(rows, self.shift)

    def times_owned(self, left: Array, rows: Array) -> Array:
        """The same with a left that may be changed: it may be as large as a block."""
        if self.scale == 1.0:
            return left @ rows
        before, after = _xp.factors_of(self.scale)
        left *= before
        product = left @ rows
        product *= after
        return product

    def times(self, left: Array, rows: Array) -> Array:
        """Multiply left by scale·rows, without a scaled copy of the rows."""
        return _scaled_product(left, rows, self.scale)

    def centred(self, rows: Array, columns: slice = slice(None)) -> Array:
        """scale·(rows − mean), a copy; of rows that have some columns only."""
        # In two steps: their sum, the mean, is rounded to the digits of a large number.
        offset = self.offset[columns]
        offset = offset if self.scale == 1.0 else offset / self.scale
        if self.shift is None:
            rows = rows - offset
        else:
            rows = rows - self.shift[columns]
            rows -= offset
        if self.scale != 1.0:
            rows *= self.scale
        return rows

    def mean_left(self, is_sparse: bool) -> Array:
        """The mean of scaled rows as `shifted` leaves them, shape (d,)."""
        if is_sparse and self.shift is not None:
            return self.offset + self.shift * self.scale
        return self.offset

    @cached_property
    def mean(self) -> Array:
        """The mean of all samples, shape (d,)."""
        return self._unscaled(self.offset)

    @property
    def centroids(self) -> Array:
        """The class means, shape (K, d)."""
        return self._unscaled(self.sums / self.weights[:, None])

    def _unscaled(self, values: Array) -> Array:
        values = values if self.scale == 1.0 else values / self.scale
        return values if self.shift is None else self.shift + values

    def in_units(self, scale: float, weight_unit: float) -> Moments:
        """The same with another scale and another unit of weights."""
        if scale == self.scale and weight_unit == self.weight_unit:
            return self
        factor = self.weight_unit / weight_unit
        step = scale / self.scale

        def times(values: Array | None, by: float) -> Array | None:
            return None if values is None else values * by

        return replace(
            self,
            class_weight=self.class_weight * factor,
            weights=self.weights * factor,
            sums=self.sums * (factor * step),
            rest=times(self.rest, factor * step),
            second=times(self.second, factor * step * step),
            rest_square=times(self.rest_square, factor * step * step),
            rest_weight=self.rest_weight * factor,
            scale=scale,
            weight_unit=weight_unit,
        )

    def square(self, sign: float = 1.0) -> Array:
        """Σ w ‖z‖², shape (), by the second moment; unlabelled samples times `sign`."""
        xp, _ = _xp.place_of(self.sums)
        trace = xp.linalg.trace(self.second)
        if self.rest_square is None:
            return trace
        return trace + (self.unlabeled_weight + sign) * self.rest_square

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
    """One pass over X; another one if the first shows that it was taken in the wrong frame."""
    _check_range(labels, _xp.dtype_name(source.dtype))
    frame = _probe_frame(source, second or labels.n_unlabeled > 0)
    while True:
        moments = _moments_in(frame, source, labels, second)
        better = _better_frame(frame, moments, source, labels)
        if not isinstance(better, _Frame):
            return replace(moments, centring=better)
        frame = better


def sum_by_class(source: ArraySource, labels: Labels, weights: np.ndarray | None) -> Array:
    """Sum the rows of each class, times their weights, (n, d) ↦ (K, d)."""
    return _sums(source, labels, weights)[0][: len(labels.classes), :]


def _check_range(labels: Labels, dtype: str) -> None:
    """Refuse weights of which some would vanish beside others."""
    info = np.finfo(dtype)
    least = float(info.smallest_normal) / float(info.eps)
    if labels.weights is not None and labels.weights.size and labels.weights.min() < least:
        raise ValueError(
            f"sample_weight times class_weight must not differ by more than a factor of "
            f"{1.0 / least:.0e} in {dtype}; got a smallest weight of {labels.weights.min():.1e} "
            "beside a largest near 1. Drop those samples: a weight of 0 does"
        )


class _Frame(NamedTuple):
    """Where sums are taken from.

    Attributes
    ----------
    shift : array, shape (d,), or None
        A point near the data if they lie far from the origin.
    scale : float
        What rows are multiplied by, after the shift: a power of two.
    spread : float
        About the mean of scale²·‖x − mean‖², by the rows that were probed.
    safe : float
        How large a mean may be before it is subtracted from each row, in units of the spread.
    trials : int
        How many other frames were tried before.
    """

    shift: Array | None
    scale: float
    spread: float
    safe: float
    trials: int = 0


def _probe_frame(source: ArraySource, squared: bool) -> _Frame:
    """The frame that a few rows from all over X suggest."""
    xp, _ = source.place
    dtype = _xp.dtype_name(source.dtype)
    safe = SAFE_OFFSET_SUMS if dtype == "float64" and not squared else SAFE_OFFSET_SQUARES
    if source.is_sparse:  # a shift would fill it, and costs a second moment half its digits
        safe = SAFE_OFFSET_SPARSE if squared else math.inf
        return _Frame(None, _scale_for(source.probe_size(), dtype), 0.0, safe)
    probe = source.probe(PROBE_ROWS)
    # Divided by the largest entry, so that squares are in range.
    largest = xp.max(xp.abs(probe))
    probe = probe / xp.where(largest > 0, largest, xp.ones_like(largest))
    mean = xp.mean(probe, axis=0)
    deviations = probe - mean
    size, offset, spread, width = map(
        float,
        read(
            largest,
            xp.sum(mean * mean),
            xp.sum(deviations * deviations) / probe.shape[0],
            xp.max(xp.abs(deviations)),
        ),
    )
    # NaN compares false: such data are reported by the sums.
    is_far = offset > safe * spread
    scale = _scale_for(size * width if is_far and width > 0 else size, dtype)
    scaled = size * scale
    return _Frame(mean * largest if is_far else None, scale, spread * scaled * scaled, safe)


def _scale_for(size: float, dtype: str) -> float:
    """The power of two that brings numbers of this size near one."""
    most = np.finfo(dtype).maxexp - 2  # of what the dtype holds with all its digits
    if not math.isfinite(size):
        return 1.0  # an error that the sums report
    exponent = math.frexp(size)[1] if size > 0.0 else -most  # zero has any scale
    return math.ldexp(1.0, -max(-most, min(exponent, most)))


def _moments_in(frame: _Frame, source: ArraySource, labels: Labels, second: bool) -> Moments:
    n_classes = len(labels.classes)
    sums, total, rest_square = _sums(
        source, labels, labels.weights, frame.shift, frame.scale, second, labels.n_unlabeled > 0
    )
    weights = labels.counts
    if labels.has_others or labels.weights is not None:
        weights = np.bincount(labels.codes, labels.weights, minlength=labels.height)
    if frame.shift is not None and source.is_sparse:  # whose sums are about the origin
        step = frame.shift * frame.scale
        sums = sums - _xp.from_host(weights, source.place, source.dtype)[:, None] * step
    return Moments(
        float(weights[:n_classes].sum()),
        _xp.from_host(weights[:n_classes], source.place, source.dtype),
        frame.shift,
        sums if labels.height == n_classes else sums[:n_classes, :],
        None if labels.height == n_classes else sums[n_classes, :],
        total,
        rest_square,
        float(labels.rest_weights.sum()) if labels.has_others else 0.0,
        labels.unlabeled_weight,
        frame.scale,
        labels.weight_unit,
    )


def _better_frame(
    frame: _Frame, moments: Moments, source: ArraySource, labels: Labels
) -> _Frame | float:
    """The frame in which to sum again, or W·‖offset‖² if the sums are as good as they can be.

    Any NaN or infinity in X reaches the sums, so finite sums prove a finite X.
    """
    xp, _ = source.place
    dtype = _xp.dtype_name(source.dtype)
    offset = moments.offset
    if moments.second is not None:
        scatter = moments.square()
    else:
        scatter = xp.sum(moments.between**2)
        if moments.rest_square is not None:
            scatter = scatter + moments.rest_scatter
    # A sum of magnitudes is not finite if one of them is not.
    size = xp.sum(xp.abs(moments.sums / moments.weight))
    if moments.rest is not None:
        size = size + xp.sum(xp.abs(moments.rest / moments.weight))
    size, offset_square, square = map(float, read(size, xp.sum(offset * offset), scatter))
    finite = math.isfinite(size) and math.isfinite(square) and math.isfinite(offset_square)
    if not finite or size > LARGE_SUM:
        if not finite:
            source.raise_if_not_finite()
        scale = _scale_for(source.largest_deviation(frame.shift), dtype)
        if scale != frame.scale and not frame.trials:
            return frame._replace(scale=scale, spread=0.0, trials=1)
        if not finite:
            raise _validate.too_large(dtype)
    centring = moments.weight * offset_square  # what is subtracted to centre the scatter
    if moments.second is not None:
        scatter = square - centring
    elif moments.rest_square is not None:
        scatter = square
    elif labels.weights is None:
        scatter = max(square, frame.spread * moments.weight)
    else:  # the spread of rows that were probed says nothing if few samples have all the weight
        scatter = square
    can_shift = not source.is_sparse or math.isfinite(frame.safe)
    if centring > frame.safe * max(scatter, 0.0) and frame.trials < 2 and can_shift:
        return frame._replace(shift=moments.mean, trials=2)
    raw = centring
    if source.is_sparse and frame.shift is not None:
        shift = frame.shift * moments.scale
        raw = moments.weight * float(read(xp.sum(shift * shift))[0])
    known = moments.second is not None or moments.rest_square is not None
    if source.is_sparse and known and raw > FAR[dtype] * scatter:
        warnings.warn(
            "X is sparse and its mean is much larger than its spread, so centring it loses digits "
            f"of {dtype}. Subtract a constant from columns with large means, or pass a dense X",
            stacklevel=5,
        )
    return raw


def _shifted(rows: Array, shift: Array | None) -> Array:
    return rows if shift is None else rows - shift


def _scaled_product(left: Array, rows: Array, scale: float) -> Array:
    """Multiply left by scale·rows, a factor before and one after: neither overflows."""
    if scale == 1.0:
        return left @ rows
    before, after = _xp.factors_of(scale)
    product = (left * before) @ rows
    product *= after
    return product


def _sums(
    source: ArraySource,
    labels: Labels,
    weights: np.ndarray | None,
    shift: Array | None = None,
    scale: float = 1.0,
    second: bool = False,
    squared: bool = False,
) -> tuple[Array, Array | None, Array | None]:
    """Sums by code, the second moment, and the squares of samples without a label."""
    # In memory the rows of very many classes are gathered from all over X.
    few = _is_few(labels.height, source.d, source.is_sparse)
    apart = source.in_memory and not few
    signed = source.put(labels.scatter_weights) if second else None
    rest = source.put(labels.rest_weights) if squared else None
    scale_first = abs(math.log2(scale)) > SAFE_EXPONENT[_xp.dtype_name(source.dtype)]
    # Three times the dense columns of sparse rows: themselves, times weights, in another order.
    kernel = _BlockSums(
        0 if apart else labels.height, shift, second, source.block_length(3), scale, scale_first
    )
    copies = (shift is not None) + squared + (signed is not None)
    # A scaled copy in one piece, if there is room, gives the same bits as X in other units.
    copies += second and scale_first and not source.has_room_for_copy
    made = source.d * copies
    sums = total = squares = None
    if not apart or second or squared:
        # Very many codes are sorted on the host, block by block: they need not travel.
        codes, row_weights = (None, None) if apart else (labels.codes, weights)
        if few:
            codes, row_weights = source.put_codes(labels.codes), source.put(weights)
        # One-hot rows and a mask; a sparse product copies them in another order.
        marks = labels.height * (2 if source.is_sparse else 1)
        made += 0 if apart else marks + -(-labels.height // 4)
        sums, total, squares = source.map_rows(kernel, made, codes, row_weights, signed, rest)
    if apart:
        sums = _sums_by_code(source, labels.codes, labels.height, shift, weights, scale)
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
    scale : float
        What rows are multiplied by: a power of two.
    scale_first : bool
        Whether to scale rows before they are squared, not after.
    """

    height: int
    shift: Array | None
    second: bool
    made: int
    scale: float
    scale_first: bool

    def of_columns(self, columns: slice) -> _BlockSums:
        """The same for rows that have some of the columns only."""
        return self if self.shift is None else replace(self, shift=self.shift[columns])

    def __call__(
        self,
        rows: Array,
        codes: Array | None,
        weights: Array | None,
        signed: Array | None,
        rest: Array | None,
    ) -> tuple[Array | None, Array | None, Array | None]:
        rows = rows if isinstance(rows, Sparse) else _shifted(rows, self.shift)
        sums = total = squares = None
        if self.height:
            sums = self._sum_codes(rows, codes, weights)
        if self.second:
            total = self._second_moment(rows, signed)
        if rest is not None:
            squares = self._squares(rows, rest)
        return sums, total, squares

    def _squares(self, rows: Array, weights: Array) -> Array:
        """Σ w ‖z‖² of the rows."""
        xp, _ = _xp.place_of(rows)
        if isinstance(rows, Sparse) and self.shift is not None:
            width = max(1, self.made // max(1, rows.shape[0]))
            return rows.sum_squares(weights, width, self.scale, self.shift)
        rows = rows if self.scale == 1.0 else rows * self.scale
        return xp.sum(_row_squares(rows) * weights)

    def _second_moment(self, rows: Array, weights: Array | None) -> Array:
        first, scale = (self.scale, 1.0) if self.scale_first else (1.0, self.scale)
        if isinstance(rows, Sparse):
            width = max(1, self.made // max(1, rows.shape[0]))
            total = rows.gram(weights, width, first, self.shift)
        else:
            rows = rows if first == 1.0 else rows * first
            if weights is None:
                total = gram_of(rows)
            else:  # enlarged before the product, or made smaller after it: nothing underflows
                larger, scale = max(scale, 1.0), min(scale, 1.0)
                total = rows.T @ (rows * (weights * larger**2)[:, None])
        if scale != 1.0:
            total *= scale * scale
        return total

    def _sum_codes(self, rows: Array, codes: Array, weights: Array | None) -> Array:
        is_sparse = isinstance(rows, Sparse)
        if _is_few(self.height, rows.shape[1], is_sparse):
            hot = one_hot(codes, self.height, rows)
            return _scaled_product(hot if weights is None else hot * weights, rows, self.scale)
        # The classes that this block has, then zeros for all others.
        present, local = np.unique(_xp.to_host(codes), return_inverse=True)
        host = None if weights is None else _xp.to_host(weights)
        sums = _sums_by_code(open_source(rows), local, present.shape[0], None, host, self.scale)
        return placed(sums, present, self.height)


def _sums_by_code(
    source: ArraySource,
    codes: np.ndarray,
    height: int,
    shift: Array | None,
    weights: np.ndarray | None,
    scale: float,
) -> Array:
    """The same for very many codes, from rows in memory."""
    counts = np.bincount(codes, minlength=height)
    if isinstance(source, SparseSource):
        return _sum_columns(source, codes, counts, weights, scale)
    return _sum_in_class_order(source, codes, counts, shift, weights, scale)


def _row_squares(rows: Array) -> Array:
    if isinstance(rows, Sparse):
        return rows.row_squares()
    return _xp.place_of(rows).xp.sum(rows * rows, axis=1)


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
    scale: float,
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
        partial_sums.append(_scaled_product(marks, rows, scale))
        owners.append(np.arange(first, first + n_classes))
        useful.append(np.arange(height, height + n_classes))
        height += width
    index = _xp.from_host(np.concatenate(useful), source.place)
    sums = xp.take(xp.concat(partial_sums, axis=0), index, axis=0)
    owner = np.concatenate(owners)
    if owner.shape[0] == counts.shape[0]:
        return sums
    # Large classes came in parts: sum the parts, which are far fewer than the rows.
    return _sum_in_class_order(ArraySource(sums), owner, np.bincount(owner), None, None, 1.0)


def _sum_columns(
    source: SparseSource,
    codes: np.ndarray,
    counts: np.ndarray,
    weights: np.ndarray | None,
    scale: float,
) -> Array:
    """The same for sparse data with more classes than features: some dense columns at a time."""
    xp, _ = source.place
    rows, width = source.rows(slice(0, source.n)), source.block_length(source.n)
    parts = []
    for start in range(0, source.d, width):
        columns = ArraySource(rows.columns(start, width).T)
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
