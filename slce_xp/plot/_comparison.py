"""The plot of a comparison of methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slce_xp import Comparison
from slce_xp._errors import invalid, wrong_type
from slce_xp.plot._axes import Size, panels_for
from slce_xp.plot._looks import COLOURS, DARK_GREY, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLASSIFIERS = {"5-NN": "5 nearest neighbours", "nearest centroid": "nearest centroid"}
ALL_FEATURES = "all features"
HEIGHT = 0.7  # of the rows of a method that all its numbers of components share


def comparison(found: Comparison, axes: Any = None, *, figsize: Size = None) -> np.ndarray:
    """Plot cross-validated accuracies with their standard errors, one panel for each classifier.

    Scores that are within the noise of the best are filled, others are open.

    Parameters
    ----------
    found : Comparison
        The result of `slce_xp.compare`.
    axes : sequence of two Axes, optional
        For 5-NN and for the nearest centroid. A new figure by default.
    figsize : (width, height), optional
        Inches of the new figure; by default as high as its points need.

    Returns
    -------
    numpy.ndarray of Axes, shape (2,)

    Examples
    --------
    >>> import slce_xp, slce_xp.plot
    >>> from sklearn.datasets import load_iris
    >>> found = slce_xp.compare(*load_iris(return_X_y=True), (2,), methods=("pca", "slce"))
    >>> left, right = slce_xp.plot.comparison(found)
    >>> left.get_title()
    '5 nearest neighbours'
    """
    if not isinstance(found, Comparison):
        raise wrong_type(
            "found",
            f"found must be a Comparison; got {type(found).__name__}. Make one: "
            "slce_xp.compare(X, y)",
        )
    if not found.scores:
        reasons = "; ".join(f"{name}: {note}" for name, note in found.notes.items())
        raise invalid("found", f"found must have scores to draw; no method ran ({reasons})")
    methods = list(dict.fromkeys(score.method for score in found.scores))
    counts = sorted({s.n_components for s in found.scores if s.method != ALL_FEATURES})
    figsize = size_of(found) if axes is None and figsize is None else figsize
    panels = panels_for(axes, figsize, 2, 2, "classifier")
    for ax, (classifier, title) in zip(panels, CLASSIFIERS.items(), strict=True):
        _draw(ax, [s for s in found.scores if s.classifier == classifier], methods, counts)
        ax.set_title(title, size="medium")
    panels[1].set_yticklabels([])
    _add_legend(panels[0], counts, found.unit[:-1])
    return panels


def size_of(found: Comparison) -> tuple[float, float]:
    """Return the size of a figure in which the points of a method do not touch, in inches."""
    methods = {score.method for score in found.scores}
    counts = {score.n_components for score in found.scores}
    return 9.0, 1.2 + len(methods) * 0.12 * max(4, len(counts))  # markers are 0.08 inches high


def _draw(ax: Axes, scores: list[Any], methods: list[str], counts: list[int]) -> None:
    own = {m: sorted(s.n_components for s in scores if s.method == m) for m in methods}
    for score in scores:
        rows = own[score.method]
        offset = HEIGHT * ((rows.index(score.n_components) + 0.5) / len(rows) - 0.5)
        colour = _colour(score.n_components, counts) if score.method != ALL_FEATURES else DARK_GREY
        face = colour if score.is_tied else ax.get_facecolor()
        ax.errorbar(
            100 * score.accuracy, methods.index(score.method) + offset, xerr=100 * score.error,
            fmt="o", ms=6, mec=colour, mfc=face, ecolor=colour, elinewidth=1.2, zorder=3,
        )  # fmt: skip
    for edge in range(1, len(methods)):
        ax.axhline(edge - 0.5, color=GREY, linewidth=0.5, zorder=1)
    ax.set_yticks(range(len(methods)), methods)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(methods) - 0.5, -0.5)  # the first on top
    ax.set_xlim(right=min(ax.get_xlim()[1], 102))
    ax.set_xlabel("% right in held-out samples")


def _colour(count: int, counts: list[int]) -> str:
    return COLOURS[counts.index(count) % len(COLOURS)]


def _add_legend(ax: Any, counts: list[int], unit: str) -> None:
    dots = [
        ax.plot([], [], "o", color=_colour(k, counts), label=f"{k} {unit}{'s' * (k != 1)}")[0]
        for k in counts
    ]
    for face, label in ((DARK_GREY, "within the noise of the best"), ("none", "behind")):
        dots += ax.plot([], [], "o", mec=DARK_GREY, mfc=face, label=label)
    ax.figure.legend(
        handles=dots, loc="outside lower center", ncols=min(len(dots), 5), frameon=False,
        fontsize="small",
    )  # fmt: skip
