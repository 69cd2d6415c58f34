"""`copter run cluster` and `copter bench cluster`: any scheduler on any trace, compared and swept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from copter.cli.command import command
from copter.cli.console import progress
from copter.problems.cluster.names import NAMED_SWEEPS
from copter.problems.cluster.options import ClusterBenchOptions, ClusterRunOptions, parse_value

if TYPE_CHECKING:
    from rich.progress import TaskID

    from copter.problems.cluster.report import ClusterRun
    from copter.spreading.tasks import Spread, Task

_RUN_EXAMPLES = """\b
Examples:
  copter run cluster --policy sia,gavel --seeds 3
  copter run cluster --cluster homogeneous-64 --trace helios --policy sia,pollux,shockwave --seeds 10
  copter run cluster --policy sia,pollux,gavel --seeds 10 --ray
  copter run cluster --trace philly --data shared/data --policy afs-l,srtf,tiresias --json
  copter run cluster --policy sia --set sia.p=-1 --estimator bootstrap --failures 24
"""
_BENCH_EXAMPLES = """\b
Examples:
  copter bench cluster --sweep jobs --values 80,160,240,320 --policy sia,pollux
  copter bench cluster --sweep round-seconds --values 30,60,120,300 --policy sia --json rounds.json
  copter bench cluster --sweep sia.p --values=-1,-0.5,0.5,1 --policy sia
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this domain.

    Parameters
    ----------
    run, bench : typer.Typer
        The groups `copter run` and `copter bench`.
    """
    run.command("cluster", epilog=_RUN_EXAMPLES)(command(ClusterRunOptions, run_cluster))
    bench.command("cluster", epilog=_BENCH_EXAMPLES)(command(ClusterBenchOptions, bench_cluster))


def run_cluster(options: ClusterRunOptions) -> None:
    """Run the command."""
    from copter.cli.run import conclude
    from copter.problems.cluster.report import ClusterRun

    with options.spread() as spread, ClusterRun(options, options.folder("cluster")) as run:
        _follow(run, spread, options)
        conclude(run)


def _follow(run: ClusterRun, spread: Spread, options: ClusterRunOptions) -> None:
    """Play all policies and seeds, each under a progress bar of completed jobs."""
    from copter.problems.cluster.playing import Progress, run_tasks

    bar = progress("{task.fields[hour]:6.1f} h", "queue {task.fields[queue]:4d}", quiet=options.as_json)
    lines: dict[Task, TaskID] = {}
    idle: dict[str, list[TaskID]] = {}

    def show(task: Task, now: Progress) -> None:
        free = idle.setdefault(now.policy, [])
        if task not in lines:
            lines[task] = free.pop() if free else bar.add_task(now.policy, total=None, hour=0.0, queue=0)
            bar.reset(lines[task], total=now.total, description=f"{now.policy} seed {now.seed}")
        bar.update(lines[task], completed=now.completed, hour=now.hour, queue=now.queue)
        if now.over:  # the policy's next seed takes its line
            free.append(lines[task])

    with bar:
        for ended in spread.each(run_tasks(options.setup(), options.policies, options.all_seeds()), show):
            run.take(ended.result())


def bench_cluster(options: ClusterBenchOptions) -> None:
    """Run the sweep."""
    from copter.problems.cluster.sweep import run_sweep

    words = [text.strip() for text in options.values.split(",")]
    run_sweep(options, words if options.sweep in NAMED_SWEEPS else [parse_value(text) for text in words])
