"""Experiments on the published measurements and workloads of Pollux' authors, as in their simulator.

The cluster has 16 nodes with 4 T4 each.  Rounds last 60 s, and each start or change takes 30 s without
progress (section 5.3).  NeuMF jobs run on one GPU under every policy, and under Pollux at a batch size of
32,768.  Pollux chooses nodes.  For Tiresias and Optimus, GPUs are counted, and every job is on the fewest
nodes for its GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from copter.bench.reproduction import Effort
from copter.errors import InputError
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.simulation.resize import FixedDelay, SharedNodes
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.traces.pollux import FOLDER, WORKLOADS, read_pollux_measurements
from copter.problems.cluster.workload import JobSubmission, Scenario, read_workload
from copter.problems.reading import find

CLUSTER = Cluster([GpuType("t4", 4, 16)])
_NEUMF_BATCH = 32768
_QUICK_JOBS = 40
"""Number of jobs of a workload in quick runs."""


@cache
def _profiles(root: Path) -> dict[str, Profile]:
    return dict(read_pollux_measurements(root))


class Artifact:
    """The files of the artifact in the folder of real traces.

    `root`: the folder of the artifact. `numbers`: numbers of the workloads to run: among the eight, one for
    each seed, starting at the first seed. `profiles`: by application.
    """

    def __init__(self, effort: Effort) -> None:
        root = find(effort.data, FOLDER)
        if root is None:
            raise InputError(effort.data or Path("data"), FOLDER, "must exist: it is Pollux' artifact")
        self.root, self._quick = root, effort.quick
        self.numbers = [1 + (effort.seed + k) % WORKLOADS for k in range(min(effort.seeds, WORKLOADS))]
        self.profiles = _profiles(root)

    def jobs(self, number: int, folder: str = "workloads") -> list[JobSubmission]:
        """Return the jobs of a workload."""
        jobs = read_workload(self.root / folder / f"workload-{number}.csv", self.profiles)
        jobs = [
            replace(job, kind="rigid", gpus=1, tuned_gpus=None) if job.application == "ncf" else job
            for job in jobs
        ]
        return jobs[:_QUICK_JOBS] if self._quick else jobs

    def shipped(self, result: str, numbers: Sequence[int]) -> float:
        """Return the mean over workloads of the completion times in a result of the authors' simulator."""
        with open(self.root / result / "summary.json", encoding="utf-8") as file:
            averages = json.load(file)["avgs"]
        return float(np.mean([averages[f"workload-{number}"] for number in numbers]))

    def simulator(
        self, policy: str, jobs: list[JobSubmission], *, slowdown: float = 0.0, **settings: Any
    ) -> Simulator:
        """Return a simulator of jobs under a policy with settings, before its first round.

        `slowdown` is that of distributed jobs that share a node.
        """
        placer = None
        if policy == "pollux":
            placer = SiaPlacer()
            jobs = [replace(job, batch_size=_NEUMF_BATCH) if job.kind == "rigid" else job for job in jobs]
        return Simulator(
            Scenario(CLUSTER, jobs, self.profiles),
            make_policy(policy, **settings),
            placer=placer,
            resize=FixedDelay(),
            interference=SharedNodes(slowdown) if slowdown else None,
        )
