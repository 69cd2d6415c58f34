"""What every solver is: a name, settings, features, and state that it keeps between rounds."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, ctrl_c_cancels, current, running
from copter.errors import ArgumentTypeError, ConcurrentUseError, CopterError, SettingError
from copter.keywords import Checked, suggests
from copter.solution import check_optimal
from copter.solvers.features import Feature, check_features
from copter.solvers.settings import Setting, setting_defaults, share, time_limit, workers

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.proof.certificate import SparseX
    from copter.solution import Solution

SolverState: TypeAlias = dict[str, Any]
"""A solver's memory of a program, by name: numbers, and arrays of the store's slots and revisions."""


class Shim(Protocol):
    """A rounding method that makes an integral allocation of a solution."""

    def round(self, program: ContinualProgram, solution: Solution) -> Any:
        """Round a solution of the program as it is now."""


class Solver(Checked):
    """Solves a program, and keeps what helps with the next round of the same program.

    Parameters
    ----------
    name : str
        Name on the command line and in results.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        parts = [repr(self.name)]
        for name, default in setting_defaults(type(self)).items():
            value = getattr(self, name, default)
            if value is not default and value != default:
                parts.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def features(self) -> Feature:
        """Features of the solver; none unless a subclass says otherwise."""
        return Feature(0)

    @abstractmethod
    def solve(
        self, program: ContinualProgram, *, deadline: float | None = None, raise_error: bool = False
    ) -> Solution:
        """Solve the program as it is now.

        Parameters
        ----------
        deadline : float, optional
            Seconds after which the best answer so far is returned; overrides the solver's setting.
        raise_error : bool
            Whether any other status than optimal is an error (:func:`copter.solution.check_optimal`).

        Raises
        ------
        UnsupportedError
            The program has something that the solver cannot do (:mod:`copter.solvers.features`).
        NotOptimalError
            With ``raise_error``: the answer is not optimal; the error has it.
        """

    def warm_up(  # noqa: B027 - most have nothing to prepare
        self, program: ContinualProgram | None = None, shim: Shim | None = None
    ) -> None:
        """Run the code that a round may be the first to need, so that it is compiled or loaded before.

        Parameters
        ----------
        program : ContinualProgram, optional
            A program like those of the rounds, which is solved and not edited; by default small ones of the
            solver.
        shim : Shim, optional
            Rounds the solution.
        """

    def cancel(self) -> None:  # noqa: B027 - a solver that cannot be cancelled goes on
        """End the solve that is under way, if there is one; from any thread."""

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Return the seconds that count as edit and as solve, of ``wall`` seconds around a solve.

        By default all of them; a subclass may exclude what is not the solver's own work.
        """
        edit = min(solution.timings.edit, wall)
        return edit, wall - edit

    def stopping(self) -> dict[str, float]:
        """Return the solver's own stopping tolerances, by its own names."""
        tolerance: float | None = getattr(self, "tolerance", None)
        return {} if tolerance is None else {"tolerance": tolerance}

    @property
    def kind(self) -> str:
        """Name of what it remembers: solvers of one kind can go on from each other's state."""
        return type(self).__name__

    def save_state(self, program: ContinualProgram) -> SolverState | None:
        """Return what the next solve of the program begins from, to be written to a file; None if nothing.

        Raises
        ------
        CopterError
            The solver's state cannot be written.
        """
        self._check_state("written to")
        return self._saved(program)

    def load_state(self, program: ContinualProgram, state: SolverState | None) -> None:
        """Begin the next solve of the program from a state of :meth:`save_state`, or cold if it is None.

        Raises
        ------
        CopterError, ValueError, KeyError, TypeError
            It is no such state; the solver is as before.
        """
        self._check_state("read from")
        if state is None:
            self.reset()
        else:
            self._load_saved(program, state)

    def _check_state(self, how: str) -> None:
        if Feature.SAVED_STATE not in self.features:
            raise CopterError(f"solver {self.name!r} keeps a state that cannot be {how} a file")

    def _saved(self, program: ContinualProgram) -> SolverState | None:
        """State for a file, of a solver with the feature SAVED_STATE."""
        raise NotImplementedError

    def _load_saved(self, program: ContinualProgram, state: SolverState) -> None:
        """Take over what :meth:`_saved` returned; an error leaves the solver as it was."""
        raise NotImplementedError

    def reset(self) -> None:  # noqa: B027 - a solver without state has nothing to forget
        """Forget everything about earlier rounds."""


class WarmStartable(Protocol):
    """A solver whose starting point can be read and set."""

    def start(self, program: ContinualProgram) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Return allocation and prices, by slot, that the next solve begins from; None if it is cold."""

    def start_from(self, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> None:
        """Begin the next solve of the program from an allocation and prices (row slots,), by slot."""


def takes_start(solver: Solver) -> TypeGuard[WarmStartable]:
    """Whether a solver, or the one that it wraps, accepts a starting point."""
    return Feature.GIVEN_START in solver.features


class ClockedSolver(Solver):
    """A solver that keeps its deadline, can be cancelled, and has one user at a time.

    Subclasses implement :meth:`_solve`, which returns the best answer so far when its clock is over.

    Parameters
    ----------
    tolerance : float
        Wanted relative residuals and gap; every subclass says how it uses them.
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

    @suggests
    def solve(
        self, program: ContinualProgram, *, deadline: float | None = None, raise_error: bool = False
    ) -> Solution:
        """Solve the program as it is now; see :meth:`Solver.solve`.

        Raises
        ------
        UnsupportedError
            The program has something that the solver cannot do.
        NotOptimalError
            With ``raise_error``: the status is another than optimal.
        SettingError
            The deadline is no number of seconds.
        ConcurrentUseError
            The program is being edited or solved, or the solver is solving.
        KeyboardInterrupt
            Ctrl-C was pressed.  Program and solver are as after a cancelled solve: usable, and the solver's
            next solve begins from the best answer so far.
        """
        if not hasattr(program, "guard"):
            raise ArgumentTypeError(self.name, "program", program, "is no ContinualProgram")
        limit = self.deadline
        if deadline is not None:
            try:
                limit = time_limit(deadline)
            except ValueError as error:
                raise SettingError(self.name, "deadline", deadline, str(error)) from None
        clock = Clock(limit, parent=current())
        who = f"solver {self.name!r}"
        with program.guard.solving(who), self._busy(clock), ctrl_c_cancels(clock), running(clock):
            check_features(self.name, self.features, program)
            solution = self._solve(program, clock)
        found = program.store.executor.diagnostics()
        if found:
            solution = replace(solution, details={**solution.details, **found})
        if raise_error:
            check_optimal(solution)
        return solution

    @abstractmethod
    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        """Solve the program until the clock is over."""

    def cancel(self) -> None:
        """End the present solve, from another thread or a signal handler.

        It returns its best answer so far, with the status cancelled. Without a present solve nothing happens;
        a solve that begins later is not cancelled.
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
