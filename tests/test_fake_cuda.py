"""Fits on torch's fake CUDA tensors: bytes of a GPU run without a GPU."""

import pytest

pytest.importorskip("torch")
from benchmarks import fake_cuda
from slce_xp import _backend
from slce_xp._backend import transfer
from slce_xp.core import _eigen, _moments, _space


def test_shape_of_pancan_needs_a_centred_block():
    result = fake_cuda.measure(801, 20531, 5, dtype="float32")
    # Half of X is centred at a time, and of larger data less.
    assert result["tensor_bytes_beside_x"] <= 0.6 * result["x_bytes"]
    assert result["peak_bytes_beside_x"] <= result["plan_bytes"]


def test_ten_thousand_rows_of_a_million_features_are_within_the_plan():
    result = fake_cuda.measure(10_000, 1_000_000, 5, dtype="float32", passes=2)
    assert result["form"] == "krylov"
    assert result["peak_bytes_beside_x"] <= result["plan_bytes"] <= 0.02 * result["x_bytes"]


@pytest.mark.parametrize("solver", ["scatter", "gram", "krylov"])
def test_every_form_runs(solver):
    size = (300, 1200) if solver == "gram" else (600, 400)
    result = fake_cuda.measure(*size, 4, dtype="float64", solver=solver)
    assert result["form"] == solver
    assert result["passes"] == (6 if solver == "krylov" else 0)
    assert 0 < result["peak_bytes_beside_x"] <= 1.2 * result["plan_bytes"]
    most = 2.0 if solver == "krylov" else 1.5  # it ends after half of the passes planned
    assert result["plan_bytes"] <= most * result["peak_bytes_beside_x"]
    assert result["flops"] > 2 * 600 * 400


def test_integers_are_converted_in_few_blocks():
    result = fake_cuda.measure(1_000_000, 784, 10, dtype="uint8")
    assert result["launches"] <= 400
    assert result["peak_bytes_beside_x"] <= result["plan_bytes"] + result["plan_block_bytes"]


def test_large_symmetric_products_are_halved():
    n, d = 20_000, 8_192
    result = fake_cuda.measure(n, d, 10, solver="scatter")
    eigensolver = 9 * d**3
    assert result["flops"] - eigensolver <= 0.7 * 2 * n * d * d


def test_patches_are_undone():
    modules = (_backend, transfer, _moments, _eigen, _space)
    before = [dict(vars(module)) for module in modules]
    with pytest.raises(ValueError, match="n_components"):
        fake_cuda.measure(600, 400, 4, n_components=401)
    assert [dict(vars(module)) for module in modules] == before
