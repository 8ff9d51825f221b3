"""One engine: passes over X, products with a formed C, a dense eigensolver, in that order."""

import math
from unittest import mock

import numpy as np
import oracle
import pytest

import slce_xp
from slce_xp import _route
from slce_xp._planning import plan as _plan
from slce_xp._planning.profiles import PROFILES
from slce_xp._planning.schedule import Schedule
from slce_xp.core import gram, krylov, operators, scatter
from slce_xp.core.solution import Costs

SHAPES = {"features": (260, 60), "samples": (60, 260)}
FORMED = {"features": "scatter", "samples": "gram"}


def hard(side):
    """Many passes are needed: a flat spectrum, and a narrow block that grows by one row."""
    n, d = SHAPES[side]
    return oracle.blobs(n, d, 3, seed=4, separation=0.8, decay=0.0)


def fit_with(costs, X, y, n_components="positive", form="krylov"):
    """A fit by "auto" that starts in a form and turns to others by the given costs."""
    schedules = {form: [Schedule(4, 1)]}
    with (
        mock.patch.object(_plan, "_schedules", lambda f, problem: schedules.get(f, [])),
        mock.patch.object(_route, "_costs", return_value=costs),
    ):
        return slce_xp.fit(X, y, n_components)


def calls(monkeypatch, owner, name):
    """How often a function is called, as a list that grows."""
    made, original = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *a, **k: made.append(name) or original(*a, **k))
    return made


@pytest.mark.parametrize("side", SHAPES)
def test_a_matrix_formed_late_continues_in_the_same_space(monkeypatch, side):
    X, y = hard(side)
    alone = fit_with(Costs(), X, y)
    assert alone.solver == "krylov"
    assert alone.passes > 4
    dense = calls(monkeypatch, scatter, "solve") + calls(monkeypatch, gram, "solve")
    grown = calls(monkeypatch, krylov.KrylovSpace, "grow")
    model = fit_with(Costs(implicit=1.0, forming=3.0), X, y)
    # Three passes, then one to form the matrix: nothing is thrown away or begun again.
    assert model.passes == 3 + 1
    assert len(grown) == alone.passes
    assert not dense
    assert model.solver == FORMED[side]
    assert "had cost as much" in model.plan.reason
    assert model.n_positive == alone.n_positive
    exact = oracle.eigenpairs(X, y)[1][: model.n_components]
    assert oracle.largest_angle(model.components, exact) <= model.angle_bound <= 1e-5


@pytest.mark.parametrize("side", SHAPES)
def test_a_dense_eigensolver_finishes_what_takes_too_long(monkeypatch, side):
    X, y = hard(side)
    owner = operators.CentroidOperator
    formed = calls(monkeypatch, owner, "_with_second" if side == "features" else "take_gram")
    costs = Costs(implicit=1.0, forming=2.0, formed=1.0, dense=2.0)
    model = fit_with(costs, X, y)
    assert model.passes == 2 + 1
    assert formed == formed[:1]  # once, by the iteration; the eigensolver takes it over
    values, vectors = oracle.eigenpairs(X, y)
    assert model.n_positive == (values > 1e-9 * values[0]).sum()
    angle = oracle.largest_angle(model.components, vectors[: model.n_components])
    assert angle <= model.angle_bound <= 1e-5


def test_a_fit_takes_the_same_steps_each_time():
    X, y = hard("features")
    costs = Costs(implicit=1.0, forming=3.0, formed=1.0, dense=50.0, ritz=1e-6)
    first, second = (fit_with(costs, X, y) for _ in range(2))
    assert first.components.tobytes() == second.components.tobytes()
    assert (first.passes, first.history) == (second.passes, second.history)


@pytest.mark.parametrize("form", ["scatter", "gram"])
def test_an_iteration_may_start_with_a_formed_matrix(form):
    side = {"scatter": "features", "gram": "samples"}[form]
    X, y = hard(side)
    model = fit_with(Costs(), X, y, form=form)
    assert (model.solver, model.passes) == (form, 0)
    assert model.residuals is not None
    exact = oracle.eigenpairs(X, y)[1][: model.n_components]
    assert oracle.largest_angle(model.components, exact) <= model.angle_bound <= 1e-5


def test_a_small_problem_is_not_solved_after_each_product(monkeypatch):
    X, y = hard("features")
    each = fit_with(Costs(), X, y, form="scatter")
    solved = calls(monkeypatch, krylov.Features, "ritz")
    fit_with(Costs(formed=0.0, ritz=1.0), X, y, form="scatter")
    assert 1 < len(solved) < len(each.history)


class Counted:
    """Rows that count how often they are read."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.read = values, values.shape, values.dtype, 0

    def __getitem__(self, index):
        rows = self.values[index]
        self.read += len(rows)
        return rows


@pytest.mark.parametrize("n_components", [None, 1, 2])
def test_a_file_is_read_once_while_the_matrix_fits(n_components):
    X, y = oracle.blobs(4000, 120, 4, seed=1, separation=0.5)
    rows = Counted(X)
    model = slce_xp.fit(rows, y, n_components)
    assert (model.solver, model.plan.passes) == ("scatter", 1)
    probed = 64 + 1  # and one to learn what the rows are
    assert rows.read <= len(X) + probed


def test_ties_have_no_bound_and_a_gap_has_one():
    # Three classes at the corners of an equilateral triangle: no direction in it is special.
    X, y = np.repeat(np.eye(3, 5), 10, axis=0), np.repeat([0, 1, 2], 10)
    X = X + 1e-3 * np.tile(np.eye(10, 5) - np.eye(10, 5, -5), (3, 1))  # the same within each
    for solver in ("scatter", "krylov"):
        with pytest.warns(slce_xp.ConvergenceWarning, match="angle to the exact|leading"):
            model = slce_xp.fit(X, y, 1, solver=solver)
        assert math.isinf(model.angle_bound)
        model = slce_xp.fit(X, y, 2, solver=solver)
        exact = oracle.eigenpairs(X, y)[1][:2]
        assert oracle.largest_angle(model.components, exact) <= model.angle_bound < 1e-10


def test_the_angle_is_printed_and_saved(tmp_path):
    X, y = oracle.blobs(60, 5, 3)
    model = slce_xp.fit(X, y)
    assert f"within {model.angle_bound:.0e} rad of the exact subspace, proved" in str(model)
    model.save(tmp_path / "model.npz")
    assert slce_xp.load(tmp_path / "model.npz").angle_bound == model.angle_bound


# ---------------------------------------------------------------- predicted times


@pytest.mark.parametrize("device", PROFILES)
def test_a_plan_predicts_seconds_for_a_device(device):
    plan = slce_xp.plan(100_000, 2_000, 20, dtype="float32", device=device)
    assert 0 < plan.seconds < 60
    assert f"predicted for {PROFILES[device].name}" in str(plan)


def test_faster_devices_are_predicted_to_be_faster():
    shape = (100_000, 2_000, 20)
    seconds = [slce_xp.plan(*shape, dtype="float32", device=d).seconds for d in ("h100", "t4")]
    assert seconds[0] < seconds[1]


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match=r"device must be one of 'cpu', .*; got 'abacus'") as info:
        slce_xp.plan(100, 10, 2, device="abacus")
    assert info.value.parameter == "device"


def test_a_plan_states_when_it_switches():
    plan = slce_xp.plan(6000, 6000, 10, device="cpu")
    passes = math.ceil(plan.costs.forming / plan.costs.implicit)
    assert plan.form == "krylov"
    assert f"after {passes} passes" in str(plan)
