"""The tests on a SYCL device: dpnp with Intel's OpenCL runtime for the CPU, which needs no GPU.

``python tests/sycl.py [ARGUMENTS OF PYTEST]`` runs them in an environment of its own, kept in the
user's cache with the kernels that were compiled. An Intel GPU is used if its driver is installed.
``python tests/sycl.py bench [ARGUMENTS]`` runs ``benchmarks.sycl`` there instead.
"""

import os
import subprocess
import sys

import versions

RUNTIME = "intel-opencl-rt"
LEFT_OUT = ("torch", "cupy-cuda12x", "cupy-cuda13x", "jax")  # tested elsewhere


def main(arguments):
    wanted = [*versions.requirements(groups=["test"], left_out=LEFT_OUT), RUNTIME]
    print("installing dpnp and Intel's runtime (3 GB, once) ...", flush=True)
    python = versions.installed("sycl", sys.executable, wanted)
    folder = python.parents[1]
    paths = [str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": str(versions.ROOT),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, paths)),
        "OCL_ICD_FILENAMES": str(folder / "lib" / "libintelocl.so"),
        "SYCL_CACHE_PERSISTENT": "1",
        "SYCL_CACHE_DIR": str(folder / "kernels"),
    }
    command = [
        python, "-m", "pytest", "-q", "-n", "auto", "-m", "gpu and not slow", "-k", "dpnp",
        "-p", "no:cacheprovider", "--doctest-ignore-import-errors", *arguments,
    ]  # fmt: skip
    if arguments[:1] == ["bench"]:
        command = [python, "-m", "benchmarks.sycl", *arguments[1:]]
    return subprocess.run(command, cwd=versions.ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
