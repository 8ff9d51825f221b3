"""Run the command in a separate process or in this one; expected outputs."""

import contextlib
import io
import os
import re
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import oracle

import slce_xp
from slce_xp.cli import main

ROOT = Path(slce_xp.__file__).parents[1]


def environment(*paths, **variables):
    path = os.pathsep.join(map(str, (*paths, ROOT)))
    buffered = {"PYTHONUNBUFFERED": ""}  # as for users, independent of the tests' environment
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "100", **buffered, **variables}


def hooked(folder, code):
    """The environment of a process that runs this code before anything else."""
    (folder / "hook").mkdir()
    (folder / "hook/sitecustomize.py").write_text(code)
    return environment(folder / "hook", PYTHONDONTWRITEBYTECODE="1")


def slce(folder, *arguments, **how):
    """Run the command in a folder: in this process, which saves the imports, unless `how` is given.

    What needs a process of its own has an environment, options of Python or a terminal.
    """
    return process(folder, *arguments, **how) if how else here(folder, *arguments)


def process(folder, *arguments, options=(), **how):
    """Run the command in a folder, as users do."""
    how.setdefault("env", environment())
    command = [sys.executable, *options, "-m", "slce_xp", *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=120, **how
    )


def here(folder, *arguments):
    """Run the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.dict(os.environ, COLUMNS="100"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")  # as users have them, not errors
        try:
            status = main(list(map(str, arguments)))
        except SystemExit as end:  # of argparse
            status = end.code
    return SimpleNamespace(returncode=status, stdout=out.getvalue(), stderr=err.getvalue())


def works(*arguments, run=slce, **how):
    done = run(*arguments, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(folder, *arguments, run=slce, **how):
    """Return the notes and the one-line error of a call that leaves the folder unchanged."""
    before = contents(folder)
    done = run(folder, *arguments, **how)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.fullmatch(r"(slce-xp: note: .+\n)*slce-xp: error: .+\n", done.stderr), done.stderr
    assert contents(folder) == before
    return done.stderr


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def axes_of(X, y, k):
    """Leading eigenvectors, in the sign that models have."""
    axes = oracle.eigenpairs(X, y)[1][:k]
    return axes * np.sign(axes[np.arange(k), np.abs(axes).argmax(axis=1)])[:, None]


def embedding_of(X, y, k):
    return (X - X.mean(axis=0)) @ axes_of(X, y, k).T


def components_in(path):
    import pandas

    frame = pandas.read_csv(path)
    return frame.filter(like="component_").to_numpy()
