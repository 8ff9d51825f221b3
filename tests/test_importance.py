"""What a model says about its features: importance, its interval, structure coefficients."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.feature_selection import f_classif
from sklearn.metrics import roc_auc_score

import slce_xp


def three_classes(seed=0, n=45, d=12, planted=3):
    """Classes that differ in the first features only."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    X[:, :planted] += 2.0 * rng.normal(size=(3, planted))[y]
    return X, y


def test_importance_splits_the_loss_that_is_removed(xp):
    X, y = three_classes()
    with pytest.warns(UserWarning, match="only the first"):  # others raise it
        model = slce_xp.fit(xp.array(X), y, 4)
    X = xp.held(X).astype(float)
    components, removed = xp.numpy(model.components), np.maximum(xp.numpy(model.eigenvalues), 0)
    # Feature j's share of aᵀMa is a_j·(Ma)_j.
    means = np.stack([X[y == j].mean(0) for j in range(3)])[y] - X.mean(0)
    centred = X - X.mean(0)
    M = 2 * means.T @ means - centred.T @ centred
    shares = (components * (components @ M)).T @ (removed > 0) / removed.sum()
    found = xp.numpy(model.importance)
    tolerance = xp.tolerance(1e-10, 1e-4)
    assert np.mean(found**2) == pytest.approx(1, rel=tolerance)
    np.testing.assert_allclose(found**2 / X.shape[1], shares, atol=tolerance)
    np.testing.assert_array_equal(model.highest_class, y[means.argmax(axis=0)])


def test_importance_needs_a_loss_and_is_zero_if_nothing_is_removed():
    X, y = three_classes()
    with pytest.raises(ValueError, match="importance needs criterion='centroid'"):
        _ = slce_xp.fit(X, y, criterion="separation").importance
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="no direction lowers"):
        model = slce_xp.fit(rng.normal(size=(300, 4)), rng.integers(0, 3, 300))
    assert not model.importance.any()


def test_importance_is_a_ratio_within_the_range_of_eigenvalues():
    X, y = three_classes()
    wanted = slce_xp.fit(X, y).importance
    np.testing.assert_allclose(slce_xp.fit(X * 7e152, y).importance, wanted, rtol=1e-9)
    for factor in (1e-200, 1e160):
        with pytest.warns(UserWarning, match="within the range of float64"):
            model = slce_xp.fit(X * factor, y)
        with pytest.raises(ValueError, match="X must be scaled for importance"):
            _ = model.importance


@pytest.mark.parametrize("criterion", ["centroid", "separation"])
def test_structure_is_a_correlation(xp, criterion):
    X, y = three_classes()
    X[:, 5] = 7.0  # which does not vary
    X[:, :3] = 1000.0 * X[:, :3] + 3000.0 * np.eye(3)[y]
    model = slce_xp.fit(xp.array(X), y, criterion=criterion)
    Z = xp.numpy(model.transform(xp.array(X)))
    found = xp.numpy(model.structure(xp.array(X)))
    vary = np.arange(X.shape[1]) != 5
    wanted = np.corrcoef(X[:, vary], Z, rowvar=False)[:-2, -2:]
    np.testing.assert_allclose(found[vary], wanted, atol=xp.tolerance(1e-10, 2e-4))
    assert not found[5].any()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", ["gram", "scatter"])
def test_structure_is_zero_along_components_without_variance(solver, dtype):
    X, y = np.random.default_rng(0).normal(size=(40, 200)), np.repeat([0, 1], 20)
    X[20:, 0] += 4
    X = (X + 100).astype(dtype)
    with pytest.warns(UserWarning, match="only the first 1"):
        model = slce_xp.fit(X, y, 2, solver=solver)
    found = abs(model.structure(X)).max(axis=0)
    assert found[0] > 0.9
    assert found[1] == 0.0


def test_structure_of_sparse_scaled_and_dask_data():
    dask = pytest.importorskip("dask.array")
    X, y = three_classes()
    X[X < 0.5] = 0.0
    scale = X.std(axis=0)
    model = slce_xp.fit(X / scale, y).unscaled(scale)
    wanted = np.corrcoef(X, model.transform(X), rowvar=False)[:-2, -2:]
    for given in (X, scipy.sparse.csr_matrix(X), dask.from_array(X, chunks=(10, 5))):
        np.testing.assert_allclose(model.structure(given), wanted, atol=1e-10)


def test_planted_features_are_found_beside_a_factor_that_is_not_of_the_classes():
    rng = np.random.default_rng(0)
    y, areas = np.arange(60) % 3, []
    for _ in range(10):
        planted = np.zeros(500, dtype=bool)
        planted[rng.choice(500, 25, replace=False)] = True
        X = rng.normal(size=(60, 500)) + 3 * rng.normal(size=(60, 1)) * rng.normal(size=500)
        X[:, planted] += 0.8 * rng.normal(size=(3, 25))[y]
        X /= X.std(axis=0)
        ours = slce_xp.fit(X, y).importance
        areas.append([roc_auc_score(planted, a) for a in (ours, f_classif(X, y)[0])])
    ours, anova = np.mean(areas, axis=0)
    assert ours > 0.84
    assert ours > anova + 0.05


@pytest.mark.parametrize("d", [45, 150])
def test_with_random_labels_few_lower_limits_exceed_one(d):
    rng, found, plain = np.random.default_rng(0), [], []
    for seed in range(4):
        X, y = rng.normal(size=(45, d)), rng.permutation(45) % 3
        with_interval = slce_xp.importance_interval(X, y, n_resamples=60, random_state=seed)
        found.append(with_interval.lower > 1)
        plain.append(with_interval.importance > 1)
    assert np.mean(found) <= 0.02
    assert np.mean(plain) > 0.25  # which is why 1 is not a threshold


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 3.0, 45)], ids=["", "weighted"])
def test_interval_is_that_of_fits_to_resamples(weights):
    X, y = three_classes(d=60)
    options = {"n_resamples": 5, "random_state": 3, "sample_weight": weights}
    found = slce_xp.importance_interval(X, y, **options)
    rng = np.random.default_rng(3)
    draws = []
    for _ in range(5):
        counts = np.zeros(len(y), dtype=int)
        for label in range(3):
            rows = np.flatnonzero(y == label)
            counts[rows] = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)))
        rows = np.repeat(np.arange(len(y)), counts)
        drawn = None if weights is None else weights[rows]
        draws.append(slce_xp.fit(X[rows], y[rows], sample_weight=drawn).importance)
    np.testing.assert_allclose(found.lower, np.quantile(draws, 0.025, axis=0), rtol=1e-7)
    np.testing.assert_allclose(found.upper, np.quantile(draws, 0.975, axis=0), rtol=1e-7)
    sparse = slce_xp.importance_interval(scipy.sparse.csr_matrix(X), y, **options)
    np.testing.assert_allclose(sparse.lower, found.lower, rtol=1e-7)


@pytest.mark.parametrize("value", [1e9, np.nan])
@pytest.mark.parametrize("grouped", [False, True])
def test_samples_of_weight_zero_take_no_part_in_an_interval(value, grouped):
    X, y = three_classes(d=60)
    groups = np.arange(45) // 3
    X[:4] = value  # one group, and part of another one
    weights = np.repeat([0.0, 1.0], [4, 41])
    options = {"n_resamples": 5, "groups": groups if grouped else None}
    found = slce_xp.importance_interval(X, y, sample_weight=weights, **options)
    options["groups"] = groups[4:] if grouped else None
    wanted = slce_xp.importance_interval(X[4:], y[4:], **options)
    np.testing.assert_allclose(found.lower, wanted.lower, rtol=1e-7)
    np.testing.assert_allclose(found.upper, wanted.upper, rtol=1e-7)


def test_intervals_are_printed_by_their_lower_limits():
    d = 12
    values = np.arange(d) / 10
    kinds = np.array(["a", "b"])[np.arange(d) % 2]
    found = slce_xp.ImportanceInterval(values, values[::-1], values + 2, kinds, 0.9, None)
    lines = str(found).splitlines()
    assert lines[0] == "Importance of 12 features, with 90 % bootstrap intervals"
    assert lines[1] == "  feature 1   0.00 (1.10 to 2.00), highest in a"
    assert lines[10] == "  feature 10  0.90 (0.20 to 2.90), highest in b"
    assert lines[11:] == ["  and 2 more with smaller lower limits"]
    names = np.array([f"gene{j}" for j in range(d)])
    assert str(found._replace(feature_names=names)).splitlines()[2].split()[0] == "gene1"


def test_components_beyond_the_samples_are_allowed():
    X, y = three_classes(d=60)
    with pytest.warns(UserWarning, match="only the first"):
        found = slce_xp.importance_interval(X, y, 50, n_resamples=3)
    wanted = slce_xp.importance_interval(X, y, n_resamples=3)
    np.testing.assert_allclose(found.upper, wanted.upper, rtol=1e-7)


def test_groups_are_drawn_together_and_widen_the_interval():
    X, y = three_classes(n=18)
    copies = np.repeat(np.arange(18), 8)
    rng = np.random.default_rng(0)
    repeated = X[copies] + 0.01 * rng.normal(size=(144, X.shape[1]))
    by_row = slce_xp.importance_interval(repeated, y[copies], n_resamples=60)
    by_group = slce_xp.importance_interval(repeated, y[copies], groups=copies, n_resamples=60)
    alone = slce_xp.importance_interval(X, y, n_resamples=60)
    widths = [np.mean(found.upper - found.lower) for found in (by_row, by_group, alone)]
    assert widths[1] == pytest.approx(widths[2], rel=0.1)
    assert widths[1] > 2 * widths[0]
    # A group may have samples of all classes.
    paired = slce_xp.importance_interval(X, y, groups=np.arange(18) // 3, n_resamples=10)
    assert (paired.lower <= paired.upper).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": [1, 2]}, "groups must have one value for each of 45 samples"),
        ({"groups": [np.nan] * 3 + [1.0] * 42}, "groups must have a value for every sample"),
        ({"level": 95}, "level must be a number between 0 and 1"),
        ({"n_resamples": 0}, "n_resamples must be an integer of at least 2"),
    ],
)
def test_bad_input_of_an_interval_is_named(options, message):
    X, y = three_classes()
    with pytest.raises(ValueError, match=message):
        slce_xp.importance_interval(X, y, **options)


def test_sentences_for_a_paper_have_the_numbers_of_the_model():
    X, y = three_classes()
    batch = np.arange(45) % 2
    X[0, 0] = np.nan
    text = slce_xp.fit(X, y, 1, batch=batch, missing="mean").methods()
    assert text.startswith("45 samples of 3 classes with 12 features were embedded in 1 dimension ")
    assert "(0.19 % of all)" in text
    assert "effects of 2 batches" in text
    model = slce_xp.fit(X[1:], y[1:], criterion="separation")
    assert f"with the weight {model.shrinkage:.3g}." in model.methods()
