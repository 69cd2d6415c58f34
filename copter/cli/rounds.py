"""`copter check`, `copter run` and `copter bench` for a domain given as ``module:Name``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from copter.cli.command import BenchOptions, CommandOptions, RunOptions, command
from copter.cli.console import print_json, progress, say, seconds, table
from copter.cli.options import Deadline, SolverName

if TYPE_CHECKING:
    from copter.rounds.record import RoundRecord

CHECK_EXAMPLES = """\b
Examples:
  copter check mydomain:Domain
  copter check sia
  copter check docs/examples/rides.py:Rides --rounds 500 --seed 3
"""
_Domain: TypeAlias = Annotated[
    str, typer.Argument(metavar="DOMAIN", help="module:Name, file.py:Name, or its name.")
]
_Rounds: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Number of rounds, with random events of the domain.")
]


@dataclass(frozen=True, kw_only=True)
class CheckOptions(CommandOptions):
    """Check a domain: play random rounds with failures, and test that it keeps the protocol of domains."""

    domain: _Domain
    rounds: _Rounds = 100
    seconds: Annotated[
        float, typer.Option(min=0.0, help="Time limit; no round begins later, and the first one always ends.")
    ] = 45.0
    solver: SolverName = "copter"
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False


def check(options: CheckOptions) -> None:
    """Check a domain; if a check fails, exit with 1 and print the smallest failing sequence of events."""
    from copter.rounds.check import KINDS, check_domain
    from copter.rounds.named import domain_named

    make = domain_named(options.domain)
    bar = progress("{task.fields[now]}", quiet=options.as_json)
    with bar:
        task = bar.add_task("rounds", total=options.rounds, now="")
        counts = check_domain(
            make,
            rounds=options.rounds,
            seed=options.seed,
            solver=options.solver,
            seconds=options.seconds,
            progress=lambda played, now: bar.update(task, completed=played, now=now),
        )
        played = sum(counts[kind] for kind in KINDS)
        bar.update(task, completed=played, now="")
    if options.as_json:
        wanted = {"rounds": played, "rounds_wanted": options.rounds}
        print_json({"domain": options.domain, "passed": True, **wanted, "counts": dict(counts)})
        return
    rows = [(name, str(count)) for name, count in counts.items()]
    table(f"{options.domain} passed all checks", ("kind of round, or check", "count"), rows)
    if played < options.rounds:
        say(f"played {played} of {options.rounds} rounds in {options.seconds:g} s; --seconds sets the limit")


@dataclass(frozen=True, kw_only=True)
class DomainRunOptions(RunOptions):
    """Play rounds of a domain with random events, and report the results."""

    rounds: _Rounds = 20
    solver: SolverName = "copter"
    deadline: Deadline = None
    journal: Annotated[
        Path | None, typer.Option(help="SQLite file of the rounds; the next run continues from it.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class DomainBenchOptions(BenchOptions):
    """Measure solvers on rounds of a domain with random events."""

    rounds: _Rounds = 20


def domain_command(which: str, name: str) -> Any:
    """Return the command `copter run NAME` or `copter bench NAME` of a domain (:func:`domain_named`)."""
    app = typer.Typer(rich_markup_mode=None)
    if which == "run":
        app.command(name)(command(DomainRunOptions, partial(_run, name)))
    else:
        app.command(name)(command(DomainBenchOptions, partial(_bench, name)))
    return typer.main.get_command(app)


def _run(name: str, options: DomainRunOptions) -> None:
    """Play the rounds of a domain."""
    from copter.bench.domain import events_of
    from copter.cli.run import RoundsRun, conclude, follow, preparing
    from copter.rounds.named import domain_named, fresh
    from copter.rounds.record import ROW_MEANS
    from copter.rounds.rounds import Rounds

    domain = fresh(domain_named(name))
    folder, title = options.folder(name.rpartition(":")[2].lower()), f"Rounds of {name}"
    with (
        Rounds(domain, options.solver, deadline=options.deadline, journal=options.journal) as rounds,
        RoundsRun(options, folder, title, ROW_MEANS, None, config={"domain": name}) as run,
    ):
        preparing(options.solver)
        rounds.warm_up()

        def played() -> Any:
            for events in events_of(domain, options.rounds, options.seed + rounds.number):
                record = rounds.play(*events)
                run.take(record.row())
                yield record

        def show(record: RoundRecord) -> str:
            return f"{record.path} {seconds(record.seconds.total)}"

        follow(played(), "rounds", options.rounds, show, quiet=options.as_json)
        conclude(run, solver=options.solver)


def _bench(name: str, options: DomainBenchOptions) -> None:
    """Measure solvers on the rounds of a domain."""
    from copter.bench.case import Case, as_it_is
    from copter.bench.domain import DomainCourse
    from copter.cli.bench import bench
    from copter.rounds.named import domain_named

    domain_named(name)
    course = DomainCourse(name, options.rounds, options.seed)
    make: Callable[[Path], Any] = partial(as_it_is, course)
    bench(Case(name, "domain", f"Rounds of {name}", make, own_rounds=True), options)
