"""Seconds of Sia's policy with COpter, with parts (POP-k) and with LP*, and of its relaxation with solvers.

The jobs of Table 4.1 and Figure 4.1 are the authors' days sampled from Alibaba's PAI trace: 2,000 jobs
on 512 GPUs, 10,000 on 2,560, 40,000 on 10,240.  The authors published no day of 100,000 jobs on 25,600 GPUs.
It is made from the largest day: every job occurs two or three times, with copies at most five minutes apart.
The solve time is that of the whole policy, with edits and shim; for POP-k, of the longest part.  LP* is HiGHS
with a kept basis, which plays the same programs as COpter.

The rounds of Figures 4.3 and 4.6 are those of a generated cluster in a steady state.

Source: thesis, sections 3.5.7, 4.1, 4.3.1, 4.5.1 and 4.5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from copter.arrays import Floats
from copter.bench.course import Course
from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure
from copter.bench.rounds import BenchJob, measure
from copter.bench.rounds import play as play_rounds
from copter.bench.settings import Record, SolverSettings
from copter.bench.solvers import entrant
from copter.errors import InputError
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.registry import by_name, make_policy
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.reading import find
from copter.problems.sia.course import record_sia
from copter.problems.sia.generator import read_scenario
from copter.problems.sia.reproductions import POLICIES
from copter.solvers.base import Stopwatch
from copter.solvers.baselines.program_copy import Copy

FOLDER = "suhasjs_continuous-scheduling"
"""Name of the folder of the authors' workloads in the folder of real traces."""
_APART_SECONDS = 300.0
"""Largest difference between the arrivals of a job and its copy, in seconds."""
_DAYS = {512: ("2kjobs_24hrs_pai", 10), 2560: ("10kjobs_24hrs_pai", 2), 10240: ("40kjobs_24hrs_pai", 1)}
"""Folder and number of the authors' days, by number of GPUs."""
_PERCENTS = (10, 25, 50, 75, 90, 99, 100)
"""Percentiles of solve times, for the distribution of Figure 4.5."""
_COLUMNS = ("columns, median", "columns, most")
_WARM_UP_HOURS = 0.1
"""Hours that are played first, without timing, to compile kernels."""
_TOLERANCE, _ROUNDS = 1e-4, 4
"""Tolerance and number of rounds of the relaxations of Figure 4.3; the first round is left out."""
_LIMIT = 60.0
"""Time limit of a round in seconds; a solver that exceeds it is not run on larger sizes."""


def play(scenario: Scenario, policy: Policy, hours: float | None = None) -> dict[str, float]:
    """Simulate until all jobs are complete, or for a number of hours.

    Return average JCT and makespan in hours, unless `hours` is given, percentiles of the solve times in
    seconds, and the numbers of columns of the median and the largest program, which are NaN for POP.
    """
    simulator = Simulator(scenario, policy, max_hours=hours)
    records = list(simulator.run())
    solves = [
        float(record.figures.get("parallel_seconds_estimated", record.policy_seconds)) for record in records
    ]
    times = np.percentile(solves, _PERCENTS).tolist()
    columns = [float(record.figures.get("variables", math.nan)) for record in records]
    shown = {f"solve p{percent}": value for percent, value in zip(_PERCENTS, times, strict=True)}
    shown |= dict(zip(_COLUMNS, (float(np.median(columns)), max(columns)), strict=True))
    if hours is not None:
        return shown
    jobs = simulator.job_results()
    span = max(job.finished for job in jobs) - min(job.submitted for job in jobs)
    jct = float(np.mean([job.jct for job in jobs]))
    return {"average JCT": jct / 3600.0, "makespan": span / 3600.0, **shown}


def day(data: Path, gpus: int, number: int = 1, *, hours: float = math.inf) -> Scenario:
    """Return one of the authors' days on its cluster, with the jobs of the first hours.

    Days are numbered from 1; numbers beyond the last day start again at 1.
    """
    root = find(data, FOLDER)
    if root is None:
        raise InputError(data, FOLDER, "does not exist")
    folder, count = _DAYS[gpus]
    path = root / "simulator" / "workloads" / folder / f"workload-{(number - 1) % count + 1}.csv"
    if not path.exists():
        raise InputError(path, "file", "the authors' workload does not exist")
    scenario = read_scenario(path, root, gpus)
    return replace(scenario, jobs=[job for job in scenario.jobs if job.time < hours * 3600.0])


def _grown(scenario: Scenario, factor: float, seed: int) -> Scenario:
    """Return a scenario with `factor` times the GPUs and jobs, where copies are a few minutes apart."""
    rng = np.random.default_rng(seed)
    jobs = scenario.jobs
    extra = round(factor * len(jobs)) - len(jobs)
    picked = np.concatenate([rng.permutation(len(jobs)) for _ in range(math.ceil(factor))])[:extra]
    shifts = rng.uniform(-_APART_SECONDS, _APART_SECONDS, extra)
    copies: list[JobSubmission] = []
    for k, (at, shift) in enumerate(zip(picked.tolist(), shifts.tolist(), strict=True)):
        job = jobs[at]
        copies.append(replace(job, name=f"{job.name}+{k}", time=max(job.time + shift, 0.0)))
    ordered = sorted([*jobs, *copies], key=lambda job: job.time)
    return Scenario(scenario.cluster.scaled(factor), ordered, scenario.profiles)


def days(
    effort: Effort,
    *,
    gpus: int,
    samples: int | None = None,
    hours: float | None = None,
    timed: bool = True,
    **settings: Any,
) -> list[PaperFigure]:
    """Return figures of policies on the authors' days for a number of GPUs, for some hours or to the end.

    Without `timed` there are no solve times, so that the policies may run next to each other.
    """
    ends = ["average JCT", "makespan"] if hours is None else []
    solves = [f"solve p{percent}" for percent in _PERCENTS] if timed else []
    units = {"average JCT": "h", "makespan": "h", **dict.fromkeys(solves, "s"), **dict.fromkeys(_COLUMNS, "")}
    most = min(samples or effort.seeds, _DAYS[gpus][1])
    settings |= {"gpus": gpus, "hours": hours, "samples": most, "columns": [*ends, *solves, *_COLUMNS]}
    return grid(effort, _day, units, timed=timed, **settings)


def _day(
    effort: Effort,
    row: str,
    k: int,
    *,
    gpus: int,
    hours: float | None,
    name: str,
    factor: float = 1.0,
    submitted_hours: float = math.inf,
    **options: Any,
) -> dict[str, float]:
    """Return the figures of a policy on a day."""
    assert effort.data is not None  # the command requires it
    first = 1 if factor > 1.0 else effort.seed + k + 1
    scenario = day(effort.data, gpus, first, hours=submitted_hours)
    if factor > 1.0:
        scenario = _grown(scenario, factor, effort.seed)
    if k == 0:
        Simulator(scenario, make_policy(name, **options), max_hours=_WARM_UP_HOURS).play()
    effort.say(f"{row}: {len(scenario.jobs)} jobs on {scenario.cluster.gpus} GPUs, day {k + 1}")
    return play(scenario, make_policy(name, **options), hours)


def policies(effort: Effort, *, factors: Sequence[int], hours: float) -> list[PaperFigure]:
    """Return the milliseconds of policies by the size of the cluster, with proportional workloads.

    `hours`: simulated hours of clusters of more than 64 GPUs.
    """
    figures = []
    for factor in factors:
        cluster = cluster_by_name("heterogeneous-64").scaled(factor)
        scenario = by_name("helios", cluster, effort.seed, effort.data, jobs=160 * factor)
        for name in ("Sia", "Pollux", "Gavel+TJ"):
            effort.say(f"{name}: {len(scenario.jobs)} jobs on {cluster.gpus} GPUs")
            setup = POLICIES[name]
            policy = make_policy(setup.policy, **setup.settings)
            most = None if factor == 1 else hours
            simulator = Simulator(scenario, policy, placer=setup.placer(), max_hours=most)
            seconds = [record.policy_seconds for record in simulator.run()]
            for percent in (25, 50, 75, 95):
                ours = 1000.0 * float(np.percentile(seconds, percent))
                figures.append(PaperFigure(f"{cluster.gpus} GPUs: {name}", f"policy p{percent}", "ms", ours))
    return figures


def relaxations(
    effort: Effort, *, solvers: Sequence[str], sizes: Sequence[tuple[int, int]]
) -> list[PaperFigure]:
    """Return each solver's median seconds of a round by cluster size, NaN above its time limit."""
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


def speed_ups(effort: Effort, *, gpus: int, jobs: int) -> list[PaperFigure]:
    """Return the speed-ups by the solver, by differential updates and by warm starts, as ratios per round.

    The same recorded rounds are solved three times: by a general solver with a new model in each round, and
    by copter's solver with edits in place, with a cold and with a warm start. In a fourth run the program of
    each round is built from nothing.
    """
    played: dict[str, Sequence[Record]] = {}
    with TemporaryDirectory() as folder:
        course = record_sia(Path(folder), gpus=gpus, jobs=jobs, rounds=6, seed=effort.seed)
        for solver in ("highs-simplex", "copter-cold", "copter"):
            effort.say(f"{solver}: {jobs} jobs on {gpus} GPUs")
            played[solver] = measure(course, SolverSettings(solver, _TOLERANCE)).records[1:]
        build = _build_seconds(course)[1:]
    general, cold, warm = (
        _seconds(played[name], "seconds") for name in ("highs-simplex", "copter-cold", "copter")
    )
    # Time of copter's cold solver on a program that is built from nothing.
    rebuilt = cold - _seconds(played["copter-cold"], "edit_seconds") + build
    ratios: Mapping[str, Floats] = {
        "solver": general / rebuilt,
        "differential updates": rebuilt / cold,
        "warm start": cold / warm,
        "all three": general / warm,
    }
    figures = []
    for name, values in ratios.items():
        p10, p50, p90 = np.percentile(values, (10, 50, 90)).tolist()
        shown = {"mean": float(values.mean()), "median": p50, "p10": p10, "p90": p90}
        figures += [PaperFigure(name, what, "x", value) for what, value in shown.items()]
    return figures


def _build_seconds(course: Course) -> Floats:
    """Return the seconds in which the program of each round is built from nothing."""
    under_way, found = course.play(SolverSettings("copter", _TOLERANCE)), []
    assert under_way.program is not None
    for _ in under_way.records:
        watch = Stopwatch()
        Copy(under_way.program)
        found.append(watch())
    return np.array(found)


def _seconds(records: Sequence[Record], field: str) -> Floats:
    return np.array([record[field] for record in records], np.float64)
