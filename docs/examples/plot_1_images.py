r"""
Images: handwritten digits
==========================

PCA keeps what rebuilds the images, SLCE what rebuilds the mean image of each digit.
Here both reduce scikit-learn's 8 × 8 digits from 64 dimensions to a few.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import slce_xp
import slce_xp.plot

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.3, random_state=0, stratify=y
)

# %%
# Fit
# ---
#
# Ten classes have nine components, of which the positive eigenvalues lower the
# loss. Printing the model tells how many do.

model = slce_xp.fit(X_train, y_train)
print(model)

# %%
# The embedding
# -------------
#
# Filled points are digits that the model was fitted on, open ones are new to it.

pca = PCA(model.n_components).fit(X_train)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
slce_xp.plot.embedding(
    model, X_train, y_train, X_test=X_test, y_test=y_test, ax=left
)
slce_xp.plot.points(
    pca.transform(X_train),
    y_train,
    Z_test=pca.transform(X_test),
    y_test=y_test,
    ax=right,
)
left.set_title("SLCE")
right.set_title("PCA")

# %%
# Components are images
# ---------------------
#
# A component has a weight for every pixel: ink where it is red moves a digit one
# way along the component, ink where it is blue the other way.

# sphinx_gallery_thumbnail_number = 2
axes = slce_xp.plot.loadings(model, shape=(8, 8), components=range(6))

# %%
# Reconstructions
# ---------------
#
# What SLCE makes of a digit it has not seen is meant to resemble the mean of its
# class, not the digit itself. Rows: the digit, its reconstruction, the centroid of
# its class.

shown = [int(np.flatnonzero(y_test == digit)[0]) for digit in range(10)]
rows = {
    "digit": X_test[shown],
    "rebuilt": model.reconstruct(X_test[shown]),
    "centroid": model.centroids,
}
figure, grid = plt.subplots(3, 10, figsize=(9, 3), layout="constrained")
for axes, (name, images) in zip(grid, rows.items(), strict=True):
    for ax, image in zip(axes, images, strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
    axes[0].set_ylabel(name, rotation=0, ha="right", va="center")

# %%
# Beside PCA
# ----------
#
# How many of the test digits the five nearest neighbours get right, by the number
# of components. SLCE is ahead in few dimensions; with all nine both are alike.


def accuracy(train, test):
    """Share of test digits that a 5-NN classifier on the embedding gets right."""
    return KNeighborsClassifier(5).fit(train, y_train).score(test, y_test)


dimensions = range(1, model.n_components + 1)
figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for name, embed, marker in (
    ("SLCE", model.transform, "o"),
    ("PCA", pca.transform, "s"),
):
    train, test = embed(X_train), embed(X_test)
    scores = [accuracy(train[:, :k], test[:, :k]) for k in dimensions]
    ax.plot(dimensions, scores, marker=marker, label=name)
    told = ", ".join(f"{scores[k - 1]:.1%} in {k}" for k in (2, 3, 9))
    print(f"{name}: {told} dimensions")
ax.set(xlabel="components", ylabel="test digits right", ylim=(0, 1))
ax.legend(loc="lower right", frameon=False)
