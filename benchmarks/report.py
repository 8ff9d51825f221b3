"""What the benchmarks share in telling their results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np


def exponent(sizes: Sequence[float], amounts: Sequence[float]) -> float:
    """The power of the size that an amount grows with: least squares in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(amounts), 1)[0])


def write_between_markers(path: Path, name: str, text: str) -> None:
    """Replace what stands in a file between ``<!-- name: … -->`` and ``<!-- /name -->``."""
    head, opening, rest = path.read_text(encoding="utf-8").partition(f"<!-- {name}: ")
    comment, _, rest = rest.partition("-->\n")
    _, closing, tail = rest.partition(f"<!-- /{name} -->")
    if not closing:
        raise ValueError(f"{path} must have the lines <!-- {name}: … --> and <!-- /{name} -->")
    path.write_text(f"{head}{opening}{comment}-->\n{text}\n{closing}{tail}", encoding="utf-8")


def largest_angle(A: np.ndarray, B: np.ndarray) -> float:
    """The largest principal angle of one row space to another, by its sine."""
    A, B = A.astype(np.float64), B.astype(np.float64)
    outside = A - (A @ B.T) @ B
    return float(np.arcsin(min(1.0, np.linalg.norm(outside, 2)))) if A.size else 0.0


def aims_told(aims: Sequence[tuple[str, str, bool]]) -> list[str]:
    """Lines on what was aimed at: (aim, what came out, whether that reaches it)."""
    reached = [f"{label}: {value}" for label, value, fine in aims if fine]
    missed = [f"{label} (got {value})" for label, value, fine in aims if not fine]
    return [
        "",
        f"Targets reached: {'; '.join(reached) or 'none'}.",
        "",
        f"Targets missed in this run: {'; '.join(missed) or 'none'}.",
    ]
