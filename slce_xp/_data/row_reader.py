"""Things that give rows: files, datasets, and whatever else answers ``X[i:j]``."""

from __future__ import annotations

import copy
import mmap
import os
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, Matrix, Place, Sparse


def gives_rows(X: object) -> bool:
    """Whether `X` is no array itself, but has a shape, a dtype and rows to be asked for."""
    if isinstance(X, np.ndarray):
        return _file_of(X) is not None
    try:
        shape = getattr(X, "shape", ())
    except Exception as error:  # of a file that is closed
        raise OSError(
            f"X.shape could not be read ({type(error).__name__}: {error}). Open what holds it"
        ) from error
    if not (hasattr(X, "__getitem__") and len(shape) == 2):
        return False
    try:
        np.dtype(X.dtype)  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        return False
    return True


class RowReader(Matrix):
    """A matrix of which rows can be read, such as an HDF5 dataset, a zarr array or a memmap.

    Parameters
    ----------
    rows : object with ``shape``, ``dtype`` and ``rows[i:j]``
        Blocks are dense arrays or sparse matrices, of whatever library.
    name : str
        By which error messages call it.

    Attributes
    ----------
    copies : bool
        Whether blocks are copied as they are read: unless what gives them is known never to write
        to them again.
    """

    def __init__(self, rows: Any, name: str = "X") -> None:
        self._rows = rows
        self._name = name
        n, d = rows.shape
        self.shape = (int(n), int(d))
        self._file = _file_of(rows) if isinstance(rows, np.ndarray) else None
        self._kept: np.ndarray | None = None
        # Whoever else gives rows may give the same memory again, filled with the next ones, while
        # these are worked on; no look at a few rows can tell.
        self.copies = not _keeps_rows(rows)
        self._empty: Any = None
        first = self.read(slice(0, min(1, self.shape[0])))
        self.is_sparse = isinstance(first, Sparse)
        self._empty = _backend.without_rows(first)

    @staticmethod
    def can_read(matrix: Array) -> bool:
        """Whether rows of a matrix in memory can be had: torch has none of its sparse ones."""
        return not isinstance(matrix, Sparse) or matrix.can_slice

    @property
    def dtype(self) -> Any:
        """Of the blocks."""
        return self._empty.dtype

    @property
    def place(self) -> Place:
        """Where blocks are when they have been read."""
        return _backend.place_of(self._empty)

    @property
    def chunk_rows(self) -> int:
        """Rows that are stored together: to read a part of them may cost as much as all."""
        chunks = getattr(self._rows, "chunks", None)
        first = chunks[0] if isinstance(chunks, tuple) and chunks else 1
        return first if isinstance(first, int) else 1

    def stored(self) -> int:
        """About how many entries of a sparse matrix are stored, by a few rows from all over it."""
        if isinstance(self._rows, Sparse):
            return self._rows.stored
        n = self.shape[0]
        length = min(n, 8)
        starts = [(n - length) * i // 15 for i in range(16)]  # rows may be sorted by how full
        found = sum(self.read(slice(i, i + length)).values.shape[0] for i in starts)
        return int(-(-found * n // max(1, length * len(starts))))

    def only(self, kept: np.ndarray) -> RowReader:
        """A reader of some rows, at ascending positions: the others are read, and dropped."""
        reader = copy.copy(self)
        reader._kept = kept
        reader.shape = (len(kept), self.shape[1])
        return reader

    def read(self, block: slice) -> Array:
        """Some rows, as an array or a Sparse."""
        if self._kept is None:
            return self._read(block)
        kept, length = self._kept[block], block.stop - block.start
        parts = []
        while len(kept):
            # No more rows at a time than were asked for.
            first = int(kept[0])
            found = kept[: np.searchsorted(kept, first + length)] - first
            rows = self._read(slice(first, first + int(found[-1]) + 1))
            parts.append(_backend.take_rows(rows, found))
            kept = kept[len(found) :]
        return _backend.join_rows(parts) if parts else self._empty

    def _read(self, block: slice) -> Array:
        start, stop = block.start, block.stop
        is_masked = False
        try:
            if self._file is not None:
                return _read_file(*self._file, self._rows, start, stop)
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
            if self.copies:
                rows = _backend.copied(rows)
        except MemoryError:
            raise  # no fault of these rows
        except Exception as error:  # whatever a file, a network or a user's class raises
            raise OSError(
                f"{self._name}[{start}:{stop}] could not be read ({type(error).__name__}: {error})."
                " Check what holds these rows; nothing was changed, and the call can be repeated"
            ) from error
        if tuple(rows.shape) != (stop - start, self.shape[1]):
            raise ValueError(
                f"{self._name}[{start}:{stop}] must have shape {(stop - start, self.shape[1])}, as "
                f"{self._name}.shape = {self.shape} says; got {tuple(rows.shape)}. Let it give "
                "just the rows that it is asked for, with all columns"
            )
        if is_masked:
            raise TypeError(
                f"{self._name}[{start}:{stop}] must not be a masked array, its mask would be lost; "
                "fill it where it is read, or drop those samples"
            )
        if self._empty is not None and isinstance(rows, Sparse) != self.is_sparse:
            kinds = ("dense", "sparse")
            raise TypeError(
                f"{self._name}[i:j] must give dense blocks, or sparse ones, throughout; the first "
                f"is {kinds[self.is_sparse]}, and {self._name}[{start}:{stop}] is "
                f"{kinds[not self.is_sparse]}. Make them all sparse, or all dense"
            )
        return rows


def _keeps_rows(rows: Any) -> bool:
    """Whether rows stay as they are when others are read: of arrays in memory, h5py and zarr."""
    library = type(rows).__module__.partition(".")[0]
    return isinstance(rows, Sparse) or _backend.is_array(rows) or library in ("h5py", "zarr")


def _file_of(x: np.ndarray) -> tuple[str, int] | None:
    """The file that an array is mapped from and where its rows begin; None for other arrays.

    Only for rows without gaps: those can be read in one go, which is faster than by page faults.
    """
    mapped: Any = getattr(x, "_mmap", None)
    if not isinstance(x, np.memmap) or mapped is None or x.filename is None:
        return None
    if x.ndim != 2 or not x.flags.c_contiguous or x.mode == "c":  # copy-on-write: not in the file
        return None
    base = np.frombuffer(mapped, dtype=np.uint8).ctypes.data
    begins = x.offset - x.offset % mmap.ALLOCATIONGRANULARITY
    path, offset = os.fspath(x.filename), begins + x.ctypes.data - base
    # By now the name may be gone, or another file's; the map still holds the old one.
    if x.shape[0] and not _holds(path, offset, x):
        return None
    return path, offset


def _holds(path: str, offset: int, x: np.ndarray) -> bool:
    """Whether a file has the first and the last row of `x` where they should be."""
    ends = (0, x.shape[0] - 1)
    try:
        rows = [_read_file(path, offset, x, i, i + 1) for i in ends]
    except EOFError:
        return True  # to be told by whoever reads: to touch what is cut off ends the process
    except OSError:
        return False
    return all(row.tobytes() == x[i].tobytes() for i, row in zip(ends, rows, strict=True))


def _read_file(path: str, offset: int, x: np.ndarray, start: int, stop: int) -> np.ndarray:
    block = np.empty((stop - start, x.shape[1]), dtype=x.dtype)
    missing = memoryview(block.view(np.uint8).reshape(-1))  # type: ignore[arg-type]
    with open(path, "rb", buffering=0) as file:
        file.seek(offset + start * x.strides[0])
        while missing:
            count = file.readinto(missing)
            if not count:
                raise EOFError(f"{path} ends before row {stop}")
            missing = missing[count:]
    return block
