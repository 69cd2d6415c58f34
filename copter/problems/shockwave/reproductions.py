"""Shockwave on the authors' traces, on generated ones and on Pollux' workloads, for `reproductions.toml`.

Figure 17 runs Shockwave on the workloads that Pollux' authors published, of which it takes arrivals and
durations. The duration of a job is its run time on the GPUs and at the batch size for which it was tuned,
limited to the hours of Shockwave's jobs.  A job with this duration has one of Shockwave's models, in the mix
of its traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure
from copter.errors import InputError
from copter.problems.cluster.registry import make_policy
from copter.problems.pollux.artifact import CLUSTER, Artifact
from copter.problems.reading import find
from copter.problems.shockwave.generator import ARRIVAL_SECONDS, GPU_MIX, HOURS, generate, job_of
from copter.problems.shockwave.metrics import MarketMetrics, read_published
from copter.problems.shockwave.policy import ROUND_SECONDS
from copter.problems.shockwave.simulation import ReplayResult, replay
from copter.problems.shockwave.traces import Mode, RegimeJob, read_jobs

_FOLDER = "uw-mad-dash_shockwave"
_SIZES = {32: 120, 64: 220, 128: 460, 256: 900}
"""Number of jobs of the authors' trace, by number of GPUs."""
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
        trace = _published_trace(effort, gpus)
    found = _run(effort, trace, gpus, policy, **options)
    shown = _shown(found.metrics)
    return shown | {
        "makespan": shown["makespan"] / (ROUND_SECONDS if in_rounds else 1.0),
        "leases extended": 100.0 * found.extended,
        "starts a job": float(np.mean([job.starts for job in found.jobs])),
        **_ends(trace, found),
    }


def _run(effort: Effort, jobs: Sequence[RegimeJob], gpus: int, name: str, **options: Any) -> ReplayResult:
    """Replay a trace under a policy of the registry, with options."""
    effort.say(f"{name} {options or ''}: {len(jobs)} jobs on {gpus} GPUs")
    return replay(jobs, gpus, make_policy(name, **options))


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
    fairness: list[dict[str, Any]] = [
        {"column": column, "of": "shockwave, {gpus} GPUs"} for column in ("worst FTF", "unfair")
    ]
    derived = [over | {"column": "makespan over Shockwave's"}, *fairness]
    for pick in ("least", "most"):
        derived.append(
            over | {"row": "{policy}", "column": f"makespan over Shockwave's, {pick}", "pick": pick}
        )
    worst = {"row": "{policy}", "column": "worst FTF over Shockwave's", "field": "worst FTF", "paired": False}
    derived += [over | worst, *({"row": "shockwave, mean"} | one for one in fairness)]
    return simulated(effort, row="{policy}, {gpus} GPUs", derived=derived, **settings)


def physical(effort: Effort, *, published: str, gpus: int, **settings: Any) -> list[PaperFigure]:
    """Return how far our simulation, and that of the authors, differ from runs on the physical cluster."""
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
