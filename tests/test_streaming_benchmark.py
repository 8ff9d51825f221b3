"""The benchmark of files larger than memory."""

import sys

import numpy as np
import pytest

if sys.platform != "linux":
    pytest.skip("needs /proc, RLIMIT_DATA and fadvise", allow_module_level=True)

import slce_xp
from benchmarks import streaming
from benchmarks.process import memory_of

pytestmark = pytest.mark.benchmarks


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return streaming.Data(tmp_path_factory.mktemp("streaming"), 8e6, 200, "float64")


def test_file_is_fitted_within_the_limit_and_each_pass_has_its_plain_read(data):
    limit = int(streaming.LEAST_LIMIT)
    run = data.run("file", "cold", solver="krylov", limit=limit, cold=True, threads=1)
    assert "error" not in run
    X, y = np.fromfile(data.path).reshape(data.shape), np.load(data.path.parent / "y.npy")
    model = slce_xp.fit(X, y, solver="krylov")
    assert len(run["passes"]) == len(run["reads"]) > 2
    assert min(run["passes"]) > 0
    assert run["taken_before"] < run["memory"]["private"] <= limit
    np.save(data.path.parent / "here.npy", model.components)
    assert data.angle("cold", "here") <= 2 * model.angle_bound < 0.1
    np.save(data.path.parent / "other.npy", model.components[:, ::-1])
    assert data.angle("cold", "other") > 0.1


def test_ineffective_limit_is_detected(monkeypatch):
    monkeypatch.setattr(streaming.resource, "setrlimit", lambda *_: None)
    with pytest.raises(OSError, match="RLIMIT_DATA must be in force"):
        streaming._limit_private_memory(10**6)


def test_failed_measurement_reports_the_reason(data):
    run = data.run("file", "refused", solver="auto", limit=10**6, cold=False, threads=1)
    assert "max_memory" in run["error"]


def test_memory_of_a_process_grows_by_what_it_takes():
    before = memory_of()
    held = np.ones(2**23)
    after = memory_of()
    for name in ("private", "resident"):
        assert after[name] - before[name] == pytest.approx(held.nbytes, rel=0.1)
    assert after["peak"] >= held.nbytes
