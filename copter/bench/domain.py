"""Rounds of a domain as a course: every solver plays random events of the domain, based on its own answers.

The events of a round may depend on the state of the domain. With the same seed, solvers with equal answers
get equal events.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from copter.bench.course import COMPLETE, Course, Figure, Play, RoundTimes, method_round, solved_record
from copter.bench.settings import Record
from copter.rounds.named import domain_named, fresh
from copter.rounds.rounds import Rounds, drawn_events
from copter.solution import Solution, Status

if TYPE_CHECKING:
    from copter.bench.settings import SolverSettings
    from copter.solvers.base import Solver

_SMALL = 3
"""Number of rounds of the warm-up."""
_ANSWER = ("answer_objective", "answer_gap", "answer_bound")
_KEPT = (*_ANSWER, "edited", "path", "late", "reason", "accept_seconds")
"""Fields that a record of a benchmark takes from :meth:`copter.RoundRecord.row`."""
_CLOSED = 1e-9
"""Largest gap at which an answer without a program counts as optimal."""


@dataclass(frozen=True)
class DomainCourse(Course):
    """Rounds of a domain.

    `name`: argument of :func:`copter.rounds.named.domain_named`. `rounds`, `seed`: number of rounds, and seed
    of the random events.
    """

    name: str
    rounds: int
    seed: int = 0

    @cached_property  # because it plays a round
    def figures(self) -> Sequence[Figure]:  # type: ignore[override]
        """Figures of the domain's records."""
        domain = fresh(domain_named(self.name))
        record = Rounds(domain).play(*drawn_events(domain, np.random.default_rng(self.seed)))
        return [Figure(name, name, "mean") for name in record.figures]

    def small(self) -> DomainCourse:
        """Return a course of the first rounds."""
        return DomainCourse(self.name, min(self.rounds, _SMALL), self.seed)

    def play(self, settings: SolverSettings) -> Play:
        """Begin the rounds, with a new solver and a new domain."""
        solver, domain = settings.make(), fresh(domain_named(self.name))
        events = events_of(domain, self.rounds, self.seed)
        records = records_of(domain, solver, events)
        return Play(records, solver.stopping(), domain.program)


def events_of(domain: Any, count: int, seed: int) -> Iterator[Sequence[Any]]:
    """Yield the events of each round, drawn from the domain in its present state."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield drawn_events(domain, rng)


def records_of(domain: Any, solver: Solver, events: Iterable[Sequence[Any]]) -> Iterator[Record]:
    """Play a round for each sequence of events, and yield its record in the form of the benchmarks."""
    rounds = Rounds(domain, solver)
    for own in events:
        yield record_round(rounds, *own)


def record_round(rounds: Rounds, *events: Any) -> Record:
    """Play a round and return its record.

    The record has the fields of the benchmarks (:func:`copter.bench.course.solved_record`), the figures of
    the domain, and some fields of :meth:`copter.RoundRecord.row`. The seconds of a round with a program are
    those of :class:`copter.bench.course.RoundTimes`. The answer of a round that fell back has no objective,
    bound or gap.
    """
    played, solver = rounds.play(*events), rounds.solver
    seconds, missed = played.seconds, played.path == "fallback"
    program = rounds.domain.program
    if isinstance(played.solution, Solution) and program is not None:
        times = RoundTimes.of(played, solver)
        measured = solved_record(solver.name, played.number, program, played.solution, times)
    else:
        measured = method_round(
            solver.name,
            played.number,
            edit_seconds=seconds.edit,
            solve_seconds=seconds.solve,
            rounding_seconds=seconds.rounding,
            gap=played.gap,
            status=str(Status.OPTIMAL) if abs(played.gap) <= _CLOSED else COMPLETE,
        )
    row = played.row() | (dict.fromkeys(_ANSWER, math.nan) if missed else {})
    nan = {name for name, value in measured.items() if value != value}
    own = {name: value for name, value in played.figures.items() if name in nan or name not in measured}
    return measured | own | {name: row[name] for name in _KEPT} | {"missed": missed}
