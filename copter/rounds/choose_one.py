"""ChooseOneDomain: base class of domains in which every request gets one of its columns, or no column."""

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
    """Answer with one column, or no column, for each request.

    Attributes
    ----------
    choice : mapping of request id to column or None
        Number or name of the column; None for a request without a column.
    objective, gap : float
        As in :class:`copter.shims.choose_one.Rounded`.
    moves : tuple of Move
        Requests whose column differs from the column in the last accepted answer.
    binding : mapping of resource id to float
        Resources whose bounds are active in the fractional solution, with their dual prices. Empty for a
        fallback.
    without : int
        Number of requests without a column.
    rounded : Rounded
        Result of the shim.
    """

    choice: Choice
    objective: float
    gap: float
    moves: tuple[Move, ...]
    binding: Mapping[Hashable, float]
    without: int
    rounded: Rounded


class ChooseOneDomain:
    """Base class of domains whose programs :class:`copter.ChooseOneShim` rounds.

    The class implements :class:`copter.Domain` except ``apply``. A subclass adds resources and requests to
    :attr:`program` and implements ``apply`` and, for `copter check`, ``events``.

    Parameters
    ----------
    sense : "min" or "max"
        Sense of the program.

    Attributes
    ----------
    program : ContinualProgram
        Program that is solved in each round.
    last : Chosen or None
        Answer that was accepted last; None before the first round.

    Examples
    --------
    >>> from copter import ChooseOneDomain, Rounds
    >>> class Jobs(ChooseOneDomain):
    ...     def __init__(self):
    ...         super().__init__(sense="max")
    ...         self.program.add_resource("gpu", upper=4)
    ...     def apply(self, event):
    ...         job, values = event
    ...         columns = ["one", "two"]
    ...         self.program.add_request(job, values, {"gpu": [1, 2]}, total=1, columns=columns)
    >>> record = Rounds(Jobs()).play(("a", [1.0, 1.9]), ("b", [1.0, 1.8]))
    >>> dict(record.answer.choice), record.answer.without
    ({'a': 'two', 'b': 'two'}, 0)
    """

    def __init__(self, sense: Sense = "min") -> None:
        self.program = ContinualProgram(sense=sense)
        self.last: Chosen | None = None
        self._shim = ChooseOneShim(unplaced="allow")

    def round(self, solution: Solution) -> Chosen:
        """Round a solution to one column, or no column, for each request."""
        return self._chosen(self._shim.round(self.program, solution), solution)

    def fallback(self) -> Chosen:
        """Return the last choice, restricted to columns that still fit (:meth:`ChooseOneShim.repair`)."""
        last = None if self.last is None else self.last.rounded
        return self._chosen(self._shim.repair(self.program, last), None)

    def accept(self, answer: Chosen) -> None:
        """Store an answer as the last answer."""
        self.last = answer

    def figures(self, answer: Chosen) -> dict[str, float]:
        """Return the objective and the numbers of requests that moved or have no column, for reports."""
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
        """Return the requests whose column differs from the column in the last answer."""
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
