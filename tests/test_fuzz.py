"""Some hundred problems of the fuzzer, and whether its judge can be trusted.

`make fuzz` runs twenty thousand.
"""

import dataclasses
import warnings
from fractions import Fraction

import fuzz
import numpy as np
import pytest

import slce_xp

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
        for sums in {"float64", str(problem.dtype)}:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                judge = judged(problem, fuzz.fit_carefully(problem, sums))
            assert not judge.representable or not judge.failures, (seed, sums, judge.failures)


def drop_the_first(model):
    model.components, model.eigenvalues = model.components[1:], model.eigenvalues[1:]
    model.angle_bounds = model.angle_bounds[1:]


def miscount(model):
    model.n_positive -= 1


def claim_more(model):
    model.n_positive += 1
    model.n_positive_bounds = (model.n_positive, model.n_positive)


def claim_fewer(model):
    model.n_positive -= 1
    model.n_positive_bounds = (model.n_positive, model.n_positive)


def cross_the_bounds(model):
    model.n_positive_bounds = model.n_positive_bounds[0], model.n_positive_bounds[0] - 1


def leave_the_count_open(model):
    model.n_positive = 0
    model.n_positive_bounds = (0, 3)


def understate_the_level(model):
    model.zero_level /= 3


def overstate_the_level(model):
    model.zero_level *= 3


def shift_an_eigenvalue(model):
    model.eigenvalues = model.eigenvalues * np.where(np.arange(4) == 1, 1 + 1e-12, 1)


def be_wrong_and_say_so(model):
    """A residual that is larger than the error allows for it, but not in the level."""
    model.residual = 1e-9 * float(model.eigenvalues[0])


def rotate(model, angle=1e-9):
    """The last positive component towards the one that follows, which is not positive."""
    a, b = model.components[2], model.components[3]
    cos, sin = np.cos(angle), np.sin(angle)
    model.components = np.stack([*model.components[:2], cos * a + sin * b, cos * b - sin * a])


def rotate_a_little(model):
    """By no more than changes eigenvalues by ρ, but by more than is stated."""
    rotate(model, 1e-12)
    model.angle_bounds = np.full(4, 1e-13)
    model.angle_bound = 1e-13


def understate_the_residual(model):
    """As an iteration that does not say how far it is from the end, but of the angle."""
    rotate(model, 1e-4)
    model.plan.form = "krylov"
    model.zero_level = 2e-6 * TRACE
    model.residual = 1e-8 * TRACE
    model.angle_bounds = np.full(4, np.inf)
    model.angle_bound = np.inf


def tilt(model):
    model.components = model.components.copy()
    model.components[0, :2] += 1e-6


def say_nothing_of_angles(model):
    model.angle_bounds = np.full(4, np.inf)
    model.angle_bound = np.inf


def overstate_an_angle(model):
    model.angle_bounds[1] *= 100


def confuse_angles(model):
    model.angle_bound = 2 * model.angle_bounds[-1]


def swap(model):
    model.components = model.components[::-1]


def shift_the_mean(model):
    model.mean = model.mean + 1e-9


def lose_a_sample(model):
    model.counts = model.counts - 1


def be_no_number(model):
    model.eigenvalues = np.full_like(model.eigenvalues, np.nan)


def state_no_number(model):
    model.residual = np.nan


def be_of_another_dtype(model):
    model.components = model.components.astype(np.float32)


TRACE = 4900.0  # about tr S_t of the problem below


def example():
    """Three positive eigenvalues, and four components."""
    rng = np.random.default_rng(5)
    drawn = fuzz.blobs(rng, (60, 8, 4), decay=0.2)
    drawn["X"] += 10 * np.eye(8)[drawn["y"]]
    return fuzz.Problem(0, "blobs", drawn["X"], drawn["y"], 4, "scatter", "C")


@pytest.mark.parametrize(
    ("tamper", "kinds"),
    [
        (drop_the_first, {"components", "eigenvalues"}),
        (miscount, {"n_positive"}),
        (claim_more, {"bounds"}),
        (claim_fewer, {"bounds", "wide bounds"}),
        (cross_the_bounds, {"n_positive", "bounds"}),
        (leave_the_count_open, {"wide bounds"}),
        (understate_the_level, {"zero level"}),
        (overstate_the_level, {"zero level"}),
        (shift_an_eigenvalue, {"eigenvalues", "quotient"}),
        (be_wrong_and_say_so, {"zero level"}),
        (rotate, {"angle", "residual"}),
        (rotate_a_little, {"angle"}),
        (understate_the_residual, {"residual"}),
        (tilt, {"orthonormal", "angle"}),
        (say_nothing_of_angles, {"wide angle"}),
        (overstate_an_angle, {"wide angle"}),
        (confuse_angles, {"angle bound"}),
        (swap, {"quotient"}),
        (shift_the_mean, {"mean"}),
        (lose_a_sample, {"counts"}),
        (be_no_number, {"not finite"}),
        (state_no_number, {"not finite"}),
        (be_of_another_dtype, {"dtype"}),
    ],
)
def test_judge_detects_wrong_models(tamper, kinds):
    problem = example()
    model = fuzz.fit_carefully(problem)
    assert not judged(problem, model).failures
    assert model.n_positive_bounds == (3, 3)
    tamper(model)
    assert {failure.kind for failure in judged(problem, model).failures} >= kinds


def test_an_iteration_is_judged_by_what_it_states():
    """Far from the end, and its residual, level and angle say so."""
    problem = dataclasses.replace(example(), solver="krylov", n_components=3)
    problem.X = problem.X.astype(np.float64)
    model, truth = fuzz.fit_carefully(problem), fuzz.find_truth(problem)
    scale = float(np.ldexp(truth.scale, truth.exponent))
    matrix = np.ldexp(truth.matrix, truth.exponent)
    towards = truth.vectors[4]
    last = np.cos(1e-4) * truth.vectors[2] + np.sin(1e-4) * towards
    V = np.stack([*truth.vectors[:2], last])
    model.components, model.eigenvalues = V, ((V @ matrix) * V).sum(axis=1)
    model.residual = np.linalg.norm(V @ matrix - model.eigenvalues[:, None] * V, 2)
    assert model.residual > 1e-5 * scale
    model.plan.form, model.zero_level = "krylov", 2e-6 * scale + 2 * model.residual
    model.angle_bounds = np.array([1e-11, 1e-11, 2e-4])
    model.angle_bound = 2e-4
    assert [failure.kind for failure in judged(problem, model).failures] == ["not converged"]
    problem.tol = 1e-4
    model.zero_level = 2e-4 * scale
    assert not judged(problem, model).failures
    model.angle_bounds[2] = model.angle_bound = 0.5e-4
    assert [failure.kind for failure in judged(problem, model).failures] == ["angle"]


def test_a_warning_of_an_iteration_needs_one():
    problem = example()
    judge = fuzz.Judge(problem, fuzz.find_truth(problem))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("stopped", slce_xp.ConvergenceWarning, stacklevel=1)
    judge.warned(caught)
    judge.model(fuzz.fit_carefully(problem))
    assert [failure.kind for failure in judge.failures] == ["stray warning"]


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
