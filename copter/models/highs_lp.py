"""A linear program that is kept in HiGHS: differences, starts, runs, and the check of HiGHS' answers.

HiGHS has the LP in the user's own numbers. A changed LP is compared with the numbers that HiGHS has, in one
pass over the arrays, and only the differences are passed on. After rows or columns were added or removed,
HiGHS gets the whole model again, with the basis of the rows and columns that remain.

Start of a run: without a basis HiGHS presolves, and simplex may take as many iterations as there are rows and
columns together, and at least 2,000. An LP that takes more, such as QAP12, is solved by an interior-point
method with crossover. From a basis HiGHS uses the dual simplex method, which was faster than the primal one
in most of the cases that were measured, also if costs changed. If a run from a basis takes more than `_WORTH`
times the iterations of a cold run, the next run after changes of the same kind (costs alone, or others) is
different: if costs alone changed and the present run was dual, the next run is primal; otherwise it starts
cold. A run from a basis is cut off at `_MOST` times the iterations of a cold run. Iterations are counted and
not seconds, so that results are the same on every machine.

The status that HiGHS reports is accepted if the residuals of the LP itself, or a ray, confirm it
(:mod:`copter.proof.general_lp`). Otherwise the LP is solved once more, cold, at the smallest tolerances, in
units in which typical numbers are near 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, diags_array, hstack

from copter.clock import Clock, Interrupted
from copter.models.highs import STRATEGIES, HighsEngine, check
from copter.models.linear_program import LinearProgram
from copter.proof.general_lp import LPCertificate, LPChecker, LPRay, infeasible_ray, unbounded_ray
from copter.status import Status

_LEAST = 1e-10
"""Smallest tolerance that HiGHS accepts."""
_TIGHTER, _USUAL = 0.1, 1e-7
"""Factor from the tolerance of an answer to HiGHS' tolerances, and their largest value, HiGHS' default."""
_WORTH, _MOST, _LEAST_LIMIT = 1.5, 5, 2_000
"""Multiples of the iterations of a cold run, and the least limit of a run from a basis."""
_DUAL, _PRIMAL = STRATEGIES["dual"], STRATEGIES["primal"]
_TWICE = "two runs of HiGHS report it, at different tolerances; no ray proves it"
_LIMITED = (Status.DEADLINE, Status.ITERATION_LIMIT, Status.CANCELLED)


@dataclass
class _Choice:
    """Start of the next run after changes of one kind: its method, and the number of runs that start cold."""

    primal: bool = False
    cold_runs: int = 0
    failures: int = 0

    def cold(self) -> bool:
        """Return whether this run starts cold."""
        self.cold_runs = max(0, self.cold_runs - 1)
        return self.cold_runs > 0

    def took(self, long: bool, costs: bool) -> None:
        """Choose the next start after a run from a basis; `costs`: only costs had changed."""
        if not long:
            self.failures = 0
        elif costs and not self.primal:
            self.primal = True
        else:
            self.primal, self.failures = False, min(self.failures + 1, 6)
            self.cold_runs = 2**self.failures


class LPChanges(NamedTuple):
    """Numbers of costs, bounds of columns and of rows, entries and kinds of columns that differ."""

    costs: int
    bounds: int
    rows: int
    entries: int
    integrality: int = 0


@dataclass(frozen=True)
class LPAnswer:
    """Answer for a linear program, as a minimisation.

    Attributes
    ----------
    status, reason : Status, str
    certificate : LPCertificate, optional
        Point and prices with their residuals and bound.
    ray : LPRay, optional
        Proof that the LP is infeasible or unbounded.
    iterations, crossover : int
        Iterations of all runs, and those of crossover, from an interior point to a vertex.
    start : str
        Start of the run: "cold" or "kept basis".
    """

    status: Status
    reason: str
    certificate: LPCertificate | None = None
    ray: LPRay | None = None
    iterations: int = 0
    crossover: int = 0
    start: str = "cold"


def differing(*pairs: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[np.int32]:
    """Return the positions at which the arrays of any pair differ; all arrays have one shape."""
    differences = [old != new for old, new in pairs if old is not new]
    if not differences:
        return np.empty(0, np.int32)
    return np.flatnonzero(np.logical_or.reduce(differences)).astype(np.int32)


def same_pattern(old: LinearProgram, new: LinearProgram) -> bool:
    """Return whether two LPs have their entries in the same places."""
    return old.A is new.A or (
        old.A.shape == new.A.shape
        and np.array_equal(old.A.indptr, new.A.indptr)
        and np.array_equal(old.A.indices, new.A.indices)
    )


def changes_between(old: LinearProgram, new: LinearProgram) -> LPChanges:
    """Count the differences of two LPs of one shape."""
    return LPChanges(
        differing((old.c, new.c)).size,
        differing((old.lower, new.lower), (old.upper, new.upper)).size,
        differing((old.row_lower, new.row_lower), (old.row_upper, new.row_upper)).size,
        differing((old.A.data, new.A.data)).size if same_pattern(old, new) else int((new.A - old.A).nnz),
        differing((old.integral, new.integral)).size,
    )


@dataclass
class HighsLP:
    """LP in HiGHS, which keeps its basis; integral columns count as continuous.

    `threads`: None means one thread, because HiGHS' simplex uses only one. `options`: options of HiGHS, which
    override those of this class.
    """

    lp: LinearProgram
    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.checker = LPChecker(self.lp)
        self._highs: HighsEngine | None = None
        self._cold_iterations = self._iterations = self._crossover = 0
        self._choices = {True: _Choice(), False: _Choice()}
        self._only_costs = False

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_highs": None}  # HiGHS' state cannot be copied: a copy starts cold

    # ---- differences -----------------------------------------------------------------------------

    def follow(self, lp: LinearProgram) -> None:
        """Pass the differences to another LP to HiGHS; an LP of another shape starts cold."""
        old = self.lp
        if lp is old:
            return
        if old.A.shape != lp.A.shape:
            self._highs = None
        elif not same_pattern(old, lp):
            return self.reshape(lp, np.arange(lp.c.size), np.arange(lp.row_lower.size))
        self.lp, self.checker = lp, self.checker.follow(lp)
        if self._highs is not None:
            self._push(self._highs, old, lp)

    def _push(self, highs: HighsEngine, old: LinearProgram, new: LinearProgram) -> None:
        entries = differing((old.A.data, new.A.data))
        highs.keep_small(new.A.data[entries])
        column = np.searchsorted(new.A.indptr, entries, side="right") - 1
        places = zip(new.A.indices[entries].tolist(), column.tolist(), strict=True)
        for (i, j), value in zip(places, new.A.data[entries].tolist(), strict=True):
            check(highs.changeCoeff(i, j, value), "an entry")
        costs = differing((old.c, new.c))
        highs.change_costs(costs, new.c[costs])
        bounds = differing((old.lower, new.lower), (old.upper, new.upper))
        highs.change_bounds(bounds, new.lower[bounds], new.upper[bounds])
        rows = differing((old.row_lower, new.row_lower), (old.row_upper, new.row_upper))
        highs.change_sides(rows, new.row_lower[rows], new.row_upper[rows])
        self._only_costs = not (bounds.size or rows.size or entries.size)

    def reshape(self, lp: LinearProgram, columns: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Follow an LP of other columns, rows or places of entries; HiGHS keeps what it can of the basis.

        `columns` (n,), `rows` (m,): the earlier place of each column and row, or -1 for a new one. New
        columns become nonbasic, and new rows become basic.
        """
        self.lp, self.checker, self._only_costs = lp, LPChecker(lp), False
        if self._highs is None:
            return
        old, kind = self._highs.getBasis(), highspy.HighsBasisStatus
        self._highs.pass_model(lp)
        if old.valid:
            basis = highspy.HighsBasis()
            known, old_rows = [*old.col_status, kind.kNonbasic], [*old.row_status, kind.kBasic]
            basis.col_status = [known[j] for j in columns.tolist()]
            basis.row_status = [old_rows[i] for i in rows.tolist()]
            basis.valid = basis.alien = True  # alien: HiGHS checks and repairs the basis
            self._highs.setBasis(basis)

    # ---- solve -----------------------------------------------------------------------------------

    def solve(self, tolerance: float, clock: Clock) -> LPAnswer:
        """Solve the LP from the last basis, or cold; the status is confirmed by the LP's own residuals."""
        self._iterations = self._crossover = 0
        start, answer = "cold", None
        try:
            if not self.lp.c.size:
                return self._empty()
            start = self._start(tolerance)
            answer = self._claimed(self._run(clock, start), tolerance)
            if answer.status is Status.UNPROVED:
                answer = self._again(answer, tolerance, clock)
        except Interrupted:
            self._highs = None  # the abandoned run still uses it
            if answer is None:
                answer = LPAnswer(Status.CANCELLED if clock.cancelled else Status.DEADLINE, clock.why())
        return replace(answer, iterations=self._iterations, crossover=self._crossover, start=start)

    def _empty(self) -> LPAnswer:
        """Return the answer for an LP without columns."""
        y = _empty_rows(self.lp)
        ray = infeasible_ray(self.lp, y)
        if ray is not None:
            return LPAnswer(Status.INFEASIBLE, "a row without entries excludes 0", ray=ray)
        nothing = self.checker.certificate(np.zeros(0), np.zeros(y.size))
        return LPAnswer(Status.OPTIMAL, "there are no columns", nothing)

    def _start(self, tolerance: float) -> str:
        """Prepare HiGHS for a run; return the start of the run: "cold" or "kept basis"."""
        feasibility = float(np.clip(_TIGHTER * tolerance, _LEAST, _USUAL))
        if self._highs is None:
            self._highs = HighsEngine.loaded(
                self.lp, 1 if self.threads is None else self.threads, **self.options
            )
        elif self._choices[self._only_costs].cold():
            check(self._highs.clearSolver(), "clearing the solver")
        for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            if name not in self.options:
                self._highs.set_option(name, feasibility)
        hot = self._highs.getBasis().valid
        if "simplex_strategy" not in self.options:
            primal = hot and self._choices[self._only_costs].primal
            self._highs.set_option("simplex_strategy", _PRIMAL if primal else _DUAL)
        return "kept basis" if hot else "cold"

    def _limit(self) -> int:
        """Return the limit on the iterations of a run from a basis; 0 if the user has set a limit."""
        if "simplex_iteration_limit" in self.options:
            return 0
        return max(_LEAST_LIMIT, _MOST * self._cold_iterations)

    def _run(self, clock: Clock, start: str) -> HighsEngine:
        """Run HiGHS, again and cold if a run from a basis takes too long or fails."""
        highs = self._highs
        assert highs is not None
        hot = start != "cold"
        limit = self._limit() if hot else 0
        if limit:
            highs.run_hot(clock, most=limit)
            self._count(highs)
            worth = max(_WORTH * self._cold_iterations, _LEAST_LIMIT / 10)
            self._choices[self._only_costs].took(self._iterations > worth, self._only_costs)
            if highs.outcome()[0] not in (Status.NUMERICAL_ERROR, Status.ITERATION_LIMIT):
                return highs
            check(highs.clearSolver(), "clearing the solver")
        before = self._iterations
        self._cold(highs, clock)
        self._cold_iterations = self._iterations - before
        return highs

    def _cold(self, highs: HighsEngine, clock: Clock) -> None:
        """Run HiGHS without a basis: simplex, or an interior-point method if simplex takes long."""
        own = {"solver", "simplex_iteration_limit"}.isdisjoint(self.options)
        if own:
            limit = max(_LEAST_LIMIT, sum(self.lp.A.shape))
            highs.set_option("simplex_iteration_limit", limit)
        self._run_until(highs, clock)
        status = highs.outcome()[0]
        if not own or status not in (Status.ITERATION_LIMIT, Status.NUMERICAL_ERROR):
            return
        highs.set_option("simplex_iteration_limit", highspy.kHighsIInf)
        check(highs.clearSolver(), "clearing the solver")
        if status is Status.ITERATION_LIMIT:
            highs.set_option("solver", "ipm")
        else:
            highs.set_option("simplex_strategy", _PRIMAL)
        self._run_until(highs, clock)
        highs.set_option("solver", "choose")

    def _run_until(self, highs: HighsEngine, clock: Clock) -> None:
        highs.run_until(clock)
        self._count(highs)

    def _count(self, highs: HighsEngine) -> None:
        own, crossover = highs.iterations()
        self._iterations, self._crossover = self._iterations + own + crossover, self._crossover + crossover

    # ---- claims ----------------------------------------------------------------------------------

    def _claimed(self, highs: HighsEngine, tolerance: float) -> LPAnswer:
        """Return the answer of the last run with the status that the LP's residuals or a ray confirm."""
        (status, reason), (x, y) = highs.outcome(), highs.point()
        if status in (Status.INFEASIBLE, Status.UNBOUNDED):
            return self._by_ray(status, reason, highs.ray(status), x, tolerance)
        return self._by_point(status, reason, x, y, tolerance)

    def _by_point(
        self,
        status: Status,
        reason: str,
        x: NDArray[np.float64] | None,
        y: NDArray[np.float64] | None,
        tolerance: float,
    ) -> LPAnswer:
        if x is None or y is None or not (np.isfinite(x).all() and np.isfinite(y).all()):
            return LPAnswer(Status.UNPROVED if status is Status.OPTIMAL else status, reason)
        proof = self.checker.certificate(x, y)
        return self._judged(status, reason, proof, tolerance)

    def confirmed(
        self,
        status: Status,
        reason: str,
        x: NDArray[np.float64] | None,
        y: NDArray[np.float64] | None,
        tolerance: float,
        clock: Clock,
    ) -> LPAnswer:
        """Return the answer of another solver with the status that residuals or a ray confirm."""
        if status in (Status.INFEASIBLE, Status.UNBOUNDED):
            return self._again(LPAnswer(Status.UNPROVED, reason), tolerance, clock)
        return self._by_point(status, reason, x, y, tolerance)

    def _judged(self, status: Status, reason: str, proof: LPCertificate, tolerance: float) -> LPAnswer:
        if proof.worst() <= tolerance and status is not Status.ITERATION_LIMIT:
            return LPAnswer(Status.OPTIMAL, reason, proof)
        if status in _LIMITED:
            return LPAnswer(status, reason, proof)
        if status is Status.NUMERICAL_ERROR:
            return LPAnswer(Status.UNPROVED, reason)
        figures = f"a residual of {proof.primal:.1e} and a largest figure of {proof.worst():.1e}"
        why = f"{reason}, but the LP itself has {figures}"
        return LPAnswer(Status.UNPROVED, why, proof)

    def _by_ray(
        self,
        status: Status,
        reason: str,
        ray: NDArray[np.float64] | None,
        x: NDArray[np.float64] | None,
        tolerance: float,
    ) -> LPAnswer:
        """Return INFEASIBLE or UNBOUNDED if a ray, and a feasible point for the latter, confirm it."""
        if status is Status.INFEASIBLE:
            for prices in (ray, _empty_rows(self.lp)):
                proved = None if prices is None else infeasible_ray(self.lp, prices)
                if proved is not None:
                    return LPAnswer(status, "a ray proves the rows infeasible", ray=proved)
        elif x is not None and self.checker.violation(np.clip(x, self.lp.lower, self.lp.upper)) <= tolerance:
            for direction in (ray, _falling(self.lp)):
                proved = None if direction is None else unbounded_ray(self.lp, direction)
                if proved is not None:
                    why = "from a feasible point the objective falls along a ray without limit"
                    return LPAnswer(status, why, ray=proved)
        return LPAnswer(Status.UNPROVED, f"{reason}; no ray confirms it")

    def _again(self, first: LPAnswer, tolerance: float, clock: Clock) -> LPAnswer:
        """Solve once more at the smallest tolerances, first without costs if no optimum was claimed."""
        if first.certificate is None:
            bare = replace(self.lp, c=np.zeros(self.lp.c.size))
            highs, claimed = self._other(bare, clock, presolve="off", simplex_strategy=_DUAL)
            if claimed is Status.INFEASIBLE:
                found = self._by_ray(claimed, highs.outcome()[1], highs.ray(claimed), None, tolerance)
                return found if found.ray is not None else LPAnswer(claimed, _TWICE)
            if claimed is Status.NUMERICAL_ERROR:
                _, least = self._other(_elastic(bare), clock)[0].point()
                found = self._by_ray(Status.INFEASIBLE, first.reason, least, None, tolerance)
                if found.ray is not None:
                    return found
            if claimed in _LIMITED:
                return LPAnswer(claimed, highs.outcome()[1])
            highs, claimed = self._other(self.lp, clock, presolve="off", simplex_strategy=_PRIMAL)
            if claimed in (Status.UNBOUNDED, Status.INFEASIBLE):
                x, _ = highs.point()
                return self._by_ray(claimed, highs.outcome()[1], highs.ray(claimed), x, tolerance)
        unit = _Units.of(self.lp)
        highs, claimed = self._other(unit.applied(self.lp), clock)
        x, y = highs.point()
        if claimed in _LIMITED or x is None or y is None:
            return replace(first, reason=f"{first.reason}; again: {highs.outcome()[1]}")
        proof = self.checker.certificate(x / unit.size, y / unit.cost)
        if claimed is Status.OPTIMAL and proof.confirms(tolerance):
            if self._highs is not None and highs.getBasis().valid:
                self._highs.setBasis(highs.getBasis())
            return LPAnswer(Status.OPTIMAL, highs.outcome()[1], proof)
        again = self._judged(claimed, highs.outcome()[1], proof, tolerance)
        before = first.certificate
        if before is not None and before.confirms(tolerance):
            return replace(first, status=Status.OPTIMAL)
        return again if before is None or proof.worst() < before.worst() else first

    def _other(self, lp: LinearProgram, clock: Clock, **options: Any) -> tuple[HighsEngine, Status]:
        """Run another instance of HiGHS cold, at the smallest tolerances; return it and its status."""
        kept = {k: v for k, v in self.options.items() if k != "solver" and not k.endswith("_limit")}
        tight = {"primal_feasibility_tolerance": _LEAST, "dual_feasibility_tolerance": _LEAST}
        highs = HighsEngine.loaded(lp, 1, **kept | tight | {"solver": "simplex"} | options)
        self._run_until(highs, clock)
        return highs, highs.outcome()[0]


class _Units(NamedTuple):
    """Powers of 2 by which costs, and bounds of rows and columns, are multiplied."""

    cost: float
    size: float

    @classmethod
    def of(cls, lp: LinearProgram) -> _Units:
        """Return the units in which the typical cost and the typical bound are near 1."""
        bounds = np.concatenate((lp.row_lower, lp.row_upper, lp.lower, lp.upper))
        return cls(_unit(lp.c), _unit(bounds[np.isfinite(bounds)]))

    def applied(self, lp: LinearProgram) -> LinearProgram:
        """Return the LP in these units."""
        scaled = {
            name: getattr(lp, name) * self.size for name in ("row_lower", "row_upper", "lower", "upper")
        }
        return replace(lp, c=lp.c * self.cost, offset=0.0, **scaled)


def _unit(values: NDArray[np.float64]) -> float:
    size = abs(values[values != 0.0])
    return float(2.0 ** -np.round(np.log2(np.median(size)))) if size.size else 1.0


def _elastic(lp: LinearProgram) -> LinearProgram:
    """Return the LP of the least sum of row violations; its prices are a ray if the LP is infeasible."""
    m, n = lp.A.shape
    size = np.ones(m)
    np.maximum.at(size, lp.A.indices, abs(lp.A.data))
    slack = diags_array(size, format="csc")
    return replace(
        lp,
        c=np.concatenate((np.zeros(n), np.ones(2 * m))),
        A=csc_array(hstack([lp.A, slack, -slack])),
        lower=np.concatenate((lp.lower, np.zeros(2 * m))),
        upper=np.concatenate((lp.upper, np.full(2 * m, np.inf))),
        integral=np.zeros(n + 2 * m, np.bool_),
        column_names=(),
    )


def _empty_rows(lp: LinearProgram) -> NDArray[np.float64]:
    """Return prices (m,) of the rows without entries whose bounds exclude 0."""
    empty = np.bincount(lp.A.indices, minlength=lp.row_lower.size) == 0
    return np.where(empty & (lp.row_lower > 0.0), -1.0, np.where(empty & (lp.row_upper < 0.0), 1.0, 0.0))


def _falling(lp: LinearProgram) -> NDArray[np.float64]:
    """Return the direction (n,) of columns without rows and bounds that lower the objective without limit."""
    down, up = (lp.c > 0) & np.isinf(lp.lower), (lp.c < 0) & np.isinf(lp.upper)
    alone = np.diff(lp.A.indptr) == 0
    return np.where(alone & up, 1.0, np.where(alone & down, -1.0, 0.0))
