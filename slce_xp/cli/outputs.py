"""Output files of the command: written completely or not at all, never overwritten unasked.

The same call writes the same bytes: no times, no random names.
"""

from __future__ import annotations

import contextlib
import gzip
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import slce_xp
from slce_xp import _files
from slce_xp.cli.tables import Table, TableError, is_packed, kind_of, library, plural

TABLES = (".csv", ".tsv", ".parquet")
EMBEDDINGS = (*TABLES, ".npy")
IMAGES = (".png", ".svg", ".pdf")
PLOTS = (*IMAGES, ".html")
# Libraries that write each kind of file.
_NEEDED = {".parquet": "pyarrow", ".html": "plotly", **dict.fromkeys(IMAGES, "matplotlib")}


def check(arguments: Namespace, **kinds: tuple[str, ...]) -> None:
    """Raise TableError, before any work, for a file that cannot or must not be written.

    `kinds` are the suffixes that each option allows.
    """
    inputs = [getattr(arguments, name, None) for name in ("table", "metadata")]
    if arguments.command != "fit":
        inputs.append(getattr(arguments, "model", None))
    seen = {path.resolve(): "the input" for path in inputs if path is not None}
    for option, allowed in kinds.items():
        path: Path | None = getattr(arguments, option)
        if path is not None:
            what = f"--{option} {path}"
            same = seen.setdefault(path.resolve(), f"--{option}")
            if same != f"--{option}":
                raise TableError(f"{what} is {same} as well; choose another name")
            _check_file(path, what, allowed, arguments.force)


def _check_file(path: Path, what: str, allowed: tuple[str, ...], force: bool) -> None:
    kind, folder = kind_of(path), path.parent
    if kind not in allowed or (is_packed(path) and kind not in (".csv", ".tsv")):
        raise TableError(f"{what} must end in {', '.join(allowed)}; rename it")
    if not folder.is_dir():
        raise TableError(f"{what}: there is no folder {folder}; create it first")
    if path.exists() and not force:
        raise TableError(f"{what} exists; replace it with --force, or choose another name")
    library(_NEEDED.get(kind, "pandas"), f"{what} needs")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise TableError(
            f"{what}: folder {folder} is not writable ({error.strerror}); choose another one"
        ) from error


@contextlib.contextmanager
def written(path: Path) -> Iterator[None]:
    """Report that a file was written, or why not."""
    try:
        yield
    except OSError as error:
        raise TableError(
            f"{path} could not be written ({error.strerror or error}); nothing of it is left. "
            "Free some space, or write elsewhere"
        ) from error
    print(f"wrote {path}")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a binary file that appears when it is complete."""
    with written(path), _files.whole_or_not_at_all(path) as temporary, temporary.open("xb") as file:
        if is_packed(path):
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                yield packed
        else:
            yield file


# ---------------------------------------------------------------- tables


def write_table(path: Path | None, columns: dict[str, Any]) -> None:
    """Write columns with their names, if a file is asked for."""
    if path is None:
        return
    frame = library("pandas", f"{path} needs").DataFrame(columns, copy=False)
    with _opened(path) as file:
        if kind_of(path) == ".parquet":
            frame.to_parquet(file, index=False, engine="pyarrow")
        else:
            separator = "\t" if kind_of(path) == ".tsv" else ","
            frame.to_csv(file, sep=separator, index=False, lineterminator="\n", mode="wb")


def write_samples(
    path: Path | None, table: Table, arguments: Namespace, found: dict[str, Any]
) -> None:
    """Write a row for each sample: its name, its columns, and what was found."""
    known: dict[str, Any] = {}
    if table.ids is not None:
        known[_free(arguments.id or "id", found)] = table.ids
    for role, values in table.columns.items():
        name = getattr(arguments, role)
        known[_free(role if Path(name).is_file() else name, known | found)] = values
    write_table(path, known | found)


def write_embedding(path: Path | None, Z: np.ndarray, table: Table, arguments: Namespace) -> None:
    """Write the components of each sample, with its name and class except in a file of NumPy."""
    if path is not None and kind_of(path) == ".npy":
        with written(path):
            _files.write_rows(path, Z.shape, Z.dtype, [(slice(0, len(Z)), Z)])
    else:
        write_samples(path, table, arguments, by_component(Z.T))


def by_component(rows: Any) -> dict[str, Any]:
    """Name the columns of an embedding."""
    return {f"component_{i + 1}": row for i, row in enumerate(rows)}


def _free(name: str, taken: dict[str, Any]) -> str:
    """Return a name, with underscores appended until no other column has it."""
    while name in taken:
        name += "_"
    return name


# ---------------------------------------------------------------- plots


def write_plot(
    Z: np.ndarray,
    table: Table,
    model: slce_xp.Model,
    arguments: Namespace,
    what: str = "",
    found: Any = None,
) -> None:
    """Plot an embedding as an image or a page; `what` says which; `found` if out of fold."""
    path = arguments.plot
    if path is None:
        return
    from slce_xp import plot
    from slce_xp.plot._axes import new_axes
    from slce_xp.plot._embedding import title_of
    from slce_xp.plot._looks import natural_order

    is_page = kind_of(path) == ".html"
    components = arguments.plot_components or (range(3) if is_page and Z.shape[1] == 3 else None)
    has_shares = found is None and model.criterion == "centroid"  # which are of the fit
    what = what if found is None else f", {title_of(found, components, in_page=is_page)}"
    style: dict[str, Any] = {
        "shares": model.loss_shares if has_shares else None,
        "title": f"{arguments.table.name}: {plural(len(Z), 'sample')}{what}",
        "components": components,
        "classes": natural_order(model.classes),
    }
    if is_page:
        page = plot.interactive(Z, table.labels, ids=table.ids, **style)
        with _opened(path) as file:
            file.write(page.to_html(div_id="slce-xp", default_height="100vh").encode())
        return
    with drawn(path) as figure:
        ax = new_axes(len(components or ()), figure)
        plot.points(Z, table.labels, ax=ax, ellipses=getattr(found, "ellipses", ()), **style)


@contextlib.contextmanager
def drawn(path: Path, size: tuple[float, float] | None = None) -> Iterator[Any]:
    """Yield a figure of Matplotlib, which is written at the end."""
    import matplotlib

    from slce_xp.plot._figure import Figure

    figure = Figure(size, layout="constrained")  # not pyplot's, which may need a screen
    yield figure
    kind = kind_of(path)[1:]
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with _opened(path) as file, matplotlib.rc_context({"svg.hashsalt": "slce-xp"}):
        figure.savefig(file, format=kind, dpi=150, bbox_inches="tight", metadata=undated)
