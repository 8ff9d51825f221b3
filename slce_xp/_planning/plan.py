"""The choice of the form of the eigenproblem: integers in, a plan out. Does not use arrays."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from slce_xp import _parameters
from slce_xp._errors import invalid, naming
from slce_xp._planning import mixed, profiles
from slce_xp._planning.costs import Steps, flops_of, smaller_form
from slce_xp._planning.memory import HOST_BYTES, ROOM_FACTOR, Limits, Memory, memory_of
from slce_xp._planning.problem import BLOCKS, CLUSTER, ITEMSIZES, MEMORY, Problem
from slce_xp._planning.profile import Profile
from slce_xp._planning.schedule import (
    EASY_PASSES,
    TYPICAL_PASSES,
    Schedule,
    basis_length,
    schedule_of,
)
from slce_xp._planning.sizes import format_bytes, format_seconds, parse_bytes
from slce_xp.core.solution import FORMS, Costs

PATIENCE_BYTES = 5e12  # an hour or two of reading: recommend a cluster for more
# An iteration must be predicted to be so many times faster than a dense form on easy data before it
# is tried. Whatever the spectrum is, a fit that has to turn to the dense form takes about twice as
# long as that, so neither choice loses more than this.
LEAST_GAIN = 2.0
# Matrices of at most so many rows are left to a dense eigensolver.
SMALL = 200
# The same on typical data, if the dense form cannot use what the iteration has found, and on GPUs,
# where each pass is many launches. A pass over a file or a cluster is dear in more ways than its
# seconds: forming C takes one.
TYPICAL_GAIN, ONE_PASS_GAIN = 1.5, 4.0
# S_t of float32 data is formed in float64 if that takes at most so many times as long. In single
# precision it may turn out that eigenvalues within rounding of zero are needed, and all is computed
# again: neither choice loses much more than this.
MOST_WIDENING = 1.5
REQUESTED = "requested"  # the reason for a form that was not chosen
# For `choose`: the form with the smaller matrix, whatever is fastest.
SMALLER = "smaller"


@dataclass(frozen=True)
class Plan:
    """How a fit is computed, with its predicted time and its estimated work and memory.

    Attributes
    ----------
    form : str
        "scatter" (d × d), "gram" (n × n) or "krylov" (matrix-free).
    problem : Problem
        The size of the problem: `n_samples`, `n_features`, `n_classes`, `n_components`, `dtype`,
        `stored` entries of a sparse X, and `where` X is, are also attributes of the plan.
    schedule : Schedule
        `width` of the start block of an iteration, 0 without one, and the number of `wide_passes`
        after which only residuals are added to its space.
    memory : Memory
        `bytes` that are allocated at the peak in addition to X, on its device; the workspace of a
        dense eigensolver is counted as LAPACK's, twice its matrix. `block_bytes` of blocks that are
        converted, shifted or read; `host_bytes` on the host; `read_rows` and `panel_rows` of
        blocks that are read. All are also attributes of the plan.
    seconds : float
        Predicted time of a fit, with a typical number of products if it iterates. A prediction
        from a profile of the device, not a measurement.
    costs : Costs
        Predicted seconds of the steps that an iteration chooses from.
    passes : int
        Estimated passes over X, including the one for the class sums.
    flops : float
        Estimated floating-point operations.
    device : str
        The name of the profile behind the prediction.
    reason : str
        Why this form was chosen.
    advice : str
        Recommended storage for X, on a machine of a given memory.
    precision : {"full", "mixed"}
        "mixed": large products are taken in float32 and corrected by residuals in float64.

    See Also
    --------
    slce_xp.plan : Returns a plan.

    Examples
    --------
    >>> import slce_xp
    >>> slce_xp.plan(200, 20531, 5, device="cpu").form
    'gram'
    >>> slce_xp.plan(6000, 6000, 10, device="cpu").form
    'krylov'
    """

    form: str
    problem: Problem
    schedule: Schedule
    memory: Memory
    seconds: float = math.nan
    costs: Costs = Costs()  # noqa: RUF009 -- a tuple
    passes: int = 1
    flops: float = math.nan
    device: str = ""
    reason: str = ""
    advice: str = ""
    precision: str = mixed.FULL

    n_samples = property(lambda self: self.problem.n)
    n_features = property(lambda self: self.problem.d)
    n_classes = property(lambda self: self.problem.n_classes)
    n_components = property(lambda self: self.problem.k)
    dtype = property(lambda self: self.problem.dtype)
    computed_dtype = property(lambda self: self.problem.within(self.form).dtype)
    stored = property(lambda self: self.problem.stored)
    where = property(lambda self: self.problem.where)
    width = property(lambda self: self.schedule.width)
    wide_passes = property(lambda self: self.schedule.wide_passes)
    bytes = property(lambda self: self.memory.device)
    block_bytes = property(lambda self: self.memory.blocks)
    host_bytes = property(lambda self: self.memory.host)
    most_bytes = property(lambda self: self.memory.total)
    read_rows = property(lambda self: self.memory.read_rows)
    panel_rows = property(lambda self: self.memory.panel_rows)

    def __str__(self) -> str:
        block = f", block of {self.width} rows" if self.width else ""
        size = format_bytes(self.n_samples * self.n_features * ITEMSIZES[self.dtype])
        added = self.bytes + (self.block_bytes if self.where == BLOCKS else 0)
        data = {
            MEMORY: size
            if self.advice and not self.advice.startswith(MEMORY)
            else f"{size} in memory",
            BLOCKS: f"{size}, read in blocks of {self.read_rows} rows",
            CLUSTER: f"{size} in chunks on a cluster",
        }[self.where]
        lines = [
            f"plan for {self.n_samples} samples × {self.n_features} features, "
            f"{self.n_classes} classes, {self.dtype} → {self.n_components} "
            f"component{'s' * (self.n_components != 1)}",
            f"  X       {data}",
            f"  form    {self.form}{block}: {self.reason}",
            f"  work    {self.flops:.2g} flops, about {self.passes} "
            f"pass{'es' * (self.passes != 1)} over X",
            f"  memory  {format_bytes(added)} in addition to X, "
            f"{format_bytes(self.host_bytes)} on the host",
            f"  time    {format_seconds(self.seconds)}, predicted for {self.device}",
        ]
        if self.precision == mixed.MIXED:
            lines.append("  digits  products in float32, corrected by residuals in float64")
        if self.width and self.reason != REQUESTED:
            lines.append(f"  switch  {self._switch()}")
        return "\n".join(lines + [f"  advice  {self.advice}"] * bool(self.advice))

    def _switch(self) -> str:
        """What follows if the spectrum is hard, and when."""
        if self.form != "krylov":
            most = math.ceil(self.costs.dense / self.costs.formed)
            return f"to a dense eigensolver after {most} products with the matrix"
        if math.isinf(self.costs.forming):
            return "never: no dense form fits into memory"
        if self.where != MEMORY:
            most = math.ceil((self.costs.forming + self.costs.dense) / self.costs.implicit)
            return f"to a dense form after about {most} passes"
        most = math.ceil(self.costs.forming / self.costs.implicit)
        return f"the matrix is formed after {most} passes"

    def to_facts(self) -> dict[str, Any]:
        """Numbers and strings, for a file."""
        parts = {"problem": asdict(self.problem)}
        for name in ("schedule", "memory", "costs"):
            parts[name] = getattr(self, name)._asdict()
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in parts}
        return {**parts, **own}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Plan:
        """From the output of `to_facts`, or the flat one of older files."""
        if "problem" in facts:
            kinds: dict[str, Any] = {
                "problem": Problem, "schedule": Schedule, "memory": Memory, "costs": Costs
            }  # fmt: skip
            return cls(**{name: kinds[name](**part) if name in kinds else part
                          for name, part in facts.items()})  # fmt: skip
        names = ("n_samples", "n_features", "n_classes", "n_components", "dtype", "stored", "where")
        return cls(
            form=facts["form"],
            problem=Problem(*(facts.get(name, MEMORY) for name in names)),
            schedule=Schedule(facts["width"], facts["wide_passes"]),
            memory=Memory(facts["bytes"], facts["block_bytes"], facts["host_bytes"],
                          facts.get("read_rows", 0), facts.get("panel_rows", 0)),
            passes=facts["passes"],
            flops=facts["flops"],
            reason=facts["reason"],
        )  # fmt: skip


def plan(
    n_samples: int,
    n_features: int,
    n_classes: int,
    n_components: int | float | str | None = None,
    dtype: str = "float64",
    max_memory: int | str | None = None,
    stored: int | None = None,
    where: str = MEMORY,
    machine_memory: int | str | None = None,
    device: str | None = None,
    precision: str = "auto",
) -> Plan:
    """Estimate the cost of a fit, without data.

    The time of each form is predicted by a profile of the device, and the fastest form that fits
    into memory is chosen. An iteration is predicted with a dozen products; easy data take half of
    them. If it takes more, a fit turns to the next form once its steps have cost as much, or once
    its convergence says that they will.

    Parameters
    ----------
    n_samples, n_features, n_classes : int
        The size of the problem: n, d and K.
    n_components : int, float, "positive" or None
        As for `fit`.
    dtype : {"float64", "float32"}
    max_memory : int or str, optional
        Bytes that the fit may allocate in addition to X, such as "2GB".
    stored : int, optional
        Stored entries of a sparse X; dense by default.
    where : {"memory", "blocks", "cluster"}
        Where X is: an array in memory; a file or other row-sliceable object, read in blocks; a
        Dask array.
    machine_memory : int or str, optional
        Memory of one machine, or of its GPU: then the plan recommends where to store X, as its
        `advice`.
    device : str, optional
        Predict for this device: "cpu", "a100", "h100", "rtx4090", "rtx3090", "l4", "t4" or
        "rtx4060-laptop". By default the profile of this machine's CPU, as `slce_xp.calibrate`
        measured it, or a built-in one.
    precision : {"auto", "full", "mixed"}
        As for `fit`.

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
    >>> options = {"dtype": "float32", "device": "cpu"}
    >>> options |= {"where": "blocks", "max_memory": "2GB"}
    >>> print(slce_xp.plan(*shape, **options))  # doctest: +ELLIPSIS
    plan for 1000000 samples × 20000 features, 20 classes, float32 → 19 components
      X       80 GB, read in blocks of 209 rows
      form    krylov, block of 64 rows: the only one that fits into memory
      work    6.1e+13 flops, about 13 passes over X
      memory  ... MB in addition to X, ... MB on the host
      time    ... min, predicted for a CPU with 4 threads, not measured
      switch  never: no dense form fits into memory
    >>> print(slce_xp.plan(*shape, device="cpu", machine_memory="32GB").advice)
    blocks: X does not fit into 32 GB; read from a file 1 time, with 12.9 GB of memory
    """
    precision = _parameters.as_precision(precision)
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
    if device is not None and device not in profiles.PROFILES:
        known = ", ".join(map(repr, profiles.PROFILES))
        raise invalid("device", f"device must be one of {known}; got {device!r}")
    profile = profiles.load() if device is None else profiles.PROFILES[device]
    is_gpu = device not in (None, "cpu")
    problem = Problem(
        n, d, n_classes, k, dtype, stored, where, by_rows=where != MEMORY, accelerated=is_gpu,
        doubles=where == MEMORY and not is_gpu, by_code=not is_gpu,
    )  # fmt: skip
    limits = Limits(parse_bytes(max_memory))
    machine = parse_bytes(machine_memory, "machine_memory")
    advice = "" if machine is None else _advice(problem, limits, machine, profile)
    full = choose(problem, limits, "auto", profile)
    swift = in_mixed_precision(full, precision, limits, "auto", profile)
    return replace(swift or full, advice=advice)


def _advice(problem: Problem, limits: Limits, machine: int, profile: Profile) -> str:
    """Recommend memory, blocks or a cluster, with the reason."""
    size = problem.entries * (problem.itemsize + (0 if problem.stored is None else 4))
    too_large = f"X does not fit into {format_bytes(machine)}"
    try:
        inside = choose(replace(problem, where=MEMORY, by_rows=False), limits, "auto", profile)
        if size + inside.most_bytes <= machine:
            return (
                f"memory: X and the fit take {format_bytes(size + inside.most_bytes)} of "
                f"{format_bytes(machine)}"
            )
    except MemoryError:
        allowed = format_bytes(limits.memory or 0)
        too_large = f"a fit in memory takes more than {allowed} in addition to X"
    memory = machine if limits.memory is None else min(machine, limits.memory)
    try:
        inside_blocks = replace(problem, where=BLOCKS, by_rows=True)
        read = choose(inside_blocks, Limits(memory), "auto", profile)
    except MemoryError:
        return f"cluster: {too_large}, nor does a fit in blocks; use Dask, or fewer features"
    times = f"{read.passes} time{'s' * (read.passes != 1)}"
    if size * read.passes > PATIENCE_BYTES:
        return (
            f"cluster: {too_large}, and reading {format_bytes(size)} from one file {times} takes "
            f"long; as a Dask array, with {format_bytes(read.bytes + read.host_bytes)} at the "
            "client"
        )
    return (
        f"blocks: {too_large}; read from a file {times}, with {format_bytes(read.most_bytes)} "
        "of memory"
    )


def choose(
    problem: Problem,
    limits: Limits,
    solver: str,
    profile: Profile | None = None,
    *,
    widens: bool = True,
) -> Plan:
    """Return the fastest form that fits into memory, or the requested one if it fits.

    With `widens`, a matrix of float32 data may be planned in float64.
    """
    profile = profile or profiles.load()
    if solver == SMALLER:  # chunks of Dask are not scaled by columns
        solver = "scatter" if problem.where == CLUSTER else smaller_form(problem)
    if solver == "gram" and not problem.allows_gram:
        raise invalid(
            "solver",
            "solver must be 'auto', 'krylov' or 'scatter' for a sparse X, unless it is a matrix of "
            "SciPy that is fitted in memory; got 'gram'. Leave it out",
        )
    if solver != "auto":
        plan = _estimate(
            solver, problem, profile, _schedule(solver, problem, is_fast=False), limits
        )
        plan = _widened(plan, limits, profile) if widens else plan
        if limits.spare(plan.memory) < 0:
            raise _no_room([plan], limits)
        return replace(plan, reason=REQUESTED)
    plans = [
        _widened(_estimate(form, problem, profile, schedule, limits), limits, profile)
        for form in FORMS
        if form != "gram" or problem.allows_gram
        for schedule in _schedules(form, problem)
    ]
    allowed = [p for p in plans if limits.spare(p.memory) >= 0]
    if not allowed:
        raise _no_room(plans, limits)

    def handicapped(plan: Plan) -> float:
        return _handicapped(plan, profile)

    best = min(allowed, key=handicapped)
    if best.form == "krylov" and not any(p.form == smaller_form(problem) for p in allowed):
        best = replace(best, costs=best.costs._replace(forming=math.inf))
    others = {p.form: p for p in sorted(allowed, key=handicapped, reverse=True)}
    others.pop(best.form)
    reason = "the only one that fits into memory"
    if others:
        times = ", ".join(f"{format_seconds(p.seconds)} ({p.form})" for p in others.values())
        reason = f"{format_seconds(best.seconds)} against {times}"
        if min(plans, key=handicapped).form != best.form:
            reason += ", of those that fit into memory"
    return replace(best, reason=reason)


def _widened(plan: Plan, limits: Limits, profile: Profile) -> Plan:
    """The plan of a dense scatter form, in float64 if that costs little more."""
    problem = plan.problem
    if plan.form != "scatter" or plan.width or not problem.may_widen:
        return plan
    wide = _estimate("scatter", replace(problem, wide=True), profile, plan.schedule, limits)
    fits = limits.spare(wide.memory) >= 0
    return wide if fits and wide.seconds <= MOST_WIDENING * plan.seconds else plan


def in_mixed_precision(
    full: Plan, precision: str, limits: Limits, solver: str, profile: Profile
) -> Plan | None:
    """The plan of the same fit in mixed precision; None if it does not apply or does not pay.

    Parameters
    ----------
    full : Plan
        In full precision, which a fit turns to if it cannot prove the angle otherwise.
    precision : {"auto", "full", "mixed"}
    limits, solver, profile
        As for `choose`.
    """
    if not mixed.applies(full.problem, precision, profile):
        return None
    try:
        single = choose(replace(full.problem, dtype="float32"), limits, solver, profile)
    except MemoryError:
        return None
    seconds = single.seconds + mixed.seconds_of_refinement(full.problem, profile)
    memory = mixed.memory_of_both(full.problem, single.form, single.memory, full.memory)
    is_slow = precision != mixed.MIXED and full.seconds < mixed.LEAST_GAIN * seconds
    if is_slow or limits.spare(memory) < 0:
        return None
    return replace(
        single, problem=full.problem, memory=memory, seconds=seconds, precision=mixed.MIXED
    )


def _handicapped(plan: Plan, profile: Profile) -> float:
    """Predicted seconds; those of an iteration on easy data, times what hard data cost it."""
    if not plan.width:
        return plan.seconds
    problem = plan.problem
    if plan.form == "krylov" and plan.where != MEMORY:
        return plan.seconds * ONE_PASS_GAIN
    is_wider = problem.within(smaller_form(problem)).dtype != problem.dtype
    if problem.accelerated or (plan.form == "krylov" and is_wider):
        return plan.seconds * TYPICAL_GAIN
    if plan.form != "krylov":  # the dense form has the matrix, too, and is faster on most data
        return plan.costs.forming + LEAST_GAIN * (plan.seconds - plan.costs.forming)
    easy, _ = steps_of(plan.form, problem, profile).solve(plan.form, plan.schedule, EASY_PASSES)
    return LEAST_GAIN * easy


def _schedules(form: str, problem: Problem) -> list[Schedule]:
    """Without an iteration and with one, as far as they suit."""
    schedules = [] if form == "krylov" else [Schedule()]
    # Beyond the positive eigenvalues lie the null space and the bulk of the spectrum, and a start
    # block of very many classes is a dense problem already.
    dense = min(problem.n, problem.d) if problem.allows_gram else problem.d
    suits = problem.k < problem.n_classes and max(4 * problem.n_classes, SMALL) <= dense
    suits = suits and form in ("krylov", smaller_form(problem))  # not on the larger matrix
    is_single = problem.within(form).dtype == problem.dtype  # what residuals and angles are for
    if suits and (form != "gram" or (problem.supervised and is_single)):
        schedules.append(_schedule(form, problem, is_fast=True, iterates=True))
    return schedules


def _schedule(form: str, problem: Problem, *, is_fast: bool, iterates: bool = False) -> Schedule:
    if form == "krylov" or iterates:
        return schedule_of(form, problem, is_fast)
    return Schedule()


def steps_of(form: str, problem: Problem, profile: Profile) -> Steps:
    """The steps of a fit in a form, on the device of a profile and on this host."""
    computed = problem.within(form)
    host = profiles.load() if problem.accelerated else profile
    return Steps(computed, profile, host, converts=computed.dtype != problem.dtype)


def _estimate(
    form: str, problem: Problem, profile: Profile, schedule: Schedule, limits: Limits
) -> Plan:
    memory = memory_of(form, problem.within(form), schedule, limits)
    seconds, costs = steps_of(form, problem, profile).solve(form, schedule)
    passes = 1
    if form == "krylov":
        passes += TYPICAL_PASSES
    elif form == "gram":
        passes += 2
        if memory.panel_rows:
            passes += (-(-problem.n // memory.panel_rows) - 1) // 2
    return Plan(
        form=form,
        problem=problem,
        schedule=schedule,
        memory=memory,
        seconds=seconds,
        costs=costs,
        passes=passes,
        flops=flops_of(form, problem, schedule),
        device=profile.name,
    )


def most_rows(plan: Plan, limits: Limits) -> int:
    """Return how many rows an iteration may keep: the plan's, and those that still fit."""
    spare = limits.spare(plan.memory)
    if math.isinf(spare):
        return sys.maxsize
    rows = plan.schedule.rows(plan.problem, plan.form)
    each = basis_length(plan.problem, plan.form) * plan.problem.itemsize
    # With r rows: the array that holds them, up to half of it empty, and the one that it was copied
    # from; on the host, numbers in proportion to r². The plan has those of its own rows.
    room = spare + each * rows + HOST_BYTES * rows * rows
    half = 1.25 * each / HOST_BYTES
    return max(rows, int(math.sqrt(half * half + room / HOST_BYTES) - half))


def _no_room(plans: list[Plan], limits: Limits) -> MemoryError:
    if all(limits._replace(room=None).spare(p.memory) < 0 for p in plans):
        needs = ", ".join(f"{format_bytes(p.most_bytes)} ({p.form})" for p in plans)
        message = (
            f"max_memory must leave room for one form of the problem, which needs {needs} in "
            f"addition to X; got {format_bytes(limits.memory or 0)}. Raise max_memory or use "
            "float32"
        )
        return naming("max_memory", MemoryError(message))
    needs = ", ".join(
        f"{format_bytes(ROOM_FACTOR * (p.bytes + p.block_bytes))} ({p.form})" for p in plans
    )
    data = "a block of X" if plans[0].where == BLOCKS else "X"
    message = (
        f"the device must have room for {data} and for one form of the problem, which needs "
        f"{needs} in addition to X; it has {format_bytes(max(0, limits.room or 0))} for that. Free "
        "some of its memory, use float32 or fit on the host with backend='numpy'"
    )
    return naming("backend", MemoryError(message))
