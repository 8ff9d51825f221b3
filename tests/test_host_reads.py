"""The watch over array-api-strict finds reads of slce_xp, and only those."""

import os
import sys

import numpy as np
import pytest
from conftest import make_backend

import slce_xp
from slce_xp import _backend

strict = pytest.importorskip("array_api_strict")


def planted(expression):
    """A function that seems to stand in line 3 of a file of slce_xp."""
    source = f"\n\nread = lambda x, strict, np: {expression}"
    namespace = {}
    file = os.path.join(os.path.dirname(slce_xp.__file__), "_planted.py")
    exec(compile(source, file, "exec"), namespace)
    return lambda x: namespace["read"](x, strict, np)


# What NumPy reads by, if it can.
BUFFER = "__buffer__" if sys.version_info >= (3, 12) else "__array__"


@pytest.mark.parametrize(
    ("method", "expression"),
    [
        ("__float__", "float(x[0])"),
        ("__int__", "int(strict.astype(x[0], strict.int64))"),
        ("__bool__", "1 if strict.all(x == x) else 0"),
        ("__bool__", "max(x[0], x[1])"),
        ("__complex__", "complex(x[0])"),
        ("__index__", "range(strict.sum(strict.astype(x, strict.int64)))"),
        (BUFFER, "np.asarray(x)"),
        (BUFFER, "np.stack([np.asarray(x)])"),
        ("__dlpack__", "np.from_dlpack(x)"),
        ("__str__", "f'{x[0]}'"),
    ],
)
def test_hidden_read_fails_with_file_and_line(method, expression):
    with (
        pytest.raises(AssertionError, match=rf"{method} at .*slce_xp.*_planted\.py:3"),
        make_backend("strict") as backend,
    ):
        planted(expression)(backend.array([1.0, 2.0]))


def test_reads_by_to_host_and_by_tests_are_allowed():
    with make_backend("strict") as backend:
        x = backend.array([1.0, 2.0])
        assert float(x[0]) == 1.0
        assert _backend.to_host(x).tolist() == [1.0, 2.0]
        assert planted("float(np.ones(1)[0])")(x) == 1.0  # NumPy's own
        assert backend.numpy(x).tolist() == [1.0, 2.0]


def test_watch_is_removed_on_exit():
    before = dict(vars(type(strict.empty(0))))
    with make_backend("strict"):
        assert vars(type(strict.empty(0))) != before
    assert vars(type(strict.empty(0))) == before
