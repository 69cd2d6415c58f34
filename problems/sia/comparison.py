"""Sia beside its rivals on one workload: what the tables and figures of the thesis' chapter 3 are made of.

Every policy runs as in the thesis (section 3.4.3): Sia and Pollux in rounds of a minute, Gavel, Shockwave and
Themis in rounds of six with TunedJobs.  Sia places its jobs by its three rules, Pollux chooses nodes itself,
and the others' GPUs are counted: as in the authors' simulator, their jobs may share nodes.  Sia profiles a
job on one GPU of each type and learns the rest, Pollux learns one model for all types, and the others know
the throughput of a job's own size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from copter.bench.reproduction import Effort, Figure, mean_figure
from copter.problems.cluster.estimation.estimators import make_estimator
from copter.problems.cluster.placement import Placer, SiaPlacer
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.registry import by_name, make_policy
from copter.problems.cluster.report.metrics import gpu_hours, summarise
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.traces.families import published_files
from copter.problems.cluster.workload import Scenario

LONG_ROUND_SECONDS = 360.0
Key = TypeVar("Key")
Sample: TypeAlias = tuple[dict[str, float], dict[tuple[str, str], float]]
"""Figures of a run, and GPU-hours a job by model and GPU type."""


@dataclass(frozen=True)
class Rival:
    """A policy as the thesis runs it.

    Attributes
    ----------
    policy : str
        Its name here.
    settings : mapping of str to object
        Settings of the policy.
    placer : callable
        Makes a placer, or None where GPUs are only counted.
    estimator : str
        What it knows of the jobs, see :mod:`copter.problems.cluster.estimation.estimators`.
    """

    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    placer: Callable[[], Placer | None] = SiaPlacer
    estimator: str = "oracle"


def _counted() -> None:
    """No placer."""
    return None


def _slow(policy: str, **settings: Any) -> Rival:
    return Rival(policy, {"round_seconds": LONG_ROUND_SECONDS, **settings}, _counted)


RIVALS = {
    "Sia": Rival("sia", estimator="bootstrap"),
    "Pollux": Rival("pollux", estimator="type-blind"),
    "Gavel+TJ": _slow("gavel-max-sum"),
    "Shockwave+TJ": _slow("shockwave", lam=0.1, power=10.0),
    "Themis+TJ": _slow("themis"),
}
"""By the thesis' names; Gavel is max-sum-throughput, and (k, lambda) of Shockwave is (10, 1e-1)."""

COLUMNS: Mapping[str, tuple[str, str, float]] = {
    "average JCT": ("average_jct_hours", "h", 1.0),
    "p99 JCT": ("p99_jct_hours", "h", 1.0),
    "makespan": ("makespan_hours", "h", 1.0),
    "GPU-hours a job": ("gpu_hours_per_job", "h", 1.0),
    "average contention": ("average_contention", "", 1.0),
    "max contention": ("max_contention", "", 1.0),
    "restarts a job": ("restarts_per_job", "", 1.0),
    "worst FTF": ("worst_ftf", "", 1.0),
    "unfair jobs": ("unfair_fraction", "%", 100.0),
    "worst FTF, authors' reading": ("worst_ftf_authors", "", 1.0),
    "unfair jobs, authors' reading": ("unfair_fraction_authors", "%", 100.0),
}
"""Column name: a figure of :func:`copter.problems.cluster.report.metrics.summarise`, its unit and factor."""


@dataclass(frozen=True)
class Setting:
    """A workload on a cluster.

    Attributes
    ----------
    trace, cluster : str
        Names; the trace without data is generated.
    settings : mapping of str to object
        Settings of the trace.
    authors : bool
        The authors' published workloads, where there are some.
    """

    trace: str
    cluster: str = "heterogeneous-64"
    settings: Mapping[str, Any] = field(default_factory=dict)
    authors: bool = False

    def scenario(self, effort: Effort, seed: int) -> Scenario:
        """Its sample with a seed; a quarter of the jobs for a quick look."""
        settings = dict(self.settings)
        if self.authors and published_files(self.trace, effort.data):
            whole = by_name(self.trace, cluster_by_name(self.cluster), seed, effort.data, authors=True)
            fewer = math.ceil(len(whole.jobs) / 4) if effort.quick else len(whole.jobs)
            return Scenario(whole.cluster, whole.jobs[:fewer], whole.profiles)
        if effort.quick:
            whole = by_name(self.trace, cluster_by_name(self.cluster), seed, effort.data, **settings)
            hours = math.ceil(max(job.time for job in whole.jobs) / 3600.0)
            settings |= {"jobs": math.ceil(len(whole.jobs) / 4), "hours": hours / 4}
        return by_name(self.trace, cluster_by_name(self.cluster), seed, effort.data, **settings)


def play(scenario: Scenario, rival: Rival, seed: int = 0) -> Sample:
    """Simulate until all jobs are complete.

    Parameters
    ----------
    seed : int
        Seed of the noise of what is measured.

    Returns
    -------
    figures : dict of str to float
        The figures of :func:`~copter.problems.cluster.report.metrics.summarise`.
    hours : dict of (str, str) to float
        GPU-hours a job by model and GPU type.
    """
    policy = make_policy(rival.policy, **rival.settings)
    estimator = make_estimator(rival.estimator, seed)
    simulator = Simulator(scenario, policy, placer=rival.placer(), estimator=estimator).play()
    jobs = simulator.job_results()
    figures = summarise(scenario, jobs, simulator.records, simulator.segments)
    return figures, gpu_hours(jobs, simulator.segments)


def samples(effort: Effort, cases: Mapping[Key, tuple[Setting, str, str]]) -> dict[Key, list[Sample]]:
    """Outcomes of policies on each sample of their workloads, see :func:`play`.

    Parameters
    ----------
    cases : mapping of key to (Setting, str, str)
        Workload, name of the policy in :data:`RIVALS`, and what is said before the name.

    Returns
    -------
    dict of key to list of (dict, dict)
    """
    found = effort.each(_sample, [(*case, k) for case in cases.values() for k in range(effort.seeds)])
    return {key: found[n * effort.seeds : (n + 1) * effort.seeds] for n, key in enumerate(cases)}


def _sample(effort: Effort, setting: Setting, name: str, label: str, k: int) -> Sample:
    scenario = setting.scenario(effort, effort.seed + k)
    effort.say(f"{label}{name}: {len(scenario.jobs)} jobs, sample {k + 1} of {effort.seeds}")
    return play(scenario, RIVALS[name], effort.seed + k)


def row(
    name: str,
    outcomes: Sequence[Mapping[str, float]],
    paper: Mapping[str, float],
    columns: Sequence[str] = tuple(COLUMNS),
) -> list[Figure]:
    """Means over the samples, beside the paper's.

    Parameters
    ----------
    name : str
        Name of the row.
    outcomes : sequence of mapping of str to float
        Figures of each sample.
    paper : mapping of str to float
        Printed figures by column; there may be none.
    columns : sequence of str
        Names in :data:`COLUMNS`.
    """
    figures = []
    for column in columns:
        key, unit, factor = COLUMNS[column]
        values = (factor * outcome[key] for outcome in outcomes)
        figures.append(mean_figure(name, column, unit, values, paper.get(column, math.nan)))
    return figures


def ratio(name: str, column: str, ours: float, base: float, paper: float = math.nan) -> Figure:
    """How far a figure is below another one, in percent of that."""
    return Figure(name, column, "%", 100.0 * (1.0 - ours / base), paper)
