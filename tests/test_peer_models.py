"""SPPCA, SupSVD, ISPC and SFPCA, each by a property that would fail if it were wrong."""

import numpy as np
import oracle
import pytest
import scipy.optimize
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from test_peers import PROBLEMS, TALL

pytest.importorskip("torch")
from benchmarks.paper import curves
from benchmarks.peers import ISPC, SFPCA, SPPCA, SupSVD, base, sppca
from benchmarks.peers.sfpca import splines

pytestmark = pytest.mark.benchmarks

EM = pytest.mark.parametrize("method", [SPPCA, SupSVD])


def contrasts(y):
    """Labels as EM sees them, from their definition: centred, K − 1 columns, same products."""
    Y = oracle.centred((y[:, None] == np.unique(y)).astype(float))
    U, values, _ = np.linalg.svd(Y, full_matrices=False)
    return (U * values)[:, :-1]


# ---------------------------------------------------------------- SPPCA and SupSVD


@EM
@PROBLEMS
@pytest.mark.parametrize("k", [2, 3])
def test_likelihood_rises_at_every_step(method, X, y, k):
    model = method(k, max_iter=300, tol=0.0).fit(X, y)
    rises = np.diff(model.log_likelihoods_)
    assert len(rises) > 10
    assert rises.min() > -1e-11 * abs(model.log_likelihoods_[-1])
    assert model.log_likelihoods_[-1] > model.log_likelihoods_[0] + 1e-6


def density(mean, covariance, samples):
    return multivariate_normal(mean, covariance, allow_singular=False).logpdf(samples).mean()


def test_sppca_likelihood_is_that_of_the_joint_gaussian():
    X, y = TALL
    X, Y = oracle.centred(X), contrasts(y)
    moments = sppca._Moments(X, Y, X.shape[1])
    rng = np.random.default_rng(3)
    W, noise = rng.standard_normal((X.shape[1] + Y.shape[1], 2)), np.array([0.7, 0.2])
    covariance = W @ W.T + np.diag(np.repeat(noise, [X.shape[1], Y.shape[1]]))
    expected = density(np.zeros(len(covariance)), covariance, np.concatenate([X, Y], axis=1))
    assert moments.step(W, noise)[0] == pytest.approx(expected, rel=1e-12)


def test_supsvd_likelihood_is_that_of_the_conditional_gaussian():
    X, y = TALL
    model = SupSVD(2, max_iter=5, tol=0.0).fit(X, y)
    X, Y = oracle.centred(X), base.contrasts(y, 4)
    V = model.components_.T
    covariance = V * model.score_variances_ @ V.T + model.noise_ * np.eye(len(V))
    expected = density(np.zeros(len(V)), covariance, X - Y @ model.coefficients_ @ V.T)
    assert model.log_likelihoods_[-1] == pytest.approx(expected, rel=1e-10)


def profile(moments, logs, k):
    """Likelihood of the best W for two variances of noise: PCA of scaled data has it."""
    noise = np.exp(logs)
    return moments.step(moments.best_weights(noise, k), noise)[0]


@pytest.mark.parametrize("k", [1, 2])
def test_sppca_reaches_the_maximum_over_all_variances_of_noise(k):
    X, y = TALL
    model = SPPCA(k, max_iter=20000, tol=1e-13).fit(X, y)
    moments = sppca._Moments(oracle.centred(X), contrasts(y), X.shape[1])
    grid = [
        profile(moments, (a, b), k) for a in np.linspace(-2, 2, 9) for b in np.linspace(-6, 0, 13)
    ]
    best = scipy.optimize.minimize(
        lambda logs: -profile(moments, logs, k), np.log(model.noise_), method="Nelder-Mead"
    )
    assert model.log_likelihoods_[-1] >= max(grid)
    assert model.log_likelihoods_[-1] == pytest.approx(-best.fun, abs=1e-6)


def test_sppca_with_labels_of_pure_noise_is_pca():
    rng = np.random.default_rng(4)
    factors = rng.standard_normal((600, 2)) * [6.0, 4.0]
    X = factors @ np.linalg.qr(rng.standard_normal((10, 2)))[0].T + rng.standard_normal((600, 10))
    model = SPPCA(2).fit(X, rng.integers(0, 3, 600))
    assert oracle.largest_angle(rows(model.components_), PCA(2).fit(X).components_) < 0.02


def rows(components):
    return np.linalg.qr(components.T)[0].T


def planted(n=150, d=60, seed=0):
    """Two directions that the labels drive, and a stronger one that they do not."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    V = np.linalg.qr(rng.standard_normal((d, 3)))[0]
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    X = 1.3 * corners[y] @ V[:, :2].T + 4.0 * rng.standard_normal((n, 1)) @ V[:, 2:].T
    return X + rng.standard_normal((n, d)), y, V.T


def test_sppca_finds_the_planted_direction_that_pca_misses():
    """Few features, so that the labels count: a weak direction with them, a strong one without."""
    rng = np.random.default_rng(5)
    y = np.arange(900) % 4
    corners = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    X = np.concatenate([corners[y] * 1.2, 1.6 * rng.standard_normal((900, 1))], axis=1)
    X += 0.5 * rng.standard_normal(X.shape)
    # PCA's first axis is the last feature, which has no information.
    assert abs(PCA(1).fit(X).components_[0, 3]) > 0.9
    three = rows(SPPCA(3).fit(X, y).components_)
    assert np.linalg.norm(three[:, 3]) < 0.1
    assert np.linalg.norm(rows(PCA(3).fit(X).components_)[:, 3]) > 0.9


def test_supsvd_finds_planted_directions_better_than_pca():
    angles = np.array([
        [oracle.largest_angle(found, V) for found in
         (SupSVD(3).fit(X, y).components_, PCA(3).fit(X).components_)]
        for X, y, V in (planted(seed=seed) for seed in range(5))
    ])  # fmt: skip
    assert (angles[:, 0] < angles[:, 1]).all()
    assert angles[:, 0].mean() < 0.8 * angles[:, 1].mean()


@pytest.mark.parametrize("d", [12, 200])
def test_supsvd_recovers_v_of_data_without_noise(d):
    """Each column by itself: F has uncorrelated columns of different lengths."""
    rng = np.random.default_rng(6)
    y = np.arange(90) % 4
    Y = base.contrasts(y, 4)
    V = np.linalg.qr(rng.standard_normal((d, 3)))[0]
    free = rng.standard_normal((90, 3))
    free = np.linalg.qr(np.column_stack([np.ones(90), Y, free]))[0][:, -3:] * [9.0, 6.0, 3.0]
    scores = Y @ rng.standard_normal((3, 3)) * 2.0 + free
    model = SupSVD(3).fit(scores @ V.T + 5.0, y)
    cosines = np.abs(model.components_ @ V)
    np.testing.assert_allclose(np.sort(cosines.max(axis=1)), 1.0, atol=1e-6)
    np.testing.assert_allclose(np.sort(model.score_variances_), [0.1, 0.4, 0.9], rtol=1e-4)


def test_supsvd_keeps_directions_without_noise_of_their_own():
    """Where the labels explain the scores fully, S_f is zero and V is found all the same."""
    X, y, V = planted()
    rng = np.random.default_rng(7)
    X = rng.standard_normal((4, 2))[y] @ V[:2]
    model = SupSVD(2).fit(X, y)
    assert oracle.largest_angle(model.components_, V[:2]) < 1e-6
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)


# ---------------------------------------------------------------- ISPC


def latent_features(n, per_latent, seed):
    """The standard example of the authors' package, with classes: of three latents two matter.

    The second counts 0.3 of the first (there 0.5): beyond 0.41 the sum of both features, the first
    component of the two if they happen to correlate positively, is closer to the signal than
    either.
    """
    rng = np.random.default_rng(seed)
    latents = rng.standard_normal((n, 3))
    X = np.repeat(latents, per_latent, axis=1) + 0.1 * rng.standard_normal((n, 3 * per_latent))
    signal = latents @ [1.0, 0.3, 0.0] + 0.3 * rng.standard_normal(n)
    return X, (signal > 0).astype(int)


@pytest.mark.parametrize("seed", range(4))
def test_ispc_takes_features_in_the_order_of_their_signal(seed):
    X, y = latent_features(600, 1, seed)
    model = ISPC(3, random_state=seed).fit(X, y)
    assert model.n_supervised_ >= 2
    np.testing.assert_array_equal(np.abs(model.directions_[:2]), np.eye(3)[:2])


@pytest.mark.parametrize("seed", range(4))
def test_ispc_groups_features_that_share_a_signal(seed):
    X, y = latent_features(600, 2, seed)
    directions = np.abs(ISPC(2, random_state=seed).fit(X, y).directions_)
    assert np.linalg.norm(directions[0, :2]) > 0.95
    assert np.linalg.norm(directions[1, 2:4]) > 0.95


def test_ispc_does_not_use_labels_of_pure_noise():
    """The permutation test has level 0.1: in most repetitions all components are PCA's."""
    rng = np.random.default_rng(8)
    supervised = []
    for seed in range(20):
        X = rng.standard_normal((60, 30)) @ rng.standard_normal((30, 30))
        model = ISPC(2, random_state=seed).fit(X, rng.integers(0, 3, 60))
        supervised.append(model.n_supervised_)
        if not model.n_supervised_:
            expected = PCA(2).fit((X - X.mean(axis=0)) / X.std(axis=0)).components_
            assert oracle.largest_angle(model.components_, expected) < 1e-6
    assert sum(count > 0 for count in supervised) <= 6  # 2 expected, 7 or more once in 400


@PROBLEMS
def test_ispc_scores_are_those_of_the_deflated_data_and_uncorrelated(X, y):
    model = ISPC(3).fit(X, y)
    Z = model.transform(X)
    left = (X - X.mean(axis=0)) / X.std(axis=0)
    for j, direction in enumerate(model.directions_):
        values = left @ direction
        np.testing.assert_allclose(Z[:, j], values, atol=1e-8)
        left = left - np.outer(values, values @ left / (values @ values))
    products = Z.T @ Z
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-6 * products.max())


def test_ispc_separates_classes_hidden_in_noise():
    rng = np.random.default_rng(9)
    y = np.arange(300) % 3
    telling = 2.0 * rng.standard_normal((3, 6))[y] + rng.standard_normal((300, 6))
    factors = rng.standard_normal((300, 5)) @ rng.standard_normal((5, 200))
    X = np.concatenate([telling, factors + 0.3 * rng.standard_normal((300, 200))], axis=1)
    for model, least, most in ((ISPC(2), 0.8, 1.0), (PCA(2), 0.0, 0.6)):
        Z = model.fit(X[:200], y[:200]).transform(X)
        score = KNeighborsClassifier(5).fit(Z[:200], y[:200]).score(Z[200:], y[200:])
        assert least <= score <= most


# ---------------------------------------------------------------- SFPCA


def smooth_curves(n=80, points=101, seed=10):
    """Sums of three smooth functions with random coefficients."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, points)
    shapes = np.array([np.sin(2 * np.pi * t), np.cos(2 * np.pi * t), t**2])
    return t, rng.standard_normal((n, 3)) * [3.0, 1.5, 0.7] @ shapes, np.arange(n) % 3


def test_sfpca_without_labels_and_penalty_is_pca_of_the_curves():
    """Against PCA of the curves on a grid so fine that sums are integrals."""
    _, X, y = smooth_curves()
    model = SFPCA(3, 1.0, 0.0, n_basis=25).fit(X, y)
    from scipy.interpolate import BSpline

    fine = (np.arange(20000) + 0.5) / 20000
    coefficients = oracle.centred(X) @ model.basis_.smoother
    curves = BSpline(model.basis_.knots, coefficients.T, 3)(fine).T
    expected = PCA(3).fit_transform(curves) / np.sqrt(len(fine))
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(expected), atol=1e-5)
    # And, nearly, of the samples as they are, which has the trapezoidal rule's error at the ends.
    plain = PCA(3).fit_transform(X) / np.sqrt(X.shape[1])
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(plain), atol=0.15)


def test_sfpca_with_labels_alone_is_the_span_of_class_means():
    _, X, y = smooth_curves()
    model = SFPCA(2, 0.0, 0.0, n_basis=25).fit(X, y)
    means = np.stack([X[y == c].mean(axis=0) for c in range(3)]) - X.mean(axis=0)
    functions = np.linalg.pinv(model.basis_.smoother).T @ model.coefficients_.T
    assert oracle.largest_angle(rows(functions.T), rows(np.linalg.svd(means)[2][:2])) < 1e-4


def test_splines_have_the_integrals_of_their_products():
    basis = splines(np.linspace(0, 1, 60), 12)
    t = np.linspace(0, 1, 60)
    # t³ is a cubic spline: ∫ t⁶ = 1/7 and ∫ (6t)² = 12.
    coefficients = t**3 @ basis.smoother
    assert coefficients @ basis.products @ coefficients == pytest.approx(1 / 7, rel=1e-10)
    assert coefficients @ basis.roughness @ coefficients == pytest.approx(12.0, rel=1e-8)


def test_sfpca_penalty_makes_functions_smoother():
    _, X, y = smooth_curves()
    X = X + 0.5 * np.random.default_rng(11).standard_normal(X.shape)
    roughness = []
    for lam in (0.0, 1e-6, 1e-3):
        model = SFPCA(3, 1.0, lam).fit(X, y)
        c = model.coefficients_
        G = model.basis_.products + lam * model.basis_.roughness
        np.testing.assert_allclose(c @ G @ c.T, np.eye(3), atol=1e-8)
        rough = np.einsum("ij,jk,ik->i", c, model.basis_.roughness, c)
        roughness.append((rough / np.einsum("ij,jk,ik->i", c, model.basis_.products, c)).sum())
    assert roughness[0] > 1.5 * roughness[1] > 1.5 * roughness[2]


def test_sfpca_chooses_labels_that_pca_does_not_see():
    """A quick wave tells the classes; slow ones, which vary more, do not."""
    rng = np.random.default_rng(12)
    t, y = np.linspace(0, 1, 80), np.arange(240) % 2
    slow = np.array([np.sin(2 * np.pi * t), np.cos(2 * np.pi * t)])
    X = rng.standard_normal((240, 2)) @ slow + np.outer(y, np.sin(12 * np.pi * t))
    X += 0.3 * rng.standard_normal(X.shape)
    scores = {}
    for theta in ("cv", 1.0):
        model = SFPCA(1, theta).fit(X[:160], y[:160])
        Z = model.transform(X)
        classifier = KNeighborsClassifier(5).fit(Z[:160], y[:160])
        scores[model.theta_] = classifier.score(Z[160:], y[160:])
    assert min(scores) < 1.0
    assert scores[min(scores)] > 0.9
    assert scores[1.0] < 0.7


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (SFPCA(2, 1.5), "theta must be 'cv' or a number from 0 to 1; got 1.5"),
        (SFPCA(2, n_basis=3), "n_basis must be from 4 to the number of points, 101; got 3"),
        (SFPCA(2, points=[0.0, 1.0]), "points must be 101 ascending numbers"),
    ],
)
def test_sfpca_parameters_are_checked(method, words):
    _, X, y = smooth_curves()
    with pytest.raises(ValueError, match=words):
        method.fit(X, y)


# ---------------------------------------------------------------- simulated curves


@pytest.mark.parametrize("name", curves.SIMULATED)
def test_simulated_curves_are_the_same_each_time(name):
    entry = curves.SIMULATED[name]
    X, y = entry.parse()
    assert X.shape == entry.shape
    assert tuple(sorted(np.bincount(y).tolist())) == entry.counts
    assert np.array_equal(X, entry.parse()[0])


def test_classes_of_simulated_curves_differ_in_what_they_are_named_after():
    """Phase: where the largest value is. Amplitude: how large it is."""
    for name, differs in (("curves_phase", "place"), ("curves_amplitude", "height")):
        X, y = curves.SIMULATED[name].parse()
        smooth = X @ (lambda s: s @ np.linalg.pinv(s))(splines(curves.POINTS, 20).smoother)
        found = {"place": curves.POINTS[smooth.argmax(axis=1)], "height": smooth.max(axis=1)}
        for what, values in found.items():
            between = np.var([values[y == c].mean() for c in range(4)])
            within = np.mean([values[y == c].var() for c in range(4)])
            assert (between > within) == (what == differs), (name, what)
