"""The README is true: its snippets run, in their order, and print what it shows."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys

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


def test_make_targets_exist(blocks, request):
    makefile = (request.config.rootpath / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"^make ([\w-]+)", "".join(c for _, c in blocks), flags=re.MULTILINE)
    assert named
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
