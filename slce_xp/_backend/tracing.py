"""Arrays without values, which stand for those that a compiler or a derivative will have.

Nothing here asks array-api-compat, whose caches Torch's compiler cannot trace.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .places import Array

T = TypeVar("T")


def is_traced(x: object) -> bool:
    """Whether `x` is traced, by ``jax.jit``, ``torch.compile``, ``vmap`` or the like.

    It has no values then, or none that can be read.
    """
    return _is_traced_by_torch(x) or _is_traced_by_jax(x)


def _is_traced_by_torch(x: object) -> bool:
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return False
    if torch.compiler.is_compiling():
        return True
    # Torch has no public name for the tensors of torch.func.
    is_wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(x)
    return is_wrapped


def _is_traced_by_jax(x: object) -> bool:
    jax: Any = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.core.Tracer)


def requires_grad(x: object) -> bool:
    """Whether torch records what is done with `x`."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return False
    return bool(x.requires_grad and torch.is_grad_enabled())


def traced_namespace(x: Array) -> Any:
    """The namespace of a traced array."""
    if _is_traced_by_jax(x):
        return sys.modules["jax.numpy"]
    import array_api_compat.torch  # not by importlib, which Torch's compiler cannot trace

    return array_api_compat.torch


def constant(values: list[Any], x: Array) -> Array:
    """Python numbers as an array where a traced array is."""
    device = None if _is_traced_by_jax(x) else x.device
    return traced_namespace(x).asarray(values, device=device)


def call_traced(function: Callable[[], T], *arrays: Array | None) -> T:
    """Call a function of arrays, of which some are traced, in full precision.

    That of a program which Torch compiles is set outside of it.
    """
    if not any(map(_is_traced_by_jax, arrays)):
        return function()
    with sys.modules["jax"].default_matmul_precision("highest"):
        return function()


def register_pytree(model: Any, names: tuple[str, ...]) -> None:
    """Let JAX take a dataclass apart into arrays, once an object of it holds some of JAX's.

    Parameters
    ----------
    model : dataclass
    names : tuple of str
        The fields with arrays; functions that JAX compiles depend on all others.
    """
    jax: Any = sys.modules.get("jax")
    cls = type(model)
    if jax is None or cls in _REGISTERED or not isinstance(getattr(model, names[0]), jax.Array):
        return

    def flatten(model: Any) -> tuple[tuple[Array, ...], _Facts]:
        fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
        return tuple(fields.pop(name) for name in names), _Facts(fields)

    def unflatten(rest: _Facts, arrays: tuple[Array, ...]) -> Any:
        return cls(**dict(zip(names, arrays, strict=True)), **rest.facts)

    _REGISTERED.add(cls)
    jax.tree_util.register_pytree_node(cls, flatten, unflatten)


_REGISTERED: set[type] = set()


class _Facts:
    """All of a model but its arrays, to be compared."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def _key(self) -> str:
        plain = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self.facts.items()
        }
        return repr(plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Facts) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
