"""The table of predictions against measurements, on the simulated device."""

import pytest

pytest.importorskip("torch")
from benchmarks import predictions


def test_predictions_are_compared_with_measurements():
    lines = list(predictions.table(predictions.SIMULATED, predictions.SMALL))
    rows = [line.split(" | ") for line in lines if "×" in line and line.startswith("| ")]
    assert len(rows) == len(predictions.SMALL)
    for problem, (_, form, seconds, launches, waits, size) in zip(
        predictions.SMALL, rows, strict=True
    ):
        assert form == problem[0]
        assert seconds.endswith("→ –")  # it is no GPU
        assert launches.endswith("(1.00 ×)")  # the simulated device against itself
        assert waits.endswith("(1.00 ×)")
        assert "kB" in size


def test_a_wrong_prediction_shows():
    assert predictions.cell("launches", (100, 150)) == "100 → 150 (1.50 ×)"
    assert predictions.cell("seconds", (0.5, None)) == "0.5000 → –"
    assert predictions.cell("launches", (100, None)) == "100 → –"
