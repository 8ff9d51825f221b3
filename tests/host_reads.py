"""Detect host reads of array values: on a device each of them is a wait.

array-api-strict lets `float(x)` and its like pass on any of its devices. While `watched` is
open each of them is located, and those that slce_xp makes other than by `to_host` are reported.
"""

import contextlib
import os
import sys

import array_api_compat
import numpy as np
import pytest

import slce_xp
from slce_xp._backend import transfer

READS = (
    "__array__",
    "__bool__",
    "__buffer__",
    "__complex__",
    "__dlpack__",
    "__float__",
    "__index__",
    "__int__",
    "__repr__",
    "__str__",
)


def folder_of(module):
    return os.path.dirname(module.__file__) + os.sep


@contextlib.contextmanager
def watched(library):
    """Yield a list that collects hidden reads, as text."""
    hidden = []
    arrays = type(library.empty(0))

    def logging(name, original):
        def read(self, *args, **kwargs):
            culprit = find_culprit(sys._getframe(1), (library, np, array_api_compat))
            if culprit:
                hidden.append(f"{name} at {culprit}")
            return original(self, *args, **kwargs)

        return read

    with pytest.MonkeyPatch.context() as patch:
        for name in READS:
            if hasattr(arrays, name):
                patch.setattr(arrays, name, logging(name, getattr(arrays, name)))
        yield hidden


def described(hidden):
    return "slce_xp reads values from a device other than by to_host: " + ", ".join(hidden)


def find_culprit(frame, libraries):
    """File and line of the nearest caller outside the libraries, if it is in slce_xp."""
    inside = (__file__, *map(folder_of, libraries))
    while frame and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    if not frame or not frame.f_code.co_filename.startswith(folder_of(slce_xp)):
        return None
    culprit = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    while frame:  # `to_host`, and what it calls, may read
        if (frame.f_code.co_filename, frame.f_code.co_name) == (transfer.__file__, "to_host"):
            return None
        frame = frame.f_back
    return culprit
