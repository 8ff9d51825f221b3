"""The methods that SLCE is compared with, as scikit-learn transformers, one file for each.

PCA, LDA and NCA are scikit-learn's. The others have no well-kept implementation in Python and are
written here from their papers, small enough to be read beside them.

`METHODS` names those of samples in general as the report does, `CURVE_METHODS` those of curves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.decomposition import PCA

import slce_xp
from benchmarks.peers.bair import BairSPCA
from benchmarks.peers.centroid_encoder import CentroidEncoder
from benchmarks.peers.hsic import HSICSPCA
from benchmarks.peers.ispc import ISPC
from benchmarks.peers.lda import LDA
from benchmarks.peers.nca import NCA
from benchmarks.peers.ritchie import LRPCA, LSPCA
from benchmarks.peers.separation import Separation
from benchmarks.peers.sfpca import SFPCA
from benchmarks.peers.sppca import SPPCA
from benchmarks.peers.supsvd import SupSVD

__all__ = [
    "CURVE_METHODS",
    "HSICSPCA",
    "ISPC",
    "LDA",
    "LRPCA",
    "LSPCA",
    "METHODS",
    "NCA",
    "SFPCA",
    "SPPCA",
    "BairSPCA",
    "CentroidEncoder",
    "Separation",
    "SupSVD",
]

# Each takes the number of components and a seed.
METHODS: dict[str, Callable[[int, int], Any]] = {
    "SLCE": lambda k, seed: slce_xp.SLCE(k, random_state=seed),
    "SLCE, separation": lambda k, seed: Separation(k),
    "LDA": lambda k, seed: LDA(k),
    "LDA, shrinkage": lambda k, seed: LDA(k, "auto"),
    # ARPACK: exact, and for a few components of wide data far quicker than the whole SVD.
    "PCA": lambda k, seed: PCA(k, svd_solver="arpack", random_state=seed),
    "HSIC SPCA": lambda k, seed: HSICSPCA(k),
    "Bair's SPCA": lambda k, seed: BairSPCA(k, random_state=seed),
    "ISPC": lambda k, seed: ISPC(k, random_state=seed),
    "SPPCA": lambda k, seed: SPPCA(k),
    "SupSVD": lambda k, seed: SupSVD(k),
    "LRPCA (CV)": lambda k, seed: LRPCA(k, "cv", random_state=seed),
    "LRPCA (MLE)": lambda k, seed: LRPCA(k, "ml", random_state=seed),
    "LSPCA (CV)": lambda k, seed: LSPCA(k, "cv", random_state=seed),
    "LSPCA (MLE)": lambda k, seed: LSPCA(k, "ml", random_state=seed),
    "NCA": lambda k, seed: NCA(k, random_state=seed),
    "Centroid-Encoder": lambda k, seed: CentroidEncoder(k, random_state=seed),
}
CURVE_METHODS: dict[str, Callable[[int, int], Any]] = {
    "SFPCA": lambda k, seed: SFPCA(k, random_state=seed),
}
