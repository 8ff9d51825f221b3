"""Device profiles: what they predict, how they are measured, stored and found again."""

import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

import slce_xp
from slce_xp import _backend, cli
from slce_xp._planning import calibrate, clock, profiles
from slce_xp._planning.curve import Curve
from slce_xp._planning.devices import built_in, cpu
from slce_xp._planning.profile import Profile

SIZES = [0, 1, 2, 7, 32, 399, 400, 401, 420, 421, 1000, 3001, 10**6, 10**12]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own; the path of its profiles."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(profiles.VARIABLE, raising=False)
    return tmp_path / "slce_xp" / "profiles.json"


@pytest.fixture(scope="module")
def measured():
    """A profile of this machine, measured quickly."""
    place = _backend.find_place("numpy")
    clock = calibrate.Clock(place, calibrate.QUICK)
    return calibrate._measured(clock)


def predictions(profile, itemsize):
    """Every prediction as a function of sizes."""
    return {
        "product": (3, lambda m, k, n: profile.product(m, k, n, itemsize)),
        "symmetric": (2, lambda n, d: profile.symmetric_product(n, d, itemsize)),
        "all": (1, lambda m: profile.eigh(m, None, itemsize)),
        "some": (2, lambda m, k: profile.eigh(m, k, itemsize)),
        "cholesky": (1, lambda m: profile.cholesky(m, itemsize)),
        "qr": (2, lambda m, k: profile.qr(m, k, itemsize)),
        "sparse": (2, lambda stored, width: profile.sparse_product(stored, width, itemsize)),
        "read": (1, profile.read),
        "fetch": (1, profile.fetch),
    }


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("name", [*profiles.PROFILES, "measured"])
def test_predicted_time_is_monotonic(name, itemsize, measured):
    profile = profiles.PROFILES.get(name, measured)
    for kind, (count, predict) in predictions(profile, itemsize).items():
        for sizes in itertools.product(SIZES, repeat=count):
            seconds = predict(*sizes)
            assert 0 < seconds < math.inf, (kind, sizes)
            for i in range(count):
                for larger in (s for s in SIZES if s > sizes[i]):
                    more = predict(*sizes[:i], larger, *sizes[i + 1 :])
                    assert more >= seconds * (1 - 1e-12), (kind, sizes, i, larger)
                    break  # the next size shows it


def test_some_eigenpairs_take_no_longer_than_all():
    for profile, m, k in itertools.product([cpu(2), profiles.PROFILES["a100"]], SIZES, SIZES):
        assert profile.eigh(m, min(k, m)) <= profile.eigh(m)


def test_curve_interpolates_and_extrapolates_by_its_power():
    curve = Curve.through([(10, 1.0), (100, 100.0), (1000, 50.0)], 3.0)
    assert [curve(s) for s in (1, 10, 100, 1000)] == [1.0, 1.0, 100.0, 100.0]
    assert curve(math.sqrt(1000)) == pytest.approx(10.0)  # halfway in logarithms
    assert curve(2000) == pytest.approx(800.0)


def test_product_time_follows_the_measured_rate():
    at = cpu(2)
    flops = 2 * 3000 * 500 * 4000
    assert flops / at.product(3000, 500, 4000) == pytest.approx(90e9, rel=0.05)
    assert at.product(3000, 500, 4000) == at.product(500, 4000, 3000)
    assert at.symmetric_product(9000, 500) == pytest.approx(
        at.product(500, 9000, 500) / 2, rel=0.01
    )
    gpu = profiles.PROFILES["a100"]
    assert gpu.symmetric_product(9000, 500) == pytest.approx(gpu.product(500, 9000, 500), rel=0.01)


def test_eigensolver_of_a_gpu_follows_its_published_times():
    """28 µs·m + m³/3·itemsize/bandwidth + 6·m³/(0.6·rate), between the points, too."""
    for m in (100, 700, 5000):
        seconds = 28e-6 * m + m**3 / 3 * 8 / (0.8 * 2.04e12) + 6 * m**3 / (0.6 * 0.8 * 19.5e12)
        assert profiles.PROFILES["a100"].eigh(m) == pytest.approx(seconds, rel=0.05)


# ---------------------------------------------------------------- files


def test_json_keeps_every_digit(measured):
    for profile in (measured, *profiles.PROFILES.values()):
        assert Profile.from_dict(json.loads(json.dumps(profile.to_dict()))) == profile


def stored(profile):
    return profiles.store(profile, _backend.find_place("numpy"))


def test_stored_profile_is_found_again_and_a_newer_one_replaces_it(cache, measured):
    assert profiles.load().name.endswith("not measured")
    assert stored(measured) == str(cache)
    assert profiles.load() == profiles.load("numpy", "cpu") == measured
    place = _backend.place_of(np.empty(0))
    assert profiles.load(place.xp, place.device) == measured
    newer = dataclasses.replace(measured, operation=0.125)
    stored(newer)
    assert profiles.load() == newer
    assert [file.name for file in cache.parent.iterdir()] == [cache.name]


def test_profiles_of_other_libraries_and_thread_counts_are_kept_apart(measured, monkeypatch):
    pytest.importorskip("array_api_strict")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    stored(measured)
    assert profiles.load("array_api_strict") != measured
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    assert profiles.load() == cpu(7)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    assert profiles.load() == measured


def damage(text):
    """Files that are damaged, or of another kind."""
    facts = json.loads(text)
    (key,) = facts["profiles"]

    def other(**changes):
        profile = {**facts["profiles"][key], **changes}
        return json.dumps({**facts, "profiles": {key: profile}})

    double = facts["profiles"][key]["double"]
    falling = {**double["eigh"], "sizes": [16, 32], "seconds": [2.0, 1.0]}
    return {
        "empty": "",
        "cut": text[: len(text) // 2],
        "not JSON": "\0" * 100,
        "a list": "[]",
        "another format": json.dumps({**facts, "format": "something"}),
        "another version": json.dumps({**facts, "version": 99}),
        "profiles are a list": json.dumps({**facts, "profiles": [1]}),
        "profile is a number": json.dumps({**facts, "profiles": {key: 1}}),
        "infinite": other(operation=math.inf),
        "NaN": other(wait=math.nan),
        "negative": other(bandwidth=-1.0),
        "beyond the range of floats": other(wait=10**400),
        "a power that overflows": other(double={**double, "qr": {**double["qr"], "power": 1e308}}),
        "text": other(bandwidth="fast"),
        "unknown field": other(speed=1.0),
        "no curves": other(double={}),
        "falling curve": other(double={**double, "eigh": falling}),
        "short curve": other(double={**double, "eigh": {**double["eigh"], "seconds": [1.0]}}),
        "curve is a number": other(double={**double, "qr": 1.0}),
        "deep": "[" * 100_000,
    }


def test_damaged_or_foreign_file_is_ignored_and_replaced(cache, measured):
    stored(measured)
    default = built_in(None, profiles.threads())
    for kind, text in damage(cache.read_text()).items():
        cache.write_text(text)
        assert profiles.load() == default, kind
    stored(measured)
    assert profiles.load() == measured
    cache.write_bytes(b"\xff\xfe\xfa")
    assert profiles.load() == default
    cache.unlink()
    cache.mkdir()
    assert profiles.load() == default


def test_environment_chooses_the_built_in_profiles_or_a_file(measured, monkeypatch, tmp_path):
    stored(measured)
    monkeypatch.setenv(profiles.VARIABLE, "builtin")
    assert profiles.load() is profiles.PROFILES["cpu"]
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "9")  # the same on every machine
    assert profiles.load() is profiles.PROFILES["cpu"]
    elsewhere = tmp_path / "elsewhere.json"
    monkeypatch.setenv(profiles.VARIABLE, str(elsewhere))
    assert profiles.load() == cpu(9)
    stored(measured)
    assert elsewhere.exists()
    assert profiles.load() == measured


def test_profile_of_a_missing_backend():
    assert profiles.load("no such library") == profiles.PROFILES["cpu"]
    assert profiles.load("numpy", "no such device") == profiles.PROFILES["cpu"]
    assert profiles.load("numpy", []) == profiles.PROFILES["cpu"]


def test_stored_profile_is_parsed_once(measured, monkeypatch):
    stored(measured)
    place = _backend.place_of(np.empty(0))
    assert profiles.load(*place) == measured
    monkeypatch.setattr(profiles, "_parse", None)
    assert profiles.load(*place) == measured


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 PCIe", "h100"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", "rtx4060-laptop"),
        ("Tesla T4", "t4"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "rtx3090"),
        ("something new", "rtx3090"),
    ],
)
def test_gpu_profile_is_found_by_model_name(model, name):
    assert built_in(model) is profiles.PROFILES[name]


# ---------------------------------------------------------------- calibration


@pytest.mark.parametrize("backend", ["numpy", "torch", "array_api_strict", "jax"])
def test_device_is_measured_and_its_profile_stored(backend):
    pytest.importorskip(backend)
    profile = slce_xp.calibrate(backend, _quick=True)
    assert profiles.load(backend) == profile
    assert profile.name.startswith(f"{backend} on ")
    for count, predict in predictions(profile, 8).values():
        assert 1e-9 < predict(*[20] * count) < 10


def test_device_without_double_precision_is_measured(xp):
    if xp.label not in ("strict-single", "jax-single"):
        pytest.skip("this device has float64")
    profile = slce_xp.calibrate(xp.name, xp.device, _quick=True)
    assert profile.single == profile.double


def test_time_of_a_step_is_net_of_waiting_and_the_median_of_laps(monkeypatch):
    now = 0.0

    def spend(seconds):
        nonlocal now
        now += seconds

    steps = calibrate.Clock(_backend.find_place("numpy"), calibrate.QUICK)
    monkeypatch.setattr(steps, "_now", lambda: now)
    monkeypatch.setattr(clock, "_finish", lambda _: spend(1.0))
    steps.measure_overhead()
    assert steps.wait == 1.0
    times = [steps.net(("step",), lambda seconds=seconds: spend(seconds)) for seconds in (5, 7, 99)]
    np.testing.assert_allclose(times, [5, 6, 7], rtol=1e-6)


def test_measured_times_are_predicted_again(monkeypatch):
    monkeypatch.setattr(calibrate.Clock, "net", lambda *_: 2.0)
    steps = calibrate.Clock(_backend.find_place("numpy"), calibrate.QUICK)
    profile = dataclasses.replace(calibrate._measured(steps), bandwidth=1e12)
    n, d = calibrate._matrix_to_multiply(steps, np.float64).shape
    for itemsize in (4, 8):
        for width in calibrate.QUICK.widths:
            assert profile.product(width, n, d, itemsize) == pytest.approx(2.0, rel=1e-2)
        assert profile.symmetric_product(n, 8, itemsize) == pytest.approx(2.0, rel=1e-2)
        assert profile.eigh(32, None, itemsize) == pytest.approx(2.0, rel=1e-2)


def test_calibration_reports_that_a_profile_cannot_be_stored(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="could not be stored"):
        profile = slce_xp.calibrate(_quick=True)
    assert profile.product(1, 1, 1) > 0


def test_calibrate_validates_the_backend():
    with pytest.raises(ValueError, match="backend must be one of"):
        slce_xp.calibrate("abacus")


def test_disturbed_measurements_are_detected():
    clock = calibrate.Clock(_backend.find_place("numpy"), calibrate.QUICK)
    clock._times = {("a",): [1.0, 1.1], ("b",): [1.1, 1.0], ("c",): [5.0, 1.0]}
    assert not clock.is_disturbed
    clock._times = {("a",): [1.0, 2.0], ("b",): [1.1, 1.0], ("c",): [5.0, 1.0]}
    assert clock.is_disturbed
    clock._times = {("a",): [1.0]}  # no time for another lap
    assert clock.is_disturbed


@pytest.mark.parametrize("disturbed", [True, False])
def test_disturbed_measurement_is_not_stored(disturbed, monkeypatch, cache):
    monkeypatch.setattr(calibrate, "Effort", lambda: calibrate.QUICK)
    monkeypatch.setattr(calibrate.Clock, "is_disturbed", disturbed)
    caution = pytest.warns(UserWarning, match="not stored") if disturbed else nullcontext()
    with caution:
        slce_xp.calibrate()
    assert cache.exists() != disturbed


def test_command_prints_a_table(capsys, monkeypatch, cache):
    monkeypatch.setattr(calibrate, "Effort", lambda: calibrate.QUICK)
    monkeypatch.setattr(calibrate.Clock, "is_disturbed", False)
    assert cli.main(["calibrate", "--backend", "numpy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("profile of numpy on ")
    assert lines[-1] == f"stored in {cache}"
    assert all(len(line) <= 80 for line in lines[:-1])
    for profile in profiles.PROFILES.values():
        assert all(len(line) <= 80 for line in str(profile).splitlines())
    assert "product of width 32" in lines[4]


def test_command_reports_stored_only_if_stored(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(calibrate, "Effort", lambda: calibrate.QUICK)
    monkeypatch.setattr(calibrate.Clock, "is_disturbed", False)
    assert cli.main(["calibrate"]) == 0
    out, err = capsys.readouterr()
    assert "stored in" not in out
    assert "could not be stored" in err


def test_importing_the_package_reads_no_profile():
    code = "import sys, slce_xp; print(slce_xp._planning.profiles._last)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "(None, {})"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_path_that_is_no_regular_file_is_left_alone(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("SLCE_XP_PROFILE", str(pipe))
    monkeypatch.setattr(profiles, "stored", dict)  # a pipe would be waited for
    with pytest.warns(UserWarning, match="not a regular file"):
        slce_xp.calibrate(_quick=True)
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
