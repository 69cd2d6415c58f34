"""Runs of policies on traces, and what the paper reads off them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.report.metrics import indices
from copter.problems.cluster.simulation.resize import Resize
from copter.problems.cluster.simulation.results import JobRecord
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import Scenario


@dataclass(frozen=True, eq=False)
class Run:
    """A policy's run on a scenario.

    Attributes
    ----------
    simulator : Simulator
        After the last event.
    """

    scenario: Scenario
    simulator: Simulator

    @property
    def jct(self) -> NDArray[np.float64]:
        """Completion times in seconds, in order of submission."""
        return np.array([job.jct for job in self.simulator.job_results()])

    @property
    def mean_hours(self) -> float:
        """Average JCT in hours."""
        return float(self.jct.mean()) / 3600.0

    @property
    def p99_hours(self) -> float:
        """99th percentile of JCT in hours."""
        return float(np.percentile(self.jct, 99.0)) / 3600.0

    def regime(self) -> dict[str, float]:
        """Averages over time of queue length, cluster efficiency and blocking index (section 2.2).

        Returns
        -------
        dict of str to float
            QL, CE, BI.
        """
        simulator = self.simulator
        # Figures are those of the moment of an event, at which the pauses of 4 ms begin: they do not count.
        held = [replace(segment, restart_seconds=0.0) for segment in simulator.segments]
        over_time = indices(self.scenario, simulator.job_results(), simulator.records, held)
        seconds = np.array([record.seconds for record in simulator.records])
        return {
            "QL": float(np.average(over_time.queue_length, weights=seconds)),
            "CE": float(np.average(over_time.cluster_efficiency, weights=seconds)),
            "BI": float(np.average(over_time.blocking_index, weights=seconds)),
        }


def play(
    scenario: Scenario,
    policy: str,
    settings: Mapping[str, Any] | None = None,
    resize: Resize | None = None,
) -> Run:
    """Simulate a policy to the end.

    Parameters
    ----------
    policy : str
        A name of the registry.
    settings : mapping of str to object, optional
        Settings of the policy.
    """
    simulator = Simulator(scenario, make_policy(policy, **dict(settings or {})), resize=resize)
    return Run(scenario, simulator.play())


def by_length(jobs: Sequence[JobRecord], base: Sequence[JobRecord], bins: int) -> NDArray[np.float64]:
    """How many times sooner jobs complete than under another policy, by how long they take (Figure 10).

    Parameters
    ----------
    jobs, base : sequence of JobRecord
        Those of the same scenario.
    bins : int
        Groups of about equal size, by completion time under `base`.

    Returns
    -------
    (bins,) array
        Ratio of the mean completion times of each group, the shortest jobs first.
    """
    mine, theirs = np.array([job.jct for job in jobs]), np.array([job.jct for job in base])
    groups = np.array_split(np.argsort(theirs, kind="stable"), bins)
    return np.array([theirs[group].mean() / mine[group].mean() for group in groups])
