"""Sparse paths against scikit-learn's coordinate descent, on every library and kind of data."""

import dataclasses
import time
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse
from conftest import load_set, spare_compiling

import slce_xp
from slce_xp.core import _lasso
from slce_xp.core._lasso import Lasso


def problem(n=60, d=40, n_classes=3, seed=0):
    """Correlated features, of which two or three per class matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d)))
    y = np.arange(n) % n_classes
    for label in range(n_classes):
        X[np.ix_(y == label, rng.choice(d, 3, replace=False))] += 3.0
    return X, y


def targets_of(path, y):
    return path.class_targets[np.unique(y, return_inverse=True)[1]]


def dense(path, step=-1):
    """The coefficients of all features at one λ, shape (d, r)."""
    full = np.zeros((path.n_features, path.coefficients[step].shape[1]))
    full[path.supports[step]] = path.coefficients[step]
    return full


def oracle_coefficients(X, Y, penalty, ridge=0.0):
    """By scikit-learn, shape (d, r)."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    total = penalty + ridge
    model = linear_model.MultiTaskElasticNet(
        alpha=total, l1_ratio=penalty / total, fit_intercept=False, tol=1e-14, max_iter=10**6
    )
    return model.fit(X - X.mean(axis=0), Y).coef_.T


def assert_same(found, expected, tolerance):
    np.testing.assert_array_equal(found.any(axis=1), expected.any(axis=1))
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def objective(X, Y, W, penalty):
    residual = Y - (X - X.mean(axis=0)) @ W
    return (residual**2).sum() / (2 * len(X)) + penalty * _lasso.norms(W).sum()


# ---------------------------------------------------------------- against scikit-learn


@pytest.mark.parametrize("seed", range(20))
def test_coefficients_are_those_of_the_multi_task_lasso(seed):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(30, 90), rng.integers(20, 120)
    X, y = problem(n, d, int(rng.integers(2, 6)), seed)
    ridge = float(rng.choice([0.0, 0.3]))
    how = {"targets": ("centroids", "scores")[seed % 2], "ridge": ridge}
    path = slce_xp.feature_path(X, y, n_features=12, gap=1e-13, **how)
    assert path.gaps.max() < 1e-12
    Y = targets_of(path, y)
    for step in (len(path.lambdas) // 2, -1):
        expected = oracle_coefficients(X, Y, path.lambdas[step], ridge)
        assert_same(dense(path, step), expected, 1e-6)


def test_targets_are_the_centroids_in_other_coordinates():
    """All d columns of C̃ give the same norms as its K − 1 coordinates."""
    X, y = problem()
    path = slce_xp.feature_path(X, y, n_features=8, gap=1e-13)
    centred = X - X.mean(axis=0)
    C = np.stack([centred[y == label].mean(axis=0) for label in range(3)])[y]
    expected = oracle_coefficients(X, C, path.lambdas[-1])
    np.testing.assert_allclose(_lasso.norms(dense(path)), _lasso.norms(expected), atol=1e-9)
    between = C.T @ C / len(X)
    assert path.lambdas[0] == pytest.approx(np.linalg.norm(between, axis=1).max(), rel=1e-12)
    scores = targets_of(slce_xp.feature_path(X, y, n_features=8, targets="scores"), y)
    np.testing.assert_allclose(scores.T @ scores, len(X) * np.eye(2), atol=1e-10)


@pytest.mark.parametrize("name", ["colon"])
def test_real_data(data_folder, name):
    X, y = load_set(data_folder, name)
    path = slce_xp.feature_path(X, y, n_features=40, gap=1e-13)
    Y = targets_of(path, y)
    for step in (len(path.lambdas) // 2, -1):
        expected = oracle_coefficients(X, Y, path.lambdas[step])
        expected[np.abs(expected) < 1e-12] = 0.0  # what coordinate descent leaves of copies
        assert_same(dense(path, step), expected, 1e-6)


def test_a_sparse_matrix_of_cells_takes_little_memory(data_folder):
    X, y = load_set(data_folder, "worm_neuron")
    sparse = scipy.sparse.csr_array(X).astype(np.float64)
    tracemalloc.start()
    path = slce_xp.feature_path(sparse, y, n_features=50)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(path.select(50)) == 50
    assert peak <= 0.1 * X.size * 8  # of the dense X


@pytest.mark.slow
def test_a_path_is_faster_than_coordinate_descent(data_folder):
    """Both from one λ to the next, to the same gap, on one thread."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = load_set(data_folder, "arcene")
    X = X - X.mean(axis=0)
    X /= np.maximum(X.std(axis=0), 1e-9)
    start = time.process_time()
    path = slce_xp.feature_path(X, y, n_features=100)
    ours = time.process_time() - start
    X, Y = np.asfortranarray(X), np.asfortranarray(targets_of(path, y))
    # Its gap is relative to ‖Y‖², ours to half of that.
    model = linear_model.MultiTaskLasso(
        fit_intercept=False, warm_start=True, tol=0.5e-5, max_iter=10**6
    )
    start = time.process_time()
    for penalty in path.lambdas:
        model.set_params(alpha=penalty).fit(X, Y)
    theirs = time.process_time() - start
    np.testing.assert_array_equal(np.flatnonzero(model.coef_.any(axis=0)), path.supports[-1])
    assert ours <= 0.5 * theirs


def test_a_file_is_read_within_max_memory(tmp_path):
    X, y = problem(9000, 80)
    np.save(tmp_path / "X.npy", X)
    file = np.load(tmp_path / "X.npy", mmap_mode="r")
    peaks = []
    for limit in (None, "3MB"):
        tracemalloc.start()
        path = slce_xp.feature_path(file, y, n_features=9, max_memory=limit)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(path.select(9)) == 9
    assert peaks[1] < 3e6 < peaks[0]


@pytest.mark.parametrize("r", [1, 4, 30])
def test_the_small_problem_alone(r):
    """More unknowns than Newton steps take, fewer, and a single target."""
    rng = np.random.default_rng(r)
    X, Y = rng.standard_normal((70, 60)), rng.standard_normal((70, r))
    X -= X.mean(axis=0)
    Y += X[:, :5].sum(axis=1)[:, None]
    linear = X.T @ Y / 70
    small = Lasso(X.T @ X / 70, linear, 0.1 * _lasso.norms(linear).max(), (Y * Y).sum() / 70)
    found = _lasso.solve(small, np.zeros((60, r)), 1e-11)
    assert small.gap(found) < 1e-11
    assert_same(found, oracle_coefficients(X, Y, small.penalty), 1e-4)
    # The gap bounds what is left to gain.
    start = _lasso.solve(small, np.zeros((60, r)), 1e-2)
    assert 0 <= small.value(start) - small.value(found) <= small.gap(start)


# ---------------------------------------------------------------- libraries and kinds of data


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_every_library(xp, shape):
    if shape[0] < shape[1]:
        spare_compiling(xp)
    X, y = problem(*shape)
    # float32 need not reach the gap; then it says so
    gap = xp.tolerance(1e-9, 1e-4)
    found = slce_xp.feature_path(xp.array(X), y, n_features=6, gap=gap)
    expected = slce_xp.feature_path(X, y, lambdas=found.lambdas, gap=1e-12)
    assert found.gaps.max() <= gap
    np.testing.assert_allclose(dense(found), dense(expected), atol=xp.tolerance(1e-4, 5e-3))
    model = found.refit(3)
    assert xp.numpy(model.components).shape == (2, 3)


def kinds(X, folder):
    np.save(folder / "X.npy", X)
    yield "file", np.load(folder / "X.npy", mmap_mode="r")
    yield "csr", scipy.sparse.csr_array(X)
    yield "csc", scipy.sparse.csc_matrix(X)
    array = pytest.importorskip("dask.array")
    yield "dask", array.from_array(X, chunks=(25, 17))
    yield "sparse dask", array.from_array(X, chunks=(25, -1)).map_blocks(scipy.sparse.csr_array)
    torch = pytest.importorskip("torch")
    yield "torch", torch.asarray(X).to_sparse_csr()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_every_kind_of_data(tmp_path, shape):
    X, y = problem(*shape)
    X[np.abs(X) < 0.5] = 0.0
    weights = 1.0 + np.arange(len(X)) % 3
    expected = slce_xp.feature_path(X, y, n_features=9, gap=1e-12, sample_weight=weights)
    for name, data in kinds(X, tmp_path):
        found = slce_xp.feature_path(data, y, n_features=9, gap=1e-12, sample_weight=weights)
        np.testing.assert_allclose(dense(found), dense(expected), atol=1e-9, err_msg=name)
        if name not in ("csr", "csc", "torch"):
            assert found.passes <= 8, name  # one for each time that features are fetched
        again = found.refit(4)
        plain = slce_xp.fit(X[:, expected.select(4)], y, sample_weight=weights)
        np.testing.assert_allclose(again.eigenvalues, plain.eigenvalues, rtol=1e-9, err_msg=name)


def test_only_columns_of_a_sparse_matrix_are_made_dense(monkeypatch):
    X, y = problem(80, 90)
    X[np.abs(X) < 1.5] = 0.0
    to_dense = scipy.sparse.csr_array.toarray

    def columns_only(self, *args, **options):
        assert self.shape[1] <= 16, "made dense"  # as many as are fetched at a time
        return to_dense(self, *args, **options)

    sparse = scipy.sparse.csr_array(X)
    monkeypatch.setattr(scipy.sparse.csr_array, "toarray", columns_only)
    monkeypatch.setattr(scipy.sparse.csr_array, "todense", None)
    assert len(slce_xp.feature_path(sparse, y, n_features=9).select(9)) == 9


def test_a_weight_of_two_duplicates_a_sample():
    X, y = problem()
    twice = np.arange(60) % 4 == 0
    weighted = slce_xp.feature_path(X, y, n_features=8, gap=1e-12, sample_weight=1.0 + twice)
    doubled = slce_xp.feature_path(
        np.concatenate([X, X[twice]]), np.concatenate([y, y[twice]]), n_features=8, gap=1e-12
    )
    np.testing.assert_allclose(weighted.lambdas, doubled.lambdas, rtol=1e-12)
    np.testing.assert_allclose(dense(weighted), dense(doubled), atol=1e-10)


def test_samples_without_a_label_or_a_weight_are_left_out():
    X, y = problem()
    kept = np.arange(60) % 5 > 0
    expected = slce_xp.feature_path(X[kept], y[kept], n_features=8)
    marked = slce_xp.feature_path(X, np.where(kept, y, -1), n_features=8, unlabeled=-1)
    X[~kept] = np.nan
    dropped = slce_xp.feature_path(X, y, n_features=8, sample_weight=kept)
    for found in (marked, dropped):
        np.testing.assert_allclose(dense(found), dense(expected), atol=1e-12)
        assert found.n_samples == kept.sum()
    chosen = marked.select(4)
    plain = slce_xp.fit(np.nan_to_num(X)[kept][:, chosen], y[kept])
    for model in (marked.refit(4), marked.refit(4, criterion="separation")):
        np.testing.assert_array_equal(model.classes, [0, 1, 2])  # −1 is not a class
    np.testing.assert_allclose(marked.refit(4).eigenvalues, plain.eigenvalues, rtol=1e-12)


# ---------------------------------------------------------------- certificates


def test_the_gap_bounds_the_distance_to_the_optimum():
    X, y = problem(50, 80)
    loose = slce_xp.feature_path(X, y, n_features=20, gap=1e-2)
    tight = slce_xp.feature_path(X, y, lambdas=loose.lambdas, gap=1e-13)
    Y = targets_of(loose, y)
    nothing = (Y * Y).sum() / (2 * len(X))
    assert 1e-6 < loose.gaps.max() <= 1e-2
    for step, penalty in enumerate(loose.lambdas):
        above = objective(X, Y, dense(loose, step), penalty)
        above -= objective(X, Y, dense(tight, step), penalty)
        assert -1e-12 <= above / nothing <= loose.gaps[step]


def test_sums_of_single_precision_are_double():
    X, y = problem(80, 120)
    single = X.astype(np.float32)
    found = slce_xp.feature_path(single, y, n_features=20, gap=1e-10)
    Y = targets_of(found, y)
    X = single.astype(np.float64)
    exact = slce_xp.feature_path(X, y, lambdas=found.lambdas, gap=1e-13)
    for step, penalty in enumerate(found.lambdas):
        above = objective(X, Y, dense(found, step), penalty)
        above -= objective(X, Y, dense(exact, step), penalty)
        assert above / ((Y * Y).sum() / (2 * len(X))) <= found.gaps[step] + 1e-12
    assert found.gaps.max() <= 1e-10
    with pytest.warns(slce_xp.ConvergenceWarning, match="is proved to .* only, not to gap=1e-18"):
        slce_xp.feature_path(single, y, n_features=20, gap=1e-18)


# ---------------------------------------------------------------- hostile input


@pytest.mark.parametrize("exponent", [-100, 100, -400, 400])
def test_units_do_not_matter(exponent):
    X, y = problem()
    X = X.astype(np.float64 if abs(exponent) > 100 else np.float32)
    expected = slce_xp.feature_path(X, y, n_features=9, gap=1e-4)
    found = slce_xp.feature_path(np.ldexp(X, exponent), y, n_features=9, gap=1e-4)
    np.testing.assert_array_equal(found.coefficients[-1], expected.coefficients[-1])
    np.testing.assert_array_equal(found.lambdas, np.ldexp(expected.lambdas, 2 * exponent))
    ridge = float(np.ldexp(0.5, 2 * exponent))
    found = slce_xp.feature_path(np.ldexp(X, exponent), y, n_features=9, targets="scores",
                                 ridge=ridge, gap=1e-4)  # fmt: skip
    expected = slce_xp.feature_path(X, y, n_features=9, targets="scores", ridge=0.5, gap=1e-4)
    np.testing.assert_array_equal(found.lambdas, np.ldexp(expected.lambdas, exponent))
    np.testing.assert_array_equal(
        found.coefficients[-1], np.ldexp(expected.coefficients[-1], -exponent)
    )


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_constant_columns_are_never_selected(shift):
    X, y = problem(50, 30)
    X += shift
    X[:, [3, 11]] = 0.1, 1e9
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "n_features=30 was asked for")
        path = slce_xp.feature_path(X, y, n_features=30)
    assert not np.isin([3, 11], path.entered).any()
    assert len(path.supports[-1]) > 20


def test_of_copies_of_a_column_the_first_is_selected():
    X, y = problem(50, 30)
    how = {"targets": "scores", "gap": 1e-12}  # which do not change
    expected = slce_xp.feature_path(X, y, n_features=8, **how)
    both = np.concatenate([X, X], axis=1)
    found = slce_xp.feature_path(both, y, lambdas=expected.lambdas, **how)
    assert found.gaps.max() <= 1e-12
    np.testing.assert_allclose(dense(found)[:30], dense(expected), atol=1e-8)
    assert not dense(found)[30:].any()
    shared = slce_xp.feature_path(both, y, n_features=8, ridge=0.5, **how)  # strictly convex
    np.testing.assert_allclose(dense(shared)[:30], dense(shared)[30:], atol=1e-6)


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"n_features": 41}, ValueError, "n_features must be an integer of at least 1 and at most"),
        ({"n_features": 0}, ValueError, "n_features must be an integer of at least 1"),
        ({"n_features": 2.5}, TypeError, "n_features must be an integer"),
        ({"targets": "labels"}, ValueError, "targets must be 'centroids' or 'scores'"),
        ({"ridge": -1.0}, ValueError, "ridge must be a finite number of at least 0; got -1.0"),
        ({"ridge": "much"}, TypeError, "ridge must be a finite number"),
        ({"gap": 0.0}, ValueError, "gap must be a finite number above 0 and at most 1; got 0.0"),
        ({"gap": np.nan}, ValueError, "gap must be"),
        ({"lambdas": [1.0, 2.0]}, ValueError, "lambdas must be positive, finite numbers in"),
        ({"lambdas": []}, ValueError, "lambdas must be .*, at least one"),
        ({"lambdas": "few"}, TypeError, "lambdas must be"),
        ({"max_memory": "10kB"}, MemoryError, "max_memory and the free memory"),
    ],
)
def test_what_it_refuses(how, error, message):
    X, y = problem()
    with pytest.raises(error, match=message) as caught:
        slce_xp.feature_path(X, y, **how)
    if error is not MemoryError:
        assert caught.value.parameter == next(iter(how))


def test_refuses_data_without_an_answer():
    X, y = problem()
    with pytest.raises(ValueError, match="y must hold at least two classes"):
        slce_xp.feature_path(X, np.zeros(60, int))
    same = np.concatenate([X, X])
    for how in ({}, {"targets": "scores"}):
        with pytest.raises(ValueError, match="y must hold classes whose means differ"):
            slce_xp.feature_path(same, np.repeat([0, 1], 60), n_features=3, **how)
    with pytest.raises(ValueError, match="X must have class means that differ by more than"):
        slce_xp.feature_path(scipy.sparse.csr_array(X + 1e9), y, n_features=3)
    X[7, 5] = np.nan
    with pytest.raises(ValueError, match="X must be finite; found NaN at row 7, column 5"):
        slce_xp.feature_path(X, y)


def test_a_path_that_ends_early_says_so():
    X, y = problem(20, 60, 2)
    with pytest.warns(UserWarning, match="n_features=50 was asked for, but no λ down to"):
        path = slce_xp.feature_path(X, y, n_features=50)
    with pytest.raises(ValueError, match="n_features must be an integer of at least 1 and at most"):
        path.select(50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(slce_xp.feature_path(X, y, n_features=50, ridge=10.0).select(50)) == 50


# ---------------------------------------------------------------- the result


def test_selecting_from_a_path():
    X, y = problem(60, 90)
    path = slce_xp.feature_path(X, y, n_features=25)
    sizes = [len(support) for support in path.supports]
    for count in range(1, 26):
        chosen = path.select(count)
        step = next(i for i, size in enumerate(sizes) if size >= count)
        assert len(chosen) == count
        assert set(chosen) <= set(path.supports[step])
        assert (np.diff(chosen) > 0).all()
        lengths = _lasso.norms(dense(path, step))
        others = np.setdiff1d(path.supports[step], chosen)
        assert lengths[chosen].min() >= lengths[others].max(initial=0.0)
        np.testing.assert_array_equal(np.sort(path.ranked(count)), chosen)
    np.testing.assert_array_equal(path.select(), path.supports[-1])
    assert path.norms.shape == (len(path.lambdas), len(path.entered))
    np.testing.assert_allclose(path.norms[-1], _lasso.norms(dense(path))[path.entered])
    first = (path.norms > 0).argmax(axis=0)
    assert (np.diff(first) >= 0).all()
    empty = slce_xp.feature_path(X, y, lambdas=[2.0 * path.lambdas[0]])
    with pytest.raises(ValueError, match="which has none"):
        empty.select(1)


def test_a_feature_that_may_be_constant_counts_for_the_gap():
    """Column 0 varies by some units in the last place, and separates the classes."""
    X, y = problem(60, 8)
    X[:, 0] = 1e17 + 32.0 * (y == 1)
    with pytest.warns(slce_xp.ConvergenceWarning, match="is proved to"):
        found = slce_xp.feature_path(X, y, n_features=7)
    X[:, 0] -= 1e17
    Y = targets_of(found, y)
    exact = slce_xp.feature_path(X, y, lambdas=found.lambdas, gap=1e-12)
    assert 0 not in found.select(7)
    assert 0 in exact.select(1)
    for step, penalty in enumerate(found.lambdas):
        above = objective(X, Y, dense(found, step), penalty)
        above -= objective(X, Y, dense(exact, step), penalty)
        assert above / ((Y * Y).sum() / (2 * len(X))) <= found.gaps[step] + 1e-12


def test_features_that_are_nearly_combinations_of_others_are_solved_to_the_gap():
    """Rank 3 and a little noise, 20 classes: many coefficients, and small ones in Newton's way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 80)) + 0.01 * rng.normal(size=(200, 80))
    y = np.arange(200) % 20
    X += (0.3 * rng.normal(size=(20, 80)))[y]
    with pytest.warns(UserWarning, match="n_features=80 was asked for"):
        found = slce_xp.feature_path(X, y, n_features=80)
    assert len(found.select()) >= 60
    assert found.gaps.max() <= 1e-5


def test_coefficients_are_exact_to_rounding():
    """Not to its root, as far as values of the objective can tell."""
    worst = 0.0
    for seed in range(10):
        X, y = problem(60, 40, seed=seed)
        found = slce_xp.feature_path(X, y, n_features=6)
        nearby = X + 1e-14 * np.random.default_rng(seed).standard_normal(X.shape)
        again = slce_xp.feature_path(nearby, y, lambdas=found.lambdas)
        worst = max(worst, np.abs(dense(found) - dense(again)).max() / np.abs(dense(found)).max())
    assert worst < 1e-11


@pytest.mark.parametrize("shape", [(1, 3), (7, 1), (12, 4)])
def test_newton_steps_solve_the_whole_system(shape):
    rng = np.random.default_rng(1)
    rows, r = shape
    X = rng.normal(size=(rows + 9, rows))
    problem = Lasso(X.T @ X, rng.normal(size=shape), 0.7, 1.0)
    W = rng.normal(size=shape) * np.geomspace(1e-3, 10.0, rows)[:, None]
    size = _lasso.norms(W)
    hessian = np.kron(problem.gram, np.eye(r))
    for j, row in enumerate(W):
        curvature = np.eye(r) - np.outer(row, row) / size[j] ** 2
        hessian[j * r : (j + 1) * r, j * r : (j + 1) * r] += problem.penalty / size[j] * curvature
    downhill = problem.linear - problem.gram @ W - problem.penalty * W / size[:, None]
    expected = np.linalg.solve(hessian, downhill.ravel()).reshape(shape)
    found = _lasso._newton_direction(problem, W)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


def test_names():
    pandas = pytest.importorskip("pandas")
    X, y = problem(60, 12)
    names = [f"gene {i}" for i in range(12)]
    path = slce_xp.feature_path(pandas.DataFrame(X, columns=names), y, n_features=3)
    chosen = path.select(3)
    assert list(path.features(n_features=3)) == [names[i] for i in chosen]
    assert list(path.refit(3).feature_names) == [names[i] for i in chosen]
    bare = slce_xp.feature_path(X, y, n_features=3)
    assert list(bare.features(names, 3)) == [names[i] for i in chosen]
    for wrong in (None, names[:5]):
        with pytest.raises(ValueError, match="names must"):
            bare.features(wrong)


def test_the_path_is_frozen_and_printed():
    X, y = problem()
    path = slce_xp.feature_path(X, y, n_features=8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        path.ridge = 1.0
    text = str(path)
    assert text.startswith(f"Feature path: {len(path.supports[-1])} of 40 features, ")
    assert "60 samples of 3 classes" in text
    assert "duality gaps: within " in text
    model = path.refit(5, 1, criterion="separation")
    assert model.criterion == "separation"
    assert model.components.shape == (1, 5)
