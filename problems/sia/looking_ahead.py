"""Sia looking ahead, beside itself blind and itself that knows all: profiles of earlier jobs, and prices.

*Profiles*: Sia begins with the models of earlier jobs of the same user and application
(:class:`~copter.problems.cluster.estimation.estimators.Remember`) in place of none, or of profiling each job.
The forecast is noise where jobs are called alike at random.

*Prices*: half of the jobs may wait, for a day at most.  GPU-hours cost :data:`BASE` on average, each type's
price goes up and down once a day by :data:`SWING` with a phase of its own, and wanders by :data:`WANDER`; a
week of prices is known.  Blind is who sees the prices of the hour, and where they are low, and waits for no
other one.  The forecast is noise where every hour's price is drawn anew.  What jobs cost is the
GPU-hours that they held at their prices.

No paper has figures of it: the thesis names both as future work (section 6.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from copter.bench.reproduction import Effort, Figure, Reproduction, mean_figure
from copter.problems.cluster.estimation.estimators import Remember, make_estimator
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.policy import Estimator
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.prices import HOUR, Prices, total_cost
from copter.problems.cluster.registry import by_name
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.sia.comparison import ratio
from copter.problems.sia.scheduler import Sia

KINDS = 5
"""Names of jobs that are called alike at random."""
WAIT_HOURS = 24.0
DAYS_BEFORE, DAYS = 7, 14
SWING, WANDER = 0.4, 0.1
BASE: Mapping[str, float] = {"t4": 0.35, "rtx": 0.8, "quad": 1.2, "a100": 3.0}
"""Price of a GPU-hour, of types that are known; 1 of others."""
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


def _pai(effort: Effort, k: int) -> Scenario:
    size: dict[str, Any] = {"jobs": 60, "hours": 3.0} if effort.quick else {"jobs": 1000}
    return by_name("pai", cluster_by_name("pai-256"), effort.seed + k, effort.data, **size)


def _learned(effort: Effort, name: str, k: int) -> float:
    """Average JCT, in hours."""
    scenario = _philly(effort, k)
    effort.say(f"{name}: {len(scenario.jobs)} jobs, sample {k + 1} of {effort.seeds}")
    estimator = ESTIMATORS[name](effort.seed + k)
    jobs = Simulator(scenario, Sia(), placer=SiaPlacer(), estimator=estimator).play().job_results()
    return float(np.mean([job.jct for job in jobs])) / HOUR


def _profiles(effort: Effort) -> list[Figure]:
    cases = [(name, k) for name in ESTIMATORS for k in range(effort.seeds)]
    found = effort.each(_learned, cases)
    jct = {name: found[n * effort.seeds : (n + 1) * effort.seeds] for n, name in enumerate(ESTIMATORS)}
    figures = [mean_figure(name, "average JCT", "h", values) for name, values in jct.items()]
    blind = float(np.mean(jct["blind"]))
    for name in list(ESTIMATORS)[1:]:
        figures.append(ratio(name, "JCT below blind", float(np.mean(jct[name])), blind))
    return figures


def make_prices(types: tuple[str, ...], seed: int, *, noise: bool = False) -> Prices:
    """Prices of some weeks, by hour.

    Parameters
    ----------
    noise : bool
        Every hour's price is drawn anew, and says nothing about another one.
    """
    rng = np.random.default_rng(seed)
    hours = np.arange(-DAYS_BEFORE * 24, (DAYS - DAYS_BEFORE) * 24)
    table = {}
    for type in types:
        if noise:
            shape = 1.0 + rng.uniform(-SWING, SWING, hours.size)
        else:
            daily = SWING * np.sin(2 * math.pi * (hours / 24.0 + rng.uniform()))
            walk, wandering = 0.0, []
            for step in rng.normal(0.0, WANDER, hours.size).tolist():
                walk = 0.9 * walk + step * math.sqrt(1.0 - 0.81)
                wandering.append(walk)
            shape = np.maximum(1.0 + daily + np.array(wandering), 0.1)
        table[type] = BASE.get(type, 1.0) * shape
    return Prices(table, int(hours[0]))


PLANS: Mapping[str, dict[str, Any] | None] = {
    "without prices": None,
    "blind": {"forecast": "present"},
    "ahead": {"forecast": "past"},
    "prices known": {"forecast": "known"},
}


def _priced(effort: Effort, days: str, noise: bool, name: str, k: int) -> dict[str, float]:
    """What the jobs cost, those that wait and the others' JCT, and how many are late."""
    scenario = (_philly if days == "Philly" else _pai)(effort, k)
    effort.say(f"{days}, {name}: {len(scenario.jobs)} jobs, sample {k + 1} of {effort.seeds}")
    prices = make_prices(scenario.cluster.names, effort.seed + k, noise=noise)
    rng = np.random.default_rng((effort.seed + k, 1))
    waits = rng.uniform(size=len(scenario.jobs)) < 0.5
    jobs = [
        replace(job, deadline=job.time + WAIT_HOURS * HOUR) if wait else job
        for job, wait in zip(scenario.jobs, waits.tolist(), strict=True)
    ]
    settings = PLANS[name]
    policy = Sia() if settings is None else Sia(prices=prices, **settings)
    simulator = Simulator(replace(scenario, jobs=jobs), policy, placer=SiaPlacer()).play()
    deadlines = {job.name: job.deadline for job in jobs}
    done = simulator.job_results()
    late = [job.finished > (deadlines[job.name] or math.inf) for job in done]
    return {
        "cost": total_cost(simulator.segments, prices),
        "JCT of jobs that cannot wait": float(
            np.mean([job.jct for job in done if deadlines[job.name] is None]) / HOUR
        ),
        "late": 100.0 * sum(late) / max(int(waits.sum()), 1),
    }


_UNITS = {"cost": "", "JCT of jobs that cannot wait": "h", "late": "%"}


def _prices(effort: Effort) -> list[Figure]:
    settings = [(days, noise) for days in ("Philly", "PAI") for noise in (False, True)]
    cases = [(*one, name, k) for one in settings for name in PLANS for k in range(effort.seeds)]
    found = dict(zip(cases, effort.each(_priced, cases), strict=True))
    figures = []
    for days, noise in settings:
        cost = {}
        label = f"{days}, noise" if noise else days
        for name in PLANS:
            samples = [found[days, noise, name, k] for k in range(effort.seeds)]
            for column, unit in _UNITS.items():
                figures.append(
                    mean_figure(f"{label}: {name}", column, unit, [one[column] for one in samples])
                )
            cost[name] = float(np.mean([one["cost"] for one in samples]))
        for name in ("ahead", "prices known"):
            figures.append(ratio(f"{label}: {name}", "cost below blind", cost[name], cost["blind"]))
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
    Reproduction(
        "thesis-6.2-prices",
        "Sia with jobs that wait for cheap hours, beside Sia blind and with prices known",
        "thesis, section 6.2",
        "Proposed there, without figures. Prices are drawn; half of the jobs may wait for a day.",
        _prices,
        minutes=60.0,
        seeds=5,
    ),
)
