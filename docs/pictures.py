"""Draw the plots of the README and the guide: ``python docs/pictures.py`` (extra ``demo``).

Needs no network: the data sets come with scikit-learn. Every run draws the same plots.
"""

from __future__ import annotations

import argparse
import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_digits, load_wine
from sklearn.preprocessing import scale

import slce_xp
import slce_xp.plot

WIDTH = 10  # inches of 120 pixels
# The cultivars of the three classes, by Forina et al. (1986): of 59, 71 and 48 wines.
CULTIVARS = np.array(["Barolo", "Grignolino", "Barbera"])


def wine() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return standardised measurements of wines, their cultivars, and names of measurements."""
    found = load_wine()
    names = [name.replace("_", " ") for name in found.feature_names]
    names = [name.replace("od280/od315 of diluted wines", "OD 280/315") for name in names]
    return scale(found.data), CULTIVARS[found.target], names


def embedding() -> Figure:
    """Draw what the first code of the README draws, by that code up to where it saves the plot."""
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    code = readme.partition("```python\n")[2].partition("figure.savefig")[0]
    variables: dict[str, Any] = {}
    exec(code, variables)
    plt.close(variables["figure"])  # of pyplot, which would keep it
    return variables["figure"]


def honesty() -> Figure:
    """Draw random labels as a fit shows them, and out of fold."""
    X = np.random.default_rng(0).normal(size=(60, 500))
    y = np.repeat(["control", "drug A", "drug B"], 20)
    figure = Figure((WIDTH, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    slce_xp.plot.embedding(slce_xp.fit(X, y), X, y, ax=left)
    slce_xp.plot.embedding(X, y, ax=right)
    left.set_title("plot.embedding(model, X, y)\n" + left.get_title(), size="medium")
    right.set_title("plot.embedding(X, y)\n" + right.get_title().split("\n")[0], size="medium")
    figure.suptitle("60 samples of 500 random numbers, with labels that mean nothing")
    return figure


def spectrum() -> Figure:
    """Draw the eigenvalues and the loss of more components than lower the loss."""
    X, y, _ = wine()
    with warnings.catch_warnings():
        # The plot shows that not all of them lower the loss.
        warnings.filterwarnings("ignore", message="n_components=")
        model = slce_xp.fit(X, y, 8)
    figure = Figure((WIDTH, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    slce_xp.plot.spectrum(model, left).set_title("plot.spectrum(model)")
    slce_xp.plot.loss(model, right).set_title("plot.loss(model)")
    return figure


def loadings() -> Figure:
    """Draw components of images as images, and loadings of named measurements."""
    digits = slce_xp.fit(*load_digits(return_X_y=True))
    X, y, names = wine()
    figure = Figure((WIDTH, 3.9), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(2, 3))
    axes = left.subplots(2, 3)
    slce_xp.plot.loadings(digits, shape=(8, 8), components=range(6), axes=axes)
    left.suptitle("digits: plot.loadings(model, shape=(8, 8))", size="medium")
    axes = right.subplots(1, 2)
    slce_xp.plot.loadings(slce_xp.fit(X, y), names, top=8, axes=axes)
    right.suptitle("wine, scaled: plot.loadings(model, names, top=8)", size="medium")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Save as PNG with 128 colours: a third of the size without a visible difference."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=120, facecolor="white")
    Image.open(buffer).convert("RGB").quantize(128).save(path, optimize=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Draw all plots."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).parent / "images"
    parser.add_argument("--output", type=Path, default=default, help="a folder (docs/images)")
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    for draw in (embedding, honesty, spectrum, loadings):
        path = output / f"{draw.__name__}.png"
        save(draw(), path)
        print(f"wrote {path}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
