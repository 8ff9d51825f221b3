"""Comparison of SLCE with other methods on one's own data."""

from slce_xp._comparison.compare import compare
from slce_xp._comparison.table import Comparison, Score

__all__ = ["Comparison", "Score", "compare"]
