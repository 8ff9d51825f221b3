"""The plot of an embedding by any method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slce_xp._errors import invalid
from slce_xp.plot._axes import Size, axes_for, inches
from slce_xp.plot._given import as_components, as_points
from slce_xp.plot._labels import name_groups
from slce_xp.plot._looks import (
    DARK_GREY,
    GREY,
    MARKERS,
    MOST_NAMED,
    Groups,
    axis_title,
    coded,
    short,
    strips,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_VECTORS = 5_000  # points drawn as vectors in a PDF or SVG; more are rasterized
LARGEST = 24  # points², of a marker; Matplotlib's own are 36, for few samples
ROWS_OF_LEGEND = 25  # as many as fit into a figure of Matplotlib's default height


def points(
    Z: Any,
    y: Any = None,
    *,
    Z_test: Any = None,
    y_test: Any = None,
    classes: Any = None,
    components: Sequence[int] | None = None,
    shares: Any = None,
    ellipses: Iterable[Any] = (),
    arrows: Mapping[str, Any] | None = None,
    title: str | None = None,
    palette: Any = None,
    ax: Axes | None = None,
    figsize: Size = None,
) -> Axes:
    """Plot an embedding of any method.

    Class names are at the centres of their ellipses, or else the medians of their classes, or next
    to these where they hide fewer samples, or, if that is not readable, in a legend. Points are
    drawn in random order, so that no class hides the others.

    Parameters
    ----------
    Z : array, shape (n, k)
    y : labels, shape (n,), optional
        Samples with missing labels (NaN, None, an empty string) are grey, and all without `y`.
    Z_test, y_test : optional
        Test samples, drawn open. Labels that are not classes share one look.
    classes : labels, shape (K,), optional
        All classes in the order of their colours, so that plots of parts of the data agree; those
        of `y` by default, numbers in names by value. Other labels share one look.
    components : one, two or three indices, optional
        Which components to draw, from 0; three give a 3-D plot. The first two by default. A single
        one, as for two classes, gives a row for each class.
    shares : k numbers, optional
        What the axes show of each component: `Model.loss_shares`.
    ellipses : sequence of (class, centre, half-axes), optional
        `CrossEmbedding.ellipses`: in the first two components, or intervals in the only one.
    arrows : mapping of names to vectors, shape (k,), optional
        Arrows from the origin in two dimensions, such as correlations of features with the
        components. Along each axis the longest reaches as far as the samples.
    title : str, optional
        The title of the plot.
    palette : list of colours, mapping of classes to colours, or name of a colour map, optional
        Ten colours that differ in every kind of colour vision by default. If there are more
        classes than colours, markers differ as well.
    ax : Axes, optional
        Where to draw; with ``projection="3d"`` for three components. A new figure by default. A
        figure of your own shows a legend next to the axes if it has ``layout="constrained"``.
    figsize : (width, height), optional
        Inches of the new figure; ``rcParams["figure.figsize"]`` by default.

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
    Z, Z_test = _checked(Z, Z_test, y_test)
    chosen = as_components(components, Z.shape[1])
    _check_arrows(arrows, chosen)
    labels, labels_test = coded(y, len(Z), "y"), coded(y_test, len(Z_test), "y_test")
    groups = Groups.of(classes, palette, labels, labels_test)
    codes = np.append(groups.codes(labels, len(Z)), groups.codes(labels_test, len(Z_test)))
    used = np.unique(codes)
    places = np.concatenate([Z, Z_test])[:, chosen]
    ax = axes_for(ax, figsize, len(chosen))
    if len(chosen) == 1:
        places = strips(used, places, codes)
        _name_rows(ax, groups, used)
        _draw_intervals(ax, ellipses, used, groups)
    _scatter(ax, places, codes, groups, np.arange(len(codes)) >= len(Z))
    _add_titles(ax, chosen, shares, title)
    has_labels = y is not None or y_test is not None
    listed = list(used) if has_labels and len(chosen) > 1 else []
    if len(chosen) == 2:
        clouds = {code: places[codes == code] for code in listed if code < groups.n_classes}
        regions = _draw_ellipses(ax, ellipses, chosen, groups)
        if _name(ax, clouds, regions, groups, _draw_arrows(ax, arrows or {}, chosen, places)):
            listed = [code for code in listed if code not in clouds]
    _add_legend(ax, groups, listed, bool(len(Z) and len(Z_test)), places)
    return ax


def _checked(Z: Any, Z_test: Any, y_test: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return both embeddings on the host."""
    if Z_test is None and y_test is not None:
        raise invalid(
            "y_test", "y_test must come with test samples; got none. Pass them, or leave it out"
        )
    Z = as_points(Z, "Z")
    return Z, Z[:0] if Z_test is None else as_points(Z_test, "Z_test", Z.shape[1])


def _check_arrows(arrows: Mapping[str, Any] | None, chosen: list[int]) -> None:
    if arrows and len(chosen) != 2:
        raise invalid("arrows", f"arrows need two components to be drawn; got {len(chosen)}")


def _add_titles(ax: Any, chosen: list[int], shares: Any, title: str | None) -> None:
    in_two_lines = [True] * 3 if len(chosen) == 3 else inches(ax) < 3
    for letter, i, two in zip("xyz", chosen, in_two_lines, strict=False):
        ax.set(**{f"{letter}label": axis_title(i, shares, "\n" if two else " ")})
    if title is not None:
        ax.set_title(title, size="medium", parse_math=False)


def _scatter(
    ax: Any, Z: np.ndarray, codes: np.ndarray, groups: Groups, is_test: np.ndarray
) -> None:
    """Draw samples in random order, smaller and paler if there are many for the axes."""
    if not len(Z):
        return
    area = 72**2 * inches(ax).prod()
    size = float(np.clip(area / 4 / len(Z), 1, LARGEST))  # all together at most a quarter
    alpha = 0.4 + 0.3 * size / LARGEST
    order = np.random.default_rng(0).permutation(len(Z))
    # Samples without a label lie under the others, test samples over them.
    order = order[np.lexsort((codes[order] != groups.n_classes, is_test[order]))]
    colours = np.array(groups.colours, dtype=object)
    markers = np.array([MARKERS[j % len(MARKERS)] for j in groups.markers])
    for part, drawn_open in ((order[~is_test[order]], False), (order[is_test[order]], True)):
        # A collection has one marker; several markers take turns.
        turns = 1 if len(np.unique(markers[codes[part]])) < 2 else 10
        for some in np.array_split(part, turns):
            for marker in np.unique(markers[codes[some]]):
                mine = some[markers[codes[some]] == marker]
                own = list(colours[codes[mine]])
                style = (
                    {"facecolors": "none", "edgecolors": own, "linewidths": np.sqrt(size) / 5}
                    if drawn_open
                    else {"facecolors": own, "linewidths": 0, "alpha": alpha}
                )
                if Z.shape[1] == 3:
                    style["depthshade"] = False
                ax.scatter(
                    *Z[mine].T, s=size, marker=marker, rasterized=len(Z) > MOST_VECTORS, **style
                )


def _draw_ellipses(
    ax: Any, ellipses: Iterable[Any], chosen: list[int], groups: Groups
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Draw the ellipses that are of the chosen components; return centre and points by class."""
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    regions = {}
    for label, centre, axes in ellipses if sorted(chosen) == [0, 1] else ():
        outline = (centre + circle @ axes)[:, chosen]
        code = groups.order[label]
        colour = groups.colours[code]
        ax.fill(*outline.T, facecolor=colour, alpha=2 / max(8, len(groups.order)), zorder=3)
        ax.plot(*outline.T, color=colour, linewidth=1.5, zorder=3.5)
        regions[code] = np.asarray(centre)[chosen], outline
    return regions


def _draw_intervals(ax: Any, ellipses: Iterable[Any], used: np.ndarray, groups: Groups) -> None:
    for label, centre, axes in ellipses:
        if len(axes) > 1:  # an ellipse, of other components
            continue
        row = np.searchsorted(used, groups.order[label])
        reach = abs(axes[0, 0])
        ax.errorbar(
            centre[0],
            row,
            xerr=reach,
            fmt="|",
            color=ax.xaxis.label.get_color(),
            capsize=4,
            zorder=4,
        )


def _draw_arrows(
    ax: Any, arrows: Mapping[str, Any], chosen: list[int], Z: np.ndarray
) -> dict[str, np.ndarray]:
    """Draw arrows from the origin, and return where they end."""
    if not arrows:
        return {}
    vectors = np.array([np.asarray(vector)[chosen] for vector in arrows.values()])
    tips = vectors / np.abs(vectors).max() * np.abs(Z).max(axis=0)
    for tip in tips:
        ax.annotate(
            "", tip, (0, 0), zorder=4,
            arrowprops={"arrowstyle": "->", "color": DARK_GREY, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip
    ax.update_datalim(tips)
    return dict(zip(short(arrows), tips, strict=True))


def _name(
    ax: Any,
    clouds: dict[int, np.ndarray],
    regions: dict[int, tuple[np.ndarray, np.ndarray]],
    groups: Groups,
    tips: dict[str, np.ndarray],
) -> bool:
    """Write names of classes and of arrows; return whether those of classes could be placed."""
    ends = dict(enumerate(tips.values(), len(groups.names)))
    shafts = {code: np.linspace(0, 1, 20)[:, None] * tip for code, tip in ends.items()}
    names = [*groups.names, *tips]
    colours = [*groups.colours, *[GREY] * len(tips)]
    outlines = [outline for _, outline in regions.values()]
    centres = {code: centre for code, (centre, _) in regions.items()}
    if name_groups(ax, clouds | shafts, names, colours, outlines, centres | ends):
        return True
    for name, tip in tips.items():
        # On the side of the origin, above or below the arrow: inside the axes, and not across it.
        ax.annotate(
            name, tip, size="small", ha="right" if tip[0] > 0 else "left",
            va="bottom" if tip[1] > 0 else "top", parse_math=False,
        )  # fmt: skip
    return bool(tips) and name_groups(
        ax, clouds, names, colours, [*outlines, *shafts.values()], centres
    )


def _name_rows(ax: Axes, groups: Groups, used: np.ndarray) -> None:
    names = [groups.names[code] for code in used]
    if names == ["no label"]:
        names = [""]
    size = None if len(used) <= ROWS_OF_LEGEND else 150 / len(used)
    ax.set_yticks(range(len(used)), names, size=size, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(used) - 0.5, -0.5)  # the first class on top


def _add_legend(ax: Any, groups: Groups, used: list[int], both: bool, Z: np.ndarray) -> None:
    """Add a legend of classes that are not named elsewhere, and of filled and open markers."""
    shown = [(groups.names[j], groups.colours[j], groups.markers[j], True) for j in used]
    if len(shown) > MOST_NAMED:
        shown = [(f"{len(shown)} classes", DARK_GREY, 0, True)]
    if both:
        shown += [("train", DARK_GREY, 0, True), ("test", DARK_GREY, 0, False)]
    if not shown:
        return
    # In a corner if it is short and no sample is there, otherwise next to the axes.
    if len(shown) <= 4 and Z.shape[1] == 2:
        places = ax.transData.transform(Z)
        for corner in ("upper right", "upper left", "lower right", "lower left"):
            extent = legend(ax, shown, loc=corner, framealpha=0.8).get_window_extent()
            if not ((places >= extent.min) & (places <= extent.max)).all(axis=1).any():
                return
    left = 1.1 if Z.shape[1] == 3 else 1.0
    columns = -(-len(shown) // ROWS_OF_LEGEND)
    legend(ax, shown, loc="upper left", bbox_to_anchor=(left, 1.0), frameon=False, ncols=columns)


def legend(ax: Any, shown: Sequence[tuple[str, Any, int, bool]], **options: Any) -> Any:
    """Add a legend of (name, colour, marker, whether it is filled)."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], ls="", marker=MARKERS[marker % len(MARKERS)], ms=5, mec=colour,
               mfc=colour if is_filled else "none")
        for _, colour, marker, is_filled in shown
    ]  # fmt: skip
    added = ax.legend(
        handles, [""] * len(shown), fontsize="small", handletextpad=0.3, columnspacing=1.0,
        **options,
    )  # fmt: skip
    # Set afterwards, because a name may start with "_" or contain "$".
    for text, (name, *_) in zip(added.get_texts(), shown, strict=True):
        text.set(text=name, parse_math=False)
    return added
