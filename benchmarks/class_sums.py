"""Class sums against each library's own call, in turn: ``python -m benchmarks.class_sums``.

The native calls are what the author of a library would write: ``torch.index_add``,
``jax.ops.segment_sum`` and, for NumPy, a product with SciPy's sparse indicator matrix. They do not
check codes, and add float32 in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks import timing
from benchmarks.report import aims_told, write_between_markers
from slce_xp.core import class_sums

N, D = 50_000, 64
CLASSES = (10, 300, 5_000)
AIMS = {"Torch": 1.4, "JAX": 1.5, "JAX, jit": 1.5}

Call = Callable[[], object]


def numpy_calls(x: Any, codes: Any, k: int, weights: Any) -> tuple[Call, Call]:
    """The native call and ours."""
    values = np.ones(N, x.dtype) if weights is None else weights
    columns = np.arange(N)

    def native() -> object:
        return scipy.sparse.csr_array((values, (codes, columns)), shape=(k, N)) @ x

    return native, lambda: class_sums(x, codes, k, weights=weights)


def torch_calls(x: Any, codes: Any, k: int, weights: Any) -> tuple[Call, Call]:
    """The native call and ours."""
    import torch

    torch.set_num_threads(1)
    x, codes = torch.asarray(x), torch.asarray(codes)
    w = None if weights is None else torch.asarray(weights)

    def native() -> object:
        rows = x if w is None else x * w[:, None]
        return torch.zeros((k, D), dtype=x.dtype).index_add_(0, codes, rows)

    return native, lambda: class_sums(x, codes, k, weights=w)


def jax_calls(x: Any, codes: Any, k: int, weights: Any) -> tuple[Call, Call]:
    """The native call and ours."""
    jnp, native, ours = _of_jax(k)
    given = [None if a is None else jnp.asarray(a) for a in (x, codes, weights)]
    return (lambda: native(*given).block_until_ready(), lambda: ours(*given).block_until_ready())


def compiled_jax_calls(x: Any, codes: Any, k: int, weights: Any) -> tuple[Call, Call]:
    """The native call and ours, compiled."""
    import jax

    jnp, *functions = _of_jax(k)
    given = [None if a is None else jnp.asarray(a) for a in (x, codes, weights)]
    native, ours = map(jax.jit, functions)
    return (lambda: native(*given).block_until_ready(), lambda: ours(*given).block_until_ready())


def _of_jax(k: int) -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    import jax

    def native(x: Any, codes: Any, weights: Any) -> Any:
        rows = x if weights is None else x * weights[:, None]
        return jax.ops.segment_sum(rows, codes, k)

    def ours(x: Any, codes: Any, weights: Any) -> Any:
        return class_sums(x, codes, k, weights=weights)

    jax.config.update("jax_enable_x64", True)
    return jax.numpy, native, ours


LIBRARIES = {
    "NumPy": numpy_calls,
    "Torch": torch_calls,
    "JAX": jax_calls,
    "JAX, jit": compiled_jax_calls,
}


def measure(rounds: int) -> dict[str, Any]:
    """Milliseconds of both, and of the first compiled call."""
    points = [point(*case, rounds) for case in cases()]
    return {"environment": timing.environment(), "points": points}


def cases() -> Iterator[tuple[str, str, int, bool]]:
    """Libraries, dtypes, numbers of classes, and whether there are weights."""
    for name in LIBRARIES:
        for dtype in ("float64", "float32"):
            for k in CLASSES:
                for weighted in (False, True):
                    yield name, dtype, k, weighted


def point(name: str, dtype: str, k: int, weighted: bool, rounds: int) -> dict[str, Any]:
    """One line of the table."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, D)).astype(dtype)
    codes = rng.integers(0, k, N)
    weights = rng.uniform(0.5, 2.0, N).astype(dtype) if weighted else None
    native, ours = LIBRARIES[name](x, codes, k, weights)
    start = time.perf_counter()
    found = np.asarray(ours())
    first = time.perf_counter() - start
    expected = np.asarray(native())
    tolerance = 1e-10 if dtype == "float64" else 1e-2
    if not np.allclose(found, expected, rtol=0, atol=tolerance):  # no time for a wrong answer
        raise ArithmeticError(f"{name}: the sums differ by {np.abs(found - expected).max()}")
    seconds = timing.interleaved(
        {"native": native, "ours": ours}, rounds, clock=time.process_time, settle=0.0
    )
    return {
        "library": name,
        "dtype": dtype,
        "classes": k,
        "weighted": weighted,
        "first": first,
        **seconds,
    }


def table(report: dict[str, Any]) -> str:
    """The results as Markdown."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for p in report["points"]:
        ratios.setdefault((p["library"], p["dtype"]), []).append(p["ours"] / p["native"])
    heads = [f"K = {k:,}".replace(",", " ") for k in CLASSES for _ in range(2)]
    heads = [head + ", weights" * (i % 2) for i, head in enumerate(heads)]
    lines = [f"Machine: {report['environment']}.", ""]
    lines += ["| library | dtype | " + " | ".join(heads) + " |", "|---" * (2 + len(heads)) + "|"]
    for (library, dtype), row in ratios.items():
        lines.append(f"| {library} | {dtype} | " + " | ".join(f"{r:.2f}" for r in row) + " |")
    aims = []
    for library, most in AIMS.items():
        worst = max(ratios[library, "float64"])
        aims.append((f"{library}, float64 ≤ {most}", f"{worst:.2f}", worst <= most))
    first = max(p["first"] for p in report["points"] if p["library"] == "JAX, jit")
    aims.append(("compiling for JAX ≤ 2 s", f"{first:.1f} s", first <= 2.0))
    return "\n".join(lines + aims_told(aims))


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"),
                        help="folder for class_sums.json (%(default)s)")  # fmt: skip
    parser.add_argument("--write", type=Path, help="Markdown file whose table to write anew")
    parser.add_argument("--redraw", action="store_true",
                        help="only the table, from the results in --output")  # fmt: skip
    options = parser.parse_args()
    target = options.output / "class_sums.json"
    if options.redraw:
        report = json.loads(target.read_text(encoding="utf-8"))
    else:
        report = measure(options.rounds)
        options.output.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(table(report))
    if options.write:
        write_between_markers(options.write, "class sums", table(report))


if __name__ == "__main__":
    main()
