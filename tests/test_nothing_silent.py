"""Inputs that once gave a wrong answer without a word: units, weights, zeros, counts."""

import warnings

import numpy as np
import oracle
import pytest
import scipy.sparse as sp
from conftest import load_set, spare_compiling

import slce_xp
from slce_xp import _backend
from slce_xp._planning import problem
from slce_xp.core import _coordinates

FORMS = ["scatter", "gram", "krylov"]


def as_batches(X, y, **options):
    weights = options.pop("sample_weight", None)
    model = slce_xp.SLCE(**options)
    for part in np.array_split(np.arange(len(X)), 3):
        chosen = None if weights is None else weights[part]
        model.partial_fit(X[part], y[part], sample_weight=chosen)
    return model.model_


# ---------------------------------------------------------------- units


def scaled_problem(dtype, far=False):
    X, y = oracle.blobs(60, 14, 4, seed=1)
    return (X + 100.0 * far).astype(dtype), y


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("solver", FORMS)
def test_powers_of_two_change_nothing_but_the_scale(xp, dtype, solver, far):
    if far or dtype == "float64":
        spare_compiling(xp)
    X, y = scaled_problem(dtype, far)
    expected = slce_xp.fit(xp.array(X), y, solver=solver)
    exponents = {"float32": [-100, -40, -13, 13, 60, 110], "float64": [-900, -300, -121, 121, 900]}
    for exponent in exponents[dtype]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* must be within the range")
            model = slce_xp.fit(xp.array(np.ldexp(X, exponent)), y, solver=solver)
        for name, power in {"components": 0, "mean": 1, "centroids": 1}.items():
            before, after = (xp.numpy(getattr(m, name)) for m in (expected, model))
            before = np.ldexp(before, power * exponent)
            # An eigensolver in float32 may round differently in other units.
            atol = 16 * np.finfo(dtype).eps if model.plan.sums == "float32" and not power else 0.0
            np.testing.assert_allclose(after, before, rtol=0.0, atol=atol)
        assert model.n_positive == expected.n_positive
        with np.errstate(over="ignore", under="ignore"):
            values = np.ldexp(xp.numpy(expected.eigenvalues).astype(np.float64), 2 * exponent)
        if np.isfinite(values).all() and values.min() > 0 and not xp.single:
            # In float64 if float32 cannot hold them.
            found = np.ldexp(xp.numpy(model.eigenvalues).astype(np.float64), -2 * exponent)
            rtol = 16 * np.finfo(dtype).eps if model.plan.sums == "float32" else 0.0
            np.testing.assert_allclose(found.astype(dtype), xp.numpy(expected.eigenvalues), rtol)


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("exponent", [-600, -40, 40, 600])
def test_powers_of_four_change_nothing_but_the_scale_of_weights(solver, exponent):
    X, y = scaled_problem("float32")
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    expected = slce_xp.fit(X, y, solver=solver, sample_weight=weights)
    model = slce_xp.fit(X, y, solver=solver, sample_weight=np.ldexp(weights, exponent))
    np.testing.assert_array_equal(model.components, expected.components)
    for name in ("eigenvalues", "weights"):  # in float64 if float32 cannot hold them
        values = np.ldexp(getattr(model, name).astype(np.float64), -exponent)
        np.testing.assert_array_equal(values.astype(np.float32), getattr(expected, name))
    assert model.total_loss == np.ldexp(expected.total_loss, exponent)


@pytest.mark.parametrize("solver", ["scatter", "krylov"])
def test_sparse_data_and_batches_of_any_scale(solver):
    X, y = scaled_problem("float32")
    for exponent in (-90, 90):
        there = np.ldexp(X, exponent)
        one, other = (slce_xp.fit(sp.csr_array(a), y, solver=solver) for a in (X, there))
        np.testing.assert_array_equal(one.components, other.components)
        one, other = (as_batches(a, y) for a in (X, there))
        np.testing.assert_array_equal(one.components, other.components)


def test_large_batches_far_from_the_origin_of_any_scale():
    """Blocks of rows must not depend on the scale."""
    X, y = oracle.blobs(900, 300, 4, seed=1)
    X = (X + 100.0).astype(np.float32)
    one, other = (as_batches(np.ldexp(X, exponent), y) for exponent in (0, -40))
    np.testing.assert_array_equal(one.components, other.components)


def test_batches_of_different_scales_and_weights_add_up():
    X, y = scaled_problem("float64")
    X[:20] *= 1e-40
    X[20:40] *= 1e40
    weights = np.r_[np.full(20, 1e80), np.full(20, 1e-80), np.full(20, 1.0)]
    model = slce_xp.fit(X, y, sample_weight=weights)
    other = as_batches(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.eigenvalues, other.eigenvalues, rtol=1e-9)


def test_eigenvalues_that_float32_cannot_hold_are_float64():
    X, y = scaled_problem("float32")
    model = slce_xp.fit(np.ldexp(X, -80), y)
    assert (model.components.dtype, model.eigenvalues.dtype) == ("float32", "float64")
    values, _ = oracle.eigenpairs(np.ldexp(X.astype(np.float64), -80), y)
    np.testing.assert_allclose(model.eigenvalues, values[:3], rtol=1e-4)
    assert 0 < model.loss < model.total_loss


def test_what_no_dtype_can_hold_comes_with_a_warning():
    X, y = scaled_problem("float64")
    expected = slce_xp.fit(X, y)
    with pytest.warns(UserWarning, match="within the range of float64"):
        model = slce_xp.fit(np.ldexp(X, 800), y)
    np.testing.assert_array_equal(model.components, expected.components)


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize("fill", [1e20, -9999.0, 0.0, 1e300, np.nan, np.inf])
@pytest.mark.parametrize("solver", [*FORMS, "batches", "rows", "csr"])
def test_rows_of_weight_zero_are_as_if_they_were_not_there(solver, fill):
    X, y = oracle.blobs(60, 10, 3, seed=2)
    X += 1e3 if solver == "csr" else 1e5
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    weights[::4] = 0
    there, kept = X.copy(), weights > 0
    there[~kept] = fill
    make = {"csr": sp.csr_array, "rows": ReadInBlocks}.get(solver, np.asarray)
    if solver == "batches":
        model = as_batches(there, y, sample_weight=weights)
    else:
        options = {"solver": solver} if solver in FORMS else {}
        model = slce_xp.fit(make(there), y, sample_weight=weights, **options)
    values, vectors = oracle.descending(oracle.weighted_matrix(X[kept], y[kept], weights[kept]))
    np.testing.assert_allclose(model.eigenvalues, values[:2], rtol=1e-5)
    assert oracle.largest_angle(model.components, vectors[:2]) < 1e-5


class ReadInBlocks:
    def __init__(self, values):
        self.shape, self.dtype, self._values = values.shape, values.dtype, values

    def __getitem__(self, rows):
        return self._values[rows].copy()


def test_not_finite_is_found_in_the_callers_row():
    X, y = oracle.blobs(60, 10, 3, seed=2)
    X[41, 3] = np.nan
    weights = np.ones(60)
    weights[:30] = 0
    for make in (np.asarray, sp.csr_array, ReadInBlocks):
        with pytest.raises(ValueError, match="row 41, column 3"):
            slce_xp.fit(make(X), y, sample_weight=weights)


@pytest.mark.parametrize("solver", FORMS)
def test_one_heavy_sample_costs_no_digits(solver):
    X, y = oracle.blobs(300, 20, 3, seed=3)
    X = X.astype(np.float32)
    weights = np.ones(300)
    weights[7] = 1e6
    model = slce_xp.fit(X, y, solver=solver, sample_weight=weights)
    values, _ = oracle.descending(oracle.weighted_matrix(X, y, weights))
    np.testing.assert_allclose(model.eigenvalues, values[:2], atol=2e-5 * np.abs(values).max())


# ---------------------------------------------------------------- what is zero


@pytest.mark.parametrize("solver", FORMS)
def test_a_constant_column_of_timestamps_hides_nothing(solver):
    X, y = oracle.blobs(200, 8, 3, seed=4)
    values, _ = oracle.eigenpairs(X.astype(np.float32), y)
    X = np.column_stack([X, np.full(200, 1.7e9)]).astype(np.float32)
    model = slce_xp.fit(X, y, solver=solver)
    assert model.n_positive == 2
    np.testing.assert_allclose(model.eigenvalues, values[:2], atol=1e-4 * values[0])


@pytest.mark.parametrize("solver", ["auto", "scatter"])
@pytest.mark.parametrize("sign", [1, -1])
def test_what_single_precision_resolves_is_not_called_zero(solver, sign):
    # An eigenvalue of 1e-7·‖M‖ in a column of its own: M in float32 does not show it, scores do.
    rng = np.random.default_rng(5)
    y = np.arange(400) % 3
    X = rng.standard_normal((400, 60))
    X[y == 1, 0] += 30
    X[:, 1] = 1e-3 * ((y == 2) * (4.0 if sign > 0 else 0.5) + rng.standard_normal(400))
    X = X.astype(np.float32)
    values, _ = oracle.eigenpairs(X, y)
    expected = int((values[:2] > 0).sum())
    assert expected == (2 if sign > 0 else 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = slce_xp.fit(X, y, 2, solver=solver)
    assert model.n_positive == expected
    assert model.n_positive_bounds == (expected, expected)
    if sign > 0:
        assert model.eigenvalues[1] == pytest.approx(values[1], rel=1e-3)
        assert abs(model.components[1, 1]) == pytest.approx(1.0, abs=1e-3)


def test_the_tolerance_sets_the_level_of_zero_and_it_is_stated(data_folder):
    X, y = load_set(data_folder, "coil20")
    values, _ = oracle.eigenpairs(X, y)
    total = np.square(oracle.centred(X)).sum()
    for tol in (1e-2, 1e-6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = slce_xp.fit(X, y, "positive", solver="krylov", tol=tol)
        assert 2 * tol * total <= model.zero_level <= 2.1 * tol * total
        low, high = model.n_positive_bounds
        assert low <= (values > model.zero_level).sum() <= high
        assert model.n_positive == model.n_components == low
    assert low == high == 19


# ---------------------------------------------------------------- what is counted


def buried(seed, n=600, d=300, steepness=0.003, lift=6.0):
    """Two positive eigenvalues of a thousandth of ‖M‖, in the smallest columns."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, d))
    X[y == 1, -4:] += lift
    X[y == 2, -8:-4] += lift
    return X * steepness ** np.linspace(0, 1, d) ** 3, y


@pytest.mark.parametrize("solver", ["scatter", "gram"])
@pytest.mark.parametrize("shape", [(60, 20), (30, 60)], ids=["tall", "wide"])
@pytest.mark.parametrize("size", [1e-3, 0.05, 1.0])
def test_eigenvalues_below_the_spacing_of_the_trace_are_resolved(solver, shape, size):
    """A small column apart from the others, and columns of zeros: not all of them are null."""
    rng, (n, d) = np.random.default_rng(0), shape
    y = np.arange(n) % 3
    X = np.zeros((n, d))
    X[:, 0] = 3.0 * (y == 0) + 0.1 * rng.standard_normal(n)
    X[:, 1] = (y == 1) - 1.0 * (y == 2) + 0.05 * rng.standard_normal(n)
    M = oracle.matrix(X, y)
    trace = np.square(oracle.centred(X)[:, 0]).sum()
    X[:, 1] *= np.sqrt(size * np.finfo(np.float32).eps * trace / M[1, 1])
    X = X.astype(np.float32)
    model = slce_xp.fit(X, y, "positive", solver=solver)
    values, _ = oracle.eigenpairs(X, y)
    assert model.n_positive_bounds == (2, 2)
    np.testing.assert_allclose(model.eigenvalues, values[:2], rtol=1e-3)


@pytest.mark.parametrize("steepness", [0.001, 0.003, 0.03])
@pytest.mark.parametrize("solver", ["auto", *FORMS])
def test_a_plateau_of_ritz_values_is_no_proof(solver, steepness):
    X, y = buried(0, steepness=steepness)
    values, _ = oracle.eigenpairs(X, y)
    assert (values > 1e-9 * np.abs(values).max()).sum() == 2
    with warnings.catch_warnings():
        if solver == "krylov":  # which says if it does not know
            warnings.simplefilter("ignore", UserWarning)
        models = [slce_xp.fit(X, y, "positive", solver=solver, tol=tol) for tol in (1e-6, 1e-9)]
    for model in models:
        low, high = model.n_positive_bounds
        assert low <= (values > model.zero_level).sum() <= high
        assert model.n_positive == low
        error = model.residual + model.zero_level
        np.testing.assert_allclose(model.eigenvalues, values[:low], rtol=1e-9, atol=error)
        if solver != "krylov":
            assert low == high == 2


def test_fewer_components_than_classes_do_not_miss_the_first():
    # Two large classes that differ in one small column, a third one apart in another.
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = np.repeat([0, 1, 2], [2000, 2000, 30])
        X = 0.01 * rng.standard_normal((4030, 40))
        X[:, 5:] *= 30 * rng.random(35)
        X[y == 1, 0] += 0.04
        X[y == 2, 1] += 0.3
        values, vectors = oracle.eigenpairs(X, y)
        for solver in ("auto", *FORMS):
            if solver == "gram":
                continue
            model = slce_xp.fit(X, y, 1, solver=solver)
            assert model.eigenvalues[0] == pytest.approx(values[0], rel=1e-6)
            assert oracle.largest_angle(model.components, vectors[:1]) < 1e-4


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_the_count_above_a_level_is_an_upper_bound(shape, monkeypatch):
    n, d = {"tall": (300, 60), "wide": (60, 300)}[shape]
    X, y = oracle.blobs(n, d, 6, seed=8, separation=0.6)
    values, _ = oracle.eigenpairs(X, y)
    monkeypatch.setattr(problem, "NARROW_WIDTH", 6)
    seen = []
    for side in (_coordinates.Features, _coordinates.Samples):
        original = side.count_above

        def count_above(self, matrix, known, coupling, level, rounding, original=original):
            above, *rest = original(matrix, known, coupling, level, rounding)
            seen.append((above, int((values > level).sum())))  # X is in units of 1
            return above, *rest

        monkeypatch.setattr(side, "count_above", count_above)
    for k in (1, 2, 3, "positive"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            slce_xp.fit(X, y, k, solver="krylov")
    assert seen
    assert all(above >= true for above, true in seen)


def test_a_count_that_is_not_known_is_said_to_be_so():
    X, y = buried(0)
    with pytest.warns(slce_xp.ConvergenceWarning), pytest.warns(UserWarning, match="may be posi"):
        model = slce_xp.fit(X, y, "positive", solver="krylov", max_iter=1)
    low, high = model.n_positive_bounds
    assert low <= 2 <= high
    assert low < high


# ---------------------------------------------------------------- the Gram form


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gram_form_of_more_samples_than_features_without_labels(dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 100)).astype(dtype)
    y = np.r_[np.arange(60) % 3, -np.ones(60, int)]
    model = slce_xp.fit(X, y, unlabeled=-1, solver="gram")
    values, _ = oracle.descending(oracle.weighted_matrix(X, y, None, y >= 0))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(model.eigenvalues, values[:2], atol=200 * eps * values[0])


@pytest.mark.parametrize("solver", FORMS)
def test_no_more_components_than_the_rank(solver):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 20)) @ rng.standard_normal((20, 90))
    y = np.r_[np.arange(50) % 3, -np.ones(100, int)]
    model = slce_xp.fit(X, y, "positive", unlabeled=-1, unlabeled_weight=1e4, solver=solver)
    assert model.n_components == 20


@pytest.mark.parametrize("column", [1e3, 1e5])
def test_a_large_column_costs_the_gram_form_no_digits(column):
    rng = np.random.default_rng(2)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 2000))
    X[:, 0] = column * (y + 0.1 * rng.standard_normal(60))
    X = X.astype(np.float32)
    values, _ = oracle.eigenpairs(X, y)
    model = slce_xp.fit(X, y, solver="gram")
    np.testing.assert_allclose(model.eigenvalues, values[:2], atol=8 * 1.2e-7 * values[0])


@pytest.mark.filterwarnings("ignore:.*(lowers the loss|lower the loss)")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("solver", [*FORMS, "auto"])
def test_samples_that_are_all_the_same(solver, dtype):
    y = np.array([2, 2, 0, 2, 3, 1, 1, 0, 0, 1])
    for seed in (0, 27, 78, 149):
        X = np.tile(np.random.default_rng(seed).standard_normal(13), (10, 1)).astype(dtype)
        model = slce_xp.fit(X, y, 13, solver=solver)
        assert model.n_positive == 0
        assert np.abs(model.eigenvalues).max() <= 10 * 4 * np.finfo(dtype).eps ** 2 * 13


@pytest.mark.parametrize("duplicates", [0, 20])
def test_the_gram_form_finds_the_whole_null_space(duplicates):
    """Rounding in combinations of samples that vanish is not a direction of X."""
    rng = np.random.default_rng(3)
    n, d, k = 120, 124, 40
    y = np.arange(n) % 4
    X = (rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((4, d))[y]) / np.arange(1, d + 1)
    X[:duplicates] = X[n - duplicates :]
    values, vectors = oracle.eigenpairs(X, y)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "n_components=40 was asked for")
        model = slce_xp.fit(X, y, k, solver="gram")
    np.testing.assert_allclose(model.eigenvalues, values[:k], atol=1e-12)
    assert oracle.largest_angle(model.components, vectors[:k]) < 1e-7


# ---------------------------------------------------------------- far from the origin


@pytest.mark.parametrize("solver", ["scatter", "krylov"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sparse_data_far_from_the_origin_are_right_or_come_with_a_warning(dtype, solver):
    X, y = oracle.blobs(200, 12, 3, seed=9)
    for offset in (0.0, 3.0, 30.0, 1e3, 1e5, 1e7):
        there = (X + offset).astype(dtype)
        values, _ = oracle.eigenpairs(there, y)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = slce_xp.fit(sp.csr_array(there), y, solver=solver)
        lost = [w for w in caught if "loses digits" in str(w.message)]
        assert all(w.filename == __file__ for w in lost[:1])
        error = np.abs(model.eigenvalues - values[:2]).max() / values[0]
        # Products lose half as many digits as squares.
        assert lost or error < 1e3 * np.finfo(dtype).eps ** (1 if solver == "scatter" else 0.5)


@pytest.mark.filterwarnings("ignore:.* (direction lowers|asked for|proved)")
def test_samples_that_are_rounded_alike_do_not_stop_the_gram_form():
    """Samples of two kinds: errors of G have the same sign, and may add up beyond its ridge."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = np.zeros((44, 114), dtype=np.float32)
        X[rng.random(44) < 0.6] = 1.0 if seed % 2 else rng.uniform(0.5, 2.0)
        weights, y = rng.uniform(0.5, 2.0, 44), np.arange(44) % 3
        model = slce_xp.fit(X, y, sample_weight=weights, solver="gram")
        values = np.linalg.eigvalsh(oracle.weighted_matrix(X, y, weights))[::-1][:2]
        size = np.trace(oracle.weighted_parts(X, y, weights)[2])
        np.testing.assert_allclose(model.eigenvalues, values, atol=1e-5 * size)


# ---------------------------------------------------------------- samples without a label


@pytest.mark.parametrize("size", [1e-4, 1e4])
@pytest.mark.parametrize("weight", [0.0, 1e-10, 1e-3, 1e6])
def test_unlabelled_samples_do_not_hide_the_others_from_the_gram_form(weight, size):
    rng = np.random.default_rng(0)
    labelled, y = rng.normal(size=(20, 60)), np.arange(20) % 2
    labelled[:, 0] += 8 * y
    others = size * rng.normal(size=(10, 60))
    X = np.concatenate([labelled, others, -others]).astype(np.float32)
    y = np.concatenate([y, np.full(20, -1)])
    model = slce_xp.fit(X, y, 1, solver="gram", unlabeled=-1, unlabeled_weight=weight)
    M = oracle.weighted_matrix(X, y, None, y >= 0, weight)
    values, vectors = oracle.descending(M)
    np.testing.assert_allclose(model.eigenvalues, values[:1], rtol=1e-4)
    assert oracle.largest_angle(model.components, vectors[:1]) < 1e-3


@pytest.mark.parametrize("solver", FORMS)
def test_centring_may_add_to_the_scatter_of_samples_without_a_label(solver):
    """Rounding is relative to what it adds: a stated angle must hold."""
    rng = np.random.default_rng(4)
    X, y = 1e-4 * rng.standard_normal((26, 25)), np.full(26, -1)
    X[:2], y[:2] = rng.standard_normal((2, 25)), [0, 1]
    X = X.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an iteration does not look for small ones
        model = slce_xp.fit(X, y, 8, unlabeled=-1, unlabeled_weight=1e7, solver=solver)
    _, vectors = oracle.descending(oracle.weighted_matrix(X, y, None, y >= 0, 1e7))
    angle = oracle.largest_angle(model.components, vectors[:8])
    assert angle <= model.angle_bound


@pytest.mark.filterwarnings("ignore:X is sparse and its mean is much larger")
@pytest.mark.parametrize("offset", [10.0, 100.0])
@pytest.mark.parametrize("solver", ["scatter", "krylov"])
def test_centring_of_sparse_samples_without_a_label_counts_as_much_as_they_do(solver, offset):
    for seed in range(4):
        X, y = oracle.blobs(40, 18, 2, seed=seed)
        X[6:] *= 1e-2
        X = (X + offset).astype(np.float32)
        y[:2], y[6:] = [0, 1], -1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", slce_xp.ConvergenceWarning)
            model = slce_xp.fit(
                sp.csr_array(X), y, 1, unlabeled=-1, unlabeled_weight=1e4, solver=solver
            )
        _, vectors = oracle.descending(oracle.weighted_matrix(X, y, None, y >= 0, 1e4))
        assert oracle.largest_angle(model.components, vectors[:1]) <= model.angle_bound


def test_an_eigensolver_of_torch_that_returns_nan_tries_again():
    torch = pytest.importorskip("torch")
    matrix = torch.asarray([[2.0, 1.0, 0.0], [1.0, -5.0, 0.0], [0.0, 0.0, 3.0]])
    tried = []

    def solve(given):
        values, vectors = torch.linalg.eigh(given)
        tried.append(given)
        return (torch.full_like(values, torch.nan) if len(tried) == 1 else values), vectors

    values, vectors = _backend.eigh(matrix, solve)
    assert len(tried) == 2
    assert torch.allclose(vectors @ torch.diag(values) @ vectors.T, matrix, atol=1e-5)


@pytest.mark.parametrize("kind", [*FORMS, "batches"])
def test_stated_angles_include_the_rounding_of_the_mean(kind):
    """Unlabelled samples near the mean, of much weight: to them it is not exact."""
    rng = np.random.default_rng(7)
    y = np.append(np.arange(60) % 3, np.full(60, -1))
    X = rng.standard_normal((120, 4)) + 2 * rng.standard_normal((3, 4))[y]
    X[60:] = X[:60].mean(axis=0) + 2e-5 * (1 + rng.standard_normal((60, 4)))
    X = X.astype(np.float32)
    options = {"n_components": 2, "unlabeled": -1, "unlabeled_weight": 1e10}
    if kind == "batches":
        model = as_batches(X, y, **options)
    else:
        model = slce_xp.fit(X, y, solver=kind, **options)
    _, vectors = oracle.descending(oracle.weighted_matrix(X, y, None, y >= 0, 1e10))
    assert oracle.largest_angle(model.components, vectors[:2]) <= model.angle_bound


def test_residuals_are_not_too_small_if_the_norm_is_rounding():
    """A huge column that adds nothing to M: its norm is a billionth of that of S_t."""
    y = np.array([0, 0, 1, 1, 0, 0])
    for seed in range(8):
        X = np.random.default_rng(seed).standard_normal((6, 16))
        X[:, 13] = [0, 1.7e9, 1.7e9, 1.7e9, 0, 0]
        M = oracle.matrix(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = slce_xp.fit(sp.csr_array(X), y, 1, solver="krylov")
        residual = M @ model.components[0] - model.eigenvalues[0] * model.components[0]
        assert np.linalg.norm(residual) <= 1.1 * model.residual + model.zero_level


def test_values_that_the_gram_form_cannot_tell_from_zero_are_not_claimed_to_be_positive():
    rng = np.random.default_rng(37)
    y = np.arange(32) % 3
    X = rng.normal(size=(32, 82))
    X[:, :3] += 3 * np.eye(3)[y]
    X *= np.abs(rng.standard_cauchy(32))[:, None] ** 4
    model = slce_xp.fit(X, y, solver="gram")
    values, _ = oracle.eigenpairs(X, y)
    low, high = model.n_positive_bounds
    assert low <= (values > model.zero_level).sum() <= high
    assert model.n_positive == low


@pytest.mark.parametrize("kind", ["numpy", "csr", "torch"])
def test_sums_of_very_many_rows_in_single_precision(kind):
    n = 1_000_000
    y = np.arange(n) % 2
    X = np.where(np.random.default_rng(0).random((n, 2)) < 0.3, 0.1, 0.0).astype(np.float32)
    X[y == 1, 0] += np.float32(0.3)
    given = {"numpy": lambda: X, "csr": lambda: sp.csr_array(X)}.get(
        kind, lambda: pytest.importorskip("torch").asarray(X)
    )()
    exact = slce_xp.fit(X.astype(np.float64), y, 1)
    model = slce_xp.fit(given, y, 1)
    trace = ((X - X.mean(axis=0, dtype=np.float64)) ** 2).sum()
    # Equal numbers are rounded alike, which is the worst case; one after the other: 1300 eps.
    bound = 256 * np.finfo(np.float32).eps * trace
    assert abs(float(model.eigenvalues[0]) - exact.eigenvalues[0]) <= bound


@pytest.mark.parametrize("shape", [(600, 300), (200, 400)], ids=["tall", "wide"])
@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("kind", ["array", "csr"])
def test_weights_that_undo_the_size_of_rows(kind, solver, shape):
    """√w·x is of one size, and so is every sample in M: the unit must be theirs, not that of x."""
    if kind == "csr" and solver == "gram":
        pytest.skip("sparse data have no Gram form")
    rng, size = np.random.default_rng(0), 1e12
    y = np.arange(shape[0]) % 4
    X = rng.standard_normal(shape)
    X[:, :4] += 3 * np.eye(4)[y]
    weights = np.where(np.arange(shape[0]) % 3 == 1, size**-2, 1.0)
    X[weights < 1] *= size
    X = X.astype(np.float32)
    M = oracle.weighted_matrix(X.astype(np.float64), y, weights)
    expected = np.linalg.eigvalsh(M)[::-1][:3]
    given = sp.csr_array(X) if kind == "csr" else X
    model = slce_xp.fit(given, y, sample_weight=weights, solver=solver)
    np.testing.assert_allclose(model.eigenvalues, expected, rtol=2e-5)
    assert model.n_positive == 3


@pytest.mark.parametrize("weight", [1e16, 1e30, 1e300])
@pytest.mark.parametrize("solver", [*FORMS, "batches"])
def test_weights_of_the_unlabelled_that_hide_all_others_are_refused(solver, weight):
    X, y = oracle.blobs(60, 14, 4, seed=1)
    y[::3] = -1
    estimator = slce_xp.SLCE(unlabeled=-1, unlabeled_weight=weight)
    fit = estimator.partial_fit
    if solver != "batches":
        fit = estimator.set_params(solver=solver).fit
    with pytest.raises(ValueError, match=r"^unlabeled_weight must .* at most 1e\+15"):
        fit(X.astype(np.float32), y)


@pytest.mark.parametrize("n_classes", [4, 200])
@pytest.mark.parametrize("unlabeled", [False, True])
@pytest.mark.parametrize("n_components", [1, "positive"])
@pytest.mark.parametrize(("largest", "size"), [(1e5, 0.1), (1e8, 10.0)])
def test_small_features_of_float32_are_not_lost_beside_large_ones(
    largest, size, n_components, unlabeled, n_classes, tmp_path
):
    # In float32 S_t would not show the second column, which separates classes, beside the first.
    rng, n = np.random.default_rng(0), 600
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, 10))
    X[:, 0] *= largest
    X[:, 1] = size * (np.where(y % 2, 1.0, -1.0) + 0.01 * rng.standard_normal(n))
    X = X.astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    options = {"solver": "scatter"}
    if unlabeled:
        y[-20:] = -1
        options["unlabeled"] = -1
    values, _ = oracle.descending(oracle.weighted_matrix(X, y, None, y >= 0))
    for rows in (X, np.load(tmp_path / "X.npy", mmap_mode="r")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = slce_xp.fit(rows, y, n_components, **options)
        assert (model.plan.dtype, model.plan.sums) == ("float32", "float64")
        low, high = model.n_positive_bounds
        found = min(model.plan.n_components, int((values > model.zero_level).sum()))
        assert low <= found <= high
        assert "column 0 " in model.note
        if not unlabeled and largest < 1e7 * size:
            assert model.n_positive >= 1
            assert abs(model.components[0, 1]) == pytest.approx(1.0, abs=1e-3)


def test_features_that_rounding_hides_in_double_precision():
    rng, n = np.random.default_rng(0), 600
    y = np.arange(n) % 4
    X = rng.standard_normal((n, 10))
    X[:, 0] *= 1e9
    X[:, 1] = 1e-6 * (np.where(y % 2, 1.0, -1.0) + 0.01 * rng.standard_normal(n))
    with pytest.warns(UserWarning, match=r"column 0 drowns 9 of 10 columns in rounding: standard"):
        model = slce_xp.fit(X, y, 1, solver="scatter")
    assert "column 0 drowns" in model.note
    assert model.n_positive == 0
    assert model.zero_level > np.square(X[:, 1]).sum()
    assert model.angle_bound == np.inf


@pytest.mark.parametrize("n_components", [1, "positive"])
def test_float32_samples_that_are_all_the_same(n_components):
    X, y = np.full((40, 6), 7.0, dtype=np.float32), np.arange(40) % 3
    with pytest.warns(UserWarning, match="no direction lowers"):
        model = slce_xp.fit(X, y, n_components, solver="scatter")
    assert model.n_positive_bounds == (0, 0)


@pytest.mark.filterwarnings("ignore:no direction lowers", "ignore:n_components=1 was asked for")
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("solver", ["scatter", "krylov"])
@pytest.mark.parametrize("unlabeled", [None, 2])
def test_zeros_do_not_stop_an_iteration(solver, make, unlabeled):
    y = np.array([0, 1, 0, 1, 2])
    model = slce_xp.fit(make(np.zeros((5, 40))), y, 1, solver=solver, unlabeled=unlabeled)
    assert model.n_positive == 0
    assert model.eigenvalues[0] == 0.0
    np.testing.assert_allclose(model.components @ model.components.T, [[1.0]])
