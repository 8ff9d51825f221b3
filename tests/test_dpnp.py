"""dpnp: devices by name, and what it cannot do."""

import sys
import types

import numpy as np
import oracle
import pytest
import scipy.sparse as sp

import slce_xp
from slce_xp import _backend

X, CODES = oracle.blobs(30, 4, 3, seed=41)
ON_DPNP = [
    pytest.mark.gpu,
    pytest.mark.parametrize("xp", [pytest.param("dpnp", id="dpnp")], indirect=True),
]


def on_dpnp(test):
    for mark in ON_DPNP:
        test = mark(test)
    return test


@on_dpnp
def test_device_names(xp):
    import dpnp

    default = dpnp.empty(0).device
    name = default.sycl_device.filter_string  # such as opencl:cpu:0
    runtime, kind, _ = name.split(":")
    for device in (None, name, kind, f"{runtime}:{kind}", default):
        model = slce_xp.fit(X, CODES, backend="dpnp", device=device)
        assert model.components.device == default
        assert f"dpnp on {name}" in str(model)
    assert name in _backend.describe_backend("dpnp").split(", ")


@on_dpnp
def test_unknown_device_raises(xp):
    message = r"^device must be a device that dpnp has here \(\w+:\w+:0.*\); got 'nowhere'"
    with pytest.raises(ValueError, match=message):
        slce_xp.fit(X, CODES, backend="dpnp", device="nowhere")


@on_dpnp
def test_sparse_matrix_raises(xp):
    with pytest.raises(TypeError, match=r"^backend must be 'numpy', 'cupy' or 'torch'.* got dpnp"):
        slce_xp.fit(sp.csr_array(X), CODES, backend="dpnp")


@on_dpnp
def test_failed_allocation_raises_memory_error(xp):
    import dpnp

    place = _backend.find_place("dpnp")
    message = r"^dpnp on .* ran out of memory .*max_memory"
    with pytest.raises(MemoryError, match=message), _backend.computing(place):
        dpnp.empty(2**48)


@on_dpnp
def test_model_moves_to_dpnp_and_back(xp):
    model = slce_xp.fit(X, CODES)
    there = model.to("dpnp")
    embedding = there.transform(xp.array(X))
    np.testing.assert_allclose(xp.numpy(embedding), model.transform(X), atol=1e-12)
    np.testing.assert_array_equal(there.to("numpy").components, model.components)


def test_dpnp_without_a_device_raises_instead_of_falling_back(monkeypatch):
    def compute(*args, **kwargs):
        raise AssertionError("computed without a device")

    dpnp = types.ModuleType("dpnp")
    dpnp.asarray = dpnp.empty = compute
    monkeypatch.setitem(sys.modules, "dpnp", dpnp)
    monkeypatch.setitem(sys.modules, "dpctl", types.SimpleNamespace(get_devices=list))
    for backend in ("dpnp", dpnp):
        with pytest.raises(RuntimeError, match=r"^backend='dpnp' needs a SYCL device.*numpy"):
            slce_xp.fit(X, CODES, backend=backend)
