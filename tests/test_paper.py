"""The paper's experiments: protocol, keeping of results, report and figures, on small data."""

import json
import os

import numpy as np
import pytest
from conftest import load_set
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

pytest.importorskip("matplotlib", reason="the figures need Matplotlib")
pytest.importorskip("tqdm", reason="the runner needs tqdm")

from benchmarks import datasets
from benchmarks.paper import __main__ as command
from benchmarks.paper import figures, notes, protocol, published, report, tables
from benchmarks.paper.protocol import Cell, Experiment, Results, Score
from slce_xp import SLCE

pytestmark = pytest.mark.benchmarks

REAL_FOLDER = os.environ.get("SLCE_XP_DATA")  # the tests themselves run without it
METHODS = {
    "SLCE": lambda k, seed: SLCE(k, random_state=seed),
    "PCA": lambda k, seed: PCA(k, random_state=seed),
    "LDA": lambda k, seed: LinearDiscriminantAnalysis(n_components=min(k, 2)),
}


@pytest.fixture(autouse=True)
def no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SLCE_XP_DATA", raising=False)
    protocol._loaded.cache_clear()


@pytest.fixture
def data_folder_or_skip():
    if not REAL_FOLDER:
        pytest.skip("SLCE_XP_DATA does not name a folder of data sets")
    return REAL_FOLDER


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two small sets in a folder take the place of the paper's; a third is missing."""
    sizes = {"blobs": (60, 6, 4), "fixed": (50, 5, 3), "absent": (9, 2, 3)}
    for seed, (name, (n, d, k)) in enumerate(sizes.items()):
        X, y = make_blobs(n, d, centers=k, cluster_std=3.0, random_state=seed)
        counts = tuple(sorted(np.bincount(y).tolist()))
        entry = datasets.DataSet(
            name.title(), (n, d), counts, "its page", "none",
            ((tmp_path / "nowhere").as_uri(),), datasets.parse_ionosphere,
            n_train=40 if name == "fixed" else None, test_share=0.25,
        )  # fmt: skip
        monkeypatch.setitem(datasets.DATA_SETS, name, entry)
        if name != "absent":
            np.savez(tmp_path / f"{name}.npz", X=X, y=y)
    experiments = (
        Experiment(1, ("blobs", "fixed", "absent"), (2, 3), ("SLCE", "LDA", "PCA")),
        Experiment(2, ("blobs",), (2,), ("SLCE", "PCA")),
        Experiment(3, ("blobs",), (2, 3), ("SLCE", "LDA", "PCA")),
    )
    monkeypatch.setattr(protocol, "EXPERIMENTS", experiments)
    monkeypatch.setattr(protocol, "QUICK_SETS", ("blobs",))
    monkeypatch.setattr(figures, "figures", lambda sets: {})
    return tmp_path


def run(folder, *arguments, methods=METHODS):
    given = ["--data", str(folder), "--output", str(folder / "out"), *arguments]
    return command.main(given, methods)


# ---------------------------------------------------------------- the plan


def test_protocol_is_that_of_the_paper():
    cells = protocol.plan(["SLCE", "LDA", "PCA", "HSIC SPCA", "Bair's SPCA", "LRPCA (CV)"])
    assert len(set(cells)) == len(cells)
    count = lambda *where: sum(cell[: len(where)] == where for cell in cells)  # noqa: E731
    assert count(1, "usps", "SLCE") == 25
    assert count(1, "mnist", "SLCE") == 1  # a fixed split
    assert count(2, "colon", "LRPCA (CV)") == 25
    for name in ("olivetti", "yale", "coil20"):
        assert count(3, name, "HSIC SPCA") == 25
        assert protocol.dimensions(3, name, "SLCE") == (5, 10, 15, 20)
    assert protocol.dimensions(1, "usps", "PCA") == (2, 3)
    assert protocol.dimensions(1, "arcene", "SLCE") == (1, 2, 3)


def test_every_published_number_has_a_cell():
    """And the other way round: sets and methods are spelt alike everywhere."""
    for number, name, method, p in published.ACCURACIES:
        experiment = protocol.EXPERIMENTS[number - 1]
        assert name in experiment.sets
        assert method in experiment.methods
        assert p in protocol.dimensions(number, name, method)
    assert set(published.DESCRIPTIONS) < set(datasets.DATA_SETS)


def test_method_names_match_peers():
    peers = pytest.importorskip("benchmarks.peers")
    wanted = {method for experiment in protocol.EXPERIMENTS[:3] for method in experiment.methods}
    assert wanted == set(peers.METHODS)
    others = {method for experiment in protocol.EXPERIMENTS[3:] for method in experiment.methods}
    assert wanted | others == set(protocol.all_methods())


def test_some_published_numbers():
    assert len(published.ACCURACIES) == 2 * 6 * 5 + 3 * 3 + 1
    assert published.ACCURACIES[1, "mnist", "HSIC SPCA", 3] == (63.59, 0.0)
    assert published.ACCURACIES[1, "pancan", "Bair's SPCA", 2] == (94.55, 2.27)
    assert published.ACCURACIES[2, "ionosphere", "LRPCA (MLE)", 2] == (85.90, 2.60)


# ---------------------------------------------------------------- a cell


def test_cell_is_the_accuracy_of_five_neighbours(folder):
    """Against neighbours counted by hand."""
    X, y = datasets.load("blobs", folder)
    cell = Cell(1, "blobs", "PCA", 4)
    train, test = datasets.split(datasets.DATA_SETS["blobs"], [1, 4])
    score = protocol.run_cell(cell, X, y, METHODS)
    for p, accuracy in zip((2, 3), score.accuracy, strict=True):
        model = PCA(p).fit(X[train])
        far = np.linalg.norm(
            model.transform(X[test])[:, None] - model.transform(X[train])[None], axis=2
        )
        nearest = y[train][np.argsort(far, axis=1)[:, :5]]
        guess = [np.bincount(row).argmax() for row in nearest]
        assert accuracy == pytest.approx(100 * np.mean(guess == y[test]))
    assert score.seconds > 0


def test_one_fit_serves_all_dimensions_only_where_it_may(folder):
    asked = []

    def recording(k, seed):
        asked.append(k)
        return METHODS["PCA"](k, seed)

    X, y = datasets.load("blobs", folder)
    nested = protocol.run_cell(Cell(1, "blobs", "PCA", 0), X, y, {"PCA": recording})
    assert asked == [3]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "NESTED", set())
        single = protocol.run_cell(Cell(1, "blobs", "PCA", 0), X, y, {"PCA": recording})
    assert asked == [3, 2, 3]
    assert nested.accuracy == single.accuracy


@pytest.mark.parametrize("method", sorted(protocol.NESTED))
def test_leading_columns_are_the_answer_for_fewer_dimensions(method):
    make = pytest.importorskip("benchmarks.peers").METHODS[method]
    X, y = make_blobs(60, 6, centers=4, random_state=0)
    most = make(3, 0).fit(X, y).transform(X)
    fewer = make(2, 0).fit(X, y).transform(X)
    np.testing.assert_allclose(np.abs(most[:, :2]), np.abs(fewer), atol=1e-8)


# ---------------------------------------------------------------- keeping


def test_interrupted_run_resumes(folder):
    calls = []

    def failing(k, seed):
        calls.append(seed)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return METHODS["SLCE"](k, seed)

    with pytest.raises(SystemExit):
        run(folder, "--quick", "--methods", "SLCE", methods={"SLCE": failing})
    kept = Results(folder / "out" / "results.json")
    assert len(kept.scores) == 3
    assert not (folder / "out" / "results.partial").exists()
    done = run(folder, "--quick", "--methods", "SLCE", methods={"SLCE": failing})
    assert len(done.scores) == 9  # three experiments, three repetitions
    assert calls == [0, 1, 2, 0, 0, 1, 2, 0, 1, 2]  # the fourth was interrupted
    assert {cell: done.scores[cell] for cell in kept.scores} == kept.scores
    again = run(
        folder, "--quick", "--methods", "SLCE", methods={"SLCE": None}
    )  # nothing is left to do
    assert again.scores.keys() == done.scores.keys()


def test_results_are_saved_and_loaded(tmp_path):
    results = Results(tmp_path / "results.json")
    cells = [Cell(1, "usps", "PCA", 1), Cell(1, "usps", "PCA", 0), Cell(2, "colon", "SLCE", 0)]
    results.keep(cells[0], Score((50.0, 60.125), 1.5))
    results.keep(cells[1], Score((40.0, 50.0), 2.5))
    results.keep(cells[2], Score((75.0,), 0.1))
    again = Results(tmp_path / "results.json")
    assert again.scores == results.scores
    assert again.accuracies(1, "usps", "PCA", 3).tolist() == [50.0, 60.125]  # by repetition
    assert again.accuracies(1, "usps", "PCA", 7).size == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "results.json"]


def test_results_of_another_protocol_are_recomputed(tmp_path):
    results = Results(tmp_path / "results.json")
    results.keep(Cell(1, "usps", "PCA", 0), Score((1.0, 2.0), 1.0))
    text = results.path.read_text().replace('"dimensions": [2, 3]', '"dimensions": [2, 4]')
    results.path.write_text(text)
    assert Results(results.path).scores == {}


@pytest.mark.parametrize("text", ["", "[]", '{"cells": []}', '{"about": {}, "cells": [{}]}'])
def test_foreign_file_raises_and_is_not_changed(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"results\.json: must be results of this program"):
        Results(path)
    assert path.read_text() == text


# ---------------------------------------------------------------- the command


def test_command_writes_results_and_report(folder, capsys):
    results = run(folder, "--repetitions", "4")
    assert len(results.scores) == (3 * 4 + 3 * 1) + 2 * 4 + 3 * 4
    told = capsys.readouterr()
    assert "left out: Absent is not here: absent.npz" in told.err
    kept = json.loads((folder / "out" / "results.json").read_text())
    assert kept["about"]["seconds"] > 0
    text = (folder / "out" / "report.md").read_text()
    assert "- Absent: no `absent.npz`, and [its home](its page) out of reach" in text
    assert str(folder) not in text
    assert "is of 4 random splits (the paper: 25)" in text
    values = results.accuracies(1, "blobs", "LDA", 3)
    assert f"{values.mean():.2f} ± {values.std(ddof=1):.2f}" in text
    fixed = results.accuracies(1, "fixed", "SLCE", 2)
    assert f"{fixed[0]:.2f}" in text


def test_same_seed_gives_the_same_numbers(folder):
    first = run(folder, "--quick")
    (folder / "out" / "results.json").unlink()
    second = run(folder, "--quick")
    assert {c: s.accuracy for c, s in first.scores.items()} == {
        c: s.accuracy for c, s in second.scores.items()
    }


def test_method_that_fails_does_not_stop_the_others(folder, capsys):
    def broken(k, seed):
        raise RuntimeError("no such luck")

    results = run(folder, "--quick", methods={**METHODS, "PCA": broken})
    assert {cell.method for cell in results.scores} == {"SLCE", "LDA"}
    text = (folder / "out" / "report.md").read_text()
    assert "- experiment 1, blobs, PCA: RuntimeError: no such luck" in text


def test_options_are_checked(capsys):
    for wrong, message in (
        (["--repetitions", "0"], "--repetitions must be at least 1; got 0"),
        (["--sets", "iris"], "invalid choice: 'iris'"),
        (["--methods", "UMAP"], "invalid choice: 'UMAP'"),
    ):
        with pytest.raises(SystemExit):
            command.arguments(wrong, ["SLCE"])
        assert message in capsys.readouterr().err
    assert command.arguments([], ["SLCE"]).output != command.arguments(["--quick"], []).output


def test_processes_give_the_numbers_of_this_process(data_folder_or_skip, tmp_path):
    pytest.importorskip("benchmarks.peers")
    cells = protocol.plan(["SLCE", "PCA"], ["ionosphere"], 2)
    results = Results(tmp_path / "results.json")
    outcomes = dict(protocol.run(cells, results, data_folder_or_skip, workers=2))
    assert outcomes.keys() == set(cells)
    here = Results(tmp_path / "here.json")
    dict(protocol.run(cells, here, data_folder_or_skip, methods=METHODS))
    assert {c: s.accuracy for c, s in results.scores.items()} == {
        c: s.accuracy for c, s in here.scores.items()
    }


# ---------------------------------------------------------------- the report


def test_what_counts_as_different():
    assert not report.differs(report.Estimate(50.0, 1.0, 25), (52.8, 1.0))  # 2.8 < 2√2
    assert report.differs(report.Estimate(50.0, 1.0, 25), (52.9, 1.0))
    assert not report.differs(report.Estimate(45.7385, 0.0, 1), (45.74, 0.0))
    assert report.differs(report.Estimate(45.72, 0.0, 1), (45.74, 0.0))


def test_tables_side_by_side_mark_differences(tmp_path):
    results = Results(tmp_path / "results.json")
    for r, (slce, lda) in enumerate([(55.0, 64.0), (56.0, 66.0)]):
        results.scores[Cell(1, "usps", "SLCE", r)] = Score((slce, 76.0), 0.1)
        results.scores[Cell(1, "usps", "LDA", r)] = Score((lda, 79.0), 0.2)
    lines = report.accuracy_table(results, 1, 2)
    assert lines[0] == "| set |  | SLCE | LDA |"
    assert lines[2] == "| USPS | here | 55.50 ± 0.71 | **65.00 ± 1.41** ≠ |"
    assert lines[3] == "|  | paper | 55.64 ± 0.95 | 47.20 ± 0.77 |"
    apart = report.differences(results)
    assert apart[0].startswith("2 of 4 means")
    assert "| 1 | USPS | LDA | 2 | 65.00 ± 1.41 | 47.20 ± 0.77 | +17.80 |" in apart
    check = report.honest_check(results)
    assert check[0].startswith("Another linear method has the higher mean in 2 of 2 comparisons")
    assert "| 1 | USPS | 2 | 55.50 ± 0.71 | LDA | **−9.50 ± 0.71** | – |" in check
    assert "| 1 | USPS | 0.1 | 0.2 |" in report.seconds_table(results)


def test_tables_of_many_methods_become_two_with_ours_in_both(tmp_path):
    results = Results(tmp_path / "results.json")
    methods = protocol.EXPERIMENTS[0].methods
    for i, method in enumerate(methods):
        results.scores[Cell(1, "usps", method, 0)] = Score((50.0 + i, 60.0), 0.1)
    lines = report.accuracy_table(results, 1, 2)
    heads = [line for line in lines if line.startswith("| set |")]
    assert len(heads) == 2
    for head in heads:
        assert head.startswith("| set |  | SLCE | SLCE, separation |")
        assert head.count("|") <= 3 + tables.MOST_COLUMNS
    assert all(sum(f"| {method} |" in head for head in heads) == 1 for method in methods[2:])
    # The best is marked once, wherever it is; the paper's numbers are under its methods.
    assert "".join(lines).count("**") == 2
    assert sum(line.startswith("|  | paper |") for line in lines) == 2


def test_separation_is_compared_with_methods_that_are_not_ours(tmp_path):
    results = Results(tmp_path / "results.json")
    for method, accuracy in {"SLCE": 90.0, "SLCE, separation": 80.0, "LDA": 85.0}.items():
        results.scores[Cell(1, "usps", method, 0)] = Score((accuracy, accuracy), 0.1)
    assert "| 1 | USPS | 2 | 90.00 | LDA | +5.00 | – |" in report.honest_check(results)
    check = report.honest_check(results, "SLCE, separation")
    assert "| 1 | USPS | 2 | 80.00 | LDA | **−5.00** | – |" in check


def test_level_is_within_one_standard_error_of_the_mean_difference(tmp_path):
    results = Results(tmp_path / "results.json")
    # Behind NCA by 1 ± 1 / √2 in two dimensions and by 0.5 ± 1 / √2 in three, ahead of LDA.
    for r, behind in enumerate((0.293, 1.707)):
        ours = Score((80.0, 80.0), 0.1)
        results.scores[Cell(1, "mice_protein", "SLCE, separation", r)] = ours
        results.scores[Cell(1, "mice_protein", "LDA", r)] = Score((70.0, 70.0), 0.1)
        nca = Score((80.0 + behind, 79.5 + behind), 0.1)
        results.scores[Cell(1, "mice_protein", "NCA", r)] = nca
    levels = [row.is_level for row in report.rivalries(results, "SLCE, separation")]
    assert levels == [False, True]
    text = report.honest_check(results, "SLCE, separation")[0]
    assert "mean difference, in 1 of 2, and in 2 of 2 without LDA, shrinkage and NCA" in text


def test_systems_of_the_related_work_have_a_row_once_they_have_run(tmp_path):
    results = Results(tmp_path / "results.json")
    assert notes.described_systems(results) == []
    results.scores[Cell(5, "curves_phase", "SFPCA", 0)] = Score((50.0, 60.0), 1.25)
    results.scores[Cell(5, "curves_amplitude", "SFPCA", 0)] = Score((50.0, 60.0), 0.5)
    *_, row, _ = notes.described_systems(results)
    assert row.startswith("| SFPCA | Nie et al. 2018")
    assert row.endswith("| 0.5 to 1.2 |")


def test_experiment_on_curves_runs_without_data(tmp_path):
    methods = {name: pytest.importorskip("benchmarks.peers").CURVE_METHODS.get(name) or make
               for name, make in {**METHODS, "SFPCA": None}.items()}  # fmt: skip
    arguments = ["--sets", "curves_phase", "--repetitions", "1", "--output", str(tmp_path / "out")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "figures", lambda sets: {})
        results = command.main([*arguments, "--methods", "SLCE", "SFPCA"], methods)
    assert {cell.method for cell in results.scores} == {"SLCE", "SFPCA"}
    text = (tmp_path / "out" / "report.md").read_text()
    assert "## Simulated curves" in text
    assert "developed on these sets" in text


def test_rows_that_are_not_done_are_named(tmp_path):
    results = Results(tmp_path / "results.json")
    for method, count in {"SLCE": 3, "LDA": 3, "PCA": 1}.items():
        for r in range(count):
            results.scores[Cell(2, "ionosphere", method, r)] = Score((80.0,), 0.1)
    rows = report.unfinished(results, 3)
    assert "PCA on Ionosphere (1 of 3)" in rows
    assert "NCA on Ionosphere" in rows
    assert not any(row.startswith(("SLCE on", "LDA on")) for row in rows)


def test_sets_that_are_not_as_described():
    lines = report.described_otherwise()
    for title in ("Arcene", "Olivetti", "Ionosphere", "Mice Protein", "Human Activity"):
        assert any(line.startswith(f"| {title} |") for line in lines)
    assert len(lines) == 2 + 5 + 1


def test_claims_on_experiment_3(tmp_path):
    results = Results(tmp_path / "results.json")
    for method, accuracy in {"SLCE": 70, "LDA": 80, "PCA": 60, "HSIC SPCA": 65}.items():
        values = (accuracy + 0.0, accuracy + 1.0, accuracy + 2.0, accuracy + 2.5)
        results.scores[Cell(3, "yale", method, 0)] = Score(values, 0.1)
    first, second, third, _ = report.claims(results)
    assert "ahead of LDA and HSIC SPCA in 0 of 4 means" in first
    assert "here in 0 of 1." in second
    assert "changes by +0.50" in third


def test_alternative_readings_of_the_paper(tmp_path):
    results = Results(tmp_path / "results.json")
    results.scores[Cell(1, "mnist", "LDA", 0)] = Score((52.30, 72.15), 1.0)
    results.scores[Cell(4, "mnist", "LDA, ridge 10", 0)] = Score((46.03, 71.25), 1.0)
    lines = report.other_readings(results)
    assert "| MNIST | 2 | 46.03 ± 0.00 | 52.30 | – | **46.03** | – | – |" in lines
    assert "| MNIST | 3 | 67.51 ± 0.00 | 72.15 | – | 71.25 | – | – |" in lines
    assert not any("Bair" in line for line in lines)


def test_alternative_readings_limits():
    alternatives = pytest.importorskip("benchmarks.paper.alternatives")
    X, y = make_blobs(90, 5, centers=3, random_state=0)
    lda = LinearDiscriminantAnalysis(n_components=2).fit(X, y)
    ours = alternatives.GeneralisedLDA(2, unit_length=True).fit(X, y).directions_
    theirs = lda.scalings_[:, :2] / np.linalg.norm(lda.scalings_[:, :2], axis=0)
    np.testing.assert_allclose(np.abs((ours * theirs).sum(axis=0)), 1.0, atol=1e-6)
    # A ridge that drowns S_w leaves S_b, whose rank is 2: the centroids' plane.
    alone = alternatives.GeneralisedLDA(2, ridge=1e9, unit_length=True).fit(X, y).directions_
    centroids = np.stack([X[y == j].mean(axis=0) for j in range(3)]) - X.mean(axis=0)
    np.testing.assert_allclose(centroids @ alone @ alone.T, centroids, atol=1e-6)
    # All features kept is PCA; else the share is kept.
    everything = alternatives.BairKeeping(2, 1.0).fit(X, y)
    pca = PCA(2).fit(X)
    cosines = np.abs((everything.components_ * pca.components_).sum(axis=1))
    np.testing.assert_allclose(cosines, 1.0, atol=1e-8)
    assert alternatives.BairKeeping(2, 0.6).fit(X, y).kept_.sum() == 3


# ---------------------------------------------------------------- figures


def test_figures_without_data_sets(tmp_path):
    results = Results(tmp_path / "results.json")
    for name in ("olivetti", "yale"):
        for method in ("SLCE", "PCA"):
            for r in range(2):
                results.scores[Cell(3, name, method, r)] = Score((50.0 + r, 60.0, 70.0, 80.0), 1.0)
    drawn = figures.draw_all(tmp_path, {}, None, results)
    assert set(drawn) == {"intuition.png", "directions.png", "dimensions.png"}
    for file in drawn:
        assert 5_000 < (tmp_path / file).stat().st_size < 150_000


def test_figures_of_small_sets(tmp_path, data_folder_or_skip):
    sets = {"yale": True, "mice_protein": True}
    results = Results(tmp_path / "results.json")
    drawn = figures.draw_all(
        tmp_path, sets, lambda name: datasets.load(name, data_folder_or_skip), results
    )
    assert {"eigenvalue-bound.png", "embedding.png"} < set(drawn)
    for file in drawn:
        assert (tmp_path / file).stat().st_size < 150_000


def test_pancan_is_plotted_if_available():
    assert "pancan" in figures.figures({"pancan": True})["embedding.png"][1]
    caption, needed, _ = figures.figures({})["eigenvalue-bound.png"]
    assert needed == ("yale",)
    assert "PANCAN, which is missing here" in caption


# ---------------------------------------------------------------- real data


def test_mnist_to_the_last_digit(data_folder_or_skip):
    """PCA; SLCE has its own test among those of real data."""
    load_set(data_folder_or_skip, "mnist")  # or skip
    X, y = datasets.load("mnist", data_folder_or_skip)
    score = protocol.run_cell(Cell(1, "mnist", "PCA", 0), X, y, METHODS)
    for p, accuracy in zip((2, 3), score.accuracy, strict=True):
        assert round(accuracy, 2) == published.ACCURACIES[1, "mnist", "PCA", p][0]


def test_command_help(capsys):
    pytest.importorskip("benchmarks.peers", reason="its methods need torch")
    with pytest.raises(SystemExit):
        command.arguments(["--help"], list(protocol.all_methods()))
    assert "--quick" in capsys.readouterr().out
