"""The plan: integers in, the cheapest form out, and a bound on memory that holds."""

import dataclasses
import math
import re
import tracemalloc
import warnings

import numpy as np
import oracle
import pytest
import scipy.linalg  # noqa: F401 (so that no fit imports it while its memory is measured)

import slce_xp
from slce_xp import _backend
from slce_xp._planning import plan as _plan
from slce_xp._planning import sizes as _sizes
from slce_xp._planning.memory import COPY_SHARE, memory_of
from slce_xp._planning.schedule import Schedule
from slce_xp.core.rows import block_bytes

# samples, features, classes
TALL = [(11_000, 256, 10), (70_000, 784, 10), (100_000, 50, 5), (50_000, 500, 5_000), (150, 4, 3)]
WIDE = [(62, 2_000, 2), (200, 10_000, 2), (300, 20_531, 5), (400, 60_000, 3)]
SQUARE = [(6_000, 6_000, 10), (20_000, 20_000, 50), (100_000, 20_000, 20), (4_186, 13_488, 10)]


@pytest.mark.parametrize(
    ("form", "shape"),
    [("scatter", s) for s in TALL] + [("gram", s) for s in WIDE] + [("krylov", s) for s in SQUARE],
)
def test_form_depends_on_shape(form, shape):
    plan = slce_xp.plan(*shape)
    assert plan.form == form
    assert plan.width > 0 or form != "krylov"
    assert plan.n_components == min(shape[2] - 1, shape[1])


def test_plan_is_deterministic_and_frozen():
    first, second = slce_xp.plan(6000, 6000, 10), slce_xp.plan(6000, 6000, 10)
    assert first == second
    assert hash(first) == hash(second)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.form = "gram"


@pytest.mark.parametrize("shape", [TALL[0], WIDE[1], SQUARE[0]])
def test_plan_prints_its_cost_and_reason(shape):
    plan = slce_xp.plan(*shape, dtype="float32")
    text = str(plan)
    for part in [plan.form, plan.reason, f"{plan.flops:.2g} flops", f"about {plan.passes} pass"]:
        assert part in text
    assert f"{_sizes.format_bytes(plan.bytes)} in addition to X" in text
    assert all(f"{n}" in text for n in shape)
    assert all(other in plan.reason for other in {"scatter", "gram", "krylov"} - {plan.form})


@pytest.mark.parametrize("shape", [(50_000, 2_000, 10), (2_000, 90_000, 2), (20_000, 20_000, 50)])
def test_float32_takes_about_half_the_memory(shape):
    double, single = (slce_xp.plan(*shape, dtype=t).bytes for t in ("float64", "float32"))
    assert 0.45 * double <= single < 0.85 * double


@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("extra", [0, 1, 100])
def test_components_beyond_the_positive_ones_use_a_dense_form(shape, extra):
    assert slce_xp.plan(*shape, shape[2] - 1).form == "krylov"
    assert slce_xp.plan(*shape, shape[2] + extra).form != "krylov"


@pytest.mark.parametrize("n_classes", [1_501, 3_000, 6_000])
def test_very_many_classes_use_a_dense_form(n_classes):
    assert slce_xp.plan(6_000, 6_000, n_classes).form != "krylov"


@pytest.mark.parametrize("shape", [(150, 4, 3), (30, 400, 3), (900, 1100, 4)])
@pytest.mark.parametrize("n_components", [None, 1, "positive"])
def test_fit_follows_the_plan(dtype, shape, n_components):
    X, y = oracle.blobs(*shape, separation=9.0)
    model = slce_xp.fit(X.astype(dtype), y, n_components)
    assert model.plan == slce_xp.plan(*shape, n_components, dtype=dtype)
    assert model.solver == model.plan.form


# ---------------------------------------------------------------- max_memory


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("1.5 GiB", 3 * 2**29),
        (10**9, 10**9),
        ("512mb", 512 * 10**6),
        (" 3 TiB ", 3 * 2**40),
        ("4096", 4096),
        ("100 kB", 10**5),
        (np.int64(10**9), 10**9),
        (2e9, 2 * 10**9),
        (None, None),
    ],
)
def test_sizes_are_parsed(text, size):
    assert _sizes.parse_bytes(text) == size
    if size is None or size >= 10**8:
        assert slce_xp.plan(600, 60, 3, max_memory=text) == slce_xp.plan(600, 60, 3)


@pytest.mark.parametrize(
    "size",
    [
        "",
        "GB",
        "2 XB",
        "-1GB",
        "1e9",
        "two",
        "0",
        "0.1B",
        "2GB/s",
        b"2GB",
        [1],
        True,
        0,
        -5,
        0.5,
        np.nan,
        np.inf,
    ],
)
def test_invalid_sizes_raise(size):
    with pytest.raises(ValueError, match=r"^max_memory must be a positive .*; got"):
        slce_xp.plan(600, 60, 3, max_memory=size)
    with pytest.raises(ValueError, match=r"^max_memory must be a positive"):
        slce_xp.fit(np.eye(4), [0, 0, 1, 1], max_memory=size)


def least_bytes(form, problem):
    """Bytes of a dense form with the smallest blocks."""
    return memory_of(form, problem, Schedule(), _plan.Limits(0)).total


@pytest.mark.parametrize(("form", "n", "d"), [("scatter", 9_000, 1_000), ("gram", 1_000, 9_000)])
def test_blocks_of_converted_rows_use_the_memory_that_there_is(form, n, d):
    problem = _plan.Problem(n, d, 40, 39, "float64")
    free, tight = (memory_of(form, problem, Schedule(), _plan.Limits(m)) for m in (None, 0))
    assert tight.blocks == (0 if form == "gram" else block_bytes(n, d, 8))
    assert free.blocks == free.device // COPY_SHARE > tight.blocks
    for less in (0, 1):
        limits = _plan.Limits(free.total - less)
        assert memory_of(form, problem, Schedule(), limits) == (tight if less else free)


@pytest.mark.parametrize("shape", [(100_000, 1_000, 40), (2_000, 9_000, 100)])
def test_less_memory_selects_a_smaller_form(shape):
    free = slce_xp.plan(*shape)
    assert free.form != "krylov"
    problem = _plan.Problem(*shape, shape[2] - 1, "float64")
    tight = slce_xp.plan(*shape, max_memory=least_bytes(free.form, problem) - 1)
    assert tight.form == "krylov"
    assert tight.bytes < free.bytes
    assert "fits into memory" in tight.reason
    assert slce_xp.plan(*shape, max_memory=free.most_bytes).form == free.form


@pytest.mark.parametrize("solver", ["auto", "scatter", "gram", "krylov"])
def test_too_little_memory_raises_before_any_work(monkeypatch, solver):
    touched = []
    monkeypatch.setattr(_backend, "move", lambda x, place: touched.append(x.shape) or x)
    X = np.full((300, 200), np.nan)  # a pass over X would raise another error
    with pytest.raises(MemoryError, match=r"max_memory must leave room .* got 1 kB\. Raise"):
        slce_xp.fit(X, np.arange(300) % 3, solver=solver, max_memory=1000, backend="numpy")
    assert all(0 in shape for shape in touched)  # not even moved to a device


def test_without_memory_for_a_dense_form_the_matrix_free_result_is_kept():
    # The matrix-free form fits, but not the dense one that the rest would need.
    half = np.random.default_rng(0).standard_normal((1500, 2000))
    X, y = np.concatenate([half, half]), np.arange(3000) // 1500  # the same samples in both classes
    problem = _plan.Problem(3000, 2000, 2, 1, "float64")
    memory = least_bytes("scatter", problem) - 1
    assert _plan.choose(problem, _plan.Limits(), "krylov").most_bytes <= memory
    with pytest.warns(slce_xp.ConvergenceWarning, match="dense"):
        model = slce_xp.fit(X, y, solver="krylov", max_memory=memory)
    assert (model.solver, model.n_components, model.n_positive) == ("krylov", 1, 0)


# ---------------------------------------------------------------- bytes, measured


def data(n, d, n_classes, dtype, offset):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % n_classes)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X *= np.arange(1, d + 1, dtype=np.float32) ** -0.5
    X[np.arange(n), y % d] += 6.0
    if dtype == "uint8":
        return np.clip(20.0 * X + 100.0, 0, 255).astype(np.uint8), y
    return X.astype(dtype) + np.asarray(offset, dtype), y


def peak_and_plan(X, y, **options):
    slce_xp.fit(X[: 2 * len(set(y))], np.arange(2 * len(set(y))) % 2, **options)  # imports
    tracemalloc.start()
    try:
        model = slce_xp.fit(X, y, "positive", **options)
        return tracemalloc.get_traced_memory()[1], model.plan
    finally:
        tracemalloc.stop()


MEASURED = [
    ("scatter", 100_000, 100, 3),
    ("scatter", 100_000, 64, 60),
    ("scatter", 3_000, 1_000, 200),
    ("scatter", 200, 1_000, 5),
    ("gram", 801, 5_000, 5),
    ("gram", 200, 20_000, 4),
    ("gram", 1_200, 300, 20),
    ("krylov", 100_000, 100, 3),
    ("krylov", 300, 20_000, 4),
    ("krylov", 1_500, 1_500, 10),
    ("krylov", 3_000, 400, 90),
    ("krylov", 60, 12, 3),
]


@pytest.mark.parametrize("kind", ["float64", "float32", "far", "uint8"])
@pytest.mark.parametrize(("solver", "n", "d", "n_classes"), MEASURED)
def test_fit_memory_agrees_with_its_plan(solver, n, d, n_classes, kind):
    dtype = "float64" if kind == "far" else kind
    X, y = data(n, d, n_classes, dtype, 1e6 if kind == "far" else 0.0)
    peak, plan = peak_and_plan(X, y, solver=solver)
    assert plan.form == solver
    assert peak <= plan.most_bytes
    if kind == "far" and n > 60:  # a plan does not know the kind, so the costlier of two
        near, _ = peak_and_plan(*data(n, d, n_classes, dtype, 0.0), solver=solver)
        loose = 3.5 if solver == "krylov" else 2.5  # which may take fewer passes than planned
        assert plan.bytes <= loose * max(peak, near) + 2 * block_bytes(n, d, 8)


def test_many_passes_stay_within_max_memory():
    X, y = oracle.blobs(3000, 2000, 6, separation=0.1, decay=0.0)  # 16 passes, if it may
    plan = _plan.choose(_plan.Problem(3000, 2000, 6, 5, "float64"), _plan.Limits(), "krylov")
    memory = plan.most_bytes
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", slce_xp.ConvergenceWarning)
            slce_xp.fit(X, y, "positive", solver="krylov", max_memory=memory, tol=1e-13)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= memory


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize("name", ["n_samples", "n_features", "n_classes"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (True, TypeError),
        (10.0, TypeError),
        (np.float64(5), TypeError),
        ("10", TypeError),
        (None, TypeError),
        (0, ValueError),
        (-3, ValueError),
    ],
)
def test_sizes_must_be_positive_integers(name, value, error):
    arguments = {"n_samples": 100, "n_features": 20, "n_classes": 4, name: value}
    with pytest.raises(error, match=rf"^{name} must be an integer of at least"):
        slce_xp.plan(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((100, 20, 101), "n_classes must be an integer of at least 2 and at most 100; got 101"),
        ((100, 20, 1), "n_classes must be an integer of at least 2"),
        ((1, 20, 2), "n_samples must be an integer of at least 2"),
        ((100, 20, 4, 21), "n_components must be an integer from 1 to 20"),
        ((100, 20, 4, 0), "n_components must be an integer from 1 to 20"),
        ((100, 20, 4, None, "float16"), "dtype must be one of .*; got 'float16'"),
        ((100, 20, 4, None, None), "dtype must be one of"),
        ((100, 20, 4, None, ["float64"]), "dtype must be one of"),
    ],
)
def test_values_out_of_range_raise(arguments, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        slce_xp.plan(*arguments)


def test_numpy_integers_and_dtypes_are_accepted():
    plan = slce_xp.plan(np.int64(100), np.int32(20), np.uint8(4))
    assert plan == slce_xp.plan(100, 20, 4)
    assert type(plan.n_samples) is int


@pytest.mark.parametrize("where", ["memory", "blocks", "cluster"])
@pytest.mark.parametrize("shape", [(1000, 20, 3), (5000, 300, 80)])
def test_memory_named_in_the_error_suffices(where, shape):
    with pytest.raises(MemoryError) as refused:
        slce_xp.plan(*shape, where=where, max_memory=1)
    needed = re.findall(r"([0-9.]+ [kMG]?B) \(", str(refused.value))
    least = min(map(_sizes.parse_bytes, needed))
    # In words it is rounded, and with more a block may have one more row: 1.5 % of the smallest.
    assert slce_xp.plan(*shape, where=where, max_memory=int(1.05 * least))


def test_advice_does_not_raise_if_memory_is_too_small():
    options = {"where": "blocks", "max_memory": "130kB"}
    plan = slce_xp.plan(1000, 20, 3, **options, machine_memory="1GB")
    assert plan.bytes == slce_xp.plan(1000, 20, 3, **options).bytes
    reason = "a fit in memory takes more than 130 kB in addition to X"
    assert plan.advice.startswith(f"blocks: {reason}; read")


@pytest.mark.parametrize("shape", [(100, 5000, 3), (3000, 200, 5), (500_000, 30, 2)])
def test_more_memory_never_raises_if_less_was_accepted(shape):
    accepted = False
    for memory in np.geomspace(10**5, 10**8, 300).astype(int):
        try:
            plan = slce_xp.plan(*shape, where="blocks", max_memory=int(memory))
        except MemoryError:
            assert not accepted, f"refused at {memory}"
        else:
            accepted = True
            assert plan.most_bytes <= memory
            assert 1 <= plan.read_rows <= shape[0]
    assert accepted


def test_blocks_are_whole_chunks_if_there_is_room():
    problem = _plan.Problem(10_000, 20_000, 5, 4, "float32", None, "blocks", True, 1000)
    assert _plan.choose(problem, _plan.Limits(), "krylov").read_rows == 1000
    small = _plan.choose(problem, _plan.Limits(200_000_000), "krylov")
    assert small.read_rows < 1000
    assert small.most_bytes <= 200_000_000


def test_plan_for_a_gpu_has_the_schedule_of_a_fit_on_one():
    shape = {"n_samples": 100_000, "n_features": 20_000, "n_classes": 20, "dtype": "float32"}
    on_gpu = slce_xp.plan(**shape, device="a100")
    assert on_gpu.problem.accelerated
    assert on_gpu.width > slce_xp.plan(**shape, device="cpu").width


def test_plan_reports_what_follows_if_the_spectrum_is_hard():
    large = {"n_samples": 1_000_000, "n_features": 20_000, "n_classes": 20, "device": "cpu"}
    without_room = slce_xp.plan(**large, where="blocks", max_memory="2GB")
    assert "switch  never: no dense form fits into memory" in str(without_room)
    in_blocks = slce_xp.plan(100_000, 100_000, 20, where="blocks", device="cpu")
    assert "switch  to a dense form after about" in str(in_blocks)
    in_memory = slce_xp.plan(6000, 6000, 10, device="cpu")
    assert (
        f"formed after {math.ceil(in_memory.costs.forming / in_memory.costs.implicit)} passes"
        in str(in_memory)
    )
    X, y = oracle.blobs(60, 40, 3, seed=1)
    assert "switch" not in str(slce_xp.fit(X, y, solver="krylov").plan)  # carried out to the end
