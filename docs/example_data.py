"""Data of the gallery's examples: real sets where they are at hand, simulated ones elsewhere.

Nothing is downloaded. A set is taken from the folder that ``SLCE_XP_DATA`` names or from the cache
of ``benchmarks.datasets``; otherwise counts of that kind are simulated, with planted marker genes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from benchmarks import datasets

_REAL = "; where SLCE_XP_DATA names a folder with {}.npz, real ones."


class Expression(NamedTuple):
    """Expression of genes, and where it comes from.

    Attributes
    ----------
    X : numpy.ndarray or scipy.sparse.csr_matrix, shape (n, d)
    y : numpy.ndarray of str, shape (n,)
    genes : numpy.ndarray of str, shape (d,)
    told : str
        What the data are, in a sentence.
    """

    X: np.ndarray | sparse.csr_matrix
    y: np.ndarray
    genes: np.ndarray
    told: str


def tissues() -> Expression:
    """Lung tissue: log2(x + 1) of expression, few samples and many genes."""
    kinds = {"01": "primary tumour", "02": "recurrent tumour", "11": "normal tissue"}
    try:
        X, y = datasets.load("tcga_luad", download=False)
    except datasets.MissingDataError:
        sizes = {"primary tumour": 150, "recurrent tumour": 2, "normal tissue": 50}
        counts, y, genes = _simulate(sizes, n_genes=6000, n_markers=60, depth=1e6, spread=0.3)
        told = f"Simulated counts of {counts.shape[0]} tissues{_REAL.format('tcga_luad')}"
        return Expression(np.log2(counts + 1.0), y, genes, told)
    told = "Lung adenocarcinoma of The Cancer Genome Atlas (tcga_luad): real data."
    return Expression(X, np.array([kinds[label] for label in y]), _gene_names("tcga_luad"), told)


def cells() -> Expression:
    """Single cells: sparse counts."""
    try:
        X, y = datasets.load("worm_neuron", download=False)
    except datasets.MissingDataError:
        sizes = {f"type {j + 1}": size for j, size in enumerate((500, 400, 300, 200, 100, 50))}
        counts, y, genes = _simulate(sizes, n_genes=2000, n_markers=40, depth=250, spread=0.5)
        told = f"Simulated counts of {counts.shape[0]} cells{_REAL.format('worm_neuron')}"
        return Expression(sparse.csr_matrix(counts), y, genes, told)
    told = "Neurons of the worm C. elegans (worm_neuron): real data."
    kinds = np.array([f"type {label:02d}" for label in y])
    return Expression(sparse.csr_matrix(X), kinds, _gene_names("worm_neuron"), told)


def _gene_names(name: str) -> np.ndarray:
    """As the file has them, without their numbers; numbered where it has none."""
    folders = [os.environ.get("SLCE_XP_DATA"), datasets.cache_folder()]
    paths = [Path(folder) / f"{name}.npz" for folder in folders if folder]
    path = next(path for path in paths if path.exists())  # where it was loaded from
    with np.load(path, allow_pickle=False) as archive:
        if "gene" in archive:
            return np.array([gene.partition("|")[0] for gene in archive["gene"]])
    return np.array([f"gene {j}" for j in range(datasets.DATA_SETS[name].shape[1])])


def _simulate(
    sizes: dict[str, int], *, n_genes: int, n_markers: int, depth: float, spread: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts of genes, of which each class has some markers that it expresses eight times as much.

    Parameters
    ----------
    sizes : samples of each class
    depth : counts of a sample, on average
    spread : standard deviation of log expression among samples of a class

    Returns
    -------
    counts : (n, d) float64
    y : (n,) str
    genes : (d,) str
        Markers are named after their class.
    """
    rng = np.random.default_rng(0)
    y = np.repeat(list(sizes), list(sizes.values()))
    level = rng.normal(0.0, 1.5, n_genes)
    genes = np.array([f"gene {j}" for j in range(n_genes)], dtype=object)
    log_rates = level + rng.normal(0.0, spread, (y.size, n_genes))
    planted = rng.permutation(n_genes)[: n_markers * len(sizes)].reshape(len(sizes), n_markers)
    for kind, markers in zip(sizes, planted, strict=True):
        genes[markers] = [f"{kind}, marker {i}" for i in range(n_markers)]
        log_rates[np.ix_(y == kind, markers)] += np.log(8.0)
    rates = np.exp(log_rates)
    depths = depth * rng.lognormal(0.0, 0.3, (y.size, 1))
    counts = rng.poisson(depths * rates / rates.sum(axis=1, keepdims=True))
    return counts.astype(np.float64), y, genes.astype(str)
