"""Rates that tests and plots promise, on drawn data: ``python -m benchmarks.honesty``.

Rejections of true null hypotheses at 5 %, coverage of ellipses and accuracy with random labels,
from a thousand repetitions each; with ``--data FOLDER`` also held-out likelihoods of probabilities,
and the time of tests and folds relative to a fit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import slce_xp
from benchmarks.accuracy import load
from benchmarks.report import write_between_markers

LEVEL = 0.05
PERMUTATIONS = 199
# Sizes and spreads of classes whose means are the same.
NULLS = {
    "2 classes of 20, spreads 1:1": ((20, 20), (1.0, 1.0)),
    "30 and 8, 1:1": ((30, 8), (1.0, 1.0)),
    "30 and 8, 1:1.3": ((30, 8), (1.0, 1.3)),
    "30 and 8, 1:2": ((30, 8), (1.0, 2.0)),
    "30 and 8, 2:1": ((30, 8), (2.0, 1.0)),
    "30, 15 and 8, 1:1.5:2": ((30, 15, 8), (1.0, 1.5, 2.0)),
}
SHAPES = {"60 × 20": (60, 20), "60 × 500": (60, 500), "150 × 5": (150, 5)}
TIMED = ("tcga_luad", "colon", "yale", "har_meanstd66", "mnist", "arcene")
LIKELIHOODS = ("usps", "mnist", "har_meanstd66", "coil20")


def permanova(X: np.ndarray, y: np.ndarray, random: np.random.Generator) -> float:
    """The p-value of the plain test, whose statistic is tr(S_b)."""
    marks = np.equal.outer(np.unique(y), y) / np.sqrt(np.bincount(y))[:, None]
    X = X - X.mean(axis=0)
    found = [((marks @ X) ** 2).sum()]
    found += [((marks[:, random.permutation(len(y))] @ X) ** 2).sum() for _ in range(PERMUTATIONS)]
    return float(np.mean(np.array(found) >= found[0]))


def _slce(X: np.ndarray, y: np.ndarray, seed: int, **options: Any) -> slce_xp.PermutationTest:
    return slce_xp.permutation_test(X, y, PERMUTATIONS, random_state=seed, **options)


def rejections(repetitions: int) -> dict[str, dict[str, float]]:
    """The share of true null hypotheses that each test rejects at 5 %."""
    found: dict[str, dict[str, float]] = {}
    for name, (sizes, spreads) in NULLS.items():
        random = np.random.default_rng(0)
        y = np.repeat(np.arange(len(sizes)), sizes)
        p = []
        for seed in range(repetitions):
            X = random.normal(size=(len(y), 50)) * np.take(spreads, y)[:, None]
            tests = (_slce(X, y, seed), _slce(X, y, seed, statistic="adaptive"))
            p.append((permanova(X, y, random), *(test.p for test in tests)))
        shares = (np.array(p) <= LEVEL).mean(axis=0)
        found[name] = dict(zip(("tr(S_b)", "between", "adaptive"), map(float, shares), strict=True))
    return found


def grouped_rejections(repetitions: int) -> dict[str, float]:
    """The same for twelve subjects with fifteen rows each, permuted by row and by subject."""
    random, p = np.random.default_rng(0), []
    subject = np.repeat(np.arange(12), 15)
    y = subject % 2
    for seed in range(repetitions):
        X = random.normal(size=(12, 20))[subject] + random.normal(size=(180, 20))
        p.append([_slce(X, y, seed, groups=groups).p for groups in (None, subject)])
    shares = (np.array(p) <= LEVEL).mean(axis=0)
    return dict(zip(("rows", "subjects"), map(float, shares), strict=True))


def coverage(repetitions: int) -> dict[str, dict[str, float]]:
    """How often ellipses of 95 % contain the embedding of the mean of the population."""
    found = {}
    for name, (n, d) in SHAPES.items():
        random, hits = np.random.default_rng(0), []
        y = np.arange(n) % 3
        means = 3.0 * np.eye(3, d)
        for seed in range(repetitions):
            X = random.normal(size=(n, d)) + means[y]
            cross = slce_xp.cross_embed(X, y, random_state=seed)
            target = cross.model.transform(means)
            seen = cross.model.transform(X)
            inside = [
                np.linalg.norm(np.linalg.solve(e.axes.T, t - e.centre)) <= 1.0
                for e, t in zip(cross.ellipses, target, strict=True)
            ]
            fitted = [_covers(seen[y == j], target[j]) for j in range(3)]
            hits.append((np.mean(inside), np.mean(fitted)))
        shares = np.mean(hits, axis=0)
        found[name] = dict(zip(("out of fold", "of the fit"), map(float, shares), strict=True))
    return found


def _covers(points: np.ndarray, target: np.ndarray) -> bool:
    """Whether the ellipse of the mean of points contains a target."""
    n = len(points)
    distance = points.mean(axis=0) - target
    squared = n * distance @ np.linalg.solve(np.cov(points.T), distance)
    # As slce_xp does, with the 95 % quantile of F by its closed form for two dimensions.
    quantile = (n - 2) / 2 * (0.05 ** (-2 / (n - 2)) - 1)
    return bool(squared <= 2 * (n - 1) / (n - 2) * quantile)


def random_labels(repetitions: int) -> dict[str, float]:
    """Accuracy with labels that mean nothing, of 60 × 500 numbers in three classes."""
    random, found = np.random.default_rng(0), []
    y = np.repeat([0, 1, 2], 20)
    for seed in range(repetitions):
        X = random.normal(size=(60, 500))
        cross = slce_xp.cross_embed(X, y, random_state=seed)
        found.append((float((cross.model.predict(X) == y).mean()), cross.accuracy))
    return dict(zip(("of the fit", "out of fold"), map(float, np.mean(found, axis=0)), strict=True))


# ---------------------------------------------------------------- real data


def likelihoods(X: np.ndarray, y: np.ndarray, splits: int) -> dict[str, float]:
    """Negative log-likelihood per held-out sample of thirds, with and without a temperature."""
    codes = np.unique(y, return_inverse=True)[1]
    found: dict[str, list[float]] = {}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(codes))
        test, train = np.split(order, [len(order) // 3])
        for criterion in ("centroid", "separation"):
            for calibrate in (False, True):
                model = slce_xp.fit(
                    X[train], codes[train], criterion=criterion, calibrate=calibrate
                )
                shares = model.predict_proba(X[test])[np.arange(len(test)), codes[test]]
                loss = -np.log(np.maximum(shares, 1e-300)).mean()
                name = f"{criterion}, {'calibrated' if calibrate else 'not'}"
                found.setdefault(name, []).append(float(loss))
    return {name: float(np.mean(losses)) for name, losses in found.items()}


def gaussian(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Five Gaussian classes of one covariance."""
    random = np.random.default_rng(seed)
    y = np.arange(1500) % 5
    means = 1.5 * random.normal(size=(5, 10))
    return random.normal(size=(1500, 10)) + means[y], y


def ratios(X: np.ndarray, y: np.ndarray, repetitions: int = 5) -> dict[str, float]:
    """Processor time of 999 permutations and of ten folds, relative to a fit."""
    k = min(2, len(np.unique(y)) - 1)
    calls: dict[str, Callable[[], Any]] = {
        "fit": lambda: slce_xp.fit(X, y, k),
        "folds": lambda: slce_xp.cross_embed(X, y),
        "permutations": lambda: slce_xp.permutation_test(X, y),
    }
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for repetition in range(repetitions + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if repetition:  # the first one imports
                spent[name].append(time.process_time() - start)
    medians = {name: float(np.median(times)) for name, times in spent.items()}
    return {name: medians[name] / medians["fit"] for name in ("folds", "permutations")}


# ---------------------------------------------------------------- tables


def tables(report: dict[str, Any]) -> str:
    """The results in Markdown."""
    lines = ["| true null hypothesis | tr(S_b) | between | adaptive |", "|---|---|---|---|"]
    for name, found in report["rejections"].items():
        lines.append(f"| {name} | " + " | ".join(f"{p:.3f}" for p in found.values()) + " |")
    rows, subjects = report["grouped"].values()
    lines += ["", "| 12 subjects × 15 rows, permuted by | rejected |", "|---|---|"]
    lines += [f"| row | {rows:.3f} |", f"| subject (`groups`) | {subjects:.3f} |"]
    lines += ["", "| ellipses of 95 % | out of fold | samples of the fit |", "|---|---|---|"]
    for name, found in report["coverage"].items():
        lines.append(f"| {name} | {found['out of fold']:.2f} | {found['of the fit']:.2f} |")
    found = report["random"]
    lines += ["", "| random labels, 60 × 500, 3 classes | accuracy |", "|---|---|"]
    lines += [f"| {name} | {100 * share:.1f} % |" for name, share in found.items()]
    if "likelihoods" in report:
        names = list(next(iter(report["likelihoods"].values())))
        lines += ["", f"| held-out −log p | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
        for name, found in report["likelihoods"].items():
            lines.append(f"| {name} | " + " | ".join(f"{found[n]:.3f}" for n in names) + " |")
    if "ratios" in report:
        lines += ["", "| time, in fits | ten folds | 999 permutations |", "|---|---|---|"]
        for name, found in report["ratios"].items():
            lines.append(f"| {name} | {found['folds']:.1f} | {found['permutations']:.1f} |")
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> str:
    """Run what was asked for, print the tables and return them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.honesty", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--data", type=Path, default=os.environ.get("SLCE_XP_DATA"),
                        help="folder of .npz files (default: $SLCE_XP_DATA)")  # fmt: skip
    parser.add_argument("--parts", nargs="+", choices=[*DRAWN, *REAL],
                        help="measure these anew, and keep the others")  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"),
                        help="folder for honesty.json (%(default)s)")  # fmt: skip
    parser.add_argument("--write", type=Path, help="Markdown file whose tables to write anew")
    parser.add_argument("--redraw", action="store_true",
                        help="only the tables, from the results in --output")  # fmt: skip
    options = parser.parse_args(given)
    target = options.output / "honesty.json"
    if options.redraw:
        report = json.loads(target.read_text(encoding="utf-8"))
    else:
        parts = options.parts or [*DRAWN, *REAL]
        report = json.loads(target.read_text(encoding="utf-8")) if options.parts else {}
        report = _measured(report, parts, options.repetitions, options.data)
        options.output.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    text = tables(report)
    print(text)
    if options.write:
        write_between_markers(options.write, "honesty", text)
    return text


def _measured(
    report: dict[str, Any], parts: Sequence[str], repetitions: int, folder: Path | None
) -> dict[str, Any]:
    warnings.simplefilter("ignore")  # of spreads that differ, and of components of noise
    for name in parts:
        if name in DRAWN:
            report[name] = DRAWN[name](repetitions)
        elif folder is not None:
            report[name] = REAL[name](folder)
        print(f"{name}: {report.get(name)}", file=sys.stderr, flush=True)
    return report


def _likelihoods(folder: Path) -> dict[str, dict[str, float]]:
    found = {"Gaussian, 1500 × 10": likelihoods(*gaussian(), 5)}
    for name in LIKELIHOODS:
        found[name] = likelihoods(*load(folder / f"{name}.npz"), 3)
    return found


def _ratios(folder: Path) -> dict[str, dict[str, float]]:
    return {name: ratios(*load(folder / f"{name}.npz")) for name in TIMED}


DRAWN = {
    "rejections": rejections,
    "grouped": grouped_rejections,
    "coverage": coverage,
    "random": random_labels,
}
REAL = {"likelihoods": _likelihoods, "ratios": _ratios}


if __name__ == "__main__":
    main()
