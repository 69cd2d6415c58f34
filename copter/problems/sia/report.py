"""`copter run sia`: rounds and jobs in its folder, metrics next to first come, first served, and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from copter.bench.report.model import Claim, Picture, ReportTable, simple_table
from copter.bench.settings import SolverSettings
from copter.cli.command import RunOptions
from copter.cli.console import seconds
from copter.cli.plots import cumulative, over_time, round_times
from copter.cli.run import ROUNDS, Run, follow, preparing
from copter.cli.runfolder import Rows
from copter.problems.cluster.results import JobRecord, columns
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.traces.tuned import TunedJobs
from copter.problems.cluster.workload import Scenario
from copter.problems.policies.first_come import FirstCome
from copter.problems.sia.generator import generate
from copter.problems.sia.replay import Replay, SiaRecord, outcome

_JOBS = "jobs.csv"
_FILES = {
    ROUNDS: Rows("a row per round:", columns(SiaRecord), "share of this type's GPUs that jobs have"),
    _JOBS: Rows("a row per job:", columns(JobRecord)),
}


def run_sia(replay: Replay, chosen: SolverSettings, options: RunOptions) -> None:
    """Play a replay under a progress bar, and report it; `chosen` are the settings of its solver."""
    cluster = replay.policy.cluster
    shape = {type.name: [type.gpus_per_node, type.nodes] for type in cluster.types}
    config = {"jobs": len(replay.jobs), "cluster (GPUs per node, nodes)": shape}

    def rounds() -> Iterator[SiaRecord]:
        for record in replay.run():
            run.write(ROUNDS, record.as_row())
            yield record

    def show(record: SiaRecord) -> str:
        there = f"{record.queue:4d} jobs wait, {record.utilisation:4.0%} of GPUs used"
        return f"hour {record.time / 3600.0:4.1f}: {there}, solved in {seconds(record.solve_seconds)}"

    def sections() -> Iterator[Claim]:
        jobs = replay.job_results()
        for job in jobs:
            run.write(_JOBS, asdict(job))
        yield Claim("pictures", "Rounds and jobs", pictures=tuple(_pictures(replay.records, jobs)))

    title = f"Sia policy: {len(replay.jobs)} jobs on {cluster.gpus} GPUs"
    with Run(options, "sia", title, _FILES, config) as run:
        preparing(chosen.name)
        _warm_up(chosen)
        jobs = len(replay.jobs)
        follow(rounds(), "jobs", jobs, show, done=lambda: replay.completed, quiet=options.quiet)
        fixed = outcome(first_come(replay, options.seed))
        summary = replay.summary() | {"gpus": cluster.gpus, "first_come_first_served": fixed}
        run.end(summary, [_table(replay, summary, run.wall_seconds)], sections, solver=chosen.name)


def _warm_up(chosen: SolverSettings) -> None:
    """Replay a few jobs first, so that compilation does not count in a round's time."""
    scenario = generate(gpus=256, jobs_per_day=1440, hours=0.2)
    for _ in Replay(scenario, chosen.make(), max_hours=0.3).run():
        pass


def _table(replay: Replay, one: Mapping[str, Any], wall_seconds: float) -> ReportTable:
    gpus, missed = one["gpus"], one["rounds_missed"]

    def outcome_of(each: Mapping[str, Any]) -> list[str]:
        return [
            f"{each['jobs_completed']} of {len(replay.jobs)}",
            f"{each['average_jct_hours']:.3f} h",
            f"{each['p99_jct_hours']:.2f} h",
            f"{each['makespan_hours']:.2f} h",
            f"{each['utilisation'] * gpus:.0f} ({each['utilisation']:.1%})",
            f"{each['restarts_per_job']:.2f}",
        ]

    heads = "jobs completed, average JCT, p99 JCT, makespan, mean GPUs in use, restarts per job".split(", ")
    both = zip(heads, outcome_of(one), outcome_of(one["first_come_first_served"]), strict=True)
    solve = [record.solve_seconds for record in replay.records] or [float("nan")]
    loss = f"{one['integrality_loss_median']:.2%} / {one['integrality_loss_max']:.2%}"
    proven = one["rounds_proven"]
    rows = [
        ("rounds", f"{one['rounds']}" + (f", {missed} missed" if missed else "")),
        ("solve time, p50 / p99", f"{seconds(np.median(solve))} / {seconds(np.percentile(solve, 99))}"),
        ("policy time, p50 / p99", f"{seconds(one['policy_p50_s'])} / {seconds(one['policy_p99_s'])}"),
        ("certified gap of the relaxation, largest", f"{one['max_gap']:.1e}"),
        ("integrality loss, median / largest", loss),
        ("integral churn, mean", f"{one['integral_churn']:.1%}"),
        *([] if proven is None else [("rounds proven optimal", f"{proven:.2%}")]),
        ("run time", seconds(wall_seconds)),
    ]
    return simple_table(
        f"{len(replay.jobs)} jobs on {gpus} GPUs",
        ("figure", "Sia (copter)", "first come, first served"),
        [*both, *((*row, "") for row in rows)],
    )


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


def _pictures(records: Sequence[SiaRecord], jobs: Sequence[JobRecord]) -> Iterator[Picture]:
    hours = np.array([record.time for record in records]) / 3600.0

    def of(name: str) -> np.ndarray:
        return np.array([getattr(record, name) for record in records], float)

    types = records[0].utilisation_by_type if records else {}
    shares = {type: [100.0 * record.utilisation_by_type[type] for record in records] for type in types}
    given = "GPUs given to jobs (%)"
    yield over_time("utilisation", hours, shares, given, "Utilisation by GPU type", limits=(0.0, 105.0))
    queue = {"waiting": of("queue"), "running": of("running")}
    yield over_time("queue", hours, queue, "jobs", "Jobs waiting and running")
    yield round_times(hours, of)
    complete: dict[str, list[float]] = {"all": []}
    for job in jobs:
        if job.jct == job.jct:
            complete["all"].append(job.jct / 3600.0)
            complete.setdefault(job.category or "other", []).append(job.jct / 3600.0)
    yield cumulative("jct", complete, "job completion time (hours)", "Job completion times by category")
