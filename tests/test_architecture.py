"""The shape of the house: who may import whom, and who may name an array library."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import slce_xp

ROOT = Path(slce_xp.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# A file may import only from those before it.
ORDER = [
    "_xp",
    "_rows",
    "_validate",
    "_labels",
    "_sizes",
    "_plan",
    "_linalg",
    "_progress",
    "_source",
    "_dask",
    "_moments",
    "_operator",
    "_solvers._solution",
    "_solvers._resolve",
    "_solvers.scatter",
    "_solvers.gram",
    "_solvers._space",
    "_solvers.krylov",
    "_solvers",
    "_files",
    "_model",
    "_fit",
    "_batches",
    "_estimator",
    "",
    "anndata",
    "plot._looks",
    "plot._given",
    "plot._axes",
    "plot._embedding",
    "plot._model",
    "plot._interactive",
    "plot",
    "demo",
    "cli.columns",
    "cli.table",
    "cli.frames",
    "cli.arrays",
    "cli.reading",
    "cli.accuracy",
    "cli.info",
    "cli.outputs",
    "cli.commands",
    "cli.options",
    "cli",
    "__main__",
]
LIBRARIES = {"cupy", "torch", "jax", "array_api_compat", "array_api_strict", "cupyx"}
# Other applications, and the files that may import each.
APPLICATIONS = {
    "anndata": {"anndata"},
    "dask": {"_dask"},
    "distributed": set(),
    "h5py": set(),
    "matplotlib": {"cli.outputs", "demo", "plot._axes", "plot._embedding", "plot._model"},
    "pandas": set(),
    "plotly": {"plot._interactive"},
    "polars": set(),
    "pyarrow": set(),
    "scanpy": set(),
    "sklearn": {"_estimator", "cli.accuracy", "demo"},
    "tqdm": set(),  # by name, where a bar is asked for
    "zarr": set(),  # likewise, where one is written
}
CREATION = {
    "arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros",
}  # fmt: skip


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path):
    """Absolute names of all modules that a file imports, those inside functions too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = (ROOT.parent / inner.replace(".", "/")).with_suffix(".py").exists()
                yield inner if is_module or inner.endswith("._solvers") else node.module


def ids(paths):
    return [module_name(path) or "slce_xp" for path in paths]


def test_every_file_has_a_place_in_the_order():
    assert sorted(ORDER) == sorted(module_name(path) for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_imports_point_one_way(path):
    own = ORDER.index(module_name(path))
    for name in imported(path):
        if name == "slce_xp" or name.startswith("slce_xp."):
            other = name.removeprefix("slce_xp").removeprefix(".")
            assert ORDER.index(other) < own, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_only_one_file_names_array_libraries(path):
    tops = {name.partition(".")[0] for name in imported(path)}
    if module_name(path) != "_xp":
        assert not tops & LIBRARIES
    for application in tops & APPLICATIONS.keys():
        assert module_name(path) in APPLICATIONS[application]
    # SciPy is NumPy's own: only the door may choose it.
    assert module_name(path) == "_xp" or "scipy" not in tops


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
            only_host = module_name(path) == "_xp" and node.func.attr == "asarray"
            assert "device" in keywords or only_host, f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_only_one_function_reads_from_a_device(path):
    """`.get()`, `.cpu()`, `.numpy()`, `.item()` and `.tolist()` wait for a device unseen."""
    if module_name(path) == "_xp":
        return
    calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    names = {node.func.attr for node in calls if isinstance(node.func, ast.Attribute)}
    assert not names & {"cpu", "numpy", "item", "tolist"}


def test_all_is_the_truth():
    public = {name for name in vars(slce_xp) if not name.startswith("_")}
    modules = {module.name for module in pkgutil.iter_modules(slce_xp.__path__)}
    assert (public - modules) | {"SLCE"} == set(slce_xp.__all__)  # SLCE comes when asked for
    assert len(slce_xp.__all__) == len(set(slce_xp.__all__))
    assert set(slce_xp.__all__) <= set(dir(slce_xp))
    for name in slce_xp.__all__:
        assert getattr(slce_xp, name).__doc__


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_every_file_and_public_function_says_what_it_is_for(path):
    if module_name(path) == "_dask":
        pytest.importorskip("dask")
    module = importlib.import_module(f"slce_xp.{module_name(path)}".rstrip("."))
    assert module.__doc__
