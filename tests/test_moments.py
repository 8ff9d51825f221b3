"""The centroid scatter-add: sums do not depend on how rows are visited."""

import numpy as np
import pytest
import scipy.sparse

from slce_xp import core
from slce_xp._backend import class_sums as _routines
from slce_xp._data import labels as _labels
from slce_xp.core import _rows, class_sums
from slce_xp.core._moments import moments_of
from slce_xp.core._rows import MemoryRows


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
@pytest.mark.parametrize("route", ["own", "products", "scan"])
@pytest.mark.parametrize(
    "kind", ["few classes", "many classes", "one large class among singles", "a class per row"]
)
def test_class_sums(monkeypatch, kind, route, block_bytes):
    """By NumPy's own routine, or by those of libraries with the standard only."""
    if route != "own":
        monkeypatch.setattr(_routines, "SMALLEST_SUM", 2**62)
        monkeypatch.setattr(_routines, "ONE_HOT_CLASSES", 64)
        monkeypatch.setattr(_routines, "MOST_ONE_HOT", 0 if route == "scan" else 2**62)
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
def test_moments_about_any_centre(xp, n_classes, offset):
    rng = np.random.default_rng(1)
    y = rng.integers(0, n_classes, 400)
    X = rng.standard_normal((400, 5)) + offset
    X = xp.held(X).astype(np.float64)
    labels = _labels.as_labels(y, 400)
    moments = moments_of(MemoryRows(xp.array(X)), labels.counted()[0], second=True)
    centred = X - X.mean(axis=0)
    eps = float(np.finfo(np.float32).eps)
    # About a point at one deviation from the mean, squares are twice as large, and so is rounding.
    tolerance = {"atol": xp.tolerance(1e-9, 8 * eps * max(400.0, offset))}
    roots = np.sqrt(labels.counts)[:, None]
    between = naive_sums(centred, labels.codes, len(labels.classes)) / roots
    # In units of scaled rows: the centre of the sums is near the mean.
    assert np.log2(moments.scale) % 1 == 0
    assert np.abs(xp.numpy(moments.offset)).max() < moments.scale
    for same in (moments, moments.about_mean(), moments.about(moments.centre + 1.0)):
        scale = same.scale
        np.testing.assert_allclose(xp.numpy(same.mean), X.mean(axis=0), **tolerance)
        step = xp.numpy(same.offset)
        scatter = xp.numpy(same.second) - 400 * np.outer(step, step)
        np.testing.assert_allclose(scatter / scale**2, centred.T @ centred, **tolerance)
        scatter = xp.numpy(same.scatter())
        np.testing.assert_allclose(scatter / scale**2, centred.T @ centred, **tolerance)
        squares = xp.numpy(same.column_squares)
        np.testing.assert_allclose(squares / scale**2, (centred**2).sum(axis=0), **tolerance)
        np.testing.assert_allclose(xp.numpy(same.between) / scale, between, **tolerance)
    left = np.abs(xp.numpy(moments.about_mean().offset)).max()
    assert left <= xp.tolerance(1e-15, 4 * eps) * max(1.0, offset)


def test_blocks_cover_all_rows_evenly():
    for length, step in [(1, 1), (10, 3), (10, 100), (17, 16), (1000, 7)]:
        blocks = list(_rows.even_slices(length, step))
        assert [i for b in blocks for i in range(length)[b]] == list(range(length))
        sizes = [b.stop - b.start for b in blocks]
        assert max(sizes) <= step
        assert max(sizes) - min(sizes) <= 1


def test_part_without_rows_is_named():
    with pytest.raises(ValueError, match="x must have at least one row"):
        core.class_moments(np.zeros((0, 4)), np.zeros(0, dtype=int), 3)
