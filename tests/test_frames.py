"""Data frames and tables as X, their columns and categories as labels, in `slce_xp.fit` itself."""

import datetime
import decimal

import numpy as np
import oracle
import pandas as pd
import pyarrow as pa
import pytest

import slce_xp

pl = pytest.importorskip("polars", reason="labels and tables of Polars are tested here, too")

N = 60
X, CODES = oracle.blobs(N, 4, 3, seed=0)
NAMES = ["length", "width", "nnz", "columns"]
COLUMNS = dict(zip(NAMES, X.T, strict=True))
Y = np.array(["ant", "bee", "cat"])[CODES]
MODEL = slce_xp.fit(X, Y)

LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "pyarrow batch": pa.record_batch,
    "pandas over pyarrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
}
libraries = pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)


@libraries
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_frames_give_the_results_of_arrays(make, dtype):
    frame = make({name: column.astype(dtype) for name, column in COLUMNS.items()})
    model = slce_xp.fit(frame, Y)
    assert model.mean.dtype == dtype
    assert oracle.largest_angle(model.components, MODEL.components) < {
        "float32": 1e-3, "float64": 1e-8
    }[dtype]  # fmt: skip
    np.testing.assert_allclose(model.transform(frame), model.transform(X.astype(dtype)), atol=1e-5)


@libraries
def test_model_checks_column_names(make, tmp_path):
    model = slce_xp.fit(make(COLUMNS), Y)
    model.save(tmp_path / "model.npz")
    assert list(slce_xp.load(tmp_path / "model.npz").feature_names) == NAMES
    turned = make({name: COLUMNS[name] for name in ["width", "length", "nnz", "columns"]})
    with pytest.raises(ValueError, match=r"column 0 is 'width', not 'length'\. Choose them"):
        model.transform(turned)
    last = make({name: COLUMNS[name] for name in [*NAMES[:-2], NAMES[-1], NAMES[-2]]})
    with pytest.raises(ValueError, match=rf"column {len(NAMES) - 2} is '{NAMES[-1]}'"):
        model.transform(last)
    with pytest.raises(ValueError, match="X must have 4 columns"):
        model.transform(make({name: COLUMNS[name] for name in NAMES[:2]}))
    assert model.transform(X).shape == (N, 2)
    assert MODEL.feature_names is None
    assert MODEL.transform(turned).shape == (N, 2)


@pytest.mark.parametrize("names", [range(4), ["length", "width", "nnz", 3]])
def test_columns_have_names_only_if_all_are_strings(names):
    frame = pd.DataFrame(X, columns=names)
    model = slce_xp.fit(frame, Y)
    assert model.feature_names is None
    assert model.transform(frame[frame.columns[::-1]]).shape == (N, 2)


@libraries
def test_columns_of_different_numbers(make):
    frame = make(
        {
            "whole": np.round(X[:, 0]).astype("int16"),
            "short": X[:, 1].astype("float32"),
            "truth": X[:, 2] > 0,
        }
    )
    values = np.stack([np.round(X[:, 0]), X[:, 1].astype("float32"), X[:, 2] > 0], axis=1)
    found = slce_xp.fit(frame, Y)
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-6)


def test_chunked_table():
    table = pa.concat_tables([pa.table(COLUMNS).slice(0, 25), pa.table(COLUMNS).slice(25)])
    assert table.column(0).num_chunks == 2
    np.testing.assert_allclose(slce_xp.fit(table, Y).components, MODEL.components, atol=1e-12)


@libraries
def test_missing_number_is_found(make):
    holed = X[:, 1].astype(object)
    holed[7] = None
    frame = make({"length": X[:, 0], "width": holed.tolist()})
    with pytest.raises(ValueError, match="found NaN at row 7, column 1"):
        slce_xp.fit(frame, Y)


# Library -> columns that are not numbers.
WRONG = {
    "text": ["Oslo"] * N,
    "text that looks like numbers": ["1"] * N,
    "dates": [datetime.date(2020, 1, 1)] * N,
    "times": [datetime.datetime(2020, 1, 1, 12)] * N,
}
WRONG_CATEGORIES = {
    "pandas": lambda: pd.DataFrame({"size": X[:, 0], "town": pd.Categorical(Y)}),
    "polars": lambda: pl.DataFrame({"size": X[:, 0], "town": pl.Series(Y, dtype=pl.Categorical)}),
    "polars Enum": lambda: pl.DataFrame(
        {"size": X[:, 0], "town": pl.Series(Y, dtype=pl.Enum(["ant", "bee", "cat"]))}
    ),
}
named = {"match": "X must hold numbers only; column 'town' does not"}


@pytest.mark.parametrize("column", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_non_numeric_column_is_named(make, column):
    frame = make({"size": X[:, 0], "town": column})
    with pytest.raises(TypeError, **named):
        slce_xp.fit(frame, Y)
    with pytest.raises(TypeError, **named):
        MODEL.transform(frame)


@pytest.mark.parametrize("make", WRONG_CATEGORIES.values(), ids=WRONG_CATEGORIES)
def test_column_of_categories_is_named(make):
    with pytest.raises(TypeError, **named):
        slce_xp.fit(make(), Y)


# ---------------------------------------------------------------- labels

LABELS = {
    "pandas Categorical": pd.Categorical(Y),
    "pandas Categorical in another order, with one too many": pd.Categorical(
        Y, categories=["dog", "cat", "bee", "ant"], ordered=True
    ),
    "pandas Series of categories": pd.Series(Y, dtype="category", index=np.arange(N) + 5),
    "pandas Series of Arrow's categories": pd.Series(
        pd.arrays.ArrowExtensionArray(pa.array(Y).dictionary_encode())
    ),
    "pandas column": pd.DataFrame({"y": Y})["y"],
    "polars Categorical": pl.Series(Y, dtype=pl.Categorical),
    "polars Enum": pl.Series(Y, dtype=pl.Enum(["dog", "cat", "bee", "ant"])),
    "polars column": pl.DataFrame({"y": Y})["y"],
    "pyarrow array": pa.array(Y),
    "pyarrow dictionary": pa.array(Y).dictionary_encode(),
    "pyarrow column": pa.table({"y": Y})["y"],
    "pyarrow column in pieces": pa.chunked_array([Y[:10].tolist(), Y[10:].tolist()]),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_of_every_library(labels):
    model = slce_xp.fit(X, labels)
    assert list(model.classes) == ["ant", "bee", "cat"]
    np.testing.assert_array_equal(model.components, MODEL.components)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Categorical(CODES * 10),
        pl.Series(CODES * 10),
        pa.array(CODES * 10),
        pa.array(CODES * 10).dictionary_encode(),
    ],
    ids=["pandas Categorical", "polars", "pyarrow", "pyarrow dictionary"],
)
def test_labels_that_are_numbers_stay_numbers(labels):
    model = slce_xp.fit(X, labels)
    assert model.classes.dtype.kind == "i"
    assert list(model.classes) == [0, 10, 20]


@pytest.mark.parametrize(
    "make",
    [
        pa.array,
        lambda y: pa.array(y).dictionary_encode(),
        lambda y: pl.Series(y, dtype=pl.Categorical),
    ],
    ids=["pyarrow", "pyarrow dictionary", "polars Categorical"],
)
def test_missing_label_is_found(make):
    holed = Y.tolist()
    holed[4] = None
    with pytest.raises(ValueError, match="a label for every sample; got None at position 4"):
        slce_xp.fit(X, make(holed))


@libraries
def test_frame_of_labels_raises(make):
    with pytest.raises(ValueError, match=r"y must be one-dimensional.*\(60, 1\)"):
        slce_xp.fit(X, make({"y": Y.tolist()}))


# ---------------------------------------------------------------- Arrow's types


@pytest.mark.parametrize("column", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("make", [pa.table, pa.record_batch], ids=["pyarrow", "pyarrow batch"])
def test_column_of_a_table_without_numbers_is_named(make, column):
    frame = make({"size": X[:, 0], "town": column})
    with pytest.raises(TypeError, **named):
        slce_xp.fit(frame, Y)


def test_decimals_of_a_table_are_numbers():
    prices = [decimal.Decimal(f"{value:.2f}") for value in X[:, 0]]
    model = slce_xp.fit(pa.table({"price": prices, "size": X[:, 1]}), Y)
    np.testing.assert_allclose(model.mean, [np.mean([float(p) for p in prices]), X[:, 1].mean()])


def test_table_without_columns_raises():
    with pytest.raises(ValueError, match="at least one column"):
        slce_xp.fit(pa.table({"size": X[:, 0]}).select([]), Y)


def test_lazy_frame_raises_without_a_warning():
    with pytest.raises(TypeError, match="got LazyFrame"):
        slce_xp.fit(pl.DataFrame(COLUMNS).lazy(), Y)
