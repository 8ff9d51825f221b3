"""What each subcommand does, given its options."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import slce_xp
from slce_xp.cli import columns, outputs, tables
from slce_xp.cli.outputs import Outputs
from slce_xp.cli.tables import Chosen, Table, TableError

LONG_FIT = 10**8  # entries of X from which on a bar is worth its line
UNLIKE = 100  # times one column's spread that another's hardly has in the same unit


def _fit(arguments: argparse.Namespace) -> None:
    files = Outputs(arguments)
    for option, kinds in (
        ("model", (".npz",)),
        ("embedding", tables.EMBEDDINGS),
        ("plot", outputs.PICTURES),
        ("loadings", tables.TABLES),
    ):
        files.check(option, kinds)
    step = _steps()
    step(f"reading {arguments.table}")
    table = tables.read(
        arguments.table,
        Chosen(
            label=arguments.label,
            ids=arguments.id,
            drop=tuple(arguments.drop),
            data=arguments.data,
            stream=arguments.stream,
        ),
    )
    table, unlabeled = _labelled(table, arguments)
    fill, scale = _change(table, arguments)
    n, d = table.X.shape
    step(f"fitting {n} samples of {d} features")
    how = {
        "backend": arguments.backend,
        "device": arguments.device,
        "solver": arguments.solver,
        "max_memory": arguments.max_memory,
    }
    X = columns.prepared(table.X, fill, scale)
    model = slce_xp.fit(
        X,
        table.labels,
        arguments.components,
        unlabeled=unlabeled,
        progress=_shows_bar() and n * d >= LONG_FIT,
        **how,
    ).to("numpy")
    Z = model.transform(X)
    model = _named(
        model if scale is None else model.unscaled(scale.astype(model.mean.dtype)), table
    )
    del X
    print(model)
    _print_top(model, arguments.top)
    _print_accuracy(table, model, arguments, how, step)
    for path, writing in (
        (arguments.model, lambda path: model.save(path)),
        (arguments.embedding, lambda path: outputs.write_embedding(path, Z, table, arguments)),
        (arguments.plot, lambda path: outputs.write_picture(path, Z, table, model)),
        (arguments.loadings, lambda path: outputs.write_loadings(path, model)),
    ):
        if path is not None:
            files.write(path, writing)


def _transform(arguments: argparse.Namespace) -> None:
    files = Outputs(arguments)
    files.check("output", tables.EMBEDDINGS)
    model = _load(arguments.model)
    step = _steps()
    step(f"reading {arguments.table}")
    table = tables.read(
        arguments.table,
        Chosen(
            label=arguments.label,
            ids=arguments.id,
            features=model.feature_names,
            data=arguments.data,
            stream=arguments.stream,
        ),
    )
    if table.X.shape[1] != model.n_features:
        raise TableError(
            f"{arguments.table} must have {model.n_features} columns, as many as the model's "
            f"features; it has {table.X.shape[1]}. Give it the columns of the fit, in their order"
        )
    if not arguments.impute and table.in_memory:
        _refuse_missing(columns.statistics(table.X), table, arguments)
    fill = model.mean if arguments.impute else None
    step(f"embedding {table.X.shape[0]} samples")
    Z = model.transform(columns.prepared(table.X, fill))
    if table.passed_over:
        print(f"passed over: {columns.some(table.passed_over)}, no features of the model")
    print(f"{Z.shape[0]} samples of {model.n_features} features → {Z.shape[1]} components")
    files.write(arguments.output, lambda path: outputs.write_embedding(path, Z, table, arguments))


def _inspect(arguments: argparse.Namespace) -> None:
    model = _load(arguments.model)
    print(model)
    counts = ", ".join(
        f"{label} ({count})" for label, count in zip(model.classes, model.counts, strict=True)
    )
    print(f"  classes      {counts}")
    if model.scale is not None:
        print("  scale        columns are divided by their spread")
    _print_top(model, arguments.top)


def _plan(arguments: argparse.Namespace) -> None:
    plan = slce_xp.plan(
        arguments.samples,
        arguments.features,
        arguments.classes,
        arguments.components,
        dtype=arguments.dtype,
        max_memory=arguments.max_memory,
        machine_memory=arguments.machine_memory,
    )
    print(plan)
    if plan.advice:
        print(f"  advice  {plan.advice}")


def _demo(arguments: argparse.Namespace) -> None:
    from slce_xp import demo

    files = Outputs(arguments)
    files.check("output", (".png", ".svg", ".pdf"))
    demo.main(["--output", str(arguments.output)])


def _info(arguments: argparse.Namespace) -> None:
    from slce_xp.cli import info

    for line in info.lines():
        print(line)


# ---------------------------------------------------------------- a table made ready


def _labelled(table: Table, arguments: argparse.Namespace) -> tuple[Table, str | None]:
    """The table with samples that have no label as the user wants them, and what marks them."""
    labels = table.labels
    assert labels is not None
    missing = np.array([label is None for label in labels])
    count = int(missing.sum())
    if not count:
        return table, None
    if arguments.unlabeled == "use":
        return table, "missing"
    if arguments.unlabeled is None or not table.in_memory:
        remedies = "use them for the fit without a label: --unlabeled use"
        if table.in_memory:
            remedies = f"leave them out: --unlabeled drop, or {remedies}"
        raise TableError(
            f"{arguments.table}: {count} of {len(labels)} rows have no label in "
            f"{arguments.label!r}; {remedies}"
        )
    if count == len(labels):
        raise TableError(
            f"{arguments.table}: no row has a label in {arguments.label!r}; name another"
        )
    return table.rows(~missing), None


def _change(
    table: Table, arguments: argparse.Namespace
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """What to put for missing values, and what to divide columns by."""
    if not (table.in_memory or arguments.impute or arguments.scale):
        return None, None  # a reading of its own, for what the fit finds out as well
    facts = columns.statistics(table.X)
    scale = columns.spread(facts.std) if arguments.scale else None
    if scale is None:
        _tell_units(facts.std, table)
    if not arguments.impute:
        _refuse_missing(facts, table, arguments)
        return None, scale
    empty = np.flatnonzero(facts.missing == table.X.shape[0])
    if empty.size:
        names = _names_of(empty, table)
        listed = f"with --drop {','.join(names[:5])}" if table.names is not None else ""
        raise TableError(
            f"{arguments.table}: {columns.some(names)} ha{'s' if empty.size == 1 else 've'} no "
            f"value at all, so there is no mean to impute; leave out such columns {listed}".rstrip()
        )
    return facts.mean if facts.missing.any() else None, scale


def _tell_units(std: np.ndarray, table: Table) -> None:
    """SLCE looks at distances: a column of large numbers outweighs all others."""
    varying = np.flatnonzero(std > 0)
    if not varying.size:
        return
    narrow, wide = varying[[std[varying].argmin(), std[varying].argmax()]]
    if std[wide] > UNLIKE * std[narrow]:
        names = _names_of(np.array([narrow, wide]), table)
        warnings.warn(
            f"columns spread very differently, from {std[narrow]:.2g} ({names[0]}) to "
            f"{std[wide]:.2g} ({names[1]}), and wide ones decide; use --scale if units differ",
            stacklevel=2,
        )


def _refuse_missing(facts: columns.Statistics, table: Table, arguments: argparse.Namespace) -> None:
    where = np.flatnonzero(facts.missing)
    if where.size:
        counts = [
            f"{name} ({facts.missing[i]})"
            for name, i in zip(_names_of(where, table), where, strict=True)
        ]
        shown = ", ".join(counts[:5]) + (f" and {len(counts) - 5} more" if len(counts) > 5 else "")
        raise TableError(
            f"{arguments.table}: {facts.missing.sum()} values are missing, in {shown}; fill them "
            "with the means of their columns: --impute mean"
        )


def _names_of(indices: np.ndarray, table: Table) -> list[str]:
    if table.names is None:
        return [f"column {i + 1}" for i in indices]
    return [str(name) for name in table.names[indices]]


def _named(model: slce_xp.Model, table: Table) -> slce_xp.Model:
    return dataclasses.replace(model, feature_names=table.names)


def _load(path: Path) -> slce_xp.Model:
    if not path.exists():
        raise TableError(f"there is no model {path}; write one with slce-xp fit … --model {path}")
    try:
        return slce_xp.load(path)
    except ValueError as error:
        if "damaged" in str(error):
            raise TableError(
                f"{path} is damaged or no model; write it again with slce-xp fit … --model {path}"
            ) from error
        raise


# ---------------------------------------------------------------- what is printed


def _print_top(model: slce_xp.Model, top: int) -> None:
    """The features of largest weight in each component, by name."""
    names = model.feature_names
    for i in range(model.n_components if top else 0):
        weights = model.components[i]
        order = np.argsort(-np.abs(weights), kind="stable")[:top]
        told = ", ".join(
            f"{f'feature {j + 1}' if names is None else names[j]} {weights[j]:+.3g}" for j in order
        )
        print(f"  component {i + 1}  {told}")


def _print_accuracy(
    table: Table,
    model: slce_xp.Model,
    arguments: argparse.Namespace,
    how: dict[str, Any],
    step: Callable[[str], None],
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
        step("cross-validating")
        labels = table.labels
        assert labels is not None
        labelled = table.rows(np.array([label is not None for label in labels]))
        assert labelled.labels is not None
        found = cross_validated(
            labelled.X, labelled.labels, model.n_components, arguments.folds, arguments.scale, **how
        )
    if isinstance(found, str):
        print(f"  5-NN         not cross-validated: {found}")
    else:
        print(
            f"  5-NN         {found.slce:.1%} right in {model.n_components} "
            f"component{'s' * (model.n_components != 1)}, PCA {found.pca:.1%} "
            f"({found.folds}-fold cross-validation)"
        )


# ---------------------------------------------------------------- while it works


def _steps() -> Callable[[str], None]:
    """Tells what is being done to who watches, and nothing to a log."""
    if sys.stderr.isatty():
        return lambda text: print(f"{text} …", file=sys.stderr)
    return lambda text: None


def _shows_bar() -> bool:
    return sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "fit": _fit,
    "transform": _transform,
    "inspect": _inspect,
    "plan": _plan,
    "demo": _demo,
    "info": _info,
}
