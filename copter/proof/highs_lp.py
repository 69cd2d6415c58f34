"""HiGHS on a general LP: what it says counts only as far as the LP itself proves it.

A point and prices are an optimum if their residuals and gap on the LP are within the tolerance
(:mod:`copter.proof.general_lp`).  A claim that there is no optimum is looked at again on the LP without
presolve: first its rows alone, then its costs, until a ray proves one or the other, and for "unbounded" a
feasible point too.  What is not proved is not said: the status is "unproved" then.
"""

from __future__ import annotations

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
"""Factor on the tolerance of a solver, because postsolve and other scales lose precision."""
_FALLS = "from a feasible point the objective falls along a ray without end"
_LARGEST_COST = 20
"""Power of 2 to which the largest cost is raised at most."""


@dataclass(frozen=True)
class Answer:
    """Answer to a general LP, with its proof.

    `x` (n,), `y` (m,): None if not known; a price is positive where ``row_upper`` is paid for. `proof`:
    residuals and gap of x and y. `ray`: proof that the LP is infeasible or unbounded. `finished_by`: source
    of the answer: "presolve", "copter", "highs" (also where it contradicts a claim of the others), the name
    of the requested solver, or "bounds" if those of a column leave no value (``linprog``). `seconds`: by the
    parts "presolve", "copter" (or the other solver's name), "highs", "check" that ran. `iterations`: of
    copter and HiGHS together. `crossover`: those of them from an interior point to a vertex. `basis`: where x
    is a vertex of the simplex method. `solution`: the solver's answer for the presolved LP, if one ran.
    `warm_started`: from a given point or the last round's.
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
    """A :func:`~copter.models.general_lp.checked` LP for HiGHS, with the time and iterations so far."""

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
        """Options for presolve, whose way back fails with interior point, and for the search of a ray."""
        return {k: v for k, v in self.options.items() if k != "solver" and not k.endswith("_limit")}

    def took(self, part: str, since: float) -> None:
        """Count the time since then for a part."""
        self.seconds[part] = self.seconds.get(part, 0.0) + self.clock() - since

    def solve(
        self,
        rest: GeneralLP | None = None,
        back: Callable[[ReducedPoint], ReducedPoint] | None = None,
        start: ReducedPoint | None = None,
    ) -> Answer:
        """HiGHS' answer for the LP, or for what presolve left and the way back, from a start if given."""
        begin = self.clock()
        found = self._optimize(self.lp if rest is None else rest, start=start)
        if found.found is None and found.status not in (Status.DEADLINE, Status.ITERATION_LIMIT):
            if found.status in (Status.INFEASIBLE, Status.UNBOUNDED):
                self.took("highs", begin)
                return self.without_optimum(found.status, "highs")
            found, back = self._optimize(self.lp, by_simplex=True), None
        point = found.found if found.found is None or back is None else back(found.found)
        self.took("highs", begin)
        return self.tighter(self.judged(found.status, found.reason, point, "highs"))

    def tighter(self, answer: Answer) -> Answer:
        """The answer, or if its proof failed a better one from its basis, at HiGHS' least tolerance."""
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

    def _look(self, lp: GeneralLP) -> HighsRun:
        """HiGHS on an LP by a simplex that may show a ray; no part of the way to an answer."""
        return optimize(
            lp,
            by_simplex=True,
            seconds=self.clock.left(),
            tolerance=TIGHTER * self.tolerance,
            threads=self.threads,
            options=self.plain_options,
        )

    def judged(self, status: Status, reason: str, found: ReducedPoint | None, by: str) -> Answer:
        """Answer with a proof; optimal within the tolerance, whatever made the solver stop, and only then."""
        if found is None:
            return Answer(status, reason, finished_by=by)
        begin = self.clock()
        x = np.clip(found.x, self.lp.lower, self.lp.upper)
        x, y, proof = quietest(self.lp, x, found.y, self.tolerance)
        self.took("check", begin)
        # a limit that was asked for is reported, as scipy has it, even if this was the last iteration
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
        feasible = self._look(replace(self.lp, c=np.zeros(self.lp.c.size)))
        reason = reason or f"{by} says it is {claim}"
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
        whole = self._look(self.lp)
        self.took("check", begin)
        if whole.status is Status.UNBOUNDED and met:
            # HiGHS has no ray where there are no rows
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
        """Prices of the least sum by which rows must be off, which are a ray if they can't be met."""
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
        found = self._look(elastic).found
        return None if found is None else found.y


def _enlargement(c: NDArray[np.float64]) -> float:
    """Power of 2 by which costs are multiplied so that the least is not below 1, if the largest lets it."""
    size = abs(c[c != 0])
    if not size.size:
        return 1.0
    least, largest = np.floor(np.log2([size.min(), size.max()]))
    return float(2.0 ** max(0.0, min(-least, _LARGEST_COST - largest)))
