"""Random problems at the edges of the arithmetic, an oracle with more digits, and a judge.

``python tests/fuzz.py --count 20000`` fits that many problems on two processes and prints which
of them broke a bound, by kind of failure, family of problem and form of the eigenproblem. Every
seed is one problem: ``python tests/fuzz.py --only SEED`` shows one.

The judge goes by the promise of the library: results are exact for data perturbed by rounding,
and "positive" means "above a stated level". With eps of the dtype that sums are taken in, m the
mean and T = tr S_t with absolute weights, which bounds ‖M‖:

- ρ₀ = c·(eps·T + eps²·W‖m‖² + other terms), c = 16 for scatter, 32 for forms that multiply rows.
  Rows that are not shifted, as sparse ones, add eps·2√(T·W)·‖m‖; unlabelled samples add what
  rounding of the mean changes in M. ρ = ρ₀ + `residual` of the model;
- `residual` is at least the norm of M·V − V·diag(values) of the positive components, but for ρ₀;
- `zero_level` is 2ρ for scatter, 64ρ for Gram, 2(ρ₀ + tol·T) for the iteration, within a factor;
  an iteration that does not warn has a residual of at most tol·T or a few ρ₀;
- `n_positive_bounds` contain the number of exact eigenvalues above `zero_level`;
- eigenvalues are within ρ of the exact ones as far as a level is proved, and in any case within ρ
  of the Rayleigh quotients of their components;
- the first j components are within `angle_bounds[j - 1]` of the exact leading subspace, and the
  bound is at most 4ρ over the gap if that is small;
- mean and centroids: 64·eps of the largest entry of their column among rows that count;
- the same bits for the same input, and for X times a power of two.

Nothing excuses an answer outside of them; an iteration that stops at `max_iter` warns and states a
larger residual. Eigenvalues and weights beyond the range of float32 are float64, and beyond that of
float64 zero or infinite, with a warning.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import importlib.util
import sys
import time
import traceback
import types
import warnings
from unittest import mock

import numpy as np
import scipy.sparse as sp

import slce_xp

LONG = np.longdouble
DOUBLE = np.finfo(np.float64)
ROUNDING = {"scatter": 16.0, "gram": 32.0, "krylov": 32.0}  # c
LEVEL = {"scatter": 2.0, "gram": 64.0}  # zero_level over ρ
MOMENT = 64.0
TOL = 1e-6  # the default backward error of an iteration, relative to T


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
    tol: float | None = None
    max_iter: int = 50
    # Small problems are solved by a start block as wide as they are, and read in one block. So
    # that they are solved as large ones: the width of the start block, and rows to be read.
    width: int | None = None
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
            parts.append(f"a start block of {self.width}")
        if self.tol is not None:
            parts.append(f"tol={self.tol:.1e}")
        if self.max_iter != 50:
            parts.append(f"max_iter={self.max_iter}")
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
MODULES = {"torch": "torch", "strict": "array_api_strict", "dask": "dask", "batches": "sklearn"}


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
    if rng.random() < 0.5:
        schedule["block_rows"] = int(rng.integers(max(1, n // 6), n + 1))
    if rng.random() < 0.2:
        schedule["tol"] = float(log_uniform(rng, -13, -2))
    if rng.random() < 0.05:
        schedule["max_iter"] = int(rng.integers(1, 6))
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
    """The start block and the blocks of rows of large data, for a small problem."""
    changes = []
    if problem.width is not None:
        changes.append(("slce_xp.core._krylov", {"WIDTH": problem.width}))
    if problem.block_rows is not None:
        size = problem.block_rows * problem.X.shape[1] * problem.X.itemsize
        changes.append(
            ("slce_xp._planning.problem", {"READ_BLOCK": size, "PANEL_BYTES": 2 * size}),
        )
        changes.append(("slce_xp._data.file_rows", {"READ_BLOCK": size}))
    with contextlib.ExitStack() as stack:
        for module, values in changes:
            stack.enter_context(mock.patch.multiple(module, create=True, **values))
        yield


def fit(problem, X=None):
    """The model of a problem, handed over as its kind says."""
    with as_if_large(problem):
        return _fit(problem, problem.X if X is None else X)


def _fit(problem, X):
    options = {
        "n_components": problem.n_components,
        "unlabeled": problem.unlabeled,
        "unlabeled_weight": problem.unlabeled_weight,
        "tol": TOL if problem.tol is None else problem.tol,
        "max_iter": problem.max_iter,
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
    mean_square: float  # Σ w · ‖mean‖², with λ for unlabelled samples
    plain_square: float  # the same without λ
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
    total = np.where(known, 1, LONG(problem.unlabeled_weight)) @ weights
    square = np.square(mean).sum()
    # If the mean is off by δ, M is by −(qδᵀ + δqᵀ), with q = (1 + λ) Σ w (x − m) over samples with
    # a label, zero if all have one. A sum of n terms gives δ to eps of their mean size.
    pull = (
        np.zeros(1)
        if known.all()
        else (1 + LONG(problem.unlabeled_weight)) * (weights[known] @ rows[known])
    )
    size = np.sqrt(np.square(spread).sum() / weights.sum()) + np.sqrt(square)
    mean_rounding = 2 * np.sqrt(np.square(pull).sum()) * size
    return Truth(
        exponent,
        matrix,
        values[::-1],
        vectors[:, ::-1].T,
        float(np.ldexp(scale, -exponent)),
        float(np.ldexp(total * square, -exponent)),
        float(np.ldexp(weights.sum() * square, -exponent)),
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


def fit_carefully(problem, sums="float64"):
    """The scatter form as it should be computed, with sums in a given dtype, not a digit more.

    The judge accepts it on every problem: what it finds elsewhere is not asked of the impossible.
    """
    dtype, eps = np.dtype(sums).type, float(np.finfo(sums).eps)
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
    factor = problem.unlabeled_weight
    labelled, others = spread[known], spread[~known] * np.sqrt(dtype(factor))
    matrix = 2 * between.T @ between - labelled.T @ labelled + others.T @ others
    values, vectors = (part.astype(np.float64) for part in np.linalg.eigh(matrix))
    values, vectors = values[::-1], vectors[:, ::-1].T

    def squares(*parts):
        return sum(float(np.square(part, dtype=np.float64).sum()) for part in parts)

    mean, size = shift + offset, float(weights.sum())
    total = float(weights[known].sum()) + factor * float(weights[~known].sum())
    pull = 0.0
    if not known.all():
        pull = 2 * (1 + factor) * squares(weights[known] @ rows[known]) ** 0.5
        pull *= (squares(spread) / size) ** 0.5 + squares(mean) ** 0.5
    scale, square = squares(labelled, others), total * squares(mean)
    rho = rounding_level("scatter", eps, scale, square, pull, is_shifted=problem.kind != "csr")
    zero = LEVEL["scatter"] * rho
    d, most = len(values), min(len(classes) - 1, len(values))
    k, possible = problem.n_components, most if known.all() else d
    if k == "positive":
        k = int((values[:possible] > zero + rho).sum())
    k = most if k is None else k
    among = values[: min(possible, k if problem.n_components != "positive" else d)]
    low, high = (int((among > level).sum()) for level in (zero + rho, zero - rho))
    gaps = values[:k] - np.append(values, -np.inf)[1 : k + 1] - rho
    sines = np.divide(rho, gaps, out=np.ones(k), where=gaps > rho)
    angles = np.where(sines < 1, np.arcsin(sines), np.inf)
    angles += np.sqrt(np.arange(1, k + 1)) * np.finfo(problem.dtype).eps
    exponent = 2 * power + weight_power

    def in_units(values):
        return np.ldexp(np.asarray(values, LONG), exponent).astype(np.float64)

    return types.SimpleNamespace(
        components=vectors[:k].astype(problem.dtype),
        eigenvalues=in_units(values[:k]),
        mean=np.ldexp(mean, power).astype(problem.dtype),
        centroids=np.ldexp(mean + centroids, power).astype(problem.dtype),
        classes=classes,
        counts=np.bincount(codes),
        weights=np.ldexp(class_weights.astype(np.float64), weight_power),
        n_unlabeled=int((~known).sum()),
        n_positive=low,
        n_positive_bounds=(low, high),
        zero_level=float(in_units(zero)),
        residual=0.0,
        angle_bounds=angles,
        angle_bound=float(angles[-1]) if k else 0.0,
        total_loss=float(in_units(squares(between, others))),
        plan=types.SimpleNamespace(form="scatter", sums=sums),
    )


def rounding_level(form, eps, scale, mean_square, mean_rounding, is_shifted):
    """ρ₀: T, W‖m‖² and what rounding of the mean adds to M if some samples are unlabelled."""
    size = eps * scale + eps**2 * mean_square + eps * mean_rounding
    if not is_shifted:
        size += 2 * eps * float(np.sqrt(scale) * np.sqrt(mean_square))
    return ROUNDING[form] * size


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
    if model.plan.sums != "float64":  # no problem is solved on an accelerator
        judge.fail("sums", f"are {model.plan.sums}")
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
    """Compares a model with the truth and collects what is wrong with it.

    All that it compares is in the units of the truth. Of a model: `rounding` is ρ₀, `rho` is ρ,
    `level` the stated level of zero.
    """

    def __init__(self, problem, truth):
        self.problem, self.truth = problem, truth
        self.info = np.finfo(problem.dtype)
        self.eps = float(self.info.eps)  # of what is returned
        self.failures = []
        self.form = problem.solver
        self.unconverged = self.out_of_range = False
        self.norm = float(np.abs(truth.values).max())
        self.tiny = self.smallest(np.float64)
        self.oracle = 8 * DOUBLE.eps * self.norm + self.tiny  # its own rounding
        # What the dtype cannot represent is rounded to zero, or cannot be returned at all.
        scale = np.ldexp(LONG(truth.scale), truth.exponent)
        weight = truth.weights.sum()
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
                self.unconverged = True
            elif not issubclass(warning.category, UserWarning):
                self.fail("stray warning", f"{warning.category.__name__}: {text[:200]}")

    def model(self, model):
        self.form = model.plan.form
        if self.unconverged and self.form != "krylov":
            self.fail("stray warning", "a ConvergenceWarning, but nothing iterates")
        arrays = {name: as_numpy(getattr(model, name)) for name in ARRAYS}
        if not self.is_finite(model, arrays):
            return
        self.rounding = self.rounding_of(model)
        if self.out_of_range:  # what cannot be represented is not judged, but the components are
            A = arrays["components"].astype(np.float64)
            quotients = ((A @ self.truth.matrix) * A).sum(axis=1).astype(LONG)
            arrays["eigenvalues"] = np.ldexp(quotients, self.truth.exponent)
            self.level, self.residual = self.rounding, 2 * self.tol * self.truth.scale
            self.rho = self.rounding + self.residual
        else:
            self.level, self.residual = self.scaled([model.zero_level, model.residual])
            self.rho = self.rounding + self.residual
            self.zero_level(model)
        self.statistics(arrays, model)
        self.count(model, len(arrays["eigenvalues"]))
        self.eigenpairs(model, arrays["components"], arrays["eigenvalues"])

    def is_finite(self, model, arrays):
        wrong = [
            f"{name} has {(~np.isfinite(array)).sum()} such entries"
            for name, array in arrays.items()
            if not (self.out_of_range and name in ("eigenvalues", "weights"))
            and not np.isfinite(array).all()
        ]
        if not self.out_of_range:
            stated = {name: getattr(model, name) for name in ("zero_level", "residual")}
            wrong += [f"{name} is {x}" for name, x in stated.items() if not 0 <= x < np.inf]
        if np.isnan(model.angle_bounds).any():
            wrong.append(f"angle_bounds are {model.angle_bounds}")
        for text in wrong:
            self.fail("not finite", text)
        return not wrong

    # ------------------------------------------------------------ levels

    @property
    def tol(self):
        return TOL if self.problem.tol is None else self.problem.tol

    def rounding_of(self, model, *, most=False, least=False):
        """ρ₀; with the most or the least of the terms that can be taken in another way."""
        truth, is_sparse = self.truth, self.problem.kind == "csr"
        square = truth.mean_square
        if most:
            square = max(square, truth.plain_square)
        elif least:
            square = min(square, truth.plain_square)
            is_sparse &= self.form != "scatter"  # dense blocks of its rows may be shifted
        eps = float(np.finfo(model.plan.sums).eps)
        # Squares of sparse rows are not shifted, either: T is known up to their rounding.
        scale = truth.scale + (16 * eps * square if most and is_sparse else 0.0)
        # Dense rows near the origin need not be shifted before they are multiplied.
        is_near = not least and self.form != "scatter" and square <= 4.1 * scale
        is_shifted = not (is_sparse or is_near)
        return rounding_level(self.form, eps, scale, square, truth.mean_rounding, is_shifted)

    def zero_level(self, model):
        """The stated level is that of the promise; T may be taken about a centre near the mean."""
        if self.truth.scale == 0:  # any level will do
            return
        least, most = (self.rounding_of(model, **{name: True}) for name in ("least", "most"))
        if self.form == "krylov":
            tolerated = self.tol * self.truth.scale
            least, most = least + tolerated, 4 * (2 * (most + tolerated)) + 2 * self.residual
            stops = max(tolerated, 4 * self.rounding)
            if self.residual > 1.1 * stops + self.tiny and not self.unconverged:
                self.fail(
                    "not converged", f"{self.residual:.1e} without a warning, not {stops:.1e}"
                )
        else:
            factor = LEVEL[self.form]
            least = factor / 2 * (least + self.residual)
            # Samples without a label move the mean, and may count next to nothing in T.
            most = (4 if self.truth.n_unlabeled else 2) * factor * (most + self.residual)
        if not least - self.tiny <= self.level <= most + self.tiny:
            self.fail("zero level", f"{self.level:.3e}, not {least:.3e} to {most:.3e}")

    @property
    def first(self):
        """The largest number of components that may be asked for: of positive ones, or k."""
        k, d, n_classes = self.problem.n_components, len(self.truth.values), len(self.truth.classes)
        if k == "positive":
            return d if self.truth.n_unlabeled else min(n_classes - 1, d)
        return min(n_classes - 1, d) if k is None else k

    def proved(self, model):
        """How many leading eigenvalues are known to be those of the first components."""
        count, (low, high) = len(model.angle_bounds), model.n_positive_bounds
        if self.form == "scatter":
            return count
        finite = np.flatnonzero(np.isfinite(model.angle_bounds))
        counted = low if self.counts_all(low, high) else 0
        return min(count, max(counted, finite[-1] + 1 if finite.size else 0))

    def counts_all(self, low, high):
        """Whether no more eigenvalues exceed the level, rather than that no more were asked for."""
        all_there_are = not self.truth.n_unlabeled and low == len(self.truth.classes) - 1
        return low == high and (low < self.first or all_there_are or low == len(self.truth.values))

    # ------------------------------------------------------------ what is judged

    def statistics(self, arrays, model):
        truth, eps = self.truth, MOMENT * self.eps
        for name in ("components", "eigenvalues", "mean", "centroids"):
            allowed = [self.problem.dtype] + [np.dtype(float)] * (name == "eigenvalues")
            if arrays[name].dtype not in allowed and not (
                name == "eigenvalues" and self.out_of_range
            ):
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
        if not self.out_of_range:
            loss = self.scaled(model.total_loss)
            wrong, allowed = abs(loss - truth.total_loss), self.rounding + self.oracle
            if self.problem.kind == "csr":  # whose squares are not shifted
                allowed += 16 * DOUBLE.eps * truth.mean_square
            if wrong > allowed + 2 * self.eps * truth.total_loss * (self.eps > 1e-10):
                self.fail("total_loss", f"{wrong / allowed:.1e} × allowed: {loss:.6e}")

    def count(self, model, returned):
        """How many exact eigenvalues exceed the stated level, and how many are returned."""
        low, high = model.n_positive_bounds
        among = self.truth.values[: self.first]
        if model.n_positive != low or low > high:
            self.fail("n_positive", f"{model.n_positive}, with bounds {low} to {high}")
        expected = low if self.problem.n_components == "positive" else self.first
        if returned != expected:
            self.fail("components", f"{returned} were returned, not {expected}")
        if np.shape(model.angle_bounds) != (returned,):
            self.fail("components", f"{np.shape(model.angle_bounds)} angles of {returned}")
        elif returned and model.angle_bound != model.angle_bounds[-1]:
            self.fail("angle bound", f"{model.angle_bound} is not the last of them")
        if self.out_of_range:
            return

        def above(level):
            return int((among > level).sum())

        fewest, most = above(self.level + self.oracle), above(self.level - self.oracle)
        if low > most or high < fewest:
            self.fail(
                "bounds",
                f"{low} to {high}, not {fewest} of {len(among)}; the level is "
                f"{self.level / self.truth.scale:.3e} of T, eigenvalues from there: "
                f"{among[max(0, min(low, fewest) - 1) :][:3] / self.truth.scale}",
            )
        # Nothing but eigenvalues near the level may be left open.
        reach = 2 * self.rho + self.oracle
        fewest, most = above(self.level + reach), above(self.level - reach)
        if self.form == "scatter" and (low < fewest or high > most):
            self.fail("wide bounds", f"{low} to {high}, and {fewest} to {most} are near the level")

    def eigenpairs(self, model, components, eigenvalues):
        truth = self.truth
        values, A = self.scaled(eigenvalues), components.astype(np.float64)
        k, d = A.shape
        if k > d or d != len(truth.values):
            self.fail("components", f"shape {A.shape}")
            return
        if k == 0 or np.shape(model.angle_bounds) != (k,):
            return
        skew = np.abs(A @ A.T - np.eye(k)).max()
        if skew > 100 * self.eps * np.sqrt(d):
            self.fail("orthonormal", f"{skew / self.eps:.1e} eps from it")
        # Eigenvalues are rounded when they are returned, too.
        kind = eigenvalues.dtype if eigenvalues.dtype.kind == "f" else np.dtype(float)
        allowed = self.rho + self.oracle + self.smallest(kind)
        allowed = allowed + float(np.finfo(kind).eps) * np.abs(values)
        if (np.diff(values) > allowed[1:]).any():
            self.fail("order", "the eigenvalues are not descending")
        residual = A @ truth.matrix - values[:, None] * A
        quotients = ((A @ truth.matrix) * A).sum(axis=1) / np.square(A).sum(axis=1)
        # Rounding of components that are no eigenvectors changes their quotients.
        moved = 2 * self.eps * lengths(residual) + self.eps**2 * self.norm
        wrong = np.abs(quotients - values) - allowed - moved
        if wrong.max() > 0:
            self.fail("quotient", f"{(wrong / allowed).max() + 1:.1e} times what is allowed")
        self.stated_residual(residual[: model.n_positive])
        wrong = (np.abs(values - truth.values[:k]) - allowed)[: self.proved(model)]
        if wrong.size and wrong.max() > 0:
            first = int(np.argmax(wrong > 0))
            self.fail(
                "eigenvalues",
                f"number {first + 1} is {values[first]:.6e}, not {truth.values[first]:.6e}: "
                f"{wrong[first] / allowed[first] + 1:.1e} times what is allowed",
            )
        self.angles(model, A)

    def stated_residual(self, residual):
        """The stated residual is not less than that of the positive components."""
        if not len(residual):
            return
        found = norm(residual)
        returned = 2 * np.sqrt(len(residual)) * self.eps * self.norm
        allowed = 1.1 * self.residual + self.rounding + returned + self.oracle
        if found > allowed:
            self.fail(
                "residual",
                f"{found:.1e}, {self.residual:.1e} is stated and {allowed:.1e} allowed",
            )

    def angles(self, model, A):
        """The bounds of angles hold, and are small if the spectrum allows it."""
        exact = np.append(self.truth.values, -np.inf)
        inner = A @ self.truth.vectors.T
        low, high = model.n_positive_bounds
        # A Gram matrix with null directions leaves some counts open.
        tight = self.form == "scatter" or self.counts_all(low, high)
        for j, bound in enumerate(model.angle_bounds, 1):
            gap = exact[j - 1] - exact[j]
            if np.isfinite(bound):
                known = 32 * DOUBLE.eps * self.norm / gap if gap > 0 else np.inf  # of the oracle
                known += 8 * self.eps * np.sqrt(A.shape[1])
                sine = norm(inner[:j, j:])
                if sine > np.sin(min(bound, np.pi / 2)) + known:
                    self.fail("angle", f"of {j}: {bound:.1e} is stated, the sine is {sine:.1e}")
            gap = exact[j - 1] - max(exact[j], self.level)
            if tight and j <= low and gap > 1e4 * self.rho:
                most = 4 * self.rho / gap + 4 * np.sqrt(j) * self.eps
                if bound > most:
                    self.fail(
                        "wide angle",
                        f"of {j}: {bound:.1e} is stated, {most:.1e} follows from the gap",
                    )

    def same_bits(self, model, other):
        for name in ARRAYS:
            if not np.array_equal(as_numpy(getattr(model, name)), as_numpy(getattr(other, name))):
                self.fail("same bits", f"{name} differ between two fits")
        for name in STATED:
            if not np.array_equal(getattr(model, name), getattr(other, name)):
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
        if model.n_positive_bounds != other.n_positive_bounds:
            self.fail("scaling", f"bounds of the count of X times 2^{exponent} are not the same")
        powers = {"components": 0, "eigenvalues": 2, "mean": 1, "centroids": 1, "zero_level": 2}
        for name, power in powers.items():
            here, there = (as_numpy(getattr(m, name)) for m in (model, other))
            if here.shape != there.shape:
                self.fail("scaling", f"{name}: {here.shape} and, times 2^{exponent}, {there.shape}")
                return
            # Products of two small numbers may leave the range in one of the two only.
            wrong = np.abs(np.ldexp(here, power * exponent) - there)
            allowed = self.info.smallest_normal / self.eps
            if name == "eigenvalues":  # those of zero are rounding
                allowed += 1e-3 * np.ldexp(self.rounding, self.truth.exponent + 2 * exponent)
            if (wrong > allowed).any():
                self.fail("scaling", f"{name} of X times 2^{exponent} are not the same bits")
                return

    def scaled(self, values):
        """In the units of the truth, as float64."""
        values = np.ldexp(np.asarray(values).astype(LONG), -self.truth.exponent)
        return values.astype(np.float64)

    def smallest(self, dtype):
        """The smallest normal number of a dtype in the units of the truth."""
        return float(self.scaled(np.finfo(dtype).smallest_normal))


def lengths(rows):
    """Of each row: squares may be out of range."""
    largest = np.abs(rows).max(initial=1e-300)
    return largest * np.linalg.norm(rows / largest, axis=1)


def norm(matrix):
    """The spectral norm."""
    largest = np.abs(matrix).max(initial=1e-300)
    return float(largest * np.linalg.norm(matrix / largest, 2)) if matrix.size else 0.0


def describe(error):
    where = traceback.extract_tb(error.__traceback__)[-1]
    file = where.filename.rsplit("/", 1)[-1]
    return f"{type(error).__name__}: {str(error)[:200]} ({file}:{where.lineno})"


ARRAYS = ("components", "eigenvalues", "mean", "centroids", "counts", "weights")
STATED = ("zero_level", "residual", "n_positive_bounds", "angle_bounds")


def as_numpy(array):
    return np.asarray(array.numpy() if hasattr(array, "numpy") else array)


# ---------------------------------------------------------------- the command


def run_many(seeds):
    """The failures of some problems, and how many iterations stopped at `max_iter`."""
    failures, stopped = [], 0
    with np.errstate(all="ignore"):  # of the oracle; what the library lets out is a warning
        for seed in seeds:
            judge = run(seed)
            failures += judge.failures
            stopped += judge.unconverged
    return failures, stopped


def show(seed):
    """Print one problem and all that is wrong with it; return whether that is nothing."""
    print(make_problem(seed))
    failures, stopped = run_many([seed])
    for failure in failures:
        print(f"  {failure.form}: {failure}")
    print("fails" if failures else "passes", "and stopped at max_iter" if stopped else "")
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
    failures, stopped, done, start = [], 0, options.seed, time.perf_counter()
    with concurrent.futures.ProcessPoolExecutor(options.processes) as pool:
        try:
            results = pool.map(run_many, chunks)
            for chunk, (found, warned) in zip(chunks, results, strict=True):
                failures += found
                stopped += warned
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
        f"{failed} of {done - options.seed} problems fail, {stopped} iterations stopped at "
        f"max_iter ({seconds:.0f} s)"
    )
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
