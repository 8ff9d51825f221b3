"""Problems to measure on: data sets by name, and synthetic ones named by their shape."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

DATA_SETS = (
    "ionosphere",
    "colon",
    "mice_protein",
    "yale",
    "har_meanstd66",
    "arcene",
    "olivetti",
    "coil20",
    "usps",
    "tcga_luad",
    "mnist",
    "worm_neuron",
)
SYNTHETIC = {
    "PANCAN shape": (801, 20531, 5, "float64"),
    "6 000 × 6 000 × 10": (6000, 6000, 10, "float64"),
    "100 000 × 2 000 × 20": (100_000, 2000, 20, "float64"),
    "20 000 × 20 000 × 50": (20_000, 20_000, 50, "float32"),
    "1 000 × 200 000 × 4": (1000, 200_000, 4, "float64"),
    "50 000 × 500 × 5 000": (50_000, 500, 5000, "float64"),
}


def synthetic(
    n: int, d: int, n_classes: int, dtype: str = "float64", seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Classes with a decaying spectrum, as real data have: singular values fall like i^-0.7.

    The spectrum is carried by 300 factors over a floor of noise, so that large problems are
    made in seconds.
    """
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    rank = min(n, d, 300)
    factors = _factors(rng, n, rank)
    parts = _parts(rng, rank, d, n_classes)
    X = np.empty((n, d), dtype=dtype)
    step = max(1, 2**24 // d)
    for i in range(0, n, step):
        rows = slice(i, i + step)
        X[rows] = _mixed(rng, factors[rows], *parts, y[rows])
    return X, y


def write_synthetic(
    path: Path, n: int, d: int, n_classes: int, dtype: str = "float64", seed: int = 0
) -> np.ndarray:
    """The same kind of data in a file, row after row, by no more than a block in memory: its y."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    rank = min(n, d, 300)
    parts = _parts(rng, rank, d, n_classes)
    step = max(1, 2**22 // d)
    with path.open("wb", buffering=0) as file:
        for i in range(0, n, step):
            codes = y[i : i + step]
            block = _mixed(rng, _factors(rng, len(codes), rank), *parts, codes)
            block.astype(dtype, copy=False).tofile(file)
        os.fsync(file.fileno())  # what is not yet on the disk cannot leave the page cache
    return y


def _factors(rng: np.random.Generator, n: int, rank: int) -> np.ndarray:
    scale = np.arange(1, rank + 1) ** -0.7
    return rng.standard_normal((n, rank), dtype=np.float32) * scale.astype(np.float32)


def _parts(
    rng: np.random.Generator, rank: int, d: int, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Loadings of the factors, and the centres of the classes."""
    loadings = rng.standard_normal((rank, d), dtype=np.float32) / np.float32(np.sqrt(d))
    centres = rng.standard_normal((n_classes, d), dtype=np.float32) / np.float32(np.sqrt(d))
    return loadings, centres


def _mixed(
    rng: np.random.Generator,
    factors: np.ndarray,
    loadings: np.ndarray,
    centres: np.ndarray,
    codes: np.ndarray,
) -> np.ndarray:
    noise = rng.standard_normal((len(codes), loadings.shape[1]), dtype=np.float32)
    return factors @ loadings + centres[codes] + 0.2 / np.sqrt(loadings.shape[1]) * noise
