"""How wide the blocks of an iteration are, and how many products it typically takes."""

from __future__ import annotations

from typing import NamedTuple

from slce_xp._planning.problem import MEMORY, Problem
from slce_xp.core import krylov

# Easy data take 2 to 8 products, hard ones up to 50 with the narrow block.
EASY_PASSES, TYPICAL_PASSES = 5, 12
# In memory a pass is cheap, and a narrow block that is soon reduced to residuals is fastest; the
# wide one takes the fewest passes, which are dear elsewhere.
WIDE_WIDTH, ALWAYS = 64, 10**6
# A sparse product costs in proportion to the rows of the block: a narrow block is best.
SPARSE_WIDTH = 16


class Schedule(NamedTuple):
    """The blocks of an iteration.

    Attributes
    ----------
    width : int
        Rows of the start block; 0 without an iteration.
    wide_passes : int
        After this many products only residuals are added to the space.
    """

    width: int = 0
    wide_passes: int = 0

    def rows(self, problem: Problem, form: str, products: int = TYPICAL_PASSES) -> int:
        """Rows of the space after some products, by default a typical number of them."""
        wide = min(self.wide_passes, products)
        few = (products - wide) * min(problem.n_classes, self.width)
        return min(wide * self.width + few, basis_length(problem, form))


def basis_length(problem: Problem, form: str) -> int:
    """The length of the vectors of an iteration."""
    return {"scatter": problem.d, "gram": problem.n}.get(form, problem.basis_length)


def schedule_of(form: str, problem: Problem, is_fast: bool) -> Schedule:
    """The schedule that is fastest, or the one with the fewest passes over X."""
    is_cheap = problem.where == MEMORY and not problem.accelerated
    width, wide_passes = WIDE_WIDTH, ALWAYS
    if is_fast and form != "krylov":
        width = krylov.NARROW
    elif is_fast and is_cheap:
        width = krylov.NARROW if problem.stored is None else SPARSE_WIDTH
        wide_passes = krylov.NARROW_PASSES
    width = max(width, problem.n_classes)
    if not problem.supervised:  # random rows: eigenvectors may point anywhere
        width = max(width, problem.n_classes + min(problem.k, 64) + 8)
        width = min(width, basis_length(problem, form))
    return Schedule(width, wide_passes)
