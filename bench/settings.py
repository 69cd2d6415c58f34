"""How a solver is run, and the records that came of it: what courses, rounds and summaries have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from copter.program.program import ContinualProgram
from copter.program.records import CostType
from copter.solvers.base import Solver
from copter.solvers.registry import make_solver, solver_entry
from copter.solvers.settings import setting_defaults

Record: TypeAlias = dict[str, Any]

MIP_GAP = 1e-3
"""Gap of branch and bound if none is given; with it, and 10 s a round, it is compared with copter."""


@dataclass(frozen=True)
class SolverSettings:
    """How a solver is run.

    Attributes
    ----------
    name : str
        A name that :func:`copter.solvers.make_solver` takes, or one of the course's own methods.
    tolerance : float
        Relative tolerance on residuals and gap.
    time_limit : float, optional
        Seconds a solve may take.
    mip_gap : float
        Relative gap at which branch and bound stops; only solvers with such a setting are given it.
    actors : int
        Over how many actors of Ray its programs are spread; 0 for programs in this process.
    """

    name: str
    tolerance: float = 1e-6
    time_limit: float | None = None
    threads: int | None = None
    mip_gap: float = MIP_GAP
    actors: int = 0

    def make(self) -> Solver:
        """Return a new solver with these settings."""
        wanted = {"tolerance": self.tolerance, "deadline": self.time_limit, "threads": self.threads}
        given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
        if "mip_gap" in setting_defaults(solver_entry(self.name).load()):
            given["mip_gap"] = self.mip_gap
        return make_solver(self.name, **given)

    def program(self, cost_dtype: CostType = "float64") -> ContinualProgram:
        """Return an empty program for the solver.

        Parameters
        ----------
        cost_dtype : "float64" or "float32"
        """
        if not self.actors:
            return ContinualProgram(cost_dtype=cost_dtype)
        from copter.ray import RayProgram

        return RayProgram(self.actors, cost_dtype=cost_dtype)


@dataclass
class Measured:
    """Records of one solver.

    Attributes
    ----------
    records : list of dict
    peak_memory_mb : float
        The most memory its process held; 0 if it had no process of its own.
    stopping : dict
        What the solver itself stops at, by its own names (:meth:`copter.solvers.base.Solver.stopping`).
    machine : dict
        Where it ran (:func:`copter.bench.machine.machine`), if it had a process of its own.
    """

    solver: str
    records: list[Record] = field(default_factory=list)
    peak_memory_mb: float = 0.0
    stopping: dict[str, float] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
