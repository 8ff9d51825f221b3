"""criterion="separation": components in which pairs of classes overlap least."""

import copy
import dataclasses
import math
import pickle
import tracemalloc
import warnings
from functools import reduce

import numpy as np
import oracle
import pytest
import scipy.sparse
from conftest import spare_compiling
from scipy.special import log_ndtr, ndtr

import slce_xp
from slce_xp.cli import main
from slce_xp.core import _pairs, _plane_search, _planes, separating_components
from slce_xp.core._groups import Groups
from slce_xp.core._moments import moments_of
from slce_xp.core._rows import MemoryRows
from slce_xp.core._shrinkage import Spectrum


def orthonormal(rows):
    return np.linalg.qr(np.asarray(rows, np.float64).T)[0].T


def problem(n, d, n_classes, seed=1):
    """Classes that overlap, in correlated features of unlike units, far from the origin."""
    X, y = oracle.blobs(n, d, n_classes, seed=seed, separation=1.0)
    mixing = np.random.default_rng(seed).standard_normal((d, d))
    return X @ mixing * np.geomspace(1, 1e3, d) + 10.0 * np.arange(d), y


# ---------------------------------------------------------------- the K × K problem


@pytest.mark.parametrize(("n_classes", "p"), [(3, 1), (4, 2), (5, 2)])
def test_the_best_plane_is_that_of_a_general_optimiser(n_classes, p):
    rng = np.random.default_rng(n_classes)
    means = 2.0 * rng.standard_normal((n_classes, n_classes - 1))
    shares = rng.random(n_classes) + 0.2
    shares /= shares.sum()
    found = _planes.best_plane(means, shares, p)
    expected = oracle.separating_plane(means, shares, p)
    error = 1 - oracle.separation(means @ expected, shares)
    assert found.log_error == pytest.approx(math.log(error), abs=1e-7)
    assert found.log_bound <= math.log(error) + 1e-12
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(p), atol=1e-12)


def test_no_plane_beats_the_bound():
    rng = np.random.default_rng(0)
    means, shares = 3.0 * rng.standard_normal((8, 7)), np.full(8, 1 / 8)
    found = _planes.best_plane(means, shares, 2)
    for _ in range(300):
        plane = np.linalg.qr(rng.standard_normal((7, 2)))[0]
        assert 1 - oracle.separation(means @ plane, shares) > math.exp(found.log_bound)


def test_classes_that_are_far_apart_are_still_told_from_nearer_ones():
    """Errors of 1e-300 and less: only their logarithm can be compared."""
    means = 60.0 * np.eye(4)[:, :3] * [1.0, 1.5, 2.0]
    found = _planes.best_plane(means, np.full(4, 0.25), 2)
    assert -math.inf < found.log_bound <= found.log_error < -400
    # In the plane of the two largest axes, classes 0 and 3 would coincide.
    nearest = np.linalg.norm((means @ found.basis)[:, None] - means @ found.basis, axis=2)
    assert nearest[np.triu_indices(4, 1)].min() > 50


def test_near_classes_that_hardly_count_leave_the_error_of_far_ones():
    means, shares = np.array([[0.0], [0.1], [60.0], [150.0]]), np.array([1e-200, 1.0, 1.0, 1.0])
    listed, _ = _pairs.pairs_of(means, shares / 3.0, 1)
    error, _ = listed.errors_and_pulls(listed.squares(means))
    expected = np.logaddexp(log_ndtr(-0.05) + math.log(1e-200), log_ndtr(-29.95)) - math.log(3.0)
    assert error == pytest.approx(expected, rel=1e-12)


def test_classes_with_the_same_mean_are_no_obstacle():
    means = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 1.0], [-2.0, 5.0]])
    found = _planes.best_plane(means, np.full(4, 0.25), 1)
    other = oracle.separating_plane(means, np.full(4, 0.25), 1)
    expected = 1 - oracle.separation(means @ other, np.full(4, 0.25))
    assert math.exp(found.log_error) == pytest.approx(expected, abs=1e-8)


def test_pairs_of_many_classes_are_drawn_and_the_bound_is_that_of_all(monkeypatch):
    rng = np.random.default_rng(0)
    means, shares = 1.5 * rng.standard_normal((150, 8)), rng.random(150) + 0.2
    shares /= shares.sum()
    every = _planes.best_plane(means, shares, 2)
    monkeypatch.setattr(_pairs, "MOST_PAIRS", 3000)
    monkeypatch.setattr(_pairs, "BLOCK_NUMBERS", 500)
    some, are_all = _pairs.pairs_of(means, shares, 2)
    assert not are_all
    assert 1500 < len(some) < 4500
    found = _planes.best_plane(means, shares, 2)
    error = 1 - oracle.separation(means @ found.basis, shares)
    assert math.exp(found.log_error) == pytest.approx(error, rel=1e-9)
    assert error < 1.05 * math.exp(every.log_error)
    # No plane is below: not the best one, which was found by all pairs.
    assert math.exp(found.log_bound) <= math.exp(every.log_error)
    assert error - math.exp(found.log_bound) < 0.1


@pytest.mark.parametrize(("n_classes", "block"), [(6, _pairs.BLOCK_NUMBERS), (20, 400)])
def test_pulls_and_their_gradient_are_derivatives(monkeypatch, n_classes, block):
    rng = np.random.default_rng(0)
    means, shares = rng.standard_normal((n_classes, 5)), rng.random(n_classes)
    listed, _ = _pairs.pairs_of(means, shares / shares.sum(), 2)
    monkeypatch.setattr(_pairs, "BLOCK_NUMBERS", block)  # two columns at a time
    for scale in (1.0, 100.0):  # in the latter all errors underflow
        factor, turned = scale * rng.standard_normal((2, 5, 5))

        def log_error(step, factor=factor, turned=turned):
            squares = listed.squares(means @ factor) + step * listed.squares(means @ turned)
            return listed.errors_and_pulls(squares)[0]

        slope = (log_error(1e-6) - log_error(-1e-6)) / 2e-6
        tangent = listed.tangent(factor)
        expected = -np.sum(tangent.gradient * (turned @ turned.T))
        assert slope == pytest.approx(expected, rel=1e-5)
        inner = np.sum(tangent.gradient * (factor @ factor.T))
        assert tangent.inner == pytest.approx(inner, rel=1e-9)


def test_the_tangent_of_all_pairs_is_joined_from_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    means, shares = rng.standard_normal((9, 4)), rng.random(9)
    means[5] = means[2]  # they have slack: they coincide, but for rounding
    means[5, 0] += 1e-10
    factor = rng.standard_normal((4, 4))
    (whole,) = _pairs.every_pair(means, shares)
    expected = whole.tangent(factor)
    monkeypatch.setattr(_pairs, "BLOCK_NUMBERS", 20)
    blocks = list(_pairs.every_pair(means, shares))
    assert len(blocks) == 4
    found = reduce(_pairs.Tangent.joined, (block.tangent(factor) for block in blocks))
    assert found.slack > 0.0
    for value, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, exact, rtol=1e-9)
    assert found.bound(2) == pytest.approx(expected.bound(2), rel=1e-9)
    assert _pairs.error_of_all(means @ factor, shares) == pytest.approx(expected.log_error)


def test_tangents_bound_all_planes_where_means_coincide():
    rng = np.random.default_rng(0)
    means, shares = rng.standard_normal((9, 4)), rng.dirichlet(np.ones(9))
    means[:2] *= [0.0, 0.0, 0.3, 0.0]  # they coincide along the first two axes
    listed, _ = _pairs.pairs_of(means, shares, 2)
    tangent = listed.tangent(np.eye(4, 2))
    assert tangent.slack > 0.0
    assert -math.inf < tangent.bound(2) < _planes.best_plane(means, shares, 2).log_error


@pytest.mark.parametrize(("n_classes", "seed"), [(6, 13), (8, 14), (8, 41), (8, 43), (30, 0)])
def test_descents_end_where_nothing_is_left_to_descend(n_classes, seed):
    rng = np.random.default_rng(seed)
    means = 1.5 * rng.standard_normal((n_classes, n_classes - 1))
    shares = np.full(n_classes, 1 / n_classes)
    found = _planes.best_plane(means, shares, 2)
    listed, _ = _pairs.pairs_of(means, shares, 2)
    _, slopes = _plane_search._errors_and_slopes(listed, found.basis[None])
    assert np.linalg.norm(slopes) < 1e-4


@pytest.mark.parametrize("p", [1, 3])
def test_slopes_are_derivatives_whatever_spans_the_planes(p):
    rng = np.random.default_rng(p)
    listed, _ = _pairs.pairs_of(rng.standard_normal((7, 6)), np.full(7, 1 / 7), p)
    columns, step = rng.standard_normal((2, 4, 6, p))
    errors, slopes = _plane_search._errors_and_slopes(listed, columns)
    assert errors.shape == (4,)
    ahead, _ = _plane_search._errors_and_slopes(listed, columns + 1e-6 * step)
    behind, _ = _plane_search._errors_and_slopes(listed, columns - 1e-6 * step)
    found = np.sum(slopes * step, axis=(1, 2))
    np.testing.assert_allclose(found, (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-8)


def test_a_descent_ends_at_once_where_the_error_is_flat():
    listed, _ = _pairs.pairs_of(np.array([[3.0, 0.0], [-3.0, 0.0]]), np.full(2, 0.5), 1)
    for basis in ([[1.0, 0.0]], [[0.0, 1.0]]):  # the minimum and the maximum
        found = _plane_search._descended(listed, np.array(basis).T[None], 10)
        np.testing.assert_array_equal(np.abs(found[0].T), basis)


def test_signs_of_the_axes_do_not_matter_to_the_plane():
    """Libraries and forms find the same discriminants but for those."""
    rng, shares = np.random.default_rng(0), np.full(12, 1 / 12)
    for _ in range(30):
        means = 4.0 * rng.standard_normal((12, 8)) * np.geomspace(1.0, 0.3, 8)
        found = _planes.best_plane(means, shares, 2)
        flipped = _planes.best_plane(means * rng.choice([-1.0, 1.0], 8), shares, 2)
        assert flipped.log_error == pytest.approx(found.log_error, abs=1e-8)


@pytest.mark.parametrize("kind", ["line", "same", "flat", "rare"])
def test_means_of_fewer_dimensions_than_axes_are_no_obstacle(kind):
    rng = np.random.default_rng(0)
    means, shares = rng.standard_normal((9, 6)), rng.dirichlet(np.full(9, 0.1)) + 1e-12
    if kind == "line":
        means = np.outer(means[:, 0], means[0])
    elif kind == "same":
        means[2:] = means[rng.integers(0, 2, 7)]
    elif kind == "flat":
        means[:, 3:] = 0.0
    else:  # classes of small weight are far away
        means /= np.sqrt(shares)[:, None]
    shares /= shares.sum()
    found = _planes.best_plane(means, shares, 3)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(3), atol=1e-12)
    expected = 1 - oracle.separation(means @ found.basis, shares)
    assert found.error == pytest.approx(expected, abs=1e-12)
    assert found.log_bound <= found.log_error


def test_a_plane_of_drawn_pairs_is_no_worse_than_the_leading_axes():
    rng = np.random.default_rng(350)
    means, shares = 30.0 * rng.standard_normal((350, 40)), np.full(350, 1 / 350)
    means -= means.mean(axis=0)
    means = means @ np.linalg.eigh(means.T @ means)[1][:, ::-1]
    axes = _pairs.error_of_all(means[:, :3], shares)
    assert _planes.best_plane(means, shares, 3).log_error <= axes


@pytest.mark.parametrize("most", [_pairs.MOST_PAIRS, 5])
def test_the_bound_holds_if_some_means_are_nearly_the_same_beside_others(monkeypatch, most):
    """The square of their distance is less than rounding of the others'."""
    monkeypatch.setattr(_pairs, "MOST_PAIRS", most)
    far = 1e7
    means = np.array([[0, 0, 0], [1, 2.0, 0], [far, 0, 0], [0, 0, far], [far, far, far]])
    shares = np.full(5, 0.2)
    found = _planes.best_plane(means, shares, 1)
    near = np.array([[1.0 + 1e-4, 2.0, 2e-4]])
    near /= np.linalg.norm(near)
    better = 1 - oracle.separation(means @ near.T, shares)
    assert math.exp(found.log_bound) <= better


def test_errors_in_all_dimensions_do_not_cancel():
    means = np.array([[0.0, 0.0], [1.0, 2.0], [1e8, 0.0], [0.0, 1e8]]) + 1e8
    found = _planes.best_plane(means, np.full(4, 0.25), 2)
    expected = log_ndtr(-0.5 * math.sqrt(5.0)) - math.log(6.0)
    assert found.log_error == pytest.approx(expected, abs=1e-12)
    assert _pairs.confused_most(means, 1)[0][2] == pytest.approx(ndtr(-0.5 * math.sqrt(5.0)))


def test_thousands_of_classes_in_bounded_memory():
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 1500
    X = (2.0 * rng.standard_normal((1500, 6)))[y] + rng.standard_normal((3000, 6))
    tracemalloc.start()
    model = slce_xp.fit(X, y, 2, criterion="separation")
    assert len(model.confusions) == 100
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 1500 * 1500 * 4  # a few matrices of all pairs would be more
    shares = np.full(1500, 1 / 1500)
    separation = oracle.separation(model.transform(model.centroids), shares)
    assert model.separation == pytest.approx(separation, abs=1e-9)


# ---------------------------------------------------------------- shrinkage


@pytest.mark.parametrize("form", ["scatter", "gram"])
@pytest.mark.parametrize("step", [200.0, 1e5, 1e7, 1e9])
def test_features_that_nearly_tell_the_class_by_themselves_are_not_lost(form, step):
    """From 1e7 on, what they vary within classes is rounding of what they do between."""
    rng, y = np.random.default_rng(0), np.repeat(np.arange(5), 50)
    X = np.stack([step * y + rng.standard_normal(250), rng.standard_normal(250)], axis=1)
    X = X if step > 1e6 else X.astype(np.float32)  # sums are float64 in either case
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = separating_components(X, y, 5, 1, form=form)
    messages = [str(warning.message) for warning in caught]
    words = "1 of 2 features (the first is number 0) vary within"
    assert [words in message for message in messages] == [True] * (step > 1e6)
    assert found.separation > 0.99
    centroids = np.stack([X[y == j].mean(axis=0) for j in range(5)]) @ found.components.T
    nearest = np.abs(X @ found.components.T - centroids.T).argmin(axis=1)
    assert (nearest == y).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_gram_form_raises_a_shrinkage_that_it_cannot_divide_by(dtype):
    rng, y = np.random.default_rng(0), np.repeat(np.arange(7), 24)
    X = 5 * rng.standard_normal((7, 2))[y] + rng.standard_normal((168, 2))
    X = X.astype(dtype)
    expected = separating_components(X, y, 7, 2, form="scatter", shrinkage=0.0)
    with pytest.warns(UserWarning, match="less than the Gram form can divide by"):
        found = separating_components(X, y, 7, 2, form="gram", shrinkage=0.0)
    assert found.shrinkage == pytest.approx(math.sqrt(np.finfo(np.float64).eps))
    assert found.separation == pytest.approx(expected.separation, abs=1e-4)
    mixed = np.abs(found.components @ np.linalg.pinv(expected.components))
    np.testing.assert_allclose(mixed, np.eye(2), atol=1e-2)


def test_the_distance_of_unseen_samples_is_that_of_samples_left_out():
    """Each sample along the discriminants of the others, with n of the size of d."""
    X, y = oracle.blobs(150, 40, 3, seed=3, separation=1.0)
    covariance, means, shares = oracle.within_covariance(X, y)
    spread = np.sqrt(np.diag(covariance))
    X, means = X / spread, means / spread
    covariance = covariance / np.outer(spread, spread)
    for shrinkage in (0.05, 0.5):
        left, between = 0.0, 0.0
        for i in range(len(X)):
            others = np.arange(len(X)) != i
            inside, centred, rest = oracle.within_covariance(X[others], y[others])
            metric = (1 - shrinkage) * inside + shrinkage * np.eye(40)
            discriminants = np.linalg.solve(metric, centred.T)
            deviation = X[i] - (X[others].mean(axis=0) + centred[y[i]])
            left += ((deviation @ discriminants) ** 2) @ rest
            between += (X[i] - X[others].mean(axis=0)) @ discriminants[:, y[i]]
        expected = between / len(X) / np.sqrt(left / len(X))
        found, _ = oracle.unseen_distance(covariance, means, shares, len(X), shrinkage)
        assert found == pytest.approx(expected, rel=0.1)


def test_smooth_images_are_shrunk_more_than_their_covariance_asks_for():
    """Few samples of many correlated features: discriminants fit noise unless they are shrunk."""
    rng = np.random.default_rng(0)
    ramp = np.minimum(np.arange(1, 61), 60)
    drift = np.cumsum(rng.standard_normal((150, 60)), axis=1) / np.sqrt(ramp)
    y = np.arange(150) % 5
    waves = np.sin(np.linspace(0, np.pi, 60) * np.arange(1, 6)[:, None])
    X = drift + 0.5 * waves[y] + 0.1 * rng.standard_normal((150, 60))
    train, test = np.arange(0, 75), np.arange(75, 150)
    model = slce_xp.fit(X[train], y[train], criterion="separation")
    covariance, _, _ = oracle.within_covariance(X[train], y[train])
    spread = np.sqrt(np.diag(covariance))
    assert model.shrinkage > 2 * oracle.oas(covariance / np.outer(spread, spread), 75)
    plain = slce_xp.fit(X[train], y[train], criterion="separation", shrinkage=1e-6)
    right = [np.mean(m.predict(X[test]) == y[test]) for m in (model, plain)]
    assert right[0] > right[1] + 0.05


def test_a_singular_metric_is_reported():
    X, y = problem(12, 30, 3)
    with pytest.warns(UserWarning, match="leaves the covariance within classes singular"):
        slce_xp.fit(X, y, criterion="separation", shrinkage=0)


def test_classes_of_one_sample_each_are_as_far_apart_as_the_diagonal_says():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    with pytest.warns(UserWarning, match="2 of 2 features"):  # their spread is not known
        model = slce_xp.fit(X, [0, 1, 2], criterion="separation")
    assert model.shrinkage == 1.0
    assert model.predict(X).tolist() == [0, 1, 2]


@pytest.mark.parametrize("rank", [10, 400])
def test_traces_and_systems_are_those_of_the_inverse(xp, rank):
    rng = np.random.default_rng(rank)
    samples, right = rng.standard_normal((rank, 60)), rng.standard_normal((60, 2))
    matrix, right = xp.held(samples.T @ samples / rank), xp.held(right)
    spectrum = Spectrum(xp.array(matrix.copy()), xp.array(right), 60)
    close = {"rtol": xp.tolerance(1e-9, 1e-3), "atol": xp.tolerance(1e-9, 2e-4)}
    assert spectrum.rank(xp.tolerance(1e-12, 1e-6)) == min(rank, 60)
    shifts = np.array([0.3, 1.0, 20.0])
    inverses = [np.linalg.inv(matrix + s * np.eye(60)) for s in shifts]
    expected = [
        [np.trace(matrix @ inverse) for inverse in inverses],
        [np.trace(right.T @ inverse @ right) for inverse in inverses],
        [np.trace(right.T @ inverse @ matrix @ inverse @ right) for inverse in inverses],
    ]
    np.testing.assert_allclose(spectrum.traces(shifts), expected, **close)
    for weight in (0.5, 1.0):
        inverse = np.linalg.inv((1 - weight) * matrix + weight * np.eye(60))
        found = spectrum.vectors @ (spectrum.right / spectrum.metric(weight))
        np.testing.assert_allclose(xp.numpy(found), inverse @ right, **close)


def test_a_weight_below_rounding_is_enough():
    line = np.linspace(1.0, 2.0, 150)
    spectrum = Spectrum(np.outer(line, line), np.ones((150, 1)), 150)
    assert np.isfinite(spectrum.right / spectrum.metric(1e-18)).all()


# ---------------------------------------------------------------- components


@pytest.mark.parametrize("form", ["scatter", "gram"])
@pytest.mark.parametrize(
    ("n", "d", "p", "weighted"),
    [(120, 8, 2, False), (120, 8, 3, True), (30, 50, 2, True), (30, 50, 3, False)],
)
def test_components_agree_with_the_oracle(xp, form, n, d, p, weighted):
    if weighted or (form == "scatter") != (n > d):
        spare_compiling(xp)
    X, y = problem(n, d, 4)
    weights = np.random.default_rng(0).random(n) + 0.1 if weighted else None
    found = separating_components(
        xp.array(X), xp.array(y), 4, p, form=form,
        weights=None if weights is None else xp.array(weights),
    )  # fmt: skip
    components, metric, shrinkage, separation = oracle.separating(xp.held(X), y, p, weights)
    assert 0.01 < shrinkage < 0.99
    assert found.shrinkage == pytest.approx(shrinkage, rel=xp.tolerance(1e-10, 1e-3))
    assert found.separation == pytest.approx(separation, abs=xp.tolerance(1e-6, 1e-3))
    A = xp.numpy(found.components)
    spread = np.sqrt(np.diag(metric))
    # In units of the spread: an angle between features of unlike units means little.
    angle = oracle.largest_angle(orthonormal(A * spread), orthonormal(components * spread))
    assert angle <= (xp.tolerance(1e-9, 2e-3) if p == 3 else xp.tolerance(1e-3, 1e-2))
    np.testing.assert_allclose(A @ metric @ A.T, np.eye(p), atol=xp.tolerance(1e-9, 1e-2))
    np.testing.assert_allclose(
        xp.numpy(found.patterns) / spread, A @ metric / spread, atol=xp.tolerance(1e-9, 1e-2)
    )
    assert 0 <= found.gap < 0.1


def test_constant_features_change_nothing():
    X, y = problem(90, 6, 3)
    constant = np.column_stack([np.full(90, 7.1), X, np.full(90, -1e6)])
    plain = separating_components(X, y, 3, 2)
    for form in ("scatter", "gram"):
        found = separating_components(constant, y, 3, 2, form=form)
        assert found.shrinkage == pytest.approx(plain.shrinkage, rel=1e-9)
        np.testing.assert_array_equal(found.components[:, [0, -1]], 0.0)
        np.testing.assert_allclose(found.components[:, 1:-1], plain.components, rtol=1e-7)


@pytest.mark.parametrize("form", ["scatter", "gram"])
@pytest.mark.parametrize("distance", [1e2, 1e5, 1e8])
def test_a_feature_far_from_the_origin_changes_nothing(form, distance):
    X, y = problem(40, 60, 3)
    X -= X.mean(axis=0)
    X[:, 7] += distance * X[:, 7].std()
    X[:, 8] = distance  # constant: it has no digits to keep
    constant = separating_components(X, y, 3, 2, form=form)
    without = np.delete(X, 8, axis=1)
    without[:, 7] -= without[:, 7].mean()
    expected = separating_components(without, y, 3, 2, form=form)
    spread = without.std(axis=0)
    found = np.delete(constant.components, 8, axis=1) * spread
    np.testing.assert_allclose(found, expected.components * spread, atol=1e-15 * distance + 1e-9)
    assert constant.components[0, 8] == 0.0


@pytest.mark.parametrize("form", ["scatter", "gram"])
def test_means_on_a_line_have_one_dimension(xp, form):
    spare_compiling(xp)
    rng = np.random.default_rng(0)
    base, step = rng.standard_normal((30, 12)), rng.standard_normal(12)
    X = np.concatenate([base, base + step, base + 3.0 * step])
    found = separating_components(xp.array(X), xp.array(np.repeat([0, 1, 2], 30)), 3, 2, form=form)
    assert found.components.shape[0] == 1


def test_units_of_features_change_nothing():
    X, y = problem(90, 6, 3)
    units = 10.0 ** np.arange(-6, 6, 2)
    plain = separating_components(X, y, 3, 1)
    found = separating_components(X * units, y, 3, 1)
    assert found.separation == pytest.approx(plain.separation, abs=1e-9)
    np.testing.assert_allclose(
        np.abs(found.components * units), np.abs(plain.components), rtol=1e-4
    )


def test_a_feature_that_does_not_vary_within_classes_separates_them():
    X, y = problem(60, 4, 2)
    without = separating_components(X, y, 2, 1)
    X[:, 2] = 5.0 + y
    with pytest.warns(UserWarning, match=r"1 of 4 features \(the first is number 2\)"):
        found = separating_components(X, y, 2, 1)
    assert 1 - found.separation < 0.1 * (1 - without.separation)
    assert np.abs(found.components[0] * X.std(axis=0)).argmax() == 2


@pytest.mark.parametrize("shrinkage", [-0.1, 1.5, math.nan, "lots", True, None])
def test_shrinkage_is_a_share(shrinkage):
    X, y = problem(30, 4, 2)
    with pytest.raises((ValueError, TypeError), match="shrinkage must be 'auto' or a number"):
        separating_components(X, y, 2, 1, shrinkage=shrinkage)


@pytest.mark.parametrize("form", ["scatter", "gram"])
def test_class_means_that_agree_are_an_error(form):
    half = np.random.default_rng(0).standard_normal((30, 5)) + 1.0
    for X in (np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.concatenate([half, half])):
        with pytest.raises(ValueError, match="classes whose means differ"):
            separating_components(X, np.repeat([0, 1], len(X) // 2), 2, 1, form=form)


# ---------------------------------------------------------------- models


def fitted(xp=None, p=2, n=120, d=8, n_classes=4, **how):
    X, y = problem(n, d, n_classes)
    X = X if xp is None else xp.array(X)
    return slce_xp.fit(X, y, p, criterion="separation", **how)


@pytest.mark.parametrize("solver", ["auto", "scatter", "gram"])
def test_fit_agrees_with_the_oracle(xp, solver):
    if solver != "auto":
        spare_compiling(xp)
    X, y = problem(40, 60, 4)
    model = slce_xp.fit(xp.array(X), y, 3, criterion="separation", solver=solver)
    components, metric, shrinkage, separation = oracle.separating(xp.held(X), y, 3)
    assert model.solver == ("gram" if solver == "auto" else solver)
    assert model.criterion == "separation"
    assert model.shrinkage == pytest.approx(shrinkage, rel=xp.tolerance(1e-10, 1e-3))
    assert model.separation == pytest.approx(separation, abs=xp.tolerance(1e-9, 1e-4))
    spread = np.sqrt(np.diag(metric))
    angle = oracle.largest_angle(
        orthonormal(xp.numpy(model.components) * spread), orthonormal(components * spread)
    )
    assert angle <= xp.tolerance(1e-9, 5e-3)


def test_the_default_criterion_is_the_centroid():
    X, y = problem(90, 6, 3)
    plain, named = slce_xp.fit(X, y), slce_xp.fit(X, y, criterion="centroid", shrinkage=0.5)
    np.testing.assert_array_equal(plain.components, named.components)
    assert plain.criterion == "centroid"
    assert plain.shrinkage is plain.separation is plain.patterns is None


def test_every_kind_of_data_has_the_same_model(tmp_path):
    X, y = problem(120, 8, 4)
    expected = slce_xp.fit(X, y, 2, criterion="separation")
    np.save(tmp_path / "X.npy", X)
    batches = slce_xp.SLCE(2, criterion="separation")
    others = slce_xp.SLCE(2, criterion="separation")
    for part in np.array_split(np.arange(60), 3):
        batches.partial_fit(X[part], y[part])
    others.partial_fit(X[60:], y[60:])
    models = {
        "sparse": slce_xp.fit(scipy.sparse.csr_array(X), y, 2, criterion="separation"),
        "file": slce_xp.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y, 2,
                            criterion="separation"),
        "batches": batches.merge(others).model_,
        "estimator": slce_xp.SLCE(2, criterion="separation").fit(X, y).model_,
        "float32": slce_xp.fit(X.astype(np.float32), y, 2, criterion="separation"),
    }  # fmt: skip
    spread = X.std(axis=0)
    for name, model in models.items():
        angle = oracle.largest_angle(
            orthonormal(model.components * spread), orthonormal(expected.components * spread)
        )
        assert angle < (1e-2 if name == "float32" else 1e-5), name
        assert model.separation == pytest.approx(expected.separation, abs=1e-4), name
        assert model.criterion == "separation"


@pytest.mark.parametrize("solver", ["scatter", "gram"])
def test_a_file_of_wide_data(tmp_path, solver):
    X, y = problem(30, 80, 3)
    np.save(tmp_path / "X.npy", X)
    rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = slce_xp.fit(rows, y, criterion="separation", solver=solver)
    expected = slce_xp.fit(X, y, criterion="separation", solver="scatter")
    np.testing.assert_allclose(found.components * X.std(0), expected.components * X.std(0),
                               atol=1e-8)  # fmt: skip


def test_dask():
    array = pytest.importorskip("dask.array")
    X, y = problem(30, 50, 3)
    chunks = array.from_array(X, chunks=(10, 50))
    found = slce_xp.fit(chunks, y, criterion="separation")
    expected = slce_xp.fit(X, y, criterion="separation")
    spread = X.std(axis=0)
    np.testing.assert_allclose(found.components * spread, expected.components * spread, atol=1e-8)
    with pytest.raises(ValueError, match="solver must be 'auto' or 'scatter'"):
        slce_xp.fit(chunks, y, criterion="separation", solver="gram")
    with pytest.raises(TypeError, match="X must not be a Dask array to be classified"):
        found.predict(chunks)


def test_a_weight_of_two_duplicates_a_sample():
    X, y = problem(60, 5, 3)
    twice = np.arange(60) % 3 == 0
    weighted = slce_xp.fit(X, y, 2, criterion="separation", sample_weight=1.0 + twice)
    doubled = slce_xp.fit(np.concatenate([X, X[twice]]), np.concatenate([y, y[twice]]), 2,
                          criterion="separation")  # fmt: skip
    assert weighted.shrinkage == pytest.approx(doubled.shrinkage, rel=1e-10)
    np.testing.assert_allclose(weighted.components, doubled.components, rtol=1e-7)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"n_components": 4}, "n_components must be an integer from 1 to 3 .*'separation'"),
        ({"n_components": 1.5}, "n_components must be an integer from 1 to 3"),
        ({"solver": "krylov"}, "solver must be 'auto', 'scatter' or 'gram' for criterion"),
        ({"criterion": "margin"}, "criterion must be 'centroid' or 'separation'; got 'margin'"),
        ({"shrinkage": 2}, "shrinkage must be 'auto' or a number from 0 to 1; got 2"),
        ({"unlabeled": 0}, "unlabeled must mark no sample for criterion='separation'; it marks"),
    ],
)
def test_what_it_refuses(how, message):
    X, y = problem(60, 6, 4 + ("unlabeled" in how))
    with pytest.raises((ValueError, TypeError), match=message) as error:
        slce_xp.fit(X, y, **{"criterion": "separation", **how})
    assert error.value.parameter == next(iter(how))


def test_batches_with_samples_without_a_label_are_refused():
    X, y = problem(60, 6, 4)
    batches = slce_xp.SLCE(criterion="separation", unlabeled=0).partial_fit(X, y)
    with pytest.raises(ValueError, match="unlabeled must mark no sample"):
        batches.transform(X)


def test_embeddings_have_unit_spread_within_classes():
    X, y = problem(4000, 5, 4)
    model = slce_xp.fit(X, y, criterion="separation", shrinkage=0)
    Z = model.transform(X)
    residuals = Z - np.stack([Z[y == label].mean(axis=0) for label in range(4)])[y]
    np.testing.assert_allclose(residuals.T @ residuals / len(X), np.eye(3), atol=1e-9)
    assert model.shrinkage < 1e-13


def test_inverse_transform_is_undone_and_centroids_are_reconstructed(xp):
    model = fitted(xp, p=3)
    Z = np.random.default_rng(0).standard_normal((7, 3))
    back = model.transform(model.inverse_transform(xp.array(Z)))
    np.testing.assert_allclose(xp.numpy(back), Z, atol=xp.tolerance(1e-9, 1e-2))
    centroids = xp.numpy(model.centroids)
    again = xp.numpy(model.reconstruct(model.centroids))
    scale = np.abs(centroids - xp.numpy(model.mean)).max(axis=0)
    np.testing.assert_allclose(again / scale, centroids / scale, atol=xp.tolerance(1e-9, 1e-2))


def test_scaled_columns_are_restored():
    X, y = problem(120, 8, 4)
    scale = X.std(axis=0)
    model = slce_xp.fit(X / scale, y, criterion="separation").unscaled(scale)
    np.testing.assert_allclose(model.reconstruct(model.centroids), model.centroids, rtol=1e-9)


def test_confusions_are_those_of_the_embedding():
    model = fitted(p=2)
    means = model.transform(model.centroids)
    assert len(model.confusions) == 6
    overlaps = [overlap for _, _, overlap in model.confusions]
    assert overlaps == sorted(overlaps, reverse=True)
    for first, second, overlap in model.confusions:
        distance = np.linalg.norm(means[first] - means[second])
        assert overlap == pytest.approx(0.5 * math.erfc(distance / (2 * math.sqrt(2))), rel=1e-9)
    shares = model.weights / model.weights.sum()
    assert oracle.separation(means, shares) == pytest.approx(model.separation, abs=1e-9)


@pytest.mark.parametrize(
    "name", ["loss", "loss_curve", "loss_shares", "component_losses", "eigenvalue_bounds"]
)
def test_there_is_no_loss(name):
    with pytest.raises(ValueError, match=f"{name} needs criterion='centroid'"):
        getattr(fitted(), name)


def test_the_model_says_what_it_is():
    text = str(fitted())
    assert "separation   89.98 % of pairs" in text
    assert "shrinkage    0." in text
    assert "confused     most: " in text
    assert "loss" not in text


def test_the_gap_is_computed_when_it_is_asked_for(monkeypatch):
    model = fitted()
    expected = copy.deepcopy(model).separation_gap
    monkeypatch.setattr(_planes, "_relax", None)  # never again
    unasked = pickle.loads(pickle.dumps(model))
    assert unasked.separation_gap == expected == model.to("numpy").separation_gap
    assert 0 < expected < 0.1


def test_a_file_has_the_criterion(tmp_path):
    model = fitted()
    model.save(tmp_path / "model.npz")
    loaded = slce_xp.load(tmp_path / "model.npz")
    for name in ("criterion", "shrinkage", "separation", "separation_gap"):
        assert getattr(loaded, name) == getattr(model, name)
    np.testing.assert_array_equal(loaded.patterns, model.patterns)
    assert str(loaded) == str(model)


def test_a_damaged_criterion_is_refused(tmp_path):
    model = dataclasses.replace(fitted(), patterns=None)
    model.save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="damaged or not a model"):
        slce_xp.load(tmp_path / "model.npz")


# ---------------------------------------------------------------- classification


def test_predictions_are_those_of_discriminant_analysis(xp):
    """With all components and no shrinkage: LDA, whose probabilities are known."""
    discriminant_analysis = pytest.importorskip("sklearn.discriminant_analysis")
    X, y = problem(200, 6, 4)
    model = slce_xp.fit(xp.array(X), y, criterion="separation", shrinkage=0)
    lda = discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    found = xp.numpy(model.predict_proba(xp.array(X)))
    np.testing.assert_allclose(found, lda.predict_proba(X), atol=xp.tolerance(1e-7, 2e-2))
    assert np.mean(model.predict(xp.array(X)) == lda.predict(X)) > xp.tolerance(0.999, 0.97)


def test_the_default_criterion_predicts_the_nearest_centroid():
    X, y = problem(90, 6, 3)
    names = np.array(["one", "two", "three"])[y]
    model = slce_xp.fit(X, names, 1)
    Z, means = model.transform(X), model.transform(model.centroids)
    nearest = np.abs(Z - means.T).argmin(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes[nearest])
    assert (model.predict_proba(X).argmax(axis=1) == nearest).all()


@pytest.mark.parametrize("solver", ["scatter", "gram", "krylov"])
@pytest.mark.parametrize("unlabeled", [None, -1])
def test_probabilities_of_the_default_criterion_are_those_of_gaussians(xp, solver, unlabeled):
    X, y = problem(90, 120, 4)
    if unlabeled is not None:
        y = np.where(np.arange(90) % 3 == 0, unlabeled, y)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 90)
    has_label, codes = y >= 0, np.maximum(y, 0)
    model = slce_xp.fit(
        xp.array(X), y, solver=solver, unlabeled=unlabeled, sample_weight=weights
    ).to("numpy")
    Z, means = model.transform(X), model.transform(model.centroids)
    squares = ((Z[:, None] - means) ** 2).sum(axis=2)
    within = (weights * squares[np.arange(90), codes])[has_label].sum()
    spread = np.sqrt(within / (weights[has_label].sum() * model.n_components))
    assert model.spread == pytest.approx(spread, rel=xp.tolerance(1e-10, 1e-4))
    likelihoods = scipy.stats.norm.pdf(Z[:, None], means, spread).prod(axis=2)
    expected = likelihoods / likelihoods.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=xp.tolerance(1e-8, 1e-3))


def test_a_fraction_of_the_separation_takes_the_fewest_components():
    X, y = problem(300, 12, 7)
    models = [slce_xp.fit(X, y, k, criterion="separation") for k in range(1, 7)]
    reached = [(m.separation - 0.5) / (models[-1].separation - 0.5) for m in models]
    assert np.diff(reached).min() > 0.0
    for k, share in enumerate(reached[:-1], 1):
        for factor, expected in ((1 - 1e-9, k), (1 + 1e-9, k + 1)):
            found = slce_xp.fit(X, y, share * factor, criterion="separation")
            assert found.n_components == expected
    assert slce_xp.fit(X, y, "positive", criterion="separation").n_components == 6
    flat = np.repeat(X[:, :2], 6, axis=1)
    assert slce_xp.fit(flat, y, "positive", criterion="separation").n_components == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_classes_do_not_depend_on_the_unit(dtype):
    """Squares of 2^±100 are out of the range of float32, those of 2^±600 of float64."""
    X, y = problem(90, 6, 3)
    X = X.astype(dtype)
    expected = slce_xp.fit(X, y).predict(X)
    for unit in (2.0**100, 2.0**-100) if dtype == "float32" else (2.0**600, 2.0**-600):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "eigenvalues|total_loss")
            model = slce_xp.fit(X * np.asarray(unit, dtype), y)
        np.testing.assert_array_equal(model.predict(X * np.asarray(unit, dtype)), expected)


def test_a_far_class_does_not_blur_near_ones():
    """In float32 the squares of the means of far classes have no digits left for near ones."""
    X, y = oracle.blobs(90, 6, 3, separation=1.0)
    X[y == 2, 5] += 1e5
    X = X.astype(np.float32)
    model = slce_xp.fit(X, y)
    Z, means = (model.transform(rows).astype(np.float64) for rows in (X, model.centroids))
    nearest = ((Z[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(model.predict(X), nearest)


def test_a_dask_array_is_classified_as_the_error_says():
    array = pytest.importorskip("dask.array")
    X, y = problem(90, 6, 3)
    model = slce_xp.fit(X, y)
    lazy = array.from_array(X, chunks=(40, 4))
    with pytest.raises(TypeError, match="Classify its chunks") as caught:
        model.predict(lazy)
    advice = str(caught.value).partition("chunks: ")[2]
    found = eval(advice, {"X": lazy, "model": model})
    np.testing.assert_array_equal(found.compute(), model.predict(X))


def test_missing_values_are_not_classified():
    X, y = problem(90, 6, 3)
    model = slce_xp.fit(X, y, criterion="separation")
    X[4, 2] = np.nan
    with pytest.raises(ValueError, match="missing or infinite value in row 4"):
        model.predict(X)


# ---------------------------------------------------------------- the command and the benchmark


def test_the_command_fits_and_predicts(tmp_path):
    pytest.importorskip("pandas")
    X, y = problem(90, 5, 3)
    names = np.array(["one", "two", "three"])[y]
    lines = [f"{','.join(map(str, row))},{name}" for row, name in zip(X, names, strict=True)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["a,b,c,d,e,kind", *lines]) + "\n", encoding="utf-8")
    model, output = tmp_path / "model.npz", tmp_path / "predicted.csv"
    fit = ["fit", str(table), "--label", "kind", "--criterion", "separation", "--folds", "0"]
    assert main([*fit, "--model", str(model)]) == 0
    assert main(["predict", str(model), str(table), "--label", "kind", "-o", str(output)]) == 0
    expected = slce_xp.fit(X, names, criterion="separation")
    rows = [line.split(",") for line in output.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["kind", "predicted", "probability"]
    assert [row[1] for row in rows[1:]] == [str(label) for label in expected.predict(X)]
    sure = expected.predict_proba(X).max(axis=1)
    np.testing.assert_allclose([float(row[2]) for row in rows[1:]], sure, rtol=1e-6)


def test_the_benchmark_of_a_folder(tmp_path, capsys):
    accuracy = pytest.importorskip("benchmarks.accuracy")
    X, y = problem(100, 6, 4)
    X[3, 2] = np.nan
    np.savez(tmp_path / "mine.npz", X=X, y=y)
    output = tmp_path / "table.md"
    text = accuracy.main(
        ["--data", str(tmp_path), "--dimensions", "2", "--repetitions", "3", "--methods",
         "SLCE", "SLCE, separation", "PCA", "--output", str(output)]
    )  # fmt: skip
    assert output.read_text(encoding="utf-8") == text
    means = [
        np.mean([accuracy.accuracy(accuracy.LINEAR[m], X, y, 2, r) for r in range(3)])
        for m in ("SLCE", "SLCE, separation", "PCA")
    ]
    row = next(line for line in text.splitlines() if line.startswith("| mine | 2 |"))
    for cell, mean in zip(row.split("|")[3:6], means, strict=True):
        assert cell.replace("*", "").split("±")[0].strip() == f"{mean:.1f}"
    assert means[1] > means[2]
    assert "in 1 of 1 comparisons" in text


def test_wine_unscaled_is_as_good_as_shrinkage_discriminant_analysis():
    datasets = pytest.importorskip("sklearn.datasets")
    discriminant_analysis = pytest.importorskip("sklearn.discriminant_analysis")
    neighbors = pytest.importorskip("sklearn.neighbors")
    X, y = datasets.load_wine(return_X_y=True)
    right = np.zeros(2)
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(y))
        test, train = order[:36], order[36:]
        for i, model in enumerate((
            slce_xp.SLCE(2, criterion="separation"),
            discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
        )):  # fmt: skip
            Z = model.fit(X[train], y[train]).transform(X)
            knn = neighbors.KNeighborsClassifier(5).fit(Z[train], y[train])
            right[i] += np.mean(knn.predict(Z[test]) == y[test])
    assert 10 * right[0] > 10 * right[1] - 2


# ---------------------------------------------------------------- sparse counts


def test_large_loadings_are_of_features_that_many_samples_have():
    rng = np.random.default_rng(0)
    y, base = np.arange(300) % 4, np.exp(rng.normal(-3.2, 1.6, 700))
    rates, frequent = np.tile(base, (4, 1)), np.flatnonzero((base > 0.1) & (base < 1))
    planted = rng.choice(frequent, (4, 12), replace=False)
    for label, genes in enumerate(planted):
        rates[label, genes] *= rng.uniform(4, 8, 12)
    counts = rng.poisson(rates[y] * rng.gamma(2, 0.5, (300, 700)))
    depth = counts.sum(axis=1, keepdims=True)
    X, cells = np.log1p(100.0 * counts / depth), (counts > 0).sum(axis=0)
    assert (cells == 1).any()
    model = slce_xp.fit(scipy.sparse.csr_matrix(X), y, criterion="separation")
    leading = np.argsort(-abs(model.components), axis=1)[:, :10]
    assert cells[leading].min() >= 10
    assert np.isin(leading, planted).mean() > 0.8


def test_how_many_samples_a_spread_rests_on(xp):
    rng = np.random.default_rng(0)
    X = rng.normal([0, 50, 0], 1, (900, 3))
    X[:, 2] = 7.0
    X[4, 2] = 8.0  # the spread of one sample
    weights = rng.integers(1, 3, 900).astype(float)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    centred = repeated - repeated.mean(axis=0)
    wanted = (centred**2).sum(axis=0) ** 2 / (centred**4).sum(axis=0)
    parts = []
    for rows in (slice(0, 100), slice(100, 900)):
        opened = MemoryRows(xp.array(X[rows]))
        groups = Groups.of(np.arange(900)[rows] % 3, 3, weights[rows])
        parts.append(moments_of(opened, groups, powers=True))
    found = xp.numpy((parts[0] + parts[1]).supports)
    np.testing.assert_allclose(found, wanted, rtol=xp.tolerance(1e-9, 2e-3))
    assert found[2] < 1.1 * weights[4]
    assert found[0] == pytest.approx(weights.sum() / 3, rel=0.2)
