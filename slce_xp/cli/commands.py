"""The subcommands that fit a model and apply it."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np

import slce_xp
from slce_xp import _parameters
from slce_xp._data import columns
from slce_xp.cli import checks, evaluating, evidence, info, outputs
from slce_xp.cli.inputs import has_bar, load_model, read_to_apply, read_to_fit, step
from slce_xp.cli.tables import Table, TableError, is_known, note, plural, some

MOST_SHOWN = 12  # classes, and components, that are printed
TOO_GOOD = "classes look better apart than in new samples"
LONG_FIT = 10**8  # entries of X from which on a progress bar is shown


def _fit(arguments: Namespace) -> None:
    outputs.check(
        arguments,
        model=(".npz",),
        embedding=outputs.EMBEDDINGS,
        plot=outputs.PLOTS,
        loadings=outputs.TABLES,
    )
    if arguments.backend or arguments.device:
        _parameters.named_place(arguments.backend or "numpy", arguments.device)  # before any work
    table, unlabeled, facts = read_to_fit(arguments)
    scale = columns.spread(facts.std) if facts is not None and arguments.scale else None
    X = columns.prepared(table.X, scale=scale)
    n, d = X.shape
    step(f"fitting {n} samples of {d} features")
    how, batch = _options(arguments, table), table.columns.get("batch")
    more = _calibration(arguments, table, unlabeled)
    show = n * d >= LONG_FIT and has_bar()
    model = slce_xp.fit(X, table.labels, arguments.components, progress=show, **how, **more)
    model = model.to("numpy")
    _check_drawable(model, arguments)
    Z = model.transform(X, batch=batch)
    held_out = evidence.held_out(X, table, model, arguments, how)
    chance = evidence.chance(X, table, model, arguments)
    lists_features = arguments.top or arguments.loadings is not None
    structure = model.structure(X, batch=batch) if lists_features else None
    del X
    model = _completed(model, table, scale)
    checks.note_fit(model, facts, table)
    _print_model(model, arguments.top, structure)
    evidence.print_held_out(held_out)
    print(f"  permutation  {chance}")
    if arguments.model is not None:
        with outputs.written(arguments.model):
            model.save(arguments.model)
    outputs.write_embedding(arguments.embedding, Z, table, arguments)
    if arguments.embedding is not None:
        note(f"{arguments.embedding} is of the samples of the fit: {TOO_GOOD}")
    evidence.plot(Z, held_out, table, model, arguments)
    if structure is not None:
        rows = {"feature": _names_of_features(model), **outputs.by_component(model.components)}
        rows |= {f"correlation_{i + 1}": column for i, column in enumerate(structure.T)}
        outputs.write_table(arguments.loadings, rows)


def _options(arguments: Namespace, table: Table) -> dict[str, Any]:
    """What the fit and its folds have in common."""
    names = ("backend", "device", "max_memory", "criterion")
    how = {name: getattr(arguments, name) for name in names}
    how["missing"] = None if table.is_sparse else arguments.missing
    batch = table.columns.get("batch")
    return how if batch is None else {**how, "batch": batch}


def _calibration(arguments: Namespace, table: Table, unlabeled: Any) -> dict[str, Any]:
    """A model that is saved is calibrated, by samples of which all have labels."""
    calibrate = bool(arguments.model and arguments.folds and unlabeled is None)
    groups = {"groups": table.columns.get("groups")} if calibrate else {}
    return {"calibrate": calibrate, "unlabeled": unlabeled, **groups}


def _completed(model: slce_xp.Model, table: Table, scale: np.ndarray | None) -> slce_xp.Model:
    """Return the model of unscaled columns, with their names, and labels that can be saved."""
    if scale is not None:
        model = model.unscaled(scale.astype(model.mean.dtype))
    classes = model.classes
    if classes.dtype == object:  # of samples some of which have no label
        classes = np.array(list(classes))
    model = dataclasses.replace(model, feature_names=table.names, classes=classes)
    return checks.with_names(model, table)


def _check_drawable(model: slce_xp.Model, arguments: Namespace) -> None:
    k = model.n_components
    if arguments.plot is not None and max(arguments.plot_components or [0]) >= k:
        raise TableError(
            f"--plot: the model has {plural(k, 'component')}, which are not enough to draw, and "
            "nothing was written. Request more with --components, or leave out --plot"
        )


# ---------------------------------------------------------------- a model and another table


def _transform(arguments: Namespace) -> None:
    outputs.check(arguments, output=outputs.EMBEDDINGS, plot=outputs.PLOTS)
    model = load_model(arguments.model)
    _check_drawable(model, arguments)
    n_features = model.n_features
    table, model, Z = _embedded(arguments, model)
    n, k = Z.shape
    print(f"{plural(n, 'sample')} of {n_features} features → {plural(k, 'component')}")
    outputs.write_embedding(arguments.output, Z, table, arguments)
    outputs.write_plot(Z, table, model, arguments)


def _predict(arguments: Namespace) -> None:
    outputs.check(arguments, output=outputs.TABLES)
    model = load_model(arguments.model)
    table, model, _ = _embedded(arguments, model)
    batch = table.columns.get("batch")
    predicted = model.predict(table.X, batch=batch)
    text = f"{plural(len(predicted), 'sample')} classified into {len(model.classes)} classes"
    if table.labels is not None:
        known = is_known(table.labels)
        right = int((predicted.astype(str) == table.labels.astype(str))[known].sum())
        text += f"; {right} of {int(known.sum())} agree with {arguments.label!r}"
        others = {*table.labels[known].astype(str)}.difference(model.classes.astype(str))
        if others:
            note(f"{arguments.label!r}: {some(sorted(others))} are not classes of the model")
    print(text)
    found: dict[str, Any] = {"predicted": predicted.astype(str)}
    found["probability"] = model.predict_proba(table.X, batch=batch).max(axis=1)
    if model.temperature is None:
        print("probabilities are not calibrated: fit --model does so, unless --folds is 0")
    outputs.write_samples(arguments.output, table, arguments, found)


def _embedded(
    arguments: Namespace, model: slce_xp.Model
) -> tuple[Table, slce_xp.Model, np.ndarray]:
    """Read the table that a model is applied to: it, the model, and the embedding."""
    table, model = read_to_apply(arguments, model)
    step(f"embedding {table.X.shape[0]} samples")
    with np.errstate(invalid="ignore"):
        Z = model.transform(table.X, batch=table.columns.get("batch"))
    wrong = np.flatnonzero(~np.isfinite(Z).all(axis=1))
    if wrong.size:
        raise TableError(
            f"{arguments.table}: {wrong.size} of {len(Z)} rows, the first of them row "
            f"{wrong[0] + 1}, hold values that are infinite or missing; correct them, or fill "
            "missing ones: --missing mean"
        )
    close = np.abs(Z.mean(axis=0)) <= np.finfo(Z.dtype).eps ** 0.5 * np.abs(Z).max(axis=0)
    if len(Z) == model.n_samples and close.all():  # as many samples, with the mean of the fit
        note(f"{arguments.table} has the samples of the fit: {TOO_GOOD}")
    return table, model, Z


# ---------------------------------------------------------------- a model


def _inspect(arguments: Namespace) -> None:
    model = load_model(arguments.model)
    if arguments.methods:
        print(model.methods())
    else:
        _print_model(model, arguments.top)


def _print_model(model: slce_xp.Model, top: int, structure: np.ndarray | None = None) -> None:
    """Print the model, its classes, and the features of largest weight in each component.

    With `structure`, their correlations with it, too.
    """
    print(model)
    shown = [f"{c} ({count})" for c, count in zip(model.classes, model.counts, strict=True)]
    more = f" and {len(shown) - MOST_SHOWN} more" if len(shown) > MOST_SHOWN else ""
    print(f"  classes      {', '.join(shown[:MOST_SHOWN])}{more}")
    names = _names_of_features(model)
    for i in range(min(model.n_components, MOST_SHOWN) if top else 0):
        weights = model.components[i]
        order = np.argsort(-np.abs(weights), kind="stable")[:top]
        r = [""] * len(names) if structure is None else [f" (r {r:+.2f})" for r in structure[:, i]]
        listed = ", ".join(f"{names[j]} {weights[j]:+.3g}{r[j]}" for j in order)
        print(f"  component {i + 1:<2} {listed}")


def _names_of_features(model: slce_xp.Model) -> Any:
    if model.feature_names is not None:
        return model.feature_names
    return [f"feature {j + 1}" for j in range(model.n_features)]


# ---------------------------------------------------------------- without a table


def _plan(arguments: Namespace) -> None:
    size = (arguments.samples, arguments.features, arguments.classes, arguments.components)
    memory = {"max_memory": arguments.max_memory, "machine_memory": arguments.machine_memory}
    print(slce_xp.plan(*size, dtype=arguments.dtype, **memory))


COMMANDS: dict[str, Callable[[Namespace], None]] = {
    "fit": _fit,
    "transform": _transform,
    "predict": _predict,
    "compare": evaluating.compare,
    "select": evaluating.select,
    "test": evaluating.test,
    "inspect": _inspect,
    "plan": _plan,
    "info": lambda _: print("\n".join(info.lines())),
}
