"""Placement of names in an embedding, where they hide as few samples as possible."""

from __future__ import annotations

from typing import Any

import numpy as np

MOST = 40  # names in the axes; more are easier to find in a legend
PER_CLASS = 200  # samples and points of an ellipse that stand for a class
GAP = 3  # points between names
# Places of a name around the middle of its class, in heights of the text: first the middle itself.
RINGS = (0.0, 1.0, 2.0, 3.5)
PER_RING = 0.05  # to hide so much more of a class is as bad as to be a height farther away
DIRECTIONS = np.linspace(0, 2 * np.pi, 12, endpoint=False)


def name_groups(
    ax: Any,
    clouds: dict[int, np.ndarray],
    names: list[str],
    colours: list[str],
    outlines: list[np.ndarray],
) -> bool:
    """Write names at their points; return False, and write none, if they do not fit.

    A name covers as small a share of any group as possible, so that groups of few points stay
    visible; a line leads from a name that had to move to the median of its group.

    Parameters
    ----------
    clouds : dict
        Points of each group, by its code, shape (n, 2).
    outlines : list of arrays, shape (n, 2)
        What else should stay visible.
    """
    if not 0 < len(clouds) <= MOST:
        return False
    ax.autoscale_view()  # otherwise delayed until drawing, after positions are used
    texts = {
        code: ax.annotate(
            names[code], np.median(Z, axis=0), (0, 0), textcoords="offset points",
            size="medium" if len(clouds) <= 10 else "small", ha="center", va="center",
            parse_math=False, zorder=5,
            bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": colours[code], "pad": 1.5},
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
    if max(size[0] for size in sizes.values()) < room.width / 4:  # longer names hide too much
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
        best, least = None, np.inf
        half = sizes[code] / 2
        for ring in RINGS:
            for angle in DIRECTIONS[: 1 if not ring else None]:
                way = np.array([np.cos(angle), np.sin(angle)])
                place = centre + way * (2 * ring * half[1] + half * (ring > 0))
                inside = (place - half >= limits[0]).all() and (place + half <= limits[1]).all()
                free = all(
                    (np.abs(place - p) >= half + sizes[c] / 2).any() for c, p in found.items()
                )
                if not (inside and free):
                    continue
                hidden = weights[(np.abs(samples - place) < half).all(axis=1)].sum()
                cost = hidden + PER_RING * ring
                if cost < least:
                    best, least = place, cost
        if best is None:
            return None
        found[code] = best
    return found
