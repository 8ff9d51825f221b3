"""Row-sliceable inputs: memmaps, HDF5, Zarr and similar."""

from __future__ import annotations

import copy
import math
import mmap
import os
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, Matrix, Place, Sparse
from slce_xp._errors import invalid, naming, wrong_type


def is_row_sliceable(X: object) -> bool:
    """Whether `X` is not an array in memory, but has a shape, a dtype and row slices."""
    if isinstance(X, np.ndarray):
        return _file_of(X) is not None
    try:
        shape = getattr(X, "shape", ())
    except Exception as error:  # such as a closed file
        message = f"X.shape could not be read ({type(error).__name__}: {error}). Open its file"
        raise naming("X", OSError(message)) from error
    if not (hasattr(X, "__getitem__") and len(shape) == 2):
        return False
    try:
        np.dtype(X.dtype)  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        return False
    return True


class RowReader(Matrix):
    """A matrix whose rows are read as needed: an HDF5 dataset, a zarr array, a memmap.

    Parameters
    ----------
    rows : object with ``shape``, ``dtype`` and ``rows[i:j]``
        Blocks are dense arrays or sparse matrices of any library.
    name : str
        Parameter name for error messages.

    Attributes
    ----------
    copies : bool
        Whether blocks are copied as they are read, because `rows` may reuse their memory.
    """

    def __init__(self, rows: Any, name: str = "X") -> None:
        self._rows = rows
        self._name = name
        n, d = rows.shape
        self.shape = (int(n), int(d))
        self._file = _file_of(rows) if isinstance(rows, np.ndarray) else None
        self._kept: np.ndarray | None = None
        self.copies = not _keeps_rows(rows)
        self._empty: Any = None
        first = self.read(slice(0, min(1, self.shape[0])))
        self.is_sparse = isinstance(first, Sparse)
        self._empty = _backend.without_rows(first)

    @staticmethod
    def can_read(matrix: Array) -> bool:
        """Whether a matrix in memory supports row slicing: torch's sparse ones do not."""
        return not isinstance(matrix, Sparse) or matrix.can_slice

    @property
    def dtype(self) -> Any:
        """The dtype of the blocks."""
        return self._empty.dtype

    @property
    def place(self) -> Place:
        """Where blocks are after reading."""
        return _backend.place_of(self._empty)

    @property
    def chunk_rows(self) -> int:
        """Rows stored together: reading some of them may cost as much as reading all."""
        chunks = getattr(self._rows, "chunks", None)
        first = chunks[0] if isinstance(chunks, tuple) and chunks else 1
        return first if isinstance(first, int) else 1

    def stored(self) -> int:
        """Estimate the stored entries of a sparse matrix from a sample of its rows."""
        if isinstance(self._rows, Sparse):
            return self._rows.stored
        n = self.shape[0]
        length = min(n, 8)
        starts = [(n - length) * i // 15 for i in range(16)]  # rows may be sorted by density
        found = sum(self.read(slice(i, i + length)).values.shape[0] for i in starts)
        return int(-(-found * n // max(1, length * len(starts))))

    def only(self, kept: np.ndarray) -> RowReader:
        """Return a reader of the rows at some ascending positions; others are read and dropped."""
        reader = copy.copy(self)
        reader._kept = kept
        reader.shape = (len(kept), self.shape[1])
        return reader

    @property
    def gives_numpy(self) -> bool:
        """Whether blocks are dense arrays of NumPy."""
        return isinstance(self._empty, np.ndarray)

    @property
    def is_concurrent(self) -> bool:
        """Whether several threads may read at the same time.

        Files that this reader opens itself, and arrays. Others need not be safe: HDF5 has one lock
        for all, and of a user's class nothing is known.
        """
        return self._kept is None and (self._file is not None or type(self._rows) is np.ndarray)

    def read(self, block: slice, memory: np.ndarray | None = None) -> Array:
        """Return some rows, as an array or a Sparse: in memory of the caller's, if they fit."""
        rows = self._read_kept(block) if self._kept is not None else self._read(block, memory)
        return rows if memory is None else _placed(rows, memory)

    def _read_kept(self, block: slice) -> Array:
        assert self._kept is not None
        kept, length = self._kept[block], block.stop - block.start
        parts = []
        while len(kept):
            # Never more rows at a time than requested.
            first = int(kept[0])
            found = kept[: np.searchsorted(kept, first + length)] - first
            rows = self._read(slice(first, first + int(found[-1]) + 1))
            parts.append(_backend.take_rows(rows, found))
            kept = kept[len(found) :]
        return _backend.join_rows(parts) if parts else self._empty

    def _read(self, block: slice, memory: np.ndarray | None = None) -> Array:
        start, stop, name = block.start, block.stop, self._name
        block_name = f"{name}[{start}:{stop}]"
        is_masked = False
        try:
            if self._file is not None:
                return _read_file(*self._file, self._rows, start, stop, memory)
            if isinstance(self._rows, Sparse):
                return self._rows.rows(block)
            rows = self._rows[start:stop]
            if _backend.is_sparse(rows):
                rows = Sparse(rows)
            elif not _backend.is_array(rows):
                rows = np.asarray(rows)
            if isinstance(rows, np.ndarray):
                is_masked = np.ma.is_masked(rows)
                rows = np.asarray(rows)
            if self.copies and (memory is None or not isinstance(rows, np.ndarray)):
                rows = _backend.copied(rows)
        except MemoryError:
            raise
        except Exception as error:  # anything that a file, a network or a user's class raises
            message = (
                f"{block_name} could not be read ({type(error).__name__}: {error}). "
                "Check its file or connection; nothing was changed, and the call can be repeated"
            )
            raise naming(name, OSError(message)) from error
        self._check_block(rows, block_name, stop - start, is_masked)
        return rows

    def _check_block(self, rows: Array, block_name: str, length: int, is_masked: bool) -> None:
        """Raise ValueError or TypeError for rows that are not what was asked for."""
        name = self._name
        if tuple(rows.shape) != (length, self.shape[1]):
            raise invalid(
                name,
                f"{block_name} must have shape {(length, self.shape[1])}, as "
                f"{name}.shape = {self.shape} says; got {tuple(rows.shape)}. Return just the "
                "requested rows, with all columns",
            )
        if is_masked:
            raise wrong_type(
                name,
                f"{block_name} must not be a masked array, its mask would be lost; "
                "fill it when it is read, or drop those samples",
            )
        if self._empty is not None and isinstance(rows, Sparse) != self.is_sparse:
            kinds = ("dense", "sparse")
            raise wrong_type(
                name,
                f"{name}[i:j] must return dense blocks, or sparse ones, throughout; the first is "
                f"{kinds[self.is_sparse]}, and {block_name} is {kinds[not self.is_sparse]}. "
                "Make them all sparse, or all dense",
            )


def _keeps_rows(rows: Any) -> bool:
    """Whether blocks are never overwritten by later ones: of arrays in memory, h5py and zarr."""
    library = type(rows).__module__.partition(".")[0]
    return isinstance(rows, Sparse) or _backend.is_array(rows) or library in ("h5py", "zarr")


def _file_of(x: np.ndarray) -> tuple[str, int] | None:
    """Return the file that an array is mapped from and the offset of its rows; None for others.

    Only for contiguous rows, which are read in one go: faster than by page faults.
    """
    mapped: Any = getattr(x, "_mmap", None)
    if not isinstance(x, np.memmap) or mapped is None or x.filename is None:
        return None
    if x.ndim != 2 or not x.flags.c_contiguous or x.mode == "c":  # copy-on-write: not in the file
        return None
    base = np.frombuffer(mapped, dtype=np.uint8).ctypes.data
    begins = x.offset - x.offset % mmap.ALLOCATIONGRANULARITY
    path, offset = os.fspath(x.filename), begins + x.ctypes.data - base
    # The file may have been removed or replaced since; the map still holds the old one.
    if x.shape[0] and not _holds(path, offset, x):
        return None
    return path, offset


def _holds(path: str, offset: int, x: np.ndarray) -> bool:
    """Whether a file has the first and the last row of `x` at the expected offsets."""
    ends = (0, x.shape[0] - 1)
    try:
        rows = [_read_file(path, offset, x, i, i + 1) for i in ends]
    except EOFError:
        return True  # reported when it is read: touching the truncated part ends the process
    except OSError:
        return False
    return all(row.tobytes() == x[i].tobytes() for i, row in zip(ends, rows, strict=True))


def _placed(rows: Array, memory: np.ndarray) -> Array:
    """Rows copied to some memory, unless they are there or do not fit."""
    if not isinstance(rows, np.ndarray) or np.may_share_memory(rows, memory):
        return rows
    if rows.nbytes > memory.nbytes:
        return rows.copy()
    placed = _view(memory, rows.shape, rows.dtype)
    placed[...] = rows
    return placed


def _view(memory: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return memory[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def _read_file(
    path: str,
    offset: int,
    x: np.ndarray,
    start: int,
    stop: int,
    memory: np.ndarray | None = None,
) -> np.ndarray:
    shape = (stop - start, x.shape[1])
    block = np.empty(shape, x.dtype) if memory is None else _view(memory, shape, x.dtype)
    missing = memoryview(block.view(np.uint8).reshape(-1))  # type: ignore[arg-type]
    with open(path, "rb", buffering=0) as file:
        file.seek(offset + start * x.strides[0])
        while missing:
            count = file.readinto(missing)
            if not count:
                raise EOFError(f"{path} ends before row {stop}")
            missing = missing[count:]
    return block
