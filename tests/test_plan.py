"""The plan: integers in, a form by rule out, and a bound on memory that holds."""

import dataclasses
import json
import re
import tracemalloc
import warnings
from xml.etree import ElementTree

import numpy as np
import oracle
import pytest
import scipy.linalg

import slce_xp
from slce_xp import _backend
from slce_xp._planning import plan as _plan
from slce_xp._planning import sizes as _sizes
from slce_xp._planning.plan import LARGEST_FORMED, choose, most_rows, smaller_form
from slce_xp._planning.problem import COPY_SHARE, ROOM_FACTOR, Limits, Problem, memory_of
from slce_xp.core._rows import block_bytes
from slce_xp.core._solution import FORMS

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
@pytest.mark.parametrize("where", ["memory", "blocks", "cluster"])
def test_plan_prints_its_cost_and_reason(shape, where):
    plan = slce_xp.plan(*shape, dtype="float32", where=where)
    text = str(plan)
    for part in [plan.form, plan.reason, f"{plan.flops:.2g} flops in float64", f"{plan.passes} re"]:
        assert part in text
    added = plan.bytes + plan.block_bytes
    assert f"{_sizes.format_bytes(added)} in addition to X" in text
    assert all(f"{n}" in text for n in shape)
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("shape", [TALL[0], *WIDE[1:], *SQUARE])
def test_sums_are_double_on_a_cpu_and_as_x_on_an_accelerator(shape):
    on_cpu = slce_xp.plan(*shape, dtype="float32")
    assert (on_cpu.dtype, on_cpu.sums) == ("float32", "float64")
    assert on_cpu.bytes == slce_xp.plan(*shape).bytes
    problems = [
        Problem(*shape, shape[2] - 1, dtype, sums=dtype, accelerated=True)
        for dtype in ("float64", "float32")
    ]
    double, single = (choose(problem, Limits(), "krylov").bytes for problem in problems)
    assert 0.45 * double <= single < 0.85 * double


# ---------------------------------------------------------------- the rule


def test_the_smaller_matrix_is_formed_up_to_a_size():
    m = LARGEST_FORMED["memory"]
    for shape, form in [((10 * m, m, 9), "scatter"), ((m, 10 * m, 9), "gram")]:
        plan = slce_xp.plan(*shape)
        assert (plan.form, plan.reason) == (form, f"the {m} × {m} matrix is small")
    for shape in [(10 * m, m + 1, 9), (m + 1, 10 * m, 9)]:
        plan = slce_xp.plan(*shape)
        reason = f"a matrix of {m + 1} rows takes more work than an iteration"
        assert (plan.form, plan.reason) == ("krylov", reason)
    # With very many classes an iteration takes as much work.
    plan = slce_xp.plan(2 * m, 2 * m, m // 4)
    assert (plan.form, plan.reason) == (
        "scatter",
        f"an iteration takes as much work as the {2 * m} × {2 * m} matrix",
    )


@pytest.mark.parametrize("where", ["blocks", "cluster"])
def test_one_pass_over_a_file_is_preferred_to_a_dozen(where):
    m = LARGEST_FORMED[where]
    plan = slce_xp.plan(10 * m, m, 9, where=where)
    assert (plan.form, plan.passes) == ("scatter", 1)
    plan = slce_xp.plan(10 * m, m + 1, 9, where=where)
    assert (plan.form, plan.passes, plan.width) == ("krylov", 13, 64)


def test_sparse_rows_are_iterated_on_if_they_have_few_entries():
    few, many = (slce_xp.plan(200_000, 1_500, 100, stored=s) for s in (10**6, 2 * 10**8))
    assert few.form == "krylov"
    assert many.form == "scatter"
    assert "work" in few.reason
    assert "work" in many.reason
    assert slce_xp.plan(20_000, 400, 10, stored=10**5).form == "scatter"  # small in any case
    assert slce_xp.plan(20_000, 900, 10, stored=10**5).form == "krylov"
    assert slce_xp.plan(20_000, 30_000, 10, stored=6 * 10**7).form == "krylov"


@pytest.mark.parametrize("n", [960, 961])
def test_gram_needs_fewer_samples_than_features_less_components(n):
    problem = Problem(n, 1000, 5, 40, "float64")
    expected = "gram" if n + 40 <= 1000 else "scatter"
    assert smaller_form(problem) == choose(problem, Limits(), "auto").form == expected
    plan = choose(problem, Limits(), "gram")
    reason = "requested" if expected == "gram" else "gram needs n + k <= d: scatter instead"
    assert (plan.form, plan.reason) == (expected, reason)


@pytest.mark.parametrize(("n", "form"), [(300, "gram"), (9000, "scatter")])
def test_iteration_needs_fewer_components_than_classes_or_unlabelled_samples(n, form):
    problem = Problem(n, 5000, 5, 5, "float64")
    plan = choose(problem, Limits(), "krylov")
    reason = f"krylov needs n_components < n_classes: {form} instead"
    assert (plan.form, plan.reason) == (form, reason)
    unlabelled = dataclasses.replace(problem, supervised=False)
    plan = choose(unlabelled, Limits(), "krylov")
    assert (plan.form, plan.reason) == ("krylov", "requested")


def test_the_smaller_matrix_can_be_asked_for():
    problem = Problem(9000, 20_000, 5, 4, "float64")
    assert choose(problem, Limits(), _plan.SMALLER).form == "gram"
    on_cluster = dataclasses.replace(problem, where="cluster")
    assert choose(on_cluster, Limits(), _plan.SMALLER).form == "scatter"


def test_columns_of_a_sparse_matrix_may_be_missing():
    problem = Problem(500, 9000, 5, 4, "float64", 10**6)
    assert choose(problem, Limits(), "auto").form == "gram"
    without = dataclasses.replace(problem, has_columns=False)
    assert choose(without, Limits(), "auto").form == "krylov"
    with pytest.raises(ValueError, match=r"^solver must be 'auto', 'krylov' or 'scatter' for"):
        choose(without, Limits(), "gram")


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("stored", [None, 10**7])
@pytest.mark.parametrize("where", ["memory", "blocks", "cluster"])
@pytest.mark.parametrize("n_classes", [2, 100])
def test_block_of_an_iteration(accelerated, stored, where, n_classes):
    problem = Problem(9000, 30_000, n_classes, 1, "float64", stored, where, accelerated=accelerated)
    plan = choose(problem, Limits(), "krylov")
    is_cheap = where == "memory" and not accelerated
    least = 16 if is_cheap else 64
    assert plan.width == max(least, n_classes)
    assert plan.rows == (3 * plan.width + 9 * n_classes if is_cheap else 12 * plan.width)
    assert problem.length == 30_000
    wide = dataclasses.replace(problem, n=1000)
    assert wide.length == (30_000 if where == "blocks" else 1000)
    unlabelled = dataclasses.replace(problem, supervised=False, k=50)
    assert unlabelled.length == 30_000
    assert unlabelled.width == max(least, n_classes + 58)


@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("extra", [0, 1, 100])
def test_components_beyond_the_positive_ones_use_a_dense_form(shape, extra):
    assert slce_xp.plan(*shape, shape[2] - 1).form == "krylov"
    assert slce_xp.plan(*shape, shape[2] + extra).form != "krylov"


@pytest.mark.parametrize("n_classes", [1_501, 3_000, 6_000])
def test_very_many_classes_use_a_dense_form(n_classes):
    assert slce_xp.plan(6_000, 6_000, n_classes).form != "krylov"


# ---------------------------------------------------------------- files


FLAT = {
    "form": "krylov", "n_samples": 900, "n_features": 70, "n_classes": 4, "n_components": 3,
    "dtype": "float32", "stored": None, "width": 32, "wide_passes": 3, "bytes": 1000,
    "block_bytes": 200, "host_bytes": 30, "passes": 13, "flops": 1e9, "reason": "requested",
}  # fmt: skip
NESTED = {
    "form": "gram",
    "problem": {
        "n": 90, "d": 700, "n_classes": 4, "k": 3, "dtype": "float32", "stored": 5000,
        "where": "blocks", "by_rows": True, "chunk_rows": 1, "copies": False, "made": 0,
        "weighted": False, "supervised": True, "accelerated": False, "doubles": False,
        "wide": False, "by_code": True, "separates": False,
    },
    "schedule": {"width": 0, "wide_passes": 0},
    "memory": {"device": 1000, "blocks": 200, "host": 30, "read_rows": 9, "panel_rows": 40,
               "temporaries": 0},
    "seconds": 0.1,
    "costs": {"implicit": 1.0, "forming": 0.2, "formed": 0.0, "dense": 0.3, "ritz": 0.0},
    "passes": 4, "flops": 1e9, "device": "a CPU with 4 threads", "reason": "requested",
    "advice": "", "precision": "full",
}  # fmt: skip


def test_facts_are_those_of_the_plan():
    plan = slce_xp.plan(6000, 6000, 10, where="blocks", machine_memory="1GB")
    facts = json.loads(json.dumps(plan.to_facts()))
    assert _plan.Plan.from_facts(facts) == plan
    assert _plan.Plan.from_facts({**facts, "later": 1}) == plan


def test_flat_facts_of_earlier_files_are_read():
    plan = _plan.Plan.from_facts(FLAT)
    assert (plan.form, plan.n_samples, plan.n_components, plan.width) == ("krylov", 900, 3, 32)
    assert (plan.dtype, plan.sums, plan.where) == ("float32", "float32", "memory")
    assert (plan.most_bytes, plan.passes, plan.reason) == (1230, 13, "requested")
    assert "900 samples" in str(plan)


def test_nested_facts_of_earlier_files_are_read():
    plan = _plan.Plan.from_facts(NESTED)
    assert (plan.form, plan.n_samples, plan.n_features, plan.stored) == ("gram", 90, 700, 5000)
    assert (plan.dtype, plan.sums, plan.where) == ("float32", "float32", "blocks")
    assert (plan.bytes, plan.block_bytes, plan.host_bytes) == (1000, 200, 30)
    assert (plan.read_rows, plan.panel_rows, plan.passes) == (9, 40, 4)
    assert "read in blocks of 9 rows" in str(plan)


# ---------------------------------------------------------------- fits


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


def total(memory):
    return memory.bytes + memory.block_bytes + memory.host_bytes


def least_bytes(form, problem):
    """Bytes of a form with the smallest blocks."""
    return total(memory_of(form, problem, Limits(0)))


@pytest.mark.parametrize("form", ["scatter", "gram", "krylov"])
def test_blocks_of_converted_rows_use_the_memory_that_there_is(form):
    n, d = (1_000, 9_000) if form == "gram" else (9_000, 1_000)
    problem = Problem(n, d, 40, 39, "float64")
    free, tight = (memory_of(form, problem, Limits(m)) for m in (None, 0))
    assert tight.block_bytes == tight.temporaries == block_bytes(n, d, 8)
    assert free.block_bytes == max(free.bytes // COPY_SHARE, tight.block_bytes)
    for less in (0, 1):
        limits = Limits(total(free) - less)
        assert memory_of(form, problem, limits) == (tight if less else free)


@pytest.mark.parametrize("where", ["memory", "blocks", "cluster"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("stored", [None, 0.05])
def test_bytes_grow_with_the_problem(form, where, accelerated, stored):
    base = {"n": 900, "d": 3000, "n_classes": 10, "k": 5, "dtype": "float32", "sums": "float32"}

    def bytes_of(**changes):
        sizes = {**base, **changes}
        entries = None if stored is None else int(stored * sizes["n"] * sizes["d"])
        options = {"stored": entries, "where": where, "accelerated": accelerated}
        return least_bytes(form, Problem(**sizes, **options))

    least = bytes_of()
    for name in ("n", "d", "n_classes", "k"):
        assert bytes_of(**{name: 2 * base[name]}) >= least, name
    assert bytes_of(weighted=True) > least
    assert bytes_of(sums="float64") > (1.1 if form == "krylov" else 1.5) * least
    assert bytes_of(separates=True) > least
    if form == "krylov":
        assert bytes_of(supervised=False) > least


@pytest.mark.parametrize("where", ["memory", "blocks", "cluster"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("accelerated", [False, True])
def test_limits_are_respected_or_the_form_refused(form, where, accelerated):
    problem = Problem(900, 3000, 10, 5, "float64", None, where, accelerated=accelerated)
    least = least_bytes(form, problem)
    for factor in (0.5, 0.99, 1.0, 1.01, 1.3, 2.0, 10.0):
        limits = Limits(int(factor * least), int(1.5 * factor * least))
        if factor < 1:
            with pytest.raises(MemoryError):
                choose(problem, limits, form)
            continue
        plan = choose(problem, limits, form)
        assert plan.most_bytes <= limits.memory
        assert ROOM_FACTOR * (plan.bytes + plan.block_bytes) <= limits.room
        assert most_rows(plan, limits, problem.length) >= plan.rows


def test_rows_of_an_iteration_that_fit_into_memory():
    problem = Problem(9000, 9000, 5, 4, "float64")
    plan = choose(problem, Limits(), "krylov")
    found = [most_rows(plan, Limits(m * plan.most_bytes), 9000) for m in (1, 2, 10)]
    assert plan.rows <= found[0] < found[1] < found[2]
    # The rows, their copy as they grow, and their matrix on the host.
    assert 2.5 * 8 * 9000 * found[2] + 48 * found[2] ** 2 <= 10 * plan.most_bytes
    assert most_rows(plan, Limits(), 9000) > 10**12


@pytest.mark.parametrize("shape", [(100_000, 1_200, 10), (20_000, 1_000, 5)])
def test_less_memory_selects_a_smaller_form(shape):
    free = slce_xp.plan(*shape)
    assert free.form != "krylov"
    problem = Problem(*shape, shape[2] - 1, "float64")
    tight = slce_xp.plan(*shape, max_memory=least_bytes(free.form, problem) - 1)
    assert tight.form == "krylov"
    assert tight.bytes < free.bytes
    assert tight.reason == f"{free.form} does not fit into memory"
    assert slce_xp.plan(*shape, max_memory=free.most_bytes).form == free.form


def test_matrix_is_formed_if_it_takes_less_memory_than_an_iteration():
    # Vectors of features are long if some samples have no label.
    problem = Problem(3000, 400_000, 5, 4, "float64", supervised=False)
    assert choose(problem, Limits(), "auto").form == "krylov"
    memory = least_bytes("krylov", problem) - 1
    plan = choose(problem, Limits(memory), "auto")
    assert (plan.form, plan.reason) == ("gram", "krylov does not fit into memory")


# ---------------------------------------------------------------- errors and their remedies


def refusal(*args):
    with pytest.raises(MemoryError) as refused:
        choose(*args)
    return refused.value


def test_fewer_components_are_a_remedy_if_only_an_iteration_fits():
    problem = Problem(9000, 6000, 5, 5, "float64")
    error = refusal(problem, Limits(10**8), "auto")
    fewer = choose(dataclasses.replace(problem, k=4), Limits(10**8), "auto")
    assert error.parameter == "max_memory"
    assert re.fullmatch(
        r"max_memory must leave room for one form of the problem, which needs 8\d+ MB \(scatter\)"
        r" in addition to X; got 100 MB\. Raise max_memory, or use n_components below the number "
        rf"of classes, which needs {_sizes.format_bytes(fewer.most_bytes)}",
        str(error),
    )
    assert str(refusal(problem, Limits(10**6), "auto")).endswith("got 1 MB. Raise max_memory")


def test_float32_is_a_remedy_only_if_sums_are_of_the_dtype_of_x():
    problem = Problem(9000, 6000, 5, 4, "float64", accelerated=True)
    need = memory_of("krylov", problem, Limits(0))
    room = 0.8 * ROOM_FACTOR * (need.bytes + need.block_bytes)
    error = refusal(problem, Limits(None, int(room)), "auto")
    assert error.parameter == "backend"
    assert "the device must have room for X and for one form" in str(error)
    assert "backend='numpy', or use float32, which needs" in str(error)
    on_cpu = dataclasses.replace(problem, accelerated=False)
    assert "float32" not in str(refusal(on_cpu, Limits(10**6), "auto"))
    single = dataclasses.replace(problem, dtype="float32", sums="float32")
    assert "float32" not in str(refusal(single, Limits(10**6), "auto"))


def test_another_form_is_a_remedy_if_one_was_requested():
    problem = Problem(9000, 6000, 5, 4, "float64")
    error = refusal(problem, Limits(10**8), "scatter")
    assert "Raise max_memory, or use solver='auto', which needs" in str(error)
    assert "(krylov)" not in str(error)


def test_error_names_every_form_that_was_tried():
    error = str(refusal(Problem(900, 6000, 5, 4, "float64"), Limits(1000), "auto"))
    assert re.findall(r"B \((\w+)\)", error) == ["gram", "krylov", "scatter"]


@pytest.mark.parametrize("solver", ["auto", "scatter", "gram", "krylov"])
def test_too_little_memory_raises_before_any_work(monkeypatch, solver):
    touched = []
    monkeypatch.setattr(_backend, "move", lambda x, place: touched.append(x.shape) or x)
    X = np.full((300, 200), np.nan)  # a pass over X would raise another error
    with pytest.raises(MemoryError, match=r"max_memory must leave room .* got 1 kB\. Raise"):
        slce_xp.fit(X, np.arange(300) % 3, solver=solver, max_memory=1000, backend="numpy")
    assert all(0 in shape for shape in touched)  # not even moved to a device


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
    ("gram", 600, 900, 20),
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
    plan = choose(Problem(3000, 2000, 6, 5, "float64"), Limits(), "krylov")
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
    assert plan.advice.startswith("blocks: X leaves too little memory to a fit; 1 read of a file")


@pytest.mark.parametrize(
    ("machine", "n", "advice"),
    [("1TB", 10**6, "memory: X and the fit take 160 GB of 1 TB"),
     ("32GB", 10**6, "blocks: X does not fit into 32 GB; 13 reads of a file, with "),
     ("32GB", 10**9, "cluster: "),
     ("1MB", 10**6, "cluster: ")],
)  # fmt: skip
def test_advice_on_where_to_store_x(machine, n, advice):
    plan = slce_xp.plan(n, 20_000, 20, machine_memory=machine)
    assert plan.advice.startswith(advice)
    assert str(plan).endswith(f"  advice  {plan.advice}")


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
    problem = Problem(10_000, 20_000, 5, 4, "float32", None, "blocks", chunk_rows=1000)
    assert choose(problem, Limits(), "krylov").read_rows == 1000
    small = choose(problem, Limits(300_000_000), "krylov")
    assert small.read_rows < 1000
    assert small.most_bytes <= 300_000_000


def test_gram_form_of_a_file_holds_panels_of_rows():
    problem = Problem(4000, 200_000, 5, 4, "float32", None, "blocks")
    plan = choose(problem, Limits(), "gram")
    assert 1 < plan.panel_rows < 4000
    assert plan.passes > 4
    assert choose(dataclasses.replace(problem, n=100), Limits(), "gram").passes == 4


# ---------------------------------------------------------------- of data, and in notebooks


def test_the_plan_of_data_is_that_of_their_fit(tmp_path):
    X, y = oracle.blobs(90, 7, 3, seed=1)
    np.save(tmp_path / "X.npy", X)
    wide = np.tile(X, 200)
    kinds = [X, X.astype(np.float32), wide, scipy.sparse.csr_array(wide),
             np.load(tmp_path / "X.npy", mmap_mode="r")]  # fmt: skip
    for x in kinds:
        assert slce_xp.plan(x, y) == slce_xp.fit(x, y).plan
    assert slce_xp.plan(X, y, n_components=1) == slce_xp.fit(X, y, 1).plan
    with pytest.raises(MemoryError, match="max_memory must leave room"):
        slce_xp.plan(X, y, max_memory="1kB")
    with pytest.raises(ValueError, match="stored must be left out with X and y"):
        slce_xp.plan(X, y, stored=5)


def test_plans_and_models_are_tables_in_notebooks():
    X, y = oracle.blobs(90, 7, 3, seed=1)
    model = slce_xp.fit(X, np.array(["a<b", "c", "d"])[y], criterion="separation")
    for shown in (model, model.plan):
        table = ElementTree.fromstring(shown._repr_html_())
        lines = str(shown).splitlines()
        assert table.findtext("caption") == lines[0]
        rows = [" ".join(cell.text for cell in row) for row in table.iter("tr")]
        assert rows == [" ".join(line.split(maxsplit=1)) for line in lines[1:]]


def test_number_of_classes_beside_data_is_refused_in_few_words():
    with pytest.raises(ValueError, match="n_classes must be left out with X and y") as caught:
        slce_xp.plan(np.zeros((100, 9)), np.arange(100) % 3, 3)
    assert len(str(caught.value)) < 200
