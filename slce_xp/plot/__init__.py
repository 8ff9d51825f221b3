"""Plots of models, embeddings, comparisons and feature paths.

The extra ``plot`` has Matplotlib, the extra ``html`` plotly.

Every function draws into given axes or into a new figure, and returns the axes. The caller shows or
saves them: ``ax.figure.savefig("embedding.pdf")``. Sizes and resolutions are those of Matplotlib's
rcParams, and text stays text in SVG and PDF files of new figures.
"""

from slce_xp.plot._comparison import comparison
from slce_xp.plot._embedding import cross_embedding, embedding
from slce_xp.plot._evidence import importance, permutation_test
from slce_xp.plot._feature_path import feature_path
from slce_xp.plot._interactive import interactive
from slce_xp.plot._model import loadings, loss, spectrum
from slce_xp.plot._points import points

__all__ = [
    "comparison",
    "cross_embedding",
    "embedding",
    "feature_path",
    "importance",
    "interactive",
    "loadings",
    "loss",
    "permutation_test",
    "points",
    "spectrum",
]
