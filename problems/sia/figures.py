"""Figures 3.8 and 3.10 to 3.13, 4.2 and 4.4 of the thesis: Sia against itself under other settings.

All runs are on 64 GPUs of three types but for Figures 3.10, 4.2 and 4.4; in Figure 3.10 Pollux and Gavel are
beside it.

Section 3.5.3 of the thesis has a hybrid-parallel GPT that scales linearly, and that Sia scales with the load.
It shows two pictures and prints no figures of them: throughput is linear in GPUs, and under Sia the
job is scaled down when jobs arrive and up again when they leave.  Here the job has an hour for itself; then
40 jobs of the Philly trace arrive within 25 minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from copter.bench.reproduction import Effort, Figure, Reproduction, mean_figure
from copter.problems.cluster.estimation.estimators import make_estimator
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.profiles.hybrid import MICROBATCHES, HybridProfile, gpt_profile
from copter.problems.cluster.registry import by_name, make_policy
from copter.problems.cluster.report.metrics import summarise
from copter.problems.cluster.results import JobRecord, Segment
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.sia.comparison import RIVALS, Setting
from copter.problems.sia.generator import JOBS_PER_GPU_DAY, generate
from copter.problems.sia.policy import SiaPolicy
from copter.problems.sia.replay import NAMES, Replay
from copter.problems.sia.scheduler import Sia
from copter.solvers.registry import make_solver

HELIOS = Setting("helios", authors=True)
BURST_HOURS = (2.5, 3.0)
"""The jobs that section 3.5.6 looks at."""


_JCT = {"average JCT": ("average_jct_hours", "h")}
_TIMES = _JCT | {"p99 JCT": ("p99_jct_hours", "h"), "makespan": ("makespan_hours", "h")}
_GENERATED = (
    "10 samples in the paper; the workload is generated, with the shares and rates of published samples."
)
_AUTHORS = (
    "10 samples in the paper. With real traces the jobs are those of the authors' published workloads, else "
    "generated with their shares and rates."
)
_ORACLE = "Sia knows the true goodput; in the paper it learns it."
ALONE = 3600.0
"""Seconds before the others arrive."""
JOBS, COMPRESSION = 40, 6.0
"""How many others, and how many times as fast they arrive as in the trace."""
EPOCHS = 24.0
"""So many that the job outlasts the others' stay."""
OVERHEAD: Mapping[str, Mapping[int, float]] = {
    "Sia": {50: 96.0, 95: 426.0},
    "Pollux": {50: 2200.0, 95: 4800.0},
    "Gavel+TJ": {50: 13.0, 95: 28.0},
}
"""Milliseconds of the policies on 64 GPUs, by percentile, as section 3.5.7 prints them."""
POLLUX_FACTOR = 4
"""Times the 64 GPUs up to which Pollux is asked: its search grows with jobs and nodes."""
OVERHEAD_HOURS = 4.0
"""Of larger clusters, so many are simulated."""
_SHAPES = {"a100": (2, 16), "rtx": (3, 24)}
"""All nodes of a type in the heterogeneous cluster: nodes and GPUs."""


class Played:
    """Samples of a workload under one setting of Sia.

    Parameters
    ----------
    label : str
        Said before each run.
    **settings
        Settings of :class:`.scheduler.Sia`.
    """

    def __init__(
        self, effort: Effort, label: str, setting: Setting, estimator: str = "oracle", **settings: Any
    ) -> None:
        cases = [(label, setting, estimator, settings, k) for k in range(effort.seeds)]
        found = effort.each(_played, cases)
        self.figures: list[dict[str, float]] = [figures for figures, _ in found]
        self.jobs: list[list[JobRecord]] = [jobs for _, jobs in found]

    def mean(self, name: str) -> float:
        """Mean of a figure over the samples."""
        return float(np.mean([one[name] for one in self.figures]))

    def row(self, row: str, columns: Mapping[str, tuple[str, str]]) -> list[Figure]:
        """Means and deviations of some figures: name and unit by column."""
        figures = []
        for column, (name, unit) in columns.items():
            figures.append(mean_figure(row, column, unit, (one[name] for one in self.figures)))
        return figures

    def burst(self, of: Callable[[JobRecord], float]) -> float:
        """Mean over the jobs submitted in the burst, in hours, over all samples."""
        first, last = (3600.0 * hour for hour in BURST_HOURS)
        values = [of(job) for jobs in self.jobs for job in jobs if first <= job.submitted < last]
        return float(np.mean(values)) / 3600.0 if values else math.nan


def _played(
    effort: Effort, label: str, setting: Setting, estimator: str, settings: Mapping[str, Any], k: int
) -> tuple[dict[str, float], list[JobRecord]]:
    """Figures and jobs of one sample."""
    seed = effort.seed + k
    scenario = setting.scenario(effort, seed)
    effort.say(f"{label}: {len(scenario.jobs)} jobs, sample {k + 1} of {effort.seeds}")
    known = make_estimator(estimator, seed)
    simulator = Simulator(scenario, Sia(**settings), placer=SiaPlacer(), estimator=known).play()
    jobs = simulator.job_results()
    return summarise(scenario, jobs, simulator.records, simulator.segments), jobs


def _change(
    row: str,
    column: str,
    ours: Mapping[str, float],
    base: Mapping[str, float],
    paper: float = math.nan,
) -> Figure:
    """How far one value is above another one, in percent."""
    return Figure(row, f"{column}, change", "%", 100.0 * (ours[column] / base[column] - 1.0), paper)


def _timeshare(effort: Effort) -> list[Figure]:
    """Figure 3.8: a burst with and without the time-share penalty."""
    columns = _JCT | {"queueing": ("average_queue_hours", "h"), "restarts a job": ("restarts_per_job", "")}
    figures: list[Figure] = []
    base: dict[str, float] = {}
    for tau, printed in ((None, math.nan), (180.0, -14.0), (300.0, -12.7)):
        name = "constant penalty" if tau is None else f"tau = {tau:g} s"
        played = Played(effort, name, Setting("spike"), timeshare_seconds=tau)
        figures += played.row(name, columns)
        shown = {
            "JCT of the burst": played.burst(lambda job: job.jct),
            "wait of the burst": played.burst(lambda job: job.started - job.submitted),
        }
        figures += [Figure(name, column, "h", value) for column, value in shown.items()]
        shown["average JCT"] = played.mean("average_jct_hours")
        base = base or shown
        if tau is not None:
            figures.append(_change(name, "average JCT", shown, base, printed))
            figures.append(_change(name, "JCT of the burst", shown, base))
    return figures


def _overhead(effort: Effort) -> list[Figure]:
    """Figure 3.10: policy time by the size of the cluster, the workload in proportion."""
    figures = []
    for factor in (1, 2) if effort.quick else (1, 2, 4, 8, 16, 32):
        cluster = cluster_by_name("heterogeneous-64").scaled(factor)
        scenario = by_name("helios", cluster, effort.seed, effort.data, jobs=160 * factor)
        for name, printed in OVERHEAD.items():
            if name == "Pollux" and factor > POLLUX_FACTOR:
                continue
            effort.say(f"{name}: {len(scenario.jobs)} jobs on {cluster.gpus} GPUs")
            rival = RIVALS[name]
            policy = make_policy(rival.policy, **rival.settings)
            hours = None if factor == 1 else OVERHEAD_HOURS
            simulator = Simulator(scenario, policy, placer=rival.placer(), max_hours=hours)
            seconds = [record.policy_seconds for record in simulator.run()]
            for percent in (25, 50, 75, 95):
                ours = 1000.0 * float(np.percentile(seconds, percent))
                paper = printed.get(percent, math.nan) if factor == 1 else math.nan
                figures.append(
                    Figure(f"{cluster.gpus} GPUs: {name}", f"policy p{percent}", "ms", ours, paper)
                )
    return figures


def _parameters(effort: Effort) -> list[Figure]:
    """Figure 3.11: the fairness knob, and the length of rounds."""
    figures = []
    columns = _TIMES | {"unfair jobs": ("unfair_fraction", "")}
    for p in (-1.0, -0.5, -0.25, 0.25, 0.5, 1.0):
        figures += Played(effort, f"p = {p:g}", HELIOS, p=p).row(f"p = {p:g}", columns)
    base: dict[str, float] = {}
    for seconds, printed in ((60.0, math.nan), (30.0, math.nan), (120.0, math.nan), (300.0, 12.0)):
        name = f"rounds of {seconds:g} s"
        played = Played(effort, name, HELIOS, round_seconds=seconds)
        figures += played.row(name, _TIMES)
        shown = {"average JCT": played.mean("average_jct_hours")}
        base = base or shown
        if seconds != 60.0:
            figures.append(_change(name, "average JCT", shown, base, printed))
    return figures


def _adaptivity(effort: Effort) -> list[Figure]:
    """Figure 3.12: shares of jobs that adapt the GPU count only, or nothing."""
    figures: list[Figure] = []
    jct: dict[tuple[str, float], dict[str, float]] = {}
    for kind in ("strong_scaling", "rigid"):
        for share in (0.0, 1.0) if effort.quick else (0.0, 0.25, 0.5, 0.75, 1.0):
            name = f"{100 * share:g}% {kind.replace('_', '-')}"
            played = Played(effort, name, Setting("philly", settings={kind: share}))
            figures += played.row(name, _JCT | {"makespan": ("makespan_hours", "h")})
            jct[kind, share] = {"average JCT": played.mean("average_jct_hours")}
    rigid, strong, adaptive = jct["rigid", 1.0], jct["strong_scaling", 1.0], jct["rigid", 0.0]
    figures.append(_change("GPU count adapts", "average JCT", strong, rigid, -56.0))
    figures.append(_change("batch size adapts too", "average JCT", adaptive, strong, -13.0))
    return figures


def _estimators(effort: Effort) -> list[Figure]:
    """Figure 3.13: what is known of the jobs' speed."""
    figures: list[Figure] = []
    shown: dict[str, dict[str, float]] = {}
    for name, estimator in (("Oracle", "oracle"), ("Bootstrap", "bootstrap"), ("No Prof", "no-profile")):
        played = Played(effort, name, HELIOS, estimator)
        figures += played.row(name, _TIMES | {"restarts a job": ("restarts_per_job", "")})
        shown[name] = {"average JCT": played.mean("average_jct_hours")}
    figures.append(_change("Bootstrap over Oracle", "average JCT", shown["Bootstrap"], shown["Oracle"], 8.0))
    figures.append(
        _change("No Prof over Bootstrap", "average JCT", shown["No Prof"], shown["Bootstrap"], 30.0)
    )
    return figures


def _evolution(effort: Effort) -> list[Figure]:
    """Figures 4.2 and 4.4: how the program's answer moves over a day, and how integral it is."""
    gpus, hours = (2560, 1.0) if effort.quick else (25600, 24.0)
    scenario = generate(gpus, JOBS_PER_GPU_DAY * gpus, hours=hours, seed=effort.seed)
    policy = SiaPolicy(scenario.cluster, scale_up_limit=None)
    replay = Replay(scenario, make_solver("copter", tolerance=1e-5), policy=policy, max_hours=hours)
    effort.say(f"{len(scenario.jobs)} jobs on {scenario.cluster.gpus} GPUs")
    records = list(replay.run())[1:]
    figures = []
    printed = {"changed": (0.01, "most"), "integral": (99.99, "least")}
    for name in NAMES[:4]:
        values = 100.0 * np.array([getattr(record, name) for record in records])
        paper, which = printed.get(name, (math.nan, ""))
        for what, value in (
            ("median", np.nanmedian(values)),
            ("p95", np.nanpercentile(values, 95)),
            ("least", np.nanmin(values)),
            ("most", np.nanmax(values)),
        ):
            figures.append(Figure(name, what, "%", float(value), paper if what == which else math.nan))
    largest = {
        "path_x": max(record.running + record.queue for record in records),
        "path_n": max(record.n_variables for record in records),
    }
    for name, most in largest.items():
        total = float(np.nansum([getattr(record, name) for record in records]))
        figures.append(Figure(name, "sum over the rounds", "", total))
        # Of the length T^e times the most that there may be: Definition 1 has small exponents e.
        exponent = max(math.log(total / most) / math.log(len(records)), 0.0)
        figures.append(Figure(name, "exponent", "", exponent))
    return figures


def _scaling(profile: HybridProfile) -> list[Figure]:
    """Throughput on all GPUs of a type over that of one replica times the replicas."""
    figures = []
    for type, (nodes, gpus) in _SHAPES.items():
        stages, parameters = profile.pipelines[type]
        replicas = gpus // stages
        one = float(parameters.throughput(1, 1, MICROBATCHES))
        many = float(parameters.throughput(nodes, replicas, MICROBATCHES))
        row = f"{replicas} replicas of {stages} {type}"
        figures.append(Figure(row, "throughput over linear", "x", many / (replicas * one), 1.0))
    return figures


def _mean_gpus(segments: Sequence[Segment], begin: float, end: float) -> float:
    """GPUs that a job held, averaged over a time."""
    held = sum(
        one.gpus * max(0.0, min(one.end, end) - max(one.begin, begin)) for one in segments if one.job == "gpt"
    )
    return held / (end - begin)


def _measure(effort: Effort) -> list[Figure]:
    profile = gpt_profile(EPOCHS)
    before, during, after = [], [], []
    for seed in range(effort.seed, effort.seed + effort.seeds):
        effort.say(f"Sia with the GPT and {JOBS} jobs, seed {seed}")
        base = by_name("philly", cluster_by_name("heterogeneous-64"), seed, effort.data)
        others = [replace(job, time=ALONE + job.time / COMPRESSION) for job in base.jobs[:JOBS]]
        jobs = [JobSubmission("gpt", 0.0, "XXL", "gpt"), *others]
        scenario = Scenario(base.cluster, jobs, {**base.profiles, "gpt": profile})
        simulator = Simulator(scenario, make_policy("sia"), placer=SiaPlacer()).play()
        last, end = (
            max(one.end for one in simulator.segments if (one.job == "gpt") == mine) for mine in (False, True)
        )
        arrived = max(job.time for job in others)
        before.append(_mean_gpus(simulator.segments, ALONE / 2, ALONE))
        during.append(_mean_gpus(simulator.segments, ALONE, arrived + ALONE / 2))
        after.append(_mean_gpus(simulator.segments, min(last, end - ALONE / 4), end))
    return [
        *_scaling(profile),
        *(
            Figure(row, "GPUs of the GPT", "", sum(gpus) / len(gpus))
            for row, gpus in (("alone", before), ("congestion", during), ("at the end", after))
        ),
    ]


REPRODUCTIONS = (
    Reproduction(
        "sia-figure-3.8",
        "Time-share penalty in a burst of jobs",
        "thesis, section 3.5.6 and Figure 3.8",
        f"{_GENERATED} Figure 3.9, the arrivals, is not readable. The printed penalty cannot be meant: see "
        f"copter.problems.sia.scheduler. {_ORACLE}",
        _timeshare,
        minutes=3.0,
    ),
    Reproduction(
        "sia-figure-3.10",
        "Time of the policy by the size of the cluster",
        "thesis, section 3.5.7 and Figure 3.10",
        "One sample, of larger clusters its first 4 hours, and Pollux up to 256 GPUs; copter on 2 cores in "
        "place of GLPK's branch and bound, a compiled genetic algorithm in place of one in Python. "
        f"{_ORACLE}",
        _overhead,
        minutes=10.0,
    ),
    Reproduction(
        "sia-figure-3.11",
        "Fairness knob p, and length of rounds",
        "thesis, section 3.5.8 and Figure 3.11",
        f"{_AUTHORS} {_ORACLE}",
        _parameters,
        minutes=1.5,
        seeds=5,
    ),
    Reproduction(
        "sia-figure-3.12",
        "Jobs that adapt in part, or not at all",
        "thesis, section 3.5.8 and Figure 3.12",
        f"{_GENERATED} {_ORACLE}",
        _adaptivity,
        minutes=10.0,
    ),
    Reproduction(
        "sia-figure-3.13",
        "Oracle, Bootstrap and no profiling",
        "thesis, section 3.5.8 and Figure 3.13",
        f"{_AUTHORS} Reports of step times have an error of 5%. Profiling, 0.1 GPU-hours a job, runs on "
        "all types at the same time and delays the first start by its share.",
        _estimators,
        minutes=1.0,
        seeds=5,
    ),
    Reproduction(
        "thesis-figures-4.2-4.4",
        "How far the answer moves between rounds, and how integral it is",
        "thesis, Figures 4.2 and 4.4",
        "The generator's day in place of the authors'. A job in the middle of a restart is pinned to what it "
        "has, which removes its other variables and adds them again; the paper has none of that. Copter's "
        "answers, not those of CPLEX' simplex.",
        _evolution,
        minutes=15.0,
    ),
    Reproduction(
        name="sia-section-3.5.3",
        title="A hybrid-parallel GPT under Sia: linear throughput, scaled down in congestion and up after it",
        source="thesis, section 3.5.3",
        differs=(
            "The thesis prints no times of the GPT: ours follow from FLOP counts. It trains longer than on "
            "BERT's two epochs, so that it outlasts the congestion; the congestion is ours too."
        ),
        measure=_measure,
        minutes=1.0,
    ),
)
