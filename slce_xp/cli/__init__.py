"""The command ``slce-xp``: from a table in a file to an embedding, a picture and a model.

Results go to the standard output, everything else to the standard error. The exit status is 0, 1
for what cannot be done, 2 for a wrong call, 130 for Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from slce_xp.cli.commands import COMMANDS
from slce_xp.cli.options import parser
from slce_xp.cli.tables import TableError

# What the library calls parameters, a user of the command knows as options.
OPTIONS = {
    "n_components": "--components", "max_memory": "--max-memory", "backend": "--backend",
    "device": "--device", "solver": "--solver", "n_samples": "--samples", "dtype": "--dtype",
    "n_features": "--features", "n_classes": "--classes", "machine_memory": "--machine-memory",
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : list of str, optional
        Instead of the arguments of the process.

    Returns
    -------
    int
        The exit status.

    Examples
    --------
    >>> from slce_xp.cli import main
    >>> main(["plan", "--samples", "801", "--features", "20531", "--classes", "5"])
    plan for 801 samples × 20531 features, 5 classes, float64 → 4 components
      X       132 MB in memory
      form    gram: 2.2e+10 flops against 7e+13 (scatter), 2.3e+10 (krylov)
      work    2.2e+10 flops, about 3 passes over X
      memory  27.7 MB beside X and 12.8 kB on the host
    0
    """
    arguments = parser().parse_args(argv)
    try:
        with warnings.catch_warnings(), _quiet_pipe():
            warnings.simplefilter("ignore")  # of other libraries, which users can do nothing about
            warnings.filterwarnings("always", module=r"slce_xp\.")
            warnings.showwarning = _show_warning
            COMMANDS[arguments.command](arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("slce-xp: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if arguments.debug:
            traceback.print_exc()
        else:
            print(f"slce-xp: error: {_told(error)}", file=sys.stderr)
        return 1
    return 0


# ---------------------------------------------------------------- talking


def _told(error: Exception) -> str:
    """An error in one line, in the words of the command."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, KeyError):
        text = text.strip("'\"")
    if isinstance(error, (TableError, ImportError)):
        return text
    known = (ValueError, TypeError, KeyError, MemoryError, RuntimeError, OSError)
    text = _in_options(text)
    if not isinstance(error, known):
        text = f"{type(error).__name__}: {text}. This is not your fault: run it with --debug"
    return text


def _in_options(text: str) -> str:
    names = "|".join(OPTIONS)
    return re.sub(rf"(?<![\w.-])({names})(?!\w)", lambda match: OPTIONS[match[1]], text)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"slce-xp: note: {_in_options(' '.join(str(message).split()))}", file=sys.stderr)


@contextlib.contextmanager
def _quiet_pipe() -> Iterator[None]:
    """A reader that has seen enough, such as `head`, is no error."""
    try:
        yield
    except BrokenPipeError:
        # What is still buffered would be written, and fail, when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
