"""A Dask client that fits data held by its workers and prints its own peak memory.

``python tests/dask_client.py MEGABYTES SOLVER`` prints, in MB, its peak before and after the fit.
"""

import sys

import dask
import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster

import slce_xp

CHUNK_ROWS, N_CLASSES = 4096, 10


def make(start, rows, d):
    """Rows created on a worker; the classes are well separated."""
    rng = np.random.default_rng(start)
    X = rng.random((rows, d), dtype=np.float32)
    X[np.arange(rows), (start + np.arange(rows)) % N_CLASSES] += 1
    return X


def most_memory():
    with open("/proc/self/status") as file:
        return (
            next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024 // 10**6
        )


def main():
    megabytes, solver = int(sys.argv[1]), sys.argv[2]
    d = 500
    n = megabytes * 10**6 // (4 * d)
    sizes = [min(CHUNK_ROWS, n - start) for start in range(0, n, CHUNK_ROWS)]
    with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        chunks = [
            da.from_delayed(dask.delayed(make)(i * CHUNK_ROWS, rows, d), (rows, d), np.float32)
            for i, rows in enumerate(sizes)
        ]
        X, y = da.concatenate(chunks), np.arange(n) % N_CLASSES
        before = most_memory()
        model = slce_xp.fit(X, y, solver=solver)
        assert X.nbytes > 0.99e6 * megabytes
        # The classes differ in ten columns only.
        assert np.abs(model.components[:, N_CLASSES:]).max() < 0.1
        print(before, most_memory())


if __name__ == "__main__":
    main()
