"""Replacing functions of the backend for a test, in every module that calls them by name."""

from slce_xp import _backend
from slce_xp._backend import sparse, transfer


def replace_in_backend(monkeypatch, name, value):
    for module in (_backend, sparse, transfer):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, value)
