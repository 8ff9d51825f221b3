"""What the command writes: each file whole or not at all, and none over another unasked."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import slce_xp
from slce_xp import _files
from slce_xp.cli import tables
from slce_xp.cli.tables import Table, TableError

PICTURES = (".png", ".svg", ".pdf", ".html")


class Outputs:
    """Files to be written: refused before any work, and never over others unasked.

    Parameters
    ----------
    arguments : argparse.Namespace
        `table` and, for a transform, `model` are inputs, which are never replaced.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._seen: dict[Path, str] = {}
        for name in ("table", "model") if arguments.command == "transform" else ("table",):
            if hasattr(arguments, name):
                self._seen[getattr(arguments, name).resolve()] = "the input"

    def check(self, option: str, kinds: Sequence[str]) -> None:
        """Refuse a file that cannot or must not be written."""
        path: Path | None = getattr(self._arguments, option)
        if path is None:
            return
        kind = tables.kind_of(path)
        packed = kind != path.suffix.lower()
        if kind not in kinds or (packed and kind not in (".csv", ".tsv")):
            raise TableError(f"--{option} {path} must end in {', '.join(kinds)}; rename it")
        same = self._seen.setdefault(path.resolve(), f"--{option}")
        if same != f"--{option}":
            raise TableError(f"--{option} {path} is {same} as well; choose another name")
        folder = path.parent
        if not folder.is_dir():
            raise TableError(f"--{option} {path}: there is no folder {folder}; make it first")
        if path.is_dir():
            raise TableError(f"--{option} {path} is a folder; name a file in it")
        if path.exists() and not self._arguments.force:
            raise TableError(f"--{option} {path} exists; replace it with --force, or rename it")
        if not os.access(folder, os.W_OK):
            raise TableError(f"--{option} {path}: nothing can be written into {folder}")
        _check_libraries(option, path, kind)

    def write(self, path: Path, writing: Callable[[Path], None]) -> None:
        """Write one, and say so."""
        try:
            writing(path)
        except OSError as error:
            raise TableError(
                f"{path} could not be written ({error.strerror or error}); nothing of it is left"
            ) from error
        print(f"wrote {path}")


def _check_libraries(option: str, path: Path, kind: str) -> None:
    """Whatever an output needs is missed before the work, not after it."""
    needed = {".html": ("plotly",), ".parquet": ("pandas", "pyarrow"), ".npy": (), ".npz": ()}
    if option in ("plot",):
        needed |= {kind: needed.get(kind, ("matplotlib",))}
    for name in needed.get(kind, ("pandas",) if kind in tables.TABLES else ()):
        if importlib.util.find_spec(name) is None:
            tables.library(name, f"--{option} {path} needs")


def write_embedding(path: Path, Z: np.ndarray, table: Table, arguments: argparse.Namespace) -> None:
    """A row for each sample: its name, its class, its components."""
    if path.suffix.lower() == ".npy":
        with _files.whole_or_not_at_all(path) as temporary, temporary.open("xb") as file:
            np.save(file, Z)
        return
    found: dict[str, np.ndarray] = {}
    if table.ids is not None:
        found[arguments.id or "id"] = table.ids
    if table.labels is not None:
        found[arguments.label if kind_has_columns(arguments.table) else "label"] = table.labels
    found |= dict(zip(tables.components(Z.shape[1]), Z.T, strict=True))
    tables.write(path, found)


def kind_has_columns(path: Path) -> bool:
    """Whether labels are a column with a name, not an array or a file beside."""
    return tables.kind_of(path) in (".csv", ".tsv", ".txt", ".parquet", ".h5ad")


def write_loadings(path: Path, model: slce_xp.Model) -> None:
    """A row for each feature: its weight in each component."""
    names = model.feature_names
    if names is None:
        names = np.arange(1, model.n_features + 1)
    axes = dict(zip(tables.components(model.n_components), model.components, strict=True))
    tables.write(path, {"feature": names, **axes})


def write_picture(path: Path, Z: np.ndarray, table: Table, model: slce_xp.Model) -> None:
    """The embedding as a picture, or as a page to hover over."""
    from slce_xp import plot

    if path.suffix.lower() == ".html":
        figure = plot.interactive(Z, table.labels, ids=table.ids)
        with _files.whole_or_not_at_all(path) as temporary:
            temporary.write_text(figure.to_html(include_plotlyjs=True), encoding="utf-8")
        return
    import matplotlib

    matplotlib.use("Agg")  # a picture in a file needs no screen
    axes = plot.points(Z, table.labels, classes=model.classes)
    with _files.whole_or_not_at_all(path) as temporary:
        axes.figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150, bbox_inches="tight")
