"""Real-world table formats, read by the command."""

import re
import shlex

import numpy as np
import pytest
from command import components_in, embedding_of, here, refused, slce, works

import slce_xp
from slce_xp.cli.numbers import decimal_of

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


def test_series_matrix_and_its_metadata_reach_a_plot_after_one_message(cells, tmp_path):
    X, y = cells
    series_matrix(X, tmp_path / "series.txt")
    meta = pandas.DataFrame({"age": 50, "accession": X.index, "diagnosis": y})
    meta = meta.iloc[::-1].iloc[:-3]
    meta.loc[99] = [1, "GSM_other", "tumour"]
    meta.to_csv(tmp_path / "meta.tsv", sep="\t", index=False)
    text = refused(tmp_path, "fit", "series.txt", "--label", "diagnosis")
    assert "its columns look like samples ('GSM" in text
    assert "--transpose, and columns of samples from another table: --metadata FILE" in text
    call = ["fit", "series.txt", "--label", "diagnosis", "--metadata", "meta.tsv", *QUICK]
    text = refused(tmp_path, *call)
    assert "the samples of meta.tsv are columns of series.txt" in text
    call = suggestion(text)
    assert call[-1] == "--transpose"
    shown = check(tmp_path, [*call[1:], "--plot", "p.png"], embedding(cells, slice(3, None)))
    assert "meta.tsv is joined by 'accession'; 3 of 60 samples are not there" in shown
    assert "1 of 58 lines name no sample of series.txt" in shown
    assert "3 of 60 rows have no label in 'diagnosis' and are left out" in shown
    assert "left out 1 comment line" in shown
    assert (tmp_path / "p.png").exists()
    header = (tmp_path / "Z.csv").read_text().partition("\n")[0]
    assert header == "id,diagnosis,component_1"


def test_typo_in_a_column_of_the_metadata_or_in_their_file(cells, tmp_path):
    X, y = cells
    X.to_csv(tmp_path / "t.csv")
    pandas.DataFrame({"name": X.index, "diagnosis": y}).to_csv(tmp_path / "meta.csv", index=False)
    text = refused(tmp_path, "fit", "t.csv", "--metadata", "meta.csv", "--label", "diagnosi")
    assert "t.csv or meta.csv has no 'diagnosi'; did you mean 'diagnosis'?" in text
    assert suggestion(text.replace("? Try", ". Try"))[-1] == "diagnosis"
    text = refused(tmp_path, "fit", "t.csv", "--metadata", "met.csv", "--label", "diagnosis")
    assert "there is no file met.csv; did you mean meta.csv?" in text


def test_samples_missing_from_the_label_file_can_be_unlabelled(cells, tmp_path):
    X, y = cells
    X.to_csv(tmp_path / "t.csv")
    pandas.Series(y, X.index, name="y").iloc[5:].to_csv(tmp_path / "y.csv")
    call = ["fit", "t.csv", "--metadata", "y.csv", "--label", "y", "--unlabeled", "use", *QUICK]
    assert "60 samples of 2 classes, 5 without a label" in works(tmp_path, *call)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("meta twice", "y.csv must name each sample once to be joined, and does not: 'GSM"),
        ("table twice", "t.csv must name each sample once to be joined"),
        ("others", "no column of y.csv has the names of samples of t.csv, such as 'GSM"),
        ("no names", "is joined by the names of samples, and t.csv has none"),
    ],
)
def test_metadata_that_cannot_be_joined_raise(change, message, cells, tmp_path):
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
    assert message in refused(tmp_path, "fit", "t.csv", "--metadata", "y.csv", "--label", "y")


def test_gene_description_column_is_not_a_sample(cells, tmp_path):
    X, y = cells
    table = X.T
    table.insert(0, "Description", [f"the gene {i}" for i in range(12)])
    table.to_csv(tmp_path / "t.csv")
    pandas.Series(y, X.index, name="y").to_csv(tmp_path / "y.csv")
    call = ["t.csv", "--transpose", "--metadata", "y.csv", "--label", "y"]
    assert "'Description' left out, for text is not a sample" in check(
        tmp_path, call, embedding(cells)
    )


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
    refusal = here(tmp_path, "fit", "t.csv", "--label", "y").stderr
    assert "words among the numbers of 'gene3', 'gene5': '-', 'ND', '.'" in refusal
    assert "('-' in row 3 of 'gene3')" in refusal
    call = suggestion(refusal)
    assert call[-3:] == ["--na=-,ND,.", "--missing", "mean"]
    filled = X.round(1).astype(float)
    for row, column in ((2, 3), (7, 3), (9, 5)):
        filled.iloc[row, column] = np.nan
    expected = embedding((filled.fillna(filled.mean()), y))
    shown = check(tmp_path, call[1:], expected, "left out 1 comment lines of t.csv")
    assert re.search("is read as [0-9]+; if that is wrong: --decimal ','", shown)


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
        (["12,34,567"], ",", None),
    ],
)
@pytest.mark.filterwarnings("ignore:.* is read as")
def test_decimal_separator_is_inferred_from_all_cells(cells, separator, decimal):
    assert decimal_of(cells, separator) == decimal


def test_point_among_decimal_commas_is_text(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;y\n0,5;1;u\n1.5;2;v\n2,5;3;u\n")
    text = slce(tmp_path, "fit", "t.csv", "--label", "y").stderr
    assert "'1.5' in row 2" in text
    assert "--na" not in text


def test_table_without_names_of_columns(cells, tmp_path):
    X, y = cells
    X.assign(y=y).to_csv(tmp_path / "t.csv", index=False, header=False)
    text = refused(tmp_path, "fit", "t.csv", "--label", "y")
    assert "t.csv must name its columns in the first line, which holds numbers ('" in text


def test_text_is_left_out_and_names_the_samples_if_all_differ(cells, tmp_path):
    X, y = cells
    X.assign(y=y, plate=[f"p{i}" for i in range(60)], batch=["a", "b"] * 30, none=None).to_csv(
        tmp_path / "t.csv", index=False
    )
    shown = check(tmp_path, ["t.csv", "--label", "y"], embedding(cells))
    assert "'plate' names the samples, for each has its own" in shown
    assert "columns without numbers are left out: 'batch', 'none'" in shown
    assert list(pandas.read_csv(tmp_path / "Z.csv").id[:2]) == ["p0", "p1"]
    assert "--drop batch" not in shown


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
    rows = "x1,1,2,3,u\nx2,,2,ND,v\nx3,5,2,3,u\nx4,9,1,3,\nx5,9,1,2,v\nx6,8,1,2,v\n"
    (tmp_path / "t.csv").write_text(f"id,a,a,b,y\n{rows}")
    text = refused(tmp_path, "fit", "t.csv", "--label", "Y", *QUICK)
    call = suggestion(text.replace("? Try", ". Try"))
    assert dict(zip(call[4::2], call[5::2], strict=True)) == {
        "--label": "y", "--na": "ND", "--missing": "mean",
    }  # fmt: skip
    works(tmp_path, *call, "--model", "m.npz")
    (tmp_path / "new.csv").write_text("a,a,b\n1,2,ND\n3,4,5\n4,5,6\n")
    new = ["transform", "m.npz", "new.csv", "-o", "Z.csv"]
    call = suggestion(refused(tmp_path, *new, run=here))
    assert call == [*new, "--na", "ND", "--missing", "mean"]
    works(tmp_path, *call, run=here)


def test_calls_that_would_fail_are_not_suggested(tmp_path):
    (tmp_path / "t.tsv").write_text("gene\ts1\ts2\ts3\nA\t1\t2\t9\nB\t3\t4\t1\n")
    text = refused(tmp_path, "fit", "t.tsv", "--label", "state")
    assert "--transpose, and columns of samples from another table: --metadata FILE" in text
    assert "Try" not in text


# ---------------------------------------------------------------- formats


def test_sheet_of_a_workbook(cells, tmp_path):
    pytest.importorskip("openpyxl")
    X, y = cells
    with pandas.ExcelWriter(tmp_path / "t.xlsx") as book:
        pandas.DataFrame({"README": ["nothing"]}).to_excel(book, sheet_name="notes", index=False)
        X.assign(y=y).to_excel(book, sheet_name="cells", startrow=2, startcol=1)
    text = refused(tmp_path, "fit", "t.xlsx", "--label", "y")
    assert "its first sheet 'notes' has no 'y'; its sheets are 'notes', 'cells'" in text
    call = suggestion(text)
    assert call[-2:] == ["--data", "cells"]
    check(tmp_path, call[1:], embedding(cells))
    assert list(pandas.read_csv(tmp_path / "Z.csv").id) == list(X.index)
    text = refused(tmp_path, "fit", "t.xlsx", "--label", "z")
    assert "its sheets are 'notes', 'cells'" in text
    assert "did you mean 'cells'?" in refused(
        tmp_path, "fit", "t.xlsx", "--label", "y", "--data", "cell"
    )
    X.T.to_excel(tmp_path / "wide.xlsx")
    pandas.Series(y, X.index, name="y").to_csv(tmp_path / "y.csv")
    call = ["wide.xlsx", "--transpose", "--metadata", "y.csv", "--label", "y"]
    check(tmp_path, call, embedding(cells))


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
    call = [path.name, "--label", "y", "--na=-999,ND", "--missing", "mean"]
    check(tmp_path, call, expected)


@pytest.mark.parametrize("option", [["--na", "ND"], ["--decimal", ","]])
def test_options_of_text_raise_for_arrays(option, cells, tmp_path):
    np.savez(tmp_path / "t.npz", X=cells[0].to_numpy(), y=cells[1])
    text = refused(tmp_path, "fit", "t.npz", "--label", "y", *option)
    assert f"{option[0]} is for .csv, .tsv, .txt, .xlsx, .parquet, not t.npz" in text


def test_data_of_10x_are_to_be_converted(tmp_path):
    with pytest.importorskip("h5py").File(tmp_path / "counts.h5", "w") as file:
        for name in ("data", "indices", "indptr", "barcodes"):
            file[f"matrix/{name}"] = np.arange(3)
    text = refused(tmp_path, "fit", "counts.h5", "--label", "y")
    assert "scanpy.read_10x_h5('counts.h5').write('counts.h5ad')" in text
    text = refused(tmp_path, "fit", ".", "--label", "y")
    assert "scanpy.read_10x_mtx('.').write('counts.h5ad')" in text


def test_h5ad_says_which_matrix_and_genes_were_used(cells, tmp_path):
    anndata = pytest.importorskip("anndata")
    X, y = cells
    adata = anndata.AnnData(X.to_numpy(), pandas.DataFrame({"y": y}, index=X.index))
    adata.layers["counts"] = X.to_numpy()
    adata.var["highly_variable"] = np.arange(12) % 2 == 0
    adata.write_h5ad(tmp_path / "t.h5ad")
    call = ["t.h5ad", "--label", "y"]
    expected = embedding((X.iloc[:, ::2], y))
    shown = check(tmp_path, call, expected, "t.h5ad: X was used; --data chooses another: 'counts'")
    assert "6 of 12 genes, those that are highly variable, are used" in shown
    shown = check(tmp_path, [*call, "--data", "counts", "--features", "*"], embedding(cells))
    assert "highly variable" not in shown
    assert "was used" not in shown
    works(tmp_path, "fit", *call, "--model", "m.npz", *QUICK)
    works(tmp_path, "transform", "m.npz", "t.h5ad", "-o", "again.csv")
    np.testing.assert_allclose(components_in(tmp_path / "again.csv"), expected, atol=1e-9)


# ---------------------------------------------------------------- columns


def test_duplicate_column_names_and_patterns(cells, tmp_path):
    X, y = cells
    table = X.rename(columns={"gene1": "gene0"})
    table.insert(0, "batch_1", 1)
    table.insert(1, "batch_2", 2)
    table.insert(2, "batch_2", 3, allow_duplicates=True)
    table.assign(y=y).to_csv(tmp_path / "t.csv")
    call = ["t.csv", "--label", "y", "--drop", "batch*"]
    shown = check(tmp_path, [*call, "--model", "m.npz"], embedding(cells))
    assert "'gene0', 'batch_2' appear again" in shown or "'batch_2', 'gene0' appear" in shown
    assert list(slce_xp.load(tmp_path / "m.npz").feature_names)[:3] == ["gene0", "gene0.1", "gene2"]
    works(tmp_path, "transform", "m.npz", "t.csv", "-o", "again.csv")
    np.testing.assert_allclose(components_in(tmp_path / "again.csv"), embedding(cells), atol=1e-9)
    check(tmp_path, ["t.csv", "--label", "y", "--features", "gene*"], embedding(cells))
    text = refused(tmp_path, "fit", "t.csv", "--label", "y", "--drop", "plate*")
    assert "--drop: t.csv has no 'plate*'" in text


def test_columns_that_code_the_label_are_reported(cells, tmp_path):
    X, y = cells
    frame = X.assign(code=np.where(y == "tumour", 1.5, 2), depth=1e4 * (y == "tumour") + X.gene7)
    frame.assign(y=y).to_csv(tmp_path / "t.csv")
    text = here(tmp_path, "fit", "t.csv", "--label", "y", *QUICK).stderr
    assert re.search(r"'code', 'depth': almost the label, \d+\.\d % of the variance", text)
    assert "--drop code,depth" in text
    frame.drop(columns=["code", "depth"]).assign(y=y).to_csv(tmp_path / "t.csv")
    assert "almost" not in here(tmp_path, "fit", "t.csv", "--label", "y", *QUICK).stderr


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
    assert "64 features → 4 components" in works(tmp_path, *call, "0.9")
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
    assert "t.csv: 120 samples, in-sample:" in texts
    for i in (1, 3):
        assert f"component {i} ({100 * shares[i - 1]:.1f} % of class structure)" in texts
    text = refused(tmp_path, *call, "--plot", "q.png", "--plot-components", "1,99")
    assert "--plot: the model has 11 components, which are not enough" in text


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
    assert "height:100vh" in page


def test_plan_of_data_larger_than_memory(tmp_path):
    call = ["plan", "--samples", "1e6", "--features", 20_000, "--classes", 20]
    text = works(tmp_path, *call, "--machine-memory", "16GB")
    assert "does not fit into 16 GB" in text
    text = works(tmp_path, *call, "--machine-memory", "500GB")
    assert "advice  memory: X and the fit take 160 GB of 500 GB" in text
