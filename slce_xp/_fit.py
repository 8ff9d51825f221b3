"""`fit`: validate → plan → solve → model."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from types import ModuleType
from typing import Any

import numpy as np

from slce_xp import _backend, _errors, _parameters
from slce_xp._backend import Place, Sparse
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import Labels, as_labels
from slce_xp._data.open import open_rows
from slce_xp._data.row_reader import RowReader
from slce_xp._model import ConvergenceWarning, Model
from slce_xp._planning import plan as _plan
from slce_xp._planning import sizes
from slce_xp._planning.plan import Limits, Plan, Problem
from slce_xp._progress import Bar, Progress
from slce_xp.core import eigen
from slce_xp.core.groups import Groups
from slce_xp.core.operators import ScatterOperator
from slce_xp.core.rows import Rows
from slce_xp.core.solution import Request, Solution
from slce_xp.core.solve import SOLVERS, solve
from slce_xp.core.sums import ONE_HOT_CLASSES

# The largest X of which a copy may be made, to bring extreme units into the range of the dtype.
COPY_BYTES = 2**28


def fit(
    X: Any,
    y: Any,
    n_components: int | float | str | None = None,
    *,
    backend: str | ModuleType | None = None,
    device: Any = None,
    solver: str = "auto",
    tol: float | None = None,
    max_iter: int = 50,
    max_memory: int | str | None = None,
    random_state: int = 0,
    sample_weight: Any = None,
    class_weight: str | dict[Any, float] | None = None,
    unlabeled: Any = None,
    unlabeled_weight: float = 1.0,
    progress: bool = False,
) -> Model:
    r"""Fit a Supervised Linear Centroid-Encoder.

    Finds the orthonormal :math:`A` with

    .. math:: \min_{A^T A = I} \lVert \tilde C - X A A^T \rVert_F^2 ,

    where each row of :math:`\tilde C`, of shape (n, d) as :math:`X`, is the centroid of that
    sample's class, and both are centred; :math:`A` has the shape (d, k). The solution is closed:
    the eigenvectors of :math:`S_b - S_w` (between-class minus within-class scatter) for its
    algebraically largest eigenvalues. The same criterion is known as the Maximum Margin Criterion.

    Parameters
    ----------
    X : array, sparse matrix, list of rows or data frame of numbers, shape (n, d)
        float32 and float64 are kept; integers and booleans become the library's default
        float, shorter floats are computed in float32. Never changed. Sparse matrices of SciPy,
        CuPy and torch are never made dense nor centred. A memmap, an HDF5 dataset, a zarr array
        or anything else with a shape, a dtype and rows ``X[i:j]`` is read in blocks, the next one
        while this one is worked on. Chunks of a Dask array are processed where they are.
    y : array, list, Series or Categorical, shape (n,)
        Class labels: integers, strings, booleans, dates. On any device or on the host.
        Continuous targets raise ValueError.
    n_components : int, float, "positive" or None
        Components to return, from 1 to d. None: number of classes − 1. "positive": only
        those that lower the loss, which may be none. A fraction between 0 and 1: as many of
        those as remove this share of the loss, the sum of `Model.loss_shares`; all of them, with
        a warning, if they remove less.
    backend : {"numpy", "cupy", "torch", "jax"}, namespace or None
        None computes on X's own device. A name moves X there, once; or block by block, if X is read
        in blocks or is too large for the device.
    device : optional
        A device of the backend, such as "cuda:1"; None is X's own or the backend's default.
    solver : {"auto", "scatter", "gram", "krylov"}
        The form of the eigenproblem: "scatter" builds d × d, "gram" n × n, "krylov" neither, with
        the fewest passes over X. They give the same answer; "auto" takes the one that `plan`
        finds cheapest, gives a matrix-free solve the schedule that is fastest in memory, and turns
        to a dense form once the passes taken have cost as much. "gram" is meant for fewer samples
        than features; with more it is less exact.
    tol : float, optional
        Residual ‖M a − μ a‖ / ‖M‖ at which the matrix-free form stops. None: 1e-8 in float64,
        4e-6 in float32. The dense forms are exact to rounding. It has no influence on which
        eigenvalues are called positive.
    max_iter : int
        Passes over X that the matrix-free form may take; a ConvergenceWarning reports the residual
        if they do not suffice.
    max_memory : int or str, optional
        Bytes that the fit may allocate in addition to X, such as "2GB"; blocks that are read count.
        If no form fits, MemoryError is raised before any work. On a GPU the free memory is a bound,
        too.
    random_state : int
        Seed for directions that are arbitrary by nature (null space of X) and for the start
        block of the matrix-free form.
    sample_weight : array or list, shape (n,), optional
        What each sample counts in means and scatters. A weight of 2 duplicates the sample; 0 drops
        it, whatever it holds.
    class_weight : "balanced" or dict, optional
        Weights by label that multiply those of the samples; "balanced" gives all classes the same
        weight in total.
    unlabeled : optional
        The value in y that marks a sample without a label, or "missing" for None and NaN. Such
        samples add their own reconstruction to the loss, as in PCA:
        :math:`M = 2 S_b - S_t(\text{labelled}) + \lambda S_t(\text{unlabelled})`, centred on all
        samples. More than K − 1 eigenvalues may then be positive. By default no value is special.
    unlabeled_weight : float
        That λ ≥ 0: 0 leaves them out but for the mean, a large one approaches PCA.
    progress : bool
        Whether to show passes, blocks, the residual and the time left (needs tqdm).

    Returns
    -------
    Model
        Frozen; its arrays are on the device that the fit was computed on.

    Raises
    ------
    ValueError, TypeError
        For invalid input; the message names the parameter, the rule and the remedy, and the
        attribute ``parameter`` is the name of the parameter.
    MemoryError
        If no form fits into `max_memory` or the device; raised before any work.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` passes did not suffice, or the components left are those of a dense form for
        which there is no memory.
    UserWarning
        If no component lowers the loss, or not all that were asked for do; if it is not known how
        many do (see `Model.n_positive_bounds`); if X is sparse and so far from the origin that
        centring loses digits; if eigenvalues are beyond the range of float64.

    See Also
    --------
    slce_xp.plan : Estimate the cost of a fit, without data.
    slce_xp.SLCE : The same as a scikit-learn transformer.

    Examples
    --------
    >>> import numpy as np, slce_xp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5))
    >>> y = np.repeat(["a", "b", "c"], 20)
    >>> X[y == "b", 0] += 9
    >>> X[y == "c", 1] += 9
    >>> print(slce_xp.fit(X, y))
    SLCE model: 5 features → 2 components
      fitted on    60 samples of 3 classes
      solved by    scatter form, numpy on cpu, float64
      eigenvalues  1503, 442.1
      loss         96.87 of 2042, 95.3 % removed (73.6, 21.6)
      components   all of them lower the loss
    """
    matrix = _matrix.as_matrix(X)
    _matrix.check_sizes(matrix)
    n, d = matrix.shape
    labels = as_labels(y, n, sample_weight, class_weight, unlabeled, unlabeled_weight)
    n_classes = len(labels.classes)
    groups, kept = labels.counted()
    k = _parameters.as_component_count(n_components, n_classes, d, groups.is_supervised)
    seed = _parameters.as_seed(random_state)
    max_iter = _parameters.as_count(max_iter, "max_iter", 1)
    memory = sizes.parse_bytes(max_memory)
    _check_solver(solver)
    place = _parameters.find_place(matrix, backend, device)

    dtype = working_dtype_name(matrix, place)
    matrix, problem, limits, plan = make_plan(
        matrix, place, Problem(n, d, n_classes, k, dtype, **costs(groups)), memory, solver
    )
    tol = _parameters.as_tolerance(tol, float(np.finfo(dtype).eps))
    bar = Bar(plan.passes) if progress else Progress()
    with contextlib.closing(bar), _backend.computing(place):
        if plan.where == _plan.MEMORY:
            matrix = _backend.move(matrix, place)
        rows = open_planned(matrix, place, plan, bar, kept, limits)
        dense = _dense_plan(problem, limits) if plan.form == "krylov" else None
        # Passes that cost as much as a dense form are better spent on that.
        patience = max_iter
        if dense is not None and solver == "auto":
            patience = max(3, round(plan.passes * dense.flops / plan.flops))
        request = Request(
            k=k,
            tol=tol,
            max_iter=min(max_iter, patience),
            max_rows=_plan.most_rows(plan, limits, problem.supervised),
            width=plan.width,
            wide_passes=plan.wide_passes,
            positive_only=_parameters.is_reduced(n_components),
            fill=dense is None,
            report=bar.residual,
        )
        operator, solution = solve(rows, groups, plan.form, request, seed)
        if dense is not None and _needs_dense_form(solution, request, solver, max_iter):
            taken, fewer = solution.passes, solution.eigenvalues.shape[0] < k
            plan = _after(plan, dense, fewer)
            rows = open_planned(matrix, place, plan, bar, kept, limits)
            operator, solution = solve(rows, groups, plan.form, request, seed)
            solution = dataclasses.replace(solution, passes=taken)
        model = make_model(operator, solution, labels, plan, n_components)
        bar.done()
    _warn_if_unconverged(solution, request)
    names = _matrix.feature_names(X)
    return model if names is None else dataclasses.replace(model, feature_names=names)


def make_model(
    operator: ScatterOperator,
    solution: Solution,
    labels: Labels,
    plan: Plan,
    n_components: int | float | str | None,
    dtype: Any = None,
) -> Model:
    """The model of a solution, in another dtype if need be; says what is of no use in it."""
    xp, _ = operator.place
    vectors = eigen.fix_signs(solution.vectors)
    low, high = solution.n_positive
    eigenvalues, loss = solution.eigenvalues, operator.total_loss()
    host = _backend.read(eigenvalues, xp.reshape(loss, (1,)))
    _warn_if_useless(n_components, plan.n_components, low, high)
    kept = slice(None, plan.n_components)
    if _parameters.is_reduced(n_components):
        kept = slice(None, _enough(n_components, host[0][:low], float(host[1][0])))
    dtype = dtype or vectors.dtype
    arrays = {
        "components": vectors[:, kept].T,
        "mean": operator.mean,
        "centroids": operator.centroids,
    }
    arrays = {name: xp.astype(a, dtype, copy=False) for name, a in arrays.items()}
    exponent = operator.unit_exponent
    values = eigenvalues[kept]
    return Model(
        **arrays,
        eigenvalues=eigen.in_units(values, exponent, dtype, "eigenvalues", host[0][kept]),
        weights=eigen.in_units(operator.class_weights, operator.weight_exponent, dtype, "weights"),
        classes=labels.classes,
        counts=_backend.from_host(labels.counts, operator.place),
        n_unlabeled=labels.n_unlabeled,
        n_positive=low,
        n_positive_bounds=(low, high),
        total_loss=eigen.scaled_number(host[1][0], exponent, "total_loss"),
        plan=plan,
        passes=solution.passes,
        residuals=None if solution.residuals is None else solution.residuals[kept],
        history=solution.history,
    )


def costs(groups: Groups) -> dict[str, Any]:
    """What a plan has to know of the samples."""
    return {"weighted": groups.weights is not None, "supervised": groups.is_supervised}


def working_dtype_name(matrix: Any, place: Place) -> str:
    """The dtype that X is computed in at a place, found without moving a row of it."""
    moved = _backend.move(_backend.without_rows(matrix), place)
    return _backend.dtype_name(_backend.working_dtype(moved))


def make_plan(
    matrix: Any, place: Place, problem: Problem, memory: int | None, solver: str
) -> tuple[Any, Problem, Limits, Plan]:
    """The plan for X, and X as it suits the plan: in memory, or to be read in blocks."""
    limits = Limits(memory, _backend.free_bytes(place))
    if _backend.is_dask(matrix):
        problem = dataclasses.replace(
            problem, where=_plan.CLUSTER, by_rows=matrix.numblocks[1] == 1
        )
        if _backend.is_sparse(matrix._meta):  # density unknown: assume dense
            problem = dataclasses.replace(problem, stored=problem.n * problem.d)
        return matrix, problem, limits, _plan.choose(problem, limits, solver)
    if not isinstance(matrix, RowReader):
        if isinstance(matrix, Sparse):
            made = _made_of(matrix, problem)
            problem = dataclasses.replace(problem, stored=matrix.stored, made=made)
        if _backend.place_of(matrix) == place:
            return matrix, problem, limits, _plan.choose(problem, limits, solver)
        room = limits.room
        beside = None if room is None else room - _backend.byte_count(matrix)
        try:
            plan = _plan.choose(problem, Limits(memory, beside), solver)
            return matrix, problem, Limits(memory, beside), plan
        except MemoryError:
            if beside is None or not RowReader.can_read(matrix):
                raise
        matrix = RowReader(matrix)  # too large for the device: block by block
    problem = dataclasses.replace(
        problem,
        where=_plan.BLOCKS,
        by_rows=True,
        stored=matrix.stored() if matrix.is_sparse else None,
        chunk_rows=matrix.chunk_rows,
        copies=matrix.copies,
    )
    return matrix, problem, limits, _plan.choose(problem, limits, solver)


def _made_of(matrix: Sparse, problem: Problem) -> int:
    """Bytes of a sparse matrix as it is computed with, as far as that is another than it is."""
    made = matrix.compressing_bytes
    # Blocks are converted one by one, if the library can slice and the sums are made of blocks.
    by_columns = problem.n_classes >= max(ONE_HOT_CLASSES + 1, problem.d)
    whole = by_columns or not matrix.can_slice
    if whole and _backend.dtype_name(matrix.dtype) != problem.dtype:
        made += matrix.stored * (problem.itemsize + 8)
    return made


def open_planned(
    matrix: Any,
    place: Place,
    plan: Plan,
    progress: Progress,
    kept: np.ndarray | None,
    limits: Limits,
) -> Rows:
    """X as the plan has it, of which some rows are kept: it is in place, or read there."""
    size = plan.n_samples * plan.n_features * _plan.ITEMSIZES[plan.dtype]
    rows = open_rows(
        matrix,
        place=place,
        progress=progress,
        read_rows=plan.read_rows,
        panel_rows=plan.panel_rows,
        whole_rows=plan.form == "scatter",
        kept=kept,
    )
    rows.has_room_for_copy = size <= min(limits.spare(plan), COPY_BYTES)
    return rows


def _dense_plan(problem: Problem, limits: Limits) -> Plan | None:
    """The plan for what the matrix-free form leaves; None if no dense form fits into memory."""
    try:
        return _plan.choose(problem, limits, _plan.dense_form(problem))
    except MemoryError:
        return None


def _after(free: Plan, dense: Plan, fewer: bool) -> Plan:
    """The plan of a dense form after the matrix-free one: with the larger peak of the two."""
    few, long = "fewer eigenvalues are positive than asked for", "the matrix-free form took long"
    return dataclasses.replace(
        dense,
        reason=few if fewer else long,
        bytes=max(free.bytes, dense.bytes),
        block_bytes=max(free.block_bytes, dense.block_bytes),
        host_bytes=max(free.host_bytes, dense.host_bytes),
    )


def _needs_dense_form(solution: Solution, request: Request, solver: str, max_iter: int) -> bool:
    if solution.eigenvalues.shape[0] < request.k and not request.positive_only:
        return True
    # Someone who limits the passes, or asks for this form, wants what it found.
    low, high = solution.n_positive
    unsure = not solution.converged or low < high
    return unsure and solver == "auto" and solution.passes < max_iter


def _check_solver(solver: str) -> None:
    if not isinstance(solver, str) or solver not in ("auto", *SOLVERS):
        valid = ", ".join(repr(name) for name in ("auto", *SOLVERS))
        raise _errors.invalid("solver", f"solver must be one of {valid}; got {solver!r}")


def _warn_if_unconverged(solution: Solution, request: Request) -> None:
    if solution.converged:
        return
    if solution.residuals is None:
        warnings.warn(
            "components are less exact than rounding allows: the Gram form cannot resolve such "
            "small eigenvalues. Use solver='scatter' or float64",
            ConvergenceWarning,
            stacklevel=3,
        )
        return
    late = int((solution.residuals > request.tol).sum())
    if late:
        found = (
            f"{late} of {len(solution.residuals)} components have a residual above "
            f"tol={request.tol:g}, the largest {np.max(solution.residuals):.1e}"
        )
    else:
        found = "it is not proved that these are the leading components"
    warnings.warn(
        f"after {solution.passes} passes {found}; raise max_iter={request.max_iter}, max_memory "
        "or tol, or use a dense solver",
        ConvergenceWarning,
        stacklevel=3,
    )


def _enough(n_components: Any, positive: np.ndarray, total: float) -> int:
    """How many positive eigenvalues to keep: all, or as many as remove a share of the loss."""
    if isinstance(n_components, str):
        return len(positive)
    removed = np.cumsum(positive, dtype=np.float64)
    count = int(np.searchsorted(removed, n_components * total)) + 1
    if 0 < len(positive) < count:
        warnings.warn(
            f"n_components={n_components} is more than the share of the loss that components "
            f"remove, which is {removed[-1] / total:.4f} for all {len(positive)} that lower it; "
            "these are kept",
            stacklevel=4,
        )
    return min(count, len(positive))


def _warn_if_useless(n_components: int | float | str | None, k: int, low: int, high: int) -> None:
    reduced = _parameters.is_reduced(n_components)
    if reduced and low < high:
        warnings.warn(
            f"n_components={n_components!r} has at most {low} components, but up to {high} "
            "eigenvalues may be positive: the others cannot be distinguished from zero. Use a "
            "dense solver or float64",
            stacklevel=4,
        )
    elif high == 0:
        found = "the model has no components" if reduced else "the embedding is of little use"
        warnings.warn(
            f"no direction lowers the loss, so {found}: the classes overlap too much"
            + (". n_components=1 gives the best single direction" if reduced else ""),
            stacklevel=4,
        )
    elif n_components is not None and low < k and not reduced:
        known = "lower" if low == high else "are known to lower"
        warnings.warn(
            f"n_components={k} was asked for, but only the first {low} {known} the loss; "
            "n_components='positive' keeps those",
            stacklevel=4,
        )
