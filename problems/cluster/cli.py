"""`copter run cluster` and `copter bench cluster`: any scheduler on any trace, compared and swept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from copter.cli.command import command
from copter.cli.console import progress
from copter.problems.cluster.names import NAMED_SWEEPS
from copter.problems.cluster.options import ClusterBenchOptions, ClusterRunOptions, parse_value

if TYPE_CHECKING:
    from copter.problems.cluster.experiment import Conditions
    from copter.problems.cluster.report import ClusterRun

_RUN_EXAMPLES = """\b
Examples:
  copter run cluster --policy sia,gavel --seeds 3
  copter run cluster --cluster homogeneous-64 --trace helios --policy sia,pollux,shockwave --seeds 10
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
    """Run the command.

    Parameters
    ----------
    options : ClusterRunOptions
    """
    conditions = options.conditions()
    from copter.cli.run import conclude
    from copter.problems.cluster.report import ClusterRun

    with ClusterRun(conditions, options, options.folder("cluster")) as run:
        _follow(run, conditions, options)
        conclude(run)


def _follow(run: ClusterRun, conditions: Conditions, options: ClusterRunOptions) -> None:
    """Play all policies and seeds, each under a progress bar of completed jobs."""
    bar = progress("{task.fields[hour]:6.1f} h", "queue {task.fields[queue]:4d}", quiet=options.as_json)
    with bar:
        for name in options.policies:
            task = bar.add_task(name, total=None, hour=0.0, queue=0)
            run.warm_up(conditions, name)
            for seed in options.all_seeds():
                simulator = conditions.simulator(name, seed)
                bar.reset(task, total=simulator.admitted, description=f"{name} seed {seed}")
                for record in simulator.run():
                    queue = record.jobs - record.running
                    bar.update(task, completed=simulator.completed, hour=record.time / 3600.0, queue=queue)
                bar.update(task, completed=simulator.completed)
                run.take(name, seed, simulator)


def bench_cluster(options: ClusterBenchOptions) -> None:
    """Run the sweep.

    Parameters
    ----------
    options : ClusterBenchOptions
    """
    from copter.problems.cluster.sweep import run_sweep

    words = [text.strip() for text in options.values.split(",")]
    run_sweep(options, words if options.sweep in NAMED_SWEEPS else [parse_value(text) for text in words])
