"""A test double for torch: an accelerator of type "sim" that computes and keeps books.

Inside `with CountingDevice() as device:` tensors on "sim" behave as on a GPU, with the values of
torch's CPU kernels: mixing them with host tensors raises, NumPy cannot read them, memory may run
out. The books say what a GPU would have waited for, copied and held, with LAPACK's workspace for an
eigensolver: twice its matrix. What the double cannot show are time, the bits of a GPU's kernels and
how much workspace they really take.
"""

import collections
import os
import sys
import weakref
from typing import NamedTuple

import array_api_compat
import device_streams
import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    return_and_correct_aliasing,
)
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.dlpack import DLDeviceType

from benchmarks.launches import is_launch

aten = torch.ops.aten

KIND = "sim"
GRANULARITY = 512  # bytes: CUDA's caching allocator rounds up to multiples of it
UNLIMITED = 2**50

# Results whose values, or whose shape, the host has to wait for.
READS = {
    aten._local_scalar_dense.default,  # item, float, bool, ...
    aten.equal.default,
    aten.allclose.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.unique_dim.default,
    aten.unique_consecutive.default,
    aten.bincount.default,
    aten.repeat_interleave.Tensor,
}
# Factorisations that wait to see whether they have failed: torch's choice, not its caller's.
CHECKS = {
    aten._linalg_check_errors.default,  # cholesky, solve, inv
    aten._linalg_eigh.default,
    aten._linalg_svd.default,
    aten.linalg_eig.default,
}
PRODUCTS = {aten.mm.default, aten.bmm.default, aten.addmm.default, aten.mv.default}
NOT_THE_CALLER = tuple(
    os.path.dirname(module.__file__) + os.sep for module in (torch, array_api_compat)
)


class Sync(NamedTuple):
    """One wait of the host for the device."""

    operation: str
    file: str
    line: int


class DeviceModule(backend_registration._DummyBackendModule):
    """What torch shows as `torch.sim`."""

    active: list = []  # noqa: RUF012 -- the devices entered, innermost last: one for all of torch

    def mem_get_info(self, device=None):
        """Free and total bytes, as in torch.cuda."""
        books = self.active[-1]
        total = UNLIMITED if books.capacity is None else books.capacity
        return total - books.live_bytes, total

    def current_stream(self, device=None):
        return self.active[-1].streams.current

    def Stream(self, device=None):  # noqa: N802 -- as torch.cuda has it
        return device_streams.Stream(self.active[-1])

    def stream(self, stream):
        return self.active[-1].streams.entered(stream)


class SimTensor(torch.Tensor):
    """A tensor that reports the device as its own; its values are in a host tensor, `held`."""

    @staticmethod
    def __new__(cls, held, books):
        self = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=books.device,
        )
        self.held = held
        self.books = books
        books.account(held)
        return self

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        books = next(x.books for x in tree_leaves((args, kwargs)) if isinstance(x, SimTensor))
        return books.run(operation, args, kwargs or {})

    def __repr__(self):  # without values: a failing test must not change the books
        return f"SimTensor({tuple(self.shape)}, {self.dtype}, {self.device})"

    def __array__(self, *args, **kwargs):
        raise TypeError(f"can't convert {self.device} device type tensor to numpy")

    numpy = __array__

    def __dlpack__(self, *args, **kwargs):
        raise BufferError(f"a tensor on {self.device} cannot be exported")

    def __dlpack_device__(self):
        return DLDeviceType.kDLExtDev, 0

    # torch has these only for tensors of its own class.
    def tolist(self):
        return self.cpu().tolist()

    def __format__(self, form):
        return format(self.cpu(), form)


class CountingDevice(TorchDispatchMode):
    """The device and its books, while its block lasts.

    Attributes
    ----------
    capacity : int or None
        Bytes beyond which an allocation raises torch.OutOfMemoryError.
    syncs : list of Sync
        Every read by the host; `checks` are those that torch's factorisations make themselves.
    uploads : list of Sync
        Every copy from pageable memory of the host: on CUDA the host waits for it, too.
    async_bytes : int
        Copied from pinned memory on a stream of its own, see `device_streams`.
    h2d_bytes, d2h_bytes : int
        Copied to the device and back.
    launches : int
        Operations that compute something on the device; a library's routine is one.
    live_bytes, peak_bytes : int
    dtype_bytes : Counter
        All bytes ever allocated, by dtype.
    """

    def __init__(self, capacity=None):
        super().__init__()
        if not hasattr(torch, KIND):  # once per process
            backend_registration._setup_privateuseone_for_python_backend(
                KIND, backend_module=DeviceModule()
            )
        self.device = torch.device(KIND, 0)
        self.capacity = capacity
        self.live_bytes = 0
        self._storages = {}
        self._allocated = {}  # storages by the time of their allocation
        self._pinned = []
        self.time = 0
        self.streams = device_streams.Streams(self)
        self.reset()

    def reset(self):
        """Start the books anew; the peak starts at what is held now."""
        self.syncs, self.checks, self.uploads = [], [], []
        self.h2d_bytes = self.d2h_bytes = self.async_bytes = self.launches = 0
        self.peak_bytes = self.live_bytes
        self.dtype_bytes = collections.Counter()

    def __enter__(self):
        # torch.tensor(..., device="sim") makes its tensor on the host and moves it.
        self._lift = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        DeviceModule.active.append(self)
        return super().__enter__()

    def __exit__(self, *exception):
        DeviceModule.active.remove(self)
        torch._C._set_only_lift_cpu_tensors(self._lift)
        return super().__exit__(*exception)

    # ------------------------------------------------------------ unlogged transfers

    def put(self, values):
        """A NumPy array on the device; only its memory is accounted for."""
        return SimTensor(torch.tensor(values.copy()), self)  # torch refuses negative strides

    def get(self, x):
        """The values of a tensor on the device, as NumPy."""
        assert isinstance(x, SimTensor)
        with _disable_current_modes():
            return x.held.numpy().copy()

    # ------------------------------------------------------------ bookkeeping

    def account(self, held):
        storage = held.untyped_storage()
        if storage._cdata in self._storages:
            return  # a view
        size = -(-storage.nbytes() // GRANULARITY) * GRANULARITY
        self._reach(self.live_bytes + size)
        self._storages[storage._cdata] = size
        self._allocated[storage._cdata] = self.time = self.time + 1
        self.live_bytes += size
        self.dtype_bytes[held.dtype] += size
        weakref.finalize(storage, self._release, storage._cdata)

    def _reach(self, size):
        if self.capacity is not None and size > self.capacity:
            raise torch.OutOfMemoryError(
                f"{self.device} out of memory: {size - self.live_bytes} bytes asked for, "
                f"{self.live_bytes} of {self.capacity} in use"
            )
        self.peak_bytes = max(self.peak_bytes, size)

    def _release(self, key):
        self.live_bytes -= self._storages.pop(key)
        del self._allocated[key]

    def _log(self, log, operation):
        frame = sys._getframe()
        while frame.f_code.co_filename.startswith((__file__, *NOT_THE_CALLER)):
            frame = frame.f_back
        log.append(Sync(str(operation), frame.f_code.co_filename, frame.f_lineno))

    # ------------------------------------------------------------ operations

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return self.run(operation, args, kwargs or {})

    def run(self, operation, args, kwargs):
        if operation is aten._to_copy.default:
            return self._copied(args[0], kwargs)
        if operation is aten.copy_.default:
            target, source, *non_blocking = args
            ahead = any(non_blocking) and self.streams.current is not self.streams.computing
            if ahead and _is_here(target) and self._is_pinned(source):
                self._copy_later(target, source)
                return target
            self._log_transfer(source, _is_here(target), source.nbytes)
            self.launches += _is_here(target) and _is_here(source)
            _on_host(operation, args, kwargs)
            return target
        if kwargs.get("pin_memory"):
            pinned = _on_host(operation, args, {**kwargs, "pin_memory": False})
            self._pinned.append(pinned)
            return pinned
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        here = any(map(_is_here, tensors))
        if not here and torch.device(kwargs.get("device") or "cpu").type != KIND:
            return _on_host(operation, args, kwargs)
        self._check(operation, args, tensors)
        self.launches += is_launch(operation)
        if "device" in kwargs:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        result = tree_map(self._wrapped, _on_host(operation, args, kwargs))
        if operation is aten._linalg_eigh.default:
            self._reach(self.live_bytes + 2 * args[0].nbytes)
        # Views and writes in place must give the tensors that torch's rules ask for.
        return return_and_correct_aliasing(operation, args, kwargs, result) if here else result

    def _wrapped(self, x):
        return SimTensor(x, self) if isinstance(x, torch.Tensor) else x

    def _copied(self, source, kwargs):
        device = kwargs.get("device")
        to_here = _is_here(source) if device is None else torch.device(device).type == KIND
        options = {name: value for name, value in kwargs.items() if name != "device"}
        copy = _on_host(aten._to_copy.default, (source,), options)
        self.launches += to_here and _is_here(source)
        # torch changes the dtype on the host, whichever way the copy goes.
        self._log_transfer(source, to_here, copy.nbytes if to_here else source.nbytes)
        return self._wrapped(copy) if to_here else copy

    def _is_pinned(self, source):
        """Whether a tensor is in memory that was allocated with pin_memory=True."""
        begin, size = source.data_ptr(), source.nbytes
        starts = ((pinned.data_ptr(), pinned.nbytes) for pinned in self._pinned)
        return any(own <= begin and begin + size <= own + length for own, length in starts)

    def _copy_later(self, target, source):
        self.h2d_bytes += source.nbytes
        self.async_bytes += source.nbytes
        storage = target.held.untyped_storage()
        self.streams.current.copy(target.held, source, self._allocated[storage._cdata])

    def _log_transfer(self, source, to_here, size):
        if _is_here(source) and not to_here:
            self.d2h_bytes += size
            self._log(self.syncs, "copy to host")
        elif to_here and not _is_here(source):
            self._log_upload("copy from host", size)

    def _log_upload(self, operation, size):
        self.h2d_bytes += size
        if size:
            self._log(self.uploads, operation)

    def _check(self, operation, args, tensors):
        """What a GPU would refuse or wait for."""
        indexing = operation.overloadpacket in (aten.index, aten.index_put, aten.index_put_)
        for tensor in tensors:
            if _is_here(tensor) or tensor.dim() == 0:
                continue
            if not indexing or tensor.is_floating_point():
                raise RuntimeError(
                    f"{operation}: expected all tensors on the same device, found "
                    f"{self.device} and cpu with shape {tuple(tensor.shape)}"
                )
            self._log_upload("index from host", tensor.nbytes)  # torch moves it implicitly
        if operation in PRODUCTS and not tensors[0].is_floating_point():
            raise RuntimeError(f"{operation} of {tensors[0].dtype} is not implemented on a GPU")
        masked = indexing and any(x is not None and x.dtype == torch.bool for x in args[1])
        if masked or operation in READS:
            self._log(self.syncs, operation)
        elif operation in CHECKS:
            self._log(self.checks, operation)


def _is_here(x):
    return isinstance(x, SimTensor)


def _on_host(operation, args, kwargs):
    """Run an operation on the host tensors behind the device's."""
    with _disable_current_modes():
        args, kwargs = tree_map(lambda x: x.held if _is_here(x) else x, (args, kwargs))
        return operation(*args, **kwargs)
