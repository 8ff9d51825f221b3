"""M = 2·S_b − S_t, in the shapes the solvers ask for.

The solvers see matrices only; which rows belong to which class stays in here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp.core import eigen
from slce_xp.core.eigen import gram_of
from slce_xp.core.groups import Groups
from slce_xp.core.moment_sums import (
    SAFE_OFFSET_SPARSE,
    SAFE_OFFSET_SQUARES,
    warn_if_far,
    with_second,
)
from slce_xp.core.moments import Moments
from slce_xp.core.rows import DenseRows, Rows, SparseRows, columns_of
from slce_xp.core.sums import ColumnSquares, one_hot, scaled, sum_rows_by_code, times

# Distance from which samples without a label are summed, over their spread, up to which rounding of
# their mean is that of any sum.
LARGEST_DISTANCE = 64.0


class ScatterOperator:
    """The eigenproblem as class statistics define it: all that the scatter form needs.

    Attributes
    ----------
    between : array, shape (K, d)
        B, with S_b = BᵀB.
    has_samples : bool
        True if X is available, in addition to its statistics.
    """

    has_samples = False

    def __init__(
        self, moments: Moments, seed: int, precision: Any = None, keeps_scatter: bool = False
    ) -> None:
        self._moments = moments
        self._keeps_scatter = keeps_scatter
        self._scatter: Array = None  # C, once it is formed
        self._seed = seed
        # Sums may have more digits than the data that were summed.
        self._precision = precision or moments.sums.dtype
        self.place = _backend.place_of(moments.sums)
        self.dtype = moments.sums.dtype
        self.d: int = moments.sums.shape[1]
        self.mean = moments.mean

    @cached_property
    def between(self) -> Array:
        """B, shape (K, d)."""
        return self._moments.between

    @property
    def centroids(self) -> Array:
        """The class means, shape (K, d)."""
        return self._moments.centroids

    def scatter(self) -> Array:
        """C = Σ s w (x − m)(x − m)ᵀ, shape (d, d): formed by the first call, then kept.

        With labels for all samples it is S_t.
        """
        if self._scatter is None:
            moments = self._with_second()
            total, weight = moments.signed_sums
            offset = moments.offset
            # second − q·oᵀ − o·qᵀ + Q·o·oᵀ with q = Σ s w z and Q = Σ s w. If all samples have a
            # label, that is the second moment minus W·o·oᵀ.
            cross = (0.5 * weight * offset - total)[:, None] * offset[None, :]
            if self.is_supervised:
                cross *= 2.0
            else:
                cross = cross + cross.T
            cross += moments.second
            self._scatter = cross
            self._square = moments.square()
            if not self.is_supervised:  # then centring may add more than there was
                self._square = self._square + moments.absolute_weight * (offset @ offset)
            # As large as C, and not needed any more.
            self._moments = dataclasses.replace(self._moments, second=None)
        return self._scatter

    def _with_second(self) -> Moments:
        return self._moments

    def take_matrix(self) -> tuple[Array, Array]:
        """M = 2·BᵀB − C, shape (d, d), and Σ |s| w ‖z‖², which its rounding is relative to.

        C, as large as M, is released unless it is to be kept.
        """
        scatter = self.scatter()
        if not self._keeps_scatter:
            self._scatter = None
        matrix = gram_of(self.between)
        matrix *= 2.0
        matrix -= scatter
        return matrix, self._square

    def take_within(self) -> Array:
        """S_w = S_t − BᵀB, shape (d, d), of samples with labels; C is released."""
        within = self.scatter()
        self._scatter = None
        within -= gram_of(self.between)
        return within

    def rounding_squares(self, eps: float) -> Array:
        """The variance of each feature, shape (d,), up to which it may be rounding."""
        xp, _ = self.place
        offset, size = self._moments.offset, 8.0 * eps * self.mean * self._moments.scale
        return xp.maximum(64.0 * eps * offset * offset, size * size)

    @property
    def precision(self) -> Any:
        """The dtype of the data, of which the sums may have more digits."""
        return self._precision

    @property
    def weight(self) -> float:
        """Σ w over all samples."""
        return self._moments.weight

    @property
    def scale(self) -> float:
        """The factor of the rows that scatters are of, a power of two."""
        return self._moments.scale

    @property
    def is_supervised(self) -> bool:
        """True if every sample has a label."""
        return self._moments.is_supervised

    def total_loss(self) -> Array:
        """The loss without any component, shape (): tr(S_b), and λ·tr(S_t) of the unlabelled."""
        xp, _ = self.place
        loss = xp.sum(self.between * self.between)
        if self.is_supervised:
            return loss
        return loss + self._moments.unlabeled_weight * self._moments.unlabeled_scatter

    @property
    def class_weights(self) -> Array:
        """The weight of each class, shape (K,)."""
        return self._moments.class_weights

    @property
    def unit_exponent(self) -> int:
        """The power of two that eigenvalues and losses are multiples of."""
        return self._moments.unit_exponent

    @property
    def weight_exponent(self) -> int:
        """The power of two that class weights are multiples of."""
        return self._moments.weight_exponent

    @property
    def centring(self) -> float:
        """Σ |s| w·‖offset‖², which centring subtracts from Σ |s| w ‖z‖²."""
        return self._moments.centring

    def zero_level(self, square: float) -> float:
        """Magnitude up to which an eigenvalue of M may be rounding, given Σ |s| w ‖z‖²."""
        return eigen.zero_level(square, self._precision)

    def mean_rounding(self, scatter: Any) -> Any:
        """How much rounding of the mean may change vᵀMv, given the scatter of X·v.

        If the mean is off by δ, M is by −(1 + λ)(qδᵀ + δqᵀ), with q = Σ w (x − m) over samples with
        a label, which is zero if all have one. As the same sum over those without a label is −q, by
        Cauchy and Schwarz (qᵀv)² is at most min(W_l, W_u / λ) · vᵀS_tv with the weights of either
        kind. A sum of samples gives δ to eps of their spread, and batches to eps of the distances
        that they were summed at.
        """
        if self.is_supervised:
            return 0.0 * scatter
        moments, factor = self._moments, self._moments.unlabeled_weight
        labelled, others = moments.totals[: moments.n_classes].sum(), moments.totals[-1]
        weight = labelled if others >= factor * labelled else others / factor
        variance, pull = self._variance_and_pull
        distance = math.sqrt(variance) + moments.unlabeled_size / moments.weight
        pull = (1.0 + factor) * np.sqrt(np.minimum(pull, weight * np.abs(scatter))) * distance
        return 2.0 * float(np.finfo(_backend.dtype_name(self._precision)).eps) * pull

    def has_exact_mean(self) -> bool:
        """Whether batches were summed at distances from samples without a label like theirs."""
        if self.is_supervised:
            return True
        spread = math.sqrt(self._variance_and_pull[0])
        return self._moments.unlabeled_size <= LARGEST_DISTANCE * spread * self._moments.weight

    @cached_property
    def _variance_and_pull(self) -> tuple[float, float]:
        """Σ w ‖x − m‖² / W, and the square of Σ w (x − m) over samples with a label."""
        xp, _ = self.place
        moments = self._moments
        known = (
            moments.sums[: moments.n_classes, :] - moments.class_weights[:, None] * moments.offset
        )
        pull = xp.sum(known, axis=0)
        variance, square = map(float, read(moments.variance, xp.sum(pull * pull)))
        return max(0.0, variance), square

    def rayleigh(self, vectors: Array) -> tuple[Array, Array] | None:
        """VᵀMV and the scatter of X·V, by a pass over X; None without X."""
        return None

    def draw(self, count: int) -> Array:
        """Seeded normal directions, shape (d, count)."""
        return _backend.draw_normal(self._seed, (self.d, count), self.place, self.dtype)


class CentroidOperator(ScatterOperator):
    """The eigenproblem of one data set, with products that go over its samples."""

    has_samples = True

    def __init__(
        self,
        rows: Rows,
        groups: Groups,
        moments: Moments,
        seed: int,
        keeps_scatter: bool = False,
    ) -> None:
        super().__init__(moments, seed, keeps_scatter=keeps_scatter)
        self._rows = rows
        self._groups = groups
        # √w; None for ones
        self._host_root = None if groups.weights is None else np.sqrt(groups.weights)
        self._root = rows.put(self._host_root)
        # In sample coordinates rows are also times √|s|, and signs are 1, −1 or 0: otherwise
        # samples that hardly count could hide all others in G.
        signs = groups.signs
        self._signs = rows.put(None if signs is None else np.sign(signs))
        self._balance = rows.put(None if signs is None else np.sqrt(np.abs(signs)))
        self.n = rows.n
        self.by_rows = rows.by_rows
        self.n_classes = groups.n_classes
        self._gram: Array = None  # G, once it is formed

    def _with_second(self) -> Moments:
        if self._moments.second is not None:
            return self._moments
        return with_second(self._moments, self._rows, self._groups)

    def gram(self) -> Array:
        """G = X Xᵀ of the centred data, rows times √(w·|s|), (n, n): formed once, then kept."""
        if self._gram is None:
            moments = self._moments
            gram = self._sparse_gram()
            if gram is None:
                late = moments.is_moderate  # scaled as a whole, not block by block
                gram = self._rows.outer(partial(moments.centred, is_scaled=not late))
                gram = scaled(gram, moments.scale**2 if late else 1.0)
            for factor in (self._root, self._balance):
                if factor is not None:
                    gram *= factor[:, None]
                    gram *= factor
            self._gram = gram
        return self._gram

    def _sparse_gram(self, factors: Array | None = None) -> Array | None:
        """Z·Zᵀ of centred rows, features times factors, by X·Xᵀ of a sparse X.

        None unless that is faster than centring dense blocks, and as exact.
        """
        rows, moments = self._rows, self._moments
        if not isinstance(rows, SparseRows):
            return None
        late = moments.is_moderate  # scaled afterwards
        gram = rows.own_outer(factors, 1.0 if late else moments.scale)
        if gram is None:
            return None
        gram = scaled(gram, moments.scale**2 if late else 1.0)
        xp, _ = self.place
        mean = self._mean_left if factors is None else self._mean_left * factors
        if self._root is None:
            means, square = xp.mean(gram, axis=1), xp.linalg.trace(gram)
        else:
            weights = self._root * self._root
            means = gram @ (weights / moments.weight)
            square = weights @ xp.linalg.diagonal(gram)
        square, centring = map(float, read(square, moments.weight * (mean @ mean)))
        if centring > SAFE_OFFSET_SQUARES * (square - centring):
            return None
        gram -= means[:, None]
        gram -= means
        gram += mean @ mean
        return gram

    def take_gram(self) -> Array:
        """G, which belongs to the caller."""
        gram = self.gram()
        self._gram = None
        return gram

    def scaled_gram(self, factors: Array) -> Array:
        """G of features times factors, shape (n, n)."""

        def multiplied(rows: Array, columns: slice = slice(None)) -> Array:
            rows = self._moments.centred(rows, columns)
            rows *= factors[columns]
            return rows

        gram = self._sparse_gram(factors)
        if gram is None:
            gram = self._rows.outer(multiplied)
        return gram if self._root is None else gram * self._root[:, None] * self._root

    def feature_squares(self) -> Array:
        """The diagonal of S_t, with absolute weights, shape (d,): one pass over X."""
        moments, weights = self._moments, self._scale
        if weights is not None and not self.is_supervised:
            weights = _backend.namespace_of(weights).abs(weights)
        squares = ColumnSquares(moments.shift, moments.offset / moments.scale, moments.scale)
        if self._rows.in_memory and not self._rows.is_sparse:
            pieces: list[Array] = []  # of column blocks, which stay in the cache

            def keep(block: slice, columns: Array) -> tuple[()]:
                pieces.extend(squares.of_columns(block)(columns, weights))
                return ()

            self._rows.sum_columns(keep, 2 * self.n)
            return self.place.xp.concat(pieces, axis=1)[0, :]
        (total,) = self._rows.map_rows(squares, 2 * self.d, weights)
        if self._rows.is_sparse:
            total = total - self.centring_squares
        return total[0, :]

    @property
    def centring_squares(self) -> Array:
        """What centring subtracts from the squares of each column as it is read, shape (d,)."""
        return self._moments.absolute_weight * self._mean_left * self._mean_left

    def within_classes(self, values: Array) -> Array:
        """Values per sample minus their class means: (n, j) ↦ (n, j)."""
        return 0.5 * (values - self.reflect(values))

    def class_sums(self, values: Array) -> Array:
        """Class sums of √w times values per sample, over √W_j: (n, r) ↦ (K, r)."""
        groups = self._groups
        sums = sum_rows_by_code(DenseRows(values), groups.codes, groups.n_groups, self._host_root)
        return sums[: self.n_classes, :] / self._moments.roots

    def signed_gram(self, values: Array) -> Array:
        """VᵀSV with S the signs of samples: 1, or −1 without a label; (n, r) ↦ (r, r)."""
        return gram_of(values) if self._signs is None else values.T @ self._signed(values)

    def reflect(self, values: Array) -> Array:
        """D·V with D = 2P − S, P the projector that averages over classes: (n, j) ↦ (n, j)."""
        xp, device = self.place
        means = self.class_sums(values) / self._moments.roots
        if not self.is_supervised:
            nothing = xp.zeros((1, means.shape[1]), dtype=means.dtype, device=device)
            means = xp.concat([means, nothing], axis=0)
        averaged = xp.take(means, self._codes, axis=0)
        averaged = averaged if self._root is None else averaged * self._root[:, None]
        return 2.0 * averaged - self._signed(values)

    def _signed(self, values: Array) -> Array:
        return values if self._signs is None else self._signs[:, None] * values

    @cached_property
    def _codes(self) -> Array:
        return _backend.from_host(self._groups.codes, self.place)

    def apply_scatter(self, rows: Array) -> Array:
        """V·C, (b, d) ↦ (b, d): one pass over X, a sum over its row blocks, unless C is formed."""
        if self._scatter is not None:
            return rows @ self._scatter
        scores = partial(self._products, times(rows, self._moments.factors[0]))
        return self._scatter_of(scores, rows @ self._mean_left)

    def scatter_rows(self, positions: np.ndarray) -> Array:
        """Rows of C at some positions, shape (m, d): one pass over X."""
        index = _backend.from_host(positions, self.place)
        centre = self.place.xp.take(self._mean_left, index)
        return self._scatter_of(partial(self._picked, index, None), centre)

    def _scatter_of(self, scores: Callable[[Array], Array], centre: Array) -> Array:
        """V·C by scores V·Xᵀ, a function of shifted rows, and V·m, shape (b,)."""
        term = partial(self._scatter_term, scores, centre[:, None])
        total, sums = self._rows.sum_rows(term, centre.shape[0] + self._shifted_width)
        total = scaled(total, self._moments.factors[0])
        total -= sums[:, None] * self._mean_left[None, :]
        return total

    def apply(self, rows: Array) -> Array:
        """V·M, (b, d) ↦ (b, d): one pass over X, unless C is formed."""
        return (2.0 * (rows @ self.between.T)) @ self.between - self.apply_scatter(rows)

    def rayleigh(self, vectors: Array) -> tuple[Array, Array]:
        """VᵀMV by the scores X·V, and VᵀS_tV with absolute signs, both (q, q): one pass over X.

        The former is exact to rounding relative to the latter, however much smaller than M it is.
        """
        rows = _backend.copied(vectors.T)  # contiguous: products of strided rows round differently
        left = times(rows, self._moments.factors[0])
        term = partial(self._score_term, left, (rows @ self._mean_left)[:, None])
        made = rows.shape[0] * (1 if self._scale is None else 3) + self._shifted_width
        signed, *absolute = self._rows.sum_rows(term, made)
        matrix = 2.0 * gram_of(self.between @ vectors) - signed
        return matrix, absolute[0] if absolute else signed

    def _score_term(
        self, left: Array, centre: Array, block: slice, data: Array
    ) -> tuple[Array, ...]:
        scores = self._scores(left, data)
        scores -= centre
        if self._scale is None:
            return (scores @ scores.T,)
        signed = (scores * self._scale[block]) @ scores.T
        if self.is_supervised:
            return (signed,)
        return signed, (scores * _backend.namespace_of(scores).abs(self._scale[block])) @ scores.T

    def _scatter_term(
        self, scores_of: Callable[[Array], Array], centre: Array, block: slice, data: Array
    ) -> tuple[Array, Array]:
        data = self._moments.shifted(data)
        scores = scores_of(data)
        scores -= centre
        if self._scale is not None:
            scores *= self._scale[block]
        sums = _backend.namespace_of(scores).sum(scores, axis=1)
        return scaled(scores, self._moments.factors[1]) @ data, sums

    def apply_gram(self, rows: Array) -> Array:
        """U·G, (b, n) ↦ (b, n): one pass over X, unless G is formed.

        A sum over column blocks, so that nothing of length d is made.
        """
        if self._gram is not None:
            return rows @ self._gram
        if self._rows.is_sparse:  # by rows, as it is stored
            return self.project_rows(self.combine_rows(rows))
        first = self._moments.factors[0]
        rows = times(self._rooted(self._without_mean(rows)), first)
        made = rows.shape[0] + (0 if self._moments.shift is None else self.n)
        total, centre = self._rows.sum_columns(partial(self._product_term, rows), made)
        total = scaled(total, first)
        total -= centre[:, None]
        return self._rooted(total)

    def _product_term(self, left: Array, block: slice, data: Array) -> tuple[Array, Array]:
        shift, second = self._moments.shift, self._moments.factors[1]
        data = data if shift is None else data - shift[block]
        scores = scaled(left @ data, second)
        sums = scores @ self._moments.offset[block]
        return scaled(scores, second) @ data.T, sums

    def project_rows(self, rows: Array) -> Array:
        """V·Xᵀ of the centred data, (b, d) ↦ (b, n)."""
        left = times(rows, self._moments.factors[0])
        total = self._rows.join_rows(partial(self._scores, left), self._shifted_width)
        total -= (rows @ self._mean_left)[:, None]
        return self._balanced(self._rooted(total))

    def _scores(self, left: Array, data: Array) -> Array:
        return self._products(left, self._moments.shifted(data))

    def _products(self, left: Array, data: Array) -> Array:
        """V·Xᵀ of shifted rows, with V times the first factor of their scale."""
        # Short matrix first: a BLAS packs the long one, and this way only by rows.
        return scaled(left @ data.T, self._moments.factors[1])

    def columns_at(self, positions: np.ndarray) -> Array:
        """Some columns of the centred data, rows times √w, as the rows of an array: (m, n)."""
        index = _backend.from_host(positions, self.place)
        pick = partial(self._picked, index, self._moments.shift)
        total = self._rows.join_rows(pick, len(positions))
        total -= self.place.xp.take(self._mean_left, index)[:, None]
        return self._rooted(total)

    def _picked(self, index: Array, shift: Array | None, data: Array) -> Array:
        """Some columns of a block of rows, minus a shift of dense rows and scaled, as rows."""
        columns = columns_of(data, index)
        if shift is not None and not self._rows.is_sparse:
            columns -= self.place.xp.take(shift, index)[:, None]
        return scaled(columns, self._moments.scale)

    def combine_rows(self, rows: Array) -> Array:
        """U·X of the centred data, (b, n) ↦ (b, d)."""
        # Centred weights make centred sums, and are the smaller thing to centre.
        first, second = self._moments.factors
        columns = times(self._rooted(self._without_mean(self._balanced(rows))), first).T
        if self._shifted_width:  # in several blocks, of which some libraries would copy each
            columns = _backend.copied(columns)
        (total,) = self._rows.sum_rows(partial(self._sum_term, columns), self._shifted_width)
        return scaled(total, second)

    def _sum_term(self, columns: Array, block: slice, data: Array) -> tuple[Array]:
        return (columns[block, :].T @ self._moments.shifted(data),)

    def indicators(self) -> Array:
        """N, (K, n), rows √w / √W_j on class j, centred: B = N·X."""
        xp, _ = self.place
        weights = self.class_weights
        member = one_hot(self._codes, self.n_classes, weights)
        share = (xp.sqrt(weights) / self._moments.weight)[:, None]
        return self._rooted(member / xp.sqrt(weights)[:, None] - share)

    @cached_property
    def is_near(self) -> bool:
        """Whether rows are near enough to the origin for sums of samples to keep their digits.

        Dense rows are shifted if they are not; for sparse ones it takes a pass over X.
        """
        if not self._rows.is_sparse:
            return True
        (square,) = read(self.place.xp.sum(self.feature_squares()))
        return self.centring <= SAFE_OFFSET_SPARSE * float(square)

    def warn_if_far(self, norm: float) -> None:
        """Warn if products with C, of a given norm, lose digits of a sparse X by centring."""
        # Scores are rounded relative to those of the mean, which is the root of what squares lose.
        warn_if_far(self._rows, math.sqrt(self.centring), math.sqrt(norm))

    @cached_property
    def _mean_left(self) -> Array:
        """The mean of scaled rows as `Moments.shifted` leaves them, shape (d,)."""
        return self._moments.left(self._moments.offset, self._rows.is_sparse)

    def _rooted(self, rows: Array) -> Array:
        """Rows of values per sample times √w."""
        return rows if self._root is None else rows * self._root

    def _balanced(self, rows: Array) -> Array:
        """Rows of values per sample times √|s|."""
        return rows if self._balance is None else rows * self._balance

    def _without_mean(self, rows: Array) -> Array:
        """Rows u of values per sample with Σ √w u = 0."""
        xp, _ = self.place
        if self._root is None:
            return rows - xp.mean(rows, axis=1, keepdims=True)
        return rows - (rows @ self._root)[:, None] * (self._root / self._moments.weight)

    @cached_property
    def _scale(self) -> Array | None:
        """What each sample counts in S_t: s·w."""
        return self._rows.put(self._groups.scatter_weights)

    @property
    def _shifted_width(self) -> int:
        """Numbers that shifting a row makes."""
        return 0 if self._moments.shift is None or self._rows.is_sparse else self.d

    def draw_samples(self, count: int) -> Array:
        """Seeded normal combinations of samples, shape (n, count), without their mean."""
        rows = _backend.draw_normal(self._seed, (self.n, count), self.place, self._rows.dtype)
        return self._without_mean(rows.T).T
