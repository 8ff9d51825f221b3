"""The spread of samples about the centroids of their classes, along components."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .. import _backend
from .._backend import Array
from ._centred import Frame
from ._groups import Groups
from ._problem import Problem
from ._rows import Rows


def measured_spread(problem: Problem, vectors: Array, rows: Rows, groups: Groups) -> float:
    """The standard deviation within classes along components, of all together: one pass.

    Parameters
    ----------
    problem : Problem
    vectors : array, shape (d, k)
    rows : Rows
    groups : Groups
        Samples without a label are left out.

    Returns
    -------
    float
        In units of X.
    """
    moments, xp = problem.moments, problem.place.xp
    roots = np.ones(len(groups.codes)) if groups.weights is None else np.sqrt(groups.weights)
    has_label = groups.codes < groups.n_classes
    frame = Frame(moments.scale, moments.centre + moments.offset)
    means = (problem.between @ vectors) / xp.sqrt(moments.class_weights)[:, None]
    sums = rows.sum(
        partial(_within_term, frame, vectors, means),
        rows.d + 3 * vectors.shape[1],
        rows.put(np.where(has_label, roots, 0.0)),
        rows.put_codes(np.where(has_label, groups.codes, 0)),
    )
    (within,) = _backend.read(*sums)
    weight = float(moments.totals[: moments.n_classes].sum()) * max(1, vectors.shape[1])
    return math.sqrt(float(within) / weight) / moments.scale


def _within_term(
    frame: Frame, columns: Array, means: Array, block: Array, root: Array, codes: Array
) -> tuple[Array]:
    xp = _backend.namespace_of(columns)
    scores = frame.rows(block, root) @ columns
    scores = scores - root[:, None] * xp.take(means, codes, axis=0)
    return (xp.sum(scores * scores),)
