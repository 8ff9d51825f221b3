"""Comparison of methods: against pipelines of scikit-learn, and what the table says."""

import io
import re
import sys

import numpy as np
import pytest
import scipy.sparse

import slce_xp
from slce_xp._backend import Sparse

pytest.importorskip("sklearn")
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.model_selection import (
    GroupKFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.neighbors import (
    KNeighborsClassifier,
    NearestCentroid,
    NeighborhoodComponentsAnalysis,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from slce_xp._comparison import methods as _methods
from slce_xp._comparison.table import standard_error

WINE = load_wine(return_X_y=True)
IRIS = load_iris(return_X_y=True)
FAST = ("pca", "lda", "slce", "all")


def separate(n=60, d=30, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d))
    X[np.arange(n), y] += 4
    return X, y


def score(found, method, k, classifier="5-NN"):
    (only,) = (
        s
        for s in found.scores
        if (s.method, s.n_components, s.classifier) == (method, k, classifier)
    )
    return only


def test_accuracies_are_those_of_pipelines():
    X, y = WINE
    X = X.copy()
    X[::20, 3] = np.nan
    found = slce_xp.compare(X, y, (1, 2), scale=True, impute=True, random_state=3)
    reducers = {
        ("PCA", 2): PCA(2),
        ("LDA", 1): LinearDiscriminantAnalysis(n_components=1),
        ("LDA", 2): LinearDiscriminantAnalysis(n_components=2),
        ("shrinkage LDA", 2): LinearDiscriminantAnalysis("eigen", shrinkage="auto"),
        ("SLCE", 2): slce_xp.SLCE(2),
        ("SLCE separation", 1): slce_xp.SLCE(1, criterion="separation"),
        ("NCA", 2): NeighborhoodComponentsAnalysis(2, random_state=3),
        ("all features", 13): "passthrough",
    }
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    for (method, k), reducer in reducers.items():
        for name, classifier in (
            ("5-NN", KNeighborsClassifier(5)),
            ("nearest centroid", NearestCentroid()),
        ):
            pipeline = make_pipeline(SimpleImputer(), StandardScaler(), reducer, classifier)
            right = np.mean(cross_val_predict(pipeline, X, y, cv=folds) == y)
            assert score(found, method, k, name).accuracy == pytest.approx(right), (method, name)
    assert found.largest == pytest.approx(np.bincount(y).max() / len(y))


# ---------------------------------------------------------------- errors and winners


def test_standard_error_is_the_larger_of_samples_and_folds():
    rng = np.random.default_rng(0)
    tests = np.split(rng.permutation(100), 5)
    values = rng.integers(0, 2, 100).astype(float)
    means = values.reshape(5, 20).mean(axis=1)
    over_folds = np.sqrt((1 / 5 + 1 / 4) * means.var(ddof=1))
    over_samples = values.std(ddof=1) / 10
    assert standard_error(values, tests, 0.25) == pytest.approx(max(over_folds, over_samples))
    shifted = values + np.repeat([0, 5, 0, 0, 0], 20)  # folds differ more than samples
    means = shifted.reshape(5, 20).mean(axis=1)
    assert standard_error(shifted, tests, 0.25) == pytest.approx(np.sqrt(0.45 * means.var(ddof=1)))


def test_samples_that_are_tested_often_count_once():
    tests = [np.arange(50)] * 4
    values = np.tile(np.arange(50) % 2, 4).astype(float)
    once = standard_error(values[:50], tests[:1], 0.25)
    assert standard_error(values, tests, 0.25) == pytest.approx(once)


def test_no_winner_within_the_noise():
    wins = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 8)), rng.integers(0, 2, 60)
        found = slce_xp.compare(X, y, (1, 2), methods=FAST, random_state=seed)
        wins += (found.winner("5-NN") is not None) + (found.winner("nearest centroid") is not None)
    assert wins <= 2  # of 20, at 5 %


def test_clear_winner_is_named():
    X, y = separate()
    X[:, 20:] *= 50  # variance without a class: PCA sees nothing else
    found = slce_xp.compare(X, y, (2,), methods=("pca", "separation"))
    assert found.winner() == "SLCE separation"
    best, other = score(found, "SLCE separation", 2), score(found, "PCA", 2)
    assert (best.difference, best.difference_error, best.is_tied) == (0.0, 0.0, True)
    assert other.difference == pytest.approx(other.accuracy - best.accuracy)
    assert not other.is_tied
    assert "5-NN: SLCE separation is ahead of the other methods" in str(found)
    # Alone, a method wins nothing.
    assert slce_xp.compare(X, y, (2,), methods="separation").winner() is None


# ---------------------------------------------------------------- kinds of data


def test_sparse_is_dense_in_blocks_only_and_gives_the_same(monkeypatch):
    X, y = separate(90)
    X[np.abs(X) < 1] = 0
    dense = slce_xp.compare(X, y, (2,), methods=(*FAST, "nca", "shrinkage-lda"), scale=True)
    sparse = scipy.sparse.csc_array(X)
    to_dense = scipy.sparse.csr_array.toarray

    def blocks_only(self, *args, **options):
        by_block = sys._getframe(1).f_code is Sparse.dense.__code__  # of the scatter form
        assert by_block or self.shape == (X.shape[1], X.shape[1]), "samples were made dense"
        return to_dense(self, *args, **options)

    for kind in (type(sparse), scipy.sparse.csr_array):
        monkeypatch.setattr(kind, "toarray", blocks_only)
        monkeypatch.setattr(kind, "todense", None)
    found = slce_xp.compare(sparse, y, (2,), methods=(*FAST, "nca", "shrinkage-lda"), scale=True)
    for one in found.scores:
        same = score(dense, one.method, one.n_components, one.classifier)
        assert one.accuracy == pytest.approx(same.accuracy)
    assert {s.method for s in found.scores} == {"PCA", "SLCE", "all features"}
    for name in ("LDA", "shrinkage LDA", "NCA"):
        assert found.notes[name] == "not run: scikit-learn's needs a dense X"


@pytest.mark.parametrize("kind", ["frame", "list", "integers", "float32"])
def test_kinds_of_dense_data_give_the_same(kind):
    X, y = np.round(IRIS[0] * 10), IRIS[1]
    given = X
    if kind == "frame":
        given = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    elif kind == "list":
        given = [list(row) for row in X]
    else:
        given = X.astype("uint8" if kind == "integers" else kind)
    names = np.array(["a", "b", "c"])[y]
    found = slce_xp.compare(given, names, (2,), methods=FAST)
    assert found.scores[-1].accuracy > 0.9
    expected = slce_xp.compare(X, y, (2,), methods=FAST)
    assert [s.accuracy for s in found.scores] == [s.accuracy for s in expected.scores]


def test_nan_raises_the_error_of_a_fit():
    X, y = IRIS[0].copy(), IRIS[1]
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match="found NaN at row 7, column 2") as error:
        slce_xp.compare(X, y)
    with pytest.raises(ValueError, match="found NaN") as of_fit:
        slce_xp.fit(X, y)
    assert str(error.value) == str(of_fit.value)
    X[8, 1] = np.inf
    with pytest.raises(ValueError, match="column 1 has infinity"):
        slce_xp.compare(X, y, impute=True)


def test_small_classes_have_fewer_folds():
    X, y = IRIS
    keep = np.r_[:50, 50:53, 100:150]
    found = slce_xp.compare(X[keep], y[keep], (2,), methods=FAST)
    assert found.n_folds == 3
    assert "3-fold cross-validation, as class '1' has 3 samples" in " ".join(str(found).split())
    with pytest.raises(ValueError, match="class '1' has one") as error:
        slce_xp.compare(X[keep][2:51], y[keep][2:51])
    assert error.value.parameter == "y"


def test_a_class_of_one_sample_is_only_trained_on():
    X, y = separate(61)
    y[60] = 7
    found = slce_xp.compare(X, y, (2,), methods=FAST)
    assert found.confusion("SLCE", 2).sum() == 60
    assert "'7' with one of the samples is never held out" in " ".join(str(found).split())


def test_samples_of_a_group_are_in_one_fold():
    rng = np.random.default_rng(0)
    mouse = np.repeat(np.arange(12), 10)
    y = mouse % 2
    X = rng.normal(size=(12, 5))[mouse] + 0.1 * rng.normal(size=(120, 5))
    by_row, by_mouse = (
        slce_xp.compare(X, y, (1,), methods=("all",), groups=g) for g in (None, mouse)
    )
    assert by_row.scores[0].accuracy == 1.0
    assert by_mouse.scores[0].accuracy < 0.8
    assert "5-fold cross-validation of groups" in " ".join(str(by_mouse).split())
    taken = slce_xp.compare(X, y, (1,), methods=("all",), groups=mouse, cv=GroupKFold(4))
    assert taken.n_folds == 4
    assert taken.scores[0].accuracy < 0.8


def test_balanced_accuracy_and_confusion():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [90, 10])
    X = rng.normal(size=(100, 4)) + 0.6 * y[:, None]
    found = slce_xp.compare(X, y, (4,), methods=("all",))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(KNeighborsClassifier(5), X, y, cv=folds)
    expected = metrics.balanced_accuracy_score(y, predicted)
    assert found.scores[0].balanced_accuracy == pytest.approx(expected)
    np.testing.assert_array_equal(
        found.confusion("all features", 4), metrics.confusion_matrix(y, predicted)
    )
    assert f"Balanced over classes, all features has {100 * expected:.1f} %" in " ".join(
        str(found).split()
    )
    with pytest.raises(ValueError, match="must be one of"):
        found.confusion("PCA", 4)


def test_arrays_elsewhere_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"NumPy array.*got Tensor"):
        slce_xp.compare(torch.tensor(IRIS[0]), IRIS[1])


# ---------------------------------------------------------------- limits


def test_methods_say_why_they_have_fewer_components():
    X, y = separate(n_classes=2)
    found = slce_xp.compare(X, y, (2, 3), methods=("lda", "separation", "slce"))
    assert [s.n_components for s in found.scores[::2]] == [1, 1, 2, 3]
    why = "at most 1 component: number of classes − 1"
    assert found.notes == {"LDA": why, "SLCE separation": why}
    few = slce_xp.compare(*IRIS, (2, 9), methods=("pca", "nca"))
    assert few.notes["PCA"] == "at most 4 components: the number of features"
    assert {s.n_components for s in few.scores} == {2, 4}


def test_wide_tables_skip_what_would_take_hours_unless_it_is_named(monkeypatch):
    called = []

    def costly(X, y, n_components, seed):
        called.append(n_components)
        raise np.linalg.LinAlgError("tried")

    costly_lda = _methods.METHODS["shrinkage-lda"]._replace(fit=costly)
    monkeypatch.setitem(_methods.METHODS, "shrinkage-lda", costly_lda)
    X, y = np.random.default_rng(0).normal(size=(12, 2_000)), np.arange(12) % 3
    found = slce_xp.compare(X, y, (2,), cv=2)
    note = "not run: a fit takes about 8e+10 operations"
    assert found.notes == {"shrinkage LDA": note}
    assert note in str(found)
    assert not called
    found = slce_xp.compare(X, y, (2,), cv=2, methods="shrinkage-lda")
    assert found.notes == {"shrinkage LDA": "failed: tried"}


def test_failure_of_a_method_is_its_own(monkeypatch):
    def failing(X, y, n_components, seed):
        raise np.linalg.LinAlgError("singular\nmatrix")

    broken = _methods.METHODS["shrinkage-lda"]._replace(fit=failing)
    monkeypatch.setitem(_methods.METHODS, "shrinkage-lda", broken)
    found = slce_xp.compare(*IRIS, (2,), methods=("pca", "shrinkage-lda"))
    assert found.notes == {"shrinkage LDA": "failed: singular matrix"}
    assert {s.method for s in found.scores} == {"PCA"}
    for ask in (found.best, found.winner):
        with pytest.raises(ValueError, match="classifier must be '5-NN' or"):
            ask("10-NN")
    # scikit-learn's LDA fails on squares that underflow
    tiny = slce_xp.compare(1e-200 * IRIS[0], IRIS[1], (2,), methods=("pca", "lda"))
    assert tiny.notes["LDA"].startswith("failed: ")


# ---------------------------------------------------------------- folds


def test_folds_of_scikit_learn_are_taken():
    X, y = IRIS
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    found = slce_xp.compare(X, y, (2,), methods=("pca",), cv=folds)
    assert found.n_folds == 6
    pipeline = make_pipeline(PCA(2), KNeighborsClassifier(5))
    shares = [pipeline.fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds.split(X, y)]
    assert score(found, "PCA", 2).accuracy == pytest.approx(np.mean(shares))
    groups = list(GroupKFold(5).split(X, y, np.arange(150) // 3))
    assert slce_xp.compare(X, y, (2,), methods=("pca",), cv=groups).n_folds == 5
    with pytest.raises(ValueError, match="two classes to train on") as error:
        slce_xp.compare(X, y, cv=[(np.arange(50), np.arange(50, 150))])
    assert error.value.parameter == "cv"


def test_folds_may_be_masks():
    X, y = IRIS
    test = np.arange(150) % 3 == 0
    masks = slce_xp.compare(X, y, (2,), methods=("pca",), cv=[(~test, test)])
    positions = [(np.flatnonzero(~test), np.flatnonzero(test))]
    found = slce_xp.compare(X, y, (2,), methods=("pca",), cv=positions)
    assert [s[:8] for s in masks.scores] == [s[:8] for s in found.scores]


@pytest.mark.parametrize(
    "cv",
    [
        [],
        [(np.arange(150), np.arange(5))],  # tested on what was trained on
        [(np.arange(150), np.arange(150, 160))],
        [(np.arange(100.0), np.arange(100.0, 150.0))],
    ],
)
def test_wrong_folds_are_errors_of_cv(cv):
    with pytest.raises((ValueError, IndexError)) as error:
        slce_xp.compare(*IRIS, (2,), methods=("pca",), cv=cv)
    assert error.value.parameter == "cv"


@pytest.mark.parametrize("change", [lambda X: X + 1e8, lambda X: 1e200 * X, lambda X: 1e-200 * X])
def test_accuracies_depend_neither_on_the_origin_nor_on_the_unit(change):
    X, y = np.random.default_rng(0).normal(size=(60, 20)), np.arange(60) % 3
    X[:, :3] += 3 * np.eye(3)[y]
    methods = ("slce", "all")
    expected = slce_xp.compare(X, y, (2,), methods=methods)
    found = slce_xp.compare(change(X), y, (2,), methods=methods)
    accuracies = [s.accuracy for s in found.scores]
    assert accuracies == pytest.approx([s.accuracy for s in expected.scores], abs=0.02)


@pytest.mark.parametrize(
    ("parameter", "value", "error"),
    [
        ("components", (0, 2), ValueError),
        ("components", (), ValueError),
        ("components", (2.5,), TypeError),
        ("components", None, TypeError),
        ("methods", ("pca", "umap"), ValueError),
        ("methods", (), ValueError),
        ("methods", 5, TypeError),
        ("methods", [["pca"]], ValueError),
        ("cv", 1, ValueError),
        ("cv", "five", TypeError),
        ("random_state", -1, ValueError),
        ("scale", "no", TypeError),
        ("impute", 1, TypeError),
    ],
)
def test_errors_name_the_parameter(parameter, value, error):
    with pytest.raises(error, match=f"^{parameter} must be") as found:
        slce_xp.compare(*IRIS, **{parameter: value})
    assert found.value.parameter == parameter


# ---------------------------------------------------------------- the table, the bar, the plot


@pytest.mark.parametrize("n", [12, 150])
def test_table_has_80_columns(n):
    X, y = separate(n, 5000 if n == 12 else 20, 3)
    rng = np.random.default_rng(1)
    lines = str(slce_xp.compare(X, rng.permutation(y), (1, 2, 3, 4), cv=3)).splitlines()
    assert max(map(len, lines)) <= 80
    header = next(line for line in lines if line.startswith("method"))
    assert len(header) == 80
    rows = [line for line in lines if re.search(r" ± .* ± ", line)]
    assert len(rows) >= 10
    assert {len(row) for row in rows} == {80}


def test_table_is_frozen_and_deterministic():
    found, again = (slce_xp.compare(*IRIS, (2,), methods=FAST) for _ in range(2))
    assert [s[:-1] for s in found.scores] == [s[:-1] for s in again.scores]
    with pytest.raises(AttributeError):
        found.scores = ()


def test_bar_counts_methods_and_folds(monkeypatch):
    auto = pytest.importorskip("tqdm.auto")
    bars = []

    class Counted(auto.tqdm):
        def __init__(self, **options):
            super().__init__(**options, disable=False, file=io.StringIO())
            bars.append(self)

    monkeypatch.setattr(auto, "tqdm", Counted)
    slce_xp.compare(*IRIS, (2,), methods=("pca", "slce"), progress=True)
    (bar,) = bars
    assert (bar.n, bar.total) == (10, 10)
    slce_xp.compare(*IRIS, (2,), methods=("pca",))
    assert len(bars) == 1


def test_plot_has_a_point_for_each_score():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    from slce_xp import plot

    found = slce_xp.compare(*WINE, (2, 3), methods=FAST, scale=True)
    axes = plot.comparison(found)
    for ax, classifier in zip(axes, ("5-NN", "nearest centroid"), strict=True):
        drawn = sorted(container.lines[0].get_xdata()[0] for container in ax.containers)
        shares = [100 * s.accuracy for s in found.scores if s.classifier == classifier]
        np.testing.assert_allclose(drawn, sorted(shares))
    names = [text.get_text() for text in axes[0].get_yticklabels()]
    assert names == ["PCA", "LDA", "SLCE", "all features"]
    pyplot.close("all")
    with pytest.raises(TypeError, match="found must be a Comparison"):
        plot.comparison(3)
