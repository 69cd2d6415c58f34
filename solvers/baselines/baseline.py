"""What the baselines share: an answer of a general LP solver becomes a Solution of the program.

A baseline hands over flat columns, row duals and its own word on why it stopped.  Objective, bound, residuals
and gap are recomputed from the program (:mod:`copter.proof.certificate`); the baseline's figures for them
are never used, and neither is its word that an answer is optimal: one that the certificate finds to be
outside the tolerance is asked for again at a tighter tolerance, where the solver has one to sharpen, and is
unproved, with the figures, if that is of no use.  Two things are not on a baseline's clock: turning
its answer into numpy, and certifying it.

Sign of prices: ours are positive where an upper row bound is paid for (p = c + A'y); HiGHS and OR-Tools give
row duals with the opposite sign (p = c - A'dual).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.program.sense import in_sense
from copter.proof.certificate import Certificate, certify, proved
from copter.proof.highs_rays import find_ray
from copter.proof.integer import IntegerProof
from copter.solution import (
    UNKNOWN,
    ColdStart,
    Solution,
    Start,
    Status,
    Timings,
    make_solution,
    without_allocation,
)
from copter.solvers.base import ClockedSolver
from copter.solvers.features import Feature
from copter.solvers.memory import LastX, churn_base
from copter.store.allocation import NOTHING, SparseX, dense_to_sparse

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_TIGHTER = 1 / 3
"""Factor on a solver's tolerance each time that its optimum misses the wanted one."""
_READING_SHARE = 0.5
"""First estimate of the time for reading an answer, as a share of the time for building the model."""
COLD = ColdStart.ALWAYS_COLD.start()
BASELINE = Feature.PRICES | Feature.RAYS | Feature.DEADLINE | Feature.CANCEL


@dataclass(frozen=True)
class Layout:
    """The columns and rows of a baseline's arrays.

    `slots`, `sizes` (k,): request slots in the baseline's column order, and their numbers of columns.
    `row_slots`, `rows` (m,): resource slots, and the baseline's rows for them.
    """

    slots: NDArray[np.int64]
    sizes: NDArray[np.int64]
    row_slots: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, program: ContinualProgram) -> Layout:
        """Layout of a compiled program."""
        slots, row_slots = program.request_slots, program.resource_slots
        return cls(slots, program.store.requests.n_columns[slots], row_slots, np.arange(row_slots.size))


@dataclass(frozen=True)
class BaselineAnswer:
    """Answer of a baseline, in its own order of columns and rows.

    `x` (n,), `dual`: None if there are none; the row duals are in the baseline's sign. `warm`: how the run
    began. `details`: figures of the baseline for the record.
    """

    status: Status
    reason: str
    x: NDArray[np.float64] | None = None
    dual: NDArray[np.float64] | None = None
    iterations: int = 0
    warm: Start = COLD
    details: Mapping[str, float] = field(default_factory=dict)


class Baseline(ClockedSolver):
    """A general solver behind copter's protocol; subclasses load the program and run the solver.

    The deadline of the `settings` (:class:`copter.solvers.base.ClockedSolver`) is for all of a round: edit,
    run, and certificate.
    """

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._last: LastX | None = None
        self._reading = 0.0  # seconds a column that reading and certifying an answer took

    @property
    def features(self) -> Feature:
        """Features of every baseline; deadline and cancellation work by giving its run up."""
        return BASELINE

    _of_one_round: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold a round's model; a library's objects among them cannot be copied."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._of_one_round}

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Return the seconds of the model's update or rebuild and of the run; the certificate is
        not counted.
        """
        return solution.timings.edit, solution.timings.solve

    def reset(self) -> None:
        """Forget everything about earlier rounds."""
        self._last = None

    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        best, edit = None, None
        try:
            layout = self._load(program)
            edit = clock()
            columns = int(layout.sizes.sum())
            for attempt in range(1 + self._tightenings()):
                reserve = self._reading * columns or _READING_SHARE * edit
                outcome = self._run(clock, reserve, _TIGHTER**attempt)
                begin = clock()
                last = self._read(program, layout, outcome)
                self._reading = (clock() - begin) / max(1, columns)
                best = last if best is None else best.followed_by(last)
                if last.outcome.status is not Status.OPTIMAL or self._accepts(last.certificate):
                    break
        except Interrupted:
            edit = clock() if edit is None else edit
            late = BaselineAnswer(_ended(clock), clock.why(), details={"seconds": clock() - edit})
            unanswered = _Read(late, None, np.zeros(program.store.rows.size), UNKNOWN)
            best = unanswered if best is None else best.followed_by(unanswered)
        assert best is not None and edit is not None
        return self._solution(program, best, edit, clock)

    @abstractmethod
    def _load(self, program: ContinualProgram) -> Layout:
        """Give the solver the program as it is now; this is the round's edit time."""

    @abstractmethod
    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        """Run the solver, at its tolerance times ``tighter``; ``details["seconds"]`` are those of the run.

        It must end ``reserve`` seconds before the clock is over, which reading its answer takes.
        """

    def _tightenings(self) -> int:
        """How often it is run again, at a tighter tolerance, if its optimum is not within the wanted one."""
        return 0

    def _accepts(self, certificate: Certificate) -> bool:
        """Whether an optimum of the solver is one within the wanted tolerance."""
        return certificate.within(self.tolerance)

    def _proof(
        self, program: ContinualProgram, outcome: BaselineAnswer, proof: Certificate
    ) -> IntegerProof | None:
        """Return the proof of an integral answer; None for a solver of relaxations."""
        return None

    def _read(self, program: ContinualProgram, layout: Layout, outcome: BaselineAnswer) -> _Read:
        """Certify what the solver found."""
        y = np.zeros(program.store.rows.size)
        if outcome.dual is not None:
            y[layout.row_slots] = -outcome.dual[layout.rows]
        x = None
        if outcome.x is not None and np.isfinite(outcome.x).all():
            x = dense_to_sparse(layout.slots, layout.sizes, outcome.x)
        proof = certify(program.store, NOTHING if x is None else x, y, threads=self.threads)
        if x is not None and proof.nearly(self.tolerance):
            y, _, proof, _ = proved(program.store, x, y, self.threads)
        if x is not None and not x.slot.size and outcome.status is not Status.OPTIMAL:
            # zeros at which a solver began are no allocation if they break rows
            x = x if proof.relative.primal <= self.tolerance else None
        return _Read(outcome, x, y, proof if x is not None else without_allocation(proof))

    def _solution(self, program: ContinualProgram, read: _Read, edit: float, clock: Clock) -> Solution:
        outcome, proof, x = read.outcome, read.certificate, read.x
        status, reason, ray = outcome.status, outcome.reason, None
        if clock.cancelled and status is Status.DEADLINE:
            status, reason = Status.CANCELLED, clock.why()
        if status in (Status.INFEASIBLE, Status.UNBOUNDED):
            x = None
            try:
                status, ray = find_ray(program, status, clock, whole=Feature.INTEGRALITY in self.features)
                if status is Status.UNPROVED:
                    reason = f"{reason}, but nothing proves it"
            except Interrupted:
                status, reason = _ended(clock), f"{reason}; {clock.why()} before there was a proof"
        elif status in (Status.OPTIMAL, Status.UNPROVED, Status.NUMERICAL_ERROR) and x is not None:
            good = self._accepts(proof)
            if good and status is not Status.OPTIMAL:
                reason = f"{reason}, but certified within the tolerance"
            elif not good:
                reason = f"{reason}, but its answer is off by {_figures(proof)}"
            status = Status.OPTIMAL if good else Status.UNPROVED
        elif status is Status.OPTIMAL:
            status, reason = Status.NUMERICAL_ERROR, f"{reason}, but its answer is not finite"
        details = dict(outcome.details)
        if "mip_bound" in details:
            details["mip_bound"] = in_sense(details["mip_bound"], program.sense)
        solution = make_solution(
            program,
            x,
            read.y,
            status=status,
            reason=reason,
            iterations=outcome.iterations,
            timings=Timings(edit=edit, solve=details.pop("seconds")),
            warm=outcome.warm,
            last=churn_base(self._last, program),
            ray=ray,
            certificate=proof,
            details=details,
            integer=self._proof(program, outcome, proof),
        )
        self._last = LastX.of(program, x) if x is not None else None
        return solution


def _ended(clock: Clock) -> Status:
    return Status.CANCELLED if clock.cancelled else Status.DEADLINE


@dataclass(frozen=True)
class _Read:
    """Answer of a baseline, in the program's slots and certified; without an x, only the prices are."""

    outcome: BaselineAnswer
    x: SparseX | None
    y: NDArray[np.float64]
    certificate: Certificate

    def followed_by(self, later: _Read) -> _Read:
        """The better of two answers, with the iterations and seconds of both and the later one's status."""
        better = later if later.x is not None and later.worst <= self.worst else self
        details = dict(later.outcome.details)
        details["seconds"] += self.outcome.details["seconds"]
        iterations = self.outcome.iterations + later.outcome.iterations
        outcome = replace(later.outcome, iterations=iterations, details=details)
        return replace(better, outcome=outcome)

    @property
    def worst(self) -> float:
        """The largest relative residual."""
        relative = self.certificate.relative
        parts = np.array([relative.primal, relative.dual, relative.gap])
        return float(np.where(np.isnan(parts), np.inf, parts).max())


def _figures(certificate: Certificate) -> str:
    relative = certificate.relative
    return f"primal {relative.primal:.1e}, dual {relative.dual:.1e}, gap {relative.gap:.1e}"
