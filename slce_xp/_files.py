"""Model files (plain arrays with a JSON header, no pickle) and embeddings written in blocks.

Files are written completely or not at all.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from slce_xp import _backend
from slce_xp._errors import invalid, naming, not_installed, wrong_type

FORMAT = "slce_xp model"
# 2: scale and feature names; 3: the bound of the angle, a plan of parts, the criterion; 4: the zero
# level, the residual, bounds of all angles, a flat plan.
VERSION = 4

T = TypeVar("T")


class _NewerFormatError(ValueError):
    """A file from a later release."""


def header(facts: dict[str, Any]) -> np.ndarray:
    """Facts of a model as one array."""
    return np.array(json.dumps({"format": FORMAT, "version": VERSION, **facts}))


def write(path: str | os.PathLike[str], contents: dict[str, Any]) -> None:
    """Write the arrays of a model to a file, completely or not at all."""
    with whole_or_not_at_all(Path(path)) as temporary, temporary.open("xb") as file:
        np.savez(file, **contents)


@contextlib.contextmanager
def whole_or_not_at_all(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`, renamed to it at the end, or removed."""
    # Not the process id: containers, threads and other machines may share it.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    old = temporary.with_suffix(".old")
    try:
        yield temporary
        if path.is_dir() and temporary.is_dir():
            path.replace(old)  # a folder replaces only an empty one
        temporary.replace(path)
    finally:
        if old.exists() and not path.exists():
            old.replace(path)
        for leftover in (temporary, old):
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            leftover.unlink(missing_ok=True)


def write_rows(
    out: Any, shape: tuple[int, int], dtype: np.dtype, blocks: Iterable[tuple[slice, np.ndarray]]
) -> Any:
    """Write blocks of rows, in order, to `out`: a path, or an array of NumPy, zarr or h5py.

    Returns `out`, or the new file, opened for reading as a memmap or zarr array.
    """
    if isinstance(out, (str, os.PathLike)):
        path = Path(out)
        if path.suffix not in _WRITERS:
            raise invalid(
                "out",
                f"out must end in .npy or .zarr, or be an array to write into; got {str(path)!r}",
            )
        return _WRITERS[path.suffix](path, shape, dtype, blocks)
    if not hasattr(out, "__setitem__") or tuple(getattr(out, "shape", ())) != shape:
        raise invalid(
            "out",
            f"out must be a path that ends in .npy or .zarr, or an array of shape {shape} to write "
            f"into; got {type(out).__name__} of shape {getattr(out, 'shape', None)}",
        )
    if _backend.is_array(out) and not isinstance(out, np.ndarray):
        raise wrong_type(
            "out",
            f"out must be on the host, such as an array of NumPy, zarr or h5py; got "
            f"{type(out).__name__}. With out=None the embedding stays where the model is",
        )
    if np.dtype(out.dtype).kind != "f":
        raise wrong_type(
            "out",
            f"out must hold floating-point numbers; got dtype {out.dtype}, which would round them. "
            f"Use {dtype}",
        )
    for block, rows in blocks:
        out[block.start : block.stop] = rows
    return out


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Report errors of writing, which are distinct from those of reading the blocks."""
    try:
        yield
    except OSError as error:
        message = (
            f"out={str(path)!r} could not be written ({error.strerror or error}). Nothing of it is "
            "left, and an earlier file is unchanged; free some space, or write elsewhere"
        )
        raise naming("out", OSError(error.errno, message)) from error


def _occupied(path: Path, kind: str) -> FileExistsError:
    message = (
        f"out={str(path)!r} must be free, or hold an embedding to be replaced; it is {kind}. "
        "Remove it, or write elsewhere"
    )
    return naming("out", FileExistsError(message))


def _write_npy(path: Path, shape: tuple[int, int], dtype: np.dtype, blocks: Any) -> Any:
    if path.is_dir():
        raise _occupied(path, "a folder")
    # Not through a memmap, with which a full disk ends the process, nor through a buffer, which
    # would be written, and fail, again when the file is closed.
    with whole_or_not_at_all(path) as temporary:
        with _writing(path):
            file = temporary.open("xb", buffering=0)
        with file:
            header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
            with _writing(path):
                np.lib.format.write_array_header_1_0(file, header)
            for _, rows in blocks:
                values = np.ascontiguousarray(rows, dtype=dtype).reshape(-1)
                left = memoryview(values.view(np.uint8))  # type: ignore[arg-type]
                with _writing(path):
                    while left:
                        left = left[file.write(left) :]
            with _writing(path):
                os.fsync(file.fileno())
    return np.load(path, mmap_mode="r" if 0 not in shape else None)


def _write_zarr(path: Path, shape: tuple[int, int], dtype: np.dtype, blocks: Any) -> Any:
    try:
        zarr = importlib.import_module("zarr")
    except ImportError as error:
        package = "zarr, or write to a .npy file"
        missing = not_installed(f"out={str(path)!r}", "zarr", error, package)
        raise naming("out", missing) from error
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        try:
            zarr.open_array(str(path), mode="r")
        except Exception as error:  # a group, perhaps the one that contains X, or not zarr
            raise _occupied(path, "not an array of zarr") from error
    with whole_or_not_at_all(path) as temporary:
        rows_per_chunk = max(1, min(shape[0], 2**20 // max(1, shape[1] * dtype.itemsize)))
        chunks = (rows_per_chunk, max(1, shape[1]))
        with _writing(path):
            array = zarr.create(store=str(temporary), shape=shape, chunks=chunks, dtype=dtype)
        for block, rows in _whole_chunks(blocks, rows_per_chunk):
            with _writing(path):
                array[block.start : block.stop] = rows
    return zarr.open(str(path), mode="r")


def _whole_chunks(blocks: Any, length: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Split blocks at multiples of `length`, so that each chunk is compressed only once."""
    start, parts, count = 0, [], 0
    for _, rows in blocks:
        parts.append(rows)
        count += rows.shape[0]
        if count >= length:
            joined = np.concatenate(parts)
            whole = count - count % length
            yield slice(start, start + whole), joined[:whole]
            start, parts, count = start + whole, [joined[whole:]], count - whole
    if count:
        yield slice(start, start + count), np.concatenate(parts)


_WRITERS = {".npy": _write_npy, ".zarr": _write_zarr}


def read(path: str | os.PathLike[str], build: Callable[[dict[str, np.ndarray]], T]) -> T:
    """Call `build` with the arrays of a file; its errors mean a damaged file."""
    with Path(path).open("rb") as stream:
        try:
            if not zipfile.is_zipfile(stream):  # NumPy would suggest to load it as pickle
                raise ValueError("not a zip archive")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                return build({name: file[name] for name in file.files})
        except _NewerFormatError:
            raise
        except Exception as error:  # anything that NumPy, zip or JSON raise for a damaged file
            raise invalid(
                "path",
                "path must name a model file, written by Model.save or slce-xp fit --model; "
                f"{os.fspath(path)!r} is damaged or not a model ({error}). Save the model again",
            ) from error


def facts_of(contents: dict[str, np.ndarray]) -> dict[str, Any]:
    """The facts in the header of a model's arrays."""
    facts: dict[str, Any] = json.loads(str(contents["header"]))
    if facts["format"] != FORMAT:
        raise ValueError(f"its format is {facts['format']!r}")
    if facts["version"] > VERSION:
        message = (
            f"path must name a model file of format {VERSION} or older; this one has format "
            f"{facts['version']}. Upgrade slce_xp to open it"
        )
        raise naming("path", _NewerFormatError(message))
    return facts


def pack_labels(classes: np.ndarray) -> tuple[np.ndarray, str]:
    """Return class labels as an array that needs no pickle, and their kind."""
    if classes.dtype.kind not in "TO":
        return classes, "plain"
    if all(isinstance(label, str) for label in classes):
        if any(label.endswith("\0") for label in classes):  # NumPy would strip it
            raise invalid(
                "classes",
                "classes must not end in a NUL character to be saved; got "
                f"{[label for label in classes if label.endswith(chr(0))][:10]}. Fit with labels "
                "without it",
            )
        kind = "StringDType" if classes.dtype.kind == "T" else "object"
        return classes.astype(object).astype(np.str_), kind
    kinds = sorted({type(label).__name__ for label in classes})
    raise wrong_type(
        "classes",
        "classes must be strings, or numbers, booleans or dates of a NumPy type, to be saved "
        f"without pickle; got {', '.join(kinds)}. Fit with such labels, for example y.astype(str)",
    )


def unpack_labels(classes: np.ndarray, kind: str) -> np.ndarray:
    """Restore class labels from the output of `pack_labels`."""
    if classes.ndim != 1:
        raise ValueError(f"its classes have shape {classes.shape}")
    if kind == "StringDType":
        return classes.astype(np.dtypes.StringDType())
    return classes.astype(object) if kind == "object" else classes
