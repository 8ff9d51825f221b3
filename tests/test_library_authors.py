"""The page for library authors: its module and recipes, and a vendored core."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import oracle
import pytest
from test_readme import ROOT, blocks

import slce_xp
from slce_xp import core

CODE = [code for language, code in blocks(ROOT / "docs" / "library_authors.md")
        if language == "python"]  # fmt: skip
X, CODES = oracle.blobs(90, 12, 3, seed=5)


def defined(*names):
    """What the blocks of the page that define some names define."""
    variables = {"core": core}
    for code in CODE:
        if any(f"def {name}(" in code for name in names):
            exec(code, variables)
    return variables


def test_the_module_runs_on_every_library(xp):
    module = defined("fit_shards")
    X_there, codes = xp.array(X), xp.array(CODES)
    model = module["fit"](X_there, codes, 3, 2)
    expected = slce_xp.fit(X, CODES, 2)
    tolerance = xp.tolerance(1e-9, 1e-3)
    np.testing.assert_allclose(
        xp.numpy(model.transform(X_there)), expected.transform(X), atol=tolerance
    )
    np.testing.assert_array_equal(xp.numpy(model.predict(X_there)), expected.predict(X))
    shards = [(X_there[i : i + 30, :], codes[i : i + 30]) for i in (0, 30, 60)]
    in_shards = module["fit_shards"](shards, 3, 2)
    np.testing.assert_array_equal(xp.numpy(in_shards.predict(X_there)), expected.predict(X))


RANK = """
import pickle, sys
import numpy as np, torch
rank, file, result, code = int(sys.argv[1]), *sys.argv[2:]
from slce_xp import core
torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
exec(code)
data = np.load(result + ".npz")
rows = slice(rank, None, 2)
x, codes = torch.tensor(data["x"][rows]), torch.tensor(data["codes"][rows])
found = sum_over_ranks(core.class_moments(x, codes, 3)).eigenpairs(2)
np.save(f"{result}-{rank}.npy", found.values)
torch.distributed.destroy_process_group()
"""


def test_two_processes_of_torch_share_their_moments(tmp_path):
    pytest.importorskip("torch")
    (code,) = (code for code in CODE if "def sum_over_ranks(" in code)
    result = str(tmp_path / "result")
    np.savez(result + ".npz", x=X, codes=CODES)
    arguments = [str(tmp_path / "meeting"), result, code]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(rank), *arguments], env=environment)
        for rank in range(2)
    ]
    try:
        assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    first, second = (np.load(f"{result}-{rank}.npy") for rank in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, core.eigenpairs(X, CODES, 3, 2).values, rtol=1e-11)


def test_mpi_sums_moments():
    mpi = pytest.importorskip("mpi4py.MPI")
    moments = core.class_moments(X, CODES, 3)
    found = defined("sum_over_communicator")["sum_over_communicator"](moments, mpi.COMM_WORLD)
    np.testing.assert_allclose(found.mean, moments.mean)


def test_dask_sums_moments():
    arrays = pytest.importorskip("dask.array")
    x, codes = arrays.from_array(X, chunks=(20, 12)), arrays.from_array(CODES, chunks=20)
    found = defined("sum_over_chunks")["sum_over_chunks"](x, codes, 3).eigenpairs(2)
    expected = core.eigenpairs(X, CODES, 3, 2)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-11)


def test_moments_move_between_devices():
    strict = pytest.importorskip("array_api_strict")
    there = strict.asarray(X, device=strict.Device("device1"))
    moments = core.class_moments(there, CODES, 3)
    assert pickle.loads(pickle.dumps(core.class_moments(X, CODES, 3))).to("cpu").n_classes == 3
    assert moments.to(strict.Device("CPU_DEVICE")).mean.device == strict.Device("CPU_DEVICE")


def test_a_vendored_core_is_complete(tmp_path):
    """The files that the page names, in a package of another name."""
    source, target = Path(slce_xp.__file__).parent, tmp_path / "theirs" / "_slce"
    for name in ("core", "_backend"):
        shutil.copytree(source / name, target / name)
    for name in ("_errors.py", "_lazy.py", "_parameters.py", "_progress.py"):
        shutil.copy(source / name, target)
    for folder in (target, target.parent):
        (folder / "__init__.py").touch()
    code = """
import sys
import numpy as np
from theirs._slce.core import class_moments, class_sums, eigenpairs, separating_components
x = np.random.default_rng(0).standard_normal((40, 5)) + 3 * np.eye(5)[np.arange(40) % 3]
for form in ("scatter", "krylov"):
    eigenpairs(x, np.arange(40) % 3, 3, 2, form=form)
separating_components(x, np.arange(40) % 3, 3, 1)
class_moments(x, np.arange(40) % 3, 3).eigenpairs(1)
assert not [name for name in sys.modules if name.startswith("slce_xp")]
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
