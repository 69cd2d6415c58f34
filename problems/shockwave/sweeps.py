"""Figures 10, 13 and 16, and more: Shockwave under other mixes, errors, contention, lengths of plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from copter.bench.reproduction import Effort, Figure, mean_figure
from copter.problems.shockwave.experiments import (
    FAIR,
    fairness_figures,
    metrics,
    published_trace,
    run,
)
from copter.problems.shockwave.generator import ARRIVAL_SECONDS, generate
from copter.problems.shockwave.metrics import Metrics
from copter.problems.shockwave.traces import Job, Mode

GPUS, JOBS = 64, 220
SMALL_GPUS, GPU_SECONDS_AN_ARRIVAL = 14, 1344.0
NAN = float("nan")
DYNAMIC_SHARES = (0.0, 0.4, 0.7, 1.0)
NOISE = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
WINDOWS = (10, 20, 30, 60, 120)


def mixed_jobs(seed: int, dynamic: float, jobs: int = JOBS) -> list[Job]:
    """Generated jobs of which a share is dynamic, half each by Accordion and GNS.

    Parameters
    ----------
    dynamic : float
        In [0, 1].
    """
    mix = {Mode.STATIC: 1.0 - dynamic, Mode.ACCORDION: 0.5 * dynamic, Mode.GNS: 0.5 * dynamic}
    return generate(jobs, seed=seed, arrival_seconds=ARRIVAL_SECONDS[GPUS], mode_mix=mix)


def _seeds(effort: Effort) -> range:
    return range(effort.seed, effort.seed + effort.seeds)


def _metrics(
    effort: Effort, traces: Sequence[Sequence[Job]], gpus: int, name: str, **settings: Any
) -> list[Metrics]:
    return metrics(effort, [(jobs, gpus, name, settings) for jobs in traces])


def _found(effort: Effort, traces: Sequence[Sequence[Job]], gpus: int) -> dict[str, list[Metrics]]:
    """Shockwave's and the fair schedulers' metrics on each trace."""
    names = ("shockwave", *FAIR)
    every = metrics(effort, [(jobs, gpus, name, {}) for name in names for jobs in traces])
    return {name: every[k * len(traces) : (k + 1) * len(traces)] for k, name in enumerate(names)}


def figure_10(effort: Effort) -> list[Figure]:
    """Measure Figure 10: mixes of static and dynamic jobs."""
    speedups = {0.0: 1.18, 0.4: NAN, 0.7: NAN, 1.0: 1.3}
    unfair = {("shockwave", 0.0): 5.0, ("shockwave", 1.0): 9.0, ("themis", 1.0): 28.0, ("allox", 1.0): 22.0}
    jobs = JOBS // 4 if effort.quick else JOBS
    figures = []
    for share in DYNAMIC_SHARES:
        traces = [mixed_jobs(seed, share, jobs) for seed in _seeds(effort)]
        found = _found(effort, traces, GPUS)
        label = f"{share:.0%} dynamic"
        ratios = [
            float(np.mean([found[name][k].makespan for name in FAIR])) / one.makespan
            for k, one in enumerate(found["shockwave"])
        ]
        figures.append(mean_figure(label, "makespan over ours, fair", "x", ratios, speedups[share]))
        for name, each in found.items():
            paper = (NAN, unfair.get((name, share), NAN))
            figures += fairness_figures(f"{name}, {label}", each, paper)
    return figures


def figure_13(effort: Effort) -> list[Figure]:
    """Measure Figure 13: errors in the predicted run time, all jobs dynamic."""
    jobs = JOBS // 4 if effort.quick else JOBS
    traces = [mixed_jobs(seed, 1.0, jobs) for seed in _seeds(effort)]
    figures: list[Figure] = []
    exact: list[Metrics] = []
    for noise in NOISE:
        found = _metrics(effort, traces, GPUS, "shockwave", noise=noise)
        exact = exact or found
        label = f"errors of {noise:.0%}"
        for column, field in (("makespan", "makespan"), ("average JCT", "average_jct")):
            ratios = [getattr(a, field) / getattr(b, field) for a, b in zip(found, exact, strict=True)]
            paper = 1.3 if (noise, column) == (1.0, "makespan") else NAN
            figures.append(mean_figure(label, f"{column} over exact", "x", ratios, paper))
        figures += fairness_figures(label, found, (NAN, NAN))
    return figures


def figure_16(effort: Effort) -> list[Figure]:
    """Measure Figure 16: contention of 3, 2 and 1.5 jobs a GPU on 14 GPUs."""
    gains = {3.0: 35.0, 2.0: 19.0, 1.5: 8.0}
    worst = {2.0: 1.2}
    figures: list[Figure] = []
    unfair: list[float] = []
    arrival = GPU_SECONDS_AN_ARRIVAL / SMALL_GPUS
    for factor, gain in gains.items():
        count = round(factor * SMALL_GPUS)
        traces = [generate(count, seed=seed, arrival_seconds=arrival) for seed in _seeds(effort)]
        found = _found(effort, traces, SMALL_GPUS)
        better = [
            100.0 * (float(np.mean([found[name][k].makespan for name in FAIR])) / one.makespan - 1.0)
            for k, one in enumerate(found["shockwave"])
        ]
        label = f"{factor:g} jobs a GPU"
        figures.append(mean_figure(label, "makespan gain over fair", "%", better, gain))
        figures += fairness_figures(label, found["shockwave"], (worst.get(factor, NAN), NAN))
        unfair += [100.0 * one.unfair_fraction for one in found["shockwave"]]
        others = [found[name][k].unfair_fraction for name in FAIR for k in range(len(traces))]
        figures.append(Figure(label, "unfair, fair schedulers", "%", 100.0 * float(np.mean(others))))
    figures.append(mean_figure("mean", "unfair", "%", unfair, 8.67))
    return figures


def window_sweep(effort: Effort) -> list[Figure]:
    """Length of the plan, with and without the rule for jobs that end (section 6.1, appendix G)."""
    gpus = 32 if effort.quick else GPUS
    jobs = published_trace(effort, gpus)
    figures = []
    for ending in (0.0, 100.0):
        for rounds in WINDOWS:
            found = run(effort, jobs, gpus, "shockwave", rounds=rounds, ending=ending).metrics
            label = f"T = {rounds}, {'with' if ending else 'without'} the last-round rule"
            figures.append(Figure(label, "makespan", "s", found.makespan))
            figures.append(Figure(label, "average JCT", "s", found.average_jct))
            figures += fairness_figures(label, [found], (NAN, NAN))
    return figures


def scatter_sweep(effort: Effort) -> list[Figure]:
    """The penalty on scattered rounds (section 7)."""
    jobs = published_trace(effort, 32)
    play = partial(run, effort, jobs, 32, "shockwave", rounds=20, power=12.0)
    figures = []
    for scatter in (0.0, 1.0, 3.0, 1e9):
        found = play(scatter=scatter)
        label = f"penalty {scatter:g}"
        starts = float(np.mean([job.starts for job in found.jobs]))
        figures.append(Figure(label, "leases extended", "%", 100.0 * found.extended, 75.9))
        figures.append(Figure(label, "starts a job", "", starts))
        figures.append(Figure(label, "makespan", "s", found.metrics.makespan))
        figures.append(Figure(label, "average JCT", "s", found.metrics.average_jct))
        figures += fairness_figures(label, [found.metrics], (NAN, NAN))
    return figures
