"""POP-k of Sia: nodes and jobs are split into k random parts, and each part is scheduled separately.

Part i has 1/k of the nodes of every type.  Nodes of the remainder go to parts in turn; each type begins where
the previous type ended.  A new job goes to a part with the fewest jobs among the parts that can run it.  It
leaves its part only if the part lost the nodes that the job needs.

A job that no part can run, such as a rigid job with more GPUs than any part has, is in no part and waits
until new nodes allow a part to run it.  POP is meant for jobs that are small relative to a part, and
enlarging a part for one job would take GPUs from running jobs.  If only jobs without a part remain, the
simulator raises a StarvationError.

Each part is a separate Sia program.  The parts are solved one after the other.  Their time in parallel is
estimated by the longest time of a part (``parallel_seconds_estimated``); splitting and joining do not count.

Source: Narayanan et al., "Solving large-scale granular resource allocation problems efficiently with POP"
(SOSP 2021); thesis section 4.5.1, which solves the integer program of each part.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind
from copter.problems.sia.scheduler import ROUND_SECONDS, Sia
from copter.solvers.registry import make_solver

MILP = "highs-milp"


class _PopPart:
    """Sia on a part, with the settings `own` of the solver, or Sia's settings if `own` is empty."""

    def __init__(self, solver: str, own: Mapping[str, Any], **settings: Any) -> None:
        self.policy = Sia(solver=make_solver(solver, **own) if own else solver, **settings)

    def schedule(self, own: ClusterState) -> tuple[Mapping[str, Configuration], float]:
        """Schedule the part's jobs; return their configurations, and the time in seconds."""
        begin = perf_counter()
        answer = self.policy.schedule(own)
        return answer, perf_counter() - begin


class Pop:
    """The policy POP-k of Sia.

    Parameters
    ----------
    parts : int
        Number of parts, k.
    seed : int
        Seed of the split.
    solver : str
        Solver of each part: branch and bound as in the thesis, or a solver of the relaxation.
    mip_gap : float
        Relative gap at which branch and bound stops.
    **settings
        Settings of :class:`~copter.problems.sia.scheduler.Sia`.

    Attributes
    ----------
    name : str
        Name such as "pop-16".
    figures : dict of str to float
        Times of the last round: ``total_seconds`` of all parts, and ``parallel_seconds_estimated``, that of
        the slowest part.
    """

    kind: Kind = "adaptive"

    def __init__(
        self,
        *,
        parts: int,
        seed: int = 0,
        solver: str = MILP,
        mip_gap: float = 1e-3,
        round_seconds: float = ROUND_SECONDS,
        **settings: Any,
    ) -> None:
        if parts < 1:
            raise ValueError(f"parts = {parts}: must be at least 1")
        self.name = f"pop-{parts}"
        self.round_seconds: float | None = round_seconds
        self._count = parts
        self.figures: dict[str, float] = {}
        own: dict[str, Any] = {"mip_gap": mip_gap} if solver == MILP else {}
        self._parts = [_PopPart(solver, own, round_seconds=round_seconds, **settings) for _ in range(parts)]
        self._clusters: list[Cluster] = []
        self._part: dict[str, int] = {}
        self._nowhere: list[str] = []
        self._rng = np.random.default_rng(seed)

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Return the configurations of all parts, see :class:`~copter.problems.cluster.policy.Policy`."""
        self._split_nodes(now.cluster)
        left: list[list[Job]] = [[] for _ in self._clusters]
        for job in now.left:
            if job.name in self._part:
                left[self._part.pop(job.name)].append(job)
        stranded = self._stranded(now)
        for job in stranded:
            left[self._part.pop(job.name)].append(job)
        arrived = self._split_jobs((*(now.jobs[name] for name in self._nowhere), *now.arrived, *stranded))
        jobs: list[dict[str, Job]] = [{} for _ in self._clusters]
        for name, job in now.jobs.items():
            if name in self._part:
                jobs[self._part[name]][name] = job
        asked: dict[int, ClusterState] = {}
        for part, cluster in enumerate(self._clusters):
            if jobs[part] or left[part]:
                asked[part] = ClusterState(
                    time=now.time,
                    index=now.index,
                    seconds=now.seconds,
                    cluster=cluster,
                    jobs=jobs[part],
                    arrived=tuple(arrived[part]),
                    left=tuple(left[part]),
                )
        return self._ask(asked)

    def _ask(self, asked: Mapping[int, ClusterState]) -> dict[str, Configuration]:
        """Schedule the given parts, and join their answers in the order of the parts."""
        answers = [self._parts[part].schedule(own) for part, own in asked.items()]
        seconds = [took for _, took in answers]
        self.figures = {
            "parallel_seconds_estimated": max(seconds, default=0.0),
            "total_seconds": sum(seconds),
        }
        return {name: configuration for given, _ in answers for name, configuration in given.items()}

    def _split_nodes(self, cluster: Cluster) -> None:
        """Divide the cluster's nodes among the parts."""
        parts = self._count
        if not self._clusters:
            empty = [GpuType(type.name, type.gpus_per_node, 0) for type in cluster.types]
            self._clusters = [Cluster(empty) for _ in range(parts)]
        turn = 0
        for type in cluster.types:
            for part, own in enumerate(self._clusters):
                nodes = type.nodes // parts + ((part - turn) % parts < type.nodes % parts)
                if own.capacity[type.name] != nodes * type.gpus_per_node:
                    own.set_nodes(type.name, nodes)
            turn += type.nodes

    def _stranded(self, now: ClusterState) -> list[Job]:
        """Return jobs without GPUs whose part lost the nodes that they need, while another part has them."""
        stranded = []
        for name, part in self._part.items():
            job = now.jobs[name]
            if job.allocation is None and not _runs(job, self._clusters[part]):
                if any(_runs(job, cluster) for cluster in self._clusters):
                    stranded.append(job)
        return stranded

    def _split_jobs(self, jobs: tuple[Job, ...]) -> list[list[Job]]:
        """Assign jobs without a part to parts, and return them by part; jobs that no part can run remain."""
        counts = np.bincount(list(self._part.values()), minlength=self._count)
        arrived: list[list[Job]] = [[] for _ in self._clusters]
        self._nowhere = []
        for job in jobs:
            able = np.flatnonzero([_runs(job, cluster) for cluster in self._clusters])
            if not able.size:
                self._nowhere.append(job.name)
                continue
            fewest = able[counts[able] == counts[able].min()]
            part = int(self._rng.choice(fewest))
            counts[part] += 1
            self._part[job.name] = part
            arrived[part].append(job)
        return arrived


def _runs(job: Job, cluster: Cluster) -> bool:
    columns, _ = job.row(cluster.configurations)
    gpus = cluster.configurations.gpus[columns]
    least, most = job.submission.min_gpus or 1, job.submission.max_gpus or cluster.gpus
    if job.gpus is not None:
        least = most = job.gpus
    return bool(((gpus >= least) & (gpus <= most)).any())


pop_4, pop_8, pop_16, pop_32 = (partial(Pop, parts=parts) for parts in (4, 8, 16, 32))
