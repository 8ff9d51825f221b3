"""SLCE: exact supervised linear dimensionality reduction on any array library.

>>> import slce_xp
>>> model = slce_xp.fit([[0.0, 1.0], [1.0, 0.0], [8.0, 1.0], [9.0, 0.0]], ["a", "a", "b", "b"])
>>> model.transform([[5.0, 0.5]]).shape
(1, 1)
"""

import importlib as _importlib
import importlib.util as _util
import typing as _typing

from slce_xp._comparison import Comparison, Score, compare
from slce_xp._feature_path import FeaturePath
from slce_xp._fit import fit
from slce_xp._importance import ImportanceInterval, importance_interval
from slce_xp._load import load
from slce_xp._model import Model
from slce_xp._planning.plan import Plan, plan
from slce_xp._selection import feature_path
from slce_xp._warnings import ConvergenceWarning

if _typing.TYPE_CHECKING:
    from slce_xp._estimator import SLCE
    from slce_xp._selector import SLCESelector

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "ConvergenceWarning",
    "FeaturePath",
    "ImportanceInterval",
    "Model",
    "Plan",
    "Score",
    "compare",
    "feature_path",
    "fit",
    "importance_interval",
    "load",
    "plan",
]
_ESTIMATORS = {"SLCE": "slce_xp._estimator", "SLCESelector": "slce_xp._selector"}
if _util.find_spec("sklearn") is not None:  # without it, `import *` must not ask for them
    __all__ += ["SLCE", "SLCESelector"]


def __getattr__(name: str) -> _typing.Any:
    if name in ("anndata", "plot"):  # not imported with the package, for they need others
        return _importlib.import_module(f"{__name__}.{name}")
    # Only who asks for an estimator imports scikit-learn, which takes longer than all the rest.
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(_importlib.import_module(_ESTIMATORS[name]), name)
    except ImportError as error:
        from slce_xp._errors import not_installed

        raise not_installed(f"slce_xp.{name}", "scikit-learn", error, "scikit-learn") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
