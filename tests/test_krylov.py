"""The matrix-free form: residuals that are true, few host reads, deflation, and its limits."""

import tracemalloc
import warnings

import numpy as np
import oracle
import pytest
from conftest import load_set, make_backend
from patching import replace_in_backend

import slce_xp
from slce_xp import _backend, _fit, core
from slce_xp._data import labels as _labels
from slce_xp.core import _krylov, _rows
from slce_xp.core._krylov import Request
from slce_xp.core._problem import problem_of
from slce_xp.core._rows import MemoryRows
from slce_xp.core._space import KrylovSpace

SIDES = {"features": (700, 500), "samples": (500, 700)}
EPS = {"float64": 2.3e-16, "float32": 1.2e-7}
TOL = 1e-6


def drawn(side="features", dtype="float64", offset=0.0, n_classes=6, **options):
    X, y = oracle.blobs(*SIDES[side], n_classes, **{"decay": 0.6, "separation": 1.5, **options})
    return (X / X.std() + offset).astype(dtype), y


def overlapping(side="features"):
    """Classes that hardly differ; with more features than samples by repeating columns."""
    X, y = oracle.blobs(500, 60, 6, seed=2, separation=0.25, decay=0.2)
    return (X, y) if side == "features" else (np.repeat(X, 10, axis=1), y)


def fit(X, y, n_components="positive", **options):
    return slce_xp.fit(X, y, n_components, solver="krylov", **options)


def solve(X, y, request):
    rows, (groups, _) = MemoryRows(X), _labels.as_labels(y, len(X)).counted()
    return _krylov.krylov(problem_of(rows, groups, "krylov"), request)


def total_scatter(X):
    """T, which residuals and levels are relative to."""
    return float(np.square(oracle.centred(X)).sum())


def true_residual(X, y, model):
    A = np.asarray(model.components, np.float64).T[:, : model.n_positive]
    values = np.asarray(model.eigenvalues, np.float64)[: model.n_positive]
    return np.linalg.norm(oracle.matrix(X, y) @ A - A * values)


def check_promise(X, y, model):
    """Level, count, eigenvalues and angles are as the model states them."""
    values, vectors = oracle.eigenpairs(X, y)
    below = np.append(values[1:], -np.inf)
    T, (low, high) = total_scatter(X), model.n_positive_bounds
    rounding = 32 * EPS["float64"] * T
    assert model.n_positive == low <= model.n_components
    assert (values > model.zero_level + rounding).sum() <= high
    assert low <= (values > model.zero_level - rounding).sum()
    stored = EPS[model.components.dtype.name] * model.n_components**0.5
    assert true_residual(X, y, model) <= 1.05 * model.residual + rounding + stored * T
    for j, bound in enumerate(model.angle_bounds, 1):
        if np.isfinite(bound):
            known = rounding / (values[j - 1] - below[j - 1]) + 8 * stored
            angle = oracle.largest_angle(model.components[:j], vectors[:j])
            assert angle <= bound + known
            error = np.abs(model.eigenvalues[:j] - values[:j]).max()
            assert error <= model.residual + rounding + 2 * stored * T


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


@pytest.mark.parametrize("tol", [TOL, 1e-3])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("side", SIDES)
def test_the_reported_residual_is_the_true_one(dtype, side, offset, tol):
    X, y = drawn(side, dtype, offset)
    model = fit(X, y, tol=tol)
    assert model.n_components == 5
    T = total_scatter(X)
    assert model.residual <= tol * T
    assert 2 * tol * T <= model.zero_level <= 2.01 * tol * T
    # Components are rounded to the dtype of X.
    atol = 2 * EPS[dtype] * np.linalg.norm(oracle.matrix(X, y), 2)
    assert model.residual == pytest.approx(true_residual(X, y, model), rel=0.05, abs=atol)
    check_promise(X, y, model)
    assert np.isfinite(model.angle_bounds).all()


@pytest.mark.parametrize("decay", [0.1, 1.0, 1.8, 2.8])
@pytest.mark.parametrize("side", SIDES)
def test_the_default_tolerance_is_reached_whatever_the_spectrum(dtype, side, decay):
    # Steep spectra leave remainders that are nearly dependent: none of them may be lost.
    for seed, separation in enumerate([0.9, 2.5]):
        X, y = drawn(side, dtype, n_classes=10, seed=seed, decay=decay, separation=separation)
        with warnings.catch_warnings():  # of an eigenvalue so near the level; others are errors
            warnings.filterwarnings("ignore", "n_components='positive' has")
            model = fit(X, y)
        assert model.n_components > 0
        # Vectors of samples are measured when the iteration has ended.
        assert model.residual <= (1 + (side == "samples")) * TOL * total_scatter(X)
        check_promise(X, y, model)
        low, high = model.n_positive_bounds
        assert low == model.n_components >= high - 1


@pytest.mark.parametrize("side", SIDES)
def test_a_small_m_within_a_large_scatter(side):
    # Half of the leading variance lies between the classes, half within: M is small there.
    rng = np.random.default_rng(0)
    n, d = SIDES[side]
    y = np.arange(n) % 2
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.5
    X[:, 0] = 20.0 * (rng.standard_normal(n) + np.where(y, 1.0, -1.0))
    model = fit(X, y, tol=1e-5)
    atol = 32 * EPS["float64"] * total_scatter(X)
    assert model.residual == pytest.approx(true_residual(X, y, model), rel=0.1, abs=atol)
    check_promise(X, y, model)


@pytest.mark.parametrize("side", SIDES)
def test_a_smaller_tolerance_takes_more_passes(dtype, side):
    X, y = drawn(side, dtype)
    models = [fit(X, y, tol=tol) for tol in (1e-3, 1e-6, 1e-9)]
    passes, residuals, angles = zip(
        *((m.passes, m.residual, m.angle_bound) for m in models), strict=True
    )
    assert 1 < passes[0] < passes[1] < passes[2]
    assert residuals[0] > residuals[1] > residuals[2]
    assert angles[0] > angles[1] > angles[2]
    assert f"({passes[1]} passes)" in str(models[1])


@pytest.mark.parametrize("side", SIDES)
def test_too_few_passes_warn_and_the_rest_is_honest(side):
    X, y = drawn(side)
    with pytest.warns(slce_xp.ConvergenceWarning, match=r"after 2 passes .* max_iter=2\b"):
        model = fit(X, y, max_iter=2)
    exact = oracle.eigenpairs(X, y)[1][:5]
    angle = oracle.largest_angle(model.components, exact)
    assert model.n_components == 5
    assert 1e-6 < angle <= model.angle_bound
    assert model.passes == 2
    assert model.residual > TOL * total_scatter(X)
    np.testing.assert_allclose(model.components @ model.components.T, np.eye(5), atol=1e-12)
    assert model.residual == pytest.approx(true_residual(X, y, model), rel=0.05)
    check_promise(X, y, model)


@pytest.mark.filterwarnings("ignore:n_components=.* only the first")
def test_the_convergence_warning_points_at_the_caller():
    X, y = drawn()
    with pytest.warns(slce_xp.ConvergenceWarning) as record:
        slce_xp.fit(X, y, solver="krylov", max_iter=1)
    assert record[0].filename == __file__


# ---------------------------------------------------------------- what a pass costs


@pytest.mark.parametrize("label", ["strict", "torch"])
@pytest.mark.parametrize("side", SIDES)
def test_one_host_read_per_pass(monkeypatch, side, label):
    X, y = drawn(side)
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
    X, y = drawn(side, offset=offset)
    whole = fit(X, y, tol=1e-12)
    monkeypatch.setattr(_rows, "block_bytes", lambda *size: 64 * 30 * X.itemsize)
    source = MemoryRows(X)
    blocks = source.row_blocks(64) if side == "features" else source.columns(64)
    assert len(list(blocks)) > 8
    parts = fit(X, y, tol=1e-12)
    assert parts.passes == whole.passes
    np.testing.assert_allclose(parts.components, whole.components, atol=1e-9)


@pytest.mark.parametrize("side", SIDES)
def test_the_seed_changes_nothing_but_rounding(side):
    X, y = drawn(side)
    first, again, other = (fit(X, y, tol=1e-12, random_state=seed) for seed in (3, 3, 4))
    assert first.components.tobytes() == again.components.tobytes()
    assert (first.residual, first.passes) == (again.residual, again.passes)
    assert first.components.tobytes() != other.components.tobytes()
    assert oracle.largest_angle(first.components, other.components) <= 1e-9


@pytest.mark.parametrize("side", SIDES)
def test_narrowing_the_block_finds_the_same_subspace_with_fewer_rows(side):
    X, y = drawn(side, decay=0.3)
    request = {"k": 5, "tol": 1e-11, "max_iter": 50, "width": 32}
    sizes = []
    grow = KrylovSpace.grow

    def recorded(space, directions=None):
        grow(space, directions)
        sizes.append(space.size - sum(sizes))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KrylovSpace, "grow", recorded)
        narrow = solve(X, y, Request(wide_passes=3, **request))
    wide = solve(X, y, Request(wide_passes=10**6, **request))
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
    model = fit(X, y)
    if model.plan.n_components < len(np.unique(y)):
        assert model.solver == "krylov"
    values, vectors = oracle.eigenpairs(X, y)
    scale = np.abs(values).max()
    positive = int((values > model.zero_level).sum())
    assert model.n_components == positive > 0
    assert model.n_positive_bounds == (positive, positive)
    check_promise(X, y, model)
    # Most spaces as small as these are spanned to the end: exact but for rounding.
    tolerance = {"float64": 1e-9, "float32": 1e-5}[dtype]
    angle = oracle.largest_angle(model.components, vectors[:positive])
    assert angle <= max(tolerance, min(model.angle_bound, 1e-5))
    np.testing.assert_allclose(model.eigenvalues, values[:positive], atol=60 * EPS[dtype] * scale)
    products = model.components @ model.components.T
    np.testing.assert_allclose(products, np.eye(positive), atol=60 * EPS[dtype])


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("width", [1, 6, 10_000])
def test_any_width_gives_the_answer(side, width):
    X, y = drawn(side)
    request = Request(k=5, tol=1e-10, max_iter=100, width=width, wide_passes=3)
    solution = solve(X, y, request)
    assert solution.converged
    assert oracle.largest_angle(solution.vectors.T, positive_subspace(X, y)) <= 1e-7


def test_as_many_components_are_returned_as_are_asked_for():
    """Also if none of them is positive, and the space was small when that was known."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((450, 440)), np.where(np.arange(450) < 12, np.arange(450) % 3, -1)
    options = {"unlabeled": -1, "unlabeled_weight": 0.0, "solver": "krylov"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert slce_xp.fit(X, y, 400, **options).components.shape == (400, 440)


def test_constant_data_have_no_direction():
    with pytest.warns(UserWarning, match="no components"):
        model = fit(np.full((80, 70), 3.0), np.arange(80) % 3)
    assert model.components.shape == (0, 70)


# ---------------------------------------------------------------- the space


def singular(rng, m, rank):
    factor = rng.standard_normal((m, rank)) * 10.0 ** rng.uniform(-3, 3, rank)
    return factor @ factor.T


def check_space(space, matrix, dtype="float64"):
    """C·Q = T·Q + K·P, with Q and P orthonormal."""
    known = np.asarray(space._basis, np.float64)[: space.size + space.pooled]
    q, p = known[: space.size], known[space.size :]
    eps, scale = EPS[dtype], np.linalg.norm(matrix, 2)
    np.testing.assert_allclose(known @ known.T, np.eye(len(known)), rtol=0, atol=20 * eps)
    product = space.matrix @ q + space.coupling @ p
    np.testing.assert_allclose(q @ matrix, product, rtol=0, atol=20 * eps * scale)
    np.testing.assert_allclose(space.matrix, space.matrix.T, rtol=0, atol=0)


@pytest.mark.parametrize("rank", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("m", [3, 9, 40, 150])
@pytest.mark.parametrize("is_narrow", [False, True])
def test_the_space_stays_orthonormal(dtype, m, rank, is_narrow):
    """Of matrices of low rank, whose products leave nothing new, until nothing is left to add."""
    for seed in range(3):
        rng = np.random.default_rng([seed, m, rank])
        rank = min(rank, m)
        matrix = singular(rng, m, rank).astype(dtype)
        n_classes = int(rng.integers(2, 5))
        start = rng.standard_normal((n_classes + int(rng.integers(0, 4)), m)).astype(dtype)
        if rng.random() < 0.5:
            start[1] = start[0]  # classes with the same mean
        if rng.random() < 0.3:
            start[0] = 0.0
        if seed == 0:
            matrix, start[:n_classes] = 0 * matrix, 0  # all samples are the same
        start = start if len(start) < m else np.eye(m, dtype=dtype)
        classes = start[:n_classes]
        space = KrylovSpace(lambda rows, c=matrix: rows @ c, start, classes, 4)
        while not space.is_exhausted:
            size = space.size
            directions = None
            if is_narrow and size and rng.random() < 0.9:
                directions = rng.standard_normal((space.pooled, 1))
            space.grow(directions)
            assert space.size > size
            check_space(space, matrix, dtype)
        assert space.size == m
        rows = space.combine(space.known)
        scale = np.abs(classes).max()
        np.testing.assert_allclose(rows, classes, rtol=0, atol=100 * EPS[dtype] * scale)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("side", SIDES)
def test_data_of_low_rank(dtype, side, rank):
    rng = np.random.default_rng(rank)
    n, d = SIDES[side]
    y = np.arange(n) % 4
    scores = rng.standard_normal((n, rank)) + 4.0 * rng.standard_normal((4, rank))[y]
    X = (scores @ rng.standard_normal((rank, d))).astype(dtype)
    model = fit(X, y)
    values, vectors = oracle.eigenpairs(X, y)
    positive = int((values > model.zero_level).sum())
    assert model.solver == "krylov"
    assert model.n_positive_bounds == (positive, positive)
    assert 1 <= positive <= rank
    check_promise(X, y, model)
    angle = oracle.largest_angle(model.components, vectors[:positive])
    assert angle <= {"float64": 1e-9, "float32": 1e-5}[dtype]


# ---------------------------------------------------------------- beyond the positive ones


@pytest.mark.filterwarnings("ignore:n_components=.* only the first")
@pytest.mark.parametrize("side", SIDES)
def test_fewer_positive_eigenvalues_than_components(side):
    """An iteration returns as many as asked for, and says how many lower the loss."""
    X, y = overlapping(side)
    values, _ = oracle.eigenpairs(X, y)
    model = slce_xp.fit(X, y, solver="krylov")
    positive = int((values > model.zero_level).sum())
    assert positive < 5
    assert model.solver == "krylov"
    assert model.n_components == 5
    assert model.n_positive_bounds == (positive, positive)
    assert (model.eigenvalues[positive:] <= model.zero_level).all()
    np.testing.assert_allclose(model.components @ model.components.T, np.eye(5), atol=1e-12)
    assert np.isinf(model.angle_bounds[positive:]).all()
    check_promise(X, y, model)
    with pytest.warns(UserWarning, match=f"only the first {positive} lower|no direction lowers"):
        slce_xp.fit(X, y, 5, solver="krylov")


@pytest.mark.filterwarnings("ignore:n_components=.* only the first")
def test_some_positive_eigenvalues():
    X, y = overlapping()
    rng = np.random.default_rng(1)
    X = X + 3.0 * (y == 1)[:, None] * rng.standard_normal(60)
    values, _ = oracle.eigenpairs(X, y)
    for n_components in ("positive", None):
        model = fit(X, y, n_components)
        positive = int((values > model.zero_level).sum())
        assert model.solver == "krylov"
        assert model.n_positive_bounds == (positive, positive)
        assert 0 < positive < 5
        assert np.isfinite(model.angle_bounds[:positive]).all()
        check_promise(X, y, model)
        # Eigenvalues that are not positive are those of the returned vectors, and no better.
        A, M = model.components, oracle.matrix(X, y)
        quotients = np.sum((A @ M) * A, axis=1)
        np.testing.assert_allclose(model.eigenvalues, quotients, atol=1e-9 * abs(M).max())


@pytest.mark.parametrize("form", ["krylov", "auto"])
def test_more_components_than_classes_need_a_matrix(form):
    for side, dense in {"features": "scatter", "samples": "gram"}.items():
        X, y = overlapping(side)
        found = core.eigenpairs(X, y, 6, 8, form=form)
        assert found.form == dense
        np.testing.assert_allclose(found.values, oracle.eigenpairs(X, y)[0][:8], atol=1e-9)
        with pytest.warns(UserWarning, match="lower"):
            model = slce_xp.fit(X, y, 8, solver=form)
        assert model.solver == dense
    assert form == "auto" or "krylov needs n_components < n_classes" in model.plan.reason


@pytest.mark.parametrize("shape", [(600, 120), (200, 100), (500, 500)])
def test_no_positive_eigenvalue_gives_an_empty_model(shape):
    n, d = shape
    X = np.random.default_rng(0).standard_normal((n // 2, d))
    X, y = np.concatenate([X, X]), np.arange(n) // (n // 2)  # both classes the very same
    with pytest.warns(UserWarning, match="no direction lowers the loss"):
        model = fit(X, y)
    assert model.solver == "krylov"
    assert model.components.shape == (0, d)
    assert (model.residual, model.n_positive_bounds) == (0.0, (0, 0))
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
    for tol in (1e-6, 1e-9):
        model = fit(X, y, tol=tol)
        assert model.solver == "krylov"
        assert model.n_components == model.n_positive == (values > model.zero_level).sum()
        check_promise(X, y, model)


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
    # Far below its size the tolerance finds it, after many passes; above, it counts as zero.
    share = values[0] / total_scatter(X)
    for tol, most in [(0.1 * share, 0.1), (1e-3 * share, 1e-3)]:
        model = fit(X, y, tol=tol, max_iter=600)
        assert model.n_positive_bounds == (1, 1)
        check_promise(X, y, model)
        assert oracle.largest_angle(model.components, vectors[:1]) <= model.angle_bound <= most
    with pytest.warns(UserWarning, match="cannot be resolved"):
        model = fit(X, y, tol=10 * share)
    assert model.n_positive_bounds == (0, 0)


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
    peak, solution = peak_of(lambda: solve(X, y, request))
    assert solution.converged
    assert peak <= {"auto": 0.15, "krylov": 0.3}[schedule] * X.nbytes


def test_a_large_square_fit_makes_no_square():
    X, y = large(6000, 6000, 10, "float32")
    peak, model = peak_of(lambda: slce_xp.fit(X, y))
    assert model.solver == "krylov"
    assert peak <= model.plan.most_bytes
    assert peak <= 0.08 * X.size * 8  # sums are float64


# ---------------------------------------------------------------- real data

REAL = ["usps", "coil20", "yale", "olivetti", "arcene", "tcga_luad", "colon", "mice_protein"]
REAL_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("mnist", "worm_neuron")]


@pytest.mark.parametrize("name", REAL + REAL_SLOW)
def test_real_data_take_few_passes_and_agree_with_a_dense_form(monkeypatch, data_folder, name):
    # As if passes were expensive: in memory, few rows join the space in each.
    monkeypatch.setattr(_fit, "WIDE_PASSES", 10**6)
    X, y = load_set(data_folder, name)
    X = X.astype(np.float64)
    if name == "tcga_luad":
        X = np.log2(X + 1.0)
    if name == "mice_protein":
        X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    model = fit(X, y)
    dense = slce_xp.fit(X, y, "positive", solver="gram" if len(X) < X.shape[1] else "scatter")
    assert model.passes < (16 if name == "mnist" else 12)  # whose last eigenvalues are close
    values = dense.eigenvalues
    (low, high), rounding = model.n_positive_bounds, dense.zero_level
    assert low <= (values > model.zero_level - rounding).sum()
    assert (values > model.zero_level + rounding).sum() <= high
    assert low > 0
    assert np.isfinite(model.angle_bounds).any()
    bounds = model.angle_bounds + dense.angle_bounds[:low]
    for j in np.flatnonzero(np.isfinite(bounds)):
        angle = oracle.largest_angle(model.components[: j + 1], dense.components[: j + 1])
        assert angle <= bounds[j]
    lost = values.sum() - model.eigenvalues.sum()
    assert abs(lost) <= 1e-4 * values.sum()


def test_components_that_an_iteration_does_not_find_are_named():
    """By default there are K − 1 components, also if fewer lower the loss."""
    X, y = np.random.default_rng(0).normal(size=(400, 120)), np.arange(400) % 6
    X[y == 0] += 1.0
    with pytest.warns(UserWarning, match="only the first 1 lower the loss, and an iteration"):
        model = slce_xp.fit(X, y, solver="krylov")
    assert (model.n_components, model.n_positive) == (5, 1)
    assert not np.isfinite(model.angle_bounds[1:]).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert slce_xp.fit(X, y, "positive", solver="krylov").n_components == 1
        assert np.isfinite(slce_xp.fit(X, y, solver="scatter").angle_bounds).all()
