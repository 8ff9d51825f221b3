"""Counts of eigenvalues above the stated level against exact ones, by fractions."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import slce_xp
from slce_xp.core._solution import of_whole_spectrum

# Components of no use come with a warning.
pytestmark = pytest.mark.filterwarnings("ignore")
FORMS = ["auto", "scatter", "gram", "krylov", "sparse"]


def count_positive(matrix):
    """How many eigenvalues of a symmetric matrix of fractions are positive: Sylvester's law."""
    matrix = [row[:] for row in matrix]
    left, positive = list(range(len(matrix))), 0
    while left:
        pivot = next((i for i in left if matrix[i][i]), None)
        if pivot is None:
            pair = next(((i, j) for i in left for j in left if matrix[i][j]), None)
            if pair is None:
                return positive
            pivot, other = pair  # a congruence that makes the diagonal entry 2·m_ij
            matrix[pivot] = [a + b for a, b in zip(matrix[pivot], matrix[other], strict=True)]
            for row in matrix:
                row[pivot] += row[other]
        positive += matrix[pivot][pivot] > 0
        left.remove(pivot)
        for i in left:
            factor = matrix[i][pivot] / matrix[pivot][pivot]
            for j in left:
                matrix[i][j] -= factor * matrix[pivot][j]
    return positive


def count_above(matrix, level):
    """How many eigenvalues of a symmetric matrix of fractions exceed a number, exactly."""
    level = Fraction(level)
    rows = enumerate(matrix)
    return count_positive([[x - level * (i == j) for j, x in enumerate(row)] for i, row in rows])


def exact_matrix(X, y, weights, unlabeled_weight):
    """M = 2·S_b − S_t of labelled samples + λ·S_t of the others (−1), about the mean of all."""
    weights = [Fraction(int(w)) for w in weights]
    X = [[Fraction(float(x)) for x in row] for row in X]  # exact
    d = len(X[0])

    def mean(members):
        total = sum(weights[i] for i in members)
        return [sum(weights[i] * X[i][j] for i in members) / total for j in range(d)]

    everything = range(len(X))
    centre = mean(everything)
    terms = [(X[i], weights[i] * (unlabeled_weight if y[i] < 0 else -1)) for i in everything]
    for label in set(y[y >= 0]):
        members = [i for i in everything if y[i] == label]
        terms.append((mean(members), 2 * sum(weights[i] for i in members)))
    matrix = [[Fraction(0)] * d for _ in range(d)]
    for row, weight in terms:
        row = [x - c for x, c in zip(row, centre, strict=True)]
        for i in range(d):
            for j in range(d):
                matrix[i][j] += weight * row[i] * row[j]
    return matrix


def draw(seed, *, unlabelled):
    """Numbers of which many repeat: samples, features, or both, in units of their own."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 30)), int(rng.integers(1, 12))
    n_classes = int(rng.integers(2, max(3, min(6, n // 2))))
    most = int(rng.choice([1, 2, 5, 1000, 2**20]))  # with 24 digits, which float32 has
    X = rng.integers(-most, most + 1, size=(n, d))
    if rng.random() < 0.4:
        X = np.repeat(X[: n // 2 + 1], 2, axis=0)[:n]
    if rng.random() < 0.3 and d > 1:
        X[:, d // 2 :] = X[:, : d - d // 2]
    unit = 2.0 ** rng.integers(-12, 13, size=d) if rng.random() < 0.3 else np.ones(d)
    X = X * unit
    y = rng.permutation(np.arange(n) % n_classes)
    if rng.random() < 0.4:
        X = X + 3 * (rng.integers(-most, most + 1, size=(n_classes, d)) * unit)[y]
    if unlabelled:
        first = np.unique(y, return_index=True)[1]  # one of each class keeps its label
        y = np.where((rng.random(n) < 0.5) & ~np.isin(np.arange(n), first), -1, y)
    weights = np.ones(n, int) if rng.random() < 0.6 else rng.integers(1, 9, size=n)
    return X, y, weights, Fraction(int(rng.choice([0, 1, 8, 512])), 8)


@pytest.mark.parametrize("unlabelled", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_bounds_contain_the_exact_count(block, dtype, unlabelled):
    for seed in range(15 * block, 15 * block + 15):
        X, y, weights, factor = draw(seed, unlabelled=unlabelled)
        X = X.astype(dtype)
        matrix = exact_matrix(X, y, weights, factor)
        options = {"sample_weight": weights}
        if (y < 0).any():
            options |= {"unlabeled": -1, "unlabeled_weight": float(factor)}
        for form in FORMS:
            x, solver = (sp.csr_array(X), "auto") if form == "sparse" else (X, form)
            model = slce_xp.fit(x, y, "positive", solver=solver, **options)
            low, high = model.n_positive_bounds
            assert low <= count_above(matrix, model.zero_level) <= high, (seed, form)
            # Signs of eigenvalues are exact beyond the level, which is small.
            assert low <= count_positive(matrix), (seed, form)


def test_exact_count_itself():
    rng = np.random.default_rng(0)
    for _ in range(20):
        factor = rng.integers(-3, 4, size=(6, 4))
        signs = rng.choice([-1, 1], size=4)
        matrix = factor @ np.diag(signs) @ factor.T
        values = np.linalg.eigvalsh(matrix)
        found = count_positive([[Fraction(int(x)) for x in row] for row in matrix])
        assert found == (values > 1e-9).sum()
        found = count_above([[Fraction(int(x)) for x in row] for row in matrix], 0.5)
        assert found == (values > 0.5).sum()


def test_eigenvalues_within_rounding_of_the_level_are_left_open():
    values = np.array([9.0, 2.5, 1.5, 0.5])  # the level is 2, and rounding 1
    found = of_whole_spectrum(values, np.eye(4), 1.0, most=4, following=-np.inf)
    assert (found.zero_level, found.n_positive) == (2.0, (1, 3))
    assert of_whole_spectrum(values, np.eye(4), 1.0, most=2, following=0.0).n_positive == (1, 2)
