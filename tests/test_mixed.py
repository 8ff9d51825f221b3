"""Mixed precision: float32 products, float64 residuals, and the angle proved as in float64."""

import numpy as np
import oracle
import pytest

import slce_xp
from slce_xp import _backend
from slce_xp.core import mixed
from slce_xp.core.operators import CentroidOperator

BACKENDS = ["numpy", "strict-device1", "torch", "torch-device", "jax"]
BACKENDS += [pytest.param(label, marks=pytest.mark.gpu) for label in ("cupy", "dpnp")]
TOL = 1e-6


def noisy(n, d, n_classes, seed, spread=6.0):
    """Classes in noise of very different variances, as far apart as the largest noise."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    X = rng.standard_normal((n, d)) * np.geomspace(3.0, 0.01, d)
    return X + spread * rng.standard_normal((n_classes, d))[y] / np.sqrt(np.sqrt(d)), y


def angle(model, exact):
    found, right = (np.asarray(m.components) for m in (model, exact))
    return np.linalg.norm(found.T - right.T @ (right @ found.T), 2)


def products_in_double(monkeypatch):
    counted = []
    apply = CentroidOperator.apply

    def counting(self, rows):
        if _backend.dtype_name(rows.dtype) == "float64":
            counted.append(rows.shape[0])
        return apply(self, rows)

    monkeypatch.setattr(CentroidOperator, "apply", counting)
    return counted


@pytest.mark.parametrize("xp", BACKENDS, indirect=True)
@pytest.mark.parametrize(
    ("solver", "n", "d"), [("scatter", 900, 40), ("gram", 60, 300), ("krylov", 400, 150)]
)
def test_same_answer_to_the_proved_bound(xp, monkeypatch, solver, n, d):
    X, y = noisy(n, d, 5, seed=3)
    exact = slce_xp.fit(X, y, solver="scatter")
    counted = products_in_double(monkeypatch)
    model = slce_xp.fit(xp.array(X), y, solver=solver, precision="mixed").to("numpy")
    assert (model.plan.precision, model.plan.form) == ("mixed", solver)
    assert model.components.dtype == np.float64
    assert angle(model, exact) <= model.angle_bound + exact.angle_bound
    assert model.angle_bound <= TOL
    np.testing.assert_allclose(model.eigenvalues, exact.eigenvalues, rtol=1e-11)
    assert model.n_positive_bounds == exact.n_positive_bounds
    assert counted == [4]  # one product of a block of k rows


def test_products_are_in_float32(monkeypatch):
    """All but those of blocks with k rows."""
    pytest.importorskip("torch")
    import torch
    from counting_device import PRODUCTS, CountingDevice

    X, y = noisy(2000, 200, 5, seed=4)
    flops = {torch.float32: 0, torch.float64: 0}
    with CountingDevice() as device:
        x = device.put(X)
        run = device.run

        def counting(operation, args, kwargs):
            if operation in PRODUCTS:
                left, right = args[-2:]
                flops[left.dtype] += 2 * left.numel() * (right.shape[1] if right.ndim > 1 else 1)
            return run(operation, args, kwargs)

        monkeypatch.setattr(device, "run", counting)
        assert slce_xp.fit(x, y, precision="mixed").plan.precision == "mixed"
    assert 0 < flops[torch.float64] < 0.1 * flops[torch.float32]


@pytest.mark.parametrize("size", [(100_000, 2_000, 20)])
def test_share_of_float64_on_cuda(size):
    pytest.importorskip("torch")
    from benchmarks import fake_cuda

    found = fake_cuda.measure(*size, dtype="float64", precision="mixed", device="rtx4090")
    assert found["precision"] == "mixed"
    assert found["peak_bytes_beside_x"] <= 1.2 * found["plan_bytes"]
    share = found["flops_by_dtype"]["float64"] / sum(found["flops_by_dtype"].values())
    assert share <= 0.05
    full = fake_cuda.measure(*size, dtype="float64", device="rtx4090")
    assert set(full["flops_by_dtype"]) == {"float64"}


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
def test_data_far_from_the_origin(offset):
    X, y = noisy(600, 30, 4, seed=5)
    exact = slce_xp.fit(X + offset, y, precision="full")
    model = slce_xp.fit(X + offset, y, precision="mixed")
    assert model.plan.precision == "mixed"
    assert angle(model, exact) <= model.angle_bound + exact.angle_bound
    np.testing.assert_allclose(model.mean, exact.mean, rtol=1e-14)


@pytest.mark.parametrize("unit", [2.0**-400, 2.0**400])
def test_units_beyond_float32(unit):
    X, y = noisy(600, 30, 4, seed=6)
    model, other = (slce_xp.fit(x, y, precision="mixed") for x in (X, unit * X))
    assert other.plan.precision == "mixed"
    np.testing.assert_allclose(other.components, model.components, atol=1e-9)


@pytest.mark.parametrize("n_components", [1, "positive", 0.5])
def test_any_number_of_components(n_components):
    X, y = noisy(600, 30, 6, seed=7)
    exact = slce_xp.fit(X, y, n_components)
    model = slce_xp.fit(X, y, n_components, precision="mixed")
    assert model.plan.precision == "mixed"
    assert model.n_components == exact.n_components
    assert angle(model, exact) <= model.angle_bound + exact.angle_bound


def test_weights_and_samples_of_no_weight():
    X, y = noisy(600, 30, 4, seed=8)
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(y))
    weights[::7] = 0.0
    X[::7] = np.nan
    exact = slce_xp.fit(X, y, sample_weight=weights)
    model = slce_xp.fit(X, y, sample_weight=weights, precision="mixed")
    assert model.plan.precision == "mixed"
    assert angle(model, exact) <= model.angle_bound + exact.angle_bound


# ---------------------------------------------------------------- when it is full precision


def simplex(d=6, n_classes=4):
    """Class means with equal distances, and the same noise in every direction: ties."""
    noise = np.concatenate([np.eye(d), -np.eye(d)])
    X = np.concatenate([noise + 5.0 * np.eye(d)[j] for j in range(n_classes)])
    return X, np.repeat(np.arange(n_classes), 2 * d)


@pytest.mark.filterwarnings("ignore::slce_xp.ConvergenceWarning")
@pytest.mark.parametrize(
    "options", [{"n_components": 2}, {"tol": 1e-18}], ids=["tie", "beyond float64"]
)
def test_what_cannot_be_proved_is_left_to_full_precision(options):
    X, y = simplex()
    model, full = (slce_xp.fit(X, y, precision=p, **options) for p in ("mixed", "full"))
    assert model.plan.precision == "full"
    np.testing.assert_array_equal(model.components, full.components)


def test_a_tight_tolerance_takes_more_products(monkeypatch):
    X, y = noisy(600, 30, 4, seed=10)
    exact = slce_xp.fit(X, y)
    counted = products_in_double(monkeypatch)
    model = slce_xp.fit(X, y, precision="mixed", tol=3e-13)
    assert model.plan.precision == "mixed"
    assert angle(model, exact) <= model.angle_bound + exact.angle_bound
    assert model.angle_bound <= 3e-13
    assert len(counted) == 2


def test_corrections_that_are_wrong_are_not_believed(monkeypatch):
    X, y = noisy(600, 30, 4, seed=11)
    correction = mixed._correction

    def wrong(*given):
        change, left = correction(*given)
        return 0.5 * change, left + 1.0

    monkeypatch.setattr(mixed, "_correction", wrong)
    model = slce_xp.fit(X, y, precision="mixed")
    monkeypatch.undo()
    assert angle(model, slce_xp.fit(X, y)) <= model.angle_bound + 1e-12


@pytest.mark.parametrize("kind", ["float32", "sparse", "unlabelled", "weights", "blocks"])
def test_what_it_does_not_cover_is_computed_in_full(kind, tmp_path):
    import scipy.sparse as sp

    X, y = noisy(300, 20, 3, seed=12)
    options = {}
    if kind == "float32":
        X = X.astype(np.float32)
    elif kind == "sparse":
        X = sp.csr_array(X)
    elif kind == "unlabelled":
        y = np.where(np.arange(300) % 5, y, -1)
        options = {"unlabeled": -1}
    elif kind == "weights":
        options = {"sample_weight": np.where(np.arange(300) % 5, 1.0, 1e-20)}
    else:
        np.save(tmp_path / "x.npy", X)
        X = np.load(tmp_path / "x.npy", mmap_mode="r")
    model, full = (slce_xp.fit(X, y, precision=p, **options) for p in ("mixed", "full"))
    assert model.plan.precision == "full"
    np.testing.assert_array_equal(model.components, full.components)


# ---------------------------------------------------------------- plans and faces


@pytest.mark.parametrize(
    ("device", "precision"),
    [("rtx4090", "mixed"), ("l4", "mixed"), ("a100", "full"), ("h100", "full"), ("cpu", "full")],
)
def test_auto_is_mixed_where_float64_is_slow(device, precision):
    plan = slce_xp.plan(1_000_000, 784, 10, device=device)
    assert plan.precision == precision
    full = slce_xp.plan(1_000_000, 784, 10, device=device, precision="full")
    assert full.precision == "full"
    assert ("products in float32" in str(plan)) == (precision == "mixed")
    assert plan.seconds <= full.seconds
    assert plan.dtype == "float64"
    # A small fit is not worth it anywhere.
    assert slce_xp.plan(200, 20, 3, device=device).precision == "full"


def test_invalid_precision_raises():
    X, y = oracle.blobs(30, 4, 3, seed=1)
    message = "^precision must be one of 'auto', 'full', 'mixed'; got 'double'"
    for call in (lambda: slce_xp.fit(X, y, precision="double"),
                 lambda: slce_xp.plan(30, 4, 3, precision="double")):  # fmt: skip
        with pytest.raises(ValueError, match=message) as error:
            call()
        assert error.value.parameter == "precision"


def test_estimator_and_saved_plan(tmp_path):
    X, y = noisy(600, 30, 4, seed=13)
    model = slce_xp.SLCE(precision="mixed").fit(X, y).model_
    assert model.plan.precision == "mixed"
    model.save(tmp_path / "model.npz")
    assert slce_xp.load(tmp_path / "model.npz").plan == model.plan


@pytest.mark.parametrize("seed", range(8))
def test_residuals_are_at_least_as_long_as_measured(seed):
    """Of each component, also after a correction that is known for all of them together only."""
    rng = np.random.default_rng(seed)
    n, d, n_classes = 25, 71, 6
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + rng.normal(size=(n_classes, d))[y]
    X *= 10.0 ** (-5 * np.arange(d) / d)
    model = slce_xp.fit(X, y, solver="krylov", precision="mixed")
    assert model.plan.precision == "mixed"
    M = oracle.matrix(X, y)
    A = model.components
    lengths = np.linalg.norm(A @ M - model.eigenvalues[:, None] * A, axis=1)
    assert (lengths / np.linalg.norm(M, 2) <= model.residuals + 1e-15).all()
