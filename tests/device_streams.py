"""Streams of the test double of a torch accelerator: what is not waited for shows.

Work on the stream that computes is done at once. A copy from pinned memory on another stream is put
off until somebody waits for an event after it; until then the block holds NaN. On a GPU the copy
may be later still, as long as the host has not waited itself, so pinned memory that is written to
before raises. So does a copy to memory that the computing stream may not have released.
"""

import contextlib

import torch
from torch.utils._python_dispatch import _disable_current_modes


class Copy:
    """A copy from pinned memory: put off, then arrived, then known to have left."""

    def __init__(self, target, source):
        self.target, self.source, self.copied = target, source, None
        self.has_left = False
        target.view(torch.uint8).fill_(0xFF)  # NaN

    def arrive(self):
        if self.copied is None:
            self.target.copy_(self.source)
            self.copied = self.source.clone()

    def leave(self):
        self.arrive()
        if not self.has_left and not torch.equal(_bytes(self.source), _bytes(self.copied)):
            raise RuntimeError("pinned memory was written to before a copy had left it")
        self.has_left = True

    def overlaps(self, source):
        begin, size = source.data_ptr(), source.nbytes
        own = self.source.data_ptr()
        return not self.has_left and own < begin + size and begin < own + self.source.nbytes


class Event:
    """What a stream had to do when it was recorded."""

    def __init__(self, stream):
        self.copies = list(stream.copies)
        self.time = stream.books.time

    def synchronize(self):
        with _disable_current_modes():
            for copy in self.copies:
                copy.leave()


class Stream:
    """Operations in order; of the computing stream, all are done already."""

    def __init__(self, books):
        self.books = books
        self.copies = []
        self.known_time = -1  # what the computing stream had done when this one waited for it

    def record_event(self):
        return Event(self)

    def wait_event(self, event):
        self.known_time = max(self.known_time, event.time)
        with _disable_current_modes():
            for copy in event.copies:
                copy.arrive()

    def synchronize(self):
        Event(self).synchronize()

    def copy(self, target, source, allocated):
        """Put off a copy to a host tensor that stands for one allocated on the device."""
        if allocated > self.known_time:
            raise RuntimeError("a copy did not wait for the stream that uses its memory")
        with _disable_current_modes():
            if any(copy.overlaps(source) for copy in self.copies):
                raise RuntimeError("a copy had not left its pinned memory when the next one began")
            self.copies = [copy for copy in self.copies if not copy.has_left]
            self.copies.append(Copy(target, source))


class Streams:
    """The streams of a device: part of what torch shows as `torch.sim`."""

    def __init__(self, books):
        self.books = books
        self.computing = self.current = Stream(books)

    @contextlib.contextmanager
    def entered(self, stream):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before


def _bytes(x):
    return x.contiguous().view(torch.uint8)
