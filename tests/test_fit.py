"""Every form on every backend against the naive oracle."""

import numpy as np
import oracle
import pytest
from conftest import make_backend, spare_compiling
from sklearn import datasets

import slce_xp
from slce_xp import _backend

FORMS = ["scatter", "gram", "krylov"]
EPS32 = float(np.finfo(np.float32).eps)

PROBLEMS = {
    "tall": oracle.blobs(120, 9, 4, seed=1),
    "wide": oracle.blobs(24, 150, 3, seed=2),
    "square": oracle.blobs(40, 40, 5, seed=3),
    "overlapping": oracle.blobs(200, 6, 4, seed=4, separation=0.9),
    "many classes": oracle.blobs(400, 12, 130, seed=5),
    "iris": datasets.load_iris(return_X_y=True),
    "wine": datasets.load_wine(return_X_y=True),
    "breast cancer": datasets.load_breast_cancer(return_X_y=True),
}


def check_against_oracle(backend, dtype, solver, X, y):
    X = np.asarray(X, dtype)  # the oracle sees the rounded data, too
    k = min(len(np.unique(y)) - 1, X.shape[1])
    model = slce_xp.fit(backend.array(X), y, solver=solver)
    oracle.assert_leading(model, backend, oracle.matrix(X, y), dtype, k)


@pytest.mark.filterwarnings("ignore:n_components=.* only the first")
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", FORMS)
def test_forms_and_backends_agree_with_the_oracle(xp, dtype, solver, problem):
    if problem not in ("tall", "wide"):
        spare_compiling(xp)
    check_against_oracle(xp, dtype, solver, *PROBLEMS[problem])


@pytest.mark.filterwarnings("ignore:n_components=.* only the first")
@pytest.mark.parametrize("solver", FORMS)
def test_digits(dtype, solver):
    with make_backend("numpy") as backend:
        check_against_oracle(backend, dtype, solver, *datasets.load_digits(return_X_y=True))


@pytest.mark.parametrize("solver", FORMS)
def test_positive_then_null_space_then_negative(xp, solver):
    spare_compiling(xp)
    X, y = oracle.blobs(10, 14, 3, seed=7)
    X = xp.held(X)
    d, rank = 14, 9
    with pytest.warns(UserWarning, match="only the first 2 lower the loss"):
        model = slce_xp.fit(xp.array(X), y, d, solver=solver)
    components, values = xp.numpy(model.components), xp.numpy(model.eigenvalues)
    assert model.n_positive == 2
    assert (values[:2] > model.zero_level).all()
    assert (np.abs(values[2 : 2 + d - rank]) <= model.zero_level).all()
    assert (values[2 + d - rank :] < -model.zero_level).all()
    null = components[2 : 2 + d - rank]
    orthogonal = {"atol": xp.tolerance(1e-12, 1e-5)}
    np.testing.assert_allclose(null @ oracle.centred(X).T, 0, **orthogonal)
    np.testing.assert_allclose(components @ components.T, np.eye(d), **orthogonal)
    expected, _ = oracle.eigenpairs(X, y)
    atol = xp.tolerance(1e-11, 200 * EPS32 * np.abs(expected).max())
    np.testing.assert_allclose(values, expected, atol=atol)


def test_null_space_directions_are_the_same_for_every_form(xp):
    spare_compiling(xp)
    X, y = oracle.blobs(10, 14, 3, seed=7)
    with pytest.warns(UserWarning, match="lower the loss"):
        models = [slce_xp.fit(xp.array(X), y, 6, solver=solver) for solver in FORMS]
    first, *others = (xp.numpy(model.components) for model in models)
    for other in others:
        np.testing.assert_allclose(first, other, atol=xp.tolerance(1e-9, 1e-4))


def test_backends_agree_in_sign_and_order(xp):
    X, y = PROBLEMS["tall"]
    model = slce_xp.fit(xp.array(X), y)
    reference = slce_xp.fit(xp.held(X).astype(np.float64), y)
    atol = xp.tolerance(1e-10, 2e-6)
    np.testing.assert_allclose(xp.numpy(model.components), reference.components, atol=atol)
    strongest = np.abs(reference.components).argmax(axis=1)
    assert (reference.components[np.arange(len(strongest)), strongest] > 0).all()


def test_sign_rule_breaks_ties_by_position(xp):
    # Both entries of the direction are ±1/√2: which is larger is rounding alone.
    X = np.array([[1.0, -1.0], [2.0, -2.0], [7.0, -7.0], [8.0, -8.0]])
    model = slce_xp.fit(xp.array(X), [0, 0, 1, 1])
    assert xp.numpy(model.components)[0, 0] > 0 > xp.numpy(model.components)[0, 1]


@pytest.mark.parametrize("solver", FORMS)
def test_model_attributes(xp, dtype, solver):
    X, y = PROBLEMS["tall"]
    labels = np.array(["ant", "bee", "cat", "dog"])[y]
    model = slce_xp.fit(xp.array(X, dtype), labels, solver=solver)
    tolerance = {"float32": 1e-5, "float64": 1e-13}[dtype]
    np.testing.assert_array_equal(model.classes, ["ant", "bee", "cat", "dog"])
    np.testing.assert_array_equal(xp.numpy(model.counts), np.bincount(y))
    np.testing.assert_allclose(xp.numpy(model.mean), X.mean(axis=0), atol=tolerance)
    centroids = np.stack([X[y == j].mean(axis=0) for j in range(4)])
    np.testing.assert_allclose(xp.numpy(model.centroids), centroids, atol=tolerance)
    # The Gram form needs more features than samples.
    assert model.solver == {"gram": "scatter"}.get(solver, solver)
    assert model.n_samples == 120


# Of float32 in which rounding hides all differences.
@pytest.mark.filterwarnings("ignore:no direction is known to lower the loss")
@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_huge_offsets_lose_no_accuracy(xp, solver, offset):
    spare_compiling(xp)
    X, y = oracle.blobs(90, 20, 4, seed=11)
    X /= X.std()
    far = X + offset
    model = slce_xp.fit(xp.array(far), y, solver=solver)
    components, exact = xp.numpy(model.components), oracle.eigenpairs(xp.held(far), y)[1]
    assert oracle.largest_angle(components, exact[:3]) <= model.angle_bound + 1e-13
    _, vectors = oracle.eigenpairs(xp.held(far) if xp.single else X, y)
    angle = oracle.largest_angle(components, vectors[:3])
    if not xp.single or offset == 1e3:  # else rounding of sums to float32 is all that is known
        assert angle < xp.tolerance(1e-6, 3e-5)


@pytest.mark.parametrize("solver", FORMS)
def test_offsets_in_float32(solver):
    X, y = oracle.blobs(500, 20, 4, seed=11)
    far = (X / X.std() + 1e3).astype(np.float32)
    model = slce_xp.fit(far, y, solver=solver)
    _, vectors = oracle.eigenpairs(far.astype(np.float64), y)
    assert oracle.largest_angle(model.components, vectors[:3]) < 1e-3


def odd_inputs():
    X, y = oracle.blobs(30, 6, 3, seed=13)
    constant = X.copy()
    constant[:, 2] = 7.25
    single = y.copy()
    single[:] = np.arange(30) % 2
    single[0] = 9
    return {
        "a class of one sample": (X, single),
        "a class for each sample": (X, np.arange(30)),
        "constant column": (constant, y),
        "duplicate rows": (np.repeat(X[:10], 3, axis=0), np.repeat(np.arange(10) % 3, 3)),
        "one feature": (X[:, :1], y),
        "two samples": (X[:2], np.array([0, 1])),
        "Fortran order": (np.asfortranarray(X), y),
        "negative strides": (X[::-1, ::-1], y[::-1]),
        "strided": (np.repeat(X, 2, axis=1)[:, ::2], y),
        "integers": ((10 * X).astype(np.int16), y),
        "booleans": (X > 0, y),
    }


@pytest.mark.parametrize("solver", FORMS)
@pytest.mark.parametrize("case", odd_inputs())
def test_unusual_inputs_are_accepted(xp, solver, case):
    if case not in ("two samples", "integers", "booleans"):
        spare_compiling(xp)
    X, y = odd_inputs()[case]
    before = X.copy()
    model = slce_xp.fit(xp.array(X), y, solver=solver)
    np.testing.assert_array_equal(X, before)
    k = min(len(np.unique(y)) - 1, X.shape[1])
    single = xp.single or (xp.name == "torch" and X.dtype != float)  # torch's default float
    X = xp.held(X)
    _, vectors = oracle.eigenpairs(X, y)
    exact = oracle.loss(X, y, vectors[:k])
    scale = (oracle.centred(X) ** 2).sum()
    tolerance = 1e-5 if single else 1e-10
    assert abs(model.loss - exact) <= tolerance * scale
    assert abs(oracle.loss(X, y, xp.numpy(model.components)) - exact) <= tolerance * scale


@pytest.mark.parametrize("solver", FORMS)
def test_identical_samples_have_no_direction(xp, solver):
    spare_compiling(xp)
    with pytest.warns(UserWarning, match="no components"):
        model = slce_xp.fit(xp.array(np.full((6, 4), 0.1)), [0, 1] * 3, "positive", solver=solver)
    assert model.n_components == 0
    assert xp.numpy(model.transform(xp.array(np.zeros((3, 4))))).shape == (3, 0)


@pytest.mark.parametrize("solver", FORMS)
def test_positive_keeps_what_lowers_the_loss(xp, solver):
    spare_compiling(xp)
    X, y = PROBLEMS["overlapping"]
    model = slce_xp.fit(xp.array(X), y, "positive", solver=solver)
    values, _ = oracle.eigenpairs(xp.held(X), y)
    assert model.n_components == model.n_positive == (values > 1e-9).sum() < 3
    assert model.n_positive > 0


def test_no_positive_eigenvalue_is_allowed():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), np.arange(300) % 3
    with pytest.warns(UserWarning, match="the classes overlap"):
        model = slce_xp.fit(X, y, "positive")
    assert model.components.shape == (0, 4)
    assert "none: no direction lowers the loss" in str(model)
    assert model.loss == model.total_loss
    np.testing.assert_allclose(model.reconstruct(X), np.tile(X.mean(axis=0), (300, 1)))


def test_default_is_one_less_than_the_classes_without_a_warning():
    X, y = PROBLEMS["overlapping"]
    model = slce_xp.fit(X, y)  # warnings are errors here
    assert model.n_components == 3 > model.n_positive


def test_short_floats_are_computed_in_float32():
    X, y = PROBLEMS["tall"]
    model = slce_xp.fit(X.astype(np.float16), y)
    assert model.components.dtype == np.float32
    torch = pytest.importorskip("torch")
    model = slce_xp.fit(torch.asarray(X).to(torch.bfloat16), y)
    assert model.components.dtype == torch.float32


def test_tensor_that_tracks_gradients():
    torch = pytest.importorskip("torch")
    X, y = PROBLEMS["tall"]
    model = slce_xp.fit(torch.asarray(X).requires_grad_(), y)
    assert not model.components.requires_grad


def test_nan_from_a_factorization(xp, monkeypatch):
    # NumPy raises if a matrix is not positive definite; GPU libraries and JAX return NaN: then
    # another factor is taken.
    X, y = oracle.blobs(40, 50, 3, seed=17)
    x = xp.array(X)
    linalg = _backend.place_of(x).xp.linalg
    monkeypatch.setattr(linalg, "cholesky", lambda matrix: matrix * float("nan"))
    model = slce_xp.fit(x, y, solver="gram")
    assert model.solver == "gram"
    exact = oracle.eigenpairs(xp.held(X), y)[1][:2]
    angle = oracle.largest_angle(xp.numpy(model.components), exact)
    assert angle <= min(model.angle_bound, xp.tolerance(1e-9, 1e-4))


@pytest.mark.parametrize("solver", ["scatter", "gram"])
def test_nan_from_an_eigensolver_raises(xp, monkeypatch, solver):
    spare_compiling(xp)
    x, y = xp.array(oracle.blobs(40, 50, 3, seed=17)[0]), np.arange(40) % 3
    solve = _backend.largest_eigenpairs

    def fails(matrix, k):
        values, vectors = solve(matrix, k)
        return values * float("nan"), vectors

    monkeypatch.setattr(_backend, "largest_eigenpairs", fails)
    with pytest.raises(np.linalg.LinAlgError, match="could not factor"):
        slce_xp.fit(x, y, solver=solver)


def test_no_random_state_draws_another_seed_each_time():
    X, y = oracle.blobs(4, 20, 2, seed=0)
    with pytest.warns(slce_xp.SLCEWarning, match="lower"):  # none of the last components
        drawn = [slce_xp.fit(X, y, 5, random_state=None).components[-4:] for _ in range(2)]
    assert (drawn[0] != drawn[1]).any()
