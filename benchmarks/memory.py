"""Bytes in addition to X and time, against n, d, K, k and dtype: ``python -m benchmarks.memory``.

On the CPU each point is a process of its own, watched by memray, which sees what C++ libraries
allocate, too. X is made and every contender runs once before the watch begins: X, code that is
loaded late, compiled programs and the buffers that a BLAS keeps are not counted.

CuPy is watched by a hook of its memory pool, Torch on CUDA by its allocator. Where no GPU is,
CuPy may run under a CPU emulation (if `emucuda` can be imported), and Torch on fake tensors
(see `benchmarks.fake_cuda`): both give bytes, not times. There only the device's bytes count,
not those of the small problems that the fit solves on the host.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import slce_xp
from benchmarks.problems import synthetic
from benchmarks.report import exponent, write_between_markers
from benchmarks.timing import environment, interleaved, versions
from slce_xp import _backend
from slce_xp._planning import plan as _plan
from slce_xp._planning.problem import ITEMSIZES, Problem
from slce_xp._planning.sizes import format_bytes
from slce_xp.core._solution import FORMS

ON_CPU = ("numpy", "torch", "jax")
ON_GPU = ("cupy", "torch-cuda")
FAKE = "torch-fake-cuda"
NAMES = {
    "numpy": "NumPy",
    "torch": "Torch",
    "jax": "JAX",
    "cupy": "CuPy",
    "torch-cuda": "Torch, CUDA",
    FAKE: "Torch, fake CUDA",
}
OTHERS = ("PCA", "LDA", "naive")  # of scikit-learn, and the d × d route of the paper
SECONDS = 90  # for one process on the CPU
CAPS = {"bytes": 2e9, "flops": 4e11}  # for a contender on the CPU, estimated


# ---------------------------------------------------------------- points


@dataclass(frozen=True)
class Point:
    """One contender at one size."""

    backend: str
    contender: str  # "auto", a form of ours, or another method
    n: int
    d: int
    n_classes: int = 8
    n_components: int | None = None
    dtype: str = "float32"

    @property
    def plan(self) -> _plan.Plan:
        """Our plan for this size."""
        solver = self.contender if self.contender in FORMS else "auto"
        k = self.n_components or min(self.n_classes - 1, self.d)
        problem = Problem(self.n, self.d, self.n_classes, k, self.dtype)
        if self.backend in (FAKE, *ON_GPU):
            problem = replace(problem, sums=self.dtype, accelerated=True)
        return _plan.choose(problem, _plan.Limits(), solver)

    @property
    def size(self) -> tuple:
        """All but backend and contender."""
        return (self.n, self.d, self.n_classes, self.n_components, self.dtype)

    @property
    def x_bytes(self) -> int:
        """Of X itself."""
        return self.n * self.d * ITEMSIZES[self.dtype]

    def is_feasible(self) -> bool:
        """Whether it stays below the caps."""
        if self.backend == FAKE:
            return True
        small, large = sorted((self.n, self.d))
        n_bytes, flops = {
            "PCA": (3 * self.x_bytes, self.n * self.d * small),
            "LDA": (6 * self.x_bytes, 30.0 * large * small**2),
            "naive": (4 * self.x_bytes + 16 * self.d**2, 9.0 * self.d**3 + 3 * self.n * self.d**2),
        }.get(self.contender, (self.plan.bytes, self.plan.flops))
        return n_bytes <= CAPS["bytes"] and flops <= CAPS["flops"]


def ours(backend: str, form: str, *size: Any) -> Point:
    """A fit of ours; "auto" under the name of the form that it takes."""
    point = Point(backend, form, *size)
    if form == "auto":
        return Point(backend, point.plan.form, *size)
    return point


FIXED = 1000  # the dimension that does not vary
GRID = (300, 1000, 3000, 10_000, 30_000)
FAR = (100_000, 1_000_000)
N_LINE = [(n, FIXED) for n in GRID]
D_LINE = [(FIXED, d) for d in GRID]
CLASSES = [(3000, FIXED, K) for K in (2, 32, 128, 512)]
COMPONENTS = [(3000, FIXED, 8, k) for k in (1, 50, 500)]
DOUBLE = [(3000, FIXED, 8, None, "float64"), (FIXED, 3000, 8, None, "float64")]
PANCAN = (801, 20_531, 5)
HUGE = [(1_000_000, 20_531, 5), (10_000, 1_000_000, 5)]


def points(backend: str, quick: bool) -> list[Point]:
    """What to measure on one backend."""
    forms = ("auto", *FORMS)
    if quick:
        sizes = [(1500, FIXED), PANCAN]
        wanted = [ours(backend, form, *size) for size in sizes for form in ("auto", "krylov")]
    else:
        sizes = [*N_LINE, *D_LINE]
        if backend == FAKE:
            sizes += [(n, FIXED) for n in FAR] + [(FIXED, d) for d in FAR]
        wanted = [ours(backend, form, *size) for size in (*sizes, PANCAN) for form in forms]
        wanted += [ours(backend, "auto", *size) for size in DOUBLE]
        if backend in ("numpy", FAKE):  # the other libraries would tell the same
            wanted += [ours(backend, "auto", *size) for size in (*CLASSES, *COMPONENTS)]
        if backend == FAKE:
            wanted += [ours(backend, "auto", *size) for size in HUGE]
        if backend == "numpy":
            wanted += [Point(backend, other, *s) for s in (*sizes, PANCAN) for other in OTHERS]
    if backend == "cupy" and importlib.util.find_spec("cuml"):
        wanted += [Point(backend, "cuML PCA", *size) for size in (*sizes, PANCAN)]
    return [point for point in dict.fromkeys(wanted) if point.is_feasible()]


# ---------------------------------------------------------------- measuring, in its own process


def contender(point: Point, X: Any, y: np.ndarray) -> Callable[[], Any]:
    """What to run. It returns once the device is done."""
    k = point.n_components or min(point.n_classes - 1, *X.shape)
    match point.contender:
        case "PCA":
            from sklearn.decomposition import PCA

            return lambda: PCA(k).fit(X)
        case "LDA":
            from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

            return lambda: LinearDiscriminantAnalysis(n_components=k).fit(X, y)
        case "naive":
            from benchmarks.speed import naive

            return lambda: naive(X, y, k)
        case "cuML PCA":
            cuml = importlib.import_module("cuml")
            return lambda: cuml.PCA(n_components=k).fit(X)

    def fit() -> slce_xp.Model:
        model = slce_xp.fit(X, y, point.n_components, solver=point.contender)
        synchronise(point.backend, model.components)
        return model

    return fit


def synchronise(backend: str, result: Any = None) -> None:
    """Wait for the device."""
    if backend == "jax" and result is not None:
        result.block_until_ready()
    elif backend == "cupy":
        importlib.import_module("cupy").cuda.get_current_stream().synchronize()
    elif backend == "torch-cuda":
        importlib.import_module("torch").cuda.synchronize()


def is_emulated() -> bool:
    """Whether CuPy would run on an emulation of CUDA."""
    return importlib.util.find_spec("emucuda") is not None


def measure_on_cpu(point: Point) -> dict[str, Any]:
    """Peak by memray, and the median time of three runs, or fewer if they are long."""
    import memray

    if point.backend == "jax" and point.dtype == "float64":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    host, y = synthetic(point.n, point.d, point.n_classes, point.dtype)
    X = _backend.move(host, _backend.find_place(point.backend))
    run = contender(point, X, y)
    plan = getattr(run(), "plan", None)  # the run that compiles, loads and is not counted
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < 3.0:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "memray.bin"
        with memray.Tracker(record):
            result = run()
        peak = memray.FileReader(record).metadata.peak_memory
    median = float(np.median(seconds))
    return {"peak": peak, "seconds": median, **from_plan(plan, True), **passes_of(result)}


def measure_on_gpu(group: list[Point]) -> Iterable[tuple[Point, dict[str, Any]]]:
    """Contenders of one backend and size: peaks one by one, times in turn."""
    first = group[0]
    host, y = synthetic(first.n, first.d, first.n_classes, first.dtype)
    backend, device = ("cupy", None) if first.backend == "cupy" else ("torch", "cuda")
    X = _backend.move(host, _backend.find_place(backend, device))
    runs = {point: contender(point, X, y) for point in group}
    found: dict[Point, dict[str, Any]] = {}
    for point, run in runs.items():
        try:
            peak, result = device_peak(point.backend, run)
        except Exception as error:  # each library has its own kind of running out of memory
            found[point] = failure(error)
            continue
        plan = getattr(result, "plan", None)
        bytes_and_passes = {**from_plan(plan, False), **passes_of(result)}
        found[point] = {"peak": peak, "seconds": None, **bytes_and_passes}
        del result
    if not is_emulated():
        fine = {point: run for point, run in runs.items() if "error" not in found[point]}
        times = interleaved(fine, 5, lambda: synchronise(first.backend))
        for point, seconds in times.items():
            found[point]["seconds"] = seconds
    return found.items()


def device_peak(backend: str, run: Callable[[], Any]) -> tuple[int, Any]:
    """Most bytes that a run held on the device beside what was there before."""
    if backend == "cupy":
        cupy = importlib.import_module("cupy")
        pool = cupy.get_default_memory_pool()

        class Watch(cupy.cuda.MemoryHook):
            name = "peak"
            peak = 0

            def malloc_postprocess(self, **_: Any) -> None:
                self.peak = max(self.peak, pool.used_bytes())

        before = pool.used_bytes()
        with Watch() as watch:
            result = run()
        return max(0, watch.peak - before), result
    cuda = importlib.import_module("torch").cuda
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    result = run()
    return cuda.max_memory_allocated() - before, result


def measure_on_fake(point: Point) -> dict[str, Any]:
    from benchmarks import fake_cuda

    solver = point.contender
    found = fake_cuda.measure(*point.size[:4], dtype=point.dtype, solver=solver)
    return {
        "peak": found["peak_bytes_beside_x"],
        "seconds": None,
        "form": found["form"],
        "plan": found["plan_bytes"],
        "passes": found["passes"],
        "flops": found["flops"],
    }


def from_plan(plan: _plan.Plan | None, on_host: bool) -> dict[str, Any]:
    if plan is None:
        return {}
    return {"form": plan.form, "plan": plan.bytes + on_host * plan.host_bytes}


def passes_of(result: Any) -> dict[str, Any]:
    return {"passes": result.passes} if isinstance(result, slce_xp.Model) else {}


def failure(error: BaseException) -> dict[str, Any]:
    lines = str(error).strip().splitlines()
    return {"error": f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]}


def work(group: list[Point]) -> None:
    """Measure and print one line of JSON per point."""
    warnings.simplefilter("ignore")  # LDA on collinear data, components that are not positive
    if group[0].backend in ON_GPU:
        for point, found in measure_on_gpu(group):
            print(json.dumps({**asdict(point), **found}), flush=True)
        return
    measure = measure_on_fake if group[0].backend == FAKE else measure_on_cpu
    for point in group:
        try:
            found = measure(point)
        except Exception as error:  # one point must not take the others with it
            found = failure(error)
        print(json.dumps({**asdict(point), **found}), flush=True)


# ---------------------------------------------------------------- the run


def available_on_gpu() -> list[str]:
    """GPU libraries that find a device, which may be an emulated one."""
    found = []
    if importlib.util.find_spec("cupy") and importlib.import_module("cupy").cuda.is_available():
        found.append("cupy")
    if importlib.util.find_spec("torch") and importlib.import_module("torch").cuda.is_available():
        found.append("torch-cuda")
    return found


def available() -> list[str]:
    """Backends that can be measured here."""
    found = [name for name in ON_CPU if importlib.util.find_spec(name)]
    if importlib.util.find_spec("memray") is None:
        print("memray is not here (pip install memray): nothing is measured on the CPU")
        found = []
    found += available_on_gpu()
    return [*found, FAKE] if importlib.util.find_spec("torch") else found


def groups(backend: str, quick: bool) -> list[list[Point]]:
    """Points that share a process."""
    wanted = points(backend, quick)
    if backend == FAKE:
        return [wanted]
    if backend in ON_CPU:
        return [[point] for point in wanted]
    by_size: dict[tuple, list[Point]] = {}
    for point in wanted:
        by_size.setdefault(point.size, []).append(point)
    return list(by_size.values())


def run_group(group: list[Point]) -> list[dict[str, Any]]:
    """Measure a group in a process of its own; what fails is part of the result."""
    command = [sys.executable, "-m", "benchmarks.memory", "--points"]
    command.append(json.dumps([asdict(point) for point in group]))
    threads = {"OPENBLAS_NUM_THREADS": "1"} if group[0].backend == FAKE else {}
    limit = SECONDS if group[0].backend in ON_CPU else 10 * SECONDS
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env={**os.environ, **threads}
        )
        output, complaint = done.stdout, done.stderr.strip().splitlines()[-1:] or ["no output"]
    except subprocess.TimeoutExpired as late:
        output = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        complaint = [f"took more than {limit} s"]
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    missing = group[len(found) :]
    return found + [{**asdict(point), "error": complaint[0][:200]} for point in missing]


def devices(backends: list[str]) -> dict[str, str]:
    """Where each backend runs, and how its bytes were found."""
    found = dict.fromkeys(ON_CPU, "CPU, memray")
    found[FAKE] = "no GPU: fake tensors, workspace of eigh as LAPACK's, no times"
    if "cupy" in backends:
        runtime = importlib.import_module("cupy").cuda.runtime
        name = runtime.getDeviceProperties(0)["name"].decode()
        found["cupy"] = f"{name}, memory pool"
        if is_emulated():
            found["cupy"] = "no GPU: CPU emulation of CUDA, no times"
    if "torch-cuda" in backends:
        name = importlib.import_module("torch").cuda.get_device_name()
        found["torch-cuda"] = f"{name}, caching allocator"
    return {backend: found[backend] for backend in backends}


def measure_all(backends: list[str], quick: bool) -> dict[str, Any]:
    """Run everything and print it as it comes."""
    print(environment())
    begin = time.perf_counter()
    results: list[dict[str, Any]] = []
    where = devices(backends)
    for backend in backends:
        print(f"\n{NAMES[backend]}: {where[backend]}")
        for group in groups(backend, quick):
            for result in run_group(group):
                results.append(result)
                print("  " + one_line(result), flush=True)
    print(f"\n{time.perf_counter() - begin:.0f} s")
    return {
        "environment": environment(),
        "versions": versions(),
        "devices": where,
        "points": results,
        "exponents": exponents(results),
    }


def exponents(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Powers of n and d that the bytes in addition to X grow with, by form and backend."""
    rows = []
    for backend in NAMES:
        for name in (*FORMS, *OTHERS):
            row: dict[str, Any] = {"backend": backend, "contender": name}
            for axis in ("n", "d"):
                line = on_line(results, backend, name, axis)
                if len(line) > 2:
                    sizes = [r[axis] for r in line]
                    row[axis] = exponent(sizes, [r["peak"] for r in line])
                    row[f"{axis} from"], row[f"{axis} to"] = min(sizes), max(sizes)
            if "n" in row or "d" in row:
                rows.append(row)
    return rows


def on_line(
    results: list[dict[str, Any]], backend: str, name: str, axis: str
) -> list[dict[str, Any]]:
    """Results along one dimension, all else as it is by default."""
    other = "d" if axis == "n" else "n"
    line = [
        r
        for r in results
        if (r["backend"], r["contender"], r[other]) == (backend, name, FIXED)
        and Point("", "", r["n"], r["d"]).size == size_of(r)
        and r.get("peak")
    ]
    return sorted(line, key=lambda r: r[axis])


def size_of(result: dict[str, Any]) -> tuple:
    return tuple(result[key] for key in ("n", "d", "n_classes", "n_components", "dtype"))


# ---------------------------------------------------------------- telling


def in_words(size: tuple) -> str:
    n, d, n_classes, n_components, dtype = size
    components = "" if n_components is None else f", k = {n_components}"
    return (
        f"{n:,} × {d:,}".replace(",", " ")
        + f", {n_classes}{components}"
        + (", float64" if dtype == "float64" else "")
    )


def one_line(result: dict[str, Any]) -> str:
    head = f"{result['contender']:8} {in_words(size_of(result)):34}"
    if "error" in result:
        return f"{head} failed: {result['error']}"
    plan = f", plan {format_bytes(result['plan'])}" if "plan" in result else ""
    seconds = "" if result["seconds"] is None else f", {result['seconds']:.3g} s"
    share = result["peak"] / Point("", "", *size_of(result)).x_bytes
    return f"{head} {format_bytes(result['peak']):>8} added, {share:.3g} × X{plan}{seconds}"


def full_table(report: dict[str, Any]) -> str:
    """Every point as Markdown."""
    lines = [
        "| backend | method | n × d, classes | X | added | × X | plan | passes | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    names = names_in(report)
    for r in report["points"]:
        size = size_of(r)
        x_bytes = Point("", "", *size).x_bytes
        cells = [names[r["backend"]], r["contender"], in_words(size), format_bytes(x_bytes)]
        if "error" in r:
            cells += [f"failed: {r['error']}", "", "", "", ""]
        else:
            cells += [
                format_bytes(r["peak"]),
                f"{r['peak'] / x_bytes:.3g}",
                format_bytes(r["plan"]) if "plan" in r else "–",
                str(r.get("passes") or "–"),
                "–" if r["seconds"] is None else f"{r['seconds']:.3g}",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(
        [*provenance(report), "", *lines, *beyond_plan(report), "", *exponent_table(report)]
    )


def markdown_table(report: dict[str, Any]) -> str:
    """Bytes in addition to X of "auto" on every backend, and of others, as Markdown."""
    results = report["points"]
    names = names_in(report)
    known = {(r["backend"], r["contender"], size_of(r)): r for r in results}

    def cell(backend: str, name: str, size: tuple) -> str:
        key = ours(backend, "auto", *size) if name == "auto" else Point(backend, name, *size)
        peak = known.get((backend, key.contender, size), {}).get("peak")
        return "–" if peak is None else format_bytes(peak)

    heads = ["n × d, classes", "X", "form", "plan", *names.values(), *OTHERS]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for size in dict.fromkeys(size_of(r) for r in results):
        point = Point("numpy", "auto", *size)
        cells = [in_words(size), format_bytes(point.x_bytes), point.plan.form]
        cells.append(format_bytes(point.plan.bytes))
        cells += [cell(backend, "auto", size) for backend in names]
        cells += [cell("numpy", other, size) for other in OTHERS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(
        [*provenance(report), "", *lines, *beyond_plan(report), "", *exponent_table(report)]
    )


def names_in(report: dict[str, Any]) -> dict[str, str]:
    """Names of the backends that took part, which say what was emulated."""
    emulated = "emulation" in report["devices"].get("cupy", "")
    names = {**NAMES, "cupy": "CuPy, emulated" if emulated else "CuPy"}
    return {backend: name for backend, name in names.items() if backend in report["devices"]}


def beyond_plan(report: dict[str, Any]) -> list[str]:
    """Where a fit took more than 1.2 times its plan, which `max_memory` relies on."""
    names = names_in(report)
    ours = [r for r in report["points"] if "plan" in r]
    beyond = [r for r in ours if r["peak"] > 1.2 * r["plan"]]
    told = [
        f"{names[r['backend']]} {r['contender']} {in_words(size_of(r))} "
        f"({format_bytes(r['peak'])}, plan {format_bytes(r['plan'])})"
        for r in beyond
    ]
    head = f"{len(beyond)} of {len(ours)} fits took more than 1.2 times their plan"
    return ["", f"{head}{': ' if told else ''}{'; '.join(told)}."]


def provenance(report: dict[str, Any]) -> list[str]:
    names = names_in(report)
    where = "; ".join(f"{names[b]}: {text}" for b, text in report["devices"].items())
    return [f"Machine: {report['environment']}.", "", f"Bytes: {where}."]


def exponent_table(report: dict[str, Any]) -> list[str]:
    """Exponents as Markdown, one row per method and a column per backend."""
    rows = report["exponents"]
    names = {b: n for b, n in names_in(report).items() if any(r["backend"] == b for r in rows)}
    if not rows:
        return []
    lines = [
        f"Added bytes grow like n^a · d^b, float32, 8 classes, the other dimension {FIXED} "
        "(least squares in logarithms; a, b):",
        "",
        "| method | " + " | ".join(names.values()) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for name in dict.fromkeys(r["contender"] for r in rows):
        cells = [name]
        for backend in names:
            row = next((r for r in rows if (r["backend"], r["contender"]) == (backend, name)), {})
            pair = [
                f"{round(row[axis], 2) + 0.0:.2f}" if axis in row else "–" for axis in ("n", "d")
            ]  # + 0.0: no "-0.00"
            cells.append(", ".join(pair) if row else "–")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


COLOURS = {"scatter": "#0072B2", "gram": "#D55E00", "krylov": "#009E73"}  # Okabe and Ito's
MARKERS = {"numpy": "o", "torch": "s", "jax": "^", "cupy": "D", "torch-cuda": "P", FAKE: "x"}


def draw(report: dict[str, Any], path: Path) -> None:
    """Bytes in addition to X against n and d: points measured, dashes planned, grey X itself."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    results, names = report["points"], names_in(report)
    figure, panels = plt.subplots(1, 2, figsize=(9, 5.6), sharey=True)
    sizes = np.geomspace(250, 1.2e6 if FAKE in names else 4e4, 80).astype(int).tolist()
    for panel, axis in zip(panels, ("n", "d"), strict=True):
        shapes = [(s, FIXED) if axis == "n" else (FIXED, s) for s in sizes]
        panel.loglog(sizes, [Point("", "", *s).x_bytes for s in shapes], color="#999999", lw=1)
        for form, colour in COLOURS.items():
            plan = [Point("", form, *shape).plan.bytes for shape in shapes]
            panel.loglog(sizes, plan, "--", color=colour, lw=1)
            for backend in names:
                line = on_line(results, backend, form, axis)
                x, y = [r[axis] for r in line], [r["peak"] for r in line]
                panel.loglog(x, y, MARKERS[backend], color=colour, mfc="none", ms=6)
        for name in OTHERS:
            line = on_line(results, "numpy", name, axis)
            x, y = [r[axis] for r in line], [r["peak"] for r in line]
            panel.loglog(x, y, color="#777777", marker=".", ms=4, ls=":", lw=0.9)
            if line:
                place = {"xytext": (4, 3), "textcoords": "offset points"}
                panel.annotate(name, (x[-1], y[-1]), color="#555555", fontsize=8, **place)
        what, other = ("samples", "features") if axis == "n" else ("features", "samples")
        panel.set_xlabel(f"{axis}, number of {what} ({FIXED} {other})")
        panel.grid(alpha=0.25)
        panel.minorticks_off()
    panels[0].set_ylim(5e5, 2e10)
    panels[0].set_ylabel("bytes in addition to X (float32, 8 classes)")
    panels[0].yaxis.set_major_formatter(lambda value, _: format_bytes(value))
    dark = {"color": "#333333", "ls": "", "mfc": "none"}
    handles = [Line2D([], [], color=c, lw=4, label=f) for f, c in COLOURS.items()]
    handles += [Line2D([], [], marker=MARKERS[b], label=names[b], **dark) for b in names]
    handles += [
        Line2D([], [], color="#333333", ls="--", lw=1, label="plan of each form"),
        Line2D([], [], color="#999999", lw=1, label="X itself"),
        Line2D([], [], color="#777777", marker=".", ms=4, ls=":", label="other methods, NumPy"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=5, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.14, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Run what was asked for and write JSON, tables and a picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", nargs="*", choices=NAMES, help="default: all that are here")
    parser.add_argument("--quick", action="store_true", help="few small points, under a minute")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"),
                        help="folder for memory.json, .md and .png (%(default)s)")  # fmt: skip
    parser.add_argument("--write", type=Path, help="Markdown file whose table to write anew")
    parser.add_argument("--redraw", action="store_true",
                        help="only tables and picture, from the results in --output")  # fmt: skip
    parser.add_argument("--points", help=argparse.SUPPRESS)  # what a process of ours is to measure
    options = parser.parse_args()
    if options.points:
        work([Point(**fields) for fields in json.loads(options.points)])
        return
    target = options.output / "memory.json"
    if options.redraw:
        report = json.loads(target.read_text(encoding="utf-8"))
    else:
        here = available()
        backends = [backend for backend in here if backend in (options.backends or here)]
        if not backends:
            raise SystemExit(f"none of {', '.join(options.backends or NAMES)} can be measured here")
        report = measure_all(backends, options.quick)
        options.output.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (options.output / "memory.md").write_text(full_table(report) + "\n", encoding="utf-8")
    draw(report, options.output / "memory.png")
    print(f"wrote memory.json, memory.md and memory.png in {options.output}")
    if options.write:
        write_between_markers(options.write, "memory", markdown_table(report))


if __name__ == "__main__":
    main()
