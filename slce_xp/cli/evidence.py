"""What a fit is worth: samples that models did not see, their plot, and a test of the labels."""

from __future__ import annotations

import warnings
from argparse import Namespace
from typing import Any

import numpy as np

import slce_xp
from slce_xp._data import columns
from slce_xp.cli import checks, outputs
from slce_xp.cli.inputs import step
from slce_xp.cli.tables import Table, is_known

PERMUTATIONS = 99
MOST_WORK = 2 * 10**10  # products of so many permutations, a few seconds of one core
MOST_CLASSES = 12  # in a table of confusions
WIDTH = 12  # letters of a class in it


def held_out(
    X: Any, table: Table, model: slce_xp.Model, arguments: Namespace, how: dict[str, Any]
) -> Any:
    """Return the samples embedded by models that did not see them, or the reason why not."""
    if not arguments.folds:
        return ""
    if not model.n_components or not table.in_memory or not is_known(table.labels).all():
        return "that needs components, labels, and a table that fits into memory"
    step("cross-validating (--folds 0 leaves it out)")
    k = model.n_components
    groups = table.columns.get("groups")
    try:
        with warnings.catch_warnings(action="ignore"):  # the fit has warned
            return slce_xp.cross_embed(X, table.labels, k, arguments.folds, groups, **how)
    except ValueError as error:  # of labels and groups: the table was fitted
        return str(error)


def chance(X: Any, table: Table, model: slce_xp.Model, arguments: Namespace) -> str:
    """Return whether classes differ by more than chance, or how to find out."""
    known = is_known(table.labels)
    hint = "not tested; whether classes differ by more than chance: slce-xp test"
    if (
        not (table.in_memory and known.all())
        or X.shape[0] * X.shape[1] * len(set(table.labels[known])) * PERMUTATIONS > MOST_WORK
    ):
        return hint
    if checks.mixed_groups(table):
        return f"{hint} --strata {arguments.groups!r}"
    try:
        found = slce_xp.permutation_test(
            columns.prepared(X, model.mean) if model.filled else X,
            table.labels,
            PERMUTATIONS,
            groups=table.columns.get("groups"),
            strata=table.columns.get("batch") if arguments.groups is None else None,
        )
    except ValueError as error:
        return f"not tested: {str(error).partition('. ')[0]}"
    possible = f"smallest possible: {found.smallest_p:.2g}"
    return f"p = {found.p:.2g} ({PERMUTATIONS} permutations of {found.unit}; {possible})"


def print_held_out(found: Any) -> None:
    """Print what `predict` is worth for samples that a model did not see."""
    if not isinstance(found, str):
        sizes = found.confusion.sum(axis=1)
        note = f": {found.note}" * bool(found.note)
        by = " of groups" * (found.unit == "groups")
        print(
            f"  prediction   {100 * found.accuracy:.1f} % of held-out samples right "
            f"({100 * found.balanced_accuracy:.1f} % balanced over classes), "
            f"{100 * sizes.max() / sizes.sum():.1f} % if the largest class is always predicted "
            f"({found.n_folds} folds{by}{note})"
        )
        if len(sizes) <= MOST_CLASSES:
            _print_confusion(found)
    elif found:
        print(f"  prediction   not cross-validated: {found}")


def _print_confusion(found: Any) -> None:
    """Print how many samples of each class (rows) are predicted to be of each (columns)."""
    names = [str(label)[:WIDTH] for label in found.classes]
    width = max(map(len, [*names, str(found.confusion.max())]))
    rows = [("true \\ predicted", names), *zip(names, found.confusion, strict=True)]
    for name, cells in rows:
        print(f"    {name:<{max(width, 16)}}  {'  '.join(f'{cell!s:>{width}}' for cell in cells)}")


def plot(
    Z: np.ndarray, found: Any, table: Table, model: slce_xp.Model, arguments: Namespace
) -> None:
    """Plot held-out samples, in which classes look as far apart as they are."""
    if isinstance(found, str):
        what = ", in-sample:\nclasses look better apart than they are"
        outputs.write_plot(Z, table, model, arguments, what)
        return
    held = found.folds >= 0
    outputs.write_plot(found.scores[held], table.rows(held), model, arguments, found=found)
