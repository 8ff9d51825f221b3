"""Bytes that a fit allocates in addition to X; `benchmarks.memory` compares them with fits."""

from __future__ import annotations

import math
from typing import NamedTuple

from slce_xp._backend import LARGE_MATRIX, LARGEST_SHARE
from slce_xp._planning.problem import BLOCKS, MEMORY, Problem
from slce_xp._planning.schedule import TYPICAL_PASSES, Schedule, basis_length
from slce_xp.core.gram import MOST_LARGEST
from slce_xp.core.plane_search import search_numbers
from slce_xp.core.rows import LARGEST_BLOCK, block_bytes, device_block_bytes
from slce_xp.core.sums import ONE_HOT_CLASSES, PIECE_ROWS

ROOM_FACTOR = 1.2  # free memory of a device that a fit requires, relative to its estimate
PASS_COPIES = 9  # of a block of rows, while it is orthogonalized against the space
HOST_BYTES = 6 * 8  # for each entry of T of the Krylov space: its eigenvectors and workspace
# Bytes of a block that is read: enough for a disk and for fast products, or a share of the limit.
READ_BLOCK, READ_SHARE = 2**24, 16
# Blocks alive at a time: the one read, the next one, a shifted one, one times its weights.
BLOCKS_ALIVE = 4
# A block of rows that are converted or shifted may take this part of what a form allocates anyway:
# it adds to a sum that is as large as the result, and small ones do so too often.
COPY_SHARE = 4
# The part of what is left on an accelerator that larger blocks may take; most is for more passes.
DEVICE_BLOCK_SHARE = 8
# Bytes of rows that the Gram form holds while it reads the others.
PANEL_BYTES, PANEL_SHARE = 2**28, 4


class Memory(NamedTuple):
    """Estimated bytes of a form.

    Attributes
    ----------
    device : int
        On the device of X, at the peak.
    blocks : int
        More of them for integers and for data far from the origin, which are converted or shifted
        block by block, or for the blocks that are read.
    host : int
        On the host: labels and the small problem of the matrix-free form.
    temporaries : int
        Bytes of a pass over X in memory at a time, of which `device` has one; 0 if X is elsewhere.
    read_rows, panel_rows : int
        Rows of a block that is read, and those that the Gram form holds while it reads the others;
        0 if X is not read in blocks.
    """

    device: int
    blocks: int
    host: int
    read_rows: int = 0
    panel_rows: int = 0
    temporaries: int = 0

    @property
    def total(self) -> int:
        """All of them together, which `max_memory` bounds."""
        return self.device + self.blocks + self.host


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

    def spare(self, need: Memory) -> float:
        """Bytes left by a need; negative if it does not fit."""
        memory = math.inf if self.memory is None else self.memory - need.total
        # A workspace may be larger than LAPACK's, and memory is fragmented.
        needed = ROOM_FACTOR * (need.device + need.blocks)
        room = math.inf if self.room is None else self.room - needed
        return min(memory, room)

    def for_blocks(self, there: int, on_host: int) -> float:
        """Bytes left for blocks by other allocations: there, and on the host."""
        memory = math.inf if self.memory is None else self.memory - there - on_host
        room = math.inf if self.room is None else self.room / ROOM_FACTOR - there
        return min(memory, room)


def memory_of(form: str, problem: Problem, schedule: Schedule, limits: Limits) -> Memory:
    """The bytes that a form takes, with blocks as large as the limits allow."""
    if problem.where != MEMORY:
        return _memory_elsewhere(form, problem, schedule, limits)
    n, d, item = problem.n, problem.d, problem.itemsize
    block = block_bytes(n, d, item)
    copied = 0 if form == "gram" else block  # it has one already
    memory = _memory_with(form, problem, schedule, block, copied)
    if problem.stored is not None:
        return memory
    if problem.accelerated:
        most = limits.spare(memory) / DEVICE_BLOCK_SHARE
        larger = device_block_bytes(n, d, item, most)
        return _memory_with(form, problem, schedule, *larger) if larger[1] > block else memory
    copied = min(memory.device // COPY_SHARE, n * d * item)
    fits = copied > block and copied - memory.blocks <= limits.spare(memory)
    return memory._replace(blocks=copied) if fits else memory


def _memory_with(
    form: str, problem: Problem, schedule: Schedule, block: int, copied: int
) -> Memory:
    """The bytes for X in memory, with given bytes of temporaries and of rows that are copied."""
    device, host = _bytes_without_blocks(form, problem, schedule, block)
    return Memory(device + problem.made, copied, host, temporaries=block)


def _memory_elsewhere(form: str, problem: Problem, schedule: Schedule, limits: Limits) -> Memory:
    """The bytes for X in a file or on a cluster."""
    block = block_bytes(problem.n, problem.d, problem.itemsize)
    device, host = _bytes_without_blocks(form, problem, schedule, block)
    host += problem.made
    if problem.where != BLOCKS:
        return Memory(device, 0, host)
    left = limits.for_blocks(device, host)
    read_rows, panel_rows, read = _block_rows(form, problem, schedule.width, limits, left)
    return Memory(device, read, host, read_rows, panel_rows)


def _bytes_without_blocks(
    form: str, problem: Problem, schedule: Schedule, block: int
) -> tuple[int, int]:
    """Bytes on the device, with one block of temporaries, and on the host."""
    n, d, item, width = problem.n, problem.d, problem.itemsize, schedule.width
    rows = schedule.rows(problem, form)
    peak = _peak(form, problem, schedule, block // item)
    if problem.stored is not None and not problem.by_rows:
        # A pass by rows makes products of either length; the one over features is a sum of terms.
        peak += width * (n if n >= d else 2 * d) * item
    # Codes of labels, sorted by class, and T of the Krylov space with its eigenvectors.
    host = (2 + problem.sample_vectors) * 8 * n + HOST_BYTES * rows * rows
    if problem.separates:  # pairs of classes, and square matrices of them
        most = min(problem.n_classes - 1, d)
        host += 8 * (search_numbers(problem.n_classes, most, problem.k) + 6 * problem.n_classes**2)
    return peak, host


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


def _peak(form: str, problem: Problem, schedule: Schedule, block: int) -> int:
    """The peak of bytes on the device, with so many numbers in a block of temporaries."""
    n, d, n_classes, k, item = problem.n, problem.d, problem.n_classes, problem.k, problem.itemsize
    codes = 8 * n // item
    sums = n_classes * d
    few = n_classes <= ONE_HOT_CLASSES
    # Sums by class: a block, the sums and their next term, or sums class by class.
    hot = n_classes * (item + 1) // item  # one-hot rows and a mask of bytes
    # Pieces of a block that is read; pieces of X in memory are smaller than a block of it.
    piece = 2 * min(PIECE_ROWS, n, block // d) ** 2 if problem.where == BLOCKS else 0
    gathered = min(block, 2 * PIECE_ROWS * d)
    adding = min(block, hot * n) + codes + 2 * sums if few else gathered + piece + 4 * sums
    if problem.stored is not None:
        adding += block  # products copy what they multiply
    # At the end: sums, B and its squares, centroids, components and temporaries of the sign rule.
    ending = 4 * sums + 6 * k * d
    if form != "krylov" and n <= d:  # arbitrary directions are drawn in double precision
        ending += (3 + 8 // item) * k * d
    vectors = problem.sample_vectors * n
    adding += vectors
    held = 2 * sums + vectors  # sums and B, throughout
    if form == "scatter":
        # The second moment and its next term, of sparse rows in parts; M with eigenvectors and
        # workspace.
        if problem.stored is not None:
            pairs = min(d * d, problem.stored * problem.stored // n)  # values and columns
            adding += d * d + pairs * (item + 4) // item
        solving = (1 + _solver_matrices(d, problem)) * d * d + 64 * d
        if n < d and (k >= n_classes or not problem.supervised):  # the null space is resolved on X
            solving += 4 * d * d
        steps = [adding + 2 * d * d, held + 2 * sums + 2 * d * d, held + sums + solving]
        steps += [held + d * d + space for space in _spaces(form, problem, schedule, block)]
        ending += d * d
    elif form == "gram":
        # G, its next term and a block; the factor with M, eigenvectors and workspace.
        solving = (2 + _solver_matrices(n, problem)) * n * n + 64 * n
        if _computes_all(n, problem):
            solving, ending = solving + n * n, ending + n * n
        if not problem.supervised and n > d - k:  # all eigenvectors of T, reflected
            solving += 2 * n * n + n_classes * n
        if n > d:  # and their products with X, if few are positive
            solving += n * n
        elif k >= n_classes:  # vectors next to zero, and of the largest negative eigenvalues
            solving += 5 * d * min(n, 2 * k + MOST_LARGEST)
        forming = held + max(block, 2 * n * n) + 2 * n * n + 12 * d
        if problem.stored is not None:  # values in another dtype, and by columns with their rows
            forming += (problem.stored * (2 * item + 4) + 8 * d) // item
        steps = [adding, forming, held + solving]
        steps += [held + n * n + codes + space for space in _spaces(form, problem, schedule, block)]
    else:
        if problem.basis_length < d:
            held += codes + n_classes * n
        steps = [adding, *(held + space for space in _spaces(form, problem, schedule, block))]
        ending += schedule.rows(problem, form) * problem.basis_length
    return max(*steps, ending) * item


def _computes_all(size: int, problem: Problem) -> bool:
    """Whether NumPy's eigensolver computes all eigenpairs of a matrix of this size."""
    is_small = size <= LARGE_MATRIX and not problem.accelerated
    return is_small and problem.k + 1 >= LARGEST_SHARE * size


def _solver_matrices(size: int, problem: Problem) -> int:
    """Numbers that an eigensolver allocates, in matrices of this size."""
    if _computes_all(size, problem):  # a copy, eigenvectors and workspace, in double precision
        return 4 * 8 // problem.itemsize
    return 3


def _spaces(form: str, problem: Problem, schedule: Schedule, block: int) -> list[int]:
    """Numbers of a Krylov space after its wide passes, and in the end, with what a pass allocates.

    None without an iteration.
    """
    width, length = schedule.width, basis_length(problem, form)
    if not width:
        return []
    n, d = problem.n, problem.d
    wide = min(schedule.wide_passes, TYPICAL_PASSES)
    few = min(problem.n_classes, width)
    # All are allocated at once, with a pool of other rows.
    ending = schedule.rows(problem, form) + width
    numbers = []
    for space, hand in [(wide * width, width), (ending, few)]:
        space, hand = min(max(space, ending), length), min(hand, length)
        product = min(block, hand * max(n, d)) + 3 * hand * length
        numbers.append(space * length + max(product, PASS_COPIES * hand * length))
    return numbers
