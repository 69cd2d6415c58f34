"""A general LP solved by parts: presolve, the own solver for a while, HiGHS from where that came.

1. HiGHS' presolve (:mod:`copter.solvers.general.presolve`).
2. The own solver on what it leaves, for a share of time that goes by its size (:func:`own_share`).  Small
   programs have no share: HiGHS ends there sooner than a few of its steps.
3. HiGHS (:mod:`copter.solvers.general.handover`), from the own point and prices if they are near an optimum.

Whoever ends, the answer counts as optimal only if its point and prices prove it on the LP itself, in
residuals and gap (:mod:`copter.solvers.general.proof`).  A claim that there is no optimum is looked at again
on the LP without presolve: first its rows alone, then its costs, until a ray proves one or the other, and for
"unbounded" a feasible point too.  What is not proved is not said: the status is "unproved" then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from copter.errors import SettingError
from copter.models.formulation import MOSTLY_SUMS
from copter.models.general_lp import GeneralLP, checked
from copter.models.model import Model
from copter.models.reductions import Point
from copter.solution import Solution, Status
from copter.solvers.base import Solver, Stopwatch
from copter.solvers.general.handover import LEAST, Run, optimize, terms
from copter.solvers.general.presolve import Presolved, presolve
from copter.solvers.general.proof import (
    LPRay,
    Proof,
    falling,
    infeasible_ray,
    prove,
    quietest,
    unbounded_ray,
    violation,
)
from copter.solvers.proximal.solver import ProximalPoint
from copter.solvers.registry import solver_entry
from copter.solvers.settings import Check, setting_defaults, share, time_limit

if TYPE_CHECKING:
    import highspy

T = TypeVar("T")

AUTO = "auto"
"""The name of all parts together."""
_SECONDS_A_TERM = 5e-9
"""What HiGHS takes for each row and nonzero, by order of magnitude (Netlib: 1e-9 to 1e-7)."""
_LEAST_SHARE, _MOST_SHARE = 0.05, 2.0
_LONGER = 10
"""Times as long where rows are sums of blocks: there the own solver is at home."""
_INSTANT = 1e-3
"""The shortest deadline of a solver."""
_SHARPER = 0.1
"""Of the tolerance: what the own solver aims at, since postsolve and other scales cost some."""
_START_BELOW = 1e-2
"""Residuals and gap below which simplex goes on from a point; above, its own start is as good or better."""
_FALLS = "from a feasible point the objective falls along a ray without end"
_LARGEST_COST = 20
"""Power of 2 to which the largest cost is raised at most."""


@dataclass(frozen=True)
class Answer:
    """What is known of a general LP in the end.

    Attributes
    ----------
    x : (n,) ndarray, optional
        None where no point is known.
    y : (m,) ndarray, optional
        Prices of the rows: positive where ``row_upper`` is paid for.
    proof : Proof, optional
        What x and y are worth on the LP.
    ray : LPRay, optional
        Proof that the LP is infeasible or unbounded.
    finished_by : str
        Who gave the answer: "presolve", "copter", "highs", or the name of the solver that was asked for;
        "highs" too where it contradicts what one of the others claimed;
        "bounds" where those of a column leave no value (``linprog``).
    seconds : mapping of part to float
        "presolve", "copter" (or the other solver's name), "highs", "check", as far as they ran.
    iterations : int
        Of the own solver and of HiGHS together.
    crossover : int
        Those of them that led HiGHS from an interior point to a vertex.
    basis : HighsBasis, optional
        Where x is a vertex that simplex ended at.
    solution : Solution, optional
        The solver's answer for what presolve left, if one ran.
    warm_started : bool
        Whether it came from a point that was given, or from the last round's.
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


def own_share(model: Model) -> float:
    """Seconds that the own solver has for a presolved LP before HiGHS takes over.

    About as long as HiGHS will need, so that no more than half of the time is lost where it leads nowhere.
    Measured: Netlib ends sooner with HiGHS throughout; an allocation of 100,000 columns in 2,000 blocks takes
    1.5 s against 1.6 s of interior point, one of 300,000 in 5,000 blocks 2.8 s against 7 s.
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
    start: Point | None = None,
) -> Answer:
    """Solve a general LP; integral columns count as continuous ones.

    Parameters
    ----------
    solver : str or Solver
        ``"auto"`` for all parts; a name of :data:`~copter.solvers.registry.SOLVERS`, or a solver, for that
        one alone, which has its own tolerance and deadline if it is no name.
    tolerance : float
        Relative residuals and gap that an optimal answer is within; a solver's own if that is larger.
    deadline : float, optional
        Seconds for everything; HiGHS' presolve, the way back from it and checks are not cut short.
    presolve : bool
        Whether to presolve first, also for a solver alone.
    polish : bool
        Whether the answer is to be a vertex.
    highs_options : mapping, optional
        Options of HiGHS, by its names.  With its option ``solver`` ("simplex" or "ipm") HiGHS solves alone.
    start : Point, optional
        Point and prices, and the basis if there is one, of a program of the same shape: HiGHS goes on from
        them without presolve.  If that ends without an answer everything begins anew.

    Raises
    ------
    SettingError
        Tolerance or deadline make no sense.
    EditError
        The LP has a number that cannot be (:func:`copter.models.general_lp.checked`).
    UnknownSolverError
        No solver has this name.
    SolverError
        HiGHS refused an option.
    """
    tolerance, deadline = _setting("tolerance", tolerance, share), _setting("deadline", deadline, time_limit)
    if isinstance(solver, str) and solver != AUTO:
        entry = solver_entry(solver, also=(AUTO,))
        alone = {"hand_over": False} if "hand_over" in setting_defaults(entry.load()) else {}
        # its program is shifted to 0: what its objective is relative to may be more than the LP's
        solver = entry.make(tolerance=_SHARPER * tolerance, threads=threads, **alone)
    solve = _Solve(checked(lp), solver, tolerance, deadline, polish, threads, highs_options or {})
    return solve.run(presolve, start)


def _setting(name: str, value: Any, check: Check[T]) -> T:
    try:
        return check(value)
    except ValueError as error:
        raise SettingError("solve_lp", name, value, str(error)) from None


class _Solve:
    """One call: what is left of its time, and who took how much."""

    def __init__(
        self,
        lp: GeneralLP,
        solver: str | Solver,
        tolerance: float,
        deadline: float | None,
        polish: bool,
        threads: int | None,
        highs_options: Mapping[str, Any],
    ) -> None:
        self.lp = lp
        self.solver = None if isinstance(solver, str) else solver
        self.tolerance = max(tolerance, getattr(self.solver, "tolerance", tolerance))
        self.limit = np.inf if deadline is None else deadline
        self.polish = polish
        self.threads = threads
        self.options = highs_options
        # for presolve, whose way back fails if it is told of interior point, and looks for a ray
        self.plain_options = {
            name: value
            for name, value in highs_options.items()
            if name != "solver" and not name.endswith("_limit")
        }
        self.watch = Stopwatch()
        self.seconds: dict[str, float] = {}
        self.iterations = self.crossover = 0
        self.solution: Solution | None = None

    def left(self) -> float:
        return max(0.0, self.limit - self.watch())

    def took(self, part: str, since: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + self.watch() - since

    def run(self, presolving: bool, start: Point | None = None) -> Answer:
        answer = None if start is None else self._from(start)
        if answer is None:
            answer = self._parts(presolving)
        return replace(
            answer,
            seconds=self.seconds,
            iterations=self.iterations,
            crossover=self.crossover,
            solution=self.solution,
        )

    def _from(self, start: Point) -> Answer | None:
        """HiGHS' answer from a point of a program of the same shape; None if it knows none."""
        answer = self._highs(self.lp, Presolved(), start)
        ended = answer.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED, Status.DEADLINE)
        return replace(answer, warm_started=True) if ended else None

    def _parts(self, presolving: bool) -> Answer:
        left, back = self.lp, Presolved()
        if presolving:
            begin = self.watch()
            limit = {"time_limit": self.limit} if self.limit < np.inf else {}
            left, back = presolve(self.lp, **self.plain_options, **limit)
            self.took("presolve", begin)
            if back.claim is not None:
                return self._without_optimum(back.claim, "presolve")
            if back.solved:
                nothing = back.invert(Point(np.empty(0), np.zeros(left.A.shape[0])))
                found = self._judged(Status.OPTIMAL, "presolve solved it", nothing, "presolve")
                return found if self.solver is not None else self._sharper(found)
        own = None
        own_part = "solver" not in self.options and _SECONDS_A_TERM * terms(left) >= _LEAST_SHARE
        if self.solver is not None or own_part:
            own = self._own(left, back)
        if own is not None:
            done = own.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED)
            if (done or self.solver is not None) and not (self.polish and own.status is Status.OPTIMAL):
                return own
        near = own is not None and own.proof is not None and own.proof.worst <= _START_BELOW
        answer = self._highs(left, back, self.reached if near else None)
        if own is not None and own.proof is not None and own.status is Status.OPTIMAL is not answer.status:
            return replace(own, reason=f"{own.reason}; {answer.reason}")  # a polish that led nowhere
        return answer

    def _own(self, left: GeneralLP, back: Presolved) -> Answer | None:
        """The own solver's answer, or that of the one which was asked for, brought back and judged.

        None if nobody was asked for and there are no sum rows: where every column is a request of its own
        HiGHS is sooner.
        """
        begin = self.watch()
        solver = self.solver or ProximalPoint(
            tolerance=_SHARPER * self.tolerance, threads=self.threads, hand_over=False
        )
        model = Model(left, share=MOSTLY_SUMS, build=False)
        if self.solver is None and not model.n_sums:
            return None
        limit = self.left() if self.solver is not None else min(own_share(model), self.left() / 2)
        limit = max(limit, _INSTANT)
        solution = solver.solve(model.program, deadline=limit if np.isfinite(limit) else None)
        self.took(solver.name, begin)
        self.iterations += solution.iterations
        self.solution = solution
        if solution.status in (Status.INFEASIBLE, Status.UNBOUNDED):
            return self._without_optimum(solution.status, solver.name, solution.reason)
        if not solution.found:
            return Answer(solution.status, solution.reason, finished_by=solver.name)
        x, y, _ = model.invert(solution)
        self.reached = Point(np.clip(x, left.lower, left.upper), y)
        return self._judged(solution.status, solution.reason, back.invert(self.reached), solver.name)

    def _highs(self, left: GeneralLP, back: Presolved, start: Point | None) -> Answer:
        """HiGHS' answer, from a point if one is given."""
        begin = self.watch()
        found = self._optimize(left, start=start)
        if found.found is None and found.status not in (Status.DEADLINE, Status.ITERATION_LIMIT):
            if found.status in (Status.INFEASIBLE, Status.UNBOUNDED):
                self.took("highs", begin)
                return self._without_optimum(found.status, "highs")
            found, back = self._optimize(self.lp, by_simplex=True), Presolved()
        point = None if found.found is None else back.invert(found.found)
        self.took("highs", begin)
        return self._sharper(self._judged(found.status, found.reason, point, "highs"))

    def _sharper(self, answer: Answer) -> Answer:
        """The answer, or a better one from its basis by HiGHS at its least tolerance, if the proof failed.

        HiGHS' tolerances are absolute, so small costs are enlarged.
        """
        lp, x, y = self.lp, answer.x, answer.y
        if answer.status is not Status.UNPROVED or x is None or y is None or not self.left() > 0:
            return answer
        begin = self.watch()
        larger = _enlargement(lp.c)
        start = Point(x, larger * y, answer.basis)
        run = self._optimize(replace(lp, c=larger * lp.c), start=start, tolerance=LEAST)
        self.took("highs", begin)
        along = run.ray if run.status is Status.UNBOUNDED and run.ray is not None else falling(lp)
        ray = unbounded_ray(lp, along)
        if ray is not None and answer.proof is not None and answer.proof.primal <= self.tolerance:
            return Answer(Status.UNBOUNDED, _FALLS, ray=ray, finished_by="highs")
        if run.found is None:
            known = run.status in (Status.INFEASIBLE, Status.UNBOUNDED)
            return self._without_optimum(run.status, "highs", run.reason) if known else answer
        found = run.found._replace(y=run.found.y / larger)
        again = self._judged(run.status, run.reason, found, "highs")
        better = again.proof and answer.proof and again.proof.worst < answer.proof.worst
        return again if better else answer

    def _optimize(
        self,
        lp: GeneralLP,
        start: Point | None = None,
        *,
        by_simplex: bool = False,
        tolerance: float | None = None,
    ) -> Run:
        found = optimize(
            lp,
            start=start,
            by_simplex=by_simplex,
            seconds=self.left(),
            tolerance=_SHARPER * self.tolerance if tolerance is None else tolerance,
            threads=self.threads,
            options=self.options,
        )
        self.iterations += found.iterations
        self.crossover += found.crossover
        return found

    def _look(self, lp: GeneralLP) -> Run:
        """HiGHS on an LP by a simplex that may show a ray; no part of the way to an answer."""
        return optimize(
            lp,
            by_simplex=True,
            seconds=self.left(),
            tolerance=_SHARPER * self.tolerance,
            threads=self.threads,
            options=self.plain_options,
        )

    def _judged(self, status: Status, reason: str, found: Point | None, by: str) -> Answer:
        """Answer with a proof; optimal within the tolerance, whatever made the solver stop, and only then."""
        if found is None:
            return Answer(status, reason, finished_by=by)
        begin = self.watch()
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

    def _without_optimum(self, claim: Status, by: str, reason: str = "") -> Answer:
        """Infeasible or unbounded, with the proof; unproved if there is none."""
        begin = self.watch()
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
            return self._judged(whole.status, why, whole.found, "highs")
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
