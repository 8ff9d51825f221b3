"""Samples in the embeddings of models that did not see them: one model for each fold.

Folds share one pass over X: the sums of a training set are those of all samples minus the fold's.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, Sparse
from slce_xp._data.label_values import plain
from slce_xp._data.labels import BatchCodes, Labels, as_batch
from slce_xp._data.open import open_at
from slce_xp._errors import invalid, shown, warn
from slce_xp._folds import Folds
from slce_xp._model import Model
from slce_xp.core._batches import Batches
from slce_xp.core._centred import Centred, Frame
from slce_xp.core._groups import Groups
from slce_xp.core._label_free import principal_scores
from slce_xp.core._moments import NEAR, GroupMoments
from slce_xp.core._problem import Problem
from slce_xp.core._rows import MemoryRows, Rows

# Second moments of all folds may take so many bytes: otherwise each fold is fitted by itself.
MOST_SHARED = 2**30


class Held(NamedTuple):
    """What the model of a fold makes of samples.

    Attributes
    ----------
    embedded : array, shape (n, k)
        All samples.
    likely : array, shape (m, K)
        Log-likelihoods of classes, up to a constant of each sample, of held-out samples.
    """

    embedded: Array
    likely: Array


def held_out(
    fit: Callable[..., Model],
    model: Model,
    X: Any,
    y: Any,
    matrix: Any,
    labels: Labels,
    folds: Folds,
    options: dict[str, Any],
) -> Iterator[Held]:
    """The embedding of all samples by the model of each fold.

    Parameters
    ----------
    fit : function
        `slce_xp.fit`.
    model : Model
        Of all samples.
    X, y
        As they were fitted.
    matrix, labels
        The same, as `fit` converts them.
    folds : Folds
    options : dict
        Further parameters of the fit.
    """
    if options.get("batch") is not None:
        _check_batches(as_batch(options["batch"], len(labels.codes)), labels, folds)
    shared = None
    if _shares(model, labels, folds, options):
        shared = _shared_models(model, matrix, labels, folds)
    for fold in range(folds.n_folds):
        held = np.flatnonzero(folds.codes == fold)
        if shared is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what concerns all folds was said
                one = fit(X, y, model.n_components, **_without(held, labels, options))
                embedded = embed(one, X, options)
            # The weights of samples hold those of a dict, but not the odds, which are of classes.
            one = dataclasses.replace(one, log_odds=model.log_odds)
        else:
            one, embedded = shared[fold]
        place = _backend.place_of(embedded)
        with _backend.computing(place):
            part = place.xp.take(embedded, _backend.from_host(held, place), axis=0)
            likely = one._scores(part)
        yield Held(embedded, likely)


def embed(model: Model, X: Any, options: dict[str, Any]) -> Array:
    """The embedding of the samples of a fit with these options, computed."""
    embedded = model.transform(X, batch=options.get("batch"))
    return embedded.compute() if _backend.is_dask(embedded) else embedded


def _check_batches(batch: BatchCodes, labels: Labels, folds: Folds) -> None:
    """Raise ValueError if a training set cannot tell batches from classes; warn if one is lost."""
    n_classes = len(labels.classes)
    lost: set[Any] = set()
    for train, _ in folds.splits():
        present, codes = np.unique(batch.codes[train], return_inverse=True)
        groups = Groups(labels.codes[train], n_classes, n_classes)
        if not all(mask.all() for mask in Batches.of(groups, codes).joined):
            raise invalid(
                "batch",
                "batch must be distinguishable from the classes in every training set of the "
                "folds; one fold holds out all samples that link some batches to the others. Use "
                "fewer folds, leave out calibrate, or leave out batch",
            )
        lost.update(plain(np.delete(batch.labels, present)))
    if lost:
        listed = [label for label in plain(batch.labels) if label in lost]
        warn(
            f"batches {shown(listed[:10])} are held out whole by a fold, whose model cannot "
            "correct their samples. Use fewer folds, leave out calibrate, or drop these batches",
        )


def _without(held: np.ndarray, labels: Labels, options: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a fit that drops samples; others keep the weight that they have."""
    weights = np.ones(len(labels.codes)) if labels.weights is None else labels.weights.copy()
    weights *= labels.weight_unit
    weights[held] = 0.0
    return {**options, "sample_weight": weights, "class_weight": None, "calibrate": False}


def _shares(model: Model, labels: Labels, folds: Folds, options: dict[str, Any]) -> bool:
    """Whether folds share sums: a matrix is formed, and there is memory for one for each fold."""
    size = model.n_samples if model.plan.form == "gram" else model.n_features
    is_plain = all(options.get(name) is None for name in ("max_memory", "batch", "missing"))
    is_formed = model.plan.form != "krylov" and model.criterion == "centroid"
    fits = (folds.n_folds + 4) * size**2 * 8 <= MOST_SHARED
    return is_plain and is_formed and fits and labels.weights is None


def _shared_models(
    model: Model, matrix: Any, labels: Labels, folds: Folds
) -> list[tuple[Model, Array]] | None:
    """The model of each fold and the embedding of all samples; None if sums leave the range.

    In the Gram form, models are of samples in their principal axes.
    """
    place = _backend.place_of(model.mean)
    with _backend.computing(place):
        rows = open_at(matrix, place)
        centre = place.xp.astype(model.mean, rows.dtype, copy=False)
        if model.plan.form == "gram":
            scores, _, unit = principal_scores(rows, exact=True)
            rows, centre = MemoryRows(scores * unit), place.xp.zeros_like(scores[0, :])
        frame = Frame(1.0, centre)
        parts = _moments_by_fold(rows, frame, labels, folds)
        if parts is None:
            return None
        models = [_model_of(model, moments) for moments in parts]
        axes = place.xp.concat([one.components.T for one in models], axis=1)
        groups = Groups(labels.codes, len(labels.classes), len(labels.classes))
        offset = _backend.read(place.xp.sum(centre * centre))[0]
        is_near = rows.n * float(offset) <= NEAR * parts[0].summed
        embedded = Centred(rows, groups, frame, is_near=is_near).times(axes)
        found, k = [], model.n_components
        for i, one in enumerate(models):
            offset = (one.mean - centre) @ one.components.T
            found.append((one, embedded[:, i * k : (i + 1) * k] - offset))
        return found


def _moments_by_fold(
    rows: Rows, frame: Frame, labels: Labels, folds: Folds
) -> list[GroupMoments] | None:
    """Moments of the training set of each fold: one pass over X."""
    n_classes, n_folds = len(labels.classes), int(folds.codes.max()) + 1
    parts = n_folds + int((folds.codes < 0).any())  # the last one is in all training sets
    part = np.where(folds.codes < 0, n_folds, folds.codes)
    cells = part * n_classes + labels.codes
    rows.prepare_for_second_moment()
    # Each block adds to sums of this size.
    rows.block_bytes = max(rows.block_bytes, parts * rows.d**2 * rows.itemsize)
    term = partial(_fold_term, frame, parts, parts * n_classes)
    sums, seconds = rows.sum(term, 3 * rows.d, rows.put_codes(cells), part)
    totals = np.bincount(cells, minlength=parts * n_classes).reshape(parts, n_classes)
    xp = rows.place.xp
    sums = xp.reshape(sums, (parts, n_classes, rows.d))
    sums, seconds = (xp.sum(a, axis=0) - a for a in (sums, seconds))
    totals = totals.sum(axis=0) - totals.astype(np.float64)
    size = float(_backend.read(xp.linalg.trace(seconds[0, :, :]))[0])
    info = np.finfo(_backend.dtype_name(rows.dtype))
    if not float(info.tiny) ** (1 / 3) < size < float(info.max) ** (1 / 3):
        return None
    squares = xp.linalg.diagonal(seconds)[:, None, :]
    return [
        GroupMoments(
            totals[i], sums[i, :, :], squares[i, :, :], frame.centre, seconds[i, :, :], summed=size
        )
        for i in range(n_folds)
    ]


def _fold_term(
    frame: Frame, parts: int, height: int, block: Array, cells: Array, part: np.ndarray
) -> tuple[Array, Array]:
    """Sums of a block by fold and class, (height, d), and second moments by fold, (parts, d, d)."""
    xp, _ = place = _backend.place_of(cells)
    rows = frame.dense(block.dense() if isinstance(block, Sparse) else block)
    sums = _backend.sums_by_code(rows, cells, height, None)
    rows = xp.take(rows, _backend.from_host(np.argsort(part, kind="stable"), place), axis=0)
    edges = itertools.pairwise([0, *map(int, np.cumsum(np.bincount(part, minlength=parts)))])
    return sums, xp.stack([_backend.gram(rows[a:b, :]) for a, b in edges])


def _model_of(model: Model, moments: GroupMoments) -> Model:
    """The model of a training set, with as many components as that of all samples."""
    values, vectors = _backend.largest_eigenpairs(Problem(moments).matrix(), model.n_components)
    return dataclasses.replace(
        model,
        components=vectors.T,
        eigenvalues=values,
        mean=moments.mean,
        centroids=moments.centroids,
        weights=moments.class_weights,
    )
