"""The paper's pictures, drawn from the same data, readable at the width of a column."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # files only: no display is needed
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import slce_xp
from benchmarks.datasets import DATA_SETS, split
from benchmarks.paper import protocol
from benchmarks.paper.curves import POINTS, SIMULATED
from benchmarks.paper.protocol import Results
from slce_xp import plot
from slce_xp.plot._looks import COLOURS

Load = Callable[[str], tuple[np.ndarray, np.ndarray]]

BLUE, ORANGE, GREEN, RED, PURPLE, _, BLACK, *_ = COLOURS
MARKERS = "osD^vPX*"
WIDTH = 3.5  # inches: a column
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
}


def _centroid_rows(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Each sample's class centroid, shape (n, d)."""
    classes, codes = np.unique(y, return_inverse=True)
    return np.stack([X[codes == j].mean(axis=0) for j in range(len(classes))])[codes]


def _fit(X: np.ndarray, y: np.ndarray, k: int) -> slce_xp.Model:
    with warnings.catch_warnings():
        # That further components do not lower the loss is what some pictures are about.
        warnings.filterwarnings("ignore", message="n_components=")
        return slce_xp.fit(X, y, k)


def _two_irises() -> tuple[np.ndarray, np.ndarray]:
    """Setosa and Versicolor in their first two features, centred."""
    iris = load_iris()
    two = iris.target < 2
    X = iris.data[two, :2]
    return X - X.mean(axis=0), iris.target[two]


# ---------------------------------------------------------------- Iris


def intuition(load: Load, results: Results) -> Figure:
    """The cost of an arbitrary line and of SLCE's, on three samples of each class."""
    X, y = _two_irises()
    C = _centroid_rows(X, y)
    # Of each class three samples that lie apart: by their place along the diagonal.
    order = np.argsort(X @ [1, -1], kind="stable")
    shown = np.concatenate([order[y[order] == j][[3, 25, 44]] for j in (0, 1)])
    angle = np.deg2rad(70)
    lines = {
        "(a) an arbitrary line": np.array([np.cos(angle), np.sin(angle)]),
        "(b) SLCE": _fit(X, y, 1).components[0],
    }
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.15), sharex=True, sharey=True)
    for axis, (title, a) in zip(axes, lines.items(), strict=True):
        rebuilt = np.outer(X @ a, a)
        cost = ((C - rebuilt) ** 2).sum()
        axis.axline((0, 0), tuple(a), color="0.6", linewidth=1, zorder=1)
        for i in shown:
            axis.plot(*zip(rebuilt[i], C[i], strict=True), color=BLACK, linewidth=0.8, zorder=2)
        for j, colour in ((0, BLUE), (1, ORANGE)):
            mine = shown[y[shown] == j]
            axis.scatter(*X[mine].T, s=14, c=colour, marker=MARKERS[j], zorder=3)
            axis.scatter(*rebuilt[mine].T, s=14, facecolors="white", edgecolors=colour,
                         marker=MARKERS[j], zorder=4)  # fmt: skip
            axis.scatter(*C[mine[0]], s=70, c=colour, marker="*", edgecolors=BLACK,
                         linewidths=0.5, zorder=5)  # fmt: skip
        axis.set_title(f"{title}\ncost {cost:.0f}")
        axis.set_aspect("equal")
        axis.set_xlabel("sepal length (cm)")
    axes[0].set_ylabel("sepal width (cm)")
    axes[0].set(xlim=(-1.3, 1.6), ylim=(-1.1, 1.2))
    handles = [
        Line2D([], [], color=BLACK, marker="o", linestyle="", label="sample"),
        Line2D([], [], color=BLACK, marker="o", linestyle="", mfc="white", label="reconstructed"),
        Line2D([], [], color=BLACK, marker="*", linestyle="", ms=7, label="class centroid"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=3, columnspacing=1, handletextpad=0)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    return figure


def directions(load: Load, results: Results) -> Figure:
    """First directions of PCA, LDA and SLCE."""
    X, y = _two_irises()
    found = {
        "PCA": PCA(1).fit(X).components_[0],
        "LDA": LinearDiscriminantAnalysis(n_components=1).fit(X, y).scalings_[:, 0],
        "SLCE": _fit(X, y, 1).components[0],
    }
    figure, axis = plt.subplots(figsize=(WIDTH, 2.45))
    for j, (name, colour) in enumerate((("Setosa", BLUE), ("Versicolor", ORANGE))):
        axis.scatter(*X[y == j].T, s=9, c=colour, marker=MARKERS[j], alpha=0.7, label=name)
        axis.scatter(*X[y == j].mean(axis=0), s=90, c=colour, marker="*", edgecolors=BLACK,
                     linewidths=0.6, zorder=3)  # fmt: skip
    styles = {"PCA": (BLACK, ":"), "LDA": (PURPLE, "--"), "SLCE": (GREEN, "-")}
    for name, a in found.items():
        axis.axline((0, 0), tuple(a), color=styles[name][0], linestyle=styles[name][1],
                    linewidth=1.6, label=name)  # fmt: skip
    axis.set(xlabel="sepal length (cm), centred", ylabel="sepal width (cm), centred",
             xlim=(-1.5, 1.7), ylim=(-1.3, 1.5), aspect="equal")  # fmt: skip
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0)
    figure.tight_layout()
    return figure


# ---------------------------------------------------------------- embeddings


def digits_4_7_9(load: Load, results: Results) -> Figure:
    """Test digits 4, 7 and 9 of MNIST, fitted to the training digits, by SLCE and by PCA."""
    X, y = load("mnist")
    train, test = split(DATA_SETS["mnist"], 0)
    train, test = (part[np.isin(y[part], (4, 7, 9))] for part in (train, test))
    mean = X[train].mean(axis=0)
    found = {
        "(a) SLCE": _fit(X[train], y[train], 2).components,
        "(b) PCA": PCA(2, random_state=0).fit(X[train]).components_,
    }
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.1))
    for axis, (title, components) in zip(axes, found.items(), strict=True):
        Z = (X[test] - mean) @ components.T
        # In a mixed order, so that no digit hides the others.
        order = np.random.default_rng(0).permutation(len(Z))[:1000]
        colours = np.select([y[test] == 4, y[test] == 7], [BLUE, ORANGE], BLACK)
        axis.scatter(*Z[order].T, s=2, c=colours[order], alpha=0.6, linewidths=0)
        axis.set_title(title)
        axis.set(xticks=[], yticks=[], xlabel="component 1")
    axes[0].set_ylabel("component 2")
    handles = [
        Line2D([], [], color=colour, marker="o", linestyle="", label=digit)
        for digit, colour in (("4", BLUE), ("7", ORANGE), ("9", BLACK))
    ]
    figure.legend(handles=handles, loc="lower center", ncols=3, handletextpad=0)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    return figure


def _embedding(name: str) -> Callable[[Load, Results], Figure]:
    def draw(load: Load, results: Results) -> Figure:
        """Training (filled) and testing samples (hollow) by SLCE in 2 and 3 dimensions."""
        X, y = load(name)
        train, test = split(DATA_SETS[name], [1, 0])
        model = _fit(X[train], y[train], 3)
        Z = model.transform(X)
        figure = plt.figure(figsize=(WIDTH, 5.0))
        flat, solid = figure.add_subplot(2, 1, 1), figure.add_subplot(2, 1, 2, projection="3d")
        for j, label in enumerate(np.unique(y)):
            colour, marker = COLOURS[j % len(COLOURS)], MARKERS[j % len(MARKERS)]
            for part, style in (
                (train, {"facecolors": colour, "edgecolors": "none", "s": 8, "alpha": 0.6}),
                (test, {"facecolors": "none", "edgecolors": colour, "s": 14, "linewidths": 0.7}),
            ):
                mine = Z[part[y[part] == label]]
                flat.scatter(mine[:, 0], mine[:, 1], marker=marker, **style)
                solid.scatter(*mine.T, marker=marker, depthshade=False, **style)
            flat.scatter([], [], c=colour, marker=marker, s=12, label=str(label))
        flat.set(xticks=[], yticks=[], xlabel="component 1", ylabel="component 2", title="2-D")
        solid.set(xticklabels=[], yticklabels=[], zticklabels=[])
        solid.set_title("3-D", y=0.98)
        solid.view_init(elev=22, azim=-60)
        solid.set_box_aspect((4, 3, 2.5), zoom=1.3)
        for axis in (solid.xaxis, solid.yaxis, solid.zaxis):
            axis._axinfo["grid"].update(color="0.9", linewidth=0.5)
        figure.legend(loc="lower center", ncols=4, columnspacing=0.8, handletextpad=0)
        figure.subplots_adjust(left=0.07, right=0.97, top=0.95, bottom=0.13, hspace=0.2)
        return figure

    return draw


# ---------------------------------------------------------------- the properties


def _bound(name: str) -> Callable[[Load, Results], Figure]:
    def draw(load: Load, results: Results) -> Figure:
        """Eigenvalues of M = 2·S_b − S_t under those of 2·S_b, on data with d ≫ n."""
        X, y = load(name)
        n_shown = len(np.unique(y)) + 5
        model = _fit(X, y, n_shown)
        figure, axis = plt.subplots(figsize=(WIDTH, 2.3))
        plot.spectrum(model, axis)
        axis.axvline(len(model.classes) - 0.5, 0, 0.55, color="0.5", linewidth=0.8, linestyle=":")
        axis.annotate(f"classes − 1 = {len(model.classes) - 1}", (len(model.classes) - 0.4, 0.45),
                      xycoords=("data", "axes fraction"), fontsize=7)  # fmt: skip
        figure.tight_layout()
        return figure

    return draw


def cost(load: Load, results: Results) -> Figure:
    """Cost of reconstructing by one eigenvector, measured, beside its eigenvalue (Property 4)."""
    figure, axes = plt.subplots(2, 1, figsize=(WIDTH, 3.7))
    for axis, (name, k) in zip(axes, (("coil20", 25), ("arcene", 10)), strict=True):
        X, y = load(name)
        model = _fit(X, y, k)
        X = X - X.mean(axis=0)
        C = _centroid_rows(X, y)
        A = model.components.T
        # ‖C − X a aᵀ‖² for each column a, without making an n × d matrix for each.
        scores = X @ A
        measured = (C**2).sum() - 2 * ((C @ A) * scores).sum(axis=0) + (scores**2).sum(axis=0)
        place = np.arange(1, k + 1)
        axis.plot(place, model.eigenvalues, color=BLUE, marker="o", label="eigenvalue μ")
        axis.set(ylabel="eigenvalue μ", title=DATA_SETS[name].title)
        axis.yaxis.label.set_color(BLUE)
        axis.ticklabel_format(axis="y", scilimits=(0, 0), useMathText=True)
        other = axis.twinx()
        other.spines["right"].set_visible(True)
        other.plot(place, measured, color=RED, marker="s", linestyle="--", label="cost")
        other.set_ylabel("reconstruction cost", color=RED)
        other.ticklabel_format(axis="y", scilimits=(0, 0), useMathText=True)
    axes[1].set_xlabel("eigenvector")
    axes[1].set_xticks(np.arange(1, 11))
    figure.tight_layout()
    return figure


# ---------------------------------------------------------------- accuracies and curves

# Of Experiment 3, those that the paper draws and a few more: all of them would be a thicket.
LINES = {
    "SLCE": (BLUE, "o", "-"),
    "SLCE, separation": (RED, "s", "-"),
    "LDA": (ORANGE, "D", "--"),
    "PCA": (BLACK, "^", ":"),
    "HSIC SPCA": (GREEN, "v", "-."),
    "SupSVD": (PURPLE, "P", (0, (1, 2))),
    "Centroid-Encoder": ("0.5", "X", (0, (5, 2, 1, 2))),
}


def accuracy_against_dimension(load: Load, results: Results) -> Figure | None:
    """Mean accuracy and its standard deviation in 5 to 20 dimensions, of the sets that are done."""
    experiment = protocol.EXPERIMENTS[2]
    found = {
        name: {
            method: values
            for method in LINES
            if (values := [results.accuracies(3, name, method, p) for p in experiment.dimensions])
            and values[0].size
        }
        for name in experiment.sets
    }
    found = {name: curves for name, curves in found.items() if curves}
    if not found:
        return None
    figure, axes = plt.subplots(
        len(found), 1, figsize=(WIDTH, 0.6 + 1.7 * len(found)), sharex=True, squeeze=False
    )
    handles = {}
    for axis, (name, curves) in zip(axes[:, 0], found.items(), strict=True):
        for method, values in curves.items():
            colour, marker, line = LINES[method]
            aside = 0.2 * (list(LINES).index(method) - (len(LINES) - 1) / 2)
            handles[method] = axis.errorbar(
                np.array(experiment.dimensions) + aside,  # bars beside each other
                [v.mean() for v in values], [v.std(ddof=min(1, v.size - 1)) for v in values],
                color=colour, marker=marker, linestyle=line, capsize=1.5, elinewidth=0.7,
                markersize=3.5,
            )  # fmt: skip
        axis.set(title=DATA_SETS[name].title, ylabel="5-NN accuracy (%)")
        axis.set_xticks(experiment.dimensions)
    axes[-1, 0].set_xlabel("dimensions")
    legend = figure.legend(
        handles.values(), handles.keys(), loc="lower center", ncols=3, columnspacing=1
    )
    height = legend.get_window_extent().height / figure.bbox.height
    figure.tight_layout(rect=(0, height, 1, 1))
    return figure


def simulated_curves(load: Load, results: Results) -> Figure:
    """Some curves of each class, their class means and SFPCA's first two functions."""
    from benchmarks.peers import SFPCA  # late, for it takes Torch with it

    figure, axes = plt.subplots(2, len(SIMULATED), figsize=(WIDTH, 3.4), sharex=True, sharey="row")
    for (above, below), data_set in zip(axes.T, SIMULATED.values(), strict=True):
        X, y = data_set.parse()
        for c, colour in enumerate((BLUE, ORANGE, GREEN, PURPLE)):
            above.plot(POINTS, X[y == c][:2].T, color=colour, linewidth=0.4, alpha=0.5)
            above.plot(POINTS, X[y == c].mean(axis=0), color=colour, label=f"class {c}")
        above.set_title(data_set.title)
        model = SFPCA(2).fit(X, y)
        basis = np.linalg.pinv(model.basis_.smoother).T
        for j, line in enumerate(("-", "--")):
            below.plot(POINTS, basis @ model.coefficients_[j], color=BLACK, linestyle=line,
                       label=f"function {j + 1}")  # fmt: skip
        below.set(xlabel="t", title=f"θ = {model.theta_:g}, λ = {model.lam_:g}")
    axes[0, 0].set_ylabel("curves, class means")
    axes[1, 0].set_ylabel("SFPCA's functions")
    handles = [
        *axes[0, 0].get_legend_handles_labels()[0],
        *axes[1, 0].get_legend_handles_labels()[0],
    ]
    figure.legend(handles=handles, loc="lower center", ncols=3, columnspacing=1)
    figure.tight_layout(rect=(0, 0.11, 1, 1))
    return figure


# ---------------------------------------------------------------- all of them


def figures(
    sets: Mapping[str, bool],
) -> dict[str, tuple[str, tuple[str, ...], Callable[..., Figure | None]]]:
    """For each file: caption, the sets it needs, and how it is drawn.

    Parameters
    ----------
    sets
        Which sets are available: where PANCAN is not, another of its kind is taken.
    """
    wide = "pancan" if sets.get("pancan") else "yale"
    many = "pancan" if sets.get("pancan") else "mice_protein"
    instead = "" if wide == "pancan" else " (the paper: PANCAN, which is missing here)"
    return {
        "intuition.png": (
            "The geometric intuition on Iris: each sample is reconstructed on a line; black lines "
            "lead to its class centroid, and the cost is the sum of their squared lengths over "
            "all samples of which six are drawn.",
            (), intuition,
        ),
        "directions.png": (
            "PCA, LDA and SLCE on Setosa and Versicolor of Iris; stars are class centroids.",
            (), directions,
        ),
        "mnist-4-7-9.png": (
            "MNIST's test digits 4, 7 and 9, 1000 of them, by SLCE and PCA.",
            ("mnist",), digits_4_7_9,
        ),
        "eigenvalue-bound.png": (
            f"Property 3 on {DATA_SETS[wide].title}{instead}: at most (classes − 1) eigenvalues "
            "are positive, each below its bound.",
            (wide,), _bound(wide),
        ),
        "cost.png": (
            "Property 4: the cost of reconstructing the centroids by one eigenvector, computed "
            "from the data, falls as much as its eigenvalue rises.",
            ("coil20", "arcene"), cost,
        ),
        "dimensions.png": (
            "Experiment 3: accuracy against the number of dimensions, mean and standard deviation.",
            (), accuracy_against_dimension,
        ),
        "curves.png": (
            "Simulated curves: two of each class (thin) and class means, and the first two "
            "functions of SFPCA.",
            tuple(SIMULATED), simulated_curves,
        ),
        "embedding.png": (
            f"SLCE's embedding of {DATA_SETS[many].title}{instead}; filled: training, hollow: "
            "testing.",
            (many,), _embedding(many),
        ),
    }  # fmt: skip


def _save(figure: Figure, path: Path) -> None:
    """As PNG of 256 colours, a third of the size and no worse to look at."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=200)
    Image.open(buffer).convert("RGB").quantize(256).save(path, optimize=True)


def draw_all(
    folder: Path, sets: Mapping[str, bool], load: Load, results: Results
) -> dict[str, str]:
    """Draw what the available sets allow; file names and captions of what was drawn."""
    drawn = {}
    folder.mkdir(parents=True, exist_ok=True)
    for file, (caption, needed, draw) in figures(sets).items():
        if all(sets.get(name) for name in needed):
            with plt.rc_context(STYLE):
                figure = draw(load, results)
                if figure is None:
                    continue
                _save(figure, folder / file)
            plt.close(figure)
            drawn[file] = caption
    return drawn
