"""Reports of progress on a terminal."""

from __future__ import annotations

import importlib.util
import sys


def report_fold(fold: int, folds: int) -> None:
    """Report the cross-validation, in one line that changes."""
    text = f"cross-validating, fold {fold} of {folds} (--folds 0 leaves it out)"
    step(text, "\n" if fold == folds else "\r")


def step(text: str, end: str = "\n") -> None:
    """Report a step on a terminal, and nothing to a log."""
    if is_watched():
        print(f"{text} …", file=sys.stderr, end=end, flush=True)


def is_watched() -> bool:
    """Whether somebody watches: the standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def has_bar() -> bool:
    """Whether a progress bar can be shown, and is seen."""
    return is_watched() and bool(importlib.util.find_spec("tqdm"))
