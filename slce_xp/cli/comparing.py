"""``slce-xp compare``: SLCE beside other methods on a table."""

from __future__ import annotations

import argparse

import slce_xp
from slce_xp.cli import checks, outputs
from slce_xp.cli.inputs import read_to_fit
from slce_xp.cli.outputs import Outputs
from slce_xp.cli.table import TableError
from slce_xp.cli.watching import has_bar, step


def compare(arguments: argparse.Namespace) -> None:
    """Compare, print, write and plot."""
    files = Outputs(arguments)
    files.check("output", outputs.TABLES)
    files.check("plot", outputs.IMAGES)
    step(f"reading {arguments.table}")
    table, _, facts = read_to_fit(arguments)
    if not table.in_memory:
        raise TableError(
            f"{arguments.table} is too large to be cross-validated in memory; compare on a part of "
            "its rows"
        )
    n, d = table.X.shape
    step(f"comparing methods on {n} samples of {d} features")
    checks.note_units(facts, table, arguments)
    checks.note_data(table, arguments)
    found = slce_xp.compare(
        table.X,
        table.labels,
        arguments.components,
        methods=arguments.methods,
        cv=arguments.folds,
        scale=arguments.scale,
        impute=arguments.impute is not None,
        progress=has_bar(),
    )
    print(found)
    if arguments.output is not None:
        files.write(arguments.output, lambda path: outputs.write_comparison(path, found))
    if arguments.plot is not None:
        files.write(arguments.plot, lambda path: outputs.write_comparison_plot(path, found))
