"""What the baselines share: an answer of a general LP solver becomes a Solution of the program.

A baseline hands over flat columns, row duals and its own word on why it stopped.  Objective, bound, residuals
and gap are recomputed from the program (:mod:`copter.certificate`); the baseline's figures for them are never
used.  Two things are not on a baseline's clock: turning its answer into numpy, and certifying it.

Sign of prices: ours are positive where an upper row bound is paid for (p = c + A'y); HiGHS and OR-Tools give
row duals with the opposite sign (p = c - A'dual).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from copter.certificate import certify
from copter.compiled import refuse_terms
from copter.solution import Solution, Status, Timings, dense_to_sparse, make_solution
from copter.solvers.base import Solver, Stopwatch
from copter.solvers.highs_rays import find_ray
from copter.solvers.memory import LastX, churn_base

if TYPE_CHECKING:
    from copter.program import ContinualProgram

COLD = (False, "this baseline starts cold every round")


@dataclass(frozen=True)
class Layout:
    """Which columns and rows a baseline's arrays stand for.

    Attributes
    ----------
    slots, sizes : (k,) request slots in the baseline's column order, and their columns
    row_slots, rows : (m,) resource slots, and the baseline's rows for them
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
class Outcome:
    """What a baseline found, in its own order of columns and rows.

    Attributes
    ----------
    status, reason : Status, str
    x : (n,) values of the columns, None if there are none
    dual : row duals in the baseline's sign, None if there are none
    iterations : int
    warm : whether a warm start was used, and why (not)
    details : figures of the baseline for the record
    """

    status: Status
    reason: str
    x: NDArray[np.float64] | None = None
    dual: NDArray[np.float64] | None = None
    iterations: int = 0
    warm: tuple[bool, str] = COLD
    details: Mapping[str, float] = field(default_factory=dict)


class Baseline(Solver):
    """A general solver behind copter's protocol; subclasses load the program and run the solver.

    Parameters
    ----------
    name : str
    tolerance : float
        Relative residuals and gap that are wanted; every subclass says how it uses it.
    deadline : float, optional
        Seconds for a round, edit included.
    threads : int, optional
        Threads of the solver; None leaves its default.
    """

    def __init__(
        self,
        name: str,
        *,
        tolerance: float = 1e-6,
        deadline: float | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(name)
        self.tolerance = tolerance
        self.deadline = deadline
        self.threads = threads
        self._last: LastX | None = None

    edits_in_place = False
    _of_one_round: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold a round's model; a library's objects among them cannot be copied."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._of_one_round}

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Its model's push or rebuild and the solver's own run; the certificate is on no clock."""
        return solution.timings.edit, solution.timings.solve

    def reset(self) -> None:
        """Forget everything about earlier rounds."""
        self._last = None

    def solve(self, program: ContinualProgram, *, deadline: float | None = None) -> Solution:
        """Solve the program as it is now; see :meth:`copter.solvers.base.Solver.solve`."""
        refuse_terms(program, f"solver {self.name!r}")
        deadline = self.deadline if deadline is None else deadline
        watch = Stopwatch()
        layout = self._load(program)
        edit = watch()
        outcome = self._run(None if deadline is None else max(0.0, deadline - edit))
        return self._solution(program, layout, outcome, edit)

    @abstractmethod
    def _load(self, program: ContinualProgram) -> Layout:
        """Give the solver the program as it is now; this is the round's edit time."""

    @abstractmethod
    def _run(self, deadline: float | None) -> Outcome:
        """Run the solver; ``details["seconds"]`` is the round's solve time."""

    def _solution(self, program: ContinualProgram, layout: Layout, outcome: Outcome, edit: float) -> Solution:
        status, ray = outcome.status, None
        if status in (Status.INFEASIBLE, Status.UNBOUNDED):
            status, ray = find_ray(program, status)
        x = np.zeros(int(layout.sizes.sum())) if outcome.x is None else outcome.x
        y = np.zeros(program.store.rows.size)
        if outcome.dual is not None:
            y[layout.row_slots] = -outcome.dual[layout.rows]
        sparse = dense_to_sparse(layout.slots, layout.sizes, x)
        proof = certify(program.store, sparse, y, threads=self.threads)
        reason = outcome.reason
        if status is Status.NUMERICAL_ERROR and outcome.x is not None and proof.within(self.tolerance):
            status, reason = Status.OPTIMAL, f"{reason}, but certified within the tolerance"
        details = dict(outcome.details)
        solution = make_solution(
            program,
            sparse,
            y,
            status=status,
            reason=reason,
            iterations=outcome.iterations,
            timings=Timings(edit=edit, solve=details.pop("seconds")),
            warm=outcome.warm,
            last=churn_base(self._last, program),
            ray=ray,
            certificate=proof,
            details=details,
        )
        self._last = LastX.of(program, sparse) if outcome.x is not None else None
        return solution
