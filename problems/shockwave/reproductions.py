"""Tables and figures of Shockwave: what `copter reproduce shockwave-...` measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from copter.bench.reproduction import Effort, Figure, Reproduction, mean_figure
from copter.problems.shockwave.experiments import (
    AUTHORS,
    FAIR,
    SIZES,
    fairness_figures,
    metrics,
    published_folder,
    published_trace,
    run,
)
from copter.problems.shockwave.foresight import figure_2, figure_4, figure_5
from copter.problems.shockwave.generator import generate
from copter.problems.shockwave.metrics import Metrics, read_published
from copter.problems.shockwave.pollux_trace import figure_11, figure_17
from copter.problems.shockwave.sweeps import (
    NAN,
    figure_10,
    figure_13,
    figure_16,
    scatter_sweep,
    window_sweep,
)
from copter.problems.shockwave.toys import table_1

PUBLISHED = {
    "gavel": "max_min_fairness",
    "gavel-max-sum": "max_sum_throughput_perf",
    "themis": "finish_time_fairness",
    "allox": "allox",
    "ossp": "min_total_duration",
    "shockwave": "shockwave",
}
"""The authors' names of policies in their results."""


def table_3(effort: Effort) -> list[Figure]:
    """Measure Table 3: how far the simulation is from the authors' runs on the physical cluster."""
    jobs = published_trace(effort, 32)
    folder = published_folder(effort) / "scheduler" / "results_json"
    off: dict[str, list[float]] = {"makespan": [], "average JCT": [], "unfair": []}
    theirs: dict[str, list[float]] = {name: [] for name in off}
    figures = []
    for name, published in PUBLISHED.items():
        stem = f"tacc_32gpus_comparison__{published}"
        physical = read_published(folder / f"{stem}_physical.json", jobs).metrics
        simulated = read_published(folder / f"{stem}_simulation.json", jobs).metrics
        settings: dict[str, Any] = AUTHORS[32] if name == "shockwave" else {}
        ours = run(effort, jobs, 32, name, **settings).metrics
        for listed, one in ((off, ours), (theirs, simulated)):
            listed["makespan"].append(100.0 * abs(one.makespan / physical.makespan - 1.0))
            listed["average JCT"].append(100.0 * abs(one.average_jct / physical.average_jct - 1.0))
            listed["unfair"].append(100.0 * abs(one.unfair_fraction - physical.unfair_fraction))
        figures.append(Figure(name, "makespan", "s", ours.makespan, physical.makespan))
        figures.append(Figure(name, "average JCT", "s", ours.average_jct, physical.average_jct))
        paper = (physical.worst_ftf, 100.0 * physical.unfair_fraction)
        figures += fairness_figures(name, [ours], paper)
    for column, paper_mean in (("makespan", 4.97), ("average JCT", 4.62), ("unfair", 3.83)):
        row = "mean difference"
        figures.append(Figure(row, column, "%", float(np.mean(off[column])), paper_mean))
        row = "mean difference, authors' simulator by the same files"
        figures.append(Figure(row, column, "%", float(np.mean(theirs[column])), paper_mean))
    return figures


def figure_7(effort: Effort) -> list[Figure]:
    """Measure Figure 7: 120 jobs on 32 GPUs, ratios over Shockwave."""
    jobs = published_trace(effort, 32)
    names = ("shockwave", *FAIR, "gavel-max-sum", "ossp", "gandiva-fair", "srpt")
    found = dict(zip(names, metrics(effort, [(jobs, 32, name, {}) for name in names]), strict=True))
    ours = found["shockwave"]
    spans = {"themis": 1.3, "gavel": 1.3, "allox": 1.3, "gavel-max-sum": 1.37, "ossp": 1.0}
    fairness = {"shockwave": (1.82, NAN), "ossp": (5.79, 70.8), "gavel-max-sum": (5.2, 25.0)}
    figures = []
    for name, one in found.items():
        ratio = one.makespan / ours.makespan
        figures.append(Figure(name, "makespan over ours", "x", ratio, spans.get(name, NAN)))
        figures.append(Figure(name, "average JCT over ours", "x", one.average_jct / ours.average_jct))
        figures += fairness_figures(name, [one], fairness.get(name, (NAN, NAN)))
    return figures


def figure_8(effort: Effort) -> list[Figure]:
    """Measure Figure 8: 50 jobs at once, and when those of each size end."""
    traces = [
        generate(50, seed=seed, arrival_seconds=0.0)
        for seed in range(effort.seed, effort.seed + effort.seeds)
    ]
    groups = ("(X)Large", "Medium", "Small", "XSmall")
    figures = []
    for name in ("shockwave", "allox", "gavel", "ossp"):
        found = [run(effort, jobs, 14, name) for jobs in traces]
        paper = (1.23, NAN) if name == "shockwave" else (NAN, NAN)
        figures += fairness_figures(name, [one.metrics for one in found], paper)
        figures.append(mean_figure(name, "makespan", "rounds", (f.metrics.makespan / 120.0 for f in found)))
        ends: dict[str, list[float]] = {group: [] for group in groups}
        for jobs, one in zip(traces, found, strict=True):
            work = {job.name: job.gpus * job.seconds for job in jobs}
            largest = sorted(one.jobs, key=lambda job: -work[job.name])
            for group, part in zip(groups, np.array_split(np.arange(len(largest)), 4), strict=True):
                ends[group].append(float(np.mean([largest[k].finished for k in part])) / 120.0)
        figures += [mean_figure(name, f"mean end, {group}", "rounds", ends[group]) for group in groups]
    return figures


def figure_9(effort: Effort) -> list[Figure]:
    """Measure Figure 9: 64 to 256 GPUs."""
    names = ("shockwave", *FAIR, "gandiva-fair", "ossp")
    sizes = (64,) if effort.quick else (64, 128, 256)
    found: dict[str, list[Metrics]] = {name: [] for name in names}
    figures = []
    for gpus in sizes:
        jobs = published_trace(effort, gpus)
        for name, one in zip(names, metrics(effort, [(jobs, gpus, name, {}) for name in names]), strict=True):
            found[name].append(one)
        ours = found["shockwave"][-1]
        for name in names[1:]:
            ratio = found[name][-1].makespan / ours.makespan
            figures.append(Figure(f"{name}, {gpus} GPUs", "makespan over ours", "x", ratio))
        figures += fairness_figures(f"shockwave, {gpus} GPUs", [ours], (NAN, NAN))
    printed = {
        "themis": (1.26, 1.35, 2.5),
        "gavel": (1.3, 1.34, 2.4),
        "allox": (1.35, 1.37, 3.1),
        "gandiva-fair": (1.21, 1.3, 3.9),
        "ossp": (1 / 1.09, 1 / 1.05, NAN),
    }
    ours_worst = float(np.mean([one.worst_ftf for one in found["shockwave"]]))
    for name, (least, most, worse) in printed.items():
        pairs = zip(found[name], found["shockwave"], strict=True)
        ratios = [other.makespan / ours.makespan for other, ours in pairs]
        figures.append(Figure(name, "makespan over ours, least", "x", min(ratios), least))
        figures.append(Figure(name, "makespan over ours, most", "x", max(ratios), most))
        worst = float(np.mean([one.worst_ftf for one in found[name]]))
        figures.append(Figure(name, "worst FTF over ours", "x", worst / ours_worst, worse))
    return figures + fairness_figures("shockwave, mean", found["shockwave"], (1.32, 4.0))


def original(effort: Effort) -> list[Figure]:
    """Shockwave with the authors' T and k, step by step from program (11) as printed."""
    jobs = published_trace(effort, 32)
    folder = published_folder(effort) / "scheduler" / "results_json"
    authors = read_published(folder / "tacc_32gpus__shockwave_simulation.json", jobs).metrics
    steps: dict[str, dict[str, Any]] = {
        "as printed, lazy": {"ending": 0.0, "reactive": False},
        "as printed, reactive": {"ending": 0.0},
        "late jobs within a round of their end first, lazy": {"reactive": False},
        "late jobs within a round of their end first, reactive": {},
    }
    figures = []
    for row, settings in steps.items():
        ours = run(effort, jobs, 32, "shockwave", **(AUTHORS[32] | settings)).metrics
        figures.append(Figure(row, "makespan", "s", ours.makespan, authors.makespan))
        figures.append(Figure(row, "average JCT", "s", ours.average_jct, authors.average_jct))
        figures += fairness_figures(row, [ours], (authors.worst_ftf, 100.0 * authors.unfair_fraction))
    return figures


_TRACES = f"the authors' traces ({', '.join(str(jobs) for jobs in SIZES.values())} jobs), T = 120, k = 5"
_GENERATED = "jobs of this project's generator, T = 120, k = 5; rivals as in the authors' code"
_PAPER = "Shockwave, NSDI 2023"


def _one(
    name: str,
    title: str,
    place: str,
    differs: str,
    measure: Callable[[Effort], list[Figure]],
    *,
    data: bool = True,
    minutes: float = 1.0,
) -> Reproduction:
    return Reproduction(f"shockwave-{name}", title, f"{_PAPER}, {place}", differs, measure, data, minutes)


REPRODUCTIONS = (
    _one(
        "table-1",
        "Fixed filters against an adaptive one",
        "Table 1, figures 1 and 15",
        "nothing: the printed schedules are judged, and the best one is searched for",
        table_1,
        data=False,
        minutes=0.1,
    ),
    _one(
        "table-3",
        "Simulation against the physical cluster, 120 jobs on 32 GPUs",
        "Table 3",
        "against the physical runs that the authors ship; Shockwave with T = 20, k = 12",
        table_3,
    ),
    _one(
        "figure-2",
        "A dynamic job under agnostic, reactive and proactive schedulers",
        "Figure 2",
        "the paper names no job: the one of 120 that reactive Themis is most unfair to",
        figure_2,
    ),
    _one(
        "figure-4",
        "Makespan of OSSP by what it knows of changes to come",
        "Figure 4",
        "the paper prints no times of its three jobs: three in its manner; 120 jobs too, if there is data",
        figure_4,
        data=False,
    ),
    _one(
        "figure-5",
        "Errors of predicted regimes and run times",
        "Figure 5",
        "all dynamic jobs of the four traces in place of 200",
        figure_5,
    ),
    _one("figure-7", "120 jobs on 32 GPUs", "Figure 7", f"simulated, not measured; {_TRACES}", figure_7),
    _one("figure-8", "50 jobs at once, by size", "Figure 8", f"{_GENERATED}; 14 GPUs", figure_8, data=False),
    _one("figure-9", "64 to 256 GPUs", "Figure 9", _TRACES, figure_9, minutes=3.0),
    _one(
        "figure-10",
        "Mixes of static and dynamic jobs",
        "Figure 10",
        f"{_GENERATED}; 220 jobs on 64 GPUs",
        figure_10,
        data=False,
        minutes=5.0,
    ),
    _one(
        "figure-13",
        "Errors in predicted run times",
        "Figure 13",
        f"{_GENERATED}; 220 dynamic jobs on 64 GPUs",
        figure_13,
        data=False,
        minutes=3.0,
    ),
    _one(
        "figure-16",
        "Contention of 3, 2 and 1.5 jobs a GPU",
        "Figure 16",
        f"{_GENERATED}; simulated, not measured",
        figure_16,
        data=False,
        minutes=2.0,
    ),
    _one(
        "figure-11",
        "Against Pollux on Pollux' workloads, 64 T4",
        "Figure 11",
        "Shockwave's jobs have the batch sizes that are best on the GPUs they ask for; GPUs counted",
        figure_11,
        minutes=15.0,
    ),
    _one(
        "figure-17",
        "Arrivals and durations of Pollux' workloads, 32 GPUs",
        "Figure 17",
        "models, modes and regimes of this project's generator; durations cut to 0.2 to 5 hours",
        figure_17,
        minutes=3.0,
    ),
    _one(
        "original",
        "T = 20, k = 12: from program (11) as printed to the authors' result",
        "results of the authors' repository",
        "plans by water-filling and exchanges in place of Gurobi; lambda 10; exact logarithms",
        original,
    ),
    _one(
        "window",
        "Length of the plan",
        "sections 6.1 and appendix G (T = 20 and 30)",
        "no figure of the paper: a sweep",
        window_sweep,
    ),
    _one(
        "scatter",
        "Penalty on scattered rounds",
        "section 7",
        "no figure of the paper; leases extended as in the authors' simulation, T = 20, k = 12",
        scatter_sweep,
    ),
)
