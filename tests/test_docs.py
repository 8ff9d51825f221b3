"""Documentation: all public names are listed, links resolve, examples run."""

import importlib.util
import inspect
import os
import re
import runpy
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

import slce_xp
import slce_xp.core

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.glob("*.md")]
EXAMPLES = sorted((DOCS / "examples").glob("plot_*.py"))
# The tables of figures on each page, by the names in their markers.
WRITTEN = {
    "single_cells": {"single_cells"},
    "honest": {"honesty"},
    "benchmarks": {
        "budgets",
        "memory",
        "selection",
        "sparse",
        "regret",
        "speed",
        "streaming",
        "sycl",
    },
}


def stem(path):
    return path.stem


# ---------------------------------------------------------------- pages


def names_on_the_api_page():
    module = ""
    for line in (DOCS / "api.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.rpartition(" ")[2]
        elif re.fullmatch(r"   \w+", line):
            yield f"{module}.{line.strip()}"


def test_api_page_has_every_public_name_and_no_other():
    pytest.importorskip("sklearn")
    public = {f"slce_xp.{name}" for name in slce_xp.__all__}
    for name in ("slce_xp.anndata", "slce_xp.plot"):
        functions = inspect.getmembers(importlib.import_module(name), inspect.isfunction)
        public |= {
            f"{name}.{function}"
            for function, made in functions
            if made.__module__.startswith(name) and not function.startswith("_")
        }
    public |= {f"slce_xp.core.{name}" for name in slce_xp.core.__all__}
    listed = list(names_on_the_api_page())
    assert sorted(listed) == sorted(public)


def anchors(page):
    """Link targets of the headings of a Markdown page, as on GitHub and in MyST."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=stem)
def test_relative_links_lead_to_files_and_headings(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=stem)
def test_tables_name_the_command_that_wrote_them(page):
    text = page.read_text(encoding="utf-8")
    tables = re.findall(r"<!-- (\w+): written by python (\S+ \S+|\S+) --write (\S+) -->", text)
    assert {name for name, _, _ in tables} == WRITTEN.get(page.stem, set())
    assert len(tables) == len(re.findall(r"<!-- /\w+ -->", text))
    for name, program, target in tables:
        assert f"<!-- /{name} -->" in text
        assert ROOT / target == page
        module = program.removeprefix("-m ").replace(".", "/").removesuffix("/py") + ".py"
        assert '"--write"' in (ROOT / module).read_text(encoding="utf-8")


@pytest.mark.parametrize("shift", [0.0, 0.7, 1.3, 3.0])
def test_number_of_positive_eigenvalues_equals_lda_eigenvalues_above_one(shift):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 50)
    X = rng.normal(size=(200, 6))
    X[:, :3] += shift * np.array([1.0, 1.5, 2.0]) * np.eye(4, 3)[y]
    centred = X - X.mean(axis=0)
    between = np.stack([centred[y == j].mean(axis=0) * np.sqrt(50) for j in range(4)])
    S_b = between.T @ between
    ratios = scipy.linalg.eigvalsh(S_b, centred.T @ centred - S_b)
    expected = {0.0: 0, 0.7: 0, 1.3: 1, 3.0: 3}[shift]
    assert (ratios > 1.0).sum() == expected
    assert slce_xp.fit(X, y).n_positive == expected


def test_readme_of_the_package_has_no_link_that_only_a_checkout_has(monkeypatch):
    interface = types.ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    path = str(ROOT / "hatch_build.py")
    hook = runpy.run_path(path)["ReadmeHook"]()
    hook.root = str(ROOT)
    metadata = {}
    hook.update(metadata)
    text = metadata["readme"]["text"]
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert any(not link.startswith("https:") for link in links)  # there are relative links
    kept = re.findall(r"\]\(([^)\s]+)\)", text)
    assert all(link.startswith("https:") for link in kept)
    assert "[Fitting a model]" not in text
    assert "Fitting a model explains inputs" in text


def test_citation_is_that_of_the_readme():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    title = re.search(r"title\s*= \{(.*)\}", readme).group(1)
    url = re.search(r"url\s*= \{(.*)\}", readme).group(1)
    year = re.search(r"year\s*= \{(\d+)\}", readme).group(1)
    assert f'title: "{title}"' in citation
    assert f'url: "{url}"' in citation
    assert f"year: {year}" in citation
    assert url == project["urls"]["Paper"]
    assert f"version: {slce_xp.__version__}\n" in citation


def test_documentation_does_not_mention_a_package_index():
    sources = [*PAGES, *(ROOT / "slce_xp").rglob("*.py"), ROOT / "docs" / "api.rst"]
    for path in sources:
        assert "pip install 'slce-xp" not in path.read_text(encoding="utf-8"), path
        assert "pip install slce-xp" not in path.read_text(encoding="utf-8"), path


# ---------------------------------------------------------------- examples


@pytest.mark.parametrize("path", EXAMPLES, ids=stem)
def test_examples_run_alone_and_say_if_their_data_are_simulated(path, tmp_path):
    text = path.read_text(encoding="utf-8")
    uses_scanpy = "import scanpy" in text  # which warns of its own libraries
    for library in ("anndata", "matplotlib", "sklearn", *["scanpy"] * uses_scanpy):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not here")
    # As downloaded, with nothing but the package: no helper and no data sets.
    (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "slce_xp").symlink_to(ROOT / "slce_xp")
    environment = {
        **os.environ,
        "MPLBACKEND": "Agg",
        "PYTHONPATH": str(tmp_path / "package"),
        "SCIKIT_LEARN_DATA": str(tmp_path),
        "SLCE_XP_DATA": "",
        "XDG_CACHE_HOME": str(tmp_path),
    }
    # Of AnnData with pandas 3.1, and of Matplotlib with pyparsing 3.3: see pyproject.toml.
    ignored = [
        "ignore:The 'future.infer_string' option is deprecated",
        "ignore::DeprecationWarning:matplotlib._fontconfig_pattern",
        "ignore::DeprecationWarning:matplotlib._mathtext",
    ]
    warnings = [argument for one in ("error", *ignored) for argument in ("-W", one)]
    command = [sys.executable, *([] if uses_scanpy else warnings), path.name]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    title = text.splitlines()[1]
    is_real = "sklearn.datasets import load_" in text or "sc.datasets." in text
    assert title.startswith("Simulated") == ("Simulated" in done.stdout) == (not is_real)


@pytest.mark.parametrize("path", EXAMPLES, ids=stem)
def test_examples_import_only_what_can_be_installed(path):
    # The folder of an editable installation may be importable, and would hide a missing helper.
    imports = re.findall(r"^(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    installed = {"anndata", "matplotlib", "numpy", "pandas", "scanpy", "scipy", "sklearn"}
    installed.add("slce_xp")
    assert set(imports) - sys.stdlib_module_names <= installed


# ---------------------------------------------------------------- the site


@pytest.mark.slow
def test_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    for library in ("furo", "latex2mathml", "myst_parser", "numpydoc", "sphinx_gallery"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not here: `make docs` installs it")
    # As a checkout, so that what is generated is not written into this one.
    for name in ("CHANGELOG.md", "benchmarks", "slce_xp"):
        (tmp_path / name).symlink_to(ROOT / name)
    tracked = (path for path in DOCS.rglob("*") if path.is_file())
    for path in tracked:
        if path.relative_to(DOCS).parts[0] not in ("_build", "api", "gallery"):
            copy = tmp_path / "docs" / path.relative_to(DOCS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", "site"]
    environment = {**os.environ, "SLCE_XP_DATA": "", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    site = tmp_path / "site"
    for name in names_on_the_api_page():
        assert list((site / "api").glob(f"{name}*.html"))
    assert len(list((site / "gallery").glob("plot_*.html"))) == len(EXAMPLES)
    assert (site / "method.html").read_text(encoding="utf-8").count("<math") > 50
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(script|link|img)[^>]+(src|href)="https?:', text), page.name
