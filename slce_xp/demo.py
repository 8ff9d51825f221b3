"""SLCE on handwritten digits: ``python -m slce_xp.demo`` (extra ``demo``)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from slce_xp import _files, cross_embed, plot
from slce_xp._errors import pip_install


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, print the model and how well held-out digits are classified, save a plot.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the command line by default.
    """
    parser = argparse.ArgumentParser(prog="python -m slce_xp.demo", description=__doc__)
    parser.add_argument("--output", default="demo.png", help="the plot (%(default)s)")
    output = Path(parser.parse_args(argv).output)
    try:
        from sklearn.datasets import load_digits

        from slce_xp.plot._figure import Figure
    except ImportError as error:
        command = pip_install("matplotlib", "scikit-learn")
        parser.exit(1, f"{error}; install the demo's libraries: {command}\n")
    X, y = load_digits(return_X_y=True)
    found = cross_embed(X, y)
    print(found.model)
    print(found)
    figure = Figure((7, 5), layout="constrained")  # not pyplot's, which may need a screen
    plot.cross_embedding(found, ax=figure.subplots())
    with _files.whole_or_not_at_all(output) as temporary:
        figure.savefig(temporary, format=output.suffix[1:].lower() or "png", dpi=120)
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
