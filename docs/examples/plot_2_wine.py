r"""
Wine: which measurements tell cultivars apart
=============================================

Thirteen chemical measurements of 178 Italian wines of three cultivars. SLCE is
based on distances, so measurements in different units are standardised first.
"""

from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

import slce_xp

wine = load_wine()
names = [name.split("_of_")[0].replace("_", " ") for name in wine.feature_names]
X, y = scale(wine.data), wine.target_names[wine.target]

# %%
# Do the cultivars differ?
# ------------------------
#
# Each wine is drawn by a model that did not see it. Ellipses are 95 % confidence
# regions of the class means, and arrows the five measurements of the largest
# correlations with the two components.

# sphinx_gallery_thumbnail_number = 1
ax = slce_xp.plot.embedding(X, y, arrows=5, names=names)

# %%
# They differ by more than chance: no permutation of the labels gives a statistic as
# large as the observed one.

test = slce_xp.permutation_test(X, y)
print(test)
ax = test.plot(figsize=(6, 3))

# %%
# Which measurements, and how sure?
# ---------------------------------
#
# The importance of a measurement is its share of the loss that the components
# remove. Intervals are from resampled wines; the lower limit ranks measurements.

found = slce_xp.importance_interval(X, y)
ax = slce_xp.plot.importance(found, names)

# %%
# The model
# ---------
#
# Three classes have at most two components that lower the loss. Loadings are the
# weights of the measurements.

model = slce_xp.fit(X, y)
print(model)
axes = slce_xp.plot.loadings(model, names, top=8)

# %%
# Would another method be better?
# -------------------------------
#
# Cross-validated accuracies, with their standard errors. Columns are scaled within
# each fold. No method is ahead of all others by more than the noise.

found = slce_xp.compare(wine.data, y, components=(1, 2), scale=True)
print(found)
axes = slce_xp.plot.comparison(found)
