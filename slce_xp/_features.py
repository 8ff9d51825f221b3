"""What components say about features: their importance, and correlations with the embedding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array
from slce_xp.core import _eigen
from slce_xp.core._centred import Centred, Frame
from slce_xp.core._groups import Groups
from slce_xp.core._moments import GroupMoments, moments_of
from slce_xp.core._problem import MULTIPLIED
from slce_xp.core._rows import Rows


def importance(components: Array, eigenvalues: Array) -> Array:
    """The root of d times the share that each feature has in the loss removed, (k, d) ↦ (d,)."""
    xp, _ = place = _backend.place_of(components)
    removed = np.maximum(_backend.to_host(eigenvalues).astype(np.float64), 0.0)
    removed = removed / (removed.max(initial=0.0) or 1.0)  # whose sum is in range
    shares = _backend.from_host(removed / (removed.sum() or 1.0), place, components.dtype)
    return xp.sqrt(components.shape[1] * (shares @ (components * components)))


def structure(
    rows: Rows,
    axes: Array,
    shifted: Callable[[Array], Array],
    scale: Array | None,
    eps: float,
) -> Array:
    """Correlations of columns of X with those of the embedding, (d, k): three passes.

    Parameters
    ----------
    rows : Rows
    axes : array, shape (d, k)
    shifted : function
        What becomes of X·axes, up to a constant in each column.
    scale : array, shape (d,), or None
        What the axes were divided by.
    eps : float
        Rounding of the axes.
    """
    xp, _ = rows.place
    moments, samples = centred_samples(rows)
    scores = shifted(samples.times(axes) / moments.scale)
    scores = scores - xp.mean(scores, axis=0)
    lengths = xp.sqrt(xp.sum(scores * scores, axis=0))
    squares = moments.column_squares
    # X does not vary along an axis if the scores are rounding of its rows and of the axis.
    sizes = squares + moments.weight * (moments.centre + moments.offset) ** 2
    units = xp.ones_like(sizes) if scale is None else xp.astype(scale, sizes.dtype)
    rounding = MULTIPLIED * max(eps, _eigen.eps_of(squares)) / moments.scale
    least = xp.sum(sizes / units**2) * xp.sum((axes * units[:, None]) ** 2, axis=0)
    known = lengths > rounding * xp.sqrt(least)
    lengths = xp.where(known, lengths, xp.ones_like(lengths))
    scores = xp.where(known, scores / lengths, xp.zeros_like(scores))
    varies = squares > moments.weight * moments.rounding_squares(_eigen.eps_of(squares))
    spread = xp.sqrt(xp.where(varies, squares, xp.ones_like(squares)))
    found = samples.combine(scores) / spread[:, None]
    return xp.where(varies[:, None], found, xp.zeros_like(found))


def centred_samples(rows: Rows) -> tuple[GroupMoments, Centred]:
    """The moments of rows of any kind about their mean, and the rows minus it: one pass."""
    one = Groups(np.zeros(rows.n, dtype=np.int64), 1, 1)
    moments = moments_of(rows, one, dense=True).about_mean()
    return moments, Centred(rows, one, Frame(moments.scale, moments.centre))
