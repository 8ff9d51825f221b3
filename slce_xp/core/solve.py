"""SLCE's eigenproblem for an array and class codes, in each of its forms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array
from slce_xp._errors import invalid
from slce_xp._parameters import as_count, as_seed, as_tolerance, as_unlabeled_weight
from slce_xp.core import eigen, given, gram, krylov, scatter
from slce_xp.core.groups import Groups
from slce_xp.core.moment_sums import moments_of
from slce_xp.core.operators import CentroidOperator
from slce_xp.core.rows import Rows, SparseRows, check_gram, open_array
from slce_xp.core.solution import FORMS, Request, Solution

# "auto" forms the smaller of the d × d and n × n matrices up to this size.
LARGEST_FORMED = 2000


class Eigenpairs(NamedTuple):
    """Leading eigenpairs of M = S_b − S_w, and what is known of their accuracy.

    Attributes
    ----------
    values : array, shape (k,)
        Eigenvalues: positive ones in descending order, then zeros for the null space of X, then
        negative ones.
    components : array, shape (k, d)
        Orthonormal rows. The entry of largest magnitude in each is positive.
    mean : array, shape (d,)
        The mean of all samples, which `components` are relative to.
    n_positive : tuple of int
        Lower and upper bound of the number of positive eigenvalues among the first k. They are
        equal unless some eigenvalues cannot be distinguished from zero.
    angle_bound : float
        A proved bound of the largest angle between the span of `components` and the exact subspace,
        in radians; infinite if none is known. Directions of the null space of X do not count: any
        of them is exact.
    form : str
        The form that was solved: "scatter", "gram" or "krylov".
    passes : int
        Passes of the matrix-free form over X; 0 for the others.
    residuals : numpy.ndarray, shape (k,), or None
        ‖M a − μ a‖ / ‖M‖ of the matrix-free form; None for the others, whose residuals are
        rounding.
    converged : bool
        True if `angle_bound` is within `tol`, or residuals are rounding in float32 by default,
        and no eigenpair was missed.
    """

    values: Array
    components: Array
    mean: Array
    n_positive: tuple[int, int]
    angle_bound: float
    form: str
    passes: int
    residuals: np.ndarray | None
    converged: bool


def eigenpairs(
    x: Any,
    codes: Any,
    n_classes: int,
    k: int,
    /,
    *,
    form: str = "auto",
    weights: Any = None,
    unlabeled_weight: float = 1.0,
    tol: float | None = None,
    max_iter: int = 50,
    seed: int = 0,
) -> Eigenpairs:
    r"""Leading eigenpairs of SLCE's matrix.

    .. math:: M = S_b - S_w = 2 S_b - S_t, \qquad
        S_b = \sum_j W_j (c_j - m)(c_j - m)^T, \quad S_t = \sum_i w_i (x_i - m)(x_i - m)^T

    with class means :math:`c_j`, class weights :math:`W_j` and the mean :math:`m` of all samples.
    `x` is centred implicitly and never copied.

    Parameters
    ----------
    x : array, or sparse matrix of SciPy, CuPy or torch, shape (n, d)
    codes : array of int, shape (n,)
        The class of each row, from 0 to K − 1; each class must have a row. K marks a row without
        a label: it adds λ times its own scatter to M instead.
    n_classes : int
        K, at least 2.
    k : int
        Eigenpairs to return, from 1 to d.
    form : {"auto", "scatter", "gram", "krylov"}
        "scatter" builds M, d × d; "gram" the n × n matrix X·Xᵀ; "krylov" neither. "auto" builds
        the smaller of the two if it has at most 2000 rows, or if k ≥ K.
    weights : array, shape (n,), optional
        Positive weight of each row; ones by default.
    unlabeled_weight : float
        λ, from 0 to 1e15.
    tol : float, optional
        Angle to the exact subspace, in radians, at which the matrix-free form stops. By default
        1e-6 in float64; in float32 it goes on until residuals are rounding.
    max_iter : int
        Passes over X that the matrix-free form may take.
    seed : int
        For directions that are arbitrary: the null space of X and a random part of the start
        block of the matrix-free form.

    Returns
    -------
    Eigenpairs

    See Also
    --------
    slce_xp.fit : The same for labels and data of every kind, with a plan and a model.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from slce_xp.core import eigenpairs
    >>> x = xp.asarray([[0.0, 1.0], [1.0, 0.0], [8.0, 1.0], [9.0, 0.0]])
    >>> found = eigenpairs(x, xp.asarray([0, 0, 1, 1]), 2, 1)
    >>> found.n_positive
    (1, 1)
    >>> xp.round(found.values)
    Array([63.], dtype=array_api_strict.float64)
    """
    rows, n_classes = open_array(given.as_matrix(x)), as_count(n_classes, "n_classes", 2)
    codes = given.as_codes(codes, rows.n, n_classes)
    unlabeled_weight = as_unlabeled_weight(unlabeled_weight)
    groups = Groups.of(codes, n_classes, weights, unlabeled_weight)
    k, max_iter = as_count(k, "k", 1, rows.d), as_count(max_iter, "max_iter", 1)
    seed = as_seed(seed, "seed")
    if not isinstance(form, str) or form not in ("auto", *FORMS):
        raise invalid("form", f"form must be 'auto' or one of {', '.join(FORMS)}; got {form!r}")
    check_gram(form, rows)
    smaller = "gram" if rows.n < rows.d and rows.has_outer else "scatter"
    if form == "auto":
        is_small = min(rows.n, rows.d) <= LARGEST_FORMED
        form = smaller if is_small or k >= n_classes else "krylov"
    tol = as_tolerance(tol, _backend.dtype_name(rows.dtype))
    width = max(krylov.NARROW, n_classes)
    request = Request(k, tol, max_iter, width, krylov.NARROW_PASSES, form)
    with _backend.computing(rows.place):
        operator = operator_of(rows, groups, form, seed)
        if form == "krylov":
            solution = krylov.solve(operator, request)
            if solution.eigenvalues.shape[0] < k:  # the others are not in the Krylov space
                form = smaller
                if form == "gram" and not operator.is_near:
                    operator = operator_of(rows, groups, form, seed)
                solution = finish(operator, form, request)
        else:
            solution = finish(operator, form, request)
        return Eigenpairs(
            eigen.in_units(solution.eigenvalues, operator.unit_exponent, rows.dtype, "eigenvalues"),
            eigen.fix_signs(solution.vectors).T,
            operator.mean,
            solution.n_positive,
            solution.angle_bound,
            form,
            solution.passes,
            solution.residuals,
            solution.converged,
        )


def operator_of(
    rows: Rows, groups: Groups, form: str, seed: int, *, by_column: bool = False
) -> CentroidOperator:
    """The eigenproblem of rows of any kind: one pass, with the second moment if S_t is formed.

    Small columns keep their digits if that is asked for. The Gram form of sparse rows far from the
    origin reads them as dense blocks.
    """
    moments = moments_of(rows, groups, second=form == "scatter", by_column=by_column)
    operator = CentroidOperator(rows, groups, moments, seed)
    if form == "gram" and isinstance(rows, SparseRows) and not operator.is_near:
        return operator_of(rows.unpacked(), groups, form, seed, by_column=by_column)
    return operator


def finish(operator: CentroidOperator, form: str, request: Request) -> Solution:
    """Eigenpairs by a dense eigensolver, with C as far as it is formed."""
    return gram.solve(operator, request) if form == "gram" else scatter.solve(operator, request)
