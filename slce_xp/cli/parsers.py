"""The options of each subcommand that has many."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slce_xp.cli.shared_options import (
    add,
    at_least_one,
    at_least_two,
    count,
    folds,
    several_components,
    size,
    words,
)


def add_command(commands: Any, name: str, purpose: str, **texts: Any) -> argparse.ArgumentParser:
    """Add a subcommand, and return its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **texts,
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def add_fit(commands: Any) -> None:
    """Add ``slce-xp fit``."""
    parser = add_command(
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
    _add_labelled_table(parser, "samples in rows; see below")
    add(parser, "--components")
    parser.add_argument(
        "--criterion", default="centroid", choices=["centroid", "separation"],
        help="what components are the best of: the reconstruction of centroids, or telling pairs "
        "of classes apart, with at most number of classes - 1 components (%(default)s)",
    )  # fmt: skip
    _add_table_options(parser)
    columns_ = _add_columns(parser, "--features", "--scale")
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
    add(outputs, "--plot", "--plot-components")
    outputs.add_argument(
        "--loadings", type=Path, metavar="FILE",
        help="the weight of each feature in each component (.csv, .tsv, .parquet)",
    )  # fmt: skip
    add(outputs, "--top")
    outputs.add_argument(
        "--folds", type=folds, default=5, metavar="N",
        help="cross-validate 5 nearest neighbours in the embeddings of SLCE, PCA and LDA; 0: skip "
        "(%(default)s)",
    )  # fmt: skip
    add(outputs, "--force")
    work = parser.add_argument_group("computation")
    add(work, "--backend", "--device")
    work.add_argument(
        "--solver", default="auto", choices=["auto", "scatter", "gram", "krylov"],
        help="the form of the eigenproblem (%(default)s)",
    )  # fmt: skip
    add(work, "--max-memory", "--stream")


def add_transform(commands: Any) -> None:
    """Add ``slce-xp transform``."""
    parser = add_command(
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
    add(parser, "--plot", "--plot-components")
    _add_other_table(parser)


def add_predict(commands: Any) -> None:
    """Add ``slce-xp predict``."""
    parser = add_command(
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
    add(label, "--labels")
    parser.add_argument(
        "--impute", choices=["mean"],
        help="fill missing values with the means of the samples that the model was fitted to",
    )  # fmt: skip
    add(parser, "--duplicates", "--stream", "--force")
    _add_table_options(parser)


def add_plan(commands: Any) -> None:
    """Add ``slce-xp plan``."""
    parser = add_command(commands, "plan", "estimate the work and memory of a fit, without data")
    parser.add_argument("--samples", type=count, required=True, metavar="N", help="rows")
    parser.add_argument("--features", type=count, required=True, metavar="D", help="columns")
    parser.add_argument("--classes", type=count, required=True, metavar="K", help="of the rows")
    add(parser, "--components")
    parser.add_argument(
        "--dtype", default="float64", choices=["float32", "float64"],
        help="the dtype (%(default)s)",
    )  # fmt: skip
    add(parser, "--max-memory")
    parser.add_argument(
        "--machine-memory", type=size, metavar="SIZE",
        help="memory of a machine: recommends memory, blocks of a file, or a cluster",
    )  # fmt: skip


def add_compare(commands: Any) -> None:
    """Add ``slce-xp compare``."""
    parser = add_command(
        commands,
        "compare",
        "compare SLCE with PCA, LDA and other methods by cross-validation",
        epilog="""\
methods:
  pca            principal components
  lda            linear discriminants; at most number of classes - 1
  shrinkage-lda  likewise, with a covariance shrunk by Ledoit and Wolf
  slce           SLCE
  separation     SLCE with --criterion separation; at most number of classes - 1
  nca            neighbourhood components, for small tables
  all            all features, without a reduction

Held-out samples are classified by their 5 nearest neighbours and by the nearest
class mean, in the same folds for all methods. No method is called the winner if
it is ahead by no more than two standard errors.

example:
  slce-xp compare wine.csv --label cultivar --scale --plot wine.png
""",
    )
    _add_labelled_table(parser, "a table as fit takes it")
    parser.add_argument(
        "--components", type=several_components, default=(2, 3, 5), metavar="K,K,...",
        help="numbers of components (2,3,5)",
    )  # fmt: skip
    parser.add_argument(
        "--methods", type=words, metavar="NAME,...", help="which methods; see below (default: all)"
    )
    parser.add_argument(
        "--folds", type=at_least_two, default=5, metavar="N", help="of the samples (%(default)s)"
    )
    _add_table_options(parser)
    columns_ = _add_columns(parser, "--features", "--scale")
    _add_unlabeled_drop(columns_)
    outputs = parser.add_argument_group("outputs")
    outputs.add_argument(
        "-o", "--output", type=Path, metavar="FILE",
        help="a row for each method, number of components and classifier (.csv, .tsv, .parquet)",
    )  # fmt: skip
    outputs.add_argument(
        "--plot", type=Path, metavar="FILE", help="a plot of the accuracies (.png, .svg, .pdf)"
    )
    add(outputs, "--force")
    parser.set_defaults(stream=False)


def add_select(commands: Any) -> None:
    """Add ``slce-xp select``."""
    parser = add_command(
        commands,
        "select",
        "select the features that matter, by an exact sparse path",
        epilog="""\
Features are ranked by how often resamples of half the samples select them, with
the rank that the analysis of variance (ANOVA) gives them. Classifiers are
cross-validated on 10, 25, 50 and 100 features of both, selected in each fold.

example:
  slce-xp select genes.csv --label diagnosis --features 50 \\
      --output selected.csv --plot path.png
""",
    )
    _add_labelled_table(parser, "a table as fit takes it")
    parser.add_argument(
        "--features", type=at_least_one, default=50, dest="n_features", metavar="N",
        help="how many features to select (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--resamples", type=count, default=50, metavar="N",
        help="resamples for the frequencies and the stability; 0: none (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--folds", type=folds, default=5, metavar="N",
        help="cross-validate classifiers on selected features; 0: skip (%(default)s)",
    )  # fmt: skip
    _add_table_options(parser)
    _add_unlabeled_drop(_add_columns(parser, "--scale"))
    outputs = parser.add_argument_group("outputs")
    outputs.add_argument(
        "-o", "--output", type=Path, metavar="FILE",
        help="a row for each selected feature (.csv, .tsv, .parquet)",
    )  # fmt: skip
    outputs.add_argument(
        "--plot", type=Path, metavar="FILE",
        help="a plot of coefficients against the penalty (.png, .svg, .pdf)",
    )  # fmt: skip
    outputs.add_argument(
        "--top", type=count, default=10, metavar="N", help="features to print (%(default)s)"
    )
    add(outputs, "--force")
    parser.set_defaults(stream=False)


def _add_labelled_table(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("table", type=Path, metavar="TABLE", help=what)
    label = parser.add_mutually_exclusive_group(required=True)
    add(label, "--label", "--labels")


def _add_columns(parser: argparse.ArgumentParser, *more: str) -> Any:
    """Add the options on columns, and return their group."""
    columns = parser.add_argument_group("columns")
    add(columns, "--id", "--drop", *more, "--duplicates", "--impute")
    return columns


def _add_unlabeled_drop(columns: Any) -> None:
    columns.add_argument(
        "--unlabeled", choices=["drop"],
        help="leave out samples that have no label (default: raise an error)",
    )  # fmt: skip


def _add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a table is written."""
    table = parser.add_argument_group("table")
    add(table, "--transpose", "--no-header", "--missing", "--decimal", "--data")
