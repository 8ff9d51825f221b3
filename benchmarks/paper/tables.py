"""Tables of the report: accuracies and seconds, the paper's numbers under ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.paper import protocol
from benchmarks.paper.protocol import OURS, SETS, Experiment, Results, dimensions
from benchmarks.paper.published import ACCURACIES

MARK = "≠"
MOST_COLUMNS = 9  # methods in a table; with more it becomes two


class Estimate(NamedTuple):
    """Mean and standard deviation of some repetitions, in per cent."""

    mean: float
    deviation: float
    n: int

    def __str__(self) -> str:
        """To two digits, as the paper prints it; a single repetition has no deviation."""
        return f"{self.mean:.2f}" + (f" ± {self.deviation:.2f}" if self.n > 1 else "")


def signed(value: float) -> str:
    """With its sign, and a minus that is as long as the plus."""
    return f"{value:+.2f}".replace("-", "−")


def estimate(values: np.ndarray) -> Estimate | None:
    """Mean and sample standard deviation, or nothing of nothing."""
    if not values.size:
        return None
    deviation = float(values.std(ddof=1)) if values.size > 1 else 0.0
    return Estimate(float(values.mean()), deviation, values.size)


def differs(ours: Estimate, paper: tuple[float, float]) -> bool:
    """Whether two means are further apart than two joint standard deviations.

    The joint deviation is √(s² + s'²) of single repetitions, as the paper gives them. Two digits
    are compared: where nothing varies, the printed numbers must be the same.
    """
    joint = np.hypot(round(ours.deviation, 2), paper[1])
    return bool(abs(round(ours.mean, 2) - paper[0]) > 2 * joint + 1e-9)


def comparisons(
    results: Results,
) -> Iterator[tuple[int, str, str, int, Estimate, tuple[float, float] | None]]:
    """Every measured mean: experiment, set, method, dimensions, ours, the paper's if any."""
    for (number, name, method), _ in results.rows():
        for p in dimensions(number, name, method):
            ours = estimate(results.accuracies(number, name, method, p))
            if ours:
                yield number, name, method, p, ours, ACCURACIES.get((number, name, method, p))


# ---------------------------------------------------------------- tables


def compared() -> list[Experiment]:
    """The experiments in which SLCE takes part."""
    return [e for e in protocol.EXPERIMENTS if OURS[0] in e.methods]


def in_columns(methods: Sequence[str]) -> Iterator[list[str]]:
    """The methods of each table: ours are in all of them."""
    ours = [m for m in methods if m in OURS]
    others = [m for m in methods if m not in OURS]
    n_tables = -(-len(others) // (MOST_COLUMNS - len(ours))) or 1
    width = -(-len(others) // n_tables)
    for i in range(n_tables):
        yield [*ours, *others[i * width : (i + 1) * width]]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a Markdown table, and an empty one."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def accuracy_table(results: Results, number: int, p: int) -> list[str]:
    """An experiment in p dimensions: for each set a row of ours and one of the paper's."""
    experiment = protocol.EXPERIMENTS[number - 1]
    found = {
        (name, method): (ours, paper)
        for n, name, method, q, ours, paper in comparisons(results)
        if (n, q) == (number, p)
    }
    best = {
        name: max((round(e.mean, 2) for (s, _), (e, _) in found.items() if s == name), default=0.0)
        for name in experiment.sets
    }
    lines = []
    for methods in in_columns([m for m in experiment.methods if any(k[1] == m for k in found)]):
        rows = []
        for name in experiment.sets:
            if not any((name, method) in found for method in methods):
                continue
            ours, papers = [], []
            for method in methods:
                here, paper = found.get((name, method), (None, None))
                text = str(here) if here else "–"
                text = f"**{text}**" if here and round(here.mean, 2) == best[name] else text
                ours.append(f"{text} {MARK}" if here and paper and differs(here, paper) else text)
                papers.append(f"{paper[0]:.2f} ± {paper[1]:.2f}" if paper else "–")
            rows.append([SETS[name].title, "here", *ours])
            if any(text != "–" for text in papers):
                rows.append(["", "paper", *papers])
        if rows:
            lines += table(["set", "", *methods], rows)
    return lines


def median_seconds(results: Results) -> dict[tuple[int, str, str], float]:
    """By experiment, set and method: median of a repetition's fits and embeddings."""
    return {
        where: float(np.median([score.seconds for score in scores.values()]))
        for where, scores in results.rows()
    }


def seconds_table(results: Results) -> list[str]:
    """Median seconds of a repetition's fits and embeddings."""
    medians = median_seconds(results)
    methods = list(dict.fromkeys(m for e in compared() for m in e.methods))
    lines = []
    for columns in in_columns([m for m in methods if any(w[2] == m for w in medians)]):
        rows = []
        for experiment in compared():
            for name in experiment.sets:
                mine = [medians.get((experiment.number, name, m)) for m in columns]
                if any(mine):
                    cells = [f"{s:.2g}" if s is not None else "–" for s in mine]
                    rows.append([str(experiment.number), SETS[name].title, *cells])
        lines += table(["experiment", "set", *columns], rows)
    return lines
