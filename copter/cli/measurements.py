"""`copter bench churn`: a benchmark without a domain, of rounds in which few of many requests change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from copter.cli.command import BenchOptions

if TYPE_CHECKING:
    from copter.bench.case import Case


@dataclass(frozen=True, kw_only=True)
class ChurnOptions(BenchOptions):
    """Measure rounds in which few of many requests get new costs: 20 columns per request, 16 resources."""

    examples: ClassVar[str] = """\b
Examples:
  copter bench churn --columns 1000000 --changed 1
  copter bench churn --columns 1000000 --changed 50 --solvers copter,highs-hot --json churn.json
"""

    columns: Annotated[int, typer.Option(min=40, help="Number of columns of the program.")] = 1_000_000
    changed: Annotated[int, typer.Option(min=0, help="Number of requests that change in each round.")] = 1
    own: Annotated[
        bool, typer.Option("--own", help="Give each request its own coefficients, instead of shared columns.")
    ] = False
    rounds: Annotated[int, typer.Option(min=10, help="Number of rounds; the first 8 are a warm-up.")] = 40

    def case(self) -> Case:
        """Return the case of these rounds."""
        from copter.bench.lines import changes_case

        return changes_case(self.columns, self.changed, self.own, self.rounds, self.seed)


COMMANDS = {"bench churn": ChurnOptions}
