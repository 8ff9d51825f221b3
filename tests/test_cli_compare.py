"""``slce-xp compare``: the table that `slce_xp.compare` prints, files, and errors."""

import numpy as np
import pytest
import scipy.sparse
from command import here, refused, works

import slce_xp

pandas = pytest.importorskip("pandas")
datasets = pytest.importorskip("sklearn.datasets")
FAST = ("--methods", "pca,lda,slce,all")


@pytest.fixture(scope="module")
def iris():
    frame = datasets.load_iris(as_frame=True).frame
    frame["kind"] = np.array(["setosa", "versicolor", "virginica"])[frame.pop("target")]
    return frame


@pytest.fixture
def folder(tmp_path, iris):
    iris.to_csv(tmp_path / "iris.csv", index=False)
    return tmp_path


def without_times(text):
    return [line[:71] for line in text.splitlines()]


def test_command_prints_the_comparison_and_writes_it(folder, iris):
    pytest.importorskip("matplotlib")
    text = works(
        folder, "compare", "iris.csv", "--label", "kind", "--components", "1,2", *FAST, "--folds",
        "4", "--scale", "--plot", "iris.png", "-o", "iris_compared.csv", run=here,
    )  # fmt: skip
    X, y = iris.iloc[:, :4].to_numpy(), iris.kind.to_numpy(dtype=str)
    found = slce_xp.compare(X, y, (1, 2), methods=("pca", "lda", "slce", "all"), cv=4, scale=True)
    table, written = text.split("wrote", 1)
    assert without_times(table) == without_times(str(found))
    assert written == " iris_compared.csv\nwrote iris.png\n"
    assert (folder / "iris.png").read_bytes().startswith(b"\x89PNG")
    frame = pandas.read_csv(folder / "iris_compared.csv")
    assert list(frame) == [*slce_xp.Score._fields, "note"]
    assert list(frame.method) == [score.method for score in found.scores]
    np.testing.assert_allclose(frame.accuracy, [score.accuracy for score in found.scores])
    np.testing.assert_allclose(frame.difference_error, [s.difference_error for s in found.scores])


def test_methods_that_cannot_run_are_in_the_table_and_in_the_file(folder):
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((40, 30), density=0.3, rng=rng, format="csr")
    anndata = pytest.importorskip("anndata")
    names = [f"cell{i}" for i in range(40)]
    kinds = pandas.Categorical(["a", "b"] * 20)
    cells = anndata.AnnData(X, obs=pandas.DataFrame({"kind": kinds}, index=names))
    cells.write_h5ad(folder / "cells.h5ad")
    text = works(folder, "compare", "cells.h5ad", "--label", "kind", "--components", "2", *FAST,
                 "-o", "out.tsv", run=here)  # fmt: skip
    assert "LDA               not run: scikit-learn's needs a dense X\n" in text
    frame = pandas.read_csv(folder / "out.tsv", sep="\t")
    (lda,) = frame[frame.method == "LDA"].itertuples()
    assert np.isnan(lda.accuracy)
    assert lda.note == "not run: scikit-learn's needs a dense X"


def test_missing_values_are_filled_in_the_folds(folder, iris):
    frame = iris.copy()
    frame.iloc[::7, 1] = np.nan
    frame.to_csv(folder / "gaps.csv", index=False)
    call = ("compare", "gaps.csv", "--label", "kind", "--components", "2", *FAST)
    message = refused(folder, *call, run=here)
    assert "Try: slce-xp compare gaps.csv" in message
    assert message.endswith("--missing mean\n")
    text = works(folder, *call, "--missing", "mean", run=here)
    X, y = frame.iloc[:, :4].to_numpy(), frame.kind.to_numpy(dtype=str)
    found = slce_xp.compare(X, y, (2,), methods=("pca", "lda", "slce", "all"), impute=True)
    assert without_times(text) == without_times(str(found))


def test_samples_without_a_label_are_dropped(folder, iris):
    frame = iris.copy()
    frame.loc[[3, 60], "kind"] = None
    frame.to_csv(folder / "some.csv", index=False)
    call = ("compare", "some.csv", "--label", "kind", *FAST)
    done = here(folder, *call)
    assert "2 of 150 rows have no label in 'kind' and are left out\n" in done.stderr
    assert "on 148 samples" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--methods", "pca,umap"), "--methods must be some of 'pca'.*got 'umap'"),
        (("--output", "out.json"), "--output out.json must end in .csv"),
        (("--plot", "out.html"), "--plot out.html must end in .png"),
    ],
)
def test_errors_name_the_option(folder, options, message):
    import re

    assert re.search(message, refused(folder, "compare", "iris.csv", "--label", "kind", *options,
                                      run=here))  # fmt: skip


@pytest.mark.parametrize("options", [("--components", "0"), ("--folds", "1"), ("--backend", "x")])
def test_wrong_calls_exit_with_2(folder, options):
    done = here(folder, "compare", "iris.csv", "--label", "kind", *options)
    assert done.returncode == 2
