"""M = 2·S_b − S_t, in the shapes the solvers ask for.

The solvers see matrices only; which rows belong to which class stays in here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import cached_property

from slce_xp import _linalg, _xp
from slce_xp._linalg import add, gram_of
from slce_xp._moments import Moments, one_hot, sum_by_class
from slce_xp._source import ArraySource
from slce_xp._validate import Labels
from slce_xp._xp import Array


class CentroidOperator:
    """The eigenproblem of one data set.

    Attributes
    ----------
    between : array, shape (K, d)
        B, with S_b = BᵀB.
    """

    def __init__(self, source: ArraySource, labels: Labels, moments: Moments, seed: int) -> None:
        self._source = source
        self._labels = labels
        self._moments = moments
        self._seed = seed
        self.place = source.place
        self.n, self.d = source.n, source.d
        self.mean = moments.mean
        self.dtype = source.dtype

    @cached_property
    def between(self) -> Array:
        return self._moments.between

    @property
    def centroids(self) -> Array:
        """The class means, shape (K, d)."""
        return self._moments.centroids

    def take_matrix(self) -> tuple[Array, Array]:
        """M = 2·BᵀB − S_t, shape (d, d), and the trace of S_t.

        Can be asked once: the second moment, as large as M, is given up for it.
        """
        xp, _ = self.place
        second, offset = self._moments.second, self._moments.offset
        self._moments = dataclasses.replace(self._moments, second=None)
        trace = xp.linalg.trace(second) - self.n * xp.sum(offset * offset)
        # S_t is the second moment without n·offset·offsetᵀ: one more row beside those of B.
        rows = [math.sqrt(2.0) * self.between, math.sqrt(self.n) * offset[None, :]]
        matrix = gram_of(xp.concat(rows, axis=0))
        matrix -= second
        return matrix, trace

    def zero_level(self, trace: float) -> float:
        """Magnitude below which an eigenvalue of M counts as zero, given the trace of S_t."""
        return _linalg.zero_level(trace, self._moments.mean_square, self.n, self.dtype)

    def gram(self) -> Array:
        """G = X Xᵀ of the centred data, shape (n, n), summed over column blocks."""
        total = None
        for block in self._source.column_blocks(self.n):
            total = add(total, gram_of(self._centred_columns(block).T))
        return total

    def class_sums(self, values: Array) -> Array:
        """Class sums over √n_j of values per sample, (n, r) ↦ (K, r)."""
        xp, _ = self.place
        sums = sum_by_class(ArraySource(values), self._labels)
        return sums / xp.sqrt(self._moments.counts)[:, None]

    def reflect(self, values: Array) -> Array:
        """D·W with D = 2P − I, where P replaces each row by its class mean: (n, j) ↦ (n, j)."""
        xp, _ = self.place
        counts = self._moments.counts[:, None]
        means = sum_by_class(ArraySource(values), self._labels) / counts
        return 2.0 * xp.take(means, self._codes, axis=0) - values

    @cached_property
    def _codes(self) -> Array:
        return _xp.from_host(self._labels.codes, self.place)

    def apply_scatter(self, rows: Array) -> Array:
        """V·S_t, (b, d) ↦ (b, d): one pass over X, a sum over its row blocks."""
        xp, _ = self.place
        offset = self._moments.offset
        centre = (rows @ offset)[:, None]
        total: Array = None
        sums: Array = None
        for block in self._blocks(rows.shape[0]):
            data = self._moments.shifted(self._source.rows(block))
            # Short matrix first: a BLAS packs the long one, and this way only by rows.
            scores = rows @ data.T
            scores -= centre
            total = add(total, scores @ data)
            sums = add(sums, xp.sum(scores, axis=1))
            del data, scores  # before the next block is made, not after
        total -= sums[:, None] * offset[None, :]
        return total

    def apply_gram(self, rows: Array) -> Array:
        """U·X·Xᵀ of the centred data, (b, n) ↦ (b, n): one pass over X.

        A sum over column blocks, so that nothing of length d is made.
        """
        xp, _ = self.place
        shift, offset = self._moments.shift, self._moments.offset
        made = rows.shape[0] + (0 if shift is None else self.n)
        rows = rows - xp.mean(rows, axis=1, keepdims=True)
        total: Array = None
        centre: Array = None
        for block in self._source.column_blocks(made):
            data = self._source.columns(block)
            data = data if shift is None else data - shift[block]
            scores = rows @ data
            total = add(total, scores @ data.T)
            centre = add(centre, scores @ offset[block])
            del data, scores  # before the next block is made, not after
        total -= centre[:, None]
        return total

    def project_rows(self, rows: Array) -> Array:
        """V·Xᵀ of the centred data, (b, d) ↦ (b, n)."""
        xp, _ = self.place
        scores = [
            rows @ self._moments.shifted(self._source.rows(block)).T for block in self._blocks()
        ]
        total = xp.concat(scores, axis=1) if len(scores) > 1 else scores[0]
        total -= (rows @ self._moments.offset)[:, None]
        return total

    def combine_rows(self, rows: Array) -> Array:
        """U·X of the centred data, (b, n) ↦ (b, d)."""
        xp, _ = self.place
        # Centred weights make centred sums, and are the smaller thing to centre.
        rows = rows - xp.mean(rows, axis=1, keepdims=True)
        total = None
        for block in self._blocks():
            data = self._moments.shifted(self._source.rows(block))
            total = add(total, rows[:, block] @ data)
            del data  # before the next block is made, not after
        return total

    def indicators(self) -> Array:
        """N, (K, n), rows 1/√n_j on class j, centred: B = N·X."""
        xp, _ = self.place
        counts = self._moments.counts
        member = one_hot(self._codes, counts.shape[0], self._source)
        return member / xp.sqrt(counts)[:, None] - (xp.sqrt(counts) / self.n)[:, None]

    def _blocks(self, made: int = 0) -> Iterator[slice]:
        """Row blocks for a caller that shifts rows and makes so many numbers more of each."""
        return self._source.row_blocks(made + (0 if self._moments.shift is None else self.d))

    def draw_samples(self, count: int) -> Array:
        """Seeded normal combinations of samples, shape (n, count), without their mean."""
        xp, _ = self.place
        rows = _xp.draw_normal(self._seed, (self.n, count), self.place, self._source.dtype)
        return rows - xp.mean(rows, axis=0)

    def draw(self, count: int) -> Array:
        """Seeded normal directions, shape (d, count)."""
        return _xp.draw_normal(self._seed, (self.d, count), self.place, self._source.dtype)

    def _centred_columns(self, block: slice) -> Array:
        columns = self._source.columns(block)
        if self._moments.shift is None:
            return columns - self._moments.offset[block]
        # In two steps: their sum, the mean, is rounded to the digits of a large number.
        columns = columns - self._moments.shift[block]
        columns -= self._moments.offset[block]
        return columns
