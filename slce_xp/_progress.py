"""What a long fit tells while it works: nothing, or a bar."""

from __future__ import annotations

import importlib
from typing import Any


class Progress:
    """Quiet."""

    def begin_pass(self, rows: int, of: int = 0) -> None:
        """A pass over so many rows begins, or over a part `of` so many, as in the Gram form."""

    def read(self, rows: int, block: int, blocks: int) -> None:
        """A block of so many rows is done, the `block`-th of `blocks`."""

    def residual(self, value: float) -> None:
        """How far the matrix-free form is."""

    def done(self) -> None:
        """All went well."""

    def close(self) -> None:
        """No more will come."""


class Bar(Progress):
    """One bar for a fit: the pass, the block, the residual and the time left.

    How many passes there will be is the plan's guess, so the time left is one, too.

    Parameters
    ----------
    passes : int
        As the plan has them.
    """

    def __init__(self, passes: int) -> None:
        try:
            tqdm = importlib.import_module("tqdm.auto").tqdm  # a widget in a notebook
        except ImportError as error:
            raise ImportError(
                f"progress=True needs tqdm, which cannot be imported here ({error}); install it "
                "with: pip install 'slce-xp[progress]'"
            ) from error
        self._passes = passes
        self._begun = 0  # rows
        self._pass = 0
        self._facts: dict[str, str] = {}
        self._bar: Any = tqdm(total=0, desc="slce_xp", unit="row", unit_scale=True)

    def begin_pass(self, rows: int, of: int = 0) -> None:
        """Another pass: the guess grows where there are more than planned."""
        of = of or rows
        self._begun += rows
        self._pass = -(-self._begun // of)
        self._passes = max(self._passes, self._pass)
        self._bar.total = self._passes * of
        self._bar.set_description(f"pass {self._pass} of about {self._passes}", refresh=False)

    def read(self, rows: int, block: int, blocks: int) -> None:
        """Move on."""
        self._facts["block"] = f"{block}/{blocks}"
        self._bar.set_postfix(self._facts, refresh=False)
        self._bar.update(rows)

    def residual(self, value: float) -> None:
        """Shown until the next one."""
        self._facts["residual"] = f"{value:.1e}"

    def done(self) -> None:
        """Full, whatever was planned."""
        self._bar.total = self._bar.n
        self._bar.set_description(f"{self._pass} pass{'es' * (self._pass != 1)}")

    def close(self) -> None:
        """Stays as it is: after an error, where that came."""
        self._bar.close()
