"""Data sets: each public format on a small file, damaged files, and where sets are found."""

import dataclasses
import gzip
import io
import os
import struct
import tarfile
import zipfile

import numpy as np
import pytest
from conftest import load_set
from scipy.io import savemat

from benchmarks import datasets
from benchmarks.datasets import DATA_SETS, DataSet, MissingDataError

pytestmark = pytest.mark.benchmarks

REAL_FOLDER = os.environ.get("SLCE_XP_DATA")  # the tests themselves run without it


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no folder of data sets."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SLCE_XP_DATA", raising=False)
    return tmp_path / "cache" / "slce_xp" / "datasets"


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def gzip_of(content):
    """Compressed without the time, so that names of test cases are the same in every process."""
    return gzip.compress(content, mtime=0)


def idx(array):
    head = b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip_of(head + array.astype(np.uint8).tobytes())


# ---------------------------------------------------------------- formats


def test_comma_separated_values_of_uci(tmp_path):
    text = "1,0,0.99539,-0.05889,g\r\n1,0,1,-0.18829,b\r\n\r\n"
    path = written(tmp_path / "i.zip", zipped({"Index": "", "ionosphere.data": text}))
    X, y = datasets.parse_ionosphere(path)
    assert X.tolist() == [[1, 0, 0.99539, -0.05889], [1, 0, 1, -0.18829]]
    assert y.tolist() == ["g", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped({"ionosphere.data": "1,2,g\n1,b\n"}), "line 2: must have 2 numbers"),
        (zipped({"ionosphere.data": "1,2,g\n1,two,b\n"}), "line 2: must hold numbers only"),
        (zipped({"ionosphere.data": "\n"}), "must hold rows of numbers, has none"),
        (zipped({"other.data": "1,2,g\n"}), "must hold ionosphere.data; holds other.data"),
        (b"<html>moved</html>", "must be a zip archive"),
    ],
)
def test_damaged_values_of_uci(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        datasets.parse_ionosphere(written(tmp_path / "i.zip", content))


ARFF = """% comment
@RELATION MiceProtein
@ATTRIBUTE MouseID {'309_1','3415_2'}
@ATTRIBUTE DYRK1A_N REAL
@attribute 'ITSN1 N' numeric
@ATTRIBUTE Genotype {Control,Ts65Dn}
@ATTRIBUTE Treatment string
@ATTRIBUTE Behavior {'C/S','S/C'}
@ATTRIBUTE class {c-CS-m,t-SC-s}

@DATA
'309_1',0.5,0.7,Control,'Memantine, low','C/S',c-CS-m
% between
'3415_2',?,-1e-3,Ts65Dn,Saline,'S/C',t-SC-s
"""


def test_arff_of_openml(tmp_path):
    X, y = datasets.parse_mice(written(tmp_path / "mice.arff", ARFF))
    np.testing.assert_array_equal(X, [[0.5, 0.7], [np.nan, -1e-3]])
    assert y.tolist() == ["c-CS-m", "t-SC-s"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@DATA", "", "must be an ARFF file with @data"),
        ("class {", "kind {", "an attribute 'class'; its attributes are MouseID"),
        ("?,-1e-3", "-1e-3", "row 2 of @data: must have 7 fields, one per attribute; has 6"),
        ("0.5,0.7", "0.5,high", "row 1 of @data: could not convert"),
        (ARFF[ARFF.index("'309_1',0.5") :], "", "must have rows after @data, has none"),
    ],
)
def test_damaged_arff(tmp_path, old, new, message):
    assert old in ARFF
    with pytest.raises(ValueError, match=message):
        datasets.parse_mice(written(tmp_path / "mice.arff", ARFF.replace(old, new)))


def test_mat_files(tmp_path):
    data = np.arange(4 * 3 * 2, dtype=np.uint8).reshape(4, 3, 2)
    savemat(tmp_path / "usps_all.mat", {"data": data})
    X, y = datasets.parse_usps(tmp_path / "usps_all.mat")
    assert y.tolist() == [1, 1, 1, 2, 2, 2]
    np.testing.assert_allclose(X[4] * 255, data[:, 1, 1])

    savemat(tmp_path / "coil.mat", {"fea": np.eye(3), "gnd": np.array([[1], [1], [2]], np.uint8)})
    X, y = datasets.parse_fea_gnd(tmp_path / "coil.mat")
    assert X.tolist() == np.eye(3).tolist()
    assert y.tolist() == [1, 1, 2]

    faces = np.arange(4 * 20, dtype=np.uint8).reshape(4, 20)
    savemat(tmp_path / "faces.mat", {"faces": faces})
    X, y = datasets.parse_olivetti(tmp_path / "faces.mat")
    # MATLAB stores an image column by column, we row by row.
    assert X[7].reshape(2, 2).tolist() == faces[:, 7].reshape(2, 2, order="F").tolist()
    assert y.tolist() == [0] * 10 + [1] * 10


def test_damaged_mat_files(tmp_path):
    savemat(tmp_path / "a.mat", {"fea": np.eye(2)})
    with pytest.raises(ValueError, match="must hold fea, gnd; lacks gnd"):
        datasets.parse_fea_gnd(tmp_path / "a.mat")
    savemat(tmp_path / "b.mat", {"data": np.eye(2)})
    with pytest.raises(ValueError, match="data must be pixels × samples × digits"):
        datasets.parse_usps(tmp_path / "b.mat")
    written(tmp_path / "c.mat", (tmp_path / "b.mat").read_bytes()[:140])
    with pytest.raises(ValueError, match=r"c\.mat: must be a MATLAB file"):
        datasets.parse_usps(tmp_path / "c.mat")


def test_idx_files(tmp_path):
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 256, shape) for shape in ((5, 2, 3), (5,), (2, 2, 3), (2,))]
    paths = [written(tmp_path / f"{i}.gz", idx(part)) for i, part in enumerate(parts)]
    X, y = datasets.parse_mnist(*paths)
    assert X.tolist() == np.concatenate(parts[::2]).reshape(7, 6).tolist()
    assert y.tolist() == np.concatenate(parts[1::2]).tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"plain", "must be gzipped"),
        (idx(np.ones(3))[:-4], "must be gzipped"),
        (gzip_of(b"\x00\x00\x0d\x01\x00\x00\x00\x00"), "begins with 0 0 13"),
        (gzip_of(b""), "begins with nothing"),
        (gzip_of(b"\x00\x00\x08\x02\x00\x00"), "must give 2 sizes, is cut short"),
        (gzip_of(b"\x00\x00\x08\x01\x00\x00\x00\x05abc"), "must hold 5 bytes .* holds 3"),
    ],
)
def test_damaged_idx_files(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        datasets.read_idx(written(tmp_path / "x.gz", content))


def test_activity_is_a_zip_in_a_zip(tmp_path):
    root = "UCI HAR Dataset"
    inner = zipped(
        {
            f"{root}/features_info.txt": "not this one",
            f"{root}/features.txt": "1 tBodyAcc-mean()-X\n2 tBodyAcc-mad()-X\n3 f-meanFreq()-X\n",
            f"{root}/activity_labels.txt": "1 WALKING\n2 LAYING\n",
            f"{root}/train/X_train.txt": "  1.0e-001 -2 3\n 4 5 6\n",
            f"{root}/train/y_train.txt": "2\n1\n",
            f"{root}/test/X_test.txt": " 7 8 9\n",
            f"{root}/test/y_test.txt": "1\n",
        }
    )
    path = written(tmp_path / "har.zip", zipped({"UCI HAR Dataset.zip": inner}))
    X, y = datasets.parse_activity(path)
    assert X.tolist() == [[0.1, -2, 3], [4, 5, 6], [7, 8, 9]]
    assert y.tolist() == ["LAYING", "WALKING", "WALKING"]
    assert datasets.parse_activity_66(path)[0].tolist() == [[0.1], [4], [7]]


def test_arcene(tmp_path):
    members = {
        "ARCENE/arcene_train.data": "0 71 \n1 2 \n",
        "ARCENE/arcene_train.labels": "1\n-1\n",
        "ARCENE/arcene_valid.data": "3 4\n",
        "arcene_valid.labels": "-1\n",
        "ARCENE/arcene_test.data": "9 9\n",
    }
    X, y = datasets.parse_arcene(written(tmp_path / "a.zip", zipped(members)))
    assert X.tolist() == [[0, 71], [1, 2], [3, 4]]
    assert y.tolist() == [1, -1, -1]


def pancan(data, labels):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in (("data.csv", data), ("labels.csv", labels)):
            member = tarfile.TarInfo(f"TCGA-PANCAN-HiSeq-801x20531/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return zipped({"TCGA-PANCAN-HiSeq-801x20531.tar.gz": buffer.getvalue()})


def test_pancan_is_a_tar_in_a_zip(tmp_path):
    data = ",gene_0,gene_1\nsample_0,0.0,2.5\nsample_1,3,4\n"
    labels = ",Class\nsample_1,LUAD\nsample_0,PRAD\n"
    X, y = datasets.parse_pancan(written(tmp_path / "p.zip", pancan(data, labels)))
    assert X.tolist() == [[0, 2.5], [3, 4]]
    assert y.tolist() == ["PRAD", "LUAD"]
    with pytest.raises(ValueError, match=r"labels\.csv has no line for sample_0"):
        datasets.parse_pancan(written(tmp_path / "q.zip", pancan(data, labels[:20])))


def test_pages_of_the_colon_study(tmp_path):
    genes = (
        "<html><body>2000 genes<pre>\n 8589.4163 5468.2409 1e2\n<font>1 2 3</font>\n</pre></html>"
    )
    tissues = "<html><p>tissues, negative: tumour</p><pre>-1\n1\n-2\n</pre></html>"
    X, y = datasets.parse_colon(
        written(tmp_path / "I2000.html", genes), written(tmp_path / "tissues.html", tissues)
    )
    assert X.tolist() == [[8589.4163, 1], [5468.2409, 2], [100, 3]]
    assert y.tolist() == [2, 1, 2]


def test_xena_table_is_converted_back_to_counts(tmp_path):
    text = "sample\tTCGA-05-4244-01\tTCGA-38-4625-11\nA1BG\t0\t3\nA2M\t1\t2\n"
    path = written(tmp_path / "luad.gz", gzip_of(text.encode()))
    X, y = datasets.parse_luad(path)
    np.testing.assert_allclose(X, [[0, 1], [7, 3]])
    assert y.tolist() == ["01", "11"]
    with pytest.raises(ValueError, match="must be gzipped and whole"):
        datasets.parse_luad(written(path, path.read_bytes()[:-12]))


def test_counts_in_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "worm.h5", "w") as file:
        file["X"], file["Y"] = np.eye(3), np.array([1.0, 2, 2])
    X, y = datasets.parse_worm(tmp_path / "worm.h5")
    assert X.tolist() == np.eye(3).tolist()
    assert y.tolist() == [1, 2, 2]
    with pytest.raises(ValueError, match="must be HDF5 with X and Y"):
        datasets.parse_worm(written(tmp_path / "no.h5", b"text"))


# ---------------------------------------------------------------- folder, cache, download


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A set of three samples whose public home is a file of this machine."""
    source = written(tmp_path / "toy.zip", zipped({"ionosphere.data": "1,2,a\n3,4,b\n5,6,b\n"}))
    data_set = DataSet(
        "Toy", (3, 2), (1, 2), "its page", "none", (source.as_uri(),), datasets.parse_ionosphere,
        prepare=lambda X: X + 1,
    )  # fmt: skip
    monkeypatch.setitem(DATA_SETS, "toy", data_set)
    return source


def save(path, X, y):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, X=X, y=y)


def test_set_is_fetched_once_and_then_cached(toy, cache):
    X, y = datasets.load("toy")
    assert X.tolist() == [[2, 3], [4, 5], [6, 7]]
    assert y.tolist() == ["a", "b", "b"]
    assert [path.name for path in cache.iterdir()] == ["toy.npz"]
    toy.unlink()
    np.testing.assert_array_equal(datasets.load("toy")[0], X)


def test_data_folder_takes_precedence_over_the_cache(toy, cache, tmp_path, monkeypatch):
    datasets.load("toy")
    save(tmp_path / "mine" / "toy.npz", np.zeros((3, 2), np.uint8), [1, 0, 1])
    for folder in ("argument", "environment"):
        if folder == "environment":
            monkeypatch.setenv("SLCE_XP_DATA", str(tmp_path / "mine"))
        X, _ = datasets.load("toy", tmp_path / "mine" if folder == "argument" else None)
        assert X.tolist() == np.ones((3, 2)).tolist()
        assert X.dtype == np.float64
    assert datasets.load("toy", tmp_path / "empty")[0][0, 0] == 2  # not there: the cache


def test_missing_network_error_names_file_and_sources(toy, cache, tmp_path):
    toy.unlink()
    for download in (True, False):
        with pytest.raises(MissingDataError) as caught:
            datasets.load("toy", tmp_path / "mine", download=download)
        message = str(caught.value)
        for part in ("toy.npz", "3 × 2", str(tmp_path / "mine"), str(cache), "its page"):
            assert part in message
        assert (toy.as_uri() in message) == download
    assert not cache.exists()


def test_wrong_download_raises_and_is_not_cached(toy, cache):
    written(toy, zipped({"ionosphere.data": "1,2,a\n3,4,a\n5,6,a\n"}))
    with pytest.raises(ValueError, match=r"must have \(1, 2\) samples, have \(3,\)"):
        datasets.load("toy")
    written(toy, zipped({"ionosphere.data": "1,2,a\n3,4,b\n"}))
    with pytest.raises(ValueError, match="must have X of 3 × 2 and 3 labels, has X of 2 × 2"):
        datasets.load("toy")
    assert not cache.exists()


def test_truncated_download_leaves_no_file(toy, cache, monkeypatch):
    class Cut(io.BytesIO):
        headers = {"Content-Length": "1000"}  # noqa: RUF012

    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: Cut(b"some"))
    with pytest.raises(MissingDataError, match="ended after 4 of 1000 bytes"):
        datasets.load("toy")
    assert not cache.exists()


def test_failed_write_leaves_no_file(toy, cache, monkeypatch):
    def full(file, **arrays):
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space left"):
        datasets.load("toy")
    assert list(cache.iterdir()) == []


def test_files_with_objects_are_never_unpickled(toy, cache):
    save(cache / "toy.npz", np.array([[{}, 1]] * 3, dtype=object), [0, 1, 1])
    with pytest.raises(ValueError, match=r"must be an \.npz file with plain arrays X and y"):
        datasets.load("toy")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"text", npy(np.eye(3))])
def test_damaged_file_is_named(toy, cache, content):
    cache.mkdir(parents=True)
    written(cache / "toy.npz", content)
    with pytest.raises(ValueError, match=r"toy\.npz: must be an .npz file"):
        datasets.load("toy")


def test_unknown_name():
    with pytest.raises(ValueError, match=r"name must be one of usps, mnist, .* got 'iris'"):
        datasets.load("iris")


def test_missing_values_become_means():
    X = np.array([[1.0, np.nan], [np.nan, 4.0], [3.0, 8.0]])
    assert DATA_SETS["mice_protein"].prepare(X).tolist() == [[1, 6], [2, 4], [3, 8]]
    assert DATA_SETS["tcga_luad"].prepare(np.array([[0.0, 7.0]])).tolist() == [[0, 3]]


def test_splits():
    train, test = datasets.split(DATA_SETS["mnist"], 5)
    assert (train[0], train[-1], test[0], test[-1]) == (0, 59999, 60000, 69999)
    for name, n_test in (("usps", 2200), ("yale", 82), ("coil20", 720), ("colon", 12)):
        train, test = datasets.split(DATA_SETS[name], [1, 0])
        assert len(test) == n_test
        assert sorted([*train, *test]) == list(range(DATA_SETS[name].shape[0]))
        again = datasets.split(DATA_SETS[name], [1, 0])[1]
        other = datasets.split(DATA_SETS[name], [1, 1])[1]
        assert test.tolist() == again.tolist() != other.tolist()


@pytest.mark.parametrize("name", DATA_SETS)
def test_entries_are_complete(name):
    data_set = DATA_SETS[name]
    assert sum(data_set.counts) == data_set.shape[0]
    assert list(data_set.counts) == sorted(data_set.counts)
    assert all(url.startswith("http") for url in data_set.urls)
    assert all(dataclasses.astuple(data_set)[:6])


@pytest.mark.parametrize("name", ["ionosphere", "colon", "mice_protein", "arcene", "yale"])
def test_real_files_pass_the_check(name):
    if not REAL_FOLDER:
        pytest.skip("SLCE_XP_DATA does not name a folder of data sets")
    raw, labels = load_set(REAL_FOLDER, name)
    X, y = datasets.load(name, REAL_FOLDER)
    assert np.isfinite(X).all()
    known = ~np.isnan(raw)
    np.testing.assert_array_equal(X[known], raw[known])
    np.testing.assert_array_equal(y, labels)
