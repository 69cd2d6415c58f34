"""Files of a run of Shockwave: rounds, jobs, plans and plots in its folder, and the table at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from copter.cli.command import RunOptions
from copter.cli.console import seconds, table
from copter.cli.plots import cumulative
from copter.cli.run import CommandRun
from copter.cli.runfolder import RowFile, RunFolder
from copter.extras import extra
from copter.problems.cluster.policy import Estimator, Policy
from copter.problems.shockwave import RegimeJob, ReplayResult, Shockwave, Solve, replay, schedule_matrix
from copter.problems.shockwave.simulation import Watch

with extra("cli"):
    from matplotlib.figure import Figure

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
_SUMMARY = "figures of the table, for each policy"


class ShockwaveRun(CommandRun):
    """Replays of one trace, with their output folder, if any."""

    meaning = _SUMMARY

    def __init__(self, trace: Sequence[RegimeJob], gpus: int, options: RunOptions, path: Path | None) -> None:
        title = f"Shockwave: {len(trace)} jobs on {gpus} GPUs"
        super().__init__(options, path, title, {"trace_jobs": len(trace)})
        self.trace, self.gpus = list(trace), gpus
        self.results: list[ReplayResult] = []
        self.policies: dict[str, dict[str, Any]] = {}
        self._files: dict[str, RowFile] = {}
        if self._folder is not None:
            for name, columns, row in (
                ("rounds.csv", _ROUND, "round"),
                ("jobs.csv", _JOB, "job"),
                ("plans.csv", _PLAN, "plan of Shockwave"),
            ):
                self._files[name] = self._folder.rows(name, columns, f"a row per policy and {row}:")

    @property
    def admitted(self) -> int:
        """Number of jobs that fit on the cluster."""
        return sum(job.gpus <= self.gpus for job in self.trace)

    def play(self, policy: Policy, show: Watch, estimator: Estimator | None = None) -> None:
        """Replay the trace under a policy, and write its results."""
        begin = perf_counter()
        result = replay(self.trace, self.gpus, policy, estimator=estimator, watch=show)
        wall = perf_counter() - begin
        solves = policy.planner.solves if isinstance(policy, Shockwave) else []
        self.results.append(result)
        self.policies[result.policy] = _figures(result, solves) | {"wall_seconds": wall}
        if self._folder is None:
            return
        for record in result.rounds:
            row = {name: getattr(record, name) for name in ("time", "jobs", "running", "policy_seconds")}
            counts = {"gpus": sum(record.gpus.values()), "starts": record.starts + record.restarts}
            self._write("rounds.csv", result.policy, {"round": record.index} | row | counts)
        for job in result.jobs:
            self._write("jobs.csv", result.policy, asdict(job) | {"jct": job.jct})
        for solve in solves:
            plan = {name: getattr(solve.plan, name) for name in ("objective", "bound", "gap", "exchanges")}
            times = {"relaxation_seconds": solve.relaxation.seconds, "shim_seconds": solve.plan.seconds}
            self._write("plans.csv", result.policy, {"round": solve.index, "jobs": solve.jobs} | times | plan)

    def _write(self, name: str, policy: str, row: Mapping[str, Any]) -> None:
        self._files[name].write({"policy": policy, **row})

    def figures(self) -> dict[str, Any]:
        """Return the figures of the run."""
        return {"jobs": len(self.trace), "gpus": self.gpus, "policies": self.policies}

    def write(self, folder: RunFolder) -> None:
        """Draw the plots."""
        _plot(folder, self.results)

    def print_summary(self) -> None:
        """Print the table at the end."""
        rejected = len(self.trace) - self.admitted
        note = f", {rejected} rejected: too large" if rejected else ""
        table(
            f"{len(self.trace)} jobs on {self.gpus} GPUs{note}",
            (
                "policy",
                "makespan",
                "average JCT",
                "worst FTF",
                "unfair",
                "above 1.05",
                "utilisation",
                "starts a job",
                "round p50 / p99",
                "gap p50 / max",
            ),
            [
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
                for name, one in self.policies.items()
            ],
        )


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


def _plot(folder: RunFolder, results: Sequence[ReplayResult]) -> None:
    for result in results:
        folder.save_figure(
            f"schedule-{result.policy}.png",
            _draw_schedule(result),
            f"running jobs by round under {result.policy}, jobs in order of arrival",
        )
    fairness = {result.policy: [job.ftf for job in result.jobs] for result in results}
    figure = cumulative(fairness, "finish time fairness", "Finish time fairness of the jobs")
    figure.axes[0].axvline(1.0, color="black", linewidth=0.8, linestyle=":")
    folder.save_figure(
        "ftf_cdf.png", figure, "cumulative distribution of the jobs' finish time fairness, by policy"
    )
    folder.save_figure("makespan.png", _draw_makespans(results), "makespan by policy")


def _draw_schedule(result: ReplayResult) -> Figure:
    """Draw jobs by round: blank if absent, light if waiting, dark if running."""
    _, ran = schedule_matrix(result)
    times = np.array([record.time for record in result.rounds])
    there = [(job.arrival <= times) & (times < job.finished) for job in result.jobs]
    state = np.where(ran, 1.0, 0.25 * np.array(there).reshape(ran.shape))
    figure = Figure(figsize=(8.5, 5.0), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(state, aspect="auto", interpolation="nearest", cmap="Blues", vmin=0.0, vmax=1.2)
    axes.set_title(f"Schedule, {result.policy}: waiting light, running dark", loc="left")
    axes.set_xlabel("round")
    axes.set_ylabel("job, in order of arrival")
    return figure


def _draw_makespans(results: Sequence[ReplayResult]) -> Figure:
    """Draw a bar of the makespan for each policy."""
    figure = Figure(figsize=(7.5, 3.8), layout="constrained")
    axes = figure.add_subplot()
    names = [result.policy for result in results]
    bars = axes.bar(names, [result.metrics.makespan / 3600.0 for result in results], width=0.6)
    axes.bar_label(bars, fmt="%.2f", fontsize="small")
    axes.set_title("Makespan", loc="left")
    axes.set_ylabel("hours")
    axes.tick_params(axis="x", labelrotation=20)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
