"""Accuracy of all linear methods: ``python -m benchmarks.accuracy --data FOLDER``.

The paper's protocol on sets that nothing here was developed on: every .npz file of the folder with
``X`` (n, d) and ``y`` (n,) is split at random, each method is fitted to the training part, and 5
nearest neighbours classify the testing part in the embedding. All methods see the same splits.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.paper.protocol import NEIGHBOURS
from benchmarks.peers import METHODS

TEST_SHARE = 0.2
NOT_LINEAR = {"Centroid-Encoder"}
SEPARATION = "SLCE, separation"

LINEAR = {name: make for name, make in METHODS.items() if name not in NOT_LINEAR}


def load(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """X as float64, shape (n, d), and y, shape (n,), of an .npz file."""
    with np.load(path, allow_pickle=False) as file:
        missing = {"X", "y"} - set(file.files)
        if missing:
            raise ValueError(f"{path} must have arrays X and y; it has {', '.join(file.files)}")
        X, y = np.asarray(file["X"], dtype=np.float64), file["y"]
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"{path}: X must be (n, d) and y (n,); got {X.shape} and {y.shape}")
    return X, y


def accuracy(
    make: Callable[[int, int], Any], X: np.ndarray, y: np.ndarray, p: int, repetition: int
) -> float:
    """Per cent of the testing part that is classified rightly, in p dimensions."""
    order = np.random.default_rng(repetition).permutation(len(y))
    n_test = round(TEST_SHARE * len(y))
    test, train = order[:n_test], order[n_test:]
    seen, unseen = X[train], X[test]
    # Missing values become the means of the training part.
    means = np.nan_to_num(np.nanmean(seen, axis=0))
    seen, unseen = (np.where(np.isnan(part), means, part) for part in (seen, unseen))
    model = make(p, repetition).fit(seen, y[train])
    neighbours = KNeighborsClassifier(NEIGHBOURS).fit(model.transform(seen), y[train])
    return 100.0 * float(np.mean(neighbours.predict(model.transform(unseen)) == y[test]))


def table(rows: dict[tuple[str, int], dict[str, list[float]]], methods: Sequence[str]) -> str:
    """The means and standard deviations in Markdown, the best in bold, and who is ahead."""
    lines = [f"| set | p | {' | '.join(methods)} |", "|---" * (len(methods) + 2) + "|"]
    ahead = compared = 0
    for (name, p), scores in rows.items():
        best = max(scores, key=lambda method: float(np.mean(scores[method])))
        cells = []
        for method in methods:
            if method not in scores:
                cells.append("–")
                continue
            text = f"{np.mean(scores[method]):.1f} ± {np.std(scores[method]):.1f}"
            cells.append(f"**{text}**" if method == best else text)
        lines.append(f"| {name} | {p} | {' | '.join(cells)} |")
        others = {m: s for m, s in scores.items() if m not in (SEPARATION, "SLCE")}
        if SEPARATION in scores and others:
            rival = max(others.values(), key=lambda found: float(np.mean(found)))
            difference = np.asarray(scores[SEPARATION]) - rival
            error = difference.std(ddof=1) / len(difference) ** 0.5 if len(difference) > 1 else 0.0
            compared += 1
            ahead += bool(difference.mean() >= -error)
    if compared:
        lines += ["", f"{SEPARATION}: ahead of the best other method, or level with it to one "
                  f"standard error, in {ahead} of {compared} comparisons."]  # fmt: skip
    return "\n".join(lines) + "\n"


def main(given: Sequence[str] | None = None) -> str:
    """Run what was asked for, print the table and return it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("SLCE_XP_DATA"), required=(
        "SLCE_XP_DATA" not in os.environ), help="folder of .npz files with X and y")  # fmt: skip
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2, 3, 5, 10], metavar="P")
    parser.add_argument("--repetitions", type=int, default=25)
    parser.add_argument("--methods", nargs="+", choices=list(LINEAR), default=list(LINEAR),
                        metavar="METHOD", help=f"only these of {', '.join(LINEAR)}")  # fmt: skip
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    options = parser.parse_args(given)
    paths = sorted(Path(options.data).glob("*.npz"))
    if not paths:
        parser.error(f"--data must name a folder with .npz files; {options.data} has none")
    rows: dict[tuple[str, int], dict[str, list[float]]] = {}
    for path in paths:
        X, y = load(path)
        for p in sorted({min(p, X.shape[1]) for p in options.dimensions}):
            scores = rows.setdefault((path.stem, p), {})
            for method in options.methods:
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # more components than lower the loss
                        found = [
                            accuracy(LINEAR[method], X, y, p, r) for r in range(options.repetitions)
                        ]
                except Exception as error:  # the others go on
                    print(f"left out: {path.stem}, p = {p}, {method}: {error}", file=sys.stderr)
                    continue
                scores[method] = found
                print(f"{path.stem}, p = {p}, {method}: {np.mean(found):.1f}", file=sys.stderr)
    text = table(rows, options.methods)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    print(text)
    return text


if __name__ == "__main__":
    main()
