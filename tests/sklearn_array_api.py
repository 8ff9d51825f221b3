"""scikit-learn's array-API checks of SLCE, in a process of their own: prints them as JSON.

They skip themselves unless SciPy was told before it was imported, and what skips in silence
shows nothing: `test_estimator.py` looks at what ran.
"""

import itertools
import json
import os
import warnings
from functools import partial
from unittest import SkipTest

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_array_api_input_and_values,
    estimator_checks_generator,
)

from slce_xp import SLCE

SOLVERS = ("auto", "scatter", "gram", "krylov")
PLACES = (("numpy", None), ("torch", "cpu"), ("array_api_strict", "device1"))


def checks():
    """The name, the options and the function of each check."""
    for estimator, check in estimator_checks_generator(SLCE()):
        if isinstance(check, partial) and check.func.__name__.startswith("check_array_api"):
            yield check.func.__name__, check.keywords, partial(check, estimator)
    # Values of every form: scikit-learn's checks cover only types and shapes.
    for solver, place, dtype, weighted in itertools.product(
        SOLVERS, PLACES, ("float32", "float64"), (False, True)
    ):
        options = {
            "array_namespace": place[0],
            "device_name": place[1],
            "dtype_name": dtype,
            "check_sample_weight": weighted,
        }
        check = partial(check_array_api_input_and_values, "SLCE", SLCE(solver=solver), **options)
        yield check.func.__name__, {"solver": solver, **options}, check
    yield "check_pipeline_on_torch", {}, check_pipeline_on_torch


def check_pipeline_on_torch():
    """A pipeline stays where X is; labels are strings, which no device holds."""
    import torch

    X = np.random.default_rng(0).normal(size=(60, 5))
    y = np.repeat(["ant", "bee", "cat"], 20)
    X[y == "bee", 0] += 9
    X[y == "cat", 1] += 9
    pipeline = make_pipeline(StandardScaler(), SLCE(2))
    expected = pipeline.fit_transform(X, y)
    with config_context(array_api_dispatch=True):
        found = pipeline.fit_transform(torch.asarray(X), y)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)
    assert list(pipeline[-1].classes_) == ["ant", "bee", "cat"]


def outcome(check):
    try:
        check()
    except SkipTest as skipped:
        return f"skipped: {skipped}"
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"
    return "passed"


if __name__ == "__main__":
    warnings.simplefilter("error")
    print(
        json.dumps(
            [
                {"check": name, "options": str(options), "outcome": outcome(check)}
                for name, options, check in checks()
            ]
        )
    )
