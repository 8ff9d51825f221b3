"""The tests on other versions than those of `make test`, each in an environment of its own.

``python tests/versions.py [ARGUMENTS OF PYTEST]`` runs them on the newest of everything, on the
lowest versions that pyproject.toml allows, and on what the command alone installs. Environments
are kept in the user's cache.
"""

import fcntl
import glob
import itertools
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slce_xp"
# Torch has one small build, which `make test` has; CuPy needs a GPU; dpnp is large, and has
# tests of its own (sycl.py).
LEFT_OUT = ("torch", "cupy-cuda12x", "cupy-cuda13x", "dpnp")
VERSIONS = """
import platform, sys
from importlib.metadata import version
print(f"Python {platform.python_version()}", *[f"{n} {version(n)}" for n in sys.argv[1:]], sep=", ")
"""


def requirements(extras=None, groups=(), left_out=LEFT_OUT):
    """What pyproject.toml asks for in these extras (None: in all) and groups."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extra, group = project["project"]["optional-dependencies"], project["dependency-groups"]

    def members(name):
        for one in group[name]:
            yield from members(one["include-group"]) if isinstance(one, dict) else [one]

    lists = [extra[name] for name in extras or extra] + [members(name) for name in groups]
    wanted = set(itertools.chain(project["project"]["dependencies"], *lists))
    return sorted(one for one in wanted if name_of(one) not in left_out)


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0]


def newest_python():
    """The newest on the path or of pyenv that works: a shim of pyenv need not."""
    pyenv = os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv"
    for version in ("3.13", "3.12"):
        folders = [*os.get_exec_path(), *glob.glob(f"{pyenv}/versions/{version}*/bin")]
        for python in (f"{folder}/python{version}" for folder in folders):
            works = [python, "-c", "import ctypes, ssl, venv, zlib"]
            if (
                os.access(python, os.X_OK)
                and not subprocess.run(works, capture_output=True).returncode
            ):
                return python
    return sys.executable


def installed(name, python, wanted):
    """The Python of an environment with what is wanted, in its newest versions that are allowed."""
    folder = CACHE / "versions" / f"{name}-{python_version(python)}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # another checkout may be at it
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
        pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "-q"]
        newest = ["--upgrade", "--upgrade-strategy=eager"]
        # Not compiled: most files are never imported.
        if subprocess.run([*pip, "--no-compile", *newest, *wanted]).returncode:
            sys.exit(f"{name}: cannot install {' '.join(wanted)}")
    return folder / "bin/python"


def python_version(python):
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


def run(name, python, wanted, arguments):
    """Whether the tests pass there. What they lack, they skip."""
    print(f"\n{name}: installing ...", flush=True)
    python = installed(name, python, wanted)
    names = dict.fromkeys(map(name_of, wanted))
    print(f"{name}: ", end="", flush=True)
    subprocess.run([python, "-c", VERSIONS, *names], check=True)
    parallel = ["-n", "auto"] if "pytest-xdist" in names else []
    # The example in a docstring cannot skip itself.
    left_out = [] if "anndata" in names else ["--deselect=slce_xp/anndata.py"]
    command = [
        python, "-m", "pytest", "-q", "-m", "not slow", "--doctest-ignore-import-errors",
        "-p", "no:cacheprovider", *parallel, *left_out, *arguments,
    ]  # fmt: skip
    # What is imported is compiled once, wherever else that is forbidden.
    environment = {**os.environ, "PYTHONPATH": ROOT, "PYTHONDONTWRITEBYTECODE": ""}
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    print(f"{name}: {f'failed, pytest ended with {status}' if status else 'passed'}", flush=True)
    return not status


def main(arguments):
    everything = requirements(groups=["test"])
    passed = [
        run("newest", newest_python(), everything, arguments),
        run("lowest", sys.executable, [r.replace(">=", "==") for r in everything], arguments),
        run("command", sys.executable, [*requirements(["cli"]), "pytest"], arguments),
    ]
    return not all(passed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
