"""Options that several subcommands have, and the types of values of options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slce_xp._planning import sizes


def add(parser: Any, *names: str) -> None:
    """Add options that several commands have."""
    for name in names:
        parser.add_argument(name, **_SHARED[name])


def components(text: str) -> int | float | str:
    """Parse a number of components, a share of the loss, or 'positive'."""
    if text == "positive":
        return text
    try:
        if 0.0 < float(text) < 1.0:
            return float(text)
    except ValueError:
        pass
    return number(text, 1, ", a share of the loss between 0 and 1, or 'positive'")


def plot_components(text: str) -> list[int]:
    """Parse up to three components, from 1, as indices from 0."""
    numbers = [number(part.strip(), 1) - 1 for part in text.split(",")]
    if len(numbers) > 3 or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"must be up to three different ones; got {text!r}")
    return numbers


def several_components(text: str) -> tuple[int, ...]:
    """Parse numbers of components, separated by commas."""
    return tuple(number(part.strip(), 1) for part in text.split(","))


def words(text: str) -> tuple[str, ...]:
    """Parse words, separated by commas."""
    return tuple(part.strip() for part in text.split(","))


def count(text: str) -> int:
    """Parse an integer of at least 0."""
    return number(text, 0)


def at_least_one(text: str) -> int:
    """Parse an integer of at least 1."""
    return number(text, 1)


def at_least_two(text: str) -> int:
    """Parse an integer of at least 2."""
    return number(text, 2)


def folds(text: str) -> int:
    """Parse a number of folds: 0 for none."""
    return number(text, 2) if text != "0" else 0


def number(text: str, least: int, other: str = "") -> int:
    """Parse an integer of at least `least`; an error names the other values that are allowed."""
    try:
        number = float(text)  # accepts 1e6
        if number == int(number) >= least:
            return int(number)
    except (OverflowError, ValueError):
        pass
    raise argparse.ArgumentTypeError(f"must be an integer ≥ {least}{other}; got {text!r}")


def size(text: str) -> int | None:
    """Parse a number of bytes."""
    try:
        return sizes.parse_bytes(text, "it")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_SHARED: dict[str, dict[str, Any]] = {
    "--components": {
        "type": components, "metavar": "K",
        "help": "how many components; 'positive' for those that lower the loss; a fraction such "
        "as 0.9 for those that remove this share of it (default: number of classes - 1)",
    },
    "--label": {"metavar": "COLUMN", "help": "the column with the class of each sample"},
    "--id": {"metavar": "COLUMN", "help": "the column that names the samples"},
    "--drop": {
        "action": "append", "default": [], "metavar": "COLS",
        "help": "columns to leave out, separated by commas, or patterns such as 'batch*'; may be "
        "repeated",
    },
    "--features": {
        "action": "append", "default": [], "metavar": "COLS",
        "help": "the only columns to use, as for --drop (default: all others)",
    },
    "--impute": {
        "choices": ["mean"], "help": "fill missing values with the mean of their column",
    },
    "--scale": {
        "action": "store_true",
        "help": "divide each column by its standard deviation: for features in different units",
    },
    "--labels": {
        "metavar": "FILE:COLUMN",
        "help": "the class of each sample in another table, joined by the names of samples",
    },
    "--transpose": {
        "action": "store_true",
        "help": "samples are columns, and the first column names the features",
    },
    "--no-header": {
        "action": "store_true",
        "help": "the first line is a sample; columns are named column_1, column_2, ...",
    },
    "--missing": {
        "action": "append", "default": [], "metavar": "WORDS",
        "help": "what stands for a missing value besides NA, NaN, null and the like, such as "
        "'-,.,ND'",
    },
    "--decimal": {
        "choices": [".", ","],
        "help": "the decimal separator of text; the other one groups thousands "
        "(default: found out)",
    },
    "--duplicates": {
        "choices": ["refuse", "suffix"], "default": "refuse",
        "help": "columns of one name: raise an error, or append .1, .2, ... (%(default)s)",
    },
    "--data": {"metavar": "NAME", "help": "which matrix, layer or sheet of a file with several"},
    "--plot-components": {
        "type": plot_components, "metavar": "I,J",
        "help": "which components to plot, from 1; three give 3-D (default: the first two; "
        "all of three in an .html page)",
    },
    "--plot": {
        "type": Path, "metavar": "FILE",
        "help": "a plot of the embedding (.png, .svg, .pdf), or .html to hover over samples",
    },
    "--backend": {
        "choices": ["numpy", "cupy", "torch", "jax", "dpnp"],
        "help": "the array library that computes (default: numpy)",
    },
    "--device": {"help": "a device of the backend, such as cuda:1"},
    "--max-memory": {
        "type": size, "metavar": "SIZE",
        "help": "memory limit of a fit in addition to the data, such as 2GB",
    },
    "--top": {
        "type": count, "default": 5, "metavar": "N",
        "help": "features to print for each component (%(default)s)",
    },
    "--force": {"action": "store_true", "help": "replace files that exist"},
    "--stream": {
        "action": "store_true",
        "help": "read .npy, .h5 and .h5ad in blocks; automatic for files above half of memory",
    },
}  # fmt: skip
