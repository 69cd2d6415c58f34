"""Pollux with a cluster size that follows the utility of the GPUs, for training in the cloud.

Source: Pollux section 5.3.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.policy import ClusterState, Placement, PolicyError
from copter.problems.pollux.genetic import evolve
from copter.problems.pollux.policy import Pollux, nodes_of

_PATIENCE = 15
"""Number of rounds over which utility is averaged before the size changes."""


class AutoscalingPollux(Pollux):
    """Pollux in the cloud: the number of nodes follows the utility of the GPUs.

        UTILITY(A) = sum_j SPEEDUP_j(A_j) / GPUs                                                         (17)

    When its mean over the last rounds leaves the range from `low` to `high`, a binary search finds the number
    of nodes whose best allocation has a utility closest to the middle.  The genetic algorithm runs for each
    tried number. Utility falls with the number of nodes.  Jobs whose statistical efficiency rises get more
    nodes later.  There are always enough nodes for each job to run, and for jobs that must not be preempted
    to keep their GPUs.

    Source: Pollux section 4.2.2.

    `low`, `high`: range of utility in which the size is kept; default: that of the published scheduler.
    `patience`: number of rounds over which utility is averaged. `type`: GPU type whose nodes are added and
    removed; default: the cluster's first. `settings`: settings of :class:`.policy.Pollux`.
    """

    name = "pollux-autoscaling"

    def __init__(
        self,
        *,
        min_nodes: int = 1,
        max_nodes: int = 16,
        low: float = 0.35,
        high: float = 0.65,
        patience: int = _PATIENCE,
        type: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        if not 1 <= min_nodes <= max_nodes:
            given = f"min_nodes = {min_nodes}, max_nodes = {max_nodes}"
            raise ValueError(f"{given}: must satisfy 1 <= min_nodes <= max_nodes")
        if not 0 <= low <= high:
            raise ValueError(f"low = {low}, high = {high}: must satisfy 0 <= low <= high")
        if patience < 1:
            raise ValueError(f"patience = {patience}: must be at least 1")
        self._range, self._low, self._high, self._type = (min_nodes, max_nodes), low, high, type
        self._recent: deque[float] = deque(maxlen=patience)

    def schedule(self, now: ClusterState) -> Mapping[str, Placement]:
        """Share the present GPUs, and request a number of nodes; see :class:`.policy.Pollux`."""
        name = self._name(now.cluster)
        there = next(type.nodes for type in now.cluster.types if type.name == name)
        answer = super().schedule(now)
        self._recent.append(self.figures["utility"])
        fewest, most = self._fewest(now, name), self._range[1]
        if there < fewest:
            now.set_nodes(name, fewest)
            self._recent.clear()
        elif len(self._recent) == self._recent.maxlen:
            mean = sum(self._recent) / len(self._recent)
            if (mean < self._low and there > fewest) or (mean > self._high and there < most):
                now.set_nodes(name, max(self._best_size(now), fewest))
                self._recent.clear()
        return answer

    def _fewest(self, now: ClusterState, name: str) -> int:
        """Return the fewest nodes on which all jobs can run, and jobs that must keep their GPUs do."""
        size = next(type.gpus_per_node for type in now.cluster.types if type.name == name)
        fewest = self._range[0]
        for job in now.jobs.values():
            fewest = max(fewest, -(-self._limits(job)[0] // size), -(-(job.gpus or 1) // size))
            held = job.allocation
            if held is not None and held.type == name and not job.submission.preemptible:
                last = max((node for node, _ in job.place or ()), default=held.nodes - 1)
                fewest = max(fewest, last + 1)
        return fewest

    def _name(self, cluster: Cluster) -> str:
        """Return the GPU type whose nodes are added and removed."""
        if self._type is None:
            return cluster.names[0]
        if self._type not in cluster.names:
            raise PolicyError(f"type = {self._type!r}: must be one of {list(cluster.names)}")
        return self._type

    def _best_size(self, now: ClusterState) -> int:
        """Return the number of nodes with the utility closest to the middle of the range."""
        target = (self._low + self._high) / 2
        least, most = self._range
        while most - least > 1:
            middle = (least + most) // 2
            if self.utility_of(now, middle) < target:
                most = middle
            else:
                least = middle
        return min(least, most, key=lambda nodes: abs(self.utility_of(now, nodes) - target))

    def utility_of(self, now: ClusterState, nodes: int) -> float:
        """Return the utility of the best allocation found for the present jobs on a number of nodes."""
        cluster = now.cluster.copy()
        cluster.set_nodes(self._name(cluster), nodes)
        jobs, there = list(now.jobs.values()), nodes_of(cluster, now.down)
        problem = self.problem(jobs, cluster, there)
        matrices, _ = evolve(
            problem,
            self._carried_over(jobs, there, problem.held),
            self._rng,
            generations=self._generations,
            population=self._size,
        )
        return self._utility(now.jobs, self._settled(jobs, matrices[0], there, cluster), cluster.gpus)
