"""Names, colours and markers of classes, the same in every plot."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from slce_xp._data.labels import Labels, as_labels
from slce_xp._errors import naming

# Okabe and Ito's colours without their pale yellow, and three darker ones: any two of the first ten
# differ in every kind of colour vision. Each of the others is as far as possible, in OKLab, from
# those before it, from white and from the greys, which are reserved for samples without a class.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7",
    "#56B4E9", "#000000", "#882255", "#2211AA", "#664400",
    "#AA00FF", "#00EE00", "#FF00CC", "#FF1166", "#5555FF",
    "#77DD99", "#006600", "#7733AA", "#332255", "#AA88FF",
    "#FF88FF", "#88AA00", "#FFAA99", "#BB2299", "#887711",
    "#0000FF", "#660000", "#BB0011", "#CCBBFF", "#223322",
    "#776699", "#0088FF", "#004488", "#AA7766", "#CCCC33",
    "#CC55EE", "#007777", "#009900", "#6600DD", "#00DDDD",
)  # fmt: skip
PER_MARKER = 10  # classes that share a marker
GREY, DARK_GREY = "#A8A8A8", "#555555"
# Markers that can be filled or open.
MARKERS = "os^DvPXp<>h"
SYMBOLS = (
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross",
    "x", "pentagon", "triangle-left", "triangle-right", "hexagon",
)  # fmt: skip
SOLID_SYMBOLS = ("circle", "square", "diamond", "cross", "x")  # plotly has no others in 3-D

MOST_NAMED = PER_MARKER * len(MARKERS)  # more classes have no legend
MOST_VECTORS = 5_000  # points drawn as vectors in a PDF or SVG; more are rasterized
ROWS_OF_LEGEND = 25


class Groups(NamedTuple):
    """Looks of the classes; the last two groups are samples without and with other labels.

    Attributes
    ----------
    order : dict
        The code of each class.
    names, colours, markers : lists of K + 2
    """

    order: dict[Any, int]
    names: list[str]
    colours: list[str]
    markers: list[int]

    @classmethod
    def of(cls, classes: Any, *labels: Labels | None) -> Groups:
        """Return the groups of the given classes, or of the first labels that have classes."""
        found_in = (found.classes for found in labels if found is not None)
        known = natural_order(next((found for found in found_in if len(found)), np.array([])))
        if classes is not None:  # in their own order
            found = as_labels(classes, len(classes), unlabeled="missing", in_part=True)
            known = found.classes[found.codes[found.codes < len(found.classes)]]
        n = len(known)
        return cls(
            {label: code for code, label in enumerate(known)},
            [*_names(known), "no label", "other labels"],
            [*(COLOURS[j % len(COLOURS)] for j in range(n)), GREY, DARK_GREY],
            [*(j // PER_MARKER % len(MARKERS) for j in range(n)), 0, MARKERS.index("X")],
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


def strips(used: np.ndarray, *parts: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
    """Place each sample in the row of its group, with a reproducible vertical offset."""
    rng = np.random.default_rng(0)
    return [
        np.column_stack([Z[:, 0], np.searchsorted(used, codes) + rng.uniform(-0.3, 0.3, len(Z))])
        for Z, codes in parts
    ]


def _names(classes: np.ndarray) -> list[str]:
    if classes.dtype.kind == "M":  # to the day, if all are days
        classes = np.datetime_as_string(classes, unit="auto")
    return short(classes, 28 if len(classes) <= 20 else 18)


def short(labels: Iterable[Any], most: int = 28) -> list[str]:
    """Return each label in one line, long ones without their middle if they still differ."""
    names = [" ".join(str(label).split()) for label in labels]
    longest = max(map(len, names), default=0)
    if longest <= most:
        return names
    head = _alike(names)
    tail = _alike([name[head:][::-1] for name in names])
    # Keep the part that differs, and as many words before it as fit.
    start = min(head, max(0, longest - tail - most + 2))
    start = max(start, names[0].find(" ", start, head) + 1)
    cores = [f"…{name[start : len(name) - tail]}…" for name in names]
    for candidates in (names, cores):
        short = [
            name if len(name) <= most else f"{name[: most - 11]}…{name[-10:]}"
            for name in candidates
        ]
        if len(set(short)) == len(names):
            return short
    return names


def _alike(names: list[str]) -> int:
    """Return the length of the common prefix."""
    columns = zip(*names, strict=False)
    return sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, columns))


def axis_title(component: int, shares: Any = None, between: str = " ") -> str:
    """Return the axis title of a component, with the share of the loss that it removes."""
    title = f"component {component + 1}"
    if shares is None:
        return title
    share = float(shares[component])
    use = "does not lower the loss"
    if share > 0:
        use = f"{100 * share:.1f} % of the loss" if share >= 0.0005 else "< 0.1 % of the loss"
    return f"{title}{between}({use})"
