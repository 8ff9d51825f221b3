"""SLCE on three handwritten digits: ``python -m slce_xp.demo`` (extra ``demo``)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slce_xp import _files, fit, plot
from slce_xp._errors import pip_install

DIGITS = (3, 6, 9)  # as in the README


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, print the model, compare with PCA, save a plot.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the command line by default.
    """
    parser = argparse.ArgumentParser(prog="python -m slce_xp.demo", description=__doc__)
    parser.add_argument("--output", default="demo.png", help="the plot (%(default)s)")
    output = parser.parse_args(argv).output
    try:
        from matplotlib.figure import Figure
        from sklearn.datasets import load_digits
        from sklearn.decomposition import PCA
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        command = pip_install("matplotlib", "scikit-learn")
        parser.exit(1, f"{error}; install the demo's libraries: {command}\n")

    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, DIGITS)
    X, y = X[chosen], y[chosen]
    print("Handwritten digits 3, 6 and 9, chosen because SLCE gains most over PCA on them\n")
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
    for k in (1, 2):
        scores = {name: _score(pair, k, y_train, y_test) for name, pair in embeddings.items()}
        print(f"  {k} dimension{'s' * (k > 1)}: SLCE {scores['SLCE']:.1%}, PCA {scores['PCA']:.1%}")

    figure = Figure(figsize=(11, 5), layout="constrained")  # not pyplot's, which may need a screen
    for ax, (name, pair) in zip(figure.subplots(1, 2), embeddings.items(), strict=True):
        train, test = pair
        plot.points(train, y_train, Z_test=test, y_test=y_test, classes=model.classes, ax=ax)
        score = _score(pair, 2, y_train, y_test)
        ax.set_title(f"{name}: 5-NN gets {score:.1%} of the test digits right")
    figure.suptitle("Handwritten digits 3, 6 and 9, chosen because the methods differ most on them")
    path = Path(output)
    with _files.whole_or_not_at_all(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower() or "png", dpi=120)
    print(f"wrote {output}")


def _score(pair: tuple[Any, Any], k: int, y_train: Any, y_test: Any) -> float:
    from sklearn.neighbors import KNeighborsClassifier

    train, test = (embedding[:, :k] for embedding in pair)
    return float(KNeighborsClassifier(5).fit(train, y_train).score(test, y_test))


if __name__ == "__main__":
    main()
