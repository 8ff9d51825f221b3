"""Bad input raises an error with a remedy; unusual but valid input is accepted."""

import datetime

import numpy as np
import oracle
import pandas as pd
import pytest

import slce_xp
from slce_xp.core import _rows

pl = pytest.importorskip("polars", reason="labels and tables of Polars are tested here, too")

N, D = 30, 4
X, CODES = oracle.blobs(N, D, 3, seed=21)
WHOLE = np.round(10 * X)  # the same numbers whether stored as integers or as floats
REFERENCE = slce_xp.fit(X, CODES)


def frame(**columns):
    return pd.DataFrame(X, columns=list("abcd")).assign(**columns)


# ---------------------------------------------------------------- X


BAD_ARRAYS = {
    "one-dimensional": (X[:, 0], ValueError, r"two-dim.*shape \(30,\).*X\.reshape\(-1, 1\)"),
    "three-dimensional": (X[None], ValueError, r"two-dim.*shape \(1, 30, 4\).*X\.reshape\(n, -1\)"),
    "no rows": (X[:0], ValueError, r"at least one row \(sample\); got shape \(0, 4\)"),
    "no features": (X[:, :0], ValueError, r"at least one column \(feature\); got shape \(30, 0\)"),
    "complex": (X * 1j, TypeError, r"real numbers; got dtype complex(64|128): take X\.real"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays_raise(xp, case):
    values, error, message = BAD_ARRAYS[case]
    with pytest.raises(error, match=f"^X must .*{message}"):
        slce_xp.fit(xp.array(values), CODES)


def torch_sparse():
    return pytest.importorskip("torch").asarray(X).to_sparse()


def jax_sparse():
    pytest.importorskip("jax")
    from jax.experimental import sparse

    return sparse.BCOO.fromdense(X.astype(np.float32))


BAD_OBJECTS = {
    "nothing": (
        None,
        TypeError,
        "array, a list of rows, a data frame or .* rows X.i:j.; got NoneType",
    ),
    "number": (3, TypeError, "array, a list of rows, a data frame or .* rows X.i:j.; got int"),
    "objects": (X.astype(object), TypeError, r"real numbers; got dtype object.*X\.astype\(float\)"),
    "strings": (X.astype(str), TypeError, r"real numbers; got dtype str.*X\.astype\(float\)"),
    "dates": (X.astype("M8[s]"), TypeError, "real numbers; got dtype datetime64"),
    "None in a list": ([[1.0, None]] * N, TypeError, "real numbers; got dtype object"),
    "ragged": (
        [[1, 2]] * (N - 1) + [[1]],
        ValueError,
        "rectangular; its rows have different lengths",
    ),
    "masked": (np.ma.array(X), TypeError, r"not be a masked array.*X\.filled"),
    "jax sparse": (jax_sparse, TypeError, r"SciPy, CuPy or torch; got .*BCOO.*todense\(\)"),
    "text column": (frame(town="1"), TypeError, r"numbers only; column 'town'.*columns=\['town'\]"),
    "date column": (frame(day=pd.Timestamp(2020, 1, 1)), TypeError, "numbers only; column 'day'"),
    "polars text column": (
        pl.DataFrame({"a": np.arange(N), "town": ["x"] * N}),
        TypeError,
        "numbers only; column 'town'",
    ),
    "missing in a nullable column": (
        frame(b=pd.array([1.5] * 6 + [pd.NA] * (N - 6), dtype="Float64")),
        ValueError,
        "finite; found NaN at row 6, column 1",
    ),
    "missing in a polars column": (
        pl.DataFrame({"a": [1] * N, "b": [1.5] * 6 + [None] * (N - 6)}),
        ValueError,
        "finite; found NaN at row 6, column 1",
    ),
}


@pytest.mark.parametrize("case", BAD_OBJECTS)
def test_non_numeric_inputs_raise(case):
    bad, error, message = BAD_OBJECTS[case]
    with pytest.raises(error, match=f"^X must .*{message}") as caught:
        slce_xp.fit(bad() if callable(bad) else bad, CODES)
    assert caught.value.parameter == "X"


NOT_FINITE = {
    "NaN in the first row": ([(0, 0, np.nan)], "NaN at row 0, column 0"),
    "NaN in the last row": ([(29, 3, np.nan)], "NaN at row 29, column 3"),
    "infinity": ([(11, 2, np.inf), (11, 3, np.nan)], "infinity at row 11, column 2"),
    "-infinity": ([(11, 2, -np.inf), (29, 0, np.inf)], "infinity at row 11, column 2"),
    "infinities that cancel": (
        [(17, 1, np.inf), (18, 1, -np.inf)],
        "infinity at row 17, column 1",
    ),
}


@pytest.mark.parametrize("rows_per_block", [5, N])
@pytest.mark.parametrize("case", NOT_FINITE)
def test_first_non_finite_value_is_located(xp, monkeypatch, case, rows_per_block):
    monkeypatch.setattr(_rows, "block_bytes", lambda *size: rows_per_block * D * X.itemsize)
    entries, place = NOT_FINITE[case]
    bad = X.copy()
    for row, column, value in entries:
        bad[row, column] = value
    with pytest.raises(ValueError, match=f"^X must be finite; found {place}.*impute"):
        slce_xp.fit(xp.array(bad), CODES)


@pytest.mark.parametrize("solver", ["scatter", "gram"])
def test_non_finite_values_are_found_among_many_classes(solver):
    bad, y = oracle.blobs(200, 5, 100, seed=22)
    bad[140, 4] = np.nan
    with pytest.raises(ValueError, match="found NaN at row 140, column 4"):
        slce_xp.fit(bad, y, solver=solver)


@pytest.mark.parametrize("scale", [1e160, 3e307])
@pytest.mark.parametrize("solver", ["scatter", "gram", "krylov"])
def test_numbers_whose_squares_overflow_are_fitted(solver, scale):
    expected = slce_xp.fit(X, CODES, solver=solver)
    with pytest.warns(UserWarning, match="within the range"):
        model = slce_xp.fit(X / np.abs(X).max() * scale, CODES, solver=solver)
    np.testing.assert_allclose(model.components, expected.components, atol=1e-9)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
@pytest.mark.parametrize("solver", ["scatter", "gram"])
def test_all_zeros_are_accepted(solver, shape):
    model = slce_xp.fit(np.zeros(shape), np.arange(shape[0]) % 2, solver=solver)
    assert model.n_positive == 0
    np.testing.assert_array_equal(model.eigenvalues, [0])
    np.testing.assert_allclose(model.components @ model.components.T, [[1]])


GOOD_MATRICES = {
    "list of lists": X.tolist(),
    "tuple of tuples": tuple(map(tuple, X.tolist())),
    "list of arrays": list(X),
    "pandas": pd.DataFrame(X, index=np.arange(N) % 7),
    "pandas with columns that share a name": pd.DataFrame(X, columns=list("aabb")),
    "pandas with columns named like attributes": pd.DataFrame(
        X, columns=["nnz", "layout", "shape", "dtype"]
    ),
    "pandas nullable": pd.DataFrame(X).astype("Float64"),
    "pandas nullable and not": pd.DataFrame(X).astype({0: "Float64"}),
    "polars": pl.DataFrame(X),
    "matrix": X.view(np.matrix),
    "big-endian": X.astype(">f8"),
    "long double": X.astype(np.longdouble),
}


@pytest.mark.parametrize("kind", GOOD_MATRICES)
def test_other_kinds_of_matrices_are_accepted(kind):
    model = slce_xp.fit(GOOD_MATRICES[kind], CODES)
    assert type(model.components) is np.ndarray
    assert model.components.dtype == np.float64
    np.testing.assert_allclose(model.components, REFERENCE.components, atol=1e-13)


@pytest.mark.parametrize("kind", ["big-endian", "long double"])
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_unsupported_host_dtypes_are_converted_during_transfer(backend, kind):
    pytest.importorskip(backend)
    model = slce_xp.fit(GOOD_MATRICES[kind], CODES, backend=backend)
    np.testing.assert_allclose(model.to("numpy").components, REFERENCE.components, atol=1e-5)


INTEGER_MATRICES = {
    "list of lists": WHOLE.astype(int).tolist(),
    "pandas": pd.DataFrame(WHOLE.astype("int16")),
    "pandas nullable": pd.DataFrame(WHOLE.astype(int)).astype("Int64"),
    "pandas mixed": pd.DataFrame(WHOLE).astype({0: "int8", 1: "Int16", 2: object}),
    "polars": pl.DataFrame(WHOLE.astype(int)),
}


@pytest.mark.parametrize("kind", INTEGER_MATRICES)
def test_integers_are_converted_to_floats(kind):
    model = slce_xp.fit(INTEGER_MATRICES[kind], CODES)
    np.testing.assert_allclose(model.components, slce_xp.fit(WHOLE, CODES).components, atol=1e-13)


@pytest.mark.parametrize(
    "single",
    [
        pd.DataFrame(X.astype("float32")),
        pd.DataFrame(X).astype("Float32"),
        pl.DataFrame(X.astype("float32")),
    ],
    ids=["pandas", "pandas nullable", "polars"],
)
def test_frames_of_float32_stay_float32(single):
    assert slce_xp.fit(single, CODES).components.dtype == np.float32


# ---------------------------------------------------------------- y


def spoilt(labels, value):
    """Labels with one that is missing, at position 7, and a second one later."""
    labels = list(labels)
    labels[7] = labels[20] = value
    return labels


TEXT = np.array(["ant", "bee", "cat"])[CODES].tolist()
DATES = np.array(["2020-01-01", "2021-05-05", "2022-02-02"], "M8[D]")[CODES]

MISSING = {
    "NaN": (np.array(spoilt(CODES, np.nan)), "nan"),
    "NaN in a list of numbers": (spoilt(CODES.tolist(), float("nan")), "nan"),
    "NaN in a list of strings": (spoilt(TEXT, float("nan")), "nan"),
    "None in a list of strings": (spoilt(TEXT, None), "None"),
    "None in a list of numbers": (spoilt(CODES.tolist(), None), "None"),
    "None in an array": (np.array(spoilt(TEXT, None), object), "None"),
    "empty in a list": (spoilt(TEXT, ""), "''"),
    "empty in an array": (np.array(spoilt(TEXT, "")), "''"),
    "empty in an array of objects": (np.array(spoilt(TEXT, ""), object), "''"),
    "empty in an array of bytes": (np.array(spoilt(TEXT, "")).astype("S"), "b''"),
    "empty in an array of variable-width strings": (
        np.array(spoilt(TEXT, ""), np.dtypes.StringDType()),
        "''",
    ),
    "NA in a list": (spoilt(TEXT, pd.NA), "<NA>"),
    "NA in a pandas Series of integers": (
        pd.Series(spoilt(CODES, pd.NA), dtype="Int64"),
        "nan|<NA>",
    ),
    "NA in a pandas Series of strings": (pd.Series(spoilt(TEXT, pd.NA), dtype="string"), "<NA>"),
    "NA in a pandas Series of booleans": (
        pd.Series(spoilt(CODES == 0, pd.NA), dtype="boolean"),
        "nan|<NA>",
    ),
    "missing in a pandas Categorical": (pd.Categorical(spoilt(TEXT, None)), "nan"),
    "NaT": (np.array(spoilt(DATES, np.datetime64("NaT", "D"))), "NaT"),
    "NaT in a list": (spoilt(DATES.tolist(), pd.NaT), "NaT"),
    "NaT in a pandas Series": (pd.Series(spoilt(DATES, pd.NaT)), "NaT"),
    "null in a polars Series of strings": (pl.Series(spoilt(TEXT, None)), "None"),
    "null in a polars Series of integers": (pl.Series(spoilt(CODES.tolist(), None)), "nan|None"),
    "null in a polars Series of dates": (pl.Series(spoilt(DATES.tolist(), None)), "NaT|None"),
}


@pytest.mark.parametrize("case", MISSING)
def test_missing_label_is_located(case):
    y, shown = MISSING[case]
    message = f"^y must have a label for every sample; got .*({shown}).* at position 7.*Drop"
    with pytest.raises(ValueError, match=message):
        slce_xp.fit(X, y)


def test_missing_label_is_located_on_any_device(xp):
    y = xp.array(np.array(spoilt(CODES, np.nan), "float32"))
    with pytest.raises(ValueError, match=r"^y must have a label.*nan.* at position 7"):
        slce_xp.fit(X, y)


BAD_LABELS = {
    "none": (None, ValueError, "y must be given: SLCE is supervised; got None"),
    "too few": (CODES[:-1], ValueError, "X and y must have the same.*30 rows in X.*29 labels in y"),
    "too many": (TEXT * 2, ValueError, "X and y must have the same.*30 rows in X.*60 labels in y"),
    "one class": (["a"] * N, ValueError, "y must hold at least two classes; got 1, all 'a'"),
    "a column": (CODES[:, None], ValueError, r"y must be one-dim.*shape \(30, 1\).*y\.ravel\(\)"),
    "one-hot": (np.eye(3)[CODES], ValueError, r"y must be one-dim.*\(30, 3\).*y\.argmax\(axis=1\)"),
    "one-hot list": (np.eye(3)[CODES].tolist(), ValueError, r"y must be one-dim.*\(30, 3\)"),
    "one-hot frame": (pd.DataFrame(np.eye(3)[CODES]), ValueError, r"y must be one-dim.*\(30, 3\)"),
    "scalar": (1, TypeError, "y must be a vector of labels, one per sample; got int"),
    "text": ("ab", TypeError, "y must be a vector of labels, one per sample; got str"),
    "mixed": (["a", 1] * 15, TypeError, "y must hold labels of one kind.*all strings or all numb"),
    "masked": (np.ma.array(CODES, mask=CODES == 2), TypeError, "y must not be a masked array"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels_raise(case):
    y, error, message = BAD_LABELS[case]
    with pytest.raises(error, match=f"^{message}") as caught:
        slce_xp.fit(X, y)
    assert caught.value.parameter == "y"


# Builders take one value per sample; the three values stand in sorted order.
LABEL_KINDS = {
    "integers": ([-5, 3, 700], np.array),
    "unsigned integers": ([1, 2, 255], lambda values: np.array(values, "uint8")),
    "floats": ([-0.5, 0.0, 2.5], np.array),
    "strings": (["ant", "bee", "cat"], np.array),
    "variable-width strings": (
        ["ant", "bee", "cat"],
        lambda values: np.array(values, np.dtypes.StringDType()),
    ),
    "objects": (["ant", "bee", "cat"], lambda values: np.array(values, object)),
    "list of strings": (["ant", "bee", "cat"], list),
    "tuple of integers": ([-5, 3, 700], tuple),
    "dates": (
        [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), datetime.date(2022, 1, 1)],
        lambda values: np.array(values, "M8[D]"),
    ),
    "list of dates": ([datetime.date(2020, 1, day) for day in (1, 2, 3)], list),
    "pandas Series": (["ant", "bee", "cat"], lambda values: pd.Series(values, range(N, 0, -1))),
    "pandas Categorical": (
        ["ant", "bee", "cat"],
        lambda values: pd.Categorical(values, categories=["yak", "cat", "bee", "ant"]),
    ),
    "pandas Series of categories": (
        [-5, 3, 700],
        lambda values: pd.Series(values, dtype="category"),
    ),
    "pandas nullable integers": ([-5, 3, 700], lambda values: pd.Series(values, dtype="Int64")),
    "polars Series": (["ant", "bee", "cat"], pl.Series),
    "polars Series of integers": ([-5, 3, 700], pl.Series),
    "polars Categorical": (
        ["ant", "bee", "cat"],
        lambda values: pl.Series(values, dtype=pl.Categorical),
    ),
}


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_classes_are_sorted_and_keep_their_type(kind):
    values, build = LABEL_KINDS[kind]
    model = slce_xp.fit(X, build([values[code] for code in CODES]))
    assert type(model.classes) is np.ndarray
    classes = model.classes.tolist()
    assert classes == values
    assert [type(label) for label in classes] == [type(label) for label in values]
    np.testing.assert_array_equal(model.counts, np.bincount(CODES))
    np.testing.assert_array_equal(model.components, REFERENCE.components)


BOOLEANS = {
    "array": np.array,
    "list": list,
    "nullable": lambda values: pd.Series(values, dtype="boolean"),
    "polars": pl.Series,
}


@pytest.mark.parametrize("kind", BOOLEANS)
def test_booleans_are_two_classes(kind):
    model = slce_xp.fit(X, BOOLEANS[kind]((CODES == 1).tolist()))
    assert model.classes.tolist() == [False, True]
    np.testing.assert_array_equal(model.counts, [(CODES != 1).sum(), (CODES == 1).sum()])


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
def test_labels_may_be_on_another_device_than_the_samples(xp, dtype):
    y = CODES.astype(dtype)
    model = slce_xp.fit(X, xp.array(y))
    assert type(model.classes) is np.ndarray
    assert model.classes.dtype == dtype
    np.testing.assert_array_equal(model.classes, np.unique(y))
    np.testing.assert_array_equal(model.counts, np.unique(y, return_counts=True)[1])


# ---------------------------------------------------------------- parameters


RANGE = r"n_components must be an integer from 1 to 4 .*None .* 'positive'; got"
BACKENDS = "backend must be one of 'numpy', 'cupy', 'torch', 'jax'.*None.*; got"
SOLVERS = "solver must be one of 'auto', 'scatter', 'gram'.*; got"
SEED = "random_state must be None or an integer ≥ 0, such as 0; got"

BAD_PARAMETERS = [
    ("n_components", 0, ValueError, f"{RANGE} 0"),
    ("n_components", -1, ValueError, f"{RANGE} -1"),
    ("n_components", 5, ValueError, f"{RANGE} 5"),
    ("n_components", 2.0, TypeError, rf"{RANGE} 2\.0"),
    ("n_components", True, TypeError, f"{RANGE} True"),
    ("n_components", np.True_, TypeError, f"{RANGE} .*True"),
    ("n_components", "2", TypeError, f"{RANGE} '2'"),
    ("n_components", [2], TypeError, rf"{RANGE} \[2\]"),
    ("backend", "pytorch", ValueError, f"{BACKENDS} 'pytorch'"),
    ("backend", 3, ValueError, f"{BACKENDS} 3"),
    ("backend", datetime, ValueError, f"{BACKENDS} <module 'datetime'"),
    ("solver", "svd", ValueError, f"{SOLVERS} 'svd'"),
    ("solver", None, ValueError, f"{SOLVERS} None"),
    ("solver", ["gram"], ValueError, rf"{SOLVERS} \['gram'\]"),
    ("random_state", -1, ValueError, f"{SEED} -1"),
    ("random_state", 1.5, ValueError, rf"{SEED} 1\.5"),
    ("random_state", True, ValueError, f"{SEED} True"),
    ("random_state", "0", ValueError, f"{SEED} '0'"),
    ("device", "nowhere", ValueError, r"device must be .* numpy has here \(cpu\); got 'nowhere'"),
]


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    BAD_PARAMETERS,
    ids=[f"{name}={value}" for name, value, *_ in BAD_PARAMETERS],
)
def test_bad_parameters_raise(name, value, error, message):
    with pytest.raises(error, match=f"^{message}") as caught:
        slce_xp.fit(X, CODES, **{name: value})
    assert caught.value.parameter == name


BLOCKS = oracle.blobs(20, 3, 2, seed=1)[0]
MODEL = slce_xp.fit(BLOCKS, np.arange(20) % 2)
AT_FAULT = {
    "tol": lambda: slce_xp.fit(X, CODES, tol=2.0),
    "max_iter": lambda: slce_xp.fit(X, CODES, max_iter=0),
    "max_memory": lambda: slce_xp.fit(X, CODES, max_memory="much"),
    "max_memory, too small": lambda: slce_xp.fit(X, CODES, max_memory=1),
    "sample_weight": lambda: slce_xp.fit(X, CODES, sample_weight=-(X[:, 0] ** 2)),
    "class_weight": lambda: slce_xp.fit(X, CODES, class_weight="equal"),
    "unlabeled_weight": lambda: slce_xp.fit(X, CODES, unlabeled_weight=-1),
    "dtype": lambda: slce_xp.plan(30, 4, 3, dtype="int8"),
    "where": lambda: slce_xp.plan(30, 4, 3, where="here"),
    "n_classes": lambda: slce_xp.plan(30, 4, 31),
    "machine_memory": lambda: slce_xp.plan(30, 4, 3, machine_memory=-1),
    "X": lambda: MODEL.transform(X),
    "Z": lambda: MODEL.inverse_transform(X),
    "out": lambda: MODEL.transform(BLOCKS, out="Z.csv"),
    "scale": lambda: MODEL.unscaled(np.zeros(3)),
    "backend": lambda: MODEL.to("pytorch"),
    "device": lambda: MODEL.to("numpy", "gpu"),
    "classes": lambda: slce_xp.SLCE().partial_fit(X, CODES, classes=[7, 8]),
    "other": lambda: slce_xp.SLCE().partial_fit(X, CODES).merge(slce_xp.SLCE()),
}


@pytest.mark.parametrize("case", AT_FAULT)
def test_errors_carry_the_parameter_at_fault(case):
    with pytest.raises((ValueError, MemoryError)) as caught:
        AT_FAULT[case]()
    assert caught.value.parameter == case.partition(",")[0]


@pytest.mark.parametrize("one", [1, np.int8(1), np.array(1)])
def test_any_integer_type_is_accepted(one):
    assert slce_xp.fit(X, CODES, one, random_state=one).n_components == 1


def test_continuous_targets_raise_and_few_levels_are_classes():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 3))
    for estimator in (slce_xp.fit, slce_xp.SLCE().fit):
        with pytest.raises(ValueError, match=r"continuous target, 40 different numbers for 40"):
            estimator(values, rng.normal(size=40))
    assert len(slce_xp.fit(values, np.arange(40) % 4 / 2).classes) == 4
    assert len(slce_xp.fit(values, np.arange(40) // 2.0).classes) == 20  # whole numbers


# ---------------------------------------------------------------- nothing changes


@pytest.mark.parametrize(
    ("entry", "options"),
    [(np.nan, {}), (np.inf, {}), (1.0, {"n_components": 99}), (1.0, {"backend": "pytorch"})],
)
@pytest.mark.parametrize("solver", ["scatter", "gram"])
def test_invalid_input_is_not_modified(solver, entry, options):
    bad, y = X.copy(), CODES.copy()
    bad[-1, -1] = entry
    before = bad.tobytes(), y.tobytes()
    with pytest.raises(ValueError, match="must be"):
        slce_xp.fit(bad, y, solver=solver, **options)
    assert (bad.tobytes(), y.tobytes()) == before
