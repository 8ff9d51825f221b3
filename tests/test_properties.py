"""The paper's six properties, and what must hold for any data."""

import numpy as np
import oracle
import pytest

import slce_xp

hypothesis = pytest.importorskip("hypothesis", reason="draws the data")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

FORMS = ["scatter", "gram", "krylov"]


@st.composite
def problems(draw):
    """Random classes of random sizes, wide and tall, overlapping and separated."""
    n_classes = draw(st.integers(2, 6))
    n = draw(st.integers(n_classes, 40))
    d = draw(st.integers(1, 40))
    separation = draw(st.sampled_from([0.0, 0.5, 2.0, 8.0]))
    X, y = oracle.blobs(n, d, n_classes, seed=draw(st.integers(0, 2**16)), separation=separation)
    return X * draw(st.sampled_from([1e-4, 1.0, 1e4])), y


def scale_of(X):
    return (oracle.centred(X) ** 2).sum()


def fit_all(X, y, solver):
    return slce_xp.fit(X, y, solver=solver)


def positive_part(model):
    return model.components[: model.n_positive]


def well_separated(X, y, level=1e-5):
    """Whether the positive subspace is determined: a gap below its last eigenvalue."""
    values, _ = oracle.eigenpairs(X, y)
    scale = np.abs(values).max()
    positive = int((values > 1e-12 * scale).sum())
    if positive == 0:
        return False
    below = values[positive] if positive < len(values) else -scale
    return values[positive - 1] - below > level * scale and values[positive - 1] > level * scale


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(FORMS))
def test_paper_properties(problem, solver):
    X, y = problem
    model = fit_all(X, y, solver)
    scale = scale_of(X)
    tolerance = 1e-9 * scale
    Xc, C = oracle.centred(X), oracle.centroid_rows(X, y)
    n_classes, k = len(model.classes), model.n_components

    # 1 and 2: XᵀC̃ + C̃ᵀX is positive semi-definite of rank at most K − 1
    double = np.linalg.eigvalsh(Xc.T @ C + C.T @ Xc)[::-1]
    assert double[-1] >= -tolerance
    assert (double[n_classes - 1 :] <= tolerance).all()
    # 3: its eigenvalues bound those of M, and at most K − 1 of those are positive
    np.testing.assert_allclose(model.eigenvalue_bounds, double[:k], atol=tolerance)
    assert (model.eigenvalues <= model.eigenvalue_bounds + tolerance).all()
    assert (oracle.eigenpairs(X, y)[0] > tolerance).sum() <= n_classes - 1
    assert model.n_positive <= n_classes - 1
    # 4: each component alone
    for component, expected in zip(model.components, model.component_losses, strict=True):
        assert abs(oracle.loss(X, y, component[None, :]) - expected) <= tolerance
    # 5: the first 1..k components together
    for count in range(1, k + 1):
        direct = oracle.loss(X, y, model.components[:count])
        assert abs(direct - model.loss_curve[count - 1]) <= tolerance
    assert abs(model.loss - oracle.loss(X, y, model.components)) <= tolerance
    # 6: the loss is lowest with the positive ones
    best = model.total_loss - model.eigenvalues[: model.n_positive].sum()
    assert (model.loss_curve >= best - tolerance).all()


@settings(max_examples=40, deadline=None)
@given(problems(), st.sampled_from(FORMS))
def test_number_of_positive_eigenvalues_equals_canonical_correlations_above_half(problem, solver):
    X, y = problem
    rho = oracle.canonical_correlations(X, y)
    if (np.abs(rho - 0.5) > 1e-6).all():
        assert slce_xp.fit(X, y, solver=solver).n_positive == (rho > 0.5).sum()


@settings(max_examples=40, deadline=None)
@given(problems())
def test_forms_agree(problem):
    X, y = problem
    reference, *others = (slce_xp.fit(X, y, solver=solver) for solver in FORMS)
    scale = scale_of(X)
    for other in others:
        np.testing.assert_allclose(other.eigenvalues, reference.eigenvalues, atol=1e-11 * scale)
        assert abs(other.loss - reference.loss) <= 1e-10 * scale
        if well_separated(X, y):
            assert other.n_positive == reference.n_positive
            angle = oracle.largest_angle(positive_part(other), positive_part(reference))
            assert angle < 1e-7


def transformed(kind, X, y, seed):
    """Other data with the same answer, and what makes of its components those of X."""
    rng = np.random.default_rng(seed)
    match kind:
        case "rotation":
            q, _ = np.linalg.qr(rng.standard_normal((X.shape[1],) * 2))
            return X @ q, y, lambda a: a @ q.T, 1.0
        case "renamed labels":
            names = rng.permutation([f"class {j}" for j in range(y.max() + 1)])
            return X, names[y], lambda a: a, 1.0
        case "permuted rows":
            order = rng.permutation(len(X))
            return X[order], y[order], lambda a: a, 1.0
        case "shift":
            return X + X.std() * rng.standard_normal(X.shape[1]), y, lambda a: a, 1.0
        case "scaling":
            return 8.0 * X, y, lambda a: a, 64.0


KINDS = ["rotation", "renamed labels", "permuted rows", "shift", "scaling"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(problem=problems(), solver=st.sampled_from(FORMS), seed=st.integers(0, 999))
def test_equivariance(kind, problem, solver, seed):
    X, y = problem
    other_X, other_y, back, factor = transformed(kind, X, y, seed)
    model, other = fit_all(X, y, solver), fit_all(other_X, other_y, solver)
    atol = 1e-10 * scale_of(X)
    np.testing.assert_allclose(other.eigenvalues / factor, model.eigenvalues, atol=atol)
    if well_separated(X, y):
        assert model.n_positive == other.n_positive
        stated = sum(m.angle_bounds[: m.n_positive].max(initial=0.0) for m in (model, other))
        angle = oracle.largest_angle(back(positive_part(other)), positive_part(model))
        assert angle < max(1e-6, min(stated, 1e-3))


@settings(max_examples=25, deadline=None)
@given(problems(), st.sampled_from(FORMS))
def test_input_is_not_modified(problem, solver):
    X, y = problem
    X_before, y_before = X.copy(), y.copy()
    slce_xp.fit(X, y, solver=solver).transform(X)
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(y, y_before)
