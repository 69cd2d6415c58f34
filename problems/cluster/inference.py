"""Services: inference within a promised latency (batch inference is :class:`.profiles.ReplicaProfile`).

A service has goodput 1 under a configuration that answers its requests within the latency, 0 under any other:

    replicas = floor(GPUs / GPUs a replica needs)
    goodput = 1  if  latency <= bound  and  replicas throughput >= demand,  else 0.

Its work is the seconds for which it serves.

Source: thesis section 3.3.4 (scheduling other workload types).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from copter.problems.cluster.cluster import Configurations
from copter.problems.cluster.profiles import ReplicaProfile, Row


class Replica(NamedTuple):
    """One replica of a service on a type of GPU.

    Attributes
    ----------
    gpus : int
        That it needs.
    throughput : float
        Requests a second.
    latency : float
        Seconds from a request to its answer.
    """

    gpus: int
    throughput: float
    latency: float


class ServiceProfile(ReplicaProfile):
    """Inference within a latency: a configuration is good enough or it is not.

    Parameters
    ----------
    seconds : float
        For which it serves.
    replicas : mapping of GPU type to Replica
    demand : float
        Requests a second.
    bound : float
        Largest latency, seconds.

    Raises
    ------
    ValueError
        A figure is out of range, or no type of GPU answers within the bound.
    """

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        seconds: float,
        replicas: Mapping[str, Replica],
        demand: float,
        bound: float,
    ) -> None:
        if not 0 < demand < math.inf:
            raise ValueError(f"profile {name!r}: demand = {demand}: must be positive and finite")
        quick = {
            type: (replica.gpus, replica.throughput)
            for type, replica in replicas.items()
            if replica.latency <= bound
        }
        if not quick:
            raise ValueError(f"profile {name!r}: no GPU type answers within {bound:g} s")
        super().__init__(name, restart_seconds, seconds, quick)
        self.demand = demand

    def row(self, configurations: Configurations, level: int) -> Row:  # noqa: D102
        columns, throughput = super().row(configurations, level)
        enough = columns[throughput >= self.demand]
        return enough, np.ones(enough.size)
