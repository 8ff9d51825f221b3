"""The forms of the eigenproblem, by name."""

from slce_xp.core import gram, krylov, scatter

SOLVERS = {"scatter": scatter.solve, "gram": gram.solve, "krylov": krylov.solve}
