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
    palette: Any = None,
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
    classes, components, shares, title, palette
        As for `points`.

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
    names = [_escaped(i) for i in (range(len(Z)) if ids is None else ids)]
    if len(names) != len(Z):
        raise invalid("ids", f"ids must name each sample, {len(Z)} in all; got {len(names)}")
    labels = coded(y, len(Z), "y")
    groups = Groups.of(classes, palette, labels)
    codes = groups.codes(labels, len(Z))
    used = np.unique(codes)
    Z = Z[:, chosen] if len(chosen) > 1 else strips(used, Z[:, chosen], codes)
    figure = go.Figure()
    for code in used:
        mine = codes == code
        name = _escaped(groups.names[code])
        figure.add_trace(
            # WebGL in the plane, too, for many points.
            (go.Scatter3d if len(chosen) == 3 else go.Scattergl)(
                **dict(zip("xyz", Z[mine].T, strict=False)),
                mode="markers",
                name=name,
                text=np.array(names, dtype=object)[mine],
                hovertemplate="%{text}" + ("" if y is None else f"<br>{name}") + "<extra></extra>",
                marker=_marker(groups, code, len(Z), len(chosen) == 3),
            )
        )
    _lay_out(figure, chosen, shares, title, y is not None)
    if len(chosen) == 1:
        figure.update_yaxes(
            tickvals=list(range(len(used))),
            ticktext=[_escaped(groups.names[code]) for code in used],
            autorange="reversed",
            showticklabels=y is not None,
        )
    return figure


def _escaped(text: Any) -> str:
    return html.escape(str(text), quote=False)


def _marker(groups: Groups, code: int, n_samples: int, in_space: bool) -> dict[str, Any]:
    symbols = SOLID_SYMBOLS if in_space else SYMBOLS
    # Pixels: samples of a screen of 1000 × 500 cover at most a tenth of it.
    size = float(np.clip(np.sqrt(50_000 / max(n_samples, 1)), 3, 8))
    return {
        "color": groups.colours[code],
        "size": size / (2 if in_space else 1),
        "symbol": symbols[groups.markers[code] % len(symbols)],
        "opacity": 0.8,
    }


def _lay_out(
    figure: Any, chosen: list[int], shares: Any, title: str | None, has_classes: bool
) -> None:
    in_space = len(chosen) == 3
    between = "<br>" if in_space else " "
    axes: dict[str, Any] = {
        f"{letter}axis": {"title": {"text": axis_title(i, shares, between)}}
        for letter, i in zip("xyz", chosen, strict=False)
    }
    figure.update_layout(
        template="plotly_white",
        showlegend=has_classes and len(chosen) > 1,
        legend={"itemsizing": "constant"},
        title=None if title is None else {"text": _escaped(title), "x": 0.5},
        margin={"t": 40 if title is None else 60, "b": 0 if in_space else 60},
        modebar={"remove": ["sendChartToCloud"]},  # do not upload samples
        **({"scene": {**axes, "camera": CAMERA}} if in_space else axes),
    )
