"""What a simulation needs: a cluster, jobs, and the profile of each application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles import Profile
from copter.problems.cluster.workload import JobSubmission


@dataclass(frozen=True)
class Scenario:
    """A cluster, jobs, and the profile of each application that they name."""

    cluster: Cluster
    jobs: list[JobSubmission]
    profiles: Mapping[str, Profile]
