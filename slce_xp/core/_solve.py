"""SLCE's eigenproblem for an array and class codes, in each of its forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _backend
from .._backend import Array
from .._errors import invalid
from .._parameters import as_count, as_seed, as_tolerance, as_unlabeled_weight
from . import _dense, _derivatives, _eigen, _given
from ._groups import Groups
from ._krylov import Request, krylov
from ._problem import Problem, problem_of
from ._rows import Rows, check_gram, rows_of
from ._solution import FORMS, Solution

# "auto" forms the smaller of the d × d and n × n matrices up to this size.
LARGEST_FORMED = 1200


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """Leading eigenpairs of M = S_b − S_w, and what is proved of them.

    Attributes
    ----------
    values : array, shape (k,)
        Eigenvalues, descending.
    components : array, shape (k, d)
        Orthonormal rows. The entry of largest magnitude in each is positive.
    mean : array, shape (d,)
        The mean of all samples, which `components` are relative to.
    n_positive : tuple of int
        Lower and upper bound of the number of eigenvalues above `zero_level` among the first k.
    zero_level : float
        Eigenvalues up to this count as zero.
    residual : float
        ‖M·Aᵀ − Aᵀ·diag(μ)‖ of the components above it, beyond rounding.
    angle_bounds : numpy.ndarray, shape (k,)
        Bounds of the largest angle between the span of the first 1, 2, … components and the exact
        one, in radians; infinite if none is proved.
    form : str
        The form that was solved: "scatter", "gram" or "krylov".
    passes : int
        Passes of the matrix-free form over X; 0 for the others.
    converged : bool
        False if the matrix-free form ended before its residual was `tol`, or before it was proved
        that no eigenpair was missed.
    """

    values: Array
    components: Array
    mean: Array
    n_positive: tuple[int, int]
    zero_level: float
    residual: float
    angle_bounds: np.ndarray
    form: str
    passes: int
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
    tol: float = 1e-6,
    max_iter: int = 50,
    random_state: int | None = 0,
) -> Eigenpairs:
    r"""SLCE of an array: the leading eigenpairs of its matrix.

    .. math:: M = S_b - S_w = 2 S_b - S_t, \qquad
        S_b = \sum_j W_j (c_j - m)(c_j - m)^T, \quad S_t = \sum_i w_i (x_i - m)(x_i - m)^T

    with class means :math:`c_j`, class weights :math:`W_j` and the mean :math:`m` of all samples.
    `x` is never copied as a whole.

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
        the smaller of the two if it has at most 1200 rows, or if k ≥ K. "gram" needs n + k ≤ d and
        "krylov" k < K, unless some rows have no label: otherwise a matrix that suits is built.
    weights : array, shape (n,), optional
        Positive weight of each row; ones by default.
    unlabeled_weight : float
        λ, from 0 to 1e15.
    tol : float
        The backward error at which the matrix-free form stops: its residual relative to
        :math:`T = \operatorname{tr} S_t`.
    max_iter : int
        Passes over X that the matrix-free form may take.
    random_state : int or None
        Seed for directions that are arbitrary: the null space of X and a random part of the start
        block of the matrix-free form.

    Returns
    -------
    Eigenpairs
        With derivatives of values, components and mean in `x` and `weights`, if Torch or JAX asks
        for them.

    Notes
    -----
    Derivatives are those of simple eigenvalues, the same in every form and as exact as `tol`; an
    eigenvalue that cannot be told from the next one, up to the k-th, raises ValueError then. Their
    sums are not centred: shift data that are far from the origin. `x` must have values:
    ``jax.grad`` works, ``jax.jit``, ``vmap`` and ``torch.func`` raise TypeError.

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
    x, n_classes = _given.as_matrix(x), as_count(n_classes, "n_classes", 2)
    codes = _given.as_codes(codes, x.shape[0], n_classes)
    unlabeled_weight = as_unlabeled_weight(unlabeled_weight)
    if any(_backend.is_traced(a) or _backend.requires_grad(a) for a in (x, weights)):
        numbers: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "random_state": random_state}
        numbers |= {"form": form, "unlabeled_weight": unlabeled_weight}

        def values_of(x: Array, weights: Any) -> Eigenpairs:
            return eigenpairs(x, codes, n_classes, k, weights=weights, **numbers)

        x = _given.as_floats(x, "x")
        found: Eigenpairs = _derivatives.differentiated(
            values_of, x, codes, n_classes, weights, unlabeled_weight
        )
        return found
    rows = rows_of(x)
    groups = Groups.of(codes, n_classes, weights, unlabeled_weight)
    request = Request(
        as_count(k, "k", 1, rows.d),
        as_tolerance(tol),
        as_count(max_iter, "max_iter", 1),
        seed=as_seed(random_state),
    )
    if not isinstance(form, str) or form not in ("auto", *FORMS):
        raise invalid("form", f"form must be 'auto' or one of {', '.join(FORMS)}; got {form!r}")
    check_gram(form, rows)
    form = possible_form(form, rows, groups, request.k)
    if form == "scatter":  # whose blocks add to a sum of this size
        rows.block_bytes = max(rows.block_bytes, rows.d * rows.d * rows.itemsize)
    dtype = _backend.working_dtype(x)
    with _backend.computing(rows.place):
        problem = problem_of(rows, groups, form)
        return eigenpairs_of(problem, solve(problem, form, request), form, dtype)


def eigenpairs_of(problem: Problem, found: Solution, form: str, dtype: Any) -> Eigenpairs:
    """The solution of a problem in the units and the dtype of the data."""
    xp, moments = problem.place.xp, problem.moments
    exponent = moments.unit_exponent
    zero_level, residual = _eigen.scaled_numbers(
        [found.zero_level, found.residual], exponent, "zero_level"
    )
    return Eigenpairs(
        _eigen.in_units(found.values, exponent, problem.place, dtype, "eigenvalues"),
        xp.astype(_eigen.with_fixed_signs(found.vectors).T, dtype, copy=False),
        xp.astype(moments.mean, dtype, copy=False),
        found.n_positive,
        zero_level,
        residual,
        rounded_angles(found, dtype),
        form,
        found.passes,
        found.converged,
    )


def possible_form(form: str, rows: Rows, groups: Groups, k: int) -> str:
    """The form to solve: the one that was asked for, if it has k eigenpairs."""
    smaller = "gram" if rows.n + k <= rows.d and rows.has_outer else "scatter"
    iterates = k < groups.n_classes or not groups.is_supervised
    if form == "auto":
        is_small = min(rows.n, rows.d) <= LARGEST_FORMED
        return smaller if is_small or not iterates else "krylov"
    if form == "krylov":
        return form if iterates else smaller
    return smaller if form == "gram" else form


def solve(problem: Problem, form: str, request: Request) -> Solution:
    """Leading eigenpairs in one of the forms."""
    if form == "scatter":
        return _dense.scatter(problem, request.k)
    if form == "gram":
        return _dense.gram(problem, request.k, request.seed)
    return krylov(problem, request)


def rounded_angles(found: Solution, dtype: Any) -> np.ndarray:
    """Bounds of the angles of vectors that are returned in a dtype, whose rounding turns them."""
    eps = _eigen.EPS[_backend.dtype_name(dtype)]
    return np.asarray(found.angle_bounds + eps * np.sqrt(np.arange(1, len(found.values) + 1)))
