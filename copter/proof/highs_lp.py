"""HiGHS on a general LP, with a status that is checked on the LP itself.

A point and prices are optimal if their residuals and gap on the LP are within the tolerance
(:mod:`copter.proof.general_lp`). If HiGHS reports that there is no optimum, it solves the LP again without
presolve, first without costs and then with costs, until a ray proves the report. The status "unbounded" also
needs a feasible point. Without a proof the status is "unproved".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock
from copter.models.highs_runs import LEAST, HighsRun, optimize
from copter.models.reductions import ReducedPoint
from copter.proof.general_lp import (
    LPRay,
    Proof,
    falling,
    infeasible_ray,
    prove,
    quietest,
    unbounded_ray,
    violation,
)
from copter.solution import Solution, Status

if TYPE_CHECKING:
    import highspy

    from copter.models.general_lp import GeneralLP

TIGHTER = 0.1
"""Factor on the tolerance of a solver, because postsolve and scaling lose precision."""
_FALLS = "from a feasible point the objective falls along a ray without limit"
_LARGEST_COST = 20
"""Largest power of 2 that the largest cost may have after scaling."""


@dataclass(frozen=True)
class Answer:
    """Result for a general LP, with its proof.

    Attributes
    ----------
    status, reason : Status, str
    x, y : ndarrays, shapes (n,) and (m,), or None
        Point and dual prices, None if unknown. A price is positive for ``row_upper``.
    proof : Proof, optional
        Residuals and gap of x and y.
    ray : LPRay, optional
        Proof that the LP is infeasible or unbounded.
    finished_by : str
        Source of the result: "presolve", "copter", "highs" (also if it contradicts the report of another
        solver), the name of the requested solver, or "bounds" if the bounds of a column contradict each other
        (``linprog``).
    seconds : mapping of str to float
        Seconds of the parts that ran: "presolve", "copter" (or the other solver's name), "highs", "check".
    iterations : int
        Iterations of copter and HiGHS together.
    crossover : int
        Iterations from an interior point to a vertex.
    basis : HighsBasis, optional
        Basis if x is a vertex from the simplex method.
    solution : Solution, optional
        Solution of the presolved LP, if a solver ran.
    warm_started : bool
        True if the solve began from a given point or from the last round.
    """

    status: Status
    reason: str
    x: NDArray[np.float64] | None = None
    y: NDArray[np.float64] | None = None
    proof: Proof | None = None
    ray: LPRay | None = None
    finished_by: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    iterations: int = 0
    crossover: int = 0
    basis: highspy.HighsBasis | None = None
    solution: Solution | None = None
    warm_started: bool = False


@dataclass
class HighsLP:
    """:func:`~copter.models.general_lp.checked` LP for HiGHS, with the time and iterations so far."""

    lp: GeneralLP
    tolerance: float
    clock: Clock
    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    iterations: int = 0
    crossover: int = 0

    @property
    def plain_options(self) -> dict[str, Any]:
        """Options for presolve and for the search of a ray: without the solver's name and without limits.

        The solver's name is left out because postsolve fails with an interior point.
        """
        return {k: v for k, v in self.options.items() if k != "solver" and not k.endswith("_limit")}

    def took(self, part: str, since: float) -> None:
        """Add the time since `since` to the seconds of a part."""
        self.seconds[part] = self.seconds.get(part, 0.0) + self.clock() - since

    def solve(
        self,
        rest: GeneralLP | None = None,
        back: Callable[[ReducedPoint], ReducedPoint | None] | None = None,
        start: ReducedPoint | None = None,
    ) -> Answer:
        """Solve the LP, or a presolved LP `rest` whose points `back` converts, from a start if given."""
        begin = self.clock()
        found = self._optimize(self.lp if rest is None else rest, start=start)
        if found.found is None and found.status in (Status.INFEASIBLE, Status.UNBOUNDED):
            self.took("highs", begin)
            return self.without_optimum(found.status, "highs")
        point = found.found if found.found is None or back is None else back(found.found)
        if point is None and found.status not in (Status.DEADLINE, Status.ITERATION_LIMIT):
            found = self._optimize(self.lp, by_simplex=True)  # also if HiGHS cannot undo its presolve
            point = found.found
        self.took("highs", begin)
        return self.tighter(self.judged(found.status, found.reason, point, "highs"))

    def tighter(self, answer: Answer) -> Answer:
        """Return the answer; if its proof failed, return a better one at HiGHS' least tolerance if found."""
        lp, x, y = self.lp, answer.x, answer.y
        if answer.status is not Status.UNPROVED or x is None or y is None or not self.clock.left() > 0:
            return answer
        begin = self.clock()
        larger = _enlargement(lp.c)  # HiGHS' tolerances are absolute
        start = ReducedPoint(x, larger * y, answer.basis)
        run = self._optimize(replace(lp, c=larger * lp.c), start=start, tolerance=LEAST)
        self.took("highs", begin)
        along = run.ray if run.status is Status.UNBOUNDED and run.ray is not None else falling(lp)
        ray = unbounded_ray(lp, along)
        if ray is not None and answer.proof is not None and answer.proof.primal <= self.tolerance:
            return Answer(Status.UNBOUNDED, _FALLS, ray=ray, finished_by="highs")
        if run.found is None:
            known = run.status in (Status.INFEASIBLE, Status.UNBOUNDED)
            return self.without_optimum(run.status, "highs", run.reason) if known else answer
        found = run.found._replace(y=run.found.y / larger)
        again = self.judged(run.status, run.reason, found, "highs")
        better = again.proof and answer.proof and again.proof.worst < answer.proof.worst
        return again if better else answer

    def _optimize(
        self,
        lp: GeneralLP,
        start: ReducedPoint | None = None,
        *,
        by_simplex: bool = False,
        tolerance: float | None = None,
    ) -> HighsRun:
        found = optimize(
            lp,
            start=start,
            by_simplex=by_simplex,
            seconds=self.clock.left(),
            tolerance=TIGHTER * self.tolerance if tolerance is None else tolerance,
            threads=self.threads,
            options=self.options,
        )
        self.iterations += found.iterations
        self.crossover += found.crossover
        return found

    def look(self, lp: GeneralLP, seconds: float = math.inf) -> HighsRun:
        """Solve an LP by the simplex method, which may return a ray; its iterations are not counted."""
        return optimize(
            lp,
            by_simplex=True,
            seconds=min(seconds, self.clock.left()),
            tolerance=TIGHTER * self.tolerance,
            threads=self.threads,
            options=self.plain_options,
        )

    def judged(self, status: Status, reason: str, found: ReducedPoint | None, by: str) -> Answer:
        """Return an answer with a proof; the status is optimal only within the tolerance.

        If the proof is within the tolerance, the status is optimal even if the solver stopped for another
        reason, except a limit that the caller set.
        """
        if found is None:
            return Answer(status, reason, finished_by=by)
        begin = self.clock()
        x = np.clip(found.x, self.lp.lower, self.lp.upper)
        x, y, proof = quietest(self.lp, x, found.y, self.tolerance)
        self.took("check", begin)
        # a limit that the caller set is reported, as in scipy, even if it stopped the last iteration
        limited = status is Status.ITERATION_LIMIT and any(name.endswith("_limit") for name in self.options)
        if status is not Status.OPTIMAL and not limited and proof.worst <= self.tolerance:
            status, reason = Status.OPTIMAL, f"{reason}, with a point and prices that prove it optimal"
        elif status is Status.OPTIMAL and not proof.worst <= self.tolerance:
            status = Status.UNPROVED
            reason = f"{reason}, but the LP itself has a residual or gap of {proof.worst:.1e}"
        return Answer(status, reason, x, y, proof, finished_by=by, basis=found.basis)

    def without_optimum(self, claim: Status, by: str, reason: str = "") -> Answer:
        """Return the answer infeasible or unbounded, with the proof; unproved without one."""
        begin = self.clock()
        feasible = self.look(replace(self.lp, c=np.zeros(self.lp.c.size)))
        reason = reason or f"{by} reports {claim}"
        met = (
            feasible.found is not None
            and violation(self.lp, self._inside(feasible.found.x)) <= self.tolerance
        )
        if not met:
            for prices in (feasible.ray, self._least_violation()):
                ray = None if prices is None else infeasible_ray(self.lp, prices)
                if ray is not None:
                    self.took("check", begin)
                    why = "a ray proves the rows infeasible"
                    return Answer(Status.INFEASIBLE, why, ray=ray, finished_by=by)
        whole = self.look(self.lp)
        self.took("check", begin)
        if whole.status is Status.UNBOUNDED and met:
            # HiGHS returns no ray for an LP without rows
            ray = unbounded_ray(self.lp, falling(self.lp) if whole.ray is None else whole.ray)
            if ray is not None:
                return Answer(Status.UNBOUNDED, _FALLS, ray=ray, finished_by=by)
        if whole.found is not None:
            why = f"{whole.reason} without presolve, though {reason}"
            return self.judged(whole.status, why, whole.found, "highs")
        if whole.status is Status.DEADLINE or feasible.status is Status.DEADLINE:
            return Answer(Status.DEADLINE, whole.reason, finished_by=by)
        found = feasible.found if met else None
        x = None if found is None else self._inside(found.x)
        proof = None if x is None else prove(self.lp, x, np.zeros(self.lp.A.shape[0]))
        return Answer(Status.UNPROVED, f"{reason}; no ray proves it", x, proof=proof, finished_by=by)

    def _inside(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip(x, self.lp.lower, self.lp.upper)

    def _least_violation(self) -> NDArray[np.float64] | None:
        """Return the prices of the least sum of row violations, which are a ray if the LP is infeasible."""
        from scipy.sparse import csc_array, eye_array, hstack

        m, n = self.lp.A.shape
        size = np.zeros(m)
        np.maximum.at(size, self.lp.A.indices, abs(self.lp.A.data))
        slack = csc_array(eye_array(m, format="csc") * np.where(size > 0, size, 1.0))
        elastic = replace(
            self.lp,
            c=np.concatenate((np.zeros(n), np.ones(2 * m))),
            A=csc_array(hstack([self.lp.A, slack, -slack])),
            lower=np.concatenate((self.lp.lower, np.zeros(2 * m))),
            upper=np.concatenate((self.lp.upper, np.full(2 * m, np.inf))),
            integral=np.zeros(n + 2 * m, np.bool_),
            column_names=(),
        )
        found = self.look(elastic).found
        return None if found is None else found.y


def _enlargement(c: NDArray[np.float64]) -> float:
    """Return the power of 2 that raises the least cost to at least 1, if the largest cost allows it."""
    size = abs(c[c != 0])
    if not size.size:
        return 1.0
    least, largest = np.floor(np.log2([size.min(), size.max()]))
    return float(2.0 ** max(0.0, min(-least, _LARGEST_COST - largest)))
