"""Samples in coordinates that do not depend on labels: one basis for many labellings."""

from __future__ import annotations

import math

import numpy as np

from .. import _backend
from .._backend import Array
from ._centred import Centred, Frame
from ._groups import Groups
from ._moments import moments_of
from ._rows import Rows

# Up to so many samples are kept as they are: their n × n matrix is factored at once.
FEW_SAMPLES = 1200
# More are projected onto so many random directions, which keep squared distances to √(2 / r) of
# themselves: fewer if there are so many samples that scores would have more numbers than this.
DIRECTIONS, LEAST_DIRECTIONS, SCORES = 256, 32, 2**22


def principal_scores(
    rows: Rows, seed: int = 0, *, exact: bool = False
) -> tuple[Array, Array, float]:
    """Centred samples in the basis of their principal axes, in which scatters are diagonal.

    Distances between samples are those in X. If both n and d are large, X is projected onto random
    directions first, unless `exact`: distances are then about those in X.

    Returns
    -------
    scores : array, shape (n, r)
        r is at most min(n, d).
    squares : array, shape (r,)
        Their column sums of squares, ascending and not negative.
    unit : float
        Scores are in multiples of it, so that squares are within the range of the dtype.
    """
    groups = Groups(np.zeros(rows.n, dtype=np.int64), 1, 1)
    is_wide = rows.n <= rows.d and rows.has_outer
    count = max(LEAST_DIRECTIONS, min(DIRECTIONS, SCORES // rows.n))
    is_reduced = not exact and rows.n > FEW_SAMPLES and rows.d > count
    moments = moments_of(
        rows, groups, second=not (is_wide or is_reduced), dense=is_wide and not is_reduced
    ).about_mean()
    samples = Centred(rows, groups, Frame(moments.scale, moments.centre))
    xp, unit = rows.place.xp, 1.0 / moments.scale
    if is_wide and not is_reduced:
        values, vectors = _backend.eigh(samples.outer())
        values = xp.clip(values, 0.0)
        return vectors * xp.sqrt(values), values, unit
    if is_reduced:
        directions = samples.draw(seed, rows.d, count)
        scores = samples.times(directions / math.sqrt(count))
        values, vectors = _backend.eigh(_backend.gram(scores))
        scores = scores @ vectors
    else:
        values, vectors = _backend.eigh(moments.scatter())
        scores = samples.times(vectors)
    return scores, xp.clip(values, 0.0), unit
