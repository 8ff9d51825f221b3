"""What a solver is asked and what it returns."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from slce_xp._backend import Array

FORMS = ("scatter", "gram", "krylov")


class Costs(NamedTuple):
    """Predicted seconds of the steps of a solve, by which the engine turns to the next kind.

    Passes over X go on until they have cost as much as forming C, and products with the formed C
    until they have cost as much as a dense eigensolver: whatever the spectrum is, that takes
    at most twice as long as the better choice. Either ends sooner if residuals decrease so slowly
    that the next kind is predicted to be faster. The predictions depend on the problem alone, so
    that a fit takes the same steps each time.

    Attributes
    ----------
    implicit : float
        A product of C with a block by a pass over X.
    forming : float
        Forming C, by one pass; infinite if it must not be formed.
    formed : float
        A product of the formed C with a block.
    dense : float
        A dense eigensolver for the formed C; if C must not be formed, a dense form as a whole.
    ritz : float
        An eigenproblem of m rows on the host, divided by m³.
    """

    implicit: float = 1.0
    forming: float = math.inf
    formed: float = 0.0
    dense: float = math.inf
    ritz: float = 0.0


@dataclass(frozen=True)
class Request:
    """What a solver is asked for, in addition to the operator.

    Attributes
    ----------
    k : int
        Number of eigenpairs.
    tol : float
        Angle to the exact subspace at which an iteration may stop, in radians; 0: when residuals
        are rounding.
    max_iter : int
        Passes over X that an iteration may take.
    width : int
        Rows of its start block.
    wide_passes : int
        Passes with the whole block, before only residuals are added.
    form : {"krylov", "scatter", "gram"}
        Whether an iteration starts with passes over X, or with a formed C: S_t or G.
    costs : Costs
    rows, max_rows : int
        Rows of its Krylov space that are allocated at first, and that memory has room for.
    positive_only : bool
        Whether fewer than k eigenpairs will do, if no more eigenvalues are positive.
    may_widen : bool
        Whether a solver may give up, if the same in double precision would take less time.
    fill : bool
        Whether to return Ritz pairs that are not positive if fewer than k are.
    report : function
        Called with the residual after each pass.
    eps : float
        Rounding of the result, if that is computed in a longer dtype; relative.
    """

    k: int
    tol: float
    max_iter: int = 0
    width: int = 0
    wide_passes: int = 0
    form: str = "krylov"
    costs: Costs = field(default_factory=Costs)
    rows: int = 0
    max_rows: int = sys.maxsize
    positive_only: bool = False
    may_widen: bool = False
    fill: bool = False
    report: Callable[[float], None] = lambda residual: None
    eps: float = 0.0


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
    angle_bound : float
        A bound of the largest angle between the span of `vectors` and the exact subspace, in
        radians; infinite if none is known. Directions of the null space of X, any of which is
        exact, do not count.
    passes : int
        Passes over X of an iteration; 0 for dense forms.
    residuals : numpy.ndarray, shape (k,), or None
        ‖M a − μ a‖ / ‖M‖, measured; None for dense forms, whose residuals are rounding.
    history : tuple of float
        The largest residual of the wanted pairs, as often as it was measured.
    converged : bool
        Whether residuals are within the tolerance, and no eigenpair was missed.
    formed : bool
        Whether C was formed.
    is_complete : bool
        False if a dense eigensolver is to finish what an iteration has begun.
    needs_double : bool
        True if a solver gave up, as `Request.may_widen` lets it; then nothing else is true of it.
    below : float
        No other eigenvalue of M is larger than this, rounding included; infinite if that is not
        known. It is the bound that `angle_bound` rests on.
    """

    eigenvalues: Array
    vectors: Array
    n_positive: tuple[int, int]
    angle_bound: float = math.inf
    passes: int = 0
    residuals: np.ndarray | None = None
    history: tuple[float, ...] = field(default=())
    converged: bool = True
    formed: bool = True
    is_complete: bool = True
    needs_double: bool = False
    below: float = math.inf
