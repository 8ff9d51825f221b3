"""The README is true: its snippets run, in their order, and print what it shows."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib

import pytest


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
