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
_COLUMNS = {"average JCT": "h", "makespan": "h", "solve p50": "s", "solve p99": "s", "solve max": "s"}

PAPER: Mapping[tuple[int, str], tuple[float, ...]] = {
    (10240, "LP*"): (0.35, 29.3, math.nan, 233.4, math.nan),
    (10240, "POP-16"): (0.41, 31.0, math.nan, 2.9, math.nan),
    (10240, "COpter"): (0.36, 29.4, math.nan, 6.5, math.nan),
    (25600, "LP*"): (0.35, 29.3, math.nan, 2277.0, math.nan),
    (25600, "POP-16"): (0.39, 30.9, math.nan, 66.5, math.nan),
    (25600, "COpter"): (0.36, 29.4, math.nan, 40.3, 70.4),
}
"""Table 4.1, in the order of our columns; the maximum is from the text."""


@dataclass(frozen=True)
class Outcome:
    """Figures of one simulation.

    Attributes
    ----------
    jct, makespan : float
        Hours.
    solves : (rounds,) tuple of float
        Seconds of each round's solve.
    """

    jct: float
    makespan: float
    solves: tuple[float, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """In the order of the table's columns."""
        p50, p99, most = np.quantile(self.solves, (0.5, 0.99, 1.0)).tolist()
        return self.jct, self.makespan, p50, p99, most


def play(scenario: Scenario, policy: Policy) -> Outcome:
    """Simulate until all jobs are complete."""
    simulator = Simulator(scenario, policy)
    solves = []
    for record in simulator.run():
        solves.append(float(record.figures.get("parallel_seconds_estimated", record.policy_seconds)))
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


def _row(row: str, outcomes: Sequence[Outcome], paper: Sequence[float]) -> list[Figure]:
    """Figures of one row: means over the days."""
    cells = zip(_COLUMNS.items(), zip(*(one.values for one in outcomes), strict=True), paper, strict=True)
    return [mean_figure(row, column, unit, values, known) for (column, unit), values, known in cells]


def _measure(
    effort: Effort, days: Sequence[Scenario], policies: Mapping[str, Callable[[], Policy]], gpus: int = 0
) -> list[Figure]:
    """Play every policy on every day; the paper's figures are those for so many GPUs."""
    figures = []
    for name, make in policies.items():
        outcomes = []
        for number, scenario in enumerate(days):
            size = f"{len(scenario.jobs)} jobs on {scenario.cluster.gpus} GPUs"
            effort.say(f"{name}: {size}, day {number + 1} of {len(days)}")
            outcomes.append(play(scenario, make()))
        figures += _row(name, outcomes, PAPER.get((gpus, name), (math.nan,) * len(_COLUMNS)))
    return figures


def _parts(count: int, solver: str = "copter") -> Callable[[], Policy]:
    return partial(Pop, parts=count, solver=solver)


def _data(effort: Effort) -> Path:
    assert effort.data is not None  # the command asks for it
    return effort.data


def _policies(*counts: int) -> dict[str, Callable[[], Policy]]:
    return {"LP*": LpStar, **{f"POP-{count}": _parts(count) for count in counts}, "COpter": Sia}


def _large(effort: Effort) -> list[Figure]:
    """The upper half of Table 4.1."""
    gpus = 512 if effort.quick else 10240
    days = [day(_data(effort), gpus, effort.seed + k + 1) for k in range(min(effort.seeds, DAYS[gpus][1]))]
    return _measure(effort, days, _policies(16), gpus=gpus)


def _largest(effort: Effort) -> list[Figure]:
    """COpter's row of the lower half."""
    whole = day(_data(effort), 512 if effort.quick else 10240)
    gpus = 0 if effort.quick else 25600
    return _measure(effort, [grown(whole, 2.5, effort.seed)], {"COpter": Sia}, gpus=gpus)


def _medium(effort: Effort) -> list[Figure]:
    """All three on a quarter of the cluster; parts of the paper's size are POP-4's."""
    hours = 2.0 if effort.quick else math.inf
    data, seeds = _data(effort), range(min(effort.seeds, DAYS[2560][1]))
    days = [day(data, 2560, effort.seed + k + 1, hours=hours) for k in seeds]
    return _measure(effort, days, _policies(4, 16))


def _trade_off(effort: Effort) -> list[Figure]:
    """Figure 4.1: quality against time."""
    days = [day(_data(effort), 2560, effort.seed + 1, hours=1.0 if effort.quick else 2.0)]
    exact = {f"POP-{k}": _parts(k, MILP) for k in (4, 8, 16, 32)}
    return _measure(effort, days, {"LP*": LpStar, **exact, "COpter": Sia})


def _times(effort: Effort) -> list[Figure]:
    """Figure 4.5: how solve times are distributed."""
    days = [day(_data(effort), 2560, effort.seed + 1, hours=1.0 if effort.quick else 2.0)]
    figures = []
    pop = _parts(16, MILP)
    policies: dict[str, Callable[[], Policy]] = {"LP*": LpStar, "POP-16": pop, "COpter": Sia}
    for name, make in policies.items():
        effort.say(f"{name}: {len(days[0].jobs)} jobs on {days[0].cluster.gpus} GPUs")
        solves = play(days[0], make()).solves
        for percent in (10, 25, 50, 75, 90, 99, 100):
            figures.append(Figure(name, f"solve p{percent}", "s", float(np.percentile(solves, percent))))
    return figures


_HIGHS = "LP* is HiGHS' simplex kept warm, not a commercial solver; 2 cores, not 8 threads."
_RELAXED = "POP's parts are solved by relaxation and shim, not by branch and bound."
_SMALLER = "2,560 GPUs and the jobs of the first 2 hours of the 10,000-job day."
REPRODUCTIONS = (
    Reproduction(
        "thesis-table-4.1",
        "Sia's policy on 10k GPUs by LP*, POP-16 and COpter",
        "thesis, Table 4.1",
        f"{_HIGHS} {_RELAXED}",
        _large,
        needs_data=True,
        minutes=20.0,
    ),
    Reproduction(
        "thesis-table-4.1-25k",
        "Sia's policy on 25k GPUs by COpter",
        "thesis, Table 4.1",
        "COpter's row only; 2 cores, not 8 threads. The 100k jobs are drawn on from the 40k-job day.",
        _largest,
        needs_data=True,
        minutes=10.0,
    ),
    Reproduction(
        "thesis-table-4.1-small",
        "Table 4.1 on 2,560 GPUs, with parts of the paper's size too (POP-4)",
        "thesis, Table 4.1",
        f"A quarter of the cluster and of the jobs. {_HIGHS} {_RELAXED}",
        _medium,
        needs_data=True,
        minutes=10.0,
    ),
    Reproduction(
        "thesis-figure-4.1",
        "Quality against solve time: LP*, POP-4 to POP-32 by branch and bound, COpter",
        "thesis, Figure 4.1",
        f"{_SMALLER} {_HIGHS}",
        _trade_off,
        needs_data=True,
        minutes=30.0,
    ),
    Reproduction(
        "thesis-figure-4.5",
        "Distribution of solve times: LP*, POP-16 by branch and bound, COpter",
        "thesis, Figure 4.5",
        f"{_SMALLER} {_HIGHS}",
        _times,
        needs_data=True,
        minutes=15.0,
    ),
)
