"""Profiles of devices that were not measured: predictions from published figures."""

from __future__ import annotations

import re

from slce_xp._backend import LARGE_MATRIX
from slce_xp._planning.curve import Curve
from slce_xp._planning.profile import DOUBLE, SINGLE, Arithmetic, Profile

WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SIZES = tuple(2**i for i in range(4, 15))  # of eigenproblems

# Host to device from pinned memory, PCIe 4 (general knowledge); from pageable memory, which is
# what a copy of a NumPy array is, about half of that.
PCIE = 12e9
FILE = 2e9  # a local solid-state disk; a network file system may have a tenth of it


def cpu(threads: int = 4) -> Profile:
    """A CPU of some threads: rounded from one with AVX-512, NumPy with OpenBLAS.

    Arithmetic scales with the threads; memory is shared, and about four threads use all of it.
    """
    speed = float(max(1, threads))
    bandwidth = 10e9 * min(speed, 4.0)
    arithmetic = {}
    for item, rate in ((SINGLE, 90e9), (DOUBLE, 45e9)):
        cubes = item / DOUBLE * 2.0 / speed  # measured with two threads, in double precision

        # Smaller matrices are solved in double precision; some eigenpairs of them on one thread.
        def every(m: int, cubes: float = cubes) -> float:
            return 7e-8 * m**2 + 8e-11 * (cubes if m > LARGE_MATRIX else 2.0 / speed) * m**3

        def some(m: int, cubes: float = cubes) -> float:
            return 2e-8 * m**2 + (4e-11 * cubes if m > LARGE_MATRIX else 5e-11) * m**3

        sizes = sorted({*SIZES, LARGE_MATRIX, LARGE_MATRIX + 20})
        arithmetic[item] = Arithmetic(
            product=Curve.through(
                ((w, 2.0 * w / (rate * speed) + 5.0 / bandwidth) for w in WIDTHS), 1.0
            ),
            symmetric=Curve.through(
                ((w, w / (rate * speed) + 2.5 / bandwidth) for w in WIDTHS), 1.0
            ),
            eigh=Curve.through(((m, every(m)) for m in sizes), 3.0),
            eigh_some=Curve.through(((m, some(m)) for m in sizes), 3.0),
            eigh_vector=3e-10 * cubes,
            cholesky=Curve.through(
                ((m, 5e-6 + 4e-9 * m**2 + 1.2e-11 * cubes * m**3) for m in SIZES), 3.0
            ),
            qr=Curve.through(((k, 1.5e-8 * k + 2e-10 * cubes * k**2) for k in WIDTHS), 2.0),
            qr_column=1e-6,
            # SciPy's sparse products use one thread.
            sparse=Curve.through(((w, 1e-9 + w * 0.05e-9 * item) for w in WIDTHS), 1.0),
        )
    return Profile(
        name=f"a CPU with {threads} thread{'s' * (threads != 1)}, not measured",
        single=arithmetic[SINGLE],
        double=arithmetic[DOUBLE],
        operation=1e-6,
        wait=1e-6,
        bandwidth=bandwidth,
        transfer_bandwidth=bandwidth,
        source_bandwidth=FILE,
    )


def _gpu(name: str, double: float, single: float, memory: float) -> Profile:
    """A GPU by its peak TFLOP/s and TB/s, of which libraries reach about four fifths.

    One operation of torch takes 8 µs (pytorch#161822); the eigensolver is fitted to published times
    (pytorch#175585), Cholesky to pytorch#173515 (0.4 ms for m = 512, 2 ms for m = 2048). The QR and
    sparse rates are general knowledge. No library calls SYRK for `@`.
    """
    bandwidth = 0.8e12 * memory
    arithmetic = {}
    for item, peak in ((SINGLE, single), (DOUBLE, double)):
        rate = 0.8e12 * peak
        eigh = Curve.through(
            ((m, 28e-6 * m + m**3 / 3 * item / bandwidth + 6 * m**3 / (0.6 * rate)) for m in SIZES),
            3.0,
        )
        product = Curve.through(((w, 2.0 * w / rate + item / bandwidth) for w in WIDTHS), 1.0)
        arithmetic[item] = Arithmetic(
            product=product,
            symmetric=product,
            eigh=eigh,
            eigh_some=eigh,
            eigh_vector=0.0,
            cholesky=Curve.through(
                ((m, 0.8e-6 * m + m**3 / 3 / (0.5 * rate)) for m in SIZES), 3.0
            ),
            qr=Curve.through(((k, 4.0 * k**2 / (0.3 * rate) + k * item / bandwidth)
                              for k in WIDTHS), 2.0),
            qr_column=20e-6,
            sparse=Curve.through(
                ((w, (item + 4 + w * item / 2) / (0.5 * bandwidth)) for w in WIDTHS), 1.0
            ),
        )  # fmt: skip
    return Profile(
        name=f"{name}, not measured",
        single=arithmetic[SINGLE],
        double=arithmetic[DOUBLE],
        operation=8e-6,
        wait=15e-6,
        bandwidth=bandwidth,
        transfer_bandwidth=PCIE,
        source_bandwidth=FILE,
    )


# Dense peaks: float64 and float32 (without TF32, which keeps three digits), memory. Products in
# float64 use the tensor cores of A100 and H100.
PROFILES: dict[str, Profile] = {
    "cpu": cpu(),
    "a100": _gpu("NVIDIA A100 80 GB", 19.5, 19.5, 2.04),  # published
    "h100": _gpu("NVIDIA H100 SXM", 67.0, 67.0, 3.35),  # published
    "rtx4090": _gpu("NVIDIA RTX 4090", 1.29, 62.5, 1.01),  # published; users measure 50 in float32
    "rtx3090": _gpu("NVIDIA RTX 3090", 0.56, 35.6, 0.94),  # published
    "l4": _gpu("NVIDIA L4", 0.47, 30.0, 0.30),  # general knowledge
    "t4": _gpu("NVIDIA T4", 0.25, 8.1, 0.32),  # published
    "rtx4060-laptop": _gpu("NVIDIA RTX 4060 Laptop", 0.23, 14.6, 0.26),  # published; memory: known
}
UNKNOWN_GPU = "rtx3090"


def built_in(model: str | None, threads: int | None = None) -> Profile:
    """The profile of a GPU by the name of its model, or of a CPU (None) with some threads."""
    if model is None:
        return PROFILES["cpu"] if threads is None else cpu(threads)
    words = set(re.findall(r"\w+", model.lower().replace("rtx ", "rtx")))
    known = (p for name, p in PROFILES.items() if words.issuperset(name.split("-")))
    return next(known, PROFILES[UNKNOWN_GPU])
