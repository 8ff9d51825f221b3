"""What `tol` changes: embeddings and accuracies of iterations, on problems drawn at random.

    python -m benchmarks.tolerance --count 60

Half of the samples of each problem are fitted with each `tol`, the others are embedded and
classified by their five nearest neighbours among the first half. Embeddings are compared with those
of an iteration at `EXACT`: the difference after the best rotation, relative to their size.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.neighbors import KNeighborsClassifier

import slce_xp
from benchmarks.drawn import Drawn, draw

TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)
EXACT = 1e-9
MOST_WORK = 3e10  # of a problem: seconds each
NEIGHBOURS = 5


def outcomes(drawn: Drawn) -> Iterator[tuple[float, dict[str, float]]]:
    """What a problem yields with each `tol`: passes, difference of embeddings, 5-NN accuracy."""
    X, y = drawn.data()
    halves = np.arange(len(y)) % 4 < 2  # classes take turns in drawn problems
    train, test = np.flatnonzero(halves), np.flatnonzero(~halves)

    def embedded(tol: float) -> tuple[Any, np.ndarray, float]:
        model = slce_xp.fit(X[train], y[train], solver="krylov", tol=tol, max_iter=200)
        classifier = KNeighborsClassifier(NEIGHBOURS).fit(model.transform(X[train]), y[train])
        Z = model.transform(X[test])
        return model, Z, float(classifier.score(Z, y[test]))

    _, reference, accuracy = embedded(EXACT)
    for tol in TOLERANCES:
        model, Z, found = embedded(tol)
        rotation, _ = orthogonal_procrustes(Z, reference)
        size = np.linalg.norm(reference)
        yield (
            tol,
            {
                "passes": model.passes,
                "difference": float(np.linalg.norm(Z @ rotation - reference) / size),
                "accuracy": found - accuracy,
            },
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each `tol`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="drawn problems (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (%(default)s)")
    options = parser.parse_args(arguments)
    found: dict[float, list[dict[str, float]]] = {tol: [] for tol in TOLERANCES}
    warnings.simplefilter("ignore", UserWarning)
    for drawn in draw(options.count, options.seed, MOST_WORK):
        for tol, outcome in outcomes(drawn):
            found[tol].append(outcome)
    print("| tol | passes | difference of embeddings | largest | 5-NN accuracy | least, most |")
    print("|---|---|---|---|---|---|")
    for tol, rows in found.items():
        columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        points, differences = 100 * columns["accuracy"], columns["difference"]
        print(
            f"| {tol:.0e} | {np.mean(columns['passes']):.1f} | {np.median(differences):.0e} | "
            f"{differences.max():.0e} | {points.mean():+.2f} ± "
            f"{points.std() / np.sqrt(len(points)):.2f} | "
            f"{points.min():+.1f}, {points.max():+.1f} |"
        )


if __name__ == "__main__":
    main()
