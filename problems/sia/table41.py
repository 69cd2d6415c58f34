"""Table 4.1 and Figures 4.1 and 4.5 of the thesis: Sia's program by COpter, by parts (POP-k), and by LP*.

The jobs are the authors' days sampled from Alibaba's PAI trace: 2,000 jobs on 512 GPUs, 10,000 on 2,560,
40,000 on 10,240.  For 100,000 jobs on 25,600 GPUs, of which they publish none, the largest day is drawn on:
every job comes twice or three times, its copies within five minutes of it.

Solve time is that of the whole policy, with edits and shim; of POP-k the longest part's.

Source: thesis, sections 4.1 and 4.5.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from copter.bench.reproduction import Effort, Figure, Reproduction, mean_figure
from copter.errors import InputError
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.reading import find
from copter.problems.sia.generator import read_scenario
from copter.problems.sia.pop import MILP, Pop
from copter.problems.sia.scheduler import LpStar, Sia

FOLDER = "suhasjs_continuous-scheduling"
"""Folder of the authors' workloads, within that of real traces."""
APART_SECONDS = 300.0
"""How far a copy of a job is from it at most."""
DAYS = {512: ("2kjobs_24hrs_pai", 10), 2560: ("10kjobs_24hrs_pai", 2), 10240: ("40kjobs_24hrs_pai", 1)}
"""Folder and number of the authors' days, by GPUs."""
PERCENTS = (10, 25, 50, 75, 90, 99, 100)
"""Of solve times, the distribution of Figure 4.5."""
PAPER: Mapping[tuple[int, str], Mapping[str, float]] = {
    (10240, "LP*"): {"average JCT": 0.35, "makespan": 29.3, "solve p99": 233.4},
    (10240, "POP-16"): {"average JCT": 0.41, "makespan": 31.0, "solve p99": 2.9},
    (10240, "COpter"): {"average JCT": 0.36, "makespan": 29.4, "solve p99": 6.5},
    (25600, "LP*"): {"solve p99": 2277.0},
    (25600, "POP-16"): {"solve p99": 66.5},
    (25600, "COpter"): {"solve p99": 40.3, "solve p100": 70.4},
}
"""Table 4.1 by our columns, without the times of jobs where we do not play the whole day; the maximum is from
the text."""
WARM_UP_HOURS = 0.1
"""Played before, on no clock: kernels are compiled then."""
LARGEST_HOURS = 2.0
"""Of the day on 25,600 GPUs."""


@dataclass(frozen=True)
class Outcome:
    """Figures of one simulation.

    Attributes
    ----------
    jct, makespan : float
        Hours; NaN of a day that is not played to its end.
    solves : (rounds,) tuple of float
        Seconds of each round's solve.
    """

    jct: float
    makespan: float
    solves: tuple[float, ...]

    @property
    def columns(self) -> dict[str, tuple[float, str]]:
        """Values and units by column."""
        times = np.percentile(self.solves, PERCENTS).tolist()
        shown = {f"solve p{percent}": (value, "s") for percent, value in zip(PERCENTS, times, strict=True)}
        if math.isnan(self.jct):
            return shown
        return {"average JCT": (self.jct, "h"), "makespan": (self.makespan, "h"), **shown}


def play(scenario: Scenario, policy: Policy, hours: float | None = None) -> Outcome:
    """Simulate until all jobs are complete, or for so many hours."""
    simulator = Simulator(scenario, policy, max_hours=hours)
    solves = []
    for record in simulator.run():
        solves.append(float(record.figures.get("parallel_seconds_estimated", record.policy_seconds)))
    if hours is not None:
        return Outcome(math.nan, math.nan, tuple(solves))
    jobs = simulator.job_results()
    first = min(job.submitted for job in jobs)
    jct = float(np.mean([job.jct for job in jobs]))
    return Outcome(jct / 3600.0, (max(job.finished for job in jobs) - first) / 3600.0, tuple(solves))


def day(data: Path, gpus: int, number: int = 1, *, hours: float = math.inf) -> Scenario:
    """One of the authors' days, on the cluster that goes with it.

    Parameters
    ----------
    data : Path
        Folder of the real traces.
    gpus : int
        One of :data:`DAYS`.
    number : int
        The number of the day, from 1; after the last one they begin again.
    hours : float
        Only jobs submitted in the first so many hours.

    Raises
    ------
    InputError
        It is not there.
    """
    root = find(data, FOLDER)
    if root is None:
        raise InputError(data, FOLDER, "no such folder")
    folder, count = DAYS[gpus]
    path = root / "simulator" / "workloads" / folder / f"workload-{(number - 1) % count + 1}.csv"
    if not path.exists():
        raise InputError(path, "file", "the authors' workload is not there")
    scenario = read_scenario(path, root, gpus)
    return replace(scenario, jobs=[job for job in scenario.jobs if job.time < hours * 3600.0])


def grown(scenario: Scenario, factor: float, seed: int) -> Scenario:
    """A scenario with so many times the GPUs and the jobs; copies of a job are a few minutes apart.

    Parameters
    ----------
    factor : float
        At least 1.
    """
    rng = np.random.default_rng(seed)
    jobs = scenario.jobs
    extra = round(factor * len(jobs)) - len(jobs)
    picked = np.concatenate([rng.permutation(len(jobs)) for _ in range(math.ceil(factor))])[:extra]
    shifts = rng.uniform(-APART_SECONDS, APART_SECONDS, extra)
    copies: list[JobSubmission] = []
    for k, (at, shift) in enumerate(zip(picked.tolist(), shifts.tolist(), strict=True)):
        job = jobs[at]
        copies.append(replace(job, name=f"{job.name}+{k}", time=max(job.time + shift, 0.0)))
    ordered = sorted([*jobs, *copies], key=lambda job: job.time)
    return Scenario(scenario.cluster.scaled(factor), ordered, scenario.profiles)


def _row(row: str, outcomes: Sequence[Outcome], paper: Mapping[str, float]) -> list[Figure]:
    """Figures of one row: means over the days."""
    shown = [one.columns for one in outcomes]
    return [
        mean_figure(row, column, unit, (one[column][0] for one in shown), paper.get(column, math.nan))
        for column, (_, unit) in shown[0].items()
    ]


def _measure(
    effort: Effort,
    days: Sequence[Scenario],
    policies: Mapping[str, Callable[[], Policy]],
    gpus: int = 0,
    hours: float | None = None,
) -> list[Figure]:
    """Play every policy on every day; the paper's figures are those for so many GPUs."""
    figures = []
    for name, make in policies.items():
        play(days[0], make(), WARM_UP_HOURS)
        outcomes = []
        for number, scenario in enumerate(days):
            size = f"{len(scenario.jobs)} jobs on {scenario.cluster.gpus} GPUs"
            effort.say(f"{name}: {size}, day {number + 1} of {len(days)}")
            outcomes.append(play(scenario, make(), hours))
        figures += _row(name, outcomes, PAPER.get((gpus, name), {}))
    return figures


def _pop(*counts: int) -> dict[str, Callable[[], Policy]]:
    """POP-k by branch and bound, by the names of rows."""
    return {f"POP-{count}": partial(Pop, parts=count, solver=MILP) for count in counts}


PROVEN: Mapping[str, Callable[[], Policy]] = {"LP*": partial(Sia, tolerance=1e-8), **_pop(16), "COpter": Sia}
"""LP* is copter at a tolerance at which its answers are proven optimal, for HiGHS takes too long."""


def _data(effort: Effort) -> Path:
    assert effort.data is not None  # the command asks for it
    return effort.data


def _large(effort: Effort) -> list[Figure]:
    """The upper half of Table 4.1, and of Figure 4.5."""
    gpus = 512 if effort.quick else 10240
    days = [day(_data(effort), gpus, effort.seed + k + 1) for k in range(min(effort.seeds, DAYS[gpus][1]))]
    return _measure(effort, days, PROVEN, gpus)


def _largest(effort: Effort) -> list[Figure]:
    """The lower half."""
    whole = day(_data(effort), 512 if effort.quick else 10240)
    gpus, hours = (0, 0.5) if effort.quick else (25600, LARGEST_HOURS)
    return _measure(effort, [grown(whole, 2.5, effort.seed)], PROVEN, gpus, hours)


def _trade_off(effort: Effort) -> list[Figure]:
    """Figure 4.1: quality against time."""
    days = [day(_data(effort), 2560, effort.seed + 1, hours=1.0 if effort.quick else 2.0)]
    return _measure(effort, days, {"LP*": LpStar, **_pop(4, 8, 16, 32), "COpter": Sia})


_HIGHS = "LP* is HiGHS' simplex kept warm, not a commercial solver; 2 cores, not 8 threads."
_PROVEN = (
    "LP* is copter at a tolerance of 1e-8, at which its answers are proven optimal, not a commercial solver; "
    "2 cores, not 8 threads."
)
REPRODUCTIONS = (
    Reproduction(
        "thesis-table-4.1",
        "Sia's policy on 10k GPUs by LP*, POP-16 and COpter, and how solve times are distributed",
        "thesis, Table 4.1 and Figure 4.5",
        f"{_PROVEN} The authors publish one day of this size.",
        _large,
        needs_data=True,
        minutes=35.0,
        seeds=1,
    ),
    Reproduction(
        "thesis-table-4.1-25k",
        "Sia's policy on 25k GPUs by LP*, POP-16 and COpter, and how solve times are distributed",
        "thesis, Table 4.1 and Figure 4.5",
        f"{_PROVEN} The 100k jobs are drawn on from the 40k-job day; its first {LARGEST_HOURS:g} hours.",
        _largest,
        needs_data=True,
        minutes=10.0,
        seeds=1,
    ),
    Reproduction(
        "thesis-figure-4.1",
        "Quality against solve time: LP*, POP-4 to POP-32 by branch and bound, COpter",
        "thesis, Figure 4.1",
        f"2,560 GPUs and the jobs of the first 2 hours of the 10,000-job day. {_HIGHS}",
        _trade_off,
        needs_data=True,
        minutes=15.0,
        seeds=1,
    ),
)
