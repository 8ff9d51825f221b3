r"""
Single cells: sparse counts in AnnData
======================================

Counts of single cells are mostly zero. They stay sparse here, from the file to the
embedding, and what is found is written into the annotated matrix, in scanpy's
manner.
"""

import anndata
import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.neighbors import KNeighborsClassifier

import slce_xp.anndata
import slce_xp.plot
from example_data import cells

counts, kinds, genes, told = cells()
print(told)
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
# As for a PCA: every cell to the same total, then the logarithm. Both keep zeros
# zero.

totals = np.asarray(adata.X.sum(axis=1))
adata.X = sparse.csr_matrix(adata.X.multiply(np.median(totals) / totals))
adata.X.data = np.log1p(adata.X.data)

# %%
# Cells without a label
# ---------------------
#
# A quarter of the cells lose their label, to see where the others put them. With a
# weight of zero they take no part in the fit but for the mean; a positive one would
# add their own reconstruction, as in PCA.

hidden = np.random.default_rng(0).random(adata.n_obs) < 0.25
adata.obs["known"] = adata.obs["cell_type"].mask(hidden)
slce_xp.anndata.slce(
    adata, label_key="known", unlabeled="missing", unlabeled_weight=0.0
)

# %%
# The embedding is in ``obsm``, the components are in ``varm``, what else was found
# is in ``uns``.

print(adata)
print("eigenvalues:", np.round(adata.uns["slce"]["eigenvalues"]))

# %%
# Draw it
# -------
#
# Filled points had a label, open ones had none. ``scanpy.pl.embedding(adata,
# "slce", color="cell_type")`` draws the same columns.

Z, kinds = adata.obsm["X_slce"], adata.obs["cell_type"]
shown = {"Z_test": Z[hidden], "y_test": kinds[hidden]}
slce_xp.plot.points(Z[~hidden], kinds[~hidden], **shown)

# %%
# The next two components tell other types apart.

slce_xp.plot.points(Z[~hidden], kinds[~hidden], **shown, components=(2, 3))

# %%
# The genes of a component
# ------------------------
#
# Those with the largest weights.

for j in range(4):
    weights = adata.varm["SLCEs"][:, j]
    print(f"component {j + 1}")
    for i in np.argsort(-np.abs(weights))[:4]:
        print(f"  {weights[i]:+.2f} {adata.var_names[i]}")

# %%
# Labels for those without
# ------------------------
#
# How many of the hidden labels the five nearest labelled cells tell, in as many
# dimensions of SLCE and of a truncated singular value decomposition, which is what
# PCA without centring is on sparse data.

unsupervised = TruncatedSVD(Z.shape[1], random_state=0).fit_transform(adata.X)
for name, embedding in (("SLCE", Z), ("truncated SVD", unsupervised)):
    neighbours = KNeighborsClassifier(5).fit(embedding[~hidden], kinds[~hidden])
    score = neighbours.score(embedding[hidden], kinds[hidden])
    print(f"{name}, {Z.shape[1]} dimensions: {score:.1%} of {hidden.sum()} cells")
