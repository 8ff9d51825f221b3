"""Plots of how far a result can be trusted: out-of-fold scores, permutations, intervals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from slce_xp import _backend
from slce_xp._parameters import as_count
from slce_xp.plot._axes import Size, axes_for
from slce_xp.plot._given import feature_names
from slce_xp.plot._looks import COLOURS, GREY, MARKERS, Groups, coded, natural_order
from slce_xp.plot._model import bars
from slce_xp.plot._points import legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def permutation_test(found: Any, ax: Axes | None = None, *, figsize: Size = None) -> Axes:
    """Plot the statistic of permuted labels as a histogram, and the observed one as a line.

    Parameters
    ----------
    found : PermutationTest
        The result of `slce_xp.permutation_test`.
    ax : Axes, optional
        A new figure by default.
    figsize : (width, height), optional
        Inches of the new figure.

    Returns
    -------
    Axes
    """
    ax = axes_for(ax, figsize)
    ax.hist(found.null, bins="auto", color=GREY, label=f"{len(found.null)} permutations")
    label = f"observed: p = {found.p:.3g}"
    ax.axvline(found.statistic, color=COLOURS[3], linewidth=2, label=label)
    ax.set(xlabel=f"statistic ({found.kind})", ylabel="permutations")
    ax.legend(fontsize="small", frameon=False)
    return ax


def importance(
    found: Any,
    names: Iterable[Any] | None = None,
    *,
    top: int = 20,
    palette: Any = None,
    ax: Axes | None = None,
    figsize: Size = None,
) -> Axes:
    """Plot the most important features, coloured by the class in which each is highest.

    With intervals, features are ranked by their lower limits.

    Parameters
    ----------
    found : ImportanceInterval, Model or fitted SLCE
        The result of `slce_xp.importance_interval`, or a model, whose importance has no intervals.
    names : d names, optional
        Names of the features; those of the model by default, or numbers from 1.
    top : int
        How many features to show.
    palette, ax, figsize
        As for `points`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import slce_xp, slce_xp.plot
    >>> X = [[0.0, 1.0], [1.0, 0.0], [8.0, 2.0], [9.0, 0.0]]
    >>> ax = slce_xp.plot.importance(slce_xp.fit(X, ["a", "a", "b", "b"]), ["length", "width"])
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['length', 'width']
    """
    model = getattr(found, "model_", found)
    values = _backend.to_host(model.importance)
    labels = np.asarray(model.highest_class)
    classes = natural_order(getattr(model, "classes", np.unique(labels)))
    ranks = getattr(model, "lower", values)
    chosen = np.argsort(-ranks, kind="stable")[: as_count(top, "top", 1)]
    groups = Groups.of(classes, palette)
    highest = groups.codes(coded(labels, len(labels), "highest_class"), len(labels))[chosen]
    listed = feature_names(names, model, len(values))
    if ax is None and figsize is None:
        figsize = (6.4, 1.0 + 0.24 * len(chosen))  # inches: a line for each feature
    ax = axes_for(ax, figsize)
    colours = [groups.colours[code] for code in highest]
    bars(ax, values[chosen], [listed[j] for j in chosen], colours)
    ax.set_xlabel("importance")
    if hasattr(model, "lower"):
        ax.set_xlabel(f"importance, with {100 * model.level:g} % bootstrap intervals")
        limits = np.stack([model.lower[chosen], model.upper[chosen]])
        ax.hlines(np.arange(len(chosen)), *limits, color=ax.xaxis.label.get_color(), linewidth=1)
    square = MARKERS.index("s")
    shown = [(groups.names[j], groups.colours[j], square, True) for j in np.unique(highest)]
    legend(
        ax, shown, title="highest in", loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False
    )
    return ax
