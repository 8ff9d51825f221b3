r"""
Simulated gene expression: few samples, many genes
==================================================

With a few hundred samples of many thousand genes, a d × d matrix of genes would be
large, and the matrix that LDA inverts would be singular. SLCE solves an n × n
problem instead: the Gram form. The counts are simulated; every class has planted
marker genes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import slce_xp
import slce_xp.plot


def simulate(sizes, n_genes=6000, n_markers=60, depth=1e6, spread=0.3):
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
    return counts.astype(np.float64), y, genes


counts, y, genes = simulate(
    {"primary tumour": 150, "recurrent tumour": 2, "normal tissue": 50}
)
X = np.log2(counts + 1.0)
print(f"Simulated: {X.shape[0]} samples × {X.shape[1]} genes")

# %%
# Train and test
# --------------
#
# 30 % of the samples are kept for testing. There are only two recurrent tumours;
# both are used for training, to show how a very small class affects the components.

rare = np.flatnonzero(y == "recurrent tumour")
others = np.flatnonzero(y != "recurrent tumour")
train, test = train_test_split(
    others, test_size=0.3, random_state=0, stratify=y[others]
)
train = np.append(train, rare)

# %%
# Cost of the fit
# ---------------
#
# ``plan`` estimates the cost without data. The three forms give the same answer;
# the cheapest is chosen.

print(slce_xp.plan(train.size, X.shape[1], n_classes=3))

# %%
# Fit
# ---

model = slce_xp.fit(X[train], y[train])
print(model)
for label, count in zip(model.classes, model.counts, strict=True):
    print(f"{count} × {label}")

# %%
# The spectrum
# ------------
#
# Each eigenvalue is the loss that its component removes. The second is much smaller
# than the first: that component reconstructs the centroid of the smallest class.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
slce_xp.plot.spectrum(model, ax=left)
slce_xp.plot.loss(model, ax=right)

# %%
# The embedding
# -------------
#
# The first component separates tumours from normal tissue, also for test samples
# (open). The second fits two samples and says little about any other: check
# ``model.counts``.

# sphinx_gallery_thumbnail_number = 2
ax = slce_xp.plot.embedding(
    model, X[train], y[train], X_test=X[test], y_test=y[test]
)

# %%
# Which genes
# -----------
#
# The genes with the largest weights. Genes with positive and with negative weights
# are expressed more at opposite ends of the component. Planted markers carry the
# name of their class.

axes = slce_xp.plot.loadings(model, genes, top=15)
axes[0].figure.set_size_inches(11, 5)

# %%
# Comparison with PCA
# -------------------
#
# The balanced accuracy of a 5-NN classifier on the test samples.

pca = PCA(2, random_state=0).fit(X[train])
for name, embed in (("SLCE", model.transform), ("PCA", pca.transform)):
    Z, Z_test = embed(X[train]), embed(X[test])
    for k in (1, 2):
        neighbours = KNeighborsClassifier(5).fit(Z[:, :k], y[train])
        score = balanced_accuracy_score(y[test], neighbours.predict(Z_test[:, :k]))
        print(f"{name}, {k} component{'s' * (k > 1)}: {score:.1%}")
