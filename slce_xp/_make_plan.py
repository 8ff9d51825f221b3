"""The plan for an X of any kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slce_xp import _backend
from slce_xp._backend import Place, Sparse
from slce_xp._data.row_reader import RowReader
from slce_xp._planning.memory import Limits
from slce_xp._planning.plan import Plan, choose
from slce_xp._planning.problem import BLOCKS, CLUSTER, Problem
from slce_xp.core._groups import Groups


def make_plan(
    matrix: Any, place: Place, problem: Problem, memory: int | None, solver: str
) -> tuple[Any, Limits, Plan]:
    """The plan for X, and X as it suits the plan: in memory, or to be read in blocks."""
    limits = Limits(memory, _backend.free_bytes(place))
    if _backend.is_dask(matrix):
        is_sparse = _backend.is_sparse(matrix._meta)  # density unknown: assume dense
        stored = problem.n * problem.d if is_sparse else None
        problem = replace(problem, where=CLUSTER, stored=stored)
        return matrix, limits, choose(problem, limits, solver)
    if not isinstance(matrix, RowReader):
        if isinstance(matrix, Sparse):
            problem = _sparse(matrix, place, problem)
        if _backend.place_of(matrix) == place:
            return matrix, limits, choose(problem, limits, solver)
        beside = None if limits.room is None else limits.room - _backend.byte_count(matrix)
        limited = limits._replace(room=beside)
        try:
            return matrix, limited, choose(problem, limited, solver)
        except MemoryError:
            if beside is None or not RowReader.can_read(matrix):
                raise
        matrix = RowReader(matrix)  # too large for the device: block by block
    problem = replace(
        problem,
        where=BLOCKS,
        stored=matrix.stored() if matrix.is_sparse else None,
        chunk_rows=matrix.chunk_rows,
    )
    return matrix, limits, choose(problem, limits, solver)


def _sparse(matrix: Sparse, place: Place, problem: Problem) -> Problem:
    """The problem of a sparse matrix in memory, which is moved to a place."""
    stays = _backend.place_of(matrix).xp is place.xp
    return replace(
        problem,
        stored=matrix.stored,
        has_columns=matrix.has_columns and stays,
        made=matrix.compressing_bytes,
    )


def problem_at(
    matrix: Any, place: Place, groups: Groups, k: int, *, separates: bool = False
) -> Problem:
    """The size of a problem with k components, and the dtypes that X has at a place."""
    # Found without moving a row of X.
    moved = _backend.move(_backend.without_rows(matrix), place)
    n, d = matrix.shape
    return Problem(
        n,
        d,
        max(2, groups.n_classes),
        k,
        _backend.dtype_name(_backend.working_dtype(moved)),
        sums=_backend.dtype_name(_backend.sums_dtype(moved)),
        weighted=groups.weights is not None,
        supervised=groups.is_supervised,
        accelerated=_backend.is_accelerated(place),
        separates=separates,
    )


def sums_dtype(matrix: Any, place: Place) -> Any:
    """The dtype of sums at a place."""
    return _backend.sums_dtype(_backend.move(_backend.without_rows(matrix), place))
