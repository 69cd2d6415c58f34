"""What a solver must be for its state to be saved with a program: a protocol, so that none is imported."""

from __future__ import annotations

from typing import Any, Protocol


class Remembers(Protocol):
    """A solver whose state can be written and read; ``copter.solvers.base.Solver`` describes the methods.

    Programs have the type Any, because program and solver modules cannot both import the other.
    """

    name: str

    @property
    def kind(self) -> str:
        """Solvers of one kind can go on from each other's state."""

    def solve(self, program: Any, *, deadline: float | None = None) -> Any:
        """Solve the program as it is now, within `deadline` seconds, and return its solution."""

    def save_state(self, program: Any) -> dict[str, Any] | None:
        """Return what the next solve begins from; None if nothing."""

    def load_state(self, program: Any, state: dict[str, Any] | None) -> None:
        """Begin the next solve from a state that was saved."""

    def reset(self) -> None:
        """Forget everything about earlier rounds."""
