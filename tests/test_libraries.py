"""Unknown array libraries: what they must provide, and the errors if they do not."""

import ast
import re
from pathlib import Path

import numpy as np
import oracle
import pytest

import slce_xp
from slce_xp._backend import places, to_host

bare = pytest.importorskip("bare_standard", reason="array-api-strict is not installed")

X, CODES = oracle.blobs(30, 4, 3, seed=41)
EIGENVALUES = slce_xp.fit(X, CODES).eigenvalues


def refusal(x, error=TypeError, **options):
    with pytest.raises(error) as raised:
        slce_xp.fit(x, CODES, **options)
    assert getattr(raised.value, "parameter", "X") in ("X", "backend", "device")
    return str(raised.value)


# ---------------------------------------------------------------- functions of the standard


def called_of_namespaces(code):
    """Names of what a source file calls or reads of ``xp``, such as "linalg.qr"."""
    for node in ast.walk(ast.parse(code)):
        found = re.fullmatch(r"(?:\w+\.)*?xp\.((?:linalg\.)?\w+)", chain_of(node))
        if found:
            yield found[1]


def chain_of(node):
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *reversed(names)]).lstrip(".")


def test_required_functions_are_those_that_are_called():
    files = Path(slce_xp.__file__).parent.rglob("*.py")
    called = {name for path in files for name in called_of_namespaces(path.read_text("utf-8"))}
    called -= {"__name__", "cuda", "float32", "float64", "int8", "int64", "linalg"}
    assert called == set(places.FUNCTIONS)


@pytest.mark.parametrize("name", ["linalg.eigh", "linalg.solve", "cumulative_sum"])
def test_library_without_a_function_raises_and_names_it(monkeypatch, name):
    lacking = bare.without(name)
    message = refusal(X, ValueError, backend=lacking)
    assert f"must offer the array API standard; bare_standard lacks {name}. Use" in message
    x = bare.put(X, bare.DEVICES[0])
    monkeypatch.setattr(bare.Array, "__array_namespace__", lambda self, **_: lacking)
    assert f"bare_standard lacks {name}. Convert X" in refusal(x)


def test_many_missing_functions_are_counted():
    lacking = bare.without("linalg.eigh", "linalg.qr", "linalg.solve", "take", "sum", "mean")
    assert "lacks linalg.eigh, linalg.qr, linalg.solve and 3 more" in refusal(
        X, ValueError, backend=lacking
    )


def test_arrays_without_a_device_raise(monkeypatch):
    x = bare.put(X, bare.DEVICES[0])
    del x.device  # as of mlx
    assert "bare_standard lacks array.device" in refusal(x)


# ---------------------------------------------------------------- ways in and out


def test_values_are_read_without_dlpack(monkeypatch):
    monkeypatch.setattr(bare.Array, "__dlpack__", refuse_export)
    monkeypatch.setattr(bare.Array, "asnumpy", bare.to_numpy, raising=False)
    np.testing.assert_array_equal(to_host(bare.put(X, bare.DEVICES[1])), X)


def refuse_export(self, **options):
    raise BufferError("this library does not export")


def test_unreadable_values_raise(monkeypatch):
    monkeypatch.setattr(bare.Array, "__dlpack__", refuse_export)
    message = refusal(bare.put(X, bare.DEVICES[1]))
    assert message.startswith("the values of an array of bare_standard on bare:1 cannot be read (")
    assert "this library does not export" in message
    assert message.endswith("Convert it to NumPy first, in that library's own way")


def test_library_that_rejects_numpy_arrays_raises(monkeypatch):
    def from_dlpack(x, /, *, device=None, copy=None):
        raise BufferError("no import either")

    monkeypatch.setattr(bare, "from_dlpack", from_dlpack)
    message = refusal(X, backend=bare)
    assert message.startswith("bare_standard on bare:0 does not take float64 arrays of NumPy")
    assert "float32" not in message  # the dtype is not the cause


def test_float64_in_a_library_without_it_raises(monkeypatch):
    def from_dlpack(x, /, *, device=None, copy=None, original=bare.from_dlpack):
        if x.dtype == np.float64:
            raise TypeError("what is float64?")
        return original(x, device=device)

    class Single(bare.Info):
        def dtypes(self, *, device=None, kind=None):
            return {"float32": bare.float32}

    monkeypatch.setattr(bare, "from_dlpack", from_dlpack)
    monkeypatch.setattr(bare, "__array_namespace_info__", Single)
    message = refusal(X, backend=bare)
    assert message.startswith("bare_standard on bare:0 cannot hold float64 (what is float64?)")
    slce_xp.fit(X.astype(np.float32), CODES, backend=bare)


@pytest.mark.parametrize("change", ["read-only", "reversed"])
def test_numpy_arrays_of_any_memory_layout(change):
    x = X[::-1] if change == "reversed" else X.copy()
    codes = CODES[::-1] if change == "reversed" else CODES
    x.flags.writeable = change != "read-only"
    model = slce_xp.fit(x, codes, backend=bare)
    np.testing.assert_allclose(bare.to_numpy(model.eigenvalues), EIGENVALUES, rtol=1e-12)


def test_advice_names_the_namespace_of_a_library_without_a_name():
    x = bare.put(X, bare.DEVICES[1])
    assert "pass backend=bare_standard with" in refusal(x, ValueError, device="bare:0")
    with pytest.raises(ValueError, match=r"model\.to\(bare_standard, device='bare:1'\)"):
        slce_xp.fit(X, CODES).transform(x)


# ---------------------------------------------------------------- small copies of real libraries


class Tensor:
    """Of a library with a shape, a dtype and items, and no namespace."""

    def __init__(self, values):
        self.values = values
        self.shape = list(values.shape)
        self.dtype = f"tensors.{values.dtype}"

    def __getitem__(self, key):
        return type(self)(self.values[key])

    def __len__(self):
        return len(self.values)


class PaddleLike(Tensor):
    sparse = False

    def is_sparse(self):
        return self.sparse

    def nnz(self):
        return np.count_nonzero(self.values)

    def to_dense(self):
        return self

    def __array__(self, dtype=None, copy=None):
        return self.values


class TinyLike(Tensor):
    def numpy(self):
        return self.values


def test_dense_tensor_that_counts_its_nonzeros_is_dense():
    np.testing.assert_array_equal(slce_xp.fit(PaddleLike(X), CODES).eigenvalues, EIGENVALUES)


def test_sparse_tensor_of_an_unknown_library_raises(monkeypatch):
    monkeypatch.setattr(PaddleLike, "sparse", True)
    assert "got a sparse PaddleLike. If memory allows: X.to_dense()" in refusal(PaddleLike(X))


def test_tensor_that_numpy_would_iterate_over_raises():
    assert refusal(TinyLike(X)).endswith("got TinyLike. Convert it: X.numpy()")


class Lazy:
    """Of a library with a namespace and without DLPack, as cubed and blosc2."""

    def __init__(self, values, in_numpy):
        self.values = values
        self.shape, self.dtype, self.in_numpy = values.shape, values.dtype, in_numpy
        self.longest = 0

    def __array_namespace__(self, api_version=None):
        raise AssertionError("it is read, not computed with")

    def __getitem__(self, key):
        self.longest = max(self.longest, key.stop - key.start)
        rows = self.values[key]
        return rows if self.in_numpy else Lazy(rows, in_numpy=False)

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.mark.parametrize("in_numpy", [True, False], ids=["like blosc2", "like cubed"])
def test_array_without_dlpack_is_read_in_blocks(monkeypatch, in_numpy):
    monkeypatch.setattr("slce_xp._planning.problem.READ_BLOCK", 7 * X.shape[1] * X.itemsize)
    x = Lazy(X, in_numpy)
    model = slce_xp.fit(x, CODES)
    np.testing.assert_allclose(model.eigenvalues, EIGENVALUES, rtol=1e-12)
    assert 0 < x.longest < len(X)


def test_masked_array_raises(monkeypatch):
    monkeypatch.setattr(bare.Array, "mask", False, raising=False)  # as of marray
    monkeypatch.setattr(bare.Array, "data", None, raising=False)
    message = refusal(bare.put(X, bare.DEVICES[0]))
    assert message.startswith("X must not be a masked array")
    assert message.endswith("xp.where(X.mask, value, X.data)")


def test_array_with_units_raises(monkeypatch):
    monkeypatch.setattr(bare.Array, "unit", "km", raising=False)  # as of unxt
    message = refusal(bare.put(X, bare.DEVICES[0]))
    assert message.startswith("X must hold plain numbers; got a Array in units of km")
    assert message.endswith("Take its values: X.value")
