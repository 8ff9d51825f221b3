"""The experiments: what is fitted to what, how often, and the file that keeps every result.

A *cell* is one repetition of one method on one set of one experiment: a split, a fit on its
training part, the embedding of both parts and the accuracy of a 5-NN classifier on it. All
methods see the same splits. Cells are kept as they are done, so a run that is interrupted goes on
where it was.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import time
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from benchmarks import datasets
from benchmarks.datasets import DATA_SETS, DataSet, MissingDataError, split
from benchmarks.paper.curves import SIMULATED

REPETITIONS = 25
NEIGHBOURS = 5

# Methods whose leading columns are the answer for fewer dimensions: one fit serves all.
NESTED = {"SLCE", "PCA", "LDA", "LDA, shrinkage", "HSIC SPCA", "ISPC"}
# Public data sets and simulated ones, by name.
SETS: Mapping[str, DataSet] = ChainMap(DATA_SETS, SIMULATED)


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments, or one like them."""

    number: int
    sets: tuple[str, ...]
    dimensions: tuple[int, ...]
    methods: tuple[str, ...]  # those of the paper, then those that it leaves out
    left_out: frozenset[tuple[str, str]] = frozenset()  # (method, set) that take too long


OURS = ("SLCE", "SLCE, separation")
_RITCHIE = ("LRPCA (CV)", "LRPCA (MLE)", "LSPCA (CV)", "LSPCA (MLE)")
# Methods that the paper describes and does not run.
_DESCRIBED = ("ISPC", "SPPCA", "SupSVD")
_PLAIN = ("LDA", "LDA, shrinkage", "PCA", "HSIC SPCA", "Bair's SPCA")
EXPERIMENTS = (
    Experiment(
        1,
        ("usps", "mnist", "activity", "har_meanstd66", "mice_protein", "arcene", "pancan"),
        (2, 3),
        (*OURS, *_PLAIN, "NCA", "Centroid-Encoder", *_DESCRIBED, *_RITCHIE),
        frozenset({
            *(("LRPCA (CV)", name) for name in ("har_meanstd66", "activity")),
            # Their time grows as d³ and as n².
            *(("LDA, shrinkage", name) for name in ("arcene", "pancan")),
            *(("NCA", name) for name in ("usps", "mnist", "har_meanstd66", "activity")),
            ("ISPC", "mnist"),
        }),
    ),
    Experiment(
        2,
        ("colon", "ionosphere", "arcene"),
        (2,),
        (*OURS, *_RITCHIE, *_DESCRIBED, *_PLAIN, "NCA", "Centroid-Encoder"),
        frozenset({("LDA, shrinkage", "arcene")}),
    ),
    Experiment(
        3,
        ("olivetti", "yale", "coil20"),
        (5, 10, 15, 20),
        # Without Ritchie's methods, the slowest by far in many dimensions.
        (*OURS, *_PLAIN, *_DESCRIBED, "NCA", "Centroid-Encoder"),
        # ISPC: 10 seconds and more for 20 components, in each of 25 repetitions.
        frozenset({("LDA, shrinkage", "olivetti"), ("ISPC", "olivetti"), ("ISPC", "coil20")}),
    ),
    # Not the paper's: other readings of two methods whose numbers it does not share with us.
    Experiment(
        4,
        ("usps", "mnist", "mice_protein"),
        (2, 3),
        ("LDA, unit length", "LDA, ridge 10", "LDA, ridge 100", "LDA after PCA to 10",
         "Bair's SPCA, 90 % kept", "Bair's SPCA, 60 % kept"),
    ),
    # Not the paper's: SFPCA, which it describes, is for curves.
    Experiment(
        5,
        tuple(SIMULATED),
        (2, 3),
        (*OURS, "SFPCA", *_PLAIN, *_DESCRIBED, "NCA"),  # linear ones only
    ),
)  # fmt: skip
QUICK_REPETITIONS = 3
QUICK_SETS = ("mice_protein", "arcene", "colon", "ionosphere", "yale", *SIMULATED)
# The paper's text also has Arcene in the first component of SLCE alone.
FURTHER_DIMENSIONS = {(1, "arcene", "SLCE"): (1,)}

Methods = Mapping[str, Callable[[int, int], Any]]


class Cell(NamedTuple):
    """One repetition of one method on one set of one experiment."""

    experiment: int
    set: str
    method: str
    repetition: int


class Score(NamedTuple):
    """What came out of a cell."""

    accuracy: tuple[float, ...]  # per cent, by number of dimensions
    seconds: float  # of the processor, for all fits and embeddings


def dimensions(experiment: int, name: str, method: str) -> tuple[int, ...]:
    """The numbers of dimensions that a cell asks for, ascending."""
    further = FURTHER_DIMENSIONS.get((experiment, name, method), ())
    return tuple(sorted({*EXPERIMENTS[experiment - 1].dimensions, *further}))


def plan(
    methods: Iterable[str], sets: Iterable[str] | None = None, repetitions: int = REPETITIONS
) -> list[Cell]:
    """All cells of a full run, or of some methods, sets and repetitions, set by set."""
    known, wanted = set(methods), None if sets is None else set(sets)
    return [
        Cell(experiment.number, name, method, repetition)
        for experiment in EXPERIMENTS
        for name in experiment.sets
        if wanted is None or name in wanted
        for method in experiment.methods
        if method in known and (method, name) not in experiment.left_out
        # A fixed split gives the same answer each time.
        for repetition in range(1 if SETS[name].n_train else repetitions)
    ]


# ---------------------------------------------------------------- one cell


def run_cell(cell: Cell, X: np.ndarray, y: np.ndarray, methods: Methods) -> Score:
    """Fit on the training part, classify the testing part in the embedding.

    Parameters
    ----------
    X, y
        The whole set, shapes (n, d) and (n,).
    """
    train, test = split(SETS[cell.set], [cell.experiment, cell.repetition])
    X_train, X_test, y_train = X[train], X[test], y[train]
    wanted = dimensions(cell.experiment, cell.set, cell.method)
    nested = cell.method in NESTED
    accuracy, seconds = [], 0.0
    for p in wanted:
        if not nested or p == wanted[0]:
            # Not the clock's: other processes may run, and each cell has one thread.
            start = time.process_time()
            model = methods[cell.method](wanted[-1] if nested else p, cell.repetition)
            with warnings.catch_warnings():
                # Collinear features, and more components than lower the loss: known of these
                # sets and dimensions, and the same in every cell.
                warnings.filterwarnings("ignore", message="Variables are collinear")
                warnings.filterwarnings("ignore", message="n_components=")
                model.fit(X_train, y_train)
            embedded, embedded_test = model.transform(X_train), model.transform(X_test)
            seconds += time.process_time() - start
        classifier = KNeighborsClassifier(NEIGHBOURS).fit(embedded[:, :p], y_train)
        right = classifier.predict(embedded_test[:, :p]) == y[test]
        accuracy.append(100.0 * float(np.mean(right)))
    return Score(tuple(accuracy), seconds)


# ---------------------------------------------------------------- the results


class Results:
    """Scores by cell, in a JSON file that is written anew after each, whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.scores: dict[Cell, Score] = {}
        self.about: dict[str, Any] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            self.about = kept["about"]
            for row in kept["cells"]:
                where = row["experiment"], row["set"], row["method"]
                if row["dimensions"] != list(dimensions(*where)):
                    continue  # of another protocol: done anew
                for r, accuracy, seconds in zip(
                    row["repetitions"], row["accuracy"], row["seconds"], strict=True
                ):
                    self.scores[Cell(*where, r)] = Score(tuple(accuracy), seconds)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{self.path}: must be results of this program, is not ({error!r}); "
                "move it away to begin anew, or give another --output"
            ) from None

    def rows(self) -> Iterator[tuple[tuple[int, str, str], dict[int, Score]]]:
        """For each experiment, set and method, in the order of the plan: scores by repetition."""
        groups: dict[tuple[int, str, str], dict[int, Score]] = {}
        for cell in sorted(self.scores, key=_place):
            groups.setdefault(cell[:3], {})[cell.repetition] = self.scores[cell]
        yield from groups.items()

    def accuracies(self, experiment: int, name: str, method: str, p: int) -> np.ndarray:
        """Accuracies in p dimensions, shape (repetitions done,), in their order."""
        wanted = dimensions(experiment, name, method)
        if p not in wanted:
            return np.empty(0)
        place = wanted.index(p)
        done = {
            c.repetition: s for c, s in self.scores.items() if c[:3] == (experiment, name, method)
        }
        return np.array([done[r].accuracy[place] for r in sorted(done)])

    def keep(self, cell: Cell, score: Score) -> None:
        """Enter a score, as it is written: a report of the file says the same; write the file."""
        accuracy = tuple(round(a, 3) for a in score.accuracy)
        self.scores[cell] = Score(accuracy, float(f"{score.seconds:.3g}"))
        self.save()

    def save(self) -> None:
        """Write the file: a line for each experiment, set and method."""
        lines = [
            json.dumps(
                {
                    "experiment": where[0],
                    "set": where[1],
                    "method": where[2],
                    "dimensions": dimensions(*where),
                    "repetitions": list(scores),
                    "accuracy": [s.accuracy for s in scores.values()],
                    "seconds": [s.seconds for s in scores.values()],
                }
            )
            for where, scores in self.rows()
        ]
        about = json.dumps(self.about)
        text = f'{{"about": {about},\n"cells": [\n' + ",\n".join(lines) + "\n]}\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.path)


def _place(cell: Cell) -> tuple[int, int, int, int]:
    experiment = EXPERIMENTS[cell.experiment - 1]
    sets, methods = experiment.sets, experiment.methods
    return cell.experiment, sets.index(cell.set), methods.index(cell.method), cell.repetition


# ---------------------------------------------------------------- running


def load(name: str, folder: Path | None, download: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """X, shape (n, d), and y, shape (n,), of a public set or a simulated one."""
    if name in SIMULATED:
        return SIMULATED[name].parse()
    return datasets.load(name, folder, download)


def available(
    sets: Iterable[str], folder: Path | None
) -> tuple[list[str], dict[str, MissingDataError | ValueError]]:
    """Names of sets that can be loaded, and what is said of each that cannot."""
    found, missing = [], {}
    for name in sets:
        try:
            load(name, folder)
            found.append(name)
        except (MissingDataError, ValueError) as error:
            missing[name] = error
    return found, missing


@functools.lru_cache(maxsize=1)  # cells come set by set
def _loaded(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    return load(name, folder, download=False)


def all_methods() -> Methods:
    """Those of the tables and the other readings of some of them."""
    # Imported late: they take Torch with them.
    from benchmarks.paper.alternatives import ALTERNATIVES
    from benchmarks.peers import CURVE_METHODS, METHODS

    return {**METHODS, **CURVE_METHODS, **ALTERNATIVES}


def _work(cell: Cell, folder: Path | None) -> Score:
    """One cell in a process of its own, with the methods of this package."""
    return run_cell(cell, *_loaded(cell.set, folder), all_methods())


def run(
    cells: Sequence[Cell],
    results: Results,
    folder: Path | None = None,
    workers: int = 2,
    methods: Methods | None = None,
) -> Iterator[tuple[Cell, Score | Exception]]:
    """Do the cells that are not done yet, keep each result and give it out as it comes.

    A method that fails on a set is given out as its exception; the others go on.

    Parameters
    ----------
    workers
        Processes, each with one thread: small problems gain nothing by more threads.
    methods
        Run in this process with these, instead of in others with ``benchmarks.peers``.
    """
    to_do = [cell for cell in cells if cell not in results.scores]
    if methods is not None:
        outcomes = _here(to_do, folder, methods)
    else:
        outcomes = _in_processes(to_do, folder, workers)
    for cell, outcome in outcomes:
        if isinstance(outcome, Score):
            results.keep(cell, outcome)
        yield cell, outcome


def _here(
    cells: Sequence[Cell], folder: Path | None, methods: Methods
) -> Iterator[tuple[Cell, Score | Exception]]:
    for cell in cells:
        try:
            yield cell, run_cell(cell, *_loaded(cell.set, folder), methods)
        except Exception as error:
            yield cell, error


def _in_processes(
    cells: Sequence[Cell], folder: Path | None, workers: int
) -> Iterator[tuple[Cell, Score | Exception]]:
    # Read by the BLAS libraries of the new processes as they start.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    waiting = iter(cells)
    running = {}
    try:
        while True:
            # No more than run at once: an interrupt then ends all of them, and none begins.
            while len(running) < workers and (cell := next(waiting, None)) is not None:
                running[pool.submit(_work, cell, folder)] = cell
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell = running.pop(future)
                error = future.exception()
                yield cell, error if isinstance(error, Exception) else future.result()
    finally:
        pool.shutdown(cancel_futures=True)
