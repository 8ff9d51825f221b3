"""The regret benchmark: the problems it draws and the report it prints."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("threadpoolctl")

from benchmarks import regret
from benchmarks.drawn import Drawn, draw

pytestmark = pytest.mark.benchmarks

SMALL = {"tall": Drawn(1, 90, 12, 3), "wide": Drawn(2, 30, 70, 4, "float32", offset=50.0)}


@pytest.fixture
def tiny(monkeypatch):
    """Runs of two tiny problems instead of large ones."""
    made = [(name, problem.data, name, "medium") for name, problem in SMALL.items()]
    monkeypatch.setattr(regret, "problems", lambda *_: made)


def test_draw_is_reproducible():
    first, again, other = (list(draw(9, seed, 1e9)) for seed in (5, 5, 6))
    assert first == again
    assert first != other
    for problem in (SMALL["tall"], SMALL["wide"], Drawn(3, 40, 30, 2, density=0.1)):
        (X, y), (same, labels) = problem.data(), problem.data()
        np.testing.assert_array_equal(y, labels)
        assert abs(X - same).max() == 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_draw_covers_the_stated_ranges(seed):
    drawn = list(draw(60, seed, regret.FULL["most_work"]))
    assert len(drawn) == len({problem.seed for problem in drawn}) == 60
    assert {problem.dtype for problem in drawn} == {"float32", "float64"}
    assert sum(problem.is_sparse for problem in drawn) == 12
    for kind in (
        [p for p in drawn if p.n >= 5 * p.d],
        [p for p in drawn if p.d >= 2 * p.n],
        [p for p in drawn if p.n < 5 * p.d and p.d < 2 * p.n],
    ):
        assert len(kind) == 20
        assert any(p.is_sparse for p in kind)
        assert {p.dtype for p in kind} == {"float32", "float64"}
    for values, low, high in (
        ([p.n_classes for p in drawn], 5, 100),
        ([p.decay for p in drawn], 0.3, 1.7),
        ([p.spread for p in drawn], 3e-3, 0.3),
        ([p.strength for p in drawn], 0.3, 3.0),
        ([p.offset for p in drawn], 1.0, 100.0),
        ([p.n * p.d for p in drawn], 2e5, 1e7),
    ):
        assert min(values) < low
        assert max(values) > high
    for p in drawn:
        assert 2 <= p.n_classes <= min(500, p.n // 4)
        assert p.n * p.d * p.density * min(p.n, p.d) <= regret.FULL["most_work"]


def test_data_match_the_drawn_problem():
    flat, steep = (
        np.linalg.svd(Drawn(0, 300, 80, 2, decay=decay, strength=0.01).data()[0])[1]
        for decay in (0.0, 2.0)
    )
    assert flat[39] / flat[0] > 0.3
    assert steep[39] / steep[0] < 0.05
    X, y = Drawn(0, 200, 50, 7, "float32", offset=100.0).data()
    assert X.dtype == np.float32
    assert sorted(set(y)) == list(range(7))
    assert abs(X.mean() / X.std()) > 50
    sparse = Drawn(0, 200, 500, 7, density=0.05).data()[0]
    assert 0.02 < sparse.nnz / (200 * 500) <= 0.05


def test_times_below_a_tick_of_the_clock_have_no_ratio():
    assert regret.ratio(result(1.0, 0.0, 0.5), "best") is None
    assert regret.ratio(result(1.0, 0.0, 0.5), "PCA") == 2.0


def test_hopeless_forms_are_skipped():
    assert regret.worth_timing(800, 1000) == (["scatter", "gram", "krylov"], {})
    forms, notes = regret.worth_timing(1000, 800)
    assert forms == ["scatter", "krylov"]
    assert notes == {"gram": "skipped, it needs n < d"}
    forms, notes = regret.worth_timing(200, 20_000)
    assert forms == ["gram", "krylov"]
    assert "× the work" in notes["scatter"]
    assert regret.worth_timing(20_000, 9_000)[0] == ["krylov"]


def test_slow_contenders_are_stopped():
    with pytest.raises(regret.StoppedError), regret.stopped_after(0.05):
        time.sleep(60)
    with regret.stopped_after(0.01):
        pass
    time.sleep(0.02)  # the alarm is off


def result(auto, best, pca, shape=(100, 100, 3), **changes):
    seconds = {"auto": auto, "gram": best, "PCA": pca}
    base = {
        "passes_taken": 4,
        "region": "wide",
        "spectrum": "flat",
        "notes": {},
        "unconverged": [],
        "counts_differ": False,
        "form": "gram",
    }
    return {
        "shape": list(shape),
        "seconds": seconds,
        "best": "gram",
        "fastest": "gram",
        **base,
        **changes,
    }


def test_a_form_that_proves_less_than_auto_is_not_the_best():
    angles = {"auto": 1e-6, "scatter": 1e-4, "gram": 1e-2, "krylov": np.inf}
    models = {form: SimpleNamespace(angle_bound=angle) for form, angle in angles.items()}
    assert regret.proving(regret.FORMS, models) == ["scatter"]
    models["auto"].angle_bound = np.inf
    assert regret.proving(regret.FORMS, models) == list(regret.FORMS)
    assert regret.proving(["krylov"], {"krylov": models["krylov"]}) == ["krylov"]  # auto stopped
    slow = result(1.0, 1.0, 4.0, sparse=False, dtype="float64", fastest="krylov")
    slow["seconds"]["krylov"] = 0.25
    assert regret.ratio(slow, "fastest") == 4.0
    assert "krylov is faster, and proves less" in regret.row("name", slow)


def test_counts_are_compared_by_their_levels():
    def model(level, *bounds):
        return SimpleNamespace(zero_level=level, n_positive_bounds=bounds)

    # At most 3 eigenvalues above 1.0, and at least 4 above a lower level, agree.
    assert not regret.counts_differ({"scatter": model(0.1, 4, 4), "krylov": model(1.0, 2, 3)})
    assert not regret.counts_differ({"scatter": model(0.1, 3, 5), "krylov": model(0.1, 5, 6)})
    assert regret.counts_differ({"scatter": model(0.1, 3, 3), "krylov": model(0.1, 4, 4)})
    assert regret.counts_differ({"scatter": model(0.1, 2, 3), "krylov": model(1.0, 4, 5)})


def test_targets_are_judged_by_median_quantile_and_worst():
    fine = {str(i): result(1.0, 1.0, 4.0) for i in range(5)}
    assert all(reached for _, _, reached in regret.targets(fine))
    bad = {**fine, "bad": result(6.0, 1.0, 4.0, counts_differ=True)}
    table = {label: (value, reached) for label, value, reached in regret.targets(bad)}
    assert table["auto / best form, median ≤ 1.05"] == ("1.00", True)
    assert table["auto / best form, 90 % ≤ 1.3"] == ("3.50", False)
    assert table["auto / best form, worst ≤ 3.0"] == ("6.00", False)
    assert table["auto / PCA where d ≥ n/2, worst ≤ 1.0"] == ("1.50", False)
    assert table["auto stopped or unconverged, or counts that differ: 0"] == ("1", False)
    stopped = result(3.0, 9.0, 1.0, notes={"auto": "stopped after 3 s"})
    assert regret.ratio(stopped, "best") is None  # a lower bound of 0.33 is not conclusive
    assert regret.ratio(stopped, "PCA") == 3.0
    assert not list(regret.targets({"stopped": stopped}))[-1][2]
    assert "auto / PCA where n ≥ 5 d, worst ≤ 1.0" not in table
    lines = regret.summary(bad, 9)
    assert "Time was up after 6 of 9 problems." in lines
    assert lines[-1].startswith("Targets missed in this run: auto / best form, 90 % ≤ 1.3 (got 3")
    assert regret.summary(fine, 5)[-1] == "Targets missed in this run: none."


def test_run_prints_a_table_and_a_summary(tiny, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(regret.QUICK, "seconds", 0.05)
    page = tmp_path / "page.md"
    page.write_text("<!-- regret: by hand -->\nold\n<!-- /regret -->\n")
    arguments = ["--quick", "--threads", "1", "--output", str(tmp_path), "--write", str(page)]
    regret.main([*arguments, "--clock", "cpu"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:3] == ["problem", "n", "×"]
    assert lines[2].startswith("tall")
    assert "90 × 12" in lines[2]
    assert "30 × 70" in lines[3]
    assert any(line.startswith("Targets missed in this run: ") for line in lines)
    report = json.loads((tmp_path / "regret.json").read_text())
    text = page.read_text()
    assert "old" not in text
    assert "| auto / best form, median ≤ 1.05 |" in text
    assert "| tall | 1 |" in text
    assert "| wide | 1 |" in text
    for name, problem in SMALL.items():
        found = report["results"][name]
        assert found["shape"] == [problem.n, problem.d, problem.n_classes]
        assert found["best"] in regret.FORMS
        assert found["seconds"][found["best"]] == min(
            found["seconds"][form] for form in regret.FORMS if form in found["seconds"]
        )
    assert "plans assume 12." in text
    assert "its subspace is more than 0.001 rad from the exact one" in text
    assert "SYRK + read" in report["results"]["tall"]["seconds"]
    assert "SYRK + read" not in report["results"]["wide"]["seconds"]
