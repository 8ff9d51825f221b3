"""What a table must have for a fit, and what its user should know about it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection

import numpy as np

import slce_xp
from slce_xp._data import columns
from slce_xp.cli.names import drop_values, some
from slce_xp.cli.table import Table, TableError, note

UNLIKE = 100  # ratio of the spreads of two columns that suggests different units
DOMINANT = 0.95  # weight of a column in a component that is hardly more than that column
TELLING = 0.99  # share of a column's variance between classes that suggests it codes the class
FEWEST = 10  # samples per class below which such a share may be chance


# ---------------------------------------------------------------- labels


def labelled(table: Table, arguments: argparse.Namespace) -> tuple[Table, str | None]:
    """Return the table with unlabelled samples kept or dropped, and the mark of those kept."""
    there = table.is_labelled
    count = len(there) - int(there.sum())
    name = arguments.label or arguments.labels
    if count == len(there):
        raise TableError(f"{arguments.table}: no row has a label in {name!r}; name another --label")
    _check_classes(table, arguments)
    if not count:
        return table, None
    if arguments.unlabeled == "use":
        return table, "missing"
    if arguments.unlabeled is None or not table.in_memory:
        remedies = ["leave them out: --unlabeled drop"] * table.in_memory
        if arguments.command == "fit":
            remedies.append("use them for the fit without a label: --unlabeled use")
        raise TableError(
            f"{arguments.table}: {count} of {len(there)} rows have no label in {name!r} (it is "
            f"empty, or NA, None, null and the like); {', or '.join(remedies)}",
            {"--unlabeled": "drop" if table.in_memory else "use"},
        )
    return table.rows(there), None


def _check_classes(table: Table, arguments: argparse.Namespace) -> None:
    assert table.labels is not None
    name = arguments.label or arguments.labels
    classes = {label for label in table.labels if label is not None}
    if len(classes) == 1:
        raise TableError(
            f"{arguments.table}: {name!r} must have at least two classes; it has only "
            f"{str(classes.pop())!r}. Name another --label"
        )
    count = int(table.is_labelled.sum())
    if len(classes) == count > 2:
        raise TableError(
            f"{arguments.table}: {name!r} must name the classes of samples; each of {count} rows "
            "has its own. Name another --label, or read a table with samples in columns: "
            "--transpose"
        )


# ---------------------------------------------------------------- values


def facts_of(table: Table, arguments: argparse.Namespace) -> columns.Statistics | None:
    """Return statistics of the columns, after checking that all can be used for a fit."""
    if not (table.in_memory or arguments.impute or arguments.scale):
        return None  # it would take another pass, and the fit checks this as well
    facts = columns.statistics(table.X)
    for wrong, what in (
        (facts.missing == table.X.shape[0], "no value at all"),
        (~np.isfinite(facts.std), "values that are infinite or too large to be squared"),
    ):
        if wrong.any():
            names = names_of(np.flatnonzero(wrong), table)
            raise TableError(
                f"{arguments.table}: {some(names)} ha{'s' if len(names) == 1 else 've'} {what}; "
                "correct or leave out such columns",
                {} if table.names is None else {"--drop": drop_values(names)},
            )
    if not arguments.impute:
        refuse_missing(facts, table, arguments)
    return facts


def refuse_missing(facts: columns.Statistics, table: Table, arguments: argparse.Namespace) -> None:
    """Raise TableError if values are missing."""
    indices = np.flatnonzero(facts.missing)
    if indices.size:
        names = names_of(indices, table)
        counts = [f"{name} ({facts.missing[i]})" for name, i in zip(names, indices, strict=True)]
        shown = ", ".join(counts[:5]) + (f" and {len(counts) - 5} more" if len(counts) > 5 else "")
        raise TableError(
            f"{arguments.table}: missing values in {shown}; fill them with the means of their "
            "columns: --impute mean",
            {"--impute": "mean"},
        )


def names_of(indices: np.ndarray, table: Table) -> list[str]:
    """Return names of columns for a message."""
    if table.names is None:
        return [f"column {i + 1}" for i in indices]
    return [str(name) for name in table.names[indices]]


# ---------------------------------------------------------------- notes


def note_all(
    table: Table,
    model: slce_xp.Model,
    facts: columns.Statistics | None,
    arguments: argparse.Namespace,
) -> None:
    """Report what is suspicious about the columns, the labels and the fit."""
    suspects = _row_numbers(table)
    _note_telling(facts, table, model, suspects)
    _note_dominant(table, model, arguments, suspects)
    if model.note:
        _note_on_units(table, model, suspects)
    else:
        note_units(facts, table, arguments, suspects)
    note_data(table, arguments)
    n, name = model.n_samples, arguments.label or arguments.labels
    if 2 * len(model.classes) > n:
        note(f"{name!r} has {len(model.classes)} classes of {n} samples; is it a label?")


def note_units(
    facts: columns.Statistics | None,
    table: Table,
    arguments: argparse.Namespace,
    known: Collection[int] = (),
) -> None:
    """Warn of columns in different units: SLCE depends on distances, so large numbers dominate."""
    if facts is None or arguments.scale or not facts.std.any():
        return
    if getattr(arguments, "criterion", "") == "separation":  # which has units of its own
        return
    std = facts.std
    varying = np.flatnonzero(std > 0)
    narrow, wide = varying[[std[varying].argmin(), std[varying].argmax()]]
    if std[wide] > UNLIKE * std[narrow] and int(wide) not in known:
        names = names_of(np.array([narrow, wide]), table)
        note(
            f"columns spread very differently, from {std[narrow]:.2g} ({names[0]}) to "
            f"{std[wide]:.2g} ({names[1]}), and wide ones dominate; use --scale if units differ"
        )


def note_with_names(model: slce_xp.Model, table: Table) -> str:
    """Return the note of a model on the units of its columns, in the words of the command."""
    if not model.note or model.scale is not None:
        return ""
    index = model.note.split()[1]
    text = model.note.replace(f"column {index}", _column(int(index), table), 1)
    return text.replace("standardise the columns if their units", "use --scale if units")


def _note_on_units(table: Table, model: slce_xp.Model, known: Collection[int]) -> None:
    """Report the note of a model, unless its column was reported."""
    if not any(model.note.startswith(f"{_column(j, table)} ") for j in known):
        note(model.note)


def _column(index: int, table: Table) -> str:
    return f"column {index + 1 if table.names is None else repr(str(table.names[index]))}"


def _row_numbers(table: Table) -> set[int]:
    """Warn of a column of row numbers, which is hardly a feature, but often correlates."""
    X = table.X
    if type(X) is not np.ndarray or len(X) < 3:
        return set()
    counts = np.flatnonzero(np.isin(X[0], (0, 1)) & (X[-1] - X[0] == len(X) - 1))
    numbers = [int(j) for j in counts if (np.diff(X[:, j]) == 1).all()]
    if numbers:
        (name,) = names_of(np.array(numbers[:1]), table)
        as_id = f", or --id {shlex.quote(name)} if it names samples" * (table.names is not None)
        note(f"{name!r} only numbers the rows, and is used as a feature{_drop(name, table)}{as_id}")
    return set(numbers)


def _note_telling(
    facts: columns.Statistics | None, table: Table, model: slce_xp.Model, known: set[int]
) -> None:
    """Warn of columns that follow the label almost perfectly: they may code it."""
    counts = model.counts
    if facts is None or model.n_unlabeled or counts.min() < FEWEST:
        return
    between = (counts[:, None] * (model.centroids - model.mean) ** 2).sum(axis=0) / counts.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(facts.std > 0, between / facts.std**2, 0.0)
    found = [int(j) for j in np.argsort(-share)[:3] if share[j] > TELLING and j not in known]
    if found and len(found) < table.X.shape[1]:
        names = names_of(np.array(found), table)
        note(
            f"{100 * share[found[0]]:.1f} % of the variance of {names[0]!r} is between classes: it "
            f"follows the label almost perfectly"
            + (f", and so do {some(names[1:])}" if names[1:] else "")
            + f". If it is not a measurement, leave it out{_drop(names[0], table)}"
        )
    known.update(found)


def _note_dominant(
    table: Table, model: slce_xp.Model, arguments: argparse.Namespace, known: set[int]
) -> None:
    """Warn of columns that are components by themselves."""
    if model.n_features < 3 or model.criterion != "centroid":  # components of unit length
        return
    for i, weights in enumerate(model.components[: model.n_positive]):
        j = int(np.argmax(np.abs(weights)))
        if abs(weights[j]) > DOMINANT and j not in known:
            (name,) = names_of(np.array([j]), table)
            scale = "" if arguments.scale else ", or --scale if units differ"
            note(
                f"component {i + 1} is hardly more than {name!r} (weight {weights[j]:.3f}); if it "
                f"is not a measurement, leave it out{_drop(name, table)}{scale}"
            )
            known.add(j)


def _drop(name: str, table: Table) -> str:
    return "" if table.names is None else f": --drop {shlex.quote(drop_values([name])[0])}"


def note_data(table: Table, arguments: argparse.Namespace) -> None:
    """Report which matrix of a file was used: the model holds for that one."""
    if table.data:
        other = f"; --data chooses another: {some(table.other_data)}" if table.other_data else ""
        note(f"{arguments.table}: {table.data} was used{other}")
