"""max_memory is respected, or the fit raises before any work, for every kind of X."""

import tracemalloc
import warnings

import numpy as np
import oracle
import pytest
import scipy.sparse as sp

import slce_xp
from slce_xp import _backend
from slce_xp._planning.plan import choose
from slce_xp._planning.problem import Limits, Problem
from slce_xp.core._rows import MemoryRows, block_bytes


def dense(n, d, n_classes, dtype="float64"):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d), dtype=np.float32)
    X[np.arange(n), y % d] += 9.0
    return (X if dtype.startswith("float") else np.clip(20 * X + 100, 0, 255)).astype(dtype), y


def counts(n, d, dtype, kind="csr", density=0.05, n_classes=5):
    rng = np.random.default_rng(1)
    y = np.arange(n) % n_classes
    noise = sp.random_array((n, d), density=density, format="csr", rng=rng)
    noise.data[:] = rng.integers(1, 4, noise.nnz)
    marks = sp.csr_array((np.full(n, 90.0), (np.arange(n), y)), shape=(n, d))
    return (noise + marks).astype(dtype).asformat(kind), y


def with_gaps(y):
    return np.where(np.arange(len(y)) % 4 == 3, -1, y)


def peak_of_fit(X, y, *args, **options):
    """Return the peak of bytes, and the model or the MemoryError."""
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (slce_xp.ConvergenceWarning, UserWarning))
            try:
                found = slce_xp.fit(X, y, *args, **options)
            except MemoryError as error:
                found = error
        return tracemalloc.get_traced_memory()[1], found
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Import lazily loaded modules first, so that they are not counted."""
    X, y = dense(60, 8, 3)
    for solver in ("scatter", "gram", "krylov"):
        slce_xp.fit(X, y, solver=solver)
    slce_xp.fit(sp.coo_array(X), y)


# ---------------------------------------------------------------- samples without labels


def test_unlabelled_samples_of_wide_data():
    # Their matrix-free form has vectors of features, not of samples.
    X, y = dense(1000, 20_000, 5)
    peak, found = peak_of_fit(X, with_gaps(y), unlabeled=-1, max_memory="12MB")
    assert isinstance(found, MemoryError)
    assert peak < 1e6
    peak, found = peak_of_fit(X, with_gaps(y), unlabeled=-1, max_memory="60MB")
    assert peak <= 60e6


@pytest.mark.parametrize(
    ("dtype", "weighted"), [("float64", True), ("float32", False), ("uint8", True)]
)
@pytest.mark.parametrize(
    ("solver", "n", "d", "n_classes"),
    [
        ("krylov", 600, 4000, 5),
        ("krylov", 60_000, 20, 5),
        ("gram", 150, 2000, 5),
        ("gram", 200, 900, 5),
        ("gram", 200, 900, 90),
        ("scatter", 60_000, 20, 5),
        ("scatter", 60_000, 20, 200),
        ("scatter", 300, 1000, 5),
        ("scatter", 120, 1018, 2),  # matrices are most of the plan
    ],
)
def test_unlabelled_and_weighted_samples_stay_within_the_plan(
    solver, n, d, n_classes, dtype, weighted
):
    X, y = dense(n, d, n_classes, dtype)
    weights = 1 + np.arange(n) % 3 if weighted else None
    for labels in (with_gaps(y), y):
        peak, model = peak_of_fit(
            X, labels, "positive", solver=solver, unlabeled=-1, sample_weight=weights
        )
        assert model.solver == solver
        assert peak <= model.plan.most_bytes
        if n_classes > d:
            break


# ---------------------------------------------------------------- sparse matrices


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8", "int32", "bool"])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_sparse_matrices_of_any_kind(kind, dtype):
    n, d = (20_000, 200) if kind in ("csr", "csc", "coo") else (3_000, 100)
    X, y = counts(n, d, dtype, kind)
    for memory in (20_000_000, 6_000_000, 3_000_000, 1_000_000):
        peak, found = peak_of_fit(X, y, max_memory=memory)
        assert peak <= memory
        if isinstance(found, MemoryError):
            assert str(found).startswith("max_memory must leave room")
            assert peak < 600_000 + 40 * n  # labels only
            break
        assert peak <= found.plan.most_bytes


@pytest.mark.parametrize(
    ("solver", "size"),
    [
        ("scatter", (40_000, 300)),
        ("gram", (400, 20_000)),
        ("krylov", (40_000, 300)),
        ("krylov", (400, 20_000)),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
@pytest.mark.parametrize("unlabelled", [False, True])
def test_sparse_fits_stay_within_the_plan(size, dtype, solver, unlabelled):
    X, y = counts(*size, dtype)
    options = {"unlabeled": -1} if unlabelled else {}
    labels = with_gaps(y) if unlabelled else y
    peak, model = peak_of_fit(X, labels, 2 if unlabelled else "positive", solver=solver, **options)
    assert model.solver == solver
    assert peak <= model.plan.most_bytes


def test_integers_with_all_entries_in_a_few_rows():
    # Sized by the mean number of entries, one block would hold everything.
    full, y = counts(500, 8000, "uint8", density=1.0)
    X = sp.vstack([full, sp.csr_array((30_000, 8000), dtype=np.uint8)], format="csr")
    y = np.concatenate([y, np.full(30_000, 5)])
    source = MemoryRows(_backend.Sparse(X), np.float64)
    most = max(source.rows(block).stored for block in source.row_blocks(1))
    assert 8 * most <= block_bytes(*X.shape, 8) < 8 * X.nnz
    peak, model = peak_of_fit(X, y, "positive", solver="krylov")
    assert peak <= model.plan.most_bytes
    other = slce_xp.fit(X.astype(float), y, "positive", solver="krylov")
    assert model.n_positive == other.n_positive > 0
    tolerance = model.zero_level + other.zero_level
    np.testing.assert_allclose(model.eigenvalues, other.eigenvalues, rtol=0, atol=tolerance)


def test_blocks_of_integers_are_all_rows_in_their_order():
    X, _ = counts(3000, 50, "int16")
    source = MemoryRows(_backend.Sparse(X), np.float64)
    for made, count in ((0, 1), (50, 1), (200, 3), (10**9, 3000)):
        blocks = list(source.row_blocks(made))
        assert len(blocks) == count
        assert [b.start for b in blocks[1:]] == [b.stop for b in blocks[:-1]]
        assert (blocks[0].start, blocks[-1].stop) == (0, 3000)


def test_some_rows_of_a_sparse_matrix_are_views():
    X, _ = counts(300, 50, "float64")
    rows = _backend.Sparse(X).rows(slice(20, 60))
    values, columns, _ = rows.parts()
    assert np.shares_memory(values, X.data)
    assert np.shares_memory(columns, X.indices)
    np.testing.assert_array_equal(rows._matrix.toarray(), X[20:60].toarray())


@pytest.mark.parametrize("kind", ["csc", "coo", "lil", "dok", "bsr"])
def test_invalid_matrix_is_not_compressed(kind, monkeypatch):
    X, y = counts(300, 50, "float64", kind)

    def refuse(self, copy=False):
        raise AssertionError("made compressed rows of it")

    monkeypatch.setattr(type(X), "tocsr", refuse)
    with pytest.raises(MemoryError, match="max_memory must leave room"):
        slce_xp.fit(X, y, max_memory="10kB")


# ---------------------------------------------------------------- rows that are read


class Rows:
    def __init__(self, values):
        self.values = values
        self.shape, self.dtype = values.shape, values.dtype
        self.reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return self.values[index]


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8"])
@pytest.mark.parametrize("unlabelled", [False, True])
@pytest.mark.parametrize("shape", [(40_000, 50, 5), (20_000, 50, 1000)])
def test_rows_of_many_classes_or_without_labels(shape, unlabelled, dtype):
    X, y = dense(*shape, dtype)
    options = {"unlabeled": -1} if unlabelled else {}
    labels = with_gaps(y) if unlabelled else y
    peak, model = peak_of_fit(Rows(X), labels, 3, solver="scatter", max_memory="16MB", **options)
    assert peak <= model.plan.most_bytes <= 16e6


def test_iteration_without_positive_eigenvalues_proves_so_and_warns():
    n, d = 6000, 1500
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), np.arange(n) % 5
    assert oracle.eigenpairs(X, y)[0][0] < 0
    with pytest.warns(UserWarning, match="no direction lowers the loss") as caught:
        model = slce_xp.fit(Rows(X), y, max_memory="50MB")
    assert len(caught) == 1  # it converged
    assert model.plan.form == "krylov"
    assert model.n_components == 4
    assert model.n_positive_bounds == (0, 0)
    # Which directions increase the loss least is not known.
    assert model.angle_bound == np.inf
    assert "no bound of the angle" in str(model)


@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_iteration_that_does_not_converge_stays_within_the_limit(dtype):
    # Its space grows with every pass, on the device and on the host.
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 40
    X = (5.0 * rng.standard_normal((3000, 1500)) + 200.0).astype(dtype)
    peak, model = peak_of_fit(X, y, max_memory=32_000_000)
    assert model.plan.form == "krylov"
    assert peak <= 32_000_000


def test_dense_product_of_sparse_rows_is_planned():
    X, y = counts(8000, 1500, "float32", density=0.05, n_classes=40)
    peak, model = peak_of_fit(X, y, 1, solver="scatter")
    assert peak <= 1.05 * model.plan.most_bytes


@pytest.mark.parametrize("density", [0.008, 0.16])  # by a sparse product, by dense blocks
@pytest.mark.parametrize(("n_classes", "n_components"), [(18, 21), (40, 1)])
def test_sparse_gram_form_is_planned(density, n_classes, n_components):
    X, y = counts(260, 8000, "float64", density=density, n_classes=n_classes)
    peak, model = peak_of_fit(X, y, n_components, solver="gram")
    assert peak <= model.plan.most_bytes <= 2.5 * peak


@pytest.mark.parametrize("solver", ["scatter", "gram"])
@pytest.mark.parametrize(("n", "d", "n_classes"), [(300, 100, 100), (120, 900, 40), (200, 60, 3)])
def test_pairs_of_classes_are_planned(solver, n, d, n_classes):
    X, y = dense(n, d, n_classes)
    peak, model = peak_of_fit(X, y, 2, solver=solver, criterion="separation")
    assert peak <= model.plan.most_bytes <= 4 * peak + 2 * block_bytes(n, d, 8)


@pytest.mark.parametrize("solver", ["scatter", "gram"])
def test_all_components_of_few_samples_are_planned(solver):
    X, y = dense(50, 600, 3)
    peak, model = peak_of_fit(X, y, 599, solver=solver)
    assert peak <= model.plan.most_bytes <= 2 * peak


def test_null_space_beyond_the_classes_is_planned():
    X, y = dense(300, 3000, 2)
    peak, model = peak_of_fit(X, y, 5)
    assert model.plan.form == "gram"
    assert peak <= model.plan.most_bytes <= 2 * peak + 2 * block_bytes(*X.shape, 8)


def test_plan_of_unlabelled_samples_is_that_of_longer_vectors():
    problem = Problem(1000, 20_000, 5, 4, "float64")
    few = choose(problem, Limits(), "krylov")
    many = choose(Problem(1000, 20_000, 5, 4, "float64", supervised=False), Limits(), "krylov")
    assert many.most_bytes > 3 * few.most_bytes
