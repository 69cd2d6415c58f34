"""ProximalPoint: copter's own solver, warm-started and factorization-free.

Proximal-point method for  min c'x  s.t.  x_q in X_q,  l <= A x <= u  (requests may add convex terms to c'x):

    x^{k+1} = argmin { c'x + sum_q (T / t_q) |x_q - x_q^k|^2 / (2 sigma_k) : constraints }

with t_q the total of a request and T a typical one, so that a step moves large and small requests by like
shares (the working set has units in which this is the plain |x - x^k|^2).  For an LP a large enough sigma
reaches, in one step, the projection of x^0 onto the optimal set (Mangasarian and Meyer 1979; Friedlander
and Tseng 2007): of all optima the one that changes least from last round's allocation.  x^0 is that
allocation, padded with zeros for new requests, y^0 its prices.

Three loops, from the outside in:

1. *Columns.*  A pass over the whole store at the current prices (:mod:`copter.proof.pricing`) certifies the
   answer and collects the columns whose price makes them worth looking at; the rest are zero.
2. *Proximal point* on those columns (:mod:`copter.solvers.proximal.steps`): sigma grows while the inner
   solver converges, and shrinks when it does not.
3. *Inner solver*: semismooth Newton on the prices (:mod:`copter.solvers.inner.newton`), or coordinate
   descent on the augmented Lagrangian (:mod:`copter.solvers.inner.descent`).

Source: thesis section 4.3.2; Rockafellar (1976) for the inexact proximal-point method; Li, Sun and Toh,
arXiv 1903.09546.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.first_calls import compile_at_once
from copter.solvers.base import ClockedSolver, SolverState
from copter.solvers.blas import one_blas_thread
from copter.solvers.features import Feature
from copter.solvers.memory import LastX, LastY
from copter.solvers.proximal.rehearsal import small_programs
from copter.solvers.proximal.run import Options, Run
from copter.solvers.proximal.start import State
from copter.solvers.proximal.tuning import ProximalTuning
from copter.solvers.settings import Setting, count, function, one_of, switch

if TYPE_CHECKING:
    from copter.clock import Clock
    from copter.program.program import ContinualProgram
    from copter.proof.certificate import Certificate
    from copter.solution import Solution
    from copter.store.allocation import SparseX

Inner: TypeAlias = Literal["auto", "cd", "newton"]
INNER: tuple[Inner, ...] = ("newton", "cd")
USUAL = ProximalTuning()
_REHEARSAL = 2.0
"""Seconds of each of two solves by coordinate descent: the first may spend all on its first kernel."""


def _tuning(value: Any) -> ProximalTuning:
    """Check a record of tuning constants."""
    if not isinstance(value, ProximalTuning):
        raise ValueError("must be a ProximalTuning")
    return value


class ProximalPoint(ClockedSolver):
    """Warm-started, factorization-free proximal-point solver with a certified gap.

    Parameters
    ----------
    inner : "auto", "cd" or "newton"
        Inner solver: coordinate descent, semismooth Newton, or Newton with descent where it stalls.
    iteration_limit : int
        Limit on inner iterations over the whole solve.
    warm_start : bool
        Whether to start from the last answer for the same program.
    hand_over : bool
        Whether HiGHS may finish where the method stalls, or has used half of the iteration limit
        (:mod:`copter.solvers.proximal.finish`); how often it did is in ``Solution.details["hand_overs"]``.
    callback : callable, optional
        Called as ``callback(iteration, certificate)`` after every pass over the store, also the first.
    tuning : ProximalTuning, optional
        The numbers that the method was tuned by, with what is known of each.
    **common
        ``tolerance``: relative primal residual, dual residual and gap at which the answer counts as optimal;
        ``deadline``: seconds after which the best answer so far is returned, with its gap; ``threads`` for
        passes over many columns, on which the answer does not depend.
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
    hand_over = Setting(switch)
    callback = Setting(function)
    tuning = Setting(_tuning)

    def __init__(
        self,
        name: str = "copter",
        *,
        inner: Inner = "auto",
        iteration_limit: int = 20_000,
        warm_start: bool = True,
        hand_over: bool = True,
        callback: Callable[[int, Certificate], None] | None = None,
        tuning: ProximalTuning = USUAL,
        **common: Any,
    ) -> None:
        super().__init__(name, **common)
        self.inner = inner
        self.iteration_limit = iteration_limit
        self.warm_start = warm_start
        self.hand_over = hand_over
        self.callback = callback
        self.tuning = tuning
        self._state: State | None = None

    @property
    def goal(self) -> float:
        """Tolerance that a solve aims at."""
        return self.tolerance

    def reset(self) -> None:
        """Forget the last answer."""
        self._state = None

    def rehearse(self, program: ContinualProgram | None = None) -> None:
        """Solve a program by each inner solver that a round may need, outside of any round and deadline.

        From then on this process compiles kernels when they are first called (:mod:`copter.first_calls`).

        Parameters
        ----------
        program : ContinualProgram, optional
            Given one, only coordinate descent, which a later round may first fall back on, solves it.  One
            with 32-bit costs, for which kernels are others, is given before its first round.
        """
        compile_at_once()
        if program is None or program.cost_dtype != "float64":
            for each in small_programs() if program is None else small_programs(program.cost_dtype):
                for inner in INNER if self.inner == "auto" else (self.inner,):
                    ProximalPoint(self.name, inner=inner, tolerance=1e-3, iteration_limit=200).solve(each)
        if program is not None and self.inner == "auto":
            for _ in range(2):
                descent = ProximalPoint(self.name, inner="cd", hand_over=False, tolerance=self.tolerance)
                descent.solve(program, deadline=_REHEARSAL)

    def start(self, program: ContinualProgram) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Allocation and prices, by slot, that the next solve of ``program`` begins from; None if cold.

        Returns
        -------
        (SparseX, (row slots,) ndarray) or None
        """
        state = self._state
        return None if not self.warm_start or state is None else state.start(program)

    def start_from(self, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> None:
        """Begin the next solve from an allocation and prices (by slot of ``program``) instead of the last.

        Parameters
        ----------
        y : (row slots,) ndarray
        """
        state = self._state
        answer, slack, before = None, np.nan, None
        if state is not None and state.last.program is program:
            answer, slack, before = state.answer, state.slack, state.last
        self._state = State(answer, LastX.of(program, x, before), LastY.of(program, y), slack)

    def _saved(self, program: ContinualProgram) -> SolverState | None:
        """Last round's allocation, prices and screening slack; None if it was of another program."""
        state = self._state
        if state is None or state.last.program is not program:
            return None
        arrays = state.last.to_arrays("last") | state.y.to_arrays() | {"slack": state.slack}
        if state.answer is None or state.answer is state.last:
            return arrays | {"answered": state.answer is not None}
        return arrays | {"answered": True} | state.answer.to_arrays("answer")

    def _load_saved(self, program: ContinualProgram, state: SolverState) -> None:
        last, slack = LastX.from_arrays(program, state, "last"), state["slack"]
        if not isinstance(slack, float):
            raise ValueError("slack is no number")
        answer = last if state["answered"] else None
        if "answer.slot" in state:
            answer = LastX.from_arrays(program, state, "answer")
        self._state = State(answer, last, LastY.from_arrays(program, state), slack)

    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        """Solve the program as it is now, from the last answer if there is one."""
        starts = program.take_starts()
        done = False
        try:
            options = Options(
                self.goal,
                self.inner,
                self.iteration_limit,
                self.warm_start,
                self.hand_over,
                self.callback,
                self.threads,
                self.tuning,
            )
            run = Run(options, program, clock, starts, self._state)
            with one_blas_thread(program.store.rows.size):
                solution = run.solve()
            if run.best is not None:
                before = None if self._state is None else self._state.last
                last = LastX.of(program, run.best.x, before)
                proof = program.store.clock, run.best
                self._state = State(last, last, LastY.of(program, run.best.y), run.slack, proof)
                done = True
        finally:
            if not done:  # what the starts were given for is still to come
                program.return_starts(starts)
        return solution
