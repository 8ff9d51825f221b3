"""X read in blocks of rows: every kind of row-sliceable input agrees with the fit in memory."""

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import oracle
import pytest
import scipy.sparse as sp
from conftest import LABELS, load_set, make_backend, spare_compiling
from test_budgets import limit_room

import slce_xp
from slce_xp._data import file_rows, row_reader
from slce_xp._planning import problem as _memory
from slce_xp._planning import problem as _problem
from slce_xp.core import _centred

FORMS = ["scatter", "gram", "krylov"]
READER = "slce_xp-reader"
N, D, K = 230, 17, 4
X, y = oracle.blobs(N, D, K, seed=61)


class Rows:
    """A minimal row-sliceable object that records the slices it was asked for."""

    def __init__(self, values, make=lambda rows: rows, dtype=None):
        self.values = values
        self.make = make
        self.shape = values.shape
        self.dtype = dtype or values.dtype
        self.reads = []

    def __getitem__(self, index):
        assert type(index) is slice
        assert index.step is None
        self.reads.append((threading.current_thread().name, index.start, index.stop))
        return self.make(self.values[index.start : index.stop])

    @property
    def passes(self):
        """Slices read by the reader thread, one list per pass."""
        passes = []
        for thread, start, stop in self.reads:
            if thread.startswith(READER):
                if start == 0:
                    passes.append([])
                passes[-1].append((start, stop))
        return passes


WIDE, y_wide = oracle.blobs(90, 140, K, seed=61)  # for the Gram form
TIGHT = {"tol": 1e-12}  # an iteration then stops at rounding


def problem_of(solver):
    """Data that have this form, and labels."""
    return (WIDE, y_wide) if solver == "gram" else (X, y)


def frozen(rows):
    rows = rows.view()
    rows.flags.writeable = False
    return rows


@pytest.fixture
def blocks_of(monkeypatch):
    """Let blocks have so many rows of so many bytes, and panels of the Gram form twice that."""

    def limit(rows, row_bytes):
        monkeypatch.setattr(_memory, "READ_BLOCK", rows * row_bytes)
        monkeypatch.setattr(file_rows, "READ_BLOCK", rows * row_bytes)
        monkeypatch.setattr(_memory, "PANEL_BYTES", 2 * rows * row_bytes)

    return limit


def readers():
    return [thread for thread in threading.enumerate() if thread.name.startswith(READER)]


@pytest.fixture(autouse=True)
def no_reader_is_left():
    yield
    assert not readers()


def fit_there(xp, rows, labels, *args, **options):
    return slce_xp.fit(rows, labels, *args, backend=xp.name, device=xp.device, **options)


def assert_same(model, other, tolerance, read=np.asarray):
    """Two fits of the same data agree, including signs."""
    for name in ("eigenvalues", "mean", "centroids", "weights", "components"):
        one, two = read(getattr(model, name)), read(getattr(other, name))
        assert one.dtype == two.dtype
        np.testing.assert_allclose(one, two, atol=tolerance * max(1e-300, np.abs(two).max()))
    np.testing.assert_array_equal(model.classes, other.classes)
    np.testing.assert_array_equal(read(model.counts), read(other.counts))
    assert model.total_loss == pytest.approx(other.total_loss, rel=tolerance)
    assert model.n_positive == other.n_positive


# ---------------------------------------------------------------- every backend


@pytest.mark.parametrize(("solver", "rows"), [("scatter", 37), ("gram", 37), ("krylov", 37)])
def test_forms_agree_with_the_oracle(xp, blocks_of, solver, rows):
    if solver != "krylov":
        spare_compiling(xp)
    values, labels = problem_of(solver)
    held = frozen(xp.held(values))
    n, d = held.shape
    blocks_of(rows, held.itemsize * d)
    data = Rows(held)
    model = fit_there(xp, data, labels, solver=solver, **TIGHT)
    assert (model.solver, model.plan.where, model.plan.read_rows) == (solver, "blocks", rows)
    if xp.label in ("cupy", "torch-device", "torch-cuda"):  # two blocks are there at a time
        rows //= 2
    assert data.passes[0] == [(i, min(i + rows, n)) for i in range(0, n, rows)]
    oracle.assert_leading(model, xp, oracle.matrix(held, labels), held.dtype.name, K - 1)
    embedding = xp.numpy(model.transform(Rows(held)))
    components = xp.numpy(model.components)
    np.testing.assert_allclose(
        embedding, oracle.centred(held) @ components.T, atol=xp.tolerance(1e-12, 1e-5)
    )


@pytest.mark.parametrize("solver", FORMS)
def test_blocks_that_are_on_a_device_stay_there(xp, blocks_of, solver):
    spare_compiling(xp)
    held = xp.held(X)
    blocks_of(64, held.itemsize * D)
    there = xp.array(held)

    class OnDevice:
        shape, dtype = there.shape, held.dtype

        def __getitem__(self, index):
            return there[index, :]

    model = slce_xp.fit(OnDevice(), y, solver=solver)
    assert model.plan.where == "blocks"
    oracle.assert_leading(model, xp, oracle.matrix(held, y), held.dtype.name, K - 1)
    embedding = xp.numpy(model.transform(OnDevice()))
    np.testing.assert_allclose(
        embedding, xp.numpy(model.transform(there)), atol=xp.tolerance(1e-12, 1e-5)
    )
    np.testing.assert_array_equal(xp.numpy(there), held)


@pytest.mark.parametrize(
    "stored", [">f8", ">f4", "float16", "int64", "uint8", "bool", "longdouble"]
)
def test_dtypes_match_the_fit_in_memory(xp, blocks_of, tmp_path, stored):
    spare_compiling(xp)
    if xp.single and stored in (">f8", "longdouble"):
        pytest.skip("this device has no float64")
    if stored == "float16" and xp.printed in ("array_api_strict", "bare_standard"):
        pytest.skip("the standard has no float16")
    values = (X > 0.5) if stored == "bool" else np.abs(np.round(20 * X)).astype(stored)
    rows = np.memmap(tmp_path / "X.bin", stored, "w+", shape=values.shape)
    rows[:] = values
    blocks_of(50, 8 * D)
    model = fit_there(xp, rows, y, solver="scatter")
    assert model.plan.where == "blocks"
    eps = float(np.finfo(model.plan.dtype).eps)
    memory = fit_there(xp, values, y, solver="scatter")
    assert_same(model, memory, 1e4 * eps, xp.numpy)
    np.testing.assert_array_equal(rows, values)


@pytest.mark.parametrize("solver", FORMS)
def test_weights_and_unlabelled_samples_of_many_classes(xp, blocks_of, solver):
    """More classes than a one-hot product sums; weights of zero; labels that are missing."""
    spare_compiling(xp)
    rng = np.random.default_rng(62)
    n, d, n_classes = 400, 30, 90
    values, labels = oracle.blobs(n, d, n_classes, seed=63, separation=5.0, decay=0.3)
    values = frozen(xp.held(values))
    weights = rng.gamma(2.0, size=n)
    weights[::50] = 0.0
    weights[np.unique(labels, return_index=True)[1]] = 1.0  # no class without a sample
    unknown = rng.random(n) < 0.2
    unknown[np.unique(labels, return_index=True)[1]] = False
    blocks_of(67, values.itemsize * d)
    model = fit_there(
        xp,
        Rows(values),
        np.where(unknown, -1, labels),
        5,
        solver=solver,
        sample_weight=weights,
        unlabeled=-1,
        unlabeled_weight=0.3,
    )
    M = oracle.weighted_matrix(values, labels, weights, ~unknown, 0.3)
    oracle.assert_leading(model, xp, M, values.dtype.name, 5)


@pytest.mark.parametrize(
    ("solver", "n_classes"), [("scatter", 5), ("gram", 5), ("krylov", 5), ("scatter", 80)]
)
def test_class_weights_and_rows_one_at_a_time(blocks_of, solver, n_classes):
    values, labels = oracle.blobs(190, 200, n_classes, seed=64)
    blocks_of(1, 8 * 200)
    options = {"solver": solver, "class_weight": "balanced", "n_components": 4, **TIGHT}
    data = Rows(values)
    model = slce_xp.fit(data, labels, **options)
    assert data.passes[0] == [(i, i + 1) for i in range(190)]
    assert_same(model, slce_xp.fit(values, labels, **options), 1e-8)


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_accuracy_far_from_the_origin(blocks_of, solver, dtype):
    # Whole numbers of halves: exact in both dtypes, so that only the arithmetic rounds.
    values = (np.round(2 * X) / 2 + 2.0**16).astype(dtype)
    blocks_of(37, values.itemsize * D)
    model = slce_xp.fit(Rows(values), y, solver=solver)
    with make_backend("numpy") as backend:
        oracle.assert_leading(model, backend, oracle.matrix(values, y), dtype, K - 1)


@pytest.mark.parametrize("k", [None, "positive", D])
@pytest.mark.parametrize("solver", ["auto", *FORMS])
@pytest.mark.filterwarnings("ignore:n_components=17")
def test_any_number_of_components(blocks_of, solver, k):
    blocks_of(37, 8 * D)
    model = slce_xp.fit(Rows(X), y, k, solver=solver)
    values, _ = oracle.eigenpairs(X, y)
    np.testing.assert_allclose(
        model.eigenvalues, values[: model.n_components], atol=1e-11 * np.abs(values).max()
    )
    assert model.n_components == {None: K - 1, "positive": K - 1, D: D}[k]


@pytest.mark.parametrize("n", [2, 3, 7, 9])
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("solver", FORMS)
def test_few_rows(blocks_of, solver, n, d):
    rng = np.random.default_rng(74)
    values = rng.standard_normal((n, d)) + 10.0 * (np.arange(n) % 2)[:, None]
    blocks_of(2, 8 * d)
    model = slce_xp.fit(Rows(values), np.arange(n) % 2, solver=solver)
    assert_same(model, slce_xp.fit(values, np.arange(n) % 2, solver=solver), 1e-8)
    np.testing.assert_allclose(model.transform(Rows(values)), model.transform(values), atol=1e-12)


@pytest.mark.filterwarnings("ignore:n_components=60")
def test_null_space_of_wide_data_by_panels(blocks_of):
    values, labels = oracle.blobs(41, 90, 3, seed=65)
    blocks_of(6, 8 * 90)
    model = slce_xp.fit(Rows(values), labels, 60, solver="gram")
    memory = slce_xp.fit(values, labels, 60, solver="gram")
    np.testing.assert_allclose(
        model.eigenvalues, memory.eigenvalues, atol=1e-11 * memory.eigenvalues[0]
    )
    np.testing.assert_allclose(model.components @ model.components.T, np.eye(60), atol=1e-12)


# ---------------------------------------------------------------- row-sliceable inputs


def as_npy(values, path):
    np.save(path, values)
    return np.load(path, mmap_mode="r")


def as_slice_of_a_memmap(values, path):
    padded = np.full((len(values) + 500, values.shape[1]), np.nan)
    padded[300:-200] = values
    return as_npy(padded, path)[100:][200:-200]


def as_memmap_at_an_offset(values, path):
    with path.open("wb") as file:
        file.write(b"\xff" * 8191)
        file.write(values.tobytes())
    return np.memmap(path, values.dtype, "r", offset=8191, shape=values.shape)


def as_fortran(values, path):
    return as_npy(np.asfortranarray(values), path)


def as_copy_on_write(values, path):
    np.save(path, np.zeros_like(values))
    mapped = np.load(path, mmap_mode="c")
    mapped[:] = values  # in memory only
    return mapped


def as_every_other_row(values, path):
    return as_npy(np.repeat(values, 2, axis=0), path)[::2]


def as_some_columns(values, path):
    return as_npy(np.concatenate([values, values], axis=1), path)[:, : values.shape[1]]


def as_backwards(values, path):
    return as_npy(values[::-1].copy(), path)[::-1]


def as_deleted(values, path):
    mapped = as_npy(values, path)
    path.unlink()
    return mapped


def as_replaced(values, path):
    mapped = as_npy(values, path)
    np.save(path.with_name("new.npy"), values + 1.0)
    path.with_name("new.npy").replace(path)  # the map holds the old file
    return mapped


def as_hdf5(values, path, **options):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=values, **options)
    return h5py.File(path, "r")["X"]


def as_hdf5_in_chunks(values, path):
    return as_hdf5(values, path, chunks=(23, 5), compression="gzip")


def as_zarr(values, path):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(store=str(path), shape=values.shape, chunks=(31, 8), dtype="f8")
    array[:] = values
    return zarr.open_array(str(path), mode="r")


def as_class(values, path):
    return Rows(values)


def as_class_of_lists(values, path):
    return Rows(values, lambda rows: rows.tolist())


READ = [as_npy, as_slice_of_a_memmap, as_memmap_at_an_offset]
READ += [as_hdf5, as_hdf5_in_chunks, as_zarr, as_class, as_class_of_lists]
# Whose rows are not one after the other in the file: these are left to the system's paging.
MAPPED = [as_fortran, as_copy_on_write, as_every_other_row, as_some_columns, as_backwards]
MAPPED += [as_deleted, as_replaced]


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("given", READ + MAPPED, ids=lambda given: given.__name__)
def test_row_sliceable_inputs(blocks_of, tmp_path, given, solver):
    blocks_of(37, 8 * D)
    rows = given(X, tmp_path / "X.npy")
    model = slce_xp.fit(rows, y, solver=solver)
    assert model.plan.where == ("blocks" if given in READ else "memory")
    memory = slce_xp.fit(X, y, solver=solver)
    assert_same(model, memory, 1e-8)
    np.testing.assert_allclose(model.transform(rows), memory.transform(X), atol=1e-8)
    if hasattr(rows, "file"):
        rows.file.close()


def test_writable_memmap_is_read_with_its_current_values(blocks_of, tmp_path):
    mapped = np.memmap(tmp_path / "X.bin", "f8", "w+", shape=X.shape)
    mapped[:] = X  # not flushed
    blocks_of(37, 8 * D)
    assert_same(slce_xp.fit(mapped, y), slce_xp.fit(X, y), 1e-10)


def test_blocks_are_aligned_with_chunks(blocks_of, tmp_path):
    blocks_of(60, 8 * D)
    opened = []
    read = row_reader.RowReader.read
    for given, chunk in [(as_hdf5_in_chunks, 23), (as_zarr, 31)]:
        rows = given(X, tmp_path / given.__name__)
        with pytest.MonkeyPatch.context() as spy:
            spy.setattr(
                row_reader.RowReader, "read", lambda r, b, *more: opened.append(b) or read(r, b)
            )
            slce_xp.fit(rows, y, solver="scatter")
        step = 60 // chunk * chunk
        blocks = [slice(i, min(i + step, N)) for i in range(0, N, step)]
        assert opened[-len(blocks) :] == blocks
        if hasattr(rows, "file"):
            rows.file.close()


# ---------------------------------------------------------------- sparse blocks

GPUS = [p for p in LABELS if not isinstance(p, str)]
SPARSE = ["numpy", "torch", *[p for p in GPUS if p.values != ("dpnp",)]]


def sparse_counts(n, d, n_classes):
    rng = np.random.default_rng(66)
    labels = rng.permutation(np.arange(n) % n_classes)
    own = rng.permutation(np.arange(d) % n_classes) == labels[:, None]
    values = rng.poisson(0.1, (n, d)) + own * rng.poisson(3.0, (n, d))
    values[:80] *= rng.random((n, 1))[:80] < 0.1  # the first rows are not representative
    values[-3:] = 0
    return values.astype(np.float64), labels


@pytest.mark.parametrize("xp", SPARSE, indirect=True)
@pytest.mark.parametrize("solver", ["scatter", "krylov"])
@pytest.mark.parametrize("n_classes", [4, 70], ids=["few classes", "more classes than features"])
def test_sparse_blocks(xp, blocks_of, solver, n_classes):
    values, labels = sparse_counts(300, 40, n_classes)
    whole = sp.csr_array(values)
    blocks_of(64, 12 * whole.nnz // 300)
    weights = np.linspace(0.5, 2.0, 300)
    data = Rows(whole)
    model = fit_there(xp, data, labels, 3, solver=solver, sample_weight=weights)
    assert len(data.passes[0]) > 2
    M = oracle.weighted_matrix(values, labels, weights)
    oracle.assert_leading(model, xp, M, "float64", 3)
    embedding = xp.numpy(model.transform(data))
    mean = np.average(values, axis=0, weights=weights)
    np.testing.assert_allclose(
        embedding, (values - mean) @ xp.numpy(model.components).T, atol=1e-11
    )


@pytest.mark.parametrize("kind", ["csc_array", "coo_matrix", "lil_array"])
def test_kinds_of_sparse_blocks_and_integers(blocks_of, kind):
    values, labels = sparse_counts(300, 40, 4)
    blocks_of(64, 12 * 8)
    whole = sp.csr_array(values.astype(np.int32))
    data = Rows(whole, lambda rows: getattr(sp, kind)(rows))
    model = slce_xp.fit(data, labels, solver="krylov")
    assert_same(model, slce_xp.fit(values, labels, solver="krylov"), 1e-8)


def test_gram_form_of_sparse_blocks_raises():
    values, labels = sparse_counts(60, 20, 3)
    with pytest.raises(ValueError, match=r"sparse X.*; got 'gram'"):
        slce_xp.fit(Rows(sp.csr_array(values)), labels, solver="gram")


def test_first_rows_that_are_empty_do_not_make_one_block_of_all(blocks_of):
    values = np.ones((2000, 10))
    values[:500] = 0
    values[np.arange(2000), np.arange(2000) % 2] = 3.0
    values[:500] = 0
    blocks_of(100, 12 * 10)
    data = Rows(sp.csr_array(values))
    slce_xp.fit(data, np.arange(2000) % 2)
    assert max(stop - start for start, stop in data.passes[0]) <= 200


# ---------------------------------------------------------------- passes


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("solver", FORMS)
def test_pass_reads_each_row_once_and_the_plan_counts_the_passes(blocks_of, solver, far):
    n, d = 150, 160
    values, labels = oracle.blobs(n, d, 5, seed=67)
    values = values + 1e4 * far
    before = values.copy()
    blocks_of(16, 8 * d)  # panels of 32 rows, five of them
    data = Rows(values)
    model = slce_xp.fit(data, labels, "positive", solver=solver)
    counts = np.zeros(n, int)
    for read in data.passes:
        for start, stop in read:
            counts[start:stop] += 1
    if solver == "gram":
        # Of five panels the rows after each; a pass for the sums, one for the components, and one
        # that measures them.
        np.testing.assert_array_equal(counts, 3 + 1 + np.arange(n) // 32)
        assert model.plan.passes == 3 + 3
    else:
        expected = {"scatter": 1, "krylov": 1 + model.passes}[solver]
        assert len(data.passes) == expected
        np.testing.assert_array_equal(counts, expected)
        assert model.plan.passes == {"scatter": 1, "krylov": 1 + _problem.TYPICAL_PASSES}[solver]
    # In addition a few rows are read to find the shift, and one to find the type of the rows.
    others = [stop - start for thread, start, stop in data.reads if not thread.startswith(READER)]
    assert sum(others) <= 1 + 64
    np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("solver", FORMS)
def test_next_block_is_read_during_computation(monkeypatch, blocks_of, solver):
    """The work on a block waits for the next read to end: without a reader thread, forever."""
    ended = []  # reads of the reader thread
    news = threading.Condition()
    ahead = []

    def make(rows):
        with news:
            if threading.current_thread() in readers():
                ended.append(len(rows))
                news.notify_all()
        return rows

    read = file_rows.FileRows._read

    def slow(source, blocks):
        before = len(ended)
        for count, item in enumerate(read(source, blocks), 1):
            if count < len(blocks):
                with news:
                    assert news.wait_for(lambda due=before + count + 1: len(ended) >= due, 30)
                time.sleep(0.002)  # no further read: there is memory for two blocks
                ahead.append(len(ended) - before - count)
            yield item

    monkeypatch.setattr(file_rows.FileRows, "_read", slow)
    blocks_of(37, 8 * D)
    model = slce_xp.fit(Rows(X, make), y, solver=solver)
    assert_same(model, slce_xp.fit(X, y, solver=solver), 1e-8)
    assert set(ahead) == {1}


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "xp",
    ["torch-device", *GPUS],
    indirect=True,
)
@pytest.mark.parametrize(
    ("solver", "n", "d"), [("scatter", 60_000, 40), ("gram", 240, 20_000), ("krylov", 5_000, 1_000)]
)
@pytest.mark.parametrize("kind", ["plain", "far", "int64"])
def test_host_data_larger_than_the_device_stream_through_it(xp, monkeypatch, solver, n, d, kind):
    if solver == "gram" and kind == "int64":
        pytest.skip("takes half a minute, and other forms show this")
    rng = np.random.default_rng(68)
    labels = np.arange(n) % 3
    values = rng.standard_normal((n, d), dtype=np.float32)
    values[np.arange(n), labels] += 30.0 + 10.0 * labels  # no two eigenvalues nearly the same
    if kind == "far":
        values += np.float32(1e3)
    elif kind == "int64":
        values = (10 * values).astype(np.int64)
    monkeypatch.setattr(_problem, "WIDTH", 8)
    item = 8 if kind == "int64" and xp.name in ("cupy", "dpnp") else 4  # of integers
    # A third of X; half of it if sums are float64, as on a CPU.
    room = n * d * item // (2 if xp.name == "dpnp" else 3)
    give_back = limit_room(xp, monkeypatch, room)
    try:
        model = fit_there(xp, values, labels, "positive", solver=solver, max_iter=30)
        if xp.books:
            assert xp.books.peak_bytes <= xp.books.capacity
    finally:
        give_back()
    assert (model.plan.where, _problem.ITEMSIZES[model.plan.dtype]) == ("blocks", item)
    memory = slce_xp.fit(values.astype(model.plan.dtype), labels, "positive", solver=solver)
    assert_same(model.to("numpy"), memory, 1e-3)


@pytest.mark.parametrize("xp", SPARSE, indirect=True)
def test_sparse_host_data_larger_than_the_device_stream_through_it(xp, monkeypatch):
    if xp.name == "numpy":
        pytest.skip("there is no device to go to")
    values, labels = sparse_counts(3000, 200, 4)
    whole = sp.csr_array(values)
    monkeypatch.setattr(_problem, "WIDTH", 4)
    size = whole.data.nbytes + whole.indices.nbytes + whole.indptr.nbytes
    give_back = limit_room(xp, monkeypatch, size // 2)
    try:
        model = fit_there(xp, whole, labels, "positive", solver="krylov", tol=1e-9)
    finally:
        give_back()
    assert model.plan.where == "blocks"
    oracle.assert_leading(model, xp, oracle.matrix(values, labels), "float64", 3)


def peak_of(call):
    tracemalloc.start()
    try:
        result = call()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("stored", ["float64", "float32", "uint8", "int64"])
@pytest.mark.parametrize(
    ("solver", "n", "d"), [("scatter", 20_000, 150), ("gram", 120, 25_000), ("krylov", 4_000, 800)]
)
def test_peak_on_the_host_is_within_the_plan(monkeypatch, tmp_path, solver, n, d, stored):
    rng = np.random.default_rng(69)
    labels = np.arange(n) % 3
    values = 40 + 10 * rng.standard_normal((n, d))  # far enough to be shifted
    values[np.arange(n), labels] += 90.0
    rows = as_npy(values.astype(stored), tmp_path / "X.npy")
    del values
    monkeypatch.setattr(_problem, "WIDTH", 8)
    allowed = n * d * 8 // 2  # half of X in the dtype of sums
    options = {"solver": solver, "max_memory": allowed}
    slce_xp.fit(rows[:100], labels[:100], 2, **options)  # what is imported is not counted
    peak, model = peak_of(lambda: slce_xp.fit(rows, labels, 2, **options))
    assert model.plan.where == "blocks"
    assert peak <= model.plan.most_bytes <= allowed


@pytest.mark.parametrize("solver", ["scatter", "krylov"])
def test_peak_of_sparse_blocks_is_within_the_plan(monkeypatch, solver):
    n, d = 60_000, 300
    labels = np.arange(n) % 3
    noise = sp.random_array((n, d), density=0.1, format="csr", rng=np.random.default_rng(69))
    values = noise + 9.0 * sp.csr_array((np.ones(n), (np.arange(n), labels)), shape=(n, d))
    monkeypatch.setattr(_problem, "WIDTH", 8)
    options = {"solver": solver, "max_memory": "16MB"}
    slce_xp.fit(Rows(values[:100]), labels[:100], **options)  # what is imported is not counted
    peak, model = peak_of(lambda: slce_xp.fit(Rows(values), labels, **options))
    assert model.solver == solver
    assert peak <= model.plan.most_bytes


def test_device_memory_is_within_the_plan():
    with make_backend("torch-device") as xp:
        rng = np.random.default_rng(70)
        n, d = 20_000, 200
        labels = np.arange(n) % 3
        values = (50 + 10 * rng.standard_normal((n, d))).astype(np.int16)
        values[np.arange(n), labels] += 90
        for solver in ("scatter", "krylov"):
            xp.books.reset()
            start = xp.books.live_bytes
            model = fit_there(xp, Rows(values), labels, solver=solver, max_memory="8MB")
            peak = xp.books.peak_bytes - start
            assert peak <= model.plan.bytes + model.plan.block_bytes <= 8e6
            del model


def test_transform_holds_a_few_blocks_and_the_embedding(monkeypatch, tmp_path):
    rng = np.random.default_rng(71)
    values = rng.standard_normal((20_000, 100), dtype=np.float32)
    rows = as_npy(values, tmp_path / "X.npy")
    model = slce_xp.fit(values[:50], np.arange(50) % 3)
    monkeypatch.setattr(file_rows, "READ_BLOCK", 200_000)
    model.transform(rows[:10], tmp_path / "few.npy")
    peak, _ = peak_of(lambda: model.transform(rows, tmp_path / "Z.npy"))
    assert peak <= 6 * 200_000
    peak, embedding = peak_of(lambda: model.transform(rows))
    assert peak <= 2 * embedding.nbytes + 6 * 200_000


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_non_finite_values_are_found(blocks_of, solver, value):
    values = X.copy()
    values[201, 11] = values[201, 15] = values[220, 2] = value
    blocks_of(37, 8 * D)
    kind = "NaN" if np.isnan(value) else "infinity"
    message = f"found {kind} at row 201, column 11"
    with pytest.raises(ValueError, match=message):
        slce_xp.fit(Rows(values), y, solver=solver)
    if solver != "gram":
        with pytest.raises(ValueError, match=message):
            slce_xp.fit(Rows(sp.csr_array(values)), y, solver=solver)


def test_non_finite_values_are_found_on_every_backend(xp, blocks_of):
    spare_compiling(xp)
    values = xp.held(X).copy()
    values[77, 3] = np.nan
    blocks_of(37, values.itemsize * D)
    with pytest.raises(ValueError, match="found NaN at row 77, column 3"):
        fit_there(xp, Rows(values), y)


def failing(error, at, times=1, values=X):
    """Rows whose block with the row `at` fails, in its `times`-th pass."""
    met = []

    def make(rows):
        _, start, stop = data.reads[-1]
        if data.reads[-1][0].startswith(READER) and start <= at < stop:
            met.append(len(readers()))
            if len(met) == times:
                raise error
        return rows

    data = Rows(values, make)
    return data, met


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("times", [1, 2], ids=["first pass", "later pass"])
@pytest.mark.parametrize("at", [0, 100, N - 1])
def test_read_error_names_the_block_and_ends_the_reader(blocks_of, solver, times, at):
    if solver == "scatter" and times > 1:
        pytest.skip("that has one pass")
    values, labels = problem_of(solver)
    n = len(values)
    at = min(at, n - 1)
    blocks_of(37, 8 * values.shape[1])
    data, met = failing(RuntimeError("the disk is on fire"), at, times, values)
    start = at // 37 * 37
    message = (
        rf"X\[{start}:{min(start + 37, n)}\] could not be read \(RuntimeError: the disk.*repeated"
    )
    with pytest.raises(OSError, match=message) as caught:
        slce_xp.fit(data, labels, solver=solver)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert met == [1] * times  # there had been one reader
    assert not readers()
    options = {"solver": solver, **TIGHT}
    assert_same(slce_xp.fit(data, labels, **options), slce_xp.fit(values, labels, **options), 1e-8)


@pytest.mark.parametrize("solver", FORMS)
def test_interrupt_in_a_read_ends_the_reader(blocks_of, solver):
    blocks_of(37, 8 * D)
    data, met = failing(KeyboardInterrupt(), 100)
    with pytest.raises(KeyboardInterrupt):
        slce_xp.fit(data, y, solver=solver)
    assert met == [1]
    assert not readers()


def test_interrupt_during_computation_ends_the_reader(monkeypatch, blocks_of):
    blocks_of(37, 8 * D)
    alive = []

    def interrupted(*_):
        alive.append(len(readers()))
        raise KeyboardInterrupt

    monkeypatch.setattr(_centred, "_scatter_term", interrupted)
    data = Rows(X)
    with pytest.raises(KeyboardInterrupt):
        slce_xp.fit(data, y, solver="krylov")
    assert alive == [1]
    assert not readers()
    assert len(data.passes[1]) <= 2  # what was read ahead, and no more


@pytest.mark.parametrize("make", [lambda rows: rows[:-1], lambda rows: rows[:, 1:]])
def test_blocks_of_unexpected_shape_raise(blocks_of, make):
    blocks_of(37, 8 * D)
    data = Rows(X)
    data.make = lambda rows: make(rows) if data.reads[-1][2] == N > len(rows) > 7 else rows
    message = r"X\[222:230\] must have shape \(8, 17\), as X\.shape = \(230, 17\) says; got \(."
    with pytest.raises(ValueError, match=message):
        slce_xp.fit(data, y)


def test_non_numeric_blocks_raise():
    data = Rows(X.astype(str))
    with pytest.raises(TypeError, match="X must hold real numbers; got dtype"):
        slce_xp.fit(data, y)


def test_block_without_memory_raises_memory_error():
    class TooMuch:
        shape, dtype = X.shape, X.dtype

        def __getitem__(self, index):
            return np.empty(10**15) if index.start > 1 else X[index]

    with pytest.raises(MemoryError, match=r"ran out of memory.*max_memory"):
        slce_xp.fit(TooMuch(), y)


def test_truncated_file_is_named(blocks_of, tmp_path):
    rows = as_npy(X, tmp_path / "X.npy")
    os.truncate(tmp_path / "X.npy", 128 + 100 * 8 * D)
    blocks_of(37, 8 * D)
    with pytest.raises(
        OSError, match=r"X\[.*\] could not be read \(EOFError: .*X\.npy ends before"
    ):
        slce_xp.fit(rows, y)


def test_one_row_and_no_rows():
    with pytest.raises(ValueError, match="X must have at least one row"):
        slce_xp.fit(Rows(X[:0]), [])
    model = slce_xp.fit(X, y)
    assert model.transform(Rows(X[:0])).shape == (0, K - 1)
    np.testing.assert_allclose(model.transform(Rows(X[:1])), model.transform(X[:1]), atol=1e-13)


INTERRUPTED = """
import signal, sys, threading, time, warnings
warnings.filterwarnings("ignore", "no direction lowers the loss")
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have turned off
import numpy as np, slce_xp
from slce_xp._planning import problem as _memory
from slce_xp._data import file_rows
_memory.READ_BLOCK = file_rows.READ_BLOCK = 37 * 8 * 17
X = np.load(sys.argv[1])
class Slow:
    shape, dtype, read = X.shape, X.dtype, 0
    def __getitem__(self, index):
        if threading.current_thread() is not threading.main_thread():
            Slow.read += 1
            if Slow.read == 150:
                print("reading", flush=True)
            if Slow.read >= 150:
                time.sleep(0.5)  # to be in the middle of it for long enough
        return X[index]
y = np.arange(len(X)) % 3
try:
    if sys.argv[2] == "fit":
        slce_xp.fit(Slow(), y, solver="krylov")
    else:
        slce_xp.fit(X, y).transform(Slow(), out=sys.argv[2])
except KeyboardInterrupt:
    print([t.name for t in threading.enumerate() if t.name.startswith("slce_xp")], flush=True)
    raise
"""


@pytest.mark.parametrize("target", ["fit", "Z.npy", "Z.zarr"])
def test_interrupt_from_the_keyboard_leaves_nothing_behind(tmp_path, target):
    if target.endswith(".zarr"):
        pytest.importorskip("zarr")
    rows = 37 * (100 if target == "fit" else 300)  # it is in the middle of its second or only pass
    np.save(tmp_path / "X.npy", np.resize(X, (rows, D)))
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", INTERRUPTED, "X.npy", target],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(slce_xp.__file__))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "reading\n"
        assert target == "fit" or len(os.listdir(tmp_path)) == 2  # X.npy and a temporary
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert out == "[]\n"
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT
    assert os.listdir(tmp_path) == ["X.npy"]


# ---------------------------------------------------------------- real data


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        pytest.param("mnist", "scatter", marks=pytest.mark.slow),
        ("coil20", "scatter"),
        ("coil20", "krylov"),
        ("tcga_luad", "gram"),
        ("tcga_luad", "krylov"),
    ],
)
def test_real_data_agree_with_memory(data_folder, tmp_path, blocks_of, name, solver):
    values, labels = load_set(data_folder, name)
    values = values.astype(np.float64, order="C")
    values = np.log2(values + 1.0) if name == "tcga_luad" else values
    n, d = values.shape
    rows = as_npy(values, tmp_path / "X.npy")
    blocks_of(max(61, n // 12 + 1), 8 * d)  # the last block is ragged
    options = {"solver": solver, "tol": 1e-8}
    model = slce_xp.fit(rows, labels, **options)
    memory = slce_xp.fit(values, labels, **options)
    assert model.plan.where == "blocks"
    assert model.n_positive_bounds == memory.n_positive_bounds
    # Other eigenvalues are zero, and their directions arbitrary.
    bounds = model.angle_bounds + memory.angle_bounds
    proved = np.flatnonzero(np.isfinite(bounds))
    assert len(proved) > 0
    assert min(bounds[proved]) < 1e-5
    for j in proved:
        angle = oracle.largest_angle(model.components[: j + 1], memory.components[: j + 1])
        assert angle <= bounds[j]
    np.testing.assert_allclose(
        model.eigenvalues, memory.eigenvalues, atol=2e-8 * memory.eigenvalues[0]
    )


def test_wrong_number_of_dimensions_raises_before_reading():
    class Images:
        shape, dtype = (1000, 28, 28), np.dtype("uint8")

        def __getitem__(self, index):
            raise AssertionError("read")

        __array__ = __len__ = __getitem__

    with pytest.raises(ValueError, match=r"two-dimensional.*got shape \(1000, 28, 28\)"):
        slce_xp.fit(Images(), np.arange(1000) % 2)


# ---------------------------------------------------------------- types of blocks


class ReusedRows(Rows):
    """Rows in memory that the next read writes to, as h5py's `read_direct` into one array does.

    Parameters
    ----------
    count : int
        Buffers that take turns.
    least : int
        Fewer rows than that come in memory of their own.
    owned : bool
        Whether to give the buffer itself, not a part of it.
    """

    def __init__(self, values, dtype=None, count=1, least=1, owned=True):
        super().__init__(values, dtype=dtype)
        self._count = count
        self._least = least
        self._owned = owned
        self._buffers = {}

    def __getitem__(self, index):
        rows = super().__getitem__(index)
        length = index.stop - index.start
        if length < self._least:
            return rows
        key = (length if self._owned else 0, len(self.reads) % self._count)
        if key not in self._buffers:
            self._buffers[key] = 0 * self.values[: length if self._owned else N]
        buffer = self._buffers[key] if self._owned else self._buffers[key][:length]
        buffer[...] = rows
        return buffer


def slow_down(monkeypatch):
    """Let the next block be read before anything is done with this one."""
    put = file_rows.FileRows._put

    def late(self, rows):
        time.sleep(0.005)
        return put(self, rows)

    monkeypatch.setattr(file_rows.FileRows, "_put", late)


@pytest.mark.parametrize("owned", [True, False], ids=["the buffer", "a part of it"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("least", [1, 12], ids=["all reads", "large reads"])
@pytest.mark.parametrize("solver", FORMS)
def test_rows_in_a_reused_buffer(monkeypatch, blocks_of, solver, least, count, owned):
    blocks_of(31, 8 * D)
    slow_down(monkeypatch)
    data = ReusedRows(X, count=count, least=least, owned=owned)
    model = slce_xp.fit(data, y, solver=solver)
    assert_same(model, slce_xp.fit(X, y, solver=solver), 1e-10)
    np.testing.assert_allclose(model.transform(data), model.transform(X), atol=1e-12)


def test_rows_in_a_reused_buffer_of_another_library(xp, monkeypatch, blocks_of):
    if xp.name not in ("torch", "cupy"):
        pytest.skip("arrays that cannot be written to, or of NumPy")
    spare_compiling(xp)
    held = xp.held(X)
    blocks_of(31, held.itemsize * D)
    slow_down(monkeypatch)
    data = ReusedRows(xp.array(held), held.dtype)
    model = slce_xp.fit(data, y, solver="scatter")
    other = slce_xp.fit(xp.array(held), y, solver="scatter")
    assert_same(model, other, xp.tolerance(1e-10, 1e-4), xp.numpy)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("kind", ["scipy", "torch"])
def test_sparse_rows_in_reused_buffers(monkeypatch, blocks_of, kind):
    """Values, columns and pointers in the same arrays each time: as one chunk after the other."""
    values, labels = sparse_counts(300, 40, 4)
    whole = sp.csr_array(values)
    blocks_of(64, 12 * whole.nnz // 300)
    slow_down(monkeypatch)
    held = [np.empty(whole.nnz), np.empty(whole.nnz, np.int32), np.empty(301, np.int32)]

    def fill(rows):
        parts = []
        for buffer, part in zip(held, (rows.data, rows.indices, rows.indptr), strict=True):
            buffer[: len(part)] = part
            parts.append(buffer[: len(part)])
        if kind == "scipy":
            block = sp.csr_array((0, 40))
            block.data, block.indices, block.indptr = parts
            block._shape = rows.shape
            return block
        torch = pytest.importorskip("torch")
        data, columns, pointers = map(torch.from_numpy, parts)
        return torch.sparse_csr_tensor(pointers, columns, data, rows.shape, check_invariants=False)

    model = slce_xp.fit(Rows(whole, fill), labels, solver="scatter")
    assert_same(model, slce_xp.fit(whole, labels, solver="scatter"), 1e-10, _to_numpy)


def _to_numpy(x):
    return x.numpy() if hasattr(x, "numpy") else np.asarray(x)


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_of_an_array_in_memory_are_not_copied(order):
    values = np.array(X, order=order)
    assert np.shares_memory(row_reader.RowReader(values).read(slice(3, 9)), values)


@pytest.mark.parametrize("given", ["h5py", "zarr", "memmap", "array"])
def test_rows_of_known_kinds_are_not_copied(tmp_path, given):
    if given == "memmap":
        assert not row_reader.RowReader(as_npy(X, tmp_path / "X.npy")).copies
    elif given == "array":
        assert not row_reader.RowReader(X).copies
    elif given == "h5py":
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "X.h5", "w") as file:
            assert not row_reader.RowReader(file.create_dataset("X", data=X)).copies
    else:
        zarr = pytest.importorskip("zarr")
        data = zarr.create_array(store=str(tmp_path / "X.zarr"), data=X)
        assert not row_reader.RowReader(data).copies


@pytest.mark.parametrize("solver", FORMS)
def test_peak_with_copies_of_blocks_is_within_the_plan(monkeypatch, solver):
    n, d = (120, 25_000) if solver == "gram" else (20_000, 150)
    rng = np.random.default_rng(69)
    labels = np.arange(n) % 3
    values = 40 + 10 * rng.standard_normal((n, d))
    values[np.arange(n), labels] += 90.0
    monkeypatch.setattr(_problem, "WIDTH", 8)
    rows = Rows(values, np.copy)
    options = {"solver": solver, "max_memory": values.nbytes // 2}
    slce_xp.fit(Rows(values[:100], np.copy), labels[:100], 2, **options)  # imports
    peak, model = peak_of(lambda: slce_xp.fit(rows, labels, 2, **options))
    assert peak <= model.plan.most_bytes <= values.nbytes // 2


def test_blocks_with_masked_entries_raise(blocks_of):
    blocks_of(31, 8 * D)
    model = slce_xp.fit(Rows(X, np.ma.masked_array), y)  # as netCDF4 gives them
    assert_same(model, slce_xp.fit(X, y), 1e-10)
    gaps = Rows(X, lambda rows: np.ma.masked_equal(rows, X[100, 2]))
    with pytest.raises(TypeError, match=r"X\[\d+:\d+\] must not be a masked array.*fill it"):
        slce_xp.fit(gaps, y)


@pytest.mark.parametrize("first", ["dense", "sparse"])
def test_blocks_of_two_kinds_raise(blocks_of, first):
    blocks_of(31, 8 * D)
    rows = Rows(
        X,
        lambda rows: rows if (rows[0, 0] == X[0, 0]) == (first == "dense") else sp.csr_array(rows),
    )
    with pytest.raises(TypeError, match=rf"throughout; the first is {first}, and X\["):
        slce_xp.fit(rows, y)
