"""The size of a problem, and the bytes that a fit of it allocates in addition to X.

`benchmarks.memory` compares these bytes with those of fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from slce_xp import _backend
from slce_xp.core._centred import WIDE
from slce_xp.core._krylov import MORE_RANDOM, MOST_RANDOM
from slce_xp.core._pairs import BLOCK_NUMBERS, MOST_PAIRS
from slce_xp.core._rows import block_bytes, device_block_bytes

ITEMSIZES = {"float32": 4, "float64": 8}
# Where X is: in memory, read in blocks of rows, or in chunks on a cluster.
MEMORY, BLOCKS, CLUSTER = "memory", "blocks", "cluster"
# Products of an iteration: half of the data take no more than the first, hard ones up to 50.
EASY_PASSES, TYPICAL_PASSES = 8, 12
# Passes over X of each form, with the one for the class sums.
PASSES = {"scatter": 1, "gram": 4, "krylov": 1 + TYPICAL_PASSES}
# Rows of the start block. A wide block takes the fewest passes, which are expensive if X is in a
# file, on a cluster or on a GPU; in the memory of a CPU a narrow one is faster.
WIDTH, NARROW_WIDTH = 64, 16
# In the memory of a CPU, only residuals are added to the space after this many passes.
WIDE_PASSES = 3
ROOM_FACTOR = 1.2  # free memory of a device relative to the estimate: memory is fragmented
HOST_BYTES = 48  # per squared row of the Krylov space: its matrix, eigenvectors and workspace
# Bytes of a block that is read: enough for a disk and for fast products, or a share of the limit.
READ_BLOCK, READ_SHARE = 2**24, 16
# Blocks alive at a time: the one read, its copy, the next one, one centred, one with weights.
BLOCKS_ALIVE = 5
# Rows in memory are converted in blocks of up to this share of what a form allocates anyway: each
# block adds to a sum as large as the result, and small blocks do so too often.
COPY_SHARE = 4
# Larger blocks on an accelerator may take this share of the rest, most of which more passes need.
DEVICE_BLOCK_SHARE = 8
# Bytes of rows that the Gram form holds while it reads the others.
PANEL_BYTES, PANEL_SHARE = 2**28, 4


@dataclass(frozen=True)
class Problem:
    """The size of a problem, and where its data are.

    Attributes
    ----------
    n, d, n_classes, k : int
    dtype : str
        Of X, as it is computed with.
    stored : int or None
        Stored entries of a sparse X.
    where : {"memory", "blocks", "cluster"}
    sums : {"float64", "float32"}
        The dtype of sums, matrices and vectors.
    chunk_rows : int
        Rows stored together: reading one of them may cost as much as reading all.
    made : int
        Bytes of a converted copy of X, of another sparse format or dtype.
    weighted, supervised : bool
        Whether samples have weights, and whether all have labels.
    accelerated : bool
        True on a GPU or another accelerator.
    has_columns : bool
        True if columns of a sparse X can be read, which the Gram form needs.
    separates : bool
        True if the criterion is "separation".
    n_cells : int
        Cells of class and batch, which are summed instead of classes; 0 without batches.
    """

    n: int
    d: int
    n_classes: int
    k: int
    dtype: str
    stored: int | None = None
    where: str = MEMORY
    sums: str = "float64"
    chunk_rows: int = 1
    made: int = 0
    weighted: bool = False
    supervised: bool = True
    accelerated: bool = False
    has_columns: bool = True
    separates: bool = False
    n_cells: int = 0

    @property
    def itemsize(self) -> int:
        """Bytes of a number in sums, matrices and vectors."""
        return ITEMSIZES[self.sums]

    @property
    def entries(self) -> int:
        """Stored numbers in X."""
        return self.n * self.d if self.stored is None else self.stored

    @property
    def allows_gram(self) -> bool:
        """True if the columns of X are accessible in blocks, or X is dense."""
        return self.stored is None or (self.has_columns and self.where == MEMORY)

    @property
    def iterates(self) -> bool:
        """True if an iteration can find all components: beyond the classes lies the bulk."""
        return self.k < self.n_classes or not self.supervised

    @cached_property
    def length(self) -> int:
        """Length of the vectors of an iteration: of samples, if they are much shorter."""
        by_samples = WIDE * self.n < self.d and self.supervised and self.where != BLOCKS
        return self.n if by_samples else self.d

    @cached_property
    def width(self) -> int:
        """Rows of the start block of an iteration: random ones are added to the classes."""
        width = NARROW_WIDTH if self._narrows else WIDTH
        least = self.n_classes
        if not self.supervised:
            least += min(self.k, MOST_RANDOM) + MORE_RANDOM
        return min(max(width, least), self.length)

    @cached_property
    def rows(self) -> int:
        """Rows of the space of a typical iteration."""
        wide = WIDE_PASSES if self._narrows else TYPICAL_PASSES
        few = min(max(self.n_classes, self.k), self.width)
        return min(wide * self.width + (TYPICAL_PASSES - wide) * few, self.length)

    @cached_property
    def _narrows(self) -> bool:
        return self.where == MEMORY and not self.accelerated


class Memory(NamedTuple):
    """Estimated bytes of a form; see the attributes of a plan."""

    bytes: int
    block_bytes: int
    host_bytes: int
    temporaries: int = 0
    read_rows: int = 0
    panel_rows: int = 0


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

    def spare(self, there: int, on_host: int) -> float:
        """Bytes left by a need on the device and on the host; negative if it does not fit."""
        memory = math.inf if self.memory is None else self.memory - there - on_host
        room = math.inf if self.room is None else self.room - ROOM_FACTOR * there
        return min(memory, room)

    def share(self, most: int, share: int) -> int:
        """A number of bytes, or a share of the limits if that is less."""
        return max(1, min([most, *(size // share for size in self if size is not None)]))


def memory_of(form: str, problem: Problem, limits: Limits) -> Memory:
    """The bytes that a form takes, with blocks as large as the limits allow."""
    n, d, item = problem.n, problem.d, problem.itemsize
    host = _host_bytes(form, problem)
    block = block_bytes(n, d, item) if problem.where == MEMORY else 0
    peak = _peak(form, problem, block)
    if problem.where == BLOCKS:
        return _with_rows_read(peak, host, form, problem, limits)
    if problem.where != MEMORY:
        return Memory(peak, 0, host)
    spare = limits.spare(peak + block, host)
    copied = min(peak // COPY_SHARE, n * d * item)
    if problem.stored is None and problem.accelerated:
        block = device_block_bytes(n, d, item, spare / DEVICE_BLOCK_SHARE)
        return Memory(_peak(form, problem, block), block, host, block)
    fits = problem.stored is None and block < copied <= block + spare
    return Memory(peak, copied if fits else block, host, block)


def _peak(form: str, problem: Problem, block: int) -> int:
    """The peak of bytes on the device of X, with so many bytes in a block of temporaries."""
    n, d, n_classes, k, item = problem.n, problem.d, problem.n_classes, problem.k, problem.itemsize
    sums = (max(n_classes, problem.n_cells) + 1) * d
    # Codes of labels; weights, their roots and signs. Sums by class, their next term and centroids.
    held = 8 * n + (_sample_vectors(problem) * n + 4 * sums) * item
    ending = 5 * k * d * item  # components and temporaries of the sign rule
    # With its matrix, LAPACK takes two for a few eigenpairs and four for all; accelerators three.
    takes_all = 6 * (k + 1) >= min(n, d)
    solver = 3 if problem.accelerated else 4 if takes_all else 2
    solver += problem.separates  # the covariance
    if form == "krylov":
        # The basis, allocated at once with a start block to spare, and temporaries of a pass.
        space = min(problem.rows + problem.width, problem.length) + 6 * problem.width
        steps = [block + space * problem.length * item]
        ending += problem.rows * problem.length * item
        if problem.length < d:  # class indicators; a pass measures vectors of samples in the end
            held += n_classes * n * item
            ending += block
    elif form == "scatter":
        # The second moment, its next term and their sum; M with its eigensolver.
        steps = [block + 3 * d * d * item, ((1 + solver) * d * d + 64 * d) * item]
        ending += d * d * item
    else:
        # G, its next term and their sum; the factor of G and T with its eigensolver; in the end
        # another factor of G, and class indicators.
        steps = [block + 3 * n * n * item, ((3 + solver) * n * n + 64 * n) * item]
        ending += block + (3 * n * n + 2 * n_classes * n) * item
    if problem.stored is not None:
        # Dense blocks; products of either length; values in another dtype, and by columns.
        products = problem.width * (n if n >= d else 2 * d) * item
        columns = problem.stored * (2 * item + 4) + 8 * d
        steps[0] += block + {"krylov": products, "gram": columns}.get(form, 0)
    return problem.made + held + max(*steps, ending)


def _sample_vectors(problem: Problem) -> int:
    return 3 * problem.weighted + 3 * (not problem.supervised)


def _host_bytes(form: str, problem: Problem) -> int:
    """Bytes on the host: labels sorted by class, the Krylov space's matrix, pairs of classes."""
    host = (2 + _sample_vectors(problem)) * 8 * problem.n
    if form == "krylov":
        host += HOST_BYTES * problem.rows**2
    if problem.separates:
        others = problem.n_classes - 1
        pairs = min(problem.n_classes * others // 2, MOST_PAIRS)
        host += 48 * (min(pairs * others, BLOCK_NUMBERS) + problem.n_classes**2)
        host += 8 * pairs * (64 + 4 * problem.k)
    return host


def _with_rows_read(peak: int, host: int, form: str, problem: Problem, limits: Limits) -> Memory:
    """The bytes with blocks that are read, and rows that the Gram form holds meanwhile.

    As many rows as suit a disk or fit into the limits, but at least one.
    """
    n, item = problem.n, problem.itemsize
    per_row = max(1, problem.entries * (item if problem.stored is None else item + 4) // n)
    # One-hot codes or scores of a row may be larger than a short row itself.
    width = problem.width if form == "krylov" else 0
    made = max(width, 2 * min(problem.n_classes, _backend.ONE_HOT_CLASSES + 1)) * item
    if form == "scatter" and problem.stored is not None:  # dense, shifted, and with its sign
        made += (3 + 2 * (not problem.supervised)) * problem.d * item
    cost = BLOCKS_ALIVE * per_row + made
    held = per_row if form == "gram" else 0
    left = limits.spare(peak, host) / (1.0 if limits.room is None else ROOM_FACTOR)
    most = limits.share(READ_BLOCK, READ_SHARE) // max(per_row, made)
    most = min(max(most, problem.chunk_rows), n)
    read = int(max(1, min(most, left / (cost + held))))
    panel = 0
    if held:
        most = min(limits.share(PANEL_BYTES, PANEL_SHARE) // held, n)
        panel = int(max(read, min(most, (left - read * cost) / held)))
    return Memory(peak, read * cost + panel * held, host, 0, read, panel)
