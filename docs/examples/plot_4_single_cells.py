r"""
Single cells: from counts to a figure and a label transfer
==========================================================

700 blood cells of ten types, which come with scanpy. Half of the cells are the
reference: SLCE finds the directions that separate their types. The other half is
the query: its labels are predicted from the genes that both share.

The file in scanpy is log-normalised. Its values are logarithms of multiples of one
count of each cell, so that the counts can be recovered, and we begin with them.
"""

import anndata
import matplotlib.pyplot as plt
import numpy as np
import scanpy as sc
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier

import slce_xp.anndata

log_normalised = sc.datasets.pbmc68k_reduced().raw.to_adata()
values = np.expm1(log_normalised.X.toarray().astype(float))
one_count = np.array([row[row > 0].min() for row in values])
counts = np.round(values / one_count[:, None])
cells = anndata.AnnData(
    sparse.csr_matrix(counts.astype(np.float32)),
    obs=log_normalised.obs[["bulk_labels"]].copy(),
    var=log_normalised.var[[]].copy(),
)
cells.obs["cell_type"] = cells.obs["bulk_labels"].astype(str)
print(cells)
print(cells.obs["cell_type"].value_counts())

# %%
# Prepare
# -------
#
# As for PCA: normalise every cell to the same total, then take the logarithm. Both
# preserve zeros, and the matrix stays sparse.

sc.pp.normalize_total(cells, target_sum=1e4)
sc.pp.log1p(cells)

is_query = np.random.default_rng(0).permutation(cells.n_obs) % 2 == 0
reference, query = cells[~is_query].copy(), cells[is_query].copy()

# %%
# Embed the reference
# -------------------
#
# ``criterion="separation"`` weighs directions by the spread within cell types. The
# embedding is in ``obsm``, the components are in ``varm``, and all that a transfer
# needs is in ``uns``: it can be written to an ``.h5ad`` file.

slce_xp.anndata.slce(reference, "cell_type", criterion="separation")
print(reference)

# %%
# Transfer the labels
# -------------------
#
# Genes are matched by name. To show it, the query has its genes in another order
# and lacks thirty of them. Missing genes count as the mean of the reference, with
# a warning that names some; beyond a fifth of the genes, the transfer is refused.

rng = np.random.default_rng(1)
kept = rng.permutation(query.n_vars)[30:]
query = query[:, kept].copy()
slce_xp.anndata.transform(query, reference)
slce_xp.anndata.predict(query, reference, key_added="predicted")
columns = ["cell_type", "predicted", "predicted_probability", "predicted_distance"]
print(query.obs[columns].head())

# %%
# Neither a small probability nor a large distance detects cells of types that the
# reference lacks: such a cell gets the label of another type.
#
# The figure
# ----------
#
# With two components asked for, ``criterion="separation"`` finds the plane in which
# pairs of types overlap least. Only the query is plotted, beside a PCA of the same
# cells: the plane was chosen by the labels of the reference, so that the reference
# looks better separated in it than new cells are.

options = {"criterion": "separation", "key_added": "SLCE plane"}
slce_xp.anndata.slce(reference, "cell_type", n_comps=2, **options)
slce_xp.anndata.transform(
    query, reference, key="SLCE plane", key_added="SLCE plane"
)
sc.pp.pca(query, n_comps=2)

fig, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for ax, basis in zip(axes, ["SLCE plane", "X_pca"], strict=True):
    sc.pl.embedding(
        query, basis, color="cell_type", size=50, ax=ax, show=False, title=basis
    )
axes[0].get_legend().remove()

# %%
# Compared with other methods
# ---------------------------
#
# Balanced accuracy is the mean of the accuracies of the types, of which some have
# only a handful of cells here. Differences of two points are within chance for so
# few cells.


def scores(predicted):
    """Accuracy and balanced accuracy on the query."""
    actual = query.obs["cell_type"]
    accuracy = accuracy_score(actual, predicted)
    balanced = balanced_accuracy_score(actual, predicted)
    return f"{accuracy:.1%} accuracy, {balanced:.1%} balanced"


print(f"SLCE, separation            {scores(query.obs['predicted'].astype(str))}")

train, y = reference[:, query.var_names].copy(), reference.obs["cell_type"]
sc.pp.pca(train, n_comps=30)
centred = query.X.toarray() - train.X.toarray().mean(axis=0)
neighbours = KNeighborsClassifier(5).fit(train.obsm["X_pca"], y)
predicted = neighbours.predict(centred @ train.varm["PCs"])
print(f"PCA, 30 components, 5-NN    {scores(predicted)}")
logistic = LogisticRegression(max_iter=2000).fit(train.X, y)
print(f"logistic regression         {scores(logistic.predict(query.X))}")
