"""RoundRecord: report of a round, in the same form for every domain."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, NamedTuple, TypeAlias

from copter.solution import Allocation, Solution, html_table

Path: TypeAlias = Literal["solved", "fallback"]


class Seconds(NamedTuple):
    """Seconds of the parts of a round.

    `edit` is the time of applying events, and `solve` the time of the solver. `rounding` is the time of
    making the answer, by rounding or as a fallback. `accept` is the time in which the answer took effect.
    """

    edit: float
    solve: float
    rounding: float
    accept: float

    @property
    def total(self) -> float:
        """Seconds of the round."""
        return sum(self)


class Move(NamedTuple):
    """Change of an allocation: an amount of a request that moves from one place to another.

    Attributes
    ----------
    who : hashable
        Id of the request.
    source, target : hashable or None
        Old and new place, for example columns. The source is None for an amount that is new. The target is
        None for an amount that ends.
    amount : float

    Examples
    --------
    >>> from copter import Move
    >>> Move("job", source="one GPU", target="two GPUs")
    Move(who='job', source='one GPU', target='two GPUs', amount=1.0)
    """

    who: Hashable
    source: Hashable
    target: Hashable
    amount: float = 1.0


def moves_between(before: Allocation | None, now: Allocation) -> tuple[Move, ...]:
    """Return one move for each column whose amount differs between two allocations.

    A column with a smaller amount has the target None. A column with a larger amount has the source None.
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
    """Return the resources with a nonzero dual price, with their prices; empty without a solution."""
    return {} if solution is None else {id: price for id, price in solution.price.items() if price}


def figure_of(answer: Any, name: str) -> float:
    """Return an attribute of an answer if it is a number, else NaN.

    Items of a mapping, and attributes that an object computes from its items, do not count, because they may
    be the values of a request of this name.
    """
    own = hasattr(type(answer), name) or name in getattr(answer, "__dict__", ())
    value = getattr(answer, name) if own else None
    return float(value) if isinstance(value, Real) else math.nan


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
        Number of rounds accepted before this one.
    edited : int
        Number of events since the last accepted round.
    seconds : Seconds
        Time of each part of the round.
    answer : object
        Answer of the domain, which has taken effect.
    bound : float
        Bound on the objective of every answer: the answer's attribute with this name, or else the certified
        bound of the round's solution. NaN if unknown.
    gap : float
        Relative gap of the answer, between its objective and the bound. It is computed from the domain's
        ``objective(answer)``, or else it is the answer's attribute with this name. NaN if unknown.
    late : bool
        True if the answer was not ready by the deadline, or if the round fell back because a rounded answer
        would have been late.
    path : "solved" or "fallback"
        Source of the answer: a solution ("solved"), or the repaired last answer ("fallback").
    reason : str
        Reason why the solver stopped, or why the round fell back, in words.
    figures : mapping of str to float
        Figures of the domain.
    solution : Solution, optional
        Solution of the program, if it was solved.
    objective : float
        Objective of the answer, in the sense of the program: ``objective(answer)`` of the domain, or else the
        answer's attribute with this name. NaN if unknown.

    Examples
    --------
    >>> from copter import ChooseOneDomain, Rounds
    >>> class Jobs(ChooseOneDomain):
    ...     def apply(self, event):
    ...         self.program.add_request(event, [-1.0], {}, total=1)
    >>> record = Rounds(Jobs()).play("a", "b")
    >>> record.number, record.edited, record.path, record.late
    (0, 2, 'solved', False)
    >>> record.row()["answer_objective"]
    -2.0
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
    objective: float = math.nan

    @property
    def relaxation_gap(self) -> float:
        """Certified relative gap of the solution, before it was rounded; NaN without a solution."""
        return math.nan if self.solution is None else self.solution.gap

    def _repr_html_(self) -> str:
        return html_table(self.row())

    def row(self) -> dict[str, Any]:
        """Return the record as a flat dictionary for tables, CSV and JSON, without answer and solution."""
        seconds = self.seconds
        return {
            "round": self.number,
            "edited": self.edited,
            "edit_seconds": seconds.edit,
            "solve_seconds": seconds.solve,
            "rounding_seconds": seconds.rounding,
            "accept_seconds": seconds.accept,
            "seconds": seconds.total,
            "path": self.path,
            "late": self.late,
            "reason": self.reason,
            "status": "" if self.solution is None else str(self.solution.status),
            "answer_objective": self.objective,
            "answer_bound": self.bound,
            "answer_gap": self.gap,
            "relaxation_gap": self.relaxation_gap,
            **self.figures,
        }


ROW_MEANS: Mapping[str, str] = {
    "round": "number of the round, from 0",
    "edited": "number of events since the last round",
    "edit_seconds": "seconds of applying events as edits",
    "solve_seconds": "seconds of the solver",
    "rounding_seconds": "seconds of making the answer from the solution",
    "accept_seconds": "seconds in which the answer took effect",
    "seconds": "seconds of the whole round",
    "path": "solved, or fallback: the last answer, repaired",
    "late": "true if the answer was not ready by the deadline",
    "reason": "reason why the solver stopped, or why the round fell back",
    "status": "status of the solution",
    "answer_objective": "objective of the answer, if it is known",
    "answer_bound": "certified bound on the objective of every answer",
    "answer_gap": "relative gap between the objective of the answer and the bound, if they are known",
    "relaxation_gap": "certified relative gap of the solution, before it was rounded",
}
"""Meanings of the fields of :meth:`RoundRecord.row` that every domain has."""
