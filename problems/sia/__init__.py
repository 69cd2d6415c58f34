"""Sia: scheduling a heterogeneous GPU cluster round by round (thesis sections 3.3 and 4.4).

A scheduler feeds events to a :class:`SiaPolicy` and asks it for a round; :class:`Replay` does so for a whole
workload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from copter.lazy import lazy_names

if TYPE_CHECKING:
    from copter.problems.sia.cluster import Cluster, Configuration, Configurations, GpuType, configurations
    from copter.problems.sia.files import ProfileError, read_cluster, read_profiles
    from copter.problems.sia.generator import (
        Scenario,
        builtin_cluster,
        builtin_profiles,
        generate,
        read_scenario,
    )
    from copter.problems.sia.interface import InfeasibleRoundError, Job, PolicyError, Round
    from copter.problems.sia.policy import SiaPolicy
    from copter.problems.sia.profiles import CountProfile, Profile, ReplicaProfile, TableProfile
    from copter.problems.sia.records import JobResult, NodeChange, RoundRecord
    from copter.problems.sia.replay import CapacityError, Replay
    from copter.problems.sia.steady import SteadyReplay, record_rounds
    from copter.problems.sia.workload import JobSubmission, WorkloadError, read_workload, write_workload

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "cluster": "Cluster Configuration Configurations GpuType configurations",
        "files": "ProfileError read_cluster read_profiles",
        "generator": "Scenario builtin_cluster builtin_profiles generate read_scenario",
        "interface": "InfeasibleRoundError Job PolicyError Round",
        "policy": "SiaPolicy",
        "profiles": "CountProfile Profile ReplicaProfile TableProfile",
        "records": "JobResult NodeChange RoundRecord",
        "replay": "CapacityError Replay",
        "steady": "SteadyReplay record_rounds",
        "workload": "JobSubmission WorkloadError read_workload write_workload",
    },
)

__all__ = [
    "CapacityError",
    "Cluster",
    "Configuration",
    "Configurations",
    "CountProfile",
    "GpuType",
    "InfeasibleRoundError",
    "Job",
    "JobResult",
    "JobSubmission",
    "NodeChange",
    "PolicyError",
    "Profile",
    "ProfileError",
    "Replay",
    "ReplicaProfile",
    "Round",
    "RoundRecord",
    "Scenario",
    "SiaPolicy",
    "SteadyReplay",
    "TableProfile",
    "WorkloadError",
    "builtin_cluster",
    "builtin_profiles",
    "configurations",
    "generate",
    "read_cluster",
    "read_profiles",
    "read_scenario",
    "read_workload",
    "record_rounds",
    "write_workload",
]
