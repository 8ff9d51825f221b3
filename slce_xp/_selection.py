"""`feature_path`: validate → class statistics → a lasso for each λ → path."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from slce_xp import _backend, _fit, _parameters
from slce_xp._backend import Place
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import Labels, as_labels
from slce_xp._data.open import open_rows
from slce_xp._data.row_reader import RowReader
from slce_xp._errors import invalid, naming, wrong_type
from slce_xp._feature_path import FeaturePath
from slce_xp._make_plan import working_dtype_name
from slce_xp._planning import sizes
from slce_xp._planning.memory import BLOCKS_ALIVE, READ_BLOCK, Limits
from slce_xp._progress import Progress
from slce_xp._warnings import ConvergenceWarning
from slce_xp.core import eigen, selection
from slce_xp.core.groups import Groups
from slce_xp.core.moment_sums import moments_of
from slce_xp.core.operators import CentroidOperator
from slce_xp.core.rows import Rows, block_bytes
from slce_xp.core.selection import SparsePath, Step

PENALTIES = ("group", "centroid-encoder")
TARGETS = ("centroids", "scores")
# The default path: so many λ, evenly spaced by their logarithms, down to this share of the largest.
N_LAMBDAS, LEAST_LAMBDA = 100, 1e-3
DEFAULT_FEATURES = 50


def feature_path(
    X: Any,
    y: Any,
    *,
    penalty: str = "group",
    n_features: int | None = None,
    ridge: float = 0.0,
    gap: float = 1e-5,
    lambdas: Any = None,
    targets: str = "centroids",
    n_components: int | None = None,
    sample_weight: Any = None,
    class_weight: str | dict[Any, float] | None = None,
    unlabeled: Any = None,
    backend: str | ModuleType | None = None,
    device: Any = None,
    max_memory: int | str | None = None,
) -> FeaturePath:
    r"""Select features: those that reconstruct the class centroids, for a falling penalty.

    For ``penalty="group"`` the multi-task lasso

    .. math:: \min_W \tfrac1{2n} \lVert \tilde C - X W \rVert_F^2
        + \lambda \sum_j \lVert W_j \rVert_2 + \tfrac\rho2 \lVert W \rVert_F^2 ,

    which sets all coefficients of a feature to zero, or none. Its :math:`\tilde C`, the centroid of
    each sample's class, is replaced by its coordinates in a basis of the centroids' span, at most
    K − 1 columns, which changes nothing. For ``penalty="centroid-encoder"`` the sparse linear
    centroid-encoder of Ghosh and Kirby,

    .. math:: \min_b \tfrac1{2n} \lVert \tilde C - X \operatorname{diag}(b) A A^T \rVert_F^2
        + \lambda \lVert b \rVert_1 + \tfrac\rho2 \lVert b \rVert^2 ,

    with :math:`A` from `slce_xp.fit`. Both are convex; each solution comes with a duality gap,
    which proves how far it is from the optimum. X is centred implicitly, never scaled: features of
    a larger spread are selected first, so scale columns that have different units.

    Parameters
    ----------
    X : array, sparse matrix, list of rows or data frame of numbers, shape (n, d)
        As for `slce_xp.fit`: a file is read in blocks, Dask chunks are processed where they are, a
        sparse matrix is not made dense.
    y : array, list, Series or Categorical, shape (n,)
        Class labels.
    penalty : {"group", "centroid-encoder"}
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
        For "group": "scores" replaces :math:`\tilde C` by orthonormal class scores,
        :math:`Y^T Y = n I`, so that directions in which centroids are close count as much as
        others.
    n_components : int, optional
        For "centroid-encoder", the components of A; by default number of classes − 1.
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
    UserWarning
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
        X, y, penalty=penalty, n_features=n_features, ridge=ridge, gap=gap, lambdas=lambdas,
        targets=targets, n_components=n_components, sample_weight=sample_weight,
        class_weight=class_weight, unlabeled=unlabeled, backend=backend, device=device,
        max_memory=max_memory,
    )  # fmt: skip
    warn_if_short(found, n_features if lambdas is None else 0, stacklevel=2)
    warn_if_unproved(found, gap, stacklevel=2)
    return found


def compute_path(
    X: Any,
    y: Any,
    *,
    penalty: str,
    n_features: int | None,
    ridge: float,
    gap: float,
    targets: str,
    n_components: int | None,
    sample_weight: Any,
    class_weight: Any,
    backend: str | ModuleType | None,
    device: Any,
    max_memory: int | str | None,
    unlabeled: Any = None,
    lambdas: Any = None,
) -> FeaturePath:
    """`feature_path` without its warnings."""
    start = time.perf_counter()
    _check_choice(penalty, "penalty", PENALTIES)
    _check_choice(targets, "targets", TARGETS)
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
    groups, kept = _labelled(labels)

    weights = np.ones(n) if labels.weights is None else labels.weights * labels.weight_unit
    weights = weights * (labels.codes < len(labels.classes))
    used_weights = {"sample_weight": sample_weight, "class_weight": class_weight}
    if labels.n_unlabeled:  # those without a label have no weight
        used_weights = {"sample_weight": weights, "unlabeled": unlabeled}
    directions = None
    if penalty == "centroid-encoder":
        model = _fit.fit(
            X, labels.codes, n_components, backend=backend, device=device,
            max_memory=max_memory, sample_weight=weights,
        )  # fmt: skip
        directions = model.components
    passes = _Passes()
    with _backend.computing(place):
        rows = _open(matrix, place, kept, passes, memory, n_features, len(labels.classes))
        operator = CentroidOperator(rows, groups, moments_of(rows, groups, by_column=True), 0)
        if directions is None:
            goal = selection.class_targets(operator, targets == "scores")
        else:
            goal = selection.encoder_targets(operator, directions)
        # Exponents of two: of λ and ridge in the units of X, and of the coefficients.
        unit = math.frexp(operator.scale)[1] - 1
        of_scores = unit if directions is None and targets == "scores" else 0
        path = SparsePath(operator, goal, math.ldexp(ridge, 2 * unit), rows.in_memory)
        penalties = path.largest * LEAST_LAMBDA ** (np.arange(N_LAMBDAS) / (N_LAMBDAS - 1))
        if given is not None:
            penalties = eigen.scaled(given, 2 * unit - of_scores)
        most = n_features if given is None else d + 1
        steps = list(_until(path.steps(penalties, gap), most))
        eigen.scaled_number(path.largest, of_scores - 2 * unit, "lambdas")  # warns of its range
    return FeaturePath(
        lambdas=eigen.scaled(np.array([step.penalty for step in steps]), of_scores - 2 * unit),
        supports=tuple(step.support for step in steps),
        coefficients=tuple(eigen.scaled(step.coefficients, of_scores) for step in steps),
        gaps=np.array([step.gap for step in steps]),
        penalty=penalty,
        targets=targets if directions is None else None,
        class_targets=eigen.scaled(goal.of_classes, of_scores - unit),
        ridge=ridge,
        classes=labels.classes,
        n_samples=rows.n,
        n_features=d,
        feature_names=_matrix.feature_names(X),
        place=f"{place}, {_backend.dtype_name(rows.dtype)}",
        passes=passes.count,
        seconds=time.perf_counter() - start,
        _data=(X, y, used_weights),
    )


class _Passes(Progress):
    """Counts passes over X."""

    count = 0

    def begin_pass(self, rows: int, of: int = 0) -> None:
        """Count a pass."""
        self.count += 1


def _check_choice(value: Any, name: str, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        valid = " or ".join(map(repr, choices))
        raise invalid(name, f"{name} must be {valid}; got {value!r}")


def _as_lambdas(lambdas: Any) -> np.ndarray:
    rule = "lambdas must be positive, finite numbers in falling order"
    try:
        values = np.asarray(lambdas, dtype=np.float64)
    except (TypeError, ValueError):
        raise wrong_type("lambdas", f"{rule}; got {lambdas!r}") from None
    if values.ndim != 1 or not values.size:
        raise invalid("lambdas", f"{rule}, at least one; got shape {values.shape}")
    if not (np.isfinite(values).all() and (values > 0).all() and (np.diff(values) < 0).all()):
        raise invalid("lambdas", f"{rule}; got {values[:5]}")
    return values


def _labelled(labels: Labels) -> tuple[Groups, np.ndarray | None]:
    """The groups of samples with a label and a positive weight, and their positions."""
    groups, kept = labels.counted()
    if groups.is_supervised:
        return groups, kept
    labelled = np.flatnonzero(groups.codes < groups.n_classes)
    weights = None if groups.weights is None else groups.weights[labelled]
    kept = labelled if kept is None else kept[labelled]
    groups = groups._replace(
        codes=groups.codes[labelled], weights=weights, n_groups=groups.n_classes
    )
    return groups, kept


def _open(
    matrix: Any,
    place: Place,
    kept: np.ndarray | None,
    progress: Progress,
    memory: int | None,
    n_features: int,
    n_classes: int,
) -> Rows:
    """X where it is computed with: moved there, or read block by block if it is too large."""
    n, d = matrix.shape
    item = 4 if working_dtype_name(matrix, place) == "float32" else 8
    limits = Limits(memory, _backend.free_bytes(place))
    is_dask, in_memory = _backend.is_dask(matrix), not isinstance(matrix, RowReader)
    # Features that are fetched, twice while some are added; class sums, targets and gradients.
    fetched = min(d, selection.LEAST_FETCHED * 4 + 8 * n_features)
    length = min(n, d) if in_memory and not is_dask else d
    need = item * (2 * fetched * length + 8 * n_classes * d) + 8 * fetched * fetched
    need += block_bytes(n, d, item)
    allowed = min((limit for limit in limits if limit is not None), default=math.inf)
    if need > allowed:
        message = (
            f"max_memory and the free memory of the device must allow about "
            f"{sizes.format_bytes(need)} for n_features={n_features} of {d} features; got "
            f"{sizes.format_bytes(int(allowed))}. Ask for fewer features, or allow more memory"
        )
        raise naming("max_memory", MemoryError(message))
    if in_memory and not is_dask and _backend.place_of(matrix) != place:
        size = _backend.byte_count(matrix)
        too_large = limits.room is not None and need + size > limits.room
        if too_large and RowReader.can_read(matrix):
            matrix = RowReader(matrix)
        else:
            matrix = _backend.move(matrix, place)
    per_row = BLOCKS_ALIVE * max(item * d, 1)
    read_rows = int(max(1, min(READ_BLOCK, allowed - need) // per_row))
    return open_rows(matrix, place=place, progress=progress, kept=kept, read_rows=read_rows)


def _until(steps: Iterator[Step], most: int) -> Iterator[Step]:
    """Steps of a path up to the first with so many features."""
    for step in steps:
        yield step
        if len(step.support) >= most:
            return


def warn_if_short(path: FeaturePath, n_features: int | None, stacklevel: int) -> None:
    """Warn if a path ends with fewer features than asked for."""
    wanted = default_count(path.n_features) if n_features is None else n_features
    found = max(map(len, path.supports))
    if found < wanted:
        warnings.warn(
            f"n_features={wanted} was asked for, but no λ down to {path.lambdas[-1]:.3g} "
            f"selects more than {found}. Ask for fewer; slce_xp.feature_path also takes smaller "
            "lambdas, and ridge > 0",
            stacklevel=stacklevel + 1,
        )


def warn_if_unproved(path: FeaturePath, gap: float, stacklevel: int) -> None:
    """Warn if the gap is not proved."""
    if path.gaps.max() > gap:
        warnings.warn(
            f"the relative duality gap is proved to {path.gaps.max():.1e} only, not to "
            f"gap={gap:g}: by rounding in {path.place}, or by features that are nearly "
            "combinations of others. Use float64, ridge > 0, or a larger gap",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )


def default_count(d: int) -> int:
    """The features that a path goes to by default."""
    return min(DEFAULT_FEATURES, d)
