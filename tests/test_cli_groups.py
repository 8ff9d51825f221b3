"""Subjects, batches, permutation tests and tables that lack features, in the command."""

import re

import numpy as np
import pytest
from command import here, refused, slce, works

import slce_xp
from slce_xp._alignment import aligned

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def mice():
    """Ten rows of each of twelve mice, which differ; the drug does nothing. Plates shift all."""
    rng = np.random.default_rng(0)
    mouse, plate = np.repeat(np.arange(12), 10), np.tile([0, 1, 2], 40)
    X = rng.normal(size=(120, 50)) + 2 * rng.normal(size=(12, 50))[mouse]
    frame = pandas.DataFrame(X + plate[:, None] * rng.normal(size=50)).add_prefix("gene")
    return frame.assign(
        mouse=[f"m{i}" for i in mouse],
        plate=[f"p{i}" for i in plate],
        dose=np.array(["none", "drug"])[mouse % 2],
    )


@pytest.fixture
def folder(tmp_path, mice):
    mice.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def share(text):
    return float(re.search(r"prediction +([\d.]+) %", text)[1])


def test_rows_of_a_subject_are_held_out_together_and_a_hint_says_so(folder):
    call = ["fit", "t.csv", "--label", "dose"]
    done = here(folder, *call)
    assert "several rows have the same 'mouse'" in done.stderr
    assert "--groups mouse" in done.stderr
    assert share(done.stdout) > 95
    assert "p = 0.01 (99 permutations of samples; " in done.stdout
    done = here(folder, *call, "--groups", "mouse")
    assert "several rows" not in done.stderr
    assert share(done.stdout) < 75
    assert "folds of groups" in done.stdout
    p = float(re.search(r"p = ([\d.]+) \(99 permutations of groups", done.stdout)[1])
    assert p > 0.05


def test_subjects_that_are_numbers_are_recognised(folder, mice):
    numbered = mice.assign(mouse=mice.mouse.str[1:].astype(int), plate=0.5)
    numbered.to_csv(folder / "n.csv", index=False)
    done = here(folder, "fit", "n.csv", "--label", "dose", "--folds", "0")
    assert "--groups mouse" in done.stderr
    assert "metadata" not in done.stderr  # one remedy


def test_compare_and_select_keep_subjects_together(folder):
    call = ["t.csv", "--label", "dose", "--groups", "mouse", "--folds", "3"]
    text = works(
        folder, "compare", *call, "--components", "1", "--methods", "pca,all", "-o", "o.csv"
    )
    assert pandas.read_csv(folder / "o.csv").accuracy.max() < 0.8, text
    text = works(folder, "select", *call, "--resamples", "0", "--top", "5")
    assert max(map(float, re.findall(r"\d+  (\d+\.\d) ±", text))) < 80


def test_confusions_are_printed(folder, mice):
    text = works(folder, "fit", "t.csv", "--label", "dose")
    X, y = mice.filter(like="gene").to_numpy(), mice.dose.to_numpy(dtype=str)
    found = slce_xp.cross_embed(X, y, 1)
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "true \\ predicted drug none" in rows
    for label, counts in zip(found.classes, found.confusion, strict=True):
        assert f"{label} {counts[0]} {counts[1]}" in rows


def test_test_prints_what_the_library_finds(folder, mice):
    pytest.importorskip("matplotlib")
    call = ["test", "t.csv", "--label", "dose", "--permutations", "199", "--pairs"]
    text = works(folder, *call, "--groups", "mouse", "--plot", "p.png")
    X, y = mice.filter(like="gene").to_numpy(), mice.dose.to_numpy(dtype=str)
    found = slce_xp.permutation_test(X, y, 199, groups=mice.mouse, pairs=True)
    assert text == f"{found}\nwrote p.png\n"
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
    found = slce_xp.permutation_test(X, y, 199, strata=mice.plate, pairs=True)
    assert works(folder, *call, "--strata", "plate") == f"{found}\n"


def test_effects_of_batches_are_removed_in_fit_and_transform(folder, mice):
    call = ["fit", "t.csv", "--label", "dose", "--batch", "plate", "--folds", "0"]
    works(folder, *call, "--model", "m.npz", "--embedding", "Z.csv")
    X, y = mice.filter(like="gene").to_numpy(), mice.dose.to_numpy(dtype=str)
    model = slce_xp.fit(X, y, batch=mice.plate)
    expected = model.transform(X, batch=mice.plate)
    frame = pandas.read_csv(folder / "Z.csv")
    np.testing.assert_allclose(frame.filter(like="comp"), expected, atol=1e-9)
    assert list(frame.plate) == list(mice.plate)
    call = ["predict", "m.npz", "t.csv", "-o", "p.csv"]
    text = refused(folder, *call)
    assert "the model has batches such as 'p0', 'p1', 'p2': name their column" in text
    assert "Try: slce-xp predict m.npz t.csv -o p.csv --batch plate\n" in text
    done = here(folder, "transform", "m.npz", "t.csv", "-o", "all.csv", "--batch", "plate")
    assert "t.csv has the samples of the fit: classes look better apart" in done.stderr
    mice.assign(plate="p9").iloc[::2].to_csv(folder / "u.csv", index=False)
    done = here(folder, "predict", "m.npz", "u.csv", "-o", "u.npz.csv", "--batch", "plate")
    assert done.stderr.count("the fit had no batches") == 1
    assert "samples of the fit" not in done.stderr
    works(folder, *call, "--batch", "plate")
    predicted = pandas.read_csv(folder / "p.csv").predicted
    assert list(predicted) == list(model.predict(X, batch=mice.plate))


def test_subjects_of_several_classes_are_strata(folder, mice):
    mice.assign(sex=np.tile(["f", "m"], 60)).to_csv(folder / "s.csv", index=False)
    call = ["s.csv", "--label", "dose", "--drop", "mouse"]
    text = refused(folder, "test", *call, "--groups", "sex", "--strata", "plate")
    assert "'sex' have several classes: --strata instead of --groups" in text
    assert f"Try: slce-xp test {' '.join(call)} --strata sex\n" in text
    works(folder, "test", *call, "--strata", "sex", "--permutations", "9")
    text = works(folder, "fit", *call, "--groups", "sex", "--folds", "2")
    assert "than chance: slce-xp test --strata 'sex'\n" in text
    done = slce(folder, "test", *call, "--batch", "plate")
    assert done.stderr.endswith(
        "unrecognized arguments: --batch plate; leave the column out: --drop, or test within "
        "batches: test --strata; see slce-xp test --help\n"
    )


def test_labels_that_are_no_classes_of_the_model_are_pointed_out(folder, mice):
    works(folder, "fit", "t.csv", "--label", "dose", "--folds", "0", "--model", "m.npz")
    done = here(folder, "predict", "m.npz", "t.csv", "-o", "p.csv", "--label", "plate")
    assert "; 0 of 120 agree with 'plate'" in done.stdout
    assert "'plate': 'p0', 'p1', 'p2' are not classes of the model" in done.stderr
    mice.rename(columns=str.upper).to_csv(folder / "upper.csv", index=False)
    text = refused(folder, "predict", "m.npz", "upper.csv", "-o", "q.csv")
    assert "did you mean 'GENE0'? Rename columns as in the table of the fit" in text


def test_a_file_before_a_column_is_named_by_another_option(folder, mice):
    named = mice.assign(name=[f"s{i}" for i in range(120)])
    named.drop(columns="dose").to_csv(folder / "x.csv", index=False)
    named[["name", "dose"]].to_csv(folder / "meta.csv", index=False)
    text = refused(folder, "fit", "x.csv", "--label", "meta.csv:doze")
    assert "meta.csv:doze: the file of a column is named by --metadata" in text
    assert "Try: slce-xp fit x.csv --metadata meta.csv --label dose\n" in text


def test_gaps_in_a_column_of_groups_raise(folder, mice):
    mice.assign(mouse=mice.mouse.mask(mice.index == 3)).to_csv(folder / "gap.csv", index=False)
    text = refused(folder, "fit", "gap.csv", "--label", "dose", "--groups", "mouse")
    assert "'mouse' has missing values" in text


def test_features_that_a_table_lacks_count_as_the_mean_up_to_a_share(folder, mice):
    call = ["fit", "t.csv", "--label", "dose", "--scale"]
    assert "calibrated out of fold" in works(folder, *call, "--model", "m.npz")
    model = slce_xp.load(folder / "m.npz")
    mice.drop(columns=["gene3", "gene9"]).to_csv(folder / "few.csv", index=False)
    done = here(folder, "transform", "m.npz", "few.csv", "-o", "Z.npy")
    assert "2 of the 50 features of the model are missing, such as gene3, gene9" in done.stderr
    X = mice.filter(like="gene").assign(gene3=model.mean[3], gene9=model.mean[9]).to_numpy()
    np.testing.assert_allclose(np.load(folder / "Z.npy"), model.transform(X), atol=1e-9)
    works(folder, "predict", "m.npz", "few.csv", "-o", "p.csv")
    frame = pandas.read_csv(folder / "p.csv")
    few = mice.filter(like="gene").drop(columns=["gene3", "gene9"])
    with pytest.warns(UserWarning, match="2 of the 50 features"):
        known, _ = aligned(model, list(few), 0.2)
    expected = known.predict_proba(few.to_numpy()).max(axis=1)
    np.testing.assert_allclose(frame.probability, expected, atol=1e-9)
    mice.iloc[:, 11:].to_csv(folder / "fewer.csv", index=False)
    text = refused(folder, "predict", "m.npz", "fewer.csv", "-o", "q.csv")
    assert "must have at least 80% of the 50 columns of the model, and lacks 11: 'gene0'" in text


def test_large_tables_have_no_p_value_but_a_hint(folder, monkeypatch):
    monkeypatch.setattr("slce_xp.cli.evidence.MOST_WORK", 10)
    text = works(folder, "fit", "t.csv", "--label", "dose", "--folds", "0")
    assert (
        "permutation  not tested; whether classes differ by more than chance: slce-xp test" in text
    )
