"""Rounds of a cluster in a steady state, for benchmarks: the number of jobs is constant.

The jobs of the first round have random ages and progress, as in a cluster observed from some moment on.  In
the first round they start without a restart delay, because they ran before.  After that, a share of the jobs
leaves in every round (jobs that complete, and random jobs), and as many new jobs arrive.  All other jobs
progress and restart as in a replay of a trace, and nearly all costs change in every round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from copter.problems.cluster.policy import Allocation, ClusterState
from copter.problems.cluster.results import ClusterRecord
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.simulation.resize import Resize
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import Scenario
from copter.problems.sia.generator import builtin_cluster, builtin_profiles, draw_jobs
from copter.problems.sia.policy import SiaPolicy
from copter.problems.sia.scheduler import Sia
from copter.solvers.base import Solver
from copter.solvers.wrapper import Wrapper

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution

_WORK_SCALE = 16.0
"""Factor on the work of the generator's jobs, so that fewer jobs complete in a round than should leave."""
_OLDEST_SECONDS = 4.0 * 3600.0
"""Time at which the rounds begin; the jobs of the first round were submitted at random times before."""


class _SteadySimulator(Simulator):
    """A cluster in which enough jobs arrive in each round to keep their number constant.

    `leave`: least number of jobs that leave in a round, including those that complete.
    """

    def __init__(
        self, scenario: Scenario, policy: Sia, population: int, leave: int, rng: np.random.Generator
    ) -> None:
        super().__init__(scenario, policy, resize=_Settled())
        self._population, self._leave, self._rng = population, leave, rng
        self.timer.time = _OLDEST_SECONDS
        oldest = [self._waiting[-1 - k] for k in range(population)]
        for job, share in zip(oldest, rng.uniform(0.0, 0.9, population).tolist(), strict=True):
            job.begin_at(share * job.work)

    def _admit(self, time: float) -> None:
        for _ in range(min(self._population - len(self.jobs), len(self._waiting))):
            job = self._waiting.pop()
            if self.records:
                job.submission = replace(job.submission, time=time)
            job.enter()
            self.jobs[job.name] = job
            self._arrived.append(job)

    def _pass_time(self, time: float, running: bool) -> tuple[int, float]:
        completed, until = super()._pass_time(time, running)
        more = min(max(self._leave - completed, 0), len(self.jobs))
        names = list(self.jobs)
        for k in self._rng.choice(len(names), more, replace=False).tolist():
            self._complete(self.jobs[names[k]], until)
        return completed, until


class _Settled(Resize):
    """Restart seconds of the profile, but 0 in the first round, whose jobs ran before."""

    def seconds(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> float:
        return job.profile.restart_seconds if now.index else 0.0


def steady_simulator(
    gpus: int,
    jobs: int,
    rounds: int,
    solver: Solver,
    *,
    churn: float = 0.02,
    seed: int = 0,
    scale_up_limit: float | None = None,
    program: ContinualProgram | None = None,
) -> Simulator:
    """Return a simulation of Sia with a constant number of jobs.

    `gpus`, `jobs`: size of the generator's cluster, and number of jobs in every round. `rounds`: number of
    rounds for which jobs are drawn. `churn`: share of the jobs that leaves, and arrives, in a round.
    `scale_up_limit`: default: none, so that every job may choose from all configurations, as in the thesis'
    program. `program`: program to edit, for example one that records.
    """
    if jobs < 1 or rounds < 1 or not 0 <= churn <= 1:
        raise ValueError(
            f"jobs = {jobs}, rounds = {rounds}, churn = {churn}: must be at least 1, and in [0, 1]"
        )
    leave, rng = math.ceil(churn * jobs), np.random.default_rng(seed)
    times = np.full(jobs + 4 * rounds * max(leave, 1), _OLDEST_SECONDS)
    times[:jobs] = np.sort(rng.uniform(0.0, _OLDEST_SECONDS, jobs))
    scenario = Scenario(builtin_cluster(gpus), draw_jobs(times, rng), builtin_profiles(_WORK_SCALE))
    policy = SiaPolicy(scenario.cluster, scale_up_limit=scale_up_limit, program=program)
    return _SteadySimulator(scenario, Sia(policy=policy, solver=solver), jobs, leave, rng)


class _Marked(Wrapper):
    """A wrapper that calls `mark` before each solve, when a round's edits are complete."""

    def __init__(self, solver: Solver, mark: Callable[[], None]) -> None:
        super().__init__(solver)
        self._mark = mark

    def solve(
        self, program: ContinualProgram, *, time_limit: float | None = None, raise_error: bool = False
    ) -> Solution:
        self._mark()
        return super().solve(program, time_limit=time_limit, raise_error=raise_error)


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
) -> Iterator[ClusterRecord]:
    """Play a steady cluster on a program that records its edits, and yield the record of each round.

    `program`: an empty program, such as a :class:`copter.bench.recording.Recorder`. `end_round`: called when
    the edits of a round are complete, before the solve. `solver`: its solutions determine the next rounds.
    `gpus`, `jobs`, `rounds`, `churn`, `seed`, `scale_up_limit`: see :func:`steady_simulator`.
    """
    simulator = steady_simulator(
        gpus,
        jobs,
        rounds,
        _Marked(solver, end_round),
        churn=churn,
        seed=seed,
        scale_up_limit=scale_up_limit,
        program=program,
    )
    yield from islice(simulator.run(), rounds)
