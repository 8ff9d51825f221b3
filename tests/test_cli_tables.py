"""Real-world table formats, read by the command in separate processes."""

import gzip
import re
import shlex

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from command import components_in, embedding_of, here, refused, slce, works

import slce_xp
from slce_xp.cli.numbers import decimal_of
from slce_xp.cli.reading import read
from slce_xp.cli.table import Chosen

pandas = pytest.importorskip("pandas")
QUICK = ["--folds", "0"]


@pytest.fixture(scope="module")
def cells():
    """60 samples of 12 genes: two classes that lie apart, named samples in a random order."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(["healthy", "tumour"], 30))
    X = np.round(rng.gamma(2.0, 2.0, size=(60, 12)), 3)
    X[y == "tumour", :4] += 9
    names = [f"GSM{i}" for i in rng.permutation(100)[:60]]
    return pandas.DataFrame(X, index=names, columns=[f"gene{i}" for i in range(12)]), y


def embedding(cells, rows=slice(None)):
    X, y = cells
    return embedding_of(X.to_numpy()[rows], y[rows], 1)


def check(folder, call, expected, note=""):
    """Run a fit, compare its embedding, and return what it printed to both streams."""
    done = slce(folder, "fit", *call, *QUICK, "--embedding", "Z.csv", "--force")
    assert done.returncode == 0, done.stderr
    assert note in done.stderr
    np.testing.assert_allclose(components_in(folder / "Z.csv"), expected, atol=1e-9)
    return done.stdout + done.stderr


def suggestion(text):
    """Return the call that an error suggests."""
    name, *call = shlex.split(text.rpartition(". Try: ")[2])
    assert name == "slce-xp"
    return call


# ---------------------------------------------------------------- samples in columns, other files


def test_samples_in_columns_with_the_label_in_a_row(cells, tmp_path):
    X, y = cells
    table = X.T
    table.loc["state"] = y
    table.to_csv(tmp_path / "t.tsv", sep="\t", index_label="gene")
    text = refused(tmp_path, "fit", "t.tsv", "--label", "state", "--plot", "p.png")
    call = suggestion(text)
    assert call == ["fit", "t.tsv", "--label", "state", "--plot", "p.png", "--transpose"]
    check(tmp_path, call[1:], embedding(cells))
    assert list(pandas.read_csv(tmp_path / "Z.csv").id) == list(X.index)
    assert (tmp_path / "p.png").exists()


def series_matrix(X, path):
    """Write genes × samples as the Gene Expression Omnibus does."""
    lines = ['!Series_title\t"cells"', "", "!series_matrix_table_begin"]
    lines.append("\t".join(['"ID_REF"', *(f'"{name}"' for name in X.index)]))
    lines += ["\t".join([f'"{gene}"', *map(str, X[gene])]) for gene in X]
    path.write_text("\n".join([*lines, "!series_matrix_table_end", ""]))


def test_series_matrix_and_a_file_of_labels_reach_a_plot_after_one_message(cells, tmp_path):
    X, y = cells
    series_matrix(X, tmp_path / "series.txt")
    meta = pandas.DataFrame({"age": 50, "accession": X.index, "diagnosis": y})
    meta = meta.iloc[::-1].iloc[:-3]
    meta.loc[99] = [1, "GSM_other", "tumour"]
    meta.to_csv(tmp_path / "meta.tsv", sep="\t", index=False)
    text = slce(tmp_path, "fit", "series.txt", "--label", "diagnosis", "--plot", "p.png").stderr
    assert "Its columns look like samples ('GSM" in text
    assert "left out 4 comment lines of series.txt" in text
    call = suggestion(text)
    assert call[-3:] == ["--transpose", "--labels", "meta.tsv:diagnosis"]
    shown = check(tmp_path, call[1:], embedding(cells, slice(3, None)))
    assert "labels joined by 'accession'; 3 of 60 samples are not in meta.tsv and are left" in shown
    assert "1 of 58 lines of meta.tsv name no sample of series.txt" in shown
    assert (tmp_path / "p.png").exists()
    header = (tmp_path / "Z.csv").read_text().partition("\n")[0]
    assert header == "id,diagnosis,component_1"


def test_samples_missing_from_the_label_file_can_be_unlabelled(cells, tmp_path):
    X, y = cells
    X.to_csv(tmp_path / "t.csv")
    pandas.Series(y, X.index, name="y").iloc[5:].to_csv(tmp_path / "y.csv")
    call = ["fit", "t.csv", "--labels", "y.csv:y", "--unlabeled", "use", *QUICK]
    assert "60 samples of 2 classes, 5 without a label" in works(tmp_path, *call)


@pytest.mark.parametrize(
    ("change", "labels", "message"),
    [
        (
            "meta twice",
            "y.csv:y",
            "y.csv must name each sample once to be joined with labels; 'GSM",
        ),
        ("table twice", "y.csv:y", "t.csv must name each sample once to be joined with labels"),
        ("others", "y.csv:y", "no column of y.csv has the names of samples of t.csv, such as 'GSM"),
        ("", "y.csv:z", "--labels: y.csv has no 'z'; it has 'name', 'y'"),
        ("", "y.csv", "--labels y.csv must be FILE:COLUMN; it has 'name', 'y'. Try: slce-xp fit"),
        ("", "none.csv:y", "there is no file none.csv"),
        ("no names", "y.csv:y", "is joined by the names of samples, and t.csv has none"),
    ],
)
def test_labels_that_cannot_be_joined_raise(change, labels, message, cells, tmp_path):
    X, y = cells
    meta = pandas.DataFrame({"name": X.index, "y": y})
    if change == "meta twice":
        meta.loc[60] = meta.loc[3]
    if change == "table twice":
        X = X.rename(index={X.index[0]: X.index[1]})
    if change == "others":
        meta["name"] = meta["name"].str.lower()
    X.to_csv(tmp_path / "t.csv", index=change != "no names")
    meta.to_csv(tmp_path / "y.csv", index=False)
    assert message in refused(tmp_path, "fit", "t.csv", "--labels", labels, run=here)


def test_gene_description_column_is_not_a_sample(cells, tmp_path):
    X, y = cells
    table = X.T
    table.insert(0, "Description", [f"the gene {i}" for i in range(12)])
    table.to_csv(tmp_path / "t.csv")
    pandas.Series(y, X.index, name="y").to_csv(tmp_path / "y.csv")
    text = refused(tmp_path, "fit", "t.csv", "--transpose", "--labels", "y.csv:y", run=here)
    assert "'Description' holds text, so it is no sample" in text
    check(tmp_path, suggestion(text)[1:], embedding(cells))


# ---------------------------------------------------------------- formats of values


def test_words_for_missing_values_thousands_and_comments(cells, tmp_path):
    X, y = cells
    X = X * 1000
    text = X.map(lambda value: f'"{value:,.1f}"').assign(y=y)
    text.iloc[2, 3], text.iloc[7, 3], text.iloc[9, 5] = "-", "ND", "."
    lines = [
        ",".join(["", *text]),
        *(",".join([i, *row]) for i, row in zip(X.index, text.values, strict=True)),
    ]
    lines.insert(20, "# plate 2")
    (tmp_path / "t.csv").write_text("# from the reader\n" + "\n".join(lines) + "\n")
    refusal = slce(tmp_path, "fit", "t.csv", "--label", "y").stderr
    assert "rows 'gene3'" not in refusal
    assert "columns 'gene3', 'gene5' hold text (2 of 60 rows, '-' in line 5)" in refusal
    assert "--drop" not in refusal
    call = suggestion(refusal)
    assert call[-4:] == ["--missing", "-,ND,.", "--impute", "mean"]
    filled = X.round(1).astype(float)
    for row, column in ((2, 3), (7, 3), (9, 5)):
        filled.iloc[row, column] = np.nan
    expected = embedding((filled.fillna(filled.mean()), y))
    shown = check(tmp_path, call[1:], expected, "left out 2 comment lines of t.csv")
    assert "note: '3,322.0' is read as 3322; if that is wrong: --decimal ','" in shown
    low = re.sub('"[^"]*"', "low", lines[30], count=1)
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace(lines[30], low))
    assert "'low' in line 32)" in slce(tmp_path, *call).stderr  # comments are counted


def test_spreadsheet_with_decimal_commas(cells, tmp_path):
    X, y = cells
    X = X * 1000
    german = str.maketrans(",.", ".,")
    text = X.map(lambda value: f"{value:,.2f}".translate(german)).assign(y=y)
    content = "sep=;\r\n" + text.to_csv(sep=";", lineterminator="\r\n")
    (tmp_path / "t.csv").write_bytes(content.encode("utf-8-sig"))
    check(tmp_path, ["t.csv", "--label", "y"], embedding((X.round(2), y)), "is read as")


@pytest.mark.parametrize(
    ("cells", "separator", "decimal"),
    [
        (["0,5"], ",", ","),
        (["1.234,5", "ND"], ",", ","),
        (["1,234,567"], ",", "."),
        (["1,234.5", "2.5"], "\t", "."),
        (["1,234"], ",", None),
        (["1,234"], ";", ","),
        (["1,234", "0,5"], ",", ","),
        (["1,234.5", "0,5"], ",", None),
        (["1 234"], ",", "."),
        (["1 234,5"], ";", ","),
        (["2.5", "ND", "-"], ";", None),
        (["1.234", "ND"], ";", None),
        (["12,34,567"], ",", None),
    ],
)
@pytest.mark.filterwarnings("ignore:.* is read as")
def test_decimal_separator_is_inferred_from_all_cells(cells, separator, decimal):
    assert decimal_of(cells, separator) == decimal


def test_point_among_decimal_commas_is_text(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;y\n0,5;1;u\n1.5;2;v\n2,5;3;u\n")
    text = slce(tmp_path, "fit", "t.csv", "--label", "y").stderr
    assert "'1.5' in line 3" in text
    assert "--missing" not in text


def test_names_of_columns_in_a_comment(tmp_path):
    (tmp_path / "t.tsv").write_text("##v 1\n#a\tb\ty\n1\t20\tu\n2\t60\tv\n3\t50\tu\n4\t80\tv\n")
    with pytest.warns(UserWarning, match="left out 1 comment line of"):
        table = read(tmp_path / "t.tsv", Chosen(label="y"))
    assert table.names.tolist() == ["a", "b"]
    assert table.X.tolist() == [[1, 20], [2, 60], [3, 50], [4, 80]]


def test_table_without_names_of_columns(cells, tmp_path):
    X, y = cells
    X.assign(y=y).to_csv(tmp_path / "t.csv", index=False, header=False)
    text = refused(tmp_path, "fit", "t.csv", "--label", "y")
    call = suggestion(text)
    assert call == ["fit", "t.csv", "--no-header", "--label", "column_13"]
    check(tmp_path, [*call[1:], "--model", "m.npz"], embedding(cells))
    works(tmp_path, "transform", "m.npz", "t.csv", "--no-header", "-o", "again.csv")
    np.testing.assert_allclose(components_in(tmp_path / "again.csv"), embedding(cells), atol=1e-9)


def test_advice_does_not_repeat_given_options(cells, tmp_path):
    X, y = cells
    X.assign(y=y, plate=[f"p{i}" for i in range(60)], batch=["a", "b"] * 30).to_csv(
        tmp_path / "t.csv", index_label="sample"
    )
    text = refused(tmp_path, "fit", "t.csv", "--label", "y", "--id", "sample", run=here)
    assert suggestion(text)[6:] == ["--drop", "plate,batch"]
    assert text.count("--id") == 1  # the one that was given


@pytest.mark.parametrize("row_names", [True, False])
def test_output_of_r_write_table(row_names, cells, tmp_path):
    X, y = cells
    frame = X.assign(y=y)
    header = " ".join(f'"{name}"' for name in frame)
    body = frame.to_csv(sep=" ", header=False, index=row_names, quoting=2)
    (tmp_path / "t.txt").write_text(f"{header}\n{body}")
    check(tmp_path, ["t.txt", "--label", "y"], embedding(cells))
    assert pandas.read_csv(tmp_path / "Z.csv").columns[0] == ("id" if row_names else "y")


def test_first_error_lists_all_required_options(tmp_path):
    rows = "x1,1,2,3,u\nx2,,2,ND,v\nx3,5,2,3,u\nx4,9,1,3,\nx5,9,1,2,v\n"
    (tmp_path / "t.csv").write_text(f"id,a,a,b,y\n{rows}")
    text = refused(tmp_path, "fit", "t.csv", "--label", "Y", *QUICK)
    call = suggestion(text.replace("? Try", ". Try"))
    assert dict(zip(call[4::2], call[5::2], strict=True)) == {
        "--label": "y", "--duplicates": "suffix", "--missing": "ND", "--id": "id",
        "--unlabeled": "drop", "--impute": "mean",
    }  # fmt: skip
    works(tmp_path, *call, "--model", "m.npz")
    (tmp_path / "new.csv").write_text("a,a,b\n1,2,ND\n")
    new = ["transform", "m.npz", "new.csv", "-o", "Z.csv", "--duplicates", "suffix"]
    call = suggestion(refused(tmp_path, *new, run=here))
    assert call == [*new, "--missing", "ND", "--impute", "mean"]
    works(tmp_path, *call, run=here)


def test_commands_that_would_fail_are_not_suggested(tmp_path):
    (tmp_path / "t.tsv").write_text("gene\ts1\ts2\ts3\nA\t1\t2\t9\nB\t3\t4\t1\n")
    text = refused(tmp_path, "fit", "t.tsv", "--label", "state", run=here)
    assert "--transpose, with labels of another file: --labels FILE:COLUMN" in text
    assert "Try" not in text


# ---------------------------------------------------------------- formats


def test_sheet_of_a_workbook(cells, tmp_path):
    pytest.importorskip("openpyxl")
    X, y = cells
    with pandas.ExcelWriter(tmp_path / "t.xlsx") as book:
        pandas.DataFrame({"note": ["nothing"]}).to_excel(book, sheet_name="notes")
        X.assign(y=y).to_excel(book, sheet_name="cells", startrow=2, startcol=1)
    call = ["t.xlsx", "--label", "y", "--data", "cells"]
    check(tmp_path, call, embedding(cells))
    assert list(pandas.read_csv(tmp_path / "Z.csv").id) == list(X.index)
    X.T.to_excel(tmp_path / "wide.xlsx")
    pandas.Series(y, X.index, name="y").to_csv(tmp_path / "y.csv")
    check(tmp_path, ["wide.xlsx", "--transpose", "--labels", "y.csv:y"], embedding(cells))


@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet"])
def test_words_and_codes_for_missing_values_in_every_format(kind, cells, tmp_path):
    pytest.importorskip({"xlsx": "openpyxl", "parquet": "pyarrow"}.get(kind, "pandas"))
    X, y = cells
    codes = X.assign(y=y)
    codes.iloc[3, 2], codes.iloc[4, 5] = -999, -999
    if kind != "parquet":
        codes = codes.astype(object)
        codes.iloc[5, 7] = "ND"
    path = tmp_path / f"t.{kind}"
    getattr(codes, {"xlsx": "to_excel"}.get(kind, f"to_{kind}"))(path)
    numbers = codes.drop(columns="y")
    filled = numbers.map(lambda cell: np.nan if cell in (-999, "ND") else float(cell)).astype(float)
    expected = embedding((filled.fillna(filled.mean()), y))
    call = [path.name, "--label", "y", "--missing", "-999,ND", "--impute", "mean"]
    check(tmp_path, call, expected)


@pytest.mark.parametrize("option", [["--missing", "ND"], ["--decimal", ","], ["--no-header"]])
def test_options_of_text_raise_for_arrays(option, cells, tmp_path):
    np.savez(tmp_path / "t.npz", X=cells[0].to_numpy(), y=cells[1])
    text = refused(tmp_path, "fit", "t.npz", "--label", "y", *option, run=here)
    assert f"{option[0]} is for tables as text, and t.npz is not; leave it out" in text


@pytest.mark.parametrize("version", ["#1.2", "#1.3"])
def test_gct(version, cells, tmp_path):
    X, y = cells
    lines = [version, "12\t60" + "\t2\t2" * (version == "#1.3")]
    texts = ["Description"] if version == "#1.2" else ["symbol", "length"]
    lines.append("\t".join(["Name", *texts, *X.index]))
    if version == "#1.3":
        lines.append("\t".join(["state", "na", "na", *y]))
        lines.append("\t".join(["plate", "na", "na", *(f"p{i}" for i in range(60))]))
    lines += ["\t".join([gene, *("7" for _ in texts), *map(str, X[gene])]) for gene in X]
    (tmp_path / "t.gct").write_text("\n".join(lines) + "\n")
    pandas.Series(y, X.index, name="state").to_csv(tmp_path / "y.csv")
    label = ["--labels", "y.csv:state"] if version == "#1.2" else ["--label", "state"]
    check(tmp_path, ["t.gct", *label, "--model", "m.npz"], embedding(cells))
    assert list(slce_xp.load(tmp_path / "m.npz").feature_names) == list(X)


@pytest.mark.parametrize("packed", [False, True])
def test_counts_of_10x_stay_sparse(packed, tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(["B", "T"], 40)
    counts = rng.poisson(0.2, size=(80, 30))
    counts[y == "T", :5] += rng.poisson(4, size=(40, 5))
    names = [f"CELL{i}-1" for i in range(80)]
    folder = tmp_path / "filtered"
    folder.mkdir()
    symbols = [f"S{max(i, 1)}" for i in range(30)]  # two genes share a symbol
    files = {
        "barcodes.tsv": "".join(f"{name}\n" for name in names),
        "features.tsv": "".join(f"ENSG{i}\t{s}\tGene\n" for i, s in enumerate(symbols)),
    }
    scipy.io.mmwrite(folder / "matrix.mtx", scipy.sparse.coo_array(counts.T), field="integer")
    files["matrix.mtx"] = (folder / "matrix.mtx").read_text()
    (folder / "matrix.mtx").unlink()
    for name, text in files.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / name).write_text(text)
    meta = pandas.DataFrame({"barcode": names, "type": y}).sample(frac=1, random_state=0)
    meta.to_csv(tmp_path / "types.csv", index=False)
    expected = embedding_of(counts.astype(float), y, 1)
    check(tmp_path, ["filtered", "--labels", "types.csv:type", "--model", "m.npz"], expected)
    genes = list(slce_xp.load(tmp_path / "m.npz").feature_names)
    assert genes[:3] == ["ENSG0", "ENSG1", "S2"]
    table = read(folder, Chosen(labels=f"{tmp_path / 'types.csv'}:type"))
    assert scipy.sparse.issparse(table.X)
    assert table.X.shape == (80, 30)
    (folder / ("barcodes.tsv.gz" if packed else "barcodes.tsv")).unlink()
    text = refused(tmp_path, "fit", "filtered", "--labels", "types.csv:type", run=here)
    assert "filtered must hold barcodes.tsv (or .gz)" in text


def test_hdf5_file_of_10x_is_to_be_converted(tmp_path):
    with pytest.importorskip("h5py").File(tmp_path / "counts.h5", "w") as file:
        for name in ("data", "indices", "indptr", "barcodes"):
            file[f"matrix/{name}"] = np.arange(3)
    text = refused(tmp_path, "fit", "counts.h5", "--labels", "y.csv:y", run=here)
    assert "scanpy.read_10x_h5('counts.h5').write('counts.h5ad')" in text


def test_h5ad_says_which_matrix_was_used(cells, tmp_path):
    anndata = pytest.importorskip("anndata")
    X, y = cells
    adata = anndata.AnnData(X.to_numpy(), pandas.DataFrame({"y": y}, index=X.index))
    adata.layers["counts"] = X.to_numpy()
    adata.write_h5ad(tmp_path / "t.h5ad")
    done = slce(tmp_path, "fit", "t.h5ad", "--label", "y", *QUICK)
    assert "note: t.h5ad: X was used; --data chooses another: 'counts'" in done.stderr
    done = slce(tmp_path, "fit", "t.h5ad", "--label", "y", "--data", "counts", *QUICK)
    assert "note: t.h5ad: counts was used\n" in done.stderr


# ---------------------------------------------------------------- columns


def test_duplicate_column_names_and_patterns(cells, tmp_path):
    X, y = cells
    table = X.rename(columns={"gene1": "gene0"})
    table.insert(0, "batch_1", 1)
    table.insert(1, "batch_2", 2)
    table.insert(2, "batch_2", 3, allow_duplicates=True)
    table.assign(y=y).to_csv(tmp_path / "t.csv")
    text = refused(tmp_path, "fit", "t.csv", "--label", "y", "--drop", "batch*")
    assert "'gene0' appears more than once" in text  # and the batches are gone
    call = suggestion(text)
    assert call[-2:] == ["--duplicates", "suffix"]
    check(tmp_path, [*call[1:], "--model", "m.npz"], embedding(cells))
    assert list(slce_xp.load(tmp_path / "m.npz").feature_names)[:3] == ["gene0", "gene0.1", "gene2"]
    call = ["transform", "m.npz", "t.csv", "--duplicates", "suffix", "-o", "again.csv"]
    works(tmp_path, *call)
    np.testing.assert_allclose(components_in(tmp_path / "again.csv"), embedding(cells), atol=1e-9)
    call = ["t.csv", "--label", "y", "--features", "gene*", "--duplicates", "suffix"]
    check(tmp_path, call, embedding(cells))
    text = refused(tmp_path, "fit", "t.csv", "--label", "y", "--drop", "plate*", run=here)
    assert "--drop: t.csv has no column like 'plate*'" in text


def test_columns_that_encode_the_label_are_reported(cells, tmp_path):
    X, y = cells
    frame = X.assign(code=np.where(y == "tumour", 1, 2), depth=1e4 * (y == "tumour") + X.gene7, y=y)
    frame.to_csv(tmp_path / "t.csv")
    text = slce(tmp_path, "fit", "t.csv", "--label", "y", *QUICK).stderr
    assert "100.0 % of the variance of 'code' is between classes" in text
    assert "so do 'depth'" in text
    assert "--drop code" in text
    frame["depth"] = np.random.default_rng(0).permutation(1e4 * (y == "tumour")) + 2e4 * (
        y == "tumour"
    )
    frame.drop(columns="code").to_csv(tmp_path / "t.csv")
    text = slce(tmp_path, "fit", "t.csv", "--label", "y", *QUICK).stderr
    assert "component 1 is hardly more than 'depth' (weight 1.000)" in text
    assert "--drop depth, or --scale if units differ" in text
    assert "spread very differently" not in text  # would repeat the previous note
    X.assign(tiny=1e-4 * X.gene9, y=y).to_csv(tmp_path / "t.csv")
    text = slce(tmp_path, "fit", "t.csv", "--label", "y", *QUICK).stderr
    assert "measurement" not in text
    assert re.search(r"columns spread very differently, from \S+ \(tiny\) to .*use --scale", text)


@pytest.mark.parametrize(
    ("factor", "told"),
    [(40.0, "carries 99 % of the scatter of X"), (1e9, "drowns 3 of 4 columns in rounding")],
)
def test_column_of_much_larger_units_is_noted_once_by_name(tmp_path, factor, told):
    rng = np.random.default_rng(0)
    y = np.repeat(list("abc"), 30)
    X = rng.normal(size=(90, 4)) + 5 * np.stack([y == "a", y == "b", y == "c", y == "d"], axis=1)
    X[:, 2] = factor * rng.normal(size=90)
    frame = pandas.DataFrame(X, columns=["width", "height", "salary", "age"])
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    np.savez(tmp_path / "t.npz", X=X, y=y)
    for table, column in (("t.csv", "column 'salary'"), ("t.npz", "column 3")):
        call = ["fit", table, "--label", "y", "--folds", "3"]
        done = here(tmp_path, *call, "--model", "m.npz", "--force")
        text = f"{column} {told}: use --scale if units differ"
        assert done.stderr.count("differ") == 1
        assert f"slce-xp: note: {text}\n" in done.stderr
        assert f"  units        {text}\n" in done.stdout
        assert f"  units        {text}\n" in works(tmp_path, "inspect", "m.npz", run=here)
        done = here(tmp_path, *call, "--scale")
        assert "differ" not in done.stdout + done.stderr


def test_fit_without_positive_eigenvalues_warns(tmp_path):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    frame.assign(y=rng.integers(0, 3, 60)).to_csv(tmp_path / "t.csv", index=False)
    done = slce(tmp_path, "fit", "t.csv", "--label", "y", *QUICK)
    assert "no direction lowers the loss, so the embedding is of little use" in done.stderr
    assert "of which nothing is removed" in done.stdout
    assert "-" not in next(line for line in done.stdout.splitlines() if "  loss " in line)


def test_share_of_the_loss_chooses_the_components(tmp_path):
    digits = pytest.importorskip("sklearn.datasets").load_digits(as_frame=True).frame
    digits.to_csv(tmp_path / "t.csv", index=False)
    call = ["fit", "t.csv", "--label", "target", *QUICK, "--components"]
    assert "64 features → 3 components" in works(tmp_path, *call, "0.4")
    assert "→ 7 components" in works(tmp_path, *call, "0.999999")


# ---------------------------------------------------------------- plots


def test_plots_have_titles_shares_and_the_chosen_components(tmp_path):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    y = np.repeat([f"c{i}" for i in range(1, 13)], 10)
    X = rng.normal(size=(120, 12)) + 9 * np.repeat(np.eye(12), 10, axis=0)
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(12)]).assign(y=y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    call = ["fit", "t.csv", "--label", "y", *QUICK, "--force", "--model", "m.npz"]
    works(tmp_path, *call, "--plot", "p.svg", "--plot-components", "1,3")
    shares = slce_xp.load(tmp_path / "m.npz").loss_shares
    texts = re.findall(r"<text[^>]*>(.*?)</text>", (tmp_path / "p.svg").read_text())
    assert "t.csv: 120 samples, 12 classes" in texts
    for i in (1, 3):
        assert f"component {i} ({100 * shares[i - 1]:.1f} % of class structure)" in texts
    text = refused(tmp_path, *call, "--plot", "q.png", "--plot-components", "1,99", run=here)
    assert "--plot-components must be from 1 to 11" in text


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (["--components", "3"], "scatter3d"),
        (["--components", "3", "--plot-components", "2,3"], "scattergl"),
        (["--components", "2"], "scattergl"),
        ([], "scattergl"),
    ],
)
def test_html_plot_is_3d_for_three_components_and_fills_the_window(options, kind, tmp_path):
    pytest.importorskip("plotly")
    rng = np.random.default_rng(0)
    y = np.repeat([f"c{i}" for i in (10, 1, 2, 11, 3)], 10)
    X = rng.normal(size=(50, 5)) + 9 * np.repeat(np.eye(5), 10, axis=0)
    pandas.DataFrame(X, columns=list("abcde")).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    works(tmp_path, "fit", "t.csv", "--label", "y", *QUICK, "--plot", "p.html", *options)
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    call = page[page.rindex("Plotly.newPlot") :]
    assert set(re.findall(r'"type":"(scatter\w+)"', call.partition('"template"')[0])) == {kind}
    assert re.findall(r'"name":"(c\d+)"', call) == ["c1", "c2", "c3", "c10", "c11"]
    assert "<title>t.csv: 50 samples, 5 classes</title>" in page
    assert "height:100vh" in page
    assert "margin: 0" in page


def test_plan_of_data_larger_than_memory(tmp_path):
    call = ["plan", "--samples", "1e6", "--features", 20_000, "--classes", 20]
    text = works(tmp_path, *call, "--machine-memory", "16GB")
    assert "does not fit into 16 GB" in text
    text = works(tmp_path, *call, "--machine-memory", "500GB")
    assert "advice  memory: X and the fit take 160 GB of 500 GB" in text
