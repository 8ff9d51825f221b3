"""`feature_path`: validate → class statistics → a lasso for each λ → path."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from slce_xp import _backend, _parameters
from slce_xp._backend import Place
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import Labels, as_labels
from slce_xp._data.open import open_rows
from slce_xp._data.row_reader import RowReader
from slce_xp._errors import invalid, naming, wrong_type
from slce_xp._feature_path import FeaturePath, default_count, warn_of_limits
from slce_xp._make_plan import sums_dtype
from slce_xp._planning import sizes
from slce_xp._planning.problem import BLOCKS_ALIVE, READ_BLOCK
from slce_xp._progress import Progress
from slce_xp.core import _eigen, _selection
from slce_xp.core._problem import problem_of
from slce_xp.core._rows import Rows, block_bytes
from slce_xp.core._selection import SparsePath

TARGETS = ("centroids", "scores")
# The default path: so many λ, evenly spaced by their logarithms, down to this share of the largest.
N_LAMBDAS, LEAST_LAMBDA = 100, 1e-3


def feature_path(
    X: Any,
    y: Any,
    *,
    n_features: int | None = None,
    ridge: float = 0.0,
    gap: float = 1e-5,
    lambdas: Any = None,
    targets: str = "centroids",
    sample_weight: Any = None,
    class_weight: str | dict[Any, float] | None = None,
    unlabeled: Any = None,
    backend: str | ModuleType | None = None,
    device: Any = None,
    max_memory: int | str | None = None,
) -> FeaturePath:
    r"""Select features: those that reconstruct the class centroids, for a falling penalty.

    By the multi-task lasso

    .. math:: \min_W \tfrac1{2n} \lVert \tilde C - X W \rVert_F^2
        + \lambda \sum_j \lVert W_j \rVert_2 + \tfrac\rho2 \lVert W \rVert_F^2 ,

    which sets all coefficients of a feature to zero, or none. Its :math:`\tilde C`, the centroid of
    each sample's class, is replaced by its coordinates in a basis of the centroids' span, at most
    K − 1 columns, which changes nothing. The problem is convex; each solution comes with a duality
    gap, which proves how far it is from the optimum. X is centred implicitly, never scaled:
    features of a larger spread are selected first, so scale columns that have different units.

    Parameters
    ----------
    X : array, sparse matrix, list of rows or data frame of numbers, shape (n, d)
        As for `slce_xp.fit`: a file is read in blocks, Dask chunks are processed where they are, a
        sparse matrix is not made dense.
    y : array, list, Series or Categorical, shape (n,)
        Class labels.
    n_features : int, optional
        The path ends at the first λ with this many features, from 1 to d. By default 50, or all if
        there are fewer.
    ridge : float
        ρ ≥ 0, in the units of a variance. Without it no more than n·(K − 1) coefficients are not
        zero; a large one ranks each feature by itself, as the analysis of variance does.
    gap : float
        The relative duality gap at which an iteration stops: a bound of (objective − optimum),
        relative to the objective without any feature.
    lambdas : array of float, optional
        Falling penalties. By default at most 100, evenly spaced by their logarithms, from the
        smallest λ without any feature to 1/1000 of it.
    targets : {"centroids", "scores"}
        "scores" replaces :math:`\tilde C` by orthonormal class scores, :math:`Y^T Y = n I`, so that
        directions in which centroids are close count as much as others.
    sample_weight : array or list, shape (n,), optional
        The weight of each sample: 2 duplicates it, 0 drops it.
    class_weight : "balanced" or dict, optional
        Weights by label.
    unlabeled : optional
        The value in y that marks samples without a label, or "missing" for None and NaN. They are
        left out.
    backend : {"numpy", "cupy", "torch", "jax", "dpnp"}, namespace or None
        Where to compute; None is where X is.
    device : optional
        A device of the backend.
    max_memory : int or str, optional
        Bytes that may be allocated in addition to X, such as "2GB"; if the estimate for
        `n_features` is larger, MemoryError is raised before any work.

    Returns
    -------
    FeaturePath
        Frozen, with supports, coefficients and duality gaps, on the host.

    Raises
    ------
    ValueError, TypeError
        For invalid input; the attribute ``parameter`` is the name of the parameter.
    MemoryError
        If the estimate does not fit into `max_memory` or the device.

    Warns
    -----
    ConvergenceWarning
        If the duality gap cannot be proved to `gap`: because of rounding, as in float32, or of
        features that are nearly combinations of others.
    SLCEWarning
        If the path ends with fewer than `n_features` features.

    See Also
    --------
    slce_xp.SLCESelector : The same as a scikit-learn selector, with stability selection.

    Examples
    --------
    >>> import numpy as np, slce_xp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(90, 200))
    >>> y = np.repeat(["a", "b", "c"], 30)
    >>> X[y == "b", 7] += 4
    >>> X[y == "c", 42] += 4
    >>> path = slce_xp.feature_path(X, y, n_features=10)
    >>> path.select(2)
    array([ 7, 42])
    """
    found = compute_path(
        X, y, n_features=n_features, ridge=ridge, gap=gap, lambdas=lambdas, targets=targets,
        sample_weight=sample_weight, class_weight=class_weight, unlabeled=unlabeled,
        backend=backend, device=device, max_memory=max_memory,
    )  # fmt: skip
    warn_of_limits(found, n_features if lambdas is None else 0, gap)
    return found


def compute_path(
    X: Any,
    y: Any,
    *,
    n_features: int | None,
    ridge: float,
    gap: float,
    targets: str,
    sample_weight: Any,
    class_weight: Any,
    backend: str | ModuleType | None,
    device: Any,
    max_memory: int | str | None,
    unlabeled: Any = None,
    lambdas: Any = None,
) -> FeaturePath:
    """`feature_path` without its warnings."""
    if not isinstance(targets, str) or targets not in TARGETS:
        valid = " or ".join(map(repr, TARGETS))
        raise invalid("targets", f"targets must be {valid}; got {targets!r}")
    matrix = _matrix.as_values(X)
    _matrix.check_sizes(matrix)
    n, d = matrix.shape
    labels = as_labels(y, n, sample_weight, class_weight, unlabeled)
    n_features = default_count(d) if n_features is None else n_features
    n_features = _parameters.as_count(n_features, "n_features", 1, d)
    ridge = _parameters.as_number(ridge, "ridge", 0.0, math.inf)
    gap = _parameters.as_number(gap, "gap", 0.0, 1.0, above=True)
    given = None if lambdas is None else _as_lambdas(lambdas)
    memory = sizes.parse_bytes(max_memory)
    place = _parameters.find_place(matrix, backend, device)
    used_weights = {"sample_weight": sample_weight, "class_weight": class_weight}
    if labels.n_unlabeled:
        labels = _without_unlabeled(labels)
        weights = labels.weights * labels.weight_unit  # type: ignore[operator]  # has zeros
        used_weights = {"sample_weight": weights, "unlabeled": unlabeled}
    groups, kept = labels.counted()
    passes = _Passes()
    with _backend.computing(place):
        rows = _open(matrix, place, kept, passes, memory, n_features, len(labels.classes))
        problem = problem_of(rows, groups, "krylov")
        goal = _selection.class_targets(problem, targets == "scores")
        # Exponents of two of the units: of rows, of λ, and of coefficients for class scores.
        unit = math.frexp(problem.moments.scale)[1] - 1
        of_scores = unit if targets == "scores" else 0
        of_lambda = 2 * unit - of_scores
        path = SparsePath(problem, goal, math.ldexp(ridge, 2 * unit), rows.in_memory)
        if given is None:
            penalties = path.largest * LEAST_LAMBDA ** (np.arange(N_LAMBDAS) / (N_LAMBDAS - 1))
            steps = list(path.steps(penalties, gap, n_features))
        else:
            steps = list(path.steps(_eigen.scaled(given, of_lambda), gap, d + 1))
        _eigen.scaled_numbers([path.largest], -of_lambda, "lambdas")  # warns of its range
    return FeaturePath(
        lambdas=_eigen.scaled(np.array([step.penalty for step in steps]), -of_lambda),
        supports=tuple(step.support for step in steps),
        coefficients=tuple(_eigen.scaled(step.coefficients, of_scores) for step in steps),
        gaps=np.array([step.gap for step in steps]),
        targets=targets,
        class_targets=_eigen.scaled(goal.of_classes, of_scores - unit),
        ridge=ridge,
        classes=labels.classes,
        n_samples=rows.n,
        n_features=d,
        feature_names=_matrix.feature_names(X),
        place=f"{place}, {_backend.dtype_name(rows.dtype)}",
        passes=passes.count,
        _data=(X, y, used_weights),
    )


class _Passes(Progress):
    """Counts passes over X."""

    count = 0

    def begin_pass(self, rows: int, of: int = 0) -> None:
        """Count a pass."""
        self.count += 1


def _as_lambdas(lambdas: Any) -> np.ndarray:
    rule = "lambdas must be positive, finite numbers in falling order, at least one"
    try:
        values = np.asarray(lambdas, dtype=np.float64)
    except (TypeError, ValueError):
        raise wrong_type("lambdas", f"{rule}; got {lambdas!r}") from None
    # With zero at the end, all that falls is positive; NaN compares false.
    falls = values.ndim == 1 and values.size and (np.diff(values, append=0.0) < 0.0).all()
    if not (falls and np.isfinite(values[0])):
        raise invalid("lambdas", f"{rule}; got shape {values.shape}, {values.ravel()[:5]}")
    return values


def _without_unlabeled(labels: Labels) -> Labels:
    """Labels whose samples without one have a weight of zero, which drops them."""
    weights = 1.0 if labels.weights is None else labels.weights
    weights = np.where(labels.codes < len(labels.classes), weights, 0.0)
    return labels._replace(weights=weights, n_unlabeled=0)


def _open(
    matrix: Any,
    place: Place,
    kept: np.ndarray | None,
    progress: Progress,
    memory: int | None,
    n_features: int,
    n_classes: int,
) -> Rows:
    """X at the place of the computation: moved there, or read in blocks if it is too large."""
    n, d = matrix.shape
    dtype = sums_dtype(matrix, place)
    item = _backend.itemsize(dtype)
    room = _backend.free_bytes(place)
    is_array = not (_backend.is_dask(matrix) or isinstance(matrix, RowReader))
    # Features that are fetched, twice while some are added; class sums, targets and gradients.
    fetched = min(d, 4 * _selection.LEAST_FETCHED + 8 * n_features)
    length = min(n, d) if is_array else d
    need = item * (2 * fetched * length + 8 * n_classes * d) + 8 * fetched * fetched
    need += block_bytes(n, d, item)
    allowed = min((limit for limit in (memory, room) if limit is not None), default=math.inf)
    if need > allowed:
        message = (
            f"max_memory and the free memory of the device must allow about "
            f"{sizes.format_bytes(need)} for n_features={n_features} of {d} features; got "
            f"{sizes.format_bytes(allowed)}. Ask for fewer features, or allow more memory"
        )
        raise naming("max_memory", MemoryError(message))
    if is_array and _backend.place_of(matrix) != place:
        too_large = room is not None and need + _backend.byte_count(matrix) > room
        if too_large and RowReader.can_read(matrix):
            matrix = RowReader(matrix)
        else:
            matrix = _backend.move(matrix, place)
    read_rows = int(min(READ_BLOCK, allowed - need) // (BLOCKS_ALIVE * item * d))
    return open_rows(matrix, dtype, place, progress, max(1, read_rows), kept=kept)
