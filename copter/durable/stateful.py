"""A solver as far as files are concerned: it solves rounds, and what it keeps between them is written."""

from __future__ import annotations

from typing import Any, Protocol


class Stateful(Protocol):
    """What snapshots and journals ask of a solver; every :class:`copter.Solver` has it."""

    name: str

    @property
    def kind(self) -> str:
        """Name of what it remembers: solvers of one kind can go on from each other's state."""

    def solve(self, program: Any, *, deadline: float | None = None, raise_error: bool = False) -> Any:
        """Return the solution of a program as it is now."""

    def save_state(self, program: Any) -> Any:
        """Return what the next solve of the program begins from, as numbers and arrays by name."""

    def load_state(self, program: Any, state: Any) -> None:
        """Begin the next solve of the program from what :meth:`save_state` returned."""

    def reset(self) -> None:
        """Forget everything about earlier rounds."""
