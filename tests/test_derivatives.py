"""Derivatives and transformations of the core's functions, on Torch and JAX."""

import numpy as np
import oracle
import pytest

from slce_xp import core

N, D, K = 24, 4, 3
RNG = np.random.default_rng(7)
X = RNG.standard_normal((N, D))
CODES = np.arange(N) % K
WEIGHTS = RNG.uniform(0.5, 2.0, N)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


def sums(codes):
    return lambda x, weights: core.class_sums(x, codes, K, weights=weights)


# ---------------------------------------------------------------- class sums


def test_class_sums_have_derivatives_in_torch(torch):
    x, weights = (torch.tensor(a, requires_grad=True) for a in (X, WEIGHTS))
    assert torch.autograd.gradcheck(sums(torch.tensor(CODES)), (x, weights))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_class_sums_under_transformations_of_torch(torch):
    function = sums(torch.tensor(CODES))
    x, weights = torch.tensor(X), torch.tensor(WEIGHTS)
    expected = function(x, weights)
    stacked = torch.func.vmap(function, in_dims=(0, None))(torch.stack([x, 2 * x]), weights)
    torch.testing.assert_close(stacked[1], 2 * expected)
    gradient = torch.func.grad(lambda w: function(x, w)[0].sum())(weights)
    torch.testing.assert_close(gradient, torch.where(torch.tensor(CODES) == 0, x.sum(dim=1), 0.0))
    _, tangent = torch.func.jvp(function, (x, weights), (x, torch.zeros_like(weights)))
    torch.testing.assert_close(tangent, expected)


def test_class_sums_under_transformations_of_jax(jax):
    import jax.test_util

    function = sums(CODES)
    x, weights = jax.numpy.asarray(X), jax.numpy.asarray(WEIGHTS)
    expected = np.asarray(function(x, weights))
    jax.test_util.check_grads(function, (x, weights), order=1, modes=("fwd", "rev"))
    stacked = jax.vmap(function, in_axes=(0, None))(jax.numpy.stack([x, 2 * x]), weights)
    np.testing.assert_allclose(stacked[1], 2 * expected, rtol=1e-14)
    np.testing.assert_allclose(jax.jit(function)(x, weights), expected, rtol=1e-14)
    gradient = jax.jit(jax.grad(lambda w: function(x, w)[0].sum()))(weights)
    np.testing.assert_allclose(gradient, np.where(CODES == 0, X.sum(axis=1), 0.0), rtol=1e-14)


@pytest.mark.parametrize("n_classes", [3, 2000])
def test_jax_sums_in_single_precision_lose_no_digits(jax, n_classes):
    """One after the other, 200 000 numbers of one size would lose three digits."""
    rng = np.random.default_rng(6)
    codes = np.where(rng.random(200_000) < 0.9, 1, rng.integers(0, n_classes, 200_000))
    x = rng.uniform(0.9, 1.1, (200_000, 2)).astype(np.float32)
    expected = np.zeros((n_classes, 2))
    np.add.at(expected, codes, x.astype(float))
    with jax.enable_x64(False):
        x = jax.numpy.asarray(x)
        found = [core.class_sums(x, codes, n_classes)]
        found.append(jax.jit(lambda x: core.class_sums(x, codes, n_classes))(x))
    for sums in found:
        np.testing.assert_allclose(sums, expected, rtol=1e-6)


# ---------------------------------------------------------------- eigenpairs

# The form, the shape, and whether some rows have no label.
EIGENPROBLEMS = [
    ("scatter", (30, 5), False),
    ("krylov", (30, 5), False),
    ("gram", (12, 20), False),
    ("krylov", (12, 20), False),
    ("scatter", (30, 5), True),
    ("krylov", (30, 5), True),
]
NAMES = [f"{form}, {n} × {d}" + ", some unlabelled" * part for form, (n, d), part in EIGENPROBLEMS]


def eigenproblem(form, shape, has_unlabeled):
    X, codes = oracle.blobs(*shape, 4, seed=3)
    if has_unlabeled:
        codes = np.where(np.arange(len(codes)) % 5 == 0, 4, codes)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(codes))

    def function(x, weights):
        options = {"form": form, "tol": 1e-13, "unlabeled_weight": 0.3}
        found = core.eigenpairs(x, codes, 4, 2, weights=weights, **options)
        assert found.form == form
        return found.values, found.components, found.mean

    return X, weights, function


@pytest.mark.parametrize("case", EIGENPROBLEMS, ids=NAMES)
def test_eigenpairs_have_derivatives_in_torch(torch, case):
    X, weights, function = eigenproblem(*case)
    x, w = (torch.tensor(a, requires_grad=True) for a in (X, weights))
    assert torch.autograd.gradcheck(function, (x, w), atol=1e-5, rtol=1e-4)
    for found, plain in zip(function(x, w), function(X, weights), strict=True):
        np.testing.assert_allclose(found.detach(), plain, atol=1e-9 * np.abs(plain).max())


def test_eigenpairs_have_derivatives_in_jax(jax):
    import jax.test_util

    X, weights, function = eigenproblem("gram", (12, 20), False)
    given = jax.numpy.asarray(X), jax.numpy.asarray(weights)
    jax.test_util.check_grads(function, given, 1, ("fwd", "rev"), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("k", [2, 3])
def test_derivatives_of_equal_eigenvalues_are_refused(torch, k):
    corners = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    x = torch.tensor(np.repeat(corners, 2, axis=0), requires_grad=True)
    with pytest.raises(ValueError, match=r"^x must have simple eigenvalues"):
        core.eigenpairs(x, [0, 0, 1, 1, 2, 2], 3, k)
    assert core.eigenpairs(x.detach(), [0, 0, 1, 1, 2, 2], 3, k).values[1] > 0.0


def test_what_is_not_traced_or_differentiated_says_so(torch, jax):
    def eigenvalues(x):
        return core.eigenpairs(x, CODES, K, 1).values

    def moments(x):
        return core.class_moments(x, CODES, K).mean

    def separation(x):
        return core.separating_components(x, CODES, K, 1).components

    for function in (eigenvalues, moments, separation):
        with pytest.raises(TypeError, match=r"^x must have values; got an array that jax.jit"):
            jax.jit(function)(X)
        with pytest.raises(TypeError, match=r"^x must have values"):
            torch.func.vmap(function)(torch.tensor(X[None]))
    for function in (moments, separation):
        with pytest.raises(TypeError, match=r"^x must not require a gradient"):
            function(torch.tensor(X, requires_grad=True))
        with torch.no_grad():
            function(torch.tensor(X, requires_grad=True))


def test_largest_eigenpairs_of_stacks(torch):
    matrices = RNG.standard_normal((2, 3, 5, 5))
    matrices = matrices + np.swapaxes(matrices, -1, -2)
    values, vectors = core.largest_eigenpairs(matrices, 2)
    assert vectors.shape == (2, 3, 5, 2)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrices)[..., :-3:-1])
    np.testing.assert_allclose(matrices @ vectors, vectors * values[..., None, :], atol=1e-12)
    given = torch.tensor(matrices, requires_grad=True)

    def symmetric(given):
        return core.largest_eigenpairs(given + given.mT, 2).values

    assert torch.autograd.gradcheck(symmetric, (given,))
