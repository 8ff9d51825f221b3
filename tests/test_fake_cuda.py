"""Fits on torch's fake CUDA tensors: bytes of a GPU run without a GPU."""

import pytest

pytest.importorskip("torch")
from benchmarks import fake_cuda
from slce_xp import _backend
from slce_xp._backend import transfer
from slce_xp.core import krylov, krylov_space
from slce_xp.core import moment_sums as _moments


def test_shape_of_pancan_needs_a_fifth_of_x():
    result = fake_cuda.measure(801, 20531, 5, dtype="float32")
    assert result["tensor_bytes_beside_x"] <= 0.2 * result["x_bytes"]
    # An eigensolver's workspace comes on top, by LAPACK's measure.
    assert result["tensor_bytes_beside_x"] < result["peak_bytes_beside_x"] <= result["plan_bytes"]


@pytest.mark.parametrize("solver", ["scatter", "gram", "krylov"])
def test_every_form_runs(solver):
    result = fake_cuda.measure(600, 400, 4, dtype="float64", solver=solver)
    assert result["form"] == solver
    assert result["passes"] == (6 if solver == "krylov" else 0)
    assert 0 < result["peak_bytes_beside_x"] <= 1.2 * result["plan_bytes"]
    assert result["plan_bytes"] <= 1.5 * result["peak_bytes_beside_x"]
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
    modules = (_backend, transfer, _moments, krylov_space, krylov)
    before = [dict(vars(module)) for module in modules]
    with pytest.raises(ValueError, match="n_components"):
        fake_cuda.measure(600, 400, 4, n_components=401)
    assert [dict(vars(module)) for module in modules] == before
