"""Array libraries: their namespaces, their devices and what is theirs."""

from __future__ import annotations

import importlib
import operator
import warnings
from types import ModuleType
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from .._errors import pip_install

Array = Any  # no static type covers every array library


# Public name -> (module of the standard's functions, package to install).
_LIBRARIES = {
    "numpy": ("array_api_compat.numpy", "numpy"),
    "cupy": ("array_api_compat.cupy", "cupy-cuda12x"),
    "torch": ("array_api_compat.torch", "torch"),
    "jax": ("jax.numpy", "jax"),
    "dpnp": ("dpnp", "dpnp"),
    "array_api_strict": ("array_api_strict", "array-api-strict"),
}


BACKENDS = tuple(_LIBRARIES)
_NAMES = {module: name for name, (module, _) in _LIBRARIES.items()}


# What this package calls of the standard: a library that lacks one of them cannot be used.
FUNCTIONS = (
    *("linalg.cholesky", "linalg.diagonal", "linalg.eigh", "linalg.eigvalsh", "linalg.qr"),
    *("linalg.solve", "linalg.trace", "__array_namespace_info__", "abs", "all", "any", "arange"),
    *("argmax", "argsort", "asarray", "astype", "clip", "concat", "cumulative_sum", "empty"),
    *("exp", "eye", "finfo", "flip", "from_dlpack", "isdtype", "isfinite", "isnan", "log"),
    *("matrix_transpose", "max", "maximum", "mean", "minimum", "ones", "ones_like", "permute_dims"),
    *("reshape", "result_type", "searchsorted", "sqrt", "stack", "sum", "take", "where"),
    *("zeros", "zeros_like"),
)


class Place(NamedTuple):
    """Where arrays live: the namespace that computes with them and their device."""

    xp: Any
    device: Any

    def __str__(self) -> str:
        return f"{backend_name(self.xp)} on {device_name(self.device)}"


NUMPY = Place(compat.array_namespace(np.empty(0)), compat.device(np.empty(0)))


def is_array(x: object) -> bool:
    """Whether `x` is a dense array of a library that computes eagerly.

    One without DLPack, as of cubed or blosc2, is read by its rows instead.
    """
    return (
        compat.is_array_api_obj(x)
        and hasattr(x, "__dlpack__")
        and not compat.is_dask_array(x)
        and not compat.is_pydata_sparse_array(x)
    )


def place_of(x: Array) -> Place:
    """Namespace and device of an array."""
    if type(x) is np.ndarray:  # asked often enough for small fits to feel the long way
        return NUMPY
    if isinstance(x, Matrix):
        return x.place
    if compat.is_dask_array(x):
        return place_of_sparse(x._meta) if is_sparse(x._meta) else place_of(x._meta)
    return Place(compat.array_namespace(x), compat.device(x))


def place_of_sparse(x: Any) -> Place:
    """Namespace and device of the values of a sparse matrix."""
    if type(x).__module__.startswith("scipy"):
        return NUMPY
    return place_of(x.data if has_csr(x) else x)


def namespace_of(x: Array) -> Any:
    """The namespace of an array; of a Dask array, that of Dask."""
    if type(x) is np.ndarray:
        return NUMPY.xp
    return x.place.xp if isinstance(x, Matrix) else compat.array_namespace(x)


def is_dask(x: object) -> bool:
    """Whether `x` is a Dask array."""
    return compat.is_dask_array(x)


def backend_name(xp: Any) -> str:
    """Return the name by which users call a namespace."""
    module = getattr(xp, "__name__", type(xp).__name__)
    return _NAMES.get(module, module)


def backend_argument(xp: Any) -> str:
    """What to write after ``backend=`` for a namespace: a name in quotes, or the namespace."""
    name = backend_name(xp)
    return repr(name) if name in _LIBRARIES else name


def find_place(backend: str | ModuleType, device: object = None) -> Place:
    """Namespace and device for a backend that the caller asked for by name.

    Raises ImportError if the library is missing, ValueError for an unknown name or a device that
    the library does not have, RuntimeError if there is no GPU.
    """
    xp = _find_namespace(backend)
    _require_driver(xp)
    missing = missing_functions(xp)
    if missing:
        raise ValueError(
            f"backend must offer the array API standard; {backend_name(xp)} lacks {missing}. Use "
            "one that has it, such as 'numpy' or 'torch'"
        )
    return Place(xp, _find_device(xp, device))


def missing_functions(xp: Any) -> str:
    """The functions of the standard that are used here and that a library lacks, in words."""
    if backend_name(xp) in _LIBRARIES:
        return ""
    missing = [name for name in FUNCTIONS if not _has(xp, name)]
    words = ", ".join(missing[:3])
    return f"{words} and {len(missing) - 3} more" if len(missing) > 3 else words


def _has(xp: Any, name: str) -> bool:
    try:
        return callable(operator.attrgetter(name)(xp))
    except AttributeError:
        return False


def describe_backend(name: str) -> str:
    """The devices of a backend, or in a line why it cannot be used here."""
    try:
        place = find_place(name)
    except Exception as error:  # a report of what is wrong must not end by it
        return first_line(error)
    return ", ".join(dict.fromkeys(map(device_name, [place.device, *_devices(place.xp)])))


def _find_namespace(backend: str | ModuleType) -> ModuleType:
    # `torch`, `cupy` and the like are meant as their standard-conforming wrappers.
    name = backend if isinstance(backend, str) else str(getattr(backend, "__name__", ""))
    if name in _LIBRARIES:
        return _load(name)
    if isinstance(backend, str) or not (name and hasattr(backend, "asarray")):
        raise ValueError(
            f"backend must be one of {', '.join(map(repr, BACKENDS))}, an array-API namespace "
            f"or None (follow X); got {backend!r}"
        )
    return backend


def _load(name: str) -> ModuleType:
    module, package = _LIBRARIES[name]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"backend={name!r} needs a library that cannot be imported here ({error}); "
            f"install it with: {pip_install(package)}"
            + " (cupy-cuda13x for CUDA 13)"
            * (name == "cupy")
        ) from error


def _require_driver(xp: ModuleType) -> None:
    # CuPy and dpnp can be imported without one.
    if compat.is_cupy_namespace(xp) and not xp.cuda.is_available():
        raise RuntimeError(
            "backend='cupy' needs a CUDA GPU and its driver, and none was found; "
            "use backend='numpy' to compute on the CPU"
        )
    if is_dpnp(xp) and not importlib.import_module("dpctl").get_devices():
        raise RuntimeError(
            "backend='dpnp' needs a SYCL device and its driver, and none was found; install the "
            "driver of your GPU or, for the CPU, intel-opencl-rt, or use backend='numpy'"
        )


def _find_device(xp: ModuleType, device: object) -> Any:
    try:
        return compat.device(xp.empty(0, device=_as_device(xp, device)))
    except Exception as error:  # each library raises its own kind
        # A CPU build of torch raises AssertionError, a missing GPU RuntimeError, a typo
        # RuntimeError or ValueError: to the user all say "no such device".
        known = ", ".join(map(device_name, _devices(xp)))
        raise ValueError(
            f"device must be a device that {backend_name(xp)} has here ({known}); got {device!r} "
            f"({first_line(error)}). Choose one of them, or leave device=None"
        ) from error


def _as_device(xp: ModuleType, device: object) -> object:
    """Translate 'cpu', 'cuda:1' and the like if a library requires its own object."""
    if not isinstance(device, str):
        return device  # None is the library's default
    if compat.is_cupy_namespace(xp):
        return _cupy_device(xp, device)
    if compat.is_jax_namespace(xp):
        kind, _, index = device.partition(":")
        return jax().devices(kind)[int(index or 0)]
    if compat.is_numpy_namespace(xp) or compat.is_torch_namespace(xp) or is_dpnp(xp):
        return device
    matches = [known for known in _devices(xp) if device in (str(known), device_name(known))]
    return matches[0] if matches else device


def _cupy_device(xp: ModuleType, device: str) -> Any:
    kind, _, index = device.partition(":")
    if kind not in ("cuda", "gpu") or not (index or "0").isdigit():
        raise ValueError("CuPy's devices are 'cuda', 'cuda:0', 'cuda:1', ...")
    return xp.cuda.Device(int(index) if index else None)


def device_name(device: Any) -> str:
    """The name by which `device=` finds a device again."""
    if type(device).__module__.startswith("cupy"):
        return f"cuda:{device.id}"
    device = getattr(device, "sycl_device", device)
    if hasattr(device, "filter_string"):  # of dpnp, such as "level_zero:gpu:0"
        return str(device.filter_string)
    name = str(getattr(device, "_device", device))  # array-api-strict keeps it there
    return name.replace("TFRT_CPU_", "cpu:")  # an older JAX does not know its CPUs by that name


def _devices(xp: ModuleType) -> list[Any]:
    try:
        if compat.is_jax_namespace(xp):
            return list(jax().devices())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of devices that are tried and not there
            return [d for d in xp.__array_namespace_info__().devices() if str(d) != "meta"]
    except Exception:  # a list of devices is only there to help the message
        return []


def is_dpnp(xp: Any) -> bool:
    return backend_name(xp) == "dpnp"


def jax() -> ModuleType:
    return importlib.import_module("jax")


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def is_sparse(x: object) -> bool:
    """Whether `x` is a sparse matrix of SciPy, CuPy or torch that can be computed with."""
    return has_csr(x) or str(getattr(x, "layout", "")).startswith("torch.sparse_")


def has_csr(x: object) -> bool:
    """Whether `x` is a sparse matrix of SciPy or CuPy."""
    return _sparse_class(x) is not None


def plain_sparse(x: Any) -> Any:
    """The same values without a subclass, which may slice in its own way as AnnData's views do."""
    kind = _sparse_class(x)
    return x if kind is None or kind is type(x) else kind(x)


def _sparse_class(x: object) -> Any:
    libraries = ("scipy.sparse", "cupyx.scipy.sparse")
    return next((kind for kind in type(x).__mro__ if kind.__module__.startswith(libraries)), None)


class Matrix:
    """A matrix of ours that is not an array of a library: it has a shape, a dtype and a place."""

    shape: tuple[int, int]

    @property
    def dtype(self) -> Any:
        """Of its values."""
        raise NotImplementedError

    @property
    def place(self) -> Place:
        """Where its values are."""
        raise NotImplementedError

    def move(self, place: Place) -> Matrix:
        """The same in another library or on another device."""
        raise NotImplementedError


def is_accelerated(place: Place) -> bool:
    """Whether a place is a GPU or another accelerator."""
    xp, device = place
    if xp is NUMPY.xp:
        return False
    if compat.is_cupy_namespace(xp):
        return True
    if compat.is_torch_namespace(xp):
        return bool(device.type != "cpu")
    if is_dpnp(xp):
        return bool(device.sycl_device.is_gpu)
    if not compat.is_jax_namespace(xp):
        return False
    # What is traced has no device yet.
    return bool((jax().default_backend() if device is None else device.platform) != "cpu")
