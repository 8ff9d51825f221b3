"""The moments of all samples by one pass over their rows, in a frame that keeps their digits.

Sums are taken about a shift near the mean if the data lie far from the origin, and of rows
multiplied by a power of two, so that neither squares nor fourth powers of X leave the range of its
dtype. If the sums show that the frame was not a good one, they are taken again.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend, _errors
from slce_xp._backend import Array, Sparse, read
from slce_xp._parameters import as_count
from slce_xp.core import given
from slce_xp.core import sums as row_sums
from slce_xp.core.eigen import gram_of
from slce_xp.core.groups import Groups
from slce_xp.core.moments import Moments, check_range, is_moderate
from slce_xp.core.rows import Rows, columns_of, open_array

# A mean much larger than the spread costs accuracy if it is subtracted after the sums; then it is
# subtracted from each block before. The ratio of their squares that is still harmless: for second
# moments, which lose as much, and for float64 sums, which lose its root.
SAFE_OFFSET_SQUARES = 4.0
SAFE_OFFSET_SUMS = 256.0
SAFE_OFFSET_SPARSE = 64.0
# The same of one column, if each has to keep its digits: for second moments, and for float64 sums.
SAFE_COLUMN_SQUARES, SAFE_COLUMN_SUMS = 1e3, 1e6
# From this ratio on, a warning says that digits are lost.
FAR = {"float32": 1e2, "float64": 1e8}
# Rows that are probed to decide that.
PROBE_ROWS = 64
# Sums this much larger than the probed rows show that those were not typical.
LARGE_SUM = 2.0**40
# The typical size of weighted rows, in units of the probed ones, that asks for another unit.
SMALL_SIZE = 2.0**-20


def class_moments(
    x: Any, codes: Any, n_classes: int, /, *, weights: Any = None, second: bool = False
) -> Moments:
    """Class statistics of an array: moments that can be added to those of other samples.

    Parameters
    ----------
    x : array, or sparse matrix of SciPy, CuPy or torch, shape (n, d)
    codes : array of int, shape (n,)
        The class of each row, from 0 to K − 1.
    n_classes : int
        K. Each class must have a row.
    weights : array, shape (n,), optional
        Positive weight of each row; ones by default.
    second : bool
        Whether to compute the (d, d) second moment, too.

    Returns
    -------
    Moments
        ``a + b`` are the moments of both sets of samples.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from slce_xp.core import class_moments
    >>> x = xp.asarray([[0.0], [2.0], [6.0], [8.0]])
    >>> codes = xp.asarray([0, 1, 0, 1])
    >>> both = class_moments(x[:2, :], codes[:2], 2)
    >>> both = both + class_moments(x[2:, :], codes[2:], 2)
    >>> both.mean
    Array([4.], dtype=array_api_strict.float64)
    >>> both.centroids
    Array([[3.],
           [5.]], dtype=array_api_strict.float64)
    """
    rows, n_classes = open_array(given.as_matrix(x)), as_count(n_classes, "n_classes", 2)
    groups = Groups.of(given.as_codes(codes, rows.n, n_classes), n_classes, weights)
    if not groups.is_supervised:
        raise _errors.invalid(
            "codes", f"codes must be from 0 to n_classes − 1 = {n_classes - 1}; got {n_classes}"
        )
    with _backend.computing(rows.place):
        return moments_of(rows, groups, second=second)


def moments_of(
    rows: Rows,
    groups: Groups,
    *,
    second: bool = False,
    by_column: bool = False,
    is_batch: bool = False,
) -> Moments:
    """The moments of all samples: one pass, or more if the first was taken in a bad frame.

    Parameters
    ----------
    rows : Rows
    groups : Groups
    second : bool
        Whether to compute the second moment, too.
    by_column : bool
        Whether columns must keep their digits even if others are much larger.
    is_batch : bool
        Whether they will be moved to their pivot and added to others, not centred.
    """
    if groups.weights is not None:
        check_range(groups.weights, _backend.dtype_name(rows.dtype))
    frame = _probe_frame(rows, second or not groups.is_supervised, by_column)
    while True:
        moments = _moments_in(frame, rows, groups, second)
        better = _better_frame(frame, moments, rows, groups, is_batch)
        if not isinstance(better, _Frame):
            return moments.with_centring(better)
        frame = better


class _Frame(NamedTuple):
    """In which coordinates sums are taken.

    Attributes
    ----------
    shift : array, shape (d,), or None
        A point near the data if they lie far from the origin.
    scale : float
        Factor of the rows after the shift: a power of two.
    spread : float
        About the mean of scale²·‖x − mean‖², by the probed rows.
    safe : float
        How large a mean may be before it is subtracted from each row, relative to the spread.
    trials : int
        How many other frames were tried before.
    is_weighted : bool
        Whether the scale is that of weighted rows.
    """

    shift: Array | None
    scale: float
    spread: float
    safe: float
    trials: int = 0
    is_weighted: bool = False


def _probe_frame(rows: Rows, squared: bool, by_column: bool = False) -> _Frame:
    """The frame that a few rows suggest."""
    xp, _ = rows.place
    dtype = _backend.dtype_name(rows.dtype)
    exact = dtype == "float64" and not squared
    safe = SAFE_OFFSET_SUMS if exact else SAFE_OFFSET_SQUARES
    if rows.is_sparse:  # a shift would fill it, and costs a second moment half its digits
        safe = SAFE_OFFSET_SPARSE if squared else math.inf
        return _Frame(None, _scale_for(rows.probe_size(), dtype), 0.0, safe)
    probe = rows.probe(PROBE_ROWS)
    # Divided by the largest entry, so that squares are in range.
    largest = xp.max(xp.abs(probe))
    deviations = probe / xp.where(largest > 0, largest, xp.ones_like(largest))
    mean = xp.mean(deviations, axis=0)
    deviations -= mean
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
    if by_column and not is_far:
        safe_column = SAFE_COLUMN_SUMS if exact else SAFE_COLUMN_SQUARES
        (seems_far,) = read(mean * mean > safe_column * xp.mean(deviations**2, axis=0))
        is_far = _has_far_column(rows, np.flatnonzero(seems_far), safe_column)
    scale = _scale_for(size * width if is_far and width > 0 else size, dtype)
    scaled = size * scale
    return _Frame(mean * largest if is_far else None, scale, spread * scaled * scaled, safe)


def _has_far_column(rows: Rows, positions: np.ndarray, safe: float) -> bool:
    """Whether any of the columns at some positions is far from the origin, given its spread.

    They seem so by a few rows. If they can be gathered at little cost, all rows show which of them
    are: constant columns have no digits to keep.
    """
    if not len(positions) or not rows.in_memory or len(positions) * rows.n > PROBE_ROWS * rows.d:
        return bool(len(positions))
    xp, _ = rows.place
    index = _backend.from_host(positions, rows.place)
    columns = rows.join_rows(lambda block: columns_of(block, index), len(positions))
    largest = xp.max(xp.abs(columns), axis=1, keepdims=True)
    columns = columns / xp.where(largest > 0, largest, xp.ones_like(largest))
    mean = xp.mean(columns, axis=1, keepdims=True)
    variances = xp.mean((columns - mean) ** 2, axis=1)
    varies = xp.any(columns != columns[:, :1], axis=1)
    is_far = varies & (mean[:, 0] ** 2 > safe * variances)
    return bool(read(xp.any(is_far))[0])


def _scale_for(size: float, dtype: str) -> float:
    """The power of two that brings numbers of this size near one."""
    most = np.finfo(dtype).maxexp - 2  # of what the dtype holds with all its digits
    if not math.isfinite(size):
        return 1.0  # an error that the sums report
    exponent = math.frexp(size)[1] if size > 0.0 else -most  # zero has any scale
    return math.ldexp(1.0, -max(-most, min(exponent, most)))


def _moments_in(frame: _Frame, rows: Rows, groups: Groups, second: bool) -> Moments:
    totals = groups.totals
    weights = _backend.from_host(totals, rows.place, rows.dtype)
    sums, total, squares = _sums(rows, groups, frame, second)
    if frame.shift is not None and rows.is_sparse:  # whose sums are about the origin
        sums = sums - weights[:, None] * (frame.shift * frame.scale)
    return Moments(
        totals,
        weights,
        sums,
        frame.shift,
        total,
        squares,
        groups.unlabeled_weight,
        frame.scale,
        groups.weight_unit,
    )


def _better_frame(
    frame: _Frame, moments: Moments, rows: Rows, groups: Groups, is_batch: bool
) -> _Frame | float:
    """The frame in which to sum again, or `Moments.centring` if the sums are good enough.

    Any NaN or infinity in X reaches the sums, so finite sums prove a finite X.
    """
    xp, _ = rows.place
    dtype = _backend.dtype_name(rows.dtype)
    pivot = moments.pivot_offset
    target = pivot if is_batch else moments.offset
    left = moments.left(target, rows.is_sparse)
    if moments.second is not None:
        scatter = moments.square()
    else:
        scatter = xp.sum(moments.between**2)
        if not moments.is_supervised:
            scatter = scatter + moments.unlabeled_weight * moments.unlabeled_scatter
    # A sum of magnitudes is not finite if one of them is not.
    size = xp.sum(xp.abs(moments.sums)) / moments.weight
    sums = [size, scatter, xp.sum(pivot * pivot)]
    if left is not pivot:
        step = target - pivot
        sums += [xp.sum(left * left), xp.sum(step * step)]
    size, square, pivot_square, *others = map(float, read(*sums))
    finite = math.isfinite(size) and math.isfinite(square) and math.isfinite(pivot_square)
    if not finite or size > LARGE_SUM:
        if not finite:
            rows.raise_if_not_finite()
        scale = _scale_for(rows.largest_deviation(frame.shift), dtype)
        if scale != frame.scale and not frame.trials:
            return frame._replace(scale=scale, spread=0.0, trials=1)
        if not finite:
            raise _errors.too_large(dtype)
    weight = moments.absolute_weight
    centring = weight * pivot_square  # what is subtracted to centre the scatter
    if moments.second is not None:
        scatter = square - centring
    elif not moments.is_supervised:
        scatter = square
    elif groups.weights is None:
        scatter = max(square, frame.spread * moments.weight)
    else:  # the spread of probed rows says nothing if few samples have all the weight
        scatter = square
    can_shift = not rows.is_sparse or math.isfinite(frame.safe)
    if centring > frame.safe * max(scatter, 0.0) and frame.trials < 2 and can_shift:
        return frame._replace(shift=moments.pivot, trials=2)
    if not frame.is_weighted and _has_small_weights(groups):
        size = _weighted_size(frame, moments, rows, groups)
        if 0.0 < size < SMALL_SIZE:
            scale = frame.scale * _scale_for(size, dtype)
            return frame._replace(scale=scale, spread=0.0, is_weighted=True)
    centring, apart = (weight * square for square in others or (pivot_square, 0.0))
    if moments.second is not None:
        scatter += apart  # about the target
    if moments.second is not None or not moments.is_supervised:
        warn_if_far(rows, centring, scatter)
    return centring


def warn_if_far(rows: Rows, centring: float, scatter: float) -> None:
    """Warn if centring, which subtracts as much from the squares of X, loses digits of a sparse X.

    Dense rows are shifted instead.
    """
    dtype = _backend.dtype_name(rows.dtype)
    if rows.is_sparse and centring > FAR[dtype] * scatter:
        warnings.warn(
            "X is sparse and its mean is much larger than its spread, so centring it loses digits "
            f"of {dtype}. Subtract a constant from columns with large means, or pass a dense X",
            stacklevel=_errors.caller_level(),
        )


def _has_small_weights(groups: Groups) -> bool:
    """Whether rows that hardly count may have set the unit."""
    if groups.scatter_weights is None:
        return False
    weights = np.abs(groups.scatter_weights)
    return bool(weights.min() < SMALL_SIZE**2 * weights.max())


def _weighted_size(frame: _Frame, moments: Moments, rows: Rows, groups: Groups) -> float:
    """√(Σ |s| w ‖z‖² / Σ |s| w): another pass, unless the squares are known."""
    weights = np.abs(np.asarray(groups.scatter_weights))
    if moments.second is not None or not moments.is_supervised:
        square = moments.square()
    else:
        kernel = _BlockSums(0, frame.shift, False, rows.block_length(3), frame.scale, False)
        *_, squares = rows.map_rows(kernel, 2 * rows.d, None, None, None, rows.put(weights))
        square = squares[1]
    return math.sqrt(max(0.0, float(read(square)[0])) / float(weights.sum()))


def _sums(
    rows: Rows, groups: Groups, frame: _Frame, second: bool
) -> tuple[Array, Array | None, Array | None]:
    """Sums by group, the second moment, and the squares if some samples have no label."""
    height, shift, scale = groups.n_groups, frame.shift, frame.scale
    # In memory the rows of very many groups are gathered from all over X.
    few = row_sums.is_by_block(rows, height)
    apart = rows.in_memory and not few
    marked = rows.put(groups.marked_weights)
    kernel = _block_sums(rows, 0 if apart else height, shift, scale, second)
    sums = total = squares = None
    if not apart or second or marked is not None:
        # Very many codes are sorted on the host, block by block: they need not travel.
        codes, weights = (None, None) if apart else (groups.codes, groups.weights)
        if few:
            codes, weights = rows.put_codes(groups.codes), rows.put(groups.weights)
        signed = rows.put(groups.scatter_weights) if second else None
        made = kernel.made_per_row(rows, signed, marked)
        made += 0 if apart else row_sums.made_per_row(rows, height)
        sums, total, squares = rows.map_rows(kernel, made, codes, weights, signed, marked)
        sums = None if sums is None else row_sums.scaled(sums, kernel.sums_factors[1])
    if apart:
        sums = row_sums.sum_many(
            rows,  # type: ignore[arg-type]  # in memory: dense or sparse
            groups.codes,
            height,
            groups.weights,
            shift,
            scale,
        )
    return sums, total, squares


def with_second(moments: Moments, rows: Rows, groups: Groups) -> Moments:
    """The same moments with the second moment: one more pass over X, in a bad frame two."""
    signed = rows.put(groups.scatter_weights)
    if moments.is_supervised or not rows.is_sparse:
        found = _add_second(moments, rows, signed)
        if not moments.is_supervised:  # whose frame was chosen for squares
            return found
        scatter = float(read(found.square())[0]) - moments.centring
        safe = SAFE_OFFSET_SPARSE if rows.is_sparse else SAFE_OFFSET_SQUARES
        if moments.centring <= safe * scatter:
            return found
    found = _add_second(moments.about(moments.mean), rows, signed)
    if rows.is_sparse:
        warn_if_far(rows, moments.centring, float(read(found.square())[0]))
    return found


def _add_second(moments: Moments, rows: Rows, signed: Array | None) -> Moments:
    kernel = _block_sums(rows, 0, moments.shift, moments.scale, second=True)
    made = kernel.made_per_row(rows, signed, None)
    _, total, _ = rows.map_rows(kernel, made, None, None, signed, None)
    return replace(moments, second=total)


def _block_sums(
    rows: Rows, height: int, shift: Array | None, scale: float, second: bool
) -> _BlockSums:
    scale_first = not is_moderate(scale, rows.dtype)
    # Three times the dense columns of sparse rows: themselves, times weights, in another order.
    return _BlockSums(height, shift, second, rows.block_length(3), scale, scale_first)


@dataclass(frozen=True)
class _BlockSums:
    """What a block of rows adds to the statistics; a class, for it may be sent to a worker.

    Attributes
    ----------
    height : int
        Groups to sum by; 0 for none.
    shift : array, shape (d,), or None
    second : bool
        Whether to add up the second moment.
    made : int
        Numbers that may be allocated for dense columns of sparse rows at a time.
    scale : float
        Factor of the rows: a power of two.
    scale_first : bool
        Whether to scale rows before they are squared, not after.
    """

    height: int
    shift: Array | None
    second: bool
    made: int
    scale: float
    scale_first: bool

    def made_per_row(self, rows: Rows, signed: Array | None, marked: Array | None) -> int:
        """Numbers that are allocated per row, in addition to one-hot codes."""
        copies = (self.shift is not None) + (marked is not None) + (signed is not None)
        # A scaled copy in one piece, if there is room, gives the same bits as X in other units.
        # Shifted rows are a copy already.
        is_copied = rows.has_room_for_copy or (self.shift is not None and not rows.is_sparse)
        copies += self.second and self.scale_first and not is_copied
        return rows.d * copies

    @property
    def sums_factors(self) -> tuple[float, float]:
        """Factors of the scale that class sums have, and that they have yet to get."""
        return (self.scale, 1.0) if self.scale_first else row_sums.larger_first(self.scale)

    def of_columns(self, columns: slice) -> _BlockSums:
        """The same for rows that have some of the columns only."""
        return self if self.shift is None else replace(self, shift=self.shift[columns])

    def __call__(
        self,
        rows: Array,
        codes: Array | None,
        weights: Array | None,
        signed: Array | None,
        marked: Array | None,
    ) -> tuple[Array | None, Array | None, Array | None]:
        if self.shift is not None and not isinstance(rows, Sparse):
            rows = rows - self.shift
            if self.scale_first:
                rows *= self.scale
                plain = replace(self, shift=None, scale=1.0, scale_first=False)
                return plain(rows, codes, weights, signed, marked)
        sums = total = squares = None
        if self.height:
            first = self.sums_factors[0]
            sums = row_sums.sum_block(rows, codes, self.height, weights, first)
        if self.second:
            total = self._second_moment(rows, signed)
        if marked is not None:
            squares = self._squares(rows, marked)
        return sums, total, squares

    def _second_moment(self, rows: Array, weights: Array | None) -> Array:
        first, scale = (self.scale, 1.0) if self.scale_first else (1.0, self.scale)
        if isinstance(rows, Sparse):
            total = rows.gram(weights, self._width(rows), first, self.shift)
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

    def _squares(self, rows: Array, marked: Array) -> Array:
        """Σ |w| ‖z‖² of the rows with negative and with positive weights, shape (2,)."""
        xp, _ = _backend.place_of(rows)
        zero = xp.zeros_like(marked)
        weights = xp.stack([xp.maximum(-marked, zero), xp.maximum(marked, zero)])
        if isinstance(rows, Sparse) and self.shift is not None:
            return rows.sum_squares(weights.T, self._width(rows), self.scale, self.shift)
        rows = rows if self.scale == 1.0 else rows * self.scale
        squares = rows.row_squares() if isinstance(rows, Sparse) else xp.sum(rows * rows, axis=1)
        return xp.sum(weights * squares, axis=1)

    def _width(self, rows: Sparse) -> int:
        return max(1, self.made // max(1, rows.shape[0]))
