"""The mathematics of SLCE, on arrays of any library that follows the array API standard.

Pure functions: they take arrays and integers and return arrays, without labels, files or plans.
`slce_xp.fit` and all that is above it are built on them. A module is imported when one of its names
is first asked for.

>>> import numpy as np
>>> from slce_xp.core import class_sums, eigenpairs
>>> x = np.asarray([[0.0, 1.0], [1.0, 0.0], [8.0, 1.0], [9.0, 0.0]])
>>> codes = np.asarray([0, 0, 1, 1])
>>> class_sums(x, codes, 2)
array([[ 1.,  1.],
       [17.,  1.]])
>>> eigenpairs(x, codes, 2, 1).components.round(6)
array([[0.999878, 0.015619]])
"""

from typing import TYPE_CHECKING

from .. import _lazy

if TYPE_CHECKING:
    from ._class_moments import Moments, class_moments
    from ._eigen import fix_signs, largest_eigenpairs
    from ._separation import Separation, separating_components
    from ._solve import Eigenpairs, eigenpairs
    from ._sums import class_sums
else:
    __getattr__, __dir__ = _lazy.attach(
        __name__,
        {
            "Eigenpairs": "_solve",
            "Moments": "_class_moments",
            "Separation": "_separation",
            "class_moments": "_class_moments",
            "class_sums": "_sums",
            "eigenpairs": "_solve",
            "fix_signs": "_eigen",
            "largest_eigenpairs": "_eigen",
            "separating_components": "_separation",
        },
    )

__all__ = [
    "Eigenpairs",
    "Moments",
    "Separation",
    "class_moments",
    "class_sums",
    "eigenpairs",
    "fix_signs",
    "largest_eigenpairs",
    "separating_components",
]
