"""`copter run shockwave`: rounds, jobs and plans of policies in a folder, a table, and schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from copter.bench.report.model import Claim, Picture, ReportTable, simple_table
from copter.cli.console import progress, seconds
from copter.cli.plots import cumulative, picture
from copter.cli.run import ROUNDS, Run
from copter.cli.runfolder import Rows
from copter.extras import extra
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.results import ClusterRecord
from copter.problems.shockwave import (
    ALIASES,
    RegimeJob,
    ReplayResult,
    Shockwave,
    Solve,
    generate,
    replay,
    schedule_matrix,
)

with extra("cli"):
    from matplotlib.figure import Figure

if TYPE_CHECKING:
    from copter.problems.shockwave.cli import ShockwaveRunOptions

_JOBS, _PLANS = "jobs.csv", "plans.csv"
_ROUND = {
    "policy": "name of the policy",
    "round": "number of the round with at least one job, from 0",
    "time": "seconds at its start",
    "jobs": "number of jobs that have arrived and not completed",
    "running": "number of jobs that run",
    "gpus": "GPUs of the running jobs",
    "starts": "number of jobs that run now and not in the round before",
    "policy_seconds": "run time of the policy in seconds",
}
_JOB = {
    "policy": "name of the policy",
    "name": "name of the job",
    "gpus": "number of GPUs of the job",
    "arrival": "time of its arrival in seconds",
    "finished": "time of its completion in seconds",
    "jct": "finished - arrival",
    "exclusive_seconds": "run time alone on its GPUs",
    "starts": "number of starts and restarts",
    "ftf": "finish time fairness, with the contention of the whole trace",
    "ftf_live": "finish time fairness, with the mean contention during its stay",
}
_PLAN = {
    "policy": "name of the policy",
    "round": "round in which the plan was made",
    "jobs": "number of jobs in the plan",
    "relaxation_seconds": "time of solving the relaxation in seconds",
    "shim_seconds": "time of the plan shim in seconds",
    "objective": "objective of the plan, maximised",
    "bound": "certified upper bound on the objective of any plan",
    "gap": "(bound - objective) / magnitude of the objective's terms: all logarithms, and the makespan",
    "exchanges": "number of improvements after rounding",
}


def run_shockwave(trace: Sequence[RegimeJob], options: ShockwaveRunOptions) -> None:
    """Play policies on a trace, each under a progress bar of completed jobs, and report them."""
    admitted = sum(job.gpus <= options.gpus for job in trace)
    title = f"{len(trace)} jobs on {options.gpus} GPUs"
    files = {
        name: Rows(f"a row per policy and {row}:", columns)
        for name, columns, row in (
            (ROUNDS, _ROUND, "round"),
            (_JOBS, _JOB, "job"),
            (_PLANS, _PLAN, "plan of Shockwave"),
        )
    }
    results: list[ReplayResult] = []
    policies: dict[str, dict[str, Any]] = {}
    config = {"trace_jobs": len(trace)}
    bar = progress("{task.fields[hour]:5.1f} h", "queue {task.fields[queue]:4d}", quiet=options.quiet)
    with Run(options, "shockwave", f"Shockwave: {title}", files, config) as run, bar:
        for name in options.policies:
            if name in ALIASES.values():  # so that compilation of the solver does not count in a round's time
                replay(generate(6, arrival_seconds=0.0), 8, make_policy(name))
            task, policy = bar.add_task(name, total=admitted, hour=0.0, queue=0), options.policy(name)

            def show(record: ClusterRecord, completed: int, task: Any = task) -> None:
                waiting = record.jobs - record.running
                bar.update(task, completed=completed, hour=record.time / 3600.0, queue=waiting)

            begin = perf_counter()
            result = replay(trace, options.gpus, policy, estimator=options.estimator(name), watch=show)
            bar.update(task, completed=admitted, queue=0)
            solves = policy.planner.solves if isinstance(policy, Shockwave) else []
            results.append(result)
            policies[result.policy] = _figures(result, solves) | {"wall_seconds": perf_counter() - begin}
            _write(run, result, solves)
        bar.stop()
        note = f", {len(trace) - admitted} rejected: too large" if admitted < len(trace) else ""
        summary = {"jobs": len(trace), "gpus": options.gpus, "policies": policies}
        run.end(summary, [_table(title + note, policies)], lambda: [_fairness(results), _schedules(results)])


def _write(run: Run, result: ReplayResult, solves: Sequence[Solve]) -> None:
    """Write the rows of a policy."""
    who = {"policy": result.policy}
    for record in result.rounds:
        row = {name: getattr(record, name) for name in ("time", "jobs", "running", "policy_seconds")}
        counts = {"gpus": sum(record.gpus.values()), "starts": record.starts + record.restarts}
        run.write(ROUNDS, who | {"round": record.index} | row | counts)
    for job in result.jobs:
        run.write(_JOBS, who | asdict(job) | {"jct": job.jct})
    for solve in solves:
        plan = {name: getattr(solve.plan, name) for name in ("objective", "bound", "gap", "exchanges")}
        times = {"relaxation_seconds": solve.relaxation.seconds, "shim_seconds": solve.plan.seconds}
        run.write(_PLANS, who | {"round": solve.index, "jobs": solve.jobs} | times | plan)


def _table(title: str, policies: Mapping[str, Mapping[str, Any]]) -> ReportTable:
    heads = "policy, makespan, average JCT, worst FTF, unfair, above 1.05, utilisation, starts a job"
    rows = [
        (
            name,
            f"{one['makespan']:,.0f} s",
            f"{one['average_jct']:,.0f} s",
            f"{one['worst_ftf']:.2f}",
            f"{one['unfair_fraction']:.1%}",
            f"{one['unfair_fraction_tolerant']:.1%}",
            f"{one['utilisation']:.1%}",
            f"{one['starts_per_job']:.2f}",
            f"{seconds(one['policy_p50_s'])} / {seconds(one['policy_p99_s'])}",
            f"{one['median_gap']:.0e} / {one['max_gap']:.0e}" if one["plans"] else "-",
        )
        for name, one in policies.items()
    ]
    return simple_table(title, (*heads.split(", "), "round p50 / p99", "gap p50 / max"), rows)


def _figures(result: ReplayResult, solves: Sequence[Solve]) -> dict[str, Any]:
    times = np.array([record.policy_seconds for record in result.rounds])
    gaps = np.array([solve.plan.gap for solve in solves])
    return {
        **result.metrics.as_row(),
        "rounds": len(result.rounds),
        "rejected": len(result.rejected),
        "starts_per_job": float(np.mean([job.starts for job in result.jobs])),
        "policy_p50_s": float(np.median(times)),
        "policy_p99_s": float(np.percentile(times, 99)),
        "plans": len(solves),
        "median_gap": float(np.median(gaps)) if solves else None,
        "max_gap": float(gaps.max()) if solves else None,
    }


def _fairness(results: Sequence[ReplayResult]) -> Claim:
    samples = {result.policy: [job.ftf for job in result.jobs] for result in results}
    shown = cumulative(
        "ftf", samples, "finish time fairness", "Share of the jobs with at most this value", mark=1.0
    )
    return Claim("fairness", "Finish time fairness", pictures=(shown,))


def _schedules(results: Sequence[ReplayResult]) -> Claim:
    text = "Running jobs by round: jobs in order of arrival, waiting light, running dark."
    return Claim("schedules", "Schedules", text, tuple(map(_schedule, results)))


def _schedule(result: ReplayResult) -> Picture:
    """Draw jobs by round: blank if absent, light if waiting, dark if running."""
    _, ran = schedule_matrix(result)
    times = np.array([record.time for record in result.rounds])
    there = [(job.arrival <= times) & (times < job.finished) for job in result.jobs]
    state = np.where(ran, 1.0, 0.25 * np.array(there).reshape(ran.shape))
    figure = Figure(figsize=(8.5, 5.0), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(state, aspect="auto", interpolation="nearest", cmap="Blues", vmin=0.0, vmax=1.2)
    axes.set(xlabel="round", ylabel="job, in order of arrival")
    return picture(f"schedule-{result.policy}", f"Schedule of {result.policy}", figure)
