"""Reading of tables, by the suffix of the file."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from slce_xp.cli.arrays import is_10x, read_10x, read_h5ad, read_hdf5, read_npy, read_npz
from slce_xp.cli.frames import read_frame
from slce_xp.cli.joining import with_labels
from slce_xp.cli.sheets import KINDS
from slce_xp.cli.table import Chosen, Table, TableError, is_packed, kind_of

_READERS: dict[str, Callable[[Path, Chosen], Table]] = {
    **dict.fromkeys(KINDS, read_frame),
    ".npy": read_npy, ".npz": read_npz, ".h5ad": read_h5ad, ".h5": read_hdf5, ".hdf5": read_hdf5,
    ".mtx": read_10x,
}  # fmt: skip
_PACKED = (".csv", ".tsv", ".txt", ".gct", ".mtx")
_AS_TEXT = (".csv", ".tsv", ".txt", ".gct", ".xlsx")
_IN_BLOCKS = (".npy", ".h5ad", ".h5", ".hdf5")
_WITH_SEVERAL = (".npz", ".h5ad", ".h5", ".hdf5", ".xlsx")


def read(path: Path, chosen: Chosen) -> Table:
    """Read the table in a file, which has at least one row and one column."""
    if path.is_dir() and not is_10x(path):
        raise TableError(
            f"{path} is a folder; name the table in it (a folder of 10x Genomics has one "
            "matrix.mtx, barcodes.tsv and features.tsv)"
        )
    if not path.exists():
        raise TableError(f"there is no file {path}{_nearest_file(path)}")
    kind = ".mtx" if path.is_dir() else kind_of(path)
    if kind not in _READERS or (is_packed(path) and kind not in _PACKED):
        raise TableError(
            f"{path} must end in {', '.join(_READERS)} (or {', '.join(f'{k}.gz' for k in _PACKED)})"
            "; save the table as one of these"
        )
    if path.stat().st_size == 0:
        raise TableError(f"{path} is empty; it must hold a table")
    if chosen.stream and kind not in _IN_BLOCKS:
        raise TableError(
            f"{path} cannot be read in blocks (--stream): convert it to .npy, .h5 or .h5ad"
        )
    if chosen.data is not None and kind not in _WITH_SEVERAL:
        raise TableError(f"{path} holds a single table, so there is no --data to choose")
    for option, is_given, kinds in (
        ("--missing", bool(chosen.missing), KINDS),
        ("--decimal", chosen.decimal is not None, _AS_TEXT),
        ("--no-header", not chosen.header, _AS_TEXT),
    ):
        if is_given and kind not in kinds:
            raise TableError(f"{option} is for tables as text, and {path} is not; leave it out")
    try:
        table = _READERS[kind](path, chosen)
        if chosen.labels is not None:
            table = with_labels(table, path, chosen)
    except PermissionError as error:
        raise TableError(f"{path} cannot be read ({error.strerror})") from error
    n, d = table.X.shape
    if n == 0:
        raise TableError(f"{path} has no rows; a table has a row for each sample")
    if d == 0:
        raise TableError(f"{path} has no columns left as features; drop fewer")
    return table


def _nearest_file(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f", and no folder {folder}"
    close = difflib.get_close_matches(path.name, [p.name for p in folder.iterdir()], n=1)
    return f"; did you mean {folder / close[0]}?" if close else ""
