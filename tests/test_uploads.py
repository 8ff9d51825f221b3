"""Blocks that are copied to a GPU while others are worked on: what is not waited for shows.

The emulation of CUDA puts off copies on a stream of their own until somebody waits for them.
"""

import numpy as np
import oracle
import pytest

import slce_xp
from slce_xp._backend import uploads
from slce_xp._planning import memory as _memory

pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("xp", ["cupy"], indirect=True)]

X, y = oracle.blobs(600, 20, 4, seed=71)
BLOCKS = 12


@pytest.fixture
def emucuda(xp):
    return pytest.importorskip("emucuda", reason="only an emulated CUDA puts off copies")


class Rows:
    shape, dtype = X.shape, X.dtype

    def __getitem__(self, index):
        return X[index]


def fit(monkeypatch, solver):
    monkeypatch.setattr(_memory, "READ_BLOCK", X.nbytes // BLOCKS)
    return slce_xp.fit(Rows(), y, backend="cupy", solver=solver).to("numpy")


def error(model):
    return np.abs(model.eigenvalues / slce_xp.fit(X, y).eigenvalues - 1.0).max()


@pytest.mark.parametrize("solver", ["scatter", "krylov"])
def test_blocks_arrive_in_time(xp, emucuda, monkeypatch, solver):
    begun = []
    begin = uploads._UploadsAhead.begin
    monkeypatch.setattr(
        uploads._UploadsAhead, "begin", lambda self, rows: begun.append(1) or begin(self, rows)
    )
    assert error(fit(monkeypatch, solver)) < 1e-9
    assert len(begun) >= BLOCKS


@pytest.mark.parametrize("solver", ["scatter", "krylov"])
def test_a_block_that_is_not_waited_for_shows(xp, emucuda, monkeypatch, solver):
    monkeypatch.setattr(uploads._UploadsAhead, "finish", lambda self, coming: coming[0])
    assert fault_shows(monkeypatch, solver)


@pytest.mark.parametrize("solver", ["scatter", "krylov"])
def test_a_buffer_that_is_used_again_too_early_shows(xp, emucuda, monkeypatch, solver):
    monkeypatch.setattr(uploads._UploadsAhead, "_wait_until_left", lambda self, turn: None)
    fall_behind(monkeypatch)
    assert fault_shows(monkeypatch, solver)


@pytest.mark.parametrize("solver", ["scatter", "krylov"])
def test_a_device_that_is_behind_gets_the_right_blocks(xp, emucuda, monkeypatch, solver):
    fall_behind(monkeypatch)
    assert error(fit(monkeypatch, solver)) < 1e-9


def fall_behind(monkeypatch):
    """A block in three parts: the third is read before anybody waits for the first."""

    def begin(self, rows, original=uploads._UploadsAhead.begin):
        return [original(self, part) for part in np.array_split(rows, 3)]

    def finish(self, coming, original=uploads._UploadsAhead.finish):
        return self.place.xp.concat([original(self, part) for part in coming], axis=0)

    monkeypatch.setattr(uploads._UploadsAhead, "begin", begin)
    monkeypatch.setattr(uploads._UploadsAhead, "finish", finish)


def fault_shows(monkeypatch, solver):
    try:
        return not error(fit(monkeypatch, solver)) < 1e-3
    except ValueError as refused:  # memory that nothing was copied to may hold anything
        return "finite" in str(refused) or "small enough" in str(refused)


def test_blocks_that_nobody_takes_are_waited_for(xp, emucuda, monkeypatch):
    import cupy

    place = slce_xp._backend.find_place("cupy")
    ahead = uploads.uploads_to(place)
    block, arrived = ahead.begin(np.ones((50, 20)))
    assert not arrived.done
    ahead.close()
    assert arrived.done
    np.testing.assert_array_equal(cupy.asnumpy(block), np.ones((50, 20)))


@pytest.mark.parametrize("stored", [">f8", "longdouble", "uint8", "float16", "bool"])
def test_every_dtype_arrives(xp, stored):
    values = np.round(10 * X[:50]).clip(0, 100).astype(stored)
    place = slce_xp._backend.find_place("cupy")
    ahead = uploads.uploads_to(place)
    np.testing.assert_array_equal(ahead.finish(ahead.begin(values)).get(), values)
    ahead.close()
