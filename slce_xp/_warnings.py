"""Warnings about a fitted model."""

from __future__ import annotations

import numpy as np

from slce_xp import _parameters
from slce_xp._errors import ConvergenceWarning, warn
from slce_xp.core import _eigen
from slce_xp.core._krylov import Request
from slce_xp.core._problem import FORMED, Problem
from slce_xp.core._solution import Solution

# Share of the scatter of X above which one column decides alone what is found.
DOMINANT = 0.9
# The spread of a column is known if it exceeds this many times what rounding of its mean leaves.
KNOWN_SPREAD = 1e4
# Share of the loss up to which it does not matter whether a direction lowers it.
MUCH = 1e-3


def warn_if_unconverged(solution: Solution, request: Request) -> None:
    """Warn if an iteration ended too early."""
    if not solution.converged:
        warn(
            f"after {solution.passes} passes the residual, relative to the scatter of X, is above "
            f"tol={request.tol:g}, or it is not proved that these are the leading components; "
            f"raise max_iter={request.max_iter}, max_memory or tol, or use a dense solver",
            ConvergenceWarning,
        )


def note_on_units(problem: Problem, rounding: float, names: np.ndarray | None) -> str:
    """What a column of much larger units than others does to the fit; warns of it, too."""
    sizes, d = problem.sizes, problem.d
    largest = int(np.argmax(sizes.squares))
    share = float(sizes.squares[largest]) / (sizes.total or 1.0)
    eps = _eigen.eps_of(problem.moments.sums)
    known = sizes.squares > KNOWN_SPREAD * eps**2 * problem.moments.weight * sizes.means**2
    # In float32, rounding reaches columns that are merely small.
    lost = known & (sizes.squares < 2.0 * rounding) & (eps < 1e-10) & (sizes.squares > 0.0)
    name = repr(str(names[largest])) if names is not None else str(largest)
    note = ""
    if lost.any():
        note = f"column {name} drowns {int(lost.sum())} of {d} columns in rounding"
    elif d > 1 and share > DOMINANT:
        note = f"column {name} carries {100 * share:.0f} % of the scatter of X"
    if note:
        note += ": standardise the columns if their units differ"
        warn(note)
    return note


def is_hidden(problem: Problem, solution: Solution, total_loss: float) -> bool:
    """Whether eigenvalues that count as zero may be positive, and much of the loss."""
    (largest,), level = solution.values[:1], solution.zero_level
    differs = total_loss > FORMED * _eigen.eps_of(problem.between) * problem.total
    is_large = differs and level > MUCH * total_loss and abs(largest) <= level
    return bool(largest > solution.rounding or is_large)


def warn_if_useless(
    n_components: int | float | str | None,
    kept: int,
    low: int,
    high: int,
    *,
    is_iterated: bool,
    is_hidden: bool,
) -> None:
    """Warn if components do not lower the loss, or may not; `low` to `high` do, `kept` remain.

    By default there may be some of those, which only an iteration does not find.
    """
    is_share = _parameters.as_share(n_components) is not None
    counts_itself = is_share or n_components == "positive"
    if counts_itself and kept == low < high:
        request = n_components if is_share else repr(n_components)
        warn(
            f"n_components={request} has {low} components, but up to {high} eigenvalues may be "
            "positive: the others cannot be distinguished from zero. Use a dense solver or float64",
        )
    elif high == 0:
        effect = "the model has no components" if not kept else "the embedding is of little use"
        if is_hidden:
            warn(
                f"no direction is known to lower the loss, so {effect}: what they change cannot be "
                "resolved, see Model.zero_level. Use a smaller tol, a dense solver or float64, or "
                "remove what is larger than the differences of classes, such as effects of batches"
            )
            return
        remedy = "" if kept else ". n_components=1 gives the best single direction"
        warn(f"no direction lowers the loss, so {effect}: the classes overlap too much{remedy}")
    elif (n_components is not None or is_iterated) and not counts_itself and low < kept:
        known = "lower" if low == high else "are known to lower"
        others = ", and an iteration does not find the others" * is_iterated
        request = f"n_components={kept} was asked for, but"
        if n_components is None:
            request = f"of {kept} components,"
        warn(
            f"{request} only the first {low} {known} the loss{others}; n_components='positive' "
            f"keeps those{' and a dense solver has all' * is_iterated}"
        )
