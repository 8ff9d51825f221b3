"""The centroid scatter-add: sums do not depend on how rows are visited."""

import numpy as np
import pytest
import scipy.sparse

from slce_xp._data import labels as _labels
from slce_xp.core import class_sums
from slce_xp.core import rows as _rows
from slce_xp.core import sums as _sums
from slce_xp.core.moment_sums import moments_of
from slce_xp.core.rows import DenseRows


def naive_sums(X, codes, n_classes):
    sums = np.zeros((n_classes, X.shape[1]))
    np.add.at(sums, codes, X)
    return sums


def sizes(kind, rng):
    match kind:
        case "few classes":
            return rng.integers(0, 5, 300)
        case "many classes":
            return rng.integers(0, 200, 700)
        case "one large class among singles":
            return np.concatenate([np.full(500, 7), np.arange(150)])
        case "a class per row":
            return rng.permutation(260)


@pytest.mark.parametrize("block_bytes", [1, 4096, 2**24])
@pytest.mark.parametrize("piece_rows", [4, 64, 512])
@pytest.mark.parametrize(
    "kind", ["few classes", "many classes", "one large class among singles", "a class per row"]
)
def test_class_sums(monkeypatch, kind, piece_rows, block_bytes):
    monkeypatch.setattr(_sums, "PIECE_ROWS", piece_rows)
    monkeypatch.setattr(_rows, "block_bytes", lambda *size: block_bytes)
    rng = np.random.default_rng(0)
    y = rng.permutation(sizes(kind, rng))
    X = rng.standard_normal((len(y), 3))
    labels = _labels.as_labels(y, len(y))
    expected = naive_sums(X, labels.codes, len(labels.classes))
    found = class_sums(X, labels.codes, len(labels.classes))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["rows", "columns", "strided", "sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_class_sums_of_every_layout(kind, dtype):
    rng = np.random.default_rng(0)
    n, d, n_classes = 6000, 7, 5  # far more rows than are added one after the other in float32
    dense = np.full((n, d), 0.1, dtype=dtype) + (rng.uniform(size=(n, d)) < 0.5).astype(dtype)
    codes, weights = rng.integers(0, n_classes, n), rng.uniform(0.5, 1.5, n)
    expected = naive_sums(dense.astype(float) * weights[:, None], codes, n_classes)
    layouts = {
        "rows": lambda: dense,
        "columns": lambda: np.asfortranarray(dense),
        "strided": lambda: np.repeat(dense, 2, axis=1)[:, ::2],
        "sparse": lambda: scipy.sparse.csr_array(dense),
    }
    found = class_sums(layouts[kind](), codes, n_classes, weights=weights)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=3e-6 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("n_classes", [3, 100])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_moments_about_any_shift(xp, n_classes, offset):
    rng = np.random.default_rng(1)
    y = rng.integers(0, n_classes, 400)
    X = rng.standard_normal((400, 5)) + offset
    X = xp.held(X).astype(np.float64)
    labels = _labels.as_labels(y, 400)
    moments = moments_of(DenseRows(xp.array(X)), labels.counted()[0], second=True)
    assert (moments.shift is None) == (offset == 0.0)
    centred = X - X.mean(axis=0)
    eps = float(np.finfo(np.float32).eps)
    tolerance = {"atol": xp.tolerance(1e-9, 4 * eps * max(400.0, offset))}
    np.testing.assert_allclose(xp.numpy(moments.mean), X.mean(axis=0), **tolerance)
    offset, scale = xp.numpy(moments.offset), moments.scale
    assert np.log2(scale) % 1 == 0
    scatter = xp.numpy(moments.second) - 400 * np.outer(offset, offset)
    np.testing.assert_allclose(scatter / scale**2, centred.T @ centred, **tolerance)
    roots = np.sqrt(labels.counts)[:, None]
    between = naive_sums(centred, labels.codes, len(labels.classes)) / roots
    np.testing.assert_allclose(xp.numpy(moments.between) / scale, between, **tolerance)


def test_blocks_cover_all_rows_evenly():
    for length, step in [(1, 1), (10, 3), (10, 100), (17, 16), (1000, 7)]:
        blocks = list(_rows.even_slices(length, step))
        assert [i for b in blocks for i in range(length)[b]] == list(range(length))
        sizes = [b.stop - b.start for b in blocks]
        assert max(sizes) <= step
        assert max(sizes) - min(sizes) <= 1
