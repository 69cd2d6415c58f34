"""RoundRecord: what a round reports, in one shape for every domain."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from copter.solution import Allocation, Solution

Path: TypeAlias = Literal["solved", "fallback"]


class Seconds(NamedTuple):
    """Seconds of the parts of a round.

    `edit`: events became edits. `solve`: the solver. `round`: the answer was made, by rounding or as a
    fallback. `accept`: it took effect.
    """

    edit: float
    solve: float
    round: float
    accept: float

    @property
    def total(self) -> float:
        """Seconds of the round."""
        return sum(self)


class Move(NamedTuple):
    """One change of an allocation: a request, its old and its new place, and the amount that moved.

    ``source`` is None for what comes from no other place, ``target`` for what goes to none.
    """

    who: Hashable
    source: Hashable
    target: Hashable
    amount: float = 1.0


def moves_between(before: Allocation | None, now: Allocation) -> tuple[Move, ...]:
    """Return what an allocation by columns moves: each column that got more, or less.

    A request's columns that got less come with the target None, those that got more with the source None.
    """
    moves = []
    for request in now:
        old = {} if before is None or request not in before else _amounts(before, request)
        new = _amounts(now, request)
        for column in dict.fromkeys((*old, *new)):
            more = new.get(column, 0.0) - old.get(column, 0.0)
            if more > 0:
                moves.append(Move(request, None, column, more))
            elif more < 0:
                moves.append(Move(request, column, None, -more))
    return tuple(moves)


def binding_of(solution: Solution | None) -> dict[Hashable, float]:
    """Return the resources whose bounds bind a solution, with their prices; empty without a solution."""
    return {} if solution is None else {id: price for id, price in solution.price.items() if price}


def _amounts(x: Allocation, request: Hashable) -> dict[Any, float]:
    own = x[request]
    pairs = own.items() if isinstance(own, Mapping) else enumerate(own.tolist())
    return {column: value for column, value in pairs if value}


@dataclass(frozen=True)
class RoundRecord:
    """Report of a round.

    Attributes
    ----------
    number : int
        Rounds accepted before this one.
    edited : int
        Events since the last accepted round.
    seconds : Seconds
    answer : object
        What the domain answered; it has taken effect.
    bound, gap : float
        Bound and gap of the answer: its own attributes of these names or, if it has none, those of the
        solution; NaN if neither is known. A fallback has them only if the answer has these attributes.
    late : bool
        Whether the answer that was wanted did not come, or would not have come, by the deadline.
    path : "solved" or "fallback"
    reason : str
        Why the solver stopped, or why the round fell back, in words.
    figures : mapping of str to float
        The domain's own.
    solution : Solution, optional
        Solution of the program, if it was solved.
    """

    number: int
    edited: int
    seconds: Seconds
    answer: Any
    bound: float
    gap: float
    late: bool
    path: Path
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)
    solution: Solution | None = None

    def row(self) -> dict[str, Any]:
        """Return the record as one flat row, for tables, CSV and JSON; without answer and solution."""
        seconds = self.seconds
        return {
            "round": self.number,
            "edited": self.edited,
            "edit_seconds": seconds.edit,
            "solve_seconds": seconds.solve,
            "rounding_seconds": seconds.round,
            "accept_seconds": seconds.accept,
            "seconds": seconds.total,
            "path": self.path,
            "late": self.late,
            "reason": self.reason,
            "status": "" if self.solution is None else str(self.solution.status),
            "answer_objective": float(getattr(self.answer, "objective", math.nan)),
            "answer_bound": self.bound,
            "answer_gap": self.gap,
            **self.figures,
        }


ROW_MEANS: Mapping[str, str] = {
    "round": "counts from 0",
    "edited": "events since the last round",
    "edit_seconds": "seconds in which events became edits",
    "solve_seconds": "seconds of the solver",
    "rounding_seconds": "seconds in which the answer was made from the solution",
    "accept_seconds": "seconds in which the answer took effect",
    "seconds": "seconds of the round",
    "path": "solved, or fallback: the last answer, repaired",
    "late": "whether the wanted answer did not come by the deadline",
    "reason": "why the solver stopped, or why the round fell back",
    "status": "of the solver's answer",
    "answer_objective": "objective of the answer, if it has one",
    "answer_bound": "certified bound on the objective of every answer",
    "answer_gap": "certified relative gap between the answer and its bound",
}
"""Meanings of the fields of :meth:`RoundRecord.row` that every domain has."""
