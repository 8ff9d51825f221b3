"""The size of a problem, and where its data are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from slce_xp.core._centred import WIDE

FORMS = ("scatter", "gram", "krylov")
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
        least = self.n_classes if self.supervised else self.n_classes + min(self.k, 64) + 8
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
