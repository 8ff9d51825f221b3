"""What CuPy does differently from NumPy, in silence: waits, wraps, promotes, or refuses."""

import sys
import warnings

import numpy as np
import oracle
import pytest
from patching import replace_in_backend

import slce_xp
from slce_xp import _backend
from slce_xp.core import _krylov

pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("xp", ["cupy"], indirect=True)]

FORMS = ["scatter", "gram", "krylov"]
FEW, MANY = 4, 90  # classes: summed by a one-hot product, and gathered in class order


def problem(n_classes, dtype="float64"):
    X, y = oracle.blobs(300, 40, n_classes, seed=51)
    return (X + 50.0).astype(dtype), y  # far enough from the origin to need a shift


@pytest.fixture
def emucuda(xp):
    return pytest.importorskip("emucuda", reason="only an emulated CUDA counts copies")


# ---------------------------------------------------------------- waits


@pytest.mark.parametrize("n_classes", [FEW, MANY])
@pytest.mark.parametrize("solver", FORMS)
def test_every_wait_of_a_fit_is_a_call_of_to_host(xp, emucuda, monkeypatch, solver, n_classes):
    # `if`, float() or an f-string of a 0-d array waits unseen, and so do clip, masks and unique.
    X, y = problem(n_classes)
    x = xp.array(X)
    reads = []
    to_host = _backend.to_host
    replace_in_backend(monkeypatch, "to_host", lambda x: reads.append(type(x)) or to_host(x))
    with emucuda.measure() as measured:
        slce_xp.fit(x, y, solver=solver)
    assert measured.d2h_count == reads.count(type(x)) > 0


@pytest.mark.parametrize("solver", ["auto", "gram"])
def test_few_launches(xp, emucuda, solver):
    rng = np.random.default_rng(0)
    y = np.arange(900) % 10
    X = rng.standard_normal((900, 4000), dtype=np.float32)
    X[np.arange(900), y] += 30.0
    x = xp.array(X)
    with emucuda.measure() as measured:
        model = slce_xp.fit(x, y, solver=solver)
    calls = measured.launches + measured.blas_calls + measured.solver_calls
    assert model.n_positive == 9
    assert calls <= 130


def test_a_late_pass_costs_as_much_as_an_early_one(xp, emucuda, monkeypatch):
    X, y = oracle.blobs(700, 600, FEW, seed=52, decay=0.1)
    grow, costs = _krylov.KrylovSpace.grow, []

    def counted(space, directions=None):
        with emucuda.measure() as measured:
            grow(space, directions)
        costs.append(measured.launches + measured.blas_calls)

    monkeypatch.setattr(_krylov.KrylovSpace, "grow", counted)
    monkeypatch.setattr(_krylov, "MULTIPLIED", 1e-6)  # it stops at rounding
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", slce_xp.ConvergenceWarning)
        slce_xp.fit(xp.array(X), y, "positive", solver="krylov", tol=1e-15, max_iter=6)
    assert len(costs) >= 4
    assert max(costs[1:]) <= 1.2 * min(costs[1:-1])


def test_a_model_in_use_never_waits(xp, emucuda):
    X, y = problem(FEW)
    x = xp.array(X)
    model = slce_xp.fit(x, y)
    with emucuda.measure() as measured:
        Z = model.transform(x)
        model.inverse_transform(Z)
        model.reconstruct(x)
    assert measured.d2h_count == measured.h2d_count == 0
    assert measured.launches > 0


# ---------------------------------------------------------------- indices


@pytest.mark.parametrize("n_classes", [FEW, MANY])
@pytest.mark.parametrize("solver", FORMS)
def test_no_index_is_out_of_range(xp, monkeypatch, solver, n_classes):
    # NumPy would raise; CuPy wraps around and takes another row.
    import array_api_compat.cupy

    ranges = []

    def take(x, indices, /, *, axis=0, original=array_api_compat.cupy.take):
        host = indices.get()
        ranges.append((host.min(initial=0), host.max(initial=0), x.shape[axis]))
        return original(x, indices, axis=axis)

    monkeypatch.setattr(array_api_compat.cupy, "take", take)
    X, y = problem(n_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # components that do not lower the loss
        slce_xp.fit(xp.array(X), y, X.shape[1], solver=solver)
    assert ranges or solver == "krylov"
    assert all(0 <= least <= largest < length for least, largest, length in ranges)


# ---------------------------------------------------------------- full precision


@pytest.mark.parametrize("solver", FORMS)
def test_products_do_not_use_tf32(xp, solver):
    # As CUPY_TF32=1 has it, which CuPy reads at its first product.
    import cupy._core._routines_linalg as compute

    X, y = problem(FEW, "float32")
    x = xp.array(X)
    expected = slce_xp.fit(x, y, solver=solver)
    before = compute.get_compute_type("float32")
    compute.set_compute_type("float32", compute.COMPUTE_TYPE_TF32)
    try:
        model = slce_xp.fit(x, y, solver=solver)
        embedding = model.transform(x)
        assert compute.get_compute_type("float32") == compute.COMPUTE_TYPE_TF32
    finally:
        compute.set_compute_type("float32", before)
    np.testing.assert_array_equal(xp.numpy(model.eigenvalues), xp.numpy(expected.eigenvalues))
    np.testing.assert_array_equal(xp.numpy(embedding), xp.numpy(expected.transform(x)))


# ---------------------------------------------------------------- dtypes


class Float64Watch:
    """Notes every float64 device array that a line of slce_xp has in a variable or returns."""

    def __init__(self, kind):
        self.kind = kind
        self.found = set()
        self.seen = 0

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *exception):
        sys.settrace(self.before)

    def trace(self, frame, event, arg):
        if "slce_xp" not in frame.f_globals.get("__name__", ""):
            return None
        for value in [*frame.f_locals.values(), arg]:
            if isinstance(value, self.kind):
                self.seen += 1
                if value.dtype == np.float64:
                    self.found.add(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return self.trace


@pytest.mark.parametrize("n_classes", [FEW, MANY])
@pytest.mark.parametrize("solver", FORMS)
def test_float32_is_never_promoted(xp, solver, n_classes):
    # A NumPy scalar makes float64 of a float32 array: np.float64(2) * x, not 2.0 * x.
    X, y = problem(n_classes, "float32")
    x = xp.array(X)
    with Float64Watch(type(x)) as watch:
        model = slce_xp.fit(x, y, solver=solver)
        model.reconstruct(x)
        curves = (model.loss_curve, model.component_losses, model.eigenvalue_bounds)
    assert watch.seen > 100
    assert watch.found == set()
    assert {curve.dtype.name for curve in curves} == {"float32"}


@pytest.mark.parametrize("solver", ["scatter", "gram"])  # krylov sweeps once more in float32
def test_float32_takes_half_the_memory(xp, emucuda, solver):
    import cupy

    peaks = {}
    for dtype in ("float32", "float64"):
        X, y = oracle.blobs(400, 300, FEW, seed=52)
        x = xp.array(X, dtype)
        before = cupy.get_default_memory_pool().used_bytes()
        with emucuda.measure() as measured:
            slce_xp.fit(x, y, solver=solver)
        peaks[dtype] = measured.peak_used_bytes - before
    assert 0 < peaks["float32"] <= 0.6 * peaks["float64"]


@pytest.mark.parametrize("make", [list, np.asarray, lambda y: np.asarray(y, object)])
def test_strings_stay_on_the_host(xp, make, tmp_path):
    # CuPy has no strings: labels are coded before anything reaches the device.
    X, y = problem(3)
    names = ["ant", "bee", "cat"]
    model = slce_xp.fit(xp.array(X), make([names[code] for code in y]))
    assert type(model.classes) is np.ndarray
    assert model.classes.tolist() == names
    np.testing.assert_array_equal(xp.numpy(model.counts), np.bincount(y))
    model.save(tmp_path / "model.npz")
    assert slce_xp.load(tmp_path / "model.npz", "cupy").classes.tolist() == names
