"""The options of the command and of its subcommands."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import slce_xp
from slce_xp.cli import parsers
from slce_xp.cli.parsers import add_command
from slce_xp.cli.shared_options import add
from slce_xp.cli.table import Changes


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with a message of one line, without the long usage."""
        self.exit(2, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the arguments of the process, or those given; `command` is the subcommand."""
    top, commands = _parsers()
    arguments, unknown = top.parse_known_args(_joined(sys.argv[1:] if argv is None else argv))
    if unknown:  # by the subcommand, whose help lists its options
        command = commands[arguments.command]
        known = command.format_usage().replace("[", " ").split()
        close = difflib.get_close_matches(unknown[0], [k for k in known if k.startswith("--")], n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        command.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
    return arguments


def _joined(words: Sequence[str]) -> list[str]:
    """Write values that begin with a hyphen as argparse takes them: ``--missing=-,ND``."""
    found: list[str] = []
    for word in words:
        if found and found[-1] == "--missing":
            found[-1] = f"--missing={word}"
        else:
            found.append(word)
    return found


def corrected(words: Sequence[str], changes: Changes) -> list[str]:
    """Return the words of a call, with some options changed or added."""
    call = [part for word in words for part in _split(word)]
    for option, value in changes.items():
        if option in call and option != "--drop":
            at = call.index(option)
            del call[at : at + (1 if value == "" else 2)]
        for one in [value] if isinstance(value, str) else value or ():
            call += [option, one] if one else [option]
    return call


def _split(word: str) -> list[str]:
    option, equals, value = word.partition("=")
    return [option, value] if equals and option.startswith("--") else [word]


def _parsers() -> tuple[_Parser, dict[str, _Parser]]:
    """Return the parsers of the command and of its subcommands."""
    top = _Parser(
        prog="slce-xp",
        description="Supervised linear dimensionality reduction (SLCE): the directions in which "
        "samples come closest to the centroids of their classes.",
        epilog="See slce-xp COMMAND --help for the options of each.",
    )
    top.add_argument("--version", action="version", version=f"slce-xp {slce_xp.__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, dest="command")
    parsers.add_fit(commands)
    parsers.add_transform(commands)
    parsers.add_predict(commands)
    parsers.add_compare(commands)
    parsers.add_select(commands)
    inspect = add_command(commands, "inspect", "show a model and its most important features")
    inspect.add_argument("model", type=Path, metavar="MODEL", help="a file that fit --model wrote")
    add(inspect, "--top")
    parsers.add_plan(commands)
    demo = add_command(commands, "demo", "fit handwritten digits and plot them next to PCA")
    demo.add_argument(
        "-o", "--output", type=Path, default=Path("demo.png"), help="the plot (%(default)s)"
    )
    add(demo, "--force")
    add_command(commands, "info", "show versions, devices, BLAS and threads, for a bug report")
    return top, commands.choices
