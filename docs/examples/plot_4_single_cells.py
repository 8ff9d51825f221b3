r"""
Simulated single cells: sparse counts in AnnData
================================================

Counts of single cells are mostly zero. Here they stay sparse up to the embedding,
and the results are written into the annotated matrix, following scanpy's
conventions. The counts are simulated; every cell type has planted marker genes.
"""

import anndata
import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.neighbors import KNeighborsClassifier

import slce_xp.anndata
import slce_xp.plot


def simulate(sizes, n_genes=2000, n_markers=40, depth=250, spread=0.5):
    """Simulate counts. Each class expresses its marker genes eightfold."""
    rng = np.random.default_rng(0)
    y = np.repeat(list(sizes), list(sizes.values()))
    genes = [f"gene {j}" for j in range(n_genes)]
    level = rng.normal(0.0, 1.5, n_genes)
    log_rates = level + rng.normal(0.0, spread, (y.size, n_genes))
    planted = rng.permutation(n_genes)[: n_markers * len(sizes)]
    for kind, markers in zip(sizes, planted.reshape(len(sizes), -1), strict=True):
        log_rates[np.ix_(y == kind, markers)] += np.log(8.0)
        for i, gene in enumerate(markers):
            genes[gene] = f"{kind}, marker {i}"
    rates = np.exp(log_rates)
    depths = depth * rng.lognormal(0.0, 0.3, (y.size, 1))
    counts = rng.poisson(depths * rates / rates.sum(axis=1, keepdims=True))
    return sparse.csr_matrix(counts.astype(np.float64)), y, genes


sizes = (500, 400, 300, 200, 100, 50)
counts, kinds, genes = simulate({f"type {j + 1}": n for j, n in enumerate(sizes)})
print(f"Simulated: {counts.shape[0]} cells × {counts.shape[1]} genes")
adata = anndata.AnnData(
    counts,
    obs=pd.DataFrame(
        {"cell_type": kinds},
        index=[f"cell {i}" for i in range(len(kinds))],
        dtype="category",
    ),
    var=pd.DataFrame(index=genes),
)
print(adata)
print(f"{adata.X.nnz / np.prod(adata.shape):.1%} of the counts are not zero")

# %%
# Prepare
# -------
#
# As for PCA: normalise every cell to the same total, then take the logarithm. Both
# preserve zeros.

totals = np.asarray(adata.X.sum(axis=1))
adata.X = sparse.csr_matrix(adata.X.multiply(np.median(totals) / totals))
adata.X.data = np.log1p(adata.X.data)

# %%
# Cells without a label
# ---------------------
#
# The labels of a quarter of the cells are hidden. With a weight of zero these cells
# contribute only to the mean; a positive weight would add their own reconstruction
# to the loss, as in PCA.

hidden = np.random.default_rng(0).random(adata.n_obs) < 0.25
adata.obs["known"] = adata.obs["cell_type"].mask(hidden)
slce_xp.anndata.slce(
    adata, label_key="known", unlabeled="missing", unlabeled_weight=0.0
)

# %%
# The embedding is in ``obsm``, the components are in ``varm`` and everything else
# is in ``uns``.

print(adata)
print("eigenvalues:", np.round(adata.uns["slce"]["eigenvalues"]))

# %%
# Plot the embedding
# ------------------
#
# Filled points had a label, open points had none. ``scanpy.pl.embedding(adata,
# "slce", color="cell_type")`` plots the same columns.

Z, kinds = adata.obsm["X_slce"], adata.obs["cell_type"]
shown = {"Z_test": Z[hidden], "y_test": kinds[hidden]}
slce_xp.plot.points(Z[~hidden], kinds[~hidden], **shown)

# %%
# The next two components separate other types.

slce_xp.plot.points(Z[~hidden], kinds[~hidden], **shown, components=(2, 3))

# %%
# The genes of a component
# ------------------------
#
# The genes with the largest weights.

for j in range(4):
    weights = adata.varm["SLCEs"][:, j]
    print(f"component {j + 1}")
    for i in np.argsort(-np.abs(weights))[:4]:
        print(f"  {weights[i]:+.2f} {adata.var_names[i]}")

# %%
# Predict the hidden labels
# -------------------------
#
# The accuracy of a 5-NN classifier, in as many dimensions of SLCE and of a
# truncated singular value decomposition (PCA without centring).

unsupervised = TruncatedSVD(Z.shape[1], random_state=0).fit_transform(adata.X)
for name, embedding in (("SLCE", Z), ("truncated SVD", unsupervised)):
    neighbours = KNeighborsClassifier(5).fit(embedding[~hidden], kinds[~hidden])
    score = neighbours.score(embedding[hidden], kinds[hidden])
    print(f"{name}, {Z.shape[1]} dimensions: {score:.1%} of {hidden.sum()} cells")
