"""Command: `copter run placement` plays tasks that arrive one by one, by the authors' protocol."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from copter.cli.command import RunOptions
from copter.cli.options import existing_file, policies_option
from copter.cli.solvers import Names


def _policies() -> list[str]:
    from copter.problems.placement.online.policy import policy_names

    return policy_names()


@dataclass(frozen=True, kw_only=True)
class PlacementRunOptions(RunOptions):
    """Place tasks on servers as they arrive, and report the share of allocated GPUs by demand.

    Each task of the list arrives once, in random order; then tasks are drawn from the list until their demand
    is 1.3 times the GPUs. A task that fits is placed and never moves; a task that does not fit is not tried
    again. This is the protocol of FGD's authors.
    """

    examples: ClassVar[str] = """\b
Examples:
  copter run placement --nodes nodes.csv --tasks pods.csv --policy fgd,copter --seeds 3
  copter run placement --nodes nodes.csv --tasks pods.csv --policy all --out runs/mix
  copter run placement --nodes nodes.csv --tasks pods.csv --policy copter --half --json
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

    def execute(self) -> None:
        """Play all policies and seeds, under a progress bar."""
        from copter.problems.placement.experiment import Experiment
        from copter.problems.placement.report import run_placement

        experiment = Experiment.read(self.nodes, self.tasks, half=self.half)
        run_placement(experiment, self.policies, range(self.seed, self.seed + self.seeds), self)


COMMANDS = {"run placement": PlacementRunOptions}
