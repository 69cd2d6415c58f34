"""SenseTime's Helios trace: the reader of a cluster's ``cluster_log.csv``, and samples of it.

The file has ``job_id, user, vc, gpu_num, cpu_num, node_num, state, submit_time, start_time, end_time,
duration, queue``.  The reader uses the virtual cluster (``vc``), the GPUs, the date and time of submission,
and the seconds of run time (``duration``).  Jobs without GPUs are left out.  Sizes are determined by GPU
time, as for Philly.

Source: thesis 3.4.1, whose samples are of the cluster Saturn; Hu et al., Characterization and Prediction of
Deep Learning Workloads in Large-Scale GPU Datacenters, SC 2021.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from pathlib import Path

from copter.problems.cluster.traces.philly import TracedJob, read_time, sampled, since_midnight
from copter.problems.reading import read_csv

_FILE = "HeliosData/data/Saturn/cluster_log.csv"
_REQUIRED = ("vc", "gpu_num", "submit_time", "duration")


def _read_helios(path: str | Path) -> list[TracedJob]:
    """Return the jobs of the trace that have GPUs, by time of submission."""
    rows: list[tuple[datetime, float, int, str]] = []
    for row in read_csv(path, _REQUIRED):
        gpus = row.whole("gpu_num")
        if gpus < 0:
            raise row.error("gpu_num", f"{gpus}: must not be negative")
        if gpus:
            rows.append((read_time(row, "submit_time"), row.amount("duration"), gpus, row.text("vc")))
    return since_midnight(rows)


@lru_cache(maxsize=1)
def _helios_jobs(path: Path) -> tuple[TracedJob, ...]:
    """Return the jobs of the trace, see `_read_helios`; read once in each process."""
    return tuple(_read_helios(path))


helios = sampled("helios", _helios_jobs, _FILE, "Saturn/cluster_log.csv", "cluster_log.csv")
