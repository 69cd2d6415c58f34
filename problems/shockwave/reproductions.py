"""Tables and figures of Shockwave: what `copter reproduce shockwave-...` measures.

Table 1, figures 1 and 15: three jobs on four GPUs, and what a fixed filter does to them.

A job runs on any number of GPUs up to what it asks for, and slows down in proportion (linear slowdown).
With S its time on one GPU, N jobs on M GPUs, an equal share ends it at S N / M; rho is its end over that.
The paper prints the schedules of Themis with filters of 1/3, 2/3 and 1 of the jobs, and the adaptive one of
Shockwave: they are judged here as printed, against the best schedule that there is, by search.

Figures 2, 4 and 5: what it is worth to know changes of batch size before, and how well one can.  Figures 10,
13 and 16, and more: Shockwave under other mixes, errors, contention, lengths of plan.

Figures 11 and 17: Shockwave on the workloads that Pollux' authors published, and against Pollux itself.
Figure 17 takes arrivals and durations of the workload: of each job the run time on the GPUs and at the batch
size that it was tuned for, cut to the hours of Shockwave's jobs.  What runs for so long is one of Shockwave's
models, in the mix of its traces.  In figure 11 the jobs are the workload's own, with
the batch sizes that are best for them on the GPUs that they ask for.

Figure 12 (section 8.9): how far a plan is from the optimum after how many seconds, by jobs.  The paper's
solver ends after 15 s with the bound gap that it then has; copter's relaxation and shim end by themselves,
with a gap against the relaxation's certified bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from copter.bench.reproduction import Effort, Figure, Reproduction, mean_figure
from copter.bench.rounds import measure
from copter.bench.settings import SolverSettings
from copter.problems.cluster.results import JobRecord
from copter.problems.pollux.artifact import CLUSTER, Artifact
from copter.problems.shockwave import KNOWLEDGE
from copter.problems.shockwave.awareness import make_knowledge
from copter.problems.shockwave.course import PlanCourse
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
from copter.problems.shockwave.generator import ARRIVAL_SECONDS, GPU_MIX, HOURS, generate, job_of
from copter.problems.shockwave.metrics import Metrics, read_published
from copter.problems.shockwave.predictor import prediction_errors
from copter.problems.shockwave.scheduler import Settings
from copter.problems.shockwave.simulation import ReplayResult
from copter.problems.shockwave.traces import Mode, Regime, RegimeJob
from copter.problems.shockwave.window import ROUNDS

TRAINED = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Shares of the training at which predictions are shown."""
PUBLISHED = {
    "gavel": "max_min_fairness",
    "gavel-max-sum": "max_sum_throughput_perf",
    "themis": "finish_time_fairness",
    "allox": "allox",
    "ossp": "min_total_duration",
    "shockwave": "shockwave",
}
"""The authors' names of policies in their results."""


_TRACES = f"the authors' traces ({', '.join(str(jobs) for jobs in SIZES.values())} jobs), T = 120, k = 5"
_GENERATED = "jobs of this project's generator, T = 120, k = 5; rivals as in the authors' code"
_PAPER = "Shockwave, NSDI 2023"
TOY_GPUS = 4
SERIAL = {"A": 12, "B": 8, "C": 6}
REQUESTED = {"A": 3, "B": 2, "C": 2}
SCHEDULES: dict[str, tuple[str, ...]] = {
    "adaptive filter": ("BBCC", "BBCC", "BBCC", "AAAB", "AAAB", "AAA", "AAA"),
    "filter 1/3": ("ABCC", "ABBC", "AAAC", "BBCC", "AAAB", "AABB", "AA"),
    "filter 2/3": ("AABB", "BBCC", "AACC", "AABB", "BBCC", "AAA", "AAA"),
    "filter 1": ("AABC", "ABBC", "ABCC", "AABC", "ABBC", "AAAB", "AA"),
}
"""Who holds the GPUs of each round, as figures 1 and 15 print it."""
PRINTED = {
    "adaptive filter": (0.83, 5.0, 7.0),
    "filter 1/3": (1.0, 5.7, 7.0),
    "filter 2/3": (1.1, 5.7, 7.0),
    "filter 1": (1.1, 6.0, 7.0),
}
"""Worst rho, average JCT and makespan in rounds, of table 1."""
THREE_JOBS = (
    RegimeJob("J1", 0.0, 1, Mode.GNS, (Regime(32, 1, 3600.0), Regime(64, 4, 900.0))),
    RegimeJob("J2", 0.0, 1, Mode.GNS, (Regime(32, 1, 3600.0), Regime(64, 4, 900.0))),
    RegimeJob("J3", 0.0, 1, Mode.STATIC, (Regime(32, 5, 2160.0),)),
)
"""Jobs in the manner of figure 4, which prints no times: two look longer than the third, and are shorter."""
GPUS, JOBS = 64, 220
SMALL_GPUS, GPU_SECONDS_AN_ARRIVAL = 14, 1344.0
DYNAMIC_SHARES = (0.0, 0.4, 0.7, 1.0)
NOISE = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
WINDOWS = (10, 20, 30, 60, 120)
POLLUX_GPUS = 32
OVERHEAD_PAPER: Mapping[int, float] = {500: 0.03, 1000: 0.11, 2000: 0.44}
"""Bound gap in percent after 15 s, by active jobs, on 256 GPUs."""
TIMEOUT = 15.0
_GPUS = 256
_SHIM_SECONDS = 1.0


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
    fairness = {"shockwave": (1.82, math.nan), "ossp": (5.79, 70.8), "gavel-max-sum": (5.2, 25.0)}
    figures = []
    for name, one in found.items():
        ratio = one.makespan / ours.makespan
        figures.append(Figure(name, "makespan over ours", "x", ratio, spans.get(name, math.nan)))
        figures.append(Figure(name, "average JCT over ours", "x", one.average_jct / ours.average_jct))
        figures += fairness_figures(name, [one], fairness.get(name, (math.nan, math.nan)))
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
        paper = (1.23, math.nan) if name == "shockwave" else (math.nan, math.nan)
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
        figures += fairness_figures(f"shockwave, {gpus} GPUs", [ours], (math.nan, math.nan))
    printed = {
        "themis": (1.26, 1.35, 2.5),
        "gavel": (1.3, 1.34, 2.4),
        "allox": (1.35, 1.37, 3.1),
        "gandiva-fair": (1.21, 1.3, 3.9),
        "ossp": (1 / 1.09, 1 / 1.05, math.nan),
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


def judge(rounds: Sequence[str]) -> tuple[float, float, float]:
    """Worst rho, average JCT and makespan of a schedule.

    Parameters
    ----------
    rounds : sequence of str
        Letters of the jobs that hold a GPU, round by round.

    Returns
    -------
    (float, float, float)

    Raises
    ------
    ValueError
        More GPUs than there are or than a job asks for, or a job that is not done in the end.
    """
    left = dict(SERIAL)
    ends: dict[str, int] = {}
    for t, names in enumerate(rounds, 1):
        for job in SERIAL:
            count = names.count(job)
            if count > REQUESTED[job] or len(names) > TOY_GPUS:
                raise ValueError(f"round {t - 1}: {names}: too many GPUs")
            left[job] -= count
            if left[job] <= 0:
                ends.setdefault(job, t)
    if len(ends) < len(SERIAL):
        raise ValueError(f"not done: {[job for job in SERIAL if job not in ends]}")
    return _judged(ends)


def _judged(ends: Mapping[str, int]) -> tuple[float, float, float]:
    share = len(SERIAL) / TOY_GPUS
    worst = max(end / (SERIAL[job] * share) for job, end in ends.items())
    return worst, sum(ends.values()) / len(ends), float(max(ends.values()))


def best() -> tuple[float, float, float]:
    """The schedule with the least worst rho; of those the least average JCT, then makespan: by search.

    Returns
    -------
    (float, float, float)
    """
    names = list(SERIAL)
    choices = [
        counts for counts in product(*(range(REQUESTED[job] + 1) for job in names)) if sum(counts) <= TOY_GPUS
    ]

    @cache
    def ends(left: tuple[int, ...], time: int) -> frozenset[tuple[int, ...]]:
        """Ends that can be reached, of jobs with so much left; 0 for those that are done."""
        if not any(left):
            return frozenset({(0,) * len(left)})
        found: set[tuple[int, ...]] = set()
        if time == sum(SERIAL.values()) // TOY_GPUS + 1:
            return frozenset()
        for counts in choices:
            # Without a GPU idle that a job could use: others are no better.
            used = tuple(min(c, w) for c, w in zip(counts, left, strict=True))
            after = tuple(w - u for w, u in zip(left, used, strict=True))
            for rest in ends(after, time + 1):
                found.add(
                    tuple(time + 1 if w and not a else r for w, a, r in zip(left, after, rest, strict=True))
                )
        return frozenset(found)

    every = ends(tuple(SERIAL.values()), 0)
    return min(_judged(dict(zip(names, one, strict=True))) for one in every)


def table_1(effort: Effort) -> list[Figure]:
    """Measure Table 1."""
    columns = (("worst FTF", ""), ("average JCT", "rounds"), ("makespan", "rounds"))
    figures = []
    for row, rounds in SCHEDULES.items():
        ours = zip(columns, judge(rounds), PRINTED[row], strict=True)
        figures += [Figure(row, name, unit, value, paper) for (name, unit), value, paper in ours]
    figures += [
        Figure("best there is", *column, value) for column, value in zip(columns, best(), strict=True)
    ]
    return figures


def _ratios(jobs: Sequence[RegimeJob], found: dict[str, ReplayResult]) -> dict[str, float]:
    """Fairness, by knowledge, of the dynamic job that the reactive policy is most unfair to."""
    dynamic = {job.name for job in jobs if len(job.regimes) > 1}
    by_name = {know: {job.name: job.ftf for job in one.jobs} for know, one in found.items()}
    name = max(sorted(dynamic & by_name["reactive"].keys()), key=by_name["reactive"].__getitem__)
    return {know: ratios[name] for know, ratios in by_name.items()}


def figure_2(effort: Effort) -> list[Figure]:
    """Measure Figure 2: one job under Themis, agnostic and reactive, and under Shockwave."""
    jobs = published_trace(effort, 32)
    known = ("agnostic", "reactive")
    found = {know: run(effort, jobs, 32, "themis", estimator=make_knowledge(know)) for know in known}
    found["proactive"] = run(effort, jobs, 32, "shockwave")
    rows = {"agnostic": ("themis", 3.07), "reactive": ("themis", 2.07), "proactive": ("shockwave", 1.0)}
    one = _ratios(jobs, found)
    figures = [
        Figure(f"{policy}, {know}", "FTF of one job", "", one[know], paper)
        for know, (policy, paper) in rows.items()
    ]
    for know, (policy, _) in rows.items():
        dynamic = [job.ftf for job in found[know].jobs if len(_named(jobs, job.name).regimes) > 1]
        late = 100.0 * float(np.mean(np.array(dynamic) > 1.0))
        figures.append(Figure(f"{policy}, {know}", "unfair dynamic jobs", "%", late))
    return figures


def _named(jobs: Sequence[RegimeJob], name: str) -> RegimeJob:
    return next(job for job in jobs if job.name == name)


def figure_4(effort: Effort) -> list[Figure]:
    """Measure Figure 4: the makespan of OSSP by what it knows, on three jobs and on the authors' trace."""
    figures = []
    cases: list[tuple[str, Sequence[RegimeJob], int, dict[str, float]]] = [
        ("3 jobs", THREE_JOBS, 2, {"agnostic": 30.0, "reactive": 22.3})
    ]
    if effort.data is not None:
        cases.append(("120 jobs", published_trace(effort, 32), 32, {}))
    for label, jobs, gpus, paper in cases:
        spans = {
            know: run(effort, jobs, gpus, "ossp", estimator=make_knowledge(know)).metrics.makespan
            for know in KNOWLEDGE
        }
        for know in ("agnostic", "reactive"):
            worse = 100.0 * (spans[know] / spans["proactive"] - 1.0)
            row = f"{know}, {label}"
            figures.append(Figure(row, "makespan over proactive", "%", worse, paper.get(know, float("nan"))))
    return figures


def figure_5(effort: Effort) -> list[Figure]:
    """Measure Figure 5: errors of the three rules of prediction, on the jobs of all traces."""
    jobs = [job for gpus in ((32,) if effort.quick else SIZES) for job in published_trace(effort, gpus)]
    paper = {"restatement": (6.0, 16.0)}
    figures, curves = [], []
    for rule, errors in prediction_errors(jobs).items():
        regime, run_time = paper.get(rule, (float("nan"),) * 2)
        row = f"on average: {rule}"
        figures.append(Figure(row, "regimes", "%", 100.0 * float(errors.regime.mean()), regime))
        figures.append(Figure(row, "run time", "%", 100.0 * float(errors.run_time.mean()), run_time))
        for share in TRAINED:
            row = f"{share:.0%} of the training over: {rule}"
            for column, values in (("regimes", errors.regime), ("run time", errors.run_time)):
                value = 100.0 * float(np.interp(share, errors.progress, values))
                curves.append(Figure(row, column, "%", value))
    return figures + curves


def mixed_jobs(seed: int, dynamic: float, jobs: int = JOBS) -> list[RegimeJob]:
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
    effort: Effort, traces: Sequence[Sequence[RegimeJob]], gpus: int, name: str, **settings: Any
) -> list[Metrics]:
    return metrics(effort, [(jobs, gpus, name, settings) for jobs in traces])


def _found(effort: Effort, traces: Sequence[Sequence[RegimeJob]], gpus: int) -> dict[str, list[Metrics]]:
    """Shockwave's and the fair schedulers' metrics on each trace."""
    names = ("shockwave", *FAIR)
    every = metrics(effort, [(jobs, gpus, name, {}) for name in names for jobs in traces])
    return {name: every[k * len(traces) : (k + 1) * len(traces)] for k, name in enumerate(names)}


def figure_10(effort: Effort) -> list[Figure]:
    """Measure Figure 10: mixes of static and dynamic jobs."""
    speedups = {0.0: 1.18, 0.4: math.nan, 0.7: math.nan, 1.0: 1.3}
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
            paper = (math.nan, unfair.get((name, share), math.nan))
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
            paper = 1.3 if (noise, column) == (1.0, "makespan") else math.nan
            figures.append(mean_figure(label, f"{column} over exact", "x", ratios, paper))
        figures += fairness_figures(label, found, (math.nan, math.nan))
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
        figures += fairness_figures(label, found["shockwave"], (worst.get(factor, math.nan), math.nan))
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
            figures += fairness_figures(label, [found], (math.nan, math.nan))
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
        figures += fairness_figures(label, [found.metrics], (math.nan, math.nan))
    return figures


def pollux_jobs(artifact: Artifact, number: int, seed: int) -> list[RegimeJob]:
    """Jobs of Shockwave's models with arrivals, durations and GPUs of a workload of Pollux'.

    Parameters
    ----------
    number : int
        The number of the workload.
    seed : int
        Seed of models and modes.
    """
    rng = np.random.default_rng(seed)
    counts = np.array(sorted(GPU_MIX))
    jobs = []
    for one in artifact.jobs(number):
        asked = one.gpus or one.tuned_gpus or 1
        profile = artifact.profiles[one.application].at_fixed_batch(one.batch_size)
        seconds = float(profile.clock(CLUSTER.packed("t4", asked))[-1])
        seconds = min(max(seconds, 3600.0 * HOURS[0]), 3600.0 * HOURS[1])
        gpus = int(counts[counts <= asked].max())
        jobs.append(job_of(rng, one.name, one.time, gpus, seconds))
    return jobs


def figure_17(effort: Effort) -> list[Figure]:
    """Measure Figure 17: makespan on Pollux' workloads, 32 GPUs."""
    artifact = Artifact(effort)
    traces = [pollux_jobs(artifact, number, effort.seed + k) for k, number in enumerate(artifact.numbers)]
    found = {
        name: [run(effort, t, POLLUX_GPUS, name).metrics for t in traces] for name in ("shockwave", *FAIR)
    }
    ours = found["shockwave"]
    spans = [float(np.mean([found[name][k].makespan for name in FAIR])) for k in range(len(traces))]
    gains = [span / one.makespan for one, span in zip(ours, spans, strict=True)]
    figures = [mean_figure("fair, mean", "makespan over ours", "x", gains, 1.2)]
    for name, each in found.items():
        pairs = zip(each, ours, strict=True)
        figures.append(
            mean_figure(name, "makespan over ours", "x", (a.makespan / b.makespan for a, b in pairs))
        )
        figures += fairness_figures(name, each, (math.nan, math.nan))
    return figures


def observed_jobs(artifact: Artifact, number: int) -> list[RegimeJob]:
    """Jobs of a workload on the GPUs that they ask for, with the batch sizes that are best there.

    Each level of a job's profile is a regime of one epoch: that is its batch size schedule.

    Parameters
    ----------
    number : int
        The number of the workload.
    """
    jobs = []
    for one in artifact.jobs(number):
        asked = one.gpus or one.tuned_gpus or 1
        clock = artifact.profiles[one.application].clock(CLUSTER.packed("t4", asked))
        regimes = tuple(Regime(k + 1, 1, step) for k, step in enumerate(np.diff(clock).tolist()))
        mode = Mode.GNS if len(regimes) > 1 else Mode.STATIC
        jobs.append(RegimeJob(one.name, one.time, asked, mode, regimes, one.application))
    return jobs


def figure_11(effort: Effort) -> list[Figure]:
    """Measure Figure 11: Pollux against Shockwave on Pollux' workloads, 64 GPUs."""
    artifact = Artifact(effort)
    ratios: dict[str, list[float]] = {"JCT": [], "makespan": [], "GPU-hours": []}
    fairness: dict[str, list[tuple[float, float]]] = {"pollux": [], "shockwave": []}
    for number in artifact.numbers:
        jobs = observed_jobs(artifact, number)
        ours = run(effort, jobs, CLUSTER.gpus, "shockwave")
        effort.say(f"pollux: workload {number}")
        theirs = artifact.run("pollux", artifact.jobs(number))
        alone = {job.name: job.seconds * len(jobs) / CLUSTER.gpus for job in jobs}
        rho = np.array([one.jct / alone[one.name] for one in theirs])
        fairness["pollux"].append((float(rho.max()), 100.0 * float((rho > 1.0).mean())))
        fairness["shockwave"].append((ours.metrics.worst_ftf, 100.0 * ours.metrics.unfair_fraction))
        ratios["JCT"].append(ours.metrics.average_jct / float(np.mean([one.jct for one in theirs])))
        ratios["makespan"].append(ours.metrics.makespan / _span(theirs))
        held = sum((one.end - one.begin) * one.gpus for one in ours.segments)
        ratios["GPU-hours"].append(held / sum(one.gpu_seconds for one in theirs))
    paper = {"JCT": 3.0, "makespan": 1.0, "GPU-hours": 2.4}
    row = "shockwave over pollux"
    result = [mean_figure(row, name, "x", each, paper[name]) for name, each in ratios.items()]
    for name, pairs in fairness.items():
        result.append(mean_figure(name, "worst FTF", "", (worst for worst, _ in pairs)))
        result.append(mean_figure(name, "unfair", "%", (unfair for _, unfair in pairs)))
    return result


def _span(records: list[JobRecord]) -> float:
    return max(one.finished for one in records) - min(one.submitted for one in records)


def _overhead(effort: Effort) -> list[Figure]:
    figures = []
    for jobs in (60,) if effort.quick else OVERHEAD_PAPER:
        gpus = 16 if effort.quick else _GPUS
        effort.say(f"{jobs} jobs on {gpus} GPUs")
        course = PlanCourse(jobs, gpus, 6, effort.seed, Settings(rounds=ROUNDS, shim_seconds=_SHIM_SECONDS))
        records = measure(course, SolverSettings("copter", 1e-6, TIMEOUT)).records[1:]
        printed = math.nan if effort.quick else OVERHEAD_PAPER[jobs]
        gap = 100.0 * max(record["integral_gap"] for record in records)
        figures.append(Figure(f"{jobs:,} jobs", "largest bound gap", "%", float(gap), printed))
        seconds = [record["t_total"] for record in records]
        limit = math.nan if effort.quick else TIMEOUT
        figures.append(
            Figure(f"{jobs:,} jobs", "time of a plan, median", "s", float(np.median(seconds)), limit)
        )
    return figures


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
    Reproduction(
        "shockwave-figure-12",
        "Overhead of the solver: bound gap by number of jobs",
        "Shockwave, NSDI 2023, Figure 12",
        "Jobs of this project's generator, T = 20; gap against the relaxation's bound, relative to what "
        "the objective is made up of; the paper's gaps are those after 15 s of Gurobi.",
        _overhead,
        minutes=1.0,
    ),
)
