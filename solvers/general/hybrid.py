"""General LPs, solved in three parts: presolve, copter's solver for a limited time, and HiGHS.

Before that, HiGHS' simplex method works on the LP for a moment, in which it solves most small LPs. This is
left out without presolve, with options of HiGHS, with a start or a named solver, and for very small and very
large LPs.

1. HiGHS presolves the LP (:mod:`copter.solvers.general.presolve`).
2. copter's solver works on the presolved LP, for a time that depends on its size (:func:`own_share`).  For
   small LPs this part is skipped, because HiGHS is faster than a few of its steps.
3. HiGHS (:mod:`copter.models.highs_runs`) starts from copter's point and prices if they are near an optimum.

The LP's own residuals and bound decide if the answer is optimal, whichever part returned it
(:mod:`copter.proof.highs_lp`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from copter.clock import Clock
from copter.errors import ArgumentTypeError, SettingError
from copter.models.formulation import MOSTLY_SUMS
from copter.models.general_lp import GeneralLP, checked
from copter.models.highs_runs import terms
from copter.models.model import Model
from copter.models.reductions import ReducedPoint
from copter.proof.highs_lp import TIGHTER, Answer, HighsLP
from copter.solution import Solution, Status
from copter.solvers.base import Solver
from copter.solvers.general.presolve import Presolved, presolve
from copter.solvers.proximal.solver import ProximalPoint
from copter.solvers.registry import solver_entry
from copter.solvers.settings import Check, setting_defaults, share, time_limit

T = TypeVar("T")

AUTO = "auto"
"""Name of the combination of all parts."""
_SECONDS_A_TERM = 5e-9
"""Seconds of HiGHS per (row times nonzero), by order of magnitude (Netlib: 1e-9 to 1e-7)."""
_LEAST_SHARE, _MOST_SHARE = 0.05, 2.0
"""Estimated seconds of HiGHS below which copter's solver is skipped, and the largest base of its share."""
_LONGER = 10
"""Factor on the time of copter's solver if rows are sums of blocks, which is the form it is made for."""
_BEFORE_PRESOLVE, _A_NONZERO, _NONZEROS = 5e-3, 5e-7, (100, 300_000)
"""Seconds of simplex before presolve, further seconds for each nonzero, and the sizes of LPs that get them.

The sizes are the least and the largest number of nonzeros.
On 96 LPs, mostly of Netlib, the geometric mean of the times becomes a third less: 58 LPs take less than 5/6
of the time, and 26 more than 6/5.  Presolve alone takes less than a millisecond for fewer nonzeros.
"""
_INSTANT = 1e-3
"""Shortest deadline of a solver, in seconds."""
_START_BELOW = 1e-2
"""Largest residual and gap of a point from which simplex starts; its own start is at least as good above."""


def own_share(model: Model) -> float:
    """Return the seconds that copter's solver has for a presolved LP before HiGHS starts.

    It is about the time that HiGHS needs, so at most half of the total time is lost. Measured: on Netlib
    HiGHS alone is always faster. An allocation of 100,000 columns in 2,000 blocks takes 1.5 s, and 1.6 s by
    interior point; one of 300,000 columns in 5,000 blocks takes 2.8 s, and 7 s by interior point.
    """
    longer = _LONGER if model.n_sums else 1
    return longer * min(_SECONDS_A_TERM * terms(model.rest), _MOST_SHARE)


def solve_lp(
    lp: GeneralLP,
    *,
    solver: str | Solver = AUTO,
    tolerance: float = 1e-6,
    deadline: float | None = None,
    presolve: bool = True,
    polish: bool = False,
    threads: int | None = None,
    highs_options: Mapping[str, Any] | None = None,
    start: ReducedPoint | None = None,
    own: bool = True,
) -> Answer:
    """Solve a general LP; integral columns count as continuous.

    Parameters
    ----------
    lp : GeneralLP
        Costs, rows and bounds.
    solver : str or Solver
        ``"auto"`` for the combination of all parts, or a name of :data:`~copter.solvers.registry.SOLVERS`, or
        a solver.  A named or given solver solves alone; a given one uses its own tolerance and deadline.
    tolerance : float
        Largest relative residuals and gap of an optimal answer; a given solver's tolerance if that is larger.
    deadline : float, optional
        Seconds for the whole call. HiGHS' presolve, postsolve and the checks are not interrupted.
    presolve : bool
        True to presolve first, also with a single solver.
    polish : bool
        True to end at a vertex.
    threads : int, optional
        Number of threads; None for the solvers' defaults.
    highs_options : mapping, optional
        Options of HiGHS, by its names.  With its option ``solver`` ("simplex" or "ipm") HiGHS solves alone.
    start : ReducedPoint, optional
        Point and prices, and the basis if there is one, of an LP of the same shape. HiGHS starts from them
        without presolve.  If that yields no answer, the LP is solved from the beginning.
    own : bool
        True to include copter's solver in the combination.

    Returns
    -------
    Answer
        Status, point ``x`` (n,), prices ``y`` (rows,), proof, and the seconds of each part.

    Raises
    ------
    SettingError
        If the tolerance or the deadline is invalid.
    EditError
        If the LP has an invalid number (:func:`copter.models.general_lp.checked`).
    UnknownSolverError
        If no solver has this name.
    SolverError
        If HiGHS rejects an option.

    Examples
    --------
    >>> import copter
    >>> lp = copter.from_arrays([-3.0, -2.0], A_ub=[[1.0, 1.0]], b_ub=[8.0], bounds=(0, 6)).lp
    >>> answer = copter.solve_lp(lp)
    >>> answer.status.value, answer.x.round(6).tolist()
    ('optimal', [6.0, 2.0])
    """
    if not isinstance(lp, GeneralLP):
        raise ArgumentTypeError("solve_lp", "lp", lp, "must be a GeneralLP, for example from read_mps()")
    tolerance, deadline = _setting("tolerance", tolerance, share), _setting("deadline", deadline, time_limit)
    if isinstance(solver, str) and solver != AUTO:
        entry = solver_entry(solver, also=(AUTO,))
        alone = {"fall_back": False} if "fall_back" in setting_defaults(entry.load()) else {}
        # The solver's program is shifted to 0, so its gap may have a larger denominator than the LP's.
        solver = entry.make(tolerance=TIGHTER * tolerance, threads=threads, **alone)
    alone_by = None if isinstance(solver, str) else solver
    tolerance = max(tolerance, getattr(alone_by, "tolerance", tolerance))
    solve = _Solve(
        lp=checked(lp),
        tolerance=tolerance,
        clock=Clock(deadline),
        threads=threads,
        options=highs_options or {},
        solver=alone_by,
        polish=polish,
    )
    return solve.run(presolve, start, own)


def _setting(name: str, value: Any, check: Check[T]) -> T:
    try:
        return check(value)
    except ValueError as error:
        raise SettingError("solve_lp", name, value, str(error)) from None


@dataclass(kw_only=True)
class _Solve(HighsLP):
    """Data of one call: the LP, the requested solver, and the results and times of the parts."""

    solver: Solver | None
    polish: bool
    solution: Solution | None = None
    reached: ReducedPoint | None = None

    def run(self, presolving: bool, start: ReducedPoint | None, own: bool) -> Answer:
        answer = None if start is None else self._from(start)
        if answer is None:
            answer = self._parts(presolving, own)
        return replace(
            answer,
            seconds=self.seconds,
            iterations=self.iterations,
            crossover=self.crossover,
            solution=self.solution,
        )

    def _from(self, start: ReducedPoint) -> Answer | None:
        """Return HiGHS' answer from a point of an LP of the same shape; None if HiGHS has no answer."""
        answer = self.solve(start=start)
        ended = answer.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED, Status.DEADLINE)
        return replace(answer, warm_started=True) if ended else None

    def _parts(self, presolving: bool, own_part: bool) -> Answer:
        left, back = self.lp, Presolved()
        answer = self._for_a_moment() if presolving and self.solver is None and not self.options else None
        if answer is not None:
            return answer
        if presolving:
            begin = self.clock()
            limit = {"time_limit": self.clock.left()} if self.clock.deadline < np.inf else {}
            left, back = presolve(self.lp, **self.plain_options, **limit)
            self.took("presolve", begin)
            if back.claim is not None:
                return self.without_optimum(back.claim, "presolve")
            if back.solved:
                nothing = back.invert(ReducedPoint(np.empty(0), np.zeros(left.A.shape[0])))
                if nothing is None:
                    return self.solve()
                found = self.judged(Status.OPTIMAL, "presolve solved it", nothing, "presolve")
                return found if self.solver is not None else self.tighter(found)
        own = None
        own_part &= "solver" not in self.options and _SECONDS_A_TERM * terms(left) >= _LEAST_SHARE
        if self.solver is not None or own_part:
            own = self._own(left, back)
        if own is not None:
            done = own.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED)
            if (done or self.solver is not None) and not (self.polish and own.status is Status.OPTIMAL):
                return own
        near = own is not None and own.proof is not None and own.proof.worst <= _START_BELOW
        answer = self.solve(left, back.invert, self.reached if near else None)
        if own is not None and own.proof is not None and own.status is Status.OPTIMAL is not answer.status:
            return replace(own, reason=f"{own.reason}; {answer.reason}")  # the polish failed
        return answer

    def _for_a_moment(self) -> Answer | None:
        """Return the answer of HiGHS' simplex without presolve; None if it takes longer than a moment."""
        if not _NONZEROS[0] <= self.lp.A.nnz <= _NONZEROS[1]:
            return None
        begin = self.clock()
        run = self.look(self.lp, _BEFORE_PRESOLVE + _A_NONZERO * self.lp.A.nnz)
        self.iterations += run.iterations
        self.took("highs", begin)
        if run.status is not Status.OPTIMAL:
            return None
        answer = self.judged(run.status, run.reason, run.found, "highs")
        return answer if answer.status is Status.OPTIMAL else None

    def _own(self, left: GeneralLP, back: Presolved) -> Answer | None:
        """Return the checked answer of copter's solver, or of the requested one, for the original LP.

        Return None if no solver was requested and there are no sum rows: HiGHS is then faster, because every
        column would be a separate request.
        """
        begin = self.clock()
        solver = self.solver or ProximalPoint(
            tolerance=TIGHTER * self.tolerance, threads=self.threads, fall_back=False
        )
        model = Model(left, share=MOSTLY_SUMS, build=False)
        if self.solver is None and not model.n_sums:
            return None
        limit = self.clock.left() if self.solver is not None else min(own_share(model), self.clock.left() / 2)
        limit = max(limit, _INSTANT)
        solution = solver.solve(model.program, deadline=limit if np.isfinite(limit) else None)
        self.took(solver.name, begin)
        self.iterations += solution.iterations
        self.solution = solution
        if solution.status in (Status.INFEASIBLE, Status.UNBOUNDED):
            return self.without_optimum(solution.status, solver.name, solution.reason)
        if not solution.found:
            return Answer(solution.status, solution.reason, finished_by=solver.name)
        x, y, _ = model.invert(solution)
        self.reached = ReducedPoint(np.clip(x, left.lower, left.upper), y)
        whole = back.invert(self.reached)
        if whole is None:
            return Answer(Status.NUMERICAL_ERROR, "HiGHS cannot undo its presolve", finished_by=solver.name)
        return self.judged(solution.status, solution.reason, whole, solver.name)
