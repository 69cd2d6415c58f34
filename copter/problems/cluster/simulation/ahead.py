"""Simulation of the time to come: when waiting jobs would start, if no further jobs arrived.

A new policy plays from the present of a cluster (:mod:`.present`) until every job has had GPUs.  The result
is a forecast: it is only as accurate as the known run times of the jobs, and the policy has no memory of
earlier rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from copter.problems.cluster.policy import Allocation, ClusterState, Policy
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.simulation.present import Present
from copter.problems.cluster.simulation.simulator import Simulator, StarvationError
from copter.problems.cluster.workload import Scenario

Ending: TypeAlias = Literal["started", "idle", "stopped"]
"""Reason why a simulation ended: all jobs started, the policy starts no further job, or `stop` ended it."""

_IDLE_ROUNDS = 100
"""Consecutive rounds without running jobs after which no further start is expected."""


class Ahead(Simulator):
    """A simulation of the time after a given present.

    Parameters
    ----------
    scenario : Scenario
        Cluster, jobs of the present, and profiles.
    policy : Policy
        A new policy.
    present : Present
        State from which the simulation begins.
    **arguments
        Other arguments of :class:`.simulator.Simulator`.

    Attributes
    ----------
    starts : dict of str to float
        Time in seconds at which each job that held no GPUs in the present first gets some.
    """

    def __init__(self, scenario: Scenario, policy: Policy, present: Present, **arguments: Any) -> None:
        self.starts: dict[str, float] = {}
        super().__init__(scenario, policy, present=present, **arguments)
        held = {name for name, job in present.jobs.items() if job.held is not None}
        self._unstarted = {job.name for job in scenario.jobs} - held - {*self.rejected}

    def start(self, job: SimulatedJob, new: Allocation, now: ClusterState) -> None:
        """Give GPUs to a job that has none, and record the time if the job held none in the present."""
        super().start(job, new, now)
        if job.name in self._unstarted:
            self._unstarted.remove(job.name)
            self.starts[job.name] = now.time

    def play_starts(
        self,
        stop: Callable[[], bool] = lambda: False,
        look: Callable[[float], None] = lambda time: None,
    ) -> Ending:
        """Play until every job that can run has started, or no further start is expected.

        Parameters
        ----------
        stop : callable
            Asked after each call of the policy whether to stop.
        look : callable
            Called after each call of the policy, with the time of that call.

        Returns
        -------
        {"started", "idle", "stopped"}
        """
        idle = 0
        try:
            for record in self.run():
                look(record.time)
                idle = 0 if record.running else idle + 1
                if not self._unstarted:
                    return "started"
                if stop():
                    return "stopped"
                if idle >= _IDLE_ROUNDS:
                    return "idle"
        except StarvationError:
            return "idle"
        return "idle" if self._unstarted else "started"
