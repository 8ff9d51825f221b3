"""System information for bug reports: versions, devices, BLAS and threads, memory."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator

from threadpoolctl import threadpool_info

import slce_xp
from slce_xp import _backend
from slce_xp._planning import sizes
from slce_xp.cli.tables import machine_memory

_LIBRARIES = (
    "numpy", "scipy", "array-api-compat", "torch", "cupy-cuda12x", "cupy-cuda13x", "cupy", "jax",
    "scikit-learn", "pandas", "pyarrow", "anndata", "h5py", "zarr", "dask", "matplotlib", "plotly",
    "tqdm",
)  # fmt: skip
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


def lines() -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"slce_xp    {slce_xp.__version__}"
    yield f"Python     {platform.python_version()} on {platform.platform()}"
    memory = machine_memory()
    known = sizes.format_bytes(memory) if memory else "unknown amount"
    yield f"machine    {os.cpu_count()} cores, {known} of memory"
    found = {d.name: d.version for d in importlib.metadata.distributions() if d.name in _LIBRARIES}
    yield f"libraries  {', '.join(f'{name} {found[name]}' for name in _LIBRARIES if name in found)}"
    yield f"missing    {', '.join(name for name in _LIBRARIES if name not in found) or 'none'}"
    pools = [f"{p['internal_api']} {p['version']}: {p['num_threads']}" for p in threadpool_info()]
    yield f"threads    {'; '.join(pools)}"
    set_here = [f"{name}={os.environ[name]}" for name in _THREADS if name in os.environ]
    yield f"set        {', '.join(set_here) or 'nothing'}"
    for name in _backend.BACKENDS:
        yield f"backend    {name}: {_backend.describe_backend(name)}"
