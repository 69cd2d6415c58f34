"""ExactSolver: integral allocations with a proof of optimality, warm-started in every round.

1. :class:`copter.solvers.proximal.solver.ProximalPoint` solves the relaxation, warm. Its prices give a bound
   d that also holds for integral allocations.
2. :class:`copter.shims.choose_one.ChooseOneShim`, if it applies, rounds the solution to a first integral
   allocation of cost U.
3. Reduced costs fix every column that no better allocation can use (:mod:`copter.proof.fixing`): of millions
   of columns some thousands remain.
4. Branch and bound searches the columns with the smallest reduced costs (:mod:`copter.solvers.exact.search`).
   Each better allocation fixes more columns, until every remaining column has been searched.

If a neighbourhood is too large, for example because the relaxation is weak, the solver returns the best
allocation with its certified gap, and ``Solution.integer`` says that it is not proven optimal.

Sources: reduced-cost fixing of Dantzig, Fulkerson and Johnson (1954); core problems after Balas and Zemel
(1980).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from copter.clock import Clock
from copter.solution import Solution, Timings, make_solution
from copter.solvers.base import SolverState
from copter.solvers.exact.search import Search
from copter.solvers.features import Feature
from copter.solvers.memory import LastX, churn_base
from copter.solvers.proximal.solver import ProximalPoint
from copter.solvers.settings import Setting, count, share_or_nothing, switch

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_RELAXED = 1e-6
"""Largest tolerance of the relaxation: a larger relaxation gap would prevent fixing."""
_RELAXATION_SHARE = 0.7
"""Share of the deadline that the relaxation may take."""


class ExactSolver(ProximalPoint):
    """Solver for integral allocations with a proof of optimality, warm-started.

    ``Solution.integer`` is the proof (:class:`copter.proof.integer.IntegerProof`); the status is optimal if
    the integer gap is closed.

    Parameters
    ----------
    integer_gap : float
        Relative gap at which an integral allocation counts as proven optimal.  Above 1e-9, branch and bound
        ends at this gap too and may return any allocation within it.
    most_columns : int
        Largest number of columns for branch and bound. The neighbourhoods have 200, 600, 1,800, ... columns
        in addition to one a request. They grow until the gap is closed or the next one exceeds the limit. If
        prices fix few columns, the neighbourhoods together get at most 3/10 of the remaining time and 20 s;
        after one without a proven optimum, the next one has all remaining columns.
    isolated : bool
        True to run HiGHS' branch and bound in a separate process, for services. If that process crashes, the
        solution is the best one found without it, and its reason names the crash.  Starting the process takes
        about one second.
    **settings
        Settings of :class:`copter.solvers.proximal.solver.ProximalPoint` for the relaxation; a ``tolerance``
        above 1e-6 counts as 1e-6.
    """

    features = (ProximalPoint.features | Feature.INTEGRALITY) & ~Feature.CONVEX_TERMS
    integer_gap = Setting(share_or_nothing)
    most_columns = Setting(count)
    isolated = Setting(switch)

    def __init__(
        self,
        name: str = "copter-exact",
        *,
        integer_gap: float = 1e-9,
        most_columns: int = 100_000,
        isolated: bool = False,
        tolerance: float = _RELAXED,
        **settings: Any,
    ) -> None:
        super().__init__(name, tolerance=tolerance, **settings)
        self.integer_gap = integer_gap
        self.most_columns = most_columns
        self.isolated = isolated
        self._integral: LastX | None = None

    @property
    def goal(self) -> float:
        """Tolerance at which the relaxation is solved."""
        return min(self.tolerance, _RELAXED)

    def stopping(self) -> dict[str, float]:
        """Return the tolerance of the relaxation, and the integer gap."""
        return {"tolerance": self.goal, "integer_gap": self.integer_gap}

    def reset(self) -> None:
        """Forget the last solutions."""
        super().reset()
        self._integral = None

    def _saved(self, program: ContinualProgram) -> SolverState | None:
        """Return the state of the relaxation and the last integral allocation."""
        state, last = super()._saved(program), self._integral
        if state is None or last is None or last.program is not program:
            return state
        return state | last.to_arrays("integral")

    def _load_saved(self, program: ContinualProgram, state: SolverState) -> None:
        integral = LastX.from_arrays(program, state, "integral") if "integral.slot" in state else None
        super()._load_saved(program, state)
        self._integral = integral

    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        """Solve the relaxation, then search for the best integral allocation."""
        left = clock.left()
        share = None if left == np.inf else _RELAXATION_SHARE * left
        relaxed = super()._solve(program, Clock(share, parent=clock))
        table = program.store.requests
        if (
            not relaxed.found
            or not (table.integral[: table.size] & (table.n_columns[: table.size] > 0)).any()
        ):
            return relaxed
        last = None if self._integral is None or self._integral.program is not program else self._integral
        search = Search(
            program,
            relaxed,
            clock,
            integer_gap=self.integer_gap,
            most_columns=self.most_columns,
            threads=self.threads,
            last=None if last is None else last.surviving(),
            isolated=self.isolated,
        )
        found = search.run()
        self._integral = None if found.x is None else LastX.of(program, found.x, last)
        return make_solution(
            program,
            found.x,
            relaxed.y,
            status=found.status,
            reason=found.proof.reason,
            iterations=relaxed.iterations,
            timings=Timings(solve=clock()),
            warm=relaxed.start,
            last=churn_base(last, program),
            certificate=found.certificate,
            details=relaxed.details,
            pricing=relaxed.pricing,
            integer=found.proof,
        )
