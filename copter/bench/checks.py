"""Checks of the solvers' claims, the same for every solver; running times do not matter here.

After each solve, outside the measured time, the certificate of the allocation and the prices is computed
again from the program (:mod:`copter.proof.certificate`), without any figure of the solver or any result of
copter's own pricing passes.  A course without a ContinualProgram has its own check, the same for all its
solvers.

A solver with the status ``optimal`` makes one of two claims.  For a linear program, it claims that residuals
and gap are within the line's tolerance. The certificate checks this claim.  Branch and bound claims that its
answer is feasible and integral, and within its own gap of a bound on all integral answers. A check of the
relaxation cannot confirm the second claim.  The domain computes the objective of the allocation, and rejects
an invalid allocation. The claim holds if

    bound <= integral objective <= bound + gap * scale        in the domain's scale (``answer_gap``)

and, where the domain computes ``feasible``, if the record is ``feasible``.  The answer does not count as
`certified`, because it may be further from the optimum than the line's tolerance.  Bounds are also compared
with the answers of other solvers (:func:`problems`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from copter.bench.result_files import FAMILIES, LineResult, SolverResult, SuiteResult
from copter.bench.settings import Record
from copter.bench.solvers import is_ours
from copter.proof.certificate import certify
from copter.proof.general_lp import LPChecker
from copter.solvers.wrapper import Wrapper

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution
    from copter.solvers.base import Solver

_GAP = "mip_rel_gap"
"""Name of branch and bound's gap among a solver's stopping criteria."""
_ROUNDING = 1e-9
"""Relative excess over the tolerance that a recomputed figure may have because of rounding errors."""
_INTEGER_ROUNDING = 1e-6
"""Tolerance of branch and bound for feasibility, and largest gap that counts as closed."""
_FIGURES = ("checked_primal", "checked_gap")


class CheckedSolver(Wrapper):
    """A solver whose answer is checked after each solve.

    `found`: the checker's figures for the last answer; empty without an answer. `checking`: seconds of the
    last check.
    """

    def __init__(self, inner: Solver) -> None:
        super().__init__(inner)
        self.found: dict[str, float] = {}
        self.checking = 0.0

    def solve(
        self, program: ContinualProgram, *, time_limit: float | None = None, raise_error: bool = False
    ) -> Solution:
        """Return the wrapped solver's answer, and store the checker's figures."""
        solution = super().solve(program, time_limit=time_limit, raise_error=raise_error)
        begin = perf_counter()
        self.found = {}
        if solution.found and hasattr(program, "store"):
            relative = certify(program.store, solution.nonzeros, solution.y).relative
            self.found = dict(zip(_FIGURES, (relative.primal, relative.gap), strict=True))
        elif solution.found:
            model, answer = cast("Any", program), cast("Any", solution)
            proof = LPChecker(model.lp).certificate(answer.x, answer.y)
            self.found = dict(zip(_FIGURES, (proof.primal, proof.gap), strict=True))
        self.checking = perf_counter() - begin
        return solution

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Return the wrapped solver's seconds, given ``wall`` seconds that include the check."""
        return super().seconds(solution, wall - self.checking)


class Checks:
    """Checks of the solvers given to :meth:`watch`, with the figures of the last answer."""

    def __init__(self) -> None:
        self._last: CheckedSolver | None = None

    def watch(self, solver: Solver) -> Solver:
        """Return a solver whose answers are checked (:attr:`copter.bench.settings.SolverSettings.wrap`)."""
        self._last = CheckedSolver(solver)
        return self._last

    @property
    def found(self) -> Mapping[str, float]:
        """Figures of the checker for the last answer; empty for a method that is not a solver."""
        return {} if self._last is None else self._last.found

    @property
    def seconds(self) -> float:
        """Seconds of the last check."""
        return 0.0 if self._last is None else self._last.checking


@dataclass(frozen=True)
class _Checker:
    """Rule that judges the answers of a case.

    `sentence`: meaning of `certified`. `within`: function that returns whether a record is within a
    tolerance, given both; the record has the checker's figures.
    """

    sentence: str
    within: Callable[[Record, float], bool]

    def judge(self, record: Record, found: Mapping[str, float], tolerance: float) -> dict[str, Any]:
        """Return fields to add to a record: the figures, and whether the answer and its claim hold."""
        figures = dict.fromkeys(_FIGURES, math.nan) | dict(found)
        certified = not record["missed"] and self.within(record | figures, tolerance * (1 + _ROUNDING))
        claimed = record["status"] == "optimal" and not record["missed"] and not _of_integers(record)
        return figures | {"certified": certified, "disagrees": claimed and not certified}


def _all_within(*names: str) -> Callable[[Record, float], bool]:
    """Return a function that checks that all named figures are at most a tolerance; NaN fails."""
    return lambda record, tolerance: all(bool(record[name] <= tolerance) for name in names)


def _proven(record: Record, tolerance: float) -> bool:
    return bool(record.get("proven", 0.0)) and math.isfinite(record["answer_objective"])


CHECKERS = {
    "certificate": _Checker(
        "Residuals and gap, computed again from the program for the answer and its prices, are within the "
        "tolerance.",
        _all_within(*_FIGURES),
    ),
    "bound": _Checker(
        "Objective and dual bound, computed by the domain from an answer and its prices, are within the "
        "tolerance.",
        _all_within("gap"),
    ),
    "proof": _Checker(
        "The integral allocation is proven optimal; allocations of all solvers in a round are compared.",
        _proven,
    ),
    "lp": _Checker(
        "Residuals and gap of the point and its prices, computed on the linear program itself, are "
        "within the tolerance.",
        _all_within("primal_residual", "dual_residual", "gap"),
    ),
}
"""Checkers by name."""


def _of_integers(record: Record) -> bool:
    """Return whether a record claims an optimum of the integral program rather than of the relaxation."""
    integral = math.isfinite(record.get("answer_objective", math.nan))
    relaxed = math.isfinite(record.get("objective", math.nan))
    return bool(record["status"] == "optimal" and not record["missed"] and integral and not relaxed)


def _holds(record: Record, gap: float) -> bool:
    """Return whether a claim of :func:`_of_integers` holds; `gap`: gap at which branch and bound stops."""
    value, bound, own = (record[name] for name in ("answer_objective", "bound", "answer_gap"))
    size = record.get("size", math.nan)
    above = (bound - value) / size if size > 0.0 else -own  # the gaps of some domains are never negative
    within = own <= gap + _INTEGER_ROUNDING and above <= _INTEGER_ROUNDING
    return bool(record.get("feasible", True) and within)


def unconfirmed(one: SolverResult) -> list[int]:
    """Return the rounds in which a solver's claim does not hold."""
    gap = one.stopping.get(_GAP, 0.0)
    return [
        record["round"]
        for record in one.records
        if (not _holds(record, gap) if _of_integers(record) else record.get("disagrees") is True)
    ]


def problems(suite: SuiteResult) -> list[str]:
    """Return a sentence for each problem in the results of a suite.

    A problem is one of these: copter's answer is not certified; the checker does not confirm a claim; a
    solver failed; solvers had different programs in a round; two certified objectives contradict each other;
    or a line is unfinished.
    """
    found = [f"{name}: not begun" for name in suite.order if name not in suite.lines]
    for line in suite.lines.values():
        found += [f"{line.name}: {name} is not done" for name in line.order if name not in line.solvers]
        for one in line.solvers.values():
            found += [f"{line.name}: {one.solver} {what}" for what in _of_solver(line, one)]
        found += [f"{line.name}: {what}" for what in _disagreements(line)]
    return found


def _of_solver(line: LineResult, one: SolverResult) -> Iterator[str]:
    if one.status == "failed":
        yield f"failed: {one.reason}"
        return
    if claims := unconfirmed(one):
        yield f"claims an optimum that the checker does not confirm, in rounds {claims}"
    held = one.solver == line.order[0] and is_ours(one.solver)
    if held and one.status != "not run" and not line.certified(one.solver):
        rounds = [record["round"] for record in one.records if not record["certified"]]
        yield f"is {one.status} and has no certified answer in rounds {rounds}: {one.reason}"


def _disagreements(line: LineResult) -> Iterator[str]:
    """Yield sentences about different programs in a round, and about answers below another solver's bound."""
    if line.own_rounds:
        return
    yield from _programs(line)
    integral = line.family in FAMILIES and FAMILIES[line.family].integral
    value = "answer_objective" if integral else "objective"
    for number in range(line.rounds):
        records = [
            record
            for one in line.solvers.values()
            for record in one.records
            if record["round"] == number
            and (record["certified"] or (integral and _of_integers(record)))
            and math.isfinite(record[value])
        ]
        bounds = [record for record in records if math.isfinite(record["bound"])]
        if not bounds:
            continue
        best = min(records, key=lambda record: record[value])
        held = max(bounds, key=lambda record: record["bound"])
        size = max(abs(best[value]), abs(held["bound"]))
        if best[value] < held["bound"] - (line.tolerance + _ROUNDING) * size:
            yield (
                f"round {number}: {best['solver']} has {best[value]:.9g}, below the bound "
                f"{held['bound']:.9g} of {held['solver']}"
            )


def _programs(line: LineResult) -> Iterator[str]:
    """Yield sentences about rounds in which solvers of the line had programs of different sizes."""
    for number in range(line.rounds):
        sizes: dict[tuple[float, float], str] = {}
        for one in line.solvers.values():
            for record in one.records:
                # methods and branch and bound have their own models, and no objective of the program
                if record["round"] == number and math.isfinite(record["objective"]):
                    sizes.setdefault((record["n_variables"], record["nnz"]), one.solver)
        if len(sizes) > 1:
            told = (f"{who}'s of {n:g} columns, {nnz:g} nonzeros" for (n, nnz), who in sizes.items())
            yield f"round {number}: programs differ: {'; '.join(told)}"
