"""
A figure and sentences for a paper
==================================

Thirty measurements of cell nuclei from 569 breast masses, benign or malignant
(Street, Wolberg and Mangasarian, 1993). What can be said about which of them
tell the two apart, and how sure is it?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import slce_xp

cancer = load_breast_cancer()
X, y, names = (
    scale(cancer.data),
    cancer.target_names[cancer.target],
    cancer.feature_names,
)
model = slce_xp.fit(X, y)
print(model.methods())

# %%
# The accuracy to report is that of samples that the model did not see.

held_out = slce_xp.cross_embed(X, y)
print(f"{held_out.accuracy:.1%} of held-out masses are classified correctly")

# %%
# A component is described by its correlations with the measurements; how much a
# measurement takes part, and how sure that is, by its importance over resamples.

found = slce_xp.importance_interval(X, y)
correlations = model.structure(X)[:, 0]
for j in np.argsort(-found.lower)[:5]:
    interval = f"{found.lower[j]:.2f} to {found.upper[j]:.2f}"
    print(f"{names[j]:25s} {interval}, r = {correlations[j]:+.2f}")

# %%
# Both in one figure.

# sphinx_gallery_thumbnail_number = 1
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
bins = np.linspace(*np.quantile(held_out.scores[:, 0], [0, 1]), 40)
for label, color in {"benign": "#0072B2", "malignant": "#E69F00"}.items():
    left.hist(
        held_out.scores[y == label, 0], bins, color=color, alpha=0.6, label=label
    )
left.set(xlabel="SLCE 1, of models that did not see the mass", ylabel="masses")
left.set_title(f"{held_out.accuracy:.1%} right", loc="left")
left.legend(frameon=False)
slce_xp.plot.importance(found, names, top=12, ax=right)
