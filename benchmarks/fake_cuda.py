"""Bytes and flops of a CUDA fit at any size, without a GPU: ``python -m benchmarks.fake_cuda``.

The fit runs on torch's fake tensors: they have a shape, a dtype and the device "cuda", and no
values, so a matrix of 80 GB costs nothing. The core runs as it is; only the few functions that
carry values between host and device are replaced, and what the host reads is made up so that
the fit takes its ordinary course: no offset, no null space, k positive eigenvalues, and in the
matrix-free form full blocks for the number of passes that the plan counts on.

Seen are all tensors, in multiples of 512 bytes like those of CUDA's caching allocator, and for an
eigensolver LAPACK's workspace: twice its matrix. Not seen are other workspaces of kernels, what
cuSOLVER really takes, and the CUDA context. Nothing here is a time.
"""

from __future__ import annotations

import argparse
import contextlib
import warnings
import weakref
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry, shape_wrapper

import slce_xp
from benchmarks.launches import Launches
from slce_xp import _backend
from slce_xp._backend import transfer
from slce_xp._planning.plan import choose
from slce_xp._planning.problem import ITEMSIZES, TYPICAL_PASSES, Limits, Problem
from slce_xp._planning.sizes import format_bytes
from slce_xp.core import _eigen, _moments, _space
from slce_xp.core._solution import FORMS

NOT_SEEN = "fake CUDA tensors: exact for tensors, workspace of eigh as LAPACK's, no times"
GRANULARITY = 512
aten = torch.ops.aten


# ---------------------------------------------------------------- the device


class PlainIndexing(TorchFunctionMode):
    """Views by slices and None, without torch's own indexing.

    That asks a CPU build for its CUDA driver even where the tensor is fake.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Replace ``x[index]`` and ``x[index] = y``; all else as it is."""
        if func is torch.Tensor.__getitem__:
            return _view(*args)
        if func is torch.Tensor.__setitem__:
            target, index, values = args
            if _view(target, index).shape != values.shape:
                raise ValueError(f"{values.shape} does not fit into {index} of {target.shape}")
            return None  # there are no values to copy
        return func(*args, **(kwargs or {}))


def _view(x: torch.Tensor, index: Any) -> torch.Tensor:
    axis = 0
    for item in index if isinstance(index, tuple) else (index,):
        if item is Ellipsis:  # the last one
            break
        if isinstance(item, int):
            x = aten.select.int(x, axis, item)
            continue
        if item is None:
            x = x.unsqueeze(axis)
        elif isinstance(item, slice):
            start, stop, step = item.indices(x.shape[axis])
            x = aten.slice.Tensor(x, axis, start, max(start, stop), step)
        else:
            raise TypeError(f"a fake CUDA tensor takes integers, slices and None; got {item!r}")
        axis += 1
    return x


class LiveBytes(Launches):
    """Bytes of all storages on the device, now and at most, and operations that compute there."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = self.peak_with_workspace = 0
        self._sizes: dict[int, int] = {}
        self.flops: dict[str, int] = {}  # of products and factorisations, by dtype

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run an operation and account for what it returns."""
        out = func(*args, **(kwargs or {}))
        for tensor in self.count(func, out):
            self._account(tensor.untyped_storage())
        count = FLOPS.get(func._overloadpacket)
        if count is not None:
            dtype = str(args[0].dtype).removeprefix("torch.")
            flops = int(count(*args, **(kwargs or {}), out_val=out))
            self.flops[dtype] = self.flops.get(dtype, 0) + flops
        if func is aten._linalg_eigh.default:
            workspace = 2 * args[0].nbytes
            self.peak_with_workspace = max(self.peak_with_workspace, self.now + workspace)
        return out

    def _account(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._sizes:
            return  # a view
        self._sizes[key] = -(-storage.nbytes() // GRANULARITY) * GRANULARITY
        self.now += self._sizes[key]
        self.peak = max(self.peak, self.now)
        self.peak_with_workspace = max(self.peak_with_workspace, self.now)
        weakref.finalize(storage, self._release, key)

    def _release(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


# What FlopCounterMode does not count, by the textbook (Golub & Van Loan): all eigenpairs by
# tridiagonal reduction, the factors of Cholesky, LU and Householder.
FACTORISATIONS = {
    aten._linalg_eigh: lambda a, *_, **__: 9 * a[0] ** 3,
    aten.linalg_cholesky_ex: lambda a, *_, **__: a[0] ** 3 // 3,
    aten.linalg_qr: lambda a, *_, **__: 4 * min(a) ** 2 * (max(a) - min(a) // 3),
    aten._linalg_solve_ex: lambda a, b, *_, **__: 2 * a[0] ** 3 // 3 + 2 * a[0] ** 2 * b[-1],
    aten.addmm_: lambda c, a, b, *_, **__: 2 * a[0] * a[1] * b[1],
}
# The same as functions of tensors, with those that it does count.
FLOPS = {**flop_registry, **{op: shape_wrapper(count) for op, count in FACTORISATIONS.items()}}


# ---------------------------------------------------------------- the values that are not there


def _fake(shape: tuple[int, ...], place: _backend.Place, dtype: Any) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=place.device)


def _from_host(values: np.ndarray, place: _backend.Place, dtype: Any = None) -> torch.Tensor:
    return _fake(values.shape, place, dtype or getattr(torch, values.dtype.name))


def _draw_normal(
    seed: int, shape: tuple[int, ...], place: _backend.Place, dtype: Any
) -> torch.Tensor:
    return _fake(shape, place, dtype)


def _to_host(x: torch.Tensor) -> np.ndarray:
    return np.ones(x.shape, dtype=str(x.dtype).removeprefix("torch."))


@contextlib.contextmanager
def scripted_reads() -> Iterator[None]:
    """Let a fit read made-up values from a device that has none."""
    read, size = _backend.read, 0  # rows of the Krylov space

    def of_moments(*parts: torch.Tensor) -> list[np.ndarray]:
        squares, *rest = read(*parts)  # packs them on the device, which takes room
        # The scatter is 1, and the mean zero.
        return [squares / squares.size, *(np.zeros_like(part) for part in rest)]

    def of_solution(*parts: torch.Tensor) -> list[np.ndarray]:
        # Eigenvalues are 1; on the span of vectors M is the identity, and nothing is outside.
        found = read(*parts)
        return [_square(part, not i) if part.ndim == 2 else part for i, part in enumerate(found)]

    def of_pass(*parts: torch.Tensor) -> list[np.ndarray]:
        nonlocal size
        first, *rest = read(*parts)
        size = 0 if len(rest) == 4 or len(rest) == 0 else size
        height, width = first.shape
        # C keeps a new block in place, but for a part that goes to the first one and one that
        # leaves the space: no residual ever gets small.
        first = np.eye(height, width, size) + 0.1 * np.eye(height, width)
        size += height
        return [first, *(np.eye(*part.shape) * (i != 1) for i, part in enumerate(rest))]

    with contextlib.ExitStack() as patches:
        for module, name, stand_in in [
            (_backend, "to_host", _to_host),
            (transfer, "to_host", _to_host),
            (_backend, "from_host", _from_host),
            (transfer, "from_host", _from_host),
            (_backend, "draw_normal", _draw_normal),
            (_backend, "free_bytes", lambda place: None),
            (_moments, "read", of_moments),
            (_eigen, "read", of_solution),
            (_space, "read", of_pass),
        ]:
            patches.enter_context(mock.patch.object(module, name, stand_in))
        yield


def _square(part: np.ndarray, is_first: bool) -> np.ndarray:
    return np.eye(*part.shape) if is_first else np.zeros_like(part)


# ---------------------------------------------------------------- one fit


def measure(
    n: int,
    d: int,
    n_classes: int,
    n_components: int | None = None,
    dtype: str = "float32",
    solver: str = "auto",
    passes: int = TYPICAL_PASSES,
) -> dict[str, Any]:
    """Bytes and flops of one fit on a CUDA device.

    Parameters
    ----------
    n, d, n_classes, n_components, dtype, solver
        As for ``slce_xp.plan`` and ``slce_xp.fit``.
    passes : int
        Passes of the matrix-free form; fewer where its space would fill that of the data.
    """
    k = n_components or min(n_classes - 1, d)
    working = dtype if dtype in ITEMSIZES else "float32"  # torch's default for integers
    problem = Problem(n, d, n_classes, k, working, sums=working, accelerated=True)
    plan = choose(problem, Limits(), solver)
    passes = max(1, min(passes, min(n, d) // max(1, plan.width)))
    labels = np.arange(n) % n_classes
    live = LiveBytes()
    flops = FlopCounterMode(display=False, custom_mapping=FACTORISATIONS)
    with (
        FakeTensorMode(),
        PlainIndexing(),
        flops,
        live,
        scripted_reads(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", slce_xp.ConvergenceWarning)
        X = torch.empty((n, d), dtype=getattr(torch, dtype), device="cuda:0")
        x_bytes = live.now
        model = slce_xp.fit(X, labels, n_components, solver=solver, max_iter=passes)
        tensors, peak = live.peak, live.peak_with_workspace
    if model.plan.form != plan.form:
        raise RuntimeError(f"the script led the {plan.form} form to the {model.plan.form} form")
    return {
        "form": plan.form,
        "x_bytes": x_bytes,
        "tensor_bytes_beside_x": tensors - x_bytes,
        "peak_bytes_beside_x": peak - x_bytes,  # with the workspace
        "plan_bytes": plan.bytes,
        "plan_block_bytes": plan.block_bytes,
        "flops": flops.get_total_flops(),
        "flops_by_dtype": live.flops,
        "launches": live.launches,
        "passes": model.passes,
    }


SIZES = [
    (801, 20_531, 5, "float32"),
    (10_000, 20_531, 5, "float32"),
    (1_000_000, 20_531, 5, "float32"),
    (10_000, 1_000_000, 5, "float32"),
]


def main() -> None:
    """Print what fits of some sizes take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--solver", default="auto", choices=("auto", *FORMS))
    parser.add_argument("--size", nargs=3, type=int, metavar=("N", "D", "CLASSES"))
    parser.add_argument("--dtype", default="float32", choices=ITEMSIZES)
    options = parser.parse_args()
    print(NOT_SEEN)
    for size in [(*options.size, options.dtype)] if options.size else SIZES:
        n, d, n_classes, dtype = size
        result = measure(n, d, n_classes, dtype=dtype, solver=options.solver)
        x, peak = result["x_bytes"], result["peak_bytes_beside_x"]
        print(
            f"{n:>9} × {d:<9} {dtype} {result['form']:8} X {format_bytes(x):>8}, beside it "
            f"{format_bytes(peak):>8} ({peak / x:.3f} × X; plan "
            f"{format_bytes(result['plan_bytes'])}), {result['flops']:.2e} flops, "
            f"{result['launches']} launches"
        )


if __name__ == "__main__":
    main()
