"""One fixture over every array library and device that the core must run on."""

import collections
import contextlib
import importlib.util
import os
import re
import signal
from dataclasses import dataclass, field

# Tests run side by side on small matrices: threads of the BLAS would only wait for each other.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# Pictures are drawn in memory: no test needs a screen, or opens a window where there is one.
os.environ.setdefault("MPLBACKEND", "Agg")
# A shell starts what runs in its background with Ctrl-C ignored: processes of tests would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import host_reads
import numpy as np
import pytest
from versions import CACHE

# The same examples on every run: a failure is a change, not chance. Other examples:
# HYPOTHESIS_PROFILE=default.
with contextlib.suppress(ImportError):  # who tests with the command's libraries only
    import hypothesis

    hypothesis.settings.register_profile("fixed", derandomize=True)
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# A second host device, so that a forgotten `device=` is caught. Read when JAX starts.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
# What JAX compiles is kept in the user's cache: compiling takes most of the time of its tests.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


# CuPy's patches and the module that goes with them: not for this Python.
collect_ignore_glob = ["cupy_on_cpu/*"]


@dataclass
class Backend:
    """An array library and a device of it, with ways in and out that bypass slce_xp."""

    name: object  # what slce_xp calls the library by: a name, or its namespace
    label: str  # the test's name for this set-up
    device: object = None
    flags: dict = field(default_factory=dict)
    single: bool = False  # there is no float64
    books: object = None  # what the test double of an accelerator counts

    @property
    def printed(self):
        """The library's name in messages."""
        return getattr(self.name, "__name__", self.name)

    def held(self, values, dtype=None):
        """The values as this backend can hold them: what an oracle must be given."""
        values = np.asarray(values) if dtype is None else np.asarray(values).astype(dtype)
        if self.single:
            shorter = {"float64": "float32", "complex128": "complex64"}
            values = values.astype(shorter.get(values.dtype.name, values.dtype), copy=False)
        return values

    def tolerance(self, double, single):
        """The tolerance for what `array` makes of float64."""
        return single if self.single else double

    def array(self, values, dtype=None):
        values = self.held(values, dtype)
        match self.label:
            case "numpy":
                values = values.view()
                values.flags.writeable = False  # X is the caller's
                return values
            case "torch" | "torch-cuda":
                import torch

                return torch.asarray(values.copy()).to(self.device)
            case "torch-device":
                return self.books.put(values)
            case "jax" | "jax-single":
                import jax

                return jax.device_put(values, self.device)
            case "cupy":
                import cupy

                return cupy.asarray(values)
            case "dpnp":
                import dpnp

                return dpnp.asarray(values)
            case "bare":
                return self.name.put(values, self.device)
            case _:
                import array_api_strict

                return array_api_strict.asarray(values.copy(), device=self.device)

    def numpy(self, x):
        match self.label:
            case "numpy":
                assert type(x) is np.ndarray
                return x
            case "torch" | "torch-cuda":
                assert x.device == self.device
                return x.cpu().numpy()
            case "torch-device":
                return self.books.get(x)
            case "jax" | "jax-single":
                assert x.device == self.device
                return np.asarray(x)
            case "cupy":
                return x.get()
            case "dpnp":
                return x.asnumpy()
            case "bare":
                assert x.device == self.device
                return self.name.to_numpy(x)
            case _:
                import array_api_strict

                assert x.device == self.device
                return np.asarray(x.to_device(array_api_strict.Device("CPU_DEVICE")))


# Each finds faults of its own: writes to X; float64, a default device or shapes that depend on
# values; what is beyond the standard; signs and strides; waits, copies and bytes; compilers.
LABELS = [
    "numpy",
    "strict-single",
    "bare",
    "torch",
    "torch-device",
    "jax",
    pytest.param("cupy", marks=pytest.mark.gpu),
    pytest.param("torch-cuda", marks=pytest.mark.gpu),
    pytest.param("dpnp", marks=pytest.mark.gpu),
]


@contextlib.contextmanager
def make_backend(label):
    match label:
        case "numpy":
            yield Backend("numpy", label)
        case "torch":
            torch = pytest.importorskip("torch")
            yield Backend("torch", label, torch.device("cpu"))
        case "torch-device":
            pytest.importorskip("torch")
            from counting_device import CountingDevice

            with CountingDevice() as books:
                yield Backend("torch", label, books.device, books=books)
        case "torch-cuda":
            torch = pytest.importorskip("torch")
            if not torch.cuda.is_available():
                pytest.skip("torch finds no CUDA device")
            yield Backend("torch", label, torch.device("cuda", torch.cuda.device_count() - 1))
        case "jax" | "jax-single":
            jax = pytest.importorskip("jax")
            single = label == "jax-single"
            with jax.enable_x64(not single):
                yield Backend("jax", label, jax.devices()[1], single=single)
        case "cupy":
            cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
            if not cupy.cuda.is_available():
                pytest.skip("CuPy finds no CUDA device")
            yield Backend("cupy", label)
        case "dpnp":
            dpctl = pytest.importorskip("dpctl", reason="dpnp is not installed")
            if not dpctl.get_devices():
                pytest.skip("dpnp finds no SYCL device")
            import dpnp

            with host_reads.watched(dpnp) as hidden:
                yield Backend("dpnp", label)
            assert not hidden, host_reads.described(hidden)
        case "bare":
            pytest.importorskip("array_api_strict")
            import bare_standard

            with host_reads.watched(bare_standard) as hidden:
                yield Backend(bare_standard, label, bare_standard.DEVICES[1])
            assert not hidden, host_reads.described(hidden)
        case _:
            strict = pytest.importorskip("array_api_strict")
            devices = {"strict-device1": "device1", "strict-single": "no_float64"}
            device = strict.Device(devices.get(label, "CPU_DEVICE"))
            single = label == "strict-single"
            flags = {"boolean_indexing": False, "data_dependent_shapes": False} if single else {}
            with strict.ArrayAPIStrictFlags(**flags), host_reads.watched(strict) as hidden:
                yield Backend("array_api_strict", label, device, flags, single=single)
            assert not hidden, host_reads.described(hidden)


@pytest.fixture(params=LABELS)
def xp(request):
    with make_backend(request.param) as backend:
        yield backend


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    if request.param == "float64" and "xp" in request.fixturenames:
        needs_float64(request.getfixturevalue("xp"))
    return request.param


def needs_float64(backend):
    if backend.single:
        pytest.skip("this device has no float64")


def spare_compiling(backend):
    if backend.name == "jax":
        pytest.skip("JAX compiles anew for each shape: its comparison with the oracle shows this")


@pytest.fixture
def data_folder():
    """The folder of real data sets, from the environment."""
    folder = os.environ.get("SLCE_XP_DATA")
    if not folder:
        pytest.skip("SLCE_XP_DATA does not name a folder of data sets")
    return folder


def load_set(folder, name):
    path = os.path.join(folder, f"{name}.npz")
    if not os.path.exists(path):
        pytest.skip(f"{name}.npz is not in SLCE_XP_DATA")
    with np.load(path, allow_pickle=False) as file:
        return file["X"], file["y"]


# ---------------------------------------------------------------- packages that are not here

# `pytest` runs what it can: who has only the package and pytest sees the rest skipped.
OPTIONAL = {
    *("anndata", "array_api_strict", "cupy", "dask", "distributed", "dpctl", "dpnp", "h5py"),
    *("hypothesis", "jax", "joblib", "matplotlib", "openpyxl", "pandas", "plotly", "polars"),
    *("pyarrow", "sklearn", "torch", "tqdm", "zarr"),
}


def missing_package(message):
    """The optional package whose absence a message reports, if it is absent; None otherwise."""
    found = re.search(r"No module named '(\w+)", message)
    is_missing = found and found[1] in OPTIONAL and not importlib.util.find_spec(found[1])
    return found[1] if is_missing else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Skip a file that imports a package which is not installed."""
    report = yield
    name = missing_package(str(report.longrepr)) if report.failed else None
    if name:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {name} is not installed")
    return report


def skip_without_packages(item):
    """Skip a test, or the example of a docstring, that imports one."""
    run = item.runtest

    def runtest():
        try:
            run()
        except Exception as error:
            first = getattr(error, "failures", [error])[0]  # of an example
            cause = getattr(first, "exc_info", (None, error))[1]
            name = missing_package(str(cause)) if isinstance(cause, ImportError) else None
            if name:
                pytest.skip(f"{name} is not installed")
            raise

    item.runtest = runtest


# ---------------------------------------------------------------- summary


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    in_groups = config.pluginmanager.hasplugin("xdist")
    for item in items:
        skip_without_packages(item)
        if in_groups and "jax" in item.nodeid:  # one process compiles for all of them
            item.add_marker(pytest.mark.xdist_group("jax"))
        params = item.callspec.params if hasattr(item, "callspec") else {}
        plain = "sklearn checks" if {"estimator", "check"} <= params.keys() else "no backend"
        # A property of the report reaches the process that prints the summary.
        item.user_properties.append(("backend", params.get("xp", plain)))


def pytest_terminal_summary(terminalreporter):
    """How many tests ran on which backend: one that is missing shows."""
    outcomes = {"passed": "passed", "skipped": "skipped", "failed": "failed", "error": "failed"}
    counts = {}
    for category, outcome in outcomes.items():
        for report in terminalreporter.stats.get(category, []):
            label = dict(getattr(report, "user_properties", [])).get("backend", "no backend")
            counts.setdefault(label, collections.Counter())[outcome] += 1
    if counts:
        terminalreporter.section("tests per backend", sep="-")
        for label in sorted(counts):
            numbers = ", ".join(f"{n} {outcome}" for outcome, n in counts[label].items())
            terminalreporter.line(f"{label:15} {numbers}")
