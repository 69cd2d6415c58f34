"""Whether answers are what they claim to be, the same for every solver; nothing here looks at speed.

After each solve, on no clock, the certificate of the allocation and the prices is computed again from the
program as it stands (:mod:`copter.proof.certificate`): nothing that the solver says of itself is used, and
nothing of copter's own passes either.  Where a course has no program of the core, its own check is used, the
same for all of its solvers.

A solver that calls its answer optimal claims one of two things.  Of a linear program: that residuals and gap
are within the line's tolerance, which is what was recomputed.  Branch and bound claims something else, which
no checker of the relaxation can confirm: that its answer is feasible and integral, and within its own gap of
a bound that holds for all such answers.  The domain counts out what the allocation comes to (and refuses one
that is none), so that what is asked of the record is

    bound <= integral objective <= bound + gap * scale        in the domain's scale (``answer_gap``),

and that it is ``feasible``, where the domain counts that out too.  Nothing of this makes an answer
`certified`: it may be further from the optimum than the line's tolerance.  Bounds are also held against the
answers of the other solvers (:func:`problems`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from copter.bench.result_files import FAMILIES, LineResult, SolverResult, SuiteResult
from copter.bench.settings import Record
from copter.bench.solvers import is_ours
from copter.proof.certificate import certify
from copter.solvers.wrapper import Wrapper

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution
    from copter.solvers.base import Solver

_GAP = "mip_rel_gap"
"""Name, among a solver's stopping criteria, of branch and bound's gap."""
_ROUNDING = 1e-9
"""By how much a recomputed figure may be above the tolerance: sums in another order."""
_INTEGER_ROUNDING = 1e-6
"""Branch and bound's own tolerances: of feasibility, and of a gap that it takes for closed."""
_FIGURES = ("checked_primal", "checked_dual", "checked_gap")


class CheckedSolver(Wrapper):
    """A solver whose answers are checked as they come.

    `found`: figures of the checker for the last answer; empty without one. `checking`: seconds that it took.
    """

    def __init__(self, inner: Solver) -> None:
        super().__init__(inner)
        self.found: dict[str, float] = {}
        self.checking = 0.0

    def solve(
        self, program: ContinualProgram, *, deadline: float | None = None, raise_error: bool = False
    ) -> Solution:
        """Return the other's answer and keep the checker's figures of it."""
        solution = super().solve(program, deadline=deadline, raise_error=raise_error)
        begin = perf_counter()
        self.found = {}
        if solution.found:
            relative = certify(program.store, solution.nonzeros, solution.y).relative
            figures = relative.primal, relative.dual, relative.gap
            self.found = dict(zip(_FIGURES, figures, strict=True))
        self.checking = perf_counter() - begin
        return solution

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Return the other's seconds, of ``wall`` seconds without those of the checker."""
        return super().seconds(solution, wall - self.checking)


class Checks:
    """Checks every solver that it watches, and knows what came of the last answer of the last one."""

    def __init__(self) -> None:
        self._last: CheckedSolver | None = None

    def watch(self, solver: Solver) -> Solver:
        """Return the solver with its answers checked (:attr:`copter.bench.settings.SolverSettings.wrap`)."""
        self._last = CheckedSolver(solver)
        return self._last

    @property
    def found(self) -> Mapping[str, float]:
        """The checker's figures for the last answer; empty for a method that is no solver."""
        return {} if self._last is None else self._last.found

    @property
    def seconds(self) -> float:
        """Seconds that the last check took."""
        return 0.0 if self._last is None else self._last.checking


@dataclass(frozen=True)
class _Checker:
    """How the answers of a case are judged.

    `sentence`: meaning of `certified`. `within`: whether a record, with the checker's figures, is within a
    tolerance.
    """

    sentence: str
    within: Callable[[Record, float], bool]

    def judge(self, record: Record, found: Mapping[str, float], tolerance: float) -> dict[str, Any]:
        """Return fields to add to a record: what was found, and whether the answer and its claim hold."""
        figures = dict.fromkeys(_FIGURES, math.nan) | dict(found)
        certified = not record["missed"] and self.within(record | figures, tolerance * (1 + _ROUNDING))
        claimed = record["status"] == "optimal" and not record["missed"] and not _of_integers(record)
        return figures | {"certified": certified, "disagrees": claimed and not certified}


def _all_within(*names: str) -> Callable[[Record, float], bool]:
    """Whether all of some figures are within a tolerance; NaN is not."""
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
    "matrix": _Checker("The edited program, read out, is the matrix that scipy builds.", _all_within("gap")),
}
"""The checkers by name."""


def _of_integers(record: Record) -> bool:
    """Whether a record claims an optimum of the integral program, and answers no relaxation."""
    integral = math.isfinite(record.get("answer_objective", math.nan))
    relaxed = math.isfinite(record.get("objective", math.nan))
    return bool(record["status"] == "optimal" and not record["missed"] and integral and not relaxed)


def _holds(record: Record, gap: float) -> bool:
    """Whether a claim of :func:`_of_integers` holds; `gap` is the one at which branch and bound stops."""
    value, bound, own = (record[name] for name in ("answer_objective", "bound", "answer_gap"))
    size = record.get("size", math.nan)
    above = (bound - value) / size if size > 0.0 else -own  # some domains' gaps end at 0
    within = own <= gap + _INTEGER_ROUNDING and above <= _INTEGER_ROUNDING
    return bool(record.get("feasible", True) and within)


def unconfirmed(one: SolverResult) -> list[int]:
    """Return the rounds in which a solver claims what does not hold."""
    gap = one.stopping.get(_GAP, 0.0)
    return [
        record["round"]
        for record in one.records
        if (not _holds(record, gap) if _of_integers(record) else record.get("disagrees") is True)
    ]


def problems(suite: SuiteResult) -> list[str]:
    """Return a sentence for each problem of the results of a suite.

    A problem is an answer of copter's that is not certified, a claim that the checker does not confirm, a
    failed solver, different programs in one round, two certified answers whose objectives cannot both be
    right, or an unfinished line.
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
    """Programs that are not the same, and answers below a bound that another solver has."""
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
    """Rounds in which two solvers of the line's program had programs of different sizes."""
    for number in range(line.rounds):
        sizes: dict[tuple[float, float], str] = {}
        for one in line.solvers.values():
            for record in one.records:
                # a method or branch and bound makes a model of its own, and has no objective of the program
                if record["round"] == number and math.isfinite(record["objective"]):
                    sizes.setdefault((record["n_variables"], record["nnz"]), one.solver)
        if len(sizes) > 1:
            told = (f"{who}'s of {n:g} columns, {nnz:g} nonzeros" for (n, nnz), who in sizes.items())
            yield f"round {number}: programs differ: {'; '.join(told)}"
