"""Whether what a policy answers makes sense."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import get_args

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.policy import Allocation, ClusterState, Placement, Policy, PolicyError, counts_of
from copter.problems.cluster.workload import Kind


def check_policy(policy: Policy) -> None:
    """Raise if something is missing of a policy.

    Raises
    ------
    PolicyError
        Names the attribute.
    """
    who = f"policy {getattr(policy, 'name', type(policy).__name__)!r}"
    for name in ("name", "kind", "round_seconds", "schedule"):
        if not hasattr(policy, name):
            raise PolicyError(f"{who} has no {name}: see the protocol Policy")
    if policy.kind not in get_args(Kind):
        raise PolicyError(f"{who}: kind = {policy.kind!r}: must be one of {get_args(Kind)}")
    seconds = policy.round_seconds
    if seconds is not None and not 0 < seconds < math.inf:
        raise PolicyError(f"{who}: round_seconds = {seconds}: must be positive, or None for events")


def check_answer(policy: str, wanted: Mapping[str, Allocation], now: ClusterState) -> None:
    """Raise if the answer of a policy cannot be carried out.

    Parameters
    ----------
    policy : str
        Its name.
    wanted : mapping of str to Configuration or Placement
        Its answer.

    Raises
    ------
    PolicyError
        Names the job or the GPU type.
    """
    who = f"policy {policy!r} at {now.time:g} s"
    capacity = now.cluster.capacity
    sizes = {type.name: type.gpus_per_node for type in now.cluster.types}
    used: Counter[str] = Counter()
    for name, allocation in wanted.items():
        job = now.jobs.get(name)
        if job is None:
            raise PolicyError(f"{who}: there is no job {name!r}")
        if not isinstance(allocation, Configuration | Placement):
            raise PolicyError(f"{who}: job {name!r}: {allocation!r} is no Configuration and no Placement")
        one = counts_of(allocation)
        if one.type not in capacity:
            raise PolicyError(f"{who}: job {name!r}: no GPU type {one.type!r}")
        if not 1 <= one.nodes <= one.gpus <= one.nodes * sizes[one.type]:
            raise PolicyError(f"{who}: job {name!r}: {one.gpus} GPUs do not go on {one.nodes} nodes")
        if job.gpus is not None and one.gpus != job.gpus:
            raise PolicyError(f"{who}: job {name!r} is rigid: {one.gpus} GPUs, it needs {job.gpus}")
        if one != job.allocation and not job.profile.curve(one).any():
            raise PolicyError(f"{who}: job {name!r} cannot run on {one}")
        used[one.type] += one.gpus
    for type, gpus in used.items():
        if gpus > capacity[type]:
            raise PolicyError(f"{who}: {gpus} GPUs of type {type!r} given, of {capacity[type]}")
