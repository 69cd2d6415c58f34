"""The workloads of Pollux' artifact.

``workloads*/workload-<number>.csv`` are files for :mod:`~copter.problems.cluster.workload`, with the GPUs and
batch size for which a job was tuned.  The folder ``workloads`` has the paper's workloads of 160 jobs.
``workloads-0.5``, ``-1.5`` and ``-2.0`` have 0.5, 1.5 and 2 times as many jobs, and ``workloads-realistic``
has the users' own sizes (Pollux section 5.3.1).

Source: Pollux section 5.3 and table 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from copter.errors import InputError
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.traces.families import Shape, generate
from copter.problems.cluster.workload import Scenario, read_workload
from copter.problems.reading import find

FOLDER = "petuum_adaptdl_osdi21-artifact/simulator"
WORKLOADS = 8
"""Number of workloads in each folder of the artifact; they are counted from 1."""


def pollux(
    cluster: Cluster, seed: int, data: Path | None, folder: str = "workloads", **settings: Any
) -> Scenario:
    """Return workload number 1 + seed mod 8 of Pollux' artifact; without the file, a generated workload.

    `folder`: for example "workloads-2.0". `settings`: settings of :class:`.families.Shape`; a workload of the
    artifact accepts only ``jobs``, the number of jobs to use, from the first one on.
    """
    shape = Shape(**settings)
    file = f"{folder}/workload-{1 + seed % WORKLOADS}.csv"
    path = find(data, f"{FOLDER}/{file}", file)
    if path is None:
        if data is not None and folder != "workloads":
            raise InputError(data, file, "does not exist")
        return generate("pollux", cluster, seed, shape)
    if set(settings) - {"jobs"}:
        raise ValueError(
            f"{path}: a workload of the artifact has no setting {', '.join(sorted(set(settings) - {'jobs'}))}"
        )
    profiles: dict[str, Profile] = dict(builtin_goodput_profiles())
    submissions = read_workload(path, profiles)
    return Scenario(cluster, submissions[: shape.jobs], profiles)
