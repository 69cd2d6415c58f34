"""One checker for every solver: whether an answer is what it claims to be, recomputed from the program.

After each solve, on no clock, the certificate of the allocation and the prices is computed again from the
program as it stands (:mod:`copter.proof.certificate`): nothing that the solver says of itself is used, and
nothing of copter's own passes either.  Where a course has no program of the core, its own check is used, the
same for all of its solvers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from copter.bench.settings import Record, SolverSettings
from copter.bench.suite.claims import of_integers
from copter.bench.suite.rivals import RIVALS
from copter.proof.certificate import certify
from copter.solvers.settings import setting_defaults
from copter.solvers.wrapper import Wrapper

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution
    from copter.solvers.base import Solver
    from copter.solvers.registry import SolverEntry

ROUNDING = 1e-9
"""By how much a recomputed figure may be above the tolerance: sums in another order."""
_FIGURES = ("checked_primal", "checked_dual", "checked_gap")


class Checked(Wrapper):
    """A solver whose answers are checked as they come.

    Attributes
    ----------
    found : dict of str to float
        What the checker found of the last answer; empty without one.
    """

    def __init__(self, inner: Solver) -> None:
        super().__init__(inner)
        self.found: dict[str, float] = {}
        self._seconds = 0.0

    def solve(
        self, program: ContinualProgram, *, deadline: float | None = None, raise_error: bool = False
    ) -> Solution:
        """The other's answer, with the checker's figures of it; see :meth:`copter.solvers.base.Solver.solve`.

        Parameters
        ----------
        deadline : float, optional
            Seconds.
        """
        solution = super().solve(program, deadline=deadline, raise_error=raise_error)
        begin = perf_counter()
        self.found = {}
        if solution.found:
            relative = certify(program.store, solution.nonzeros, solution.y).relative
            figures = relative.primal, relative.dual, relative.gap
            self.found = dict(zip(_FIGURES, figures, strict=True))
        self._seconds = perf_counter() - begin
        return solution

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """What the other counts, of ``wall`` seconds without those of the checker."""
        return super().seconds(solution, wall - self._seconds)


@dataclass(frozen=True)
class CheckedSettings(SolverSettings):
    """Settings whose solvers are checked.

    Attributes
    ----------
    made : list of Checked
        Every solver that was made with them.
    dede_python : Path, optional
        Python of an environment with the package dede.
    """

    made: list[Checked] = field(default_factory=list)
    dede_python: Path | None = None

    def make(self) -> Solver:
        """Return a new solver with these settings, and remember it."""
        rival = RIVALS.get(self.name)
        self.made.append(Checked(super().make() if rival is None else self._rival(rival)))
        return self.made[-1]

    def _rival(self, entry: SolverEntry) -> Solver:
        more = {"python": self.dede_python} if "python" in setting_defaults(entry.load()) else {}
        return entry.make(tolerance=self.tolerance, deadline=self.time_limit, threads=self.threads, **more)

    def found(self) -> Mapping[str, float]:
        """What the checker found of the last answer of the last solver."""
        return self.made[-1].found if self.made else {}


@dataclass(frozen=True)
class Checker:
    """How a line's answers are judged.

    Attributes
    ----------
    sentence : str
        What its word says.
    within : callable
        Whether a record, with what the checker found, is within a tolerance.
    """

    sentence: str
    within: Callable[[Record, float], bool]

    def judge(self, record: Record, found: Mapping[str, float], tolerance: float) -> dict[str, Any]:
        """Fields to add to a record: what was found, and whether the answer and the claim hold.

        What branch and bound claims is of another kind: see :mod:`copter.bench.suite.claims`.

        Parameters
        ----------
        found : mapping of str to float
            Of :meth:`CheckedSettings.found`.
        """
        figures = dict.fromkeys(_FIGURES, math.nan) | dict(found)
        certified = not record["missed"] and self.within(record | figures, tolerance * (1 + ROUNDING))
        claimed = record["status"] == "optimal" and not record["missed"] and not of_integers(record)
        return figures | {"certified": certified, "disagrees": claimed and not certified}


def _recomputed(record: Record, tolerance: float) -> bool:
    return all(record[name] <= tolerance for name in _FIGURES)  # NaN is not


def _own_gap(record: Record, tolerance: float) -> bool:
    return bool(record["gap"] <= tolerance)


def _own_figures(record: Record, tolerance: float) -> bool:
    return all(record[name] <= tolerance for name in ("primal_residual", "dual_residual", "gap"))


def _proven(record: Record, tolerance: float) -> bool:
    return bool(record.get("proven", 0.0)) and math.isfinite(record["integral_objective"])


CHECKERS = {
    "certificate": Checker(
        "Residuals and gap, computed again from the program for the answer and its prices, are within the "
        "tolerance.",
        _recomputed,
    ),
    "bound": Checker(
        "Objective and dual bound, computed by the domain from an answer and its prices, are within the "
        "tolerance.",
        _own_gap,
    ),
    "proof": Checker(
        "The integral allocation is proven optimal; allocations of all solvers in a round are compared.",
        _proven,
    ),
    "lp": Checker(
        "Residuals and gap of the point and its prices, computed on the linear program itself, are "
        "within the tolerance.",
        _own_figures,
    ),
    "matrix": Checker("The edited program, read out, is the matrix that scipy builds.", _own_gap),
}
"""The checkers by name."""
