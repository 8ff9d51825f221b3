"""What a fit allocates in addition to X."""

import tracemalloc

import numpy as np

import slce_xp


def peak_beside(X, y, **options):
    slce_xp.fit(X[:5], y[:5], **options)  # what is imported lazily is not counted
    tracemalloc.start()
    try:
        model = slce_xp.fit(X, y, **options)
        return tracemalloc.get_traced_memory()[1], model
    finally:
        tracemalloc.stop()


def test_shape_of_pancan_needs_less_than_half_of_x():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((801, 20531))
    y = np.arange(801) % 5
    X[np.arange(801), y] += 200.0
    peak, model = peak_beside(X, y)
    assert model.n_positive == 4
    assert peak <= 0.5 * X.nbytes


def test_twenty_thousand_classes_need_a_small_multiple_of_x():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40_000, 50))
    y = rng.permutation(np.arange(40_000) % 20_000)
    peak, model = peak_beside(X, y)
    assert len(model.classes) == 20_000
    assert peak <= 5 * X.nbytes


def test_integers_are_converted_block_by_block():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 255, (100_000, 100), dtype=np.uint8)
    y = np.arange(100_000) % 3
    peak, model = peak_beside(X, y)
    assert model.components.dtype == np.float64
    assert peak <= 0.6 * 8 * X.nbytes  # 8 ×: what a float64 copy would take


def test_tall_matrix_is_never_centred_as_a_whole():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 100)) + 1e3
    peak, _ = peak_beside(X, np.arange(100_000) % 3)
    assert peak <= 0.6 * X.nbytes
