"""A sequence of similar LPs, each solved from the previous answer.

A large LP with rows that are sums over blocks of columns, as in an allocation, is kept as a ContinualProgram
(:mod:`copter.models.model`), and copter's solver continues from its last point.  For every other LP, HiGHS'
simplex starts from the last vertex: primal simplex if the vertex is still feasible (costs changed), dual
simplex otherwise (bounds changed).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from copter.clock import Clock
from copter.compile.kernels import compile_seconds
from copter.errors import EditError
from copter.models.formulation import MOSTLY_SUMS
from copter.models.general_lp import GeneralLP, checked
from copter.models.highs_runs import terms
from copter.models.model import Model
from copter.models.reductions import ReducedPoint
from copter.proof.general_lp import prove
from copter.proof.highs_lp import TIGHTER, Answer
from copter.solution import Solution, Status
from copter.solvers.general.hybrid import own_share, solve_lp
from copter.solvers.proximal.solver import ProximalPoint

_FROM = 1e7
"""Least product of rows and nonzeros for copter's solver; below it HiGHS is faster."""
_PAUSE = 4
"""Number of solves without copter's solver after its first failure; its k-th power after the k-th failure."""


class WarmLP:
    """Solver of a sequence of LPs, from the last answer if the shape is equal.

    `patience`: factor on :func:`~copter.solvers.general.hybrid.own_share`, the time of copter's solver before
    HiGHS starts.
    """

    def __init__(self, patience: float = 1.0) -> None:
        self.patience = patience
        self._own = ProximalPoint(fall_back=False)
        self.reset()

    def __reduce__(self) -> tuple[type[WarmLP], tuple[float]]:
        return type(self), (self.patience,)  # HiGHS' basis cannot be copied: a copy starts cold

    def reset(self) -> None:
        """Forget all answers."""
        self._own.reset()
        self._shape: tuple[int, ...] = ()
        self._found: ReducedPoint | None = None
        self._model: Model | None = None
        self._failures = 0
        self._pause: float = 0

    def solve(
        self,
        lp: GeneralLP,
        *,
        warm: bool = True,
        tolerance: float = 1e-6,
        deadline: float | None = None,
        threads: int | None = None,
        polish: bool = False,
        presolve: bool = True,
    ) -> tuple[Answer, str]:
        """Solve an LP, from the last answer if `warm`; integral columns count as continuous.

        The other arguments and the errors are those of :func:`copter.solvers.general.hybrid.solve_lp`. Also
        return a text that says what the warm start used, or why there was none.
        """
        clock, lp = Clock(deadline), checked(lp)
        why = self._prepare(lp, warm)
        begin = clock()
        model = None if polish or terms(lp) < _FROM else self._updated(lp)
        self._own.tolerance, self._own.threads = TIGHTER * tolerance, threads
        own = None if model is None else self._by_own(lp, model, clock, begin, tolerance)
        if own is not None:
            return own, why if not own.warm_started else "the last point and prices"
        start = self._found
        answer = solve_lp(
            lp,
            tolerance=tolerance,
            deadline=None if deadline is None else clock.left(),
            presolve=presolve,
            polish=polish,
            threads=threads,
            start=start,
            own=model is None,
        )
        if answer.status is Status.OPTIMAL and answer.x is not None and answer.y is not None:
            self._found = ReducedPoint(answer.x, answer.y, answer.basis)
        if start is None:
            return answer, why
        if not answer.warm_started:
            return answer, "no answer from the last point"
        return answer, "the last point" if start.basis is None else "the last point and its basis"

    def _prepare(self, lp: GeneralLP, warm: bool) -> str:
        """Forget answers that do not fit this LP; return why there is no warm start."""
        why = "no answer yet"
        if not warm:
            self.reset()
            why = "warm start switched off"
        elif self._shape not in ((), lp.A.shape):
            self._found, self._failures, self._pause = None, 0, 0
            why = "another shape than last time"
        self._shape = lp.A.shape
        return why

    def _by_own(
        self, lp: GeneralLP, model: Model, clock: Clock, begin: float, tolerance: float
    ) -> Answer | None:
        """Return the answer of copter's solver if it is optimal, else None."""
        edited, compiled = clock(), compile_seconds()

        def solve() -> Solution:
            limit = min(self.patience * own_share(model), clock.left() / 2)
            return self._own.solve(model.program, deadline=limit)

        solution = solve()
        if solution.status is Status.DEADLINE and compile_seconds() > compiled:
            solution = replace(solve(), start=solution.start)  # the first solve's time went into compiling
        x, y, _ = model.invert(solution)
        x = np.clip(x, lp.lower, lp.upper)
        proof = prove(lp, x, y) if solution.found else None
        if proof is None or not proof.worst <= tolerance:
            self._failures += 1
            self._pause = _PAUSE**self._failures
            return None
        self._failures = 0
        self._found = ReducedPoint(x, y)
        return Answer(
            Status.OPTIMAL,
            solution.reason,
            x,
            y,
            proof,
            finished_by=self._own.name,
            seconds={"edit": edited - begin, self._own.name: clock() - edited},
            iterations=solution.iterations,
            solution=solution,
            warm_started=solution.warm_started,
        )

    def _updated(self, lp: GeneralLP) -> Model | None:
        """Return the LP as a program; None if it has no sum rows, or during a pause after a failure."""
        if self._pause:
            self._pause -= 1
            return None
        try:
            if self._model is None:
                self._model = Model(lp, fold=True, share=MOSTLY_SUMS, build=False)
            else:
                self._model.update(lp)
            if self._model.n_sums:
                self._model.program  # noqa: B018
                return self._model
        except EditError:  # contradicting bounds: HiGHS finds the ray that proves it
            return None
        self._model, self._pause = None, math.inf
        return None
