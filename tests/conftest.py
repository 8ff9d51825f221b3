"""One fixture over every array library and device that the core must run on."""

import contextlib
import os
from dataclasses import dataclass, field

# Tests run side by side on small matrices: threads of the BLAS would only wait for each other.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import hypothesis
import numpy as np
import pytest

# The same examples on every run: a failure is a change, not chance. Other examples:
# HYPOTHESIS_PROFILE=default.
hypothesis.settings.register_profile("fixed", derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# A second host device, so that a forgotten `device=` is caught. Read when JAX starts.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")


@dataclass
class Backend:
    """An array library and a device of it, with ways in and out that bypass slce_xp."""

    name: str  # slce_xp's name for the library
    label: str  # the test's name for this set-up
    device: object = None
    flags: dict = field(default_factory=dict)

    def array(self, values, dtype=None):
        values = np.asarray(values)
        if dtype is not None:
            values = values.astype(dtype)
        match self.label:
            case "numpy":
                return values
            case "numpy-readonly":
                values = values.copy()
                values.flags.writeable = False
                return values
            case "torch":
                import torch

                return torch.asarray(values.copy())
            case "jax":
                import jax

                return jax.device_put(values, self.device)
            case "cupy":
                import cupy

                return cupy.asarray(values)
            case _:
                import array_api_strict

                return array_api_strict.asarray(values.copy(), device=self.device)

    def numpy(self, x):
        match self.label:
            case "numpy" | "numpy-readonly":
                assert type(x) is np.ndarray
                return x
            case "torch":
                return x.numpy()
            case "jax":
                assert x.device == self.device
                return np.asarray(x)
            case "cupy":
                return x.get()
            case _:
                import array_api_strict

                assert x.device == self.device
                return np.asarray(x.to_device(array_api_strict.Device("CPU_DEVICE")))


LABELS = [
    "numpy",
    "numpy-readonly",
    "strict",
    "strict-device1",
    "strict-lean",
    "torch",
    "jax",
    "cupy",
]


@contextlib.contextmanager
def make_backend(label):
    match label:
        case "numpy" | "numpy-readonly":
            yield Backend("numpy", label)
        case "torch":
            pytest.importorskip("torch")
            yield Backend("torch", label)
        case "jax":
            jax = pytest.importorskip("jax")
            with jax.enable_x64(True):
                yield Backend("jax", label, jax.devices()[1])
        case "cupy":
            cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
            if not cupy.cuda.is_available():
                pytest.skip("CuPy finds no CUDA device")
            yield Backend("cupy", label)
        case _:
            strict = pytest.importorskip("array_api_strict")
            device = strict.Device("device1" if label == "strict-device1" else "CPU_DEVICE")
            lean = label == "strict-lean"
            flags = {"boolean_indexing": False, "data_dependent_shapes": False} if lean else {}
            with strict.ArrayAPIStrictFlags(**flags):
                yield Backend("array_api_strict", label, device, flags)


@pytest.fixture(params=LABELS)
def xp(request):
    with make_backend(request.param) as backend:
        yield backend


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


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
