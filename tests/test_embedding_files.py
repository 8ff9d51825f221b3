"""Embeddings written in blocks, to files (completely or not at all) or into arrays."""

import errno
import os
import pathlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import oracle
import pytest
import scipy.sparse as sp
from conftest import spare_compiling

import slce_xp
from slce_xp import _files
from slce_xp._data import file_rows

N, D, K = 230, 17, 4
X, y = oracle.blobs(N, D, K, seed=71)
MODEL = slce_xp.fit(X, y)
SUFFIXES = [".npy", ".zarr"]


def opened(path):
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    return pytest.importorskip("zarr").open_array(str(path), mode="r")[:]


@pytest.fixture(autouse=True)
def needs_zarr(request):
    if ".zarr" in request.node.name:
        pytest.importorskip("zarr")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(file_rows, "READ_BLOCK", 37 * 8 * D)


@pytest.fixture
def rows(tmp_path_factory):
    """X in a file, in a folder of its own."""
    path = tmp_path_factory.mktemp("rows") / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


class Failing:
    """Rows that cannot be read from the third block on."""

    shape, dtype = X.shape, X.dtype

    def __init__(self, error):
        self.error = error

    def __getitem__(self, index):
        if index.start >= 2 * 37:
            raise self.error
        return X[index]


# ---------------------------------------------------------------- outputs


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_file_equals_the_embedding_in_memory(xp, tmp_path, rows, suffix):
    spare_compiling(xp)
    held = xp.held(X)
    model = slce_xp.fit(xp.array(X), y)
    path = tmp_path / f"Z{suffix}"
    # From the host if rows are read from a file, otherwise from the device.
    for data in [rows.astype(held.dtype) if xp.name == "numpy" else xp.array(X), _Rows(held)]:
        result = model.transform(data, out=path)
        expected = xp.numpy(model.transform(xp.array(X)))
        written = opened(path)
        assert written.dtype == held.dtype
        np.testing.assert_allclose(written, expected, atol=xp.tolerance(1e-12, 1e-5))
        assert result.shape == (N, K - 1)
        np.testing.assert_array_equal(result[:], written)
        assert os.listdir(tmp_path) == [path.name]


class _Rows:
    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __getitem__(self, index):
        return self.values[index]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["str", "path", "relative"])
def test_kinds_of_paths(monkeypatch, tmp_path, rows, suffix, kind):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"Z{suffix}"
    out = {"str": str(path), "path": path, "relative": f"Z{suffix}"}[kind]
    MODEL.transform(rows, out)
    np.testing.assert_allclose(opened(path), MODEL.transform(X), atol=1e-12)


def test_returned_memmap_is_read_only(tmp_path, rows):
    result = MODEL.transform(rows, tmp_path / "Z.npy")
    assert isinstance(result, np.memmap)
    assert not result.flags.writeable


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("data", [sp.csr_array(X), X.tolist(), X[:1], X[:0]], ids=type)
def test_other_kinds_of_samples(tmp_path, suffix, data):
    path = tmp_path / f"Z{suffix}"
    MODEL.transform(data, path)
    np.testing.assert_allclose(opened(path), MODEL.transform(data), atol=1e-12)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_earlier_file_is_replaced(tmp_path, rows, suffix):
    path = tmp_path / f"Z{suffix}"
    MODEL.transform(X[:10], path)
    MODEL.transform(rows, path)
    np.testing.assert_allclose(opened(path), MODEL.transform(X), atol=1e-12)
    assert os.listdir(tmp_path) == [path.name]


def test_file_of_x_itself_can_be_replaced(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    rows = np.load(path, mmap_mode="r")
    MODEL.transform(rows, path)
    np.testing.assert_allclose(np.load(path), MODEL.transform(X), atol=1e-12)
    np.testing.assert_array_equal(rows, X)  # which the map still holds
    with pytest.raises(OSError, match="ends before row"):  # not other rows, silently
        MODEL.transform(rows)


def test_zarr_chunks_are_written_once(monkeypatch, tmp_path, rows):
    """Blocks of 37 rows do not fit chunks of 50."""
    zarr = pytest.importorskip("zarr")
    writes = []
    write = zarr.Array.__setitem__

    def spy(array, index, values):
        writes.append((index.start, index.stop))
        write(array, index, values)

    monkeypatch.setattr(zarr.Array, "__setitem__", spy)
    cut = _files._whole_chunks
    monkeypatch.setattr(_files, "_whole_chunks", lambda blocks, _: cut(blocks, 50))
    MODEL.transform(rows, tmp_path / "Z.zarr")
    assert [start for start, _ in writes] == [0, *(stop for _, stop in writes[:-1])]
    assert all(start % 50 == 0 for start, _ in writes)
    np.testing.assert_allclose(opened(tmp_path / "Z.zarr"), MODEL.transform(X), atol=1e-12)


def arrays(folder):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    shape = (N, K - 1)
    yield np.full(shape, np.nan)
    yield np.asfortranarray(np.full(shape, np.nan))
    yield np.full(shape, np.nan, np.float32)
    yield np.memmap(folder / "Z.bin", "f8", "w+", shape=shape)
    yield zarr.create_array(store=str(folder / "Z.zarr"), shape=shape, chunks=(9, 2), dtype="f8")
    with h5py.File(folder / "Z.h5", "w") as file:
        yield file.create_dataset("Z", shape, "f8")
        yield file.create_dataset("small", shape, "f4", chunks=(11, 1), compression="gzip")


def test_arrays_are_written_into(tmp_path, rows):
    expected = MODEL.transform(X)
    for out in arrays(tmp_path):
        assert MODEL.transform(rows, out) is out
        single = np.dtype(out.dtype) == np.float32
        np.testing.assert_allclose(out[:], expected, atol=1e-5 if single else 1e-12)


# ---------------------------------------------------------------- invalid outputs


@pytest.mark.parametrize("out", ["Z.txt", "Z", "Z.npz", ".npy"])
def test_unknown_suffix_raises_before_reading(tmp_path, out):
    with pytest.raises(ValueError, match=r"out must end in \.npy or \.zarr, or be an array.*got"):
        MODEL.transform(Failing(AssertionError("it was read")), tmp_path / out)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "out",
    [np.empty((N, K)), np.empty((N + 1, K - 1)), np.empty(N), [[0.0] * (K - 1)] * N, 5],
    ids=["columns", "rows", "one-dimensional", "list", "number"],
)
def test_wrong_shape_raises_before_reading(out):
    message = r"out must be a path .* or an array .*shape \(230, 3\).*got (ndarray|list|int)"
    with pytest.raises(ValueError, match=message):
        MODEL.transform(Failing(AssertionError("it was read")), out)


@pytest.mark.parametrize("dtype", ["int64", "bool", "U8"])
def test_integer_output_array_raises(dtype):
    with pytest.raises(TypeError, match=rf"out must hold floating-point numbers; got.*{dtype}|<U8"):
        MODEL.transform(X, np.zeros((N, K - 1), dtype))


def test_array_of_a_device_raises():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"out must be .*host.*got .*Tensor.*out=None"):
        MODEL.transform(X, torch.empty(N, K - 1))


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        MODEL.transform(X, tmp_path / "nowhere" / "Z.npy")


@pytest.mark.parametrize("kind", ["a zarr group", "another folder"])
def test_folders_that_hold_more_than_an_array_are_not_replaced(tmp_path, kind):
    pytest.importorskip("zarr")
    path = tmp_path / "data.zarr"
    if kind == "a zarr group":
        group = pytest.importorskip("zarr").open_group(str(path), mode="w")
        group.create_array("X", shape=X.shape, dtype=X.dtype)[:] = X
    else:
        path.mkdir()
        (path / "notes.txt").write_text("all that there is")
    before = sorted(path.rglob("*"))
    with pytest.raises(FileExistsError, match=r"data\.zarr.*must be free.*array of zarr"):
        MODEL.transform(X, path)
    assert sorted(path.rglob("*")) == before


def test_error_names_missing_zarr(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"out='.*Z\.zarr' needs zarr.*pip install.*\.npy"):
        MODEL.transform(X, tmp_path / "Z.zarr")
    assert not os.listdir(tmp_path)


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("before", [False, True], ids=["nothing there", "a good file there"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "bad sector"), KeyboardInterrupt()])
def test_failure_keeps_an_earlier_file(tmp_path, suffix, before, error):
    path = tmp_path / f"Z{suffix}"
    if before:
        MODEL.transform(X[:10], path)
    with pytest.raises(type(error)):
        MODEL.transform(Failing(error), path)
    assert os.listdir(tmp_path) == [path.name] * before
    if before:
        np.testing.assert_allclose(opened(path), MODEL.transform(X[:10]), atol=1e-12)


def test_failed_replacement_keeps_the_old_folder(monkeypatch, tmp_path):
    pytest.importorskip("zarr")
    path = tmp_path / "Z.zarr"
    MODEL.transform(X[:10], path)
    replace = Path.replace

    def fail(this, target):
        if this.suffix == ".tmp":
            raise KeyboardInterrupt
        return replace(this, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        MODEL.transform(X, path)
    assert os.listdir(tmp_path) == [path.name]
    np.testing.assert_allclose(opened(path), MODEL.transform(X[:10]), atol=1e-12)


def test_full_disk_at_close_leaves_no_file(monkeypatch, tmp_path, rows):
    """File systems that allocate late report a full disk in the last call."""

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "Z.npy"
    MODEL.transform(X[:10], path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"out='.*Z\.npy' could not be written.*space") as caught:
        MODEL.transform(rows, path)
    assert caught.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == ["Z.npy"]
    np.testing.assert_allclose(np.load(path), MODEL.transform(X[:10]), atol=1e-12)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_old_output_is_kept_until_the_new_one_is_complete(monkeypatch, tmp_path, rows, suffix):
    path = tmp_path / f"Z{suffix}"
    MODEL.transform(X[:10], path)
    replace = pathlib.Path.replace

    def interrupted(source, target):
        if source.suffix == ".tmp":
            raise KeyboardInterrupt
        return replace(source, target)

    monkeypatch.setattr(pathlib.Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        MODEL.transform(rows, path)
    assert os.listdir(tmp_path) == [path.name]
    np.testing.assert_allclose(opened(path), MODEL.transform(X[:10]), atol=1e-12)


def test_old_folder_is_removed_after_replacement(monkeypatch, tmp_path, rows):
    pytest.importorskip("zarr")
    path = tmp_path / "Z.zarr"
    MODEL.transform(X[:10], path)

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        MODEL.transform(rows, path)
    monkeypatch.undo()
    np.testing.assert_allclose(opened(path), MODEL.transform(X), atol=1e-12)


LIMITED = """
import resource, sys
import numpy as np, slce_xp
path = sys.argv[1]
if path.endswith("zarr"):
    import zarr
rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 20))
y = np.arange(20_000) % 8
model = slce_xp.fit(X, y)
if sys.argv[2] == "before":
    model.transform(X[:10], path)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    model.transform(X, path)
except OSError as error:
    print(error.errno, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("before", [False, True], ids=["nothing there", "a good file there"])
def test_file_size_limit_leaves_no_partial_file(tmp_path, suffix, before):
    path = tmp_path / f"Z{suffix}"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path), "before" if before else "-"],
        env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(slce_xp.__file__))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{errno.EFBIG} ")
    assert f"out={str(path)!r} could not be written" in done.stdout
    assert os.listdir(tmp_path) == [path.name] * before
    if before:
        assert opened(path).shape == (10, 7)


# ---------------------------------------------------------------- names that are taken


def test_zarr_array_is_replaced_and_empty_folder_is_used(tmp_path):
    pytest.importorskip("zarr")
    (tmp_path / "Z.zarr").mkdir()
    model = slce_xp.fit(np.eye(4), [0, 0, 1, 1])
    for factor in (1.0, 2.0):
        out = model.transform(factor * np.eye(4), out=tmp_path / "Z.zarr")
        np.testing.assert_array_equal(out[:], model.transform(factor * np.eye(4)))


def test_invalid_out_raises_before_reading(tmp_path):
    pytest.importorskip("zarr")

    class Unreadable:
        shape, dtype = (4, 4), np.dtype(float)

        def __getitem__(self, rows):
            assert rows.stop <= 2  # probing the type of the rows
            return np.eye(4)[rows]

    (tmp_path / "Z.npy").mkdir()
    (tmp_path / "Z.zarr").write_text("notes")
    model = slce_xp.fit(np.eye(4), [0, 0, 1, 1])
    for name in ("Z.npy", "Z.zarr"):
        with pytest.raises(FileExistsError, match=f"{name}.*Remove it, or write elsewhere"):
            model.transform(Unreadable(), out=tmp_path / name)
    assert (tmp_path / "Z.zarr").read_text() == "notes"


def test_two_writers_of_one_file_do_not_interfere(tmp_path):
    model = slce_xp.fit(np.eye(4), [0, 0, 1, 1])

    class Within:
        """Another writer replaces the file while this one reads."""

        shape, dtype = (4, 4), np.dtype(float)

        def __getitem__(self, rows):
            if rows.stop == 4:
                model.transform(np.zeros((4, 4)), out=tmp_path / "Z.npy")
            return np.eye(4)[rows]

    out = model.transform(Within(), out=tmp_path / "Z.npy")
    np.testing.assert_array_equal(out, model.transform(np.eye(4)))
    assert [path.name for path in tmp_path.iterdir()] == ["Z.npy"]
