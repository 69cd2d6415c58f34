"""Families of LPs of Sia's rounds, for `copter bench export`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from copter.bench.sequences.family import Family, Mirror, SequenceRounds, played, rounds_of_programs
from copter.problems.sia.generator import builtin_cluster, builtin_profiles, draw_jobs
from copter.problems.sia.interface import SiaJob
from copter.problems.sia.policy import SiaDomain, SiaPolicy
from copter.problems.sia.steady import SteadyReplay
from copter.solvers.registry import repeatable_solver
from copter.solvers.wrapper import Wrapper

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution

_FOREVER = 1_000
"""Largest number of rounds of a replay."""
_SECONDS = 60.0


def families() -> list[Family]:
    """Return the families."""
    return [
        Family(
            "sia-arrivals-small",
            "Sia, 64 GPUs, 30 jobs: 3 jobs leave and 3 arrive, and the costs of running jobs change.",
            ("columns", "costs", "rows"),
            partial(_steady, 64, 30, 0.1),
        ),
        Family(
            "sia-arrivals-large",
            "Sia, 256 GPUs, 60 jobs: 3 jobs leave and 3 arrive, and the costs of running jobs change.",
            ("columns", "costs", "rows"),
            partial(_steady, 256, 60, 0.05),
        ),
        Family(
            "sia-costs-large",
            "Sia, 256 GPUs, 40 jobs: costs change with the jobs' progress; a job that ends is replaced.",
            ("columns", "costs", "rows"),
            partial(_steady, 256, 40, 0.0),
        ),
        Family(
            "sia-nodes-small",
            "Sia, 64 GPUs, 24 jobs: nodes fail and return, and a job arrives or leaves.",
            ("columns", "costs", "sides", "rows"),
            partial(_nodes, 64, 24),
        ),
    ]


class _Followed(Wrapper):
    """A solver that updates a mirror of the program before each solve."""

    mirror: Mirror | None = None

    def solve(
        self, program: ContinualProgram, *, deadline: float | None = None, raise_error: bool = False
    ) -> Solution:
        if self.mirror is None:
            self.mirror = Mirror(program)
        else:
            self.mirror.update()
        return super().solve(program, deadline=deadline, raise_error=raise_error)


def _steady(gpus: int, jobs: int, churn: float, seed: int) -> SequenceRounds:
    """Yield the rounds of a cluster with a constant number of jobs."""
    solver = _Followed(repeatable_solver("copter"))
    replay = SteadyReplay(gpus, jobs, _FOREVER, solver, churn=churn, seed=seed)
    for _ in replay.run():
        assert solver.mirror is not None
        yield solver.mirror.program


def _nodes(gpus: int, jobs: int, seed: int) -> SequenceRounds:
    """Yield the rounds of a cluster whose nodes fail and return."""
    cluster, rng = builtin_cluster(gpus), np.random.default_rng(seed)
    domain = SiaDomain(SiaPolicy(cluster, scale_up_limit=None))
    return rounds_of_programs(played(domain, _node_events(domain, jobs, rng)))


def _node_events(domain: SiaDomain, jobs: int, rng: np.random.Generator) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the events of each round: at first all jobs arrive."""
    profiles, types = builtin_profiles(16.0), domain.policy.cluster.types
    drawn = draw_jobs(np.zeros(jobs + 200), rng)
    new = (SiaJob(job.name, profiles[job.application], 0.0) for job in drawn)
    yield [("at", 0.0), *(("submit", next(new)) for _ in range(jobs))]
    while True:
        events: list[tuple[Any, ...]] = [("at", domain.now + _SECONDS)]
        for _ in range(2):
            type = types[int(rng.integers(len(types)))]
            events.append(("set_nodes", type.name, int(rng.integers(type.nodes // 2, type.nodes + 1))))
        if rng.random() < 0.5:
            there = list(domain.policy.allocation)
            events.append(("complete", there[int(rng.integers(len(there)))]))
            events.append(("submit", next(new)))
        yield events
