"""The present state of a cluster, from which a simulation can begin instead of an empty cluster."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.nodes import working_nodes
from copter.problems.cluster.policy import Allocation, Placement, counts_of


@dataclass(frozen=True)
class PresentJob:
    """State of a job that has arrived.

    Attributes
    ----------
    progress : float
        Progress so far, in the unit of its profile.
    held : Placement or Configuration, optional
        GPUs of the job; a Placement if the simulation has a placer.
    since : float
        Time in seconds at which the job got these GPUs, or lost its last ones.
    restart_until : float
        Time in seconds until which the job restarts; in the past if it is not restarting.
    started : float
        Time in seconds at which the job first got GPUs; NaN before.
    restarts : int
        Number of changes of the job's allocation after the first start.
    run_seconds, gpu_seconds : float
        Seconds in which the job ran, without restarts; GPUs held times seconds, with restarts.
    """

    progress: float = 0.0
    held: Allocation | None = None
    since: float = 0.0
    restart_until: float = -math.inf
    started: float = math.nan
    restarts: int = 0
    run_seconds: float = 0.0
    gpu_seconds: float = 0.0


@dataclass(frozen=True)
class Present:
    """The present state of a cluster.

    It does not include the state of the policy: a policy that remembers earlier rounds continues as if it
    were new.  :attr:`.jobs.Job.contention` is the mean from the present on.  So a simulation from the present
    is exact for policies that use neither earlier rounds nor contention, and an estimate for other policies.

    Attributes
    ----------
    time : float
        Time in seconds.
    jobs : mapping of str to PresentJob
        The jobs that have arrived and not completed, by name, in order of arrival.
    asks : float, optional
        Time in seconds of the first call of the policy; default: `time`.  Until then, jobs keep their GPUs.
    after : mapping of str to collection of str
        For the name of a job that arrives when other jobs have completed, the names of these other jobs.  It
        never arrives if one of them is not in the simulation.
    down : mapping of str to frozenset of int
        Nodes of each type that do not work, and will not in the simulation.
    """

    time: float
    jobs: Mapping[str, PresentJob]
    asks: float | None = None
    after: Mapping[str, Collection[str]] = field(default_factory=dict)
    down: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.time < math.inf:
            raise ValueError(f"time = {self.time}: must be finite and not negative")
        if self.asks is not None and not self.time <= self.asks < math.inf:
            raise ValueError(f"asks = {self.asks}: must be finite and not before time = {self.time}")
        for name in self.after:
            if name in self.jobs:
                raise ValueError(f"after: job {name!r}: must not be in jobs, because it has not arrived")

    def check(self, cluster: Cluster, *, placed: bool) -> None:
        """Raise ValueError unless all nodes and GPUs exist on a cluster, and no GPU is held twice.

        `placed`: whether the simulation has a placer, so that jobs hold nodes.
        """
        types = {type.name: type for type in cluster.types}
        for type in self.down:
            if type not in types:
                raise ValueError(f"down: type {type!r}: must be one of {list(types)}")
        free = cluster.capacity
        nodes = {
            (name, node): type.gpus_per_node
            for name, type in types.items()
            for node in working_nodes(type, self.down.get(name, frozenset()))
        }
        for name, job in self.jobs.items():
            held, what = job.held, f"job {name!r}: held = {job.held}"
            if held is None:
                continue
            if isinstance(held, Placement) != placed:
                kind = "a Placement, because there is a placer" if placed else "a Configuration"
                raise ValueError(f"{what}: must be {kind}")
            gpus = counts_of(held).gpus
            free[held.type] = free.get(held.type, 0) - gpus
            if free[held.type] < 0:
                raise ValueError(f"{what}: must be GPUs that work and that no other job holds")
            for node, count in held.nodes if isinstance(held, Placement) else ():
                nodes[held.type, node] = nodes.get((held.type, node), 0) - count
                if nodes[held.type, node] < 0:
                    raise ValueError(f"{what}: node {node}: must work and have these GPUs free")
