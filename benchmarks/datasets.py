"""The data sets: where each comes from, what it must look like, how it is prepared and split.

``load("usps")`` looks for ``usps.npz`` in a folder of yours (an argument, or the environment
variable ``SLCE_XP_DATA``), then in the cache (``$XDG_CACHE_HOME/slce_xp/datasets``), and then gets
the set from its public home and leaves it in the cache. Such a file holds ``X`` (samples ×
features) and ``y`` (a label per sample) as plain arrays; nothing is ever unpickled. Whatever the
way, shape and class sizes must be those that are written here.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import struct
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Samples = tuple[np.ndarray, np.ndarray]


class MissingDataError(FileNotFoundError):
    """A data set is in none of the places where it may be."""


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set before it is loaded."""

    title: str
    shape: tuple[int, int]  # samples, features
    counts: tuple[int, ...]  # samples of each class, in ascending order
    home: str  # the page that describes it
    licence: str
    urls: tuple[str, ...]
    parse: Callable[..., Samples]  # takes the downloaded files, in the order of urls
    prepare: Callable[[np.ndarray], np.ndarray] = lambda X: X
    preparation: str = "none"
    n_train: int | None = None  # the first so many samples are for training, by custom
    test_share: float = 0.2  # else so much of the samples, drawn at random, is for testing


# ---------------------------------------------------------------- formats


def read_table(
    lines: Iterable[str], where: str, delimiter: str | None = None, label: int | None = None
) -> tuple[np.ndarray, list[str]]:
    """Rows of numbers, the field at index ``label`` apart; empty lines do not count.

    Returns
    -------
    X : (n, d) float64
    labels : n strings, or none where there is no label
    """
    rows: list[np.ndarray] = []
    labels = []
    for number, line in enumerate(lines, 1):
        fields = line.strip().split(delimiter)
        if fields in ([], [""]):
            continue
        if label is not None:
            labels.append(fields.pop(label).strip())
        try:
            row = np.array(fields, dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"{where}, line {number}: must hold numbers only; {error}") from None
        if rows and row.size != rows[0].size:
            raise ValueError(
                f"{where}, line {number}: must have {rows[0].size} numbers as the lines before, "
                f"has {row.size}; the file is damaged or cut short"
            )
        rows.append(row)
    if not rows:
        raise ValueError(f"{where}: must hold rows of numbers, has none")
    return np.stack(rows), labels


def read_arff(
    text: str, where: str, target: str, ignore: tuple[str, ...] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """A dense ARFF file; ``?`` becomes NaN.

    Parameters
    ----------
    target, ignore
        Names of the attribute that is the label and of those to leave out.

    Returns
    -------
    X : (n, d) float64
    y : (n,) strings
    """
    head, *body = re.split(r"(?im)^\s*@data\s*$", text, maxsplit=1)
    names = [
        quoted or plain
        for quoted, plain in re.findall(r"(?im)^\s*@attribute\s+(?:['\"](.+?)['\"]|(\S+))", head)
    ]
    if not body or target not in names:
        raise ValueError(
            f"{where}: must be an ARFF file with @data and an attribute {target!r}; "
            f"its attributes are {', '.join(names) or 'none'}"
        )
    used = [i for i, name in enumerate(names) if name != target and name not in ignore]
    label = names.index(target)
    rows, labels = [], []
    lines = (line for line in body[0].splitlines() if line.strip() and not line.startswith("%"))
    for number, fields in enumerate(csv.reader(lines, quotechar="'", skipinitialspace=True), 1):
        if len(fields) != len(names):
            raise ValueError(
                f"{where}, row {number} of @data: must have {len(names)} fields, "
                f"one per attribute; has {len(fields)}"
            )
        try:
            rows.append([np.nan if fields[i] == "?" else float(fields[i]) for i in used])
        except ValueError as error:
            raise ValueError(f"{where}, row {number} of @data: {error}") from None
        labels.append(fields[label])
    if not rows:
        raise ValueError(f"{where}: must have rows after @data, has none")
    return np.array(rows), np.array(labels)


def read_mat(path: Path, *names: str) -> list[np.ndarray]:
    """Arrays of a MATLAB file (up to version 7)."""
    from scipy.io import loadmat

    try:
        found = loadmat(path, variable_names=names)
    except Exception as error:  # SciPy has many ways to say that a file is not one
        raise ValueError(f"{path.name}: must be a MATLAB file of version 4 to 7; {error}") from None
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{path.name}: must hold {', '.join(names)}; lacks {', '.join(missing)}")
    return [found[name] for name in names]


def read_idx(path: Path) -> np.ndarray:
    """Unsigned bytes in MNIST's format, gzipped."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, OSError) as error:
        raise ValueError(f"{path.name}: must be gzipped; {error}") from None
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise ValueError(
            f"{path.name}: must begin with bytes 0 0 8 (idx, unsigned bytes), "
            f"begins with {' '.join(map(str, content[:3])) or 'nothing'}"
        )
    n_axes = content[3]
    start = 4 + 4 * n_axes
    if len(content) < start:
        raise ValueError(f"{path.name}: must give {n_axes} sizes, is cut short")
    sizes = struct.unpack(f">{n_axes}I", content[4:start])
    if len(content) - start != np.prod(sizes, dtype=np.int64):
        raise ValueError(
            f"{path.name}: must hold {' × '.join(map(str, sizes))} bytes after its head, "
            f"holds {len(content) - start}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)


def read_zip(archive: Path | bytes, member: str) -> bytes:
    """A member of a zip archive, found by the end of its path."""
    where = archive.name if isinstance(archive, Path) else "an archive within the archive"
    try:
        with zipfile.ZipFile(
            io.BytesIO(archive) if isinstance(archive, bytes) else archive
        ) as file:
            found = [name for name in file.namelist() if f"/{name}".endswith(f"/{member}")]
            if not found:
                names = ", ".join(file.namelist())
                raise ValueError(f"{where}: must hold {member}; holds {names or 'nothing'}")
            return file.read(found[0])
    except zipfile.BadZipFile as error:
        raise ValueError(f"{where}: must be a zip archive; {error}") from None


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8", errors="replace").splitlines()


# ---------------------------------------------------------------- the sets' own files


def parse_usps(path: Path) -> Samples:
    """256 pixels × 1100 samples × 10 digits, 1 to 9 and then 0, as bytes."""
    (data,) = read_mat(path, "data")
    if data.ndim != 3:
        raise ValueError(f"{path.name}: data must be pixels × samples × digits, is {data.shape}")
    n_digits = data.shape[2]
    X = data.transpose(2, 1, 0).reshape(-1, data.shape[0]) / 255.0
    return X, np.repeat((np.arange(n_digits) + 1) % 10, data.shape[1])


def parse_mnist(*paths: Path) -> Samples:
    """Images and labels for training, then for testing."""
    images, labels, test_images, test_labels = map(read_idx, paths)
    X = np.concatenate([images, test_images])
    return X.reshape(len(X), -1), np.concatenate([labels, test_labels]).astype(np.int64)


def parse_activity(path: Path, mean_and_std: bool = False) -> Samples:
    """Both parts, one after the other; all features, or only the means and deviations."""
    inner = read_zip(path, "UCI HAR Dataset.zip")
    names = dict(line.split() for line in _lines(read_zip(inner, "activity_labels.txt")))
    X, y = [], []
    for part in ("train", "test"):
        values = f"{part}/X_{part}.txt"
        X.append(read_table(_lines(read_zip(inner, values)), values)[0])
        y += [names[line.strip()] for line in _lines(read_zip(inner, f"{part}/y_{part}.txt"))]
    table = np.concatenate(X)
    if mean_and_std:
        features = _lines(read_zip(inner, "UCI HAR Dataset/features.txt"))
        table = table[:, [bool(re.search(r"-(mean|std)\(\)", name)) for name in features]]
    return table, np.array(y)


def parse_activity_66(path: Path) -> Samples:
    """Means and standard deviations of the 33 signals only."""
    return parse_activity(path, mean_and_std=True)


def parse_ionosphere(path: Path) -> Samples:
    """Comma-separated values, the class in the last column."""
    name = "ionosphere.data"
    X, y = read_table(_lines(read_zip(path, name)), name, ",", label=-1)
    return X, np.array(y)


def parse_colon(genes: Path, tissues: Path) -> Samples:
    """Pages of the study: a line of 62 intensities per gene; negative numbers name tumours."""

    def text(path: Path) -> list[str]:
        page = re.sub(r"<[^>]*>", "\n", path.read_text(encoding="latin-1"))
        return [
            line for line in page.splitlines() if re.fullmatch(r"[\s\d.eE+-]*\d[\s\d.eE+-]*", line)
        ]

    X, _ = read_table(text(genes), genes.name)
    numbers, _ = read_table(text(tissues), tissues.name)
    return X.T, np.where(numbers[:, 0] > 0, 1, 2)


def parse_mice(path: Path) -> Samples:
    """OpenML's ARFF file; the mouse and what makes up the class are no features."""
    ignore = ("MouseID", "Genotype", "Treatment", "Behavior")
    return read_arff(path.read_text(encoding="utf-8"), path.name, "class", ignore)


def parse_arcene(path: Path) -> Samples:
    """The parts for training and validation, which have labels."""
    X, y = [], []
    for part in ("train", "valid"):
        name = f"arcene_{part}.data"
        X.append(read_table(_lines(read_zip(path, name)), name)[0])
        labels = f"arcene_{part}.labels"
        y.append(read_table(_lines(read_zip(path, labels)), labels)[0][:, 0])
    return np.concatenate(X), np.concatenate(y).astype(np.int64)


def parse_pancan(path: Path) -> Samples:
    """Two csv files in a tar in a zip: numbers after a column of names, and their classes."""
    archive = read_zip(path, "TCGA-PANCAN-HiSeq-801x20531.tar.gz")
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                name = Path(member.name).name
                if member.isfile() and name in ("data.csv", "labels.csv"):
                    found[name] = _lines(tar.extractfile(member).read())[1:]
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{path.name}: the tar archive in it is damaged; {error}") from None
    if len(found) != 2:
        raise ValueError(f"{path.name}: must hold data.csv and labels.csv, holds {sorted(found)}")
    X, samples = read_table(found["data.csv"], "data.csv", ",", label=0)
    classes = dict(line.strip().split(",") for line in found["labels.csv"] if line.strip())
    if missing := [name for name in samples if name not in classes]:
        raise ValueError(f"{path.name}: labels.csv has no line for {missing[0]}")
    return X, np.array([classes[name] for name in samples])


def parse_olivetti(path: Path) -> Samples:
    """4096 pixels × 400 faces, ten of each subject; rows of pixels become lines of the image."""
    (faces,) = read_mat(path, "faces")
    side = round(len(faces) ** 0.5)
    X = faces.T.reshape(-1, side, side).transpose(0, 2, 1).reshape(-1, side * side)
    return X, np.arange(len(X)) // 10


def parse_fea_gnd(path: Path) -> Samples:
    """Deng Cai's manner: ``fea`` holds samples in rows, ``gnd`` their classes."""
    X, y = read_mat(path, "fea", "gnd")
    return X, y.ravel().astype(np.int64)


def parse_luad(path: Path) -> Samples:
    """Xena's table of log2(count + 1), genes in rows; the barcode's field 4 tells the tissue."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        try:
            samples = file.readline().split()[1:]
            X, _ = read_table(file, path.name, "\t", label=0)
        except (EOFError, OSError) as error:
            raise ValueError(f"{path.name}: must be gzipped and whole; {error}") from None
    return np.exp2(X.T) - 1.0, np.array([name.split("-")[3][:2] for name in samples])


def parse_worm(path: Path) -> Samples:
    """HDF5 with counts ``X``, cells in rows, and classes ``Y``."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            return np.asarray(file["X"]), np.asarray(file["Y"]).ravel().astype(np.int64)
    except (KeyError, OSError) as error:
        raise ValueError(f"{path.name}: must be HDF5 with X and Y; {error}") from None


def fill_with_means(X: np.ndarray) -> np.ndarray:
    """Put the mean of a feature where its value is missing."""
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X)


# ---------------------------------------------------------------- the list

_UCI = "https://archive.ics.uci.edu"
_ACTIVITY = f"{_UCI}/static/public/240/human+activity+recognition+using+smartphones.zip"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_CAI = "http://www.cad.zju.edu.cn/home/dengcai/Data"
_COLON = "http://genomics-pubs.princeton.edu/oncology/affydata"

DATA_SETS = {
    "usps": DataSet(
        "USPS", (11000, 256), (1100,) * 10,
        "https://cs.nyu.edu/~roweis/data.html", "not stated",
        ("https://cs.nyu.edu/~roweis/data/usps_all.mat",), parse_usps,
    ),
    "mnist": DataSet(
        "MNIST", (70000, 784), (6313, 6824, 6825, 6876, 6903, 6958, 6990, 7141, 7293, 7877),
        "http://yann.lecun.com/exdb/mnist/", "CC BY-SA 3.0",
        tuple(f"{_MNIST}/{name}-ubyte.gz" for name in (
            "train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")),
        parse_mnist, n_train=60000,
    ),
    "activity": DataSet(
        "Human Activity", (10299, 561), (1406, 1544, 1722, 1777, 1906, 1944),
        f"{_UCI}/dataset/240", "CC BY 4.0", (_ACTIVITY,), parse_activity,
    ),
    "har_meanstd66": DataSet(
        "Human Activity, 66 features", (10299, 66), (1406, 1544, 1722, 1777, 1906, 1944),
        f"{_UCI}/dataset/240", "CC BY 4.0", (_ACTIVITY,), parse_activity_66,
    ),
    "ionosphere": DataSet(
        "Ionosphere", (351, 34), (126, 225),
        f"{_UCI}/dataset/52", "CC BY 4.0",
        (f"{_UCI}/static/public/52/ionosphere.zip",), parse_ionosphere,
    ),
    "colon": DataSet(
        "Colon", (62, 2000), (22, 40),
        f"{_COLON}/index.html", "not stated",
        (f"{_COLON}/I2000.html", f"{_COLON}/tissues.html"), parse_colon,
    ),
    "mice_protein": DataSet(
        "Mice Protein", (1080, 77), (105, 135, 135, 135, 135, 135, 150, 150),
        "https://www.openml.org/d/40966", "CC BY 4.0",
        ("https://www.openml.org/data/v1/download/17928620/MiceProtein.arff",), parse_mice,
        prepare=fill_with_means, preparation="missing values become the feature's mean",
    ),
    "arcene": DataSet(
        "Arcene", (200, 10000), (88, 112),
        f"{_UCI}/dataset/167", "CC BY 4.0",
        (f"{_UCI}/static/public/167/arcene.zip",), parse_arcene,
    ),
    "pancan": DataSet(
        "PANCAN", (801, 20531), (78, 136, 141, 146, 300),
        f"{_UCI}/dataset/401", "CC BY 4.0",
        (f"{_UCI}/static/public/401/gene+expression+cancer+rna+seq.zip",), parse_pancan,
    ),
    "olivetti": DataSet(
        "Olivetti", (400, 4096), (10,) * 40,
        "https://scikit-learn.org/stable/datasets/real_world.html", "AT&T Laboratories: credit",
        ("https://ndownloader.figshare.com/files/5976027",), parse_olivetti, test_share=0.5,
    ),
    "yale": DataSet(
        "Yale Face", (165, 1024), (11,) * 15,
        f"{_CAI}/FaceData.html", "research, not commercial",
        (f"{_CAI}/Yale/Yale_32x32.mat",), parse_fea_gnd, test_share=0.5,
    ),
    "coil20": DataSet(
        "COIL20", (1440, 1024), (72,) * 20,
        f"{_CAI}/MLData.html", "research, not commercial",
        (f"{_CAI}/COIL20/COIL20.mat",), parse_fea_gnd, test_share=0.5,
    ),
    "tcga_luad": DataSet(
        "TCGA LUAD", (576, 20530), (2, 59, 515),
        "https://xenabrowser.net/datapages/?dataset=TCGA.LUAD.sampleMap%2FHiSeqV2",
        "open access",
        ("https://tcga-xena-hub.s3.us-east-1.amazonaws.com/download/"
         "TCGA.LUAD.sampleMap%2FHiSeqV2.gz",),
        parse_luad, prepare=lambda X: np.log2(X + 1.0), preparation="log2(x + 1)",
    ),
    "worm_neuron": DataSet(
        "Worm neurons", (4186, 13488), (70, 224, 239, 305, 314, 334, 400, 443, 842, 1015),
        "https://github.com/ttgump/scDeepCluster", "Apache 2.0",
        ("https://github.com/ttgump/scDeepCluster/raw/ae033d7e366e68e68fe8ac5792744aa19cbc20f9/"
         "scRNA-seq%20data/worm_neuron_cell.h5",),
        parse_worm,
    ),
}  # fmt: skip


# ---------------------------------------------------------------- finding and loading


def cache_folder() -> Path:
    """Where downloads are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "slce_xp" / "datasets"


def load(
    name: str, folder: str | Path | None = None, download: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """A data set, prepared.

    Parameters
    ----------
    name
        One of ``DATA_SETS``.
    folder
        Where to look for ``<name>.npz`` first; by default what ``SLCE_XP_DATA`` names.
    download
        Whether to get what is neither there nor in the cache.

    Returns
    -------
    X : (n, d) float64
    y : (n,) labels

    Raises
    ------
    MissingDataError
        The set is in none of these places.
    ValueError
        What was found is not this set.
    """
    if name not in DATA_SETS:
        raise ValueError(f"name must be one of {', '.join(DATA_SETS)}; got {name!r}")
    data_set = DATA_SETS[name]
    folder = folder or os.environ.get("SLCE_XP_DATA")
    cached = cache_folder() / f"{name}.npz"
    places = [Path(folder) / f"{name}.npz"] if folder else []
    path = next((place for place in [*places, cached] if place.exists()), None)
    if path:
        X, y = read_npz(path)
        check(data_set, X, y, str(path))
    elif download:
        X, y = fetch(name, cached, folder)
    else:
        raise MissingDataError(_where_to_put(name, folder))
    return data_set.prepare(X.astype(np.float64)), y


def read_npz(path: Path) -> Samples:
    """X and y of a file in the format of the folder and the cache."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return archive["X"], archive["y"]
    except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path}: must be an .npz file with plain arrays X and y; {error}"
        ) from None


def check(data_set: DataSet, X: np.ndarray, y: np.ndarray, where: str) -> None:
    """Refuse what is not this set: shape and class sizes must be the known ones."""
    if X.shape != data_set.shape or y.shape != X.shape[:1]:
        n, d = data_set.shape
        raise ValueError(
            f"{where}: {data_set.title} must have X of {n} × {d} and {n} labels, has X of "
            f"{' × '.join(map(str, X.shape))} and {y.size} labels; delete the file to get it anew"
        )
    counts = tuple(sorted(np.unique(y, return_counts=True)[1].tolist()))
    if counts != data_set.counts:
        raise ValueError(
            f"{where}: the classes of {data_set.title} must have {data_set.counts} samples, "
            f"have {counts}; delete the file to get it anew"
        )


def fetch(name: str, target: Path, folder: str | Path | None = None) -> Samples:
    """Download a set, parse and check it, and keep it at ``target``, whole or not at all."""
    data_set = DATA_SETS[name]
    with tempfile.TemporaryDirectory() as temporary:
        paths = []
        for url in data_set.urls:
            # The last part of the address may say nothing: number, then name.
            paths.append(Path(temporary) / f"{len(paths)}-{url.rpartition('/')[2]}")
            try:
                download_file(url, paths[-1])
            except OSError as error:
                message = f"{_where_to_put(name, folder)} {url} gave: {error}"
                raise MissingDataError(message) from None
        X, y = data_set.parse(*paths)
    check(data_set, X, y, data_set.urls[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez_compressed(file, X=X, y=y)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return X, y


def download_file(url: str, target: Path) -> None:
    """One file, with a line of progress where someone looks on."""
    request = urllib.request.Request(url, headers={"User-Agent": "slce_xp benchmarks"})
    with urllib.request.urlopen(request, timeout=60) as response, target.open("wb") as file:
        length = response.headers.get("Content-Length")
        total = f" of {int(length) / 1e6:.1f}" if length else ""
        done = 0
        while block := response.read(2**18):
            done += file.write(block)
            if sys.stderr.isatty():
                print(f"\r{url}: {done / 1e6:.1f}{total} MB", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print(file=sys.stderr)
    if length and done != int(length):
        raise OSError(f"the connection ended after {done} of {length} bytes")


def _where_to_put(name: str, folder: str | Path | None) -> str:
    data_set = DATA_SETS[name]
    n, d = data_set.shape
    return (
        f"{data_set.title} is not here: {name}.npz (X of {n} × {d}, y of {n} labels) is neither in "
        f"{folder or 'a folder that --data or SLCE_XP_DATA names'} nor in {cache_folder()}. "
        f"Put it into one of them, or let a machine with a network get it from {data_set.home}."
    )


def split(data_set: DataSet, seed: int | list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Indices for training and for testing: the set's own split, or a random one.

    Not stratified: the paper does not say that it did so.
    """
    n = data_set.shape[0]
    if data_set.n_train is not None:
        return np.arange(data_set.n_train), np.arange(data_set.n_train, n)
    order = np.random.default_rng(seed).permutation(n)
    n_test = round(data_set.test_share * n)
    return np.sort(order[n_test:]), np.sort(order[:n_test])
