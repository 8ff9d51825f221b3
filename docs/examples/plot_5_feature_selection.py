r"""
Simulated gene expression: the genes that matter
================================================

A component of SLCE has a weight for every gene. ``feature_path`` selects a few
genes instead, by an exact lasso onto the class centroids. The counts are simulated,
with planted marker genes; markers of one class rise and fall together, as genes of
one pathway do. If the environment variable ``SLCE_XP_DATA`` names a folder with
``colon.npz``, the last section selects real genes.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import slce_xp
import slce_xp.plot


def simulate(sizes, n_genes=2000, n_markers=20):
    """Simulate log counts. The first class differs from the others much more."""
    rng = np.random.default_rng(0)
    y = np.repeat(list(sizes), list(sizes.values()))
    genes = np.array([f"gene {j}" for j in range(n_genes)], dtype=object)
    log_rates = rng.normal(2.0, 1.0, n_genes) + rng.normal(
        0.0, 0.5, (y.size, n_genes)
    )
    planted = rng.permutation(n_genes)[: n_markers * len(sizes)]
    markers = planted.reshape(len(sizes), -1)
    shifts = (3.0, 1.0, 1.0)
    for shift, kind, own in zip(shifts, sizes, markers, strict=True):
        pathway = rng.normal(
            0.0, 0.5, (y.size, 1)
        )  # markers of a class vary together
        log_rates[:, own] += pathway + shift * (y == kind)[:, None]
        genes[own] = [f"{kind} {i}" for i in range(n_markers)]
    return np.log1p(rng.poisson(np.exp(log_rates))), y, genes


X, y, genes = simulate({"lung": 40, "colon": 40, "liver": 40})
X = StandardScaler().fit_transform(X)
print(f"Simulated: {X.shape[0]} samples × {X.shape[1]} genes, 60 of them markers")

# %%
# The path
# --------
#
# A large penalty selects no gene. As it falls, genes enter; each solution comes
# with a duality gap, which proves how far it is from the optimum.

path = slce_xp.feature_path(X, y, n_features=50)
print(path)

# %%
# Genes are named at the end of their lines.

ax = slce_xp.plot.feature_path(path, genes, top=12)

# %%
# Which genes
# -----------
#
# The analysis of variance (ANOVA) ranks each gene by itself: its first genes are
# markers of the class that differs most, which say the same. The path selects genes
# that complement each other.

order = np.argsort(-f_classif(X, y)[0])
for name, chosen in (("path", path.select(12)), ("ANOVA", order[:12])):
    kinds = [str(genes[j]).partition(" ")[0] for j in chosen]
    counts = {
        kind: kinds.count(kind) for kind in ("lung", "colon", "liver", "gene")
    }
    print(f"{name}: " + ", ".join(f"{n} × {kind}" for kind, n in counts.items()))

# %%
# Accuracy
# --------
#
# The cross-validated accuracy of a 5-NN classifier. The selection is a step of the
# pipeline: if genes were selected from all samples, the score would be too good.

for k in (5, 10, 25):
    for name, select in (
        ("path", slce_xp.SLCESelector(k)),
        ("ANOVA", SelectKBest(f_classif, k=k)),
    ):
        steps = make_pipeline(StandardScaler(), select, KNeighborsClassifier(5))
        print(f"{k} genes, {name}: {cross_val_score(steps, X, y, cv=5).mean():.1%}")

# %%
# How sure is the selection?
# --------------------------
#
# Genes that vary together are exchangeable for a lasso. Resamples show it: the
# frequencies of such genes are below 1, and so is the stability (Nogueira), even if
# every selection classifies well.

selector = slce_xp.SLCESelector(20, n_resamples=25).fit(X, y)
low, high = selector.stability_interval_
print(f"stability {selector.stability_:.2f} ({low:.2f} to {high:.2f})")
for j in np.argsort(-selector.frequencies_)[:5]:
    print(f"{genes[j]}: in {selector.frequencies_[j]:.0%} of the resamples")

# %%
# Real genes
# ----------
#
# 62 samples of colon tissue, tumours and normal ones (Alon et al. 1999), if the
# data are there. With these two classes ANOVA is as good.

folder = os.environ.get("SLCE_XP_DATA")
if folder and (file := Path(folder) / "colon.npz").exists():
    with np.load(file) as data:
        X, y = np.log(data["X"] + 1.0), data["y"]
    print(slce_xp.feature_path(X, y, n_features=20))
    for name, select in (
        ("path", slce_xp.SLCESelector(20)),
        ("ANOVA", SelectKBest(f_classif, k=20)),
    ):
        steps = make_pipeline(StandardScaler(), select, KNeighborsClassifier(5))
        print(f"20 genes, {name}: {cross_val_score(steps, X, y, cv=5).mean():.1%}")
