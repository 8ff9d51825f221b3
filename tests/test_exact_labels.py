"""Labels that float64 cannot distinguish remain different classes, in any container."""

import numpy as np
import oracle
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import slce_xp
from slce_xp.cli import main

BIG = 2**53
N = 60
X, CODES = oracle.blobs(N, 5, 3, seed=3)
KNOWN = np.arange(N) % 5 != 4
NUMBERS = [BIG, BIG + 1, BIG + 2]  # two of them are the same in float64


def labels(numbers=NUMBERS, missing=None):
    return [numbers[c] if known else missing for c, known in zip(CODES, KNOWN, strict=True)]


CONTAINERS = {
    "list": labels,
    "object array": lambda: np.array(labels(), dtype=object),
    "object array of NumPy's": lambda: np.array(
        labels([np.int64(n) for n in NUMBERS]), dtype=object
    ),
    "pandas": lambda: pd.Series(labels(), dtype="Int64"),
    "pandas unsigned": lambda: pd.Series(labels(), dtype="UInt64"),
    "pandas array": lambda: pd.array(labels(), dtype="Int64"),
    "pandas index": lambda: pd.Index(pd.array(labels(), dtype="Int64")),
    "pandas over Arrow": lambda: pd.Series(labels(), dtype=pd.ArrowDtype(pa.int64())),
    "category": lambda: pd.Series(pd.Categorical(labels(), categories=NUMBERS)),
    "Categorical": lambda: pd.Categorical(labels(), categories=NUMBERS),
    "CategoricalIndex": lambda: pd.CategoricalIndex(labels(), categories=NUMBERS),
    "polars": lambda: pl.Series(labels()),
    "polars unsigned": lambda: pl.Series(labels(), dtype=pl.UInt64),
    "Arrow": lambda: pa.array(labels()),
    "Arrow in chunks": lambda: pa.chunked_array([labels()[:25], labels()[25:]]),
    "Arrow dictionary": lambda: pa.array(labels()).dictionary_encode(),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_integers_with_missing_ones(container, tmp_path):
    model = slce_xp.fit(X, CONTAINERS[container](), unlabeled="missing")
    assert model.classes.tolist() == NUMBERS
    if container.startswith("object"):  # as they were
        assert model.classes.dtype == object
        return
    assert model.classes.dtype.kind in "iu"
    expected = slce_xp.fit(X, np.where(KNOWN, CODES, -1), unlabeled=-1)
    np.testing.assert_array_equal(model.counts, expected.counts)
    np.testing.assert_allclose(model.components, expected.components, atol=1e-12)
    model.save(tmp_path / "model.npz")
    assert slce_xp.load(tmp_path / "model.npz").classes.tolist() == NUMBERS


@pytest.mark.parametrize("container", CONTAINERS)
def test_any_label_may_mark_unlabelled_samples(container):
    y = CONTAINERS[container]()
    with pytest.raises(ValueError, match="y must have a label for every sample"):
        slce_xp.fit(X, y, unlabeled=BIG + 1)
    few = [i for i in range(N) if KNOWN[i]]
    y = y.take(few) if hasattr(y, "take") else [y[i] for i in few]
    y = pl.Series(y) if container.startswith("polars") else y
    model = slce_xp.fit(X[few], y, unlabeled=BIG + 1)
    assert model.classes.tolist() == [BIG, BIG + 2]


@pytest.mark.parametrize(
    "numbers",
    [
        [2**63, 2**63 + 1, 5],
        [2**63, 2**63 + 1, -1],
        [2**64, 2**64 + 1, -1],
        [BIG, BIG + 1, 1.5],
        [np.int64(BIG + 1), np.float64(BIG), 3],
        [np.uint64(2**63), np.uint64(2**63 + 1), np.int64(-1)],
        [b"a", b"a\0", b"b"],
    ],
    ids=["uint64", "both signs", "beyond 64 bits", "floats", "NumPy's", "both of NumPy's", "bytes"],
)
@pytest.mark.parametrize("kind", ["list", "tuple", "objects"])
def test_numbers_of_several_kinds(numbers, kind, tmp_path):
    y = [numbers[code] for code in CODES]
    if kind == "objects":
        objects = np.empty(N, dtype=object)
        objects[:] = y
        y = objects
    model = slce_xp.fit(X, tuple(y) if kind == "tuple" else y)
    own = [n.item() if isinstance(n, np.generic) else n for n in numbers]
    assert model.classes.tolist() == sorted(own)
    assert sorted(model.counts.tolist()) == sorted(np.bincount(CODES).tolist())
    if model.classes.dtype == object:
        with pytest.raises(TypeError, match=r"classes must be .* of a NumPy type"):
            model.save(tmp_path / "model.npz")
    else:
        model.save(tmp_path / "model.npz")
        assert slce_xp.load(tmp_path / "model.npz").classes.tolist() == sorted(own)


def test_bytes_and_numbers_are_not_merged():
    with pytest.raises(TypeError, match="labels of one kind"):
        slce_xp.fit(X, [[b"1", 1, 2][code] for code in CODES])


@pytest.mark.parametrize("kind", ["list", "objects", "batches", "batches of objects"])
@pytest.mark.parametrize("number", [1, 1.0, np.int8(1), 7])
def test_booleans_and_numbers_are_not_merged(kind, number):
    if kind.startswith("batches"):
        dtype = object if "objects" in kind else None
        estimator = slce_xp.SLCE().partial_fit(X, CODES == 1)
        with pytest.raises(TypeError, match="labels of one kind"):
            estimator.partial_fit(X, np.array([number, 2, 3], dtype)[CODES])
        return
    y = [[True, number, 2][code] for code in CODES]
    with pytest.raises(TypeError, match=r"labels of one kind .*True equals 1"):
        slce_xp.fit(X, y if kind == "list" else np.array(y, object))


def test_booleans_may_have_a_number_as_mark():
    y = [[True, False, -1][code] for code in CODES]
    model = slce_xp.fit(X, y, unlabeled=-1)
    assert model.classes.tolist() == [False, True]
    assert model.n_unlabeled == (CODES == 2).sum()


@pytest.mark.parametrize("nothing", [np.nan, None])
def test_strings_that_may_be_missing(nothing):
    dtype = np.dtypes.StringDType(na_object=nothing)
    y = np.array(["a", "b", "c"], dtype)[CODES]
    y[::5] = nothing
    with pytest.raises(ValueError, match="y must have a label for every sample"):
        slce_xp.fit(X, y)
    model = slce_xp.fit(X, y, unlabeled="missing")
    assert model.classes.tolist() == ["a", "b", "c"]
    assert model.n_unlabeled == len(y[::5])


@pytest.mark.parametrize(
    ("y", "mark"),
    [
        (np.array(NUMBERS)[CODES], float(BIG + 2)),
        (np.array(NUMBERS)[CODES], float(BIG)),
        (np.array(NUMBERS)[CODES].astype(np.uint64), np.float64(BIG)),
    ],
)
def test_float_mark_matches_one_class(y, mark):
    kept = [n for n in NUMBERS if n != int(mark)]
    assert slce_xp.fit(X, y, unlabeled=mark).classes.tolist() == kept


def test_mark_that_only_rounds_to_a_label_matches_nothing():
    y = np.array([BIG, 1, 2], dtype=float)[CODES]
    for labels_given, mark in ((y, BIG + 1), (CODES, 0.5)):
        with pytest.warns(UserWarning, match="marks no sample"):
            assert slce_xp.fit(X, labels_given, unlabeled=mark).n_unlabeled == 0


def test_weights_of_classes():
    y = labels()
    weights = {BIG: 1.0, BIG + 1: 3.0, BIG + 2: 0.5}
    model = slce_xp.fit(X, y, unlabeled="missing", class_weight=weights)
    np.testing.assert_allclose(model.weights / model.counts, [1.0, 3.0, 0.5])
    with pytest.raises(ValueError, match="class_weight must"):
        slce_xp.fit(X, y, unlabeled="missing", class_weight={BIG + 3: 2.0})


# Labels of batches whose types have no common one but float64.
BATCHES = {
    "signed and unsigned": (np.int64, np.uint64, [BIG, BIG + 1, BIG + 2]),
    "signed and objects": (np.int64, object, [BIG, BIG + 1, BIG + 2]),
    "negative and large": (None, None, [-1, 2**63, 2**63 + 1]),
    "integers and floats": (np.int64, np.float64, [BIG, BIG + 1, 7]),
}


@pytest.mark.parametrize("case", BATCHES)
@pytest.mark.parametrize("known", [False, True], ids=["found", "all classes are known"])
def test_batches_of_several_kinds(case, known):
    first, second, numbers = BATCHES[case]
    y = [numbers[code] for code in CODES]
    parts = [CODES < 2, CODES == 2]
    batches = [
        np.array([n for n, there in zip(y, part, strict=True) if there], dtype=dtype)
        for part, dtype in zip(parts, (first, second), strict=True)
    ]
    slce = slce_xp.SLCE()
    for part, batch in zip(parts, batches, strict=True):
        slce.partial_fit(X[part], batch, classes=numbers if known else None)
    expected = slce_xp.fit(X, CODES)
    order = np.argsort(numbers)
    assert slce.classes_.tolist() == sorted(numbers)
    np.testing.assert_array_equal(slce.model_.counts, np.asarray(expected.counts)[order])
    np.testing.assert_allclose(slce.model_.centroids, expected.centroids[order], atol=1e-12)
    np.testing.assert_allclose(slce.model_.components, expected.components, atol=1e-8)


def test_unknown_class_raises():
    with pytest.raises(ValueError, match="classes must hold all labels of y"):
        slce_xp.SLCE().partial_fit(X, np.array(NUMBERS)[CODES], classes=[float(BIG), BIG + 2])


@pytest.mark.parametrize("unlabeled", ["use", "drop"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "parquet categories"])
def test_labels_read_by_the_command(kind, unlabeled, tmp_path):
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["class"] = pd.array(labels(), dtype="Int64")
    if kind == "csv":
        path = tmp_path / "table.csv"
        frame.to_csv(path, index=False)
    else:
        path = tmp_path / "table.parquet"
        table = pa.Table.from_pandas(frame)
        if "categories" in kind:
            at = table.schema.get_field_index("class")
            table = table.set_column(at, "class", table.column("class").dictionary_encode())
        parquet.write_table(table.replace_schema_metadata(None), path)
    out = tmp_path / "model.npz"
    options = ["--label", "class", "--unlabeled", unlabeled, "--model", str(out)]
    main(["fit", str(path), *options])
    assert slce_xp.load(out).classes.tolist() == NUMBERS
