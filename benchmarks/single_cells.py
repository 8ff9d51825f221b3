"""SLCE against scanpy's PCA on log-normalised cells: ``python -m benchmarks.single_cells``.

Needs scanpy. Cells are simulated as CSR in float32: 20 000 genes, of which 2 000 are marked as
highly variable, and unequal types. Both methods take the marked genes from the same AnnData. Times
are CPU times of runs in turn, peaks are those of NumPy's and SciPy's arrays in addition to X.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import scanpy as sc
import scipy.sparse as sp

import slce_xp.anndata
from benchmarks.report import aims_told, write_between_markers
from benchmarks.timing import environment, interleaved

# Cells and types.
PROBLEMS = [(10_000, 8), (10_000, 50), (50_000, 16), (100_000, 30), (200_000, 60)]
GENES, MARKED = 20_000, 2_000
FEW = 5  # components


def simulate(n: int, n_types: int, seed: int = 0) -> anndata.AnnData:
    """Poisson counts of types of unequal sizes, normalised to 10 000 and log-transformed."""
    rng = np.random.default_rng(seed)
    shares = 0.9 * rng.dirichlet(np.ones(n_types)) + 0.1 / n_types
    types = np.concatenate([np.arange(n_types), rng.choice(n_types, n - n_types, p=shares)])
    marked = rng.permutation(GENES) < MARKED
    rates = np.exp(rng.normal(-3.6, 1.6, GENES)) * np.ones((n_types, 1))
    rates[:, marked] *= np.exp(rng.normal(0.0, 0.7, (n_types, MARKED)))
    blocks = []
    for start in range(0, n, 2_000):
        part = types[start : start + 2_000]
        depth = rng.lognormal(0.0, 0.4, (len(part), 1))
        counts = rng.poisson(rates[part] * depth).astype(np.float32)
        counts *= 1e4 / counts.sum(axis=1, keepdims=True)
        blocks.append(sp.csr_matrix(np.log1p(counts)))
    adata = anndata.AnnData(sp.vstack(blocks, format="csr"))
    adata.obs["cell_type"] = np.char.add("type ", types.astype(str))
    adata.var["highly_variable"] = marked
    return adata


def peak_of(function: Any) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def measure(n: int, n_types: int, rounds: int) -> dict[str, Any]:
    """Times of both with all components and with few, and the peak of ours with all."""
    adata = simulate(n, n_types)
    x_bytes = adata.X.data.nbytes + adata.X.indices.nbytes + adata.X.indptr.nbytes
    row: dict[str, Any] = {"n": n, "types": n_types, "x_bytes": x_bytes}
    for name, k in (("all", n_types - 1), ("few", FEW)):
        runs = {
            "pca": lambda k=k: sc.pp.pca(adata, n_comps=k),
            "slce": lambda k=k: slce_xp.anndata.slce(adata, n_comps=k),
        }
        row[name] = interleaved(runs, rounds, clock=time.process_time)
    model = slce_xp.anndata.slce(adata, return_info=True)
    row |= {"form": model.solver, "passes": model.passes}
    row["peak"] = peak_of(lambda: slce_xp.anndata.slce(adata))
    return row


def aims(rows: list[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    """What was aimed at, what came out, and whether it was reached."""
    ratios = {name: [r[name]["slce"] / r[name]["pca"] for r in rows] for name in ("all", "few")}
    room = max((r["peak"] - 32 * MARKED**2) / r["x_bytes"] for r in rows)
    found = [
        ("all components / PCA, median ≤ 3", statistics.median(ratios["all"]), 3.0),
        ("all components / PCA, worst ≤ 8", max(ratios["all"]), 8.0),
        (f"{FEW} components / PCA, worst ≤ 2", max(ratios["few"]), 2.0),
        ("(peak − 32·d² bytes) / X ≤ 0.3", room, 0.3),
    ]
    return [(text, f"{value:.2f}", value <= limit) for text, value, limit in found]


def table(report: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        f"Machine: {report['environment']}.",
        "",
        f"| cells | types | form | passes | × PCA | × PCA, {FEW} components | peak / X |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        times = [f"{row[name]['slce'] / row[name]['pca']:.2f}" for name in ("all", "few")]
        share = f"{row['peak'] / row['x_bytes']:.2f}"
        start = [f"{row['n']:,}".replace(",", " "), str(row["types"]), row["form"]]
        cells = [*start, str(row["passes"] or "–"), *times, share]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines + aims_told(aims(report["rows"])))


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (%(default)s)")
    parser.add_argument("--most", type=int, default=200_000, help="most cells (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"),
                        help="folder for single_cells.json (%(default)s)")  # fmt: skip
    parser.add_argument("--write", type=Path, help="Markdown file whose table to write anew")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for n, n_types in PROBLEMS:
        if n <= options.most:
            rows.append(measure(n, n_types, options.rounds))
            print(rows[-1], flush=True)
    report = {"environment": f"{environment()}, scanpy {sc.__version__}", "rows": rows}
    (options.output / "single_cells.json").write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    if options.write:
        write_between_markers(options.write, "single_cells", table(report))


if __name__ == "__main__":
    main()
