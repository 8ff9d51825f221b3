"""SciPy's BLAS has one thread where it would compete with NumPy's."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_info

import slce_xp
from slce_xp._backend import threads


def counts():
    blas = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    return {"scipy" if "scipy.libs" in lib["filepath"] else "numpy": lib["num_threads"]
            for lib in blas}


found = {"before": counts()}
with threads.few_threads(1500):
    found["small"] = counts()
with threads.few_threads(1501):
    found["large"] = counts()
arrived = Barrier(2)


def solve(_):
    arrived.wait()
    with threads.few_threads(10):
        return counts()


with ThreadPoolExecutor(2) as pool:
    found["one of two"], found["the other"] = pool.map(solve, range(2))
found["after both"] = counts()
try:
    with threads.few_threads(10):
        raise KeyError
except KeyError:
    found["after an error"] = counts()
rng = np.random.default_rng(0)
X = rng.standard_normal((300, 120))
slce_xp.fit(X, rng.integers(0, 4, 300))
found["after a fit"] = counts()
print(json.dumps(found))
"""


def test_threads_of_scipy_are_limited_for_small_matrices_and_given_back():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout)
    whole = found.pop("before")
    if whole != {"numpy": 2, "scipy": 2}:
        pytest.skip(f"NumPy and SciPy must have a BLAS each, and two cores; they have {whole}")
    limited = {"numpy": 2, "scipy": 1}
    assert found.pop("small") == limited
    assert [found.pop(name) for name in ("one of two", "the other")] == [limited, limited]
    assert set(found) == {"large", "after both", "after an error", "after a fit"}
    assert all(counts == whole for counts in found.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_process_that_is_forked_during_a_solve_does_not_wait_for_it():
    code = """
import os
from slce_xp._backend import threads

with threads.few_threads(10):
    child = os.fork()
    if not child:
        with threads.few_threads(10):
            os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.strip() == "7"
