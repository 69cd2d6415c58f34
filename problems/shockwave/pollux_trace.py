"""Figures 11 and 17: Shockwave on the workloads that Pollux' authors published, and against Pollux itself.

Figure 17 takes arrivals and durations of the workload: of each job the run time on the GPUs and at the batch
size that it was tuned for, cut to the hours of Shockwave's jobs.  What runs for so long is one of Shockwave's
models, in the mix of its traces.  In figure 11 the jobs are the workload's own, with
the batch sizes that are best for them on the GPUs that they ask for.
"""

from __future__ import annotations

import numpy as np

from copter.bench.reproduction import Effort, Figure, mean_figure
from copter.problems.cluster.simulation.results import JobRecord
from copter.problems.pollux.artifact import CLUSTER, Artifact
from copter.problems.shockwave.experiments import FAIR, fairness_figures, run
from copter.problems.shockwave.generator import GPU_MIX, HOURS, job_of
from copter.problems.shockwave.traces import Job, Mode, Regime

GPUS = 32
NAN = float("nan")


def pollux_jobs(artifact: Artifact, number: int, seed: int) -> list[Job]:
    """Jobs of Shockwave's models with arrivals, durations and GPUs of a workload of Pollux'.

    Parameters
    ----------
    number : int
        Of the workload.
    seed : int
        Of models and modes.
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
    found = {name: [run(effort, t, GPUS, name).metrics for t in traces] for name in ("shockwave", *FAIR)}
    ours = found["shockwave"]
    spans = [float(np.mean([found[name][k].makespan for name in FAIR])) for k in range(len(traces))]
    gains = [span / one.makespan for one, span in zip(ours, spans, strict=True)]
    figures = [mean_figure("fair, mean", "makespan over ours", "x", gains, 1.2)]
    for name, each in found.items():
        pairs = zip(each, ours, strict=True)
        figures.append(
            mean_figure(name, "makespan over ours", "x", (a.makespan / b.makespan for a, b in pairs))
        )
        figures += fairness_figures(name, each, (NAN, NAN))
    return figures


def observed_jobs(artifact: Artifact, number: int) -> list[Job]:
    """Jobs of a workload on the GPUs that they ask for, with the batch sizes that are best there.

    Each level of a job's profile is a regime of one epoch: that is its batch size schedule.

    Parameters
    ----------
    number : int
        Of the workload.
    """
    jobs = []
    for one in artifact.jobs(number):
        asked = one.gpus or one.tuned_gpus or 1
        clock = artifact.profiles[one.application].clock(CLUSTER.packed("t4", asked))
        regimes = tuple(Regime(k + 1, 1, step) for k, step in enumerate(np.diff(clock).tolist()))
        mode = Mode.GNS if len(regimes) > 1 else Mode.STATIC
        jobs.append(Job(one.name, one.time, asked, mode, regimes, one.application))
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
