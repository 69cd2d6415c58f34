"""Interface of a solver: a name, settings, features, and state that it keeps between rounds."""

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
from copter.errors import (
    ArgumentTypeError,
    ConcurrentUseError,
    CopterError,
    SettingError,
    UnsupportedError,
)
from copter.keywords import Checked, suggests
from copter.solution import check_optimal
from copter.solvers.features import Feature, check_features
from copter.solvers.settings import Setting, as_limit, setting_defaults, share, workers

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.proof.certificate import SparseX
    from copter.solution import Solution

SolverState: TypeAlias = dict[str, Any]
"""A solver's state for a program, by name: numbers, and arrays of the store's slots and revisions."""


class Shim(Protocol):
    """A rounding method that turns a solution into a feasible answer."""

    def round(self, program: ContinualProgram, solution: Solution) -> Any:
        """Round a solution of the program in its present state."""


class Solver(Checked):
    """Base class of solvers; a solver keeps state that speeds up the next round of the same program.

    Parameters
    ----------
    name : str
        Name on the command line and in results.

    Examples
    --------
    A solver that wraps another one and prints the status of each solve:

    >>> from copter import ContinualProgram, make_solver
    >>> from copter.solvers.api import Solver
    >>> class Verbose(Solver):
    ...     def __init__(self, inner):
    ...         super().__init__("verbose")
    ...         self.inner = inner
    ...
    ...     def solve(self, program, **options):
    ...         solution = self.inner.solve(program, **options)
    ...         print(solution.status.value)
    ...         return solution
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> round(Verbose(make_solver("copter")).solve(program).objective, 4)
    optimal
    -1.8
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
        """Abilities of the solver; empty unless a subclass overrides it."""
        return Feature(0)

    @abstractmethod
    def solve(
        self, program: ContinualProgram, *, time_limit: float | None = None, raise_error: bool = False
    ) -> Solution:
        """Solve the program in its present state.

        Parameters
        ----------
        program : ContinualProgram
            Program to solve; the solver does not edit it.
        time_limit : float, optional
            Seconds after which the solver returns its best solution so far; overrides the solver's setting.
        raise_error : bool
            True if every status other than optimal is an error (:func:`copter.solution.check_optimal`).

        Returns
        -------
        Solution
            Allocation, prices, status and certificate.

        Raises
        ------
        UnsupportedError
            If the program has a part that the solver cannot handle (:mod:`copter.solvers.features`).
        NotOptimalError
            If ``raise_error`` is true and the status is not optimal; the error contains the solution.
        """

    def warm_up(  # noqa: B027 - most solvers have nothing to prepare
        self, program: ContinualProgram | None = None, shim: Shim | None = None
    ) -> None:
        """Run the code that a round may need, so that it is compiled or loaded before the round.

        Parameters
        ----------
        program : ContinualProgram, optional
            A program like those of the rounds. The method solves it and does not edit it. By default the
            solver uses small programs of its own.
        shim : Shim, optional
            Rounding method that is applied to the solution.
        """

    def cancel(self) -> None:  # noqa: B027 - a solver that cannot be cancelled continues
        """End the solve that is running, if there is one; may be called from any thread."""

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Split ``wall`` seconds, measured around a solve, into (edit seconds, solve seconds).

        By default their sum is ``wall``; a subclass may exclude time that is not the solver's own work.
        """
        edit = min(solution.timings.edit, wall)
        return edit, wall - edit

    def stopping(self) -> dict[str, float]:
        """Return the solver's stopping tolerances, by the names that the solver uses."""
        tolerance: float | None = getattr(self, "tolerance", None)
        return {} if tolerance is None else {"tolerance": tolerance}

    @property
    def kind(self) -> str:
        """Name of the state's format: solvers of one kind can load each other's state."""
        return type(self).__name__

    def save_state(self, program: ContinualProgram) -> SolverState | None:
        """Return the state that the next solve of the program begins from, for a file; None without state.

        Raises
        ------
        CopterError
            If the solver's state cannot be written to a file.
        """
        self._check_state("written to")
        return self._saved(program)

    def load_state(self, program: ContinualProgram, state: SolverState | None) -> None:
        """Begin the next solve of the program from a state of :meth:`save_state`, or cold if it is None.

        Raises
        ------
        CopterError, ValueError, KeyError, TypeError
            If the argument is not such a state; the solver keeps the state that it had.
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
        """Return the state for a file; called only if the solver has the feature SAVED_STATE."""
        raise NotImplementedError

    def _load_saved(self, program: ContinualProgram, state: SolverState) -> None:
        """Load a state that :meth:`_saved` returned; an error leaves the solver's state unchanged."""
        raise NotImplementedError

    def reset(self) -> None:  # noqa: B027 - a solver without state has nothing to reset
        """Forget everything about earlier rounds."""


class WarmStartable(Protocol):
    """A solver whose starting point can be read and set."""

    def start(self, program: ContinualProgram) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Return allocation and prices, by slot, from which the next solve begins; None for a cold start."""

    def start_from(self, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> None:
        """Begin the next solve from an allocation and from prices ``y`` of shape (row slots,)."""


def takes_start(solver: Solver) -> TypeGuard[WarmStartable]:
    """Return whether a solver, or the one that it wraps, accepts a starting point."""
    return Feature.GIVEN_START in solver.features


class ClockedSolver(Solver):
    """Base class of solvers with a deadline and cancellation; one thread uses a solver at a time.

    Subclasses implement :meth:`_solve`, which returns the best solution so far when its clock has run out.

    Parameters
    ----------
    tolerance : float
        Relative residuals and gap that are wanted; each subclass documents how it uses the tolerance.
    time_limit : float, optional
        Seconds after which a solve returns the best solution so far. The solve may exceed the deadline by 10%
        or 50 ms, whichever is more (``docs/how-to/tolerances-and-deadlines.md`` lists the exceptions).
    threads : int, optional
        Number of threads; None for the solver's default.

    Examples
    --------
    A solver that returns the zero allocation at zero prices:

    >>> import numpy as np
    >>> from copter import ContinualProgram, Status
    >>> from copter.solvers.api import ClockedSolver, ColdStart, make_solution, SparseX, Timings
    >>> class Zero(ClockedSolver):
    ...     def _solve(self, program, clock):
    ...         none = np.zeros(0, np.int64)
    ...         x, y = SparseX(none, none, np.zeros(0)), np.zeros(program.store.rows.size)
    ...         return make_solution(
    ...             program, x, y, status=Status.UNPROVED, reason="zero", iterations=0,
    ...             timings=Timings(solve=clock()), warm=ColdStart.ALWAYS_COLD.start(),
    ...         )
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> solution = Zero("zero").solve(program)
    >>> round(solution.objective, 4), round(solution.bound, 4)
    (0.0, -1.8)
    """

    tolerance = Setting(share)
    time_limit = Setting(as_limit)
    threads = Setting(workers)

    def __init__(
        self,
        name: str,
        *,
        tolerance: float = 1e-6,
        time_limit: float | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(name)
        self.tolerance = tolerance
        self.time_limit = time_limit
        self.threads = threads
        self._clock: Clock | None = None

    @suggests
    def solve(
        self, program: ContinualProgram, *, time_limit: float | None = None, raise_error: bool = False
    ) -> Solution:
        """Solve the program in its present state; the arguments are those of :meth:`Solver.solve`.

        Raises
        ------
        UnsupportedError
            If the program has a part that the solver cannot handle.
        NotOptimalError
            If ``raise_error`` is true and the status is not optimal.
        SettingError
            If the deadline is not a number of seconds.
        ConcurrentUseError
            If the program is being edited or solved, or the solver is solving.
        KeyboardInterrupt
            If Ctrl-C was pressed.  Program and solver are in the state after a cancelled solve: both can be
            used, and the solver's next solve begins from the best solution so far.
        """
        if not hasattr(program, "guard") and not hasattr(program, "solve_by"):
            raise ArgumentTypeError(self.name, "program", program, "must be a ContinualProgram or a Model")
        limit = self.time_limit
        if time_limit is not None:
            try:
                limit = as_limit(time_limit)
            except ValueError as error:
                raise SettingError(self.name, "time_limit", time_limit, str(error)) from None
        if not hasattr(program, "guard"):
            model: Any = program
            found = model.solve_by(lambda clock: self._solve_model(model, clock), limit)
            if raise_error:
                check_optimal(found)
            return found
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

    def _solve_model(self, model: Any, clock: Clock) -> Any:
        """Return the solution of a :class:`~copter.Model`; the best so far when the clock has run out."""
        raise self._no_models()

    def _no_models(self) -> UnsupportedError:
        why = "solves programs of requests; make one by copter.as_program(model.lp), or call model.solve()"
        return UnsupportedError(f"solver {self.name!r} {why}")

    @abstractmethod
    def _solve(self, program: ContinualProgram, clock: Clock) -> Solution:
        """Solve the program; return the best solution so far when the clock has run out."""

    def cancel(self) -> None:
        """End the present solve, from another thread or from a signal handler.

        The solve returns its best solution so far, with the status ``cancelled``. Without a present solve the
        call has no effect; a solve that begins later is not cancelled.
        """
        clock = self._clock
        if clock is not None:
            clock.cancel()

    @contextmanager
    def _busy(self, clock: Clock) -> Iterator[None]:
        with _beginning:
            if self._clock is not None:
                raise ConcurrentUseError(f"solver {self.name!r} is solving already: use one solver a thread")
            self._clock = clock
        try:
            yield
        finally:
            self._clock = None


_beginning = threading.Lock()
"""Lock for the check whether a solver is free.

It is not an attribute of a solver, because solvers must be picklable.
"""


class Stopwatch:
    """Timer; a call returns the seconds since the object was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def __call__(self) -> float:
        """Return the seconds."""
        return time.perf_counter() - self._start
