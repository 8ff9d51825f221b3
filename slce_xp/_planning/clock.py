"""How the steps of a calibration are timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import LARGE_MATRIX, Array, Place
from slce_xp._planning import profiles

LEAST = 1e-9  # seconds: no step takes less, whatever the clock says
CHAIN = 32  # operations in a row, of which one is timed
PAUSE = 2e-3  # seconds before them


@dataclass(frozen=True)
class Effort:
    """How much to measure.

    Attributes
    ----------
    entries : int
        Most entries of a matrix.
    sizes : tuple of int
        Of square matrices to be factored.
    widths : tuple of int
    enough : float
        Seconds of one step from which on it needs no larger size.
    budget : float
        Seconds for the repetitions of one step in a lap.
    laps : int
    patience : float
        Seconds after which no other lap begins.
    """

    entries: int = 2**26
    # On either side of the size from which on NumPy's arrays are factored in another way.
    sizes: tuple[int, ...] = (
        32, 100, 200, 400, 800, LARGE_MATRIX, LARGE_MATRIX + 20, 3200, 6400
    )  # fmt: skip
    widths: tuple[int, ...] = (1, 8, 16, 32, 128, 512)
    enough: float = 0.15
    budget: float = 0.03
    laps: int = 3
    patience: float = 20.0


QUICK = Effort(2**12, (16, 32), (1, 8), 1e-3, 1e-3, 2)


class Clock:
    """Takes the time of steps on a device, each known by a name."""

    def __init__(self, place: Place, effort: Effort) -> None:
        self.place, self.effort = place, effort
        # The time of one thread of a CPU does not depend on what else runs there.
        is_alone = _backend.accelerator_model(place) is None and profiles.threads() == 1
        self._now = time.process_time if is_alone else time.perf_counter
        self._times: dict[tuple, list[float]] = {}

    @property
    def wait(self) -> float:
        """Seconds until the host has read one number."""
        return self._typical(("wait",))

    @property
    def operation(self) -> float:
        """Overhead of one array operation."""
        return max(self._typical(("chain",)) - self.wait, LEAST) / CHAIN

    @property
    def is_disturbed(self) -> bool:
        """Whether most steps took much longer in all laps but one, or there was only one lap."""
        laps = [sorted(times) for times in self._times.values() if len(times) > 1]
        return not laps or float(np.median([t[1] / t[0] for t in laps])) > 1.3

    def measure_overhead(self) -> None:
        """Measure what has to be subtracted from other times."""
        small = self.draw((8, 8), _backend.longest_float(self.place))

        def chain() -> Array:
            x = small
            for _ in range(CHAIN // 2):
                x = (small @ x) * 0.25
            return x

        self._run(("wait",), lambda: small)
        # A fit is not called in a loop: it finds caches as other work left them.
        self._run(("chain",), chain, PAUSE)

    def draw(self, shape: tuple[int, int], dtype: Any) -> Array:
        """Normal numbers at the place."""
        return _backend.draw_normal(0, shape, self.place, dtype)

    def net(self, name: tuple, run: Callable[[], Array]) -> float:
        """Time of a step in a typical lap, without waiting and the overhead of one operation."""
        return max(self._run(name, run) - self.wait - self.operation, LEAST)

    def _run(self, name: tuple, run: Callable[[], Array], pause: float = 0.0) -> float:
        """Time a step in this lap; return its typical time in all laps so far."""
        taken: list[float] = []
        if name not in self._times:
            _finish(run())  # to warm up
        spent = 0.0
        while not taken or (spent < self.effort.budget and len(taken) < 1000):
            time.sleep(pause)
            start = self._now()
            _finish(run())
            taken.append(self._now() - start)
            spent += pause + taken[-1]
        self._times.setdefault(name, []).append(float(np.median(taken)))
        return self._typical(name)

    def _typical(self, name: tuple) -> float:
        """The median over laps: fits, too, are made while other programs come and go."""
        return float(np.median(self._times[name]))


def _finish(x: Array) -> None:
    _backend.to_host(x[:1, ...])  # a device computes until its result is read
