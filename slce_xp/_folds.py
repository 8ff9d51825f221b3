"""Folds for cross-validation: stratified by class, with the samples of a group together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slce_xp._data.label_values import comparable, label_values, unique, unsortable
from slce_xp._data.marks import missing
from slce_xp._errors import invalid

# A column is not taken for one of subjects if it has more rows for each value than this: as many
# repeated measurements of one subject are rare, and classes of classes are not.
MOST_REPEATS = 50


class Folds(NamedTuple):
    """The fold in which each sample is held out.

    Attributes
    ----------
    codes : numpy.ndarray of int, shape (n,)
        From 0; −1 for samples that are in all training sets.
    n_folds : int
    note : str
        Why there are fewer folds than asked for, and what is never held out; mostly empty.
    """

    codes: np.ndarray
    n_folds: int
    note: str = ""

    def splits(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Positions of training and test samples of each fold."""
        return [
            (np.flatnonzero(self.codes != fold), np.flatnonzero(self.codes == fold))
            for fold in range(self.n_folds)
        ]


def make_folds(
    y: np.ndarray, count: int, seed: int, classes: np.ndarray, groups: np.ndarray | None = None
) -> Folds:
    """Deal samples, or groups of them, to folds with about equal shares of all classes.

    Without groups, folds are those of scikit-learn's ``StratifiedKFold``. A class with a single
    sample, or group, is in all training sets.

    Parameters
    ----------
    y : numpy.ndarray of int, shape (n,)
        Class codes.
    count : int
        The number of folds; fewer are made if a class has fewer samples, or groups.
    seed : int
    classes : numpy.ndarray, shape (K,)
        Labels, for messages.
    groups : numpy.ndarray of int, shape (n,), optional
        Codes of groups that stay together.
    """
    word = "samples" if groups is None else "groups"
    if groups is None:
        units = unit = np.arange(len(y))
        stratum, sizes = y, np.bincount(y, minlength=len(classes))
    else:
        units, members = groups, np.unique(np.stack([groups, y]), axis=1)
        sizes = np.bincount(members[1], minlength=len(classes))
        # A group is dealt with the rarest of its classes.
        order = np.argsort(sizes[members[1]], kind="stable")
        unit, first = np.unique(members[0][order], return_index=True)
        stratum = members[1][order][first]
    shared = sizes >= 2
    alone = ", ".join(repr(str(label)) for label in classes[~shared][:5])
    if shared.sum() < 2:
        raise invalid(
            "y" if groups is None else "groups",
            f"y must hold at least two classes with two {word} or more to be cross-validated; "
            f"class {alone} has one. Leave it out, or join classes",
        )
    least = int(sizes[shared].min())
    smallest = classes[int(np.flatnonzero(sizes == least)[0])]
    notes = [f"class {str(smallest)!r} has {least} {word}"] * (least < count)
    notes += [f"{alone} with one of the {word} is never held out"] * bool(alone)
    count = min(count, least)
    dealt = shared[stratum]
    fold_of = np.full(len(unit), -1)
    fold_of[dealt] = _deal(stratum[dealt], count, np.random.RandomState(seed))
    folds = Folds(fold_of[np.searchsorted(unit, units)], count, "; ".join(notes))
    if groups is not None:
        for train, _ in folds.splits():
            if len(absent := np.setdiff1d(y, y[train])):
                raise invalid(
                    "groups",
                    "groups must leave samples of all classes in each training set; class "
                    f"{str(classes[absent[0]])!r} is in one fold only. Use fewer folds, or other "
                    "groups",
                )
    return folds


def _deal(y: np.ndarray, count: int, random: np.random.RandomState) -> np.ndarray:
    """The fold of each unit, as scikit-learn's ``StratifiedKFold`` deals them."""
    _, first, codes = np.unique(y, return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[codes]  # classes in the order of their appearance
    ordered = np.sort(codes)
    shares = [np.bincount(ordered[i::count], minlength=len(first)) for i in range(count)]
    folds = np.empty(len(y), dtype=np.int64)
    for j in range(len(first)):
        mine = np.repeat(np.arange(count), [share[j] for share in shares])
        random.shuffle(mine)
        folds[codes == j] = mine
    return folds


def as_group_codes(values: Any, n_samples: int, name: str = "groups") -> np.ndarray:
    """Codes of values that samples share, such as the subject that each is of, shape (n,)."""
    found = label_values(values, name)
    if found.shape != (n_samples,):
        raise invalid(
            name,
            f"{name} must have one value for each of {n_samples} samples; got shape {found.shape}",
        )
    absent = None if found.dtype.kind in "biu" else missing(found)
    if absent is not None and absent.any():
        first = int(np.argmax(absent))
        raise invalid(
            name,
            f"{name} must have a value for every sample; got {found[first]!r} at position {first}. "
            "Give each such sample a value of its own, or leave it out",
        )
    try:
        return unique(comparable(found, values))[1]
    except TypeError as error:
        raise unsortable(name, error) from error


def looks_like_groups(values: Any, y: np.ndarray) -> bool:
    """Whether a column may be of subjects that were measured repeatedly.

    If so, the rows of each value are of one class, there are several of them but not many, and
    more values than classes.

    Parameters
    ----------
    values : array-like, shape (n,)
    y : numpy.ndarray of int, shape (n,)
        Class codes.
    """
    column = np.asarray(values)
    known, codes, counts = np.unique(column.astype(str), return_inverse=True, return_counts=True)
    n, n_classes = len(y), len(np.unique(y))
    if not (2 * len(known) <= n <= MOST_REPEATS * len(known) and len(known) >= 2 * n_classes):
        return False
    pairs = np.unique(np.stack([codes.reshape(-1), y]), axis=1)
    return bool(counts.min() >= 1 and pairs.shape[1] == len(known))
