"""``slce-xp select``: the features that matter, beside those of the analysis of variance."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

import slce_xp
from slce_xp import Comparison
from slce_xp._comparison.selectors import SELECTORS, anova_order, compare_selections
from slce_xp._data import columns
from slce_xp._folds import make_folds
from slce_xp._progress import Steps
from slce_xp.cli import checks, outputs
from slce_xp.cli.inputs import read_to_fit
from slce_xp.cli.outputs import Outputs
from slce_xp.cli.table import Table, TableError
from slce_xp.cli.watching import has_bar, step

COUNTS = (10, 25, 50, 100)  # features at which classifiers are cross-validated


class Ranking(NamedTuple):
    """Selected features, the most important one first; all of shape (s,).

    Attributes
    ----------
    feature : numpy.ndarray of str
    frequency : numpy.ndarray
        Share of the resamples that select it; NaN without resamples.
    coefficient : numpy.ndarray
        The norm of its coefficients in the path of all samples, 0 if it is not selected there.
    anova_rank : numpy.ndarray of int
        Its place, from 1, in the order of the analysis of variance.
    """

    feature: np.ndarray
    frequency: np.ndarray
    coefficient: np.ndarray
    anova_rank: np.ndarray


def select(arguments: argparse.Namespace) -> None:
    """Select, print, write and plot."""
    files = Outputs(arguments)
    files.check("output", outputs.TABLES)
    files.check("plot", outputs.IMAGES)
    step(f"reading {arguments.table}")
    table, _, facts = read_to_fit(arguments)
    if not table.in_memory:
        raise TableError(
            f"{arguments.table} is too large for resamples in memory; call slce_xp.feature_path, "
            "which reads blocks"
        )
    d = table.X.shape[1]
    checks.note_units(facts, table, arguments)
    checks.note_data(table, arguments)
    assert facts is not None
    fill = facts.mean if facts.missing.any() else None
    X = columns.prepared(table.X, fill, columns.spread(facts.std) if arguments.scale else None)
    count = min(arguments.n_features, d)
    step(f"selecting {count} of {d} features, with {arguments.resamples} resamples")
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
    _print_ranking(ranking, arguments.top)
    _print_accuracy(table, arguments)
    if arguments.output is not None:
        files.write(arguments.output, lambda path: outputs.write_ranking(path, ranking._asdict()))
    if arguments.plot is not None:
        files.write(
            arguments.plot, lambda path: outputs.write_path_plot(path, selector.path_, table.names)
        )


def _ranked(selector: Any, X: Any, table: Table) -> Ranking:
    path = selector.path_
    d = path.n_features
    coefficients = np.zeros(d)
    coefficients[path.entered] = path.norms[-1]
    frequencies = getattr(selector, "frequencies_", np.full(d, np.nan))
    place = np.empty(d, dtype=np.int64)
    place[anova_order(X, _codes(table))] = np.arange(1, d + 1)
    chosen = selector.get_support(indices=True)
    chosen = chosen[np.lexsort((-coefficients[chosen], -np.nan_to_num(frequencies[chosen])))]
    names = np.array(checks.names_of(chosen, table))
    return Ranking(names, frequencies[chosen], coefficients[chosen], place[chosen])


def _codes(table: Table) -> np.ndarray:
    assert table.labels is not None
    return np.unique(table.labels, return_inverse=True)[1]


def _print_ranking(ranking: Ranking, top: int) -> None:
    """Print the most important features, in 80 columns."""
    if not top:
        return
    with_frequency = not np.isnan(ranking.frequency).any()
    width = min(max(map(len, ranking.feature[:top]), default=0), 36)
    frequency = f"{'frequency':>11}" * with_frequency
    print(f"\n  rank  {'feature':<{max(width, 7)}}{frequency}{'coefficient':>13}{'ANOVA rank':>12}")
    for i, (name, share, size, place) in enumerate(zip(*ranking, strict=True)):
        if i == top:
            print(f"        and {len(ranking.feature) - top} more")
            break
        cell = f"{share:>11.2f}" * with_frequency
        print(f"{i + 1:>6}  {name[:36]:<{max(width, 7)}}{cell}{size:>13.4g}{place:>12}")


def _print_accuracy(table: Table, arguments: argparse.Namespace) -> None:
    if not arguments.folds:
        return
    labels = _codes(table)
    least = int(np.bincount(labels).min())
    if least < 2:
        print("\nnot cross-validated: a class has only one sample")
        return
    splits = make_folds(labels, arguments.folds, 0, np.unique(labels)).splits()
    counts = tuple(k for k in COUNTS if k < table.X.shape[1]) or (table.X.shape[1],)
    bar = Steps(len(splits) * len(SELECTORS)) if has_bar() else None
    found: Comparison = compare_selections(
        table.X,
        labels,
        splits,
        counts,
        scale=arguments.scale,
        impute=arguments.impute is not None,
        report=lambda _, name: bar.begin(name) if bar else None,
    )
    if bar:
        bar.done()
        bar.close()
    print(f"\n{found}")
