"""Creation of figures and axes."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from slce_xp._errors import invalid, not_installed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _pyplot() -> ModuleType:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise not_installed("slce_xp.plot", "Matplotlib", error, "matplotlib") from error
    return pyplot


def new_axes(dimensions: int, figure: Any = None) -> Any:
    """Return axes of a figure, a new one by default, in 3-D for three dimensions."""
    if figure is None:
        figure = _pyplot().figure(layout="constrained")
    ax = figure.add_subplot(projection="3d" if dimensions == 3 else None)
    if dimensions == 3:
        ax.set_box_aspect(None, zoom=0.85)  # otherwise labels are cut off
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
            axis.labelpad = 12
        ax.locator_params(nbins=5)  # numbers of more ticks would touch
    return ax


def new_grid(count: int, shape: tuple[int, int] | None) -> np.ndarray:
    """Return `count` axes of a new figure, sized for bars or for images."""
    columns = min(count, 3)
    rows = -(-count // columns)
    size = (4.2 * columns, 3.0 * rows) if shape is None else (2.1 * columns + 0.8, 2.2 * rows)
    figure, grid = _pyplot().subplots(rows, columns, figsize=size, squeeze=False,
                                      layout="constrained")  # fmt: skip
    axes: np.ndarray = grid.ravel()
    for spare in axes[count:]:
        figure.delaxes(spare)
    return axes[:count]


def new_row(count: int, height: float, figure: Any = None) -> np.ndarray:
    """Return axes next to each other in a figure, a new one by default."""
    if figure is None:
        figure = _pyplot().figure(layout="constrained")
    figure.set_size_inches(4.5 * count, height)
    return np.asarray(figure.subplots(1, count))


def check_projection(ax: Axes, dimensions: int) -> None:
    """Raise ValueError for 2-D axes if three components are drawn, and vice versa."""
    if (ax.name == "3d") != (dimensions == 3):
        wanted = "must be" if dimensions == 3 else "must not be"
        raise invalid(
            "ax",
            f"ax {wanted} 3-D for {dimensions} component{'s' * (dimensions != 1)}; got "
            f"{ax.name!r} axes. Create them with subplots(subplot_kw={{'projection': ...}}), "
            "or leave ax out",
        )


def make_room_for_legend(ax: Any) -> None:
    """Widen the figure by a legend next to the axes, which would otherwise shrink them."""
    legend = ax.get_legend()
    if legend is not None and not legend.get_frame_on():
        width, height = ax.figure.get_size_inches()
        extra = legend.get_window_extent().width / ax.figure.dpi
        ax.figure.set_size_inches(width + extra, height)


def inches(ax: Any) -> np.ndarray:
    """Return width and height of the axes."""
    return np.asarray(ax.get_window_extent().size / ax.figure.dpi)
