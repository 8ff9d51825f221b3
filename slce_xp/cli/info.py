"""System information for bug reports: versions, devices, BLAS and threads, memory."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator

import numpy as np

import slce_xp
from slce_xp import _backend
from slce_xp._planning import sizes
from slce_xp.cli.table import machine_memory

_LIBRARIES = (
    "numpy", "scipy", "array-api-compat", "torch", "cupy-cuda12x", "cupy-cuda13x", "cupy", "jax",
    "scikit-learn", "pandas", "pyarrow", "anndata", "h5py", "zarr", "dask", "matplotlib", "plotly",
    "tqdm",
)  # fmt: skip
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


def lines() -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"slce_xp    {slce_xp.__version__}"
    yield f"Python     {platform.python_version()}"
    yield f"system     {platform.platform()}"
    memory = machine_memory()
    known = sizes.format_bytes(memory) if memory else "unknown amount"
    yield f"machine    {os.cpu_count()} cores, {known} of memory"
    versions = {name: _version(name) for name in _LIBRARIES}
    yield f"libraries  {', '.join(f'{name} {v}' for name, v in versions.items() if v)}"
    yield f"missing    {', '.join(name for name, v in versions.items() if not v) or 'none'}"
    yield f"BLAS       {_blas()}"
    set_here = [f"{name}={os.environ[name]}" for name in _THREADS if name in os.environ]
    yield f"threads    {', '.join(set_here) or 'as the libraries choose'}"
    for name in _backend.BACKENDS:
        yield f"backend    {name}: {_backend.describe_backend(name)}"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _blas() -> str:
    try:
        from threadpoolctl import threadpool_info
    except ImportError:  # scikit-learn brings it
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{built['name']} {built['version']}"
    pools = [
        " ".join(
            [pool["internal_api"], pool["version"] or "", f"with {pool['num_threads']} threads"]
        ).replace("  ", " ")
        for pool in threadpool_info()
    ]
    return "; ".join(dict.fromkeys(pools)) or "unknown"
