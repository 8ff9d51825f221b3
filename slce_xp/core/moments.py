"""Class statistics of the data: sums over rows that add and merge.

One pass gives the weights, the class sums and, if asked for, the d × d second moment. All are
taken about a shift, so that data far from the origin lose no digits when they are centred
afterwards, and of rows multiplied by a power of two, so that neither squares nor fourth powers of
X leave the range of its dtype.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from slce_xp import _backend, _errors
from slce_xp._backend import Array, Sparse
from slce_xp.core.sums import placed, scaled

# Exponents of two up to which rows are squared as they are, and scaled afterwards.
SAFE_EXPONENT = {"float32": 30, "float64": 300}


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
    squares : array, shape (2,), or None
        Σ w ‖z‖² over samples with a label, and over those without; None if all have one.
    unlabeled_weight : float
        λ.
    scale : float
        Factor of the rows after the shift, a power of two.
    weight_unit : float
        Unit of the weights, a power of two.
    centring : float
        ``Σ |s| w·‖offset‖²`` as the sums were taken, which centring subtracts from
        ``Σ |s| w ‖z‖²``: it shows how many digits are lost.
    unlabeled_size : float
        The sum over batches of ``‖Σ w z‖``, of samples without a label as they were summed: it
        shows how many digits of their mean are lost. 0 for a single batch.
    """

    totals: np.ndarray
    weights: Array
    sums: Array
    shift: Array | None = None
    second: Array | None = None
    squares: Array | None = None
    unlabeled_weight: float = 1.0
    scale: float = 1.0
    weight_unit: float = 1.0
    centring: float = 0.0
    unlabeled_size: float = 0.0

    @property
    def is_supervised(self) -> bool:
        """True if every sample has a label."""
        return self.squares is None

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
    def absolute_weight(self) -> float:
        """Sum of the weights of all samples times the magnitudes of their signs."""
        return float(np.abs(self.signs) @ self.totals)

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
    def pivot_offset(self) -> Array:
        """``Σ |s| w z / Σ |s| w``, scale·(pivot − shift), shape (d,)."""
        weight = self.absolute_weight
        if self.is_supervised or weight == 0.0:
            return self.offset
        xp, _ = _backend.place_of(self.sums)
        total = xp.sum(self.sums[: self.n_classes, :], axis=0)
        return (total + self.unlabeled_weight * self.sums[self.n_classes, :]) / weight

    @cached_property
    def _unscaled_offset(self) -> Array:
        return self._unscaled(self.offset)

    @cached_property
    def mean(self) -> Array:
        """The mean of all samples, shape (d,)."""
        offset = self._unscaled_offset
        return offset if self.shift is None else self.shift + offset

    @property
    def pivot(self) -> Array:
        """The point about which ``Σ |s| w ‖x − pivot‖²`` is smallest, shape (d,).

        It is the mean if all samples have a label. Sums about it, of all samples or of some, have
        no terms larger than the scatter about the mean of all samples, wherever that is. The mean
        of some of them may be far away, if others that hardly count in the scatter weigh most.
        """
        if self.pivot_offset is self.offset:
            return self.mean
        offset = self._unscaled(self.pivot_offset)
        return offset if self.shift is None else self.shift + offset

    def _unscaled(self, values: Array) -> Array:
        return values if self.scale == 1.0 else values / self.scale

    @property
    def centroids(self) -> Array:
        """The class means, shape (K, d)."""
        values = self.sums[: self.n_classes, :] / self.class_weights[:, None]
        values = scaled(values, 1.0 / self.scale)
        if self.shift is not None:
            values += self.shift
        return values

    @cached_property
    def roots(self) -> Array:
        """√W_j, shape (K, 1)."""
        xp, _ = _backend.place_of(self.sums)
        return xp.sqrt(self.class_weights)[:, None]

    @cached_property
    def between(self) -> Array:
        """B, shape (K, d), rows √W_j·(c_j − m): the between-class scatter is BᵀB."""
        root = self.roots
        rows = self.sums[: self.n_classes, :] / root
        rows -= root * self.offset
        return rows

    @property
    def unlabeled_scatter(self) -> Array:
        """Σ w ‖x − m‖² over the samples without a label, shape ()."""
        return self._moved_squares(self.offset)[1]

    @property
    def variance(self) -> Array:
        """Σ w ‖x − m‖² / W, shape (), if some samples have no label."""
        xp, _ = _backend.place_of(self.sums)
        return xp.sum(self._moved_squares(self.offset)) / self.weight

    def square(self) -> Array:
        """``Σ |s| w ‖z‖²``, shape (); by the second moment if all samples have a label."""
        xp, _ = _backend.place_of(self.sums)
        if self.squares is None:
            return xp.linalg.trace(self.second)
        return self.squares[0] + self.unlabeled_weight * self.squares[1]

    # ------------------------------------------------------------ rows as the sums were taken

    def shifted(self, rows: Array) -> Array:
        """Dense rows minus the shift, not yet scaled; sparse rows as they are."""
        return rows if self.shift is None or isinstance(rows, Sparse) else rows - self.shift

    def left(self, offset: Array, is_sparse: bool) -> Array:
        """An offset from the shift, as scaled rows have it that `shifted` returns, shape (d,)."""
        if is_sparse and self.shift is not None:
            return offset + self.shift * self.scale
        return offset

    @property
    def factors(self) -> tuple[float, float]:
        """Factors of the scale, one for each side of a product with rows."""
        return _backend.factors_of(self.scale)

    @property
    def is_moderate(self) -> bool:
        """Whether rows can be squared as they are, and scaled afterwards."""
        return is_moderate(self.scale, self.sums.dtype)

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
        """The statistics of both sets of samples, about their common pivot.

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
        weights = a.absolute_weight, b.absolute_weight
        if sum(weights) == 0.0:  # without a label, and λ = 0
            weights = a.weight, b.weight
        pivot = a.pivot + (weights[1] / sum(weights)) * (b.pivot - a.pivot)
        unlabeled_size = a._size_of_unlabeled() + b._size_of_unlabeled()
        a, b = a.about(pivot), b.about(pivot)
        return replace(
            a,
            totals=a.totals + b.totals,
            weights=a.weights + b.weights,
            sums=a.sums + b.sums,
            second=_sum_of_known(a.second, b.second),
            squares=_sum_of_known(a.squares, b.squares),
            centring=a.centring + b.centring,
            unlabeled_size=unlabeled_size,
        )

    def _size_of_unlabeled(self) -> float:
        if self.is_supervised:
            return 0.0
        xp, _ = _backend.place_of(self.sums)
        size = xp.linalg.vector_norm(self.sums[self.n_classes, :])
        return max(self.unlabeled_size, float(_backend.read(size)[0]))

    def about(self, shift: Array) -> Moments:
        """The same statistics about another shift."""
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
        return replace(
            self,
            shift=shift,
            sums=self.sums - self.weights[:, None] * step,
            second=second,
            squares=None if self.is_supervised else self._moved_squares(step),
        )

    @property
    def signed_sums(self) -> tuple[Array, float]:
        """Σ s w z, shape (d,), and Σ s w."""
        xp, _ = _backend.place_of(self.sums)
        total = xp.sum(self.sums[: self.n_classes, :], axis=0)
        if not self.is_supervised:
            total = total - self.unlabeled_weight * self.sums[self.n_classes, :]
        return total, float(self.signs @ self.totals)

    def _moved_squares(self, step: Array) -> Array:
        """`squares` about another point."""
        place = _backend.place_of(self.sums)
        xp, n_classes = place.xp, self.n_classes
        sums = xp.stack([xp.sum(self.sums[:n_classes, :], axis=0), self.sums[n_classes, :]])
        weights = np.array([self.totals[:n_classes].sum(), self.totals[n_classes]])
        weights = _backend.from_host(weights, place, self.sums.dtype)
        return self.squares - 2.0 * xp.sum(sums * step, axis=1) + weights * xp.sum(step * step)

    def in_units(self, scale: float, weight_unit: float) -> Moments:
        """The same statistics with another scale and another unit of weights."""
        if scale == self.scale and weight_unit == self.weight_unit:
            return self
        factor, step = self.weight_unit / weight_unit, scale / self.scale
        check_range(self.totals * factor, _backend.dtype_name(self.sums.dtype), self.totals > 0)

        def times(values: Array | None, by: float) -> Array | None:
            return None if values is None else values * by

        return replace(
            self,
            totals=self.totals * factor,
            weights=self.weights * factor,
            sums=self.sums * (factor * step),
            second=times(self.second, factor * step * step),
            squares=times(self.squares, factor * step * step),
            scale=scale,
            weight_unit=weight_unit,
            centring=self.centring * (factor * step * step),
            unlabeled_size=self.unlabeled_size * (factor * step),
        )

    def with_centring(self, centring: float) -> Moments:
        """The same statistics, and what is derived from them, with another `centring`."""
        same = copy.copy(self)
        object.__setattr__(same, "centring", centring)
        return same

    def astype(self, dtype: Any) -> Moments:
        """The same statistics in another dtype."""
        xp, _ = _backend.place_of(self.sums)
        names = ("weights", "shift", "sums", "second", "squares")
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
        """With a group of samples without a label, if `like` has one; of known second moment."""
        if like.is_supervised or not self.is_supervised:
            return self
        xp, _ = _backend.place_of(self.sums)
        square = self.square()
        padded = self.n_classes + 1
        return replace(
            self,
            totals=np.append(self.totals, 0.0),
            weights=placed(self.weights, np.arange(self.n_classes), padded),
            sums=placed(self.sums, np.arange(self.n_classes), padded),
            squares=xp.stack([square, xp.zeros_like(square)]),
        )


def _sum_of_known(a: Array | None, b: Array | None) -> Array | None:
    return None if a is None or b is None else a + b


def check_range(weights: np.ndarray, dtype: str, counted: Any = True) -> None:
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


def is_moderate(scale: float, dtype: Any) -> bool:
    """Whether rows can be squared before they are scaled."""
    return abs(math.log2(scale)) <= SAFE_EXPONENT[_backend.dtype_name(dtype)]
