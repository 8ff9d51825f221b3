"""Figures and axes: the only place that makes some."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _pyplot() -> ModuleType:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            f"slce_xp.plot needs Matplotlib, which cannot be imported here ({error}); "
            "install it with: pip install 'slce-xp[plot]'"
        ) from error
    return pyplot


def new_axes(dimensions: int) -> Any:
    """Axes of a new figure, in 3-D for three dimensions."""
    projection = "3d" if dimensions == 3 else None
    _, ax = _pyplot().subplots(layout="constrained", subplot_kw={"projection": projection})
    if projection:
        ax.set_box_aspect(None, zoom=0.85)  # its labels are cut off otherwise
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
            axis.labelpad = 10
    return ax


def new_grid(count: int, shape: tuple[int, int] | None) -> np.ndarray:
    """So many axes of a new figure, of a size for bars or for pictures."""
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
    """Refuse axes of another kind than what is drawn needs."""
    if (ax.name == "3d") != (dimensions == 3):
        wanted = "must be" if dimensions == 3 else "must not be"
        raise ValueError(
            f"ax {wanted} 3-D for {dimensions} component{'s' * (dimensions != 1)}; got "
            f"{ax.name!r} axes. Make them with subplots(subplot_kw={{'projection': ...}}), "
            "or leave ax out"
        )


def inches(ax: Any) -> np.ndarray:
    """Width and height of the axes."""
    return np.asarray(ax.get_window_extent().size / ax.figure.dpi)
