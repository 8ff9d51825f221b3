"""What a device takes for each kind of work, in seconds: the numbers a plan is made of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from slce_xp._planning.curve import LARGEST, Curve
from slce_xp._planning.sizes import format_seconds

SINGLE, DOUBLE = 4, 8  # itemsizes


@dataclass(frozen=True)
class Arithmetic:
    """Curves of one dtype.

    Attributes
    ----------
    product : Curve
        Of a matrix product, by its shortest dimension, for each pair of the other two indices.
    symmetric : Curve
        The same of RᵀR, which takes about half as long if the library calls SYRK.
    eigh : Curve
        All eigenpairs of a symmetric m × m matrix, by m.
    eigh_some : Curve
        A few of them, by m.
    eigh_vector : float
        Additional seconds for each eigenvector and entry of the matrix, if some are computed.
    cholesky : Curve
        Of an m × m matrix, by m.
    qr : Curve
        Of a tall matrix with k columns, by k, for each row.
    qr_column : float
        Additional seconds for each column, however many rows there are.
    sparse : Curve
        Of a sparse matrix times a dense one of w columns, by w, for each stored entry.
    """

    product: Curve
    symmetric: Curve
    eigh: Curve
    eigh_some: Curve
    eigh_vector: float
    cholesky: Curve
    qr: Curve
    qr_column: float
    sparse: Curve


@dataclass(frozen=True)
class Profile:
    """Predicted seconds of each kind of work on one device.

    `PROFILES` has those of some devices; `slce_xp.calibrate` measures this machine's.

    Attributes
    ----------
    name : str
        The device.
    single, double : Arithmetic
        In float32 and float64.
    operation : float
        Overhead of one array operation, called from Python.
    wait : float
        Time until the host has read one number.
    bandwidth : float
        Bytes per second of an operation that reads its operand from memory.
    transfer_bandwidth : float
        Bytes per second from the host to the device.
    source_bandwidth : float
        Bytes per second from a file.

    See Also
    --------
    slce_xp.calibrate : Measures one.
    """

    name: str
    single: Arithmetic
    double: Arithmetic
    operation: float
    wait: float
    bandwidth: float
    transfer_bandwidth: float
    source_bandwidth: float

    def product(self, m: float, k: float, n: float, itemsize: int = DOUBLE) -> float:
        """Seconds of a matrix product, (m × k)·(k × n)."""
        width, height, length = sorted((m, k, n))
        return self.operation + height * length * self._at(itemsize).product(width)

    def symmetric_product(self, n: float, d: float, itemsize: int = DOUBLE) -> float:
        """Seconds of RᵀR of an n × d matrix R; of RRᵀ, with n and d exchanged."""
        product = d * max(n, d) * self._at(itemsize).symmetric(min(n, d))
        # One half of the result is copied to the other.
        return self.read(2 * d * d * itemsize) + product

    def eigh(self, m: float, k: float | None = None, itemsize: int = DOUBLE) -> float:
        """Seconds of the k largest eigenpairs of a symmetric m × m matrix; all by default."""
        at = self._at(itemsize)
        every = at.eigh(m)
        if k is not None:
            every = min(every, at.eigh_some(m) + at.eigh_vector * m * m * k)
        return self.operation + every

    def cholesky(self, m: float, itemsize: int = DOUBLE) -> float:
        """Seconds of the Cholesky factor of an m × m matrix."""
        return self.operation + self._at(itemsize).cholesky(m)

    def qr(self, m: float, k: float, itemsize: int = DOUBLE) -> float:
        """Seconds of orthonormal columns of an m × k matrix."""
        columns, rows = sorted((m, k))
        at = self._at(itemsize)
        return self.operation + columns * at.qr_column + rows * at.qr(columns)

    def sparse_product(self, stored: float, width: float, itemsize: int = DOUBLE) -> float:
        """Seconds of a sparse matrix with `stored` entries times a dense one of `width` columns."""
        return self.operation + stored * self._at(itemsize).sparse(width)

    def read(self, n_bytes: float) -> float:
        """Seconds to read an array once from the memory of the device."""
        return self.operation + n_bytes / self.bandwidth

    def fetch(self, n_bytes: float) -> float:
        """Seconds to bring part of a file to the device: reading and copying overlap."""
        return self.operation + n_bytes / min(self.source_bandwidth, self.transfer_bandwidth)

    def _at(self, itemsize: int) -> Arithmetic:
        return self.single if itemsize <= SINGLE else self.double

    def to_dict(self) -> dict[str, Any]:
        """As numbers, lists and dictionaries, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, facts: Any) -> Profile:
        """From the output of `to_dict`; raises ValueError for anything else."""
        try:
            parts = {key: _arithmetic(facts[key]) for key in ("single", "double")}
            profile = cls(**{**facts, **parts})
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a profile of this version ({error!r})") from error
        _check_positive(profile)
        if not isinstance(profile.name, str):
            raise ValueError(f"the name of a profile is a string; got {profile.name!r}")
        return profile

    def __str__(self) -> str:
        """A table of at most 80 columns."""
        lines = [f"profile of {self.name}"[:80], f"  {'':30}{'float32':>16}{'float64':>16}"]
        cells: dict[str, Callable[[int], str]] = {
            **{f"product of width {w}": partial(self._rate, w) for w in (1, 8, 32, 128, 512)},
            **{f"RᵀR of width {w}": partial(self._symmetric_rate, w) for w in (32, 128, 512)},
            "all eigenpairs, m = 100": lambda i: format_seconds(self.eigh(100, None, i)),
            "all eigenpairs, m = 400": lambda i: format_seconds(self.eigh(400, None, i)),
            "all eigenpairs, m = 1600": lambda i: format_seconds(self.eigh(1600, None, i)),
            "10 eigenpairs, m = 1600": lambda i: format_seconds(self.eigh(1600, 10, i)),
            "Cholesky factor, m = 1600": lambda i: format_seconds(self.cholesky(1600, i)),
            "QR, 10 000 × 32": lambda i: format_seconds(self.qr(10_000, 32, i)),
            "10⁶ sparse entries, width 32": lambda i: format_seconds(
                self.sparse_product(1e6, 32, i)
            ),
        }
        for label, cell in cells.items():
            lines.append(f"  {label:30}{cell(SINGLE):>16}{cell(DOUBLE):>16}")
        memory, transfer, source = (
            f"{_number(rate / 1e9)} GB/s"
            for rate in (self.bandwidth, self.transfer_bandwidth, self.source_bandwidth)
        )
        return "\n".join(
            [
                *lines,
                f"  one operation {format_seconds(self.operation)}, "
                f"one wait {format_seconds(self.wait)}",
                f"  memory {memory}, to the device {transfer}, file {source}",
            ]
        )

    def _rate(self, width: int, itemsize: int) -> str:
        seconds = self.product(2000, 2000, width, itemsize)
        return f"{_number(2e-9 * 2000**2 * width / seconds)} GFLOP/s"

    def _symmetric_rate(self, width: int, itemsize: int) -> str:
        seconds = self.symmetric_product(10_000, width, itemsize)
        return f"{_number(2e-9 * 10_000 * width**2 / seconds)} GFLOP/s"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000.0 else f"{value:.3g}"


def _arithmetic(facts: dict[str, Any]) -> Arithmetic:
    parts: dict[str, Any] = {
        key: Curve(tuple(value["sizes"]), tuple(value["seconds"]), value["power"])
        if isinstance(value, dict)
        else value
        for key, value in facts.items()
    }
    made = Arithmetic(**parts)
    _check_positive(made)
    return made


def _check_positive(made: Arithmetic | Profile) -> None:
    """Check that the numbers of a dataclass are positive and finite; some terms may vanish."""
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        least = 0.0 if field.name in ("eigh_vector", "qr_column") else math.ulp(0.0)
        if field.type == "float" and not (
            isinstance(value, (int, float)) and least <= value < LARGEST
        ):
            raise ValueError(f"{field.name} must be a positive number; got {value!r}")
        if field.type == "Curve" and not isinstance(value, Curve):
            raise ValueError(f"{field.name} must be a curve; got {value!r}")
