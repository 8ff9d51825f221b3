"""A file four times the memory of its process, and a cluster: ``python -m benchmarks.streaming``.

Each fit of a file runs in a process of its own that may not have more private memory than a
quarter of the file (RLIMIT_DATA, so Linux only). Before each of its passes it reads the file once
from end to end, into a buffer of 16 MB, and does nothing with it: that is what a pass is
compared with. Cold is a file that is dropped from the page cache as it is read, by both; a file
larger than memory is always cold, so this is the case that counts. Warm is one that the page cache
holds. The folder must be on a disk: what lives in memory is never cold.

On a cluster of processes on this machine the fit is compared with that of the same data in memory.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import slce_xp
from benchmarks.problems import write_synthetic
from benchmarks.process import in_own_process, memory_of
from benchmarks.report import aims_told, largest_angle, write_between_markers
from benchmarks.timing import SETTLE_SECONDS, environment, versions
from slce_xp import _fit
from slce_xp._planning.sizes import format_bytes
from slce_xp._progress import Progress

N_CLASSES = 10
# d, dtype and solvers of the files, as long as --gigabytes says: one for which the plan is
# matrix-free, and two for which it is a d × d matrix.
FILES = [
    (4000, "float32", ("auto", "krylov")),
    (1000, "float32", ("auto",)),
    (500, "float64", ("auto",)),
]
LIMIT_SHARE = 4  # the file over what its process may have
LEAST_LIMIT = 400e6  # for trials with small files: interpreter and libraries take 250 MB
# Beside what the fit counts: the stack of the reader thread, pieces that the allocator keeps.
RESERVE = 64e6
READ_BUFFER = 2**24
CLUSTER_SHARE = 2  # a file over the data for the cluster
CLUSTER_D, CLUSTER_DTYPE = 500, "float64"
CHUNKS = {"rows": (20, 1), "rows and columns": (10, 3)}  # how many
WORKERS = (1, 2)
SECONDS = 1800  # for one process
AIMS = {"angle": 1e-5, "ratio": 1.5, "client": 300e6}


# ---------------------------------------------------------------- the plain read, and the clock


class PlainFile:
    """A file to be read from end to end, and dropped from the page cache if it shall be cold."""

    def __init__(self, path: str, cold: bool) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self._buffer = memoryview(bytearray(READ_BUFFER))
        self._cold = cold

    def read(self) -> float:
        """Seconds that it takes to read it all."""
        start, done = time.perf_counter(), 0
        while count := os.preadv(self._file, [self._buffer], done):
            done += count
            self.drop(done)
        return time.perf_counter() - start

    def drop(self, stop: int = 0) -> None:
        """Let the page cache forget the bytes before `stop`, or all: if the file shall be cold."""
        if self._cold:
            os.posix_fadvise(self._file, 0, stop, os.POSIX_FADV_DONTNEED)


class PassClock(Progress):
    """Times the passes of a fit, and a plain read of the same file before each.

    A pass lasts until the next one begins, or the fit ends: what the solver does in between counts.
    """

    def __init__(self, file: PlainFile, row_bytes: int) -> None:
        self._file = file
        self._row_bytes = row_bytes
        self._rows = 0
        self._start = 0.0
        self.reads: list[float] = []
        self.passes: list[float] = []

    def begin_pass(self, rows: int, of: int = 0) -> None:
        """Read the file, and begin."""
        self.close()
        time.sleep(SETTLE_SECONDS)
        self._file.drop()
        self.reads.append(self._file.read())
        self._file.drop()
        self._rows = 0
        self._start = time.perf_counter()

    def read(self, rows: int, block: int, blocks: int) -> None:
        """Drop what was read."""
        self._rows += rows
        self._file.drop(self._rows * self._row_bytes)

    def close(self) -> None:
        """Another pass is over."""
        if len(self.passes) < len(self.reads):
            self.passes.append(time.perf_counter() - self._start)


# ---------------------------------------------------------------- one point, in its own process


def fit_file(point: dict[str, Any]) -> dict[str, Any]:
    """Fit a file within a limit of private memory."""
    X = np.memmap(point["path"], point["dtype"], mode="r", shape=tuple(point["shape"]))
    y = np.load(point["y"])
    few = np.array(X[:200, :50])
    for form in ("scatter", "krylov"):  # loads what is loaded late, and the buffers of the BLAS
        slce_xp.fit(few @ few.T @ few, y[:200], solver=form)
    file = PlainFile(point["path"], point["cold"])
    file.read()
    taken = memory_of()["private"]
    _limit_private_memory(point["limit"])
    clock = PassClock(file, X.strides[0])
    with mock.patch.object(_fit, "Bar", return_value=clock):
        model = slce_xp.fit(
            X,
            y,
            solver=point["solver"],
            max_memory=int(point["limit"] - taken - RESERVE),
            progress=True,
        )
    np.save(point["components"], model.components)
    return {
        "form": model.solver,
        "planned": model.plan.most_bytes,
        "taken_before": taken,
        "passes": clock.passes,
        "reads": clock.reads,
    }


def _limit_private_memory(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        np.empty(limit, dtype=np.uint8)
    except MemoryError:
        return
    raise OSError("RLIMIT_DATA must be in force, and is not: use another kernel or container")


def fit_in_memory(point: dict[str, Any]) -> dict[str, Any]:
    """Fit the same data as an array, which is read before."""
    X = np.fromfile(point["path"], point["dtype"]).reshape(point["shape"])
    y = np.load(point["y"])
    return _timed_fit(X, y, point)


def fit_on_cluster(point: dict[str, Any]) -> dict[str, Any]:
    """Fit chunks that worker processes hold; this process is the client, and the scheduler."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    y = np.load(point["y"])
    with (
        LocalCluster(
            n_workers=point["workers"],
            threads_per_worker=1,
            memory_limit=0,
            dashboard_address=None,
        ) as cluster,
        Client(cluster),
    ):
        counts = zip(point["shape"], CHUNKS[point["layout"]], strict=True)
        chunks = da.core.normalize_chunks([-(-m // count) for m, count in counts], point["shape"])
        x = da.map_blocks(
            _read_chunk,
            point["path"],
            point["dtype"],
            point["shape"],
            chunks=chunks,
            dtype=point["dtype"],
            meta=np.empty((0, 0), dtype=point["dtype"]),
        ).persist()
        wait(x)
        before = memory_of()["peak"]
        return {**_timed_fit(x, y, point), "peak_before": before, "peak": memory_of()["peak"]}


def _read_chunk(path: str, dtype: str, shape: list[int], block_info: Any = None) -> np.ndarray:
    place = block_info[None]["array-location"]
    X = np.memmap(path, dtype, mode="r", shape=tuple(shape))
    return np.array(X[tuple(slice(*edges) for edges in place)])


def _timed_fit(X: Any, y: np.ndarray, point: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each fit after the first, which loads what is loaded late."""
    seconds = []
    for _ in range(point["rounds"] + 1):
        start = time.perf_counter()
        model = slce_xp.fit(X, y, solver=point["solver"])
        seconds.append(time.perf_counter() - start)
    np.save(point["components"], model.components)
    return {
        "form": model.solver,
        "passes": 1 + (model.passes or 0),
        "seconds": seconds[1:] or seconds,
    }


KINDS = {"file": fit_file, "memory": fit_in_memory, "cluster": fit_on_cluster}


# ---------------------------------------------------------------- the run


class Data:
    """A file of synthetic data in a folder of its own, its labels, and what is fitted to it."""

    def __init__(self, folder: Path, size: float, d: int, dtype: str) -> None:
        self.dtype = dtype
        self.shape = (int(size) // (d * np.dtype(dtype).itemsize), d)
        self.path = folder / "X.bin"
        self._folder = folder
        for old in folder.iterdir():  # of other data, whose components are not to be mistaken
            old.unlink()
        y = write_synthetic(self.path, *self.shape, N_CLASSES, dtype)
        np.save(folder / "y.npy", y)

    @property
    def size(self) -> int:
        """In bytes."""
        return self.path.stat().st_size

    def run(self, kind: str, name: str, threads: int | None = None, **options: Any) -> dict:
        """Fit in a process of its own; keep the components under that name."""
        point = {
            "kind": kind,
            "path": str(self.path),
            "y": str(self._folder / "y.npy"),
            "dtype": self.dtype,
            "shape": self.shape,
            "components": str(self._components(name)),
            **options,
        }
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        settings = {} if threads is None else dict.fromkeys(names, str(threads))
        return in_own_process("benchmarks.streaming", point, SECONDS, settings)

    def angle(self, name: str, other: str) -> float | None:
        """Between two fits; None where one of them failed."""
        paths = [self._components(name), self._components(other)]
        if not all(path.exists() for path in paths):
            return None
        return largest_angle(*map(np.load, paths))

    def _components(self, name: str) -> Path:
        return self._folder / f"{name}.npy"


def measure_file(data: Data, solver: str) -> dict[str, Any]:
    """Fits of one file with one solver: cold, warm and in memory."""
    limit = int(max(data.size / LIMIT_SHARE, LEAST_LIMIT))
    found: dict[str, Any] = {
        "shape": [*data.shape, N_CLASSES],
        "dtype": data.dtype,
        "bytes": data.size,
        "limit": limit,
        "solver": solver,
        "in memory": data.run("memory", f"{solver} in memory", solver=solver, rounds=0),
    }
    for cache in ("cold", "warm"):
        name = f"{solver} {cache}"
        result = data.run("file", name, solver=solver, limit=limit, cold=cache == "cold")
        if "error" not in result:
            result["angle"] = data.angle(name, f"{solver} in memory")
            result["read"] = float(np.median(result["reads"]))
            later = result["passes"][1:]
            result["later"] = float(np.median(later)) if later else None
            result["ratio"] = result["later"] / result["read"] if later else None
        found[cache] = result
        print(f"{data.shape[1]} features, {solver}, {cache}: {_summary(result)}", flush=True)
    return found


def _summary(result: dict[str, Any]) -> str:
    kept = ("error", "form", "read", "later", "ratio", "seconds", "angle")
    return ", ".join(f"{key} {result[key]}" for key in kept if result.get(key) is not None)


def measure_cluster(data: Data, rounds: int) -> dict[str, Any]:
    """The same data in memory and on clusters, with both forms."""
    found: dict[str, Any] = {
        "shape": [*data.shape, N_CLASSES],
        "dtype": data.dtype,
        "bytes": data.size,
        "fits": [],
    }
    for solver in ("scatter", "krylov"):
        base = f"{solver} in memory"
        contenders = [
            ("memory", {"threads": 1}),
            ("memory", {"threads": 2}),
            *(
                ("cluster", {"workers": workers, "layout": layout})
                for layout in CHUNKS
                for workers in WORKERS
            ),
        ]
        for kind, options in contenders:
            name = base if kind == "memory" else f"{solver} {options['layout']}"
            result = data.run(kind, name, solver=solver, rounds=rounds, **options)
            if "error" not in result:
                result["angle"] = None if kind == "memory" else data.angle(name, base)
                result["seconds"] = float(np.median(result["seconds"]))
            found["fits"].append({"kind": kind, "solver": solver, **options, **result})
            print(f"{kind}, {solver}, {options}: {_summary(result)}", flush=True)
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run everything and print it as it comes; files are removed, whatever happens."""
    size = options.gigabytes * 1e9
    print(environment())
    report: dict[str, Any] = {"environment": environment(), "versions": versions(), "files": []}
    report["versions"]["dask"] = importlib.metadata.version("dask")
    with tempfile.TemporaryDirectory(prefix="slce_xp-", dir=options.folder) as name:
        folder = Path(name)
        if shutil.disk_usage(folder).free < 1.1 * size:
            sys.exit(
                f"--folder must have {format_bytes(1.1 * size)} free; {folder.parent} has not. "
                "Name another one, or fewer --gigabytes"
            )
        for d, dtype, solvers in FILES:
            data = Data(folder, size, d, dtype)
            report["files"] += [measure_file(data, solver) for solver in solvers]
        data = Data(folder, size / CLUSTER_SHARE, CLUSTER_D, CLUSTER_DTYPE)
        report["cluster"] = measure_cluster(data, options.rounds)
    report["aims"] = aims(report)
    return report


def aims(report: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """What was aimed at, what came out, and whether it was reached."""
    failed = []
    runs = [(file, cache, file[cache]) for file in report["files"] for cache in ("cold", "warm")]
    failed += [f"{_shape(f)}, {f['solver']}, {cache}" for f, cache, run in runs if "error" in run]
    fine = [(file, cache, run) for file, cache, run in runs if "error" not in run]
    fits = report["cluster"]["fits"]
    failed += [f"{fit['kind']}, {fit['solver']}" for fit in fits if "error" in fit]
    fits = [fit for fit in fits if fit["kind"] == "cluster" and "error" not in fit]
    rows: list[tuple[str, str, bool]] = []

    def add(label: str, value: float, most: float, told: str) -> None:
        rows.append((label, told, value <= most))

    for file, cache, run in fine:
        if cache == "cold" and run["ratio"] is not None:
            label = f"{_shape(file)}, {file['solver']}: pass / read ≤ {AIMS['ratio']}"
            add(label, run["ratio"], AIMS["ratio"], f"{run['ratio']:.2f}")
    if fine:
        file, _, run = max(fine, key=lambda f: f[2]["memory"]["private"] / f[0]["limit"])
        private = run["memory"]["private"]
        label = f"private memory ≤ {format_bytes(file['limit'])}"
        add(label, private, file["limit"], format_bytes(private))
    angles = [run["angle"] for _, _, run in fine] + [fit["angle"] for fit in fits]
    if angles and None not in angles:
        label = f"largest angle to the fit in memory ≤ {AIMS['angle']:.0e}"
        add(label, max(angles), AIMS["angle"], f"{max(angles):.0e}")
    if fits:
        peak = max(fit["peak"] for fit in fits)
        label = f"Dask client < {format_bytes(AIMS['client'])}"
        add(label, peak, AIMS["client"], format_bytes(peak))
    rows.append(("all fits succeed", ", ".join(failed) or "they do", not failed))
    return rows


# ---------------------------------------------------------------- telling


def _shape(found: dict[str, Any]) -> str:
    n, d, _ = found["shape"]
    return f"{n:,} × {d:,}".replace(",", " ")


def table(report: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        f"Machine: {report['environment']}.",
        "",
        "Files read in blocks, each in a process with a limit of private memory; seconds of one "
        "plain read of the file and of one pass over it, medians of those after the first. Cold "
        "is a file that is not in the page cache, as one larger than memory never is:",
        "",
        "| n × d, classes | file | solver | page cache | plain read | passes | the first "
        "| the others | pass / read | private memory | angle to the fit in memory |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    runs = [(file, cache) for file in report["files"] for cache in ("cold", "warm")]
    lines += ["| " + " | ".join(_file_cells(*run)) + " |" for run in runs]
    cluster = report["cluster"]
    lines += [
        "",
        f"{_shape(cluster)} {cluster['dtype']} ({format_bytes(cluster['bytes'])}) in memory, and "
        "in chunks that the worker processes of a Dask cluster on this machine hold, each with one "
        f"thread (dask {report['versions']['dask']}); the client's peak is that of all its memory, "
        "with scheduler and libraries:",
        "",
        "| where | chunks | solver | passes | seconds | client | angle to the fit in memory |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(_cluster_cells(fit)) + " |" for fit in cluster["fits"]]
    lines += aims_told(report["aims"])
    return "\n".join(lines)


def _file_cells(file: dict[str, Any], cache: str) -> list[str]:
    run = file[cache]
    cells = [
        f"{_shape(file)} {file['dtype']}, {file['shape'][2]}",
        format_bytes(file["bytes"]),
    ]
    if "error" in run:
        return [*cells, file["solver"], cache, f"failed: {run['error']}", *[""] * 6]
    form = "" if file["solver"] == run["form"] else f": {run['form']}"
    return [
        *cells,
        file["solver"] + form,
        cache,
        f"{run['read']:.2f} s ({file['bytes'] / run['read'] / 1e9:.1f} GB/s)",
        str(len(run["passes"])),
        f"{run['passes'][0]:.2f} s",
        "–" if run["later"] is None else f"{run['later']:.2f} s",
        "–" if run["ratio"] is None else f"{run['ratio']:.2f}",
        f"{format_bytes(run['memory']['private'])} of {format_bytes(file['limit'])}",
        _angle(run),
    ]


def _cluster_cells(fit: dict[str, Any]) -> list[str]:
    on_cluster = fit["kind"] == "cluster"
    count, unit = (fit["workers"], "worker") if on_cluster else (fit["threads"], "thread")
    where = "" if on_cluster else "in memory, "
    cells = [f"{where}{count} {unit}{'s' * (count > 1)}", fit.get("layout", "–"), fit["solver"]]
    if "error" in fit:
        return [*cells, "", f"failed: {fit['error']}", "", ""]
    return [
        *cells,
        str(fit["passes"]),
        f"{fit['seconds']:.3g}",
        format_bytes(fit["peak"]) if on_cluster else "–",
        _angle(fit) if on_cluster else "–",
    ]


def _angle(run: dict[str, Any]) -> str:
    return "–" if run["angle"] is None else f"{run['angle']:.0e}"


def main() -> None:
    """Run what was asked for, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4.0,
                        help="size of each file (%(default)s)")  # fmt: skip
    parser.add_argument("--folder", type=Path,
                        help="where to make files, on a disk (default: the system's)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3,
                        help="timed fits on a cluster and in memory (%(default)s)")  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"),
                        help="folder for streaming.json (%(default)s)")  # fmt: skip
    parser.add_argument("--write", type=Path, help="Markdown file whose table to write anew")
    parser.add_argument("--redraw", action="store_true",
                        help="only the table, from the results in --output")  # fmt: skip
    parser.add_argument("--point", help=argparse.SUPPRESS)  # what a process of ours is to measure
    options = parser.parse_args()
    if options.point:
        point = json.loads(options.point)
        print(json.dumps(KINDS[point["kind"]](point)))
        return
    if not memory_of():
        sys.exit("benchmarks.streaming must run on Linux: it needs /proc, RLIMIT_DATA and fadvise")
    target = options.output / "streaming.json"
    if options.redraw:
        report = json.loads(target.read_text(encoding="utf-8"))
    else:
        report = measure(options)
        options.output.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(table(report))
    if options.write:
        write_between_markers(options.write, "streaming", table(report))


if __name__ == "__main__":
    main()
