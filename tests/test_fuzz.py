"""Some hundred problems of the fuzzer, and whether its judge can be trusted.

`make fuzz` runs twenty thousand.
"""

import warnings
from fractions import Fraction

import fuzz
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).eps > 1e-18, reason="this machine has no extended precision"
)
PER_CHUNK = 30


@pytest.mark.parametrize("chunk", range(14))
def test_models_are_within_their_bounds(chunk):
    failures, _ = fuzz.run_many(range(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK))
    assert not failures, "\n".join(
        f"python tests/fuzz.py --only {failure.seed}  # {failure.form}: {failure}"
        for failure in failures
    )


@pytest.fixture(autouse=True)
def quiet_oracle():
    with np.errstate(all="ignore"):
        yield


def judged(problem, model):
    judge = fuzz.Judge(problem, fuzz.find_truth(problem))
    judge.model(model)
    return judge


@pytest.mark.parametrize("chunk", range(4))
def test_bounds_are_attainable(chunk):
    for seed in range(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK):
        problem = fuzz.make_problem(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            judge = judged(problem, fuzz.fit_carefully(problem))
        assert not judge.representable or not judge.failures, (seed, judge.failures)


def drop_the_first(model):
    model.components, model.eigenvalues = model.components[1:], model.eigenvalues[1:]
    model.n_positive -= 1


def miscount(model):
    model.n_positive -= 1


def shift_an_eigenvalue(model):
    model.eigenvalues = model.eigenvalues * (1 + 1e-9)


def tilt(model):
    model.components = model.components.copy()
    model.components[0, :2] += 1e-6


def claim_an_angle(model):
    model.angle_bound = 1e-8
    tilt(model)


def say_nothing_of_the_angle(model):
    model.angle_bound = np.inf


def swap(model):
    model.components = model.components[::-1]


def shift_the_mean(model):
    model.mean = model.mean + 1e-9


def lose_a_sample(model):
    model.counts = model.counts - 1


def be_no_number(model):
    model.eigenvalues = np.full_like(model.eigenvalues, np.nan)


@pytest.mark.parametrize(
    ("tamper", "kinds"),
    [
        (drop_the_first, {"components", "eigenvalues", "n_positive", "subspace"}),
        (miscount, {"n_positive"}),
        (shift_an_eigenvalue, {"eigenvalues", "quotient"}),
        (tilt, {"orthonormal", "subspace"}),
        (claim_an_angle, {"angle bound"}),
        (say_nothing_of_the_angle, {"angle bound"}),
        (swap, {"quotient"}),
        (shift_the_mean, {"mean"}),
        (lose_a_sample, {"counts"}),
        (be_no_number, {"not finite"}),
    ],
)
def test_judge_detects_wrong_models(tamper, kinds):
    rng = np.random.default_rng(5)
    drawn = fuzz.blobs(rng, (60, 8, 4), decay=0.2)
    drawn["X"] += 10 * np.eye(8)[drawn["y"]]
    problem = fuzz.Problem(0, "blobs", drawn["X"], drawn["y"], 3, "scatter", "C")
    model = fuzz.fit_carefully(problem)
    assert not judged(problem, model).failures
    assert model.n_positive == 3
    tamper(model)
    assert {failure.kind for failure in judged(problem, model).failures} >= kinds


def test_oracle_has_more_digits_than_float64():
    rows = np.random.default_rng(6).standard_normal((50, 4)).astype(np.longdouble) ** 9
    found = fuzz.gram(rows)
    columns = [[as_fraction(x) for x in column] for column in rows.T]
    for i, a in enumerate(columns):
        for j, b in enumerate(columns):
            exact = sum(x * y for x, y in zip(a, b, strict=True))
            scale = float(found[i, i] * found[j, j]) ** 0.5
            assert abs(float(as_fraction(found[i, j]) - exact)) < 1e-18 * scale


def as_fraction(x):
    high = np.float64(x)
    return Fraction(float(high)) + Fraction(float(x - high))
