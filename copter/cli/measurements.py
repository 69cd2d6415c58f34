"""`copter bench churn`, `copter bench updates` and `copter bench lp`: benchmarks without a domain.

They measure rounds in which few of many requests change, edits compared with a new build of the same matrix,
and a folder of linear programs, each solved by the solver `auto` and by copter alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from copter.cli.command import BenchOptions, command
from copter.cli.console import publish, say, seconds, table
from copter.cli.options import JsonPath, Seed, positive

_SMALLEST = 1000
_CHURN_EXAMPLES = """\b
Examples:
  copter bench churn --columns 1000000 --changed 1
  copter bench churn --columns 1000000 --changed 50 --solvers copter,highs-hot --json churn.json
"""
_UPDATES_EXAMPLES = """\b
Examples:
  copter bench updates
  copter bench updates --sizes 100000,1000000 --json updates.json
"""
_LP_EXAMPLES = """\b
Examples:
  copter bench lp netlib --deadline 10 --out netlib.md
  copter bench lp models --json models.json
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this module."""
    bench.command("churn", epilog=_CHURN_EXAMPLES)(command(_ChurnOptions, churn))
    bench.command("updates", epilog=_UPDATES_EXAMPLES)(updates)
    bench.command("lp", epilog=_LP_EXAMPLES)(lp)


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


def updates(
    sizes: Annotated[
        str, typer.Option(help="Numbers of columns of the programs, separated by commas.")
    ] = "100000,300000,1000000,3000000,10000000",
    json_path: JsonPath = None,
    seed: Seed = 0,
) -> None:
    """Time edits of 1% of the requests, and compare with building the CSR matrix of all requests in scipy."""
    columns = _sizes(sizes)
    from copter.bench.machine import machine, moment
    from copter.bench.updates import RATIOS, measure_updates

    measured = moment()

    records = measure_updates(columns, seed, lambda size: say(f"measuring {size:,} columns"))
    document = {
        "machine": machine(),
        "measured": measured,
        "settings": {"sizes": columns, "seed": seed},
        "records": records,
        "summary": {
            **{f"smallest_{ratio}": min(record[ratio] for record in records) for ratio in RATIOS},
            "per_edit_largest_over_smallest_size": records[-1]["seconds_per_edit"]
            / records[0]["seconds_per_edit"],
        },
    }
    publish(document, json_path, lambda: _print_updates(records))


def _print_updates(records: Sequence[Mapping[str, Any]]) -> None:
    from copter.bench.updates import RATIOS

    table(
        "Edits of 1% of the requests, compared with building the CSR matrix of all requests in scipy",
        (
            "columns",
            "nonzeros",
            "edits",
            "on shared columns",
            "costs",
            "own columns",
            "one edit",
            "COO to CSR",
            "CSC to CSR",
            "COO / shared columns, costs, own",
            "CSC / shared columns, costs, own",
        ),
        (
            (
                f"{record['n_variables']:,}",
                f"{record['nnz']:,}",
                str(record["edits"]),
                seconds(record["edit_seconds"]),
                seconds(record["cost_edit_seconds"]),
                seconds(record["own_edit_seconds"]),
                seconds(record["seconds_per_edit"]),
                seconds(record["csr_rebuild_seconds"]),
                seconds(record["csr_from_csc_seconds"]),
                *(
                    ", ".join(f"{record[ratio]:.3g}x" for ratio in RATIOS if ratio.startswith(build))
                    for build in ("rebuild", "csc")
                ),
            )
            for record in records
        ),
    )


def _sizes(text: str) -> list[int]:
    sizes = []
    for part in text.split(","):
        try:
            size = int(part.strip().replace("_", ""))
        except ValueError:
            raise typer.BadParameter(
                f"{part.strip()!r} must be an integer; write sizes like 100000,1000000", param_hint="--sizes"
            ) from None
        if size < _SMALLEST:
            raise typer.BadParameter(f"{size} must be at least {_SMALLEST} columns", param_hint="--sizes")
        sizes.append(size)
    return sorted(sizes)


def lp(
    folder: Annotated[
        Path,
        typer.Argument(
            exists=True,
            file_okay=False,
            metavar="FOLDER",
            help="Folder of MPS and LP files, plain or gzipped, and npz files with linprog's arguments.",
        ),
    ],
    limit: Annotated[
        float, typer.Option("--deadline", callback=positive, help="Seconds for each program and solver.")
    ] = 10.0,
    out: Annotated[Path | None, typer.Option(help="Write the table to this Markdown file.")] = None,
    json_path: JsonPath = None,
) -> None:
    """Solve every linear program of a folder by copter, and by HiGHS for reference."""
    from copter.bench.lp import files_in, markdown, measure, summary
    from copter.bench.machine import machine

    paths = files_in(folder)
    if not paths:
        raise typer.BadParameter(f"{folder} has no MPS, LP or npz file", param_hint="FOLDER")
    records = measure(paths, limit, say)
    totals = summary(records)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(markdown(records))
    settings = {"limit": limit, "programs": len(records)}
    document = {"machine": machine(), "settings": settings, "records": records, "summary": totals}
    publish(document, json_path, lambda: _print_programs(records, totals))


def _print_programs(records: Sequence[Mapping[str, Any]], totals: Mapping[str, Any]) -> None:
    table(
        "Linear programs: status by HiGHS, and times; copter's status is shown if it differs",
        ("program", "HiGHS", "", "copter"),
        (
            (
                record["name"],
                record["highs"]["status"],
                seconds(record["highs"]["seconds"]),
                ("" if record["copter"]["right"] else f"{record['copter']['status']}, ")
                + seconds(record["copter"]["seconds"]),
            )
            for record in records
        ),
        text_columns=2,
    )
    kinds = ("optimal", "infeasible", "unbounded")
    table(
        "Correct results within the time limit",
        (*kinds, "wrong"),
        [(*(f"{totals[kind]} of {totals[f'of_{kind}']}" for kind in kinds), str(totals["wrong"]))],
    )
