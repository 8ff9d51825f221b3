"""Rows that are read block by block, the next block while the current one is worked on."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._backend import Array, Buffer, Place, Sparse, Uploads
from slce_xp._data.row_reader import RowReader
from slce_xp._progress import Progress
from slce_xp.core._rows import BlockRows

# Bytes of a block that is read if nothing else is planned: enough for a disk and fast products.
READ_BLOCK = 2**24
# Positions in X from which rows are probed.
PROBE_SPOTS = 8
# Threads that read blocks for a device that copies them while it computes, which one thread may
# not keep up with. Their buffers and the blocks on the device are half as large in return.
READERS = 3


class FileRows(BlockRows):
    """Rows of a `RowReader`.

    Parameters
    ----------
    reader : RowReader, shape (n, d)
    place : Place
        Where to compute: blocks are moved there, one at a time.
    read_rows : int
        Rows of a block; 0 for as many as suit a disk.
    panel_rows : int
        Rows that the Gram form may hold.
    dtype : optional
        Dtype to compute in; chosen by the dtype of the reader by default.
    progress : Progress, optional
    kept : numpy.ndarray of int, optional
        Positions of the rows to read, ascending; all by default.
    """

    def __init__(
        self,
        reader: RowReader,
        place: Place,
        read_rows: int = 0,
        panel_rows: int = 1,
        dtype: Any = None,
        progress: Progress | None = None,
        kept: np.ndarray | None = None,
    ) -> None:
        reader = reader if kept is None else reader.only(kept)
        dtype = dtype or _backend.working_dtype(_backend.move(_backend.without_rows(reader), place))
        super().__init__(reader.shape, place, dtype, progress, kept)
        self._reader = reader
        self.is_sparse = reader.is_sparse
        read_rows = read_rows or max(1, READ_BLOCK // max(1, 8 * self.d))
        if _backend.copies_ahead(place):  # two blocks are there at a time
            read_rows = max(1, read_rows // 2)
        chunk = reader.chunk_rows
        self._read_rows = read_rows // chunk * chunk if chunk <= read_rows else read_rows
        self._panel_rows = max(panel_rows, read_rows)

    def rows(self, index: slice) -> Array:
        """The rows of a slice, read now."""
        return self._put(_backend.move(self._reader.read(index), self.place))

    def _fetch(self, block: slice, buffer: Buffer | None) -> tuple[Array, Buffer | None]:
        """Read a block, into a buffer if there is one: the work of a reader."""
        return self._reader.read(block, None if buffer is None else buffer.memory), buffer

    def _put(self, rows: Array) -> Array:
        """Sparse rows in the dtype to compute in, dense ones as they are."""
        return rows.astype(self.dtype) if isinstance(rows, Sparse) else self.filled(rows)

    def row_blocks(self, made: int) -> Iterator[slice]:
        """Slices of rows as they are read, whatever a term allocates."""
        return iter(_within(slice(0, self.n), self._read_rows) or [slice(0, 0)])

    def probe(self, count: int) -> Array:
        """A few rows from each of several positions, no more than a block."""
        count = min(count, self._read_rows)
        spots = max(1, min(PROBE_SPOTS, count))
        length = min(max(1, count // spots), max(1, self.n // spots))
        starts = [(self.n - length) * i // max(1, spots - 1) for i in range(min(spots, self.n))]
        runs = [self.rows(slice(start, start + length)) for start in starts]
        runs = [run.dense() for run in runs] if self.is_sparse else runs
        return self.place.xp.astype(self.place.xp.concat(runs, axis=0), self.dtype, copy=False)

    def _read(self, blocks: list[slice]) -> Generator[tuple[slice, Array]]:
        """Blocks in order, whichever reader is first."""
        self.progress.begin_pass(blocks[-1].stop - blocks[0].start, self.n)
        uploads, readers = self._way(max(block.stop - block.start for block in blocks))
        pool = ThreadPoolExecutor(readers, "slce_xp-reader")
        coming: deque[Future[tuple[Array, Buffer | None]]] = deque()
        waiting = iter(blocks)

        def read_ahead() -> None:
            for block in islice(waiting, readers - len(coming)):
                coming.append(pool.submit(self._fetch, block, uploads.buffer()))

        try:
            read_ahead()
            for count, block in enumerate(blocks, 1):
                sent = uploads.send(*coming.popleft().result())
                read_ahead()
                held = [self._put(uploads.finish(sent))]
                del sent
                if count < len(blocks):
                    length = blocks[count].stop - blocks[count].start
                    uploads.reserve((length, self.d), self._reader.dtype)
                yield block, held.pop()
                self.progress.read(block.stop - block.start, count, len(blocks))
        finally:
            # Leaving this, in whatever way, waits for reads and copies that may be under way.
            pool.shutdown(cancel_futures=True)
            uploads.close()

    def _way(self, length: int) -> tuple[Uploads, int]:
        """The way to the device for blocks of some rows, and the number of readers."""
        reader = self._reader
        if not (reader.gives_numpy and _backend.copies_ahead(self.place)):
            return Uploads(self.place), 1
        readers = READERS if reader.is_concurrent else 1
        size = max(1, length * self.d * reader.dtype.itemsize)
        return _backend.uploads_to(self.place, size, readers + 1), readers

    def outer(self, prepare: Callable[[Array, slice], Array]) -> Array:
        """R·Rᵀ of rows R = prepare(rows), shape (n, n).

        Some rows are held while all after them are read: p such panels take p / 2 passes over X.
        """
        panels = []  # products of each panel with the rows from its own on
        for panel in _within(slice(0, self.n), self._panel_rows):
            held: list[Array] = []  # as they were read: joined they would be there twice
            with contextlib.closing(self._read(_within(panel, self._read_rows))) as blocks:
                for _, rows in blocks:
                    held.append(prepare(rows, slice(None)))
                    del rows
            strips = [[left @ right.T for right in held[i:]] for i, left in enumerate(held)]
            rest = _within(slice(panel.stop, self.n), self._read_rows)
            if rest:
                with contextlib.closing(self._read(rest)) as blocks:
                    for _, rows in blocks:
                        right = prepare(rows, slice(None))
                        del rows
                        for left, strip in zip(held, strips, strict=True):
                            strip.append(left @ right.T)
                        del right
            joined = [self.place.xp.concat(strip, axis=1) for strip in strips]
            panels.append(_mirrored(joined, self.place))
        return _mirrored(panels, self.place)


def _within(rows: slice, step: int) -> list[slice]:
    return [slice(i, min(i + step, rows.stop)) for i in range(rows.start, rows.stop, step)]


def _mirrored(strips: list[Array], place: Place) -> Array:
    """A symmetric matrix from strips of its rows, each from its own diagonal block on.

    Columns to the right of the last strip's block are not part of the symmetry.
    """
    lines = []
    start = 0
    for i, strip in enumerate(strips):
        stop = start + strip.shape[0]
        line, above = [strip], start
        for other in reversed(strips[:i]):
            above -= other.shape[0]
            line.insert(0, other[:, start - above : stop - above].T)
        lines.append(place.xp.concat(line, axis=1))
        start = stop
    return place.xp.concat(lines, axis=0)
