"""The subcommands."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import slce_xp
from slce_xp import _parameters
from slce_xp._data import columns
from slce_xp._errors import pip_install
from slce_xp.cli import checks, outputs
from slce_xp.cli.comparing import compare
from slce_xp.cli.inputs import read_table, read_to_fit
from slce_xp.cli.names import some
from slce_xp.cli.outputs import Outputs
from slce_xp.cli.selecting import select
from slce_xp.cli.table import Table, TableError, as_labels
from slce_xp.cli.watching import has_bar, report_fold, step

MOST_SHOWN = 12  # classes, and components, that are printed
LONG_FIT = 10**8  # entries of X from which on a progress bar is shown


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
    step(f"reading {arguments.table}")
    table, unlabeled, facts = read_to_fit(arguments)
    fill = facts.mean if facts is not None and facts.missing.any() else None
    scale = columns.spread(facts.std) if facts is not None and arguments.scale else None
    n, d = table.X.shape
    step(f"fitting {n} samples of {d} features")
    names = ("backend", "device", "solver", "max_memory", "criterion")
    how = {name: getattr(arguments, name) for name in names}
    X = columns.prepared(table.X, fill, scale)
    model = slce_xp.fit(
        X,
        table.labels,
        arguments.components,
        unlabeled=unlabeled,
        progress=n * d >= LONG_FIT and has_bar(),
        **how,
    ).to("numpy")
    Z = model.transform(X)
    del X
    model = _completed(model, table, scale)
    checks.note_all(table, model, facts, arguments)
    _print_model(model, arguments.top)
    _print_accuracy(table, model, arguments, how)
    _check_drawable(model, arguments)
    for path, writing in (
        (arguments.model, lambda path: model.save(path)),
        (arguments.embedding, lambda path: outputs.write_embedding(path, Z, table, arguments)),
        (arguments.plot, lambda path: outputs.write_plot(path, Z, table, model, arguments)),
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
    table, _, Z = _embedded(arguments, model)
    n, k = Z.shape
    print(
        f"{n} sample{'s' * (n != 1)} of {model.n_features} features → {k} component{'s' * (k != 1)}"
    )
    files.write(arguments.output, lambda path: outputs.write_embedding(path, Z, table, arguments))
    if arguments.plot is not None:
        files.write(
            arguments.plot, lambda path: outputs.write_plot(path, Z, table, model, arguments)
        )


def _predict(arguments: argparse.Namespace) -> None:
    files = Outputs(arguments)
    files.check("output", outputs.TABLES)
    model = _load(arguments.model)
    table, X, _ = _embedded(arguments, model)
    predicted = model.predict(X)
    probabilities = None
    if model.criterion == "separation":
        probabilities = model.predict_proba(X).max(axis=1)
    n = len(predicted)
    text = f"{n} sample{'s' * (n != 1)} classified into {len(model.classes)} classes"
    if table.labels is not None:
        known = table.is_labelled
        right = int((predicted.astype(str) == table.labels.astype(str))[known].sum())
        text += f", {right} of {int(known.sum())} with a label as it says"
    print(text)
    files.write(
        arguments.output,
        lambda path: outputs.write_predictions(path, predicted, probabilities, table, arguments),
    )


def _embedded(arguments: argparse.Namespace, model: slce_xp.Model) -> tuple[Table, Any, np.ndarray]:
    """Read the table that a model is applied to: it, its values and their embedding."""
    step(f"reading {arguments.table}")
    table = read_table(arguments, model.feature_names)
    if table.X.shape[1] != model.n_features:
        raise TableError(
            f"{arguments.table} must have {model.n_features} columns, as many as the model's "
            f"features; it has {table.X.shape[1]}. Give it the columns of the fit, in their order"
        )
    fill = model.mean if arguments.impute else None
    step(f"embedding {table.X.shape[0]} samples")
    with np.errstate(invalid="ignore"):
        X = columns.prepared(table.X, fill)
        Z = model.transform(X)
    wrong = np.flatnonzero(~np.isfinite(Z).all(axis=1))
    if wrong.size:
        if not arguments.impute and table.in_memory:
            checks.refuse_missing(columns.statistics(table.X), table, arguments)
        raise TableError(
            f"{arguments.table}: {wrong.size} of {len(Z)} rows, the first of them row "
            f"{wrong[0] + 1}, hold values that are infinite or missing; correct them, or fill "
            "missing ones: --impute mean"
        )
    checks.note_data(table, arguments)
    if table.passed_over:
        print(f"ignored: {some(table.passed_over)} (no features of the model)")
    return table, X, Z


def _inspect(arguments: argparse.Namespace) -> None:
    _print_model(_load(arguments.model), arguments.top)


def _plan(arguments: argparse.Namespace) -> None:
    size = (arguments.samples, arguments.features, arguments.classes, arguments.components)
    memory = {"max_memory": arguments.max_memory, "machine_memory": arguments.machine_memory}
    print(slce_xp.plan(*size, dtype=arguments.dtype, **memory))


def _demo(arguments: argparse.Namespace) -> None:
    from slce_xp import demo

    Outputs(arguments).check("output", outputs.IMAGES)
    demo.main(["--output", str(arguments.output)])


def _info(arguments: argparse.Namespace) -> None:
    from slce_xp.cli import info

    for line in info.lines():
        print(line)


def _check_drawable(model: slce_xp.Model, arguments: argparse.Namespace) -> None:
    if arguments.plot is not None and not model.n_components:
        raise TableError(
            "--plot: there are no components to draw, and nothing was written; request some, such "
            "as --components 2, or leave out --plot"
        )
    for i in arguments.plot_components or ():
        if i >= model.n_components:
            raise TableError(
                f"--plot-components must be from 1 to {model.n_components}, the number of "
                f"components; got {i + 1}, and nothing was written. Request more with --components"
            )


def _completed(model: slce_xp.Model, table: Table, scale: np.ndarray | None) -> slce_xp.Model:
    """Return the model for unscaled columns, with their names and with labels to be saved."""
    if scale is not None:
        model = model.unscaled(scale.astype(model.mean.dtype))
    classes, text = as_labels(list(model.classes)), checks.note_with_names(model, table)
    return dataclasses.replace(model, feature_names=table.names, classes=classes, note=text)


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
        found = f"it needs scikit-learn: {pip_install('scikit-learn')}"
    else:
        labelled = table.rows(table.is_labelled)
        assert labelled.labels is not None
        found = cross_validated(
            labelled.X,
            labelled.labels,
            model.n_components,
            arguments.folds,
            impute=arguments.impute is not None,
            scale=arguments.scale,
            report=report_fold,
            **how,
        )
    if isinstance(found, str):
        print(f"  5-NN         not cross-validated: {found}")
    else:
        print(
            f"  5-NN         {100 * found.slce:.1f} % right in {model.n_components} "
            f"component{'s' * (model.n_components != 1)}, PCA {100 * found.pca:.1f} %, LDA "
            f"{found.lda}, always the largest class {100 * found.largest:.1f} % "
            f"({found.folds}-fold cross-validation"
            f"{found.why}{' of labelled samples alone' * (not table.is_labelled.all())})"
        )


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "fit": _fit,
    "transform": _transform,
    "predict": _predict,
    "compare": compare,
    "select": select,
    "inspect": _inspect,
    "plan": _plan,
    "demo": _demo,
    "info": _info,
}
