"""AnnData: the results in memory and in files."""

import tracemalloc

import numpy as np
import oracle
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import make_backend

import slce_xp
from slce_xp._data import file_rows, row_reader
from slce_xp._planning import problem as _memory
from slce_xp.anndata import predict, slce, transform

ad = pytest.importorskip("anndata")

N, D = 90, 12
X, CODES = oracle.blobs(N, D, 3, seed=91)
NAMES = np.array(["B", "NK", "T"])[CODES]
COUNTS = np.round(np.abs(3 * X)) * (np.abs(X) > 0.3)


def cells(matrix=X, labels=NAMES, **obs):
    adata = ad.AnnData(
        matrix,
        obs=pd.DataFrame(index=[f"cell{i}" for i in range(N)]),
        var=pd.DataFrame(index=[f"gene{i}" for i in range(D)]),
    )
    adata.obs["cell_type"] = pd.Categorical(labels)
    for name, values in obs.items():
        adata.obs[name] = values
    return adata


def test_results_are_written_into_adata():
    adata = cells()
    assert slce(adata) is None
    model = slce_xp.fit(X, NAMES)
    np.testing.assert_array_equal(adata.obsm["X_slce"], model.transform(X))
    np.testing.assert_array_equal(adata.varm["SLCEs"], model.components.T)
    facts = adata.uns["slce"]
    np.testing.assert_array_equal(facts["eigenvalues"], model.eigenvalues)
    np.testing.assert_array_equal(facts["classes"], ["B", "NK", "T"])
    np.testing.assert_array_equal(facts["counts"], np.bincount(CODES))
    assert (facts["n_positive"], facts["loss"]) == (model.n_positive, model.loss)
    assert facts["total_loss"] == model.total_loss
    assert facts["params"] == {"labels": "cell_type"}
    np.testing.assert_array_equal(adata.X, X)


def test_copy_leaves_the_original_alone():
    adata = cells()
    other = slce(adata, copy=True)
    assert "X_slce" in other.obsm
    assert not adata.obsm.keys()
    assert not adata.varm.keys()
    assert not adata.uns.keys()


def test_another_key():
    adata = cells(batch=np.arange(N) % 2)
    slce(adata)
    slce(adata, "batch", key_added="by_batch")
    assert adata.obsm["X_slce"].shape == (N, 2)
    assert adata.obsm["by_batch"].shape == (N, 2)  # two labels: a plane to plot
    assert adata.varm["by_batch"].shape == (D, 2)
    np.testing.assert_array_equal(adata.uns["by_batch"]["classes"], [0, 1])


def test_number_of_components_and_other_options():
    adata = cells()
    slce(adata, n_comps=1, solver="gram", class_weight="balanced")
    model = slce_xp.fit(X, NAMES, 1, solver="gram", class_weight="balanced")
    np.testing.assert_array_equal(adata.obsm["X_slce"], model.transform(X))
    assert adata.uns["slce"]["params"] == {
        "labels": "cell_type",
        "n_comps": 1,
        "solver": "gram",
        "class_weight": "balanced",
    }


def test_layer():
    adata = cells()
    adata.layers["scaled"] = 2 * X
    slce(adata, layer="scaled")
    expected = slce_xp.fit(2 * X, NAMES).transform(2 * X)
    np.testing.assert_array_equal(adata.obsm["X_slce"], expected)
    assert adata.uns["slce"]["params"]["layer"] == "scaled"


@pytest.mark.parametrize("given", ["default", "name", "mask"])
def test_some_genes_only(given):
    adata = cells()
    chosen = np.arange(D) % 3 != 1
    adata.var["highly_variable" if given == "default" else "chosen"] = chosen
    slce(
        adata,
        **{"default": {}, "name": {"mask_var": "chosen"}, "mask": {"mask_var": chosen}}[given],
    )
    model = slce_xp.fit(X[:, chosen], NAMES)
    np.testing.assert_allclose(adata.obsm["X_slce"], model.transform(X[:, chosen]), atol=1e-12)
    np.testing.assert_allclose(adata.varm["SLCEs"][chosen], model.components.T, atol=1e-12)
    assert not adata.varm["SLCEs"][~chosen].any()
    names = {"default": "highly_variable", "name": "chosen", "mask": None}
    assert adata.uns["slce"]["params"].get("mask_var") == names[given]


def test_all_genes_on_request():
    adata = cells()
    adata.var["highly_variable"] = np.arange(D) < 3
    slce(adata, mask_var=None)
    np.testing.assert_array_equal(adata.obsm["X_slce"], slce_xp.fit(X, NAMES).transform(X))


@pytest.mark.parametrize("layer", [None, "counts"])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.csr_array])
def test_sparse_counts_stay_sparse(monkeypatch, kind, layer):
    adata = cells(kind(COUNTS))
    adata.layers["counts"] = kind(COUNTS)
    with monkeypatch.context() as closed:
        closed.setattr(kind, "toarray", lambda *_: pytest.fail("made dense"))
        slce(adata, layer=layer, solver="krylov")
    assert sp.issparse(adata.X)
    assert type(adata.obsm["X_slce"]) is np.ndarray
    assert type(adata.varm["SLCEs"]) is np.ndarray
    expected = slce_xp.fit(COUNTS, NAMES).transform(COUNTS)
    np.testing.assert_allclose(adata.obsm["X_slce"], expected, atol=1e-8)


def test_float32_stays_float32():
    adata = cells(X.astype(np.float32))
    slce(adata)
    assert adata.obsm["X_slce"].dtype == adata.varm["SLCEs"].dtype == np.float32


def test_view_is_copied_with_a_warning():
    some = np.arange(N) % 2 == 0
    view = cells()[some]
    with pytest.warns(ad.ImplicitModificationWarning):
        slce(view)
    expected = slce_xp.fit(X[some], NAMES[some]).transform(X[some])
    np.testing.assert_allclose(view.obsm["X_slce"], expected, atol=1e-12)


@pytest.mark.parametrize(
    "labels",
    [NAMES, NAMES.astype(object), CODES, CODES > 0, pd.Categorical(NAMES, ordered=True)],
    ids=["strings", "objects", "integers", "booleans", "ordered"],
)
def test_kinds_of_labels(labels, tmp_path):
    adata = cells(kind=labels)
    slce(adata, "kind")
    expected = slce_xp.fit(X, labels)
    embedding = adata.obsm["X_slce"][:, : expected.n_components]
    np.testing.assert_allclose(embedding, expected.transform(X), atol=1e-12)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    stored = ad.read_h5ad(tmp_path / "cells.h5ad").uns["slce"]["classes"]
    np.testing.assert_array_equal(stored, expected.classes)


def test_empty_categories_are_not_classes():
    adata = cells(labels=pd.Categorical(NAMES, categories=["B", "NK", "T", "platelet"]))
    slce(adata)
    np.testing.assert_array_equal(adata.uns["slce"]["classes"], ["B", "NK", "T"])


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("options", [{}, {"n_comps": "positive", "solver": "scatter"}])
def test_all_results_survive_a_file(tmp_path, options):
    adata = cells()
    slce(adata, **options)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    opened = ad.read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(opened.obsm["X_slce"], adata.obsm["X_slce"])
    np.testing.assert_array_equal(opened.varm["SLCEs"], adata.varm["SLCEs"])
    before, after = adata.uns["slce"], opened.uns["slce"]
    assert after.keys() == before.keys()
    assert dict(after["params"]) == before["params"]
    for name in before.keys() - {"params", "model"}:
        np.testing.assert_array_equal(after[name], before[name])
    transform(cells(), opened)  # by the model in the file


def test_options_that_cannot_be_stored_are_omitted(tmp_path):
    adata = cells()
    weights = np.linspace(1.0, 2.0, N)
    slce(adata, sample_weight=weights, class_weight={"B": 2.0}, max_memory=None)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    assert adata.uns["slce"]["params"].keys() == {"labels"}
    expected = slce_xp.fit(X, NAMES, sample_weight=weights, class_weight={"B": 2.0})
    np.testing.assert_array_equal(adata.obsm["X_slce"], expected.transform(X))


# ---------------------------------------------------------------- missing labels


def partly_labelled():
    labels = NAMES.astype(object)
    labels[::4] = None
    return cells(labels=labels), labels


def test_missing_labels_raise_and_are_named():
    adata, _ = partly_labelled()
    message = r"adata\.obs\['cell_type'\] must have .*; 23 of 90 .*unlabeled='missing'.*notna"
    with pytest.raises(ValueError, match=message):
        slce(adata)
    assert not adata.obsm.keys()


def test_missing_labels_are_used_on_request(tmp_path):
    adata, labels = partly_labelled()
    slce(adata, unlabeled="missing", unlabeled_weight=0.5)
    model = slce_xp.fit(X, labels, unlabeled="missing", unlabeled_weight=0.5)
    np.testing.assert_allclose(adata.obsm["X_slce"], model.transform(X), atol=1e-12)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    params = ad.read_h5ad(tmp_path / "cells.h5ad").uns["slce"]["params"]
    assert params["unlabeled"] == "missing"
    assert params["unlabeled_weight"] == 0.5


# ---------------------------------------------------------------- errors


def test_errors_list_the_valid_names():
    adata = cells(batch=1)
    adata.layers["counts"] = X
    with pytest.raises(KeyError, match=r"labels must .*'cell_type', 'batch'.*got 'celltype'"):
        slce(adata, "celltype")
    with pytest.raises(KeyError, match=r"layer must .*'counts'.*got 'raw'.*None for adata\.X"):
        slce(adata, layer="raw")
    with pytest.raises(KeyError, match=r"obsm must .*adata\.obsm \(none\); got 'X_pca'"):
        slce(adata, obsm="X_pca")
    with pytest.raises(KeyError, match=r"mask_var must name one of adata\.var \(none\)"):
        slce(adata, mask_var="chosen")
    with pytest.raises(ValueError, match=r"True or False for each of the 12 genes.* has 3 values"):
        slce(adata, mask_var=np.ones(3, dtype=bool))
    adata.var["highly_variable"] = False
    with pytest.raises(
        ValueError, match=r"True for at least one; highly_variable has.*None to use all"
    ):
        slce(adata)
    with pytest.raises(TypeError, match=r"adata must be an AnnData; got ndarray.*fit\(X, y\)"):
        slce(X)
    with pytest.raises(ValueError, match=r"adata\.X must hold a matrix; got None"):
        slce(ad.AnnData(obs=adata.obs))


# ---------------------------------------------------------------- backed by a file


@pytest.fixture
def backed(tmp_path, monkeypatch):
    """Write an annotated matrix, open it without reading X, and forbid that."""
    opened = []

    def open_backed(adata, mode="r"):
        path = tmp_path / "backed.h5ad"
        adata.write_h5ad(path)
        opened.append(ad.read_h5ad(path, backed=mode))
        return opened[-1]

    monkeypatch.setattr(_memory, "READ_BLOCK", 20 * 8 * D)
    monkeypatch.setattr(file_rows, "READ_BLOCK", 20 * 8 * D)
    yield open_backed
    for adata in opened:
        adata.file.close()


@pytest.fixture
def longest(monkeypatch):
    """The most rows that were read at a time."""
    counts = [0]
    read = row_reader.RowReader.read

    def spy(reader, block, *buffer):
        counts.append(block.stop - block.start)
        return read(reader, block, *buffer)

    monkeypatch.setattr(row_reader.RowReader, "read", spy)
    return lambda: max(counts)


@pytest.mark.parametrize("chosen", [None, np.arange(D) % 3 != 1], ids=["all genes", "some genes"])
@pytest.mark.parametrize(
    "kind",
    [np.asarray, sp.csr_matrix, sp.csr_array, lambda x: x.astype(np.float32)],
    ids=["dense", "csr matrix", "csr array", "float32"],
)
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_file_is_read_in_blocks(backed, longest, kind, chosen, mode):
    adata = cells(kind(COUNTS))
    if chosen is not None:
        adata.var["highly_variable"] = chosen
    there = backed(adata, mode)
    assert slce(there, solver="krylov") is None
    assert 0 < longest() < N
    assert there.isbacked
    slce(adata, solver="krylov")
    tolerance = 1e-3 if adata.X.dtype == np.float32 else 1e-8
    for name in ("obsm", "varm"):
        one, two = getattr(there, name), getattr(adata, name)
        assert one.keys() == two.keys()
        for key in two:
            assert type(one[key]) is np.ndarray
            assert one[key].dtype == two[key].dtype
            np.testing.assert_allclose(one[key], two[key], atol=tolerance)
    facts, others = there.uns["slce"], adata.uns["slce"]
    assert facts["params"] == others["params"]
    np.testing.assert_allclose(facts["eigenvalues"], others["eigenvalues"], rtol=tolerance)
    matrix = there.X[:]
    matrix = matrix.toarray() if sp.issparse(matrix) else matrix
    np.testing.assert_array_equal(matrix, COUNTS.astype(adata.X.dtype))


def test_excluded_genes_take_no_memory(backed, monkeypatch):
    rng = np.random.default_rng(92)
    n, d = 3000, 400
    adata = ad.AnnData(rng.standard_normal((n, d)))
    adata.obs["cell_type"] = np.array(["B", "T"])[np.arange(n) % 2]
    adata.X[::2, 0] += 9.0
    adata.var["highly_variable"] = np.arange(d) % 20 == 0
    there = backed(adata)
    monkeypatch.setattr(_memory, "READ_BLOCK", 160_000)  # of 1000 cells
    monkeypatch.setattr(file_rows, "READ_BLOCK", 160_000)
    slce(there)  # imports are not counted
    tracemalloc.start()
    try:
        slce(there)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000  # all genes of a block would take 3.2 MB
    slce(adata)
    np.testing.assert_allclose(there.obsm["X_slce"], adata.obsm["X_slce"], atol=1e-9)


@pytest.mark.parametrize("layer", ["dense", "csc"])
def test_layer_of_backed_adata_is_read_into_memory(backed, layer):
    adata = cells(sp.csc_matrix(COUNTS))  # not used
    adata.layers["dense"], adata.layers["csc"] = X, sp.csc_matrix(X)
    there = backed(adata)
    slce(there, layer=layer)
    expected = slce_xp.fit(X, NAMES).transform(X)
    np.testing.assert_allclose(there.obsm["X_slce"], expected, atol=1e-8)


def test_named_backend_streams_backed_adata(backed, longest):
    with make_backend("torch"):
        there = backed(cells())
        slce(there, backend="torch")
        assert 0 < longest() < N / 2
        assert type(there.obsm["X_slce"]) is np.ndarray
        expected = slce_xp.fit(X, NAMES).transform(X)
        np.testing.assert_allclose(there.obsm["X_slce"], expected, atol=1e-9)


def test_views_and_copies_of_backed_adata_raise(backed):
    there = backed(cells())
    with pytest.raises(ValueError, match=r"copy must be False .*backed by a file.*got True"):
        slce(there, copy=True)
    with pytest.raises(ValueError, match=r"a view of one that is backed.*adata\.to_memory\(\)"):
        slce(there[::2])
    slce(there[::2].to_memory())
    assert not there.obsm.keys()


def test_csc_matrix_of_backed_adata_raises(backed):
    with pytest.raises(ValueError, match=r"adata\.X must be dense or .*CSR.*got CSC.*to_memory"):
        slce(backed(cells(sp.csc_matrix(COUNTS))))


# ---------------------------------------------------------------- kinds of X


def dask_of(matrix):
    da = pytest.importorskip("dask.array")
    return da.from_array(matrix, chunks=(30, D), asarray=False)


KINDS = {
    "dense": np.asarray,
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "csr array": sp.csr_array,
    "dask": dask_of,
    "dask of csr": lambda x: dask_of(x).map_blocks(sp.csr_matrix),
}


@pytest.mark.parametrize("masked", [False, True], ids=["all genes", "some genes"])
@pytest.mark.parametrize("viewed", [False, True], ids=["whole", "view"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_matrix(kind, viewed, masked):
    adata = cells(KINDS[kind](COUNTS))
    genes = np.arange(D) % 3 != 1 if masked else np.ones(D, dtype=bool)
    some = np.arange(N) % 5 != 2 if viewed else np.ones(N, dtype=bool)
    if viewed:
        adata = adata[some]
        assert adata.is_view
    copied = slce(adata, mask_var=genes if masked else None, copy=True, tol=1e-10)
    expected = slce_xp.fit(COUNTS[some][:, genes], NAMES[some])
    embedding = expected.transform(COUNTS[some][:, genes])
    np.testing.assert_allclose(copied.obsm["X_slce"], embedding, atol=1e-8)
    np.testing.assert_allclose(copied.varm["SLCEs"][genes], expected.components.T, atol=1e-8)
    assert not copied.varm["SLCEs"][~genes].any()


@pytest.mark.gpu
@pytest.mark.parametrize("masked", [False, True], ids=["all genes", "some genes"])
@pytest.mark.parametrize("viewed", [False, True], ids=["whole", "view"])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("xp", ["cupy"], indirect=True)
def test_matrices_of_cupy(xp, kind, viewed, masked):
    matrix = xp.array(COUNTS)
    if kind == "csr":
        matrix = pytest.importorskip("cupyx.scipy.sparse").csr_matrix(sp.csr_matrix(COUNTS))
    adata = cells(matrix)
    genes = np.arange(D) % 3 != 1 if masked else np.ones(D, dtype=bool)
    some = np.arange(N) % 5 != 2 if viewed else np.ones(N, dtype=bool)
    adata = adata[some] if viewed else adata
    copied = slce(adata, mask_var=genes if masked else None, copy=True, tol=1e-10)
    expected = slce_xp.fit(COUNTS[some][:, genes], NAMES[some])
    assert type(copied.obsm["X_slce"]) is np.ndarray
    embedding = expected.transform(COUNTS[some][:, genes])
    np.testing.assert_allclose(copied.obsm["X_slce"], embedding, atol=1e-8)


def test_embedding_instead_of_genes():
    adata = cells()
    adata.obsm["X_pca"] = X[:, :5]
    slce(adata, obsm="X_pca", key_added="by_pca")
    expected = slce_xp.fit(X[:, :5], NAMES).transform(X[:, :5])
    np.testing.assert_array_equal(adata.obsm["by_pca"], expected)
    assert "by_pca" not in adata.varm
    with pytest.raises(ValueError, match="reference must be fitted to genes"):
        transform(cells(), adata, key="by_pca")


def test_generator_and_model():
    adata = cells()
    model = slce(adata, return_info=True)
    assert isinstance(model, slce_xp.Model)
    assert list(model.feature_names) == list(adata.var_names)
    other, again = slce(adata, random_state=np.random.default_rng(0), copy=True, return_info=True)
    np.testing.assert_array_equal(other.obsm["X_slce"], again.transform(X))


# ---------------------------------------------------------------- reference and query


@pytest.mark.parametrize("criterion", ["centroid", "separation"])
@pytest.mark.parametrize("kind", ["dense", "csr", "csc", "dask"])
def test_labels_are_transferred_by_gene_names(kind, criterion, tmp_path):
    reference = cells()
    slce(reference, mask_var=np.arange(D) != 5, criterion=criterion)
    expected = slce_xp.fit(np.delete(X, 5, axis=1), NAMES, criterion=criterion)
    reference.write_h5ad(tmp_path / "reference.h5ad")
    reference = ad.read_h5ad(tmp_path / "reference.h5ad")
    order = np.random.default_rng(0).permutation(D)
    query = cells(KINDS[kind](X))[:, order].copy()
    transform(query, reference, key_added="X_there")
    predict(query, reference)
    seen = np.delete(X, 5, axis=1)
    np.testing.assert_allclose(query.obsm["X_there"], expected.transform(seen), atol=1e-9)
    np.testing.assert_array_equal(query.obs["slce"], expected.predict(seen))
    np.testing.assert_allclose(
        query.obsm["slce_probabilities"], expected.predict_proba(seen), atol=1e-9
    )
    assert list(query.obs["slce"].cat.categories) == ["B", "NK", "T"]
    distances = np.linalg.norm(
        expected.transform(seen)[:, None] - expected.transform(expected.centroids), axis=2
    )
    np.testing.assert_allclose(query.obs["slce_distance"], distances.min(axis=1), atol=1e-9)


@pytest.mark.parametrize("kind", ["dense", "dask"])
def test_batches_of_reference_and_query(kind):
    batch = np.where(np.arange(N) % 3 == 0, "day 1", "day 2")
    shifted = X + 3.0 * (batch == "day 1")[:, None]
    reference = cells(shifted, batch=batch)
    slce(reference, batch_key="batch")
    expected = slce_xp.fit(shifted, NAMES, batch=batch)
    embedding = expected.transform(shifted, batch=batch)
    np.testing.assert_allclose(reference.obsm["X_slce"], embedding, atol=1e-9)
    query = cells(KINDS[kind](shifted), batch=batch)[10:70].copy()
    predict(query, reference, batch_key="batch")
    found = expected.predict_proba(shifted[10:70], batch=batch[10:70])
    np.testing.assert_allclose(query.obsm["slce_probabilities"], found, atol=1e-9)
    with pytest.raises(ValueError, match="batch must name"):
        predict(query, reference)
    with pytest.raises(KeyError, match=r"batch_key must name one of adata\.obs \('cell_type', 'ba"):
        slce(reference, batch_key="day")


def test_genes_of_the_same_name_are_refused():
    adata = cells()
    adata.var_names = ["gene0", "gene0", *adata.var_names[2:]]
    with pytest.raises(ValueError, match="unique among the genes that are used; gene0 occur"):
        slce(adata)
    assert not adata.obsm.keys()
    slce(adata, mask_var=np.arange(D) > 0)


def test_a_second_component_to_plot_does_not_change_probabilities():
    wide, labels = np.random.default_rng(0).normal(size=(40, 80)), np.repeat(["a", "b"], 20)
    wide[20:, 0] += 3.0
    one = slce_xp.fit(wide, labels)
    with pytest.warns(slce_xp.SLCEWarning, match="only the first 1"):
        two = slce_xp.fit(wide, labels, 2)
    np.testing.assert_allclose(two.predict_proba(wide), one.predict_proba(wide), atol=1e-9)


def test_missing_genes_count_as_the_mean_and_are_reported():
    reference = cells()
    slce(reference)
    query = cells()[:, [g for g in range(D) if g not in (3, 7)]].copy()
    with pytest.warns(UserWarning, match="2 of the 12 features .*gene3, gene7.*mean"):
        transform(query, reference)
    filled = X.copy()
    filled[:, [3, 7]] = X.mean(axis=0)[[3, 7]]
    expected = slce_xp.fit(X, NAMES).transform(filled)
    np.testing.assert_allclose(query.obsm["X_slce"], expected, atol=1e-10)
    with pytest.raises(ValueError, match=r"at least 90% of the 12 .*2 are missing, such as gene3"):
        predict(query, reference, max_missing=0.1)
    query = cells()
    query.var_names = ["gene0"] * D
    with pytest.raises(ValueError, match="each feature once; gene0 occur"):
        transform(query, reference)
    query.var_names = [f"other{i}" for i in range(D)]
    with pytest.raises(ValueError, match="and one of them; 12 are missing"):
        predict(query, reference, max_missing=1.0)
    with pytest.raises(ValueError, match="max_missing must be a finite number"):
        predict(query, reference, max_missing=1.5)
    with pytest.raises(KeyError, match=r"under key='other'; it has models under 'slce'"):
        transform(cells(), reference, key="other")


# ---------------------------------------------------------------- other places


def test_named_backend_returns_host_arrays():
    with make_backend("torch"):
        adata = cells()
        slce(adata, backend="torch")
        assert type(adata.obsm["X_slce"]) is np.ndarray
        expected = slce_xp.fit(X, NAMES).transform(X)
        np.testing.assert_allclose(adata.obsm["X_slce"], expected, atol=1e-9)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of Matplotlib 3.11
def test_scanpy_plots_the_embedding():
    sc = pytest.importorskip("scanpy")
    adata = cells()
    slce(adata)
    sc.pl.embedding(adata, "X_slce", color="cell_type", show=False)
