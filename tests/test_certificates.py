"""What a model proves of itself: how many eigenvalues are positive, and the angle.

Problems whose eigenvalues are known by construction, many of them near zero, in every form, against
an oracle with more digits; and real data against a dense eigensolver.
"""

import dataclasses
import math
import warnings

import fuzz
import numpy as np
import oracle
import pytest
import scipy.sparse as sp
from conftest import load_set

import slce_xp
from benchmarks.drawn import draw
from slce_xp import _backend
from slce_xp._planning import plan as planning
from slce_xp.core import eigen

extended = pytest.mark.skipif(
    np.finfo(np.longdouble).eps > 1e-18, reason="this machine has no extended precision"
)
CHUNKS, PER_CHUNK = 18, 28
SOLVERS = ("auto", "scatter", "gram", "krylov")
# What the judge of the fuzzer says of counts and angles.
PROVED = ("angle bound", "positive", "n_positive", "components", "not finite", "stray warning")
SETS = [
    "arcene", "coil20", "colon", "har_meanstd66", "ionosphere", "mice_protein", "mnist",
    "olivetti", "tcga_luad", "usps", "worm_neuron", "yale",
]  # fmt: skip


# ---------------------------------------------------------------- eigenvalues as chosen


def planted(seed):
    """A problem in float64 of which some eigenvalues are within 1e-9 to 1e-2 of ‖M‖ of zero.

    With H orthonormal contrasts of classes and Q orthonormal columns of class means zero,
    X = (H·√b + Q·√w)·Rᵀ has the eigenvalues b − w and, for columns without a contrast, −w.
    """
    rng = np.random.default_rng(seed)
    n, n_classes = int(rng.integers(30, 151)), int(rng.integers(2, 9))
    noise = int(rng.integers(n_classes - 1, min(n - n_classes, 110)))
    y = fuzz.draw_labels(rng, n, n_classes)
    # Contrasts and noise are orthogonal as rows count, times √w.
    root = np.sqrt(rng.integers(1, 4, n)) if rng.random() < 0.3 else np.ones(n)
    member = root[:, None] * np.eye(n_classes)[y]
    H = np.linalg.qr(np.column_stack([root, member[:, :-1]]))[0][:, 1:]
    Q = np.linalg.qr(np.column_stack([member, rng.standard_normal((n, noise))]))[0][:, n_classes:]
    patterns = n_classes - 1
    near = rng.random(patterns) < rng.choice([0.3, 0.7, 1.0])
    values = np.where(near, fuzz.log_uniform(rng, -9, -2, patterns), rng.uniform(0.05, 1, patterns))
    values *= rng.choice([-1.0, 1.0], patterns)
    b = np.maximum(values, 0.0) + fuzz.log_uniform(rng, -3, 0, patterns)
    w = fuzz.log_uniform(rng, -3, 0, noise) * (0.01 if rng.random() < 0.3 else 1.0)
    w[:patterns] = b - values
    X = Q * np.sqrt(w)
    X[:, :patterns] += H * np.sqrt(b)
    X /= root[:, None]
    if rng.random() < 0.2:
        X = X[:, :noise] @ fuzz.rotation(rng, noise + int(rng.integers(1, 60)))[:noise]
    elif rng.random() < 0.8:
        X = X @ fuzz.rotation(rng, noise)
    weights, unlabeled = None, {}
    if not (root == 1.0).all():
        if rng.random() < 0.5:
            weights = root**2
        else:  # a sample of weight 2 is two samples
            times = np.rint(root**2).astype(int)
            X, y = np.repeat(X, times, axis=0), np.repeat(y, times)
    if rng.random() < 0.08:
        unlabeled = fuzz.add_unlabeled(rng, {"y": y, "X": X})
        y = unlabeled.pop("y")
        del unlabeled["X"]
    if rng.random() < 0.3:
        X = X + fuzz.log_uniform(rng, 0, 3) * rng.standard_normal(X.shape[1]) * np.abs(X).max()
    X = np.ldexp(X, int(rng.integers(-40, 41)))
    return fuzz.Problem(seed, "certificates", X, y, None, "auto", "C", weights, **unlabeled)


def variants(problem):
    """The problem in each form and dtype, some as if it were large."""
    rng = np.random.default_rng([problem.seed, 1])
    n_classes = len(np.unique(problem.y))
    for dtype in (np.float64, np.float32):
        for solver in SOLVERS:
            yield dataclasses.replace(
                problem,
                X=problem.X.astype(dtype),
                solver=solver,
                n_components=[None, "positive", 1][rng.integers(3)],
                width=n_classes + int(rng.integers(0, 6)),
                wide_passes=int(rng.choice([1, 3, 10**6])),
                iterates=bool(rng.random() < 0.7),
                kind=str(rng.choice(["C", "F", "rows"])),
            )


@extended
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_is_proved_is_true(chunk):
    found = []
    for seed in range(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK):
        problem, truths = planted(seed), {}
        for variant in variants(problem):
            if variant.dtype not in truths:
                truths[variant.dtype] = fuzz.find_truth(variant)
            found += [f"{variant}: {text}" for text in untrue(variant, truths[variant.dtype])]
    assert not found, "\n".join(found)


def untrue(problem, truth):
    """What a model says of itself and is not so."""
    judge = fuzz.Judge(problem, truth)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fuzz.fit(problem)
    judge.warned(caught)
    judge.model(model)
    yield from (str(failure) for failure in judge.failures if failure.kind in PROVED)
    # The judge allows for 32 eps of the dtype. All but one are resolved, and 32 are the oracle's.
    zero = float(np.finfo(problem.dtype).eps + 32 * np.finfo(float).eps) * truth.scale
    k = truth.values.size if problem.n_components == "positive" else problem.n_components
    k = len(truth.classes) - 1 if k is None else k
    least, most = (int((truth.values[:k] > level).sum()) for level in (zero, -zero))
    low, high = model.n_positive_bounds
    if not (low <= most and least <= high):
        near = truth.values[max(0, min(low, least) - 1) :][:3] / truth.scale
        yield f"{low} to {high} are said to be positive, {least} to {most} are: {near}"


# ---------------------------------------------------------------- what went wrong before


def judged(problem, **options):
    """What is wrong with the model of a problem, and the model."""
    truth = fuzz.find_truth(problem)
    judge = fuzz.Judge(problem, truth)
    with warnings.catch_warnings(record=True) as caught, fuzz.as_if_large(problem):
        warnings.simplefilter("always")
        model = slce_xp.fit(
            problem.X,
            problem.y,
            problem.n_components,
            solver=problem.solver,
            sample_weight=problem.weights,
            **options,
        )
    judge.warned(caught)
    judge.model(model)
    return [str(failure) for failure in judge.failures], model, truth


def weak_classes(d, seed):
    """Float32 data of whose eigenvalues most are within rounding of zero, or just beyond."""
    rng = np.random.default_rng(seed)
    n, n_classes = 6 * d, 12
    y = np.arange(n) % n_classes
    scales = 0.01 + 30.0 * (np.arange(d) < d // 8)
    centroids = rng.standard_normal((n_classes, d)) * np.geomspace(1.0, 1e-3, n_classes)[:, None]
    X = rng.standard_normal((n, d)) * scales + centroids[y]
    return (X @ fuzz.rotation(rng, d)).astype(np.float32), y


def test_single_precision_turns_to_double_if_most_eigenvalues_are_within_rounding_of_zero(
    monkeypatch,
):
    monkeypatch.setattr(planning, "MOST_WIDENING", 0.0)  # it begins in single precision
    X, y = weak_classes(200, 3)
    double = slce_xp.fit(X.astype(float), y)
    model = slce_xp.fit(X, y)
    assert model.components.dtype == np.float32
    assert model.plan.computed_dtype == "float64"
    assert model.plan.reason == "eigenvalues are within rounding of zero in float32"
    assert model.n_positive_bounds == double.n_positive_bounds
    np.testing.assert_allclose(model.eigenvalues, double.eigenvalues, rtol=1e-6)
    # Without memory for that they are resolved by a pass over X.
    other = np.random.default_rng(0).standard_normal(X.shape, dtype=np.float32)
    least = slce_xp.fit(other, y, solver="scatter").plan.most_bytes
    tight = slce_xp.fit(X, y, solver="scatter", max_memory=least)
    assert tight.plan.computed_dtype == "float32"
    low, high = tight.n_positive_bounds
    assert low <= double.n_positive <= high


def test_single_precision_begins_in_double_where_that_costs_little(monkeypatch):
    """Then it is proved what it returns, as for double precision."""
    X, y = weak_classes(200, 3)
    double = slce_xp.fit(X.astype(float), y)
    monkeypatch.setattr(planning, "MOST_WIDENING", math.inf)
    for solver in ("auto", "scatter"):
        model = slce_xp.fit(X, y, solver=solver)
        assert model.solver == "scatter"
        assert model.components.dtype == np.float32
        assert model.plan.computed_dtype == "float64"
        assert model.n_positive_bounds == double.n_positive_bounds
        assert model.angle_bound < 1e-4
        assert oracle.largest_angle(model.components, double.components) <= model.angle_bound
        # Twice as many bytes are in the plan, and held against the limit.
        least = model.plan.most_bytes
        tight = slce_xp.fit(X, y, solver=solver, max_memory=least - 1)
        assert tight.plan.computed_dtype == "float32"
    monkeypatch.setattr(planning, "MOST_WIDENING", 1.5)
    tall, wide = (
        slce_xp.plan(n, 500, 10, 20, dtype="float32", device="cpu") for n in (500_000, 1_500)
    )
    assert (tall.computed_dtype, wide.computed_dtype) == ("float32", "float64")


def test_few_eigenvalues_within_rounding_of_zero_take_no_other_eigensolver(monkeypatch):
    """X is asked for their signs, with the eigenvectors that there are."""
    rng = np.random.default_rng(4)
    n, d, n_classes = 3000, 120, 8
    y = np.arange(n) % n_classes
    member = np.eye(n_classes)[y]
    H = np.linalg.qr(np.column_stack([np.ones(n), member[:, :-1]]))[0][:, 1:]
    Q = np.linalg.qr(np.column_stack([member, rng.standard_normal((n, d))]))[0][:, n_classes:]
    values = np.array([1.0, 0.5, 5e-5, -7e-5, -0.2, -0.3, -0.4])
    w = rng.uniform(0.5, 1.0, d)
    w[:7] = 0.6 - values / 2
    X = Q * np.sqrt(w)
    X[:, :7] += H * np.sqrt(0.6 + values / 2)
    X = (X @ fuzz.rotation(rng, d)).astype(np.float32)
    sizes = []
    solve = _backend.largest_eigenpairs
    monkeypatch.setattr(
        _backend, "largest_eigenpairs", lambda m, k: sizes.append((len(m), k)) or solve(m, k)
    )
    model = slce_xp.fit(X, y, solver="scatter")
    level = eigen.ZERO_EPS * np.finfo(np.float32).eps * (X.astype(float) ** 2).sum()
    assert (np.abs(np.asarray(model.eigenvalues)) < level).sum() == 2
    assert model.n_positive_bounds == (3, 3)
    assert [size for size in sizes if size[0] == d] == [(d, n_classes)]
    np.testing.assert_allclose(model.eigenvalues[2:4], [5e-5, -7e-5], atol=5e-6)


def test_eigenvalues_are_counted_by_inertia():
    rng = np.random.default_rng(8)
    for size in (1, 2, 30):
        matrix = rng.standard_normal((size, size)).astype(np.float32)
        matrix += matrix.T
        matrix[:, -1] = matrix[-1, :] = 0.0
        values = np.linalg.eigvalsh(matrix.astype(float))
        for level in (-3.0, -1e-3, 1e-3, 2.0):
            assert _backend.count_above(matrix, level) == (values > level).sum()


@extended
def test_gram_finds_small_eigenvalues_among_large_negative_ones():
    """Of 788 eps·tr S_t, in vectors that rounding mixes with those of 1e15 eps."""
    rng = np.random.default_rng([606, 78])
    n_classes = int(rng.integers(3, 6))
    X = np.exp(rng.uniform(2, 10) * rng.standard_normal((29, 55)))
    y = fuzz.draw_labels(rng, 29, n_classes)
    weights = 10 ** rng.uniform(-7.7, 0, 29)
    for solver in ("gram", "krylov"):
        problem = fuzz.Problem(0, "heavy_tails", X, y, None, solver, "C", weights)
        failures, model, truth = judged(problem)
        assert not failures
        eps = np.finfo(float).eps * truth.scale
        assert 700 * eps < truth.values[3] < 800 * eps
        assert model.n_positive_bounds == (4, 4)


@extended
@pytest.mark.parametrize(
    "seed",
    [
        302679,  # Gram form, not converged: eigenvalues are those of the returned vectors
        700581,  # Gram form: directions of the null space and one that is nearly in it
        701318,  # a batch whose centring lost digits
        9102283,  # a batch whose samples with a label are far from the others and weigh nothing
        3000917,  # a batch with its mean far from the samples that count
        25982,  # the same, with samples without a label that count most
        104727,  # samples without a label that count 1e23 times as much as the others
        33391,  # ... and are much nearer to each other
        2001065,  # ‖M‖ is a 3000th of ‖S_t‖, in sample coordinates
        7001148,  # Gram form: a vector became that of another eigenvalue when it was refined
    ],
)
def test_problems_of_the_fuzzer_that_failed(seed):
    with np.errstate(all="ignore"):
        assert not [str(failure) for failure in fuzz.run(seed).failures]


@extended
def test_bounds_of_a_stopped_iteration_include_what_is_within_rounding_of_zero():
    """Above the level that rounding allows four eigenvalues are counted, and five are positive."""
    rng = np.random.default_rng(139)
    n, n_classes, noise = 105, 6, 90
    y = np.arange(n) % n_classes
    member = np.eye(n_classes)[y]
    H = np.linalg.qr(np.column_stack([np.ones(n), member[:, :-1]]))[0][:, 1:]
    Q = np.linalg.qr(np.column_stack([member, rng.standard_normal((n, noise))]))[0][:, n_classes:]
    values = np.array([1.0, 0.5, 0.01, 1e-3, 1e-4])
    X = Q * np.sqrt(10.0 ** rng.uniform(-3, 3, noise))
    X[:, :5] = H * np.sqrt(values + 1e-3) + Q[:, :5] * np.sqrt(1e-3)
    X = (X @ fuzz.rotation(rng, 131)[:noise]).astype(np.float32)
    for max_iter in range(1, 6):
        for solver in ("krylov", "auto"):
            problem = fuzz.Problem(
                0, "planted", X, y, "positive", solver, "C", width=10, wide_passes=3, iterates=True
            )
            _, model, truth = judged(problem, max_iter=max_iter)
            low, high = model.n_positive_bounds
            assert low <= int((truth.values > 1e-12).sum()) <= high


def test_an_eigensolver_that_fails_tries_again_in_reverse_order(monkeypatch):
    """As LAPACK's does for a few matrices with many eigenvalues near zero, on some machines."""
    solve, calls = np.linalg.eigh, []

    def fails_at_first(matrix):
        calls.append(matrix)
        if len(calls) == 1:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        return solve(matrix)

    matrix = np.random.default_rng(0).standard_normal((9, 9))
    matrix = matrix + matrix.T
    monkeypatch.setattr(np.linalg, "eigh", fails_at_first)
    values, vectors = slce_xp.core.largest_eigenpairs(matrix, 3)
    assert len(calls) == 2
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-12)
    np.testing.assert_allclose(values, solve(matrix)[0][::-1][:3])


@extended
def test_a_refinement_that_loses_an_eigenvalue_is_reported():
    """A column of timestamps leaves 1e-12 of the scatter to all others: one pass is too few."""
    problem = fuzz.make_problem(801361, fuzz.huge_columns)
    problem = dataclasses.replace(problem, kind="C", solver="krylov")
    failures, model, truth = judged(problem, tol=0.1, max_iter=1)
    assert not [text for text in failures if "positive" in text or "angle" in text]
    assert truth.values[1] > 1000 * np.finfo(float).eps * truth.scale
    assert model.n_positive_bounds[1] == 2


# ---------------------------------------------------------------- loose tolerances, few passes


@extended
@pytest.mark.parametrize("chunk", range(4))
def test_loose_tolerances_and_few_passes(chunk):
    found = []
    for seed in range(1000 + 30 * chunk, 1030 + 30 * chunk):
        rng = np.random.default_rng([seed, 2])
        problem = list(variants(planted(seed)))[rng.integers(8)]
        if problem.unlabeled is not None:
            continue
        options = {"tol": 10.0 ** rng.uniform(-15, -0.31), "max_iter": int(rng.integers(1, 6))}
        _, model, truth = judged(problem, **options)
        found += [f"{problem}, {options}: {text}" for text in false_bounds(model, truth)]
    assert not found, "\n".join(found)


def false_bounds(model, truth):
    """Whether the stated bounds of the count and the angle are wrong."""
    eps = float(np.finfo(model.components.dtype).eps)
    positive = [int((truth.values > s * eps * truth.scale).sum()) for s in (1.0, -1.0)]
    low, high = model.n_positive_bounds
    if low > positive[1] or high < min(positive[0], model.plan.n_components):
        yield f"{low} to {high} are said to be positive, {positive} are"
    A = model.components[np.asarray(model.eigenvalues) > 0].astype(np.float64)
    if len(A) and np.isfinite(model.angle_bound) and len(A) == len(model.components):
        gap = truth.values[len(A) - 1] - np.append(truth.values, -np.inf)[len(A)]
        known = 32 * np.finfo(float).eps * np.abs(truth.values).max() / gap + 8 * eps * len(A.T)
        angle = oracle.largest_angle(A, truth.vectors[: len(A)])
        if angle > model.angle_bound + known:
            yield f"the angle is {angle:.1e}, {model.angle_bound:.1e} is stated"


# ---------------------------------------------------------------- real data


def real_set(folder, name):
    """A data set, or some of it: what the oracle can do in a second."""
    X, y = load_set(folder, name)
    X = np.log2(X + 1.0) if name == "tcga_luad" else X
    step = max(1, -(-len(X) // 600))
    X, y = X[::step].astype(np.float64), y[::step]
    complete = ~np.isnan(X).any(axis=1)
    X, y = X[complete], y[complete]  # of mice_protein
    return X[:, :: -(-X.shape[1] // 1200)], y


@pytest.mark.parametrize("name", SETS)
def test_counts_and_angles_on_real_data(data_folder, name):
    X, y = real_set(data_folder, name)
    for dtype in (np.float64, np.float32):
        data = X.astype(dtype)
        values, vectors = oracle.eigenpairs(data, y)
        eps = float(np.finfo(dtype).eps) * np.square(oracle.centred(data)).sum()
        least, most = (int((values > level).sum()) for level in (32 * eps, -eps))
        for solver in SOLVERS:
            given = data
            if name == "worm_neuron":
                given = sp.csr_array(data)
                if solver == "gram":
                    continue  # refused for sparse data
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = slce_xp.fit(given, y, "positive", solver=solver)
            low, high = model.n_positive_bounds
            assert low <= min(most, len(set(y.tolist())) - 1), (solver, dtype)
            assert high >= least, (solver, dtype)
            unconverged = [w for w in caught if w.category is slce_xp.ConvergenceWarning]
            angle = oracle.largest_angle(model.components, vectors[:low])
            gap = values[low - 1] - values[low]
            known = 64 * np.finfo(float).eps * np.abs(values).max() / gap
            assert angle <= model.angle_bound + known + 8 * np.finfo(dtype).eps * X.shape[1] ** 0.5
            if dtype is np.float64 and not unconverged:
                assert model.angle_bound <= 1e-5, solver


def test_the_gram_form_refines_as_far_as_the_tolerance_asks():
    """Weak classes and a steep spectrum: vectors of samples are far less exact than rounding."""
    rng = np.random.default_rng(3)
    y = np.arange(120) % 30
    X = rng.standard_normal((120, 300)) + 0.5 * rng.standard_normal((30, 300))[y]
    X *= 1e-4 ** np.linspace(0, 1, 300)
    exact = oracle.eigenpairs(X, y)[1][:29]
    models = [slce_xp.fit(X, y, solver="gram", tol=tol) for tol in (None, 1e-9)]
    loose, tight = (oracle.largest_angle(model.components, exact) for model in models)
    assert loose <= models[0].angle_bound <= 1e-6
    assert 100 * tight <= loose
    np.testing.assert_allclose(models[0].eigenvalues, models[1].eigenvalues, rtol=1e-12)


def test_a_large_null_space_does_not_hide_small_eigenvalues():
    """Two eigenvalues of a few eps of the trace beside 585 zeros, in single precision."""
    problem = list(draw(5, seed=5, most_work=1e9))[4]
    X, y = problem.data()
    assert X.dtype == np.float32
    assert X.shape[1] > X.shape[0]
    values = oracle.eigenpairs(X.toarray().astype(np.float64), y)[0]
    model = slce_xp.fit(X, y, solver="scatter")
    assert model.n_positive_bounds == (142, 142)
    np.testing.assert_allclose(model.eigenvalues[-3:], values[139:142], rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(60))
def test_large_features_do_not_hide_positive_eigenvalues(dtype, seed):
    """Rounding of large features may exceed eigenvalues of others: then they are not denied.

    How many are positive does not depend on the units of features, by Sylvester's law.
    """
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 8))
    n, d = int(rng.integers(3 * n_classes, 80)), int(rng.integers(3, 90))
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + rng.uniform(0, 2) * rng.normal(size=(n_classes, d))[y]
    X[:, : rng.integers(1, 3)] *= 10.0 ** rng.uniform(0, 6 if dtype == "float32" else 9)
    X = X.astype(dtype)
    centred = X.astype(float) - X.astype(float).mean(axis=0)
    values = np.linalg.eigvalsh(oracle.matrix(centred / centred.std(axis=0), y))
    expected = int((values > 1e-10 * np.abs(values).max()).sum())
    for solver in ("auto", "krylov"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is not known how many there are
            model = slce_xp.fit(X, y, "positive", solver=solver)
        low, high = model.n_positive_bounds
        assert low <= expected <= high


def test_auto_finds_positive_eigenvalues_that_passes_over_x_cannot_see():
    rng = np.random.default_rng(0)
    y = np.arange(1500) % 10
    X = rng.normal(size=(1500, 1200)).astype(np.float32)
    X[:, 0] *= 1e4
    scaled = X / X.std(axis=0)
    expected = slce_xp.fit(scaled.astype(float), y, "positive", solver="scatter").n_positive
    assert expected == 9
    model = slce_xp.fit(X, y, "positive")
    assert model.n_positive_bounds == (9, 9)
    assert model.n_components == 9
