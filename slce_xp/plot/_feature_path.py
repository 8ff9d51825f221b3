"""The plot of a feature path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from slce_xp import FeaturePath
from slce_xp._errors import invalid, wrong_type
from slce_xp._parameters import as_count
from slce_xp.plot._axes import Size, axes_for
from slce_xp.plot._given import feature_names
from slce_xp.plot._looks import COLOURS, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TICKS = 6  # penalties below the axes, and numbers of features above them
LINE = 0.045  # of the height of the axes, for a name
LEADER = 0.04  # of the width of the axes, between the end of a line and its name


def feature_path(
    path: FeaturePath,
    names: Iterable[Any] | None = None,
    *,
    top: int = 10,
    ax: Axes | None = None,
    figsize: Size = None,
) -> Axes:
    """Plot the coefficients of features against the penalty, which falls from left to right.

    The norms of the coefficients are drawn, and the features that are largest at the end are named.
    Numbers above the axes are those of the selected features.

    Parameters
    ----------
    path : FeaturePath
        The result of `slce_xp.feature_path`.
    names : d names, optional
        Names of the features; those of the path by default, or numbers from 1.
    top : int
        How many features to name.
    ax : Axes, optional
        A new figure by default.
    figsize : (width, height), optional
        Inches of the new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, slce_xp, slce_xp.plot
    >>> X = np.random.default_rng(0).normal(size=(60, 30))
    >>> y = np.repeat([0, 1], 30)
    >>> X[y == 1, 4] += 5
    >>> X[y == 1, 20] += 3
    >>> ax = slce_xp.plot.feature_path(slce_xp.feature_path(X, y, n_features=2))
    >>> [text.get_text() for text in ax.texts]
    ['feature 5', 'feature 21']
    """
    if not isinstance(path, FeaturePath):
        raise wrong_type(
            "path",
            f"path must be a FeaturePath; got {type(path).__name__}. Make one: "
            "slce_xp.feature_path(X, y)",
        )
    if not len(path.entered):
        raise invalid("path", "path must have features to draw; got one that selects none")
    top = as_count(top, "top", 1)
    listed = feature_names(names, path, path.n_features)
    ax = axes_for(ax, figsize)
    norms, entered = path.norms, path.entered
    lines = _without_zeros(norms)
    shown = np.argsort(-norms[-1], kind="stable")[: min(top, int((norms[-1] > 0).sum()))]
    for i in range(len(entered)):
        if i not in shown:
            ax.plot(path.lambdas, lines[:, i], color=GREY, linewidth=0.6, zorder=1)
    colours = [COLOURS[j % len(COLOURS)] for j in range(len(shown))]
    for i, colour in zip(shown, colours, strict=True):
        ax.plot(path.lambdas, lines[:, i], color=colour, linewidth=1.5, zorder=2)
    ax.set_xscale("log")
    ax.set_xlim(path.lambdas[0], path.lambdas[-1])  # falling
    ax.set_ylim(bottom=0.0)
    ax.set(xlabel=r"penalty $\lambda$", ylabel="norm of the coefficients")
    _add_names(ax, [listed[j] for j in entered[shown]], norms[-1, shown], colours)
    _add_ticks(ax, path)
    return ax


def _without_zeros(norms: np.ndarray) -> np.ndarray:
    """NaN where a coefficient is and stays zero, so that lines start where features enter."""
    used = norms > 0
    used[:-1] |= used[1:]
    used[1:] |= norms[:-1] > 0
    return np.where(used, norms, np.nan)


def _add_names(ax: Any, names: list[str], heights: np.ndarray, colours: list[str]) -> None:
    """Write names next to the ends of their lines, apart from each other, with leaders to them."""
    ends = heights / ax.get_ylim()[1]  # descending
    # Names at least a line apart: moved down only, moved up only, and between the two.
    lines = LINE * np.arange(len(ends))
    down = np.minimum.accumulate(ends + lines)
    up = np.maximum.accumulate((ends + lines)[::-1])[::-1]
    places = (down + up) / 2 - lines
    places += max(0.0, -places[-1])  # all of them above the horizontal axis
    for name, end, place, colour in zip(names, ends, places, colours, strict=True):
        ax.annotate(
            name, (1.0, end), (1.0 + LEADER, place), "axes fraction", "axes fraction",
            color=colour, size="small", va="center", parse_math=False,
            arrowprops={
                "arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0,
                "relpos": (0.0, 0.5),
            },
        )  # fmt: skip


def _add_ticks(ax: Any, path: FeaturePath) -> None:
    """Write penalties, and above the axes the numbers of features that they select."""
    steps = np.unique(np.linspace(0, len(path.lambdas) - 1, MOST_TICKS).round().astype(int))
    above = ax.secondary_xaxis("top")
    for axis, shown in (
        (ax, [f"{path.lambdas[i]:.3g}" for i in steps]),
        (above, [str(len(path.supports[i])) for i in steps]),
    ):
        axis.set_xticks(path.lambdas[steps], shown)
        axis.set_xticks([], minor=True)
    above.set_xlabel("selected features")
