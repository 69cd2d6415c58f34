"""ChooseOneDomain: base of domains in which every request gets one of its columns, or none."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from copter.program.program import ContinualProgram
from copter.program.sense import Sense
from copter.rounds.record import Move, binding_of
from copter.shims.choose_one import Choice, ChooseOneShim, Rounded
from copter.solution import Solution


@dataclass(frozen=True)
class Chosen:
    """One column for each request.

    Attributes
    ----------
    choice : mapping of request id to column, or None
    objective, gap : float
        As of :class:`copter.Rounded`.
    moves : tuple of Move
        Requests whose column is another than after the round before, or that had none.
    binding : mapping of resource id to float
        Resources whose bounds bind the fractional answer, with their prices; empty for a fallback.
    without : int
        Requests that have no column.
    rounded : Rounded
        What the shim made.
    """

    choice: Choice
    objective: float
    gap: float
    moves: tuple[Move, ...]
    binding: Mapping[Hashable, float]
    without: int
    rounded: Rounded


class ChooseOneDomain:
    """All of :class:`copter.Domain` but ``apply``, for programs that :class:`copter.ChooseOneShim` rounds.

    A subclass adds resources and requests to :attr:`program` and has ``apply`` and, for `copter check`,
    ``events``.

    Parameters
    ----------
    sense : "min" or "max"
        Sense of the program.

    Attributes
    ----------
    program : ContinualProgram
    last : Chosen or None
        The answer that was accepted last.
    """

    def __init__(self, sense: Sense = "min") -> None:
        self.program = ContinualProgram(sense=sense)
        self.last: Chosen | None = None
        self._shim = ChooseOneShim(unplaced="allow")

    def round(self, solution: Solution, deadline: float | None) -> Chosen:  # noqa: ARG002 - takes a moment
        """Round a solution to whole columns."""
        return self._chosen(self._shim.round(self.program, solution), solution)

    def fallback(self, deadline: float | None) -> Chosen:  # noqa: ARG002 - takes a moment
        """Return the last choice as far as it still fits (:meth:`copter.ChooseOneShim.repair`)."""
        last = None if self.last is None else self.last.rounded
        return self._chosen(self._shim.repair(self.program, last), None)

    def accept(self, answer: Chosen) -> None:
        """Keep an answer as the last one."""
        self.last = answer

    def figures(self, answer: Chosen) -> dict[str, float]:
        """Return what a report shows: the objective, and how many requests moved or have no column."""
        return {
            "objective": answer.objective,
            "moved": len(answer.moves),
            "without": answer.without,
        }

    def _chosen(self, rounded: Rounded, solution: Solution | None) -> Chosen:
        without = int(np.count_nonzero(rounded.choice.of(self.program.request_slots) < 0))
        moves, binding = self._moves(rounded), binding_of(solution)
        return Chosen(rounded.choice, rounded.objective, rounded.gap, moves, binding, without, rounded)

    def _moves(self, rounded: Rounded) -> tuple[Move, ...]:
        """Requests whose column differs from that in the last answer."""
        program, slots = self.program, self.program.request_slots
        before: Any = {} if self.last is None else self.last.choice
        was = np.full(program.store.requests.size, -1)
        if self.last is not None:
            x = self.last.choice.still(program)
            was[x.slot] = x.column
        other = np.flatnonzero(rounded.choice.of(slots) != was[slots])
        if not other.size:
            return ()
        ids = program.request_ids
        pairs = ((ids[k], before.get(ids[k]), rounded.choice[ids[k]]) for k in other.tolist())
        return tuple(Move(who, source, target) for who, source, target in pairs if source != target)
