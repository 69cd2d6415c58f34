"""`copter run placement`: tasks that come one by one to a cluster of servers, by the authors' protocol."""

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
    run.command("placement", epilog=_EXAMPLES)(command(PlacementRunOptions, run_placement))


def _policies() -> list[str]:
    from copter.problems.placement.policy import policy_names

    return policy_names()


@dataclass(frozen=True, kw_only=True)
class PlacementRunOptions(RunOptions):
    """Place tasks on servers as they come, and see what share of the GPUs is allocated by demand.

    Tasks come in random order, each once, and are drawn again until 1.3 times the GPUs are asked for; what
    fits is placed, nothing moves, and what does not fit is not tried again. That is the protocol of FGD's
    authors.
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
            help="CSV of tasks: name, cpu_milli, memory_mib, num_gpu, gpu_milli, and models as gpu_spec.",
        ),
    ]
    policies: Annotated[Names, policies_option(_policies)] = Names(("fgd", "copter"))
    seeds: Annotated[int, typer.Option(min=1, help="Orders of the tasks, from --seed on.")] = 1
    half: Annotated[
        bool,
        typer.Option(
            "--half",
            help="Policies know one half of the tasks, and those that come are of the other.",
            show_default=False,
        ),
    ] = False


def run_placement(options: PlacementRunOptions) -> None:
    """Play all policies and seeds under a progress bar."""
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
