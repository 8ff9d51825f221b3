"""What a fit does in any form: one reading, one fit for a share, units, ties, what it states."""

import math
import warnings
from unittest import mock

import numpy as np
import oracle
import pandas as pd
import pytest
import scipy.sparse as sp

import slce_xp
from slce_xp import _fit, core

SHAPES = {"tall": (300, 30), "wide": (40, 200)}
SOLVERS = ["auto", "scatter", "gram", "krylov"]


class Counted:
    """Rows that count how often they are read."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.read = values, values.shape, values.dtype, 0

    def __getitem__(self, index):
        rows = self.values[index]
        self.read += len(rows)
        return rows


@pytest.mark.parametrize("n_components", [None, 1, 2, 0.5])
def test_a_file_is_read_once_while_the_matrix_fits(n_components):
    X, y = oracle.blobs(4000, 120, 4, seed=1, separation=0.8)
    rows = Counted(X)
    model = slce_xp.fit(rows, y, n_components)
    assert (model.solver, model.plan.passes) == ("scatter", 1)
    probed = 64 + 1  # and one to learn what the rows are
    assert rows.read <= len(X) + probed


# ---------------------------------------------------------------- a share of the loss


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_share_of_the_loss_takes_one_fit(monkeypatch, solver, shape):
    X, y = oracle.blobs(*SHAPES[shape], 8, seed=2, separation=2.0)
    values, vectors = oracle.eigenpairs(X, y)
    removed = np.cumsum(values[values > 0.0])
    expected = int(np.searchsorted(removed / removed[-1], 0.8))
    solved = mock.Mock(side_effect=_fit.solve)
    monkeypatch.setattr(_fit, "solve", solved)
    model = slce_xp.fit(X, y, 0.8, solver=solver)
    assert solved.call_count == 1
    k = model.n_components
    assert k == expected + 1 < 7
    assert model.n_positive_bounds == (k, k)
    assert model.eigenvalues.sum() >= 0.8 * removed[-1] > model.eigenvalues[:-1].sum()
    assert model.angle_bounds.shape == (k,)
    assert np.isfinite(model.angle_bounds).all()
    for j, bound in enumerate(model.angle_bounds, 1):
        rounding = 64 * np.finfo(float).eps * values[0] / (values[j - 1] - values[j])
        assert oracle.largest_angle(model.components[:j], vectors[:j]) <= bound + rounding
    assert model.angle_bound == model.angle_bounds[-1] <= 1e-3


# ---------------------------------------------------------------- units


def with_units(factor):
    X, y = oracle.blobs(90, 5, 3, seed=3)
    X[:, 3] *= factor
    return X, y


NAMES = ["height", "width", "depth", "time", "mass"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    ("factor", "what"),
    [(1e3, "carries 100 % of the scatter of X"), (1e9, "drowns 4 of 5 columns in rounding")],
)
def test_a_column_of_much_larger_units_is_named(tmp_path, factor, what, named, solver):
    X, y = with_units(factor)
    given = pd.DataFrame(X, columns=NAMES) if named else X
    column = "'time'" if named else "3"
    with pytest.warns(UserWarning, match=f"^column {column} {what}: standardise") as record:
        model = slce_xp.fit(given, y, solver=solver)
    note = f"column {column} {what}: standardise the columns if their units differ"
    assert note in [str(warning.message) for warning in record]
    assert {warning.filename for warning in record} == {__file__}
    assert model.note == note
    assert f"units        {note}" in str(model)
    model.save(tmp_path / "model.npz")
    assert slce_xp.load(tmp_path / "model.npz").note == note


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, lambda x: x.astype(np.float32)])
def test_columns_of_similar_units_have_no_note(kind):
    X, y = with_units(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = slce_xp.fit(kind(X), y)
        one = slce_xp.fit(kind(X[:, :1]), y, 1)  # which carries all
    assert model.note == one.note == ""
    assert "units" not in str(model)


# ---------------------------------------------------------------- the form


@pytest.mark.parametrize("shape", [(120, 9), (40, 40), (38, 40), (37, 40)])
def test_a_gram_request_needs_room_for_null_directions(shape):
    """With n + k > d a matrix of features is smaller, and has all k directions."""
    (n, d), k = shape, 3
    X, y = oracle.blobs(n, d, 4, seed=1)
    form = "gram" if n + k <= d else "scatter"
    model, found = slce_xp.fit(X, y, k, solver="gram"), core.eigenpairs(X, y, 4, k, form="gram")
    assert model.solver == model.plan.form == found.form == form
    reason = "requested" if form == "gram" else "gram needs n + k <= d: scatter instead"
    assert model.plan.reason == reason
    assert reason in str(model.plan)
    values, vectors = oracle.eigenpairs(X, y)
    np.testing.assert_allclose(model.eigenvalues, values[:k], rtol=1e-10)
    np.testing.assert_array_equal(found.components, model.components)
    assert oracle.largest_angle(model.components, vectors[:k]) <= model.angle_bound <= 1e-8


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_fit_takes_the_same_steps_each_time(solver):
    X, y = oracle.blobs(260, 60, 3, seed=4, separation=0.8, decay=0.0)
    first, second = (slce_xp.fit(X, y, solver=solver) for _ in range(2))
    assert first.components.tobytes() == second.components.tobytes()
    assert (first.passes, first.residual) == (second.passes, second.residual)
    assert first.angle_bounds.tobytes() == second.angle_bounds.tobytes()


# ---------------------------------------------------------------- angles


@pytest.mark.filterwarnings("ignore::slce_xp.ConvergenceWarning")
def test_ties_have_no_bound_and_a_gap_has_one():
    # Three classes at the corners of an equilateral triangle: no direction in it is special.
    X, y = np.repeat(np.eye(3, 5), 10, axis=0), np.repeat([0, 1, 2], 10)
    X = X + 1e-3 * np.tile(np.eye(10, 5) - np.eye(10, 5, -5), (3, 1))  # the same within each
    for solver in ("scatter", "krylov"):
        model = slce_xp.fit(X, y, 1, solver=solver)
        assert math.isinf(model.angle_bound)
        assert "no bound of the angle to the exact subspace is proved" in str(model)
        model = slce_xp.fit(X, y, 2, solver=solver)
        exact = oracle.eigenpairs(X, y)[1][:2]
        assert math.isinf(model.angle_bounds[0])
        assert oracle.largest_angle(model.components, exact) <= model.angle_bound < 1e-10


def test_the_angle_is_printed_and_saved(tmp_path):
    X, y = oracle.blobs(60, 5, 3)
    model = slce_xp.fit(X, y)
    assert f"within {model.angle_bound:.0e} rad of the exact subspace" in str(model)
    model.save(tmp_path / "model.npz")
    opened = slce_xp.load(tmp_path / "model.npz")
    assert opened.angle_bounds.tolist() == model.angle_bounds.tolist()
    assert (opened.zero_level, opened.residual) == (model.zero_level, model.residual)
    assert opened.n_positive_bounds == model.n_positive_bounds
