"""The benchmark of rates: what it counts, on few repetitions."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from benchmarks import honesty

pytestmark = [pytest.mark.benchmarks, pytest.mark.filterwarnings("ignore")]


def test_plain_statistic_rejects_what_welchs_does_not(monkeypatch):
    monkeypatch.setattr(honesty, "NULLS", {"unequal": ((30, 8), (1.0, 2.0))})
    monkeypatch.setattr(honesty, "PERMUTATIONS", 59)
    found = honesty.rejections(40)["unequal"]
    assert found["tr(S_b)"] > 0.6
    assert found["between"] < 0.25


def test_tables_have_a_row_for_each_measurement(tmp_path, monkeypatch):
    monkeypatch.setattr(honesty, "PERMUTATIONS", 19)
    monkeypatch.setattr(honesty, "LIKELIHOODS", ("few",))
    monkeypatch.setattr(honesty, "TIMED", ("few",))
    X, y = honesty.gaussian()
    np.savez(tmp_path / "few.npz", X=X[:300], y=y[:300])
    page = tmp_path / "page.md"
    page.write_text("<!-- honesty: x -->\n<!-- /honesty -->\n", encoding="utf-8")
    given = ["--repetitions", "2", "--data", str(tmp_path), "--output", str(tmp_path)]
    text = honesty.main([*given, "--write", str(page)])
    assert honesty.main(["--redraw", "--output", str(tmp_path)]) == text
    assert text in page.read_text(encoding="utf-8")
    for name in (*honesty.NULLS, *honesty.SHAPES, "Gaussian, 1500 × 10"):
        assert f"| {name} | " in text
    assert text.count("| few | ") == 2
