"""Base class of the baselines: it converts the output of a general LP solver to a Solution of the program.

A baseline returns columns as a flat array, row duals and its reported status.  Objective, bound, residuals
and gap are recomputed from the program (:mod:`copter.proof.certificate`); the baseline's figures for them are
not used.  A reported optimum is checked too.  If the certificate finds it outside the tolerance, the solver
runs again at a tighter tolerance, if it has one.  If that does not help, the status is ``unproved`` and the
reason lists the residuals.  The measured time does not include the conversion of the answer to numpy arrays
and the certificate.

Sign of prices: copter's prices are positive at an active upper row bound (p = c + A'y). HiGHS and OR-Tools
return row duals with the opposite sign (p = c - A'dual).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.models.highs_lp import HighsLP
from copter.program.sense import in_sense
from copter.proof.certificate import Certificate, certify
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
    from copter.store.changes import FlatModel

_TIGHTER = 1 / 3
"""Factor on a solver's tolerance in each run after one whose optimum missed the wanted tolerance."""
_READING_SHARE = 0.5
"""First estimate of the time for reading an answer, as a share of the time for building the model."""
COLD = ColdStart.ALWAYS_COLD.start()
BASELINE = Feature.PRICES | Feature.RAYS | Feature.DEADLINE | Feature.CANCEL


@dataclass(frozen=True)
class Layout:
    """Correspondence of a baseline's arrays to the program's slots.

    `slots`, `sizes` (k,): request slots in the baseline's column order, and their numbers of columns.
    `row_slots`, `rows` (m,): resource slots, and the baseline's rows for them.
    """

    slots: NDArray[np.int64]
    sizes: NDArray[np.int64]
    row_slots: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, program: ContinualProgram) -> Layout:
        """Return the layout of a compiled program."""
        slots, row_slots = program.request_slots, program.resource_slots
        return cls(slots, program.store.requests.n_columns[slots], row_slots, np.arange(row_slots.size))

    @classmethod
    def of_model(cls, flat: FlatModel) -> Layout:
        """Return the layout of a model that is kept between rounds."""
        at = np.flatnonzero(flat.owner >= 0)
        return cls(flat.slot, flat.size, flat.owner[at], at)


@dataclass(frozen=True)
class BaselineAnswer:
    """Output of a baseline, in its own order of columns and rows.

    `x` (n,), `dual`: None if the solver returned none; row duals have the baseline's sign. `warm`: start of
    the run. `details`: figures of the baseline for the record.
    """

    status: Status
    reason: str
    x: NDArray[np.float64] | None = None
    dual: NDArray[np.float64] | None = None
    iterations: int = 0
    warm: Start = COLD
    details: Mapping[str, float] = field(default_factory=dict)


class Baseline(ClockedSolver):
    """Base class of general LP solvers; subclasses load the program and run the solver.

    The deadline of the `settings` (:class:`copter.solvers.base.ClockedSolver`) includes everything in a
    round: edit, run, and certificate.
    """

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._last: LastX | None = None
        self._reading = 0.0  # measured seconds a column for reading and certifying an answer

    @property
    def features(self) -> Feature:
        """Features of every baseline; at a deadline or cancellation the solver's run is abandoned."""
        return BASELINE

    _of_one_round: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold a round's model; copies and pickles leave them out, because some are C objects."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._of_one_round}

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Return the seconds of the model's update or rebuild, and of the run, without the certificate."""
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
        """Load the program in its present state; the time of this method is the round's edit time."""

    @abstractmethod
    def _run(self, clock: Clock, reserve: float, tighter: float) -> BaselineAnswer:
        """Run the solver at its tolerance times ``tighter``; ``details["seconds"]`` is the time of the run.

        The run must end ``reserve`` seconds before the deadline, because reading the answer takes that long.
        """

    def _take(self, lp: Any) -> None:
        """Load the arrays of a program, with the attributes of a LinearProgram."""
        raise self._no_models()

    def _solve_model(self, model: Any, clock: Clock) -> Any:
        """Solve the relaxation of a :class:`~copter.Model`; its residuals, or a ray, confirm the status."""
        self._take(model.lp)
        found = self._run(clock, 0.0, 1.0)
        prices = None if found.dual is None else -found.dual
        answer = HighsLP(model.lp).confirmed(
            found.status, found.reason, found.x, prices, self.tolerance, clock
        )
        return model.solution(
            replace(answer, iterations=found.iterations), solver=self.name, engine=self.name
        )

    def _tightenings(self) -> int:
        """Return how many times the solver may run again, each time at a tighter tolerance."""
        return 0

    def _accepts(self, certificate: Certificate) -> bool:
        """Return whether a reported optimum is within the wanted tolerance."""
        return certificate.within(self.tolerance)

    def _proof(
        self, program: ContinualProgram, outcome: BaselineAnswer, proof: Certificate
    ) -> IntegerProof | None:
        """Return the proof of an integral solution; None for a solver of relaxations."""
        return None

    def _read(self, program: ContinualProgram, layout: Layout, outcome: BaselineAnswer) -> _Read:
        """Convert the solver's output to the program's slots and certify it."""
        y = np.zeros(program.store.rows.size)
        if outcome.dual is not None:
            y[layout.row_slots] = -outcome.dual[layout.rows]
        x = None
        if outcome.x is not None and np.isfinite(outcome.x).all():
            x = dense_to_sparse(layout.slots, layout.sizes, outcome.x)
        proof = certify(program.store, NOTHING if x is None else x, y, threads=self.threads)
        if x is not None and not x.slot.size and outcome.status is not Status.OPTIMAL:
            # Columns that are all 0 may be the solver's initial point: no allocation if they violate rows.
            x = x if proof.relative.primal <= self.tolerance else None
        return _Read(outcome, x, y, proof if x is not None else without_allocation(proof))

    def _solution(self, program: ContinualProgram, read: _Read, edit: float, clock: Clock) -> Solution:
        outcome, proof, x = read.outcome, read.certificate, read.x
        status, reason, ray = outcome.status, outcome.reason, None
        if clock.cancelled and status is Status.DEADLINE:
            status, reason = Status.CANCELLED, clock.why()
        if status in (Status.INFEASIBLE, Status.UNBOUNDED):  # a program is never unbounded
            x = None
            try:
                whole = Feature.INTEGRALITY in self.features
                status, ray = find_ray(program, Status.INFEASIBLE, clock, whole=whole)
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
    """Output of a baseline in the program's slots, with its certificate; `x` may be None."""

    outcome: BaselineAnswer
    x: SparseX | None
    y: NDArray[np.float64]
    certificate: Certificate

    def followed_by(self, later: _Read) -> _Read:
        """Return the better of two outputs, with the sums of iterations and seconds and the later status."""
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
        parts = np.array([relative.primal, relative.gap])
        return float(np.where(np.isnan(parts), np.inf, parts).max())


def _figures(certificate: Certificate) -> str:
    relative = certificate.relative
    return f"primal {relative.primal:.1e}, gap {relative.gap:.1e}"
