"""Tables and figures of the AFS paper, for `copter reproduce`.

The paper prints its figures as plots without numbers, and ranges in the text: those stand beside ours.

Figure 8 (section 5.3) says what cheap resizes are worth to one job among others that arrive in a burst.  The
monitored job trains Video Prediction from before a burst on.  In the first case 19 short jobs arrive 2 to 70
seconds apart; in the second 68 jobs are there at once.  CoDDL lets a job run on while GPUs get ready and
cancels orders that are outdated; without cancellation an order waits for the one before; without either every
change is a full restart.  Restarts take tens of seconds (Figure 1), drawn here from 20 to 60 s a model.

The toy example of appendix A has two jobs on two GPUs, and jobs that come later.  A and B take 2 h on one
GPU; on two A takes 1 h and B 1.5 h.  Later jobs take 2 h on one and x h on two; the first comes after 1 h,
each other x h after the one before.

With two jobs and nobody else to come there is an analysis (section 3.2, (1) and (2); appendix A), which is
held against all ways to share.  Jobs a and b are there from the start; once one is done the other has all M
GPUs.  With r GPUs for a until then the sum of both completion times is :func:`total_seconds`, and
:func:`best_split` tries every r.  The paper lets the split grow one GPU at a time: with m GPUs the last one
goes to whom the sum over m GPUs is lower with, which is the sign of its (1) and (2) (:func:`grown_split`).
Each such step is right, but the splits need not be: a split that is best for m GPUs need not lie next to the
one for m - 1.  ``copter reproduce afs-two-jobs`` counts how often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.bench.reproduction import Effort, Figure, Reproduction, mean_figure
from copter.problems.afs.allocation import Curves, afs_shares
from copter.problems.afs.models import ModelCurve, fit, measurements, stand_ins
from copter.problems.afs.traces import VIRTUAL_CLUSTERS, testbed, virtual_cluster
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.report.metrics import indices
from copter.problems.cluster.results import JobRecord
from copter.problems.cluster.simulation.resize import CheckpointRestart, Coddl, Resize
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario

NAN = float("nan")
HEAD = 3000
"""Jobs of a trace, the first ones; traces 2, 3, 5 and 10 have more."""
QUICK = (4, 7, 9)
"""Traces of a quick look: few jobs."""
AWARE = ("srsf", "srtf-e", "srsf-e", "optimus-events", "afs-l")
UNAWARE = ("max-min", "optimus-events", "themis-e", "afs-s", "afs-p")
_VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "themis-e, f = 0.8": ("themis-e", {"filter": 0.8}),
    "tiresias-l, 7 queues": ("tiresias-l", {"limits": [4.0**k * 3600.0 for k in range(6)]}),
}
"""Policies with other settings than their own."""


_STAND_INS = (
    "Models are stand-ins with the paper's best GPU counts (docs/afs.md); the public trace has fewer jobs "
    "than Table 3, of which the first 3,000 of each trace are played; requests above 52 GPUs are cut to "
    "that; no resize costs but 4 ms."
)
_SOURCE = "AFS (NSDI 2021), "
_QUICKLY: Mapping[int, Mapping[str, float]] = {
    9: {"tiresias-l": 1.45, "themis-e": 0.50, "optimus-events": 0.46, "afs-p": 0.41},
    3: {"tiresias-l": 5.65, "themis-e": 2.51, "optimus-events": 3.21, "afs-p": 1.93},
}
"""Average JCT in hours of Figure 7, by trace and policy."""
_QUICKER = {9: 0.01, 3: 0.002}
"""Of the submission times and of the iterations, by trace."""
_RESTART_SECONDS = (20.0, 60.0)
BURSTS = ("few", "many")
SYSTEMS = {
    "CoDDL": Coddl,
    "no cancellation": lambda: Coddl(cancellation=False),
    "full restarts": CheckpointRestart,
}
"""Resize models by name, the full system first."""
MONITORED = "Video Prediction"
_SHORT_GPU_SECONDS, _LONG_GPU_SECONDS = (60.0, 600.0), 3600.0
RULES = ("srtf", "max-min", "afs-l", "afs-p")
_HOURS_ALONE = 2.0
Pair = Sequence[NDArray[np.float64]]


def _play(effort: Effort, trace: int, policy: str, seed: int, *, peak_requests: bool = False) -> Run:
    name, settings = _VARIANTS.get(policy, (policy, {}))
    scenario = virtual_cluster(
        testbed(), seed, effort.data, vc=str(trace), jobs=HEAD, peak_requests=peak_requests
    )
    effort.say(f"trace {trace} ({VIRTUAL_CLUSTERS[trace - 1]}), {policy}, seed {seed}")
    return play(scenario, name, settings)


def _traces(effort: Effort) -> Sequence[int]:
    return QUICK if effort.quick else range(1, len(VIRTUAL_CLUSTERS) + 1)


def _reductions(
    baseline: str,
    policies: Sequence[str],
    statistic: Callable[[Run], float],
    ranges: Mapping[str, tuple[float, float]],
    effort: Effort,
) -> list[Figure]:
    """How many times lower a statistic is than a baseline's, by trace, and the range over the traces."""
    found: dict[str, list[float]] = {policy: [] for policy in policies}
    figures = []
    seeds = range(effort.seed, effort.seed + effort.seeds)
    runs = [
        (trace, policy, seed)
        for trace in _traces(effort)
        for policy in (baseline, *policies)
        for seed in seeds
    ]
    every = dict(zip(runs, effort.each(_statistic, [(statistic, *run) for run in runs]), strict=True))
    for trace in _traces(effort):
        base = np.array([every[trace, baseline, seed] for seed in seeds])
        for policy in policies:
            ratio = base / [every[trace, policy, seed] for seed in seeds]
            figures.append(mean_figure(f"trace {trace}", policy, "x", ratio))
            found[policy].append(figures[-1].ours)
    for label, ratios in found.items():
        low, high = ranges.get(label, (NAN, NAN))
        figures += [
            Figure("least", label, "x", min(ratios), low),
            Figure("most", label, "x", max(ratios), high),
        ]
    return figures


def _statistic(
    effort: Effort, statistic: Callable[[Run], float], trace: int, policy: str, seed: int
) -> float:
    return statistic(_play(effort, trace, policy, seed))


def _mean_hours(effort: Effort, trace: int, policy: str, peak_requests: bool) -> float:
    return _play(effort, trace, policy, effort.seed, peak_requests=peak_requests).mean_hours


def _mean(run: Run) -> float:
    return run.mean_hours


def _p99(run: Run) -> float:
    return run.p99_hours


def figure_2(effort: Effort) -> list[Figure]:
    """Three regimes: JCT, queue length, cluster efficiency and blocking index of two traces."""
    paper = {
        9: {"srtf": 31.1, "srsf": 32.8, "max-min": 18.3, "afs-l": 15.2},
        1: {"srtf": 84.7, "srsf": 79.7, "max-min": 1516.8, "afs-l": 57.6},
    }
    figures = []
    for trace, printed in paper.items():
        if trace == 1 and effort.quick:
            continue
        words = "moderate" if trace == 9 else "heavy"
        for policy, hours in printed.items():
            run = _play(effort, trace, policy, effort.seed)
            figures.append(Figure(f"{words}: {policy}", "average JCT", "h", run.mean_hours, hours))
            for name, value in run.regime().items():
                figures.append(Figure(f"{words}: {policy}", name, "", value))
    return figures


def figure_6(effort: Effort) -> list[Figure]:
    """How many times higher the average JCT is when jobs get the GPUs with which they are fastest."""
    paper = {"srtf": (1 / 1.21, 4.85), "srsf": (1 / 1.17, 5.84), "tiresias-l": (NAN, 16.14)}
    figures: list[Figure] = []
    found: dict[str, list[float]] = {policy: [] for policy in paper}
    runs = [(trace, policy, peak) for trace in _traces(effort) for policy in paper for peak in (False, True)]
    hours = dict(zip(runs, effort.each(_mean_hours, runs), strict=True))
    for trace in _traces(effort):
        for policy in paper:
            found[policy].append(hours[trace, policy, True] / hours[trace, policy, False])
            figures.append(Figure(f"trace {trace}", policy, "x", found[policy][-1]))
    for policy, (low, high) in paper.items():
        figures.append(Figure("least", policy, "x", min(found[policy]), low))
        figures.append(Figure("most", policy, "x", max(found[policy]), high))
    return figures


def figure_7(effort: Effort) -> list[Figure]:
    """Average JCT, queue length, efficiency and blocking index of two traces run quickly, over CoDDL."""
    figures: list[Figure] = []
    for trace, printed in _QUICKLY.items():
        if trace not in QUICK and effort.quick:
            continue
        hours: dict[str, list[float]] = {policy: [] for policy in printed}
        regimes: dict[str, list[Mapping[str, float]]] = {policy: [] for policy in printed}
        for seed in range(effort.seed, effort.seed + effort.seeds):
            scenario = quickly(
                virtual_cluster(testbed(), seed, effort.data, vc=str(trace), jobs=HEAD), _QUICKER[trace], seed
            )
            for policy in printed:
                effort.say(f"trace {trace}, {policy}, seed {seed}")
                run = play(scenario, policy, resize=Coddl())
                hours[policy].append(run.mean_hours)
                regimes[policy].append(run.regime())
        for policy, paper in printed.items():
            figures.append(mean_figure(f"trace {trace}: {policy}", "average JCT", "h", hours[policy], paper))
            for name in regimes[policy][0]:
                figures.append(
                    mean_figure(f"trace {trace}: {policy}", name, "", (one[name] for one in regimes[policy]))
                )
        for policy, paper in printed.items():
            if policy != "afs-p":
                ratio = np.divide(hours[policy], hours["afs-p"])
                figures.append(
                    mean_figure(
                        f"trace {trace}: {policy}", "over AFS-P", "x", ratio, paper / printed["afs-p"]
                    )
                )
    return figures


def quickly(scenario: Scenario, share: float, seed: int) -> Scenario:
    """The same jobs with a share of the submission times and of the iterations, and real restarts.

    Parameters
    ----------
    seed : int
        Of the seconds of a restart, which are a model's own.
    """
    rng = np.random.default_rng(seed)
    restarts: dict[str, float] = {}
    profiles: dict[str, Profile] = {}
    jobs = []
    for job in scenario.jobs:
        profile = scenario.profiles[job.application]
        assert isinstance(profile, CountProfile)
        seconds = restarts.setdefault(job.category, float(rng.uniform(*_RESTART_SECONDS)))
        work = float(profile.progress[-1]) * share
        profiles[job.application] = CountProfile(
            profile.name, seconds, work, profile.counts, profile.curves, profile.max_gpus
        )
        jobs.append(replace(job, time=job.time * share))
    return Scenario(scenario.cluster, jobs, profiles)


def figure_8(effort: Effort) -> list[Figure]:
    """How much sooner a job completes with CoDDL's resizes than without parts of them."""
    paper = {"few": (2.12, 2.82), "many": (1.19, 1.30)}
    figures = []
    for burst in BURSTS:
        hours = {
            system: np.array([monitored_hours(burst, system, effort.seed + k) for k in range(effort.seeds)])
            for system in SYSTEMS
        }
        for system, printed in zip(list(SYSTEMS)[1:], paper[burst], strict=True):
            ratio = hours[system] / hours["CoDDL"]
            figures.append(mean_figure(f"{burst} jobs arrive", system, "x", ratio, printed))
    return figures


def figure_10(effort: Effort) -> list[Figure]:
    """JCT under Tiresias-L over that under AFS-P and Max-Min, by fifths of the jobs' lengths."""
    figures = []
    for trace in (9,) if effort.quick else (9, 1):
        base = _play(effort, trace, "tiresias-l", effort.seed).simulator.job_results()
        for policy in ("max-min", "afs-p"):
            jobs = _play(effort, trace, policy, effort.seed).simulator.job_results()
            for fifth, ratio in enumerate(by_length(jobs, base, 5)):
                figures.append(Figure(f"trace {trace}, fifth {fifth + 1}", policy, "x", float(ratio)))
    return figures


def appendix_a(effort: Effort) -> list[Figure]:
    """The toy example: the optimum without arrivals is the worse one with them."""
    paper = {"srtf": 1.25, "max-min": 2.0}
    figures = [
        Figure("A and B", policy, "h", toy_hours(policy, 0), paper.get(policy, NAN)) for policy in RULES
    ]
    for x in (1.25, 1.75):
        for policy in RULES:
            figures.append(Figure(f"20 more, x = {x}", policy, "h", toy_hours(policy, 20, x)))
    return figures


def two_jobs(effort: Effort) -> list[Figure]:
    """How often splits of GPUs between two jobs are the best ones, and by how much they miss."""
    rng = np.random.default_rng(effort.seed)
    count, figures = (200 if effort.quick else 2000), []
    for concave in (True, False):
        excess: dict[str, list[float]] = {"(1) and (2)": [], "Algorithm 1": []}
        for _ in range(count):
            gpus = int(rng.integers(2, 17))
            work, speed = random_pair(rng, gpus, concave=concave)
            total = partial(total_seconds, work, speed, gpus=gpus)
            best = total(split=best_split(work, speed, gpus))
            excess["(1) and (2)"].append(total(split=grown_split(work, speed, gpus)) / best)
            excess["Algorithm 1"].append(total(split=afs_split(work, speed, gpus)) / best)
        row = "concave curves" if concave else "any growing curves"
        for name, ratios in excess.items():
            paper = 1.0 if name == "(1) and (2)" else NAN
            hits = float(np.mean(np.array(ratios) < 1 + 1e-9))
            figures.append(Figure(row, f"{name}: best", "", hits, paper))
            figures.append(Figure(row, f"{name}: JCT over the best", "x", float(np.mean(ratios)), paper))
    return figures


def curves(effort: Effort) -> list[Figure]:
    """Fits of the formula of the stand-ins to ElasticFlow's measured curves."""
    assert effort.data is not None
    figures = []
    for gpu in ("A100", "T4"):
        shares, slopes = [], []
        for name, counts, speedup in measurements(effort.data, gpu):
            best = int(counts[speedup.argmax()])
            if speedup.max() < 1.5:
                continue
            found = fit(counts, speedup)
            shares.append(found.share * best / (1.0 - found.share))
            slopes.append(best / float(speedup.max()))
            figures.append(Figure(f"{gpu} {name}", "s", "", shares[-1]))
            figures.append(Figure(f"{gpu} {name}", "relative error", "", found.error))
        figures.append(Figure(f"{gpu} median", "s", "", float(np.median(shares))))
        figures.append(Figure(f"{gpu} median", "k* / speed-up", "", float(np.median(slopes))))
    return figures


REPRODUCTIONS = (
    Reproduction(
        "afs-appendix-a",
        "Toy example: A and B alone, and with jobs that arrive later",
        _SOURCE + "appendix A",
        "The paper's 1.25 h for SRTF leaves out the hour that B waits for A.",
        appendix_a,
        minutes=0.1,
    ),
    Reproduction(
        "afs-curves",
        "Throughput curves that stand in for the nine models, fitted",
        _SOURCE + "Table 4; ElasticFlow's measurements",
        "The paper prints best counts only.",
        curves,
        needs_data=True,
        minutes=0.1,
    ),
    Reproduction(
        "afs-two-jobs",
        "Two jobs: splits by (1) and (2) and by Algorithm 1 against all splits",
        _SOURCE + "section 3.2",
        "Random jobs; the paper says that (1) and (2) give the optimum.",
        two_jobs,
        minutes=0.2,
    ),
    Reproduction(
        "afs-figure-2",
        "Average JCT, queue length, cluster efficiency and blocking index under two loads",
        _SOURCE + "Figure 2, section 2.2",
        "The paper does not say which two traces: 9 and 1 here; on 1 alone Max-Min is worse than SRTF. "
        + _STAND_INS,
        figure_2,
        needs_data=True,
        minutes=5,
    ),
    Reproduction(
        "afs-figure-5a",
        "Average JCT over that of SRTF, with known lengths",
        _SOURCE + "Figures 5a and 11",
        _STAND_INS,
        partial(_reductions, "srtf", AWARE, _mean, {"afs-l": (1.2, 2.7)}),
        needs_data=True,
        minutes=40,
    ),
    Reproduction(
        "afs-figure-5b",
        "Average JCT over that of Tiresias-L, without lengths",
        _SOURCE + "Figure 5b",
        _STAND_INS,
        partial(_reductions, "tiresias-l", (*UNAWARE, *_VARIANTS), _mean, {"afs-p": (1.9, 3.1)}),
        needs_data=True,
        minutes=90,
    ),
    Reproduction(
        "afs-figure-6",
        "Average JCT when rigid jobs ask for the GPUs with which they are fastest",
        _SOURCE + "Figure 6",
        _STAND_INS,
        figure_6,
        needs_data=True,
        minutes=30,
    ),
    Reproduction(
        "afs-figure-7",
        "Two traces run quickly over CoDDL: average JCT, queue length, efficiency, blocking",
        _SOURCE + "Figure 7, section 5.2",
        "Simulated. Submission times and iterations are 1% of trace 9's and 0.2% of trace 3's, restarts 20 "
        "to 60 s a model. Curves are stand-ins with the paper's best GPU counts (docs/afs.md); the public "
        "trace has fewer jobs than Table 3, of which the first 3,000 are played.",
        figure_7,
        needs_data=True,
        minutes=2,
    ),
    Reproduction(
        "afs-figure-8",
        "A job's progress under CoDDL, without cancellation, and with full restarts",
        _SOURCE + "Figure 8",
        "The days of trace 10 cannot be cut out of the public file: jobs are drawn as the paper describes "
        "them.  The gain depends on how long the monitored job is, which is not printed: here 1 GPU-hour.",
        figure_8,
        minutes=0.5,
    ),
    Reproduction(
        "afs-figure-9a",
        "99th percentile of JCT over that of SRTF, with known lengths",
        _SOURCE + "Figure 9a",
        _STAND_INS,
        partial(_reductions, "srtf", AWARE, _p99, {}),
        needs_data=True,
        minutes=40,
    ),
    Reproduction(
        "afs-figure-9b",
        "99th percentile of JCT over that of Tiresias-L, without lengths",
        _SOURCE + "Figure 9b",
        _STAND_INS,
        partial(_reductions, "tiresias-l", UNAWARE, _p99, {}),
        needs_data=True,
        minutes=30,
    ),
    Reproduction(
        "afs-figure-10",
        "JCT over that of Tiresias-L, by length of the job",
        _SOURCE + "Figure 10",
        "Fifths in place of 100 bins. " + _STAND_INS,
        figure_10,
        needs_data=True,
        minutes=20,
    ),
    Reproduction(
        "afs-figure-13",
        "Average JCT of AFS-L over that of AFS-P and AFS-S",
        _SOURCE + "Figure 13, appendix D",
        _STAND_INS,
        partial(_reductions, "afs-l", ("afs-p", "afs-s"), _mean, {"afs-p": (0.5, NAN)}),
        needs_data=True,
        minutes=30,
    ),
)


def burst(kind: str, seed: int) -> Scenario:
    """The monitored job, and the others.

    Returns
    -------
    Scenario
        The job "monitored" comes first.
    """
    rng = np.random.default_rng(seed)
    cluster = testbed()
    models = [curve.on(cluster.configurations.gpus) for curve in stand_ins()]
    restarts = dict(
        zip([curve.name for curve in models], rng.uniform(*_RESTART_SECONDS, len(models)), strict=True)
    )
    own = next(curve for curve in models if curve.name == MONITORED)
    jobs: list[JobSubmission] = []
    profiles: dict[str, Profile] = {}

    def add(name: str, time: float, curve: ModelCurve, work: float) -> None:
        speed = {type: curve.speedup for type in cluster.names}
        profiles[name] = CountProfile(name, restarts[curve.name], work, curve.counts, speed)
        jobs.append(JobSubmission(name, time, curve.name, name, kind="strong-scaling"))

    add("monitored", 0.0, own, _LONG_GPU_SECONDS)
    gaps = np.exp(rng.uniform(np.log(2.0), np.log(70.0), 19))
    times = np.cumsum(gaps) if kind == "few" else np.zeros(67)
    for index, time in enumerate(times.tolist()):
        curve = models[int(rng.integers(len(models)))]
        low, high = np.log(_SHORT_GPU_SECONDS)
        add(f"job-{index}", time, curve, float(np.exp(rng.uniform(low, high))))
    return Scenario(cluster, jobs, profiles)


def monitored_hours(kind: str, system: str, seed: int) -> float:
    """Hours until the monitored job completes under AFS-P.

    Parameters
    ----------
    system : str
        One of :data:`SYSTEMS`.
    """
    resize: Resize = SYSTEMS[system]()
    return float(play(burst(kind, seed), "afs-p", resize=resize).jct[0]) / 3600.0


def toy_hours(policy: str, later: int, hours_on_two: float = 1.5) -> float:
    """Average JCT of the example.

    Parameters
    ----------
    policy : str
        Jobs ask for both GPUs where it is for rigid jobs.
    later : int
        Jobs after A and B.
    hours_on_two : float
        x.

    Returns
    -------
    float
        Hours, over all jobs.
    """
    seconds_on_two = {"A": 1.0, "B": 1.5} | {f"later {k}": hours_on_two for k in range(later)}
    times = {"A": 0.0, "B": 0.0} | {f"later {k}": 1.0 + k * hours_on_two for k in range(later)}
    profiles: dict[str, Profile] = {}
    for name, hours in seconds_on_two.items():
        speed = {"gpu": [1.0, _HOURS_ALONE / hours]}
        profiles[name] = CountProfile(name, 0.0, _HOURS_ALONE * 3600.0, [1, 2], speed)
    jobs = [
        JobSubmission(name, 3600.0 * time, "", name, kind="strong-scaling", tuned_gpus=2)
        for name, time in times.items()
    ]
    return play(Scenario(Cluster([GpuType("gpu", 2, 1)]), jobs, profiles), policy).mean_hours


def total_seconds(work: Sequence[float], speed: Pair, split: tuple[int, int], gpus: int) -> float:
    """Sum of the completion times of two jobs.

    Parameters
    ----------
    speed : pair of (>= gpus + 1,) array
        Throughput of each from 0 GPUs on.
    split : (int, int)
        GPUs of each while both are there.
    gpus : int
        GPUs of the one that is left.

    Returns
    -------
    float
        Infinite if neither makes progress.
    """
    rates = [float(speed[k][split[k]]) for k in range(2)]
    ends = [work[k] / rates[k] if rates[k] > 0 else math.inf for k in range(2)]
    first = 0 if ends[0] <= ends[1] else 1
    if not math.isfinite(ends[first]):
        return math.inf
    last = 1 - first
    left = work[last] - rates[last] * ends[first]
    return 2.0 * ends[first] + left / float(speed[last][gpus])


def best_split(work: Sequence[float], speed: Pair, gpus: int) -> tuple[int, int]:
    """The split with the least sum of completion times, of all.

    Parameters
    ----------
    work, speed
        As for :func:`total_seconds`.

    Returns
    -------
    (int, int)
    """
    splits = [(mine, gpus - mine) for mine in range(gpus + 1)]
    return min(splits, key=lambda split: total_seconds(work, speed, split, gpus))


def grown_split(work: Sequence[float], speed: Pair, gpus: int) -> tuple[int, int]:
    """The split that grows one GPU at a time by (1) and (2).

    Parameters
    ----------
    work, speed
        As for :func:`total_seconds`.

    Returns
    -------
    (int, int)
    """
    a, b = 0, 0
    for m in range(1, gpus + 1):
        to_a = total_seconds(work, speed, (a + 1, b), m)
        to_b = total_seconds(work, speed, (a, b + 1), m)
        a, b = (a + 1, b) if to_a <= to_b else (a, b + 1)
    return a, b


def afs_split(work: Sequence[float], speed: Pair, gpus: int) -> tuple[int, int]:
    """The split by Algorithm 1, which prepares for jobs to come.

    Parameters
    ----------
    work, speed
        As for :func:`total_seconds`; throughput grows with every GPU.

    Returns
    -------
    (int, int)
    """
    flat = np.concatenate([np.asarray(curve[: gpus + 1], np.float64) for curve in speed])
    both = np.full(2, gpus)
    curves = Curves(flat, np.ones(flat.size, bool), np.array([0, gpus + 1]), np.ones(2, np.int64), both)
    a, b = afs_shares(curves, np.asarray(work, np.float64), gpus, key_is_work=True).tolist()
    return a, b


def random_pair(
    rng: np.random.Generator, gpus: int, *, concave: bool
) -> tuple[list[float], list[NDArray[np.float64]]]:
    """Two jobs with log-normal work and throughput that grows by uniform steps.

    Parameters
    ----------
    concave : bool
        Steps in descending order, or in any.

    Returns
    -------
    pair of float, pair of (gpus + 1,) array
    """
    steps = rng.uniform(0.02, 1.0, (2, gpus))
    if concave:
        steps = np.sort(steps, axis=1)[:, ::-1]
    return rng.lognormal(1.0, 1.0, 2).tolist(), [np.concatenate(([0.0], np.cumsum(row))) for row in steps]


@dataclass(frozen=True, eq=False)
class Run:
    """A policy's run on a scenario.

    Attributes
    ----------
    simulator : Simulator
        After the last event.
    """

    scenario: Scenario
    simulator: Simulator

    @property
    def jct(self) -> NDArray[np.float64]:
        """Completion times in seconds, in order of submission."""
        return np.array([job.jct for job in self.simulator.job_results()])

    @property
    def mean_hours(self) -> float:
        """Average JCT in hours."""
        return float(self.jct.mean()) / 3600.0

    @property
    def p99_hours(self) -> float:
        """99th percentile of JCT in hours."""
        return float(np.percentile(self.jct, 99.0)) / 3600.0

    def regime(self) -> dict[str, float]:
        """Averages over time of queue length, cluster efficiency and blocking index (section 2.2).

        Returns
        -------
        dict of str to float
            QL, CE, BI.
        """
        simulator = self.simulator
        # Figures are those of the moment of an event, at which the pauses of 4 ms begin: they do not count.
        held = [replace(segment, restart_seconds=0.0) for segment in simulator.segments]
        over_time = indices(self.scenario, simulator.job_results(), simulator.records, held)
        seconds = np.array([record.seconds for record in simulator.records])
        return {
            "QL": float(np.average(over_time.queue_length, weights=seconds)),
            "CE": float(np.average(over_time.cluster_efficiency, weights=seconds)),
            "BI": float(np.average(over_time.blocking_index, weights=seconds)),
        }


def play(
    scenario: Scenario,
    policy: str,
    settings: Mapping[str, Any] | None = None,
    resize: Resize | None = None,
) -> Run:
    """Simulate a policy to the end.

    Parameters
    ----------
    policy : str
        A name of the registry.
    settings : mapping of str to object, optional
        Settings of the policy.
    """
    simulator = Simulator(scenario, make_policy(policy, **dict(settings or {})), resize=resize)
    return Run(scenario, simulator.play())


def by_length(jobs: Sequence[JobRecord], base: Sequence[JobRecord], bins: int) -> NDArray[np.float64]:
    """How many times sooner jobs complete than under another policy, by how long they take (Figure 10).

    Parameters
    ----------
    jobs, base : sequence of JobRecord
        Those of the same scenario.
    bins : int
        Groups of about equal size, by completion time under `base`.

    Returns
    -------
    (bins,) array
        Ratio of the mean completion times of each group, the shortest jobs first.
    """
    mine, theirs = np.array([job.jct for job in jobs]), np.array([job.jct for job in base])
    groups = np.array_split(np.argsort(theirs, kind="stable"), bins)
    return np.array([theirs[group].mean() / mine[group].mean() for group in groups])
