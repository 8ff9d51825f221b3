"""Creation and validation of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slce_xp._errors import invalid, not_installed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Size = tuple[float, float] | None  # of a figure, in inches


def new_figure(figsize: Size = None) -> Any:
    """Return a figure that pyplot shows, of Matplotlib's default size unless given."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise not_installed("slce_xp.plot", "Matplotlib", error, "matplotlib") from error
    from slce_xp.plot._figure import Figure

    return pyplot.figure(FigureClass=Figure, figsize=figsize, layout="constrained")


def new_axes(dimensions: int = 2, figure: Any = None) -> Any:
    """Return axes of a figure, a new one by default, in 3-D for three dimensions."""
    figure = new_figure() if figure is None else figure
    ax = figure.add_subplot(projection="3d" if dimensions == 3 else None)
    if dimensions == 3:
        ax.set_box_aspect(None, zoom=0.85)  # otherwise labels are cut off
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
            axis.labelpad = 12
        ax.locator_params(nbins=5)  # numbers of more ticks would touch
    return ax


def axes_for(ax: Axes | None, figsize: Size, dimensions: int = 2) -> Any:
    """Return the given axes if they suit, or those of a new figure."""
    if ax is None:
        return new_axes(dimensions, new_figure(figsize))
    _check_no_size(figsize, "ax")
    if (ax.name == "3d") != (dimensions == 3):
        wanted = "must be" if dimensions == 3 else "must not be"
        raise invalid(
            "ax",
            f"ax {wanted} 3-D for {dimensions} component{'s' * (dimensions != 1)}; got "
            f"{ax.name!r} axes. Create them with subplots(subplot_kw={{'projection': ...}}), "
            "or leave ax out",
        )
    return ax


def panels_for(axes: Any, figsize: Size, count: int, columns: int, of: str) -> np.ndarray:
    """Return the given axes if they are as many as panels, or those of a new figure."""
    if axes is None:
        grid = new_figure(figsize).subplots(-(-count // columns), columns, squeeze=False).ravel()
        for spare in grid[count:]:
            spare.remove()
        return np.asarray(grid[:count])
    _check_no_size(figsize, "axes")
    panels = np.array(axes, dtype=object).ravel()
    if len(panels) != count:
        raise invalid(
            "axes", f"axes must hold one Axes for each {of}, {count} in all; got {len(panels)}"
        )
    return panels


def _check_no_size(figsize: Size, name: str) -> None:
    if figsize is not None:
        raise invalid(
            "figsize", f"figsize must be left out with {name}, which has a size; got {figsize!r}"
        )


def inches(ax: Any) -> np.ndarray:
    """Return width and height of the axes."""
    return np.asarray(ax.get_window_extent().size / ax.figure.dpi)
