"""PCA as exact as SLCE, to compare with: scikit-learn's default is randomized for most shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.report import largest_angle

# Stored entries times min(n, d), up to which a singular value decomposition takes a few seconds; it
# cannot be interrupted.
MOST_WORK = 4e9
INEXACT = 1e-3  # radians


def exact_solver(n: int, d: int, is_sparse: bool) -> str | None:
    """The faster of scikit-learn's exact solvers for a shape; None if it takes too long."""
    if n >= d:
        return "covariance_eigh" if n * d * d <= 10 * MOST_WORK else None
    return None if is_sparse or n * n * d > MOST_WORK else "full"


def angle_of_default(X: Any, k: int, solver: str) -> float:
    """The largest angle between the subspaces of scikit-learn's default PCA and of an exact one."""
    return largest_angle(PCA(k).fit(X).components_, PCA(k, svd_solver=solver).fit(X).components_)


def sentence_on_pca(results: Iterable[dict[str, Any]]) -> str:
    """How far default PCA is from an exact one."""
    angles = [a for r in results if (a := r.get("angle_of_PCA")) is not None]
    if not angles:
        return "No exact PCA was run."
    inexact = [angle for angle in angles if angle > INEXACT]
    return (
        f"*PCA* is scikit-learn's default. On {len(inexact)} of {len(angles)} problems "
        f"its subspace is more than {INEXACT:g} rad from the exact one"
        + (f" ({np.median(inexact):.1g} in the median of these)" if inexact else "")
        + ". *Exact PCA* is the faster of its exact solvers for the shape, on problems on which "
        "that takes seconds."
    )
