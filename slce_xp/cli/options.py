"""The options of the command and of its subcommands."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import slce_xp
from slce_xp._planning import sizes
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
    _fit_parser(commands)
    _transform_parser(commands)
    _predict_parser(commands)
    inspect = _command(commands, "inspect", "show a model and its most important features")
    inspect.add_argument("model", type=Path, metavar="MODEL", help="a file that fit --model wrote")
    _add(inspect, "--top")
    _plan_parser(commands)
    calibrate = _command(
        commands, "calibrate", "measure this machine, so that fits on it choose the fastest form"
    )
    _add(calibrate, "--backend", "--device")
    demo = _command(commands, "demo", "fit handwritten digits and plot them next to PCA")
    demo.add_argument(
        "-o", "--output", type=Path, default=Path("demo.png"), help="the plot (%(default)s)"
    )
    _add(demo, "--force")
    _command(commands, "info", "show versions, devices, BLAS and threads, for a bug report")
    return top, commands.choices


def _command(commands: Any, name: str, purpose: str, **texts: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **texts,
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _fit_parser(commands: Any) -> None:
    parser = _command(
        commands,
        "fit",
        "fit a table with a column of classes; print, save and plot the results",
        epilog="""\
tables:
  .csv .tsv .txt      names of columns in the first line; an unnamed first
  (also .gz)          column names the samples; comment lines begin with # or !
  .xlsx               likewise; --data names the sheet
  .parquet            likewise
  .gct                genes x samples; labels from --labels
  10x folder, .mtx    matrix.mtx, barcodes.tsv and features.tsv (also .gz);
                      labels from --labels
  .h5ad               --label and --id name columns of obs, --data a layer
  .npy                --label and --id name files: .npy, or text with a line
                      for each sample
  .npz .h5 .hdf5      --data names the matrix (X), --label and --id vectors;
                      a vector feature_names names the columns

examples:
  slce-xp fit wine.csv --label cultivar --id bottle --impute mean --scale \\
      --model wine.npz --embedding embedding.csv --plot wine.png
  slce-xp fit genes.tsv --transpose --labels meta.tsv:diagnosis --plot genes.html
""",
    )
    parser.add_argument("table", type=Path, metavar="TABLE", help="samples in rows; see below")
    label = parser.add_mutually_exclusive_group(required=True)
    label.add_argument("--label", metavar="COLUMN", help="the column with the class of each sample")
    _add(label, "--labels")
    _add(parser, "--components")
    parser.add_argument(
        "--criterion", default="centroid", choices=["centroid", "separation"],
        help="what components are the best of: the reconstruction of centroids, or telling pairs "
        "of classes apart, with at most number of classes - 1 components (%(default)s)",
    )  # fmt: skip
    _add_table_options(parser)
    columns_ = parser.add_argument_group("columns")
    columns_.add_argument("--id", metavar="COLUMN", help="the column that names the samples")
    columns_.add_argument(
        "--drop", action="append", default=[], metavar="COLS",
        help="columns to leave out, separated by commas, or patterns such as 'batch*'; may be "
        "repeated",
    )  # fmt: skip
    columns_.add_argument(
        "--features", action="append", default=[], metavar="COLS",
        help="the only columns to use, as for --drop (default: all others)",
    )  # fmt: skip
    _add(columns_, "--duplicates")
    columns_.add_argument(
        "--impute", choices=["mean"], help="fill missing values with the mean of their column"
    )
    columns_.add_argument(
        "--scale", action="store_true",
        help="divide each column by its standard deviation: for features in different units",
    )  # fmt: skip
    columns_.add_argument(
        "--unlabeled", choices=["drop", "use"],
        help="what to do with samples that have no label: drop them, or add their own "
        "reconstruction to the loss, as in PCA (default: raise an error)",
    )  # fmt: skip
    outputs = parser.add_argument_group("outputs")
    outputs.add_argument(
        "--model", type=Path, metavar="FILE", help="the model (.npz), for transform and inspect"
    )
    outputs.add_argument(
        "--embedding", type=Path, metavar="FILE",
        help="a row for each sample (.csv, .tsv, .parquet, .npy)",
    )  # fmt: skip
    _add(outputs, "--plot", "--plot-components")
    outputs.add_argument(
        "--loadings", type=Path, metavar="FILE",
        help="the weight of each feature in each component (.csv, .tsv, .parquet)",
    )  # fmt: skip
    _add(outputs, "--top")
    outputs.add_argument(
        "--folds", type=_folds, default=5, metavar="N",
        help="cross-validate 5 nearest neighbours in the embeddings of SLCE and PCA; 0: skip "
        "(%(default)s)",
    )  # fmt: skip
    _add(outputs, "--force")
    work = parser.add_argument_group("computation")
    _add(work, "--backend", "--device")
    work.add_argument(
        "--solver", default="auto", choices=["auto", "scatter", "gram", "krylov"],
        help="the form of the eigenproblem (%(default)s)",
    )  # fmt: skip
    _add(work, "--precision", "--max-memory", "--stream")


def _transform_parser(commands: Any) -> None:
    parser = _command(
        commands,
        "transform",
        "embed the samples of another table with a model",
        epilog="Columns are matched by name, if table and model have names;\nothers are ignored.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="a file that fit --model wrote")
    parser.add_argument("table", type=Path, metavar="TABLE", help="a table as fit takes it")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE",
        help="the embedding (.csv, .tsv, .parquet, .npy)",
    )  # fmt: skip
    _add(parser, "--plot", "--plot-components")
    _add_other_table(parser)


def _predict_parser(commands: Any) -> None:
    parser = _command(
        commands,
        "predict",
        "classify the samples of another table with a model",
        epilog="With a model of fit --criterion separation the probability is written, too.\n"
        "Columns are matched by name, if table and model have names;\nothers are ignored.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="a file that fit --model wrote")
    parser.add_argument("table", type=Path, metavar="TABLE", help="a table as fit takes it")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE",
        help="a row for each sample (.csv, .tsv, .parquet)",
    )  # fmt: skip
    _add_other_table(parser)


def _add_other_table(parser: argparse.ArgumentParser) -> None:
    """Add the options of a table that a model is applied to."""
    parser.add_argument("--id", metavar="COLUMN", help="a column to copy: the names of the samples")
    label = parser.add_mutually_exclusive_group()
    label.add_argument("--label", metavar="COLUMN", help="a column to copy: their classes")
    _add(label, "--labels")
    parser.add_argument(
        "--impute", choices=["mean"],
        help="fill missing values with the means of the samples that the model was fitted to",
    )  # fmt: skip
    _add(parser, "--duplicates", "--stream", "--force")
    _add_table_options(parser)


def _plan_parser(commands: Any) -> None:
    parser = _command(commands, "plan", "estimate the work and memory of a fit, without data")
    parser.add_argument("--samples", type=_count, required=True, metavar="N", help="rows")
    parser.add_argument("--features", type=_count, required=True, metavar="D", help="columns")
    parser.add_argument("--classes", type=_count, required=True, metavar="K", help="of the rows")
    _add(parser, "--components")
    parser.add_argument(
        "--dtype", default="float64", choices=["float32", "float64"],
        help="the dtype (%(default)s)",
    )  # fmt: skip
    _add(parser, "--precision", "--max-memory")
    parser.add_argument(
        "--machine-memory", type=_size, metavar="SIZE",
        help="memory of a machine: recommends memory, blocks of a file, or a cluster",
    )  # fmt: skip


def _add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a table is written."""
    table = parser.add_argument_group("table")
    _add(table, "--transpose", "--no-header", "--missing", "--decimal", "--data")


def _add(parser: Any, *names: str) -> None:
    """Add options that several commands have."""
    for name in names:
        parser.add_argument(name, **_SHARED[name])


def _components(text: str) -> int | float | str:
    if text == "positive":
        return text
    try:
        if 0.0 < float(text) < 1.0:
            return float(text)
    except ValueError:
        pass
    return _number(text, 1, ", a share of the loss between 0 and 1, or 'positive'")


def _plot_components(text: str) -> list[int]:
    numbers = [_number(part.strip(), 1) - 1 for part in text.split(",")]
    if len(numbers) > 3 or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"must be up to three different ones; got {text!r}")
    return numbers


def _count(text: str) -> int:
    return _number(text, 0)


def _folds(text: str) -> int:
    return _number(text, 2) if text != "0" else 0


def _number(text: str, least: int, other: str = "") -> int:
    try:
        number = float(text)  # accepts 1e6
        if number == int(number) >= least:
            return int(number)
    except (OverflowError, ValueError):
        pass
    raise argparse.ArgumentTypeError(f"must be an integer ≥ {least}{other}; got {text!r}")


def _size(text: str) -> int | None:
    try:
        return sizes.parse_bytes(text, "it")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_SHARED: dict[str, dict[str, Any]] = {
    "--components": {
        "type": _components, "metavar": "K",
        "help": "how many components; 'positive' for those that lower the loss; a fraction such "
        "as 0.9 for those that remove this share of it (default: number of classes - 1)",
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
        "type": _plot_components, "metavar": "I,J",
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
    "--precision": {
        "default": "auto", "choices": ["auto", "full", "mixed"],
        "help": "mixed: large products of float64 data in float32, refined by residuals in "
        "float64 (%(default)s)",
    },
    "--max-memory": {
        "type": _size, "metavar": "SIZE",
        "help": "memory limit of a fit in addition to the data, such as 2GB",
    },
    "--top": {
        "type": _count, "default": 5, "metavar": "N",
        "help": "features to print for each component (%(default)s)",
    },
    "--force": {"action": "store_true", "help": "replace files that exist"},
    "--stream": {
        "action": "store_true",
        "help": "read .npy, .h5 and .h5ad in blocks; automatic for files above half of memory",
    },
}  # fmt: skip
