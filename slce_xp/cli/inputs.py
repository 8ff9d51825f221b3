"""The table that a call names, ready for its command, and reports of progress on a terminal."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

import slce_xp
from slce_xp._alignment import aligned
from slce_xp._data import columns
from slce_xp.cli import checks
from slce_xp.cli.options import corrected, parse
from slce_xp.cli.reading import check_exists, read_table
from slce_xp.cli.tables import Changes, Table, TableError, note, some

LARGE_TABLE = 10**8  # bytes from which on a table is not read again to find all that is wrong
MOST_TRIES = 6


def read_to_fit(arguments: Namespace) -> tuple[Table, str | None, columns.Statistics | None]:
    """Read a table that can be fitted: return it, the mark of unlabelled samples, statistics."""
    step(f"reading {arguments.table}")
    table, unlabeled = checks.labelled(read_table(arguments), arguments)
    subjects = checks.note_groups(table, arguments)
    return table, unlabeled, checks.facts_of(table, arguments, subjects)


def read_to_apply(arguments: Namespace, model: slce_xp.Model) -> tuple[Table, slce_xp.Model]:
    """Read a table with features of a model, and return the model for those that it has."""
    step(f"reading {arguments.table}")
    table = read_table(arguments, model.feature_names)
    if model.batches is not None and "batch" not in table.columns:
        raise _no_batches(table, model.batches)
    if table.names is not None and model.feature_names is not None:
        model, _ = aligned(model, table.names, 1.0)  # the share was checked
    if table.X.shape[1] != model.n_features:
        raise TableError(
            f"{arguments.table} must have {model.n_features} columns, as many as the model's "
            f"features; it has {table.X.shape[1]}. Give it the columns of the fit, in their order"
        )
    if arguments.missing:
        model = dataclasses.replace(model, filled=model.filled or 0.0)
    if table.in_memory:
        facts = columns.statistics(table.X)
        if model.filled is None or table.is_sparse:
            checks.refuse_missing(facts, table, arguments)
        elif share := facts.missing.sum() / table.X.size:
            note(f"{100 * share:.2g} % of {arguments.table} is missing, and filled with means")
    return table, model


def _no_batches(table: Table, batches: Iterable[object]) -> TableError:
    """Return the error for a call that does not name the batches, with the column that has them."""
    known = {str(batch) for batch in batches}
    found = [name for name, column in table.others.items() if known.issuperset(map(str, column))]
    text = f"the model has batches such as {some(sorted(known), 3)}: name their column with --batch"
    return TableError(text, {"--batch": found[0]} if found else {})


def load_model(path: Path) -> slce_xp.Model:
    """Load a model that fit has written."""
    check_exists(path)
    return slce_xp.load(path)


def working_call(argv: Sequence[str], changes: Changes) -> list[str]:
    """Return a call with the changes that an error proposes, and what else it needs.

    The table is read with the changes until there is no other error; the call is empty if there is
    one without a remedy. A large table is not read again.
    """
    found = dict(changes)
    for _ in range(MOST_TRIES):
        call = corrected(argv, found)
        arguments = parse(call)
        if arguments.table.is_file() and arguments.table.stat().st_size > LARGE_TABLE:
            return call
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if arguments.command in ("transform", "predict"):
                    read_to_apply(arguments, load_model(arguments.model))
                else:
                    read_to_fit(arguments)
        except Exception as error:
            more = getattr(error, "changes", None)
            if not more:
                return []
            found |= more
        else:
            return call
    return []


# ---------------------------------------------------------------- progress


def step(text: str, end: str = "\n") -> None:
    """Report a step on a terminal, and nothing to a log."""
    if is_watched():
        print(f"{text} …", file=sys.stderr, end=end, flush=True)


def is_watched() -> bool:
    """Whether somebody watches: the standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def has_bar() -> bool:
    """Whether a progress bar can be shown, and is seen."""
    return is_watched() and bool(importlib.util.find_spec("tqdm"))
