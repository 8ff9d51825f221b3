"""The figure that plots create."""

from typing import Any

import matplotlib
from matplotlib import figure

# Matplotlib's defaults draw letters as outlines (SVG) or in a font that editors cannot change.
EDITABLE: dict[Any, Any] = {"svg.fonttype": "none", "pdf.fonttype": 42, "ps.fonttype": 42}


class Figure(figure.Figure):
    """A figure whose text stays text in SVG and PDF files, unless the user's rcParams differ."""

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save the figure, without any change of global settings."""
        defaults, given = matplotlib.rcParamsDefault, matplotlib.rcParams
        with matplotlib.rc_context({k: v for k, v in EDITABLE.items() if given[k] == defaults[k]}):
            super().savefig(fname, **options)
