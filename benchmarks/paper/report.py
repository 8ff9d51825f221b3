"""The report: the paper's tables beside ours, where they differ, and where SLCE is not the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import DATA_SETS, MissingDataError
from benchmarks.paper.protocol import EXPERIMENTS, REPETITIONS, Results, dimensions
from benchmarks.paper.published import ACCURACIES, DESCRIPTIONS

MARK = "≠"
NONLINEAR = "Centroid-Encoder"


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


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a Markdown table, and an empty one."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def accuracy_table(results: Results, number: int, p: int) -> list[str]:
    """An experiment in p dimensions: for each set a row of ours and one of the paper's."""
    experiment = EXPERIMENTS[number - 1]
    found = {
        (name, method): (ours, paper)
        for n, name, method, q, ours, paper in comparisons(results)
        if (n, q) == (number, p)
    }
    methods = [m for m in experiment.methods if any(key[1] == m for key in found)]
    rows = []
    for name in experiment.sets:
        means = {m: round(found[name, m][0].mean, 2) for m in methods if (name, m) in found}
        if not means:
            continue
        ours, papers = [], []
        for method in methods:
            here, paper = found.get((name, method), (None, None))
            text = str(here) if here else "–"
            text = f"**{text}**" if here and means[method] == max(means.values()) else text
            ours.append(f"{text} {MARK}" if here and paper and differs(here, paper) else text)
            papers.append(f"{paper[0]:.2f} ± {paper[1]:.2f}" if paper else "–")
        rows.append([DATA_SETS[name].title, "here", *ours])
        if any(text != "–" for text in papers):
            rows.append(["", "paper", *papers])
    if not rows:
        return []
    return table(["set", "", *methods], rows)


def seconds_table(results: Results) -> list[str]:
    """Median seconds of a repetition's fits and embeddings."""
    medians = {
        where: float(np.median([score.seconds for score in scores.values()]))
        for where, scores in results.rows()
    }
    methods = list(dict.fromkeys(m for e in EXPERIMENTS[:3] for m in e.methods))
    methods = [m for m in methods if any(where[2] == m for where in medians)]
    rows = []
    for experiment in EXPERIMENTS[:3]:
        for name in experiment.sets:
            mine = {m: medians.get((experiment.number, name, m)) for m in methods}
            if any(mine.values()):
                cells = [f"{s:.2g}" if s is not None else "–" for s in mine.values()]
                rows.append([str(experiment.number), DATA_SETS[name].title, *cells])
    return table(["experiment", "set", *methods], rows)


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
            [str(number), DATA_SETS[name].title, method, str(p), str(ours),
             f"{paper[0]:.2f} ± {paper[1]:.2f}", signed(ours.mean - paper[0])]
            for number, name, method, p, ours, paper in apart
        ),
    )  # fmt: skip


class Rivalry(NamedTuple):
    """SLCE against others in the same repetitions."""

    experiment: int
    set: str
    dimensions: int
    slce: Estimate
    best: str  # of the linear methods
    ahead: Estimate  # of that
    ahead_of_nonlinear: Estimate | None


def rivalries(results: Results) -> Iterator[Rivalry]:
    """SLCE against the best other linear method, and against the nonlinear one."""
    for experiment in EXPERIMENTS[:3]:
        for name in experiment.sets:
            for p in experiment.dimensions:
                accuracy = {
                    m: results.accuracies(experiment.number, name, m, p) for m in experiment.methods
                }
                ours = accuracy.pop("SLCE")
                others = {m: a for m, a in accuracy.items() if a.size == ours.size > 0}
                nonlinear = others.pop(NONLINEAR, None)
                if others:
                    best = max(others, key=lambda m: others[m].mean())
                    yield Rivalry(
                        experiment.number, name, p, estimate(ours), best,
                        estimate(ours - others[best]),
                        None if nonlinear is None else estimate(ours - nonlinear),
                    )  # fmt: skip


def honest_check(results: Results) -> list[str]:
    """For which sets SLCE is not the best, and by how much."""
    rows = list(rivalries(results))
    if not rows:
        return []
    behind = [row for row in rows if row.ahead.mean < 0]
    sets = dict.fromkeys(DATA_SETS[row.set].title for row in behind)
    lines = [
        f"Another linear method has the higher mean in {len(behind)} of {len(rows)} comparisons"
        + (f", on {', '.join(sets)}" if behind else "")
        + ". *Ahead* is the mean difference in the same splits ± its standard deviation; bold: "
        "behind. Splits of one set overlap, and the best of several others is chosen after the "
        "fact, so this is no significance test.",
        "",
    ]

    def told(ahead: Estimate | None) -> str:
        if ahead is None:
            return "–"
        text = signed(ahead.mean) + (f" ± {ahead.deviation:.2f}" if ahead.n > 1 else "")
        return f"**{text}**" if ahead.mean < 0 else text

    return lines + table(
        ["experiment", "set", "dimensions", "SLCE", "best other linear method", "SLCE ahead by",
         f"ahead of {NONLINEAR}"],
        (
            [str(row.experiment), DATA_SETS[row.set].title, str(row.dimensions), str(row.slce),
             row.best, told(row.ahead), told(row.ahead_of_nonlinear)]
            for row in rows
        ),
    )  # fmt: skip


def claims(results: Results) -> list[str]:
    """What the paper's text says of Experiment 3, whose numbers it only draws."""
    experiment = EXPERIMENTS[2]

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
        + (f" ({', '.join(DATA_SETS[name].title for name in pca)})." if pca else ".")
    )
    if "yale" in done:
        gain = mean("yale", "SLCE", 20) - mean("yale", "SLCE", 15)
        lines.append(
            '- "SLCE didn\'t improve the accuracy on Yaleface from embedding dimensions 15 to 20": '
            f"here it changes by {signed(gain)}."
        )
    return [*lines, ""]


def described_otherwise() -> list[str]:
    """Sets whose public copy is not what the paper describes."""
    rows = []
    for name, (n, d, classes) in DESCRIPTIONS.items():
        data_set = DATA_SETS[name]
        here = (*data_set.shape, len(data_set.counts))
        if here != (n, d, classes):
            rows.append(
                [data_set.title, f"{n} × {d}, {classes}", f"{here[0]} × {here[1]}, {here[2]}"]
            )
    return table(["set", "the paper: samples × features, classes", "the public copy"], rows)


def other_readings(results: Results) -> list[str]:
    """Means of other readings of a method beside the paper's and ours."""
    lines = []
    for method in ("LDA", "Bair's SPCA"):
        readings = [m for e in EXPERIMENTS[3:] for m in e.methods if m.startswith(method)]
        rows = []
        for experiment in EXPERIMENTS[3:]:
            for name in experiment.sets:
                for p in experiment.dimensions:
                    found = [estimate(results.accuracies(1, name, method, p))]
                    found += [estimate(results.accuracies(4, name, m, p)) for m in readings]
                    paper = ACCURACIES[1, name, method, p]
                    cells = [
                        "–" if e is None else str(e) if differs(e, paper) else f"**{e}**"
                        for e in found
                    ]
                    if any(found[1:]):
                        rows.append([DATA_SETS[name].title, str(p),
                                     f"{paper[0]:.2f} ± {paper[1]:.2f}", *cells])  # fmt: skip
        if rows:
            lines += [f"{method}, read in other ways (bold: agrees with the paper):", ""]
            lines += table(["set", "dimensions", "paper", "as above", *readings], rows)
    return lines


UNCLEAR = """\
- **Arcene**: 900 counts the 700 samples of its test part, whose labels are not public. The parts
  for training and validation have 200, all of which are used here.
- **Olivetti** has 40 subjects with ten faces each.
- **Ionosphere** and **Mice Protein**: no public copy has the paper's number of samples. Mice
  Protein has missing values, which the paper does not mention; 552 rows have none, so 975 is not
  what remains when the others are dropped. Here every missing value becomes its feature's mean,
  taken over the whole set.
- **Mice Protein** has 15 measurements of each mouse, and random splits put some of them on both
  sides. Accuracies on it, the paper's and ours, do not say how well a new mouse is classified.
- **Human Activity**: the public set has 10 299 samples; which 5744 the paper uses is not said.
- **Preparation**: the paper mentions none. Features are used as they come, neither scaled nor
  standardised; so much agrees with the paper on MNIST to the last digit.
- **Ritchie's methods** (LRPCA, LSPCA) standardise features, as published code of theirs does; all
  others get them raw. On features of unlike spread part of a difference may come from that alone.
- **Splits**: random, not stratified; the paper does not say.
- **Beyond the positive eigenvalues**: a set of two classes gives SLCE one positive eigenvalue. Its
  second and third component are then directions in which the training data do not vary (d ≥ n), or
  that raise the cost (d < n); the paper classifies in them nevertheless, and so do we.
- **LDA** here is scikit-learn's `LinearDiscriminantAnalysis`; the paper does not say which it uses.
  Below are four other readings: directions of length one, S_w with a ridge of 10 or 100 times its
  mean eigenvalue (towards S_b alone), and LDA after PCA to ten dimensions.
- **Bair's SPCA** here chooses its threshold by the 5-NN accuracy of held-out training samples, and
  scores features by one class against the rest. The paper does not say how it does either. Below,
  a fixed share of the features is kept: all of them would be PCA.
- **LRPCA**: the paper copies the numbers of Ritchie et al. (2020), from other splits than its own
  and judged in their manner; here it is fitted anew and judged as all others.
"""


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
    counts = {len(scores) for where, scores in results.rows() if not DATA_SETS[where[1]].n_train}
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
        _about(results.about),
    ]
    if len(counts) > 1:
        lines += [f"**Unfinished**: some rows have only {min(counts)} repetitions.", ""]
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
    }
    for experiment in EXPERIMENTS[:3]:
        tables = {p: accuracy_table(results, experiment.number, p) for p in experiment.dimensions}
        if any(tables.values()):
            lines += [f"## {titles[experiment.number]}", ""]
            if experiment.number == 1:
                lines += [f"Bold: the best here. {MARK}: further from the paper than two joint "
                          "standard deviations.", ""]  # fmt: skip
        for p, rows in tables.items():
            if rows:
                lines += [f"Dimensions: {p}", "", *rows]
        if experiment.number == 1 and (one := results.accuracies(1, "arcene", "SLCE", 1)).size:
            paper = ACCURACIES[1, "arcene", "SLCE", 1]
            lines += [f"Arcene in SLCE's first component alone: {estimate(one)} "
                      f"(paper: {paper[0]:.2f} ± {paper[1]:.2f}).", ""]  # fmt: skip
        if experiment.left_out and any(tables.values()):
            names = ", ".join(
                f"{m} on {DATA_SETS[s].title}" for m, s in sorted(experiment.left_out)
            )
            lines += [f"Left out for the time it takes: {names}.", ""]
        if experiment.number == 3 and any(tables.values()):
            lines += ["The paper draws these accuracies and prints none; see the figure below. "
                      "Ritchie's methods are left out for the time they take.", ""]  # fmt: skip
            lines += claims(results)
    lines += ["## Where SLCE is not the best", "", *honest_check(results)]
    lines += ["## Where the numbers differ from the paper's", "", *differences(results)]
    lines += ["## Where the paper is unclear, or public data are not as it says", ""]
    lines += [*described_otherwise(), UNCLEAR, *other_readings(results)]
    lines += ["## Seconds", "",
              "Median of a repetition's fits and embeddings, one thread each. "
              "Methods that choose something by cross-validation include that; those that "
              "are not nested are fitted for each number of dimensions.", "",
              *seconds_table(results)]  # fmt: skip
    lines += ["## Figures", ""]
    for file, caption in figures.items():
        lines += [f"![{file.removesuffix('.png')}]({file})", "", caption, ""]
    return "\n".join(lines).rstrip() + "\n"


def _without(name: str, error: Exception) -> str:
    # Not the message: it names places of the machine.
    data_set = DATA_SETS[name]
    if isinstance(error, MissingDataError):
        return f"{data_set.title}: no `{name}.npz`, and [its home]({data_set.home}) out of reach"
    return f"{data_set.title}: what is in the place of `{name}.npz` is not this set"


def _about(about: Mapping[str, Any]) -> str:
    if not about:
        return ""
    minutes = about["seconds"] / 60
    return f"Machine: {about['environment']}. The run took {minutes:.0f} minutes in all.\n"
