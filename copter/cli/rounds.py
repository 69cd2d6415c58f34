"""`copter check`, and the commands `copter run` and `copter bench` for domains that declare no commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

import typer

from copter.cli.command import BenchOptions, CommandOptions, RunOptions, WithDocument
from copter.cli.console import progress, publish, say, seconds, table
from copter.cli.options import SolverName, TimeLimit

if TYPE_CHECKING:
    from copter.bench.case import Case
    from copter.rounds.record import RoundRecord

_Rounds: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Number of rounds, with random events of the domain.")
]


@dataclass(frozen=True, kw_only=True)
class CheckOptions(WithDocument, CommandOptions):
    """Check a domain: play random rounds with failures, and test that it follows the protocol of domains."""

    examples: ClassVar[str] = """\b
Examples:
  copter check mydomain:Domain
  copter check sia
  copter check docs/examples/rides.py:Rides --rounds 500 --seed 3
"""

    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="Its name, module:Name or file.py:Name.")]
    rounds: _Rounds = 100
    seconds: Annotated[
        float, typer.Option(min=0.0, help="Time limit; no round begins later, except the first one.")
    ] = 45.0
    solver: SolverName = "copter"

    def execute(self) -> None:
        """Check the domain.

        Raises
        ------
        CheckError
            If a check failed. The message contains the smallest failing sequence of events.
        """
        from copter.rounds.check import KINDS, check_domain
        from copter.rounds.named import domain_named

        make = domain_named(self.domain)
        with progress("{task.fields[now]}", quiet=self.quiet) as bar:
            task = bar.add_task("rounds", total=self.rounds, now="")
            counts = check_domain(
                make,
                rounds=self.rounds,
                seed=self.seed,
                solver=self.solver,
                seconds=self.seconds,
                progress=lambda played, now: bar.update(task, completed=played, now=now),
            )
            played = sum(counts[kind] for kind in KINDS)
            bar.update(task, completed=played, now="")
        wanted = {"rounds": played, "rounds_wanted": self.rounds}
        found = {"domain": self.domain, "passed": True, **wanted, "counts": dict(counts)}
        rows = [(name, str(count)) for name, count in counts.items()]
        title, heads = f"{self.domain} passed all checks", ("kind of round, or check", "count")
        publish(found, self.json_path, lambda: table(title, heads, rows))
        if played < self.rounds:
            say(f"played {played} of {self.rounds} rounds in {self.seconds:g} s; --seconds sets the limit")


@dataclass(frozen=True, kw_only=True)
class DomainRunOptions(RunOptions):
    """Play rounds of a domain with random events, and report the results."""

    domain: str
    rounds: _Rounds = 20
    solver: SolverName = "copter"
    time_limit: TimeLimit = None
    journal: Annotated[
        Path | None, typer.Option(help="SQLite file for the rounds, from which the next run continues.")
    ] = None

    def execute(self) -> None:
        """Play the rounds of the domain."""
        from copter.bench.domain import events_of
        from copter.cli.run import ROUNDS, PlayedRounds, Run, end_rounds, follow, preparing
        from copter.cli.runfolder import Rows
        from copter.rounds.named import domain_named, fresh
        from copter.rounds.record import ROW_MEANS
        from copter.rounds.rounds import Rounds

        domain, played = fresh(domain_named(self.domain)), PlayedRounds()
        name, title = self.domain.rpartition(":")[2].lower(), f"Rounds of {self.domain}"
        rows = Rows("a row per round:", ROW_MEANS, "figure of the domain")
        with (
            Rounds(domain, self.solver, time_limit=self.time_limit, journal=self.journal) as rounds,
            Run(self, name, title, {ROUNDS: rows}) as run,
        ):
            preparing(self.solver)
            rounds.warm_up()

            def play() -> Iterator[RoundRecord]:
                for events in events_of(domain, self.rounds, self.seed + rounds.number):
                    record = rounds.play(*events)
                    played.records.append(record.row())
                    run.write(ROUNDS, record.row())
                    yield record

            def show(record: RoundRecord) -> str:
                return f"{record.path} {seconds(record.seconds.total)}"

            follow(play(), "rounds", self.rounds, show, quiet=self.quiet)
            end_rounds(run, played, self.solver)


@dataclass(frozen=True, kw_only=True)
class DomainBenchOptions(BenchOptions):
    """Measure solvers on rounds of a domain with random events."""

    domain: str
    rounds: _Rounds = 20

    def case(self) -> Case:
        """Return the rounds of the domain."""
        from copter.bench.case import Case, as_it_is
        from copter.bench.domain import DomainCourse
        from copter.rounds.named import domain_named

        domain_named(self.domain)
        course = DomainCourse(self.domain, self.rounds, self.seed)
        title = f"Rounds of {self.domain}"
        return Case(self.domain, "domain", title, partial(as_it_is, course), own_rounds=True)


GENERAL = {"run": DomainRunOptions, "bench": DomainBenchOptions}
"""Options of the commands of a domain that declares no commands."""
