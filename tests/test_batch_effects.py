"""`batch=`: what batches share is removed, as from X by hand."""

import numpy as np
import pytest
import scipy.sparse

import slce_xp


def confounded(seed=0, n=60, d=9, effect=3.0):
    """Samples of four classes in three batches, some of which lack some classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    batch = np.where(rng.random(n) < 0.7, y % 3, rng.integers(0, 3, n))
    X = rng.normal(size=(n, d)) + 2 * rng.normal(size=(4, d))[y] + 5
    return X + effect * rng.normal(size=(3, d))[batch], y, batch


def corrected(X, y, batch, weights=None):
    """X without the shifts of batches, and these, by least squares of rows."""
    weights = np.ones(len(y)) if weights is None else weights
    marks = np.eye(int(batch.max()) + 1)[batch]
    design = np.hstack([np.eye(4)[y], marks])
    root = np.sqrt(weights)[:, None]
    shifts = np.linalg.lstsq(design * root, X * root, rcond=None)[0][4:]
    shifts -= (weights @ marks @ shifts) / weights.sum()
    return X - shifts[batch], shifts


def assert_same_model(found, wanted, read=np.asarray, atol=1e-10):
    np.testing.assert_allclose(read(found.eigenvalues), wanted.eigenvalues, rtol=atol)
    for name in ("components", "mean", "centroids"):
        np.testing.assert_allclose(
            read(getattr(found, name)), getattr(wanted, name), atol=10 * atol
        )


@pytest.mark.parametrize("criterion", ["centroid", "separation"])
@pytest.mark.parametrize("solver", ["scatter", "gram"])
def test_is_a_fit_to_corrected_samples(xp, solver, criterion):
    X, y, batch = confounded(d=9 if solver == "scatter" else 150)
    by_hand, shifts = corrected(xp.held(X).astype(float), y, batch)
    options = {"solver": solver, "criterion": criterion, "n_components": 2}
    found = slce_xp.fit(xp.array(X), y, batch=batch, **options)
    wanted = slce_xp.fit(by_hand, y, **options)
    single = 2e-2 if criterion == "separation" else 1e-3  # of numbers with effects of batches
    assert_same_model(found, wanted, xp.numpy, xp.tolerance(1e-11, single))
    Z = xp.numpy(found.transform(xp.array(X), batch=batch))
    atol = xp.tolerance(1e-10, 10 * single)
    np.testing.assert_allclose(Z, wanted.transform(by_hand), atol=atol)
    np.testing.assert_allclose(
        xp.numpy(found.batch_shifts), shifts @ wanted.components.T, atol=atol
    )
    assert (found.predict(xp.array(X), batch) == wanted.predict(by_hand)).mean() > 0.95


@pytest.mark.parametrize("kind", ["dense", "sparse", "rows", "dask"])
@pytest.mark.parametrize("weighted", [False, True])
def test_iteration_sparse_blocks_and_weights(tmp_path, kind, weighted):
    X, y, batch = confounded(d=150)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    if weighted:
        weights[5] = 0.0
    by_hand, _ = corrected(X, y, batch, weights)
    np.save(tmp_path / "X.npy", X)
    given = {
        "dense": lambda: X,
        "sparse": lambda: scipy.sparse.csr_matrix(X),
        "rows": lambda: np.load(tmp_path / "X.npy", mmap_mode="r"),
        "dask": lambda: pytest.importorskip("dask.array").from_array(X, chunks=(25, 60)),
    }[kind]()
    wanted = slce_xp.fit(by_hand, y, 2, sample_weight=weights)
    for solver in ("krylov", "scatter", "gram"):
        found = slce_xp.fit(
            given, y, 2, batch=batch, sample_weight=weights, solver=solver, tol=1e-12
        )
        assert found.solver == solver
        assert_same_model(found, wanted)
    Z = np.asarray(found.transform(given, batch=batch))
    np.testing.assert_allclose(Z, wanted.transform(by_hand), atol=1e-10)
    correlations = np.corrcoef(X, Z, rowvar=False)[:-2, -2:]
    np.testing.assert_allclose(found.structure(given, batch), correlations, atol=1e-10)


def test_shifts_are_of_the_batches_and_survive_a_file(tmp_path):
    X, y, codes = confounded()
    batch = np.array(["plate 9", "plate 10", "plate 2"])[codes]
    model = slce_xp.fit(X, y, batch=batch)
    assert model.batches.tolist() == ["plate 10", "plate 2", "plate 9"]
    Z = model.transform(X, batch=list(batch))
    assert abs(Z.mean(axis=0)).max() < 1e-10
    model.save(tmp_path / "model.npz")
    loaded = slce_xp.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.transform(X, batch=batch), Z)
    np.save(tmp_path / "X.npy", X)
    rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    written = model.transform(rows, out=tmp_path / "Z.npy", batch=batch)
    np.testing.assert_array_equal(written, Z)
    with pytest.warns(UserWarning, match=r"no batches \['plate 3'\]"):
        new = model.transform(X[:2], batch=["plate 3", batch[1]])
    np.testing.assert_allclose(new, [(X[0] - model.mean) @ model.components.T, Z[1]], atol=1e-12)


def test_batches_without_classes_in_common_are_named():
    X, y, _ = confounded()
    with pytest.raises(ValueError, match="batch must be distinguishable") as caught:
        slce_xp.fit(X, y, batch=np.array(["left", "right"])[y // 2])
    message = str(caught.value)
    assert "classes 0, 1 are in batches left only" in message
    assert "classes 2, 3 are in batches right only" in message
    # A chain of classes in common is enough, also if no batch has all of them.
    chain = np.where(np.arange(60) < 30, y // 2, (y + 1) // 2)
    slce_xp.fit(X, y, batch=chain)
    # Samples that are dropped tell nothing apart.
    linked, weights = y // 2, np.ones(60)
    linked[2], weights[2] = 0, 0.0
    slce_xp.fit(X, y, batch=linked)
    with pytest.raises(ValueError, match="batch must be distinguishable"):
        slce_xp.fit(X, y, batch=linked, sample_weight=weights)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y, b: slce_xp.fit(X, y, batch=b[:5]), "one label for each of 60 samples"),
        (lambda X, y, b: slce_xp.fit(X, y, batch=[None, *b[1:]]), "None at position 0"),
        (lambda X, y, b: slce_xp.fit(X, y, batch=b, unlabeled=0), "unlabeled must mark no sample"),
        (lambda X, y, b: slce_xp.fit(X, y, batch=b).transform(X), "batch must name the batch"),
        (lambda X, y, b: slce_xp.fit(X, y, batch=b).predict(X), "batch must name the batch"),
        (lambda X, y, b: slce_xp.fit(X, y).transform(X, batch=b), "batch must be left out"),
    ],
)
def test_bad_batches_are_named(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call(*confounded())
    assert caught.value.parameter in ("batch", "unlabeled")


def test_one_batch_changes_nothing():
    X, y, _ = confounded()
    assert_same_model(slce_xp.fit(X, y, batch=np.ones(60)), slce_xp.fit(X, y), atol=1e-12)


def mixed(rng, classes, effects, batch, y):
    return classes[y] + effects[batch] + rng.normal(size=(len(y), classes.shape[1]))


def test_classes_that_are_mixed_with_batches():
    """Four of five samples of a class are from one batch; then classes are as frequent in all."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        classes, effects = 0.7 * rng.normal(size=(3, 40)), 1.4 * rng.normal(size=(6, 40))
        y = rng.integers(0, 3, 150)
        batch = np.where(rng.random(150) < 0.8, y, rng.integers(0, 3, 150))
        X = mixed(rng, classes, effects, batch, y)
        plain, joint = slce_xp.fit(X, y), slce_xp.fit(X, y, batch=batch)
        y, known = rng.integers(0, 3, (2, 300))
        unseen, new = mixed(rng, classes, effects, known, y), rng.integers(3, 6, 300)
        strange = mixed(rng, classes, effects, new, y)
        with pytest.warns(UserWarning, match="not corrected"):
            predicted = joint.predict(strange, new)
        guesses = plain.predict(unseen), joint.predict(unseen, known), plain.predict(strange)
        found.append([(guess == y).mean() for guess in (*guesses, predicted)])
    plain, joint, plain_on_new, joint_on_new = np.mean(found, axis=0)
    assert joint > 0.97
    assert joint > plain + 0.1
    assert joint_on_new > plain_on_new + 0.05


@pytest.mark.parametrize("solver", ["krylov", "scatter"])
def test_large_effects_of_batches_do_not_hide_classes(solver):
    X, y, batch = confounded(n=200, d=90, effect=0.0)
    effects = np.random.default_rng(1).normal(size=(3, 90))
    wanted = slce_xp.fit(X, y, 2, batch=batch, solver=solver)
    found = slce_xp.fit(X + 1e3 * effects[batch], y, 2, batch=batch, solver=solver)
    assert found.n_positive_bounds == (2, 2)
    np.testing.assert_allclose(found.eigenvalues, wanted.eigenvalues, rtol=1e-4)
    # Those that are lost in rounding may lower the loss.
    with pytest.warns(UserWarning, match="cannot be resolved"):
        slce_xp.fit(X + 1e9 * effects[batch], y, 2, batch=batch, solver=solver)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, "a"] * 30, "batch must hold labels of one kind.*all strings"),
        ("plate", "batch must be a vector of labels.*Pass the column"),
    ],
)
def test_batches_that_are_no_labels_are_named(given, message):
    X, y, _ = confounded()
    with pytest.raises(TypeError, match=message):
        slce_xp.fit(X, y, batch=given)
    with pytest.raises(TypeError, match=message.replace("batch", "groups")):
        slce_xp.importance_interval(X, y, groups=given, n_resamples=2)
