"""Sparse X: the same answer as dense X, of which only blocks are made dense."""

import math
import tracemalloc
import warnings

import numpy as np
import oracle
import pytest
import scipy.sparse as sp
from conftest import make_backend

import slce_xp
from slce_xp._backend import Sparse
from slce_xp._planning import problem as _memory
from slce_xp.core import class_moments

FORMS = ["scatter", "gram", "krylov"]
BY_ROWS = ["scatter", "krylov"]  # of Torch and CuPy, whose columns are not read
TIGHT = {"tol": 1e-12}  # an iteration then stops at rounding
KINDS = ["csr_array", "csr_matrix", "csc_array", "csc_matrix", "coo_array", "coo_matrix"]


def counts(n, d, n_classes, seed):
    """Counts as of cells and genes: mostly zero, each class with genes of its own."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    rates = 0.15 * rng.gamma(1.0, size=d)
    own = rng.permutation(np.arange(d) % n_classes) == y[:, None]  # genes of the sample's class
    X = rng.poisson(rates, (n, d)) + own * rng.poisson(np.linspace(2.0, 5.0, d), (n, d))
    X[3], X[:, 5] = 0, 0  # an empty cell and an empty gene
    return X.astype(np.float64), y


PROBLEMS = {
    "tall": counts(150, 20, 4, seed=81),
    "wide": counts(50, 130, 3, seed=82),
    "many classes": counts(400, 25, 90, seed=83),
}
X, labels = PROBLEMS["tall"]


def stored_bytes(x):
    if x.format == "coo":
        return x.data.nbytes + sum(index.nbytes for index in x.coords)
    return x.data.nbytes + x.indices.nbytes + x.indptr.nbytes


@pytest.fixture
def never_dense(monkeypatch):
    """Let SciPy densify blocks of rows and columns, but not a whole matrix."""
    monkeypatch.setattr(_memory, "block_bytes", lambda *_: 2**12)
    sizes = {x.shape for x, _ in PROBLEMS.values()} | {PROBLEMS["wide"][0].T.shape}

    def guarded(way):
        def make(x, *args, **options):
            assert x.shape not in sizes, "a sparse matrix was made dense"
            return way(x, *args, **options)

        return make

    for kind in KINDS:
        for way in ("toarray", "todense"):
            monkeypatch.setattr(getattr(sp, kind), way, guarded(getattr(getattr(sp, kind), way)))


# ---------------------------------------------------------------- SciPy


@pytest.mark.filterwarnings("ignore:n_components=.* only the first")
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", [*FORMS, "auto"])
def test_forms_agree_with_the_oracle(never_dense, dtype, solver, problem):
    X, y = PROBLEMS[problem]
    k = min(len(np.unique(y)) - 1, X.shape[1])
    model = slce_xp.fit(sp.csr_array(X.astype(dtype)), y, solver=solver, **TIGHT)
    with make_backend("numpy") as backend:
        oracle.assert_leading(model, backend, oracle.matrix(X, y), dtype, k)
    smaller = "gram" if problem == "wide" else "scatter"
    assert model.solver == (solver if solver in BY_ROWS else smaller)


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("stored", ["float32", "float64", "int64", "int32", "uint8"])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_and_dtypes(never_dense, kind, stored, solver):
    model = slce_xp.fit(getattr(sp, kind)(X.astype(stored)), labels, solver=solver)
    dense = slce_xp.fit(X.astype(stored), labels, solver=solver)
    tolerance = 1e-4 if stored == "float32" else 1e-9
    for name in ("components", "eigenvalues", "mean", "centroids", "counts"):
        one, two = getattr(model, name), getattr(dense, name)
        assert type(one) is np.ndarray
        assert one.dtype == two.dtype
        np.testing.assert_allclose(one, two, atol=tolerance * np.abs(two).max())
    np.testing.assert_array_equal(model.classes, dense.classes)
    assert model.total_loss == pytest.approx(dense.total_loss, rel=tolerance)
    assert model.n_samples == len(X)


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("problem", ["tall", "wide"])
def test_sums_of_a_float32_matrix_are_float64(never_dense, problem, solver):
    X, y = PROBLEMS[problem]
    model = slce_xp.fit(sp.csr_array(X.astype(np.float32)), y, solver=solver, **TIGHT)
    assert (model.plan.dtype, model.plan.sums) == ("float32", "float64")
    assert model.components.dtype == model.eigenvalues.dtype == np.float32
    _, vectors = oracle.eigenpairs(X, y)
    angle = oracle.largest_angle(model.components, vectors[: len(model.components)])
    assert angle <= model.angle_bound < 1e-6


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("stored", ["float32", "float64"])
def test_numbers_whose_squares_leave_the_range_of_float32(never_dense, stored, weighted, solver):
    X, y = PROBLEMS["wide"]
    X = X[:, :120] * np.linspace(0.5, 2.0, 120)
    weights = np.random.default_rng(88).gamma(2.0, size=len(X)) if weighted else None
    matrix = oracle.weighted_matrix(X, y, np.ones(len(X)) if weights is None else weights)
    with make_backend("numpy") as backend:
        for factor in (1.0, 2.0**-60):
            x = sp.csr_array((factor * X).astype(stored))
            model = slce_xp.fit(x, y, solver=solver, sample_weight=weights, **TIGHT)
            oracle.assert_leading(model, backend, matrix * factor**2, stored, 2)
            assert model.solver == solver


@pytest.mark.parametrize(
    ("criterion", "distance", "heaviest"),
    [("centroid", 1e7, 1.0), ("separation", 1e7, 1.0), ("centroid", 0.0, 1e13)],
)
def test_gram_form_where_centring_sparse_rows_would_lose_digits(criterion, distance, heaviest):
    X, y = PROBLEMS["wide"]
    X, weights = X + distance, np.ones(len(X))
    weights[7] = heaviest
    options = {"sample_weight": weights, "criterion": criterion, "solver": "gram"}
    sparse, dense = (slce_xp.fit(x, y, **options) for x in (sp.csr_array(X), X))
    if criterion == "separation":
        np.testing.assert_allclose(sparse.components, dense.components, atol=1e-9)
        return
    assert sparse.n_positive_bounds == dense.n_positive_bounds
    # One pass multiplies sparse rows, which are not shifted: less is proved.
    angle = oracle.largest_angle(sparse.components, dense.components)
    assert angle <= sparse.angle_bound < 1e-5


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("solver", FORMS)
def test_zero_level_states_the_digits_that_a_distant_mean_costs(solver, distance):
    X, y = PROBLEMS["wide"]
    X = X + np.round(distance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of components that may be zero
        model = slce_xp.fit(sp.csr_array(X), y, solver=solver, **TIGHT)
        dense = slce_xp.fit(X, y, solver="scatter")
    values, vectors = oracle.eigenpairs(X, y)
    low, high = model.n_positive_bounds
    assert low <= int((values[:2] > model.zero_level).sum()) <= high
    above = model.eigenvalues > model.zero_level
    np.testing.assert_allclose(
        model.eigenvalues[above], values[:2][above], rtol=0, atol=model.zero_level
    )
    for j, bound in enumerate(model.angle_bounds, 1):
        assert oracle.largest_angle(model.components[:j], vectors[:j]) <= bound
    if solver == "scatter":  # whose dense blocks are shifted
        assert model.zero_level == pytest.approx(dense.zero_level, rel=0.5)
    elif distance == 1e9:
        assert model.zero_level > 1e4 * dense.zero_level


def test_auto_takes_the_gram_form_of_wide_data():
    X, y = counts(60, 2000, 3, seed=89)
    assert slce_xp.fit(sp.csr_array(X), y).solver == "gram"
    model = slce_xp.fit(sp.csr_array(X), y, criterion="separation")
    assert model.solver == "gram"
    dense = slce_xp.fit(X, y, criterion="separation")
    np.testing.assert_allclose(model.components, dense.components, atol=1e-9)


@pytest.mark.parametrize("solver", [*FORMS, "auto"])
@pytest.mark.parametrize("problem", ["tall", "wide"])
def test_components_that_are_not_positive(never_dense, solver, problem):
    X, y = PROBLEMS[problem]
    d = X.shape[1]
    with pytest.warns(UserWarning, match="lower the loss"):
        model = slce_xp.fit(sp.csr_array(X), y, d, solver=solver)
    expected, _ = oracle.eigenpairs(X, y)
    np.testing.assert_allclose(model.eigenvalues, expected, atol=1e-11 * np.abs(expected).max())
    np.testing.assert_allclose(model.components @ model.components.T, np.eye(d), atol=1e-12)
    assert model.solver == model.plan.form == "scatter"
    if solver in ("gram", "krylov"):  # which have fewer than d directions
        assert model.plan.reason.startswith(f"{solver} needs")


@pytest.mark.parametrize("kind", KINDS)
def test_positive_components_only(kind):
    rng = np.random.default_rng(84)
    noise = sp.random_array((300, 12), density=0.2, rng=rng)
    y = np.arange(300) % 3
    with pytest.warns(UserWarning, match="the classes overlap"):
        model = slce_xp.fit(getattr(sp, kind)(noise), y, "positive")
    assert model.components.shape == (0, 12)


@pytest.mark.parametrize("solver", FORMS)
def test_weights_and_unlabelled_samples(never_dense, dtype, solver):
    rng = np.random.default_rng(85)
    weights = rng.gamma(1.0, size=len(X))
    weights[::7] = 0.0
    y = np.where(rng.random(len(X)) < 0.3, -1, labels)
    x = sp.csr_array(X.astype(dtype))
    with make_backend("numpy") as backend:
        weighted = slce_xp.fit(x, labels, sample_weight=weights, solver=solver)
        M = oracle.weighted_matrix(X, labels, weights)
        oracle.assert_leading(weighted, backend, M, dtype, 3)
        options = {"unlabeled": -1, "unlabeled_weight": 0.5, "sample_weight": weights}
        partly = slce_xp.fit(x, y, solver=solver, **options)
        M = oracle.weighted_matrix(X, y, weights, y >= 0, 0.5)
        oracle.assert_leading(partly, backend, M, dtype, 3)
        balanced = slce_xp.fit(x, labels, class_weight="balanced", solver=solver)
        M = oracle.weighted_matrix(X, labels, (len(X) / (4 * np.bincount(labels)))[labels])
        oracle.assert_leading(balanced, backend, M, dtype, 3)


def disorderly(x):
    """The same matrix with entries in several parts, out of order, and zeros that are stored."""
    rows, columns = x.coords
    order = np.random.default_rng(86).permutation(3 * x.nnz)
    values = np.concatenate([0.25 * x.data, 0.75 * x.data, np.zeros(x.nnz)])[order]
    where = (np.tile(rows, 3)[order], np.tile(columns, 3)[order])
    return sp.coo_array((values, where), shape=x.shape)


def unsorted_csr():
    x = sp.csr_array(X)
    for start, stop in zip(x.indptr[:-1], x.indptr[1:], strict=True):
        x.indices[start:stop] = x.indices[start:stop][::-1].copy()
        x.data[start:stop] = x.data[start:stop][::-1].copy()
    x.has_sorted_indices = False
    return x


def long_indices():
    x = sp.csr_array(X)
    x.indices, x.indptr = x.indices.astype(np.int64), x.indptr.astype(np.int64)
    return x


def doubled_csr():
    """CSR with each entry twice, half of it each."""
    x = sp.csr_array(X)
    parts = (np.repeat(0.5 * x.data, 2), np.repeat(x.indices, 2), 2 * x.indptr)
    return sp.csr_array(parts, shape=x.shape)


def read_only():
    x = sp.csr_array(X)
    for part in (x.data, x.indices, x.indptr):
        part.flags.writeable = False
    return x


ODD = {
    "COO with duplicates and zeros": lambda: disorderly(sp.coo_array(X)),
    "CSR with duplicates": doubled_csr,
    "CSR out of order": unsorted_csr,
    "long indices": long_indices,
    "read-only": read_only,
    "a slice of rows": lambda: sp.csr_array(np.repeat(X, 2, axis=0))[::2],
}


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("case", ODD)
def test_unusual_valid_matrices(case, solver):
    x = ODD[case]()
    model = slce_xp.fit(x, labels, solver=solver)
    dense = slce_xp.fit(X, labels, solver=solver)
    np.testing.assert_allclose(model.components, dense.components, atol=1e-9)
    np.testing.assert_allclose(model.centroids, dense.centroids, atol=1e-12)
    np.testing.assert_allclose(model.transform(x), dense.transform(X), atol=1e-9)


def parts(x):
    if x.format == "coo":
        return [x.data, *x.coords]
    return [x.data, x.indices, x.indptr]


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("case", ODD)
def test_input_is_not_modified(case, solver):
    # SciPy puts indices in order and adds duplicates up in place.
    x = ODD[case]()
    before = [part.copy() for part in parts(x)]
    model = slce_xp.fit(x, labels, solver=solver)
    model.transform(x)
    for part, was in zip(parts(x), before, strict=True):
        np.testing.assert_array_equal(part, was)
        assert part.dtype == was.dtype


# ---------------------------------------------------------------- the model in use


@pytest.mark.parametrize("stored", ["float32", "float64", "uint8"])
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_samples_are_embedded_as_dense_ones(never_dense, kind, stored):
    model = slce_xp.fit(X, labels)
    x = getattr(sp, kind)(X.astype(stored))
    Z = model.transform(x)
    assert type(Z) is np.ndarray
    expected = model.transform(X.astype(stored))
    assert Z.dtype == expected.dtype == np.float64  # the wider of the model's and X's
    np.testing.assert_allclose(Z, expected, atol=1e-11)
    single = slce_xp.fit(X.astype("float32"), labels)
    assert single.transform(getattr(sp, kind)(X.astype("float32"))).dtype == np.float32


def test_model_of_sparse_data_takes_dense_samples(tmp_path):
    model = slce_xp.fit(sp.csr_array(X), labels)
    expected = model.transform(sp.csr_array(X))
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-11)
    np.testing.assert_allclose(model.reconstruct(sp.csr_array(X)), model.reconstruct(X), atol=1e-11)
    model.save(tmp_path / "model.npz")
    opened = slce_xp.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(opened.transform(sp.csr_array(X)), expected)
    assert "4 classes" in str(opened)


def test_sparse_matrix_of_another_width_raises():
    model = slce_xp.fit(sp.csr_array(X), labels)
    with pytest.raises(ValueError, match=r"X must have 20 columns.*\(150, 7\)"):
        model.transform(sp.csr_array(X[:, :7]))


def test_no_rows_to_embed():
    model = slce_xp.fit(sp.csr_array(X), labels)
    assert model.transform(sp.csr_array((0, 20))).shape == (0, 3)


# ---------------------------------------------------------------- errors


NOT_FINITE = {
    "NaN": (np.nan, "NaN at row 11, column 2"),
    "infinity": (np.inf, "infinity at row 11, column 2"),
    "-infinity": (-np.inf, "infinity at row 11, column 2"),
}


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", NOT_FINITE)
def test_first_non_finite_value_is_located(case, kind, solver):
    value, where = NOT_FINITE[case]
    bad = X.copy()
    bad[11, 2] = value
    bad[40, 9] = np.nan
    with pytest.raises(ValueError, match=f"^X must be finite; found {where}.*impute"):
        slce_xp.fit(getattr(sp, kind)(bad), labels, solver=solver)


def test_first_non_finite_value_in_row_order():
    bad = X.copy()
    bad[40, 2], bad[11, 9] = np.nan, np.nan  # in the order of columns the other way round
    for kind in KINDS:
        with pytest.raises(ValueError, match="row 11, column 9"):
            slce_xp.fit(getattr(sp, kind)(bad), labels)


BAD = {
    "no rows": (sp.csr_array((0, 4)), ValueError, r"at least one row.*\(0, 4\)"),
    "no columns": (sp.csr_array((150, 0)), ValueError, r"at least one column.*\(150, 0\)"),
    "complex": (sp.csr_array(X * 1j), TypeError, "real numbers; got dtype complex128"),
    "one-dimensional": (sp.coo_array(X[0]), (TypeError, ValueError), "matrix|two-dimensional"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_matrices_raise(case):
    x, error, message = BAD[case]
    with pytest.raises(error, match=f"^X must .*({message})"):
        slce_xp.fit(x, labels[: x.shape[0]])


def test_as_many_labels_as_rows():
    with pytest.raises(ValueError, match=r"150 rows in X and 3 labels in y"):
        slce_xp.fit(sp.csr_array(X), labels[:3])


def test_matrix_without_stored_entries():
    with pytest.warns(UserWarning, match="no components"):
        model = slce_xp.fit(sp.csr_array((6, 4)), [0, 1] * 3, "positive")
    assert model.n_components == 0


# ---------------------------------------------------------------- bytes


def large_counts(n=20_000, d=5_000, n_classes=4, density=0.005, seed=87):
    """Rows with as many entries each, three quarters of them among the genes of the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    per_row = int(density * d)
    own = 100
    columns = rng.integers(0, d, (n, per_row))
    marked = rng.random((n, per_row)) < 0.75
    columns = np.where(marked, rng.integers(0, own, (n, per_row)) + own * y[:, None], columns)
    values = rng.random(columns.size) + 0.5
    rows = np.repeat(np.arange(n), per_row)
    return sp.csr_array((values, (rows, columns.ravel())), shape=(n, d)), y


def peak_of(run):
    tracemalloc.start()
    try:
        result = run()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def test_fit_takes_a_small_multiple_of_what_is_stored():
    x, y = large_counts()
    slce_xp.fit(x[:50], y[:50])  # what is imported lazily is not counted
    peak, model = peak_of(lambda: slce_xp.fit(x, y))
    assert model.n_positive == 3
    assert peak <= 3 * stored_bytes(x)
    assert peak <= 0.03 * 8 * x.shape[0] * x.shape[1]  # what dense would take


def test_transform_memory_is_small():
    x, y = large_counts()
    model = slce_xp.fit(x, y)
    peak, Z = peak_of(lambda: model.transform(x))
    assert peak <= 3 * Z.nbytes + 0.5 * stored_bytes(x)


def test_thousands_of_classes_need_a_small_multiple_of_x():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((10_000, 50))
    y = rng.permutation(np.arange(10_000) % 5_000)
    slce_xp.fit(sp.csr_array(x[:50]), y[:50])
    sparse = sp.csr_array(x)
    peak, model = peak_of(lambda: slce_xp.fit(sparse, y))
    assert len(model.classes) == 5_000
    assert peak <= 10 * x.nbytes


# ---------------------------------------------------------------- Torch


@pytest.fixture
def torch_csr():
    """X as a compressed tensor; Torch warns, once, that its kind is in beta."""
    torch = pytest.importorskip("torch")

    def make(values, dtype="float64"):
        x = sp.csr_array(np.asarray(values, dtype))
        index = [torch.asarray(part, dtype=torch.int64) for part in (x.indptr, x.indices)]
        return torch.sparse_csr_tensor(
            *index, torch.asarray(x.data), x.shape, check_invariants=True
        )

    return make


@pytest.mark.filterwarnings("ignore:n_components=.* only the first")
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", BY_ROWS)
def test_torch_agrees_with_the_oracle(torch_csr, dtype, solver, problem):
    X, y = PROBLEMS[problem]
    k = min(len(np.unique(y)) - 1, X.shape[1])
    model = slce_xp.fit(torch_csr(X, dtype), y, solver=solver, **TIGHT)
    with make_backend("torch") as backend:
        oracle.assert_leading(model, backend, oracle.matrix(X, y), dtype, k)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_torch_embeds(torch_csr, monkeypatch):
    import torch

    x = torch_csr(X)
    model = slce_xp.fit(x, labels, sample_weight=np.ones(len(X)))
    Z = model.transform(x)
    assert Z.layout == torch.strided
    np.testing.assert_allclose(Z.numpy(), model.transform(torch.asarray(X)).numpy(), atol=1e-11)
    with pytest.raises(ValueError, match="gram"):
        slce_xp.fit(x, labels, solver="gram")


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_torch_locates_non_finite_values(torch_csr):
    bad = X.copy()
    bad[11, 2] = np.nan
    with pytest.raises(ValueError, match=r"^X must be finite; found NaN at row 11, col"):
        slce_xp.fit(torch_csr(bad), labels)


# ---------------------------------------------------------------- CuPy


@pytest.fixture
def cupy_sparse(xp):
    return pytest.importorskip("cupyx.scipy.sparse")


on_cupy = [pytest.mark.gpu, pytest.mark.parametrize("xp", ["cupy"], indirect=True)]


def marked(test):
    for mark in on_cupy:
        test = mark(test)
    return test


@marked
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", [*BY_ROWS, "auto"])
@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "coo_matrix"])
def test_cupy_agrees_with_the_oracle(xp, cupy_sparse, dtype, kind, solver, problem):
    X, y = PROBLEMS[problem]
    k = min(len(np.unique(y)) - 1, X.shape[1])
    x = getattr(cupy_sparse, kind)(cupy_sparse.csr_matrix(xp.array(X, dtype)))
    model = slce_xp.fit(x, y, solver=solver, **TIGHT)
    oracle.assert_leading(model, xp, oracle.matrix(X, y), dtype, k)
    assert type(model.components) is type(xp.array(X))


@marked
def test_cupy_embeds(xp, cupy_sparse):
    dense = xp.array(X)
    x = cupy_sparse.csr_matrix(dense)
    model = slce_xp.fit(x, labels)
    Z = model.transform(x)
    assert type(Z) is type(dense)
    np.testing.assert_allclose(xp.numpy(Z), xp.numpy(model.transform(dense)), atol=1e-11)
    with pytest.raises(ValueError, match="gram"):
        slce_xp.fit(x, labels, solver="gram")


@marked
@pytest.mark.parametrize("solver", BY_ROWS)
def test_cupy_with_weights_and_unlabelled_samples(xp, cupy_sparse, solver):
    rng = np.random.default_rng(88)
    weights = rng.gamma(1.0, size=len(X))
    y = np.where(rng.random(len(X)) < 0.3, -1, labels)
    x = cupy_sparse.csr_matrix(xp.array(X))
    model = slce_xp.fit(x, y, sample_weight=weights, unlabeled=-1, solver=solver)
    M = oracle.weighted_matrix(X, y, weights, y >= 0)
    oracle.assert_leading(model, xp, M, "float64", 3)


@marked
@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "coo_matrix"])
def test_cupy_locates_non_finite_values(xp, cupy_sparse, kind):
    bad = X.copy()
    bad[11, 2] = np.nan
    x = getattr(cupy_sparse, kind)(cupy_sparse.csr_matrix(xp.array(bad)))
    with pytest.raises(ValueError, match=r"^X must be finite; found NaN at row 11, col"):
        slce_xp.fit(x, labels)


@marked
def test_cupy_memory_is_a_small_multiple_of_stored_entries(xp, cupy_sparse):
    emucuda = pytest.importorskip("emucuda", reason="only an emulated CUDA counts bytes")
    import cupy

    host, y = large_counts(5000, 2000)
    x = cupy_sparse.csr_matrix(host)
    slce_xp.fit(x[:50], y[:50])
    before = cupy.get_default_memory_pool().used_bytes()
    with emucuda.measure() as measured:
        # With memory to spare, "auto" may form a d × d matrix.
        model = slce_xp.fit(x, y, solver="krylov")
    assert model.n_positive == 3
    # Of what dense would take; the space of 832 rows takes 0.17 of it.
    assert measured.peak_used_bytes - before <= 0.27 * 8 * 5000 * 2000


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1.0, 2.0**-500])
@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_second_moment_of_sparse_rows(kind, weighted, scale, shift):
    rng = np.random.default_rng(1)
    dense = (rng.standard_normal((500, 30)) + shift) * (rng.uniform(size=(500, 30)) < 0.3)
    weights = rng.uniform(0.5, 1.5, 500) if weighted else None
    codes = np.arange(500) % 3
    found = class_moments(kind(dense * scale), codes, 3, weights=weights, second=True)
    rows = dense - np.average(dense, axis=0, weights=weights)
    expected = rows.T @ (rows if weights is None else rows * weights[:, None])
    found = found._moments
    unit = math.ldexp(1.0, found.unit_exponent // 2) / scale
    atol = 1e-13 * np.trace(expected)
    np.testing.assert_allclose(found.scatter() * unit * unit, expected, atol=atol)
    np.testing.assert_allclose(found.column_squares * unit * unit, np.diag(expected), atol=atol)


def test_columns_of_a_wide_matrix_are_not_products_with_unit_vectors(monkeypatch):
    """These take time in proportion to d²."""
    monkeypatch.setattr(Sparse, "columns", None)
    X, y = PROBLEMS["wide"]
    X, y = X + 100.0, np.where(np.arange(len(X)) % 3 == 0, -1, y)
    model = slce_xp.fit(sp.csr_array(X), y, 2, unlabeled=-1)
    dense = slce_xp.fit(X, y, 2, unlabeled=-1)
    np.testing.assert_allclose(model.eigenvalues, dense.eigenvalues, rtol=1e-9)
