"""The mathematics of SLCE, on arrays of any library that follows the array API standard."""

from slce_xp.core.sums import class_sums

__all__ = ["class_sums"]
