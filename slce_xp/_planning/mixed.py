"""Mixed precision: whether it applies and pays, and what it costs."""

from __future__ import annotations

from slce_xp._planning.memory import PASS_COPIES, Memory
from slce_xp._planning.problem import MEMORY, Problem
from slce_xp._planning.profile import DOUBLE, SINGLE, Profile
from slce_xp.core.mixed import MOST_STEPS

# The arithmetic of a fit: as its dtype says, or large products of float64 data in float32.
FULL, MIXED = "full", "mixed"
# "auto" asks for float64 products that take so many times as long as those in float32, and for a
# fit that is predicted to be so many times faster.
SLOW_DOUBLE, LEAST_GAIN = 8.0, 1.5
LARGE = 4096  # rows and columns of the matrices whose product tells that
PRODUCTS = 2  # in float64: most fits take one, hard ones another


def applies(problem: Problem, precision: str, profile: Profile) -> bool:
    """Whether a fit can be computed in mixed precision, and may be."""
    is_dense = problem.where == MEMORY and problem.stored is None
    if precision == FULL or not (is_dense and problem.dtype == "float64" and problem.supervised):
        return False
    return precision == MIXED or _is_double_slow(profile)


def _is_double_slow(profile: Profile) -> bool:
    double, single = (profile.product(LARGE, LARGE, LARGE, item) for item in (DOUBLE, SINGLE))
    return double > SLOW_DOUBLE * single


def seconds_of_refinement(problem: Problem, profile: Profile) -> float:
    """Seconds of the steps that are taken in float64."""
    n, d = problem.n, problem.d
    sums = profile.product(problem.n_classes, n, d, DOUBLE)
    return sums + PRODUCTS * 2 * profile.product(n, d, problem.k, DOUBLE)


def memory_of_both(problem: Problem, form: str, single: Memory, full: Memory) -> Memory:
    """The bytes of a fit in float32 with a refinement, and of what may have to follow."""
    # C is kept for the correction, with what float64 has of sums and vectors and the Krylov space.
    kept = SINGLE * problem.d**2 if form == "scatter" else 0
    space = SINGLE * (1 + MOST_STEPS + PASS_COPIES) * problem.k
    refinement = problem.d * (space + DOUBLE * (8 * problem.k + 3 * problem.n_classes))
    return single._replace(
        device=max(full.device, single.device + kept + refinement),
        blocks=max(full.blocks, single.blocks),
        host=max(full.host, single.host),
    )
