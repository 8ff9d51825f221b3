"""Where X lives, read in pieces: a pass over the data is a sum over its row blocks.

No one above this file takes more of X at a time than a block, so nothing of the size
of X is ever made beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from slce_xp import _validate, _xp
from slce_xp._plan import block_bytes
from slce_xp._xp import Array, Place, Sparse


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


def _blocks(length: int, step: int) -> Iterator[slice]:
    # Even parts rather than a ragged tail: a sliver costs a product its speed.
    parts = max(1, -(-length // step))
    edges = [length * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in itertools.pairwise(edges))
