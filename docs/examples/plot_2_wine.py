r"""
Wine: features with different units
===================================

SLCE is based on distances, so features should have comparable units. This example
standardises thirteen chemical measurements of Italian wines, reduces them to two
components, and compares the result with PCA and LDA by cross-validation.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import slce_xp
import slce_xp.plot

wine = load_wine()
names = [name.replace("_", " ") for name in wine.feature_names]
y = wine.target_names[wine.target]
X_train, X_test, y_train, y_test = train_test_split(
    wine.data, y, test_size=0.3, random_state=0, stratify=y
)

# %%
# Fit
# ---
#
# The model is fitted to scaled columns. ``unscaled`` returns a model that takes the
# original columns and scales them itself.

scale = X_train.std(axis=0)
model = slce_xp.fit(X_train / scale, y_train).unscaled(scale)
print(model)

# %%
# The embedding
# -------------
#
# Filled points are training samples, open points are test samples.

ax = slce_xp.plot.embedding(model, X_train, y_train, X_test=X_test, y_test=y_test)

# %%
# The spectrum
# ------------
#
# Three classes have at most two components that lower the loss. Each eigenvalue is
# the loss that its component removes.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
slce_xp.plot.spectrum(model, ax=left)
slce_xp.plot.loss(model, ax=right)

# %%
# Which measurements
# ------------------

# sphinx_gallery_thumbnail_number = 1
axes = slce_xp.plot.loadings(model, names, top=8)
axes[0].figure.set_size_inches(10, 4)

# %%
# Comparison with PCA and LDA
# ---------------------------
#
# The cross-validated accuracy of a 5-NN classifier in two dimensions, with
# ``slce_xp.SLCE`` as a step of a scikit-learn pipeline.

for name, method in {
    "SLCE": slce_xp.SLCE(2),
    "PCA": PCA(2),
    "LDA": LinearDiscriminantAnalysis(n_components=2),
}.items():
    pipeline = make_pipeline(StandardScaler(), method, KNeighborsClassifier(5))
    scores = cross_val_score(pipeline, wine.data, y, cv=5)
    print(f"{name}: {scores.mean():.1%}")
