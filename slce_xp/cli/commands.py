"""The subcommands."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import shlex
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import slce_xp
from slce_xp import _parameters
from slce_xp._planning import profiles
from slce_xp.cli import columns, outputs
from slce_xp.cli.outputs import Outputs
from slce_xp.cli.reading import read
from slce_xp.cli.table import Chosen, Table, TableError, as_labels, drop_option, some

MOST_SHOWN = 12  # classes, and components, that are printed
LONG_FIT = 10**8  # entries of X from which on a progress bar is shown
UNLIKE = 100  # ratio of the spreads of two columns that suggests different units


def _fit(arguments: argparse.Namespace) -> None:
    files = Outputs(arguments)
    for option, kinds in (
        ("model", (".npz",)),
        ("embedding", outputs.EMBEDDINGS),
        ("plot", outputs.PLOTS),
        ("loadings", outputs.TABLES),
    ):
        files.check(option, kinds)
    if arguments.backend or arguments.device:
        _parameters.named_place(arguments.backend or "numpy", arguments.device)  # before any work
    table = _read(arguments, tuple(arguments.drop))
    table, unlabeled = _labelled(table, arguments)
    facts = _facts(table, arguments)
    fill = facts.mean if facts is not None and facts.missing.any() else None
    scale = columns.spread(facts.std) if facts is not None and arguments.scale else None
    n, d = table.X.shape
    _step(f"fitting {n} samples of {d} features")
    names = ("backend", "device", "solver", "max_memory")
    how = {name: getattr(arguments, name) for name in names}
    X = columns.prepared(table.X, fill, scale)
    model = slce_xp.fit(
        X,
        table.labels,
        arguments.components,
        unlabeled=unlabeled,
        progress=n * d >= LONG_FIT and _is_watched() and bool(importlib.util.find_spec("tqdm")),
        **how,
    ).to("numpy")
    Z = model.transform(X)
    del X
    model = _completed(model, table, scale)
    _note_units(facts, table, arguments)
    _note_row_numbers(table)
    _note_other_data(table, arguments)
    if 2 * len(model.classes) > n:
        _note(
            f"{arguments.label!r} has {len(model.classes)} classes of {n} samples; is it a label?"
        )
    _print_model(model, arguments.top)
    _print_accuracy(table, model, arguments, how)
    _check_drawable(model, arguments)
    for path, writing in (
        (arguments.model, lambda path: model.save(path)),
        (arguments.embedding, lambda path: outputs.write_embedding(path, Z, table, arguments)),
        (arguments.plot, lambda path: outputs.write_plot(path, Z, table, model)),
        (arguments.loadings, lambda path: outputs.write_loadings(path, model)),
    ):
        if path is not None:
            files.write(path, writing)


def _transform(arguments: argparse.Namespace) -> None:
    files = Outputs(arguments)
    files.check("output", outputs.EMBEDDINGS)
    files.check("plot", outputs.PLOTS)
    model = _load(arguments.model)
    _check_drawable(model, arguments)
    table = _read(arguments, features=model.feature_names)
    if table.X.shape[1] != model.n_features:
        raise TableError(
            f"{arguments.table} must have {model.n_features} columns, as many as the model's "
            f"features; it has {table.X.shape[1]}. Give it the columns of the fit, in their order"
        )
    fill = model.mean if arguments.impute else None
    _step(f"embedding {table.X.shape[0]} samples")
    with np.errstate(invalid="ignore"):
        Z = model.transform(columns.prepared(table.X, fill))
    wrong = np.flatnonzero(~np.isfinite(Z).all(axis=1))
    if wrong.size:
        if not arguments.impute and table.in_memory:
            _refuse_missing(columns.statistics(table.X), table, arguments)
        raise TableError(
            f"{arguments.table}: {wrong.size} of {len(Z)} rows, the first of them row "
            f"{wrong[0] + 1}, hold values that are infinite or missing; correct them, or fill "
            "missing ones: --impute mean"
        )
    _note_other_data(table, arguments)
    if table.passed_over:
        print(f"ignored: {some(table.passed_over)} (no features of the model)")
    n, k = Z.shape
    print(
        f"{n} sample{'s' * (n != 1)} of {model.n_features} features → {k} component{'s' * (k != 1)}"
    )
    files.write(arguments.output, lambda path: outputs.write_embedding(path, Z, table, arguments))
    if arguments.plot is not None:
        files.write(arguments.plot, lambda path: outputs.write_plot(path, Z, table, model))


def _inspect(arguments: argparse.Namespace) -> None:
    _print_model(_load(arguments.model), arguments.top)


def _plan(arguments: argparse.Namespace) -> None:
    size = (arguments.samples, arguments.features, arguments.classes, arguments.components)
    memory = {"max_memory": arguments.max_memory, "machine_memory": arguments.machine_memory}
    print(slce_xp.plan(*size, dtype=arguments.dtype, **memory))


def _calibrate(arguments: argparse.Namespace) -> None:
    _step("measuring, for about half a minute")
    profile = slce_xp.calibrate(arguments.backend, arguments.device)
    print(profile)
    if profile in profiles.stored().values():
        print(f"stored in {profiles.path()}")


def _demo(arguments: argparse.Namespace) -> None:
    from slce_xp import demo

    Outputs(arguments).check("output", outputs.IMAGES)
    demo.main(["--output", str(arguments.output)])


def _info(arguments: argparse.Namespace) -> None:
    from slce_xp.cli import info

    for line in info.lines():
        print(line)


# ---------------------------------------------------------------- the table


def _read(
    arguments: argparse.Namespace, drop: tuple[str, ...] = (), features: np.ndarray | None = None
) -> Table:
    _step(f"reading {arguments.table}")
    chosen = Chosen(arguments.label, arguments.id, drop, features, arguments.data, arguments.stream)
    return read(arguments.table, chosen)


def _labelled(table: Table, arguments: argparse.Namespace) -> tuple[Table, str | None]:
    """Return the table with unlabelled samples kept or dropped, and the mark of those kept."""
    there = table.is_labelled
    count = len(there) - int(there.sum())
    if count == len(there):
        raise TableError(
            f"{arguments.table}: no row has a label in {arguments.label!r}; name another --label"
        )
    _check_classes(table, arguments)
    if not count:
        return table, None
    if arguments.unlabeled == "use":
        return table, "missing"
    if arguments.unlabeled is None or not table.in_memory:
        remedies = "use them for the fit without a label: --unlabeled use"
        if table.in_memory:
            remedies = f"leave them out: --unlabeled drop, or {remedies}"
        raise TableError(
            f"{arguments.table}: {count} of {len(there)} rows have no label in "
            f"{arguments.label!r} (it is empty, or NA, None, null and the like); {remedies}"
        )
    return table.rows(there), None


def _check_classes(table: Table, arguments: argparse.Namespace) -> None:
    assert table.labels is not None
    classes = {label for label in table.labels if label is not None}
    if len(classes) == 1:
        raise TableError(
            f"{arguments.table}: {arguments.label!r} must have at least two classes; it has only "
            f"{str(classes.pop())!r}. Name another --label"
        )
    count = int(table.is_labelled.sum())
    if len(classes) == count > 2:
        raise TableError(
            f"{arguments.table}: {arguments.label!r} must name the classes of samples; each of "
            f"{count} rows has its own. Name another --label, or transpose a table with samples in "
            "columns"
        )


def _facts(table: Table, arguments: argparse.Namespace) -> columns.Statistics | None:
    """Return statistics of the columns, after checking that all can be used for a fit."""
    if not (table.in_memory or arguments.impute or arguments.scale):
        return None  # it would take another pass, and the fit checks this as well
    facts = columns.statistics(table.X)
    for wrong, what in (
        (facts.missing == table.X.shape[0], "no value at all"),
        (~np.isfinite(facts.std), "values that are infinite or too large to be squared"),
    ):
        if wrong.any():
            names = _names_of(np.flatnonzero(wrong), table)
            listed = "" if table.names is None else f": {drop_option(names[:5])}"
            raise TableError(
                f"{arguments.table}: {some(names)} ha{'s' if len(names) == 1 else 've'} {what}; "
                f"correct or leave out such columns{listed}"
            )
    if not arguments.impute:
        _refuse_missing(facts, table, arguments)
    return facts


def _note_units(
    facts: columns.Statistics | None, table: Table, arguments: argparse.Namespace
) -> None:
    """Warn of columns in different units: SLCE depends on distances, so large numbers dominate."""
    if facts is None or arguments.scale or not facts.std.any():
        return
    std = facts.std
    varying = np.flatnonzero(std > 0)
    narrow, wide = varying[[std[varying].argmin(), std[varying].argmax()]]
    if std[wide] > UNLIKE * std[narrow]:
        names = _names_of(np.array([narrow, wide]), table)
        _note(
            f"columns spread very differently, from {std[narrow]:.2g} ({names[0]}) to "
            f"{std[wide]:.2g} ({names[1]}), and wide ones dominate; use --scale if units differ"
        )


def _note_row_numbers(table: Table) -> None:
    """Warn of a column of row numbers, which is hardly a feature, but often correlates."""
    X = table.X
    if type(X) is not np.ndarray or len(X) < 3:
        return
    counts = np.flatnonzero(np.isin(X[0], (0, 1)) & (X[-1] - X[0] == len(X) - 1))
    numbers = [j for j in counts if (np.diff(X[:, j]) == 1).all()]
    if numbers:
        (name,) = _names_of(np.array(numbers[:1]), table)
        remedy = ""
        if table.names is not None:
            remedy = f"; {drop_option([name])}, or --id {shlex.quote(name)} if it names samples"
        _note(f"{name!r} only numbers the rows, and is used as a feature{remedy}")


def _note_other_data(table: Table, arguments: argparse.Namespace) -> None:
    """Warn that the file has several matrices: the model holds for one of them."""
    if table.other_data:
        _note(f"{arguments.table} has several matrices; --data chooses {some(table.other_data)}")


def _refuse_missing(facts: columns.Statistics, table: Table, arguments: argparse.Namespace) -> None:
    indices = np.flatnonzero(facts.missing)
    if indices.size:
        names = _names_of(indices, table)
        counts = [f"{name} ({facts.missing[i]})" for name, i in zip(names, indices, strict=True)]
        shown = ", ".join(counts[:5]) + (f" and {len(counts) - 5} more" if len(counts) > 5 else "")
        raise TableError(
            f"{arguments.table}: missing values in {shown}; fill them with the means of their "
            "columns: --impute mean"
        )


def _names_of(indices: np.ndarray, table: Table) -> list[str]:
    if table.names is None:
        return [f"column {i + 1}" for i in indices]
    return [str(name) for name in table.names[indices]]


def _check_drawable(model: slce_xp.Model, arguments: argparse.Namespace) -> None:
    if arguments.plot is not None and not model.n_components:
        raise TableError(
            "--plot: there are no components to draw, and nothing was written; request some, such "
            "as --components 2, or leave out --plot"
        )


def _completed(model: slce_xp.Model, table: Table, scale: np.ndarray | None) -> slce_xp.Model:
    """Return the model for unscaled columns, with their names and with labels to be saved."""
    if scale is not None:
        model = model.unscaled(scale.astype(model.mean.dtype))
    classes = as_labels(list(model.classes))
    return dataclasses.replace(model, feature_names=table.names, classes=classes)


def _load(path: Path) -> slce_xp.Model:
    if not path.exists():
        raise TableError(f"there is no model {path}; write one with slce-xp fit … --model {path}")
    try:
        return slce_xp.load(path)
    except PermissionError as error:
        raise TableError(f"{path} cannot be read ({error.strerror})") from error
    except (OSError, ValueError) as error:
        if "Upgrade" in str(error):
            raise
        raise TableError(
            f"{path} is damaged or not a model; write one with slce-xp fit … --model FILE"
        ) from error


# ---------------------------------------------------------------- results


def _print_model(model: slce_xp.Model, top: int) -> None:
    """Print the model, its classes, and the features of largest weight in each component."""
    print(model)
    shown = [f"{c} ({count})" for c, count in zip(model.classes, model.counts, strict=True)]
    more = f" and {len(shown) - MOST_SHOWN} more" if len(shown) > MOST_SHOWN else ""
    print(f"  classes      {', '.join(shown[:MOST_SHOWN])}{more}")
    names = model.feature_names
    for i in range(min(model.n_components, MOST_SHOWN) if top else 0):
        weights = model.components[i]
        order = np.argsort(-np.abs(weights), kind="stable")[:top]
        largest = ", ".join(
            f"{f'feature {j + 1}' if names is None else names[j]} {weights[j]:+.3g}" for j in order
        )
        print(f"  component {i + 1:<2} {largest}")


def _print_accuracy(
    table: Table, model: slce_xp.Model, arguments: argparse.Namespace, how: dict[str, Any]
) -> None:
    if not arguments.folds:
        return
    from slce_xp.cli.accuracy import Accuracy, cross_validated

    found: Accuracy | str
    if not table.in_memory:
        found = "the table is read in blocks"
    elif importlib.util.find_spec("sklearn") is None:
        found = "it needs scikit-learn: pip install 'slce-xp[cli]'"
    else:
        _step("cross-validating")
        labelled = table.rows(table.is_labelled)
        assert labelled.labels is not None
        found = cross_validated(
            labelled.X,
            labelled.labels,
            model.n_components,
            arguments.folds,
            impute=arguments.impute is not None,
            scale=arguments.scale,
            **how,
        )
    if isinstance(found, str):
        print(f"  5-NN         not cross-validated: {found}")
    else:
        print(
            f"  5-NN         {100 * found.slce:.1f} % right in {model.n_components} "
            f"component{'s' * (model.n_components != 1)}, PCA {100 * found.pca:.1f} %, always the "
            f"largest class {100 * found.largest:.1f} % ({found.folds}-fold cross-validation"
            f"{found.why}{' of labelled samples alone' * (not table.is_labelled.all())})"
        )


# ---------------------------------------------------------------- progress


def _note(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def _step(text: str) -> None:
    """Report a step on a terminal, and nothing to a log."""
    if _is_watched():
        print(f"{text} …", file=sys.stderr)


def _is_watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "fit": _fit,
    "transform": _transform,
    "inspect": _inspect,
    "plan": _plan,
    "calibrate": _calibrate,
    "demo": _demo,
    "info": _info,
}
