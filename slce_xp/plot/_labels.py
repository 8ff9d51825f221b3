"""Placement of names in an embedding, where they hide as few samples as possible."""

from __future__ import annotations

from typing import Any

import numpy as np

MOST = 40  # names in the axes; more are easier to find in a legend
PER_CLASS = 200  # samples and points of an ellipse that stand for a class
GAP = 3  # points between names
# To be a height of the text farther away is as bad as to hide this share of a group.
PER_HEIGHT = 0.05
# Places of a name around the middle of its group: at the middle, or this many heights away from it.
HEIGHTS = np.repeat([0.0, 1.0, 2.0, 3.5], [1, 12, 12, 12])
ANGLES = np.append(0.0, np.tile(np.arange(12) * np.pi / 6, 3))
WAYS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


def name_groups(
    ax: Any,
    clouds: dict[int, np.ndarray],
    names: list[str],
    colours: list[str],
    outlines: list[np.ndarray],
    middles: dict[int, np.ndarray],
) -> bool:
    """Write names at their points; return False, and write none, if they do not fit.

    A name covers as small a share of any group as possible, so that groups of few points stay
    visible; a line leads from a name that had to move to the middle of its group.

    Parameters
    ----------
    clouds : dict
        Points of each group, by its code, shape (n, 2).
    outlines : list of arrays, shape (n, 2)
        What else should stay visible.
    middles : dict
        Middles of groups, shape (2,); by default the medians of their points.
    """
    if not 0 < len(clouds) <= MOST:
        return False
    ax.autoscale_view()  # otherwise delayed until drawing, after positions are used
    frame = {"facecolor": ax.get_facecolor(), "alpha": 0.85, "pad": 1.5}
    texts = {
        code: ax.annotate(
            names[code], middles.get(code, np.median(Z, axis=0)), (0, 0),
            textcoords="offset points",
            size="medium" if len(clouds) <= 10 else "small", ha="center", va="center",
            parse_math=False, zorder=5,
            bbox={**frame, "edgecolor": colours[code]},
            arrowprops={"arrowstyle": "-", "color": colours[code], "shrinkA": 0, "shrinkB": 0},
        )
        for code, Z in clouds.items()
    }  # fmt: skip
    pixel = 72 / ax.figure.dpi  # in points
    gap = 2 * GAP / pixel
    sizes = {code: np.array(text.get_window_extent().size) + gap for code, text in texts.items()}
    centres = {code: ax.transData.transform(text.xy) for code, text in texts.items()}
    shown = [*clouds.values(), *outlines]
    spread = [ax.transData.transform(Z[:: -(-len(Z) // PER_CLASS)]) for Z in shown]
    room = ax.get_window_extent()
    places = None
    if max(size[0] for size in sizes.values()) < room.width / 3:  # longer names hide too much
        places = _places(centres, sizes, spread, np.array([room.min, room.max]))
    for code, text in texts.items():
        if places is None:
            text.remove()
        else:
            text.set_position((places[code] - centres[code]) * pixel)
            text.arrow_patch.set_visible(bool((places[code] != centres[code]).any()))
    return places is not None


def _places(
    centres: dict[int, np.ndarray],
    sizes: dict[int, np.ndarray],
    spread: list[np.ndarray],
    limits: np.ndarray,
) -> dict[int, np.ndarray] | None:
    """Return centres of boxes that do not overlap, in pixels; None if there is no room."""
    found: dict[int, np.ndarray] = {}
    samples = np.concatenate(spread)
    weights = np.concatenate([np.full(len(Z), 1 / len(Z)) for Z in spread])
    for code, centre in centres.items():
        half = sizes[code] / 2
        places = centre + WAYS * (HEIGHTS[:, None] * sizes[code][1] + half * (HEIGHTS[:, None] > 0))
        free = ((places - half >= limits[0]) & (places + half <= limits[1])).all(axis=1)
        for other, place in found.items():
            free &= (np.abs(places - place) >= half + sizes[other] / 2).any(axis=1)
        if not free.any():
            return None
        hidden = (np.abs(samples - places[:, None]) < half).all(axis=2) @ weights
        found[code] = places[np.argmin(np.where(free, hidden + PER_HEIGHT * HEIGHTS, np.inf))]
    return found
