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
from slce_xp.core._rows import Rows


def importance(components: Array, eigenvalues: Array) -> Array:
    """The root of d times the share that each feature has in the loss removed, (k, d) ↦ (d,)."""
    xp, _ = place = _backend.place_of(components)
    removed = np.maximum(_backend.to_host(eigenvalues).astype(np.float64), 0.0)
    shares = _backend.from_host(removed / (removed.sum() or 1.0), place, components.dtype)
    return xp.sqrt(components.shape[1] * (shares @ (components * components)))


def structure(rows: Rows, axes: Array, shifted: Callable[[Array], Array]) -> Array:
    """Correlations of columns of X with those of the embedding, (d, k): three passes.

    Parameters
    ----------
    rows : Rows
    axes : array, shape (d, k)
    shifted : function
        What becomes of X·axes, up to a constant in each column.
    """
    xp, _ = rows.place
    moments, samples = centred_samples(rows)
    scores = shifted(samples.times(axes) / moments.scale)
    scores = scores - xp.mean(scores, axis=0)
    lengths = xp.sqrt(xp.sum(scores * scores, axis=0))
    scores = scores / xp.where(lengths > 0.0, lengths, xp.ones_like(lengths))
    squares = moments.column_squares
    varies = squares > moments.weight * moments.rounding_squares(_eigen.eps_of(squares))
    spread = xp.sqrt(xp.where(varies, squares, xp.ones_like(squares)))
    found = samples.combine(scores) / spread[:, None]
    return xp.where(varies[:, None], found, xp.zeros_like(found))


def centred_samples(rows: Rows) -> tuple[GroupMoments, Centred]:
    """The moments of rows of any kind about their mean, and the rows minus it: one pass."""
    one = Groups(np.zeros(rows.n, dtype=np.int64), 1, 1)
    moments = moments_of(rows, one, dense=True).about_mean()
    return moments, Centred(rows, one, Frame(moments.scale, moments.centre))
