"""Calibrated probabilities: likelihoods of samples that had no part in the fit."""

import numpy as np
import pytest
import scipy.optimize

import slce_xp
from slce_xp._calibration import FOLDS, best_temperature
from slce_xp._folds import make_folds

CRITERIA = ["centroid", "separation"]


def drawn(n):
    """Three Gaussian classes in five dimensions."""
    y = np.arange(n) % 3
    return np.random.default_rng(0).normal(size=(n, 5)) + 3.0 * np.eye(3, 5)[y], y


def loss(model, X, y):
    return -np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean()


@pytest.mark.parametrize(
    "options", [{}, {"criterion": "separation", "shrinkage": 0.001}], ids=CRITERIA
)
def test_held_out_samples_are_more_probable(options):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 120)) + 2.0 * np.eye(3, 120)[y]
    plain, calibrated = (
        slce_xp.fit(X[:150], y[:150], calibrate=c, **options) for c in (False, True)
    )
    assert plain.temperature is None
    assert calibrated.temperature > 1.5
    assert loss(calibrated, X[150:], y[150:]) < loss(plain, X[150:], y[150:]) - 0.05
    np.testing.assert_array_equal(calibrated.predict(X), plain.predict(X))
    assert "temperature" in str(calibrated)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_gaussian_classes_lose_nothing(criterion):
    X, y = drawn(3000)
    plain, calibrated = (
        slce_xp.fit(X[:900], y[:900], criterion=criterion, calibrate=c) for c in (False, True)
    )
    assert loss(calibrated, X[900:], y[900:]) < loss(plain, X[900:], y[900:]) + 0.01


@pytest.mark.parametrize("shape", [(60, 5), (30, 60)], ids=str)
def test_temperature_on_every_library(shape, xp):
    n, d = shape
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = rng.normal(size=shape) + 2.0 * np.eye(3, d)[y]
    expected = slce_xp.fit(X, y, calibrate=True).temperature
    model = slce_xp.fit(xp.array(X), y, calibrate=True)
    assert model.temperature == pytest.approx(expected, rel=xp.tolerance(1e-5, 1e-2))
    np.testing.assert_allclose(xp.numpy(model.predict_proba(xp.array(X))).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("options", [{"solver": "krylov"}, {"max_memory": "1GB"}], ids=str)
@pytest.mark.parametrize("weights", [None, np.linspace(1.0, 5.0, 90)], ids=["", "weights"])
def test_folds_of_their_own_give_the_same(options, weights):
    X, y = drawn(90)
    shared = slce_xp.fit(X, y, calibrate=True, sample_weight=weights)
    alone = slce_xp.fit(X, y, calibrate=True, sample_weight=weights, **options)
    assert alone.temperature == pytest.approx(shared.temperature, rel=1e-4)


def test_a_dict_of_class_weights_is_the_odds_of_folds():
    y = np.repeat([0, 1], [270, 30])
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[y == 1, 0] += 2.2
    odds = {0: 20.0, 1: 1.0}
    folds = make_folds(y, FOLDS, 0, np.arange(2)).codes
    logs = np.empty((300, 2))
    for fold in range(FOLDS):
        train, test = folds != fold, folds == fold
        logs[test] = np.log(
            slce_xp.fit(X[train], y[train], class_weight=odds).predict_proba(X[test])
        )
    expected = best_temperature(logs, y, np.array([20.0, 1.0])[y])
    found = slce_xp.fit(X, y, class_weight=odds, calibrate=True)
    assert found.temperature == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_temperature_is_that_of_an_optimiser(scale):
    rng = np.random.default_rng(0)
    n, n_classes = 200, 4
    odds = rng.normal(size=(n, n_classes))
    shares = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(n_classes, p=p) for p in shares])
    weights = rng.uniform(1.0, 2.0, n)

    def posterior(log_temperature):
        logs = scale * odds / np.exp(log_temperature)
        logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return -weights @ logs[np.arange(n), y] * n / weights.sum() + log_temperature**2 / 2

    found = scipy.optimize.minimize_scalar(posterior, bounds=(-5, 5), options={"xatol": 1e-9})
    assert best_temperature(scale * odds, y, weights) == pytest.approx(np.exp(found.x), rel=1e-4)


def test_temperature_of_what_is_all_right_or_all_the_same():
    y = np.arange(30) % 3
    assert 0.9 < best_temperature(9.0 * np.eye(3)[y], y, None) < 1.0
    assert best_temperature(np.zeros((30, 3)), y, None) == 1.0
    assert best_temperature(-9.0 * np.eye(3)[y], y, None) > 50.0


def test_samples_of_a_group_are_held_out_together():
    rng = np.random.default_rng(0)
    mouse = np.repeat(np.arange(12), 10)
    y = mouse % 2
    X = rng.normal(size=(12, 5))[mouse] + 0.3 * rng.normal(size=(120, 5))
    rows, mice = (slce_xp.fit(X, y, calibrate=True, groups=g) for g in (None, mouse))
    assert mice.temperature > 2 * rows.temperature
    pytest.importorskip("sklearn")
    estimator = slce_xp.SLCE(calibrate=True).fit(X, y, groups=mouse)
    assert estimator.model_.temperature == mice.temperature


def test_a_file_keeps_the_temperature(tmp_path):
    X, y = drawn(90)
    model = slce_xp.fit(X, y, calibrate=True)
    model.save(tmp_path / "model.npz")
    again = slce_xp.load(tmp_path / "model.npz")
    assert again.temperature == model.temperature
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("options", "parameter", "message"),
    [
        ({"unlabeled": 2}, "calibrate", "a label for every sample.* 30 have none"),
        ({"sample_weight": np.arange(90)}, "calibrate", "a weight above 0 .* 1 have none"),
        ({"calibrate": False, "groups": np.arange(90)}, "groups", "calibrate=True"),
        ({"groups": np.arange(90) % 3}, "groups", "two groups or more"),
        ({"groups": np.arange(9)}, "groups", "one value for each of 90 samples"),
        ({"calibrate": "yes"}, "calibrate", "True or False"),
    ],
)
def test_bad_input(options, parameter, message):
    X, y = drawn(90)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        slce_xp.fit(X, y, **{"calibrate": True, **options})
    assert caught.value.parameter == parameter


def test_training_sets_must_have_a_spread():
    X, y = drawn(6)  # two of each class, one of which is held out
    for options in ({}, {"criterion": "separation"}, {"groups": np.arange(6)}):
        with pytest.raises(ValueError, match=r"no more than the 3 means .* leave out") as caught:
            slce_xp.fit(X, y, calibrate=True, **options)
        assert caught.value.parameter == "calibrate"
    X, y = drawn(9)
    assert slce_xp.fit(X, y, calibrate=True).temperature < 10.0
