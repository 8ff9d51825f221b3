"""The README is true: its snippets run, in their order, and print what it shows."""

import contextlib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import tomllib

import numpy as np
import pytest

import slce_xp


@pytest.fixture
def blocks(request):
    text = (request.config.rootpath / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```(\w+)\n(.*?)```", text, flags=re.DOTALL)


def run_python(code, variables):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, variables)
    return out.getvalue()


def run_command(line, root):
    """A line of the command `slce-xp`, by this interpreter."""
    name, *arguments = shlex.split(line)
    assert name == "slce-xp"
    done = subprocess.run(
        [sys.executable, "-m", "slce_xp", *arguments],
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_snippets_run_and_print_what_is_shown(blocks, request, tmp_path, monkeypatch):
    for library in ("anndata", "dask", "torch"):
        pytest.importorskip(library, reason="the README shows it")
    monkeypatch.chdir(tmp_path)
    variables, printed, ran = {}, "", []
    for language, code in blocks:
        if language == "text":
            assert printed == code
            printed = ""
        elif language == "python":
            printed += run_python(code, variables)
            ran.append(language)
        elif code.startswith("slce-xp"):
            lines = code.replace("\\\n", "").splitlines()
            printed += "".join(run_command(line, request.config.rootpath) for line in lines)
            ran.append(language)
    assert not printed
    assert {"python", "sh"} <= set(ran)


def test_make_targets_exist(request):
    root = request.config.rootpath
    text = (root / "README.md").read_text(encoding="utf-8")
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make\s+([\w-]+)", text, flags=re.MULTILINE))
    assert {"demo", "test", "docs", "paper"} <= named  # in blocks, in a line, across two lines
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_extras_exist(request):
    root = request.config.rootpath
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = set(project["optional-dependencies"])
    sources = [root / "README.md", root / "CHANGELOG.md", *(root / "slce_xp").rglob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    named = re.findall(r"(?:slce-xp|\.)\[([a-z][\w,-]*)\]'", text)
    assert {"cli", "html", "plot", "sklearn"} <= set(named)
    assert {extra for entry in named for extra in entry.split(",")} <= known
    listed = re.search(r"Further extras: (.+?)\.\n", text, flags=re.DOTALL)[1]
    assert {*re.findall(r"`([\w-]+)`", listed), "cli", "demo"} == known  # demo: make demo has it


def share_right(seen, y, unseen, truth):
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(5).fit(seen, y).score(unseen, truth)


def test_the_digits_of_the_picture_are_those_for_which_the_methods_differ_most(request):
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.decomposition import PCA
    from sklearn.model_selection import train_test_split

    text = (request.config.rootpath / "docs" / "pictures.py").read_text(encoding="utf-8")
    shown = tuple(
        map(int, re.search(r"^DIGITS = \((\d), (\d), (\d)\)", text, re.MULTILINE).groups())
    )
    digits, labels = datasets.load_digits(return_X_y=True)
    gains = {}
    for triple in itertools.combinations(range(10), 3):
        mine = np.isin(labels, triple)
        X, X_test, y, y_test = train_test_split(
            digits[mine], labels[mine], test_size=0.3, random_state=0, stratify=labels[mine]
        )
        slce, pca = (
            share_right(method.transform(X), y, method.transform(X_test), y_test)
            for method in (slce_xp.fit(X, y, 2), PCA(2).fit(X))
        )
        gains[triple] = slce - pca
    assert max(gains, key=gains.get) == shown


def test_random_labels_lie_apart_among_the_samples_of_the_fit_only():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2000)), rng.integers(0, 3, 120)
    model = slce_xp.fit(X[:80], y[:80])
    Z, Z_test = model.transform(X[:80]), model.transform(X[80:])
    assert share_right(Z, y[:80], Z, y[:80]) == 1
    assert share_right(Z, y[:80], Z_test, y[80:]) < 0.5
