"""Sparse matrices of SciPy, CuPy and torch behind one interface."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import array_api_compat as compat
import numpy as np

from .._errors import wrong_type
from .places import NUMPY, Array, Matrix, Place, has_csr, place_of, place_of_sparse, plain_sparse
from .transfer import from_host, move, to_host


def copied(x: Array) -> Array:
    """The same values in memory of their own, by CuPy in rows: it copies slices of columns."""
    if isinstance(x, Sparse):
        return x.copy()
    xp, device = place_of(x)
    if compat.is_cupy_namespace(xp):
        return x.copy(order="C")
    return xp.asarray(x, copy=True, device=device)


def take_columns(rows: Array, index: Array) -> Array:
    """Some columns of a dense array, (n, d) ↦ (n, m)."""
    if isinstance(rows, np.ndarray):  # its `take` may read all of them
        return rows[:, index]
    return place_of(rows).xp.take(rows, index, axis=1)


def take_rows(x: Array, positions: np.ndarray) -> Array:
    """Rows of an array or a Sparse at positions that the host knows."""
    if isinstance(x, Sparse):
        return x.only(positions)
    if len(positions) == x.shape[0]:
        return x
    place = place_of(x)
    return place.xp.take(x, from_host(positions, place), axis=0)


def join_rows(parts: list[Array]) -> Array:
    """Blocks of rows below each other."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Sparse):
        return Sparse.joined(parts)
    return place_of(parts[0]).xp.concat(parts, axis=0)


class Sparse(Matrix):
    """A sparse matrix of any library, as far as the core needs one.

    Products are always a sparse matrix times a dense one, the kind that every library gets right.

    Parameters
    ----------
    matrix : sparse matrix of SciPy, CuPy or torch, shape (n, d)
        Made compressed rows when it is first computed with, if it is of another kind.
    """

    def __init__(self, matrix: Any) -> None:
        self._given = plain_sparse(matrix)

    @cached_property
    def _matrix(self) -> Any:
        """As compressed rows; the same memory if it has them already."""
        x = self._given
        if self._is_compressed:
            return x
        return x.tocsr() if has_csr(x) else x.to_sparse_csr()

    @property
    def _is_compressed(self) -> bool:
        x = self._given
        return x.format == "csr" if has_csr(x) else str(x.layout) == "torch.sparse_csr"

    @property
    def stored(self) -> int:
        """Stored entries."""
        x = self._given
        return int(x.nnz if has_csr(x) else x._nnz())

    @property
    def compressing_bytes(self) -> int:
        """Bytes of compressed rows in addition to the matrix; 0 if it has them already."""
        x = self._given
        if self._is_compressed:
            return 0
        indices = getattr(x, "indices" if getattr(x, "format", "") == "csc" else "col", None)
        # Of SciPy's others by way of objects; of torch's with long indices.
        index = indices.dtype.itemsize if indices is not None else 64 if has_csr(x) else 16
        return int(self.stored * (x.dtype.itemsize + index) + 8 * (x.shape[0] + 1))

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and columns."""
        n, d = self._given.shape
        return int(n), int(d)

    @property
    def values(self) -> Array:
        """The stored values, shape (nnz,)."""
        return self._matrix.data if has_csr(self._matrix) else self._matrix.values()

    @property
    def dtype(self) -> Any:
        """Of the values."""
        return self._given.dtype

    @property
    def place(self) -> Place:
        """Where the values are."""
        return place_of_sparse(self._given)

    # ------------------------------------------------------------ products

    def times(self, columns: Array) -> Array:
        """X·V, (d, b) ↦ (n, b)."""
        return self._matrix @ columns

    def adjoint(self, columns: Array) -> Array:
        """Xᵀ·U, (n, b) ↦ (d, b)."""
        return self._transpose @ columns

    @cached_property
    def _transpose(self) -> Any:
        """The transpose as the library has it: the same memory, which takes SciPy some time."""
        return self._matrix.T if has_csr(self._matrix) else self._matrix.t()

    def columns(self, index: Array) -> Array:
        """Some columns, (n, m), dense."""
        if self.has_columns:
            return np.asarray(self._matrix[:, index].toarray())
        xp, device = self.place
        every = xp.arange(self.shape[1], device=device)
        return self.times(xp.astype(every[:, None] == index[None, :], self.dtype))

    def sums_by_code(
        self, codes: np.ndarray, height: int, weights: np.ndarray | None
    ) -> np.ndarray:
        """Sum rows times weights by code, of a SciPy matrix: (n, d) ↦ (height, d)."""
        data, columns, pointers = self.parts()
        lengths = np.diff(pointers)
        where = np.repeat(codes * self.shape[1], lengths) + columns
        values = data if weights is None else data * np.repeat(weights, lengths)
        total = np.bincount(where, values, height * self.shape[1])
        return total.reshape(height, -1).astype(self.dtype, copy=False)

    def sum_squares(self, weights: Array | None) -> Array:
        """Σ w x² of each column, (q, n) ↦ (q, d); with ones by default."""
        xp, device = self.place
        if weights is None:
            weights = xp.ones((1, self.shape[0]), dtype=self.dtype, device=device)
        return self._with_values(self.values * self.values).adjoint(weights.T).T

    # ------------------------------------------------------------ parts

    def rows(self, index: slice) -> Sparse:
        """Some rows: views of the same memory."""
        matrix, start, stop = self._matrix, index.start, index.stop
        if not has_csr(matrix):
            return Sparse(self._torch_rows(start, stop))
        if self.place != NUMPY:
            return Sparse(matrix[start:stop])
        pointers = matrix.indptr[start : stop + 1]
        stored = slice(pointers[0], pointers[-1])
        parts = (matrix.data[stored], matrix.indices[stored], pointers - pointers[0])
        return Sparse(compressed_views(type(matrix), parts, (stop - start, matrix.shape[1])))

    def _torch_rows(self, start: int, stop: int) -> Any:
        """Some rows of a torch matrix, which has no slices."""
        values, columns, pointers = self.parts()
        stored = slice(int(self._host_pointers[start]), int(self._host_pointers[stop]))
        parts = (pointers[start : stop + 1] - pointers[start], columns[stored], values[stored])
        return _torch_csr(*parts, (stop - start, self.shape[1]))

    @cached_property
    def _host_pointers(self) -> np.ndarray:
        return to_host(self.parts()[2])

    def only(self, positions: np.ndarray) -> Sparse:
        """The rows at some ascending positions."""
        return self if len(positions) == self.shape[0] else self.take(positions)

    def take(self, positions: np.ndarray) -> Sparse:
        """The rows at some positions, a copy."""
        if has_csr(self._matrix):
            return Sparse(self._matrix[from_host(positions, self.place)])
        rows = self._matrix.to_sparse_coo().index_select(0, from_host(positions, self.place))
        return Sparse(rows)

    @classmethod
    def joined(cls, parts: list[Sparse]) -> Sparse:
        """Blocks of rows below each other, of SciPy or CuPy."""
        package = type(parts[0]._matrix).__module__.partition(".sparse")[0]
        stack = importlib.import_module(f"{package}.sparse").vstack
        return cls(stack([part._matrix for part in parts], format="csr"))

    @property
    def can_slice(self) -> bool:
        """Whether slices of rows can be read by others: torch's matrices have none."""
        return has_csr(self._given)

    @property
    def has_columns(self) -> bool:
        """Whether `column_reader` can be asked for: of SciPy's matrices."""
        return self.place == NUMPY

    def column_reader(self, dtype: Any) -> Callable[[slice], np.ndarray]:
        """A function from a slice to the dense columns there, (n, width), by a sorted copy."""
        by_columns = Sparse(self._transpose.tocsr())
        return lambda index: by_columns.rows(index).astype(dtype).dense().T

    def dense(self) -> Array:
        """As an array."""
        x = self._matrix
        return x.toarray() if has_csr(x) else x.to_dense()

    def astype(self, dtype: Any) -> Sparse:
        """With values of another dtype."""
        if self.dtype == dtype:
            return self
        if not has_csr(self._matrix):
            return Sparse(self._matrix.to(dtype))
        return self._with_values(self._matrix.data.astype(dtype))

    def _with_values(self, values: Array) -> Sparse:
        """The same entries with other values; the indices are not copied."""
        matrix = self._matrix
        if not has_csr(matrix):
            _, columns, pointers = self.parts()
            return Sparse(_torch_csr(pointers, columns, values, self.shape))
        parts = (values, matrix.indices, matrix.indptr)
        if self.place == NUMPY:
            return Sparse(compressed_views(type(matrix), parts, matrix.shape))
        return Sparse(type(matrix)(parts, shape=matrix.shape))

    def copy(self) -> Sparse:
        """The same in memory of its own."""
        native = has_csr(self._matrix)
        return Sparse(self._matrix.copy() if native else self._matrix.clone())

    def __mul__(self, factor: float) -> Sparse:
        """With values times a number."""
        return self._with_values(self.values * factor)

    def parts(self) -> tuple[Array, Array, Array]:
        """Values, column indices and row pointers."""
        matrix = self._matrix
        if has_csr(matrix):
            return matrix.data, matrix.indices, matrix.indptr
        return matrix.values(), matrix.col_indices(), matrix.crow_indices()

    def first_not_finite(self) -> tuple[int, int, float] | None:
        """Row, column and value of the first stored NaN or infinity."""
        values, columns, pointers = map(to_host, self.parts())
        wrong = np.flatnonzero(~np.isfinite(values))
        if not wrong.shape[0]:
            return None
        row = int(np.searchsorted(pointers, wrong[0], side="right")) - 1
        return row, int(columns[wrong[0]]), float(values[wrong[0]])

    def move(self, place: Place) -> Sparse:
        """The same in another library or on another device."""
        if place == self.place:
            return self
        parts = tuple(move(part, place) for part in self.parts())
        if compat.is_torch_namespace(place.xp):
            values, columns, rows = parts
            return Sparse(_torch_csr(rows, columns, values, self.shape))
        if compat.is_cupy_namespace(place.xp):
            make = importlib.import_module("cupyx.scipy.sparse").csr_matrix
        elif compat.is_numpy_namespace(place.xp):
            make = importlib.import_module("scipy.sparse").csr_array
        else:
            raise wrong_type(
                "backend",
                f"backend must be 'numpy', 'cupy' or 'torch' for a sparse X; got {place}. Use one "
                "of them, or a dense X",
            )
        return Sparse(make(parts, shape=self.shape))


def _torch_csr(pointers: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Any:
    make = importlib.import_module("torch").sparse_csr_tensor
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return make(pointers, columns, values, shape, check_invariants=False)


def compressed_views(kind: Any, parts: tuple[Array, Array, Array], shape: tuple[int, int]) -> Any:
    """Compressed rows of SciPy in the memory of `parts`, of which its own way may make copies."""
    matrix = kind(shape, dtype=parts[0].dtype)
    matrix.data, matrix.indices, matrix.indptr = parts
    return matrix


def byte_count(x: Array) -> int:
    """Bytes of a matrix."""
    if isinstance(x, Sparse):
        return sum(int(part.nbytes) for part in x.parts())
    return int(getattr(x, "nbytes", 8 * x.shape[0] * x.shape[1]))  # array-api-strict has none
