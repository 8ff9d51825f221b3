r"""
Images: handwritten digits
==========================

PCA finds the directions that best reconstruct the images, SLCE those that best
reconstruct the mean image of each digit. Here both reduce scikit-learn's 8 × 8
digits from 64 dimensions to at most nine.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import slce_xp

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.3, random_state=0, stratify=y
)

# %%
# Fit
# ---
#
# Ten classes give nine components. Those with positive eigenvalues lower the loss;
# the printed model reports how many do.

model = slce_xp.fit(X_train, y_train)
print(model)

# %%
# The embedding
# -------------
#
# Filled points are training digits, open points are test digits.

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
# A component has a weight for every pixel: ink in red pixels moves a digit in one
# direction along the component, ink in blue pixels in the other.

# sphinx_gallery_thumbnail_number = 2
axes = slce_xp.plot.loadings(model, shape=(8, 8), components=range(6))

# %%
# Reconstructions
# ---------------
#
# The reconstruction of a test digit should resemble the mean of its class rather
# than the digit itself. Rows: the digit, its reconstruction, the centroid of its
# class.

shown = [int(np.flatnonzero(y_test == digit)[0]) for digit in range(10)]
rows = {
    "digit": X_test[shown],
    "reconstruction": model.reconstruct(X_test[shown]),
    "centroid": model.centroids,
}
figure, grid = plt.subplots(3, 10, figsize=(9, 3), layout="constrained")
for axes, (name, images) in zip(grid, rows.items(), strict=True):
    for ax, image in zip(axes, images, strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
    axes[0].set_ylabel(name, rotation=0, ha="right", va="center")

# %%
# Comparison with PCA
# -------------------
#
# The accuracy of a 5-NN classifier on the test digits, by the number of components.
# SLCE is more accurate in two and three dimensions, PCA slightly so in nine.


def accuracy(train, test):
    """Return the accuracy of a 5-NN classifier on the embedded test digits."""
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
    summary = ", ".join(f"{scores[k - 1]:.1%} in {k}" for k in (2, 3, 9))
    print(f"{name}: {summary} dimensions")
ax.set(xlabel="components", ylabel="accuracy on test digits", ylim=(0, 1))
ax.legend(loc="lower right", frameon=False)
