"""How wide the blocks of an iteration are, and how many products it typically takes."""

from __future__ import annotations

from typing import NamedTuple

from slce_xp._planning.problem import Problem
from slce_xp.core import krylov

# Easy data take 2 to 8 products, hard ones up to 50 with the narrow block.
TYPICAL_PASSES = 12
# In memory a pass is cheap, and a narrow block that is soon reduced to residuals is fastest; the
# wide one takes the fewest passes. `python -m benchmarks.calibrate --data FOLDER` compares them.
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

    def rows(self, problem: Problem, form: str) -> int:
        """Rows of the space after a typical number of products."""
        wide = min(self.wide_passes, TYPICAL_PASSES)
        few = (TYPICAL_PASSES - wide) * min(problem.n_classes, self.width)
        return min(wide * self.width + few, basis_length(problem, form))


def basis_length(problem: Problem, form: str) -> int:
    """The length of the vectors of an iteration."""
    return {"scatter": problem.d, "gram": problem.n}.get(form, problem.basis_length)


def schedule_of(form: str, problem: Problem, is_fast: bool) -> Schedule:
    """The schedule that is fastest in memory, or the one with the fewest passes over X."""
    width = max(krylov.NARROW if is_fast else WIDE_WIDTH, problem.n_classes)
    if is_fast and problem.stored is not None and form == "krylov":
        width = max(SPARSE_WIDTH, problem.n_classes)
    if not problem.supervised:  # random rows: eigenvectors may point anywhere
        width = max(width, problem.n_classes + min(problem.k, 64) + 8)
        width = min(width, basis_length(problem, form))
    return Schedule(width, krylov.NARROW_PASSES if is_fast else ALWAYS)
