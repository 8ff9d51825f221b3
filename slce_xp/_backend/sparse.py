"""Sparse matrices of SciPy, CuPy and torch behind one interface."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import array_api_compat as compat
import numpy as np

from slce_xp._backend.places import NUMPY, Array, Matrix, Place, has_csr, place_of, place_of_sparse
from slce_xp._backend.precision import dtype_name, factors_of
from slce_xp._backend.transfer import from_host, move, to_host
from slce_xp._errors import wrong_type

LARGEST_COPY = 2**15  # numbers that are copied at a time
# Share of entries that are stored, by bytes of one, up to which SciPy's product of sparse matrices
# is faster than that of dense blocks of rows.
LARGEST_DENSITY = {4: 0.06, 8: 0.085}


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
    """A sparse matrix of any library, as far as the core needs one: ``dense @ sparse``.

    Products are always a sparse matrix times a dense one, the kind that every library gets right.

    Parameters
    ----------
    matrix : sparse matrix of SciPy, CuPy or torch, shape (n, d)
        Made compressed rows when it is first computed with, if it is of another kind.
    """

    __array_ufunc__ = None  # NumPy leaves ``array @ sparse`` to us
    __array_priority__ = 1000.0  # and so does CuPy

    def __init__(self, matrix: Any, transposed: bool = False) -> None:
        self._given = matrix
        self._transposed = transposed

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
        return (int(d), int(n)) if self._transposed else (int(n), int(d))

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

    @property
    def T(self) -> Sparse:  # noqa: N802 -- as arrays call it
        """The transpose: the same memory."""
        return Sparse(self._matrix, not self._transposed)

    def __rmatmul__(self, dense: Array) -> Array:
        """Multiply (b, n) by (n, d)."""
        left = self._matrix if self._transposed else self._columns
        return (left @ dense.T).T

    @cached_property
    def _columns(self) -> Any:
        """The transpose as the library has it: the same memory, which takes SciPy some time."""
        return self._matrix.T if has_csr(self._matrix) else self._matrix.t()

    def rows(self, index: slice) -> Sparse:
        """Some rows, if `can_slice`: torch has no slices of sparse matrices."""
        matrix, start, stop = self._matrix, index.start, index.stop
        if self.place != NUMPY:
            return Sparse(matrix[start:stop])
        pointers = matrix.indptr[start : stop + 1]
        stored = slice(pointers[0], pointers[-1])
        parts = (matrix.data[stored], matrix.indices[stored], pointers - pointers[0])
        return Sparse(compressed_views(type(matrix), parts, (stop - start, matrix.shape[1])))

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
        """Whether `rows` can be asked for."""
        return has_csr(self._given)

    @property
    def has_columns(self) -> bool:
        """Whether `column_reader` can be asked for: of SciPy's matrices."""
        return self.place == NUMPY

    def column_reader(self, dtype: Any) -> Callable[[slice], np.ndarray]:
        """A function from a slice to the dense columns there, (width, n), by a sorted copy."""
        by_columns = Sparse(self._columns.tocsr())
        return lambda index: by_columns.rows(index).dense(dtype)

    def outer(self, factors: np.ndarray | None = None, scale: float = 1.0) -> np.ndarray | None:
        """Z·Zᵀ of Z = scale·X, columns times factors, by SciPy: shape (n, n).

        None if X is not so sparse that this is faster than a dense product.
        """
        values, columns, pointers = self.parts()
        n, d = self.shape
        pairs = np.square(np.bincount(columns, minlength=d), dtype=np.float64).sum()
        if pairs > LARGEST_DENSITY[self.dtype.itemsize] ** 2 * n * n * d:
            return None
        if scale != 1.0:
            values = values * scale
        if factors is not None:
            values = values * factors[columns]
        rows = compressed_views(type(self._matrix), (values, columns, pointers), (n, d))
        return np.asarray((rows @ rows.T).toarray())

    def dense(self, dtype: Any) -> np.ndarray:
        """As an array of a dtype, of a SciPy matrix."""
        return np.asarray(self.astype(dtype)._matrix.toarray())

    def astype(self, dtype: Any) -> Sparse:
        """With values of another dtype."""
        if self.dtype == dtype:
            return self
        matrix = self._matrix
        if not has_csr(matrix):
            return Sparse(matrix.to(dtype), self._transposed)
        # Not by its own `astype`, which copies the indices, too.
        parts = (matrix.data.astype(dtype), matrix.indices, matrix.indptr)
        make = compressed_views if self.place == NUMPY else _compressed
        return Sparse(make(type(matrix), parts, matrix.shape), self._transposed)

    def copy(self) -> Sparse:
        """The same in memory of its own."""
        native = has_csr(self._matrix)
        return Sparse(self._matrix.copy() if native else self._matrix.clone(), self._transposed)

    def __mul__(self, factor: float) -> Sparse:
        """With values times a number."""
        return Sparse(self._matrix * factor, self._transposed)

    def squared(self) -> Sparse:
        """With the squares of the values."""
        matrix = self._matrix
        squares = matrix.multiply(matrix) if has_csr(matrix) else matrix * matrix
        return Sparse(squares, self._transposed)

    def gram(
        self, weights: Array | None, width: int, scale: float = 1.0, shift: Array | None = None
    ) -> Array:
        """ZᵀZ of weighted rows Z = scale·(X − shift), shape (d, d), dense.

        By SciPy it is a product of two sparse matrices, or of dense blocks of rows. Otherwise it is
        made of `width` of its rows at a time, as products with unit vectors: CuPy's product is not
        to be relied on.
        """
        if self.place == NUMPY:
            if shift is None and self._is_thin:
                return (self if scale == 1.0 else self * scale)._own_gram(weights)
            return self._gram_of_blocks(weights, width, scale, shift)
        xp, _ = self.place
        parts = []
        for columns in self._shifted_columns(width, scale, shift):
            if weights is not None:
                columns = columns * weights
            before, after = factors_of(scale)
            product = columns @ self if scale == 1.0 else ((columns * before) @ self) * after
            if shift is not None:
                product -= xp.sum(columns, axis=1)[:, None] * (shift * scale)
            parts.append(product)
        return xp.concat(parts, axis=0)

    @property
    def _is_thin(self) -> bool:
        """Whether rows have so few entries that products of all pairs of them are few."""
        n, d = self.shape
        return self.stored <= LARGEST_DENSITY[self.dtype.itemsize] * n * d

    def _gram_of_blocks(
        self, weights: np.ndarray | None, width: int, scale: float, shift: np.ndarray | None
    ) -> np.ndarray:
        """ZᵀZ by dense blocks of rows, as large as three times `width` dense columns."""
        n, d = self.shape
        length = max(1, 3 * width * n // (3 * d if weights is not None else 2 * d))
        total = np.zeros((d, d), dtype=self.dtype)
        for start in range(0, n, length):
            part = slice(start, min(start + length, n))
            rows = self.rows(part)._matrix.toarray()
            if shift is not None:
                rows -= shift
            if scale != 1.0:
                rows *= scale
            weighted = rows if weights is None else rows * weights[part, None]
            total += rows.T @ weighted  # one array twice: SYRK
        return total

    def _own_gram(self, weights: np.ndarray | None) -> np.ndarray:
        """XᵀX of weighted rows by SciPy, in blocks of rows with fewer than d² entries."""
        n, d = self.shape
        total = np.zeros((d, d), dtype=self.dtype)
        most = max(1, max(LARGEST_COPY, d * d // 4) * n // max(1, self.stored))
        for start in range(0, n, most):
            right = self.rows(slice(start, min(start + most, n)))._matrix
            left = right
            if weights is not None:
                values = right.data * np.repeat(
                    weights[start : start + most], np.diff(right.indptr)
                )
                left = compressed_views(
                    type(right), (values, right.indices, right.indptr), right.shape
                )
            total += (left.T.tocsr() @ right).toarray()
        return total

    def sums_by_code(self, codes: np.ndarray, height: int, values: np.ndarray) -> np.ndarray:
        """Sum rows times values by code, of a SciPy matrix: (n, d) ↦ (height, d)."""
        data, columns, pointers = self.parts()
        d = self.shape[1]
        total = np.zeros(height * d)
        most = max(1, LARGEST_COPY * len(codes) // max(1, self.stored))
        for start in range(0, len(codes), most):
            rows = slice(start, start + most)
            part = pointers[start : start + most + 1]
            stored, lengths = slice(part[0], part[-1]), np.diff(part)
            where = np.repeat(codes[rows] * d, lengths) + columns[stored]
            np.add.at(total, where, data[stored] * np.repeat(values[rows], lengths).astype(float))
        with np.errstate(over="ignore"):  # infinities are reported by those who ask for sums
            return total.astype(self.dtype).reshape(height, d)

    def sum_squares(self, weights: Array, width: int, scale: float, shift: Array) -> Array:
        """Σ w ‖z‖² of rows z = scale·(x − shift), for columns of weights: (n, q) ↦ (q,)."""
        xp, _ = self.place
        columns = self._shifted_columns(width, scale, shift)
        return sum(xp.sum((part * part) @ weights, axis=0) for part in columns)

    def _shifted_columns(self, width: int, scale: float, shift: Array | None) -> Iterator[Array]:
        """All columns of scale·(X − shift), as the rows of dense arrays."""
        d = self.shape[1]
        read = self.column_reader(self.dtype) if self.has_columns else None
        for start in range(0, d, width):
            if read is None:
                columns = self.columns(start, width)
            else:  # many times as fast
                columns = read(slice(start, min(start + width, d)))
            if shift is not None:
                columns = columns - shift[start : start + width][:, None]
            yield columns if scale == 1.0 else columns * scale

    def columns(self, start: int, width: int) -> Array:
        """Some columns as the rows of a dense array, shape (width or less, n)."""
        xp, device = self.place
        d = self.shape[1]
        units = xp.eye(min(width, d - start), d, k=start, dtype=self.dtype, device=device)
        return units @ self.T

    def row_squares(self) -> Array:
        """Squared length of each row, shape (n,)."""
        xp, device = self.place
        ones = xp.ones((1, self.shape[1]), dtype=self.dtype, device=device)
        return xp.reshape(ones @ self.squared().T, (-1,))

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
            make = importlib.import_module("torch").sparse_csr_tensor
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
                return Sparse(make(rows, columns, values, self.shape, check_invariants=False))
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


def _compressed(kind: Any, parts: tuple[Array, Array, Array], shape: tuple[int, int]) -> Any:
    return kind(parts, shape=shape)


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


def draw_sparse(
    seed: int, shape: tuple[int, int], per_row: int, place: Place, dtype: Any
) -> Sparse:
    """Random sparse rows with as many entries each, for measurements."""
    rng = np.random.default_rng(seed)
    n, d = shape
    columns = np.sort(rng.integers(0, d, (n, per_row), dtype=np.int32), axis=1).reshape(-1)
    values = rng.standard_normal(n * per_row).astype(dtype_name(dtype))
    pointers = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    make = importlib.import_module("scipy.sparse").csr_array
    return Sparse(make((values, columns, pointers), shape=shape)).move(place)
