"""First come, first served: the rule of a queue without preemption.

Jobs start in the order of their arrival, each with the GPUs that its user requested, and keep them until they
complete. A job that does not fit yet blocks later ones.  A job starts on the type with free GPUs on which it
is fastest.
"""

from __future__ import annotations

from collections.abc import Mapping

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.policy import ClusterState, kept
from copter.problems.cluster.workload import Kind
from copter.problems.policies.backfill import fastest, take_first
from copter.problems.policies.mechanism import ROUND_SECONDS


class FirstCome:
    """First come, first served, not preemptive, without backfilling."""

    name = "fcfs"
    kind: Kind = "rigid"

    def __init__(self, *, round_seconds: float = ROUND_SECONDS) -> None:
        self.round_seconds: float | None = round_seconds

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the configurations of running jobs, and of waiting jobs that start, in order of arrival."""
        free = now.cluster.capacity
        given = kept(now.jobs.values(), free)
        for name, job in now.jobs.items():
            if name in given:
                continue
            options = fastest(job, now.cluster)
            chosen = take_first(options, free)
            if chosen is not None:
                given[name] = chosen
            elif options:
                break
        return given
