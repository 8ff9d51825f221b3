"""The rows of a matrix of any kind."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, Place
from slce_xp._data.file_rows import FileRows
from slce_xp._data.row_reader import RowReader
from slce_xp._progress import Progress
from slce_xp.core._rows import MemoryRows, Rows


def open_rows(
    x: Array,
    dtype: Any = None,
    place: Place | None = None,
    progress: Progress | None = None,
    read_rows: int = 0,
    panel_rows: int = 1,
    kept: np.ndarray | None = None,
) -> Rows:
    """The rows of a matrix of any kind.

    Parameters
    ----------
    x : array, Sparse, RowReader or Dask array, shape (n, d)
    dtype : optional
        Dtype to compute in; chosen by the dtype of `x` by default.
    place : Place, optional
        Where blocks that are read are moved to; by default where the reader returns them.
    progress : Progress, optional
    read_rows, panel_rows : int
        Rows of a block that is read, by default as many as suit a disk; rows that the Gram form
        may hold.
    kept : numpy.ndarray of int, optional
        Positions of the rows to read, ascending; all by default.
    """
    if _backend.is_dask(x):
        # By name: only users of Dask import it.
        dask_rows = importlib.import_module("slce_xp._data.dask_rows")
        return dask_rows.DaskRows(x, dtype, progress, kept)  # type: ignore[no-any-return]
    if isinstance(x, RowReader):
        return FileRows(x, place or x.place, read_rows, panel_rows, dtype, progress, kept)
    return MemoryRows(x, dtype, progress, kept)


def open_at(x: Array, place: Place) -> Rows:
    """The rows of a matrix of any kind, in the dtype of sums; one in memory is moved to a place."""
    dtype = _backend.sums_dtype(_backend.move(_backend.without_rows(x), place))
    if not (_backend.is_dask(x) or isinstance(x, RowReader)):
        x = _backend.move(x, place)
    return open_rows(x, dtype, place)
