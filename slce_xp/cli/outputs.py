"""Output files of the command: written completely or not at all, never overwritten unasked.

The same call writes the same bytes: no times, no random names.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import html
import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import slce_xp
from slce_xp import _files
from slce_xp._comparison.table import as_columns
from slce_xp.cli.sheets import KINDS
from slce_xp.cli.table import Table, TableError, is_packed, kind_of, library

TABLES = (".csv", ".tsv", ".parquet")
EMBEDDINGS = (*TABLES, ".npy")
IMAGES = (".png", ".svg", ".pdf")
PLOTS = (*IMAGES, ".html")
# Libraries needed to write each kind of file.
_NEEDED = {
    **dict.fromkeys((".csv", ".tsv"), ("pandas",)),
    ".parquet": ("pandas", "pyarrow"),
    **dict.fromkeys(IMAGES, ("matplotlib",)),
    ".html": ("plotly",),
}


class Outputs:
    """Output files, checked before any work.

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
        """Raise TableError for a file that cannot or must not be written."""
        path: Path | None = getattr(self._arguments, option)
        if path is None:
            return
        what = f"--{option} {path}"
        kind = kind_of(path)
        if kind not in kinds or (is_packed(path) and kind not in (".csv", ".tsv")):
            raise TableError(f"{what} must end in {', '.join(kinds)}; rename it")
        same = self._seen.setdefault(path.resolve(), f"--{option}")
        if same != f"--{option}":
            raise TableError(f"{what} is {same} as well; choose another name")
        folder = path.parent
        if not folder.is_dir():
            raise TableError(f"{what}: there is no folder {folder}; create it first")
        if path.is_dir():
            raise TableError(f"{what} is a folder; name a file in it")
        if path.exists() and not self._arguments.force:
            raise TableError(f"{what} exists; replace it with --force, or choose another name")
        for name in _NEEDED.get(kind, ()):
            if importlib.util.find_spec(name) is None:
                library(name, f"{what} needs")
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise TableError(
                f"{what}: folder {folder} is not writable ({error.strerror}); choose another one"
            ) from error

    def write(self, path: Path, writing: Callable[[Path], None]) -> None:
        """Write a file and report it."""
        try:
            writing(path)
        except OSError as error:
            raise TableError(
                f"{path} could not be written ({error.strerror or error}); nothing of it is left. "
                "Free some space, or write elsewhere"
            ) from error
        print(f"wrote {path}")


def write_embedding(path: Path, Z: np.ndarray, table: Table, arguments: argparse.Namespace) -> None:
    """Write a row for each sample: its name, its class, its components."""
    if kind_of(path) == ".npy":
        Z = np.ascontiguousarray(Z)
        with _opened(path) as file:
            header = np.lib.format.header_data_from_array_1_0(Z)
            np.lib.format.write_array_header_1_0(file, header)
            file.write(Z.tobytes())  # ndarray.tofile does not report a full disk
        return
    axes = _by_component(Z.T)
    # Column names are kept; names of arrays or of other files are not column names.
    label, ids = "label", "id"
    if kind_of(arguments.table) in (*KINDS, ".h5ad"):
        label, ids = arguments.label or label, arguments.id or ids
    if arguments.labels:
        label = arguments.labels.rpartition(":")[2]
    found: dict[str, np.ndarray] = {}
    if table.ids is not None:
        found[_free(ids, axes)] = table.ids
    if table.labels is not None and (arguments.labels or arguments.label != arguments.id):
        found[_free(label, found | axes)] = table.labels
    _write_table(path, found | axes)


def write_predictions(
    path: Path,
    predicted: np.ndarray,
    probabilities: np.ndarray | None,
    table: Table,
    arguments: argparse.Namespace,
) -> None:
    """Write a row for each sample: its name, its class if known, the predicted one, how sure."""
    found: dict[str, np.ndarray] = {}
    if table.ids is not None:
        found[arguments.id or "id"] = table.ids
    if table.labels is not None:
        label = arguments.label or arguments.labels.rpartition(":")[2]
        found[_free(label, found)] = table.labels
    found[_free("predicted", found)] = predicted.astype(str)
    if probabilities is not None:
        found[_free("probability", found)] = probabilities
    _write_table(path, found)


def write_loadings(path: Path, model: slce_xp.Model) -> None:
    """Write a row for each feature: its weight in each component."""
    names = model.feature_names
    if names is None:
        names = np.arange(1, model.n_features + 1)
    _write_table(path, {"feature": names, **_by_component(model.components)})


def write_plot(
    path: Path, Z: np.ndarray, table: Table, model: slce_xp.Model, arguments: argparse.Namespace
) -> None:
    """Plot the embedding, as an image or as an interactive page."""
    from slce_xp import plot
    from slce_xp.plot._axes import new_axes
    from slce_xp.plot._looks import natural_order

    n, k = Z.shape
    is_page = kind_of(path) == ".html"
    components = arguments.plot_components or (range(3) if is_page and k == 3 else None)
    count = len({*(() if table.labels is None else table.labels)} - {None})
    classes = f", {count} class{'es' * (count != 1)}" * bool(count)
    title = f"{arguments.table.name}: {n} samples{classes}"
    style: dict[str, Any] = {
        "shares": model.loss_shares if model.criterion == "centroid" else None, "title": title,
        "components": components, "classes": natural_order(model.classes),
    }  # fmt: skip
    if is_page:
        figure = plot.interactive(Z, table.labels, ids=table.ids, **style)
        with _opened(path) as file:
            file.write(_page(figure, title).encode())
        return
    figure = _new_figure()
    ax = new_axes(len(components or ()), figure)
    plot.points(Z, table.labels, ax=ax, **style)
    _save_figure(path, figure)


def write_comparison(path: Path, found: slce_xp.Comparison) -> None:
    """Write a row for each method, number of components and classifier."""
    _write_table(path, as_columns(found))


def write_comparison_plot(path: Path, found: slce_xp.Comparison) -> None:
    """Plot the accuracies as an image."""
    from slce_xp import plot
    from slce_xp.plot._comparison import size_of

    figure = _new_figure(size_of(found))
    plot.comparison(found, figure.subplots(1, 2))
    _save_figure(path, figure)


def write_ranking(path: Path, ranking: dict[str, np.ndarray]) -> None:
    """Write a row for each selected feature, the most important one first."""
    _write_table(path, {"rank": np.arange(1, len(ranking["feature"]) + 1), **ranking})


def write_path_plot(path: Path, found: slce_xp.FeaturePath, names: np.ndarray | None) -> None:
    """Plot a feature path as an image."""
    from slce_xp import plot
    from slce_xp.plot._axes import new_axes

    figure = _new_figure()
    plot.feature_path(found, names, ax=new_axes(2, figure))
    _save_figure(path, figure)


def _new_figure(figsize: tuple[float, float] | None = None) -> Any:
    from slce_xp.plot._figure import Figure

    return Figure(figsize, layout="constrained")  # not pyplot's, which may need a screen


def _save_figure(path: Path, figure: Any) -> None:
    import matplotlib

    kind = kind_of(path)[1:]
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with _opened(path) as file, matplotlib.rc_context({"svg.hashsalt": "slce-xp"}):
        figure.savefig(file, format=kind, dpi=150, bbox_inches="tight", metadata=undated)


def _page(figure: Any, title: str) -> str:
    """Return a page that the plot fills, whatever the size of the window."""
    plot = figure.to_html(
        full_html=False, include_plotlyjs=True, div_id="slce-xp", default_height="100vh",
        config={"responsive": True},
    )  # fmt: skip
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>"
        "<style>body { margin: 0; overflow: hidden; }</style></head>\n"
        f"<body>{plot}</body></html>\n"
    )


def _write_table(path: Path, frame_columns: dict[str, Any]) -> None:
    frame = library("pandas", f"{path} needs").DataFrame(frame_columns, copy=False)
    with _opened(path) as file:
        if kind_of(path) == ".parquet":
            frame.to_parquet(file, index=False, engine="pyarrow")
        else:
            separator = "\t" if kind_of(path) == ".tsv" else ","
            frame.to_csv(file, sep=separator, index=False, lineterminator="\n", mode="wb")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a binary file that appears when it is complete."""
    with _files.whole_or_not_at_all(path) as temporary, temporary.open("xb") as file:
        if is_packed(path):
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                yield packed
        else:
            yield file


def _by_component(rows: Any) -> dict[str, Any]:
    """Name the columns of an embedding."""
    return {f"component_{i + 1}": row for i, row in enumerate(rows)}


def _free(name: str, taken: dict[str, Any]) -> str:
    """Return a name, with underscores appended until no other column has it."""
    while name in taken:
        name += "_"
    return name
