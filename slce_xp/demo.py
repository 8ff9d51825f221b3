"""SLCE on handwritten digits: ``python -m slce_xp.demo`` (extra ``demo``)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from slce_xp import Model, fit

# Okabe and Ito's colours, told apart by colour-blind readers, and two more for ten digits.
COLOURS = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442",
    "#0072B2", "#D55E00", "#CC79A7", "#999999", "#6A3D9A",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, print the model, compare with PCA, write a picture."""
    parser = argparse.ArgumentParser(prog="python -m slce_xp.demo", description=__doc__)
    parser.add_argument("--output", default="demo.png", help="where the picture goes (%(default)s)")
    output = parser.parse_args(argv).output
    try:
        import matplotlib
        from sklearn.datasets import load_digits
        from sklearn.decomposition import PCA
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        parser.exit(1, f"{error}; install the demo's libraries: pip install 'slce-xp[demo]'\n")
    matplotlib.use("Agg")  # a picture in a file needs no screen

    X, y = load_digits(return_X_y=True)
    split = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    X_train, X_test, y_train, y_test = split
    model = fit(X_train, y_train)
    print(model)
    pca = PCA(model.n_components).fit(X_train)
    embeddings = {
        "SLCE": (model.transform(X_train), model.transform(X_test)),
        "PCA": (pca.transform(X_train), pca.transform(X_test)),
    }
    print("\n5-NN on the embedding, share of test digits right:")
    for k in (2, 3):
        scores = {name: _score(pair, k, y_train, y_test) for name, pair in embeddings.items()}
        print(f"  {k} dimensions: SLCE {scores['SLCE']:.1%}, PCA {scores['PCA']:.1%}")
    planes = {name: (train[:, :2], test[:, :2]) for name, (train, test) in embeddings.items()}
    _draw(planes, y_train, y_test, model, output)
    print(f"wrote {output}")


def _score(pair: tuple[Any, Any], k: int, y_train: Any, y_test: Any) -> float:
    from sklearn.neighbors import KNeighborsClassifier

    train, test = (embedding[:, :k] for embedding in pair)
    return float(KNeighborsClassifier(5).fit(train, y_train).score(test, y_test))


def _draw(
    planes: dict[str, tuple[Any, Any]],
    y_train: Any,
    y_test: Any,
    model: Model,
    output: str,
) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    for axis, (name, (train, test)) in zip(axes, planes.items(), strict=True):
        for digit, colour in zip(model.classes, COLOURS, strict=True):
            here = test[y_test == digit]
            before = train[y_train == digit]
            axis.scatter(*before.T, s=14, color=colour, linewidths=0, alpha=0.55)
            axis.scatter(*here.T, s=18, facecolors="none", edgecolors=colour, linewidths=0.9)
            box = {"facecolor": "white", "alpha": 0.8, "edgecolor": colour, "pad": 2}
            centre = np.median(before, axis=0)
            axis.text(
                *centre, str(digit), size=15, weight="bold", ha="center", va="center", bbox=box
            )
        score = _score((train, test), 2, y_train, y_test)
        axis.set_title(f"{name}: 5-NN gets {score:.1%} of the test digits right")
        axis.set_xlabel("first component")
        axis.set_ylabel("second component")
    figure.suptitle("Handwritten digits, 64 → 2 dimensions (filled: training, open: test)")
    figure.savefig(output, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
