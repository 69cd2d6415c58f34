"""Shockwave on the authors' traces, on generated ones and on Pollux' workloads, for `reproductions.toml`.

Figures 2, 4 and 5 measure the benefit of foresight of batch sizes, and the accuracy of predictions.

Figures 11 and 17 run Shockwave on the workloads that Pollux' authors published, and compare it with Pollux.
Figure 17 takes arrivals and durations from the workload.  The duration of a job is its run time on the GPUs
and at the batch size for which it was tuned, limited to the hours of Shockwave's jobs.  A job with this
duration has one of Shockwave's models, in the mix of its traces.  In figure 11, jobs are those of the
workload, with the batch sizes that are best for them on the GPUs that they request.

Figure 12 (section 8.9) measures the gaps of plans by number of jobs and time limit.  The paper's solver is
branch and bound on the whole program; here it begins with the shim's plan and the relaxation's prices, and
ends before the limit if the plan is proven optimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure, mean_figure
from copter.bench.rounds import measure
from copter.bench.settings import SolverSettings
from copter.errors import InputError
from copter.problems.cluster.policy import Estimator
from copter.problems.cluster.registry import make_policy
from copter.problems.pollux.artifact import CLUSTER, Artifact
from copter.problems.reading import find
from copter.problems.shockwave import KNOWLEDGE
from copter.problems.shockwave.awareness import make_knowledge
from copter.problems.shockwave.course import PlanCourse
from copter.problems.shockwave.generator import ARRIVAL_SECONDS, GPU_MIX, HOURS, generate, job_of
from copter.problems.shockwave.metrics import MarketMetrics, read_published
from copter.problems.shockwave.policy import ROUND_SECONDS
from copter.problems.shockwave.predictor import prediction_errors
from copter.problems.shockwave.scheduler import Settings
from copter.problems.shockwave.simulation import ReplayResult, replay
from copter.problems.shockwave.traces import Mode, Regime, RegimeJob, read_jobs
from copter.problems.shockwave.window import ROUNDS

_FOLDER = "uw-mad-dash_shockwave"
_SIZES = {32: 120, 64: 220, 128: 460, 256: 900}
"""Number of jobs of the authors' trace, by number of GPUs."""
_TRAINED = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Shares of the training at which predictions are measured."""
_THREE_JOBS = (
    RegimeJob("J1", 0.0, 1, Mode.GNS, (Regime(32, 1, 3600.0), Regime(64, 4, 900.0))),
    RegimeJob("J2", 0.0, 1, Mode.GNS, (Regime(32, 1, 3600.0), Regime(64, 4, 900.0))),
    RegimeJob("J3", 0.0, 1, Mode.STATIC, (Regime(32, 5, 2160.0),)),
)
"""Jobs similar to figure 4, which has no times: two of them seem longer than the third, but are shorter."""
_QUARTERS = ("(X)Large", "Medium", "Small", "XSmall")
"""Names of the quarters of the jobs, from the largest."""
_UNITS = {
    "makespan": "s",
    "average JCT": "s",
    "unfair": "%",
    "unfair, FTF above 1.1": "%",
    "leases extended": "%",
    **{f"mean end, {name}": "rounds" for name in _QUARTERS},
}


def simulated(effort: Effort, *, rounds_shown: bool = False, **settings: Any) -> list[PaperFigure]:
    """Return the figures of policies on traces (see `_sample`), with makespans in seconds or in rounds."""
    units = _UNITS | ({"makespan": "rounds"} if rounds_shown else {})
    return grid(effort, _sample, units, paper=_paper, in_rounds=rounds_shown, **settings)


def _sample(
    effort: Effort,
    row: str,
    k: int,
    *,
    policy: str,
    gpus: int,
    know: str = "",
    published: str = "",
    file: str = "",
    in_rounds: bool = False,
    workload: str = "authors",
    jobs: int = 0,
    arrival_seconds: float = 0.0,
    dynamic: float | None = None,
    **options: Any,
) -> dict[str, float]:
    """Replay a trace under a policy with options, and return the values of the figures.

    The trace is the authors' for the number of GPUs, one of Pollux' workloads, or a generated one with a
    number of jobs, a time between arrivals and a share of dynamic jobs.
    """
    seed = effort.seed + k
    if workload == "generated":
        trace = generate(jobs, seed=seed, arrival_seconds=arrival_seconds)
        trace = trace if dynamic is None else mixed_jobs(seed, dynamic, jobs)
    elif workload == "pollux":
        artifact = Artifact(effort)
        trace = _pollux_jobs(artifact, artifact.numbers[k], seed)
    else:
        trace = list(_THREE_JOBS) if workload == "three" else _published_trace(effort, gpus)
    found = _run(effort, trace, gpus, policy, estimator=make_knowledge(know) if know else None, **options)
    shown = _shown(found.metrics)
    return shown | {
        "makespan": shown["makespan"] / (ROUND_SECONDS if in_rounds else 1.0),
        "leases extended": 100.0 * found.extended,
        "starts a job": float(np.mean([job.starts for job in found.jobs])),
        **_ends(trace, found),
    }


def _run(
    effort: Effort,
    jobs: Sequence[RegimeJob],
    gpus: int,
    name: str,
    *,
    estimator: Estimator | None = None,
    **options: Any,
) -> ReplayResult:
    """Replay a trace under a policy of the registry, with options."""
    effort.say(f"{name} {options or ''}: {len(jobs)} jobs on {gpus} GPUs")
    return replay(jobs, gpus, make_policy(name, **options), estimator=estimator)


def _shown(metrics: MarketMetrics) -> dict[str, float]:
    return {
        "makespan": metrics.makespan,
        "average JCT": metrics.average_jct,
        "worst FTF": metrics.worst_ftf,
        "unfair": 100.0 * metrics.unfair_fraction,
        "unfair, FTF above 1.1": 100.0 * metrics.unfair_fraction_tolerant,
    }


def _ends(trace: Sequence[RegimeJob], found: ReplayResult) -> dict[str, float]:
    """Return the mean rounds at the end of which quarters of the jobs completed."""
    work = {job.name: job.gpus * job.seconds for job in trace}
    ends = [job.finished / ROUND_SECONDS for job in sorted(found.jobs, key=lambda job: -work[job.name])]
    quarters = zip(_QUARTERS, np.array_split(np.array(ends), 4), strict=True)
    return {f"mean end, {name}": float(part.mean()) for name, part in quarters if part.size}


def mixed_jobs(seed: int, dynamic: float, jobs: int) -> list[RegimeJob]:
    """Return generated jobs for 64 GPUs with a share of dynamic jobs, half by Accordion and half by GNS."""
    mix = {Mode.STATIC: 1.0 - dynamic, Mode.ACCORDION: 0.5 * dynamic, Mode.GNS: 0.5 * dynamic}
    return generate(jobs, seed=seed, arrival_seconds=ARRIVAL_SECONDS[64], mode_mix=mix)


def _pollux_jobs(artifact: Artifact, number: int, seed: int) -> list[RegimeJob]:
    """Return jobs with Shockwave's models, and arrivals, durations and GPUs of one of Pollux' workloads."""
    rng = np.random.default_rng(seed)
    counts = np.array(sorted(GPU_MIX))
    jobs = []
    for one in artifact.jobs(number):
        asked = one.gpus or one.tuned_gpus or 1
        profile = artifact.profiles[one.application].at_fixed_batch(one.batch_size)
        seconds = float(profile.clock(CLUSTER.packed("t4", asked))[-1])
        seconds = min(max(seconds, 3600.0 * HOURS[0]), 3600.0 * HOURS[1])
        jobs.append(job_of(rng, one.name, one.time, int(counts[counts <= asked].max()), seconds))
    return jobs


def _published_folder(effort: Effort) -> Path:
    folder = find(effort.data, _FOLDER)
    if folder is None:
        raise InputError(effort.data or "data", _FOLDER, "no such folder")
    return folder


def _published_trace(effort: Effort, gpus: int) -> list[RegimeJob]:
    """Return the authors' trace for 32, 64, 128 or 256 GPUs."""
    folder = _published_folder(effort) / "derived_job_epochs"
    found = sorted(folder.glob(f"{_SIZES[gpus]}_*.json"))
    if not found:
        raise InputError(folder, "file", f"no trace of {_SIZES[gpus]} jobs")
    return read_jobs(found[0])


def _paper(
    effort: Effort, *, gpus: int, published: str = "", file: str = "", **others: Any
) -> dict[str, float]:
    """Return the published result of the authors with this name, in which a file is in braces."""
    if not published:
        return {}
    name = f"tacc_32gpus_{published.format(file=file)}.json"
    path = _published_folder(effort) / "scheduler" / "results_json" / name
    return _shown(read_published(path, _published_trace(effort, gpus)).metrics)


def sizes(effort: Effort, **settings: Any) -> list[PaperFigure]:
    """Return makespans over Shockwave's by number of GPUs with their range, and Shockwave's fairness."""
    over = {"of": "{policy}, {gpus} GPUs", "over": "shockwave, {gpus} GPUs"}
    ours: list[dict[str, Any]] = [
        {"column": column, "of": "shockwave, {gpus} GPUs"} for column in ("worst FTF", "unfair")
    ]
    derived = [over | {"column": "makespan over ours"}, *ours]
    for pick in ("least", "most"):
        derived.append(over | {"row": "{policy}", "column": f"makespan over ours, {pick}", "pick": pick})
    worst = {"row": "{policy}", "column": "worst FTF over ours", "field": "worst FTF", "paired": False}
    derived += [over | worst, *({"row": "shockwave, mean"} | one for one in ours)]
    return simulated(effort, row="{policy}, {gpus} GPUs", derived=derived, **settings)


def physical(effort: Effort, *, published: str, gpus: int, **settings: Any) -> list[PaperFigure]:
    """Return the differences of our and the authors' simulations from runs on the physical cluster."""
    figures = simulated(effort, published=published, gpus=gpus, **settings)
    ours = {(one.row, one.column): one.ours for one in figures}
    physical = {(one.row, one.column): one.paper for one in figures}
    simulation = published.replace("physical", "simulation")
    theirs = {
        (row, column): value
        for row, one in settings["axes"]["policy"].items()
        for column, value in _paper(effort, gpus=gpus, published=simulation, **one).items()
    }
    for column in ("makespan", "average JCT", "unfair"):
        for row, found in (
            ("mean difference", ours),
            ("mean difference, authors' simulator by the same files", theirs),
        ):
            off = [
                abs(found[place] - paper) if column == "unfair" else 100.0 * abs(found[place] / paper - 1.0)
                for place, paper in physical.items()
                if place[1] == column
            ]
            figures.append(PaperFigure(row, column, "%", float(np.mean(off))))
    return figures


def one_job(effort: Effort) -> list[PaperFigure]:
    """Return the fairness to all dynamic jobs, and to the one to which reactive Themis is most unfair."""
    jobs = _published_trace(effort, 32)
    dynamic = {job.name for job in jobs if len(job.regimes) > 1}
    found = {
        f"themis, {know}": _run(effort, jobs, 32, "themis", estimator=make_knowledge(know))
        for know in ("agnostic", "reactive")
    }
    found["shockwave, proactive"] = _run(effort, jobs, 32, "shockwave")
    ftf = {row: {job.name: job.ftf for job in one.jobs if job.name in dynamic} for row, one in found.items()}
    reactive = ftf["themis, reactive"]
    name = max(sorted(reactive), key=reactive.__getitem__)
    late = {row: float(np.mean(np.array(list(ratios.values())) > 1.0)) for row, ratios in ftf.items()}
    return [PaperFigure(row, "FTF of one job", "", ratios[name]) for row, ratios in ftf.items()] + [
        PaperFigure(row, "unfair dynamic jobs", "%", 100.0 * share) for row, share in late.items()
    ]


def foresight(effort: Effort) -> list[PaperFigure]:
    """Return makespans of OSSP by its knowledge, on three jobs and, with data, on the authors' trace."""
    cases = {"3 jobs": {"workload": "three", "gpus": 2}}
    if effort.data is not None:
        cases["120 jobs"] = {"workload": "authors", "gpus": 32}
    derived = [
        {
            "column": "makespan over proactive",
            "of": "{know}, {case}",
            "over": "proactive, {case}",
            "how": "above",
        }
    ]
    axes = {"case": cases, "know": KNOWLEDGE}
    return simulated(effort, row="{know}, {case}", axes=axes, derived=derived, samples=1, policy="ossp")


def predictions(effort: Effort, *, gpus: Sequence[int]) -> list[PaperFigure]:
    """Return the errors of the three prediction rules on the jobs of the traces for some numbers of GPUs."""
    jobs = [job for each in gpus for job in _published_trace(effort, each)]
    figures, curves = [], []
    for rule, errors in prediction_errors(jobs).items():
        for column, values in (("regimes", errors.regime), ("run time", errors.run_time)):
            figures.append(PaperFigure(f"on average: {rule}", column, "%", 100.0 * float(values.mean())))
        for share in _TRAINED:
            row = f"{share:.0%} of the training over: {rule}"
            for column, values in (("regimes", errors.regime), ("run time", errors.run_time)):
                curves.append(
                    PaperFigure(row, column, "%", 100.0 * float(np.interp(share, errors.progress, values)))
                )
    return figures + curves


def _observed_jobs(artifact: Artifact, number: int) -> list[RegimeJob]:
    """Return the jobs of a workload on the GPUs that they request, with the batch sizes that are best there.

    Each level of a job's profile is a regime of one epoch; these regimes are its batch size schedule.
    """
    jobs = []
    for one in artifact.jobs(number):
        asked = one.gpus or one.tuned_gpus or 1
        clock = artifact.profiles[one.application].clock(CLUSTER.packed("t4", asked))
        regimes = tuple(Regime(k + 1, 1, step) for k, step in enumerate(np.diff(clock).tolist()))
        mode = Mode.GNS if len(regimes) > 1 else Mode.STATIC
        jobs.append(RegimeJob(one.name, one.time, asked, mode, regimes, one.application))
    return jobs


def against_pollux(effort: Effort) -> list[PaperFigure]:
    """Return Shockwave's figures over Pollux' on Pollux' workloads, 64 GPUs, and the fairness of both."""
    artifact = Artifact(effort)
    found: dict[tuple[str, str, str], list[float]] = {}

    def note(row: str, unit: str, **values: float) -> None:
        for column, value in values.items():
            found.setdefault((row, column, unit), []).append(value)

    for number in artifact.numbers:
        jobs = _observed_jobs(artifact, number)
        ours = _run(effort, jobs, CLUSTER.gpus, "shockwave")
        effort.say(f"pollux: workload {number}")
        theirs = artifact.simulator("pollux", artifact.jobs(number)).play().job_results()
        alone = {job.name: job.seconds * len(jobs) / CLUSTER.gpus for job in jobs}
        rho = np.array([one.jct / alone[one.name] for one in theirs])
        span = max(one.finished for one in theirs) - min(one.submitted for one in theirs)
        held = sum((one.end - one.begin) * one.gpus for one in ours.segments)
        ratios = {
            "JCT": ours.metrics.average_jct / float(np.mean([one.jct for one in theirs])),
            "makespan": ours.metrics.makespan / span,
            "GPU-hours": held / sum(one.gpu_seconds for one in theirs),
        }
        note("shockwave over pollux", "x", **ratios)
        fairness = {
            "pollux": (float(rho.max()), 100.0 * float((rho > 1.0).mean())),
            "shockwave": (ours.metrics.worst_ftf, 100.0 * ours.metrics.unfair_fraction),
        }
        for name, (worst, unfair) in fairness.items():
            note(name, "", **{"worst FTF": worst})
            note(name, "%", unfair=unfair)
    return [mean_figure(*place, values) for place, values in found.items()]


def overhead(
    effort: Effort, *, jobs: Sequence[int], gpus: int, seconds: Sequence[float], rounds: int
) -> list[PaperFigure]:
    """Return the largest bound gap of plans by number of jobs and time limit, and the time they take.

    Each plan is the shim's, which branch and bound then improves until the limit or a proof. Half of the
    limit is for the shim.
    """
    figures = []
    for count in jobs:
        for limit in (0.0, *seconds):
            row = f"{count:,} jobs, {limit:g} s" if limit else f"{count:,} jobs, shim alone"
            effort.say(f"{row}: {gpus} GPUs")
            settings = Settings(rounds=ROUNDS, shim_seconds=0.5 * limit or 1.0, exact=limit > 0.0)
            course = PlanCourse(count, gpus, rounds, effort.seed, settings)
            solver = SolverSettings("copter", 1e-6, limit or None)
            records = measure(course, solver).records[1:]
            gap = 100.0 * float(max(record["answer_gap"] for record in records))
            middle = float(np.median([record["seconds"] for record in records]))
            figures.append(PaperFigure(row, "largest bound gap", "%", gap))
            figures.append(PaperFigure(row, "time of a plan, median", "s", middle))
    return figures
