"""The methods SLCE is compared with, each against its definition or a known answer."""

import numpy as np
import oracle
import pytest
import scipy.optimize
from conftest import load_set, make_backend
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

pytest.importorskip("torch")
from benchmarks.peers import (
    HSICSPCA,
    LDA,
    LRPCA,
    LSPCA,
    METHODS,
    NCA,
    BairSPCA,
    CentroidEncoder,
    base,
    ritchie,
)

pytestmark = pytest.mark.benchmarks


def classes_in_noise(n, d, n_classes, seed):
    """Classes of unequal sizes, with features of unequal variance."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(
        np.concatenate([np.arange(n_classes)] * 3 + [rng.integers(0, n_classes, n)])
    )
    y = y[:n]
    centres = rng.standard_normal((n_classes, d))
    X = centres[y] + rng.standard_normal((n, d)) * np.linspace(0.3, 2.0, d) + 3.0
    return X, y


def hidden_by_factors(n=300, seed=5):
    """Features share two factors unrelated to the classes; only the last one separates them."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 12))
    X[:, :8] += 2.0 * rng.standard_normal((n, 1))
    X[:, 8:11] += 0.7 * rng.standard_normal((n, 1))
    X[:, 11] = y + 0.15 * rng.standard_normal(n)
    return X, y


TALL = classes_in_noise(120, 9, 4, seed=1)
WIDE = classes_in_noise(40, 90, 4, seed=2)
PAIR = classes_in_noise(60, 8, 2, seed=3)
PROBLEMS = pytest.mark.parametrize(("X", "y"), [TALL, WIDE], ids=["tall", "wide"])
CAPPED = {"LDA", "LDA, shrinkage", "SLCE, separation"}  # at most number of classes − 1 components
RITCHIE = pytest.mark.parametrize("method", [LSPCA, LRPCA])


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def principal_axes(X, k):
    return np.linalg.svd(oracle.centred(X), full_matrices=False)[2][:k]


# ---------------------------------------------------------------- all


@pytest.fixture(scope="module")
def fitted():
    X, y = TALL
    return {name: make(2, 7).fit(X, y) for name, make in METHODS.items()}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_a_transformer_with_the_same_bits_for_the_same_seed(fitted, name):
    X, y = TALL
    first = fitted[name]
    assert first.n_components == 2
    again = clone(first)
    assert again.get_params() == first.get_params()
    assert not hasattr(again, "classes_")
    Z = again.fit(X, y).transform(X)
    assert Z.shape == (len(X), 2)
    assert np.isfinite(Z).all()
    assert np.array_equal(Z, first.transform(X))
    # What is fitted embeds one sample as it does all.
    np.testing.assert_allclose(first.transform(X[:1]), Z[:1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore:n_components=3 was asked for:UserWarning")
def test_every_method_takes_wide_data_of_two_named_classes(name):
    X, y = WIDE
    y = np.where(y > 1, "tumour", "normal")
    Z = METHODS[name](3, 0).fit(X, y).transform(X)
    assert Z.shape == (len(X), 1 if name in CAPPED else 3)
    assert KNeighborsClassifier(1).fit(Z, y).score(Z, y) == 1.0


@pytest.mark.parametrize(
    "name",
    [name for name in METHODS if name not in {*CAPPED, "NCA", "SPPCA", "ISPC", "Centroid-Encoder"}],
)
def test_linear_methods_have_orthonormal_components(fitted, name):
    A = fitted[name].components_
    np.testing.assert_allclose(A @ A.T, np.eye(2), atol=1e-12)


def test_lda_returns_the_available_discriminants():
    X, y = TALL
    Z = LDA(6).fit(X, y).transform(X)
    assert Z.shape == (len(X), 3)
    np.testing.assert_array_equal(Z, LinearDiscriminantAnalysis().fit_transform(X, y))


def test_shrunk_lda_is_scikit_learn_s():
    X, y = TALL
    expected = LinearDiscriminantAnalysis("eigen", "auto", n_components=2).fit_transform(X, y)
    np.testing.assert_array_equal(LDA(2, "auto").fit(X, y).transform(X), expected)
    assert not np.allclose(LDA(2).fit(X, y).transform(X), expected)


def test_nca_ignores_the_units_of_features():
    X, y = TALL
    Z = NCA(2).fit(X, y).transform(X)
    scaled = X * np.geomspace(1e-3, 1e3, X.shape[1])
    np.testing.assert_allclose(NCA(2).fit(scaled, y).transform(scaled), Z, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("method", "error", "words"),
    [
        (
            LSPCA(10),
            ValueError,
            "n_components must be an integer of at least 1 and at most 9; got 10",
        ),
        (LDA("two"), TypeError, "n_components must be an integer"),
        (BairSPCA(2, 1.5), ValueError, "threshold must be 'cv' or a number from 0 to 1; got 1.5"),
        (BairSPCA(2, "best"), TypeError, "threshold must be 'cv' or a number"),
        (LRPCA(2, -1.0), ValueError, "lam must be 'cv', 'ml' or a number from 0 to 1000; got -1.0"),
        (LSPCA(2, "aic"), TypeError, "lam must be 'cv', 'ml' or a number"),
        (HSICSPCA(2, "rbf"), ValueError, "label_kernel must be 'delta' or 'linear'; got 'rbf'"),
    ],
)
def test_errors_name_the_parameter_and_the_rule(method, error, words):
    with pytest.raises(error, match=words):
        method.fit(*TALL)


def test_non_finite_values_raise():
    X, y = TALL
    X = X.copy()
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="X must be finite"):
        LSPCA(2).fit(X, y)


@pytest.mark.parametrize("method", [HSICSPCA(3), BairSPCA(2), LSPCA(2, 1.0), CentroidEncoder(2)])
def test_integers_equal_floats(method):
    X, y = TALL
    pixels = (20 * (X - X.min())).astype(np.uint8)
    expected = clone(method).fit(pixels.astype(np.float64), y).transform(pixels.astype(np.float64))
    np.testing.assert_array_equal(method.fit(pixels, y).transform(pixels), expected)


@pytest.mark.parametrize("most", [30, 1000])
def test_subsamples_and_folds_keep_classes_in_proportion(most):
    codes = np.random.default_rng(3).permutation(np.repeat([0, 1, 2], [50, 30, 20]))
    rows = base.thinned(codes, most, seed=1)
    assert len(np.unique(rows)) == len(rows) == min(most, 100)
    shares = np.bincount(codes[rows]) / len(rows)
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.04)
    outside = []
    for inner, outer in base.folds(codes, 5, seed=1):
        assert np.bincount(codes[outer]).tolist() == [10, 6, 4]
        assert np.array_equal(np.sort(np.concatenate([inner, outer])), np.arange(100))
        outside.extend(outer)
    assert np.array_equal(np.sort(outside), np.arange(100))


@pytest.mark.parametrize("method", [BairSPCA(2), LSPCA(2), LRPCA(2)])
def test_class_of_one_sample_is_cross_validated(method):
    X, y = TALL
    y = np.where(np.arange(len(y)) == 7, 9, y)
    assert np.isfinite(method.fit(X, y).transform(X)).all()


# ---------------------------------------------------------------- Bair


@PROBLEMS
def test_bair_with_all_features_is_pca(X, y):
    model = BairSPCA(3, threshold=0.0).fit(X, y)
    assert model.kept_.all()
    assert oracle.largest_angle(model.components_, principal_axes(X, 3)) < 1e-8


def test_bair_scores_are_correlations_with_a_class_against_the_rest():
    X, y = TALL
    X = np.column_stack([X, np.full(len(X), 4.0)])  # a constant carries no information
    scores = BairSPCA(2, 0.0).fit(X, y).scores_
    for j in range(9):
        against = [abs(np.corrcoef(X[:, j], y == c)[0, 1]) for c in range(4)]
        assert scores[j] == pytest.approx(max(against), rel=1e-12)
    assert scores[9] < 1e-12


def test_bair_drops_planted_noise():
    rng = np.random.default_rng(8)
    y = np.arange(200) % 3
    telling = rng.standard_normal((3, 6))[y] * 2.0 + rng.standard_normal((200, 6))
    X = np.concatenate([telling, 10.0 * rng.standard_normal((200, 60))], axis=1)
    model = BairSPCA(2).fit(X, y)
    assert model.kept_[:6].sum() >= 2
    assert not model.kept_[6:].any()
    assert (model.components_[:, ~model.kept_] == 0).all()
    Z, plain = model.transform(X), PCA(2).fit_transform(X)
    assert KNeighborsClassifier().fit(Z[:100], y[:100]).score(Z[100:], y[100:]) > 0.8
    assert KNeighborsClassifier().fit(plain[:100], y[:100]).score(plain[100:], y[100:]) < 0.6


# ---------------------------------------------------------------- Barshan


def kernels(X, y):
    """H L H of the delta kernel and K = X Xᵀ, n × n and entry by entry."""
    n = len(X)
    L = np.array([[float(a == b) for b in y] for a in y])
    H = np.eye(n) - np.full((n, n), 1 / n)
    return H @ L @ H, X @ X.T


@PROBLEMS
def test_hsic_components_are_eigenvectors_of_the_explicit_matrix(X, y):
    HLH, _ = kernels(X, y)
    values, vectors = oracle.descending(X.T @ HLH @ X)
    model = HSICSPCA(3).fit(X, y)
    assert model.rank_ == 3
    for own, true in zip(model.components_, vectors[:3], strict=True):
        assert abs(own @ true) == pytest.approx(1.0, abs=1e-10)
    # The criterion itself, of the embedding: tr(K_Z H L H).
    Z = model.transform(X)
    assert np.trace(Z @ Z.T @ HLH) == pytest.approx(values[:3].sum(), rel=1e-10)


@PROBLEMS
def test_hsic_agrees_with_the_dual_form(X, y):
    HLH, K = kernels(X, y)
    values, vectors = np.linalg.eig(K @ HLH)
    leading = vectors[:, np.argsort(-values.real)[:3]].real
    dual = np.linalg.qr(X.T @ HLH @ leading)[0].T
    assert oracle.largest_angle(HSICSPCA(3).fit(X, y).components_, dual) < 1e-8


@PROBLEMS
def test_hsic_beyond_its_rank_continues_by_variance(X, y):
    pair = (y > 1).astype(int)
    model = HSICSPCA(3).fit(X, pair)
    assert model.rank_ == 1
    first = X[pair == 1].mean(axis=0) - X[pair == 0].mean(axis=0)
    first /= np.linalg.norm(first)
    rest = oracle.centred(X) @ (np.eye(X.shape[1]) - np.outer(first, first))
    assert abs(model.components_[0] @ first) == pytest.approx(1.0, abs=1e-12)
    assert oracle.largest_angle(model.components_[1:], principal_axes(rest, 2)) < 1e-8


def test_hsic_with_a_linear_kernel_regresses_on_the_numbers():
    X, y = TALL
    numbers = np.array([0.0, 1.0, 5.0, 20.0])[y]
    model = HSICSPCA(1, label_kernel="linear").fit(X, numbers)
    covariance = np.cov(X.T, numbers)[-1, :-1]
    assert abs(model.components_[0] @ covariance) == pytest.approx(np.linalg.norm(covariance))
    with pytest.raises(TypeError, match="y must hold numbers for label_kernel='linear'"):
        HSICSPCA(1, label_kernel="linear").fit(X, np.array(list("abcd"))[y])


@pytest.mark.parametrize("label", ["strict", "strict-device1", "strict-single", "torch"])
@PROBLEMS
@pytest.mark.parametrize("k", [2, 5])  # within its rank and beyond it
def test_hsic_runs_on_the_library_of_x(label, X, y, k):
    expected = HSICSPCA(k).fit(X, y)
    with make_backend(label) as backend:
        data = backend.array(X)
        model = HSICSPCA(k).fit(data, y)
        tolerance = backend.tolerance(1e-8, 2e-3)
        components = backend.numpy(model.components_)
        assert oracle.largest_angle(components, expected.components_) < tolerance
        Z = backend.numpy(model.transform(data))
    np.testing.assert_allclose(np.abs(Z), np.abs(expected.transform(X)), atol=100 * tolerance)


# ---------------------------------------------------------------- Ritchie


def logistic(X, y):
    """Multinomial regression with the ridge that LRPCA has, by scikit-learn."""
    return LogisticRegression(C=1.0 / (ritchie.RIDGE * len(X)), tol=1e-10, max_iter=5000).fit(X, y)


def objective(X, y, components, lam, method):
    """LSPCA's or LRPCA's, with the best coefficients, by scikit-learn's regressions."""
    X = oracle.centred(X)
    Z = X @ components.T
    missed = ((X - Z @ components) ** 2).sum() / (X**2).sum()
    if method is LSPCA:
        Y = oracle.centred(y[:, None] == np.unique(y))
        found = LinearRegression().fit(Z, Y).predict(Z)
        return missed + lam * ((Y - found) ** 2).sum() / (Y**2).sum()
    length = np.sqrt((X**2).sum() / len(X))
    model = logistic(Z / length, y)
    log_loss = -model.predict_log_proba(Z / length)[np.arange(len(y)), y].mean()
    return missed + lam * (log_loss + 0.5 * ritchie.RIDGE * (model.coef_**2).sum())


@RITCHIE
@PROBLEMS
def test_gradient_is_that_of_finite_differences(method, X, y):
    problem = method._objective(X, y, 4, 2)
    rng = np.random.default_rng(4)
    theta = rng.standard_normal(problem.start().shape)
    value = lambda t: problem.value_and_gradient(t, 0.7)[0]  # noqa: E731
    expected = scipy.optimize.approx_fprime(theta, value, 1e-6)
    found = problem.value_and_gradient(theta, 0.7)[1]
    np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())


@RITCHIE
@PROBLEMS
def test_lambda_zero_is_pca_of_standardised_data(method, X, y):
    model = method(2, 0.0).fit(X, y)
    assert oracle.largest_angle(model.components_, principal_axes(standardised(X), 2)) < 1e-6
    np.testing.assert_allclose(
        model.transform(X), standardised(X) @ model.components_.T, atol=1e-12
    )


@RITCHIE
def test_large_lambda_leaves_only_the_regression(method):
    """With number of classes − 1 components, the regression's own coefficients fit in them."""
    X, y = TALL
    model = method(3, 1000.0, max_iter=3000, standardize=False).fit(X, y)
    if method is LSPCA:  # the span of Fisher's discriminants
        coefficients = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :3]
    else:
        length = np.sqrt((oracle.centred(X) ** 2).sum() / len(X))
        coefficients = logistic(X / length, y).coef_.T
    span = np.linalg.svd(coefficients, full_matrices=False)[0][:, :3].T
    assert oracle.largest_angle(model.components_, span) < 0.02


@RITCHIE
@pytest.mark.parametrize("lam", [0.3, 3.0])
def test_objective_is_least_at_the_solution(method, lam):
    X, y = TALL
    X = standardised(X)
    best = method(2, lam, max_iter=1000).fit(X, y).components_
    least = objective(X, y, best, lam, method)
    problem = method._objective(X, y, 4, 2)
    theta = problem.solve(lam, problem.start(), 1000)
    assert problem.value_and_gradient(theta, lam)[0] == pytest.approx(least, rel=1e-4)
    assert least < objective(X, y, principal_axes(X, 2), lam, method) - 1e-3
    rng = np.random.default_rng(6)
    for size in (1e-2, 0.1, 1.0):
        for _ in range(5):
            other = np.linalg.qr((best + size * rng.standard_normal(best.shape)).T)[0].T
            assert objective(X, y, other, lam, method) > least


@RITCHIE
def test_row_space_loses_nothing(method):
    X, y = WIDE
    model = method(2, 0.5, standardize=False, max_iter=2000).fit(X, y)
    problem = method._objective(X, y, 4, 2)  # in all 90 dimensions
    theta = problem.start()
    for lam in (0.05, 0.2, 0.5, 0.5):
        theta = problem.solve(lam, theta, 2000)
    assert oracle.largest_angle(model.components_, problem.basis(theta).T) < 0.02


@RITCHIE
def test_subsample_affects_the_start_but_not_the_solution(method):
    X, y = TALL
    whole, thinned = (
        method(3, 0.2, max_samples=most, max_iter=2000).fit(X, y) for most in (1000, 40)
    )
    assert not np.array_equal(whole.components_, thinned.components_)
    assert oracle.largest_angle(whole.components_, thinned.components_) < 0.02


@RITCHIE
@pytest.mark.parametrize("lam", ["cv", "ml"])
def test_direction_that_pca_misses_is_found(method, lam):
    X, y = hidden_by_factors()
    assert np.linalg.norm(principal_axes(standardised(X), 2)[:, -1]) < 0.3
    model = method(2, lam).fit(X, y)
    assert model.lam_ > 0.05
    assert np.linalg.norm(model.components_[:, -1]) > 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_likelihood_s_lambda_is_a_fixed_point(seed):
    X, y = classes_in_noise(150, 10, 3, seed=20 + seed)
    X = standardised(X)
    model = LRPCA(2, "ml").fit(X, y)
    along = (model.transform(X) ** 2).mean()  # the variances that fit X best
    across = ((X**2).sum() - (model.transform(X) ** 2).sum()) / (len(X) * 8)
    # −2 log p(x) has ‖Lx‖² (1/across − 1/along) in it, −2 log p(y) twice the log-loss.
    assert model.lam_ == pytest.approx(2.0 / (1.0 / across - 1.0 / along), rel=1e-2)
    # The variances do maximise the likelihood: a Gaussian's, entry by entry.
    outside = (X**2).sum() / len(X) - 2 * along

    def surprise(across, along):
        return 8 * np.log(across) + outside / across + 2 * np.log(along) + 2

    least = scipy.optimize.minimize_scalar(
        lambda a: surprise(a, along), bounds=(0.1, 3.0), method="bounded", options={"xatol": 1e-8}
    )
    assert least.x == pytest.approx(across, rel=1e-5)


def test_likelihood_without_a_maximum_ends_at_the_largest_lambda():
    X, y = WIDE  # three directions of so wide data predict the labels without error
    assert LSPCA(3, "ml").fit(X, y).lam_ == ritchie.LARGEST_LAMBDA


# ---------------------------------------------------------------- Centroid-Encoder


def test_centroid_encoder_lowers_its_loss_and_restores_the_global_seed():
    import torch

    X, y = TALL
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    model = CentroidEncoder(2, n_steps=300).fit(X, y)
    assert torch.equal(torch.rand(3), expected)
    assert model.loss_ < 0.5 * model.initial_loss_
    other = CentroidEncoder(2, n_steps=300, random_state=1).fit(X, y)
    assert not np.array_equal(other.transform(X), model.transform(X))


def test_centroid_encoder_finds_classes_that_no_line_separates():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((400, 3))
    y = (np.abs(X[:, 0]) > 0.7).astype(int)  # outside and inside of a slab
    X[:, 2] += 0.3 * y  # no network could separate coinciding centroids
    accuracies = {}
    for hidden in ((), (30,)):
        Z = CentroidEncoder(1, hidden=hidden).fit(X[:300], y[:300]).transform(X)
        classifier = KNeighborsClassifier(5).fit(Z[:300], y[:300])
        accuracies[hidden] = classifier.score(Z[300:], y[300:])
    assert accuracies[()] < 0.75
    assert accuracies[(30,)] > 0.9


@PROBLEMS
def test_linear_centroid_encoder_is_reduced_rank_regression_and_below_slce(X, y):
    X = standardised(X)
    model = CentroidEncoder(2, hidden=(), n_steps=1500, learning_rate=1e-2).fit(X, y)
    C = oracle.centroid_rows(X, y)
    fit = X @ np.linalg.lstsq(X, C, rcond=None)[0]
    values = np.linalg.svd(fit, compute_uv=False)
    optimum = (((C - fit) ** 2).sum() + (values[2:] ** 2).sum()) / X.size
    constrained = oracle.loss(X, y, METHODS["SLCE"](2, 0).fit(X, y).components_) / X.size
    assert optimum * (1 - 1e-5) <= model.loss_ <= 1.02 * optimum + 1e-4
    assert model.loss_ <= constrained


# ---------------------------------------------------------------- real data


@pytest.mark.parametrize(
    ("name", "within", "paper"),
    [("PCA", 0.005, (42.43, 48.75)), ("HSIC SPCA", 0.1, (44.17, 63.59))],
)
def test_mnist_gives_the_paper_s_accuracies(data_folder, name, within, paper):
    X, y = load_set(data_folder, "mnist")
    X = X.astype(np.float64)
    Z = METHODS[name](3, 0).fit(X[:60000], y[:60000]).transform(X)
    for k, expected in zip((2, 3), paper, strict=True):
        classifier = KNeighborsClassifier(5).fit(Z[:60000, :k], y[:60000])
        accuracy = 100 * classifier.score(Z[60000:, :k], y[60000:])
        assert accuracy == pytest.approx(expected, abs=within)
