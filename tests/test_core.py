"""The public core: pure functions on arrays of every library, against naive sums and eigenpairs."""

import pickle

import numpy as np
import oracle
import pytest
import scipy.sparse as sp
from conftest import needs_float64, spare_compiling

import slce_xp
from slce_xp import core
from slce_xp.core._eigen import orthonormal_columns

FORMS = ["scatter", "gram", "krylov"]


def naive_sums(X, codes, n_classes, weights=None):
    sums = np.zeros((n_classes, X.shape[1]))
    np.add.at(sums, codes, X if weights is None else X * weights[:, None])
    return sums


def test_core_exports_its_main_functions():
    from slce_xp.core import class_sums, eigenpairs, largest_eigenpairs

    assert {class_sums, eigenpairs, largest_eigenpairs} <= {
        getattr(core, name) for name in core.__all__
    }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [3, 1500])
def test_class_sums_on_every_library(xp, n_classes, weighted):
    """By every route, and with the same bits each time."""
    rng = np.random.default_rng(0)
    X = xp.held(rng.standard_normal((500, 7)))
    codes = rng.integers(0, n_classes, 500)
    weights = xp.held(rng.uniform(0.5, 2.0, 500)) if weighted else None
    found, again = (
        xp.numpy(core.class_sums(xp.array(X), xp.array(codes), n_classes, weights=weights))
        for _ in range(2)
    )
    np.testing.assert_array_equal(found, again)
    expected = naive_sums(X.astype(float), codes, n_classes, weights)
    np.testing.assert_allclose(found, expected, atol=xp.tolerance(1e-12, 1e-4))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_very_many_classes(order, weighted):
    """Of rows as they are, of integers and of rows far from the origin, which are copied."""
    rng = np.random.default_rng(5)
    n, d, n_classes = 3000, 7, 1100
    codes = rng.permutation(np.arange(n) % n_classes)
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    X = rng.integers(-50, 50, (n, d))
    counted = np.ones(n, dtype=np.longdouble) if weights is None else weights.astype(np.longdouble)
    totals = np.zeros((n_classes, 1), dtype=np.longdouble)
    np.add.at(totals, codes, counted[:, None])
    for values in (X + 0.5, X, X / 64 + 1e7):
        given = np.asarray(values, order=order)
        moments = core.class_moments(given, codes, n_classes, weights=weights, second=False)
        expected = np.zeros((n_classes, d), dtype=np.longdouble)
        np.add.at(expected, codes, (values.astype(np.longdouble) - values[0]) * counted[:, None])
        expected = expected / totals + values[0]
        np.testing.assert_allclose(moments.class_means, expected, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(moments.counts, totals[:, 0].astype(float), rtol=1e-12)


def test_single_precision_adds_up_long_classes_in_runs():
    """One after the other, 200 000 numbers of one size would lose three digits."""
    rng = np.random.default_rng(6)
    codes = np.where(rng.random(200_000) < 0.99, 1, rng.integers(0, 3, 200_000))
    x = rng.uniform(0.9, 1.1, (200_000, 2)).astype(np.float32)
    expected = np.zeros((3, 2))
    np.add.at(expected, codes, x.astype(float))
    np.testing.assert_allclose(core.class_sums(x, codes, 3), expected, rtol=1e-6)


def test_class_sums_ignore_the_unlabelled_code():
    X = np.arange(8.0).reshape(4, 2)
    found = core.class_sums(X, [0, 2, 1, 0], 2)
    np.testing.assert_array_equal(found, [X[0] + X[3], X[2]])


@pytest.mark.parametrize("n_classes", [3, 150])
def test_class_sums_of_a_sparse_matrix(n_classes):
    rng = np.random.default_rng(1)
    X = rng.poisson(0.3, (400, 20)).astype(float)
    codes = rng.integers(0, n_classes, 400)
    found = core.class_sums(sp.csr_array(X), codes, n_classes)
    np.testing.assert_allclose(found, naive_sums(X, codes, n_classes), atol=1e-12)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([0, 1], "shape"),
        ([0, 1, 3], "from 0 to"),
        ([0, -1, 1], "from 0"),
        ([0.0, 1, 1], "integers"),
    ],
)
def test_invalid_codes_raise(codes, message):
    with pytest.raises(ValueError, match=f"^codes must .*{message}"):
        core.class_sums(np.zeros((3, 2)), np.asarray(codes), 2)


@pytest.mark.parametrize("n_classes", [2, 100])
@pytest.mark.parametrize("length", [1, 5, 7])
def test_invalid_weights_raise(n_classes, length):
    codes = np.asarray([0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match=r"^weights must have shape \(6,\)"):
        core.class_sums(np.ones((6, 2)), codes, n_classes, weights=np.ones(length))


def test_non_finite_matrix_raises():
    matrix = np.eye(500)
    matrix[3, 3] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="finite"):
        core.largest_eigenpairs(matrix, 2)


@pytest.mark.parametrize("m", [5, 450])
def test_largest_eigenpairs_on_every_library(xp, m):
    rng = np.random.default_rng(2)
    A = rng.standard_normal((m, m))
    A = xp.held(A + A.T)
    values, vectors = core.largest_eigenpairs(xp.array(A), 3)
    values, vectors = xp.numpy(values), xp.numpy(vectors).astype(float)
    assert values.shape == (3,)
    assert vectors.shape == (m, 3)
    expected = np.linalg.eigvalsh(A.astype(float))[::-1][:3]
    np.testing.assert_allclose(values, expected, atol=xp.tolerance(1e-10, 1e-3))
    np.testing.assert_allclose(
        A.astype(float) @ vectors, vectors * values, atol=xp.tolerance(1e-9, 1e-3)
    )


@pytest.mark.parametrize("k", [0, 4])
def test_largest_eigenpairs_validate_k(k):
    with pytest.raises(ValueError, match=r"^k must be an integer of at least 1 and at most 3"):
        core.largest_eigenpairs(np.eye(3), k)


@pytest.mark.parametrize("shape", [(120, 30), (30, 90)], ids=["tall", "wide"])
@pytest.mark.parametrize("form", [*FORMS, "auto"])
def test_eigenpairs_on_every_library(xp, form, shape):
    if form != "auto":
        spare_compiling(xp)
    X, y = oracle.blobs(*shape, 4, seed=3)
    X = xp.held(X)
    found = core.eigenpairs(xp.array(X), xp.array(y.astype(np.int64)), 4, 3, form=form)
    values, vectors = oracle.eigenpairs(X.astype(float), y)
    assert found.n_positive == (3, 3)
    assert found.converged
    np.testing.assert_allclose(xp.numpy(found.values), values[:3], rtol=xp.tolerance(1e-7, 1e-4))
    A = xp.numpy(found.components).astype(float)
    assert oracle_angle(A, vectors[:3]) < xp.tolerance(1e-6, 1e-3)
    np.testing.assert_allclose(
        xp.numpy(found.mean), X.astype(float).mean(axis=0), atol=xp.tolerance(1e-12, 1e-5)
    )


def oracle_angle(A, B):
    return np.linalg.norm(A - (A @ B.T) @ B, 2)


@pytest.mark.parametrize("form", FORMS)
def test_eigenpairs_equal_those_of_fit_bitwise(form):
    X, y = oracle.blobs(90, 40, 5, seed=4)
    weights = np.random.default_rng(4).uniform(0.5, 2.0, 90)
    model = slce_xp.fit(X, y, 4, solver=form, sample_weight=weights)
    found = core.eigenpairs(X, y, 5, 4, form=form, weights=weights)
    if form == "krylov":  # whose start block is wider by the plan
        np.testing.assert_allclose(found.values, model.eigenvalues, rtol=1e-9)
    else:
        np.testing.assert_array_equal(found.values, model.eigenvalues)
        np.testing.assert_array_equal(found.components, model.components)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, codes, weights: core.class_sums(x, codes, 3, weights=weights),
        lambda x, codes, weights: core.class_moments(x, codes, 3, weights=weights),
        lambda x, codes, weights: core.eigenpairs(x, codes, 3, 2, weights=weights),
        lambda x, codes, weights: core.separating_components(x, codes, 3, 2, weights=weights),
    ],
)
def test_nothing_that_is_given_is_changed(call):
    given = (*oracle.blobs(90, 6, 3, seed=4), np.linspace(20.0, 90.0, 90))
    before = [values.copy() for values in given]
    call(*given)
    for values, copy in zip(given, before, strict=True):
        np.testing.assert_array_equal(values, copy)


def test_eigenpairs_beyond_the_positive_ones_come_from_a_dense_form():
    X, y = oracle.blobs(200, 20, 3, seed=5)
    found = core.eigenpairs(X, y, 3, 6, form="krylov")
    assert found.form == "scatter"
    np.testing.assert_allclose(found.values, oracle.eigenpairs(X, y)[0][:6], rtol=1e-8)


def test_eigenpairs_with_samples_without_a_label():
    X, y = oracle.blobs(100, 12, 3, seed=6)
    codes = np.where(np.arange(100) % 3 == 0, 3, y)
    model = slce_xp.fit(X, np.where(codes == 3, -1, y), 2, unlabeled=-1, unlabeled_weight=0.3)
    found = core.eigenpairs(X, codes, 3, 2, unlabeled_weight=0.3)
    np.testing.assert_allclose(found.values, model.eigenvalues, rtol=1e-10)


@pytest.mark.parametrize("form", ["auto", "scatter", "gram", "krylov"])
def test_eigenpairs_of_a_sparse_matrix(form):
    rng = np.random.default_rng(7)
    X = rng.poisson(0.5, (150, 25)).astype(float)
    y = np.arange(150) % 4
    X[:, :4] += 3 * np.eye(4)[y]
    found = core.eigenpairs(sp.csr_array(X), y, 4, 3, form=form)
    np.testing.assert_allclose(found.values, oracle.eigenpairs(X, y)[0][:3], rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e7])
def test_far_sparse_rows_state_a_larger_level(offset):
    """Sparse rows are not shifted before they are multiplied, and rounding is as large as they."""
    X, y = oracle.blobs(40, 90, 3, seed=8)
    X = X + offset
    exact = oracle.eigenpairs(X, y)[1]
    for form in ("gram", "krylov"):
        dense, found = (core.eigenpairs(x, y, 3, 2, form=form) for x in (X, sp.csr_array(X)))
        assert found.form == form
        assert dense.zero_level <= found.zero_level
        assert found.n_positive == dense.n_positive == (2, 2)
        angle = oracle.largest_angle(found.components, exact[:2])
        assert angle <= found.angle_bounds[-1] <= 1e-2


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("function", [core.eigenpairs, core.separating_components])
def test_gram_form_of_sparse_rows_alone_raises(function):
    torch = pytest.importorskip("torch")
    x = torch.eye(4, dtype=torch.float64).to_sparse_csr()
    with pytest.raises(ValueError, match=r"^form must not be 'gram' for a sparse x") as caught:
        function(x, [0, 0, 1, 1], 2, 1, form="gram")
    assert caught.value.parameter == "form"


FOUR = np.asarray([[0.0, 1.0], [1.0, 0.0], [8.0, 1.0], [9.0, 0.0]])
CODES = np.asarray([0, 0, 1, 1])
# Wrong for every function of an array and codes.
WRONG = [
    ({"x": FOUR[:, 0]}, "x must be a two-dimensional"),
    ({"x": FOUR.tolist()}, "x must be .* got list"),
    ({"x": FOUR + 1j}, "x must be .* complex128"),
    ({"x": np.ma.masked_less(FOUR, 1.0)}, "x must not be a masked array"),
    ({"x": sp.coo_array(FOUR[:, 0])}, "x must be a two-dimensional"),
    ({"codes": CODES.astype(float)}, "codes must be integers"),
    ({"codes": CODES > 0}, "codes must be integers"),
    ({"codes": ["a", "a", "b", "b"]}, "codes must be integers"),
    ({"codes": [0, 0, 1, 3]}, "codes must be integers from 0"),
    ({"codes": CODES[:, None]}, "codes must have shape"),
    ({"codes": np.ma.masked_equal(CODES, 0)}, "codes must not be a masked array"),
    ({"n_classes": 2.0}, "n_classes must be an integer"),
    ({"n_classes": True}, "n_classes must be an integer"),
    ({"n_classes": 0}, "n_classes must be an integer"),
    ({"weights": np.ma.masked_equal([1.0, 9.0, 1.0, 1.0], 9.0)}, "weights must not be a masked"),
    ({"weights": [1.0, np.nan, 1.0, 1.0]}, "weights must be finite; got nan at position 1"),
    ({"weights": [1.0, 1j, 1.0, 1.0]}, "weights must be real"),
    ({"weights": ["1", "2", "3", "4"]}, "weights must be real"),
    ({"weights": np.ones(3)}, "weights must have shape"),
]
WRONG_FOR_EIGENPAIRS = [
    ({"k": 0}, "k must be an integer"),
    ({"k": 3}, "k must be an integer"),
    ({"k": 1.0}, "k must be an integer"),
    ({"k": True}, "k must be an integer"),
    ({"n_classes": 1, "codes": CODES * 0}, "n_classes must be an integer"),
    ({"n_classes": 4}, "codes must have samples of each"),
    ({"form": "dense"}, "form must"),
    ({"form": ["gram"]}, "form must"),
    ({"form": None}, "form must"),
    ({"weights": [1.0, 0.0, 1.0, 1.0]}, "weights must be positive"),
    ({"weights": [1.0, -2.0, 1.0, 1.0]}, "weights must be positive"),
    ({"unlabeled_weight": -1.0}, "unlabeled_weight must"),
    ({"unlabeled_weight": np.nan}, "unlabeled_weight must"),
    ({"unlabeled_weight": 1e30}, "unlabeled_weight must .* at most 1e\\+15"),
    ({"unlabeled_weight": "1"}, "unlabeled_weight must"),
    ({"tol": -1e-3}, "tol must"),
    ({"tol": np.nan}, "tol must"),
    ({"tol": "small"}, "tol must"),
    ({"max_iter": 0}, "max_iter must"),
    ({"max_iter": 2.5}, "max_iter must"),
    ({"random_state": -1}, "random_state must"),
    ({"random_state": 1.5}, "random_state must"),
]
FUNCTIONS = {
    "class_sums": lambda x, codes, n_classes, k, **rest: core.class_sums(
        x, codes, n_classes, **rest
    ),
    "class_moments": lambda x, codes, n_classes, k, **rest: core.class_moments(
        x, codes, n_classes, **rest
    ),
    "eigenpairs": lambda x, codes, n_classes, k, **rest: core.eigenpairs(
        x, codes, n_classes, k, **rest
    ),
}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [(name, *case) for name in FUNCTIONS for case in WRONG]
    + [("eigenpairs", *case) for case in WRONG_FOR_EIGENPAIRS],
)
def test_core_functions_validate_arguments(name, change, message):
    arguments = {"x": FOUR, "codes": CODES, "n_classes": 2, "k": 1, **change}
    with pytest.raises((TypeError, ValueError), match=f"^{message}") as caught:
        FUNCTIONS[name](**arguments)
    assert message.startswith(caught.value.parameter)


def test_errors_of_separation_name_codes():
    with pytest.raises(ValueError, match=r"^codes must hold classes whose means differ") as caught:
        core.separating_components(np.tile(FOUR[:2], (2, 1)), CODES, 2, 1, shrinkage=1.0)
    assert caught.value.parameter == "codes"


@pytest.mark.parametrize("name", ["eigenpairs", "class_moments"])
def test_errors_of_values_name_x(name):
    x = FOUR.copy()
    x[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"^x must be finite; found NaN at row 2") as caught:
        FUNCTIONS[name](x, CODES, 2, 1)
    assert caught.value.parameter == "x"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: core.largest_eigenpairs(np.eye(3), 1.0), "k must be an integer"),
        (lambda: core.largest_eigenpairs(np.eye(3), True), "k must be an integer"),
        (lambda: core.largest_eigenpairs(np.ones(3), 1), "matrix must be a two-dimensional"),
        (lambda: core.largest_eigenpairs(np.ones((3, 2)), 1), "matrix must be square"),
        (lambda: core.largest_eigenpairs(1j * np.eye(3), 1), "matrix must be .* complex128"),
        (lambda: core.largest_eigenpairs([[1.0]], 1), "matrix must be .* got list"),
        (lambda: core.largest_eigenpairs(sp.eye_array(3), 1), "matrix must be .* got dia_array"),
        (lambda: core.fix_signs(np.ones(3)), "vectors must be a two-dimensional"),
    ],
)
def test_linear_algebra_validates_arguments(call, message):
    with pytest.raises((TypeError, ValueError), match=f"^{message}") as caught:
        call()
    assert message.startswith(caught.value.parameter)


@pytest.mark.parametrize("dtype", ["int64", "float16"])
def test_linear_algebra_converts_integers_to_floats(dtype):
    matrix = np.asarray([[2, 1], [1, 2]], dtype=dtype)
    values, vectors = core.largest_eigenpairs(matrix, 2)
    np.testing.assert_allclose(values, [3.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(np.abs(vectors), 0.5**0.5, rtol=1e-6)


@pytest.mark.parametrize("m", [7, 60, 5000])
@pytest.mark.parametrize(
    "case", ["orthogonal", "random", "nearly dependent", "dependent", "tiny", "huge", "mixed units"]
)
def test_orthonormal_columns_are_those_of_reflections(case, m):
    # Nearly orthogonal columns are made orthonormal by their Gram matrix, others by LAPACK's QR.
    matrix = np.random.default_rng(3).standard_normal((m, 5))
    if case == "orthogonal":
        matrix = np.linalg.qr(matrix)[0] * (1.0 + 1e-9 * matrix)
    elif "dependent" in case:
        matrix[:, 3] = matrix[:, 1] - matrix[:, 0] + (1e-6 * matrix[:, 3] if "near" in case else 0)
    scale = {"tiny": 1e-200, "huge": 1e200, "mixed units": 10.0 ** np.arange(-8, 9, 4)}
    matrix = matrix * scale.get(case, 1.0)
    q, (expected, r) = orthonormal_columns(matrix), np.linalg.qr(matrix)
    assert np.abs(q.T @ q - np.eye(5)).max() < 1e-14
    known = slice(0, 3) if case == "dependent" else slice(None)
    signs = np.where(np.diagonal(r) < 0, -1.0, 1.0)
    tolerance = 1e-8 if case == "nearly dependent" else 1e-13
    np.testing.assert_allclose(q[:, known], (expected * signs)[:, known], rtol=0, atol=tolerance)


@pytest.mark.parametrize("n_classes", [3, 100])
@pytest.mark.parametrize("kind", ["dense", "csr", "duplicates", "torch", "strict"])
@pytest.mark.parametrize("weighted", [False, True])
def test_non_finite_values_stay_in_the_sums_of_their_class(kind, n_classes, weighted):
    rng = np.random.default_rng(5)
    X = rng.poisson(1.0, (300, 6)).astype(float)
    codes = np.concatenate([np.arange(n_classes + 1), rng.integers(0, n_classes + 1, 300)])[:300]
    X[[0, 5], 0] = np.inf
    X[1, [1, 2]] = np.nan
    X[2, 3], X[np.flatnonzero(codes == 2)[1], 3] = np.inf, -np.inf
    X[n_classes, 4] = np.nan  # left out
    weights = rng.uniform(1, 2, 300) if weighted else None
    sums = np.zeros((n_classes + 1, 6))
    with np.errstate(invalid="ignore"):
        np.add.at(sums, codes, X if weights is None else X * weights[:, None])
    given = X
    if kind in ("csr", "duplicates"):
        given = sp.csr_array(X)
    if kind == "duplicates":
        given = sp.csr_array(
            (np.repeat(given.data / 2, 2), np.repeat(given.indices, 2), 2 * given.indptr)
        )
    elif kind == "torch":
        given = pytest.importorskip("torch").asarray(X)
    elif kind == "strict":
        given = pytest.importorskip("array_api_strict").asarray(X)
    found = np.asarray(core.class_sums(given, codes, n_classes, weights=weights))
    assert 0 < np.isnan(sums[:-1]).sum() < 10
    np.testing.assert_allclose(found, sums[:-1], rtol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_weight_beyond_the_dtype_reaches_its_own_class_only(kind):
    x = kind(np.array([[1.0, 0.0], [2.0, 3.0], [4.0, 5.0]], dtype=np.float32))
    sums = core.class_sums(x, np.array([0, 1, 1]), 2, weights=np.array([1e300, 1.0, 2.0]))
    np.testing.assert_array_equal(sums[1], [10.0, 13.0])
    assert sums[0, 0] == np.inf


@pytest.mark.parametrize("change", ["features", "classes", "unlabeled_weight", "library"])
def test_incompatible_moments_cannot_be_added(change):
    first = core.class_moments(FOUR, CODES, 2)
    strict = pytest.importorskip("array_api_strict")
    other = {
        "features": lambda: core.class_moments(FOUR[:, :1], CODES, 2),
        "classes": lambda: core.class_moments(FOUR, np.asarray([0, 1, 2, 2]), 3),
        "unlabeled_weight": lambda: core.class_moments(FOUR, CODES, 2, unlabeled_weight=2.0),
        "library": lambda: core.class_moments(strict.asarray(FOUR), CODES, 2),
    }[change]()
    rule = "must be on numpy" if change == "library" else f"must have the same .*{change}"
    with pytest.raises(ValueError, match=f"^other {rule}"):
        first + other
    with pytest.raises(TypeError):
        first + 1


@pytest.mark.parametrize("kind", ["plain", "weights", "unlabelled"])
def test_moments_of_shards_are_those_of_the_whole(xp, kind):
    """Some shards have no sample of some class."""
    needs_float64(xp)
    X, y = oracle.blobs(120, 6, 3, seed=8)
    X, y = X[np.argsort(y, kind="stable")] + 1e3, np.sort(y)
    if kind == "unlabelled":
        y = np.where(np.arange(120) % 7 == 0, 3, y)
    weights = np.random.default_rng(8).uniform(0.5, 2.0, 120) if kind == "weights" else None

    def of(rows):
        w = None if weights is None else weights[rows]
        found = core.class_moments(xp.array(X[rows]), xp.array(y[rows]), 3, weights=w)
        return pickle.loads(pickle.dumps(found)) if xp.label in ("numpy", "torch") else found

    both = sum(of(slice(i, i + 30)) for i in range(0, 120, 30))
    whole = core.eigenpairs(xp.array(X), xp.array(y), 3, 4, form="scatter", weights=weights)
    np.testing.assert_allclose(xp.numpy(both.mean), xp.numpy(whole.mean), rtol=1e-13)
    counted = np.ones(120) if weights is None else weights
    means = naive_sums(X, y, 4, counted)[:3] / np.bincount(y, counted)[:3, None]
    np.testing.assert_allclose(xp.numpy(both.class_means), means, rtol=1e-13)
    np.testing.assert_allclose(both.counts, np.bincount(y, counted)[:3], rtol=1e-13)
    found = both.eigenpairs(4)
    scale = float(np.abs(xp.numpy(whole.values)).max())
    np.testing.assert_allclose(xp.numpy(found.values), xp.numpy(whole.values), atol=1e-12 * scale)
    assert found.n_positive == whole.n_positive
    assert oracle_angle(xp.numpy(found.components), xp.numpy(whole.components)) < 1e-9
    assert str(both).startswith("Moments(n_classes=3, n_features=6, counts=[")


def test_moments_of_a_class_without_samples():
    moments = core.class_moments(FOUR, CODES, 3)
    assert np.isnan(moments.class_means[2]).all()
    np.testing.assert_array_equal(moments.counts, [2.0, 2.0, 0.0])
    expected = core.eigenpairs(FOUR, CODES, 2, 2)
    np.testing.assert_array_equal(moments.eigenpairs(2).values, expected.values)
    with pytest.raises(ValueError, match=r"^codes must have samples of 2 classes"):
        core.class_moments(FOUR[:2], CODES[:2], 3).eigenpairs(1)
    with pytest.raises(ValueError, match=r"^second must be True"):
        core.class_moments(FOUR, CODES, 2, second=False).eigenpairs(1)


# ---------------------------------------------------------------- compilers


CALLS = {
    "class_sums": lambda x, codes: core.class_sums(x, codes, 3),
    "class_sums of many": lambda x, codes: core.class_sums(x, codes, 300),
    "largest_eigenpairs": lambda x, codes: core.largest_eigenpairs(x.T @ x, 2),
    "fix_signs": lambda x, codes: core.fix_signs(x),
}


def check_compiled(compiled, plain):
    if not isinstance(plain, tuple):
        compiled, plain = (compiled,), (plain,)
    for there, here in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(np.asarray(there), np.asarray(here), atol=1e-4)


@pytest.mark.parametrize("call", CALLS)
def test_static_shapes_work_under_jit(call):
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(9)
    x = jax.numpy.asarray(rng.standard_normal((40, 5)), dtype=jax.numpy.float32)
    codes = jax.numpy.asarray(rng.integers(0, 3, 40))
    check_compiled(jax.jit(CALLS[call])(x, codes), CALLS[call](x, codes))


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
@pytest.mark.parametrize("call", CALLS)
def test_static_shapes_work_under_torch_compile(call):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(9)
    x = torch.asarray(rng.standard_normal((40, 5)), dtype=torch.float32)
    codes = torch.asarray(rng.integers(0, 3, 40))
    compiled = torch.compile(CALLS[call], backend="eager")
    check_compiled(compiled(x, codes), CALLS[call](x, codes))
