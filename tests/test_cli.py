"""The command, called in this process, or in one of its own where it needs one."""

import csv
import dataclasses
import gzip
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from command import (
    ROOT,
    axes_of,
    components_in,
    contents,
    embedding_of,
    environment,
    here,
    hooked,
    refused,
    slce,
    works,
)

import slce_xp
from slce_xp.cli import _describe, _show_warning, main
from slce_xp.cli.options import parse
from slce_xp.cli.reading import read_table

pty = pytest.importorskip("pty")  # not on Windows, nor is resource
pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
datasets = pytest.importorskip("sklearn.datasets")

COMMANDS = ("fit", "transform", "predict", "compare", "select", "test", "inspect", "plan", "info")
LIBRARIES = ("pandas", "pyarrow", "sklearn", "matplotlib", "plotly", "h5py", "anndata", "tqdm")


def read(path, *options):
    return read_table(parse(["fit", str(path), "--label", "y", *options]))


# ---------------------------------------------------------------- a table of wines


@pytest.fixture(scope="module")
def wine():
    """A realistic table: class names, sample names, missing values."""
    frame = datasets.load_wine(as_frame=True).frame.iloc[::2].reset_index(drop=True)
    frame["cultivar"] = np.array(["barolo", "grignolino", "barbera"])[frame.pop("target")]
    frame.insert(0, "bottle", [f"W{i:03}" for i in range(len(frame))])
    frame.loc[[3, 40, 77], "ash"] = np.nan
    frame.loc[[5], "hue"] = np.nan
    return frame


@pytest.fixture(scope="module")
def full(wine):
    """Numbers and the class alone."""
    return wine.fillna(wine.mean(numeric_only=True)).drop(columns="bottle")


@pytest.fixture(scope="module")
def fitted(wine, tmp_path_factory):
    """A folder with wine.csv and the files of the example in the help; `text` is its output."""
    folder = tmp_path_factory.mktemp("fitted")
    wine.to_csv(folder / "wine.csv", index=False)
    text = works(
        folder, "fit", "wine.csv", "--label", "cultivar", "--id", "bottle", "--missing", "mean",
        "--scale", "--model", "wine.npz", "--embedding", "wine_slce.csv",
        "--loadings", "wine_loadings.csv",
    )  # fmt: skip
    return SimpleNamespace(folder=folder, model=folder / "wine.npz", text=text)


@pytest.fixture
def folder(tmp_path, full):
    full.to_csv(tmp_path / "full.csv", index=False)
    return tmp_path


def scaled(frame):
    X = frame.select_dtypes("number")
    X = X.fillna(X.mean()).to_numpy()
    return X / X.std(axis=0)


# ---------------------------------------------------------------- fit


def test_fit_writes_the_embedding_and_the_loadings_of_the_formula(fitted, wine):
    y = wine.cultivar.to_numpy()
    table = pandas.read_csv(fitted.folder / "wine_slce.csv")
    assert list(table) == ["bottle", "cultivar", "component_1", "component_2"]
    assert list(table.bottle) == list(wine.bottle)
    assert list(table.cultivar) == list(wine.cultivar)
    X = scaled(wine)
    np.testing.assert_allclose(table.iloc[:, 2:], embedding_of(X, y, 2), atol=1e-12)
    loadings = pandas.read_csv(fitted.folder / "wine_loadings.csv")
    assert list(loadings.feature) == list(wine.columns[1:-1])
    axes = axes_of(X, y, 2)
    np.testing.assert_allclose(loadings.iloc[:, 1:3].T, axes, atol=1e-12)
    expected = np.corrcoef(X.T, axes @ X.T)[:-2, -2:]
    np.testing.assert_allclose(loadings.iloc[:, 3:], expected, atol=1e-9)


def test_fit_prints_the_model_and_what_it_wrote(fitted):
    model = slce_xp.load(fitted.model)
    assert fitted.text.startswith(f"{model}\n")
    assert fitted.text.endswith("wrote wine.npz\nwrote wine_slce.csv\nwrote wine_loadings.csv\n")


def test_fit_prints_how_often_predictions_of_unseen_samples_are_right(fitted, wine):
    X, y = wine.select_dtypes("number").to_numpy(), wine.cultivar.to_numpy()
    X = X / wine.fillna(wine.mean(numeric_only=True)).std(numeric_only=True, ddof=0).to_numpy()
    found = slce_xp.cross_embed(X, y, 2, 10, missing="mean")
    line = next(line for line in fitted.text.splitlines() if "  prediction " in line)
    assert f" {100 * found.accuracy:.1f} % of held-out samples right (" in line
    assert f"{100 * found.balanced_accuracy:.1f} % balanced over classes" in line
    largest = wine.cultivar.value_counts(normalize=True).max()
    assert f"{100 * largest:.1f} % if the largest class is always predicted (10 folds)" in line
    assert found.accuracy > 0.9


def test_labels_that_mean_nothing_are_predicted_by_chance_and_plotted_so(tmp_path):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(60, 300))).add_prefix("f")
    frame.assign(y=np.repeat(list("abc"), 20)).to_csv(tmp_path / "t.csv", index=False)
    text = works(tmp_path, "fit", "t.csv", "--label", "y", "--plot", "p.svg", "--model", "m.npz")
    share = float(re.search(r"prediction +([\d.]+) %", text)[1])
    assert share < 50
    plot = (tmp_path / "p.svg").read_text()
    found = slce_xp.cross_embed(frame.to_numpy(), np.repeat(list("abc"), 20))
    texts = re.findall(r"<text[^>]*>(.*?)</text>", plot)
    assert set(f"t.csv: 60 samples, {found.plot().get_title()}".split("\n")) < {*texts}
    assert "component 1" in texts  # without its share of the loss in the fit
    works(tmp_path, "fit", "t.csv", "--label", "y", "--plot", "p.svg", "--force", "--folds", "0")
    assert "in-sample" in (tmp_path / "p.svg").read_text()


def test_fit_prints_the_classes_and_why_there_are_few_folds(wine, tmp_path):
    rare = wine.dropna()
    rare = rare[~rare.cultivar.eq("barolo") | (rare.groupby("cultivar").cumcount() < 3)]
    rare.to_csv(tmp_path / "rare.csv", index=False)
    text = works(tmp_path, "fit", "rare.csv", "--label", "cultivar", "--id", "bottle")
    counts = rare.cultivar.value_counts().sort_index()
    assert ", ".join(f"{name} ({count})" for name, count in counts.items()) in text
    assert re.search(r"\(3 folds: .*barolo", text)


def test_columns_that_look_like_metadata_are_named_before_they_become_features(wine, tmp_path):
    frame = wine.dropna().drop(columns="bottle")
    frame.insert(3, "row", np.random.default_rng(0).permutation(len(frame)) + 7)
    frame.insert(0, "InjectionOrder", np.arange(len(frame)) // 2)
    frame.insert(1, "batch", np.arange(len(frame)) % 3)
    frame.insert(2, "day.length", 0.5 + np.arange(len(frame)) % 2)  # no integers
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = here(tmp_path, "fit", "t.csv", "--label", "cultivar", "--folds", "0")
    assert "may be metadata: 'InjectionOrder', 'batch', 'row'; to leave out" in done.stderr
    (drop,) = re.findall("--drop ([^ ]+)\n", done.stderr)
    done = here(tmp_path, "fit", "t.csv", "--label", "cultivar", "--folds", "0", "--drop", drop)
    assert "metadata" not in done.stderr
    assert "14 features" in done.stdout


def test_labels_that_are_none_are_pointed_out(wine, tmp_path):
    frame = wine.dropna().drop(columns="bottle")
    frame.assign(row=range(len(frame))).to_csv(tmp_path / "t.csv", index=False)
    text = refused(tmp_path, "fit", "t.csv", "--label", "alcohol", "--drop", "cultivar")
    assert re.search(r"'alcohol' has \d+ classes in \d+ samples, and is measured; name", text)
    frame.assign(code=[f"s{2 * i // 3}" for i in range(len(frame))], row=range(len(frame))).to_csv(
        tmp_path / "t.csv", index=False
    )
    done = here(tmp_path, "fit", "t.csv", "--label", "code", "--folds", "0")
    assert re.search(r"'code' has \d+ classes in \d+ samples: is it the column", done.stderr)
    text = refused(tmp_path, "fit", "t.csv", "--label", "row", "--drop", "cultivar")
    assert "each row is a class of its own in 'row'" in text


def test_codes_that_differ_in_zeros_are_different_classes(tmp_path):
    rows = [f"{i},{i % 2},{code}" for i in range(9) for code in ("1", "01", "001")]
    (tmp_path / "t.csv").write_text("a,b,y\n" + "\n".join(rows))
    assert "classes      001 (9), 01 (9), 1 (9)" in works(tmp_path, "fit", "t.csv", "--label", "y")
    numbers = [f"{i},{i % 3},{10 - i % 3}" for i in range(9)]
    (tmp_path / "t.csv").write_text("a,b,y\n" + "\n".join(numbers))
    text = works(tmp_path, "fit", "t.csv", "--label", "y")
    assert "classes      8 (3), 9 (3), 10 (3)" in text  # in the order of numbers


def test_matrices_that_are_not_read_are_reported(full, tmp_path):
    X = full.select_dtypes("number").to_numpy()
    np.savez(tmp_path / "t.npz", X=X, log=np.log(1 + X), y=full.cultivar.to_numpy(dtype=str))
    done = here(tmp_path, "fit", "t.npz", "--label", "y", "--model", "log.npz", "--data", "log")
    assert "was used" not in done.stderr
    done = here(tmp_path, "transform", "log.npz", "t.npz", "-o", "Z.csv")
    assert "t.npz: X was used; --data chooses another: 'log'" in done.stderr


def test_transform_draws_new_samples(fitted, tmp_path):
    pytest.importorskip("matplotlib")
    call = ["--missing", "mean", "--label", "cultivar", "-o", tmp_path / "Z.csv"]
    works(fitted.folder, "transform", "wine.npz", "wine.csv", *call, "--plot", tmp_path / "Z.png")
    assert (tmp_path / "Z.png").read_bytes().startswith(b"\x89PNG")


def test_mistyped_option_gets_a_suggestion(tmp_path):
    done = slce(tmp_path, "fit", "t.csv", "--label", "y", "--plt", "a.png")
    assert done.returncode == 2
    assert "--plt a.png; did you mean --plot?; see slce-xp fit --help" in done.stderr


def test_each_error_suggests_the_next_command(fitted):
    call = ["fit", "wine.csv", "--label", "class"]
    assert "it has 'bottle', 'alcohol'" in refused(fitted.folder, *call)
    call[-1] = "cultivr"
    text = refused(fitted.folder, *call)
    assert "did you mean 'cultivar'? Try: slce-xp fit wine.csv --label cultivar --missing" in text
    call[-1] = "cultivar"
    text = refused(fitted.folder, *call)
    assert "'bottle' names the samples" in text
    assert "missing values in ash (3), hue (1)" in text
    assert text.endswith("Try: slce-xp fit wine.csv --label cultivar --missing mean\n")
    done = here(fitted.folder, *call, "--missing", "mean", "--folds", "0")
    assert done.returncode == 0
    assert "column 'proline' carries 100 % of the scatter" in done.stderr
    assert "use --scale if units differ" in done.stderr


def written(full, how):
    """The bytes of a table as programs write it."""
    lines = full.to_csv(index=False).splitlines()
    match how:
        case "windows":
            return "\r\n".join([*lines, ""]).encode()
        case "old mac":
            return "\r".join([*lines, ""]).encode()
        case "byte-order mark":
            return "\n".join(lines).encode("utf-8-sig")
        case "semicolons":
            return full.to_csv(index=False, sep=";").encode()
        case "decimal commas":
            return full.to_csv(index=False, sep=";", decimal=",").encode()
        case "index of pandas":
            return full.to_csv().encode()
        case "row names of R":
            header = " ".join(f'"{name}"' for name in full)
            return f"{header}\n{full.to_csv(sep=' ', header=False, quoting=2)}".encode()
        case "quoted newlines":
            return full.rename(columns={"ash": "a\nsh"}).to_csv(index=False, quoting=1).encode()
        case "blanks around names":
            return "\n".join([lines[0].replace(",", " , "), *lines[1:]]).encode()
        case "Latin-1" | "UTF-16":
            return full.rename(columns={"ash": "Säure"}).to_csv(index=False).encode(how.lower())
        case "gzip":
            return gzip.compress("\n".join(lines).encode())


WAYS = {
    "windows": ".csv",
    "old mac": ".csv",
    "byte-order mark": ".csv",
    "semicolons": ".csv",
    "decimal commas": ".csv",
    "index of pandas": ".csv",
    "row names of R": ".txt",
    "quoted newlines": ".CSV",
    "blanks around names": ".csv",
    "gzip": ".csv.gz",
    "Latin-1": ".csv",
    "UTF-16": ".csv",
}


@pytest.mark.parametrize("how", WAYS)
def test_tables_of_common_programs_are_read(how, full, tmp_path):
    path = tmp_path / f"Größe von 表 1{WAYS[how]}"
    path.write_bytes(written(full, how))
    works(
        tmp_path, "fit", path.name, "--label", "cultivar", "--scale", "--folds", "0",
        "--embedding", "out.csv",
    )  # fmt: skip
    expected = embedding_of(scaled(full), full.cultivar.to_numpy(), 2)
    np.testing.assert_allclose(components_in(tmp_path / "out.csv"), expected, atol=1e-9)
    names = [] if how not in ("index of pandas", "row names of R") else ["id"]
    header = (tmp_path / "out.csv").read_text().splitlines()[0].split(",")
    assert header == [*names, "cultivar", "component_1", "component_2"]


NAMED_ROWS = {
    "R counts": ("t.csv", "{}\n1,{}\n2,{}\n3,{}\n4,{}\n", "1234"),
    "R counts from zero": ("t.tsv", "{}\n0,{}\n1,{}\n2,{}\n3,{}\n", "0123"),
    "an index counts": ("t.csv", ",{}\n0,{}\n1,{}\n2,{}\n3,{}\n", "0123"),
    "zeros in front": ("t.csv", "{}\n01,{}\n02,{}\n03,{}\n04,{}\n", ["01", "02", "03", "04"]),
    "words": ("t.csv", "{}\n\n  \np,{}\nq,{}\n\nr,{}\ns,{}\n", "pqrs"),
    "blanks": ("t.txt", "{}\n p  {} \n q  {} \n r  {} \n s  {} \n", "pqrs"),
    "blanks, an index": ("t.txt", '""  {} \n"p" {}\n"q" {}\n"r" {}\n"s" {}', "pqrs"),
    "quotes": ("t.csv", '{}\n"p, 1",{}\n"q\n\n2",{}\n"r ""3""",{}\ns,{}\n',
               ["p, 1", "q\n\n2", 'r "3"', "s"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMED_ROWS)
def test_row_names_do_not_shift_columns(kind, tmp_path):
    name, pattern, ids = NAMED_ROWS[kind]
    separator = {"t.csv": ",", "t.tsv": "\t", "t.txt": " "}[name]
    lines = ["a,b,y", "1,20,u", "2,60,v", "3,50,u", "4,80,v"]
    text = pattern.replace(",{}", separator + "{}")
    text = text.format(*[line.replace(",", separator) for line in lines])
    (tmp_path / name).write_text(text)
    table = read(tmp_path / name)
    assert list(table.ids) == list(ids)
    assert table.names.tolist() == ["a", "b"]
    assert table.X.tolist() == [[1, 20], [2, 60], [3, 50], [4, 80]]
    assert list(table.labels) == ["u", "v", "u", "v"]


@pytest.mark.parametrize(
    ("index", "ids"),
    [
        (pandas.Index([1, 2, 4, 8]), "1248"),
        (pandas.Index([1, 2, 4, 8], name="sample"), "1248"),
        (pandas.Index([3, 1, 2, 4]), "3124"),
        (pandas.Index(["p", "q", "r", None]), ["p", "q", "r", ""]),
        (pandas.RangeIndex(1, 5), None),
    ],
    ids=["numbers", "numbers, with a name", "shuffled", "text", "a count"],
)
def test_parquet_index_names_rows_unless_it_is_a_range(index, ids, tmp_path):
    frame = pandas.DataFrame({"a": [1, 2, 3, 4], "b": [2, 6, 5, 8], "y": list("uvuv")})
    frame.index = index  # set_index may create a range
    frame.to_parquet(tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet")
    assert (None if table.ids is None else list(table.ids)) == (ids and list(ids))
    assert table.names.tolist() == ["a", "b"]


def save(path, full):
    X, y = full.iloc[:, :-1].to_numpy(), full.cultivar.to_numpy(dtype=str)
    names = np.array(full.columns[:-1], dtype=str)
    match path.name:
        case "X.npy":
            np.save(path, X)
            (path.parent / "y.txt").write_text("\n".join([*y, ""]))
        case "X.npz":
            np.savez(path, X=X, y=y.astype("S"), feature_names=names.astype("S"))
        case "X.h5":
            with pytest.importorskip("h5py").File(path, "w") as file:
                file["group/X"] = X
                file["group/y"] = [str(label) for label in y]
        case "full.parquet":
            frame = full.astype(dict.fromkeys(names, "float64")).convert_dtypes()
            frame["cultivar"] = frame.cultivar.astype("category")
            frame.set_index(np.array([f"s{i}" for i in range(len(full))])).to_parquet(path)
        case "dense.h5ad" | "csr.h5ad" | "csc.h5ad":
            kind = {"d": np.array, "csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix}
            obs = pandas.DataFrame({"cultivar": y}, index=[f"s{i}" for i in range(len(y))])
            adata = pytest.importorskip("anndata").AnnData(
                kind[path.stem.replace("dense", "d")](X), obs, pandas.DataFrame(index=names)
            )
            adata.layers["doubled"] = 2 * X
            adata.write_h5ad(path)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("X.npy", ["--label", "y.txt"]),
        ("X.npy", ["--label", "y.txt", "in blocks"]),
        ("X.npz", ["--label", "y"]),
        ("X.h5", ["--label", "group/y"]),
        ("X.h5", ["--label", "group/y", "in blocks"]),
        ("full.parquet", ["--label", "cultivar"]),
        ("dense.h5ad", ["--label", "cultivar", "--data", "doubled"]),
        ("csr.h5ad", ["--label", "cultivar", "in blocks"]),
        ("csc.h5ad", ["--label", "cultivar"]),
    ],
)
def test_kinds_of_files_and_ways_of_reading_give_one_embedding(
    name, call, full, tmp_path, monkeypatch
):
    save(tmp_path / name, full)
    if call[-1] == "in blocks":
        monkeypatch.setattr("slce_xp.cli.tables.machine_memory", lambda: 1)
        call = call[:-1]
    works(tmp_path, "fit", name, *call, "--scale", "--folds", "0", "--embedding", "out.csv")
    expected = embedding_of(scaled(full), full.cultivar.to_numpy(), 2)
    np.testing.assert_allclose(components_in(tmp_path / "out.csv"), expected, atol=1e-9)


def test_invalid_indices_are_a_damaged_file(full, tmp_path):
    save(tmp_path / "csr.h5ad", full)
    with pytest.importorskip("h5py").File(tmp_path / "csr.h5ad", "r+") as file:
        file["X/indices"][5] = 99
    text = refused(tmp_path, "fit", "csr.h5ad", "--label", "cultivar")
    assert "csr.h5ad is damaged or not in .h5ad format" in text


def test_missing_values_are_filled_in_blocks_as_in_memory(wine, tmp_path, monkeypatch):
    monkeypatch.setattr("slce_xp.cli.tables.machine_memory", lambda: 1)
    np.save(tmp_path / "X.npy", wine.select_dtypes("number").to_numpy())
    np.save(tmp_path / "y.npy", wine.cultivar.to_numpy(dtype=str))
    call = ["fit", "X.npy", "--label", "y.npy"]
    assert "--missing mean" in refused(tmp_path, *call)
    works(tmp_path, *call, "--missing", "mean", "--scale", "--embedding", "Z.npy")
    expected = embedding_of(scaled(wine), wine.cultivar.to_numpy(), 2)
    np.testing.assert_allclose(np.load(tmp_path / "Z.npy"), expected, atol=1e-9)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 10, 2], [0, 2, 10]),
        ([0.5, 1.5, 2.5], ["0.5", "1.5", "2.5"]),
        ([True, False, True], ["False", "True"]),
    ],
    ids=["integers", "floats", "booleans"],
)
def test_integer_labels_stay_integers_and_others_stay_text(
    labels, classes, missing, full, tmp_path
):
    names = ["barolo", "grignolino", "barbera"]
    column = full.cultivar.map(dict(zip(names, labels, strict=True))).astype(object)
    column[::9] = None if missing else column[::9]
    full.assign(cultivar=column).to_csv(tmp_path / "t.csv", index=False)
    call = ["--folds", "0", "--unlabeled", "use", "--model", "m.npz"]
    assert here(tmp_path, "fit", "t.csv", "--label", "cultivar", *call).returncode == 0
    found = slce_xp.load(tmp_path / "m.npz").classes
    assert found.dtype.kind == np.array(classes).dtype.kind
    assert list(found) == classes


def test_dates_are_labels_as_text(full, tmp_path):
    days = full.cultivar.map({"barolo": "2020-01-01", "grignolino": "2021-05-03"})
    full.assign(cultivar=pandas.to_datetime(days)).to_parquet(tmp_path / "t.parquet")
    call = ["--folds", "0", "--unlabeled", "drop", "--model", "m.npz"]
    assert here(tmp_path, "fit", "t.parquet", "--label", "cultivar", *call).returncode == 0
    classes = slce_xp.load(tmp_path / "m.npz").classes
    assert [label[:10] for label in classes] == ["2020-01-01", "2021-05-03"]


def test_blanks_around_labels_are_stripped(tmp_path):
    (tmp_path / "t.csv").write_text("a, b , y\n1 ,2, u\n 3,4,v \n2,2,u \n5,4, v\n")
    call = ["fit", "t.csv", "--label", "y", "--model", "m.npz", "--folds", "0"]
    assert here(tmp_path, *call).returncode == 0
    model = slce_xp.load(tmp_path / "m.npz")
    assert list(model.classes) == ["u", "v"]
    assert list(model.feature_names) == ["a", "b"]


def test_samples_without_a_label_are_dropped_or_used(full, tmp_path):
    codes = full.cultivar.map({"barolo": 0, "grignolino": 1, "barbera": 2})
    codes = codes.astype("Int64").mask(full.index % 10 == 0)
    full.assign(cultivar=codes).to_csv(tmp_path / "t.csv", index=False)
    call = ["fit", "t.csv", "--label", "cultivar", "--scale", "--embedding", "out.csv"]
    call += ["--folds", "0"]
    done = here(tmp_path, *call)
    assert f"9 of {len(full)} rows have no label in 'cultivar' and are left out" in done.stderr
    assert "--unlabeled use" in done.stderr
    there = full[codes.notna()]
    expected = embedding_of(scaled(there), there.cultivar.to_numpy(), 2)
    np.testing.assert_allclose(components_in(tmp_path / "out.csv"), expected, atol=1e-9)
    text = works(tmp_path, *call, "--unlabeled", "use", "--force", "--model", "m.npz")
    assert "9 without a label" in text
    assert list(slce_xp.load(tmp_path / "m.npz").classes) == [0, 1, 2]
    rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
    assert len(rows) == len(full) + 1
    assert rows[1][0] == ""
    assert {row[0] for row in rows[1:]} == {"", "0", "1", "2"}


def test_torch_computes_the_same(folder, full):
    pytest.importorskip("torch")
    call = ["--scale", "--folds", "0", "--embedding", "out.csv", "--backend", "torch"]
    works(folder, "fit", "full.csv", "--label", "cultivar", *call, "--device", "cpu")
    expected = embedding_of(scaled(full), full.cultivar.to_numpy(), 2)
    np.testing.assert_allclose(components_in(folder / "out.csv"), expected, atol=1e-9)


def test_overlapping_classes_have_an_embedding_without_components_and_no_plot(tmp_path):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    frame.assign(y=rng.integers(0, 3, 60)).to_csv(tmp_path / "t.csv", index=False)
    call = ["fit", "t.csv", "--label", "y", "--components", "positive", "--model", "m.npz",
            "--embedding", "e.csv", "--loadings", "l.csv"]  # fmt: skip
    done = here(tmp_path, *call, "--plot", "p.png")
    assert done.returncode == 1
    assert "--plot: the model has 0 components, which are not enough to draw" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    assert "not cross-validated" in works(tmp_path, *call)
    assert (tmp_path / "e.csv").read_text().startswith("y\n")
    assert (tmp_path / "l.csv").read_text() == "feature\na\nb\nc\nd\n"
    works(tmp_path, "transform", "m.npz", "t.csv", "-o", "Z.npy")
    assert np.load(tmp_path / "Z.npy").shape == (60, 0)


def test_file_larger_than_half_of_the_memory_is_read_in_blocks(full, tmp_path, monkeypatch):
    save(tmp_path / "X.npy", full)
    size = (tmp_path / "X.npy").stat().st_size
    for memory, in_blocks in ((2 * size, False), (2 * size - 2, True), (None, False)):
        monkeypatch.setattr("slce_xp.cli.tables.machine_memory", lambda memory=memory: memory)
        arguments = parse(["fit", str(tmp_path / "X.npy"), "--label", str(tmp_path / "y.txt")])
        assert read_table(arguments).in_memory != in_blocks


def test_class_of_one_sample_is_in_all_training_sets(full, tmp_path):
    full.assign(cultivar=full.cultivar.mask(full.index == 0, "solo")).to_csv(
        tmp_path / "t.csv", index=False
    )
    text = works(tmp_path, "fit", "t.csv", "--label", "cultivar", "--scale")
    assert re.search(r"^    solo( +0){4}$", text, re.MULTILINE)


# ---------------------------------------------------------------- bad tables

HEADER = "a,b,y\n"
ROWS = "1,2,u\n3,5,v\n2,2,u\n4,4,v\n"
TABLES = {
    "empty": ("t.csv", b"", "t.csv is empty"),
    "blank": ("t.csv", b"\n\n", "holds only empty lines"),
    "no rows": ("t.csv", HEADER, "t.csv has no rows"),
    "one class": ("t.csv", HEADER + "1,2,u\n3,4,u\n", "'y' has one class, 'u'; name another"),
    "no labels": ("t.csv", HEADER + "1,2,\n3,4,NA\n", "no row has a label in 'y'"),
    "text": ("t.csv", HEADER + ROWS + "low,1,u\n",
             "words among the numbers of 'a': 'low' ('low' in row 5 of 'a'); if they stand for "
             "missing values, name them with --na. Try: slce-xp fit t.csv --label y --model m.npz "
             "--na low --missing mean"),
    "comma of thousands": ("t.csv", HEADER + ROWS + '"1,500",1,u\n',
                           "('1,500' in row 5 of 'a'); say whether commas "
                           "group thousands (--decimal .) or are decimal (--decimal ,). Try: "),
    "infinite": ("t.csv", HEADER + ROWS + "inf,1,u\n", "values of 'a' are infinite or too large"),
    "huge": ("t.csv", HEADER + ROWS + "1e300,1,u\n", "values of 'a' are infinite or too"),
    "ragged": ("t.csv", HEADER + ROWS + "1,2,u,4,5\n", "Expected 3 fields in line 6, saw 5"),
    "more fields": ("t.csv", HEADER + ROWS.replace("\n", ",\n"), "remove separators at the ends"),
    "more fields after names": ("t.csv", ",a,b,y\n1,2,3,0,9\n2,1,1,1,9\n",
                                "Give every line as many fields as the first"),
    "two more fields": ("t.csv", HEADER + "1,2,3,4,u\n2,1,1,1,v\n", "as many fields as the first"),
    "names twice": ("t.csv", HEADER + "p,1,2,u\np,3,1,v\n", "has more fields in its lines than"),
    "more fields in one line": ("t.csv", HEADER + "1,2,u,\n" + ROWS, "has more fields"),
    "no name": ("t.csv", "a,,y\n" + ROWS, "column 2 has no name in the first line"),
    "no header": ("t.csv", ROWS, "must name its columns in the first line, which holds numbers"),
    "no text": ("t.csv", b"PK\3\4\x14\0\0\0\xff", "is not a text file, despite its name"),
    "no gzip": ("t.csv.gz", HEADER + ROWS, "Not a gzipped file"),
    "half a gzip": ("t.tsv.gz", gzip.compress(bytes(range(99, 120)))[:20], "is damaged"),
    "no Parquet": ("t.parquet", HEADER + ROWS, "is damaged or not in .parquet format"),
    "no npy": ("t.npy", HEADER + ROWS, "is damaged or not in .npy format"),
    "half a header": ("t.npy", b"\x93NUMPY\1\0\x10\0{'descr': ('<f8'\n", "damaged or not in .npy"),
    "no npz": ("t.npz", HEADER + ROWS, "is damaged or not in .npz format"),
    "no HDF5": ("t.h5", HEADER + ROWS, "is damaged or not in .h5 format"),
    "no spreadsheet": ("t.xlsx", b"PK", "t.xlsx is damaged or not in .xlsx format"),
    "another kind": ("t.rds", b"RDX", "t.rds must end in .csv, .tsv, .txt"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_bad_table_raises_a_one_line_error(kind, tmp_path):
    name, table, message = TABLES[kind]
    for library in {"no HDF5": ["h5py"], "no spreadsheet": ["openpyxl"]}.get(kind, ()):
        pytest.importorskip(library)
    (tmp_path / name).write_bytes(table if isinstance(table, bytes) else table.encode())
    call = ["fit", name, "--label", "y", "--model", "m.npz"]
    assert message in refused(tmp_path, *call)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["ful.csv", "--label", "cultivar"], "no file ful.csv; did you mean full.csv?"),
        (["none/full.csv", "--label", "cultivar"], "no file none/full.csv, and no folder none"),
        ([".", "--label", "cultivar"], ". is a folder"),
        (["full.csv", "--label", "Cultivars"], "did you mean 'cultivar'?"),
        (["full.csv", "--label", "cultivar", "--id", "sort"], "--id: full.csv has no 'sort'"),
        (["full.csv", "--label", "cultivar", "--drop", "hu"], "did you mean 'hue'?"),
        (["full.csv", "--label", "cultivar", "--data", "X"], "--data is for .xlsx, .npz,"),
        (["full.csv", "--label", "cultivar", "--components", "14"],
         "--components must be an integer from 1 to 13 (the number of features), a share between "
         "0 and 1, left out"),
        (["full.csv", "--label", "cultivar", "--max-memory", "1kB"], "Raise --max-memory"),
        (["full.csv", "--label", "cultivar", "--device", "abc"],
         "--device must be a device that numpy has here (cpu); got 'abc'"),
        (["full.csv", "--label", "cultivar", "--device", "abc"], "or leave out --device"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_the_table_raise(call, message, folder):
    assert message in refused(folder, "fit", *call)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ([], "required: COMMAND"),
        (["nope"], "invalid choice: 'nope'"),
        (["fit"], "required: TABLE"),
        (["fit", "t.csv"], "the following arguments are required: --label"),
        (["fit", "t.csv", "--label", "y", "--nope"], "unrecognized arguments: --nope"),
        (["fit", "t.csv", "--label", "y", "--components", "0"], "integer ≥ 1, a share between"),
        (["fit", "t.csv", "--label", "y", "--components", "-3"], "1, or 'positive'"),
        (["fit", "t.csv", "--label", "y", "--plot-components", "1,1"], "three different ones"),
        (["fit", "t.csv", "--label", "y", "--components", "two"], "got 'two'"),
        (["fit", "t.csv", "--label", "y", "--folds", "1"], "--folds: must be an integer ≥ 2"),
        (["fit", "t.csv", "--label", "y", "--max-memory", "lots"], "such as \"2GB\""),
        (["fit", "t.csv", "--label", "y", "--backend", "tensorflow"], "choose from 'numpy'"),
        (["plan", "--samples", "many"], "--samples: must be an integer"),
    ],
)  # fmt: skip
def test_usage_error_exits_with_status_2_and_one_line(call, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(call)
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert message in error
    assert error.count("\n") == 1
    assert error.rstrip().endswith("--help")


def test_debug_shows_the_traceback(tmp_path):
    done = slce(tmp_path, "fit", "none.csv", "--label", "y", "--debug")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert "there is no file none.csv" in done.stderr


# ---------------------------------------------------------------- transform and inspect


def test_transform_finds_columns_by_name(fitted, wine, tmp_path):
    shuffled = wine[wine.columns[::-1]].assign(more="text", ash=wine.ash.fillna(wine.ash.mean()))
    shuffled = shuffled.assign(hue=wine.hue.fillna(wine.hue.mean()))
    shuffled.to_csv(tmp_path / "other.tsv", sep="\t", index=False)
    text = works(
        tmp_path, "transform", fitted.model, "other.tsv", "-o", "Z.parquet", "--id", "bottle"
    )
    assert "89 samples of 13 features → 2 components" in text
    found = pandas.read_parquet(tmp_path / "Z.parquet")
    first = pandas.read_csv(fitted.folder / "wine_slce.csv").drop(columns="cultivar")
    pandas.testing.assert_frame_equal(found, first)


def test_transform_fills_missing_values_with_the_means_of_the_fit(fitted, wine, tmp_path):
    row = wine.drop(columns=["cultivar", "bottle"]).iloc[[0]].assign(ash=np.nan)
    row.to_csv(tmp_path / "new.csv", index=False)
    model = slce_xp.load(fitted.model)
    assert model.filled == pytest.approx(4 / (89 * 13))
    assert "  missing      0.35 % of X, filled with column means\n" in fitted.text
    expected = model.transform(row.fillna(wine.ash.mean()).to_numpy())
    done = here(tmp_path, "transform", fitted.model, "new.csv", "-o", "Z.csv")
    assert "7.7 % of new.csv is missing, and filled with means" in done.stderr
    np.testing.assert_allclose(components_in(tmp_path / "Z.csv"), expected, atol=1e-12)
    dataclasses.replace(model, filled=None).save(tmp_path / "complete.npz")
    call = ["transform", "complete.npz", "new.csv", "-o", "Z.csv", "--force"]
    assert "missing values in ash (1)" in refused(tmp_path, *call)
    works(tmp_path, *call, "--missing", "mean")
    np.testing.assert_allclose(components_in(tmp_path / "Z.csv"), expected, atol=1e-12)


def test_missing_values_of_a_sparse_matrix_are_refused_without_a_remedy(full, tmp_path):
    save(tmp_path / "csr.h5ad", full)
    call = ["fit", "csr.h5ad", "--label", "cultivar", "--missing", "mean"]
    assert "  missing " not in works(tmp_path, *call, "--model", "m.npz")
    with pytest.importorskip("h5py").File(tmp_path / "csr.h5ad", "r+") as file:
        file["X/data"][5] = np.nan
    other = ["transform", "m.npz", "csr.h5ad", "-o", "Z.csv", "--missing", "mean"]
    for words in (call, other):
        text = refused(tmp_path, *words)
        assert text.endswith("(1), which are not filled in a sparse matrix; correct them\n")


@pytest.mark.parametrize("criterion", ["centroid", "separation"])
def test_predict_writes_the_probability_of_the_predicted_class(criterion, full, folder):
    call = ["full.csv", "--label", "cultivar"]
    works(folder, "fit", *call, "--criterion", criterion, "--model", "m.npz", "--folds", "5")
    works(folder, "predict", "m.npz", *call, "-o", "p.csv")
    model = slce_xp.fit(
        full.select_dtypes("number"), full.cultivar, criterion=criterion, calibrate=True
    )
    found = pandas.read_csv(folder / "p.csv")
    expected = model.predict_proba(full.select_dtypes("number"))
    np.testing.assert_allclose(found.probability, expected.max(axis=1), atol=1e-9)
    assert list(found.predicted) == list(model.classes[expected.argmax(axis=1)])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("alcohol,malic_acids\n1,2\n", "lacks 12: 'malic_acid', 'ash'"),
        ("alcohol\n1\n", "must have at least 80% of the 13 columns of the model"),
    ],
)
def test_transform_names_columns_that_are_not_there(table, message, fitted, tmp_path):
    (tmp_path / "t.csv").write_text(table)
    text = refused(tmp_path, "transform", fitted.model, "t.csv", "-o", "Z.csv")
    assert message in text
    assert "malic_acids" not in table or "did you mean 'malic_acids'?" in text


def test_feature_of_the_model_is_not_an_id(fitted):
    call = ["transform", "wine.npz", "wine.csv", "-o", "Z.csv", "--id", "hue"]
    assert "'hue' is a feature of the model" in refused(fitted.folder, *call)


def test_vector_may_have_the_name_of_a_column_of_the_matrix(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 2))
    np.savez(tmp_path / "t.npz", X=X, y=[0, 1, 0, 1, 0, 1], feature_names=["x", "y"])
    assert here(tmp_path, "fit", "t.npz", "--label", "y", "--model", "m.npz").returncode == 0
    assert list(slce_xp.load(tmp_path / "m.npz").feature_names) == ["x", "y"]
    call = ["transform", "m.npz", "t.npz", "-o", "Z.csv", "--label", "y"]
    assert here(tmp_path, *call).returncode == 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_transform_of_non_finite_values_writes_nothing(value, fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("slce_xp.cli.tables.machine_memory", lambda: 1)
    X = np.ones((5, 13))
    X[3, 2] = value
    np.save(tmp_path / "X.npy", X)
    dataclasses.replace(slce_xp.load(fitted.model), filled=None).save(tmp_path / "m.npz")
    text = refused(tmp_path, "transform", "m.npz", "X.npy", "-o", "Z.csv")
    assert "1 of 5 rows, the first of them row 4, hold values that are infinite or missing" in text


def test_models_and_tables_are_not_confused(fitted, tmp_path):
    np.savez(tmp_path / "table.npz", X=np.eye(3), y=np.arange(3))
    (tmp_path / "cut.npz").write_bytes(fitted.model.read_bytes()[:1000])
    text = refused(tmp_path, "fit", fitted.model, "--label", "y")
    assert "is a model, not a table" in text
    for name in ("table.npz", "cut.npz"):
        text = refused(tmp_path, "inspect", name)
        assert f"{name}' is damaged or not a model" in text
    assert "there is no file none.npz" in refused(tmp_path, "inspect", "none.npz")


def test_inspect_names_classes_and_the_features_of_largest_weight(fitted, wine):
    text = works(fitted.folder, "inspect", "wine.npz", "--top", "2")
    assert text.startswith(f"{slce_xp.load(fitted.model)}\n")
    counts = wine.cultivar.value_counts()
    shown = ", ".join(f"{name} ({counts[name]})" for name in sorted(counts.index))
    assert f"  classes      {shown}\n" in text
    for i, axis in enumerate(axes_of(scaled(wine), wine.cultivar.to_numpy(), 2)):
        largest = np.argsort(-abs(axis))[:2]
        features = ", ".join(f"{wine.columns[1:-1][j]} {axis[j]:+.3g}" for j in largest)
        assert f"  component {i + 1}  {features}\n" in text
    text = works(fitted.folder, "inspect", "--methods", "wine.npz")
    assert text == f"{slce_xp.load(fitted.model).methods()}\n"
    assert "Missing values (0.35 % of all)" in text


# ---------------------------------------------------------------- plan, info, help


def test_plan_prints_the_plan(tmp_path):
    text = works(
        tmp_path, "plan", "--samples", 10**6, "--features", 20_000, "--classes", 30,
        "--max-memory", "2GB", "--machine-memory", "16GB", "--dtype", "float32",
    )  # fmt: skip
    plan = slce_xp.plan(10**6, 20_000, 30, dtype="float32", max_memory="2GB", machine_memory="16GB")
    assert text == f"{plan}\n"
    assert plan.advice in text
    assert works(tmp_path, "plan", "--samples", "1e3", "--features", 10, "--classes", 3).startswith(
        "plan for 1000 samples"
    )
    call = ["plan", "--samples", 1, "--features", 10, "--classes", 3]
    assert "--samples must be an integer of at least 2; got 1" in refused(tmp_path, *call)


def test_info_prints_what_a_bug_report_needs(tmp_path):
    text = works(tmp_path, "info")
    for word in (slce_xp.__version__, sys.version.split()[0], f"numpy {np.__version__}"):
        assert word in text
    for line in ("machine", "libraries", "missing", "threads", "backend    numpy: cpu"):
        assert f"\n{line}" in text


def test_info_works_if_nothing_else_is_installed(tmp_path):
    text = works(tmp_path, "info", env=without(tmp_path, *LIBRARIES, "torch", "jax"))
    assert "backend    torch: backend='torch' needs" in text


OPTIONS = {
    "fit": "--label --components --criterion --backend --device --max-memory --drop --missing "
    "--scale --model --embedding --plot --loadings --id --unlabeled --data --top --folds --force "
    "--metadata --groups --batch --transpose --na --decimal --features --plot-components",
    "transform": "--output --id --label --missing --data --force --metadata --transpose --na "
    "--decimal --plot-components",
    "predict": "--output --id --label --missing --data --force --metadata",
    "compare": "--label --metadata --components --methods --folds --scale --missing --features "
    "--drop --output --plot --force",
    "select": "--label --metadata --top --resamples --folds --scale --missing --drop --output "
    "--plot --force",
    "test": "--label --permutations --groups --strata --pairs --by-component --scale --plot",
    "inspect": "--top --methods",
    "plan": "--samples --features --classes --components --dtype --max-memory --machine-memory",
    "info": "--debug",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_option_in_100_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    for option in OPTIONS[command].split():
        assert re.search(rf"^ +(-o FILE, |-o OUTPUT, |-o, )?{option}\b", text, re.MULTILINE), option


def test_help_and_version_of_the_command(tmp_path):
    text = works(tmp_path, "--help")
    assert all(re.search(rf"^    {command}\b", text, re.MULTILINE) for command in COMMANDS)
    assert works(tmp_path, "--version") == f"slce-xp {slce_xp.__version__}\n"


def test_entry_point_is_the_command():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"slce-xp": "slce_xp.cli:main"}
    assert main.__module__ == "slce_xp.cli"


def test_help_and_errors_import_nothing_heavy(tmp_path):
    done = slce(tmp_path, "fit", "none.csv", "--label", "y", options=["-X", "importtime"])
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "slce_xp.cli" in imported
    assert not imported & {*LIBRARIES, "torch", "jax", "scipy.linalg"}


# ---------------------------------------------------------------- outputs


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["--model", "none/m.npz"], "there is no folder none; create it first"),
        (["--model", "full.csv/m.npz"], "there is no folder full.csv"),
        (["--model", "/proc/m.npz"], "folder /proc is not writable"),
        (["--model", "m.npz.gz"], "--model m.npz.gz must end in .npz"),
        (["--model", "m.csv"], "--model m.csv must end in .npz"),
        (["--embedding", "e.xlsx"], "--embedding e.xlsx must end in .csv, .tsv"),
        (["--plot", "p"], "--plot p must end in .png, .svg, .pdf, .html"),
        (["--embedding", "x.csv", "--loadings", "x.csv"], "--loadings x.csv is --embedding as"),
        (["--embedding", "./full.csv", "--force"], "is the input as well"),
        (["--embedding", "old.csv"], "old.csv exists; replace it with --force"),
    ],
)  # fmt: skip
def test_unwritable_or_existing_output_raises(call, message, folder):
    (folder / "old.csv").write_text("precious")
    assert message in refused(folder, "fit", "full.csv", "--label", "cultivar", *call)


def test_force_replaces(folder):
    (folder / "old.csv").write_text("precious")
    call = ["--embedding", "old.csv", "--force", "--folds", "0"]
    works(folder, "fit", "full.csv", "--label", "cultivar", "--scale", *call)
    assert (folder / "old.csv").read_text().startswith("cultivar,component_1")


@pytest.mark.parametrize(
    "call",
    [["--embedding", "e.csv"], ["--embedding", "e.csv.gz"], ["--embedding", "e.npy"],
     ["--embedding", "e.parquet"], ["--model", "m.npz"], ["--plot", "p.png"]],
)  # fmt: skip
def test_full_disk_leaves_nothing_and_changes_nothing(call, folder):
    pytest.importorskip("matplotlib")
    (folder / call[1]).write_bytes(b"precious")
    # Not by preexec_fn, which forks this process: JAX warns if it has threads.
    env = hooked(folder, "import resource as r\nr.setrlimit(r.RLIMIT_FSIZE, (512, 512))\n")
    text = refused(
        folder, "fit", "full.csv", "--label", "cultivar", "--scale", "--folds", "0", "--force",
        *call, env=env,
    )  # fmt: skip
    assert f"{call[1]} could not be written" in text


def test_interrupt_while_a_file_is_written_leaves_nothing(folder):
    hook = "import os, signal\nos.replace = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
    env = hooked(folder, hook)
    before = contents(folder)
    call = ["--folds", "0", "--scale", "--embedding", "e.csv"]
    done = slce(folder, "fit", "full.csv", "--label", "cultivar", *call, env=env)
    assert done.returncode == 130
    assert done.stderr == "slce-xp: interrupted\n"
    assert contents(folder) == before


def test_same_call_writes_the_same_bytes_at_another_time(folder, monkeypatch):
    pytest.importorskip("matplotlib")
    for i in "12":
        monkeypatch.setenv("SOURCE_DATE_EPOCH", i)  # the date that Matplotlib uses
        works(
            folder, "fit", "full.csv", "--label", "cultivar", "--folds", "0", "--scale",
            "--model", f"{i}.npz", "--embedding", f"{i}.csv.gz", "--loadings", f"{i}.parquet",
            "--plot", f"{i}.svg",
        )  # fmt: skip
        works(folder, "transform", f"{i}.npz", "full.csv", "-o", f"{i}.npy", "--label", "cultivar",
              "--plot", f"{i}.pdf")  # fmt: skip
    for kind in (".npz", ".npy", ".csv.gz", ".parquet", ".svg", ".pdf"):
        first, second = ((folder / f"{i}{kind}").read_bytes() for i in "12")
        assert first == second, kind


def test_columns_of_an_embedding_never_replace_each_other(full, tmp_path):
    """The label may have the name of a component or of the sample names."""
    for label in ("component_1", "id"):
        full.rename(columns={"cultivar": label}).to_csv(tmp_path / "t.csv")
        call = ["--label", label, "--folds", "0", "--embedding", "e.csv", "--force"]
        works(tmp_path, "fit", "t.csv", *call)
        table = pandas.read_csv(tmp_path / "e.csv")
        assert list(table) == ["id", f"{label}_", "component_1", "component_2"]
        assert list(table.id) == list(full.index)
        assert list(table[f"{label}_"]) == list(full.cultivar)


# ---------------------------------------------------------------- environment


def without(folder, *libraries):
    """An environment in which these libraries are not installed."""
    hook = folder / "without"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "def other(name, path=None, target=None):\n"
        f"    if name.partition('.')[0] not in {libraries}:\n"
        "        return find(name, path, target)\n"
        "PathFinder.find_spec = other\n"
    )
    return environment(hook, PYTHONDONTWRITEBYTECODE="1")


@pytest.mark.parametrize(
    ("missing", "call", "message"),
    [
        ("pandas", ["full.csv", "--label", "cultivar"], "full.csv needs pandas"),
        ("pandas", ["none.npy", "--label", "y.txt", "--loadings", "l.csv"], "l.csv needs pandas"),
        ("pyarrow", ["none.npy", "--label", "y.txt", "--embedding", "e.parquet"], "needs pyarrow"),
        (
            "matplotlib",
            ["none.npy", "--label", "y.txt", "--plot", "p.png"],
            "p.png needs matplotlib",
        ),
        ("plotly", ["none.npy", "--label", "y.txt", "--plot", "p.html"], "p.html needs plotly"),
        ("h5py", ["X.h5", "--label", "y"], "X.h5 needs h5py"),
        ("anndata", ["X.h5ad", "--label", "y"], "X.h5ad needs anndata"),
        (
            "torch",
            ["none.npy", "--label", "y.txt", "--backend", "torch"],
            "--backend='torch' needs",
        ),
        ("cupy", ["none.npy", "--label", "y.txt", "--backend", "cupy"], "--backend='cupy' needs"),
    ],
)
def test_missing_library_is_reported_before_any_work(missing, call, message, folder):
    (folder / "X.h5").write_text("not looked into")
    (folder / "X.h5ad").write_text("not looked into")
    text = refused(folder, "fit", *call, env=without(folder, missing))
    assert message in text
    package = {"cupy": "cupy-cuda12x"}.get(missing, missing)
    # Not an extra of this package, which is on no index.
    assert re.search(rf"install it with: pip install '?{package}(>=[\d.]+')?( \(|\n|$)", text), text


def test_output_without_arrows_replaces_them(fitted):
    ascii_only = environment(PYTHONIOENCODING="ascii")
    text = works(fitted.folder, "inspect", "wine.npz", env=ascii_only)
    assert text.startswith("SLCE model: 13 features \\u2192 2 components, of scaled columns\n")


@pytest.mark.parametrize("call", [["inspect", "wine.npz"], ["fit", "--help"]])
def test_reader_that_stops_early_is_not_an_error(call, fitted):
    process = subprocess.Popen(
        [sys.executable, "-m", "slce_xp", *call], cwd=fitted.folder, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(60) == 0


def test_full_or_closed_standard_output(fitted):
    with Path("/dev/full").open("w") as full_disk:
        done = subprocess.run(
            [sys.executable, "-m", "slce_xp", "inspect", "wine.npz"], cwd=fitted.folder,
            env=environment(), stdout=full_disk, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "slce-xp: error: [Errno 28] No space left on device\n"
    shell = f"exec {sys.executable} -m slce_xp transform wine.npz wine.csv --missing mean -o Z.npy"
    done = subprocess.run(
        f"{shell} >&- 2>&-", shell=True, cwd=fitted.folder, env=environment(), check=False
    )
    assert done.returncode == 0
    (fitted.folder / "Z.npy").unlink()


def on_terminal(folder, *arguments, until=None):
    """Status, standard output, and what a terminal shows of the standard error."""
    here, there = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "slce_xp", *arguments], cwd=folder, env=environment(),
        stdout=subprocess.PIPE, stderr=there, text=True, encoding="utf-8",
    )  # fmt: skip
    os.close(there)
    shown = b""
    try:
        while piece := os.read(here, 1024):
            shown += piece
            if until is not None and until in shown:
                process.send_signal(signal.SIGINT)
                until = None
    except OSError:  # Linux: the other side is closed
        pass
    os.close(here)
    text = process.communicate(timeout=60)[0]
    return process.returncode, text, shown.decode()


def test_progress_is_shown_on_terminals_only(folder):
    status, text, shown = on_terminal(folder, "fit", "full.csv", "--label", "cultivar", "--scale")
    assert status == 0
    assert shown.split("\r\n") == [
        "reading full.csv …",
        "fitting 89 samples of 13 features …",
        "cross-validating (--folds 0 leaves it out) …",
        "",
    ]
    assert "…" not in text


def test_ctrl_c_leaves_no_files(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.normal(size=(2000, 1000)))
    np.save(tmp_path / "y.npy", rng.integers(0, 9, 2000))
    before = contents(tmp_path)
    call = ["fit", "X.npy", "--label", "y.npy", "--embedding", "Z.npy", "--model", "m.npz"]
    status, _, shown = on_terminal(tmp_path, *call, until=b"fitting")
    assert status == 130
    assert shown.endswith("slce-xp: interrupted\r\n")
    assert contents(tmp_path) == before


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("parameter", "text", "shown"),
    [
        ("n_components", "n_components=3 is more than n_components='positive'",
         "--components=3 is more than --components='positive'"),
        ("device", "device must be a device that torch has here; leave device=None",
         "--device must be a device that torch has here; leave out --device"),
        ("max_memory", "Raise max_memory, or pass n_components=1",
         "Raise --max-memory, or pass n_components=1"),
        ("backend", "backend='cupy' needs a GPU; use backend='numpy'",
         "--backend='cupy' needs a GPU; use --backend='numpy'"),
        ("solver", "my_solver is not a solver", "my_solver is not a solver"),
        ("X", "X must be finite, or impute them first",
         "X must be finite, or fill missing values: --missing mean"),
        ("tol", "tol must be positive", "tol must be positive"),
        (None, "No space left on device", "No space left on device"),
    ],
)  # fmt: skip
def test_errors_name_the_option_of_their_parameter(parameter, text, shown):
    error = ValueError(text)
    if parameter is not None:
        error.parameter = parameter
    assert _describe(error) == shown


def test_running_out_of_memory_names_the_option_for_it():
    assert _describe(MemoryError("set max_memory")) == "set --max-memory"


def test_warnings_name_options(capsys):
    shown = set()
    for _ in range(2):  # repeated, it is printed once
        _show_warning(shown, "raise max_memory or n_components=3")
    assert capsys.readouterr().err == "slce-xp: note: raise --max-memory or --components=3\n"


def test_internal_error_asks_for_a_report():
    assert "KeyError: 'k'. Internal error: rerun with --debug" in _describe(KeyError("k"))


def test_main_restores_warning_filters(folder, capsys, monkeypatch):
    import warnings

    monkeypatch.chdir(folder)
    before = warnings.showwarning, list(warnings.filters)
    assert main(["fit", "full.csv", "--label", "cultivar", "--folds", "0"]) == 0
    assert (warnings.showwarning, list(warnings.filters)) == before
    streams = capsys.readouterr()
    assert "SLCE model" in streams.out
    assert streams.err.startswith("slce-xp: note: column 'proline' carries")
