"""Derivatives and transformations of the core's functions, on Torch and JAX."""

import numpy as np
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
