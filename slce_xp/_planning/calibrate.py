"""Measure the profile of a device: what it takes for each kind of work."""

from __future__ import annotations

import dataclasses
import time
import warnings
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from slce_xp import _backend, _parameters
from slce_xp._backend import Array
from slce_xp._planning import profiles
from slce_xp._planning.clock import QUICK, Clock, Effort
from slce_xp._planning.curve import Curve
from slce_xp._planning.devices import FILE
from slce_xp._planning.profile import Arithmetic, Profile
from slce_xp.core.eigen import gram_of

FEW = 10  # eigenpairs
LONG_PRODUCT = 5e-3  # seconds
MOVED = 2**22  # numbers that are moved at a time, as many as a block of a file has


def calibrate(
    backend: str | ModuleType | None = None, device: Any = None, *, _quick: bool = False
) -> Profile:
    """Measure how fast this machine is, so that `fit` chooses the fastest form on it.

    Takes about half a minute. The profile is stored in the user's cache
    (``~/.cache/slce_xp/profiles.json``), and fits with this library on this device use it from
    then on. It changes how fast they are, not what they return. Measure while the machine is
    otherwise idle, with as many threads as fits will have.

    The environment variable ``SLCE_XP_PROFILE`` names another file; with the value ``builtin``
    fits use built-in profiles instead of measured ones.

    Parameters
    ----------
    backend : str or namespace, optional
        As for `fit`; "numpy" by default.
    device : device or str, optional
        As for `fit`.

    Returns
    -------
    Profile
        Predicts the seconds of each kind of work; prints as a table.

    Warns
    -----
    UserWarning
        If the profile is not stored: other programs were using the machine, or the file cannot
        be written.

    See Also
    --------
    slce_xp.plan : Predicts the cost of a fit.

    Examples
    --------
    >>> import slce_xp
    >>> profile = slce_xp.calibrate()  # doctest: +SKIP
    >>> profile.product(2000, 2000, 32)  # seconds  # doctest: +SKIP
    0.0031
    """
    place = _parameters.named_place("numpy" if backend is None else backend, device)
    effort = QUICK if _quick else Effort()
    start = time.monotonic()
    with _backend.computing(place):
        clock = Clock(place, effort)
        # Other programs come and go: each step is measured in every lap, and its median counts.
        profile = _measured(clock)
        for _ in range(effort.laps - 1):
            if time.monotonic() - start < effort.patience:
                profile = _measured(clock)
    if clock.is_disturbed and not _quick:
        warnings.warn(
            "other programs were using the machine, and times vary by more than a third: the "
            "profile is not stored. Measure again while it is idle",
            stacklevel=2,
        )
        return profile
    try:
        profiles.store(profile, place)
    except OSError as error:
        warnings.warn(
            f"the profile could not be stored in {profiles.path()!r} "
            f"({error.strerror or error}), and fits will not use it. Make that folder writable, "
            f"or set {profiles.VARIABLE} to another file",
            stacklevel=2,
        )
    return profile


def _measured(clock: Clock) -> Profile:
    place = clock.place
    clock.measure_overhead()
    longest = _backend.longest_float(place)
    double = _arithmetic(clock, longest)
    single = double
    if _backend.dtype_name(longest) != "float32":
        single = _arithmetic(clock, place.xp.float32)
    values = np.ones((min(clock.effort.entries // 4, MOVED), 1), dtype=np.float32)
    moving = clock.net(("move",), lambda: _backend.copied(_backend.from_host(values, place)))
    there = _backend.from_host(values, place)
    reading = clock.net(("read",), lambda: place.xp.sum(there, axis=0))
    return Profile(
        name=profiles.describe(place),
        single=single,
        double=double,
        operation=clock.operation,
        wait=clock.wait,
        bandwidth=values.nbytes / reading,
        transfer_bandwidth=values.nbytes / moving,
        source_bandwidth=FILE,  # not measured: what was just written is not read from the disk
    )


def _arithmetic(clock: Clock, dtype: Any) -> Arithmetic:
    kind, widths = _backend.dtype_name(dtype), clock.effort.widths
    X = _matrix_to_multiply(clock, dtype)
    n, d = X.shape
    product = Curve.through(
        ((w, _both_ways(clock, ("product", kind), X, w) / (n * d)) for w in widths), 1.0
    )
    symmetric = Curve.through(
        ((w, _symmetric(clock, X, w) / (n * w)) for w in (*widths, 1000) if 1 < w <= d), 1.0
    )
    eigh, some, cholesky = _factorizations(clock, dtype)
    last = int(some.sizes[-1])
    S = _positive_definite(clock, last, dtype)
    quarter = clock.net(("quarter", kind, last), partial(_eigenvectors, S, last // 4))
    rows, columns = min(n, 4096), [w for w in widths if w <= d // 2]
    qr = Curve.through(((w, _qr(clock, X[:rows, :w]) / rows) for w in columns), 2.0)
    # A short matrix shows what columns cost, whatever the rows.
    w = columns[len(columns) // 2]
    short = _qr(clock, X[: 2 * w, :w]) - 2 * w * qr(w)
    return Arithmetic(
        product=product,
        symmetric=symmetric,
        eigh=eigh,
        eigh_some=some,
        eigh_vector=max(quarter - some(last), 0.0) / (last // 4 * last**2),
        cholesky=cholesky,
        qr=qr,
        qr_column=max(short, 0.0) / w,
        sparse=_sparse(clock, product, dtype),
    )


def _matrix_to_multiply(clock: Clock, dtype: Any) -> Array:
    """A matrix so large that a narrow product takes a while, or as large as allowed."""
    entries = min(2**22, clock.effort.entries)
    while True:
        side = int((entries / 2) ** 0.5)
        X = clock.draw((2 * side, side), dtype)
        name = ("size", _backend.dtype_name(dtype), entries)
        if 2 * entries > clock.effort.entries or _both_ways(clock, name, X, 32) > LONG_PRODUCT:
            return X
        entries *= 2


def _both_ways(clock: Clock, name: tuple, X: Array, width: int) -> float:
    """Mean time of a product with X and with its transpose."""
    left, right = (clock.draw((width, length), X.dtype) for length in X.shape)
    name = (*name, X.shape, width)
    return (
        clock.net((*name, "X"), lambda: left @ X) + clock.net((*name, "X.T"), lambda: right @ X.T)
    ) / 2


def _symmetric(clock: Clock, X: Array, width: int) -> float:
    """Time of RᵀR for some columns of X."""
    rows = _backend.copied(X[:, :width])
    return clock.net(("symmetric", _backend.dtype_name(X.dtype), rows.shape), lambda: gram_of(rows))


def _qr(clock: Clock, X: Array) -> float:
    return clock.net(("qr", _backend.dtype_name(X.dtype), X.shape), lambda: _backend.qr(X)[0])


def _positive_definite(clock: Clock, m: int, dtype: Any) -> Array:
    X = clock.draw((m + m // 2, m), dtype)
    return X.T @ X


def _factorizations(clock: Clock, dtype: Any) -> tuple[Curve, Curve, Curve]:
    """All eigenpairs, a few of them, and the Cholesky factor, by size."""
    kind = _backend.dtype_name(dtype)
    every, some, cholesky = [], [], []
    for m in clock.effort.sizes:
        S = _positive_definite(clock, m, dtype)
        every.append((m, clock.net(("all", kind, m), partial(_eigenvectors, S, m))))
        some.append((m, clock.net(("some", kind, m), partial(_eigenvectors, S, FEW))))
        cholesky.append((m, clock.net(("cholesky", kind, m), partial(_backend.cholesky, S))))
        if m >= 800 and every[-1][1] > clock.effort.enough:
            break
    return Curve.through(every, 3.0), Curve.through(some, 3.0), Curve.through(cholesky, 3.0)


def _eigenvectors(matrix: Array, k: int) -> Array:
    return _backend.largest_eigenpairs(matrix, k)[1]


def _sparse(clock: Clock, product: Curve, dtype: Any) -> Curve:
    """Products with a sparse matrix, by width, for each stored entry."""
    kind = _backend.dtype_name(dtype)
    shape = (10_000, 2_000) if clock.effort.entries > 2**20 else (200, 100)
    try:
        X = _backend.draw_sparse(0, shape, shape[1] // 20, clock.place, dtype)
    except TypeError:  # a library without sparse matrices
        return dataclasses.replace(product, seconds=tuple(20 * s for s in product.seconds))
    widths = [w for w in clock.effort.widths if w <= 128]
    return Curve.through(
        ((w, _both_ways(clock, ("sparse", kind), X, w) / X.stored) for w in widths), 1.0
    )
