"""Base class of solvers that wrap another solver and add something to each solve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.errors import UnsupportedError
from copter.keywords import suggests
from copter.solvers.base import Shim, Solver, SolverState, takes_start
from copter.solvers.features import Feature

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.proof.certificate import SparseX
    from copter.solution import Solution


class Wrapper(Solver):
    """Solver that passes every call to another solver; a subclass overrides the calls that it extends.

    The wrapper has the features of the wrapped solver. So callers give it a start, measure its edits, and
    save its state as for the wrapped solver.
    """

    def __init__(self, inner: Solver) -> None:
        super().__init__(inner.name)
        self.inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def features(self) -> Feature:
        """Features of the wrapped solver."""
        return self.inner.features

    @property
    def kind(self) -> str:
        """Kind of the wrapped solver's state."""
        return self.inner.kind

    @suggests
    def solve(
        self, program: ContinualProgram, *, time_limit: float | None = None, raise_error: bool = False
    ) -> Solution:
        """Return the wrapped solver's solution, see :meth:`copter.solvers.base.Solver.solve`."""
        return self.inner.solve(program, time_limit=time_limit, raise_error=raise_error)

    def warm_up(self, program: ContinualProgram | None = None, shim: Shim | None = None) -> None:
        """Warm up the wrapped solver."""
        self.inner.warm_up(program, shim)

    def start(self, program: ContinualProgram) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Return the wrapped solver's start, see :class:`copter.solvers.base.WarmStartable`; None if cold."""
        return self.inner.start(program) if takes_start(self.inner) else None

    def start_from(self, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> None:
        """Set the wrapped solver's start, y (row slots,); raise UnsupportedError if it accepts none."""
        if not takes_start(self.inner):
            raise UnsupportedError(f"solver {self.name!r}: does not accept a starting point")
        self.inner.start_from(program, x, y)

    def cancel(self) -> None:
        """Cancel the wrapped solver's solve."""
        self.inner.cancel()

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Split ``wall`` seconds into (edit seconds, solve seconds) as the wrapped solver does."""
        return self.inner.seconds(solution, wall)

    def stopping(self) -> dict[str, float]:
        """Return the wrapped solver's stopping tolerances."""
        return self.inner.stopping()

    def save_state(self, program: ContinualProgram) -> SolverState | None:
        """Return the wrapped solver's state."""
        return self.inner.save_state(program)

    def load_state(self, program: ContinualProgram, state: SolverState | None) -> None:
        """Load the wrapped solver's state; see :meth:`copter.solvers.base.Solver.load_state` for errors."""
        self.inner.load_state(program, state)

    def reset(self) -> None:
        """Reset the wrapped solver."""
        self.inner.reset()
