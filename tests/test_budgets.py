"""Budgets on a device: exact host reads, bytes as planned, and errors if memory is short."""

import gc
import pathlib
import re

import budgets
import numpy as np
import oracle
import pytest
from budgets import (
    FIT_READS,
    FIT_UPLOADS,
    LAUNCHES,
    PASS_LAUNCHES,
    SHAPES,
    USES,
    fit,
    metered,
    samples,
)

import slce_xp
from slce_xp import _backend
from slce_xp._backend import linalg
from slce_xp._planning import plan as _plan
from slce_xp._planning.problem import memory_of
from slce_xp._planning.sizes import format_bytes

DEVICES = [
    "torch-device",
    pytest.param("cupy", marks=pytest.mark.gpu),
    pytest.param("torch-cuda", marks=pytest.mark.gpu),
]
on_devices = pytest.mark.parametrize("xp", DEVICES, indirect=True)
FORMS = list(FIT_READS)
TALL, WIDE = (400, 100), (200, 4000)
# For plans in float64: bytes of an item are what differs.
SMALLER = [
    ("scatter", 5_000, 300, 10),
    ("gram", 400, 6_000, 5),
    ("krylov", 400, 8_000, 5),
    ("krylov", 3_000, 1_500, 10),
]
# Launches of a fit of data far from the origin, relative to those of one that is not.
MOST_FAR = 1.2


# ---------------------------------------------------------------- host reads


@on_devices
@pytest.mark.parametrize("n_classes", [3, 90])
@pytest.mark.parametrize(
    ("solver", "size"),
    [("scatter", TALL), ("gram", WIDE), ("krylov", TALL), ("krylov", WIDE)],
    ids=lambda value: value if isinstance(value, str) else "tall" if value == TALL else "wide",
)
def test_host_reads_of_a_fit(xp, dtype, solver, size, n_classes):
    X, y = samples(*size, n_classes, dtype)
    x, on_device = xp.array(X), xp.array(y)
    with metered(xp) as found:
        model = slce_xp.fit(x, y, "positive", solver=solver)
    assert model.solver == solver
    expected = FIT_READS[solver] + model.passes
    expected += budgets.SAMPLE_READS * (solver == "krylov" and 16 * size[0] < size[1])
    # Rows that were dependent are orthogonalised again, which takes another read.
    slack = int(solver == "krylov" and n_classes == 90)
    assert expected <= found.reads <= expected + slack
    reads = found.reads
    with metered(xp) as found:
        slce_xp.fit(x, on_device, "positive", solver=solver)
    assert found.reads == reads + 1


@on_devices
def test_each_pass_reads_once(xp):
    X, y = samples(600, 300, 5)
    x = xp.array(X)
    for passes in (1, 2, 4):
        with metered(xp) as found:
            assert fit(x, y, "krylov", max_iter=passes).passes == passes
        assert found.reads == FIT_READS["krylov"] + passes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [4, 200])
@pytest.mark.parametrize("solver", FORMS)
def test_uploads_of_a_fit(solver, n_classes, weighted):
    with budgets.make_backend("torch-device") as xp:
        X, y = samples(*((300, 700) if solver == "gram" else (3000, 100)), n_classes)
        x = xp.array(X)
        weights = np.linspace(1.0, 2.0, len(y)) if weighted else None
        xp.books.reset()
        model = fit(x, y, solver, sample_weight=weights)
        uploads = len(xp.books.uploads)
    # One per piece of rows in class order would be hundreds.
    assert 0 < uploads <= FIT_UPLOADS[solver] + 2 * model.passes + 8 * weighted


def test_transform_uploads_nothing():
    with budgets.make_backend("torch-device") as xp:
        X, y = samples(300, 60, 4)
        x = xp.array(X)
        model = slce_xp.fit(x, y)
        xp.books.reset()
        model.reconstruct(x)
        assert xp.books.uploads == []


@on_devices
@pytest.mark.parametrize("use", USES)
def test_host_reads_of_transform(xp, use):
    X, y = samples(300, 60, 4)
    x = xp.array(X)
    model = slce_xp.fit(x, y)
    call, reads = USES[use]
    with metered(xp) as found:
        call(model, x)
    assert found.reads == reads


# ---------------------------------------------------------------- launches


@on_devices
@pytest.mark.parametrize("shape", sorted({key[:4] for key in LAUNCHES}), ids=str)
def test_launches_of_a_fit(xp, shape):
    near, far = (budgets.launches_of(xp, *shape, where)[0] for where in ("near", "far"))
    if near is None:
        pytest.skip("launches of CuPy on a GPU are not counted")
    assert near <= LAUNCHES[*shape, "near"]
    assert far <= LAUNCHES[*shape, "far"]
    assert far <= MOST_FAR * near


@on_devices
@pytest.mark.parametrize("size", PASS_LAUNCHES, ids=["samples", "features"])
def test_launches_of_a_pass(xp, size):
    fits = [budgets.launches_of(xp, "krylov", *size, 5, "near", max_iter=i) for i in (4, 6)]
    (early, first), (late, last) = fits
    if early is None:
        pytest.skip("launches of CuPy on a GPU are not counted")
    assert (first.passes, last.passes) == (4, 6)
    assert late - early <= 2 * PASS_LAUNCHES[size]


@on_devices
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [(90, 600), (600, 90)], ids=["long", "short"])
def test_products_by_halves_are_complete(xp, monkeypatch, dtype, size):
    for name in ("SYRK_FROM", "TRIANGLES_FROM"):
        monkeypatch.setattr(linalg, name, 40)  # several levels
    rows = np.random.default_rng(0).standard_normal(size).astype(dtype)
    found = xp.numpy(_backend.gram(xp.array(np.ascontiguousarray(rows))))
    of_view = xp.numpy(_backend.gram(xp.array(np.ascontiguousarray(rows.T)).T))
    exact = rows.astype(np.float64).T @ rows.astype(np.float64)
    atol = 100 * np.finfo(dtype).eps * np.abs(exact).max()
    for product in (found, of_view):
        np.testing.assert_allclose(product, exact, rtol=0, atol=atol)


@on_devices
def test_sums_of_products_by_halves_are_completed_once(xp, monkeypatch):
    monkeypatch.setattr(linalg, "TRIANGLES_FROM", 64)
    parts = np.random.default_rng(1).standard_normal((3, 40, 150))
    total = None
    for part in parts:
        total = _backend.add_gram(total, xp.array(part))
    total = xp.numpy(_backend.mirrored(total))
    np.testing.assert_allclose(total, sum(part.T @ part for part in parts), atol=1e-10)


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize("xp", DEVICES[:1], indirect=True)
@pytest.mark.parametrize("solver", FORMS)
def test_blocks_shrink_with_max_memory(xp, solver):
    X, y = samples(*((600, 2_000) if solver == "gram" else (3_000, 400)), 5)
    x = xp.array(X + 1e3)
    free = slce_xp.fit(x, y, solver=solver).plan
    peaks, blocks = [], []
    for max_memory in (8 * free.most_bytes, free.most_bytes):
        with metered(xp) as found:
            model = slce_xp.fit(x, y, solver=solver, max_memory=max_memory)
        assert max(found.peak, model.plan.most_bytes) <= max_memory
        peaks.append(found.peak)
        blocks.append(model.plan.block_bytes)
    assert blocks[1] < blocks[0] <= free.block_bytes
    assert peaks[1] <= peaks[0]


@on_devices
@pytest.mark.parametrize(
    ("solver", "n", "d", "n_classes", "dtype"),
    [(*shape, "float32") for shape in SHAPES] + [(*shape, "float64") for shape in SMALLER],
)
def test_peak_agrees_with_the_plan(xp, solver, n, d, n_classes, dtype):
    X, y = samples(n, d, n_classes, dtype)
    x = xp.array(X)
    with metered(xp) as found:
        plan = fit(x, y, solver).plan
    assert found.peak <= 1.2 * plan.bytes
    assert plan.bytes <= 1.5 * found.peak


@on_devices
@pytest.mark.parametrize(
    ("solver", "n", "d"), [("scatter", 20_000, 200), ("gram", 400, 9_000), ("krylov", 400, 9_000)]
)
@pytest.mark.parametrize("kind", ["far", "integers"])
def test_converted_blocks_are_counted_separately(xp, solver, n, d, kind):
    X, y = samples(n, d, 5, "float32")
    X = X + 1e3 if kind == "far" else (10 * X).astype(np.int8)
    x = xp.array(X)
    with metered(xp) as found:
        plan = fit(x, y, solver).plan
    assert found.peak <= 1.2 * (plan.bytes + plan.block_bytes)
    # No copy of X: two blocks, one after the other.
    assert found.peak <= 0.75 * X.size * _plan.ITEMSIZES[plan.dtype]


def test_x_on_the_device_is_not_copied():
    with budgets.make_backend("torch-device") as xp:
        X, y = samples(2_000, 400, 5)
        x = xp.array(X)
        for solver in FORMS:
            xp.books.reset()
            fit(x, y, solver)
            assert xp.books.h2d_bytes <= 0.1 * X.nbytes  # labels and small problems
        xp.books.reset()
        slce_xp.fit(X, y, backend="torch", device="sim", solver="scatter")
        assert X.nbytes <= xp.books.h2d_bytes <= X.nbytes + 3 * y.nbytes


@on_devices
@pytest.mark.parametrize("solver", FORMS)
def test_device_agrees_with_host_including_signs(xp, dtype, solver):
    X, y = oracle.blobs(300, 120, 5, seed=21, separation=4.0)
    X = X.astype(dtype)
    there, here = (slce_xp.fit(x, y, solver=solver, tol=1e-10) for x in (xp.array(X), X))
    atol = {"float32": 1e-3, "float64": 1e-8}[dtype]  # documented accuracy
    np.testing.assert_allclose(xp.numpy(there.components), here.components, atol=atol)
    np.testing.assert_allclose(xp.numpy(there.eigenvalues), here.eigenvalues, rtol=atol)


# ---------------------------------------------------------------- too little memory


def limit_room(xp, monkeypatch, size):
    """Leave `size` free bytes on the device."""
    if xp.label == "torch-device":
        xp.books.capacity = xp.books.live_bytes + size
        return lambda: setattr(xp.books, "capacity", None)
    if xp.label == "cupy":
        import cupy

        gc.collect()  # free what earlier tests left behind
        pool = cupy.get_default_memory_pool()
        pool.free_all_blocks()
        before = pool.get_limit()
        pool.set_limit(size=pool.used_bytes() + size)
        return lambda: pool.set_limit(size=before)
    measured = _backend.free_bytes
    monkeypatch.setattr(_backend, "free_bytes", lambda place: size)
    return lambda: monkeypatch.setattr(_backend, "free_bytes", measured)


def device_problem(n, d, n_classes, dtype="float32"):
    return _plan.Problem(n, d, n_classes, n_classes - 1, dtype, sums=dtype, accelerated=True)


@on_devices
def test_less_device_memory_selects_a_smaller_form(xp, monkeypatch):
    X, y = samples(801, 20_531, 5)
    x = xp.array(X)
    wanted = slce_xp.plan(801, 20_531, 5, "positive", "float32")
    # Less than the Gram form takes in the smallest blocks.
    problem = device_problem(801, 20_531, 5)
    tight = memory_of("gram", problem, _plan.Limits(room=1))
    room = int(1.2 * (tight.bytes + tight.block_bytes)) - 1
    give_back = limit_room(xp, monkeypatch, room)
    try:
        with metered(xp) as found:
            model = slce_xp.fit(x, y, "positive")
    finally:
        give_back()
    assert (wanted.form, model.solver) == ("gram", "krylov")
    assert "fit into memory" in model.plan.reason
    assert found.peak <= room


@on_devices
@pytest.mark.parametrize("solver", ["auto", *FORMS])
@pytest.mark.parametrize("moved", [False, True], ids=["there", "to be moved"])
def test_fit_without_device_memory_raises_before_any_work(xp, monkeypatch, solver, moved):
    X, y = samples(900, 700, 5)
    X[:] = np.nan  # reading a value would raise
    x = X if moved else xp.array(X)
    options = {"backend": xp.name, "device": xp.device} if moved else {}
    # Less than half of what the smallest form needs, with X in blocks or not.
    give_back = limit_room(xp, monkeypatch, 200_000)
    try:
        with metered(xp) as found, pytest.raises(MemoryError) as error:
            slce_xp.fit(x, y, solver=solver, **options)
    finally:
        give_back()
    assert re.search(r"must have room for X and .*; got 1\d\d kB", str(error.value))
    assert found.reads == 0
    assert found.peak <= 4096


@on_devices
def test_exact_fit_into_memory_is_accepted(xp, monkeypatch):
    for solver in FORMS:
        size = (400, 1500) if solver == "gram" else (900, 700)
        X, y = samples(*size, 5)
        x = xp.array(X)
        plan = memory_of(solver, device_problem(*size, 5), _plan.Limits(room=1))
        room = int(1.2 * (plan.bytes + plan.block_bytes)) + 1024
        give_back = limit_room(xp, monkeypatch, room)
        try:
            assert fit(x, y, solver).solver == solver
        finally:
            give_back()


@pytest.mark.parametrize("xp", DEVICES[:2], indirect=True)
@pytest.mark.parametrize("solver", FORMS)
def test_out_of_memory_error_of_a_library_becomes_memory_error(xp, monkeypatch, solver):
    X, y = samples(*((400, 1500) if solver == "gram" else (900, 700)), 5)
    x = xp.array(X)
    before = xp.books.live_bytes if xp.books else 0
    give_back = limit_room(xp, monkeypatch, 300_000)
    monkeypatch.setattr(_backend, "free_bytes", lambda place: None)  # unknown
    try:
        with pytest.raises(MemoryError, match=r"ran out of memory \(.*use float32") as error:
            fit(x, y, solver)
        assert type(error.value) is MemoryError
        if xp.books:  # the frames of a kept error hold nothing
            assert xp.books.live_bytes <= before + 10_000
    finally:
        give_back()
    assert fit(x, y, solver).solver == solver  # the memory was released


def test_transform_reports_out_of_memory():
    with budgets.make_backend("torch-device") as xp:
        X, y = samples(900, 700, 5)
        x = xp.array(X)
        model = slce_xp.fit(x, y)
        xp.books.capacity = xp.books.live_bytes + 1000
        with pytest.raises(MemoryError, match="ran out of memory"):
            model.transform(x)


def test_more_passes_than_planned_stay_within_device_memory():
    with budgets.make_backend("torch-device") as xp:
        X, y = oracle.blobs(3000, 1000, 6, separation=0.1, decay=0.0)
        x = xp.array(X)
        plan = memory_of("krylov", device_problem(3000, 1000, 6, "float64"), _plan.Limits(room=1))
        room = int(1.2 * (plan.bytes + plan.block_bytes)) + 1024
        xp.books.capacity = xp.books.live_bytes + room
        with metered(xp) as found:
            fit(x, y, "krylov", max_iter=50)
        assert found.peak <= room


# ---------------------------------------------------------------- full precision


def test_torch_uses_full_precision_and_restores_settings(monkeypatch):
    torch = pytest.importorskip("torch")
    products = torch.backends.cuda.matmul
    seen = set()
    matmul = torch.Tensor.__matmul__
    monkeypatch.setattr(
        torch.Tensor,
        "__matmul__",
        lambda a, b: seen.add(products.fp32_precision) or matmul(a, b),
    )
    X, y = samples(60, 20, 3)
    before = products.fp32_precision
    products.fp32_precision = "tf32"
    try:
        model = slce_xp.fit(torch.asarray(X), y)
        model.reconstruct(torch.asarray(X))
        assert seen == {"ieee"}
        assert products.fp32_precision == "tf32"
        with pytest.raises(ValueError, match="finite"):
            slce_xp.fit(torch.full((4, 2), torch.nan), [0, 0, 1, 1])
        assert products.fp32_precision == "tf32"
    finally:
        products.fp32_precision = before


def test_jax_multiplies_in_full_precision(monkeypatch):
    jax = pytest.importorskip("jax")
    X, y = samples(60, 20, 3)
    x = jax.numpy.asarray(X)
    seen = set()
    matmul = type(x).__matmul__

    def spy(a, b):
        seen.add(jax.config.jax_default_matmul_precision)
        return matmul(a, b)

    monkeypatch.setattr(type(x), "__matmul__", spy)
    slce_xp.fit(x, y).reconstruct(x)
    assert seen == {"highest"}


# ---------------------------------------------------------------- what the documentation says


@pytest.mark.parametrize("xp", DEVICES[:2], indirect=True)
def test_benchmarks_page_matches_budgets(xp):
    page = pathlib.Path(__file__).parent.parent / "docs" / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    column = {"torch-device": 6, "cupy": 7}[xp.label]
    for row in budgets.rows(xp):
        line = next(line for line in text.splitlines() if line.startswith(f"| {row.shape} |"))
        cells = [cell.strip() for cell in line.split("|")]
        assert cells[4:6] == [row.reads, row.plan]
        assert [cells[column], cells[column + 2]] == [row.peak, row.launches]
    assert format_bytes(65_800_000) in text
