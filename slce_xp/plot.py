"""Pictures of models and embeddings (extra ``plot``: Matplotlib; extra ``html``: plotly).

Every function draws into the axes that it is given, or makes a figure of its own, and returns the
axes; showing and saving are the caller's: ``ax.figure.savefig("embedding.png")``.
"""

from __future__ import annotations

import html
import operator
from collections.abc import Iterable, Sequence
from itertools import takewhile
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slce_xp import Model, _xp
from slce_xp._labels import Labels, as_labels
from slce_xp._validate import as_count, as_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours without their pale yellow, and three darker ones: any two of them differ
# to readers of every kind of colour vision. Grey is kept for what has no class.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7",
    "#56B4E9", "#000000", "#882255", "#2211AA", "#664400",
)  # fmt: skip
GREY, DARK_GREY = "#A8A8A8", "#555555"
# Each has an area, so that it can be filled or open. Another one for every ten classes.
MARKERS = "os^DvPXp<>h"
SYMBOLS = (
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross",
    "x", "pentagon", "triangle-left", "triangle-right", "hexagon",
)  # fmt: skip
SOLID_SYMBOLS = ("circle", "square", "diamond", "cross", "x")  # plotly has no others in 3-D

MOST_NAMED = len(COLOURS) * len(MARKERS)  # more classes than that look alike in pairs
MOST_VECTORS = 5_000  # points that a PDF or SVG holds one by one; more become an image in it
ROWS_OF_LEGEND = 25


# ---------------------------------------------------------------- embeddings


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
    """Draw samples where a model embeds them: filled for training, open for testing.

    Parameters
    ----------
    model : Model or fitted SLCE
    X : anything that `Model.transform` takes, shape (n, d)
    y : labels, shape (n,), optional
        Missing ones (NaN, None, an empty string) are grey, and all samples without `y`.
    X_test, y_test : optional
        More samples, with or without labels, drawn open. Labels that are no classes of the model
        have one look in common.
    components : one, two or three indices, optional
        Which components to draw, from 0; three make a picture in 3-D. The first two by default.
        One alone, as two classes have it, gives a row for each class.
    ax : Axes, optional
        Where to draw; in 3-D axes with ``projection="3d"``. Otherwise in a new figure. A figure of
        your own shows a legend beside the axes if it has ``layout="constrained"``.

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
    component 1 (eigenvalue 1.25e+03)
    """
    model = _as_model(model)
    ax = points(
        _embed(model, X),
        y,
        Z_test=None if X_test is None else _embed(model, X_test),
        y_test=y_test,
        classes=model.classes,
        components=components,
        ax=ax,
    )
    eigenvalues = _xp.to_host(model.eigenvalues)
    chosen = _as_components(components, model.n_components)
    short = [True] * 3 if len(chosen) == 3 else _inches(ax) < 3
    for letter, i, two_lines in zip("xyz", chosen, short, strict=False):
        between = "\n" if two_lines else " "
        ax.set(**{f"{letter}label": f"{_title(i)}{between}(eigenvalue {eigenvalues[i]:.3g})"})
    return ax


def points(
    Z: Any,
    y: Any = None,
    *,
    Z_test: Any = None,
    y_test: Any = None,
    classes: Any = None,
    components: Sequence[int] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw samples that are embedded already, by any method.

    Class names stand at the medians of their classes where that is readable, otherwise in a legend
    beside the axes. Points are drawn in a mixed order, so that no class hides the others.

    Parameters
    ----------
    Z : array, shape (n, k)
    y : labels, shape (n,), optional
    Z_test, y_test : optional
        More samples, drawn open.
    classes : labels, shape (K,), optional
        All classes in the order of their colours, so that pictures of parts of the data agree;
        those of `y` by default. Other labels have one look in common.
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
    Z = _as_points(Z, "Z")
    chosen = _as_components(components, Z.shape[1])
    if Z_test is None and y_test is not None:
        raise ValueError("y_test must come with the samples it labels; got no such samples")
    Z_test = Z[:0] if Z_test is None else _as_points(Z_test, "Z_test", Z.shape[1])
    labels, labels_test = _coded(y, len(Z), "y"), _coded(y_test, len(Z_test), "y_test")
    groups = _Groups.of(classes, labels, labels_test)
    codes, codes_test = groups.codes(labels, len(Z)), groups.codes(labels_test, len(Z_test))
    used = np.union1d(codes, codes_test)

    own = ax is None
    if ax is None:
        ax = _new_axes(len(chosen))
    _check_projection(ax, len(chosen))
    Z, Z_test = Z[:, chosen], Z_test[:, chosen]
    if len(chosen) == 1:
        Z, Z_test = _strips(used, (Z, codes), (Z_test, codes_test))
    _scatter(ax, Z, codes, groups, filled=True, crowd=len(Z) + len(Z_test))
    _scatter(ax, Z_test, codes_test, groups, filled=False, crowd=len(Z) + len(Z_test))

    for letter, i in zip("xyz", chosen, strict=False):
        ax.set(**{f"{letter}label": _title(i)})
    both = bool(len(Z) and len(Z_test))
    if len(chosen) == 1:
        _name_rows(ax, groups, used)
    elif _label_medians(ax, np.concatenate([Z, Z_test]), np.append(codes, codes_test), groups):
        used = used[used >= groups.n_classes]
    if len(chosen) == 1 or (y is None and y_test is None):
        used = used[:0]
    _add_legend(ax, groups, used, both, np.concatenate([Z, Z_test]), own)
    return ax


class _Groups(NamedTuple):
    """Classes as they are drawn; the last two groups are samples without and with other labels.

    Attributes
    ----------
    order : dict
        The code of each class.
    names, colours, markers : lists of K + 2
    """

    order: dict[Any, int]
    names: list[str]
    colours: list[str]
    markers: list[int]

    @classmethod
    def of(cls, classes: Any, *labels: Labels | None) -> _Groups:
        """The classes that are given, or else those of the first labels that have some."""
        found_in = (found.classes for found in labels if found is not None)
        known = next((found for found in found_in if len(found)), np.array([]))
        if classes is not None:  # in their own order
            found = as_labels(classes, len(classes), unlabeled="missing", in_part=True)
            known = found.classes[found.codes[found.codes < len(found.classes)]]
        n = len(known)
        return cls(
            {label: code for code, label in enumerate(known)},
            [*_names(known), "no label", "other labels"],
            [*(COLOURS[j % len(COLOURS)] for j in range(n)), GREY, DARK_GREY],
            [*(j // len(COLOURS) % len(MARKERS) for j in range(n)), 0, MARKERS.index("X")],
        )

    @property
    def n_classes(self) -> int:
        """K, which is the code of samples without a label."""
        return len(self.names) - 2

    def codes(self, labels: Labels | None, n_samples: int) -> np.ndarray:
        """The group of each sample, shape (n,)."""
        if labels is None:
            return np.full(n_samples, self.n_classes)
        codes = [self.order.get(label, self.n_classes + 1) for label in labels.classes]
        return np.asarray(np.array([*codes, self.n_classes])[labels.codes])


def _coded(y: Any, n_samples: int, name: str) -> Labels | None:
    try:
        return None if y is None else as_labels(y, n_samples, unlabeled="missing", in_part=True)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} cannot be drawn: {error}") from error


def _scatter(
    ax: Any, Z: np.ndarray, codes: np.ndarray, groups: _Groups, *, filled: bool, crowd: int
) -> None:
    """Draw samples in a mixed order, smaller and paler where there are many for the axes' size."""
    if not len(Z):
        return
    fitting = min(600 / np.sqrt(crowd), 120_000 / crowd, 24)
    size = max(0.8, float(fitting * np.sqrt(_inches(ax).prod() / 16)))  # 16: a figure of our own
    style: dict[str, Any] = {"depthshade": False} if Z.shape[1] == 3 else {}
    if filled:
        style.update(s=size, linewidths=0, alpha=float(np.clip(fitting / 20, 0.3, 0.55)))
    else:
        style.update(s=1.3 * size, facecolors="none", linewidths=np.clip(size / 16, 0.25, 0.9))
    order = np.random.default_rng(0).permutation(len(Z))
    # Those without a label lie under the others.
    order = order[np.argsort(codes[order] != groups.n_classes, kind="stable")]
    colours, markers = np.array(groups.colours), np.array(groups.markers)
    # A collection has one marker: of several, each has its turns.
    turns = 1 if len(np.unique(markers[codes])) < 2 else 10
    for part in np.array_split(order, turns):
        for marker in np.unique(markers[codes[part]]):
            mine = part[markers[codes[part]] == marker]
            style["facecolors" if filled else "edgecolors"] = colours[codes[mine]]
            ax.scatter(*Z[mine].T, marker=MARKERS[marker], rasterized=crowd > MOST_VECTORS, **style)


def _inches(ax: Any) -> np.ndarray:
    """Width and height of the axes."""
    return np.asarray(ax.get_window_extent().size / ax.figure.dpi)


def _strips(used: np.ndarray, *parts: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
    """Each sample in the row of its group, a little above or below, always at the same place."""
    rng = np.random.default_rng(0)
    return [
        np.column_stack([Z[:, 0], np.searchsorted(used, codes) + rng.uniform(-0.3, 0.3, len(Z))])
        for Z, codes in parts
    ]


def _name_rows(ax: Axes, groups: _Groups, used: np.ndarray) -> None:
    names = [groups.names[code] for code in used]
    if names == ["no label"]:
        names = [""]
    size = None if len(used) <= ROWS_OF_LEGEND else 150 / len(used)
    ax.set_yticks(range(len(used)), names, size=size, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(used) - 0.5, -0.5)  # the first class on top


def _label_medians(ax: Any, Z: np.ndarray, codes: np.ndarray, groups: _Groups) -> bool:
    """Write class names where their samples are; False, and none, where they would not fit."""
    used = np.unique(codes[codes < groups.n_classes])
    if Z.shape[1] == 3 or not 0 < len(used) <= 40:
        return False
    size = 11 if len(used) <= 10 and _inches(ax)[0] > 3.5 else 8
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
    """Push boxes apart until none overlaps another, shape (n, 2); None where they stay stuck."""
    centres = centres + np.random.default_rng(0).uniform(-0.5, 0.5, centres.shape)
    reach = (sizes[:, None] + sizes) / 2
    for _ in range(200):
        gap = centres[:, None] - centres
        overlap = reach - np.abs(gap)
        hits = (overlap > 0).all(axis=2) & ~np.eye(len(centres), dtype=bool)
        if not hits.any():
            return centres
        # The shorter way out, half of it by each of the two.
        along = np.eye(2)[np.argmin(overlap, axis=2)]
        centres = centres + 0.5 * np.where(
            hits[..., None], along * np.sign(gap) * (overlap + 0.1), 0
        ).sum(axis=1)
    return None


def _add_legend(
    ax: Any, groups: _Groups, used: np.ndarray, both: bool, Z: np.ndarray, own: bool
) -> None:
    """Classes that are named nowhere else beside the axes; what filled and open mean."""
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
    named = len(used) == 0 or used[0] >= groups.n_classes
    corner = _empty_corner(ax, Z) if named and Z.shape[1] == 2 else None
    if corner:
        where = {"loc": corner, "framealpha": 0.8}
    else:
        columns = -(-len(entries) // ROWS_OF_LEGEND)
        where = {"loc": "upper left", "bbox_to_anchor": (1.1 if Z.shape[1] == 3 else 1.0, 1.0),
                 "frameon": False, "ncols": columns}  # fmt: skip
    legend = ax.legend(
        [handle for _, handle in entries], ["" for _ in entries], fontsize="small",
        handletextpad=0.3, columnspacing=1.0, **where,
    )  # fmt: skip
    # Afterwards, because a name may begin with "_", or hold "$".
    for text, (name, _) in zip(legend.get_texts(), entries, strict=True):
        text.set(text=name, parse_math=False)
    if own and "bbox_to_anchor" in where:  # room for it, not taken from the axes
        figure = ax.figure
        width, height = figure.get_size_inches()
        extra = legend.get_window_extent().width / figure.dpi
        figure.set_size_inches(width + extra, height)


def _empty_corner(ax: Any, Z: np.ndarray) -> str | None:
    """A corner with room for a legend; None where there are samples in all of them."""
    x, y = ax.transAxes.inverted().transform(ax.transData.transform(Z)).T
    crowds = {
        f"{'upper' if up else 'lower'} {'right' if right else 'left'}": int(
            np.sum((x > 0.75 if right else x < 0.25) & (y > 0.8 if up else y < 0.2))
        )
        for up in (True, False)
        for right in (True, False)
    }
    corner = min(crowds, key=lambda corner: crowds[corner])
    return corner if crowds[corner] <= 0.005 * len(Z) else None


# ---------------------------------------------------------------- what a model says of itself


def spectrum(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the eigenvalues, filled where they are positive and lower the loss, under their bound.

    The bound is the eigenvalues of 2·S_b (Property 3 of the paper); fits with samples that have no
    label have none.

    Parameters
    ----------
    model : Model or fitted SLCE
    ax : Axes, optional
        In a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import slce_xp, slce_xp.plot
    >>> X = [[0.0, 1.0], [1.0, 0.0], [8.0, 2.0], [9.0, 0.0]]
    >>> ax = slce_xp.plot.spectrum(slce_xp.fit(X, [0, 0, 1, 1]))
    >>> ax.get_ylabel()
    'eigenvalue'
    """
    model = _as_model(model)
    ax = _new_axes(2) if ax is None else ax
    values = _xp.to_host(model.eigenvalues)
    place = np.arange(1, len(values) + 1)
    size = float(np.clip(80 / len(values), 2, 6))
    ax.axhline(0, color=GREY, linewidth=1, zorder=1)
    if not model.n_unlabeled:
        bounds = _xp.to_host(model.eigenvalue_bounds)
        ax.plot(place, bounds, "--s", color=COLOURS[1], ms=0.7 * size, label="bound: $2\\,S_b$")
    ax.plot(place, values, color=COLOURS[0], linewidth=0.8, zorder=2.5)
    useful = slice(0, model.n_positive)
    others = slice(model.n_positive, None)
    for part, face, label in (
        (useful, COLOURS[0], "lower the loss"),
        (others, "white", "do not"),
    ):
        if len(place[part]):
            ax.plot(place[part], values[part], "o", mfc=face, mec=COLOURS[0], ms=size,
                    label=f"{len(place[part])} {label}", zorder=3)  # fmt: skip
    ax.set(xlabel="component", ylabel="eigenvalue")
    _finish(ax)
    return ax


def loss(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the loss ‖C̃ − X A Aᵀ‖² against the number of components, from none on.

    Parameters
    ----------
    model : Model or fitted SLCE
    ax : Axes, optional
        In a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import slce_xp, slce_xp.plot
    >>> X = [[0.0, 1.0], [1.0, 0.0], [8.0, 2.0], [9.0, 0.0]]
    >>> ax = slce_xp.plot.loss(slce_xp.fit(X, [0, 0, 1, 1]))
    >>> print(ax.get_legend().get_texts()[0].get_text())
    lowest: 1 component, 1.2 % of the loss with none
    """
    model = _as_model(model)
    ax = _new_axes(2) if ax is None else ax
    curve = np.append(model.total_loss, _xp.to_host(model.loss_curve))
    best = model.n_positive
    size = float(np.clip(80 / len(curve), 2, 5))
    ax.plot(np.arange(len(curve)), curve, "-o", color=COLOURS[0], ms=size)
    share = f", {curve[best] / curve[0]:.1%} of the loss with none".replace("%", " %")
    ax.plot(best, curve[best], "o", ms=10, mfc="none", mec=COLOURS[3], mew=1.8,
            label=f"lowest: {best} component{'s' * (best != 1)}{share if curve[0] > 0 else ''}",
            )  # fmt: skip
    ax.set(xlabel="components", ylabel=r"loss $\|\tilde{C} - X A A^T\|^2$")
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]) if curve.min() < 0 else 0.0)
    _finish(ax)
    return ax


def _finish(ax: Axes) -> None:
    ax.locator_params(axis="x", integer=True)
    ax.ticklabel_format(axis="y", scilimits=(-3, 4), useMathText=True)
    ax.legend(fontsize="small", frameon=False)


def loadings(
    model: Any,
    names: Iterable[Any] | None = None,
    *,
    top: int = 10,
    shape: tuple[int, int] | None = None,
    components: Sequence[int] | None = None,
    axes: Any = None,
) -> np.ndarray:
    """Draw what each component is made of: its largest entries, or all of them as a picture.

    Parameters
    ----------
    model : Model or fitted SLCE
    names : d names, optional
        Of the features.
    top : int
        How many features to show of each component, those of largest magnitude.
    shape : (height, width), optional
        Where samples are images: draw the components as such, red for positive entries and blue
        for negative ones.
    components : indices, optional
        From 0. The first six by default.
    axes : sequence of Axes, optional
        One for each component. In a new figure by default.

    Returns
    -------
    numpy.ndarray of Axes, shape (number of components drawn,)

    Examples
    --------
    >>> import slce_xp, slce_xp.plot
    >>> X = [[0.0, 1.0], [1.0, 0.0], [8.0, 2.0], [9.0, 0.0]]
    >>> model = slce_xp.fit(X, [0, 0, 1, 1])
    >>> (ax,) = slce_xp.plot.loadings(model, ["length", "width"])
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['length', 'width']
    """
    model = _as_model(model)
    chosen = _as_components(components, model.n_components, most=None, default=6)
    top = as_count(top, "top", 1)
    names = _feature_names(names, model.n_features)
    if shape is not None and (len(shape) != 2 or np.prod(shape) != model.n_features):
        raise ValueError(
            f"shape must be (height, width) of images of {model.n_features} pixels, as many as the "
            f"model has features; got {tuple(shape)}"
        )
    own = axes is None
    panels = _new_grid(len(chosen), shape) if own else np.array(axes, dtype=object).ravel()
    if len(panels) != len(chosen):
        raise ValueError(
            f"axes must hold one Axes for each component, {len(chosen)} in all; got {len(panels)}. "
            "Say which components to draw: components=[0, 1]"
        )
    rows = np.stack([_xp.to_host(model.components[i, :]) for i in chosen])
    limit = float(np.abs(rows).max())
    for ax, i, row in zip(panels, chosen, rows, strict=True):
        if shape is None:
            _draw_bars(ax, row, names, top)
        else:
            picture = ax.imshow(row.reshape(shape), cmap="RdBu_r", vmin=-limit, vmax=limit)
            ax.set(xticks=[], yticks=[])
        ax.set_title(_title(i), size="medium")
    if own and shape is not None:
        panels[0].figure.colorbar(picture, ax=list(panels), label="loading", shrink=0.8)
    return panels


def _draw_bars(ax: Any, row: np.ndarray, names: list[str], top: int) -> None:
    largest = np.argsort(-np.abs(row), kind="stable")[:top]
    colours = [COLOURS[3] if value > 0 else COLOURS[0] for value in row[largest]]
    ax.barh(np.arange(len(largest)), row[largest], color=colours)
    ax.axvline(0, color=DARK_GREY, linewidth=0.8)
    ticks = [names[j] for j in largest]
    ax.set_yticks(np.arange(len(largest)), ticks, size="small", parse_math=False)
    ax.set_ylim(len(largest) - 0.5, -0.5)  # the largest on top
    ax.set_xlabel("loading")
    ax.locator_params(axis="x", nbins=3)


# ---------------------------------------------------------------- for hovering over samples


def interactive(
    Z: Any, y: Any = None, *, ids: Iterable[Any] | None = None, components: Any = None
) -> Any:
    """Draw an embedding that tells the sample and its class under the pointer (extra ``html``).

    ``figure.write_html("embedding.html")`` makes a page that needs no network.

    Parameters
    ----------
    Z : array, shape (n, k)
        What `Model.transform` returns.
    y : labels, shape (n,), optional
    ids : n names, optional
        What to call the samples; their row numbers, from 0, by default.
    components : one, two or three indices, optional
        As for `embedding`.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> import slce_xp.plot
    >>> figure = slce_xp.plot.interactive([[0.0, 1.0], [4.0, 2.0]], ["a", "b"], ids=["x17", "x18"])
    >>> [trace.name for trace in figure.data]
    ['a', 'b']
    """
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise ImportError(
            f"slce_xp.plot.interactive needs plotly, which cannot be imported here ({error}); "
            "install it with: pip install 'slce-xp[html]'"
        ) from error
    Z = _as_points(Z, "Z")
    chosen = _as_components(components, Z.shape[1])
    names = [str(i) for i in (range(len(Z)) if ids is None else ids)]
    if len(names) != len(Z):
        raise ValueError(f"ids must name each sample, {len(Z)} in all; got {len(names)}")
    labels = _coded(y, len(Z), "y")
    groups = _Groups.of(None, labels)
    codes = groups.codes(labels, len(Z))
    used = np.unique(codes)
    Z = Z[:, chosen]
    titles = [_title(i) for i in chosen]
    if len(chosen) == 1:
        (Z,) = _strips(used, (Z, codes))

    escaped = np.array([html.escape(name, quote=False) for name in names], dtype=object)
    kind = go.Scatter3d if len(chosen) == 3 else go.Scattergl  # WebGL, for many points
    size = float(np.clip(250 / np.sqrt(max(len(Z), 1)), 3, 8)) / (2 if len(chosen) == 3 else 1)
    symbols = SOLID_SYMBOLS if len(chosen) == 3 else SYMBOLS
    figure = go.Figure()
    for code in used:
        mine = codes == code
        name = html.escape(groups.names[code], quote=False)
        figure.add_trace(
            kind(
                **dict(zip("xyz", Z[mine].T, strict=False)),
                mode="markers",
                name=name,
                text=escaped[mine],
                hovertemplate="%{text}" + ("" if y is None else f"<br>{name}") + "<extra></extra>",
                marker={
                    "color": groups.colours[code],
                    "size": size,
                    "symbol": symbols[groups.markers[code] % len(symbols)],
                    "opacity": 0.8,
                },
            )
        )
    layout: dict[str, Any] = {f"{letter}axis": {"title": {"text": title}}
                              for letter, title in zip("xyz", titles, strict=False)}  # fmt: skip
    if len(chosen) == 1:
        ticks = [html.escape(groups.names[code], quote=False) for code in used]
        layout["yaxis"] = {"tickvals": list(range(len(used))), "ticktext": ticks,
                           "autorange": "reversed", "showticklabels": y is not None}  # fmt: skip
    figure.update_layout(
        template="plotly_white",
        showlegend=y is not None and len(chosen) > 1,
        legend={"itemsizing": "constant"},
        margin={"t": 40, "b": 60},
        modebar={"remove": ["sendChartToCloud"]},  # samples stay on the reader's machine
        **({"scene": layout} if len(chosen) == 3 else layout),
    )
    return figure


# ---------------------------------------------------------------- what is given


def _as_model(model: Any) -> Model:
    model = getattr(model, "model_", model)
    if not isinstance(model, Model):
        raise TypeError(
            f"model must be a Model or a fitted SLCE; got {type(model).__name__}. "
            "Fit one: slce_xp.fit(X, y)"
        )
    if model.n_components == 0:
        raise ValueError(
            "model must have components to draw; got one without any, because no direction lowers "
            "the loss: the classes overlap. Fit with n_components=2 to see the directions anyway"
        )
    return model


def _embed(model: Model, X: Any) -> np.ndarray:
    return _on_host(model.transform(X))


def _on_host(Z: Any) -> np.ndarray:
    return _xp.to_host(Z.compute() if _xp.is_dask(Z) else Z)


def _as_points(Z: Any, name: str, width: int | None = None) -> np.ndarray:
    """An embedding on the host, in double precision."""
    matrix = as_matrix(Z, name=name)
    if isinstance(matrix, _xp.Sparse):
        raise TypeError(f"{name} must be dense, as transform returns it; got a sparse matrix")
    if not _xp.is_array(matrix) and not _xp.is_dask(matrix):  # a file that is read
        matrix = np.asarray(Z[:])
    values = _on_host(matrix).astype(np.float64)
    if width is not None and values.shape[1] != width:
        raise ValueError(
            f"{name} must have {width} columns, as many as Z; got shape {values.shape}. "
            "Embed both with the same model"
        )
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise ValueError(f"{name} must be finite; got {values[row]} in row {row}. Drop such rows")
    return values


def _as_components(components: Any, k: int, *, most: int | None = 3, default: int = 2) -> list[int]:
    """Indices of the components to draw; by default the first ones."""
    if k == 0:
        raise ValueError("Z must have at least one column, a component to draw; got none")
    if components is None:
        return list(range(min(k, default)))
    rule = f"components must be {f'1 to {most} ' if most else ''}indices from 0 to {k - 1}"
    try:
        chosen = [operator.index(i) for i in components]
    except TypeError:
        raise TypeError(f"{rule}; got {components!r}") from None
    if not 0 < len(chosen) <= (most or k) or not all(0 <= i < k for i in chosen):
        raise ValueError(f"{rule}; got {components!r}")
    return chosen


def _feature_names(names: Iterable[Any] | None, d: int) -> list[str]:
    if names is None:
        return [f"feature {j}" for j in range(d)]
    found = list(names)
    if len(found) != d:
        raise ValueError(f"names must name each feature of the model, {d} in all; got {len(found)}")
    return _short(found)


def _names(classes: np.ndarray) -> list[str]:
    if classes.dtype.kind == "M":  # to the day, where all are days
        classes = np.datetime_as_string(classes, unit="auto")
    return _short(classes, 28 if len(classes) <= 20 else 18)


def _short(labels: Iterable[Any], most: int = 28) -> list[str]:
    """Each in one line, long ones without their middle, as long as they still differ."""
    names = [" ".join(str(label).split()) for label in labels]
    longest = max(map(len, names), default=0)
    if longest <= most:
        return names
    head = _alike(names)
    tail = _alike([name[head:][::-1] for name in names])
    # What differs, and of the words before it as many as there is room for.
    start = min(head, max(0, longest - tail - most + 2))
    start = max(start, names[0].find(" ", start, head) + 1)
    cores = [f"…{name[start : len(name) - tail]}…" for name in names]
    for candidates in (names, cores):
        short = [
            name if len(name) <= most else f"{name[: most - 11]}…{name[-10:]}"
            for name in candidates
        ]
        if len(set(short)) == len(names):
            return short
    return names


def _alike(names: list[str]) -> int:
    """With how many letters all names begin."""
    columns = zip(*names, strict=False)
    return sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, columns))


def _title(component: int) -> str:
    return f"component {component + 1}"


# ---------------------------------------------------------------- figures


def _pyplot() -> ModuleType:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            f"slce_xp.plot needs Matplotlib, which cannot be imported here ({error}); "
            "install it with: pip install 'slce-xp[plot]'"
        ) from error
    return pyplot


def _new_axes(dimensions: int) -> Any:
    projection = "3d" if dimensions == 3 else None
    _, ax = _pyplot().subplots(layout="constrained", subplot_kw={"projection": projection})
    if projection:
        ax.set_box_aspect(None, zoom=0.85)  # its labels are cut off otherwise
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
            axis.labelpad = 10
    return ax


def _new_grid(count: int, shape: tuple[int, int] | None) -> np.ndarray:
    columns = min(count, 3)
    rows = -(-count // columns)
    size = (4.2 * columns, 3.0 * rows) if shape is None else (2.1 * columns + 0.8, 2.2 * rows)
    figure, grid = _pyplot().subplots(rows, columns, figsize=size, squeeze=False,
                                      layout="constrained")  # fmt: skip
    axes: np.ndarray = grid.ravel()
    for spare in axes[count:]:
        figure.delaxes(spare)
    return axes[:count]


def _check_projection(ax: Axes, dimensions: int) -> None:
    if (ax.name == "3d") != (dimensions == 3):
        wanted = "must be" if dimensions == 3 else "must not be"
        raise ValueError(
            f"ax {wanted} 3-D for {dimensions} component{'s' * (dimensions != 1)}; got "
            f"{ax.name!r} axes. Make them with subplots(subplot_kw={{'projection': ...}}), "
            "or leave ax out"
        )
