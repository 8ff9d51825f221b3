"""The result of a comparison: scores with their errors, printed as a table of 80 columns."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from slce_xp._comparison.folds import CLASSIFIERS, Outcome, Split
from slce_xp._errors import invalid

NOISE = 2.0  # standard errors of a difference that may be chance
WIDTH = 80


class Score(NamedTuple):
    """The cross-validated accuracy of one classifier in one embedding.

    Attributes
    ----------
    method : str
    n_components : int
    classifier : {"5-NN", "nearest centroid"}
    accuracy, error : float
        Share of held-out samples that are classified correctly, and its standard error.
    difference, difference_error : float
        That share minus the best one of this classifier, on the same samples, and its standard
        error; both 0 for the best itself.
    is_tied : bool
        Whether the difference is within the noise: at most two standard errors.
    balanced_accuracy : float
        The mean over classes of the share of their held-out samples that are classified correctly.
    seconds : float
        Median time of the fit that the embedding came from. PCA, LDA and SLCE are fitted once,
        with the most components, because fewer are the first of these. NaN for all features.
    """

    method: str
    n_components: int
    classifier: str
    accuracy: float
    error: float
    difference: float
    difference_error: float
    is_tied: bool
    balanced_accuracy: float
    seconds: float


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Accuracies of several methods on the same folds.

    Printing it shows all scores in a table of 80 columns; `slce_xp.plot.comparison` draws them.

    Attributes
    ----------
    methods : tuple of str
        In the order of the table.
    scores : tuple of Score
        By method, number of components and classifier.
    notes : dict
        Why a method did not run, or not with as many components as asked for, by its name.
    n_samples, n_features, n_classes, n_folds : int
    largest : float
        The accuracy of always predicting the largest class.
    classes : numpy.ndarray, shape (K,)
        The labels, sorted.
    confusions : dict
        By method, number of components and classifier: see `confusion`.
    preparation : str
        What was done to the columns in each fold.
    unit : {"components", "features"}
        What `Score.n_components` counts.
    """

    methods: tuple[str, ...]
    scores: tuple[Score, ...]
    notes: dict[str, str]
    n_samples: int
    n_features: int
    n_classes: int
    n_folds: int
    largest: float
    classes: np.ndarray
    confusions: dict[tuple[str, int, str], np.ndarray]
    preparation: str = ""
    unit: str = "components"

    def best(self, classifier: str = "5-NN") -> tuple[Score, ...]:
        """Return the scores that the folds cannot tell from the best one, which comes first.

        Parameters
        ----------
        classifier : {"5-NN", "nearest centroid"}

        Returns
        -------
        tuple of Score

        Examples
        --------
        >>> import slce_xp
        >>> from sklearn.datasets import load_iris
        >>> found = slce_xp.compare(*load_iris(return_X_y=True), (2,), methods=("pca", "slce"))
        >>> sorted(score.method for score in found.best("nearest centroid"))  # no winner
        ['PCA', 'SLCE']
        """
        if classifier not in CLASSIFIERS:
            valid = " or ".join(map(repr, CLASSIFIERS))
            raise invalid("classifier", f"classifier must be {valid}; got {classifier!r}")
        tied = [s for s in self.scores if s.classifier == classifier and s.is_tied]
        return tuple(sorted(tied, key=lambda score: -score.accuracy))

    def winner(self, classifier: str = "5-NN") -> str | None:
        """Return the method that is ahead of all others by more than the noise, if there is one.

        Parameters
        ----------
        classifier : {"5-NN", "nearest centroid"}

        Returns
        -------
        str or None

        Examples
        --------
        >>> import slce_xp
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> slce_xp.compare(X, y, (2,), methods=("pca", "separation")).winner()
        'SLCE separation'
        """
        methods = {score.method for score in self.best(classifier)}
        compared = {score.method for score in self.scores}
        return methods.pop() if len(methods) == 1 < len(compared) else None

    def confusion(self, method: str, n_components: int, classifier: str = "5-NN") -> np.ndarray:
        """How many held-out samples of each class are predicted to be of each class.

        Parameters
        ----------
        method : str
            As printed, such as "SLCE".
        n_components : int
        classifier : {"5-NN", "nearest centroid"}

        Returns
        -------
        numpy.ndarray of int, shape (K, K)
            Rows are true classes, columns predicted ones, in the order of `classes`.

        Examples
        --------
        >>> import slce_xp
        >>> from sklearn.datasets import load_iris
        >>> found = slce_xp.compare(*load_iris(return_X_y=True), (2,), methods=("slce",))
        >>> found.confusion("SLCE", 2)
        array([[50,  0,  0],
               [ 0, 45,  5],
               [ 0,  7, 43]])
        """
        key = (method, n_components, classifier)
        if key not in self.confusions:
            valid = ", ".join(map(str, self.confusions))
            raise invalid("method", f"method, n_components and classifier must be one of {valid}; "
                          f"got {key}")  # fmt: skip
        return self.confusions[key]

    def __str__(self) -> str:
        """Return the table."""
        lines = textwrap.wrap(
            f"Comparison on {self.n_samples} samples of {self.n_features} features in "
            f"{self.n_classes} classes: {self.n_folds}-fold cross-validation{self.preparation}. "
            f"Always the largest class: {100 * self.largest:.1f} %.",
            WIDTH,
            break_on_hyphens=False,
        )
        lines += ["", *_HEADER]
        for method in self.methods:
            lines += self._rows(method)
        lines += ["", *(line for name in CLASSIFIERS for line in self._verdict(name))]
        lines += [f"k: {self.unit}; ±: standard error (SE); =: within {NOISE:g} SE of the best"]
        return "\n".join(lines)

    def _rows(self, method: str) -> list[str]:
        found: dict[int, list[Score]] = {}
        for score in self.scores:
            if score.method == method:
                found.setdefault(score.n_components, []).append(score)
        rows = [
            f"{k:>6}{''.join(map(_cells, scores))}{_seconds(scores[0].seconds):>7}"
            for k, scores in found.items()
        ]
        rows += [f"   {line}" for line in textwrap.wrap(self.notes.get(method, ""), WIDTH - 18)]
        return [f"{'' if i else method:<15}{row}".rstrip() for i, row in enumerate(rows)]

    def _verdict(self, classifier: str) -> list[str]:
        tied = self.best(classifier)
        if not tied:
            return []
        winner = self.winner(classifier)
        if winner:
            text = f"{winner} is ahead of the other methods by more than the noise."
        else:
            methods = list(dict.fromkeys(score.method for score in tied))
            text = f"no winner; within the noise: {', '.join(methods)}."
        best = tied[0]
        if abs(best.balanced_accuracy - best.accuracy) > best.error:
            share = _percent(best.balanced_accuracy)
            text += f" Balanced over classes, {best.method} has {share} %."
        return textwrap.wrap(f"{classifier}: {text}", WIDTH, subsequent_indent="  ")


_HEADER = (
    f"{'':<21}  {'5-NN':<26}nearest centroid",
    f"{'method':<15}{'k':>6}" + 2 * f"  {'% right':<11}{'to the best':>11}  " + "seconds",
)


def _cells(score: Score) -> str:
    """Return the accuracy, the difference to the best, and whether that is within the noise."""
    accuracy = f"{_percent(score.accuracy):>4} ± {_percent(score.error, 10)}"
    behind = f"{_percent(score.difference)} ± {_percent(score.difference_error, 10)}"
    if not score.difference and not score.difference_error:
        behind = "best"
    return f"  {accuracy:<10} {behind:>11} {'=' if score.is_tied else ' '}"


def _percent(share: float, whole_from: int = 100) -> str:
    """Return a percentage, without a decimal from some size on, so that the columns fit."""
    value = round(100 * share, 1) or 0.0  # not −0
    return f"{value:.{0 if abs(value) >= whole_from else 1}f}".replace("-", "−")


def _seconds(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}" if value < 10 else f"{value:.0f}"


# ---------------------------------------------------------------- scores


def summarised(
    outcomes: dict[str, Outcome],
    X: Any,
    y: np.ndarray,
    classes: np.ndarray,
    splits: Sequence[Split],
    preparation: str,
    unit: str = "components",
) -> Comparison:
    """Return the scores of all entries, with their differences to the best of each classifier."""
    tests = [test for _, test in splits]
    truth = y[np.concatenate(tests)]
    ratio = float(np.mean([len(test) / len(train) for train, test in splits]))
    entries = [(name, entry) for name, o in outcomes.items() for entry in o.entries]
    scores: dict[tuple[str, int, str], Score] = {}
    confusions: dict[tuple[str, int, str], np.ndarray] = {}
    for c, classifier in enumerate(CLASSIFIERS):
        right = [(entry.predicted[c] == truth).astype(float) for _, entry in entries]
        best = max(right, key=np.mean, default=None)
        for (name, entry), mine in zip(entries, right, strict=True):
            key = (name, entry.n_components, classifier)
            behind = mine - best
            error = standard_error(behind, tests, ratio)
            confusions[key] = table = np.zeros((len(classes),) * 2, dtype=np.int64)
            np.add.at(table, (truth, entry.predicted[c]), 1)
            sizes = table.sum(axis=1)
            balanced = (np.diagonal(table)[sizes > 0] / sizes[sizes > 0]).mean()
            scores[key] = Score(
                *key, float(mine.mean()), standard_error(mine, tests, ratio), float(behind.mean()),
                error, bool(-behind.mean() <= NOISE * error), float(balanced), entry.seconds,
            )  # fmt: skip
    counts = np.bincount(y)
    return Comparison(
        methods=tuple(outcomes),
        scores=tuple(
            scores[name, entry.n_components, classifier]
            for name, entry in entries
            for classifier in CLASSIFIERS
        ),
        notes={name: outcome.note for name, outcome in outcomes.items() if outcome.note},
        n_samples=X.shape[0],
        n_features=X.shape[1],
        n_classes=len(classes),
        n_folds=len(splits),
        largest=float(counts.max() / counts.sum()),
        classes=classes,
        confusions=confusions,
        preparation=preparation,
        unit=unit,
    )


def standard_error(values: np.ndarray, tests: Sequence[np.ndarray], ratio: float) -> float:
    """Return the standard error of the mean of held-out values, in the order of the folds.

    The larger of two: over the samples, and over the folds with the correction of Nadeau and Bengio
    (2003) for training sets that overlap. With few folds, the second may be small by chance.
    """
    samples = np.concatenate(tests)
    times = np.bincount(samples)
    by_sample = (np.bincount(samples, values) / np.maximum(times, 1))[times > 0]
    over_samples = _spread(by_sample) / math.sqrt(len(by_sample))
    ends = np.cumsum([len(test) for test in tests])[:-1]
    means = np.array([part.mean() for part in np.split(values, ends)])
    return max(over_samples, _spread(means) * math.sqrt(1 / len(means) + ratio))


def _spread(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def as_columns(comparison: Comparison) -> dict[str, list[Any]]:
    """Return the scores by column, for a file; methods that did not run have a row, too."""
    rows: list[tuple[Any, ...]] = [
        (*score, comparison.notes.get(score.method, "")) for score in comparison.scores
    ]
    ran = {score.method for score in comparison.scores}
    empty = (math.nan,) * (len(Score._fields) - 1)
    rows += [(name, *empty, note) for name, note in comparison.notes.items() if name not in ran]
    return {name: [row[i] for row in rows] for i, name in enumerate((*Score._fields, "note"))}
