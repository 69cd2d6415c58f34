"""Sia as a domain of :class:`copter.Rounds`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.tables import ReplicaProfile
from copter.problems.sia.interface import SiaJob, SiaRound
from copter.problems.sia.policy import SiaDomain, SiaPolicy

_ROUND = 60.0
_JOBS = 8
"""Approximate number of jobs of :func:`example`."""


class ExampleSia(SiaDomain):
    """Sia with random events, and a check that recounts each answer job by job."""

    def violations(self, answer: SiaRound) -> Iterator[str]:
        """Yield GPU types with too many allocated GPUs, counted job by job."""
        used: Counter[str] = Counter()
        for configuration in answer.allocation.values():
            if configuration is not None:
                used[configuration.type] += configuration.gpus
        for type, gpus in used.items():
            if gpus > self.policy.cluster.capacity[type]:
                yield f"GPU type {type!r}: {gpus} GPUs: must be at most {self.policy.cluster.capacity[type]}"

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Yield random arrivals and ends of jobs, and changes of the number of nodes."""
        yield "at", self.now + _ROUND
        jobs = list(self.policy.allocation)
        for _ in range(int(rng.integers(0, 3)) if len(jobs) < 2 * _JOBS else 0):
            name = f"job {int(rng.integers(1 << 40))}"
            speeds = {
                type: (int(2 ** rng.integers(3)), float(rng.uniform(50, 400))) for type in ("T4", "A100")
            }
            yield "submit", SiaJob(name, ReplicaProfile(name, 60.0, 1e6, speeds), self.now)
        if len(jobs) > _JOBS // 2 and rng.random() < 0.5:
            yield "complete", jobs[int(rng.integers(len(jobs)))]
        if rng.random() < 0.3:
            yield "set_nodes", str(rng.choice(["T4", "A100"])), int(rng.integers(1, 5))


def example() -> ExampleSia:
    """Return an example with a small cluster: `copter check copter.problems.sia.example:example`."""
    return ExampleSia(SiaPolicy(Cluster([GpuType("T4", 4, 4), GpuType("A100", 8, 2)])))
