"""Microsoft's Philly trace: the reader of ``philly.csv``, samples of it, and its virtual clusters.

The file has ``timestamp, duration, num_gpus, gpu_time, cluster``: date and time of submission, seconds of run
time, GPUs, GPU-seconds, and the virtual cluster.  Pollux' artifact contains it (``simulator/traces``).

Source: Pollux section 5.2 (jobs are sampled from 8 hours of the day, and sorted into sizes by GPU time),
thesis 3.4.1, AFS section 5.1 and Table 3 (virtual clusters).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.traces.families import (
    FAMILIES,
    Shape,
    generate,
    make_scenario,
    published,
    submission,
)
from copter.problems.cluster.traces.tuned import SIA_MODELS, draw_model, size_of
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.reading import CsvRow, find, read_csv

FILE = "petuum_adaptdl_osdi21-artifact/simulator/traces/philly.csv"
_REQUIRED = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
_FIRST_HOUR = 2
"""Hour of the day (UTC) at which the papers' 8 hours begin; the peak is in the sixth hour."""
_LEAST_SECONDS = 60.0
_MOST_GPU_HOURS = 1000.0
_DAY = 86_400.0


@dataclass(frozen=True)
class TracedJob:
    """A job from the log of a production cluster.

    `time`: seconds of its submission since midnight of the trace's first day. `seconds`: run time on its
    GPUs. `tenant`: its virtual cluster.
    """

    time: float
    seconds: float
    gpus: int
    tenant: str

    @property
    def gpu_hours(self) -> float:
        """GPUs times run time, in GPU-hours."""
        return self.gpus * self.seconds / 3600.0


def _read_philly(path: str | Path) -> list[TracedJob]:
    """Return the jobs of the trace, by time of submission."""
    rows: list[tuple[datetime, float, int, str]] = []
    for row in read_csv(path, _REQUIRED):
        when = read_time(row, "timestamp")
        gpus, seconds = row.whole("num_gpus"), row.amount("duration")
        if gpus < 1:
            raise row.error("num_gpus", f"{gpus}: must be at least 1")
        if abs(row.amount("gpu_time") - gpus * seconds) > 1.0:
            raise row.error("gpu_time", f"{row.text('gpu_time')}: must be num_gpus times duration")
        rows.append((when, seconds, gpus, row.text("cluster")))
    return since_midnight(rows)


def read_time(row: CsvRow, name: str) -> datetime:
    """Return the date and time in a field, without its time zone."""
    text = row.text(name)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        raise row.error(name, f"{text[:40]!r}: must be a date and time") from None


def since_midnight(rows: Sequence[tuple[datetime, float, int, str]]) -> list[TracedJob]:
    """Return the jobs by time of submission, from their times, seconds, GPUs and virtual clusters."""
    if not rows:
        return []
    begin = datetime.combine(min(row[0] for row in rows), datetime.min.time())
    jobs = [TracedJob((when - begin).total_seconds(), time, gpus, vc) for when, time, gpus, vc in rows]
    return sorted(jobs, key=lambda job: job.time)


@lru_cache(maxsize=1)
def philly_jobs(path: Path) -> tuple[TracedJob, ...]:
    """Return the jobs of the trace, see `_read_philly`; read once in each process."""
    return tuple(_read_philly(path))


def _sample(
    trace: Sequence[TracedJob],
    jobs: int,
    rng: np.random.Generator,
    models: Mapping[str, tuple[str, ...]],
    hours: float = 8.0,
    first_hour: float = _FIRST_HOUR,
) -> list[JobSubmission]:
    """Return jobs sampled without replacement from given hours of all days, with models of their size.

    `jobs`: number of jobs; if there are fewer, all are used. `models`: models by size,
    :data:`copter.problems.cluster.traces.tuned.SIA_MODELS` or
    :data:`copter.problems.cluster.traces.tuned.POLLUX_MODELS`. `hours`: up to 24. `first_hour`: first hour of
    the day. The jobs are ordered by time, which begins at 0.
    """
    since = [(job, (job.time - first_hour * 3600.0) % _DAY) for job in trace]
    pool = [
        (time, job)
        for job, time in since
        if time < hours * 3600.0 and job.seconds >= _LEAST_SECONDS and job.gpu_hours < _MOST_GPU_HOURS
    ]
    picked = rng.choice(len(pool), min(jobs, len(pool)), replace=False)
    drawn = sorted((pool[k] for k in picked.tolist()), key=lambda entry: entry[0])
    return [
        submission(draw_model(size_of(job.gpu_hours), models, rng), k, time, job.tenant)
        for k, (time, job) in enumerate(drawn)
    ]


def sampled(
    name: str, jobs_of: Callable[[Path], Sequence[TracedJob]], *places: str
) -> Callable[..., Scenario]:
    """Make a trace whose jobs are sampled from a production cluster's file, if it exists.

    `name`: family from which jobs are drawn without the file. `jobs_of`: function that reads the file.
    `places`: possible paths of the file in the folder of real traces.
    """

    def make(
        cluster: Cluster,
        seed: int,
        data: Path | None,
        authors: bool = False,
        first_hour: float = _FIRST_HOUR,
        **settings: Any,
    ) -> Scenario:
        """Return jobs as in the thesis, 160 in 8 hours by default: from the trace's file, or else generated.

        `authors`: use the thesis authors' workloads, see :func:`.families.published`. `first_hour`: first
        hour of the day in the trace. `settings`: settings of :class:`.families.Shape`.
        """
        if authors:
            others = settings if first_hour == _FIRST_HOUR else settings | {"first_hour": first_hour}
            return published(name, cluster, seed, data, others)
        path, shape = find(data, *places), Shape(**settings)
        if path is None:
            return generate(name, cluster, seed, shape)
        rng, family = np.random.default_rng(seed), FAMILIES[name]
        count = family.jobs if shape.jobs is None else shape.jobs
        window = family.hours if shape.hours is None else shape.hours
        jobs = _sample(jobs_of(path), count, rng, SIA_MODELS, window, first_hour)
        return make_scenario(cluster, jobs, rng, shape)

    return make


philly = sampled("philly", philly_jobs, FILE, "philly.csv")
