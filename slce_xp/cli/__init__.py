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
from slce_xp.cli.options import parse
from slce_xp.cli.table import TableError

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
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an arrow must not end the work where there is none
            stream.reconfigure(errors="backslashreplace")
    debug = False
    try:
        with warnings.catch_warnings(), _quiet_pipe():
            arguments = parse(argv)
            debug = arguments.debug
            warnings.simplefilter("ignore")  # of other libraries, which users can do nothing about
            warnings.filterwarnings("always", category=UserWarning, module=r"slce_xp\.")
            warnings.showwarning = _show_warning
            COMMANDS[arguments.command](arguments)
    except KeyboardInterrupt:
        print("slce-xp: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            print(f"slce-xp: error: {_told(error)}", file=sys.stderr)
        return 1
    return 0


# ---------------------------------------------------------------- talking


def _told(error: Exception) -> str:
    """An error in one line, in the words of the command."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, (TableError, OSError)):
        return text
    if isinstance(error, (ValueError, TypeError, MemoryError, RuntimeError, ImportError)):
        return _in_options(text)
    return f"{type(error).__name__}: {text}. This is not your fault: run it with --debug"


def _in_options(text: str) -> str:
    """Names of parameters as options: those that are words, too, only where they are no words."""

    def option(found: re.Match[str]) -> str:
        is_name = "_" in found[0] or found.start() == 0 or found.string[found.end() :][:1] == "="
        return OPTIONS[found[0]] if is_name else found[0]

    text = re.sub(rf"(?<![\w.-])({'|'.join(OPTIONS)})(?!\w)", option, text)
    text = re.sub(r"leave (--[\w-]+)=None", r"leave out \1", text)
    text = text.replace("None (number of classes", "left out (number of classes")
    return text.replace("impute them first", "fill missing values: --impute mean")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"slce-xp: note: {_in_options(' '.join(str(message).split()))}", file=sys.stderr)


@contextlib.contextmanager
def _quiet_pipe() -> Iterator[None]:
    """A reader that has seen enough, such as `head`, is no error."""
    try:
        try:
            yield
        finally:
            print(end="", flush=True)
    except OSError as error:
        try:
            print(end="", flush=True)
        except OSError:
            # What is still buffered would be written, and fail, when the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise
