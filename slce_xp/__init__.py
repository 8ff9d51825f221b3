"""SLCE: exact supervised linear dimensionality reduction on any array library.

>>> import slce_xp
>>> model = slce_xp.fit([[0.0, 1.0], [1.0, 0.0], [8.0, 1.0], [9.0, 0.0]], ["a", "a", "b", "b"])
>>> model.transform([[5.0, 0.5]]).shape
(1, 1)
"""

import importlib.util as _util
import typing as _typing

from slce_xp import _lazy

if _typing.TYPE_CHECKING:
    from slce_xp._comparison.compare import compare
    from slce_xp._comparison.table import Comparison, Score
    from slce_xp._cross import CrossEmbedding, cross_embed
    from slce_xp._errors import ConvergenceWarning, SLCEWarning
    from slce_xp._estimator import SLCE
    from slce_xp._feature_path import FeaturePath
    from slce_xp._fit import fit
    from slce_xp._importance import ImportanceInterval, importance_interval
    from slce_xp._load import load
    from slce_xp._make_plan import plan
    from slce_xp._model import Model
    from slce_xp._permutation import PermutationTest, permutation_test
    from slce_xp._planning.plan import Plan
    from slce_xp._selection import feature_path
    from slce_xp._selector import SLCESelector

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "ConvergenceWarning",
    "CrossEmbedding",
    "FeaturePath",
    "ImportanceInterval",
    "Model",
    "PermutationTest",
    "Plan",
    "SLCEWarning",
    "Score",
    "compare",
    "cross_embed",
    "feature_path",
    "fit",
    "importance_interval",
    "load",
    "permutation_test",
    "plan",
]
if _util.find_spec("sklearn") is not None:  # without it, `import *` must not ask for them
    __all__ += ["SLCE", "SLCESelector"]

if not _typing.TYPE_CHECKING:
    # So that a library which imports `slce_xp.core` loads nothing else.
    _get, __dir__ = _lazy.attach(
        __name__,
        {
            "Comparison": "_comparison",
            "ConvergenceWarning": "_errors",
            "CrossEmbedding": "_cross",
            "FeaturePath": "_feature_path",
            "ImportanceInterval": "_importance",
            "Model": "_model",
            "PermutationTest": "_permutation",
            "Plan": "_planning.plan",
            "SLCE": "_estimator",
            "SLCESelector": "_selector",
            "SLCEWarning": "_errors",
            "Score": "_comparison",
            "compare": "_comparison",
            "cross_embed": "_cross",
            "feature_path": "_selection",
            "fit": "_fit",
            "importance_interval": "_importance",
            "load": "_load",
            "permutation_test": "_permutation",
            "plan": "_make_plan",
        },
        modules=("anndata", "core", "plot"),
    )

    def __getattr__(name: str) -> _typing.Any:
        try:
            return _get(name)
        except ImportError as error:
            if name not in ("SLCE", "SLCESelector"):
                raise
            from slce_xp._errors import not_installed

            raise not_installed(f"slce_xp.{name}", "scikit-learn", error, "scikit-learn") from error
