"""Predicted seconds of the steps of each form, by the profile of a device."""

from __future__ import annotations

from dataclasses import dataclass

from slce_xp._planning.problem import CLUSTER, MEMORY, Problem
from slce_xp._planning.profile import Profile
from slce_xp._planning.schedule import TYPICAL_PASSES, Schedule, basis_length
from slce_xp.core.solution import Costs
from slce_xp.core.sums import ONE_HOT_CLASSES

# Array operations of a product with C that do not grow with the data: of the product itself, and
# of the space that grows by it, on the device and on the host.
PASS_OPERATIONS, GROWTH_OPERATIONS, HOST_OPERATIONS = 8, 30, 250
# Those of a whole fit in addition to its passes, on the device; Python's time on the host, in the
# time of so many operations. Seconds per label to sort them.
FIT_OPERATIONS, LABEL_SECONDS = 100, 6e-8
PYTHON_OPERATIONS = {"scatter": 900, "gram": 1600, "krylov": 1600}
# Rows of the small problem that the host's eigensolver is timed at.
RITZ_ROWS = 200
# Small problems of an iteration take as long as so many of the last one: of a symmetric matrix
# in feature coordinates, which is factored first in sample coordinates.
RITZ_PROBLEMS = {"scatter": 2.0, "gram": 4.0}
# A stored entry is added to its class, and multiplied by another one of its row or column, in the
# time that it takes in a product with a dense matrix of so many columns.
SUM_COLUMNS, PAIR_COLUMNS = 12, 32
# Times that a block of rows is read and written to be converted or centred.
COPY_READS = 3


@dataclass(frozen=True)
class Steps:
    """Seconds of the steps of a fit of one problem on one device.

    Attributes
    ----------
    problem : Problem
        As it is computed.
    profile : Profile
        Of the device.
    host : Profile
    converts : bool
        Whether each block of X is converted to another dtype.
    """

    problem: Problem
    profile: Profile
    host: Profile
    converts: bool = False

    def solve(
        self, form: str, schedule: Schedule, products: int = TYPICAL_PASSES
    ) -> tuple[float, Costs]:
        """Seconds of a fit in a form with so many products with C, and those of its steps."""
        costs = self.costs(form, schedule)
        seconds = self._start(form) + self._end()
        if form != "krylov":
            seconds += costs.forming
        if not schedule.width:
            return seconds + costs.dense, costs
        each = costs.implicit if form == "krylov" else costs.formed
        small = self.host.eigh(schedule.rows(self.problem, form, products))
        shape = form if form != "krylov" else smaller_form(self.problem)
        return seconds + products * each + RITZ_PROBLEMS[shape] * small, costs

    def costs(self, form: str, schedule: Schedule) -> Costs:
        """Seconds of the steps that an iteration chooses from."""
        problem, item = self.problem, self.problem.itemsize
        shape = form if form != "krylov" else smaller_form(problem)
        forming, dense = self._forming(shape, with_sums=form != "krylov"), self._dense(shape)
        if not schedule.width:  # nothing to choose from
            return Costs(forming=forming, dense=dense)
        m = problem.n if shape == "gram" else problem.d
        growth = self._growth(form, schedule)
        return Costs(
            implicit=self._pass(schedule) + growth,
            forming=forming,
            formed=self.profile.product(m, m, _average(problem, schedule), item) + growth,
            dense=dense,
            ritz=0.5 * RITZ_PROBLEMS[shape] * self.host.eigh(RITZ_ROWS) / RITZ_ROWS**3,
        )

    # ------------------------------------------------------------ steps

    def _start(self, form: str) -> float:
        """Labels, class sums, and what does not depend on the data."""
        profile = self.profile
        fixed = FIT_OPERATIONS * profile.operation + 6 * profile.wait
        fixed += PYTHON_OPERATIONS[form] * self.host.operation + LABEL_SECONDS * self.problem.n
        return fixed + self._reading() + self._conversion + self._sums()

    def _sums(self) -> float:
        """The class sums of X."""
        problem, profile = self.problem, self.profile
        n, d, n_classes, item = problem.n, problem.d, problem.n_classes, problem.itemsize
        if problem.stored is not None:
            width = SUM_COLUMNS if problem.by_code else n_classes
            return profile.sparse_product(problem.stored, width, item)
        if problem.by_code:
            return profile.read(self._bytes) + 4 * profile.read(n_classes * d * item)
        if n_classes <= ONE_HOT_CLASSES:
            return profile.product(n_classes, n, d, item)
        return 4 * profile.read(self._bytes)  # rows are gathered class by class

    @property
    def _conversion(self) -> float:
        return COPY_READS * self.profile.read(self._bytes) if self.converts else 0.0

    def _end(self) -> float:
        """The model: signs of the components, and the loss."""
        return 8 * self.profile.read(self.problem.k * self.problem.d * self.problem.itemsize)

    def _pass(self, schedule: Schedule) -> float:
        """A product of C with a block, by a pass over X."""
        problem, profile = self.problem, self.profile
        width = _average(problem, schedule)
        if problem.stored is not None:
            products = 2 * profile.sparse_product(problem.stored, width, problem.itemsize)
        else:
            products = 2 * profile.product(problem.n, problem.d, width, problem.itemsize)
        fixed = PASS_OPERATIONS * profile.operation
        return self._reading() + self._conversion + products + fixed

    def _growth(self, form: str, schedule: Schedule) -> float:
        """The growth of a Krylov space by a block: three sweeps against half of its final rows."""
        problem, profile = self.problem, self.profile
        length, rows = basis_length(problem, form), schedule.rows(problem, form) / 2
        width = _average(problem, schedule)
        sweeps = 6 * profile.product(width, length, max(1.0, rows), problem.itemsize)
        on_host = 4 * self.host.eigh(width) + HOST_OPERATIONS * self.host.operation
        return sweeps + on_host + GROWTH_OPERATIONS * profile.operation + profile.wait

    def _forming(self, form: str, *, with_sums: bool) -> float:
        """C by a pass over X; with the class sums if it is S_t, which need the same pass."""
        problem, profile = self.problem, self.profile
        n, d, item = problem.n, problem.d, problem.itemsize
        again = 0.0 if form == "scatter" and with_sums else self._reading()
        if problem.stored is not None:
            if not problem.by_code:
                return again + profile.sparse_product(problem.stored, d, item)
            pairs = problem.stored * problem.stored / (d if form == "gram" else n)
            if form == "gram":
                product = profile.symmetric_product(d, n, item)
            elif problem.weighted:
                product = profile.product(d, n, d, item)
            else:
                product = profile.symmetric_product(n, d, item)
            blocks = product + COPY_READS * profile.read(n * d * item)
            return again + min(blocks, profile.sparse_product(pairs, PAIR_COLUMNS, item))
        if form == "gram":
            # Rows in chunks are moved together first, and centred.
            again += 2 * self._reading() if problem.where == CLUSTER else 0.0
            again += COPY_READS * profile.read(self._bytes) + self._conversion
            return again + profile.symmetric_product(d, n, item)
        if problem.weighted:
            return again + profile.product(d, n, d, item)
        return again + profile.symmetric_product(n, d, item)

    def _dense(self, form: str) -> float:
        """A dense eigensolver for the formed C, and what it takes before and after."""
        problem, profile = self.problem, self.profile
        n, d, k, item = problem.n, problem.d, problem.k, problem.itemsize
        if form == "scatter":
            m = profile.symmetric_product(problem.n_classes, d, item) + 3 * profile.read(
                d * d * item
            )
            return m + profile.eigh(d, min(k + 1, d), item)
        factor = profile.cholesky(n, item) + profile.symmetric_product(n, n, item)
        factor += 4 * profile.read(n * n * item)
        # Eigenvectors in the coordinates of features, whose residuals are measured.
        vectors = 2 * (self._reading() + self._conversion) + profile.qr(d, k, item)
        if problem.stored is None:
            vectors += 3 * profile.product(k, n, d, item)
        else:
            vectors += 3 * profile.sparse_product(problem.stored, k, item)
        return factor + profile.eigh(n, min(k + 1, n), item) + vectors

    def _reading(self) -> float:
        """Bring X to the device once; in memory, products read it."""
        return 0.0 if self.problem.where == MEMORY else self.profile.fetch(self._bytes)

    @property
    def _bytes(self) -> int:
        problem = self.problem
        return problem.entries * (problem.itemsize + (0 if problem.stored is None else 4))


def smaller_form(problem: Problem) -> str:
    """The form with the smaller matrix."""
    return "gram" if problem.n < problem.d and problem.allows_gram else "scatter"


def _average(problem: Problem, schedule: Schedule) -> float:
    """The average width of the blocks of a typical iteration."""
    wide = min(schedule.wide_passes, TYPICAL_PASSES)
    few = min(problem.n_classes, schedule.width)
    return max(1.0, (wide * schedule.width + (TYPICAL_PASSES - wide) * few) / TYPICAL_PASSES)


def flops_of(form: str, problem: Problem, schedule: Schedule) -> float:
    """Floating-point operations of a typical fit, by the textbook."""
    n, d, k, entries = problem.n, problem.d, problem.k, problem.entries
    if form == "krylov":
        return float(4 * entries * schedule.rows(problem, form))
    m = d if form == "scatter" else n
    forming = float(entries * m)
    if schedule.width:
        return forming + 2.0 * m * m * schedule.rows(problem, form)
    if form == "gram":
        forming += m**3 + 4.0 * entries * k
    return forming + 4.0 / 3.0 * m**3
