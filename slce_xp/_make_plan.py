"""`plan`, and the plan for an X of any kind."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

from slce_xp import _backend, _parameters
from slce_xp._backend import Place, Sparse
from slce_xp._data.labels import as_labels
from slce_xp._data.matrix import as_values, check_sizes
from slce_xp._data.row_reader import RowReader
from slce_xp._errors import invalid, shown
from slce_xp._planning.plan import Plan, advice_on, choose
from slce_xp._planning.problem import BLOCKS, CLUSTER, ITEMSIZES, MEMORY, Limits, Problem
from slce_xp._planning.sizes import parse_bytes
from slce_xp.core._groups import Groups


def plan(
    n_samples: Any,
    n_features: Any,
    n_classes: int | None = None,
    n_components: int | float | str | None = None,
    dtype: str = "float64",
    max_memory: int | str | None = None,
    stored: int | None = None,
    where: str = MEMORY,
    machine_memory: int | str | None = None,
) -> Plan:
    """Estimate the work and memory of a fit: of ``(X, y)``, or without data on a CPU.

    The smaller of the d × d and the n × n matrix is formed if it is small, or if components beyond
    the number of classes are asked for; otherwise an iteration is planned with a dozen passes over
    X. If that does not fit into memory, another form is taken.

    Parameters
    ----------
    n_samples, n_features, n_classes : int
        The size of the problem: n, d and K. Or X and y, as for `fit`, which is where X is; then
        `n_classes`, `dtype`, `stored` and `where` are left out.
    n_components : int, float, "positive" or None
        As for `fit`.
    dtype : {"float64", "float32"}
        Of X; sums are float64 in either case.
    max_memory : int or str, optional
        Bytes that the fit may allocate in addition to X, such as "2GB".
    stored : int, optional
        Stored entries of a sparse X; dense by default.
    where : {"memory", "blocks", "cluster"}
        Where X is: an array in memory; a file or other row-sliceable object, read in blocks; a
        Dask array.
    machine_memory : int or str, optional
        Memory of one machine: then the plan recommends where to store X, as its `advice`.

    Returns
    -------
    Plan

    Raises
    ------
    MemoryError
        If no form fits into `max_memory`.

    See Also
    --------
    slce_xp.fit : Fits as planned; the plan is an attribute of its model.

    Examples
    --------
    >>> import slce_xp
    >>> shape = (1_000_000, 20_000, 20)
    >>> print(slce_xp.plan(*shape, dtype="float32", where="blocks"))  # doctest: +ELLIPSIS
    plan for 1000000 samples × 20000 features, 20 classes, float32 → 19 components
      X       80 GB, read in blocks of 104 rows
      form    krylov: a matrix of 20000 rows takes more work than an iteration
      work    6.1e+13 flops in float64, 13 reads of X
      memory  ... MB in addition to X, ... MB on the host
    >>> slce_xp.plan([[0.0, 1.0], [1.0, 0.0], [8.0, 1.0]], ["a", "a", "b"]).form
    'scatter'
    >>> print(slce_xp.plan(*shape, machine_memory="32GB").advice)  # doctest: +ELLIPSIS
    blocks: X does not fit into 32 GB; 13 reads of a file, with ... MB of memory
    """
    limits = Limits(parse_bytes(max_memory))
    is_number = isinstance(n_samples, numbers.Number) or getattr(n_samples, "shape", None) == ()
    has_rows = hasattr(n_samples, "__len__") and not isinstance(n_samples, str)
    if is_number or (n_classes is not None and not has_rows):
        problem = _problem_without_data(
            n_samples, n_features, n_classes, n_components, dtype, stored, where
        )
        found = choose(problem, limits, "auto")
    else:
        if n_classes is not None:
            raise invalid(
                "n_classes",
                f"n_classes must be left out with X and y, which have it; got {shown(n_classes)}. "
                "The number of components is n_components=",
            )
        given = {
            "dtype": dtype != "float64",
            "stored": stored is not None,
            "where": where != MEMORY,
        }
        for name in (name for name, is_given in given.items() if is_given):
            raise invalid(name, f"{name} must be left out with X and y, which have it; got one")
        problem, limits, found = _plan_of_data(n_samples, n_features, n_components, limits.memory)
    machine = parse_bytes(machine_memory, "machine_memory")
    if machine is None:
        return found
    return replace(found, advice=advice_on(problem, found.x_bytes, limits, machine))


def _problem_without_data(
    n_samples: Any,
    n_features: Any,
    n_classes: Any,
    n_components: Any,
    dtype: str,
    stored: int | None,
    where: str,
) -> Problem:
    n = _parameters.as_count(n_samples, "n_samples", 2)
    d = _parameters.as_count(n_features, "n_features", 1)
    n_classes = _parameters.as_count(n_classes, "n_classes", 2, n)
    k = _parameters.as_component_count(n_components, n_classes, d)
    if not isinstance(dtype, str) or dtype not in ITEMSIZES:
        rule = f"dtype must be one of {', '.join(map(repr, ITEMSIZES))}"
        raise invalid("dtype", f"{rule}; got {dtype!r}")
    if where not in (MEMORY, BLOCKS, CLUSTER):
        raise invalid("where", f"where must be 'memory', 'blocks' or 'cluster'; got {where!r}")
    if stored is not None:
        stored = _parameters.as_count(stored, "stored", 0, n * d)
    return Problem(n, d, n_classes, k, dtype, stored, where)


def _plan_of_data(
    X: Any, y: Any, n_components: Any, memory: int | None
) -> tuple[Problem, Limits, Plan]:
    matrix = as_values(X)
    check_sizes(matrix)
    n, d = matrix.shape
    labels = as_labels(y, n)
    k = _parameters.as_component_count(n_components, len(labels.classes), d)
    place = _parameters.find_place(matrix, None, None)
    problem = problem_at(matrix, place, labels.counted()[0], k)
    _, limits, found = make_plan(matrix, place, problem, memory, "auto")
    return problem, limits, found


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
