"""`fit`: validate → plan → solve → model."""

from __future__ import annotations

import contextlib
import dataclasses
from types import ModuleType
from typing import Any

from slce_xp import _backend, _errors, _parameters, _warnings
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import as_labels
from slce_xp._make_model import make_model, make_separating_model
from slce_xp._make_plan import costs, make_plan, working_dtype_name
from slce_xp._model import Model
from slce_xp._planning import plan as _plan
from slce_xp._planning import profiles, sizes
from slce_xp._planning.problem import MEMORY, Problem
from slce_xp._progress import Bar, Progress
from slce_xp._route import Given, solve
from slce_xp.core import separation
from slce_xp.core.solution import FORMS, Request


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
    criterion: str = "centroid",
    shrinkage: float | str = "auto",
    precision: str = "auto",
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
        CuPy and torch are not made dense: at most blocks are. A memmap, an HDF5 dataset, a zarr
        array or anything else with a shape, a dtype and rows ``X[i:j]`` is read in blocks, the next
        one while this one is worked on. Chunks of a Dask array are processed where they are.
    y : array, list, Series or Categorical, shape (n,)
        Class labels: integers, strings, booleans, dates. On any device or on the host.
        Continuous targets raise ValueError.
    n_components : int, float, "positive" or None
        Components to return, from 1 to d. None: number of classes − 1. "positive": only
        those that lower the loss, which may be none. A fraction between 0 and 1: as many of
        those as remove this share of the loss, the sum of `Model.loss_shares`; all of them, with
        a warning, if they remove less. It takes two fits, unless all of them are kept.
    backend : {"numpy", "cupy", "torch", "jax", "dpnp"}, namespace or None
        None computes on X's own device. A name moves X there, once; or block by block, if X is read
        in blocks or is too large for the device.
    device : optional
        A device of the backend, such as "cuda:1"; None is X's own or the backend's default.
    solver : {"auto", "scatter", "gram", "krylov"}
        The form of the eigenproblem: "scatter" builds d × d, "gram" n × n, "krylov" neither, with
        the fewest passes over X. They give the same answer; "auto" begins with the one that
        `plan` predicts to be fastest. It forms the matrix once passes over X have cost as much, and
        calls a dense eigensolver once products with the matrix have. "gram" is meant for fewer
        samples than features; with more it is less exact. Of sparse matrices, those of SciPy have
        it.
    tol : float, optional
        Angle to the exact subspace, in radians, at which an iteration may stop; it is proved, see
        `Model.angle_bound`. None: 1e-6 in float64; in float32 the iteration goes on until residuals
        are rounding. "scatter" is exact to rounding; "gram" refines eigenvectors if the angle
        exceeds half of this, or of 1.2e-5 in float32 by default. It has no influence on which
        eigenvalues are called positive.
    max_iter : int
        Passes over X that an iteration may take; a ConvergenceWarning reports the angle and the
        residual if they do not suffice.
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
        The value in y that marks a sample without a label, of the kind of the labels (text,
        number, date), or "missing" for None and NaN. Such samples add their own reconstruction to
        the loss, as in PCA:
        :math:`M = 2 S_b - S_t(\text{labelled}) + \lambda S_t(\text{unlabelled})`, centred on all
        samples. More than K − 1 eigenvalues may then be positive. By default no value is special.
    unlabeled_weight : float
        That λ, from 0 to 1e15: 0 leaves them out but for the mean, a large one approaches PCA.
    criterion : {"centroid", "separation"}
        What components are the best of. "centroid" is the above. "separation": those in which
        pairs of classes overlap least, if classes are Gaussians with one covariance N,

        .. math:: \max_{A^T N A = I} \sum_{i < j} \pi_i \pi_j \,
            \Phi\bigl(\tfrac12 \lVert A^T (c_i - c_j) \rVert\bigr)

        with class means :math:`c_i` and shares :math:`\pi_i`. At most K − 1 components exist; with
        all of them it is linear discriminant analysis with shrinkage. Every sample needs a label,
        and the d × d or the n × n matrix must fit into memory; units of features do not matter.
    shrinkage : float or "auto"
        For "separation", the weight ρ of the diagonal in
        :math:`N = \tau ((1 - \rho) S_w / n + \rho \operatorname{diag}(S_w / n))`, from 0 to 1.
        "auto": the weight that separates unseen samples best, by generalised cross-validation, and
        τ such that N is their spread; a number: τ = 1. The weight of all samples counts as their
        number: weights should be 1 in the mean. At least the 4·d·eps that rounding needs is used;
        in the Gram form, or if S_w is singular, √eps, with a warning.
    precision : {"auto", "full", "mixed"}
        "mixed": a float64 fit takes its large products in float32 and corrects the result by
        residuals in float64, until the angle is proved to `tol`; otherwise it starts again in full
        precision. "auto" does so on devices whose profile says that float64 runs at less than an
        eighth of the speed of float32, if that is predicted to be faster. Only for a dense X in
        memory with a label for every sample; all else is computed in full precision. The plan of
        the model says which it was.
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
        If `max_iter` passes did not suffice, if the components left are those of a dense form for
        which there is no memory, or if rounding does not let the angle be proved to `tol` in
        float64, since the last eigenvalue is hardly larger than the next.
    UserWarning
        If no sample has the mark `unlabeled`; if no component lowers the loss, or not all that were
        asked for do; if it is not known how many do (see `Model.n_positive_bounds`); if X is sparse
        and so far from the origin that centring loses digits; if eigenvalues are beyond the range
        of float64.

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
    >>> print(slce_xp.fit(X, y))  # doctest: +ELLIPSIS
    SLCE model: 5 features → 2 components
      fitted on    60 samples of 3 classes
      solved by    scatter form, numpy on cpu, float64
      eigenvalues  1503, 442.1
      loss         96.87 of 2042, 95.3 % removed (73.6, 21.6)
      components   all of them lower the loss
      accuracy     within ... rad of the exact subspace, proved
    """
    separates = _parameters.as_criterion(criterion) == "separation"
    weight_of_diagonal = _parameters.as_shrinkage(shrinkage)
    precision = _parameters.as_precision(precision)
    if _parameters.is_share(n_components) and not separates:
        # Fitted again with fewer components, for which the angle is proved.
        everything = fit(
            X, y, "positive", backend=backend, device=device, solver=solver, tol=tol,
            max_iter=max_iter, max_memory=max_memory, random_state=random_state,
            sample_weight=sample_weight, class_weight=class_weight, unlabeled=unlabeled,
            unlabeled_weight=unlabeled_weight, precision=precision, progress=progress,
        )  # fmt: skip
        n_components = _warnings.components_for(n_components, everything)
        if n_components == everything.n_components:
            return everything
    matrix = _matrix.as_values(X)
    _matrix.check_sizes(matrix)
    n, d = matrix.shape
    labels = as_labels(y, n, sample_weight, class_weight, unlabeled, unlabeled_weight)
    n_classes = len(labels.classes)
    groups, kept = labels.counted()
    if separates:
        _parameters.check_separable(labels.n_unlabeled)
        k = _parameters.as_separating_count(n_components, n_classes, d)
    else:
        unsupervised = None if groups.is_supervised else n
        k = _parameters.as_component_count(n_components, n_classes, d, unsupervised)
    seed = _parameters.as_seed(random_state)
    max_iter = _parameters.as_count(max_iter, "max_iter", 1)
    memory = sizes.parse_bytes(max_memory)
    _check_solver(solver)
    if separates:
        solver = _separating_form(solver, matrix)
    place = _parameters.find_place(matrix, backend, device)

    dtype = working_dtype_name(matrix, place)
    profile = profiles.load(place.xp, place.device)
    problem = Problem(
        n, d, n_classes, k, dtype, doubles=not separates, separates=separates, **costs(groups)
    )
    matrix, limits, plan = make_plan(matrix, place, problem, memory, solver, profile)
    tolerance = _parameters.as_tolerance(tol, dtype)
    bar = Bar(plan.passes) if progress else Progress()
    with contextlib.closing(bar), _backend.computing(place):
        if plan.where == MEMORY:
            matrix = _backend.move(matrix, place)
        given = Given(
            matrix=matrix,
            place=place,
            groups=groups,
            kept=kept,
            limits=limits,
            profile=profile,
            solver=solver,
            tol=tol,
            seed=seed,
            progress=bar,
        )
        if separates:
            operator = separation.operator_of(given.open(plan), groups, plan.form)
            parts = separation.solve(operator, plan.form, k, weight_of_diagonal)
            model = make_separating_model(operator, parts, labels, plan)
            bar.done()
            return _named(model, X)
        request = Request(
            k=k,
            tol=tolerance,
            max_iter=max_iter,
            positive_only=n_components == "positive",
            report=bar.residual,
        )
        operator, solution, plan = solve(given, plan, request, precision)
        narrower = None if plan.computed_dtype == dtype else getattr(place.xp, dtype)
        if narrower is not None:  # rounded in units near one, as X times a power of two is
            values = place.xp.astype(solution.eigenvalues, narrower)
            solution = dataclasses.replace(solution, eigenvalues=values)
        model = make_model(operator, solution, labels, plan, n_components, narrower)
        bar.done()
    _warnings.warn_if_unconverged(model, solution, request)
    return _named(model, X)


def _named(model: Model, X: Any) -> Model:
    names = _matrix.feature_names(X)
    return model if names is None else dataclasses.replace(model, feature_names=names)


def _separating_form(solver: str, matrix: Any) -> str:
    """The form of criterion="separation", which needs a formed matrix."""
    is_dask = _backend.is_dask(matrix)
    if solver == "krylov" or (solver == "gram" and is_dask):
        valid = "'auto' or 'scatter'" if is_dask else "'auto', 'scatter' or 'gram'"
        raise _errors.invalid(
            "solver",
            f"solver must be {valid} for criterion='separation', which needs the matrix of that "
            f"form{' of a Dask array' * is_dask}; got {solver!r}. Leave it out",
        )
    return _plan.SMALLER if solver == "auto" else solver


def _check_solver(solver: str) -> None:
    if not isinstance(solver, str) or solver not in ("auto", *FORMS):
        valid = ", ".join(repr(name) for name in ("auto", *FORMS))
        raise _errors.invalid("solver", f"solver must be one of {valid}; got {solver!r}")
