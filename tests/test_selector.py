"""The scikit-learn selector: scikit-learn's checks, stability selection, pipelines."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from conftest import spare_compiling
from test_selection import problem

import slce_xp
from slce_xp._stability import stability

checks = pytest.importorskip("sklearn.utils.estimator_checks")

SLCESelector = slce_xp.SLCESelector
RESAMPLED = SLCESelector(1, n_resamples=2, ridge=1.0)

MORE_CHECKS = [
    "check_dataframe_column_names_consistency",
    "check_estimator_cloneable",
    "check_get_feature_names_out_error",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_transformer_get_feature_names_out",
]


# A sample of weight 2 is drawn, or not, as one; two of them are drawn one by one.
DRAWN = {
    f"check_sample_weight_equivalence_on_{kind}_data": "resamples are of samples, not of weights"
    for kind in ("dense", "sparse")
}


# Few features and random labels: paths end early, and say so.
@pytest.mark.filterwarnings("ignore:n_features=")
@checks.parametrize_with_checks(
    [SLCESelector(), RESAMPLED], expected_failed_checks=lambda e: DRAWN if e.n_resamples else {}
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
@pytest.mark.filterwarnings("ignore:n_features=")
@pytest.mark.parametrize("check", MORE_CHECKS)
def test_scikit_learns_checks_of_its_own_estimators(check):
    getattr(checks, check)("SLCESelector", SLCESelector(1))


def test_it_selects_what_the_path_selects(xp):
    spare_compiling(xp)
    X, y = problem(40, 60)
    selector = SLCESelector(5, gap=1e-4).fit(xp.array(X), y)
    expected = slce_xp.feature_path(X, y, n_features=5).select(5)
    np.testing.assert_array_equal(selector.get_support(indices=True), expected)
    found = xp.numpy(selector.transform(xp.array(X)))
    np.testing.assert_array_equal(found, xp.held(X)[:, expected])


def test_sparse_and_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = problem(40, 60)
    expected = SLCESelector(5).fit(X, y)
    columns = X[:, expected.support_]
    sparse = expected.transform(scipy.sparse.csr_array(X))
    np.testing.assert_array_equal(sparse.toarray(), columns)
    np.save(tmp_path / "X.npy", X)
    file = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(SLCESelector(5).fit(file, y).transform(file), columns)
    frame = pandas.DataFrame(X, columns=[f"gene {i}" for i in range(60)])
    selector = SLCESelector(5).set_output(transform="pandas").fit(frame, y)
    chosen = [frame.columns[i] for i in expected.get_support(indices=True)]
    assert list(selector.transform(frame).columns) == chosen
    assert list(selector.get_feature_names_out()) == chosen


@pytest.mark.parametrize(("wanted", "count"), [(None, 20), (0.1, 4), (7, 7), (np.int64(3), 3)])
def test_how_many(wanted, count):
    X, y = problem(60, 40)
    assert SLCESelector(wanted).fit(X, y).n_features_ == count


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"n_features_to_select": 41}, "n_features_to_select must be an integer of at least 1"),
        ({"n_features_to_select": 2.5}, "n_features_to_select must be an integer, a share"),
        ({"n_resamples": -1}, "n_resamples must be an integer of at least 0; got -1"),
        ({"subsample": 0.0}, "subsample must be a finite number above 0 and at most 1"),
        ({"targets": "labels"}, "targets must be 'centroids' or 'scores'"),
    ],
)
def test_what_it_refuses(how, message):
    X, y = problem(60, 40)
    with pytest.raises(ValueError, match=message) as caught:
        SLCESelector(**how).fit(X, y)
    assert caught.value.parameter == next(iter(how))


# ---------------------------------------------------------------- stability


def naive_stability(marks, level_width=1.959963984540054):
    """Nogueira's formulas, term by term."""
    count, d = marks.shape
    mean = sum(row.sum() for row in marks) / count
    chance = mean / d * (1 - mean / d)
    p = [sum(row[f] for row in marks) / count for f in range(d)]
    spread = sum(count / (count - 1) * share * (1 - share) for share in p) / d
    value = 1 - spread / chance
    parts = []
    for row in marks:
        k = row.sum()
        agreement = sum(row[f] * p[f] for f in range(d)) / d - k * mean / d**2
        correction = value / 2 * (2 * k * mean / d**2 - k / d - mean / d + 1)
        parts.append((agreement + correction) / chance)
    centre = sum(parts) / count
    variance = 4 / count**2 * sum((part - centre) ** 2 for part in parts)
    return value, value - level_width * variance**0.5, value + level_width * variance**0.5


@pytest.mark.parametrize("seed", range(5))
def test_stability_by_its_formulas(seed):
    rng = np.random.default_rng(seed)
    marks = rng.random((6, 15)) < rng.random(15)
    np.testing.assert_allclose(stability(marks), naive_stability(marks), rtol=1e-12)


def test_stability_of_same_random_and_empty_selections():
    rng = np.random.default_rng(0)
    same = np.tile(rng.random(30) < 0.3, (5, 1))
    assert stability(same) == (1.0, 1.0, 1.0)
    low, high = stability(rng.random((200, 400)) < 0.3)[1:]
    assert low < 0.002
    assert high > -0.002
    assert np.isnan(stability(np.ones((3, 4), bool))).all()
    with pytest.raises(ValueError, match="selected must be booleans of shape"):
        stability(np.ones((1, 4), bool))


def test_stability_selection_is_seeded_and_independent_of_jobs():
    X, y = problem(60, 80, seed=3)
    first = SLCESelector(6, n_resamples=8, random_state=5).fit(X, y)
    again = SLCESelector(6, n_resamples=8, random_state=5, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(first.frequencies_, again.frequencies_)
    other = SLCESelector(6, n_resamples=8, random_state=6).fit(X, y)
    assert (first.frequencies_ != other.frequencies_).any()


def test_frequencies_are_those_of_the_resamples():
    X, y = problem(60, 30)
    weights = 1.0 + np.arange(60) % 2
    weights[:6] = 0.0
    selector = SLCESelector(5, n_resamples=4, random_state=1).fit(X, y, sample_weight=weights)
    rng = np.random.default_rng(1)
    marks = np.zeros((4, 30), bool)
    for row in marks:
        kept = np.zeros(60)
        for label in range(3):
            members = np.flatnonzero((y == label) & (weights > 0))
            kept[rng.permutation(members)[: len(members) // 2]] = 1.0
        row[slce_xp.feature_path(X, y, n_features=5, sample_weight=weights * kept).select(5)] = True
    np.testing.assert_array_equal(selector.frequencies_, marks.mean(axis=0))
    assert selector.stability_ == pytest.approx(naive_stability(marks)[0], rel=1e-12)
    assert selector.stability_interval_ == pytest.approx(naive_stability(marks)[1:], rel=1e-9)
    others = selector.frequencies_[~selector.support_]
    assert selector.n_features_ == 5
    assert selector.frequencies_[selector.support_].min() >= others.max()


# ---------------------------------------------------------------- use


def test_in_a_pipeline_and_a_search():
    from sklearn.model_selection import GridSearchCV
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = problem(90, 40)
    pipeline = make_pipeline(StandardScaler(), SLCESelector(), KNeighborsClassifier(3))
    search = GridSearchCV(
        pipeline,
        {"slceselector__n_features_to_select": [1, 9], "slceselector__targets": ["scores"]},
        cv=3,
    ).fit(X, y)
    assert search.best_params_["slceselector__n_features_to_select"] == 9
    assert search.best_score_ > 0.6


def test_a_pickle_has_no_data():
    X, y = problem(60, 40)
    selector = SLCESelector(5).fit(X, y)
    with pytest.raises(ValueError, match="path must keep X and y to be fitted again"):
        selector.path_.refit(3)
    path = slce_xp.feature_path(X, y, n_features=5)
    loaded = pickle.loads(pickle.dumps(path))
    np.testing.assert_array_equal(loaded.select(3), path.select(3))
    assert len(pickle.dumps(path)) < X.nbytes
    with pytest.raises(ValueError, match="path must keep X and y"):
        loaded.refit(3)
