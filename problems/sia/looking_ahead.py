"""Sia with profiles of earlier jobs, compared with Sia without profiles and with Sia that knows all.

Sia begins with the models of earlier jobs of the same user and application
(:class:`~copter.problems.cluster.estimation.estimators.Remember`) in place of none, or of profiling each job.
The forecast is noise where jobs are called alike at random.

No paper has figures of it: the thesis names it as future work (section 6.2).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from copter.bench.reproduction import Effort, Figure, Reproduction, mean_figure
from copter.problems.cluster.estimation.estimators import Remember, make_estimator
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.policy import Estimator
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.registry import by_name
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.sia.comparison import ratio
from copter.problems.sia.scheduler import Sia

KINDS = 5
"""Names of jobs that are called alike at random."""
FIRST_HOURS = (2.0, 8.0, 14.0, 20.0)
"""Hours of Philly's days that samples are of, one after the other."""


def _at_random(job: JobSubmission) -> Sequence[Hashable]:
    """A kind that says nothing about the job."""
    return (sum(job.name.encode()) % KINDS,)


ESTIMATORS: Mapping[str, Callable[[int], Estimator]] = {
    "blind": lambda seed: make_estimator("no-profile", seed),
    "profiling": lambda seed: make_estimator("bootstrap", seed),
    "earlier jobs": lambda seed: make_estimator("remember", seed),
    "earlier jobs, noise": lambda seed: Remember(seed=seed, kinds_of=_at_random),
    "all known": lambda seed: make_estimator("oracle", seed),
}


def _philly(effort: Effort, k: int) -> Scenario:
    seed, jobs = effort.seed + k, {"jobs": 40, "hours": 2.0} if effort.quick else {}
    first = {} if effort.data is None else {"first_hour": FIRST_HOURS[k % len(FIRST_HOURS)]}
    return by_name("philly", cluster_by_name("heterogeneous-64"), seed, effort.data, **jobs, **first)


def _learned(effort: Effort, name: str, k: int) -> float:
    """Average JCT, in hours."""
    scenario = _philly(effort, k)
    effort.say(f"{name}: {len(scenario.jobs)} jobs, sample {k + 1} of {effort.seeds}")
    estimator = ESTIMATORS[name](effort.seed + k)
    jobs = Simulator(scenario, Sia(), placer=SiaPlacer(), estimator=estimator).play().job_results()
    return float(np.mean([job.jct for job in jobs])) / 3600.0


def _profiles(effort: Effort) -> list[Figure]:
    cases = [(name, k) for name in ESTIMATORS for k in range(effort.seeds)]
    found = effort.each(_learned, cases)
    jct = {name: found[n * effort.seeds : (n + 1) * effort.seeds] for n, name in enumerate(ESTIMATORS)}
    figures = [mean_figure(name, "average JCT", "h", values) for name, values in jct.items()]
    blind = float(np.mean(jct["blind"]))
    for name in list(ESTIMATORS)[1:]:
        figures.append(ratio(name, "JCT below blind", float(np.mean(jct[name])), blind))
    return figures


REPRODUCTIONS = (
    Reproduction(
        "thesis-6.2-profiles",
        "Sia that remembers earlier jobs, beside Sia blind, profiling, and all-knowing",
        "thesis, section 6.2",
        "Proposed there, without figures. Philly's jobs of four times of the day, 64 GPUs of three types.",
        _profiles,
        minutes=3.0,
        seeds=8,
    ),
)
