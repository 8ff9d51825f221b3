"""Run the paper's experiments and report: ``python -m benchmarks.paper``."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper import figures, protocol, report
from benchmarks.timing import versions

RESULTS = Path("benchmarks/results")


def arguments(arguments: Sequence[str] | None, methods: Sequence[str]) -> argparse.Namespace:
    """What was asked for."""
    sets = list(dict.fromkeys(name for e in protocol.EXPERIMENTS for name in e.sets))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("SLCE_XP_DATA"),
                        help="folder of .npz data sets (default: $SLCE_XP_DATA)")  # fmt: skip
    parser.add_argument("--quick", action="store_true",
                        help=f"{protocol.QUICK_REPETITIONS} repetitions on small sets: "
                        f"{', '.join(protocol.QUICK_SETS)}")  # fmt: skip
    parser.add_argument("--sets", nargs="+", choices=sets, metavar="SET",
                        help=f"only these of {', '.join(sets)}")  # fmt: skip
    parser.add_argument("--methods", nargs="+", choices=methods, metavar="METHOD",
                        help=f"only these of {', '.join(methods)}".replace("%", "%%"))  # fmt: skip
    parser.add_argument("--repetitions", type=int, help=f"(default: {protocol.REPETITIONS})")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1),
                        help="processes, each with one thread (%(default)s)")  # fmt: skip
    parser.add_argument("--output", type=Path,
                        help="folder for results.json, report.md and figures (default: "
                        f"{RESULTS}/paper, with --quick {RESULTS}/paper-quick)")  # fmt: skip
    parser.add_argument("--redraw", action="store_true",
                        help="run nothing: report and figures of what is in --output")  # fmt: skip
    options = parser.parse_args(arguments)
    options.sets = options.sets or (list(protocol.QUICK_SETS) if options.quick else sets)
    options.methods = options.methods or list(methods)
    options.output = options.output or RESULTS / ("paper-quick" if options.quick else "paper")
    if options.repetitions is None:
        options.repetitions = protocol.QUICK_REPETITIONS if options.quick else protocol.REPETITIONS
    for name, least in (("repetitions", 1), ("workers", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be at least {least}; got {getattr(options, name)}")
    return options


def main(
    given: Sequence[str] | None = None, methods: protocol.Methods | None = None
) -> protocol.Results:
    """Run what was asked for; ``methods`` takes the place of those of ``benchmarks.peers``."""
    known = methods
    if known is None:
        known = protocol.all_methods()
    options = arguments(given, list(known))
    results = protocol.Results(options.output / "results.json")
    # The figures show a set or two that no experiment has.
    shown = {name for _, needed, _ in figures.figures({}).values() for name in needed}
    wanted = options.sets if options.quick else [*options.sets, *(shown - set(options.sets))]
    found, reasons = protocol.available(wanted, options.data)
    missing = {name: reason for name, reason in reasons.items() if name in options.sets}
    for reason in missing.values():
        print(f"left out: {reason}", file=sys.stderr)

    failures: dict[str, str] = {}
    if not options.redraw:
        cells = protocol.plan(options.methods, set(found) & set(options.sets), options.repetitions)
        failures = _run(cells, results, options, methods)
    drawn = figures.draw_all(
        options.output,
        dict.fromkeys(found, True),
        lambda name: protocol.load(name, options.data, download=False),
        results,
    )
    target = options.output / "report.md"
    target.write_text(report.write(results, missing, failures, drawn), encoding="utf-8")
    print(f"wrote {target}, {results.path} and {len(drawn)} figures")
    return results


def _run(
    cells: Sequence[protocol.Cell],
    results: protocol.Results,
    options: argparse.Namespace,
    methods: protocol.Methods | None,
) -> dict[str, str]:
    """Run with a bar of progress; what failed and why."""
    from tqdm import tqdm

    done = sum(cell in results.scores for cell in cells)
    before, start = results.about.get("seconds", 0.0), time.perf_counter()
    machine = f"{platform.machine()}, {os.cpu_count()} cores; {options.workers} processes; "
    machine += ", ".join(f"{name} {version}" for name, version in versions().items())
    failures = {}
    try:
        with tqdm(total=len(cells), initial=done, unit="cell", disable=None) as bar:
            for cell, outcome in protocol.run(
                cells, results, options.data, options.workers, methods
            ):
                # Written with the next cell.
                seconds = round(before + time.perf_counter() - start, 1)
                results.about |= {"environment": machine, "seconds": seconds}
                bar.set_description(f"{cell.set}, {cell.method}")
                bar.update()
                if isinstance(outcome, Exception):
                    where = f"experiment {cell.experiment}, {cell.set}, {cell.method}"
                    failures[where] = f"{type(outcome).__name__}: {outcome}"
                    tqdm.write(f"failed: {where}: {failures[where]}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"\nstopped; {results.path} keeps what is done: the same command goes on from there",
              file=sys.stderr)  # fmt: skip
        raise SystemExit(130) from None
    if len(results.scores):
        results.save()
    return failures


if __name__ == "__main__":
    main()
