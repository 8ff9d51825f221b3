"""Interactive plots of embeddings."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

import numpy as np

from slce_xp._errors import invalid, not_installed
from slce_xp.plot._given import as_components, as_points
from slce_xp.plot._looks import SOLID_SYMBOLS, SYMBOLS, Groups, axis_title, coded, strips

# From where a 3-D plot is seen: far enough for the titles of its axes.
CAMERA = {"eye": {"x": 1.0, "y": -1.9, "z": 0.8}, "center": {"x": 0, "y": 0, "z": -0.15}}


def interactive(
    Z: Any,
    y: Any = None,
    *,
    ids: Iterable[Any] | None = None,
    classes: Any = None,
    components: Any = None,
    shares: Any = None,
    title: str | None = None,
) -> Any:
    """Plot an embedding that shows the sample and its class under the pointer (extra ``html``).

    ``figure.write_html("embedding.html")`` writes a page that needs no network.

    Parameters
    ----------
    Z : array, shape (n, k)
        The output of `Model.transform`.
    y : labels, shape (n,), optional
    ids : n names, optional
        Names of the samples; row numbers, from 0, by default.
    classes, shares, title
        As for `points`.
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
        user = "slce_xp.plot.interactive"
        raise not_installed(user, "plotly", error, "plotly") from error
    Z = as_points(Z, "Z")
    chosen = as_components(components, Z.shape[1])
    names = [str(i) for i in (range(len(Z)) if ids is None else ids)]
    if len(names) != len(Z):
        raise invalid("ids", f"ids must name each sample, {len(Z)} in all; got {len(names)}")
    labels = coded(y, len(Z), "y")
    groups = Groups.of(classes, labels)
    codes = groups.codes(labels, len(Z))
    used = np.unique(codes)
    Z = Z[:, chosen]
    in_space = len(chosen) == 3
    titles = [axis_title(i, shares, "<br>" if in_space else " ") for i in chosen]
    if len(chosen) == 1:
        (Z,) = strips(used, (Z, codes))

    escaped = np.array([html.escape(name, quote=False) for name in names], dtype=object)
    kind = go.Scatter3d if in_space else go.Scattergl  # WebGL, for many points
    size = float(np.clip(250 / np.sqrt(max(len(Z), 1)), 3, 8)) / (2 if in_space else 1)
    symbols = SOLID_SYMBOLS if in_space else SYMBOLS
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
    layout: dict[str, Any] = {f"{letter}axis": {"title": {"text": text}}
                              for letter, text in zip("xyz", titles, strict=False)}  # fmt: skip
    if len(chosen) == 1:
        ticks = [html.escape(groups.names[code], quote=False) for code in used]
        layout["yaxis"] = {"tickvals": list(range(len(used))), "ticktext": ticks,
                           "autorange": "reversed", "showticklabels": y is not None}  # fmt: skip
    figure.update_layout(
        template="plotly_white",
        showlegend=y is not None and len(chosen) > 1,
        legend={"itemsizing": "constant", "font": {"size": 12 if len(used) <= 25 else 10}},
        title=None if title is None else {"text": html.escape(title, quote=False), "x": 0.5},
        margin={"t": 40 if title is None else 60, "b": 0 if in_space else 60},
        modebar={"remove": ["sendChartToCloud"]},  # do not upload samples
        **({"scene": {**layout, "camera": CAMERA}} if in_space else layout),
    )
    return figure
