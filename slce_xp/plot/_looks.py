"""Names, colours and markers of classes, the same in every plot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from slce_xp._data.labels import Labels, as_labels
from slce_xp._errors import invalid, naming

# Okabe and Ito's colours without their pale yellow, and three darker ones: any two of them differ
# in every kind of colour vision.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7",
    "#56B4E9", "#000000", "#882255", "#2211AA", "#664400",
)  # fmt: skip
GREY, DARK_GREY = "#A8A8A8", "#555555"  # for samples without a class, and for all that is no data
# Class j of more than ten has marker j mod 11 and colour j mod 10. The numbers have no common
# factor, so that 110 classes look different, and neighbours differ in shape as well as in colour.
MARKERS = "o^sPDv*X<d>"
SYMBOLS = (
    "circle", "triangle-up", "square", "cross", "diamond", "triangle-down",
    "star", "x", "triangle-left", "diamond-tall", "triangle-right",
)  # fmt: skip
# Those of plotly in 3-D; seven, which has no common factor with ten either.
SOLID_SYMBOLS = (
    "circle", "square-open", "diamond", "x", "circle-open", "square", "diamond-open",
)  # fmt: skip
MOST_NAMED = len(COLOURS) * len(MARKERS)  # more classes have no legend


class Groups(NamedTuple):
    """Looks of the classes; the last two groups are samples without and with other labels.

    Attributes
    ----------
    order : dict
        The code of each class.
    names, colours, markers : lists of K + 2
        Markers are numbers of an endless cycle.
    """

    order: dict[Any, int]
    names: list[str]
    colours: list[str]
    markers: list[int]

    @classmethod
    def of(cls, classes: Any, palette: Any, *labels: Labels | None) -> Groups:
        """Return the groups of the given classes, or of the first labels that have classes."""
        found_in = (found.classes for found in labels if found is not None)
        known = natural_order(next((found for found in found_in if len(found)), np.array([])))
        if classes is not None:  # in their own order
            found = as_labels(classes, len(classes), unlabeled="missing", in_part=True)
            known = found.classes[found.codes[found.codes < len(found.classes)]]
        colours, n_colours = _coloured(known, palette)
        markers = range(len(known)) if len(known) > n_colours else [0] * len(known)
        return cls(
            {label: code for code, label in enumerate(known)},
            [*_names(known), "no label", "other labels"],
            [*colours, GREY, DARK_GREY],
            [*markers, 0, MARKERS.index("X")],
        )

    @property
    def n_classes(self) -> int:
        """The number of classes K, which is the code of samples without a label."""
        return len(self.names) - 2

    def codes(self, labels: Labels | None, n_samples: int) -> np.ndarray:
        """Return the group of each sample, shape (n,)."""
        if labels is None:
            return np.full(n_samples, self.n_classes)
        codes = [self.order.get(label, self.n_classes + 1) for label in labels.classes]
        return np.asarray(np.array([*codes, self.n_classes])[labels.codes])


def _coloured(classes: np.ndarray, palette: Any) -> tuple[list[Any], int]:
    """Return the colour of each class, and how many colours there are before they repeat."""
    count = len(classes)
    if palette is None:
        palette = COLOURS
    elif isinstance(palette, str):
        palette = _of_a_map(palette, count)
    elif isinstance(palette, Mapping):
        missing = [str(label) for label in classes if label not in palette]
        if missing:
            raise invalid(
                "palette", f"palette must have a colour for each class; got none for {missing}"
            )
        palette = [palette[label] for label in classes]
    listed = list(palette)
    if count and not listed:
        raise invalid("palette", "palette must have colours; got none")
    return [listed[j % len(listed)] for j in range(count)], len(listed)


def _of_a_map(name: str, count: int) -> list[str]:
    """Return the colours of a qualitative colour map, or equal steps of another."""
    import matplotlib

    if name not in matplotlib.colormaps:
        raise invalid(
            "palette",
            "palette must be the name of a colour map of Matplotlib, a list of colours, or a "
            f"mapping of classes to colours; got {name!r}",
        )
    colours = matplotlib.colormaps[name]
    if colours.N > 20:  # the largest qualitative map has 20
        colours = colours.resampled(max(count, 1))
    return [matplotlib.colors.to_hex(colours(j)) for j in range(colours.N)]


def coded(y: Any, n_samples: int, name: str) -> Labels | None:
    """Return labels as codes; errors name the parameter."""
    try:
        return None if y is None else as_labels(y, n_samples, unlabeled="missing", in_part=True)
    except (TypeError, ValueError) as error:
        raise naming(name, type(error)(f"{name} cannot be drawn: {error}")) from error


def natural_order(classes: np.ndarray) -> np.ndarray:
    """Sort text as people do, with numbers in it by value: class 2 before class 10."""
    if classes.dtype.kind not in "UTO" or not all(isinstance(c, str) for c in classes):
        return classes

    def key(name: str) -> list[tuple[int, int, str]]:
        parts = re.split(r"(\d+)", name)
        return [(0, int(p), p) if p.isdecimal() else (1, 0, p) for p in parts if p]

    order = sorted(range(len(classes)), key=lambda i: key(str(classes[i])))
    return classes[np.array(order, dtype=np.int64)]


def strips(used: np.ndarray, Z: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Place each sample in the row of its group, with a reproducible vertical offset."""
    offsets = np.random.default_rng(0).uniform(-0.3, 0.3, len(Z))
    return np.column_stack([Z[:, 0], np.searchsorted(used, codes) + offsets])


def _names(classes: np.ndarray) -> list[str]:
    if classes.dtype.kind == "M":  # to the day, if all are days
        classes = np.datetime_as_string(classes, unit="auto")
    return short(classes, 28 if len(classes) <= 20 else 18)


def short(labels: Iterable[Any], most: int = 28) -> list[str]:
    """Return each label in one line, long ones without their middle if they still differ."""
    names = [" ".join(str(label).split()) for label in labels]
    head, tail = most // 2, most - most // 2 - 1
    cut = [name if len(name) <= most else f"{name[:head]}…{name[-tail:]}" for name in names]
    return cut if len(set(cut)) == len(set(names)) else names


def axis_title(component: int, shares: Any = None, between: str = " ") -> str:
    """Return the axis title of a component, with the share of the loss that it removes."""
    title = f"component {component + 1}"
    if shares is None:
        return title
    share = float(shares[component])
    use = "does not lower the loss"
    if share > 0:
        percent = f"{100 * share:.1f} %" if share >= 0.0005 else "< 0.1 %"
        use = f"{percent} of class structure"
    return f"{title}{between}({use})"
