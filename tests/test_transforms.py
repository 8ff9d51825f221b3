"""Derivatives and compilation of `transform`, `inverse_transform` and `reconstruct`."""

import numpy as np
import oracle
import pytest

import slce_xp
from slce_xp.core import _rows

N, D, K = 30, 5, 3
X, CODES = oracle.blobs(N, D, K, seed=61)
SCALE = np.linspace(0.5, 3.0, D)
METHODS = ["transform", "inverse_transform", "reconstruct"]
MODELS = {
    "plain": slce_xp.fit(X, CODES),
    "scaled": slce_xp.fit(X / SCALE, CODES).unscaled(SCALE),
}


CLASSIFIERS = {
    "centroid": slce_xp.fit(X, 5 * CODES, class_weight={0: 2.0}),
    "scaled": slce_xp.fit(X / SCALE, CODES).unscaled(SCALE),
    "separation": slce_xp.fit(X, CODES, criterion="separation"),
}


def classifying(test):
    test = pytest.mark.parametrize("method", ["predict", "predict_proba"])(test)
    return pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)(test)


def given(method):
    """What a method takes."""
    return MODELS["plain"].transform(X) if method == "inverse_transform" else X


def on_each(test):
    test = pytest.mark.parametrize("method", METHODS)(test)
    return pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)(test)


# ---------------------------------------------------------------- Torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@on_each
@pytest.mark.parametrize("blocks", [1, 6])
def test_gradients_of_torch_are_those_of_finite_differences(
    torch, monkeypatch, model, method, blocks
):
    monkeypatch.setattr(_rows, "LARGEST_BLOCK", N * D * 8 // blocks)
    monkeypatch.setattr(_rows, "LEAST_BLOCK", 1)
    function = getattr(model.to("torch"), method)
    x = torch.tensor(given(method), requires_grad=True)
    assert torch.autograd.gradcheck(function, (x,))
    plain = getattr(model, method)(given(method))
    np.testing.assert_allclose(function(x).detach().numpy(), plain, rtol=1e-12, atol=1e-12)


@on_each
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_compiles_transform_as_one_graph(torch, model, method, backend):
    function = getattr(model.to("torch"), method)
    compiled = torch.compile(function, fullgraph=True, backend=backend, dynamic=True)
    x = torch.tensor(given(method), requires_grad=True)
    expected = function(x)
    torch.testing.assert_close(compiled(x), expected)
    torch.testing.assert_close(compiled(x[:7]), expected[:7])
    weights = torch.arange(expected.numel(), dtype=x.dtype).reshape(expected.shape)
    gradients = [torch.autograd.grad((weights * f(x)).sum(), x)[0] for f in (function, compiled)]
    torch.testing.assert_close(*gradients)


@on_each
@pytest.mark.parametrize("strict", [True, False])
def test_torch_exports_transform_for_any_number_of_samples(torch, model, method, strict):
    there = model.to("torch")

    class Program(torch.nn.Module):
        def forward(self, x):
            return getattr(there, method)(x)

    x = torch.tensor(given(method))
    shapes = {"x": {0: torch.export.Dim("n", min=2)}}
    program = torch.export.export(Program(), (x,), dynamic_shapes=shapes, strict=strict)
    torch.testing.assert_close(program.module()(x[:4]), getattr(there, method)(x[:4]))


@classifying
def test_torch_exports_classification(torch, model, method):
    there = model.to("torch")

    class Program(torch.nn.Module):
        def forward(self, x):
            return getattr(there, method)(x)

    shapes = {"x": {0: torch.export.Dim("n", min=2)}}
    program = torch.export.export(Program(), (torch.tensor(X),), dynamic_shapes=shapes)
    found = program.module()(torch.tensor(X[:9])).numpy()
    np.testing.assert_allclose(found, getattr(model, method)(X[:9]), rtol=1e-10)


def test_labels_that_are_not_numbers_are_not_compiled(torch):
    model = slce_xp.fit(torch.tensor(X), np.array(["a", "b", "c"])[CODES])

    class Program(torch.nn.Module):
        def forward(self, x):
            return model.predict(x)

    with pytest.raises(TypeError, match=r"Compile predict_proba, and take model\.classes"):
        torch.export.export(Program(), (torch.tensor(X),))


# ---------------------------------------------------------------- JAX


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


def in_jax(jax, model, method):
    device = jax.devices()[-1]
    there = model.to("jax", device)
    return getattr(there, method), jax.device_put(given(method), device)


@on_each
def test_gradients_of_jax_are_those_of_finite_differences(jax, model, method):
    import jax.test_util

    function, x = in_jax(jax, model, method)
    there = x.device  # check_grads calls functions with arrays of NumPy, too

    def on_device(x):
        return function(jax.device_put(x, there))

    jax.test_util.check_grads(on_device, (x,), order=1, modes=("fwd", "rev"))
    plain = getattr(model, method)(given(method))
    np.testing.assert_allclose(jax.jvp(function, (x,), (x,))[0], plain, rtol=1e-12, atol=1e-12)


@classifying
def test_jax_compiles_classification(jax, model, method):
    there = model.to("jax")
    expected = getattr(model, method)(X)
    found = jax.jit(getattr(there, method))(jax.numpy.asarray(X))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    # A model is an argument, too.
    found = jax.jit(lambda model, x: getattr(model, method)(x))(there, jax.numpy.asarray(X))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@on_each
def test_jax_compiles_and_maps_transform(jax, model, method):
    function, x = in_jax(jax, model, method)
    expected = np.asarray(function(x))
    np.testing.assert_allclose(jax.jit(function)(x), expected, rtol=1e-12, atol=1e-12)
    stacked = jax.vmap(function)(jax.numpy.stack([x, 2 * x]))
    np.testing.assert_allclose(stacked[1], function(2 * x), rtol=1e-12, atol=1e-12)
    gradient = jax.grad(lambda x: (function(x) ** 2).sum())
    np.testing.assert_allclose(jax.jit(gradient)(x), gradient(x), rtol=1e-10, atol=1e-10)


@on_each
def test_jax_multiplies_in_full_precision(jax, model, method):
    # By default a GPU would take three digits.
    function, x = in_jax(jax, model, method)
    for traced in (function, jax.grad(lambda x: function(x).sum())):
        program = str(jax.make_jaxpr(traced)(x.astype("float32")))
        assert program.count("dot_general") == program.count(
            "(Precision.HIGHEST, Precision.HIGHEST)"
        )
        assert "dot_general" in program


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stored", ["int32", "float16", "float32", "float64"])
@pytest.mark.parametrize("fitted", ["float32", "float64"])
def test_dtypes_under_jit_equal_those_outside(jax, method, stored, fitted):
    there = slce_xp.fit(X.astype(fitted), CODES, backend="jax")
    function = getattr(there, method)
    x = jax.numpy.asarray(given(method)).astype(stored)
    assert jax.jit(function)(x).dtype == function(x).dtype


@on_each
def test_model_is_a_pytree_argument(jax, model, method):
    _, x = in_jax(jax, model, method)
    there = model.to("jax", jax.devices()[-1])
    traces = []

    @jax.jit
    def use(model, x):
        traces.append(1)
        return getattr(model, method)(x)

    expected = getattr(model, method)(given(method))
    np.testing.assert_allclose(use(there, x), expected, rtol=1e-12, atol=1e-12)
    # Another model of the same facts, such as one with other numbers, is not compiled anew.
    moved = jax.tree.map(lambda array: 2 * array, there)
    assert type(moved) is slce_xp.Model
    assert (use(moved, x) != expected).any()
    assert len(traces) == 1
    assert moved.plan == model.plan
    np.testing.assert_array_equal(moved.classes, model.classes)
    assert len(jax.tree.leaves(there)) == 6 + (model.scale is not None)


@on_each
def test_shapes_are_checked(jax, model, method):
    function, x = in_jax(jax, model, method)
    name = "Z" if method == "inverse_transform" else "X"
    with pytest.raises(ValueError, match=rf"^{name} must have \d columns"):
        jax.jit(function)(x[:, 1:])
    with pytest.raises(ValueError, match=rf"^{name} must be two-dimensional"):
        jax.vmap(function)(x)


# ---------------------------------------------------------------- fits raise


@pytest.mark.parametrize("traced", ["X", "y", "sample_weight"])
def test_fit_inside_a_transformation_raises(jax, traced):
    arguments = {"X": X, "y": CODES, "sample_weight": np.ones(N)}

    def fit(x):
        return slce_xp.fit(**{**arguments, traced: x}, backend="jax").components

    message = rf"^{traced} must have values; got an array that jax\.jit.* Fit outside, and use"
    for transformed in (jax.jit(fit), jax.grad(lambda x: fit(x).sum())):
        with pytest.raises(TypeError, match=message) as raised:
            transformed(jax.numpy.asarray(arguments[traced], dtype="float64"))
        assert raised.value.parameter == traced


def test_partial_fit_inside_a_transformation_raises(jax):
    pytest.importorskip("sklearn")
    with pytest.raises(TypeError, match=r"^X must have values; got an array that jax\.jit"):
        jax.jit(lambda x: slce_xp.SLCE().partial_fit(x, CODES).components_)(X)


def test_torch_refuses_to_compile_a_fit(torch):
    compiled = torch.compile(lambda x: slce_xp.fit(x, CODES).components, backend="eager")
    with pytest.raises(TypeError, match=r"^X must have values; got an array that .*torch\.compile"):
        compiled(torch.tensor(X))
