"""Where a fit runs: on the device of X, or moved once on request; never a silent fallback."""

import subprocess
import sys
import types

import numpy as np
import oracle
import pytest
from conftest import make_backend
from patching import replace_in_backend

import slce_xp
from slce_xp import _backend

N, D, K = 30, 4, 3
X, CODES = oracle.blobs(N, D, K, seed=41)
ARRAYS = ("components", "eigenvalues", "mean", "centroids", "counts")
REFERENCE = slce_xp.fit(X, CODES)


def check_lives(model, backend, dtype):
    """Every array is of that library, on that device, of that dtype; labels are on the host."""
    for name in ARRAYS:
        values = backend.numpy(getattr(model, name))  # asserts library and device
        if name != "counts":
            assert values.dtype == dtype, name
    assert type(model.classes) is np.ndarray
    atol = {"float32": 1e-5, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(backend.numpy(model.components), REFERENCE.components, atol=atol)


# ---------------------------------------------------------------- which library and device


def test_fit_runs_on_the_device_of_x(xp, dtype):
    check_lives(slce_xp.fit(xp.array(X, dtype), CODES), xp, dtype)


@pytest.mark.parametrize("label", ["numpy", "torch", "strict", "jax"])
def test_backend_name_moves_x(xp, label, dtype):
    x = xp.array(X, dtype)
    with make_backend(label) as there:
        if xp.name == there.name:
            there.device = xp.device  # already there: it stays on its device
        elif label == "jax":
            there.device = pytest.importorskip("jax").devices()[0]  # the library's default
        check_lives(slce_xp.fit(x, CODES, backend=there.name), there, dtype)


@pytest.mark.parametrize(
    ("label", "device"),
    [("strict-device1", "device1"), ("jax", "cpu:1"), ("torch", "cpu"), ("torch-device", "sim:0")],
)
def test_backend_name_and_device_move_x(label, device):
    with make_backend(label) as there:
        model = slce_xp.fit(X, CODES, backend=there.name, device=device)
        check_lives(model, there, "float64")
        if there.device is not None:  # the library's device object is equivalent
            model = slce_xp.fit(X, CODES, backend=there.name, device=there.device)
            check_lives(model, there, "float64")


@pytest.mark.parametrize("module", ["numpy", "torch", "jax.numpy", "array_api_strict"])
def test_backend_may_be_a_module(module):
    namespace = pytest.importorskip(module)
    model = slce_xp.fit(X.astype(np.float32), CODES, backend=namespace)
    by_name = slce_xp.fit(X.astype(np.float32), CODES, backend=module.partition(".")[0])
    assert type(model.components) is type(by_name.components)
    assert type(model.transform(by_name.components)) is type(by_name.components)


@pytest.mark.parametrize(
    ("label", "transfers"), [("numpy", 0), ("torch", 1), ("torch-device", 1), ("strict", 1)]
)
@pytest.mark.parametrize("solver", ["scatter", "gram"])
def test_x_is_moved_once(monkeypatch, label, transfers, solver):
    moved = []

    def from_host(values, place, dtype=None, original=_backend.from_host):
        moved.append(values.size)
        return original(values, place, dtype)

    replace_in_backend(monkeypatch, "from_host", from_host)
    samples, y = oracle.blobs(12, 50, 3, seed=42)  # larger than any label or weight
    with make_backend(label) as there:
        slce_xp.fit(samples, y, backend=there.name, device=there.device, solver=solver)
    assert sum(size >= samples.size for size in moved) == transfers
    if there.books:  # the device has counted the same
        assert samples.nbytes <= there.books.h2d_bytes < 2 * samples.nbytes


def test_x_may_be_moved_to_the_host():
    torch = pytest.importorskip("torch")
    x = torch.asarray(X).requires_grad_()
    model = slce_xp.fit(x, torch.asarray(CODES), backend="numpy")
    with make_backend("numpy") as host:
        check_lives(model, host, "float64")


def test_x_stays_on_its_device_unless_another_is_named():
    with make_backend("strict-device1") as there, make_backend("strict") as default:
        x = there.array(X)
        check_lives(slce_xp.fit(x, CODES, backend="array_api_strict"), there, "float64")
        check_lives(slce_xp.fit(x, CODES, device=there.device), there, "float64")
        check_lives(slce_xp.fit(x, CODES, device="device1"), there, "float64")
        moved = slce_xp.fit(x, CODES, backend="array_api_strict", device="CPU_DEVICE")
        check_lives(moved, default, "float64")


# ---------------------------------------------------------------- dtypes


def test_integers_become_the_default_float_of_the_library():
    whole = np.round(10 * X).astype(np.int32)
    assert slce_xp.fit(whole, CODES).mean.dtype == np.float64
    strict = pytest.importorskip("array_api_strict")
    assert slce_xp.fit(strict.asarray(whole), CODES).mean.dtype == strict.float64


@pytest.mark.parametrize("default", ["float32", "float64"])
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.bool_])
def test_integers_become_the_default_float_of_torch(default, kind):
    torch = pytest.importorskip("torch")
    whole = np.round(X).astype(kind)
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, default))
    try:
        models = [
            slce_xp.fit(torch.asarray(whole), CODES),
            slce_xp.fit(whole, CODES, backend="torch"),
        ]
    finally:
        torch.set_default_dtype(before)
    assert [model.mean.dtype for model in models] == [getattr(torch, default)] * 2


def test_jax_without_x64_computes_in_float32():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False):
        for samples in (X, X.astype(np.float32), np.round(10 * X).astype(int)):
            model = slce_xp.fit(samples, CODES, backend="jax")  # warnings are errors here
            assert {getattr(model, name).dtype.name for name in ARRAYS} == {"float32", "int32"}
        model = slce_xp.fit(X, CODES, backend="jax")
        assert model.to("numpy").components.dtype == np.float32
    np.testing.assert_allclose(model.to("numpy").components, REFERENCE.components, atol=1e-5)


def test_float64_on_a_device_without_it_raises():
    with make_backend("strict-single") as there:
        options = {"backend": there.name, "device": "no_float64"}
        message = r"array_api_strict on no_float64 cannot hold float64 .*astype\('float32'\)"
        with pytest.raises(TypeError, match=message):
            slce_xp.fit(X, CODES, **options)
        with pytest.raises(TypeError, match=message):
            REFERENCE.to(**options)
        check_lives(slce_xp.fit(X.astype(np.float32), CODES, **options), there, "float32")


# ---------------------------------------------------------------- missing libraries and devices


def test_x_and_a_device_that_disagree_raise(xp):
    if xp.name == "array_api_strict":
        other = "device2"
    elif xp.name == "jax":
        other = "cpu:0"
    elif xp.label == "bare":
        other = "bare:0"
    elif xp.label in ("torch-device", "torch-cuda"):
        other = "cpu"
    else:
        pytest.skip("this library has one device here")
    with pytest.raises(ValueError, match=rf"^X is on .* and device='{other}' .*Move X first, or"):
        slce_xp.fit(xp.array(X), CODES, device=other)


@pytest.mark.parametrize("options", [{}, {"backend": "torch"}])
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "nowhere"])
def test_device_that_torch_lacks_raises(device, options):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available() and device != "nowhere":
        pytest.skip("there is a CUDA device")
    message = rf"^device must be a device that torch has here \(cpu.*\); got '{device}'.*None"
    with pytest.raises(ValueError, match=message):
        slce_xp.fit(torch.asarray(X), CODES, device=device, **options)


@pytest.mark.parametrize("device", ["cuda", "cpu:9", "nowhere"])
def test_device_that_jax_lacks_raises(device):
    pytest.importorskip("jax")
    message = rf"^device must be a device that jax has here \(cpu:0.*\); got '{device}'.*None"
    with pytest.raises(ValueError, match=message):
        slce_xp.fit(X, CODES, backend="jax", device=device)


MODULES = {
    "cupy": ["cupy", "array_api_compat.cupy"],
    "torch": ["torch", "array_api_compat.torch"],
    "jax": ["jax", "jax.numpy"],
}


class Blocker:
    """Makes a library look as if it were not installed."""

    def __init__(self, library):
        self.library = library

    def find_spec(self, name, path=None, target=None):
        if name == self.library:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("backend", "library"),
    [("cupy", "cupy-cuda12"), ("cupy", "cupy-cuda13"), ("torch", "torch"), ("jax", "jax")],
)
def test_missing_library_names_what_to_install(monkeypatch, backend, library):
    for module in MODULES[backend]:
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Blocker(backend), *sys.meta_path])
    message = rf"^backend='{backend}' needs .*pip install '.*{library}"
    with pytest.raises(ImportError, match=message):
        slce_xp.fit(X, CODES, backend=backend)


def fake_cupy(monkeypatch, *, has_gpu):
    """A CuPy that imports, as the real one does on a machine without a driver."""

    def no_such_device(index=None):
        raise RuntimeError("cudaErrorInvalidDevice: invalid device ordinal")

    def compute(*args, **kwargs):
        raise AssertionError("computed without a device")

    for name in MODULES["cupy"]:
        module = types.ModuleType(name)
        module.ndarray = type("ndarray", (), {})
        module.cuda = types.SimpleNamespace(is_available=lambda: has_gpu, Device=no_such_device)
        module.asarray = module.empty = compute
        monkeypatch.setitem(sys.modules, name, module)
    return sys.modules["cupy"]


@pytest.mark.parametrize("by_name", [True, False])
def test_cupy_without_a_gpu_raises_instead_of_falling_back(monkeypatch, by_name):
    cupy = fake_cupy(monkeypatch, has_gpu=False)
    with pytest.raises(RuntimeError, match=r"^backend='cupy' needs a CUDA GPU.*backend='numpy'"):
        slce_xp.fit(X, CODES, backend="cupy" if by_name else cupy)


@pytest.mark.parametrize("device", ["cpu", "cuda:9", "cuda:x"])
def test_device_that_cupy_lacks_raises(monkeypatch, device):
    fake_cupy(monkeypatch, has_gpu=True)
    with pytest.raises(ValueError, match=rf"^device must be .* cupy has here .*; got '{device}'"):
        slce_xp.fit(X, CODES, backend="cupy", device=device)


# ---------------------------------------------------------------- imports


def run_python(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


HEAVY = {"torch", "cupy", "jax", "dask", "sklearn", "matplotlib", "pandas", "polars"}


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import slce_xp", HEAVY | {"scipy"}),
        ("import slce_xp; slce_xp.fit([[0.0], [1.0], [5.0]], [0, 0, 1])", HEAVY),
    ],
    ids=["import", "fit on the host"],
)
def test_no_library_is_imported_before_it_is_needed(code, unwanted):
    loaded = run_python(f"import sys; {code}; print(*sys.modules)")
    assert "slce_xp" in loaded
    assert unwanted.isdisjoint(loaded)


def test_import_is_fast():
    code = (
        "import time, numpy; start = time.process_time(); import slce_xp; "
        "print(time.process_time() - start)"
    )
    # Processor time, the least of three, so that a busy machine does not fail the test.
    assert min(float(run_python(code)[0]) for _ in range(3)) < 0.5
