"""SenseTime's Helios trace: the reader of a cluster's ``cluster_log.csv``, and samples of it.

The file has ``job_id, user, vc, gpu_num, cpu_num, node_num, state, submit_time, start_time, end_time,
duration, queue``: date and time of submission, seconds of run time, and the virtual cluster.  Jobs without
GPUs are left out.  Sizes are those of Philly, by GPU time.

Source: thesis 3.4.1, whose samples are of the cluster Saturn; Hu et al., Characterization and Prediction of
Deep Learning Workloads in Large-Scale GPU Datacenters, SC 2021.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.traces.families import FAMILIES, Shape, generate, make_scenario, published
from copter.problems.cluster.traces.philly import FIRST_HOUR, TracedJob, read_time, sample, since_midnight
from copter.problems.cluster.traces.tuned import SIA_MODELS
from copter.problems.cluster.workload import Scenario
from copter.problems.reading import find, read_csv

FILE = "HeliosData/data/Saturn/cluster_log.csv"
REQUIRED = ("vc", "gpu_num", "submit_time", "duration")


def read_helios(path: str | Path) -> list[TracedJob]:
    """Jobs of the trace with GPUs, by time of submission.

    Raises
    ------
    InputError
        A missing column or value, or one that makes no sense; names the file, the line and the field.
    """
    rows: list[tuple[datetime, float, int, str]] = []
    for row in read_csv(path, REQUIRED):
        gpus = row.whole("gpu_num")
        if gpus < 0:
            raise row.error("gpu_num", f"{gpus} must not be negative")
        if gpus:
            rows.append((read_time(row, "submit_time"), row.amount("duration"), gpus, row.text("vc")))
    return since_midnight(rows)


@lru_cache(maxsize=1)
def helios_jobs(path: Path) -> tuple[TracedJob, ...]:
    """Jobs of the trace, see :func:`read_helios`; read once for all samples of a process."""
    return tuple(read_helios(path))


def helios(
    cluster: Cluster,
    seed: int,
    data: Path | None,
    authors: bool = False,
    first_hour: float = FIRST_HOUR,
    **settings: Any,
) -> Scenario:
    """Jobs as in the thesis: 160 in 8 hours, from the trace where there is one, else like the authors'.

    Parameters
    ----------
    authors : bool
        The thesis authors' own workloads, see :func:`.families.published`.
    first_hour : float
        Of the day, of the trace.
    **settings
        Settings of :class:`.families.Shape`.
    """
    if authors:
        others = settings if first_hour == FIRST_HOUR else settings | {"first_hour": first_hour}
        return published("helios", cluster, seed, data, others)
    path, shape = find(data, FILE, "Saturn/cluster_log.csv", "cluster_log.csv"), Shape(**settings)
    if path is None:
        return generate("helios", cluster, seed, shape)
    rng, family = np.random.default_rng(seed), FAMILIES["helios"]
    count = family.jobs if shape.jobs is None else shape.jobs
    window = family.hours if shape.hours is None else shape.hours
    jobs = sample(helios_jobs(path), count, rng, SIA_MODELS, window, first_hour)
    return make_scenario(cluster, jobs, rng, shape)
