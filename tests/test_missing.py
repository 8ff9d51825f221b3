"""`missing="mean"`: missing values become the means of their columns."""

import numpy as np
import pytest
import scipy.sparse

import slce_xp


def with_holes(n=60, d=9, share=0.04, seed=0):
    """Samples with missing values, and the same filled by hand."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d)) + 3 * rng.normal(size=(3, d))[y] + 9
    X[rng.random((n, d)) < share] = np.nan
    return X, y, np.where(np.isnan(X), np.nanmean(X, axis=0), X)


@pytest.mark.parametrize("criterion", ["centroid", "separation"])
@pytest.mark.parametrize("d", [9, 90])
def test_is_a_fit_to_samples_filled_by_hand(xp, d, criterion):
    X, y, filled = with_holes(d=d)
    found = slce_xp.fit(xp.array(X), y, criterion=criterion, missing="mean")
    wanted = slce_xp.fit(xp.held(filled), y, criterion=criterion)
    assert found.filled == pytest.approx(np.isnan(X).mean())
    scale = float(abs(wanted.components).max())
    atol = scale * xp.tolerance(1e-9, 2e-3)
    np.testing.assert_allclose(xp.numpy(found.components), wanted.components, atol=atol)
    Z = xp.numpy(found.transform(xp.array(X)))
    atol = 40 * xp.tolerance(1e-10, 1e-3) * scale
    np.testing.assert_allclose(Z, wanted.transform(filled), atol=atol)


def test_files_weights_iterations_and_batches(tmp_path):
    X, y, _ = with_holes(d=90)
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    means = np.average(
        np.nan_to_num(X), axis=0, weights=weights
    ) / np.average(~np.isnan(X), axis=0, weights=weights)  # fmt: skip
    filled = np.where(np.isnan(X), means, X)
    np.save(tmp_path / "X.npy", X)
    rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    options = {"sample_weight": weights, "batch": np.arange(len(y)) % 2, "tol": 1e-12}
    wanted = slce_xp.fit(filled, y, **options)
    for given in (X, rows):
        for solver in ("scatter", "gram", "krylov"):
            found = slce_xp.fit(given, y, missing="mean", solver=solver, **options)
            np.testing.assert_allclose(found.components, wanted.components, atol=1e-9)
    found.save(tmp_path / "model.npz")
    loaded = slce_xp.load(tmp_path / "model.npz")
    assert loaded.filled == found.filled
    Z = loaded.transform(rows, batch=options["batch"])
    np.testing.assert_allclose(Z, wanted.transform(filled, batch=options["batch"]), atol=1e-9)
    structure = loaded.structure(X, batch=options["batch"])
    assert np.isfinite(structure).all()
    assert "missing" in str(loaded)


def test_is_an_option():
    X, y, filled = with_holes()
    with pytest.raises(ValueError, match="found NaN"):
        slce_xp.fit(X, y)
    model = slce_xp.fit(filled, y)
    assert np.isnan(model.transform(X)).any()
    with pytest.raises(ValueError, match="missing must be None or 'mean'"):
        slce_xp.fit(X, y, missing="median")
    with pytest.raises(ValueError, match="sparse matrices"):
        slce_xp.fit(scipy.sparse.csr_matrix(filled), y, missing="mean")
    X[:, 4] = np.nan
    with pytest.raises(ValueError, match="column 4 has none"):
        slce_xp.fit(X, y, missing="mean")
    X[:, 4] = np.inf
    with pytest.raises(ValueError, match="found infinity at row 0, column 4"):
        slce_xp.fit(X, y, missing="mean")


@pytest.mark.parametrize("criterion", ["centroid", "separation"])
def test_a_column_without_a_number_in_a_fold_has_no_effect_there(criterion):
    X, y, _ = with_holes(share=0.0)
    X[:, 4] = np.nan
    X[7, 4] = 5.0  # constant with its mean, and in the fold of this sample, without a number
    with pytest.warns(UserWarning, match="11 % of X is missing"):
        found = slce_xp.cross_embed(X, y, criterion=criterion, missing="mean", calibrate=True)
    expected = slce_xp.cross_embed(np.delete(X, 4, axis=1), y, criterion=criterion, calibrate=True)
    np.testing.assert_allclose(found.model.temperature, expected.model.temperature, rtol=1e-9)
    np.testing.assert_array_equal(found.confusion, expected.confusion)


def test_much_that_is_missing_is_warned_of():
    X, y, _ = with_holes(share=0.2)
    with pytest.warns(UserWarning, match=r"2\d % of X is missing|1\d % of X is missing"):
        slce_xp.fit(X, y, missing="mean")


def test_much_that_is_missing_in_new_samples_is_warned_of():
    X, y, filled = with_holes()
    model = slce_xp.fit(X, y, missing="mean")
    model.predict(X)
    new = filled[:3].copy()
    new[1] = np.nan
    with pytest.warns(UserWarning, match="33 % of X is missing"):
        model.predict(new)


def test_estimator_fills_and_corrects():
    X, y, filled = with_holes()
    batch = np.arange(len(y)) % 2
    estimator = slce_xp.SLCE(missing="mean")
    wanted = slce_xp.fit(filled, y, batch=batch)
    Z = estimator.fit_transform(X, y, batch=batch)
    np.testing.assert_allclose(Z, wanted.transform(filled, batch=batch), atol=1e-10)
    assert estimator.score(X, y, batch=batch) == np.mean(wanted.predict(filled, batch) == y)
    np.testing.assert_allclose(
        estimator.predict_proba(X, batch=batch), wanted.predict_proba(filled, batch), atol=1e-8
    )
    with pytest.raises(ValueError, match="missing must be None for partial_fit"):
        estimator.partial_fit(X, y)
