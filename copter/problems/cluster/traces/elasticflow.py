"""ElasticFlow's traces: jobs of ten production clusters, and scaling curves of models for them.

- ``raw-traces.tar.gz`` has ``cluster01.csv`` to ``cluster10.csv`` with ``job_id, submission_time, duration,
  num_gpu`` (times in seconds).
- A folder ``throughputs_A100`` or ``throughputs_T4`` has ``<model>.csv`` with ``global_batch_size, 1, 2, 4,
  ..``: steps per second by GPU count; 0 or empty where the batch does not fit or was not measured.

The trace does not contain the models.  Each job gets a random model and batch size among those that run on
its GPU count.  Its work is chosen so that it runs for its traced duration on these GPUs; its batch size is
fixed.  Without the files, durations are log-normal, GPU counts are drawn as in ``cluster04.csv``, the largest
trace, and models have the curves of `_CURVES`, which are fitted to the A100 files.
"""

from __future__ import annotations

import csv
import io
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from copter.arrays import Floats, Ints
from copter.errors import InputError
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile, PowerLawProfile
from copter.problems.cluster.registry import SettingsError
from copter.problems.cluster.traces.philly import TracedJob
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.reading import find, read_csv

TRACES = "microsoft_elasticflow-traces/data/raw-traces.tar.gz"
_THROUGHPUTS = "pkusys_ElasticFlow/ElasticFlow/scheduler/throughputs_{}"
_CLUSTERS = 10
_JOBS = 200
"""Default number of jobs of a scenario, which are consecutive jobs of a trace from a random one on."""
_RESTART_SECONDS = 30.0
_MOST_GPUS = 64

_LOG_SECONDS = (9.06, 1.16)
"""Mean and standard deviation of the logarithm of the durations in ``cluster04.csv``."""
_JOBS_PER_HOUR = 11.1
_GPU_SHARES = {1: 0.755, 2: 0.008, 4: 0.034, 8: 0.176, 16: 0.012, 32: 0.015}
_CURVES = {
    # model and batch size: exponent, saturation of .analytic.PowerLawProfile
    "bert-128": (0.79, 6.5),
    "deepspeech2-64": (1.13, 4.4),
    "gpt2-256": (0.87, 7.6),
    "inception3-128": (0.94, 6.9),
    "resnet50-256": (1.05, 9.5),
    "vgg16-256": (1.03, 16.0),
}


@dataclass(frozen=True)
class _Curve:
    """Throughput of a model at a batch size on one type of GPU.

    `gpus`: counts that can run it, ascending. `throughput`: steps per second.
    """

    model: str
    batch_size: int
    gpus: Ints
    throughput: Floats


def _read_trace(path: str | Path, number: int) -> list[TracedJob]:
    """Return the jobs of cluster `number` (1 to 10) in the archive `path`, by time of submission."""
    name = f"cluster{number:02d}.csv"
    where = f"{path}:{name}"
    try:
        with tarfile.open(path) as archive:
            member = archive.extractfile(name)
            assert member is not None
            rows = list(csv.DictReader(io.StringIO(member.read().decode("utf-8-sig"))))
    except (OSError, tarfile.TarError, KeyError, AssertionError, UnicodeDecodeError) as error:
        raise InputError(path, name, f"cannot be read: {error}") from None
    jobs = []
    for line, row in enumerate(rows, 2):
        values = {}
        for field in ("submission_time", "duration", "num_gpu"):
            text = row.get(field) or ""
            if not re.fullmatch(r"\d{1,12}(\.\d+)?", text):
                raise InputError(where, f"line {line}, {field}", f"{text[:40]!r}: must be a number")
            values[field] = float(text)
        gpus = int(values["num_gpu"])
        if gpus < 1 or values["duration"] <= 0:
            raise InputError(where, f"line {line}, num_gpu", "GPUs and duration must be positive")
        jobs.append(TracedJob(values["submission_time"], values["duration"], gpus, name[:-4]))
    return sorted(jobs, key=lambda job: job.time)


def _read_throughputs(folder: str | Path) -> list[_Curve]:
    """Return the curves of all models in a folder."""
    curves = []
    for path in sorted(Path(folder).glob("*.csv")):
        for row in read_csv(path, ("global_batch_size", "1")):
            counts = [1 << k for k in range(_MOST_GPUS.bit_length())]
            texts = {count: row.text(str(count)) for count in counts}
            known = {
                count: row.amount(str(count)) for count, text in texts.items() if text not in ("", "nan")
            }
            gpus = [count for count, value in known.items() if value > 0]
            if not gpus:
                raise row.error("1", "must have a positive throughput")
            speeds = np.array([known[count] for count in gpus])
            curves.append(_Curve(path.stem, row.whole("global_batch_size"), np.array(gpus), speeds))
    return curves


def elasticflow(
    cluster: Cluster, seed: int, data: Path | None, jobs: int = _JOBS, number: int | None = None
) -> Scenario:
    """Return consecutive jobs of one of the traces; without the files, similar jobs.

    `cluster`: must have a GPU type "a100" or "t4" if there are files. `number`: cluster of the trace, from 1
    to 10; default: 1 + seed mod 10.
    """
    number = 1 + seed % _CLUSTERS if number is None else number
    if not (1 <= number <= _CLUSTERS and jobs >= 0):
        raise SettingsError(
            f"number = {number}, jobs = {jobs}: number must be from 1 to {_CLUSTERS}, and jobs not negative"
        )
    rng = np.random.default_rng(seed)
    path = find(data, TRACES, "raw-traces.tar.gz")
    curves = {
        type: _read_throughputs(folder)
        for type in cluster.names
        if (folder := find(data, _THROUGHPUTS.format(type.upper()))) is not None
    }
    if path is None or data is None:
        return _generated(cluster, jobs, rng)
    if not curves:
        raise SettingsError(
            f"cluster = {list(cluster.names)}: must have a100 or t4, as ElasticFlow's throughputs"
        )
    trace = _read_trace(path, number)
    begin = int(rng.integers(max(len(trace) - jobs, 0) + 1))
    return _measured(cluster, trace[begin : begin + jobs], curves, rng)


def _measured(
    cluster: Cluster, trace: Sequence[TracedJob], curves: Mapping[str, list[_Curve]], rng: np.random.Generator
) -> Scenario:
    """Return a scenario in which each job draws a type, and a curve of this type for the job's GPU count."""
    submissions, profiles = [], {}
    for k, traced in enumerate(trace):
        type = list(curves)[int(rng.integers(len(curves)))]
        wanted = min(1 << (traced.gpus - 1).bit_length(), _MOST_GPUS)
        fit = [curve for curve in curves[type] if wanted in curve.gpus] or curves[type]
        curve = fit[int(rng.integers(len(fit)))]
        at = int(np.searchsorted(curve.gpus, wanted).clip(max=curve.gpus.size - 1))
        same = {
            other: one
            for other in curves
            for one in curves[other]
            if (one.model, one.batch_size) == (curve.model, curve.batch_size)
        }
        counts = sorted({int(count) for one in same.values() for count in one.gpus})
        speeds = {
            other: [float(dict(zip(one.gpus, one.throughput, strict=True)).get(n, 0.0)) for n in counts]
            for other, one in same.items()
        }
        work = traced.seconds * float(curve.throughput[at])
        name = f"{curve.model}-{k}"
        profiles[name] = CountProfile(name, _RESTART_SECONDS, work, counts, speeds)
        gpus, time = int(curve.gpus[at]), traced.time - trace[0].time
        submissions.append(_submission(name, time, curve.model, gpus, curve.batch_size, traced.tenant))
    return Scenario(cluster, submissions, dict(profiles))


def _generated(cluster: Cluster, jobs: int, rng: np.random.Generator) -> Scenario:
    times = np.cumsum(rng.exponential(3600.0 / _JOBS_PER_HOUR, jobs)).tolist()
    seconds = np.exp(rng.normal(*_LOG_SECONDS, jobs)).tolist()
    shares = np.array(list(_GPU_SHARES.values()))
    gpus = rng.choice(list(_GPU_SHARES), jobs, p=shares / shares.sum()).tolist()
    models = rng.choice(list(_CURVES), jobs).tolist()
    submissions: list[JobSubmission] = []
    profiles: dict[str, Profile] = {}
    for k, model in enumerate(models):
        exponent, saturation = _CURVES[model]
        speedup = gpus[k] ** exponent / (1.0 + gpus[k] / saturation)
        name, speed = f"{model}-{k}", dict.fromkeys(cluster.names, 1.0)
        profiles[name] = PowerLawProfile(
            name, _RESTART_SECONDS, seconds[k] * speedup, speed, exponent, saturation
        )
        submissions.append(_submission(name, times[k], model, gpus[k], int(model.rpartition("-")[2]), ""))
    return Scenario(cluster, submissions, profiles)


def _submission(name: str, time: float, model: str, gpus: int, batch_size: int, tenant: str) -> JobSubmission:
    return JobSubmission(
        name, time, model, name, "strong-scaling", batch_size=batch_size, tuned_gpus=gpus, tenant=tenant
    )
