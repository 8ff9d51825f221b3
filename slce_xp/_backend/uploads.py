"""Blocks on their way from the host to a device."""

from __future__ import annotations

import importlib
from typing import Any

import array_api_compat as compat
import numpy as np

from slce_xp._backend.places import Array, Place
from slce_xp._backend.transfer import from_host


class Uploads:
    """Copies blocks to a place, one after the other.

    A block is handed over by `begin`, in the thread that read it, and taken by `finish` in the
    thread that computes with it.
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    def begin(self, rows: np.ndarray) -> Any:
        """Hand over a block, whose memory must not change until it is taken."""
        return rows

    def finish(self, coming: Any) -> Array:
        """The block on the device."""
        return from_host(coming, self.place)

    def close(self) -> None:
        """Wait for copies that nobody will take."""


class _UploadsAhead(Uploads):
    """Copies to CuPy on a stream of their own, while the block before is worked on.

    Blocks pass through two buffers of pinned memory in turn. Memory on the device is allocated on
    the stream that computes, so that it is given to nobody else before that stream has used it,
    and the copy waits for what this stream did with that memory before.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._cuda = importlib.import_module("cupy").cuda
        with place.device:
            self._computing = self._cuda.get_current_stream()
            self._copying = self._cuda.Stream(non_blocking=True)
        self._buffers: list[Any] = [None, None]
        self._left: list[Any] = [None, None]  # when the last copy has left each buffer
        self._count = 0

    def begin(self, rows: np.ndarray) -> Any:
        """Start to copy a block, if it can be copied as it is."""
        if not (rows.nbytes and rows.dtype.isnative and rows.dtype != np.longdouble):
            return rows
        turn = self._count % 2
        self._count += 1
        self._wait_until_left(turn)
        with self.place.device, self._computing:
            block = self.place.xp.empty(rows.shape, dtype=rows.dtype, device=self.place.device)
            allocated = self._computing.record()
        pinned = self._pinned(turn, rows)
        self._copying.wait_event(allocated)
        with self.place.device:
            block.set(pinned, stream=self._copying)
            self._left[turn] = self._copying.record()
        return block, self._left[turn]

    def _wait_until_left(self, turn: int) -> None:
        if self._left[turn] is not None:
            self._left[turn].synchronize()

    def _pinned(self, turn: int, rows: np.ndarray) -> np.ndarray:
        """The rows in a buffer."""
        if self._buffers[turn] is None or self._buffers[turn].size() < rows.nbytes:
            self._buffers[turn] = self._cuda.alloc_pinned_memory(rows.nbytes)
        pinned = np.frombuffer(self._buffers[turn], rows.dtype, rows.size).reshape(rows.shape)
        pinned[...] = rows
        return pinned

    def finish(self, coming: Any) -> Array:
        """The block, which the computing stream waits for; the host does not."""
        if isinstance(coming, np.ndarray):
            return super().finish(coming)
        block, arrived = coming
        self._computing.wait_event(arrived)
        return block

    def close(self) -> None:
        """Wait for copies that nobody will take: their memory may be given to others."""
        self._copying.synchronize()


def copies_ahead(place: Place) -> bool:
    """Whether a block is copied to a device while another is there."""
    return compat.is_cupy_namespace(place.xp)


def uploads_to(place: Place) -> Uploads:
    """The way to a place."""
    return _UploadsAhead(place) if copies_ahead(place) else Uploads(place)
