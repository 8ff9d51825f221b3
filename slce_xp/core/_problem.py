"""M = 2·BᵀB − C of one data set, and the rounding that its eigenvalues have."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .. import _backend
from .._backend import Array
from .._errors import invalid
from . import _eigen
from ._batches import Batches, Effects, WithoutEffects
from ._centred import Centred, Frame
from ._groups import Groups
from ._moments import NEAR, GroupMoments, moments_of, moved_squares
from ._rows import Rows

# Rounding of eigenvalues in units of eps·T, calibrated on drawn problems: of a formed M, and of
# products with rows, which forms other than "scatter" take.
FORMED, MULTIPLIED = 16.0, 32.0
# ρ₀ of an X of zeros: matrices are shifted by it to be solved with, and squares stay in range.
LEAST_ROUNDING = {"float32": 1e-19, "float64": 1e-154}


class Problem:
    """The eigenproblem of class statistics and, unless they are all that is known, of samples.

    Attributes
    ----------
    moments : GroupMoments
    samples : Centred or None
    sizes : Sizes
        What rounding is relative to; of `moments` by default.
    effects : Effects or None
        What was removed of the samples, and is not in the moments.
    between : array, shape (K, d)
        B, with S_b = BᵀB.
    """

    def __init__(
        self,
        moments: GroupMoments,
        samples: Centred | None = None,
        sizes: Sizes | None = None,
        effects: Effects | None = None,
    ) -> None:
        self.moments, self._samples = moments, samples
        self._sizes, self.effects = sizes, effects
        self.between = moments.between
        self.place = _backend.place_of(moments.sums)
        self.d, self.n_classes = moments.n_features, moments.n_classes
        self.is_supervised = moments.is_supervised
        # At most so many eigenvalues are positive.
        self.most_positive = min(self.n_classes - 1, self.d) if self.is_supervised else self.d

    @property
    def samples(self) -> Centred:
        """The samples."""
        assert self._samples is not None
        return self._samples

    def times(self, columns: Array) -> Array:
        """M·V, (d, b) ↦ (d, b): one pass over X."""
        product = 2.0 * (self.between.T @ (self.between @ columns))
        product -= self.samples.scatter_times(columns)
        return product

    def matrix(self) -> Array:
        """M, shape (d, d), by the second moment."""
        scatter = self.moments.scatter()  # first: it takes more memory than it returns
        matrix = _backend.gram(self.between)
        matrix *= 2.0
        matrix -= scatter
        return matrix

    @property
    def sizes(self) -> Sizes:
        """What rounding is relative to, on the host."""
        if self._sizes is None:
            self._sizes = sizes_of(self.moments)
        return self._sizes

    @cached_property
    def total(self) -> float:
        """T of the samples without effects of batches: what a tolerance is relative to."""
        return self.sizes.total if self.effects is None else sizes_of(self.moments).total

    def rounding(self, factor: float, total: float | None = None) -> float:
        """ρ₀: how far rounding may move an eigenvalue.

        Parameters
        ----------
        factor : float
            `FORMED` or `MULTIPLIED`.
        total : float, optional
            T = Σ |s| w ‖x − c‖² about the centre of the sums; about the mean by default.
        """
        moments, sizes = self.moments, self.sizes
        total = sizes.total if total is None else total
        eps, weight = _eigen.eps_of(moments.sums), moments.absolute_weight
        size = total + eps * weight * sizes.mean**2
        if self._samples is not None and self._samples.shifts_products:
            if self._samples.is_sparse:  # whose rows may not be shifted for squares, either
                total += 4.0 * eps * moments.summed
            size += 2.0 * math.sqrt(total * weight) * sizes.mean
        if not self.is_supervised:  # M changes with the mean in first order
            pull = (1.0 + moments.unlabeled_weight) * sizes.pull
            size += 2.0 * pull * (sizes.spread + sizes.mean)
        return factor * eps * size or LEAST_ROUNDING[_backend.dtype_name(moments.sums.dtype)]


class Sizes(NamedTuple):
    """Norms of the data.

    Attributes
    ----------
    squares : numpy.ndarray, shape (d,)
        Σ |s| w (x − m)² of each column.
    means : numpy.ndarray, shape (d,)
        The mean, in units of scaled rows.
    pull : float
        ‖Σ w (x − m)‖ over samples with a label, which is zero if all have one.
    spread : float
        √(Σ w ‖x − m‖² / W), if some samples have no label.
    """

    squares: np.ndarray
    means: np.ndarray
    pull: float
    spread: float

    @property
    def total(self) -> float:
        """T, about the mean."""
        return float(self.squares.sum())

    @property
    def mean(self) -> float:
        """‖m‖."""
        return float(np.linalg.norm(self.means))


def sizes_of(moments: GroupMoments) -> Sizes:
    """Norms of the data by their moments: one read."""
    squares, offset, centre, labeled = moments.on_host
    means, weights = centre + offset, moments.weights_by_label
    sums = (moments.weight * offset)[None, :]
    pull, spread = 0.0, 0.0
    if labeled is not None:
        sums = np.stack([labeled, sums[0] - labeled])
        pull = float(np.linalg.norm(labeled - weights[0] * offset))
    squares = moved_squares(squares, sums, weights[:, None], offset)
    squares = np.maximum(squares, 0.0)
    total = squares[0]
    if labeled is not None:
        spread = max(moments.spread, math.sqrt(float(squares.sum()) / moments.weight))
        total = total + moments.unlabeled_weight * squares[1]
    return Sizes(total, means, pull, spread)


def problem_of(
    rows: Rows,
    groups: Groups,
    form: str,
    batches: Batches | None = None,
    *,
    powers: bool = False,
) -> Problem:
    """The eigenproblem of rows of any kind: one pass, with the second moment for "scatter".

    A formed matrix is of dense blocks, and so are its moments; these have `powers` if asked for.
    """
    counted = groups if batches is None else batches.cells
    second, dense = form == "scatter", form == "gram"
    moments = moments_of(
        rows, counted, second=second, dense=dense, powers=powers and batches is None
    )
    centred = moments if second and batches is None else moments.about_mean()
    effects = None if batches is None else Effects(batches, centred)
    known = centred
    if effects is not None:
        known = effects.removed()
        known = replace(known, powers=effects.powers(rows)) if powers else known
    if form == "scatter":
        return Problem(known, None, None if effects is None else sizes_of(moments), effects)
    sizes = sizes_of(moments)
    is_near = moments.absolute_weight * sizes.mean**2 <= NEAR * sizes.total
    frame = Frame(centred.scale, centred.centre)
    if effects is None:
        samples = Centred(rows, groups, frame, is_near=is_near)
    else:
        samples = WithoutEffects(rows, groups, frame, effects, is_near=is_near)
    return Problem(known, samples, sizes, effects)


def no_difference(labels: str) -> ValueError:
    """The error for classes that nothing tells apart; `labels` is what the caller calls them."""
    return invalid(
        labels,
        f"{labels} must hold classes whose means differ; they agree in all features. "
        f"Check {labels}",
    )
