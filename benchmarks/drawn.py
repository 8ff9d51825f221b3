"""Problems drawn at random by seed, so that nobody tunes to a list: see ``benchmarks.regret``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

# Least and most n and d, and the least and most n/d, of each region.
REGIONS = {
    "tall": ((500, 20_000), (50, 5_000), (5.0, np.inf)),
    "square": ((100, 20_000), (50, 5_000), (0.5, 5.0)),
    "wide": ((100, 4_000), (500, 20_000), (0.0, 0.5)),
}
# Kinds of spectra by their decay, and of data sets that are not drawn.
SPECTRA = ("flat", "medium", "steep")
REAL = "real data"
MOST_ENTRIES = 3e7  # of X: 240 MB in float64
RANK = 200  # factors that carry the spectrum


@dataclass(frozen=True)
class Drawn:
    """A problem, made by `data`.

    Attributes
    ----------
    seed, n, d, n_classes : int
    dtype : {"float32", "float64"}
    decay : float
        Standard deviations of the factors fall like i^-decay: 0 is flat, 2 steep.
    strength : float
        Of the classes, relative to the samples around them.
    spread : float
        Weakest direction of the centroids relative to the strongest: 1 leaves tiny gaps.
    offset : float
        Distance from the origin in standard deviations.
    density : float
        Share of stored entries; 1 is a dense matrix.
    """

    seed: int
    n: int
    d: int
    n_classes: int
    dtype: str = "float64"
    decay: float = 0.7
    strength: float = 1.0
    spread: float = 0.1
    offset: float = 0.0
    density: float = 1.0

    @property
    def is_sparse(self) -> bool:
        """Whether X is a sparse matrix."""
        return self.density < 1

    def data(self) -> tuple[Any, np.ndarray]:
        """X and y."""
        rng = np.random.default_rng(self.seed)
        y = rng.permutation(np.arange(self.n) % self.n_classes)
        return (self._counts(rng, y) if self.is_sparse else self._factors(rng, y)), y

    def _factors(self, rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
        """Factors with a decaying spectrum around centroids, over a floor of noise."""
        n, d, n_classes = self.n, self.d, self.n_classes
        rank = min(n, d, RANK)
        loadings = _normal(rng, (rank, d))
        loadings *= (np.arange(1, rank + 1, dtype=np.float32) ** -self.decay)[:, None]
        axes = min(n_classes - 1, d)
        scales = np.geomspace(1.0, self.spread, axes, dtype=np.float32) * self.strength
        centroids = (_normal(rng, (n_classes, axes)) * scales) @ _normal(rng, (axes, d))
        centroids /= np.float32(np.sqrt(axes))
        X = np.empty((n, d), dtype=self.dtype)
        step = max(1, 2**22 // d)
        for i in range(0, n, step):
            rows = X[i : i + step]
            codes = y[i : i + step]
            noise = np.float32(0.1) * _normal(rng, rows.shape)
            rows[...] = _normal(rng, (len(codes), rank)) @ loadings + centroids[codes] + noise
        X += np.asarray(self.offset * X.std(), dtype=X.dtype)
        return X

    def _counts(self, rng: np.random.Generator, y: np.ndarray) -> Any:
        """Positive entries, in columns that each class prefers in its own way."""
        n, d = self.n, self.d
        per_row = max(1, round(self.density * d))
        popular = rng.permutation(np.arange(1, d + 1) ** -min(self.decay, 1.0))
        columns = np.empty((n, per_row), dtype=np.int64)
        for code in range(self.n_classes):
            preferred = popular * np.exp(min(self.strength, 2.0) * rng.standard_normal(d))
            members = np.flatnonzero(y == code)
            shares = preferred / preferred.sum()
            columns[members] = rng.choice(d, size=(len(members), per_row), p=shares)
        rows = np.repeat(np.arange(n), per_row)
        values = rng.lognormal(size=n * per_row).astype(self.dtype)
        return scipy.sparse.csr_array((values, (rows, columns.reshape(-1))), shape=(n, d))


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def draw(count: int, seed: int, most_work: float) -> Iterator[Drawn]:
    """Yield problems of all regions and kinds in turn, whose work is bounded.

    Stored entries times min(n, d), and 2·min(n, d)³, are at most `most_work`; every fourth dense
    problem has at least a tenth of it.
    """
    rng = np.random.default_rng(seed)
    for i in range(count):
        is_sparse = i % 5 == 4
        density = float(_log_uniform(rng, 0.005, 0.1)) if is_sparse else 1.0
        least_work = most_work / 10 if i % 4 == 0 and not is_sparse else 0.0
        n, d = _shape(rng, list(REGIONS)[i % 3], density, least_work, most_work)
        yield Drawn(
            seed=int(rng.integers(2**31)),
            n=n,
            d=d,
            n_classes=round(_log_uniform(rng, 2, min(500, n // 4))),
            dtype=("float64", "float32")[i // 3 % 2],
            decay=float(rng.uniform(0.0, 2.0)),
            strength=float(_log_uniform(rng, 0.1, 10.0)),
            spread=float(_log_uniform(rng, 1e-3, 1.0)),
            offset=0.0 if is_sparse or rng.uniform() < 0.6 else float(_log_uniform(rng, 3, 1e3)),
            density=density,
        )


def _shape(
    rng: np.random.Generator, region: str, density: float, least_work: float, most_work: float
) -> tuple[int, int]:
    rows, columns, (least, most) = REGIONS[region]
    while True:
        n, d = round(_log_uniform(rng, *rows)), round(_log_uniform(rng, *columns))
        entries = n * d * density
        is_inside = least <= n / d <= most and entries <= MOST_ENTRIES
        work = entries * min(n, d)
        if is_inside and least_work <= work and max(work, 2.0 * min(n, d) ** 3) <= most_work:
            return n, d


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
