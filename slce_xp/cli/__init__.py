"""The command ``slce-xp``: from a table in a file to an embedding, a plot and a model.

Results go to the standard output, everything else to the standard error. The exit status is 0 for
success, 1 for an error, 2 for a wrong call, 130 for Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from slce_xp.cli.commands import COMMANDS
from slce_xp.cli.inputs import working_call
from slce_xp.cli.options import parse
from slce_xp.cli.tables import TableError

# Options of the command that have another name than the parameter of the library.
OPTIONS = {
    "n_components": "--components", "n_samples": "--samples", "n_features": "--features",
    "n_classes": "--classes", "n_resamples": "--resamples", "cv": "--folds",
    "n_features_to_select": "--top",
    **{name: f"--{name.replace('_', '-')}" for name in (
        "components", "methods", "groups", "strata", "batch", "backend", "device", "max_memory",
        "machine_memory",
    )},
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : list of str, optional
        The arguments; those of the process by default.

    Returns
    -------
    int
        The exit status.

    Examples
    --------
    >>> from slce_xp.cli import main
    >>> main(["inspect", "none.npz"])  # the error goes to the standard error
    1
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # for terminals without an arrow
            stream.reconfigure(errors="backslashreplace")
    debug, words = False, list(sys.argv[1:] if argv is None else argv)
    try:
        with warnings.catch_warnings(), _quiet_pipe():
            arguments = parse(words)
            debug = arguments.debug
            warnings.simplefilter("ignore")  # of other libraries
            warnings.filterwarnings("always", category=UserWarning, module=r"slce_xp\.")
            # Reported by `checks`, with the names of columns.
            warnings.filterwarnings("ignore", ".* standardise the columns if their units differ")
            warnings.showwarning = partial(_show_warning, set())
            COMMANDS[arguments.command](arguments)
    except KeyboardInterrupt:
        print("slce-xp: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            print(f"slce-xp: error: {_describe(error)}{_remedy(error, words)}", file=sys.stderr)
        return 1
    return 0


def _describe(error: Exception) -> str:
    """Return the message of an error in one line, with the option instead of the parameter."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, (TableError, OSError)):
        return text
    if isinstance(error, (ValueError, TypeError, MemoryError, RuntimeError, ImportError)):
        default = "max_memory" if isinstance(error, MemoryError) else ""
        return _with_option(text, getattr(error, "parameter", default))
    return (
        f"{type(error).__name__}: {text}. Internal error: rerun with --debug and report the "
        "traceback"
    )


def _remedy(error: Exception, words: list[str]) -> str:
    """Return the call that works, for the end of a message."""
    if not isinstance(error, TableError) or not error.changes:
        return ""
    call = working_call(words, error.changes)
    stop = " " if str(error).endswith("?") else ". "
    return f"{stop}Try: slce-xp {shlex.join(call)}" if call else ""


def _with_option(text: str, parameter: str) -> str:
    """Replace the name of a parameter in a message by its option."""
    if parameter == "X":
        return text.replace("impute them first", "fill missing values: --missing mean")
    if parameter == "calibrate":  # which fit --model does
        text = text.replace("calibrate=True needs", "calibrated probabilities need")
        return text.replace("leave out calibrate", "do not calibrate: --folds 0")
    option = OPTIONS.get(parameter)
    if option is None:
        return text
    text = text.replace(f"leave {parameter}=None", f"leave out {option}")
    text = text.replace("None (number of classes", "left out (number of classes")
    # Some are English words, too: names lead the message, precede an equals sign, or have "_".
    is_name = rf"(?<![\w-]){parameter}\b" + "(?==)" * ("_" not in parameter)
    text = re.sub(rf"^{parameter}\b|{is_name}", option, text)
    return re.sub(rf"{option}=(?=$|[.,; ])", option, text)


def _show_warning(shown: set[str], message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a note, once."""
    text = " ".join(str(message).split())
    for parameter in OPTIONS:
        text = _with_option(text, parameter)
    if text not in shown:
        shown.add(text)
        print(f"slce-xp: note: {text}", file=sys.stderr)


@contextlib.contextmanager
def _quiet_pipe() -> Iterator[None]:
    """Ignore a closed pipe: a reader such as `head` may stop early."""
    try:
        try:
            yield
        finally:
            print(end="", flush=True)
    except OSError as error:
        try:
            print(end="", flush=True)
        except OSError:
            # The rest of the buffer would be written, and fail, when the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise
