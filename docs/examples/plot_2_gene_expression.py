r"""
Gene expression: few samples, many genes
========================================

With some hundred samples of many thousand genes a d × d matrix of genes would be
large, and LDA would have to invert a singular one. SLCE solves the n × n problem
instead: the Gram form.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import slce_xp
import slce_xp.plot
from example_data import tissues

X, y, genes, told = tissues()
print(told)
print(f"{X.shape[0]} samples × {X.shape[1]} genes")

# %%
# Train and test
# --------------
#
# Three samples of ten are kept for testing. Of recurrent tumours there are only
# two: both are for training, and we shall see what can be said of so small a class.

rare = np.flatnonzero(y == "recurrent tumour")
others = np.flatnonzero(y != "recurrent tumour")
train, test = train_test_split(
    others, test_size=0.3, random_state=0, stratify=y[others]
)
train = np.append(train, rare)

# %%
# What a fit will take
# --------------------
#
# ``plan`` knows before there are any data. The three forms give the same answer; it
# takes the cheapest.

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
# Each eigenvalue is the loss that its component removes. That of the second
# component is much smaller than that of the first: it is there for the smallest
# class.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
slce_xp.plot.spectrum(model, ax=left)
slce_xp.plot.loss(model, ax=right)

# %%
# The embedding
# -------------
#
# The first component separates tumours from normal tissue, for new samples (open)
# as well. The second is made to fit two samples, and says little about any other:
# mind ``model.counts``.

# sphinx_gallery_thumbnail_number = 2
ax = slce_xp.plot.embedding(
    model, X[train], y[train], X_test=X[test], y_test=y[test]
)

# %%
# Which genes
# -----------
#
# The genes with the largest weights. Those with positive and with negative weights
# are expressed more at opposite ends of the component.

axes = slce_xp.plot.loadings(model, genes, top=15)
axes[0].figure.set_size_inches(11, 5)

# %%
# Beside PCA
# ----------
#
# The mean share of tumours and of normal tissues that the five nearest training
# samples get right.

pca = PCA(2, random_state=0).fit(X[train])
for name, embed in (("SLCE", model.transform), ("PCA", pca.transform)):
    Z, Z_test = embed(X[train]), embed(X[test])
    for k in (1, 2):
        neighbours = KNeighborsClassifier(5).fit(Z[:, :k], y[train])
        score = balanced_accuracy_score(y[test], neighbours.predict(Z_test[:, :k]))
        print(f"{name}, {k} component{'s' * (k > 1)}: {score:.1%}")
