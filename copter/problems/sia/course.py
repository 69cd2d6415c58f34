"""Sia rounds for benchmarks: the cluster of :mod:`copter.problems.sia.steady`, recorded or closed-loop.

Every job may choose from all its configurations (no scale-up limit), as in the thesis' program.  In each
round 2% of the jobs leave and as many arrive, and nearly all costs change.

- *Recorded* (:func:`record_sia`): copter computes the allocations on which the next round depends once,
  during the recording, and every solver gets the same edits.  The file has 8 bytes for each cost.
- *Closed-loop* (:class:`ClosedSia`), for more columns: every solver drives its own cluster, with the same
  jobs, arrivals and departures.  The solver's answers decide which jobs run, restart and complete.  So the
  rounds of two solvers are similar, but from the second one on not equal.  The time of editing includes the
  policy's work on events.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from copter.bench.course import Course, Figure, Play, RoundTimes, solved_record
from copter.bench.recording import (
    INTEGRAL_CHURN,
    IntegralChurn,
    ProvenRounds,
    Recorded,
    Recorder,
    RecordingProgram,
)
from copter.problems.sia.generator import builtin_cluster
from copter.problems.sia.steady import SteadyReplay, record_rounds
from copter.proof.whole import integrality_loss
from copter.solvers.registry import make_solver

if TYPE_CHECKING:
    from copter.bench.settings import Record, SolverSettings
    from copter.solvers.base import Solver

_SHIM = "copter.shims.choose_one:ChooseOneShim"


_MOST_RECORDED = 100_000_000
"""Largest number of columns (if every job could run in every configuration) for which rounds are recorded."""


@dataclass(frozen=True)
class Size:
    """Number of GPUs, of jobs at any time, and of rounds."""

    gpus: int
    jobs: int
    rounds: int


_WARM_UP = Size(1024, 400, 3)
"""Size of the warm-up: more than 50,000 columns, so that thread pool and column screening are used."""


def worth_recording(gpus: int, jobs: int) -> bool:
    """Return whether rounds of this size have few enough columns to be recorded."""
    return jobs * len(builtin_cluster(gpus).configurations) <= _MOST_RECORDED


@dataclass(frozen=True)
class ClosedSia(Course):
    """Rounds that each solver plays on its own cluster, without a recording."""

    figures: ClassVar[Sequence[Figure]] = (INTEGRAL_CHURN,)
    size: Size
    seed: int

    def small(self) -> ClosedSia:
        """Return the same with few jobs, for warming up."""
        return replace(self, size=_WARM_UP)

    def play(self, settings: SolverSettings) -> Play:
        """Begin the rounds with a solver on its own cluster."""
        solver, size = settings.make(), self.size
        program = settings.program()
        replay = SteadyReplay(
            size.gpus,
            size.jobs,
            size.rounds,
            solver,
            seed=self.seed,
            program=program,
        )
        return Play(_records(replay, solver), solver.stopping(), program)


def _records(replay: SteadyReplay, solver: Solver) -> Iterator[Record]:
    program, churn = replay.policy.program, IntegralChurn()
    for played in islice(replay.simulator.run(), replay.rounds):
        decided = replay.scheduler.last
        assert decided is not None and decided.solution is not None
        seconds = decided.edit_seconds, decided.solve_seconds, decided.shim_seconds
        times = RoundTimes(*seconds, decided.store_seconds, decided.certify_seconds)
        record = solved_record(solver.name, played.index, program, decided.solution, times)
        if (rounded := decided.rounded) is None:
            yield record | {"integral_churn": math.nan}
            continue
        came_to = {
            "answer_objective": rounded.objective,
            "answer_gap": rounded.gap,
            "integrality_loss": integrality_loss(rounded.objective, decided.solution.bound),
        }
        yield record | came_to | {"integral_churn": churn.measure(program, rounded.choice)}


def record_sia(
    folder: Path,
    *,
    gpus: int,
    jobs: int,
    rounds: int,
    seed: int,
    warm_up: Size | None = None,
    proven: bool = False,
) -> Recorded:
    """Record rounds of Sia, and a recording of the same kind for the warm-up.

    `folder`: where to write both. `gpus`, `jobs`, `rounds`: number of GPUs, of jobs at any time, and of
    rounds; the first round is a cold start. `warm_up`: default: `_WARM_UP`. With a smaller one, the first
    timed rounds may include compilation. `proven`: whether solvers must prove the allocations optimal.
    """
    kind = ProvenRounds if proven else Recorded
    recorded = kind(folder / "rounds.copter", folder / "warm-up.copter", _SHIM)
    _record(recorded.warm_up, _WARM_UP if warm_up is None else warm_up, seed)
    _record(recorded.rounds, Size(gpus, jobs, rounds), seed)
    return recorded


def _record(path: Path, size: Size, seed: int) -> None:
    with Recorder(path) as recorder:
        steady = record_rounds(
            RecordingProgram(recorder),
            recorder.end_round,
            make_solver("copter"),
            gpus=size.gpus,
            jobs=size.jobs,
            rounds=size.rounds,
            seed=seed,
        )
        for _ in steady:
            pass
