"""criterion="separation": components in which pairs of classes overlap least."""

import math

import numpy as np
import oracle
import pytest

from slce_xp.core import pairs, separating_components


def orthonormal(rows):
    return np.linalg.qr(np.asarray(rows, np.float64).T)[0].T


def problem(n, d, n_classes, seed=1):
    """Classes that overlap, in features of unlike units, far from the origin."""
    X, y = oracle.blobs(n, d, n_classes, seed=seed, separation=1.0)
    return X * np.geomspace(1, 1e3, d) + 10.0 * np.arange(d), y


# ---------------------------------------------------------------- the K × K problem


@pytest.mark.parametrize(("n_classes", "p"), [(3, 1), (4, 2), (5, 2)])
def test_the_best_plane_is_that_of_a_general_optimiser(n_classes, p):
    rng = np.random.default_rng(n_classes)
    means = 2.0 * rng.standard_normal((n_classes, n_classes - 1))
    shares = rng.random(n_classes) + 0.2
    shares /= shares.sum()
    found = pairs.best_plane(means, shares, p)
    expected = oracle.separating_plane(means, shares, p)
    error = 1 - oracle.separation(means @ expected, shares)
    assert found.log_error == pytest.approx(math.log(error), abs=1e-7)
    assert found.log_bound <= math.log(error) + 1e-12
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(p), atol=1e-12)


def test_no_plane_beats_the_bound():
    rng = np.random.default_rng(0)
    means, shares = 3.0 * rng.standard_normal((8, 7)), np.full(8, 1 / 8)
    found = pairs.best_plane(means, shares, 2)
    for _ in range(300):
        plane = np.linalg.qr(rng.standard_normal((7, 2)))[0]
        assert 1 - oracle.separation(means @ plane, shares) > math.exp(found.log_bound)


def test_classes_that_are_far_apart_are_still_told_from_nearer_ones():
    """Errors of 1e-300 and less: only their logarithm can be compared."""
    means = 60.0 * np.eye(4)[:, :3] * [1.0, 1.5, 2.0]
    found = pairs.best_plane(means, np.full(4, 0.25), 2)
    assert -math.inf < found.log_bound <= found.log_error < -400
    # In the plane of the two largest axes, classes 0 and 3 would coincide.
    nearest = np.linalg.norm((means @ found.basis)[:, None] - means @ found.basis, axis=2)
    assert nearest[np.triu_indices(4, 1)].min() > 50


def test_classes_with_the_same_mean_are_no_obstacle():
    means = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 1.0], [-2.0, 5.0]])
    found = pairs.best_plane(means, np.full(4, 0.25), 1)
    other = oracle.separating_plane(means, np.full(4, 0.25), 1)
    expected = 1 - oracle.separation(means @ other, np.full(4, 0.25))
    assert math.exp(found.log_error) == pytest.approx(expected, abs=1e-8)


# ---------------------------------------------------------------- components


@pytest.mark.parametrize("form", ["scatter", "gram"])
@pytest.mark.parametrize(
    ("n", "d", "p", "weighted"),
    [(120, 8, 2, False), (120, 8, 3, True), (30, 50, 2, True), (30, 50, 3, False)],
)
def test_components_agree_with_the_oracle(xp, form, n, d, p, weighted):
    X, y = problem(n, d, 4)
    weights = np.random.default_rng(0).random(n) + 0.1 if weighted else None
    found = separating_components(
        xp.array(X), xp.array(y), 4, p, form=form,
        weights=None if weights is None else xp.array(weights),
    )  # fmt: skip
    components, metric, shrinkage, separation = oracle.separating(xp.held(X), y, p, weights)
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
    found = separating_components(X, y, 2, 1)
    assert 1 - found.separation < 0.1 * (1 - without.separation)
    assert np.abs(found.components[0] * X.std(axis=0)).argmax() == 2


@pytest.mark.parametrize("shrinkage", [-0.1, 1.5, math.nan, "lots", True, None])
def test_shrinkage_is_a_share(shrinkage):
    X, y = problem(30, 4, 2)
    with pytest.raises((ValueError, TypeError), match="shrinkage must be 'auto' or a number"):
        separating_components(X, y, 2, 1, shrinkage=shrinkage)


def test_class_means_that_agree_are_an_error():
    X = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    with pytest.raises(ValueError, match="classes whose means differ"):
        separating_components(X, np.array([0, 0, 1, 1]), 2, 1)
