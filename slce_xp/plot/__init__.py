"""Pictures of models and embeddings (extra ``plot``: Matplotlib; extra ``html``: plotly).

Every function draws into the axes that it is given, or makes a figure of its own, and returns the
axes; showing and saving are the caller's: ``ax.figure.savefig("embedding.png")``.
"""

from slce_xp.plot._embedding import embedding, points
from slce_xp.plot._interactive import interactive
from slce_xp.plot._model import loadings, loss, spectrum

__all__ = ["embedding", "interactive", "loadings", "loss", "points", "spectrum"]
