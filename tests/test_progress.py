"""The progress of a fit: nothing, or passes, blocks, the residual and the time left."""

import io
import re
import sys

import numpy as np
import oracle
import pytest

import slce_xp
from slce_xp._planning import plan as _plan
from slce_xp._planning import problem as _memory
from slce_xp._planning.problem import PASSES

tqdm = pytest.importorskip("tqdm")
# Wider than the start block, so that the matrix-free form takes several passes.
X, y = oracle.blobs(300, 100, 5, seed=72)


WIDE, y_wide = oracle.blobs(100, 300, 5, seed=72)  # for the Gram form


class Rows:
    def __init__(self, values=X):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __getitem__(self, index):
        return self.values[index]


@pytest.fixture
def bars(monkeypatch):
    """The bars of tqdm, which record every line that they draw."""
    bars = []
    auto = pytest.importorskip("tqdm.auto")

    class Drawn(tqdm.tqdm):
        def __init__(self, *args, **options):
            self.lines, self.states = [], []
            bars.append(self)
            super().__init__(*args, file=io.StringIO(), mininterval=0, miniters=0, **options)

        def display(self, *args, **options):
            self.lines.append(str(self))
            self.states.append((self.n, self.total))

    monkeypatch.setattr(auto, "tqdm", Drawn)
    monkeypatch.setattr(_memory, "READ_BLOCK", 64 * 8 * 100)
    return bars


@pytest.mark.parametrize("data", [X, Rows()], ids=["memory", "blocks"])
def test_no_output_by_default(bars, capfd, data):
    slce_xp.fit(data, y)
    slce_xp.fit(data, y, solver="krylov", progress=False)
    assert capfd.readouterr() == ("", "")
    assert not bars


def test_bar_is_shown_on_stderr_on_request(capfd):
    slce_xp.fit(Rows(), y, solver="krylov", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert re.search(r"\d+ passes: 100%.*\[.*<.*, block=1/1, residual=\d\.\de-\d\d\]", err)


def test_bar_shows_passes_blocks_residual_and_the_time_left(bars):
    model = slce_xp.fit(Rows(), y, solver="krylov", progress=True)
    (bar,) = bars
    text = "\n".join(bar.lines)
    planned = PASSES["krylov"]
    for number in range(1, 1 + model.passes):
        assert f"pass {number} of about {planned}: " in text
        assert re.search(rf"pass {number} of about .*block=3/5", text)
    assert re.search(r"\[00:0\d<00:\d\d, ", text)  # passed < left
    residuals = re.findall(r"residual=(\S+?)[],]", text)
    assert residuals
    assert 1e-6 < float(residuals[0]) < 1.0  # relative to the scatter, before the last pass
    assert bar.lines[-1].startswith(f"{1 + model.passes} passes: 100%")


def test_fewer_passes_than_planned_complete_the_bar(bars):
    model = slce_xp.fit(Rows(), y, solver="krylov", progress=True)
    assert 1 + model.passes < PASSES["krylov"]
    (bar,) = bars
    assert bar.disable  # closed
    assert bar.n == bar.total == 300 * (1 + model.passes)
    totals = [total for n, total in bar.states if 0 < n < bar.n]
    assert set(totals) == {300 * PASSES["krylov"]}


def test_more_passes_than_planned_extend_the_bar(monkeypatch, bars):
    monkeypatch.setitem(_plan.PASSES, "krylov", 2)
    model = slce_xp.fit(Rows(), y, solver="krylov", progress=True)
    assert model.passes > 1
    (bar,) = bars
    assert all(n <= total for n, total in bar.states)
    assert f"pass {1 + model.passes} of about {1 + model.passes}: " in "\n".join(bar.lines)
    assert bar.n == bar.total == 300 * (1 + model.passes)


@pytest.mark.parametrize("where", ["memory", "blocks"])
@pytest.mark.parametrize("solver", ["scatter", "gram", "krylov"])
def test_passes_are_counted_in_every_form(monkeypatch, bars, solver, where):
    monkeypatch.setattr(_memory, "PANEL_BYTES", 64 * 8 * 100)  # five panels
    values, labels = (WIDE, y_wide) if solver == "gram" else (X, y)
    data = values if where == "memory" else Rows(values)
    model = slce_xp.fit(data, labels, "positive", solver=solver, progress=True)
    assert model.solver == solver
    (bar,) = bars
    assert all(n <= total for n, total in bar.states)
    steps = [re.match(r"pass (\d+) of about (\d+)", line) for line in bar.lines]
    passes = max(int(step[1]) for step in steps if step)
    if solver == "krylov":
        assert passes == 1 + model.passes
    elif where == "memory":
        assert passes == {"scatter": 1, "gram": 4}[solver]
    else:
        assert passes == model.plan.passes
    word = "pass" if passes == 1 else "passes"
    assert bar.lines[-1].startswith(f"{passes} {word}: 100%")


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_error_closes_the_bar(bars, error):
    class Broken(Rows):
        def __getitem__(self, index):
            if index.start == 128:
                raise error
            return super().__getitem__(index)

    with pytest.raises((OSError, KeyboardInterrupt)):
        slce_xp.fit(Broken(), y, progress=True)
    (bar,) = bars
    assert bar.disable
    assert bar.n == 128  # of two blocks, and no more was claimed
    assert bar.total > 128


def test_invalid_input_shows_no_bar(bars):
    with pytest.raises(ValueError, match="same number"):
        slce_xp.fit(Rows(), y[:-1], progress=True)
    with pytest.raises(MemoryError):
        slce_xp.fit(Rows(), y, max_memory=10, progress=True)
    assert not bars


def test_error_names_missing_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"progress=True needs tqdm.*pip install '?tqdm"):
        slce_xp.fit(Rows(), y, progress=True)
    slce_xp.fit(Rows(), y)  # which needs none


def test_progress_does_not_change_the_result(bars):
    quiet = slce_xp.fit(Rows(), y, solver="krylov")
    told_of = slce_xp.fit(Rows(), y, solver="krylov", progress=True)
    np.testing.assert_array_equal(quiet.components, told_of.components)
