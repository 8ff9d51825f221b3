"""Budgets of a fit on a device, in host reads, launches and bytes: `python tests/budgets.py`.

`metered` measures on the double of a torch accelerator, on CuPy (emulated or not) and on CUDA.
"""

import argparse
import contextlib
import pathlib
import sys
import tempfile
import types
import warnings
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
from conftest import make_backend
from patching import replace_in_backend

import slce_xp
from slce_xp import _backend
from slce_xp._planning.problem import TYPICAL_PASSES as PASSES
from slce_xp._planning.sizes import format_bytes
from slce_xp.core import _krylov

# Host reads of a fit. The matrix-free form reads once more in each pass.
FIT_READS = {"scatter": 3, "gram": 5, "krylov": 2}
# One more if vectors of samples are measured on X.
SAMPLE_READS = 1
# Most copies of host arrays in a fit; CUDA waits for each of them, too. The matrix-free
# form makes two more in each pass.
FIT_UPLOADS = {"scatter": 5, "gram": 10, "krylov": 8}
READS_ABOUT = {
    "scatter": "squares and means of features, the eigenvalues, the loss",
    "gram": "squares and means, whether G was factored, the eigenvalues, the residual, the loss",
    "krylov": "squares and means, the loss; one more if vectors of samples are measured on X",
}


def saved(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(pathlib.Path(folder) / "model.npz")


# Host reads of what is done with a model on a device.
USES = {
    "transform": (lambda model, x: model.transform(x), 0),
    "inverse_transform": (lambda model, x: model.inverse_transform(model.transform(x)), 0),
    "reconstruct": (lambda model, x: model.reconstruct(x), 0),
    "loss_curve": (lambda model, x: model.loss_curve, 0),
    "component_losses": (lambda model, x: model.component_losses, 0),
    "eigenvalue_bounds": (lambda model, x: model.eigenvalue_bounds, 1),
    "n_samples, repr": (lambda model, x: (model.n_samples, repr(model)), 0),
    "loss": (lambda model, x: model.loss, 1),
    "str": (lambda model, x: str(model), 1),
    'to("numpy")': (lambda model, x: model.to("numpy"), 6),
    "save": (lambda model, x: saved(model), 6),
}

# solver, samples, features, classes
SHAPES = [
    ("scatter", 20_000, 500, 10),
    ("scatter", 10_000, 300, 200),
    ("gram", 801, 20_531, 5),
    ("krylov", 801, 20_531, 5),
    ("krylov", 6_000, 3_000, 10),
    ("auto", 6_000, 3_000, 10),
]

# The most launches and calls of library routines: solver, samples, features, classes, and whether X
# lies far from the origin.
LAUNCHES = {
    ("auto", 801, 20_531, 5, "near"): 120,
    ("auto", 801, 20_531, 5, "far"): 120,
    ("auto", 900, 4_000, 5, "near"): 120,
    ("auto", 900, 4_000, 5, "far"): 120,
    ("scatter", 20_000, 500, 10, "near"): 80,
    ("scatter", 20_000, 500, 10, "far"): 80,
}
# The same in a pass of the matrix-free form, by the coordinates that are shorter.
PASS_LAUNCHES = {(400, 3_000): 60, (3_000, 400): 50}


def samples(n, d, n_classes, dtype="float32"):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d), dtype=np.float32)
    X[np.arange(n), y % d] += 30.0
    return X.astype(dtype, copy=False), y


def fit(x, y, solver, **options):
    """A fit whose matrix-free form takes all passes that it may: those that a plan counts."""
    # It stops at rounding, which is taken to be less than it is.
    with warnings.catch_warnings(), mock.patch.object(_krylov, "MULTIPLIED", 1e-6):
        warnings.simplefilter("ignore", slce_xp.ConvergenceWarning)
        options = {"max_iter": PASSES, "tol": 1e-15, **options}
        return slce_xp.fit(x, y, "positive", solver=solver, **options)


# ---------------------------------------------------------------- measuring


@contextlib.contextmanager
def metered(backend):
    """Yield an object that receives host `reads`, `launches` and the `peak` of bytes allocated.

    On a real GPU, CuPy's launches cannot be counted: None.
    """
    found = types.SimpleNamespace(reads=0, peak=0, launches=None)
    if backend.label == "torch-device":
        books = backend.books
        books.reset()
        start = books.live_bytes
        yield found
        found.reads, found.peak = len(books.syncs), books.peak_bytes - start
        found.launches = books.launches
    elif backend.label == "cupy":
        with _cupy_reads(found), _cupy_peak(found):
            yield found
    else:
        from torch import cuda

        from benchmarks.launches import Launches

        cuda.reset_peak_memory_stats(backend.device)
        start = cuda.memory_allocated(backend.device)
        with _calls_of_to_host(found, contextlib.nullcontext), Launches() as counted:
            yield found
        found.launches = counted.launches
        found.peak = cuda.max_memory_allocated(backend.device) - start


@contextlib.contextmanager
def _calls_of_to_host(found, allowed):
    original = _backend.to_host

    def to_host(x):
        found.reads += not isinstance(x, np.ndarray)
        with allowed():
            return original(x)

    with pytest.MonkeyPatch.context() as patch:
        replace_in_backend(patch, "to_host", to_host)
        yield


@contextlib.contextmanager
def _cupy_reads(found):
    """CuPy refuses every read that it detects but by to_host; an emulation counts all of them."""
    import cupyx

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "cupyx.allow_synchronize will be removed")
        refused = cupyx.allow_synchronize(False)
        with refused, _calls_of_to_host(found, lambda: cupyx.allow_synchronize(True)):
            try:
                import emucuda
            except ImportError:
                yield
            else:
                with emucuda.measure() as measured:
                    yield
                assert measured.d2h_count == found.reads
                found.launches = sum(
                    getattr(measured, name)
                    for name in ("launches", "blas_calls", "solver_calls", "sparse_calls")
                )


@contextlib.contextmanager
def _cupy_peak(found):
    import cupy

    pool = cupy.get_default_memory_pool()
    start = pool.used_bytes()

    class Watch(cupy.cuda.MemoryHook):
        name = "peak"

        def malloc_postprocess(self, **_):
            found.peak = max(found.peak, pool.used_bytes() - start)

    with Watch():
        yield


# ---------------------------------------------------------------- the table


def rows(backend):
    """Text per shape: reads, launches, peak, and the plan's estimate."""
    for solver, n, d, n_classes in SHAPES:
        X, y = samples(n, d, n_classes)
        x = backend.array(X)
        with metered(backend) as found:
            model = slce_xp.fit(x, y, "positive", solver=solver)
        shape = f"{solver} | {n} × {d}, {n_classes}"
        yield Row(
            shape,
            str(found.reads),
            str(found.launches),
            format_bytes(found.peak),
            format_bytes(model.plan.bytes),
        )


class Row(NamedTuple):
    """A line of the table, of one device."""

    shape: str
    reads: str
    launches: str
    peak: str
    plan: str


def launch_rows(backend):
    """Problem, limit and launches of each fit in LAUNCHES."""
    for (solver, n, d, n_classes, where), limit in LAUNCHES.items():
        found, _ = launches_of(backend, solver, n, d, n_classes, where)
        problem = f"{solver} | {n} × {d}, {n_classes}" + ", far from the origin" * (where == "far")
        yield problem, str(limit), str(found)


def launches_of(backend, solver, n, d, n_classes, where, **options):
    """Launches of a fit, and its model."""
    X, y = samples(n, d, n_classes)
    if where == "far":
        X += 1e3
    x = backend.array(X)
    with metered(backend) as found:
        model = fit(x, y, solver, **options)
    return found.launches, model


def table():
    """Markdown: host reads, launches and peaks on each device that is here."""
    columns, launches = {}, {}
    for label, name in {"torch-device": "simulated Torch device", "cupy": "CuPy"}.items():
        with contextlib.suppress(pytest.skip.Exception), make_backend(label) as backend:
            columns[name] = list(rows(backend))
            launches[name] = list(launch_rows(backend))
    names = " | ".join(columns)
    counts = " | ".join(f"launches, {name}" for name in columns)
    lines = [
        f"| solver | n × d, classes | X | host reads | plan | {names} | {counts} |",
        "|---" * (5 + 2 * len(columns)) + "|",
    ]
    for (_, n, d, _), *cells in zip(SHAPES, *columns.values(), strict=True):
        first, parts = cells[0], [cell.peak for cell in cells] + [cell.launches for cell in cells]
        size = format_bytes(4 * n * d)
        parts = [first.shape, size, first.reads, first.plan, *parts]
        lines.append(f"| {' | '.join(parts)} |")
    lines += ["", f"| solver | n × d, classes | most launches | {names} |"]
    lines += ["|---" * (3 + len(columns)) + "|"]
    for cells in zip(*launches.values(), strict=True):
        problem, limit, _ = cells[0]
        lines.append(f"| {problem} | {limit} | {' | '.join(cell[2] for cell in cells)} |")
    lines += ["", "| in a fit | host reads | of |", "|---|---|---|"]
    for form, reads in FIT_READS.items():
        more = " + one per pass" if form == "krylov" else ""
        lines.append(f"| {form} | {reads}{more} | {READS_ABOUT[form]} |")
    lines += ["| y on a device | 1 more | labels are coded on the host |", ""]
    by_count = {}
    for name, (_, reads) in USES.items():
        by_count.setdefault(reads, []).append(f"`{name}`")
    words = [f"{', '.join(names)}: {reads or 'none'}" for reads, names in by_count.items()]
    return "\n".join([*lines, "Reads by a model in use: " + "; ".join(words) + "."])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=pathlib.Path, help="a file with markers for the table")
    options = parser.parse_args()
    text = table()
    print(text)
    if options.write:
        sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
        from benchmarks.report import write_between_markers

        write_between_markers(options.write, "budgets", text)


if __name__ == "__main__":
    main()
