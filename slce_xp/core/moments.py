"""Class statistics of the data: sums over rows that add and merge.

One pass gives the weights, the class sums and, if asked for, the d × d second moment. All are
taken about a shift, so that data far from the origin lose no digits when they are centred
afterwards, and of rows multiplied by a power of two, so that neither squares nor fourth powers of
X leave the range of its dtype.
"""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend, _errors
from slce_xp._backend import Array, Sparse, read
from slce_xp._parameters import as_count
from slce_xp.core import given
from slce_xp.core import sums as row_sums
from slce_xp.core.eigen import gram_of
from slce_xp.core.groups import Groups
from slce_xp.core.rows import Rows, open_array
from slce_xp.core.sums import placed, scaled

# A mean much larger than the spread costs accuracy if it is subtracted after the sums; then it is
# subtracted from each block before. The ratio of their squares that is still harmless: for second
# moments, which lose as much, and for float64 sums, which lose its root.
SAFE_OFFSET_SQUARES = 4.0
SAFE_OFFSET_SUMS = 256.0
SAFE_OFFSET_SPARSE = 64.0
# The same of one column, if each has to keep its digits.
SAFE_OFFSET_COLUMN = 1e3
# From this ratio on, a warning says that digits are lost.
FAR = {"float32": 1e2, "float64": 1e8}
# Rows that are probed to decide that.
PROBE_ROWS = 64
# Exponents of two up to which rows are squared as they are, and scaled afterwards.
SAFE_EXPONENT = {"float32": 30, "float64": 300}
# Sums this much larger than the probed rows show that those were not typical.
LARGE_SUM = 2.0**40
# The typical size of weighted rows, in units of the probed ones, that asks for another unit.
SMALL_SIZE = 2.0**-20


@dataclass(frozen=True)
class Moments:
    """Additive statistics of groups of samples: the K classes, and samples without a label.

    Attributes
    ----------
    totals : numpy.ndarray, shape (G,)
        The weight of each group on the host; the number of its samples if none has a weight.
        G is K, or K + 1 if some samples have no label.
    weights : array, shape (G,)
        The same, on the device of the data.
    sums : array, shape (G, d)
        Σ w z over the samples of each group, with z = scale·(x − shift).
    shift : array, shape (d,), or None
        None stands for zero.
    second : array, shape (d, d), or None
        Σ s w z zᵀ over all samples, with the sign s = 1, or −λ without a label.
    unlabeled_square : array, shape (), or None
        Σ w ‖z‖² over samples without a label; None if all have one.
    unlabeled_weight : float
        λ.
    scale : float
        Factor of the rows after the shift, a power of two.
    weight_unit : float
        Unit of the weights, a power of two.
    centring : float
        W·‖offset‖² as the sums were taken, which centring subtracts from Σ w ‖z‖²: it shows how
        many digits are lost.
    """

    totals: np.ndarray
    weights: Array
    sums: Array
    shift: Array | None = None
    second: Array | None = None
    unlabeled_square: Array | None = None
    unlabeled_weight: float = 1.0
    scale: float = 1.0
    weight_unit: float = 1.0
    centring: float = 0.0

    @property
    def is_supervised(self) -> bool:
        """True if every sample has a label."""
        return self.unlabeled_square is None

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.totals) - (not self.is_supervised)

    @property
    def n_features(self) -> int:
        """The number of features, d."""
        return int(self.sums.shape[1])

    @property
    def signs(self) -> np.ndarray:
        """The sign of each group's scatter, shape (G,)."""
        signs = np.ones(len(self.totals))
        signs[self.n_classes :] = -self.unlabeled_weight
        return signs

    @property
    def weight(self) -> float:
        """Σ w over all samples."""
        return float(self.totals.sum())

    @property
    def class_weights(self) -> Array:
        """The weight of each class, shape (K,)."""
        return self.weights[: self.n_classes]

    @property
    def unit_exponent(self) -> int:
        """The power of two that scatters, eigenvalues and losses are multiples of."""
        return self.weight_exponent - 2 * (math.frexp(self.scale)[1] - 1)

    @property
    def weight_exponent(self) -> int:
        """The power of two that weights are multiples of."""
        return math.frexp(self.weight_unit)[1] - 1

    @cached_property
    def offset(self) -> Array:
        """The mean of z, scale·(mean − shift), shape (d,)."""
        xp, _ = _backend.place_of(self.sums)
        return xp.sum(self.sums, axis=0) / self.weight

    @cached_property
    def _unscaled_offset(self) -> Array:
        return self.offset if self.scale == 1.0 else self.offset / self.scale

    @cached_property
    def mean(self) -> Array:
        """The mean of all samples, shape (d,)."""
        offset = self._unscaled_offset
        return offset if self.shift is None else self.shift + offset

    @property
    def centroids(self) -> Array:
        """The class means, shape (K, d)."""
        values = self.sums[: self.n_classes, :] / self.class_weights[:, None]
        values = values if self.scale == 1.0 else values / self.scale
        return values if self.shift is None else self.shift + values

    @cached_property
    def roots(self) -> Array:
        """√W_j, shape (K, 1)."""
        xp, _ = _backend.place_of(self.sums)
        return xp.sqrt(self.class_weights)[:, None]

    @cached_property
    def between(self) -> Array:
        """B, shape (K, d), rows √W_j·(c_j − m): the between-class scatter is BᵀB."""
        root = self.roots
        return self.sums[: self.n_classes, :] / root - root * self.offset

    @property
    def unlabeled_scatter(self) -> Array:
        """Σ w ‖x − m‖² over the samples without a label, shape ()."""
        xp, _ = _backend.place_of(self.sums)
        return self._moved_square(self.offset, xp)

    def square(self, sign: float = 1.0) -> Array:
        """Σ w ‖z‖², shape (), by the second moment; unlabelled samples times `sign`."""
        xp, _ = _backend.place_of(self.sums)
        trace = xp.linalg.trace(self.second)
        if self.unlabeled_square is None:
            return trace
        return trace + (self.unlabeled_weight + sign) * self.unlabeled_square

    # ------------------------------------------------------------ rows as the sums were taken

    def shifted(self, rows: Array) -> Array:
        """Dense rows minus the shift, not yet scaled; sparse rows as they are."""
        return rows if self.shift is None or isinstance(rows, Sparse) else rows - self.shift

    def mean_left(self, is_sparse: bool) -> Array:
        """The mean of scaled rows as `shifted` leaves them, shape (d,)."""
        if is_sparse and self.shift is not None:
            return self.offset + self.shift * self.scale
        return self.offset

    @property
    def factors(self) -> tuple[float, float]:
        """Factors of the scale, one for each side of a product with rows."""
        return _backend.factors_of(self.scale)

    @property
    def is_moderate(self) -> bool:
        """Whether rows can be squared as they are, and scaled afterwards."""
        return _is_moderate(self.scale, self.sums.dtype)

    def centred(
        self, rows: Array, columns: slice = slice(None), *, is_scaled: bool = True
    ) -> Array:
        """scale·(rows − mean), a copy; of rows that have some of the columns only."""
        # In two steps: their sum, the mean, is rounded to the digits of a large number.
        offset = self._unscaled_offset[columns]
        if self.shift is None:
            rows = rows - offset
        else:
            rows = rows - self.shift[columns]
            rows -= offset
        return scaled(rows, self.scale) if is_scaled else rows

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other: Moments) -> Moments:
        """The statistics of both sets of samples, about their common mean.

        Both must have the same features and classes; `scale` and `weight_unit` may differ.
        """
        if not isinstance(other, Moments):
            return NotImplemented
        for name in ("n_features", "n_classes", "unlabeled_weight"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise _errors.invalid(
                    "other", f"other must have the same {name}; got {mine} and {theirs}"
                )
        # In the units of the larger ones, so that nothing overflows.
        scale, unit = min(self.scale, other.scale), max(self.weight_unit, other.weight_unit)
        a = self._with_unlabeled(other).in_units(scale, unit)
        b = other._with_unlabeled(self).in_units(scale, unit)
        mean = a.mean + (b.weight / (a.weight + b.weight)) * (b.mean - a.mean)
        a, b = a.about(mean), b.about(mean)
        return replace(
            a,
            totals=a.totals + b.totals,
            weights=a.weights + b.weights,
            sums=a.sums + b.sums,
            second=_sum_of_known(a.second, b.second),
            unlabeled_square=_sum_of_known(a.unlabeled_square, b.unlabeled_square),
            centring=a.centring + b.centring,
        )

    def about(self, shift: Array) -> Moments:
        """The same statistics about another shift."""
        xp, _ = _backend.place_of(shift)
        # Between the two shifts as they are represented: what rounding left of the mean stays in
        # the sums.
        step = shift if self.shift is None else shift - self.shift
        step = step if self.scale == 1.0 else step * self.scale
        second = self.second
        if second is not None:
            # second − q·stepᵀ − step·qᵀ + Q·step·stepᵀ, the last term in halves.
            sums, weight = self.signed_sums
            cross = (sums - 0.5 * weight * step)[:, None] * step[None, :]
            second = second - cross
            second -= cross.T
        square = None if self.is_supervised else self._moved_square(step, xp)
        return replace(
            self,
            shift=shift,
            sums=self.sums - self.weights[:, None] * step,
            second=second,
            unlabeled_square=square,
        )

    @property
    def signed_sums(self) -> tuple[Array, float]:
        """Σ s w z, shape (d,), and Σ s w."""
        xp, _ = _backend.place_of(self.sums)
        total = xp.sum(self.sums[: self.n_classes, :], axis=0)
        if not self.is_supervised:
            total = total - self.unlabeled_weight * self.sums[self.n_classes, :]
        return total, float(self.signs @ self.totals)

    def _moved_square(self, step: Array, xp: Any) -> Array:
        rest, weight = self.sums[self.n_classes, :], float(self.totals[self.n_classes])
        return self.unlabeled_square - 2.0 * xp.sum(rest * step) + weight * xp.sum(step * step)

    def in_units(self, scale: float, weight_unit: float) -> Moments:
        """The same statistics with another scale and another unit of weights."""
        if scale == self.scale and weight_unit == self.weight_unit:
            return self
        factor, step = self.weight_unit / weight_unit, scale / self.scale
        _check_range(self.totals * factor, _backend.dtype_name(self.sums.dtype), self.totals > 0)

        def times(values: Array | None, by: float) -> Array | None:
            return None if values is None else values * by

        return replace(
            self,
            totals=self.totals * factor,
            weights=self.weights * factor,
            sums=self.sums * (factor * step),
            second=times(self.second, factor * step * step),
            unlabeled_square=times(self.unlabeled_square, factor * step * step),
            scale=scale,
            weight_unit=weight_unit,
            centring=self.centring * (factor * step * step),
        )

    def with_centring(self, centring: float) -> Moments:
        """The same statistics, and what is derived from them, with another `centring`."""
        same = copy.copy(self)
        object.__setattr__(same, "centring", centring)
        return same

    def astype(self, dtype: Any) -> Moments:
        """The same statistics in another dtype."""
        xp, _ = _backend.place_of(self.sums)
        names = ("weights", "shift", "sums", "second", "unlabeled_square")
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        for name, part in parts.items():
            parts[name] = None if part is None else xp.astype(part, dtype, copy=False)
        return replace(self, **parts)

    def reindexed(self, positions: np.ndarray, n_classes: int) -> Moments:
        """With the classes at other positions among `n_classes`; others have no samples."""
        if len(positions) == n_classes == self.n_classes:
            return self
        if not self.is_supervised:
            positions = np.append(positions, n_classes)
        height = n_classes + (not self.is_supervised)
        totals = np.zeros(height)
        totals[positions] = self.totals
        return replace(
            self,
            totals=totals,
            weights=placed(self.weights, positions, height),
            sums=placed(self.sums, positions, height),
        )

    def only(self, classes: np.ndarray) -> Moments:
        """With some of the classes only, which have all samples."""
        if len(classes) == self.n_classes:
            return self
        place = _backend.place_of(self.sums)
        groups = classes if self.is_supervised else np.append(classes, self.n_classes)
        index = _backend.from_host(groups, place)
        return replace(
            self,
            totals=self.totals[groups],
            weights=place.xp.take(self.weights, index, axis=0),
            sums=place.xp.take(self.sums, index, axis=0),
        )

    def _with_unlabeled(self, like: Moments) -> Moments:
        """With a group of samples without a label, if `like` has one."""
        if like.is_supervised or not self.is_supervised:
            return self
        place = _backend.place_of(self.sums)
        xp, device = place
        square = xp.zeros((), dtype=self.sums.dtype, device=device)
        padded = self.n_classes + 1
        return replace(
            self,
            totals=np.append(self.totals, 0.0),
            weights=placed(self.weights, np.arange(self.n_classes), padded),
            sums=placed(self.sums, np.arange(self.n_classes), padded),
            unlabeled_square=square,
        )


def _sum_of_known(a: Array | None, b: Array | None) -> Array | None:
    return None if a is None or b is None else a + b


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
    rows: Rows, groups: Groups, *, second: bool = False, by_column: bool = False
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
    """
    if groups.weights is not None:
        _check_range(groups.weights, _backend.dtype_name(rows.dtype))
    frame = _probe_frame(rows, second or not groups.is_supervised, by_column)
    while True:
        moments = _moments_in(frame, rows, groups, second)
        better = _better_frame(frame, moments, rows, groups)
        if not isinstance(better, _Frame):
            return moments.with_centring(better)
        frame = better


def _check_range(weights: np.ndarray, dtype: str, counted: Any = True) -> None:
    """Raise ValueError if weights, in units of the largest, would vanish; some may not count."""
    info = np.finfo(dtype)
    least = float(info.smallest_normal) / float(info.eps)
    smallest = float(np.min(weights, initial=np.inf, where=counted))
    if smallest < least:
        raise _errors.invalid(
            "sample_weight",
            f"sample_weight times class_weight must not differ by more than a factor of "
            f"{1.0 / least:.0e} in {dtype}; got a smallest weight of {smallest:.1e} "
            "relative to a largest near 1. Drop those samples with a weight of 0",
        )


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
    safe = SAFE_OFFSET_SUMS if dtype == "float64" and not squared else SAFE_OFFSET_SQUARES
    if rows.is_sparse:  # a shift would fill it, and costs a second moment half its digits
        safe = SAFE_OFFSET_SPARSE if squared else math.inf
        return _Frame(None, _scale_for(rows.probe_size(), dtype), 0.0, safe)
    probe = rows.probe(PROBE_ROWS)
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
    if by_column and not is_far:
        variances = xp.mean(deviations * deviations, axis=0)
        is_far = bool(read(xp.any(mean * mean > SAFE_OFFSET_COLUMN * variances))[0])
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


def _moments_in(frame: _Frame, rows: Rows, groups: Groups, second: bool) -> Moments:
    totals = groups.totals
    weights = _backend.from_host(totals, rows.place, rows.dtype)
    sums, total, square = _sums(rows, groups, frame, second)
    if frame.shift is not None and rows.is_sparse:  # whose sums are about the origin
        sums = sums - weights[:, None] * (frame.shift * frame.scale)
    return Moments(
        totals,
        weights,
        sums,
        frame.shift,
        total,
        square,
        groups.unlabeled_weight,
        frame.scale,
        groups.weight_unit,
    )


def _better_frame(frame: _Frame, moments: Moments, rows: Rows, groups: Groups) -> _Frame | float:
    """The frame in which to sum again, or W·‖offset‖² if the sums are as good as they can be.

    Any NaN or infinity in X reaches the sums, so finite sums prove a finite X.
    """
    xp, _ = rows.place
    dtype = _backend.dtype_name(rows.dtype)
    offset = moments.offset
    if moments.second is not None:
        scatter = moments.square()
    else:
        scatter = xp.sum(moments.between**2)
        if not moments.is_supervised:
            scatter = scatter + moments.unlabeled_scatter
    # A sum of magnitudes is not finite if one of them is not.
    size = xp.sum(xp.abs(moments.sums / moments.weight))
    size, offset_square, square = map(float, read(size, xp.sum(offset * offset), scatter))
    finite = math.isfinite(size) and math.isfinite(square) and math.isfinite(offset_square)
    if not finite or size > LARGE_SUM:
        if not finite:
            rows.raise_if_not_finite()
        scale = _scale_for(rows.largest_deviation(frame.shift), dtype)
        if scale != frame.scale and not frame.trials:
            return frame._replace(scale=scale, spread=0.0, trials=1)
        if not finite:
            raise _errors.too_large(dtype)
    centring = moments.weight * offset_square  # what is subtracted to centre the scatter
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
        return frame._replace(shift=moments.mean, trials=2)
    if not frame.is_weighted and _has_small_weights(groups):
        size = _weighted_size(frame, moments, rows, groups)
        if 0.0 < size < SMALL_SIZE:
            scale = frame.scale * _scale_for(size, dtype)
            return frame._replace(scale=scale, spread=0.0, is_weighted=True)
    raw = centring
    if rows.is_sparse and frame.shift is not None:
        shift = frame.shift * moments.scale
        raw = moments.weight * float(read(xp.sum(shift * shift))[0])
    if moments.second is not None or not moments.is_supervised:
        _warn_if_far(rows, raw, scatter)
    return raw


def _warn_if_far(rows: Rows, centring: float, scatter: float) -> None:
    """Warn if centring, which subtracts as much from the squares of X, loses digits of a sparse X.

    Dense rows are shifted instead.
    """
    dtype = _backend.dtype_name(rows.dtype)
    if rows.is_sparse and centring > FAR[dtype] * scatter:
        warnings.warn(
            "X is sparse and its mean is much larger than its spread, so centring it loses digits "
            f"of {dtype}. Subtract a constant from columns with large means, or pass a dense X",
            stacklevel=6,
        )


def _has_small_weights(groups: Groups) -> bool:
    """Whether rows that hardly count may have set the unit."""
    if groups.scatter_weights is None:
        return False
    weights = np.abs(groups.scatter_weights)
    return bool(weights.min() < SMALL_SIZE**2 * weights.max())


def _weighted_size(frame: _Frame, moments: Moments, rows: Rows, groups: Groups) -> float:
    """√(Σ |s| w ‖z‖² / Σ |s| w): another pass, unless the second moment is known."""
    weights = np.abs(np.asarray(groups.scatter_weights))
    if moments.second is not None:
        square = moments.square(sign=moments.unlabeled_weight)
    else:
        kernel = _BlockSums(0, frame.shift, False, rows.block_length(3), frame.scale, False)
        *_, square = rows.map_rows(kernel, 2 * rows.d, None, None, None, rows.put(weights))
    return math.sqrt(max(0.0, float(read(square)[0])) / float(weights.sum()))


def _sums(
    rows: Rows, groups: Groups, frame: _Frame, second: bool
) -> tuple[Array, Array | None, Array | None]:
    """Sums by group, the second moment, and the squares of samples without a label."""
    height, shift, scale = groups.n_groups, frame.shift, frame.scale
    # In memory the rows of very many groups are gathered from all over X.
    few = row_sums.is_few(height, rows.d, rows.is_sparse)
    apart = rows.in_memory and not few
    unlabeled = rows.put(groups.unlabeled_weights)
    kernel = _block_sums(rows, 0 if apart else height, shift, scale, second)
    sums = total = square = None
    if not apart or second or unlabeled is not None:
        # Very many codes are sorted on the host, block by block: they need not travel.
        codes, weights = (None, None) if apart else (groups.codes, groups.weights)
        if few:
            codes, weights = rows.put_codes(groups.codes), rows.put(groups.weights)
        signed = rows.put(groups.scatter_weights) if second else None
        made = kernel.made_per_row(rows, signed, unlabeled)
        made += 0 if apart else row_sums.one_hot_width(height, rows.is_sparse)
        sums, total, square = rows.map_rows(kernel, made, codes, weights, signed, unlabeled)
    if apart:
        sums = row_sums.sum_many(
            rows,  # type: ignore[arg-type]  # in memory: dense or sparse
            groups.codes,
            height,
            groups.weights,
            shift,
            scale,
        )
    return sums, total, square


def with_second(moments: Moments, rows: Rows, groups: Groups) -> Moments:
    """The same moments with the second moment: one more pass over X, in a bad frame two."""
    signed = rows.put(groups.scatter_weights)
    if not rows.is_sparse:
        found = _add_second(moments, rows, signed)
        scatter = float(read(found.square())[0]) - moments.centring
        if moments.centring <= SAFE_OFFSET_SQUARES * scatter:
            return found
    found = _add_second(moments.about(moments.mean), rows, signed)
    if rows.is_sparse:
        _warn_if_far(rows, moments.centring, float(read(found.square())[0]))
    return found


def _add_second(moments: Moments, rows: Rows, signed: Array | None) -> Moments:
    kernel = _block_sums(rows, 0, moments.shift, moments.scale, second=True)
    made = kernel.made_per_row(rows, signed, None)
    _, total, _ = rows.map_rows(kernel, made, None, None, signed, None)
    return replace(moments, second=total)


def _is_moderate(scale: float, dtype: Any) -> bool:
    return abs(math.log2(scale)) <= SAFE_EXPONENT[_backend.dtype_name(dtype)]


def _block_sums(
    rows: Rows, height: int, shift: Array | None, scale: float, second: bool
) -> _BlockSums:
    scale_first = not _is_moderate(scale, rows.dtype)
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

    def made_per_row(self, rows: Rows, signed: Array | None, unlabeled: Array | None) -> int:
        """Numbers that are allocated per row, in addition to one-hot codes."""
        copies = (self.shift is not None) + (unlabeled is not None) + (signed is not None)
        # A scaled copy in one piece, if there is room, gives the same bits as X in other units.
        copies += self.second and self.scale_first and not rows.has_room_for_copy
        return rows.d * copies

    def of_columns(self, columns: slice) -> _BlockSums:
        """The same for rows that have some of the columns only."""
        return self if self.shift is None else replace(self, shift=self.shift[columns])

    def __call__(
        self,
        rows: Array,
        codes: Array | None,
        weights: Array | None,
        signed: Array | None,
        unlabeled: Array | None,
    ) -> tuple[Array | None, Array | None, Array | None]:
        if self.shift is not None and not isinstance(rows, Sparse):
            rows = rows - self.shift
        sums = total = square = None
        if self.height:
            sums = row_sums.sum_block(rows, codes, self.height, weights, self.scale)
        if self.second:
            total = self._second_moment(rows, signed)
        if unlabeled is not None:
            square = self._square(rows, unlabeled)
        return sums, total, square

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

    def _square(self, rows: Array, weights: Array) -> Array:
        """Σ w ‖z‖² of the rows."""
        xp, _ = _backend.place_of(rows)
        if not isinstance(rows, Sparse):
            rows = rows if self.scale == 1.0 else rows * self.scale
            return xp.sum(xp.sum(rows * rows, axis=1) * weights)
        if self.shift is not None:
            return rows.sum_squares(weights, self._width(rows), self.scale, self.shift)
        return xp.sum((rows if self.scale == 1.0 else rows * self.scale).row_squares() * weights)

    def _width(self, rows: Sparse) -> int:
        return max(1, self.made // max(1, rows.shape[0]))
