"""Rounds of a cluster in a steady state, for benchmarks: the number of jobs stays, a few leave and arrive.

The jobs of the first round are of any age and progress, as if the cluster had been watched from some moment
on; the first round gives all of them GPUs, and none of them counts as restarting after it.  From then on
every round a share of the jobs leaves (those that complete, and random ones) and as many new ones arrive.
All others progress, restart and change their costs as in a replay, in which nearly all costs move every
round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from copter.problems.cluster.scenario import Scenario
from copter.problems.sia.generator import builtin_cluster, builtin_profiles, draw_jobs
from copter.problems.sia.policy import SiaPolicy
from copter.problems.sia.records import RoundRecord
from copter.problems.sia.replay import Replay
from copter.solvers.base import Solver
from copter.solvers.wrapper import Wrapper

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution

WORK_SCALE = 16.0
"""Jobs do this much more work than the generator's, so that fewer of them complete than are to leave."""
OLDEST_HOURS = 4.0
"""Ages of the jobs of the first round are uniform up to this."""


class SteadyReplay(Replay):
    """A replay with a constant number of jobs.

    Parameters
    ----------
    gpus, jobs : int
        Size of the generator's cluster, and number of jobs in every round.
    rounds : int
    solver : Solver
    churn : float
        Share of the jobs that leave and arrive in a round.
    seed : int
    scale_up_limit : float, optional
        By default none: every job chooses from all configurations, as in the thesis' program.
    program : ContinualProgram, optional
        Program to edit, for example one that records.
    """

    def __init__(
        self,
        gpus: int,
        jobs: int,
        rounds: int,
        solver: Solver,
        *,
        churn: float = 0.02,
        seed: int = 0,
        scale_up_limit: float | None = None,
        program: ContinualProgram | None = None,
    ) -> None:
        if jobs < 1 or rounds < 1 or not 0 <= churn <= 1:
            raise ValueError(
                f"jobs = {jobs}, rounds = {rounds}, churn = {churn}: must be positive, at most 1"
            )
        self.population, self.rounds = jobs, rounds
        self._leave = math.ceil(churn * jobs)
        self._rng = rng = np.random.default_rng(seed)
        supply = jobs + 4 * rounds * max(self._leave, 1)
        scenario = Scenario(
            builtin_cluster(gpus), draw_jobs(np.zeros(supply), rng), builtin_profiles(WORK_SCALE)
        )
        policy = SiaPolicy(scenario.cluster, scale_up_limit=scale_up_limit, program=program)
        super().__init__(scenario, solver, policy=policy)
        self._submitted[:jobs] = -rng.uniform(0.0, OLDEST_HOURS * 3600.0, jobs)
        work = np.array([self._distinct[k].work for k in self._profile[:jobs]])
        self._progress[:jobs] = rng.uniform(0.0, 0.9, jobs) * work

    def run(self) -> Iterator[RoundRecord]:
        """Simulate the rounds asked for, giving the record of each as it ends.

        Yields
        ------
        RoundRecord
        """
        for number in range(self.rounds):
            record = self._round(number * self.round_seconds)
            self.records.append(record)
            yield record

    def _arrivals(self, time: float) -> int:
        missing = self.population - self._active.size
        new = np.arange(self._next, self._next + missing)
        if time > 0:
            self._submitted[new[new < len(self.jobs)]] = time
        arrived = self._admit(missing)
        if time == 0:
            self._set_levels()
        return arrived

    def _set_levels(self) -> None:
        for k in self._active.tolist():
            self._level[k] = self._distinct[self._profile[k]].level(self._progress[k : k + 1])[0]
        self.policy.update_levels(
            [self.jobs[k].name for k in self._active.tolist()], self._level[self._active]
        )

    def _advance(self, time: float) -> int:
        if time == 0:  # these ran before the first round
            self._restart_left[:] = 0.0
            for k in self._active.tolist():
                self.policy.update(self.jobs[k].name, restarting_until=-math.inf)
        completed = super()._advance(time)
        more = min(max(self._leave - completed, 0), self._active.size)
        self._dismiss(self._rng.choice(self._active, more, replace=False))
        return completed


class _Marked(Wrapper):
    """Calls ``mark`` before each solve: a round's edits are complete then."""

    def __init__(self, solver: Solver, mark: Callable[[], None]) -> None:
        super().__init__(solver)
        self._mark = mark

    def solve(
        self, program: ContinualProgram, *, deadline: float | None = None, raise_error: bool = False
    ) -> Solution:
        self._mark()
        return super().solve(program, deadline=deadline, raise_error=raise_error)


def record_rounds(
    program: ContinualProgram,
    end_round: Callable[[], None],
    solver: Solver,
    *,
    gpus: int,
    jobs: int,
    rounds: int,
    churn: float = 0.02,
    seed: int = 0,
    scale_up_limit: float | None = None,
) -> Iterator[RoundRecord]:
    """Run a steady cluster on a program that records its edits.

    Parameters
    ----------
    program : ContinualProgram
        Empty, for example a :class:`copter.bench.recording.RecordingProgram`.
    end_round : callable
        Called when the edits of a round are complete, before it is solved.
    solver : Solver
        Its answers decide how the rounds go on.
    gpus, jobs, rounds, churn, seed, scale_up_limit
        See :class:`SteadyReplay`.

    Yields
    ------
    RoundRecord
        Of each round, as it ends.
    """
    replay = SteadyReplay(
        gpus,
        jobs,
        rounds,
        _Marked(solver, end_round),
        churn=churn,
        seed=seed,
        scale_up_limit=scale_up_limit,
        program=program,
    )
    yield from replay.run()
