"""Class statistics of the data: sums over rows that add and merge.

One pass gives the weights, the class sums, the squares of columns and, if asked for, the d × d
second moment. All are taken about a centre near the mean, so that data far from the origin lose no
digits, and of rows multiplied by a power of two, so that neither squares nor fourth powers of X
leave the range of the dtype.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from .. import _backend, _errors
from .._backend import Array, Place, Sparse, read
from ._centred import Frame
from ._groups import Groups
from ._rows import Rows, largest_magnitude

# Rows from which the centre is taken.
PROBE_ROWS = 64
# Sums are taken again about the mean if its distance from the centre exceeds the spread this often.
FAR = 1.0
WEIGHTS_OF_FIT = "sample_weight times class_weight"
# Rows are not shifted before they are multiplied up to this W‖m‖² over T, unless a matrix is
# formed: a copy of each block is saved for at most five times the rounding.
NEAR = 4.0


@dataclass(frozen=True)
class GroupMoments:
    """Additive statistics of groups of samples: the K classes, and samples without a label.

    Attributes
    ----------
    totals : numpy.ndarray, shape (G,)
        The weight of each group on the host; the number of its samples if none has a weight.
        G is K, or K + 1 if some samples have no label.
    sums : array, shape (G, d)
        Σ w z over the samples of each group, with z = scale·x − centre.
    squares : array, shape (1, d) or (2, d)
        Σ w z² of each column, over samples with a label and over those without.
    centre : array, shape (d,)
        In units of scaled rows.
    second : array, shape (d, d), or None
        Σ s w z zᵀ over all samples, with the sign s = 1, or −λ without a label.
    powers : array, shape (2, d), or None
        Σ w z³ and Σ w z⁴ of each column, if all samples have a label.
    unlabeled_weight : float
        λ.
    scale : float
        Factor of the rows, a power of two.
    weight_unit : float
        Unit of the weights, a power of four.
    summed : float
        Σ |s| w ‖z‖² as the sums were taken, about any centre: rounding is relative to it.
    spread : float
        The largest √(Σ w ‖z‖² / W) of sums as they were taken: the mean is rounded relative to it.
    """

    totals: np.ndarray
    sums: Array
    squares: Array
    centre: Array
    second: Array | None = None
    powers: Array | None = None
    unlabeled_weight: float = 1.0
    scale: float = 1.0
    weight_unit: float = 1.0
    summed: float = 0.0
    spread: float = 0.0

    @cached_property
    def is_supervised(self) -> bool:
        """True if every sample has a label."""
        return bool(self.squares.shape[0] == 1)

    @cached_property
    def n_classes(self) -> int:
        """K."""
        return len(self.totals) - (not self.is_supervised)

    @property
    def n_features(self) -> int:
        """The number of features, d."""
        return int(self.sums.shape[1])

    @cached_property
    def factors(self) -> np.ndarray:
        """What each group counts in the scatter: 1, or −λ without a label; shape (G,)."""
        factors = np.ones(len(self.totals))
        factors[self.n_classes :] = -self.unlabeled_weight
        return factors

    @cached_property
    def weight(self) -> float:
        """Σ w over all samples."""
        return float(self.totals.sum())

    @property
    def unit_exponent(self) -> int:
        """The power of two that scatters, eigenvalues and losses are multiples of."""
        return self.weight_exponent - 2 * (math.frexp(self.scale)[1] - 1)

    @property
    def weight_exponent(self) -> int:
        """The power of two that weights are multiples of."""
        return math.frexp(self.weight_unit)[1] - 1

    @cached_property
    def weights(self) -> Array:
        """The weight of each group, shape (G,), on the device of the data."""
        return self._put(self.totals)

    @property
    def class_weights(self) -> Array:
        """The weight of each class, shape (K,)."""
        return self.weights[: self.n_classes]

    def _put(self, values: np.ndarray) -> Array:
        return _backend.from_host(values, _backend.place_of(self.sums), self.sums.dtype)

    @cached_property
    def offset(self) -> Array:
        """The mean of z, shape (d,)."""
        return _backend.namespace_of(self.sums).sum(self.sums, axis=0) / self.weight

    @cached_property
    def mean(self) -> Array:
        """The mean of all samples, shape (d,)."""
        mean = self.centre + self.offset
        return mean if self.scale == 1.0 else mean / self.scale

    @property
    def centroids(self) -> Array:
        """The class means, shape (K, d)."""
        means = self.sums[: self.n_classes, :] / self.class_weights[:, None]
        means += self.centre
        return means if self.scale == 1.0 else means / self.scale

    @cached_property
    def between(self) -> Array:
        """B, shape (K, d), rows √W_j·(c_j − m): the between-class scatter is BᵀB."""
        root = _backend.namespace_of(self.sums).sqrt(self.class_weights)[:, None]
        rows = self.sums[: self.n_classes, :] / root
        rows -= root * self.offset
        return rows

    @cached_property
    def column_squares(self) -> Array:
        """Σ |s| w (x − m)² of each column, shape (d,): the diagonal of S_t if all have a label."""
        squares = self._squares_about(self.offset)
        if self.is_supervised:
            return squares[0, :]
        return squares[0, :] + self.unlabeled_weight * squares[1, :]

    def rounding_squares(self, eps: float) -> Array:
        """The variance of each feature, shape (d,), up to which it may be rounding."""
        size = 8.0 * eps * (self.centre + self.offset)
        return _backend.namespace_of(size).maximum(64.0 * eps * self.offset**2, size * size)

    @cached_property
    def on_host(self) -> OnHost:
        """Its numbers per feature: one read."""
        parts = [self.squares, self.offset, self.centre]
        if not self.is_supervised:
            known = self.sums[: self.n_classes, :]
            parts.append(_backend.namespace_of(known).sum(known, axis=0))
        return OnHost(*read(*parts))

    @property
    def weights_by_label(self) -> np.ndarray:
        """Σ w over samples with a label and over those without, shape (1,) or (2,), on the host."""
        return np.add.reduceat(self.totals, [0] if self.is_supervised else [0, self.n_classes])

    def _squares_about(self, step: Array) -> Array:
        """`squares` about the centre plus a step."""
        xp, k = _backend.namespace_of(self.sums), self.n_classes
        sums = xp.sum(self.sums[:k, :], axis=0)[None, :]
        if not self.is_supervised:
            sums = xp.concat([sums, self.sums[k:, :]], axis=0)
        return moved_squares(self.squares, sums, self._put(self.weights_by_label)[:, None], step)

    def _powers_about(self, step: Array) -> Array | None:
        """`powers` about the centre plus a step."""
        if self.powers is None:
            return None
        xp, squares, weight = _backend.namespace_of(self.sums), self.squares[0, :], self.weight
        cubes, fourths = self.powers[0, :], self.powers[1, :]
        sums = xp.sum(self.sums, axis=0)
        return xp.stack([
            cubes - step * (3.0 * squares - step * (3.0 * sums - weight * step)),
            fourths
            - step * (4.0 * cubes - step * (6.0 * squares - step * (4.0 * sums - weight * step))),
        ])  # fmt: skip

    @property
    def supports(self) -> Array:
        """How many samples the spread of each feature rests on, shape (d,).

        With the distances r from the mean it is (Σ w r²)² / Σ w r⁴: n / 3 for a Gaussian, and one
        for a feature that is constant but for one sample.
        """
        xp, squares = _backend.namespace_of(self.sums), self.column_squares
        powers = self._powers_about(self.offset)
        assert powers is not None
        fourths = powers[1, :]
        known = fourths > 0.0
        counts = squares * squares / xp.where(known, fourths, xp.ones_like(fourths))
        most = self.weight * xp.ones_like(counts)
        counts = xp.where(known, xp.minimum(counts, most), most)
        return counts * math.ldexp(1.0, self.weight_exponent)

    @property
    def total_loss(self) -> Array:
        """The loss without any component, shape (): tr(S_b), and λ·tr(S_t) of the unlabelled."""
        xp = _backend.namespace_of(self.sums)
        loss = xp.sum(self.between * self.between)
        if self.is_supervised:
            return loss
        return loss + self.unlabeled_weight * xp.sum(self._squares_about(self.offset)[1, :])

    def scatter(self) -> Array:
        """C = Σ s w (x − m)(x − m)ᵀ, shape (d, d)."""
        return self._second_about(self.offset)

    def _second_about(self, step: Array) -> Array:
        if self.is_supervised and step is self.offset:
            second = (-self.weight * step)[:, None] * step
            second += self.second
            return second
        factors = self.factors
        signed = self._put(factors) @ self.sums
        # second − q·stepᵀ − step·qᵀ + Q·step·stepᵀ, the last term in halves.
        cross = (0.5 * float(factors @ self.totals) * step - signed)[:, None] * step
        second = self.second + cross
        second += cross.T
        return second

    # ------------------------------------------------------------ arithmetic

    def about(self, centre: Array) -> GroupMoments:
        """The same statistics about another centre, in units of scaled rows.

        Sums are moved between the two as they are represented: what rounding left of a mean stays
        in the sums.
        """
        step = centre - self.centre
        squares = self._squares_about(step)
        second = None if self.second is None else self._second_about(step)
        sums = self.sums - self.weights[:, None] * step
        powers = self._powers_about(step)
        return replace(
            self, centre=centre, sums=sums, squares=squares, second=second, powers=powers
        )

    def about_mean(self) -> GroupMoments:
        """The same statistics about the mean."""
        return self.about(self.centre + self.offset)

    def __add__(self, other: GroupMoments) -> GroupMoments:
        """The statistics of both sets of samples, about a point between their means.

        Both must have the same features and classes; `scale` and `weight_unit` may differ.
        """
        if not isinstance(other, GroupMoments):
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
        share = b._pivot_weight / (a._pivot_weight + b._pivot_weight)
        pivot = a.centre + share * (b.centre - a.centre)
        a, b = a.about(pivot), b.about(pivot)
        xp = _backend.namespace_of(a.sums)
        squares = read(*(xp.sum(m.squares, axis=1) for m in (a, b)))
        both = [(m, s, s.sum() / m.weight) for m, s in zip((a, b), squares, strict=True)]
        summed = [max(m.summed, float(m._absolute(s))) for m, s, _ in both]
        spread = max(max(m.spread, math.sqrt(max(0.0, variance))) for m, _, variance in both)
        return replace(
            a,
            totals=a.totals + b.totals,
            sums=a.sums + b.sums,
            squares=a.squares + b.squares,
            second=None if a.second is None or b.second is None else a.second + b.second,
            powers=None if a.powers is None or b.powers is None else a.powers + b.powers,
            summed=sum(summed),
            spread=spread,
        )

    @cached_property
    def absolute_weight(self) -> float:
        """Σ |s| w over all samples."""
        return self.weight if self.is_supervised else float(np.abs(self.factors) @ self.totals)

    @property
    def _pivot_weight(self) -> float:
        return self.absolute_weight or self.weight  # λ may be zero, and no sample have a label

    def _absolute(self, squares: Array) -> Array:
        """Sums over samples with a label, plus λ times those over the others: (1|2, …) ↦ (…)."""
        if self.is_supervised:
            return squares[0, ...]
        return squares[0, ...] + self.unlabeled_weight * squares[1, ...]

    def in_units(self, scale: float, weight_unit: float) -> GroupMoments:
        """The same statistics with another scale and another unit of weights."""
        if scale == self.scale and weight_unit == self.weight_unit:
            return self
        factor, step = self.weight_unit / weight_unit, scale / self.scale
        check_range(self.totals * factor, _backend.dtype_name(self.sums.dtype), self.totals > 0)
        square = factor * step * step
        return replace(
            self,
            totals=self.totals * factor,
            sums=self.sums * (factor * step),
            squares=self.squares * square,
            centre=self.centre * step,
            second=None if self.second is None else self.second * square,
            powers=None
            if self.powers is None
            else self.powers * square * self._put(np.array([[step], [step * step]])),
            scale=scale,
            weight_unit=weight_unit,
            summed=self.summed * square,
            spread=self.spread * step,
        )

    def move(self, place: Place) -> GroupMoments:
        """The same in another library or on another device."""
        moved = [_backend.move(a, place) for a in (self.sums, self.squares, self.centre)]
        second = None if self.second is None else _backend.move(self.second, place)
        sums, squares, centre = moved
        return replace(self, sums=sums, squares=squares, centre=centre, second=second)

    def reindexed(self, positions: np.ndarray, n_classes: int) -> GroupMoments:
        """With the classes at other positions among `n_classes`; others have no samples."""
        if len(positions) == n_classes == self.n_classes:
            return self
        if not self.is_supervised:
            positions = np.append(positions, n_classes)
        return self._placed(positions, n_classes + (not self.is_supervised))

    def only(self, classes: np.ndarray) -> GroupMoments:
        """With some of the classes only, which have all samples."""
        if len(classes) == self.n_classes:
            return self
        groups = classes if self.is_supervised else np.append(classes, self.n_classes)
        place = _backend.place_of(self.sums)
        sums = place.xp.take(self.sums, _backend.from_host(groups, place), axis=0)
        return replace(self, totals=self.totals[groups], sums=sums)

    def _placed(self, positions: np.ndarray, height: int) -> GroupMoments:
        """With groups at their positions among `height`, zeros elsewhere."""
        xp, device = place = _backend.place_of(self.sums)
        totals = np.zeros(height)
        totals[positions] = self.totals
        index = np.full(height, self.sums.shape[0])
        index[positions] = np.arange(self.sums.shape[0])
        nothing = xp.zeros((1, self.n_features), dtype=self.sums.dtype, device=device)
        rows = xp.concat([self.sums, nothing], axis=0)
        sums = xp.take(rows, _backend.from_host(index, place), axis=0)
        return replace(self, totals=totals, sums=sums)

    def _with_unlabeled(self, like: GroupMoments) -> GroupMoments:
        """With a group of samples without a label, if `like` has one."""
        if like.is_supervised or not self.is_supervised:
            return self
        xp = _backend.namespace_of(self.sums)
        squares = xp.concat([self.squares, xp.zeros_like(self.squares)], axis=0)
        padded = self._placed(np.arange(self.n_classes), self.n_classes + 1)
        return replace(padded, squares=squares, powers=None)


def moved_squares(squares: Any, sums: Any, weights: Any, step: Any) -> Any:
    """Σ w (z − step)² of sums Σ w z² and Σ w z of groups, (g, d), and their weights, (g, 1)."""
    return squares - (2.0 * sums - weights * step) * step


class OnHost(NamedTuple):
    """Numbers per feature, on the host.

    Attributes
    ----------
    squares, offset, centre : numpy.ndarray
        As in `GroupMoments`.
    labeled : numpy.ndarray, shape (d,), or None
        Σ w z over samples with a label, if not all have one.
    """

    squares: np.ndarray
    offset: np.ndarray
    centre: np.ndarray
    labeled: np.ndarray | None = None


def check_range(
    weights: np.ndarray, dtype: str, counted: Any = True, *, core: bool = False
) -> None:
    """Raise ValueError if weights, in units of the largest, would vanish; some may not count."""
    info = np.finfo(dtype)
    least = float(info.smallest_normal) / float(info.eps)
    smallest = float(np.min(weights, initial=np.inf, where=counted))
    if smallest < least:
        name, product = ("weights",) * 2 if core else ("sample_weight", WEIGHTS_OF_FIT)
        raise _errors.invalid(
            name,
            f"{product} must not differ by more than a factor of "
            f"{1.0 / least:.0e} in {dtype}; got a smallest weight of {smallest:.1e} "
            "relative to a largest near 1. Drop those samples with a weight of 0",
        )


# ---------------------------------------------------------------- passes


def moments_of(
    rows: Rows,
    groups: Groups,
    *,
    second: bool = False,
    dense: bool = False,
    powers: bool = False,
) -> GroupMoments:
    """The moments of all samples: one pass, or more if the first rows were not typical.

    Parameters
    ----------
    rows : Rows
    groups : Groups
    second : bool
        Whether to compute the second moment, too.
    dense : bool
        Whether to make blocks of sparse rows dense, and shift them, without a second moment, too.
    powers : bool
        Whether to sum third and fourth powers of blocks that are dense, if all have a label.
    """
    powers = powers and groups.is_supervised
    is_shifted = second or dense or not rows.is_sparse
    if groups.weights is not None:
        check_range(groups.weights, _backend.dtype_name(rows.dtype), core=rows.name == "x")
    if second:
        rows.prepare_for_second_moment()
    # Powers and products lose the digits of a column that is far from the origin.
    frame = _probed_frame(rows, is_shifted, must_shift=second or powers)
    for _ in range(4):  # units, those of what is left near the mean, and the mean itself
        moments, moved = _moments_in(frame, rows, groups, second, is_shifted, powers)
        better = _better_frame(frame, moments, moved if is_shifted else 0.0, rows)
        if better is None:
            break
        frame = better
    if not math.isfinite(moments.summed):
        raise _errors.too_large(_backend.dtype_name(rows.dtype), rows.name)
    return moments


def _probed_frame(rows: Rows, is_shifted: bool, *, must_shift: bool) -> Frame:
    """About the mean of a few rows; about zero if rows need not be shifted."""
    xp, device = rows.place
    if not is_shifted:
        return Frame(1.0, xp.zeros(rows.d, dtype=rows.dtype, device=device))
    probe = rows.probe(PROBE_ROWS)
    centre = xp.mean(probe, axis=0)
    if rows.is_ready and not must_shift:
        size = xp.max(xp.abs(probe))  # relative to it, squares are in range
        size = xp.where(size > 0.0, size, xp.ones_like(size))
        square, whole = read(xp.sum((centre / size) ** 2), xp.sum((probe / size) ** 2))
        if (NEAR + 1.0) * square < NEAR * whole / probe.shape[0]:
            return Frame(1.0, xp.zeros_like(centre), shifts_products=True)
    return Frame(1.0, centre)


def _better_frame(frame: Frame, moments: GroupMoments, moved: float, rows: Rows) -> Frame | None:
    """The frame in which to sum again; None if the sums are good enough.

    Any NaN or infinity in X reaches the sums, so finite sums prove a finite X. Squares of squares,
    and of their rounding, must be in range.
    """
    info, size = np.finfo(_backend.dtype_name(rows.dtype)), moments.summed
    if not 0.0 < size < math.inf:  # squares may have left the range
        if not math.isfinite(size):
            rows.raise_if_not_finite()
        largest = largest_magnitude(rows)
        exponent = math.frexp(largest)[1] if math.isfinite(largest) else info.maxexp
        # Powers of two that the dtype holds with all digits of their inverse.
        scale = math.ldexp(1.0, -max(2 - info.maxexp, min(exponent, info.maxexp - 2)))
        if scale == frame.scale or not largest:
            return None
        xp, centre = rows.place.xp, frame.centre  # which may have left the range, too
        centre = xp.where(xp.isfinite(centre), centre, xp.zeros_like(centre))
        return _in_scale(frame._replace(centre=centre), scale)
    least, most = float(info.smallest_normal) ** (1 / 3), float(info.max) ** (1 / 3)
    if not least < size < most:
        factor = math.ldexp(1.0, -(math.frexp(size)[1] // 2))
        scale = frame.scale * factor
        if float(info.tiny) < scale < float(info.max):
            return _in_scale(frame, scale)
    if moved > (NEAR if frame.shifts_products else FAR) * (size - moved):
        return Frame(frame.scale, frame.centre + moments.offset)
    return None


def _in_scale(frame: Frame, scale: float) -> Frame:
    """The same centre in other units, by two factors of which neither overflows."""
    factor = scale / frame.scale
    root = math.ldexp(1.0, (math.frexp(factor)[1] - 1) // 2)
    centre = frame.centre * root * (factor / root)
    return frame._replace(scale=scale, centre=centre)


def _moments_in(
    frame: Frame, rows: Rows, groups: Groups, second: bool, is_shifted: bool, powers: bool
) -> tuple[GroupMoments, float]:
    """GroupMoments by one pass, and Σ |s| w·‖offset‖²."""
    height = groups.n_groups
    term = partial(_moment_term, frame, height, second, is_shifted, powers)
    # The centred copy; with signs also products of it, and for sparse rows a dense copy.
    copies = 1 + (is_shifted and rows.is_sparse) + 2 * (second and not groups.is_supervised)
    copies += 2 * powers
    made = copies * rows.d + _backend.made_by_sums(
        rows.place, rows.d, height, is_sparse=rows.is_sparse and not is_shifted
    )
    sums, squares, matrix, summed_powers = rows.sum(
        term,
        made,
        rows.put_codes(groups.codes),
        rows.put(groups.weights),
        None if groups.is_supervised else rows.put(groups.root),
        rows.put(groups.sign),
    )
    xp = rows.place.xp
    if squares is None:
        squares = xp.linalg.diagonal(matrix)[None, :]
    moments = GroupMoments(
        groups.totals,
        sums,
        squares,
        frame.centre,
        matrix,
        summed_powers,
        groups.unlabeled_weight,
        frame.scale,
        groups.weight_unit,
    )
    host = moments.on_host
    size = float(moments._absolute(host.squares.sum(axis=1)))
    # Not another object: this one keeps what is derived from its sums.
    object.__setattr__(moments, "summed", size)
    object.__setattr__(moments, "spread", math.sqrt(float(host.squares.sum()) / moments.weight))
    return moments, float(moments._pivot_weight * (host.offset @ host.offset))


def _moment_term(
    frame: Frame,
    height: int,
    second: bool,
    is_shifted: bool,
    powers: bool,
    block: Array,
    codes: Array,
    weights: Array | None,
    root: Array | None,
    sign: Array | None,
) -> tuple[Array, Array | None, Array | None, Array | None]:
    """What a block adds to class sums, squares of columns, the second moment and other powers.

    Samples without a label have a `root`, √(w·|s|), and a sign. The squares are None if they are
    the diagonal of the second moment.
    """
    xp = _backend.namespace_of(codes)
    if isinstance(block, Sparse) and not is_shifted:
        block = frame.scaled(block)
        return (
            _backend.sums_by_code(block, codes, height, weights),
            block.sum_squares(_by_label(xp, weights, sign, block)),
            None,
            None,
        )
    if isinstance(block, Sparse):
        block = block.dense()
    is_view = frame.shifts_products
    rows = frame.scaled(block) if is_view else frame.dense(block)
    sums = _backend.sums_by_code(rows, codes, height, weights)
    others = powers_of(rows, weights) if powers else None
    if sign is None and (second or weights is None):
        if weights is not None:
            rows *= xp.sqrt(weights)[:, None]
        if second:
            return sums, None, _backend.gram(rows), others
        return sums, _backend.column_squares(rows, is_own=not is_view)[None, :], None, others
    product = None
    if second:
        rooted = rows * root[:, None]  # type: ignore[index]
        product = rooted.T @ (rooted * sign[:, None])  # type: ignore[index]
    by_label = _by_label(xp, weights, sign, rows)
    if is_view:
        return sums, by_label @ (rows * rows), product, others
    rows *= rows
    return sums, by_label @ rows, product, others


def powers_of(rows: Array, weights: Array | None) -> Array:
    """Σ w z³ and Σ w z⁴ of each column, (m, d) ↦ (2, d)."""
    xp = _backend.namespace_of(rows)
    squares = rows * rows
    weighted = squares if weights is None else squares * weights[:, None]
    cubes = xp.sum(weighted * rows, axis=0)
    squares *= weighted
    return xp.stack([cubes, xp.sum(squares, axis=0)])


def _by_label(xp: Any, weights: Array | None, sign: Array | None, like: Array) -> Array | None:
    """Weights of samples with a label and of those without, shape (2, m); None for ones."""
    if sign is None:
        return None if weights is None else weights[None, :]
    marks = xp.astype(xp.stack([sign > 0.0, sign < 0.0]), like.dtype)
    return marks if weights is None else marks * weights
