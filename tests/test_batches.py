"""partial_fit and merge: batches in any order give the result of all samples at once."""

import pickle
import tracemalloc
import warnings

import numpy as np
import oracle
import pandas as pd
import pytest
import scipy.sparse
from budgets import metered
from conftest import load_set, spare_compiling
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import slce_xp
from slce_xp import SLCE

X, CODES = oracle.blobs(300, 12, 4, seed=81, separation=1.0)
Y = np.array(["ant", "bee", "cat", "dog"])[CODES]


def in_batches(estimator, x, y, size, order=None, **per_sample):
    order = np.arange(len(y)) if order is None else order
    for start in range(0, len(y), size):
        rows = order[start : start + size]
        weights = {name: values[rows] for name, values in per_sample.items()}
        estimator.partial_fit(x(rows), y[rows], **weights)
    return estimator


def assert_same(one, other, tolerance):
    """An estimator and a model that differ in rounding only."""
    np.testing.assert_array_equal(one.classes_, other.classes)
    for name in ("components", "eigenvalues", "mean", "centroids"):
        theirs = np.asarray(getattr(other, name))
        bound = tolerance * max(1.0, np.abs(theirs).max())
        np.testing.assert_allclose(getattr(one, f"{name}_"), theirs, atol=bound)
    assert one.n_positive_ == other.n_positive
    assert one.model_.n_samples == other.n_samples
    np.testing.assert_array_equal(one.model_.counts, other.counts)
    assert one.loss_ == pytest.approx(other.loss, rel=100 * tolerance)


# ---------------------------------------------------------------- the same answer


def test_batches_whose_mean_is_far_from_the_samples_that_count():
    """Unlabelled samples have nearly all the weight, and λ = 0: lost digits are stated."""
    free, batch = np.arange(280) % 2 == 0, np.arange(280) // 70
    x, y = X[:280].copy(), np.where(free, -1, CODES[:280])
    x[free] = np.where(batch[free] % 2, 2.0**24, -(2.0**24))[:, None]  # zero on average
    weights = np.where(free, 2.0**30, 1.0)
    options = {"n_components": 3, "unlabeled": -1, "unlabeled_weight": 0.0}
    values, vectors = oracle.descending(oracle.weighted_matrix(x, y, weights, ~free, 0.0))
    slce = in_batches(SLCE(**options), lambda rows: x[rows], y, 70, sample_weight=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of components that may be zero
        batches = slce.model_
    for model in (batches, slce_xp.fit(x, y, sample_weight=weights, **options)):
        low, high = model.n_positive_bounds
        assert low <= int((values[:3] > model.zero_level).sum()) <= high
        np.testing.assert_allclose(model.eigenvalues, values[:3], atol=model.zero_level)
        for j, bound in enumerate(model.angle_bounds, 1):
            assert oracle.largest_angle(model.components[:j], vectors[:j]) <= bound
    assert model.angle_bound < 1e-4  # of all samples at once


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_batches_agree_with_the_oracle_on_every_library(xp, dtype, offset):
    if offset:
        spare_compiling(xp)
    held = xp.held((X + offset).astype(dtype))
    order = np.random.default_rng(0).permutation(len(Y))
    slce = in_batches(SLCE(), lambda rows: xp.array(held[rows]), Y, 70, order)
    double = np.asarray(held, np.float64)
    assert str(slce.components_.dtype).endswith(dtype)
    oracle.assert_leading(slce.model_, xp, oracle.matrix(double, CODES), dtype, 3)
    far = np.abs(double).max()
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(xp.numpy(slce.mean_), double.mean(axis=0), atol=4 * eps * far)
    assert xp.numpy(slce.transform(xp.array(held[:5]))).shape == (5, 3)


@pytest.mark.parametrize("size", [1, 7, 100, 299, 300])
def test_batches_of_any_size_and_order(size):
    reference = slce_xp.fit(X, Y)
    by_class = np.argsort(Y, kind="stable")  # most batches then hold one class only
    for order in (np.arange(len(Y)), np.arange(len(Y))[::-1], by_class):
        assert_same(in_batches(SLCE(), X.__getitem__, Y, size, order), reference, 1e-12)


@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_accuracy_far_from_the_origin(offset):
    far = X + offset  # the data themselves are rounded to 1e-7 at 1e9
    exact = far - far.mean(axis=0)
    reference = slce_xp.fit(exact, Y)
    slce = in_batches(SLCE(), far.__getitem__, Y, 23)
    angle = oracle.largest_angle(slce.components_, np.asarray(reference.components))
    assert angle < 1e-12 * max(1.0, offset * np.finfo(float).eps * 1e9)


def test_batches_with_distant_means():
    # A second moment about a common shift would lose the spread of these batches.
    rng = np.random.default_rng(3)
    far = X + 1e7 * np.repeat(rng.normal(size=(3, 12)), 100, axis=0)
    labels = np.repeat([0, 1, 2], 100)
    slce = in_batches(SLCE(), far.__getitem__, labels, 100)
    reference = slce_xp.fit(far, labels)
    assert oracle.largest_angle(slce.components_, np.asarray(reference.components)) < 1e-9


def test_float32_batches_are_accumulated_in_float64():
    # Thousands of terms of equal size: a float32 sum would drift.
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(20_000, 3)) + np.array([0.0, 1.0, 3.0])).astype(np.float32)
    y = rng.integers(0, 2, 20_000)
    x[:, 0] += 2 * y
    slce = in_batches(SLCE(), x.__getitem__, y, 10)
    reference = slce_xp.fit(x.astype(np.float64), y)
    # Within a fraction of one rounding of the scatter in float32.
    scatter = float(np.square(x - x.mean(axis=0), dtype=np.float64).sum())
    bound = 0.1 * np.finfo(np.float32).eps * scatter
    np.testing.assert_allclose(slce.eigenvalues_, reference.eigenvalues, rtol=0, atol=bound)
    assert slce.components_.dtype == np.float32


def test_weights_and_samples_without_a_label():
    rng = np.random.default_rng(1)
    weights = rng.gamma(1.0, size=len(Y))
    weights[::9] = 0.0
    y = np.where(rng.random(len(Y)) < 0.3, "?", Y)
    y[:40] = "?"  # a batch without labels
    options = {"unlabeled": "?", "unlabeled_weight": 0.4, "class_weight": {"bee": 3.0}}
    reference = slce_xp.fit(X, y, sample_weight=weights, **options)
    slce = in_batches(SLCE(**options), X.__getitem__, y, 40, sample_weight=weights)
    assert_same(slce, reference, 1e-11)
    assert slce.model_.n_unlabeled == reference.n_unlabeled
    np.testing.assert_allclose(slce.model_.weights, reference.weights, rtol=1e-12)


def test_single_samples_with_weights_of_zero_among_them():
    weights = np.random.default_rng(4).integers(0, 3, len(Y)).astype(float)
    weights[:2] = 0.0  # the first batches have zero weight
    slce = in_batches(SLCE(), X.__getitem__, Y, 1, sample_weight=weights)
    reference = slce_xp.fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(slce.components_, reference.components, atol=1e-11)
    assert slce.loss_ == pytest.approx(reference.loss, rel=1e-9)
    assert slce.n_samples_seen_ == (weights > 0).sum()


def test_sparse_batches():
    counts = scipy.sparse.random_array((300, 12), density=0.3, rng=2, format="csr")
    reference = slce_xp.fit(counts.toarray(), Y)
    assert_same(in_batches(SLCE(), counts.__getitem__, Y, 64), reference, 1e-12)


def test_null_space_and_components_beyond_the_positive_ones():
    flat = np.concatenate([X, X[:, :2] + X[:, 2:4]], axis=1)  # two directions without data
    slce = in_batches(SLCE(8), flat.__getitem__, Y, 50)
    with pytest.warns(UserWarning, match="only the first 3 lower the loss"):
        reference = slce_xp.fit(flat, Y, 8, solver="scatter")
    with pytest.warns(UserWarning, match="only the first 3 lower the loss"):
        assert slce.n_positive_ == reference.n_positive
    atol = reference.zero_level
    np.testing.assert_allclose(slce.eigenvalues_, reference.eigenvalues, atol=atol)
    # The directions of equal eigenvalues are arbitrary, and their span is not.
    for count in (3, 5, 8):  # two of them are zero
        angle = oracle.largest_angle(slce.components_[:count], reference.components[:count])
        assert angle < 1e-10


def test_positive_components_only():
    slce = in_batches(SLCE("positive"), X.__getitem__, Y, 50)
    assert slce.n_components_ == slce_xp.fit(X, Y, "positive").n_components


@pytest.mark.parametrize("name", ["mnist", "usps", "coil20"])
def test_real_data(data_folder, name):
    x, y = load_set(data_folder, name)
    x, y = x[:20_000].astype(np.float64), y[:20_000]
    k = slce_xp.fit(x, y, "positive").n_components
    reference = slce_xp.fit(x, y, k, solver="scatter")  # exact, as batches are
    slce = in_batches(SLCE(k), x.__getitem__, y, 1733)
    assert oracle.largest_angle(slce.components_, reference.components) < 1e-8


# ---------------------------------------------------------------- classes


def test_classes_are_discovered_and_sorted():
    slce = SLCE().partial_fit(X[CODES == 3], Y[CODES == 3])
    slce.partial_fit(X[CODES == 1], Y[CODES == 1])
    np.testing.assert_array_equal(slce.classes_, ["bee", "dog"])
    slce.partial_fit(X[CODES == 0], Y[CODES == 0])
    np.testing.assert_array_equal(slce.classes_, ["ant", "bee", "dog"])
    assert slce.components_.shape == (2, 12)


def test_labels_outside_given_classes_raise():
    slce = SLCE().partial_fit(X[CODES < 2], Y[CODES < 2], classes=["ant", "bee", "cat"])
    with pytest.raises(ValueError, match=r"classes must hold all labels of y.*'dog'"):
        slce.partial_fit(X, Y)
    assert slce.n_samples_seen_ == (CODES < 2).sum()  # nothing changed
    np.testing.assert_array_equal(slce.classes_, ["ant", "bee"])  # no sample, no centroid
    with pytest.raises(ValueError, match="classes must hold all labels"):
        SLCE().partial_fit(X, Y, classes=["ant"])


def test_not_fitted_until_two_classes_are_seen():
    slce = SLCE().partial_fit(X[CODES == 2], Y[CODES == 2])
    with pytest.raises(NotFittedError, match=r"two classes.*1 came so far.*more batches"):
        slce.transform(X)
    assert not hasattr(slce, "components_")
    slce.partial_fit(X[CODES == 1], Y[CODES == 1])
    assert slce.transform(X).shape == (300, 1)


def test_labels_of_another_kind_raise():
    slce = SLCE().partial_fit(X, np.array(Y, dtype=object))
    with pytest.raises(TypeError, match="labels of one kind in all batches"):
        slce.partial_fit(X, np.array(CODES.tolist(), dtype=object))
    with pytest.raises(TypeError, match="labels of one kind in all batches"):
        SLCE().partial_fit(X, Y).partial_fit(X, CODES)


def test_unlabelled_batch_does_not_fix_the_kind_of_labels():
    slce = SLCE(unlabeled="missing").partial_fit(X[:5], np.full(5, np.nan))
    slce.partial_fit(X[5:], CODES[5:])
    assert slce.classes_.dtype == CODES.dtype


# ---------------------------------------------------------------- pickle, resume, merge


def test_pickled_estimator_resumes():
    slce = SLCE()
    for start in range(0, 300, 60):
        slce = pickle.loads(pickle.dumps(slce))
        slce.partial_fit(X[start : start + 60], Y[start : start + 60])
    assert_same(slce, slce_xp.fit(X, Y), 1e-12)


def test_merge_in_any_order_leaves_inputs_unchanged():
    jobs = [SLCE().partial_fit(X[i::5] + 0.0, Y[i::5]) for i in range(5)]
    before = jobs[3].statistics_.moments.second.copy()
    left = SLCE().partial_fit(X[0::5], Y[0::5])
    for job in jobs[1:]:
        left.merge(job)
    right = jobs[4].merge(jobs[2]).merge(jobs[0].merge(jobs[1]).merge(jobs[3]))
    reference = slce_xp.fit(X, Y)
    assert_same(left, reference, 1e-12)
    assert_same(right, reference, 1e-12)
    np.testing.assert_array_equal(jobs[3].statistics_.moments.second, before)
    assert jobs[3].n_samples_seen_ == 60
    assert left.n_samples_seen_ == 300


def test_merge_of_different_classes():
    one = SLCE().partial_fit(X[CODES < 2], Y[CODES < 2])
    other = SLCE().partial_fit(X[CODES >= 2], Y[CODES >= 2])
    assert_same(one.merge(other), slce_xp.fit(X, Y), 1e-12)


def test_invalid_merge_raises_with_the_reason():
    batches = SLCE().partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"other must be an SLCE that has seen batches.*fit\(\)"):
        batches.merge(SLCE().fit(X, Y))
    with pytest.raises(ValueError, match="the estimator must be an SLCE that has seen batches"):
        SLCE().fit(X, Y).merge(batches)
    with pytest.raises(ValueError, match="same features in all batches; got 12 and 5"):
        batches.merge(SLCE().partial_fit(X[:, :5], Y))
    with pytest.raises(ValueError, match="unlabeled_weight must be the same"):
        batches.merge(SLCE(unlabeled_weight=0.5).partial_fit(X, Y))
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="the other's X must be where the model is"):
        batches.merge(SLCE().partial_fit(torch.asarray(X), Y))


def test_batches_are_bitwise_reproducible():
    one, other = (in_batches(SLCE(), X.__getitem__, Y, 37) for _ in range(2))
    assert one.components_.tobytes() == other.components_.tobytes()


# ---------------------------------------------------------------- an estimator like any other


def test_solve_is_lazy_and_cached(monkeypatch):
    calls = []
    solve = slce_xp._estimator.solve
    monkeypatch.setattr(slce_xp._estimator, "solve", lambda *a: calls.append(1) or solve(*a))
    slce = in_batches(SLCE(), X.__getitem__, Y, 30)
    assert not calls
    slce.transform(X)
    slce.components_, slce.eigenvalues_, slce.model_, slce.n_iter_  # noqa: B018
    assert len(calls) == 1
    slce.partial_fit(X, Y)
    assert slce.n_samples_seen_ == 600
    assert len(slce.components_) == 3
    assert len(calls) == 2


def test_fit_and_clone_discard_batches():
    slce = SLCE().partial_fit(X + 5.0, Y).fit(X, Y)
    assert_same(slce, slce_xp.fit(X, Y), 1e-15)
    assert not hasattr(slce, "statistics_")
    assert not hasattr(slce, "n_samples_seen_")
    assert_same(slce.partial_fit(X, Y), slce_xp.fit(X, Y), 1e-12)
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(slce))
    with pytest.raises(AttributeError, match="no attribute 'no_such_thing'"):
        slce.no_such_thing  # noqa: B018


def test_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=[f"gene {i}" for i in range(12)])
    slce = SLCE().set_output(transform="pandas").partial_fit(frame[:150], Y[:150])
    slce.partial_fit(frame[150:], Y[150:])
    assert list(slce.transform(frame).columns) == ["slce0", "slce1", "slce2"]
    assert list(slce.model_.feature_names) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        slce.partial_fit(frame[frame.columns[::-1]], Y)


def test_batch_of_another_width_raises_and_changes_nothing():
    slce = SLCE().partial_fit(X, Y)
    with pytest.raises(ValueError, match="5 features, but SLCE is expecting 12"):
        slce.partial_fit(X[:, :5], Y)
    broken = X.copy()
    broken[7, 3] = np.nan
    with pytest.raises(ValueError, match="found NaN at row 7, column 3"):
        slce.partial_fit(broken, Y)
    assert_same(slce, slce_xp.fit(X, Y), 1e-12)


def test_solve_on_another_backend_returns_to_the_first():
    pytest.importorskip("torch")
    slce = in_batches(SLCE(backend="torch"), X.__getitem__, Y, 80)
    assert type(slce.components_) is np.ndarray
    assert type(slce.statistics_.moments.sums).__module__.startswith("torch")
    assert_same(pickle.loads(pickle.dumps(slce)), slce_xp.fit(X, Y), 1e-12)


def test_too_little_memory_raises_before_any_work():
    broken = np.full((50, 3000), np.nan)  # reading a value would raise
    with pytest.raises(MemoryError, match=r"d × d matrices.*144 MB for d = 3000.*mmap_mode"):
        SLCE(max_memory="100MB").partial_fit(broken, np.arange(50) % 2)
    with pytest.raises(MemoryError, match=r"d × d matrices.*scatter"):
        SLCE(max_memory="200MB").partial_fit(broken, np.arange(50) % 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batches_and_solve_stay_within_max_memory(dtype):
    d, codes = 400, np.arange(150) % 3
    rows = np.random.default_rng(0).standard_normal((150, d)).astype(dtype)
    allowed = 10**6
    while True:  # the smallest limit that is accepted
        try:
            SLCE(max_memory=allowed).partial_fit(rows, codes)
            break
        except MemoryError:
            allowed += allowed // 20
    tracemalloc.start()
    try:
        slce = SLCE(max_memory=allowed)
        for _ in range(3):
            slce.partial_fit(rows, codes)
        slce.transform(rows[:1])
        assert tracemalloc.get_traced_memory()[1] <= allowed
    finally:
        tracemalloc.stop()


def test_balanced_weights_raise_with_the_reason():
    with pytest.raises(
        ValueError, match=r"class_weight must be None or a dict.*after the last one"
    ):
        SLCE(class_weight="balanced").partial_fit(X, Y)


def test_weights_of_unknown_classes_raise_if_all_are_known():
    weights = {"ant": 2.0, "Dog": 3.0}
    with pytest.raises(ValueError, match=r"class_weight must .*'Dog'.*'dog'"):
        SLCE(class_weight=weights).partial_fit(X, Y, classes=["ant", "bee", "cat", "dog"])
    late = SLCE(class_weight={"dog": 3.0})
    late.partial_fit(X[Y == "ant"], Y[Y == "ant"], classes=["ant", "bee", "cat", "dog"])


def test_weights_of_classes_that_no_batch_had_are_reported():
    estimator = SLCE(class_weight={"ant": 2.0, "Dog": 3.0}).partial_fit(X, Y)
    with pytest.warns(UserWarning, match=r"class_weight has keys that .*\['Dog'\].*'dog'"):
        components = estimator.components_
    expected = slce_xp.fit(X, Y, class_weight={"ant": 2.0})
    np.testing.assert_allclose(components, expected.components, atol=1e-12)


def test_bad_class_weight_raises_before_its_class_is_seen():
    ants = Y == "ant"
    with pytest.raises(ValueError, match=r"class_weight must give labels"):
        SLCE(class_weight={"bee": -1.0}).partial_fit(X[ants], Y[ants])


@pytest.mark.parametrize("units", [(1.0, 1e-320), (1e-300, 1e300), (1e-250, 1.0, 1e100)])
def test_weights_of_classes_that_would_vanish_raise(units):
    estimators = [
        SLCE().partial_fit(X[rows], Y[rows], sample_weight=np.full(len(rows), unit))
        for rows, unit in zip(np.array_split(np.argsort(CODES), len(units)), units, strict=True)
    ]
    for other in estimators[1:-1]:
        estimators[0].merge(other)
    with pytest.raises(ValueError, match=r"^sample_weight .* must not differ .*float64"):
        estimators[0].merge(estimators[-1])


@pytest.mark.parametrize("units", [(1e200,), (1e-200,), (1e200, 1.0), (1.0, 1e-250)])
def test_weights_of_batches_may_differ_as_long_as_none_vanishes(units):
    estimator, weights = SLCE(), np.empty(len(X))
    for rows, unit in zip(np.array_split(np.argsort(CODES), len(units)), units, strict=True):
        weights[rows] = unit
        estimator.partial_fit(X[rows], Y[rows], sample_weight=weights[rows])
    expected = slce_xp.fit(X, Y, sample_weight=weights, solver="scatter")
    np.testing.assert_allclose(estimator.components_, expected.components, atol=1e-9)
    np.testing.assert_allclose(estimator.eigenvalues_, expected.eigenvalues, rtol=1e-9)


def test_no_host_read_depends_on_the_size_of_a_batch(xp):
    if xp.books is None:
        pytest.skip("no books are kept of reads")
    slce = SLCE().partial_fit(xp.array(X[:100]), Y[:100])
    for size in (20, 180):
        with metered(xp) as found:
            slce.partial_fit(xp.array(X[:size]), Y[:size])
        # How far X lies from the origin, and that its sums are finite.
        assert found.reads == 2


def test_pipeline_of_batches():
    scaler = StandardScaler().fit(X)
    slce = in_batches(SLCE(2), lambda rows: scaler.transform(X[rows]), Y, 90)
    assert make_pipeline(scaler, slce).transform(X).shape == (300, 2)


# ---------------------------------------------------------------- labels of other kinds


@pytest.mark.parametrize(
    "kinds", [(int, str), (str, int), (bool, str), ("S2", str), (int, "m8[s]")]
)
def test_labels_of_two_kinds_raise_instead_of_becoming_text(kinds):
    # As text, "10" sorts before "2".
    labels = np.array([2, 10])[CODES % 2]
    slce = SLCE().partial_fit(X[:100], labels[:100].astype(kinds[0]))
    before = pickle.dumps(slce)
    with pytest.raises(TypeError, match="labels of one kind in all batches"):
        slce.partial_fit(X[100:], labels[100:].astype(kinds[1]))
    assert pickle.dumps(slce) == before


@pytest.mark.parametrize("kind", [int, str, object, "M8[D]"])
@pytest.mark.parametrize("last", [False, True])
def test_batch_of_missing_labels_does_not_fix_their_kind(kind, last):
    labels = CODES.astype(kind)
    nothing = np.full(100, np.nan)
    batches = [(X[:100], nothing), (X[100:], labels[100:])]
    slce = SLCE(unlabeled="missing")
    for batch in reversed(batches) if last else batches:
        slce.partial_fit(*batch)
    marked = slce_xp.fit(X, np.where(np.arange(300) < 100, -1, CODES), unlabeled=-1)
    np.testing.assert_array_equal(slce.classes_, np.unique(labels))
    assert slce.classes_.dtype == labels.dtype
    np.testing.assert_allclose(slce.eigenvalues_, marked.eigenvalues, rtol=1e-10)
    np.testing.assert_allclose(slce.centroids_, marked.centroids, atol=1e-12)


def test_fit_resets_n_samples_seen():
    slce = SLCE().partial_fit(X[:100], Y[:100]).fit(X, Y)
    assert not hasattr(slce, "n_samples_seen_")


def test_merge_keeps_fixed_classes():
    closed = SLCE().partial_fit(X[CODES < 2], Y[CODES < 2], classes=["ant", "bee"])
    with pytest.raises(ValueError, match=r"classes must hold all labels of y.*'cat'"):
        SLCE().partial_fit(X, Y).merge(closed)
    with pytest.raises(ValueError, match=r"classes must hold all labels of y.*'cat'"):
        closed.merge(SLCE().partial_fit(X, Y))
    SLCE().partial_fit(X[CODES < 2], Y[CODES < 2]).merge(closed)


def test_merge_of_different_features_raises():
    frame = pd.DataFrame(X, columns=[f"gene {i}" for i in range(12)])
    one, other = SLCE().partial_fit(frame, Y), SLCE().partial_fit(frame[frame.columns[::-1]], Y)
    with pytest.raises(ValueError, match="same features; its feature names, or their order"):
        one.merge(other)


def test_bounds_count_the_digits_that_a_batch_loses_of_the_mean():
    """λ = 0: the first batch is summed far from its unlabelled samples, which have the weight."""
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((40, 6)), np.arange(40) % 3 - 1  # -1: without a label
    X[y == 1] += 5.0
    weights = np.ones(40)
    far = np.flatnonzero(y == 0)[:1]
    X[far], weights[far] = 1e10, 1e-22
    options = {"unlabeled": -1, "unlabeled_weight": 0.0, "n_components": 1}
    others = np.setdiff1d(np.arange(40), [*far, *np.flatnonzero(y == -1)])
    first = np.concatenate([far, np.flatnonzero(y == -1)])
    estimator = SLCE(**options)
    estimator.partial_fit(X[first], y[first], sample_weight=weights[first])
    estimator.partial_fit(X[others], y[others], sample_weight=weights[others])
    _, vectors = oracle.descending(oracle.weighted_matrix(X, y, weights, y >= 0, 0.0))
    angle = oracle.largest_angle(estimator.components_, vectors[:1])
    assert angle <= estimator.model_.angle_bound


@pytest.mark.filterwarnings("ignore:column 0 carries 100 %", "ignore:n_components=2 was asked for")
@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e4), ("float64", 1e9)])
def test_eigenvalue_that_is_lost_in_the_sums_counts_as_zero(dtype, size):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 20)) + 3 * rng.normal(size=(3, 20))[y]
    X[:, 0] += size * (y == 0)
    X = X.astype(dtype)
    model = slce_xp.SLCE(2).partial_fit(X, y).model_
    count = 1 if dtype == "float64" else 2  # sums are float64 in either case
    values, vectors = oracle.eigenpairs(X, y)
    assert int((values > model.zero_level).sum()) == count
    assert model.n_positive_bounds == (count, count)
    assert np.isfinite(model.angle_bound) == (count == 2)
    for j, bound in enumerate(model.angle_bounds, 1):
        assert oracle.largest_angle(model.components[:j], vectors[:j]) <= bound
    assert model.angle_bounds[0] < 1e-6
