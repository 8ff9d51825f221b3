"""What a table must have for a fit, and what its user should know about it."""

from __future__ import annotations

import dataclasses
import re
import shlex
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import numpy as np

import slce_xp
from slce_xp._data import columns
from slce_xp._folds import looks_like_groups
from slce_xp.cli.tables import Table, TableError, is_known, note, some

TELLING = 0.99  # share of a column's variance between classes that suggests it codes the class
MEASURED = re.compile(r"-?\d+\.\d+(e[-+]?\d+)?")  # a label that is hardly the name of a class
FEWEST = 10  # samples, or samples per class, below which a column may do so by chance
# Words in names of columns of integers that are hardly measurements.
METADATA = re.compile(
    "(?i)age|animal|batch|cage|cohort|date|day|donor|gender|group|id|index|individual|injection|lane|month|mouse|number|order|"
    "participant|patient|plate|replicate|row|run|sample|sex|site|slide|subject|time|visit|well|year"
)


# ---------------------------------------------------------------- labels


def labelled(table: Table, arguments: Namespace) -> tuple[Table, str | None]:
    """Return the table with unlabelled samples kept or dropped, and the mark of those kept."""
    known = is_known(table.labels)
    missing, name = int((~known).sum()), arguments.label
    classes = set(table.labels[known])
    if not classes:
        raise TableError(f"{arguments.table}: no row has a label in {name!r}; name another --label")
    if len(classes) == 1:
        only = str(classes.pop())
        raise TableError(f"{arguments.table}: {name!r} has one class, {only!r}; name another")
    if len(classes) == known.sum() > 2:
        raise TableError(
            f"{arguments.table}: each row is a class of its own in {name!r}; name another, "
            "or --transpose a table with samples in columns"
        )
    if 2 * len(classes) > known.sum() > 4:
        text = f"{name!r} has {len(classes)} classes in {known.sum()} samples"
        if 2 * sum(bool(MEASURED.fullmatch(str(label))) for label in classes) > len(classes):
            raise TableError(f"{text}, and is measured; name a column of classes: --label")
        note(f"{text}: is it the column of classes?")
    if not missing:
        return table, None
    if getattr(arguments, "unlabeled", "drop") == "use":
        return table, "missing"
    if not table.in_memory:
        raise TableError(f"{arguments.table} is read in blocks, and {missing} rows have no label: "
                         "--unlabeled use", {"--unlabeled": "use"})  # fmt: skip
    use = " (--unlabeled use keeps them)" * (arguments.command == "fit")
    note(f"{missing} of {len(known)} rows have no label in {name!r} and are left out{use}")
    return table.rows(known), None


def note_groups(table: Table, arguments: Namespace) -> str:
    """Report and return a column that may group samples; raise for gaps in those that do."""
    for role, values in table.columns.items():
        if role != "label" and not is_known(values).all():
            name = getattr(arguments, role)
            raise TableError(f"{arguments.table}: --{role} {name}: {name!r} has missing values")
    if arguments.groups is not None or not is_known(table.labels).all():
        return ""
    codes = np.unique(table.labels.astype(str), return_inverse=True)[1]
    others = dict(table.others) | {names_of([j], table)[0]: table.X[:, j] for j in _metadata(table)}
    found = [name for name, values in others.items() if looks_like_groups(values, codes)]
    if found:
        note(
            f"several rows have the same {found[0]!r}: if they are of one subject, hold them out "
            f"together with --groups {shlex.quote(found[0])}"
        )
    return found[0] if found else ""


def mixed_groups(table: Table) -> bool:
    """Whether a group has samples of several classes."""
    groups = table.columns.get("groups")
    return groups is not None and len({*zip(groups, table.labels, strict=True)}) > len({*groups})


# ---------------------------------------------------------------- values


def facts_of(table: Table, arguments: Namespace, subjects: str) -> columns.Statistics | None:
    """Return statistics of the columns, after checking that all can be used for a fit."""
    if not (table.in_memory or arguments.scale):
        return None  # it would take another pass, and the fit checks this as well
    facts = columns.statistics(table.X)
    infinite = np.flatnonzero(~np.isfinite(facts.std))
    if infinite.size:
        raise TableError(
            f"{arguments.table}: values of {some(names_of(infinite, table))} are infinite or too "
            "large to be squared; correct them, or leave such columns out: --drop"
        )
    if not arguments.missing or table.is_sparse:
        refuse_missing(facts, table, arguments)
    _note_metadata(table, subjects)
    return facts


def prepared(table: Table, facts: columns.Statistics, arguments: Namespace) -> Any:
    """Return X with missing values filled and columns scaled, as asked for."""
    fill = facts.mean if facts.missing.any() else None
    return columns.prepared(table.X, fill, columns.spread(facts.std) if arguments.scale else None)


def refuse_missing(facts: columns.Statistics, table: Table, arguments: Namespace) -> None:
    """Raise TableError if values are missing."""
    indices = np.flatnonzero(facts.missing)
    if indices.size:
        names = names_of(indices, table)
        counts = [f"{name} ({facts.missing[i]})" for name, i in zip(names, indices, strict=True)]
        shown = ", ".join(counts[:5]) + (f" and {len(counts) - 5} more" if len(counts) > 5 else "")
        text = f"{arguments.table}: missing values in {shown}"
        if table.is_sparse:
            raise TableError(f"{text}, which are not filled in a sparse matrix; correct them")
        text += "; fill them with the means of their columns: --missing mean"
        raise TableError(text, {"--missing": "mean"})


def names_of(indices: Iterable[int], table: Table) -> list[str]:
    """Return names of columns for a message."""
    if table.names is None:
        return [f"column {i + 1}" for i in indices]
    return [str(table.names[i]) for i in indices]


# ---------------------------------------------------------------- notes


def _metadata(table: Table) -> list[int]:
    """Return columns of integers that look like metadata: by name, or for they number the rows."""
    X, names = table.X, table.names
    if type(X) is not np.ndarray or names is None or len(X) < FEWEST:
        return []
    spans = X.max(axis=0) - X.min(axis=0)
    counts = [int(j) for j in np.flatnonzero(spans == len(X) - 1)]
    counts = [j for j in counts if len(np.unique(X[:, j])) == len(X)]
    words = [re.findall(r"[A-Z]?[a-z]+|[A-Z]+", str(name)) for name in names]
    known = [j for j, parts in enumerate(words) if any(map(METADATA.fullmatch, parts))]
    return [j for j in sorted({*counts, *known}) if (X[:, j] == np.rint(X[:, j])).all()]


def _note_metadata(table: Table, subjects: str) -> None:
    """Report columns that look like metadata, except one that was reported, as features."""
    found = [name for name in names_of(_metadata(table), table) if name != subjects]
    if found:
        drop = shlex.quote(",".join(found))
        note(f"features that may be metadata: {some(found)}; to leave out: --drop {drop}")


def with_names(model: slce_xp.Model, table: Table) -> slce_xp.Model:
    """Return the model with a note on units in the words of the command."""
    if not model.note or model.scale is not None:
        return dataclasses.replace(model, note="")
    index = model.note.split()[1]
    (name,) = names_of([int(index)], table)
    shown = name if table.names is None else f"column {name!r}"
    text = model.note.replace(f"column {index}", shown, 1)
    text = text.replace("standardise the columns if their units", "use --scale if units")
    return dataclasses.replace(model, note=text)


def note_fit(model: slce_xp.Model, facts: columns.Statistics | None, table: Table) -> None:
    """Report what is suspicious about columns, given the classes."""
    if model.note:
        note(model.note)
    counts = model.counts
    if facts is None or model.n_unlabeled or counts.min() < FEWEST:
        return
    between = (counts[:, None] * (model.centroids - model.mean) ** 2).sum(axis=0) / counts.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(facts.std > 0, between / facts.std**2, 0.0)
    found = np.flatnonzero(share > TELLING)
    if 0 < len(found) < min(4, table.X.shape[1]):
        names = names_of(found, table)
        drop = f": --drop {shlex.quote(','.join(names))}" * (table.names is not None)
        between_classes = f"{100 * share[found].min():.1f} % of the variance is between classes"
        note(
            f"{some(names)}: almost the label, {between_classes}; if not measured, leave out{drop}"
        )
