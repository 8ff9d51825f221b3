"""The door to the array libraries: the only file that names them.

Everything above this file speaks the Python array API and asks here for what the
standard leaves open: which namespace and device an array has, how it moves, how a
host value is read, and where one library has a better routine than the standard.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import traceback
import warnings
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

Array = Any  # no static type covers every array library

# Public name -> (module of the standard's functions, how to install it).
_LIBRARIES = {
    "numpy": ("array_api_compat.numpy", "pip install numpy"),
    "cupy": ("array_api_compat.cupy", "pip install 'slce-xp[cupy-cuda12]' (or cupy-cuda13)"),
    "torch": ("array_api_compat.torch", "pip install 'slce-xp[torch]'"),
    "jax": ("jax.numpy", "pip install 'slce-xp[jax]'"),
    "array_api_strict": ("array_api_strict", "pip install array-api-strict"),
}
BACKENDS = tuple(_LIBRARIES)

# Size from which SciPy's subset driver beats NumPy's full eigensolver: SciPy has a BLAS of its
# own, whose threads compete with NumPy's for a while, so small problems lose by it.
SUBSET_FROM = 400


class Place(NamedTuple):
    """Where arrays live: the namespace that computes with them and their device."""

    xp: Any
    device: Any

    def __str__(self) -> str:
        return f"{backend_name(self.xp)} on {device_name(self.device)}"


_NUMPY = Place(compat.array_namespace(np.empty(0)), compat.device(np.empty(0)))

# ---------------------------------------------------------------- namespaces and devices


def is_array(x: object) -> bool:
    """Whether `x` is a dense array of a library that computes eagerly."""
    return (
        compat.is_array_api_obj(x)
        and not compat.is_dask_array(x)
        and not compat.is_pydata_sparse_array(x)
    )


def place_of(x: Array) -> Place:
    """Namespace and device of an array."""
    if type(x) is np.ndarray:  # asked often enough for small fits to feel the long way
        return _NUMPY
    if isinstance(x, Matrix):
        return x.place
    if compat.is_dask_array(x):
        return place_of(Sparse(x._meta) if is_sparse(x._meta) else x._meta)
    return Place(compat.array_namespace(x), compat.device(x))


def namespace_of(x: Array) -> Any:
    """The functions for an array: also for a Dask array, which is computed with where it is."""
    return compat.array_namespace(x) if compat.is_dask_array(x) else place_of(x).xp


def is_dask(x: object) -> bool:
    """Whether `x` is a Dask array."""
    return compat.is_dask_array(x)


def backend_name(xp: ModuleType) -> str:
    """Return the name by which users call a namespace."""
    for name, (module, _) in _LIBRARIES.items():
        if xp.__name__ == module:
            return name
    return xp.__name__


def find_place(backend: str | ModuleType, device: object = None) -> Place:
    """Namespace and device for a backend that the caller asked for by name.

    Raises ImportError where the library is missing, ValueError for an unknown name or
    a device the library does not have, RuntimeError where there is no GPU.
    """
    xp = _load(backend) if isinstance(backend, str) else _as_namespace(backend)
    if compat.is_cupy_namespace(xp):
        _require_cuda_for_cupy(xp)
    return Place(xp, _find_device(xp, device))


def describe_backend(name: str) -> str:
    """The devices of a backend, or in a line why it cannot be used here."""
    try:
        place = find_place(name)
    except Exception as error:  # a report of what is wrong must not end by it
        return _first_line(error)
    return ", ".join(dict.fromkeys(map(device_name, [place.device, *_devices(place.xp)])))


def _load(name: str) -> ModuleType:
    if name not in _LIBRARIES:
        raise ValueError(
            f"backend must be one of {', '.join(map(repr, BACKENDS))}, an array-API namespace "
            f"or None (follow X); got {name!r}"
        )
    module, install = _LIBRARIES[name]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"backend={name!r} needs a library that cannot be imported here ({error}); "
            f"install it with: {install}"
        ) from error


def _as_namespace(backend: object) -> ModuleType:
    if not hasattr(backend, "asarray") or not hasattr(backend, "__name__"):
        raise ValueError(
            f"backend must be one of {', '.join(map(repr, BACKENDS))}, an array-API namespace "
            f"or None (follow X); got {backend!r}"
        )
    # `torch`, `cupy` and the like are meant as their standard-conforming wrappers.
    name = str(backend.__name__)
    return _load(name) if name in _LIBRARIES else backend  # type: ignore[return-value]


def _require_cuda_for_cupy(xp: ModuleType) -> None:
    # `import cupy` succeeds without a driver, so only this question tells.
    if not xp.cuda.is_available():
        raise RuntimeError(
            "backend='cupy' needs a CUDA GPU and its driver, and none was found; "
            "use backend='numpy' to compute on the CPU"
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
            f"({_first_line(error)}). Choose one of them, or leave device=None"
        ) from error


def _as_device(xp: ModuleType, device: object) -> object:
    """Translate 'cpu', 'cuda:1' and the like where a library wants its own object."""
    if not isinstance(device, str):
        return device  # None is the library's default
    if compat.is_cupy_namespace(xp):
        kind, _, index = device.partition(":")
        if kind not in ("cuda", "gpu") or not (index or "0").isdigit():
            raise ValueError("CuPy's devices are 'cuda', 'cuda:0', 'cuda:1', ...")
        return xp.cuda.Device(int(index) if index else None)
    if compat.is_jax_namespace(xp):
        kind, _, index = device.partition(":")
        return _jax().devices(kind)[int(index or 0)]
    if compat.is_numpy_namespace(xp) or compat.is_torch_namespace(xp):
        return device
    matches = [known for known in _devices(xp) if device in (str(known), device_name(known))]
    return matches[0] if matches else device


def device_name(device: Any) -> str:
    """The name by which `device=` finds a device again."""
    if type(device).__module__.startswith("cupy"):
        return f"cuda:{device.id}"
    name = str(getattr(device, "_device", device))  # array-api-strict keeps it there
    return name.replace("TFRT_CPU_", "cpu:")  # an older JAX does not know its CPUs by that name


def _devices(xp: ModuleType) -> list[Any]:
    try:
        if compat.is_jax_namespace(xp):
            return list(_jax().devices())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of devices that are tried and not there
            return [d for d in xp.__array_namespace_info__().devices() if str(d) != "meta"]
    except Exception:  # a list of devices is only there to help the message
        return []


def _jax() -> ModuleType:
    return importlib.import_module("jax")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# ---------------------------------------------------------------- moving values


def to_host(x: Array) -> np.ndarray:
    """Read an array as NumPy: the one way values leave a device.

    Every call waits for the device, so the number of calls is the number of host
    synchronisations of a computation.
    """
    if isinstance(x, np.ndarray):
        return x
    if compat.is_cupy_array(x):
        return x.get()  # type: ignore[no-any-return]
    if compat.is_torch_array(x):
        return _torch_to_host(x)
    if not compat.is_jax_array(x):
        x = compat.to_device(
            x, compat.array_namespace(x).__array_namespace_info__().default_device()
        )
    return np.asarray(x)


def _torch_to_host(x: Array) -> np.ndarray:
    x = x.detach().cpu()
    if str(x.dtype) == "torch.bfloat16":  # NumPy has no such type; float32 holds it exactly
        x = x.float()
    return x.numpy()  # type: ignore[no-any-return]


def from_host(values: np.ndarray, place: Place, dtype: Any = None) -> Array:
    """Put a NumPy array where `place` says; shares memory where the library can."""
    xp, device = place
    if compat.is_numpy_namespace(xp):
        return xp.asarray(values, dtype=dtype)
    # No other library has a foreign byte order or floats longer than float64.
    native = (
        np.dtype(np.float64) if values.dtype == np.longdouble else values.dtype.newbyteorder("=")
    )
    # Converted here, not over there: the device never holds both.
    values = values.astype(native if dtype is None else dtype_name(dtype), copy=False)
    if compat.is_torch_namespace(xp) and (
        not values.flags.writeable or any(stride < 0 for stride in values.strides)
    ):
        # Torch refuses negative strides and warns that it could write to read-only memory.
        values = values.copy()
    try:
        return xp.asarray(values, dtype=dtype, device=device)
    except (TypeError, ValueError) as error:
        if values.dtype != np.float64:
            raise
        raise TypeError(
            f"{place} cannot hold float64 ({_first_line(error)}); fit in single precision there, "
            "with X.astype('float32')"
        ) from error


def move(x: Array, place: Place) -> Array:
    """Bring an array of any library to `place`."""
    if isinstance(x, Matrix):
        return x.move(place)
    here = place_of(x)
    if here.xp is place.xp:
        if here.device == place.device:
            return x
        return compat.to_device(x, place.device)
    if _on_accelerator(x) and _is_accelerator(place):
        # From one GPU library to another without a way through the host.
        return compat.to_device(place.xp.from_dlpack(x), place.device)
    return from_host(to_host(x), place)


def _on_accelerator(x: Array) -> bool:
    # CUDA's own and its managed memory: no other device's can be handed over.
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] in (2, 13)


def _is_accelerator(place: Place) -> bool:
    return compat.is_cupy_namespace(place.xp) or "cuda" in str(place.device).lower()


def row_slices_are_views(xp: ModuleType) -> bool:
    """Whether some rows of a matrix can be multiplied without a copy: XLA may make one."""
    return not compat.is_jax_namespace(xp)


def column_slices_are_views(xp: ModuleType) -> bool:
    """Whether some columns can be multiplied without a copy: CuPy makes them contiguous first."""
    return not (compat.is_jax_namespace(xp) or compat.is_cupy_namespace(xp))


def detached(x: Array) -> Array:
    """`x` without its autograd history: a fit is not differentiated."""
    return x.detach() if not isinstance(x, Matrix) and compat.is_torch_array(x) else x


def without_rows(x: Array) -> Array:
    """An array like `x` with no row at all: it tells what `x` would be elsewhere."""
    xp, device = place_of(x)
    return xp.empty((0, x.shape[1]), dtype=x.dtype, device=device)


def copied(x: Array) -> Array:
    """The same values in memory of their own."""
    if isinstance(x, Sparse):
        return x.copy()
    xp, device = place_of(x)
    return xp.asarray(x, copy=True, device=device)


def draw_normal(seed: int, shape: tuple[int, ...], place: Place, dtype: Any) -> Array:
    """Standard normal numbers, the same for every backend: drawn by NumPy and moved."""
    return from_host(np.random.default_rng(seed).standard_normal(shape), place, dtype)


def take_rows(x: Array, positions: np.ndarray) -> Array:
    """Rows of an array or a Sparse at positions that the host knows."""
    if isinstance(x, Sparse):
        return x.only(positions)
    if len(positions) == x.shape[0]:
        return x
    place = place_of(x)
    return place.xp.take(x, from_host(positions, place), axis=0)


def join_rows(parts: list[Array]) -> Array:
    """Blocks of rows below each other."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Sparse):
        return Sparse.joined(parts)
    return place_of(parts[0]).xp.concat(parts, axis=0)


# ---------------------------------------------------------------- sparse matrices


def is_sparse(x: object) -> bool:
    """Whether `x` is a sparse matrix of SciPy, CuPy or torch that can be computed with."""
    return _has_csr(x) or str(getattr(x, "layout", "")).startswith("torch.sparse_")


def _has_csr(x: object) -> bool:
    return type(x).__module__.startswith(("scipy.sparse", "cupyx.scipy.sparse"))


class Matrix:
    """A matrix of ours that is no array of a library: it has a shape, a dtype and a place."""

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


class Sparse(Matrix):
    """A sparse matrix of any library, as far as the core needs one: ``dense @ sparse``.

    Products are always a sparse matrix times a dense one, the kind that every library gets right.

    Parameters
    ----------
    matrix : sparse matrix of SciPy, CuPy or torch, shape (n, d)
        Made compressed rows when it is first computed with, if it is of another kind.
    """

    __array_ufunc__ = None  # NumPy leaves ``array @ sparse`` to us
    __array_priority__ = 1000.0  # and so does CuPy

    def __init__(self, matrix: Any, transposed: bool = False) -> None:
        self._given = matrix
        self._transposed = transposed

    @cached_property
    def _matrix(self) -> Any:
        """As compressed rows: the same memory where it has them already."""
        x = self._given
        if self._is_compressed:
            return x
        return x.tocsr() if _has_csr(x) else x.to_sparse_csr()

    @property
    def _is_compressed(self) -> bool:
        x = self._given
        return x.format == "csr" if _has_csr(x) else str(x.layout) == "torch.sparse_csr"

    @property
    def stored(self) -> int:
        """Stored entries."""
        x = self._given
        return int(x.nnz if _has_csr(x) else x._nnz())

    @property
    def compressing_bytes(self) -> int:
        """What compressed rows will take beside the matrix; 0 where it has them already."""
        x = self._given
        if self._is_compressed:
            return 0
        indices = getattr(x, "indices" if getattr(x, "format", "") == "csc" else "col", None)
        # Of SciPy's others by way of objects; of torch's with long indices.
        index = indices.dtype.itemsize if indices is not None else 64 if _has_csr(x) else 16
        return int(self.stored * (x.dtype.itemsize + index) + 8 * (x.shape[0] + 1))

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and columns."""
        n, d = self._given.shape
        return (int(d), int(n)) if self._transposed else (int(n), int(d))

    @property
    def values(self) -> Array:
        """The stored values, shape (nnz,)."""
        return self._matrix.data if _has_csr(self._matrix) else self._matrix.values()

    @property
    def dtype(self) -> Any:
        """Of the values."""
        return self._given.dtype

    @property
    def place(self) -> Place:
        """Where the values are."""
        x = self._given
        if type(x).__module__.startswith("scipy"):
            return _NUMPY
        return place_of(x.data if _has_csr(x) else x)

    @property
    def T(self) -> Sparse:  # noqa: N802 -- as arrays call it
        """The transpose: the same memory."""
        return Sparse(self._matrix, not self._transposed)

    def __rmatmul__(self, dense: Array) -> Array:
        """Multiply (b, n) by (n, d)."""
        native = _has_csr(self._matrix)
        left = self._matrix
        if not self._transposed:
            left = left.T if native else left.t()
        return (left @ dense.T).T

    def rows(self, index: slice) -> Sparse:
        """Some rows, where `can_slice` says so: torch has no slices of sparse matrices."""
        matrix, start, stop = self._matrix, index.start, index.stop
        if self.place != _NUMPY:
            return Sparse(matrix[start:stop])
        pointers = matrix.indptr[start : stop + 1]
        stored = slice(pointers[0], pointers[-1])
        parts = (matrix.data[stored], matrix.indices[stored], pointers - pointers[0])
        return Sparse(_views(type(matrix), parts, (stop - start, matrix.shape[1])))

    def only(self, positions: np.ndarray) -> Sparse:
        """The rows at some positions, a copy."""
        if len(positions) == self.shape[0]:
            return self
        if _has_csr(self._matrix):
            return Sparse(self._matrix[from_host(positions, self.place)])
        rows = self._matrix.to_sparse_coo().index_select(0, from_host(positions, self.place))
        return Sparse(rows)

    @classmethod
    def joined(cls, parts: list[Sparse]) -> Sparse:
        """Blocks of rows below each other, of SciPy or CuPy."""
        package = type(parts[0]._matrix).__module__.partition(".sparse")[0]
        stack = importlib.import_module(f"{package}.sparse").vstack
        return cls(stack([part._matrix for part in parts], format="csr"))

    @property
    def can_slice(self) -> bool:
        """Whether `rows` can be asked for."""
        return _has_csr(self._given)

    def astype(self, dtype: Any) -> Sparse:
        """With values of another dtype."""
        if self.dtype == dtype:
            return self
        matrix = self._matrix
        if not _has_csr(matrix):
            return Sparse(matrix.to(dtype), self._transposed)
        # Not by its own `astype`, which copies the indices, too.
        parts = (matrix.data.astype(dtype), matrix.indices, matrix.indptr)
        make = _views if self.place == _NUMPY else _compressed
        return Sparse(make(type(matrix), parts, matrix.shape), self._transposed)

    def copy(self) -> Sparse:
        """The same in memory of its own."""
        native = _has_csr(self._matrix)
        return Sparse(self._matrix.copy() if native else self._matrix.clone(), self._transposed)

    def __mul__(self, factor: float) -> Sparse:
        """With values times a number."""
        return Sparse(self._matrix * factor, self._transposed)

    def gram(
        self, weights: Array | None, width: int, scale: float = 1.0, shift: Array | None = None
    ) -> Array:
        """ZᵀZ of weighted rows Z = scale·(X − shift), shape (d, d), dense.

        Made of `width` of its rows at a time, as products with unit vectors: CuPy's product of two
        sparse matrices is not to be relied on.
        """
        xp, _ = self.place
        parts = []
        for columns in self._shifted_columns(width, scale, shift):
            if weights is not None:
                columns = columns * weights
            before, after = factors_of(scale)
            product = columns @ self if scale == 1.0 else ((columns * before) @ self) * after
            if shift is not None:
                product -= xp.sum(columns, axis=1)[:, None] * (shift * scale)
            parts.append(product)
        return xp.concat(parts, axis=0)

    def sum_squares(self, weights: Array, width: int, scale: float, shift: Array) -> Array:
        """Σ w ‖z‖² of weighted rows z = scale·(x − shift), shape ()."""
        xp, _ = self.place
        columns = self._shifted_columns(width, scale, shift)
        return sum(xp.sum((part * part) @ weights) for part in columns)

    def _shifted_columns(self, width: int, scale: float, shift: Array | None) -> Iterator[Array]:
        """All columns of scale·(X − shift), as the rows of dense arrays."""
        for start in range(0, self.shape[1], width):
            columns = self.columns(start, width)
            if shift is not None:
                columns = columns - shift[start : start + width][:, None]
            yield columns if scale == 1.0 else columns * scale

    def columns(self, start: int, width: int) -> Array:
        """Some columns as the rows of a dense array, shape (width or less, n)."""
        xp, device = self.place
        d = self.shape[1]
        units = xp.eye(min(width, d - start), d, k=start, dtype=self.dtype, device=device)
        return units @ self.T

    def row_squares(self) -> Array:
        """Squared length of each row, shape (n,)."""
        matrix, (_, d) = self._matrix, self.shape
        xp, device = self.place
        ones = xp.ones((d, 1), dtype=self.dtype, device=device)
        squares = matrix.multiply(matrix) if _has_csr(matrix) else matrix * matrix
        return xp.reshape(squares @ ones, (-1,))

    def parts(self) -> tuple[Array, Array, Array]:
        """Values, column indices and row pointers."""
        matrix = self._matrix
        if _has_csr(matrix):
            return matrix.data, matrix.indices, matrix.indptr
        return matrix.values(), matrix.col_indices(), matrix.crow_indices()

    def first_not_finite(self) -> tuple[int, int, float] | None:
        """Row, column and value of the first stored NaN or infinity."""
        values, columns, pointers = map(to_host, self.parts())
        wrong = np.flatnonzero(~np.isfinite(values))
        if not wrong.shape[0]:
            return None
        row = int(np.searchsorted(pointers, wrong[0], side="right")) - 1
        return row, int(columns[wrong[0]]), float(values[wrong[0]])

    def move(self, place: Place) -> Sparse:
        """The same in another library or on another device."""
        if place == self.place:
            return self
        parts = tuple(move(part, place) for part in self.parts())
        if compat.is_torch_namespace(place.xp):
            values, columns, rows = parts
            make = importlib.import_module("torch").sparse_csr_tensor
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
                return Sparse(make(rows, columns, values, self.shape, check_invariants=False))
        if compat.is_cupy_namespace(place.xp):
            make = importlib.import_module("cupyx.scipy.sparse").csr_matrix
        elif compat.is_numpy_namespace(place.xp):
            make = importlib.import_module("scipy.sparse").csr_array
        else:
            raise TypeError(
                f"backend must be 'numpy', 'cupy' or 'torch' for a sparse X; got {place}. Use one "
                "of them, or a dense X"
            )
        return Sparse(make(parts, shape=self.shape))


def _compressed(kind: Any, parts: tuple[Array, Array, Array], shape: tuple[int, int]) -> Any:
    return kind(parts, shape=shape)


def _views(kind: Any, parts: tuple[Array, Array, Array], shape: tuple[int, int]) -> Any:
    """Compressed rows of SciPy in the memory of `parts`, of which its own way may make copies."""
    matrix = kind(shape, dtype=parts[0].dtype)
    matrix.data, matrix.indices, matrix.indptr = parts
    return matrix


# ---------------------------------------------------------------- dtypes and arithmetic


def dtype_name(dtype: object) -> str:
    """'float32' for any library's float32."""
    if isinstance(dtype, (type, np.dtype)):  # np.float32 is a class, not a dtype
        return np.dtype(dtype).name
    return str(dtype).rpartition(".")[2]


def factors_of(scale: float) -> tuple[float, float]:
    """Two powers of two with the given product, one to apply before a matrix product, one after.

    Neither overflows where their product would.
    """
    exponent = math.frexp(scale)[1] - 1
    return math.ldexp(1.0, exponent // 2), math.ldexp(1.0, exponent - exponent // 2)


def working_dtype(x: Array) -> Any:
    """The dtype to compute in, or None where `x` has no real numbers.

    float32 and float64 stay, shorter floats become float32, longer ones float64,
    integers and booleans the library's default.
    """
    xp, device = place_of(x)
    name = dtype_name(x.dtype)
    if name in ("float32", "float64"):
        return x.dtype
    if name in ("float16", "bfloat16") or name.startswith("float8"):
        return xp.float32
    if name.startswith("float") or name == "longdouble":
        return xp.float64
    if xp.isdtype(x.dtype, ("bool", "integral")):
        return xp.__array_namespace_info__().default_dtypes(device=device)["real floating"]
    return None


def longest_float(place: Place) -> Any:
    """float64, or what a device has that cannot hold it."""
    xp, device = place
    kinds = xp.__array_namespace_info__().dtypes(device=device, kind="real floating")
    return kinds.get("float64", xp.float32)


@contextlib.contextmanager
def computing(place: Place) -> Iterator[None]:
    """What holds while numbers are worked with: full precision, and errors that say what to do.

    Products keep the precision of their dtype: JAX on its own, and torch where it was allowed
    to, multiply float32 in TF32 on GPUs that have it, which keeps three digits and makes a
    Gram matrix useless. NumPy is quiet about overflow and infinity, which are reported as
    errors of X. A library that runs out of memory raises MemoryError, whatever its own error is.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"), _full_precision(place.xp):
            yield
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # which would hold on to arrays
        raise MemoryError(
            f"{place} ran out of memory ({_first_line(error)}). Free some, use float32 or set "
            "max_memory, which is kept to from the start"
        ) from None


def _is_out_of_memory(error: Exception) -> bool:
    # By name, so that no library need be imported; a plain MemoryError is our own.
    return (
        (isinstance(error, MemoryError) and type(error) is not MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "RESOURCE_EXHAUSTED" in str(error)
    )


@contextlib.contextmanager
def _full_precision(xp: ModuleType) -> Iterator[None]:
    if compat.is_jax_namespace(xp):
        with _jax().default_matmul_precision("highest"):
            yield
    elif compat.is_torch_namespace(xp):
        backends = importlib.import_module("torch").backends
        with contextlib.ExitStack() as restore:
            for products in (backends.cuda.matmul, getattr(backends.mkldnn, "matmul", None)):
                if hasattr(products, "fp32_precision"):
                    _set_for_now(restore, products, "fp32_precision", "ieee")
                elif hasattr(products, "allow_tf32"):  # torch before 2.9
                    _set_for_now(restore, products, "allow_tf32", False)
            yield
    else:
        yield


def _set_for_now(restore: contextlib.ExitStack, owner: object, name: str, value: object) -> None:
    before = getattr(owner, name)
    if before != value:
        restore.callback(setattr, owner, name, before)
        setattr(owner, name, value)


def byte_count(x: Array) -> int:
    """Bytes of a matrix."""
    if isinstance(x, Sparse):
        return sum(int(part.nbytes) for part in x.parts())
    return int(getattr(x, "nbytes", 8 * x.shape[0] * x.shape[1]))  # array-api-strict has none


def free_bytes(place: Place) -> int | None:
    """Bytes that a device can still give, or None where nobody knows: on the host, above all."""
    xp, device = place
    if compat.is_cupy_namespace(xp):
        return _free_for_cupy(device)
    if compat.is_jax_namespace(xp):
        stats = device.memory_stats() or {}
        return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None
    if compat.is_torch_namespace(xp):
        # torch.cuda, torch.xpu and the like
        kind: Any = getattr(importlib.import_module("torch"), device.type, None)
        if not hasattr(kind, "mem_get_info"):
            return None
        free = int(kind.mem_get_info(device)[0])
        if hasattr(kind, "memory_reserved"):  # kept by torch for its next tensors
            free += kind.memory_reserved(device) - kind.memory_allocated(device)
        return free
    return None


def _free_for_cupy(device: Any) -> int | None:
    cupy = importlib.import_module("cupy")
    pool = cupy.get_default_memory_pool()
    if cupy.cuda.get_allocator() != pool.malloc:
        return None  # another allocator holds memory of its own, which CUDA counts as taken
    with device:
        free = cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
        limit = pool.get_limit()
        return int(min(free, limit - pool.used_bytes()) if limit else free)


def cholesky(matrix: Array) -> Array:
    """The lower factor of a positive definite matrix."""
    if _is_large_for_numpy(matrix) and matrix.dtype == np.float32:
        linalg = importlib.import_module("scipy.linalg")
        return linalg.cholesky(matrix, lower=True, check_finite=False)
    return place_of(matrix).xp.linalg.cholesky(matrix)


def solve_upper(factor: Array, right: Array) -> Array:
    """Solve an upper triangular system, (n, n) and (n, k) ↦ (n, k)."""
    if isinstance(factor, np.ndarray):
        linalg = importlib.import_module("scipy.linalg")
        return linalg.solve_triangular(factor, right, check_finite=False)
    return place_of(factor).xp.linalg.solve(factor, right)


def qr(matrix: Array) -> tuple[Array, Array]:
    """Orthonormal columns Q, shape (m, k), and triangular R, shape (k, k), of a tall matrix."""
    # Some SciPys refuse a matrix without columns.
    if _is_large_for_numpy(matrix) and matrix.dtype == np.float32 and matrix.shape[1]:
        linalg = importlib.import_module("scipy.linalg")
        q, r = linalg.qr(matrix, mode="economic", check_finite=False)
        return q, r
    q, r = place_of(matrix).xp.linalg.qr(matrix)
    return q, r


def _is_large_for_numpy(matrix: Array) -> bool:
    """Whether SciPy is the better one.

    It can compute some eigenpairs only, and all of them beside three matrices, not four. NumPy
    factors float32 in double precision, in two to three times the memory.
    """
    return isinstance(matrix, np.ndarray) and matrix.shape[0] > SUBSET_FROM


def largest_eigenpairs(matrix: Array, k: int) -> tuple[Array, Array]:
    """The algebraically largest eigenpairs of a symmetric matrix, in descending order.

    Parameters
    ----------
    matrix : array, shape (m, m)
    k : int

    Returns
    -------
    eigenvalues : array, shape (j,)
        j = k where only those are computed, j = m where the library computes all anyway.
    eigenvectors : array, shape (m, j)
    """
    xp, device = place_of(matrix)
    m = matrix.shape[0]
    some = 0 < 2 * k < m
    if _is_large_for_numpy(matrix):
        chosen = {"subset_by_index": (m - k, m - 1)} if some else {"driver": "evd"}
        linalg = importlib.import_module("scipy.linalg")
        values, vectors = linalg.eigh(matrix, check_finite=False, **chosen)
    else:
        values, vectors = xp.linalg.eigh(matrix)
    # take, not a flipped view: negative strides abort torch when they reach it by DLPack.
    descending = xp.arange(values.shape[0] - 1, -1, -1, device=device)
    return xp.take(values, descending, axis=0), xp.take(vectors, descending, axis=1)
