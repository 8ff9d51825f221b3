r"""Mixed precision: eigenpairs in float32, corrected by residuals in float64.

Some GPUs compute in float64 at a thirtieth of their speed or less. There the large products are
taken of a float32 copy Z of the centred rows, made block by block. Eigenvectors V of Z, rows here,
leave the residual R = V·M − Θ·V, one product in float64. The correction T, orthogonal to V, solves
Θ·T − T·M = R in a Krylov space of the float32 operator. What float32 gets wrong of T is small of
second order, since T is small itself: for F = R − (Θ·T − T·M) the residual of V + T is at most

    ‖F‖ ≤ ‖F on the float32 operator‖ + ‖M − M₃₂‖·‖T‖ + ‖T·Rᵀ‖,

so that the angle of V + T is proved without another product in float64.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, read
from slce_xp.core import eigen, gram, krylov, scatter
from slce_xp.core.certificate import ROUNDING_EPS, angle_bound
from slce_xp.core.coordinates import lengths_of
from slce_xp.core.groups import Groups
from slce_xp.core.krylov_space import KrylovSpace
from slce_xp.core.moment_sums import moments_of
from slce_xp.core.operators import CentroidOperator
from slce_xp.core.rows import DenseRows
from slce_xp.core.solution import Request, Solution

# Products in float64, and steps of the Krylov space of a correction, at most.
MOST_CORRECTIONS, MOST_STEPS = 3, 16
# A correction this exact is as good as float32 allows.
LEAST_SHARE = 1e-6
# Weights that differ by more than this factor are left to float64.
WEIGHT_RANGE = 1e12
SINGLE_EPS = float(np.finfo(np.float32).eps)


def has_mild_weights(groups: Groups) -> bool:
    """Whether float32 holds the weights of samples with room to spare."""
    weights = groups.weights
    return weights is None or bool(weights.max() <= WEIGHT_RANGE * weights.min())


class SingleRows(DenseRows):
    """Rows scale·(x − centre) of a float64 array in float32, converted block by block.

    Parameters
    ----------
    x : array, shape (n, d)
    centre : array, shape (d,)
    scale : float
        A power of two.
    kept : numpy.ndarray of int, optional
        Positions of the rows to read, ascending; all by default.
    """

    conversion_copies = 3  # a difference in float64, and its float32 copy

    def __init__(self, x: Array, centre: Array, scale: float, kept: np.ndarray | None) -> None:
        super().__init__(x, _backend.place_of(x).xp.float32, kept=kept)
        self._centre = centre
        self._scale = scale

    def _converted(self, values: Array, columns: slice = slice(None)) -> Array:
        values = values - self._centre[columns]
        if self._scale != 1.0:
            values *= self._scale
        return self.place.xp.astype(values, self.dtype)


def solve(
    double: CentroidOperator,
    x: Array,
    kept: np.ndarray | None,
    groups: Groups,
    request: Request,
    seed: int,
) -> Solution | None:
    """Leading eigenpairs to the tolerance of the request; None if that cannot be proved.

    Parameters
    ----------
    double : CentroidOperator
        Of the float64 array `x`, of which the rows at positions `kept` count.
    request : Request
        For the form that suits float32.
    """
    single = single_operator(double, x, kept, groups, request.form, seed)
    in_single = dataclasses.replace(request, tol=0.0)  # until residuals are rounding
    if request.width:
        found = krylov.solve(single, in_single)
    elif request.form == "gram":
        found = gram.solve(single, in_single)
    else:
        found = scatter.solve(single, in_single)
    return refined(double, single, found, request)


def single_operator(
    double: CentroidOperator,
    x: Array,
    kept: np.ndarray | None,
    groups: Groups,
    form: str,
    seed: int,
) -> CentroidOperator:
    """The same eigenproblem in float32, in units of its own; C, once formed, is kept."""
    rows = SingleRows(x, double.mean, double.scale, kept)
    moments = moments_of(rows, groups, second=form == "scatter")
    return CentroidOperator(rows, groups, moments, seed, keeps_scatter=True)


def refined(
    double: CentroidOperator, single: CentroidOperator, found: Solution, request: Request
) -> Solution | None:
    """Eigenpairs in float64 near those found in float32; None if the angle cannot be proved.

    Parameters
    ----------
    double, single : CentroidOperator
        The eigenproblem in float64, and its copy by `single_operator`.
    found : Solution
        Of `single`.
    request : Request
        Of the float64 solution.
    """
    low, high = found.n_positive
    count = low if request.positive_only else request.k
    is_counted = low == high or not request.positive_only
    if not count or not is_counted or found.eigenvalues.shape[0] < count or found.below == math.inf:
        return None
    xp, _ = double.place
    unit = single.scale**-2.0
    square = unit * float(read(xp.sum(single.feature_squares()))[0])
    # Rounding of the copy, and of products in either precision.
    distance = ROUNDING_EPS * SINGLE_EPS * square
    below = unit * found.below + 2.0 * SINGLE_EPS * square
    eps = eigen.eps_of(double.mean)
    rounding = ROUNDING_EPS * eps * (square + math.sqrt(square * double.centring))
    vectors = xp.astype(found.vectors[:, :count], double.dtype)
    rows = eigen.orthonormal_columns(vectors).T
    for _ in range(MOST_CORRECTIONS):
        rows, values, residual, lengths = _ritz(double, rows)
        gap = float(values[-1]) - below - rounding
        if not gap > 0.0:
            return None
        total = _norm(lengths)
        angle = angle_bound(total, rounding, float(values[-1]), below)
        if angle > request.tol:
            target = 0.25 * request.tol * gap / math.sqrt(count)
            change, left = _correction(single, rows, residual, lengths, values / unit, target)
            if change is None:
                return None
            change = change * (1.0 / unit)
            sizes, couplings = read(
                xp.linalg.vector_norm(change, axis=1, keepdims=True), change @ residual.T
            )
            values, turn = _turned(np.diag(values) + couplings, double, rows.dtype)
            rows = eigen.orthonormal_columns((turn @ (rows + change)).T).T
            total = _norm(left + distance * sizes[:, 0] + np.linalg.norm(couplings, axis=1))
            lengths = np.full(count, total)  # rows were turned: any of them may have all of it
            angle = angle_bound(total, rounding, float(values[-1]), below)
        if angle <= request.tol:
            return _solution(found, values, rows, lengths, rounding, angle)
    return None


def _solution(
    found: Solution,
    values: np.ndarray,
    rows: Array,
    lengths: np.ndarray,
    rounding: float,
    angle: float,
) -> Solution | None:
    """The solution, unless it is not known how many eigenvalues are positive."""
    if (np.abs(values) <= _norm(lengths) + rounding).any():
        return None
    positive = int((values > 0.0).sum())
    return Solution(
        eigenvalues=_backend.from_host(values, _backend.place_of(rows), rows.dtype),
        vectors=rows.T,
        n_positive=(positive, positive),
        angle_bound=angle,
        passes=found.passes,
        residuals=None if found.residuals is None else lengths / float(np.abs(values).max()),
        history=found.history,
        formed=found.formed,
    )


def _ritz(double: CentroidOperator, rows: Array) -> tuple[Array, np.ndarray, Array, np.ndarray]:
    """Ritz pairs in the span of orthonormal rows, their residuals and the lengths of these."""
    image = double.apply(rows)
    values, turn = _turned(read(rows @ image.T)[0], double, rows.dtype)
    rows, image = turn @ rows, turn @ image
    residual = image - _backend.from_host(values[:, None], double.place, rows.dtype) * rows
    residual = residual - (residual @ rows.T) @ rows
    return rows, values, residual, lengths_of(residual)


def _turned(matrix: np.ndarray, double: CentroidOperator, dtype: Any) -> tuple[np.ndarray, Array]:
    """Eigenvalues of a small symmetric matrix, descending, and its eigenvectors in rows."""
    values, vectors = _backend.eigh(0.5 * (matrix + matrix.T))
    turn = np.ascontiguousarray(vectors[:, ::-1].T)
    return values[::-1].copy(), _backend.from_host(turn, double.place, dtype)


def _correction(
    single: CentroidOperator,
    rows: Array,
    residual: Array,
    lengths: np.ndarray,
    values: np.ndarray,
    target: float,
) -> tuple[Array | None, np.ndarray]:
    """Rows T with (θ − M)·t = r for each residual r, and what is left of r; None if that fails.

    Values are in the units of the float32 operator, lengths and target in those of residuals.
    """
    xp, _ = single.place
    known = xp.astype(rows, single.dtype)
    sizes = np.maximum(lengths, np.finfo(float).tiny)
    scale = _backend.from_host(sizes[:, None], single.place, residual.dtype)
    start = xp.astype(residual / scale, single.dtype)

    def apply(block: Array) -> Array:
        """−M on the complement of the rows that are known."""
        image = single.apply(block - (block @ known.T) @ known)
        return (image @ known.T) @ known - image

    space = KrylovSpace(apply, start, start, (1 + MOST_STEPS) * len(values))
    for _ in range(MOST_STEPS):
        space.grow()
        poles, axes = _backend.eigh(space.matrix)
        shifted = poles[:, None] + values[None, :]
        if not (shifted > 0.0).all():
            return None, lengths  # not the leading eigenpairs
        right = np.zeros((space.size, len(values)))
        right[: space.classes.shape[1]] = space.classes.T
        solved = axes @ ((axes.T @ right) / shifted)
        left = sizes * np.linalg.norm(space.outside(solved), axis=1)
        is_exact = (left <= np.maximum(target, LEAST_SHARE * sizes)).all()
        if is_exact or space.exhausted:
            break
    left = sizes * lengths_of(space.combine_outside(solved)) / space.unit
    change = xp.astype(space.combine(solved), residual.dtype) * scale
    return change - (change @ rows.T) @ rows, left


def _norm(lengths: np.ndarray) -> float:
    return float(np.linalg.norm(lengths))
