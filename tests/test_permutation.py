"""The permutation test: its statistic by the formula, its rate of false alarms, its units."""

import itertools
import warnings

import numpy as np
import pytest

import slce_xp
from slce_xp._permutation import ADAPTIVE_RIDGES, Design


def drawn(n=24, d=6, effect=2.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d)) * (1.0 + np.arange(d))
    X[y == 1, 0] += effect
    return X, y


def welch(X, y):
    """Welch's statistic, class by class."""
    classes = np.unique(y)
    parts = [X[y == c] for c in classes]
    spreads = [((p - p.mean(0)) ** 2).sum() / (len(p) - 1) for p in parts]
    weights = np.array([len(p) / v for p, v in zip(parts, spreads, strict=True)])
    means = np.array([p.mean(0) for p in parts])
    centre = weights @ means / weights.sum()
    return weights @ ((means - centre) ** 2).sum(1)


def permutations(y, count=199, seed=0):
    design = Design(y, np.zeros(len(y), dtype=int), count, seed)
    return np.concatenate(list(design.draws(50)))


def test_statistic_is_welchs(xp):
    X, y = drawn()
    found = slce_xp.permutation_test(xp.array(X), y, 199)
    expected = np.array([welch(X, y[order]) for order in permutations(y)])
    every = np.append(found.statistic, found.null)
    np.testing.assert_allclose(every, expected, rtol=xp.tolerance(1e-9, 1e-3))
    assert found.p == (expected >= expected[0]).mean()
    spreads = [((p - p.mean(0)) ** 2).sum() for p in (X[y == j] for j in range(3))]
    assert found.spread_ratio == pytest.approx(max(spreads) / min(spreads), rel=1e-3)


@pytest.mark.parametrize("shape", [(24, 6), (24, 40)], ids=str)
def test_adaptive_is_the_largest_of_standardised_statistics(shape):
    X, y = drawn(*shape)
    left, values, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    squares = values**2
    mean = squares.sum() / min(shape)
    scaled = [left * values]
    scaled += [left * np.sqrt(squares / (squares + r * mean)) for r in ADAPTIVE_RIDGES]
    orders = permutations(y)
    each = np.array([[welch(Z, y[order]) for Z in scaled] for order in orders])
    expected = ((each - each.mean(0)) / each.std(0)).max(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of spreads that differ by chance
        found = slce_xp.permutation_test(X, y, 199, statistic="adaptive")
    np.testing.assert_allclose(np.append(found.statistic, found.null), expected, rtol=1e-6)


def test_components_are_tested_by_their_eigenvalues():
    X, y = drawn(30, 40, 90.0)
    found = slce_xp.permutation_test(X, y, 99, components=True)
    centred = X - X.mean(axis=0)
    marks = (y[:, None] == np.arange(3)) / np.sqrt(np.bincount(y))

    def largest(samples, projector):
        return np.linalg.eigh(2 * samples.T @ projector @ samples - samples.T @ samples)

    projector, expected = marks @ marks.T, []
    for _ in range(2):
        values = [
            largest(centred, projector[np.ix_(order, order)])[0][-1]
            for order in permutations(y, 99)
        ]
        expected.append(max([np.mean(np.array(values) >= values[0] - 1e-9), *expected]))
        axis = largest(centred, projector)[1][:, -1]
        fitted = projector @ centred @ axis
        projector = projector - np.outer(fitted, fitted) / (fitted @ fitted)
        centred = centred - np.outer(centred @ axis, axis)
    np.testing.assert_allclose(found.component_p, expected)
    assert expected[0] == 0.01 < expected[1]


def test_all_arrangements_of_a_small_design():
    X = np.random.default_rng(0).normal(size=(8, 3))
    y = np.repeat([0, 1], 4)
    values = []
    for chosen in itertools.combinations(range(8), 4):
        labels = np.isin(np.arange(8), chosen)
        values.append(welch(X, labels.astype(int)))
    exact = np.mean(np.array(values) >= welch(X, y) - 1e-12)
    found = slce_xp.permutation_test(X, y, 20_000)
    assert found.p == pytest.approx(exact, abs=0.01)
    assert found.smallest_p == pytest.approx(2 / 70)


@pytest.mark.filterwarnings("ignore:only 10 arrangements")
def test_p_is_no_less_than_arrangements_allow():
    X = np.random.default_rng(0).normal(size=(6, 3)) + 9.0 * np.repeat([0, 1], 3)[:, None]
    for seed in range(6):
        found = slce_xp.permutation_test(
            X, [0, 0, 0, 1, 1, 1], 99, pairs=True, components=True, random_state=seed
        )
        every = [found.p, *found.component_p, found.pair_p[0][2]]
        assert min(every) >= found.smallest_p == pytest.approx(0.1)


def test_true_nulls_with_unequal_sizes_and_spreads():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [30, 8])
    spread = np.where(y == 0, 1.0, 2.0)[:, None]
    p = [slce_xp.permutation_test(rng.normal(size=(38, 20)) * spread, y, 99).p for _ in range(200)]
    assert 0.005 < np.mean(np.array(p) <= 0.05) < 0.1


def test_groups_are_permuted_as_wholes():
    rng = np.random.default_rng(1)
    mouse = np.repeat(np.arange(12), [10, 20] * 6)
    y = mouse % 2
    X = rng.normal(size=(12, 5))[mouse] + 0.1 * rng.normal(size=(180, 5))
    rows, groups = (slce_xp.permutation_test(X, y, groups=g) for g in (None, mouse))
    means = np.array([X[mouse == m].mean(axis=0) for m in range(12)])
    expected = slce_xp.permutation_test(means, np.arange(12) % 2)
    assert rows.p <= 0.05 < groups.p == expected.p
    assert (groups.unit, groups.n_units) == ("groups", 12)
    np.testing.assert_allclose(groups.null, expected.null)


def test_strata_keep_labels_inside():
    rng = np.random.default_rng(0)
    batch = np.repeat([0, 1], [12, 12])
    y = np.concatenate([np.repeat([0, 1], [9, 3]), np.repeat([0, 1], [3, 9])])
    X = rng.normal(size=(24, 5)) + 5.0 * batch[:, None]
    free, within = (slce_xp.permutation_test(X, y, strata=s) for s in (None, batch))
    assert free.p <= 0.05 < within.p
    for order in np.concatenate(list(Design(y, batch, 50, 0).draws(7))):
        np.testing.assert_array_equal(batch[order], batch)


def test_pairs_by_holm():
    X, y = drawn(36, 4, 12.0)
    found = slce_xp.permutation_test(X, y, pairs=True)
    alone = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        mine = np.isin(y, (a, b))
        alone.append(slce_xp.permutation_test(X[mine], y[mine]).p)
    ranked = np.sort(alone)
    steps = np.maximum.accumulate(ranked * [3, 2, 1]).clip(max=1)
    assert [pair[:2] for pair in found.pair_p] == [(0, 1), (0, 2), (1, 2)]
    np.testing.assert_allclose(np.sort([p for *_, p in found.pair_p]), steps, atol=0.02)
    assert found.pair_p[1][2] > 0.05 >= found.pair_p[0][2]


def test_large_data_are_projected_at_random():
    rng = np.random.default_rng(0)
    y = np.arange(1300) % 2
    X = rng.normal(size=(1300, 1250))
    assert slce_xp.permutation_test(X, y, 99).p > 0.05
    X[y == 1, :20] += 1.0
    assert slce_xp.permutation_test(X, y, 99).p == 0.01


def test_tiny_and_large_numbers():
    X, y = drawn()
    expected = slce_xp.permutation_test(X, y, 99, pairs=True, components=True)
    for unit in (1e-200, 1e200):
        found = slce_xp.permutation_test(X * unit, y, 99, pairs=True, components=True)
        assert (found.p, found.pair_p) == (expected.p, expected.pair_p)
        np.testing.assert_array_equal(found.component_p, expected.component_p)
        assert found.statistic == pytest.approx(expected.statistic)


def test_a_class_of_one_sample_borrows_the_spread_of_others():
    X, y = drawn(19)
    y[:] = np.arange(19) % 2
    y[0] = 2
    X[0] += 100.0
    assert slce_xp.permutation_test(X, y).p <= 0.1


def test_warnings():
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match=r"only 10 arrangements .* p is at least 0.1\."):
        found = slce_xp.permutation_test(rng.normal(size=(6, 3)), [0, 0, 0, 1, 1, 1])
    assert found.smallest_p == pytest.approx(0.1)
    assert "smallest possible p  0.1" in str(found)
    y = np.repeat([0, 1], 20)
    X = rng.normal(size=(40, 3)) * (1 + 2 * y)[:, None]
    with pytest.warns(UserWarning, match="spreads within classes differ"):
        slce_xp.permutation_test(X, y, 19, statistic="adaptive")


@pytest.mark.parametrize(
    ("change", "parameter", "message"),
    [
        ({"y": np.zeros(24)}, "y", "two classes"),
        ({"y": np.arange(24)}, "y", "exchanged"),
        ({"X": np.full((24, 6), np.nan)}, "X", "finite"),
        ({"X": np.ones((24, 6))}, "X", "must vary"),
        ({"groups": np.arange(24) // 2}, "groups", "several. If classes .* strata"),
        ({"groups": np.arange(24) % 3}, "groups", "exchanged"),
        ({"groups": np.arange(24), "strata": np.arange(24)}, "strata", "exchanged"),
        ({"strata": np.arange(24) % 3}, "strata", "exchanged"),
        ({"groups": np.arange(24) % 12, "strata": np.arange(24)}, "strata", "samples of a group"),
        ({"statistic": "t"}, "statistic", "'between' or 'adaptive'"),
        ({"n_permutations": 0}, "n_permutations", "at least 1"),
        ({"pairs": 1}, "pairs", "True or False"),
    ],
)
def test_bad_input(change, parameter, message):
    X, y = drawn()
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        slce_xp.permutation_test(**{"X": X, "y": y, **change})
    assert caught.value.parameter == parameter
