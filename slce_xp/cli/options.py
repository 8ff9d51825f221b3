"""The options of the command and of its subcommands."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import slce_xp
from slce_xp._planning import sizes
from slce_xp.cli.tables import Changes

# ---------------------------------------------------------------- values


def integer(least: int, other: str = "") -> Any:
    """Return a parser of integers of at least `least`; `other` names further values."""

    def parse(text: str) -> int:
        try:
            number = float(text)  # accepts 1e6
            if number == int(number) >= least:
                return int(number)
        except (OverflowError, ValueError):
            pass
        raise argparse.ArgumentTypeError(f"must be an integer ≥ {least}{other}; got {text!r}")

    return parse


def components(text: str) -> int | float | str:
    """Parse a number of components, a share of the loss, or 'positive'."""
    if text == "positive":
        return text
    if text[:2] in ("0.", ".") and 0.0 < float(text) < 1.0:
        return float(text)
    return int(integer(1, ", a share between 0 and 1, or 'positive'")(text))


def plotted(text: str) -> list[int]:
    """Parse up to three components, from 1, as indices from 0."""
    numbers = several(text)
    if len(numbers) > 3 or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"must be up to three different ones; got {text!r}")
    return [number - 1 for number in numbers]


def several(text: str) -> tuple[int, ...]:
    """Parse numbers of components, separated by commas."""
    return tuple(integer(1)(part) for part in words(text))


def words(text: str) -> tuple[str, ...]:
    """Parse words, separated by commas."""
    return tuple(part.strip() for part in text.split(","))


def folds(text: str) -> int:
    """Parse a number of folds: 0 for none."""
    return 0 if text == "0" else int(integer(2)(text))


def size(text: str) -> int | None:
    """Parse a number of bytes."""
    try:
        return sizes.parse_bytes(text, "it")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# ---------------------------------------------------------------- options

_FILE = {"type": Path, "metavar": "FILE"}
_TABLE_FILE, _IMAGE_FILE = "(.csv, .tsv, .parquet)", "(.png, .svg, .pdf)"
_FLAG, _COLUMN = {"action": "store_true"}, {"metavar": "COLUMN"}
_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "table": ({"type": Path, "metavar": "TABLE"}, "samples in rows; see below"),
    "model": ({"type": Path, "metavar": "MODEL"}, "a file that fit --model wrote"),
    "--label": (_COLUMN, "the column with the class of each sample"),
    "--components": ({"type": components, "metavar": "K"}, "how many components; 'positive' for "
        "those that lower the loss; a fraction such as 0.9 for the fewest that reach this share "
        "of what all can do (default: number of classes - 1)"),
    "--criterion": ({"default": "centroid", "choices": ["centroid", "separation"]},
        "what components optimise: the reconstruction of centroids, or the separation of pairs of "
        "classes (%(default)s)"),
    "--id": (_COLUMN, "the column that names the samples"),
    "--groups": (_COLUMN, "the column with the subject of each sample, or whatever several "
        "samples were taken of: they are held out together"),
    "--batch": (_COLUMN, "the column with the batch of each sample, such as its plate: what the "
        "samples of a batch share is removed"),
    "--strata": (_COLUMN, "permute labels within each value of this column only"),
    "--permutations": ({"type": integer(1), "default": 999, "metavar": "N"},
        "how many (%(default)s)"),
    "--pairs": (_FLAG, "test each pair of classes, too"),
    "--by-component": (_FLAG, "test each component, too"),
    "--metadata": (_FILE, "another table with columns such as --label, joined by the names of "
        "samples"),
    "--drop": ({"action": "append", "default": [], "metavar": "COLS"},
        "columns to leave out, separated by commas, or patterns such as 'batch*'; may be repeated"),
    "--features": ({"action": "append", "default": [], "metavar": "COLS"},
        "the only columns to use, as for --drop (default: all of numbers)"),
    "--scale": (_FLAG, "divide each column by its standard deviation: for features in different "
        "units"),
    "--missing": ({"choices": ["mean"]}, "fill missing values with the mean of their column, "
        "that of the fit in a new table; a model fitted so does it without the option"),
    "--unlabeled": ({"choices": ["drop", "use"], "default": "drop"},
        "samples without a label: drop them, or add their own reconstruction to the loss, as in "
        "PCA (%(default)s)"),
    "--transpose": (_FLAG, "samples are columns, and the first column names the features"),
    "--na": ({"type": words, "default": (), "metavar": "WORDS"},
        "what stands for a missing value besides NA, NaN, null and the like, such as --na=-,.,ND"),
    "--decimal": ({"choices": [".", ","]}, "the decimal separator of text; the other one groups "
        "thousands (default: found out)"),
    "--data": ({"metavar": "NAME"}, "which matrix, layer or sheet of a file with several"),
    "--model": (_FILE, "the model (.npz), for transform, predict and inspect"),
    "--embedding": (_FILE, "a row for each sample of the fit, in which classes look better apart "
        "than in new samples (.csv, .tsv, .parquet, .npy)"),
    "--plot": (_FILE, f"a plot of the embedding {_IMAGE_FILE}, or .html to hover over samples"),
    "--plot-components": ({"type": plotted, "metavar": "I,J"},
        "which components to plot, from 1; three give 3-D (default: the first two; all of three "
        "in an .html page)"),
    "--loadings": (_FILE, f"the weight of each feature in each component {_TABLE_FILE}"),
    "--output": (_FILE, f"a row for each sample {_TABLE_FILE}"),
    "--top": ({"type": integer(0), "default": 5, "metavar": "N"},
        "features to print for each component (%(default)s)"),
    "--folds": ({"type": folds, "default": 10, "metavar": "N"},
        "folds of the cross-validation; 0: none (%(default)s)"),
    "--force": (_FLAG, "replace files that exist"),
    "--backend": ({"choices": ["numpy", "cupy", "torch", "jax", "dpnp"]},
        "the array library that computes (default: numpy)"),
    "--device": ({}, "a device of the backend, such as cuda:1"),
    "--max-memory": ({"type": size, "metavar": "SIZE"}, "memory limit of a fit in addition to "
        "the data, such as 2GB"),
    "--methods": (_FLAG, "print sentences for the methods section of a paper instead"),
    "--resamples": ({"type": integer(0), "default": 50, "metavar": "N"},
        "resamples for the frequencies and the stability; 0: none (%(default)s)"),
    "--samples": ({"type": integer(0), "required": True, "metavar": "N"},
        "rows"),
    "--classes": ({"type": integer(0), "required": True, "metavar": "K"},
        "of the rows"),
    "--dtype": ({"default": "float64", "choices": ["float32", "float64"]},
        "(%(default)s)"),
    "--machine-memory": ({"type": size, "metavar": "SIZE"}, "memory of a machine: recommends "
        "memory, blocks of a file, or a cluster"),
}  # fmt: skip

# ---------------------------------------------------------------- commands


Own = dict[str, dict[str, Any]]


class _Command(NamedTuple):
    """A subcommand: what it is for, its options by group, and what differs from `_OPTIONS`."""

    purpose: str
    options: dict[str, str]
    own: Own = {}  # noqa: RUF012
    epilog: str = ""


_FORMAT = {"format of the table": "--transpose --na --decimal --data"}
_COLUMNS = {"columns": "--id --metadata --drop --features --scale --missing"}
_GROUPED = {"columns": f"{_COLUMNS['columns']} --groups"}
_TO_FIT: Own = {"table": {"help": "a table as fit takes it"}, "--label": {"required": True}}
_TO_APPLY: Own = {
    "table": {"help": "a table as fit takes it"},
    "--label": {"help": "a column to copy: the classes of the samples"},
}
_MATCHED = "Columns are matched by name, if table and model have names; others are ignored."
_COMMANDS = {
    "fit": _Command(
        "fit a table with a column of classes; print, save and plot the results",
        {"": "table --label --components --criterion",
         "columns": f"{_COLUMNS['columns']} --groups --batch --unlabeled",
         **_FORMAT,
         "results": "--model --embedding --plot --plot-components --loadings --top --folds --force",
         "computation": "--backend --device --max-memory"},
        {"--label": {"required": True}},
        """\
tables, with names of columns in the first line or beside the matrix:
  .csv .tsv .txt (.gz), .xlsx, .parquet, .h5ad (columns of obs),
  .npz .h5 .hdf5 (a matrix X, vectors, feature_names),
  .npy (--label and --id name files: .npy, or text by lines)

Columns of text are left out. One with a different text in each row names the
samples, as does a first column without a name.

examples:
  slce-xp fit wine.csv --label cultivar --missing mean --scale \\
      --model wine.npz --embedding embedding.csv --plot wine.png
  slce-xp fit genes.tsv --transpose --metadata meta.tsv --label diagnosis \\
      --plot genes.html
"""),
    "transform": _Command(
        "embed the samples of another table with a model",
        {"": "model table --output --plot --plot-components --id --label --metadata "
         "--batch --missing --force", **_FORMAT},
        _TO_APPLY | {
            "--output": {"required": True, "help": "the embedding (.csv, .tsv, .parquet, .npy)"}},
        _MATCHED),
    "predict": _Command(
        "classify the samples of another table with a model",
        {"": "model table --output --id --label --metadata --batch --missing --force", **_FORMAT},
        _TO_APPLY | {"--output": {"required": True}},
        _MATCHED),
    "compare": _Command(
        "compare SLCE with PCA, LDA and other methods by cross-validation",
        {"": "table --label --components --methods --folds",
         **_GROUPED, **_FORMAT, "results": "--output --plot --force"},
        _TO_FIT | {
            "--components": {"type": several, "default": (2, 3, 5), "metavar": "K,K,...",
                             "help": "numbers of components (2,3,5)"},
            "--methods": {"action": "store", "type": words, "metavar": "NAME,...",
                          "help": "which; see below (default: all)"},
            "--folds": {"type": integer(2), "default": 5, "help": "how many folds (%(default)s)"},
            "--output": {"help": f"a row for each score {_TABLE_FILE}"},
            "--plot": {"help": f"a plot of the accuracies {_IMAGE_FILE}"}},
        """\
methods: pca, lda, shrinkage-lda (by Ledoit and Wolf), slce, separation (SLCE
with --criterion separation), nca (for small tables), all (all features)
"""),
    "select": _Command(
        "select the features that matter, by an exact sparse path",
        {"": "table --label --top --resamples --folds",
         **_GROUPED, **_FORMAT, "results": "--output --plot --force"},
        _TO_FIT | {
            "--top": {"type": integer(1), "default": 50,
                      "help": "how many features to select (%(default)s)"},
            "--folds": {"default": 5},
            "--output": {"help": f"a row for each selected feature {_TABLE_FILE}"},
            "--plot": {"help": f"a plot of coefficients against the penalty {_IMAGE_FILE}"}},
        """\
Features are ranked by how often resamples of half the samples select them.
Classifiers are cross-validated on 10, 25, 50 and 100 of them and of the analysis
of variance (ANOVA), selected in each fold.
"""),
    "test": _Command(
        "test by permutation whether classes differ by more than chance",
        {"": "table --label --permutations --pairs --by-component",
         "columns": f"{_GROUPED['columns']} --strata", **_FORMAT, "results": "--plot --force",
         "computation": "--backend --device"},
        _TO_FIT | {
            "--groups": {"help": "the column with the subject of each sample: these are permuted"},
            "--plot": {"help": f"the statistic of permuted labels {_IMAGE_FILE}"}},
        """\
The null hypothesis is that the means of the classes are equal. Subjects with
samples of several classes are for --strata, not --groups.
"""),
    "inspect": _Command("show a model and its important features", {"": "model --top --methods"}),
    "plan": _Command(
        "estimate the work and memory of a fit, without data",
        {"": "--samples --features --classes --components --dtype --max-memory --machine-memory"},
        {"--features": {"action": "store", "type": integer(0), "default": None, "required": True,
                        "metavar": "D", "help": "columns"}}),
    "info": _Command("show versions, devices, BLAS and threads, for a bug report", {}),
}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with a message of one line, without the long usage."""
        self.exit(2, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the arguments of the process, or those given; `command` is the subcommand."""
    top = _Parser(
        prog="slce-xp",
        description="Supervised linear dimensionality reduction (SLCE): the directions in which "
        "samples come closest to the centroids of their classes.",
        epilog="See slce-xp COMMAND --help for the options of each.",
    )
    top.add_argument("--version", action="version", version=f"slce-xp {slce_xp.__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for name, command in _COMMANDS.items():
        _add(commands, name, command)
    arguments, unknown = top.parse_known_args(argv)
    if unknown:  # by the subcommand, whose help lists its options
        parser, option = commands.choices[arguments.command], unknown[0].partition("=")[0]
        known = parser.format_usage().replace("[", " ").split()
        close = difflib.get_close_matches(option, [k for k in known if k.startswith("--")], n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        if option == "--batch":
            meant = "; leave the column out: --drop, or test within batches: test --strata"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
    return arguments


def _add(commands: Any, name: str, command: _Command) -> None:
    parser = commands.add_parser(
        name,
        help=command.purpose,
        description=f"{command.purpose[0].upper()}{command.purpose[1:]}.",
        epilog=command.epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(drop=(), features=(), groups=None)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    for title, options in command.options.items():
        group = parser.add_argument_group(title) if title else parser
        for option in options.split():
            facts, text = _OPTIONS[option]
            flags = ("-o", option) if option == "--output" else (option,)
            group.add_argument(*flags, **({"help": text} | facts | command.own.get(option, {})))


def corrected(argv: Iterable[str], changes: Changes) -> list[str]:
    """Return the words of a call, with some options changed or added."""
    call: list[str] = []
    for word in argv:
        option, equals, given = word.partition("=")
        call += [option, given] if equals and option.startswith("--") else [word]
    for option, value in changes.items():
        if option in call:
            at = call.index(option)
            del call[at : at + (1 if value == "" else 2)]
        if value is not None and value[:1] == "-":  # which argparse takes for an option
            call += [f"{option}={value}"]
        elif value is not None:
            call += [option, value] if value else [option]
    return call
