"""Draw the plots of the README and the guide: ``python docs/pictures.py`` (extra ``demo``).

Needs no network: the data sets come with scikit-learn. Every run draws the same plots.
"""

from __future__ import annotations

import argparse
import io
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale

import slce_xp
import slce_xp.plot

WIDTH = 10  # inches of 120 pixels
DIGITS = (3, 6, 9)  # of all triples those for which SLCE gains most over PCA, as the README says


def embedding() -> Figure:
    """Draw three digits that PCA mixes, by SLCE and by PCA."""
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, DIGITS)
    X, y = X[chosen], y[chosen]
    split = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    X_train, X_test, y_train, y_test = split
    methods = {"SLCE": slce_xp.fit(X_train, y_train, 2), "PCA": PCA(2).fit(X_train)}
    figure = Figure((WIDTH, 4.4), layout="constrained")
    for ax, (name, method) in zip(figure.subplots(1, 2), methods.items(), strict=True):
        train, test = method.transform(X_train), method.transform(X_test)
        slce_xp.plot.points(train, y_train, Z_test=test, y_test=y_test, ax=ax)
        score = KNeighborsClassifier(5).fit(train, y_train).score(test, y_test)
        ax.set_title(f"{name}: 5-NN gets {100 * score:.0f} % of the test digits right")
    figure.suptitle("Handwritten digits 3, 6 and 9, from 64 to 2 dimensions")
    return figure


def spectrum() -> Figure:
    """Draw the eigenvalues and the loss of more components than lower the loss."""
    wine = load_wine()
    with warnings.catch_warnings():
        # The plot shows that not all of them lower the loss.
        warnings.filterwarnings("ignore", message="n_components=")
        model = slce_xp.fit(scale(wine.data), wine.target, 8)
    figure = Figure((WIDTH, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    slce_xp.plot.spectrum(model, left).set_title("plot.spectrum(model)")
    slce_xp.plot.loss(model, right).set_title("plot.loss(model)")
    return figure


def loadings() -> Figure:
    """Draw components of images as images, and loadings of named measurements."""
    digits = slce_xp.fit(*load_digits(return_X_y=True))
    wine = load_wine()
    cultivars = slce_xp.fit(scale(wine.data), wine.target)
    figure = Figure((WIDTH, 3.9), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(2, 3))
    axes = left.subplots(2, 3)
    slce_xp.plot.loadings(digits, shape=(8, 8), components=range(6), axes=axes)
    left.suptitle("digits: plot.loadings(model, shape=(8, 8))", size="medium")
    axes = right.subplots(1, 2)
    names = [name.replace("_", " ") for name in wine.feature_names]
    slce_xp.plot.loadings(cultivars, names, top=8, axes=axes)
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
    for draw in (embedding, spectrum, loadings):
        path = output / f"{draw.__name__}.png"
        save(draw(), path)
        print(f"wrote {path}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
