"""One file per form, one signature, one table.

A solver is a function ``solve(operator, k) -> (eigenvalues, vectors, zero)`` that returns
the k algebraically largest eigenpairs of M in the order of the contract, and the
magnitude below which its eigenvalues count as zero. It knows no labels and no library.
"""

from slce_xp._solvers import gram, scatter

SOLVERS = {"scatter": scatter.solve, "gram": gram.solve}

__all__ = ["SOLVERS"]
