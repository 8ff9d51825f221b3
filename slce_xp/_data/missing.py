"""Missing values, filled with the means of their columns while X is read."""

from __future__ import annotations

from functools import partial

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array
from slce_xp._errors import invalid, warn
from slce_xp.core._rows import Rows

# Share of missing numbers from which on filling them costs accuracy: ten points at 20 %.
MANY = 0.05


def fill_with_means(rows: Rows, weights: np.ndarray | None, kept: np.ndarray | None) -> float:
    """Let rows have the means of columns for missing values; their share: one pass over X.

    A column may have no number in the rows that weights of zero leave, such as those of a fold: it
    is constant there, and has no effect. One without any number is an error.
    """
    if rows.is_sparse or rows.is_chunked:
        raise invalid(
            "missing",
            "missing must be None for sparse matrices, whose missing entries are zeros, and for "
            "Dask arrays; got 'mean'. Fill X yourself",
        )
    term = partial(_present_term, rows.dtype)
    sums, totals, present = rows.sum(term, 4 * rows.d, rows.put(weights))
    counts, there = _backend.read(totals, present)
    if kept is None and not (counts > 0).all():
        raise invalid(
            "missing",
            f"missing='mean' needs a number in every column; column {int(np.argmin(counts))} has "
            "none. Leave it out",
        )
    xp = rows.place.xp
    rows.fill = sums / xp.where(totals > 0, totals, xp.ones_like(totals))
    share = 1.0 - float(there.sum(dtype=np.float64)) / (rows.n * rows.d)
    warn_if_many(share)
    return share


def warn_if_many(share: float) -> None:
    """Warn if so large a share of X was missing that filling it costs accuracy."""
    if share > MANY:
        warn(
            f"{100 * share:.0f} % of X is missing and was filled with the means of columns: that "
            "many draw samples together. Leave out columns or rows with few numbers"
        )


def _present_term(dtype: object, block: Array, weights: Array | None) -> tuple[Array, ...]:
    xp = _backend.namespace_of(block)
    block = xp.astype(block, dtype, copy=False)
    missing = xp.isnan(block)
    values = xp.where(missing, xp.zeros_like(block), block)
    there = xp.astype(~missing, block.dtype)
    present = xp.sum(there, axis=0)
    if weights is None:
        return xp.sum(values, axis=0), present, present
    return weights @ values, weights @ there, present
