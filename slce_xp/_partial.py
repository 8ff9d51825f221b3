"""Batches that add up: class statistics that grow, merge, and are solved when asked.

Sums are taken about the mean of a batch. Merging two of them moves both to a point between their
means, so that nothing large is ever subtracted from something large.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from slce_xp import _backend, _errors, _parameters
from slce_xp._backend import Array, Place
from slce_xp._data import label_values, sample_weights
from slce_xp._data import labels as _labels
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import Labels
from slce_xp._fit import open_planned
from slce_xp._make_model import make_model, make_separating_model
from slce_xp._make_plan import make_plan, problem_at
from slce_xp._model import Model
from slce_xp._planning import plan as _plan
from slce_xp._planning import sizes
from slce_xp._planning.plan import Plan
from slce_xp._planning.problem import MEMORY, Limits, Problem
from slce_xp._progress import Progress
from slce_xp.core import _dense, _separation
from slce_xp.core._moments import GroupMoments, moments_of
from slce_xp.core._problem import Problem as Eigenproblem


@dataclass(frozen=True)
class Statistics:
    """What batches leave behind: arrays and numbers that can be pickled and merged.

    Attributes
    ----------
    classes : numpy.ndarray, shape (K,)
        The labels seen so far, or expected, sorted.
    counts : numpy.ndarray of int64, shape (K,)
    n_samples, n_unlabeled : int
        All samples seen, and those without a label.
    moments : GroupMoments
        About a point near the mean.
    home : array, shape (0, 0)
        Of the library, on the device and of the dtype of the data.
    precision : str
        The dtype that the data were computed in.
    are_all : bool
        Whether no other classes may come.
    """

    classes: np.ndarray
    counts: np.ndarray
    n_samples: int
    n_unlabeled: int
    moments: GroupMoments
    home: Array
    precision: str
    are_all: bool


def add_up(
    X: Any,
    y: Any,
    *,
    backend: Any = None,
    device: Any = None,
    max_memory: int | str | None = None,
    classes: Any = None,
    sample_weight: Any = None,
    class_weight: Any = None,
    unlabeled: Any = None,
    unlabeled_weight: float = 1.0,
) -> Statistics | None:
    """The statistics of one batch; None if no sample of it counts.

    Parameters
    ----------
    X, y, backend, device, max_memory, sample_weight, class_weight, unlabeled, unlabeled_weight
        As for `slce_xp.fit`; one class, or none, will do.
    classes : array or list, optional
        All labels that any batch may have.
    """
    if isinstance(class_weight, str):
        raise _errors.invalid(
            "class_weight",
            f"class_weight must be None or a dict of weights by label for batches, for the size of "
            f"a class is known after the last one; got {class_weight!r}. Give the weights, or fit "
            "all samples at once",
        )
    matrix = _matrix.as_values(X)
    _matrix.check_sizes(matrix)
    n, d = matrix.shape
    labels = _labels.as_labels(
        y, n, sample_weight, class_weight, unlabeled, unlabeled_weight, in_part=True
    )
    if labels.weights is not None and not labels.weights.any():
        return None
    groups, kept = labels.counted()
    known = labels.classes
    if classes is not None:
        known = _labels.as_classes(classes, labels.classes)
        sample_weights.check_class_weight(class_weight, known)
    place = _parameters.find_place(matrix, backend, device)
    home = _backend.without_rows(matrix)
    n_classes = max(2, len(known))
    problem = problem_at(matrix, place, groups, min(n_classes - 1, d))
    problem = dataclasses.replace(problem, n_classes=n_classes)
    matrix, plan = _make_plan(matrix, place, problem, max_memory)
    with _backend.computing(place):
        if plan.where == MEMORY:
            matrix = _backend.move(matrix, place)
        rows = open_planned(matrix, place, plan, Progress(), kept)
        moments = moments_of(rows, groups, second=True, powers=True).about_mean()
        moments = moments.reindexed(label_values.positions(labels.classes, known), len(known))
    return Statistics(
        known,
        _spread(labels, known),
        n,
        labels.n_unlabeled,
        moments,
        home[:, :0],
        problem.dtype,
        classes is not None,
    )


def _make_plan(
    matrix: Any, place: Place, problem: Problem, max_memory: int | str | None
) -> tuple[Any, Plan]:
    memory = sizes.parse_bytes(max_memory)
    # What was there and what this batch adds, in addition to the matrices of the plan.
    kept = 2 * 8 * problem.d**2
    left = None if memory is None else memory - kept
    try:
        if left is not None and left <= 0:
            raise MemoryError(f"max_memory must leave room for them; got {max_memory!r}")
        matrix, _, plan = make_plan(matrix, place, problem, left, "scatter")
        return matrix, plan
    except MemoryError as error:
        raise MemoryError(
            f"batches are added up in d × d matrices, which take {sizes.format_bytes(kept)} for "
            f"d = {problem.d}, and more: {error}. Or fit rows from a file, without such "
            "a matrix: slce_xp.fit(numpy.load(path, mmap_mode='r'), y)"
        ) from None


def _spread(labels: Labels, known: np.ndarray) -> np.ndarray:
    counts = np.zeros(len(known), dtype=np.int64)
    counts[label_values.positions(labels.classes, known)] = labels.counts
    return counts


# ---------------------------------------------------------------- arithmetic of statistics


def merge(a: Statistics, b: Statistics) -> Statistics:
    """The statistics of the samples of both."""
    _check_alike(a, b)
    # A batch without any label may have those of another kind: NaN, before dates come.
    mine = a.classes if len(a.classes) else b.classes[:0]
    other = b.classes if len(b.classes) else a.classes[:0]
    try:
        _check_same_kind(mine.dtype, other.dtype)
        classes = label_values.union(mine, other)
    except TypeError as error:
        raise _errors.wrong_type(
            "y",
            f"y must hold labels of one kind in all batches ({error}); make them all strings or "
            "all numbers",
        ) from error
    for all_of, found in ((a, other), (b, mine)):
        if all_of.are_all:
            _labels.as_classes(all_of.classes, found)
    place = _backend.place_of(a.moments.sums)
    with _backend.computing(place):
        first = a.moments.reindexed(label_values.positions(mine, classes), len(classes))
        second = b.moments.reindexed(label_values.positions(other, classes), len(classes))
        moments = first + second
    counts = np.zeros(len(classes), dtype=np.int64)
    counts[label_values.positions(mine, classes)] += a.counts
    counts[label_values.positions(other, classes)] += b.counts
    precision = max(a.precision, b.precision)  # "float64" comes after "float32"
    return Statistics(
        classes,
        counts,
        a.n_samples + b.n_samples,
        a.n_unlabeled + b.n_unlabeled,
        moments,
        a.home if precision == a.precision else b.home,
        precision,
        a.are_all or b.are_all,
    )


def _check_same_kind(a: np.dtype, b: np.dtype) -> None:
    """Refuse what NumPy would make text of, and sort in another order; objects it compares."""
    kinds = ["text" if t.kind in "UT" else "number" if t.kind in "iuf" else t.kind for t in (a, b)]
    if kinds[0] != kinds[1] and "O" not in kinds:
        raise TypeError(f"got {a} and {b}")


def _check_alike(a: Statistics, b: Statistics) -> None:
    d, other = a.moments.sums.shape[1], b.moments.sums.shape[1]
    if d != other:
        raise _errors.invalid(
            "X",
            f"X must have the same features in all batches; got {d} and {other} of them. Select "
            "the same columns in each",
        )
    _parameters.check_same_place(b.moments.sums, _backend.place_of(a.moments.sums), "the other's X")
    if a.moments.unlabeled_weight != b.moments.unlabeled_weight:
        raise _errors.invalid(
            "unlabeled_weight",
            "unlabeled_weight must be the same for all batches; got "
            f"{a.moments.unlabeled_weight} and {b.moments.unlabeled_weight}. Begin anew with one",
        )


# ---------------------------------------------------------------- the model of them


def solve(
    statistics: Statistics,
    n_components: int | float | str | None,
    criterion: str = "centroid",
    shrinkage: float | str = "auto",
    class_weight: Any = None,
) -> Model:
    """The model of all samples that were added up; as if they had been fitted at once."""
    separates = _parameters.as_criterion(criterion) == "separation"
    weight_of_diagonal = _parameters.as_shrinkage(shrinkage)
    seen = statistics.counts > 0
    classes = statistics.classes[seen]
    _labels.check_class_count(classes)
    moments = statistics.moments
    place = _backend.place_of(moments.sums)
    moments = moments.only(np.flatnonzero(seen))
    d = moments.sums.shape[1]
    if separates:
        _parameters.check_separable(statistics.n_unlabeled)
    unsupervised = statistics.n_samples if statistics.n_unlabeled else None
    k = _parameters.as_component_count(
        n_components, len(classes), d, unsupervised, separates=separates
    )
    sums = _backend.dtype_name(moments.sums.dtype)
    size = Problem(statistics.n_samples, d, len(classes), k, statistics.precision, sums=sums)
    plan = dataclasses.replace(
        _plan.choose(size, Limits(), "scatter"), reason="batches were added up"
    )
    labels = Labels(
        np.zeros(0, np.int64),
        classes,
        statistics.counts[seen],
        n_unlabeled=statistics.n_unlabeled,
        odds=sample_weights.class_odds(class_weight, classes),
    )
    with _backend.computing(place):
        problem = Eigenproblem(moments)
        if separates:
            share = _parameters.as_share(n_components)
            found = _separation.solve(problem, "scatter", k, weight_of_diagonal, share)
            return make_separating_model(problem, found, labels, plan, n_components)
        return make_model(problem, _dense.scatter(problem, k), labels, plan, n_components)
