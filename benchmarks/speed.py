"""Time to a certified answer, ours against others: ``python -m benchmarks.speed``.

Every contender runs in turn in one process; medians and ratios of one run are what counts. A
contender that solves our problem is timed only if the residual of its positive components is
small, computed here from X and independent of what it says of itself.
"""

from __future__ import annotations

import argparse
import json
import os
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse.linalg
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import slce_xp
from benchmarks.datasets import MissingDataError, load
from benchmarks.problems import DATA_SETS, SYNTHETIC, synthetic
from benchmarks.report import exponent, largest_angle, write_between_markers
from benchmarks.timing import CLOCKS, environment, interleaved, versions
from slce_xp import _backend

KRYLOV_TOL = 1e-8  # the backward error whose passes are counted
RESIDUAL = {"float64": 1e-5, "float32": 1e-4}  # no time for an answer worse than this
LARGE = 10_000_000  # bytes from which a set counts as large
SEPARATION = "slce separation"
# Names of both criteria: with all components, and with two, for which separation has to search.
SEPARATIONS = {
    "": ("slce auto", SEPARATION),
    ", k = 2": ("slce auto, k = 2", f"{SEPARATION}, k = 2"),
}
TIMES = {"wall": "those of the wall clock", "cpu": "processor time: the machine was not idle"}
MOST_SEPARATION = {"tall": 1.3, "wide": 1.5}  # its time over that of the default criterion


# ---------------------------------------------------------------- the problem, independently


class Reference:
    """M applied without forming it, in float64 and by another road than the library's."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.X = X
        self.mean = X.mean(axis=0, dtype=np.float64)
        _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        order = np.argsort(codes, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        # Sums class by class over sorted rows, in slices of columns to keep the copy small.
        step = max(1, 2**25 // X.shape[0])
        columns = range(0, X.shape[1], step)
        parts = [
            np.add.reduceat(X[:, j : j + step][order].astype(np.float64), starts, axis=0)
            for j in columns
        ]
        sums = np.concatenate(parts, axis=1)
        self.B = (sums / counts[:, None] - self.mean) * np.sqrt(counts)[:, None]
        self._norm: float | None = None

    def apply(self, A: np.ndarray) -> np.ndarray:
        """M·A."""
        scores = (self.X @ A.astype(self.X.dtype)).astype(np.float64) - self.mean @ A
        total = (self.X.T @ scores.astype(self.X.dtype)).astype(np.float64)
        total -= np.outer(self.mean, scores.sum(axis=0))
        return 2.0 * (self.B.T @ (self.B @ A)) - total

    @property
    def norm(self) -> float:
        """‖M‖ to a few digits, from below: twenty steps of the power method."""
        if self._norm is None:
            v = np.random.default_rng(1).standard_normal((self.X.shape[1], 1))
            for _ in range(20):
                v = self.apply(v / np.linalg.norm(v))
            self._norm = float(np.linalg.norm(v))
        return self._norm

    def residual(self, components: np.ndarray, values: np.ndarray) -> float:
        """The largest residual among positive components, relative to ‖M‖."""
        positive = values > 1e-6 * values.max(initial=0.0)
        A = components[positive].T.astype(np.float64)
        if A.shape[1] == 0:
            return 0.0
        return float(np.linalg.norm(self.apply(A) - A * values[positive], axis=0).max() / self.norm)


# ---------------------------------------------------------------- contenders


def naive(X: np.ndarray, y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The paper's route: C̃, the d × d matrix and all its eigenvectors."""
    X = X - X.mean(axis=0)
    C = np.empty_like(X)
    for label in np.unique(y):
        C[y == label] = X[y == label].mean(axis=0)
    values, vectors = np.linalg.eigh(X.T @ C + C.T @ X - X.T @ X)
    return vectors[:, ::-1][:, :k].T, values[::-1][:k]


def eigsh(X: np.ndarray, y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """ARPACK on the same implicit operator."""
    reference = Reference(X, y)
    d = X.shape[1]
    operator = scipy.sparse.linalg.LinearOperator(
        (d, d), matvec=lambda v: reference.apply(v.reshape(-1, 1))[:, 0], dtype=np.float64
    )
    start = reference.B.sum(axis=0) + 1e-3
    try:
        values, vectors = scipy.sparse.linalg.eigsh(operator, k=k, which="LA", tol=1e-8, v0=start)
    except scipy.sparse.linalg.ArpackNoConvergence as partial:  # it has the converged ones
        values, vectors = partial.eigenvalues, partial.eigenvectors
    order = np.argsort(-values)
    return vectors[:, order].T, values[order]


class Setting:
    """One problem on one backend."""

    def __init__(self, X: np.ndarray, y: np.ndarray, backend: str, device: str | None) -> None:
        self.host, self.y = X, y
        place = _backend.find_place(backend, device)
        self.X = _backend.move(X, place)
        self.backend = backend
        self.k = min(len(np.unique(y)) - 1, X.shape[1])
        n_pca = min(self.k, *X.shape)
        self.answers: dict[str, Any] = {}
        self.contenders: dict[str, Callable[[], None]] = {
            "slce auto": lambda: self._ours("slce auto", "auto"),
            "sklearn PCA": lambda: PCA(n_pca).fit(X),
        }

    def add_forms(self) -> None:
        """Each of our forms where it is not hopeless."""
        n, d = self.host.shape
        auto = slce_xp.plan(n, d, len(np.unique(self.y)), dtype=self.host.dtype.name)
        for form in ("scatter", "gram", "krylov"):
            size = {"scatter": d, "gram": n, "krylov": 0}[form]
            if size <= 2500 and (form != "krylov" or auto.form == form or n * d < 10**8):
                name = f"slce {form}"
                self.contenders[name] = lambda name=name, form=form: self._ours(name, form)
        if min(n, d) <= 2500 and len(np.unique(self.y)) < 1000:  # it needs the formed matrix
            separate = partial(slce_xp.fit, self.X, self.y, criterion="separation")
            self.contenders[SEPARATION] = separate
            if self.k > 2:
                plain, name = SEPARATIONS[", k = 2"]
                self.contenders[plain] = partial(slce_xp.fit, self.X, self.y, 2)
                self.contenders[name] = partial(separate, n_components=2)

    def add_others(self, *, slow: bool) -> None:
        """Other solvers of our problem and other methods, where they fit into time."""
        X, y, k = self.host, self.y, self.k
        n, d = X.shape
        if min(n, d) ** 2 * max(n, d) < 2e11 and len(np.unique(y)) < 1000:
            self.contenders["sklearn LDA (svd)"] = lambda: LinearDiscriminantAnalysis().fit(X, y)
        if n * d * 8 < 2e8 and k < 100:
            self.contenders["scipy eigsh"] = lambda: self._keep("scipy eigsh", eigsh(X, y, k))
        if d <= 1100 or slow:
            self.contenders["naive"] = lambda: self._keep("naive", naive(X, y, k))
        if self.backend == "torch":
            self._add_torch()

    def _add_torch(self) -> None:
        import torch

        X, k, d = self.X, self.k, self.host.shape[1]
        mean = X.mean(dim=0)
        reference = Reference(self.host, self.y)
        B = torch.asarray(reference.B, dtype=X.dtype, device=X.device)

        def lobpcg() -> None:
            torch.manual_seed(0)
            M = 2.0 * (B.T @ B) - (X - mean).T @ (X - mean)
            values, vectors = torch.lobpcg(M, k=k, largest=True, niter=200, tol=1e-9)
            self._keep("torch.lobpcg", (vectors.T.cpu().numpy(), values.cpu().numpy()))

        self.contenders["torch.pca_lowrank"] = lambda: torch.pca_lowrank(X, q=k, niter=4)
        if 3 * k < d <= 2500:
            self.contenders["torch.lobpcg"] = lobpcg

    def _ours(self, name: str, solver: str) -> None:
        self.answers[name] = slce_xp.fit(self.X, self.y, solver=solver)

    def _keep(self, name: str, answer: tuple[np.ndarray, np.ndarray]) -> None:
        self.answers[name] = answer

    def synchronise(self) -> None:
        """Wait for the device."""
        if self.backend == "cupy":
            import cupy

            cupy.cuda.get_current_stream().synchronize()
        elif self.backend == "torch" and self.X.is_cuda:
            import torch

            torch.cuda.synchronize()

    def pair(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Components and eigenvalues of a contender, on the host."""
        answer = self.answers[name]
        if isinstance(answer, slce_xp.Model):
            model = answer.to("numpy")
            return model.components.astype(np.float64), model.eigenvalues.astype(np.float64)
        return answer


def race(name: str, X: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> dict[str, Any]:
    """All contenders on one problem: medians, ratios to PCA, residuals, angles."""
    setting = Setting(X, y, options.backend, options.device)
    setting.add_forms()
    if options.others:
        setting.add_others(slow=options.naive and name == "arcene")
    slow = {
        c: setting.contenders.pop(c)
        for c in ("naive",)
        if X.shape[1] > 1100 and c in setting.contenders
    }
    rounds = options.rounds if X.nbytes < 3e8 else min(options.rounds, 3)
    rounds = rounds * 3 if X.nbytes < LARGE else rounds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LDA on collinear data
        clock = CLOCKS[options.clock]
        times = interleaved(setting.contenders, rounds, setting.synchronise, clock=clock)
        for contender, run in slow.items():  # minutes: once
            start = clock()
            run()
            times[contender] = clock() - start
    reference = Reference(X, y)
    bound = RESIDUAL[X.dtype.name]
    residuals = {c: reference.residual(*setting.pair(c)) for c in setting.answers}
    dense = next(
        (c for c in ("slce scatter", "slce gram", "naive") if residuals.get(c, 1) <= bound), None
    )
    angle = None
    auto = setting.answers["slce auto"].to("numpy")
    if dense and auto.n_positive:
        exact = setting.pair(dense)[0][: auto.n_positive]
        angle = largest_angle(auto.components[: auto.n_positive].astype(np.float64), exact)
    wide = (
        slce_xp.fit(setting.X, y, "positive", solver="krylov", tol=KRYLOV_TOL)
        if len(auto.classes) < 100
        else None
    )
    return {
        "problem": name,
        "shape": [*X.shape, len(auto.classes)],
        "dtype": X.dtype.name,
        "bytes": X.nbytes,
        "form": auto.solver,
        "positive": auto.n_positive,
        "passes": auto.passes,
        "krylov_passes": wide.passes if wide else None,
        "krylov_residual": wide.residual if wide else None,
        "seconds": {c: t for c, t in times.items() if residuals.get(c, 0.0) <= bound},
        "refused": {c: residuals[c] for c in times if residuals.get(c, 0.0) > bound},
        "residuals": residuals,
        "angle": angle,
    }


def show(result: dict[str, Any]) -> None:
    n, d, n_classes = result["shape"]
    print(
        f"\n{result['problem']}: {n} × {d}, {n_classes} classes, {result['dtype']}, "
        f"{result['bytes'] / 1e6:.0f} MB; auto is {result['form']}, {result['positive']} positive, "
        f"krylov takes {result['krylov_passes']} passes to {KRYLOV_TOL:.0e}"
    )
    pca = result["seconds"]["sklearn PCA"]
    for name, seconds in sorted(result["seconds"].items(), key=lambda item: item[1]):
        residual = result["residuals"].get(name)
        note = "" if residual is None else f"  residual {residual:.0e}"
        print(f"  {name:20} {seconds:10.4f} s  {seconds / pca:8.2f} × PCA{note}")
    for name, residual in result["refused"].items():
        print(f"  {name:20} no time: residual {residual:.0e}")
    if result["angle"] is not None:
        print(f"  largest angle to the dense answer {result['angle']:.0e}")


# ---------------------------------------------------------------- scaling


def scaling(quick: bool) -> dict[str, Any]:
    """Time and bytes of the matrix-free form against n, d and K, one at a time."""
    factor = 1 if quick else 2
    base = {"n": 4000 * factor, "d": 4000 * factor, "K": 8}
    grids = {
        "n": [base["n"] * f // 4 for f in (1, 2, 4, 8)],
        "d": [base["d"] * f // 4 for f in (1, 2, 4, 8)],
        "K": [4, 8, 16, 32],
    }
    out: dict[str, Any] = {}
    for axis, grid in grids.items():
        points = []
        for value in grid:
            size = {**base, axis: value}
            X, y = synthetic(size["n"], size["d"], size["K"])

            def run(X: np.ndarray = X, y: np.ndarray = y) -> None:
                slce_xp.fit(X, y, solver="krylov")

            seconds = interleaved({"krylov": run}, 3)["krylov"]
            tracemalloc.start()
            model = slce_xp.fit(X, y, solver="krylov")
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            points.append(
                {
                    "value": value,
                    "seconds": seconds,
                    "peak": peak,
                    "x": X.nbytes,
                    "passes": model.passes,
                    "plan": model.plan.bytes,
                }
            )
        large = [p for p in points if p["x"] >= 50e6]
        sizes = [p["value"] for p in large]
        out[axis] = {
            "points": points,
            "exponent of time per pass": exponent(
                sizes, [p["seconds"] / p["passes"] for p in large]
            ),
            "exponent of time": exponent(sizes, [p["seconds"] for p in large]),
            "exponent of bytes": exponent(sizes, [p["peak"] for p in large]),
        }
    return out


def draw_scaling(result: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = {"n": "samples", "d": "features", "K": "classes"}
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), sharey="row", sharex="col")
    for column, (axis, values) in enumerate(result.items()):
        points = values["points"]
        x = [p["value"] for p in points]
        top, bottom = axes[0, column], axes[1, column]
        top.loglog(x, [p["seconds"] for p in points], "o-", color="#0072B2")
        top.set_title(f"{names[axis]}: time ∝ {axis}$^{{{values['exponent of time']:.2f}}}$")
        bottom.loglog(x, [p["x"] / 1e6 for p in points], "--", color="#777777", label="X itself")
        bottom.loglog(x, [p["peak"] / 1e6 for p in points], "o-", color="#D55E00", label="added")
        bottom.set_xlabel(f"{axis}, number of {names[axis]}")
        bottom.set_xticks(x, [f"{value:,}".replace(",", " ") for value in x])
        bottom.minorticks_off()
        top.minorticks_off()
    for axis, unit in ((axes[0, 0], "s"), (axes[1, 0], "MB")):
        axis.yaxis.set_major_formatter(lambda value, _, unit=unit: f"{value:g} {unit}")
    axes[0, 0].set_yticks([0.3, 0.5, 1.0, 2.0])
    axes[1, 0].set_yticks([10, 30, 100, 300, 1000])
    axes[0, 0].set_ylabel("time")
    axes[1, 0].set_ylabel("memory")
    axes[1, 0].legend(loc="center right")
    figure.suptitle("Matrix-free SLCE: time and memory against the size of the data")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


# ---------------------------------------------------------------- bars


def bars(
    results: list[dict[str, Any]], scales: dict[str, Any] | None
) -> list[tuple[str, str, bool]]:
    """What was aimed at, what came out, and whether it was reached."""
    rows = []

    def ratio(r: dict[str, Any], other: str) -> float | None:
        seconds = r["seconds"]
        return (
            seconds["slce auto"] / seconds[other]
            if other in seconds and "slce auto" in seconds
            else None
        )

    for r in results:
        n, d, _ = r["shape"]
        value = ratio(r, "sklearn PCA")
        if value is None:
            continue
        limit = 1.0 if r["bytes"] < LARGE or n > 3 * d else 0.5
        rows.append((f"auto / PCA ≤ {limit}: {r['problem']}", f"{value:.2f}", value <= limit))
    for r in results:
        if r["problem"] in ("arcene", "tcga_luad", "PANCAN shape"):
            value = ratio(r, "sklearn LDA (svd)")
            if value is not None:
                rows.append((f"auto / LDA ≤ 0.2: {r['problem']}", f"{value:.2f}", value <= 0.2))
        if r["problem"] == "arcene" and "naive" in r["seconds"]:
            value = r["seconds"]["naive"] / r["seconds"]["slce auto"]
            rows.append(("naive / auto ≥ 100: arcene", f"{value:.0f}", value >= 100))
    for r in results:
        limit = MOST_SEPARATION["tall" if r["shape"][0] > r["shape"][1] else "wide"]
        for components, value in separation_ratios(r["seconds"]).items():
            label = f"separation / auto ≤ {limit}: {r['problem']}{components}"
            rows.append((label, f"{value:.2f}", value <= limit))
    real = [r for r in results if r["problem"] in DATA_SETS and r["krylov_passes"] is not None]
    for r in real:
        fine = r["krylov_passes"] <= 12
        rows.append((f"krylov passes to 1e-8 ≤ 12: {r['problem']}", str(r["krylov_passes"]), fine))
    rows.extend(
        (f"angle ≤ 1e-6: {r['problem']}", f"{r['angle']:.0e}", r["angle"] <= 1e-6)
        for r in results
        if r["angle"] is not None and r["dtype"] == "float64"
    )
    for axis in ("n", "d") if scales else ():
        value = scales[axis]["exponent of time"]
        rows.append((f"exponent of time in {axis} ≤ 1.1", f"{value:.2f}", value <= 1.1))
    return rows


def separation_ratios(seconds: dict[str, float]) -> dict[str, float]:
    """The time of separation over that of the default criterion, by components."""
    return {
        components: seconds[separation] / seconds[plain]
        for components, (plain, separation) in SEPARATIONS.items()
        if separation in seconds
    }


def markdown_table(report: dict[str, Any]) -> str:
    """The results as Markdown: times of ours, ratios to others, and what was not reached."""
    lines = [
        f"Machine: {report['environment']}. Times are {TIMES[report.get('clock', 'wall')]}.",
        "",
        "| problem | n × d, classes | form | seconds | × PCA | × LDA | separation | passes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in report["results"]:
        n, d, n_classes = r["shape"]
        seconds = r["seconds"]
        ours = seconds.get("slce auto")
        if ours is None:
            continue
        cells = [
            r["problem"] + (" (float32)" if r["dtype"] == "float32" else ""),
            f"{n} × {d}, {n_classes}",
            r["form"],
            f"{ours:.2g}",
            f"{ours / seconds['sklearn PCA']:.2f}",
            f"{ours / seconds['sklearn LDA (svd)']:.2f}" if "sklearn LDA (svd)" in seconds else "–",
            ", ".join(f"{value:.2f}" for value in separation_ratios(seconds).values()) or "–",
            str(r["krylov_passes"]) if r["krylov_passes"] and r["dtype"] == "float64" else "–",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    missed = [f"{label} (got {value})" for label, value, fine in report["bars"] if not fine]
    reached = [f"{label}: {value}" for label, value, fine in report["bars"] if fine]
    other = [t for t in reached if t.startswith(("naive", "krylov bytes", "exponent"))]
    lines += ["", "Also measured: " + "; ".join(other) + "."] if other else []
    lines += ["", "Targets missed in this run: " + ("; ".join(missed) if missed else "none") + "."]
    return "\n".join(lines)


def memory_bar() -> tuple[str, str, bool]:
    """Bytes of the matrix-free form in addition to X, on the PANCAN shape."""
    X, y = synthetic(*SYNTHETIC["PANCAN shape"])
    tracemalloc.start()
    slce_xp.fit(X, y, solver="krylov")
    share = tracemalloc.get_traced_memory()[1] / X.nbytes
    tracemalloc.stop()
    return "krylov bytes / X ≤ 0.15: PANCAN shape", f"{share:.3f}", share <= 0.15


def main() -> None:
    """Run what was asked for and write a table, JSON and a picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("SLCE_XP_DATA"),
                        help="folder of .npz data sets (default: $SLCE_XP_DATA)")  # fmt: skip
    parser.add_argument("--only", nargs="*", help="names of problems")
    parser.add_argument("--backend", default="numpy", help="backend of our fits (%(default)s)")
    parser.add_argument("--device", help="its device")
    parser.add_argument("--clock", choices=CLOCKS, default="wall",
                        help="cpu: processor time, for a machine that is not idle")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (%(default)s)")
    parser.add_argument("--no-naive", dest="naive", action="store_false",
                        help="leave out the naive route on arcene: minutes")  # fmt: skip
    parser.add_argument("--no-others", dest="others", action="store_false",
                        help="compare with PCA only")  # fmt: skip
    parser.add_argument("--no-scaling", dest="scaling", action="store_false")
    parser.add_argument("--quick", action="store_true", help="smaller scaling part")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"),
                        help="folder for speed.json and scaling.png (%(default)s)")  # fmt: skip
    parser.add_argument("--write", type=Path, help="Markdown file whose table to write anew")
    parser.add_argument("--redraw", action="store_true",
                        help="only table and picture, from the results in --output")  # fmt: skip
    options = parser.parse_args()
    if options.redraw:
        report = json.loads((options.output / "speed.json").read_text(encoding="utf-8"))
    else:
        report = measure(options)
        options.output.mkdir(parents=True, exist_ok=True)
        target = options.output / "speed.json"
        target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(f"\nwrote {target}")
    if options.write:
        write_between_markers(options.write, "speed", markdown_table(report))
    if report["scaling"]:
        draw_scaling(report["scaling"], options.output / "scaling.png")
        print(f"wrote {options.output / 'scaling.png'}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run what was asked for and print it."""
    print(environment())
    results = []
    for name in DATA_SETS:
        if options.only and name not in options.only:
            continue
        try:
            X, y = load(name, options.data, download=False)
        except MissingDataError as error:
            print(f"\n{name} is left out. {error}")
            continue
        results.append(race(name, X, y, options))
        show(results[-1])
    for name, size in SYNTHETIC.items():
        if not options.only or name in options.only:
            results.append(race(name, *synthetic(*size), options))
            show(results[-1])
    scales = scaling(options.quick) if options.scaling else None
    for axis, values in (scales or {}).items():
        print(f"\nkrylov against {axis}: " + ", ".join(
            f"{key} {value:.2f}" for key, value in values.items() if key != "points"
        ))  # fmt: skip
        for p in values["points"]:
            print(f"  {axis} = {p['value']:>6}: {p['seconds']:.3f} s, {p['passes']} passes, "
                  f"{p['peak'] / 1e6:.0f} MB beside {p['x'] / 1e6:.0f} MB")  # fmt: skip
    table = bars(results, scales)
    if not options.only:
        table.append(memory_bar())
    print("\nwhat was aimed at")
    for label, value, fine in table:
        print(f"  {'reached' if fine else 'MISSED ':7}  {value:>8}  {label}")
    return {
        "environment": environment(),
        "versions": versions(),
        "clock": options.clock,
        "results": results,
        "scaling": scales,
        "bars": [[label, value, bool(fine)] for label, value, fine in table],
    }


if __name__ == "__main__":
    main()
