"""The README is true: its example runs and prints what it shows."""

import re

import pytest


@pytest.fixture
def blocks(request):
    text = (request.config.rootpath / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```(\w+)\n(.*?)```", text, flags=re.DOTALL)


def test_python_blocks_run_and_print_what_is_shown(blocks, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = [code for language, code in blocks if language == "text"]
    code = [code for language, code in blocks if language == "python"]
    assert code
    exec("\n".join(code), {})
    assert capsys.readouterr().out == "".join(shown)


def test_make_targets_exist(blocks, request):
    makefile = (request.config.rootpath / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"^make ([\w-]+)", "".join(c for _, c in blocks), flags=re.MULTILINE)
    assert named
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
