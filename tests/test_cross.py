"""Out-of-fold embeddings: against fits of each training set, and what they say of random labels."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

import slce_xp
from slce_xp._folds import looks_like_groups, make_folds

FORMS = {"scatter": (60, 8), "gram": (40, 90)}


def separate(n, d, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) * (1.0 + np.arange(d) % 3)
    X[np.arange(n), y] += 4
    return X, y


def fitted_by_fold(X, y, folds, k, **options):
    """Scores and predictions of held-out rows, by a fit of the other rows."""
    whole = slce_xp.fit(X, y, k, **options).transform(X)
    scores, predicted = np.full((len(y), k), np.nan), np.full(len(y), -1)
    for fold in range(folds.max() + 1):
        held = folds == fold
        model = slce_xp.fit(X[~held], y[~held], k, **options)
        seen, target = model.transform(X[~held]), whole[~held]
        rotation = scipy.linalg.orthogonal_procrustes(
            seen - seen.mean(axis=0), target - target.mean(axis=0)
        )[0]
        moved = (model.transform(X[held]) - seen.mean(axis=0)) @ rotation
        scores[held] = moved + target.mean(axis=0)
        predicted[held] = model.predict(X[held])
    return scores, predicted


@pytest.mark.parametrize("form", FORMS)
def test_folds_are_fits_of_their_training_sets(form, xp):
    X, y = separate(*FORMS[form])
    X = X + 100.0
    found = slce_xp.cross_embed(xp.array(X), y, cv=5)
    assert found.model.solver == form
    scores, predicted = fitted_by_fold(xp.held(X).astype(float), y, found.folds, 2)
    np.testing.assert_allclose(found.scores, scores, atol=xp.tolerance(1e-9, 2e-2))
    if not xp.single:
        expected = scipy.stats.contingency.crosstab(y, predicted, levels=(range(3), range(3))).count
        np.testing.assert_array_equal(found.confusion, expected)


@pytest.mark.parametrize(
    "options",
    [
        {"criterion": "separation"},
        {"criterion": "separation", "shrinkage": 0.3},
        {"solver": "krylov"},
        {"max_memory": "1GB"},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", FORMS)
def test_options_reach_folds(form, options):
    X, y = separate(*FORMS[form])
    found = slce_xp.cross_embed(X, y, cv=4, **options)
    scores, predicted = fitted_by_fold(X, y, found.folds, 2, **options)
    np.testing.assert_allclose(found.scores, scores, atol=1e-6)
    assert found.accuracy == (predicted == y).mean()


@pytest.mark.parametrize("kind", ["sparse", "blocks", "dask", "weights"])
@pytest.mark.parametrize("form", FORMS)
def test_rows_of_every_kind(form, kind, tmp_path):
    X, y = separate(*FORMS[form])
    X, options, source = X * (X > 0.5), {}, X * (X > 0.5)
    if kind == "sparse":
        source = scipy.sparse.csr_array(X)
    elif kind == "blocks":
        np.save(tmp_path / "X.npy", X)
        source = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif kind == "dask":
        source = pytest.importorskip("dask.array").from_array(X, chunks=(20, -1))
    else:
        options = {"sample_weight": np.full(len(y), 3.0)}  # which change nothing
    found = slce_xp.cross_embed(source, y, cv=4, **options)
    expected = slce_xp.cross_embed(X, y, cv=4)
    np.testing.assert_allclose(np.abs(found.scores), np.abs(expected.scores), atol=1e-9)


def test_effects_of_batches_are_removed_in_folds():
    X, y = separate(90, 8)
    batch = np.arange(90) // 3 % 2
    moved = X + 50.0 * batch[:, None]
    found = slce_xp.cross_embed(moved, y, cv=4, batch=batch)
    expected = slce_xp.cross_embed(X, y, cv=4, batch=batch)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-9)


def test_a_fold_that_holds_out_a_batch_or_what_batches_share():
    X, y = separate(60, 8)
    batch = np.arange(60) // 3 % 2
    batch[0] = 9
    for fit in (slce_xp.cross_embed, partial(slce_xp.fit, calibrate=True)):
        with pytest.warns(
            slce_xp.SLCEWarning, match=r"^batches \[9\] are held out whole"
        ) as caught:
            fit(X, y, batch=batch)
        assert len(caught) == 1
        # Class 0 links them, by one sample.
        alone = np.where(y > 0, y, 1)
        alone[0] = 2
        slce_xp.fit(X, y, batch=alone)
        with pytest.raises(ValueError, match=r"every training set of the folds; .* fewer folds"):
            fit(X, y, batch=alone)


def test_weights_of_samples_and_classes_reach_folds(monkeypatch):
    X, y = separate(60, 8)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 60)
    options = {"cv": 4, "sample_weight": weights, "class_weight": {0: 1.5, 1: 1.0, 2: 1.0}}
    shared = slce_xp.cross_embed(X, y, **options)
    alone = slce_xp.cross_embed(X, y, max_memory="1GB", **options)
    np.testing.assert_allclose(shared.scores, alone.scores, atol=1e-9)
    plain = slce_xp.cross_embed(X, y, cv=4)
    assert np.abs(shared.scores - plain.scores).max() > 1e-3


def test_a_dict_of_class_weights_is_the_odds_of_folds():
    y = np.repeat([0, 1], [270, 30])
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[y == 1, 0] += 2.2
    odds = {0: 20.0, 1: 1.0}
    found = slce_xp.cross_embed(X, y, cv=3, class_weight=odds)
    _, predicted = fitted_by_fold(X, y, found.folds, 1, class_weight=odds)
    assert found.accuracy == (predicted == y).mean() > 0.85


def test_numbers_whose_squares_leave_the_range():
    X, y = separate(60, 8)
    small, large = (slce_xp.cross_embed(X * s, y, cv=4).scores / s for s in (1.0, 1e80))
    np.testing.assert_allclose(large, small, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.* must be within the range of float64 to be returned")
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scores_whose_squares_leave_the_range_are_refused(scale):
    X, y = separate(60, 8)
    with pytest.raises(ValueError, match=r"within the range of float64, .* Scale X") as caught:
        slce_xp.cross_embed(X * scale, y, cv=4)
    assert caught.value.parameter == "X"


def test_random_labels_are_at_chance_out_of_fold():
    rng = np.random.default_rng(0)
    seen, unseen = [], []
    for _ in range(20):
        X, y = rng.normal(size=(60, 500)), np.repeat([0, 1, 2], 20)
        found = slce_xp.cross_embed(X, y)
        seen.append((found.model.predict(X) == y).mean())
        unseen.append(found.accuracy)
    assert np.mean(seen) > 0.95
    assert np.mean(unseen) < 1 / 3 + 0.04


def test_ellipses_cover_means_of_the_population():
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(60):
        means = 3.0 * np.eye(3, 20)
        y = np.repeat([0, 1, 2], 20)
        found = slce_xp.cross_embed(rng.normal(size=(60, 20)) + means[y], y)
        target = found.model.transform(means)
        for ellipse, point in zip(found.ellipses, target, strict=True):
            inside = np.linalg.solve(ellipse.axes.T, point - ellipse.centre)
            hits.append(np.linalg.norm(inside) <= 1)
    assert np.mean(hits) >= 0.85


def test_an_ellipse_is_hotellings():
    X, y = separate(45, 6)
    found = slce_xp.cross_embed(X, y, cv=5)
    ellipse, points = found.ellipses[1], found.scores[y == 1]
    n = len(points)
    np.testing.assert_allclose(ellipse.centre, points.mean(axis=0))
    quantile = scipy.stats.f(2, n - 2).ppf(0.95) * 2 * (n - 1) / (n - 2)
    for edge in ellipse.axes:
        squared = n * edge @ np.linalg.solve(np.cov(points.T), edge)
        assert squared == pytest.approx(quantile)


def test_samples_of_a_group_are_held_out_together():
    rng = np.random.default_rng(0)
    mouse = np.repeat(np.arange(12), 10)
    y = mouse % 2
    X = rng.normal(size=(12, 5))[mouse] + 0.1 * rng.normal(size=(120, 5))
    by_row, by_mouse = (slce_xp.cross_embed(X, y, cv=6, groups=g) for g in (None, mouse))
    assert all(len(np.unique(by_mouse.folds[mouse == m])) == 1 for m in range(12))
    assert by_row.accuracy > by_mouse.accuracy + 0.2
    lengths = [found.ellipses[0].axes[0, 0] for found in (by_row, by_mouse)]
    assert abs(lengths[1]) > 2 * abs(lengths[0])
    assert "of groups" in str(by_mouse)


def test_a_class_of_one_sample_is_never_held_out():
    X, y = separate(31, 6)
    y[0] = 9
    found = slce_xp.cross_embed(X, y, cv=5)
    assert found.folds[0] == -1
    assert np.isnan(found.scores[0]).all()
    assert np.isfinite(found.scores[1:]).all()
    assert found.confusion.sum() == 30
    assert "1 samples never held out: 9" in str(found)


def test_two_classes_have_one_component():
    X, y = separate(30, 6, 2)
    found = slce_xp.cross_embed(X, y)
    assert found.scores.shape == (30, 1)
    assert found.ellipses[0].axes.shape == (1, 1)


def test_there_are_no_more_folds_than_samples_of_a_class():
    X, y = separate(33, 6)
    y[y == 2] = 1
    y[:4] = 2
    X[:4, 2] += 9
    found = slce_xp.cross_embed(X, y)
    assert found.n_folds == 4
    assert "class '2' has 4 samples" in str(found)


@pytest.mark.parametrize(
    ("change", "parameter", "message"),
    [
        ({"y": np.zeros(30)}, "y", "two classes"),
        ({"y": np.arange(30)}, "y", "two samples or more"),
        ({"X": np.full((30, 6), np.nan)}, "X", "finite"),
        ({"groups": np.arange(30) % 3}, "groups", "two groups or more"),
        ({"groups": np.arange(7)}, "groups", "one value for each of 30 samples"),
        ({"groups": np.full(30, np.nan)}, "groups", "a value for every sample"),
        ({"cv": 1}, "cv", "at least 2"),
        ({"n_components": 0}, "n_components", "at least 1"),
        ({"unlabeled": -1}, "unlabeled", "left out"),
        ({"sample_weight": np.arange(30)}, "sample_weight", "positive"),
    ],
)
def test_bad_input(change, parameter, message):
    X, y = separate(30, 6)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        slce_xp.cross_embed(**{"X": X, "y": y, **change})
    assert caught.value.parameter == parameter


# ---------------------------------------------------------------- folds


@pytest.mark.parametrize("seed", [0, 3])
def test_folds_are_scikit_learns(seed):
    selection = pytest.importorskip("sklearn.model_selection")
    y = np.random.default_rng(1).permutation(np.repeat([2, 0, 1], [20, 13, 7]))
    folds = make_folds(y, 5, seed, np.arange(3))
    splitter = selection.StratifiedKFold(5, shuffle=True, random_state=seed)
    for (train, test), expected in zip(folds.splits(), splitter.split(y, y), strict=True):
        np.testing.assert_array_equal(train, expected[0])
        np.testing.assert_array_equal(test, expected[1])


def test_groups_with_several_classes_are_dealt_with_the_rarest():
    groups = np.repeat(np.arange(12), 4)
    y = np.tile([0, 0, 0, 1], 12)
    y[groups >= 8] = 0
    folds = make_folds(y, 4, 0, np.arange(2), groups)
    for train, test in folds.splits():
        assert not set(groups[train]) & set(groups[test])
        assert set(y[test]) == {0, 1}


def test_a_class_that_groups_leave_to_one_fold():
    groups = np.array([0, 0, 0, 1, 2, 2])
    y = np.array([0, 0, 1, 1, 0, 1])
    folds = make_folds(y, 3, 0, np.arange(2), groups)
    assert folds.n_folds == 2
    assert "class '0' has 2 groups" in folds.note


def test_a_column_of_subjects_is_recognised():
    y = np.repeat([0, 1], 30)
    subject = np.repeat(np.arange(12), 5)
    assert looks_like_groups(subject, y)
    assert looks_like_groups([f"mouse {s}" for s in subject], y)
    assert not looks_like_groups(np.arange(60), y)  # an identifier
    assert not looks_like_groups(y, y)
    assert not looks_like_groups(np.arange(60) % 12, y)  # of several classes
    assert not looks_like_groups(np.repeat([0, 1, 2, 3], [15, 15, 15, 15]).repeat(20), y.repeat(20))
