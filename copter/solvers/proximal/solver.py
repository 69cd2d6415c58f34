"""ProximalPoint: copter's solver, warm-started and without factorisation of the program's matrix.

Proximal-point method for  min c'x  s.t.  x_q in X_q,  l <= A x <= u  (requests may add convex terms to c'x):

    x^{k+1} = argmin { c'x + sum_q (T / t_q) |x_q - x_q^k|^2 / (2 sigma_k) : constraints }

Here t_q is the total of a request and T a typical total, so that a step changes large and small requests by
similar shares (in the units of the working set this is the plain |x - x^k|^2). For an LP and sigma large
enough, one step yields the projection of x^0 onto the optimal set (Mangasarian and Meyer 1979; Friedlander
and Tseng 2007): the optimum that is nearest to the last round's allocation. x^0 is that allocation, padded
with zeros for new requests, and y^0 are its prices.

There are three nested loops, listed from the outermost:

1. *Columns.*  A pricing pass over the whole store at the current prices (:mod:`copter.proof.pricing`)
   certifies the solution and collects the columns that could improve it; the others are zero.
2. *Proximal point* on those columns (:mod:`copter.solvers.proximal.steps`): sigma grows while the inner
   solver converges, and shrinks when it does not.
3. *Inner solver* of a step: semismooth Newton on the prices (:mod:`copter.solvers.inner.newton`), or
   coordinate descent on the augmented Lagrangian (:mod:`copter.solvers.inner.descent`).

Sources: thesis section 4.3.2; Rockafellar (1976) for the inexact proximal-point method; Li, Sun and Toh,
arXiv 1903.09546.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.compile.first_calls import compile_at_once
from copter.errors import UnplacedError
from copter.program.program import ContinualProgram
from copter.solvers.base import ClockedSolver, Shim, SolverState
from copter.solvers.features import Feature
from copter.solvers.proximal.engines import solve
from copter.solvers.proximal.fastest import EngineTimes
from copter.solvers.proximal.incremental import IndexCache, is_large
from copter.solvers.proximal.run import SolveOptions
from copter.solvers.proximal.state import State
from copter.solvers.proximal.tuning import LazyTuning, ProximalTuning
from copter.solvers.settings import Setting, count, function, one_of, switch

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.proof.certificate import Certificate
    from copter.solution import Solution
    from copter.store.allocation import SparseX

Inner: TypeAlias = Literal["auto", "cd", "newton"]
INNER: tuple[Inner, ...] = ("newton", "cd")
USUAL = ProximalTuning()
_WARM_UP_PROGRAM = 2.0
"""Seconds of each of two solves by coordinate descent: the first may spend all of them on compilation."""
_REQUESTS, _WIDE = 12, 200
"""Numbers of requests of each kind, and of rows, in the programs of :meth:`ProximalPoint.warm_up`."""


def _tuning(value: Any) -> ProximalTuning:
    """Check that a value is a ProximalTuning."""
    if not isinstance(value, ProximalTuning):
        raise ValueError("must be a ProximalTuning")
    return value


class ProximalPoint(ClockedSolver):
    """Warm-started proximal-point solver with a certified gap, the class of copter's default solver.

    Parameters
    ----------
    inner : "auto", "cd" or "newton"
        "cd": coordinate descent. "newton": semismooth Newton. "auto": Newton, with a switch to descent if it
        stalls.
    iteration_limit : int
        Limit on inner iterations over the whole solve.
    warm_start : bool
        True to start from the last solution of the same program.
    fall_back : bool
        True to let HiGHS solve the working set if the method stalls, has used half of the iteration limit, or
        takes many iterations on a small set (:mod:`copter.solvers.proximal.finish`).
        ``Solution.details["highs_fallbacks"]`` counts these cases.
    callback : callable, optional
        Called as ``callback(iteration, certificate)`` after every pricing pass, including the first. The
        certificate is that of the minimisation problem, also if the program is maximised.
    tuning : ProximalTuning, optional
        Parameters of the method, each with its measured effect.
    engine : "proximal" or "fastest"
        "proximal": only this method. "fastest": simplex from the last basis solves the rounds of a program on
        which it was faster (:mod:`copter.solvers.proximal.fastest`). The choice depends on measured times, so
        another run of the same rounds may have other solutions within the tolerance.
        ``make_solver("copter")`` uses "fastest".
    **common
        ``tolerance``: relative primal residual and gap of an optimal solution. ``time_limit``:
        seconds after which the solver returns the best solution so far with its gap. ``threads``: number of
        threads for pricing passes; the solution does not depend on it.

    Examples
    --------
    >>> from copter import ContinualProgram, ProximalPoint
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=3)
    >>> for job in range(4):
    ...     program.add_request(job, costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> solver = ProximalPoint(tolerance=1e-6)
    >>> solution = solver.solve(program)
    >>> solution.status.value, round(solution.objective, 3)
    ('optimal', -3.0)
    >>> program.update_resources("gpu", upper=5)
    >>> solution = solver.solve(program)
    >>> solution.warm_started, round(solution.objective, 3)
    (True, -4.8)
    """

    features = (
        Feature.CONVEX_TERMS
        | Feature.PRICES
        | Feature.RAYS
        | Feature.WARM_START
        | Feature.GIVEN_START
        | Feature.IN_PLACE
        | Feature.DIFFERENTIAL_EDITS
        | Feature.DEADLINE
        | Feature.CANCEL
        | Feature.THREADS
        | Feature.SAVED_STATE
        | Feature.COMPILES
    )
    inner = Setting(one_of("auto", "cd", "newton"))
    iteration_limit = Setting(count)
    warm_start = Setting(switch)
    fall_back = Setting(switch)
    callback = Setting(function)
    tuning = Setting(_tuning)
    engine = Setting(one_of("proximal", "fastest"))

    def __init__(
        self,
        name: str = "copter",
        *,
        inner: Inner = SolveOptions.inner,
        iteration_limit: int = SolveOptions.iteration_limit,
        warm_start: bool = SolveOptions.warm_start,
        fall_back: bool = SolveOptions.fall_back,
        callback: Callable[[int, Certificate], None] | None = None,
        tuning: ProximalTuning = USUAL,
        engine: Literal["proximal", "fastest"] = "proximal",
        **common: Any,
    ) -> None:
        super().__init__(name, **common)
        self.inner = inner
        self.iteration_limit = iteration_limit
        self.warm_start = warm_start
        self.fall_back = fall_back
        self.callback = callback
        self.tuning = tuning
        self.engine = engine
        self._state = State()
        self._cache = IndexCache()
        self._times = EngineTimes()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_times": copy(self._times)}  # two solvers cannot use one model

    @property
    def goal(self) -> float:
        """Tolerance of a solve."""
        return self.tolerance

    def reset(self) -> None:
        """Forget the last solution."""
        self._state = State()
        self._times = EngineTimes()

    def warm_up(self, program: ContinualProgram | None = None, shim: Shim | None = None) -> None:
        """Solve small programs that use all code of a round, so that it is compiled before the first round.

        After this call the process compiles each kernel at its first call
        (:mod:`copter.compile.first_calls`).

        Parameters
        ----------
        program : ContinualProgram, optional
            Program that is solved as in the first round, and by coordinate descent, which a later round may
            need; the solver's own state does not change.
        shim : Shim, optional
            Rounding method that is applied to the solution.
        """
        compile_at_once()
        for each in _small_programs():
            for inner in INNER if self.inner == "auto" else (self.inner,):
                ProximalPoint(self.name, inner=inner, tolerance=1e-3, iteration_limit=200).solve(each)
        if self.engine == "fastest":
            ProximalPoint(self.name, engine="fastest").solve(next(_small_programs()))
        if program is None:
            return
        if is_large(program, self.tuning.lazy):
            warm_up_few_changes()
        starts = program.take_starts()
        try:
            first = ProximalPoint(self.name, inner=self.inner, tolerance=self.tolerance, tuning=self.tuning)
            solution = first.solve(program)
            for _ in range(2 if self.inner == "auto" else 0):
                descent = ProximalPoint(self.name, inner="cd", fall_back=False, tolerance=self.tolerance)
                descent.solve(program, time_limit=_WARM_UP_PROGRAM)
        finally:
            program.return_starts(starts)
        if shim is not None and solution.found:
            with suppress(UnplacedError):  # requests that cannot be placed do not matter here
                shim.round(program, solution)

    def start(self, program: ContinualProgram) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Return allocation and prices, by slot, from which the next solve begins; None for a cold start."""
        return self._state.point(program) if self.warm_start else None

    def start_from(self, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> None:
        """Begin the next solve from this allocation and these prices, by slot of ``program``."""
        self._state = self._state.moved_to(program, x, y)

    def _saved(self, program: ContinualProgram) -> SolverState | None:
        """Return the state of the last round; None if it was a round of another program."""
        return self._state.to_arrays(program)

    def _load_saved(self, program: ContinualProgram, state: SolverState) -> None:
        self._state = State.from_arrays(program, state)

    def _solve_model(self, model: Any, clock: Clock) -> Any:
        """Solve a :class:`~copter.Model` as ``model.solve()`` does, at this solver's tolerance."""
        if self.engine != "fastest":
            return super()._solve_model(model, clock)
        return model.solve_within(self.goal, clock)

    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        """Solve the program, from the last solution if there is one."""
        options = SolveOptions(
            self.goal,
            self.inner,
            self.iteration_limit,
            self.warm_start,
            self.fall_back,
            self.callback,
            self.threads,
            self.tuning,
        )
        pending, left = program.take_starts(), self._state
        try:
            starts = self._state.starts(program, pending)
            times = self._times if self.engine == "fastest" else None
            solution, left = solve(program, self._state, options, clock, starts, self._cache, times)
        finally:
            if left is self._state:  # no pass was completed: the next solve uses the starts
                program.return_starts(pending)
        self._state = left
        return solution


def warm_up_few_changes() -> None:
    """Solve rounds of small programs in which only active requests are read."""
    lazy = LazyTuning(requests_from=1, columns_from=1, most_touched=1.0, most_open=1.0)
    program, solver = _mixed(_WIDE // 10), ProximalPoint(tuning=replace(USUAL, lazy=lazy))
    for number in range(8):
        solver.solve(program)
        program.update_request(("at most", number), scale=0.1 + 0.2 * number)
        program.update_request(("exactly", number), costs=[-1.0, 0.1 * number, -0.5])


def _small_programs() -> Iterator[ContinualProgram]:
    """Yield programs whose solution compiles or loads the code that rounds need.

    The first has all kinds of requests, the second many rows, and the third no solution.
    """
    program = _mixed(3)
    yield program
    yield _mixed(_WIDE)
    program.update_resources(0, upper=-0.5)
    yield program


def _mixed(rows: int) -> ContinualProgram:
    program = ContinualProgram()
    for row in range(rows):
        program.add_resource(row, 3.0 + row % 2, lower=-1.0)
    shared = program.share_columns({row: [1.0, 0.0, 2.0] for row in range(2)}, 3)
    for k in range(_REQUESTS):
        costs, own = [-1.0 - 0.1 * k, 0.0, -1.5], {k % rows: [1.0 + k % 3, 0.0, 2.0]}
        program.add_request(("at most", k), costs, own, total=1.0, upper=[1.0, 1.0, 0.7])
        program.add_request(("exactly", k), costs, shared, total=1.0, relation="==")
        program.add_request(("free", k), [-0.5], {k % rows: [1.0]}, upper=2.0)
    return program
