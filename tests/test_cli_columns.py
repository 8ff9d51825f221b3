"""Imputation and scaling of columns, against NumPy, pandas and scikit-learn."""

import numpy as np
import pytest
import scipy.sparse

from slce_xp import _backend
from slce_xp._data import columns

pandas = pytest.importorskip("pandas")


class Rows:
    """Row-sliceable object, like a file that is read in blocks."""

    def __init__(self, X):
        self._X = X
        self.shape, self.dtype = X.shape, X.dtype
        self.read = []

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        self.read.append(rows)
        return self._X[rows]


KINDS = {
    "dense": np.array,
    "sparse": scipy.sparse.csr_array,
    "sparse matrix": scipy.sparse.csr_matrix,
    "rows": Rows,
    "sparse rows": lambda X: Rows(scipy.sparse.csr_array(X)),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(name="X")
def table():
    """Some entries are zero, some missing; columns far from zero, constant, empty."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(101, 7)) * 10.0 ** np.arange(-3, 4)
    X[:, 1] += 1e7
    X[rng.random(X.shape) < 0.3] = 0.0
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 4] = 0.1
    X[:, 5] = 0.0
    X[:, 6] = np.nan
    return X


def dense(X):
    """Return all rows as a dense array."""
    X = X[0 : X.shape[0]] if not isinstance(X, np.ndarray) else X
    return X.toarray() if _backend.is_sparse(X) else X


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(columns, "_BLOCK_BYTES", 8 * 7 * 10)


def test_statistics_are_those_of_pandas(kind, X):
    found = columns.statistics(kind(X))
    frame = pandas.DataFrame(X)
    np.testing.assert_array_equal(found.missing, frame.isna().sum())
    np.testing.assert_allclose(found.mean[:6], frame.mean()[:6], rtol=1e-13)
    filled = frame.fillna(frame.mean())
    np.testing.assert_allclose(found.std[:4], filled.std(ddof=0)[:4], rtol=1e-12)
    np.testing.assert_array_equal(found.std[4:6], 0.0)


def test_statistics_read_blocks_twice_and_never_the_whole_file(X):
    rows = Rows(X)
    columns.statistics(rows)
    blocks = [slice(i, i + 10) for i in range(0, 101, 10)]
    assert rows.read == blocks + blocks


def test_constant_column_has_zero_spread_despite_rounding(kind):
    X = np.full((1000, 3), [0.1, -1e9 / 3, 0.0])
    assert X[:, 0].std() > 0  # by rounding
    found = columns.statistics(kind(X))
    np.testing.assert_array_equal(found.std, 0.0)
    np.testing.assert_array_equal(columns.spread(found.std), 1.0)


def test_narrow_spread_far_from_zero_is_not_zero(kind):
    X = 1e6 + np.random.default_rng(0).normal(size=(1000, 1)) * 1e-3
    np.testing.assert_allclose(columns.statistics(kind(X)).std, X.std(axis=0), rtol=1e-6)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e200, 1.7e308])
def test_numbers_too_large_to_be_squared_have_an_infinite_spread(kind, value):
    X = np.ones((30, 2))
    X[3:, 1] = value
    assert list(np.isfinite(columns.statistics(kind(X)).std)) == [True, False]


def test_prepared_equals_scikit_learn(kind, X):
    impute = pytest.importorskip("sklearn.impute").SimpleImputer()
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    X = X[:, :6]
    facts = columns.statistics(kind(X))
    found = columns.prepared(kind(X), facts.mean, columns.spread(facts.std))
    scaler = preprocessing.StandardScaler(with_mean=False)
    np.testing.assert_allclose(dense(found), scaler.fit_transform(impute.fit_transform(X)))
    filled = columns.prepared(kind(X), facts.mean)
    np.testing.assert_allclose(dense(filled), impute.transform(X), rtol=1e-13)


def test_prepared_keeps_type_and_dtype_and_leaves_input_unchanged(kind, X):
    X = X.astype(np.float32)
    given = kind(X)
    before = dense(given).copy()
    found = columns.prepared(given, np.ones(7), np.full(7, 3.0))
    assert found.shape == given.shape
    assert found.dtype == np.float32
    assert _backend.is_sparse(found) == _backend.is_sparse(given)
    assert (type(found) is np.ndarray) == (type(given) is np.ndarray)
    expected = np.where(np.isnan(X), np.float32(1), X) / np.float32(3)
    np.testing.assert_array_equal(dense(found), expected)
    np.testing.assert_array_equal(dense(given), before)
    assert columns.prepared(given) is given


def test_prepared_takes_integers_and_read_only_maps(kind):
    X = np.arange(12).reshape(4, 3)
    X.flags.writeable = False
    found = columns.prepared(kind(X), scale=np.array([1.0, 2.0, 4.0]))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(dense(found), X / [1.0, 2.0, 4.0])


def test_only_chooses_columns_in_the_requested_order(kind, X):
    given = kind(X)
    found = columns.only(given, np.array([3, 0, 2]))
    assert found.shape == (101, 3)
    np.testing.assert_array_equal(dense(found), X[:, [3, 0, 2]])
    np.testing.assert_array_equal(dense(given), X)


def test_chosen_columns_can_be_imputed(X):
    rows = columns.prepared(columns.only(Rows(X), np.array([2, 0])), np.array([5.0, 6.0]))
    expected = np.where(np.isnan(X[:, [2, 0]]), [5.0, 6.0], X[:, [2, 0]])
    np.testing.assert_array_equal(rows[0:101], expected)
    np.testing.assert_array_equal(rows[7:9], expected[7:9])


def test_entry_that_is_stored_in_several_parts_is_their_sum():
    parts = (
        np.array([3.0, 4.0, -2.0, 1.0, 5.0]),
        np.array([0, 0, 1, 1, 0]),
        np.array([0, 3, 4, 5, 5]),
    )
    X = scipy.sparse.csr_array(parts, shape=(4, 2))
    found, expected = columns.statistics(X), X.toarray()
    np.testing.assert_allclose(found.mean, expected.mean(axis=0))
    np.testing.assert_allclose(found.std, expected.std(axis=0))
    assert len(X.data) == 5  # X is unchanged
