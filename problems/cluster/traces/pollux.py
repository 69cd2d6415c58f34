"""Pollux' workloads: the reader of the artifact's ``workloads*/workload-<number>.csv``.

The columns are ``name, time, application, num_replicas, batch_size``: seconds of submission, the model, and
the GPUs and batch size that the job was tuned for.  ``workloads`` are the paper's, of 160 jobs;
``workloads-0.5``, ``-1.5`` and ``-2.0`` have that many times the jobs, ``workloads-realistic`` has the users'
own sizes (Pollux section 5.3.1).  The thesis' authors publish their workloads in the same columns.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from copter.errors import InputError
from copter.problems.cluster.builtin import builtin_goodput_profiles
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles import Profile
from copter.problems.cluster.scenario import Scenario
from copter.problems.cluster.traces.families import Shape, generate
from copter.problems.cluster.traces.registry import find
from copter.problems.cluster.workload import JobSubmission
from copter.problems.reading import read_csv

FOLDER = "petuum_adaptdl_osdi21-artifact/simulator"
REQUIRED = ("name", "time", "application", "num_replicas", "batch_size")
WORKLOADS = 8
"""Workloads in each folder of the artifact, counted from 1."""


def read_pollux_workload(
    path: str | Path, applications: Collection[str] | None = None
) -> list[JobSubmission]:
    """Jobs of a workload, by time, tuned to the file's GPU counts and batch sizes.

    Parameters
    ----------
    applications : collection of str, optional
        Known applications; another one in the file is an error.

    Returns
    -------
    list of JobSubmission

    Raises
    ------
    InputError
        A missing column or value, or one that makes no sense; names the file, the line and the field.
    """
    jobs: list[JobSubmission] = []
    seen: dict[str, int] = {}
    for row in read_csv(path, REQUIRED):
        name, application = row.text("name"), row.text("application")
        if name in seen:
            raise row.error("name", f"{name!r} is also on line {seen[name]}")
        if applications is not None and application not in applications:
            known = ", ".join(sorted(applications))
            raise row.error("application", f"{application!r} has no profile; there are: {known}")
        counts = {field: row.whole(field) for field in ("num_replicas", "batch_size")}
        for field, value in counts.items():
            if value < 1:
                raise row.error(field, f"{value} must be at least 1")
        seen[name] = row.line
        jobs.append(
            JobSubmission(
                name,
                row.amount("time"),
                "training",
                application,
                tuned_gpus=counts["num_replicas"],
                batch_size=counts["batch_size"],
            )
        )
    return sorted(jobs, key=lambda job: job.time)


def pollux(
    cluster: Cluster, seed: int, data: Path | None, folder: str = "workloads", **settings: Any
) -> Scenario:
    """A workload of Pollux' artifact: the one with the number 1 + seed (mod 8); or one like it.

    Parameters
    ----------
    folder : str
        Such as "workloads-2.0".
    **settings
        Of :class:`.families.Shape`; of an artifact's workload only ``jobs``, the first so many.

    Raises
    ------
    InputError
        The folder of real traces has no such workload.
    """
    shape = Shape(**settings)
    file = f"{folder}/workload-{1 + seed % WORKLOADS}.csv"
    path = find(data, f"{FOLDER}/{file}", file)
    if path is None:
        if data is not None and folder != "workloads":
            raise InputError(data, file, "is not there")
        return generate("pollux", cluster, seed, shape)
    if set(settings) - {"jobs"}:
        raise ValueError(
            f"{path}: the workload is as it is: no {', '.join(sorted(set(settings) - {'jobs'}))}"
        )
    profiles: dict[str, Profile] = dict(builtin_goodput_profiles())
    submissions = read_pollux_workload(path, profiles)
    return Scenario(cluster, submissions[: shape.jobs], profiles)
