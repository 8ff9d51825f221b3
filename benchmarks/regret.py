"""What a wrong choice of form costs: ``python -m benchmarks.regret``.

Problems are drawn at random by seed. On each one ``solver="auto"`` runs in turn with every form
that is not hopeless, with scikit-learn's PCA of as many components, with an exact PCA, since that
one is randomized for most shapes, and, if n ≫ d, with the least that a formed problem takes: one
SYRK of X and one read of X. Ratios of medians count, not times. The best form is the fastest of
those that prove an angle of at most 1e-3 rad, or one as small as that of auto; the ratio to the
fastest of all is printed as well. What takes three times as long as auto is stopped; its time is
then a lower bound, and so is that of auto if it loses patience. Notes say so.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

import slce_xp
from benchmarks.datasets import MissingDataError, load
from benchmarks.drawn import REAL, REGIONS, SPECTRA, Drawn, draw
from benchmarks.exact_pca import INEXACT, angle_of_default, exact_solver, sentence_on_pca
from benchmarks.problems import DATA_SETS, synthetic
from benchmarks.report import write_between_markers
from benchmarks.timing import CLOCKS, environment, interleaved
from slce_xp._planning.problem import TYPICAL_PASSES
from slce_xp.core._solution import FORMS

# A dense form is left out if its work is so many times that of the other one, or as much as this.
HOPELESS_RATIO, HOPELESS_WORK = 30.0, 6e11
# One run is enough of what is this much slower than the best, or takes these seconds.
SLOW_RATIO, LONG = 3.0, 1.0
TALL = 5  # n ≥ 5·d counts as n ≫ d
LARGE = 1e6  # entries of X: what a fit does beside a SYRK of fewer is Python
MANY_CLASSES = (50_000, 500, 5_000)
FULL = {"most_work": 2e10, "seconds": 6.0, "patience": 30.0, "minutes": 14.0}
QUICK = {"most_work": 1e9, "seconds": 2.0, "patience": 5.0, "minutes": 1.7}

# ---------------------------------------------------------------- one problem


class StoppedError(BaseException):
    """A run took too long. Not an Exception, which a contender might catch."""


@contextlib.contextmanager
def stopped_after(seconds: float, clock: Callable[[], float] = time.perf_counter) -> Iterator[None]:
    """Raise StoppedError in what is still running after some seconds, once it is in Python."""
    by_processor = clock is time.process_time
    timer = signal.ITIMER_PROF if by_processor else signal.ITIMER_REAL
    alarm = signal.SIGPROF if by_processor else signal.SIGALRM

    def stop(*_: object) -> None:
        raise StoppedError

    before = signal.signal(alarm, stop)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(alarm, before)


def race(
    X: Any, y: np.ndarray, seconds: float, patience: float, clock: Callable[[], float]
) -> dict[str, Any]:
    """Medians of auto, of each form and of PCA, with what was left out and why."""
    n, d = X.shape
    is_sparse = not isinstance(X, np.ndarray)
    forms, notes = worth_timing(n, d)
    models: dict[str, Any] = {}
    contenders: dict[str, Callable[[], Any]] = {
        form: fit_by(X, y, form, models) for form in ("auto", *forms)
    }
    k = min(len(np.unique(y)) - 1, d, n)
    k = min(k, min(n, d) - 1) if is_sparse else k
    contenders["PCA"] = lambda: PCA(k).fit(X)
    solver = exact_solver(n, d, is_sparse)
    if solver is not None:
        contenders["exact PCA"] = lambda: PCA(k, svd_solver=solver).fit(X)
    if n >= TALL * d and not is_sparse:
        ones = np.ones(d, dtype=X.dtype)
        contenders["SYRK + read"] = lambda: (X.T @ X, X @ ones)
    first: dict[str, float] = {}
    once, unconverged = [], []
    for name, run in contenders.items():
        limit = 3 * first["auto"] + 1.0 if first else patience
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = clock()
            try:
                with stopped_after(limit, clock):
                    run()
            except StoppedError:
                once.append(name)
                notes[name] = f"stopped after {limit:.1f} s"
            first[name] = clock() - start
        if any(issubclass(w.category, slce_xp.ConvergenceWarning) for w in caught):
            unconverged.append(name)
    best = min(first[form] for form in ("auto", *forms))
    slow = max(SLOW_RATIO * best, LONG)
    once += [name for name in contenders if name != "auto" and first[name] > slow]
    # A first run may be slow; the others are worth as many rounds as there is time for.
    again = {name: run for name, run in contenders.items() if name not in once}
    rounds = int(np.clip(seconds / max(sum(first[name] for name in again), 1e-3), 2, 15))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = first | interleaved(again, rounds, warm_ups=0, clock=clock)
    auto = models.get("auto")
    candidates = [form for form in forms if form in models and form not in unconverged]
    proven = proving(candidates, models)
    return {
        "shape": [n, d, len(np.unique(y))],
        "dtype": str(X.dtype),
        "sparse": is_sparse,
        "form": getattr(auto, "solver", None),
        "best": min(proven, key=lambda form: times[form], default=None),
        "fastest": min(candidates, key=lambda form: times[form], default=None),
        "seconds": times,
        "rounds": rounds,
        "passes": getattr(auto, "passes", None),
        "passes_taken": getattr(models.get("krylov"), "passes", None),
        "angle_of_PCA": angle_of_default(X, k, solver) if "exact PCA" in again and solver else None,
        "notes": notes,
        "unconverged": unconverged,
        "counts_differ": counts_differ(models),
    }


def proving(forms: Iterable[str], models: dict[str, Any]) -> list[str]:
    """Forms that prove a small angle, or one as small as that of auto."""
    auto = models.get("auto")
    proved = np.inf if auto is None else max(INEXACT, auto.angle_bound)
    return [form for form in forms if models[form].angle_bound <= proved]


def worth_timing(n: int, d: int) -> tuple[list[str], dict[str, str]]:
    """Forms that may be the best, and why others cannot."""
    work = {"scatter": n * d * d + 10.0 * d**3, "gram": n * n * d + 10.0 * n**3}
    forms, notes = [], {}
    for form in FORMS:
        if form == "gram" and n >= d:
            notes[form] = "skipped, it needs n < d"
        elif work.get(form, 0.0) > HOPELESS_RATIO * min(work.values()):
            notes[form] = f"skipped, {work[form] / min(work.values()):.0f} × the work"
        elif work.get(form, 0.0) > HOPELESS_WORK:
            notes[form] = f"skipped, {work[form]:.0e} flops"
        else:
            forms.append(form)
    return forms, notes


def fit_by(X: Any, y: np.ndarray, form: str, models: dict[str, Any]) -> Callable[[], None]:
    def run() -> None:
        models[form] = slce_xp.fit(X, y, solver=form)

    return run


def counts_differ(models: dict[str, Any]) -> bool:
    """Whether two forms contradict each other on the number of eigenvalues above their levels."""
    return any(
        low.zero_level <= high.zero_level and high.n_positive_bounds[0] > low.n_positive_bounds[1]
        for low, high in itertools.permutations(models.values(), 2)
    )


# ---------------------------------------------------------------- the table


HEADER = (
    f"{'problem':16} {'n × d':>15} {'K':>4} {'dtype':14} {'auto':>9} {'form':7} "
    f"{'best':>9} {'form':7} {'auto/best':>9} {'/PCA':>6} {'/exact':>6} {'/floor':>6}  notes"
)


def ratio(result: dict[str, Any], to: str) -> float | None:
    """Time of auto over another one's, or over that of the best or the fastest form."""
    times = result["seconds"]
    other = result[to] if to in ("best", "fastest") else to
    if not times.get(other):  # not run, or shorter than a tick of the clock
        return None
    value = times["auto"] / times[other]
    # The time of a run that was stopped is a lower bound.
    return None if value < 1 and "auto" in result["notes"] else float(value)


def spread(results: Iterable[dict[str, Any]], to: str) -> str:
    """Median and largest ratio."""
    found = [value for r in results if (value := ratio(r, to)) is not None]
    return f"{np.median(found):.2f}, {max(found):.2f}" if found else "–"


def row(name: str, result: dict[str, Any]) -> str:
    n, d, n_classes = result["shape"]
    times, best = result["seconds"], result["best"]
    cells = [f"{value:.2f}" if (value := ratio(result, to)) is not None else "–"
             for to in ("best", "PCA", "exact PCA", "SYRK + read")]  # fmt: skip
    kind = result["dtype"] + (" sparse" if result["sparse"] else "")
    notes = [f"{form}: {why}" for form, why in result["notes"].items()]
    notes += [f"{form} unconverged" for form in result["unconverged"]]
    if result["fastest"] != best:
        notes.append(f"{result['fastest']} is faster, and proves less")
    notes += ["counts of positive eigenvalues differ"] * result["counts_differ"]
    return (
        f"{name[:16]:16} {f'{n} × {d}':>15} {n_classes:>4} {kind:14} {times['auto']:>7.4f} s "
        f"{result['form'] or '–':7} {f'{times[best]:.4f} s' if best else '–':>9} {best or '–':7} "
        f"{cells[0]:>9} {cells[1]:>6} {cells[2]:>6} {cells[3]:>6}  {'; '.join(notes)}"
    ).rstrip()


def targets(results: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    """Targets, what came out, and whether that reaches them."""

    def ratios(to: str, chosen: Callable[[int, int], bool] = lambda n, d: True) -> list[float]:
        some = [r for r in results.values() if chosen(*r["shape"][:2])]
        return [value for r in some if (value := ratio(r, to)) is not None]

    def at_most(label: str, values: list[float], limit: float, what: Any) -> Any:
        if values:
            value = float(what(values))
            yield f"{label} ≤ {limit}", f"{value:.2f}", value <= limit

    best = ratios("best")
    wide = ratios("PCA", lambda n, d: 2 * d >= n)
    yield from at_most("auto / best form, median", best, 1.05, np.median)
    yield from at_most("auto / best form, 90 %", best, 1.3, lambda found: np.quantile(found, 0.9))
    yield from at_most("auto / best form, worst", best, 3.0, max)
    yield from at_most("auto / PCA where d ≥ n/2, median", wide, 0.5, np.median)
    yield from at_most("auto / PCA where d ≥ n/2, worst", wide, 1.0, max)
    tall = ratios("PCA", lambda n, d: n >= TALL * d)
    yield from at_most(f"auto / PCA where n ≥ {TALL} d, worst", tall, 1.0, max)
    floor = ratios("SYRK + read", lambda n, d: n * d >= LARGE)
    label = f"auto / (SYRK + read of X) where n·d ≥ {LARGE:.0e}, worst"
    yield from at_most(label, floor, 1.25, max)
    passes = slce_xp.plan(20_000, 2_000, 10, where="blocks").passes
    yield "planned passes over a file of 20 000 × 2 000 = 1", str(passes), passes == 1
    wrong = sum(
        r["counts_differ"] or "auto" in r["unconverged"] or "auto" in r["notes"]
        for r in results.values()
    )
    yield "auto stopped or unconverged, or counts that differ: 0", str(wrong), not wrong


def markdown(report: dict[str, Any]) -> str:
    """The targets and the ratios by shape, as tables."""
    results = report["results"]
    lines = [
        f"Machine: {report['environment']}; {report['threads']} threads, {report['clock']} clock, "
        f"seed {report['seed']}, {len(results)} problems.",
        "",
        "| target | got | |",
        "|---|---|---|",
        *(f"| {label} | {value} | {'reached' if fine else 'missed'} |"
          for label, value, fine in report["targets"]),
        f"| auto / fastest form, whatever it proves: median, worst | "
        f"{spread(results.values(), 'fastest')} | |",
        f"| auto / exact PCA: median, worst | {spread(results.values(), 'exact PCA')} | |",
        "",
        "| shape | problems | auto / best form: median, worst | auto / PCA | auto / exact PCA |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for region in (*REGIONS, REAL):
        some = {name: r for name, r in results.items() if r["region"] == region}
        cells = [spread(some.values(), to) for to in ("best", "PCA", "exact PCA")]
        if some:
            lines.append(f"| {region} | {len(some)} | {' | '.join(cells)} |")
    lines += ["", sentence_on_pca(results.values()), "", sentence_on_passes(results.values())]
    return "\n".join(lines)


def sentence_on_passes(results: Iterable[dict[str, Any]]) -> str:
    """How many passes iterations took, as a sentence."""
    passes = [r["passes_taken"] for r in results if r["passes_taken"]]
    if not passes:
        return ""
    return (
        f"The matrix-free form took {np.median(passes):.0f} passes over X in the median, "
        f"{min(passes)} to {max(passes)}; plans assume {TYPICAL_PASSES}."
    )


def summary(results: dict[str, dict[str, Any]], asked: int) -> list[str]:
    """Lines on how the forms compare and which targets were missed."""
    table = list(targets(results))
    lines = [""]
    if len(results) < asked:
        lines.append(f"Time was up after {len(results)} of {asked} problems.")
    chosen = sum(r["form"] == r["best"] for r in results.values())
    lines.append(f"auto ended in the best form on {chosen} of {len(results)} problems.")
    lines += [f"  {'reached' if fine else 'MISSED ':7} {value:>7}  {label}"
              for label, value, fine in table]  # fmt: skip
    missed = [f"{label} (got {value})" for label, value, fine in table if not fine]
    lines += ["", sentence_on_pca(results.values()), sentence_on_passes(results.values())]
    return [*lines, "", f"Targets missed in this run: {'; '.join(missed) or 'none'}."]


# ---------------------------------------------------------------- the run


def problems(options: argparse.Namespace, most_work: float) -> Iterator[tuple[str, Any, str, str]]:
    """Names, functions that make the data, and the kind of shape and of spectrum."""
    for i, drawn in enumerate(draw(options.count, options.seed, most_work)):
        region = list(REGIONS)[i % 3]
        yield f"{options.seed}:{i} {describe(drawn)}", drawn.data, region, spectrum_of(drawn)
    if options.data:
        for name in DATA_SETS:
            yield name, lambda name=name: load(name, options.data, download=False), REAL, REAL
    if not options.quick:
        yield "many classes", lambda: synthetic(*MANY_CLASSES), "tall", "medium"


def spectrum_of(drawn: Drawn) -> str:
    return SPECTRA[0 if drawn.decay < 0.5 else 2 if drawn.decay > 1.2 else 1]


def describe(drawn: Drawn) -> str:
    slope = spectrum_of(drawn).replace("medium", "")
    parts = (slope, "tiny gap" if drawn.spread > 0.3 else "", "far" if drawn.offset else "")
    return " ".join(part for part in parts if part)


def measure(
    made: Iterable[tuple[str, Any, str, str]],
    seconds: float,
    patience: float,
    minutes: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, dict[str, Any]]:
    """Race on one problem after the other, until time is up, and print a line for each."""
    end = time.monotonic() + 60 * minutes
    results: dict[str, dict[str, Any]] = {}
    print(HEADER)
    for name, make, region, spectrum in made:
        if time.monotonic() > end:
            break
        try:
            X, y = make()
        except MissingDataError as error:
            print(f"{name} is left out. {error}")
            continue
        kind = {"region": region, "spectrum": spectrum}
        results[name] = kind | race(X, y, seconds, patience, clock)
        print(row(name, results[name]), flush=True)
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, help="drawn problems (60, with --quick 16)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (%(default)s)")
    parser.add_argument("--data", type=Path, help="folder of .npz data sets, raced as well")
    parser.add_argument("--quick", action="store_true", help="small problems, two minutes at most")
    parser.add_argument("--threads", type=int, default=2, help="of the BLAS (%(default)s)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall",
                        help="cpu: processor time, for a machine that is not idle")  # fmt: skip
    parser.add_argument("--minutes", type=float, help="begin no problem after so many")
    parser.add_argument("--output", type=Path, help="folder for regret.json")
    parser.add_argument("--write", type=Path, help="Markdown file whose tables to write anew")
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else FULL
    if options.count is None:
        options.count = 16 if options.quick else 60
    made = list(problems(options, size["most_work"]))
    minutes = options.minutes or size["minutes"]
    print(f"{environment()}; limited to {options.threads}")
    with threadpool_limits(options.threads):
        clock = CLOCKS[options.clock]
        results = measure(made, size["seconds"], size["patience"], minutes, clock)
    for line in summary(results, len(made)):
        print(line)
    report = {
        "environment": environment(),
        "threads": options.threads,
        "clock": options.clock,
        "seed": options.seed,
        "results": results,
        "targets": [[label, value, bool(fine)] for label, value, fine in targets(results)],
    }
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        path = options.output / "regret.json"
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {path}")
    if options.write:
        write_between_markers(options.write, "regret", markdown(report))


if __name__ == "__main__":
    main()
