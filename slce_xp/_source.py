"""Where X lives, read in pieces: a pass over the data is a sum over its row blocks.

No one above this file takes more of X at a time than a block, so nothing of the size
of X is ever made beside it. What is done with a block is a function, its *term*: how the
terms are summed is the source's own affair.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from slce_xp import _validate, _xp
from slce_xp._linalg import add
from slce_xp._plan import block_bytes
from slce_xp._xp import Array, Place, Sparse

# What a pass makes of a block: its slice and its lines in, arrays to be summed out.
Term = Callable[[slice, Array], tuple[Array | None, ...]]


class ArraySource:
    """A matrix in memory, read as floating-point blocks.

    Parameters
    ----------
    x : array, shape (n, d)
        Never copied as a whole nor written to. Integers are converted block by block.
    dtype : optional
        What to convert blocks to; by default what `x` is best computed in.
    """

    is_sparse = False

    def __init__(self, x: Array, dtype: Any = None) -> None:
        self._x = x
        self.n, self.d = x.shape
        self.place: Place = _xp.place_of(x)
        self.dtype: Any = dtype or _xp.working_dtype(x)
        xp = self.place.xp
        self._itemsize = int(xp.finfo(self.dtype).bits) // 8
        self._block_bytes = block_bytes(self.n, self.d, self._itemsize)

    def rows(self, index: slice) -> Array:
        """Rows as floats: a view where X has the working dtype."""
        rows = self._x if index == slice(0, self.n) else self._x[index, :]
        return self.place.xp.astype(rows, self.dtype, copy=False)

    def gather(self, index: Array) -> Array:
        """Rows at the given positions, as floats."""
        xp = self.place.xp
        return xp.astype(xp.take(self._x, index, axis=0), self.dtype, copy=False)

    def columns(self, index: slice) -> Array:
        """Columns as floats."""
        columns = self._x if index == slice(0, self.d) else self._x[:, index]
        return self.place.xp.astype(columns, self.dtype, copy=False)

    def probe(self, count: int) -> Array:
        """At most so many rows from all over X, as floats."""
        return self.rows(slice(None, None, -(-self.n // count)))

    def sum_rows(self, term: Term, made: int) -> tuple[Array, ...]:
        """Sum what `term` makes of each row block: one pass over X.

        Parameters
        ----------
        term : function of a slice and the rows there
            Its arrays belong to the sum, which is taken in place.
        made : int
            Numbers that it makes per row.
        """
        totals: tuple[Array, ...] = ()
        with contextlib.closing(self._row_pass(made)) as blocks:
            for block, rows in blocks:
                terms = term(block, rows)
                del rows  # before the next block is made, not after
                totals = _added(totals, terms)
        return totals

    def join_rows(self, piece: Callable[[Array], Array], made: int) -> Array:
        """Join what `piece` makes of the rows of each block, (m, d) ↦ (b, m), to (b, n)."""
        with contextlib.closing(self._row_pass(made)) as blocks:
            pieces = [piece(rows) for _, rows in blocks]
        return self.place.xp.concat(pieces, axis=1) if len(pieces) > 1 else pieces[0]

    def _row_pass(self, made: int) -> Generator[tuple[slice, Array]]:
        for block in self.row_blocks(made):
            yield block, self.rows(block)

    def sum_columns(self, term: Term, made: int, least: int = 1) -> tuple[Array, ...]:
        """Sum what `term` makes of each column block, of `least` columns or more."""
        totals: tuple[Array, ...] = ()
        for block in self.column_blocks(made, least):
            totals = _added(totals, term(block, self.columns(block)))
        return totals

    def put(self, values: np.ndarray | None) -> Array | None:
        """Numbers of the host where X is, in its working dtype; None stays None."""
        return None if values is None else _xp.from_host(values, self.place, self.dtype)

    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows, as long as what is made of them stays within the bytes of a block.

        Parameters
        ----------
        made : int
            Numbers that the caller makes per row. Rows themselves are views where X has the
            working dtype, and count where they are not.
        """
        return self._blocks(self.n, self.d, made, _xp.row_slices_are_views)

    def column_blocks(self, made: int, least: int = 1) -> Iterator[slice]:
        """Slices of columns, likewise, or of `least` where that is more."""
        return self._blocks(self.d, self.n, made, _xp.column_slices_are_views, least)

    def _blocks(
        self,
        count: int,
        width: int,
        made: int,
        are_views: Callable[[Any], bool],
        least: int = 1,
    ) -> Iterator[slice]:
        if self._x.dtype != self.dtype or not are_views(self.place.xp):
            made, least = made + width, least // 2
        return _blocks(count, max(least, self.block_length(made)))

    def block_length(self, width: int) -> int:
        """How many lines of `width` numbers make a block."""
        return max(1, self._block_bytes // max(1, width * self._itemsize))

    def raise_if_not_finite(self) -> None:
        """Find the first NaN or infinity: a slow scan for when a sum has shown there is one."""
        xp = self.place.xp
        for block in self.row_blocks(self.d):
            values = self.rows(block)
            bad = ~xp.isfinite(values)
            if bool(_xp.to_host(xp.any(bad))):
                position = int(_xp.to_host(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int8))))
                row, column = divmod(position, self.d)
                value = float(_xp.to_host(values[row, column]))
                raise _validate.not_finite(block.start + row, column, value)


class SparseSource(ArraySource):
    """A sparse matrix, read as sparse blocks: never densified, nor shifted.

    Parameters
    ----------
    x : Sparse, shape (n, d)
    dtype : optional
        What to convert values to; by default what they are best computed in.
    """

    is_sparse = True

    def __init__(self, x: Sparse, dtype: Any = None) -> None:
        super().__init__(x, dtype or _xp.working_dtype(x))
        self._x = x.astype(self.dtype)

    @property
    def values(self) -> Array:
        """The stored values, shape (nnz,)."""
        return self._x.values

    def rows(self, index: slice) -> Sparse:
        """Rows as a sparse block."""
        whole: Sparse = self._x
        return whole if index == slice(0, self.n) else whole.rows(index)

    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows, as long as what is made of them stays within the bytes of a block."""
        return _blocks(self.n, self.block_length(made) if self._x.can_slice else self.n)

    def raise_if_not_finite(self) -> None:
        """Find the first NaN or infinity among the stored values."""
        values, columns, pointers = map(_xp.to_host, self._x.parts())
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.shape[0]:
            row = int(np.searchsorted(pointers, wrong[0], side="right")) - 1
            raise _validate.not_finite(row, int(columns[wrong[0]]), float(values[wrong[0]]))


def open_source(x: Array, dtype: Any = None) -> ArraySource:
    """The source for a matrix of any kind."""
    return SparseSource(x, dtype) if isinstance(x, Sparse) else ArraySource(x, dtype)


def _added(totals: tuple[Array, ...], terms: tuple[Array | None, ...]) -> tuple[Array, ...]:
    if not totals:
        return terms
    pairs = zip(totals, terms, strict=True)
    return tuple(None if term is None else add(total, term) for total, term in pairs)


def _blocks(length: int, step: int) -> Iterator[slice]:
    # Even parts rather than a ragged tail: a sliver costs a product its speed.
    parts = max(1, -(-length // step))
    edges = [length * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in itertools.pairwise(edges))
