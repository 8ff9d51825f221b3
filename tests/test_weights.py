"""Weights of samples and classes, against a naive oracle and repeated rows."""

import numpy as np
import oracle
import pandas as pd
import pytest
from conftest import make_backend, spare_compiling
from sklearn.utils.class_weight import compute_sample_weight

import slce_xp

hypothesis = pytest.importorskip("hypothesis", reason="draws some of the data")
import hypothesis.extra.numpy as hnp  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

FORMS = ["scatter", "gram", "krylov"]


def weighted_problem(n, d, n_classes, seed, **options):
    X, y = oracle.blobs(n, d, n_classes, seed=seed, **options)
    weights = np.random.default_rng(seed).gamma(1.0, size=n)
    weights[::7] = 0.0  # absent rows, and of small classes all rows
    return X, y, weights


PROBLEMS = {
    "tall": weighted_problem(120, 9, 4, seed=61),
    "wide": weighted_problem(40, 120, 3, seed=62),
    "many classes": weighted_problem(400, 12, 90, seed=63),
}
X, labels, WEIGHTS = PROBLEMS["tall"]


def assert_same(backend, model, other, tolerance):
    """Two models that differ in rounding only."""
    np.testing.assert_array_equal(model.classes, other.classes)
    for name in ("components", "eigenvalues", "mean", "centroids"):
        one, two = (backend.numpy(getattr(m, name)) for m in (model, other))
        np.testing.assert_allclose(one, two, atol=tolerance * max(1.0, np.abs(two).max()))
    assert model.n_positive == other.n_positive
    assert model.total_loss == pytest.approx(other.total_loss, rel=tolerance)
    assert model.loss == pytest.approx(other.loss, abs=10 * tolerance * other.total_loss)


# ---------------------------------------------------------------- against the oracle


def test_weighted_oracle_is_the_paper_s_for_equal_weights():
    expected = oracle.matrix(X, labels)
    np.testing.assert_allclose(oracle.weighted_matrix(X, labels), expected, atol=1e-10)
    np.testing.assert_allclose(
        oracle.weighted_matrix(X, labels, np.ones(len(X))), expected, atol=1e-10
    )


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", FORMS)
def test_forms_and_backends_agree_with_the_oracle(xp, dtype, solver, problem):
    if problem != "wide" or dtype == "float32":
        spare_compiling(xp)
    X, y, weights = PROBLEMS[problem]
    X = X.astype(dtype)
    k = min(len(np.unique(y[weights > 0])) - 1, X.shape[1])
    model = slce_xp.fit(xp.array(X), y, sample_weight=weights, solver=solver)
    M = oracle.weighted_matrix(X, y, weights)
    oracle.assert_leading(model, xp, M, dtype, k)
    vectors = oracle.descending(M)[1]
    # The Gram form needs more features than samples.
    if solver != "gram" or problem == "wide":
        assert model.solver == solver
    for j, bound in enumerate(model.angle_bounds, 1):
        if np.isfinite(bound):  # the oracle has rounding of its own
            angle = oracle.largest_angle(xp.numpy(model.components)[:j], vectors[:j])
            assert angle <= bound + 1e-14


@pytest.mark.parametrize("solver", FORMS)
def test_far_from_the_origin(xp, solver):
    spare_compiling(xp)
    far = X / X.std() + 1e3
    model = slce_xp.fit(xp.array(far), labels, sample_weight=WEIGHTS, solver=solver)
    _, vectors = oracle.descending(oracle.weighted_matrix(xp.held(far), labels, WEIGHTS))
    angle = oracle.largest_angle(xp.numpy(model.components), vectors[:3])
    assert angle < xp.tolerance(1e-7, 3e-5)


@pytest.mark.parametrize("solver", FORMS)
def test_model_attributes(xp, solver):
    spare_compiling(xp)
    model = slce_xp.fit(xp.array(X), labels, sample_weight=WEIGHTS, solver=solver)
    held = xp.held(X).astype(np.float64)
    close = {"atol": xp.tolerance(1e-12, 1e-5)}
    mean = np.average(held, axis=0, weights=WEIGHTS)
    np.testing.assert_allclose(xp.numpy(model.mean), mean, **close)
    centroids = [
        np.average(held[labels == j], axis=0, weights=WEIGHTS[labels == j]) for j in model.classes
    ]
    np.testing.assert_allclose(xp.numpy(model.centroids), centroids, **close)
    # Counts of samples, not weights: integers in every library.
    np.testing.assert_array_equal(xp.numpy(model.counts), np.bincount(labels[WEIGHTS > 0]))


@pytest.mark.parametrize("solver", FORMS)
def test_loss_is_a_weighted_sum_over_samples(xp, solver):
    spare_compiling(xp)
    model = slce_xp.fit(xp.array(X), labels, 2, sample_weight=WEIGHTS, solver=solver)
    held = xp.held(X).astype(np.float64)
    centred = held - np.average(held, axis=0, weights=WEIGHTS)
    C = np.empty_like(held)
    for j in range(4):
        C[labels == j] = np.average(centred[labels == j], axis=0, weights=WEIGHTS[labels == j])
    A = xp.numpy(model.components).astype(np.float64)
    loss = WEIGHTS @ ((C - centred @ A.T @ A) ** 2).sum(axis=1)
    total = WEIGHTS @ (C**2).sum(axis=1)
    assert model.total_loss == pytest.approx(total, rel=xp.tolerance(1e-12, 1e-5))
    assert model.loss == pytest.approx(loss, abs=xp.tolerance(1e-10, 1e-4) * total)


def test_bounds_are_of_the_weighted_scatter(xp, tmp_path):
    spare_compiling(xp)
    model = slce_xp.fit(xp.array(X), labels, sample_weight=WEIGHTS)
    _, between, _, _ = oracle.weighted_parts(xp.held(X), labels, WEIGHTS)
    expected, _ = oracle.descending(2 * between)
    bounds = xp.numpy(model.eigenvalue_bounds)
    np.testing.assert_allclose(bounds, expected[:3], rtol=xp.tolerance(1e-10, 1e-4))
    assert (xp.numpy(model.eigenvalues) <= bounds).all()
    model.save(tmp_path / "model.npz")
    opened = slce_xp.load(tmp_path / "model.npz")
    np.testing.assert_allclose(opened.eigenvalue_bounds, bounds, rtol=xp.tolerance(1e-10, 1e-4))
    assert opened.loss == pytest.approx(model.loss)


# ---------------------------------------------------------------- what a weight means


@pytest.mark.parametrize("solver", FORMS)
def test_integer_weights_equal_repeated_rows(xp, solver):
    spare_compiling(xp)
    times = np.random.default_rng(64).integers(0, 4, len(X))
    weighted = slce_xp.fit(xp.array(X), labels, sample_weight=times, solver=solver)
    repeated = slce_xp.fit(
        xp.array(np.repeat(X, times, axis=0)), np.repeat(labels, times), solver=solver
    )
    assert_same(xp, weighted, repeated, xp.tolerance(1e-9, 1e-4))


@pytest.mark.parametrize("solver", FORMS)
def test_zero_weight_equals_a_dropped_row(xp, solver):
    spare_compiling(xp)
    weights = np.where(np.arange(len(X)) % 3 == 1, 0.0, 1.0)
    weights[labels == 2] = 0.0  # a class that is absent altogether
    here = weights > 0
    weighted = slce_xp.fit(xp.array(X), labels, sample_weight=weights, solver=solver)
    absent = slce_xp.fit(xp.array(X[here]), labels[here], solver=solver)
    np.testing.assert_array_equal(weighted.classes, [0, 1, 3])
    np.testing.assert_array_equal(xp.numpy(weighted.counts), xp.numpy(absent.counts))
    assert weighted.n_components == 2
    assert_same(xp, weighted, absent, xp.tolerance(1e-9, 1e-4))


@pytest.mark.parametrize("solver", FORMS)
def test_equal_weights_equal_no_weights(xp, solver):
    spare_compiling(xp)
    plain = slce_xp.fit(xp.array(X), labels, solver=solver)
    ones = slce_xp.fit(xp.array(X), labels, sample_weight=np.ones(len(X)), solver=solver)
    assert_same(xp, ones, plain, xp.tolerance(1e-9, 1e-4))


@pytest.mark.parametrize("factor", [1e-6, 7.0, 1e9])
@pytest.mark.parametrize("solver", FORMS)
def test_common_factor_scales_eigenvalues_only(solver, factor, dtype):
    one, other = (
        slce_xp.fit(X.astype(dtype), labels, sample_weight=w, solver=solver)
        for w in (WEIGHTS, factor * WEIGHTS)
    )
    tolerance = {"float64": 1e-9, "float32": 1e-4}[dtype]
    np.testing.assert_allclose(other.components, one.components, atol=tolerance)
    np.testing.assert_allclose(other.eigenvalues, factor * one.eigenvalues, rtol=tolerance)
    np.testing.assert_allclose(other.mean, one.mean, atol=tolerance)


@pytest.mark.parametrize("solver", FORMS)
def test_class_of_one_heavy_sample(solver):
    y, weights = labels.copy(), WEIGHTS.copy()
    y[5], weights[5] = 9, 40.0
    model = slce_xp.fit(X, y, sample_weight=weights, solver=solver)
    with make_backend("numpy") as backend:
        M = oracle.weighted_matrix(X, y, weights)
        oracle.assert_leading(model, backend, M, "float64", 4)


@pytest.mark.parametrize("solver", FORMS)
def test_all_components_in_their_order(solver):
    X, y, weights = PROBLEMS["wide"]
    X = X[:, :50]
    with pytest.warns(UserWarning, match="lower the loss"):
        model = slce_xp.fit(X, y, 50, sample_weight=weights, solver=solver)
    expected, _ = oracle.descending(oracle.weighted_matrix(X, y, weights))
    np.testing.assert_allclose(model.eigenvalues, expected, atol=1e-11 * np.abs(expected).max())
    # Rows of zero weight span nothing: 34 samples leave 33 dimensions.
    zeros = np.abs(model.eigenvalues) <= model.zero_level
    assert zeros.sum() == 50 - ((weights > 0).sum() - 1)


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(
    times=hnp.arrays(np.int64, 24, elements=st.integers(0, 3)),
    seed=st.integers(0, 50),
    solver=st.sampled_from(FORMS),
)
def test_repetition_holds_for_any_counts(times, seed, solver):
    X, y = oracle.blobs(24, 6, 3, seed=seed)
    hypothesis.assume(len(np.unique(y[times > 0])) > 1)
    weighted = slce_xp.fit(X, y, sample_weight=times, solver=solver)
    repeated = slce_xp.fit(np.repeat(X, times, axis=0), np.repeat(y, times), solver=solver)
    atol = 1e-10 * max(1.0, repeated.total_loss)
    np.testing.assert_allclose(weighted.eigenvalues, repeated.eigenvalues, atol=atol)
    np.testing.assert_array_equal(weighted.classes, repeated.classes)


# ---------------------------------------------------------------- class_weight


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("solver", FORMS)
def test_balanced_gives_every_class_the_same_weight(xp, solver, weights):
    spare_compiling(xp)
    model = slce_xp.fit(
        xp.array(X), labels, sample_weight=weights, class_weight="balanced", solver=solver
    )
    base = np.ones(len(X)) if weights is None else weights
    total = np.bincount(labels, base)
    balanced = base * (base.sum() / (4 * total))[labels]
    np.testing.assert_allclose(np.bincount(labels, balanced), base.sum() / 4)
    expected = slce_xp.fit(xp.array(X), labels, sample_weight=balanced, solver=solver)
    assert_same(xp, model, expected, xp.tolerance(1e-9, 1e-4))


def test_balanced_is_scikit_learn_s():
    model = slce_xp.fit(X, labels, class_weight="balanced")
    expected = slce_xp.fit(X, labels, sample_weight=compute_sample_weight("balanced", labels))
    np.testing.assert_allclose(model.eigenvalues, expected.eigenvalues, rtol=1e-10)
    np.testing.assert_allclose(model.components, expected.components, atol=1e-9)
    np.testing.assert_array_equal(model.counts, np.bincount(labels))


def test_balanced_counts_only_classes_that_are_there():
    weights = np.where(labels == 2, 0.0, 1.0)
    model = slce_xp.fit(X, labels, sample_weight=weights, class_weight="balanced")
    expected = slce_xp.fit(X[labels != 2], labels[labels != 2], class_weight="balanced")
    np.testing.assert_allclose(model.eigenvalues, expected.eigenvalues, rtol=1e-10)


NAMES = np.array(["ant", "bee", "cat", "dog"])


@pytest.mark.parametrize(
    ("y", "class_weight"),
    [
        (NAMES[labels], {"bee": 5.0, "dog": 0.25}),
        (NAMES[labels].astype(object), {"bee": 5, "dog": 0.25}),
        (pd.Series(NAMES[labels], dtype="category"), {"bee": 5.0, "dog": np.float32(0.25)}),
        (labels, {1: 5.0, 3: 0.25}),
        (labels, {np.int64(1): 5.0, np.int64(3): 0.25}),
        (labels.astype(np.int8), {1: 5.0, 3: 0.25, 0: 1.0}),
    ],
    ids=["strings", "objects", "categorical", "integers", "NumPy's integers", "short integers"],
)
def test_weights_by_label_leave_the_others_at_one(y, class_weight):
    model = slce_xp.fit(X, y, class_weight=class_weight)
    weights = np.array([1.0, 5.0, 1.0, 0.25])[labels]
    with make_backend("numpy") as backend:
        oracle.assert_leading(
            model, backend, oracle.weighted_matrix(X, labels, weights), "float64", 3
        )


def test_dict_multiplies_sample_weights():
    model = slce_xp.fit(X, labels, sample_weight=WEIGHTS, class_weight={0: 3.0})
    expected = slce_xp.fit(X, labels, sample_weight=np.where(labels == 0, 3.0, 1.0) * WEIGHTS)
    np.testing.assert_allclose(model.eigenvalues, expected.eigenvalues, rtol=1e-10)


# ---------------------------------------------------------------- what comes in


def torch_weights():
    return pytest.importorskip("torch").asarray(WEIGHTS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: WEIGHTS.tolist(),
        lambda: tuple(WEIGHTS),
        lambda: pd.Series(WEIGHTS, index=np.arange(len(WEIGHTS))[::-1]),
        lambda: WEIGHTS.astype(np.longdouble),
        lambda: WEIGHTS[::-1].copy()[::-1],
        torch_weights,
    ],
    ids=["list", "tuple", "Series", "long double", "negative stride", "torch"],
)
def test_weights_of_many_types(make):
    weights = make()
    model = slce_xp.fit(X, labels, sample_weight=weights)
    expected = slce_xp.fit(X, labels, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(model.components, expected.components)


def test_weights_may_be_on_any_device(xp):
    spare_compiling(xp)
    model = slce_xp.fit(xp.array(X), labels, sample_weight=xp.array(WEIGHTS))
    expected = slce_xp.fit(xp.array(X), labels, sample_weight=xp.held(WEIGHTS))
    np.testing.assert_array_equal(xp.numpy(model.components), xp.numpy(expected.components))


def test_boolean_mask_is_a_weight():
    here = np.arange(len(X)) % 2 == 0
    model = slce_xp.fit(X, labels, sample_weight=here)
    expected = slce_xp.fit(X[here], labels[here])
    np.testing.assert_allclose(model.components, expected.components, atol=1e-9)


@pytest.mark.parametrize("solver", FORMS)
def test_inputs_are_not_modified(solver):
    data, y, weights = X.copy(), labels.copy(), WEIGHTS.copy()
    classes = {1: 2.0}
    slce_xp.fit(data, y, sample_weight=weights, class_weight=classes, solver=solver)
    np.testing.assert_array_equal(data, X)
    np.testing.assert_array_equal(y, labels)
    np.testing.assert_array_equal(weights, WEIGHTS)
    assert classes == {1: 2.0}


def with_entry(value):
    weights = np.ones(len(X))
    weights[3] = value
    return weights


BAD_WEIGHTS = {
    "too short": (np.ones(5), ValueError, r"120.*5"),
    "a number": (2.0, (TypeError, ValueError), ""),
    "a column": (np.ones((120, 1)), ValueError, r"\(120, 1\)"),
    "negative": (with_entry(-1.0), ValueError, r"negative.*3|3.*negative|-1"),
    "NaN": (with_entry(np.nan), ValueError, r"nan|NaN"),
    "infinite": (with_entry(np.inf), ValueError, r"inf"),
    "all zero": (np.zeros(120), ValueError, "zero|positive"),
    "text": (["heavy"] * 120, (TypeError, ValueError), ""),
    "masked": (np.ma.masked_equal(with_entry(9.0), 9.0), TypeError, "masked array"),
    "nothing masked": (np.ma.asarray(np.ones(120)), TypeError, "masked array"),
    "complex": (np.ones(120) + 1j, TypeError, "complex128"),
    "numbers as text": (["1"] * 120, TypeError, "<U1"),
    "dates": (np.full(120, np.datetime64("2020-01-01")), TypeError, "datetime64"),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights_raise(case):
    weights, error, message = BAD_WEIGHTS[case]
    with pytest.raises(error, match=f"(?s)sample_weight must .*({message})"):
        slce_xp.fit(X, labels, sample_weight=weights)


def test_one_class_of_positive_weight_raises():
    with pytest.raises(ValueError, match=r"at least two classes.*weight"):
        slce_xp.fit(X, labels, sample_weight=np.where(labels == 1, 1.0, 0.0))


BAD_CLASS_WEIGHTS = {
    "another word": ("uniform", "balanced"),
    "a list": ([1.0, 2.0, 1.0, 1.0], "balanced"),
    "an unknown label": ({7: 2.0}, "7"),
    "a label of another kind": ({"1": 2.0}, "'1'"),
    "negative": ({1: -2.0}, ""),
    "zero": ({1: 0.0}, ""),
    "NaN": ({1: np.nan}, ""),
    "text": ({1: "heavy"}, ""),
}


@pytest.mark.parametrize("case", BAD_CLASS_WEIGHTS)
def test_bad_class_weights_raise(case):
    class_weight, message = BAD_CLASS_WEIGHTS[case]
    with pytest.raises((TypeError, ValueError), match=f"class_weight must .*{message}"):
        slce_xp.fit(X, labels, class_weight=class_weight)
