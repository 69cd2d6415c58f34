"""Command: `copter run placement` plays tasks that arrive one by one, by the authors' protocol."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from copter.cli.command import RunOptions, command
from copter.cli.console import progress
from copter.cli.options import existing_file, policies_option
from copter.cli.solvers import Names

_EXAMPLES = """\b
Examples:
  copter run placement --nodes nodes.csv --tasks pods.csv --policy fgd,copter --seeds 3
  copter run placement --nodes nodes.csv --tasks pods.csv --policy all --out runs/mix
  copter run placement --nodes nodes.csv --tasks pods.csv --policy copter --half --json
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the command of this domain to the group `copter run`."""
    run.command("placement", epilog=_EXAMPLES)(command(_PlacementRunOptions, _run_placement))


def _policies() -> list[str]:
    from copter.problems.placement.online.policy import policy_names

    return policy_names()


@dataclass(frozen=True, kw_only=True)
class _PlacementRunOptions(RunOptions):
    """Place tasks on servers as they arrive, and report the share of allocated GPUs by demand.

    Each task of the list arrives once, in random order; then tasks are drawn from the list until their demand
    is 1.3 times the GPUs. A task that fits is placed and never moves; a task that does not fit is not tried
    again. This is the protocol of FGD's authors.
    """

    nodes: Annotated[
        Path,
        typer.Option(
            callback=existing_file("give a CSV of sn,cpu_milli,memory_mib,gpu,model"),
            help="CSV of servers: sn, cpu_milli, memory_mib, gpu, model.",
        ),
    ]
    tasks: Annotated[
        Path,
        typer.Option(
            callback=existing_file("give a CSV of name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"),
            help="CSV of tasks: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec (allowed models).",
        ),
    ]
    policies: Annotated[Names, policies_option(_policies)] = Names(("fgd", "copter"))
    seeds: Annotated[int, typer.Option(min=1, help="Number of orders of the tasks, from --seed on.")] = 1
    half: Annotated[
        bool,
        typer.Option(
            "--half",
            help="Give policies one random half of the task list; arriving tasks are from the other half.",
            show_default=False,
        ),
    ] = False


def _run_placement(options: _PlacementRunOptions) -> None:
    """Play all policies and seeds, under a progress bar."""
    from copter.cli.run import conclude
    from copter.problems.placement.experiment import Experiment
    from copter.problems.placement.report import PlacementRun

    experiment = Experiment.read(options.nodes, options.tasks, half=options.half)
    seeds = range(options.seed, options.seed + options.seeds)
    with PlacementRun(experiment, options, options.folder("placement")) as run:
        with progress("{task.fields[now]}", quiet=options.as_json) as bar:
            line = bar.add_task("policies and seeds", total=len(options.policies) * len(seeds), now="")
            for name in options.policies:
                for seed in seeds:
                    bar.update(line, now=f"{name} seed {seed}")
                    run.take(name, seed, experiment.play(name, seed))
                    bar.advance(line)
        conclude(run)
