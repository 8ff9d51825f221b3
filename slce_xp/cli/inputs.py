"""The table that a call names, read as its options say."""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from slce_xp._data import columns
from slce_xp.cli import checks
from slce_xp.cli.options import corrected, parse
from slce_xp.cli.reading import read
from slce_xp.cli.table import Changes, Chosen, Table, TableError

TO_FIT = (
    "fit",
    "compare",
    "select",
)  # commands with a table that must have labels and no missing values
LARGE_TABLE = 10**8  # bytes from which on a table is not read again to find all that is wrong
MOST_TRIES = 6


def read_to_fit(
    arguments: argparse.Namespace,
) -> tuple[Table, str | None, columns.Statistics | None]:
    """Read a table that can be fitted: return it, the mark of unlabelled samples, statistics."""
    table, unlabeled = checks.labelled(read_table(arguments), arguments)
    return table, unlabeled, checks.facts_of(table, arguments)


def all_changes(words: list[str], changes: Changes) -> Changes:
    """Return the changes that a call needs, those that an error proposes among them.

    Tables are read with the changes until there is no other error; none are returned if there is
    one without a remedy. A large table is not read again.
    """
    found = dict(changes)
    for _ in range(MOST_TRIES):
        arguments = parse(corrected(words, found))
        too_large = arguments.table.is_file() and arguments.table.stat().st_size > LARGE_TABLE
        if arguments.command not in TO_FIT or too_large:
            break
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read_to_fit(arguments)
            break
        except TableError as error:
            if not error.changes:
                return {}
            dropped = [*(found.get("--drop") or ()), *(error.changes.get("--drop") or ())]
            found |= error.changes | ({"--drop": dropped} if dropped else {})
    return found


def read_table(arguments: argparse.Namespace, features: np.ndarray | None = None) -> Table:
    """Read the table of a call; `features` are those of a model."""
    chosen = Chosen(
        label=arguments.label,
        ids=arguments.id,
        drop=tuple(getattr(arguments, "drop", ())),
        only=tuple(getattr(arguments, "features", ())),
        features=features,
        data=arguments.data,
        stream=arguments.stream,
        labels=arguments.labels,
        transpose=arguments.transpose,
        header=not arguments.no_header,
        missing=tuple(word.strip() for entry in arguments.missing for word in entry.split(",")),
        decimal=arguments.decimal,
        duplicates=arguments.duplicates,
        unlabeled=getattr(arguments, "unlabeled", "use"),
    )
    return read(arguments.table, chosen)
