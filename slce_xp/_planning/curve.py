"""Time against size, as a curve through points."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

# What is beyond these is not a time, and predictions with it may overflow.
LARGEST, MOST_POWER = 1e30, 6


@dataclass(frozen=True)
class Curve:
    """Seconds against a size: straight lines between points in logarithms.

    Below the first point the curve is flat; beyond the last it grows with a power of the size.
    It never falls.

    Attributes
    ----------
    sizes, seconds : tuple of float
        The points, in ascending order.
    power : float
        Growth beyond the last point.
    """

    sizes: tuple[float, ...]
    seconds: tuple[float, ...]
    power: float

    def __post_init__(self) -> None:
        numbers = (*self.sizes, *self.seconds, self.power)
        if not all(isinstance(x, (int, float)) and 0 < x < LARGEST for x in numbers):
            raise ValueError(f"a curve has positive numbers below {LARGEST:g}; got {self}")
        if self.power > MOST_POWER:
            raise ValueError(f"a curve grows with a power of at most {MOST_POWER}; got {self}")
        for values in (self.sizes, self.seconds):
            if not values or list(values) != sorted(values):
                raise ValueError(f"a curve has ascending points; got {self}")
        if len(set(self.sizes)) != len(self.seconds):
            raise ValueError(f"a curve has one time for each size; got {self}")

    @classmethod
    def through(cls, points: Iterable[tuple[float, float]], power: float) -> Curve:
        """The curve through (size, seconds); a time below an earlier one, which is noise, rises."""
        sizes, seconds = zip(*points, strict=True)
        return cls(sizes, tuple(accumulate(seconds, max)), power)

    def __call__(self, size: float) -> float:
        """Seconds at a size."""
        sizes, seconds = self.sizes, self.seconds
        if size <= sizes[0]:
            return seconds[0]
        if size >= sizes[-1]:
            return float(seconds[-1] * (size / sizes[-1]) ** self.power)
        i = bisect.bisect_right(sizes, size)
        share = math.log(size / sizes[i - 1]) / math.log(sizes[i] / sizes[i - 1])
        return float(seconds[i - 1] * (seconds[i] / seconds[i - 1]) ** share)
