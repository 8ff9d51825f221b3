"""Rules on imports between packages, and on which of them may name array libraries."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import slce_xp

ROOT = Path(slce_xp.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Rooms, from the ground up: a room may import from itself and from those before it.
ROOMS = [
    ("_errors", "_html", "_lazy", "_progress"),
    ("_backend",),
    ("_parameters",),
    ("core",),
    ("_data",),
    ("_folds",),
    ("_planning",),
    (
        "_features",
        "_methods",
        "_files",
        "_summary",
        "_model",
        "_load",
        "_alignment",
        "_warnings",
        "_make_plan",
        "_make_model",
        "_fit",
        "_partial",
        "_feature_path",
        "_selection",
        "_importance",
        "_stability",
        "_held_out",
        "_calibration",
        "_cross",
        "_permutation",
    ),
    ("_estimator", "_selector", "_comparison"),
    ("",),
    ("anndata", "plot"),
    ("demo",),
    ("cli",),
    ("__main__",),
]
LIBRARIES = {"cupy", "torch", "jax", "array_api_compat", "array_api_strict", "cupyx", "scipy"}
# Other applications, and the files that may import each.
APPLICATIONS = {
    "anndata": {"anndata"},
    "dask": {"_data.dask_rows"},
    "distributed": set(),
    "h5py": set(),
    "matplotlib": {
        "cli.outputs",
        "demo",
        "plot._axes",
        "plot._figure",
        "plot._looks",
        "plot._comparison",
        "plot._embedding",
        "plot._evidence",
        "plot._feature_path",
        "plot._model",
        "plot._points",
    },
    "pandas": set(),
    "plotly": {"plot._interactive"},
    "polars": set(),
    "pyarrow": set(),
    "scanpy": set(),
    "sklearn": {
        "_comparison.compare",
        "_comparison.folds",
        "_comparison.methods",
        "_comparison.selectors",
        "_estimator",
        "_selector",
        "demo",
    },
    "tqdm": set(),  # by name, if a bar is asked for
    "zarr": set(),  # likewise, if one is written
}
CREATION = {
    "arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros",
}  # fmt: skip


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room_of(module):
    """Position of the room of a module, such as "core.dense"."""
    top = module.partition(".")[0]
    return next(i for i, room in enumerate(ROOMS) if top in room)


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path):
    """Absolute names of all modules that a file imports, those inside functions too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:  # ".eigen" of a file of core is "slce_xp.core.eigen"
                package = path.parents[node.level - 1].relative_to(ROOT.parent).parts
                module = ".".join([*package, *filter(None, [module])])
            for alias in node.names:
                inner = ROOT.parent / f"{module}.{alias.name}".replace(".", "/")
                is_module = inner.with_suffix(".py").exists() or inner.is_dir()
                yield f"{module}.{alias.name}" if is_module else module


def ids(paths):
    return [module_name(path) or "slce_xp" for path in paths]


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_imports_point_one_way(path):
    own = room_of(module_name(path))
    for name in imported(path):
        if name == "slce_xp" or name.startswith("slce_xp."):
            other = name.removeprefix("slce_xp").removeprefix(".")
            assert room_of(other) <= own, f"{path.name} imports {name}"


def test_no_circular_imports():
    edges = {
        module_name(path): {
            name.removeprefix("slce_xp").removeprefix(".")
            for name in imported(path)
            if name.startswith("slce_xp")
        }
        for path in FILES
    }
    # A package imports its own modules; they import it only by name.
    done = set()
    while len(done) < len(edges):
        ready = {
            name
            for name, needs in edges.items()
            if name not in done
            and all(n in done or n == name or name.startswith(f"{n}.") for n in needs)
        }
        assert ready, f"a circle among {sorted(edges.keys() - done)}"
        done |= ready


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_only_one_package_names_array_libraries(path):
    tops = {name.partition(".")[0] for name in imported(path)}
    if not is_backend(path):
        assert not tops & LIBRARIES
    for application in tops & APPLICATIONS.keys():
        assert module_name(path) in APPLICATIONS[application]


def is_backend(path):
    return module_name(path).startswith("_backend")


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_every_creation_call_passes_a_device(path):
    for node in ast.walk(tree_of(path)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CREATION
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "xp"
        ):
            keywords = {keyword.arg for keyword in node.keywords}
            only_host = is_backend(path) and node.func.attr == "asarray"
            assert "device" in keywords or only_host, f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_only_one_function_reads_from_a_device(path):
    """`.get()`, `.cpu()`, `.numpy()`, `.item()` and `.tolist()` wait for a device, uncounted."""
    if is_backend(path):
        return
    calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    names = {node.func.attr for node in calls if isinstance(node.func, ast.Attribute)}
    assert not names & {"cpu", "numpy", "item", "tolist"}


def test_dunder_all_matches_public_names():
    for package in (slce_xp, slce_xp.core):
        public = {name for name in dir(package) if not name.startswith("_")}
        modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
        assert public - modules - {"TYPE_CHECKING"} == set(package.__all__)
        assert len(package.__all__) == len(set(package.__all__))
        for name in package.__all__:
            assert getattr(package, name).__doc__
        with pytest.raises(AttributeError, match="has no attribute 'fti'"):
            _ = package.fti


def test_submodules_need_no_import_of_their_own():
    for name in ("anndata", "core", "plot"):
        assert slce_xp.__getattr__(name).__name__ == f"slce_xp.{name}"


def loaded(code):
    """Modules that a program has loaded in the end."""
    code += "\nimport sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_core_is_light():
    """Nothing beyond NumPy and array-api-compat, and few modules of ours."""
    allowed = loaded("import numpy, array_api_compat.numpy")
    use = (
        "import numpy as np; from slce_xp.core import class_sums; class_sums(np.eye(2), [0, 1], 2)"
    )
    for code in ("import slce_xp.core", use):
        found = loaded(code)
        ours = {name for name in found if name.partition(".")[0] == "slce_xp"}
        assert len(ours) <= 25
        tops = {name.partition(".")[0] for name in found - ours - allowed}
        assert not tops - set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_every_file_and_public_function_has_a_docstring(path):
    if module_name(path) == "_data.dask_rows":
        pytest.importorskip("dask")
    module = importlib.import_module(f"slce_xp.{module_name(path)}".rstrip("."))
    assert module.__doc__
