"""SciPy's BLAS on one thread, where it would compete with NumPy's.

NumPy's and SciPy's wheels contain an OpenBLAS each. After a product, the threads of one wait for
more work by spinning, for about a tenth of a second, on the cores that the threads of the other
need: a small eigenproblem takes 100 ms instead of 2. One thread of SciPy's has a core of its own.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

# Rows of a matrix from which on several threads gain more than they lose.
LARGE_MATRIX = 1500
_one_at_a_time = Lock()  # so that each one gives back what it found


def _renew_lock() -> None:
    """Forget a lock that another thread of the parent held when this process was forked."""
    global _one_at_a_time
    _one_at_a_time = Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_lock)


def scipy_linalg() -> Any:
    """SciPy's linear algebra, imported when it is needed."""
    return importlib.import_module("scipy.linalg")


@contextmanager
def few_threads(size: int) -> Iterator[None]:
    """Give SciPy's own BLAS one thread for a matrix of so many rows, unless it is large."""
    if size > LARGE_MATRIX:
        yield
        return
    with _one_at_a_time, _own_blas().limit(limits=1):
        yield


@cache
def _own_blas() -> Any:
    """The BLAS beside SciPy's folder or within it. One that is elsewhere is NumPy's, too."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(scipy_linalg().__file__)))
    everything = importlib.import_module("threadpoolctl").ThreadpoolController()
    own = [lib.filepath for lib in everything.lib_controllers if lib.filepath.startswith(package)]
    return everything.select(filepath=own)
