"""`permutation_test`: whether classes differ by more than chance."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend, _parameters
from slce_xp._backend import Array
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import as_labels
from slce_xp._data.open import open_at
from slce_xp._errors import invalid, warn
from slce_xp._folds import as_group_codes
from slce_xp.core import _eigen, _welch
from slce_xp.core._label_free import principal_scores

STATISTICS = ("between", "adaptive")
# What "adaptive" adds to the squares of axes, in units of their mean: from the plain metric
# towards the whitened one.
ADAPTIVE_RIDGES = (0.01, 0.1, 1.0, 10.0)
# Numbers that a block of permutations allocates: 64 MB in float64.
BLOCK_NUMBERS = 2**23
# Fewer distinct arrangements than this cannot give p ≤ 0.05.
FEW_ARRANGEMENTS = 20
# Spreads within classes whose ratio exceeds this may be why "adaptive" rejects.
LARGEST_SPREAD_RATIO = 1.5
# More arrangements than exp of this are as good as infinitely many.
LARGEST_LOGARITHM = 700.0
# Statistics that differ by less than this many times eps are ties: arrangements that mirror each
# other are summed in another order.
TIE = 1000.0


@dataclasses.dataclass(frozen=True, eq=False)
class PermutationTest:
    """Whether classes differ by more than chance; see `slce_xp.permutation_test`.

    Attributes
    ----------
    p : float
        The p-value: the share of arrangements of the labels, the observed one among them, with a
        statistic at least as large as the observed one; at least `smallest_p`.
    statistic : float
        The observed statistic. For "adaptive" the largest of several, in standard deviations.
    null : numpy.ndarray, shape (n_permutations,)
        The statistic of each permutation.
    smallest_p : float
        The smallest p-value that these labels and this number of permutations can give.
    kind : {"between", "adaptive"}
    unit : {"samples", "groups"}
        What was permuted.
    n_units : int
        How many of them.
    spread_ratio : float
        The largest spread within a class relative to the smallest.
    component_p : numpy.ndarray, shape (k,), or None
        The p-value of each component, given those before it; never less than theirs.
    pair_p : tuple of (label, label, float), or None
        The p-value of each pair of classes, adjusted by Holm's method for the number of pairs.

    Examples
    --------
    >>> import numpy as np, slce_xp
    >>> X = np.random.default_rng(0).normal(size=(30, 50))
    >>> y = np.repeat(["a", "b", "c"], 10)
    >>> print(slce_xp.permutation_test(X, y))
    Permutation test: p = 0.776 (999 permutations of 30 samples, between)
    """

    p: float
    statistic: float
    null: np.ndarray
    smallest_p: float
    kind: str
    unit: str
    n_units: int
    spread_ratio: float
    component_p: np.ndarray | None = None
    pair_p: tuple[tuple[Any, Any, float], ...] | None = None

    @property
    def n_permutations(self) -> int:
        """The number of permutations, without the observed arrangement."""
        return len(self.null)

    def __str__(self) -> str:
        lines = [
            f"Permutation test: p = {self.p:.3g} ({self.n_permutations} permutations of "
            f"{self.n_units} {self.unit}, {self.kind})"
        ]
        if self.smallest_p > 1.0 / (1 + self.n_permutations):
            lines.append(f"  smallest possible p  {self.smallest_p:.2g}")
        if self.component_p is not None:
            listed = ", ".join(f"{p:.3g}" for p in self.component_p)
            lines.append(f"  components           p = {listed}")
        lines += [f"  {a} – {b}: p = {p:.3g} (Holm)" for a, b, p in self.pair_p or ()]
        return "\n".join(lines)

    def plot(self, **options: Any) -> Any:
        """Plot the null distribution and the observed statistic: `slce_xp.plot.permutation_test`.

        Parameters
        ----------
        **options
            Those of `slce_xp.plot.permutation_test`.

        Returns
        -------
        matplotlib.axes.Axes
        """
        plot: Any = importlib.import_module("slce_xp.plot")  # which needs Matplotlib
        return plot.permutation_test(self, **options)


def permutation_test(
    X: Any,
    y: Any,
    n_permutations: int = 999,
    *,
    statistic: str = "between",
    groups: Any = None,
    strata: Any = None,
    components: bool = False,
    pairs: bool = False,
    random_state: int | None = 0,
    backend: str | ModuleType | None = None,
    device: Any = None,
) -> PermutationTest:
    r"""Test whether classes differ by more than chance.

    Labels are permuted, which says how large the statistic is if they mean nothing. With n samples
    and d features, neither normality nor n > d is needed.

    Parameters
    ----------
    X : array, sparse matrix, list of rows, data frame or row-sliceable object, shape (n, d)
        As for `slce_xp.fit`. Units of columns matter, as for the fit: scale them first if they are
        not comparable.
    y : array, list, Series or Categorical, shape (n,)
        Class labels.
    n_permutations : int
        The smallest p-value is 1 / (1 + n_permutations).
    statistic : {"between", "adaptive"}
        "between": the differences of class means in Welch's form,

        .. math:: T = \sum_j w_j \lVert c_j - \bar c \rVert^2 , \qquad w_j = n_j / V_j ,

        with the spread :math:`V_j` of each class: only a difference of means rejects, also if
        classes differ in size and spread. "adaptive": the largest of five such statistics, from the
        plain metric towards the whitened one, each in units of its standard deviation. It finds
        differences along axes of little variance, but the null hypothesis is then that classes have
        the same distribution: `spread_ratio` warns of different spreads.
    groups : array, list or Series, shape (n,), optional
        What samples were measured on, such as mice, if there are several of each. Samples of a
        group are not independent, and are replaced by their mean; groups are permuted.
    strata : array, list or Series, shape (n,), optional
        Labels are permuted within each stratum only: batches, or subjects with samples of several
        classes.
    components : bool
        Whether to test each component, too, up to the number of classes − 1.
    pairs : bool
        Whether to test each pair of classes, too.
    random_state : int or None
        Seed of the permutations.
    backend, device : optional
        As for `slce_xp.fit`.

    Returns
    -------
    PermutationTest

    Raises
    ------
    ValueError, TypeError
        For invalid input; if a group has samples of several classes, if all classes have one
        sample, or if strata allow no exchange of labels.

    Warns
    -----
    SLCEWarning
        If fewer than 20 arrangements differ, so that p cannot be 0.05; if spreads within classes
        differ, for "adaptive".

    See Also
    --------
    slce_xp.cross_embed : How well classes of samples that were held out are distinguished.

    Notes
    -----
    All permutations are products with one matrix of samples in their principal axes, which do not
    depend on labels. More than 1200 samples are first projected onto 32 to 256 random directions,
    if they have more features; the test stays exact.

    Examples
    --------
    >>> import numpy as np, slce_xp
    >>> X = np.random.default_rng(0).normal(size=(20, 100))
    >>> y = np.repeat(["control", "treated"], 10)
    >>> slce_xp.permutation_test(X, y).p > 0.05
    True
    >>> X[10:, :5] += 4
    >>> slce_xp.permutation_test(X, y).p
    0.002
    """
    if statistic not in STATISTICS:
        valid = " or ".join(map(repr, STATISTICS))
        raise invalid("statistic", f"statistic must be {valid}; got {statistic!r}")
    count = _parameters.as_count(n_permutations, "n_permutations", 1)
    seed = _parameters.as_seed(random_state)
    components = _parameters.as_flag(components, "components")
    pairs = _parameters.as_flag(pairs, "pairs")
    matrix = _matrix.as_values(X)
    _matrix.check_sizes(matrix)
    labels = as_labels(y, matrix.shape[0])
    units = None if groups is None else as_group_codes(groups, matrix.shape[0])
    design = _design(labels.codes, units, strata, count, seed)
    place = _parameters.find_place(matrix, backend, device)
    with _backend.computing(place):
        scores, squares, _ = principal_scores(open_at(matrix, place), seed)
        scores, squares = _of_units(scores, squares, units)
        found = _tested(scores, squares, design, statistic)
        return dataclasses.replace(
            found,
            unit="samples" if units is None else "groups",
            component_p=_component_p(scores, squares, design) if components else None,
            pair_p=_pair_p(scores, squares, design, labels.classes, statistic) if pairs else None,
        )


# ---------------------------------------------------------------- what is permuted


class Design(NamedTuple):
    """Units that are permuted, samples or groups of them.

    Attributes
    ----------
    codes : numpy.ndarray of int, shape (u,)
        The class of each.
    strata : numpy.ndarray of int, shape (u,)
        Units are exchanged within a stratum.
    drawn, seed : int
        The number of permutations, without the observed arrangement, and their seed.
    """

    codes: np.ndarray
    strata: np.ndarray
    drawn: int
    seed: int

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return int(self.codes.max()) + 1

    def draws(self, block: int) -> Iterator[np.ndarray]:
        """Blocks of permutations of units, (b, u): the observed arrangement first."""
        random = np.random.default_rng(self.seed)
        members = [np.flatnonzero(self.strata == s) for s in np.unique(self.strata)]
        for start in range(0, 1 + self.drawn, block):
            size = min(block, 1 + self.drawn - start)
            units = np.empty((size, len(self.codes)), dtype=np.int64)
            for mine in members:
                units[:, mine] = random.permuted(np.tile(mine, (size, 1)), axis=1)
            if not start:
                units[0] = np.arange(len(self.codes))
            yield units

    def blocks(self, scores: Array) -> Iterator[Array]:
        """The same, where scores are, in blocks whose sums take little memory."""
        units, r = scores.shape
        size = max(1, BLOCK_NUMBERS // (self.n_classes * (units + 3 * r)))
        for block in self.draws(size):
            yield _backend.from_host(block, _backend.place_of(scores))

    @property
    def arrangements(self) -> float:
        """The number of arrangements that may differ in the statistic, perhaps infinite.

        Classes with the same number of units in each stratum can be exchanged without effect.
        """
        strata = np.unique(self.strata, return_inverse=True)[1]
        table = np.zeros((int(strata.max()) + 1, self.n_classes))
        np.add.at(table, (strata, self.codes), 1)
        alike = np.unique(table, axis=1, return_counts=True)[1]
        logs = [sum(math.lgamma(1 + n) for n in a.flat) for a in (table.sum(axis=1), table, alike)]
        return math.exp(min(logs[0] - logs[1] - logs[2], LARGEST_LOGARITHM))

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that the labels and the number of permutations can give."""
        return max(1.0 / (1 + self.drawn), min(1.0, 1.0 / self.arrangements))


def _design(
    codes: np.ndarray, units: np.ndarray | None, strata: Any, count: int, seed: int
) -> Design:
    """The units of the test, checked."""
    n = len(codes)
    layers = np.zeros(n, dtype=np.int64) if strata is None else as_group_codes(strata, n, "strata")
    if units is not None:
        _, first = np.unique(units, return_index=True)
        spans = np.flatnonzero(codes != codes[first][units])
        if len(spans):
            raise invalid(
                "groups",
                f"groups must have samples of one class each; that of sample {spans[0]} has "
                "several. If classes were compared within groups, pass groups as strata instead",
            )
        if (layers != layers[first][units]).any():
            raise invalid("strata", "strata must have one value for all samples of a group")
        codes, layers = codes[first], layers[first]
    design = Design(codes, layers, count, seed)
    name = "strata" if strata is not None else "y" if units is None else "groups"
    possible = design.arrangements
    if possible < 1.5:
        raise invalid(
            name,
            f"{name} must allow labels to be exchanged; all arrangements of them are alike. Add "
            f"samples{', or use fewer strata' * (strata is not None)}",
        )
    if possible < FEW_ARRANGEMENTS:
        warn(
            f"only {round(possible)} arrangements of the labels differ, so that p is at least "
            f"{1.0 / possible:.2g}. Add samples",
        )
    return design


def _of_units(scores: Array, squares: Array, units: np.ndarray | None) -> tuple[Array, Array]:
    """Scores of units in their own principal axes, and the squares of these, which sum to 1."""
    xp, _ = place = _backend.place_of(scores)
    if units is not None:
        codes, sizes = _backend.from_host(units, place), np.bincount(units)
        sums = _backend.sums_by_code(scores, codes, len(sizes), None)
        scores = sums / _backend.from_host(sizes, place, scores.dtype)[:, None]
        scores = scores - xp.mean(scores, axis=0)
        squares, vectors = _backend.eigh(_backend.gram(scores))
        scores = scores @ vectors
    squares = xp.clip(squares, 0.0)
    total = float(_eigen.read_finite(xp.sum(squares))[0])
    if not total > 0.0:
        raise invalid("X", "X must vary; all rows are the same. Check X")
    return scores / math.sqrt(total), squares / total


# ---------------------------------------------------------------- p-values


def _tested(scores: Array, squares: Array, design: Design, kind: str) -> PermutationTest:
    """The test of all classes together."""
    xp = _backend.namespace_of(scores)
    marks = _welch.as_marks(design.codes, design.n_classes, scores)
    added = [r / squares.shape[0] for r in ADAPTIVE_RIDGES] if kind == "adaptive" else []
    metrics = [xp.ones_like(squares), *(1.0 / (squares + ridge) for ridge in added)]
    weights = xp.stack(metrics, axis=1)
    parts = [_welch.welch(marks, block, scores, weights) for block in design.blocks(scores)]
    values, spreads = _eigen.read_finite(
        xp.concat([values for values, _ in parts], axis=0), parts[0][1][:, 0, :]
    )
    ratio = float((spreads.max(axis=0) / spreads.min(axis=0)).max())
    if kind == "adaptive":
        spread = values.std(axis=0)
        values = (values - values.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        if ratio > LARGEST_SPREAD_RATIO:
            warn(
                f"statistic='adaptive' rejects if spreads within classes differ, and they do by a "
                f"factor of {ratio:.2g}: a small p need not mean that class means differ. Use "
                "statistic='between'",
            )
    values = values.max(axis=1)
    smallest, units = design.smallest_p, len(design.codes)
    p = _p_value(values, scores, smallest)
    return PermutationTest(p, float(values[0]), values[1:], smallest, kind, "samples", units, ratio)


def _component_p(scores: Array, squares: Array, design: Design) -> np.ndarray:
    """p-values of components: each is tested in what the ones before it leave."""
    xp = _backend.namespace_of(scores)
    marks = _welch.as_marks(design.codes, design.n_classes, scores)
    marks = marks / xp.sqrt(xp.sum(marks, axis=1))[:, None]
    least = scores.shape[0] * _eigen.eps_of(scores)
    found: list[float] = []
    for _ in range(design.n_classes - 1):
        # Directions in which samples do not vary, any more or at all, come first.
        known = int((_backend.read(squares)[0] > least).sum())
        if not known:
            break
        scores, squares = scores[:, -known:], squares[-known:]
        value, axis = _welch.leading(marks, scores, squares)
        shifted = squares + max(value, 0.0)
        ratios = [
            _welch.largest_ratios(marks, block, scores, shifted) for block in design.blocks(scores)
        ]
        (values,) = _eigen.read_finite(xp.concat(ratios, axis=0))
        found.append(max([_p_value(values, scores, design.smallest_p), *found[-1:]]))
        marks, scores, squares = _welch.deflated(marks, scores, axis)
    return np.array(found)


def _pair_p(
    scores: Array, squares: Array, design: Design, classes: np.ndarray, kind: str
) -> tuple[tuple[Any, Any, float], ...]:
    """p-values of pairs of classes, by Holm's method."""
    xp, _ = place = _backend.place_of(scores)
    pairs = list(itertools.combinations(range(design.n_classes), 2))
    found = np.ones(len(pairs))  # if no other arrangement differs
    for i, pair in enumerate(pairs):
        mine = np.flatnonzero(np.isin(design.codes, pair))
        codes = np.searchsorted(pair, design.codes[mine])
        part = design._replace(codes=codes, strata=design.strata[mine])
        if part.arrangements > 1.5:
            rows = xp.take(scores, _backend.from_host(mine, place), axis=0)
            found[i] = _tested(rows - xp.mean(rows, axis=0), squares, part, kind).p
    order = np.argsort(found, kind="stable")
    found[order] = np.maximum.accumulate(found[order] * np.arange(len(found), 0, -1))
    adjusted = map(float, np.minimum(found, 1.0))
    return tuple((classes[a], classes[b], p) for (a, b), p in zip(pairs, adjusted, strict=True))


def _p_value(values: np.ndarray, like: Array, smallest: float) -> float:
    """The share of values that are at least the first one, ties included.

    If few arrangements differ, those like the observed one may be drawn less often than they are.
    """
    slack = TIE * _eigen.eps_of(like) * abs(values[0])
    return max(float((values >= values[0] - slack).mean()), smallest)
