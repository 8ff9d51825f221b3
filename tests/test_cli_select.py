"""``slce-xp select`` and the plot of a path: against the selector and scikit-learn."""

import re

import numpy as np
import pytest
from command import here, refused, works

import slce_xp
from slce_xp._comparison.selectors import compare_selections
from slce_xp._folds import make_folds

pytest.importorskip("pandas")
pytest.importorskip("sklearn")
import pandas
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


@pytest.fixture(scope="module")
def genes():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 20)
    X = rng.normal(size=(60, 40))
    X[y == "a", :4] += 2.5
    X[y == "b", 4:6] += 2
    X[y == "c", 6:8] += 2
    frame = pandas.DataFrame(X, columns=[f"gene{i}" for i in range(40)])
    frame["kind"] = y
    return frame


@pytest.fixture
def folder(tmp_path, genes):
    genes.to_csv(tmp_path / "genes.csv", index=False)
    return tmp_path


def test_table_has_the_frequencies_coefficients_and_anova_ranks(folder, genes):
    pytest.importorskip("matplotlib")
    text = works(
        folder, "select", "genes.csv", "--label", "kind", "--top", "6", "--resamples", "8",
        "--folds", "0", "--output", "chosen.csv", "--plot", "path.png", run=here,
    )  # fmt: skip
    X, y = genes.iloc[:, :40].to_numpy(), genes.kind.to_numpy(dtype=str)
    selector = slce_xp.SLCESelector(6, n_resamples=8).fit(X, y)
    frame = pandas.read_csv(folder / "chosen.csv")
    assert list(frame) == ["rank", "feature", "frequency", "coefficient", "anova_rank"]
    assert list(frame["rank"]) == [1, 2, 3, 4, 5, 6]
    chosen = np.array([int(name.removeprefix("gene")) for name in frame.feature])
    assert set(chosen) == set(selector.get_support(indices=True))
    np.testing.assert_allclose(frame.frequency, selector.frequencies_[chosen])
    assert (np.diff(frame.frequency) <= 0).all()
    path = selector.path_
    sizes = dict(zip(path.entered, path.norms[-1], strict=True))
    np.testing.assert_allclose(frame.coefficient, [sizes.get(j, 0.0) for j in chosen])
    values = f_classif(X, y)[0]
    np.testing.assert_array_equal(frame.anova_rank, [(values >= values[j]).sum() for j in chosen])
    assert f"stability    {selector.stability_:.2f}" in text
    assert max(map(len, text.splitlines())) <= 80
    assert (folder / "path.png").read_bytes().startswith(b"\x89PNG")


def test_accuracies_are_those_of_pipelines_with_the_selection_inside(genes):
    X, y = genes.iloc[:, :40].to_numpy(), np.repeat([0, 1, 2], 20)
    splits = make_folds(y, 4, 0, np.unique(y)).splits()
    found = compare_selections(X, y, splits, (3, 10), scale=True)
    assert found.methods == ("SLCE selection", "ANOVA", "all features")
    for method, make in (
        ("SLCE selection", slce_xp.SLCESelector),
        ("ANOVA", lambda k: SelectKBest(f_classif, k=k)),
    ):
        for k in (3, 10):
            steps = StandardScaler(), make(k), KNeighborsClassifier(5)
            right = cross_val_predict(make_pipeline(*steps), X, y, cv=splits) == y
            (score,) = (
                s for s in found.scores
                if (s.method, s.n_components, s.classifier) == (method, k, "5-NN")
            )  # fmt: skip
            assert score.accuracy == pytest.approx(right.mean())
    assert "k: features" in str(found)


def test_command_prints_accuracies_beside_anova(folder):
    text = works(folder, "select", "genes.csv", "--label", "kind", "--resamples", "0",
                 "--top", "5", "--folds", "3", run=here)  # fmt: skip
    assert "stability" not in text
    assert re.search(r"^ *rank +feature +coefficient +anova_rank$", text, re.MULTILINE)
    for method in ("SLCE selection", "ANOVA", "all features"):
        assert re.search(rf"^{method} +\d+  \d", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80


def test_few_samples_cannot_select_many_features(genes):
    X, y = genes.iloc[::5, :40].to_numpy(), np.repeat([0, 1], [8, 4])
    found = compare_selections(X, y, make_folds(y, 2, 0, np.unique(y)).splits(), (3, 25))
    assert {s.n_components for s in found.scores if s.method == "SLCE selection"} == {3, 5}
    assert found.notes["SLCE selection"].startswith("at most 5 features: as many as a lasso")


def test_table_says_if_fewer_features_are_selected_than_its_row_claims(genes):
    X, y = genes.iloc[:, :40].to_numpy(), np.repeat([0, 1, 2], 20)
    X = np.concatenate([X[:, :4], np.ones((60, 4))], axis=1)  # constants are never selected
    found = compare_selections(X, y, make_folds(y, 2, 0, np.unique(y)).splits(), (2, 8))
    assert found.notes["SLCE selection"] == "in some folds there are only 4 features"


def test_errors_name_the_option(folder):
    call = ("select", "genes.csv", "--label", "kind")
    assert "--output x.json must end in" in refused(folder, *call, "--output", "x.json", run=here)
    assert "--plot x.html must end in" in refused(folder, *call, "--plot", "x.html", run=here)
    assert here(folder, *call, "--top", "0").returncode == 2


def test_plot_draws_each_feature_and_names_the_largest(genes):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    from slce_xp import plot

    X, y = genes.iloc[:, :40], genes.kind
    path = slce_xp.feature_path(X, y, n_features=12)
    ax = plot.feature_path(path, top=4)
    assert len(ax.lines) == len(path.entered)
    largest = path.entered[np.argsort(-path.norms[-1])[:4]]
    assert [text.get_text() for text in ax.texts] == [f"gene{j}" for j in largest]
    ends = sorted(line.get_ydata()[-1] for line in ax.lines)
    np.testing.assert_allclose(ends, sorted(path.norms[-1]))
    ax.figure.draw_without_rendering()
    leaders = [text.xy for text in ax.texts]  # from the ends of the lines
    tops = np.array([[1.0, norm] for norm in np.sort(path.norms[-1])[::-1][:4]])
    wanted = (ax.transData + ax.transAxes.inverted()).transform(tops)[:, 1]
    np.testing.assert_allclose(leaders, np.stack([np.ones(4), wanted], axis=1))
    assert ax.get_xlim()[0] > ax.get_xlim()[1]  # the penalty falls
    places = [text.get_position()[1] for text in ax.texts]
    assert (np.diff(places) < -0.04).all()
    pyplot.close("all")
    with pytest.raises(ValueError, match="names must name each feature, 40 in all; got 2"):
        plot.feature_path(path, ["a", "b"])
    with pytest.raises(TypeError, match="path must be a FeaturePath"):
        plot.feature_path(3)


# ---------------------------------------------------------------- AnnData


@pytest.fixture
def cells(genes):
    anndata = pytest.importorskip("anndata")
    names = [f"cell{i}" for i in range(60)]
    obs = pandas.DataFrame({"cell_type": pandas.Categorical(genes.kind)}, index=names)
    var = pandas.DataFrame(index=[f"gene{i}" for i in range(40)])
    return anndata.AnnData(genes.iloc[:, :40].to_numpy(), obs=obs, var=var)


def test_anndata_marks_the_selected_genes(cells, genes):
    import slce_xp.anndata

    X, y = genes.iloc[:, :40].to_numpy(), genes.kind.to_numpy(dtype=str)
    before = cells.X.copy()
    slce_xp.anndata.select(cells, n_features=5)
    path = slce_xp.feature_path(X, y, n_features=5)
    np.testing.assert_array_equal(np.flatnonzero(cells.var["slce_selected"]), path.select(5))
    sizes = np.zeros(40)
    sizes[path.entered] = path.norms[-1]
    np.testing.assert_allclose(cells.var["slce_coefficient"], sizes)
    np.testing.assert_allclose(cells.uns["slce_selection"]["lambdas"], path.lambdas)
    assert cells.uns["slce_selection"]["params"]["n_features"] == 5
    np.testing.assert_array_equal(cells.X, before)


def test_anndata_selects_from_variable_genes_with_frequencies(cells, tmp_path):
    import slce_xp.anndata

    cells.var["highly_variable"] = np.arange(40) % 2 == 0
    out = slce_xp.anndata.select(cells, n_features=4, n_resamples=5, key_added="mine", copy=True)
    assert "mine_selected" not in cells.var
    assert not out.var["mine_selected"][1::2].any()
    assert out.var["mine_selected"].sum() == 4
    selector = slce_xp.SLCESelector(4, n_resamples=5).fit(cells.X[:, ::2], cells.obs["cell_type"])
    np.testing.assert_allclose(out.var["mine_frequency"][::2], selector.frequencies_)
    assert out.uns["mine_selection"]["stability"] == pytest.approx(selector.stability_)
    out.write_h5ad(tmp_path / "out.h5ad")


def test_anndata_resamples_cells_that_have_a_label_and_a_weight(cells):
    import slce_xp.anndata

    known, weights = np.arange(60) % 4 > 0, 1.0 + np.arange(60) % 3
    selector = slce_xp.SLCESelector(4, n_resamples=5)
    selector.fit(cells.X[known], cells.obs["cell_type"][known], sample_weight=weights[known])
    cells.obs["cell_type"] = cells.obs["cell_type"].where(known)
    slce_xp.anndata.select(
        cells, n_features=4, n_resamples=5, unlabeled="missing", sample_weight=weights
    )
    np.testing.assert_allclose(cells.var["slce_frequency"], selector.frequencies_)
    for wrong in ({"lambdas": [0.1]}, {"n_features": 0.5}):
        with pytest.raises((ValueError, TypeError), match=f"{next(iter(wrong))} must be"):
            slce_xp.anndata.select(cells, n_resamples=5, unlabeled="missing", **wrong)


@pytest.mark.parametrize("marks", [["True", "False"], [True, None]])
def test_anndata_refuses_marks_of_genes_that_are_not_booleans(cells, marks):
    """Both would be True as booleans, and all genes used."""
    import slce_xp.anndata

    cells.var["highly_variable"] = pandas.Series(marks * 20, dtype=object).to_numpy()
    with pytest.raises(ValueError, match="must be True or False for each of the"):
        slce_xp.anndata.select(cells, n_features=4)


# ---------------------------------------------------------------- the benchmark


def test_benchmark_writes_a_row_for_each_method(tmp_path, genes, capsys):
    from benchmarks import selection

    X, y = genes.iloc[:, :40].to_numpy(), genes.kind.to_numpy(dtype=str)
    np.savez(tmp_path / "genes.npz", X=X, y=y)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- selection: by it -->\n<!-- /selection -->\nafter\n")
    call = ["--data", str(tmp_path), "--repetitions", "2", "--output", str(tmp_path)]
    text = selection.main([*call, "--write", str(page)])
    assert text in page.read_text()
    assert selection.main([*call, "--redraw"]) == text
    for method in ("SLCE", "ANOVA", "L1 logistic", "MultiTaskLasso", "all features"):
        assert re.search(rf"^\| genes \| {method} \| \d+\.\d ± ", text, re.MULTILINE)
    # The same problem, solved twice.
    spread = X / X.std(axis=0)
    for k, chosen in selection.multi_task_lasso(spread, y, (3, 6)).items():
        assert set(chosen) == set(selection.slce(spread, y, (3, 6))[k])
