"""Which form of the eigenproblem to solve: integers in, a plan out. Knows no arrays."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, replace
from numbers import Real

from slce_xp import _validate

# What things cost, in floating-point operations of a large matrix product: rounded from what
# `python -m benchmarks.calibrate` measures, which differs by a third from run to run.
EIGH_FLOPS = 8.0  # per m³: the leading eigenpairs of a dense m × m matrix
FACTOR_FLOPS = 6.0  # per n³: Cholesky factor and products around it in the Gram form
READ_FLOPS = 65.0  # per entry of X and pass: what a narrow product costs beside its arithmetic

# The start block of the matrix-free form. In memory a pass is cheap, and a narrow block that
# is soon cut down to the residuals is fastest; the wide one takes the fewest passes. Passes and
# seconds by width and schedule: `python -m benchmarks.calibrate --data FOLDER`.
TYPICAL_PASSES = 12  # a middle: easy data take 2 to 8, hard ones up to 21 with the narrow block
FAST_WIDTH, FAST_WIDE_PASSES = 32, 3
WIDE_WIDTH, WIDE_WIDE_PASSES = 64, 10**6

# Of X copied at a time: enough for fast products, small beside any X worth blocking.
BLOCK_BYTES = 16 * 2**20
ONE_HOT_CLASSES = 64  # up to so many classes are summed by a one-hot product
ITEMSIZES = {"float32": 4, "float64": 8}
FORMS = ("scatter", "gram", "krylov")


@dataclass(frozen=True)
class Plan:
    """How a fit is computed, and what that takes.

    Attributes
    ----------
    form : str
        "scatter" (d × d), "gram" (n × n) or "krylov" (matrix-free).
    n_samples, n_features, n_classes, n_components : int
    dtype : str
    width : int
        Rows of the start block of the matrix-free form; 0 for the others.
    wide_passes : int
        After so many passes only residuals are added to its space.
    passes : int
        Estimated passes over X, that for the class sums included.
    flops : float
        Estimated floating-point operations.
    bytes : int
        Estimated bytes allocated beside X.
    reason : str
        Why this form.

    Examples
    --------
    >>> import slce_xp
    >>> slce_xp.plan(801, 20531, 5).form
    'gram'
    >>> slce_xp.plan(6000, 6000, 10).form
    'krylov'
    """

    form: str
    n_samples: int
    n_features: int
    n_classes: int
    n_components: int
    dtype: str
    width: int
    wide_passes: int
    passes: int
    flops: float
    bytes: int
    reason: str

    def __str__(self) -> str:
        block = f", block of {self.width} rows" if self.width else ""
        return "\n".join(
            [
                f"plan for {self.n_samples} samples × {self.n_features} features, "
                f"{self.n_classes} classes, {self.dtype} → {self.n_components} components",
                f"  form    {self.form}{block}: {self.reason}",
                f"  work    {self.flops:.2g} flops, about {self.passes} passes over X",
                f"  memory  {format_bytes(self.bytes)} beside X "
                f"({format_bytes(self.n_samples * self.n_features * ITEMSIZES[self.dtype])})",
            ]
        )


def plan(
    n_samples: int,
    n_features: int,
    n_classes: int,
    n_components: int | str | None = None,
    dtype: str = "float64",
    max_memory: int | str | None = None,
) -> Plan:
    """Tell how `fit` would compute, without any data.

    Parameters
    ----------
    n_samples, n_features, n_classes : int
    n_components : int, "positive" or None
        As for `fit`.
    dtype : {"float64", "float32"}
    max_memory : int or str, optional
        Bytes that the fit may allocate beside X, such as "2GB".

    Returns
    -------
    Plan

    Raises
    ------
    MemoryError
        Where no form fits into `max_memory`.

    Examples
    --------
    >>> import slce_xp
    >>> print(slce_xp.plan(1_000_000, 20_000, 20, dtype="float32", max_memory="2GB"))
    plan for 1000000 samples × 20000 features, 20 classes, float32 → 19 components
      form    krylov, block of 32 rows: the only one that fits into max_memory
      work    3.9e+13 flops, about 13 passes over X
      memory  386 MB beside X (80 GB)
    """
    n = _validate.as_count(n_samples, "n_samples", 2)
    d = _validate.as_count(n_features, "n_features", 1)
    n_classes = _validate.as_count(n_classes, "n_classes", 2, n)
    k = _validate.as_component_count(n_components, n_classes, d)
    if not isinstance(dtype, str) or dtype not in ITEMSIZES:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, ITEMSIZES))}; got {dtype!r}")
    return choose(n, d, n_classes, k, dtype, parse_bytes(max_memory), "auto")


def choose(
    n: int, d: int, n_classes: int, k: int, dtype: str, max_memory: int | None, solver: str
) -> Plan:
    """The cheapest form that fits into memory, or the one that was asked for if it fits."""
    if solver == "auto":
        forms = [form for form in FORMS if form != "krylov" or _suits_krylov(n, d, n_classes, k)]
    else:
        forms = [solver]
    plans = [_estimate(form, n, d, n_classes, k, dtype, solver) for form in forms]
    allowed = [p for p in plans if max_memory is None or p.bytes <= max_memory]
    if not allowed:
        needs = ", ".join(f"{format_bytes(p.bytes)} ({p.form})" for p in plans)
        raise MemoryError(
            f"max_memory must leave room for one form of the problem, which needs {needs} beside "
            f"X; got {format_bytes(max_memory or 0)}. Raise max_memory or use float32"
        )
    best = min(allowed, key=lambda p: p.flops)
    if solver != "auto":
        reason = "asked for"
    else:
        others = ", ".join(f"{p.flops:.2g} ({p.form})" for p in allowed if p is not best)
        reason = f"{best.flops:.2g} flops against {others}"
        if min(plans, key=lambda p: p.flops) is not best:
            reason += ", of those that fit into max_memory"
        if len(allowed) == 1:
            reason = "the only one that fits into max_memory"
    return replace(best, reason=reason)


def dense_form(n: int, d: int) -> str:
    """The dense form for what the matrix-free one leaves: the smaller matrix."""
    return "scatter" if d <= n else "gram"


def most_rows(plan: Plan, max_memory: int | None) -> int:
    """How many rows the matrix-free form may keep: what the plan counts, and all that is left."""
    if max_memory is None:
        return sys.maxsize
    shorter = min(plan.n_samples, plan.n_features)
    spare = (max_memory - plan.bytes) // (shorter * ITEMSIZES[plan.dtype])
    return _typical_rows(plan.n_classes, plan.width, plan.wide_passes, shorter) + spare


def _typical_rows(n_classes: int, width: int, wide_passes: int, shorter: int) -> int:
    wide = min(wide_passes, TYPICAL_PASSES)
    return min(wide * width + (TYPICAL_PASSES - wide) * min(n_classes, width), shorter)


def _suits_krylov(n: int, d: int, n_classes: int, k: int) -> bool:
    # Beyond the positive eigenvalues lie the null space and the bulk of the spectrum, and a
    # start block of very many classes is a dense problem already.
    return k < n_classes and 4 * n_classes <= min(n, d)


def _estimate(form: str, n: int, d: int, n_classes: int, k: int, dtype: str, solver: str) -> Plan:
    item = ITEMSIZES[dtype]
    entries = n * d
    width = wide_passes = 0
    # Class sums, B, centroids; components and their working copy; labels.
    numbers = 3 * n_classes * d + 3 * k * d
    # The block before, the one in hand, and that one shifted; one-hot rows and their mask.
    block = 3 * min(BLOCK_BYTES, entries * item)
    if n_classes <= ONE_HOT_CLASSES:
        block += min(BLOCK_BYTES, n * n_classes * item) * (item + 1) // item
    passes, flops = 1, float(READ_FLOPS * entries)
    if form == "scatter":
        flops += entries * d + EIGH_FLOPS * d**3
        numbers += 5 * d * d
    elif form == "gram":
        passes += 2
        flops += entries * n + 4.0 * entries * k + (EIGH_FLOPS + FACTOR_FLOPS) * n**3
        numbers += 7 * n * n
    else:
        fast = solver == "auto"
        width = max(FAST_WIDTH if fast else WIDE_WIDTH, n_classes)
        wide_passes = FAST_WIDE_PASSES if fast else WIDE_WIDE_PASSES
        passes += TYPICAL_PASSES
        rows = _typical_rows(n_classes, width, wide_passes, min(n, d))
        flops += TYPICAL_PASSES * READ_FLOPS * entries + 4.0 * entries * rows
        numbers += (rows + 6 * width) * min(n, d) + 2 * width * max(n, d)
        if n < d:
            numbers += 2 * n_classes * n
        block += 6 * 8 * rows * rows  # the projected problem, on the host
    return Plan(
        form=form,
        n_samples=n,
        n_features=d,
        n_classes=n_classes,
        n_components=k,
        dtype=dtype,
        width=width,
        wide_passes=wide_passes,
        passes=passes,
        flops=flops,
        bytes=numbers * item + 8 * n + block,
        reason="",
    )


# ---------------------------------------------------------------- sizes in words

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parse_bytes(size: int | str | None) -> int | None:
    """2_000_000_000, "2GB" or "1.5 GiB" as bytes."""
    if size is None:
        return None
    rule = 'max_memory must be a positive number of bytes, or a size such as "2GB" or "512MiB"'
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", size)
        if match is None or match[2].upper() not in _UNITS:
            raise ValueError(f"{rule}; got {size!r}")
        number = int(float(match[1]) * _UNITS[match[2].upper()])
    elif isinstance(size, bool) or not isinstance(size, Real) or not math.isfinite(size):
        raise ValueError(f"{rule}; got {size!r}")
    else:
        number = int(size)
    if number <= 0:
        raise ValueError(f"{rule}; got {size!r}")
    return number


def format_bytes(size: float) -> str:
    """A size for people: 225 MB."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"
