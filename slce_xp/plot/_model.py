"""Plots of a model: eigenvalues, loss, loadings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slce_xp import _backend
from slce_xp._errors import invalid
from slce_xp._parameters import as_count
from slce_xp.plot._axes import new_axes, new_grid
from slce_xp.plot._given import as_components, as_model, feature_names
from slce_xp.plot._looks import COLOURS, DARK_GREY, GREY, axis_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def spectrum(model: Any, ax: Axes | None = None) -> Axes:
    """Plot the eigenvalues, filled if they are positive and lower the loss, with their bound.

    The bound is the eigenvalues of 2·S_b (Property 3 of the paper); there is none for fits with
    unlabelled samples.

    Parameters
    ----------
    model : Model or fitted SLCE
    ax : Axes, optional
        A new figure by default.

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
    ax = new_axes(2) if ax is None else ax
    values = _backend.to_host(model.eigenvalues)
    place = np.arange(1, len(values) + 1)
    size = float(np.clip(80 / len(values), 2, 6))
    ax.axhline(0, color=GREY, linewidth=1, zorder=1)
    if not model.n_unlabeled:
        bounds = _backend.to_host(model.eigenvalue_bounds)
        ax.plot(place, bounds, "--s", color=COLOURS[1], ms=0.7 * size, label="bound: $2\\,S_b$")
    ax.plot(place, values, color=COLOURS[0], linewidth=0.8, zorder=2.5)
    for part, face, label in (
        (slice(0, model.n_positive), COLOURS[0], "lower the loss"),
        (slice(model.n_positive, None), "white", "do not"),
    ):
        if len(place[part]):
            ax.plot(place[part], values[part], "o", mfc=face, mec=COLOURS[0], ms=size,
                    label=f"{len(place[part])} {label}", zorder=3)  # fmt: skip
    ax.set(xlabel="component", ylabel="eigenvalue")
    _finish(ax)
    return ax


def loss(model: Any, ax: Axes | None = None) -> Axes:
    """Plot the loss ‖C̃ − X A Aᵀ‖² against the number of components, from 0.

    Parameters
    ----------
    model : Model or fitted SLCE
    ax : Axes, optional
        A new figure by default.

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
    ax = new_axes(2) if ax is None else ax
    curve = np.append(model.total_loss, _backend.to_host(model.loss_curve))
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
    names = feature_names(names, model)
    if shape is not None and (np.shape(shape) != (2,) or np.prod(shape) != model.n_features):
        raise invalid(
            "shape",
            f"shape must be (height, width) of images of {model.n_features} pixels, as many as the "
            f"model has features; got {shape!r}",
        )
    own = axes is None
    panels = new_grid(len(chosen), shape) if own else np.array(axes, dtype=object).ravel()
    if len(panels) != len(chosen):
        raise invalid(
            "axes",
            f"axes must hold one Axes for each component, {len(chosen)} in all; got {len(panels)}. "
            "Choose the components to draw: components=[0, 1]",
        )
    rows = np.stack([_backend.to_host(model.components[i, :]) for i in chosen])
    limit = float(np.abs(rows).max())
    for ax, i, row in zip(panels, chosen, rows, strict=True):
        if shape is None:
            _draw_bars(ax, row, names, top)
        else:
            image = ax.imshow(row.reshape(shape), cmap="RdBu_r", vmin=-limit, vmax=limit)
            ax.set(xticks=[], yticks=[])
        ax.set_title(axis_title(i), size="medium")
    if own and shape is not None:
        panels[0].figure.colorbar(image, ax=list(panels), label="loading", shrink=0.8)
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
