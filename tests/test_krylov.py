"""The matrix-free form: residuals that are true, few host reads, deflation, and its limits."""

import re
import tracemalloc
import warnings

import numpy as np
import oracle
import pytest
from conftest import load_set, make_backend
from patching import replace_in_backend

import slce_xp
from slce_xp import _backend
from slce_xp._data import labels as _labels
from slce_xp.core import krylov
from slce_xp.core import rows as _rows
from slce_xp.core.moment_sums import moments_of
from slce_xp.core.operators import CentroidOperator
from slce_xp.core.rows import DenseRows
from slce_xp.core.solution import Costs, Request

SIDES = {"features": (700, 500), "samples": (500, 700)}
EPS = {"float64": 2.3e-16, "float32": 1.2e-7}
TOL = {"float64": 1e-6, "float32": 4e-6}


def problem(side="features", dtype="float64", offset=0.0, n_classes=6, **options):
    X, y = oracle.blobs(*SIDES[side], n_classes, **{"decay": 0.6, "separation": 1.5, **options})
    return (X / X.std() + offset).astype(dtype), y


def overlapping(side="features"):
    """Classes that hardly differ; with more features than samples by repeating columns."""
    X, y = oracle.blobs(500, 60, 6, seed=2, separation=0.25, decay=0.2)
    return (X, y) if side == "features" else (np.repeat(X, 10, axis=1), y)


def fit(X, y, n_components="positive", **options):
    return slce_xp.fit(X, y, n_components, solver="krylov", **options)


def operator_of(X, y, seed=0):
    rows, (groups, _) = DenseRows(X), _labels.as_labels(y, len(X)).counted()
    return CentroidOperator(rows, groups, moments_of(rows, groups), seed)


def true_residuals(X, y, model):
    M = oracle.matrix(X, y)
    A = np.asarray(model.components, np.float64).T
    residuals = np.linalg.norm(M @ A - A * np.asarray(model.eigenvalues, np.float64), axis=0)
    return residuals / np.abs(np.linalg.eigvalsh(M)).max()


def positive_subspace(X, y):
    values, vectors = oracle.eigenpairs(X, y)
    return vectors[values > 1e-8 * np.abs(values).max()]


def peak_of(call):
    tracemalloc.start()
    try:
        result = call()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- residuals


@pytest.mark.parametrize("tol", [None, 1e-3])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("side", SIDES)
def test_reported_residuals_are_the_true_ones(dtype, side, offset, tol):
    X, y = problem(side, dtype, offset)
    model = fit(X, y, tol=tol)
    assert model.n_components == model.residuals.shape[0] == 5
    rounding = 50 * EPS[dtype]
    np.testing.assert_allclose(
        model.residuals, true_residuals(X, y, model), rtol=0.05, atol=rounding
    )


@pytest.mark.parametrize("decay", [0.1, 1.0, 1.8, 2.8])
@pytest.mark.parametrize("side", SIDES)
def test_the_default_tolerance_is_reached_whatever_the_spectrum(dtype, side, decay):
    # Steep spectra leave remainders that are nearly dependent: none of them may be lost.
    for seed, separation in enumerate([0.9, 2.5]):
        X, y = problem(side, dtype, n_classes=10, seed=seed, decay=decay, separation=separation)
        with warnings.catch_warnings():
            # Of eigenvalues that single precision cannot tell from zero.
            warnings.filterwarnings("ignore", ".* may be positive")
            model = fit(X, y)
        assert model.n_components > 0
        assert model.residuals.max() <= TOL[dtype]
        if dtype == "float64":
            exact = oracle.eigenpairs(X, y)[1][: model.n_components]
            assert oracle.largest_angle(model.components, exact) <= model.angle_bound <= 1e-5
        # Rounding is relative to S_t, which is larger than M where classes overlap. In sample
        # coordinates a = Xᵀu, and u is divided by its eigenvalue: so is its rounding.
        scale = EPS[dtype] * np.linalg.norm(oracle.centred(X), 2) ** 2
        rounding = 100 * scale / np.linalg.norm(oracle.matrix(X, y), 2)
        if side == "samples":
            rounding = rounding + 10 * scale / model.eigenvalues
        assert (true_residuals(X, y, model) <= TOL[dtype] + rounding).all()


@pytest.mark.parametrize("side", SIDES)
def test_residuals_are_relative_to_m_not_to_the_larger_total_scatter(side):
    # Half of the leading variance lies between the classes, half within: M is small there.
    rng = np.random.default_rng(0)
    n, d = SIDES[side]
    y = np.arange(n) % 2
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.5
    X[:, 0] = 20.0 * (rng.standard_normal(n) + np.where(y, 1.0, -1.0))
    model = fit(X, y, tol=1e-5)
    np.testing.assert_allclose(model.residuals, true_residuals(X, y, model), rtol=0.1, atol=1e-12)


@pytest.mark.parametrize("side", SIDES)
def test_history_has_an_entry_per_pass_and_ends_below_tol(dtype, side):
    X, y = problem(side, dtype)
    model = fit(X, y)
    assert 1 < model.passes == len(model.history)
    assert model.history[-1] <= TOL[dtype]
    assert model.history[-1] < model.history[-2]
    assert f"({model.passes} passes, residual" in str(model)


@pytest.mark.parametrize("side", SIDES)
def test_too_few_passes_are_told_and_the_rest_is_honest(side):
    X, y = problem(side)
    with pytest.warns(slce_xp.ConvergenceWarning, match=r"max_iter=2\b") as record:
        model = fit(X, y, max_iter=2)
    text = str(record[0].message)
    (largest,) = re.search(r"the largest residual is ([\d.e-]+);", text).groups()
    assert float(largest) == pytest.approx(model.residuals.max(), rel=0.05)
    exact = oracle.eigenpairs(X, y)[1][:5]
    angle = oracle.largest_angle(model.components, exact)
    assert model.n_components == 5
    assert 1e-6 < angle <= model.angle_bound
    if np.isfinite(model.angle_bound):
        assert f"proved to {model.angle_bound:.1e} only" in text
    else:
        assert "it is not proved" in text
    assert model.passes == 2
    np.testing.assert_allclose(model.components @ model.components.T, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(model.residuals, true_residuals(X, y, model), rtol=0.05)


def test_the_convergence_warning_points_at_the_caller():
    X, y = problem()
    with pytest.warns(slce_xp.ConvergenceWarning) as record:
        slce_xp.fit(X, y, "positive", solver="krylov", max_iter=1)
    assert record[0].filename == __file__


# ---------------------------------------------------------------- what a pass costs


@pytest.mark.parametrize("label", ["strict", "torch"])
@pytest.mark.parametrize("side", SIDES)
def test_one_host_read_per_pass(monkeypatch, side, label):
    X, y = problem(side)
    reads = []
    to_host = _backend.to_host
    replace_in_backend(monkeypatch, "to_host", lambda x: reads.append(x.shape) or to_host(x))
    counts = {}
    with make_backend(label) as backend:
        for tol in (1e-2, 1e-4, 1e-8):
            reads.clear()
            model = fit(backend.array(X), y, tol=tol)
            counts[model.passes] = len(reads)
    assert len(counts) >= 2
    assert len({count - passes for passes, count in counts.items()}) == 1
    assert max(int(np.prod(shape)) for shape in reads) < 0.2 * X.size  # nothing of X itself


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("side", SIDES)
def test_a_pass_is_a_sum_over_blocks(monkeypatch, side, offset):
    X, y = problem(side, offset=offset)
    whole = fit(X, y, tol=1e-12)
    monkeypatch.setattr(_rows, "block_bytes", lambda *size: 64 * 30 * X.itemsize)
    source = DenseRows(X)
    blocks = source.row_blocks(64) if side == "features" else source.column_blocks(64)
    assert len(list(blocks)) > 8
    parts = fit(X, y, tol=1e-12)
    assert parts.passes == whole.passes
    np.testing.assert_allclose(parts.components, whole.components, atol=1e-9)


@pytest.mark.parametrize("side", SIDES)
def test_the_seed_changes_nothing_but_rounding(side):
    X, y = problem(side)
    first, again, other = (fit(X, y, tol=1e-12, random_state=seed) for seed in (3, 3, 4))
    assert first.components.tobytes() == again.components.tobytes()
    assert first.residuals.tobytes() == again.residuals.tobytes()
    assert first.components.tobytes() != other.components.tobytes()
    assert oracle.largest_angle(first.components, other.components) <= 1e-9


@pytest.mark.parametrize("side", SIDES)
def test_narrowing_the_block_finds_the_same_subspace_with_fewer_rows(side):
    X, y = problem(side, decay=0.3)
    request = {"k": 5, "tol": 1e-11, "max_iter": 50, "width": 32}
    sizes = []
    grow = krylov.KrylovSpace.grow

    def recorded(space, directions=None):
        grow(space, directions)
        sizes.append(space.size - sum(sizes))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(krylov.KrylovSpace, "grow", recorded)
        narrow = krylov.solve(operator_of(X, y), Request(wide_passes=3, **request))
    wide = krylov.solve(operator_of(X, y), Request(wide_passes=10**6, **request))
    assert narrow.passes >= wide.passes > 3
    assert min(sizes[:3]) >= 31 > 5 >= max(sizes[4:])  # centroids are dependent: 31
    assert oracle.largest_angle(narrow.vectors.T, wide.vectors.T) <= 1e-8
    assert oracle.largest_angle(narrow.vectors.T, positive_subspace(X, y)) <= 1e-8


# ---------------------------------------------------------------- deflation


def degenerate():
    rng = np.random.default_rng(5)
    X, y = oracle.blobs(60, 40, 4, seed=5)
    line = rng.standard_normal((60, 40)) + np.outer(6.0 * (np.arange(60) % 3), np.ones(40))
    rank_one = np.outer(rng.standard_normal(60) + 5.0 * (np.arange(60) % 2), np.arange(1.0, 41.0))
    padded = np.concatenate([X, np.zeros((60, 60))], axis=1)
    same = X.copy()
    same[:, 20:] = same[:, :20]
    return {
        "duplicate rows": (np.repeat(X[:12], 5, axis=0), np.repeat(y[:12], 5)),
        "duplicate columns": (same, y),
        "three means on a line": (line, np.arange(60) % 3),
        "data of rank one": (rank_one, np.arange(60) % 2),
        "columns of zeros": (padded, y),
        "as many classes as samples": (X, np.arange(60)),
        "as many classes as samples, wide": (X[:30], np.arange(30)),
        "more classes than features": (X, np.arange(60) % 50),
        "fewer samples than the block": (X[:20], y[:20]),
        "two samples": (X[:2], np.array([0, 1])),
        "one feature": (X[:, :1] + 9.0 * y[:, None], y),
        "samples with two centroids the same": (np.concatenate([X, X]), np.r_[y, y + 4]),
    }


@pytest.mark.parametrize("case", degenerate())
def test_dependent_directions_are_deflated(dtype, case):
    X, y = degenerate()[case]
    X = X.astype(dtype)
    with warnings.catch_warnings():
        if dtype == "float32":  # more may be positive, in features of the size of rounding
            warnings.filterwarnings("ignore", ".* cannot be distinguished from zero")
        model = fit(X, y)
    assert model.solver == "krylov"
    values, vectors = oracle.eigenpairs(X, y)
    scale = np.abs(values).max()
    positive = int((values > {"float64": 1e-8, "float32": 4e-6}[dtype] * scale).sum())
    assert model.n_components == positive > 0
    tolerance = {"float64": 1e-9, "float32": 2e-3}[dtype]
    assert oracle.largest_angle(model.components, vectors[:positive]) <= tolerance
    np.testing.assert_allclose(model.eigenvalues, values[:positive], atol=60 * EPS[dtype] * scale)
    products = model.components @ model.components.T
    np.testing.assert_allclose(products, np.eye(positive), atol=60 * EPS[dtype])


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("width", [1, 6, 10_000])
def test_any_width_gives_the_answer(side, width):
    X, y = problem(side)
    request = Request(k=5, tol=1e-10, max_iter=100, width=width, wide_passes=3)
    solution = krylov.solve(operator_of(X, y), request)
    assert solution.converged
    assert oracle.largest_angle(solution.vectors.T, positive_subspace(X, y)) <= 1e-7


def test_constant_data_have_no_direction():
    with pytest.warns(UserWarning, match="no components"):
        model = fit(np.full((80, 70), 3.0), np.arange(80) % 3)
    assert model.components.shape == (0, 70)


# ---------------------------------------------------------------- beyond the positive ones


@pytest.mark.parametrize("side", SIDES)
def test_what_is_not_positive_is_left_to_a_dense_form(side):
    X, y = overlapping(side)
    values, _ = oracle.eigenpairs(X, y)
    level = 1e-9 * np.abs(values).max()
    positive = int((values > level).sum())
    assert positive < 5
    model = slce_xp.fit(X, y, solver="krylov")
    assert model.solver == {"features": "scatter", "samples": "gram"}[side]
    assert "fewer eigenvalues are positive" in model.plan.reason
    assert model.n_components == 5
    assert model.n_positive == positive
    np.testing.assert_allclose(model.eigenvalues, values[:5], atol=level)


def test_asking_for_the_positive_ones_never_needs_a_dense_form():
    X, y = overlapping()
    rng = np.random.default_rng(1)
    X = X + 3.0 * (y == 1)[:, None] * rng.standard_normal(60)
    model = fit(X, y)
    assert model.solver == "krylov"
    assert 0 < model.n_components == len(positive_subspace(X, y)) < 5


@pytest.mark.parametrize("shape", [(600, 120), (200, 100), (500, 500)])
def test_no_positive_eigenvalue_gives_an_empty_model(shape):
    n, d = shape
    X = np.random.default_rng(0).standard_normal((n // 2, d))
    X, y = np.concatenate([X, X]), np.arange(n) // (n // 2)  # both classes the very same
    with pytest.warns(UserWarning, match="no direction lowers the loss"):
        model = fit(X, y)
    assert model.solver == "krylov"
    assert model.components.shape == (0, d)
    assert model.residuals.shape == (0,)
    assert "no direction" in str(model)


@pytest.mark.parametrize("seed", range(40))
def test_the_count_of_positive_eigenvalues_is_the_oracle_s(seed):
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(3, 12))
    d = int(rng.integers(80, 200))
    n = int(rng.integers(d + 20, 4 * d)) if seed % 4 else d  # tall, where classes can overlap
    y = rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    # Some directions separate well, some hardly, some at a scale that makes them tiny.
    scale = 10.0 ** rng.uniform(-3.0, 0.0, d) if seed % 2 else np.arange(1, d + 1) ** -0.5
    separation = rng.choice([0.0, 0.3, 0.8, 1.1, 4.0], d)
    X = (rng.standard_normal((n, d)) + rng.standard_normal((n_classes, d))[y] * separation) * scale
    values, _ = oracle.eigenpairs(X, y)
    relative = values / np.abs(values).max()
    assert not ((relative > 1e-10) & (relative < 3e-8)).any()  # on the edge of the tolerance
    model = fit(X, y)
    assert model.solver == "krylov"
    assert model.n_components == model.n_positive == (relative > 1e-8).sum()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("size", [1e-2, 1e-3])
def test_a_tiny_positive_eigenvalue_is_found(side, size):
    # One class stands apart by so little that its eigenvalue is size² of the norm.
    rng = np.random.default_rng(7)
    n, d = SIDES[side]
    X = np.concatenate([rng.standard_normal((n // 2, d))] * 2)
    y = np.r_[np.zeros(n // 2, int), np.ones(n - n // 2, int)]
    X = np.column_stack([X, size * (6.0 * y + rng.standard_normal(n))])
    values, vectors = oracle.eigenpairs(X, y)
    relative = values / np.abs(values).max()
    assert 1e-7 < relative[0] < 0.1
    model = fit(X, y)
    assert model.n_components == 1
    assert oracle.largest_angle(model.components, vectors[:1]) <= 1e-4


# ---------------------------------------------------------------- memory


def large(n, d, n_classes, dtype):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d), dtype=np.float32).astype(dtype)
    X *= (np.arange(1, d + 1) ** -0.5).astype(dtype)
    X[:, :n_classes] += np.eye(n_classes, dtype=dtype)[y] * 3.0
    return X, y


@pytest.mark.parametrize("schedule", ["auto", "krylov"])
def test_the_shape_of_pancan_needs_a_seventh_of_x(schedule):
    X, y = large(801, 20531, 5, "float64")
    width, wide_passes = {"auto": (32, 3), "krylov": (64, 10**6)}[schedule]
    request = Request(4, 1e-8, 50, width, wide_passes)
    peak, solution = peak_of(lambda: krylov.solve(operator_of(X, y), request))
    assert solution.converged
    assert peak <= {"auto": 0.15, "krylov": 0.3}[schedule] * X.nbytes


def test_a_large_square_fit_makes_no_square():
    X, y = large(6000, 6000, 10, "float32")
    peak, model = peak_of(lambda: slce_xp.fit(X, y))
    assert model.solver == "krylov"
    assert peak <= 0.15 * X.nbytes


# ---------------------------------------------------------------- real data

REAL = ["usps", "coil20", "yale", "olivetti", "arcene", "tcga_luad", "colon", "mice_protein"]
REAL_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("mnist", "worm_neuron")]


@pytest.mark.parametrize("name", REAL + REAL_SLOW)
def test_real_data_take_few_passes_and_agree_with_a_dense_form(data_folder, name):
    X, y = load_set(data_folder, name)
    X = X.astype(np.float64)
    if name == "tcga_luad":
        X = np.log2(X + 1.0)
    if name == "mice_protein":
        X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    model = fit(X, y)
    dense = slce_xp.fit(X, y, "positive", solver="gram" if len(X) < X.shape[1] else "scatter")
    assert sum(residual > 1e-8 for residual in model.history) < 12
    assert model.n_components == dense.n_components > 0
    assert oracle.largest_angle(model.components, dense.components) <= 1e-6


def test_an_iteration_goes_on_if_no_dense_form_can_take_over():
    costs = Costs(implicit=1.0, ritz=1e-9)
    meter = krylov._Meter(Request(k=2, tol=0.0, max_iter=50, costs=costs))
    for size in (10, 20, 30, 40):
        meter.add_product()
        meter.expect([1.0, 1.0, 1.0], 1e-9, size, fewer=True)
    assert not meter.is_spent
    assert not meter.is_forming_due
    meter = krylov._Meter(Request(k=2, tol=0.0, max_iter=50, costs=costs._replace(dense=100.0)))
    for size in (10, 20, 30, 40):
        meter.add_product()
        meter.expect([1.0, 1.0, 1.0], 1e-9, size, fewer=True)
    assert meter.is_spent
