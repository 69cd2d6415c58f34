"""Data of one solve: options, context, and end."""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.compile.kernels import compile_seconds
from copter.proof.certificate import Certificate
from copter.solution import FarkasRay, Solution, Status
from copter.solvers.memory import churn_base
from copter.solvers.proximal.columns import Screening
from copter.solvers.proximal.finish import HighsFallback
from copter.solvers.proximal.full_pass import FullPass
from copter.solvers.proximal.state import Budget, Iterate, State, WarmStart
from copter.solvers.proximal.tuning import ProximalTuning

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.program.program import ContinualProgram
    from copter.proof.pricing import Pricing
    from copter.solvers.proximal.fastest import EngineTimes
    from copter.solvers.proximal.incremental import IndexCache
    from copter.store.allocation import SparseX
    from copter.store.edit import Starts

log = logging.getLogger("copter")

Answer: TypeAlias = tuple[Solution, State]
"""Solution of a solve, and the state for the next one."""


class Engine(enum.StrEnum):
    """Engine of a solution: the proximal-point method, HiGHS' simplex, or the simplex for small programs.

    Solutions found by active requests only have no engine.
    """

    PROXIMAL = "proximal"
    DUAL = "dual_simplex"
    PRIMAL = "primal_simplex"
    SMALL = "small_simplex"


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

    def budget(self, clock: Clock) -> Budget:
        """Return the unused budget of a solve."""
        return Budget(self.tolerance, clock, self.iteration_limit, self.threads, self.tuning.most_piece)


class SolveContext:
    """Data that the engines of one solve share.

    Attributes
    ----------
    program : ContinualProgram
        Program to solve.
    given, state : State
        State at the start; and the present state, which has no inactive requests once all columns must be
        read.
    options : SolveOptions
        Options of the solve, without ``fall_back`` if the program has convex terms.
    starts : Starts
        Initial values given with edits, by request slot.
    cache : IndexCache
        Index of inactive requests from the last solve.
    times : EngineTimes, optional
        Times of the engines in earlier rounds; None to use no simplex.
    budget : Budget
        Time and iterations of the solve.
    why : FullPass
        Reason for reading all columns.
    stay_active : FullPass, optional
        Reason why no request may become inactive after this solve; None if requests may.
    may_fix : bool
        True if all requests may become fixed after this solve.
    holds : bool
        True if projections keep columns at their bounds, so that more requests can become inactive.
    repair : callable, optional
        ``program.primal_repair``; None after a failure.
    incumbent : Iterate, optional
        The best iterate.
    engine : Engine
        Engine of the solution.
    simplex_iterations : int
        Iterations of simplex engines, which have limits of their own.
    compiled : float
        Seconds of compilation in this process before the solve.
    """

    def __init__(
        self,
        program: ContinualProgram,
        state: State,
        options: SolveOptions,
        clock: Clock,
        starts: Starts,
        cache: IndexCache,
        times: EngineTimes | None,
    ) -> None:
        self.program, self.starts = program, starts
        # HiGHS solves no set with convex terms
        self.options = replace(options, fall_back=False) if program.store.terms else options
        self.given = self.state = state
        self.cache, self.times = cache, times
        self.budget = options.budget(clock)
        self.why = state.full_pass
        self.stay_active: FullPass | None = None
        self.repair: Callable[[ContinualProgram, SparseX, NDArray[np.float64]], SparseX] | None
        self.repair = program.primal_repair
        self.incumbent: Iterate | None = None
        self.engine, self.simplex_iterations, self.holds, self.may_fix = Engine.PROXIMAL, 0, False, False
        self.compiled = compile_seconds()

    @property
    def simplex_can(self) -> bool:
        """True if simplex can solve the program, and the options permit it."""
        options = self.options
        return options.inner == "auto" and options.fall_back and self.program.store.executor.local

    @cached_property
    def begin(self) -> WarmStart:
        """Start of a solve that reads all columns."""
        return WarmStart.of(self.program, self.state, self.starts, wanted=self.options.warm_start)

    @cached_property
    def before(self) -> SparseX | None:
        """Allocation with which churn is computed; None in the first round."""
        return churn_base(self.state.answer, self.program)

    @cached_property
    def screening(self) -> Screening:
        """Pricing passes of this solve."""
        options = self.options
        return Screening(self.program.store, options.threads, options.tuning, self.begin.slack)

    @cached_property
    def fall_back(self) -> HighsFallback:
        """HiGHS for working sets on which the steps stall."""
        options = self.options
        return HighsFallback(self.program, self.budget, options.tuning.fall_back, options.fall_back)

    @property
    def worst(self) -> float:
        """Worst residual of the incumbent; infinite without one."""
        return math.inf if self.incumbent is None else self.incumbent.worst

    def keep(self, now: Iterate) -> None:
        """Store an iterate as the incumbent if it is the best so far."""
        if self.incumbent is None or now.better_than(self.incumbent):
            self.incumbent = now

    def price(self, y: NDArray[np.float64]) -> Pricing:
        """Run a pricing pass over all columns at prices y, (row slots,)."""
        self.budget.begin_pass()
        return self.screening.price(y)

    def certify(self, x: SparseX, y: NDArray[np.float64], columns: int = 0) -> Iterate:
        """Price all columns at y, certify (x, y), found by steps on `columns` columns, and keep the best."""
        now = Iterate.of(self.program.store, x, y, self.price(y), self.options.threads)
        self.keep(now)
        self.certified(now.certificate, columns, self.program.store.n_variables, "columns")
        return now

    def certified(self, proof: Certificate, some: int, everything: int, unit: str) -> None:
        """End the pass in the budget, and report its certificate to the log and the callback."""
        self.budget.end_pass()
        log.debug(
            "%6d iterations, %8d of %d %s, objective %.9g, primal %.1e, gap %.1e, %.4f s",
            self.budget.iterations,
            some,
            everything,
            unit,
            proof.objective,
            proof.relative.primal,
            proof.relative.gap,
            self.budget.clock(),
        )
        if self.options.callback is not None:
            self.options.callback(self.budget.iterations, proof)


class End(NamedTuple):
    """End of a solve: status, reason, best iterate, and the ray that proves the status."""

    status: Status
    reason: str
    best: Iterate | None
    ray: FarkasRay | None = None
