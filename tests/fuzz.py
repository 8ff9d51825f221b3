"""Random problems at the edges of the arithmetic, an oracle with more digits, and a judge.

``python tests/fuzz.py --count 20000`` fits that many problems on two processes and prints which
of them broke a bound, by kind of failure, family of problem and form of the eigenproblem. Every
seed is one problem: ``python tests/fuzz.py --only SEED`` shows one.

The bounds, with eps of the dtype and `scale` = tr S_t with absolute weights (which bounds ‖M‖ and
every sum behind it):

- eigenvalues and their Rayleigh quotients: 64·eps·scale, and tol·‖M‖ in the matrix-free form; for
  sparse data, which are not shifted, the geometric mean of that and of 64·eps·W·‖mean‖²; with
  unlabelled samples, what rounding of the mean adds to their scatter;
- how many are positive: exact, but for eigenvalues within 32·eps·scale of zero;
- the leading subspace: that error over the gap below it;
- mean and centroids: 64·eps of the largest entry of their column among rows that count;
- the same bits for the same input, and for X times a power of two.

An answer outside of them is allowed with a ConvergenceWarning, or a warning that says that the
count is uncertain. Eigenvalues and weights beyond the range of float32 are float64, and beyond
that of float64 zero or infinite, with a warning.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import importlib.util
import re
import sys
import time
import traceback
import types
import warnings
from unittest import mock

import numpy as np
import scipy.sparse as sp

import slce_xp
from slce_xp import _route
from slce_xp._data import file_rows
from slce_xp._planning import memory as _memory
from slce_xp._planning import plan as _plan
from slce_xp._planning.schedule import Schedule
from slce_xp.core import krylov
from slce_xp.core.solution import Costs

LONG = np.longdouble
ZERO, EIGENVALUE, MOMENT = 32.0, 64.0, 64.0
# The mean is rounded, too: constant data are not quite zero after it has been subtracted.
MEAN_SQUARE = 4.0
UNCERTAIN = re.compile(r"may be positive|loses digits")


@dataclasses.dataclass
class Problem:
    seed: int
    family: str
    X: np.ndarray  # dense, exactly the values that are fitted
    y: np.ndarray
    n_components: int | str | None
    solver: str
    kind: str  # of X: how it is handed over
    weights: np.ndarray | None = None
    unlabeled: object = None
    unlabeled_weight: float = 1.0
    exponent: int = 0  # of the power of two that equivariance is tested with; 0 for no test
    again: bool = False  # whether to fit it twice
    # Small problems are solved by a start block as wide as they are, and read in one block. So
    # that they are solved as large ones: the block's width and wide passes, and rows to be read.
    width: int | None = None
    wide_passes: int | None = None
    iterates: bool = False
    block_rows: int | None = None

    @property
    def dtype(self):
        """The dtype that it is computed in: integers have no other."""
        return np.dtype(self.X.dtype if self.X.dtype.kind == "f" else np.float64)

    def __str__(self):
        n, d = self.X.shape
        parts = [
            f"{self.family}: {self.X.dtype} {n} × {d}, {len(np.unique(self.y))} labels",
            f"as {self.kind}, solver={self.solver!r}, n_components={self.n_components!r}",
        ]
        if self.weights is not None:
            parts.append(f"weights {self.weights.min():.1e} to {self.weights.max():.1e}")
        if self.unlabeled is not None:
            share = float((self.y == self.unlabeled).mean())
            parts.append(f"{share:.0%} unlabelled, λ={self.unlabeled_weight:.3g}")
        if self.width is not None:
            parts.append(f"a block of {self.width}, wide for {self.wide_passes} passes")
        if self.iterates:
            parts.append("iterates, with random costs")
        if self.block_rows is not None:
            parts.append(f"{self.block_rows} rows at a time")
        return ", ".join(parts)


# ---------------------------------------------------------------- families
# A family is a function of a generator that returns X in float64, y as integers and, where it
# matters, `weights`, `unlabeled`, `unlabeled_weight`, `n_components`, `solver`, `dtype`.


def draw_size(rng, least=4, most=120):
    """Small sizes more often than large ones."""
    if rng.random() < 0.03:
        most = 3 * most
    return int(np.exp(rng.uniform(np.log(least), np.log(most))))


def draw_labels(rng, n, n_classes):
    """Every class at least once; even or very uneven sizes."""
    sizes = rng.dirichlet(np.full(n_classes, rng.choice([0.3, 1.0, 30.0])))
    rest = rng.choice(n_classes, n - n_classes, p=sizes)
    return rng.permutation(np.concatenate([np.arange(n_classes), rest]))


def draw_shape(rng):
    n, d = draw_size(rng), draw_size(rng, least=1)
    return n, d, int(rng.integers(2, max(3, min(8, n - 1))))


def draw_solver(rng, krylov=0.25):
    other = (1 - krylov) / 3
    return str(rng.choice(["krylov", "auto", "scatter", "gram"], p=[krylov, other, other, other]))


def log_uniform(rng, low, high, size=None):
    return 10.0 ** rng.uniform(low, high, size)


def rotation(rng, d):
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def blobs(rng, shape=None, decay=None):
    n, d, n_classes = shape or draw_shape(rng)
    y = draw_labels(rng, n, n_classes)
    means = log_uniform(rng, -1.5, 1) * rng.standard_normal((n_classes, d))
    decay = rng.uniform(0, 2) if decay is None else decay
    return {"X": (means[y] + rng.standard_normal((n, d))) * np.arange(1, d + 1) ** -decay, "y": y}


def steep(rng):
    """A spectrum that falls by up to twenty orders of magnitude, in any basis."""
    problem = blobs(rng, decay=0.0)
    d = problem["X"].shape[1]
    problem["X"] *= 10.0 ** (-rng.uniform(1, 10) * np.linspace(0, 1, d) ** rng.uniform(0.3, 3))
    if rng.random() < 0.5:
        problem["X"] = problem["X"] @ rotation(rng, d)
    return problem


def flat(rng):
    return blobs(rng, decay=0.0)


def planted(rng):
    """Eigenvalues of M as chosen: some of them near zero, of either sign."""
    n_classes = int(rng.integers(2, 8))
    patterns = n_classes - 1
    noise = patterns + int(rng.integers(0, 30))
    n = noise + n_classes + int(rng.integers(0, 60))
    y = draw_labels(rng, n, n_classes)
    member = np.eye(n_classes)[y]
    # Columns that are constant on classes, of mean zero, and columns of class means zero.
    between = np.linalg.qr(np.column_stack([np.ones(n), member[:, :-1]]))[0][:, 1:]
    both = np.linalg.qr(np.column_stack([member, rng.standard_normal((n, noise))]))[0]
    within = both[:, n_classes:]
    near = rng.random(patterns) < 0.7
    size = np.where(near, log_uniform(rng, -9, -2, patterns), 1.0)
    wanted = size * rng.choice([-1.0, 1.0], patterns)
    square = log_uniform(rng, -2, 1, patterns) + np.abs(wanted)
    X = np.zeros((n, noise))
    X[:, :patterns] = between * np.sqrt(square) + within[:, :patterns] * np.sqrt(square - wanted)
    X[:, patterns:] = within[:, patterns:] * log_uniform(rng, -3, 0.3, noise - patterns)
    if rng.random() < 0.3:  # in a space of more dimensions
        more = noise + int(rng.integers(1, 100))
        X = X @ rotation(rng, more)[:noise]
    elif rng.random() < 0.7:
        X = X @ rotation(rng, noise)
    return {"X": X, "y": y}


def identical_classes(rng):
    """Classes that differ in nothing, exactly or but for chance."""
    problem = blobs(rng)
    n, d = problem["X"].shape
    if rng.random() < 0.5:
        half = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -rng.uniform(0, 2)
        return {"X": np.concatenate([half, half]), "y": np.repeat([0, 1], n)}
    problem["X"] = rng.standard_normal((n, d))
    return problem


def tiny_classes(rng):
    n, d, _ = draw_shape(rng)
    singles = int(rng.integers(1, n - 1))
    y = np.concatenate([np.arange(singles), np.full(n - singles, singles)])
    return {**blobs(rng, (n, d, 2)), "y": rng.permutation(y)}


def many_classes(rng):
    n, d = draw_size(rng), draw_size(rng, least=2)
    near = n if rng.random() < 0.5 else d
    n_classes = int(np.clip(near + rng.integers(-2, 3), 2, n))
    return blobs(rng, (n, d, n_classes))


def duplicates(rng):
    problem = blobs(rng)
    n, d = problem["X"].shape
    problem["X"] = problem["X"][:, rng.integers(0, d, 2 * d)]
    rows = np.concatenate([np.arange(n), rng.integers(0, max(1, n // 4), n)])
    keep_label = rng.random() < 0.7
    y = problem["y"]
    y = y[rows] if keep_label else np.concatenate([y, y])
    return {"X": problem["X"][rows], "y": y}


def constant_columns(rng):
    problem = blobs(rng)
    n = len(problem["X"])
    count = int(rng.integers(1, 6))
    constants = rng.choice([0.0, 1.0, 0.1, 1e3, 1 / 3, 1.7e9], count)
    columns = np.broadcast_to(constants, (n, count))
    alone = rng.random() < 0.1
    problem["X"] = columns if alone else np.column_stack([problem["X"], columns])
    return problem


def huge_columns(rng):
    """A column of timestamps beside small numbers."""
    problem = blobs(rng)
    n = len(problem["X"])
    stamps = 1.7e9 + rng.uniform(0, log_uniform(rng, 0, 7), n)
    problem["X"] = np.column_stack([problem["X"], np.floor(stamps)])
    return problem


def low_rank(rng):
    n, d, n_classes = draw_shape(rng)
    rank = int(rng.integers(1, max(2, min(n, d))))
    problem = blobs(rng, (n, rank, n_classes))
    problem["X"] = problem["X"] @ rng.standard_normal((rank, d))
    return problem


def wide(rng):
    n = draw_size(rng, most=40)
    n_classes = int(rng.integers(2, max(3, min(8, n - 1))))
    return blobs(rng, (n, draw_size(rng, least=100, most=300), n_classes))


def nearly_square(rng):
    """A few features more than samples, some samples twice, and all that comes after zero."""
    n = draw_size(rng, least=20, most=150)
    more = int(rng.integers(0, 8))
    problem = blobs(rng, (n, n + more, int(rng.integers(2, 6))))
    count = int(rng.integers(0, n // 2))
    problem["X"][:count] = problem["X"][n - count :]
    return {**problem, "n_components": int(rng.integers(1, n)), "solver": draw_solver(rng, 0.1)}


def tall(rng):
    n = draw_size(rng, least=100, most=400)
    return blobs(rng, (n, draw_size(rng, least=1, most=12), int(rng.integers(2, 8))))


def integers(rng):
    problem = blobs(rng)
    kind = rng.choice(["int64", "int32", "uint8", "int16"])
    size = 10.0 ** rng.uniform(0.3, {"uint8": 1.5, "int16": 3}.get(kind, 6))
    X = np.round(problem["X"] * size)
    info = np.iinfo(kind)
    problem["X"] = np.clip(X - (X.min() if kind == "uint8" else 0), info.min, info.max)
    return {**problem, "dtype": kind}


def buried(rng):
    """What separates the classes lies in the smallest columns of a steep spectrum."""
    n, d, width = int(rng.integers(60, 300)), int(rng.integers(16, 120)), int(rng.integers(1, 6))
    large = rng.random() < 0.05
    if large:  # enough for the plan to choose the matrix-free form by itself
        n, d = int(rng.integers(500, 700)), int(rng.integers(280, 320))
    apart = rng.uniform(2, 8)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, d))
    X[y == 1, d - width :] += apart
    X[y == 2, d - 2 * width : d - width] += apart
    X *= log_uniform(rng, -4, -1) ** np.linspace(0, 1, d) ** rng.uniform(1, 4)
    problem = {"X": X, "y": y, "solver": "auto" if large else draw_solver(rng, 0.6)}
    if large or rng.random() < 0.5:
        problem["n_components"] = "positive"
    return problem


def close_pair(rng):
    """Two large classes, identical but for one small column, and a third apart in another."""
    half, d = int(rng.integers(20, 100)), int(rng.integers(3, 60))
    rows = rng.standard_normal((half, d)) * np.arange(1, d + 1) ** -rng.uniform(0, 1)
    third = rng.standard_normal((int(rng.integers(1, 30)), d)) * log_uniform(rng, -3, 0)
    small = log_uniform(rng, -6, -1)
    other = rows.copy()
    rows[:, 0], other[:, 0] = small, -small
    if rng.random() < 0.5:
        rows[:, 0] += 0.1 * small * rng.standard_normal(half)
    third[:, 0] = 0
    third[:, 1] += log_uniform(rng, -4, 2)
    y = np.repeat([0, 1, 2], [half, half, len(third)])
    X = np.concatenate([rows, other, third])
    problem = {"X": X, "y": y, "solver": draw_solver(rng, 0.6)}
    if rng.random() < 0.8:
        problem["n_components"] = 1
    return problem


def heavy_tails(rng):
    """Entries over many orders of magnitude, whole rows, or log-normal ones."""
    problem = blobs(rng)
    shape = problem["X"].shape
    if rng.random() < 0.5:
        problem["X"] *= log_uniform(rng, -12, 12, (shape[0], 1))
    else:
        problem["X"] = np.exp(rng.uniform(2, 10) * rng.standard_normal(shape))
    return problem


def undone_weights(rng):
    """Rows of very different sizes, with weights that make them count alike."""
    problem = blobs(rng)
    size = log_uniform(rng, 0, rng.uniform(1, 13), len(problem["X"]))
    size[rng.random(len(size)) < 0.3] = 1.0
    return {**problem, "X": problem["X"] * size[:, None], "weights": size**-2.0}


def offset(rng):
    return add_offset(rng, blobs(rng))


def scaled(rng):
    return add_scale(rng, blobs(rng))


def weighted(rng):
    return add_weights(rng, blobs(rng))


def zero_weights(rng):
    return add_zero_weights(rng, blobs(rng))


def semisupervised(rng):
    return add_unlabeled(rng, blobs(rng))


def unequal_unlabeled(rng):
    """Samples without a label that are much larger or smaller than the others."""
    problem = add_unlabeled(rng, blobs(rng))
    size = log_uniform(rng, -6, 6)
    problem["X"] = problem["X"] * np.where(problem["y"] < 0, size, 1.0)[:, None]
    return {**problem, "unlabeled_weight": float(min(1e14, log_uniform(rng, -2, 2) / size**2))}


def mixed(rng):
    """Any of the others with some of what they do to data, together."""
    plain = [f for f in FAMILIES if f is not mixed]
    problem = plain[rng.integers(len(plain))](rng)
    for change in (add_offset, add_unlabeled, add_weights, add_zero_weights, add_scale):
        if rng.random() < 0.4:
            problem = change(rng, problem)
    return problem


def add_offset(rng, problem):
    """Far from the origin, as far as the dtype leaves digits."""
    d = problem["X"].shape[1]
    if np.abs(problem["X"]).max() > 1e5 or "dtype" in problem:
        return problem
    dtype = rng.choice(["float32", "float64"])
    far = log_uniform(rng, 0, {"float32": 4, "float64": 8}[dtype])
    where = rng.standard_normal(d) if rng.random() < 0.5 else 1.0
    return {**problem, "X": problem["X"] + far * where, "dtype": dtype}


def add_scale(rng, problem):
    """All of X times a power of two, up to where its squares are no numbers any more."""
    if "dtype" in problem and problem["dtype"] not in ("float32", "float64"):
        return problem
    dtype = problem.get("dtype", rng.choice(["float32", "float64"]))
    most = {"float32": 100, "float64": 800}[str(dtype)]
    if rng.random() < 0.7:  # where the squares can be represented
        most = {"float32": 50, "float64": 450}[str(dtype)]
    room = int(np.floor(np.log2(float(np.finfo(dtype).max)) - 2)) - int(
        np.ceil(np.log2(max(1.0, np.abs(problem["X"]).max())))
    )
    exponent = int(min(rng.integers(-most, most + 1), room))
    return {**problem, "X": problem["X"], "dtype": dtype, "power": exponent}


def add_weights(rng, problem):
    n = len(problem["X"])
    match rng.integers(5):
        case 0:
            weights = log_uniform(rng, -12, 12, n)
        case 1:
            weights = np.full(n, rng.choice([1e-200, 1e200, 1e-30, 1e30, 1e-5]))
        case 2:
            weights = np.ones(n)
            weights[rng.integers(n)] = log_uniform(rng, 2, 24)
        case 3:
            weights = rng.uniform(0.5, 2, n)
        case _:
            weights = rng.integers(1, 5, n).astype(float)
    return {**problem, "weights": weights}


def add_zero_weights(rng, problem):
    """Rows that do not count hold what marks a missing row."""
    X, y = problem["X"].copy(), problem["y"]
    if "dtype" in problem and problem["dtype"] not in ("float32", "float64"):
        return problem
    n = len(X)
    weights = problem.get("weights", np.ones(n)).copy()
    if rng.random() < 0.3:  # zeros beside data far away
        X += log_uniform(rng, 0, 4)
        fill = 0.0
    else:
        fill = rng.choice([1e20, -9999.0, 0.0, 1e30])
    absent = rng.random(n) < rng.choice([0.05, 0.5, 0.9])
    for label in rng.permutation(np.unique(y[y >= 0]))[:2]:
        absent[rng.choice(np.flatnonzero(y == label))] = False
    if "power" in problem and abs(fill) > 1e4:
        fill = 0.0
    X[absent] = fill
    weights[absent] = 0.0
    return {**problem, "X": X, "weights": weights}


def add_unlabeled(rng, problem):
    y = problem["y"].copy()
    without = rng.random(len(y)) < rng.choice([0.1, 0.5, 0.95])
    for label in rng.permutation(np.unique(y[y >= 0]))[:2]:
        without[rng.choice(np.flatnonzero(y == label))] = False
    y[without] = -1
    factor = float(rng.choice([0.0, 1.0, log_uniform(rng, -4, 4)]))
    return {**problem, "y": y, "unlabeled": -1, "unlabeled_weight": factor}


FAMILIES = [
    blobs,
    steep,
    flat,
    planted,
    planted,
    identical_classes,
    tiny_classes,
    many_classes,
    duplicates,
    constant_columns,
    huge_columns,
    low_rank,
    wide,
    nearly_square,
    tall,
    integers,
    buried,
    close_pair,
    heavy_tails,
    undone_weights,
    offset,
    scaled,
    weighted,
    zero_weights,
    semisupervised,
    unequal_unlabeled,
    mixed,
    mixed,
    mixed,
    mixed,
]

KINDS = {"C": 50, "F": 10, "csr": 12, "rows": 10, "batches": 12, "torch": 3, "strict": 2, "dask": 1}
MODULES = {"torch": "torch", "strict": "array_api_strict", "dask": "dask"}


def make_problem(seed, family=None):
    """The problem of a seed, which draws the family, too, unless one is given."""
    rng = np.random.default_rng(seed)
    drawn_family = FAMILIES[rng.integers(len(FAMILIES))]
    family = family or drawn_family
    drawn = family(rng)
    X, y = drawn["X"], drawn["y"]
    d = X.shape[1]
    dtype = np.dtype(drawn.get("dtype", rng.choice(["float32", "float64"])))
    with np.errstate(over="ignore"):
        X = X.astype(dtype)
    if dtype.kind == "f":
        # Not of the family, but of the dtype: finite, and exact powers of two.
        X = np.clip(X, np.finfo(dtype).min / 4, np.finfo(dtype).max / 4)
        X = np.ldexp(X, drawn.get("power", 0)).astype(dtype)
        X = np.clip(X, np.finfo(dtype).min / 4, np.finfo(dtype).max / 4)
    kind = str(rng.choice(list(KINDS), p=np.array(list(KINDS.values())) / sum(KINDS.values())))
    if kind in MODULES and importlib.util.find_spec(MODULES[kind]) is None:
        kind = "C"
    if kind == "csr" and rng.random() < 0.7:
        X = np.where(rng.random(X.shape) < rng.uniform(0.2, 0.9), 0, X).astype(dtype)
    weights = drawn.get("weights")
    if weights is not None and len(np.unique(y[(weights > 0) & (y >= 0)])) < 2:
        weights = np.maximum(weights, 1.0)  # two changes together left one class only
    solver = drawn.get("solver", draw_solver(rng))
    n_classes = len(np.unique(y[y >= 0]))
    count = drawn.get("n_components", _draw_count(rng, n_classes, d))
    if isinstance(count, str) and count == "None":
        count = None
    unlabeled = drawn.get("unlabeled")
    if rng.random() < 0.2:  # labels of text
        y = np.array([f"class {label:04d}" for label in y])
        unlabeled = None if unlabeled is None else "class -001"
    return Problem(
        seed,
        family.__name__,
        X,
        y,
        count if isinstance(count, str) or count is None else int(count),
        solver,
        kind,
        weights,
        unlabeled,
        drawn.get("unlabeled_weight", 1.0),
        exponent=int(rng.choice([-40, -7, 1, 40])) if rng.random() < 0.15 else 0,
        again=bool(rng.random() < 0.1),
        **_draw_schedule(rng, n_classes, len(X)),
    )


def _draw_schedule(rng, n_classes, n):
    schedule = {}
    if rng.random() < 0.7:
        schedule["width"] = n_classes + int(rng.integers(0, 6))
        schedule["wide_passes"] = int(rng.choice([1, 3, 10**6]))
    if rng.random() < 0.5:
        schedule["block_rows"] = int(rng.integers(max(1, n // 6), n + 1))
    schedule["iterates"] = bool(rng.random() < 0.5)  # in "auto"
    return schedule


def _draw_count(rng, n_classes, d):
    match rng.integers(6):
        case 0:
            return "None"
        case 1 | 2:
            return "positive"
        case 3:
            return 1
        case 4:
            return max(1, min(d, n_classes - 1 - int(rng.integers(0, 3))))
        case _:
            return int(rng.integers(1, min(d, n_classes + 10) + 1))


# ---------------------------------------------------------------- the fit


class Rows:
    """Nothing but a shape, a dtype and rows."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __getitem__(self, index):
        return self.values[index]


@contextlib.contextmanager
def as_if_large(problem):
    """The schedule, the switches between forms and the blocks of large data."""
    solve, changes = krylov.solve, {}
    if problem.width is not None:
        changes = {"width": problem.width, "wide_passes": problem.wide_passes}

    def solve_narrowly(operator, request):
        return solve(operator, dataclasses.replace(request, **changes))

    with contextlib.ExitStack() as stack:

        def replace(owner, name, value):
            stack.enter_context(mock.patch.object(owner, name, value))

        replace(krylov, "solve", solve_narrowly)
        if problem.iterates:
            replace(_plan, "_schedules", always_iterating)
            replace(_route, "_costs", lambda *args: random_costs(problem.seed, *args))
        if problem.block_rows is not None:
            size = problem.block_rows * problem.X.shape[1] * problem.X.itemsize
            replace(_memory, "READ_BLOCK", size)
            replace(file_rows, "READ_BLOCK", size)
            replace(_memory, "PANEL_BYTES", 2 * size)
        yield


def always_iterating(form, problem):
    """A schedule for every form, however small the problem is."""
    if form == "gram" and not (problem.supervised and problem.n < problem.d):
        return []
    return [Schedule(min(32, problem.d), 3)]


def random_costs(seed, plan, dense, solver):
    """Costs by which "auto" turns to the next form at any time, or never."""
    if solver != "auto":
        return Costs()
    rng = np.random.default_rng(seed)
    forming, more = rng.choice([0.0, 1.0, 2.0, 4.0, np.inf], 2)
    ritz = float(rng.choice([0.0, 1e-7, 1e-5]))
    if plan.form == "krylov" and not _route._can_form(plan, dense):
        forming = np.inf
    return Costs(1.0, float(forming), 1.0, float(more), ritz)


def fit(problem, X=None):
    """The model of a problem, handed over as its kind says."""
    with as_if_large(problem):
        return _fit(problem, problem.X if X is None else X)


def _fit(problem, X):
    options = {
        "n_components": problem.n_components,
        "unlabeled": problem.unlabeled,
        "unlabeled_weight": problem.unlabeled_weight,
    }
    if problem.kind == "batches":
        return _fit_batches(problem, X, options)
    match problem.kind:
        case "F":
            X = np.asfortranarray(X)
        case "csr":
            X = sp.csr_array(X)
        case "rows":
            X = Rows(X)
        case "torch":
            import torch

            torch.set_num_threads(1)
            X = torch.asarray(X.astype(problem.dtype))
        case "strict":
            import array_api_strict

            X = array_api_strict.asarray(X.astype(problem.dtype))
        case "dask":
            import dask.array

            rows, columns = (max(1, size // 2) for size in X.shape)
            X = dask.array.from_array(X, chunks=(rows, columns))
    return slce_xp.fit(
        X, problem.y, solver=problem.solver, sample_weight=problem.weights, **options
    )


def _fit_batches(problem, X, options):
    rng = np.random.default_rng(problem.seed)
    order = rng.permutation(len(X))
    cuts = np.sort(rng.integers(1, len(X), int(rng.integers(0, 5)))) if len(X) > 1 else []
    estimator = slce_xp.SLCE(**options)
    for rows in np.split(order, cuts):
        if len(rows):
            weights = None if problem.weights is None else problem.weights[rows]
            estimator.partial_fit(X[rows], problem.y[rows], sample_weight=weights)
    return estimator.model_


# ---------------------------------------------------------------- the oracle


@dataclasses.dataclass
class Truth:
    """What the model must be, in units of 2**exponent for all that is quadratic in X."""

    exponent: int
    matrix: np.ndarray  # M, rounded to float64
    values: np.ndarray  # its eigenvalues, descending
    vectors: np.ndarray  # and eigenvectors, as rows
    scale: float  # tr S_t with absolute weights
    mean_square: float  # Σ w · ‖mean‖²
    mean_rounding: float  # what the rounding of the mean adds to M, over eps
    total_loss: float
    classes: np.ndarray
    counts: np.ndarray
    weights: np.ndarray  # of classes, longdouble
    n_unlabeled: int
    mean: np.ndarray  # longdouble
    centroids: np.ndarray
    largest: np.ndarray  # |x| among rows that count, by column


def find_truth(problem):
    """Moments in extended precision; zero weights are absent before anything is computed."""
    X, y = problem.X.astype(LONG), problem.y
    weights = np.ones(len(X)) if problem.weights is None else problem.weights
    keep = weights > 0
    X, y, weights = X[keep], y[keep], weights[keep].astype(LONG)
    known = np.ones(len(y), bool) if problem.unlabeled is None else y != problem.unlabeled
    classes, codes = np.unique(y[known], return_inverse=True)
    # Seen from the heaviest sample, then twice from the mean, for what rounding left of it.
    mean = X[np.argmax(weights)]
    rows = X - mean
    for _ in range(2):
        step = weights @ rows / weights.sum()
        rows, mean = rows - step, mean + step
    member = (codes == np.arange(len(classes))[:, None]).astype(LONG) * weights[known]
    class_weights = member.sum(axis=1)
    centroids = member @ rows[known] / class_weights[:, None]
    between = np.sqrt(class_weights)[:, None] * centroids
    spread = np.sqrt(weights)[:, None] * rows
    labelled, others = spread[known], spread[~known] * np.sqrt(LONG(problem.unlabeled_weight))
    scale = np.square(labelled).sum() + np.square(others).sum()
    exponent = int(np.frexp(scale)[1]) if scale > 0 else 0
    exponent += exponent % 2  # its root is a power of two as well
    stacked = np.concatenate([np.sqrt(LONG(2)) * between, others, labelled])
    stacked = np.ldexp(stacked, -exponent // 2)
    plus = len(between) + len(others)
    matrix = (gram(stacked[:plus]) - gram(stacked[plus:])).astype(np.float64)
    values, vectors = np.linalg.eigh(matrix)
    loss = np.square(between).sum() + np.square(others).sum()
    square = weights.sum() * np.square(mean).sum()
    # If the mean is off by δ, M is by −(qδᵀ + δqᵀ), with q = (1 + λ) Σ w (x − m) over samples with
    # a label, zero if all have one. A sum of n terms gives δ to eps of their mean size.
    pull = (
        np.zeros(1)
        if known.all()
        else (1 + LONG(problem.unlabeled_weight)) * (weights[known] @ rows[known])
    )
    size = np.sqrt(np.square(spread).sum() / weights.sum())
    mean_rounding = 2 * np.sqrt(np.square(pull).sum()) * size
    return Truth(
        exponent,
        matrix,
        values[::-1],
        vectors[:, ::-1].T,
        float(np.ldexp(scale, -exponent)),
        float(np.ldexp(square, -exponent)),
        float(np.ldexp(mean_rounding, -exponent)),
        float(np.ldexp(loss, -exponent)),
        classes,
        np.bincount(codes, minlength=len(classes)),
        class_weights,
        int((~known).sum()),
        mean,
        mean + centroids,
        np.abs(X).max(axis=0),
    )


def gram(rows):
    """RᵀR to 63 bits by float64 products of slices with 21 bits, whose sums are exact.

    NumPy multiplies matrices of longdouble a hundred times more slowly.
    """
    assert len(rows) < 2**11
    d = rows.shape[1]
    top = np.abs(rows).max(axis=0, initial=0)
    powers = np.frexp(top)[1]
    rest = np.ldexp(rows, -powers)
    slices = []
    for _ in range(4):
        rest = np.ldexp(rest, 21)
        whole = np.rint(rest)
        slices.append(whole.astype(np.float64))
        rest = rest - whole
    total = np.zeros((d, d), LONG)
    for i, j in ((0, 3), (1, 2), (0, 2), (1, 1), (0, 1), (0, 0)):  # the smallest first
        product = slices[i].T @ slices[j]
        product = product if i == j else product + product.T
        total += np.ldexp(product.astype(LONG), -21 * (i + j + 2))
    return np.ldexp(total, powers[:, None] + powers[None, :])


# ---------------------------------------------------------------- a careful fit


def fit_carefully(problem):
    """The scatter form in the dtype of X, without a digit more, as it should be computed.

    The judge accepts it on every problem: what it finds elsewhere is not asked of the impossible.
    """
    dtype = problem.dtype.type
    weights = np.ones(len(problem.X)) if problem.weights is None else problem.weights
    keep = weights > 0
    X, y, weights = problem.X[keep].astype(dtype), problem.y[keep], weights[keep]
    known = np.ones(len(y), bool) if problem.unlabeled is None else y != problem.unlabeled
    classes, codes = np.unique(y[known], return_inverse=True)
    # Powers of two keep squares within the range of the dtype, and round nothing.
    power, weight_power = int(np.frexp(np.abs(X).max())[1]), int(np.frexp(weights.max())[1])
    weight_power += weight_power % 2
    X = np.ldexp(X, -power)
    weights = np.ldexp(weights, -weight_power).astype(dtype)
    # From the heaviest sample: the mean may be no further from it than its rounding.
    shift = X[np.argmax(weights)]
    offset, rows = np.zeros_like(shift), X - shift
    for _ in range(2):
        step = weights @ rows / weights.sum()
        offset, rows = offset + step, rows - step
    member = (codes == np.arange(len(classes))[:, None]).astype(dtype) * weights[known]
    class_weights = member.sum(axis=1)
    centroids = member @ rows[known] / class_weights[:, None]
    between = np.sqrt(class_weights)[:, None] * centroids
    spread = np.sqrt(weights)[:, None] * rows
    labelled, others = spread[known], spread[~known] * np.sqrt(dtype(problem.unlabeled_weight))
    matrix = 2 * between.T @ between - labelled.T @ labelled + others.T @ others
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1], vectors[:, ::-1].T

    def squares(*parts):
        return sum(float(np.square(part, dtype=np.float64).sum()) for part in parts)

    d, most = len(values), min(len(classes) - 1, len(values))
    zero = ZERO * np.finfo(dtype).eps * squares(labelled, others)
    k = problem.n_components
    if k == "positive":
        k = int((values[: most if known.all() else d] > zero).sum())
    k = most if k is None else k
    square = 2 * power + weight_power
    return types.SimpleNamespace(
        components=vectors[:k],
        eigenvalues=np.ldexp(values[:k], square),
        mean=np.ldexp(shift + offset, power),
        centroids=np.ldexp(shift + offset + centroids, power),
        classes=classes,
        counts=np.bincount(codes),
        weights=np.ldexp(class_weights, weight_power),
        n_unlabeled=int((~known).sum()),
        n_positive=int((values[:k] > zero).sum()),
        total_loss=float(np.ldexp(LONG(squares(between, others)), square)),
        plan=types.SimpleNamespace(form="careful"),
        residuals=None,
    )


# ---------------------------------------------------------------- the judge


@dataclasses.dataclass
class Failure:
    seed: int
    kind: str
    family: str
    form: str
    text: str

    def __str__(self):
        return f"{self.kind}: {self.text}"


def run(seed):
    """Fit the problem of a seed and return its judge, who has all that is wrong with it."""
    problem = make_problem(seed)
    truth = find_truth(problem)
    judge = Judge(problem, truth)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = fit(problem)
        except Exception as error:
            judge.raised(error)
            return judge
    judge.warned(caught)
    judge.model(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if problem.again:
            judge.same_bits(model, fit(problem))
        if problem.exponent and judge.can_be_scaled():
            try:
                other = fit(problem, np.ldexp(problem.X, problem.exponent))
            except Exception as error:
                judge.fail("scaling", f"times 2^{problem.exponent}: {describe(error)}")
            else:
                judge.same_scaled(model, other)
    return judge


class Judge:
    """Compares a model with the truth and collects what is wrong with it."""

    def __init__(self, problem, truth):
        self.problem, self.truth = problem, truth
        self.info = np.finfo(problem.dtype)
        self.eps = float(self.info.eps)
        self.failures = []
        self.form = problem.solver
        self.unconverged = self.uncertain = False
        self.out_of_range = self.loses_digits = False
        # Only extended precision could have a better mean.
        rounding = MEAN_SQUARE * self.eps**2 * truth.mean_square + self.eps * truth.mean_rounding
        size = truth.scale
        if problem.kind == "csr":
            size += float(np.sqrt(truth.scale * truth.mean_square))
        self.zero = ZERO * self.eps * size + rounding
        self.error = EIGENVALUE * self.eps * size + rounding
        self.tol = 0.0  # residuals of an iteration
        self.tolerated = 0.0  # the angle at which the Gram form does not refine eigenvectors
        # What the dtype cannot represent: it is rounded to zero, or cannot be returned at all.
        scale = np.ldexp(LONG(truth.scale), truth.exponent)
        weight = truth.weights.sum()
        self.tiny = float(np.ldexp(LONG(self.info.smallest_normal), -truth.exponent))
        most, least = LONG(self.info.max), LONG(self.info.smallest_normal) / self.eps
        self.representable = scale == 0 or least < scale < most / 4
        self.representable &= least < weight < most / 4

    def fail(self, kind, text):
        form = self.form
        # Sparse data are summed about the origin, and batches moved to a common mean.
        form = {"batches": "batches", "csr": f"{form} csr"}.get(self.problem.kind, form)
        self.failures.append(Failure(self.problem.seed, kind, self.problem.family, form, text))

    def raised(self, error):
        # LinAlgError is a ValueError, too, and NumPy's own do not say what must be otherwise.
        if type(error) is ValueError and "must" in str(error) and not self.representable:
            return
        self.fail("raised", describe(error))

    def warned(self, caught):
        for warning in caught:
            text = str(warning.message)
            self.out_of_range |= "must be within the range" in text
            if issubclass(warning.category, slce_xp.ConvergenceWarning):
                self.unconverged = self.uncertain = True
            elif UNCERTAIN.search(text):
                self.uncertain = True
                self.loses_digits |= "loses digits" in text
            elif not issubclass(warning.category, UserWarning):
                self.fail("stray warning", f"{warning.category.__name__}: {text[:200]}")

    def model(self, model):
        self.form = model.plan.form
        if model.residuals is not None:
            norm = float(np.abs(self.truth.values).max())
            self.tol = (5e-7 if self.eps < 1e-10 else 32.0 * self.eps) * norm
        elif self.form == "gram":
            self.tolerated = 0.5e-6 if self.eps < 1e-10 else 50.0 * self.eps
        arrays = {name: as_numpy(getattr(model, name)) for name in ARRAYS}
        for name, array in arrays.items():
            if self.out_of_range and name in ("eigenvalues", "weights"):
                continue
            if not np.isfinite(array).all():
                self.fail("not finite", f"{name} has {(~np.isfinite(array)).sum()} such entries")
        if self.failures and self.failures[-1].kind == "not finite":
            return
        self.statistics(arrays, model)
        if self.out_of_range:  # the components are to be right all the same
            A = arrays["components"].astype(np.float64)
            quotients = ((A @ self.truth.matrix) * A).sum(axis=1).astype(LONG)
            arrays["eigenvalues"] = np.ldexp(quotients, self.truth.exponent)
        self.count(model.n_positive, arrays["eigenvalues"], model)
        self.eigenpairs(arrays["components"], arrays["eigenvalues"])
        self.stated_angle(model, arrays["components"], arrays["eigenvalues"])
        if model.residuals is not None and len(model.residuals) == len(arrays["components"]):
            self.residuals(model.residuals, arrays["components"], arrays["eigenvalues"])

    def statistics(self, arrays, model):
        truth, eps = self.truth, MOMENT * self.eps
        for name in ("components", "eigenvalues", "mean", "centroids"):
            if name == "eigenvalues" and (self.out_of_range or not self.holds(arrays[name])):
                continue  # they may be of float64, and must be right in any case
            if arrays[name].dtype != self.problem.dtype:
                self.fail("dtype", f"{name} are {arrays[name].dtype}")
        if list(model.classes) != list(truth.classes):
            self.fail("classes", f"{list(model.classes)[:5]}, not {list(truth.classes)[:5]}")
            return
        if list(arrays["counts"]) != list(truth.counts):
            self.fail("counts", f"{arrays['counts'][:9]}, not {truth.counts[:9]}")
        if model.n_unlabeled != truth.n_unlabeled:
            self.fail("counts", f"{model.n_unlabeled} unlabelled, not {truth.n_unlabeled}")
        smallest = LONG(self.info.smallest_normal)
        for name in ("mean", "centroids"):
            allowed = eps * truth.largest + smallest
            wrong = np.abs(arrays[name].astype(LONG) - getattr(truth, name)) / allowed
            if wrong.max() > 1:
                self.fail(name, f"{wrong.max():.1e} times what is allowed")
        wrong = np.abs(arrays["weights"].astype(LONG) - truth.weights)
        if self.representable and (wrong > eps * truth.weights).any():
            self.fail("weights", f"{(wrong / truth.weights).max():.1e} of a class's weight")
        loss = self.scaled(model.total_loss)
        wrong = abs(loss - truth.total_loss)
        if wrong > self.error + self.tiny and not (self.out_of_range or self.loses_digits):
            self.fail("total_loss", f"{wrong / self.error:.1e} times what is allowed: {loss:.6e}")

    def holds(self, values):
        """Whether the dtype can represent all of the values that are not zero."""
        size = np.abs(values[values != 0])
        return ((size >= self.info.smallest_normal) & (size <= self.info.max)).all()

    def count(self, n_positive, eigenvalues, model):
        """How many are positive, and returned where only those were asked for."""
        problem, values = self.problem, self.truth.values
        d, n_classes = len(values), len(self.truth.classes)
        k = problem.n_components
        if k is None:
            k = min(n_classes - 1, d)
        most = d if self.truth.n_unlabeled else min(n_classes - 1, d)
        among = values[: most if k == "positive" else k]
        low, high = int((among > self.zero).sum()), int((among >= -self.zero).sum())
        bounds = getattr(model, "n_positive_bounds", None)
        # Bounds that are stated must hold; if only positive ones are returned, with a warning.
        excused = False
        if bounds is not None and (self.uncertain or k != "positive"):
            excused = bounds[0] <= high and low <= bounds[1]
        if not low <= n_positive <= high and not excused:
            near = values[max(0, min(low, n_positive) - 1) :][:3]
            self.fail(
                "positive" if k == "positive" else "n_positive",
                f"{n_positive}, not {low if low == high else f'{low} to {high}'} of "
                f"{len(among)}; eigenvalues from there: {near / self.truth.scale} of tr S_t",
            )
        expected = n_positive if k == "positive" else k
        if len(eigenvalues) != expected:
            self.fail("components", f"{len(eigenvalues)} were returned, not {expected}")
        values = self.scaled(eigenvalues)
        above = (int((values > self.zero + self.tiny).sum()), int((values > -self.tiny).sum()))
        possible = n_positive if bounds is None else bounds[1]
        if self.out_of_range:  # these are the oracle's own quotients, which are rounded
            above = (above[0], int((values > -self.zero).sum()))
        elif self.unconverged and model.residuals is not None:
            # The count is one of eigenvalues of M, proved by Ritz values. The quotient of a vector
            # that has not converged may fall short of its eigenvalue by the residual.
            reach = values + np.asarray(model.residuals) * np.abs(self.truth.values).max()
            above = (above[0], int((reach > -self.tiny).sum()))
        if not (n_positive <= above[1] and above[0] <= possible):
            self.fail("n_positive", f"{n_positive}, but {above} are among the returned")

    def eigenpairs(self, components, eigenvalues):
        truth = self.truth
        values, A = self.scaled(eigenvalues), components.astype(np.float64)
        k, d = A.shape
        if k > d or d != len(truth.values):
            self.fail("components", f"shape {A.shape}")
            return
        if k == 0:
            return
        skew = np.abs(A @ A.T - np.eye(k)).max()
        if skew > 100 * self.eps * np.sqrt(d):
            self.fail("orthonormal", f"{skew / self.eps:.1e} eps from it")
        if self.loses_digits:  # how many depends on the mean, and is not stated
            return
        # Of a Ritz value the error is of second order.
        error = self.error + (self.tol if self.eps > 1e-10 else 1e-5 * self.tol)
        allowed = error + self.tiny
        if (np.diff(values) > allowed).any():
            self.fail("order", "the eigenvalues are not descending")
        quotients = ((A @ truth.matrix) * A).sum(axis=1) / np.square(A).sum(axis=1)
        wrong = np.abs(quotients - values).max()
        if wrong > allowed:
            self.fail("quotient", f"{wrong / error:.1e} times what is allowed")
        if self.unconverged:
            return
        wrong = np.abs(values - truth.values[:k])
        if wrong.max() > allowed:
            first = int(np.argmax(wrong > allowed))
            self.fail(
                "eigenvalues",
                f"the {first}th is {values[first]:.6e}, not {truth.values[first]:.6e}: "
                f"{wrong[first] / error:.1e} times what is allowed",
            )
        self.angle(A, self.error + self.tol)

    def stated_angle(self, model, components, eigenvalues):
        """The bound of the angle that the model states, which no warning excuses."""
        bound = getattr(model, "angle_bound", None)
        if bound is None:  # of a careful fit
            return
        A, values = components.astype(np.float64), self.scaled(eigenvalues)
        if not (values < 0).any():  # directions of the null space do not count
            A = A[values > 0]
        count = len(A)
        if count == 0:
            return
        certain = not self.unconverged and self.eps < 1e-10 and not self.truth.n_unlabeled
        if certain and model.n_positive == len(values) and bound > 1e-5:
            self.fail("angle bound", f"{bound:.1e} without a warning")
        if not np.isfinite(bound):
            return
        exact = np.append(self.truth.values, -np.inf)
        gap = exact[count - 1] - exact[count]
        norm = np.abs(self.truth.values).max()
        known = 32 * np.finfo(float).eps * norm / gap if gap > 0 else np.inf  # of the oracle
        B = self.truth.vectors[:count]
        sine = float(np.linalg.norm(A - (A @ B.T) @ B, 2))
        if sine > np.sin(min(bound, np.pi / 2)) + known + 8 * self.eps * np.sqrt(A.shape[1]):
            self.fail("angle bound", f"of {count}: {bound:.1e} is stated, the sine is {sine:.1e}")

    def residuals(self, reported, components, eigenvalues):
        """What the matrix-free form says of itself, which a warning does not change.

        Far below the tolerance it need not be exact.
        """
        A, values = components.astype(np.float64), self.scaled(eigenvalues)
        residual = A @ self.truth.matrix - values[:, None] * A
        largest = np.abs(residual).max(initial=1e-300)  # squares may be out of range
        lengths = largest * np.linalg.norm(residual / largest, axis=1)
        norm = np.abs(self.truth.values).max()
        # Their rounding, as the model's documentation has it.
        rounding = self.error + 2.0 * self.eps * np.abs(values)
        n, d = self.problem.X.shape
        if n < d:
            rounding = rounding * np.maximum(1.0, norm / np.maximum(np.abs(values), 1e-300))
        allowed = np.maximum(2.0 * reported * norm, self.tol) + rounding + self.tiny
        if (lengths > allowed).any():
            worst = int(np.argmax(lengths / allowed))
            self.fail(
                "residuals",
                f"{lengths[worst] / norm:.1e}, and {reported[worst]:.1e} is reported",
            )

    def angle(self, A, error):
        """The leading subspace, as far as a gap tells it from the rest."""
        values = np.append(self.truth.values, -np.inf)
        for count in range(len(A), 0, -1):
            gap = values[count - 1] - values[count]
            # The residuals of `count` vectors add up; a backward error does not.
            bound = (2.0 * error + 2.0 * np.sqrt(count) * self.tol) / gap if gap > 0 else np.inf
            if bound < 0.1:
                B = self.truth.vectors[:count]
                outside = A[:count] - (A[:count] @ B.T) @ B
                angle = float(np.linalg.norm(outside, 2))
                if angle > bound + self.tolerated + 100 * self.eps * np.sqrt(A.shape[1]):
                    self.fail(
                        "subspace", f"of {count}: sine {angle:.1e}, {angle / bound:.1e} × allowed"
                    )
                return

    def same_bits(self, model, other):
        for name in ARRAYS:
            if not np.array_equal(as_numpy(getattr(model, name)), as_numpy(getattr(other, name))):
                self.fail("same bits", f"{name} differ between two fits")

    def can_be_scaled(self):
        """Whether X times that power of two, and its squares, are as far from the limits."""
        if self.problem.X.dtype.kind != "f" or not self.representable:
            return False
        if self.problem.kind == "torch":  # MKL's products depend on the alignment of memory
            return False
        size = np.abs(self.problem.X[self.problem.X != 0])
        if not size.size or self.truth.scale == 0:
            return False
        exponent = self.problem.exponent
        ends = [size.min(), size.max()]
        low, high = (int(np.frexp(end)[1]) + exponent for end in ends)
        square = self.truth.exponent + 2 * exponent
        # eps of the square is still a normal number, as it was before, and so is the square of the
        # smallest number.
        digits = self.info.nmant + 8
        return (
            self.info.minexp < 2 * min(low, low - exponent)
            and high < self.info.maxexp - 2
            and self.info.minexp + digits < square < self.info.maxexp - 2
            and self.info.minexp + digits < self.truth.exponent
        )

    def same_scaled(self, model, other):
        exponent = self.problem.exponent
        powers = {"components": 0, "eigenvalues": 2, "mean": 1, "centroids": 1}
        for name, power in powers.items():
            here, there = (as_numpy(getattr(m, name)) for m in (model, other))
            if here.shape != there.shape:
                self.fail("scaling", f"{name}: {here.shape} and, times 2^{exponent}, {there.shape}")
                return
            # Products of two small numbers may leave the range in one of the two only.
            wrong = np.abs(np.ldexp(here, power * exponent) - there)
            if (wrong > self.info.smallest_normal / self.eps).any():
                self.fail("scaling", f"{name} of X times 2^{exponent} are not the same bits")
                return

    def scaled(self, values):
        """In the units of the truth, as float64."""
        values = np.ldexp(np.asarray(values).astype(LONG), -self.truth.exponent)
        return values.astype(np.float64)


def describe(error):
    where = traceback.extract_tb(error.__traceback__)[-1]
    file = where.filename.rsplit("/", 1)[-1]
    return f"{type(error).__name__}: {str(error)[:200]} ({file}:{where.lineno})"


ARRAYS = ("components", "eigenvalues", "mean", "centroids", "counts", "weights")


def as_numpy(array):
    return np.asarray(array.numpy() if hasattr(array, "numpy") else array)


# ---------------------------------------------------------------- the command


def run_many(seeds):
    """The failures of some problems, and how many were excused by a warning."""
    failures, excused = [], 0
    with np.errstate(all="ignore"):  # of the oracle; what the library lets out is a warning
        for seed in seeds:
            judge = run(seed)
            failures += judge.failures
            excused += judge.uncertain
    return failures, excused


def show(seed):
    """Print one problem and all that is wrong with it; return whether that is nothing."""
    print(make_problem(seed))
    failures, excused = run_many([seed])
    for failure in failures:
        print(f"  {failure.form}: {failure}")
    print("fails" if failures else "passes", "with a warning" if excused else "")
    return not failures


def summary(failures):
    """Counts by kind, family and form, each with a seed to begin with."""
    groups = collections.defaultdict(set)
    for failure in failures:
        groups[failure.kind, failure.family, failure.form].add(failure.seed)
    lines = [f"{'kind':14} {'family':18} {'form':11} {'problems':>8}  the first"]
    for (kind, family, form), seeds in sorted(groups.items()):
        lines.append(f"{kind:14} {family:18} {form:11} {len(seeds):8}  {min(seeds)}")
    kinds = collections.Counter(kind for kind, _ in {(f.kind, f.seed) for f in failures})
    lines.append("by kind: " + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="Fit random problems and judge the models.")
    parser.add_argument("--count", type=int, default=20000, help="problems to fit")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--only", type=int, help="show the problem of this seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quiet", action="store_true", help="no line for each failure")
    options = parser.parse_args()
    if options.only is not None:
        sys.exit(not show(options.only))

    print(f"slce_xp from {slce_xp.__path__[0]}")
    stop = options.seed + options.count
    chunks = [range(s, min(s + 50, stop)) for s in range(options.seed, stop, 50)]
    failures, excused, done, start = [], 0, options.seed, time.perf_counter()
    with concurrent.futures.ProcessPoolExecutor(options.processes) as pool:
        try:
            results = pool.map(run_many, chunks)
            for chunk, (found, warned) in zip(chunks, results, strict=True):
                failures += found
                excused += warned
                for failure in [] if options.quiet else found:
                    print(f"python tests/fuzz.py --only {failure.seed}  # {failure}", flush=True)
                done = chunk[-1] + 1
                if (done - options.seed) % 1000 < 50:
                    speed = (done - options.seed) / (time.perf_counter() - start)
                    failed = len({failure.seed for failure in failures})
                    print(f"... {done - options.seed} problems, {failed} fail, {speed:.0f}/s")
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            print(f"to go on: python tests/fuzz.py --seed {done} --count {stop - done}")
    failed = len({failure.seed for failure in failures})
    seconds = time.perf_counter() - start
    if failures:
        print(summary(failures))
    print(
        f"{failed} of {done - options.seed} problems fail, {excused} come with a warning that "
        f"excuses what is inexact ({seconds:.0f} s)"
    )
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
