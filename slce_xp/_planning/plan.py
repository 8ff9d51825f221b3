"""The choice of the form of the eigenproblem: integers in, a plan out. Does not use arrays."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import NamedTuple

from slce_xp import _parameters
from slce_xp._errors import invalid, naming
from slce_xp._planning.sizes import format_bytes, parse_bytes
from slce_xp.core import krylov
from slce_xp.core.rows import LARGEST_BLOCK, block_bytes
from slce_xp.core.sums import ONE_HOT_CLASSES, PIECE_ROWS

# Costs in floating-point operations of a large matrix product, rounded from the output of
# `python -m benchmarks.calibrate`, which varies by a third from run to run.
EIGH_FLOPS = 8.0  # per m³: the leading eigenpairs of a dense m × m matrix
FACTOR_FLOPS = 6.0  # per n³: Cholesky factor and products around it in the Gram form
READ_FLOPS = 65.0  # per entry of X and pass: overhead of a narrow product

# The start block of the matrix-free form. In memory a pass is cheap, and a narrow block that is
# soon reduced to the residuals is fastest; the wide one takes the fewest passes. Passes and seconds
# by width and schedule: `python -m benchmarks.calibrate --data FOLDER`.
TYPICAL_PASSES = 12  # easy data take 2 to 8, hard ones up to 21 with the narrow block
PASS_COPIES = 8  # of a block of rows, while it is orthogonalized against the space
FAST_WIDTH, FAST_WIDE_PASSES = krylov.NARROW, krylov.NARROW_PASSES
WIDE_WIDTH, WIDE_WIDE_PASSES = 64, 10**6

# A sparse product costs so many times the flops of a dense one, in proportion to the rows of the
# block: a narrow block is best.
SPARSE_FLOPS, SPARSE_WIDTH = 20, 16

ROOM_FACTOR = 1.2  # free memory of a device that a fit requires, relative to its estimate
SMALL = 400  # NumPy factors matrices up to this size in double precision, whatever their dtype
ITEMSIZES = {"float32": 4, "float64": 8}
FORMS = ("scatter", "gram", "krylov")

# Where X is: in memory, read in blocks of rows, or in chunks on a cluster.
MEMORY, BLOCKS, CLUSTER = "memory", "blocks", "cluster"
# Bytes of a block that is read: enough for a disk and for fast products, or a share of the limit.
READ_BLOCK, READ_SHARE = 2**24, 16
# Blocks alive at a time: the one read, the next one, a shifted one, one times its weights.
BLOCKS_ALIVE = 4
# Bytes of rows that the Gram form holds while it reads the others.
PANEL_BYTES, PANEL_SHARE = 2**28, 4
DISK_FLOPS = 4.0  # cost of reading an entry from a disk, relative to memory
PATIENCE_BYTES = 5e12  # an hour or two of reading: recommend a cluster for more

# ---------------------------------------------------------------- problem and plan


@dataclass(frozen=True)
class Problem:
    """The size of a problem, and where its data are.

    Attributes
    ----------
    n, d, n_classes, k : int
    dtype : str
    stored : int or None
        Stored entries of a sparse X.
    where : {"memory", "blocks", "cluster"}
    by_rows : bool
        True if only row slicing is supported.
    chunk_rows : int
        Rows stored together: reading one of them may cost as much as reading all.
    copies : bool
        Whether each block is copied as it is read.
    made : int
        Bytes of a converted copy of X, of another sparse format or dtype.
    weighted, supervised : bool
        Whether samples have weights, and whether all have labels.
    """

    n: int
    d: int
    n_classes: int
    k: int
    dtype: str
    stored: int | None = None
    where: str = MEMORY
    by_rows: bool = False
    chunk_rows: int = 1
    copies: bool = False
    made: int = 0
    weighted: bool = False
    supervised: bool = True

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return ITEMSIZES[self.dtype]

    @property
    def entries(self) -> int:
        """Stored numbers in X."""
        return self.n * self.d if self.stored is None else self.stored

    @property
    def basis_length(self) -> int:
        """Length of the vectors of the matrix-free form: of a column if these are accessible."""
        return self.d if self.by_rows or not self.supervised else min(self.n, self.d)

    @property
    def sample_vectors(self) -> int:
        """Numbers per sample in addition to its code: weights, their roots and signs."""
        return 3 * self.weighted + 3 * (not self.supervised)


@dataclass(frozen=True)
class Plan:
    """How a fit is computed, with its estimated work and memory.

    Attributes
    ----------
    form : str
        "scatter" (d × d), "gram" (n × n) or "krylov" (matrix-free).
    n_samples, n_features, n_classes, n_components : int
    dtype : str
    width : int
        Rows of the start block of the matrix-free form; 0 for the others.
    wide_passes : int
        After this many passes only residuals are added to its space.
    passes : int
        Estimated passes over X, including the one for the class sums.
    flops : float
        Estimated floating-point operations.
    bytes : int
        Estimated peak of bytes allocated in addition to X, on its device. The workspace of a
        dense eigensolver is counted as LAPACK's: twice its matrix.
    block_bytes : int
        Additional bytes for integers and for data far from the origin, which are converted or
        shifted block by block.
    host_bytes : int
        Bytes on the host: labels and the small problem of the matrix-free form.
    stored : int or None
        Stored entries of a sparse X.
    reason : str
        Why this form was chosen.
    where : {"memory", "blocks", "cluster"}
        Where X is: in memory, read in blocks of rows, or in chunks on a cluster.
    read_rows : int
        Rows of a block that is read; 0 if X is not read in blocks.
    panel_rows : int
        Rows that the Gram form then holds while it reads the others.
    advice : str
        Recommended storage for X, on a machine of a given memory.

    See Also
    --------
    slce_xp.plan : Returns a plan.

    Examples
    --------
    >>> import slce_xp
    >>> slce_xp.plan(801, 20531, 5).form
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
    width: int
    wide_passes: int
    passes: int
    flops: float
    bytes: int
    block_bytes: int
    host_bytes: int
    stored: int | None
    reason: str
    where: str = MEMORY
    read_rows: int = 0
    panel_rows: int = 0
    advice: str = ""

    @property
    def most_bytes(self) -> int:
        """All of them together, which `max_memory` bounds."""
        return self.bytes + self.block_bytes + self.host_bytes

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
        ]
        return "\n".join(lines + [f"  advice  {self.advice}"] * bool(self.advice))


class Limits(NamedTuple):
    """Bytes that a fit may allocate; None: no limit.

    Attributes
    ----------
    memory : int or None
        Limit set by the caller, for the device and the host together.
    room : int or None
        Free memory of the device.
    """

    memory: int | None = None
    room: int | None = None

    def spare(self, plan: Plan) -> float:
        """Bytes left by a plan; negative if it does not fit."""
        memory = math.inf if self.memory is None else self.memory - plan.most_bytes
        # A workspace may be larger than LAPACK's, and memory is fragmented.
        needed = ROOM_FACTOR * (plan.bytes + plan.block_bytes)
        room = math.inf if self.room is None else self.room - needed
        return min(memory, room)

    def for_blocks(self, there: int, on_host: int) -> float:
        """Bytes left for blocks by other allocations: there, and on the host."""
        memory = math.inf if self.memory is None else self.memory - there - on_host
        room = math.inf if self.room is None else self.room / ROOM_FACTOR - there
        return min(memory, room)


# ---------------------------------------------------------------- choice


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
) -> Plan:
    """Estimate the cost of a fit, without data.

    The work of each form is estimated, and the cheapest form that fits into memory is chosen:
    about n·d² + 8·d³ operations for "scatter", n²·d + 14·n³ for "gram", and for "krylov" 4·n·d for
    each vector of its space, in addition to a dozen passes over X.

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
    >>> print(slce_xp.plan(*shape, dtype="float32", where="blocks", max_memory="2GB"))
    plan for 1000000 samples × 20000 features, 20 classes, float32 → 19 components
      X       80 GB, read in blocks of 209 rows
      form    krylov, block of 32 rows: the only one that fits into memory
      work    9e+13 flops, about 13 passes over X
      memory  117 MB in addition to X, 19.7 MB on the host
    >>> print(slce_xp.plan(*shape, dtype="float32", machine_memory="16GB").advice)
    blocks: X does not fit into 16 GB; read from a file 13 times, with 136 MB of memory
    """
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
    problem = Problem(n, d, n_classes, k, dtype, stored, where, by_rows=where != MEMORY)
    limits = Limits(parse_bytes(max_memory))
    machine = parse_bytes(machine_memory, "machine_memory")
    advice = "" if machine is None else _advice(problem, limits, machine)
    return replace(choose(problem, limits, "auto"), advice=advice)


def _advice(problem: Problem, limits: Limits, machine: int) -> str:
    """Recommend memory, blocks or a cluster, with the reason."""
    size = problem.entries * (problem.itemsize + (0 if problem.stored is None else 4))
    too_large = f"X does not fit into {format_bytes(machine)}"
    try:
        inside = choose(replace(problem, where=MEMORY, by_rows=False), limits, "auto")
        if size + inside.most_bytes <= machine:
            return (
                f"memory: X and all beside it take {format_bytes(size + inside.most_bytes)} of "
                f"{format_bytes(machine)}"
            )
    except MemoryError:
        allowed = format_bytes(limits.memory or 0)
        too_large = f"a fit in memory takes more than {allowed} in addition to X"
    memory = machine if limits.memory is None else min(machine, limits.memory)
    try:
        read = choose(replace(problem, where=BLOCKS, by_rows=True), Limits(memory), "auto")
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


def choose(problem: Problem, limits: Limits, solver: str) -> Plan:
    """Return the cheapest form that fits into memory, or the requested one if it fits."""
    if solver == "auto":
        forms = [form for form in FORMS if form != "krylov" or _suits_krylov(problem)]
        forms = [form for form in forms if form != "gram" or problem.stored is None]
    elif solver == "gram" and problem.stored is not None:
        raise invalid(
            "solver",
            "solver must be 'auto', 'krylov' or 'scatter' for a sparse X; got 'gram', which would "
            "make it dense. Leave it out",
        )
    else:
        forms = [solver]
    plans = [_estimate(form, problem, solver, limits) for form in forms]
    allowed = [p for p in plans if limits.spare(p) >= 0]
    if not allowed:
        raise _no_room(plans, limits)
    best = min(allowed, key=lambda p: p.flops)
    if solver != "auto":
        reason = "requested"
    else:
        others = ", ".join(f"{p.flops:.2g} ({p.form})" for p in allowed if p is not best)
        reason = f"{best.flops:.2g} flops against {others}"
        if min(plans, key=lambda p: p.flops) is not best:
            reason += ", of those that fit into memory"
        if len(allowed) == 1:
            reason = "the only one that fits into memory"
    return replace(best, reason=reason)


def _no_room(plans: list[Plan], limits: Limits) -> MemoryError:
    if all(limits._replace(room=None).spare(p) < 0 for p in plans):
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


# ---------------------------------------------------------------- cost of a form


def dense_form(problem: Problem) -> str:
    """Return the dense form with the smaller matrix, to finish a matrix-free solve."""
    return "gram" if problem.n < problem.d and problem.stored is None else "scatter"


def most_rows(plan: Plan, limits: Limits, supervised: bool = True) -> int:
    """Return how many rows the matrix-free form may keep: the plan's, and those that still fit."""
    spare = limits.spare(plan)
    if math.isinf(spare):
        return sys.maxsize
    # Vectors of samples may be shorter.
    length = plan.n_features
    if plan.where == MEMORY and supervised:
        length = min(plan.n_samples, plan.n_features)
    more = int(spare) // (length * ITEMSIZES[plan.dtype])
    return _typical_rows(plan.n_classes, plan.width, plan.wide_passes, length) + more


def _typical_rows(n_classes: int, width: int, wide_passes: int, shorter: int) -> int:
    wide = min(wide_passes, TYPICAL_PASSES)
    return min(wide * width + (TYPICAL_PASSES - wide) * min(n_classes, width), shorter)


def _suits_krylov(problem: Problem) -> bool:
    # Beyond the positive eigenvalues lie the null space and the bulk of the spectrum, and a start
    # block of very many classes is a dense problem already.
    shorter = min(problem.n, problem.d)
    return problem.k < problem.n_classes and 4 * problem.n_classes <= shorter


def _block_rows(
    form: str, problem: Problem, width: int, limits: Limits, left: float
) -> tuple[int, int, int]:
    """Return the rows of a block that is read, those the Gram form holds, and the bytes of both.

    As many as suit a disk or fit into what is left, but at least one.
    """
    n, item = problem.n, problem.itemsize
    per_row = max(1, problem.entries * (item if problem.stored is None else item + 4) // n)
    # One-hot codes or scores of a row may be larger than a short row itself.
    made = max(width, 2 * min(problem.n_classes, ONE_HOT_CLASSES + 1)) * item
    cost = (BLOCKS_ALIVE + problem.copies) * per_row + made
    held = per_row if form == "gram" else 0
    most = min(
        _share(READ_BLOCK, READ_SHARE, limits) // per_row,
        _share(LARGEST_BLOCK, READ_SHARE, limits) // made,
    )
    most = min(max(most, problem.chunk_rows), n)
    read_rows = int(max(1, min(most, left / (cost + held))))
    if not held:
        return read_rows, 0, read_rows * cost
    most = min(_share(PANEL_BYTES, PANEL_SHARE, limits) // held, n)
    panel_rows = int(max(read_rows, min(most, (left - read_rows * cost) / held)))
    return read_rows, panel_rows, read_rows * cost + panel_rows * held


def _share(most: int, share: int, limits: Limits) -> int:
    allowed = [size // share for size in limits if size is not None]
    return max(1, min(most, *allowed)) if allowed else most


def _estimate(form: str, problem: Problem, solver: str, limits: Limits) -> Plan:
    n, d, n_classes, k = problem.n, problem.d, problem.n_classes, problem.k
    item, stored = problem.itemsize, problem.stored
    entries = n * d if stored is None else SPARSE_FLOPS * stored
    reading = READ_FLOPS * entries * (DISK_FLOPS if problem.where != MEMORY else 1.0)
    width = wide_passes = rows = 0
    passes, flops = 1, reading
    if form == "scatter":
        flops += entries * d + EIGH_FLOPS * d**3
    elif form == "gram":
        passes += 2
        flops += entries * n + 4.0 * entries * k + (EIGH_FLOPS + FACTOR_FLOPS) * n**3
        if problem.where == CLUSTER:
            flops += 2 * reading
    else:
        fast = solver == "auto"
        width = max(FAST_WIDTH if fast else WIDE_WIDTH, n_classes)
        if fast and stored is not None:
            width = max(SPARSE_WIDTH, n_classes)
        if not problem.supervised:  # random rows: eigenvectors may point anywhere
            width = min(max(width, n_classes + min(k, 64) + 8), problem.basis_length)
        wide_passes = FAST_WIDE_PASSES if fast else WIDE_WIDE_PASSES
        passes += TYPICAL_PASSES
        rows = _typical_rows(n_classes, width, wide_passes, problem.basis_length)
        flops += TYPICAL_PASSES * reading + 4.0 * entries * rows
    peak = _peak(form, problem, width, wide_passes)
    if stored is not None and not problem.by_rows:
        # A pass by rows makes products of either length; the one over features is a sum of terms.
        peak += width * (n if n >= d else 2 * d) * item
    block = 0 if form == "gram" else block_bytes(n, d, item)  # it has one already
    # Codes of labels, sorted by class, and T of the Krylov space with its eigenvectors.
    host_bytes = (2 + problem.sample_vectors) * 8 * n + 6 * 8 * rows * rows
    if problem.where == MEMORY:
        peak += problem.made
    else:
        host_bytes += problem.made
    read_rows = panel_rows = 0
    if problem.where == BLOCKS:
        left = limits.for_blocks(peak, host_bytes)
        read_rows, panel_rows, block = _block_rows(form, problem, width, limits, left)
        if form == "gram":
            passes += (-(-n // panel_rows) - 1) // 2
            flops += passes * reading
    return Plan(
        form=form, n_samples=n, n_features=d, n_classes=n_classes, n_components=k,
        dtype=problem.dtype, width=width, wide_passes=wide_passes, passes=passes, flops=flops,
        bytes=peak, block_bytes=block if problem.where != CLUSTER else 0, host_bytes=host_bytes,
        stored=stored, reason="", where=problem.where, read_rows=read_rows, panel_rows=panel_rows,
    )  # fmt: skip


def _peak(form: str, problem: Problem, width: int, wide_passes: int) -> int:
    """Estimate the peak of bytes in addition to X; `benchmarks.memory` compares it with fits."""
    n, d, n_classes, k, item = problem.n, problem.d, problem.n_classes, problem.k, problem.itemsize
    block = block_bytes(n, d, item) // item
    codes = 8 * n // item
    sums = n_classes * d
    few = n_classes <= ONE_HOT_CLASSES
    # Sums by class: a block, the sums and their next term, or sums class by class.
    hot = n_classes * (item + 1) // item  # one-hot rows and a mask of bytes
    # Pieces of a block that is read; pieces of X in memory are smaller than a block of it.
    piece = 2 * min(PIECE_ROWS, n, block // d) ** 2 if problem.where == BLOCKS else 0
    adding = min(block, hot * n) + codes + 2 * sums if few else block + piece + 4 * sums
    if problem.stored is not None:
        adding += block  # products copy what they multiply
    # At the end: sums, B and centroids, components and temporaries of the sign rule.
    ending = 3 * sums + 6 * k * d
    if form != "krylov" and n <= d:  # arbitrary directions are drawn in double precision
        ending += (1 + 8 // item) * k * d
    vectors = problem.sample_vectors * n
    adding += vectors
    held = 2 * sums + vectors  # sums and B, throughout
    if form == "scatter":
        # The second moment and its next term, of sparse rows in parts; M with eigenvectors and
        # workspace.
        adding += d * d if problem.stored is not None else 0
        steps = [adding + 2 * d * d, held + 2 * sums + 2 * d * d, held + sums + 4 * d * d + 64 * d]
        ending += d * d
    elif form == "gram":
        # G, its next term and a block; the factor with M, eigenvectors and workspace.
        solving = 5 * n * n + 64 * n
        if item == 4 and n <= SMALL:
            solving += 2 * n * n
        if not problem.supervised and n > d - k:  # all eigenvectors of T, reflected
            solving += 2 * n * n + n_classes * n
        if n > d:  # and their products with X, if few are positive
            solving += n * n
        steps = [adding, held + max(block, 2 * n * n) + 2 * n * n, held + solving]
    else:
        length = problem.basis_length
        if length < d:
            held += codes + n_classes * n
        steps = [adding]
        # After the wide passes, and in the end, with a pool of other rows.
        wide = min(wide_passes, TYPICAL_PASSES)
        rows = _typical_rows(n_classes, width, wide_passes, length)
        few_rows = min(n_classes, width)
        for space, hand in [(wide * width, width), (rows + 3 * (width - few_rows), few_rows)]:
            space, hand = min(space, length), min(hand, length)
            product = min(block, hand * max(n, d)) + 3 * hand * length
            made = max(product, PASS_COPIES * hand * length)
            steps.append(held + space * length + made)
        ending += rows * length
    return max(*steps, ending) * item
