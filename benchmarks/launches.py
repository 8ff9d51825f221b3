"""Which operations of torch a GPU launches a kernel or a library routine for."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
# They allocate, or give a tensor another shape, and compute nothing.
NOTHING_TO_COMPUTE = {
    aten.empty,
    aten.empty_like,
    aten.empty_strided,
    aten.new_empty,
    aten.new_empty_strided,
    aten._unsafe_view,
    aten._reshape_alias,
    aten.lift_fresh,
    aten._linalg_check_errors,  # a wait, counted as such
    aten._local_scalar_dense,  # likewise
}


def is_launch(operation: Any) -> bool:
    """Whether an ATen operation on tensors of a device costs a launch: views do not."""
    return not operation.is_view and operation.overloadpacket not in NOTHING_TO_COMPUTE


class Launches(TorchDispatchMode):
    """Counts operations that compute on a device, in a ``with`` block."""

    def __init__(self, kind: str = "cuda") -> None:
        super().__init__()
        self.kind = kind
        self.launches = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run an operation and count it."""
        out = func(*args, **(kwargs or {}))
        self.count(func, out)
        return out

    def count(self, func: Any, out: Any) -> list[torch.Tensor]:
        """Count an operation, and return the tensors on the device that it returned."""
        tensors = (x for x in tree_leaves(out) if isinstance(x, torch.Tensor))
        there = [x for x in tensors if x.device.type == self.kind]
        self.launches += bool(there) and is_launch(func)
        return there
