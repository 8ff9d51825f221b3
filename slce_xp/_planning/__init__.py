"""Which form of the eigenproblem to solve, and what that costs: integers in, a plan out."""
