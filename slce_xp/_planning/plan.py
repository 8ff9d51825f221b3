"""The choice of the form of the eigenproblem: integers in, a plan out. Does not use arrays."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from slce_xp import _html
from slce_xp._errors import invalid, naming
from slce_xp._planning.problem import (
    BLOCKS,
    CLUSTER,
    EASY_PASSES,
    HOST_BYTES,
    ITEMSIZES,
    MEMORY,
    PASSES,
    ROOM_FACTOR,
    TYPICAL_PASSES,
    Limits,
    Problem,
    memory_of,
)
from slce_xp._planning.sizes import format_bytes

# A matrix of at most this many rows is formed, whatever else: a dense eigensolver takes a fifth of
# a second, and its result is exact to rounding. An iteration would read a file a dozen times.
LARGEST_FORMED = {MEMORY: 1200, BLOCKS: 5000, CLUSTER: 5000}
# The same for a sparse X in memory, in which an iteration is much faster.
LARGEST_FORMED_SPARSE = 400
# A larger one of dense X is formed unless that takes this many times the work of an iteration, for
# its result is exact. Of sparse X, which is often counts, the work alone decides.
LEAST_GAIN = 2.0
# Time of a flop relative to one of a large dense product: of products with centred blocks of rows,
# of sparse products, and of LAPACK's eigensolvers.
BLOCK_SLOWDOWN, SPARSE_SLOWDOWN, EIGH_SLOWDOWN = 2.0, 20.0, 5.0
PATIENCE_BYTES = 5e12  # an hour or two of reading: recommend a cluster for more
# For `choose`: the form with the smaller matrix.
SMALLER = "smaller"


@dataclass(frozen=True)
class Plan:
    """How a fit is computed, with its estimated work and memory.

    Attributes
    ----------
    form : str
        "scatter" (d × d), "gram" (n × n) or "krylov" (matrix-free).
    n_samples, n_features, n_classes, n_components : int
    dtype : str
        Of X.
    sums : str
        The dtype of sums, matrices and vectors: float64 on a CPU, that of X on an accelerator.
    stored : int or None
        Stored entries of a sparse X.
    where : {"memory", "blocks", "cluster"}
        Where X is.
    width : int
        Rows of the start block of an iteration; 0 without one.
    rows : int
        Rows of the space of a typical iteration; 0 without one.
    passes : int
        Estimated passes over X, including the one for the class sums.
    flops : float
        Estimated floating-point operations.
    bytes : int
        Allocated at the peak in addition to X, on its device. The workspace of a dense eigensolver
        is counted as LAPACK's, twice its matrix.
    block_bytes : int
        Allocated for blocks of X that are converted and centred, or read.
    host_bytes : int
        Allocated on the host: labels and the small problem of an iteration.
    temporaries : int
        Bytes of temporaries of a pass over X in memory, part of `bytes`; 0 if X is elsewhere.
    read_rows, panel_rows : int
        Rows of a block that is read, and those that the Gram form holds while it reads the others;
        0 if X is not read in blocks.
    reason : str
        Why this form was chosen.
    advice : str
        Recommended storage for X, on a machine of a given memory.

    See Also
    --------
    slce_xp.plan : Returns a plan.

    Examples
    --------
    >>> import slce_xp
    >>> slce_xp.plan(200, 20531, 5).form
    'gram'
    >>> slce_xp.plan(6000, 6000, 10).form
    'krylov'
    """

    form: str
    n_samples: int
    n_features: int
    n_classes: int
    n_components: int
    dtype: str
    sums: str
    stored: int | None = None
    where: str = MEMORY
    width: int = 0
    rows: int = 0
    passes: int = 1
    flops: float = math.nan
    bytes: int = 0
    block_bytes: int = 0
    host_bytes: int = 0
    temporaries: int = 0
    read_rows: int = 0
    panel_rows: int = 0
    reason: str = ""
    advice: str = ""

    @property
    def most_bytes(self) -> int:
        """All bytes in addition to X together, which `max_memory` bounds."""
        return self.bytes + self.block_bytes + self.host_bytes

    @property
    def x_bytes(self) -> int:
        """Bytes of X; a sparse one has an index of four bytes for each entry."""
        item = ITEMSIZES[self.dtype]
        dense = self.n_samples * self.n_features * item
        return dense if self.stored is None else self.stored * (item + 4)

    def __str__(self) -> str:
        blocks = f", read in blocks of {self.read_rows} rows"
        place = {MEMORY: "", BLOCKS: blocks, CLUSTER: ", in chunks on a cluster"}[self.where]
        lines = [
            f"plan for {self.n_samples} samples × {self.n_features} features, "
            f"{self.n_classes} classes, {self.dtype} → {_count(self.n_components, 'component')}",
            f"  X       {format_bytes(self.x_bytes)}{place}",
            f"  form    {self.form}: {self.reason}",
            f"  work    {self.flops:.2g} flops in {self.sums}, {_count(self.passes, 'read')} of X",
            f"  memory  {format_bytes(self.bytes + self.block_bytes)} in addition to X, "
            f"{format_bytes(self.host_bytes)} on the host",
        ]
        return "\n".join(lines + [f"  advice  {self.advice}"] * bool(self.advice))

    def _repr_html_(self) -> str:
        return _html.table(str(self))

    def to_facts(self) -> dict[str, Any]:
        """Numbers and strings, for a file."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Plan:
        """From the output of `to_facts`, or what files of earlier versions have instead."""
        flat: dict[str, Any] = {}
        for name, value in facts.items():
            is_part = isinstance(value, dict)
            flat |= {_NOW.get(k, k): v for k, v in value.items()} if is_part else {name: value}
        known = {field.name: flat[field.name] for field in fields(cls) if field.name in flat}
        return cls(**{"sums": flat["dtype"], **known})


# Names in parts of a plan in files of earlier versions.
_NOW = {"n": "n_samples", "d": "n_features", "k": "n_components"}
_NOW |= {"device": "bytes", "blocks": "block_bytes", "host": "host_bytes"}


def choose(problem: Problem, limits: Limits, solver: str) -> Plan:
    """Return the preferred form that fits into memory, or the requested one if it fits.

    Parameters
    ----------
    problem : Problem
    limits : Limits
    solver : {"auto", "smaller", "scatter", "gram", "krylov"}
        "smaller": the form with the smaller matrix.

    Raises
    ------
    MemoryError
        If no form fits, or not the requested one.
    """
    if solver == "gram" and not problem.allows_gram:
        rule = "solver must be 'auto', 'krylov' or 'scatter' for a sparse X, unless it is a matrix"
        rule += " of SciPy that is fitted in memory; got 'gram'. Leave it out"
        raise invalid("solver", rule)
    plans = _plans_up_to_fitting(problem, limits, solver)
    if not _fits(plans[-1], limits):
        raise _no_room(plans, problem, limits)
    if len(plans) == 1:
        return plans[0]
    return replace(plans[-1], reason=f"{plans[0].form} does not fit into memory")


def smaller_form(problem: Problem) -> str:
    """The form with the smaller matrix; if n + k > d, the Gram form lacks k directions."""
    is_wide = problem.n + problem.k <= problem.d
    return "gram" if is_wide and problem.allows_gram else "scatter"


def preferred_form(problem: Problem) -> tuple[str, str]:
    """The form to take if memory allows it, and the reason."""
    form = smaller_form(problem)
    m = _matrix_rows(form, problem)
    is_sparse = problem.stored is not None and problem.where == MEMORY
    if m <= (LARGEST_FORMED_SPARSE if is_sparse else LARGEST_FORMED[problem.where]):
        return form, f"the {m} × {m} matrix is small"
    if not problem.iterates:
        return form, "so many components need a matrix"
    slowdown = BLOCK_SLOWDOWN if problem.stored is None else SPARSE_SLOWDOWN
    # The iteration solves problems as large as its space, all of which cost a few times the last.
    share = EASY_PASSES / TYPICAL_PASSES
    iterating = share * slowdown * _flops("krylov", problem)
    iterating += EIGH_SLOWDOWN * 12.0 * (share * problem.rows) ** 3
    forming = float(problem.n * problem.d * m) + EIGH_SLOWDOWN * 4 / 3 * m**3
    gain = 1.0 if is_sparse else LEAST_GAIN
    if problem.where == MEMORY and forming < gain * iterating:
        return form, f"an iteration takes as much work as the {m} × {m} matrix"
    return "krylov", f"a matrix of {m} rows takes more work than an iteration"


def most_rows(plan: Plan, limits: Limits, length: int) -> int:
    """Rows of this length that an iteration may keep: the plan's, and those that still fit."""
    spare = limits.spare(plan.bytes + plan.block_bytes, plan.host_bytes)
    if math.isinf(spare):
        return sys.maxsize
    each = length * ITEMSIZES[plan.sums]
    # With r rows: the array that holds them, up to half of it empty, and the one that it was copied
    # from; on the host, numbers in proportion to r². The plan has those of its own rows.
    room = spare + each * plan.rows + HOST_BYTES * plan.rows**2
    half = 1.25 * each / HOST_BYTES
    return max(plan.rows, int(math.sqrt(half * half + room / HOST_BYTES) - half))


def _plans_up_to_fitting(problem: Problem, limits: Limits, solver: str) -> list[Plan]:
    """Plans of the possible forms, the preferred one first, up to one that fits into memory."""
    forms, reason = _possible_forms(problem, solver)
    plans = []
    for form in dict.fromkeys(forms):
        plans.append(_estimate(form, problem, limits, reason))
        if _fits(plans[-1], limits):
            break
    return plans


def _possible_forms(problem: Problem, solver: str) -> tuple[list[str], str]:
    """The preferred form first, or the requested one alone; and the reason for it."""
    smaller = smaller_form(problem)
    if solver == "auto":
        form, reason = preferred_form(problem)
        return [form, smaller, *["krylov"] * problem.iterates, "scatter"], reason
    form, reason = solver, "requested"
    if solver == SMALLER:  # chunks of Dask are not scaled by columns
        form = "scatter" if problem.where == CLUSTER else smaller
        reason = "the smaller matrix"
    elif solver == "gram" and smaller != "gram":
        form, reason = smaller, f"gram needs n + k <= d: {smaller} instead"
    elif solver == "krylov" and not problem.iterates:
        form, reason = smaller, f"krylov needs n_components < n_classes: {smaller} instead"
    return [form], reason


def _estimate(form: str, problem: Problem, limits: Limits, reason: str) -> Plan:
    n, d, n_classes, k = problem.n, problem.d, problem.n_classes, problem.k
    sizes = (n, d, n_classes, k, problem.dtype, problem.sums, problem.stored, problem.where)
    memory = memory_of(form, problem, limits)
    panels = math.ceil(n / memory.panel_rows) if memory.panel_rows else 1
    passes = PASSES[form] + (panels - 1) // 2
    block = (problem.width, problem.rows) if form == "krylov" else (0, 0)
    return Plan(form, *sizes, *block, passes, _flops(form, problem), **memory._asdict(),
                reason=reason)  # fmt: skip


def _fits(plan: Plan, limits: Limits) -> bool:
    return limits.spare(plan.bytes + plan.block_bytes, plan.host_bytes) >= 0


def _matrix_rows(form: str, problem: Problem) -> int:
    return problem.n if form == "gram" else problem.d


def _flops(form: str, problem: Problem) -> float:
    """Floating-point operations of a typical fit, by the textbook."""
    if form == "krylov":
        return 4.0 * problem.entries * problem.rows
    m = _matrix_rows(form, problem)
    factor = m**3 + 4.0 * problem.entries * problem.k if form == "gram" else 0.0
    return float(problem.entries * m) + factor + 4.0 / 3.0 * m**3


def advice_on(problem: Problem, size: int, limits: Limits, machine: int) -> str:
    """Recommend memory, blocks or a cluster, with the bytes that a fit takes there."""
    room = format_bytes(machine)
    why = f"X does not fit into {room}" if size > machine else "X leaves too little memory to a fit"
    for where, held in ((MEMORY, size), (BLOCKS, 0)):
        allowed = Limits(min(machine - held, limits.memory or machine))
        found = _plans_up_to_fitting(replace(problem, where=where), allowed, "auto")[-1:]
        found = [plan for plan in found if _fits(plan, allowed)]
        need = format_bytes(held + found[0].most_bytes) if found else ""
        if found and where == MEMORY:
            return f"memory: X and the fit take {need} of {room}"
        if found and size * found[0].passes <= PATIENCE_BYTES:
            reads = _count(found[0].passes, "read")
            return f"blocks: {why}; {reads} of a file, with {need} of memory"
    return f"cluster: {why}, and reading it from a file takes too long or too much; use Dask"


def _no_room(plans: list[Plan], problem: Problem, limits: Limits) -> MemoryError:
    is_device = limits.memory is None or any(p.most_bytes <= limits.memory for p in plans)
    name, rule, action = "max_memory", "max_memory must leave room", "Raise max_memory"
    allowed = float(limits.memory or 0)
    if is_device:
        name, rule = "backend", "the device must have room for X and"
        action = "Free some of its memory or fit on the host with backend='numpy'"
        allowed = max(0.0, (limits.room or 0) / ROOM_FACTOR)
    needs = ", ".join(f"{format_bytes(p.most_bytes)} ({p.form})" for p in plans)
    text = f"{rule} for one form of the problem, which needs {needs} in addition to X; got "
    text += f"{format_bytes(allowed)}. {action}{_remedy(problem, limits)}"
    return naming(name, MemoryError(text))


def _remedy(problem: Problem, limits: Limits) -> str:
    """A change of the request that lets it fit, with the bytes that it then needs."""
    changes = {"solver='auto'": problem}
    if not problem.iterates:
        fewer = replace(problem, k=problem.n_classes - 1)
        changes["n_components below the number of classes"] = fewer
    if problem.accelerated and problem.dtype == "float64":
        changes["float32"] = replace(problem, dtype="float32", sums="float32")
    for change, changed in changes.items():
        solver = SMALLER if problem.separates else "auto"
        plan = _plans_up_to_fitting(changed, limits, solver)[-1]
        if _fits(plan, limits):
            return f", or use {change}, which needs {format_bytes(plan.most_bytes)}"
    return ""


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
