"""A solver around another one: it adds something to each solve and is treated as the other is."""

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
    """Passes everything on to another solver; a subclass overrides what it adds to.

    Its features are the other's, so that a domain offers it a start, measures its edits, and saves its state
    in the same way.
    """

    def __init__(self, inner: Solver) -> None:
        super().__init__(inner.name)
        self.inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def features(self) -> Feature:
        """The other's."""
        return self.inner.features

    @property
    def kind(self) -> str:
        """The other's."""
        return self.inner.kind

    @suggests
    def solve(
        self, program: ContinualProgram, *, deadline: float | None = None, raise_error: bool = False
    ) -> Solution:
        """Return the other's answer, as :meth:`copter.solvers.base.Solver.solve` does."""
        return self.inner.solve(program, deadline=deadline, raise_error=raise_error)

    def warm_up(self, program: ContinualProgram | None = None, shim: Shim | None = None) -> None:
        """Let the other run what a later round may be the first to need."""
        self.inner.warm_up(program, shim)

    def start(self, program: ContinualProgram) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Return where the other would begin; see :class:`copter.solvers.base.WarmStartable`."""
        return self.inner.start(program) if takes_start(self.inner) else None

    def start_from(self, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> None:
        """Set where the other begins, y (row slots,); raise UnsupportedError if it has no warm start."""
        if not takes_start(self.inner):
            raise UnsupportedError(f"solver {self.name!r} takes no start")
        self.inner.start_from(program, x, y)

    def cancel(self) -> None:
        """End the other's solve."""
        self.inner.cancel()

    def seconds(self, solution: Solution, wall: float) -> tuple[float, float]:
        """Return the edit and solve seconds of the other solver, of ``wall`` seconds."""
        return self.inner.seconds(solution, wall)

    def stopping(self) -> dict[str, float]:
        """Return the other's stopping criteria."""
        return self.inner.stopping()

    def save_state(self, program: ContinualProgram) -> SolverState | None:
        """Return the other's state."""
        return self.inner.save_state(program)

    def load_state(self, program: ContinualProgram, state: SolverState | None) -> None:
        """Give the other what it kept; errors are those of :meth:`copter.solvers.base.Solver.load_state`."""
        self.inner.load_state(program, state)

    def reset(self) -> None:
        """Let the other forget everything."""
        self.inner.reset()
