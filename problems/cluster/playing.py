"""A policy on a sample of a trace as a task: what `copter run cluster` and its sweeps spread.

Everything that a run computes from is in the setup, the policy's name and the seed, so its outcome is the
same wherever it runs, but for the seconds that the policy took: those are of the machine and of what else it
did.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from time import perf_counter
from typing import NamedTuple

from copter.problems.cluster.experiment import Conditions, Outcome, conclude
from copter.problems.cluster.setups import Setup
from copter.spreading.tasks import Task, Tell

WARM_UP_ROUNDS = 3
_TELL_SECONDS = 0.1
_warm: set[str] = set()
"""Policies that have played in this process."""


class Progress(NamedTuple):
    """How far a run is.

    Attributes
    ----------
    completed, total : int
        Jobs.
    hour : float
        Simulated.
    queue : int
        Jobs without GPUs.
    over : bool
        Whether the run has ended.
    """

    policy: str
    seed: int
    completed: int
    total: int
    hour: float = 0.0
    queue: int = 0
    over: bool = False


def run_tasks(setup: Setup, policies: Sequence[str], seeds: Sequence[int]) -> list[Task]:
    """Tasks of all policies and seeds, policy by policy.

    Parameters
    ----------
    policies : sequence of str
    seeds : sequence of int

    Returns
    -------
    list of Task
        Each tells :class:`Progress` and returns an :class:`.experiment.Outcome`.
    """
    return [
        Task(f"{policy}, seed {seed}", play, (setup, policy, seed)) for policy in policies for seed in seeds
    ]


def play(setup: Setup, policy: str, seed: int, *, tell: Tell | None = None) -> Outcome:
    """Play one policy on one sample until all jobs are complete.

    Parameters
    ----------
    tell : callable, optional
        Takes :class:`Progress`, now and then.
    """
    conditions = setup.conditions()
    _warm_up(conditions, policy)
    simulator = conditions.simulator(policy, seed)
    told, now = 0.0, Progress(policy, seed, 0, simulator.admitted)
    for record in simulator.run():
        if tell is not None and perf_counter() - told > _TELL_SECONDS:
            hour, queue = record.time / 3600.0, record.jobs - record.running
            now = now._replace(completed=simulator.completed, hour=hour, queue=queue)
            tell(now)
            told = perf_counter()
    if tell is not None:
        tell(now._replace(completed=simulator.completed, over=True))
    return conclude(policy, seed, simulator)


def _warm_up(conditions: Conditions, policy: str) -> None:
    """Play a few rounds first, once a process, so that compilation is in no round's time."""
    if policy not in _warm:
        for _ in islice(conditions.simulator(policy, 0).run(), WARM_UP_ROUNDS):
            pass
        _warm.add(policy)
