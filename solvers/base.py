"""What every solver is: a name, settings, and state that it keeps between rounds."""

from __future__ import annotations

import importlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from copter.clock import Clock, ctrl_c_cancels, current, running
from copter.errors import ConcurrentUseError, CopterError, SettingError, UnknownSolverError
from copter.solvers.settings import Setting, share, time_limit, workers

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
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

    def cancel(self) -> None:  # noqa: B027 - a solver that cannot be cancelled goes on
        """End the solve that is under way, if there is one; from any thread."""

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


class ClockedSolver(Solver):
    """A solver that keeps its deadline, can be cancelled, and has one user at a time.

    Subclasses implement :meth:`_solve`, which returns the best answer there is when its clock is over.

    Parameters
    ----------
    name : str
    tolerance : float
        Relative residuals and gap that are wanted; every subclass says how it uses it.
    deadline : float, optional
        Seconds after which a solve returns the best answer so far, kept to within 10% or 50 ms, whichever is
        more (``docs/algorithm.md`` has the limits).
    threads : int, optional
        Threads to use; None for the solver's default.
    """

    tolerance = Setting(share)
    deadline = Setting(time_limit)
    threads = Setting(workers)

    def __init__(
        self, name: str, *, tolerance: float = 1e-6, deadline: float | None = None, threads: int | None = None
    ) -> None:
        super().__init__(name)
        self.tolerance = tolerance
        self.deadline = deadline
        self.threads = threads
        self._clock: Clock | None = None

    def solve(self, program: ContinualProgram, *, deadline: float | None = None) -> Solution:
        """Solve the program as it is now; see :meth:`Solver.solve`.

        Raises
        ------
        SettingError
            The deadline is no number of seconds.
        ConcurrentUseError
            The program is being edited or solved, or the solver is solving.
        KeyboardInterrupt
            Ctrl-C was pressed.  Program and solver are as after a cancelled solve: usable, and the solver's
            next solve begins from the best answer so far.
        """
        limit = self.deadline
        if deadline is not None:
            try:
                limit = time_limit(deadline)
            except ValueError as error:
                raise SettingError(self.name, "deadline", deadline, str(error)) from None
        clock = Clock(limit, parent=current())
        who = f"solver {self.name!r}"
        with program.guard.solving(who), self._busy(clock), ctrl_c_cancels(clock), running(clock):
            return self._solve(program, clock)

    @abstractmethod
    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        """Solve the program until the clock is over."""

    def cancel(self) -> None:
        """End the solve that is under way, from another thread or a signal handler.

        It returns its best answer so far, with the status cancelled.  Without a solve under way nothing
        happens: a solve that begins later is not cancelled.
        """
        clock = self._clock
        if clock is not None:
            clock.cancel()

    @contextmanager
    def _busy(self, clock: Clock) -> Iterator[None]:
        with _beginning:
            if self._clock is not None:
                raise ConcurrentUseError(f"solver {self.name!r} is solving already: give each thread its own")
            self._clock = clock
        try:
            yield
        finally:
            self._clock = None


_beginning = threading.Lock()
"""Held while a solver looks whether it is free; not a solver's own, so that solvers can be pickled."""


class Stopwatch:
    """Call it for the seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def __call__(self) -> float:
        """Return the seconds."""
        return time.perf_counter() - self._start


#: name -> (module, class, settings, one line for people)
SOLVERS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "copter": (
        "proximal.solver",
        "ProximalPoint",
        {"inner": "auto"},
        "proximal point, warm, inner solver chosen",
    ),
    "copter-cd": (
        "proximal.solver",
        "ProximalPoint",
        {"inner": "cd", "hand_over": False},
        "proximal point, warm, coordinate descent",
    ),
    "copter-newton": (
        "proximal.solver",
        "ProximalPoint",
        {"inner": "newton", "hand_over": False},
        "proximal point, warm, Newton-CG",
    ),
    "copter-cold": (
        "proximal.solver",
        "ProximalPoint",
        {"warm_start": False},
        "proximal point, cold every round",
    ),
    "copter-rebuild": ("rebuild", "Rebuild", {}, "proximal point, warm, program rebuilt every round"),
    "highs-hot": (
        "baselines.highs_hot",
        "HighsHot",
        {},
        "HiGHS simplex, model and basis kept between rounds",
    ),
    "highs-simplex": (
        "baselines.highs",
        "HighsRebuild",
        {"method": "simplex"},
        "HiGHS simplex, rebuilt every round",
    ),
    "highs-ipm": (
        "baselines.highs",
        "HighsRebuild",
        {"method": "ipm"},
        "HiGHS interior point, rebuilt every round",
    ),
    "highs-pdlp": ("baselines.highs", "HighsRebuild", {"method": "pdlp"}, "HiGHS PDLP, rebuilt every round"),
    "highs-milp": (
        "baselines.highs",
        "HighsRebuild",
        {"method": "milp"},
        "HiGHS branch and bound, rebuilt each round",
    ),
    "glop": ("baselines.ortools_lp", "Glop", {}, "OR-Tools GLOP, rebuilt every round"),
    "pdlp": ("baselines.ortools_lp", "Pdlp", {}, "OR-Tools PDLP, warm from the last solution"),
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
