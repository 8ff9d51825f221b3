"""The scikit-learn estimator: scikit-learn's checks, pipelines, frames, devices."""

import collections
import dataclasses
import io
import json
import pickle
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import joblib
import numpy as np
import oracle
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from budgets import metered
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import DataConversionWarning, NotFittedError, UnsetMetadataPassedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import slce_xp
from slce_xp import SLCE

dask = pytest.importorskip("dask", reason="chunks of Dask are fitted here, too")
da = pytest.importorskip("dask.array")
pl = pytest.importorskip("polars", reason="tables of Polars are fitted here, too")

ROOT = Path(__file__).parent.parent
X, CODES = oracle.blobs(60, 5, 3, seed=0)
Y = np.array(["ant", "bee", "cat"])[CODES]
FRAME = pd.DataFrame(X, columns=list("abcde"))
NAMES = ["slce0", "slce1"]


@pytest.fixture(scope="module")
def fitted():
    return SLCE().fit(X, Y)


# ---------------------------------------------------------------- classification


@pytest.mark.parametrize("criterion", ["centroid", "separation"])
def test_either_criterion_is_a_classifier(criterion):
    assert is_classifier(SLCE(criterion=criterion))
    slce = SLCE(criterion=criterion).fit(X, Y)
    np.testing.assert_array_equal(slce.predict(X), slce.model_.predict(X))
    np.testing.assert_array_equal(slce.predict_proba(X), slce.model_.predict_proba(X))
    right = slce.predict(X) == Y
    assert slce.score(X, Y) == np.mean(right)
    weights = np.arange(1.0, len(Y) + 1)
    assert slce.score(X, Y, weights) == pytest.approx(np.average(right, weights=weights))
    with pytest.warns(DataConversionWarning):
        assert slce.score(X, Y[:, None]) == np.mean(right)


def test_the_default_criterion_predicts_the_nearest_centroid(fitted):
    nearest = NearestCentroid().fit(fitted.transform(X), Y)
    np.testing.assert_array_equal(fitted.predict(X), nearest.predict(fitted.transform(X)))


def test_both_criteria_share_a_search():
    """As a user would write it: folds are stratified, no fit fails, nothing warns."""
    wine, kinds = load_wine(return_X_y=True)
    grid = {
        "slce__criterion": ["centroid", "separation"],
        "slce__n_components": [1, 2, None, 0.5, 0.9, "positive"],
    }
    pipeline = make_pipeline(StandardScaler(), SLCE())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(wine, kinds)
    assert search.best_score_ >= 0.95
    scores = search.cv_results_["mean_test_score"]
    assert scores.min() > 0.6  # one component does not separate three classes


def test_weights_of_classes_are_odds(fitted):
    odds = {"ant": 1.0, "bee": 20.0, "cat": 3.0}
    weighted, balanced = (SLCE(class_weight=w).fit(X, Y) for w in (odds, "balanced"))
    np.testing.assert_array_equal(balanced.predict(X), fitted.predict(X))
    between = np.linspace(*fitted.centroids_[:2], 9)
    for slce in (weighted, SLCE(class_weight=odds).partial_fit(X, Y)):
        found = slce.predict_proba(between)
        plain = dataclasses.replace(slce.model_, log_odds=None).predict_proba(between)
        expected = plain * list(odds.values())
        np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True))
        assert (slce.predict(between) == slce.classes_[found.argmax(axis=1)]).all()
    assert (weighted.predict(between) != fitted.predict(between)).any()


def test_warnings_name_the_line_of_the_user():
    samples, codes = oracle.blobs(60, 4, 3, seed=0)
    calls = [
        lambda: slce_xp.fit(samples, codes, 4),
        lambda: SLCE(4).fit_transform(samples, codes),
        lambda: cross_val_score(SLCE(4), samples, codes, cv=2),
    ]
    for call in calls:
        with pytest.warns(slce_xp.SLCEWarning, match="n_components=4 was asked for") as caught:
            call()
        assert {warning.filename for warning in caught} == {__file__}


def test_batches_are_pointed_to_partial_fit():
    for batches in (iter([X]), {"one": X}.values()):
        with pytest.raises(TypeError, match=r"X must be a matrix; got .* slce\.partial_fit"):
            SLCE().fit(batches, Y)
        with pytest.raises(TypeError, match=r"X must be a matrix; got .* slce\.partial_fit"):
            slce_xp.fit(batches, Y)


def test_a_classifier_in_pipelines_and_searches():
    digits, labels = load_digits(return_X_y=True)
    digits, labels = digits[:400], labels[:400]
    pipeline = make_pipeline(StandardScaler(), SLCE(criterion="separation"))
    scores = cross_val_score(pipeline, digits, labels, cv=3)
    assert scores.mean() > 0.88
    search = GridSearchCV(pipeline, {"slce__n_components": [2, 9]}, cv=3, scoring="neg_log_loss")
    search.fit(digits, labels)
    assert search.best_params_ == {"slce__n_components": 9}
    assert search.predict_proba(digits).shape == (400, 10)
    assert (search.predict(digits) == labels).mean() > 0.9


def test_what_is_classified_is_where_the_fit_was(xp):
    slce = SLCE(criterion="separation").fit(xp.array(X), Y)
    assert (
        slce.predict(xp.array(X)).tolist()
        == SLCE(criterion="separation").fit(X, Y).predict(X).tolist()
    )
    assert xp.numpy(slce.predict_proba(xp.array(X))).shape == (60, 3)
    codes = SLCE(criterion="separation").fit(xp.array(X), CODES)
    predicted = codes.predict(xp.array(X))
    assert type(predicted) is type(xp.array(CODES))
    assert codes.score(xp.array(X), xp.array(CODES)) == np.mean(xp.numpy(predicted) == CODES)


def test_labels_that_a_library_would_change_stay_on_the_host():
    numpy_of_jax = pytest.importorskip("jax.numpy")
    large = CODES + 2**40
    slce = SLCE().fit(numpy_of_jax.asarray(X), large)
    np.testing.assert_array_equal(
        slce.predict(numpy_of_jax.asarray(X)), SLCE().fit(X, large).predict(X)
    )


# ---------------------------------------------------------------- scikit-learn's own checks

ESTIMATORS = [
    SLCE(), SLCE(solver="krylov"), SLCE(backend="torch"), SLCE(criterion="separation"),
]  # fmt: skip

# Those that scikit-learn runs on its own estimators only. Its `check_param_validation` asks for a
# private table of constraints; our parameters are checked by the fit, with messages of their own.
MORE_CHECKS = [
    "check_dataframe_column_names_consistency",
    "check_estimator_cloneable",
    "check_get_feature_names_out_error",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_inplace_ensure_writeable",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
]


def needs_its_backend(estimator):
    if estimator.backend:
        pytest.importorskip(estimator.backend, reason=f"{estimator} needs it")


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # torch calls its compressed rows beta
# Some of their features are constant within classes, which separation warns of.
@pytest.mark.filterwarnings(r"ignore:\d+ of \d+ features .* vary within classes:UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_checks(estimator, check):
    needs_its_backend(estimator)
    check(estimator)


# They mix frames and arrays on purpose, which scikit-learn warns of.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
@pytest.mark.parametrize("check", MORE_CHECKS)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_scikit_learns_checks_of_its_own_estimators(estimator, check):
    needs_its_backend(estimator)
    getattr(estimator_checks, check)("SLCE", estimator)


def array_api_checks(root):
    """Results of the checks in a separate process: SciPy must be configured before its import."""
    code = "import runpy; runpy.run_path('tests/sklearn_array_api.py', run_name='__main__')"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert not [one for one in found if one["outcome"].startswith("failed")]
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("xp", ["cupy", "torch-cuda"], indirect=True)
def test_scikit_learns_array_api_checks_on_a_gpu(xp, request):
    place = "'array_namespace': 'cupy'" if xp.name == "cupy" else "'device_name': 'cuda'"
    found = array_api_checks(request.config.rootpath)
    assert {one["outcome"] for one in found if place in one["options"]} == {"passed"}


def test_scikit_learns_array_api_checks(request):
    pytest.importorskip("torch", reason="its pipeline is on torch")
    found = array_api_checks(request.config.rootpath)
    missing = ("cupy", "cuda", "xpu", "mps", "dpnp")
    for one in found:
        if one["outcome"] != "passed":
            assert any(f"'{name}'" in one["options"] for name in missing), one
    ran = collections.Counter(one["check"] for one in found if one["outcome"] == "passed")
    # NumPy; array-api-strict in two dtypes and devices; torch in two dtypes.
    assert ran["check_array_api_input"] >= 5
    assert ran["check_array_api_mixed_inputs"] >= 1
    assert ran["check_array_api_same_namespace"] == 1
    assert ran["check_array_api_input_and_values"] == 48
    assert ran["check_pipeline_on_torch"] == 1


# ---------------------------------------------------------------- imported when used

PROGRAM = """
import sys
{before}
import slce_xp
assert "sklearn" not in {modules}, "slce_xp imports scikit-learn"
from slce_xp import *
assert fit is slce_xp.fit
{after}
"""


def run_program(before="", modules="sys.modules", after=""):
    code = PROGRAM.format(before=before, modules=modules, after=after)
    subprocess.run([sys.executable, "-c", code], check=True)


def test_scikit_learn_is_imported_only_with_the_estimator():
    run_program(after="SLCE; assert 'sklearn' in sys.modules")


def test_without_scikit_learn_all_but_the_estimator_works():
    run_program(
        before="sys.modules['sklearn'] = None",
        modules="()",
        after="""
assert "SLCE" not in dir(slce_xp)
try:
    slce_xp.SLCE
except ImportError as error:
    assert "install it with: pip install" in str(error), error
    assert "scikit-learn" in str(error), error
else:
    raise AssertionError
""",
    )


def test_unknown_names_raise_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Slce'"):
        slce_xp.Slce  # noqa: B018


# ---------------------------------------------------------------- fitted attributes


@pytest.mark.parametrize("solver", ["auto", "scatter", "gram", "krylov"])
def test_attributes_mirror_the_model(solver):
    estimator = SLCE(solver=solver).fit(X, Y)
    model = slce_xp.fit(X, Y, solver=solver)
    for name in ("components", "eigenvalues", "mean", "centroids", "classes"):
        found = getattr(estimator, f"{name}_")
        np.testing.assert_array_equal(found, getattr(model, name))
        assert found is getattr(estimator.model_, name)
    for name in ("n_components", "n_positive", "loss", "solver"):
        assert getattr(estimator, f"{name}_") == getattr(model, name)
    assert estimator.n_iter_ == max(1, model.passes)
    assert estimator.n_features_in_ == 5
    np.testing.assert_array_equal(estimator.transform(X), model.transform(X))


def test_all_parameters_reach_the_fit(monkeypatch):
    given = {
        "n_components": 1,
        "solver": "gram",
        "backend": "numpy",
        "device": "cpu",
        "tol": 0.25,
        "max_iter": 7,
        "max_memory": "1GB",
        "class_weight": "balanced",
        "unlabeled": -1,
        "unlabeled_weight": 0.5,
        "criterion": "separation",
        "shrinkage": 0.5,
        "random_state": 3,
        "missing": "mean",
        "calibrate": False,
        "progress": False,
    }
    assert set(given) == set(SLCE().get_params())
    taken = {}

    def record(X, y, n_components, **options):
        taken.update(n_components=n_components, **options)
        return model

    model = slce_xp.fit(X, Y)
    monkeypatch.setattr("slce_xp._fit.fit", record)
    weights = np.ones(60)
    SLCE(**given).fit(X, Y, sample_weight=weights)
    assert taken.pop("sample_weight") is weights
    assert taken.pop("groups") is taken.pop("batch") is None
    assert taken == given


def test_no_fitted_attributes_before_fit():
    estimator = SLCE()
    assert not hasattr(estimator, "loss_")
    for call in (
        lambda: estimator.transform(X),
        lambda: estimator.inverse_transform(X),
        lambda: estimator.to("numpy"),
        lambda: estimator.save("model.npz"),
        lambda: estimator.get_feature_names_out(),
    ):
        with pytest.raises(NotFittedError, match="not fitted"):
            call()


def test_inverse_transform_inverts_transform(fitted):
    Z = fitted.transform(X)
    expected = fitted.model_.reconstruct(X)
    np.testing.assert_array_equal(fitted.inverse_transform(Z), expected)
    np.testing.assert_array_equal(
        fitted.inverse_transform(pd.DataFrame(Z, columns=NAMES)), expected
    )
    with pytest.raises(ValueError, match=r"X must have 2 columns.*\(60, 5\).*transform"):
        fitted.inverse_transform(X)


def test_random_state_follows_scikit_learn():
    # More components than the data vary in: the last ones are drawn.
    def drawn(random_state):
        few, labels = oracle.blobs(4, 20, 2, seed=0)  # the scatter form would draw nothing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # none of those lowers the loss
            return SLCE(5, random_state=random_state).fit(few, labels).components_[-4:]

    assert (drawn(0) == drawn(np.int64(0))).all()
    assert (drawn(0) != drawn(1)).any()
    state = np.random.RandomState(0)
    assert (drawn(state) != drawn(state)).any()
    assert (drawn(np.random.RandomState(0)) == drawn(np.random.RandomState(0))).all()
    assert drawn(None).shape == (4, 20)
    with pytest.raises(ValueError, match="seed"):
        drawn("seed")


def test_errors_are_those_of_the_fit():
    with pytest.raises(ValueError, match=r"n_components must be an integer from 1 to 5.*got 6"):
        SLCE(6).fit(X, Y)
    with pytest.raises(ValueError, match="solver must be one of"):
        SLCE(solver="svd").fit(X, Y)
    with pytest.raises(ValueError, match="y must hold at least two classes"):
        SLCE().fit(X, np.zeros(60))
    spoilt = X.copy()
    spoilt[7, 2] = np.nan
    with pytest.raises(ValueError, match="found NaN at row 7, column 2"):
        SLCE().fit(spoilt, Y)
    with pytest.raises(ValueError, match=r"y is None.*PCA"):
        SLCE().fit(X, None)


# ---------------------------------------------------------------- among scikit-learn's own


def test_pipeline_cross_validates_and_is_searched():
    digits, labels = load_digits(return_X_y=True, as_frame=True)
    pipeline = make_pipeline(StandardScaler(), SLCE(3), KNeighborsClassifier(5))
    scores = cross_val_score(pipeline, digits, labels, cv=3)
    assert scores.mean() > 0.6
    search = GridSearchCV(pipeline, {"slce__n_components": [1, 3, 6]}, cv=3).fit(digits, labels)
    assert search.best_params_ == {"slce__n_components": 6}
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(scores.mean())
    assert list(search.best_estimator_[:-1].get_feature_names_out()) == [
        f"slce{i}" for i in range(6)
    ]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frame_output(library, fitted):
    frame = FRAME if library == "pandas" else pl.from_pandas(FRAME)
    kind = pd.DataFrame if library == "pandas" else pl.DataFrame
    pipeline = make_pipeline(StandardScaler(), SLCE()).set_output(transform=library)
    found = pipeline.fit_transform(frame, Y)
    assert isinstance(found, kind)
    assert list(found.columns) == NAMES
    assert list(pipeline[0].feature_names_in_) == list("abcde")
    assert list(pipeline[-1].feature_names_in_) == list("abcde")

    estimator = SLCE().set_output(transform=library)
    np.testing.assert_allclose(
        estimator.fit(frame, Y).transform(frame).to_numpy(), fitted.transform(X), atol=1e-9
    )
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.transform(frame[list("edcba")])


def test_saved_estimator_keeps_feature_names(tmp_path):
    estimator = SLCE().fit(FRAME, Y)
    estimator.save(tmp_path / "slce.npz")
    model = slce_xp.load(tmp_path / "slce.npz")
    assert list(model.feature_names) == list("abcde")
    with pytest.raises(ValueError, match="column 0 is 'e', not 'a'"):
        model.transform(FRAME[list("edcba")])
    assert estimator.fit(X, Y).model_.feature_names is None


def test_index_is_kept():
    frame = FRAME.set_index(np.arange(100, 160))
    found = SLCE().set_output(transform="pandas").fit_transform(frame, pd.Series(Y))
    assert list(found.index) == list(range(100, 160))


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_column_of_text_is_named(make):
    frame = make({"size": [1.0, 2.0, 3.0], "town": ["Oslo", "Rome", "Bern"]})
    with pytest.raises(TypeError, match="numbers only; column 'town'"):
        SLCE().fit(frame, [0, 1, 0])


def test_frames_of_float32_stay_float32(fitted):
    found = SLCE().fit_transform(FRAME.astype("float32"), Y)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, fitted.transform(X), atol=1e-3)


@pytest.mark.parametrize(
    "copy",
    [
        lambda estimator: pickle.loads(pickle.dumps(estimator)),
        lambda estimator: joblib.load(dumped(estimator)),
    ],
    ids=["pickle", "joblib"],
)
def test_copies_and_pickles_are_equal(copy):
    estimator = SLCE(1, solver="gram").set_output(transform="pandas").fit(FRAME, Y)
    found = copy(estimator)
    assert found.get_params() == estimator.get_params()
    assert found.transform(FRAME).equals(estimator.transform(FRAME))


def dumped(estimator):
    file = io.BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    return file


def test_clones_are_not_fitted(fitted):
    pytest.importorskip("torch")
    estimator = clone(SLCE(1, backend="torch", device="cpu", max_memory="1GB").fit(X, Y))
    assert (
        estimator.get_params()
        == SLCE(1, backend="torch", device="cpu", max_memory="1GB").get_params()
    )
    assert not hasattr(estimator, "model_")


# ---------------------------------------------------------------- everything follows X


def test_fit_and_use_on_the_device_of_x(xp):
    x = xp.array(X)
    estimator = SLCE().fit(x, Y)  # labels of text, which only the host holds
    expected = SLCE().fit(xp.held(X), Y)
    assert list(estimator.classes_) == ["ant", "bee", "cat"]
    close = {"rtol": 0, "atol": xp.tolerance(1e-9, 1e-3)}
    for name in ("components_", "mean_", "centroids_"):
        found = xp.numpy(getattr(estimator, name))
        np.testing.assert_allclose(found, getattr(expected, name), **close)
    z = estimator.transform(x)
    np.testing.assert_allclose(xp.numpy(z), expected.transform(xp.held(X)), **close)
    back = estimator.inverse_transform(z)
    np.testing.assert_allclose(xp.numpy(back), expected.model_.reconstruct(xp.held(X)), **close)
    np.testing.assert_array_equal(
        xp.numpy(SLCE().fit(x, xp.array(CODES)).components_), xp.numpy(estimator.components_)
    )


def test_x_on_another_device_raises(xp):
    if xp.name == "numpy":
        pytest.skip("there is no elsewhere")
    estimator = SLCE().fit(xp.array(X), Y)
    rule = "must use the same namespace and the same device as those passed to fit"
    with pytest.raises(ValueError, match=rf"SLCE.transform\(\) {rule}.*Move X there"):
        estimator.transform(X)
    with pytest.raises(ValueError, match=rf"SLCE.inverse_transform\(\) {rule}"):
        estimator.inverse_transform(X[:, :2])
    with pytest.raises(ValueError, match=rf"SLCE.transform\(\) {rule}"):
        SLCE().fit(X, Y).transform(xp.array(X))


def test_to_moves_a_fitted_estimator(xp, fitted):
    fitted = (
        SLCE()
        .set_output(transform="default")
        .fit(pd.DataFrame(xp.held(X), columns=list("abcde")), Y)
    )
    moved = fitted.to(xp.name, device=xp.device)
    assert moved is not fitted
    assert moved.get_params() == fitted.get_params()
    assert list(moved.feature_names_in_) == list("abcde")
    assert list(moved.model_.feature_names) == list("abcde")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays have no names, as scikit-learn says
        z = moved.transform(xp.array(X))
    close = {"rtol": 0, "atol": xp.tolerance(1e-9, 1e-3)}
    np.testing.assert_allclose(xp.numpy(z), fitted.model_.transform(xp.held(X)), **close)
    np.testing.assert_array_equal(moved.to("numpy").components_, fitted.components_)
    moved.set_output(transform="pandas")  # of its own
    assert isinstance(fitted.transform(FRAME.astype(xp.held(X).dtype)), np.ndarray)


def test_backend_solves_and_returns_host_results(xp, fitted):
    if xp.single:
        pytest.skip("X comes in float64")
    estimator = SLCE(backend=xp.name, device=xp.device).fit(X, Y)
    assert type(estimator.components_) is np.ndarray
    np.testing.assert_allclose(estimator.transform(X), fitted.transform(X), rtol=0, atol=1e-9)
    framed = SLCE(backend=xp.name, device=xp.device).set_output(transform="pandas")
    assert list(framed.fit_transform(FRAME, Y).columns) == NAMES


@pytest.mark.parametrize("xp", ["torch-device"], indirect=True)
def test_estimator_adds_no_host_reads(xp):
    x = xp.array(X)
    with metered(xp) as plain:
        slce_xp.fit(x, Y)
    with metered(xp) as found:
        estimator = SLCE().fit(x, Y)
    assert found.reads == plain.reads
    with metered(xp) as found:
        estimator.inverse_transform(estimator.transform(x))
    assert found.reads == 0


def test_save_writes_the_model(tmp_path, fitted):
    fitted.save(tmp_path / "model.npz")
    model = slce_xp.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(model.transform(X), fitted.transform(X))


# ---------------------------------------------------------------- weights and missing labels

WEIGHTS = np.arange(60) % 4  # 0 drops a sample, 2 duplicates it
REPEATED = np.repeat(np.arange(60), WEIGHTS)


def same_subspace(found, expected):
    assert oracle.largest_angle(found.components_, expected.components_) < 1e-8
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_)


def test_sample_weights_are_repetitions():
    same_subspace(SLCE().fit(X, Y, WEIGHTS), SLCE().fit(X[REPEATED], Y[REPEATED]))
    same_subspace(SLCE().fit(X, Y, sample_weight=np.ones(60)), SLCE().fit(X, Y))


def test_balanced_classes_have_equal_weight():
    counts = np.bincount(CODES)
    weights = 60 / (3 * counts[CODES])
    found = SLCE(class_weight="balanced").fit(X, Y)
    same_subspace(found, SLCE().fit(X, Y, sample_weight=weights))
    given = dict(zip(["ant", "bee", "cat"], 60 / (3 * counts), strict=True))
    same_subspace(SLCE(class_weight=given).fit(X, Y), found)


def test_samples_without_a_label_are_not_a_class():
    labels = np.where(np.arange(60) % 5 == 0, -1, CODES)
    found = SLCE(unlabeled=-1, unlabeled_weight=0.5).fit(X, labels)
    assert list(found.classes_) == [0, 1, 2]
    expected = slce_xp.fit(X, labels, unlabeled=-1, unlabeled_weight=0.5)
    np.testing.assert_array_equal(found.components_, expected.components)
    assert found.transform(X).shape == (60, 2)


def test_sample_weights_are_routed_through_a_pipeline():
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            SLCE().set_fit_request(sample_weight=True),
            KNeighborsClassifier(3).set_score_request(sample_weight=True),
        )
        if hasattr(pipeline, "set_score_request"):  # before scikit-learn 1.8
            pipeline.set_score_request(sample_weight=True)
        pipeline.fit(X, Y, sample_weight=WEIGHTS)
        found = cross_validate(
            pipeline, X, Y, params={"sample_weight": WEIGHTS}, error_score="raise"
        )
        with pytest.raises(UnsetMetadataPassedError, match="SLCE"):
            make_pipeline(SLCE(), KNeighborsClassifier(3)).fit(X, Y, sample_weight=WEIGHTS)
    scaled = StandardScaler().fit_transform(X)
    same_subspace(pipeline[1], SLCE().fit(scaled, Y, WEIGHTS))
    assert oracle.largest_angle(pipeline[1].components_, SLCE().fit(scaled, Y).components_) > 1e-3
    assert found["test_score"].mean() > 0.8


# ---------------------------------------------------------------- sparse counts

COUNTS = np.round(np.abs(X)) * (X > 0)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dia", "bsr", "dok"])
@pytest.mark.parametrize("container", ["array", "matrix"])
def test_sparse_counts(container, kind):
    counts = getattr(scipy.sparse, f"{kind}_{container}")(COUNTS)
    expected = SLCE().fit(COUNTS, Y)
    found = SLCE().fit(counts, Y)
    same_subspace(found, expected)
    z = found.transform(counts)
    assert type(z) is np.ndarray
    np.testing.assert_allclose(z, expected.transform(COUNTS), atol=1e-9)
    np.testing.assert_allclose(z, found.transform(COUNTS), atol=1e-9)
    framed = found.set_output(transform="pandas").transform(counts)
    assert list(framed.columns) == NAMES


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # torch calls its compressed rows beta
def test_sparse_counts_on_the_device_of_x():
    torch = pytest.importorskip("torch")
    counts = torch.asarray(COUNTS).to_sparse_csr()
    expected = SLCE().fit(COUNTS, Y)
    for estimator in (SLCE(), SLCE(backend="numpy")):
        z = estimator.fit(counts, Y).transform(counts)
        assert isinstance(z, torch.Tensor)
        np.testing.assert_allclose(z.numpy(), expected.transform(COUNTS), atol=1e-9)
    with pytest.raises(ValueError, match=r"must be where the model is|same namespace"):
        expected.transform(counts)


def test_sparse_nan_is_found_in_both():
    spoilt = COUNTS.copy()
    spoilt[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SLCE().fit(scipy.sparse.csr_array(spoilt), Y)
    with pytest.raises(ValueError, match="NaN"):
        SLCE().fit(COUNTS, Y).transform(scipy.sparse.csr_array(spoilt))


def test_words_are_counted_in_a_pipeline():
    texts = ["red apple", "ripe apple", "red cherry", "fast car", "old car", "fast red car"] * 4
    kinds = ["fruit", "fruit", "fruit", "car", "car", "car"] * 4
    pipeline = make_pipeline(CountVectorizer(), SLCE(), KNeighborsClassifier(3))
    assert cross_val_score(pipeline, texts, kinds, cv=3).mean() == 1.0


# ---------------------------------------------------------------- data not in memory


def test_rows_of_a_file_are_read_in_blocks(tmp_path):
    np.save(tmp_path / "X.npy", X)
    rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    slce = SLCE().fit(rows, Y)
    assert slce.model_.plan.where == "blocks"
    np.testing.assert_allclose(slce.components_, SLCE().fit(X, Y).components_, atol=1e-12)
    np.testing.assert_allclose(slce.transform(rows), slce.transform(X), atol=1e-12)
    narrow = np.lib.format.open_memmap(tmp_path / "Z.npy", "w+", X.dtype, (60, 4))
    with pytest.raises(ValueError, match="4 features, but SLCE is expecting 5"):
        slce.transform(narrow)


def test_dask_input_gives_dask_output():
    x = da.from_array(X, chunks=(17, 2))
    slce = SLCE().fit(x, Y)
    assert slce.model_.plan.where == "cluster"
    np.testing.assert_allclose(slce.components_, SLCE().fit(X, Y).components_, atol=1e-12)
    with dask.config.set(scheduler=refuse):
        embedding = slce.transform(x)
        assert isinstance(slce.inverse_transform(embedding), da.Array)
    np.testing.assert_allclose(embedding.compute(), slce.transform(X), atol=1e-12)


def refuse(*args, **options):
    raise AssertionError("something was computed")


def test_batches_may_be_dask_arrays_and_files(tmp_path):
    np.save(tmp_path / "X.npy", X[30:])
    slce = SLCE().partial_fit(da.from_array(X[:30], chunks=(7, 3)), Y[:30])
    slce.partial_fit(np.load(tmp_path / "X.npy", mmap_mode="r"), Y[30:])
    np.testing.assert_allclose(slce.components_, SLCE().fit(X, Y).components_, atol=1e-12)


def test_batches_cannot_be_calibrated():
    with pytest.raises(ValueError, match="calibrate must be False for partial_fit") as caught:
        SLCE(calibrate=True).partial_fit(X, Y)
    assert caught.value.parameter == "calibrate"


@pytest.mark.parametrize("method", ["fit", "partial_fit", "transform", "inverse_transform"])
def test_masked_arrays_raise(method):
    X, y = oracle.blobs(60, 5, 3, seed=1)
    masked = np.ma.masked_less(X[:, :2] if method == "inverse_transform" else X, 1.0)
    estimator = SLCE().fit(X, y)
    labels = (y,) if method.endswith("fit") else ()
    with pytest.raises(TypeError, match=r"^X must not be a masked array"):
        getattr(estimator, method)(masked, *labels)


# ---------------------------------------------------------------- what users of PCA and LDA expect


def test_share_of_each_component_is_an_attribute():
    slce = SLCE().fit(X, Y)
    np.testing.assert_allclose(slce.loss_shares_, slce.eigenvalues_ / slce.model_.total_loss)
    batches = SLCE().partial_fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:])
    np.testing.assert_allclose(batches.loss_shares_, slce.loss_shares_, rtol=1e-10)
    share = float(slce.loss_shares_[0] / slce.loss_shares_.sum()) - 1e-6
    assert SLCE(share).fit(X, Y).n_components_ == 1
    assert SLCE(share).partial_fit(X, Y).n_components_ == 1


@pytest.mark.parametrize("kind", ["array", "list", "frame"])
def test_column_of_labels_is_flattened_with_the_warning_of_sklearn(kind):
    column = {
        "array": Y[:, None],
        "list": [[label] for label in Y],
        "frame": pd.DataFrame({"y": Y}),
    }[kind]
    for fit in (SLCE().fit, SLCE().partial_fit):
        with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
            slce = fit(X, column)
        np.testing.assert_allclose(slce.components_, SLCE().fit(X, Y).components_, atol=1e-9)


def test_path_as_x_suggests_the_command():
    for fit in (SLCE().fit, slce_xp.fit):
        for path in ("table.csv", Path("my table.csv")):
            with pytest.raises(TypeError, match=r"slce-xp fit '?(my )?table.csv'? --label") as info:
                fit(path, "label")
            assert info.value.parameter == "X"


def test_html_representation_links_to_an_address_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    urls = project["urls"]
    address = urls.get("Documentation", urls["Paper"])
    assert f'href="{address}' in SLCE()._repr_html_()


@pytest.mark.parametrize("name", ["whiten", "get_covariance", "priors"])
def test_missing_attributes_are_documented(name):
    assert not hasattr(SLCE(), name)
    assert re.search(rf"- There (is|are) no .*`{name}`", SLCE.__doc__)
