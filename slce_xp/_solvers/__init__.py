"""One file per form, one signature, one table.

A solver is a function ``solve(operator, request) -> Solution`` that finds the algebraically
largest eigenpairs of M in the order of the contract. It knows no labels and no library.
"""

from slce_xp._solvers import gram, krylov, scatter
from slce_xp._solvers._solution import Request, Solution

SOLVERS = {"scatter": scatter.solve, "gram": gram.solve, "krylov": krylov.solve}

__all__ = ["SOLVERS", "Request", "Solution", "scatter"]
