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
        raise not_installed("slce_xp.plot", "Matplotlib", error, "'slce-xp[plot]'") from error
    return pyplot


def new_axes(dimensions: int) -> Any:
    """Return axes of a new figure, in 3-D for three dimensions."""
    projection = "3d" if dimensions == 3 else None
    _, ax = _pyplot().subplots(layout="constrained", subplot_kw={"projection": projection})
    if projection:
        ax.set_box_aspect(None, zoom=0.85)  # otherwise labels are cut off
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
            axis.labelpad = 10
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


def inches(ax: Any) -> np.ndarray:
    """Return width and height of the axes."""
    return np.asarray(ax.get_window_extent().size / ax.figure.dpi)
