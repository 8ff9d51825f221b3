"""An array library that offers the array API standard and nothing else.

Values are held by array-api-strict, but nobody can reach them there: no `__array__`, no buffer,
no attribute of NumPy's. They enter by `from_dlpack` and leave by `__dlpack__` with an explicit
copy to the host. There are two devices, neither of which is the CPU, and arrays of both never mix.

`without("linalg.eigh")` is the same library without some functions.
"""

import sys
import types
from dataclasses import dataclass

import array_api_strict as strict
import numpy as np

HOST = (1, 0)  # DLPack's name for the CPU
EXTENSION = 12  # and for a device that it does not know


@dataclass(frozen=True)
class Device:
    index: int

    def __str__(self):
        return f"bare:{self.index}"


DEVICES = (Device(0), Device(1))

OPERATORS = (
    *("abs", "neg", "pos", "invert", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow"),
    *("matmul", "and", "or", "xor", "lshift", "rshift", "lt", "le", "gt", "ge", "eq", "ne"),
    *("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "rmatmul", "rand", "ror"),
    *("rxor", "rlshift", "rrshift", "bool", "float", "int", "complex", "index"),
)
CREATION = {
    *("arange", "asarray", "empty", "empty_like", "eye", "full", "full_like", "linspace", "ones"),
    *("ones_like", "zeros", "zeros_like"),
}


class Array:
    def __init__(self, held, device):
        self._held = held
        self.device = device

    dtype = property(lambda self: self._held.dtype)
    ndim = property(lambda self: self._held.ndim)
    shape = property(lambda self: self._held.shape)
    size = property(lambda self: self._held.size)
    T = property(lambda self: Array(self._held.T, self.device))
    mT = property(lambda self: Array(self._held.mT, self.device))  # noqa: N815

    def __array_namespace__(self, *, api_version=None):
        return sys.modules[__name__]

    def to_device(self, device, /, *, stream=None):
        return Array(strict.asarray(self._held, copy=True), as_device(device))

    def __dlpack_device__(self):
        return EXTENSION, self.device.index

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device != HOST or not copy:
            raise BufferError(f"{self.device} hands out copies on the host only")
        return to_numpy(self).__dlpack__(max_version=max_version)

    def __getitem__(self, key):
        return called(strict.empty(0).__class__.__getitem__, self, key)

    def __setitem__(self, key, value):
        called(strict.empty(0).__class__.__setitem__, self, key, value)

    def __repr__(self):  # without values
        return f"Array({self.shape}, {self.dtype}, {self.device})"


def _operator(name):
    original = getattr(type(strict.empty(0)), name)
    return lambda *arrays: called(original, *arrays)


for operator in OPERATORS:
    setattr(Array, f"__{operator}__", _operator(f"__{operator}__"))


def put(values, device):
    """An array of NumPy's values, past `from_dlpack`."""
    return Array(strict.asarray(np.array(values)), device)


def to_numpy(x):
    """A copy of an array's values, past `__dlpack__`."""
    return np.array(x._held)


def as_device(device):
    if device is None:
        return DEVICES[0]
    if device not in DEVICES:
        raise ValueError(f"there is no device {device!r}")
    return device


def called(function, *args, **options):
    """What a function of array-api-strict makes of the held arrays, on their device."""
    devices = set()
    args, options = _unwrapped((args, options), devices)
    if len(devices) > 1:
        raise ValueError(f"arrays on {' and '.join(sorted(map(str, devices)))} do not mix")
    if "device" in options:
        devices = {as_device(options.pop("device"))}
    device = devices.pop() if devices else DEVICES[0]
    return _wrapped(function(*args, **options), device)


def _unwrapped(x, devices):
    if isinstance(x, Array):
        devices.add(x.device)
        return x._held
    if isinstance(x, (tuple, list)):
        return type(x)(_unwrapped(item, devices) for item in x)
    if isinstance(x, dict):
        return {name: _unwrapped(item, devices) for name, item in x.items()}
    if isinstance(x, (np.ndarray, type(strict.empty(0)))) or (
        isinstance(x, np.generic) and not isinstance(x, (float, complex))
    ):
        raise TypeError(f"a {type(x).__name__} is not an array of this library")
    return x


def _wrapped(x, device):
    if isinstance(x, type(strict.empty(0))):
        return Array(x, device)
    if isinstance(x, tuple):
        items = [_wrapped(item, device) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return x


def from_dlpack(x, /, *, device=None, copy=None):
    if isinstance(x, Array):
        return x.to_device(device if device is not None else x.device)
    return Array(strict.asarray(np.from_dlpack(x), copy=True), as_device(device))


class Info:
    def capabilities(self):
        return strict.__array_namespace_info__().capabilities()

    def default_device(self):
        return DEVICES[0]

    def default_dtypes(self, *, device=None):
        return strict.__array_namespace_info__().default_dtypes()

    def dtypes(self, *, device=None, kind=None):
        return strict.__array_namespace_info__().dtypes(kind=kind)

    def devices(self):
        return list(DEVICES)


def __array_namespace_info__():  # noqa: N807 -- the standard's name
    return Info()


def _of(module):
    """The wrapped functions of a module of array-api-strict; dtypes and constants as they are."""
    found = {}
    for name in module.__all__:
        value = getattr(module, name)
        is_function = isinstance(value, types.FunctionType)
        found[name] = _function(value) if is_function else value
    return found


def _function(original):
    def function(*args, **options):
        return called(original, *args, **options)

    return function


linalg = types.SimpleNamespace(**_of(strict.linalg))
for _name, _value in _of(strict).items():
    globals().setdefault(_name, _value)


def without(*names):
    """This library without some functions, such as "linalg.eigh"."""
    lacking = types.ModuleType(__name__)
    vars(lacking).update(globals())
    lacking.linalg = types.SimpleNamespace(**vars(linalg))
    for name in names:
        owner, _, function = name.rpartition(".")
        delattr(getattr(lacking, owner) if owner else lacking, function)
    return lacking
