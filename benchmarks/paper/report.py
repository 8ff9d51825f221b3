"""The report: the paper's tables beside ours, where they differ, and where SLCE is not the best."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.datasets import MissingDataError
from benchmarks.paper import protocol
from benchmarks.paper.notes import (
    CURVES,
    SEPARATION,
    UNCLEAR,
    described_otherwise,
    described_systems,
    other_readings,
)
from benchmarks.paper.protocol import OURS, REPETITIONS, SETS, Results
from benchmarks.paper.published import ACCURACIES
from benchmarks.paper.tables import (
    MARK,
    Estimate,
    accuracy_table,
    compared,
    comparisons,
    differs,
    estimate,
    seconds_table,
    signed,
    table,
)

NONLINEAR = "Centroid-Encoder"
NOT_THE_PAPERS = ("LDA, shrinkage", "NCA")  # further peers


# ---------------------------------------------------------------- findings


def differences(results: Results) -> list[str]:
    """Where ours and the paper's numbers are too far apart to agree."""
    compared = [row for row in comparisons(results) if row[-1]]
    apart = [row for row in compared if differs(*row[-2:])]
    lines = [
        f"{len(compared) - len(apart)} of {len(compared)} means that the paper prints and that "
        "were measured here agree to within two joint standard deviations √(s² + s'²). That is a "
        "wide gate: these are deviations of single repetitions, not errors of their mean.",
        "",
    ]
    if not apart:
        return lines
    return lines + table(
        ["experiment", "set", "method", "dimensions", "here", "paper", "difference"],
        (
            [str(number), SETS[name].title, method, str(p), str(ours),
             f"{paper[0]:.2f} ± {paper[1]:.2f}", signed(ours.mean - paper[0])]
            for number, name, method, p, ours, paper in apart
        ),
    )  # fmt: skip


class Rivalry(NamedTuple):
    """A method of ours against others in the same repetitions."""

    experiment: int
    set: str
    dimensions: int
    ours: Estimate
    best: str  # of the linear methods
    ahead: Estimate  # of that
    ahead_of_nonlinear: Estimate | None

    @property
    def is_level(self) -> bool:
        """Whether it is ahead, or behind by no more than the standard error of the mean."""
        error = self.ahead.deviation / self.ahead.n**0.5 if self.ahead.n > 1 else 0.0
        return self.ahead.mean >= -error


def rivalries(results: Results, method: str, without: Collection[str] = OURS) -> Iterator[Rivalry]:
    """A method of ours against the best linear one of others, and against the nonlinear one."""
    for experiment in compared():
        for name in experiment.sets:
            for p in experiment.dimensions:
                accuracy = {
                    m: results.accuracies(experiment.number, name, m, p) for m in experiment.methods
                }
                ours = accuracy.get(method, np.empty(0))
                others = {
                    m: a
                    for m, a in accuracy.items()
                    if a.size == ours.size > 0 and m not in without
                }
                nonlinear = others.pop(NONLINEAR, None)
                if others:
                    best = max(others, key=lambda m: others[m].mean())
                    yield Rivalry(
                        experiment.number, name, p, estimate(ours), best,
                        estimate(ours - others[best]),
                        None if nonlinear is None else estimate(ours - nonlinear),
                    )  # fmt: skip


def honest_check(results: Results, method: str = "SLCE") -> list[str]:
    """For which sets a method of ours is not the best, and by how much."""
    rows = list(rivalries(results, method))
    if not rows:
        return []
    behind = [row for row in rows if row.ahead.mean < 0]
    level = sum(row.is_level for row in rows)
    papers = list(rivalries(results, method, {*OURS, *NOT_THE_PAPERS}))
    level_with_papers = sum(row.is_level for row in papers)
    sets = dict.fromkeys(SETS[row.set].title for row in behind)
    lines = [
        f"Another linear method has the higher mean in {len(behind)} of {len(rows)} comparisons"
        + (f", on {', '.join(sets)}" if behind else "")
        + f". {method} is ahead, or level to one standard error of the mean difference, in "
        f"{level} of {len(rows)}, and in {level_with_papers} of {len(papers)} without "
        f"{' and '.join(NOT_THE_PAPERS)}, which the paper does not have"
        ". *Ahead* is the mean difference in the same splits ± its standard deviation; bold: "
        "behind. Splits of one set overlap, and the best of several others is chosen after the "
        "fact, so this is not a significance test.",
        "",
    ]

    def told(ahead: Estimate | None) -> str:
        if ahead is None:
            return "–"
        text = signed(ahead.mean) + (f" ± {ahead.deviation:.2f}" if ahead.n > 1 else "")
        return f"**{text}**" if ahead.mean < 0 else text

    return lines + table(
        ["experiment", "set", "dimensions", method, "best other linear method", "ahead by",
         f"ahead of {NONLINEAR}"],
        (
            [str(row.experiment), SETS[row.set].title, str(row.dimensions), str(row.ours),
             row.best, told(row.ahead), told(row.ahead_of_nonlinear)]
            for row in rows
        ),
    )  # fmt: skip


def unfinished(results: Results, repetitions: int) -> list[str]:
    """Methods and the sets on which they are not done, of those that another one is done on."""
    done = {where: len(scores) for where, scores in results.rows()}
    rows: dict[str, list[str]] = {}
    for experiment in compared():
        for name in experiment.sets:
            wanted = 1 if SETS[name].n_train else repetitions
            for method in experiment.methods:
                count = done.get((experiment.number, name, method), 0)
                others = any(where[:2] == (experiment.number, name) for where in done)
                if others and count < wanted and (method, name) not in experiment.left_out:
                    part = f" ({count} of {wanted})" if count else ""
                    rows.setdefault(method, []).append(f"{SETS[name].title}{part}")
    return [f"{method} on {', '.join(dict.fromkeys(names))}" for method, names in rows.items()]


def claims(results: Results) -> list[str]:
    """What the paper's text says of Experiment 3, whose numbers it only draws."""
    experiment = protocol.EXPERIMENTS[2]

    def mean(name: str, method: str, p: int) -> float:
        values = results.accuracies(3, name, method, p)
        return float(values.mean()) if values.size else float("nan")

    lines = []
    done = [name for name in experiment.sets if mean(name, "SLCE", 5) >= 0]
    supervised = ("LDA", "HSIC SPCA")
    pairs = [(name, p) for name in done for p in experiment.dimensions]
    if not pairs or not all(mean(done[0], m, 5) >= 0 for m in (*supervised, "PCA")):
        return []
    first = [
        (name, p)
        for name, p in pairs
        if all(mean(name, "SLCE", p) > mean(name, m, p) for m in supervised)
    ]
    lines.append(
        '- "SLCE significantly outperform other supervised models in all three cases": here it is '
        f"ahead of LDA and HSIC SPCA in {len(first)} of {len(pairs)} means."
    )
    pca = [name for name in done if mean(name, "PCA", 5) > mean(name, "LDA", 5)]
    lines.append(
        '- "three cases with embedding dimension five, where PCA showed better performance than '
        f'LDA": here in {len(pca)} of {len(done)}'
        + (f" ({', '.join(SETS[name].title for name in pca)})." if pca else ".")
    )
    if "yale" in done:
        gain = mean("yale", "SLCE", 20) - mean("yale", "SLCE", 15)
        lines.append(
            '- "SLCE didn\'t improve the accuracy on Yaleface from embedding dimensions 15 to 20": '
            f"here it changes by {signed(gain)}."
        )
    return [*lines, ""]


# ---------------------------------------------------------------- the whole


def write(
    results: Results,
    missing: Mapping[str, Exception],
    failures: Mapping[str, str],
    figures: Mapping[str, str],
) -> str:
    """The report as Markdown.

    Parameters
    ----------
    missing
        Why a set could not be loaded.
    failures
        What a method said that failed on a set.
    figures
        Captions by file name.
    """
    counts = {len(scores) for where, scores in results.rows() if not SETS[where[1]].n_train}
    most = max(counts, default=0)
    lines = [
        "# The paper's experiments, repeated",
        "",
        "Written by `python -m benchmarks.paper` (`make paper`); every number of ours comes from "
        "[results.json](results.json), the paper's are copied from its tables.",
        "",
        f"Each mean ± standard deviation is of {most} random splits"
        + (f" (the paper: {REPETITIONS})" if most != REPETITIONS else " as in the paper")
        + "; MNIST has one fixed split. Accuracy of a 5-NN classifier in per cent. All methods see "
        "the same splits.",
        "",
        _about(results),
    ]
    if rows := unfinished(results, most):
        lines += ["**Unfinished**: these rows are missing or have fewer repetitions; the same "
                  f"command completes them. {'; '.join(rows)}.", ""]  # fmt: skip
    if missing:
        lines += ["**Missing sets**, their rows are left out:", ""]
        lines += [f"- {_without(name, error)}" for name, error in missing.items()] + [""]
    if failures:
        lines += ["**Failed**, their cells are left out:", ""]
        lines += [f"- {where}: {reason}" for where, reason in failures.items()] + [""]
    titles = {
        1: "Experiment 1: two and three dimensions",
        2: "Experiment 2: with Ritchie's supervised PCA",
        3: "Experiment 3: five to twenty dimensions",
        5: "Simulated curves",
    }
    lines += [SEPARATION]
    for experiment in compared():
        tables = {p: accuracy_table(results, experiment.number, p) for p in experiment.dimensions}
        if any(tables.values()):
            lines += [f"## {titles[experiment.number]}", ""]
            if experiment.number == 1:
                lines += [f"Bold: the best of all methods here, in one table or two. {MARK}: "
                          "further from the paper than two joint standard deviations.",
                          ""]  # fmt: skip
            if experiment.number == 5:
                lines += [CURVES]
        for p, rows in tables.items():
            if rows:
                lines += [f"Dimensions: {p}", "", *rows]
        if experiment.number == 1 and (one := results.accuracies(1, "arcene", "SLCE", 1)).size:
            paper = ACCURACIES[1, "arcene", "SLCE", 1]
            lines += [f"Arcene in SLCE's first component alone: {estimate(one)} "
                      f"(paper: {paper[0]:.2f} ± {paper[1]:.2f}).", ""]  # fmt: skip
        if experiment.left_out and any(tables.values()):
            names: dict[str, list[str]] = {}
            for method, name in sorted(experiment.left_out):
                names.setdefault(method, []).append(SETS[name].title)
            told = "; ".join(f"{m} on {', '.join(titles)}" for m, titles in names.items())
            lines += [f"Left out for the time it takes: {told}.", ""]
        if experiment.number == 3 and any(tables.values()):
            lines += ["The paper draws these accuracies and prints none; see the figure below. "
                      "Ritchie's methods are left out for the time they take.", ""]  # fmt: skip
            lines += claims(results)
    lines += ["## Systems of the paper's related work", "", *described_systems(results)]
    lines += ["## Where SLCE is not the best", "", *honest_check(results)]
    if separation := honest_check(results, "SLCE, separation"):
        lines += ["The same of *SLCE, separation*:", "", *separation]
    lines += ["## Where the numbers differ from the paper's", "", *differences(results)]
    lines += ["## Where the paper is unclear, or public data are not as it says", ""]
    lines += [*described_otherwise(), UNCLEAR, *other_readings(results)]
    lines += ["## Seconds", "",
              "Median of a repetition's fits and embeddings: time of the processor, one thread. "
              "Methods that choose something by cross-validation include that; those that "
              "are not nested are fitted for each number of dimensions. "
              + results.about.get("note", ""), "",
              *seconds_table(results)]  # fmt: skip
    lines += ["## Figures", ""]
    for file, caption in figures.items():
        lines += [f"![{file.removesuffix('.png')}]({file})", "", caption, ""]
    return "\n".join(lines).rstrip() + "\n"


def _without(name: str, error: Exception) -> str:
    # Not the message: it names places of the machine.
    data_set = SETS[name]
    if isinstance(error, MissingDataError):
        return f"{data_set.title}: no `{name}.npz`, and [its home]({data_set.home}) out of reach"
    return f"{data_set.title}: what is in the place of `{name}.npz` is not this set"


def _about(results: Results) -> str:
    if not results.about:
        return ""
    # Not the time that the run took: it may have been interrupted, or not been alone.
    minutes = sum(score.seconds for score in results.scores.values()) / 60
    return (
        f"Machine: {results.about['environment']}. Fits and embeddings took {minutes:.0f} minutes "
        "of processor time.\n"
    )
