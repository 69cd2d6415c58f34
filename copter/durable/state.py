"""Protocol of a solver whose state can be saved with a program, without an import of solvers."""

from __future__ import annotations

from typing import Any, Protocol


class Remembers(Protocol):
    """Solver whose state can be saved and loaded; ``copter.solvers.base.Solver`` describes the methods.

    Programs have the type Any, because modules of programs and solvers cannot import each other.
    """

    name: str

    @property
    def kind(self) -> str:
        """Kind of the solver; a solver can continue from the state of another one of the same kind."""

    def solve(self, program: Any, *, time_limit: float | None = None) -> Any:
        """Solve the present program, within `time_limit` seconds, and return its solution."""

    def save_state(self, program: Any) -> dict[str, Any] | None:
        """Return the state from which the next solve begins; None without a state."""

    def load_state(self, program: Any, state: dict[str, Any] | None) -> None:
        """Let the next solve begin from a saved state."""

    def reset(self) -> None:
        """Drop the state, so that the next solve starts cold."""
