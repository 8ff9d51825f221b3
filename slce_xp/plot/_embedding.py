"""Plots of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slce_xp import _backend
from slce_xp._errors import invalid
from slce_xp.plot._axes import check_projection, inches, make_room_for_legend, new_axes
from slce_xp.plot._given import as_components, as_model, as_points, embed
from slce_xp.plot._looks import (
    DARK_GREY,
    MARKERS,
    MOST_NAMED,
    MOST_VECTORS,
    ROWS_OF_LEGEND,
    Groups,
    axis_title,
    coded,
    natural_order,
    strips,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def embedding(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    X_test: Any = None,
    y_test: Any = None,
    components: Sequence[int] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the embedding of samples: filled markers for training, open ones for testing.

    Parameters
    ----------
    model : Model or fitted SLCE
    X : anything that `Model.transform` takes, shape (n, d)
    y : labels, shape (n,), optional
        Samples with missing labels (NaN, None, an empty string) are grey, and all without `y`.
    X_test, y_test : optional
        Test samples, with or without labels, drawn open. Labels that are not classes of the model
        share one look.
    components : one, two or three indices, optional
        Which components to draw, from 0; three give a 3-D plot. The first two by default. A single
        one, as for two classes, gives a row for each class.
    ax : Axes, optional
        Where to draw; with ``projection="3d"`` for three components. A new figure by default. A
        figure of your own shows a legend next to the axes if it has ``layout="constrained"``.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, slce_xp, slce_xp.plot
    >>> y = np.repeat(["B", "NK", "T"], 20)
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> X[y == "NK", 0] += 9
    >>> X[y == "T", 1] += 7
    >>> model = slce_xp.fit(X, y)
    >>> ax = slce_xp.plot.embedding(model, X[::2], y[::2], X_test=X[1::2], y_test=y[1::2])
    >>> print(ax.get_xlabel())
    component 1 (76.4 % of the loss)
    """
    model = as_model(model)
    return points(
        embed(model, X),
        y,
        Z_test=None if X_test is None else embed(model, X_test),
        y_test=y_test,
        classes=natural_order(model.classes),
        components=components,
        shares=_backend.to_host(model.loss_shares) if model.criterion == "centroid" else None,
        ax=ax,
    )


def points(
    Z: Any,
    y: Any = None,
    *,
    Z_test: Any = None,
    y_test: Any = None,
    classes: Any = None,
    components: Sequence[int] | None = None,
    shares: Any = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot an embedding of any method.

    Class names are at the medians of their classes if that is readable, otherwise in a legend next
    to the axes. Points are drawn in random order, so that no class hides the others.

    Parameters
    ----------
    Z : array, shape (n, k)
    y : labels, shape (n,), optional
    Z_test, y_test : optional
        Test samples, drawn open.
    classes : labels, shape (K,), optional
        All classes in the order of their colours, so that plots of parts of the data agree; those
        of `y` by default, numbers in names by value. Other labels share one look.
    shares : k numbers, optional
        What the axes show of each component: `Model.loss_shares`.
    title : str, optional
        The title of the plot.
    components, ax
        As for `embedding`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import slce_xp.plot
    >>> ax = slce_xp.plot.points([[0.0, 1.0], [1.0, 3.0], [4.0, 2.0]], ["a", "a", "b"])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('component 1', 'component 2')
    """
    Z = as_points(Z, "Z")
    chosen = as_components(components, Z.shape[1])
    if Z_test is None and y_test is not None:
        raise invalid(
            "y_test", "y_test must come with test samples; got none. Pass them, or leave it out"
        )
    Z_test = Z[:0] if Z_test is None else as_points(Z_test, "Z_test", Z.shape[1])
    labels, labels_test = coded(y, len(Z), "y"), coded(y_test, len(Z_test), "y_test")
    groups = Groups.of(classes, labels, labels_test)
    codes, codes_test = groups.codes(labels, len(Z)), groups.codes(labels_test, len(Z_test))
    used = np.union1d(codes, codes_test)

    own = ax is None
    if ax is None:
        ax = new_axes(len(chosen))
    check_projection(ax, len(chosen))
    Z, Z_test = Z[:, chosen], Z_test[:, chosen]
    if len(chosen) == 1:
        Z, Z_test = strips(used, (Z, codes), (Z_test, codes_test))
    _scatter(ax, Z, codes, groups, filled=True, crowd=len(Z) + len(Z_test))
    _scatter(ax, Z_test, codes_test, groups, filled=False, crowd=len(Z) + len(Z_test))

    short = [True] * 3 if len(chosen) == 3 else inches(ax) < 3
    for letter, i, two_lines in zip("xyz", chosen, short, strict=False):
        ax.set(**{f"{letter}label": axis_title(i, shares, "\n" if two_lines else " ")})
    if title is not None:
        ax.set_title(title, parse_math=False)
    both = bool(len(Z) and len(Z_test))
    if len(chosen) == 1:
        _name_rows(ax, groups, used)
    elif _label_medians(ax, np.concatenate([Z, Z_test]), np.append(codes, codes_test), groups):
        used = used[used >= groups.n_classes]
    if len(chosen) == 1 or (y is None and y_test is None):
        used = used[:0]
    _add_legend(ax, groups, used, both, np.concatenate([Z, Z_test]))
    if own:
        make_room_for_legend(ax)
    return ax


def _scatter(
    ax: Any, Z: np.ndarray, codes: np.ndarray, groups: Groups, *, filled: bool, crowd: int
) -> None:
    """Draw samples in random order, smaller and paler if there are many for the axes."""
    if not len(Z):
        return
    fitting = min(600 / np.sqrt(crowd), 120_000 / crowd, 24)
    size = max(
        0.8, float(fitting * np.sqrt(inches(ax).prod() / 16))
    )  # 16: the size of a new figure
    style: dict[str, Any] = {"depthshade": False} if Z.shape[1] == 3 else {}
    if filled:
        style.update(s=size, linewidths=0, alpha=float(np.clip(fitting / 20, 0.3, 0.55)))
    else:
        style.update(s=1.3 * size, facecolors="none", linewidths=np.clip(size / 16, 0.25, 0.9))
    order = np.random.default_rng(0).permutation(len(Z))
    # Samples without a label lie under the others.
    order = order[np.argsort(codes[order] != groups.n_classes, kind="stable")]
    colours, markers = np.array(groups.colours), np.array(groups.markers)
    # A collection has one marker; several markers take turns.
    turns = 1 if len(np.unique(markers[codes])) < 2 else 10
    for part in np.array_split(order, turns):
        for marker in np.unique(markers[codes[part]]):
            mine = part[markers[codes[part]] == marker]
            style["facecolors" if filled else "edgecolors"] = colours[codes[mine]]
            ax.scatter(*Z[mine].T, marker=MARKERS[marker], rasterized=crowd > MOST_VECTORS, **style)


def _name_rows(ax: Axes, groups: Groups, used: np.ndarray) -> None:
    names = [groups.names[code] for code in used]
    if names == ["no label"]:
        names = [""]
    size = None if len(used) <= ROWS_OF_LEGEND else 150 / len(used)
    ax.set_yticks(range(len(used)), names, size=size, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(used) - 0.5, -0.5)  # the first class on top


def _label_medians(ax: Any, Z: np.ndarray, codes: np.ndarray, groups: Groups) -> bool:
    """Write class names at their samples; return False, and write none, if they do not fit."""
    used = np.unique(codes[codes < groups.n_classes])
    if Z.shape[1] == 3 or not 0 < len(used) <= 40:
        return False
    size = 11 if len(used) <= 10 and inches(ax)[0] > 3.5 else 8
    ax.autoscale_view()  # otherwise delayed until drawing, after positions are used
    texts = []
    for code in used:
        colour = groups.colours[code]
        x, y = np.median(Z[codes == code], axis=0)
        box = {"facecolor": "white", "alpha": 0.9, "edgecolor": colour, "pad": 1.5}
        texts.append(
            ax.text(x, y, groups.names[code], size=size, weight="bold",
                    ha="center", va="center", bbox=box, parse_math=False, zorder=5)
        )  # fmt: skip
    extents = [text.get_window_extent() for text in texts]
    boxes = np.array([[*(box.p0 + box.p1), box.width, box.height] for box in extents])
    centres, sizes = boxes[:, :2] / 2, boxes[:, 2:] * 1.1 + 5  # room for the frame
    moved = _apart(centres, sizes)
    room = ax.get_window_extent()
    if (
        moved is None
        or (np.abs(moved - centres) > 1.5 * sizes[:, 1:]).any()  # too far from its class
        or sizes[:, 0].max() > room.width / 4
        or sizes.prod(axis=1).sum() > room.width * room.height / 6  # hides the samples
    ):
        for text in texts:
            text.remove()
        return False
    for text, place in zip(texts, ax.transData.inverted().transform(moved), strict=True):
        text.set_position(place)
    return True


def _apart(centres: np.ndarray, sizes: np.ndarray) -> np.ndarray | None:
    """Push boxes apart until none overlaps another, shape (n, 2); None if that fails."""
    centres = centres + np.random.default_rng(0).uniform(-0.5, 0.5, centres.shape)
    reach = (sizes[:, None] + sizes) / 2
    for _ in range(200):
        gap = centres[:, None] - centres
        overlap = reach - np.abs(gap)
        hits = (overlap > 0).all(axis=2) & ~np.eye(len(centres), dtype=bool)
        if not hits.any():
            return centres
        # Along the shorter way, half of it by each of the two.
        along = np.eye(2)[np.argmin(overlap, axis=2)]
        centres = centres + 0.5 * np.where(
            hits[..., None], along * np.sign(gap) * (overlap + 0.1), 0
        ).sum(axis=1)
    return None


def _add_legend(ax: Any, groups: Groups, used: np.ndarray, both: bool, Z: np.ndarray) -> None:
    """Add a legend of classes that are not named elsewhere, and of filled and open markers."""
    from matplotlib.lines import Line2D

    def handle(colour: str, marker: str, filled: bool = True) -> Line2D:
        face = colour if filled else "none"
        return Line2D([], [], ls="", marker=marker, ms=5, mfc=face, mec=colour)

    entries = [(groups.names[j], handle(groups.colours[j], MARKERS[groups.markers[j]]))
               for j in used]  # fmt: skip
    if len(entries) > MOST_NAMED:
        entries = [(f"{len(entries)} classes", handle(DARK_GREY, "o"))]
    if both:
        entries += [("train", handle(DARK_GREY, "o")), ("test", handle(DARK_GREY, "o", False))]
    if not entries:
        return

    def draw(**where: Any) -> Any:
        legend = ax.legend(
            [handle for _, handle in entries], ["" for _ in entries], fontsize="small",
            handletextpad=0.3, columnspacing=1.0, **where,
        )  # fmt: skip
        # Set afterwards, because a name may start with "_" or contain "$".
        for text, (name, _) in zip(legend.get_texts(), entries, strict=True):
            text.set(text=name, parse_math=False)
        return legend

    # In a corner if classes are named elsewhere and no sample is there, otherwise next to the axes.
    if (len(used) == 0 or used[0] >= groups.n_classes) and Z.shape[1] == 2:
        places = ax.transData.transform(Z)
        for corner in ("upper right", "upper left", "lower right", "lower left"):
            legend = draw(loc=corner, framealpha=0.8)
            extent = legend.get_window_extent()
            if not ((places >= extent.min) & (places <= extent.max)).all(axis=1).any():
                return
    left = 1.1 if Z.shape[1] == 3 else 1.0
    columns = -(-len(entries) // ROWS_OF_LEGEND)
    draw(loc="upper left", bbox_to_anchor=(left, 1.0), frameon=False, ncols=columns)
