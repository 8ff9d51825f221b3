"""Warnings about a fitted model."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._model import Model
from slce_xp.core import krylov
from slce_xp.core.solution import Request, Solution


class ConvergenceWarning(UserWarning):
    """Warning that a fit stopped before its residuals reached the tolerance.

    The model can be used; `Model.residuals` has the residual of each component. More passes
    (`max_iter`), more memory, a larger `tol` or a dense solver help.

    Examples
    --------
    >>> import warnings, numpy as np, slce_xp
    >>> X = np.random.default_rng(0).normal(size=(300, 200))
    >>> X[:150, :3] += 3
    >>> y = np.repeat([0, 1], 150)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = slce_xp.fit(X, y, solver="krylov", max_iter=1)
    >>> caught[0].category.__name__, bool(model.residuals[0] > 1e-8)
    ('ConvergenceWarning', True)
    """


def warn_if_unconverged(model: Model, solution: Solution, request: Request) -> None:
    """Warn if the model is not as exact as was asked for."""
    late = ""
    if not solution.converged and solution.residuals is None:
        late = (
            "components are less exact than rounding allows: the Gram form cannot resolve such "
            "small eigenvalues. Use solver='scatter' or float64"
        )
    elif not solution.converged and solution.residuals is not None:
        proved = "it is not proved that these are the leading components"
        if math.isfinite(solution.angle_bound):
            proved = f"the angle to the exact subspace is proved to {solution.angle_bound:.1e} only"
        late = (
            f"after {solution.passes} passes {proved}, with tol={request.tol:g}, and the largest "
            f"residual is {solution.residuals.max(initial=0.0):.1e}; raise "
            f"max_iter={request.max_iter}, max_memory or tol, or use a dense solver"
        )
    elif (
        solution.residuals is None
        and 0.0 < krylov.ROUNDING_SLACK * request.tol < solution.angle_bound
        # With components that do not lower the loss the exact subspace is of no interest.
        and model.n_positive == model.n_components
    ):
        late = (
            f"the angle to the exact subspace is proved to {solution.angle_bound:.1e} only, with "
            f"tol={request.tol:g}: the last eigenvalue is hardly larger than the next. Use another "
            "n_components, or a larger tol"
        )
    if late:
        warnings.warn(late, ConvergenceWarning, stacklevel=3)


def components_for(share: Any, model: Model) -> int:
    """How many components of a model with all that lower the loss remove a share of it."""
    removed = np.cumsum(_backend.to_host(model.loss_shares), dtype=np.float64)
    count = int(np.searchsorted(removed, share)) + 1
    if 0 < len(removed) < count:
        warnings.warn(
            f"n_components={share} is more than the share of the loss that components remove, "
            f"which is {removed[-1]:.4f} for all {len(removed)} that lower it; these are kept",
            stacklevel=3,
        )
    return min(count, len(removed))


def warn_if_useless(n_components: int | float | str | None, k: int, low: int, high: int) -> None:
    """Warn if components do not lower the loss, or may not; `low` to `high` of k do."""
    if n_components == "positive" and low < high:
        warnings.warn(
            f"n_components='positive' has {low} components, but up to {high} eigenvalues may be "
            "positive: the others cannot be distinguished from zero. Use a dense solver or float64",
            stacklevel=4,
        )
    elif n_components == "positive" and high == 0:
        warnings.warn(
            "no direction lowers the loss, so the model has no components: the classes "
            "overlap too much. n_components=1 gives the best single direction",
            stacklevel=4,
        )
    elif high == 0:
        warnings.warn(
            "no direction lowers the loss, so the embedding is of little use: the classes overlap "
            "too much",
            stacklevel=4,
        )
    elif n_components not in (None, "positive") and low < k:
        known = "lower" if low == high else "are known to lower"
        warnings.warn(
            f"n_components={k} was asked for, but only the first {low} {known} the loss; "
            "n_components='positive' keeps those",
            stacklevel=4,
        )
