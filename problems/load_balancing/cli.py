"""`copter run load-balancing` and `copter bench load-balancing`: shards on servers, round by round."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from copter.cli.console import errors, print_json, progress, seconds
from copter.cli.options import (
    Deadline,
    Isolate,
    JsonFlag,
    JsonPath,
    MipGap,
    Seed,
    Threads,
    Tolerance,
    existing_file,
    solver_option,
    solvers_option,
)
from copter.cli.solvers import split_solvers

if TYPE_CHECKING:
    from copter.problems.load_balancing.report import BalancingRun
    from copter.problems.load_balancing.scenario import Scenario

METHODS = ("heuristic", "pop-K")
_SHARDS, _ROUNDS, _A_SERVER = 1024, 100, 8

_RUN_EXAMPLES = """\b
Examples:
  copter run load-balancing --shards 1024 --servers 128 --mode stateful --out runs/shards
  copter run load-balancing --workload loads.csv --servers 16 --memory 40 --json
  copter run load-balancing --shards 256 --servers 32 --solver heuristic
"""
_BENCH_EXAMPLES = """\b
Examples:
  copter bench load-balancing --shards 1024 --servers 128 --solvers copter,highs-hot,heuristic
  copter bench load-balancing --shards 2048 --servers 256 --mode stateful --solvers copter,pop-16
"""


class Mode(StrEnum):
    """How the Zipf exponent changes."""

    stateless = "stateless"
    stateful = "stateful"


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this domain."""
    run.command("load-balancing", epilog=_RUN_EXAMPLES)(run_load_balancing)
    bench.command("load-balancing", epilog=_BENCH_EXAMPLES)(bench_load_balancing)


def _memory(value: float | None) -> float | None:
    if value is not None and not value >= 1:
        raise typer.BadParameter(f"{value:g} must be at least 1, the size of a shard")
    return value


Servers = Annotated[
    int | None, typer.Option(min=1, help="Servers; one for every 8 shards if not given.", show_default=False)
]
Memory = Annotated[
    float | None,
    typer.Option(
        callback=_memory, help="Shards that fit on a server; twice the shards a server if not given."
    ),
]
Balance = Annotated[
    float,
    typer.Option(
        "--balance",
        min=1e-3,
        max=0.5,
        help="How far the load of a server may be off the mean, relative to it.",
    ),
]


def run_load_balancing(
    workload: Annotated[
        Path | None,
        typer.Option(
            callback=existing_file("give a CSV of round,shard,load, or leave it out for Zipf"),
            help="CSV of loads: round, shard, load.",
        ),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help=f"Shards of the Zipf loads; {_SHARDS} if not given.")
    ] = None,
    servers: Servers = None,
    mode: Annotated[
        Mode | None, typer.Option(help="How the Zipf exponent changes; stateless if not given.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help=f"Rounds; {_ROUNDS}, or all of the workload, if not given.")
    ] = None,
    memory: Memory = None,
    balance: Balance = 0.05,
    solver: Annotated[str, solver_option(METHODS)] = "copter",
    tolerance: Tolerance = 1e-2,
    mip_gap: MipGap = 0.05,
    deadline: Deadline = None,
    threads: Threads = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder; runs/load-balancing-<time>, or with --json none, if not given."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Keep the loads of servers balanced while those of the shards change, with few movements.

    Without --workload, the loads are Zipf: its exponent is drawn anew each round (stateless) or moves by 10%
    (stateful).
    """
    if workload is not None and (shards is not None or mode is not None):
        name = "--shards" if shards is not None else "--mode"
        raise typer.BadParameter("belongs to the Zipf loads: leave it out, or --workload", param_hint=name)
    settings = {
        "workload": str(workload) if workload else None,
        "shards": shards,
        "servers": servers,
        "mode": mode,
        "rounds": rounds,
        "memory": memory,
        "balance": balance,
        "solver": solver,
        "tolerance": tolerance,
        "mip_gap": mip_gap,
        "deadline": deadline,
        "threads": threads,
        "seed": seed,
    }
    scenario = _scenario(workload, shards, servers, mode, rounds, memory, balance, seed)
    from copter.bench.rounds import SolverSettings, warm_up
    from copter.cli.runfolder import default_path
    from copter.problems.load_balancing.course import Balancing
    from copter.problems.load_balancing.report import BalancingRun

    _check_parts([solver], scenario.servers, "--solver")
    scenario.check()
    chosen, course = SolverSettings(solver, tolerance, deadline, threads, mip_gap), Balancing(scenario)
    path = out if out is not None or as_json else default_path("load-balancing")
    with BalancingRun(course, chosen, path, [Path(sys.argv[0]).name, *sys.argv[1:]], settings) as run:
        errors().print(f"preparing {solver} (the first run ever compiles its kernels)")
        warm_up(course, chosen)
        _follow(run, quiet=as_json)
        summary = {"solver": solver, **run.finish()}
    if as_json:
        print_json(summary)
        return
    run.print_summary()
    errors().print(f"Run folder: {path}")


def _scenario(
    workload: Path | None,
    shards: int | None,
    servers: int | None,
    mode: Mode | None,
    rounds: int | None,
    memory: float | None,
    balance: float,
    seed: int,
) -> Scenario:
    from copter.problems.load_balancing.scenario import Scenario
    from copter.problems.load_balancing.workload import read_loads

    if workload is not None:
        table = read_loads(workload)
        fitting = servers or max(1, len(table.shards) // _A_SERVER)
        return Scenario.of_table(table, fitting, rounds, memory, balance)
    count = shards or _SHARDS
    fitting = servers or max(1, count // _A_SERVER)
    kind = Mode.stateless if mode is None else mode
    return Scenario(count, fitting, rounds or _ROUNDS, kind.value, seed, memory, balance)


def _check_parts(names: list[str], servers: int, option: str) -> None:
    for name in names:
        if name.startswith("pop-") and int(name.removeprefix("pop-")) > servers:
            raise typer.BadParameter(
                f"{name} needs as many servers, and there are {servers}", param_hint=option
            )


def _follow(run: BalancingRun, quiet: bool) -> None:
    """Play all rounds under a progress bar."""
    bar = progress(
        "moves {task.fields[moves]:4d}",
        "imbalance {task.fields[imbalance]:6.1%}",
        "round {task.fields[time]}",
        quiet=quiet,
    )
    with bar:
        task = bar.add_task("rounds", total=run.course.scenario.rounds, moves=0, imbalance=0.0, time="-")
        for record in run.rounds():
            bar.update(
                task,
                advance=1,
                moves=record["movements"],
                imbalance=record["imbalance"],
                time=seconds(record["t_total"]),
            )


def bench_load_balancing(
    shards: Annotated[int, typer.Option(min=1, help="Shards, each of size 1.")] = _SHARDS,
    servers: Servers = None,
    mode: Annotated[Mode, typer.Option(help="How the Zipf exponent changes.")] = Mode.stateless,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds; of more than 20 the first 20 are left out of the summary.")
    ] = _ROUNDS,
    solvers: Annotated[str, solvers_option(METHODS)] = "copter,highs-hot,heuristic",
    json_path: JsonPath = None,
    memory: Memory = None,
    balance: Balance = 0.05,
    tolerance: Tolerance = 1e-2,
    mip_gap: MipGap = 0.05,
    deadline: Deadline = None,
    threads: Threads = None,
    seed: Seed = 0,
    isolate: Isolate = True,
) -> None:
    """Let each solver balance the same Zipf loads, every one from its own last placement."""
    names = split_solvers(solvers)
    scenario = _scenario(None, shards, servers, mode, rounds, memory, balance, seed)
    _check_parts(names, scenario.servers, "--solvers")
    scenario.check()
    settings = {
        "shards": shards,
        "servers": scenario.servers,
        "mode": mode,
        "rounds": rounds,
        "solvers": names,
        "memory": memory,
        "balance": balance,
        "tolerance": tolerance,
        "mip_gap": mip_gap,
        "deadline": deadline,
        "threads": threads,
        "seed": seed,
        "isolate": isolate,
    }
    from copter.cli.bench_report import measure_all, report
    from copter.problems.load_balancing.course import Balancing

    course = Balancing(scenario)
    measured, failures = measure_all(course, settings)
    title = f"Load balancing, {shards} shards on {scenario.servers} servers, {mode}"
    report(title, course, settings, measured, failures, json_path)
