"""What a solver is asked and what it returns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from slce_xp._backend import Array


@dataclass(frozen=True)
class Request:
    """What a solver is asked for, in addition to the operator.

    Attributes
    ----------
    k : int
        Number of eigenpairs.
    tol : float
        Residual to reach, relative to ‖M‖; for solvers that iterate.
    max_iter : int
        Passes over X that such a solver may take.
    width : int
        Rows of its start block.
    wide_passes : int
        Passes with the whole block, before only residuals are added.
    max_rows : int
        Rows of its Krylov space that memory has room for.
    positive_only : bool
        Whether fewer than k eigenpairs will do, if no more eigenvalues are positive.
    fill : bool
        Whether to return Ritz pairs that are not positive if fewer than k are.
    report : function
        Called with the residual after each pass.
    """

    k: int
    tol: float
    max_iter: int
    width: int
    wide_passes: int
    max_rows: int = sys.maxsize
    positive_only: bool = False
    fill: bool = False
    report: Callable[[float], None] = lambda residual: None


@dataclass(frozen=True)
class Solution:
    """The leading eigenpairs of M, by the contract: positive, null space, negative.

    Attributes
    ----------
    eigenvalues : array, shape (k,)
    vectors : array, shape (d, k)
        Orthonormal columns.
    n_positive : tuple of int
        The least and the largest possible number of positive values among them; for
        a solution with fewer than k pairs, of the first k eigenvalues of M.
    passes : int
        Products of the scatter matrix with a block, each one pass over X; 0 for dense forms.
    residuals : numpy.ndarray, shape (k,), or None
        ‖M a − μ a‖ / ‖M‖, measured; None for dense forms, whose residuals are rounding.
    history : tuple of float
        The largest residual of the wanted pairs after each pass.
    converged : bool
    """

    eigenvalues: Array
    vectors: Array
    n_positive: tuple[int, int]
    passes: int = 0
    residuals: np.ndarray | None = None
    history: tuple[float, ...] = field(default=())
    converged: bool = True
