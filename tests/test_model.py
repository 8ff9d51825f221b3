"""The fitted model: embedding, devices, files."""

import contextlib
import dataclasses
import gc
import io
import json
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np
import oracle
import pytest
from conftest import make_backend, needs_float64

import slce_xp
from slce_xp.core import _rows, _separation

N, D, K = 30, 4, 3
X, CODES = oracle.blobs(N, D, K, seed=31)
X += 5.0  # so that a forgotten mean shows
ARRAYS = ("components", "eigenvalues", "mean", "centroids", "counts")
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
# Label of the test's set-up -> how a user names the same place.
PLACES = {
    "numpy": ("numpy", None),
    "torch": ("torch", "cpu"),
    "torch-device": ("torch", "sim:0"),
    "strict-device1": ("array_api_strict", "device1"),
    "jax": ("jax", "cpu:1"),
}


def embedded(model, values):
    """The definition of `transform`, on the host in float64."""
    A, mean = (np.asarray(a, np.float64) for a in (model.components, model.mean))
    return (np.asarray(values, np.float64) - mean) @ A.T


def reconstructed(model, Z):
    A, mean = (np.asarray(a, np.float64) for a in (model.components, model.mean))
    return Z @ A + mean


def assert_same_model(model, other):
    """Equal to the last bit, both on the host."""
    for name in (*ARRAYS, "classes"):
        a, b = getattr(model, name), getattr(other, name)
        assert type(a) is type(b) is np.ndarray
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    for name in ("n_positive", "total_loss", "solver"):
        assert getattr(model, name) == getattr(other, name)


def fit_empty(backend):
    with pytest.warns(UserWarning, match="no components"):
        return slce_xp.fit(backend.array(np.full((N, D), 0.5)), CODES, "positive")


# ---------------------------------------------------------------- transform and back


def test_embedding_and_reconstruction_follow_their_formulas(xp, dtype):
    x = xp.array(X, dtype)
    model = slce_xp.fit(x, CODES)
    host = model.to("numpy")
    Z = embedded(host, X)
    for actual, expected in [
        (model.transform(x), Z),
        (model.inverse_transform(xp.array(Z, dtype)), reconstructed(host, Z)),
        (model.reconstruct(x), reconstructed(host, Z)),
    ]:
        actual = xp.numpy(actual)
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual, expected, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("given", "in_float32", "in_float64"),
    [
        ("float32", "float32", "float64"),
        ("float64", "float64", "float64"),
        ("int16", "float32", "float64"),
        ("bool", "float32", "float64"),
    ],
)
def test_embedding_dtype_is_the_wider_of_model_and_samples(
    xp, dtype, given, in_float32, in_float64
):
    expected = {"float32": in_float32, "float64": in_float64}[dtype]
    if expected == "float64":
        needs_float64(xp)
    model = slce_xp.fit(xp.array(X, dtype), CODES)
    host = model.to("numpy")
    samples = np.round(X - 5).astype(given)
    Z, R = (
        xp.numpy(result)
        for result in (
            model.transform(xp.array(samples)),
            model.inverse_transform(xp.array(samples[:, : K - 1])),
        )
    )
    assert Z.dtype == R.dtype == expected
    np.testing.assert_allclose(Z, embedded(host, samples), atol=10 * TOLERANCE[expected])
    codes = samples[:, : K - 1].astype(float)
    np.testing.assert_allclose(R, reconstructed(host, codes), atol=10 * TOLERANCE[expected])


@pytest.mark.parametrize("rows", [1, 7, 8, 9])
def test_results_do_not_depend_on_blocks(xp, monkeypatch, rows):
    monkeypatch.setattr(_rows, "block_bytes", lambda *size: 4 * D * 8)
    model = slce_xp.fit(xp.held(X), CODES).to(xp.name, xp.device)
    Z = xp.numpy(model.transform(xp.array(X[:rows])))
    atol = xp.tolerance(1e-12, TOLERANCE["float32"])
    np.testing.assert_allclose(Z, embedded(model.to("numpy"), X[:rows]), atol=atol)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_floats_that_numpy_does_not_know(name):
    samples = X.astype(getattr(pytest.importorskip("ml_dtypes"), name))
    model = slce_xp.fit(samples, CODES)
    same = slce_xp.fit(samples.astype(np.float32), CODES)
    np.testing.assert_array_equal(model.transform(samples), same.transform(samples))


def test_integers_are_embedded_block_by_block(monkeypatch):
    monkeypatch.setattr(_rows, "block_bytes", lambda *size: 4 * D * 4)
    samples = np.arange(N * D, dtype=np.uint8).reshape(N, D)
    model = slce_xp.fit(X.astype(np.float32), CODES)
    np.testing.assert_allclose(model.transform(samples), embedded(model, samples), rtol=1e-5)


def test_no_samples_have_an_empty_embedding(xp):
    model = slce_xp.fit(xp.held(X), CODES).to(xp.name, xp.device)
    nothing = xp.array(X[:0])
    assert xp.numpy(model.transform(nothing)).shape == (0, K - 1)
    assert xp.numpy(model.reconstruct(nothing)).shape == (0, D)


def test_lists_and_frames_are_embedded_by_a_model_on_the_host():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    model = slce_xp.fit(X, CODES)
    for samples in (X.tolist(), pd.DataFrame(X), pl.DataFrame(X)):
        np.testing.assert_array_equal(model.transform(samples), model.transform(X))


@pytest.mark.parametrize(
    ("method", "samples", "message"),
    [
        ("transform", X[:, :3], r"X must have 4 columns.*model's features; got shape \(30, 3\)"),
        ("reconstruct", X[:, :3], r"X must have 4 columns.*features; got shape \(30, 3\)"),
        ("inverse_transform", X, r"Z must have 2 columns.*components; got shape \(30, 4\)"),
        ("transform", X[0], r"X must be two-dimensional.*got shape \(4,\)"),
        ("inverse_transform", X[0], r"Z must be two-dimensional.*got shape \(4,\)"),
    ],
)
def test_samples_of_another_shape_raise(xp, method, samples, message):
    model = slce_xp.fit(xp.held(X), CODES).to(xp.name, xp.device)
    with pytest.raises(ValueError, match=f"^{message}"):
        getattr(model, method)(xp.array(samples))


def test_samples_on_another_device_raise_with_a_working_remedy(xp):
    strict = pytest.importorskip("array_api_strict")
    model = slce_xp.fit(xp.held(X), CODES).to(xp.name, xp.device)
    with contextlib.ExitStack() as stack:
        places = [stack.enter_context(make_backend(label)) for label in PLACES]
        here = (xp.name, xp.device)
        elsewhere = [there.array(X) for there in places if (there.name, there.device) != here]
        elsewhere.append(strict.asarray(X, device=strict.Device("device2")))
        for samples in elsewhere:
            with pytest.raises(ValueError, match=r"^X must be where the model is.*; got ") as error:
                model.transform(samples)
            remedy = re.search(r"model\.to\(.*\)", str(error.value)).group()
            moved = eval(remedy, {"model": model})
            assert type(moved.transform(samples)) is type(samples)


# ---------------------------------------------------------------- attributes and text


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(slce_xp.Model)])
def test_model_is_frozen(field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(slce_xp.fit(X, CODES), field, None)


@pytest.mark.parametrize("solver", ["scatter", "gram"])
def test_summary(xp, dtype, solver):
    samples = X if solver == "scatter" else np.pad(X, ((0, 0), (0, N)))  # "gram" needs n + k <= d
    model = slce_xp.fit(xp.array(samples, dtype), CODES, solver=solver)
    text = str(model)
    d = model.n_features
    first, second = model.to("numpy").eigenvalues
    removed = 100 * (1 - model.loss / model.total_loss)
    for words in [
        f"{d} features → 2 components",
        "30 samples of 3 classes",
        f"{solver} form, {xp.printed} on ",
        f", {dtype}",
        f"{first:.4g}, {second:.4g}",
        f"{model.loss:.4g} of {model.total_loss:.4g}, {removed:.1f} % removed",
        "all of them lower the loss",
        f"within {model.angle_bound:.0e} rad of the exact subspace",
    ]:
        assert words in text
    assert f"{d} features → 2 components, 3 classes, {xp.printed} on " in repr(model)


def test_summary_reports_components_that_do_not_lower_the_loss():
    with pytest.warns(UserWarning, match="lower the loss"):
        model = slce_xp.fit(X, CODES, D)
    assert f"{model.n_positive} of them lower" in str(model)


def test_summary_reports_the_angle_of_as_many_components_as_it_is_proved_for():
    square = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
    samples = np.repeat(square, 2, axis=0) + np.tile([[0.0, 0.0], [1.0, 1.0]], (4, 1))
    # Both directions are as good: only the plane is known.
    model = slce_xp.fit(np.repeat(square, 2, axis=0), np.repeat(np.arange(4), 2), 2)
    assert np.isinf(model.angle_bounds[0])
    assert f"within {model.angle_bound:.0e} rad of the exact subspace\n" in f"{model}\n"
    # Here each is known, but there is no bound behind the first two.
    model = slce_xp.fit(np.pad(samples, ((0, 0), (0, 2))), np.repeat(np.arange(4), 2))
    assert np.isfinite(model.angle_bounds).tolist() == [True, True, False]
    assert f"within {model.angle_bounds[1]:.0e} rad of the exact subspace for the first 2" in str(
        model
    )
    samples = np.array([[0.0], [1.0], [0.0], [1.0]])
    model = slce_xp.fit(np.pad(samples, ((0, 0), (0, 2))), [0, 0, 1, 1])
    assert "no bound of the angle to the exact subspace is proved" in str(model)


def test_loss_of_components_that_raise_it_is_not_printed_as_removed():
    with pytest.warns(UserWarning, match="no direction lowers the loss, so the embedding"):
        model = slce_xp.fit(X[:, :2], np.arange(len(X)) % 3)
    assert model.n_positive == 0
    assert model.loss > model.total_loss
    line = next(line for line in str(model).splitlines() if "  loss" in line)
    assert line == f"  loss         {model.total_loss:.4g}, of which nothing is removed"
    assert "none of them lowers the loss" in str(model)
    with pytest.warns(UserWarning, match="lower the loss"):
        model = slce_xp.fit(X, CODES, D)
    share = model.eigenvalues[: model.n_positive].sum() / model.total_loss
    assert f"{100 * share:.1f} % removed by the first {model.n_positive} (" in str(model)


def test_shares_of_the_loss_are_those_of_each_component_alone(xp, dtype):
    model = slce_xp.fit(xp.array(X, dtype), CODES)
    shares = xp.numpy(model.loss_shares)
    held = xp.held(X).astype(float)
    means = np.stack([held[j == CODES].mean(axis=0) for j in range(3)])[CODES]
    centred, targets = held - held.mean(axis=0), means - held.mean(axis=0)
    for share, a in zip(shares, xp.numpy(model.components), strict=True):
        loss = np.linalg.norm(targets - np.outer(centred @ a, a)) ** 2
        expected = 1 - loss / np.linalg.norm(targets) ** 2
        assert share == pytest.approx(expected, abs=1e-5 if dtype == "float32" else 1e-12)
    assert shares.sum() == pytest.approx(1 - model.loss / model.total_loss)


@pytest.mark.parametrize("solver", ["scatter", "gram", "krylov"])
def test_share_keeps_as_many_components_as_remove_it(solver):
    samples, y = oracle.blobs(60, 80, 9, seed=32)
    samples = 3 * samples
    everything = slce_xp.fit(samples, y, "positive", solver=solver)
    removed = np.cumsum(everything.loss_shares) / everything.loss_shares.sum()
    assert len(removed) > 3
    for k in (1, 2, 3):
        below, above = removed[k - 1] - 1e-6, removed[k - 1] + 1e-6
        model = slce_xp.fit(samples, y, float(below), solver=solver)
        assert model.n_components == k
        np.testing.assert_allclose(model.eigenvalues, everything.eigenvalues[:k])
        assert model.n_positive == k
        assert model.angle_bound < (1e-5 if solver == "krylov" else 1e-6)  # `tol` is 1e-6
        assert slce_xp.fit(samples, y, np.float64(above), solver=solver).n_components == k + 1
    last = slce_xp.fit(samples, y, 1 - 1e-12, solver=solver)
    assert last.n_components == everything.n_components
    with pytest.warns(UserWarning, match="so the model has no components"):
        assert slce_xp.fit(X[:, :2], np.arange(len(X)) % 3, 0.5).n_components == 0


def test_model_of_equal_centroids_has_no_shares():
    with pytest.warns(UserWarning, match="no direction lowers the loss"):
        model = slce_xp.fit([[-1.0], [1.0], [-1.0], [1.0]], [0, 0, 1, 1])
    assert model.total_loss == 0
    assert model.loss_shares.tolist() == [0.0]


def test_summary_shortens_long_lists_of_eigenvalues():
    samples, y = oracle.blobs(60, 12, 9, seed=32)
    model = slce_xp.fit(samples, y)
    line = next(line for line in str(model).splitlines() if "eigenvalues" in line)
    assert line.endswith("…")
    assert line.count(",") == 6


def test_model_without_components_works_moves_and_is_saved(xp, tmp_path):
    model = fit_empty(xp)
    assert "0 components" in str(model)
    assert "none: no direction lowers the loss" in str(model)
    x = xp.array(X)
    assert xp.numpy(model.transform(x)).shape == (N, 0)
    np.testing.assert_array_equal(xp.numpy(model.reconstruct(x)), np.full((N, D), 0.5))
    for curve in (model.loss_curve, model.component_losses, model.eigenvalue_bounds):
        assert xp.numpy(curve).shape == (0,)
    model.save(tmp_path / "model.npz")
    assert_same_model(slce_xp.load(tmp_path / "model.npz"), model.to("numpy"))


# ---------------------------------------------------------------- devices


@pytest.mark.parametrize("place", PLACES)
def test_model_moves_between_backends_unchanged(xp, dtype, place):
    model = slce_xp.fit(xp.array(X, dtype), CODES)
    backend, device = PLACES[place]
    with make_backend(place) as there:
        moved = model.to(backend, device)
        for name in ARRAYS:
            # `numpy` asserts the device, too.
            values = there.numpy(getattr(moved, name))
            expected = xp.numpy(getattr(model, name))
            assert values.dtype == expected.dtype
            np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(moved.classes, model.classes)
        Z = there.numpy(moved.transform(there.array(X, dtype)))
        np.testing.assert_allclose(Z, embedded(model.to("numpy"), X), atol=10 * TOLERANCE[dtype])
        back = moved.to(xp.name, xp.device)
    for name in ARRAYS:
        np.testing.assert_array_equal(xp.numpy(getattr(back, name)), xp.numpy(getattr(model, name)))


@pytest.mark.parametrize("place", PLACES)
def test_saved_model_opens_on_every_backend(xp, dtype, place, tmp_path):
    model = slce_xp.fit(xp.array(X, dtype), CODES)
    model.save(tmp_path / "model.npz")
    assert_same_model(slce_xp.load(tmp_path / "model.npz"), model.to("numpy"))
    backend, device = PLACES[place]
    with make_backend(place) as there:
        loaded = slce_xp.load(tmp_path / "model.npz", backend, device)
        for name in ARRAYS:
            np.testing.assert_array_equal(
                there.numpy(getattr(loaded, name)), xp.numpy(getattr(model, name))
            )


def test_to_validates_backend_and_device(tmp_path):
    model = slce_xp.fit(X, CODES)
    model.save(tmp_path / "model.npz")
    for move in (model.to, lambda *where: slce_xp.load(tmp_path / "model.npz", *where)):
        with pytest.raises(ValueError, match=r"^backend must be one of .*; got 'pytorch'"):
            move("pytorch")
        with pytest.raises(ValueError, match=r"^device must be .* numpy has here .*; got 'cuda'"):
            move("numpy", "cuda")


# ---------------------------------------------------------------- files


LABELS = {
    "integers": np.array([-5, 3, 700]),
    "small integers": np.array([1, 2, 255], "uint8"),
    "floats": np.array([-0.5, 0.0, 2.5]),
    "booleans": np.array([False, True]),
    "strings": np.array(["ant", "Ä", "longer than the rest"]),
    "object strings": np.array(["ant", "Ä", "longer than the rest"], object),
    "variable-width strings": np.array(["ant", "Ä", "bee"], np.dtypes.StringDType()),
    "bytes": np.array([b"ant", b"bee", b"c"]),
    "dates": np.array(["2020-01-01", "2021-01-01", "2022-01-01"], "M8[D]"),
    "times": np.array(["2020-01-01T10", "2021-01-01T10", "2022-01-01T11"], "M8[ns]"),
    "spans of time": np.array([1, 2, 3], "m8[s]"),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_are_saved(kind, tmp_path):
    labels = LABELS[kind]
    model = slce_xp.fit(X, labels[CODES % len(labels)])
    model.save(tmp_path / "model.npz")
    loaded = slce_xp.load(tmp_path / "model.npz")
    assert_same_model(loaded, model)
    assert [type(label) for label in loaded.classes] == [type(label) for label in model.classes]


@pytest.mark.parametrize("dtype", [object, np.dtypes.StringDType()])
def test_labels_that_end_in_nul_are_not_merged(dtype, tmp_path):
    names = np.array(["a", "a\0", "a\0\0"], object).astype(dtype)
    model = slce_xp.fit(X, names[CODES])
    assert len(model.classes) == 3
    with pytest.raises(ValueError, match=r"^classes must not end in a NUL"):
        model.save(tmp_path / "model.npz")


def test_labels_that_would_need_pickle_raise(tmp_path):
    model = slce_xp.fit(X, np.array([1, 2, 3], object)[CODES])
    with pytest.raises(TypeError, match=r"^classes must be .* without pickle; got int\..*astype"):
        model.save(tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("as_path", [str, lambda path: path])
def test_save_does_not_change_the_file_name(as_path, tmp_path):
    path = as_path(tmp_path / "model")  # NumPy would add .npz
    slce_xp.fit(X, CODES).save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert slce_xp.load(path).n_components == K - 1


def test_saving_again_replaces_the_file(tmp_path):
    path = tmp_path / "model.npz"
    slce_xp.fit(X, CODES).save(path)
    newer = slce_xp.fit(2 * X, CODES)
    newer.save(path)
    assert_same_model(slce_xp.load(path), newer)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("existed", [True, False])
def test_save_is_atomic(tmp_path, monkeypatch, existed, error):
    model, path = slce_xp.fit(X, CODES), tmp_path / "model.npz"
    if existed:
        model.save(path)

    def break_off(file, *args, **arrays):
        file.write(b"PK")
        raise error

    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(np, "savez", break_off)
    with pytest.raises(type(error)):
        model.save(path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_save_into_a_missing_folder_raises():
    with pytest.raises(FileNotFoundError):
        slce_xp.fit(X, CODES).save("/no such folder/model.npz")
    with pytest.raises(FileNotFoundError):
        slce_xp.load("/no such folder/model.npz")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.npz"
    slce_xp.fit(X, CODES).save(path)
    return path


def rewrite(path, header=None, **arrays):
    """Change parts of a model file; None removes an array."""
    with np.load(path) as file:
        contents = {name: file[name] for name in file.files}
    facts = json.loads(str(contents["header"])) | (header or {})
    contents |= {"header": np.array(json.dumps(facts)), **arrays}
    np.savez(path, **{name: a for name, a in contents.items() if a is not None})


REFUSED = r"^path must name a model file, written by .*; '.*model\.npz' is damaged or"


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.3, 0.6, 0.9, 0.99])
def test_truncated_file_raises(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=REFUSED):
        slce_xp.load(saved)


def test_flipped_bit_raises_or_is_harmless(saved):
    # Zip checks its contents but not, say, its time stamps. The end holds its offsets.
    whole = saved.read_bytes()
    model = slce_xp.load(saved)
    messages = []
    for position in [*range(0, len(whole), 61), *range(len(whole) - 22, len(whole))]:
        damaged = bytearray(whole)
        damaged[position] ^= 0x80
        saved.write_bytes(damaged)
        try:
            loaded = slce_xp.load(saved)
        except ValueError as error:
            messages.append(str(error))
        else:
            assert_same_model(loaded, model)
    assert len(messages) > 30
    assert all(re.match(REFUSED, message) for message in messages)


def npy_bytes(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


FOREIGN = {
    "text": lambda path: path.write_text("not a model\n"),
    "one array": lambda path: path.write_bytes(npy_bytes(X)),
    "other arrays": lambda path: np.savez(path, X=X, y=CODES),
    "pickled objects": lambda path: rewrite(path, classes=np.array([1, "a", None], object)),
    "a missing array": lambda path: rewrite(path, mean=None),
    "an array of another shape": lambda path: rewrite(path, mean=np.zeros(D + 1)),
    "centroids of another shape": lambda path: rewrite(path, centroids=np.zeros((K, D + 1))),
    "components of one dimension": lambda path: rewrite(path, components=np.zeros(D)),
    "text for numbers": lambda path: rewrite(path, mean=np.array(["a"] * D)),
    "classes of two dimensions": lambda path: rewrite(path, classes=np.zeros((K, 2))),
    "another format": lambda path: rewrite(path, {"format": "something else"}),
    "a version that is no number": lambda path: rewrite(path, {"version": "new"}),
    "more positive components than there are": lambda path: rewrite(path, {"n_positive": 9}),
    "a header that is no JSON": lambda path: np.savez(path, header=np.array("{")),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_file_raises(saved, kind):
    FOREIGN[kind](saved)
    with pytest.raises(ValueError, match=REFUSED) as error:
        slce_xp.load(saved)
    assert "unsafely" not in str(error.value)  # NumPy's advice to unpickle the file


def test_invalid_file_is_closed(saved):
    saved.write_bytes(saved.read_bytes()[:-30])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match=REFUSED):
            slce_xp.load(saved)
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_file_of_a_newer_release_raises(saved):
    rewrite(saved, {"version": 99, "classes": "a kind that is not known yet"})
    with pytest.raises(ValueError, match=r"format 4 or older; .* has format 99\. Upgrade slce_xp"):
        slce_xp.load(saved)


# Files that earlier versions wrote: formats 1 and 2 have a flat plan, format 3 has a plan of parts
# and one bound of the angle. Fits of `earlier_samples`; in format 2, of columns scaled by 2.
EARLIER = Path(__file__).parent / "earlier_models.zip"


def earlier_samples():
    samples = np.arange(600.0).reshape(60, 10) ** 2 * 7 % 23
    samples[20:40, 0] += 30
    samples[40:, 1] += 20
    return samples, np.repeat(["ant", "bee", "cat"], 20)


def load_earlier(name, folder):
    with zipfile.ZipFile(EARLIER) as archive:
        path = archive.extract(name, folder)
    return slce_xp.load(path)


@pytest.mark.parametrize(
    ("name", "form", "k", "passes", "angle"),
    [
        ("format1-krylov.npz", "krylov", 2, 2, np.inf),
        ("format2-scaled.npz", "scatter", 2, 0, np.inf),
        ("format3-krylov.npz", "krylov", 2, 1, 2.9210991630422525e-13),
        ("format3-scatter.npz", "scatter", 3, 0, 4.408955802536637e-12),
    ],
)
def test_file_of_an_earlier_version_opens(name, form, k, passes, angle, tmp_path):
    samples, y = earlier_samples()
    model = load_earlier(name, tmp_path)
    unit = 1.0 if model.scale is None else 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the third component raises the loss
        now = slce_xp.fit(samples / unit, y, k)
    assert (model.scale is None) == (model.feature_names is None) == (name != "format2-scaled.npz")
    if model.scale is not None:
        assert model.scale.tolist() == [2.0] * 10
        assert model.feature_names.tolist() == [f"gene {j}" for j in range(10)]
    np.testing.assert_allclose(model.eigenvalues, now.eigenvalues, rtol=1e-12)
    np.testing.assert_allclose(model.components, now.components, atol=1e-12)
    np.testing.assert_allclose(model.transform(samples), now.transform(samples / unit), atol=1e-10)
    np.testing.assert_array_equal(model.predict(samples), now.predict(samples / unit))
    assert model.classes.tolist() == ["ant", "bee", "cat"]
    assert model.counts.tolist() == [20, 20, 20]
    assert (model.n_positive, model.n_positive_bounds) == (2, (2, 2))
    assert (model.solver, model.passes, model.criterion) == (form, passes, "centroid")
    plan = model.plan
    assert (plan.n_samples, plan.n_features, plan.n_classes, plan.n_components) == (60, 10, 3, k)
    assert (plan.dtype, plan.sums, plan.where, plan.stored) == (
        "float64",
        "float64",
        "memory",
        None,
    )
    assert plan.bytes > 0
    assert plan.block_bytes == 262144
    assert plan.host_bytes >= 960
    # What an earlier version did not state is not made up.
    assert model.zero_level is None
    assert model.residual is None
    assert model.note == ""
    assert model.angle_bounds.tolist() == [np.inf] * (k - 1) + [angle]
    assert model.angle_bound == angle
    assert f"{form} form" in str(model)
    stated = f"within {angle:.0e} rad of the exact subspace\n"
    assert (stated if np.isfinite(angle) else "no bound of the angle") in f"{model}\n"
    assert f"form    {form}" in str(plan)
    # Written again, it is a file of today.
    model.save(tmp_path / "again.npz")
    again = slce_xp.load(tmp_path / "again.npz")
    assert_same_model(again, model)
    assert again.plan == model.plan
    np.testing.assert_array_equal(again.angle_bounds, model.angle_bounds)


def test_file_of_an_earlier_version_opens_with_its_separation(tmp_path, monkeypatch):
    monkeypatch.setattr(_separation, "SUPPORT", 0.0)  # all spreads were taken as known
    samples, y = earlier_samples()
    model = load_earlier("format3-separation.npz", tmp_path)
    now = slce_xp.fit(samples, y, 1, criterion="separation")
    assert (model.criterion, model.solver, model.n_positive) == ("separation", "scatter", 1)
    # The shrinkage is a minimum, which is flat.
    for name in ("components", "patterns", "eigenvalues", "shrinkage", "separation"):
        np.testing.assert_allclose(getattr(model, name), getattr(now, name), rtol=1e-4, atol=1e-6)
    assert model.separation_gap == 6.471972755286992e-08
    np.testing.assert_array_equal(model.predict(samples), now.predict(samples))
    np.testing.assert_allclose(
        model.predict_proba(samples), now.predict_proba(samples), rtol=1e-3, atol=1e-6
    )
    assert model.angle_bounds is None
    assert (model.zero_level, model.residual) == (None, None)
    assert f"{100 * model.separation:.2f} % of pairs" in str(model)
    model.save(tmp_path / "again.npz")
    assert_same_model(slce_xp.load(tmp_path / "again.npz"), model)


@pytest.mark.parametrize("solver", ["scatter", "gram", "krylov"])
def test_what_is_proved_of_a_model_is_saved(solver, tmp_path):
    samples, y = oracle.blobs(60, 80, 9, seed=32)
    samples[:, 0] *= 100.0
    model = slce_xp.fit(samples, y, solver=solver)
    model.save(tmp_path / "model.npz")
    loaded = slce_xp.load(tmp_path / "model.npz")
    assert model.zero_level > 0
    assert "column 0 carries" in model.note
    for name in ("zero_level", "residual", "n_positive_bounds", "note", "passes", "plan"):
        assert getattr(loaded, name) == getattr(model, name)
    np.testing.assert_array_equal(loaded.angle_bounds, model.angle_bounds)
    assert str(loaded) == str(model)
    moved = model.to("numpy")
    assert (moved.zero_level, moved.residual) == (model.zero_level, model.residual)


# ---------------------------------------------------------------- scaled columns


def test_unscaled_model_takes_original_columns(xp, dtype, tmp_path):
    scale = np.array([0.1, 3.0, 7.0, 200.0])
    scaled = slce_xp.fit(xp.array(X / scale, dtype), CODES)
    model = scaled.unscaled(xp.array(scale, dtype))
    model.save(tmp_path / "model.npz")
    expected = embedded(scaled.to("numpy"), X / scale)
    close = {"rtol": 0, "atol": 100 * TOLERANCE[dtype] * np.abs(X / scale).max()}
    x = xp.array(X, dtype)
    np.testing.assert_allclose(xp.numpy(model.transform(x)), expected, **close)
    rows = xp.numpy(model.reconstruct(x)) / scale
    np.testing.assert_allclose(rows, reconstructed(scaled.to("numpy"), expected), **close)
    for other in (model.to("numpy"), slce_xp.load(tmp_path / "model.npz")):
        np.testing.assert_allclose(other.transform(X.astype(dtype)), expected, **close)
        np.testing.assert_allclose(other.mean, X.mean(axis=0), rtol=10 * TOLERANCE[dtype])
        centroids = [X[code == CODES].mean(axis=0) for code in np.unique(CODES)]
        np.testing.assert_allclose(other.centroids, centroids, rtol=10 * TOLERANCE[dtype])
        np.testing.assert_allclose(
            other.eigenvalue_bounds,
            scaled.to("numpy").eigenvalue_bounds,
            rtol=100 * TOLERANCE[dtype],
        )


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_scale_is_positive(xp, value):
    model = slce_xp.fit(xp.array(X), CODES)
    with pytest.raises(ValueError, match=rf"positive and finite; got {value} for feature 2\."):
        model.unscaled(xp.array(np.array([1.0, 2.0, value, 4.0])))


def test_scale_is_an_array_on_the_device_of_the_model(xp):
    model = slce_xp.fit(xp.array(X), CODES)
    with pytest.raises(TypeError, match="scale must be an array of real numbers; got list"):
        model.unscaled([1.0, 2.0, 3.0, 4.0])
    if xp.name != "numpy":
        with pytest.raises(ValueError, match="scale must be where the model is"):
            model.unscaled(np.ones(4))


def test_scale_has_one_entry_per_feature_and_is_set_once():
    model = slce_xp.fit(X, CODES)
    with pytest.raises(ValueError, match=r"scale must have one number for each of 4 features; got"):
        model.unscaled(np.ones(3))
    with pytest.raises(ValueError, match="has a scale already"):
        model.unscaled(np.ones(4)).unscaled(np.ones(4))


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (np.ma.masked_equal([1.0, 2.0, 1.0, 1.0], 2.0), "masked array"),
        (np.ones(4) + 1j, "complex128"),
        (np.array(["1"] * 4), "<U1"),
    ],
)
def test_non_real_scales_raise(scale, message):
    model = slce_xp.fit(np.eye(4), [0, 0, 1, 1])
    with pytest.raises(TypeError, match=f"^scale must .*{message}"):
        model.unscaled(scale)
