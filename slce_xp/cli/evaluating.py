"""``slce-xp compare`` and ``slce-xp select``: SLCE beside other methods on a table."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np

import slce_xp
from slce_xp._comparison.selectors import anova_order, compare_selections
from slce_xp._comparison.table import as_columns
from slce_xp._folds import make_folds
from slce_xp.cli import checks, outputs
from slce_xp.cli.inputs import has_bar, read_to_fit, step
from slce_xp.cli.tables import Table, TableError, library

COUNTS = (10, 25, 50, 100)  # features at which classifiers are cross-validated
SHOWN = 10  # selected features that are printed
WIDTH = 36  # of the longest name in that table, which has 80 columns


def compare(arguments: Namespace) -> None:
    """Compare, print, write and plot."""
    outputs.check(arguments, output=outputs.TABLES, plot=outputs.IMAGES)
    table, _ = _read(arguments)
    step(f"comparing methods on {table.X.shape[0]} samples of {table.X.shape[1]} features")
    how = _how(arguments) | {"methods": arguments.methods, "cv": arguments.folds}
    how["groups"] = table.columns.get("groups")
    found = slce_xp.compare(table.X, table.labels, arguments.components, progress=has_bar(), **how)
    print(found)
    outputs.write_table(arguments.output, as_columns(found))
    if arguments.plot is not None:
        from slce_xp import plot
        from slce_xp.plot._comparison import size_of

        with outputs.drawn(arguments.plot, size_of(found)) as figure:
            plot.comparison(found, figure.subplots(1, 2))


def _how(arguments: Namespace) -> dict[str, Any]:
    """Return how columns are prepared in each fold."""
    return {"scale": arguments.scale, "impute": arguments.missing is not None}


def _read(arguments: Namespace) -> Any:
    table, _, facts = read_to_fit(arguments)
    if not table.in_memory:
        raise TableError(
            f"{arguments.table} is too large to be resampled in memory; use some of its rows"
        )
    return table, facts


def select(arguments: Namespace) -> None:
    """Select, print, write and plot."""
    outputs.check(arguments, output=outputs.TABLES, plot=outputs.IMAGES)
    table, facts = _read(arguments)
    X = checks.prepared(table, facts, arguments)
    count = min(arguments.top, X.shape[1])
    step(f"selecting {count} of {X.shape[1]} features, with {arguments.resamples} resamples")
    selector = slce_xp.SLCESelector(count, n_resamples=arguments.resamples, n_jobs=-1)
    selector.fit(X, table.labels)
    ranking = _ranked(selector, X, table)
    del X
    print(selector.path_)
    if arguments.resamples > 1:
        low, high = selector.stability_interval_
        print(
            f"  stability    {selector.stability_:.2f} ({low:.2f} to {high:.2f}) over "
            f"{arguments.resamples} resamples; 1 if all select the same"
        )
    _print_ranking(ranking)
    _print_accuracy(table, arguments)
    outputs.write_table(arguments.output, ranking)
    if arguments.plot is not None:
        from slce_xp import plot
        from slce_xp.plot._axes import new_axes

        with outputs.drawn(arguments.plot) as figure:
            plot.feature_path(selector.path_, table.names, ax=new_axes(2, figure))


def _ranked(selector: Any, X: Any, table: Table) -> dict[str, np.ndarray]:
    """Return the selected features, the most important first, with what says so.

    That is the share of the resamples that select each, NaN without resamples, the norm of its
    coefficients in the path of all samples, and its place in the analysis of variance.
    """
    d = X.shape[1]
    coefficients = np.zeros(d)
    coefficients[selector.path_.entered] = selector.path_.norms[-1]
    frequencies = getattr(selector, "frequencies_", np.full(d, np.nan))
    place = np.empty(d, dtype=np.int64)
    place[anova_order(X, _codes(table))] = np.arange(1, d + 1)
    chosen = selector.get_support(indices=True)
    chosen = chosen[np.lexsort((-coefficients[chosen], -np.nan_to_num(frequencies[chosen])))]
    return {
        "rank": np.arange(1, len(chosen) + 1),
        "feature": np.array(checks.names_of(chosen, table)),
        "frequency": frequencies[chosen],
        "coefficient": coefficients[chosen],
        "anova_rank": place[chosen],
    }


def test(arguments: Namespace) -> None:
    """Test whether classes differ, print and plot."""
    outputs.check(arguments, plot=outputs.IMAGES)
    table, facts = _read(arguments)
    if checks.mixed_groups(table):
        text = (
            f"rows of one {arguments.groups!r} have several classes: --strata instead of --groups"
        )
        raise TableError(text, {"--groups": None, "--strata": arguments.groups})
    X = checks.prepared(table, facts, arguments)
    step(f"permuting the labels of {X.shape[0]} samples {arguments.permutations} times")
    found = slce_xp.permutation_test(
        X,
        table.labels,
        arguments.permutations,
        groups=table.columns.get("groups"),
        strata=table.columns.get("strata"),
        components=arguments.by_component,
        pairs=arguments.pairs,
        backend=arguments.backend,
        device=arguments.device,
    )
    print(found)
    if arguments.plot is not None:
        from slce_xp import plot
        from slce_xp.plot._axes import new_axes

        with outputs.drawn(arguments.plot) as figure:
            plot.permutation_test(found, new_axes(2, figure))


def _codes(table: Table) -> np.ndarray:
    return np.unique(table.labels, return_inverse=True)[1]


def _print_ranking(ranking: dict[str, np.ndarray]) -> None:
    """Print the most important features, in 80 columns."""
    frame = library("pandas", "slce-xp select needs").DataFrame(ranking).head(SHOWN)
    frame["feature"] = frame["feature"].str[:WIDTH]
    print("\n" + frame.dropna(axis=1).to_string(index=False, float_format="{:.4g}".format))
    more = len(ranking["rank"]) - SHOWN
    if more > 0:
        print(f"and {more} more")


def _print_accuracy(table: Table, arguments: Namespace) -> None:
    if not arguments.folds:
        return
    labels = _codes(table)
    least = int(np.bincount(labels).min())
    if least < 2:
        print("\nnot cross-validated: a class has only one sample")
        return
    groups = table.columns.get("groups")
    groups = None if groups is None else np.unique(groups, return_inverse=True)[1]
    splits = make_folds(labels, arguments.folds, 0, np.unique(labels), groups).splits()
    counts = tuple(k for k in COUNTS if k < table.X.shape[1]) or (table.X.shape[1],)
    step("cross-validating the selection (--folds 0 leaves it out)")
    found = compare_selections(table.X, labels, splits, counts, **_how(arguments))
    print(f"\n{found}")
