"""`fit`: validate → plan → solve → model."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from slce_xp import _backend, _errors, _parameters, _warnings
from slce_xp._backend import Place
from slce_xp._calibration import as_calibration, calibrated
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import BatchCodes, Labels, as_batch, as_labels, check_batches
from slce_xp._data.missing import fill_with_means
from slce_xp._data.open import open_rows
from slce_xp._make_model import make_model, make_separating_model, with_batches
from slce_xp._make_plan import make_plan, problem_at
from slce_xp._model import Model
from slce_xp._planning import plan as _plan
from slce_xp._planning import sizes
from slce_xp._planning.plan import Plan
from slce_xp._planning.problem import MEMORY, WIDE_PASSES
from slce_xp._progress import Bar, Progress
from slce_xp.core import _separation
from slce_xp.core._batches import Batches
from slce_xp.core._groups import Groups
from slce_xp.core._krylov import Request
from slce_xp.core._problem import problem_of
from slce_xp.core._rows import Rows
from slce_xp.core._solution import FORMS
from slce_xp.core._solve import solve


def fit(
    X: Any,
    y: Any,
    n_components: int | float | str | None = None,
    *,
    backend: str | ModuleType | None = None,
    device: Any = None,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 50,
    max_memory: int | str | None = None,
    random_state: int | None = 0,
    sample_weight: Any = None,
    class_weight: str | dict[Any, float] | None = None,
    unlabeled: Any = None,
    unlabeled_weight: float = 1.0,
    criterion: str = "centroid",
    shrinkage: float | str = "auto",
    batch: Any = None,
    missing: str | None = None,
    calibrate: bool = False,
    groups: Any = None,
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
        Components to return, from 1 to d, or to K − 1 for criterion "separation". None: K − 1, the
        number of classes − 1. "positive": those that lower the loss, which may be none; for
        "separation" all in which class means differ. A fraction between 0 and 1: the fewest that
        remove this share of the loss that all "positive" ones remove; for "separation" the fewest
        that reach this share of the `Model.separation` of all, beyond the ½ of chance.
    backend : {"numpy", "cupy", "torch", "jax", "dpnp"}, namespace or None
        None computes on X's own device. A name moves X there, once; or block by block, if X is read
        in blocks or is too large for the device.
    device : optional
        A device of the backend, such as "cuda:1"; None is X's own or the backend's default.
    solver : {"auto", "scatter", "gram", "krylov"}
        The form of the eigenproblem: "scatter" builds d × d, "gram" n × n, "krylov" neither, by
        passes over X. "auto" builds the smaller matrix if that is small, and iterates otherwise;
        `Model.plan` says which and why. "gram" needs n + k ≤ d and "krylov" fewer components than
        classes: otherwise a matrix that suits is built instead. Of sparse matrices, those of SciPy
        have a "gram" form.
    tol : float
        The backward error at which an iteration stops: the norm of its residual, relative to the
        scatter T of X, without effects of batches. It does not chase eigenvalues below 2·tol·T,
        which count as zero; see
        `Model.zero_level`. "scatter" and "gram" are exact to rounding.
    max_iter : int
        Passes over X that an iteration may take; a ConvergenceWarning reports the residual if they
        do not suffice.
    max_memory : int or str, optional
        Bytes that the fit may allocate in addition to X, such as "2GB"; blocks that are read count.
        If no form fits, MemoryError is raised before any work. On a GPU the free memory is a bound,
        too.
    random_state : int or None
        Seed for directions that are arbitrary by nature (null space of X) and for the start
        block of the matrix-free form. None draws another one for each fit.
    sample_weight : array or list, shape (n,), optional
        What each sample counts in means and scatters. A weight of 2 duplicates the sample; 0 drops
        it, whatever it holds.
    class_weight : "balanced" or dict, optional
        Weights by label that multiply those of the samples, and the odds of the classes in
        `Model.predict`; "balanced" gives all classes the same weight in total.
    unlabeled : optional
        The value in y that marks a sample without a label, of the kind of the labels (text,
        number, date), or "missing" for None and NaN. Such samples add their own reconstruction to
        the loss, as in PCA:
        :math:`M = 2 S_b - S_t(\text{labelled}) + \lambda S_t(\text{unlabelled})`, centred on all
        samples. More than K − 1 eigenvalues may then be positive. By default no value is special.
    unlabeled_weight : float
        That λ, from 0 to 1e15: 0 leaves them out but for the mean, a large one approaches PCA.
    criterion : {"centroid", "separation"}
        The criterion that components optimise. "centroid" is the above. "separation": pairs of
        classes overlap least, if classes are Gaussians with one covariance N,

        .. math:: \max_{A^T N A = I} \sum_{i < j} \pi_i \pi_j \,
            \Phi\bigl(\tfrac12 \lVert A^T (c_i - c_j) \rVert\bigr)

        with class means :math:`c_i` and shares :math:`\pi_i`. At most K − 1 components exist; with
        all of them it is linear discriminant analysis with shrinkage. Every sample needs a label,
        and the d × d or the n × n matrix must fit into memory; units of features do not matter.
    shrinkage : float or "auto"
        For "separation", the weight ρ of the diagonal matrix D in
        :math:`N = \tau ((1 - \rho) S_w / n + \rho D)`, from 0 to 1. D has the variances within
        classes, relatively larger ones for features whose variance rests on few samples: see
        :doc:`/method`.
        "auto": the weight that separates unseen samples best, by generalised cross-validation, and
        τ such that N is their spread; a number: τ = 1. The weight of all samples counts as their
        number: weights should be 1 in the mean. At least the 4·d·eps that rounding needs is used;
        in the Gram form, or if S_w is singular, √eps, with a warning.
    batch : array, list or Series, shape (n,), optional
        The batch of each sample, such as the plate, the donor or the day. What the samples of a
        batch share is estimated together with the class means, by least squares of
        :math:`x_i = \alpha_{j(i)} + \beta_{b(i)} + \varepsilon_i`, and removed; `Model.transform`
        then needs the batch, too. Batches must have classes in common. All samples need a label.
    missing : "mean", optional
        What missing values, NaN, become: the mean of the column, in the fit and in all that the
        model does. By default they are an error. The share is `Model.filled`; above 5 % there is a
        warning. Not for sparse matrices and Dask arrays.
    calibrate : bool
        Whether to find the `Model.temperature` of `Model.predict_proba`, from samples that are held
        out in three folds: probabilities are too extreme without it if classes are not Gaussian.
        Labels that are predicted do not change. It takes about as long as the fit again, if that
        forms a matrix for "centroid", and three times as long otherwise; every sample needs a
        label.
    groups : array, list or Series, shape (n,), optional
        For `calibrate`: what samples were measured on, such as mice, if there are several of each.
        Those of a group are held out together; otherwise probabilities are those of samples of a
        group that is known.
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
        If `max_iter` passes, or the memory for them, did not suffice.
    SLCEWarning
        If no sample has the mark `unlabeled`; if no component lowers the loss, or not all that were
        asked for do; if it is not known how many do (see `Model.n_positive_bounds`); if one column
        carries more than 90 % of the scatter, or drowns others in rounding; if eigenvalues are
        beyond the range of float64.

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
      loss         96.87 of 2042, 95.3 % removed (73.6, 21.6 % of class structure)
      components   all of them lower the loss
      error        numerical: within ... rad of the exact subspace
    """
    fills = _parameters.as_missing(missing) is not None
    separates = _parameters.as_criterion(criterion) == "separation"
    weight_of_diagonal = _parameters.as_shrinkage(shrinkage)
    matrix = _matrix.as_values(X)
    _matrix.check_sizes(matrix)
    n, d = matrix.shape
    labels = as_labels(y, n, sample_weight, class_weight, unlabeled, unlabeled_weight)
    calibrate, units = as_calibration(calibrate, groups, n)
    n_classes = len(labels.classes)
    groups, kept = labels.counted()
    asked = {"solver": solver, "batch": batch, "missing": missing}
    batches = None
    if batch is not None:
        batches, batch = _batches(groups, kept, labels, as_batch(batch, n))
    if separates:
        _parameters.check_separable(labels.n_unlabeled)
    unsupervised = None if groups.is_supervised else n
    k = _parameters.as_component_count(
        n_components, n_classes, d, unsupervised, separates=separates
    )
    seed = _parameters.as_seed(random_state)
    max_iter = _parameters.as_count(max_iter, "max_iter", 1)
    tol = _parameters.as_tolerance(tol)
    memory = sizes.parse_bytes(max_memory)
    solver = _as_solver(solver, matrix, separates=separates)
    place = _parameters.find_place(matrix, backend, device)

    size = problem_at(matrix, place, groups, k, separates=separates)
    if batches is not None:
        size = replace(size, n_cells=len(batches.classes))
    matrix, limits, plan = make_plan(matrix, place, size, memory, solver)
    bar = Bar(plan.passes) if progress else Progress()
    with contextlib.closing(bar), _backend.computing(place):
        if plan.where == MEMORY:
            matrix = _backend.move(matrix, place)
        rows = open_planned(matrix, place, plan, bar, kept)
        filled = fill_with_means(rows, groups.weights, kept) if fills else None
        problem = problem_of(rows, groups, plan.form, batches, powers=separates)
        if separates:
            share = _parameters.as_share(n_components)
            found = _separation.solve(problem, plan.form, k, weight_of_diagonal, share)
            model = make_separating_model(problem, found, labels, plan, n_components, X)
        else:
            most_rows = _plan.most_rows(plan, limits, size.length) if plan.width else 0
            wide = _wide_passes(plan, place)
            request = Request(
                k, tol, max_iter, plan.width, wide, plan.rows, most_rows, seed, bar.residual
            )
            solution = solve(problem, plan.form, request)
            model = make_model(problem, solution, labels, plan, n_components, X, (rows, groups))
            _warnings.warn_if_unconverged(solution, request)
        if batches is not None:
            model = with_batches(model, problem, batch)
        if filled is not None:
            model = replace(model, filled=filled)
        bar.done()
    if not calibrate:
        return model
    options = {
        "backend": backend, "device": device, "tol": tol, "max_iter": max_iter,
        "max_memory": max_memory, "random_state": seed, "sample_weight": sample_weight,
        "class_weight": class_weight, "criterion": criterion, "shrinkage": shrinkage,
        **asked,
    }  # fmt: skip
    return calibrated(fit, model, X, y, matrix, labels, units, options)


def open_planned(
    matrix: Any, place: Place, plan: Plan, progress: Progress, kept: Any = None
) -> Rows:
    """X as the plan has it, of which some rows are kept: it is in place, or read there."""
    rows = open_rows(
        matrix,
        dtype=getattr(place.xp, plan.sums),
        place=place,
        progress=progress,
        read_rows=plan.read_rows,
        panel_rows=plan.panel_rows,
        kept=kept,
    )
    if plan.where == MEMORY:
        rows.block_bytes = plan.block_bytes
    return rows


def _batches(
    groups: Groups, kept: np.ndarray | None, labels: Labels, batch: BatchCodes
) -> tuple[Batches, np.ndarray]:
    """The cells of class and batch, which must tell the two apart; and the labels of batches."""
    if not groups.is_supervised:
        raise _errors.invalid(
            "unlabeled",
            f"unlabeled must mark no sample of a fit with batch; it marks {labels.n_unlabeled}, of "
            "which it is not known whether they differ by batch or by class. Leave them out",
        )
    codes = batch.codes if kept is None else batch.codes[kept]
    present, codes = np.unique(codes, return_inverse=True)  # of samples of positive weight
    found, names = Batches.of(groups, codes), batch.labels[present]
    check_batches(found, names, labels.classes)
    return found, names


def _wide_passes(plan: Plan, place: Place) -> int:
    """Passes after which only residuals join the space of an iteration."""
    is_cheap = plan.where == MEMORY and not _backend.is_accelerated(place)
    return WIDE_PASSES if is_cheap else sys.maxsize


def _as_solver(solver: str, matrix: Any, *, separates: bool) -> str:
    """The form that is asked for; of criterion="separation", which needs a matrix, one with it."""
    if not isinstance(solver, str) or solver not in ("auto", *FORMS):
        valid = ", ".join(repr(name) for name in ("auto", *FORMS))
        raise _errors.invalid("solver", f"solver must be one of {valid}; got {solver!r}")
    if not separates:
        return solver
    is_dask = _backend.is_dask(matrix)
    if solver == "krylov" or (solver == "gram" and is_dask):
        valid = "'auto' or 'scatter'" if is_dask else "'auto', 'scatter' or 'gram'"
        raise _errors.invalid(
            "solver",
            f"solver must be {valid} for criterion='separation', which needs the matrix of that "
            f"form{' of a Dask array' * is_dask}; got {solver!r}. Leave it out",
        )
    return _plan.SMALLER if solver == "auto" else solver
