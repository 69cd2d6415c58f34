"""A domain's rounds as a course: every solver plays the domain's random events, each from its own answers.

The events of a round may depend on the domain as it is; with the same seed, solvers whose answers are the
same see the same events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from copter.bench.course import COMPLETE, Course, Figure, Play, RoundTimes, method_round, solved_record
from copter.bench.settings import Record
from copter.rounds.named import domain_named
from copter.rounds.record import RoundRecord
from copter.rounds.rounds import Rounds
from copter.solution import Solution, Status
from copter.solvers.features import Feature

if TYPE_CHECKING:
    from copter.bench.settings import SolverSettings
    from copter.solvers.base import Solver

_SMALL = 3
"""Rounds of the warm-up."""


@dataclass(frozen=True)
class DomainCourse(Course):
    """Rounds of a domain.

    `name`: as :func:`copter.rounds.named.domain_named` takes it. `rounds`, `seed`: of the random events.
    """

    name: str
    rounds: int
    seed: int = 0

    @property
    def figures(self) -> Sequence[Figure]:  # type: ignore[override]
        """The figures that the domain's records have."""
        domain = domain_named(self.name)()
        record = next(play_events(Rounds(domain), 1, self.seed))
        return [Figure(name, name, "mean") for name in record.figures]

    def small(self) -> DomainCourse:
        """Return the first rounds."""
        return DomainCourse(self.name, min(self.rounds, _SMALL), self.seed)

    def play(self, settings: SolverSettings) -> Play:
        """Begin the rounds with a solver and a domain of its own."""
        solver, domain = settings.make(), domain_named(self.name)()
        rounds = Rounds(domain, solver)
        records = (record_of(solver, one, domain) for one in play_events(rounds, self.rounds, self.seed))
        return Play(records, solver.stopping(), getattr(domain, "program", None))


def play_events(rounds: Rounds, count: int, seed: int) -> Iterator[RoundRecord]:
    """Play rounds with the random events of their domain."""
    rng, domain = np.random.default_rng(seed), rounds.domain
    events: Callable[[np.random.Generator], Any] = domain.events  # type: ignore[attr-defined]
    for _ in range(count):
        yield rounds.play(*events(rng))


def record_of(solver: Solver, played: RoundRecord, domain: Any) -> Record:
    """Return a round of a domain as the benchmarks record it."""
    seconds, answer = played.seconds, played.answer
    came_to: dict[str, Any] = {
        "integral_objective": float(getattr(answer, "objective", math.nan)),
        "integral_gap": float(getattr(answer, "gap", math.nan)),
        **played.figures,
    }
    if not isinstance(played.solution, Solution):
        own = {"gap": played.gap, "status": str(Status.OPTIMAL) if played.gap == 0 else COMPLETE}
        return method_round(
            solver.name,
            played.number,
            t_edit=seconds.edit,
            t_solve=seconds.solve,
            t_shim=seconds.round,
            **(own | came_to),
        )
    model, solve = solver.seconds(played.solution, seconds.solve)
    edit = model + (seconds.edit if Feature.IN_PLACE in solver.features else 0.0)
    times = RoundTimes(edit, solve, seconds.round, seconds.edit, seconds.solve - model - solve)
    record = solved_record(solver.name, played.number, domain.program, played.solution, times)
    return record | came_to | {"missed": played.path == "fallback"}
