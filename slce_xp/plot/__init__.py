"""Plots of models, embeddings and comparisons (extra ``plot``: Matplotlib; extra ``html``: plotly).

Every function draws into given axes or into a new figure, and returns the axes. The caller shows or
saves them: ``ax.figure.savefig("embedding.png")``.
"""

from slce_xp.plot._comparison import comparison
from slce_xp.plot._embedding import embedding, points
from slce_xp.plot._interactive import interactive
from slce_xp.plot._model import loadings, loss, spectrum

__all__ = ["comparison", "embedding", "interactive", "loadings", "loss", "points", "spectrum"]
