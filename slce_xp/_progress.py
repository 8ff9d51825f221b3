"""Progress reporters."""

from __future__ import annotations

import importlib
from typing import Any

from ._errors import naming, not_installed


class Progress:
    """Progress reporter that shows nothing."""

    def begin_pass(self, rows: int, of: int = 0) -> None:
        """Start a pass over some rows, which may be a part `of` all, as in the Gram form."""

    def read(self, rows: int, block: int, blocks: int) -> None:
        """Report a block of rows as read, the `block`-th of `blocks`."""

    def residual(self, value: float) -> None:
        """Report the residual of the matrix-free form."""

    def done(self) -> None:
        """Report success."""

    def close(self) -> None:
        """Close the reporter."""


class Bar(Progress):
    """Progress bar of a fit of about `passes`: the pass, the block, the residual, the time left."""

    def __init__(self, passes: int) -> None:
        self._passes = passes
        self._begun = 0  # rows
        self._pass = 0
        self._facts: dict[str, str] = {}
        self._bar = _tqdm(total=0, desc="slce_xp", unit="row", unit_scale=True)

    def begin_pass(self, rows: int, of: int = 0) -> None:
        """Start a pass; the estimate grows if there are more than planned."""
        of = of or rows
        self._begun += rows
        self._pass = -(-self._begun // of)
        self._passes = max(self._passes, self._pass)
        self._bar.total = self._passes * of
        self._bar.set_description(f"pass {self._pass} of about {self._passes}", refresh=False)

    def read(self, rows: int, block: int, blocks: int) -> None:
        """Advance the bar."""
        self._facts["block"] = f"{block}/{blocks}"
        self._bar.set_postfix(self._facts, refresh=False)
        self._bar.update(rows)

    def residual(self, value: float) -> None:
        """Show the residual until the next one."""
        self._facts["residual"] = f"{value:.1e}"

    def done(self) -> None:
        """Fill the bar, whatever was planned."""
        self._bar.total = self._bar.n
        self._bar.set_description(f"{self._pass} pass{'es' * (self._pass != 1)}")

    def close(self) -> None:
        """Close the bar; after an error it stays at its position."""
        self._bar.close()


class Steps:
    """Progress bar of a known number of steps."""

    def __init__(self, total: int) -> None:
        self._bar = _tqdm(total=total, desc="slce_xp", unit="step")
        self._begun = 0

    def begin(self, text: str) -> None:
        """Start a step; the one before is done."""
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(min(self._begun, 1))
        self._begun += 1

    def done(self) -> None:
        """Report success."""
        self._bar.update(1)

    def close(self) -> None:
        """Close the bar."""
        self._bar.close()


def _tqdm(**options: Any) -> Any:
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm  # a widget in a notebook
    except ImportError as error:
        missing = not_installed("progress=True", "tqdm", error, "tqdm")
        raise naming("progress", missing) from error
    return tqdm(**options)
