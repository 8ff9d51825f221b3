"""Blocks on their way from the host to a device."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from .places import Array, Place
from .transfer import move


class Buffer:
    """Host memory that a device copies from.

    Attributes
    ----------
    memory : numpy.ndarray of uint8
    left : event or None
        When the last copy has left it.
    """

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory
        self.left: Any = None

    def holds(self, rows: Any) -> bool:
        """Whether rows are in this memory, as a device can use them."""
        return (
            isinstance(rows, np.ndarray)
            and rows.nbytes > 0
            and _is_on_devices(rows.dtype)
            and np.may_share_memory(rows, self.memory)
        )


class Uploads:
    """Copies blocks to a place, one after the other, at the time they are needed.

    All calls are made by the thread that computes; only the memory of a buffer is for others.
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    def buffer(self) -> Buffer | None:
        """Memory to read a block into; None if it may be anywhere."""
        return None

    def reserve(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """Allocate the next block, while the current one is being worked on."""

    def send(self, rows: Any, buffer: Buffer | None) -> Any:
        """Begin to copy a block, which may have been read into a buffer."""
        return rows

    def finish(self, coming: Any) -> Array:
        """The block on the device."""
        return move(coming, self.place)

    def close(self) -> None:
        """Wait for copies that nobody will take."""


class _UploadsAhead(Uploads):
    """Copies on a stream of their own, while the block before is worked on.

    Blocks pass through a ring of pinned buffers. Memory on the device is allocated on the stream
    that computes, so that it is given to nobody else before that stream has used it, and the copy
    waits for what that stream did with the memory before.
    """

    def __init__(self, place: Place, size: int, count: int) -> None:
        super().__init__(place)
        kind = _CupyStreams if compat.is_cupy_namespace(place.xp) else _TorchStreams
        self._streams = kind(place.device)
        self._ring = [Buffer(self._streams.pinned(size)) for _ in range(count)]
        self._turn = 0
        self._reserved: Any = None

    def buffer(self) -> Buffer:
        """The buffer that was used longest ago, once its copy has left it."""
        buffer = self._ring[self._turn % len(self._ring)]
        self._turn += 1
        self._wait_until_left(buffer)
        return buffer

    def _wait_until_left(self, buffer: Buffer) -> None:
        if buffer.left is not None:
            buffer.left.synchronize()

    def reserve(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """Allocate the next block: the copy need not wait for work that is begun later."""
        if _is_on_devices(dtype):
            block = self._streams.empty(shape, dtype)
            self._reserved = shape, dtype, block, self._streams.record_computing()

    def send(self, rows: Any, buffer: Buffer | None) -> Any:
        """Begin to copy a block if it is in a buffer."""
        if buffer is None or not buffer.holds(rows):
            return rows
        if self._reserved is None or self._reserved[:2] != (rows.shape, rows.dtype):
            self.reserve(rows.shape, rows.dtype)
        *_, block, allocated = self._reserved
        self._reserved = None
        buffer.left = self._streams.copy(block, rows, allocated)
        return _Coming(block, buffer.left)

    def finish(self, coming: Any) -> Array:
        """The block, which the computing stream waits for; the host does not."""
        if not isinstance(coming, _Coming):
            return super().finish(coming)
        self._wait_for(coming)
        return coming.block

    def _wait_for(self, coming: _Coming) -> None:
        self._streams.computing.wait_event(coming.arrived)

    def close(self) -> None:
        """Wait for copies that nobody will take: their memory may be given to others."""
        self._reserved = None
        self._streams.copying.synchronize()


class _Coming(NamedTuple):
    """A block on a device, and the event of its arrival."""

    block: Array
    arrived: Any


class _CupyStreams:
    """The stream that computes and one for copies, of a device of CuPy."""

    def __init__(self, device: Any) -> None:
        self._cupy = importlib.import_module("cupy")
        self._device = device
        with device:
            self.computing = self._cupy.cuda.get_current_stream()
            self.copying = self._cupy.cuda.Stream(non_blocking=True)

    def pinned(self, size: int) -> np.ndarray:
        return np.frombuffer(self._cupy.cuda.alloc_pinned_memory(size), np.uint8, size)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        with self._device:
            return self._cupy.empty(shape, dtype=dtype)

    def record_computing(self) -> Any:
        with self._device:
            return self.computing.record()

    def copy(self, block: Array, rows: np.ndarray, after: Any) -> Any:
        """Copy rows to a block after an event; return the event of its end."""
        self.copying.wait_event(after)
        with self._device:
            block.set(rows, stream=self.copying)
            return self.copying.record()


class _TorchStreams:
    """The same of a device of torch: CUDA, XPU and others with streams."""

    def __init__(self, device: Any) -> None:
        self._torch = importlib.import_module("torch")
        self._device = device
        self._kind = getattr(self._torch, device.type)
        self.computing = self._kind.current_stream(device)
        self.copying = self._kind.Stream(device)

    def pinned(self, size: int) -> np.ndarray:
        buffer = self._torch.empty(size, dtype=self._torch.uint8, pin_memory=True)
        return buffer.numpy()  # type: ignore[no-any-return]

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        dtype = self._torch.from_numpy(np.empty(0, dtype)).dtype
        return self._torch.empty(shape, dtype=dtype, device=self._device)

    def record_computing(self) -> Any:
        return self.computing.record_event()

    def copy(self, block: Array, rows: np.ndarray, after: Any) -> Any:
        self.copying.wait_event(after)
        with self._kind.stream(self.copying):
            block.copy_(self._torch.from_numpy(rows), non_blocking=True)
        return self.copying.record_event()


def _is_on_devices(dtype: np.dtype) -> bool:
    """Whether devices have a dtype of NumPy: others are converted on the host."""
    return dtype.isnative and dtype != np.longdouble


def copies_ahead(place: Place) -> bool:
    """Whether a block is copied to a device while another is worked on there."""
    if not compat.is_torch_namespace(place.xp):
        return compat.is_cupy_namespace(place.xp)
    kind: Any = getattr(importlib.import_module("torch"), place.device.type, None)
    has_streams = all(hasattr(kind, name) for name in ("Stream", "current_stream", "is_available"))
    return has_streams and place.device.type != "cpu" and bool(kind.is_available())


def uploads_to(place: Place, size: int, count: int) -> Uploads:
    """The way to a place for blocks of at most `size` bytes, by a ring of `count` buffers."""
    return _UploadsAhead(place, size, count) if copies_ahead(place) else Uploads(place)
