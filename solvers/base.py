"""What every solver is: a name, settings, and state that it keeps between rounds."""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from copter.errors import CopterError, UnknownSolverError

if TYPE_CHECKING:
    from copter.program import ContinualProgram
    from copter.solution import Solution

SolverState: TypeAlias = dict[str, Any]
"""What a solver remembers of a program, by name: numbers, and arrays of the store's slots and stamps."""


class Solver(ABC):
    """Solves a program, and remembers what helps with the next round of the same program.

    Parameters
    ----------
    name : str
        Name on the command line and in results.
    """

    edits_in_place: ClassVar[bool] = True
    """Whether it solves the edited program itself: False if it keeps or builds a model of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def solve(self, program: ContinualProgram, *, deadline: float | None = None) -> Solution:
        """Solve the program as it is now.

        Parameters
        ----------
        program : ContinualProgram
        deadline : float, optional
            Seconds after which the best answer so far is returned; overrides the solver's setting.
        """

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Seconds of a solve that count as edit and as solve, of ``wall`` seconds around it.

        All of them, unless a subclass says that some are not the solver's own work.
        """
        edit = min(solution.timings.edit, wall)
        return edit, wall - edit

    def stopping(self) -> dict[str, float]:
        """What the solver itself stops at: its own tolerances, by its own names for them."""
        tolerance: float | None = getattr(self, "tolerance", None)
        return {} if tolerance is None else {"tolerance": tolerance}

    @property
    def kind(self) -> str:
        """Name of what it remembers: solvers of one kind can go on from each other's state."""
        return type(self).__name__

    def save_state(self, program: ContinualProgram) -> SolverState | None:
        """What the next solve of the program begins from, to be written to a file; None if from nothing.

        Raises
        ------
        CopterError
            What the solver keeps cannot be written.
        """
        raise CopterError(f"solver {self.name!r} keeps a state that cannot be written to a file")

    def load_state(self, program: ContinualProgram, state: SolverState | None) -> None:
        """Begin the next solve of the program from what :meth:`save_state` returned.

        Raises
        ------
        CopterError, ValueError, KeyError, TypeError
            It is no such state; the solver is as before.
        """
        raise CopterError(f"solver {self.name!r} keeps a state that cannot be read from a file")

    def reset(self) -> None:  # noqa: B027 - a solver without state has nothing to forget
        """Forget everything about earlier rounds."""


class Stopwatch:
    """Call it for the seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def __call__(self) -> float:
        """Return the seconds."""
        return time.perf_counter() - self._start


#: name -> (module, class, settings, one line for people)
SOLVERS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "copter": ("proximal", "ProximalPoint", {"inner": "auto"}, "proximal point, warm, inner solver chosen"),
    "copter-cd": ("proximal", "ProximalPoint", {"inner": "cd"}, "proximal point, warm, coordinate descent"),
    "copter-newton": ("proximal", "ProximalPoint", {"inner": "newton"}, "proximal point, warm, Newton-CG"),
    "copter-cold": ("proximal", "ProximalPoint", {"warm_start": False}, "proximal point, cold every round"),
    "copter-rebuild": ("rebuild", "Rebuild", {}, "proximal point, warm, program rebuilt every round"),
    "highs-hot": ("highs_hot", "HighsHot", {}, "HiGHS simplex, model and basis kept between rounds"),
    "highs-simplex": ("highs", "HighsRebuild", {"method": "simplex"}, "HiGHS simplex, rebuilt every round"),
    "highs-ipm": ("highs", "HighsRebuild", {"method": "ipm"}, "HiGHS interior point, rebuilt every round"),
    "highs-pdlp": ("highs", "HighsRebuild", {"method": "pdlp"}, "HiGHS PDLP, rebuilt every round"),
    "highs-milp": ("highs", "HighsRebuild", {"method": "milp"}, "HiGHS branch and bound, rebuilt each round"),
    "glop": ("ortools_lp", "Glop", {}, "OR-Tools GLOP, rebuilt every round"),
    "pdlp": ("ortools_lp", "Pdlp", {}, "OR-Tools PDLP, warm from the last solution"),
}


def make_solver(name: str, **settings: Any) -> Solver:
    """Solver of a registered name.

    Parameters
    ----------
    name : str
        A key of :data:`SOLVERS`.
    **settings
        Passed to the solver's class, for example ``tolerance``, ``deadline``, ``threads``.

    Raises
    ------
    UnknownSolverError
        Names the known ones.
    """
    if name not in SOLVERS:
        raise UnknownSolverError(f"no solver {name!r}; known: {', '.join(SOLVERS)}")
    module, class_name, preset, _ = SOLVERS[name]
    solver_class = getattr(importlib.import_module(f"copter.solvers.{module}"), class_name)
    solver: Solver = solver_class(name=name, **(preset | settings))
    return solver
