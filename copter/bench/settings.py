"""Settings of a solver that courses, the runner and the commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from copter.bench.solvers import BASELINES, entry_of
from copter.program.program import ContinualProgram
from copter.solvers.base import Solver
from copter.solvers.registry import make_solver
from copter.solvers.settings import setting_defaults

Record: TypeAlias = dict[str, Any]
"""One round of one solver."""
_MIP_GAP = 1e-3
"""Default gap of branch and bound in comparisons with copter."""


@dataclass(frozen=True)
class SolverSettings:
    """Settings with which a solver is run.

    `name`: a registered solver, a baseline, or a method of the course. `tolerance`: relative tolerance of
    residuals and gap. `time_limit`: seconds of a solve. `mip_gap`: relative gap at which branch and bound
    stops, for solvers with such a setting. `actors`: number of Ray actors that contain the programs; 0 for
    programs in this process. `wrap`: function that is applied to every solver; the runner uses it to check
    answers.
    """

    name: str
    tolerance: float = 1e-6
    time_limit: float | None = None
    threads: int | None = None
    mip_gap: float = _MIP_GAP
    actors: int = 0
    wrap: Callable[[Solver], Solver] | None = None

    def make(self) -> Solver:
        """Return a new solver with these settings."""
        known = setting_defaults(entry_of(self.name).load())
        wanted: dict[str, Any] = {
            "tolerance": self.tolerance,
            "time_limit": self.time_limit,
            "threads": self.threads,
        }
        wanted |= {"mip_gap": self.mip_gap} if "mip_gap" in known else {}
        given = {name: value for name, value in wanted.items() if value is not None}
        baseline = BASELINES.get(self.name)
        solver = make_solver(self.name, **given) if baseline is None else baseline.make(**given)
        return solver if self.wrap is None else self.wrap(solver)

    def program(self) -> ContinualProgram:
        """Return an empty program for the solver."""
        if not self.actors:
            return ContinualProgram()
        from copter.ray import RayProgram

        return RayProgram(self.actors)
