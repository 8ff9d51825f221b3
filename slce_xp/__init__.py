"""SLCE: exact supervised linear dimensionality reduction on any array library.

>>> import slce_xp
>>> model = slce_xp.fit([[0.0, 1.0], [1.0, 0.0], [8.0, 1.0], [9.0, 0.0]], ["a", "a", "b", "b"])
>>> model.transform([[5.0, 0.5]]).shape
(1, 1)
"""

from slce_xp._fit import fit
from slce_xp._model import ConvergenceWarning, Model, load
from slce_xp._plan import Plan, plan

__version__ = "0.1.0"
__all__ = ["ConvergenceWarning", "Model", "Plan", "fit", "load", "plan"]
