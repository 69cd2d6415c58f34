"""`copter bench churn`: a benchmark without a domain, of rounds in which few of many requests change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from copter.cli.command import BenchOptions, command
from copter.cli.options import Seed

_CHURN_EXAMPLES = """\b
Examples:
  copter bench churn --columns 1000000 --changed 1
  copter bench churn --columns 1000000 --changed 50 --solvers copter,highs-hot --json churn.json
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the command of this module."""
    bench.command("churn", epilog=_CHURN_EXAMPLES)(command(_ChurnOptions, churn))


@dataclass(frozen=True, kw_only=True)
class _ChurnOptions(BenchOptions):
    """Measure rounds in which few of many requests get new costs: 20 columns per request, 16 resources."""

    columns: Annotated[int, typer.Option(min=40, help="Number of columns of the program.")] = 1_000_000
    changed: Annotated[int, typer.Option(min=0, help="Number of requests that change in each round.")] = 1
    own: Annotated[
        bool, typer.Option("--own", help="Give each request its own coefficients, instead of shared columns.")
    ] = False
    rounds: Annotated[int, typer.Option(min=10, help="Number of rounds; the first 8 are a warm-up.")] = 40
    seed: Seed = 0


def churn(options: _ChurnOptions) -> None:
    """Run the benchmark."""
    from copter.bench.lines import changes_case
    from copter.cli.bench import bench

    case = changes_case(options.columns, options.changed, options.own, options.rounds, options.seed)
    bench(case, options)
