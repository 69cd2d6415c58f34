"""Pollux' artifact: its workloads, and its measurements of jobs.

``workloads*/workload-<number>.csv`` are files for :mod:`~copter.problems.cluster.workload`, with the GPUs and
batch size for which a job was tuned.  ``workloads`` are the paper's, of 160 jobs.  ``workloads-0.5``,
``-1.5`` and ``-2.0`` have that many times the jobs, and ``workloads-realistic`` has the users' own sizes
(Pollux section 5.3.1).

:func:`read_pollux_measurements` reads the step times of six training jobs on T4 GPUs, and their gradient
noise. The folder ``simulator/traces`` has a folder for each model, with these files:

- ``placements.csv`` with ``placement, local_bsz, step_time, sync_time``: a placement is written as its GPUs
  on each node, one digit for each node, "44" for two nodes with four GPUs each.  A profile depends on the
  numbers of nodes and GPUs only, so placements with the same numbers are averaged.
- ``scalability.csv`` with ``num_nodes, num_replicas, local_bsz, step_time, sync_time``: on more nodes.
- ``validation-<batch size>.csv`` with ``progress, iteration, metric, grad_sqr, grad_var``: one line for each
  epoch of a full training run with that batch size.  The smallest one is the initial batch size, and progress
  is in steps of it.

A job trains for all epochs of its file.  This agrees with the shipped results: the run times of jobs that did
not wait are those of all epochs plus the delay of one start, within one or two seconds (ncf, imagenet on 32
GPUs, yolov3 on 4).

Source: Pollux section 5.3 and table 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from copter.errors import InputError
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.profiles.measured import (
    GradientStatistics,
    Measured,
    MeasuredProfile,
    MeasuredStepTimes,
)
from copter.problems.cluster.traces.families import Shape, generate
from copter.problems.cluster.workload import Scenario, read_workload
from copter.problems.reading import CsvRow, find, read_csv

FOLDER = "petuum_adaptdl_osdi21-artifact/simulator"
WORKLOADS = 8
"""Number of workloads in each folder of the artifact; they are counted from 1."""


_TYPE = "t4"
"""GPU type of the testbed (Pollux section 5.1)."""
_RESTART_SECONDS = 30.0
"""Seconds of delay of a job whose GPUs change (Pollux section 5.3)."""
_VALIDATION = "validation-"


def pollux(
    cluster: Cluster, seed: int, data: Path | None, folder: str = "workloads", **settings: Any
) -> Scenario:
    """Return workload number 1 + seed (mod 8) of Pollux' artifact or, without the file, a generated one.

    `folder`: for example "workloads-2.0". `settings`: settings of :class:`.families.Shape`; a workload of the
    artifact accepts only ``jobs``, the number of first jobs to use.
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


def read_pollux_measurements(folder: str | Path) -> dict[str, MeasuredProfile]:
    """Return the profiles of the measured models.

    `folder`: folder with a folder for each model, or its parent. The result is by name of the model.
    """
    folder = Path(folder)
    if (folder / "traces").is_dir():
        folder /= "traces"
    models = sorted(path.parent for path in folder.glob("*/placements.csv"))
    if not models:
        raise InputError(folder, "<model>/placements.csv", "does not exist")
    return {model.name: _read_model(model) for model in models}


def read_steps(folder: str | Path) -> list[tuple[int, int, int, float, float]]:
    """Return the measured steps of one model as (nodes, GPUs, local batch, step and sync seconds)."""
    folder = Path(folder)
    steps = []
    for row in read_csv(folder / "placements.csv", ("placement", "local_bsz", "step_time", "sync_time")):
        placement = row.text("placement")
        if not placement.isdecimal() or "0" in placement:
            raise row.error("placement", f"{placement[:40]!r}: must be a digit from 1 to 9 for each node")
        steps.append((len(placement), sum(map(int, placement)), *_step(row)))
    if (folder / "scalability.csv").exists():
        columns = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
        for row in read_csv(folder / "scalability.csv", columns):
            steps.append((_whole(row, "num_nodes"), _whole(row, "num_replicas"), *_step(row)))
    return steps


def read_step_times(folder: str | Path) -> Measured:
    """Return the measured step times of a model, averaged over placements with the same nodes and GPUs."""
    found: dict[tuple[int, int], dict[int, list[tuple[float, float]]]] = {}
    for nodes, gpus, local, *times in read_steps(folder):
        found.setdefault((nodes, gpus), {}).setdefault(local, []).append((times[0], times[1]))
    return {key: {size: _mean(times) for size, times in by_batch.items()} for key, by_batch in found.items()}


def _read_model(folder: Path) -> MeasuredProfile:
    paths = {_batch_size(path): path for path in folder.glob(f"{_VALIDATION}*.csv")}
    if not paths:
        raise InputError(folder, f"{_VALIDATION}<batch size>.csv", "does not exist")
    sizes = sorted(paths)
    runs = []
    for size in sizes:
        rows = read_csv(paths[size], ("progress", "grad_sqr", "grad_var"))
        runs.append(
            np.array([[row.amount(name) for name in ("progress", "grad_sqr", "grad_var")] for row in rows])
        )
        if not runs[-1].size:
            raise InputError(paths[size], "progress", "must have at least one epoch")
    epochs = min(len(run) for run in runs)
    table = np.stack([run[:epochs] for run in runs], axis=1)
    gradients = GradientStatistics(np.array(sizes, np.float64), table[:, :, 1], table[:, :, 2])
    progress = runs[0][:epochs, 0]
    try:
        times = MeasuredStepTimes(read_step_times(folder))
        return MeasuredProfile(folder.name, _RESTART_SECONDS, progress, times, gradients, _TYPE, sizes[-1])
    except InputError:
        raise
    except ValueError as error:
        raise InputError(folder, "measurements", str(error)) from None


def _batch_size(path: Path) -> int:
    text = path.stem.removeprefix(_VALIDATION)
    if not text.isdecimal() or int(text) < 1:
        raise InputError(path, "file", f"{text!r} in its name: must be a batch size")
    return int(text)


def _step(row: CsvRow) -> tuple[int, float, float]:
    return _whole(row, "local_bsz"), row.amount("step_time"), row.amount("sync_time")


def _whole(row: CsvRow, name: str) -> int:
    value = row.whole(name)
    if value < 1:
        raise row.error(name, f"{value}: must be at least 1")
    return value


def _mean(times: list[tuple[float, float]]) -> tuple[float, float]:
    step, sync = np.mean(times, axis=0)
    return float(step), float(sync)
