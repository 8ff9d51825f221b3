"""The plan for an X of any kind."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from slce_xp import _backend
from slce_xp._backend import Place, Sparse
from slce_xp._data.row_reader import RowReader
from slce_xp._planning import plan as _plan
from slce_xp._planning.memory import Limits
from slce_xp._planning.plan import Plan
from slce_xp._planning.problem import BLOCKS, CLUSTER, Problem
from slce_xp._planning.profile import Profile
from slce_xp.core.groups import Groups
from slce_xp.core.sums import ONE_HOT_CLASSES


def make_plan(
    matrix: Any,
    place: Place,
    problem: Problem,
    memory: int | None,
    solver: str,
    profile: Profile,
) -> tuple[Any, Limits, Plan]:
    """The plan for X, and X as it suits the plan: in memory, or to be read in blocks."""
    limits = Limits(memory, _backend.free_bytes(place))
    accelerated = _backend.accelerator_model(place) is not None
    has_double = _backend.dtype_name(_backend.longest_float(place)) == "float64"
    doubles = problem.doubles and has_double and not accelerated and _by_blocks(matrix, problem)
    by_code = _backend.adds_by_code(place)
    problem = dataclasses.replace(
        problem, accelerated=accelerated, doubles=doubles, by_code=by_code
    )
    choose = partial(_plan.choose, solver=solver, profile=profile)
    if _backend.is_dask(matrix):
        problem = dataclasses.replace(problem, where=CLUSTER, by_rows=matrix.numblocks[1] == 1)
        if _backend.is_sparse(matrix._meta):  # density unknown: assume dense
            problem = dataclasses.replace(problem, stored=problem.n * problem.d)
        return matrix, limits, choose(problem, limits)
    if not isinstance(matrix, RowReader):
        if isinstance(matrix, Sparse):
            made = _made_of(matrix, problem)
            problem = dataclasses.replace(problem, stored=matrix.stored, made=made)
        if _backend.place_of(matrix) == place:
            return matrix, limits, choose(problem, limits)
        room = limits.room
        beside = None if room is None else room - _backend.byte_count(matrix)
        try:
            limited = Limits(memory, beside)
            return matrix, limited, choose(problem, limited)
        except MemoryError:
            if beside is None or not RowReader.can_read(matrix):
                raise
        matrix = RowReader(matrix)  # too large for the device: block by block
    problem = dataclasses.replace(
        problem,
        where=BLOCKS,
        by_rows=True,
        doubles=False,
        stored=matrix.stored() if matrix.is_sparse else None,
        chunk_rows=matrix.chunk_rows,
        copies=matrix.copies,
    )
    return matrix, limits, choose(problem, limits)


def _by_blocks(matrix: Any, problem: Problem) -> bool:
    """Whether X is an array or a sparse matrix in memory that is converted block by block."""
    if isinstance(matrix, Sparse):  # if its library can slice, and the sums are made of blocks
        by_columns = problem.n_classes >= max(ONE_HOT_CLASSES + 1, problem.d)
        return matrix.can_slice and not by_columns
    return not isinstance(matrix, RowReader) and not _backend.is_dask(matrix)


def _made_of(matrix: Sparse, problem: Problem) -> int:
    """Bytes of a sparse matrix as it is computed with, as far as that is another than it is."""
    made = matrix.compressing_bytes
    if not _by_blocks(matrix, problem) and _backend.dtype_name(matrix.dtype) != problem.dtype:
        made += matrix.stored * (problem.itemsize + 8)
    return made


def costs(groups: Groups) -> dict[str, Any]:
    """What a plan has to know of the samples."""
    return {"weighted": groups.weights is not None, "supervised": groups.is_supervised}


def working_dtype_name(matrix: Any, place: Place) -> str:
    """The dtype that X is computed in at a place, found without moving a row of it."""
    moved = _backend.move(_backend.without_rows(matrix), place)
    return _backend.dtype_name(_backend.working_dtype(moved))
