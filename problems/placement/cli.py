"""Commands: `copter run placement` plays tasks that arrive one by one, by the authors' protocol.

`copter bench placement` times rounds of many tasks, by the number of servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from copter.cli.command import CommandOptions, RunOptions, command
from copter.cli.console import progress, publish, say, seconds, table
from copter.cli.options import JsonPath, existing_file, policies_option, positive
from copter.cli.solvers import Names

_EXAMPLES = """\b
Examples:
  copter run placement --nodes nodes.csv --tasks pods.csv --policy fgd,copter --seeds 3
  copter run placement --nodes nodes.csv --tasks pods.csv --policy all --out runs/mix
  copter run placement --nodes nodes.csv --tasks pods.csv --policy copter --half --json
"""
_BENCH_EXAMPLES = """\b
Examples:
  copter bench placement --nodes nodes.csv --tasks pods.csv
  copter bench placement --nodes nodes.csv --tasks pods.csv --servers 100480 --baselines none --json
  rounds.json
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this domain to the groups `copter run` and `copter bench`."""
    run.command("placement", epilog=_EXAMPLES)(command(_PlacementRunOptions, _run_placement))
    bench.command("placement", epilog=_BENCH_EXAMPLES)(command(_PlacementBenchOptions, _bench_placement))


def _policies() -> list[str]:
    from copter.problems.placement.online.policy import policy_names

    return policy_names()


@dataclass(frozen=True, kw_only=True)
class _Lists(CommandOptions):
    """Lists of servers and tasks in their authors' format."""

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


@dataclass(frozen=True, kw_only=True)
class _PlacementRunOptions(_Lists, RunOptions):
    """Place tasks on servers as they arrive, and report the share of allocated GPUs by demand.

    Each task of the list arrives once, in random order; then tasks are drawn from the list until their demand
    is 1.3 times the GPUs. A task that fits is placed and never moves; a task that does not fit is not tried
    again. This is the protocol of FGD's authors.
    """

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


def _sizes(text: str) -> str:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = [0]
    if min(sizes) < 1:
        raise typer.BadParameter(f"{text!r}: must be numbers of servers, such as 100,1000")
    return text


def _baselines(text: str) -> str:
    from copter.problems.placement.rounds.scale import BASELINES

    for name in text.split(","):
        if name not in (*BASELINES, "none"):
            raise typer.BadParameter(f"{name!r}: must be one of {', '.join(BASELINES)}, none")
    return text


@dataclass(frozen=True, kw_only=True)
class _PlacementBenchOptions(_Lists):
    """Time rounds of a full cluster with arriving and leaving tasks, by the number of servers.

    Servers and tasks are drawn from the lists. Before each round a hundredth of the running tasks leaves, and
    as many arrive; more tasks wait than fit. The baselines place the same rounds: CvxCluster's two stages
    (cvxpy with Clarabel) and branch and bound (HiGHS). A baseline is stopped after its first round above the
    limit.
    """

    servers: Annotated[str, typer.Option(callback=_sizes, help="Numbers of servers, with commas.")] = (
        "100,1000,10048"
    )
    rounds: Annotated[int, typer.Option(min=1, help="Timed rounds, after three for warm-up.")] = 5
    baselines: Annotated[
        str, typer.Option(callback=_baselines, help="Baselines: two-stages, highs, both, or none.")
    ] = "two-stages,highs"
    gap: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Largest relative gap of a round.")] = 0.01
    limit: Annotated[
        float,
        typer.Option(
            "--deadline", callback=positive, help="Seconds after which a baseline's round is too slow."
        ),
    ] = 60.0
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random draws.")] = 0
    json_path: JsonPath = None


def _bench_placement(options: _PlacementBenchOptions) -> None:
    """Run the benchmark."""
    from dataclasses import asdict

    from copter.bench.machine import machine
    from copter.problems.placement.rounds.scale import measure
    from copter.problems.placement.servers import read_servers
    from copter.problems.placement.tasks import read_tasks

    sizes = measure(
        read_servers(options.nodes),
        read_tasks(options.tasks),
        [int(part) for part in options.servers.split(",")],
        rounds=options.rounds,
        baselines=[name for name in options.baselines.split(",") if name != "none"],
        gap=options.gap,
        limit=options.limit,
        seed=options.seed,
        say=say,
    )
    found = [asdict(size) for size in sizes]
    publish({"machine": machine(), "sizes": found}, options.json_path, lambda: _print(found))


def _print(sizes: list[dict[str, Any]]) -> None:
    """Print a row for each number of servers and system."""
    rows = []
    for size in sizes:
        for name, its in size["systems"].items():
            own = name == "copter"
            rows.append(
                (
                    f"{size['servers']:,}",
                    name,
                    f"{size['tasks']:,}",
                    f"{size['changed']:,}",
                    seconds(median(its["seconds"])),
                    seconds(max(its["seconds"])),
                    f"{100 * max(its['short']):.2f}",
                    seconds(median(size["edit"])) if own else "",
                    seconds(median(size["alone"])) if own else "",
                )
            )
    table(
        "Rounds of a full cluster, medians and largest times",
        ("servers", "system", "tasks", "changed", "round", "at most", "short by (%)", "edit", "task alone"),
        rows,
        text_columns=2,
    )
