"""`cross_embed`: every sample in the embedding of a model that did not see it."""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend, _parameters
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import as_labels
from slce_xp._errors import invalid, wrong_type
from slce_xp._fit import fit
from slce_xp._folds import as_group_codes, make_folds
from slce_xp._held_out import embed, held_out
from slce_xp._model import Model

CONFIDENCE = 0.95


class Ellipse(NamedTuple):
    """An approximate 95 % confidence ellipse of the mean of a class, in two components.

    Its boundary is ``centre + cos(t)·axes[0] + sin(t)·axes[1]``; with one component it is the
    interval ``centre ± axes[0]``.

    Attributes
    ----------
    label : object
        The class.
    centre : numpy.ndarray, shape (p,)
        The mean of its scores; p is 2, or 1 with one component.
    axes : numpy.ndarray, shape (p, p)
        Rows are half-axes, the longest first.
    """

    label: Any
    centre: np.ndarray
    axes: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CrossEmbedding:
    """Samples in embeddings of models that did not see them; see `slce_xp.cross_embed`.

    Arrays are of NumPy, on the host.

    Attributes
    ----------
    scores : numpy.ndarray, shape (n, k)
        The embedding of each sample by the model of the other folds, rotated onto that of all
        samples; NaN for samples that are in all training sets.
    y : numpy.ndarray, shape (n,)
        The labels.
    folds : numpy.ndarray of int, shape (n,)
        The fold that holds out each sample; −1 for samples that are in all training sets, because
        their class has no other sample, or group.
    confusion : numpy.ndarray of int, shape (K, K)
        How many samples of each class (rows) are predicted to be of each class (columns) by the
        model that did not see them.
    ellipses : tuple of Ellipse
        One for each class with enough samples, or groups: four, for two components.
    model : Model
        Of all samples.
    unit : {"samples", "groups"}
        What folds hold out together, and what ellipses are of.
    note : str
        Why there are fewer folds than asked for; empty if there are not.
    """

    scores: np.ndarray
    y: np.ndarray
    folds: np.ndarray
    confusion: np.ndarray
    ellipses: tuple[Ellipse, ...]
    model: Model
    unit: str = "samples"
    note: str = ""

    @property
    def classes(self) -> np.ndarray:
        """The labels, sorted, shape (K,)."""
        return self.model.classes

    @property
    def n_folds(self) -> int:
        """The number of folds."""
        return int(self.folds.max()) + 1

    @property
    def accuracy(self) -> float:
        """The share of held-out samples that `Model.predict` of their fold classifies correctly."""
        return float(np.trace(self.confusion) / self.confusion.sum())

    @property
    def balanced_accuracy(self) -> float:
        """The mean over classes of the share of their held-out samples that are correct."""
        sizes = self.confusion.sum(axis=1)
        return float((np.diagonal(self.confusion)[sizes > 0] / sizes[sizes > 0]).mean())

    def __str__(self) -> str:
        held = int((self.folds >= 0).sum())
        by = " of groups" * (self.unit == "groups")
        lines = [
            f"Out-of-fold embedding: {held} samples of {len(self.classes)} classes → "
            f"{self.scores.shape[1]} components, {self.n_folds} folds{by}",
            f"  accuracy  {100 * self.accuracy:.1f} % of held-out samples, "
            f"{100 * self.balanced_accuracy:.1f} % balanced over classes",
        ]
        if self.note:
            lines.append(f"  folds     {self.note}")
        if held < len(self.folds):
            names = ", ".join(map(str, np.unique(self.y[self.folds < 0])))
            lines.append(f"  training  {len(self.folds) - held} samples never held out: {names}")
        return "\n".join(lines)

    def plot(self, **options: Any) -> Any:
        """Plot the scores with an ellipse for each class: `slce_xp.plot.cross_embedding`.

        Parameters
        ----------
        **options
            Those of `slce_xp.plot.cross_embedding`.

        Returns
        -------
        matplotlib.axes.Axes
        """
        plot: Any = importlib.import_module("slce_xp.plot")  # which needs Matplotlib
        return plot.cross_embedding(self, **options)


def cross_embed(
    X: Any,
    y: Any,
    n_components: int | None = 2,
    cv: int = 10,
    groups: Any = None,
    *,
    random_state: int | None = 0,
    **options: Any,
) -> CrossEmbedding:
    """Embed each sample by a model that did not see it.

    In the embedding of the samples that a model was fitted to, classes look separate even if labels
    are random. Here each fold of samples is embedded by a model of the others, and that is rotated
    onto the model of all samples; so are the predictions.

    Parameters
    ----------
    X : array, sparse matrix, list of rows, data frame or row-sliceable object, shape (n, d)
        As for `slce_xp.fit`.
    y : array, list, Series or Categorical, shape (n,)
        Class labels, one for every sample.
    n_components : int or None
        At most, and by None, the number of classes − 1.
    cv : int
        The number of folds, which are stratified. There are fewer if a class has fewer samples, or
        groups; classes with one are in all training sets.
    groups : array, list or Series, shape (n,), optional
        What samples were measured on, such as mice, if there are several of each: those of a group
        are held out together, and ellipses are of means of groups.
    random_state : int or None
        Seed of the folds, and of the fit.
    **options
        Further parameters of `slce_xp.fit`; not `unlabeled`.

    Returns
    -------
    CrossEmbedding

    Raises
    ------
    ValueError, TypeError
        As in `slce_xp.fit`; also if each class has one sample, or group, and if a fold holds out
        all samples that tell batches from classes.

    Warns
    -----
    SLCEWarning
        As in `slce_xp.fit`; also if a fold holds out all samples of a batch.

    See Also
    --------
    slce_xp.permutation_test : Whether classes differ by more than chance.

    Notes
    -----
    Scores of the training samples of each fold are centred and rotated by the orthogonal matrix
    that maps them onto those of the model of all samples best (Procrustes), and held-out samples
    likewise. Folds of criterion "centroid", without weights, share one pass over X if a matrix is
    formed; otherwise each is a fit.

    Examples
    --------
    >>> import numpy as np, slce_xp
    >>> X = np.random.default_rng(0).normal(size=(60, 500))
    >>> y = np.repeat(["a", "b", "c"], 20)  # means nothing
    >>> bool((slce_xp.fit(X, y).predict(X) == y).mean() > 0.95)
    True
    >>> print(slce_xp.cross_embed(X, y))
    Out-of-fold embedding: 60 samples of 3 classes → 2 components, 10 folds
      accuracy  35.0 % of held-out samples, 35.0 % balanced over classes
    """
    for name in ("unlabeled", "unlabeled_weight"):
        if name in options:
            message = f"{name} must be left out: every sample is held out, and needs a label"
            raise wrong_type(name, message)
    matrix = _matrix.as_values(X)
    _matrix.check_sizes(matrix)
    n, d = matrix.shape
    labels = as_labels(y, n, options.get("sample_weight"), options.get("class_weight"))
    if labels.weights is not None and not labels.weights.all():
        raise invalid(
            "sample_weight",
            "sample_weight must be positive, for every sample is held out; got a weight of 0. "
            "Leave such samples out",
        )
    most = min(len(labels.classes) - 1, d)
    k = most
    if n_components is not None:
        k = min(most, _parameters.as_count(n_components, "n_components", 1))
    seed = _parameters.as_seed(random_state)
    units = None if groups is None else as_group_codes(groups, n)
    cv = _parameters.as_count(cv, "cv", 2)
    folds = make_folds(labels.codes, cv, seed, labels.classes, units)
    options = {**options, "random_state": seed}
    together = {"groups": groups} if options.get("calibrate") else {}
    model = fit(X, y, None if k == most else k, **options, **together)
    whole = _backend.to_host(embed(model, X, options)).astype(np.float64)
    size, info = float(np.abs(whole).max(initial=0.0)), np.finfo(np.float64)
    if size and not info.tiny < size * size < info.max / n**2:
        raise invalid(
            "X",
            "X must be of a size whose squares are within the range of float64, for scores are "
            f"rotated onto each other; got scores of up to {size:.2g}. Scale X",
        )
    scores = np.full(whole.shape, np.nan)
    confusion = np.zeros((len(labels.classes),) * 2, dtype=np.int64)
    found = held_out(fit, model, X, y, matrix, labels, folds, options)
    for fold, held in enumerate(found):
        test = np.flatnonzero(folds.codes == fold)
        scores[test] = _rotated(_backend.to_host(held.embedded).astype(np.float64), whole, test)
        predicted = _backend.to_host(held.likely).argmax(axis=1)
        np.add.at(confusion, (labels.codes[test], predicted), 1)
    return CrossEmbedding(
        scores,
        labels.classes[labels.codes],
        folds.codes,
        confusion,
        _ellipses(scores, labels.codes, labels.classes, units),
        model,
        "samples" if units is None else "groups",
        folds.note,
    )


def _rotated(scores: np.ndarray, onto: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Held-out scores, moved and rotated as it maps the others onto their target best."""
    n, unseen, other = len(scores) - len(held), scores[held], onto[held]
    ones = np.ones(len(scores))  # products with it are faster than sums of short rows
    centre = (ones @ scores - ones[held] @ unseen) / n
    origin = (ones @ onto - ones[held] @ other) / n
    products = scores.T @ onto - unseen.T @ other - n * np.outer(centre, origin)
    left, _, right = np.linalg.svd(products, full_matrices=False)
    return np.asarray((unseen - centre) @ (left @ right) + origin)


def _ellipses(
    scores: np.ndarray, codes: np.ndarray, classes: np.ndarray, units: np.ndarray | None
) -> tuple[Ellipse, ...]:
    """Confidence ellipses of class means, by Hotelling's T² of samples or of means of groups."""
    p = min(2, scores.shape[1])
    found = []
    for code, label in enumerate(classes):
        mine = np.flatnonzero(codes == code)
        mine = mine[np.isfinite(scores[mine, :1])[:, 0]]
        points = scores[mine, :p]
        if units is not None and len(mine):
            _, unit, sizes = np.unique(units[mine], return_inverse=True, return_counts=True)
            sums = np.zeros((len(sizes), p))
            np.add.at(sums, unit, points)
            points = sums / sizes[:, None]
        n = len(points)
        if not p or n <= p + 1:
            continue
        quantile = float(_backend.special().fdtri(p, n - p, CONFIDENCE))
        radius = math.sqrt(p * (n - 1) / (n - p) * quantile / n)
        values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(points.T)))
        axes = radius * np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        found.append(Ellipse(label, points.mean(axis=0), axes[::-1]))
    return tuple(found)
