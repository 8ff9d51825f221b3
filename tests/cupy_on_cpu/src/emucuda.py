"""Counters and limits of the emulated device (see the README of cupy-on-cpu).

    import cupy, emucuda

    with emucuda.measure() as m:
        y = f(cupy.asarray(x))
    print(m.peak_bytes, m.d2h_count, m.syncs, m.launches)

    with emucuda.capacity(100 * 2**20):     # cupy.cuda.memory.OutOfMemoryError beyond
        f(x)

All numbers belong to this process.
"""

import contextlib
import ctypes
import os
import pathlib

HOME = pathlib.Path(__file__).resolve().parent.parent

# In the order of struct Counters in emucuda.h.
FIELDS = (
    "current_bytes",
    "peak_bytes",
    "mallocs",
    "h2d_count",
    "h2d_bytes",
    "d2h_count",
    "d2h_bytes",
    "stream_syncs",
    "device_syncs",
    "launches",
    "blas_calls",
    "solver_calls",
    "sparse_calls",
)

_library = ctypes.CDLL(str(HOME / "lib" / "libemucuda.so"))
_library.emu_capacity.restype = ctypes.c_longlong
_library.emu_memory_type.argtypes = [ctypes.c_void_p]


def prepare():
    """Called by the emulated cupy before anything else."""
    os.environ["CUPY_ACCELERATORS"] = ""  # CUB and cuTENSOR are not emulated
    os.environ["CUPY_CACHE_DIR"] = str(HOME / "cache" / "cupy")


def stats():
    """The counters of this process since the start or the last reset()."""
    buffer = (ctypes.c_longlong * len(FIELDS))()
    _library.emu_stats(buffer)
    return dict(zip(FIELDS, buffer, strict=False))


def reset():
    """Set the counters to zero and the peak to the bytes held now."""
    _library.emu_reset()


def set_capacity(n_bytes):
    """Limit the device memory; cudaMalloc beyond it fails as on a full GPU."""
    _library.emu_set_capacity(ctypes.c_longlong(int(n_bytes)))


def get_capacity():
    return _library.emu_capacity()


@contextlib.contextmanager
def capacity(n_bytes):
    """Limit the device memory within a block (cached free blocks go first)."""
    import cupy

    before = get_capacity()
    cupy.get_default_memory_pool().free_all_blocks()
    set_capacity(n_bytes)
    try:
        yield
    finally:
        set_capacity(before)


def memory_type(address):
    """cudaMemoryType: 0 ordinary host memory, 1 pinned, 2 device."""
    return _library.emu_memory_type(address)


class Measurement:
    """What happened in a measure() block; every counter of stats(), and

    start_bytes       device bytes held at the start
    peak_bytes        most device bytes held, cached free blocks included
    peak_used_bytes   most bytes in live allocations of cupy's memory pool
                      (rounded to 512; this thread's allocations)
    syncs             stream, event and device synchronizations
    """

    def __repr__(self):
        fields = ", ".join(f"{k}={v}" for k, v in vars(self).items())
        return f"Measurement({fields})"


def _usage_hook():
    from cupy.cuda import memory_hook

    class UsageHook(memory_hook.MemoryHook):
        name = "emucuda.measure"
        peak = 0

        def malloc_postprocess(self, **_):
            import cupy

            self.peak = max(self.peak, cupy.get_default_memory_pool().used_bytes())

    return UsageHook()


@contextlib.contextmanager
def measure():
    """Reset the counters, run the block, fill in the Measurement."""
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    result = Measurement()
    hook = _usage_hook()
    hook.peak = pool.used_bytes()
    reset()
    result.start_bytes = stats()["current_bytes"]
    with hook:
        try:
            yield result
        finally:
            vars(result).update(stats())
            result.peak_used_bytes = hook.peak
            result.syncs = result.stream_syncs + result.device_syncs
