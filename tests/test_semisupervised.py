"""Samples without a label: M = 2·S_b − S_t(labelled) + λ·S_t(unlabelled), about the mean of all."""

import datetime

import numpy as np
import oracle
import pandas as pd
import pytest
from conftest import make_backend, spare_compiling

import slce_xp

pl = pytest.importorskip("polars", reason="labels and tables of Polars are tested here, too")

FORMS = ["scatter", "gram", "krylov"]


def partly_labelled(n, d, n_classes, seed, share=0.4):
    """Blobs of which a share has lost its label, −1; every class keeps a sample."""
    X, y = oracle.blobs(n, d, n_classes, seed=seed)
    rng = np.random.default_rng(seed)
    first = np.unique(y, return_index=True)[1]
    lost = np.setdiff1d(np.flatnonzero(rng.random(n) < share), first)
    y[lost] = -1
    # Shifted against the labelled ones, so that the mean of all samples differs.
    X[lost] += 0.5 * rng.standard_normal(d) / np.arange(1, d + 1)
    return X, y


PROBLEMS = {
    "tall": partly_labelled(120, 9, 4, seed=71),
    "wide": partly_labelled(40, 120, 3, seed=72),
    "many classes": partly_labelled(400, 12, 90, seed=73),
}
X, labels = PROBLEMS["tall"]
KNOWN = labels >= 0


def assert_same(model, other, tolerance=1e-9):
    np.testing.assert_array_equal(model.classes, other.classes)
    np.testing.assert_allclose(model.components, other.components, atol=tolerance)
    np.testing.assert_allclose(model.eigenvalues, other.eigenvalues, rtol=tolerance)
    np.testing.assert_allclose(model.mean, other.mean, atol=tolerance)


# ---------------------------------------------------------------- against the oracle


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", FORMS)
def test_forms_and_backends_agree_with_the_oracle(xp, dtype, solver, problem):
    if problem != "wide" or dtype == "float32":
        spare_compiling(xp)
    X, y = PROBLEMS[problem]
    X = X.astype(dtype)
    k = min(y.max(), X.shape[1])
    options = {"unlabeled": -1, "unlabeled_weight": 0.5, "solver": solver, "tol": 1e-12}
    model = slce_xp.fit(xp.array(X), y, **options)
    M = oracle.weighted_matrix(X, y, labelled=y >= 0, unlabeled_weight=0.5)
    oracle.assert_leading(model, xp, M, dtype, k)
    vectors = oracle.descending(M)[1]
    # The Gram form needs more features than samples.
    if solver != "gram" or problem == "wide":
        assert model.solver == solver
    for j, bound in enumerate(model.angle_bounds, 1):
        if np.isfinite(bound):  # the oracle has rounding of its own
            angle = oracle.largest_angle(xp.numpy(model.components)[:j], vectors[:j])
            assert angle <= bound + 1e-14


@pytest.mark.parametrize("unlabeled_weight", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("solver", FORMS)
def test_any_unlabeled_weight(dtype, solver, unlabeled_weight):
    data = X.astype(dtype)
    options = {"unlabeled": -1, "unlabeled_weight": unlabeled_weight}
    model = slce_xp.fit(data, labels, solver=solver, **options)
    M = oracle.weighted_matrix(data, labels, None, KNOWN, unlabeled_weight)
    with make_backend("numpy") as backend:
        oracle.assert_leading(model, backend, M, dtype, 3)


@pytest.mark.parametrize("solver", FORMS)
def test_weight_is_one_by_default(solver):
    model = slce_xp.fit(X, labels, unlabeled=-1, solver=solver)
    assert_same(model, slce_xp.fit(X, labels, unlabeled=-1, unlabeled_weight=1, solver=solver))


@pytest.mark.parametrize("solver", FORMS)
def test_weighted_samples(xp, solver):
    spare_compiling(xp)
    weights = np.random.default_rng(74).gamma(1.0, size=len(X))
    weights[::7] = 0.0
    options = {"unlabeled": -1, "unlabeled_weight": 2.0, "sample_weight": weights}
    model = slce_xp.fit(xp.array(X), labels, solver=solver, **options)
    M = oracle.weighted_matrix(xp.held(X), labels, weights, KNOWN, 2.0)
    oracle.assert_leading(model, xp, M, xp.tolerance("float64", "float32"), 3)


@pytest.mark.parametrize("solver", FORMS)
def test_far_from_the_origin(xp, solver):
    spare_compiling(xp)
    far = X / X.std() + 1e3
    model = slce_xp.fit(xp.array(far), labels, unlabeled=-1, solver=solver)
    _, vectors = oracle.descending(oracle.weighted_matrix(xp.held(far), labels, labelled=KNOWN))
    angle = oracle.largest_angle(xp.numpy(model.components), vectors[:3])
    assert angle < xp.tolerance(1e-7, 3e-5)


@pytest.mark.parametrize("solver", FORMS)
def test_model_attributes(xp, solver):
    spare_compiling(xp)
    model = slce_xp.fit(xp.array(X), xp.array(labels), unlabeled=-1, solver=solver)
    held = xp.held(X).astype(np.float64)
    close = {"atol": xp.tolerance(1e-12, 1e-5)}
    np.testing.assert_array_equal(model.classes, [0, 1, 2, 3])
    np.testing.assert_array_equal(xp.numpy(model.counts), np.bincount(labels[KNOWN]))
    np.testing.assert_allclose(xp.numpy(model.mean), held.mean(axis=0), **close)
    centroids = np.stack([held[labels == j].mean(axis=0) for j in range(4)])
    np.testing.assert_allclose(xp.numpy(model.centroids), centroids, **close)
    Z = (held - held.mean(axis=0)) @ xp.numpy(model.components).T
    np.testing.assert_allclose(
        xp.numpy(model.transform(xp.array(X))), Z, atol=xp.tolerance(1e-10, 1e-4)
    )


# ---------------------------------------------------------------- what the weight means


@pytest.mark.parametrize("solver", FORMS)
def test_weight_zero_equals_the_supervised_fit_if_means_agree(solver):
    # Unlabelled samples in pairs about the mean of the labelled ones do not move it.
    centre = X[KNOWN].mean(axis=0)
    away = X[~KNOWN] - centre
    data = np.concatenate([X[KNOWN], centre + away, centre - away])
    y = np.concatenate([labels[KNOWN], np.full(2 * len(away), -1)])
    model = slce_xp.fit(data, y, unlabeled=-1, unlabeled_weight=0.0, solver=solver)
    assert_same(model, slce_xp.fit(X[KNOWN], labels[KNOWN], solver=solver))


@pytest.mark.parametrize("solver", FORMS)
def test_large_weight_approaches_pca_of_unlabelled_samples(solver):
    model = slce_xp.fit(X, labels, unlabeled=-1, unlabeled_weight=1e9, solver=solver)
    centred = X[~KNOWN] - X.mean(axis=0)
    _, axes = oracle.descending(centred.T @ centred)
    assert oracle.largest_angle(model.components, axes[:3]) < 1e-6
    share = model.eigenvalues / 1e9
    np.testing.assert_allclose(share, np.sum((centred @ axes[:3].T) ** 2, axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    ("unlabeled", "as_kind"),
    [(-1, int), (2.5, int), (-1, float), ("Unknown", str), ("a", object), (-1, object), (1, bool)],
)
def test_unused_mark_warns_and_changes_nothing(unlabeled, as_kind):
    y = labels[KNOWN].astype(str).astype(object) if as_kind is object else labels[KNOWN]
    y = y > 1 if as_kind is bool else y
    y = y.astype(object if as_kind is bool else as_kind)
    with pytest.warns(UserWarning, match=f"^unlabeled={unlabeled!r} marks no sample"):
        model = slce_xp.fit(X[KNOWN], y, unlabeled=unlabeled, unlabeled_weight=7.0)
    plain = slce_xp.fit(X[KNOWN], y)
    assert_same(model, plain)
    assert model.loss == pytest.approx(plain.loss, abs=1e-9 * plain.total_loss)


@pytest.mark.parametrize("unlabeled", ["missing", np.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_missing_labels_need_not_occur(unlabeled):
    model = slce_xp.fit(X[KNOWN], labels[KNOWN], unlabeled=unlabeled, unlabeled_weight=7.0)
    assert_same(model, slce_xp.fit(X[KNOWN], labels[KNOWN]))


def test_unused_mark_warns_after_all_batches_only():
    silent = slce_xp.SLCE(unlabeled=-1).partial_fit(X[KNOWN], labels[KNOWN])
    silent.partial_fit(X[~KNOWN], labels[~KNOWN])
    assert_same(silent.model_, slce_xp.fit(X, labels, unlabeled=-1))
    other = slce_xp.SLCE(unlabeled=-9).partial_fit(X, labels)
    with pytest.warns(UserWarning, match="^unlabeled=-9 marks no sample"):
        assert len(other.classes_) == 5


DATES = np.datetime64("2020-01-01") + labels.clip(-1)


@pytest.mark.parametrize(
    ("y", "unlabeled"),
    [
        (labels, ""),
        (labels, "-1"),
        (labels, True),
        (labels, b"-1"),
        (labels, (-1,)),
        (labels.astype(str), -1),
        (labels.astype(str), b"-1"),
        (labels.astype(bytes), "-1"),
        (labels > 1, 1),
        (labels > 1, -1),
        (DATES, "2019-12-31"),
        (DATES, -1),
        (DATES - DATES[0], -1),
    ],
)
@pytest.mark.parametrize("in_batches", [False, True])
def test_mark_of_another_kind_than_the_labels_raises(y, unlabeled, in_batches):
    estimator = slce_xp.SLCE(unlabeled=unlabeled)
    fit = estimator.partial_fit if in_batches else estimator.fit
    with pytest.raises(TypeError, match=r"^unlabeled must be of the kind") as caught:
        fit(X, y)
    assert caught.value.parameter == "unlabeled"


def test_booleans_are_not_the_numbers_that_they_equal():
    with pytest.warns(UserWarning, match="^unlabeled=True marks no sample"):
        model = slce_xp.fit(X[KNOWN], labels[KNOWN].astype(object), unlabeled=True)
    assert model.classes.tolist() == [0, 1, 2, 3]


def test_no_label_is_special_by_default():
    y = np.where(X[:, 0] > 0, 1, -1)
    model = slce_xp.fit(X, y)
    np.testing.assert_array_equal(model.classes, [-1, 1])
    np.testing.assert_array_equal(model.counts, [(y < 0).sum(), (y > 0).sum()])


@pytest.mark.parametrize("solver", FORMS)
def test_unlabelled_rows_of_zero_weight_are_dropped(solver):
    model = slce_xp.fit(
        X, labels, sample_weight=KNOWN, unlabeled=-1, unlabeled_weight=5.0, solver=solver
    )
    assert_same(model, slce_xp.fit(X[KNOWN], labels[KNOWN], solver=solver))


def test_classes_are_balanced_among_the_labelled():
    model = slce_xp.fit(X, labels, unlabeled=-1, class_weight="balanced")
    weights = np.ones(len(X))
    weights[KNOWN] = (KNOWN.sum() / (4 * np.bincount(labels[KNOWN])))[labels[KNOWN]]
    M = oracle.weighted_matrix(X, labels, weights, KNOWN)
    with make_backend("numpy") as backend:
        oracle.assert_leading(model, backend, M, "float64", 3)


def test_weight_for_the_mark_itself_raises():
    with pytest.raises(ValueError, match=r"class_weight must .*-1"):
        slce_xp.fit(X, labels, unlabeled=-1, class_weight={-1: 2.0})


@pytest.mark.parametrize("solver", FORMS)
def test_loss_counts_unlabelled_samples_as_pca_does(solver):
    """Labelled samples reconstruct their centroid, unlabelled ones themselves, with weight λ."""
    model = slce_xp.fit(X, labels, unlabeled=-1, unlabeled_weight=0.5, solver=solver)
    centred = X - X.mean(axis=0)
    targets = centred.copy()
    for j in range(4):
        targets[labels == j] = centred[labels == j].mean(axis=0)
    weights = np.where(KNOWN, 1.0, 0.5)
    A = model.components
    total = weights @ (targets**2).sum(axis=1)
    loss = weights @ ((targets - centred @ A.T @ A) ** 2).sum(axis=1)
    assert model.total_loss == pytest.approx(total, rel=1e-10)
    assert model.loss == pytest.approx(loss, abs=1e-10 * total)


# ---------------------------------------------------------------- how many components


@pytest.mark.parametrize("solver", FORMS)
def test_more_eigenvalues_than_classes_may_be_positive(xp, solver):
    spare_compiling(xp)
    M = oracle.weighted_matrix(xp.held(X), labels, labelled=KNOWN, unlabeled_weight=30.0)
    assert np.linalg.eigvalsh(M)[-6] > 0
    model = slce_xp.fit(xp.array(X), labels, 6, unlabeled=-1, unlabeled_weight=30.0, solver=solver)
    assert model.n_positive == 6  # and no warning, which would be an error here
    oracle.assert_leading(model, xp, M, xp.tolerance("float64", "float32"), 6)


@pytest.mark.parametrize("solver", FORMS)
def test_default_is_one_less_than_the_classes(solver):
    model = slce_xp.fit(X, labels, unlabeled=-1, unlabeled_weight=30.0, solver=solver)
    assert model.n_components == 3


@pytest.mark.parametrize("unlabeled_weight", [0.0, 0.3, 30.0])
@pytest.mark.parametrize("solver", FORMS)
def test_positive_components_are_positive(solver, unlabeled_weight):
    options = {"unlabeled": -1, "unlabeled_weight": unlabeled_weight, "solver": solver}
    model = slce_xp.fit(X, labels, "positive", **options)
    M = oracle.weighted_matrix(X, labels, None, KNOWN, unlabeled_weight)
    expected, _ = oracle.descending(M)
    assert 0 < model.n_components == model.n_positive == (expected > 1e-9 * expected[0]).sum()
    assert (model.eigenvalues > 0).all()
    np.testing.assert_allclose(
        model.eigenvalues, expected[: model.n_components], atol=1e-9 * expected[0]
    )


@pytest.mark.parametrize("solver", FORMS)
def test_all_components_in_their_order(solver):
    X, y = PROBLEMS["wide"]
    X = X[:, :50]
    with pytest.warns(UserWarning, match="lower the loss"):
        model = slce_xp.fit(X, y, 50, unlabeled=-1, unlabeled_weight=0.5, solver=solver)
    expected, _ = oracle.descending(oracle.weighted_matrix(X, y, None, y >= 0, 0.5))
    np.testing.assert_allclose(model.eigenvalues, expected, atol=1e-11 * expected[0])
    zeros = np.abs(model.eigenvalues) <= model.zero_level
    assert zeros.sum() == 50 - (len(X) - 1)
    np.testing.assert_allclose(model.components @ model.components.T, np.eye(50), atol=1e-12)


# ---------------------------------------------------------------- marks


NAMES = np.array(["ant", "bee", "cat", "dog", "?"])[labels]  # −1 takes the last


def with_missing(mark):
    values = NAMES.astype(object)
    values[~KNOWN] = mark
    return values


MISSING = {
    "None": lambda: with_missing(None),
    "NaN among strings": lambda: with_missing(np.nan),
    "NA": lambda: with_missing(pd.NA),
    "None in a list": lambda: with_missing(None).tolist(),
    "Series": lambda: pd.Series(with_missing(None), index=np.arange(len(X))[::-1]),
    "pandas strings": lambda: pd.Series(with_missing(None), dtype="string"),
    "categorical": lambda: pd.Series(with_missing(None), dtype="category"),
    "Categorical": lambda: pd.Categorical(with_missing(None)),
    "polars": lambda: pl.Series(with_missing(None).tolist()),
    "NaN": lambda: np.where(KNOWN, labels, np.nan),
    "float32": lambda: np.where(KNOWN, labels, np.nan).astype(np.float32),
    "nullable integers": lambda: pd.Series(pd.array(labels, dtype="Int64")).mask(~KNOWN),
    "NaT": lambda: np.where(
        KNOWN, np.datetime64("2020-01-01") + labels.clip(0), np.datetime64("NaT", "D")
    ),
    "dates in a Series": lambda: (
        pd.Series(np.where(KNOWN, np.datetime64("2020-01-01", "ns"), np.datetime64("NaT", "ns")))
        + pd.to_timedelta(labels.clip(0), unit="D")
    ),
    "date objects": lambda: [
        datetime.date(2020, 1, 1 + code) if code >= 0 else None for code in labels.tolist()
    ],
}


@pytest.mark.parametrize("case", MISSING)
def test_missing_labels_mark_unlabelled_samples(case):
    model = slce_xp.fit(X, MISSING[case](), unlabeled="missing")
    expected = slce_xp.fit(X, labels, unlabeled=-1)
    assert len(model.classes) == 4
    np.testing.assert_array_equal(model.counts, expected.counts)
    np.testing.assert_allclose(model.components, expected.components, atol=1e-12)


@pytest.mark.parametrize("case", ["None", "NaN", "NaT", "categorical", "nullable integers"])
def test_missing_labels_raise_by_default(case):
    with pytest.raises(ValueError, match=r"y must have a label for every sample.*'missing'"):
        slce_xp.fit(X, MISSING[case]())


@pytest.mark.parametrize(
    ("y", "unlabeled"),
    [
        (NAMES, "?"),
        (NAMES.astype(object), "?"),
        (NAMES.tolist(), "?"),
        (pd.Series(NAMES, dtype="category"), "?"),
        (labels.astype(float), -1),
        (labels.astype(np.int8), -1),
        (labels, np.int64(-1)),
        (labels, -1.0),
        (np.where(KNOWN, labels, 99), 99),
        (labels, np.array(-1)),
        (labels.astype(bytes), b"-1"),
        (np.array([0, 1, 2, 3, "?"], dtype=object)[labels], "?"),
        (np.array(["a", "b", "c", "d", -1], dtype=object)[labels], -1),
        (np.where(KNOWN, labels, np.nan), np.nan),
        (pd.Series(pd.array(labels, dtype="Int64")).mask(~KNOWN), pd.NA),
        (DATES, np.datetime64("2019-12-31")),
        (DATES, datetime.date(2019, 12, 31)),
        (pd.Series(DATES), pd.Timestamp("2019-12-31")),
        (DATES - np.datetime64("2020-01-01"), datetime.timedelta(days=-1)),
    ],
)
def test_any_value_may_be_the_mark(y, unlabeled):
    model = slce_xp.fit(X, y, unlabeled=unlabeled)
    expected = slce_xp.fit(X, labels, unlabeled=-1)
    assert len(model.classes) == 4
    np.testing.assert_allclose(model.components, expected.components, atol=1e-12)


def test_class_named_missing_is_not_a_mark():
    # "missing" among strings asks for None and NaN, not for that word.
    words = np.where(labels == 0, "missing", NAMES)
    model = slce_xp.fit(X[KNOWN], words[KNOWN], unlabeled="missing")
    assert "missing" in model.classes
    assert len(model.classes) == 4


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "much", None, True, 1e16, 1e30, 1e300])
def test_bad_weights_of_the_unlabelled_raise(value):
    with pytest.raises((TypeError, ValueError), match=r"unlabeled_weight must .*; got"):
        slce_xp.fit(X, labels, unlabeled=-1, unlabeled_weight=value)


@pytest.mark.parametrize("kept", [0, 1])
def test_two_labelled_classes_are_needed(kept):
    y = np.where(labels < kept, labels, -1)
    with pytest.raises(ValueError, match="at least two classes"):
        slce_xp.fit(X, y, unlabeled=-1)


def test_missing_label_with_another_mark_raises():
    y = np.where(KNOWN, labels, -1.0)
    y[np.flatnonzero(KNOWN)[0]] = np.nan
    with pytest.raises(ValueError, match="y must have a label for every sample"):
        slce_xp.fit(X, y, unlabeled=-1)


# ---------------------------------------------------------------- the model in use


def test_save_and_load(tmp_path):
    model = slce_xp.fit(X, MISSING["None"](), unlabeled="missing", unlabeled_weight=2.0)
    model.save(tmp_path / "model.npz")
    opened = slce_xp.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(opened.transform(X), model.transform(X))
    assert opened.classes.tolist() == ["ant", "bee", "cat", "dog"]
    assert opened.loss == model.loss
    assert "4 classes" in str(opened)


def test_positive_components_of_wide_data_are_no_more_than_samples():
    """The null space, of 1 900 dimensions, is not computed."""
    X, y = oracle.blobs(100, 2000, 3, seed=4)
    y = np.where(np.arange(100) % 2, -1, y)
    model = slce_xp.fit(X, y, "positive", unlabeled=-1)
    assert model.plan.n_components == 100
    values, _ = np.linalg.eigh(oracle.weighted_matrix(X, y, np.ones(100), y >= 0, 1.0))
    positive = values[::-1][: model.n_positive]
    np.testing.assert_allclose(model.eigenvalues, positive, rtol=1e-9)
    assert model.n_positive == (values > 1e-9 * values[-1]).sum()
    assert model.plan.most_bytes < 20 * X.nbytes
