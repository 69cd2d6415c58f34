"""Output of `copter run sia`: rounds, jobs, metrics and plots in its folder, and a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from copter.cli.command import RunOptions
from copter.cli.console import seconds, table
from copter.cli.plots import cumulative, over_time, round_times
from copter.cli.run import CommandRun
from copter.cli.runfolder import RowFile, RunFolder
from copter.problems.cluster.results import JobRecord, columns
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.traces.tuned import TunedJobs
from copter.problems.cluster.workload import Scenario
from copter.problems.policies.first_come import FirstCome
from copter.problems.sia.replay import Replay, SiaRecord, outcome

_ROUND = columns(SiaRecord)
_SUMMARY = (
    "metrics of the table: JCT, makespan, utilisation, restarts, policy seconds, largest certified gap; "
    "first_come_first_served: metrics of the same jobs with fixed GPUs in order of arrival"
)


class SiaRun(CommandRun):
    """A replay with its run folder, if any."""

    meaning = _SUMMARY

    def __init__(self, replay: Replay, options: RunOptions, path: Path | None) -> None:
        cluster = replay.policy.cluster
        config = {
            "jobs": len(replay.jobs),
            "cluster (GPUs per node, nodes)": {
                type.name: [type.gpus_per_node, type.nodes] for type in cluster.types
            },
        }
        super().__init__(options, path, f"Sia policy: {len(replay.jobs)} jobs on {cluster.gpus} GPUs", config)
        self.replay = replay
        self._rows: RowFile | None = None

    def rounds(self) -> Iterator[SiaRecord]:
        """Yield the rounds, each after it is written to rounds.csv."""
        for record in self.replay.run():
            if self._folder is not None:
                self._write(self._folder, record.as_row())
            yield record

    def _write(self, folder: RunFolder, row: Mapping[str, Any]) -> None:
        if self._rows is None:
            types = {name: "share of this type's GPUs that jobs have" for name in row if name not in _ROUND}
            self._rows = folder.rows("rounds.csv", _ROUND | types, "a row per round:")
        self._rows.write(row)

    def figures(self) -> dict[str, Any]:
        """Return the metrics of the run, and those of the same jobs under first come, first served."""
        gpus = self.replay.policy.cluster.gpus
        fixed = outcome(first_come(self.replay, self.options.seed))
        return self.replay.summary() | {"gpus": gpus, "first_come_first_served": fixed}

    def write(self, folder: RunFolder) -> None:
        """Write jobs and plots."""
        jobs = self.replay.job_results()
        folder.write_rows("jobs.csv", columns(JobRecord), map(asdict, jobs), "a row per job:")
        _plot(folder, self.replay.records, jobs)

    def print_summary(self) -> None:
        """Print the table of metrics."""
        one, missed = self.summary, self.summary["rounds_missed"]
        fixed = self._outcome(one["first_come_first_served"])
        solve = [record.solve_seconds for record in self.replay.records] or [float("nan")]
        both = [(*row, other) for row, (_, other) in zip(self._outcome(one), fixed, strict=True)]
        rows = [
            ("rounds", f"{one['rounds']}" + (f", {missed} missed" if missed else "")),
            ("solve time, p50 / p99", f"{seconds(np.median(solve))} / {seconds(np.percentile(solve, 99))}"),
            ("policy time, p50 / p99", f"{seconds(one['policy_p50_s'])} / {seconds(one['policy_p99_s'])}"),
            ("certified gap of the relaxation, largest", f"{one['max_gap']:.1e}"),
            (
                "integrality loss, median / largest",
                f"{one['integrality_loss_median']:.2%} / {one['integrality_loss_max']:.2%}",
            ),
            ("integral churn, mean", f"{one['integral_churn']:.1%}"),
            ("run time", seconds(one["wall_seconds"])),
        ]
        if one["rounds_proven"] is not None:
            rows.insert(-1, ("rounds proven optimal", f"{one['rounds_proven']:.2%}"))
        table(
            f"{len(self.replay.jobs)} jobs on {self.replay.policy.cluster.gpus} GPUs",
            ("figure", "Sia (copter)", "first come, first served"),
            [*both, *((*row, "") for row in rows)],
        )

    def _outcome(self, one: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return rows for the metrics of :func:`~copter.problems.sia.replay.outcome`."""
        gpus = self.replay.policy.cluster.gpus
        return [
            ("jobs completed", f"{one['jobs_completed']} of {len(self.replay.jobs)}"),
            ("average JCT", f"{one['average_jct_hours']:.3f} h"),
            ("p99 JCT", f"{one['p99_jct_hours']:.2f} h"),
            ("makespan", f"{one['makespan_hours']:.2f} h"),
            ("mean GPUs in use", f"{one['utilisation'] * gpus:.0f} ({one['utilisation']:.1%})"),
            ("restarts per job", f"{one['restarts_per_job']:.2f}"),
        ]


def first_come(replay: Replay, seed: int) -> Simulator:
    """Play the jobs of a replay in order of arrival, each with a fixed number of GPUs until it completes.

    The simulator, the profiles and the rounds are those of the replay.  A job that is not rigid gets GPUs and
    batch size by the rule of :class:`~copter.problems.cluster.traces.tuned.TunedJobs`, unless its workload
    has them.  `seed`: seed of the choice among the valid pairs of a job.
    """
    simulator = replay.simulator
    scenario = simulator.scenario
    jobs = TunedJobs(scenario.cluster).tune(scenario.jobs, scenario.profiles, np.random.default_rng(seed))
    policy = FirstCome(round_seconds=replay.round_seconds)
    played = Simulator(
        Scenario(scenario.cluster, jobs, scenario.profiles), policy, max_hours=replay.max_hours
    )
    for _ in played.run():
        pass
    return played


def _plot(folder: RunFolder, records: Sequence[SiaRecord], jobs: Sequence[JobRecord]) -> None:
    hours = np.array([record.time for record in records]) / 3600.0

    def of(name: str) -> np.ndarray:
        return np.array([getattr(record, name) for record in records], float)

    types = records[0].utilisation_by_type if records else {}
    shares = {type: [100.0 * record.utilisation_by_type[type] for record in records] for type in types}
    folder.save_figure(
        "utilisation.png",
        over_time(hours, shares, "GPUs given to jobs (%)", "Utilisation by GPU type", limits=(0.0, 105.0)),
        "GPUs given to jobs by GPU type, over simulated time",
    )
    folder.save_figure(
        "queue.png",
        over_time(
            hours, {"waiting": of("queue"), "running": of("running")}, "jobs", "Jobs waiting and running"
        ),
        "jobs without and with GPUs, over simulated time",
    )
    folder.save_figure(
        "solve_time.png",
        round_times(hours, of),
        "milliseconds of edit, solve and shim in each round, over simulated time",
    )
    complete: dict[str, list[float]] = {"all": []}
    for job in jobs:
        if job.jct == job.jct:
            complete["all"].append(job.jct / 3600.0)
            complete.setdefault(job.category or "other", []).append(job.jct / 3600.0)
    folder.save_figure(
        "jct_cdf.png",
        cumulative(complete, "job completion time (hours)", "Job completion times"),
        "cumulative distribution of the job completion times, by category",
    )
