"""Turn an unpacked CuPy source tree into one that can be linked to libemucuda.so.

    python patch_cupy.py CUPY_SOURCE_DIR DEFAULTS_CPP

CuPy has a build mode without CUDA ("stub build") in which every CUDA function
is an empty inline function in a header.  This script

1. replaces these empty functions by declarations, so that the linker looks
   for them in libemucuda.so, and writes DEFAULTS_CPP: a weak definition of
   each of them that reports "not emulated" and returns an error status
   (emucuda.cpp overrides the ones it implements);
2. makes the libraries that CuPy opens at run time (driver, NVRTC, parts of
   cuSPARSE and cuSOLVER) point to libemucuda.so too;
3. answers the few questions the stub build leaves open (device properties,
   kind of a pointer) and blocks what would silently return garbage.

Every replacement is anchored on a line or two of CuPy's source.  A missing
anchor is an error: the pinned CuPy version and this script belong together.
"""

import re
import sys
from pathlib import Path

# Header with empty functions -> (name prefix, status returned by a function
# that is not emulated; chosen so that CuPy's own error class knows the code).
STUB_HEADERS = {
    "cupy_backends/stub/cupy_cuda_runtime.h": ("cuda", 801),
    "cupy_backends/stub/cupy_cublas.h": ("cublas", 15),
    "cupy_backends/stub/cupy_cusolver.h": ("cusolver", 3),
    "cupy_backends/stub/cupy_cusparse.h": ("cusparse", 10),
    "cupy_backends/stub/cupy_curand.h": ("curand", 999),
    "cupy/cuda/cupy_cufft.h": ("cufft", 5),
}

# The extension modules already depend on the library, so its bare name is
# enough for dlopen() to find the copy in memory.
LIBRARY = "'libemucuda.so'"

DEVICE_PROPERTIES = {
    "name": b"CPU emulation (cupy-on-cpu)",
    "sharedMemPerBlock": 49152,
    "regsPerBlock": 65536,
    "warpSize": 32,
    "maxThreadsPerBlock": 1024,
    "maxThreadsDim": (1024, 1024, 64),
    "maxGridSize": (2147483647, 65535, 65535),
    "major": 8,
    "minor": 0,
    "multiProcessorCount": 4,
    "maxThreadsPerMultiProcessor": 1536,
    "sharedMemPerMultiprocessor": 102400,
    "sharedMemPerBlockOptin": 101376,
    "l2CacheSize": 1 << 20,
}

NO_GENERATOR = (
    "cupy.random.Generator (default_rng) is not emulated by cupy-on-cpu: "
    "its numbers come from CUDA device code. Draw with numpy and move the "
    "array with cupy.asarray, or use the legacy cupy.random functions."
)

# (file, anchor, replacement, how often the anchor occurs)
REPLACEMENTS = [
    # --- libraries opened at run time
    (
        "cupy_backends/cuda/api/_driver_extern.pxi",
        "cdef object libname = None",
        f"cdef object libname = {LIBRARY}",
        1,
    ),
    (
        "cupy_backends/cuda/api/_runtime_softlink.pxi",
        "cdef object libname = None",
        f"cdef object libname = {LIBRARY}",
        1,
    ),
    (
        "cupy_backends/cuda/libs/_cnvrtc.pxi",
        "cdef object libname = None",
        f"cdef object libname = {LIBRARY}",
        1,
    ),
    (
        "cupy_backends/cuda/libs/cusparse.pyx",
        "cdef object _libname = None",
        f"cdef object _libname = {LIBRARY}",
        1,
    ),
    (
        "cupy_backends/cuda/libs/cusolver.pyx",
        "cdef object _libname = None",
        f"cdef object _libname = {LIBRARY}",
        1,
    ),
    (
        "cupy_backends/cuda/libs/__init__.py",
        "_pathfinder.load_nvidia_dynamic_lib(pathfinder_name)",
        "pass  # cupy-on-cpu: no NVIDIA library to load",
        1,
    ),
    # --- a modern cuSPARSE, so that CuPy takes its generic-API code paths
    (
        "cupy_backends/stub/cupy_cusparse.h",
        "#define CUSPARSE_VERSION -1",
        "#define CUSPARSE_VERSION 12500",
        1,
    ),
    # --- questions the stub build does not answer
    (
        "cupy_backends/cuda/api/runtime.pyx",
        "    cdef dict properties = {'name': b'UNAVAILABLE'}  # for RTD\n",
        f"    cdef dict properties = {DEVICE_PROPERTIES!r}\n"
        "    properties['totalGlobalMem'] = memGetInfo()[1]\n"
        "    return properties\n",
        1,
    ),
    (
        "cupy_backends/cuda/api/runtime.pyx",
        "        raise ValueError('Fetching memory unsupported.')",
        "        import emucuda\n        return emucuda.memory_type(ptr)",
        1,
    ),
    (
        "cupy_backends/cuda/api/runtime.pyx",
        "    ELSE:  # for RTD\n        return None\n",
        "    ELSE:\n"
        "        import emucuda\n"
        "        return PointerAttributes(\n"
        "            0, ptr, 0, emucuda.memory_type(ptr))\n",
        1,
    ),
    # --- sorting: real prototypes instead of empty functions
    (
        "cupy/cuda/cupy_thrust.h",
        "#define THRUST_VERSION 0\n\nvoid thrust_sort(...) {\n}\n",
        "#define THRUST_VERSION 0\n"
        "#include <vector>\n#include <cstddef>\n#include <cstdint>\n"
        "void thrust_sort(int, void*, size_t*, const std::vector<ptrdiff_t>&,"
        " intptr_t, void*);\n",
        1,
    ),
    (
        "cupy/cuda/cupy_thrust.h",
        "void thrust_lexsort(...) {\n}\n",
        "void thrust_lexsort(int, size_t*, void*, size_t, size_t, intptr_t, void*);\n",
        1,
    ),
    (
        "cupy/cuda/cupy_thrust.h",
        "void thrust_argsort(...) {\n}\n",
        "void thrust_argsort(int, size_t*, void*, void*,"
        " const std::vector<ptrdiff_t>&, intptr_t, void*);\n",
        1,
    ),
    # --- garbage prevention: kernels that rely on the lockstep of a warp
    # without a barrier; CuPy's other branch sorts, which is a partition too
    (
        "cupy/_core/_routines_sorting.pyx",
        "if length < 32 or sz <= 32 or max_k >= 1024:",
        "if True:  # cupy-on-cpu",
        1,
    ),
    (
        "cupy/_core/_routines_sorting.pyx",
        "if length < 32 or sz < 1 or max_k >= 1024:",
        "if True:  # cupy-on-cpu",
        1,
    ),
    # --- garbage prevention: random numbers from device code
    (
        "cupy/random/_bit_generator.pyx",
        "    def __init__(self, seed=None):\n        if runtime.is_hip and",
        "    def __init__(self, seed=None):\n"
        f"        raise NotImplementedError({NO_GENERATOR!r})\n"
        "        if runtime.is_hip and",
        1,
    ),
    # --- settings (cache folder, accelerators) before anything else
    (
        "cupy/__init__.py",
        "import functools as _functools\n",
        "import emucuda as _emucuda\n_emucuda.prepare()\n\nimport functools as _functools\n",
        1,
    ),
]

EMPTY_FUNCTION = (
    r"^(?P<ret>(?:const\s+)?[A-Za-z_]\w*\s*\**)\s*(?P<name>{prefix}\w*)\s*"
    r"\((?P<args>[^)]*)\)\s*\{{[^}}]*\}}"
)


def declare_stub_functions(root):
    """Replace the empty functions by declarations; return [(ret, name, status)]."""
    found = {}
    for header, (prefix, status) in STUB_HEADERS.items():
        path = root / header
        pattern = re.compile(EMPTY_FUNCTION.format(prefix=prefix), re.M)

        def declare(match, status=status):
            ret, name, args = match["ret"].strip(), match["name"], match["args"]
            found[name] = (ret, status)
            return f'extern "C" {ret} {name}({args});'

        text, count = pattern.subn(declare, path.read_text())
        if count < 10:
            sys.exit(f"patch_cupy: only {count} empty functions in {header}")
        path.write_text(text)
        print(f"  {count:4d} functions declared in {header}")
    return [(ret, name, status) for name, (ret, status) in found.items()]


def write_defaults(functions, path):
    lines = [
        "// Generated by patch_cupy.py: one weak definition per CUDA function.",
        'extern "C" long emu_not_emulated(const char* name, long status);',
    ]
    for ret, name, status in functions:
        call = f'emu_not_emulated("{name}", {status})'
        if ret == "void":
            lines.append(f'extern "C" __attribute__((weak)) void {name}(...) {{ {call}; }}')
        elif "*" in ret:
            lines.append(
                f'extern "C" __attribute__((weak)) const char* {name}(...) '
                f'{{ return "not emulated by cupy-on-cpu"; }}'
            )
        else:
            lines.append(f'extern "C" __attribute__((weak)) long {name}(...) {{ return {call}; }}')
    path.write_text("\n".join(lines) + "\n")


def main():
    root, defaults = Path(sys.argv[1]), Path(sys.argv[2])
    for name, anchor, replacement, count in REPLACEMENTS:
        path = root / name
        text = path.read_text()
        if text.count(anchor) != count:
            sys.exit(
                f"patch_cupy: expected {count}x, found {text.count(anchor)}x in {name}: {anchor!r}"
            )
        path.write_text(text.replace(anchor, replacement))
    print(f"  {len(REPLACEMENTS):4d} anchored replacements")
    functions = declare_stub_functions(root)
    write_defaults(functions, defaults)
    print(f"  {len(functions):4d} weak defaults written to {defaults.name}")


if __name__ == "__main__":
    main()
