"""Gavel's traces: rigid jobs of its artifact, with the throughputs that its authors measured.

- A trace has one job in each line, without a header.  The fields are separated by tabs: job type, command,
  working directory, name of the argument for steps, whether it needs data, steps, GPUs, priority, SLO,
  arrival in seconds.
- ``simulation_throughputs.json`` has the steps per second of a job alone under the keys GPU type,
  "('<job type>', <GPUs>)" and "null"; the types "<type>_unconsolidated" are for GPUs on several nodes.

Source: Gavel (Narayanan et al., OSDI 2020), the baseline of Shockwave and of Sia.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from copter.errors import InputError
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import SettingsError
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.reading import JsonObject, find, read_json

FOLDER = "stanford-futuredata_gavel/scheduler"
_RESTART_SECONDS = 20.0
"""Seconds of a preemption in Gavel's simulator."""
_FIELDS = 10


@dataclass(frozen=True)
class _GavelJob:
    """A line of a trace.

    `type`: model and batch size, such as "ResNet-50 (batch size 64)". `time`: seconds of its submission.
    """

    type: str
    steps: int
    gpus: int
    time: float


def _read_gavel_trace(path: str | Path) -> list[_GavelJob]:
    """Return the jobs of a trace, by time."""
    jobs = []
    for line, text in enumerate(Path(path).read_text(encoding="utf-8-sig").splitlines(), 1):
        fields = text.split("\t")
        if len(fields) < _FIELDS:
            raise InputError(path, f"line {line}", f"has {len(fields)} fields: must be at least {_FIELDS}")
        for name, value in (("steps", fields[5]), ("GPUs", fields[6]), ("arrival", fields[-1])):
            if not re.fullmatch(r"\d{1,12}(\.\d+)?", value):
                raise InputError(path, f"line {line}, {name}", f"{value[:40]!r}: must be a number")
        jobs.append(_GavelJob(fields[0], int(fields[5]), int(fields[6]), float(fields[-1])))
    return sorted(jobs, key=lambda job: job.time)


def _read_gavel_throughputs(path: str | Path) -> dict[str, dict[tuple[str, int], float]]:
    """Return the steps per second of a job alone, by GPU type, and by job type and GPUs."""
    document = JsonObject(path, read_json(path))
    throughputs: dict[str, dict[tuple[str, int], float]] = {}
    for gpu_type in document.fields:
        record = document.record(gpu_type)
        throughputs[gpu_type] = {}
        for name in record.fields:
            key = re.fullmatch(r"\('(.+)', (\d{1,4})\)", name)
            if key is None:
                raise record.error(name[:40], "must be ('<job type>', <GPUs>)")
            throughputs[gpu_type][key[1], int(key[2])] = record.record(name).amount("null")
    return throughputs


def gavel(
    cluster: Cluster, seed: int, data: Path | None, jobs: int | None = None, trace: str = "max_min_fairness"
) -> Scenario:
    """Return one of the traces of Gavel's physical experiments.

    `cluster`: has GPU types of "v100", "p100", "k80". `seed`: has no effect. `data`: folder of real traces,
    required. `jobs`: number of jobs to use, from the first one on. `trace`: name of a file in
    ``traces/physical_cluster``, without its suffix.
    """
    if data is None:
        raise SettingsError("trace 'gavel': data = None: must be the folder of real traces (--data)")
    file = f"{FOLDER}/traces/physical_cluster/{trace}.trace"
    path, speeds = find(data, file), find(data, f"{FOLDER}/simulation_throughputs.json")
    if path is None or speeds is None:
        raise InputError(data, file, "this file or simulation_throughputs.json does not exist")
    throughputs = _read_gavel_throughputs(speeds)
    submissions: list[JobSubmission] = []
    profiles: dict[str, Profile] = {}
    for k, job in enumerate(_read_gavel_trace(path)[:jobs]):
        name = f"{job.type.split(' ')[0]}-{k}"
        known = {type: _speed(throughputs, cluster, type, job) for type in cluster.names}
        if not any(known.values()):
            raise InputError(path, f"job {k}", f"no throughput of {job.type!r} on {job.gpus} GPUs")
        profiles[name] = CountProfile(
            name, _RESTART_SECONDS, job.steps, [job.gpus], {type: [one] for type, one in known.items()}
        )
        submissions.append(JobSubmission(name, job.time, job.type, name, "rigid", job.gpus))
    return Scenario(cluster, submissions, profiles)


def _speed(
    throughputs: Mapping[str, Mapping[tuple[str, int], float]], cluster: Cluster, type: str, job: _GavelJob
) -> float:
    """Return the steps per second on GPUs packed on the fewest nodes; 0 if it was not measured."""
    spread = cluster.packed(type, job.gpus).nodes > 1
    known = throughputs.get(f"{type}_unconsolidated" if spread else type, {})
    return known.get((job.type, job.gpus), 0.0)
