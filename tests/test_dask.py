"""Dask arrays: fits of chunks of every shape and kind agree with fits in memory."""

import collections
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings

import numpy as np
import oracle
import pytest
import scipy.sparse as sp
from conftest import load_set, make_backend

import slce_xp
from slce_xp.core import _rows

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")

import cloudpickle  # noqa: E402
from dask.callbacks import Callback  # noqa: E402
from dask.delayed import Delayed  # noqa: E402
from dask.distributed import Client, LocalCluster, wait  # noqa: E402
from patching import replace_in_backend  # noqa: E402

from slce_xp._data import dask_rows  # noqa: E402

SOLVERS = ("scatter", "gram", "krylov")
TIGHT = {"tol": 1e-12}  # an iteration then stops at rounding
TALL, WIDE = oracle.blobs(240, 18, 4, seed=61), oracle.blobs(48, 150, 4, seed=62)
PROBLEMS = {"tall": TALL, "wide": WIDE}
# By rows, by columns, both, ragged ones, of one row, and one alone.
CUTS = {
    "rows": (0.3, 1.0),
    "columns": (1.0, 0.3),
    "both": (0.3, 0.3),
    "ragged": ((7, 0, 29, 1, None), (1, None, 5)),
    "single rows": (0.0, 1.0),
    "one": (1.0, 1.0),
}


def sizes(cut, length):
    """Chunk sizes of an axis: a share of it, or given ones and the rest."""
    if isinstance(cut, float):
        return max(1, int(cut * length))
    rest = length - sum(size or 0 for size in cut)
    return tuple(rest if size is None else size for size in cut)


def chunked(X, cut):
    return da.from_array(X, chunks=tuple(map(sizes, CUTS[cut], X.shape)))


@pytest.fixture(autouse=True, params=["synchronous"])
def scheduler(request):
    """Set the scheduler explicitly."""
    with dask.config.set(scheduler=request.param):
        yield request.param


@pytest.fixture(scope="module")
def client():
    """Two worker processes, which are started again when they die."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about ports and clocks
        cluster = LocalCluster(2, threads_per_worker=1, dashboard_address=None, memory_limit=0)
    with cluster, Client(cluster, set_as_default=False) as client:
        yield client


@contextlib.contextmanager
def computing_with(client):
    # By name: workers that are started again are given the configuration.
    with client.as_current(), dask.config.set(scheduler="distributed"):
        yield


def assert_same(model, other, tolerance=1e-10):
    """Two models of the same data agree to rounding, components relative to the gap."""
    assert model.components.shape == other.components.shape
    assert model.components.dtype == other.components.dtype
    assert oracle.largest_angle(model.components, other.components) < 1e2 * tolerance
    scale = np.abs(other.eigenvalues).max()
    np.testing.assert_allclose(model.eigenvalues, other.eigenvalues, atol=tolerance * scale)
    for name in ("mean", "centroids", "weights"):
        one, two = getattr(model, name), getattr(other, name)
        np.testing.assert_allclose(one, two, atol=tolerance * np.abs(two).max())
    np.testing.assert_array_equal(model.counts, other.counts)
    np.testing.assert_array_equal(model.classes, other.classes)
    assert model.n_positive == other.n_positive
    assert model.total_loss == pytest.approx(other.total_loss, rel=tolerance)


# ---------------------------------------------------------------- the same answer


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("solver", [*SOLVERS, "auto"])
def test_forms_agree_with_the_oracle(dtype, solver, cut, problem):
    X, y = PROBLEMS[problem]
    X = X.astype(dtype)
    model = slce_xp.fit(chunked(X, cut), y, solver=solver, **TIGHT)
    with make_backend("numpy") as backend:
        oracle.assert_leading(model, backend, oracle.matrix(X, y), dtype, 3)
    smaller = "gram" if problem == "wide" else "scatter"
    assert model.solver == (solver if solver in ("scatter", "krylov") else smaller)
    assert model.plan.where == "cluster"


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("cut", ["columns", "ragged"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_far_from_the_origin(solver, cut, problem):
    X, y = PROBLEMS[problem]
    far = X + 1e6
    model = slce_xp.fit(chunked(far, cut), y, solver=solver)
    values, vectors = oracle.eigenpairs(far - far.mean(axis=0), y)
    assert oracle.largest_angle(model.components, vectors[:3]) < 1e-8
    np.testing.assert_allclose(model.eigenvalues, values[:3], rtol=1e-9)


@pytest.mark.parametrize("stored", ["float16", "int64", "uint8", "bool", "longdouble", ">f4"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_other_dtypes_are_converted(solver, stored):
    X, y = TALL
    X = (8 * (X - X.min())).astype("uint8").astype(stored) if stored != "bool" else X > 0
    model = slce_xp.fit(chunked(X, "ragged"), y, solver=solver)
    single = stored in ("float16", ">f4")
    assert model.components.dtype == (np.float32 if single else np.float64)
    assert_same(model, slce_xp.fit(X, y, solver=solver), 1e-5 if single else 1e-10)


@pytest.mark.filterwarnings("ignore:n_components=.* only the first")
@pytest.mark.parametrize("cut", ["rows", "ragged"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_many_classes(solver, cut):
    X, y = oracle.blobs(400, 90, 80, seed=63)
    model = slce_xp.fit(chunked(X, cut), y, solver=solver)
    with make_backend("numpy") as backend:
        oracle.assert_leading(model, backend, oracle.matrix(X, y), "float64", 79)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_and_unlabelled_samples(solver, kind, problem):
    if kind == "sparse" and solver == "gram":
        pytest.skip("refused for sparse data")
    X, y = PROBLEMS[problem]
    rng = np.random.default_rng(64)
    weights = rng.gamma(2.0, size=len(X))
    weights[::7] = 0.0
    marked = np.where(rng.random(len(X)) < 0.3, -1, y)
    x = chunked(X, "ragged")
    x = x.map_blocks(sp.csr_array) if kind == "sparse" else x
    weighted = slce_xp.fit(x, y, sample_weight=da.from_array(weights, chunks=31), solver=solver)
    halved = slce_xp.fit(
        x, marked, sample_weight=weights, unlabeled=-1, unlabeled_weight=0.5, solver=solver
    )
    with make_backend("numpy") as backend:
        M = oracle.weighted_matrix(X, y, weights)
        oracle.assert_leading(weighted, backend, M, "float64", 3)
        M = oracle.weighted_matrix(X, y, weights, marked != -1, 0.5)
        oracle.assert_leading(halved, backend, M, "float64", 3)
    assert halved.n_unlabeled == int(((marked == -1) & (weights > 0)).sum())


@pytest.mark.parametrize("solver", SOLVERS)
def test_components_that_are_not_positive(solver):
    X, y = WIDE
    d = X.shape[1]
    with pytest.warns(UserWarning, match="lower the loss"):
        model = slce_xp.fit(chunked(X, "both"), y, d, solver=solver)
    values, _ = oracle.eigenpairs(X, y)
    np.testing.assert_allclose(model.eigenvalues, values, atol=1e-11 * np.abs(values).max())
    np.testing.assert_allclose(model.components @ model.components.T, np.eye(d), atol=1e-12)


def test_labels_may_be_a_dask_vector_of_any_chunks():
    X, y = TALL
    names = np.array(["ant", "bee", "cat", "dog"])[y]
    expected = slce_xp.fit(X, names)
    x = chunked(X, "both")
    unknown = da.from_array(np.append(names, ["?"]), chunks=50)
    unknown = unknown[unknown != "?"]
    assert np.isnan(unknown.shape[0])
    for labels in (names, list(names), da.from_array(names, chunks=17), unknown):
        model = slce_xp.fit(x, labels)
        assert_same(model, expected)
        assert list(model.classes) == ["ant", "bee", "cat", "dog"]
    assert_same(slce_xp.fit(X, da.from_array(names, chunks=17)), expected)  # and X in memory
    with pytest.raises(ValueError, match=r"y must .*240"):
        slce_xp.fit(x, da.from_array(names[:-1], chunks=17))


@pytest.mark.parametrize("solver", SOLVERS)
def test_chunks_without_rows(solver):
    """Chunks after filtering, with computed sizes."""
    X, y = TALL
    x = da.from_array(np.concatenate([X[:40] - 100, X, X[:40] - 100]), chunks=(40, 7))
    x = x[x[:, 0] > -50].compute_chunk_sizes()
    assert 0 in x.chunks[0]
    assert x.chunks[0][0] == 0
    assert_same(slce_xp.fit(x, y, solver=solver), slce_xp.fit(X, y, solver=solver))
    if solver != "gram":
        model = slce_xp.fit(x.map_blocks(sp.csr_array), y, solver=solver)
        assert_same(model, slce_xp.fit(X, y, solver=solver))


@pytest.mark.filterwarnings("ignore:n_components=3 was asked for")
def test_outlier_in_a_single_row_chunk_keeps_accuracy():
    """It is one of the rows that the centre is the mean of."""
    X, y = TALL
    X = np.concatenate([X[:1] + 1e9, X[1:]])
    x = da.from_array(X, chunks=((1, 100, 139), 18))
    model = slce_xp.fit(x, y)
    for code in set(range(4)) - {y[0]}:
        np.testing.assert_allclose(
            model.centroids[code], X[y == code].mean(axis=0), atol=1e-16 * 1e9
        )


@pytest.mark.parametrize("name", ["mnist", "coil20", "tcga_luad"])
@pytest.mark.parametrize("cut", ["both", "ragged"])
def test_real_data_agree_with_memory(data_folder, name, cut, scheduler):
    X, y = load_set(data_folder, name)
    X = X[::8].astype(np.float64) if name == "mnist" else X.astype(np.float64)
    y = y[::8] if name == "mnist" else y
    X = np.log2(X + 1.0) if name == "tcga_luad" else X
    expected = slce_xp.fit(X, y, "positive")
    model = slce_xp.fit(chunked(X, cut), y, "positive")
    assert model.n_positive == expected.n_positive
    assert oracle.largest_angle(model.components, expected.components) < 1e-8
    np.testing.assert_allclose(model.eigenvalues, expected.eigenvalues, rtol=1e-8)


# ---------------------------------------------------------------- kinds of chunks


SPARSE_KINDS = ["csr_array", "csr_matrix", "csc_array", "coo_array"]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("cut", ["rows", "both", "ragged", "single rows"])
@pytest.mark.parametrize("solver", ["scatter", "krylov", "auto"])
def test_sparse_chunks(dtype, solver, cut, problem):
    X, y = PROBLEMS[problem]
    X = np.where(np.abs(X) > 0.1, X, 0.0).astype(dtype)
    model = slce_xp.fit(chunked(X, cut).map_blocks(sp.csr_array), y, solver=solver)
    with make_backend("numpy") as backend:
        oracle.assert_leading(model, backend, oracle.matrix(X, y), dtype, 3)


@pytest.mark.parametrize("kind", SPARSE_KINDS)
@pytest.mark.parametrize("solver", ["scatter", "krylov"])
def test_kinds_of_sparse_chunks(kind, solver):
    if not hasattr(getattr(sp, kind), "__getitem__"):
        pytest.skip(f"Dask slices chunks, and this SciPy's {kind} cannot be sliced")
    X, y = TALL
    X = (np.abs(X) > 0.5).astype("uint8")
    x = chunked(X, "rows").map_blocks(getattr(sp, kind))
    model = slce_xp.fit(x, y, solver=solver)
    assert_same(model, slce_xp.fit(X, y, solver=solver))
    made = model.transform(x).compute()
    np.testing.assert_allclose(made, model.transform(X), atol=1e-12)


def test_gram_form_raises_for_sparse_chunks():
    X, y = WIDE
    with pytest.raises(ValueError, match=r"solver must be .* for a sparse X.*; got 'gram'"):
        slce_xp.fit(chunked(X, "rows").map_blocks(sp.csr_array), y, solver="gram")


def test_blocks_of_sparse_chunks_are_made_dense_for_a_second_moment_only(monkeypatch):
    monkeypatch.setattr(_rows, "LEAST_BLOCK", 2**12)
    X, y = oracle.blobs(900, 18, 4, seed=61)
    x = chunked(X, "rows").map_blocks(sp.csr_array).persist()
    made = []
    to_dense = sp.csr_array.toarray

    def watched(self, *args, **options):
        made.append(self.shape[0])
        return to_dense(self, *args, **options)

    monkeypatch.setattr(sp.csr_array, "toarray", watched)
    monkeypatch.setattr(sp.csr_array, "todense", None)
    for solver in ("krylov", "scatter"):
        model = slce_xp.fit(x, y, solver=solver, **TIGHT)
        model.transform(x).compute()
        assert_same(model, slce_xp.fit(X, y, solver=solver, **TIGHT))
        assert bool(made) == (solver == "scatter")
    assert sum(made) <= 900 + 64  # of each row once, and of those that are probed
    assert max(made) < 100  # of 270 rows in a chunk


@pytest.mark.parametrize("solver", ["scatter", "krylov"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_peak_of_a_worker_is_a_few_blocks(monkeypatch, kind, solver):
    monkeypatch.setattr(_rows, "LEAST_BLOCK", 2**18)
    X, y = oracle.blobs(20_000, 40, 3, seed=65)
    X[np.abs(X) < 0.3] = 0.0
    before = X.copy()
    x = da.from_array(X, chunks=(10_000, 40))
    x = (x.map_blocks(sp.csr_array) if kind == "sparse" else x).persist()
    slce_xp.fit(x[:100], y[:100], solver=solver)  # what is imported is not counted
    tracemalloc.start()
    try:
        slce_xp.fit(x, y, solver=solver)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 2  # a chunk is half of X
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("cut", ["rows", "both"])
def test_tasks_hold_neither_x_nor_its_graph(monkeypatch, solver, cut):
    """A task has its own chunk, vectors, and the labels of its rows."""
    X, y = oracle.blobs(60, 9000, 3) if solver == "gram" else oracle.blobs(9000, 40, 3)
    loads = Loads(X, cut, "map_blocks").array
    largest = []

    def compute(*lazy):
        for one in lazy:
            if isinstance(one, Delayed):
                graph = dict(one.__dask_graph__())
                largest.append(max(len(cloudpickle.dumps(task)) for key, task in graph.items()
                                   if "load" not in str(key)))  # fmt: skip
        return dask.compute(*lazy)

    monkeypatch.setattr(dask_rows, "compute", compute)
    slce_xp.fit(loads, y, solver=solver)
    assert largest
    assert max(largest) < X.nbytes / 4


@pytest.mark.gpu
@pytest.mark.parametrize("xp", ["cupy"], indirect=True)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("cut", ["rows", "both", "ragged"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_cupy_chunks_stay_on_the_device(xp, monkeypatch, solver, cut, problem):
    import cupy

    X, y = PROBLEMS[problem]
    x = chunked(X, cut).map_blocks(cupy.asarray).persist()
    sizes_of_data = {X.size, *(r * c for r in x.chunks[0] for c in x.chunks[1] if r * c > 100)}
    get = cupy.ndarray.get

    def watched(array, *args, **options):
        assert array.size not in sizes_of_data, "data were read by the host"
        return get(array, *args, **options)

    replace_in_backend(monkeypatch, "to_host", lambda a: watched(a) if hasattr(a, "get") else a)
    model = slce_xp.fit(x, y, solver=solver)
    for name in ("components", "eigenvalues", "mean", "centroids", "counts", "weights"):
        assert type(getattr(model, name)) is cupy.ndarray
    embedded, rebuilt = model.transform(x), model.reconstruct(x)
    assert type(embedded._meta) is type(rebuilt._meta) is cupy.ndarray
    assert type(embedded.compute()) is type(rebuilt.compute()) is cupy.ndarray
    monkeypatch.undo()
    oracle.assert_leading(model, xp, oracle.matrix(X, y), "float64", 3)
    local = model.to("numpy")
    np.testing.assert_allclose(xp.numpy(embedded.compute()), local.transform(X), atol=1e-10)
    np.testing.assert_allclose(xp.numpy(rebuilt.compute()), local.reconstruct(X), atol=1e-10)
    with pytest.raises(ValueError, match="X must be where the model is"):
        local.transform(x)


@pytest.mark.gpu
@pytest.mark.parametrize("xp", ["cupy"], indirect=True)
@pytest.mark.parametrize("solver", ["scatter", "krylov"])
def test_sparse_cupy_chunks(xp, solver):
    import cupy
    from cupyx.scipy import sparse

    X, y = TALL
    x = chunked(X, "rows").map_blocks(lambda chunk: sparse.csr_matrix(cupy.asarray(chunk)))
    model = slce_xp.fit(x, y, solver=solver)
    oracle.assert_leading(model, xp, oracle.matrix(X, y), "float64", 3)
    embedded = model.transform(x).compute()
    assert type(embedded) is cupy.ndarray
    local = model.to("numpy").transform(X)
    np.testing.assert_allclose(xp.numpy(embedded), local, atol=1e-10)


# ---------------------------------------------------------------- errors


def test_unknown_chunk_sizes_raise_with_a_remedy():
    X, y = TALL
    x = chunked(X, "rows")
    x = x[x[:, 0] > -1e9]
    with pytest.raises(ValueError, match=r"X must have chunks of known sizes.*compute_chunk_sizes"):
        slce_xp.fit(x, y)
    model = slce_xp.fit(X, y)
    with pytest.raises(ValueError, match=r"Z must have chunks of known sizes"):
        model.inverse_transform(x[:, :3])
    assert_same(slce_xp.fit(x.compute_chunk_sizes(), y), model)


def test_dask_frames_raise_with_a_remedy():
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y = TALL
    frame = dd.from_pandas(pd.DataFrame(X, columns=[f"c{i}" for i in range(18)]), npartitions=3)
    with pytest.raises(TypeError, match=r"X must be a Dask array.*to_dask_array\(lengths=True\)"):
        slce_xp.fit(frame, y)
    with pytest.raises(ValueError, match="known sizes"):
        slce_xp.fit(frame.to_dask_array(), y)
    series = dd.from_pandas(pd.Series(y), npartitions=5)
    model = slce_xp.fit(frame.to_dask_array(lengths=True), series.to_dask_array())
    assert_same(model, slce_xp.fit(X, y))


@pytest.mark.parametrize("options", [{"backend": "numpy"}, {"device": "cpu"}])
def test_another_backend_raises_with_a_remedy(options):
    X, y = TALL
    with pytest.raises(ValueError, match=r"backend and device must be None.*map_blocks"):
        slce_xp.fit(chunked(X, "rows"), y, **options)


def test_masked_chunks_raise_with_a_remedy():
    X, y = TALL
    x = da.ma.masked_greater(chunked(X, "rows"), 1.0)
    with pytest.raises(TypeError, match=r"X must not be a masked array.*da\w*\.array\.ma\.filled"):
        slce_xp.fit(x, y)


@pytest.mark.parametrize("solver", SOLVERS)
def test_chunks_that_differ_from_meta_raise_with_a_remedy(solver):
    X, y = TALL
    hidden = da.from_delayed(dask.delayed(sp.csr_array)(X), X.shape, dtype=X.dtype)
    with pytest.raises(TypeError, match=r"X must have chunks of the kind.*ndarray; got csr_array"):
        slce_xp.fit(hidden, y, solver=solver)
    if solver != "gram":
        x = chunked(X, "rows").map_blocks(lambda c: c, meta=sp.csr_array((0, 0)))
        with pytest.raises(TypeError, match=r"sparse chunks|csr_array; got ndarray.*meta="):
            slce_xp.fit(x, y, solver=solver)


def test_sparse_chunk_among_dense_ones_raises():
    """The shift of data far from the origin would be silently ignored for it."""
    X, y = TALL
    X = X + 1e6

    def make(chunk, block_info=None):
        return sp.csr_array(chunk) if block_info[0]["chunk-location"][0] == 2 else chunk

    x = chunked(X, "rows").map_blocks(make, meta=np.empty((0, 0)))
    with pytest.raises(TypeError):
        slce_xp.fit(x, y)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_first_nan_is_located(solver, kind):
    if kind == "sparse" and solver == "gram":
        pytest.skip("refused for sparse data")
    X, y = TALL
    X = X.copy()
    X[200, 3] = np.nan
    X[123, 16] = np.inf
    X[123, 17] = np.nan
    x = chunked(X, "both")
    x = x.map_blocks(sp.csr_array) if kind == "sparse" else x
    with pytest.raises(ValueError, match="found infinity at row 123, column 16"):
        slce_xp.fit(x, y, solver=solver)


def test_max_memory_is_respected():
    X, y = TALL
    with pytest.raises(MemoryError, match="max_memory must leave room"):
        slce_xp.fit(chunked(X, "rows"), y, max_memory="1KB")


# ---------------------------------------------------------------- the model on Dask arrays


class ForbiddenError(Exception):
    pass


def no_scheduler(*_, **__):
    raise ForbiddenError


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("cut", CUTS)
def test_transform_is_lazy_and_correct(cut, kind):
    X, y = TALL
    model = slce_xp.fit(X + 1e3, y)
    x = chunked(X + 1e3, cut)
    x = x.map_blocks(sp.csr_array) if kind == "sparse" else x
    with dask.config.set(scheduler=no_scheduler):
        embedded = model.transform(x)
        rebuilt = model.reconstruct(x)
        again = model.inverse_transform(embedded.rechunk((50, 2)))
        with pytest.raises(ForbiddenError):
            embedded.compute()
    for lazy, expected in (
        (embedded, model.transform(X + 1e3)),
        (rebuilt, model.reconstruct(X + 1e3)),
        (again, model.reconstruct(X + 1e3)),
    ):
        assert isinstance(lazy, da.Array)
        assert lazy.shape == expected.shape
        assert lazy.dtype == expected.dtype
        made = lazy.compute()
        assert type(made) is np.ndarray
        assert made.dtype == lazy.dtype
        # A sparse chunk is not centred before the product: accuracy depends on its mean.
        np.testing.assert_allclose(made, expected, atol=1e-9 if kind == "sparse" else 1e-11)
        blocks = dask.compute(*lazy.to_delayed()[:, 0])
        assert tuple(len(block) for block in blocks) == lazy.chunks[0]
    if x.numblocks[1] == 1:  # others are made of whole rows
        assert embedded.chunks[0] == x.chunks[0]


def test_embedding_dtype_matches_the_fit_in_memory():
    X, y = TALL
    model = slce_xp.fit(X.astype("float32"), y)
    for stored in ("float16", "float32", "float64", "int32"):
        lazy = model.transform(chunked(X.astype(stored), "both"))
        expected = model.transform(X.astype(stored))
        assert lazy.dtype == expected.dtype == lazy.compute().dtype
        np.testing.assert_allclose(lazy.compute(), expected, atol=1e-5)


def test_invalid_dask_samples_raise():
    X, y = TALL
    model = slce_xp.fit(X, y)
    x = chunked(X, "both")
    with pytest.raises(ValueError, match=r"out must be None for a Dask array.*to_zarr"):
        model.transform(x, out="Z.npy")
    with pytest.raises(ValueError, match="X must have 18 columns"):
        model.transform(x[:, :5])
    with pytest.raises(TypeError, match="Z must be dense"):
        model.inverse_transform(model.transform(x).map_blocks(sp.csr_array))


# ---------------------------------------------------------------- one graph, one reading


class Loads:
    """A Dask array whose chunks are made by a function that counts."""

    def __init__(self, X, cut, way):
        self.counts = collections.Counter()
        lock = threading.Lock()
        chunks = da.core.normalize_chunks(tuple(map(sizes, CUTS[cut], X.shape)), X.shape)
        rows, columns = (np.cumsum([0, *c]) for c in chunks)

        def load(i, j):
            with lock:
                self.counts[i, j] += 1
            return X[rows[i] : rows[i + 1], columns[j] : columns[j + 1]]

        def load_block(block_info=None):
            return load(*block_info[None]["chunk-location"])

        loads = self

        class File:
            shape, dtype, ndim = X.shape, X.dtype, 2

            def __getitem__(self, index):
                lines, _ = index
                with lock:
                    loads.counts[lines.start] += lines.stop - lines.start
                return X[index]

        meta = np.empty((0, 0), X.dtype)
        if way == "map_blocks":
            self.array = da.map_blocks(load_block, chunks=chunks, meta=meta)
        elif way == "arithmetic":
            self.array = da.map_blocks(load_block, chunks=chunks, meta=meta) * 2.0 + 1.0
        elif way == "sparse":
            self.array = da.map_blocks(load_block, chunks=chunks, meta=meta)
            self.array = self.array.map_blocks(sp.csr_array)
        elif way == "file":
            self.array = da.from_array(File(), chunks=chunks, asarray=False, meta=meta)
        else:
            one = dask.delayed(load, pure=False)
            self.array = da.block(
                [
                    [da.from_delayed(one(i, j), (r, c), meta=meta) for j, c in enumerate(chunks[1])]
                    for i, r in enumerate(chunks[0])
                ]
            )


class Graphs(Callback):
    def __init__(self):
        super().__init__(start=lambda dsk: self.sizes.append(len(dsk)))
        self.sizes = []


def passes_of(model, X):
    """Passes over X, including the one for class sums."""
    if model.solver == "krylov":
        if 16 * len(X) >= X.shape[1]:
            return 1 + model.passes
        # There and back for vectors of samples, which are mapped to features and measured at last.
        return 1 + 2 * model.passes + 2
    return {"scatter": 1, "gram": 4}[model.solver]


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"], indirect=True)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("way", ["map_blocks", "delayed", "arithmetic", "sparse"])
@pytest.mark.parametrize("cut", ["rows", "columns", "both"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_pass_is_one_graph_and_loads_each_chunk_once(scheduler, solver, cut, way, problem):
    if way == "sparse" and solver == "gram":
        pytest.skip("refused for sparse data")
    X, y = PROBLEMS[problem]
    loads = Loads(X, cut, way)
    with Graphs() as graphs:
        model = slce_xp.fit(loads.array, y, solver=solver)
    passes = passes_of(model, X)
    # One more reads the first row of chunks, for a point near the mean, if rows are shifted.
    probes = 0 if way == "sparse" and solver == "krylov" else 1
    assert len(graphs.sizes) == passes + probes
    first = {n for (i, _), n in loads.counts.items() if i == 0}
    others = {n for (i, _), n in loads.counts.items() if i > 0}
    assert first == {passes + probes}
    assert others == (set() if cut == "columns" else {passes})
    assert len(loads.counts) == loads.array.npartitions


@pytest.mark.parametrize("cut", ["rows", "both"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_file_is_read_once_in_a_pass(solver, cut):
    X, y = TALL
    loads = Loads(X, cut, "file")
    model = slce_xp.fit(loads.array, y, solver=solver)
    blocks = loads.array.numblocks[1]
    lines = sum(loads.counts.values()) - blocks * 64  # the first chunk is read to find the shift
    assert lines == passes_of(model, X) * blocks * len(X)


@pytest.mark.parametrize("cut", ["rows", "both"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_transfers_to_the_client_are_smaller_than_a_chunk(monkeypatch, solver, cut):
    X, y = oracle.blobs(8000, 12, 3) if solver != "gram" else oracle.blobs(60, 9000, 3)
    x = chunked(X, cut)
    most = []

    def watched(*lazy):
        results = dask.compute(*lazy)
        flat = [a for r in results for a in (r if isinstance(r, tuple) else (r,))]
        most.extend(a.size for a in flat if a is not None)
        return results

    monkeypatch.setattr(dask_rows, "compute", watched)
    slce_xp.fit(x, y, solver=solver)
    rows = max(x.chunks[0])
    # The rows that are probed are those of one chunk if it is small.
    looked_at, *others = most if solver == "gram" else [0, *most]
    assert looked_at <= rows * X.shape[1]
    assert len(others) > 2
    assert max(others) < rows * X.shape[1] / 2  # chunks are made of whole rows


@pytest.mark.parametrize("solver", ["scatter", "krylov"])
def test_sums_are_taken_in_a_tree(solver):
    X, y = oracle.blobs(2000, 5, 3)
    fans, depths = [], []

    class Shapes(Callback):
        def _start(self, dsk):
            children, _ = dask.core.get_deps(dsk)
            fans.append(max(map(len, children.values())))
            depths.append(len(dask.core.toposort(dsk)))

    with Shapes():
        slce_xp.fit(da.from_array(X, chunks=(10, 5)), y, solver=solver)  # 200 chunks
    assert len(fans) > 1
    assert max(fans) <= 20


def test_x_is_not_persisted(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("persisted")

    X, y = WIDE
    monkeypatch.setattr(da.Array, "persist", refuse)
    monkeypatch.setattr(dask.base, "persist", refuse)
    for solver in SOLVERS:
        slce_xp.fit(chunked(X, "both"), y, solver=solver)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"], indirect=True)
@pytest.mark.parametrize("solver", SOLVERS)
def test_results_are_bitwise_reproducible(scheduler, solver):
    X, y = PROBLEMS["wide" if solver == "gram" else "tall"]
    models = [slce_xp.fit(chunked(X, "both"), y, solver=solver) for _ in range(3)]
    for name in ("components", "eigenvalues", "mean", "centroids"):
        for other in models[1:]:
            np.testing.assert_array_equal(getattr(models[0], name), getattr(other, name))


def test_small_chunks_are_joined_before_their_second_moments_are_taken():
    """Each of 500 chunks would make a matrix larger than itself."""
    X, y = oracle.blobs(500, 40, 3)
    with Graphs() as graphs:
        model = slce_xp.fit(da.from_array(X, chunks=(1, 40)), y, solver="scatter")
    assert_same(model, slce_xp.fit(X, y, solver="scatter"))
    source = dask_rows.DaskRows(da.from_array(X, chunks=(1, 40)))
    source.prepare_for_second_moment()
    assert source._x.numblocks == (13, 1)
    assert len(graphs.sizes) == 2


# ---------------------------------------------------------------- a cluster, and its faults


def slow_rows(start, stop, d, pause):
    """Rows that take a while; the same on every worker and at every time."""
    time.sleep(pause)
    rng = np.random.default_rng(start)
    X = rng.standard_normal((stop - start, d)) * np.arange(1, d + 1) ** -0.7
    X[np.arange(stop - start), np.arange(start, stop) % 4] += 2.0
    return X


def slow(n=1200, d=100, rows=50, pause=0.01):
    """A Dask array of such rows, its labels, and the array in memory."""
    starts = range(0, n, rows)
    chunks = [
        da.from_delayed(dask.delayed(slow_rows)(i, i + rows, d, pause), (rows, d), float)
        for i in starts
    ]
    X = np.concatenate([slow_rows(i, i + rows, d, 0.0) for i in starts])
    return da.concatenate(chunks), np.arange(n) % 4, X


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("cut", ["both", "ragged"])
def test_cluster_gives_the_same_answer(client, solver, cut):
    X, y = PROBLEMS["wide" if solver == "gram" else "tall"]
    with computing_with(client):
        model = slce_xp.fit(chunked(X, cut), y, solver=solver)
        embedded = model.transform(chunked(X, cut)).compute()
    assert_same(model, slce_xp.fit(X, y, solver=solver))
    np.testing.assert_allclose(embedded, model.transform(X), atol=1e-12)


def test_no_large_graph_warning(client):
    """Labels and vectors travel with the graph; Dask warns from 10 MB on."""
    n = 3_000_000
    x = da.zeros((n, 2), chunks=(n // 4, 2)) + da.arange(n, chunks=n // 4)[:, None] % 2
    y = np.arange(n) % 2
    with computing_with(client):
        model = slce_xp.fit(x, y)
    np.testing.assert_allclose(np.abs(model.components), 0.5**0.5)
    np.testing.assert_array_equal(model.centroids, [[0, 0], [1, 1]])


@pytest.mark.parametrize("persisted", [False, True])
def test_killed_worker_does_not_change_the_result(client, monkeypatch, persisted):
    x, y, X = slow()
    client.wait_for_workers(2, timeout=60)
    before = client.run(os.getpid)
    victim = min(before.values())
    graphs = []

    def compute(*lazy):
        graphs.append(lazy)
        if len(graphs) == 3:  # probe, class sums, then this pass
            # While its tasks run, which take no time if chunks are there: then before.
            delay = 0.0 if persisted else 0.1
            timer = threading.Timer(delay, os.kill, (victim, signal.SIGKILL))
            timer.start()
            if persisted:
                timer.join()
        return dask.compute(*lazy)

    monkeypatch.setattr(dask_rows, "compute", compute)
    with computing_with(client), deadline(60):
        if persisted:
            x = client.persist(x)
            wait(x, timeout=60)
        model = slce_xp.fit(x, y, solver="krylov", **TIGHT)
    assert len(graphs) > 3
    assert_same(model, slce_xp.fit(X, y, solver="krylov", **TIGHT))
    client.wait_for_workers(2, timeout=60)
    after = client.run(os.getpid)
    assert len(after) == 2
    assert victim not in after.values()


class deadline:  # noqa: N801 -- reads as a word of the ``with``
    """Raise in the main thread after a timeout, so that a hang fails the test."""

    def __init__(self, seconds):
        self._seconds = seconds

    def __enter__(self):
        def ring(*_):
            raise TimeoutError(f"not done after {self._seconds} s")

        self._before = signal.signal(signal.SIGALRM, ring)
        signal.alarm(self._seconds)

    def __exit__(self, *_):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self._before)


def broken(chunk, block_info=None):
    if block_info[0]["chunk-location"][0] == 2:
        raise OSError("disk 7 is on fire")
    return chunk


@pytest.mark.parametrize("where", ["synchronous", "threads", "cluster"])
def test_error_of_a_worker_reaches_the_caller(client, where):
    X, y = TALL
    x = chunked(X, "rows").map_blocks(broken, meta=np.empty((0, 0)))
    scheduler = dask.config.set(scheduler=where)
    with (
        computing_with(client) if where == "cluster" else scheduler,
        pytest.raises(OSError, match=r"^disk 7 is on fire$"),
    ):
        slce_xp.fit(x, y)


def tasks_of(dask_scheduler):
    return len(dask_scheduler.tasks)


def test_interrupt_cancels_tasks(client):
    x, y, _ = slow(pause=0.05)
    client.wait_for_workers(2, timeout=60)
    interrupt = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with computing_with(client), deadline(60):
            interrupt.start()
            with pytest.raises(KeyboardInterrupt):
                slce_xp.fit(x, y, solver="krylov")
    finally:
        interrupt.cancel()
        signal.signal(signal.SIGINT, before)
    end = time.monotonic() + 20
    while client.run_on_scheduler(tasks_of) or any(client.processing().values()):
        assert time.monotonic() < end, "tasks are left"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("megabytes", "solver"),
    [
        (200, "krylov"),
        pytest.param(2000, "krylov", marks=pytest.mark.slow),
        pytest.param(2000, "scatter", marks=pytest.mark.slow),
    ],
)
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux' /proc")
def test_client_takes_little_memory(megabytes, solver):
    script = os.path.join(os.path.dirname(__file__), "dask_client.py")
    done = subprocess.run(
        [sys.executable, script, str(megabytes), solver],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, most = map(int, done.stdout.split())
    assert most < 300
    assert most - before < megabytes / 2  # the same for one that would fit
