"""Model files: plain arrays and a JSON header in an .npz, never pickle. Knows no model."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

FORMAT = "slce_xp model"
VERSION = 1

T = TypeVar("T")


class _NewerFormatError(ValueError):
    """A file from a later release: not damaged, so it keeps its own message."""


def write(
    path: str | os.PathLike[str], facts: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write a file whole or not at all."""
    header = np.array(json.dumps({"format": FORMAT, "version": VERSION, **facts}))
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    contents: dict[str, Any] = {"header": header, **arrays}
    try:
        with temporary.open("xb") as file:
            np.savez(file, **contents)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(
    path: str | os.PathLike[str],
    build: Callable[[dict[str, Any], dict[str, np.ndarray]], T],
) -> T:
    """Make of a file's header and arrays what `build` does; its errors mean a damaged file."""
    with Path(path).open("rb") as stream:
        try:
            return build(*_parse(stream, path))
        except _NewerFormatError:
            raise
        except Exception as error:  # whatever a damaged file makes NumPy, zip or JSON raise
            raise ValueError(
                f"path must name a model file written by Model.save; {os.fspath(path)!r} is "
                f"damaged or something else ({error}). Save the model again"
            ) from error


def _parse(
    stream: Any, path: str | os.PathLike[str]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not zipfile.is_zipfile(stream):  # NumPy would take it for pickle and advise to load it
        raise ValueError("no zip archive")
    stream.seek(0)
    with np.load(stream, allow_pickle=False) as file:
        contents = {name: file[name] for name in file.files}
    facts = json.loads(str(contents.pop("header")))
    if facts["format"] != FORMAT:
        raise ValueError(f"its format is {facts['format']!r}")
    if facts["version"] > VERSION:
        raise _NewerFormatError(
            f"path must name a model file of format {VERSION} or older; {os.fspath(path)!r} "
            f"has format {facts['version']}. Upgrade slce_xp to open it"
        )
    return facts, contents


def pack_labels(classes: np.ndarray) -> tuple[np.ndarray, str]:
    """Class labels as an array that needs no pickle, and the kind to restore."""
    if classes.dtype.kind == "T":
        return classes.astype(object).astype(np.str_), "StringDType"
    if classes.dtype != object:
        return classes, "plain"
    if all(isinstance(label, str) for label in classes):
        return classes.astype(np.str_), "object"
    kinds = sorted({type(label).__name__ for label in classes})
    raise TypeError(
        f"classes must be numbers, strings, booleans or dates to be saved without pickle; "
        f"got {', '.join(kinds)}. Fit with such labels, for example y.astype(str)"
    )


def unpack_labels(classes: np.ndarray, kind: str) -> np.ndarray:
    """Class labels as they were before `pack_labels`."""
    if classes.ndim != 1:
        raise ValueError(f"its classes have shape {classes.shape}")
    if kind == "StringDType":
        return classes.astype(np.dtypes.StringDType())
    return classes.astype(object) if kind == "object" else classes
