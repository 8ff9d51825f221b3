"""Sparse X against dense, a million cells, very many classes: ``python -m benchmarks.sparse``.

Bytes are measured by memray in a process of its own for each point; X is made before the watch
begins and does not count. Times of sparse and dense fits of the same data are medians of runs in
turn.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import slce_xp
from benchmarks.datasets import load
from benchmarks.process import in_own_process
from benchmarks.report import aims_told, largest_angle, write_between_markers
from benchmarks.timing import environment, interleaved, versions
from slce_xp._planning.sizes import format_bytes

CELLS = {"n": 1_000_000, "d": 20_000, "n_classes": 20, "density": 0.005}
QUICK_CELLS = {**CELLS, "n": 20_000}
CLASSES = {"n": 40_000, "d": 50, "n_classes": 20_000}
SECONDS = 1800  # for one process


# ---------------------------------------------------------------- problems


def cells(
    n: int, d: int, n_classes: int, density: float, seed: int = 0
) -> tuple[sp.csr_array, np.ndarray]:
    """Log-like counts in float32: a third of a cell's entries are among its class's own genes.

    Made in blocks of rows, so that no more than the matrix itself and a block are held.
    """
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    per_row = int(density * d)
    own = d // (4 * n_classes)  # genes of a class, apart from those of others
    data = np.empty(n * per_row, np.float32)
    indices = np.empty(n * per_row, np.int32)
    for start in range(0, n, 10_000):
        rows = slice(start, min(start + 10_000, n))
        shape = (rows.stop - start, per_row)
        block = (rng.random(shape, dtype=np.float32) ** 2 * d).astype(np.int32)  # some are common
        block[:, ::3] = rng.integers(0, own, block[:, ::3].shape) + own * y[rows, None]
        block.sort(axis=1)
        # The next gene where one was drawn twice: a row names each gene once, in order.
        for j in range(1, per_row):
            np.maximum(block[:, j], block[:, j - 1] + 1, out=block[:, j])
        for j in range(per_row - 1, -1, -1):  # and none beyond the last
            np.minimum(block[:, j], d - per_row + j, out=block[:, j])
        entries = slice(start * per_row, rows.stop * per_row)
        indices[entries] = block.ravel()
        data[entries] = 0.5 + rng.random(block.size, dtype=np.float32)
    indptr = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    return sp.csr_array((data, indices, indptr), shape=(n, d)), y


def worm(folder: Path, dense: bool) -> tuple[Any, np.ndarray]:
    """worm_neuron in float64, dense or as CSR."""
    X, y = load("worm_neuron", folder)
    return (X if dense else sp.csr_array(X)), y


def many_classes(n: int, d: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Dense noise of which every second sample is the only other one of its class."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.permutation(np.arange(n) % n_classes)


def x_bytes(X: Any) -> int:
    """What X itself takes."""
    if sp.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)


# ---------------------------------------------------------------- one point, in its own process


def peak_beside(run: Callable[[], Any]) -> int:
    """Peak by memray, which sees what libraries in C allocate, too."""
    import memray

    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "memray.bin"
        with memray.Tracker(record):
            run()
        return int(memray.FileReader(record).metadata.peak_memory)


def work(point: dict[str, Any]) -> dict[str, Any]:
    """Fit once for the time and once under watch."""
    match point["problem"]:
        case "worm_neuron":
            X, y = worm(Path(point["data"]), point["dense"])
        case "cells":
            X, y = cells(**point["size"])
        case _:
            X, y = many_classes(**point["size"])
    warm = np.unique(y, return_index=True)[1][:2]
    warm = np.concatenate([warm, np.flatnonzero(np.isin(y, y[warm]))[:50]])
    slce_xp.fit(X[warm], y[warm])  # loads what is loaded late
    start = time.perf_counter()
    model = slce_xp.fit(X, y)
    seconds = time.perf_counter() - start
    return {
        "shape": [*X.shape, len(model.classes)],
        "dtype": str(X.dtype),
        "stored": int(X.nnz) if sp.issparse(X) else X.size,
        "x_bytes": x_bytes(X),
        "seconds": seconds,
        "peak": peak_beside(lambda: slce_xp.fit(X, y)),
        "form": model.solver,
        "passes": model.passes,
        "n_positive": model.n_positive,
    }


# ---------------------------------------------------------------- the run


def own_process(point: dict[str, Any]) -> dict[str, Any]:
    return in_own_process("benchmarks.sparse", point, SECONDS)


def compare_with_dense(folder: Path, rounds: int) -> dict[str, Any]:
    """Time, bytes and answer of the same counts as CSR and as a dense matrix."""
    (sparse, y), (dense, _) = worm(folder, False), worm(folder, True)
    models: dict[str, slce_xp.Model] = {}

    def fit(name: str, X: Any) -> Callable[[], None]:
        return lambda: models.update({name: slce_xp.fit(X, y)})

    runs = {"sparse": fit("sparse", sparse), "dense": fit("dense", dense)}
    seconds = interleaved(runs, rounds)
    angle = largest_angle(models["sparse"].components, models["dense"].components)
    del dense
    point = {"problem": "worm_neuron", "data": str(folder)}
    points = {name: own_process({**point, "dense": name == "dense"}) for name in runs}
    return {"seconds": seconds, "angle": angle, "points": points}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run everything and print it as it comes."""
    print(environment())
    report: dict[str, Any] = {"environment": environment(), "versions": versions()}
    if options.data and (Path(options.data) / "worm_neuron.npz").exists():
        report["worm_neuron"] = compare_with_dense(Path(options.data), options.rounds)
    else:
        print("worm_neuron.npz is not in the data folder, left out")
    size = QUICK_CELLS if options.quick else CELLS
    report["cells"] = own_process({"problem": "cells", "size": size})
    report["many classes"] = own_process({"problem": "many classes", "size": CLASSES})
    report["aims"] = aims(report)
    return report


def aims(report: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """What was aimed at, what came out, and whether it was reached."""
    rows = []
    worm = report.get("worm_neuron")
    if worm and not any("error" in point for point in worm["points"].values()):
        speed = worm["seconds"]["dense"] / worm["seconds"]["sparse"]
        # With X itself: beside it neither fit takes much.
        whole = [sum(worm["points"][name][key] for key in ("peak", "x_bytes"))
                 for name in ("sparse", "dense")]  # fmt: skip
        rows += [
            ("worm_neuron: dense / sparse seconds ≥ 5", f"{speed:.1f}", speed >= 5),
            ("worm_neuron: sparse / dense bytes, X included, < 0.1",
             f"{whole[0] / whole[1]:.3f}", whole[0] / whole[1] < 0.1),
            ("worm_neuron: largest angle ≤ 1e-6", f"{worm['angle']:.0e}", worm["angle"] <= 1e-6),
        ]  # fmt: skip
    many = report["many classes"]
    if "error" not in many:
        share = many["peak"] / many["x_bytes"]
        rows.append(("20 000 classes: bytes in addition to X / X < 10", f"{share:.2f}", share < 10))
    return rows


# ---------------------------------------------------------------- telling


def table(report: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        f"Machine: {report['environment']}.",
        "",
        "| problem | n × d, classes | stored | X | form | passes | seconds | added |",
        "|---|---|---|---|---|---|---|---|",
    ]
    worm = report.get("worm_neuron", {"points": {}})
    points = {f"worm_neuron, {name}": point for name, point in worm["points"].items()}
    for name, point in points.items():
        if "error" not in point:  # medians of runs in turn, not the single one beside the peak
            point["seconds"] = worm["seconds"][name.rpartition(" ")[2]]
    points |= {"synthetic cells": report["cells"], "20 000 classes": report["many classes"]}
    for name, point in points.items():
        if "error" in point:
            lines.append(f"| {name} | failed: {point['error']} | | | | | | |")
            continue
        n, d, n_classes = point["shape"]
        cells = [
            f"{name} ({point['dtype']})",
            f"{n:,} × {d:,}, {n_classes:,}".replace(",", " ").replace("  ", ", "),
            f"{point['stored'] / (n * d):.2%}",
            format_bytes(point["x_bytes"]),
            point["form"],
            str(point["passes"] or "–"),
            f"{point['seconds']:.3g}",
            f"{format_bytes(point['peak'])}, {point['peak'] / point['x_bytes']:.2f} × X",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += aims_told(report["aims"])
    return "\n".join(lines)


def main() -> None:
    """Run what was asked for, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("SLCE_XP_DATA"),
                        help="folder with worm_neuron.npz (default: $SLCE_XP_DATA)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (%(default)s)")
    parser.add_argument("--quick", action="store_true",
                        help="a fiftieth of the million cells")  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"),
                        help="folder for sparse.json (%(default)s)")  # fmt: skip
    parser.add_argument("--write", type=Path, help="Markdown file whose table to write anew")
    parser.add_argument("--redraw", action="store_true",
                        help="only the table, from the results in --output")  # fmt: skip
    parser.add_argument("--point", help=argparse.SUPPRESS)  # what a process of ours is to measure
    options = parser.parse_args()
    if options.point:
        print(json.dumps(work(json.loads(options.point))))
        return
    target = options.output / "sparse.json"
    if options.redraw:
        report = json.loads(target.read_text(encoding="utf-8"))
    else:
        report = measure(options)
        options.output.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(table(report))
    if options.write:
        write_between_markers(options.write, "sparse", table(report))


if __name__ == "__main__":
    main()
