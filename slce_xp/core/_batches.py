r"""Effects of batches: what the samples of a batch share, whatever their class.

Class means :math:`\alpha` and shifts of batches :math:`\beta` are those of the additive model
:math:`x_i = \alpha_{j(i)} + \beta_{b(i)} + \varepsilon_i`, by weighted least squares. They need
nothing but the sums of X by class and batch. Samples without the shifts differ from X by a matrix
of the rank of the batches, so that passes over X remain as they are.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from .. import _backend
from .._backend import Array, Sparse
from ._centred import Centred, Frame
from ._groups import Groups
from ._moments import GroupMoments, powers_of
from ._rows import Rows


class Batches(NamedTuple):
    """The cells, of class and batch, that have samples.

    Attributes
    ----------
    codes : numpy.ndarray of int, shape (n,)
        The batch of each sample, from 0 to B − 1.
    cells : Groups
        The cell of each sample.
    classes, batches : numpy.ndarray of int, shape (C,)
        The class and the batch of each cell.
    """

    codes: np.ndarray
    cells: Groups
    classes: np.ndarray
    batches: np.ndarray

    @classmethod
    def of(cls, groups: Groups, codes: np.ndarray) -> Batches:
        """Cells of classes and batches; all samples have a label."""
        n_batches = int(codes.max()) + 1
        pairs, of_sample = np.unique(groups.codes * n_batches + codes, return_inverse=True)
        cells = groups._replace(codes=of_sample, n_classes=len(pairs), n_groups=len(pairs))
        return cls(codes, cells, *np.divmod(pairs, n_batches))

    @property
    def joined(self) -> tuple[np.ndarray, np.ndarray]:
        """Masks of the classes and of the batches that the first batch can be compared with.

        Two batches can be compared if they have a class in common, or each one with a third.
        """
        there = np.zeros((self.classes.max() + 1, self.batches.max() + 1), dtype=bool)
        there[self.classes, self.batches] = True
        classes = there[:, 0]
        for _ in range(there.shape[1]):
            classes = there @ (classes @ there)
        return classes, classes @ there

    def shifts(self) -> np.ndarray:
        """β as a linear function of the cells' sums, shape (B, C); their weighted mean is zero."""
        weights = self.cells.totals
        n_classes = int(self.classes.max()) + 1
        design = np.concatenate([_marks(self.classes), _marks(self.batches)], axis=1)
        solved = np.linalg.pinv(design.T @ (weights[:, None] * design), hermitian=True) @ design.T
        found = solved[n_classes:]
        return np.asarray(found - (weights @ design[:, n_classes:]) @ found / weights.sum())


def _marks(codes: np.ndarray) -> np.ndarray:
    return np.asarray(codes[:, None] == np.arange(codes.max() + 1), dtype=np.float64)


class Effects:
    """Shifts of batches, estimated from the moments of cells.

    Parameters
    ----------
    batches : Batches
    cells : GroupMoments
        Of the cells as classes.

    Attributes
    ----------
    shifts : array, shape (B, d)
        β in units of scaled rows.
    """

    def __init__(self, batches: Batches, cells: GroupMoments) -> None:
        self.batches, self._cells = batches, cells
        self.linear = batches.shifts()
        self.shifts = self._put(self.linear) @ cells.sums
        marks = _marks(batches.batches)
        # X̃ᵀX̃ = XᵀX − factorᵀ·β − βᵀ·factor, with the sums of batches less half of W·β as factor.
        self.factor = self._put(marks.T) @ cells.sums
        self.factor = self.factor - self._put(0.5 * (cells.totals @ marks))[:, None] * self.shifts

    def _put(self, values: np.ndarray) -> Array:
        return _backend.from_host(
            values, _backend.place_of(self._cells.sums), self._cells.sums.dtype
        )

    def removed(self) -> GroupMoments:
        """The moments of the classes, of samples without the shifts."""
        cells, batches = self._cells, self.batches
        xp = _backend.namespace_of(cells.sums)
        marks = _marks(batches.classes)
        weights = marks.T @ (cells.totals[:, None] * _marks(batches.batches))
        squares = cells.squares - 2.0 * xp.sum(self.factor * self.shifts, axis=0)
        squares = xp.clip(squares, 0.0)
        second = cells.second
        if second is not None:
            cross = self.factor.T @ self.shifts
            second = second - cross
            second -= cross.T
        return replace(
            cells,
            totals=marks.T @ cells.totals,
            sums=self._put(marks.T) @ cells.sums - self._put(weights) @ self.shifts,
            squares=squares,
            second=second,
            powers=None,
        )

    def powers(self, rows: Rows) -> Array:
        """The `powers` of moments, of samples without the shifts: one pass."""
        cells = self._cells
        term = partial(_power_term, Frame(cells.scale, cells.centre), self.shifts)
        codes = rows.put_codes(self.batches.codes)
        return rows.sum(term, 5 * rows.d, codes, rows.put(self.batches.cells.weights))[0]


def _power_term(
    frame: Frame, shifts: Array, block: Array, codes: Array, weights: Array | None
) -> tuple[Array]:
    rows = frame.dense(block.dense() if isinstance(block, Sparse) else block)
    rows -= _backend.namespace_of(shifts).take(shifts, codes, axis=0)
    return (powers_of(rows, weights),)


class WithoutEffects(Centred):
    """Samples without effects of batches: X̃ = (I − E·T)·X, E marks batches and β = T·X."""

    def __init__(
        self, rows: Rows, groups: Groups, frame: Frame, effects: Effects, *, is_near: bool = False
    ) -> None:
        super().__init__(rows, groups, frame, is_near=is_near)
        self._effects, batches = effects, effects.batches
        codes = rows.put_codes(batches.codes)
        self._marks = self.rooted(_backend.one_hot(codes, len(effects.linear), self.like))
        linear = rows.put(np.ascontiguousarray(effects.linear.T[batches.cells.codes]))
        self._linear = self.rooted(linear)  # Tᵀ

    def _without(self, columns: Array) -> Array:
        """(I − E·T)·U."""
        return columns - self._marks @ (self._linear.T @ columns)

    def _adjoint(self, columns: Array) -> Array:
        """(I − E·T)ᵀ·U."""
        return columns - self._linear @ (self._marks.T @ columns)

    def times(self, columns: Array) -> Array:
        """X̃·V."""
        return self._without(super().times(columns))

    def combine(self, columns: Array) -> Array:
        """X̃ᵀ·U."""
        return super().combine(self._adjoint(columns))

    def gram_times(self, columns: Array) -> Array:
        """X̃·X̃ᵀ·U."""
        return self._without(super().gram_times(self._adjoint(columns)))

    def outer(self, factors: Array | None = None) -> Array:
        """X̃·X̃ᵀ, of columns times factors."""
        half = self._without(super().outer(factors))
        return self._without(half.T)

    def scatter_times(self, columns: Array) -> Array:
        """X̃ᵀ·X̃·V."""
        shifts, factor = self._effects.shifts, self._effects.factor
        product = super().scatter_times(columns)
        product -= factor.T @ (shifts @ columns)
        product -= shifts.T @ (factor @ columns)
        return product
