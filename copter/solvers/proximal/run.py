"""Data of one solve: options, context, and end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import compile_seconds
from copter.proof.certificate import Certificate
from copter.solution import Ray, Status
from copter.solvers.memory import churn_base
from copter.solvers.proximal.columns import Screening
from copter.solvers.proximal.engines import Engine
from copter.solvers.proximal.finish import HighsFallback
from copter.solvers.proximal.full_pass import FullPass
from copter.solvers.proximal.state import Budget, Iterate, State, WarmStart
from copter.solvers.proximal.tuning import ProximalTuning

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.program.program import ContinualProgram
    from copter.store.allocation import SparseX
    from copter.store.edit import Starts

_Repair = Callable[["ContinualProgram", "SparseX", NDArray[np.float64]], "SparseX"]


@dataclass(frozen=True)
class SolveOptions:
    """Options of a solve; see :class:`copter.solvers.proximal.solver.ProximalPoint`."""

    tolerance: float
    inner: Literal["auto", "cd", "newton"] = "auto"
    iteration_limit: int = 20_000
    warm_start: bool = True
    fall_back: bool = True
    callback: Callable[[int, Certificate], None] | None = None
    threads: int | None = None
    tuning: ProximalTuning = ProximalTuning()


@dataclass
class SolveContext:
    """Data that the steps of one solve share.

    `repair`: ``program.primal_repair``; None after a failure. `before`: allocation with which churn is
    computed. `compiled`: seconds of compilation in this process before the solve. `why`: reason for reading
    all columns. `holds`: True if projections keep columns at their bounds, because a request between its
    bounds cannot become inactive. `engine`: engine of the solution. `simplex_iterations`: iterations of
    simplex engines, which have limits of their own.
    """

    program: ContinualProgram
    options: SolveOptions
    budget: Budget
    screening: Screening
    fall_back: HighsFallback
    begin: WarmStart
    repair: _Repair | None
    before: SparseX | None
    compiled: float
    why: FullPass
    incumbent: Iterate | None = None
    holds: bool = False
    engine: Engine = Engine.PROXIMAL
    simplex_iterations: int = 0

    @classmethod
    def of(
        cls,
        program: ContinualProgram,
        state: State,
        options: SolveOptions,
        clock: Clock,
        starts: Starts,
        why: FullPass,
    ) -> SolveContext:
        """Return the context of a solve from a state, with the starts given with edits."""
        tuning, threads = options.tuning, options.threads
        budget = Budget(options.tolerance, clock, options.iteration_limit, threads, tuning.most_piece)
        begin = WarmStart.of(program, state, starts, wanted=options.warm_start)
        return cls(
            program,
            options,
            budget,
            Screening(program.store, threads, tuning, begin.slack),
            HighsFallback(program, budget, tuning.fall_back, options.fall_back),
            begin,
            program.primal_repair,
            churn_base(state.answer, program),
            compile_seconds(),
            why,
        )

    @property
    def worst(self) -> float:
        """Worst residual of the incumbent; infinite without one."""
        return math.inf if self.incumbent is None else self.incumbent.worst

    def keep(self, now: Iterate) -> None:
        """Store an iterate as the incumbent if it is the best so far."""
        if self.incumbent is None or now.better_than(self.incumbent):
            self.incumbent = now


class End(NamedTuple):
    """End of a solve: status, reason, best iterate, and the ray that proves the status."""

    status: Status
    reason: str
    best: Iterate | None
    ray: Ray | None = None
