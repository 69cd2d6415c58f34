"""Runs of policies in the simulator: rounds, jobs and allocations in a folder, a table, and a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from copter.bench.formats import small, with_deviation
from copter.bench.report.model import ReportTable, simple_table
from copter.cli.command import RunOptions
from copter.cli.console import progress, seconds
from copter.cli.run import ROUNDS, Run
from copter.cli.runfolder import Rows
from copter.problems.cluster.experiment import PolicyOutcome, Progress, averages
from copter.problems.cluster.report.page import sections
from copter.problems.cluster.results import ClusterRecord, JobRecord, Segment, columns
from copter.tasks.tasks import Task, TaskRunner

if TYPE_CHECKING:
    from rich.progress import TaskID

_JOBS, _ALLOCATIONS = "jobs.csv", "allocations.csv"
_WHO = {"policy": "name of the policy", "seed": "seed of the sample of the trace"}
_ROUND = columns(ClusterRecord)
_HELD = "a row per policy, seed and interval in which a job held the same GPUs:"
_FILES = {
    ROUNDS: Rows("a row per policy, seed and round:", _WHO | _ROUND, "figure of the policy"),
    _JOBS: Rows("a row per policy, seed and job:", _WHO | columns(JobRecord)),
    _ALLOCATIONS: Rows(_HELD, _WHO | columns(Segment)),
}
_TABLE = {
    "average_jct_hours": "average JCT (h)",
    "p50_jct_hours": "p50 (h)",
    "p99_jct_hours": "p99 (h)",
    "makespan_hours": "makespan (h)",
    "gpu_hours_per_job": "GPU-h/job",
    "restarts_per_job": "restarts",
    "utilisation": "used",
    "worst_ftf": "worst FTF",
    "unfair_fraction": "unfair",
    "jobs_completed": "jobs",
}


class PolicyRuns(Run):
    """Simulations of several policies, each with one or several seeds."""

    def __init__(
        self, options: RunOptions, domain: str, title: str, config: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(options, domain, title, _FILES, config)
        self.outcomes: list[PolicyOutcome] = []

    def play(self, spread: TaskRunner, tasks: Sequence[Task]) -> None:
        """Play tasks of :func:`~copter.problems.cluster.experiment.run_tasks`, with a bar for each."""
        quiet = self.options.quiet
        bar = progress("{task.fields[hour]:6.1f} h", "queue {task.fields[queue]:4d}", quiet=quiet)
        lines: dict[Task, TaskID] = {}
        idle: dict[str, list[TaskID]] = {}

        def show(task: Task, now: Progress) -> None:
            free = idle.setdefault(now.policy, [])
            if task not in lines:
                lines[task] = free.pop() if free else bar.add_task(now.policy, total=None, hour=0.0, queue=0)
                bar.reset(lines[task], total=now.total, description=f"{now.policy} seed {now.seed}")
            bar.update(lines[task], completed=now.completed, hour=now.hour, queue=now.queue)
            if now.over:  # the next seed of the policy reuses the line
                free.append(lines[task])

        with bar:
            for ended in spread.each(tasks, show):
                self.take(ended.result())

    def take(self, outcome: PolicyOutcome) -> None:
        """Keep the outcome of a policy with a seed, and write its rows."""
        self.outcomes.append(outcome)
        who = {"policy": outcome.policy, "seed": outcome.seed}
        for record in outcome.rounds:
            row = {name: getattr(record, name) for name in _ROUND}
            gpus = {"gpus": sum(record.gpus.values()), "there": sum(record.there.values())}
            self.write(ROUNDS, {**who, **row, **gpus, **record.figures})
        for job in outcome.jobs:
            self.write(_JOBS, who | asdict(job))
        for segment in outcome.segments:
            place = " ".join(f"{node}:{gpus}" for node, gpus in segment.place or ())
            self.write(_ALLOCATIONS, who | asdict(segment) | {"place": place})

    def report(self) -> None:
        """End the run with the metrics of each policy."""
        first, policies = self.outcomes[0], averages(self.outcomes)
        for name, one in policies.items():
            mine = [len(outcome.rejected) for outcome in self.outcomes if outcome.policy == name]
            one["rejected"] = sum(mine) / len(mine)
        jobs, gpus = len(first.scenario.jobs), first.scenario.cluster.gpus
        rejected = [f"{name} {one['rejected']:g}" for name, one in policies.items() if one["rejected"]]
        note = f"; jobs that do not fit on the cluster: {', '.join(rejected)}" if rejected else ""
        self.end(
            {"gpus": gpus, "jobs": jobs, "policies": policies},
            [_table(f"{self.title} ({jobs} jobs, {gpus} GPUs{note})", policies)],
            lambda: sections(self.outcomes),
        )


def _table(title: str, policies: Mapping[str, Mapping[str, Any]]) -> ReportTable:
    """Return the table of the metrics of policies, means over the seeds with their standard deviations."""
    rows = [
        (
            name,
            *(with_deviation(one[key], one[f"{key}_std"]) for key in _TABLE),
            seconds(one["policy_p50_s"]),
            seconds(one["policy_p99_s"]),
            small(one.get("gap_max", math.nan)),
        )
        for name, one in policies.items()
    ]
    heads = ("policy", *_TABLE.values(), "policy p50", "p99", "largest gap")
    return simple_table(title, heads, rows)
