"""Derivatives of what is found by an eigensolver, in the way of Torch and of JAX."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import array_api_compat as compat

from .places import Array, jax, place_of
from .tracing import is_traced

T = TypeVar("T")
# Residual of conjugate gradients in units of eps, and the most steps for each unknown.
SOLVED_EPS, MOST_STEPS = 1e4, 10


def with_derivatives(
    solve: Callable[[Array, Any], T],
    outputs: Callable[[T], tuple[Array, ...]],
    surrogate: Callable[[T, Array, Any], tuple[Array, ...]],
    correct: Callable[[T, Array, Any, Array], Array],
    x: Array,
    weights: Array | None,
) -> tuple[T, tuple[Array, ...]]:
    """Solve for arrays with derivatives in x and weights.

    Parameters
    ----------
    solve : function of x and weights
        Its result has no derivatives.
    outputs : function of the result
        The arrays that get them.
    surrogate : function of the result, x and weights
        Arrays that change in first order as the outputs do; the last output is changed by what
        `correct` makes of the last one.
    correct : function of the result, x, weights and an array
        Linear and symmetric in the array.
    """
    if compat.is_jax_array(x):
        return _by_jax(solve, outputs, surrogate, correct, x, weights)
    plain = [a if a is None or not hasattr(a, "detach") else a.detach() for a in (x, weights)]
    found = solve(*plain)
    function = importlib.import_module("torch").autograd.Function

    class Correct(function):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(context: Any, change: Any) -> Any:
            return change.new_zeros(change.shape)

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return correct(found, plain[0], plain[1], gradient)

    *direct, last = surrogate(found, x, weights)
    *others, final = outputs(found)
    moved = [a + (b - b.detach()) for a, b in zip(others, direct, strict=True)]
    return found, (*moved, final + Correct.apply(last))


def _by_jax(
    solve: Any, outputs: Any, surrogate: Any, correct: Any, x: Array, weights: Any
) -> tuple[Any, tuple[Array, ...]]:
    held: list[Any] = []

    @jax().custom_jvp  # type: ignore[untyped-decorator]
    def function(x: Array, weights: Any) -> tuple[Array, ...]:
        held.append(solve(x, weights))
        return tuple(outputs(held[-1]))

    @function.defjvp  # type: ignore[untyped-decorator]
    def rule(primals: Any, tangents: Any) -> Any:
        primal = function(*primals)
        found = held[-1]
        _, (*direct, last) = jax().jvp(lambda *a: surrogate(found, *a), primals, tangents)
        return primal, (*direct, correct(found, *primals, last))

    arrays = function(x, weights)
    return held[-1], arrays


def conjugate_gradients(operator: Callable[[Array], Array], right: Array) -> Array:
    """Solve a positive definite system, given by its products, (d, k) ↦ (d, k)."""
    xp, _ = place_of(right)
    most = MOST_STEPS * right.shape[0] * right.shape[1]
    tolerance = SOLVED_EPS * float(xp.finfo(right.dtype).eps)

    def goes_on(state: Any) -> Any:
        *_, square, goal, count = state
        return (square > goal) & (count < most)

    def step(state: Any) -> Any:
        found, residual, direction, square, goal, count = state
        image = operator(direction)
        length = square / xp.sum(direction * image)
        residual = residual - length * image
        after = xp.sum(residual * residual)
        onward = residual + (after / square) * direction
        return found + length * direction, residual, onward, after, goal, count + 1

    def solve(operator: Any, right: Array) -> Array:
        square = xp.sum(right * right)
        state = (xp.zeros_like(right), right, right, square, tolerance**2 * square, 0)
        if compat.is_jax_array(right):
            return jax().lax.while_loop(goes_on, step, state)[0]
        while bool(goes_on(state)):
            state = step(state)
        return state[0]

    if is_traced(right):
        return jax().lax.custom_linear_solve(operator, right, solve, symmetric=True)
    return solve(operator, right)
