"""The size of a problem, and where its data are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

ITEMSIZES = {"float32": 4, "float64": 8}
# Where X is: in memory, read in blocks of rows, or in chunks on a cluster.
MEMORY, BLOCKS, CLUSTER = "memory", "blocks", "cluster"


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
    accelerated : bool
        Whether it is computed on a GPU or another accelerator.
    doubles : bool
        Whether forms with a matrix may compute in float64, whatever the dtype; the Gram form does.
    wide : bool
        Whether the scatter form is to do so, too.
    separates : bool
        Whether the criterion is "separation".
    by_code : bool
        Whether class sums take one reading of X, however many classes there are.
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
    accelerated: bool = False
    doubles: bool = False
    wide: bool = False
    by_code: bool = False
    separates: bool = False

    @property
    def may_widen(self) -> bool:
        """Whether the scatter form may compute in float64, and does not do so yet."""
        return self.doubles and self.dtype != "float64" and not self.wide

    def within(self, form: str) -> Problem:
        """The problem as a form computes it.

        G squares the condition of X: in single precision most small eigenvalues would have to be
        resolved on X again, which takes longer than a product in double precision.
        """
        is_double = self.wide if form == "scatter" else form == "gram" and self.doubles
        return self._in_double if is_double and self.dtype != "float64" else self

    @cached_property
    def _in_double(self) -> Problem:
        return replace(self, dtype="float64")

    @property
    def allows_gram(self) -> bool:
        """Whether the Gram form can be solved: of sparse matrices, those of SciPy have columns."""
        return self.stored is None or (self.by_code and self.where == MEMORY)

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
