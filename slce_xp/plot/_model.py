"""Plots of a model: eigenvalues, loss, loadings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slce_xp import _backend
from slce_xp._errors import invalid
from slce_xp._parameters import as_count
from slce_xp.plot._axes import Size, axes_for, panels_for
from slce_xp.plot._given import as_components, as_model, feature_names
from slce_xp.plot._looks import COLOURS, DARK_GREY, GREY, axis_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def spectrum(model: Any, ax: Axes | None = None, *, figsize: Size = None) -> Axes:
    """Plot the eigenvalues, filled if they are positive and lower the loss, with their bound.

    The bound is the eigenvalues of 2·S_b (Property 3 of the paper); there is none for fits with
    unlabelled samples.

    Parameters
    ----------
    model : Model or fitted SLCE
    ax : Axes, optional
        A new figure by default.
    figsize : (width, height), optional
        Inches of the new figure.

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
    model = as_model(model)
    ax = axes_for(ax, figsize)
    values = _backend.to_host(model.eigenvalues)
    place = np.arange(1, len(values) + 1)
    size = _marker_size(len(values))
    ax.axhline(0, color=GREY, linewidth=1, zorder=1)
    if not model.n_unlabeled:
        bounds = _backend.to_host(model.eigenvalue_bounds)
        ax.plot(place, bounds, "--s", color=COLOURS[1], ms=0.7 * size, label="bound: $2\\,S_b$")
    ax.plot(place, values, color=COLOURS[0], linewidth=0.8, zorder=2.5)
    for part, face, label in (
        (slice(0, model.n_positive), COLOURS[0], "lower the loss"),
        (slice(model.n_positive, None), ax.get_facecolor(), "do not"),
    ):
        if len(place[part]):
            ax.plot(place[part], values[part], "o", mfc=face, mec=COLOURS[0], ms=size,
                    label=f"{len(place[part])} {label}", zorder=3)  # fmt: skip
    ax.set(xlabel="component", ylabel="eigenvalue")
    _finish(ax)
    return ax


def loss(model: Any, ax: Axes | None = None, *, figsize: Size = None) -> Axes:
    """Plot the loss ‖C̃ − X A Aᵀ‖² against the number of components, from 0.

    Parameters
    ----------
    model : Model or fitted SLCE
    ax, figsize
        As for `spectrum`.

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
    model = as_model(model)
    ax = axes_for(ax, figsize)
    curve = np.append(model.total_loss, _backend.to_host(model.loss_curve))
    best = model.n_positive
    ax.plot(np.arange(len(curve)), curve, "-o", color=COLOURS[0], ms=_marker_size(len(curve)))
    share = f", {100 * curve[best] / curve[0]:.1f} % of the loss with none" if curve[0] > 0 else ""
    ax.plot(best, curve[best], "o", ms=10, mfc="none", mec=COLOURS[3], mew=1.8,
            label=f"lowest: {best} component{'s' * (best != 1)}{share}")  # fmt: skip
    ax.set(xlabel="components", ylabel=r"loss $\|\tilde{C} - X A A^T\|^2$")
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]) if curve.min() < 0 else 0.0)
    _finish(ax)
    return ax


def _marker_size(count: int) -> float:
    """Return the size in points of `count` markers in a row, which do not touch in new axes."""
    return float(np.clip(80 / count, 2, 6))


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
    figsize: Size = None,
) -> np.ndarray:
    """Plot the largest entries of each component, or all of them as an image.

    Parameters
    ----------
    model : Model or fitted SLCE
    names : d names, optional
        Names of the features; those of the model by default, or numbers from 1.
    top : int
        How many features to show for each component, those of largest magnitude.
    shape : (height, width), optional
        If samples are images, draw the components as images, red for positive entries and blue for
        negative ones.
    components : indices, optional
        From 0. The first six by default.
    axes : sequence of Axes, optional
        One for each component. A new figure by default.
    figsize : (width, height), optional
        Inches of the new figure.

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
    model = as_model(model)
    chosen = as_components(components, model.n_components, most=None, default=6)
    top = as_count(top, "top", 1)
    names = feature_names(names, model, model.n_features)
    _check_shape(shape, model.n_features)
    columns = min(len(chosen), 3)
    if axes is None and figsize is None:  # inches of images and of bars with their names
        width, height = (4.2, 0.6 + 0.24 * min(top, len(names))) if shape is None else (2.4, 2.2)
        figsize = (width * columns, height * -(-len(chosen) // columns))
    panels = panels_for(axes, figsize, len(chosen), columns, "component")
    rows = np.stack([_backend.to_host(model.components[i, :]) for i in chosen])
    limit = float(np.abs(rows).max())
    for ax, i, row in zip(panels, chosen, rows, strict=True):
        if shape is None:
            largest = np.argsort(-np.abs(row), kind="stable")[:top]
            bars(ax, row[largest], [names[j] for j in largest])
            ax.set_xlabel("loading")
        else:
            image = ax.imshow(row.reshape(shape), cmap="RdBu_r", vmin=-limit, vmax=limit)
            ax.set(xticks=[], yticks=[])
        ax.set_title(axis_title(i), size="medium")
    if axes is None and shape is not None:
        panels[0].figure.colorbar(image, ax=list(panels), label="loading", shrink=0.8)
    return panels


def _check_shape(shape: Any, d: int) -> None:
    if shape is not None and (np.shape(shape) != (2,) or np.prod(shape) != d):
        raise invalid(
            "shape",
            f"shape must be (height, width) of images of {d} pixels, as many as the model has "
            f"features; got {shape!r}",
        )


def bars(ax: Any, values: np.ndarray, names: list[str], colours: Any = None) -> None:
    """Draw named horizontal bars, the first on top; red and blue by their signs by default."""
    place = np.arange(len(values))
    if colours is None:
        colours = [COLOURS[3] if value > 0 else COLOURS[0] for value in values]
    ax.barh(place, values, color=colours, alpha=0.7)  # so that lines over them are seen
    ax.axvline(0, color=DARK_GREY, linewidth=0.8)
    ax.set_yticks(place, names, size="small", parse_math=False)
    ax.set_ylim(len(values) - 0.5, -0.5)
    ax.locator_params(axis="x", nbins=5)
