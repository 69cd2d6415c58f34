"""`copter run load-balancing` and `copter bench load-balancing`: shards on servers, round by round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

import typer

from copter.cli.command import BenchOptions, CommandOptions, RunOptions, Solving
from copter.cli.console import seconds
from copter.cli.options import MipGap, Tolerance, existing_file, one_of, solver_option, solvers_option
from copter.cli.solvers import Names
from copter.problems.load_balancing import LOADS, METHODS, MODES, Loads, Mode
from copter.problems.pop import pop_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from copter.bench.case import Case
    from copter.bench.settings import Record
    from copter.problems.load_balancing.scenario import ShardScenario

_SHARDS, _ROUNDS, _A_SERVER = 1024, 100, 8


def _memory(value: float | None) -> float | None:
    if value is not None and not value >= 1:
        raise typer.BadParameter(f"{value:g}: must be at least 1, the size of a shard")
    return value


_Servers: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, help="Number of servers; default: one per 8 shards.", show_default=False),
]
_Memory: TypeAlias = Annotated[
    float | None,
    typer.Option(
        callback=_memory, help="Number of shards that fit on a server; default: twice the shards per server."
    ),
]
_Balance: TypeAlias = Annotated[
    float,
    typer.Option(
        "--balance",
        min=1e-3,
        max=0.5,
        help="Largest deviation of a server's load from the mean, relative to the mean.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class _Fleet(CommandOptions):
    """Options of servers, and of the balance of their loads."""

    servers: _Servers = None
    memory: _Memory = None
    balance: _Balance = 0.05

    def zipf(self, shards: int | None, mode: str | None, rounds: int | None) -> ShardScenario:
        """Return the scenario with Zipf loads of a number of shards."""
        from copter.problems.load_balancing.scenario import ShardScenario

        count = shards or _SHARDS
        kind: Mode = "stateful" if mode == "stateful" else "stateless"
        servers = self.servers or max(1, count // _A_SERVER)
        return ShardScenario(count, servers, rounds or _ROUNDS, kind, self.seed, self.memory, self.balance)


@dataclass(frozen=True, kw_only=True)
class BalancingRunOptions(_Fleet, Solving, RunOptions):
    """Keep the loads of servers balanced while loads of shards change, with few movements.

    Without --workload, loads have a Zipf distribution.  Its exponent is random in each round (stateless) or
    changes by 10% (stateful).
    """

    examples: ClassVar[str] = """\b
Examples:
  copter run load-balancing --shards 1024 --servers 128 --mode stateful --out runs/shards
  copter run load-balancing --workload loads.csv --servers 16 --memory 40 --json
  copter run load-balancing --shards 256 --servers 32 --solver heuristic
"""

    workload: Annotated[
        Path | None,
        typer.Option(
            callback=existing_file("give a CSV of round,shard,load, or omit it for Zipf"),
            help="CSV of loads: round, shard, load.",
        ),
    ] = None
    shards: Annotated[
        int | None, typer.Option(min=1, help=f"Number of shards with Zipf loads; default: {_SHARDS}.")
    ] = None
    servers: _Servers = None
    mode: Annotated[
        str | None,
        typer.Option(
            callback=one_of(MODES, "mode"),
            help=f"Changes of the Zipf exponent: {', '.join(MODES)}; default: {MODES[0]}.",
        ),
    ] = None
    rounds: Annotated[
        int | None, typer.Option(min=1, help=f"Number of rounds; default: {_ROUNDS}, or all of the workload.")
    ] = None
    solver: Annotated[str, solver_option(METHODS)] = "copter"
    tolerance: Tolerance = 1e-2
    mip_gap: MipGap = 0.05

    def __post_init__(self) -> None:
        if self.workload is not None and (self.shards is not None or self.mode is not None):
            name = "--shards" if self.shards is not None else "--mode"
            raise typer.BadParameter(
                "belongs to the Zipf loads: omit it, or omit --workload", param_hint=name
            )

    def scenario(self) -> ShardScenario:
        """Return the scenario: loads of the named file, or Zipf loads."""
        if self.workload is None:
            return self.zipf(self.shards, self.mode, self.rounds)
        from copter.problems.load_balancing.scenario import ShardScenario
        from copter.problems.load_balancing.workload import read_loads

        table = read_loads(self.workload)
        servers = self.servers or max(1, len(table.shards) // _A_SERVER)
        return ShardScenario.of_table(table, servers, self.rounds, self.memory, self.balance)

    def execute(self) -> None:
        """Play the rounds."""
        scenario = self.scenario()
        _check(scenario, [self.solver], "--solver")

        from copter.cli.run import COLUMNS, ROUNDS, Run, run_course
        from copter.cli.runfolder import Rows
        from copter.problems.load_balancing.course import MEANINGS, Balancing

        chosen, columns = self.solver_settings(self.solver), {**COLUMNS, **MEANINGS}
        title = f"Load balancing: {scenario.shards} shards on {scenario.servers} servers, {chosen.name}"

        def show(record: Record) -> str:
            moved = f"moves {record['movements']:4d} imbalance {record['imbalance']:6.1%}"
            return f"{moved} round {seconds(record['seconds'])}"

        with Run(self, "load-balancing", title, {ROUNDS: Rows("a row per round:", columns)}) as run:
            run_course(run, Balancing(scenario), chosen, columns, show, scenario.rounds)


def _check(scenario: ShardScenario, names: Iterable[str], option: str) -> None:
    """Raise an error if POP has more parts than there are servers, or the shards do not fit."""
    for name in names:
        if (pop_parts(name) or 0) > scenario.servers:
            raise typer.BadParameter(
                f"{name}: must have at most {scenario.servers} parts, one per server", param_hint=option
            )
    scenario.check()


@dataclass(frozen=True, kw_only=True)
class BalancingBenchOptions(_Fleet, BenchOptions):
    """Let each solver balance the same loads, each from its own last placement.

    With lognormal loads, sizes are lognormal too; with Zipf loads each shard has size 1.
    """

    examples: ClassVar[str] = """\b
Examples:
  copter bench load-balancing --shards 1024 --servers 128 --solvers copter,highs-hot,heuristic
  copter bench load-balancing --shards 2048 --servers 256 --mode stateful --solvers copter,pop-16
  copter bench load-balancing --shards 16384 --servers 256 --changed 1 --solvers copter
"""

    shards: Annotated[int, typer.Option(min=1, help="Number of shards.")] = _SHARDS
    servers: _Servers = None
    loads: Annotated[
        str, typer.Option(callback=one_of(LOADS, "distribution"), help=f"Loads: {', '.join(LOADS)}.")
    ] = LOADS[0]
    mode: Annotated[
        str,
        typer.Option(
            callback=one_of(MODES, "mode"), help=f"Changes of the Zipf exponent: {', '.join(MODES)}."
        ),
    ] = MODES[0]
    rounds: Annotated[
        int, typer.Option(min=1, help="Number of rounds; if above 20, the summary omits the first 20.")
    ] = _ROUNDS
    changed: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of random shards with a new load in each round; default: all.",
            show_default=False,
        ),
    ] = None
    solvers: Annotated[Names, solvers_option(METHODS)] = Names(("copter", "highs-hot", "heuristic"))
    tolerance: Tolerance = 1e-2
    mip_gap: MipGap = 0.05

    def __post_init__(self) -> None:
        # documents have the number of servers, also of the default
        object.__setattr__(self, "servers", self.servers or max(1, self.shards // _A_SERVER))

    def case(self) -> Case:
        """Return the case of the scenario."""
        scenario = self.zipf(self.shards, self.mode, self.rounds)
        loads: Loads = "lognormal" if self.loads == "lognormal" else "zipf"
        scenario = replace(scenario, changed=self.changed, distribution=loads)
        _check(scenario, self.solvers, "--solvers")

        from copter.bench.case import Case, as_it_is
        from copter.problems.load_balancing.course import Balancing

        kind = loads if loads == "lognormal" else scenario.mode
        title = f"Load balancing, {scenario.shards} shards on {scenario.servers} servers, {kind}"
        if self.changed is not None:
            title += f", {self.changed} of them with new loads"
        return Case("shards", "shards", title, partial(as_it_is, Balancing(scenario)), own_rounds=True)


COMMANDS = {"run load-balancing": BalancingRunOptions, "bench load-balancing": BalancingBenchOptions}
