"""Blocks that are copied to a device while others are worked on: what is not waited for shows.

The double of a torch accelerator (`device_streams`) and the emulation of CUDA put off copies on a
stream of their own until somebody waits for them.
"""

import threading

import numpy as np
import oracle
import pytest
from patching import replace_in_backend

import slce_xp
from slce_xp import _backend
from slce_xp._backend import uploads
from slce_xp._data import file_rows, row_reader
from slce_xp._planning import problem as _memory

X, y = oracle.blobs(600, 20, 4, seed=71)
BLOCKS = 12
SOLVERS = ["scatter", "krylov"]

on_streams = pytest.mark.parametrize(
    "xp", ["torch-device", pytest.param("cupy", marks=pytest.mark.gpu)], indirect=True
)
on_the_double = pytest.mark.parametrize("xp", ["torch-device"], indirect=True)
by_solver = pytest.mark.parametrize("solver", SOLVERS)


class Rows:
    shape, dtype = X.shape, X.dtype

    def __getitem__(self, index):
        return X[index]


@pytest.fixture
def in_file(tmp_path):
    np.save(tmp_path / "x.npy", X)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


def fit(xp, monkeypatch, solver, rows=None):
    monkeypatch.setattr(_memory, "READ_BLOCK", X.nbytes // BLOCKS)
    rows = Rows() if rows is None else rows
    return slce_xp.fit(rows, y, backend=xp.name, device=xp.device, solver=solver).to("numpy")


def error(model):
    return np.abs(model.eigenvalues / slce_xp.fit(X, y).eigenvalues - 1.0).max()


def uploads_to(xp, shape, count=2):
    place = _backend.find_place(xp.name, xp.device)
    return uploads.uploads_to(place, int(np.prod(shape)) * 8, count)


def sent(ahead, values):
    """Begin to copy values, as a pass over a file does."""
    buffer = ahead.buffer()
    return ahead.send(row_reader._placed(values, buffer.memory), buffer)


# ---------------------------------------------------------------- blocks arrive


@on_streams
@by_solver
@pytest.mark.parametrize("kind", ["object", "file"])
def test_blocks_arrive_in_time(xp, monkeypatch, in_file, solver, kind):
    begun = []
    send = uploads._UploadsAhead.send
    monkeypatch.setattr(
        uploads._UploadsAhead, "send", lambda self, *given: begun.append(1) or send(self, *given)
    )
    model = fit(xp, monkeypatch, solver, in_file if kind == "file" else Rows())
    assert error(model) < 1e-9
    assert len(begun) >= BLOCKS
    if xp.books is not None:
        assert xp.books.async_bytes >= X.nbytes


@on_streams
@pytest.mark.parametrize("stored", [">f8", "longdouble", "uint8", "float16", "bool"])
def test_every_dtype_arrives(xp, stored):
    values = np.round(10 * X[:50]).clip(0, 100).astype(stored)
    ahead = uploads_to(xp, (*values.shape, 2))
    np.testing.assert_array_equal(xp.numpy(ahead.finish(sent(ahead, values))), values)
    ahead.close()


@on_streams
def test_blocks_larger_than_expected_arrive(xp):
    ahead = uploads_to(xp, (10, 20))
    ahead.reserve((10, 20), X.dtype)
    np.testing.assert_array_equal(xp.numpy(ahead.finish(sent(ahead, X[:50]))), X[:50])
    ahead.close()


@on_streams
def test_a_device_that_is_behind_gets_the_right_blocks(xp):
    ahead = uploads_to(xp, (50, 20))
    blocks = [X[:50], X[50:100], X[100:150], X[150:200]]
    coming = [sent(ahead, block) for block in blocks]  # before anybody waits for the first
    for block, arriving in zip(blocks, coming, strict=True):
        np.testing.assert_array_equal(xp.numpy(ahead.finish(arriving)), block)
    ahead.close()


@on_streams
def test_blocks_that_nobody_takes_are_waited_for(xp):
    ahead = uploads_to(xp, (50, 20))
    coming = sent(ahead, np.ones((50, 20)))
    ahead.close()
    np.testing.assert_array_equal(xp.numpy(coming.block), np.ones((50, 20)))


# ---------------------------------------------------------------- readers


@on_streams
@by_solver
def test_a_file_is_read_by_several_threads_with_the_same_bits(xp, monkeypatch, in_file, solver):
    read, first = row_reader._read_file, []
    meeting = threading.Barrier(file_rows.READERS)

    def watched(*given):
        is_reader = threading.current_thread().name.startswith("slce_xp-reader")
        if is_reader and len(first) < file_rows.READERS:
            first.append(1)
            meeting.wait(timeout=30)  # until all of them are reading
        return read(*given)

    monkeypatch.setattr(file_rows, "READERS", 1)
    alone = fit(xp, monkeypatch, solver, in_file)
    monkeypatch.undo()
    monkeypatch.setattr(row_reader, "_read_file", watched)
    together = fit(xp, monkeypatch, solver, in_file)
    assert len(first) == file_rows.READERS > 1
    np.testing.assert_array_equal(together.components, alone.components)
    np.testing.assert_array_equal(together.eigenvalues, alone.eigenvalues)


@on_streams
@by_solver
def test_an_object_of_the_user_has_one_reader(xp, monkeypatch, solver):
    inside = threading.Lock()

    class OneAtATime(Rows):
        def __getitem__(self, index):
            assert inside.acquire(blocking=False), "read by two threads"
            try:
                return X[index].copy()
            finally:
                inside.release()

    assert error(fit(xp, monkeypatch, solver, OneAtATime())) < 1e-9


@on_streams
@by_solver
def test_an_object_that_reuses_its_memory_is_read_right(xp, monkeypatch, solver):
    class Reused(Rows):
        memory = np.empty_like(X)

        def __getitem__(self, index):
            self.memory[...] = np.nan
            rows = self.memory[: len(X[index])]
            rows[...] = X[index]
            return rows

    assert error(fit(xp, monkeypatch, solver, Reused())) < 1e-9


@on_streams
def test_a_read_that_fails_ends_all_readers(xp, monkeypatch, in_file):
    read = row_reader._read_file

    def failing(path, offset, x, start, *rest):
        if start > 300 and threading.current_thread().name.startswith("slce_xp-reader"):
            raise OSError("the disk is gone")
        return read(path, offset, x, start, *rest)

    monkeypatch.setattr(row_reader, "_read_file", failing)
    with pytest.raises(OSError, match="the disk is gone"):
        fit(xp, monkeypatch, "scatter", in_file)
    assert not [t for t in threading.enumerate() if t.name.startswith("slce_xp-reader")]


# ---------------------------------------------------------------- planted faults


def fault_shows(xp, monkeypatch, solver):
    try:
        return not error(fit(xp, monkeypatch, solver)) < 1e-3
    except ValueError as refused:  # memory that nothing was copied to may hold anything
        return "finite" in str(refused) or "small enough" in str(refused)


@on_streams
@by_solver
def test_a_block_that_is_not_waited_for_shows(xp, monkeypatch, solver):
    if xp.label == "cupy":
        pytest.importorskip("emucuda", reason="only an emulated CUDA puts off copies")
    monkeypatch.setattr(uploads._UploadsAhead, "_wait_for", lambda self, coming: None)
    assert fault_shows(xp, monkeypatch, solver)


@on_the_double
@by_solver
def test_a_buffer_that_is_used_again_too_early_shows(xp, monkeypatch, solver):
    monkeypatch.setattr(uploads._UploadsAhead, "_wait_until_left", lambda self, buffer: None)
    with pytest.raises(RuntimeError, match="pinned memory"):
        fit(xp, monkeypatch, solver)


@on_streams
def test_a_buffer_that_is_overwritten_shows(xp, monkeypatch):
    if xp.label == "cupy":
        pytest.importorskip("emucuda", reason="only an emulated CUDA puts off copies")
    monkeypatch.setattr(uploads._UploadsAhead, "_wait_until_left", lambda self, buffer: None)
    ahead = uploads_to(xp, (50, 20))
    coming = sent(ahead, X[:50])
    ahead.buffer()
    ahead.buffer().memory[:] = 0
    if xp.label == "cupy":
        assert not np.array_equal(xp.numpy(ahead.finish(coming)), X[:50])
        return
    ahead.finish(coming)
    ahead._ring[0].memory[:] = 1  # later: the host has not waited yet
    with pytest.raises(RuntimeError, match="written to before a copy had left it"):
        ahead.close()


@on_the_double
@by_solver
def test_a_copy_to_memory_that_is_in_use_shows(xp, monkeypatch, solver):
    copy = uploads._TorchStreams.copy

    def too_early(self, block, rows, after):
        self.copying.wait_event = lambda event: None
        return copy(self, block, rows, after)

    monkeypatch.setattr(uploads._TorchStreams, "copy", too_early)
    with pytest.raises(RuntimeError, match="did not wait for the stream that uses its memory"):
        fit(xp, monkeypatch, solver)


@on_the_double
@pytest.mark.parametrize("solver", ["scatter", "gram", "krylov"])
def test_a_forgotten_device_shows(xp, monkeypatch, solver):
    """As on array-api-strict, whose second device is not the default."""
    place_elsewhere = _backend.from_host

    def from_host(values, place, dtype=None):
        return place_elsewhere(values, place._replace(device="cpu"), dtype)

    replace_in_backend(monkeypatch, "from_host", from_host)
    x = xp.array(X)
    with pytest.raises(RuntimeError, match="expected all tensors on the same device"):
        slce_xp.fit(x, y, solver=solver)


@on_the_double
@pytest.mark.parametrize("solver", ["scatter", "gram", "krylov"])
def test_a_stray_conversion_shows(xp, monkeypatch, solver):
    """`float` of a tensor on the device waits for it, and is in the books with file and line."""
    from slce_xp.core import _eigen

    with_fixed_signs = _eigen.with_fixed_signs

    def converting(vectors):
        float(vectors[0, 0])
        return with_fixed_signs(vectors)

    x = xp.array(X)
    before = len(xp.books.syncs)
    slce_xp.fit(x, y, solver=solver)
    honest = len(xp.books.syncs) - before
    monkeypatch.setattr(_eigen, "with_fixed_signs", converting)
    slce_xp.fit(x, y, solver=solver)
    stray = [sync for sync in xp.books.syncs if sync.file == __file__]
    assert len(xp.books.syncs) - before == 2 * honest + 1
    assert len(stray) == 1
    assert "_local_scalar_dense" in stray[0].operation


# ---------------------------------------------------------------- a large file, a small device


@pytest.mark.slow
def test_4_gb_through_a_device_of_256_mb_in_one_reading(tmp_path):
    """Rows of the first class are zero: holes of the file, and one weighted row in memory."""
    counting_device = pytest.importorskip("counting_device")
    n, d, n_classes, filled = 500_000, 2_000, 20, 4_000
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(n, filled, replace=False))
    labels = np.zeros(n, dtype=int)
    labels[some] = 1 + np.arange(filled) % (n_classes - 1)
    means = 4.0 * rng.standard_normal((n_classes, d), dtype=np.float32)
    rows = rng.standard_normal((filled, d), dtype=np.float32) + means[labels[some]]
    X = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", "float32", (n, d))
    X[some] = rows
    X.flush()
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    with counting_device.CountingDevice(capacity=256 * 10**6) as device:
        model = slce_xp.fit(X, labels, backend="torch", device="sim")
        assert device.peak_bytes <= device.capacity
        assert device.async_bytes == X.nbytes == 4 * 10**9  # one reading
        streamed = model.to("numpy")
    exact = slce_xp.fit(
        np.concatenate([rows, np.zeros((1, d))]),
        np.append(labels[some], 0),
        sample_weight=np.append(np.ones(filled), n - filled),
    )
    assert exact.components.dtype == np.float64
    outside = streamed.components.T - exact.components.T @ (
        exact.components @ streamed.components.T
    )
    assert np.linalg.norm(outside, 2) <= min(1e-3, streamed.angle_bound + exact.angle_bound)
