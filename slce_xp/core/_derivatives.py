r"""Derivatives of simple eigenpairs, the same for every form.

.. math:: d\mu_i = a_i^T\, dM\, a_i, \qquad da_i = (\mu_i I - M)^+ dM\, a_i

The change of :math:`M a_i` is that of products with the samples, which Torch and JAX differentiate;
the pseudo-inverse is applied by conjugate gradients orthogonally to the components, where
:math:`\mu_i I - M` is positive definite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .. import _backend
from .._backend import Array
from .._errors import invalid, traced
from . import _given


def differentiated(
    solve: Callable[[Array, Any], Any],
    x: Array,
    codes: np.ndarray,
    n_classes: int,
    weights: Any,
    unlabeled_weight: float,
) -> Any:
    """The eigenpairs that `solve` finds, with derivatives in x and weights."""
    place = _backend.place_of(x)
    if weights is not None:
        weights = _given.as_traced(weights, "weights", x.shape[0], place)
    there = _backend.from_host(codes, place)
    is_labeled = None
    if codes.max() == n_classes:
        is_labeled = _backend.from_host(codes < n_classes, place)[:, None]

    def times(x: Array, weights: Any, columns: Array) -> tuple[Array, Array]:
        """M·V, (d, b) ↦ (d, b), and the mean."""
        xp = place.xp
        w = xp.ones_like(x[:, :1]) if weights is None else xp.astype(weights, x.dtype)[:, None]
        mean = (w.T @ x)[0, :] / xp.sum(w)
        scores = x @ columns - mean @ columns
        height = n_classes + (is_labeled is not None)
        totals = _backend.sums_by_code(w, there, height)
        means = _backend.sums_by_code(w * scores, there, height) / totals
        pulls = 2.0 * xp.take(means, there, axis=0) - scores
        if is_labeled is not None:
            pulls = xp.where(is_labeled, pulls, unlabeled_weight * scores)
        pulls = w * pulls
        return x.T @ pulls - mean[:, None] * xp.sum(pulls, axis=0), mean

    def surrogate(found: Any, x: Array, weights: Any) -> tuple[Array, Array, Array]:
        axes = found.components.T
        image, mean = times(x, weights, axes)
        return place.xp.sum(axes * image, axis=0), mean, image.T

    def correct(found: Any, x: Array, weights: Any, change: Array) -> Array:
        """(μI − M)⁺ times the rows of a change, (k, d) ↦ (k, d)."""
        xp, axes, values = place.xp, found.components, found.values
        gaps = values[:, None] - values[None, :]
        is_same = gaps == 0.0
        inside = change @ axes.T
        share = xp.where(is_same, 0.0 * gaps, inside / xp.where(is_same, 1.0 + 0.0 * gaps, gaps))

        def outside(rows: Array) -> Array:
            return rows - (rows @ axes.T) @ axes

        def operator(columns: Array) -> Array:
            rows = outside(columns.T)
            return outside(values[:, None] * rows - times(x, weights, rows.T)[0].T).T

        rest = _backend.conjugate_gradients(operator, outside(change).T)
        return share @ axes + outside(rest.T)

    def checked(x: Array, weights: Any) -> Any:
        if _backend.is_traced(x) or _backend.is_traced(weights):
            raise traced("x", "eigenpairs reads values to know when to stop. Call it outside")
        found = solve(x, weights)
        if not np.isfinite(found.angle_bounds).all():
            first = int(np.argmin(np.isfinite(found.angle_bounds)))
            raise invalid(
                "x",
                "x must have simple eigenvalues for derivatives: eigenvalue number "
                f"{first + 1} cannot be told from the next one. Ask for fewer eigenpairs, or pass "
                "x without gradients",
            )
        return found

    def outputs(found: Any) -> tuple[Array, Array, Array]:
        return found.values, found.mean, found.components

    found, (values, mean, components) = _backend.with_derivatives(
        checked, outputs, surrogate, correct, x, weights
    )
    return replace(found, values=values, mean=mean, components=components)
