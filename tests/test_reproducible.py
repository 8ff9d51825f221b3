"""Bitwise the same result from two processes."""

import hashlib
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib, sys
import numpy as np, slce_xp
sys.path.insert(0, {tests!r})
import oracle
digest = hashlib.sha256()
for n, d, k in [(300, 20, 4), (40, 300, 3), (900, 15, 100)]:
    X, y = oracle.blobs(n, d, k, seed=1)
    for dtype in ("float32", "float64"):
        model = slce_xp.fit(X.astype(dtype), y, backend={backend!r}).to("numpy")
        for array in (model.components, model.eigenvalues, model.mean, model.centroids):
            digest.update(np.ascontiguousarray(array).tobytes())
print(digest.hexdigest())
"""


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_two_processes_give_the_same_bits(request, backend):
    pytest.importorskip(backend)
    script = SCRIPT.format(tests=str(request.config.rootpath / "tests"), backend=backend)
    outputs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    first, second = (output.stdout.strip() for output in outputs)
    assert len(first) == hashlib.sha256().digest_size * 2
    assert first == second
