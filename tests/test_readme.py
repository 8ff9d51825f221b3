"""Snippets of the README and the guides run in order and print what is shown."""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import slce_xp

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
# The libraries that a page imports: a page that is not here has no snippet to run.
NEEDED = {
    "README": {"matplotlib", "sklearn", "torch"},
    "comparing": {"matplotlib", "sklearn"},
    "command": {"matplotlib", "pandas", "plotly", "sklearn"},
    "export": {"onnxruntime", "onnxscript", "skops", "torch"},
    "fitting": set(),
    "gpu": {"torch"},
    "honest": {"sklearn"},
    "index": {"sklearn"},
    "large_data": {"dask", "sklearn"},
    "library_authors": {"sklearn", "torch"},
    "plots": {"matplotlib"},
    "reporting": {"sklearn"},
    "selection": {"pandas", "sklearn"},
    "scikit_learn": {"pandas", "sklearn", "torch"},
}


def blocks(page):
    """Return (language, code) of the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def stem(path):
    return path.stem


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


# Of Torch itself, when it exports to ONNX.
@pytest.mark.filterwarnings("ignore:`isinstance.treespec:FutureWarning")
@pytest.mark.parametrize("page", [page for page in PAGES if page.stem in NEEDED], ids=stem)
def test_snippets_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    for library in sorted(NEEDED[page.stem]):
        pytest.importorskip(library, reason="the page shows it")
    monkeypatch.chdir(tmp_path)
    variables, printed, ran = {}, "", 0
    for language, code in blocks(page):
        if language == "text":
            assert printed == code
            printed = ""
        elif language == "python":
            printed += run_python(code, variables)
            ran += 1
        elif code.startswith("slce-xp"):
            lines = code.replace("\\\n", "").splitlines()
            printed += "".join(run_command(line, ROOT) for line in lines)
            ran += 1
    assert not printed
    assert ran > 0


def test_every_page_with_snippets_is_run():
    with_python = {page.stem for page in PAGES if any(kind == "python" for kind, _ in blocks(page))}
    assert with_python == set(NEEDED)
    commands = {page.stem for page in PAGES for _, code in blocks(page) if code[:8] == "slce-xp "}
    assert commands == {"command"}


# Pages that are sessions, with what is printed behind each line.
SESSIONS = [page for page in PAGES if "```pycon" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", SESSIONS, ids=stem)
def test_sessions_print_what_is_shown(page):
    if "anndata" in page.read_text(encoding="utf-8"):
        pytest.importorskip("anndata")
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert tried > 0
    assert failed == 0


def test_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 130


def test_make_targets_exist():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make\s+([\w-]+)", text, flags=re.MULTILINE))
    assert {"demo", "test", "docs", "paper", "gpu-check"} <= named  # in blocks, in a line
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    top = README.read_text(encoding="utf-8").partition("## Quick start")[0]
    assert "\nmake demo " in top
    assert "\nmake test " in top


def test_extras_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = set(project["optional-dependencies"])
    sources = [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "slce_xp").rglob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    named = re.findall(r"(?:slce-xp|\.)\[([a-z][\w,-]*)\]'", text)
    assert {"cli", "html", "plot", "sklearn"} <= set(named)
    assert {extra for entry in named for extra in entry.split(",")} <= known
    table = README.read_text(encoding="utf-8").partition("| extra | adds |\n|---|---|\n")[2]
    rows = table.partition("\n\n")[0].splitlines()
    listed = [extra for row in rows for extra in re.findall(r"`([\w-]+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(known)


def share_right(seen, y, unseen, truth):
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(5).fit(seen, y).score(unseen, truth)


def test_random_labels_separate_only_in_the_training_set():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2000)), rng.integers(0, 3, 120)
    model = slce_xp.fit(X[:80], y[:80])
    Z, Z_test = model.transform(X[:80]), model.transform(X[80:])
    assert share_right(Z, y[:80], Z, y[:80]) == 1
    assert share_right(Z, y[:80], Z_test, y[80:]) < 0.5
