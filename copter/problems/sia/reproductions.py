"""Simulations for tables and figures of the thesis' chapters 3 and 4, listed in `reproductions.toml`.

Every policy runs as in the thesis (section 3.4.3): Sia and Pollux in rounds of a minute; Gavel, Shockwave and
Themis in rounds of six minutes with TunedJobs.  Sia places its jobs by its three rules, and Pollux chooses
nodes itself.  For all other policies, GPUs are only counted: as in the authors' simulator, jobs may share
nodes.  Sia profiles a job on one GPU of each type and learns from its reports.  Pollux learns one model for
all types.  All other policies know the throughput of a job's own size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure
from copter.bench.rounds import BenchJob
from copter.bench.rounds import play as play_rounds
from copter.bench.settings import SolverSettings
from copter.bench.solvers import entrant
from copter.problems.cluster.estimation.estimators import make_estimator
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.registry import by_name, make_policy
from copter.problems.cluster.report.metrics import gpu_hours, summarise
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.traces.families import published_files
from copter.problems.cluster.workload import Scenario
from copter.problems.sia.course import record_sia

_LONG_ROUND_SECONDS = 360.0


@dataclass(frozen=True)
class _PolicySetup:
    """A policy as the thesis runs it: its name, settings, placer, and estimator."""

    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    placer: Callable[[], SiaPlacer | None] = SiaPlacer
    estimator: str = "oracle"


def _counted() -> None:
    """Return no placer, so that GPUs are only counted."""
    return None


def _slow(policy: str, **settings: Any) -> _PolicySetup:
    return _PolicySetup(policy, {"round_seconds": _LONG_ROUND_SECONDS, **settings}, _counted)


POLICIES = {
    "Sia": _PolicySetup("sia", estimator="bootstrap"),
    "Pollux": _PolicySetup("pollux", estimator="type-blind"),
    "Gavel+TJ": _slow("gavel-max-sum"),
    "Shockwave+TJ": _slow("shockwave", lam=0.1, power=10.0),
    "Themis+TJ": _slow("themis"),
}
"""Policies by the thesis' names; Gavel is max-sum-throughput, and Shockwave has (k, lambda) = (10, 1e-1)."""

COLUMNS: Mapping[str, tuple[str, str, float]] = {
    "average JCT": ("average_jct_hours", "h", 1.0),
    "p99 JCT": ("p99_jct_hours", "h", 1.0),
    "makespan": ("makespan_hours", "h", 1.0),
    "queueing": ("average_queue_hours", "h", 1.0),
    "GPU-hours a job": ("gpu_hours_per_job", "h", 1.0),
    "average contention": ("average_contention", "", 1.0),
    "max contention": ("max_contention", "", 1.0),
    "restarts a job": ("restarts_per_job", "", 1.0),
    "worst FTF": ("worst_ftf", "", 1.0),
    "unfair jobs": ("unfair_fraction", "%", 100.0),
    "worst FTF, authors' reading": ("worst_ftf_authors", "", 1.0),
    "unfair jobs, authors' reading": ("unfair_fraction_authors", "%", 100.0),
}
"""For each column: a metric of :func:`copter.problems.cluster.report.metrics.summarise`, unit and factor."""
_UNITS = {column: unit for column, (_, unit, _) in COLUMNS.items()}
_TOLERANCE, _ROUNDS = 1e-4, 4
"""Tolerance and number of rounds of the relaxations of Figure 4.3; the first round is left out."""
_LIMIT = 60.0
"""Time limit of a round in seconds; a solver that exceeds it is not run on larger sizes."""


class Played(NamedTuple):
    """A finished simulation: metrics, and GPU-hours per job by model and GPU type."""

    summary: dict[str, float]
    hours: dict[tuple[str, str], float]


def scenario_of(
    effort: Effort,
    seed: int,
    trace: str,
    cluster: str = "heterogeneous-64",
    *,
    authors: bool = False,
    **settings: Any,
) -> Scenario:
    """Return a sample of a trace, generated if there is no data; a quick run has a quarter of the jobs.

    With `authors`, the sample is the authors' published workload, if it exists.
    """
    if authors and published_files(trace, effort.data):
        whole = by_name(trace, cluster_by_name(cluster), seed, effort.data, authors=True)
        fewer = math.ceil(len(whole.jobs) / 4) if effort.quick else len(whole.jobs)
        return Scenario(whole.cluster, whole.jobs[:fewer], whole.profiles)
    if effort.quick:
        whole = by_name(trace, cluster_by_name(cluster), seed, effort.data, **settings)
        hours = math.ceil(max(job.time for job in whole.jobs) / 3600.0)
        settings |= {"jobs": math.ceil(len(whole.jobs) / 4), "hours": hours / 4}
    return by_name(trace, cluster_by_name(cluster), seed, effort.data, **settings)


def play(scenario: Scenario, setup: _PolicySetup, seed: int = 0) -> Played:
    """Simulate until all jobs are complete; `seed` is the random seed of the noise of measurements."""
    policy = make_policy(setup.policy, **setup.settings)
    estimator = make_estimator(setup.estimator, seed)
    simulator = Simulator(scenario, policy, placer=setup.placer(), estimator=estimator).play()
    jobs = simulator.job_results()
    summary = summarise(scenario, jobs, simulator.records, simulator.segments)
    hours = gpu_hours(jobs, simulator.segments)
    return Played(summary, hours)


def simulated(
    effort: Effort, *, row: str, changes: Sequence[Mapping[str, Any]] = (), **settings: Any
) -> list[PaperFigure]:
    """Return the figures of policies on samples of workloads, see `_sample`, and changes of average JCTs.

    `changes` are settings of :class:`copter.bench.grid.Derived` that compare means of the samples.
    """
    derived = [
        {"field": "average JCT", "how": "above", "paired": False}
        | {"column": f"{one.get('field', 'average JCT')}, change", **one}
        for one in changes
    ]
    return grid(effort, _sample, _UNITS, row=row, derived=derived, **settings)


def _sample(
    effort: Effort,
    row: str,
    k: int,
    *,
    trace: str,
    policy: str = "Sia",
    estimator: str = "",
    options: Mapping[str, Any] | None = None,
    workload: Mapping[str, Any] | None = None,
    first_hours: Sequence[float] = (),
    **which: Any,
) -> dict[str, float]:
    """Play one of :data:`POLICIES` on a sample of a trace, and return the values of :data:`COLUMNS`.

    `estimator`: knowledge of the policy about jobs; default: as in the thesis. `first_hours`: hours of
    the day at which samples of a real trace begin, one after the other.
    """
    settings = dict(workload or {})
    if first_hours and effort.data is not None:
        settings["first_hour"] = first_hours[k % len(first_hours)]
    scenario = scenario_of(effort, effort.seed + k, trace, **which, **settings)
    effort.say(f"{row}: {len(scenario.jobs)} jobs, sample {k + 1} of {effort.seeds}")
    played = play(scenario, _setup(policy, estimator, options), effort.seed + k)
    return {column: factor * played.summary[key] for column, (key, _, factor) in COLUMNS.items()}


def _setup(
    policy: str = "Sia", estimator: str = "", options: Mapping[str, Any] | None = None
) -> _PolicySetup:
    """Return one of :data:`POLICIES` with other settings, and another estimator unless it is empty."""
    setup = POLICIES[policy]
    settings = {**setup.settings, **(options or {})}
    return replace(setup, settings=settings, estimator=estimator or setup.estimator)


def _hours(effort: Effort, trace: str, policy: str, k: int) -> dict[tuple[str, str], float]:
    scenario = scenario_of(effort, effort.seed + k, trace, authors=True)
    effort.say(f"{policy}: {len(scenario.jobs)} jobs, sample {k + 1} of {effort.seeds}")
    return play(scenario, POLICIES[policy], effort.seed + k).hours


def hours_by_type(effort: Effort, *, trace: str, policies: Sequence[str]) -> list[PaperFigure]:
    """Return GPU-hours per job by model, and shares by GPU type, of policies on the authors' workloads."""
    found = effort.each(_hours, [(trace, name, k) for name in policies for k in range(effort.seeds)])
    figures = []
    for number, name in enumerate(policies):
        hours = found[number * effort.seeds : (number + 1) * effort.seeds]
        keys = sorted({key for one in hours for key in one})
        mean = {key: float(np.mean([one.get(key, 0.0) for one in hours])) for key in keys}
        for model in sorted({model for model, _ in keys}):
            parts = {type: value for (known, type), value in mean.items() if known == model}
            total = sum(parts.values())
            figures.append(PaperFigure(f"{model}: {name}", "GPU-hours a job", "h", total))
            figures += [
                PaperFigure(f"{model}: {name}", f"on {type}", "%", 100.0 * value / total)
                for type, value in parts.items()
            ]
    return figures


def relaxations(
    effort: Effort, *, solvers: Sequence[str], sizes: Sequence[tuple[int, int]]
) -> list[PaperFigure]:
    """Return each solver's median seconds of a round by cluster size; NaN above the time limit."""
    figures: list[PaperFigure] = []
    there = list(solvers)
    for gpus, jobs in sizes:
        with TemporaryDirectory() as folder:
            course = record_sia(Path(folder), gpus=gpus, jobs=jobs, rounds=_ROUNDS, seed=effort.seed)
            for solver in tuple(there):
                label = entrant(solver).label
                effort.say(f"{label}: {jobs} jobs on {gpus} GPUs")
                settings = SolverSettings(solver, _TOLERANCE, time_limit=_LIMIT)
                played = play_rounds(BenchJob(course, settings, limit=_LIMIT, warm_up_seconds=10.0)).records[
                    1:
                ]
                seconds = [record["seconds"] for record in played if record["status"] == "optimal"]
                middle = std = math.nan
                if len(seconds) < _ROUNDS - 1:
                    there.remove(solver)
                else:
                    middle, std = float(np.median(seconds)), float(np.std(seconds, ddof=1))
                figures.append(PaperFigure(f"{gpus} GPUs", label, "s", middle, std=std))
    return figures
