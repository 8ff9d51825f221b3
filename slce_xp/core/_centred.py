"""X as the eigenproblem has it: rows √(w·|s|)·(scale·x − centre), and products with them.

Weights, units, integers and offsets are handled here. s is 1, or −λ for a sample without a label.
A block of dense rows is a centred copy. A block of rows that are sparse, or need neither conversion
nor a copy because X is near the origin, is known by its products, from which those of the centre
are subtracted.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from .. import _backend
from .._backend import Array, Sparse
from ._groups import Groups
from ._rows import MemoryRows, Rows

# Features for each sample from which on vectors of samples, which take two products with X a pass,
# are used for their length: the basis of an iteration would be larger than a part of X.
WIDE = 16


class Frame(NamedTuple):
    """Coordinates of rows.

    Attributes
    ----------
    scale : float
        A power of two.
    centre : array, shape (d,)
        Subtracted from scaled rows.
    shifts_products : bool
        True to subtract it from products of dense rows, too, instead of from the rows.
    """

    scale: float
    centre: Array
    shifts_products: bool = False

    def dense(self, block: Array, columns: slice = slice(None)) -> Array:
        """scale·x − centre, a copy, of dense rows with some of the columns."""
        centre = self.centre if columns == slice(None) else self.centre[columns]
        if self.scale == 1.0 and block.dtype == centre.dtype:
            return block - centre
        # A conversion is a copy: what follows need not be another one.
        rows = _backend.namespace_of(centre).astype(block, centre.dtype)
        if self.scale != 1.0:
            rows *= self.scale
        rows -= centre
        return rows

    def scaled(self, block: Array) -> Array:
        """scale·x: of scale 1, the block itself."""
        return block if self.scale == 1.0 else block * self.scale

    def rows(self, block: Array, root: Array | None = None) -> Any:
        """√w·(scale·x − centre) of a block: an array, or something with the same products."""
        if self.shifts_products or isinstance(block, Sparse):
            return _Shifted(self.scaled(block), self.centre, root)
        rows = self.dense(block)
        if root is not None:
            rows *= root[:, None]
        return rows


class _Shifted(NamedTuple):
    """√w·(x − 1·cᵀ) of rows x, by its products."""

    x: Array
    centre: Array
    root: Array | None

    def __matmul__(self, columns: Array) -> Array:
        x = self.x
        product = x.times(columns) if isinstance(x, Sparse) else x @ columns
        product -= self.centre @ columns
        return product if self.root is None else product * self.root[:, None]

    @property
    def T(self) -> _Adjoint:  # noqa: N802 -- as arrays call it
        return _Adjoint(self)


class _Adjoint(NamedTuple):
    block: _Shifted

    def __matmul__(self, columns: Array) -> Array:
        x, centre, root = self.block
        xp = _backend.namespace_of(x)
        columns = columns if root is None else columns * root[:, None]
        product = x.adjoint(columns) if isinstance(x, Sparse) else x.T @ columns
        product -= centre[:, None] * xp.sum(columns, axis=0)
        return product


class Centred:
    """The samples of an eigenproblem.

    Parameters
    ----------
    rows : Rows
    groups : Groups
    frame : Frame
        Its centre is the mean of all samples.
    is_near : bool
        True if X is so near the origin that products may be shifted instead of rows.
    """

    def __init__(self, rows: Rows, groups: Groups, frame: Frame, *, is_near: bool = False) -> None:
        frame = frame._replace(shifts_products=is_near and rows.is_ready)
        self._rows, self._groups, self._frame = rows, groups, frame
        self.n, self.d, self.place = rows.n, rows.d, rows.place
        self.root = rows.put(groups.root)
        self.sign = rows.put(groups.sign)

    # ------------------------------------------------------------ products

    def scatter_times(self, columns: Array) -> Array:
        """C·V with C = Σ s·w·(x − m)(x − m)ᵀ, (d, b) ↦ (d, b): one pass over X."""
        term = partial(_scatter_term, self._frame, columns)
        made = int(columns.shape[1]) + self._made(columns)
        return self._rows.sum(term, made, self.root, self.sign)[0]

    def times(self, columns: Array) -> Array:
        """X·V, (d, b) ↦ (n, b): one pass over X."""
        term = partial(_product_term, self._frame, columns)
        return self._rows.join(term, self._made(columns), self.root)

    def combine(self, columns: Array) -> Array:
        """Xᵀ·U, (n, b) ↦ (d, b): one pass over X."""
        term = partial(_adjoint_term, self._frame)
        return self._rows.sum(term, self._made(columns), self.root, columns)[0]

    def gram_times(self, columns: Array) -> Array:
        """X·Xᵀ·U, (n, b) ↦ (n, b): one pass over X if its columns can be read, otherwise two."""
        rows = self._rows
        if not isinstance(rows, MemoryRows) or rows.is_sparse:
            return Centred.times(self, Centred.combine(self, columns))  # a subclass adds to all
        columns = self.rooted(columns)
        total = None
        for block, x in rows.columns(self.n):  # nothing of length d is allocated
            x = self._frame.dense(x, block)
            total = _backend.add(total, x @ (x.T @ columns))
            del x  # before the next block is copied
        return self.rooted(total)

    def outer(self, factors: Array | None = None) -> Array:
        """X·Xᵀ, shape (n, n), of columns times factors: one pass over X."""
        rows = self._rows
        if isinstance(rows, MemoryRows) and self._frame.shifts_products and factors is None:
            is_view = self._frame.scale == 1.0
            gram = rows.outer(None if is_view else lambda x, _: self._frame.scaled(x))
            share = self._rows.put(self._groups.shares)
            mean = gram @ share
            gram -= mean[:, None]
            gram -= mean - share @ mean
        else:
            gram = rows.outer(partial(_prepared, self._frame, factors))
        if self.root is not None:
            gram *= self.root[:, None]
            gram *= self.root
        return gram

    def columns(self, positions: np.ndarray) -> Array:
        """Some columns of X, (n, m)."""
        index = _backend.from_host(positions, self.place)
        term = partial(_columns_term, self._frame, index)
        return self._rows.join(term, 2 * self.d, self.root)

    def scatter_columns(self, positions: np.ndarray) -> Array:
        """Some columns of S_t, (d, m): one pass over X."""
        index = _backend.from_host(positions, self.place)
        term = partial(_scatter_columns_term, self._frame, index)
        return self._rows.sum(term, 2 * self.d, self.root)[0]

    def _made(self, columns: Array) -> int:
        return int(columns.shape[1]) + (0 if self._rows.is_sparse else self.d)

    # ------------------------------------------------------------ values per sample

    def rooted(self, columns: Array) -> Array:
        """Columns of values per sample times √(w·|s|)."""
        return columns if self.root is None else columns * self.root[:, None]

    def signed(self, columns: Array) -> Array:
        """Columns of values per sample, times −1 for those without a label."""
        return columns if self.sign is None else columns * self.sign[:, None]

    @cached_property
    def indicators(self) -> Array:
        """N, (n, K), with B = NᵀX: √w over √W_j for the samples of class j."""
        groups = self._groups
        marks = _backend.one_hot(self._rows.put_codes(groups.codes), groups.n_classes, self.like)
        return self.rooted(marks) / self._rows.put(np.sqrt(groups.totals[: groups.n_classes]))

    @property
    def like(self) -> Array:
        """An array of the library and device and of the dtype of sums."""
        return self._frame.centre

    def draw(self, seed: int, length: int, count: int) -> Array:
        """Seeded normal columns, (length, count)."""
        return _backend.draw_normal(seed, (length, count), self.place, self._rows.dtype)

    @property
    def is_sparse(self) -> bool:
        """True if rows are sparse."""
        return self._rows.is_sparse

    @property
    def shifts_products(self) -> bool:
        """True if rows are not shifted before they are multiplied."""
        return self._rows.is_sparse or self._frame.shifts_products

    @property
    def prefers_samples(self) -> bool:
        """True if vectors of samples are so much shorter that two products a pass are worth it."""
        is_read = not (self._rows.in_memory or self._rows.is_chunked)
        return WIDE * self.n < self.d and self._groups.is_supervised and not is_read


def _prepared(frame: Frame, factors: Array | None, x: Array, columns: slice) -> Array:
    x = frame.dense(x, columns)
    if factors is not None:
        x *= factors[columns]
    return x


def _scatter_term(
    frame: Frame, columns: Array, block: Array, root: Array | None, sign: Array | None
) -> tuple[Array]:
    rows = frame.rows(block, root)
    scores = rows @ columns
    if sign is not None:
        scores *= sign[:, None]
    return (rows.T @ scores,)


def _product_term(frame: Frame, columns: Array, block: Array, root: Array | None) -> tuple[Array]:
    return (frame.rows(block, root) @ columns,)


def _adjoint_term(frame: Frame, block: Array, root: Array | None, columns: Array) -> tuple[Array]:
    return (frame.rows(block, root).T @ columns,)


def columns_term(index: Array, block: Array) -> tuple[Array]:
    """Some columns of a block of rows, (m, d) ↦ (m, b), dense."""
    if isinstance(block, Sparse):
        return (block.columns(index),)
    return (_backend.take_columns(block, index),)


def _columns_term(frame: Frame, index: Array, block: Array, root: Array | None) -> tuple[Array]:
    xp = _backend.namespace_of(index)
    part = Frame(frame.scale, xp.take(frame.centre, index))
    return (part.rows(*columns_term(index, block), root),)


def _scatter_columns_term(
    frame: Frame, index: Array, block: Array, root: Array | None
) -> tuple[Array]:
    (columns,) = _columns_term(frame, index, block, root)
    return (frame.rows(block, root).T @ columns,)
